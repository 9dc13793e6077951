"""Scripted models: one that knows a question's hops, one for REBEL's schemas; tools as told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from pearl.lang.diagnostics import errors_of
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.lang.values import Value
from pearl.lint.checker import check
from pearl.models.base import ModelError, Reply, Request
from pearl.models.offline import Offline
from pearl.prompts.calls import Call, CorrectFilled, ExecuteStep, FillSchema, NextStep
from pearl.runtime.calls import Caller, Journal
from pearl.runtime.context import UNLIMITED, Context
from pearl.runtime.executor import NONE, Frame, Handlers
from pearl.runtime.loop import Finished, run_strategy
from pearl.runtime.trace import export_trace, read_records, replay
from pearl.strategies.rebel import NOTHING
from pearl.tools.toolbox import Parameter, Tool, ToolError, ToolReply

Said: TypeAlias = dict[str, Any] | str | Reply | ModelError
"""A reply: an object, a text as it is, or with what else is to be known of it, or an error."""


class Scripted:
    """Says what a function of the call has, a list in its order, or a mapping by the call's path;
    keeps what it was asked."""

    name = identity = "reader"
    notice = ""

    def __init__(self, script: Callable[[Any], Said] | Mapping[str, Said] | Iterable[Said]) -> None:
        self.script = script if callable(script) or isinstance(script, Mapping) else list(script)

    @cached_property
    def asked(self) -> list[Request]:
        return []

    def says(self, call: Call) -> Said:
        """The reply to a call."""
        if isinstance(self.script, Mapping):
            return self.script[self.asked[-1].path]
        return self.script.pop(0) if isinstance(self.script, list) else self.script(call)

    async def answer(self, request: Request) -> Reply:
        self.asked.append(request)
        said = self.says(request.call)
        if isinstance(said, ModelError):
            raise said
        if isinstance(said, Reply):
            return said
        return Reply(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False))

    async def close(self) -> None:
        """Nothing is open."""

    def given(self, schema: str = "") -> list[dict[str, Any]]:
        """What each form, or each of one schema, was first to be filled in from."""
        calls = [request.call for request in self.asked]
        fills = [call for call in calls if isinstance(call, FillSchema)]
        return [dict(call.given) for call in fills if schema in ("", call.schema.name)]

    def complaints(self) -> list[str]:
        """What was said of replies that did not fit."""
        calls = [request.call for request in self.asked]
        return [call.complaint for call in calls if isinstance(call, CorrectFilled)]

    def schemas(self) -> list[str]:
        """What was asked, in order."""
        return [schema_of(request.call) for request in self.asked]


def schema_of(call: Call) -> str:
    """The name of the schema that is to be filled in, perhaps again."""
    if isinstance(call, CorrectFilled):
        return f"{call.fill.schema.name} again"
    assert isinstance(call, FillSchema)
    return call.schema.name


def run(*args: Any, **more: Any) -> tuple[Finished, Journal, Any]:
    """As `carry_out`; the run's trace is a plan that replays."""
    finished, journal, strategy = carry_out(*args, **more)
    conforms(finished, journal, args[3])
    return finished, journal, strategy


def conforms(finished: Finished, journal: Journal, library: Library) -> None:
    """See that a run's trace is a plan that parses, checks and replays to the same answer."""
    source = Source("trace.plan", export_trace(journal.entries, "test"))
    parsed = parse(source)
    assert not parsed.broken
    assert not errors_of(check(parsed, library))
    [record] = read_records(source)
    assert record.answer == finished.text
    replayed = replay([record], library)
    assert (replayed.exact, replayed.failed) == (1, {})


def carry_out(
    model: Any,
    make: Callable[[Caller], Any],
    question: str,
    library: Library,
    document: Source | None = None,
    handlers: Handlers | Callable[[Caller], Handlers] | None = None,
    context: Context = UNLIMITED,
    journal: Journal | None = None,
) -> tuple[Finished, Journal, Any]:
    """A run's end, its journal and its strategy."""
    journal = journal or Journal()
    journal.decide("run", {"question": question})
    caller = Caller(model.answer, model.identity, journal, context=context, planning=context)
    strategy = make(caller)
    handed = handlers or getattr(strategy, "handlers", NONE)
    handed = handed(caller) if callable(handed) else handed
    source = document or Source("d", "-")
    finished = asyncio.run(run_strategy(strategy, question, Frame(source, library, caller, handed)))
    return finished, journal, strategy


