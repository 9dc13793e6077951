"""A finished run as a plan with its values, and back.

The steps of frames within frames are prefixes of paths in the journal: they are drawn, and told
under the step that opened them, by renaming (docs/design.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pearl.lang.ast import DOCUMENT, Arg, Literal, Plan, Ref, Step, map_refs
from pearl.lang.errors import InputError
from pearl.lang.graph import outputs
from pearl.lang.parser import parse
from pearl.lang.printer import print_call, print_plan, print_step
from pearl.lang.source import Source
from pearl.lang.values import canonical_json, one_line_json, split_evidence
from pearl.runtime.calls import Entry

_FRAME = re.compile(r"((?:step/[^/]+/)*)plan$")
_SHOWN = 48
"""Characters of what a step is called with that a picture has room for."""


@dataclass(frozen=True, slots=True)
class Branch:
    """The steps of a run, or of an action within it.

    Args:
        plan: they ran.
        within: the branches of the steps that have steps of their own, by the call's name:
            ``sub_1``, or ``born[0]`` for one call of a step that is run over a list.
    """

    plan: Plan
    within: Mapping[str, Branch]


def read_tree(entries: Iterable[Entry]) -> Branch | None:
    """The tree of a run's frames; what was tried in vain is not part of it. None without a plan."""
    plans: dict[tuple[str, ...], str] = {}
    for entry in entries:
        frame = _FRAME.match(entry.path) if entry.kind == "decision" else None
        if frame and entry.status == "done" and isinstance(entry.value, str):
            plans[tuple(re.findall(r"step/([^/]+)/", frame[1]))] = entry.value
    return _branch((), plans) if () in plans else None


def _branch(place: tuple[str, ...], plans: Mapping[tuple[str, ...], str]) -> Branch:
    plan = parse(plans[place], "/".join(place)).plan
    names = {step.name for step in plan.steps}
    below = (path for path in plans if path[:-1] == place and path and _step(path[-1]) in names)
    return Branch(plan, {path[-1]: _branch(path, plans) for path in below})


def branch_lines(tree: Branch, step: str, above: str = "") -> Iterator[str]:
    """What a step's own steps were, a line each, those of its frames' frames below them; ``above``
    is the path of the step's frame."""
    for call, branch in tree.within.items():
        if _step(call) == step:
            path = f"{above}{call}"
            yield f"{path}: {' '.join(branch.plan.question.split())}"
            for inner in branch.plan.steps:
                yield f"{path}: {print_call(inner)}"
                yield from branch_lines(branch, inner.name, f"{path}/")


def as_plan(tree: Branch) -> Plan:
    """A tree as one plan, to be drawn: inner steps have their frames' names before their own.

    A step that has frames uses what they gave. An action's name is followed by
    the text it was called with, as far as there is room.
    """
    steps = tuple(_flat(tree, ""))
    returns = tuple(Ref(name) for name in outputs(tree.plan))
    return Plan(steps, tree.plan.question, returns=returns)


def _flat(tree: Branch, prefix: str) -> Iterator[Step]:
    for step in tree.plan.steps:
        ends: list[Arg] = []
        for call, branch in tree.within.items():
            if _step(call) == step.name:
                inner = f"{prefix}{call}."
                yield from _flat(branch, inner)
                ends += [Ref(f"{inner}{name}") for name in outputs(branch.plan)]
        text = ""
        match step.args:
            case (Literal(value=str(words)), *_):
                text = " ".join(words.split())
                text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

        def inside(ref: Ref) -> Ref:
            return ref if ref.name == DOCUMENT else replace(ref, name=f"{prefix}{ref.name}")

        args = tuple(map_refs(arg, inside) for arg in step.args)
        yield replace(
            step,
            name=f"{prefix}{step.name}",
            action=f"{step.action}{text and f': {text}'}",
            args=(*args, *ends),
            note=step.note or print_call(step),
        )


def _step(call: str) -> str:
    """The step of a call: ``born`` of ``born[0]``."""
    return call.partition("[")[0]


_ITEM = re.compile(r"step/([^/]+)\[(\d+)\]")
"""The path of one call of a mapped step, which is not within a frame."""
_TRY = re.compile(r"try/\d+/")
_TOLD = re.compile(r"#\s*(?:(value|evidence)\s+(\S+)|answer)\s*=\s*(.*)$", re.DOTALL)
"""A comment that says what a step gave or quoted, or what the answer is."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A plan with what its steps gave.

    Args:
        source: the plan's text, a trace's with its comments.
        replies: what each call gave, by its path in the run; empty where nothing was recorded.
        answer: the run's answer, or None where the run has none.
        values: what each step gave, and each of its calls, by path, as JSON, where that is known.
        evidence: what each step quoted, by its name.
    """

    source: Source
    replies: dict[str, str]
    answer: str | None
    values: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, list[str]] = field(default_factory=dict)

    @property
    def plan(self) -> Plan:
        """The plan that ran, without comments."""
        plan = parse(self.source).plan
        steps = tuple(replace(step, comments=()) for step in plan.steps)
        return replace(plan, steps=steps, comments=())


