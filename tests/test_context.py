"""Documents longer than the window: whole, in parts, by passages, or not, but never cut."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pearl
from pearl.lang.ast import DOCUMENT, Action, Literal, Param, Ref, Step
from pearl.lang.builtins import MOST
from pearl.lang.errors import InputError
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.source import Source
from pearl.lang.values import Pairs
from pearl.lint.checker import check
from pearl.models.base import ModelError, Reply, Request
from pearl.models.offline import Offline
from pearl.prompts.calls import ExecuteStep, MapAnswer
from pearl.prompts.render import render
from pearl.retrieval.converters import read_documents
from pearl.retrieval.retriever import choose_passages
from pearl.retrieval.text_splitter import LabelError, enough_parts, part, spans
from pearl.runtime.calls import Journal
from pearl.runtime.context import POLICIES, Context
from pearl.runtime.evidence import evidence
from pearl.runtime.fit_to_window import fit_call, most_without_document, size_without_document
from pearl.runtime.loop import Finished, Return, Run, RunError, Steps
from pearl.runtime.trace import export_trace, read_records, replay
from pearl.strategies.pearl import GivenPlan, PearlStrategy
from tests.scripted_models import Scripted, carry_out

LIBRARY = load_library()


def count(text: str) -> int:
    """A tokenizer whose tokens are words."""
    return len(text.split())


def window(tokens: int | None, policy: str = "auto", reply: int = 100) -> Context:
    return Context(policy, tokens, reply, count)


FACTS = {
    3: "Ada keeps a lamp in Ulm.",
    40: "Bo keeps a boat in Kiel.",
    77: "Cy keeps a lamp in Rest.",
    99: "Ada keeps a clock in Rest.",
}


def story(paragraphs: int = 110) -> Source:
    """Paragraphs of fifty words; four of them hold a fact."""
    told = []
    for at in range(paragraphs):
        filler = " ".join(f"Rain fell on street {at} and no one came by." for _ in range(5))
        told.append(f"{filler} {FACTS[at]}" if at in FACTS else filler)
    return Source("story.txt", "\n\n".join(told))


class Reader(Scripted):
    """Answers from what stands in the prompt, and in no other way.

    It finds the sentences of the document, or of the findings, that hold all
    words of the last argument. No prompt may be longer than the window.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit

    async def answer(self, request: Request) -> Reply:
        self.asked.append(request)
        words = sum(count(message["content"]) for message in request.messages)
        assert self.limit is None or words + 100 <= self.limit
        prompt = request.messages[-1]["content"]
        start = r"\A" if prompt.startswith("<document>") else r"(?:\], from [^\n]*|Arguments):\n"
        blocks = re.findall(rf"{start}<(\w+)>\n(.*?)\n</\1>", prompt, re.DOTALL)
        read = "\n".join(text for _, text in blocks)
        asked = re.findall(r"<(X|Y|LIST)>\n(.*?)\n</\1>", prompt, re.DOTALL)
        wanted = asked[-1][1].split() if asked else []
        lines = re.findall(r"[A-Z]\w* keeps [^.\n]*\.", read)
        found = list(dict.fromkeys(one for one in lines if set(wanted) <= set(_words(one))))
        return Reply("\n".join([_first(prompt, found), *(f"> {one}" for one in found)]))


def _words(sentence: str) -> list[str]:
    return re.findall(r"\w+", sentence)


def _first(prompt: str, found: list[str]) -> str:
    if "Answer with yes or no" in prompt:
        return "yes" if found else "no"
    if "Answer with one number" in prompt:
        return str(len(found)) if found else "unknown"
    if "Answer with a JSON array" in prompt:
        return "[" + ", ".join(f'"{one.split()[0]}"' for one in found) + "]"
    return " ".join(found) or "It does not say."


def run(
    plan: str, context: Context, document: Source | None = None, ask: Any = None
) -> tuple[Finished, Any, Journal]:
    """A plan's run, who was asked, each time within the window, and a journal that replays."""
    model, parsed = ask or Reader(context.window), parse(plan)
    assert not parsed.broken
    given, read = GivenPlan(parsed.plan), document or story()
    finished, journal, _ = carry_out(model, lambda _: given, "who?", LIBRARY, read, context=context)
    assert all(context.holds(one.messages) for one in getattr(model, "asked", ()))
    replays(journal, {one.code for one in check(parsed, LIBRARY)})
    return finished, model, journal


def names(finished: Finished) -> list[str]:
    return [step.name for step in finished.plan.steps]


def actions(finished: Finished) -> dict[str, str]:
    return {step.name: step.action for step in finished.plan.steps}


def returns(finished: Finished) -> dict[str, str]:
    return {one.name: one.returns for one in finished.plan.declares}


def asked_once(model: Scripted) -> bool:
    paths = [request.path for request in model.asked]
    return len(paths) == len(set(paths))


def decisions(journal: Journal, path: str) -> list[object]:
    return [entry.value for entry in journal.entries if entry.path == path]


def replays(journal: Journal, told: set[str]) -> None:
    """See that a run's trace prints back, gives the answer again, and that of it the same is told
    as of the plan."""
    source = Source("trace.plan", export_trace(journal.entries, "r"))
    parsed = parse(source)
    assert not parsed.broken
    assert not parsed.aside
    assert {one.code for one in check(parsed, LIBRARY)} == told
    bare = parse(print_plan(parsed.plan)).plan
    assert [(one.name, one.args) for one in bare.steps] == [
        (one.name, one.args) for one in parsed.plan.steps
    ]
    result = replay(list(read_records(source)), LIBRARY)
    assert (result.executed, result.exact, result.failed) == (1, 1, {})


# --- when nothing is to be done ---


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("tokens", [None, 20_000])
def test_what_fits_or_may_fit_stays_as_it_is(policy: str, tokens: int | None):
    plan = 'a = FIND_CHARACTER(CTX, "Ada") : who\nb = FIND_LOCATION(CTX, a) : where'
    finished, model, journal = run(plan, window(tokens, policy))
    assert names(finished) == ["a", "b"]
    assert [one.call.omitted for one in model.asked] == [0.0, 0.0]
    assert all(one.call.document == story() for one in model.asked)
    assert not [one for one in journal.entries if one.path.startswith("context")]
    # A step that reads nothing is left alone, however small the window.
    finished, _, _ = run('a = CONCAT("x", "y") : both', window(1500, policy))
    assert names(finished) == ["a"]


