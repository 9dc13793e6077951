"""Actions that solvers, plans of their own, or decomposers carry out."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import pearl
from pearl.lang.ast import Prompt, SubPlan
from pearl.lang.builtins import Given
from pearl.lang.diagnostics import Severity
from pearl.lang.errors import InputError
from pearl.lang.library import Library, builtins, parse_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_library
from pearl.lang.source import Source
from pearl.lang.values import Value, as_text
from pearl.lint.checker import check_library
from pearl.prompts.calls import ExecuteStep
from pearl.prompts.render import render
from pearl.runtime.binding import Output, StepError
from pearl.runtime.calls import Journal
from pearl.runtime.executor import Frame, Handlers
from pearl.runtime.loop import RunError
from pearl.runtime.trace import export_trace, read_records, replay
from pearl.strategies.pearl import GivenPlan
from tests.conftest import library_of
from tests.scripted_models import Scripted, carry_out
from tests.server import Serve
from tests.shell import Result, call, one_line

ACTIONS = """\
SHOUT(X) -> any : Say X in capitals.
  body: solver shout
TWICE(X) -> any : Say X in capitals, and then again.
  plan:
    1. once = SHOUT(X)
    2. ans = CONCAT(once, once)
LOOP(X) -> any : Ask itself.
  plan:
    1. again = LOOP(X)
DEEPER(X) -> any : Ask itself something else each time.
  plan:
    1. more = DEEPER("{X}!")
NAME(X) : Name X.
  example: ("a", [1, 2]) = "b"
