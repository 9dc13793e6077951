"""Enumerates programs of hops over a few questions at once, shortest first.

The search for decompositions that explain answers builds values bottom-up: entities of the
question, answers of agents about them, answers about those answers, and so on. The value of a
program is a vector with a place for each of several questions of one kind. So a program that is
right by chance on one question fails on the others, and of programs with equal vectors only one
is made longer (observational equivalence).
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
    """Agents whose answers are cached; `calls` counts only questions that were not in the cache."""

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
"""The most hops in a row before the last one."""

_MET = 1000  # pairs of a list and a single thing that the last hop is tried on, at most
_PAIRS = 20_000  # pairs of single things that the last hop is tried on, at most
_TERMS = 4000  # programs that are kept of each length, at most


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """A question with its recorded answer, but without a decomposition.

    Args:
        pattern: its text with holes.
        entities: the entities in the holes.
        answer: the recorded answer.
        agents: the agents of its world.
    """

    pattern: str
    entities: tuple[str, ...]
    answer: Value
    agents: CachingAgents

    @property
    def text(self) -> str:
        """The question's text."""
        return HOLE.sub(lambda hole: self.entities[int(hole[1]) - 1], self.pattern)


Values: TypeAlias = "tuple[Value | None, ...]"
"""A value for each case; None where a program has no answer, or an empty one."""


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """A program and its values: an entity, or a hop about the values of other programs.

    Args:
        values: one for each case.
        origin: stands for the type of the values: the question they answer, say.
        entity: the entity's number, from 1; 0 for a hop.
        mode: how the hop is asked.
        then: the transformations that follow.
        form: the hop's question; None for an entity.
        arguments: the programs whose values fill the question's blanks.
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
        """The program's hops in order, shared ones once; those that rest on entities come first."""
        if self.form is None:
            return ()
        arguments = sorted(self.arguments, key=lambda argument: not argument.rests)
        before = dict.fromkeys(step for argument in arguments for step in argument.steps)
        return (*before, self)

    @property
    def rests(self) -> bool:
        """Whether it uses an entity of the question."""
        return self.entity > 0 or any(argument.rests for argument in self.arguments)

    @property
    def is_single(self) -> bool:
        """Whether each of its values is a single thing: a number, or a list with one item."""
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
        arguments = tuple(arg.entity or places[arg] - number for arg in step.arguments)
        asked = (arguments[place] for place in step.form.orders[0])
        first = next((arg for arg in asked if arg < 0), None)
        over = places[step.over] - number if step.over and step.mode is not Mode.PLAIN else None
        over = None if over == first else over
        moves.append(Move(step.mode, step.then, step.form, arguments, over))
    return tuple(moves)


def run_moves(moves: Sequence[Move], case: Case) -> Value | None:
    """A program's answer to one question; None where a hop has no answer, or an empty one.

    Each hop is asked of the agents that know its form.
    """
    answers: list[Value] = []
    for move in moves:
        answer = run_move(move, answers, case)
        if answer is None:
            return None
        answers.append(answer)
    return answers[-1]


def run_move(move: Move, answers: Sequence[Value], case: Case) -> Value | None:
    """The answer of one hop, given the earlier ones; None where there is none or an empty one."""
    if not fits(move, len(case.entities), len(answers)):
        return None
    agents = case.agents.forms.get(move.form, ())
    hops = (hop_of(move, agent, case.entities, len(answers) + 1) for agent in agents)
    given = (run_hop(hop, answers, case.agents.ask) for hop in hops)
    return next((answer for answer in given if answer is not None and not is_empty(answer)), None)


Refusals: TypeAlias = "dict[tuple[Form, tuple[str, ...]], tuple[int, int]]"
"""How often agents answered and refused a form, by the origins of its arguments and the mode; so
types that do not fit are learned from refusals."""