# --- full ---


def test_full_sends_nothing_and_names_the_sizes():
    model = Reader()
    plan = 'a = FIND_CHARACTER(CTX, "Ada") : who\nb = FIND_LOCATION(CTX, a) : where'
    with pytest.raises(RunError) as caught:
        run(plan, window(3000, "full"), ask=model)
    assert model.asked == []
    assert [(one.step, one.reason) for one in caught.value.failures] == [("a", "context")]
    told = str(caught.value)
    for size in (f"{count(story().text):,}", "3,000", "100"):
        assert size in told
    assert "--context chunk" in told
    assert "\n" not in told


# --- chunk ---


@pytest.mark.parametrize("policy", ["auto", "chunk"])
def test_a_text_is_found_in_parts_and_merged(policy: str):
    plan = 'a = FIND_CHARACTER(CTX, "lamp") : who keeps one\nb = CONCAT(a, "and no more") : all'
    finished, model, journal = run(plan, window(3000, policy))
    assert names(finished) == ["parts", "a_parts", "a", "b"]
    assert parse(print_plan(finished.plan)).plan == finished.plan
    assert finished.values["parts"] == ["CTX 1/3", "CTX 2/3", "CTX 3/3"]
    assert [key for key, _ in finished.values["a_parts"]] == finished.values["parts"]
    assert finished.outputs == ("b",)
    quotes = evidence(finished.plan, finished.values, finished.outputs, story())
    assert [quote.text for quote in quotes] == [FACTS[3], FACTS[77]]
    assert all(quote.span and story().at(quote.span) == quote.text for quote in quotes)
    read = [one.call.document.text for one in model.asked if one.call.document]
    assert "".join(read) == story().text
    assert all("left out here" in one.messages[-1]["content"] for one in model.asked[:3])
    assert [one.path for one in model.asked][-1] == "step/a"
    (decided,) = decisions(journal, "context")
    assert decided["parts"] == 3
    assert decided["steps"] == ["a"]
    trace = export_trace(journal.entries, "r")
    assert '# value parts = ["CTX 1/3","CTX 2/3","CTX 3/3"]' in trace


def test_a_list_is_put_together_without_the_model():
    plan = 'a = FIND_ALL(CTX, "keeps") : who keeps things\nn = COUNT(a) : how many'
    finished, model, _ = run(plan, window(3000))
    assert finished.values["a"] == ["Ada", "Bo", "Cy"]
    assert finished.values["n"] == 3
    assert len(model.asked) == 3


def test_a_choice_from_a_list_is_no_list_of_findings():
    """What no part mentions is not what some part does not mention."""
    plan = 'a = FIND_ALL(CTX, "keeps")\nb = FIND_NOT_MENTIONED(CTX, a) : who is not there'
    finished, _, _ = run(plan, window(3000))
    assert actions(finished)["b_parts"] == "REPORT_FIND_NOT_MENTIONED"
    assert actions(finished)["b"] == "MERGE_FIND_NOT_MENTIONED"
    assert returns(finished) == {
        "REPORT_FIND_NOT_MENTIONED": "text", "MERGE_FIND_NOT_MENTIONED": "list",
    }  # fmt: skip


@pytest.mark.parametrize(("step", "value", "last"), [
    ('CHECK_TRUE(CTX, "lamp")', True, "bool"),
    ('CHECK_TRUE(CTX, "piano")', False, "bool"),
    ('COUNT_INSTANCES(CTX, "boat")', 1, "number"),
])  # fmt: skip
def test_yes_or_no_and_a_number_are_decided_from_reports(step: str, value: object, last: str):
    """A part that does not tell a number says so, and does not fail the step."""
    finished, model, _ = run(f"a = {step} : is it so", window(3000))
    assert finished.values["a"] == value
    assert [one.call.action.returns for one in model.asked] == ["text", "text", "text", last]


def test_each_and_where_go_over_the_same_items_as_before():
    plan = """
    who = FIND_ALL(CTX, "keeps") : who keeps things
    has = FIND_ENTITY(CTX, each who) : what each keeps
    lit = CHECK_TRUE(CTX, "{where who} lamp") : who keeps a lamp
    out = CHECK_TRUE(CTX, where values has) : what is so
    return has, lit, out
    """
    finished, _, _ = run(plan, window(4000))
    values = finished.values
    assert [key for key, _ in values["has"]] == ["Ada", "Bo", "Cy"]
    assert FACTS[3] in dict(values["has"])["Ada"]
    assert FACTS[99] in dict(values["has"])["Ada"]
    assert values["lit"] == ["Ada", "Cy"]
    assert isinstance(values["out"], Pairs)
    assert {key for key, _ in values["out"]} <= {"Ada", "Bo", "Cy"}
    lit = [action for name, action in actions(finished).items() if name.startswith("lit")]
    merged = ["BY_ITEM", "MERGE_CHECK_TRUE", "KEEP_ITEMS"]
    assert lit == ["REPORT_CHECK_TRUE"] * 2 + merged


def test_a_document_that_is_given_for_a_text_and_does_not_fit_is_told_before_a_call():
    plan = 'a = FIND_CHARACTER(CTX, "lamp") : one\nb = ANSWER_FROM(CTX, a) : both'
    for policy in ("auto", "retrieve"):
        reader = Reader(3000)
        with pytest.raises(RunError, match="Step b .*a model with a longer window"):
            run(plan, replace(window(3000), policy=policy), ask=reader)
        assert not reader.asked
    finished, _, _ = run(plan, window(20_000))
    assert finished.outputs == ("b",)


@pytest.mark.parametrize(
    "plan",
    [
        'a = FIND_EVENT("CTX.short", "x") : s\nb = FIND_EVENT("CTX.long", "x") : l\nreturn a, b',
        'docs = DOCUMENTS(CTX) : all\na = FIND_EVENT(each docs, "x") : each',
    ],
)
def test_one_of_several_documents_that_does_not_fit_is_told_before_a_call(plan: str):
    Path("long.txt").write_text(story().text)
    Path("short.txt").write_text("A short one.")
    both = read_documents(["long.txt", "short.txt"])
    reader = Reader(3000)
    with pytest.raises(RunError, match="One of several documents is not read in parts"):
        run(plan, window(3000), both, reader)
    assert not reader.asked
    retrieved, _, _ = run(plan, window(3000, "retrieve"), both)
    whole, _, _ = run(plan, window(20_000), both)
    assert retrieved.outputs == whole.outputs


