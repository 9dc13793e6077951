"""Strategies by name: on the command line, in Python, and over a file of questions."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import pearl
from pearl.jobs.batch import Setup
from pearl.lang.diagnostics import has_errors
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import InputError, Source
from pearl.lint.checker import check
from pearl.models.offline import Offline
from pearl.prompts.calls import Demonstration
from pearl.retrieval.index import build_index
from pearl.run.evidence import passages_given
from pearl.run.journal import Entry
from pearl.run.replay import read_records, replay
from pearl.strategies.registry import STRATEGIES, find_strategy
from tests.conftest import ROOT
from tests.shell import call

DOCUMENT = ROOT / "plans" / "examples" / "harbour.txt"
QUESTION = "What is the place of birth of the director of film The Glass Harbour?"
NAMES = [one.name for one in STRATEGIES]
TOOLS = """\
[library]
about = "Finds paragraphs in the library that bear on some words."
kind = "search"
index = "{index}"
passages = 3
"""


@pytest.mark.parametrize("name", NAMES)
def test_each_strategy_answers_and_its_trace_replays(name: str):
    asked = ("ask", DOCUMENT, QUESTION, "--strategy", name, "--json", "--model", "offline")
    found = call(*asked, "--store", "here.db")
    assert found.code == 0, found.err
    library = load_library(*find_strategy(name).libraries)
    parsed = parse(found.json["plan"])
    assert not parsed.broken
    assert not has_errors(check(parsed, library))
    trace = Source("trace.plan", call("trace", "last", "--store", "here.db").out)
    [record] = read_records(trace)
    assert record.answer == found.json["answer"]
    replayed = replay([record], library)
    assert (replayed.exact, replayed.failed) == (1, {})
    again = call(*asked, "--store", "here.db").json
    assert (again["answer"], again["kept"]) == (found.json["answer"], found.json["calls"])


@pytest.mark.parametrize("name", ["decomp", "fsm1", "fsm2", "rebel"])
def test_hops_find_what_one_paragraph_does_not_say(name: str):
    found = pearl.ask_sync(DOCUMENT, QUESTION, strategy=name, model=Offline())
    assert found.text == "Quistholm"


def test_the_command_line_names_every_strategy():
    shown = " ".join(call("ask", "--help").out.split())
    assert all(f"{name} (" in shown or f"{name}," in shown for name in NAMES)
    unknown = call("ask", DOCUMENT, QUESTION, "--strategy", "tot")
    assert unknown.code == 2
    assert "There is no strategy tot: use one of pearl, decomp, fsm1" in unknown.err


def test_a_strategy_with_actions_of_its_own_takes_no_others():
    for command in (
        ("ask", DOCUMENT, QUESTION),
        ("batch", _questions(Path()), "-o", "out.jsonl"),
    ):
        found = call(*command, "--strategy", "fsm1", "--library", "core", "--model", "offline")
        assert found.code == 2, command
        assert "fsm1 has actions of its own: leave" in found.err


def test_a_strategy_that_is_shown_no_plans_takes_none(tmp_path: Path):
    for name in (one.name for one in STRATEGIES if not one.demonstrations):
        for command in (
            ("ask", DOCUMENT, QUESTION),
            ("batch", _questions(tmp_path), "-o", tmp_path / "out.jsonl"),
        ):
            found = call(*command, "--strategy", name, "--demos", "/nonexistent", "--model",
                         "offline")  # fmt: skip
            assert (found.code, f"{name} is shown no plans: leave --demos out" in found.err) == (
                2, True,
            )  # fmt: skip
    with pytest.raises(InputError, match="fsm1 is shown no plans"):
        pearl.ask_sync(
            DOCUMENT, QUESTION, strategy="fsm1", model=Offline(),
            demonstrations=[Demonstration("Q?", "1. a = CONCAT([]) : It")],
        )  # fmt: skip


@pytest.mark.parametrize("name", ["decomp", "react", "rebel"])
def test_the_evidence_is_what_was_looked_up_and_holds_the_answers_words(name: str):
    text = DOCUMENT.read_text(encoding="utf-8")
    found = pearl.ask_sync(DOCUMENT, QUESTION, strategy=name, model=Offline())
    assert found.evidence
    for quote in found.evidence:
        assert quote.span is not None
        assert text[quote.span.start : quote.span.end] == quote.text
        assert found.words in quote.text
        assert f"{quote.step} = " in found.plan


def test_tools_are_for_the_strategy_that_calls_some(tmp_path: Path):
    file = tmp_path / "tools.toml"
    corpus = tmp_path / "corpus.jsonl"
    rows = [{"id": "1", "title": "Quistholm", "text": "Quistholm is a town on the river Arle."}]
    corpus.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    build_index(str(corpus), str(tmp_path / "corpus.index"))
    file.write_text(TOOLS.format(index=tmp_path / "corpus.index"), encoding="utf-8")
    nothing = Source("nothing", "Nothing is said here.")
    asked = ("On which river is Quistholm?",)
    found = pearl.ask_sync(
        nothing, *asked, strategy="rebel", tools=str(file), model=Offline(), store="tools.db"
    )
    assert "Arle" in found.text
    assert not found.evidence
    with closing(sqlite3.connect("tools.db")) as store:
        kept = store.execute("select scope, text from replies where model = 'tool library'")
        [(run, reply), *_] = kept.fetchall()
    assert run == found.run
    assert "river Arle" in reply
    assert 'CALL_TOOL("library"' in found.plan
    with pytest.raises(InputError, match="pearl asks no tools: take the strategy rebel"):
        pearl.ask_sync(DOCUMENT, QUESTION, tools=str(file), model=Offline())
    with pytest.raises(InputError, match=r"gone\.toml"):
        pearl.ask_sync(DOCUMENT, QUESTION, strategy="rebel", tools="gone.toml", model=Offline())


def test_demonstrations_have_two_names():
    asked = ("ask", DOCUMENT, 'Reverse the sequence "a1, b2, c3".', "--strategy", "decomp",
             "--library", "reversal", "--model", "offline", "--json")  # fmt: skip
    for option in ("--demos", "--demonstrations"):
        assert call(*asked, option, ROOT / "plans" / "reversal").json["answer"] == "c3, b2, a1"


def _questions(folder: Path) -> Path:
    rows = [
        {"id": str(at), "question": question, "document": DOCUMENT.read_text(encoding="utf-8")}
        for at, question in enumerate((QUESTION, "On which river is Quistholm?"))
    ]
    file = folder / "questions.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


def test_a_file_of_questions_is_answered_by_a_strategy(tmp_path: Path):
    out = tmp_path / "out.jsonl"
    found = call("batch", _questions(tmp_path), "-o", out, "--strategy", "decomp", "--json",
                 "--model", "offline")  # fmt: skip
    assert found.code == 0, found.err
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert rows[0]["answer"] == "Quistholm"
    assert "RETRIEVE" in rows[1]["plan"]


def test_the_strategy_is_part_of_what_is_asked():
    library = load_library()
    digests = {Setup(library, strategy=name).digest() for name in NAMES}
    assert len(digests) == len(NAMES)


PLANS = {
    "open_domain": '1. f = RETRIEVE("Jonas Pell", 1) : Look\n2. b = READ(f, "Born where?") : Read',
    "": '1. a = FIND_REASON(CTX, "Jonas Pell") : Find',
}


@pytest.mark.parametrize(("strategy", "library"), [
    ("pearl", "open_domain"), ("decomp", "open_domain"), ("decomp", ""), ("fsm1", ""),
    ("rebel", ""),
])  # fmt: skip
def test_a_rows_own_plan_runs_whatever_the_strategy(tmp_path: Path, strategy: str, library: str):
    plan = tmp_path / "row.plan"
    plan.write_text(PLANS[library], encoding="utf-8")
    chosen = ("--library", library) if library else ()
    alone = call("run", plan, DOCUMENT, *chosen, "--model", "offline", "--json")
    assert alone.code == 0, alone.err
    file, out = tmp_path / "own.jsonl", tmp_path / "out.jsonl"
    row = {"id": "1", "question": QUESTION, "document": DOCUMENT.read_text(encoding="utf-8"),
           "plan": plan.read_text(encoding="utf-8")}  # fmt: skip
    file.write_text(f"{json.dumps(row)}\n", encoding="utf-8")
    found = call("batch", file, "-o", out, "--strategy", strategy, *chosen, "--model", "offline")
    answered = json.loads(out.read_text(encoding="utf-8"))
    assert found.code == 0, answered["error"]
    assert answered["answer"] == alone.json["answer"]


def test_the_embedding_is_part_of_what_is_asked_of_rebel_alone(monkeypatch: pytest.MonkeyPatch):
    library = load_library()
    before = {name: Setup(library, strategy=name).digest() for name in NAMES}
    monkeypatch.setenv("PEARL_EMBEDDING_MODEL", "some-model")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    after = {name: Setup(library, strategy=name).digest() for name in NAMES}
    assert {name for name in NAMES if before[name] != after[name]} == {"rebel"}


def test_what_a_rows_plan_may_call_is_part_of_what_is_asked():
    library, other = load_library("fsm"), load_library("core")
    assert Setup(library).digest() == Setup(library, plans=library).digest()
    assert Setup(library).digest() != Setup(library, plans=other).digest()


def test_a_sentence_that_holds_an_answers_words_is_found():
    document = Source(
        "d", "# Vell\n\nVell is a town. Ann lives there.\n\nVell\n\nNo hill is near.\n"
    )

    def found(answer: str, *values: object) -> list[tuple[str, str]]:
        entries = [
            Entry("decision", path, value)
            for path, value in zip(
                ("value/a", "step/b[0]/value/c", "step/d/value/e"), values, strict=False
            )
        ]
        return [(one.step, one.text) for one in passages_given(entries, answer, document)]

    town, hill = "Vell: Vell is a town. Ann lives there.", "No hill is near."
    assert found("vell", [town]) == [("a", "Vell is a town.")]
    assert found("Ann", "", [[town]]) == [("b", "Ann lives there.")]
    assert found("Ann\na hill.\nhill", [town], [hill]) == [("b", hill)]
    assert found("An", [town]) == found("no", [hill]) == found("Vell", "Vell") == []
    assert found("Ann", "Ann lives there, they say.") == found("", [town]) == []


@pytest.mark.parametrize("name", ["decomp", "fsm2", "rebel", "react"])
def test_a_trace_is_checked_and_replayed_with_the_library_it_names(name: str):
    document = "# Holt & Sons\n\nHolt & Sons was founded by Ada Holt in 1880.\n"
    Path("firm.md").write_text(document, encoding="utf-8")
    asked = ("ask", "firm.md", "Who founded Holt & Sons?", "--strategy", name)
    assert call(*asked, "--model", "offline").code == 0
    trace = call("trace", "last").out
    Path("firm.plan").write_text(trace, encoding="utf-8")
    found = call("lint", "firm.plan", "--json").json
    assert [one for one in found if one["severity"] == "error"] == []
    replayed = call("replay", "firm.plan", "--json").json
    assert (replayed["exact"], replayed["check_errors"]) == (1, 0)
