"""Searching for decompositions hop by hop: greedy (TMN-G) and best first (TMN-S).

CommaQA (Khot et al., section 4) has a model that proposes next questions, and agents that answer
them or do not. The greedy search asks the best proposal, come what may; the best-first search
keeps several and goes on with the best that was answered. Who proposes is not known here: budgets
hold for any `Scorer`, who may have to wait for a model.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, Protocol, TypeAlias

from pearl.commaqa.agents import run_hop
from pearl.commaqa.decomposition import Hop, read_operation
from pearl.commaqa.model import is_empty
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


class Answering(Protocol):
    """Agents, or who keeps what they said."""

    @property
    def ask(self) -> Callable[[str, str], Value | None]:
        """What an agent says to a question; None where it does not answer."""


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
        width: proposals that count after each hop; one that has no answer does not.
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


async def search(
    mode: SearchMode,
    question: str,
    agents: Answering,
    scorer: Scorer,
    budget: Budget = Budget(),
    accepts: Callable[[Value], bool] = lambda _: True,
) -> SearchResult:
    """Search for a decomposition (CommaQA, section 4.3).

    TMN-G takes the best proposal at each hop; one that has no answer ends it, without an answer.
    TMN-S asks a proposal only when none that waits is better, so that calls go where they count.
    One that has no answer, or whose agents find nothing, is given up; a filter that keeps nothing
    is not. Either ends with its budget, whatever is proposed.

    Args:
        mode: TMN-G or TMN-S.
        question: its text.
        agents: who are asked.
        scorer: proposes hops.
        budget: what may be spent.
        accepts: whether an answer that decomposition came to is one; TMN-S goes on where it is not.
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
    # What waits: its cost, its number (of equal ones the earlier goes first), and a hop.
    waiting: list[tuple[float, int, _State, Hop | None]] = []
    numbers = itertools.count()
    # How many proposals after each hop were answered.
    widths: Counter[tuple[Hop, ...]] = Counter()

    async def wait(state: _State, cost: float) -> None:
        full = len(state.hops) >= budget.depth
        for score, hop in await walk.propose(state):
            # Asked again, a hop would give what it gave.
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
            continue  # What came to an end already may still be taken.
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
    agents: Answering,
    scorer: Scorer,
    budget: Budget = Budget(),
    accepts: Callable[[Value], bool] = lambda _: True,
) -> SearchResult:
    try:
        search(mode, question, agents, scorer, budget, accepts).send(None)
    except StopIteration as ended:
        result: SearchResult = ended.value
        return result
    raise TypeError("This scorer has to be waited for: use search.")


greedy, best_first = partial(_at_once, "greedy"), partial(_at_once, "best-first")
"""`search` for TMN-G and for TMN-S, with a scorer who need not be waited for."""


class _State(NamedTuple):
    """The hops so far, and what they gave."""

    hops: tuple[Hop, ...] = ()
    answers: tuple[Value, ...] = ()


@dataclass(eq=False)
class _Walk:
    """One question's search: who is asked, and what was spent."""

    question: str
    agents: Answering
    scorer: Scorer
    budget: Budget
    accepts: Callable[[Value], bool]
    calls: int = 0
    tried: int = 0

    async def propose(self, state: _State) -> list[Candidate]:
        """The best proposals that can be used: an end needs an answer, and a score is a number."""
        proposed = self.scorer.choices(self.question, state.hops, state.answers)
        candidates = await proposed if isinstance(proposed, Awaitable) else proposed
        usable = [
            candidate
            for candidate in itertools.islice(candidates, 100 * self.budget.width)
            if math.isfinite(candidate.score) and (candidate.hop is not None or state.answers)
        ]
        return sorted(usable, key=lambda candidate: -candidate.score)

    def after(self, state: _State, hop: Hop) -> _State | None:
        """The state with one more hop; None where it has no answer, or no call is left."""
        self.tried += 1
        try:
            answer = run_hop(hop, state.answers, self._ask)
        except _SpentError:
            return None
        return None if answer is None else _State((*state.hops, hop), (*state.answers, answer))

    def result(self, answer: Value | None, state: _State) -> SearchResult:
        """What came of the question."""
        return SearchResult(answer, *state, self.calls, self.tried)

    def _ask(self, agent: str, question: str) -> Value | None:
        if self.calls >= self.budget.calls:
            raise _SpentError
        self.calls += 1
        return self.agents.ask(agent, question)


class _SpentError(Exception):
    """The budget of calls is used up."""
