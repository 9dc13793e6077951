"""Next hops by analogy: what each example would have done."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pearl.library import Library
from pearl.llm.calls import FillSchema, NextStep, Worked
from pearl.llm.offline.analogy import next_step
from pearl.plan import Ref, Step
from pearl.syntax import parse
from pearl.syntax.printer import print_call
from pearl.values import as_text

_PLAN = re.compile(r"(?m)^(?=question: )")
_NONE = Library((), MappingProxyType({}))


def next_hops(call: FillSchema) -> Mapping[str, Any]:
    """One candidate for each way in which the examples go on, the best first."""
    given = {name: as_text(value) for name, value in call.given}
    plans = [parse(one).plan for one in _PLAN.split(given["decompositions"]) if one.strip()]
    shown = tuple(
        Worked(
            one.question,
            tuple((print_call(step), "") for step in one.steps),
            tuple(ref.name for ref in one.returns),
        )
        for one in plans
    )
    done = _done(given["steps"])
    ways = [shown, *((one,) for one in shown)]
    hops = dict.fromkeys(hop for way in ways if (hop := _hop(given["question"], way, done)))
    return {
        "candidates": [{"hop": hop, "score": 0.5**rank} for rank, hop in enumerate(hops)]
    }  # fmt: skip


def _done(text: str) -> tuple[tuple[str, str], ...]:
    """The steps so far, each with what it gave where that is told."""
    plan = parse(text).plan
    values = dict(re.findall(r"(?m)^# value (\w+) = (.*)$", text))
    return tuple((print_call(step), values.get(step.name, "")) for step in plan.steps)


def _hop(question: str, shown: tuple[Worked, ...], done: tuple[tuple[str, str], ...]) -> str:
    """The next step, and those that only change what it gave; empty where there is none."""
    lines: list[str] = []
    last: Step | None = None
    while written := next_step(NextStep(question, _NONE, shown, done)):
        steps = parse(written).plan.steps
        if last and (not steps or steps[0].args != (Ref(last.name),)):
            break
        if not steps:
            return written
        lines.append(written)
        [last] = steps
        done = (*done, (written, ""))
    return "\n".join(lines)
