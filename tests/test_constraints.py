"""Constrained decoding: endpoints that take a form, refuse it, or pass over it without a word."""

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

import pearl
from pearl.lang.errors import InputError
from pearl.lang.source import Source
from pearl.models import constraints
from pearl.models.base import Constraint, Model, ModelError, Reply, Request, call_key
from pearl.models.constraints import GRAMMARS, SCHEMAS, constraints_of, held
from pearl.models.middleware.stack import EngineLimits, start_engine, upper
from pearl.prompts.calls import (
    CorrectPlan,
    Demonstration,
    FillSchema,
    MapAnswer,
    NextStep,
    ProveForm,
    RefinePlan,
    WritePlan,
)
from pearl.prompts.render import load_schema, render
from pearl.runtime.calls import Caller, Journal, at_most
from pearl.strategies.pearl import write_plan
from tests.server import Answer, Serve, completion, failing, starting
from tests.shell import call

PLAN = '1. fire = FIND_EVENT(CTX, "the fire") : Find the fire\n'
FREE = "I would look for the fire first."
QUESTION = "Who lit the fire?"

REFUSALS = {
    "llama.cpp": (400, "Failed to parse grammar"),
    "OpenAI": (400, "Unrecognized request argument supplied: grammar"),
    "FastAPI": (422, '[{"type":"extra_forbidden","loc":["body","grammar"]}]'),
    "a proxy": (400, "tools.0.type: Input should be 'function'"),
}


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    monkeypatch.setenv("PEARL_CONSTRAIN", "auto")
    monkeypatch.setenv("PEARL_TRIES", "1")
    yield from starting(monkeypatch)


def form_in(body: dict[str, Any]) -> str:
    """The form of a request's constraint; empty where it has none."""
    if "tools" in body:
        assert body["tool_choice"] == {"type": "custom", "custom": {"name": "reply"}}
        return "custom_tool"
    if "response_format" in body:
        schema = body["response_format"]["json_schema"]["schema"]
        return "json_schema" if "Length" in json.dumps(schema) else "json_schema_strict"
    return next((form for form in GRAMMARS if form in body), "")


def grammar_in(body: dict[str, Any]) -> str:
    """The text that holds a reply."""
    if "tools" in body:
        grammar = body["tools"][0]["custom"]["format"]["grammar"]
        assert grammar["syntax"] == "lark"
        return str(grammar["definition"])
    found = body.get(form_in(body), body.get("response_format"))
    return found if isinstance(found, str) else json.dumps(found)


def proof_in(body: dict[str, Any]) -> str:
    """The word that only who keeps to the constraint would say; empty where there is none."""
    found = re.search(r"heliotrope-[0-9a-f]{8}", grammar_in(body))
    return found[0] if found else ""


@dataclass
class Endpoint:
    """Keeps to the forms that it takes, refuses some, and passes over the others.

    Args:
        takes: the forms.
        held: what it says where it keeps to a constraint, and is not to say a certain word.
        free: what it says else.
        refuses: the forms it answers with an error.
        words: the error.
    """

    takes: tuple[str, ...] = ()
    held: str = PLAN
    free: str = FREE
    refuses: tuple[str, ...] = ()
    words: tuple[int, str] = REFUSALS["llama.cpp"]
    forms: list[str] = field(default_factory=list)

    def __call__(self, body: dict[str, Any]) -> Answer:
        form = form_in(body)
        self.forms.append(form)
        if form in self.refuses:
            return failing(*self.words)
        if form not in self.takes:
            return self.free
        held = self.held
        if word := proof_in(body):
            held = json.dumps({"word": word}) if form in SCHEMAS else word
        if form != "custom_tool":
            return held
        call = {"id": "call_1", "type": "custom", "custom": {"name": "reply", "input": held}}
        return completion("Here it is.", tool_calls=[call], finish="tool_calls")


ACTIONS = pearl.load_library().actions
FEW = pearl.Library(("own",), {name: ACTIONS[name] for name in ("FIND_EVENT", "CONCAT")})
"""A grammar of few actions is written soon."""


def planned(**options: Any) -> pearl.Planned:
    return pearl.write_plan_sync(QUESTION, **{"library": FEW, **options})