def test_an_item_s_merge_is_given_what_was_found_for_it_alone():
    """So it is as long as the merge of a step without a list, whatever the list's length."""
    plan = 'who = FIND_ALL(CTX, "keeps") : who\nhas = FIND_ENTITY(CTX, "{each who}") : what\n'
    finished, model, _ = run(plan, window(1200), story(paragraphs=400))
    merges = [one for one in model.asked if "MERGE_FIND_ENTITY" in one.messages[-1]["content"]]
    joins = [one.path for one in merges if re.match(r"step/has_merged\[", one.path)]
    assert joins
    assert "has_by_item_2" in names(finished)
    for one in merges:
        prompt = one.messages[-1]["content"]
        [asked] = re.findall(r"<X>\n(.*?)\n</X>", prompt)
        told = re.findall(r"(\w+) keeps", prompt.partition("<X>")[0])
        assert set(told) <= {asked}
    assert [key for key, _ in finished.values["has"]] == finished.values["who"]


@pytest.mark.parametrize(("mode", "kept"), [
    ("each values one", ["Cy", "Bo", "Ada", "Di"]),
    ("where values one", ["Cy", "Ada"]),
    ("where who", ["Cy", "Ada"]),
])  # fmt: skip
def test_items_or_the_keys_of_values_and_their_order_are_as_without_parts(
    mode: str, kept: list[str]
):
    plan = f"""
    who = UNIQUE(["Cy", "Bo", "Ada", "Di"]) : the people
    one = CONCAT(each who) : each by itself
    lit = CHECK_TRUE(CTX, "{{{mode}}} lamp") : who keeps a lamp
    """
    whole, _, _ = run(plan, window(None))
    parted, _, _ = run(plan, window(3000))
    found = parted.values["lit"]
    assert whole.values["lit"] == found
    assert (list(dict(found)) if isinstance(found, Pairs) else found) == kept


def test_the_document_is_cut_once_for_a_plan_and_actions_declared_once():
    plan = """
    a = FIND_CHARACTER(CTX, "lamp") : one
    b = FIND_CHARACTER(CTX, "boat") : two
    parts = FIND_EVENT(CTX, "clock") : the plan's own name
    return a, b, parts
    """
    finished, _, _ = run(plan, window(3000))
    assert [name for name, action in actions(finished).items() if action == "PARTS"] == ["parts_2"]
    assert finished.outputs == ("a", "b", "parts")
    assert list(returns(finished)) == ["MERGE_FIND_CHARACTER", "MERGE_FIND_EVENT"]


def test_a_plan_of_one_s_own_may_read_parts():
    """A trace that was made for another window runs as it is, and `where` keeps labels."""
    plan = """
    parts = PARTS(CTX, 4) : cut it
    good = CHECK_TRUE(where parts, "lamp") : which parts tell of a lamp
    found = FIND_CHARACTER(each good, "lamp") : who keeps it
    last = FIND_CHARACTER("CTX 4/4", "clock") : who keeps a clock
    return found, last
    """
    finished, _, _ = run(plan, window(None))
    assert finished.values["good"] == ["CTX 1/4", "CTX 3/4"]
    assert FACTS[99] in finished.values["last"]


def test_many_findings_are_merged_in_groups():
    document = story(330)
    finished, _, _ = run('a = FIND_CHARACTER(CTX, "lamp") : who', window(1500), document)
    assert actions(finished)["a_groups"] == "GROUPS"
    assert finished.plan.steps[-1].action == "MERGE_FIND_CHARACTER"
    assert "Cy keeps a lamp in Rest." in finished.text
    number, _, _ = run('a = COUNT_INSTANCES(CTX, "lamp") : how often', window(1500), document)
    assert number.values["a"] == 2
    assert returns(number)["JOIN_COUNT_INSTANCES"] == "text"


def test_replies_of_any_length_that_may_be_written_are_merged_within_the_window():
    """The groups are planned by what a reply may have, so no merge fails once parts were read."""

    class Talker(Reader):
        async def answer(self, request: Request) -> Reply:
            await super().answer(request)
            return Reply("word " * 600)

    context = Context("chunk", 4000, 600, count)
    plan = 'a = FIND_CHARACTER(CTX, "x") : one'
    finished, _, _ = run(plan, context, story(330), Talker(4000 - 500))
    assert "a_groups" in names(finished)


def test_replies_longer_than_an_endpoint_was_asked_for_are_merged_in_smaller_groups():
    """What the parts gave stays; only the merges are made anew."""

    context = Context("auto", 1400, 100, count)
    model = Scripted(lambda _: "word " * 170)
    finished, _, _ = run('a = FIND_CHARACTER(CTX, "x") : one', context, story(330), model)
    assert finished.text.startswith("word")
    asked = Counter(request.path for request in model.asked)
    assert {times for path, times in asked.items() if path.startswith("step/a_parts[")} == {1}


@pytest.mark.parametrize("plan", ["", "each "])
def test_of_replies_too_long_to_merge_two_of_them_passages_are_merged_that_bear_on_it(plan: str):
    """A run does not end once parts were read: what they were asked for at least is merged."""
    declared = "New actions:\n- LIST_OF(CTX, X) -> list : List all X in CTX.\n\n"
    plan = f'{declared}l = LIST_OF(CTX, "x") : all\na = FIND_RELATION(CTX, {plan}l, "lamp") : one'
    context = window(1000)

    def reply(call: ExecuteStep) -> str:
        if call.action.returns == "list":
            return '["Ulm"]'
        bearing = "keeps a lamp in Rest" in render(call)[-1]["content"]
        told = "The lamp is Cy's, who keeps a lamp in Rest.\n" * bearing
        return "Rain fell in the street.\n" * 80 + told + "Snow fell, and no one came.\n" * 80

    finished, model, journal = run(plan, context, story(), Scripted(reply))
    assert "The lamp is Cy's" in str(finished.values["a"])
    merging = [one.call for one in model.asked if one.call.action.name.startswith("MERGE_FIND")]
    assert any("characters left out" in render(call)[-1]["content"] for call in merging)
    cut = [one.value for one in journal.entries if one.path.startswith("context/a")]
    assert cut
    assert all(sum(one["cut"]) < min(sum(one["findings"]), context.room) for one in cut)


