"""What Pearl asks of a model: one type a question, before it becomes words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pearl.library import Library
from pearl.plan import Action, Step
from pearl.source import Source
from pearl.values import Value


@dataclass(frozen=True, slots=True)
class Demonstration:
    """A question and a plan for it, as an example."""

    question: str
    plan: str


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Write a plan for a question (PEARL, section 2.2). The document is not shown."""

    question: str
    library: Library
    demonstrations: tuple[Demonstration, ...] = ()


@dataclass(frozen=True, slots=True)
class CorrectPlan:
    """Mend a plan that the checker rejected (PEARL, section 2.2, self-correction).

    Args:
        write: the call that was answered.
        reply: the rejected reply, to the letter.
        complaint: the findings, rendered for a model.
    """

    write: WritePlan
    reply: str
    complaint: str


@dataclass(frozen=True, slots=True)
class ExecuteStep:
    """Carry out one step on the document (PEARL, section 2.3).

    Args:
        document: the document, or None for a step that does not take it.
        action: the action the step calls.
        step: the step as written.
        arguments: parameter names and the values they have, in order,
            without the document.
        omitted: the share of the document that is left out of ``document``:
            0 where it is whole, 0.75 where it is a quarter of it.
    """

    document: Source | None
    action: Action
    step: Step
    arguments: tuple[tuple[str, Value], ...]
    omitted: float = 0.0


@dataclass(frozen=True, slots=True)
class MapAnswer:
    """Choose the option that an open answer means (PEARL, section 3)."""

    question: str
    answer: str
    options: tuple[str, ...]


Call: TypeAlias = WritePlan | CorrectPlan | ExecuteStep | MapAnswer


def letter(index: int) -> str:
    """The letter of an option: A for 0."""
    return chr(ord("A") + index)
