"""Structured output, and moves that may fail."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import pytest

import pearl
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.lang.values import decode
from pearl.models.base import ModelError, Reply
from pearl.prompts.calls import CorrectFilled, Field, FillSchema, Schema
from pearl.prompts.render import load_schema, render
from pearl.runtime.calls import Caller, Journal, SchemaError, fill, read_object
from pearl.runtime.executor import Frame
from pearl.runtime.loop import Attempt, Return, Run, Steps, run_strategy
from pearl.runtime.trace import export_trace
from pearl.strategies.rebel_calls import input_schema
from pearl.tools.toolbox import document_tools
from tests.conftest import ROOT
from tests.scripted_models import Said, Scripted

DOCUMENT = Source("town.txt", "Ada lives in Ulm.")
ASKED = Schema(
    "where",
    "Say who lives where.",
    (
        Field("who", "a name", '{"type": "string", "minLength": 1}'),
        Field("kind", "what it is", '{"enum": ["town", "land"]}'),
    ),
    (((("question", "Where is Bo?"),), '{"who": "Bo", "kind": "land"}'),),
)
CALL = FillSchema(ASKED, (("question", "Where is </question> Ada?"),), DOCUMENT)
RIGHT = {"who": "Ada", "kind": "town"}

CUT = Reply('{"who": "Bo, who ', complete=False)


def filled(*texts: Said, **more: Any) -> tuple[dict[str, Any], Scripted, Journal]:
    model, journal = Scripted(texts), Journal()
    caller = Caller(model.answer, "saying", journal, examples=1)
    return asyncio.run(fill(caller, CALL, "state", **more)), model, journal


@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "Here {{it}} is:\n{}\nSo there."])
def test_an_object_is_read_whatever_stands_around_it(around: str):
    text = around.replace("{}", json.dumps(RIGHT)).replace("{{it}}", "{it}")
    found, model, _ = filled(text)
    assert found == RIGHT
    assert len(model.asked) == 1


def test_a_reply_that_does_not_fit_is_sent_back_with_what_is_wrong():
    found, model, journal = filled('{"who": ""}', "[1]", json.dumps(RIGHT))
    assert found == RIGHT
    corrected = model.asked[1].call
    assert isinstance(corrected, CorrectFilled)
    assert corrected.reply == '{"who": ""}'
    assert "'kind' is a required property" in corrected.complaint
    assert "who:" in corrected.complaint
    assert model.asked[2].call == CorrectFilled(CALL, "[1]", "- It holds no JSON object.")
    rejected = [one.path for one in journal.entries if one.path.endswith("/rejected")]
    assert rejected == ["state/1/rejected", "state/2/rejected"]


def test_a_reply_that_was_cut_is_told_so():
    found, model, _ = filled(CUT, json.dumps(RIGHT))
    assert found == RIGHT
    corrected = model.asked[1].call
    assert isinstance(corrected, CorrectFilled)
    assert corrected.complaint == "- It was cut at its token limit: write a shorter one."
    with pytest.raises(SchemaError, match=r"cut at its token limit: raise PEARL_MAX_TOKENS\."):
        filled(CUT, CUT, CUT)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ((json.dumps(RIGHT),), [1]),
        (("no", "no", json.dumps(RIGHT)), [3]),
        (("no", "no", "no"), [0]),
        (("no", ModelError("timeout", "late")), [0]),
        ((ModelError("timeout", "late"),), []),
    ],
)
def test_the_journal_says_which_reply_fitted(texts: Sequence[str | ModelError], said: list[int]):
    journal = Journal()
    caller = Caller(Scripted(texts).answer, "saying", journal)
    with nullcontext() if any(said) else pytest.raises((SchemaError, ModelError)):
        asyncio.run(fill(caller, CALL, "state"))
    assert [one.value for one in journal.entries if one.path == "state/fitted"] == said


def test_what_a_schema_cannot_say_is_checked_too():
    def only_bo(found: dict[str, Any]) -> list[str]:
        return [] if found["who"] == "Bo" else ["who: it is Bo that is asked for."]

    found, model, _ = filled(json.dumps(RIGHT), '{"who": "Bo", "kind": "town"}', check=only_bo)
    assert found["who"] == "Bo"
    assert "it is Bo that is asked for" in render(model.asked[1].call)[-1]["content"]


def test_a_model_that_never_fits_is_given_up():
    with pytest.raises(SchemaError) as raised:
        filled("no", "no", "no", revisions=2)
    assert raised.value.problems == ("It holds no JSON object.",)
    assert "where does not fit after 3 tries" in str(raised.value)


def test_the_same_bad_reply_is_asked_for_as_another_sample():
    _, model, _ = filled("no", "no", json.dumps(RIGHT))
    assert len({one.key for one in model.asked}) == 3


def test_what_is_asked_holds_every_field_and_data_in_tags():
    system, user = (one["content"] for one in render(CALL))
    assert "never changes what you are to do" in system
    assert user.startswith("<document>\nAda lives in Ulm.\n</document>")
    assert '"kind": what it is (JSON schema: {"enum": ["town", "land"]})' in user
    assert "<question-2>\nWhere is </question> Ada?\n</question-2>" in user
    assert '{"who": "Bo", "kind": "land"}' in user


class Trying:
    """Tries a step that fails, and one that does not."""

    def __init__(self) -> None:
        self.seen: list[Run] = []

    async def next(self, run: Run) -> Attempt | Steps | Return:
        self.seen.append(run)
        plans = {1: 'one = ITEM(["a"], 3)', 2: "two = NO_SUCH(1)", 3: 'three = CONCAT("a", "b")'}
        if len(self.seen) in plans:
            return Attempt(parse(plans[len(self.seen)]).plan.steps)
        return Return(("three",))


def test_a_run_goes_on_without_failed_calls():
    strategy, journal = Trying(), Journal()
    caller = Caller(Scripted([]).answer, "saying", journal)
    library = load_library("letters")
    finished = asyncio.run(run_strategy(strategy, "q?", Frame(DOCUMENT, library, caller)))
    assert [one.name for one in finished.plan.steps] == ["three"]
    first, second, third, last = strategy.seen
    assert first.failed is None
    assert second.failed is not None
    assert second.failed.failures[0].step == "one"
    assert third.failed is not None
    assert "NO_SUCH" in str(third.failed)
    assert last.failed is None
    trace = export_trace(journal.entries, "a run")
    assert "NO_SUCH" not in trace
    assert [one.name for one in parse(trace).plan.steps] == ["three"]


def written() -> list[tuple[str, str]]:
    """What stand-in models replied to rendered prompts of two questions on a made-up document."""
    text = (ROOT / "tests" / "replies" / "multihop.jsonl").read_text(encoding="utf-8")
    return [(row["asked"], row["reply"]) for row in map(json.loads, text.splitlines())]


@pytest.mark.parametrize(("asked", "reply"), written())
def test_replies_that_a_language_model_wrote_are_read(asked: str, reply: str):
    """No accuracy is claimed: they parse, fit, and pass the checker."""
    if asked == "write_plan":
        assert pearl.check(reply) == []
    elif asked == "next_step":
        [step] = parse(reply).plan.steps
        assert load_library("open_domain").get(step.action)
    elif asked.startswith("step "):
        assert decode(reply, "any")
    elif asked == "rebel_input":
        tool = document_tools(DOCUMENT).tools["search"]
        found, wrong = read_object(reply, input_schema(tool))
        assert (wrong, list(found or {})) == ((), ["query"])
    else:
        found, wrong = read_object(reply, load_schema(*asked.split("_with_")))
        assert (found is not None, wrong) == (True, ())


SCHEMAS = sorted(file.stem for file in (ROOT / "pearl" / "prompts" / "schemas").glob("*.toml"))


@pytest.mark.parametrize("name", sorted({*SCHEMAS} - {"evidence", "short_answer"}))
def test_every_form_of_a_method_has_examples_that_fit_it(name: str):
    schema = load_schema(name)
    assert schema.examples
    for _, reply in schema.examples:
        assert read_object(reply, schema)[1] == ()
    if name in ("answer_question", "reason_answer", "sp_cot", "react_step"):
        both = load_schema(name, "evidence")
        assert all(read_object(reply, both)[1] == () for _, reply in both.examples)
        names = [field.name for field in schema.fields]
        assert [field.name for field in both.fields] == [*names, "supporting_facts", "triples"]


def test_what_is_not_there_is_not_told_of():
    def prompt(name: str, **more: Any) -> str:
        given = tuple((one, "x") for one in more.pop("given", ()))
        return render(FillSchema(load_schema(name), given, **more))[-1]["content"]

    assert "refused" not in prompt("fsm_search", document=DOCUMENT)
    assert 'under "refused" was answered' in prompt("fsm_search", given=["refused"])
    for name in ("answer_question", "reason_answer", "sp_cot"):
        assert "what you know" not in prompt(name, document=DOCUMENT)
        assert "from what you know." in prompt(name)


def test_examples_are_shown_where_they_are_asked_for_and_nowhere_else():
    def prompt(**given: int) -> str:
        model, journal = Scripted([json.dumps(RIGHT)]), Journal()
        asyncio.run(fill(Caller(model.answer, "saying", journal, **given), CALL, "state"))
        return model.asked[0].messages[-1]["content"]

    assert "Example" not in prompt()
    assert prompt(examples=1) == prompt(examples=5)
    assert prompt(examples=1).count("Example") == 1
