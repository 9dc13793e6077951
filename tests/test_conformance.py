"""Every run's trace is a plan that parses, checks and replays to the same answer."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from pearl.commaqa.agents import Agents, exact_match, handlers
from pearl.commaqa.decomposition import to_plan
from pearl.commaqa.world import read_worlds
from pearl.lang.library import Library, load_library
from pearl.lang.source import Source
from pearl.models.base import Reply, Request
from pearl.models.offline import Offline
from pearl.prompts.calls import NextStep
from pearl.runtime.calls import Caller
from pearl.runtime.executor import Handlers
from pearl.runtime.loop import Strategy
from pearl.strategies import pearl
from pearl.strategies.baselines import PlanShown, choosing_plan, reasoning_plan
from pearl.strategies.decomp import Decomp, decompose
from tests.scripted_models import carry_out, conforms, run
from tests.shell import STORY

QUESTION = "Why does Mara leave?"
REVERSAL = (
    'SPLIT("{}", ", ")', "HALVES(s1)", "ITEM(s2, 1)", "ITEM(s2, 2)", 'JOIN(s3, ", ")',
    'JOIN(s4, ", ")', 'REVERSE("Reverse the sequence \\"{{s6}}\\".")',
    'REVERSE("Reverse the sequence \\"{{s5}}\\".")', 'JOIN([s7, s8], ", ")', "return s9",
)  # fmt: skip
"""The steps that reverse several items; REVERSE calls itself."""
ONE_ITEM = ('SPLIT("{}", ", ")', 'JOIN(s1, ", ")', "return s2")


class Reversing(Offline):
    """Takes a sequence apart until one item is left."""

    async def answer(self, request: Request) -> Reply:
        assert isinstance(request.call, NextStep)
        items, number = request.call.question.split('"')[1], len(request.call.steps) + 1
        line = (REVERSAL if ", " in items else ONE_ITEM)[number - 1].format(items)
        return Reply(line if line.startswith("return") else f"s{number} = {line}")


def of_documents() -> list[tuple[str, Callable[[Caller, Library], Strategy]]]:
    shown = pearl.choose_demonstrations(pearl.load_demonstrations(), load_library())
    options = [["ill", "closed"], ["closed", "ill"]]
    return [
        ("pearl", lambda caller, library: pearl.PearlStrategy(library, caller, shown)),
        ("no-execution", lambda caller, library: PlanShown(library, caller, shown)),
        ("zero-shot", lambda *_: pearl.GivenPlan(pearl.direct_plan(QUESTION))),
        ("cot", lambda *_: pearl.GivenPlan(reasoning_plan(QUESTION))),
        ("mcq", lambda *_: pearl.GivenPlan(choosing_plan(QUESTION, options))),
    ]


@pytest.mark.parametrize(
    ("name", "make"), of_documents(), ids=lambda one: one if isinstance(one, str) else ""
)
def test_strategies_that_read_a_document(name: str, make: Callable[[Caller, Library], Strategy]):
    library = load_library()
    story = Source("story", STORY)
    run(Offline(), lambda caller: make(caller, library), QUESTION, library, story)


@pytest.mark.parametrize(("items", "reversed"), [
    ("light bulb", "light bulb"),
    ("map, pen, alarm clock, cup, hat", "hat, cup, alarm clock, pen, map"),
])  # fmt: skip
def test_decompositions_whose_handlers_call_themselves(items: str, reversed: str):
    library = load_library("reversal")
    finished, *_ = run(
        Reversing(), lambda caller: Decomp(library, caller), f'Reverse the sequence "{items}".',
        library, handlers=Handlers(decompose=decompose),
    )  # fmt: skip
    assert finished.text == reversed


def test_gold_decompositions_run_as_plans(shared: Path):
    """The first six worlds of the files have every kind of question."""
    library = load_library("commaqa")
    count = 0
    for file in sorted((shared / "commaqa").glob("*.jsonl")):
        for number, world in enumerate(islice(read_worlds(str(file)), 6)):
            for question in world.questions:
                plan = to_plan(question.hops, question.text)
                finished, journal, _ = carry_out(
                    Offline(), lambda _, plan=plan: pearl.GivenPlan(plan), question.text, library,
                    handlers=handlers(Agents(world)),
                )  # fmt: skip
                assert exact_match(finished.values[finished.outputs[0]], question.answer)
                count += 1
                if number < 2:
                    conforms(finished, journal, library)
    assert count == 180
