"""CommaQA: questions that agents answer together over synthetic worlds.

Khot et al., "Hey AI, Can You Solve Complex Tasks by Talking to Agents?",
Findings of ACL 2022.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pearl.commaqa.scoring import exact_match, f1
from pearl.commaqa.world import read_worlds
from pearl.evaluate.datasets.base import Dataset, Example, label
from pearl.lang.source import Source
from pearl.lang.values import Value, canonical_json, from_json, to_json


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file of worlds, a world a line; what is known of its world goes with it.

    Gold decompositions are left out: a method has the agents, and not the way. The facts that an
    answer rests on stay, for the baseline that reads them.
    """
    for number, world in enumerate(read_worlds(path), 1):
        questions = (replace(question, hops=(), answers=()) for question in world.questions)
        bare = replace(world, questions=tuple(questions))
        document = Source(f"world {number}", world.context)
        for at, question in enumerate(world.questions, 1):
            yield Example(
                f"{number}.{at}",
                question.text,
                document,
                gold=canonical_json(to_json(question.answer)),
                labels=label("theory", question.theory),
                data=bare,
            )


def score(example: Example, answer: str) -> float:
    """1 where the answer has the gold spans and no others, in any order; else 0."""
    return float(exact_match(_value(answer), _value(example.gold)))


def measures(example: Example, answer: str) -> Mapping[str, float]:
    """F1 over spans, beside the exact match."""
    value, gold = _value(answer), _value(example.gold)
    return {"exact_match": float(exact_match(value, gold)), "f1": f1(value, gold)}


def _value(text: str) -> Value:
    """A value as JSON, or a text as it stands."""
    try:
        return from_json(json.loads(text))
    except (ValueError, RecursionError):
        return text


DATASET = Dataset(
    "commaqa",
    "CommaQA",
    read,
    score,
    "https://github.com/allenai/commaqa, or pearl generate commaqa",
    ("tmn",),
    measures=measures,
    libraries=("commaqa",),
    demonstrations="commaqa",
)
