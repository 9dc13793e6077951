"""What REBEL asks of a model: five schemas, and one made from a tool's parameters.

What a tool replied is seen where an input is filled in, an answer is read, or
facts are looked at. What is asked, and of which tool, is decided from
questions alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pearl.llm import Field, FillSchema, Schema
from pearl.prompts.schemas import load_schema
from pearl.runtime import Caller, SchemaError, fill
from pearl.runtime.schemas import Check
from pearl.tools import Tool
from pearl.values import Value, canonical_json

NONE = "none"
"""Chooses no tool."""

INPUT = "rebel_input"
"""The name of every schema that is made from a tool's parameters."""


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks a model, and has a reply that does not fit mended.

    Args:
        caller: asks the model and keeps the journal.
        revisions: how often a reply may be mended.
    """

    caller: Caller
    revisions: int

    async def split(self, question: str, answered: Sequence[str]) -> list[str]:
        """Sub-questions, in order; none where the question is not to be split.

        Args:
            question: what is asked.
            answered: questions that are answered already, without their answers: what a
                tool replied must not decide what is asked.
        """
        call = FillSchema(
            load_schema("rebel_split"), (("question", question), ("answered", list(answered)))
        )
        found = await self._filled(call, "split")
        return [one for text in found["sub_questions"] if (one := line(text))] if found else []

    async def answerable(self, question: str, facts: Sequence[str]) -> bool:
        """Whether facts are enough."""
        call = FillSchema(
            load_schema("rebel_memory"), (("question", question), ("facts", list(facts)))
        )
        found = await self._filled(call, "memory")
        return found is not None and found["answerable"] is True

    async def choose(self, question: str, tools: Mapping[str, Tool], path: str) -> str | None:
        """The name of a tool, or None for none of them."""
        schema = load_schema("rebel_tool")
        names = json.dumps({"enum": [*tools, NONE]}, ensure_ascii=False)
        told = "\n".join(f"{name}: {line(tool.about)}" for name, tool in tools.items())
        schema = replace(schema, fields=(replace(schema.fields[0], schema=names),))
        found = await self._filled(
            FillSchema(schema, (("question", question), ("tools", told))), path
        )
        return None if found is None or found["tool"] == NONE else str(found["tool"])

    async def input(
        self,
        tool: Tool,
        question: str,
        facts: Sequence[str],
        refused: Sequence[tuple[Mapping[str, Any], str]],
        path: str,
    ) -> dict[str, Any] | None:
        """What a tool is called with; None where the model cannot say.

        Args:
            tool: which one.
            question: what its reply is to answer.
            facts: name what the question only describes.
            refused: inputs that it did not take, each with what is wrong.
            path: where in the run.
        """
        told = f"{tool.name}: {line(tool.about)}"
        given = (("question", question), *_known(facts), ("tool", told))
        wrong: list[Value] = [f"{canonical_json(dict(one))} {line(why)}" for one, why in refused]
        more = (("refused", wrong),) if wrong else ()
        call = FillSchema(input_schema(tool), (*given, *more))
        found = await self._filled(call, path, lambda given: wrong_input(tool, given))
        return None if found is None else _present(found)

    async def read(self, question: str, reply: str, facts: Sequence[str], path: str) -> str | None:
        """The answer that a tool's reply gives, or None; facts name what a question describes."""
        given = (("question", question), *_known(facts), ("reply", reply))
        call = FillSchema(load_schema("rebel_read"), given)
        return _answer(await fill(self.caller, call, path, revisions=self.revisions))

    async def answer(self, question: str, facts: Sequence[str], path: str) -> str | None:
        """The answer that facts lead to, or None."""
        told: tuple[tuple[str, Value], ...] = (("question", question), ("facts", list(facts)))
        call = FillSchema(load_schema("rebel_answer"), told)
        return _answer(await fill(self.caller, call, path, revisions=self.revisions))

    async def _filled(
        self, call: FillSchema, path: str, check: Check = lambda _: ()
    ) -> dict[str, Any] | None:
        """An object, or None where the model gives none that fits: the frame goes on without."""
        try:
            return await fill(self.caller, call, path, check, self.revisions)
        except SchemaError as error:
            self.caller.journal.decide(f"{path}/given_up", list(error.problems))
            return None


def input_schema(tool: Tool) -> Schema:
    """The form of a call's arguments; a parameter that may be left out may be null."""
    fields = tuple(
        Field(one.name, one.about, one.schema)
        if one.required
        else Field(
            one.name,
            f"{one.about}; null to leave it out",
            json.dumps({"anyOf": [json.loads(one.schema), {"type": "null"}]}, ensure_ascii=False),
        )
        for one in tool.parameters
    )
    task = (
        "A tool is about to be called to answer the question. Fill in its parameters, so that its "
        'reply holds the answer. What the question only describes may be named under "facts": then '
        'write the name. An input under "refused" was not taken: give one that mends what is wrong.'
    )
    return Schema(INPUT, task, fields)


def wrong_input(tool: Tool, given: Mapping[str, Any]) -> list[str]:
    """What is wrong with a call's arguments beside their schemas, a sentence each."""
    known = {one.name for one in tool.parameters}
    wrong = [f"{name}: the tool has no such parameter." for name in given if name not in known]
    wrong += [
        f"{name}: it holds a number or a character that cannot be sent."
        for name, value in given.items()
        if name in known and not all(map(_sendable, _leaves(value)))
    ]
    return wrong


def line(text: str) -> str:
    """A text in one line: what a tool replied must not look like several facts."""
    return " ".join(text.encode("utf-8", "replace").decode("utf-8").split())


def _known(facts: Sequence[str]) -> tuple[tuple[str, Value], ...]:
    return (("facts", list(facts)),) if facts else ()


def _present(found: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not None}


def _answer(found: Mapping[str, Any]) -> str | None:
    answer = found["answer"]
    return line(answer) or None if isinstance(answer, str) else None


def _leaves(value: Any) -> Iterator[Any]:  # noqa: ANN401 - any JSON
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _sendable(value: Any) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    return not isinstance(value, float) or math.isfinite(value)
