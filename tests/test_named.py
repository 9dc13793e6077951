"""Strategies by name: on the command line, in Python, and over a file of questions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pearl
from pearl.batch import Setup
from pearl.checker import check
from pearl.diagnostics import has_errors
from pearl.library import load_library
from pearl.llm.offline import Offline
from pearl.replay import read_records, replay
from pearl.retrieval import build_index
from pearl.source import InputError, Source
from pearl.strategies.named import STRATEGIES, find_strategy
from pearl.syntax import parse
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


def test_tools_are_for_the_strategy_that_calls_some(tmp_path: Path):
    file = tmp_path / "tools.toml"
    corpus = tmp_path / "corpus.jsonl"
    rows = [{"id": "1", "title": "Quistholm", "text": "Quistholm is a town on the river Arle."}]
    corpus.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    build_index(str(corpus), str(tmp_path / "corpus.index"))
    file.write_text(TOOLS.format(index=tmp_path / "corpus.index"), encoding="utf-8")
    nothing = Source("nothing", "Nothing is said here.")
    asked = ("On which river is Quistholm?",)
    found = pearl.ask_sync(nothing, *asked, strategy="rebel", tools=str(file), model=Offline())
    assert "Arle" in found.text
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
