"""Programs of hops over a few questions at once, shortest first.

The search for decompositions that explain answers builds values from values, bottom-up: entities
of the question, what agents say of them, what they say of that, and so on. A program's value is a
vector with one place for each of several questions of one kind, so that a program that is right by
chance on one is found out by the others, and programs with equal vectors are one (observational
equivalence).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pearl.commaqa.agents import Agents, run_hop
from pearl.commaqa.decomposition import Operation, run_operation, transform
from pearl.commaqa.model import HOLE, Form, Move, fits, forms_of, hop_of, is_empty
from pearl.commaqa.world import World
from pearl.lang.ast import Mode
from pearl.lang.builtins import BuiltinError
from pearl.lang.values import Pairs, Value, as_text, canonical_json, to_json
from pearl.runtime.binding import Item


class CachingAgents(Agents):
    """Agents that are asked each question once; `calls` counts what was really asked."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.forms = forms_of(world.language)
        self._answers: dict[tuple[str, str], Value | None] = {}

    def ask(self, agent: str, question: str) -> Value | None:
        """The answer to one question, as `Agents.ask` gives it."""
        key = agent, question
        if key not in self._answers:
            self._answers[key] = super().ask(agent, question)
        return self._answers[key]


# How far the search for programs goes.
CHAIN = 3
"""Hops in a row before the last one."""

_MET = 1000  # pairs of a list and one thing that the last hop is tried on
_PAIRS = 20_000  # pairs of single things that the last hop is tried on
_TERMS = 4000  # programs that are kept of one length


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """A question whose answer is known, and nothing else of it.

    Args:
        pattern: its text with holes.
        entities: what stands in the holes.
        answer: what is recorded.
        agents: of its world.
    """

    pattern: str
    entities: tuple[str, ...]
    answer: Value
    agents: CachingAgents

    @property
    def text(self) -> str:
        """The question."""
        return HOLE.sub(lambda hole: self.entities[int(hole[1]) - 1], self.pattern)


Values: TypeAlias = "tuple[Value | None, ...]"
"""A value for each case; None where a program has no answer, or an empty one."""


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """A program and its values: an entity, or a hop of other programs.

    Args:
        values: one for each case.
        origin: where the items come from, as a word for types.
        entity: its number, from 1; 0 for a hop.
        mode: how the hop is asked.
        then: the transformations that follow.
        form: what is asked; None for an entity.
        arguments: what fills its blanks.
        over: the argument whose items are asked for.
    """

    values: Values
    origin: str
    entity: int = 0
    mode: Mode = Mode.PLAIN
    then: tuple[str, ...] = ()
    form: Form | None = None
    arguments: tuple[Term, ...] = ()
    over: Term | None = None

    @property
    def steps(self) -> tuple[Term, ...]:
        """The hops of the program in order, shared ones once; those that rest on entities first."""
        if self.form is None:
            return ()
        arguments = sorted(self.arguments, key=lambda one: not one.rests)
        before = dict.fromkeys(step for argument in arguments for step in argument.steps)
        return (*before, self)

    @property
    def rests(self) -> bool:
        """Whether an entity of the question is in it."""
        return self.entity > 0 or any(argument.rests for argument in self.arguments)

    @property
    def is_single(self) -> bool:
        """Whether it is one thing everywhere: a number, or a list with one item."""
        return all(
            len(value) == 1 if isinstance(value, list) else not isinstance(value, Pairs)
            for value in self.values
        )


def moves_of(term: Term) -> tuple[Move, ...]:
    """A program as moves."""
    steps = term.steps
    places = {step: number for number, step in enumerate(steps, 1)}
    moves: list[Move] = []
    for number, step in enumerate(steps, 1):
        assert step.form is not None
        arguments = tuple(one.entity or places[one] - number for one in step.arguments)
        asked = (arguments[place] for place in step.form.orders[0])
        first = next((one for one in asked if one < 0), None)
        over = places[step.over] - number if step.over and step.mode is not Mode.PLAIN else None
        over = None if over == first else over
        moves.append(Move(step.mode, step.then, step.form, arguments, over))
    return tuple(moves)


def run_moves(moves: Sequence[Move], case: Case) -> Value | None:
    """The last answer of a program for one question, each hop asked of the agent that answers it.

    Returns:
        None where a hop has no answer, or an empty one.
    """
    answers: list[Value] = []
    for move in moves:
        answer = run_move(move, answers, case)
        if answer is None:
            return None
        answers.append(answer)
    return answers[-1]


def run_move(move: Move, answers: Sequence[Value], case: Case) -> Value | None:
    """The answer of one hop after those before it; None where there is none, or an empty one."""
    if not fits(move, len(case.entities), len(answers)):
        return None
    agents = case.agents.forms.get(move.form, ())
    hops = (hop_of(move, agent, case.entities, len(answers) + 1) for agent in agents)
    tried = (run_hop(hop, answers, case.agents.ask) for hop in hops)
    return next((one for one in tried if one is not None and not is_empty(one)), None)


