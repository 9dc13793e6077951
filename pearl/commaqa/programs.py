"""Programs of hops over a few questions at once, shortest first.

The search for decompositions that explain answers builds values from values, bottom-up: entities
of the question, what agents say of them, what they say of that, and so on. A program's value is a
vector with one place for each of several questions of one kind, so that a program that is right by
chance on one is found out by the others, and programs with equal vectors are one (observational
equivalence).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pearl.commaqa.agents import Agents, run_hop
from pearl.commaqa.decomposition import Operation, run_operation, transformed
from pearl.commaqa.patterns import Form, Move, fits, forms_of, hop_of, is_empty
from pearl.lang.ast import Mode
from pearl.lang.builtins import BuiltinError
from pearl.lang.values import Pairs, Value, as_text, canonical_json, to_json
from pearl.run.executor import Item


class CachingAgents(Agents):
    """Agents that are asked each question once; `calls` counts what they were really asked."""

    def __init__(self, agents: Agents) -> None:
        super().__init__(agents.world)
        self.agents = agents
        self.forms = forms_of(agents.world.language)
        self._answers: dict[tuple[str, str], Value | None] = {}

    def ask(self, agent: str, question: str) -> Value | None:
        key = (agent, question)
        if key not in self._answers:
            self.calls += 1
            self._answers[key] = self.agents.ask(agent, question)
        return self._answers[key]

    def ask_any(self, form: Form, arguments: Sequence[str]) -> Value | None:
        """What the first agent that answers a form says; None where none does."""
        question = form.fill(arguments)
        answers = (self.ask(name, question) for name in self.forms.get(form, ()))
        return next((answer for answer in answers if answer is not None), None)


@dataclass(frozen=True, slots=True)
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
        """The hops of the program in order, shared ones once."""
        if self.form is None:
            return ()
        before = dict.fromkeys(step for argument in self.arguments for step in argument.steps)
        return (*before, self)

    @property
    def is_single(self) -> bool:
        """Whether it is one thing everywhere: a number, or a list with one item."""
        return all(
            value is None
            or isinstance(value, int | float | str)
            or (isinstance(value, list) and len(value) == 1)
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
        over = None
        if step.mode is not Mode.PLAIN and step.over is not None:
            over = places[step.over] - number
        over = None if over == first else over
        moves.append(Move(step.mode, step.then, step.form, arguments, over))
    return tuple(moves)


def run_moves(moves: Sequence[Move], case: Case) -> Value | None:
    """The last answer of a program for one question, each hop asked of the agent that answers it.

    Returns:
        None where a hop has no answer, or an empty one.
    """
    answers: list[Value] = []
    for number, move in enumerate(moves, 1):
        if not fits(move, len(case.entities), number - 1):
            return None
        hops = (
            hop_of(move, agent, case.entities, number)
            for agent in case.agents.forms.get(move.form, ())
        )
        tried = (run_hop(hop, answers, case.agents) for hop in hops)
        answer = next((one for one in tried if one is not None and not is_empty(one)), None)
        if answer is None:
            return None
        answers.append(answer)
    return answers[-1]


@dataclass
class Refusals:
    """Which questions were refused for items from where: what agents taught about types.

    Attributes:
        counts: for a form, and the origins and the mode it was asked with, how often it was
            answered and refused.
    """

    counts: dict[tuple[Form, tuple[str, ...]], tuple[int, int]] = field(default_factory=dict)

    def hopeless(self, form: Form, origins: tuple[str, ...]) -> bool:
        """Whether it was refused a few times and never answered."""
        answered, refused = self.counts.get((form, origins), (0, 0))
        return not answered and refused >= 3

    def add(self, form: Form, origins: tuple[str, ...], answered: int, refused: int) -> None:
        """Note what came of asking."""
        before = self.counts.get((form, origins), (0, 0))
        self.counts[form, origins] = before[0] + answered, before[1] + refused


@dataclass
class Bank:
    """All programs over some questions, up to a depth, by the length of their longest chain.

    Args:
        cases: of one kind, a few; terms of a bank of more cases may be asked of the first ones.
        refusals: shared among banks.
        alive: on how many cases a program needs an answer.
    """

    cases: Sequence[Case]
    refusals: Refusals
    alive: int

    def __post_init__(self) -> None:
        self._seen: set[str] = set()
        self.forms = list(dict.fromkeys(form for case in self.cases for form in case.agents.forms))
        self.entities = [
            Term(
                tuple(case.entities[at] for case in self.cases),
                f"{{{at + 1}}} of {self.cases[0].pattern}",
                at + 1,
            )
            for at in range(len(self.cases[0].entities))
        ]

    def first(self) -> Iterator[Term]:
        """Programs of one hop: of entities, and of nothing."""
        for form in self.forms:
            if form.blanks == 0:
                yield from self._asked(form, (), None)
        for term in self.entities:
            yield from self.unary(term)

    def unary(self, term: Term) -> Iterator[Term]:
        """What one more hop makes of a term, with nothing else."""
        for form in self.forms:
            if form.blanks == 1:
                yield from self._asked(form, (term,), term)

    def binary(self, term: Term, other: Term) -> Iterator[Term]:
        """What one more hop makes of two terms; the items are those of the first."""
        for form in self.forms:
            if form.blanks == 2:
                for arguments in ((term, other), (other, term)):
                    yield from self._asked(form, arguments, term)

    def is_new(self, term: Term) -> bool:
        """Whether no term with the same values was seen here; from now on it is seen."""
        key = canonical_json([None if one is None else to_json(one) for one in term.values])
        new = key not in self._seen
        self._seen.add(key)
        return new

    def _asked(self, form: Form, arguments: tuple[Term, ...], over: Term | None) -> Iterator[Term]:
        origins = tuple(argument.origin for argument in arguments)
        ready = sum(
            _all_there([one.values[at] for one in arguments]) for at in range(len(self.cases))
        )
        for mode in _modes(over):
            asked = (*origins, str(mode))
            if self.refusals.hopeless(form, asked):
                continue
            term = Term((), form.phrasings[0], 0, mode, (), form, arguments, over)
            values = self._values(term, ready)
            answered = sum(value is not None for value in values)
            self.refusals.add(form, asked, answered, ready - answered)
            if answered >= self.alive:
                yield from self._transformed(replace(term, values=values))

    def _values(self, term: Term, left: int) -> Values:
        """What a hop gives for each case, given up when too few can be left.

        Args:
            term: the hop.
            left: on how many cases all of its arguments have values.
        """
        values: list[Value | None] = []
        answered = 0
        for at, case in enumerate(self.cases):
            given = [argument.values[at] for argument in term.arguments]
            value = None
            if answered + left >= self.alive and _all_there(given):
                left -= 1
                value = _value(term, case, given)
                answered += value is not None
            values.append(value)
        return tuple(values)

    def _transformed(self, term: Term) -> Iterator[Term]:
        """A term and its transformations, where they leave enough values."""
        mode, over = term.mode, term.over
        changes = _transformations(mode, term.values)
        if mode in _FILTERS and all(map(_are_truths, term.values)):
            assert over is not None
            mode, changes = _FILTERS[mode]
            kept = (
                None if value is None else _filtered(mode, before, value)
                for before, value in zip(over.values, term.values, strict=False)
            )
            term = replace(term, mode=mode, values=tuple(kept))
        for then in changes:
            values = tuple(_changed(value, then) for value in term.values)
            if sum(value is not None for value in values) < self.alive:
                continue
            origin = term.origin
            if mode in (Mode.WHERE, Mode.WHERE_VALUES) and over is not None:
                origin = over.origin
            if "keys" in then and over is not None:
                origin = f"keys of {over.origin}"
            elif any(isinstance(value, Pairs) for value in values):
                origin = f"pairs of {origin}"
            yield replace(term, values=values, then=then, origin=origin)


_OF_LISTS = (("values", "flat", "unique"), ("values", "flat"), ())
_FILTERS = {Mode.EACH: (Mode.WHERE, ((),)), Mode.EACH_VALUES: (Mode.WHERE_VALUES, (("keys",), ()))}
"""What a question of yes or no becomes, and the transformations of that."""


def _all_there(values: Sequence[Value | None]) -> bool:
    return all(value is not None for value in values)


def _modes(over: Term | None) -> tuple[Mode, ...]:
    if over is None or over.form is None:
        return (Mode.PLAIN,)
    value = next(one for one in over.values if one is not None)
    if isinstance(value, Pairs):
        return (Mode.EACH_VALUES,)
    return (Mode.PLAIN, Mode.EACH) if isinstance(value, list) else (Mode.PLAIN,)


def _value(term: Term, case: Case, given: Sequence[Value | None]) -> Value | None:
    """What a hop gives for one case; None for no answer, or an empty one."""
    form = term.form
    assert form is not None
    texts = [as_text(one) for one in given if one is not None]
    mapped = [at for at, argument in enumerate(term.arguments) if argument is term.over]

    def ask(item: Item | None) -> Value | None:
        if item is not None:
            for at in mapped:
                texts[at] = as_text(item.value)
        return case.agents.ask_any(form, texts)

    answer = run_operation(Operation(term.mode), given[mapped[0]] if mapped else None, ask)
    return None if answer is None or is_empty(answer) else answer


def _transformations(mode: Mode, values: Values) -> tuple[tuple[str, ...], ...]:
    value = next((one for one in values if one is not None), None)
    if mode is Mode.PLAIN or not isinstance(value, Pairs):
        return ((),)
    lists = all(isinstance(item, list) for _, item in value)
    if mode is Mode.EACH_VALUES:
        return (("values", "flat", "unique"), ()) if lists else ((), ("values",))
    return _OF_LISTS if lists else ((), ("values",))


def _are_truths(value: Value | None) -> bool:
    return value is None or (
        isinstance(value, Pairs) and all(isinstance(item, bool) for _, item in value)
    )


def _filtered(mode: Mode, before: Value | None, truths: Value) -> Value:
    assert isinstance(truths, Pairs)
    answers = iter(truth for _, truth in truths)
    kept = run_operation(Operation(mode), before, lambda _: next(answers))
    return [] if kept is None else kept


def _changed(value: Value | None, then: Sequence[str]) -> Value | None:
    """A value after transformations; None where it takes none, or nothing is left of it."""
    try:
        changed = None if value is None else transformed(value, then)
    except BuiltinError:
        return None
    return None if changed is None or is_empty(changed) else changed
