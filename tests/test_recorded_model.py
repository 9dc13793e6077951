"""Answers from a file: what `pearl cache export` writes, or one object a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pearl
from pearl.lang.source import Source
from pearl.models.offline import Offline
from pearl.models.recorded import Recorded, load_recording
from tests.runs import entries
from tests.shell import call, write_rows

TOWN = Source("town.txt", "Ada lives in Ulm. Bo lives in Kiel.\n\nNobody lives in Rest.\n")
STORE = "s.db"
PLAN = """
a = FIND_CHARACTER(CTX, "Ada") : who
b = FIND_ALL(CTX, "people") : list them
c = FIND_LOCATION(CTX, each b) : where
"""


def test_a_run_s_replies_answer_the_same_question_again(examples: Path):
    question = "Why does Mara leave the lighthouse?"
    options = ["to nurse her aunt", "to put it right"]
    first = pearl.ask_sync(
        examples / "lighthouse.txt", question, options=options, model=Offline(), store=STORE
    )
    assert call("cache", "export", "last", "--store", STORE, "-o", "r.jsonl").code == 0
    model = pearl.choose_model("recorded:r.jsonl")
    assert model.identity == Offline().identity
    again = pearl.ask_sync(examples / "lighthouse.txt", question, options=options, model=model)
    assert (again.text, again.evidence, again.plan) == (first.text, first.evidence, first.plan)
    assert again.option == first.option
    assert again.calls == first.calls
    # Recorded or not, nobody understood anything.
    assert first.lacks
    assert again.lacks == first.lacks
    assert again.notice
    assert first.notice.endswith(again.notice)


def test_a_missing_answer_is_an_error_that_names_the_call(tmp_path: Path):
    replies = {"step/a": "Ada is here.", "step/b": '["Ada", "Bo"]', "step/c[0]": "Ulm"}
    rows = ({"path": path, "text": text} for path, text in replies.items())
    path = write_rows(tmp_path / "r.jsonl", *rows)
    with pytest.raises(pearl.RunError, match=r"has no answer for the call step/c\[1\]"):
        pearl.run_sync(PLAN, TOWN, model=load_recording(path))
    with pytest.raises(pearl.ModelError, match="has no answer for the call plan/1") as caught:
        pearl.ask_sync(TOWN, "Who?", model=load_recording(path))
    assert caught.value.reason == "recording"


def test_a_key_counts_before_a_path():
    plan = "a = SUMMARIZE(CTX) : all"
    by_path = Recorded({"step/a": "by path"})
    pearl.run_sync(plan, TOWN, model=by_path, store=STORE)
    (made,) = [entry for entry in entries(STORE) if entry.kind == "call"]
    answers = {"step/a": "by path", made.call_key: "by key"}
    model = Recorded(answers, identity=by_path.identity)
    assert pearl.run_sync(plan, TOWN, model=model).text == "by key"


def test_an_answer_may_be_empty_or_hold_any_line_separator(tmp_path: Path):
    path = tmp_path / "r.jsonl"
    line = json.dumps({"path": "step/a", "text": "one\u2028two\x85three"}, ensure_ascii=False)
    path.write_text(f"{line}\n\n", encoding="utf-8")
    plan = "a = SUMMARIZE(CTX) : all"
    said = pearl.run_sync(plan, TOWN, model=load_recording(str(path))).text
    assert said == "one\u2028two\x85three"
    write_rows(path, {"path": "step/a", "text": ""})
    assert pearl.run_sync(plan, TOWN, model=load_recording(str(path))).text == ""


def test_rows_without_a_text_are_no_answers(tmp_path: Path):
    path = write_rows(
        tmp_path / "r.jsonl",
        {"path": "step/a", "value": "no"},
        {"path": "step/a", "key": "k", "text": "yes"},
        {"path": "step/a", "text": None},
        ["neither"],
    )
    assert load_recording(path).answers == {"step/a": "yes", "k": "yes"}


def test_two_recordings_do_not_count_as_one_model():
    one, two = Recorded({"step/a": "yes"}), Recorded({"step/a": "no"})
    assert one.identity != two.identity
    plan = "a = SUMMARIZE(CTX) : all"
    answers = [pearl.run_sync(plan, TOWN, model=model, store=STORE).text for model in (one, two)]
    assert answers == ["yes", "no"]


OF_TWO = (
    '{"key": "k", "text": "yes", "identity": "one"}\n'
    '{"key": "j", "text": "no", "identity": "two"}\n'
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "does not exist"),
        (OF_TWO, "answers of 2 models: export one run"),
        ("{}\n", "holds no recorded answers"),
        ("not json\n", r"r.jsonl:1 is not JSON"),
        ('{"path": "a", "text": "b"}\n{"pa', r"r.jsonl:2 is not JSON"),
        ("[" * 100_000, r"r.jsonl:1 is nested too deep"),
        ("", "is empty"),
    ],
)
def test_a_file_that_is_no_recording_is_one_line(tmp_path: Path, text: str | None, words: str):
    path = tmp_path / "r.jsonl"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(pearl.InputError, match=words) as caught:
        pearl.choose_model(f"recorded:{path}")
    assert len(str(caught.value).splitlines()) == 1