Refusals: TypeAlias = "dict[tuple[Form, tuple[str, ...]], tuple[int, int]]"
"""What agents taught about types: how often a form was answered and refused, by the origins of the
items that it was asked for, and the mode."""


class Bank:
    """Makes programs over some questions, longer ones of shorter ones.

    Args:
        cases: of one kind, a few; terms of a bank of more cases may be asked of the first ones.
        refusals: shared among banks. What was refused a few times and never answered is not asked.
        alive: on how many cases a program needs an answer.
    """

    def __init__(self, cases: Sequence[Case], refusals: Refusals, alive: int) -> None:
        self.cases, self.refusals, self.alive = cases, refusals, alive
        self._seen: set[str] = set()
        self.forms = list(dict.fromkeys(form for case in cases for form in case.agents.forms))
        self.entities = [
            Term(values, f"{{{number}}} of {cases[0].pattern}", number)
            for number, values in enumerate(zip(*(case.entities for case in cases), strict=True), 1)
        ]

    def longer(self, *terms: Term) -> Iterator[Term]:
        """What one more hop makes of terms, or of nothing; the items are those of the first."""
        for form in self.forms:
            if form.blanks == len(terms):
                for arguments in itertools.permutations(terms):
                    yield from self._asked(form, arguments, terms[0] if terms else None)

    def is_new(self, term: Term) -> bool:
        """Whether no term with the same values was seen here; from now on it is seen."""
        key = canonical_json([None if one is None else to_json(one) for one in term.values])
        new = key not in self._seen
        self._seen.add(key)
        return new

    def _asked(self, form: Form, arguments: tuple[Term, ...], over: Term | None) -> Iterator[Term]:
        origins = tuple(argument.origin for argument in arguments)
        given = [[one.values[at] for one in arguments] for at in range(len(self.cases))]
        mapped = [at for at, argument in enumerate(arguments) if argument is over]
        modes: tuple[Mode, ...] = (Mode.PLAIN,)
        if over is not None and over.form is not None:
            items = next(one for one in over.values if one is not None)
            modes = (Mode.EACH_VALUES,) if isinstance(items, Pairs) else modes
            modes = (Mode.PLAIN, Mode.EACH) if isinstance(items, list) else modes
        for mode in modes:
            key = form, (*origins, str(mode))
            answered, refused = self.refusals.get(key, (0, 0))
            if not answered and refused >= 3:
                continue
            left = sum(None not in row for row in given)
            # That there is no highest of nothing tells nothing of types.
            telling = sum(None not in row and not any(map(_has_nothing, row)) for row in given)
            values: list[Value | None] = []
            for case, row in zip(self.cases, given, strict=True):
                value = None
                # It is given up when too few can be left.
                if _alive(values) + left >= self.alive and None not in row:
                    left -= 1
                    value = _answer(case, form, mode, row, mapped)
                values.append(value)
            fresh = _alive(values)
            self.refusals[key] = answered + fresh, refused + max(0, telling - fresh)
            # What is always what it was asked of, the highest of one number, says nothing.
            said_before = mode is Mode.PLAIN and any(
                one.values == tuple(values) for one in arguments
            )
            if fresh >= self.alive and not said_before:
                term = Term(tuple(values), form.phrasings[0], 0, mode, (), form, arguments, over)
                yield from self._transformed(term)

    def _transformed(self, term: Term) -> Iterator[Term]:
        """A term and its transformations, where they leave enough values."""
        over, changes = term.over, _transformations(term.mode, term.values)
        truths_alone = all(
            value is None
            or (isinstance(value, Pairs) and all(isinstance(item, bool) for _, item in value))
            for value in term.values
        )
        if over and term.mode in _FILTERS and truths_alone:
            mode, changes = _FILTERS[term.mode]
            truths = zip(over.values, term.values, strict=False)
            term = replace(term, mode=mode, values=tuple(_filtered(mode, *one) for one in truths))
        for then in changes:
            values = tuple(_changed(value, then) for value in term.values)
            if _alive(values) < self.alive:
                continue
            origin = term.origin
            if over and term.mode in (Mode.WHERE, Mode.WHERE_VALUES):
                origin = over.origin
            if over and "keys" in then:
                origin = f"keys of {over.origin}"
            elif any(isinstance(value, Pairs) for value in values):
                origin = f"pairs of {origin}"
            yield replace(term, values=values, then=then, origin=origin)


_FILTERS = {Mode.EACH: (Mode.WHERE, ((),)), Mode.EACH_VALUES: (Mode.WHERE_VALUES, (("keys",), ()))}
"""What a question of yes or no becomes, and the transformations of that."""


def _alive(values: Sequence[Value | None]) -> int:
    return sum(value is not None for value in values)


