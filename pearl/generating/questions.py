"""A theory asked of a world: words, decomposition, answer, and the facts it rests on.

Answers come from the facts and not from the agents' words; then the same
decomposition is put to the agents, and a question of which the two disagree is
none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from pearl.agents import Agents, Hop, print_operation, run_hops
from pearl.agents.hops import Operation, references
from pearl.agents.operators import carried_out
from pearl.agents.sums import reckoned
from pearl.generating.parts import HOLE
from pearl.generating.schema import Ask, Schema
from pearl.generating.theories import Call, Leaf, Node, Theory
from pearl.generating.worlds import Fact, Made, agent_of, filled
from pearl.plan import Mode
from pearl.runtime.bind import Item
from pearl.values import Pairs, Value, as_text, canonical_json, to_json


class Turns:
    """Takes the ways to say a thing in turns, so that none is left out for long."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._left: dict[str, list[str]] = {}

    def next(self, name: str, options: Sequence[str]) -> str:
        """One of the options; each comes once before any comes again.

        Args:
            name: what is said, which has its own turns.
            options: the ways to say it.
        """
        left = self._left.setdefault(name, [])
        if not left:
            left += self._random.sample(options, len(options))
        return left.pop()


@dataclass(frozen=True, slots=True)
class Asked:
    """A question of a world.

    Args:
        theory: what it is made of.
        pattern: its words, with ``$1`` for things.
        things: what stands there.
        hops: its decomposition.
        answers: what each hop gives; the last is the answer.
        facts: the facts that were looked up, relation and fact.
    """

    theory: Theory
    pattern: str
    things: tuple[str, ...]
    hops: tuple[Hop, ...]
    answers: tuple[Value, ...]
    facts: tuple[tuple[str, Fact], ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a theory gives no question for some things."""

    reason: str


Index = Mapping[tuple[str, int, str], Sequence[Fact]]


def index_of(made: Made) -> Index:
    """The facts of a relation by place (from 0) and the thing that stands there."""
    found: dict[tuple[str, int, str], list[Fact]] = {}
    for relation, facts in made.facts.items():
        for fact in facts:
            for place, thing in enumerate(fact):
                found.setdefault((relation, place, thing), []).append(fact)
    return found


def draw_things(theory: Theory, made: Made, random: Random) -> tuple[str, ...] | None:
    """Things for a theory to name, no two the same; None where there are too few."""
    things: list[str] = []
    for kind in theory.leaves:
        left = [thing for thing in made.things[kind] if thing not in things]
        if not left:
            return None
        things.append(random.choice(left))
    return tuple(things)


def asked_of(
    theory: Theory,
    things: tuple[str, ...],
    made: Made,
    index: Index,
    agents: Agents,
    schema: Schema,
    turns: Turns,
) -> Asked | Refused:
    """Ask a theory about some things.

    Args:
        theory: what is asked.
        things: one for each of the theory's leaves.
        made: the world.
        index: the world's facts, by `index_of`.
        agents: the world's agents.
        schema: where all of it comes from.
        turns: decides the words.
    """
    answers: list[Value] = []
    facts: dict[tuple[str, Fact], None] = {}
    for call in theory.calls:
        answer = _answer(call, things, answers, schema.asks[call.ask], made, index, facts)
        if answer is None or _empty(answer):
            return Refused(f"{call.ask} finds nothing")
        answers.append(answer)
    reason = _unfit(answers[-1], schema)
    if reason:
        return Refused(reason)
    hops = tuple(_hop(call, things, schema.asks[call.ask], made, turns) for call in theory.calls)
    told = run_hops(hops, agents)
    if [_form(one) for one in told] != [_form(one) for one in answers]:
        hop = hops[min(len(told), len(hops) - 1)]
        return Refused(f'[{hop.agent}] answers "{hop.question}" otherwise than the facts')
    pattern, _ = _words(theory.root, turns, 1)
    return Asked(theory, pattern, things, hops, tuple(answers), tuple(facts))


def _form(value: Value) -> str:
    return canonical_json(to_json(value))


def _empty(value: Value) -> bool:
    return isinstance(value, list | Pairs) and not len(value)


def _unfit(answer: Value, schema: Schema) -> str:
    """Why an answer is none to ask for; empty where it is one."""
    fewest, most = schema.limits.answers
    if isinstance(answer, list):
        if not fewest <= len(answer) <= most:
            return f"its answer has {len(answer)} items, and limits.answers is {fewest} to {most}"
        if len(set(map(_form, answer))) < len(answer):
            return "its answer has an item twice"
    elif answer is True or answer is False or not answer:
        return "its answer is 0, yes or no"
    return ""


def _answer(
    call: Call,
    things: Sequence[str],
    answers: Sequence[Value],
    ask: Ask,
    made: Made,
    index: Index,
    facts: dict[tuple[str, Fact], None],
) -> Value | None:
    """What a step gives by the facts alone, which are added to those used."""

    def one(item: Item | None) -> Value | None:
        told: list[str] = []
        for argument in call.arguments:
            value = things[-argument - 1] if argument < 0 else answers[argument - 1]
            if item is not None and argument == call.over:
                value = item.value
            told.append(as_text(value))
        if ask.total:
            return reckoned(ask.total, told)
        found = made.facts[ask.relation]
        if told:
            found = tuple(index.get((ask.relation, ask.places.index("$1"), told[0]), ()))
        facts.update(dict.fromkeys((ask.relation, fact) for fact in found))
        wanted: list[Value] = [fact[ask.places.index("?")] for fact in found]
        return list(dict.fromkeys(wanted)) if ask.unique else wanted

    return carried_out(call.operation, answers[call.over - 1] if call.over else None, one)


def _hop(call: Call, things: Sequence[str], ask: Ask, made: Made, turns: Turns) -> Hop:
    told = [
        things[-argument - 1] if argument < 0 else f"#{argument}" for argument in call.arguments
    ]
    question = filled(turns.next(f"ask {ask.name}", ask.words), told)
    return Hop(operator_of(call, question), agent_of(ask, made), question)


def operator_of(call: Call, question: str) -> str:
    """A call's operator as text; it names its answer where the question names another first."""
    mode = call.operation.mode
    named = mode is not Mode.PLAIN and references(question)[:1] != [call.over]
    return print_operation(Operation(mode, call.over if named else None, call.operation.then))


def _words(node: Node | Leaf, turns: Turns, number: int) -> tuple[str, int]:
    """A node's words, and the number of the next thing."""
    if isinstance(node, Leaf):
        return f"${number}", number + 1
    inner: list[str] = []
    for part in node.parts:
        text, number = _words(part, turns, number)
        inner.append(text)
    words = turns.next(f"piece {node.piece.name}", node.piece.words)
    return HOLE.sub(lambda hole: inner[int(hole[1]) - 1], words), number
