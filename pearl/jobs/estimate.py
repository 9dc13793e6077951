"""What a batch will take, before anything is sent: calls, tokens, money, time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pearl.jobs.batch import Setup
from pearl.jobs.questions import Question, QuestionIndex, read_document, read_questions
from pearl.lang.ast import Plan
from pearl.lang.graph import reads_document
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.models.base import Usage
from pearl.models.tokens import count_tokens
from pearl.prompts.calls import Call, MapAnswer, WritePlan
from pearl.prompts.render import render

STEPS = 2.94
"""Calls that a plan makes where it is not written yet: the mean of GPT-4's 1,988 plans."""

AROUND = 220
"""Tokens of a step's prompt around the document, and of its arguments: as Pearl's own runs have."""

SMALLEST_PREFIX = 1024
"""Tokens below which endpoints keep no beginning of a prompt; they keep steps of 128."""

SAID = 150
"""Tokens of a step's reply."""

PLANNED = 200
"""Tokens of a plan."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a batch may take.

    Args:
        questions: how many.
        planned: of them, those whose plan is to be written.
        documents: how many different ones.
        calls: to the model.
        usage: tokens, with those that an endpoint with a prefix cache keeps
            counted as ``cached_tokens``.
        largest: tokens of the longest document, with its name.
    """

    questions: int
    planned: int
    documents: int
    calls: float
    usage: Usage
    largest: tuple[int, str]


def estimate(index: QuestionIndex, setup: Setup, model: str) -> Estimate:
    """Estimate a batch.

    Args:
        index: its questions.
        setup: how they are to be answered.
        model: whose vocabulary to count with.

    Raises:
        InputError: a document cannot be read.
    """
    writing = _tokens(WritePlan("?", setup.prepared.library, setup.prepared.demonstrations), model)
    calls = read = kept = said = 0.0
    planned, sizes = 0, dict[str, int]()
    for document, question, size in _sized(index, model):
        fresh = document not in sizes
        sizes[document] = size
        plan = parse(question.plan).plan if question.plan else None
        steps, reads = _steps(plan, setup)
        if plan is None:
            planned += 1
            calls, read, said = calls + 1, read + writing + 30, said + PLANNED
        read += reads * size + steps * AROUND
        # Each document is read once in full; after that an endpoint may have its beginning ready.
        if size >= SMALLEST_PREFIX:
            kept += max(0.0, reads - fresh) * (size // 128 * 128)
        calls, said = calls + steps, said + steps * SAID
        if question.options:
            choosing = _tokens(MapAnswer(question.question, "", question.options), model)
            calls, read, said = calls + 1, read + choosing + SAID, said + 2
    name = max(sizes, key=lambda one: sizes[one])
    usage = Usage(round(read), round(said), round(kept))
    return Estimate(len(index.places), planned, len(sizes), calls, usage, (sizes[name], name))


def _sized(index: QuestionIndex, model: str) -> Iterator[tuple[str, Question, int]]:
    """Every question with its document's name and size in tokens; each is counted once."""
    last: tuple[str, Source, int] | None = None
    for place, question in read_questions(index, index.by_document()):
        if last is None or last[0] != place.document:
            source = read_document(index, question)
            last = (place.document, source, count_tokens(source.text, model))
        yield place.document, question, last[2]


def _steps(plan: Plan | None, setup: Setup) -> tuple[float, float]:
    """How many calls a plan makes, and how many of them read the document."""
    if plan is None:
        return STEPS, STEPS
    library = setup.prepared.library.with_declared(plan.declares)
    actions = {step.name: library.get(step.action) for step in plan.steps}
    asked = [step for step in plan.steps if not (one := actions[step.name]) or not one.is_builtin]
    return len(asked), sum(reads_document(step) for step in asked)


def _tokens(call: Call, model: str) -> int:
    return sum(count_tokens(message["content"], model) for message in render(call))
