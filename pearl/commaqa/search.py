"""Searching for decompositions hop by hop, which then run as a plan (TMN).

In Khot et al., "Hey AI, Can You Solve Complex Tasks by Talking to Agents?", Findings of ACL 2022,
section 4, a model proposes next questions, which agents may or may not answer. The greedy search
(TMN-G) always asks the best proposal; the best-first search (TMN-S) keeps several and goes on with
the best that was answered. Failed attempts are in the journal and not in the plan. A budget holds
for every `HopScorer`, which may wait for a model. The paper fine-tunes a model to write the next
question (section 4.2); here `LanguageModelScorer` shows a model decompositions as plans, and asks
for several next hops with their probabilities, so that a search can go on from more than one.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from pearl.commaqa.agents import Agents, run_hop
from pearl.commaqa.decomposition import (
    CHANGES,
    Hop,
    HopError,
    action_of,
    print_hops,
    read_operation,
    to_hops,
    to_plan,
)
from pearl.commaqa.model import BLANK, forms_of, is_empty
from pearl.commaqa.world import Language
from pearl.lang.ast import Action, Mode, Plan, Ref
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


class Candidate(NamedTuple):
    """A proposal for the next hop.

    Args:
        score: the logarithm of how likely it is; more is better.
        hop: the next hop; None to end, with the last answer as the question's.
    """

    score: float
    hop: Hop | None


class HopScorer(Protocol):
    """Proposes what to ask next."""

    def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> Iterable[Candidate] | Awaitable[Iterable[Candidate]]:
        """Proposals, best first, given the hops so far and their answers."""


@dataclass(frozen=True, slots=True)
class SearchBudget:
    """What a search may spend on one question.

    Args:
        width: the most proposals that are followed after each hop; those without an answer do not
            count.
        depth: the most hops of a decomposition.
        calls: the most questions to agents.
        hops: the most hops that are tried, over all decompositions.
    """

    width: int = 10
    depth: int = 10
    calls: int = 5000
    hops: int = 500


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search for one question.

    Args:
        answer: the answer; None where no decomposition was completed.
        hops: the decomposition that gave it.
        answers: the answers of its hops.
        calls: how many questions agents were asked in all.
        tried: how many hops were run in all.
    """

    answer: Value | None
    hops: tuple[Hop, ...] = ()
    answers: tuple[Value, ...] = ()
    calls: int = 0
    tried: int = 0


SearchMode: TypeAlias = Literal["greedy", "best-first"]


async def search(
    mode: SearchMode,
    question: str,
    agents: Agents,
    scorer: HopScorer,
    budget: SearchBudget = SearchBudget(),
    accepts: Callable[[Value], bool] = lambda _: True,
) -> SearchResult:
    """Search for a decomposition (CommaQA, section 4.3).

    TMN-G asks the best proposal at each hop; if that has no answer, neither has the question.
    TMN-S asks a proposal only when none that waits is better, so that few calls are wasted. A
    proposal with no answer or an empty one is given up, except a filter that keeps nothing. Both
    stop when the budget is used up.

    Args:
        mode: ``greedy`` for TMN-G, ``best-first`` for TMN-S.
        question: the question.
        agents: the agents that are asked.
        scorer: proposes hops.
        budget: what may be spent.
        accepts: whether the answer of a decomposition is accepted; if not, TMN-S goes on.
    """
    walk = _Walk(question, agents, scorer, budget, accepts)
    return await (_greedy if mode == "greedy" else _best_first)(walk)


async def _greedy(walk: _Walk) -> SearchResult:
    state = _State()
    while best := next(iter(await walk.propose(state)), None):
        if best.hop is None:
            return walk.result(state.answers[-1], state)
        if walk.tried == min(walk.budget.depth, walk.budget.hops):
            break
        longer = walk.after(state, best.hop)
        if longer is None:
            break
        state = longer
    return walk.result(None, state)


