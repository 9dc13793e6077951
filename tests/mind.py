"""A scripted model that answers REBEL's schemas from tables, and tools that do as they are told."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pearl.lang.values import Value
from pearl.models.base import ModelError, Reply, Request
from pearl.prompts.calls import CorrectFilled, FillSchema
from pearl.tools.toolbox import Parameter, Tool, ToolError, ToolReply

Said: TypeAlias = dict[str, Any] | str
"""A reply: an object, or a text as it is."""


@dataclass
class Mind:
    """Knows how each question is split, which tool is for it, and how replies are read.

    Args:
        splits: sub-questions by question; none where it is not there.
        knows: questions that facts answer, and the answer.
        tools: the tool by question, or several: the second where the first came to nothing.
        inputs: what a tool is given, by question.
        reads: the answer, given a question and a reply.
        first: what is said instead, once each, by schema: replies that do not fit.
    """

    splits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    knows: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, Sequence[str]] = field(default_factory=dict)
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reads: Callable[[str, str], str | None] = lambda _, reply: reply.strip() or None
    first: dict[str, list[Said]] = field(default_factory=dict)
    asked: list[Request] = field(default_factory=list)
    name: str = "scripted"
    identity: str = "scripted"
    notice: str = ""

    async def answer(self, request: Request) -> Reply:
        self.asked.append(request)
        call = request.call
        fill = call.fill if isinstance(call, CorrectFilled) else call
        if not isinstance(fill, FillSchema):
            raise ModelError("request", "Only schemas are filled here.")
        waiting = self.first.get(fill.schema.name)
        said = waiting.pop(0) if waiting else self.said(fill, dict(fill.given))
        return Reply(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False))

    async def close(self) -> None:
        """Nothing is open."""

    def said(self, fill: FillSchema, given: Mapping[str, Value]) -> Said:
        """The reply to a schema."""
        question = str(given["question"])
        match fill.schema.name:
            case "rebel_split":
                return {"sub_questions": list(self.splits.get(question, ()))}
            case "rebel_memory":
                return {"answerable": question in self.knows}
            case "rebel_tool":
                offered = [one.partition(":")[0] for one in str(given["tools"]).splitlines()]
                wanted = [one for one in self.tools.get(question, ()) if one in offered]
                return {"tool": wanted[0] if wanted else "none"}
            case "rebel_input":
                names = [one.name for one in fill.schema.fields]
                found = self.inputs.get(question, dict.fromkeys(names, question))
                return {name: found.get(name) for name in names}
            case "rebel_read":
                return {"answer": self.reads(question, str(given["reply"]))}
            case "rebel_answer":
                return {"answer": self.knows.get(question)}
        raise AssertionError(fill.schema.name)

    def schemas(self) -> list[str]:
        """What was asked, in order."""
        return [_schema(one) for one in self.asked]


def _schema(request: Request) -> str:
    call = request.call
    if isinstance(call, CorrectFilled):
        return f"{call.fill.schema.name} again"
    assert isinstance(call, FillSchema)
    return call.schema.name


TEXT = '{"type": "string", "minLength": 1}'


def tool(name: str, *names: str) -> Tool:
    """A tool whose parameters are texts."""
    return Tool(name, f"Does {name}.", tuple(Parameter(one, one, TEXT) for one in names))


@dataclass
class Box:
    """Tools that reply from a function, and remember what they were called with.

    Args:
        tools: by name.
        replies: the reply, or the reason of an error, given the name and the arguments.
    """

    tools: Mapping[str, Tool]
    replies: Callable[[str, Mapping[str, Any]], str | ToolReply | ToolError]
    called: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        assert name in self.tools
        self.called.append((name, dict(arguments)))
        reply = self.replies(name, arguments)
        if isinstance(reply, ToolError):
            raise reply
        return ToolReply(reply) if isinstance(reply, str) else reply
