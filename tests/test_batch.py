"""Batches: questions in, answers out; gone on with, edited, limited, compared."""

from __future__ import annotations

import gc
import itertools
import json
import re
import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

import pearl
from pearl.cli.batch import _resume_command
from pearl.cli.inputs import open_existing
from pearl.cli.output import follow_up
from pearl.jobs.estimate import Estimate, Share
from pearl.jobs.question_file import parse_question, read_index
from pearl.jobs.workers import CUT
from pearl.lang.errors import InputError
from pearl.lang.values import digest
from pearl.models.base import Usage
from pearl.models.middleware import rate_limit, retry
from pearl.models.tokens import NO_PRICES
from pearl.runtime.loop import RunError
from pearl.store.history import RunFilter, list_runs
from tests.runs import entries, runs
from tests.server import Script, Server, completion, failing, resetting, sending, stalling
from tests.shell import STORY, Result, call, one_line, write_rows

STORE = Path(".pearl/store.db")
PLAN = """\
1. a = FIND_EVENT(CTX, "{about}") : Find it
2. b = FIND_REASON(CTX, a) : Find why, of {about}
3. c = FIND_CHARACTER(CTX, "{about}") : Find who
4. d = CONCAT(b, c) : Both
"""


def write(*rows: dict[str, Any], path: str = "q.jsonl") -> str:
    Path("story.txt").write_text(STORY, encoding="utf-8")
    write_rows(path, *rows)
    return path


def question(name: str, about: str = "", **more: Any) -> dict[str, Any]:
    plan = PLAN.format(about=about or name)
    return {"id": name, "document": "story.txt", "question": f"About {name}?", "plan": plan, **more}


def batch(*args: str) -> Result:
    return call("batch", "q.jsonl", "-o", "a.jsonl", *args)


