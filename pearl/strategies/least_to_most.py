"""Least-to-most prompting: reduce a question first, then answer its parts one after another.

Zhou et al., "Least-to-Most Prompting Enables Complex Reasoning in Large
Language Models", ICLR 2023, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pearl.lang.ast import DOCUMENT, Action, Literal, Param, Plan, Ref, Step, Template
from pearl.prompts.calls import FillSchema
from pearl.prompts.render import load_schema
from pearl.runtime.calls import Caller, fill
from pearl.runtime.loop import Run, Steps
from pearl.strategies.pearl import whole

ANSWER_NEXT = Action(
    "ANSWER_NEXT",
    (Param(DOCUMENT), Param("X"), Param("EARLIER")),
    "any",
    "Answer the question X from CTX, with the help of EARLIER, which are simpler questions and "
    "their answers. Begin with the answer alone, one a line where there are several.",
)
"""One of the questions; those before it stand beside it with their answers."""


@dataclass(frozen=True, slots=True)
class LeastToMost:
    """One call that reduces the question, and a step for each part; the question is the last."""

    caller: Caller

    async def next(self, run: Run) -> Steps:
        """All steps at once; the last one's answer is the answer.

        Raises:
            ModelError: the model gave no usable answer.
            SchemaError: it would not list sub-questions in the form that is wanted.
        """
        call = FillSchema(load_schema("least_to_most"), (("question", run.question),))
        reply = await fill(self.caller, call, "reduce")
        return whole(in_turn(run.question, reply["sub_questions"]))


def in_turn(question: str, parts: Sequence[str]) -> Plan:
    """A step for each part of a question, in the order they are to be answered, each given the
    answers to those before it, and one for the question itself."""
    lines = dict.fromkeys(" ".join(part.split()) for part in parts)
    asked = [part for part in lines if part and part.casefold() != question.casefold()]
    names = [*(f"part_{number}" for number in range(1, len(asked) + 1)), "answer"]
    steps = []
    before: list[str | Ref] = []
    for name, part in zip(names, [*asked, question], strict=True):
        earlier = Template(tuple(before)) if before else Literal("Nothing was asked before.")
        steps.append(Step(name, ANSWER_NEXT.name, (Ref(DOCUMENT), Literal(part), earlier)))
        gap = "\n" if before else ""
        before += [f"{gap}Question: {part}\nAnswer: ", Ref(name)]
    return Plan(tuple(steps), question, (ANSWER_NEXT,), (Ref("answer"),))
