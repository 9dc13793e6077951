"""Several models in one run: who answers which call, and what is said of each."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import pearl
from pearl.evaluate.results import Evaluation, Result, read_evaluation, side_by_side, write_lines
from pearl.lang.errors import InputError
from pearl.lang.library import Library, load_library, parse_library
from pearl.lang.printer import print_library
from pearl.lang.source import Source
from pearl.models.base import Model, ModelError, Reply, Request, Usage
from pearl.models.middleware.budget import Amount, MemoryLedger
from pearl.models.middleware.stack import EngineLimits, start_engine
from pearl.models.routing import ModelNames, Models, choose_model, members, model_for, with_library
from pearl.models.tokens import Price, Prices
from pearl.prompts.calls import (
    Call,
    CorrectFilled,
    CorrectPlan,
    CorrectStep,
    ExecuteStep,
    FillSchema,
    LabelQuestion,
    MapAnswer,
    NextStep,
    RefinePlan,
    WritePlan,
)
from pearl.prompts.render import load_schema
from tests.runs import entries, runs
from tests.server import Serve, Server, completion, failing
from tests.shell import STORY, call, write_rows

PLAN = """\
1. who = FIND_CHARACTER(CTX, "Mara") : Identify her
2. why = FIND_REASON(CTX, "Mara leaves") : Find why
3. both = CONCAT(who, why) : Put the two together
"""
QUESTION = "Why does Mara leave?"
OPTIONS = ["She was ill", "The Fund closed it", "Tom drove her out", "She wanted to sail"]
OWN = """\
FIND_CHARACTER(CTX, X) : Identify X in CTX.
  model: careful
FIND_REASON(CTX, X) : Find the reason for X in CTX.
"""
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100}


def by_model(body: dict[str, Any]) -> Any:
    """One endpoint with many models: the one named right chooses the right option."""
    system = body["messages"][0]["content"]
    if "write reading plans" in system:
        return completion(PLAN, usage=USAGE)
    if "carry out one step" in system:
        return completion(f"Read by {body['model']}.", usage=USAGE)
    return completion("B" if body["model"] == "right" else "A", usage=USAGE)


def asked(server: Server) -> list[tuple[str, str]]:
    """Each request's kind and model; steps of a run stand in no order, so they are sorted."""
    return sorted(
        (kind, one.body["model"]) for kind, one in zip(server.kinds, server.asked, strict=True)
    )


def story(folder: Path) -> Path:
    file = folder / "story.txt"
    file.write_text(STORY, encoding="utf-8")
    return file


# --- who answers ---


def test_each_call_goes_to_the_model_it_is_for():
    library = load_library()
    planner, reader, careful = (Scripted(name) for name in ("planner", "reader", "careful"))
    models = Models(planner, reader, {"careful": careful})
    write = WritePlan(QUESTION, library)
    step = pearl.parse(PLAN).plan.steps[0]
    execute = ExecuteStep(None, library.actions["FIND_CHARACTER"], step, ())
    own = replace(execute, action=replace(execute.action, model="careful"))
    read = FillSchema(load_schema("fsm_search"), ())
    split = FillSchema(load_schema("rebel_split"), ())
    answerers: list[tuple[Call, Model]] = [
        (write, planner),
        (NextStep(QUESTION, library), planner),
        (CorrectPlan(write, "", ""), planner),
        (RefinePlan(write, PLAN, (), ""), planner),
        (split, planner),
        (CorrectFilled(split, "", ""), planner),
        (read, reader),
        (CorrectFilled(read, "", ""), reader),
        (MapAnswer(QUESTION, "", ()), reader),
        (LabelQuestion(QUESTION, ()), reader),
        (execute, reader),
        (own, careful),
        (CorrectStep(own, "", ""), careful),
    ]
    for call_, model in answerers:
        assert model_for(models, call_) is model
        assert model_for(planner, call_) is planner


def test_schemas_that_decide_on_steps_are_the_planners():
    names = {
        one.name.removesuffix(".toml") for one in (files("pearl.prompts") / "schemas").iterdir()
    }
    assert {name for name in names if load_schema(name).plans} == {
        "fsm_decompose", "fsm_judge", "fsm_revise", "least_to_most", "next_hops", "react_step",
        "rebel_split", "rebel_tool",
    }  # fmt: skip