"""


async def shout(path: str, given: Sequence[Given]) -> Value:
    said = as_text(given[0].value)
    if said == "nothing":
        raise StepError("no-answer", "There is no answer to that.")
    return said.upper()


def library(text: str = ACTIONS) -> Library:
    return library_of(text, builtins())


def told(call: ExecuteStep) -> str:
    """Which examples its prompt has."""
    shown = render(call)[-1]["content"].split("Arguments:")[0]
    return f"{shown.count('the answer was:')} example: {shown.splitlines()[-4:]}"


def run(plan: str, actions: Library | None = None, **handed: Any) -> tuple[str, Journal]:
    finished, journal, _ = carry_out(
        Scripted(told), lambda _: GivenPlan(parse(plan).plan), "q", actions or library(),
        Source("d", "text"), Handlers({"shout": shout}, **handed),
    )  # fmt: skip
    return finished.text, journal


def test_a_library_s_bodies_are_printed_as_they_were_read():
    text = print_library(parse_library(ACTIONS).actions)
    assert text == ACTIONS
    twice = library().actions["TWICE"]
    assert isinstance(twice.body, SubPlan)
    assert [step.name for step in twice.body.plan.steps] == ["once", "ans"]
    named = library().actions["NAME"].body
    assert isinstance(named, Prompt)
    assert [shown.answer for shown in named.examples] == ["b"]


@pytest.mark.parametrize(
    "line", ["  plan:\n    1. x = FLAT(", '  example: ("a") "b"', '  example: ("a") = [x]']
)
def test_a_body_that_cannot_be_read_is_a_finding(line: str):
    found = check_library(Source("l", f"A(X) : a X\n{line}\nB(X) : b X\n"))
    assert [one.code for one in found] == ["PRL118"]
    assert [one.name for one in parse_library(f"A(X) : a X\n{line}\nB(X) : b X\n").actions] == [
        "A", "B",
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "message", "help"), [
    ("A(X) : a X\n  replaces: OLD(CTX, Y)\n", "PRL118",
     "What replaces says of the action A cannot be read",
     "Write replaces: OLD(CTX, X) = (CTX, X)."),
    ("A(X) : a X\nAlias: B\n", "PRL118", "",
     "Closest: aliases. Write aliases: NAME, NAME, indented below the action."),
    ("A(X : Tell X\n", "PRL118", "",
     "Its parameters end with a parenthesis: NAME(CTX, X) -> type : definition."),
    ("A(X) : a X\n  aliases: B\n  replaces OLD(X) = (X)\n", "PRL118",
     "replaces has no colon behind it", "Write replaces: OLD(CTX, X) = (CTX, X)."),
    ("CONCAT(X) : all X\n", "PRL501", "and stays one", "Give the action another name."),
])  # fmt: skip
def test_a_line_that_is_wrong_is_told_with_its_own_form(
    text: str, code: str, message: str, help: str
):
    [found] = check_library(Source("x.actions", text))
    assert (found.code, message in found.message, found.help) == (code, True, help)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("  alias: B", "there is no alias"),
        ("  aliases:", "aliases cannot be read"),
        ("  traits: ,", "traits cannot be read"),
        ("  model = gpt-4o", "model has no colon"),
        ("  aliases FIND_IT, SEEK", "aliases has no colon"),
        ("  traits pure, cacheable", "traits has no colon"),
        ("  body builtin count", "body has no colon"),
        ("  replaces OLD(X) = (X)", "replaces has no colon"),
        ('  example ("a") = "b"', "example has no colon"),
        ("  provenance q1, q2", "provenance has no colon"),
        ("  plan\n    x = CONCAT(X)", "plan has no colon"),
        ("  verbatim: yes", "verbatim is a trait"),
        ("  body: builtin", "body cannot be read"),
        ("  traits: pur", "there is no trait pur"),
        ("  body: builtin nope", "there is no builtin nope"),
        ('  replaces: OLD(CTX, Y) = ("{Z}")', "OLD has no parameter Z"),
        ("  replaces: OLD(CTX, Y) = (Y, Y)", "it is given 2 arguments"),
        ("  replaces: OLD(CTX, X, Y) = (Y)", "X of OLD has no place in the new call"),
        ("  body: solver retriev", "Pearl has no solver retriev."),
        ("A2(X, X) : all X", "two parameters are called X"),
        ("CTX(X) : all X", "that is the document's name"),
        ("  aliases: A", "aliases names the action itself"),
        ("  aliases: CONCAT", "CONCAT is the name of a builtin"),
        ("  aliases: find", "find is no name of an action"),
        ("  replaces: A(X) = (X)", "replaces names the action itself"),
        ("  plan:\n    1. x = A(X)", "calls the action itself, and would never end"),
        ("  plan:", "its plan has no step"),
        (
            "  replaces: OLD(X) = (X)\nA2(X) : the X\n  replaces: OLD(X) = (X)",
            "A replaces OLD, too",
        ),
        ("  body: builtin sign\n  body: builtin conclusion", "2 of its lines begin with body."),
        ("  body: builtin concat\n  plan:\n    1. x = CONCAT(X)", "it has body and plan, and is"),
        ('  example: ("a", "b") = "c"', "an example of it has 2 arguments"),
        ("  demonstration:", "its demonstration has no step"),
        (
            "  plan:\n    New actions:\n    - G(X) : see X\n\n    1. x = CONCAT(X)",
            "its plan declares G",
        ),
        (
            "A2(X) -> list : all X\n  plan:\n    1. x = CONCAT(X)",
            "its plan gives text, and no list",
        ),
        ("  body: builtin split", "the builtin split cannot take 1 parameter."),
        (
            "A2(X: text) -> list : all X\n  body: builtin flat",
            "the builtin flat takes no text for X",
        ),
        ("A2(X, Y) : X by Y\n  body: builtin split", "the builtin split gives no text"),
        ("A2(X, Y: text) -> list : X, Y\n  body: solver retrieve", "Y is how many passages"),
        ("A2(X, Y, Z) -> list : X, Y, Z\n  body: solver retrieve", "a retriever takes a query"),
        ("  body: builtin concat\n  model: offline", "it has a model of its own and asks none"),
    ],
)
def test_what_an_action_s_lines_say_is_checked(line: str, words: str):
    [found] = check_library(Source("l", f"A(X) : a X\n{line}\nB(X, Y) : see X, Y\n"))
    assert (found.code, words in found.message) == ("PRL505", True), found.message
    plan = "    1. x = FLAT([X])\n    2. y = A(each x)"
    good = f"A(X) : a X\n  aliases: C\n  traits: pure\n  plan:\n{plan}"
    assert check_library(Source("l", good)) == []


@pytest.mark.parametrize(
    "words",
    [
        "replaces it, as OLD(X) did, by what equals it (see X)",
        "example (of what X says = Y)",
        "provenance of X, or where it is from, in 1950",
        "plan\n  of X, and who made it",
        "demonstration of it",
    ],
)
def test_a_definition_may_go_on_with_a_word_that_is_a_key(words: str):
    text = f"A(X) : Find what X\n  {words}.\n"
    assert check_library(Source("l", text)) == []


def test_what_a_key_says_is_pointed_at_where_it_is_said():
    before = "  replaces: B(A) = (OLD)\n  demonstration:\n    1. x = A(OLD)\n"
    for line in ("replaces: OLD(Z) = (Y)", "replaces: A(X) = (X)", "aliases: A"):
        source = Source("l", f"A(OLD) : a OLD\n{before}  {line}\n")
        *_, found = [one for one in check_library(source) if one.code == "PRL505"]
        assert source.position(found.span.start)[0] == 5, line


IN_PLANS = {
    "x = NOWHERE(X)": "4:12 PRL201 NOWHERE does not exist.",
    "x = FLAT(L, L)": "4:12 PRL203 FLAT takes 1 argument, and is given 2.",
    "x = FLAT(y)": "4:17 PRL202 y is not defined before step 1.",
    'x = CONCAT("{z}")': "4:20 PRL209 {z} names no step.",
    "x = CONCAT(X)\n    return both": "5:12 PRL202 both is not defined in the plan.",
    "X = CONCAT(X)": "4:8 PRL205 X is already the name of a parameter.",
    "x = A(X)\n    2. x = A(x)\n    3. z = A(x)": "5:8 PRL205 x is already the name of step 1.",
    "x = A(T)\n    2. z = FLAT(T)": "5:17 PRL303 FLAT takes list for LIST, and is given text.",
    "x = A(each T)": "4:14 PRL301 each needs a list, and T is text.",
    "x = A(each L)\n    2. y = A(each x)": "5:14 PRL301 each needs a list, and x is pairs.",
    "x = CONCAT(each M, each L)": "4:27 PRL302 This step already maps each M.",
    # What cannot be read is told by itself, and what a line silences is not.
    "y = (\n    2. x = CONCAT(y)": "4:12 PRL118 What plan says of the action B cannot be read",
    "x = FLAT(y)  # noqa": "",
    "x = CONCAT(X)\n    2. y = FLAT(L)": "",
}


@pytest.mark.parametrize("below", ["plan", "demonstration"])
@pytest.mark.parametrize("steps", IN_PLANS)
def test_the_steps_below_an_action_are_checked_as_a_plan_s(steps: str, below: str):
    text = f"A(X) : a X\nB(X, T: text, L: list, M: list) : X, T, L, M\n  {below}:\n    1. {steps}\n"
    source = Source("l", text)
    places = ((source.position(one.span.start), one) for one in check_library(source))
    told = [f"{line}:{at} {one.code} {one.message}" for (line, at), one in places]
    expected = IN_PLANS[steps].replace("What plan", f"What {below}")
    assert told[1:] == []
    assert "".join(told).startswith(expected)
    assert bool(told) == bool(expected)


@pytest.mark.parametrize(
    ("step", "type"), [("A(each X)", "list"), ("A(where values X)", "pairs"), ("KEYS(X)", "pairs")]
)
def test_a_plan_that_takes_a_parameter_for_a_list_says_so_in_its_signature(step: str, type: str):
    text = "A(X) : a X\nB({}) : all of X\n  plan:\n    1. x = {}\n"
    [found] = check_library(Source("l", text.format("X", step)))
    assert (found.code, found.help) == ("PRL505", f"Write X: {type}, so that calls are checked.")
    assert check_library(Source("l", text.format(f"X: {type}", step))) == []


def test_an_action_that_cannot_be_read_may_have_what_its_plan_uses():
    text = "B(X : all X\n  plan:\n    1. x = CONCAT(X, y)\n    2. z = NOPE(x)\n"
    [_, found] = check_library(Source("l", text))
    assert found.help == "None is close to it: use another, or define it in the library."


def test_plans_that_come_back_to_each_other_are_told():
    plan = "A{}(X) : the X\n  plan:\n    1. x = CONCAT(X)\n    2. z = A{}({})\n"
    findings = check_library(Source("l", plan.format(1, 2, "x") + plan.format(2, 1, "x")))
    assert [found.message for found in findings if found.code == "PRL505"] == [
        f"A{one}: its plan calls A{other}, which calls it, and would never end."
        for one, other in ((1, 2), (2, 1))
    ]
    three = "".join(plan.format(at, at % 3 + 1, "x") for at in (1, 2, 3))
    found = next(one for one in check_library(Source("l", three)) if one.code == "PRL505")
    told = "A1: its plan calls A2, which calls A3, which calls it, and would never end."
    assert found.message == told
    ends = check_library(Source("l", plan.format(1, 2, "each x") + plan.format(2, 1, "x")))
    assert "PRL505" not in [found.code for found in ends]


FAULTS = {
    "  aliases: C\n  colour: red\n  shape: round\n  traits: pur": (
        "3:9 PRL118, 4:8 PRL118, 5:11 PRL505"
    ),
    "  plan:\n    1. x = (\n    2. y = (\n    3. z = NOPE(x)\n  colour: red": (
        "3:12 PRL118, 4:12 PRL118, 5:12 PRL201, 6:9 PRL118"
    ),
    "  plan:\n    Here it is all said.\n    1. x = CONCAT(X)": "3:1 PRL118",
    "# of old\n  traits: pur\n  colour: red": "3:11 PRL505, 4:9 PRL118",
    "D(X : see X\n  colour: red\n  traits: pur\n  body: builtin nope": (
        "2:7 PRL118, 3:3 PRL505, 4:11 PRL505, 5:17 PRL505"
    ),
    "  D(X : see X\n  traits: pur": "2:9 PRL118, 3:11 PRL505",
    "B(X) : see X as A\n  aliases: C, A": "3:15 PRL501",
    "  aliases: C\n  model = x\n  traits: pur": "3:9 PRL118, 4:11 PRL505",
    "# of old\n  model = x": "3:9 PRL118",
    "  plan:\n  model = CONCAT(X)\n  b = CONCAT(model)\n  traits = pure": "5:10 PRL118",
}


@pytest.mark.parametrize("lines", FAULTS)
def test_each_fault_below_an_action_is_told_where_it_is_at_once(lines: str):
    source = Source("l", f"A(X) : a X\n{lines}\nE(X, Y) : see X, Y\n")
    found = check_library(source)
    told = ("{}:{} {}".format(*source.position(one.span.start), one.code) for one in found)
    assert ", ".join(told) == FAULTS[lines]


def test_an_indented_action_is_one_and_a_definition_goes_on_below_it():
    text = "A(X) : Say of X,\n  and NATO (the alliance): all,\n  or B(X, Y: list) as\n  old roof.\n"
    text += "  B(X: list) -> list : Say X.\n  plan:\n  question: Why?\n  1. x = FLAT(X)\n"
    text += "  - C(X) # Tell\n    X.\n"
    read = parse_library(text)
    said = "Say of X, and NATO (the alliance): all, or B(X, Y: list) as old roof."
    assert [one.doc for one in read.actions] == [said, "Say X.", "Tell X."]
    assert check_library(Source("l", text)) == []


ASKING = ("plan Why?", "ask d.txt Why?", "run p.plan d.txt", "batch q.jsonl -o a.jsonl", "mcp")
LOOKING = ("actions", "lint p.plan", "replay r.jsonl")


def with_library(line: str, text: str, name: str = "my.actions") -> Result:
    """What a command says of a library of one's own."""
    Path(name).write_text(text, encoding="utf-8")
    Path("d.txt").write_text("Mara left.", encoding="utf-8")
    Path("p.plan").write_text('1. a = FIND_A(CTX, "Mara") : Find her\n', encoding="utf-8")
    row = {"id": "a", "question": "Why?", "document": "d.txt"}
    Path("q.jsonl").write_text(json.dumps(row), encoding="utf-8")
    recorded = {"plan": '1. a = FIND_A(CTX, "Mara") : x', "step_outputs": {"a": "b"}}
    Path("r.jsonl").write_text(json.dumps({**recorded, "open_answer": "b"}), encoding="utf-8")
    return call(*line.split(), "--library", name)