def test_who_asks_is_told_that_passages_of_long_replies_were_merged():
    document = story(330)
    model = Scripted(lambda _: "Rain fell in the street.\n" * 600)
    plan = 'a = FIND_EVENT(CTX, "rain") : one'
    answer = pearl.run_sync(plan, document, model=model, context=window(2000))
    assert re.search(r"in \d+ merges passages of it were read", answer.notice)


@pytest.mark.parametrize(
    ("context", "use"),
    [(window(3000, "full"), "--context chunk"), (window(350, "retrieve"), "a model with a longer")],
)
def test_what_cannot_fit_is_said_before_a_plan_is_asked_for(context: Context, use: str):
    model = Reader()
    pearl = partial(PearlStrategy, LIBRARY, document=story())
    with pytest.raises(RunError, match=f"No plan can run: It is to read .* Use {use}"):
        carry_out(model, pearl, "who?", LIBRARY, story(), context=context)
    assert model.asked == []


@pytest.mark.parametrize(("step", "context", "why"), [
    (f'FIND_OPINION(CTX, a, "{"the lamp " * 60}")', window(500, "retrieve"), "It is to read"),
    (f'FIND_OPINION(CTX, "y", "{"the lamp " * 130}")', window(600), "The window of 600"),
    *((f'RATE(a, "{"long " * 2000}")', window(2000, policy),
       r".* 2,\d{3} tokens, 2,00\d of them for Y, and") for policy in ("auto", "retrieve")),
])  # fmt: skip
def test_a_later_step_that_cannot_fit_is_told_before_the_first_call(
    step: str, context: Context, why: str
):
    model = Reader()
    plan = f"""\
New actions:
- RATE(X, Y) : Rate X by Y.

1. a = FIND_CHARACTER(CTX, "lamp") : one
2. b = {step} : two
"""
    with pytest.raises(RunError, match=f"Step b cannot run: {why}") as raised:
        run(plan, context, ask=model)
    assert raised.value.failures[0].step == "b"
    assert model.asked == []


def test_an_action_of_the_plan_itself_is_split_too():
    plan = """
    New actions:
    - MERGE_FIND_HOME(CTX, X) : Find what X merges with in CTX
    - FIND_HOME(CTX, X) -> any : Find "where" {X} lives in CTX: a town

    a = FIND_HOME(CTX, "boat") : where
    b = MERGE_FIND_HOME(CTX, "lamp") : with what
    return a, b
    """
    finished, _, _ = run(plan, window(3000))
    assert actions(finished)["a"] == "MERGE_FIND_HOME_2"
    assert actions(finished)["b"] == "MERGE_MERGE_FIND_HOME"


def test_every_shipped_action_can_be_split_and_checks():
    from pearl.passes.split_context import split_context

    for action in LIBRARY.actions.values():
        if action.is_builtin or action.params[0].name != DOCUMENT:
            continue
        args = ", ".join("CTX" if param.name == DOCUMENT else '"x"' for param in action.params)
        plan = parse(f"question: who?\n\na = {action.name}({args}) : what").plan
        split = split_context(["a"], 3, (2,)).apply(plan, LIBRARY)
        assert len(split.notes) == 1, action.name
        parsed = parse(print_plan(split.plan))
        assert parsed.plan == split.plan, action.name
        assert check(parsed, LIBRARY) == [], action.name


def test_a_strategy_that_goes_on_reads_the_same_parts():
    class Twice:
        async def next(self, run: Run) -> Steps | Return:
            if "b" in run.values:
                return Return(("b",))
            name, thing = ("b", "boat") if run.plan.steps else ("a", "lamp")
            plan = parse(f'{name} = FIND_CHARACTER(CTX, "{thing}") : who').plan
            return Steps(plan.steps)

    context = window(3000, "chunk")
    finished, *_ = carry_out(
        Reader(3000), lambda _: Twice(), "who?", LIBRARY, story(), context=context
    )
    assert names(finished) == ["parts", "a_parts", "a", "b_parts", "b"]
    assert list(returns(finished)) == ["MERGE_FIND_CHARACTER"]


@pytest.mark.parametrize(
    ("last", "policy"),
    [
        ('b = FIND_RELATION(CTX, a, "y") : two', "auto"),
        ('b = FIND_RELATION(CTX, a, "y") : two', "retrieve"),
        ("b = RATE(a) : two", "retrieve"),
        ("v = VALUES(a) : what they gave\n4. b = RATE(v) : two", "auto"),
        ("v = CONCAT(a, a) : what they gave\n4. b = RATE(v) : two", "auto"),
    ],
)
def test_what_many_items_gave_is_condensed_where_it_is_too_long(last: str, policy: str):
    declared = "New actions:\n- RATE(X) : Say what X comes to.\n\n" if "RATE" in last else ""
    plan = f"""\
{declared}1. parts = PARTS(CTX, 32) : Cut
2. a = FIND_CHARACTER(each parts, "x") : one
3. {last}
"""
    model = Scripted(lambda call: "word " * (5 if call.step.name == "b" else 95))
    finished, _, _ = run(plan, window(1000, policy), ask=model)
    assert finished.text.startswith("word")
    taken = f"{'v' if last.startswith('v') else 'a'}_condensed"
    condensed = [name for name in names(finished) if "condensed" in name]
    assert condensed == [taken, f"{taken}_2", f"{taken}_3"][: 3 if "CONCAT" in last else 2]
    assert asked_once(model)


EIGHT = ", ".join(f"s{at}" for at in range(8))


def with_eight(last: str) -> str:
    """A plan whose last step, b, is given what eight others gave."""
    steps = "".join(f's{at} = FIND_CHARACTER(CTX, "{at}") : one\n' for at in range(8))
    declares = "New actions:\n- RATE(X, Y) : Rate X by Y.\n- LISTED(X: list, Y) : Rate X by Y.\n\n"
    return f"{declares if 'FROM' not in last else ''}{steps}b = {last} : all\n"


