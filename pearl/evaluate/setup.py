"""Prepares an evaluation from the user's choices: its questions, its methods, and its job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pearl.commaqa.model import read_model
from pearl.commaqa.search import SearchBudget, SearchMode
from pearl.evaluate.datasets import draw_sample, find_dataset
from pearl.evaluate.datasets.base import Dataset, Example
from pearl.evaluate.datasets.reading import OWN
from pearl.evaluate.evaluation_job import REASON_LABELS, Trials, trial_tasks
from pearl.evaluate.methods import METHODS, find_method
from pearl.evaluate.methods.base import (
    EXECUTE,
    LIBRARY,
    STEPWISE,
    STEPWISE_LIBRARY,
    UNREFINED,
    EvaluationContext,
    HopSearch,
    Method,
    PlanningSetup,
    describe,
    load_tool_file,
    own_actions,
    planned_with,
    setups_in_use,
)
from pearl.evaluate.methods.strategies import NO_REFINEMENT, with_sizes
from pearl.evaluate.results import PROMPT_SET
from pearl.jobs.answer_metrics import Graded, Metric, find_metric, with_grader
from pearl.jobs.job import Job
from pearl.jobs.question_file import comparable
from pearl.jobs.workers import TaskList
from pearl.lang.errors import InputError
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse, parse_known
from pearl.lang.source import Source
from pearl.lang.text import counted
from pearl.lang.values import digest
from pearl.mining import refine
from pearl.mining.condense import condense
from pearl.models.base import OFFLINE, Model
from pearl.models.embeddings import choose_embedding
from pearl.models.routing import planner_of, readers_of, with_library
from pearl.retrieval.index import open_index
from pearl.runtime.context import Context
from pearl.strategies.pearl import (
    choose_demonstrations,
    load_demonstrations,
    seed_demonstrations,
    shipped_folder,
)
from pearl.strategies.preparation import NEEDS_MODEL, has_subplans
from pearl.strategies.registry import DEFAULT_LIMITS, NONE_SHOWN, Limits, OwnStrategy
from pearl.strategies.retrieving import MOST

_T = TypeVar("_T")


@dataclass(frozen=True)
class Sample:
    """The questions of an evaluation.

    Args:
        dataset: their data set.
        path: its file.
        split: their splits, with commas, or ``all``.
        examples: the questions.
        notes: what a reader must know about how they were chosen, in whole sentences.
        folder: the folder of the documents; empty for the file's own.
    """

    dataset: Dataset
    path: str
    split: str
    examples: Sequence[Example]
    notes: tuple[str, ...] = ()
    folder: str = ""

    @property
    def title(self) -> str:
        """The data set's title, with the splits."""
        if self.split == "all":
            return self.dataset.title
        *most, last = self.split.split(",")
        splits = f"{', '.join(most)} and {last} splits" if most else f"{last} split"
        return f"{self.dataset.title}, {splits}"

    @property
    def counts(self) -> str:
        """The numbers of questions and of documents, in words."""
        documents = len({example.document.digest for example in self.examples})
        return f"{counted(len(self.examples), 'question')}, {counted(documents, 'document')}"

    def check(self, methods: Sequence[Method], shared: EvaluationContext, model: Model) -> None:
        """Check that each method can answer each question.

        Raises:
            InputError: a method lacks something that it needs.
        """
        for method in methods:
            reasons = [words for item in self.examples if (words := method.lacks(shared, item))]
            lacking = reasons[0] if reasons else ""
            # A missing option of the command concerns all questions alike: no count is needed.
            if 0 < len(reasons) < len(self.examples) or len({*reasons}) > 1:
                of = counted(len(self.examples), "question")
                lacking += f" It cannot answer {len(reasons):,} of {of}."
            if method.needs_model and planner_of(model).name == OFFLINE:
                lacking = NEEDS_MODEL
            if lacking:
                raise InputError(f"{method.name} {lacking}")
            shortens = self.dataset.short and method.prose
            if shortens and readers_of(model)[0].name == OFFLINE:
                raise InputError(
                    f"{self.dataset.title} wants short answers, and shortening those of "
                    f"{method.name} {NEEDS_MODEL}"
                )