FIND_A = "FIND_A(CTX, X) : Find X in CTX.\n"
WRONG = {
    f"{FIND_A}no action at all\n": "my.actions:2:4: PRL118 The action no cannot be read",
    f"{FIND_A}  traits: pur\n": "my.actions:2:11: PRL505 FIND_A: there is no trait pur. Use pure.",
}


@pytest.mark.parametrize("text", WRONG)
def test_no_model_is_asked_with_a_library_that_has_errors(text: str):
    for line in ASKING:
        done = with_library(line, text)
        assert (done.code, done.out, len(done.told)) == (2, "", 1)
        assert WRONG[text] in done.err
    with pytest.raises(InputError, match=re.escape(WRONG[text])):
        pearl.ask_sync("d.txt", "Why?", library="my.actions", model="offline")
    assert not Path(".pearl").exists()
    for line in LOOKING:
        done = with_library(line, text)
        # What checks plans does not sum them up as clean.
        lints = line.startswith("lint")
        assert (done.code, WRONG[text] in done.told[0]) == (lints, True), done.err
        assert ("no findings; the library has 1 error." in done.err) is lints
    assert with_library("lint p.plan --format sarif", text).json["runs"][0]["results"] == []


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("body: solver magic", "FIND_A needs the solver magic; there is retrieve."),
        ("demonstration:\n    1. a = CONCAT(CTX, X)", "FIND_A needs a decomposer: take"),
    ],
)
def test_no_model_is_asked_where_a_run_has_nothing_to_carry_an_action_out(
    serve: Serve, body: str, told: str
):
    endpoint = serve(["She left."])
    text = f"{FIND_A}  {body}\n"
    row = {"id": "a", "question": "Why?", "document": {"text": "Mara left."}, "gold": "Yes."}
    own = {"plan": '1. a = FIND_A(CTX, "Mara") : Find her'}
    Path("gold.jsonl").write_text(json.dumps(row), encoding="utf-8")
    Path("own.jsonl").write_text(json.dumps(row | own), encoding="utf-8")
    for line in (
        *ASKING[1:4], "batch own.jsonl -o a.jsonl", "estimate own.jsonl --model m",
        "eval questions --data gold.jsonl --methods pearl",
    ):  # fmt: skip
        done = with_library(line, text)
        assert (done.code in (1, 2), told in done.err) == (True, True), done
    assert not endpoint.asked
    # A plan that does not call it runs, and whoever checks a library may have Python hand it over.
    unused = text.replace(f"  {body}", f"B(CTX, X) : see X\n  {body}")
    assert with_library("run p.plan d.txt", unused).code == 0
    found = [(one.code, one.severity, one.message) for one in check_library(Source("l", text))]
    warning = ("PRL505", Severity.WARNING, "FIND_A: Pearl has no solver magic.")
    assert found == [warning] * ("solver" in body)


