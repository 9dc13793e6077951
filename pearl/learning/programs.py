"""Programs of hops with their values, and the questions that they are to explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pearl.agents import Agents, Hop, run_hop
from pearl.learning.moves import Form, Move, fits, forms_of, hop_of, is_empty, who_answers
from pearl.plan import Mode
from pearl.values import Value


class Remembered(Agents):
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
    agents: Remembered


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
