"""Where a machine of FSM prompting is, and the steps that its work states write."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pearl.plan import DOCUMENT, Arg, Items, Literal, Ref, Step, Template
from pearl.runtime import Run
from pearl.strategies.fsm.solvers import of
from pearl.values import Value, as_text


@dataclass(frozen=True, slots=True)
class Hop:
    """A sub-question that was answered.

    Args:
        found: the step that has the answer.
        question: what was to be answered when it was asked.
    """

    found: str
    question: Arg


@dataclass(slots=True)
class Walk:
    """Where a machine is, and what it has.

    Args:
        state: the state's name.
        number: of states it has been in, this one with them.
        question: what is to be answered now: the run's question, or the last revision of it.
        sub: the sub-question that is being answered.
        hops: those that were answered, in order.
        spare: the last of them while its sub-question is answered anew: better than nothing.
        revised: the revision that waits for a judgement, where there is one.
        summary: the step that has the answer; empty before.
        review: the step that reviewed it; empty before.
        doing: the step that is under way; empty where none is.
        tried: sub-questions that came to nothing.
        refused: what came to nothing, with the reason, by the state that is to know of it.
        backtracks: how often it went back.
        limit: which limit was met; empty where none was.
    """

    state: str
    number: int = 1
    question: Arg = field(default_factory=lambda: Literal(""))
    sub: str = ""
    hops: list[Hop] = field(default_factory=list)
    spare: Hop | None = None
    revised: Arg | None = None
    summary: str = ""
    review: str = ""
    doing: str = ""
    tried: list[str] = field(default_factory=list)
    refused: dict[str, list[str]] = field(default_factory=dict)
    backtracks: int = 0
    limit: str = ""

    def found(self, run: Run) -> list[Value]:
        """The records of the searches that found an answer, in order."""
        return [run.values[hop.found] for hop in self.hops]


def work(walk: Walk, action: str, run: Run) -> tuple[Step, ...]:
    """The steps of a work state; the last of them is the state's own.

    Args:
        walk: where the machine is.
        action: what the state's step calls.
        run: the run so far.
    """
    why = [Literal(one) for one in walk.refused.get(walk.state, ())]
    whole, found = Literal(run.question), Items(tuple(Ref(hop.found) for hop in walk.hops))
    before: tuple[Step, ...] = ()
    args: tuple[Arg, ...]
    match walk.state:
        case "search":
            name = f"found_{len(walk.hops) + 1}"
            asked, before = _woven(walk, run)
            args = (Ref(DOCUMENT), asked)
        case "revise":
            name = f"question_{len(walk.hops) + 1}"
            args = (walk.hops[-1].question, Ref(walk.hops[-1].found))
        case "summarise":
            name, args = "summary", (whole, found)
        case _:
            name, args = "review", (Ref(DOCUMENT), whole, Ref(walk.summary), found)
    return (*before, Step(free(name, run), action, (*args, *why)))


def last(walk: Walk, run: Run) -> tuple[tuple[Step, ...], str]:
    """The steps after the last state, and the one that has the answer.

    Args:
        walk: where the machine is.
        run: the run so far.
    """
    if not walk.review:
        return (), walk.summary
    step = Step(free("answer", run), "ANSWER", (Ref(walk.review),))
    return (step,), step.name


def text_of(question: Arg, run: Run) -> str:
    """A question that is written in the plan, or that a step gave.

    Args:
        question: as an argument.
        run: the run so far.
    """
    if isinstance(question, Ref):
        return as_text(run.values[question.name])
    return as_text(question.value) if isinstance(question, Literal) else ""


def free(name: str, run: Run) -> str:
    """The name, or where a step has it already, the name with a number.

    Args:
        name: as wished.
        run: the run so far.
    """
    number, tried = 1, name
    while tried in run.values:
        number += 1
        tried = f"{name}_{number}"
    return tried


def _woven(walk: Walk, run: Run) -> tuple[Arg, tuple[Step, ...]]:
    """The sub-question with references to what it has from earlier steps, and the steps for them.

    What is asked is the same to the letter.
    """
    if walk.sub == text_of(walk.question, run):
        return walk.question, ()
    answers = {
        as_text(of(value, "answer")): f"{hop.found}_answer"
        for hop, value in zip(walk.hops, walk.found(run), strict=True)
    }
    sources = {f"{hop.found}_answer": hop.found for hop in walk.hops}
    parts = _cut(walk.sub, answers)
    if len(parts) == 1:
        return Literal(walk.sub), ()
    told = [Ref(answers[part]) if at % 2 else part for at, part in enumerate(parts)]
    wanted = dict.fromkeys(one.name for one in told if isinstance(one, Ref))
    steps = [
        Step(name, "ANSWER", (Ref(sources[name]),)) for name in wanted if name not in run.values
    ]
    return Template(tuple(part for part in told if part != "")), tuple(steps)


def _cut(text: str, answers: Mapping[str, str]) -> Sequence[str]:
    """A text cut at the answers in it, which are in the odd places."""
    wanted = sorted(filter(None, answers), key=len, reverse=True)
    if not wanted:
        return [text]
    return re.split(rf"(?<!\w)({'|'.join(map(re.escape, wanted))})(?!\w)", text)
