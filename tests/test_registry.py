"""Strategies by name: on the command line, in Python, and over a file of questions."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pearl
from pearl.jobs.batch import Setup
from pearl.lang.errors import InputError
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.models.endpoint_replies import _without_thoughts
from pearl.models.offline import Offline
from pearl.models.recorded import Recorded, load_recording
from pearl.prompts.calls import Demonstration
from pearl.retrieval.index import build_index
from pearl.retrieval.retriever import DocumentRetriever
from pearl.retrieval.terms import sentences
from pearl.retrieval.text_splitter import spans
from pearl.runtime.calls import Entry
from pearl.runtime.evidence import _QUOTED, evidence, passages_given
from pearl.strategies.preparation import prepare
from pearl.strategies.registry import STRATEGIES, Limits, StrategySettings
from tests.conftest import ROOT
from tests.growth import assert_linear
from tests.shell import Result, call, one_line, write_rows

DOCUMENT = ROOT / "plans" / "examples" / "harbour.txt"
QUESTION = "What is the place of birth of the director of film The Glass Harbour?"
REPLIES = ROOT / "tests" / "replies" / "harbour.jsonl"
"""What is replied to each strategy, by the path of the call."""
NAMES = [spec.name for spec in STRATEGIES]
OWN = [spec.name for spec in STRATEGIES if not spec.demonstrations]
TOOLS = """\
[library]
about = "Finds paragraphs in the library that bear on some words."
kind = "search"
index = "{index}"
passages = 3
"""


def asked(name: str, *more: str | Path) -> tuple[str | Path, ...]:
    return ("ask", DOCUMENT, QUESTION, "--strategy", name, "--model", f"recorded:{REPLIES}", *more)


@pytest.mark.parametrize("name", NAMES)
def test_each_strategy_answers_and_its_trace_replays_with_the_library_it_names(name: str):
    found = call(*asked(name, "--json"))
    assert found.code == 0, found.err
    assert found.json["answer"] == "Quistholm"
    Path("trace.plan").write_text(call("trace", "last").out, encoding="utf-8")
    linted = call("lint", "trace.plan", "--json").json
    assert "error" not in {one["severity"] for one in linted}
    replayed = call("replay", "trace.plan", "--json").json
    assert (replayed["exact"], replayed["failed"], replayed["check_errors"]) == (1, {}, 0)
    again = call(*asked(name, "--json")).json
    assert (again["answer"], again["kept"]) == ("Quistholm", found.json["calls"])


@pytest.mark.parametrize("name", ["fsm1", "fsm2", "rebel", "react"])
def test_examples_make_other_prompts_of_every_form(name: str):
    plain, again, shown = (
        call(*asked(name, "--examples", str(count), "--json")).json for count in (0, 0, 1)
    )
    assert (plain["answer"], shown["answer"]) == ("Quistholm", "Quistholm")
    assert again["kept"] == plain["calls"]
    # A tool's input is a form of the tool's own, without examples.
    assert shown["kept"] == (2 if name == "rebel" else 0)


@pytest.mark.parametrize("name", ["decomp", "react", "rebel"])
def test_the_evidence_is_what_was_looked_up_and_holds_the_answers_words(name: str):
    text = DOCUMENT.read_text(encoding="utf-8")
    found = pearl.ask_sync(DOCUMENT, QUESTION, strategy=name, model=load_recording(str(REPLIES)))
    assert found.evidence
    for quote in found.evidence:
        assert quote.span is not None
        assert text[quote.span.start : quote.span.end] == quote.text
        assert "Quistholm" in quote.text
        assert f"{quote.step} = " in found.plan


@pytest.mark.parametrize("name", [spec.name for spec in STRATEGIES if spec.needs_model])
def test_a_strategy_that_needs_a_language_model_says_so_before_anything_is_sent(name: str):
    needs = "needs a language model: set OPENAI_API_KEY or OPENAI_BASE_URL, and --model NAME, or "
    needs += "use --model local."
    for command in (("ask", DOCUMENT, QUESTION), ("batch", _questions(), "-o", "out.jsonl")):
        for model in ((), ("--model", "offline")):
            found = call(*command, "--strategy", name, *model)
            assert one_line(found, 2) == f"{name} {needs}"
    with pytest.raises(InputError, match=f"{name} {needs}"):
        pearl.ask_sync(DOCUMENT, QUESTION, strategy=name, model=Offline(), store="here.db")
    assert not Path("here.db").exists()
    assert not Path(".pearl").exists()


@pytest.mark.parametrize("name", [
    "decomp", "cot-rolled-out", "least-to-most", "normal", "normal-evidence", "cot-answer",
    "cot-evidence", "sp-cot", "sp-cot-evidence", "react", "react-evidence", "fsm1", "fsm2",
    "rebel", "tmn-model",
])  # fmt: skip
def test_a_method_that_needs_a_language_model_is_refused_before_the_job_begins(name: str):
    data = ROOT / "plans" / "examples" / "lighthouse.questions.jsonl"
    found = call("eval", "questions", "--data", data, "--methods", f"zero-shot,{name}")
    assert one_line(found, 2).startswith(f"{name} needs a language model: set OPENAI_API_KEY")
    assert not Path(".pearl").exists()


def test_the_command_line_names_every_strategy():
    shown = " ".join(call("ask", "--help").out.split())
    assert all(f"{name} (" in shown or f"{name}," in shown for name in NAMES)
    unknown = call("ask", DOCUMENT, QUESTION, "--strategy", "tot")
    assert unknown.code == 2
    assert "There is no strategy tot: use one of pearl, decomp, fsm1" in unknown.err


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize(("given", "why"), [
    (("--library", "core"), "has actions of its own: leave the library out."),
    (("--demos", "/nonexistent"), "is shown no plans: leave the demonstrations out."),
])  # fmt: skip
def test_a_strategy_is_given_nothing_that_it_would_pass_over(
    name: str, given: tuple[str, ...], why: str
):
    for command in (("ask", DOCUMENT, QUESTION), ("batch", _questions(), "-o", "out.jsonl")):
        assert one_line(call(*command, "--strategy", name, *given), 2) == f"{name} {why}"
    library = load_library("core") if "--library" in given else None
    shown = [] if library else [Demonstration("Q?", "1. a = CONCAT([]) : It")]
    with pytest.raises(InputError, match=f"{name} {why}"):
        pearl.ask_sync(DOCUMENT, QUESTION, strategy=name, library=library, demonstrations=shown)


def test_tools_are_for_the_strategy_that_calls_some(tmp_path: Path):
    file = tmp_path / "tools.toml"
    corpus = tmp_path / "corpus.jsonl"
    rows = [{"id": "1", "title": "Quistholm", "text": "Quistholm is a town on the river Arle."}]
    write_rows(corpus, *rows)
    build_index(str(corpus), str(tmp_path / "corpus.index"))
    file.write_text(TOOLS.format(index=tmp_path / "corpus.index"), encoding="utf-8")
    nothing = Source("nothing", "Nothing is said here.")
    model = Recorded({
        "split/1": '{"sub_questions": []}', "memory/1": '{"answerable": false}',
        "tool/1/1": '{"tool": "library"}', "tool/1/input/1": '{"query": "Quistholm river"}',
        "step/answer/1": '{"answer": "Arle"}',
    })  # fmt: skip
    question = "On which river is Quistholm?"
    found = pearl.ask_sync(
        nothing, question, strategy="rebel", tools=str(file), model=model, store="tools.db"
    )
    assert found.text == "Arle"
    assert not found.evidence
    with closing(sqlite3.connect("tools.db")) as store:
        kept = store.execute("select scope, text from replies where model = 'tool library'")
        [(run, reply), *_] = kept.fetchall()
    assert run == found.run
    assert "river Arle" in reply
    assert 'CALL_TOOL("library"' in found.plan
    with pytest.raises(InputError, match="pearl asks no tools: take the strategy rebel"):
        pearl.ask_sync(DOCUMENT, question, tools=str(file), model=Offline())
    with pytest.raises(InputError, match=r"gone\.toml"):
        pearl.ask_sync(DOCUMENT, question, strategy="rebel", tools="gone.toml", model=model)


def test_demonstrations_have_two_names():
    for option in ("--demos", "--demonstrations"):
        found = call("ask", DOCUMENT, QUESTION, option, "no-such-folder", "--model", "offline")
        assert one_line(found, 2).startswith("no-such-folder is no folder: name one")


def _questions(**more: Any) -> Path:
    row = {"id": "1", "question": QUESTION, "document": DOCUMENT.read_text(encoding="utf-8")}
    return write_rows("questions.jsonl", {**row, **more})


def _row(*more: str, **given: Any) -> tuple[Result, dict[str, Any]]:
    """A batch of one question, and its answer."""
    found = call("batch", _questions(**given), "-o", "out.jsonl", "--json", *more)
    return found, json.loads(Path("out.jsonl").read_text(encoding="utf-8"))


PLANS = {
    "open_domain": '1. f = RETRIEVE("Jonas Pell", 1) : Look\n2. b = READ(f, "Born where?") : Read',
    "": '1. a = FIND_REASON(CTX, "Jonas Pell") : Find',
}


@pytest.mark.parametrize(("strategy", "library"), [
    ("pearl", "open_domain"), ("decomp", "open_domain"), ("decomp", ""), ("fsm1", ""),
    ("rebel", ""),
])  # fmt: skip
def test_a_rows_own_plan_runs_whatever_the_strategy(strategy: str, library: str):
    Path("row.plan").write_text(PLANS[library], encoding="utf-8")
    write_rows("said.jsonl", *({"path": f"step/{name}", "text": "Quistholm"} for name in "ab"))
    chosen = ("--library", library) if library else ()
    model = ("--model", "recorded:said.jsonl")
    alone = call("run", "row.plan", DOCUMENT, *chosen, *model, "--json")
    assert alone.code == 0, alone.err
    found, row = _row("--strategy", strategy, *chosen, *model, plan=PLANS[library])
    assert found.code == 0, row["error"]
    assert row["answer"] == alone.json["answer"] == "Quistholm"


def test_the_embedding_is_part_of_what_is_asked_of_rebel_alone(monkeypatch: pytest.MonkeyPatch):
    setups = {name: Setup(prepare(name, "m")) for name in NAMES}
    before = {name: setup.digest() for name, setup in setups.items()}
    monkeypatch.setenv("PEARL_EMBEDDING_MODEL", "some-model")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    changed = {name for name, setup in setups.items() if setup.digest() != before[name]}
    assert changed == {"rebel"}


def test_the_strategy_and_what_a_rows_plan_may_call_are_part_of_what_is_asked():
    prepared = prepare("pearl", "m", load_library("letters"), ())
    specs = [replace(prepared, spec=spec) for spec in STRATEGIES]
    assert len({Setup(one).digest() for one in specs}) == len(NAMES)
    digest = Setup(prepared).digest()
    assert Setup(prepared, plans=load_library("letters")).digest() == digest
    assert Setup(prepared, plans=load_library("core")).digest() != digest


def test_a_digest_tells_limits_apart_and_is_the_same_where_they_are_the_usual_ones():
    chosen = [{}, {"depth": 3}, {"steps": 3}, {"calls": 3}, {"width": 3}]
    prepared = prepare("decomp", "m")
    digests = [
        Setup(replace(prepared, settings=StrategySettings(limits=Limits(**limits)))).digest()
        for limits in chosen
    ]
    assert len(set(digests)) == len(chosen)
    assert digests[0] == Setup(prepared).digest()


def test_a_sentence_that_holds_an_answers_words_is_found():
    text = "# Vell\n\nVell is a town. Ann lives there.\n\nVell\n\nNo hill is near.\n"
    document, paths = Source("d", text), ("value/a", "step/b[0]/value/c", "step/d/value/e")

    def found(answer: str, *values: object) -> list[tuple[str, str]]:
        given = zip(paths, values, strict=False)
        entries = [Entry("decision", path, value) for path, value in given]
        return [(one.step, one.text) for one in passages_given(entries, answer, document)]

    town, hill = "Vell: Vell is a town. Ann lives there.", "No hill is near."
    assert found("vell", [town]) == [("a", "Vell is a town.")]
    assert found("Ann", "", [[town]]) == [("b", "Ann lives there.")]
    assert found("Ann\na hill.\nhill", [town], [hill]) == [("b", hill)]
    assert found("An", [town]) == found("no", [hill]) == found("Vell", "Vell") == []
    assert found("Ann", "Ann lives there, they say.") == found("", [town]) == []


def test_a_long_quotation_is_looked_up_in_linear_time():
    def look_up(text: str) -> None:
        document, words = Source("d", text), text[len(text) // 2 :] + " x"
        given = {"a": "A", "evidence a": [words]}
        plan = parse("a = F(CTX)").plan
        assert [one.span for one in evidence(plan, given, ["a"], document)] == [None]
        assert passages_given([Entry("decision", "value/a", text)], words, document) == []

    assert_linear(look_up, lambda size: "0  0 " * size, 300)


@pytest.mark.parametrize(
    ("before", "piece"), [("# a", " "), ("# a", "#"), ("a", " "), ("", "\u0301")]
)
def test_a_document_is_read_in_linear_time(before: str, piece: str):
    def read(text: str) -> None:
        assert DocumentRetriever(Source("d", text)).paragraphs[-1].span.end <= len(text)
        assert sentences(text)
        assert spans(text, 40)

    assert_linear(read, lambda size: f"{before}{piece * size}x\n\nThe end.", 600)


def test_a_quotation_is_found_whatever_white_space_is_between_its_words():
    document = Source("d", "He  said\n\tno. She said no.")
    assert [document.find(words) for words in ("she", " ", "")] == [None] * 3
    for words, there in (
        ("said no.\n", "said no."), ("said\tno.", "said\n\tno."), ("d  no", "d\n\tno"),
        ("e said no", "e said no"),
    ):  # fmt: skip
        span = document.find(words)
        assert span
        assert document.at(span) == there


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (_without_thoughts, lambda size: f"{' ' * size}{'a' * size}</thinking>"),
        (lambda text: list(_QUOTED.finditer(text)), lambda size: "\u201c" * size),
    ],
)
def test_a_reply_of_one_mark_holds_nothing_up(
    work: Callable[[str], object], text: Callable[[int], str]
):
    assert_linear(work, text, 2000)
