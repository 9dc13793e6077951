"""Next questions by a model: what it is shown, what counts of its reply, and where it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from pearl.commaqa.decomposition import Hop, parse_hops, to_plan
from pearl.commaqa.search import Candidate, SearchBudget, best_first, greedy, search
from pearl.commaqa.world import WorldQuestion, read_worlds
from pearl.lang.parser import parse
from pearl.lang.printer import print_call, print_plan
from pearl.lang.values import Value, as_text
from pearl.models.routing import choose_model
from pearl.runtime.calls import Caller, Journal
from pearl.runtime.loop import RunError, run_strategy
from pearl.runtime.trace import export_trace
from tests.server import Server
from tests.shell import Result, call, read_rows, write_rows
from tests.worlds import AWARDS, AWARDS_HOPS, awards, searching

FIRST, SECOND = AWARDS_HOPS


def hops(*candidates: tuple[str, float]) -> str:
    return json.dumps({"candidates": [{"hop": hop, "score": score} for hop, score in candidates]})


def scripted(body: dict[str, Any]) -> str:
    """Answers as the steps so far ask for; the first candidate leads nowhere."""
    asked = body["messages"][1]["content"].rsplit("<steps>", 1)[-1]
    if "a2 = " in asked:
        return hops(("return a2", 1.0))
    if "a1 = " in asked:
        return hops((SECOND, 0.9))
    return hops(('a1 = ASK_TEXT("Whom does Ada know?")', 0.6), (FIRST, 0.4))


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Starts a server with a script, and gives its model."""
    servers: list[Server] = []

    def start(script: Any) -> tuple[Any, Server]:
        server = Server(script).__enter__()
        servers.append(server)
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        return choose_model("some-model"), server

    yield start
    for server in servers:
        server.__exit__()


def run(model: Any, **options: Any) -> tuple[Any, Journal]:
    """`AWARDS` answered with the model's proposals."""
    journal = Journal()
    journal.decide("run", {"question": AWARDS})

    async def work() -> Any:
        caller = Caller(model.answer, model.identity, journal)
        try:
            strategy, frame = searching(caller, awards(), **options)
            return await run_strategy(strategy, AWARDS, frame)
        finally:
            await model.close()

    return asyncio.run(work()), journal


def test_a_model_proposes_and_the_search_goes_on_where_agents_answer(model: Any):
    asked, server = model(scripted)
    finished, journal = run(asked)
    assert finished.text == "Cup\nMedal"
    called = [step.action for step in finished.plan.steps]
    assert called == ["ASK_TEXT", "ASK_TEXT", "VALUES", "FLAT"]
    first, second, third = (one.messages[-1]["content"] for one in server.asked)
    assert "What did those born in 1911 win?" in first
    assert "ASK_TEXT(Q) -> any" in first
    assert "none yet" in first
    asks = "ASK_TEXT:\n- Who was born in ___?\n- What did ___ win?"
    assert f"<questions>\n{asks}\n</questions>" in first
    assert f'{FIRST}\n# value a1 = ["Ines","Ada"]' in second
    assert '# value a2 = ["Cup","Medal"]' in third
    [found] = [one.value for one in journal.entries if one.path == "search"]
    assert found["hops_tried"] == 3
    assert not parse(export_trace(journal.entries, "a run")).broken


def test_the_greedy_way_ends_where_the_best_proposal_has_no_answer(model: Any):
    asked, _ = model(scripted)
    with pytest.raises(RunError, match="of 1 hops that were tried"):
        run(asked, mode="greedy")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ('a1 = ASK_TEXT("Who', "It is no step of a plan"),
        ('a1 = COUNT("x")', "COUNT is no part of a hop"),
        ('a1 = ASK_TEXT("Who is {gone}?")', "which is no hop's answer"),
        (f'{FIRST}\na2 = ASK_TEXT("Who was born in 1911?")', "It has 2 hops: give one."),
        ("return a1", "Write one hop"),
    ],
)
def test_a_candidate_that_cannot_be_used_is_sent_back(model: Any, bad: str, words: str):
    """Where no other can; one among others is passed over."""
    first = iter([hops((bad, 1.0))])
    asked, server = model(lambda body: next(first, None) or scripted(body))
    finished, journal = run(asked)
    assert finished.text == "Cup\nMedal"
    assert words in server.asked[1].messages[-1]["content"]
    assert [one.path for one in journal.entries if one.path.endswith("/rejected")]
    beside = iter([hops((bad, 1.0), (FIRST, 0.1))])
    asked, server = model(lambda body: next(beside, None) or scripted(body))
    assert run(asked)[0].text == "Cup\nMedal"
    assert len(server.asked) == 3