@pytest.mark.parametrize(("last", "asked", "together"), [
    (f'ANSWER_FROM("which?", {EIGHT})', "which?", ""),
    (f"ANSWER_FROM({EIGHT}, s0)", "", ""),
    (f'ANSWER_FROM("before", s0, "after", {EIGHT}, "by age")', "by age", "after"),
    (f'RATE([{EIGHT}, "the lamp"], "x")', "x", "the lamp"),
    (f'LISTED([{EIGHT}], "x")', "x", ""),
    ('RATE(["of {s0} and {s1}", [s2, s3], [s4, "{s5} or {s6}"], s7], "x")', "x", "of word"),
    (f'RATE("x", "Which of {{{"}, {".join(EIGHT.split(", "))}}} is oldest?")', "s7 is oldest?", ""),
])  # fmt: skip
def test_outputs_that_are_too_long_together_are_put_together_and_condensed(
    last: str, asked: str, together: str
):
    model = Scripted(lambda call: "word " * (5 if call.step.name == "b" else 95))
    policy = "retrieve" if last.startswith(("RATE([s0", "LISTED")) else "auto"
    finished, _, _ = run(with_eight(last), window(1000, policy), ask=model)
    assert finished.text.startswith("word")
    added = [name for name in names(finished) if name.startswith("b_given")]
    assert added[:3] == ["b_given", "b_given_groups", "b_given_condensed"]
    given = str(finished.values["b_given"])
    assert "s7: word" in given
    assert together in given
    assert asked in model.asked[-1].messages[-1]["content"]
    assert asked_once(model)


@pytest.mark.parametrize(("plan", "times"), [
    ('a = FIND_CHARACTER(CTX, "x") : one', 99),
    (with_eight('CONCAT("none")'), 99),
    ("".join(f'a{at} = FIND_CHARACTER(CTX, "{at}") : {"Find it " * 9}\n' for at in range(48)), 4),
])  # fmt: skip
def test_what_was_found_is_cut_to_what_bears_on_the_options_where_it_does_not_fit(
    plan: str, times: int
):
    """A run does not end where its steps are paid for, and only an option is to be chosen."""
    long = "Rain fell in the street. " * times
    replies = [f"{long}\n\nA lamp was lit by Cy.\n\n{long}", "A"]
    model = Scripted(lambda call: replies[isinstance(call, MapAnswer)])
    setting = {"model": model, "context": window(1000)}
    given = pearl.run_sync(f"question: Who?\n\n{plan}", story(), options=["Cy", "Bo"], **setting)
    assert given.option == pearl.Option("A", "Cy")
    choosing = model.asked[-1].messages[-1]["content"]
    assert count(choosing) < 900
    assert "lit by Cy" in choosing
    assert "characters left out" in choosing
    assert "cut to what bears on the question in 1 call." in given.notice


def test_options_that_leave_no_room_for_what_is_found_are_told_before_a_call():
    setting = {"model": Reader(), "context": window(1000)}
    options = ["Cy " * 500, "Bo " * 500]
    with pytest.raises(ModelError, match=r"option, with room .* 1,0\d\d of them for the options"):
        pearl.ask_sync(story(), "Who?", options=options, **setting)
    assert setting["model"].asked == []


@pytest.mark.parametrize("last", [
    f"RATE([each xs, {EIGHT}], \"x\")",
    f'RATE("{{each xs}} of {{{"}, {".join(EIGHT.split(", "))}}}", "x")',
])  # fmt: skip
def test_where_outputs_do_not_become_one_text_their_sizes_are_told(last: str):
    plan = with_eight(last)
    if "xs" in last:
        plan = plan.replace("s0 =", 'xs = FLAT([["Ann", "Bo"]]) : two\ns0 =')
    with pytest.raises(RunError, match="b has no output: for the item Ann: Its prompt has"):
        run(plan, window(1000), ask=Scripted(lambda _: "word " * 95))


def test_reports_that_come_out_longer_than_was_asked_for_are_not_condensed_again():
    plan = """\
New actions:
- RATE(X, Y) : Say what X and Y come to.

1. a = FIND_CHARACTER(CTX, "x") : one
2. c = FIND_CHARACTER(CTX, "y") : two
3. b = RATE(a, c) : three
"""
    model = Scripted(lambda _: "word word\n" * 240)
    with pytest.raises(RunError, match="Step b has no output: Its prompt has"):
        run(plan, window(1000, "retrieve"), ask=model)
    assert len(model.asked) == 4


@pytest.mark.parametrize("given", ["a", "each a"])
def test_long_items_of_a_list_are_read_beside_smaller_parts_where_reports_are_long_too(given: str):
    plan = f"""\
New actions:
- LIST_OF(CTX, X) -> list : List all X in CTX.

1. a = LIST_OF(CTX, "x") : all
2. b = FIND_RELATION(CTX, {given}, "y") : two
"""

    def reply(call: ExecuteStep) -> str:
        long = "word " * 500
        if call.action.returns == "list":
            return f'["{long.strip()}"]'
        return long if call.action.name == "CONDENSE_FINDINGS" else "word " * 5

    context = window(count(story().text) + 700)
    finished, model, _ = run(plan, context, ask=Scripted(reply))
    assert {"b_parts", "b_by_item"} & {*names(finished)}
    paths = [request.path for request in model.asked]
    assert (paths[0], len(paths)) == ("step/a", len(set(paths)))


CHAINS = {
    # A list as a whole beside each of its items, and pairs beside each of their values.
    "a list": "b = TIE(each a, a) : two\nc = TIE(each values b, b) : three\n",
    "beside the document": "b = TELL(CTX, a, each a) : two\nc = TELL(CTX, b, each values b) : 3\n",
    # What reads the document later needs other parts than what has read it.
    "later parts": 'b = TELL(CTX, each a, "x") : two\nc = TELL(CTX, b, "y") : three\n',
    "a text": "b = CONCAT(a, a) : two\nc = CONCAT(b, b) : three\nd = TELL(CTX, c, c) : four\n",
}


