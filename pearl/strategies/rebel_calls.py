"""What REBEL asks of a model: five schemas, and one made from a tool's parameters.

What a tool replied is seen where an input is filled in, an answer is read, or
facts are looked at. What is asked, and of which tool, is decided from
questions alone.

What one question asks of the model and of tools, within the calls that are its own.

The tools of a run: what they look like from here, and those that Pearl makes itself.

An endpoint's vectors as calls like any other: journaled, kept, and tried again.

How far a question may go, and how far it has gone.

What a run has found by now, and how a frame's plan writes it.

How far a question has come with one tool.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from struct import pack, unpack
from types import MappingProxyType
from typing import Any, TypeAlias

from pearl.lang.ast import Arg, Items, Literal, Ref, Template
from pearl.lang.builtins import Given
from pearl.lang.source import Source
from pearl.lang.values import Value, as_text, canonical_json, digest, from_json
from pearl.models.base import Ask, ModelError, Reply, Request
from pearl.models.embeddings import Embed, Endpoint
from pearl.models.middleware.cache import ReplyCache
from pearl.models.middleware.stack import start_engine
from pearl.prompts.calls import Field, FillSchema, Schema
from pearl.prompts.render import load_schema
from pearl.retrieval.retriever import DocumentRetriever, Retriever, passage_texts
from pearl.run.calls import Caller, Check, SchemaError, fill
from pearl.run.executor import Solve, SolverError
from pearl.run.journal import Journal
from pearl.tools.base import LONGEST, Parameter, Tool, ToolError, ToolReply, Tools
from pearl.tools.toolbox import checked, solver

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
        text = "\n\n".join(passage_texts(found))
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
        found = await self.replies.claim(self.run, key)
        if not isinstance(found, Reply):
            found = Reply(await self._outcome(name, arguments, key))
            found = self.replies.put(self.run, key, found, f"tool {name}", "")
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
            self.replies.release(self.run, key)
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


Embedding: TypeAlias = Callable[[Journal], Embed]
"""An embedding, given where its calls are written down."""

_TEXTS = Schema("embedding", "", ())


def embedding(embed: Embed, replies: ReplyCache | None) -> Embedding:
    """An embedding whose calls are in the journal; one that calls nobody is as it is.

    Args:
        embed: an endpoint's, or one that is worked out here.
        replies: where vectors are kept; None keeps none.

    Raises:
        InputError: the settings of the environment cannot be used.
    """
    # Looked at now: a setting that is wrong is told before anything is asked.
    identity = embed.identity
    if not isinstance(embed, Endpoint):
        return lambda _: embed
    engine = start_engine(_AsModel(embed), replies)
    return lambda journal: _Journaled(engine.ask, identity, journal)


@dataclass(frozen=True, slots=True)
class _AsModel:
    """An endpoint's embedding in the shape that the engine's layers take."""

    embed: Endpoint
    notice: str = ""

    @property
    def name(self) -> str:
        return self.embed.name

    @property
    def identity(self) -> str:
        return self.embed.identity

    async def answer(self, request: Request) -> Reply:
        assert isinstance(request.call, FillSchema)
        [(_, texts)] = request.call.given
        assert isinstance(texts, list)
        found = await self.embed.ask([as_text(one) for one in texts])
        return Reply(_packed(found.vectors), found.usage)

    async def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, slots=True)
class _Journaled:
    ask: Ask
    identity: str
    journal: Journal

    async def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        found: list[list[float]] = []

        async def ask(request: Request) -> Reply:
            reply = await self.ask(request)
            found.extend(_unpacked(reply.text))
            # The numbers are in the store, once: a journal is read by people.
            return replace(reply, text=f"{len(found)} vectors of {len(found[0])} numbers")

        call = FillSchema(_TEXTS, (("texts", list(texts)),))
        await Caller(ask, self.identity, self.journal)(call, "embedding")
        return found


def _packed(vectors: Sequence[Sequence[float]]) -> str:
    """Vectors as text, with the precision in which endpoints compute them."""
    rows = (b64encode(pack(f"<{len(one)}f", *one)).decode() for one in vectors)
    return json.dumps(list(rows))


def _unpacked(text: str) -> list[list[float]]:
    rows = map(b64decode, json.loads(text))
    return [list(unpack(f"<{len(one) // 4}f", one)) for one in rows]


@dataclass(frozen=True, slots=True)
class RebelLimits:
    """Where a question's recursion ends.

    Args:
        depth: sub-questions within each other, at most; 0 splits nothing.
        width: sub-questions of one question, at most.
        calls: calls of the model for the whole question, at most; when they come to an end,
            each question is answered from what it knows. `LOOKUP` is the smallest number with
            which a question can be put to a tool.
        tool_calls: calls of tools for the whole question, at most.
        revisions: how often a reply that does not fit may be mended, a tool's input among them.
    """

    depth: int = 3
    width: int = 5
    calls: int = 80
    tool_calls: int = 16
    revisions: int = 2


TOOLS = 2
"""Tools that one question is put to, at most: the one that is chosen, and one other."""

LOOKUP = 3
"""Calls that it takes to put a question to a tool: to choose it, fill in its input, and read."""

KEPT = LOOKUP + 1
"""Calls that a question needs which has facts: to be put to a tool, and answered from them."""


@dataclass(slots=True)
class Spent:
    """What a question has taken, in all its frames.

    Args:
        limits: what it may take.
        calls: of the model.
        tool_calls: of tools.
        deepest: sub-questions within each other.
    """

    limits: RebelLimits
    calls: int = 0
    tool_calls: int = 0
    deepest: int = 0

    @property
    def left(self) -> int:
        """Calls of the model that may still be made."""
        return self.limits.calls - self.calls

    def has_tool_calls(self) -> bool:
        """Whether a tool may be called."""
        return self.tool_calls < self.limits.tool_calls

    def counted(self, ask: Ask) -> Ask:
        """The same model, whose calls are counted here."""

        async def counting(request: Request) -> Reply:
            if not self.left:
                raise ModelError(
                    "calls",
                    f"The question took its {self.limits.calls} calls and has no answer: allow "
                    "more, or ask less at once.",
                )
            self.calls += 1
            return await ask(request)

        return counting


def least(facts: Sequence[str]) -> int:
    """Calls with which a question can be put to a tool, and still be answered from its facts."""
    return KEPT if facts else LOOKUP


def held_for(left: int, facts: Sequence[str], waiting: int) -> int:
    """Calls that a question holds back while one of its parts is asked.

    They are for itself and for its parts after that one, for as many of them
    as there can be a look-up of: so more calls never mean fewer answered parts.

    Args:
        left: calls that the question may make.
        facts: what it knows.
        waiting: parts after the one that is asked.
    """
    room = max(left - least(facts) - KEPT, 0)
    return KEPT * (1 + min(waiting, room // KEPT))


@dataclass(slots=True)
class Memory:
    """What all frames of a run have found, in the order in which it was found; it only grows.

    Args:
        answered: the questions. Splitting sees these, and no answer.
        facts: a line each: a question and its answer.
    """

    answered: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    def learn(self, question: str, answer: str) -> None:
        """A question has an answer."""
        self.answered.append(question)
        self.facts.append(line(f"{question}: {answer}"))


class Known:
    """What one frame knows: what it was given, and all that was found since it began.

    What its own steps found is a reference to them; what a frame within one of
    them found is a text, as no reference reaches into another frame.

    Args:
        given: facts, as the frame was called with them.
        memory: the run's.
    """

    def __init__(self, given: tuple[str, ...], memory: Memory) -> None:
        self._given = given
        self._memory = memory
        self._start = len(memory.facts)
        self._steps: dict[int, tuple[str, str]] = {}

    def learn(self, question: str, step: str, value: Value) -> None:
        """A step of this frame has answered a question."""
        self._steps[len(self._memory.facts)] = (question, step)
        self._memory.learn(question, as_text(value))

    @property
    def facts(self) -> list[str]:
        """A line each."""
        return [*self._given, *self._memory.facts[self._start :]]

    @property
    def args(self) -> list[Arg]:
        """The facts as arguments of a step."""
        found = list(enumerate(self._memory.facts))[self._start :]
        return [*map(Literal, self._given), *(self._arg(at, fact) for at, fact in found)]

    def found(self, values: Mapping[str, Value]) -> dict[str, str]:
        """What this frame's own steps found, by the step's name."""
        return {step: as_text(values[step]) for _, step in self._steps.values()}

    def _arg(self, at: int, fact: str) -> Arg:
        if at not in self._steps:
            return Literal(fact)
        question, step = self._steps[at]
        return Template((f"{question}: ", Ref(step)))


@dataclass(slots=True)
class Try:
    """A question that is put to a tool.

    Args:
        number: which of the question's tools it is, from 1.
        tool: the one that was chosen.
        refused: inputs that it did not take, each with what is wrong.
        replied: whether there is a reply.
        over: whether nothing more is asked of it.
    """

    number: int
    tool: Tool
    refused: list[tuple[Mapping[str, Any], str]] = field(default_factory=list)
    replied: bool = False
    over: bool = False

    @property
    def reply(self) -> str:
        """The step that has its reply."""
        return f"reply_{self.number}"

    @property
    def path(self) -> str:
        """Where its input is asked for."""
        again = f"/again/{len(self.refused)}" if self.refused else ""
        return f"tool/{self.number}/input{again}"

    def has_refused(self, given: Mapping[str, Any]) -> bool:
        """Whether it is an input that it did not take."""
        return any(dict(given) == dict(one) for one, _ in self.refused)


@dataclass(slots=True)
class Desk:
    """A question's calls, and the solvers that its steps need.

    Args:
        caller: asks the model and keeps the journal.
        tools: what can be asked beside the model.
        limits: where it ends.
        spent: what all frames of the run have taken.
        known: what the question's frame knows.
        held: calls that the frames around it keep for themselves.
        tries: the tools it was put to.
        told: whether it was answered from facts, or tried to be.
        short: whether something was left out for want of calls.
    """

    caller: Caller
    tools: Tools
    limits: RebelLimits
    spent: Spent
    known: Known
    held: int = 0
    tries: list[Try] = field(default_factory=list)
    told: bool = False
    short: bool = False

    @property
    def solvers(self) -> Mapping[str, Solve]:
        """By the name that the library's actions give."""
        solvers = {"tool": self._call_tool, "read": self._read, "answer": self._answer}
        return MappingProxyType(solvers)

    @property
    def own(self) -> int:
        """Calls that this question keeps so that facts can answer it."""
        return 1 if self.known.facts and not self.told else 0

    @property
    def left(self) -> int:
        """Calls that this question may make."""
        return self.spent.left - self.held

    def has(self, calls: int) -> bool:
        """Whether this question may make so many calls; the journal says where it may not."""
        if self.left >= calls:
            return True
        self.short = True
        self.caller.journal.decide("limit", {"calls": self.limits.calls})
        return False

    def asking(self, keep: int) -> Asking:
        """Asks the model; what is mended leaves so many calls for what comes after."""
        counted = replace(self.caller, ask=self.spent.counted(self.caller.ask))
        revisions = max(min(self.limits.revisions, self.left - keep - 1), 0)
        return Asking(counted, revisions)

    async def _call_tool(self, path: str, given: Sequence[Given]) -> Value:
        if not self.spent.has_tool_calls():
            raise SolverError("tool", f"The {self.limits.tool_calls} calls of tools are used up.")
        self.spent.tool_calls += 1
        return await solver(self.tools, self._note_cut)(path, given)

    def _note_cut(self, path: str, reply: ToolReply) -> None:
        if reply.cut:
            self.caller.journal.decide(f"{path}/cut", {"characters": reply.cut})

    async def _read(self, path: str, given: Sequence[Given]) -> Value:
        question, reply = (as_text(one.value) for one in given[:2])
        try:
            asking = self.asking(self.own)
            found = await asking.read(question, reply, facts_of(given[2].value), path)
        except SchemaError as error:
            raise SolverError("reply", str(error)) from None
        return _found(found, "The tool's reply does not answer the question.")

    async def _answer(self, path: str, given: Sequence[Given]) -> Value:
        question, facts = given
        # Where facts do not answer it and a tool is left, there is to be a look-up still.
        keep = LOOKUP if len(self.tries) < TOOLS else 0
        try:
            asking = self.asking(keep)
            found = await asking.answer(as_text(question.value), facts_of(facts.value), path)
        except SchemaError as error:
            raise SolverError("reply", str(error)) from None
        return _found(found, "What is known does not answer the question.")


def facts_of(value: Value) -> list[str]:
    """A list of facts, as a step gives it, a line each."""
    return [line(as_text(one)) for one in value] if isinstance(value, list) else []


def _found(answer: str | None, otherwise: str) -> str:
    if answer is None:
        raise SolverError("no-answer", otherwise)
    return answer