async def _best_first(walk: _Walk) -> SearchResult:
    budget = walk.budget
    # Proposals that wait: cost, number (equal costs go in order), state so far, and hop.
    waiting: list[tuple[float, int, _State, Hop | None]] = []
    numbers = itertools.count()
    # How many proposals after each hop were answered.
    widths: Counter[tuple[Hop, ...]] = Counter()

    async def wait(state: _State, cost: float) -> None:
        full = len(state.hops) >= budget.depth
        for score, hop in await walk.propose(state):
            # A repeated hop would only give the same answer.
            if hop is None or not (full or hop in state.hops):
                heapq.heappush(waiting, (cost - score, next(numbers), state, hop))

    await wait(_State(), 0.0)
    while waiting:
        cost, _, state, hop = heapq.heappop(waiting)
        if hop is None:
            if walk.accepts(state.answers[-1]):
                return walk.result(state.answers[-1], state)
            continue
        spent = walk.tried >= budget.hops or walk.calls >= budget.calls
        if spent or widths[state.hops] >= budget.width:
            continue  # A decomposition that is complete and waits may still be taken.
        longer = walk.after(state, hop)
        operation = read_operation(hop.operator)
        filters = operation and operation.mode in (Mode.WHERE, Mode.WHERE_VALUES)
        if longer is not None and (filters or not is_empty(longer.answers[-1])):
            widths[state.hops] += 1
            await wait(longer, cost)
    return walk.result(None, _State())


def _at_once(
    mode: SearchMode,
    question: str,
    agents: Agents,
    scorer: HopScorer,
    budget: SearchBudget = SearchBudget(),
    accepts: Callable[[Value], bool] = lambda _: True,
) -> SearchResult:
    try:
        search(mode, question, agents, scorer, budget, accepts).send(None)
    except StopIteration as ended:
        result: SearchResult = ended.value
        return result
    raise TypeError("This scorer has to be waited for: use search.")


greedy, best_first = partial(_at_once, "greedy"), partial(_at_once, "best-first")
"""`search` for TMN-G and for TMN-S as ordinary functions, for scorers that are not awaited."""


class _State(NamedTuple):
    """The hops so far, and their answers."""

    hops: tuple[Hop, ...] = ()
    answers: tuple[Value, ...] = ()


@dataclass(eq=False)
class _Walk:
    """The search for one question, with what it has spent."""

    question: str
    agents: Agents
    scorer: HopScorer
    budget: SearchBudget
    accepts: Callable[[Value], bool]
    calls: int = 0
    tried: int = 0

    async def propose(self, state: _State) -> list[Candidate]:
        """The usable proposals, best first: one to end needs an answer, and a score is finite."""
        proposed = self.scorer.choices(self.question, state.hops, state.answers)
        candidates = await proposed if isinstance(proposed, Awaitable) else proposed
        usable = [
            candidate
            for candidate in itertools.islice(candidates, 100 * self.budget.width)
            if math.isfinite(candidate.score) and (candidate.hop is not None or state.answers)
        ]
        return sorted(usable, key=lambda candidate: -candidate.score)

    def after(self, state: _State, hop: Hop) -> _State | None:
        """The state after one more hop; None where that has no answer, or no call is left."""
        self.tried += 1
        answer = run_hop(hop, state.answers, self._ask)
        return None if answer is None else _State((*state.hops, hop), (*state.answers, answer))

    def result(self, answer: Value | None, state: _State) -> SearchResult:
        """The result, with the calls and hops that were spent."""
        return SearchResult(answer, *state, self.calls, self.tried)

    def _ask(self, agent: str, question: str) -> Value | None:
        """An agent's answer; None where no call is left."""
        if self.calls >= self.budget.calls:
            return None
        self.calls += 1
        return self.agents.ask(agent, question)


# The search as a strategy, and a language model that proposes hops.

SEARCH = "search"
"""The journal's name for a search's cost and result."""