USED = {
    "FIND_A(CTX, X) : Find it in CTX.\n": "1:1: PRL503 FIND_A's definition never mentions X.",
    f"{FIND_A}FIND_A(CTX, Y) : List the tides at Y.\n": "2:1: PRL501 FIND_A is already the name",
    f"{FIND_A}FIND_B(CTX, X) #\n": "2:1: PRL502 FIND_B has no definition.",
}


@pytest.mark.parametrize("text", USED)
def test_a_library_that_loses_nothing_is_used_and_what_is_found_in_it_is_told(text: str):
    for line in ASKING[:-1]:
        done = with_library(line, text)
        assert done.code == 0
        assert f"my.actions:{USED[text]}" in done.told[0]


def test_what_is_ignored_is_not_told():
    text = "FIND_A(CTX, X) : Find it in CTX.\n"
    assert "PRL503" in with_library("plan Why?", text).err
    Path("pyproject.toml").write_text('[tool.pearl]\nignore = ["PRL5"]\n', encoding="utf-8")
    assert "PRL503" not in with_library("plan Why?", text).err


def test_a_library_that_is_named_as_a_plan_is_said_to_be_one():
    done = with_library("plan Why?", FIND_A, "my.plan")
    assert done.code == 0
    assert "my.plan is read as an action library: call it .actions." in done.told[0]
    told = "pearl: my.plan is an action library: save it as my.actions."
    for line in ("lint", "fmt"):
        assert one_line(call(line, "my.plan"), 1) == told.removeprefix("pearl: ")
    done = call("lint", ".", "--library", "my.plan")
    assert (done.code, told in done.told) == (1, True)
    assert "my.plan:1" not in done.out
    Path("new.plan").write_text(f"New actions:\n- {FIND_A}", encoding="utf-8")
    assert "There is no step" in call("lint", "new.plan").out


