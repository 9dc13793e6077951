"""Rows of the published format, made from a schema and a seed."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from random import Random
from typing import Any, NamedTuple

from pearl.agents import Agents, read_world
from pearl.generating.questions import (
    Asked,
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


class _Told(NamedTuple):
    """What decides a file."""

    schema: Schema
    split: str
    part: str
    seed: int


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
    random = Random(f"{schema.name}/{split}/{part}/{seed}")  # noqa: S311 - data, not secrets
    turns = Turns(random)
    failed: dict[Theory, int] = {}
    waiting: list[Theory] = []
    number = done = 0
    while done < questions:
        waiting = waiting or random.sample(theories, len(theories))
        first = waiting[0]
        made = make_world(schema, chosen_relations(first, schema, random), random)
        world = _World(schema, made, random, turns)
        wanted = min(schema.limits.questions, questions - done)
        asked = world.ask(waiting, theories, wanted)
        reason = world.refused.get(first, "")
        if reason:
            waiting.append(waiting.pop(0))
            failed[first] = failed.get(first, 0) + 1
            if failed[first] >= _WORLDS:
                raise InputError(f"{schema.path}: no world gives {first.name}: {reason}.")
        elif first not in world.refused:
            failed[first] = -(10**9)
        if asked:
            number += 1
            done += len(asked)
            yield _row(told, made, asked, number)
