"""Which sub-questions are asked: none that is the question again (REBEL, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pearl.embedding import Embed, cosine

NEAR = 0.98
"""The cosine above which two questions are one."""

Why: TypeAlias = Literal["parent", "behind", "answered", "width"]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A sub-question that is not asked.

    Args:
        question: its text.
        why: ``parent`` where it is a question that it is to be a part of, ``behind`` where it
            comes after such a one, ``answered`` where it is asked already, ``width`` where there
            are too many.
    """

    question: str
    why: Why


@dataclass(frozen=True, slots=True)
class Parts:
    """The sub-questions of a question.

    Args:
        kept: those that are asked, in order.
        dropped: the others, in order.
    """

    kept: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()


async def sifted(
    found: Sequence[str],
    above: Sequence[str],
    answered: Sequence[str],
    width: int,
    embed: Embed,
) -> Parts:
    """Keep the sub-questions that bring a question further.

    One that is nearer than `NEAR` to its question, or to one that this is a
    part of, is dropped and ends splitting: what comes after it was to build on
    the answer.

    Args:
        found: as the model wrote them.
        above: the questions they are to be parts of; the last is the one that was split.
        answered: questions whose answers are known.
        width: how many are kept, at most.
        embed: tells whether two questions are the same.

    Raises:
        ModelError: there are no vectors.
    """
    if not found:
        return Parts()
    vectors = await embed([*above, *answered, *found])
    parents, rest = vectors[: len(above)], vectors[len(above) :]
    known, own = rest[: len(answered)], rest[len(answered) :]
    kept: list[str] = []
    dropped: list[Dropped] = []
    for at, (question, vector) in enumerate(zip(found, own, strict=True)):
        if _near(vector, parents):
            dropped.append(Dropped(question, "parent"))
            dropped += [Dropped(one, "behind") for one in found[at + 1 :]]
            break
        if _near(vector, known):
            dropped.append(Dropped(question, "answered"))
        elif len(kept) == width:
            dropped.append(Dropped(question, "width"))
        else:
            kept.append(question)
            known = [*known, vector]
    return Parts(tuple(kept), tuple(dropped))


def _near(vector: Sequence[float], others: Iterable[Sequence[float]]) -> bool:
    return any(cosine(vector, other) > NEAR for other in others)
