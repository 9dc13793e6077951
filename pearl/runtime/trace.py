"""Exports a finished run as a plan with its values, reads it back, and replays recorded plans.

The path of an entry in the journal says in which frame it stands, so that the steps of frames can
be drawn, and listed under the step that opened them (docs/design.md). A replay compares the parser,
the answer rule and CONCAT with what another implementation did with the same model outputs.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pearl.lang.ast import (
    DOCUMENT,
    Action,
    Arg,
    Builtin,
    Literal,
    Param,
    Plan,
    Prompt,
    Ref,
    Solver,
    Step,
    map_refs,
)
from pearl.lang.builtins import Given, read_name
from pearl.lang.diagnostics import errors_of
from pearl.lang.errors import InputError, LinesError
from pearl.lang.graph import outputs
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.printer import print_call, print_plan, print_step
from pearl.lang.rows import lines_of, plan_row
from pearl.lang.source import START, Source, full_name
from pearl.lang.text import one_line
from pearl.lang.values import (
    DecodeError,
    Value,
    as_text,
    canonical_json,
    from_json,
    one_line_json,
    split_evidence,
)
from pearl.lint.checker import check
from pearl.models.base import ModelError
from pearl.models.recorded import Recorded
from pearl.runtime.binding import StepError
from pearl.runtime.calls import Caller, Entry, Journal
from pearl.runtime.evidence import evidence_key
from pearl.runtime.executor import Frame, Handlers, Room, execute

_FRAME = re.compile(r"((?:step/[^/]+/)*)plan$")
_SHOWN = 48
"""The most characters of a step's argument that a picture has room for."""


@dataclass(frozen=True, slots=True)
class Branch:
    """The steps of a run, or of an action within it.

    Args:
        plan: the plan that ran.
        within: the branches of steps that have steps of their own, by the call's name:
            ``sub_1``, or ``born[0]`` for one call of a step that runs over a list.
    """

    plan: Plan
    within: Mapping[str, Branch]


def read_tree(entries: Iterable[Entry]) -> Branch | None:
    """The tree of a run's frames, without failed calls; None where the run has no plan."""
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
    """A line for each step in the frames of a step, and in the frames within them; ``above`` is the
    path of the step's own frame."""
    for call, branch in tree.within.items():
        if _step(call) == step:
            path = f"{above}{call}"
            yield f"{path}: {' '.join(branch.plan.question.split())}"
            for inner in branch.plan.steps:
                yield f"{path}: {print_call(inner)}"
                yield from branch_lines(branch, inner.name, f"{path}/")


def as_plan(tree: Branch) -> Plan:
    """A tree as one plan, to be drawn: inner steps have their frames' names before their own.

    A step that has frames uses their outputs. An action's name is followed by
    the text it was called with, cut where that is long.
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
                text = one_line(words)
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
"""The path of one call of a step that runs over a list, if it is not within a frame."""
_TRY = re.compile(r"try/\d+/")
_FAILED = "# failed: "
_RECORDED_VALUE = re.compile(r"#\s*(?:(value|evidence)\s+(\S+)|answer)\s*=\s*(.*)$", re.DOTALL)
"""A comment with the value or the evidence of a step, or with the answer."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A plan with the outputs of its steps.

    Args:
        source: the plan's text; that of a trace has the outputs as comments.
        replies: the output of each call as text, by its path; empty where none were recorded.
        answer: the run's answer; None where it has none.
        values: the output of each step and of each of its calls as JSON, by path, where known.
        evidence: the quotations of each step, by its name.
        failed: why the run has no answer; empty where that is not recorded.
    """

    source: Source
    replies: dict[str, str]
    answer: str | None
    values: dict[str, Any] = field(default_factory=dict)
    evidence: dict[str, Value] = field(default_factory=dict)
    failed: str = ""

    @property
    def plan(self) -> Plan:
        """The plan that ran, without comments."""
        plan = parse(self.source).plan
        steps = tuple(replace(step, comments=()) for step in plan.steps)
        return replace(plan, steps=steps, comments=(), head=())


def last_try(entries: Sequence[Entry]) -> list[Entry]:
    """The entries of the last try, if a run tried its plan several times; else all of them."""
    frames = [match[0] for entry in entries if (match := _TRY.match(entry.path))]
    if not frames:
        return list(entries)
    last = max(frames, key=lambda frame: int(frame.split("/")[1]))
    heads = [entry for entry in entries if entry.path == "run"]
    inner = [entry for entry in entries if entry.path.startswith(last)]
    return heads + [entry._replace(path=entry.path.removeprefix(last)) for entry in inner]


def export_trace(entries: Iterable[Entry], name: str) -> str:
    """A run, whose name stands in the head, as a plan that parses, checks and replays to the same
    answer.

    Values stand as comments under their steps, and before them the steps of the frames that a step
    opened. Rejected and repeated attempts stay in the journal (docs/design.md).

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
    opening = replace(plan, steps=(), returns=(), comments=(), head=())
    # A plan without a question and declarations has no opening.
    lines += [text, ""] if (text := print_plan(opening).rstrip("\n")) else []
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
    if "failed" in done:
        lines.append(f"{_FAILED}{one_line(str(done['failed']))}")
    if "answer" in done:
        lines.append(f"# answer = {one_line_json(done['answer']['text'])}")
    if done.get("marks", {}).get("grounded") is False:
        lines.append("# no evidence: no passage of the document stands behind this answer")
    return "\n".join(lines) + "\n"


