"""A finished run as a plan with its values, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pearl.plan import Plan
from pearl.runtime.journal import Entry
from pearl.runtime.tree import lines as told_lines
from pearl.runtime.tree import read_tree
from pearl.source import InputError, Source
from pearl.syntax import parse, print_step
from pearl.syntax.printer import print_plan
from pearl.values import canonical_json, one_line_json

_TRY = re.compile(r"try/\d+/")
_VALUE = re.compile(r"#\s*value\s+(\S+)\s*=\s*(.*)$", re.DOTALL)
_ANSWER = re.compile(r"#\s*answer\s*=\s*(.*)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Trace:
    """What a trace says.

    Args:
        plan: the plan that ran, without the trace's comments.
        replies: what each call gave, by its path in the run.
        answer: the run's answer, or None where the run has none.
        values: what each step gave, and each of its calls, by path, as JSON.
    """

    plan: Plan
    replies: dict[str, str]
    answer: str | None
    values: dict[str, Any] = field(default_factory=dict)


def last_try(entries: Sequence[Entry]) -> list[Entry]:
    """The entries of the last try, where a run is several tries at one plan; else all of them."""
    frames = [found[0] for entry in entries if (found := _TRY.match(entry.path))]
    if not frames:
        return list(entries)
    last = max(frames, key=lambda frame: int(frame.split("/")[1]))
    heads = [entry for entry in entries if entry.path == "run"]
    inner = [entry for entry in entries if entry.path.startswith(last)]
    return heads + [replace(entry, path=entry.path.removeprefix(last)) for entry in inner]


def export_trace(entries: Iterable[Entry], name: str) -> str:
    """A run as a plan that parses, checks and replays to the same answer.

    Values stand as comments under their steps, and before them the steps of
    the frames that a step opened. Rejected and repeated attempts stay in the
    journal (DESIGN, section 7).

    Args:
        entries: the run's journal.
        name: the run's name, for the head.

    Raises:
        InputError: the run has no plan.
    """
    head: dict[str, Any] = {}
    planned = ""
    values: dict[str, Any] = {}
    children: dict[str, list[tuple[str, Any]]] = {}
    answer: str | None = None
    entries = list(entries)
    for entry in entries:
        path = entry.path
        if entry.status != "done":
            continue
        if path == "run":
            head = entry.value
        elif path == "plan":
            planned = entry.value
        elif path == "answer":
            answer = entry.value["text"]
        elif path.startswith("value/"):
            values[path.removeprefix("value/")] = entry.value
        elif _is_item(path):
            child = path.removeprefix("step/")
            children.setdefault(child[: child.rindex("[")], []).append((child, entry.value))
    if not planned:
        raise InputError(f"The run {name} has no plan: it stopped before one was accepted.")
    plan = parse(planned, name).plan
    tree = read_tree(entries)
    lines = [f"# trace of run {name}"]
    lines += [f"# {key}: {_told(value)}" for key, value in head.items() if key != "question"]
    lines.append(print_plan(replace(plan, steps=(), returns=(), comments=())).rstrip("\n"))
    lines.append("")
    for number, step in enumerate(plan.steps, 1):
        lines.append(f"{number}. {print_step(step)}")
        lines += [f"# within {one}" for one in told_lines(tree, step.name)] if tree else []
        for child, reply in sorted(children.get(step.name, []), key=_order):
            lines.append(f"# value {child} = {one_line_json(reply)}")
        if step.name in values:
            lines.append(f"# value {step.name} = {one_line_json(values[step.name])}")
    if plan.returns:
        lines.append(f"return {', '.join(ref.name for ref in plan.returns)}")
    if answer is not None:
        lines.append(f"# answer = {one_line_json(answer)}")
    return "\n".join(lines) + "\n"


def _is_item(path: str) -> bool:
    """Whether a path is that of one call of a mapped step, and not within a frame."""
    return path.startswith("step/") and path.endswith("]") and path.count("/") == 1


def _told(value: Any) -> str:  # noqa: ANN401 - any JSON
    return (
        value if isinstance(value, str) and len(value.splitlines()) == 1 else one_line_json(value)
    )


def _order(child: tuple[str, Any]) -> int:
    return int(child[0][child[0].rindex("[") + 1 : -1])


def is_trace(source: Source) -> bool:
    """Whether a plan's text carries values."""
    return any(_VALUE.match(line) for line in source.text.split("\n"))


def read_trace(source: Source) -> Trace:
    """The inverse of `export_trace`.

    Raises:
        InputError: a value is not JSON.
    """
    replies: dict[str, str] = {}
    values: dict[str, Any] = {}
    answer: str | None = None
    for number, line in enumerate(source.text.split("\n"), 1):
        found = _VALUE.match(line) or _ANSWER.match(line)
        if not found:
            continue
        try:
            value = json.loads(found[found.re.groups])
        except ValueError:
            raise InputError(f"{source.name}:{number}: the value is not JSON.") from None
        text = value if isinstance(value, str) else canonical_json(value)
        if found.re is _ANSWER:
            answer = text
        else:
            values[f"step/{found[1]}"] = value
            replies[f"step/{found[1]}"] = text
    plan = parse(source).plan
    steps = tuple(replace(step, comments=()) for step in plan.steps)
    return Trace(replace(plan, steps=steps, comments=()), replies, answer, values)
