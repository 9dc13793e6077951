"""REBEL: every transition of Algorithm 1, every revision, every limit, with tools that are real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from pearl.lang.ast import Literal, Step
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_arg, print_call
from pearl.lang.source import Source
from pearl.models.base import ModelError, Reply, Request
from pearl.models.embeddings import TfIdf, cosine
from pearl.models.middleware.stack import start_engine
from pearl.retrieval.index import build_index, open_index
from pearl.runtime.binding import value_of
from pearl.runtime.calls import Caller, Journal
from pearl.runtime.executor import Frame
from pearl.runtime.loop import Finished, RunError, run_strategy
from pearl.runtime.trace import as_plan, export_trace, read_tree
from pearl.store.store import open_store
from pearl.strategies.rebel import NOTHING, Rebel, RebelLimits, rebel
from pearl.strategies.rebel_calls import sift, written_input
from pearl.tools.declared import load_tools
from pearl.tools.toolbox import (
    CachedTools,
    Parameter,
    Tool,
    ToolError,
    ToolLimits,
    ToolReply,
    Tools,
    arguments_of,
    document_tools,
)
from tests.scripted_models import Box, Mind, run, tool
from tests.server import answering
from tests.services import Services
from tests.shell import write_rows

WHOLE = "Where was the director of Jaws born?"
WHO, WHERE = "Who directed Jaws?", "In which town was that director born?"
KNOWN = {WHO: "Steven Spielberg", WHERE: "Cincinnati"}
LIBRARY = load_library("rebel")


def tools(*names: str, **replies: str | ToolReply | ToolError) -> Box:
    """Tools that take a query; each replies with its own text, or with what is known of it."""

    def reply(name: str, arguments: Mapping[str, Any]) -> str | ToolReply | ToolError:
        return replies.get(name) or KNOWN.get(arguments["query"], "nothing")

    return Box({one: tool(one, "query") for one in names or ("search",)}, reply)


def mind(**more: Any) -> Mind:
    usual: dict[str, Any] = {
        "splits": {WHOLE: [WHO, WHERE]},
        "tools": {WHO: ["search"], WHERE: ["search"], WHOLE: ["search"]},
        "knows": {WHOLE: "Cincinnati"},
    }
    return Mind(**{**usual, **more})


def ask(
    model: Mind, box: Tools, question: str = WHOLE, **limits: int
) -> tuple[Finished, Journal, Rebel]:
    limited = RebelLimits(**limits)
    return run(model, lambda caller: rebel(caller, box, limits=limited), question, LIBRARY)


def fails(model: Mind, box: Tools, question: str = WHOLE, **limits: int) -> str:
    with pytest.raises((RunError, ModelError)) as caught:
        ask(model, box, question, **limits)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def decided(journal: Journal, path: str) -> list[Any]:
    return [one.value for one in journal.entries if one.path == path and one.kind == "decision"]


def calls(finished: Finished) -> list[str]:
    return [print_call(step) for step in finished.plan.steps]


# --- the algorithm ---


def test_a_question_is_split_by_what_tools_there_are_and_facts_pass_on():
    model, box = mind(), tools("search", "sums")
    finished, journal, strategy = ask(model, box)
    assert finished.text == "Cincinnati"
    assert calls(finished) == [
        f'sub_1 = SOLVE("{WHO}", [])',
        f'sub_2 = SOLVE("{WHERE}", ["{WHO}: {{sub_1}}"])',
        f'answer = ANSWER_FROM_MEMORY("{WHOLE}", ["{WHO}: {{sub_1}}", "{WHERE}: {{sub_2}}"])',
    ]
    assert box.called == [("search", {"query": WHO}), ("search", {"query": WHERE})]
    part = ["rebel_split", "rebel_memory", "rebel_tool", "rebel_input", "rebel_read"]
    assert model.schemas() == ["rebel_split", *part, *part, "rebel_memory", "rebel_answer"]
    assert decided(journal, "split") == [{"sub_questions": [WHO, WHERE], "dropped": []}]
    assert decided(journal, "memory") == [{"answerable": True, "facts": 2}]
    assert decided(journal, "step/sub_2/memory") == [{"answerable": False, "facts": 1}]
    assert decided(journal, "step/sub_1/tool/1") == [{"tool": "search"}]
    assert (strategy.spent.tool_calls, strategy.spent.deepest) == (2, 1)
    offered = "search: Does search.\nsums: Does sums."
    assert [one["tools"] for one in model.given("rebel_split")] == [offered] * 3
    # The second reply names a town; who it is that was born there is in the facts.
    read = model.given("rebel_read")
    assert [one.get("facts") for one in read] == [None, [f"{WHO}: Steven Spielberg"]]
    assert [one["whole_question"] for one in read] == [WHOLE, WHOLE]


def test_a_question_that_is_not_split_goes_to_a_tool():
    model = mind()
    finished, journal, _ = ask(model, tools(search=ToolReply("Steven Spielberg", 20_000)), WHO)
    assert finished.text == "Steven Spielberg"
    assert calls(finished) == [
        f'reply_1 = CALL_TOOL("search", [["query", "{WHO}"]])',
        f'answer = READ_REPLY("{WHO}", reply_1, [])',
    ]
    # What was cut of the reply is in the journal.
    assert decided(journal, "step/reply_1/cut") == [{"characters": 20_000}]
    assert "whole_question" not in model.given("rebel_read")[0]


def test_what_is_known_goes_before_tools():
    model = mind(knows={WHOLE: "Cincinnati", WHERE: "Cincinnati, as was said"})
    finished, _, _ = ask(model, tools())
    assert finished.values["sub_2"] == "Cincinnati, as was said"
    assert model.schemas().count("rebel_tool") == 1


def test_facts_that_are_no_answer_after_all_leave_the_tools():
    """The memory check says yes, and what is then read from memory is nothing."""
    model = mind(splits={WHOLE: [WHO]}, knows={})
    model.first = {"rebel_memory": [{"answerable": False}, {"answerable": True}]}
    box = tools()
    found = {WHO: "Steven Spielberg", WHOLE: "Cincinnati"}
    box.replies = lambda _, given: found[given["query"]]
    finished, journal, _ = ask(model, box)
    assert finished.text == "Cincinnati"
    assert [one.split(" =")[0] for one in calls(finished)] == ["sub_1", "reply_1", "answer"]
    assert len(decided(journal, "attempt/failed")) == 1


def test_frames_stand_within_frames():
    deep = {f"Q{at}?": [f"Q{at + 1}?"] for at in range(9)}
    everything = {f"Q{at}?": ["search"] for at in range(10)}
    model = Mind(splits=deep, tools=everything, knows={f"Q{at}?": f"A{at}" for at in range(9)})
    box = Box({"search": tool("search", "query")}, lambda *_: "found")
    _, journal, strategy = ask(model, box, "Q0?", depth=3)
    assert strategy.spent.deepest == 3
    assert box.called == [("search", {"query": "Q3?"})]
    path = "step/sub_1/step/sub_1/step/sub_1/"
    assert decided(journal, f"{path}split") == [{"sub_questions": [], "ended": "depth"}]
    told = export_trace(journal.entries, "test")
    assert '# within sub_1/sub_1/sub_1: answer = READ_REPLY("Q3?", reply_1, [])' in told
    names = [step.name for step in as_plan(read_tree(journal.entries)).steps]  # type: ignore[arg-type]
    assert names[:2] == ["sub_1.sub_1.sub_1.reply_1", "sub_1.sub_1.sub_1.answer"]
    assert names[-2:] == ["sub_1", "answer"]


# --- sub-questions that are dropped ---


@pytest.mark.parametrize(
    ("found", "kept", "dropped"),
    [
        ([WHOLE], [], [(WHOLE, "parent")]),
        (["where was the director of JAWS born"], [],
         [("where was the director of JAWS born", "parent")]),
        ([WHOLE, WHO, WHOLE], [f"{WHOLE} again", WHO], [(WHOLE, "answered")]),
        ([WHO, "What is the whole thing?"], [WHO, "What is the whole thing? again"], []),
        (["What is the whole thing?", WHO], ["What is the whole thing? again", WHO], []),
        (["What is the whole thing?", WHO, WHERE], [WHO, WHERE],
         [("What is the whole thing?", "width")]),
        ([WHO, f"{WHO} ", WHERE], [WHO, WHERE], [(f"{WHO} ", "answered")]),
        (["Who are his parents?", WHO], ["Who are his parents?", WHO], []),
        (["What is known?", WHO], [WHO], [("What is known?", "answered")]),
        ([f"What is Q{at}?" for at in range(7)], ["What is Q0?", "What is Q1?"],
         [(f"What is Q{at}?", "width") for at in range(2, 7)]),
        (["What is the whole thing?"], [], [("What is the whole thing?", "parent")]),
    ],
)  # fmt: skip
def test_sub_questions_that_bring_nothing_are_dropped(
    found: list[str], kept: list[str], dropped: list[Any]
):
    above = ("What is the whole thing?", WHOLE)
    asked, others = asyncio.run(sift(found, above, ["What is known?"], 2, TfIdf()))
    assert [f"{part.question}{' again' * part.again}" for part in asked] == kept
    assert others == dropped


def test_what_is_dropped_is_in_the_journal_and_asked_of_nobody():
    model = mind(splits={WHOLE: [f"{WHOLE}!", f" {WHOLE}"]}, knows={})
    finished, journal, _ = ask(model, tools(search="Cincinnati"))
    assert decided(journal, "split") == [
        {"sub_questions": [], "dropped": [[f"{WHOLE}!", "parent"], [WHOLE, "answered"]]}
    ]
    assert [step.action for step in finished.plan.steps] == ["CALL_TOOL", "READ_REPLY"]


@given(st.text(max_size=40), st.text(max_size=40))
def test_the_built_in_embedding_is_one_for_the_same_words(one: str, other: str):
    first, second, again, loud = asyncio.run(TfIdf()([one, other, f" {one}\n", one.upper()]))
    assert cosine(first, again) == pytest.approx(1.0 if any(first) else 0.0)
    assert -1e-9 <= cosine(first, second) <= 1 + 1e-9
    assert len({len(vector) for vector in (first, second, again, loud)}) == 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Who directed Jaws?", "who directed JAWS", True),
        ("Who directed Jaws?", "Who directed Jaws 2?", False),
        ("Was he born before 1900?", "Was he born after 1900?", False),
        ("Did Ann sue Bob?", "Did Bob sue Ann?", False),
        ("Where does Zoë live?", "Where does Zoe live?", True),
        ("In which year was the mayor of the town in which the author of the novel The Grey "
         "Harbour was born himself born?", "In which year was the mayor of the town in which the "
         "author of the novel The Grey Tower was born himself born?", False),
    ],
)  # fmt: skip
def test_what_the_built_in_embedding_tells_apart(one: str, other: str, same: bool):
    left, right = asyncio.run(TfIdf()([one, other]))
    assert (cosine(left, right) > 0.98) is same


# --- tools ---


def test_a_tool_s_wrong_input_is_mended():
    model = mind(first={"rebel_input": [{"words": 3}, "no JSON", {"query": WHO, "more": 1}]})
    finished, journal, _ = ask(model, tools(), WHO, revisions=3)
    assert finished.text == "Steven Spielberg"
    missing, unread, unknown = model.complaints()
    assert "'query' is a required property" in missing
    assert unread == "- It holds no JSON object."
    assert "more: the tool has no such parameter." in unknown
    rejected = [one.path for one in journal.entries if one.path.endswith("/rejected")]
    assert rejected == [f"tool/1/input/{at}/rejected" for at in (1, 2, 3)]


SUMS = "What are two plus two?"


def calculated(*inputs: str, **limits: int) -> tuple[Mind, Any]:
    """The calculator, whose own words say what is wrong with an expression."""
    Path("tools.toml").write_text('[sums]\nkind = "calculator"\n', encoding="utf-8")
    first: Any = {"rebel_input": [{"expression": one} for one in inputs]}
    model = Mind(tools={SUMS: ["sums"]}, first=first)
    return model, load_tools("tools.toml").afresh()


def test_an_input_that_the_tool_refuses_is_mended():
    model, box = calculated("two plus two", "2 plus 2", "2 + 2")
    finished, journal, strategy = ask(model, box, SUMS)
    assert finished.text == "4"
    assert calls(finished)[0] == 'reply_1 = CALL_TOOL("sums", [["expression", "2 + 2"]])'
    asked = model.given("rebel_input")
    assert [len(one.get("refused", [])) for one in asked] == [0, 1, 2]
    [refused] = asked[1]["refused"]
    assert str(refused).startswith('{"expression":"two plus two"} sums: That is no expression:')
    paths = [one.path for one in model.asked if "/input/" in one.path]
    assert paths == ["tool/1/input/1", "tool/1/input/again/1/1", "tool/1/input/again/2/1"]
    assert len(decided(journal, "attempt/failed")) == 2
    assert strategy.spent.tool_calls == 3


def test_an_input_is_mended_no_more_often_than_it_may_be():
    wrong = [f"{number} plus two" for number in ("one", "two", "three", "four")]
    model, box = calculated(*wrong)
    told = fails(model, box, SUMS, revisions=2)
    assert "That is no expression" in told
    assert model.schemas().count("rebel_input") == 3
    model, box = calculated(*wrong)
    fails(model, box, SUMS, revisions=9, calls=6)
    assert model.schemas() == ["rebel_memory", "rebel_tool", "rebel_input", "rebel_input",
                               "rebel_answer"]  # fmt: skip
    model, box = calculated("two", "two", "2")
    fails(model, box, SUMS)
    # The same again is not called again.
    assert model.schemas().count("rebel_input") == 2


def test_a_tool_whose_input_never_fits_is_passed_over():
    model = mind(tools={WHO: ["other", "search"]}, first={"rebel_input": ["no"] * 3})
    finished, journal, _ = ask(model, tools("other", "search"), WHO)
    assert finished.text == "Steven Spielberg"
    assert decided(journal, "tool/1/input/given_up") == [["It holds no JSON object."]]
    assert [decided(journal, f"tool/{at}") for at in (1, 2)] == [
        [{"tool": "other"}], [{"tool": "search"}]
    ]  # fmt: skip


def test_only_tools_that_are_there_can_be_chosen():
    model = mind(first={"rebel_tool": [{"tool": "shell"}, {"tool": "search"}]})
    finished, _, _ = ask(model, tools(), WHO)
    assert finished.text == "Steven Spielberg"
    assert "'shell' is not one of ['search', 'none']" in model.complaints()[0]


@pytest.mark.parametrize("failing", [ToolError("time", "No answer within 2 seconds."), "silence"])
def test_a_tool_that_fails_is_told_and_one_other_is_asked(failing: ToolError | str):
    model = mind(
        tools={WHO: ["a", "b", "search"]},
        reads=lambda _, reply: None if reply == "silence" else reply,
    )
    finished, journal, _ = ask(model, tools("a", "b", "search", a=failing, b="Spielberg"), WHO)
    assert finished.text == "Spielberg"
    [told] = decided(journal, "attempt/failed")
    why = "No answer within 2 seconds." if failing != "silence" else "does not answer"
    assert why in told["cause"]
    trace = export_trace(journal.entries, "test")
    assert ('CALL_TOOL("a"' in trace) is (failing == "silence")


def test_two_tools_that_fail_leave_what_is_known():
    broken = ToolError("status", "a: It answered 500.")
    model = mind(splits={WHOLE: [WHO]}, tools={WHO: ["search"], WHOLE: ["a", "b", "search"]})
    model.first = {"rebel_answer": [{"answer": "Cincinnati, it seems"}]}
    finished, _, _ = ask(model, tools("a", "b", "search", a=broken, b=broken))
    assert finished.text == "Cincinnati, it seems"
    assert [step.action for step in finished.plan.steps] == ["SOLVE", "ANSWER_FROM_MEMORY"]


@pytest.mark.parametrize(
    ("model", "box", "words"),
    [
        (mind(tools={}), tools(), "no tool was chosen"),
        (mind(), tools(search=ToolError("host", "search: It is sent on.")), "It is sent on"),
        (mind(reads=lambda *_: None), tools(), "does not answer the question"),
        (mind(first={"rebel_input": ["no"] * 3}), tools(), "could not be given its input"),
        (mind(), Box({}, lambda *_: ""), "no tool was chosen"),
    ],
)
def test_a_question_without_an_answer_says_why(model: Mind, box: Box, words: str):
    told = fails(model, box, WHO)
    assert told.startswith(f"There is no answer to “{WHO}”: ")
    assert words in told


def test_a_sub_question_without_an_answer_is_left_out():
    model = mind(tools={WHO: [], WHERE: ["search"]})
    finished, _, _ = ask(model, tools())
    assert calls(finished) == [
        f'sub_2 = SOLVE("{WHERE}", [])',
        f'answer = ANSWER_FROM_MEMORY("{WHOLE}", ["{WHERE}: {{sub_2}}"])',
    ]


def test_what_was_not_found_is_told_from_there_on():
    """As that nothing was found; once it is answered all the same, as its answer."""
    model = mind(reads=lambda asked, _: None if asked == WHO else "Ohio")
    nothing = f"{WHO}: {NOTHING}"
    finished, _, _ = ask(model, tools())
    assert calls(finished) == [
        f'sub_2 = SOLVE("{WHERE}", ["{nothing}"])',
        f'answer = ANSWER_FROM_MEMORY("{WHOLE}", ["{nothing}", "{WHERE}: {{sub_2}}"])',
    ]
    assert [one["facts"] for one in model.given("rebel_answer")] == [
        [nothing], [nothing, f"{WHERE}: Ohio"],
    ]  # fmt: skip
    assert [one["answered"] for one in model.given("rebel_split")] == [[], [], []]
    model.own = {WHO: "Spielberg"}
    model.first = {"rebel_memory": [{"answerable": False}]}
    ask(model, tools())
    assert model.given("rebel_answer")[-1]["facts"] == [f"{WHO}: Spielberg", f"{WHERE}: Ohio"]


def test_an_answer_that_several_questions_have_stands_in_the_facts_once():
    model = mind(reads=lambda *_: "Cincinnati")
    finished, _, _ = ask(model, tools())
    assert model.given("rebel_answer")[-1]["facts"] == [f"{WHO} {WHERE}: Cincinnati"]
    assert calls(finished)[-1].endswith(f'["{WHO} {WHERE}: {{sub_2}}"])')


def test_a_model_that_never_fits_a_form_is_gone_on_without():
    first = {name: ["{}"] * 3 for name in ("rebel_split", "rebel_tool")}
    assert "rebel_tool does not fit after 3" in fails(mind(first=dict(first)), tools())
    model = mind(first={"rebel_split": ["{}"] * 3})
    finished, journal, _ = ask(model, tools(search="Cincinnati"))
    assert finished.text == "Cincinnati"
    [[lacking]] = decided(journal, "split/given_up")
    assert "sub_questions" in lacking
    model = mind(first={"rebel_memory": ["no"] * 6}, splits={WHOLE: [WHO]})
    finished, _, _ = ask(model, tools(search="Cincinnati"))
    assert [step.action for step in finished.plan.steps] == ["SOLVE", "CALL_TOOL", "READ_REPLY"]
    assert "does not fit after 3 tries" in fails(mind(first={"rebel_read": ["no"] * 3}), tools(),
                                                 WHO)  # fmt: skip


def test_a_model_that_writes_no_object_is_asked_three_times():
    model = mind(first={"rebel_split": ["no"] * 3})
    assert "rebel_split does not fit after 3 tries: it holds no JSON object: name a more" in fails(
        model, tools()
    )
    assert len(model.asked) == 3
    # One that has written an object, or could not be asked as often, may write another.
    for replies, limits in ((["{}", "{}", "no"], {}), (["no"] * 3, {"calls": 4})):
        model = mind(first={"rebel_split": replies})
        assert ask(model, tools(search="Cincinnati"), WHOLE, **limits)[0].text


def test_every_value_that_a_tool_takes_stands_in_the_plan():
    own = Tool(
        "own", "All kinds.",
        tuple(Parameter(name, name, schema, required) for name, schema, required in [
            ("text", '{"type": "string"}', True), ("number", '{"type": "number"}', True),
            ("flag", '{"type": "boolean"}', True), ("list", '{"type": "array"}', True),
            ("left", '{"type": "string"}', False),
        ]),
    )  # fmt: skip
    wanted = {"text": 'a "b" {c} \\ \n', "number": -1.5e30, "flag": False, "list": ["x", 2, ["y"]]}
    model = mind(tools={WHO: ["own"]}, inputs={WHO: {**wanted, "left": None}})
    box = Box({"own": own}, lambda *_: "Spielberg")
    finished, _, _ = ask(model, box, WHO)
    assert box.called == [("own", wanted)]
    wanted["list"] = [{"deep": None}]
    box.called.clear()
    model.inputs = {WHO: wanted}
    finished, _, _ = ask(model, box, WHO)
    assert box.called == [("own", wanted)]
    assert 'CALL_TOOL("own", "{' in calls(finished)[0]
    for wrong, why in (
        ({"text": "\ud800"}, "text: it holds a number or a character that cannot be sent."),
        ({"number": float("inf")}, "number: 'Infinity' is not of type 'number'"),
    ):
        model.inputs = {WHO: {**wanted, **wrong}}
        assert "could not be given its input" in fails(model, box, WHO)
        assert model.complaints()[-1] == f"- {why}"


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=9),
        st.recursive(
            st.text(max_size=9) | st.booleans() | st.integers(-(2**40), 2**40) | st.none(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.text(max_size=3), inner, max_size=2)
            ),
            max_leaves=5,
        ),
        max_size=4,
    )
)
def test_an_input_is_the_same_after_the_plan_is_read_again(arguments: dict[str, Any]):
    texts = [one for one in arguments.values() if isinstance(one, str) and len(one) > 1]
    known = {f"sub_{at}": one for at, one in enumerate([*texts, "ab"])}
    call = Step("a", "CALL_TOOL", (Literal("x"), written_input(arguments, known)))
    [step] = parse(print_call(call)).plan.steps
    assert arguments_of(value_of(step.args[1], known, None)) == arguments


def test_an_answer_in_an_input_is_a_reference():
    known = {"sub_1": "Ines Falk", "sub_2": "Ines", "sub_3": "L"}
    arguments = {"query": "Inestown, {sub_9} Ines Falk and Ines: L", "who": "Ines Falk", "n": 3}
    arg = written_input({**arguments, "all": ["Ines", "Bo"]}, known)
    assert print_arg(arg) == (
        '[["query", "Inestown, \\{sub_9} {sub_1} and {sub_2}: L"], ["who", sub_1], ["n", 3], '
        '["all", [sub_2, "Bo"]]]'
    )
    model = mind(
        splits={WHOLE: [WHO]}, knows={}, inputs={WHOLE: {"query": "Steven Spielberg born"}}
    )
    finished, _, _ = ask(model, tools(search="Cincinnati"))
    model.reads = lambda *_: "Steven Spielberg"
    finished, _, _ = ask(model, tools(search="Cincinnati"))
    assert calls(finished)[1] == 'reply_1 = CALL_TOOL("search", [["query", "{sub_1} born"]])'


# --- limits ---


def well_behaved(**more: Any) -> Mind:
    """Reads an answer only where there is one, so that only parts lead to it."""
    return mind(reads=lambda _, reply: None if reply == "nothing" else reply, **more)


def test_when_calls_come_to_an_end_each_question_answers_from_what_it_knows():
    model = well_behaved()
    finished, journal, strategy = ask(model, tools(), calls=9)
    assert finished.text == "Cincinnati"
    one = ["rebel_tool", "rebel_input", "rebel_read"]
    assert model.schemas() == ["rebel_split", *one, "rebel_memory", "rebel_answer"]
    assert strategy.spent.calls == 6
    assert decided(journal, "limit") == [{"calls": 9}]
    assert decided(journal, "step/sub_1/limit") == [{"calls": 9}] * 2


SMALLEST = 9
"""A split, a look-up of one part and an answer from memory kept for it, and the same for the
question."""


@pytest.mark.parametrize("most", range(1, 31))
def test_no_limit_of_calls_is_passed_and_none_is_too_large(most: int):
    model = well_behaved()
    if most < SMALLEST:
        told = fails(model, tools(), calls=most)
        assert f"It made {len(model.asked)} of its {most} calls, and what is next takes" in told
    else:
        assert ask(model, tools(), calls=most)[0].text == "Cincinnati"
    assert len(model.asked) <= most


DEEP = {
    f"Who is {name}?": [f"Who is {part}?" for part in parts]
    for name, parts in {"Q": "ABC", "A": "DE", "B": "FG", "D": "HI"}.items()
}


def test_more_calls_never_answer_less():
    """A tree of parts, each of which a tool answers: what is found grows with the calls."""
    found = []
    for most in range(1, 80, 3):
        chosen = {f"Who is {name}?": ["search"] for name in "ABCDEFGHI"}
        model = Mind(splits=DEEP, tools=chosen, knows={"Who is Q?": "all"})
        box = Box({"search": tool("search", "query")}, lambda _, given: f"it {given['query']}")
        try:
            finished, _, _ = ask(model, box, "Who is Q?", calls=most)
        except (RunError, ModelError):
            found.append(-1)
        else:
            found.append(sum(step.action == "SOLVE" for step in finished.plan.steps))
        assert len(model.asked) <= most
    assert found == sorted(found)
    assert (found[0], found[-1]) == (-1, 3)


@pytest.mark.parametrize("most", range(SMALLEST, 40, 3))
@pytest.mark.parametrize("name", ["rebel_split", "rebel_memory", "rebel_tool", "rebel_input"])
def test_mending_leaves_the_calls_that_an_answer_needs(name: str, most: int):
    """A model that never fits one form, after a fact is known or before."""
    model = well_behaved(first={name: ["no"] * 99}, splits={WHOLE: [WHO, WHERE], WHO: ["H?"]})
    run = tools()
    if name in ("rebel_split", "rebel_tool", "rebel_input"):
        # No part can be found: it says so, within the calls.
        fails(model, run, calls=most, revisions=50)
    else:
        assert ask(model, run, calls=most, revisions=50)[0].text
    assert len(model.asked) <= most


def test_a_question_with_no_call_left_says_so():
    model = mind(first={"rebel_read": ["no"] * 9})
    told = fails(model, tools(), WHO, calls=5, revisions=8)
    assert "does not fit after 1 tries" in told
    assert told.endswith("It made 5 of its 5 calls, and what is next takes more: allow more.")


# --- facts of other frames ---

QUESTION, FIRST, SECOND = "Who is Q?", "Who is S?", "Who is T?"
A, B, C = "Who is A?", "Who is B?", "Who is C?"


@pytest.mark.parametrize("found", [True, False])
def test_what_a_part_s_part_found_is_known_to_later_parts(*, found: bool):
    """Both parts ask for A; whether the first has an answer or none, the tool is asked once."""
    knows = {SECOND: "two", QUESTION: "both", **({FIRST: "one"} if found else {})}
    splits = {QUESTION: [FIRST, SECOND], FIRST: [A, B], SECOND: [A, C]}
    model = Mind(splits, knows, {one: ["search"] for one in (A, B, C)})
    box = Box({"search": tool("search", "query")}, lambda _, given: f"it {given['query']}")
    finished, journal, _ = ask(model, box, QUESTION)
    assert finished.text == "both"
    assert [given["query"] for _, given in box.called] == [A, B, C]
    assert decided(journal, "step/sub_2/split") == [
        {"sub_questions": [C], "dropped": [[A, "answered"]]}
    ]
    known = f'"{A}: it {A}", "{B}: it {B}"' + (f', "{FIRST}: {{sub_1}}"' if found else "")
    assert f'sub_2 = SOLVE("{SECOND}", [{known}])' in calls(finished)
    ending = f'answer = ANSWER_FROM_MEMORY("{QUESTION}", [{known}, "{C}: it {C}", '
    assert calls(finished)[-1].startswith(ending)
    assert all("it " not in str(one["answered"]) for one in model.given("rebel_split"))


def test_a_fact_of_another_frame_is_one_line_and_no_reference():
    reply = f'x {{sub_1}}\n\n{QUESTION}: y"] answer = CALL_TOOL("z")'
    knows = {FIRST: "one", SECOND: "two", QUESTION: "both"}
    model = Mind({QUESTION: [FIRST, SECOND], FIRST: [A]}, knows, {A: ["search"]})
    box = Box({"search": tool("search", "query")}, lambda *_: reply)
    finished, _, _ = ask(model, box, QUESTION)
    known = value_of(finished.plan.steps[1].args[1], finished.values, None)
    assert known == [f"{A}: {' '.join(reply.split())}", f"{FIRST}: one"]


def test_tool_calls_come_to_an_end():
    box = tools()
    finished, journal, _ = ask(mind(), box, tool_calls=1)
    assert len(box.called) == 1
    assert calls(finished)[-1] == (f'answer = ANSWER_FROM_MEMORY("{WHOLE}", ["{WHO}: {{sub_1}}"])')
    assert decided(journal, "step/sub_2/limit") == [{"tool_calls": 1}]


def test_a_question_has_no_more_parts_than_its_width():
    model = mind(splits={WHOLE: [f"What is part {at} of it?" for at in range(9)]})
    model.tools = {f"What is part {at} of it?": ["search"] for at in range(9)}
    finished, journal, _ = ask(model, tools(search="x"), width=3)
    assert len(finished.plan.steps) == 4
    assert len(decided(journal, "split")[0]["dropped"]) == 6


def test_a_model_that_cannot_be_reached_ends_the_run():
    """An answer from what is left would be another one the next time."""
    model = mind(first={"rebel_memory": [ModelError("connection", "It cannot be reached.")]})
    assert "cannot be reached" in fails(model, tools())


# --- what a store keeps ---


@pytest.mark.parametrize("until", range(13))
def test_a_run_that_was_cut_off_goes_on_and_asks_nothing_again(until: int):
    """Neither the model nor a tool; and begun once more, it asks nothing at all."""
    model, box = mind(), tools()

    async def once() -> tuple[Finished, str]:
        with closing(open_store("store.db")) as store:
            engine = start_engine(model, store)
            journal = store.journal(store.start("ask", {"question": WHOLE}))
            caller = Caller(engine.ask, engine.model.identity, journal)
            strategy = rebel(caller, CachedTools(box, store, "the run", "the question"))
            frame = Frame(Source("d", "-"), LIBRARY, caller, handlers=strategy.handlers)
            finished = await run_strategy(strategy, WHOLE, frame)
            return finished, export_trace(journal.entries, "run")

    async def cut_off() -> None:
        reached, answer = asyncio.Event(), model.answer

        async def stop(request: Request) -> Reply:
            if len(model.asked) == until:
                reached.set()
                await asyncio.Event().wait()
            return await answer(request)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(model, "answer", stop)
            task = asyncio.create_task(once())
            await reached.wait()
            task.cancel()
            await asyncio.wait([task])
        assert (task.cancelled(), len(model.asked)) == (True, until)

    asyncio.run(cut_off())
    ended = asyncio.run(once())
    assert ended[0].text == "Cincinnati"
    assert asyncio.run(once()) == ended
    assert len({one.key for one in model.asked}) == len(model.asked) == 13
    assert box.called == [("search", {"query": WHO}), ("search", {"query": WHERE})]


def test_a_run_that_goes_on_makes_no_more_calls_than_one_in_one_go(tmp_path: Path):
    """Two calls may be made, of which one fails; two alike are two."""
    limited = replace(tool("search", "query"), limits=ToolLimits(calls=2))
    replies = iter([ToolError("time", "late"), "found"])
    box = Box({"search": limited}, lambda *_: next(replies))
    store = open_store(str(tmp_path / "store.db"))

    async def once(calls: int) -> list[str]:
        kept = CachedTools(box, store, "run", "q")
        told = []
        for _ in range(calls):
            try:
                told.append((await kept.call("search", {"query": "alike"})).text)
            except ToolError as error:
                told.append(f"{error.reason}: {error}")
        return told

    async def both() -> None:
        assert await once(1) == ["time: late"]
        spent = "budget: search: All 2 calls of a question are made."
        for _ in range(2):
            assert await once(3) == ["time: late", "found", spent]

    with closing(store):
        asyncio.run(both())
    assert len(box.called) == 2


# --- real services ---


async def weather(request: web.Request) -> web.StreamResponse:
    place = request.query["place"]
    return web.json_response({"place": place, "sky": {"Ulm": "rain", "Bonn": "sun"}[place]})


TOWNS = {
    "Ulm": "Ulm lies on the Danube. Its minster has the highest steeple of all churches.",
    "Bonn": "Bonn lies on the Rhine. Beethoven was born there.",
    "Kiel": "Kiel lies on the Baltic Sea and has a canal.",
}
DECLARED = """
[{name}]
about = "The {name} service."
endpoint = "{url}/{name}"
[{name}.parameters.{takes}]
about = "words"
[{name}.limits]
private = true
"""
SKY, TOWN = "What is the sky like today in Beethoven's town of birth?", "Where was Beethoven born?"


def served(model: Mind, question: str, takes: Mapping[str, str], **routes: Any) -> Finished:
    """A run whose tools are services, each of which takes a parameter."""
    with Services(routes) as services:
        text = "".join(
            DECLARED.format(name=name, takes=one, url=services.url) for name, one in takes.items()
        )
        Path("tools.toml").write_text(text, encoding="utf-8")
        toolbox = load_tools("tools.toml")

        try:
            return run(model, lambda caller: rebel(caller, toolbox), question, LIBRARY)[0]
        finally:
            asyncio.run(toolbox.close())


def test_right_answers_from_a_search_over_a_corpus_and_a_weather_service(tmp_path: Path):
    corpus = tmp_path / "towns.jsonl"
    rows = [{"id": name, "title": name, "text": text} for name, text in TOWNS.items()]
    write_rows(corpus, *rows)
    build_index(str(corpus), str(tmp_path / "index"))
    retriever = open_index(str(tmp_path / "index"))

    async def search(request: web.Request) -> web.StreamResponse:
        found = retriever.search(request.query["query"], 1)
        return web.json_response([{"title": one.title, "text": one.text} for one in found])

    def read(question: str, reply: str) -> str | None:
        found = json.loads(reply)
        return str(found[0]["title"] if question == TOWN else found["sky"])

    model = Mind(
        splits={SKY: [TOWN]}, tools={TOWN: ["towns"], SKY: ["weather"]},
        inputs={TOWN: {"query": "Beethoven born"}, SKY: {"place": "Bonn"}}, reads=read,
    )  # fmt: skip
    finished = served(
        model, SKY, {"towns": "query", "weather": "place"}, towns=search, weather=weather
    )
    assert finished.text == "sun"
    assert finished.values["sub_1"] == "Bonn"
    assert model.given("rebel_input")[-1]["facts"] == [f"{TOWN}: Bonn"]


def test_a_service_that_misbehaves_is_told_in_one_line():
    model = Mind(tools={TOWN: ["moves"]})
    moves = answering(302, Location="http://127.0.0.2:9/weather")
    with pytest.raises(RunError, match="sent on to another host") as caught:
        served(model, TOWN, {"moves": "query"}, moves=moves)
    assert len(str(caught.value).splitlines()) == 1
    assert "rebel_read" not in model.schemas()


def test_a_document_is_searched_where_there_are_no_tools():
    text = "\n\n".join(f"# {name}\n\n{told}" for name, told in TOWNS.items())
    box = document_tools(Source("towns.md", text))

    def read(_: str, reply: str) -> str | None:
        assert reply.startswith("Bonn: Bonn lies")
        return "Bonn"

    model = Mind(reads=read)
    finished, journal, _ = ask(model, box, TOWN)
    assert finished.text == "Bonn"
    # With nothing but the search of the document, there is nothing to choose.
    assert model.schemas() == ["rebel_split", "rebel_memory", "rebel_input", "rebel_read"]
    assert decided(journal, "tool/1") == [{"tool": "search"}]
    assert str(model.given("rebel_split")[0]["tools"]).startswith("search: Finds the paragraphs of")
    nothing = Mind(tools={TOWN: ["search"]}, inputs={TOWN: {"query": "xyzzy"}})
    assert "No paragraph has one of these words" in fails(nothing, box, TOWN)
    for wrong in ({"query": ""}, {"query": "x" * 501}, {"words": "Bonn"}):
        with pytest.raises(ToolError, match="do not fit") as caught:
            asyncio.run(box.call("search", wrong))
        assert caught.value.reason == "input"


# --- what the model knows itself ---

SKY_COLOUR = "What colour is the sky?"


def test_what_the_model_knows_itself_is_an_answer_without_facts():
    model = Mind(own={SKY_COLOUR: "blue"})
    finished, journal, _ = ask(model, tools(), SKY_COLOUR)
    assert finished.text == "blue"
    assert calls(finished) == [f'answer = ANSWER_FROM_MEMORY("{SKY_COLOUR}", [])']
    assert decided(journal, "memory") == [{"answerable": True, "facts": 0}]


def test_without_tools_and_without_recursion_the_model_is_asked():
    """Whether the check says yes or no, as there is nothing else to ask."""
    for first in ({}, {"rebel_memory": [{"answerable": False}]}):
        model = Mind(own={SKY_COLOUR: "blue"}, first=first)
        # No call is kept for a look-up that cannot be.
        finished, _, strategy = ask(model, Box({}, lambda *_: ""), SKY_COLOUR, depth=0, calls=2)
        assert finished.text == "blue"
        assert model.schemas() == ["rebel_memory", "rebel_answer"]
        assert strategy.spent.tool_calls == 0


def test_a_part_that_repeats_its_question_is_not_split_again_and_the_others_stay():
    third = "Which country is that town in?"
    model = Mind(
        splits={WHOLE: [WHO, f"{WHOLE}!", third], f"{WHOLE}!": [WHO]},
        tools={one: ["search"] for one in (WHO, f"{WHOLE}!", third)},
        knows={WHOLE: "in Ohio"},
    )
    box = Box({"search": tool("search", "query")}, lambda _, given: f"it {given['query']}")
    finished, journal, _ = ask(model, box)
    assert [one["query"] for _, one in box.called] == [WHO, f"{WHOLE}!", third]
    assert [step.action for step in finished.plan.steps] == [
        "SOLVE", "LOOK_UP", "SOLVE", "ANSWER_FROM_MEMORY",
    ]  # fmt: skip
    assert decided(journal, "split")[0]["dropped"] == []
    assert decided(journal, "step/sub_2/split") == [{"sub_questions": [], "ended": "again"}]