def json_as_text(value: Any) -> str:  # noqa: ANN401 - any JSON
    """A recorded value as the text of a reply: a text as it is, other JSON in canonical form."""
    return value if isinstance(value, str) else canonical_json(value)


def is_trace(source: Source) -> bool:
    """Whether a plan's text has values in comments."""
    matches = map(_RECORDED_VALUE.match, source.text.split("\n"))
    return any(match and match[1] == "value" for match in matches)


def read_trace(source: Source) -> Trace:
    """The inverse of `export_trace`.

    Raises:
        InputError: a value is not JSON.
    """
    replies: dict[str, str] = {}
    values: dict[str, Any] = {}
    evidence: dict[str, Value] = {}
    answer: str | None = None
    failed = ""
    for number, line in enumerate(source.text.split("\n"), 1):
        if line.startswith(_FAILED):
            failed = line.removeprefix(_FAILED)
        match = _RECORDED_VALUE.match(line)
        if not match:
            continue
        kind, name, text = match.groups()
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            raise InputError(f"{source.name}:{number}: the value is not JSON.") from None
        if kind == "value":
            values[f"step/{name}"] = value
            replies[f"step/{name}"] = json_as_text(value)
        elif kind == "evidence":
            try:
                evidence[name] = from_json(value)
            except DecodeError as error:
                raise InputError(f"{source.name}:{number}: {error}.") from None
        else:
            answer = json_as_text(value)
    return Trace(source, replies, answer, values, evidence, failed)


# --- recorded plans, run again ---

_RECORDED = Solver("recorded")
"""The body of actions that something other than the model carried out."""


@dataclass(slots=True)
class Replayed:
    """The results of a replay: numbers of plans, the names of plans that gave another answer, why
    plans failed by their names, and in how many plans the checker finds each code."""

    plans: int = 0
    executed: int = 0
    exact: int = 0
    syntax_errors: int = 0
    check_errors: int = 0
    differ: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    findings: Counter[str] = field(default_factory=Counter)


def read_records(source: Source) -> Iterator[Trace]:
    """Plans with the outputs of their steps, from a file of JSON lines or a trace.

    A row has ``plan``, and may have ``step_outputs`` (name → text) and
    ``open_answer``.

    Raises:
        InputError: the source is a plan without values.
        LinesError: raised after the last row, if some rows are no such object.
    """
    if is_trace(source):
        yield read_trace(source)
        return
    if not source.text.lstrip().startswith("{") and parse(source).plan.steps:
        raise InputError(
            f"{source.name} has a plan without values: pearl run runs it, and pearl trace writes "
            "one with the values of a run."
        )
    problems: list[InputError] = []
    for name, line in lines_of(source):
        try:
            yield _record(name, line)
        except InputError as error:
            problems.append(error)
    if problems:
        # All problems, as the other rows have been used.
        raise LinesError([*map(str, problems)])