def _answer(
    case: Case, form: Form, mode: Mode, given: Sequence[Value | None], mapped: Sequence[int]
) -> Value | None:
    """What a hop gives for one case, by the first agent that answers each question.

    Where ``mode`` goes over items, those of the argument that stands at the places ``mapped``. None
    for no answer, or an empty one.
    """
    texts = [as_text(one) for one in given if one is not None]

    def ask(item: Item | None) -> Value | None:
        if item is not None:
            for at in mapped:
                texts[at] = as_text(item.value)
        question = form.fill(texts)
        answers = (case.agents.ask(name, question) for name in case.agents.forms.get(form, ()))
        return next((answer for answer in answers if answer is not None), None)

    answer = run_operation(Operation(mode), given[mapped[0]] if mapped else None, ask)
    return None if answer is None or is_empty(answer) else answer


def _has_nothing(value: Value | None) -> bool:
    """Whether items of a value are empty."""
    return isinstance(value, Pairs) and any(is_empty(item) for _, item in value)


def _transformations(mode: Mode, values: Values) -> tuple[tuple[str, ...], ...]:
    value = next((one for one in values if one is not None), None)
    if mode is Mode.PLAIN or not isinstance(value, Pairs):
        return ((),)
    if not all(isinstance(item, list) for _, item in value):
        return (), ("values",)
    flat = ("values", "flat")
    return ((*flat, "unique"), ()) if mode is Mode.EACH_VALUES else ((*flat, "unique"), flat, ())


def _filtered(mode: Mode, before: Value | None, truths: Value | None) -> Value | None:
    if not isinstance(truths, Pairs):
        return None
    answers = iter(truth for _, truth in truths)
    kept = run_operation(Operation(mode), before, lambda _: next(answers))
    return [] if kept is None else kept


def _changed(value: Value | None, then: Sequence[str]) -> Value | None:
    """A value after transformations; None where it takes none, or nothing is left of it."""
    try:
        changed = None if value is None else transform(value, then)
    except BuiltinError:
        return None
    return None if changed is None or is_empty(changed) else changed


# The search goes from short programs to long ones.


def levels_of(bank: Bank, *, new_only: bool = True) -> Iterator[Iterable[Term]]:
    """Programs by the length of their longest chain; those of the last level are not made longer.

    Args:
        bank: makes them.
        new_only: of programs with equal values all are given, and one is made longer. Without it
            each is, and only as a row: a hop rests on one hop before it, and on an entity.
    """
    levels: list[list[Term]] = []

    def level(terms: Iterable[Term]) -> list[Term]:
        every: list[Term] = []
        kept: list[Term] = []
        for term in terms:
            every.append(term)
            if not new_only or bank.is_new(term):
                kept.append(term)
            if len(kept) >= _TERMS:
                break
        levels.append(kept)
        return every

    def longer(bank: Bank) -> Iterator[Term]:
        """One more hop of the newest terms, alone, with an entity, or with one earlier thing."""
        for term in levels[-1]:
            yield from bank.longer(term)
        earlier = [term for level in levels[:-1] for term in level if new_only and term.is_single]
        for term, other in itertools.product(levels[-1], (*bank.entities, *earlier)):
            yield from bank.longer(term, other)

    yield level(itertools.chain(bank.longer(), *map(bank.longer, bank.entities)))
    for _ in range(CHAIN - 1):
        yield level(longer(bank))
    # The last hop is tried on few questions: most programs are wrong on the first.
    narrow = Bank(bank.cases[:2], bank.refusals, 1)
    yield longer(narrow)
    pairs = _pairs(levels)
    for start in range(0, len(pairs), 500):
        yield (term for pair in pairs[start : start + 500] for term in narrow.longer(*pair))
    yield (term for pair in _met(levels) for term in narrow.longer(*pair))


def _met(levels: Sequence[Sequence[Term]]) -> list[tuple[Term, Term]]:
    """Lists with one thing that was found out no earlier than they were; short ones first."""
    pairs = [
        (term, other)
        for at, level in enumerate(levels)
        for term in level
        if not term.is_single
        for other in itertools.chain(*levels[at:])
        if other.is_single
    ]
    return sorted(pairs, key=_hops)[:_MET]


def _pairs(levels: Sequence[Sequence[Term]]) -> list[tuple[Term, Term]]:
    """Two things that were found out, for one question: fewest hops first, then doing the same."""

    def order(pair: tuple[Term, Term]) -> tuple[int, bool]:
        one, other = ([step.form for step in term.steps] for term in pair)
        return _hops(pair), one != other

    single = [term for level in levels for term in level if term.is_single]
    return sorted(itertools.combinations(single, 2), key=order)[:_PAIRS]


def _hops(terms: Iterable[Term]) -> int:
    """How many hops some programs have, shared ones once."""
    return len({step for term in terms for step in term.steps})