def answers() -> dict[str, dict[str, Any]]:
    lines = Path("a.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


def shown_of(run: str) -> str:
    """A run as a terminal has it, its columns one space apart."""
    return re.sub(" {2,}", " ", call("runs", "show", run).out)


def page_of(name: str) -> str:
    """The page of a run, or of a question of it."""
    assert call("runs", "show", name, "--html", "p.html").code == 0
    return Path("p.html").read_text(encoding="utf-8")


def saying(words: str) -> Script:
    """Answers every step with these words, and an option with A."""
    return lambda body: "A" if "option's letter" in body["messages"][1]["content"] else words


def answered(serve: Any, *rows: dict[str, Any]) -> Server:
    """A batch of rows, by an endpoint that says yes to everything."""
    server: Server = serve(saying("Yes."))
    write(*rows)
    batch()
    return server


def test_every_row_is_answered_in_order_and_running_it_again_sends_nothing(serve: Any):
    server = serve(saying("It closed."))
    write(*(question(f"q{at}") for at in range(7)))
    result = batch("--json")
    assert result.code == 0
    assert list(answers()) == [f"q{at}" for at in range(7)]
    told = result.json
    assert told["answered"] == told["questions"] == 7
    assert told["calls"] == {"made": 21, "kept": 0, "in_vain": 0}
    row = answers()["q3"]
    assert (row["status"], row["calls"], row["correct"]) == ("answered", 3, None)
    assert row["answer"] == "It closed.\nIt closed."
    first = Path("a.jsonl").read_bytes()
    Path("a.jsonl").unlink()
    assert batch("--json").json["calls"]["made"] == 0
    assert Path("a.jsonl").read_bytes() == first
    assert len(server.asked) == 21
    assert len(runs(STORE)) == 1
    # What is kept is counted, and let go.
    stats = call("cache", "stats", "--json").json
    assert [model["replies"] for model in stats["models"]] == [21]
    for age, gone in (("1d", {"runs": 0, "replies": 0}), ("0d", {"runs": 1, "replies": 21})):
        assert call("cache", "prune", "--older-than", age, "--json").json == gone


def test_python_looks_for_cycles_seldom_while_a_batch_runs_and_as_before_after_it(
    serve: Any, request: pytest.FixtureRequest
):
    of_tests, before, during = gc.get_threshold(), (700, 10, 10), list[tuple[int, int, int]]()
    request.addfinalizer(lambda: (gc.freeze(), gc.set_threshold(*of_tests)))
    gc.unfreeze()
    gc.set_threshold(*before)

    def script(_: dict[str, Any]) -> str:
        during.append(gc.get_threshold())
        return "It closed."

    serve(script)
    write(question("q1"))
    assert batch().code == 0
    assert all(threshold > before for threshold in during)
    assert len(during) == 3
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
    # What was frozen by whoever runs a batch, as conftest does, stays so.
    gc.freeze()
    write(question("q2"))
    assert batch().code == 0
    assert gc.get_freeze_count() > 0


def test_a_document_may_stand_in_its_row(serve: Any):
    server = serve(saying("Yes."))
    write(question("a", document="One line.\nAnother."), question("b", document={"text": "Short."}))
    assert batch().code == 0
    asked = "".join(one.text for one in server.asked)
    assert "<document>\nOne line.\nAnother.\n</document>" in asked
    assert "<document>\nShort.\n</document>" in asked
    assert answers()["b"]["document"] == "inline"


def test_only_what_was_edited_is_asked_again(serve: Any):
    server = answered(serve, question("a"), question("b"), question("gone"))
    sent = len(server.asked)
    write(question("new"), question("b", about="edited"), question("a"))
    batch()
    assert list(answers()) == ["new", "b", "a"]
    assert 'FIND_EVENT(CTX, "edited")' in answers()["b"]["plan"]
    assert len(server.asked) == sent + 6


def test_another_question_s_identical_call_is_not_made_again(serve: Any):
    server = serve(saying("Yes."))
    write(question("a", about="the same"), question("b", about="the same"))
    result = batch("--json")
    assert len(server.asked) == 3
    assert result.json["calls"] == {"made": 3, "kept": 3, "in_vain": 0}
    one, two = answers().values()
    assert one["usage"] == two["usage"]


def test_no_cache_makes_calls_anew_and_still_goes_on(serve: Any):
    server = answered(serve, question("a"))
    first = runs(STORE)[0].name
    told = "pearl: a.jsonl is replaced. The answers in it were those of "
    assert told not in batch().err
    assert f"{told}the run {first}, which keeps them: pearl runs show {first}.\n" in (
        batch("--no-cache").err
    )
    assert len(server.asked) == 6
    assert told not in batch("--no-cache").err
    assert len(server.asked) == 6
    own = runs(STORE)[0].name
    assert f"{told}the run {own}, which" in batch("--no-cache", "--restart").err
    assert len(server.asked) == 9
    for path in ("./a.jsonl", Path("a.jsonl").absolute()):
        assert "is replaced" not in call("batch", "q.jsonl", "-o", path, "--no-cache").err
    # A run that goes on may not be the last that wrote the file.
    assert told in batch().err
    assert told not in batch().err
    assert f"{told}the run {first}, which" in batch("--no-cache").err
    STORE.unlink()
    assert f"{told}no run in this store.\n" in batch().err


def test_a_call_that_two_questions_wait_for_fails_once(serve: Any):
    serve(lambda _: failing(400, "no"))
    plan = {"document": "story.txt", "plan": 'a = FIND_EVENT(CTX, "x") : y'}
    write({**plan, "id": "1"}, {**plan, "id": "2"})
    told = ("calls      0 made, 0 cached, 1 failed", "calls      0 made, 0 cached, 1 failed")
    assert (told[0] in batch().out, told[1] in call("runs", "show", "last").out) == (True, True)


def test_an_error_that_a_plan_silences_is_one_where_it_runs(serve: Any):
    server = serve(saying("It closed."))
    lines = 'a = FIND_EVENT(CTX, "x") : y', "b = COMPARE(CTX, a, zz) : z  # noqa"
    write({"id": "1", "document": "story.txt", "plan": "\n".join(lines)})
    batch()
    assert answers()["1"]["error"]["message"].startswith("The plan cannot run: zz is not defined")
    assert server.asked == []


def test_a_reply_that_cannot_be_read_is_not_asked_for_again(serve: Any):
    unsure = "I would say about a dozen or so, give or take 3, or 4"
    server = serve(lambda _: unsure)
    plan = {"document": "story.txt", "plan": 'a = FIND_QUANTITY(CTX, "x") : y'}
    write({**plan, "id": "1"})
    Path("own.actions").write_text(
        "FIND_QUANTITY(CTX, X) -> bool : Whether there is X in CTX.\n", encoding="utf-8"
    )
    said = batch("--library", "own.actions").err
    assert ". The replies are cached: name another model, or ask all anew, in a run of its own" in (
        said
    )
    assert batch("--library", "own.actions").err.splitlines()[1:] == said.splitlines()[1:]
    # Where a call failed, too, another run may help, but not with what is cached.
    tries = itertools.count()
    server.script = lambda _: failing(400, "no") if next(tries) == 0 else unsure
    other = {**plan, "plan": 'a = FIND_QUANTITY(CTX, "z") : y'}
    write({**plan, "id": "1"}, {**other, "id": "2"})
    said = batch("--library", "own.actions").err
    assert "To try them again: pearl batch" in said
    assert "Cached replies are asked for anew with --no-cache alone." in said
    said = batch("--library", "own.actions", "--no-cache").err
    assert ("To try them again: pearl batch" in said, "Cached" in said) == (True, False)


def test_what_the_offline_reader_cannot_do_is_not_to_be_tried_again():
    write({"id": "1", "document": "story.txt", "plan": 'a = IS_THERE(CTX, "x") : y'})
    Path("own.actions").write_text("IS_THERE(CTX, X) -> bool : Whether X is in CTX.\n")
    said = batch("--model", "offline", "--library", "own.actions").err
    assert said.endswith("use a language model, or an action that gives text or a list.\n")


def test_a_failed_step_fails_its_question_and_no_other(serve: Any):
    def answer(body: dict[str, Any]) -> Any:
        prompt = body["messages"][-1]["content"]
        bad = "Action: FIND_EVENT" in prompt and "<X>\nbad\n</X>" in prompt
        return failing(400, "no") if bad else "Yes."

    server = serve(answer)
    write(question("good"), question("bad"), question("fine"))
    result = batch("--json")
    assert result.code == 1
    assert "1 question failed, and a.jsonl says why: Step " in result.err
    assert "To try it again: pearl batch q.jsonl -o a.jsonl --json" in result.err
    row = answers()["bad"]
    assert row["status"] == "failed"
    assert row["error"]["reason"] == "request"
    steps = {step["step"]: step["cause"] for step in row["error"]["steps"]}
    assert set(steps) == {"a", "b", "d"}
    assert steps["b"] == "a has no output"
    assert answers()["good"]["status"] == answers()["fine"]["status"] == "answered"
    sent = len(server.asked)
    server.script = saying("Yes.")
    assert batch().code == 0
    assert answers()["bad"]["status"] == "answered"
    assert len(server.asked) == sent + 2


def test_what_counts_as_right_of_options(serve: Any):
    def answer(body: dict[str, Any]) -> Any:
        text = body["messages"][-1]["content"]
        return failing(400, "no") if "bad" in text else "B" if "option's letter" in text else "Yes."

    serve(answer)
    two, alike = ["it closed", "she left"], ["the bank", "the bank", "Kiel"]
    spaced = ["the bank", "the  bank ", "Kiel"]
    rows = {
        "right": (two, "she left", "B", True),
        "wrong": (two, "A", "A", False),
        # A question that failed counts as wrong.
        "bad": (two, "B", "B", False),
        # Of two options with the same text either is right.
        "text": (alike, "the bank", "A", True),
        "text, spaced": (spaced, "the bank", "A", True),
        "letter": (alike, "A", "A", True),
        "letter, spaced": (spaced, "A", "A", True),
    }
    write(*(question(name, options=row[0], gold=row[1]) for name, row in rows.items()))
    result = batch("--json")
    assert (result.json["right"], result.json["judged"]) == (5, 7)
    found = [(row["gold"], row["correct"]) for row in answers().values()]
    assert found == [row[2:] for row in rows.values()]
    assert result.err.count("has an option twice") == 4


EQUAL = [
    ("It cost 148,000 crowns.", "148000", True),
    ("a hard frost came", "the hard frost", True),
    ("It needs vitamin C.", "vitamin A", False),
    ("He got an A.", "A", True),
    ("37 years.", 37, True),
    ("2.50 a ton", 2.5, True),
    ("1,148,000", "148000", False),
    ("37.5", 37, False),
    ("370", "37", False),
    ("It rose by 5 degrees.", -5, False),
    ("-5", 5, False),
    ("−5 degrees", -5, True),
    ("It fell, to minus 5.", -5, True),
    ("3-5 days", 5, True),
    (".50", 0.5, True),
    ("At 12:30.", "12", False),
    ("-storm\n-fire", "fire", True),
    ("No claim has been made.", "no", False),
    ("It cannot. The answer is no.", "no", True),
    ("No, it cannot.", "no", True),
    ("Yes it can.", "yes", True),
    ("He said nothing.\nThe tide was high.", "nothing", False),
    ("Nothing that he said was kept.", "nothing", False),
    ("She had not seen the boat.", "not", False),
    ("It is not.", "Not", True),
    ("He found nothing.", "Nothing", True),
    ("Es kostet 3.750,00 €.", 3750, True),
    ("1.250.000 EUR", 1250000, True),
    ("12'500 CHF", 12500, True),
    ("3.750", 3750, True),
    ("It is written in C.", "C++", False),
    ("It is written in C#.", "C", False),
    ("In C++, they say.", "c++", True),
    ("Vitamins B+C", "B", True),
    ("U\u0308bergabe", "Übergabe", True),
    ("东京是首都。", "东京", True),
    ("东京是首都。", "北京", False),
    ("Es sind 3.750.", 3.75, True),
    ("12 500 Euro", 12500, True),
    ("8,45 EUR", 8.45, True),
    ("8, 45 or more", 8.45, False),
    ("On 31.03.2035.", 31, False),
    ("1.2 million dollars", 1200000, True),
    ("1.2 million dollars", 1.2, True),
    ("Twenty-one came.", 21, True),
    ("Twenty-one came.", 20, False),
    ("Minus five.", 5, False),
    ("One of them came.", 1, False),
    ("The Fund  closed it.", "the fund", True),
    ("The Fund closed it.", "Fun", False),
    ("The Fund closed it.", ["the bank", "the fund"], True),
    ("The Fund closed it.", [], None),
    # As pandas writes what is missing.
    ("The Fund closed it.", float("nan"), None),
]


def test_gold_in_words_counts_and_equal_numbers_are_one(serve: Any):
    plan = 'a = FIND_EVENT(CTX, "number {}.") : Find it'

    def script(body: dict[str, Any]) -> str:
        asked = re.search(r"number (\d+)\.", body["messages"][-1]["content"])
        assert asked
        return EQUAL[int(asked[1])][0]

    serve(script)
    write(*(question(str(at), gold=gold, plan=plan.format(at))
            for at, (_, gold, _) in enumerate(EQUAL)))  # fmt: skip
    told = batch("--json").json
    judged = [row["correct"] for row in answers().values()]
    assert [(*case[:2], said) for case, said in zip(EQUAL, judged, strict=True)] == EQUAL
    assert (told["right"], told["judged"]) == (judged.count(True), len(EQUAL) - 2)
    assert "the bank or the fund" in [row["gold"] for row in answers().values()]


def test_the_end_is_one_line_of_progress_where_there_is_no_terminal():
    write(*(question(str(at)) for at in range(9)))
    done = batch("--model", "offline")
    assert (done.code, done.err.count("9 of 9 done, 0 running")) == (0, 1)


def test_a_plan_of_a_row_calls_the_library_that_its_head_names():
    plan = '# library: letters\n1. last = LETTER_AT("winch", "last")\n'
    write(question("q", plan=plan))
    assert batch("--model", "offline").code == 0
    assert answers()["q"]["answer"] == "h"
    # What was chosen counts before it.
    chosen = batch("--model", "offline", "--library", "core", "--restart")
    assert "LETTER_AT does not exist" in one_line(chosen, 2)


def test_a_model_that_repeats_its_prompt_has_not_answered(serve: Any):
    """As a small one does, the document and its tasks as a list of findings."""
    server = serve(lambda body: body["messages"][-1]["content"])
    write(question("a", plan='a = FIND_EVENT(CTX, "it closed") : what happened'))
    assert batch().code == 1
    told = answers()["a"]["error"]["message"]
    assert told == "Step a has no output: the model repeats what it was asked"
    assert call("trace", "last/a").out.endswith(f"# failed: {told}\n")
    assert "a plan without values" in one_line(call("replay", "last/a"), 2)
    assert len(server.asked) == 3
    # A document may say so itself.
    server.asked.clear()
    write({**question("a"), "document": {"text": "Carry out one step of a plan. So they did."}})
    server.script = lambda body: "> Carry out one step of a plan."
    assert batch("--restart").code == 0


def test_every_row_that_cannot_be_used_is_named_and_nothing_is_sent(serve: Any):
    server = serve(saying("Yes."))
    wrong = (question(name, plan=f"1. a = FIND_NO_{name}(CTX) : x") for name in "bc")
    away = question("b", plan="1. a = FIND_NO_d(CTX) : x", document="gone.txt")
    gone = (question(f"g{at}", document=f"gone{at}.txt") for at in range(13))
    write(question("a", optons=["Yes", "No"]), *wrong, away, {"id": "e"}, *gone)
    done = batch()
    assert done.code == 2
    assert done.told[0] == "pearl: q.jsonl:1: optons is not read; close: options."
    for said in (
        "4 has the id of line 2: give each its own.",
        "4: gone.txt does not exist",
        "4 (b): The plan has 1 error: FIND_NO_d does not exist",
        "5 has no document",
        "2 (b): The plan has 1 error: FIND_NO_b does not exist",
        "3 (c): The plan has 1 error: FIND_NO_c does not exist",
        *(f"{at + 6}: gone{at}.txt does not exist" for at in range(13)),
    ):
        assert f"q.jsonl:{said}" in done.err
    assert len(done.told) == 19
    assert not server.asked
    assert not Path("a.jsonl").exists()


def test_a_dead_endpoint_and_a_model_that_is_not_there_stop_a_batch(
    serve: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retry, "FIRST_WAIT", 0.001)
    server = serve(lambda _: failing(404, "no such model"))
    write(*(question(f"q{at}") for at in range(12)))
    stopped = batch("--concurrency", "1")
    assert stopped.code == 1
    assert "What was done is kept. To go on" in stopped.err
    assert "has no question q9 so far." in one_line(call("runs", "show", "last/q9"), 2)
    # Two steps of a plan wait side by side.
    assert len(server.asked) <= 2
    monkeypatch.setenv("PEARL_TRIES", "2")
    server.asked.clear()
    server.script = lambda _: resetting
    dead = batch("--concurrency", "1", "--restart")
    assert dead.code == 1
    assert "To go on" in dead.err
    assert len(server.asked) <= 2 * 4
    # So is one that turns every call away, or asks for a longer pause than is waited for.
    for headers in ({"Retry-After": "0"}, {"Retry-After": "900"}):
        server.asked.clear()
        server.script = lambda _, headers=headers: failing(429, headers=headers)
        assert "To go on" in batch("--concurrency", "1", "--restart").err
        assert len(server.asked) <= 2 * 4
    # One that takes calls and answers none is as dead.
    monkeypatch.setenv("PEARL_TIMEOUT", "0.05")
    server.asked.clear()
    server.script = lambda _: stalling()
    assert "To go on" in batch("--concurrency", "1", "--restart").err
    assert len(server.asked) <= 2 * 4


def test_a_dead_endpoint_that_is_first_asked_for_a_form_stops_a_batch(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(retry, "FIRST_WAIT", 0.02)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    write(*({**question(f"q{at}"), "plan": None} for at in range(12)))
    line = one_line(batch("--model", "m", "--constrain", "auto"), 1)
    assert "What was done is kept. To go on" in line
    assert len(Path("a.jsonl").read_text().splitlines()) < 12


PAGE = sending("<html>Sign in</html>", "text/html")


@pytest.mark.parametrize(
    "said",
    [
        lambda at: failing(400, f"Invalid model name passed in model=x (request id: 20260101{at})"),
        lambda _: PAGE,
    ],
)
@pytest.mark.parametrize("planned", [True, False])
def test_an_endpoint_that_says_the_same_of_whatever_it_is_asked_stops_a_batch(
    serve: Any, monkeypatch: pytest.MonkeyPatch, said: Any, planned: bool
):
    monkeypatch.setattr(retry, "FIRST_WAIT", 0.001)
    monkeypatch.setenv("PEARL_CONSTRAIN", "never")
    count = itertools.count()
    server = serve(lambda _: said(next(count)))
    write(*({**question(f"q{at}"), **({} if planned else {"plan": None})} for at in range(12)))
    line = one_line(batch("--concurrency", "1"), 1)
    assert "Every call comes to the same. What was done is kept. To go on" in line
    # Two steps of a plan wait side by side.
    assert len(server.asked) <= 3 * (5 + 1 + 1)
    assert f"{len(server.asked)} failed" in call("runs", "show", "last").out
    assert len(answers()) <= 5
    server.script = saying("Yes.")
    assert batch().code == 0
    assert {row["status"] for row in answers().values()} == {"answered"}


@pytest.mark.parametrize(
    ("no", "tries"),
    [
        (failing(404, "The model some-model does not exist"), 1),
        (failing(400, "foo/bar is not a valid model ID"), 1),
        (PAGE, 3),
        ("", 3),
    ],
)
def test_an_endpoint_that_goes_bad_while_a_batch_runs_stops_it(
    serve: Any, monkeypatch: pytest.MonkeyPatch, no: Any, tries: int
):
    monkeypatch.setattr(retry, "FIRST_WAIT", 0.001)
    count = itertools.count()
    server = serve(lambda _: "Yes." if next(count) < 12 else no)
    write(*(question(f"q{at}") for at in range(30)))
    line = one_line(batch("--concurrency", "4"), 1)
    assert "Every call comes to the same. What was done is kept. To go on" in line
    # The first to fail, those under way by then, a word, and the few that began before it came.
    assert len(server.asked) <= 12 + tries * (5 + 3 + 1 + 8)
    server.script = saying("Yes.")
    assert batch().code == 0
    assert {row["status"] for row in answers().values()} == {"answered"}


def only_short_replies(body: dict[str, Any]) -> Any:
    long = body.get("max_tokens", 0) > 2048
    return failing(400, "max_tokens is too large") if long else "Yes."


@pytest.mark.parametrize(
    ("script", "said", "most"),
    [
        # Five forms of replies were tried, eight calls made, and a word was asked for.
        (lambda _: failing(400, "foo/bar is not a valid model ID"), "", 5 + 8 + 1),
        (lambda _: PAGE, "", 3 * (5 + 8 + 1)),
        # The forms of replies were asked for in fewer tokens.
        (only_short_replies, "Set PEARL_MAX_TOKENS to what it allows. ", 5 + 29),
    ],
)
def test_what_is_wrong_with_every_call_is_found_out_before_those_that_wait_are_made(
    serve: Any, monkeypatch: pytest.MonkeyPatch, script: Script, said: str, most: int
):
    monkeypatch.setattr(retry, "FIRST_WAIT", 0.001)
    server = serve(script, PEARL_CONSTRAIN="auto")
    write(*({**question(f"q{at}"), "plan": None} for at in range(60)))
    assert f"{said}Every call comes to the same." in one_line(batch(), 1)
    assert len(server.asked) <= most


def test_an_endpoint_that_fails_in_several_ways_stops_no_batch(serve: Any):
    count = itertools.count()
    server = serve(lambda _: failing(400, "no" if next(count) % 2 else "never"))
    plan = {"document": "story.txt", "plan": 'a = FIND_EVENT(CTX, "{}") : y'}
    write(*({**plan, "id": f"q{at}", "plan": plan["plan"].format(at)} for at in range(20)))
    assert batch("--concurrency", "1", "--json").json["failed"] == {"request": 20}
    assert next(count) == 20
    # Nor does one that turns every other call away, and looks at those between.
    away = failing(429, headers={"Retry-After": "900"})
    server.script = lambda _: failing(400, "no") if next(count) % 2 else away
    told = batch("--concurrency", "1", "--json", "--restart").json
    # After five in the same words a word was asked for, in the turn of one that is turned away.
    assert told["failed"] == {"rate": 9, "request": 11}


def test_prompts_that_are_refused_in_the_same_words_stop_no_batch(serve: Any):
    usage = {"prompt_tokens": 40, "completion_tokens": 2}

    def script(body: dict[str, Any]) -> Any:
        bad = "bad" in body["messages"][-1]["content"]
        return (
            failing(400, "The prompt is against our policy.")
            if bad
            else completion("Yes.", usage=usage)
        )

    server = serve(script)
    row = {"document": {"text": "A bad one."}, "plan": 'a = FIND_EVENT(CTX, "{}") : It'}
    bad = [{**row, "id": f"b{at}", "plan": row["plan"].format(at)} for at in range(9)]
    write(*bad, question("good"))
    told = batch("--concurrency", "1", "--json").json
    assert told["failed"] == {"request": 9}
    assert answers()["good"]["status"] == "answered"
    # One call asked for a word, and is paid for.
    assert len(server.asked) == 9 + 1 + 3
    assert told["calls"] == {"made": 3, "kept": 0, "in_vain": 10}
    assert told["prompt_tokens"] == 4 * 40


def test_an_endpoint_that_fails_at_everything_stops_a_batch_and_one_now_and_then_does_not(
    serve: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rate_limit, "FIRST_PAUSE", 0.001)
    server = serve(lambda _: failing(500, "boom"), PEARL_TRIES="2")
    write(*(question(f"q{at}") for at in range(60)))
    line = one_line(batch("--concurrency", "4"), 1)
    assert "The endpoint failed (500): boom." in line
    assert "To go on: pearl batch" in line
    assert len(server.asked) <= rate_limit.FAILING + 4 + rate_limit.PROBES
    assert len(answers()) < 20
    # Every third call fails, and none is tried again.
    count = itertools.count()
    server.script = lambda _: failing(500) if next(count) % 3 == 0 else "Yes."
    monkeypatch.setenv("PEARL_TRIES", "1")
    assert "questions failed" in batch("--concurrency", "4").err
    assert len(answers()) == 60
    server.script = saying("Yes.")
    assert batch().code == 0


def test_a_budget_stops_before_the_call_that_would_exceed_it(serve: Any):
    usage = {"prompt_tokens": 400, "completion_tokens": 100}
    server = serve(lambda _: completion("Yes.", usage=usage), PEARL_MAX_TOKENS="200")
    write(*(question(f"q{at}") for at in range(20)))
    line = one_line(batch("--max-tokens", "5k"), 1)
    assert "raise --max-tokens" in line
    assert "To go on, with a higher limit: pearl batch" in line
    assert 7 <= len(server.asked) <= 10
    sent = len(server.asked)
    # What was never sent is not in vain.
    assert f"calls      {sent} made, 0 cached, 0 failed\n" in call("runs", "show", "last").out
    # What the first go has spent counts in the second.
    assert batch("--max-tokens", "5k").code == 1
    assert len(server.asked) == sent
    assert batch("--max-tokens", "1M").code == 0
    assert len(server.asked) == 60


@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": 0, "completion_tokens": -1}, {"total_tokens": 500}]
)
def test_a_budget_holds_where_an_endpoint_does_not_say_what_a_call_took(serve: Any, usage: Any):
    server = serve(lambda _: completion("Yes.", usage=usage))
    write(*(question(f"q{at}") for at in range(20)))
    assert "raise --max-tokens" in one_line(batch("--max-tokens", "9k"), 1)
    sent = len(server.asked)
    assert 1 <= sent < 9
    assert all(one.body["max_tokens"] == 1000 for one in server.asked)
    assert batch("--max-tokens", "9k").code == 1
    assert len(server.asked) == sent


def test_a_budget_in_money_needs_a_price(serve: Any):
    usage = {"prompt_tokens": 400, "completion_tokens": 100}
    server = serve(lambda _: completion("Yes.", usage=usage), PEARL_MAX_TOKENS="100")
    write(*(question(f"q{at}") for at in range(20)))
    assert "No price is known for some-model" in one_line(batch("--max-cost", "0.005"), 2)
    assert not STORE.exists()
    Path("p.toml").write_text(
        '[models."some-model"]\ninput = 1.0\noutput = 1.0\n', encoding="utf-8"
    )
    line = one_line(batch("--max-cost", "0.005", "--prices", "p.toml"), 1)
    assert "raise --max-cost" in line
    assert 7 <= len(server.asked) <= 10


def test_a_number_that_is_none_is_asked_for_again(serve: Any):
    script = ["Perhaps.", "Hard to say.", "yes"]
    server = serve(script)
    plan = 'a = CHECK_TRUE(CTX, "it closed") : is it so'
    write(question("a", plan=plan))
    assert batch().code == 0
    assert answers()["a"]["answer"] == "yes"
    assert len(server.asked) == 3
    server.script = ["Perhaps."]
    write(question("a", plan=plan.replace("closed", "opened")))
    assert batch().code == 1
    assert answers()["a"]["error"]["message"].endswith("expected yes or no, got 'Perhaps.'")
    assert len(server.asked) == 6


def test_a_long_document_is_read_in_parts_that_the_trace_shows(serve: Any):
    server = serve(saying("Found."))
    Path("long.txt").write_text("\n\n".join(f"{STORY} {at}" for at in range(60)))
    plan = 'a = FIND_EVENT(CTX, "the end") : Find it'
    write(question("a", document="long.txt", plan=plan))
    assert batch("--window", "3000").code == 0
    assert "PARTS(CTX, " in answers()["a"]["plan"]
    assert max(len(one.text) for one in server.asked) < 12_000
    assert call("trace", "last/a", "-o", "t.plan").code == 0
    assert call("lint", "t.plan").code == 0
    assert batch("--window", "3000", "--context", "full", "--restart").code == 1
    assert answers()["a"]["error"]["reason"] == "context"


def test_passes_are_taken_or_left(serve: Any):
    serve(saying("Yes."))
    plan = 'a = FIND_EVENT(CTX, "x") : f\nb = FIND_EVENT(CTX, "y") : f\nreturn a'
    write(question("a", plan=plan))
    batch()
    assert '"y"' not in answers()["a"]["plan"]
    batch("--pass", "none")
    assert '"y"' in answers()["a"]["plan"]


def test_the_journal_of_a_question_is_its_own(serve: Any):
    answered(serve, question("a"), question("b"))
    paths = [entry.path for entry in entries(STORE, "b")]
    assert paths[0] == "run"
    assert paths.count("step/a") == 1
    assert call("trace", "last/b").out.startswith("# trace of run ")
    for command in ("trace", "replay"):
        assert "name one of them, as 20" in one_line(call(command, "last"), 2)
    assert call("replay", "last/b", "--json").json["exact"] == 1
    head, *lines = call("runs", "show", "last/b").out.splitlines()
    assert "/b  batch  ended" in head
    assert [line for line in lines if line.startswith(("question ", "document "))]
    assert not [line for line in lines if "{" in line]
    for command in (["runs", "show"], ["trace"], ["replay"]):
        assert "has no question zz." in one_line(call(*command, "last/zz"), 2)


def test_runs_are_listed_shown_and_compared(serve: Any):
    server = answered(serve, question("a"), question("b"))
    server.script = saying("No.")
    batch("--no-cache")
    listed = call("runs", "--json").json
    assert [run["kind"] for run in listed] == ["batch", "batch"]
    assert call("runs", "--limit", "1").told == []
    assert call("runs", "--limit", "1").out.endswith("There are more: --limit 10 lists so many.\n")
    assert "more" not in call("runs", "--limit", "2").out
    usage = one_line(call("runs", "nope"), 2)
    assert usage.endswith(". Try: pearl runs --help")
    meant = one_line(call("runs", "last"), 2)
    assert meant.startswith("There is no command last: pearl runs show last shows the run.")
    shown = call("runs", "show", "last", "--json").json
    assert [row["id"] for row in shown["rows"]] == ["a", "b"]
    last, first = (run["run"] for run in listed)
    differing = call("runs", "diff", first, last, "--json").json
    assert [one["id"] for one in differing["different"]] == ["a", "b"]
    assert "No." in call("runs", "diff", first, last).out
    # Answers that begin alike are shown where they differ.
    names = []
    for end in ("Rusk went out", "Mara stayed"):
        server.script = saying(f"{'It was late in the year, and ' * 2}{end}.")
        names.append(json.loads(batch("--no-cache", "--restart", "--json").out)["run"])
    told = call("runs", "diff", *names).out
    assert re.search(r"^a +…Rusk went out\. .+ → …Mara stayed\. ", told, re.M)
    # An id may stand for another question in another file.
    write(question("a"), {**question("b"), "question": "Who is the mayor?"})
    batch()
    told = call("runs", "diff", first, "last")
    assert "1 question in both, 1 answered differently; 1 only in the first, 1 only" in told.out
    # The same answer may count as wrong now.
    write(question("a", gold="Rusk"))
    names.append(json.loads(batch("--no-cache", "--restart", "--json").out)["run"])
    told = call("runs", "diff", *names[1:]).out
    assert re.search(r"^a +It was late in .+ → It was late in .+ wrong$", told, re.M)


def test_the_list_of_runs_says_which_came_to_no_answer(serve: Any):
    server = answered(serve, question("a"))
    call("ask", "story.txt", "Why?")
    server.script = lambda _: failing(400, "no")
    batch("--no-cache")
    call("ask", "story.txt", "Why not?")
    names = [line.split()[1:3] for line in call("runs").out.splitlines()]
    assert names == [["ask", "failed"], ["batch", "ended"], ["ask", "ended"], ["batch", "ended"]]
    assert [run["failed"] for run in call("runs", "--json").json] == [1, 1, 0, 0]
    assert call("runs").out.count("1 question of q.jsonl, 1 failed\n") == 1
    with open_existing("") as engine:
        for status, much in (("failed", 1), ("ended", 3)):
            found = list_runs(engine, time.time(), much, RunFilter(status=status))
            assert [one.status for one in found] == [status] * much
    # What is asked again, and answered, has not failed.
    server.script = saying("Yes.")
    call("ask", "story.txt", "Why not?")
    assert call("runs", "--json").json[0]["failed"] == 0


@pytest.mark.parametrize(
    "asked", [("ask", "story.txt", "Why?"), ("batch", "q.jsonl", "-o", "x.jsonl")]
)
def test_what_is_to_be_typed_next_names_the_store(serve: Any, asked: tuple[str, ...]):
    serve(saying("Yes."))
    write(question("a"))
    told = call(*asked, "--store", "other place.db").out.splitlines()[-1]
    assert told.endswith(" --store 'other place.db'")
    assert call(*shlex.split(told)[1:]).code == 0


def test_what_is_to_be_typed_next_has_no_password(monkeypatch: pytest.MonkeyPatch):
    place = "postgresql+psycopg://me:hunter2@db/pearl?password=hunter2"
    monkeypatch.setattr("sys.argv", ["pearl", "batch", f"--store={place}", "--restart"])
    with click.Context(click.Command("batch")) as context:
        context.params["store"] = place
        for told in (follow_up("runs show", "last"), _resume_command()):
            assert "hunter2" not in told
            assert "me:***@db/pearl" in told


def test_an_estimate_sends_nothing(serve: Any):
    server = serve(saying("Yes."))
    write(question("a"), {"id": "b", "question": "Why?", "document": "story.txt"})
    result = call("estimate", "q.jsonl", "--model", "gpt-4o-mini", "--json")
    assert result.code == 0
    told = result.json
    assert (told["questions"], told["plans_to_write"], told["documents"]) == (2, 1, 1)
    assert 6 <= told["calls"] <= 8
    assert told["cost"] > told["cost_with_prefix_cache"] > 0 or told["cached_tokens"] == 0
    assert not server.asked
    assert "no price for some-model" in call("estimate", "q.jsonl").out


def test_an_estimate_of_the_offline_reader_counts_no_tokens_and_no_window():
    long = {"text": "The lamp burned all night at the harbour. " * 1000}
    write({"id": "a", "question": "Why?", "document": long})
    told = call("estimate", "q.jsonl", "--model", "offline").out
    assert "tokens     not reported by the offline reader\n" in told
    assert "window" not in told
    # The planner's tokens count all the same.
    apart = ("--planner-model", "gpt-4o-mini", "--reader-model", "offline")
    assert "tokens     about " in call("estimate", "q.jsonl", *apart).out


def test_an_estimate_names_the_calls_that_find_out_forms_of_replies(serve: Any):
    server = serve(saying("Yes."))
    write({"id": "a", "question": "Why?", "document": "story.txt"})
    free = call("estimate", "q.jsonl", "--constrain", "never", "--json").json
    told = call("estimate", "q.jsonl", "--constrain", "auto", "--json").json
    assert (free["forms"], told["calls"]) == (0, free["calls"])
    batch("--constrain", "auto")
    asked = [one for one in server.asked if "Say" in one.body["messages"][-1]["content"]]
    assert 0 < len(asked) <= told["forms"]
    assert (
        call("estimate", "q.jsonl", "--constrain", "auto", "--json").json["forms"] < told["forms"]
    )


@pytest.mark.parametrize("policy", ["chunk", "auto", "retrieve", "full"])
def test_an_estimate_counts_what_a_batch_makes_of_a_long_document(serve: Any, policy: str):
    server = serve(saying("Yes."), PEARL_MAX_TOKENS="256")
    long = "\n\n".join(
        f"Paragraph {at}: it closed at noon, and again at {at}." for at in range(600)
    )
    write(question("a", document={"text": long}))
    fitting = ("--context", policy, "--window", "1500")
    told = call("estimate", "q.jsonl", *fitting, "--json").json
    unknown = call("estimate", "q.jsonl", *fitting[:2]).out
    assert ["window     not known: a document of" in unknown, told["window_known"]] == [True, True]
    assert not server.asked
    done = batch(*fitting, "--json")
    # As `c` and `a` read it; what it may come to once findings are known is no more.
    assert told["refused"] == (policy == "full") == (done.code != 0)
    assert told["calls"] == done.json["calls"]["made"] == len(server.asked)
    for form in ((), ("--json",)):
        assert call("estimate", "q.jsonl", *fitting, *form).code == done.code
    if policy == "full":
        write(*(question(name, document={"text": long}) for name in "ab"))
        said = call("estimate", "q.jsonl", *fitting).err
        assert "2 questions are refused before anything is sent" in said
        assert [line[:3] for line in said.splitlines()[-2:]] == ["a: ", "b: "]
    elif policy != "retrieve":
        assert told["calls"] > 20
        assert told["prompt_tokens"] < 4 * len(long)
    else:
        # No passage fits this one's window.
        write(question("a", plan="", document={"text": "It closed at noon. " * 900}))
        fitting, sent = ("--context", policy, "--window", "520"), len(server.asked)
        assert call("estimate", "q.jsonl", *fitting, "--json").json["refused"] == 1
        assert (batch(*fitting).code, len(server.asked)) == (1, sent)


@pytest.mark.parametrize(
    ("policy", "action"),
    [("auto", "LISTED"), ("chunk", "DEEP"), ("full", "AGAIN"), ("retrieve", "LISTED")],
)
def test_what_an_action_s_own_plan_cannot_read_is_said_before_anything_is_sent(
    serve: Any, policy: str, action: str
):
    server = serve(saying("Yes."), PEARL_MAX_TOKENS="256")
    inner = {
        "FOUND": "e = FIND_EVENT(CTX, X)",
        "DEEP": "d = FOUND(CTX, X)",
        "LISTED": "l = EVENTS(X)\n    2. e = FIND_EVENT(CTX, each l)",
        "AGAIN": "e = FIND_EVENT(CTX, X)\n    2. l = EVENTS(e)\n    3. m = AGAIN(CTX, each l)",
    }
    plans = (f"{name}(CTX, X) : Find X.\n  plan:\n    1. {own}\n" for name, own in inner.items())
    Path("own.actions").write_text("".join(plans) + "EVENTS(X) -> list : List the events of X.\n")
    # The window holds it beside a word that the plan says, and not beside an output.
    document = {"text": "It closed at noon. " * 480}
    fitting = ("--context", policy, "--window", "3000")
    fitting += ("--library", "core", "--library", "quality", "--library", "own.actions")
    write(question("a", document=document, plan='a = FOUND(CTX, "the end") : Find it'))
    assert call("estimate", "q.jsonl", *fitting, "--json").json["refused"] == 0
    assert batch(*fitting).code == 0
    assert len(server.asked) == 1
    document["text"] *= 2
    write(question("a", document=document, plan=f'a = {action}(CTX, "the end") : Find it'))
    told = call("estimate", "q.jsonl", *fitting, "--json")
    if policy == "retrieve":
        assert told.json["refused"] == 0
        return
    assert told.json["refused"] == 1
    assert batch(*fitting).code == 1
    assert len(server.asked) == 1
    said = answers()["a"]["error"]["message"]
    inside = "d cannot run: its step e" if action == "DEEP" else "e"
    assert f"Step a cannot run: its step {inside} cannot run: It is to read 4,8" in said
    assert "Use --context retrieve or a model" in said


def test_an_estimate_counts_each_document_once():
    Path("more").mkdir()
    for name in ("a.txt", "b.txt", "more/c.txt", "more/d.txt"):
        Path(name).write_text(f"{STORY}\n{name}\n", encoding="utf-8")
    named = ({"document": "a.txt"}, {"documents": ["a.txt", "b.txt"]}, {"document": "more"})
    several = ({"documents": ["./b.txt", "more/c.txt"]}, {"documents": ["b.txt", "more"]})
    rows = [*named, *several, {"document": STORY}, {"document": STORY}]
    write(*({"id": str(at), "question": "Who?", **row} for at, row in enumerate(rows)))
    told = call("estimate", "q.jsonl", "--model", "offline").out
    assert "questions  7 on 6 documents\n" in told


EACH_DOCUMENT = """\
1. d = DOCUMENTS(CTX)
2. a = FIND_EVENT(each d, "it")
3. b = FIND_REASON(CTX, each values a)
"""
EACH_ITEM = """\
a = FLAT(["Mara", "Ross"]) : who
b = UNIQUE(a) : once
c = FIND_EVENT(CTX, each b) : x
"""


@pytest.mark.parametrize(
    ("plan", "documents", "calls"), [(EACH_DOCUMENT, "xyz", 6), (EACH_ITEM, "x", 2)]
)
def test_an_estimate_counts_a_call_for_each_document_and_each_item_that_the_plan_says(
    serve: Any, plan: str, documents: str, calls: int
):
    serve(lambda body: f"Yes: {digest(body['messages'])}")
    for name in documents:
        Path(f"{name}.txt").write_text(f"{STORY}\n{name}\n", encoding="utf-8")
    write({"id": "q", "documents": [f"{name}.txt" for name in documents], "plan": plan})
    told = call("estimate", "q.jsonl", "--json").json
    assert (told["calls"], told["open_lists"]) == (calls, 0)
    assert batch("--json").json["calls"]["made"] == calls


def test_an_estimate_says_where_only_a_run_knows_how_long_a_list_is():
    plan = 'a = FIND_ALL(CTX, "people") : list\nb = FIND_EVENT(CTX, each a) : what'
    row = {"document": STORY, "question": "Who?"}
    write({**row, "id": "1", "plan": plan}, {**row, "id": "2", "plan": plan.splitlines()[0]})
    told = call("estimate", "q.jsonl", "--model", "gpt-4o-mini").out
    assert "; 1 question may take more, as a list that a step makes counts as one item\n" in told


def test_an_estimate_takes_the_time_of_each_model_and_of_calls_that_follow_one_another():
    means, share = {"quick": 1.0, "slow": 10.0}, Share(calls=8, planned=2, asking=2)
    about = (2, 1, "pearl", share, Usage(), "slow", "quick", NO_PRICES, 32, means, True, (), 0)
    estimate = Estimate(*about)
    # Two questions side by side, each of a plan and three more calls.
    assert estimate.seconds == 10.0 + 3 * 1.0
    many = replace(estimate, share=share._replace(asking=100))
    assert many.seconds == (20.0 + 6.0) / 32
    assert replace(estimate, means={"quick": 1.0}).seconds is None
    told = dict(replace(estimate, means={"quick": 1.0}).table())
    assert told["time"] == "not known: no call of slow is in the store yet"
    kept = replace(estimate, share=Share(stored=8), means={})
    assert kept.seconds == 0.0


def test_an_estimate_takes_off_what_is_kept(serve: Any):
    server = serve(saying("Yes."))

    def estimated() -> list[int]:
        told = call("estimate", "q.jsonl", "--json").json
        return [told[name] for name in ("calls", "kept", "plans_to_write", "prompt_tokens")]

    def batched() -> int:
        return int(batch("--json").json["calls"]["made"])

    write(question("a", options=["yes", "no"]))
    assert estimated()[:3] == [batched(), 0, 0] == [4, 0, 0]
    assert estimated() == [0, 4, 0, 0]
    assert "calls      0 to make, and 4 cached" in call("estimate", "q.jsonl").out
    anew = call("estimate", "q.jsonl", "--no-cache", "--json").json
    assert (anew["calls"], anew["kept"]) == (4, 0)
    # What one question asks, another needs not; and what is not asked yet costs.
    write(question("a"), question("b"), question("c", about="b"))
    calls, kept, *_ = estimated()
    made = batched()
    assert made == 3 < calls <= made + 1
    assert calls + kept == 9
    # A plan that is kept says what is left; the steps failed.
    plan, bad = PLAN.format(about="x"), failing(400)
    server.script = lambda body: plan if "reading plans" in str(body) else bad
    write({"id": "d", "question": "Why?", "document": "story.txt"})
    assert estimated()[2] == 1
    assert batch().code == 1
    calls, kept, planned, read = estimated()
    assert (calls, kept, planned) == (3, 1, 0)
    assert read > 0
    server.script = saying("Yes.")
    assert batched() == 3
    assert estimated() == [0, 4, 0, 0]


@pytest.mark.parametrize(
    ("text", "said", "commands"),
    [
        ("", "tools.toml does not exist", ("batch", "estimate")),
        ('[sums]\nkind = "calculater"\n', "calculator", ("batch", "estimate")),
        (
            '[w]\nabout = "Weather."\nendpoint = "https://x.test/"\n'
            'headers = {Authorization = "${NOT_SET}"}\n',
            "NOT_SET is not set",
            ("batch",),
        ),
    ],
)
def test_tools_that_cannot_be_used_are_refused_before_a_run(
    text: str, said: str, commands: tuple[str, ...], serve: Any
):
    server = serve(saying("nothing"))
    write({"id": "a", "question": "Why?", "document": "story.txt"})
    if text:
        Path("tools.toml").write_text(text, encoding="utf-8")
    for name in ("batch", "estimate"):
        more = ("-o", "a.jsonl") if name == "batch" else ()
        done = call(name, "q.jsonl", *more, "--strategy", "rebel", "--tools", "tools.toml")
        if name in commands:
            assert said in one_line(done, 2)
        else:
            # As the model need not be reachable, what a tool needs may be elsewhere.
            assert done.code == 0
    assert not server.asked
    assert not Path(".pearl").exists()


def test_how_deep_a_strategy_goes_is_an_option_of_ask_and_batch(serve: Any):
    server = serve(saying("nothing"))
    write({"id": "a", "question": "Why?", "document": "story.txt"})
    runs = set()
    for line in ("batch q.jsonl -o a.jsonl", "ask story.txt Why?"):
        for depth in (None, 0, 1):
            before = len(server.asked)
            more = () if depth is None else ("--depth", str(depth))
            done = call(
                *line.split(), "--strategy", "rebel", "--tools", "none", *more, "--no-cache"
            )
            splits = [one for one in server.asked[before:] if "sub_questions" in one.text]
            assert (done.code, bool(splits)) == (1, depth != 0), done.err
            runs.add(call("runs", "--json").json[0]["run"])
    # A batch that goes deeper is another run, and none that is gone on with.
    assert len(runs) == 6
    with pytest.raises(pearl.RunError):
        pearl.ask_sync("story.txt", "Why?", strategy="rebel", tools="none", model="m", depth=0)
    assert "sub_questions" not in server.asked[-1].text


FINISHED = json.dumps({"thought": "It says so.", "action": "Finish", "input": "At noon."})


@pytest.mark.parametrize(
    ("strategy", "most", "reply"),
    [
        ("decomp", 500, "nothing"),
        ("fsm1", 40, "nothing"),
        ("fsm2", 40, "nothing"),
        ("rebel", 80, "nothing"),
        ("react", 96, FINISHED),
    ],
)
def test_an_estimate_bounds_a_strategy_that_asks_as_it_finds(
    serve: Any, strategy: str, most: int, reply: str, monkeypatch: pytest.MonkeyPatch
):
    server = serve(saying(reply))
    rows = [{"id": one, "question": f"Why {one}?", "document": "story.txt"} for one in "ab"]
    write(*rows)
    how = ("--strategy", strategy)
    before = call("estimate", "q.jsonl", *how, "--json").json
    assert (before["calls"], before["at_most"], before["cost"]) == (2 * most, True, None)
    assert not server.asked
    done = batch(*how, "--json")
    made = done.json["calls"]["made"]
    assert 0 < made < 2 * most
    sent = len(server.asked)
    after = call("estimate", "q.jsonl", *how, "--json").json
    assert (after["calls"], after["kept"], after["at_most"]) == (0, made, False)
    write(*rows, {**rows[0], "id": "c", "question": "Who?", "options": ["x", "y"]})
    told = call("estimate", "q.jsonl", *how).out
    assert f"at most {most + 2:,} to make, and {made} cached" in told
    assert f"how many {strategy} makes depends" in told
    if strategy == "rebel":
        monkeypatch.setenv("PEARL_EMBEDDING_MODEL", "words")
        assert call("estimate", "q.jsonl", *how, "--json").json["kept"] is None
    assert len(server.asked) == sent


def test_an_estimate_for_a_model_that_is_not_set_up_says_that_what_is_kept_is_not_known(
    serve: Any, monkeypatch: pytest.MonkeyPatch
):
    answered(serve, question("a"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    result = call("estimate", "q.jsonl", "--model", "some-model")
    assert "calls      about 3\n" in result.out
    assert "cached calls are not subtracted: The model some-model needs an endpoint" in result.err


@pytest.mark.parametrize(
    ("gold", "right"), [("timber was  kept for the navy", "B"), ("no one knows", "C"), ("c", "C")]
)
def test_a_gold_text_is_the_only_option_that_differs_in_case_and_punctuation(gold: str, right: str):
    options = ["The Navy", "Timber was kept for the navy.", "No one knows!"]
    row = {"id": "a", "question": "Why?", "document": "story.txt", "options": options}
    assert parse_question(row | {"gold": gold}, "q.jsonl:1").gold == right


@pytest.mark.parametrize("gold", [None, "", " ", "\u00a0\n", [" ", None]])
def test_an_empty_cell_is_no_gold_answer(gold: Any):
    for options in ((), ("yes", "no")):
        row = {"id": "a", "question": "Why?", "document": "x.txt", "options": options}
        assert parse_question(row | {"gold": gold}, "q.jsonl:1").golds == ("",)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"question": None}, "neither a question nor a plan"),
        ({"id": None}, "has no id"),
        ({"id": True}, "its id is to be a text or a whole number."),
        ({"id": "a\nb"}, "its id holds characters that cannot be printed: write it without them."),
        ({"id": "\ud800"}, "its id holds characters that cannot be printed"),
        ({"document": None}, "has no document"),
        (
            {"document": None, "Vertrag": "a.docx"},
            "or the text itself. Its keys are id, question, Vertrag.",
        ),
        ({"document": 3}, ": document is to be a path, or the text itself."),
        ({"document": {"text": 5}}, ": document is to be a path, or the text itself."),
        ({"document": {"text": ""}}, "q.jsonl:2: the document's text is empty: give one with"),
        ({"document": ["story.txt"]}, 'the text itself, and several as "documents".'),
        ({"document": "../x.txt"}, "../x.txt is not in"),
        ({"document": "/etc/hostname"}, "/etc/hostname is not in"),
        ({"document": "../gone.txt"}, ": name the folder that holds it with --documents."),
        (
            {"document": "Lime does no harm."},
            "Lime does no harm. does not exist: check the path of the document. "
            'Name the folder that holds it with --documents, or give a text itself as {"text": …}.',
        ),
        ({"question": 3}, "question is to be a text"),
        ({"options": "y"}, "list of texts"),
        ({"options": ["y"]}, "2 to 26"),
        (
            {"options": ["y", "n"], "gold": "maybe"},
            "letter and no option's text: maybe. Give the letter",
        ),
        ({"options": ["y", "n"], "gold": "maybe"}, "of the right option, A to B, or its text."),
        ({"options": ["CO", "Co"], "gold": "co"}, "no option's text: co. Give the letter"),
        ({"options": ["y", "A"], "gold": "a."}, "no option's text: a. Give the letter"),
        ({"options": ["!", "…"], "gold": "?"}, "no option's text: ?. Give the letter"),
        *(
            ({"options": texts, "gold": gold}, f"{gold} is one option's letter and another's text")
            for texts, gold in (
                (["B", "A"], "A"),
                (["b", "a"], "A"),
                (["b", "A."], "a"),
                (["b", "A", "a"], "A"),
            )
        ),
        ({"gold": True}, "gold is to be the right option's letter, a text or a number"),
        ({"gold": ["y", ["n"]]}, "or a list of such of which each is right"),
        ({"options": ["y", "n"], "gold": ["y", "n"]}, "gold has several of the options"),
    ],
)
def test_a_wrong_row_is_told_before_anything_is_sent(serve: Any, row: dict[str, Any], said: str):
    server = serve(saying("Yes."))
    whole = {"id": "a", "question": "x", "document": "story.txt"} | row
    write(question("first"), {key: value for key, value in whole.items() if value is not None})
    line = one_line(batch(), 2)
    assert said in line
    assert "q.jsonl:2" in line
    assert not server.asked
    assert not Path("a.jsonl").exists()