def test_no_earlier_step_s_name_is_taken_again(model: Any):
    again = iter([hops((FIRST, 1.0)), hops((FIRST, 1.0))])
    asked, server = model(lambda body: next(again, None) or scripted(body))
    assert run(asked)[0].text == "Cup\nMedal"
    assert "a1 is the name of an earlier step" in server.asked[2].messages[-1]["content"]


@pytest.mark.parametrize(
    "script",
    [
        lambda _: "I do not know.",
        lambda _: hops((FIRST, 0.0)),
        lambda _: hops((FIRST, 1.0)),
        lambda body: hops((f'b{body["messages"][-1]["content"].count("# value")} = '
                           'ASK_TEXT("Who was born in 1907?")', 1.0)),
        lambda _: hops(*((f'a1 = ASK_TEXT("Who was born in {at}?")', 1.0) for at in range(9))),
    ],
    ids=["no form", "never", "repeating", "endless", "too wide"],
)  # fmt: skip
def test_budgets_hold_under_any_model(model: Any, script: Callable[[Any], str]):
    asked, server = model(script)
    with pytest.raises(RunError, match="No decomposition came to an end"):
        run(asked, budget=SearchBudget(width=2, depth=3, calls=20, hops=5))
    # Each of at most six states is asked for three times, as a reply may be mended twice.
    assert len(server.asked) <= 18


class Both:
    """The same proposals, at once or waited for."""

    def choices(self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]) -> Any:
        told = parse_hops(
            '(select) [text] "Who was born in 1907?"\n(project_values) [text] "What did #1 win?"'
        )
        wrong = Candidate(-0.1, Hop("select", "text", "Why?"))
        return [wrong, Candidate(-0.2, told[len(hops)] if len(hops) < len(told) else None)]


class Waited:
    async def choices(self, *given: Any) -> Any:
        await asyncio.sleep(0)
        return Both().choices(*given)


@pytest.mark.parametrize(("way", "at_once"), [("greedy", greedy), ("best-first", best_first)])
@pytest.mark.parametrize(
    "budget", [SearchBudget(), SearchBudget(width=1), SearchBudget(hops=1), SearchBudget(calls=1)]
)
def test_waiting_changes_nothing(way: Any, at_once: Any, budget: SearchBudget):
    found = at_once("?", awards(), Both(), budget)
    assert found == asyncio.run(search(way, "?", awards(), Waited(), budget))


def test_who_has_to_be_waited_for_is_refused_at_once():
    with pytest.raises(TypeError, match="has to be waited for"):
        best_first("?", awards(), Waited())


# -- as a method of pearl eval --------------------------------------------------------------------


@pytest.fixture
def made(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, list[WorldQuestion]]:
    """A generated file of 20 questions, of the schema that a test names or of gardeners."""
    data = tmp_path / "made.jsonl"
    schema = getattr(request, "param", "numeric")
    told = ("--schema", schema, "--questions", "20", "--seed", "3")
    assert call("generate", "commaqa", *told, "-o", data).code == 0
    return data, [one for world in read_worlds(str(data)) for one in world.questions]


def knowing(questions: Iterable[WorldQuestion]) -> Callable[[dict[str, Any]], str]:
    """A model that writes the recorded hop that comes after the steps so far."""
    recorded = {one.text: one.hops for one in questions}

    def reply(body: dict[str, Any]) -> str:
        asked, steps = body["messages"][1]["content"].rsplit("<steps>", 1)
        question = max((text for text in recorded if text in asked[-2000:]), key=asked.rindex)
        done = steps.count("# value")
        before = len(to_plan(recorded[question][:done]).steps)
        following = to_plan(recorded[question][: done + 1]).steps[before:]
        return hops(("\n".join(map(print_call, following)) or f"return a{done}", 0.9))

    return reply


def demonstrations(folder: Path, questions: Iterable[WorldQuestion]) -> Path:
    folder.mkdir()
    for at, one in enumerate(questions):
        (folder / f"{at}.plan").write_text(print_plan(to_plan(one.hops, one.text)), "utf-8")
    return folder


def evaluated(data: Path, *options: str | Path) -> Result:
    return call("eval", "commaqa", "--data", data, "--methods", "tmn-model", "--json", *options)