@dataclass
class Mind(Scripted):
    """Knows how each question is split, which tool is for it, and how replies are read.

    Args:
        splits: sub-questions by question; none where it is not there.
        knows: questions that facts answer, and the answer.
        tools: the tool by question, or several: the second where the first came to nothing.
        inputs: what a tool is given, by question.
        reads: the answer, given a question and a reply.
        first: what is said instead, once each, by schema: replies that do not fit.
        own: questions that it answers without facts, and the answer.
    """

    splits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    knows: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, Sequence[str]] = field(default_factory=dict)
    inputs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reads: Callable[[str, str], str | None] = lambda _, reply: reply.strip() or None
    first: dict[str, list[Said]] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)

    def says(self, call: Call) -> Said:
        fill = call.fill if isinstance(call, CorrectFilled) else call
        if not isinstance(fill, FillSchema):
            return ModelError("request", "Only schemas are filled here.")
        waiting = self.first.get(fill.schema.name)
        return waiting.pop(0) if waiting else self.said(fill, dict(fill.given))

    def said(self, fill: FillSchema, given: Mapping[str, Value]) -> Said:
        """The reply to a schema."""
        question = str(given["question"])
        match fill.schema.name:
            case "rebel_split":
                return {"sub_questions": list(self.splits.get(question, ()))}
            case "rebel_memory":
                return {"answerable": question in self._known(given)}
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
                return {"answer": self._known(given).get(question)}
        raise AssertionError(fill.schema.name)

    def _known(self, given: Mapping[str, Value]) -> Mapping[str, str]:
        facts = given["facts"]
        assert isinstance(facts, list)
        found = [one for one in facts if not str(one).endswith(f": {NOTHING}")]
        return {**self.own, **(self.knows if found else {})}


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


def record(journal: Journal, path: str = "replies.jsonl") -> str:
    """A run's replies in a file, as ``--model`` names it."""
    rows = [
        {"key": entry.call_key, "text": entry.value, "identity": "reader"}
        for entry in journal.entries
        if entry.kind == "call"
    ]
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return f"recorded:{path}"


DECOMPOSITIONS = (
    (
        r'Take the letters at position (\d) of the words in "(.*)" and concatenate them using a '
        r"(.*)\.",
        "SIGN",
        'words = SPLIT("$2", " ")\nletters = LETTER_AT(each words, $1)\nfound = VALUES(letters)\n'
        'sign = SIGN("$3")\nanswer = JOIN(found, sign)\nreturn answer',
    ),
    (
        r'Reverse the sequence "([^,"]*)"\.',
        "REVERSE",
        'items = SPLIT("$1", ", ")\nanswer = JOIN(items, ", ")\nreturn answer',
    ),
    (
        r'Reverse the sequence "(.*)"\.',
        "REST",
        'items = SPLIT("$1", ", ")\nfirst = ITEM(items, 1)\nothers = REST(items)\n'
        'tail = JOIN(others, ", ")\nlast = REVERSE("Reverse the sequence \\"{tail}\\".")\n'
        'answer = JOIN([last, first], ", ")\nreturn answer',
    ),
    (
        r'Reverse the sequence "(.*)"\.',
        "HALVES",
        'items = SPLIT("$1", ", ")\nhalves = HALVES(items)\none = ITEM(halves, 1)\n'
        'two = ITEM(halves, 2)\nleft = JOIN(one, ", ")\nright = JOIN(two, ", ")\n'
        'last = REVERSE("Reverse the sequence \\"{right}\\".")\n'
        'first = REVERSE("Reverse the sequence \\"{left}\\".")\n'
        'answer = JOIN([last, first], ", ")\nreturn answer',
    ),
    (
        r"(.*jars.*)",
        "LAST_NUMBER",
        'thought = REASON("$1")\ntold = EXTRACT_NUMBER("$1", thought)\n'
        "answer = LAST_NUMBER(told)\nreturn answer",
    ),
    (
        r"What is the place of birth of the director of film (.*)\?",
        "MULTI_HOP_READ",
        'one = RETRIEVE("Who directed $1?", 3)\nperson = READ(one, "Who directed $1?")\n'
        'two = RETRIEVE("Where was {person} born?", 3)\nall = FLAT([one, two])\n'
        'answer = MULTI_HOP_READ(all, "Where was {person} born?")\nreturn answer',
    ),
)
"""What a question reads like, an action that its library has, and how it is decomposed."""


