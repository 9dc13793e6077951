"""Passages as a step's output: from a document, or from the index of a corpus."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.evaluation_job import trial_tasks
from pearl.evaluate.methods import find_method
from pearl.evaluate.setup import Demonstrations, make_context
from pearl.lang.ast import Literal
from pearl.lang.builtins import Given
from pearl.lang.errors import InputError
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.lang.values import Value
from pearl.models.base import ModelError, Reply, Request
from pearl.prompts.calls import NextStep
from pearl.retrieval.index import build_index, open_index
from pearl.retrieval.retriever import Passage
from pearl.runtime.binding import StepError
from pearl.runtime.calls import Caller, Journal, at_most, plan_come_to
from pearl.runtime.executor import NONE
from pearl.runtime.loop import RunError
from pearl.session import open_session
from pearl.strategies.pearl import load_demonstrations
from pearl.strategies.registry import Limits
from pearl.strategies.retrieving import MOST, PASSAGES, with_retriever
from tests.scripted_models import FILM, FILM_HOPS, FILM_TEXT, Reader
from tests.shell import write_rows

DOCUMENT = Source("film", FILM_TEXT)
LIBRARY = load_library("open_domain")
SHOWN = Demonstrations(load_demonstrations("", "open_domain"))


def passages(*values: Value, **more: Any) -> Value:
    given = [Given(Literal(value), value) for value in values]
    return asyncio.run(with_retriever(NONE, DOCUMENT, **more).solvers["retrieve"]("step/a", given))


def test_passages_come_with_their_titles_and_to_the_letter():
    found = passages("Where was Jonas Pell born?", 1)
    assert found == [f"Jonas Pell: {FILM_HOPS[1].sentence}"]


def test_the_number_of_passages_is_the_step_s_or_the_usual_one():
    asked: list[int] = []

    class Many:
        def search(self, query: str, k: int) -> list[Passage]:
            asked.append(k)
            return [Passage(str(at), "", f"text {at}", 1.0) for at in range(k)]

    many = Many()
    assert passages("x", 2, retriever=many) == ["text 0", "text 1"]
    passages("x", retriever=many)
    passages("x", 1000, retriever=many)
    assert asked == [2, PASSAGES, MOST]


def test_what_is_not_found_is_an_empty_list():
    assert passages("zebra") == []


@pytest.mark.parametrize("number", [0, -1, "two", True, 1.5])
def test_a_number_of_passages_that_is_none_is_refused(number: Value):
    with pytest.raises(StepError, match="whole number of passages"):
        passages("x", number)


def test_a_damaged_index_is_told_as_a_failed_step():
    class Damaged:
        def search(self, query: str, k: int) -> list[Passage]:
            raise InputError("towns.index is damaged: build it again.")

    with pytest.raises(StepError, match="build it again"):
        passages("x", retriever=Damaged())


def answered(document: Source, **more: Any) -> tuple[str, str]:
    """The answer and the plan that the method came to."""
    kit = replace(make_context(LIBRARY, SHOWN), **more)

    async def work() -> tuple[str, str]:
        async with open_session(Reader(), {}, "eval") as session:
            found = await find_method("decomp").answer(Example("1", FILM, document), kit, session)
            return str(found.answer), plan_come_to(session.journal.entries)[0]

    return asyncio.run(work())


def test_hops_are_looked_up_in_the_document():
    answer, plan = answered(DOCUMENT)
    assert answer == "Quistholm"
    assert [step.action for step in parse(plan).plan.steps] == [
        "RETRIEVE", "READ", "RETRIEVE", "FLAT", "MULTI_HOP_READ",
    ]  # fmt: skip


def indexed(folder: Path, name: str, *rows: dict[str, str]) -> Any:
    """An index of a corpus with these rows."""
    corpus = write_rows(folder / f"{name}.jsonl", *rows)
    build_index(corpus, str(folder / name))
    return open_index(str(folder / name))


def test_hops_are_looked_up_in_an_index(tmp_path: Path):
    rows = ({"id": hop.title, "title": hop.title, "text": hop.sentence} for hop in FILM_HOPS)
    index = indexed(tmp_path, "corpus", *rows)
    answer, _ = answered(Source("nothing", "Nothing is said here."), retriever=index)
    assert answer == "Quistholm"


def keys(**more: Any) -> list[str]:
    example = Example("1", FILM, DOCUMENT)
    kit = replace(make_context(LIBRARY, SHOWN), **more)
    return [one.key for one in trial_tasks([example], ["decomp"], kit)]


def test_what_passages_come_from_and_where_it_ends_is_part_of_what_is_asked(tmp_path: Path):
    made = [
        keys(retriever=indexed(tmp_path, name, {"id": "1", "text": name}))
        for name in ("one", "two")
    ]
    apart = [keys(), *made, keys(limits=Limits(steps=3)), keys(limits=Limits(calls=3))]
    assert len({key for [key] in apart}) == len(apart)
    assert made[0] == keys(retriever=open_index(str(tmp_path / "one")))


def test_a_question_takes_no_more_calls_than_it_may():
    assert answered(DOCUMENT, limits=Limits(calls=8))[0] == "Quistholm"
    with pytest.raises(ModelError, match="has taken its 3 calls"):
        answered(DOCUMENT, limits=Limits(calls=3))
    with pytest.raises(RunError, match="has 2 steps and no answer"):
        answered(DOCUMENT, limits=Limits(steps=2))


def test_a_refused_call_is_not_sent():
    sent: list[Request] = []

    async def ask(request: Request) -> Reply:
        sent.append(request)
        return Reply("")

    caller = at_most(Caller(ask, "counted", Journal()), 0)
    with pytest.raises(ModelError) as refused:
        asyncio.run(caller(NextStep("?", LIBRARY), "next/1"))
    assert (refused.value.reason, sent) == ("calls", [])
    assert [one.status for one in caller.journal.entries] == ["failed"]
