"""Agents that answer questions over a world, exactly and in their own language alone.

In CommaQA an agent knows some facts and answers the questions of its
templates for its valid inputs. Anything else has no answer.

Agents as solvers, so that plans can ask them.

Decompositions run on agents without a plan, as search does it many times a second.

The question becomes the same template that `pearl.agents.text` puts in a plan,
and is filled by `pearl.runtime.bind`: what runs here and what the executor runs
cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from pearl.commaqa.decomposition import Hop, HopError, Operation, asked, carried_out, name_of
from pearl.commaqa.world import Fact, Lookup, Reading, World, reckoned
from pearl.lang.ast import Arg, Ref, refs
from pearl.lang.builtins import Given
from pearl.lang.values import Value, as_text
from pearl.run.binding import Item, value_of
from pearl.run.executor import Handlers, Solve, SolverError


class NoAnswer(Exception):  # noqa: N818 - the paper's words for it
    """A question that the agent does not answer: not its language, or not a valid input."""


class Agents:
    """The agents of one world.

    Args:
        world: the facts and the agents' templates.

    Attributes:
        calls: how many questions were asked, answered or not.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls = 0

    def ask(self, agent: str, question: str) -> Value | None:
        """The answer to one question.

        A valid input about which no fact is known has the empty list for an
        answer. A question that two templates read counts as the one that
        finds facts; where both do, and they differ, it has no answer.

        Args:
            agent: the agent's name, as ``table``.
            question: in the agent's language, earlier answers filled in.

        Returns:
            A list of entities, a number or a truth value; None for "no answer".
        """
        self.calls += 1
        found: list[Value] = []
        for reading in self.world.language.readings(agent, question):
            answer = self._answer(reading)
            if answer is not None and answer not in found:
                found.append(answer)
        told = [answer for answer in found if answer != []]
        if len(told) > 1:
            return None
        return next(iter(told or found), None)

    def _answer(self, reading: Reading) -> Value | None:
        template, arguments = reading
        if not template.lookups:
            return reckoned(template.predicate, arguments)
        known = {}
        for (slot, kind), words in zip(template.inputs, arguments, strict=True):
            if words not in self.world.entities.get(kind, ()):
                return None
            known[slot] = words
        answers: list[Value] = []
        for lookup in template.lookups:
            answer = self._looked_up(lookup, known, answers)
            if answer is None:
                return None
            answers.append(answer)
        return answers[-1]

    def _looked_up(
        self, lookup: Lookup, known: Mapping[str, str], answers: Sequence[Value]
    ) -> Value | None:
        """One step of a template, for the whole or for the items of an earlier answer."""
        earlier = {f"#{number}": answer for number, answer in enumerate(answers, 1)}
        # An operator that goes over items has one place with an answer in it.
        over = next((place for place in lookup.places if place.startswith("#")), "")

        def ask(item: Item | None) -> Value:
            fills = {**known, **{name: as_text(answer) for name, answer in earlier.items()}}
            if item is not None:
                fills[over] = as_text(item.value)
            places = [fills.get(place, place) for place in lookup.places]
            wanted = places.index("?")
            return [fact[wanted] for fact in self._facts(lookup.predicate, places)]

        return carried_out(lookup.operation, earlier.get(over), ask)

    def _facts(self, predicate: str, places: Sequence[str]) -> Iterator[Fact]:
        fixed = [(at, told) for at, told in enumerate(places) if told not in ("?", "_")]
        candidates = self.world.facts.get(predicate, ())
        if fixed:
            at, told = fixed[0]
            candidates = self.world.index.get((predicate, at), {}).get(told, ())
        for fact in candidates:
            if len(fact) == len(places) and all(fact[at] == told for at, told in fixed):
                yield fact


def solver(agents: Agents) -> Callable[[str, str], Value]:
    """A function that asks, for those who take no answer as an error.

    Returns:
        ``(agent, question) -> answer``; it raises `NoAnswer` where there is none.
    """

    def ask(agent: str, question: str) -> Value:
        answer = agents.ask(agent, question)
        if answer is not None:
            return answer
        known = ", ".join(agents.world.language.agents)
        if agent not in agents.world.language.agents:
            raise NoAnswer(f"There is no agent {agent}: ask {known}.")
        raise NoAnswer(f'The agent {agent} has no answer to "{" ".join(question.split())[:120]}".')

    return ask


def handlers(agents: Agents) -> Handlers:
    """What a run is handed so that its steps can ask a world's agents.

    Args:
        agents: the agents; the actions that ask them have ``body: solver`` and
            the agent's name.
    """
    names = agents.world.language.agents
    return Handlers(MappingProxyType({name: _solver(agents, name) for name in names}))


def _solver(agents: Agents, name: str) -> Solve:
    async def solve(path: str, given: Sequence[Given]) -> Value:
        del path
        question = as_text(given[0].value)
        answer = agents.ask(name, question)
        if answer is None:
            raise SolverError("no-answer", f"The agent {name} has no answer to: {question[:80]}")
        return answer

    return solve


def run_hops(hops: Iterable[Hop], agents: Agents) -> list[Value]:
    """The answers ``#1`` … ``#n``; fewer where a hop has no answer, which ends it.

    Args:
        hops: a decomposition.
        agents: who is asked.
    """
    answers: list[Value] = []
    for hop in hops:
        answer = run_hop(hop, answers, agents)
        if answer is None:
            break
        answers.append(answer)
    return answers


def run_hop(hop: Hop, answers: Sequence[Value], agents: Agents) -> Value | None:
    """One hop's answer, given the answers before it; None for "no answer".

    A hop that cannot be asked has none: an unknown operator, an answer that is
    not there yet, a value of another kind than the operator goes over.
    """
    read = _read(hop.operator, hop.question)
    if read is None:
        return None
    operation, question, names, over = read
    values = {name_of(number): answer for number, answer in enumerate(answers, 1)}
    if not all(name in values for name in names):
        return None

    def ask(item: Item | None) -> Value | None:
        filled = value_of(question, values, item)
        return agents.ask(hop.agent, filled) if isinstance(filled, str) else None

    return carried_out(operation, values[over] if over else None, ask)


@lru_cache(maxsize=65536)
def _read(operator: str, question: str) -> tuple[Operation, Arg, tuple[str, ...], str] | None:
    """What a hop does, its question, the answers it names, and the one it goes over."""
    try:
        operation, argument = asked(Hop(operator, "", question))
    except HopError:
        return None
    named = list(refs(argument))
    over: Ref | None = next((ref for ref in named if ref.mode), None)
    return operation, argument, tuple(ref.name for ref in named), over.name if over else ""
