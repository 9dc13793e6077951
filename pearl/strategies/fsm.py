"""FSM prompting: a state machine asks for one small thing after another.

Wang et al., "FSM: A Finite State Machine Based Zero-Shot Prompting Paradigm
for Multi-Hop Question Answering", 2024. The transitions are the table in
`pearl.strategies.fsm_states`; each work state is a step of the plan, and
each decision is recorded in the journal.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

from pearl.lang.ast import DOCUMENT, Arg, Items, Literal, Plan, Ref, Step, Template, woven
from pearl.lang.builtins import Given
from pearl.lang.graph import needed
from pearl.lang.source import Source
from pearl.lang.text import free_name, one_line
from pearl.lang.values import Pairs, Value, as_text
from pearl.prompts.calls import FillSchema
from pearl.prompts.render import load_schema
from pearl.retrieval.retriever import DocumentRetriever, Paragraph
from pearl.runtime.binding import StepError
from pearl.runtime.calls import REVISIONS, Caller, Check, SchemaError, counting, fill
from pearl.runtime.context import ContextError
from pearl.runtime.evidence import Quote, evidence
from pearl.runtime.executor import Handlers
from pearl.runtime.fit_to_window import fit_fill
from pearl.runtime.loop import Attempt, Move, Run, RunError, Steps
from pearl.strategies.fsm_states import END, Machine, State

WORDS = 5
"""The most words that a search's answer may have."""

QUOTE = "> "
"""The mark before a sentence of the document in a record."""

_GOING_BACK = {"no-answer": "nothing", "solver": "misfit", "": "misfit"}
"""The outcome of a failed step, by the reason of its failure; every other reason ends the run."""

_MISFIT = "no reply had the form that was asked for"
"""What the model is told of a misfit; the failure's own cause gives advice to the user."""


@dataclass(frozen=True, slots=True)
class FsmLimits:
    """Where a machine stops.

    Args:
        hops: the most sub-questions that are answered.
        revisions: how often a state may ask again for a reply that does not fit.
        backtracks: how often the machine may go back to an earlier state.
        calls: requests to the model in all; the last ones are reserved for the answer.
    """

    hops: int = 6
    revisions: int = REVISIONS
    backtracks: int = 4
    calls: int = 40


class AnsweredHop(NamedTuple):
    """A sub-question that was answered: the step that has the answer, and the question that was
    being answered when it was asked (the original one, or a revision)."""

    step: str
    question: Arg


