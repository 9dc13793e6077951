"""Plans written with older names of actions, rewritten for a library that replaces them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pearl.lang.ast import Action, Arg, Ref, Replaced, Step, Template, refs
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.printer import print_arg
from pearl.lang.source import Source
from pearl.mining.condense import substituted


@dataclass(frozen=True, slots=True)
class Change:
    """A step that calls another action now.

    Args:
        step: its name.
        old: what it called.
        new: what it calls.
        mapped: whether its arguments were written anew too.
    """

    step: str
    old: str
    new: str
    mapped: bool


@dataclass(frozen=True, slots=True)
class Migrated:
    """A plan after migration.

    Args:
        text: the plan; nothing but the changed calls differs from before.
        changes: every step that changed, in order.
        problems: one sentence for each step that should change and cannot.
    """

    text: str
    changes: tuple[Change, ...]
    problems: tuple[str, ...]


def migrate(plan: str | Source, library: Library) -> Migrated:
    """Rewrite a plan's calls of replaced actions.

    A call keeps its step's name, its note, its place and everything around it. What
    the plan itself declares is never touched.

    Args:
        plan: a plan, in any form that `parse` reads.
        library: says what its actions replace.
    """
    source = plan if isinstance(plan, Source) else Source("<plan>", plan)
    parsed = parse(source).plan
    own = {action.name for action in parsed.declares}
    older = _older(library)
    edits: list[tuple[int, int, str]] = []
    changes: list[Change] = []
    problems: list[str] = []
    for step in parsed.steps:
        if step.action in own:
            continue
        known = library.get(step.action)
        if known and _takes(known, len(step.args)):
            if known.name != step.action:
                edits.append((*step.action_span, known.name))
                changes.append(Change(step.name, step.action, known.name, mapped=False))
            continue
        found = older.get((step.action, len(step.args)))
        if found is None:
            problems += _unmapped(step, older, known)
            continue
        new, replaced = found
        call = f"{new.name}({_arguments(step, replaced)})"
        end = _end(source.text, step)
        if end < 0 or _clash(step, replaced):
            problems.append(f"{step.name} calls {step.action} in a way that cannot be mapped.")
            continue
        edits.append((step.action_span.start, end, call))
        changes.append(Change(step.name, step.action, new.name, mapped=True))
    text = source.text
    for start, end, words in sorted(edits, reverse=True):
        text = text[:start] + words + text[end:]
    return Migrated(text, tuple(changes), tuple(problems))


def _older(library: Library) -> dict[tuple[str, int], tuple[Action, Replaced]]:
    """What replaces a call, by its action's name and the number of its arguments."""
    found: dict[tuple[str, int], tuple[Action, Replaced]] = {}
    for action in library.actions.values():
        for one in action.replaces:
            found.setdefault((one.name, len(one.params)), (action, one))
    return found


def _takes(action: Action, count: int) -> bool:
    least = len(action.params)
    return count >= least if action.variadic else count == least


def _unmapped(step: Step, older: Iterable[tuple[str, int]], known: Action | None) -> list[str]:
    """What to say of a call that is replaced, with another number of arguments."""
    counts = sorted(count for name, count in older if name == step.action)
    if known and known.name != step.action:
        counts.append(len(known.params))
    if not counts:
        return []
    wanted = " or ".join(map(str, counts))
    return [
        f"{step.name} calls {step.action} with {len(step.args)} arguments, and it took {wanted}: "
        "mend the call by hand."
    ]


def _arguments(step: Step, replaced: Replaced) -> str:
    values = dict(zip(replaced.params, step.args, strict=True))
    return ", ".join(print_arg(substituted(arg, values)) for arg in replaced.args)


def _clash(step: Step, replaced: Replaced) -> bool:
    """Whether a mapping would put the document, which is no text, into a text."""
    values: dict[str, Arg] = dict(zip(replaced.params, step.args, strict=True))
    mapped = [substituted(arg, values) for arg in replaced.args]
    return any(isinstance(arg, Template) and Ref("CTX") in refs(arg) for arg in mapped)


def _end(text: str, step: Step) -> int:
    """Where a step's call ends, past its parenthesis; -1 where that cannot be told."""
    at = step.args[-1].span.end if step.args else step.action_span.end
    ends = [place for mark in ")）" if (place := text.find(mark, at, step.span.end)) >= 0]
    return min(ends, default=-2) + 1
