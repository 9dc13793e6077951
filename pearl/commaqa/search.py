"""Searching for decompositions hop by hop: greedy (TMN-G), best first (TMN-S), and exhaustively.

CommaQA (Khot et al., section 4) has a model that proposes next questions, and agents that answer
them or do not. The greedy search asks the best proposal, come what may; the best-first search
keeps several and goes on with the best that was answered. Who proposes is not known here: budgets
hold for any `Scorer`, who may have to wait for a model. The exhaustive search is the paper's way to
learn without decompositions, to compare with (appendix B).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from pearl.commaqa.agents import Agents, run_hop
from pearl.commaqa.decomposition import Hop, read_operation, references
from pearl.commaqa.model import Form, forms_of, is_empty, known_entities, opened
from pearl.commaqa.scoring import exact_match
from pearl.lang.ast import Mode
from pearl.lang.values import Value


class Candidate(NamedTuple):
    """A proposal for the next hop.

    Args:
        score: a logarithm of how likely it is; more is better.
        hop: what to ask; None where the last answer is the question's.
    """

    score: float
    hop: Hop | None


class Scorer(Protocol):
    """Proposes what to ask next."""

    def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> Iterable[Candidate] | Awaitable[Iterable[Candidate]]:
        """Proposals, best first, given the hops so far and what they gave."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may spend on one question.

    Args:
        width: proposals that count after each hop.
        depth: hops of a decomposition.
        calls: questions to agents.
        hops: hops that are tried, over all decompositions.
    """

    width: int = 10
    depth: int = 10
    calls: int = 5000
    hops: int = 500


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What came of a question.

    Args:
        answer: None where no decomposition came to an end.
        hops: the decomposition that gave it.
        answers: what its hops gave.
        calls: questions that agents were asked, in all.
        tried: hops that were run, in all.
    """

    answer: Value | None
    hops: tuple[Hop, ...] = ()
    answers: tuple[Value, ...] = ()
    calls: int = 0
    tried: int = 0


SearchMode: TypeAlias = Literal["greedy", "best-first"]


def greedy(
    question: str, agents: Agents, scorer: Scorer, budget: Budget = Budget()
) -> SearchResult:
    """`search` for TMN-G, with a scorer who need not be waited for."""
    return _at_once(search("greedy", question, agents, scorer, budget))


def best_first(
    question: str, agents: Agents, scorer: Scorer, budget: Budget = Budget()
) -> SearchResult:
    """`search` for TMN-S, with a scorer who need not be waited for."""
    return _at_once(search("best-first", question, agents, scorer, budget))


def _at_once(searching: Coroutine[Any, Any, SearchResult]) -> SearchResult:
    try:
        searching.send(None)
    except StopIteration as ended:
        result: SearchResult = ended.value
        return result
    raise TypeError("This scorer has to be waited for: use search.")


async def search(
    mode: SearchMode, question: str, agents: Agents, scorer: Scorer, budget: Budget = Budget()
) -> SearchResult:
    """Search for a decomposition (CommaQA, section 4.3).

    TMN-G takes the best proposal at each hop; one that has no answer ends it, without an answer.
    TMN-S asks a proposal only when none that waits is better, so that calls go where they count.
    One that has no answer, or whose agents find nothing, is given up; a filter that keeps nothing
    is not.

    Args:
        mode: TMN-G or TMN-S.
        question: in words.
        agents: who is asked.
        scorer: who proposes.
        budget: where it ends, whatever is proposed.
    """
    metered = _Metered(agents, budget.calls)

    async def propose(state: _State, width: int) -> list[Candidate]:
        """The best proposals that can be used: an end needs an answer, and a score is a number."""
        proposed = scorer.choices(question, state.hops, state.answers)
        candidates = await proposed if isinstance(proposed, Awaitable) else proposed
        usable = [
            one
            for one in itertools.islice(candidates, 100 * width)
            if math.isfinite(one.score) and (one.hop is not None or state.answers)
        ]
        return sorted(usable, key=lambda one: -one.score)[:width]

    return await (_greedy if mode == "greedy" else _best_first)(metered, budget, propose)


class _SpentError(Exception):
    """The budget of calls is used up."""


class _Metered(Agents):
    """Agents that may be asked so many times."""

    def __init__(self, agents: Agents, most: int) -> None:
        super().__init__(agents.world)
        self.agents, self.most = agents, most

    def ask(self, agent: str, question: str) -> Value | None:
        if self.calls >= self.most:
            raise _SpentError
        self.calls += 1
        return self.agents.ask(agent, question)


class _State(NamedTuple):
    """The hops so far, and what they gave."""

    hops: tuple[Hop, ...] = ()
    answers: tuple[Value, ...] = ()

    def after(self, hop: Hop, agents: _Metered) -> _State | None:
        """The state with one more hop; None where it has no answer, or no call is left."""
        try:
            answer = run_hop(hop, self.answers, agents)
        except _SpentError:
            return None
        return None if answer is None else _State((*self.hops, hop), (*self.answers, answer))