@pytest.mark.parametrize("form", GRAMMARS)
def test_each_form_is_found_out_once_and_then_holds_the_plan(serve: Serve, form: str):
    server = serve(endpoint := Endpoint((form,)))
    assert planned().attempts == 1
    tried = [*GRAMMARS[: GRAMMARS.index(form) + 1]]
    assert endpoint.forms == [*tried, form]
    assert "FIND_EVENT" in grammar_in(server.asked[-1].body)
    assert "#1" in server.asked[-1].text
    # Another process would not ask again.
    planned()
    assert endpoint.forms == [*tried, form, form]


@pytest.mark.parametrize("words", [*REFUSALS.values(), None], ids=[*REFUSALS, "passed over"])
def test_what_is_not_taken_is_not_asked_for_again(serve: Serve, words: tuple[int, str] | None):
    refuses = {"refuses": GRAMMARS, "words": words} if words else {}
    server = serve(endpoint := Endpoint(free=PLAN, **refuses))
    assert planned().attempts == 1
    assert endpoint.forms == [*GRAMMARS, ""]
    assert "#1" not in server.asked[-1].text
    planned()
    assert endpoint.forms == [*GRAMMARS, "", ""]


@pytest.mark.parametrize("status", [404, 503])
def test_a_failure_says_nothing_of_a_form_and_ends_the_proofs(serve: Serve, status: int):
    serve(
        endpoint := Endpoint(
            GRAMMARS, free=PLAN, refuses=GRAMMARS, words=(status, "Try again later.")
        )
    )
    assert planned().attempts == 1
    assert endpoint.forms == [GRAMMARS[0], ""]
    endpoint.refuses = ()
    planned()
    assert endpoint.forms[-2:] == ["grammar", "grammar"]


def test_a_reply_that_is_free_is_told_of(serve: Serve):
    serve(Endpoint(free=PLAN))
    for _ in range(2):
        assert "found no grammar" in call("plan", QUESTION).err
    assert "no grammar" not in call("plan", QUESTION, "--constrain", "never").err


def test_always_asks_a_model_anew_that_was_asked_before(serve: Serve):
    serve(endpoint := Endpoint(free=PLAN))
    model = pearl.choose_model()
    planned(model=model)
    endpoint.takes = ("grammar",)
    assert planned(model=model, constrain="always").attempts == 1
    assert endpoint.forms == [*GRAMMARS, "", "grammar", "grammar"]


@pytest.mark.parametrize("asked", ['"x"', "null", "[]", "true"])
def test_a_damaged_file_is_no_error(serve: Serve, asked: str):
    serve(endpoint := Endpoint(("grammar",)))
    planned()
    file = Path(os.environ["XDG_CACHE_HOME"]) / "pearl" / "constraints.json"
    text = file.read_text()
    file.write_text(re.sub(r'"asked": [\d.]+', f'"asked": {asked}', text))
    assert file.read_text() != text
    planned()
    assert endpoint.forms == ["grammar"] * 4


def test_a_process_without_a_home_asks_again(serve: Serve, monkeypatch: pytest.MonkeyPatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    serve(endpoint := Endpoint(("grammar",)))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    assert planned().attempts == planned().attempts == 1
    assert endpoint.forms == ["grammar"] * 4


def test_two_event_loops_may_ask_one_model_what_it_takes():
    forms = constraints.Forms("", ("grammar",), ())

    async def says(proof: ProveForm) -> str:
        return proof.word

    async def meets_another(proof: ProveForm) -> str:
        await asyncio.to_thread(lambda: asyncio.run(_form(says)))
        return proof.word

    async def _form(prove: constraints.Prove) -> str:
        return await forms.form_of("grammar", prove)

    assert asyncio.run(_form(meets_another)) == "grammar"


def test_what_is_learned_at_once_of_several_endpoints_is_all_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    start = Barrier(16)

    async def says(proof: ProveForm) -> str:
        start.wait(60)
        return proof.word

    def learn(endpoint: int) -> str:
        return asyncio.run(constraints.Forms(str(endpoint)).form_of("schema", says))

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(learn, range(64))) == {"json_schema"}
    known = json.loads((tmp_path / "pearl" / "constraints.json").read_text(encoding="utf-8"))
    assert [entry["schema"] for entry in known.values()] == ["json_schema"] * 64


def test_what_a_model_takes_is_asked_at_no_questions_cost(serve: Serve):
    serve(endpoint := Endpoint(("ebnf",)))
    model = pearl.choose_model()
    caller = at_most(Caller(model.answer, model.identity, Journal(), forms=model.forms), 1)

    async def ask() -> str:
        await write_plan(WritePlan(QUESTION, FEW), caller)
        return await _outcome(caller(MapAnswer("q", "a", ("x", "y")), "map"), model)

    assert asyncio.run(ask()) == "calls"
    assert endpoint.forms == [*GRAMMARS[:4], "ebnf"]