def test_a_planner_and_a_reader_share_a_run(serve: Serve, tmp_path: Path):
    server = serve(by_model)
    options = [word for option in OPTIONS for word in ("--option", option)]
    result = call(
        "ask", story(tmp_path), QUESTION, *options, "--planner-model", "large", "--reader-model",
        "right", "--store", "s.db", "--json",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert asked(server) == [
        ("map", "right"), ("plan", "large"), ("step", "right"), ("step", "right"),
    ]  # fmt: skip
    assert result.json["model"] == "large (planner), right (reader)"
    assert result.json["option"]["letter"] == "B"
    [run] = runs("s.db")
    assert run.head["model"] == "large (planner), right (reader)"
    sampling = "temperature 0 where the endpoint takes it, no seed, replies within the usual limits"
    assert run.head["sampling"] == f"large: {sampling}; right: {sampling}"
    assert run.head["constrain"] == "never"
    made = [entry for entry in entries("s.db") if entry.kind == "call"]
    assert {(entry.path.partition("/")[0], entry.model) for entry in made} == {
        ("plan", "large"), ("step", "right"), ("map", "right"),
    }  # fmt: skip
    told = re.sub(" {2,}", " ", call("runs", "show", "last", "--store", "s.db").out)
    assert "calls of large 1 made" in told
    assert "calls of right 3 made" in told
    shown = call("runs", "show", "last", "--store", "s.db", "--json").json
    assert shown["models"]["right"]["usage"]["prompt_tokens"] == 3000
    page = tmp_path / "run.html"
    assert call("runs", "show", "last", "--store", "s.db", "--html", page).code == 0
    assert "calls of right" in page.read_text(encoding="utf-8")


def test_of_two_models_the_one_is_held_that_takes_a_grammar(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def one_takes(body: dict[str, Any]) -> Any:
        if "grammar" not in body:
            return by_model(body)
        if body["model"] != "large":
            return failing(400, "Unrecognized request argument supplied: grammar")
        proof = re.search(r"heliotrope-[0-9a-f]{8}", body["grammar"])
        return completion(proof[0]) if proof else by_model(body)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = serve(one_takes)
    options = [word for option in OPTIONS for word in ("--option", option)]
    words = ("ask", story(tmp_path), QUESTION, *options, "--constrain", "auto", "--store", "s.db")
    roles = "--planner-model", "large", "--reader-model", "right", "--json"
    result = call(*words, *roles)
    assert result.code == 0, result.err
    assert result.json["option"]["letter"] == "B"
    held = {entry.path: entry.value for entry in entries("s.db") if entry.kind == "decision"}
    assert {path: held[path] for path in held if path.endswith("constrained")} == {
        "plan/1/constrained": "grammar"
    }
    sent = [("grammar" in one.body, one.body["model"]) for one in server.asked]
    assert sent.count((True, "large")) == 2  # The proof, and the plan.
    assert (False, "large") not in sent
    assert sent.count((True, "right")) == 1  # The proof alone, which it refused.
    found = "found no grammar that the endpoint keeps replies to"
    assert found in result.json["notice"]
    assert found in call("runs", "show", "last", "--store", "s.db").out
    page = str(tmp_path / "run.html")
    assert call("runs", "show", "last", "--store", "s.db", "--html", page).code == 0
    before, decided = Path(page).read_text(encoding="utf-8").split("What else was decided", 1)
    assert (found in before, found in decided) == (False, True)


def test_a_call_is_kept_for_the_model_that_answered_it(serve: Serve, tmp_path: Path):
    server = serve(by_model)
    words = ("ask", story(tmp_path), QUESTION, "--store", "s.db")
    assert call(*words, "--model", "large").code == 0
    count = len(server.asked)
    # The plan is there already; the steps are another model's.
    assert call(*words, "--model", "small", "--planner-model", "large").code == 0
    assert [one.body["model"] for one in server.asked[count:]] == ["small", "small"]
    assert call(*words, "--model", "large").code == 0
    assert len(server.asked) == count + 2


def test_an_endpoint_plans_and_the_offline_reader_reads(serve: Serve, tmp_path: Path):
    server = serve(by_model)
    result = call(
        "ask", story(tmp_path), QUESTION, "--model", "large", "--reader-model", "offline", "--json"
    )
    assert result.code == 0, result.err
    assert asked(server) == [("plan", "large")]
    assert "the Fund had closed it" in result.json["answer"]
    assert call("plan", QUESTION, "--planner-model", "other", "--model", "offline").code == 0
    assert server.asked[-1].body["model"] == "other"
    Path("p.plan").write_text(PLAN, encoding="utf-8")
    assert call("run", "p.plan", story(tmp_path), "--reader-model", "mine").code == 0
    assert server.asked[-1].body["model"] == "mine"


# --- an action's own model ---


def test_an_action_may_name_its_model(serve: Serve, tmp_path: Path):
    library = tmp_path / "own.actions"
    library.write_text(OWN, encoding="utf-8")
    assert print_library(parse_library(OWN).actions) == OWN
    server = serve(by_model)
    result = call(
        "ask", story(tmp_path), QUESTION, "--library", library, "--model", "plain", "--json"
    )
    assert result.code == 0, result.err
    assert asked(server) == [("plan", "plain"), ("step", "careful"), ("step", "plain")]
    assert result.json["model"] == "plain (planner), plain (reader), careful (by name)"
    assert result.json["answer"] == "Read by careful.\nRead by plain."


@pytest.mark.parametrize(("library", "option", "told"), [
    (OWN, "--no-cache",
     "FIND_CHARACTER has a model of its own. The model careful needs an endpoint"),
    (OWN.replace("careful", "recorded:none.jsonl"), "--no-cache", "none.jsonl does not exist"),
    (OWN.replace("  model", "  body: solver tool\n  model"), "--no-cache",
     "it has a model of its own and asks none"),
    # Without an endpoint the line is to be taken out.
    (OWN, "--model=offline", r"or take the line model: careful out of the action\.$"),
])  # fmt: skip
def test_a_model_that_is_not_there_is_told_before_anything_is_asked(
    tmp_path: Path, library: str, option: str, told: str
):
    (tmp_path / "own.actions").write_text(library, encoding="utf-8")
    result = call("ask", story(tmp_path), QUESTION, "--library", "own.actions", option)
    assert result.code == 2
    [line] = result.told
    assert re.search(told, line)


@pytest.mark.parametrize(
    ("called", "code"), [("FIND_REASON", 0), ("FIND_CHARACTER", 2), ("FIND_BOTH", 2)]
)
def test_a_plan_needs_the_models_of_what_it_calls(tmp_path: Path, called: str, code: int):
    both = "FIND_BOTH(CTX, X) : Find X in CTX.\n  plan:\n    a = FIND_CHARACTER(CTX, X)\n"
    Path("own.actions").write_text(OWN + both, encoding="utf-8")
    Path("p.plan").write_text(f'1. a = {called}(CTX, "fund") : Look\n', encoding="utf-8")
    result = call("run", "p.plan", story(tmp_path), "--library", "own.actions")
    assert result.code == code, result.err
    assert ("has a model of its own" in result.err) == (code == 2)


def test_a_library_is_known_again_but_where_an_action_changes_its_model():
    plain = parse_library(OWN.replace("  model: careful\n", ""))
    digests = {
        Library(("own",), {one.name: one for one in read.actions}).digest
        for read in (plain, parse_library(OWN), parse_library(OWN.replace("careful", "other")))
    }
    assert len(digests) == 3


# --- layers, budget, breaker ---


class Scripted:
    """Says one thing, or fails, and counts what it is asked."""

    notice = ""

    def __init__(self, name: str, said: str | ModelError = "fine") -> None:
        self.name = self.identity = name
        self.said = said
        self.asked: list[str] = []

    async def answer(self, request: Request) -> Reply:
        self.asked.append(request.path)
        if isinstance(self.said, ModelError):
            raise self.said
        return Reply(self.said, Usage(1000, 100))

    async def close(self) -> None:
        self.asked.append("closed")


def plan_call(number: int = 0) -> Request:
    return Request(WritePlan(QUESTION, load_library()), USER, "plan/1", f"plan {number}")


def read_call(number: int = 0) -> Request:
    return Request(MapAnswer(QUESTION, "", ("x", "y")), USER, "map", f"map {number}")


USER = ({"role": "user", "content": "A or B?"},)


def test_a_budget_is_one_sum_over_models_at_their_own_prices():
    planner, reader = Scripted("dear"), Scripted("cheap")
    prices = Prices({"dear": Price(10.0, 10.0), "cheap": Price(1.0, 1.0)})
    # A call takes 1,100 tokens: $0.011 by the one, $0.0011 by the other.
    limits = EngineLimits(max_cost=0.0265)
    earlier = MemoryLedger(limits.ceiling)
    asyncio.run(earlier.settle(Amount(), Amount(1100, 11_000)))
    engine = start_engine(Models(planner, reader), limits=limits, prices=prices, ledger=earlier)

    async def work() -> list[str]:
        await engine.ask(plan_call())
        await engine.ask(read_call())
        with pytest.raises(ModelError) as caught:
            await engine.ask(plan_call(1))
        return [caught.value.reason, str(caught.value)]

    reason, message = asyncio.run(work())
    assert (reason, planner.asked, reader.asked) == ("budget", ["plan/1"], ["map"])
    assert "$0.0231 of $0.0265 are spent" in message


def test_what_one_model_is_refused_for_good_ends_the_run():
    refused = ModelError("authentication", "No key.")
    planner, reader = Scripted("planner"), Scripted("reader", refused)
    engine = start_engine(Models(planner, reader))

    async def work() -> None:
        await engine.ask(plan_call())
        for request in (read_call(), plan_call(1)):
            with pytest.raises(ModelError, match="No key"):
                await engine.ask(request)
        await engine.model.close()

    asyncio.run(work())
    assert engine.stopped is not None
    assert engine.stopped.reason == "authentication"
    assert planner.asked == ["plan/1", "closed"]
    assert reader.asked == ["map", "closed"]
    assert len(engine.limiters) == 2


def test_each_model_has_a_rate_of_its_own():
    """A model that is asked to pause keeps the other from nothing."""
    planner, reader = Scripted("planner"), Scripted("reader")
    engine = start_engine(Models(planner, reader), limits=EngineLimits(concurrency=1))
    first, second = engine.limiters

    async def work() -> None:
        first.pause(3600)
        await engine.ask(read_call())

    asyncio.run(asyncio.wait_for(work(), 60))
    assert (planner.asked, reader.asked) == ([], ["map"])
    assert first is not second


def test_one_name_is_one_model_and_names_travel():
    names = ModelNames("offline", "offline")
    assert names.choose().name == "offline"
    model = choose_model("offline")
    both = Models(model, Scripted("reader"), {"offline": model})
    assert members(both) == (both.planner, both.reader)
    assert ModelNames.of(both) == ModelNames("offline", "reader", ("offline",))
    assert ModelNames("offline", "offline", ("offline",)).choose().identity != model.identity
    assert with_library(model, [load_library()]) is model


# --- models side by side ---


def quality(folder: Path) -> str:
    questions = [
        {"question": f"Why does Mara leave, for the {at}. time?", "question_unique_id": f"q{at}",
         "options": OPTIONS, "gold_label": 2} for at in range(3)
    ]  # fmt: skip
    row = {"article_id": "1", "title": "T", "article": STORY, "source": "G", "questions": questions}
    return write_rows(folder / "quality.jsonl", row)


def test_an_evaluation_compares_models_as_it_compares_methods(serve: Serve, tmp_path: Path):
    server = serve(by_model)
    prices = tmp_path / "prices.toml"
    table = "".join(f'[models."{name}"]\ninput = 1\noutput = 1\n' for name in ("wrong", "right"))
    prices.write_text(table, encoding="utf-8")
    words = (
        "eval", "quality", "--data", quality(tmp_path), "--methods", "zero-shot,pearl",
        "--store", "s.db", "--prices", prices,
    )  # fmt: skip
    alone = call(*words, "--model", "wrong", "--json")
    assert alone.code == 0, alone.err
    count = len(server.asked)
    result = call(*words, "--model", "wrong", "--model", "right", "--json", "-o", "both.jsonl")
    assert result.code == 0, result.err
    # What the first did alone holds.
    assert {one.body["model"] for one in server.asked[count:]} == {"right"}
    assert [one["run"] == alone.json["run"] for one in result.json["models"]] == [True, False]
    report = result.json["report"]
    about = report["about"]
    assert about["models"] == "wrong, right"
    assert about["run of wrong"].startswith(alone.json["run"])
    assert about["sampling"].startswith("temperature 0 where")
    assert about["constrain"] == "never"
    titles = [block["table"] for block in report["blocks"] if "table" in block]
    first = ("zero-shot", "zero-shot", "pearl")
    wanted = [f"Compared with {name}, wrong, on the questions both have" for name in first]
    assert [title for title in titles if title.startswith("Compared with")] == wanted
    evaluation = read_evaluation("both.jsonl")
    assert evaluation.methods == (
        "zero-shot, wrong", "zero-shot, right", "pearl, wrong", "pearl, right",
    )  # fmt: skip
    assert evaluation.groups == (evaluation.methods[:2], evaluation.methods[2:])
    scores = {
        name: sum(one.score for one in evaluation.results_of(name)) for name in evaluation.methods
    }
    assert list(scores.values()) == [0, 3, 0, 3]
    reported = call("report", *(one["run"] for one in result.json["models"]), "--store", "s.db")
    assert "pearl, right" in reported.out
    assert call("report", "last", "--store", "s.db").out == reported.out
    call(*words, "--model", "right")
    assert "pearl, right" not in call("report", "last", "--store", "s.db").out
    # The budget is one: the second model may take what the first has left of it.
    spent = 2 * 1100 * len(server.asked) // 2
    stopped = call(
        *words, "--model", "wrong", "--model", "third", "--max-tokens", str(spent // 2 + 9)
    )
    assert stopped.code != 0
    assert "raise --max-tokens" in stopped.err


def test_evaluations_of_other_questions_stand_beside_none():
    one = Evaluation("t", (("model", "a"),), ("m",), {"": 2}, (Result("m", "1"),))
    other = replace(one, about=(("model", "b"),))
    assert side_by_side([one]) is one
    both = side_by_side([one, other])
    assert both.methods == ("m, a", "m, b")
    assert json.loads(next(write_lines(both)))["evaluation"]["groups"] == [["m, a", "m, b"]]
    # A batch names its libraries without the number of their actions.
    named = ("core, quality", "core", "core, quality, 7 actions", "core, 1 action")
    for at in (0, 2):
        pair = [replace(one, about=(("model", "a"), ("library", name))) for name in named[at:][:2]]
        assert side_by_side(pair).methods == ("m, core + quality", "m, core")
    for alike in (one, replace(other, about=())):
        with pytest.raises(InputError, match="a model, library or set of demonstrations that no"):
            side_by_side([one, alike])
    with pytest.raises(InputError, match="not of the same questions"):
        side_by_side([one, replace(other, asked={"": 3})])


def test_a_batch_costs_what_its_models_cost_together(serve: Serve, tmp_path: Path):
    serve(by_model)
    rows = [{"id": str(at), "question": f"Why, {at}?", "document": STORY} for at in range(3)]
    write_rows("q.jsonl", *rows)
    alone = '[models."cheap"]\ninput = 1\noutput = 1\n'
    Path("p.toml").write_text(f'[models."dear"]\ninput = 10\noutput = 10\n{alone}')
    models = ("--planner-model", "dear", "--reader-model", "cheap", "--prices", "p.toml", "--json")
    done = call("batch", "q.jsonl", "-o", "a.jsonl", "--store", "s.db", *models)
    assert done.code == 0, done.err
    # Three plans and, as the document is one, two steps, each of 1,100 tokens.
    assert done.json["cost"] == pytest.approx((3 * 11_000 + 2 * 1_100) / 1e6)
    estimated = call("estimate", "q.jsonl", *models).json
    dear = call("estimate", "q.jsonl", "--model", "dear", "--prices", "p.toml", "--json").json
    cheap = call("estimate", "q.jsonl", "--model", "cheap", "--prices", "p.toml", "--json").json
    assert cheap["cost"] < estimated["cost"] < dear["cost"]
    assert estimated["planner"] == "dear"
    Path("p.toml").write_text(alone)
    refused = call("batch", "q.jsonl", "-o", "a.jsonl", "--max-cost", "1", *models[:-1])
    assert refused.code == 2
    assert "No price is known for dear" in refused.err


def test_from_python_models_stand_where_a_model_does():
    said = Scripted("reader", "Found.")
    planner = Scripted("planner", PLAN)
    answer = pearl.ask_sync(
        Source("story", STORY), QUESTION, model=pearl.Models(planner, said), library=load_library()
    )
    assert answer.text == "Found.\nFound."
    assert planner.asked == ["plan/1", "closed"]
    assert sorted(said.asked) == ["closed", "step/who", "step/why"]


def test_a_refused_temperature_stops_no_run(serve: Serve, tmp_path: Path):
    def script(body: dict[str, Any]) -> Any:
        if body["model"] == "thinker" and "temperature" in body:
            return failing(400, "'temperature' is not supported with this model.")
        return by_model(body)

    server = serve(script)
    result = call(
        "ask", story(tmp_path), QUESTION, "--planner-model", "thinker", "--reader-model", "plain"
    )
    assert result.code == 0, result.err
    sent = [(one.body["model"], one.body.get("temperature")) for one in server.asked]
    assert sent == [("thinker", 0), ("thinker", None), ("plain", 0), ("plain", 0)]
