"""The planning loop: write, parse, check, and correct up to a limit (PEARL, section 2.2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pearl.checker import check
from pearl.diagnostics import Diagnostic, Severity
from pearl.library import Library
from pearl.llm import Call, CorrectPlan, Demonstration, Reply, WritePlan
from pearl.plan import Plan
from pearl.render import prompt
from pearl.render.report import Report
from pearl.rules import truncated_line
from pearl.source import Source, Span
from pearl.syntax import Parsed, parse

Ask: TypeAlias = Callable[[Call, str, int], Awaitable[Reply]]
"""Puts a call, at a path of the run, to the model; the number says which sample of it is wanted."""

Decide: TypeAlias = Callable[[str, Any], None]
"""Writes a decision, at a path of the run, into the journal."""

CORRECTIONS = 7
"""How often a model may correct a plan, as in the paper's experiments."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What came of planning.

    Args:
        plan: the plan, or None where every attempt was rejected.
        attempts: how many replies were read.
        source: the last reply.
        diagnostics: what was found in it.
    """

    plan: Plan | None
    attempts: int
    source: Source
    diagnostics: tuple[Diagnostic, ...]


async def write_plan(
    question: str,
    library: Library,
    ask: Ask,
    decide: Decide,
    demonstrations: tuple[Demonstration, ...] = (),
    corrections: int = CORRECTIONS,
    first: Call | None = None,
    earlier: Sequence[Call] = (),
) -> Planned:
    """Have a model write a plan. It never sees a document.

    Args:
        question: what the plan is to answer.
        library: the actions it may call.
        ask: puts a call to the model.
        decide: takes down what was set aside and what was rejected.
        demonstrations: example plans.
        corrections: how many times the model may try again.
        first: what to ask to begin with; by default for a new plan.
        earlier: calls that were asked before in vain.

    Raises:
        ModelError: the model gave no usable answer.
    """
    write = WritePlan(question, library, demonstrations)
    call: Call = first or write
    seen: frozenset[str] = frozenset()
    asked = list(earlier)
    for attempt in range(1, corrections + 2):
        # A model that repeats its mistake is asked the same again: that is to be a new answer.
        reply = await ask(call, f"plan/{attempt}", asked.count(call))
        asked.append(call)
        source = Source(f"plan/{attempt}", reply.text)
        parsed = parse(source)
        _take_down(parsed, attempt, decide)
        found = (*check(parsed, library), *_cut(reply, source))
        errors = [one for one in found if one.severity is Severity.ERROR]
        if not errors:
            return Planned(replace(parsed.plan, question=question), attempt, source, found)
        complaint = prompt.render([Report(source, errors)], seen)
        decide(f"plan/{attempt}/rejected", [one.code for one in errors])
        call = CorrectPlan(write, reply.text, complaint)
        seen = frozenset(one.code for one in errors)
    return Planned(None, attempt, source, found)


def _take_down(parsed: Parsed, attempt: int, decide: Decide) -> None:
    text = parsed.plan.source
    aside = [text.at(part.span) for part in parsed.aside if part.kind != "wrapping"]
    if aside:
        decide(f"plan/{attempt}/aside", aside)


def _cut(reply: Reply, source: Source) -> tuple[Diagnostic, ...]:
    """A reply that stopped at its token limit may lack steps even where it parses."""
    if reply.complete:
        return ()
    end = len(source.text)
    return (
        truncated_line.RULE(
            Span(max(0, end - 1), end),
            "The reply was cut at its token limit.",
            help="Write a shorter plan.",
        ),
    )