@pytest.mark.parametrize(("form", "granted"), [("custom_tool", False), ("grammar", True)])
def test_a_budget_counts_a_grammar_that_the_model_reads(serve: Serve, form: str, granted: bool):
    serve(lambda _: PLAN)
    write = WritePlan(QUESTION, FEW)
    [constraint] = constraints_of(write)
    free = Request(write, render(write), "p", "k")
    held = free._replace(constraint=replace(constraint, form=form))
    model = pearl.choose_model()
    # As much as the call without a constraint may take.
    limits = EngineLimits(max_tokens=upper(free, model.name).total)
    ask = asyncio.run(_outcome(start_engine(model, limits=limits).ask(held), model))
    assert ask == ("fine" if granted else "budget")


async def _outcome(asked: Awaitable[Reply], model: Model) -> str:
    try:
        await asked
    except ModelError as error:
        return error.reason
    else:
        return "fine"
    finally:
        await model.close()


def test_always_ends_with_one_line_and_asks_anew(serve: Serve):
    serve(endpoint := Endpoint(free=PLAN))
    planned()
    with pytest.raises(ModelError, match="takes no grammar") as raised:
        planned(constrain="always")
    assert "\n" not in str(raised.value)
    assert endpoint.forms == [*GRAMMARS, "", *GRAMMARS]
    endpoint.takes = ("ebnf",)
    assert planned(constrain="always").attempts == 1


def test_a_grammar_that_is_refused_falls_back_and_says_so(serve: Serve, tmp_path: Path):
    class Picky(Endpoint):
        def __call__(self, body: dict[str, Any]) -> Answer:
            if form_in(body) and not proof_in(body):
                self.forms.append("refused")
                return failing(400, "Failed to parse grammar")
            return super().__call__(body)

    server = serve(endpoint := Picky(("grammar",), free=PLAN))
    shown = call("plan", QUESTION, "--store", tmp_path / "s.db")
    assert shown.code == 0
    # What a rambling model says of a proof is bounded too.
    assert server.asked[0].body["max_tokens"] == 1024
    assert "refused a grammar" in shown.err
    assert endpoint.forms == ["grammar", "refused", ""]
    with sqlite3.connect(tmp_path / "s.db") as store:
        decided = dict(store.execute("select path, value from entries where kind = 'decision'"))
    assert "Failed to parse" in decided["plan/1/unconstrained"]


def test_the_journal_says_in_which_form(serve: Serve, tmp_path: Path):
    serve(Endpoint(("ebnf",)))
    model, journal = pearl.choose_model(), Journal()
    caller = Caller(model.answer, model.identity, journal, forms=model.forms)
    asyncio.run(write_plan(WritePlan(QUESTION, FEW), caller))
    decided = [(one.path, one.value) for one in journal.entries if one.kind == "decision"]
    assert decided == [("plan/1/constrained", "ebnf")]
    paths = [one.path for one in journal.entries if one.kind == "call"]
    assert paths == [*(f"prove/{form}" for form in GRAMMARS[:4]), "plan/1"]


def test_an_endpoint_that_is_down_is_not_asked_by_one_after_another(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
):
    async def late(request: Any) -> Any:
        # All five ask before the first is answered.
        await asyncio.sleep(0.3)
        return await failing(429)(request)

    endpoint = serve(lambda _: late)
    model = pearl.choose_model()
    caller = Caller(model.answer, model.identity, Journal(), forms=model.forms)

    async def several() -> list[Any]:
        writes = [WritePlan(f"{QUESTION} {at}", FEW) for at in range(5)]
        plans = (write_plan(write, caller) for write in writes)
        return await asyncio.gather(*plans, return_exceptions=True)

    assert {getattr(one, "reason", one) for one in asyncio.run(several())} == {"rate"}
    # One proof for all, and each call itself.
    assert [form_in(one.body) for one in endpoint.asked] == ["grammar", *[""] * 5]


def test_one_form_is_proved_once_at_an_endpoint_that_fails_at_everything(serve: Serve):
    endpoint = serve(lambda _: failing(500), PEARL_TRIES="2")
    assert call("plan", QUESTION, "--constrain", "auto").code == 1
    assert [form_in(asked.body) for asked in endpoint.asked] == ["grammar", "", ""]


