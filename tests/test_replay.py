"""Recorded plans, run again: what another implementation answered with the same outputs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pearl.lang.errors import InputError
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.source import Source, read_source
from pearl.lint.checker import check, fix
from pearl.runtime.trace import Trace, read_records, replay
from tests.shell import call

Recorded = tuple[list[Trace], Library]

ROW = {
    "plan": '1. a = FIND_GHOST(CTX, "x") : find\n2. b = CONCAT("x", a) : all',
    "step_outputs": {"a": "a ghost\n", "b": "not used"},
    "open_answer": '"x"\na ghost\n\n\n',
}


def records(*rows: dict[str, object]):
    text = "\n".join(json.dumps(row) for row in rows)
    return list(read_records(Source("rows.jsonl", text)))


def test_a_row_replays_also_where_the_library_lacks_an_action():
    result = replay(records(ROW), load_library())
    assert (result.plans, result.executed, result.exact) == (1, 1, 1)
    assert (result.syntax_errors, result.check_errors) == (0, 1)
    assert result.findings == {"PRL201": 1}


def test_what_differs_or_lacks_an_output_is_named():
    wrong = {**ROW, "open_answer": "something else"}
    lacking = {**ROW, "step_outputs": {"b": "x"}}
    unrecorded = {"plan": "1. a = FIND_GHOST(CTX, x : find"}
    result = replay(records(wrong, lacking, unrecorded), load_library())
    assert (result.plans, result.executed, result.exact, result.syntax_errors) == (3, 2, 0, 1)
    assert result.differ == ["rows.jsonl:1"]
    assert "step/a" in result.failed["rows.jsonl:2"]


@pytest.mark.parametrize("text", ["[]", "{}", '{"plan": 3}', "plan"])
def test_rows_that_are_none(text: str):
    with pytest.raises(InputError, match="rows.jsonl:1"):
        list(read_records(Source("rows.jsonl", text)))


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_rows_that_cannot_be_read_are_named_and_the_others_run(as_json: tuple[str, ...]):
    good = json.dumps(ROW)
    rows = [
        *["{}"] * 12, good, "{}", good, '{"plan": "a", "step_outputs": 3}', "no json",
        '{"plan": "é"}',
    ]  # fmt: skip
    Path("q.jsonl").write_text("\n".join(rows), encoding="latin-1")
    done = call("replay", "q.jsonl", *as_json)
    assert done.code == 1
    told = {int(row) for row in re.findall(r"q\.jsonl:(\d+)", done.err)}
    assert told == {*range(1, 19)} - {13, 15}
    assert "q.jsonl:18 is not UTF-8 (byte 10 is 0xe9)" in done.err
    if as_json:
        assert (done.json["exact"], len(done.json["unreadable"])) == (2, 16)
    else:
        assert "2 with exactly the recorded" in done.out


def test_rows_without_outputs_are_told_to_have_none():
    row = {key: value for key, value in ROW.items() if key not in ("step_outputs", "open_answer")}
    Path("q.jsonl").write_text(json.dumps(row), encoding="utf-8")
    assert "None was run: no row has step_outputs." in call("replay", "q.jsonl").out


@pytest.fixture
def recorded(shared: Path):
    """The recorded plans, and the library that they were written for."""
    folder = shared / "pearl_gpt4"
    source = read_source(str(folder / "train.ctx_eval_long.jsonl"))
    return list(read_records(source)), load_library(str(folder / "mined_actions_81.txt"))


def test_every_recorded_plan_reads_and_prints_back(recorded: Recorded):
    found, _ = recorded
    assert len(found) == 733
    for record in found:
        parsed = parse(record.source)
        assert not parsed.broken
        assert not parsed.aside
        assert parse(print_plan(parsed.plan)).plan == parsed.plan


def test_every_recorded_answer_is_given_exactly(recorded: Recorded):
    result = replay(*recorded)
    assert (result.executed, result.exact) == (368, 368)
    # Three plans call an action that only another question's plan declared.
    assert result.check_errors == 3


def test_recorded_plans_keep_their_answers_under_safe_fixes(recorded: Recorded):
    found, library = recorded
    changed = [
        replace(record, source=fixed)
        for record in found
        if record.answer is not None
        and any(one.fix for one in check(parse(record.source), library))
        and (fixed := fix(record.source, library)) != record.source
    ]
    assert changed
    result = replay(changed, library)
    assert result.exact == result.executed == len(changed)


@pytest.mark.parametrize("value", [True, 3, 2.5, ["a", "b"], "text"])
def test_outputs_and_answers_may_be_any_json(value: object):
    text = value if isinstance(value, str) else json.dumps(value)
    row = {"plan": "1. a = FIND_GHOST(CTX)", "step_outputs": {"a": value}, "open_answer": text}
    assert replay(records(row), load_library()).executed == 1
    number = {"plan": "1. n = COUNT([1, 2])", "step_outputs": {"x": ""}, "open_answer": 2}
    assert replay(records(number), load_library()).exact == 1


def test_rows_are_lines_and_nothing_else_is():
    row = json.dumps({"plan": "1. a = CONCAT(\u2028)"}, ensure_ascii=False)
    assert len(list(read_records(Source("rows.jsonl", f"{row}\r\n\n{row}\n")))) == 2


def test_a_trace_without_an_answer_is_only_checked():
    trace = '1. a = FIND_CHARACTER(CTX, "x")\n# value a = "b"\n'
    result = replay(list(read_records(Source("t.plan", trace))), load_library())
    assert (result.plans, result.executed, result.failed) == (1, 0, {})