class Fsm:
    """Runs a state machine: its work states are steps, its decisions are in the journal.

    One object serves one run, with its own `handlers`. With ``turns`` each state sees the prompts
    and replies of the earlier ones, and the document is shown once, in the first search. A
    conversation that no longer fits the window is replaced by a new one. The review, the paper's
    second round, is always a prompt of its own.

    Args:
        machine: the states and transitions.
        caller: asks the model and writes the journal.
        document: the document of the run, which is searched.
        limits: where the machine stops.
        turns: whether states are turns of one conversation, rather than separate prompts.
    """

    def __init__(
        self,
        machine: Machine,
        caller: Caller,
        document: Source,
        limits: FsmLimits,
        *,
        turns: bool = False,
    ) -> None:
        self.machine = machine
        self.limits = limits
        self._converses = turns
        self._turns: tuple[tuple[FillSchema, str], ...] = ()
        self._type = ""  # The type that the last revision gave the question, as ``comparison``.
        self._hops: list[AnsweredHop] = []
        self.backtracks = 0
        self.calls = 0
        self._caller = caller
        self._document = document
        self._moves = self._walk()
        self._run: Run
        self._at = machine.states[0].name
        self._number = 1  # How many states were entered, the current one included.
        self._question: Arg  # What is to be answered now: the run's question, or its last revision.
        self._sub = ""  # The sub-question that is searched for.
        self._spare: AnsweredHop | None = None  # The last hop, while it is answered again.
        self._revised: Arg | None = None  # The revision that waits for a judgement.
        self._summary = self._review = ""  # The steps that have the answer, and its review.
        self._tried: dict[str, str] = {}  # Sub-questions that failed, and the first reason of each.
        self._refused: dict[str, list[str]] = {}  # Failures, by the state that is told of them.
        self._limited = False

    @property
    def hops(self) -> int:
        """How many sub-questions were answered."""
        return len(self._hops)

    async def next(self, run: Run) -> Move:
        """Go from state to state, to the next step or to the answer; a `RunError` where a limit was
        met before anything was found, or a step cannot run."""
        self._run = run
        return await anext(self._moves)

    async def _walk(self) -> AsyncIterator[Move]:
        """The moves of the run; after each, `_run` has its result."""
        self._question = Literal(self._run.question)
        machine, inputs = self.machine, (("question", self._run.question),)
        # Every question needs these states: if one does not fit the window now, with nothing found
        # yet, it never will, so nothing is sent.
        for name in (machine.states[0].name, "search", *machine.closing):
            reads = self._document if name == "search" else None
            call = FillSchema(load_schema(machine.state(name).asks), inputs, reads)
            fit_fill(call, self._caller.window(call))
        while self._at != END:
            if self._left() < 1:
                self._stop("calls", f"its {self.limits.calls} requests are used up: allow more.")
            elif not self._state.action:
                await self._decide()
            else:
                steps = self._work()
                yield Attempt(steps)
                if self._run.failed:
                    self._failed(self._run.failed)
                else:
                    self._done(steps[-1].name)
        ending: tuple[Step, ...] = ()
        answer = self._summary
        if self._review:
            answer = free_name("answer", self._run.values)
            ending = (Step(answer, "ANSWER", (Ref(self._review),)),)
        whole = (*self._run.plan.steps, *ending)
        aside = {step.name for step in whole} - needed((answer,), whole)
        yield Steps(ending, returns=(Ref(answer),), aside=frozenset(aside), last=True)

    async def _decide(self) -> None:
        """Ask for a decision and enter the next state; where no reply fits, go back."""
        records = self._records()
        solved = {_plain(_field(record, "question")) for record in records}
        inputs = {**self._asked(self._text(self._question)), "solved": _solved(records)}
        revised = self._revised or self._question
        if self._at == "judge":
            answered = field_of(records[-1], "question")
            inputs = {"question": self._text(revised), "sub_question": answered}

        def check(reply: dict[str, Any]) -> list[str]:
            refused_before = {_plain(question) for question in self._tried}
            again = _plain(reply.get("sub_question", "")) in refused_before - solved
            return ["sub_question: it was tried before: ask for something else."] * again

        refused: list[Value] = [*self._refused.get(self._at, ())]
        try:
            reply = await self._ask(self._at, inputs, self._path, refused, check=check)
        except SchemaError as error:
            message = f"The reply to {self._state.asks} does not fit: {' '.join(error.problems)}"
            self._back("misfit", str(error), message)
            return
        if self._at == "decompose":
            self._sub = one_line(reply["sub_question"])
            if _plain(self._sub) in solved:
                # To answer a solved sub-question again could go on forever.
                self._go("repeated", sub_question=self._sub)
                return
            for state in ("search", "revise", "judge"):
                self._refused.pop(state, None)
            self._go(reply["kind"], sub_question=self._sub)
        elif reply["same"]:
            self._go("same")
        elif self.hops >= self.limits.hops:
            self._stop("hops", f"{self.limits.hops} sub-questions were answered.")
        else:
            self._question = revised
            self._go("different")

    # --- work states: the steps they write ---

    def _work(self) -> tuple[Step, ...]:
        """The steps of a work state; the last of them is the state's own."""
        whole = Literal(self._run.question)
        answers = Items(tuple(Ref(hop.step) for hop in self._hops))
        before: tuple[Step, ...] = ()
        args: tuple[Arg, ...]
        match self._at:
            case "search":
                name = f"found_{self.hops + 1}"
                sub_question, before = self._woven()
                args = (Ref(DOCUMENT), sub_question)
            case "revise":
                name, last = f"question_{self.hops + 1}", self._hops[-1]
                args = (last.question, Ref(last.step))
            case "summarise":
                name, args = "summary", (whole, answers)
            case _:
                name, args = "review", (Ref(DOCUMENT), whole, Ref(self._summary), answers)
        refused = map(Literal, self._refused.get(self._at, ()))
        name = free_name(name, self._run.values)
        return (*before, Step(name, self._state.action, (*args, *refused)))

    def _woven(self) -> tuple[Arg, tuple[Step, ...]]:
        """The sub-question with references in place of earlier answers, and steps that give those.

        Once the references are filled in, its text is the same.
        """
        if self._sub == self._text(self._question):
            return self._question, ()
        pairs = zip(self._hops, self._records(), strict=True)
        answers = {_field(record, "answer"): f"{hop.step}_answer" for hop, record in pairs}
        answers.pop("", None)
        parts = woven(self._sub, answers)
        used = {ref.name: ref.name.removesuffix("_answer") for ref in parts if isinstance(ref, Ref)}
        steps = [
            Step(name, "ANSWER", (Ref(search),))
            for name, search in used.items()
            if name not in self._run.values
        ]
        return Template(parts) if used else Literal(self._sub), tuple(steps)

    def _done(self, name: str) -> None:
        """Record what the state's step gave, and enter the next state."""
        value = self._run.values[name]
        if self._at == "search":
            settled = _plain(self._sub) == _plain(self._text(self._question))
            self._hops.append(AnsweredHop(name, self._question))
            self._spare = None
            outcome = "settled" if settled else "found"
            details = {key: _field(value, key) for key in ("answer", "title")}
            self._go(outcome, step=name, **details, evidence=sentences(field_of(value, "evidence")))
        elif self._at == "revise":
            self._revised = Ref(name)
            self._go("revised", step=name, question=as_text(value), type=self._type)
        elif self._at == "summarise":
            self._summary = name
            self._go("answered", step=name)
        else:
            self._review = name
            self._go("reviewed", step=name)

    def _failed(self, error: RunError) -> None:
        """Go back after a step without an output; raise its error where the reason ends the run."""
        failure = error.failures[0] if error.failures else None
        outcome = _GOING_BACK.get(failure.reason if failure else "")
        if outcome is None:
            raise error
        cause = failure.cause if failure else str(error)
        message = _MISFIT if outcome == "misfit" else cause
        if self._at == "search":
            self._tried.setdefault(self._sub, cause)
            self._back(outcome, cause, f"{self._sub} ({message})")
        elif self._at == "revise":
            record = self._records()[-1]
            if self._back(outcome, cause, f"{_field(record, 'answer')} ({message})"):
                # The search before it runs again, for another answer.
                self._sub = _field(record, "question")
                self._spare = self._hops.pop()
                self._question = self._spare.question
        else:
            self._back(outcome, cause, message)

    # --- from state to state ---

    def _go(self, outcome: str, **details: str | list[str]) -> None:
        """Enter the state that the table has for an outcome."""
        self._enter(outcome, self._state.on[outcome], details)

    def _back(self, outcome: str, cause: str, message: str) -> bool:
        """Go back to the state that the table has for an outcome, and tell that state why; return
        False where a limit led elsewhere."""
        if self._at == "decompose" and not self.hops:
            firsts = (f"“{sub[:120]}” has none: {why}" for sub, why in self._tried.items())
            self._stop("start", next(firsts, cause))
            return False
        if self._limited or self.backtracks >= self.limits.backtracks:
            self._stop("backtracks", f"it went back {self.backtracks} times, and then: {cause}")
            return False
        self.backtracks += 1
        to = self._state.back[outcome]
        # This state is told too: with an unchanged prompt, the cache would give the same reply.
        for state in (to, self._at):
            self._refused.setdefault(state, []).append(message)
        self._enter(outcome, to, {"reason": cause})
        return True

    def _stop(self, limit: str, reason: str) -> None:
        """Enter the state that answers from what was found, as a limit was met; a `RunError` where
        nothing was found."""
        if self._spare:
            self._hops.append(self._spare)
            self._spare = None
        to = self._state.limit
        if not to or not (self._summary if to == END else self.hops):
            raise RunError(one_line(f"{self.machine.name} has no answer: {reason}"))
        self._limited = True
        self._enter("limit", to, {"limit": limit, "reason": reason})

    def _enter(self, outcome: str, to: str, details: Mapping[str, str | list[str]]) -> None:
        self._caller.journal.decide(self._path, {"outcome": outcome, "to": to, **details})
        self._number += 1
        self._at = to

    @property
    def _state(self) -> State:
        return self.machine.state(self._at)

    @property
    def _path(self) -> str:
        return f"fsm/{self._number}/{self._at}"

    def _records(self) -> list[Value]:
        """The records of the searches that found an answer, in order."""
        return [self._run.values[hop.step] for hop in self._hops]

    def _text(self, question: Arg) -> str:
        """A question that is written in the plan, or that a step gave."""
        if isinstance(question, Ref):
            return as_text(self._run.values[question.name])
        return as_text(question.value) if isinstance(question, Literal) else ""

    def _asked(self, question: Value) -> dict[str, Value]:
        """The inputs that show the current question, and the original one where they differ."""
        whole = self._run.question
        return {"question": question} | ({"original_question": whole} if question != whole else {})

    # --- what each state asks the model ---

    def _left(self) -> int:
        """How many requests the state may make; the rest are reserved for the closing states."""
        return self.limits.calls - self.calls - self.machine.after(self._at)

    async def _ask(
        self,
        state: str,
        inputs: Mapping[str, Value],
        path: str,
        refused: Sequence[Value] = (),
        reads: Source | None = None,
        check: Check = lambda _: (),
    ) -> dict[str, Any]:
        """Ask the model, as `fill` does, for an object that fits the schema of a state.

        The prompt shows the inputs, what was ``refused`` before, with the reasons, and the document
        that it ``reads``, if any; ``check`` says what else is wrong with a reply.
        """
        whole = {**inputs, "refused": list(refused)} if refused else inputs
        schema = load_schema(self.machine.state(state).asks)
        call = self._caller.shown(FillSchema(schema, tuple(whole.items()), reads))
        converses = self._converses and state != "review"
        if converses:
            shown = any(earlier.document == reads for earlier, _ in self._turns)
            turn = replace(call, document=None if shown else reads, turns=self._turns)
            try:
                call, left_out = fit_fill(turn, self._caller.window(call))
            except ContextError:
                # The call that does not fit as the next turn starts a new conversation.
                call, left_out = fit_fill(call, self._caller.window(call))
            if left_out:
                self._caller.journal.decide(f"context/{path.removeprefix('step/')}", left_out)

        def count() -> None:
            self.calls += 1

        counted = counting(self._caller.ask, count)
        revisions = max(min(self.limits.revisions, self._left() - 1), 0)
        reply = await fill(replace(self._caller, ask=counted), call, path, check, revisions)
        if converses:
            text = json.dumps(reply, ensure_ascii=False)
            self._turns = (*call.turns, (replace(call, turns=()), text))
        return reply

    @property
    def handlers(self) -> Handlers:
        """What carries out the steps of the work states: pass it to the run."""

        async def solve(ask: Callable[..., Any], path: str, args: Sequence[Given]) -> Value:
            try:
                value: Value = await ask(path, *(argument.value for argument in args))
            except SchemaError as error:
                raise StepError("solver", str(error)) from None
            return value

        async def answer(path: str, record: Value) -> Value:
            del path
            return field_of(record, "answer")

        asks: dict[str, Callable[..., Any]] = {
            "search": self._ask_search,
            "revise": self._ask_revise,
            "summarise": self._ask_summarise,
            "review": self._ask_review,
            "answer": answer,
        }
        return Handlers(MappingProxyType({name: partial(solve, ask) for name, ask in asks.items()}))

    async def _ask_search(self, path: str, question: Value, *refused: Value) -> Value:
        """The answer to a sub-question in the document's paragraphs, with its evidence."""

        def problems(reply: dict[str, Any]) -> list[str]:
            if reply["answer"] is None:
                return []
            wrong = self._unquoted(reply, "evidence")
            if len(reply["answer"].split()) > WORDS:
                wrong.append(f"answer: at most {WORDS} words.")
            titles = set().union(*map(_titles, DocumentRetriever(self._document).paragraphs))
            if titles and _plain(reply["title"] or "") not in titles:
                wrong.append("title: copy that of a paragraph of the document.")
            return wrong

        inputs = {"sub_question": as_text(question)}
        reply = await self._ask("search", inputs, path, refused, self._document, _once(problems))
        answer = one_line(reply["answer"] or "")
        if not answer:
            raise StepError("no-answer", "the paragraphs do not say")
        # A reply that still breaks a rule after the second try is kept, with its faults beside it.
        unmet: list[Value] = [*problems(reply)]
        return _record(
            question=as_text(question),
            answer=answer,
            evidence=self._quotes(reply["evidence"]),
            title=one_line(reply["title"] or ""),
            **({"unmet": unmet} if unmet else {}),
        )

    async def _ask_revise(self, path: str, question: Value, hop: Value, *refused: Value) -> Value:
        """The question, revised with an answer in it."""
        inputs = {
            **self._asked(question),
            "sub_question": field_of(hop, "question"),
            "answer": field_of(hop, "answer"),
        }
        reply = await self._ask("revise", inputs, path, refused)
        self._type = reply["type"]
        return one_line(reply["question"])

    async def _ask_summarise(
        self, path: str, question: Value, records: Value, *refused: Value
    ) -> Value:
        """The answer to the whole question, from all that was found."""
        inputs = {"question": question, "solved": _solved(records)}
        return one_line((await self._ask("summarise", inputs, path, refused))["answer"])

    async def _ask_review(
        self, path: str, question: Value, answer: Value, records: Value, *refused: Value
    ) -> Value:
        """A review of the answer: supporting facts, triples, and an explanation."""
        inputs = {"question": question, "solved": _solved(records), "answer": answer}
        check = _once(lambda reply: self._unquoted(reply, "supporting_facts"))
        reply = await self._ask("review", inputs, path, refused, self._paragraphs(records), check)
        return _record(
            answer=one_line(reply["answer"]),
            supporting_facts=self._quotes(reply["supporting_facts"]),
            triples=[[one_line(part) for part in triple] for triple in reply["triples"]],
            explanation=one_line(reply["explanation"]),
        )

    def _paragraphs(self, searches: Value) -> Source:
        """The paragraphs that searches found, which a review reads (FSM2's second round).

        For each search these hold its evidence, or else have the title it named. The whole
        document is read where there are no such paragraphs.
        """
        retriever = DocumentRetriever(self._document)
        blocks, found = retriever.paragraphs, set[Paragraph]()
        for record in searches if isinstance(searches, list) else []:
            quoted = self._located(sentences(field_of(record, "evidence")))
            spans = [quote.span for quote in quoted if quote.span]
            held = {
                block
                for block in blocks
                for span in spans
                if block.span.start < span.end and span.start < block.span.end
            }
            title = _plain(_field(record, "title"))
            found |= held or {block for block in blocks if title in _titles(block)}
        texts = [retriever.shown(block) for block in blocks if block in found]
        return Source(f"{self._document.name} (found)", "".join(texts)) if texts else self._document

    def _unquoted(self, reply: dict[str, Any], field: str) -> list[str]:
        """The fault of a reply whose field quotes no sentence of the document; else nothing."""
        if any(quote.span for quote in self._located(reply[field])):
            return []
        return [f"{field}: copy at least one sentence of the document word for word."]

    def _located(self, quoted: Sequence[str]) -> list[Quote]:
        lines = "\n".join(f"{QUOTE}{line}" for line in map(one_line, quoted) if line)
        return evidence(Plan(), {"quotes": lines}, ("quotes",), self._document)

    def _quotes(self, quoted: Sequence[str]) -> list[Value]:
        # Marked as in every output: from the marks an answer's evidence is found, and also quotes
        # that the document does not have.
        return [f"{QUOTE}{one_line(quote.text)}" for quote in self._located(quoted)]