_Propose: TypeAlias = Callable[[_State, int], Awaitable[list[Candidate]]]


async def _greedy(agents: _Metered, budget: Budget, propose: _Propose) -> SearchResult:
    state, tried = _State(), 0
    while best := next(iter(await propose(state, 1)), None):
        if best.hop is None:
            return SearchResult(state.answers[-1], *state, agents.calls, tried)
        if tried == min(budget.depth, budget.hops):
            break
        tried += 1
        after = state.after(best.hop, agents)
        if after is None:
            break
        state = after
    return SearchResult(None, *state, agents.calls, tried)


async def _best_first(agents: _Metered, budget: Budget, propose: _Propose) -> SearchResult:
    # What waits: its cost, its number (of equal ones the earlier goes first), and a hop.
    waiting: list[tuple[float, int, _State, Hop | None]] = []
    numbers, tried = itertools.count(), 0

    async def wait(state: _State, cost: float) -> None:
        full = len(state.hops) >= budget.depth
        for score, hop in await propose(state, budget.width):
            # Asked again, a hop would give what it gave.
            if hop is None or not (full or hop in state.hops):
                heapq.heappush(waiting, (cost - score, next(numbers), state, hop))

    await wait(_State(), 0.0)
    while waiting:
        cost, _, state, hop = heapq.heappop(waiting)
        if hop is None:
            return SearchResult(state.answers[-1], *state, agents.calls, tried)
        if tried >= budget.hops or agents.calls >= budget.calls:
            continue  # What came to an end already may still be taken.
        tried += 1
        after = state.after(hop, agents)
        operation = read_operation(hop.operator)
        filters = operation and operation.mode in (Mode.WHERE, Mode.WHERE_VALUES)
        if after is not None and (filters or not is_empty(after.answers[-1])):
            await wait(after, cost)
    return SearchResult(None, calls=agents.calls, tried=tried)


# The exhaustive search.

_OPERATORS = (
    *("select", "project", "project_values_flat_unique"),
    *("filter", "projectValues", "filterValues_keys"),
)


@dataclass(frozen=True, slots=True)
class ExhaustiveResult:
    """What the exhaustive search came to for one question.

    Args:
        calls: questions to agents.
        decompositions: those that end in the recorded answer.
        finished: whether everything up to the depth was tried.
    """

    calls: int
    decompositions: tuple[tuple[Hop, ...], ...]
    finished: bool


def exhaustive_search(
    text: str, answer: Value, agents: Agents, depth: int, calls: int
) -> ExhaustiveResult:
    """Try all decompositions of one question, shorter ones first.

    Every question goes to every agent, with the entities of the question and all earlier answers
    in its blanks, by every operator with the transformations that the data has. What ends in the
    recorded answer is a decomposition, right or not. Nothing is remembered, shared or ruled out,
    so that the calls are what the paper counts.

    Args:
        text: the question.
        answer: what is recorded.
        agents: of its world; nothing else of the world is used but examples of valid inputs.
        depth: hops, at most.
        calls: questions to agents, at most.
    """
    before, forms = agents.calls, forms_of(agents.world.language)
    valid = frozenset().union(*agents.world.entities.values())
    _, entities = opened(text, known_entities(text, valid))
    decompositions: list[tuple[Hop, ...]] = []
    level: list[tuple[tuple[Hop, ...], tuple[Value, ...]]] = [((), ())]
    for _ in range(depth):
        longer: list[tuple[tuple[Hop, ...], tuple[Value, ...]]] = []
        for hops, answers in level:
            for hop in _all_hops(forms, entities, len(hops)):
                if agents.calls - before >= calls:
                    spent = agents.calls - before
                    return ExhaustiveResult(spent, tuple(decompositions), finished=False)
                value = run_hop(hop, answers, agents)
                if value is None or is_empty(value):
                    continue
                longer.append(((*hops, hop), (*answers, value)))
                if exact_match(value, answer):
                    decompositions.append((*hops, hop))
        level = longer
    return ExhaustiveResult(agents.calls - before, tuple(decompositions), finished=True)


def _all_hops(
    forms: Mapping[Form, Sequence[str]], entities: Sequence[str], answers: int
) -> Iterator[Hop]:
    """Every hop that can be written; after the first it uses the last answer."""
    fills = [*entities, *(f"#{number}" for number in range(1, answers + 1))]
    for form, agents in forms.items():
        for arguments in itertools.product(fills, repeat=form.blanks):
            if answers and form.blanks and f"#{answers}" not in arguments:
                continue
            for at, agent in itertools.product(range(len(form.phrasings)), agents):
                question = form.fill(arguments, at)
                for operator in _OPERATORS if references(question) else _OPERATORS[:1]:
                    yield Hop(operator, agent, question)
