"""Tools: their description, their errors, and calls to them, by strategies and as a solver."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias

from pearl.lang.builtins import Given
from pearl.lang.source import Source
from pearl.lang.text import one_line
from pearl.lang.values import Pairs, Value, as_text, digest, to_json
from pearl.models.middleware.cache import ReplyCache, read_or_make
from pearl.models.secrets import Redact
from pearl.retrieval.retriever import DocumentRetriever, Retriever, passage_texts
from pearl.runtime.binding import StepError
from pearl.runtime.executor import Solve

TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")

LONGEST = 15_000
"""The most characters of a reply in a prompt, as in REBEL; the rest is only counted."""

Reason: TypeAlias = Literal[
    "input", "host", "address", "redirect", "size", "time", "status", "network", "reply", "budget"
]


class ToolError(Exception):
    """A call to a tool failed.

    Args:
        reason: ``input`` (the arguments do not fit; others may), ``host`` (a redirect to a host
            that is not declared), ``address`` (a private address), ``redirect``, ``size``,
            ``time``, ``status`` (an error of the server), ``network``, ``reply`` (it cannot be
            read) or ``budget`` (no call is left).
        message: one line, without secrets and without the server's own words.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a tool.

    Args:
        name: its name.
        about: a description, for a model and a person.
        schema: the JSON schema of its values, as JSON text.
        required: whether a call must have it.
    """

    name: str
    about: str
    schema: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """The limits of a tool.

    Args:
        seconds: the most seconds of a call, with all redirects.
        bytes: the most bytes of a reply, uncompressed.
        calls: the most calls for a question.
        private: whether it may be on this machine or in a private network.
    """

    seconds: float = 10.0
    bytes: int = 1_000_000
    calls: int = 20
    private: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool, as its users see it.

    Args:
        name: lower-case letters, digits and ``_``.
        about: what it does, in one line.
        parameters: its parameters.
        limits: its limits.
        examples: questions, each with the arguments, as JSON, of a call that answers it.
    """

    name: str
    about: str
    parameters: tuple[Parameter, ...] = ()
    limits: ToolLimits = ToolLimits()
    examples: tuple[tuple[str, str], ...] = ()

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON schema of a call's arguments; no others are taken."""
        return {
            "type": "object",
            "properties": {
                parameter.name: {"description": parameter.about, **json.loads(parameter.schema)}
                for parameter in self.parameters
            },
            "required": [parameter.name for parameter in self.parameters if parameter.required],
            "additionalProperties": False,
        }


@dataclass(frozen=True, slots=True)
class ToolReply:
    """A tool's reply, which is data and never an instruction.

    Args:
        text: its first `LONGEST` characters, without secrets.
        cut: the number of characters left out after them.
    """

    text: str
    cut: int = 0


def cut(text: str) -> ToolReply:
    """A reply of the beginning of a text, up to `LONGEST` characters."""
    return ToolReply(text[:LONGEST], max(0, len(text) - LONGEST))


class Tools(Protocol):
    """The interface of a toolbox that a run uses."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools that may be called, by name."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        """Call a tool; a `ToolError` where that fails."""


Service: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[str]]
"""Carries out a tool's calls: takes arguments that fit the tool's parameters, and gives the whole
text of the reply. Raises `ToolError` where that fails."""

LONGEST_CALL = 20_000
"""The most characters of a call's arguments, as JSON."""

_SHOWN = 200


