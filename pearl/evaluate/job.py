"""From a data set's file and the methods' names to a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pearl.context import Context
from pearl.evaluate.about import told_plannings, told_settings
from pearl.evaluate.datasets import Dataset, Example
from pearl.evaluate.methods import Kit, Planning
from pearl.evaluate.methods.base import EXECUTE, LIBRARY, STEPWISE, UNREFINED
from pearl.evaluate.trials import (
    REASON_LABELS,
    Trials,
    asked_of,
    find_method,
    kit_digest,
    trial_tasks,
)
from pearl.jobs import Job, Listed
from pearl.library import Library, load_library
from pearl.mining.condense import condense
from pearl.passes import DEFAULT_PASSES
from pearl.planner import choose_demonstrations
from pearl.source import InputError, Source
from pearl.syntax import parse
from pearl.values import digest


@dataclass(frozen=True)
class Demonstrations:
    """Example plans for an evaluation.

    Args:
        refined: plans with their question.
        unrefined: the same as they were written first; empty where they are
            not known.
        left_out: questions that are evaluated, so that their plans are not
            shown.
    """

    refined: tuple[Source, ...]
    unrefined: tuple[Source, ...] = ()
    left_out: tuple[str, ...] = ()


def choose_examples(
    dataset: Dataset, path: str, split: str, limit: int = 0, folder: str = ""
) -> list[Example]:
    """The questions to be evaluated.

    Args:
        dataset: the data set.
        path: its file.
        split: one of its splits; ``all`` for every one.
        limit: how many at most, the first of the file; 0 for all.
        folder: where documents are; empty for the file's own.

    Raises:
        InputError: the file cannot be used, has no such question, or one
            whose right answer is not known.
    """
    if split not in (*dataset.splits, "all"):
        known = ", ".join((*dataset.splits, "all"))
        raise InputError(f"{dataset.title} has no split {split}: use one of {known}.")
    found = [one for one in dataset.read(path, folder) if split in ("all", one.split)]
    if not found:
        raise InputError(f"{path} has no question in the split {split}: name another.")
    found = found[:limit] if limit else found
    unknown = next((one for one in found if not one.gold), None)
    if unknown is not None:
        raise InputError(
            f"{path}: the right answer of question {unknown.id} is not known, so it cannot be "
            "scored: give a part of the data that has gold answers."
        )
    return found


def apart(demonstrations: Demonstrations, examples: Sequence[Example]) -> Demonstrations:
    """Demonstrations without those whose question is evaluated.

    A plan that was refined until its answer was right would otherwise be
    shown to the planner beside the very question it answers.

    Args:
        demonstrations: all there are.
        examples: the questions to be evaluated.
    """
    asked = {_folded(one.question) for one in examples}
    kept, left_out = _kept(demonstrations.refined, asked)
    unrefined, _ = _kept(demonstrations.unrefined, asked)
    return Demonstrations(kept, unrefined, left_out)


def make_kit(
    library: Library,
    demonstrations: Demonstrations,
    sizes: Sequence[int] = (),
    passes: tuple[str, ...] = DEFAULT_PASSES,
    stepwise: Demonstrations | None = None,
) -> Kit:
    """What methods share.

    Args:
        library: the actions that plans may call.
        demonstrations: none of an evaluated question (`apart`).
        sizes: numbers of actions that the library is also condensed to.
        passes: names of rewrites that plans go through.
        stepwise: what decompositions over passages are written after, where the library and
            the demonstrations are for whole plans; None where they are for decompositions.
    """
    refined = demonstrations.refined
    plannings = {
        LIBRARY: _planning(library, refined),
        UNREFINED: _planning(library, demonstrations.unrefined),
        EXECUTE: _planning(load_library("execute"), refined),
    }
    for size in sizes:
        plannings[f"@{size}"] = _planning(_condensed(library, size), refined)
    if stepwise is not None:
        plannings[STEPWISE] = _planning(load_library("open_domain"), stepwise.refined)
    return Kit(plannings, passes)


def evaluation_job(
    dataset: Dataset,
    path: str,
    split: str,
    examples: Sequence[Example],
    methods: Sequence[str],
    kit: Kit,
    context: Context,
    *,
    reasoning: bool = False,
    notes: Sequence[str] = (),
) -> Job:
    """Evaluating methods on a data set.

    Args:
        dataset: the data set.
        path: its file.
        split: the split that the examples are of.
        examples: the questions.
        methods: names; the first is what the others are compared with.
        kit: what they share.
        context: how much fits a prompt.
        reasoning: whether the model is to label each question's kind.
        notes: what a reader must know, in whole sentences.

    Raises:
        InputError: there is no such method, or it lacks what it needs.
    """
    for name in methods:
        lacking = find_method(name).lacks(kit, examples[0])
        if lacking:
            raise InputError(f"{name} {lacking}")
    every = (*methods, *((REASON_LABELS,) if reasoning else ()))
    library = kit.plannings[LIBRARY].library
    part = "" if split == "all" else f", {split} split"
    evaluation: dict[str, Any] = {
        "title": f"{dataset.title}{part}",
        "about": [
            [
                "data",
                f"{path}, {_counted(len(examples), 'question')}, "
                f"{_counted(_documents(examples), 'document')}",
            ],
            *told_plannings(methods, kit),
            *told_settings(methods, kit),
        ],
        "methods": list(methods),
        "asked": asked_of(examples),
        "notes": list(notes),
    }
    head = {
        "questions": path,
        "count": len(examples),
        "split": split,
        "methods": ", ".join(every),
        "library": ", ".join(library.names),
        "evaluation": evaluation,
    }
    known = {
        "data": str(Path(path).resolve()),
        "examples": digest([one.id for one in examples]),
        "methods": every,
        "library": library.digest,
        # Two settings are two runs, which stand side by side.
        "kit": digest([kit_digest(kit, name) for name in every]),
        "context": [context.policy, context.window, context.reply],
    }
    tasks = Listed(tuple(trial_tasks(examples, every, kit, dataset.name)))
    return Job("eval", head, known, tasks, Trials(dataset.name, kit), context)


def _planning(library: Library, sources: Sequence[Source]) -> Planning:
    return Planning(library, choose_demonstrations(sources, library))


def _condensed(library: Library, size: int) -> Library:
    """The library with so many actions beside the builtins."""
    own = {name: one for name, one in library.actions.items() if one.is_builtin}
    others = [one for one in library.actions.values() if not one.is_builtin]
    small = condense(others, size).actions
    names = (*library.names, f"condensed to {size:,}")
    return Library(names, {**own, **{one.name: one for one in small}})


def _kept(sources: Sequence[Source], asked: set[str]) -> tuple[tuple[Source, ...], tuple[str, ...]]:
    questions = [(one, parse(one).plan.question) for one in sources]
    kept = tuple(one for one, question in questions if _folded(question) not in asked)
    left_out = tuple(question for _, question in questions if _folded(question) in asked)
    return kept, left_out


def _folded(question: str) -> str:
    """A question in the form it is compared in: case, spaces and its last mark do not count."""
    return " ".join(question.split()).casefold().rstrip("?.! ")


def _documents(examples: Sequence[Example]) -> int:
    return len({one.document.digest for one in examples})


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s'[: number != 1]}"
