"""The planning loop: write, parse, check, and correct up to a limit (PEARL, section 2.2).

Example plans for the planner's prompt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from pearl.lang.ast import Parsed, Plan
from pearl.lang.diagnostics import Diagnostic, Severity, has_errors
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.source import InputError, Source, Span, plan_folders, read_source, shipped_plans
from pearl.lint.checker import check
from pearl.lint.render import prompt
from pearl.lint.render.report import Report
from pearl.lint.rules import truncated_line
from pearl.models.base import Reply
from pearl.models.tokens import count_tokens
from pearl.prompts.calls import Call, CorrectPlan, Demonstration, WritePlan

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


BUDGET = 3000
"""Tokens that demonstrations may take in a prompt."""


def load_demonstrations(folder: str = "", shipped: str = "demos") -> tuple[Source, ...]:
    """Demonstration plans.

    Args:
        folder: one with ``.plan`` files, as ``pearl refine`` fills it, or the
            name of one that ships with Pearl; empty for ``shipped``.
        shipped: a folder in ``plans/``.

    Raises:
        InputError: there is no such folder, or no plan in it.
    """
    if folder and not Path(folder).is_dir() and folder in plan_folders():
        folder, shipped = "", folder
    if not folder:
        return tuple(
            Source(file.name, file.read_text(encoding="utf-8")) for file in shipped_plans(shipped)
        )
    if not Path(folder).is_dir():
        raise InputError(
            f"{folder} is no folder: name one with demonstrations, make one with pearl refine, or "
            f"name one that ships: {', '.join(plan_folders())}."
        )
    found = tuple(read_source(str(file), "plan") for file in sorted(Path(folder).glob("*.plan")))
    if not found:
        raise InputError(f"{folder} holds no .plan file: make some with pearl refine.")
    return found


def choose_demonstrations(
    sources: Iterable[Source],
    library: Library,
    budget: int = BUDGET,
    count: Callable[[str], int] = count_tokens,
) -> tuple[Demonstration, ...]:
    """The demonstrations that a library can run, as many as fit a budget.

    A plan that the checker rejects with this library would teach the model
    actions it does not have. One that is too long for what is left of the
    budget makes room for the next.

    Args:
        sources: plans with their question in the head.
        library: the actions the new plan may call.
        budget: tokens in all.
        count: tokens of a text.
    """
    fitting: list[Demonstration] = []
    for source in sources:
        parsed = parse(source)
        if not parsed.plan.question or has_errors(check(parsed, library)):
            continue
        shown = print_plan(_without_question(parsed.plan)).strip()
        fitting.append(Demonstration(parsed.plan.question, shown))
    texts = [f"{one.question}\n{one.plan}" for one in fitting]
    # No token is shorter than a byte, and a vocabulary takes a quarter of a second to load.
    if sum(len(text.encode("utf-8", "replace")) for text in texts) <= budget:
        return tuple(fitting)
    chosen: list[Demonstration] = []
    for one, text in zip(fitting, texts, strict=True):
        size = count(text)
        if size <= budget:
            budget -= size
            chosen.append(one)
    return tuple(chosen)


def _without_question(plan: Plan) -> Plan:
    # What the last step gave stands after it, among the plan's own comments.
    told = tuple(one for one in plan.comments if one.startswith("# value "))
    return replace(plan, question="", comments=told)
