"""`pearl.Pearl`: the whole tool as one object."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import pearl
from pearl.lang.source import Source
from tests.server import Serve, completion
from tests.shell import STORY, call, write_rows
from tests.test_clients import on_azure

OPTIONS = ["She was ill", "The Fund closed it", "Tom drove her out"]
PLAN = '1. a = FIND_REASON(CTX, "Mara leaves") : Find why she leaves'


def write_questions(folder: Path, *rows: dict[str, Any]) -> Path:
    (folder / "story.txt").write_text(STORY, encoding="utf-8")
    usual = {"question": "Why does Mara leave?", "document": "story.txt", "options": OPTIONS,
             "gold": "B", "plan": PLAN}  # fmt: skip
    numbered = ({"id": f"q{at}", **usual, **row} for at, row in enumerate(rows))
    return write_rows(folder / "q.jsonl", *numbered)


def reading(body: dict[str, Any]) -> str:
    """A reader that names the right option."""
    text = str(body["messages"])
    return "B" if "A. She was ill" in text else "The Fund closed it."


def test_what_is_done_is_in_the_store_for_the_next_object_and_for_the_commands(
    serve: Serve, tmp_path: Path
):
    server = serve(reading)
    questions = write_questions(tmp_path, {}, {"question": "Why does she go?"}, {"gold": "A"})
    one = pearl.Pearl(model="some-model", store=Path("work.db"))
    first = one.batch_sync(questions, output="a.jsonl")
    assert [row["status"] for row in first.rows] == ["answered"] * 3
    assert [row["correct"] for row in first.rows] == [True, True, False]
    frame = first.frame()
    assert list(frame["option.letter"]) == ["B"] * 3
    mixed = (*first.rows, {**first.rows[0], "option": None})
    assert [*replace(first, rows=mixed).frame().columns] == [*frame.columns]
    asked = len(server.asked)
    again = pearl.Pearl(model="some-model", store="work.db").batch_sync(questions, output="a.jsonl")
    assert (again.run, again.rows, len(server.asked)) == (first.run, first.rows, asked)
    lines = (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["q0", "q1", "q2"]
    assert first.run in call("runs", "show", first.run, "--store", "work.db").out
    # Without a store nothing is kept, and nothing is left lying about.
    assert len(pearl.Pearl(model="some-model").batch_sync(questions).rows) == 3
    assert len(server.asked) > asked
    assert not (tmp_path / ".pearl").exists()


def test_what_a_job_cost_is_in_its_progress(serve: Serve, tmp_path: Path):
    usage = {"prompt_tokens": 1000, "completion_tokens": 10}
    serve(lambda body: completion(reading(body), usage=usage))
    questions = write_questions(tmp_path, {})
    done = pearl.Pearl(model="gpt-4o-mini", store="s.db").batch_sync(questions)
    assert done.progress.cost
    shown = call("runs", "show", done.run, "--store", "s.db", "--json").json
    assert shown["cost"] == done.progress.cost / 1e6
    assert pearl.Pearl(model="some-model").batch_sync(questions).progress.cost is None


def test_a_batch_that_is_cancelled_goes_on_where_it_stopped(serve: Serve, tmp_path: Path):
    reached, release = asyncio.Event(), [False]
    loop: list[asyncio.AbstractEventLoop] = []

    async def stall(_: web.Request) -> web.StreamResponse:
        loop[0].call_soon_threadsafe(reached.set)
        await asyncio.Event().wait()
        raise AssertionError

    def script(body: dict[str, Any]) -> Any:
        held = "Why does she go?" in str(body["messages"]) and not release[0]
        return stall if held else reading(body)

    server = serve(script)
    questions = write_questions(tmp_path, {}, {"question": "Why does she go?"})
    one = pearl.Pearl(model="some-model", store="work.db", concurrency=1)

    async def cancelled() -> None:
        loop.append(asyncio.get_running_loop())
        work = asyncio.create_task(one.batch(questions))
        await reached.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancelled())
    release[0], before = True, len(server.asked)
    rows = one.batch_sync(questions).rows
    assert [row["correct"] for row in rows] == [True, True]
    sent = [str(one.body) for one in server.asked[before:]]
    assert sent
    assert all("Why does she go?" in text for text in sent)


@pytest.mark.parametrize("azure", [False, True])
def test_runs_that_share_a_model_cut_off_no_call_of_each_other(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, azure: bool
):
    """The first run to end closes nothing that the second has under way: that would be sent, and
    paid for, again."""
    first_ended, loop = asyncio.Event(), list[asyncio.AbstractEventLoop]()

    async def held(_: web.Request) -> web.StreamResponse:
        ended = asyncio.run_coroutine_threadsafe(first_ended.wait(), loop[0])
        await asyncio.wrap_future(ended)
        return web.json_response(completion("It burned."))

    server = serve(lambda body: held if "held" in str(body["messages"]) else reading(body))
    if azure:
        pytest.importorskip("openai")
        on_azure(monkeypatch, server.url)
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    one = pearl.Pearl(model=pearl.choose_model("azure:m" if azure else "some-model"))

    async def several() -> list[str]:
        loop.append(asyncio.get_running_loop())
        plan = '1. a = FIND_REASON(CTX, "held") : Find why'
        second = asyncio.create_task(one.run(plan, "story.txt"))
        await asyncio.to_thread(server.reached.wait, 60)
        first = await one.run(PLAN, "story.txt")
        first_ended.set()
        return [first.text, (await second).text]

    assert asyncio.run(several()) == ["The Fund closed it.", "It burned."]
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_twin_waits_in_a_loop_that_runs_and_what_interrupts_it_stops_its_work(
    serve: Serve, tmp_path: Path, number: signal.Signals, error: type[BaseException]
):
    async def interrupt(_: web.Request) -> web.StreamResponse:
        os.kill(os.getpid(), number)
        await asyncio.Event().wait()
        raise AssertionError

    def script(body: dict[str, Any]) -> Any:
        return interrupt if "interrupted" in str(body["messages"]) else reading(body)

    serve(script)
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    one = pearl.Pearl(model="some-model")

    async def cell(plan: str) -> pearl.Answer:
        return one.run_sync(plan, "story.txt")

    # As in a notebook, whose loop takes no interrupt for itself.
    loop = asyncio.new_event_loop()
    earlier = signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        assert loop.run_until_complete(cell(PLAN)).text == "The Fund closed it."
        with pytest.raises(error):
            loop.run_until_complete(cell('1. a = FIND_REASON(CTX, "interrupted") : Find why'))
    finally:
        signal.signal(signal.SIGTERM, earlier)
        loop.close()


def test_refining_and_evaluating(serve: Serve, tmp_path: Path):
    def script(body: dict[str, Any]) -> str:
        return PLAN if "write reading plans" in str(body["messages"][0]) else reading(body)

    serve(script)
    questions = write_questions(tmp_path, {"plan": ""}, {"plan": "", "gold": "A"})
    one = pearl.Pearl(model="some-model", library="quality")
    refined = one.refine_sync(questions, tmp_path / "demos", rounds=0)
    assert [path.name for path in refined.plans] == ["q0.plan"]
    assert list(refined.frame()["correct"]) == [True, False]
    scores = one.evaluate_sync("questions", questions, methods=["pearl", "mcq"])
    frame = scores.frame()
    assert list(frame[frame["method"] == "pearl"]["score"]) == [1.0, 0.0]
    facts = dict(scores.about)
    assert facts["model"] == "some-model"
    assert facts["library"].startswith("quality, ")
    assert "| mcq | " in pearl.render_report(scores)
    assert pearl.render_report(scores, form="latex").startswith("%")
    assert json.loads(pearl.render_report(scores, form="json"))["title"] == scores.title
    with pytest.raises(pearl.InputError, match=r"no form docx: use one of terminal, markdown,"):
        pearl.render_report(scores, form="docx")


def test_mining_and_condensing(serve: Serve, tmp_path: Path):
    proposed = (
        "FIND_GRUDGE(CTX, X) : Find whom X bears a grudge\nFIND_RIVAL(CTX, X) : Find X's rival"
    )
    serve([proposed])
    questions = write_questions(tmp_path, {}, {"question": "Whom does she envy?"})
    one = pearl.Pearl(model="some-model")
    mined = one.mine_sync(questions, output="mined.actions")
    assert list(mined.frame()["name"]) == ["FIND_GRUDGE", "FIND_RIVAL"]
    assert (tmp_path / "mined.actions").read_text(encoding="utf-8") == mined.text
    # Merged by likeness: nothing is asked.
    small = one.condense_sync(mined, target=1, rounds=0, output="small.actions")
    assert small.before == 2
    assert list(small.frame()["old"]) == ["FIND_GRUDGE(CTX, X)", "FIND_RIVAL(CTX, X)"]
    for given in (small.actions, Path("small.actions")):
        assert not pearl.check(f'1. a = {small.actions[0].name}(CTX, "Ross") : Find it', given)
    library = pearl.load_library(Path("small.actions"))
    assert [one.name for one in small.actions] == [
        name for name, one in library.actions.items() if not one.is_builtin
    ]


def test_what_is_missing_is_said_in_one_line(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    serve(reading)
    questions = write_questions(tmp_path, {})
    done = pearl.Pearl(model="some-model").batch_sync(questions)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(pearl.InputError, match=r"pip install 'pearl\[pandas\]'"):
        done.frame()
    with pytest.raises(pearl.InputError, match="A store is a file, or postgresql"):
        pearl.Pearl(model="some-model", store="mysql://x").ask_sync("story.txt", "Who?")
    assert "hidden" not in repr(pearl.Pearl(store="postgresql+psycopg://me:hidden@host/name"))


def test_where_results_cannot_go_is_said_before_anything_is_sent(serve: Serve, tmp_path: Path):
    server = serve(reading)
    questions = write_questions(tmp_path, {})
    (tmp_path / "small.actions").write_text("FIND_X(CTX, X) : Find X\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("What I think of it.\n", encoding="utf-8")
    one = pearl.Pearl(model="some-model", store="new.db")
    for work, said in (
        (lambda: one.mine_sync(questions, output="none/mined.actions"), "The folder none does not"),
        (lambda: one.mine_sync(questions, output="new.db"), "new.db belongs to the store"),
        (lambda: one.batch_sync(questions, output="new.db-wal"), "new.db-wal belongs to the store"),
        (
            lambda: one.condense_sync("small.actions", output="new.db"),
            "new.db belongs to the store",
        ),
        (lambda: one.mine_sync(questions, output=questions), "is what is read"),
        (lambda: one.condense_sync("small.actions", output="small.actions"), "is what is read"),
        (lambda: one.condense_sync("small.actions", output="."), "is a directory"),
        (lambda: one.refine_sync(questions, "q.jsonl"), "is a file: name a folder"),
        (lambda: one.refine_sync(questions, "none/demos"), "The folder none does not"),
        (lambda: one.batch_sync(questions, output=questions), "is what is read"),
        (lambda: one.batch_sync(questions, output="story.txt"), "is what is read"),
        (lambda: one.batch_sync(questions, output="notes.txt"), "exists and is no file of answers"),
        (lambda: one.mine_sync(questions, output="notes.txt"), "exists and is no library"),
        (lambda: one.condense_sync("small.actions", output="notes.txt"), "exists and is no libr"),
        (lambda: one.batch_sync(questions, output="none/a.jsonl"), "The folder none does not"),
    ):
        with pytest.raises(pearl.InputError, match=said):
            work()
    assert not server.asked
    assert one.condense_sync("small.actions", seeds="core", rounds=0).before == 1
    assert one.evaluate_sync("questions", questions, methods="pearl").methods == ("pearl",)


def test_rules_are_chosen_by_the_beginnings_of_their_codes():
    plan = (
        '1. a = FIND_EVENT(CTX, "x") : Find it\n2. b = FIND_EVENT(CTX, "y") : Find it\nreturn b\n'
    )
    assert [found.code for found in pearl.check(plan)] == ["PRL401"]
    assert pearl.check(plan, selection=pearl.Selection(ignore=("PRL4",))) == []
    with pytest.raises(pearl.InputError, match="selection is to be a Selection"):
        pearl.check(plan, selection=["PRL401"])


def test_a_plan_says_which_library_that_ships_it_is_written_for(tmp_path: Path):
    plan = '# library: letters\nquestion: Which?\n\n1. a = SPLIT("a b", " ")\n'
    assert pearl.check(plan) == pearl.check(pearl.parse(plan)) == []
    assert pearl.fix(plan) == plan
    story = tmp_path / "story.txt"
    story.write_text(STORY, encoding="utf-8")
    assert pearl.run_sync(plan, story, model="offline").text == "a\nb"
    for other in (plan.replace("letters", "gone"), plan.replace("letters", "core")):
        assert "PRL201" in [found.code for found in pearl.check(other)]
    assert "PRL201" in [found.code for found in pearl.check(plan, "core")]
    with pytest.raises(pearl.RunError, match="SPLIT"):
        pearl.run_sync(plan, story, library="core", model="offline")


@pytest.mark.parametrize(("work", "said"), [
    (lambda: pearl.ask_sync("none.txt", "Who?", model="offline"), "none.txt does not exist"),
    (lambda: pearl.Pearl(model="offline").evaluate_sync("questions", "none.jsonl"), "none.jsonl"),
])  # fmt: skip
def test_within_a_loop_an_error_is_what_it_is_elsewhere(work: Callable[[], Any], said: str):
    async def in_a_notebook() -> None:
        with pytest.raises(pearl.InputError, match=said):
            work()

    asyncio.run(in_a_notebook())


def test_a_document_is_named_by_whatever_is_a_path(tmp_path: Path):
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    with os.scandir(tmp_path) as entries:
        asked = pearl.ask_sync(next(entries), "Why does Mara leave?", model="offline")
    assert asked.evidence


@pytest.mark.parametrize(("asked", "said"), [
    (lambda one: one.ask_sync("story.txt", "Who?", shown=-1), "shown is -1: give a number"),
    (lambda one: one.ask_sync("story.txt", "Who?", examples="2"), "examples is '2': give a number"),
    (lambda one: one.ask_sync("", "Who?"), "A document has no name"),
    (lambda one: one.ask_sync([], "Who?"), "is no document: give a path, several, or a Source"),
    (lambda one: one.ask_sync(StringIO("Late."), "Who?"), "An open file is no document: give"),
    (lambda one: one.ask_sync(pearl.Source("a", None), "Who?"), "The text of a is NoneType: "),
    (lambda one: one.ask_sync(STORY * 900, "Why?"), r"pearl.Source\(name, text\)"),
    (lambda one: one.ask_sync("Mara left.", "Why?"), r"^Mara left. is no file: .*Source\(name"),
    (lambda one: one.ask_sync("story.txt", None), "The question is None: give a text"),
    (lambda one: one.ask_sync("story.txt", ["a"]), r"The question is \['a'\]: give a text"),
    (lambda one: one.ask_sync("story.txt", " "), "The question is empty"),
    (lambda one: one.plan_sync("Who?", shown=-1), "shown is -1: give a number"),
    (lambda one: one.run_sync(Path("x.plan"), "story.txt"), "is no plan: give its text"),
    (lambda one: one.condense_sync("core", target=0), "target is 0: give a number .* below 1"),
    (lambda one: one.batch_sync([{"id": 1}] * 400), "give its path"),
    (lambda one: one.evaluate_sync("questions", [{"id": 1}] * 400), "give its path"),
    (lambda one: one.refine_sync([{"id": 1}], "demos"), "give its path"),
    (lambda one: one.mine_sync([{"id": 1}]), "give its path"),
    (lambda one: pearl.OwnPrompt(5), "An own prompt is made of texts"),
    (lambda one: pearl.Models("offline", "offline"), "'offline' is no model"),
    (lambda one: pearl.Pearl(model=5).plan_sync("Who?"), "5 is no model"),
    *((lambda one, name=name: pearl.Pearl(**{name: -1}),
       f"{name} is -1: give a number that is not below 0")
      for name in ("concurrency", "max_cost", "max_tokens")),
    (lambda one: pearl.Pearl(max_cost=float("nan")), "max_cost is nan: give a number."),
    (lambda one: pearl.Pearl(max_cost=float("inf")), "max_cost is inf: .* not above 1,000,000,"),
    (lambda one: pearl.Pearl(max_cost=10**400), "max_cost is out of range: .* above 1,000"),
    (lambda one: pearl.Pearl(concurrency=10**9), "concurrency is 1000000000: .* above 10,000"),
    (lambda one: pearl.Pearl(concurrency=1.5), "concurrency is 1.5: give a whole number"),
    (lambda one: pearl.Pearl(max_tokens=True), "max_tokens is True: give a number"),
    (lambda one: pearl.Pearl(library=len).plan_sync("Why?"), "not as builtin_function_or_method:"),
    (lambda one: pearl.Pearl(library=["core", 5]).plan_sync("Why?"), "not as int: give"),
    (lambda one: pearl.load_library("half.actions"), "half.actions:1:"),
    (lambda one: pearl.Pearl(model="m", demonstrations=[]).evaluate_sync("questions", "q.jsonl"),
     "as the folder they are in"),
    (lambda one: one.evaluate_sync("questions", "q.jsonl", methods=[["pearl"]]),
     "A strategy of one's own is a class or a function"),
    (lambda one: pearl.Pearl(model="offline", context="chnk").ask_sync("story.txt", "Who?"),
     "There is no context policy chnk"),
    (lambda one: pearl.ask_sync("story.txt", "Why?", model="offline", context=8192),
     r"Context\(window=8192\)"),
])  # fmt: skip
def test_a_wrong_argument_is_told_in_a_line(asked: Callable[[pearl.Pearl], Any], said: str):
    Path("story.txt").write_text(STORY, encoding="utf-8")
    write_rows("q.jsonl", {"id": "q", "question": "Why?", "document": "story.txt", "gold": "x"})
    Path("half.actions").write_text("FIND_A(CTX, X : Find X.\nFIND_B(CTX) : Find it.\n")
    with pytest.raises(pearl.InputError, match=said) as raised:
        asked(pearl.Pearl(model="offline"))
    assert len(str(raised.value)) < 300
    assert raised.value.__context__ is None
    told = pearl.ask_sync("story.txt", "Who?", model="offline", context="retrieve")
    assert told.model == "offline"


def test_a_strategy_with_actions_of_its_own_passes_over_the_object_s_library(serve: Serve):
    serve(lambda _: "Yes.", PEARL_TRIES="1")
    tool = pearl.Pearl(model="some-model", library="core")
    # What the scripted model says has not the form that it asks for.
    with pytest.raises(pearl.RunError, match="rebel_split does not fit"):
        tool.ask_sync(Source("s", STORY), "Why does Mara leave?", strategy="rebel")