@pytest.mark.parametrize("chain", CHAINS)
def test_long_chains_over_lists_end_in_an_answer_and_ask_nothing_twice(chain: str):
    tie = "- TIE(X, Y) : Say how X and Y are tied.\n" if chain == "a list" else ""
    plan = f"""\
New actions:
- LIST_OF(CTX, X) -> list : List all X in CTX.
{tie}
a = LIST_OF(CTX, "x") : one
{CHAINS[chain].replace("TELL", "FIND_RELATION")}"""

    def reply(call: ExecuteStep) -> str:
        if call.action.returns != "list":
            return "word " * 90
        assert call.document
        return json.dumps([f"{call.document.name} {at} {'word ' * 40}" for at in range(2)])

    finished, model, _ = run(plan, window(1000), story(80), ask=Scripted(reply))
    assert asked_once(model)
    assert any("condensed" in name for name in names(finished))


def test_a_function_is_given_a_list_whole_that_was_condensed_for_a_step():
    plan = """\
New actions:
- RATE(X) : Say what X comes to.

1. parts = PARTS(CTX, 32) : Cut
2. a = FIND_CHARACTER(each parts, "x") : one
3. v = VALUES(a) : what they gave
4. b = RATE(v) : two
5. c = COUNT(v) : how many
"""
    finished, *_ = run(plan, window(1000), ask=Scripted(lambda _: "word " * 95))
    assert "v_condensed" in names(finished)
    assert finished.values["c"] == 32