@pytest.mark.parametrize(
    ("key", "typed", "value", "needed"),
    [
        ("question", "qestion", "Why?", True),
        ("id", "Id", "b", True),
        ("document", "documnt", "story.txt", True),
        ("documents", "docments", ["story.txt"], True),
        ("options", "optons", ["y", "n"], False),
        ("gold", "glod", "y", False),
        ("plan", "plna", PLAN.format(about="x"), False),
    ],
)
def test_a_key_that_is_mistyped_is_named_with_the_one_that_is_close(
    serve: Any, key: str, typed: str, value: Any, needed: bool
):
    server = serve(saying("Yes."))
    row = {"id": "b", "question": "Why?", "document": "story.txt", typed: value}
    rows = ({name: one for name, one in row.items() if name != key} | {"author": "Ann"},)
    if key == "documents":
        del rows[0]["document"]
    if needed:
        write(question("a"), *rows)
        said = one_line(batch(), 2)
        assert said.startswith("q.jsonl:2 has n")
        assert said.endswith(f" {typed} is not read; close: {key}.")
        assert server.asked == []
    else:
        write(question("a"), *rows, *(one | {"id": "c"} for one in rows))
        result = call("estimate", "q.jsonl", "--model", "m")
        assert (result.code, result.told[0]) == (
            0,
            f"pearl: q.jsonl:2: {typed} is not read; close: {key}.",
        )
        assert "author" not in result.err
        assert result.err.count(typed) == 1


