"""What holds for every text: nothing crashes or is lost, and fixes do no harm."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from pearl.lang import ast, grammar
from pearl.lang.diagnostics import Diagnostic, SourceFindings, errors_of
from pearl.lang.library import load_library, parse_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_library, print_plan
from pearl.lang.source import Source, Span
from pearl.lint.checker import check, check_for_person, check_library, fix
from pearl.lint.render import RENDERERS
from tests.conftest import ROOT
from tests.fuzz import files
from tests.fuzz.mutation import attack, problems, seeds
from tests.growth import assert_linear
from tests.shell import call

MODEST = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)

LIBRARY = load_library()


@cache
def fragments() -> list[str]:
    """Every line of every stress case, and the tokens that break lines."""
    found = set()
    for path in sorted((ROOT / "tests" / "cases").glob("*.md")):
        body = path.read_text(encoding="utf-8").split("~~~~~\n")[1]
        found.update(body.splitlines())
    tokens = [*"\"'()[]{}<>=:,;#`*-|\\ \t\n“”", "\r\n", "\n\n", "```", "<think>", "</think>"]
    words = "CTX,ross,each ,where ,return ,question:,New actions:,1. ,F(".split(",")
    return [*sorted(found), *tokens, *words]


def planlike() -> st.SearchStrategy[str]:
    piece = st.deferred(lambda: st.sampled_from(fragments()))
    glued = st.lists(piece, max_size=14).map("".join)
    lined = st.lists(piece, max_size=10).map("\n".join)
    return st.one_of(glued, lined)


# -- nothing crashes


@MODEST
@given(st.one_of(st.text(max_size=300), planlike()))
@example("`" * 500 + "x")
@example("a = F(" * 200)
@example("\x00\x1c\x85\ud800 = F(")
def test_any_text_is_read(text: str) -> None:
    check(parse(text), LIBRARY)
    check_library(Source("x", text))


NAMES = st.sampled_from("a CTX each where evidence return true False évén _x x9 # $a \\_a".split())
QUOTED = st.text("ab 9{}#\"'“”\\\n:,()each", max_size=12).map(lambda text: f'"{text}"')
NOTES = st.sampled_from(["", " : ", " : find # noqa: PRL201", " : # it  is ", " : **a", ": a", " "])


@settings(MODEST, max_examples=100)
@given(NAMES, NAMES, st.lists(st.one_of(NAMES, QUOTED), max_size=3), NOTES)
@example("a", "F", ["{b}"], "")
def test_a_step_in_canonical_form_is_read_as_the_table_reads_it(
    name: str, action: str, args: list[str], note: str
):
    text = f"1. {name} = {action}({', '.join(args)}){note}"
    span = Span(3, len(text))
    by_table = grammar._parse(grammar._table("plan"), text, span, "step")
    assert repr(grammar.parse_step(text, span)) == repr(by_table)


def checked(text: str) -> None:
    check(parse(text), LIBRARY)


def fixed(text: str) -> None:
    fix(Source("x", text), LIBRARY, unsafe=True)


def as_library(text: str) -> None:
    check_library(Source("x", text))


def each(line: str) -> Callable[[int], str]:
    """A text with a line for each number: @ stands for it, % for the one before."""
    return lambda size: "".join(
        line.replace("@", str(at)).replace("%", str(at - 1)) for at in range(1, size)
    )


LONG: dict[str, tuple[Callable[[str], None], Callable[[int], str], int]] = {
    "brace": (checked, lambda n: f'a = F("{{{" " * n}x")', 1500),
    "space in a note's place": (checked, lambda n: f"a = F(CTX){' ' * n}x", 2000),
    "space in a name": (checked, lambda n: f"a{' ' * n}b = F(CTX)", 1500),
    "space after noqa": (checked, lambda n: f"So # noqa:{' ' * n}x\n\na = F(CTX)", 400),
    "space after =": (checked, lambda n: f'a = {" " * n}"', 100),
    "dashes": (checked, lambda n: f"New actions:\n{'-' * n}x", 1500),
    "space after a dash": (checked, lambda n: f"-{' ' * n}!", 1500),
    "tildes": (checked, lambda n: "~" * n + "`", 1500),
    "noqa": (checked, each("@. a@ = F(CTX)  # noqa\n"), 200),
    "names again": (checked, lambda n: "a = F(CTX)\r\n" * n, 250),
    "letters of names": (
        checked,
        lambda n: f"{'a' * n} = F(CTX)\nb = F(CTX, {'b' * n})\nc = G(CTX, {'a' * n}b)\n",
        8000,
    ),
    "misspelt returns": (checked, lambda n: "a = F(CTX) : x\n" + "retur a\n" * n, 400),
    "names after retur": (checked, lambda n: f"a = F(CTX) : x\nretur {'a, ' * n}{' ' * n}!", 400),
    "words after returns": (
        checked,
        lambda n: each("a@ = F(CTX)\n")(n) + each("return the end @\n")(n),
        100,
    ),
    "words after each return": (checked, each("a@ = F(CTX)\nreturn the end @\n"), 100),
    "words without quotes": (checked, each("a@ = F(CTX, the sale @) : it\n"), 25),
    "counts of answers": (
        checked,
        lambda n: (
            f'a = F(CTX)\nb = CHECK_TRUE(CTX, "{{each a}}{"{a}" * n}")\n'
            + each("c@ = COUNT(b)\n")(n)
        ),
        200,
    ),
    "filters": (checked, each("a@ = FIND_EVENT(CTX, where a%)\n"), 60),
    "lists beside": (checked, lambda n: "a = F(each a, " + "each a, " * n + "G(each a))", 400),
    "values of one list": (checked, lambda n: f"a = F(CTX)\nb = F({'each values a, ' * n}a)", 200),
    "new and unknown": (checked, lambda n: unknown(n), 40),
    "fences": (fixed, each("```\na@ = FIND_EVENT(CTX, @,000) : it\n```\n"), 20),
    "harm": (fixed, each("@. a = FIND_EVENT(CTX, @,000, 'x\") : it\n"), 10),
    "examples": (as_library, lambda n: "F(X)\n" + '  example: ("a") = "b"\n' * n, 60),
    "steps of an action": (as_library, lambda n: "F(X)\n  plan:\n" + "    a = F(X)\n" * n, 80),
}


def unknown(size: int) -> str:
    declared, called = each("- DO_@(X) : do @\n")(size), each("a@ = MAKE_@(CTX)\n")(size)
    return f"New actions:\n{declared}\n{called}"


@pytest.mark.parametrize("name", LONG)
def test_long_texts_take_linear_time(name: str) -> None:
    assert_linear(*LONG[name])


@pytest.mark.parametrize(
    ("arg", "taken"), [("the sale @", True), ('NO_@(CTX, "x"), the sale', False)]
)
def test_fixes_are_tried_together(arg: str, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[int] = []

    def counted(*given: Any) -> list[Diagnostic]:
        checks.append(0)
        return check(*given)

    monkeypatch.setattr("pearl.lint.checker.check", counted)
    plan = parse(each(f"a@ = FIND_EVENT(CTX, {arg}) : it\n")(80))
    assert all(bool(one.fix) is taken for one in check_for_person(plan, LIBRARY))
    assert len(checks) <= 3
    # Those on other lines do not go with them.
    good = each("g@ = FIND_REASON(CTX, sea) : it\n")(5)
    for text in (good + plan.plan.source.text, plan.plan.source.text + good):
        found = check_for_person(parse(text), LIBRARY)
        fixes = [one.fix for one in found if one.code == "PRL202"]
        assert fixes
        assert None not in fixes


def test_a_definition_is_compared_with_so_many_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pearl.lint.rules.similar_definitions.MOST", 20)
    assert_linear(as_library, each("FIND_@(CTX, X) : Find thing @ of X\n"), 60)


@pytest.mark.parametrize("piece", ['"', "(", "*", ">", " ", "`", "a = F(", "'a", "{x", "<a>", "A_"])
def test_what_is_repeated_takes_linear_time(piece: str) -> None:
    for before in ("", '1. a = F(CTX, "'):
        assert_linear(checked, lambda size, start=before: start + piece * size + "!", 800)


def test_findings_on_one_long_line_are_shown_in_linear_time() -> None:
    def shown(text: str) -> None:
        source = Source("x.actions", text)
        found = check_library(source)
        assert RENDERERS["terminal"].part(SourceFindings(source, found)).count("\n") > len(found)

    assert_linear(shown, lambda size: f"F({', '.join(f'P{at}' for at in range(size))}) : Find", 800)


# -- nothing is lost

_NUMBER_WORDS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_FURNITURE = re.compile(
    r"[\s>#*+•·–—‣▪◦●○➤✓=\[\]_`().:、．。：|\\№\d\ufe0f\u20e3①-⑳❶-❿\-\u200b-\u200d\u2060\u00ad\ufeff]*"
    rf"(?:(?:step|line|action)[ \t]*[-#]?[ \t]*(?:\d+|{_NUMBER_WORDS})"
    r"|s\d+|\d+(?:st|nd|rd|th)|[ivx]{1,5}|[a-z])?"
    r"[\s>#*+•·–—=\[\]_`().:、．。：|\\xX\d\-]*",
    re.IGNORECASE,
)
_WHOLE = (ast.Kind.QUESTION, ast.Kind.COMMENT, ast.Kind.HEADER)
_BLANK = re.compile(r"[\s\u200b-\u200d\u2060\u00ad\ufeff]")


def lost(text: str, parsed: ast.Parsed) -> str:
    """The characters of a text that are nowhere in its reading."""
    seen = bytearray(len(text))

    def mark(start: int, end: int) -> None:
        seen[start:end] = b"\1" * max(0, min(end, len(text)) - start)

    plan = parsed.plan
    for span in (
        *(step.span for step in plan.steps),
        *(action.span for action in plan.declares),
        *(broken.span for broken in parsed.broken),
        *(aside.span for aside in parsed.aside),
    ):
        mark(*span)
    for line in parsed.lines:
        if line.kind in _WHOLE:
            mark(line.begin, line.end)
        elif line.kind is ast.Kind.RETURN:
            mark(line.start, line.end)
        # Tags before a number are set aside already.
        prefix = (" " if seen[at] else text[at] for at in range(line.begin, line.start))
        if _FURNITURE.fullmatch("".join(prefix)):
            mark(line.begin, line.start)
    for quoted in re.finditer(r"^[^\S\n]*(?:>[^\S\n]?)+", text, re.MULTILINE):
        mark(*quoted.span())
    rest = (text[at] for at in range(len(text)) if not seen[at])
    return "".join(char for char in rest if not _BLANK.match(char))


@MODEST
@given(st.one_of(planlike(), st.text(alphabet="ab=(),\"':.#-*`[]{}<>/ \n1CTX", max_size=80)))
def test_nothing_is_lost_and_what_is_read_is_printed_and_read_alike(text: str) -> None:
    parsed = parse(text)
    # Marks of emphasis and ends of lines say nothing.
    assert lost(text, parsed).strip(".;,*` ") == ""
    assert parse(print_plan(parsed.plan)).plan == parsed.plan


# -- what is printed is read back

NAMES = st.sampled_from(
    ["ross", "mara", "x1", "größe", "_a", "each", "where", "values", "S2", "new"]
)
ACTIONS = st.sampled_from(["FIND_CHARACTER", "CONCAT", "SUMMARIZE", "find", "F2"])
AWKWARD = st.text(
    alphabet=st.one_of(
        st.sampled_from("\"'\\{}[](),:;=#`*<>|“”‘’«»\n\t\r é罗🎯_ab1 "),
        st.characters(codec="utf-8"),
    ),
    max_size=24,
)
NUMBERS = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.one_of(AWKWARD, NUMBERS, st.booleans()),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)
REFS = st.builds(ast.Ref, st.one_of(NAMES, st.just("CTX")), st.sampled_from(list(ast.Mode)))

TEMPLATES = st.lists(st.one_of(AWKWARD, REFS), min_size=1, max_size=4).map(ast.as_arg)
ATOMS: st.SearchStrategy[ast.Arg] = st.one_of(REFS, VALUES.map(ast.Literal), TEMPLATES)

ARGS = st.one_of(ATOMS, st.lists(ATOMS, max_size=3).map(ast.listed))
WORDS = st.lists(
    st.sampled_from(["Find", "who:", "a=b", "(x", "it's", '"q"', "#1", "-", "ok."]), max_size=5
)
NOTES = WORDS.map(lambda words: " ".join(["Say", *words]) if words else "")
COMMENTS = st.lists(st.sampled_from(["# one", "# 1. a = F(CTX)", "# noqa all"]), max_size=2).map(
    tuple
)
STEPS = st.builds(
    ast.Step,
    name=NAMES,
    action=ACTIONS,
    args=st.lists(ARGS, max_size=4).map(tuple),
    note=NOTES,
    comments=COMMENTS,
    noqa=st.sampled_from([(), ("",), ("PRL401",), ("PRL401", "PRL402")]),
)
DECLARED = st.builds(
    ast.Action,
    name=st.sampled_from(["FIND_PET", "FIND_HAT"]),
    params=st.lists(
        st.builds(
            ast.Param, st.sampled_from(["CTX", "X", "Y"]), st.sampled_from(["any", "list", "text"])
        ),
        max_size=3,
    ).map(tuple),
    returns=st.sampled_from(["text", "list", "bool"]),
    doc=NOTES,
)
PLANS = st.builds(
    ast.Plan,
    # A name that is given twice is numbered when it is read.
    steps=st.lists(STEPS, max_size=4, unique_by=lambda step: step.name).map(tuple),
    question=st.sampled_from(["", "Why: does Ross sell?"]),
    declares=st.lists(DECLARED, max_size=2).map(tuple),
    returns=st.lists(st.builds(ast.Ref, NAMES), max_size=2).map(tuple),
    comments=COMMENTS,
    head=COMMENTS,
    # The comments above a question are the head: without one, all stand above the first step.
).map(lambda plan: plan if plan.question else replace(plan, head=()))


@MODEST
@given(PLANS)
def test_a_printed_plan_is_read_back(plan: ast.Plan) -> None:
    text = print_plan(plan)
    parsed = parse(text)
    assert not parsed.broken, text
    assert parsed.plan == plan
    assert print_plan(parsed.plan) == text


@MODEST
@given(st.lists(DECLARED, max_size=3))
def test_a_printed_library_is_read_back(actions: list[ast.Action]) -> None:
    assert list(parse_library(print_library(actions)).actions) == actions


# -- fixes do no harm


def errors(text: str) -> int:
    return len(errors_of(check(parse(text), LIBRARY)))


@MODEST
@given(planlike(), st.booleans())
def test_a_fix_brings_in_no_error_and_is_done_at_once(text: str, unsafe: bool) -> None:
    fixed = fix(Source("x", text), LIBRARY, unsafe=unsafe)
    unread = [len(parse(one).broken) for one in (text, fixed.text)]
    assert errors(fixed.text) <= errors(text) or unread[1] < unread[0]
    assert fix(fixed, LIBRARY, unsafe=unsafe).text == fixed.text


def answer(plan: ast.Plan) -> str:
    """What a plan answers when a call's output says what the call was.

    The tests' own idea of running a plan: CONCAT joins lines, the answer is
    every output that nothing uses, in order.
    """
    outputs: dict[str, str] = {"CTX": "the document"}

    def value(arg: ast.Arg) -> str:
        match arg:
            case ast.Ref():
                return f"{arg.mode}<{outputs[arg.name]}>" if arg.mode else outputs[arg.name]
            case ast.Literal():
                return str(arg.value)
            case ast.Template():
                return "".join(part if isinstance(part, str) else value(part) for part in arg.parts)
            case ast.Items():
                return "\n".join(value(item) for item in arg.items)

    used = {ref.name for step in plan.steps for ref in ast.step_refs(step)}
    for step in plan.steps:
        values = [value(arg) for arg in step.args]
        call = f"{step.action}{values!r} : {step.note}"
        outputs[step.name] = "\n".join(values) if step.action == "CONCAT" else call
    unused = [step.name for step in plan.steps if step.name not in used]
    wanted = [ref.name for ref in plan.returns] or unused
    return "\n\n".join(outputs[name] for name in wanted)


@st.composite
def sound_plans(draw: st.DrawFn) -> str:
    """The text of a plan without errors, with the kinds of mess that safe fixes clear up."""
    names = ["ross", "mara", "sale", "view", "ans"]
    lines = []
    for index in range(draw(st.integers(1, 5))):
        earlier = [*names[:index], '"Ross"', '"Mara"']
        one, two = draw(st.sampled_from(earlier)), draw(st.sampled_from(earlier))
        calls = [f"FIND_CHARACTER(CTX, {one})", f"FIND_RELATION(CTX, {one}, {two})"]
        calls += [f"CONCAT({one}, {two})", f"CONCAT({one})"]
        named = f'FIND_EVENT(CTX, "the sale by {{{one}}}")'
        call = draw(st.sampled_from([*calls, "SUMMARIZE(CTX)" if one[0] == '"' else named]))
        note = draw(st.sampled_from(["", " : Find it", " : Combine"]))
        lines += draw(st.sampled_from([[], [], ["Now the next one."], ["# A remark."], ["```"]]))
        lines.append(f"{index + 1}. {names[index]} = {call}{note}")
    returned = f"return {names[draw(st.integers(0, 4))]}"
    lines += draw(st.sampled_from([[], [returned], ["", "That is all."]]))
    return "\n".join(lines)


@MODEST
@given(sound_plans())
def test_a_safe_fix_never_changes_the_answer(text: str) -> None:
    before = parse(text)
    assume(before.plan.steps and not errors_of(check(before, LIBRARY)))
    fixed = fix(Source("x", text), LIBRARY)
    assert answer(parse(fixed.text).plan) == answer(before.plan)


# -- mutated plans: `python -m tests.fuzz.mutation 100000` does the same, with other seeds


@pytest.mark.parametrize("seed", range(4))
def test_what_ships_is_mutated(seed: int):
    assert list(attack(500, seed, seeds())) == []


def test_a_file_of_any_kind_is_mutated():
    assert list(files.attack(250, 1)) == []


def test_the_attack_on_files_starts_from_what_is_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("WEATHER_KEY", "w")
    monkeypatch.setenv("ENCYCLOPAEDIA_KEY", "e")
    for name, data in files.prepare(tmp_path).items():
        for command in files.KINDS[name]:
            ended = call(*files.in_folder(tmp_path, name, command, data)[0])
            assert ended.code == 0, ended.err


def test_a_guess_waits_for_what_is_certain():
    plan = 'a = FIND_ALL(CTX, "x") : y\nb1 = FIND_EVENT(CTX, each a) b2 = VALUES(b1)\n'
    source = fix(Source("p", f"{plan}c = FLAT(b2) : z\n"), LIBRARY, unsafe=True)
    assert "FLAT(b2)" in source.text


@pytest.mark.parametrize(
    "text",
    [
        # A fix that mends one line breaks no other.
        "s=T(a)r\ns=T(t\u200b()",
        # A mark behind noqa ends no words.
        "1. a = FIND_INTENT(CTX, x) : Find # noqa: PRL202, PRL4**",
        "1. a = FIND_INTENT(CTX, x) : Find it*`",
        "1. a = FIND_INTENT(CTX, x) : Find it** # noqa",
        # What cannot be read is so however it is printed.
        '1. a = FIND_INTENT(CTX, "x") : Find a b = FIND_ELEMENT\xa0(CTX, "y") : what',
        "New actions:\n- FIND_LAw actions:\n- FIND_LAw actions:\n- FIND_LAST(CTX, X) : Find it\n",
        # Marks before a note are read as they are printed.
        'd=D("")–# u',
        'd=D("") : //# u',
        'd=D("") – – u',
        # What becomes a comment neither joins lines nor is a step.
        "s=T()```\ne a",
        "<think>\n#5 a=F(CTX)\n</think>\nb=F(CTX)",
        "```\n```\na=F(CTX)",
    ],
)
def test_what_once_did_not_hold_holds(text: str):
    assert list(problems(text, LIBRARY)) == []


def test_recorded_plans_are_mutated(shared: Path):
    recorded = shared / "pearl_gpt4" / "train.ctx_eval_long.jsonl"
    assert list(attack(70, 1, seeds(str(recorded)))) == []
