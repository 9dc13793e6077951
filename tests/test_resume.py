"""A run that was interrupted comes to the same, and asks nothing again (docs/design.md)."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pearl.lang.library import load_library
from pearl.lang.source import Source
from pearl.models.base import Reply, Request
from pearl.prompts.calls import Demonstration
from pearl.runtime.calls import Caller
from pearl.runtime.executor import Frame
from pearl.runtime.loop import RunError, run_strategy
from pearl.runtime.trace import export_trace
from pearl.session import open_session
from pearl.store.store import open_store
from pearl.strategies.baselines import PlanShown, choosing_plan, reasoning_plan
from pearl.strategies.pearl import (
    GivenPlan,
    choose_demonstrations,
    direct_plan,
    load_demonstrations,
)
from pearl.strategies.preparation import prepare
from pearl.strategies.registry import STRATEGIES, RunInputs, Started
from tests.scripted_models import FILM, FILM_TEXT, Reader
from tests.shell import STORY
from tests.worlds import AWARDS, AWARDS_HOPS, awards, searching

QUESTION = "Why does Mara leave?"
LETTERS = (
    'Take the letters at position 2 of the words in "Ann Bob Cy" and concatenate them using a dash.'
)
REVERSAL = 'Reverse the sequence "light bulb, key, map, pen, alarm clock".'

Make: TypeAlias = Callable[[Caller], Started]
NOTHING = Source("d", "-")


class Knowing(Reader):
    """Proposes the hops of `AWARDS` too."""

    def filled(self, schema: str, given: Mapping[str, Any]) -> Any:
        if schema != "next_hops":
            return super().filled(schema, given)
        done = sum(f"\n{name} = " in f"\n{given['steps']}" for name in ("a1", "a2"))
        return {"candidates": [{"hop": (*AWARDS_HOPS, "return a2")[done], "score": 0.9}]}


@dataclass
class Counted:
    """Answers as a script does, so many times; then it stalls.

    Args:
        most: how many calls it answers; None for all.
    """

    most: int | None = None
    asked: list[str] = field(default_factory=list)
    stalled: asyncio.Event = field(default_factory=asyncio.Event)
    name: str = "counted"
    identity: str = "counted"
    notice: str = ""
    _answers: Reader = field(default_factory=Knowing)

    async def answer(self, request: Request) -> Reply:
        if len(self.asked) == self.most:
            self.stalled.set()
            await asyncio.Event().wait()
        self.asked.append(request.key)
        return await self._answers.answer(request)

    async def close(self) -> None:
        return


@dataclass(frozen=True)
class Came:
    """What a run came to: its answer, or why it has none, and its trace."""

    text: str
    trace: str


def decomposing(name: str, caller: Caller) -> Started:
    prepared = prepare("decomp", "counted", load_library(name), name)
    return prepared.start(RunInputs(caller, NOTHING))


def named(name: str, caller: Caller) -> Started:
    return prepare(name, "counted").start(RunInputs(caller, Source("paragraphs", FILM_TEXT)))


def given(plan: Any, caller: Caller) -> Started:
    return GivenPlan(plan), Frame(NOTHING, load_library(), caller)


def plan_shown(caller: Caller) -> Started:
    library = load_library()
    shown: tuple[Demonstration, ...] = choose_demonstrations(load_demonstrations(), library)
    return PlanShown(library, caller, shown), Frame(NOTHING, library, caller)


def cases() -> dict[str, tuple[Make, str, str]]:
    """What makes the strategy, the question, and the document's text."""
    options = [["ill", "closed"], ["closed", "ill"]]
    found: dict[str, tuple[Make, str, str]] = {
        "no-execution": (plan_shown, QUESTION, STORY),
        "zero-shot": (partial(given, direct_plan(QUESTION)), QUESTION, STORY),
        "cot": (partial(given, reasoning_plan(QUESTION)), QUESTION, STORY),
        "mcq": (partial(given, choosing_plan(QUESTION, options)), QUESTION, STORY),
        "letters": (partial(decomposing, "letters"), LETTERS, "-"),
        "reversal": (partial(decomposing, "reversal"), REVERSAL, "-"),
        "tmn-model": (lambda caller: searching(caller, awards()), AWARDS, "-"),
    }
    for one in STRATEGIES:
        found[one.name] = (partial(named, one.name), FILM, FILM_TEXT)
    return found


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which nothing is kept yet."""
    file = tmp_path_factory.mktemp("store") / "store.db"
    open_store(str(file)).close()
    return file


async def start(name: str, store: Path, model: Counted) -> Came | None:
    """Run a case in a store; None where the model stalls, and the run is cut off."""
    make, question, text = cases()[name]
    async with open_session(model, {"question": question}, "ask", str(store)) as session:
        caller = session.caller()

        async def work() -> str:
            strategy, frame = make(caller)
            try:
                frame = replace(frame, caller=caller, document=Source("d", text))
                finished = await run_strategy(strategy, question, frame)
            except RunError as error:
                return f"no answer: {error}"
            return finished.text

        running = asyncio.create_task(work())
        stalled = asyncio.create_task(model.stalled.wait())
        await asyncio.wait({running, stalled}, return_when=asyncio.FIRST_COMPLETED)
        stalled.cancel()
        if not running.done():
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return None
        return Came(await running, export_trace(session.journal.entries, "test"))


@pytest.mark.parametrize("name", cases())
def test_a_run_that_was_cut_off_goes_on(name: str, empty: Path, tmp_path: Path):
    whole = Counted()
    expected = asyncio.run(start(name, shutil.copy(empty, tmp_path / "whole.db"), whole))
    assert expected is not None
    assert not expected.text.startswith("no answer"), expected.text
    calls = len(whole.asked)
    assert calls == len(set(whole.asked)) > 0
    for most in sorted({calls // 2, calls - 1}):
        store = shutil.copy(empty, tmp_path / f"{most}.db")
        first, second = Counted(most), Counted()
        assert asyncio.run(start(name, store, first)) is None
        assert len(first.asked) == most
        assert asyncio.run(start(name, store, second)) == expected
        assert sorted(first.asked + second.asked) == sorted(whole.asked)
