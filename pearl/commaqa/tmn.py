"""Next questions by a language model that is shown decompositions (CommaQA, section 4.2).

The paper fine-tunes a model to write the next question; here one is shown
decompositions in the language of plans, and asked for several next hops with
how likely each is, so that a search can go on from more than one.

Talking to agents: decompositions that are searched for, and then run as a plan.

Khot et al., "Hey AI, Can You Solve Complex Tasks by Talking to Agents?",
Findings of ACL 2022, section 4: TMN-G takes the best proposal at each hop,
TMN-S searches best first. What was tried in vain is in the journal and not in
the plan.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pearl.commaqa.agents import Agents
from pearl.commaqa.decomposition import Hop, HopError, print_hops, to_hops, to_plan
from pearl.commaqa.search import Candidate, SearchResult
from pearl.lang.ast import Plan, Ref
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.printer import print_call, print_plan
from pearl.lang.values import Value, digest, one_line_json, to_json
from pearl.prompts.calls import FillSchema, Schema
from pearl.prompts.render import load_schema
from pearl.run.calls import Caller, SchemaError, fill
from pearl.run.journal import Journal
from pearl.run.loop import Return, Run, RunError, Steps
from pearl.strategies.pearl import GivenPlan


@dataclass(frozen=True, slots=True)
class LanguageModelScorer:
    """Asks a model for the next hop.

    Args:
        caller: asks the model and keeps the journal.
        library: the actions that ask agents.
        decompositions: of other questions, as examples.
        width: hops that a reply may propose.
    """

    caller: Caller
    library: Library
    decompositions: tuple[Plan, ...]
    width: int

    async def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> Iterable[Candidate]:
        """What the model proposes; nothing where no reply holds a hop.

        Raises:
            ModelError: the model gave no usable answer.
        """
        call = FillSchema(_schema(self.width), self._given(question, hops, answers))
        path = f"search/{len(hops) + 1}-{digest([[*map(str, hops)]])[:8]}"
        try:
            found = await fill(self.caller, call, path, lambda told: _wrong(told, hops))
        except SchemaError:
            # What was tried so far is a dead end; the search goes on elsewhere.
            return ()
        read = [(_read(one["hop"], hops), one["score"]) for one in found["candidates"]]
        return tuple(
            Candidate(math.log(score), None if isinstance(hop, _End) else hop)
            for hop, score in read
            if not isinstance(hop, str) and score > 0
        )

    def _given(
        self, question: str, hops: Sequence[Hop], answers: Sequence[Value]
    ) -> tuple[tuple[str, Value], ...]:
        actions = (
            f"{one.signature} -> {one.returns} : {one.doc}"
            for one in self.library.actions.values()
            if "unlisted" not in one.traits
        )
        return (
            ("actions", "\n".join(actions)),
            ("decompositions", "\n".join(print_plan(one) for one in self.decompositions)),
            ("question", question),
            ("steps", _so_far(hops, answers)),
        )


@dataclass(frozen=True, slots=True)
class _End:
    """The last answer is the question's."""


def _schema(width: int) -> Schema:
    """The schema with the width in it."""
    schema = load_schema("next_hops")
    [field] = schema.fields
    bounded = {**json.loads(field.schema), "maxItems": width}
    return replace(schema, fields=(replace(field, schema=json.dumps(bounded)),))


def _so_far(hops: Sequence[Hop], answers: Sequence[Value]) -> str:
    """The steps so far; what a hop gave stands behind its last one, as in a trace."""
    lines: list[str] = []
    done = 0
    for number, answer in enumerate(answers, 1):
        steps = to_plan(hops[:number]).steps
        lines += [print_call(step) for step in steps[done:]]
        lines.append(f"# value {steps[-1].name} = {one_line_json(to_json(answer))}")
        done = len(steps)
    return "\n".join(lines) or "none yet"


def _wrong(told: dict[str, Any], hops: tuple[Hop, ...]) -> Sequence[str]:
    """What is wrong with every candidate; nothing where one can be used."""
    read = [_read(one["hop"], hops) for one in told["candidates"]]
    wrong = [f"candidates.{at}: {one}" for at, one in enumerate(read) if isinstance(one, str)]
    return wrong if len(wrong) == len(read) else ()


def _read(text: str, hops: tuple[Hop, ...]) -> Hop | _End | str:
    """The hop that a candidate writes, the end, or what is wrong with it."""
    parsed = parse(text)
    before, steps = to_plan(hops), parsed.plan.steps
    if parsed.broken:
        return f"It is no step of a plan: {parsed.broken[0].got or text[:60]!r}."
    if not steps:
        last = before.steps[-1].name if before.steps else ""
        returned = [one.name for one in parsed.plan.returns]
        return _End() if last and returned == [last] else f"Write one hop, or return {last}."
    taken = {one.name for one in before.steps} & {one.name for one in steps}
    if taken:
        return f"{min(taken)} is the name of an earlier step: take another."
    try:
        found = to_hops(Plan((*before.steps, *steps), returns=(Ref(steps[-1].name),)))
    except HopError as error:
        return str(error)
    if len(found) != len(hops) + 1:
        return f"It has {len(found) - len(hops)} hops: give one."
    return found[-1]


Search: TypeAlias = Callable[[str, Agents], Awaitable[SearchResult]]
"""Finds a decomposition of a question, by asking agents."""


@dataclass(frozen=True, slots=True)
class Tmn:
    """Searches for a decomposition, and gives its steps.

    Args:
        agents: who is asked.
        search: how, as `pearl.learning.search.search` with somebody who proposes.
        journal: where it is written what the search took.
    """

    agents: Agents
    search: Search
    journal: Journal

    async def next(self, run: Run) -> Steps | Return:
        """All steps of the decomposition that was found.

        Raises:
            ModelError: a model that proposes gave no usable answer.
            RunError: none came to an end.
        """
        if run.plan.steps:
            return await GivenPlan(run.plan).next(run)
        found = await self.search(run.question, self.agents)
        told = {"agent_calls": found.calls, "hops_tried": found.tried}
        self.journal.decide("search", {**told, "hops": print_hops(found.hops)})
        if found.answer is None:
            raise RunError(
                f"No decomposition came to an end, of {found.tried} hops that were tried: learn "
                "from more questions, or search wider."
            )
        return await GivenPlan(to_plan(found.hops, run.question)).next(run)
