"""Replies in demanded form: asked for, checked, and mended in place."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from pearl.llm.calls import Call, CorrectFilled, FillSchema, Schema
from pearl.runtime.calls import Caller

REVISIONS = 2
"""How often a reply that does not fit may be mended."""

REJECTED = "rejected"
"""What ends the path of a decision that a reply does not fit its schema."""

FITTED = "fitted"
"""What ends the path of a decision on which reply fitted, from 1; 0 where none did."""

Check: TypeAlias = Callable[[dict[str, Any]], Sequence[str]]
"""What is wrong with an object beside its schema, a sentence each."""


class SchemaError(Exception):
    """No reply fits its schema.

    Args:
        message: one sentence for a person.
        problems: what is wrong with the last reply, a sentence each.
    """

    def __init__(self, message: str, problems: tuple[str, ...]) -> None:
        super().__init__(message)
        self.problems = problems


async def fill(
    caller: Caller,
    call: FillSchema,
    path: str,
    check: Check = lambda _: (),
    revisions: int = REVISIONS,
) -> dict[str, Any]:
    """Ask for a JSON object; one that does not fit is sent back with what is wrong.

    The journal is told which reply fitted, where there was one to read.

    Args:
        caller: asks the model and keeps the journal.
        call: what is asked.
        path: where in the run; tries stand below it.
        check: what else an object must hold to.
        revisions: how often a reply may be mended.

    Raises:
        ModelError: the model gave no usable answer.
        SchemaError: the last reply does not fit either.
    """
    asked: list[Call] = []
    current: Call = call
    problems: tuple[str, ...] = ()
    for attempt in range(1, revisions + 2):
        try:
            reply = await caller(current, f"{path}/{attempt}", asked.count(current))
        except Exception:
            if asked:
                caller.journal.decide(f"{path}/{FITTED}", 0)
            raise
        asked.append(current)
        found, problems = read_object(reply.text, call.schema)
        if found is not None:
            problems = tuple(check(found))
            if not problems:
                caller.journal.decide(f"{path}/{FITTED}", attempt)
                return found
        caller.journal.decide(f"{path}/{attempt}/{REJECTED}", list(problems))
        current = CorrectFilled(call, reply.text, "\n".join(f"- {one}" for one in problems))
    caller.journal.decide(f"{path}/{FITTED}", 0)
    raise SchemaError(
        f"The reply to {call.schema.name} does not fit after {revisions + 1} tries: {problems[0]}",
        problems,
    )


def read_object(text: str, schema: Schema) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The JSON object of a reply, or what is wrong with it.

    A fence around the object, and words before and after it, are passed over.

    Args:
        text: the reply.
        schema: what it has to fit.
    """
    found = _object(text)
    if found is None:
        return None, ("It holds no JSON object.",)
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(as_json_schema(schema))
    wrong = sorted(validator.iter_errors(found), key=lambda one: [str(at) for at in one.path])
    if wrong:
        return None, tuple(_told(".".join(map(str, one.path)), one.message) for one in wrong[:8])
    return found, ()


def as_json_schema(schema: Schema) -> dict[str, Any]:
    """The JSON schema of an object."""
    return {
        "type": "object",
        "properties": {one.name: json.loads(one.schema) for one in schema.fields},
        "required": [one.name for one in schema.fields],
    }


def _object(text: str) -> dict[str, Any] | None:
    """The first JSON object in a text."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            found, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        return found if isinstance(found, dict) else None
    return None


def _told(place: str, message: str) -> str:
    short = message if len(message) <= 200 else f"{message[:200]}…"
    return f"{place}: {short}" if place else f"{short}."