def test_a_solver_carries_a_step_out():
    text, journal = run('1. a = SHOUT("hallo")')
    assert text == "HALLO"
    assert ("step/a", "HALLO") in [(one.path, one.value) for one in journal.entries]
    assert (
        run('1. l = FLAT(["a", "b"])\n2. s = SHOUT("{each l}!")\n3. v = VALUES(s)')[0] == "A!\nB!"
    )


def test_a_solver_without_an_answer_is_told_with_its_reason():
    with pytest.raises(RunError, match="There is no answer to that") as error:
        run('1. a = SHOUT("nothing")\n2. b = CONCAT(a, "x")')
    assert [(one.step, one.reason) for one in error.value.failures] == [
        ("a", "no-answer"), ("b", "no-answer"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (
            '1. l = FLAT(["a"])\n2. s = SHOUT(where l)',
            "A filter needs yes or no, and was given text",
        ),
        ('1. a = SING("x")', "needs the solver sing; there is shout"),
    ],
)
def test_a_solver_that_cannot_be_used_fails_its_step(plan: str, why: str):
    with pytest.raises(RunError, match=why):
        run(plan, library(f"{ACTIONS}SING(X) : sing X\n  body: solver sing\n"))


def test_an_action_that_is_a_plan_of_its_own():
    text, journal = run('1. a = TWICE("x")')
    assert text == "X\nX"
    paths = [one.path for one in journal.entries]
    assert "step/a/step/once" in paths
    assert "step/a/value/ans" in paths


