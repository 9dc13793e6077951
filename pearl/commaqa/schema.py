"""Schemas: what questions are made of (docs/generating.md).

CommaQA (Khot et al., 2022, section 4) makes questions from theories: a theory says which relations
a question goes through, and is asked of possible worlds. Here a theory is put together from
pieces, so that its words and its decomposition grow in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pearl.commaqa.decomposition import Operation

SLOT = re.compile(r"\$([0-9]+)")
HOLE = re.compile(r"\{([0-9]+)\}")

QUESTION = "question"
"""What a piece gives that is a whole question."""

IID = "iid"
"""The split that holds nothing out; every schema has it."""


@dataclass(frozen=True, slots=True)
class EntityType:
    """A kind of thing.

    Args:
        name: its name, which is the type in the agents' language.
        pool: every name or number that some world may have.
        count: how many of them one world has.
    """

    name: str
    pool: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Relation:
    """Facts of one form, as ``composed(song, person)``.

    Args:
        name: its name; a world's predicate is ``agent_name``.
        kinds: what its two places hold.
        each: the fewest and the most facts that a thing at the first place has.
        says: by agent that may know it, the ways to write a fact, with ``$1`` and ``$2``.
    """

    name: str
    kinds: tuple[str, str]
    each: tuple[int, int]
    says: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Ask:
    """One kind of question to an agent.

    Args:
        name: its name.
        words: the ways to ask it, with ``$1`` and ``$2``.
        inputs: the type of each slot.
        relation: whose facts it looks up; empty for arithmetic.
        places: what stands at the relation's places: ``?``, ``$1`` or ``_``.
        unique: whether an answer is given once.
        agent: who is asked arithmetic; empty where a relation's agent is asked.
        total: the operation, as ``max``; empty for a look-up.
    """

    name: str
    words: tuple[str, ...]
    inputs: tuple[str, ...]
    relation: str = ""
    places: tuple[str, ...] = ()
    unique: bool = False
    agent: str = ""
    total: str = ""


@dataclass(frozen=True, slots=True)
class PartStep:
    """One step of a piece.

    Args:
        ask: what is asked.
        operation: how; None for ``select`` of a thing, and else ``project_values_flat_unique``.
        arguments: above 0 an earlier step of the piece (1 is its first), below 0 a hole (-1 is its
            first).
    """

    ask: str
    operation: Operation | None
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hole:
    """What may stand in a piece: pieces that give one of these, and things of these kinds."""

    gives: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuestionPart:
    """A part of a question, with the steps that find what it means.

    Args:
        name: its name.
        gives: what it may stand for; `QUESTION` for a whole question.
        holes: what stands in it, ``{1}`` first.
        words: the ways to say it, with ``{1}`` …
        ways: the steps, where there is more than one way: worlds in which it is asked have the
            relations of one way alone. A way with no steps means what its only hole means.
    """

    name: str
    gives: str
    holes: tuple[Hole, ...]
    words: tuple[str, ...]
    ways: tuple[tuple[PartStep, ...], ...]


Pair = tuple[str, str]
"""Two asks, the second of which is put to the answer of the first."""


@dataclass(frozen=True, slots=True)
class Split:
    """How a split divides the kinds of questions.

    Args:
        held_out: pairs that training must not have; test questions have one at least.
        kinds: the only kinds of training and development questions; empty for any.
        test: the only kinds of test questions; empty for those of training.
    """

    held_out: tuple[Pair, ...] = ()
    kinds: tuple[str, ...] = ()
    test: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorldSchema:
    """A schema as its file says.

    Args:
        path: the file, for messages.
        name: what it is called.
        splits: by name.
        steps: the fewest and the most steps of a question.
        answers: the fewest and the most items of a list that is an answer.
        questions: how many questions one world is asked.
    """

    path: str
    name: str
    kinds: Mapping[str, EntityType]
    relations: Mapping[str, Relation]
    asks: Mapping[str, Ask]
    pieces: Mapping[str, QuestionPart]
    splits: Mapping[str, Split]
    steps: tuple[int, int]
    answers: tuple[int, int]
    questions: int

    def looked_up(self, steps: tuple[PartStep, ...]) -> frozenset[str]:
        """The relations that steps look up."""
        return frozenset(self.asks[step.ask].relation for step in steps) - {""}