@pytest.mark.parametrize("made", ["explicit", "implicit", "numeric", "throws"], indirect=True)
def test_a_question_is_not_shown_its_own_decomposition(
    model: Any, made: tuple[Path, list[WorldQuestion]], tmp_path: Path
):
    data, questions = made
    _, server = model(knowing(questions))
    shown = demonstrations(tmp_path / "shown", questions[:9])
    found = evaluated(data, "--model", "some-model", "--demonstrations", shown, "--width", "3",
                      "--depth", "9", "--calls", "2000", "--limit", "8")  # fmt: skip
    assert "8 demonstrations left out" in json.dumps(found.json)
    assert found.json["exact_match"] == 1.0
    assert found.json["agent_calls"] > 0
    assert all(f"question: {questions[8].text}" in one.text for one in server.asked)
    assert not any(f"question: {questions[0].text}" in one.text for one in server.asked)


def test_its_calls_of_the_model_come_to_an_end(
    model: Any, made: tuple[Path, list[WorldQuestion]], tmp_path: Path
):
    data, questions = made
    _, server = model(knowing(questions))
    shown = demonstrations(tmp_path / "shown", questions[10:])
    options = ("--model", "some-model", "--demonstrations", shown, "--limit", "5")
    assert evaluated(data, *options, "--calls", "1").json["failed"] == {"calls": 5}
    assert len(server.asked) == 5


def test_it_needs_a_model_and_decompositions(model: Any, made: tuple[Path, list[WorldQuestion]]):
    found = evaluated(made[0], "--model", "offline")
    assert (found.code, "tmn-model needs a language model" in found.err) == (2, True)
    model(scripted)
    found = evaluated(made[0], "--model", "some-model", "--library", "core")
    assert found.code == 2
    assert "tmn-model needs decompositions to show" in found.err


def test_a_report_has_accuracy_by_theory_and_what_no_agent_could_read(tmp_path: Path):
    for part in ("train", "dev"):
        told = ("--schema", "implicit", "--part", part, "--questions", "120")
        assert call("generate", "commaqa", *told, "-o", f"{part}.jsonl").code == 0
    assert call("learn", "commaqa", "train.jsonl", "--from", "gold", "-o", "m.model").code == 0
    found = call("eval", "commaqa", "--data", "dev.jsonl", "--methods", "tmn", "--learned",
                 "m.model", "--search", "greedy", "--model", "offline", "--json").json  # fmt: skip
    tables = {one["table"]: one for one in found["report"]["blocks"] if "table" in one}
    [asked] = tables["What agents were asked"]["rows"]
    assert 0 < asked["agent_calls_unread"] < asked["agent_calls"] == found["agent_calls"]
    assert 0 < asked["met_wrong"] <= asked["met"] < 120
    theories = {one.theory for world in read_worlds("dev.jsonl") for one in world.questions}
    labels = [row["label"] for row in tables["Accuracy by theory"]["rows"]]
    assert len(labels) > 9
    assert all(label in theories or label.startswith("other") for label in labels)
    assert "Answers and their evidence" in tables


@pytest.mark.parametrize("method", ["gold-facts", "found-facts", "all-facts"])
def test_a_model_that_reads_facts_is_shown_those_and_asks_no_agent(
    model: Any, made: tuple[Path, list[WorldQuestion]], method: str
):
    data, questions = made
    answers = {one.text: one.answer for one in questions}

    def right(body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        return as_text(answers[max((one for one in answers if one in text), key=len)])

    _, server = model(right)
    most = ("--passages", "7") if method == "found-facts" else ()
    found = call("eval", "commaqa", "--data", data, "--methods", method, "--model", "some-model",
                 *most, "--json").json  # fmt: skip
    assert (found["exact_match"], "agent_calls" in found) == (1.0, False)
    for here in read_worlds(str(data)):
        for one in here.questions:
            [text] = [sent.text for sent in server.asked if one.text in sent.text]
            shown = {fact for fact, words in here.sentences.items() if words in text}
            if method == "gold-facts":
                assert shown == set(one.facts)
            else:
                assert len(shown) == (len(here.sentences) if method == "all-facts" else 7)


def test_gold_facts_are_refused_where_a_file_has_none(made: tuple[Path, list[WorldQuestion]]):
    data, _ = made
    rows = read_rows(data)
    for question in rows[0]["qa_pairs"]:
        del question["facts_used"]
    write_rows(data, *rows)
    told = call("eval", "commaqa", "--data", data, "--methods", "gold-facts", "--model", "offline")
    assert told.code == 2
    assert "gold-facts finds no facts_used for question 1.1" in told.err
