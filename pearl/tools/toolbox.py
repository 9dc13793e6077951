"""Tools: what one is, how it fails, and every call to it, for a run and as a plan's solver."""

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
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from pearl.lang.builtins import Given
from pearl.lang.text import one_line
from pearl.lang.values import Pairs, Value, as_text, digest, to_json
from pearl.models.middleware.cache import read_or_make
from pearl.runtime.binding import SolverError
from pearl.runtime.executor import Solve

if TYPE_CHECKING:
    from pearl.lang.source import Source
    from pearl.models.endpoint_replies import Redact
    from pearl.models.middleware.cache import ReplyCache
    from pearl.retrieval.retriever import Retriever

TOOL_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")

LONGEST = 15_000
"""Characters of a reply that a prompt holds (REBEL cuts replies there); the rest is counted."""

Reason: TypeAlias = Literal[
    "input", "host", "address", "redirect", "size", "time", "status", "network", "reply", "budget"
]


class ToolError(Exception):
    """A call that came to nothing.

    Args:
        reason: ``input`` (arguments that do not fit, which may be mended), ``host`` (sent on to
            a host that is not declared), ``address`` (a private one), ``redirect``, ``size``,
            ``time``, ``status`` (an error of the server's), ``network``, ``reply`` (it cannot be
            read) or ``budget`` (no call is left).
        message: one line, without secrets and without words of the server's.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a model fills in.

    Args:
        name: as the tool knows it.
        about: what it is, for a model and a person.
        schema: the JSON schema of its values, as JSON.
        required: whether a call must have it.
    """

    name: str
    about: str
    schema: str
    required: bool = True


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """How far a tool may go.

    Args:
        seconds: of one call, with every redirect.
        bytes: of one reply, unpacked.
        calls: for one question.
        private: whether it may be on this machine or in a private network.
    """

    seconds: float = 10.0
    bytes: int = 1_000_000
    calls: int = 20
    private: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool, as whoever uses it sees it.

    Args:
        name: of small letters, digits and ``_``.
        about: what it does, in one line.
        parameters: what a call fills in.
        limits: how far it may go.
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
    """What a tool answered: data, whatever it says.

    Args:
        text: its first `LONGEST` characters, without secrets.
        cut: characters left out after them.
    """

    text: str
    cut: int = 0


def cut(text: str) -> ToolReply:
    """A reply of what a prompt can hold of a text."""
    return ToolReply(text[:LONGEST], max(0, len(text) - LONGEST))


class Tools(Protocol):
    """What can be asked beside the model: a toolbox, as far as a run uses it."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Those that may be called, by name; there are no others."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        """Ask one of them; a `ToolError` where it came to nothing."""
        ...


Service: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[str]]
"""Carries out a tool's calls: the reply's whole text, given arguments that fit the tool's
parameters. Raises `ToolError` where it came to nothing."""


LONGEST_CALL = 20_000
"""Characters of a call's arguments, as JSON."""

_SHOWN = 200


