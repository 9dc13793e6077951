"""REBEL as a method and on the command line: recorded, with tools of one's own, drawn as a tree."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.evaluation_job import trial_tasks
from pearl.evaluate.methods.base import ToolFile, load_tool_file
from pearl.evaluate.results import read_evaluation
from pearl.evaluate.setup import Demonstrations, make_context
from pearl.lang.errors import InputError
from pearl.lang.library import load_library
from pearl.lang.source import Source
from pearl.models.embeddings import TfIdf
from pearl.retrieval.retriever import DocumentRetriever
from pearl.runtime.calls import Caller, Entry, Journal
from pearl.runtime.executor import Frame
from pearl.runtime.loop import run_strategy
from pearl.runtime.trace import as_plan, branch_lines, read_tree
from pearl.strategies.preparation import prepare
from pearl.strategies.rebel import rebel
from pearl.strategies.registry import OWN_TOOLS
from pearl.tools.declared import load_tools
from pearl.tools.toolbox import Tools, document_tools
from tests.conftest import ROOT
from tests.scripted_models import FILM, FILM_HOPS, FILM_TEXT, Reader, record
from tests.services import Services
from tests.shell import Result as Ended
from tests.shell import call, read_rows, write_rows

FILE = """
[{name}]
about = "Finds articles and passages."
endpoint = "{url}/search"
[{name}.parameters.query]
about = "words to search for"
[{name}.limits]
private = true
"""


def write_tools(name: str, url: str, more: str = "") -> None:
    text = FILE.replace("{url}", url).replace("{name}", name)
    Path("tools.toml").write_text(text + more, encoding="utf-8")


@pytest.fixture(autouse=True)
def _film() -> None:
    Path("film.md").write_text(FILM_TEXT, encoding="utf-8")
    row = {"id": "one", "question": FILM, "document": "film.md", "gold": "Quistholm"}
    write_rows("q.jsonl", row)


def recorded(tools: Tools, model: Reader | None = None) -> str:
    """What a model replies that is put the question with these tools."""
    model, journal, document = model or Reader(), Journal(), Source("film.md", FILM_TEXT)
    caller = Caller(model.answer, model.identity, journal)
    strategy = rebel(caller, tools)
    frame = Frame(document, load_library("rebel"), caller, handlers=strategy.handlers)
    asyncio.run(run_strategy(strategy, FILM, frame))
    return record(journal)


def evaluate(*more: str, tools: Tools | None = None) -> Ended:
    model = recorded(tools or document_tools(Source("film.md", FILM_TEXT)))
    return call("eval", "questions", "--data", "q.jsonl", "--methods", "rebel", "--model", model,
                "-o", "results.jsonl", *more)  # fmt: skip


def result() -> Any:
    [one] = read_evaluation("results.jsonl").results
    return one


def test_it_answers_from_the_questions_own_document_and_is_drawn():
    done = evaluate()
    assert done.code == 0, done.err
    assert "rebel" in done.out
    row = result()
    assert row.answer == "Quistholm"
    assert row.measures["tool_calls"] == 2
    assert row.measures["grounded"] == 1
    assert row.measures["seconds"] > 0
    assert "SOLVE" in row.plan
    drawn = call("graph", "last/rebel/one")
    assert drawn.code == 0, drawn.err
    assert drawn.out.startswith("flowchart TD\n")
    assert "SOLVE#58; Who" in drawn.out
    assert "sub_1.reply_1<br/>CALL_TOOL#58; search" in drawn.out
    picture = call("graph", "last/rebel/one", "--format", "svg").out
    assert picture.startswith("<svg")
    assert "sub_1.reply_1" in picture
    data = call("graph", "last/rebel/one", "--json").json
    assert data["answer"] == ["answer"]
    assert [one["name"] for one in data["steps"] if one["name"].startswith("sub_1.")]
    trace = call("trace", "last/rebel/one").out
    assert "# within sub_1: reply_1 = CALL_TOOL(" in trace
    Path("t.plan").write_text(trace, encoding="utf-8")
    assert call("replay", "t.plan", "--library", "rebel").code == 0


def test_what_is_no_run_and_no_plan_is_told():
    evaluate()
    for name, words in (
        ("last", "name a question of it"), ("last/rebel/two", "has no steps to draw"),
        ("19990101", "No run is named 19990101"), ("no-such", "no-such"),
    ):  # fmt: skip
        done = call("graph", name)
        assert done.code != 0
        assert words in done.err
        assert len(done.told) == 1


HARBOUR = (
    replace(FILM_HOPS[0], question="Who directed the film The Glass Harbour?"),
    replace(FILM_HOPS[1], question="Where was that director born?"),
)


def test_the_recording_of_the_documentation_is_of_todays_prompts():
    """``UPDATE_DOCS=1`` makes it anew, with the replies of the scripted reader."""
    file = ROOT / "docs" / "recorded" / "rebel.jsonl"
    document = Source("harbour", (ROOT / "plans" / "examples" / "harbour.txt").read_text("utf-8"))
    recorded(document_tools(document), Reader(hops=HARBOUR))
    rows = Path("replies.jsonl").read_text(encoding="utf-8")
    about = "Written by the reader that the tests are run with (tests/scripted_models.py), "
    note = {"note": f"{about}after replies of a language model."}
    text = f"{json.dumps(note)}\n{rows}"
    if os.environ.get("UPDATE_DOCS"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text


def test_tools_of_ones_own_are_asked_and_are_part_of_the_task():
    asked: list[str] = []
    retriever = DocumentRetriever(Source("film.md", FILM_TEXT))

    async def search(request: web.Request) -> web.StreamResponse:
        asked.append(request.query["query"])
        found = retriever.search(request.query["query"], 2)
        return web.Response(text="\n\n".join(f"# {one.title}\n\n{one.text}" for one in found))

    def evaluated(name: str, url: str) -> Ended:
        write_tools(name, url)
        done = evaluate("--tools", "tools.toml", tools=load_tools("tools.toml"))
        assert done.code == 0, done.err
        assert "Unclosed" not in done.err
        return done

    with Services({"search": search}) as services:
        evaluated("towns", services.url)
        assert result().answer == "Quistholm"
        assert 'CALL_TOOL("towns"' in call("trace", "last/rebel/one").out
        # Two for the recording, and two for the run; the run again asks none.
        assert len(asked) == 4
        evaluated("towns", services.url)
        assert len(asked) == 6
        evaluated("other", services.url)
        assert len(asked) == 10
        model = recorded(load_tools("tools.toml"))
        batch = ("batch", "q.jsonl", "--strategy", "rebel", "--tools", "tools.toml")
        done = call(*batch, "--model", model, "-o", "a.jsonl")
        assert done.code == 0, done.err
        assert "Unclosed" not in done.err
        assert OWN_TOOLS in done.err
        [row] = read_rows("a.jsonl")
        assert (row["answer"], row["correct"]) == ("Quistholm", True)
        assert len(asked) == 14


def test_tools_that_cannot_be_used_stop_it_before_anything_is_asked():
    write_tools("it", "https://x.test", "[it.static]\nkey = '${NO_SUCH_KEY}'\n")
    done = evaluate("--tools", "tools.toml")
    assert done.code != 0
    assert "NO_SUCH_KEY is not set" in done.err
    assert load_tool_file("") is None


def test_a_worker_reads_its_own_environment(monkeypatch: pytest.MonkeyPatch):
    write_tools("it", "https://x.test", "[it.static]\nkey = '${TOOL_KEY}'\n")
    monkeypatch.setenv("TOOL_KEY", "sk-very-secret-key")
    tooling = load_tool_file("tools.toml")
    data = pickle.dumps(tooling)
    assert b"sk-very" not in data
    monkeypatch.delenv("TOOL_KEY")
    copy = pickle.loads(data)
    assert isinstance(copy, ToolFile)

    async def use() -> None:
        async with copy.open():
            pass

    with pytest.raises(InputError, match="TOOL_KEY is not set"):
        asyncio.run(use())


def test_tools_and_embedding_decide_what_is_kept_of_rebel_alone():
    class Other(TfIdf):
        identity = "other"

    library = load_library()
    plain = make_context(library, Demonstrations(()))
    tooling = ToolFile("tools.toml", "digest")
    kits = [plain, replace(plain, tools=tooling), replace(plain, embed=Other())]
    example = Example("one", FILM, Source("film.md", FILM_TEXT), gold="Quistholm")

    def keys(names: Sequence[str]) -> list[str]:
        return [task.key for kit in kits for task in trial_tasks([example], names, kit)]

    assert len(set(keys(["rebel"]))) == 3
    assert len(set(keys(["zero-shot"]))) == 1


# --- trees of frames ---


def plan_at(path: str, text: str) -> Entry:
    return Entry("decision", f"{path}plan", text)


def test_frames_of_one_step_over_a_list_stand_under_it():
    tree = read_tree(
        [
            plan_at("", 'a = SPLIT("x y", " ")\nb = DO(each a)\nc = COUNT(b)\n'),
            plan_at("step/b[0]/", "old = NO(1)\n"),
            plan_at("step/b[0]/", 'question: x\n\nd = SHOUT("x", CTX)\n'),
            plan_at("step/b[1]/", "question: y\n\nd = DO(1)\n"),
            plan_at("step/b[1]/step/d/", "e = SHOUT(CTX)\n"),
            plan_at("step/gone/", "f = SHOUT(2)\n"),
            Entry("decision", "step/b[0]/plan", "g = NO(2)\n", status="failed"),
        ]
    )
    assert tree is not None
    assert list(branch_lines(tree, "b")) == [
        "b[0]: x", 'b[0]: d = SHOUT("x", CTX)', "b[1]: y", "b[1]: d = DO(1)", "b[1]/d: ",
        "b[1]/d: e = SHOUT(CTX)",
    ]  # fmt: skip
    plan = as_plan(tree)
    names = ["a", "b[0].d", "b[1].d.e", "b[1].d", "b", "c"]
    assert [step.name for step in plan.steps] == names
    assert plan.steps[1].action == "SHOUT: x"
    assert [ref.name for ref in plan.returns] == ["c"]


def test_a_run_without_a_plan_has_no_tree():
    assert read_tree([Entry("decision", "run", {}), plan_at("step/a/", "b = C(1)\n")]) is None


def test_neither_tools_nor_recursion_leaves_what_the_model_knows():
    """REBEL's Tables 3 to 5 have both."""
    write_rows(
        "known.jsonl",
        {"path": "memory/1", "text": '{"answerable": false}'},
        {"path": "step/answer/1", "text": '{"answer": "Quistholm"}'},
    )
    told = ("--model", "recorded:known.jsonl", "-o", "results.jsonl", "--json")
    options = ("--methods", "rebel", "--tools", "none", "--depth", "0")
    done = call("eval", "questions", "--data", "q.jsonl", *options, *told)
    assert done.code == 0, done.err
    assert result().answer == "Quistholm"
    assert result().calls == 2
    write_rows("celebrities.json", {"Question": FILM, "Answer": ["Quistholm"], "category": "x"})
    closed = call("eval", "celebrities", "--data", "celebrities.json", *options, *told)
    assert (closed.code, closed.json["exact_match"]) == (0, 1.0)
    # The notice that tools stand in place of a search is for those who have some.
    assert prepare("rebel", "m", tools="tools.toml").notice == OWN_TOOLS
    assert prepare("rebel", "m", tools="none").notice == ""
