"""Every strategy under a model that never comes to an end, and under a short window."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import pearl
from pearl.lang.ast import Prompt
from pearl.lang.library import Library, load_library
from pearl.lang.source import Source
from pearl.models.base import ModelError, Reply, Request
from pearl.models.recorded import Recorded
from pearl.prompts.calls import Call, CorrectFilled, FillSchema, NextStep, WritePlan
from pearl.runtime.calls import Caller, Journal
from pearl.runtime.context import Context
from pearl.runtime.loop import RunError, run_strategy
from pearl.strategies import registry as assembly
from pearl.strategies.preparation import prepare
from pearl.strategies.registry import (
    STRATEGIES,
    Limits,
    RunInputs,
    StrategySettings,
    StrategySpec,
    find_strategy,
)
from tests.scripted_models import Said, Scripted
from tests.shell import call

QUESTION = "What is told of the hills?"
DOCUMENT = Source("hills", "# Hills\n\nGrass grows on hill 1. Grass grows on hill 2.\n")
MANY = " ".join("x" * 150)


class Endless(Scripted):
    """Always wants one thing more; where a step makes a list, as many as there are words."""

    def __init__(self, words: str = MANY) -> None:
        self.words, self.numbers = words, count()

    def says(self, call: Call) -> Said:
        at = next(self.numbers)
        match call:
            case WritePlan():
                return f'1. a = LIST(CTX, "hills") : List\n2. b = READ(each a, "{at}?") : Read\n'
            case NextStep():
                done = len(call.steps)
                step = f'READ(each s{done}, "{at}?")'
                if done % 2 == 0:
                    step = f'SPLIT("{self.words} {at}", " ")'
                return f"{done + 1}. s{done + 1} = {step} : More"
            case FillSchema() | CorrectFilled():
                fill = call if isinstance(call, FillSchema) else call.fill
                return {one.name: self._field(json.loads(one.schema), at)
                        for one in fill.schema.fields}  # fmt: skip
        kind = getattr(call, "action", None)
        if kind is not None and isinstance(kind.body, Prompt) and kind.returns == "list":
            return json.dumps(self.words.split())
        return f"x{at}"

    def _field(self, schema: dict[str, Any], at: int) -> Any:
        if "enum" in schema:
            return "compound" if "compound" in schema["enum"] else schema["enum"][0]
        kind = schema.get("type", "string")
        match kind if isinstance(kind, str) else kind[0]:
            case "array":
                return [self._field(schema.get("items", {}), at)]
            case "boolean":
                return False
        return f"Grass grows on hill {1 + at % 2}. Which hill is hill {at}?"


@dataclass
class Ran:
    """A run to its end, with the journal."""

    model: Endless
    error: str
    journal: Journal


def ran(one: StrategySpec, model: Endless, limits: Limits, library: Library | None = None) -> Ran:
    journal = Journal()
    caller = Caller(model.answer, model.identity, journal)
    prepared = prepare(one.name, "endless", library, (), StrategySettings(limits=limits))
    error = ""
    try:
        strategy, frame = prepared.start(RunInputs(caller, DOCUMENT))
        asyncio.run(run_strategy(strategy, QUESTION, frame))
    except (RunError, ModelError) as raised:
        error = str(raised)
    return Ran(model, error, journal)


def stepwise(folder: Path) -> Library:
    file = folder / "endless.actions"
    file.write_text(
        "SPLIT(TEXT, BY) -> list : Split TEXT at each BY.\n  body: builtin split\n"
        "LIST(CTX, X) -> list : List X of CTX.\nREAD(P, Q) -> any : Answer Q from P.\n",
        encoding="utf-8",
    )
    return load_library(str(file))


NAMED = pytest.mark.parametrize("one", STRATEGIES, ids=[one.name for one in STRATEGIES])


@NAMED
def test_its_frames_stand_no_deeper_than_is_said(one: StrategySpec):
    prepared = prepare(
        one.name, "endless", settings=StrategySettings(limits=Limits(depth=2, width=7))
    )
    _, frame = prepared.start(RunInputs(Caller(Endless().answer, "endless", Journal()), DOCUMENT))
    assert (frame.handlers.depth, frame.handlers.width) == (2, 7)


@NAMED
def test_a_model_that_never_ends_is_ended(
    one: StrategySpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(assembly, "PLANNED", 12)
    own = stepwise(tmp_path) if one.demonstrations else None
    done = ran(one, Endless(), Limits(calls=12), own)
    assert 1 < len(done.model.asked) <= 12
    if one.name in ("decomp", "pearl"):
        assert "The question has taken its 12 calls: allow more." in done.error


def test_a_decomposition_runs_over_so_many_items_and_no_more(tmp_path: Path):
    done = ran(find_strategy("decomp"), Endless(), Limits(width=150), stepwise(tmp_path))
    assert "has 151 items, and a step runs over 150 at most" in done.error
    assert len(done.model.asked) == 2


def test_a_plan_that_is_written_first_reads_more_parts_than_a_decomposition_may(tmp_path: Path):
    done = ran(find_strategy("pearl"), Endless(" ".join("x" * 300)), Limits(), stepwise(tmp_path))
    assert not done.error
    assert len(done.model.asked) == 302


LONG = "".join(f"# Hill {at}\n\n{'Grass grows on it, and it is green. ' * 20}\n\n"
               for at in range(60))  # fmt: skip
FALK = "# Ines Falk\n\nInes Falk was born in Lund.\n"

REPLIES = {
    "fsm/1/decompose/1": '{"kind": "simple", "sub_question": "Where was Ines Falk born?"}',
    "step/found_1/1": '{"answer": "Lund", "evidence": ["Ines Falk was born in Lund."], '
    '"title": "Ines Falk"}',
    "step/summary/1": '{"answer": "Lund"}',
}


@pytest.mark.parametrize("policy", ["auto", "chunk", "retrieve"])
def test_a_cut_is_in_the_journal_and_the_prompts_fit(policy: Any):
    sent: list[Request] = []

    class Listening(Recorded):
        async def answer(self, request: Request) -> Reply:
            sent.append(request)
            return await super().answer(request)

    context = Context(policy, 4000, 1024, lambda text: len(text) // 4)
    found = pearl.ask_sync(
        Source("long.md", LONG + FALK), "Where was Ines Falk born?", strategy="fsm1",
        model=Listening(REPLIES), context=context, store="cut.db",
    )  # fmt: skip
    assert found.text == "Lund"
    reading = [one for one in sent if one.document]
    assert reading
    for one in reading:
        assert FALK in "".join(each["content"] for each in one.messages)
        assert sum(len(each["content"]) for each in one.messages) // 4 <= 4000 - 1024
    assert "context/found_1" in call("runs", "show", found.run, "--json", "--store", "cut.db").out
