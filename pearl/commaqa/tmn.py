"""Talking to agents: decompositions that are searched for, and then run as a plan.

Khot et al., "Hey AI, Can You Solve Complex Tasks by Talking to Agents?", Findings of ACL 2022,
section 4: TMN-G takes the best proposal at each hop, TMN-S searches best first. What was tried and
failed is in the journal and not in the plan. The paper fine-tunes a model to write the next
question (section 4.2); here `LanguageModelScorer` shows one decompositions in the language of
plans, and asks for several next hops with how likely each is, so that a search can go on from more
than one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

from pearl.commaqa.agents import Agents
from pearl.commaqa.decomposition import (
    CHANGES,
    Hop,
    HopError,
    action_of,
    print_hops,
    to_hops,
    to_plan,
)
from pearl.commaqa.model import BLANK, forms_of
from pearl.commaqa.search import Candidate, SearchResult
from pearl.commaqa.world import Language
from pearl.lang.ast import Mode, Plan, Ref
from pearl.lang.context_free import Alternative, Chars, Grammar, Item, Symbol
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.printer import print_call, print_plan
from pearl.lang.values import Value, digest, one_line_json, to_json
from pearl.prompts.calls import FillSchema
from pearl.prompts.render import load_schema
from pearl.runtime.calls import Caller, Journal, SchemaError, fill
from pearl.runtime.loop import Return, Run, RunError, Steps
from pearl.strategies.pearl import GivenPlan

SEARCH = "search"
"""The decision that says what a search took, and what it found."""

MOST_CHANGES = 3
"""Transformations of one answer, at most: the values of pairs, flat, each once."""

Search: TypeAlias = Callable[[str, Agents], Awaitable[SearchResult]]
"""Finds a decomposition of a question, by asking agents."""


@dataclass(frozen=True, slots=True)
class Tmn:
    """Searches for a decomposition, and gives its steps.

    Args:
        agents: who is asked.
        search: how, as `pearl.commaqa.search.search` with somebody who proposes.
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
        unread = self.agents.unread
        result = await self.search(run.question, self.agents)
        cost = {
            "agent_calls": result.calls,
            "agent_calls_unread": self.agents.unread - unread,
            "hops_tried": result.tried,
        }
        self.journal.decide(SEARCH, {**cost, "hops": print_hops(result.hops)})
        if result.answer is None:
            raise RunError(
                f"No decomposition came to an end, of {result.tried} hops that were tried: learn "
                "from more questions, or search wider."
            )
        return await GivenPlan(to_plan(result.hops, run.question)).next(run)


@dataclass(frozen=True, slots=True)
class LanguageModelScorer:
    """Asks a model for the next hop (a `Scorer`).

    Args:
        caller: asks the model and keeps the journal.
        library: the actions that ask agents.
        decompositions: of other questions, as examples.
        width: hops that a reply may propose.
        language: what the agents of this world can be asked. They answer nothing else, and
            decompositions of another world ask in other words.
    """

    caller: Caller
    library: Library
    decompositions: tuple[Plan, ...]
    width: int
    language: Language

    async def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> Iterable[Candidate]:
        """What the model proposes; nothing where no reply holds a hop.

        Raises:
            ModelError: the model gave no usable answer.
        """
        schema = load_schema("next_hops")
        [field] = schema.fields
        bounded = json.dumps({**json.loads(field.schema), "maxItems": self.width})
        schema = replace(schema, fields=(replace(field, schema=bounded),))
        actions = (
            f"{action.signature} -> {action.returns} : {action.doc}"
            for action in self.library.actions.values()
            if "unlisted" not in action.traits
        )
        inputs: tuple[tuple[str, Value], ...] = (
            ("actions", "\n".join(actions)),
            ("questions", "\n".join(_questions(self.language))),
            ("decompositions", "\n".join(map(print_plan, self.decompositions))),
            ("question", question),
            ("steps", _steps_so_far(hops, answers)),
        )
        path = f"search/{len(hops) + 1}-{digest([[*map(str, hops)]])[:8]}"
        try:
            reply = await fill(
                self.caller,
                FillSchema(schema, inputs, grammar=_replies(self.library, hops, self.width)),
                path,
                lambda data: _read(data, hops)[1],
            )
        except SchemaError:
            # What was tried so far is a dead end; the search goes on elsewhere.
            return ()
        return _read(reply, hops)[0]


def _questions(language: Language) -> Iterator[str]:
    """Each question that agents answer, with a gap for each blank, below the action that asks."""
    by_agent: dict[str, list[str]] = {}
    for form, agents in forms_of(language).items():
        for agent in agents:
            by_agent.setdefault(agent, []).append(form.phrasings[0].replace(BLANK, "___"))
    for agent, questions in sorted(by_agent.items()):
        yield f"{action_of(agent)}:"
        yield from (f"- {question}" for question in questions)