def test_a_part_that_has_no_output_is_told_with_the_plan_s_own_step(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("PEARL_CHARACTERS", "700")
    said = r"Step a_parts has no output: .*PEARL_CHARACTERS sets more.* the plan's step a\."
    with pytest.raises(RunError, match=said):
        run(
            'a = FIND_CHARACTER(CTX, "x") : one', window(1000), ask=Scripted(lambda _: "word " * 60)
        )


def test_a_step_whose_arguments_turn_out_longer_than_was_allowed_for_reads_parts():
    plan = """\
1. a = FIND_CHARACTER(CTX, "x") : one
2. b = FIND_RELATION(CTX, a, "y") : two
"""
    model = Scripted(lambda call: "word " * (500 if call.step.name == "a" else 5))
    finished, _, _ = run(plan, window(count(story().text) + 700), ask=model)
    assert names(finished) == ["a", "parts", "b_parts", "b"]
    paths = [request.path for request in model.asked]
    assert (paths[0], len(paths)) == ("step/a", len(set(paths)))


def test_arguments_that_turn_out_too_long_fail_their_step_with_the_sizes():
    def long(call: ExecuteStep) -> str:
        return "word " * (7000 if call.step.name == "a" else 5)

    plan = 'a = FIND_CHARACTER(CTX, "x") : one\nb = FIND_CHARACTER(CTX, "y") : two'
    plan += "\nc = FIND_RELATION(CTX, a, b) : three"
    wrong = r"Step c .*: a merge itself takes 1,\d+, each of what it merges up to 116, and"
    with pytest.raises(RunError, match=wrong) as caught:
        run(plan, window(2000), ask=Scripted(lambda _: "word " * 700))
    first = caught.value.failures[0]
    assert (first.step, first.reason) == ("c", "context")
    wrong = r"Step b has no output: Its prompt has 7,\d{3} tokens, 7,00\d of them for X, and"
    plan = 'a = FIND_CHARACTER(CTX, "x") : one\nb = RATE(a) : two'
    with pytest.raises(RunError, match=wrong) as caught:
        run(f"New actions:\n- RATE(X) : Rate X.\n\n{plan}", window(7000), ask=Scripted(long))
    # No passages of the document make room in a prompt that has none of it.
    assert "--context" not in caught.value.failures[0].cause


@pytest.mark.parametrize(("context", "why"), [
    (window(260), "Its prompt has 1.* fit: the window has 260"),
    (window(293), "too small to read the document in parts"),
    (window(320), "too small to merge what the parts of the document gave"),
    (window(350, "retrieve"), "fit: the window has 350"),
])  # fmt: skip
def test_a_window_too_small_for_a_part_or_a_passage_says_so(context: Context, why: str):
    with pytest.raises(RunError, match=why):
        run('a = FIND_CHARACTER(CTX, "lamp") : one', context, ask=Reader())


def test_chunk_splits_every_reader_and_auto_only_what_does_not_fit():
    plan = 'a = FIND_CHARACTER(CTX, "lamp") : one\nb = FIND_RELATION(CTX, a, "boat") : two'
    size = count(story().text) + 500
    auto, _, _ = run(plan, window(size, "auto"))
    chunk, _, _ = run(plan, window(size, "chunk"))
    assert names(auto) == ["a", "parts", "b_parts", "b"]
    assert names(chunk) == ["parts", "a_parts", "a", "b_parts", "b"]


@pytest.mark.parametrize("policy", ["chunk", "retrieve"])
def test_the_offline_reader_answers_from_the_long_document(policy: str, examples: Path):
    document = Source("lighthouse.txt", (examples / "lighthouse.txt").read_text(encoding="utf-8"))
    plan = 'a = FIND_REASON(CTX, "Mara stops at the light") : why she stays'
    finished, _, _ = run(plan, Context(policy, 4000), document, Offline())
    quotes = evidence(finished.plan, finished.values, finished.outputs, document)
    assert quotes
    assert all(quote.span for quote in quotes)


# --- labels ---


@pytest.mark.parametrize("name", ["CTX 9/3", "CTX 0/3", "CTX 1/0", "CTX 1/99999"])
def test_a_wrong_label_fails_its_step(name: str):
    with pytest.raises(RunError, match=f"{name} names no part of the document") as caught:
        run(f'a = FIND_CHARACTER("{name}", "Ada") : who', window(None))
    assert caught.value.failures[0].reason == "value"


def test_a_label_in_an_output_is_a_text():
    """A document that tells the words of a label names no part by them."""
    document = Source("d.txt", "CTX 1/2 keeps watch. The rest keeps silent.")
    plan = """
    said = FIND_ALL(CTX, "keeps") : what keeps
    back = FIND_CHARACTER(each said, "watch") : who
    """

    model = Scripted({"step/said": '["CTX 1/2"]', "step/back[0]": "nobody"})
    run(plan, window(None), document, model)
    call = model.asked[-1].call
    assert call.document is None
    assert call.arguments == (("CTX", "CTX 1/2"), ("X", "watch"))
    _, plain, _ = run('a = FIND_CHARACTER(CTX, "CTX 1/2") : who', window(None))
    assert plain.asked[0].call.arguments == (("X", "CTX 1/2"),)
    assert plain.asked[0].call.document == story()


def test_a_text_in_the_documents_place_is_given_and_a_label_there_is_read():
    model = Scripted(lambda _: "somebody")
    plan = 'a = FIND_CHARACTER("Ada.", "Ada")\nb = FIND_CHARACTER("CTX 1/2", a)'
    run(plan, window(None), ask=model)
    own, part_of = (request.call for request in model.asked)
    assert (own.document, own.arguments) == (None, (("CTX", "Ada."), ("X", "Ada")))
    assert part_of.document == part(story(), "CTX 1/2")
    assert [name for name, _ in part_of.arguments] == ["X"]


def test_a_plan_with_the_document_in_a_list_is_not_run():
    with pytest.raises(RunError, match="The document cannot stand in a list"):
        run('a = FIND_CHARACTER(CTX, [CTX, "b"]) : who', window(None))


# --- parts ---


@settings(deadline=None)
@given(
    st.text(st.sampled_from("ab .\n\u0301é😀。\u2028"), max_size=300)
    | st.text(st.sampled_from("ab c.\n "), min_size=50, max_size=2000),
    st.integers(1, 40),
)
def test_parts_are_the_text_and_of_like_size(text: str, number: int):
    found = [text[start:end] for start, end in spans(text, number)]
    assert len(found) == number
    assert "".join(found) == text
    # A mark is never parted from its letter.
    marks = max(map(len, re.findall("\u0301+", text)), default=0)
    assert max(map(len, found)) <= 1.3 * len(text) / number + 2 + marks


def test_parts_end_where_a_reader_would_pause():
    paragraphs = "\n\n".join(f"{at} " + "word " * 40 + "end." for at in range(30))
    for text, number, ends in (
        (paragraphs, 4, "end.\n\n"), ("This is one of them. " * 200, 3, "them. "),
        ("word " * 1000, 7, "word "),
    ):  # fmt: skip
        cut = spans(text, number)
        assert all(text[start:end].endswith(ends) for start, end in cut[:-1])
    headed = "\n\n".join(f"## Day {at}\n\n{'word ' * 40}end." for at in range(40))
    for number in range(2, 12):
        assert not any(headed[:end].rstrip()[-1].isdigit() for _, end in spans(headed, number))


@pytest.mark.parametrize(
    "text",
    ["x" * 30_000, "word " * 6_000, "漢字" * 5_000 + "。", "e\u0301" * 9_000, "é\n" * 9_000],
    ids=["one word", "one paragraph", "no spaces", "combining", "short lines"],
)
def test_any_text_is_cut_into_parts_that_fit(text: str):
    number = enough_parts(text, 800, len)
    assert number
    found = [text[start:end] for start, end in spans(text, number)]
    assert "".join(found) == text
    assert max(map(len, found)) <= 800
    assert not any(one.startswith("\u0301") for one in found)


def test_equal_parts_are_cut_once():
    document = story()
    assert part(document, "CTX 2/3") is part(story(), "CTX 2/3")
    with pytest.raises(LabelError):
        part(document, "CTX 8/7")


def test_a_room_that_no_part_fits_is_none():
    assert enough_parts("word " * 9, 0, count) is None
    assert enough_parts("x" * (3 * MOST), 2, len) is None


# --- retrieve ---


def test_retrieve_gives_the_passages_that_bear_on_the_arguments():
    plan = 'a = FIND_CHARACTER(CTX, "lamp") : who keeps one'
    finished, model, journal = run(plan, window(1500, "retrieve"))
    assert names(finished) == ["a"]
    (request,) = model.asked
    read = request.call.document.text
    assert 0 < read.find(FACTS[3]) < read.find(FACTS[77])
    assert re.search(r"\[… [\d,]+ characters left out …\]", read)
    (decided,) = decisions(journal, "context/a")
    assert 0 < decided["passages"] < decided["of"]
    assert decided["omitted"] == request.call.omitted
    assert decided["characters"] == pytest.approx(
        (1 - decided["omitted"]) * len(story().text), 0.01
    )
    percent = round(100 * decided["omitted"])
    assert f"about {percent} % of it is left out here" in request.messages[-1]["content"]
    quotes = evidence(finished.plan, finished.values, finished.outputs, story())
    assert [quote.text for quote in quotes] == [FACTS[3], FACTS[77]]


@pytest.mark.parametrize("policy", ["chunk", "retrieve"])
@pytest.mark.parametrize("tokens", range(700, 1900, 240))
def test_a_prompt_says_of_which_of_several_documents_each_text_is(policy: str, tokens: int):
    paragraphs = story().text.split("\n\n")
    told = {"first of two.txt": paragraphs[:55], "second.txt": paragraphs[55:]}
    for name, texts in told.items():
        Path(name).write_text("\n\n".join(texts))
    both = read_documents([*told])
    plan = 'a = FIND_CHARACTER(CTX, "keeps lamp") : who keeps one'
    _, model, _ = run(plan, window(tokens, policy), both)
    for text in (one.call.document.text for one in model.asked if one.call.document):
        name = ""
        for piece in filter(None, re.split(r"\n\n|\x1c# ", text)):
            name = piece if piece in told else name
            assert piece in (name, *told.get(name, ())) or "characters left out" in piece
        assert all(text.count(f"# {name}") <= 1 for name in told)


def test_every_item_gets_passages_of_its_own():
    plan = """
    who = UNIQUE(["boat", "clock"]) : things
    a = FIND_CHARACTER(CTX, each who) : who keeps each
    """
    finished, _, journal = run(plan, window(700, "retrieve"))
    found = dict(finished.values["a"])
    assert FACTS[40] in found["boat"]
    assert FACTS[99] in found["clock"]
    assert decisions(journal, "context/a[1]")


@settings(deadline=None, max_examples=60)
@given(
    st.integers(20, 2000),
    st.sampled_from(["lamp", "boat clock", "Kiel", "nothing of the kind", "漢字", ""]),
)
def test_passages_stay_in_order_and_in_the_room(room: int, words: str):
    document = story()
    chosen = choose_passages(document.text, dict.fromkeys(words.split(), 1.0), room, count)
    if chosen is None:
        assert room < 200
        return
    assert count(chosen.text) <= room
    pieces = re.split(r"\s*\[… [\d,]+ characters left out …\]\s*", chosen.text)
    at = 0
    for piece in filter(None, pieces):
        at = document.text.index(piece.strip(), at) + len(piece.strip())
    left = sum(int(one.replace(",", "")) for one in re.findall(r"… ([\d,]+) ch", chosen.text))
    assert left + chosen.characters == len(document.text)


def test_where_nothing_bears_on_the_step_its_opening_is_read_and_that_is_said():
    chosen = choose_passages(story().text, {"unheard": 1.0}, 400, count)
    assert chosen
    assert chosen.bearing == 0
    assert chosen.text.startswith("Rain fell on street 0")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("слово дело " * 3000 + "Маяк стоит на скале. " + "слово дело " * 3000, "Маяк"),
        ("雨が降る。" * 3000 + "灯台は島にある。" + "雨が降る。" * 3000, "灯台"),
        ("Der Regen fiel. " * 2000 + "Groß war der Kühlraum. " + "Es fiel. " * 2000, "Kühlraum"),
    ],
    ids=["Russian", "Japanese", "German"],
)
def test_passages_are_found_in_other_languages(text: str, word: str):
    call = ExecuteStep(
        Source("d", text),
        LIBRARY.actions["FIND_CHARACTER"],
        Step("a", "FIND_CHARACTER", (Ref(DOCUMENT), Literal(word))),
        (("X", word),),
    )
    fitted, decided = fit_call(call, Context("retrieve", 4500, 1000, len))
    assert fitted.document is None or word in fitted.document.text
    assert decided
    assert decided["omitted"] > 0.9