MOST_CHANGES = 3
"""The most transformations of one answer: values, flat and unique, for example."""

Search: TypeAlias = Callable[[str, Agents], Awaitable[SearchResult]]
"""Finds a decomposition of a question, by asking agents."""


@dataclass(frozen=True, slots=True)
class Tmn:
    """Searches for a decomposition, and gives its steps.

    Args:
        agents: the agents that are asked.
        search: `search`, with its mode and scorer chosen.
        journal: where the search's cost and result are recorded.
    """

    agents: Agents
    search: Search
    journal: Journal

    async def next(self, run: Run) -> Steps | Return:
        """All steps of the decomposition that was found.

        Raises:
            ModelError: a model that proposes gave no usable answer.
            RunError: no decomposition was completed.
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
    """Asks a model for the next hop (a `HopScorer`).

    Args:
        caller: asks the model and writes the journal.
        library: the actions that ask agents.
        decompositions: decompositions of other questions, as examples.
        width: the most hops that a reply may propose.
        language: the questions that the agents of this world answer, which the model is shown, as
            examples from other worlds have other words.
    """

    caller: Caller
    library: Library
    decompositions: tuple[Plan, ...]
    width: int
    language: Language

    async def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> Iterable[Candidate]:
        """The model's proposals; none where no reply holds a hop.

        Raises:
            ModelError: the model gave no usable answer.
        """
        schema = load_schema("next_hops")
        [field] = schema.fields
        bounded = json.dumps({**json.loads(field.schema), "maxItems": self.width})
        schema = replace(schema, fields=(replace(field, schema=bounded),))
        library = self.library.actions.values()
        listed = [action for action in library if "unlisted" not in action.traits]
        actions = (f"{action.signature} -> {action.returns} : {action.doc}" for action in listed)
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
                FillSchema(schema, inputs, grammar=_replies(listed, hops, self.width)),
                path,
                lambda data: _read(data, hops)[1],
            )
        except SchemaError:
            # Only these hops are a dead end; the search may go on from others.
            return ()
        return _read(reply, hops)[0]


def _questions(language: Language) -> Iterator[str]:
    """Lines that list each action with the questions its agent answers, with gaps for blanks."""
    by_agent: dict[str, list[str]] = {}
    for form, agents in forms_of(language).items():
        for agent in agents:
            by_agent.setdefault(agent, []).append(form.phrasings[0].replace(BLANK, "___"))
    for agent, questions in sorted(by_agent.items()):
        yield f"{action_of(agent)}:"
        yield from (f"- {question}" for question in questions)


_WORDS = Chars(r"^\"\\{}#\x00-\x1F\x7F-\x9F", 1, 80)
"""A part of a question, without characters that end a text, escape another or begin a reference."""


def _replies(listed: Iterable[Action], hops: tuple[Hop, ...], width: int) -> Grammar:
    """The grammar of replies whose candidates are next hops, or return the last answer."""
    words, hop, score = Symbol("WORDS"), Symbol("hop"), Symbol("SCORE")
    name, ask, change = f"a{len(hops) + 1}", Symbol("ask"), Symbol("change")
    last = to_plan(hops).steps[-1].name if hops else ""
    # A question refers to at most one earlier answer.
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
    """The steps so far, each hop followed by a comment with its answer, as in a trace."""
    lines: list[str] = []
    done = 0
    for number, answer in enumerate(answers, 1):
        steps = to_plan(hops[:number]).steps
        lines += [print_call(step) for step in steps[done:]]
        lines.append(f"# value {steps[-1].name} = {one_line_json(to_json(answer))}")
        done = len(steps)
    return "\n".join(lines) or "none yet"


def _read(reply: dict[str, Any], hops: tuple[Hop, ...]) -> tuple[list[Candidate], Sequence[str]]:
    """The usable candidates; and what is wrong with each, if that is so of all of them."""
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
    """The hop that a candidate writes; None for an end. Raises `HopError` for anything else."""
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
