"""Rows of the published format, made from a schema and a seed.

A theory asked of a world: words, decomposition, answer, and the facts it rests on.

Answers come from the facts and not from the agents' words; then the same
decomposition is put to the agents, and a question of which the two disagree is
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Any

from pearl.commaqa.agents import Agents, run_hops
from pearl.commaqa.decomposition import Hop, Operation, print_operation, references, run_operation
from pearl.commaqa.schema import HOLE, Ask, Schema
from pearl.commaqa.theories import (
    Call,
    Fact,
    Leaf,
    Made,
    Node,
    Theory,
    agent_of,
    chosen_relations,
    divided,
    filled,
    language_of,
    make_world,
    possible,
    predicate_of,
    theories_of,
)
from pearl.commaqa.world import calculate, read_world
from pearl.lang.ast import Mode
from pearl.lang.source import InputError
from pearl.lang.values import Pairs, Value, as_text, canonical_json, to_json
from pearl.run.binding import Item


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
            return calculate(ask.total, told)
        found = made.facts[ask.relation]
        if told:
            found = tuple(index.get((ask.relation, ask.places.index("$1"), told[0]), ()))
        facts.update(dict.fromkeys((ask.relation, fact) for fact in found))
        wanted: list[Value] = [fact[ask.places.index("?")] for fact in found]
        return list(dict.fromkeys(wanted)) if ask.unique else wanted

    return run_operation(call.operation, answers[call.over - 1] if call.over else None, one)


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


PARTS = ("train", "dev", "test")
"""What a split is divided into; each has worlds of its own."""

_DRAWS = 8
_WORLDS = 200


@dataclass(frozen=True, slots=True)
class _Told:
    """What decides a file."""

    schema: Schema
    split: str
    part: str
    seed: int

    @property
    def seeds(self) -> str:
        return f"{self.schema.name}/{self.split}/{self.part}/{self.seed}"


@dataclass(frozen=True, slots=True)
class _World:
    """A world that is asked questions.

    Args:
        taken: the kind and the things of each question so far.
    """

    schema: Schema
    made: Made
    index: Index
    agents: Agents
    random: Random
    turns: Turns
    taken: set[tuple[int, tuple[str, ...]]]

    def ask(self, number: int, theory: Theory) -> Asked | Refused:
        """A new question of a kind, or why there is none."""
        last = Refused("its kinds have too few things")
        for _ in range(_DRAWS):
            things = draw_things(theory, self.made, self.random)
            if things is None:
                break
            if (number, things) in self.taken:
                last = Refused("it has too few things to ask about")
                continue
            asked = asked_of(
                theory, things, self.made, self.index, self.agents, self.schema, self.turns
            )
            if isinstance(asked, Asked):
                self.taken.add((number, things))
                return asked
            last = asked
        return last


def generate(
    schema: Schema, split: str, part: str, seed: int, questions: int
) -> Iterator[dict[str, Any]]:
    """Worlds with questions, one row each; the same arguments give the same rows.

    The kinds of questions come in turns, and so do the ways to say each part.

    Args:
        schema: what worlds and questions are made of.
        split: ``iid``, or one of the schema's.
        part: one of `PARTS`. In a split that holds pairs out, ``test`` has
            questions with such a pair, and ``train`` and ``dev`` have none.
        seed: any number.
        questions: how many, over all rows.

    Raises:
        InputError: the schema gives no such questions; names the place.
    """
    told = _Told(schema, split, part, seed)
    both = divided(schema, split, theories_of(schema))
    theories = both.test if part == PARTS[-1] else both.train
    random = Random(told.seeds)  # noqa: S311 - data, not secrets
    turns = Turns(random)
    fruitful: set[int] = set()
    waiting: list[int] = []
    number = done = 0
    while done < questions:
        waiting = waiting or random.sample(range(len(theories)), len(theories))
        first = waiting[0]
        world = _drawn(schema, theories[first], random, turns)
        asked = _asked(world, theories, waiting, min(schema.limits.questions, questions - done))
        fruitful |= asked.keys()
        if waiting[:1] == [first]:
            # Another world may do for it; the others should not wait for that.
            waiting.append(waiting.pop(0))
            if first not in fruitful:
                _check_fruitful(told, theories[first])
                fruitful.add(first)
        made = [one for several in asked.values() for one in several]
        if made:
            number += 1
            done += len(made)
            yield _row(told, world.made, made, number)


def _check_fruitful(told: _Told, theory: Theory) -> None:
    """Make sure that some world gives a question of a kind.

    Raises:
        InputError: none of many does; says why the last did not.
    """
    schema = told.schema
    random = Random(f"{told.seeds}/{theory.name}")  # noqa: S311 - data, not secrets
    last = Refused("no world has one way alone for each of its pieces")
    for _ in range(_WORLDS):
        world = _drawn(schema, theory, random, Turns(random))
        if possible(theory, frozenset(world.made.facts), schema):
            found = world.ask(0, theory)
            if isinstance(found, Asked):
                return
            last = found
    raise InputError(
        f"{schema.path}: {_WORLDS} worlds gave no question of the kind {theory.name}: "
        f"{last.reason}."
    )


def _drawn(schema: Schema, theory: Theory, random: Random, turns: Turns) -> _World:
    """A world that a theory can be asked of."""
    made = make_world(schema, chosen_relations(theory, schema, random), random)
    data = {"kb": _facts(made), "pred_lang_config": language_of(made, schema), "qa_pairs": []}
    agents = Agents(read_world(data, schema.path, schema.name))
    return _World(schema, made, index_of(made), agents, random, turns, set())


def _asked(
    world: _World, theories: Sequence[Theory], waiting: list[int], wanted: int
) -> dict[int, list[Asked]]:
    """Questions for a world: first what waits, which then waits no more; then anything.

    Returns:
        The questions, by the number of their theory.
    """
    relations = frozenset(world.made.facts)
    open_ones = [
        number
        for number, theory in enumerate(theories)
        if possible(theory, relations, world.schema)
    ]
    world.random.shuffle(open_ones)
    places = {number: place for place, number in enumerate(waiting)}
    open_ones.sort(key=lambda number: places.get(number, len(places)))
    asked: dict[int, list[Asked]] = {}
    left = wanted
    while open_ones and left:
        number = open_ones.pop(0)
        found = world.ask(number, theories[number])
        if isinstance(found, Asked):
            left -= 1
            asked.setdefault(number, []).append(found)
            open_ones.append(number)
            if number in waiting:
                waiting.remove(number)
    return asked


def _facts(made: Made) -> dict[str, list[str]]:
    return {
        f"{made.agents[relation]}_{relation}": [made.written(relation, fact) for fact in facts]
        for relation, facts in made.facts.items()
    }


def _row(told: _Told, made: Made, asked: Sequence[Asked], number: int) -> dict[str, Any]:
    sentences = {
        made.written(relation, fact): made.sentences[relation, fact]
        for relation, facts in made.facts.items()
        for fact in facts
    }
    return {
        "kb": _facts(made),
        "context": " ".join(sentences.values()),
        "per_fact_context": sentences,
        "pred_lang_config": language_of(made, told.schema),
        "qa_pairs": [
            _question(told, made, one, f"{told.seeds}/{number}/{at}")
            for at, one in enumerate(asked, 1)
        ],
        "generated": {
            "schema": told.schema.name,
            "split": told.split,
            "part": told.part,
            "seed": told.seed,
            "held_out": [list(pair) for pair in told.schema.splits[told.split]],
        },
    }


def _question(told: _Told, made: Made, asked: Asked, name: str) -> dict[str, Any]:
    things = {f"${at}": thing for at, thing in enumerate(asked.things, 1)}
    answers = [_recorded(answer) for answer in asked.answers]
    text = filled(asked.pattern, asked.things)
    calls = asked.theory.calls
    held = set(told.schema.splits[told.split])
    return {
        "id": blake2b(f"{name} {text}".encode(), digest_size=8).hexdigest(),
        "question": text,
        "answer": answers[-1],
        "assignment": {**things, **{f"#{at}": one for at, one in enumerate(answers, 1)}},
        "config": {
            "steps": [_step(told.schema, call, at) for at, call in enumerate(calls, 1)],
            "questions": [asked.pattern],
            "init": dict(zip(things, asked.theory.leaves, strict=True)),
        },
        "decomposition": [
            {"m": hop.agent, "q": hop.question, "a": answer, "op": hop.operator}
            for hop, answer in zip(asked.hops, answers, strict=True)
        ],
        "facts_used": [made.written(relation, fact) for relation, fact in asked.facts],
        "theory": asked.theory.name,
        "pairs": [list(pair) for pair in asked.theory.pairs],
        "held_out": [list(pair) for pair in asked.theory.pairs if pair in held],
    }


def _step(schema: Schema, call: Call, number: int) -> dict[str, str]:
    told = [f"${-one}" if one < 0 else f"#{one}" for one in call.arguments]
    question = predicate_of(schema.asks[call.ask], told)
    return {
        "operation": operator_of(call, question),
        "question": question,
        "answer": f"#{number}",
    }


def _recorded(value: Value) -> Any:  # noqa: ANN401 - any JSON
    """A value as the published files write it: pairs are lists of two."""
    if isinstance(value, list | Pairs):
        return [
            [_recorded(part) for part in one] if isinstance(one, tuple) else _recorded(one)
            for one in value
        ]
    return value