def next_step(call: NextStep) -> str:
    """The next step of a question, as a decomposer writes it."""
    for pattern, action, text in DECOMPOSITIONS:
        match = re.fullmatch(pattern, call.question)
        if match and call.library.get(action):
            line = text.splitlines()[len(call.steps)]
            for number, words in enumerate(match.groups(), 1):
                line = line.replace(f"${number}", words)
            return line
    raise AssertionError(call.question)


@dataclass(frozen=True, slots=True)
class Hop:
    """A sub-question with its answer, the sentence that has it, and that paragraph's title."""

    question: str
    answer: str
    sentence: str
    title: str


FILM = "What is the place of birth of the director of film The Glass Harbour?"
FILM_HOPS = (
    Hop("Who directed The Glass Harbour?", "Jonas Pell",
        "The Glass Harbour is a 1961 film directed by Jonas Pell.", "The Glass Harbour"),
    Hop("Where was Jonas Pell born?", "Quistholm",
        "Jonas Pell (3 May 1920 in Quistholm - 1988) was a director of films.", "Jonas Pell"),
)  # fmt: skip
FILM_TEXT = "".join(f"# {hop.title}\n\n{hop.sentence}\n\n" for hop in FILM_HOPS) + (
    "# Quistholm\n\nQuistholm is a town on the river Arle.\n\n"
)


@dataclass
class Reader(Scripted):
    """Knows the hops of one question, and puts them in every method's words.

    Args:
        question: the whole.
        hops: its sub-questions in order; the last one's answer is the question's.
    """

    question: str = FILM
    hops: Sequence[Hop] = FILM_HOPS

    async def answer(self, request: Request) -> Reply:
        match request.call:
            case NextStep() as call:
                return Reply(next_step(call))
            case FillSchema() as call:
                return Reply(json.dumps(self.filled(call.schema.name, dict(call.given))))
            case ExecuteStep() as call if known := self._known(dict(call.arguments).get("Q")):
                return Reply(known.answer)
        return await Offline().answer(request)

    def _known(self, question: Value | None) -> Hop | None:
        return next((hop for hop in self.hops if hop.question == question), None)

    def filled(self, schema: str, given: Mapping[str, Any]) -> Any:
        """The object that a schema asks for."""
        last, asked = self.hops[-1], given.get("question")
        searched = self._known(given.get("sub_question", asked))
        whole = asked == self.question and asked != last.question
        match schema:
            case "fsm_decompose":
                sub = self.hops[0].question if whole else asked
                return {"kind": "compound" if whole else "simple", "sub_question": sub}
            case "fsm_search":
                assert searched
                return {"answer": searched.answer, "evidence": [searched.sentence],
                        "title": searched.title}  # fmt: skip
            case "fsm_revise":
                return {"type": "composition", "question": last.question}
            case "fsm_judge":
                return {"same": asked == given["sub_question"]}
            case "fsm_review":
                return {"answer": last.answer, "triples": [], "explanation": "It follows.",
                        "supporting_facts": [hop.sentence for hop in self.hops]}  # fmt: skip
            case "rebel_split":
                return {"sub_questions": [hop.question for hop in self.hops if whole]}
            case "rebel_memory":
                return {"answerable": len(given["facts"]) == len(self.hops)}
            case "rebel_tool":
                return {"tool": str(given["tools"]).partition(":")[0]}
            case "rebel_input":
                return {"query": searched.title if searched else self.question}
            case "rebel_read":
                return {"answer": searched.answer if searched else None}
            case "react_step":
                done = len(given["steps"])
                act = ("Search", self.hops[done].title) if done < len(self.hops) else (
                    "Finish", last.answer)  # fmt: skip
                return {"thought": "And on.", "action": act[0], "input": act[1]}
            case "fsm_summarise" | "rebel_answer":
                return {"answer": last.answer}
        raise AssertionError(schema)
