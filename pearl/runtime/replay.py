"""Recorded plans run again on their recorded step outputs.

This proves the reader, the answer rule and CONCAT against what another
implementation did with the same model outputs.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pearl.lang.ast import DOCUMENT, Action, Builtin, Param, Plan, Prompt, Ref, Solver
from pearl.lang.builtins import Given
from pearl.lang.diagnostics import Severity
from pearl.lang.errors import InputError
from pearl.lang.graph import outputs
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.source import Source, plan_rows
from pearl.lang.values import Value, as_text, from_json
from pearl.lint.checker import check
from pearl.models.base import ModelError
from pearl.models.recorded import Recorded
from pearl.runtime.binding import SolverError
from pearl.runtime.calls import Caller, Journal
from pearl.runtime.evidence import evidence_key
from pearl.runtime.executor import Frame, Handlers, Room, execute
from pearl.runtime.trace import Trace, is_trace, json_as_text, read_trace

_RECORDED = Solver("recorded")
"""Stands in for whoever carried an action out beside the model."""


@dataclass(slots=True)
class Replayed:
    """What came of a replay; all but the findings are numbers of plans."""

    plans: int = 0
    executed: int = 0
    exact: int = 0
    syntax_errors: int = 0
    check_errors: int = 0
    differ: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    findings: Counter[str] = field(default_factory=Counter)


def read_records(source: Source) -> Iterator[Trace]:
    """Plans with what their steps gave, of a JSON-lines file or of a trace.

    A row has ``plan``, and may have ``step_outputs`` (name → text) and
    ``open_answer``.

    Raises:
        InputError: a row that is no such object.
    """
    if is_trace(source):
        yield read_trace(source)
        return
    for name, row in plan_rows(source, ", or a trace"):
        outputs_by_name = row.get("step_outputs") or {}
        if not isinstance(outputs_by_name, dict):
            raise InputError(f'{name}: "step_outputs" is not an object of names and texts.')
        replies = {f"step/{step}": json_as_text(value) for step, value in outputs_by_name.items()}
        answer = row.get("open_answer")
        recorded = json_as_text(answer) if replies and answer is not None else None
        yield Trace(Source(name, row["plan"]), replies, recorded)


def replay(records: Sequence[Trace], library: Library) -> Replayed:
    """Check every record, and run those that have step outputs and an answer.

    Actions that the library lacks are reported, and stand in with the
    arguments the plan gives them, as their outputs are recorded.

    Args:
        records: plans with what their steps gave.
        library: the actions they may call.
    """
    return asyncio.run(_replay(records, library))


async def _replay(records: Sequence[Trace], library: Library) -> Replayed:
    result = Replayed()
    for record in records:
        result.plans += 1
        parsed = parse(record.source)
        findings = check(parsed, library)
        codes = {finding.code for finding in findings}
        errors = {finding.code for finding in findings if finding.severity is Severity.ERROR}
        result.findings.update(codes)
        result.syntax_errors += any(code.startswith("PRL1") for code in errors)
        result.check_errors += bool(errors)
        if record.answer is None:
            continue
        result.executed += 1
        try:
            answer = await _execute(parsed.plan, record, library)
        except (ModelError, InputError) as error:
            # What the checker finds is the cause; that an action is unknown is none, see below.
            wrong = (each for each in findings if each.severity is Severity.ERROR)
            cause = next((each.message for each in wrong if each.code != "PRL201"), str(error))
            result.failed[record.source.name] = cause
            continue
        if answer.strip() == record.answer.strip():
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
            raise SolverError("recording", f"{record.source.name} has no value for {path}.")
        return from_json(record.values[path])

    handlers = Handlers({_RECORDED.name: solve})
    document = Source("document", "-")
    # What was done once is done again, whatever the limits are now.
    room = Room(sys.maxsize, sys.maxsize)
    actions = _complete(plan, library)
    frame = Frame(document, actions, caller, handlers=handlers, plan=plan, room=room)
    start: dict[str, Value] = {
        evidence_key(name): [*lines] for name, lines in record.evidence.items()
    }
    values, failures = await execute(frame, plan.steps, start)
    if failures:
        raise InputError(failures[0].cause)
    return "\n\n".join(as_text(values[name]) for name in outputs(plan))


def _complete(plan: Plan, library: Library) -> Library:
    """The library with a stand-in for every action it lacks, or that a record stands in for."""
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


def as_object(result: Replayed) -> dict[str, Any]:
    """The result as JSON data."""
    return {**asdict(result), "findings": dict(sorted(result.findings.items()))}