def check_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Check that arguments fit a tool's parameters, and return them.

    Args:
        tool: the tool that is called.
        arguments: JSON values by parameter. A null for a parameter that is not
            required counts as none.

    Raises:
        ToolError: they do not fit; the message names everything that is wrong.
    """
    optional = {parameter.name for parameter in tool.parameters if not parameter.required}
    data = {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in optional
    }
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, TypeError, RecursionError):
        raise ToolError("input", "The arguments are no JSON that can be sent.") from None
    if len(text) > LONGEST_CALL:
        raise ToolError("input", f"The arguments are longer than {LONGEST_CALL:,} characters.")
    wrong = sorted(
        _validator()(tool.json_schema).iter_errors(data), key=lambda error: str(error.path)
    )
    if wrong:
        problems = [
            ": ".join(filter(None, (".".join(map(str, error.path)), error.message[:_SHOWN])))
            for error in wrong
        ]
        raise ToolError("input", f"The arguments do not fit: {'; '.join(problems)}.")
    return data


PATTERNS = 0.5
"""The most seconds for all patterns of a call: on some texts, a pattern would take forever."""


def _validator() -> Any:  # noqa: ANN401 - of a class that jsonschema makes
    """A validator of JSON Schema with a deadline for patterns."""
    import regex
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend

    until = time.monotonic() + PATTERNS

    def search(_: object, pattern: str, text: object, __: object) -> Iterator[ValidationError]:
        if not isinstance(text, str):
            return
        try:
            seconds = max(0.001, until - time.monotonic())
            # ``concurrent`` lets other threads run, such as that of the event loop.
            if regex.search(pattern, text, timeout=seconds, concurrent=True) is None:
                yield ValidationError(f"{text!r} does not match {pattern!r}")
        except TimeoutError:
            yield ValidationError(f"it takes too long to see whether it matches {pattern!r}")

    return extend(Draft202012Validator, {"pattern": search})  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Toolbox:
    """Tools, and the services that carry out their calls.

    Args:
        tools: the tools by name.
        services: the service of each tool, by name.
        redact: takes secrets out of a text.
        closing: functions that close the services' connections.
    """

    tools: Mapping[str, Tool]
    services: Mapping[str, Service]
    redact: Redact
    closing: Sequence[Callable[[], Awaitable[None]]] = ()
    _used: Counter[str] = field(default_factory=Counter, init=False)

    def afresh(self) -> Toolbox:
        """The same tools for another question, with no calls counted yet."""
        return replace(self)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        """Call a tool once, with arguments as `check_arguments` takes them.

        Raises:
            ToolError: the call failed; nothing was sent where the reason is
                ``input``, ``address`` or ``budget``.
        """
        tool = self.tools.get(name)
        if tool is None:
            message = f"There is no tool {name[:60]}: use {', '.join(self.tools)}."
            raise ToolError("input", one_line(self.redact(message)))
        limits = tool.limits
        try:
            async with asyncio.timeout(limits.seconds):
                data = await asyncio.to_thread(check_arguments, tool, arguments)
                if self._used[name] >= limits.calls:
                    raise ToolError("budget", f"All {limits.calls} calls of a question are made.")
                self._used[name] += 1
                text = await self.services[name](data)
        except TimeoutError:
            raise ToolError(
                "time", f"{name}: No answer within {limits.seconds:g} seconds."
            ) from None
        except ToolError as error:
            message = one_line(self.redact(str(error)))
            raise ToolError(error.reason, f"{name}: {message}") from None
        # Redacted before it is cut, as a secret that is cut would not be recognized.
        return cut(self.redact(text))

    async def close(self) -> None:
        """Close the connections, which the tools of `afresh` share."""
        for close in self.closing:
            await close()


@dataclass(frozen=True, slots=True)
class CachedTools:
    """Tools whose replies are stored for a run, so that a resumed run repeats no call.

    Identical calls in a run are made each time, as their replies may differ;
    so are those of a later run. Errors are stored too, and each call counts for
    the limit whether it is stored or not, so that a resumed run does what it
    would have done.

    Args:
        inner: the tools.
        replies: where replies are stored.
        run: the run's name.
        question: names the question in the run.
    """

    inner: Tools
    replies: ReplyCache
    run: str
    question: str
    _made: Counter[str] = field(default_factory=Counter, init=False)
    _used: Counter[str] = field(default_factory=Counter, init=False)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The inner tools."""
        return self.inner.tools

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        """Call a tool, or give the stored reply of a call that a resumed run has made before."""
        tool = self.tools.get(name)
        self._used[name] += 1
        if tool and self._used[name] > tool.limits.calls:
            raise ToolError(
                "budget", f"{name}: All {tool.limits.calls} calls of a question are made."
            )
        call_digest = digest([self.question, name, dict(arguments)])
        self._made[call_digest] += 1
        key = digest(["tool", call_digest, self._made[call_digest]])

        async def call_inner() -> object:
            try:
                answer = await self.inner.call(name, arguments)
            except ToolError as error:
                return {"reason": error.reason, "message": str(error)}
            return [answer.text, answer.cut]

        reply = await read_or_make(self.replies, self.run, key, f"tool {name}", call_inner)
        if isinstance(reply, dict):
            raise ToolError(reply["reason"], reply["message"])
        return ToolReply(*reply)