def last_try(entries: Sequence[Entry]) -> list[Entry]:
    """The entries of the last try, where a run is several tries at one plan; else all of them."""
    frames = [match[0] for entry in entries if (match := _TRY.match(entry.path))]
    if not frames:
        return list(entries)
    last = max(frames, key=lambda frame: int(frame.split("/")[1]))
    heads = [entry for entry in entries if entry.path == "run"]
    inner = [entry for entry in entries if entry.path.startswith(last)]
    return heads + [replace(entry, path=entry.path.removeprefix(last)) for entry in inner]


def export_trace(entries: Iterable[Entry], name: str) -> str:
    """A run, named in the head, as a plan that parses, checks and replays to the same answer.

    Values stand as comments under their steps, and before them the steps of
    the frames that a step opened. Rejected and repeated attempts stay in the
    journal (docs/design.md).

    Raises:
        InputError: the run has no plan.
    """
    entries = list(entries)
    done = {entry.path: entry.value for entry in entries if entry.status == "done"}
    planned = done.get("plan", "")
    if not planned:
        raise InputError(f"The run {name} has no plan: it stopped before one was accepted.")
    plan = parse(planned, name).plan
    tree = read_tree(entries)
    lines = [f"# trace of run {name}"]
    for key, value in done.get("run", {}).items():
        if key != "question":
            plain = isinstance(value, str) and len(value.splitlines()) == 1
            lines.append(f"# {key}: {value if plain else one_line_json(value)}")
    lines.append(print_plan(replace(plan, steps=(), returns=(), comments=())).rstrip("\n"))
    lines.append("")
    items: dict[str, list[tuple[int, Any]]] = {}
    for path, value in done.items():
        if item := _ITEM.fullmatch(path):
            items.setdefault(item[1], []).append((int(item[2]), value))
    for number, step in enumerate(plan.steps, 1):
        lines.append(f"{number}. {print_step(step)}")
        if tree:
            lines += [f"# within {line}" for line in branch_lines(tree, step.name)]
        for at, value in sorted(items.get(step.name, []), key=lambda item: item[0]):
            shown = split_evidence(value)[0] if isinstance(value, str) else value
            lines.append(f"# value {step.name}[{at}] = {one_line_json(shown)}")
        if f"value/{step.name}" in done:
            lines.append(f"# value {step.name} = {one_line_json(done[f'value/{step.name}'])}")
        if f"evidence/{step.name}" in done:
            quotes = one_line_json(done[f"evidence/{step.name}"])
            lines.append(f"# evidence {step.name} = {quotes}")
    if plan.returns:
        lines.append(f"return {', '.join(ref.name for ref in plan.returns)}")
    if "answer" in done:
        lines.append(f"# answer = {one_line_json(done['answer']['text'])}")
    return "\n".join(lines) + "\n"


def json_as_text(value: Any) -> str:  # noqa: ANN401 - any JSON
    """A recorded value as a reply's text: a text to the letter, other JSON in canonical form."""
    return value if isinstance(value, str) else canonical_json(value)


def is_trace(source: Source) -> bool:
    """Whether a plan's text carries values."""
    matches = map(_TOLD.match, source.text.split("\n"))
    return any(match and match[1] == "value" for match in matches)


def read_trace(source: Source) -> Trace:
    """The inverse of `export_trace`.

    Raises:
        InputError: a value is not JSON.
    """
    replies: dict[str, str] = {}
    values: dict[str, Any] = {}
    evidence: dict[str, list[str]] = {}
    answer: str | None = None
    for number, line in enumerate(source.text.split("\n"), 1):
        match = _TOLD.match(line)
        if not match:
            continue
        kind, name, text = match.groups()
        try:
            value = json.loads(text)
        except ValueError:
            raise InputError(f"{source.name}:{number}: the value is not JSON.") from None
        if kind == "value":
            values[f"step/{name}"] = value
            replies[f"step/{name}"] = json_as_text(value)
        elif kind == "evidence":
            evidence[name] = [str(quote) for quote in value] if isinstance(value, list) else []
        else:
            answer = json_as_text(value)
    return Trace(source, replies, answer, values, evidence)