def test_a_form_that_breaks_an_endpoint_is_passed_over_once_it_is_well_without(serve: Serve):
    takes, breaks = ("structured_outputs",), ("grammar",)
    serve(endpoint := Endpoint(takes, free=PLAN, refuses=breaks, words=(500, "broken")))
    model = pearl.choose_model()
    for at in range(3):
        pearl.write_plan_sync(f"{QUESTION} {at}", library=FEW, model=model)
    assert endpoint.forms == ["grammar", "", "grammar", "", *takes, *takes]


def test_a_key_is_what_it_was_where_nothing_is_held():
    messages = ({"role": "user", "content": "hello"},)
    assert call_key("m", messages).startswith("13b05ded6fe0")
    held = [constraints_of(MapAnswer("q", "a", tuple("xyz"[:most]))) for most in (2, 3)]
    keys = {call_key("m", messages, constraint=one) for one in (None, held[0][0], held[1][0])}
    assert len(keys) == 3


def test_recorded_runs_replay_held_or_not(serve: Serve, tmp_path: Path):
    serve(Endpoint(("grammar",), free=PLAN))
    for mode in ("auto", "never"):
        store, rows = tmp_path / mode, tmp_path / f"{mode}.jsonl"
        planned(store=str(store), constrain=mode)
        rows.write_text(call("cache", "export", "last", "--store", store).out)
        recorded = pearl.choose_model(f"recorded:{rows}")
        assert planned(model=recorded, constrain="auto").attempts == 1


def test_a_replay_of_free_replies_is_not_taken_for_what_was_held(serve: Serve, tmp_path: Path):
    serve(endpoint := Endpoint(("grammar",), free=PLAN))
    planned(store=str(tmp_path / "first"), constrain="never")
    rows = call("cache", "export", "last", "--store", tmp_path / "first").out
    (tmp_path / "rows").write_text(rows)
    recorded = pearl.choose_model(f"recorded:{tmp_path / 'rows'}")
    second = str(tmp_path / "second")
    assert planned(model=recorded, store=second, constrain="auto").attempts == 1
    again = call("cache", "export", "last", "--store", second)
    assert again.json["key"] == json.loads(rows)["key"]
    # The model itself is asked, and held.
    planned(store=second)
    assert endpoint.forms == ["", "grammar", "grammar"]