def test_a_giant_paragraph_is_read_in_passages_and_in_parts():
    text = "It rained on and on. " * 900 + "Ada keeps a lamp in Ulm. " + "It rained on. " * 900
    for policy in ("chunk", "retrieve"):
        finished, _, _ = run(
            'a = FIND_CHARACTER(CTX, "lamp") : who', window(2000, policy), Source("d", text)
        )
        assert "Ada keeps a lamp in Ulm." in finished.text


# --- sizes and prompts ---


@given(st.text(max_size=200), st.text(max_size=200), st.lists(st.text(max_size=50), max_size=5))
def test_the_quick_bound_of_a_prompt_is_one(note: str, text: str, items: list[str]):
    call = ExecuteStep(
        Source("d", text),
        LIBRARY.actions["FIND_RELATION"],
        Step("a", "FIND_RELATION", (Ref(DOCUMENT), Literal(text), Ref("b")), note),
        (("X", text), ("Y", list(items))),
        0.5,
    )
    context = Context(window=9000, count=lambda words: len(words.encode("utf-8", "replace")))
    assert most_without_document(call) >= size_without_document(call, context)


@pytest.mark.parametrize(
    ("share", "told"), [(0.001, "less than 1 %"), (0.5, "about 50 %"), (0.996, "more than 99 %")]
)
def test_a_prompt_says_what_share_is_left_out(share: str, told: str):
    action = Action("LOOK", (Param(DOCUMENT), Param("X")), doc="Look for X in CTX.")
    step = Step("a", "LOOK", (Ref(DOCUMENT), Literal("x")))
    plain = render(ExecuteStep(Source("d", "text"), action, step, (("X", "x"),)))
    cut = render(ExecuteStep(Source("d", "text"), action, step, (("X", "x"),), share))
    assert "left out" not in plain[-1]["content"]
    said = f"This is not the whole document: {told} of it is left out here."
    said += " Answer from what is there, without remarks on what is not.\n\n"
    assert cut[-1]["content"].replace(said, "") == plain[-1]["content"]


@pytest.mark.parametrize("wrong", [{"policy": "cut"}, {"window": 900, "reply": 900}])
def test_a_context_that_cannot_be_is_refused(wrong: dict[str, object]):
    with pytest.raises(InputError, match="use auto, full|leaves nothing"):
        Context(**wrong)


STORY = Source("s", "A boat was sold. A shed was sold.\n\nA quay was sold, and a mill.")


def cut(reply: str) -> Scripted:
    """Gives a cut reply about the first part of a document."""
    begun = Reply(reply, complete=False)
    return Scripted(defaultdict(lambda: "A quay.", {"step/a[0]": begun, "step/a": begun}))


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("A boat.\nA shed.\nA cra", "A boat.\nA shed."),
        ("A boat.\nA shed.\n", "A boat.\nA shed."),
        ("A boat. It cost 3.5 mill", "A boat."),
        ("A boat of Mr. Orde of the", ""),
        ("The rent is 148,0", ""),
    ],
)
def test_a_cut_reply_about_a_part_is_taken_as_far_as_it_goes(reply: str, kept: str):
    plan = '1. l = PARTS(CTX, 2)\n2. a = FIND_EVENT(each l, "what is sold")\nreturn a\n'
    too_short = pytest.raises(RunError, match="stopped at its token limit")
    if kept:
        answer = pearl.run_sync(plan, STORY, model=cut(reply))
        rest = reply.removeprefix(kept).strip()
        assert kept in answer.text
        assert not rest or rest not in answer.text
        assert "1 reached the limit of tokens" in answer.notice
    else:
        with too_short:
            pearl.run_sync(plan, STORY, model=cut(reply))
    with too_short:
        pearl.run_sync(plan.replace("each l", "CTX"), STORY, model=cut(reply))


def test_a_step_called_cut_is_no_cut_reply(tmp_path: Path):
    library = tmp_path / "twice.actions"
    plan = "  plan:\n    1. e = FIND_EVENT(CTX, X)\n    2. f = FIND_EVENT(CTX, e)\n"
    library.write_text(f"TWICE(CTX, X) : Find X twice.\n{plan}", encoding="utf-8")
    actions = ("core", "quality", library)
    answer = pearl.run_sync('1. cut = TWICE(CTX, "x")\n', STORY, model=cut(""), library=actions)
    assert not answer.notice


def test_items_that_are_kept_part_by_part_are_a_list_for_later_steps():
    plan = """\
1. people = FIND_ALL(CTX, "keeps") : who
2. kept = CHECK_TRUE(CTX, where people) : keeps the lamp
3. acts = FIND_EVENT(CTX, each kept) : what
"""
    finished, _, _ = run(plan, window(count(story().text) - 500))
    assert "KEEP_ITEMS" in actions(finished).values()