def read_sample(
    name: str,
    path: str,
    split: str = "all",
    limit: int = 0,
    folder: str = "",
    drawn: int = 0,
    seed: int = 1,
) -> Sample:
    """The questions to be evaluated.

    Args:
        name: the data set's name.
        path: its file.
        split: splits, with commas between them; ``all`` for every one.
        limit: take only the first so many questions; 0 for all.
        folder: the folder of the documents; empty for the file's own.
        drawn: how many of those to draw with `draw_sample`; 0 for all.
        seed: the seed of that draw.

    Raises:
        InputError: there is no such data set or split, its file cannot be used, it has too few
            questions, or the gold answer of one is not known.
    """
    dataset = find_dataset(name)
    if not path:
        raise InputError(f"{dataset.title}: name the file with --data ({dataset.where}).")
    try:
        examples = list(dataset.read(path, folder))
    except InputError:
        if dataset is OWN or not _is_own(path, folder):
            raise
        own = f"pearl eval {OWN.name} --data {path}"
        raise InputError(
            f"{path} has questions of your own, and none of {dataset.title}: {own} evaluates them."
        ) from None
    splits = split.split(",")
    there = dataset.splits or sorted({example.split for example in examples} - {"", "all"})
    for unknown in (part for part in splits if part not in (*there, "all")):
        known = ", ".join((*there, "all"))
        raise InputError(f"{dataset.title} has no split {unknown}: use one of {known}.")
    if "all" not in splits:
        examples = [example for example in examples if example.split in splits]
    if not examples:
        raise InputError(f"{path} has no question in the split {split}: name another.")
    examples = examples[:limit] if limit else examples
    if drawn > len(examples):
        questions = counted(len(examples), "question")
        raise InputError(f"{drawn:,} questions cannot be drawn of {questions}: draw fewer.")
    examples = draw_sample(examples, drawn, seed) if drawn else examples
    for example in examples:
        if not example.gold:
            raise InputError(
                f"{path}: the right answer of question {example.id} is not known, so it cannot be "
                "scored: give a part of the data that has gold answers."
            )
    how = "drawn at random, of each split and category its share, with the seed"
    notes = (f"The questions were {how} {seed}.",) if drawn else ()
    return Sample(dataset, path, split, examples, notes, folder)


def _is_own(path: str, folder: str) -> bool:
    """Whether a file has questions in the format of `OWN`."""
    with suppress(InputError):
        return any(True for _ in OWN.read(path, folder))
    return False


@dataclass(frozen=True)
class Demonstrations:
    """Example plans for an evaluation.

    Args:
        refined: plans with their question.
        unrefined: the first versions of these plans; empty where they are not
            known.
        left_out: questions whose plans are not shown, as they are evaluated.
        seed: plans that are shown as well where a library can run few others.
        execute: plans with no other actions than EXECUTE and CONCAT.
    """

    refined: tuple[Source, ...]
    unrefined: tuple[Source, ...] = ()
    left_out: tuple[str, ...] = ()
    seed: tuple[Source, ...] = ()
    execute: tuple[Source, ...] = ()


def without_evaluated(
    demonstrations: Demonstrations, examples: Sequence[Example]
) -> Demonstrations:
    """Demonstrations without those whose question is to be evaluated.

    Otherwise the planner would be shown a plan that was refined until it answered that question.
    """
    evaluated = {comparable(example.question) for example in examples}

    def split(sources: tuple[Source, ...]) -> tuple[tuple[Source, ...], tuple[str, ...]]:
        questions = [(source, parse_known(source).plan.question) for source in sources]
        others = tuple(source for source, text in questions if comparable(text) not in evaluated)
        return others, tuple(text for _, text in questions if comparable(text) in evaluated)

    refined, left_out = split(demonstrations.refined)
    others = (demonstrations.unrefined, demonstrations.seed, demonstrations.execute)
    unrefined, seed, execute = (split(sources)[0] for sources in others)
    return Demonstrations(refined, unrefined, left_out, seed, execute)