@pytest.mark.parametrize(("plan", "depth", "why"), [
    ('LOOP("x")', 8, "LOOP is asked what it is already at"),
    ('TWICE("x")', 0, "TWICE is more than 0 calls deep"),
    ('DEEPER("x")', 3, "more than 3 calls deep"),
])  # fmt: skip
def test_what_would_never_end_is_refused(plan: str, depth: int, why: str):
    with pytest.raises(RunError, match=why) as error:
        run(f"1. a = {plan}", depth=depth)
    assert error.value.failures[0].reason == "depth"
    assert run('1. a = TWICE("x")', depth=1)[0] == "X\nX"


@pytest.mark.parametrize(
    ("action", "severity", "place", "wrong"),
    [
        ("GATHER(S1, ...) : a S1\n  plan:\n    1. a = CONCAT(S1)", "ERROR", "S1", "S1 repeats"),
        (
            "RETR(K: number, Q) -> list : K, Q\n  body: solver retrieve",
            "ERROR",
            "retrieve",
            "a retriever takes a query and a number",
        ),
        (
            "CLAUSE(DOC, X) : X, DOC\n  plan:\n    1. a = WHY(DOC, X)",
            "WARNING",
            "DOC",
            "its plan gives DOC to WHY for CTX",
        ),
        (
            'FIND(CTX, X) : X in CTX\n  plan:\n    1. a = WHY(CTX, "X")',
            "WARNING",
            '"X"',
            'its plan has "X" as a text',
        ),
        ('FIND(CTX, X) : X in CTX\n  plan:\n    1. a = WHY(CTX, "X")\n    return X', "", "", ""),
        ("EVERY(L: list, X) : X in L\n  plan:\n    1. a = WHY(each L, X)", "", "", ""),
        ("BOTH(CTX, A) : A in CTX\n  plan:\n    1. a = TOLD(CTX, A)", "", "", ""),
    ],
)
def test_what_a_call_gives_and_an_action_loses_is_told(
    action: str, severity: str, place: str, wrong: str
):
    others = "WHY(CTX, X) : Find why X in CTX\nTOLD(T, A) : How T and A are told\n"
    source = Source("l", f"{others}{action}\n")
    told = [(one, source.at(one.span)) for one in check_library(source)]
    assert [(one.severity.name, at) for one, at in told] == [(severity, place)] * bool(wrong)
    assert all(wrong in one.message for one, _ in told)