class Bank:
    """Makes programs over a few questions, longer ones from shorter ones.

    Args:
        cases: a few questions of one kind. A bank with only the first of them can make longer
            programs from the terms of this one.
        refusals: shared among banks; a form that was only refused, three times, is not asked again.
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
        """Programs with one more hop, whose arguments are these terms in any order; modes go over
        the first term."""
        for form in self.forms:
            if form.blanks == len(terms):
                for arguments in itertools.permutations(terms):
                    yield from self._asked(form, arguments, terms[0] if terms else None)

    def is_new(self, term: Term) -> bool:
        """Whether this is the first term with these values; it is remembered."""
        key = canonical_json([None if value is None else to_json(value) for value in term.values])
        new = key not in self._seen
        self._seen.add(key)
        return new

    def _asked(self, form: Form, arguments: tuple[Term, ...], over: Term | None) -> Iterator[Term]:
        origins = tuple(argument.origin for argument in arguments)
        given = [[arg.values[at] for arg in arguments] for at in range(len(self.cases))]
        mapped = [at for at, argument in enumerate(arguments) if argument is over]
        modes: tuple[Mode, ...] = (Mode.PLAIN,)
        if over is not None and over.form is not None:
            items = next(value for value in over.values if value is not None)
            modes = (Mode.EACH_VALUES,) if isinstance(items, Pairs) else modes
            modes = (Mode.PLAIN, Mode.EACH) if isinstance(items, list) else modes
        for mode in modes:
            key = form, (*origins, str(mode))
            answered, refused = self.refusals.get(key, (0, 0))
            if not answered and refused >= 3:
                continue
            left = sum(None not in row for row in given)
            # A refusal on empty items says nothing about types.
            telling = sum(None not in row and not any(map(_has_nothing, row)) for row in given)
            values: list[Value | None] = []
            for case, row in zip(self.cases, given, strict=True):
                value = None
                # Agents are no longer asked once too few cases can have an answer.
                if _alive(values) + left >= self.alive and None not in row:
                    left -= 1
                    value = _answer(case, form, mode, row, mapped)
                values.append(value)
            fresh = _alive(values)
            self.refusals[key] = answered + fresh, refused + max(0, telling - fresh)
            # A hop that returns its argument, as the highest of a single number, adds nothing.
            repeats = mode is Mode.PLAIN and any(arg.values == tuple(values) for arg in arguments)
            if fresh >= self.alive and not repeats:
                term = Term(tuple(values), form.phrasings[0], 0, mode, (), form, arguments, over)
                yield from self._transformed(term)

    def _transformed(self, term: Term) -> Iterator[Term]:
        """A term with each of its transformations that leaves enough values."""
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
"""The filter that a yes-or-no question asked in this mode becomes, with its transformations."""


def _alive(values: Sequence[Value | None]) -> int:
    return sum(value is not None for value in values)


def _answer(
    case: Case, form: Form, mode: Mode, given: Sequence[Value | None], mapped: Sequence[int]
) -> Value | None:
    """A hop's answer for one case, by the first agent that answers; None if it is empty or missing.

    ``given`` are the arguments' values, and ``mapped`` the places of the argument whose items a
    ``mode`` other than plain goes over.
    """
    texts = [as_text(value) for value in given if value is not None]

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
    """Whether a value is pairs, some of whose answers are empty."""
    return isinstance(value, Pairs) and any(is_empty(item) for _, item in value)


def _transformations(mode: Mode, values: Values) -> tuple[tuple[str, ...], ...]:
    value = next((known for known in values if known is not None), None)
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
    """A value after transformations; None where one does not apply, or nothing is left."""
    try:
        changed = None if value is None else transform(value, then)
    except BuiltinError:
        return None
    return None if changed is None or is_empty(changed) else changed


# The search goes from short programs to long ones.


def levels_of(bank: Bank, *, new_only: bool = True) -> Iterator[Iterable[Term]]:
    """Programs, level by level, each level with one more hop in a row.

    Args:
        bank: makes the programs.
        new_only: whether only one of programs with equal values is made longer (all are given).
            Without it all are, but a hop can then use only the hop before it and an entity.
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
        """The newest terms with one more hop: of a term alone, with an entity, or with an earlier
        single thing."""
        for term in levels[-1]:
            yield from bank.longer(term)
        earlier = [term for level in levels[:-1] for term in level if new_only and term.is_single]
        for term, other in itertools.product(levels[-1], (*bank.entities, *earlier)):
            yield from bank.longer(term, other)

    yield level(itertools.chain(bank.longer(), *map(bank.longer, bank.entities)))
    for _ in range(CHAIN - 1):
        yield level(longer(bank))
    # The last hop is tried on two questions only: most programs fail on the first already.
    narrow = Bank(bank.cases[:2], bank.refusals, 1)
    yield longer(narrow)
    pairs = _pairs(levels)
    for start in range(0, len(pairs), 500):
        yield (term for pair in pairs[start : start + 500] for term in narrow.longer(*pair))
    yield (term for pair in _met(levels) for term in narrow.longer(*pair))


def _met(levels: Sequence[Sequence[Term]]) -> list[tuple[Term, Term]]:
    """Pairs of a list and a single thing found at the same level or later; fewest hops first."""
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
    """Pairs of single things, those with the fewest hops first, then those with the same forms."""

    def order(pair: tuple[Term, Term]) -> tuple[int, bool]:
        first, second = ([step.form for step in term.steps] for term in pair)
        return _hops(pair), first != second

    single = [term for level in levels for term in level if term.is_single]
    return sorted(itertools.combinations(single, 2), key=order)[:_PAIRS]


def _hops(terms: Iterable[Term]) -> int:
    """How many hops these programs have together, shared ones counted once."""
    return len({step for term in terms for step in term.steps})
