"""Rows of the published format, made from a schema and a seed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Any

from pearl.agents import Agents, read_world
from pearl.generating.questions import (
    Asked,
    Index,
    Refused,
    Turns,
    asked_of,
    draw_things,
    index_of,
    operator_of,
)
from pearl.generating.schema import Schema
from pearl.generating.theories import Call, Theory, divided, theories_of
from pearl.generating.worlds import (
    Made,
    chosen_relations,
    filled,
    language_of,
    make_world,
    possible,
    predicate_of,
)
from pearl.source import InputError
from pearl.values import Pairs, Value

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
