"""Self-refinement: every path from a first plan to a demonstration, or to none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pearl
from benchmarks.stub import Stub
from pearl.lang.errors import InputError
from pearl.lang.parser import parse
from pearl.strategies.pearl import load_demonstrations
from tests.batches import killed_once
from tests.server import Server, failing
from tests.shell import STORY, Result, asked_of, call, write_rows

FIRST = '1. a = FIND_EVENT(CTX, "Mara leaves") : Find what happens'
SECOND = '1. a = FIND_REASON(CTX, "Mara leaves") : Find why she leaves'
THIRD = '1. a = FIND_GOAL(CTX, "Mara") : Find what she wants'
UNKNOWN = '1. a = FIND_NOTHING_OF_IT(CTX, "Mara") : Find it'
OPTIONS = ["She was ill", "The Fund closed it", "Tom drove her out"]
RIGHT, WRONG = "B", "A"


def write_questions(folder: Path, *ids: str, **more: Any) -> None:
    (folder / "story.txt").write_text(STORY, encoding="utf-8")
    usual = {"document": "story.txt", "options": OPTIONS, "gold": RIGHT, **more}
    rows = [
        {"id": id, "question": f"Why does Mara leave, for the {at}. time?", **usual}
        for at, id in enumerate(ids or ("q0",))
    ]
    write_rows(folder / "q.jsonl", *rows)


def refine(folder: Path, server: Server, *options: str) -> Result:
    words = ("refine", "q.jsonl", "-o", "demos", "--json")
    return asked_of(folder, server.url, *words, *options)


def refined(folder: Path, script: Any, *options: str, **row: Any) -> tuple[Result, Server]:
    """One question refined by a scripted model, and the server that it was asked of."""
    write_questions(folder, **row)
    with Server(script) as server:
        return refine(folder, server, *options), server


def test_questions_that_are_to_be_evaluated_are_left_out(tmp_path: Path):
    write_questions(tmp_path, "q0", "q1")
    (tmp_path / "dev.jsonl").write_text('{"question": "why does Mara leave, for the 0. time"}\n')
    with Server(scripted(FIRST, right="FIND_EVENT")) as server:
        done = refine(tmp_path, server, "--exclude", "dev.jsonl")
    assert done.code == 0, done.err
    assert [row["id"] for row in done.json["rows"]] == ["q1"]
    assert [Path(one).name for one in done.json["plans"]] == ["q1.plan"]


def scripted(*plans: str, right: str = "") -> Callable[[dict[str, Any]], str]:
    """Plans in order, the last of which repeats; the right option only for an output of ``right``.

    A step's output names the action that was called.
    """
    given = iter(plans)
    last = [plans[-1]]

    def script(body: dict[str, Any]) -> str:
        messages = [str(message["content"]) for message in body["messages"]]
        if "write reading plans" in messages[0]:
            last[0] = next(given, last[0])
            return last[0]
        if "carry out one step" in messages[0]:
            return next(name for name in ("FIND_EVENT", "FIND_REASON", "FIND_GOAL")
                        if f"Action: {name}" in messages[-1])  # fmt: skip
        return RIGHT if right and right in messages[-1] else WRONG

    return script


def plans_in(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*.plan")}


def test_a_first_plan_that_leads_to_the_right_answer_is_kept(tmp_path: Path):
    done, server = refined(tmp_path, scripted(SECOND, right="FIND_REASON"))
    assert done.code == 0
    assert server.kinds == ["plan", "step", "map"]
    assert (done.json["right"], done.json["refined"]) == (1, 0)
    [text] = plans_in(tmp_path / "demos").values()
    assert parse(text).plan.question == "Why does Mara leave, for the 0. time?"
    assert plans_in(tmp_path / "demos" / "unrefined") == plans_in(tmp_path / "demos")


def test_a_plan_that_leads_to_a_wrong_answer_is_refined_by_who_sees_no_right_one(tmp_path: Path):
    done, server = refined(tmp_path, scripted(FIRST, SECOND, right="FIND_REASON"))
    assert server.kinds == ["plan", "step", "map", "refine", "step", "map"]
    asked = server.asked[3]
    assert asked.messages[-2]["content"] == FIRST
    assert "The answer it led to is not the right one." in asked.text
    assert "<a>\nFIND_EVENT\n</a>" in asked.text
    assert (done.json["right"], done.json["refined"]) == (1, 1)
    assert "FIND_REASON" in plans_in(tmp_path / "demos")["q0.plan"]
    assert "FIND_EVENT" in plans_in(tmp_path / "demos" / "unrefined")["q0.plan"]
    assert len(load_demonstrations(str(tmp_path / "demos"))) == 1
    # The question's trace is that of its last try.
    trace = asked_of(tmp_path, "", "trace", f"{done.json['run']}/q0")
    assert trace.code == 0
    assert "FIND_REASON" in trace.out
    assert "FIND_EVENT" not in trace.out
    # Whoever plans and refines sees neither the options nor the document.
    for asked in server.asked:
        if asked.kind in ("plan", "refine", "correct"):
            assert not any(option in asked.text for option in OPTIONS)
            assert "Mara kept the lighthouse" not in asked.text


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_the_limit_of_rounds(tmp_path: Path, rounds: int):
    plans = scripted(FIRST, SECOND, THIRD, FIRST, SECOND)
    done, server = refined(tmp_path, plans, "--rounds", str(rounds))
    assert done.code == 0
    assert server.kinds.count("plan") == 1
    assert server.kinds.count("refine") == rounds
    [row] = done.json["rows"]
    assert (row["correct"], len(row["tries"])) == (False, rounds + 1)
    assert plans_in(tmp_path / "demos") == {}
    assert done.json["plans"] == []


@pytest.mark.parametrize("window", ["", "4096"])
def test_a_model_that_repeats_its_plan_is_asked_anew_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: str
):
    """The same prompt again, made to fit or not, would be answered from the cache for ever."""
    monkeypatch.setenv("PEARL_CONTEXT", window)
    _, server = refined(tmp_path, scripted(FIRST))
    assert server.kinds.count("refine") == 3
    assert len({asked.text for asked in server.asked if asked.kind == "refine"}) == 1


def test_a_plan_that_somebody_edited_stays(tmp_path: Path):
    for name in ("q1", "q2"):
        write_questions(tmp_path, name)
        told = call("refine", "q.jsonl", "-o", "demos", "--model", "offline").out
        assert "guessed    1 picked by words alone" in told
        assert ("1 plan in demos, 0 of them refined; 1 more were" in told) is (name == "q2")
    made, edited = plans_in(tmp_path / "demos"), "# Mine.\n1. a = SUMMARIZE(CTX) : All\n"
    (tmp_path / "demos" / "q2.plan").write_text(edited, encoding="utf-8")
    done = call("refine", "q.jsonl", "-o", "demos", "--model", "offline")
    assert "demos/q2.plan holds another plan than was made, and stays" in done.err
    assert plans_in(tmp_path / "demos") == {**made, "q2.plan": edited}


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path):
    write_questions(tmp_path, "q1")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", encoding="utf-8")
    done = call("refine", "q.jsonl", "-o", "mine", "--model", "offline")
    assert done.code == 2
    assert "mine has other things in it, as thesis.txt: name another" in done.err
    with pytest.raises(InputError, match="mine has other things in it"):
        pearl.Pearl(model="offline").refine_sync("q.jsonl", "mine")
    with pytest.raises(InputError, match="is what is read"):
        pearl.Pearl(model="offline").refine_sync("q.jsonl", "mine", documents="mine")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    assert not (tmp_path / ".pearl").exists()


def test_plans_go_through_the_checker(tmp_path: Path):
    done, server = refined(tmp_path, scripted(FIRST, UNKNOWN, SECOND, right="FIND_REASON"))
    assert server.kinds == ["plan", "step", "map", "refine", "correct", "step", "map"]
    assert "[PRL201]" in server.asked[4].text
    assert done.json["right"] == 1
    # One that never passes ends it, at the third time that it comes.
    done, server = refined(tmp_path, scripted(UNKNOWN), "--restart", "--no-cache")
    assert server.kinds == ["plan"] + ["correct"] * 2
    [row] = done.json["rows"]
    wrong = "No plan passed the checker. FIND_NOTHING_OF_IT does not exist."
    assert [one["judgement"] for one in row["tries"]] == [wrong]
    assert (row["error"]["reason"], row["error"]["message"], done.code) == ("plan", wrong, 1)
    assert done.json["plans"] == []


@pytest.mark.parametrize(
    ("words", "instead", "told"),
    [
        ("Action: FIND_EVENT", failing(400, "refused"), "no answer: Step a has no output"),
        ("Reply with the option's letter", "I would not like to say.", "It led to no answer"),
    ],
    ids=["a step without an output", "an option that cannot be told"],
)
def test_why_a_plan_led_to_no_answer_is_told_to_the_refining_model(
    tmp_path: Path, words: str, instead: Any, told: str
):
    plan = scripted(FIRST, SECOND, right="FIND_REASON")

    def script(body: dict[str, Any]) -> Any:
        last = body["messages"][-1]["content"]
        return instead if words in last and "FIND_EVENT" in last else plan(body)

    done, server = refined(tmp_path, script)
    later = next(asked for asked in server.asked if asked.kind == "refine")
    assert told in later.text
    assert done.json["right"] == 1


def test_a_model_that_fails_is_told_and_asked_again_in_the_next_go(tmp_path: Path):
    write_questions(tmp_path, "q0", "q1")
    plan, refuse = scripted(SECOND, right="FIND_REASON"), [True]

    def script(body: dict[str, Any]) -> Any:
        if refuse[0] and "1. time" in body["messages"][-1]["content"]:
            return failing(400, "no")
        return plan(body)

    with Server(script) as server:
        done = refine(tmp_path, server)
        assert done.code == 1
        assert (done.json["right"], sum(done.json["failed"].values())) == (1, 1)
        before, refuse[0] = len(server.asked), False
        again = refine(tmp_path, server)
    assert again.code == 0
    assert sorted(plans_in(tmp_path / "demos")) == ["q0.plan", "q1.plan"]
    # A plan and an option: the step is the other question's too, and its reply is kept.
    assert len(server.asked) == before + 2


def test_an_open_answer_is_right_where_it_holds_the_gold_one(tmp_path: Path):
    done, server = refined(tmp_path, scripted(FIRST, SECOND), options=[], gold="find_reason")
    assert server.kinds == ["plan", "step", "refine", "step"]
    assert len(done.json["plans"]) == 1


def test_a_question_without_a_gold_answer_cannot_be_scored(tmp_path: Path):
    done, server = refined(tmp_path, [SECOND], gold="")
    assert done.code == 2
    assert "q.jsonl:1 (q0): cannot be scored" in done.err
    assert server.asked == []


def test_ids_become_file_names_of_their_own(tmp_path: Path):
    write_questions(tmp_path, "../../etc/x", "a/b", "a b", "A_b", "...")
    with Server(scripted(SECOND, right="FIND_REASON")) as server:
        done = refine(tmp_path, server)
    names = sorted(plans_in(tmp_path / "demos"))
    assert len(done.json["plans"]) == len(names) == 5
    assert {"etc_x.plan", "a_b.plan", "plan.plan"} < set(names)


def test_a_killed_run_goes_on_without_repeating_a_call(tmp_path: Path):
    write_questions(tmp_path, *(f"q{at}" for at in range(16)))
    with Stub(latency=0.03) as stub:
        words = ("refine", "q.jsonl", "-o", "demos", "--rounds", "1")
        killed = killed_once(tmp_path, stub, words, 20)
    assert killed.repeats <= 4
    assert killed.done.json["answered"] == 16