def make_context(
    library: Library,
    demonstrations: Demonstrations,
    sizes: Sequence[int] = (),
    stepwise: Demonstrations | None = None,
) -> EvaluationContext:
    """What the methods of an evaluation share.

    Libraries of several sizes have the same demonstrations: those that all of them can run, where
    there are any.

    Args:
        library: the actions that plans may call.
        demonstrations: demonstrations of other questions (`without_evaluated`).
        sizes: numbers of actions that the library is also condensed to.
        stepwise: demonstrations for decompositions, where the library and ``demonstrations`` are
            for whole plans; None where they are for decompositions.
    """

    def setup(library: Library, sources: Sequence[Source]) -> PlanningSetup:
        shown = choose_demonstrations(sources, library, seed=demonstrations.seed)
        return PlanningSetup(library, shown)

    setups = {
        LIBRARY: setup(library, demonstrations.refined),
        UNREFINED: setup(library, demonstrations.unrefined),
        EXECUTE: setup(load_library(EXECUTE), demonstrations.execute),
    }
    # Actions that repeat their last parameter cannot be merged, so that every size has them, like
    # the builtins.
    fixed = {name: own for name, own in library.actions.items() if own.is_builtin or own.variadic}
    others = [action for name, action in library.actions.items() if name not in fixed]
    kept = sum(not action.is_builtin for action in fixed.values())
    for size in sizes:
        small = {own.name: own for own in condense(others, max(size - kept, 1)).actions}
        names = (*library.names, f"condensed to {size:,}")
        setups[f"@{size}"] = setup(Library(names, {**fixed, **small}), demonstrations.refined)
    sized = (LIBRARY, *(f"@{size}" for size in sizes))
    questions = [{shown.question for shown in setups[name].demonstrations} for name in sized]
    if common := set.intersection(*questions):
        for name in sized:
            same = tuple(demo for demo in setups[name].demonstrations if demo.question in common)
            setups[name] = replace(setups[name], demonstrations=same)
    if stepwise is not None:
        setups[STEPWISE] = setup(load_library(STEPWISE_LIBRARY), stepwise.refined)
    return EvaluationContext(setups=setups)


@dataclass(frozen=True)
class Preparation:
    """A prepared evaluation.

    Args:
        sample: the questions.
        methods: the names of the methods.
        shared: what the methods share.
        notes: what a reader must know about the preparation, in whole sentences.
    """

    sample: Sample
    methods: tuple[str, ...]
    shared: EvaluationContext
    notes: tuple[str, ...] = ()

    def job(
        self,
        model: Model,
        fit: Callable[[Model], Context],
        *,
        reasoning: bool = False,
        shown: str = "",
        named: Sequence[str] = (),
    ) -> tuple[Job, Model]:
        """The job of one model.

        Args:
            model: the model that answers.
            fit: gives how much fits a prompt of these models.
            reasoning: whether the model also labels each question's kind of reasoning.
            shown: the name of this set of demonstrations, where there are several.
            named: which of ``library`` and ``demos`` the user named for this evaluation.

        Returns:
            The job, and the model together with those that actions of the libraries name.

        Raises:
            InputError: there is no method of a name, or it lacks something that it needs.
        """
        sample, shared, methods = self.sample, self.shared, self.methods
        model = with_library(model, [setup.library for setup in shared.setups.values()])
        model = with_grader(model, shared.metric)
        context = fit(model)
        chosen = [find_method(name, shared.own) for name in methods]
        sample.check(chosen, shared, model)
        _refuse_unused(chosen, shared, named)
        if reasoning and readers_of(model)[0].name == OFFLINE:
            raise InputError(f"--reasoning {NEEDS_MODEL}")
        every = (*methods, *((REASON_LABELS,) if reasoning else ()))
        library, path, examples = shared.setups[LIBRARY].library, sample.path, sample.examples
        set_shown = [[PROMPT_SET, shown]] if shown else []
        evaluation: dict[str, Any] = {
            "title": sample.title,
            "about": [
                *set_shown,
                ["data", f"{path}, {sample.counts}"],
                *describe(chosen, shared, context),
            ],
            "methods": list(methods),
            "asked": dict(Counter(example.split for example in examples)),
            "notes": [*filter(None, [model.notice]), *self.notes, *sample.notes],
            "planned_with": planned_with(chosen, shared),
        }
        head = {
            "questions": path,
            "count": len(examples),
            **({"documents": sample.folder} if sample.folder else {}),
            "split": sample.split,
            "methods": ", ".join(every),
            "library": ", ".join(library.names),
            "evaluation": evaluation,
        }
        fingerprint = {
            "data": str(Path(path).resolve()),
            "examples": digest([example.id for example in examples]),
            "methods": every,
            "library": library.digest,
            "kit": digest([shared.digest(name) for name in every]),
            "context": [context.policy, context.window, context.reply],
        }
        name = sample.dataset.name
        tasks = TaskList(tuple(trial_tasks(examples, every, shared, name)))
        trials = Trials(name, shared)
        return Job("eval", head, fingerprint, tasks, trials, context, fail=trials.fail), model