def _once(problems: Callable[[dict[str, Any]], Sequence[str]]) -> Check:
    """A check of the first reply alone: a better one is asked for once, but not demanded."""
    tries = count()
    return lambda reply: problems(reply) if next(tries) == 0 else ()


def _record(**fields: Value) -> Pairs:
    return Pairs(tuple(fields.items()))


def field_of(record: Value, key: str) -> Value:
    """The value under a key, such as ``answer``, of a search's or a review's record; an empty text
    where there is none."""
    return dict(record).get(key, "") if isinstance(record, Pairs) else ""


def _field(record: Value, key: str) -> str:
    return as_text(field_of(record, key))


def _solved(searches: Value) -> list[Value]:
    """The records of searches as lines ``sub-question -> answer``."""
    records = searches if isinstance(searches, list) else []
    return [f"{_field(record, 'question')} -> {_field(record, 'answer')}" for record in records]


def sentences(quotes: Value) -> list[str]:
    """The sentences under ``evidence`` or ``supporting_facts``, without their quote marks."""
    lines = quotes if isinstance(quotes, list) else []
    return [as_text(line).removeprefix(QUOTE) for line in lines]


def _titles(paragraph: Paragraph) -> set[str]:
    """The names of a paragraph: its whole title, and the last heading in it."""
    names = (paragraph.title, paragraph.title.rpartition(" / ")[2])
    return {_plain(name) for name in names} - {""}


def _plain(text: str) -> str:
    """A text without case, punctuation and extra spaces, in which equal questions may differ."""
    return " ".join(re.findall(r"\w+", text.casefold()))