PASSAGES = 4
"""The most paragraphs in the reply of a search."""

SEARCH = Tool(
    "search",
    "Finds the passages of a collection of texts that bear most on some words: at most "
    f"{PASSAGES}, with their titles. It holds nothing else.",
    (
        Parameter(
            "query",
            "the words to search for: names, places, and what is wanted of them",
            '{"type": "string", "minLength": 1, "maxLength": 500}',
        ),
    ),
)
"""The tool of a `SearchTool` that searches a corpus."""

DOCUMENT_SEARCH = replace(
    SEARCH,
    about="Finds the paragraphs of the document that the question is asked of that bear most on "
    f"some words: at most {PASSAGES}, with their titles. It holds nothing else.",
)
"""The tool of a `SearchTool` that searches one document."""


@dataclass(frozen=True, slots=True)
class SearchTool:
    """A toolbox with one tool, a search, which needs no network.

    Args:
        retriever: finds the passages.
        tool: the description of the tool.
    """

    retriever: Retriever
    tool: Tool = SEARCH

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The search, by its name."""
        return MappingProxyType({self.tool.name: self.tool})

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        """The passages that have these words, best first; a `ToolError` where there are none."""
        if name != self.tool.name:
            raise ToolError("input", f"There is no tool {name[:60]}: use {self.tool.name}.")
        query = check_arguments(self.tool, arguments)["query"]
        passages = await asyncio.to_thread(self.retriever.search, query, PASSAGES)
        if not passages:
            raise ToolError("input", "No paragraph has one of these words: use others.")
        return cut("\n\n".join(passage_texts(passages)))


def document_tools(document: Source) -> SearchTool:
    """A toolbox with a search of a document's paragraphs; Markdown's headings are their titles."""
    return SearchTool(DocumentRetriever(document), DOCUMENT_SEARCH)


WRONG_INPUT = "tool-input"
"""The reason of a `StepError` where a call with other arguments may succeed."""


def solver(toolbox: Tools, on_reply: Callable[[str, ToolReply], Any] = lambda *_: None) -> Solve:
    """A solver that calls tools, for an action with ``body: solver``.

    Its arguments are a tool's name, and the call's arguments as `arguments_of` takes them; these
    may be missing for a tool that needs none.

    Args:
        toolbox: the tools of one question.
        on_reply: called with the path and the reply of every call.

    Returns:
        The solver; its value is the reply's text. A failed call is a
        `StepError` with the tool's message; its reason is `WRONG_INPUT` or
        ``tool``.
    """

    async def solve(path: str, args: Sequence[Given]) -> Value:
        name = as_text(args[0].value)
        try:
            reply = await toolbox.call(name, arguments_of(args[1].value if args[1:] else []))
        except ToolError as error:
            reason = WRONG_INPUT if error.reason == "input" else "tool"
            raise StepError(reason, str(error)) from None
        on_reply(path, reply)
        return reply.text

    return solve


def arguments_of(value: Value) -> Mapping[str, Any]:
    """A call's arguments from a step's value: pairs, a list of lists of two, or JSON in a text.

    Raises:
        ToolError: the value is none of these.
    """
    match value:
        case Pairs():
            return {as_text(key): to_json(item) for key, item in value}
        case list() if all(isinstance(item, list) and len(item) == 2 for item in value):
            return {as_text(item[0]): to_json(item[1]) for item in value if isinstance(item, list)}
        case str():
            with suppress(ValueError, RecursionError):
                if isinstance(data := json.loads(value), dict):
                    return data
    raise ToolError("input", 'Give a call\'s arguments as pairs, or as {"name": value} in JSON.')