def prepare_methods(
    sample: Sample,
    library: Library,
    methods: Sequence[str] = (),
    sizes: Sequence[int] = (),
    folder: str = "",
    named: Sequence[str] = (),
    equip: Callable[[EvaluationContext], EvaluationContext] = lambda context: context,
) -> Preparation:
    """Prepare an evaluation.

    Args:
        sample: the questions.
        library: the actions of plans.
        methods: names of methods; empty for those that suit the data set.
        sizes: also run PEARL with the library condensed to each of these numbers of actions.
        folder: the folder of demonstrations; empty for those that ship.
        named: the libraries that the user named; empty where none were.
        equip: adds what else methods share.

    Raises:
        InputError: something that was named cannot be used.
    """
    dataset, examples = sample.dataset, sample.examples
    methods, sizes, sized = with_sizes(methods or dataset.methods, sizes, library)
    shipped = shipped_folder(named, dataset.demonstrations)
    shown = without_evaluated(_demonstrations(folder, shipped, methods), examples)
    stepwise = None
    # A library that the user or the data set names is for every method, decompositions included.
    if not (named or dataset.libraries):
        plans = load_demonstrations(folder, STEPWISE_LIBRARY)
        # A folder with demonstrations only for whole plans leaves decompositions the shipped ones.
        if not choose_demonstrations(plans, load_library(STEPWISE_LIBRARY)):
            plans = load_demonstrations("", STEPWISE_LIBRARY)
        stepwise = without_evaluated(Demonstrations(plans), examples)
    shared = equip(make_context(library, shown, sizes, stepwise=stepwise))
    larger = tuple(
        f"pearl@{size} has {count:,} actions: no fewer can say what the library's do."
        for size in sizes
        if (count := own_actions(shared.setups[f"@{size}"].library)) > size
    )
    notes = (*_notes(methods, shared, shown, stepwise), *sized, *larger)
    return Preparation(sample, methods, shared, notes)


def with_options(
    context: EvaluationContext,
    *,
    metric: Metric = "",
    own: Mapping[str, OwnStrategy] = MappingProxyType({}),
    learned: str = "",
    search: SearchMode = "best-first",
    index: str = "",
    passages: int | None = None,
    tools: str = "",
    width: int | None = None,
    depth: int | None = None,
    calls: int | None = None,
    shown: int = 0,
    examples: int = 0,
    turns: bool = False,
) -> EvaluationContext:
    """What methods share, with options of ``pearl eval`` added.

    Raises:
        InputError: an option cannot be used.
    """
    if not 0 <= (passages or 0) <= MOST:
        raise InputError(f"A look-up gives at most {MOST} passages, not {passages}.")
    budget = _with_set(SearchBudget, width=width, depth=depth, calls=calls)
    return replace(
        context,
        metric=find_metric(metric),
        own=own,
        search=HopSearch(read_model(learned) if learned else None, search, budget, learned),
        retriever=open_index(index) if index else None,
        limits=_with_set(Limits, depth=depth, calls=calls),
        tools=load_tool_file(tools),
        embed=choose_embedding(),
        shown=shown,
        examples=examples,
        turns=turns,
        passages=passages or 0,
    )


