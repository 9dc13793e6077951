"""Programs over a few questions at once, shortest first.

The search for decompositions that explain answers builds values from values,
bottom-up: entities of the question, what agents say of them, what they say of
that, and so on. A program's value is a vector with one place for each of
several questions of one kind, so that a program that is right by chance on one
is found out by the others, and programs with equal vectors are one
(observational equivalence).

Programs of hops with their values, and the questions that they are to explain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pearl.commaqa.agents import Agents, run_hop
from pearl.commaqa.decomposition import Hop, Operation, carried_out
from pearl.commaqa.model import Form, Move, fits, forms_of, hop_of, is_empty, who_answers
from pearl.lang.ast import Mode, Ref
from pearl.lang.builtins import FUNCTIONS, BuiltinError, Given
from pearl.lang.values import Pairs, Value, as_text, canonical_json, to_json
from pearl.run.binding import Item


class CachingAgents(Agents):
    """Agents that are asked each question once; what they said is kept.

    `calls` counts the questions that were really asked.
    """

    def __init__(self, agents: Agents) -> None:
        super().__init__(agents.world)
        self.agents = agents
        self.forms = forms_of(agents.world)
        self._said: dict[tuple[str, str], Value | None] = {}

    def ask(self, agent: str, question: str) -> Value | None:
        key = (agent, question)
        if key not in self._said:
            self.calls += 1
            self._said[key] = self.agents.ask(agent, question)
        return self._said[key]

    def answer(self, form: Form, arguments: Sequence[str]) -> Value | None:
        """What the first agent that answers a form says; None where none does."""
        found = who_answers(form, arguments, self, self.forms.get(form, ()))
        return found[1] if found else None


@dataclass(frozen=True, slots=True)
class Case:
    """A question whose answer is known, and nothing else of it.

    Args:
        pattern: its text with holes.
        entities: what stands in the holes.
        text: in words.
        answer: what is recorded.
        agents: of its world.
    """

    pattern: str
    entities: tuple[str, ...]
    text: str
    answer: Value
    agents: CachingAgents


Values: TypeAlias = "tuple[Value | None, ...]"
"""A value for each case; None where a program has no answer, or an empty one."""


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """A program and its values.

    Args:
        values: one for each case.
        made: how it is asked, its form, and what fills it; None for an entity.
        entity: its number, from 1, for a term that is one.
        origin: where the items come from, as a word for types.
    """

    values: Values
    made: Made | None = None
    entity: int = 0
    origin: str = ""

    @property
    def steps(self) -> tuple[Term, ...]:
        """The hops of the program in order, shared ones once."""
        found: dict[int, Term] = {}
        _collect(self, found)
        return tuple(found.values())


@dataclass(frozen=True, eq=False, slots=True)
class Made:
    """How a term is made: what is asked, for what, and what becomes of the answers."""

    mode: Mode
    then: tuple[str, ...]
    form: Form
    arguments: tuple[Term, ...]
    over: Term | None


def _collect(term: Term, found: dict[int, Term]) -> None:
    if term.made is None or id(term) in found:
        return
    for argument in term.made.arguments:
        _collect(argument, found)
    found[id(term)] = term


def moves_of(term: Term) -> tuple[Move, ...]:
    """A program as moves."""
    steps = term.steps
    places = {id(step): number for number, step in enumerate(steps, 1)}
    moves = []
    for number, step in enumerate(steps, 1):
        made = step.made
        assert made is not None
        arguments = tuple(
            one.entity if one.made is None else places[id(one)] - number for one in made.arguments
        )
        earlier = [one for one in _asked_order(made.form, arguments) if one < 0]
        over = None
        if made.mode is not Mode.PLAIN and made.over is not None:
            over = places[id(made.over)] - number
        first = earlier[:1]
        moves.append(
            Move(made.mode, made.then, made.form, arguments, None if over in first else over)
        )
    return tuple(moves)


def _asked_order(form: Form, arguments: Sequence[int]) -> list[int]:
    return [arguments[place] for place in form.orders[0]]


def hops_of(moves: Sequence[Move], case: Case) -> tuple[tuple[Hop, ...], Value] | None:
    """A program as the hops of one question, each asked of the agent that answers it.

    Returns:
        The hops and the last one's answer; None where a hop has no answer, or an empty one.
    """
    hops: list[Hop] = []
    answers: list[Value] = []
    for number, move in enumerate(moves, 1):
        if not fits(move, len(case.entities), number - 1):
            return None
        for agent in case.agents.forms.get(move.form, ()):
            hop = hop_of(move, agent, case.entities, number)
            answer = run_hop(hop, answers, case.agents)
            if answer is not None and not is_empty(answer):
                hops.append(hop)
                answers.append(answer)
                break
        else:
            return None
    return tuple(hops), answers[-1]


_OF_LISTS = (("values", "flat", "unique"), ("values", "flat"), ())
_OF_SINGLE = ((), ("values",))
_TRUTHS = {Mode.EACH: (Mode.WHERE, ((),)), Mode.EACH_VALUES: (Mode.WHERE_VALUES, (("keys",), ()))}


@dataclass
class Types:
    """Which questions were refused for items from where: what agents taught about types.

    Attributes:
        told: for a form, a blank and an origin, how often it was answered and refused.
    """

    told: dict[tuple[Form, tuple[str, ...]], list[int]] = field(default_factory=dict)
    enough: int = 3

    def hopeless(self, form: Form, origins: tuple[str, ...]) -> bool:
        """Whether it was refused a few times and never answered."""
        answered, refused = self.told.get((form, origins), (0, 0))
        return not answered and refused >= self.enough

    def learn(self, form: Form, origins: tuple[str, ...], *, answered: int, refused: int) -> None:
        """Take down what came of asking."""
        count = self.told.setdefault((form, origins), [0, 0])
        count[0] += answered
        count[1] += refused


@dataclass
class Bank:
    """All programs over some questions, up to a depth, by the length of their longest chain.

    Args:
        cases: of one kind, a few.
        types: shared among banks.
        alive: on how many cases a program needs an answer.
    """

    cases: Sequence[Case]
    types: Types
    alive: int

    def __post_init__(self) -> None:
        self._seen: set[str] = set()
        self.forms = list(dict.fromkeys(form for case in self.cases for form in case.agents.forms))
        case = self.cases[0]
        self.entities = [
            Term(
                tuple(one.entities[at] for one in self.cases),
                None,
                at + 1,
                f"{{{at + 1}}} of {case.pattern}",
            )
            for at in range(len(case.entities))
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

    def _asked(self, form: Form, arguments: tuple[Term, ...], over: Term | None) -> Iterator[Term]:
        origins = tuple(argument.origin for argument in arguments)
        for mode in _modes(over):
            asked = (*origins, str(mode))
            if self.types.hopeless(form, asked):
                continue
            values = self._values(mode, form, arguments, over)
            answered = sum(value is not None for value in values)
            whole = sum(
                all(one.values[at] is not None for one in arguments)
                for at in range(len(self.cases))
            )
            self.types.learn(form, asked, answered=answered, refused=whole - answered)
            if answered >= self.alive:
                yield from self._changed(Made(mode, (), form, arguments, over), values)

    def _values(
        self, mode: Mode, form: Form, arguments: tuple[Term, ...], over: Term | None
    ) -> Values:
        """What a hop gives for each case, given up when too few can be left."""
        found: list[Value | None] = []
        left = sum(all(one.values[at] is not None for one in arguments)
                   for at in range(len(self.cases)))  # fmt: skip
        answered = 0
        for at, case in enumerate(self.cases):
            given = [argument.values[at] for argument in arguments]
            if answered + left < self.alive or any(one is None for one in given):
                found.append(None)
                continue
            left -= 1
            value = _one(case, mode, form, arguments, over, given)
            found.append(value)
            answered += value is not None
        return tuple(found)

    def _changed(self, made: Made, values: Values) -> Iterator[Term]:
        """The term itself and its transformations, without those that are known."""
        mode, changes = made.mode, _transformations(made.mode, values)
        if mode in _TRUTHS and all(_are_truths(value) for value in values):
            mode, changes = _TRUTHS[mode]
            assert made.over is not None
            values = tuple(
                None if value is None else _kept(mode, before, value)
                for before, value in zip(made.over.values, values, strict=False)
            )
        for then in changes:
            changed = tuple(None if value is None else _after(value, then) for value in values)
            alive = tuple(None if one is None or is_empty(one) else one for one in changed)
            if sum(one is not None for one in alive) < self.alive:
                continue
            origin = made.form.phrasings[0]
            if mode in (Mode.WHERE, Mode.WHERE_VALUES) and made.over is not None:
                origin = made.over.origin
            if "keys" in then and made.over is not None:
                origin = f"keys of {made.over.origin}"
            elif any(isinstance(one, Pairs) for one in alive):
                origin = f"pairs of {origin}"
            yield Term(alive, Made(mode, then, made.form, made.arguments, made.over), 0, origin)

    def is_new(self, term: Term) -> bool:
        """Whether no term with the same values was seen here; from now on it is seen."""
        key = canonical_json([None if one is None else to_json(one) for one in term.values])
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


def _modes(over: Term | None) -> tuple[Mode, ...]:
    if over is None or over.made is None:
        return (Mode.PLAIN,)
    value = next(one for one in over.values if one is not None)
    if isinstance(value, Pairs):
        return (Mode.EACH_VALUES,)
    return (Mode.PLAIN, Mode.EACH) if isinstance(value, list) else (Mode.PLAIN,)


def _one(
    case: Case,
    mode: Mode,
    form: Form,
    arguments: tuple[Term, ...],
    over: Term | None,
    given: Sequence[Value | None],
) -> Value | None:
    texts = [as_text(one) for one in given if one is not None]
    mapped = [at for at, argument in enumerate(arguments) if argument is over]

    def ask(item: Item | None) -> Value | None:
        if item is not None:
            for at in mapped:
                texts[at] = as_text(item.value)
        return case.agents.answer(form, texts)

    value = given[mapped[0]] if mapped else None
    answer = carried_out(Operation(mode), value, ask)
    return None if answer is None or is_empty(answer) else answer


def _transformations(mode: Mode, values: Values) -> tuple[tuple[str, ...], ...]:
    value = next((one for one in values if one is not None), None)
    if mode is Mode.PLAIN or not isinstance(value, Pairs):
        return ((),)
    lists = all(isinstance(item, list) for _, item in value)
    if mode is Mode.EACH_VALUES:
        return (("values", "flat", "unique"), ()) if lists else ((), ("values",))
    return _OF_LISTS if lists else _OF_SINGLE


def _are_truths(value: Value | None) -> bool:
    return value is None or (
        isinstance(value, Pairs) and all(isinstance(item, bool) for _, item in value)
    )


def _kept(mode: Mode, before: Value | None, truths: Value) -> Value:
    assert isinstance(truths, Pairs)
    answers = iter(truth for _, truth in truths)
    kept = carried_out(Operation(mode), before, lambda _: next(answers))
    return [] if kept is None else kept


def _after(value: Value, then: Sequence[str]) -> Value | None:
    try:
        for change in then:
            value = FUNCTIONS[change]([Given(Ref("value"), value)])
    except BuiltinError:
        return None
    return value