def check_arguments(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, where they fit the tool's parameters.

    Args:
        tool: the one that is called.
        arguments: JSON values by parameter. A null for a parameter that is not
            required counts as none.

    Raises:
        ToolError: they do not; all that is wrong with them is told at once.
    """
    optional = {parameter.name for parameter in tool.parameters if not parameter.required}
    data = {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in optional
    }
    try:
        size = len(json.dumps(data, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, TypeError, RecursionError):
        raise ToolError("input", "The arguments are no JSON that can be sent.") from None
    if size > LONGEST_CALL:
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
"""Seconds that all patterns of a call may take: some take for ever on texts made for them."""


def _validator() -> Any:  # noqa: ANN401 - of a class that jsonschema makes
    """What checks arguments: as JSON Schema says, with a deadline for patterns."""
    import regex
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend

    until = time.monotonic() + PATTERNS

    def search(_: object, pattern: str, text: object, __: object) -> Iterator[ValidationError]:
        if not isinstance(text, str):
            return
        try:
            seconds = max(0.001, until - time.monotonic())
            # A thread that searches lets the others run, so that the loop goes on.
            if regex.search(pattern, text, timeout=seconds, concurrent=True) is None:
                yield ValidationError(f"{text!r} does not match {pattern!r}")
        except TimeoutError:
            yield ValidationError(f"it takes too long to see whether it matches {pattern!r}")

    return extend(Draft202012Validator, {"pattern": search})  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class Toolbox:
    """Tools by name, and what carries out their calls.

    Args:
        tools: by name.
        services: what carries each of them out.
        redact: takes secrets out of a text.
        closing: let go of the services' connections.
    """

    tools: Mapping[str, Tool]
    services: Mapping[str, Service]
    redact: Redact
    closing: Sequence[Callable[[], Awaitable[None]]] = ()
    _used: Counter[str] = field(default_factory=Counter, init=False)

    def afresh(self) -> Toolbox:
        """The same tools for another question: their calls are counted anew."""
        return replace(self)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        """Call a tool once.

        Args:
            name: its name.
            arguments: JSON values by parameter. A null for a parameter that is
                not required counts as none.

        Raises:
            ToolError: it came to nothing; nothing was sent where the reason is
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
        # Before it is cut: a secret's beginning is not found any more.
        return cut(self.redact(text))

    async def close(self) -> None:
        """Close the connections, which the tools of `afresh` share."""
        for close in self.closing:
            await close()


@dataclass(frozen=True, slots=True)
class CachedTools:
    """Tools whose replies are kept for one run, so that one that goes on asks nothing again.

    Two calls alike in one run are two calls: a reply of another minute may
    differ. A later run asks anew. What failed is kept too, and each call
    counts whether it is kept or not: a run that goes on does what it would
    have done.

    Args:
        inner: who is asked.
        replies: where replies are kept.
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
        """As it was answered before, where the run was stopped since; else now."""
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
"""Paragraphs that a search of the document replies with."""

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
"""The search of `SearchTool`, of a corpus."""

DOCUMENT_SEARCH = replace(
    SEARCH,
    about="Finds the paragraphs of the document that the question is asked of that bear most on "
    f"some words: at most {PASSAGES}, with their titles. It holds nothing else.",
)
"""The search of one document."""


@dataclass(frozen=True, slots=True)
class SearchTool:
    """One tool, which searches; it needs no network.

    Args:
        retriever: where passages come from.
        tool: what it says of itself.
    """

    retriever: Retriever
    tool: Tool = SEARCH

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The search."""
        return MappingProxyType({self.tool.name: self.tool})

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        """The passages that have these words, best first; a `ToolError` where there are none."""
        from pearl.retrieval.retriever import passage_texts

        if name != self.tool.name:
            raise ToolError("input", f"There is no tool {name[:60]}: use {self.tool.name}.")
        query = check_arguments(self.tool, arguments)["query"]
        passages = await asyncio.to_thread(self.retriever.search, query, PASSAGES)
        if not passages:
            raise ToolError("input", "No paragraph has one of these words: use others.")
        return cut("\n\n".join(passage_texts(passages)))


def document_tools(document: Source) -> SearchTool:
    """One tool, which searches a document's paragraphs; Markdown's headings are their titles."""
    from pearl.retrieval.retriever import DocumentRetriever

    return SearchTool(DocumentRetriever(document), DOCUMENT_SEARCH)


WRONG_INPUT = "tool-input"
"""Why a solver has no value where other arguments may mend it."""


def solver(toolbox: Tools, on_reply: Callable[[str, ToolReply], Any] = lambda *_: None) -> Solve:
    """What calls tools for an action with ``body: solver``.

    Its arguments are a tool's name, and the call's arguments: pairs, a list of lists of two,
    or a JSON object in a text; none for a tool that needs none.

    Args:
        toolbox: the tools, of one question.
        on_reply: called with the path and the reply of every call.

    Returns:
        The solver; its value is the reply's text. A call that comes to nothing
        is a `SolverError` with the tool's message; its reason is `WRONG_INPUT`
        or ``tool``.
    """

    async def solve(path: str, args: Sequence[Given]) -> Value:
        name = as_text(args[0].value)
        try:
            reply = await toolbox.call(name, arguments_of(args[1].value if args[1:] else []))
        except ToolError as error:
            reason = WRONG_INPUT if error.reason == "input" else "tool"
            raise SolverError(reason, str(error)) from None
        on_reply(path, reply)
        return reply.text

    return solve


def arguments_of(value: Value) -> Mapping[str, Any]:
    """A call's arguments, as a step gives them: pairs, a list of lists of two, or JSON in a text.

    Raises:
        ToolError: it is none of these.
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
