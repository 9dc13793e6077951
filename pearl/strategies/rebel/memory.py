"""What a run has found by now, and how a frame's plan writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pearl.plan import Arg, Literal, Ref, Template
from pearl.strategies.rebel.asking import line
from pearl.values import Value, as_text


@dataclass(slots=True)
class Memory:
    """What all frames of a run have found, in the order in which it was found; it only grows.

    Args:
        answered: the questions. Splitting sees these, and no answer.
        facts: a line each: a question and its answer.
    """

    answered: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    def learn(self, question: str, answer: str) -> None:
        """A question has an answer."""
        self.answered.append(question)
        self.facts.append(line(f"{question}: {answer}"))


class Known:
    """What one frame knows: what it was given, and all that was found since it began.

    What its own steps found is a reference to them; what a frame within one of
    them found is a text, as no reference reaches into another frame.

    Args:
        given: facts, as the frame was called with them.
        memory: the run's.
    """

    def __init__(self, given: tuple[str, ...], memory: Memory) -> None:
        self._given = given
        self._memory = memory
        self._start = len(memory.facts)
        self._steps: dict[int, tuple[str, str]] = {}

    def learn(self, question: str, step: str, value: Value) -> None:
        """A step of this frame has answered a question."""
        self._steps[len(self._memory.facts)] = (question, step)
        self._memory.learn(question, as_text(value))

    @property
    def facts(self) -> list[str]:
        """A line each."""
        return [*self._given, *self._memory.facts[self._start :]]

    @property
    def args(self) -> list[Arg]:
        """The facts as arguments of a step."""
        found = list(enumerate(self._memory.facts))[self._start :]
        return [*map(Literal, self._given), *(self._arg(at, fact) for at, fact in found)]

    def found(self, values: Mapping[str, Value]) -> dict[str, str]:
        """What this frame's own steps found, by the step's name."""
        return {step: as_text(values[step]) for _, step in self._steps.values()}

    def _arg(self, at: int, fact: str) -> Arg:
        if at not in self._steps:
            return Literal(fact)
        question, step = self._steps[at]
        return Template((f"{question}: ", Ref(step)))