@pytest.mark.parametrize("value", ["sometimes", "AUTO"])
def test_a_wrong_mode_is_one_line(value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PEARL_CONSTRAIN", value)
    with pytest.raises(InputError, match="auto, always or never"):
        constraints.choose_mode()


def test_the_offline_reader_takes_none():
    assert planned(model=pearl.choose_model("offline"), constrain="auto").attempts == 1
    with pytest.raises(ModelError, match="takes no grammar"):
        planned(model=pearl.choose_model("offline"), constrain="always")


def gbnf(found: tuple[Constraint, ...]) -> str:
    [constraint] = found
    assert constraint.grammar is not None
    return constraint.grammar.gbnf


def test_a_step_is_held_to_the_names_there_are():
    library = pearl.load_library("open_domain")
    done = (('films = RETRIEVE("films by Lind")', '["Rain","Snow"]'),)
    call = NextStep(QUESTION, library, (), done)
    text = gbnf(constraints_of(call))
    assert "each films" in text
    assert "return " in text
    assert gbnf(constraints_of(CorrectPlan(call, "no", "wrong"))) == text
    assert "films" not in gbnf(constraints_of(NextStep(QUESTION, library)))


def test_a_corrected_plan_is_held_as_the_first():
    call = WritePlan(QUESTION, FEW)
    for room in (None, 900):
        assert constraints_of(CorrectPlan(call, "no", "wrong"), room) == constraints_of(call, room)


@pytest.mark.parametrize(
    ("setting", "whole"),
    [("TRIES=1", True), ("MAX_TOKENS=900", False), ("CONTEXT=9000", True), ("CONTEXT=5500", False)],
)
def test_a_plan_is_kept_to_what_the_reply_may_have(
    setting: str, whole: bool, serve: Serve, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(*f"PEARL_{setting}".split("="))
    server = serve(Endpoint(("grammar",)))
    assert planned(library=pearl.load_library()).attempts == 1
    assert ('"8. "' in server.asked[-1].body["grammar"]) is whole


def test_a_script_of_more_bytes_has_room_for_fewer_characters():
    library = pearl.load_library("core")
    plain, other = (constraints_of(WritePlan(one, library), 3000) for one in ("Why?", "Зачем"))
    longest = [one[0].grammar.longest if one[0].grammar else 0 for one in (other, plain)]
    assert 0 < longest[0] <= 1500 < longest[1] <= 3000


def test_what_is_shown_is_what_the_grammar_admits():
    library = pearl.load_library("core")
    own = "New actions:\n- F(CTX) : find it\n\n1. a = F(CTX) : find it"
    plan = '1. a = FIND_EVENT(CTX, "the fire") : x\n2. b = COMPREHEND(CTX, "why {a}") : y\nreturn b'
    shown = (Demonstration("Who?", plan), Demonstration("Why?", own))
    written = held(WritePlan(QUESTION, library, shown))
    assert isinstance(written, WritePlan)
    [one] = written.demonstrations
    assert one.plan == plan.replace("{a}", "{#1}").replace("return b", "return #2")
    assert "as the examples do: #1 is" in render(written)[-1]["content"]


def test_a_prompt_offers_what_the_grammar_admits():
    call = WritePlan(QUESTION, FEW)
    free, bound = render(call)[-1]["content"], render(held(call))[-1]["content"]
    assert "New actions:" in free
    assert "#1" not in free
    assert "New actions:" not in bound
    assert "#1 is what step 1" in bound
    for again in (CorrectPlan(call, "no", "wrong"), RefinePlan(call, "no", (), "wrong")):
        assert render(held(again))[1]["content"] == bound
    step = NextStep(QUESTION, pearl.load_library("open_domain"))
    assert held(CorrectPlan(step, "no", "wrong")) == CorrectPlan(step, "no", "wrong")


@pytest.mark.parametrize("form", SCHEMAS)
def test_react_can_only_do_what_can_be_done(serve: Serve, form: str):
    said = {"thought": "It is known.", "action": "Finish", "input": "Ada"}
    server = serve(endpoint := Endpoint((form,), held=json.dumps(said)))
    document = Source("town.txt", "Ada lit the fire.\n\nBo put it out.\n")
    assert pearl.ask_sync(document, QUESTION, strategy="react").text == "Ada"
    schema = server.asked[-1].body["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["additionalProperties"] is False
    assert schema["schema"]["properties"]["action"] == {"enum": ["Search", "Finish"]}
    assert endpoint.forms == [*SCHEMAS[: SCHEMAS.index(form) + 1], form]


def test_the_responses_api_takes_the_same_in_its_own_words(serve: Serve):
    def script(body: dict[str, Any]) -> Answer:
        [tool] = body["tools"]
        assert body["tool_choice"] == {"type": "custom", "name": "reply"}
        assert tool.keys() == {"type", "name", "description", "format"}
        assert tool["format"]["type"] == "grammar"
        word = re.search(r"heliotrope-\w+", tool["format"]["definition"])
        call = {"type": "custom_tool_call", "input": word[0] if word else PLAN}
        beside = {"type": "message", "content": [{"type": "output_text", "text": "Here it is."}]}
        return {"output": [{"type": "reasoning"}, beside, call]}

    server = serve(lambda body: script(body) if "tools" in body else {"output": []})
    assert planned(model=pearl.choose_model("responses:m")).attempts == 1
    assert len(server.asked) == len(GRAMMARS) + 1


def test_strict_schemas_lose_keywords_and_no_fields():
    call = FillSchema(load_schema("next_hops"), ())
    [constraint] = constraints_of(call)
    assert "minItems" in constraint.schema
    strict = constraints.request_fields(replace(constraint, form="json_schema_strict"))
    text = json.dumps(strict)
    assert "minItems" not in text
    assert '"required": ["hop", "score"]' in text


@pytest.mark.parametrize("form", SCHEMAS)
def test_a_pattern_of_a_part_is_not_taken_for_the_whole(form: str):
    """Replies are checked against it all the same."""
    part, whole = {"pattern": r"\S"}, {"pattern": "^a+$"}
    schema = json.dumps({"properties": {"pattern": part, "b": whole}})
    sent = constraints.request_fields(Constraint(schema=schema, form=form))["response_format"]
    assert sent["json_schema"]["schema"] == {"properties": {"pattern": {}, "b": whole}}
