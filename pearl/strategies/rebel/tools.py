"""The tools of a run: what they look like from here, and those that Pearl makes itself."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pearl.engine.keep import Keeper
from pearl.llm import Reply
from pearl.plan import Arg, Items, Literal, Ref, Template
from pearl.retrieval import DocumentRetriever, Retriever, told_passages
from pearl.source import Source
from pearl.tools import Parameter, Tool, ToolError, ToolReply, Tools
from pearl.tools.base import LONGEST
from pearl.tools.checking import checked
from pearl.values import canonical_json, digest, from_json

__all__ = ["KeptTools", "Tools", "document_tools", "listed", "searching_tools", "written_input"]

PASSAGES = 4
"""Paragraphs that a search of the document replies with."""


SEARCH = Tool(
    "search",
    "Finds the paragraphs that bear most on some words, and gives them with their titles.",
    (
        Parameter(
            "query",
            "the words to search for: names, places, and what is wanted of them",
            '{"type": "string", "minLength": 1, "maxLength": 500}',
        ),
    ),
)
"""The search of `document_tools`."""


@dataclass(frozen=True, slots=True)
class _Searching:
    retriever: Retriever

    @property
    def tools(self) -> Mapping[str, Tool]:
        return MappingProxyType({SEARCH.name: SEARCH})

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        if name != SEARCH.name:
            raise ToolError("input", f"There is no tool {name[:60]}: use {SEARCH.name}.")
        query = checked(SEARCH, arguments)["query"]
        found = await asyncio.to_thread(self.retriever.search, query, PASSAGES)
        if not found:
            raise ToolError("input", "No paragraph has one of these words: use others.")
        text = "\n\n".join(told_passages(found))
        return ToolReply(text[:LONGEST], max(0, len(text) - LONGEST))


def searching_tools(retriever: Retriever) -> Tools:
    """One tool, which searches; it needs no network.

    Args:
        retriever: where passages come from.
    """
    return _Searching(retriever)


def document_tools(document: Source) -> Tools:
    """One tool, which searches the paragraphs of a document.

    Args:
        document: Markdown's headings are its paragraphs' titles.
    """
    return searching_tools(DocumentRetriever(document))


@dataclass(frozen=True, slots=True)
class KeptTools:
    """Tools whose replies are kept for one run, so that one that goes on asks nothing again.

    Two calls alike in one run are two calls: a reply of another minute may
    differ. A later run asks anew. What failed is kept too, and each call
    counts whether it is kept or not: a run that goes on does what it would
    have done.

    Args:
        inner: who is asked.
        keeper: where replies are kept.
        run: the run's name.
        question: names the question in the run.
    """

    inner: Tools
    keeper: Keeper
    run: str
    question: str
    _made: Counter[str] = field(default_factory=Counter)
    _used: Counter[str] = field(default_factory=Counter)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """As they are."""
        return self.inner.tools

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolReply:
        """As it was answered before, where the run was stopped since; else now.

        Raises:
            ToolError: it came to nothing.
        """
        self._count(name)
        called = digest([self.question, name, dict(arguments)])
        self._made[called] += 1
        key = digest(["tool", called, self._made[called]])
        found = await self.keeper.claim(self.run, key)
        if not isinstance(found, Reply):
            found = Reply(await self._outcome(name, arguments, key))
            found = self.keeper.keep(self.run, key, found, f"tool {name}", "")
        kept = json.loads(found.text)
        if isinstance(kept, dict):
            raise ToolError(kept["reason"], kept["message"])
        return ToolReply(*kept)

    async def _outcome(self, name: str, arguments: Mapping[str, Any], key: str) -> str:
        """What a call comes to now, as it is kept."""
        try:
            reply = await self.inner.call(name, arguments)
        except ToolError as error:
            return json.dumps({"reason": error.reason, "message": str(error)})
        except BaseException:
            self.keeper.drop(self.run, key)
            raise
        return json.dumps([reply.text, reply.cut])

    def _count(self, name: str) -> None:
        tool = self.tools.get(name)
        self._used[name] += 1
        if tool and self._used[name] > tool.limits.calls:
            raise ToolError(
                "budget", f"{name}: All {tool.limits.calls} calls of a question are made."
            )


def written_input(arguments: Mapping[str, Any], known: Mapping[str, str]) -> Arg:
    """A call's arguments as a plan writes them: a list of names and values.

    An answer that occurs in a text is a reference to the step that gave it, so that the plan
    shows what came from where. Where a value is an object, which plans have no form for, all is
    one text of JSON. `pearl.tools.solving.arguments_of` reads both.

    Args:
        arguments: JSON values by name.
        known: the answers that may occur in them, by the step's name.
    """
    if not all(map(_plain, arguments.values())):
        return Literal(canonical_json(dict(arguments)))
    return listed([listed([Literal(name), _arg(one, known)]) for name, one in arguments.items()])


def listed(args: Sequence[Arg]) -> Arg:
    """A list as an argument."""
    known = [one.value for one in args if isinstance(one, Literal)]
    return Literal(known) if len(known) == len(args) else Items(tuple(args))


def _arg(value: Any, known: Mapping[str, str]) -> Arg:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        return listed([_arg(one, known) for one in value])
    steps = {answer: step for step, answer in known.items() if len(answer) > 1}
    if not isinstance(value, str) or not steps:
        return Literal(from_json(value))
    longest_first = "|".join(map(re.escape, sorted(steps, key=len, reverse=True)))
    parts = re.split(rf"(?<!\w)({longest_first})(?!\w)", value)
    found = tuple(Ref(steps[one]) if at % 2 else one for at, one in enumerate(parts) if one)
    if not any(isinstance(one, Ref) for one in found):
        return Literal(value)
    return found[0] if isinstance(found[0], Ref) and len(found) == 1 else Template(found)


def _plain(value: Any) -> bool:  # noqa: ANN401 - any JSON
    if isinstance(value, list):
        return all(map(_plain, value))
    return isinstance(value, str | bool | int | float)