_WORDS = Chars(r"^\"\\{}#\x00-\x1F\x7F-\x9F", 1, 80)
"""A part of a question: nothing that ends a text, escapes a character or reads as a reference."""


def _replies(library: Library, hops: tuple[Hop, ...], width: int) -> Grammar:
    """The grammar of replies whose every candidate is a hop after these, or ends with the last."""
    words, hop, score = Symbol("WORDS"), Symbol("hop"), Symbol("SCORE")
    name, ask, change = f"a{len(hops) + 1}", Symbol("ask"), Symbol("change")
    last = to_plan(hops).steps[-1].name if hops else ""
    # What a question asks about: any answers as they are, or one in one of the other ways.
    questions: list[Alternative] = [(words,)]
    if hops:
        questions += [(Symbol("ref"),), (Symbol("ref"), words), (words, Symbol("ref"))]
        questions += [(words, Symbol("ref"), words)]
    answers = [f"a{number}" for number in range(1, len(hops) + 1)]
    refs = [(f"{{{mode} {answer}}}".replace("{ ", "{"),) for answer in answers for mode in Mode]
    moves: list[Alternative] = [(f"return {last}",)] if last else []
    for changes in range(MOST_CHANGES + 1):
        steps = [f"{name}_{at}" for at in range(1, changes + 1)] + [name]
        move: list[Item] = [f"{steps[0]} = ", ask]
        for before, after in pairwise(steps):
            move += [f"\\n{after} = ", change, f"({before})"]
        moves.append(tuple(move))
    candidate = Symbol("candidate")
    lists = [(candidate, *((", ", candidate) * more)) for more in range(width)]
    listed = [action for action in library.actions.values() if "unlisted" not in action.traits]
    rules: list[tuple[str, tuple[Alternative, ...]]] = [
        ("start", (('{"candidates": [', Symbol("several"), "]}"),)),
        ("several", tuple(lists)),
        ("candidate", (('{"hop": "', hop, '", "score": ', score, "}"),)),
        ("hop", tuple(moves)),
        ("ask", tuple((f'{action.name}(\\"', Symbol("question"), '\\")') for action in listed)),
        ("question", tuple(questions)),
        ("change", tuple((name.upper(),) for name in CHANGES)),
        ("WORDS", ((_WORDS,),)),
        ("SCORE", (("1.0",), ("0.", Chars("1-9")))),
    ]
    return Grammar((*rules, ("ref", tuple(refs))) if refs else tuple(rules))


def _steps_so_far(hops: Sequence[Hop], answers: Sequence[Value]) -> str:
    """The steps so far; what a hop gave stands behind its last one, as in a trace."""
    lines: list[str] = []
    done = 0
    for number, answer in enumerate(answers, 1):
        steps = to_plan(hops[:number]).steps
        lines += [print_call(step) for step in steps[done:]]
        lines.append(f"# value {steps[-1].name} = {one_line_json(to_json(answer))}")
        done = len(steps)
    return "\n".join(lines) or "none yet"


def _read(reply: dict[str, Any], hops: tuple[Hop, ...]) -> tuple[list[Candidate], Sequence[str]]:
    """The candidates that can be used; and what is wrong with every one, where none can."""
    candidates: list[Candidate] = []
    problems: list[str] = []
    for at, entry in enumerate(reply["candidates"]):
        try:
            hop = _next_hop(entry["hop"], hops)
        except HopError as error:
            problems.append(f"candidates.{at}: {error}")
            continue
        if entry["score"] > 0:
            candidates.append(Candidate(math.log(entry["score"]), hop))
    return candidates, problems if len(problems) == len(reply["candidates"]) else ()


def _next_hop(text: str, hops: tuple[Hop, ...]) -> Hop | None:
    """The hop that a candidate writes; None for an end. Raises `HopError` where it is neither."""
    parsed = parse(text)
    before, steps = to_plan(hops).steps, parsed.plan.steps
    if parsed.broken:
        raise HopError(f"It is no step of a plan: {parsed.broken[0].got or text[:60]!r}.")
    if not steps:
        last = before[-1].name if before else ""
        if last and [ref.name for ref in parsed.plan.returns] == [last]:
            return None
        raise HopError(f"Write one hop, or return {last}.")
    repeated = {step.name for step in before} & {step.name for step in steps}
    if repeated:
        raise HopError(f"{min(repeated)} is the name of an earlier step: take another.")
    both = to_hops(Plan((*before, *steps), returns=(Ref(steps[-1].name),)))
    if len(both) != len(hops) + 1:
        raise HopError(f"It has {len(both) - len(hops)} hops: give one.")
    return both[-1]