def _refuse_unused(
    methods: Sequence[Method], shared: EvaluationContext, named: Sequence[str]
) -> None:
    """Refuse an option that none of the methods uses, as a report would show it nevertheless.

    Raises:
        InputError: an option that was set is not used.
    """
    search, limits = shared.search or HopSearch(), shared.limits
    usual = HopSearch()
    nested = has_subplans(*(setup.library for setup in shared.setups.values()))
    is_set = {
        "turns": shared.turns,
        "tools": shared.tools is not None,
        "learned": bool(search.learned),
        "search": search.mode != usual.mode,
        "width": search.budget.width != usual.budget.width,
        "depth": limits.depth != DEFAULT_LIMITS.depth and not nested,
        "calls": limits.calls != DEFAULT_LIMITS.calls,
        "shown": bool(shared.shown),
        "passages": bool(shared.passages),
        "index": shared.retriever is not None,
        # Grading by a rubric asks for structured output as well.
        "examples": bool(shared.examples) and not isinstance(shared.metric, Graded),
        "library": "library" in named,
        "demos": "demos" in named,
    }
    used = {name for method in methods for name in method.uses}
    for name in (name for name in is_set if is_set[name] and name not in used):
        users = ", ".join(method.name for method in METHODS if name in method.uses)
        raise InputError(f"None of the methods uses --{name}: leave it out, or add one of {users}.")


def _with_set(make: Callable[..., _T], **options: Any) -> _T:  # noqa: ANN401 - as `make` takes them
    """An object made from the options that are not None."""
    return make(**{name: value for name, value in options.items() if value is not None})


def _demonstrations(folder: str, shipped: str, methods: Sequence[str]) -> Demonstrations:
    """The demonstrations of a folder, with their first versions where a method needs them."""
    refined = load_demonstrations(folder, shipped)
    seed, execute = seed_demonstrations(folder, shipped), load_demonstrations("", EXECUTE)
    if NO_REFINEMENT not in methods:
        return Demonstrations(refined, seed=seed, execute=execute)
    if not folder:
        raise InputError(
            f"{NO_REFINEMENT} needs demonstrations that were refined: make some with pearl "
            "refine, and name their folder with --demos."
        )
    unrefined = load_demonstrations(str(Path(folder) / refine.UNREFINED))
    return Demonstrations(refined, unrefined, seed=seed, execute=execute)


def _notes(
    methods: Sequence[str],
    shared: EvaluationContext,
    shown: Demonstrations,
    stepwise: Demonstrations | None,
) -> Iterator[str]:
    """Notes on demonstrations that methods are not shown, with the reasons."""
    users = setups_in_use([find_method(name, shared.own) for name in methods], shared)
    sets = [(LIBRARY, shown, "")] if users.keys() - {STEPWISE} else []
    if stepwise is not None and STEPWISE in users:
        sets.append((STEPWISE, stepwise, f" of {', '.join(users[STEPWISE])}"))
    for setup, given, of in sets:
        if given.left_out:
            count = counted(len(given.left_out), "demonstration")
            yield f"{count}{of} left out, as the questions are evaluated."
        # The user's library may be in use with other demonstrations alone.
        if setup not in users:
            continue
        used = {demo.question for demo in shared.setups[setup].demonstrations}
        if not used:
            yield NONE_SHOWN if given.refined else "None is left to be shown."
        elif unused := sum(parse(plan).plan.question not in used for plan in given.refined):
            yield (
                f"{counted(unused, 'demonstration')}{of} not shown: the library lacks their "
                "actions, or they do not fit the prompt."
            )
    same = shared.setups[UNREFINED].demonstrations == shared.setups[LIBRARY].demonstrations
    if NO_REFINEMENT in methods and same:
        yield f"No demonstration was refined, so {NO_REFINEMENT} is the same as pearl."