def test_the_keys_of_articles_are_close_to_none_of_a_question_s():
    write(question("a", qestion="Why?"))
    assert "is not read" not in call("estimate", "q.jsonl", "--model", "offline").err


@pytest.mark.parametrize("edit", ["id", "length", "cut", "end"])
def test_questions_that_change_while_a_batch_runs_stop_it(serve: Any, edit: str):
    """They were checked as they were: ids that are each their own, plans without errors."""
    # Longer than what is read of a file at a time.
    rows = [question(name, remark="für alle " * 10_000) for name in "abcd"]
    write(*rows)
    before = Path("q.jsonl").read_text(encoding="utf-8")

    def script(body: dict[str, Any]) -> str:
        changed = {
            "id": before.replace('"id": "d"', '"id": "a"'),
            "length": before.replace("story.txt", "./story.txt"),
            "cut": "ä" * 2 * len(before),
            "end": before.rstrip("\n") + "\n\n" + before.partition("\n")[0],
        }
        Path("q.jsonl").write_text(changed[edit], encoding="utf-8")
        return "Yes."

    serve(script)
    result = batch("--concurrency", "1")
    if edit == "end":
        assert (result.code, [*answers()]) == (0, ["a", "b", "c", "d"])
        return
    line = one_line(result, 1)
    assert re.search(r"q\.jsonl:\d has changed since it was checked: run it again\. What", line)
    there = Path("a.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(answers()) == len(there) < 4
    write(*rows)
    serve(saying("Yes."))
    assert batch().code == 0
    assert [*answers()] == ["a", "b", "c", "d"]


def test_questions_that_are_gone_once_they_were_checked():
    index = read_index(write(question("a")))
    Path("q.jsonl").unlink()
    with pytest.raises(InputError, match=r"^q\.jsonl can no longer be read \(No such file"):
        [*index.read(index.ids)]


def test_rows_with_the_same_problem_are_one_line():
    gone = {"document": "gone.txt", "gold": "x"}
    write(*(question(f"a{at}") for at in range(3)), *(question(f"b{at}", **gone) for at in "123"))
    told = call("eval", "questions", "--data", "q.jsonl", "--model", "offline").told
    assert told == [
        'pearl: q.jsonl:1 (a0) and 2 more rows: cannot be scored: give its gold answer as "gold", '
        "or leave the row out.",
        "pearl: q.jsonl:4 and 2 more rows: gone.txt does not exist: check the path of the "
        "document. Name the folder that holds it with --documents, or give a text itself as "
        '{"text": …}.',
    ]


def _fails(*_: Any) -> Any:
    raise ExceptionGroup("several", [ZeroDivisionError("nobody\nforesaw this")])


def test_an_unforeseen_error_fails_its_question_and_no_other(
    serve: Any, monkeypatch: pytest.MonkeyPatch
):
    serve(saying("Found."))
    write(*(question(name) for name in "abc"))
    monkeypatch.setattr("pearl.jobs.batch.answer", _fails)
    assert batch().code == 1
    rows = answers()
    assert [row["error"]["reason"] for row in rows.values()] == ["internal"] * 3
    assert "ZeroDivisionError" in rows["a"]["error"]["message"]
    assert "foresaw" not in rows["a"]["error"]["message"]
    assert rows["a"]["question"] == "About a?"
    # Outside of what a question does, too.
    monkeypatch.setattr("pearl.jobs.batch._failed_row", _fails)
    assert batch().code == 1
    assert [row["error"]["reason"] for row in answers().values()] == ["internal"] * 3
    assert call("runs", "diff", "last", "last").code == 0


def test_rows_that_wait_for_nothing_are_written_as_they_come(
    serve: Any, monkeypatch: pytest.MonkeyPatch
):
    """Else the event loop would not come to Ctrl-C before all of them are done."""
    serve(saying("Found."))
    write(*(question(str(at)) for at in range(50)))
    written: list[int] = []

    async def fails(*_: Any) -> None:
        written.append(len(answers()))
        raise RunError("It does not fit.")

    monkeypatch.setattr("pearl.jobs.batch.answer", fails)
    assert batch("--concurrency", "4").code == 1
    assert all(started - there <= 2 * 4 for started, there in enumerate(written))
    assert len(answers()) == len(written) == 50


@pytest.mark.parametrize("said", ["9" * 5000, "[" * 400 + "]" * 400, "[NaN]", "[1, 1e999]"])
def test_a_reply_that_no_value_can_hold_fails_its_question_and_no_other(serve: Any, said: str):
    def script(body: dict[str, Any]) -> str:
        return said if "the moon" in body["messages"][1]["content"] else "3"

    serve(script)
    action = "COUNT_EVENTS(CTX, X) -> number" if said.isdecimal() else "LIST_EVENTS(CTX, X) -> list"
    plan = f"New actions:\n- {action} : do it\n\na = {action.split('(')[0]}(CTX, "
    write(question("a", plan=f'{plan}"the moon") : x'), question("b", plan=f'{plan}"it") : x'))
    assert batch().code == 1
    rows = answers()
    assert rows["b"]["status"] == "answered"
    assert rows["a"]["error"]["reason"] == "reply"
    assert "expected a" in rows["a"]["error"]["message"]


def test_a_batch_and_an_evaluation_count_alike_what_fits_no_option():
    Path("ada.txt").write_text("Ada went to Kiel. Bo stayed in Ulm.", encoding="utf-8")
    asked = {"id": "a", "question": "Why did Ada go?", "document": "ada.txt"}
    write({**asked, "options": ["Kiel was near", "Bonn was far"], "gold": "A"})
    run = batch("--model", "offline", "--json").json["run"]
    assert answers()["a"]["option"]["fits"] is False
    table = next(one for one in call("report", run, "--json").json["blocks"] if "rows" in one)
    assert [(row["none_fits"], row["guessed"]) for row in table["rows"]] == [(1, 1)]
    how = ("--data", "q.jsonl", "--methods", "pearl", "--model", "offline", "--json")
    assert call("eval", "questions", *how).json["guessed"] == 1


def test_a_plan_that_a_person_s_limit_cuts_off_is_told_with_the_setting(
    serve: Any, monkeypatch: pytest.MonkeyPatch
):
    def script(body: dict[str, Any]) -> Any:
        planning = "reading plans" in str(body)
        return completion('1. a = FIND_EVENT(CTX, "de', finish="length") if planning else "Yes."

    serve(script, PEARL_MAX_TOKENS="60", PEARL_CONSTRAIN="never")
    told = "PEARL_MAX_TOKENS=60 cut the plan off: set it higher."
    assert call("plan", "Why?").err.splitlines()[-1].endswith(f"after 3 attempts. {told}")
    write({"id": 1, "question": "Why?", "document": "story.txt"})
    assert told in call("ask", "story.txt", "Why?").err
    line = "fallback   1 asked directly, as no plan was accepted"
    assert f"{line}: PEARL_MAX_TOKENS cut 1 off\n" in batch().out
    # What somebody has not set, nobody can set higher.
    monkeypatch.delenv("PEARL_MAX_TOKENS")
    assert "attempts. Ask in other words, or use another model." in call("plan", "Why?").err
    assert "PEARL_MAX_TOKENS" not in call("ask", "story.txt", "Why?").err
    assert f"{line}\n" in batch("--restart").out


def test_what_the_offline_reader_picked_by_words_is_marked_everywhere():
    asked = {"document": STORY, "question": "Who kept the lighthouse?"}
    told = {**asked, "id": "told", "plan": '1. a = FIND_EVENT(CTX, "the mill") : what'}
    picked = {**asked, "id": "picked", "options": ["Kiel", "Mara"], "gold": "B"}
    write(told, picked)
    result = batch("--model", "offline")
    assert "guessed    1 picked by words alone: see guessed in the answers" in result.out
    assert {name: row["guessed"] for name, row in answers().items()} == {
        "told": False, "picked": True,
    }  # fmt: skip
    assert batch("--model", "offline", "--json").json["guessed"] == 1
    page = page_of("last")
    counts = "no evidence: 1, picked by words: 1"
    assert page.count("picked by words") == 1
    assert "2 of 2 answered" in (shown := call("runs", "show", "last").out)
    assert f"; {counts}\n" in shown
    for name, marked in (("told", False), ("picked", True)):
        assert ("picked by words alone" in page_of(f"last/{name}")) is marked
    shown = shown_of("last/told")
    assert "\nremarks no evidence\n" in shown
    shown = shown_of("last/picked")
    lines = (
        "options A. Kiel; B. Mara", "answer B. Mara", "verdict right",
        "remarks picked by words", "notice This was picked by words alone: the offline "
        "reader understands nothing. Read the passages.",
    )  # fmt: skip
    assert [line for line in lines if f"\n{line}\n" not in shown] == []
    write({**picked, "gold": "A"})
    assert batch("--model", "offline").code == 0
    shown = shown_of("last/picked")
    assert "\nverdict wrong, the right answer is A. Kiel\n" in shown
    # What is asked alone has no row.
    alone = ("ask", "story.txt", asked["question"], "--model", "offline")
    assert call(*alone, "--option", "Kiel", "--option", "Mara").code == 0
    shown = shown_of("last")
    assert [line for line in lines if f"\n{line}\n" not in shown] == ["verdict right"]
    assert call("ask", "story.txt", "Zz?", "--model", "offline").code == 0
    assert "\nremarks no evidence\n" in shown_of("last")
    assert call("trace", "last").out.endswith("stands behind this answer\n")


def test_an_answer_that_names_no_option_or_tells_of_nothing_is_no_right_one():
    about = {"document": STORY, "question": "What does parking cost in Genf?"}
    write(
        {**about, "id": "a", "options": ["Ulm", "Kiel"], "gold": "A"},
        {**about, "id": "b", "gold": "no"},
    )
    result = batch("--model", "offline")
    assert "no option  named by 1: none is nearer than the others" in result.out
    assert "right      0 of 2" in result.out
    run = result.out.split()[-1]
    assert re.search(r"batch +2 +1 +1 +0 +0\n", call("report", run).out)
    assert "bears out no option, and none is nearer" in page_of("last/a")


@pytest.mark.parametrize(
    ("method", "option", "mark"),
    [
        ("pearl", "Ulm", "no evidence, no option"),
        ("pearl", "nine years of Mara", "picked by words"),
        ("mcq", "nine years of Mara", "picked by words"),
    ],
)
def test_an_evaluation_marks_what_was_picked_by_words_and_what_rests_on_nothing(
    method: str, option: str, mark: str
):
    asked = "Who kept the lighthouse?" if option != "Ulm" else "Who is it?"
    about = {"document": STORY, "question": asked, "options": [option, "Kiel"], "gold": "A"}
    write({**about, "id": "q"})
    words = ("--data", "q.jsonl", "--model", "offline", "--methods")
    result = call("eval", "questions", *words, method)
    assert result.code == 0, result.err
    assert ("picked" in result.out) is (mark == "picked by words")
    assert "answers 1 of 1 answered" in shown_of("last")
    lacking = one_line(call("runs", "show", "last/q"), 2)
    assert f"has no question q: one of an evaluation is METHOD/ID, as {method}/q." in lacking
    page = page_of("last")
    counts = ", ".join(f"{remark}: 1" for remark in mark.split(", "))
    assert f"{mark}</span>" in page
    assert f"; {counts}\n" in call("runs", "show", "last").out
    if option == "Ulm":
        # What names no option was not picked by words.
        write({**about, "id": "q", "question": "How many zebras are there?", "options": ["1", "2"]})
        result = call("eval", "questions", *words, "pearl,mcq")
        assert result.code == 0, result.err
        assert "picked by words" not in result.out + call("runs", "show", "last").out


def test_what_no_passage_stands_behind_and_what_had_no_plan_is_said_everywhere(serve: Any):
    serve(lambda body: "No plan." if "reading plans" in str(body) else "Because of the fog.")
    write(question("a"), {"id": "b", "question": "Why?", "document": "story.txt"})
    result = batch()
    assert "fallback   1 asked directly, as no plan was accepted" in result.out
    assert "evidence   none for 2: see grounded in the answers" in result.out
    assert [row["grounded"] for row in answers().values()] == [False, False]
    again = batch("--json").json
    assert (again["fallbacks"], again["ungrounded"]) == (1, 2)
    page = page_of("last")
    assert page.count("no evidence") == 2
    assert "no evidence, no plan" in page
    assert "<b>Question</b> Why?" in page
    assert "No passage of the document is quoted for this answer." in page_of("last/b")
    told = call("ask", "story.txt", "Why?").out
    assert "Evidence\nNone: no passage of the document is quoted for this answer." in told


def test_a_question_without_a_plan_whose_answer_failed_had_none_either(serve: Any):
    serve(lambda body: "No plan." if "reading plans" in str(body) else failing(400, "no"))
    write({"id": "b", "question": "Why?", "document": "story.txt"})
    told = batch("--json").json
    assert (told["fallbacks"], answers()["b"]["fallback"]) == (1, True)
    assert "ANSWER_DIRECTLY" in answers()["b"]["plan"]
    assert "\nfailed Step answer has no output: " in shown_of("last/b")
    trace = call("trace", "last/b", "--json").json
    assert trace["answer"] is None
    assert trace["failed"].startswith("Step answer has no output: ")
    # It is no answer of which something is to be known.
    assert "no plan" not in call("runs", "show", "last").out


def test_what_an_endpoint_does_not_report_is_not_shown_as_nothing(serve: Any):
    serve(saying("Yes."))
    write(question("a"))
    lines = batch("--model", "gpt-4o-mini").out
    assert "tokens     not reported\n" in lines
    assert "cost       not known: the endpoint reports no tokens\n" in lines
    assert batch("--model", "gpt-4o-mini", "--restart", "--no-cache", "--json").json["cost"] is None
    assert "\ncost not known: the endpoint reports no tokens\n" in shown_of("last")
    assert (
        "tokens     0 read, 0 written, since the run was resumed\n"
        in batch("--model", "gpt-4o-mini").out
    )
    batch("--model", "unpriced")
    [cost] = re.findall(r"^cost .*", batch("--model", "unpriced").out, re.M)
    assert cost.endswith("(PEARL_PRICES may name a file that has one)")
    assert re.search(
        r"^gpt-4o-mini: \d+ replies, tokens not reported$", call("cache", "stats").out, re.M
    )
    assert call("runs", "show", "last", "--json").json["cost"] is None
    assert "not known: the endpoint reports no tokens" in page_of("last")


def test_what_a_run_cost_is_told_alike_wherever_it_is_told(serve: Any):
    usage = {"prompt_tokens": 90_000, "completion_tokens": 1000, "total_tokens": 91_000}
    serve(lambda body: completion(saying("Yes.")(body), usage=usage))
    write(question("a"))
    told = batch("--model", "gpt-4o-mini", "--json").json
    assert told["cost"] > 0
    assert call("runs", "show", "last", "--json").json["cost"] == told["cost"]
    shown = f"${told['cost']:.4f}"
    assert f"\ncost {shown}\n" in shown_of("last")
    assert f"<dt>cost</dt><dd>{shown}</dd>" in page_of("last")


def test_a_model_whose_every_reply_is_cut_stops_a_batch_that_goes_on_with_longer_ones(
    serve: Any, monkeypatch: pytest.MonkeyPatch
):
    server = serve(lambda _: completion("It is", finish="length"))
    write(*(question(f"q{at}") for at in range(30)))
    line = one_line(batch("--concurrency", "2"), 1)
    assert "raise PEARL_MAX_TOKENS. Every call comes to the same." in line
    assert len(server.asked) <= 3 * (CUT + 1)
    # Whole replies stay, whatever the limit is then.
    cut = completion("It is", finish="length")
    server.script = lambda body: cut if "q7" in str(body["messages"][-1]) else "Yes."
    assert "1 question failed" in batch().err
    server.asked.clear()
    server.script = saying("Yes.")
    monkeypatch.setenv("PEARL_MAX_TOKENS", "9000")
    assert batch().code == 0
    assert {row["status"] for row in answers().values()} == {"answered"}
    assert all("q7" in one.text for one in server.asked)
