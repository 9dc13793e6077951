"""Schemas: what worlds and questions are generated from (docs/generating.md).

CommaQA (Khot et al., 2022, section 4) makes questions from theories: a theory says which relations
a question goes through, and is asked of possible worlds. Here a theory is composed of pieces, which
carry both words and steps, so that the question and its decomposition grow together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pearl.commaqa.decomposition import Operation

SLOT = re.compile(r"\$([0-9]+)")
HOLE = re.compile(r"\{([0-9]+)\}")

QUESTION = "question"
"""The value of ``gives`` for a piece that is a whole question."""

IID = "iid"
"""The split that holds nothing out; every schema has it."""


@dataclass(frozen=True, slots=True)
class EntityType:
    """A kind of thing, whose name in the schema is also the type in the agents' language.

    Args:
        pool: every name or number that a world may have.
        count: how many of them each world has.
    """

    pool: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Relation:
    """Facts of one form, as ``composed(song, person)``; a world's predicate is ``agent_name``.

    Args:
        kinds: the kinds of the things at its two places.
        each: the fewest and the most facts for each thing at the first place.
        says: for each agent that may know it, the ways to write a fact, with ``$1`` and ``$2``.
    """

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
        relation: the relation that it looks up; empty for arithmetic.
        places: for each place of the relation, ``?``, ``$1`` or ``_``.
        unique: whether repeated answers are dropped.
        agent: the agent that does arithmetic; empty for a look-up, which the relation's agent does.
        total: the arithmetic operation, as ``max``; empty for a look-up.
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
        ask: the name of the ask.
        operation: its operator; None for ``select`` where it is asked of a thing, and for
            ``project_values_flat_unique`` where it is asked of an answer.
        arguments: a number above 0 is an earlier step of the piece (1 is the first), one below 0
            is a hole (-1 is the first).
    """

    ask: str
    operation: Operation | None
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a piece for another piece that gives one of these, or a thing of these kinds."""

    gives: tuple[str, ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuestionPart:
    """A piece of a question, with the steps that find what it refers to.

    Args:
        name: its name.
        gives: the name by which holes ask for it; `QUESTION` for a whole question.
        holes: the holes in it, ``{1}`` first.
        words: the ways to word it, with ``{1}`` …
        ways: the alternative lists of steps that may answer it; a world in which it is asked has
            the relations of only one of them. A list without steps stands for the piece's hole.
    """

    name: str
    gives: str
    holes: tuple[Hole, ...]
    words: tuple[str, ...]
    ways: tuple[tuple[PartStep, ...], ...]


Pair = tuple[str, str]
"""Two asks, of which the second is asked about the answer of the first."""


@dataclass(frozen=True, slots=True)
class Split:
    """How a split divides the kinds of questions.

    Args:
        held_out: pairs that no training question has, and every test question has one of.
        kinds: the only kinds of training and development questions; empty for all.
        test: the only kinds of test questions; empty for those of training.
    """

    held_out: tuple[Pair, ...] = ()
    kinds: tuple[str, ...] = ()
    test: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorldSchema:
    """A schema, as its file defines it; mappings are by name.

    Args:
        path: the file, for messages.
        name: the schema's name.
        steps: the fewest and the most steps of a question.
        answers: the fewest and the most items of an answer that is a list.
        questions: the most questions of one world.
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
