"""What the states of FSM prompting ask, and the solvers that its steps call.

Wang et al., "FSM: A Finite State Machine Based Zero-Shot Prompting Paradigm
for Multi-Hop Question Answering", 2024.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from pearl.builtins import Given
from pearl.context import UNLIMITED, Context, fit_fill
from pearl.llm import FillSchema, Reply, Request
from pearl.plan import Plan
from pearl.prompts.schemas import load_schema
from pearl.runtime import Caller, SchemaError, fill
from pearl.runtime.evidence import Quote, evidence
from pearl.runtime.handlers import Handlers, Solve, SolverError
from pearl.runtime.schemas import REVISIONS, Check
from pearl.source import Source
from pearl.strategies.fsm.table import Machine
from pearl.values import Pairs, Value, as_text

TITLES = 5
"""Paragraphs that a search names, at most."""

QUOTE = "> "
"""What stands before a sentence of the document in a record."""


@dataclass(frozen=True, slots=True)
class FsmLimits:
    """How far a machine goes.

    Args:
        hops: sub-questions that are answered, at most.
        revisions: how often a reply that does not fit may be mended in place.
        backtracks: how often it goes back to an earlier state.
        calls: requests to the model in all; the last ones are kept for the answer.
        context: the model's window; of a document that does not fit, the paragraphs that bear
            on what is asked are read, or, with the policy ``full``, the run fails.
    """

    hops: int = 6
    revisions: int = REVISIONS
    backtracks: int = 4
    calls: int = 40
    context: Context = UNLIMITED


@dataclass(slots=True)
class Desk:
    """Asks what the states ask, and counts the requests.

    Args:
        machine: whose states.
        caller: asks the model and keeps the journal.
        document: what is searched.
        limits: how often.
    """

    machine: Machine
    caller: Caller
    document: Source
    limits: FsmLimits
    calls: int = field(default=0, init=False)

    def left(self, state: str) -> int:
        """Requests that a state may make; the others are for the states after it."""
        return self.limits.calls - self.calls - self.machine.after(state)

    async def ask(
        self,
        state: str,
        given: Sequence[tuple[str, Value]],
        path: str,
        refused: Sequence[Value] = (),
        reads: Source | None = None,
        check: Check = lambda _: (),
    ) -> dict[str, Any]:
        """A state's reply, as its schema has it.

        Args:
            state: its name.
            given: what it is asked of.
            path: where in the run.
            refused: what came to nothing before, with the reasons.
            reads: the document, where it is shown.
            check: what else the reply must hold to.

        Raises:
            ContextError: the document does not fit the window, and may not be cut.
            ModelError: the model gave no usable answer.
            SchemaError: no reply fits.
        """
        told = (*given, ("refused", list(refused))) if refused else tuple(given)
        call = FillSchema(load_schema(self.machine.state(state).asks), told, reads)
        if reads is not None:
            call, left_out = fit_fill(call, self.limits.context)
            if left_out:
                self.caller.journal.decide(f"context/{path.removeprefix('step/')}", left_out)
        caller = replace(self.caller, ask=self._counted)
        revisions = max(min(self.limits.revisions, self.left(state) - 1), 0)
        return await fill(caller, call, path, check, revisions)

    async def _counted(self, request: Request) -> Reply:
        self.calls += 1
        return await self.caller.ask(request)


def fsm_handlers(desk: Desk) -> Handlers:
    """What a run is handed so that its steps can search, revise, summarise and review.

    Args:
        desk: asks the model.
    """
    solvers = {"search": _search, "revise": _revise, "summarise": _summarise, "review": _review}
    handed = {name: _solver(desk, work) for name, work in solvers.items()}
    return Handlers(MappingProxyType({**handed, "answer": _answer}))


_Work: TypeAlias = Callable[[Desk, str, Sequence[Value]], Any]


def _solver(desk: Desk, work: _Work) -> Solve:
    async def solve(path: str, given: Sequence[Given]) -> Value:
        try:
            value: Value = await work(desk, path, [one.value for one in given])
        except SchemaError as error:
            raise SolverError("solver", str(error)) from None
        return value

    return solve


async def _search(desk: Desk, path: str, given: Sequence[Value]) -> Value:
    asked, *refused = given
    question = as_text(asked)

    def bad(found: dict[str, Any]) -> list[str]:
        told = found["answer"] is not None and not _stands(found["evidence"], desk.document)
        return ["evidence: copy at least one sentence of the document word for word."] * told

    found = await desk.ask(
        "search", [("sub_question", question)], path, refused, desk.document, _said_once(bad)
    )
    answer = one_line(found["answer"] or "")
    if not answer:
        raise SolverError("no-answer", "the paragraphs do not say")
    return _record(
        question=question,
        answer=answer,
        evidence=_quotes(found["evidence"], desk.document),
        paragraphs=[one_line(one) for one in found["paragraphs"][:TITLES]],
    )


async def _revise(desk: Desk, path: str, given: Sequence[Value]) -> Value:
    question, found, *refused = given
    told: list[tuple[str, Value]] = [
        ("question", question),
        ("sub_question", of(found, "question")),
        ("answer", of(found, "answer")),
    ]
    return one_line((await desk.ask("revise", told, path, refused))["question"])


async def _summarise(desk: Desk, path: str, given: Sequence[Value]) -> Value:
    question, found, *refused = given
    told = [("question", question), ("solved", solved(found))]
    return one_line((await desk.ask("summarise", told, path, refused))["answer"])


async def _review(desk: Desk, path: str, given: Sequence[Value]) -> Value:
    question, answer, found, *refused = given
    told = [("question", question), ("solved", solved(found)), ("answer", answer)]

    def bad(reply: dict[str, Any]) -> list[str]:
        told = not _stands(reply["supporting_facts"], desk.document)
        return [
            "supporting_facts: copy at least one sentence of the document word for word."
        ] * told

    reply = await desk.ask("review", told, path, refused, desk.document, _said_once(bad))
    return _record(
        answer=one_line(reply["answer"]),
        supporting_facts=_quotes(reply["supporting_facts"], desk.document),
        triples=[[one_line(one) for one in triple] for triple in reply["triples"]],
        explanation=one_line(reply["explanation"]),
    )


async def _answer(path: str, given: Sequence[Given]) -> Value:
    del path
    return of(given[0].value, "answer")


def _record(**told: Value) -> Pairs:
    return Pairs(tuple(told.items()))


def of(record: Value, key: str) -> Value:
    """What a record has under a key; an empty text where there is nothing.

    Args:
        record: what a search or a review gave.
        key: as ``answer``.
    """
    return dict(record).get(key, "") if isinstance(record, Pairs) else ""


def solved(found: Value) -> list[Value]:
    """What was found, as ``sub-question -> answer``.

    Args:
        found: a list of records.
    """
    records = found if isinstance(found, list) else []
    return [f"{as_text(of(one, 'question'))} -> {as_text(of(one, 'answer'))}" for one in records]


def sentences(quotes: Value) -> list[str]:
    """Quotes of a record as sentences of the document.

    Args:
        quotes: under ``evidence`` or ``supporting_facts``.
    """
    return [as_text(one).removeprefix(QUOTE) for one in quotes] if isinstance(quotes, list) else []


def _located(told: Sequence[str], document: Source) -> list[Quote]:
    lines = "\n".join(f"{QUOTE}{one}" for one in map(one_line, told) if one)
    return evidence(Plan(), {"told": lines}, ("told",), document)


def _stands(told: Sequence[str], document: Source) -> bool:
    """Whether the document has at least one of these sentences."""
    return any(one.span for one in _located(told, document))


def _quotes(told: Sequence[str], document: Source) -> list[Value]:
    # Marked as quotes are in every output, so that an answer's evidence can be shown, and where
    # the document does not have one, that.
    return [f"{QUOTE}{one_line(one.text)}" for one in _located(told, document)]


def one_line(text: str) -> str:
    """A text without line breaks and needless spaces."""
    return " ".join(text.split())


def plain(text: str) -> str:
    """A question without what two askings of it may differ in: case, marks, spaces."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def _said_once(check: Check) -> Check:
    """A check that complains once and then lets pass: better words are asked for, not demanded."""
    said: list[bool] = []

    def checked(found: dict[str, Any]) -> Sequence[str]:
        problems = () if said else check(found)
        if problems:
            said.append(True)
        return problems

    return checked