@pytest.mark.parametrize("argument", ["LIST", "each LIST", '"{LIST}"'])
def test_a_parameter_that_is_given_the_document_is_told_so(argument: str):
    inner = f"TAKE(LIST) : take LIST\n  plan:\n    1. a = CONCAT({argument})\n"
    with pytest.raises(RunError, match="LIST is given nothing, or the document"):
        run("1. a = OUTER()", library(f"{inner}OUTER() : b\n  plan:\n    1. a = TAKE(CTX)\n"))


def test_a_decomposer_is_handed_in():
    text = "ADD(X) : add X\n  demonstration:\n    1. a = FLAT(X)\n"

    async def decompose(action: Any, given: Sequence[tuple[str, Given]], frame: Frame) -> Output:
        assert frame.within
        return Output([action.name, *[as_text(one.value) for _, one in given]])

    assert run('1. a = ADD("x")', library(text), decompose=decompose)[0] == "ADD\nx"
    with pytest.raises(RunError, match="ADD needs a decomposer"):
        run('1. a = ADD("x")', library(text))


def test_examples_are_shown_to_the_model():
    text = 'NAME(X, N) : Name X, N.\n  example: ("a", 1) = "b"\n'
    assert run('1. a = NAME("x", 2)', library(text))[0] == (
        "1 example: ['For (\"a\", 1) the answer was:', '<answer>', 'b', '</answer>']"
    )


def test_a_trace_replays_what_solvers_and_plans_gave(tmp_path: Path):
    """A list stays a list, and the solver is not asked again."""
    plan = '1. l = FLAT(["a", "b"])\n2. s = SHOUT(each l)\n3. v = VALUES(s)\n4. t = TWICE("x")'
    text, journal = run(plan)
    journal.decide("run", {"question": "q"})
    trace = Source("t.plan", export_trace(journal.entries, "t"))
    [record] = read_records(trace)
    assert record.answer == text
    replayed = replay([record], library())
    assert (replayed.exact, replayed.check_errors, replayed.failed) == (1, 0, {})
