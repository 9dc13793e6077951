"""Decompositions found hop by hop: greedy (TMN-G), and best-first search (TMN-S).

CommaQA (Khot et al., section 4) has a model that proposes next questions, and
agents that answer them or do not. The greedy way asks the best proposal, come
what may; the search keeps several and goes on with the best that was answered.
Who proposes is not known here: budgets hold for any `Scorer`, and for any
`AsyncScorer`, who may have to wait for a model.

The paper's way to learn without decompositions, to compare with (CommaQA, appendix B).

Every question to every agent, with the entities of the question and all earlier
answers in its blanks, by every operator, up to a depth; what ends in the
recorded answer is a decomposition, right or not. Nothing is remembered, shared
or ruled out, so that the calls are what the paper counts.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Literal, NamedTuple, Protocol, TypeAlias

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
    ) -> Iterable[Candidate]:
        """Proposals, best first, given the hops so far and what they gave."""


class AsyncScorer(Protocol):
    """Proposes what to ask next, and may have to wait for it."""

    async def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> Iterable[Candidate]:
        """As `Scorer.choices`."""


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


@dataclass(frozen=True, slots=True)
class _State:
    hops: tuple[Hop, ...] = ()
    answers: tuple[Value, ...] = ()

    def after(self, hop: Hop, answer: Value) -> _State:
        return _State((*self.hops, hop), (*self.answers, answer))


@dataclass(order=True, slots=True)
class _Waiting:
    """A proposal that was not tried yet; of equal ones the earlier goes first."""

    cost: float
    number: int
    state: _State = field(compare=False)
    hop: Hop | None = field(compare=False)


Course: TypeAlias = "Generator[_State, Iterable[Candidate], SearchResult]"
"""A search that says where it wants proposals, and is sent them."""


def greedy(
    question: str, agents: Agents, scorer: Scorer, budget: Budget = Budget()
) -> SearchResult:
    """TMN-G: the best proposal at each hop (CommaQA, section 4.3).

    A proposal that has no answer ends it, without an answer.
    """
    return _at_once(_greedy(agents, budget), question, scorer)


def best_first(
    question: str, agents: Agents, scorer: Scorer, budget: Budget = Budget()
) -> SearchResult:  # fmt: skip
    """TMN-S: best-first search over proposals that agents answer (CommaQA, section 4.3).

    A proposal is asked only when none that waits is better, so that calls go
    where they count. One that has no answer, or whose agents find nothing, is
    given up; a filter that keeps nothing is not.

    Args:
        question: in words.
        agents: who is asked.
        scorer: who proposes.
        budget: where it ends, whatever is proposed.
    """
    return _at_once(_best_first(agents, budget), question, scorer)


async def search(
    way: SearchMode, question: str, agents: Agents, proposer: AsyncScorer, budget: Budget = Budget()
) -> SearchResult:  # fmt: skip
    """`greedy` or `best_first`, with somebody who has to be waited for.

    Args:
        way: which of them.
        question: in words.
        agents: who is asked.
        proposer: who proposes.
        budget: where it ends, whatever is proposed.
    """
    course = _COURSES[way](agents, budget)
    try:
        state = next(course)
        while True:
            state = course.send(await proposer.choices(question, state.hops, state.answers))
    except StopIteration as ended:
        found: SearchResult = ended.value
        return found


def _at_once(course: Course, question: str, scorer: Scorer) -> SearchResult:
    try:
        state = next(course)
        while True:
            state = course.send(scorer.choices(question, state.hops, state.answers))
    except StopIteration as ended:
        found: SearchResult = ended.value
        return found


def _greedy(agents: Agents, budget: Budget) -> Course:
    state, metered = _State(), _Metered(agents, budget.calls)
    for tried in range(min(budget.depth, budget.hops) + 1):
        best = next(iter(_usable((yield state), state, 1)), None)
        if best is None:
            return SearchResult(None, *_told(state, metered, tried))
        if best.hop is None:
            return SearchResult(state.answers[-1], *_told(state, metered, tried))
        if tried == min(budget.depth, budget.hops):
            break
        answer = _answered(best.hop, state, metered)
        if answer is None:
            return SearchResult(None, *_told(state, metered, tried + 1))
        state = state.after(best.hop, answer)
    return SearchResult(None, *_told(state, metered, len(state.hops)))


def _best_first(agents: Agents, budget: Budget) -> Course:
    metered, waiting, tried = _Metered(agents, budget.calls), _Queue(budget), 0
    start = _State()
    waiting.add(_usable((yield start), start, budget.width), start, 0.0)
    while waiting.heap:
        one = heapq.heappop(waiting.heap)
        if one.hop is None:
            return SearchResult(one.state.answers[-1], *_told(one.state, metered, tried))
        if tried >= budget.hops or metered.calls >= budget.calls:
            continue  # What came to an end already may still be taken.
        tried += 1
        answer = _answered(one.hop, one.state, metered)
        if answer is not None and not _is_dead(answer, one.hop):
            state = one.state.after(one.hop, answer)
            waiting.add(_usable((yield state), state, budget.width), state, one.cost)
    return SearchResult(None, calls=metered.calls, tried=tried)


SearchMode: TypeAlias = Literal["greedy", "best-first"]

_COURSES: Mapping[SearchMode, Callable[[Agents, Budget], Course]] = MappingProxyType(
    {"greedy": _greedy, "best-first": _best_first}
)


@dataclass
class _Queue:
    """Proposals that wait, the least costly first."""

    budget: Budget
    heap: list[_Waiting] = field(default_factory=list)
    added: int = 0

    def add(self, choices: Iterable[Candidate], state: _State, cost: float) -> None:
        """Let what is proposed after some hops wait; a hop is not asked twice."""
        full = len(state.hops) >= self.budget.depth
        for choice in choices:
            if choice.hop is None or not (full or choice.hop in state.hops):
                self.added += 1
                one = _Waiting(cost - choice.score, self.added, state, choice.hop)
                heapq.heappush(self.heap, one)


def _told(
    state: _State, metered: _Metered, tried: int
) -> tuple[tuple[Hop, ...], tuple[Value, ...], int, int]:
    return state.hops, state.answers, metered.calls, tried


def _usable(choices: Iterable[Candidate], state: _State, width: int) -> list[Candidate]:
    """The best proposals that can be used: an end needs an answer, and a score is a number."""
    usable = [
        one for one in islice(choices, 100 * width)
        if math.isfinite(one.score) and (one.hop is not None or state.answers)
    ]  # fmt: skip
    return sorted(usable, key=lambda one: -one.score)[:width]


def _answered(hop: Hop, state: _State, metered: _Metered) -> Value | None:
    try:
        return run_hop(hop, state.answers, metered)
    except _SpentError:
        return None


def _is_dead(answer: Value, hop: Hop) -> bool:
    operation = read_operation(hop.operator)
    filters = operation is not None and operation.mode in (Mode.WHERE, Mode.WHERE_VALUES)
    return is_empty(answer) and not filters


OPERATORS = ("select", "project", "project_values_flat_unique", "filter", "projectValues",
             "filterValues_keys")  # fmt: skip
"""The operators that are tried, with the transformations that the data has."""


@dataclass(frozen=True, slots=True)
class ExhaustiveResult:
    """What the search came to for one question.

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

    Args:
        text: the question.
        answer: what is recorded.
        agents: of its world; nothing else of the world is used but examples of
            valid inputs.
        depth: hops, at most.
        calls: questions to agents, at most.
    """
    world, before = agents.world, agents.calls
    valid = frozenset().union(*world.entities.values())
    _, entities = opened(text, known_entities(text, valid))
    forms = forms_of(world)
    found: list[tuple[Hop, ...]] = []
    level: list[tuple[tuple[Hop, ...], tuple[Value, ...]]] = [((), ())]
    for _ in range(depth):
        longer: list[tuple[tuple[Hop, ...], tuple[Value, ...]]] = []
        for hops, answers in level:
            for hop in _all_hops(forms, entities, len(hops)):
                if agents.calls - before >= calls:
                    return ExhaustiveResult(agents.calls - before, tuple(found), finished=False)
                value = run_hop(hop, answers, agents)
                if value is None or is_empty(value):
                    continue
                longer.append(((*hops, hop), (*answers, value)))
                if exact_match(value, answer):
                    found.append((*hops, hop))
        level = longer
    return ExhaustiveResult(agents.calls - before, tuple(found), finished=True)


def _all_hops(
    forms: dict[Form, tuple[str, ...]], entities: Sequence[str], answers: int
) -> Iterator[Hop]:
    """Every hop that can be written; after the first it uses the last answer."""
    fills = [*entities, *(f"#{number}" for number in range(1, answers + 1))]
    last = f"#{answers}"
    for form, names in forms.items():
        for arguments in itertools.product(fills, repeat=form.blanks):
            if answers and form.blanks and last not in arguments:
                continue
            for at, name in itertools.product(range(len(form.phrasings)), names):
                question = form.asked(arguments, at)
                for operator in OPERATORS if references(question) else OPERATORS[:1]:
                    yield Hop(operator, name, question)