def _record(name: str, line: str) -> Trace:
    row = plan_row(line, name, ", or a trace")
    outputs_by_name = row.get("step_outputs") or {}
    if not isinstance(outputs_by_name, dict):
        raise InputError(f'{name}: "step_outputs" is not an object of names and texts.')
    replies = {f"step/{step}": json_as_text(value) for step, value in outputs_by_name.items()}
    answer = row.get("open_answer")
    recorded = json_as_text(answer) if replies and answer is not None else None
    return Trace(Source(name, row["plan"]), replies, recorded)


def replay(records: Sequence[Trace], library: Library) -> Replayed:
    """Check every record, and run those that have step outputs and an answer.

    Actions that the library lacks are reported. They are added for the run with
    the arguments that the plan gives them, because their outputs are recorded.

    Args:
        records: plans with the outputs of their steps.
        library: the actions they may call.
    """
    result = Replayed()
    for record in records:
        result.plans += 1
        parsed = parse(record.source)
        findings = check(parsed, library)
        codes = {finding.code for finding in findings}
        errors = errors_of(findings)
        result.findings.update(codes)
        result.syntax_errors += any(error.code.startswith("PRL1") for error in errors)
        result.check_errors += bool(errors)
        if record.answer is None:
            continue
        result.executed += 1
        try:
            answer = asyncio.run(_execute(parsed.plan, record, library))
        except (ModelError, InputError) as error:
            # What the checker finds is the cause, but not an unknown action: see `_complete`.
            cause = next((each.message for each in errors if each.code != "PRL201"), str(error))
            result.failed[record.source.name] = cause
            continue
        # Earlier versions wrote a document's label into answers, and not its name.
        alike = (text.replace(f"{DOCUMENT}.", "").strip() for text in (answer, record.answer))
        if len({*alike}) == 1:
            result.exact += 1
        else:
            result.differ.append(record.source.name)
    return result


async def _execute(plan: Plan, record: Trace, library: Library) -> str:
    journal = Journal()
    model = Recorded(record.replies, record.source.name)
    caller = Caller(model.answer, model.identity, journal)

    async def solve(path: str, args: Sequence[Given]) -> Value:
        """The recorded value of an agent, a retriever or an action's own steps."""
        del args
        if path not in record.values:
            raise StepError("recording", f"{record.source.name} has no value for {path}.")
        return from_json(record.values[path])

    handlers = Handlers({_RECORDED.name: solve})
    document = _document(plan, record)
    # The recorded run may have had larger limits than those that are set now.
    room = Room(sys.maxsize, sys.maxsize)
    actions = _complete(plan, library)
    frame = Frame(document, actions, caller, handlers=handlers, plan=plan, room=room)
    start = {evidence_key(name): quotes for name, quotes in record.evidence.items()}
    values, failures = await execute(frame, plan.steps, start)
    if failures:
        raise InputError(failures[0].cause)
    return "\n\n".join(as_text(values[name]) for name in outputs(plan))


def _document(plan: Plan, record: Trace) -> Source:
    """A stand-in for the document; for several documents it has the names that the run recorded."""
    listing = (step.name for step in plan.steps if step.action == "DOCUMENTS")
    lists = [record.values.get(f"step/{name}") for name in listing]
    labels = (label for labels in lists if isinstance(labels, list) for label in labels)
    names = [read_name(str(label)) for label in labels]
    for arg in (arg for step in plan.steps for arg in step.args if isinstance(arg, Literal)):
        name = read_name(as_text(arg.value))
        if name and not full_name(name, names):
            names.append(name)
    several = "".join(f"{START}# {name}\n\n-\n\n" for name in dict.fromkeys(filter(None, names)))
    return Source("document", several or "-")


def _complete(plan: Plan, library: Library) -> Library:
    """The library with stand-ins for missing actions and for those of solvers and functions."""
    library = library.with_declared(plan.declares)
    lacking: dict[str, Action] = {}
    for step in plan.steps:
        action = library.get(step.action)
        if action is not None and not isinstance(action.body, Prompt | Builtin):
            lacking[action.name] = replace(action, body=_RECORDED)
        elif action is None:
            params = [
                Param(DOCUMENT if isinstance(arg, Ref) and arg.name == DOCUMENT else f"X{at}")
                for at, arg in enumerate(step.args)
            ]
            lacking[step.action] = Action(step.action, tuple(params))
    return Library(library.names, MappingProxyType({**library.actions, **lacking}))
