"""The parser and the printer, form by form; tests/cases hold what models write."""

import pytest

from pearl.lang.ast import (
    Action,
    Arg,
    Builtin,
    Items,
    Literal,
    Mode,
    Param,
    Plan,
    Ref,
    Step,
    Template,
)
from pearl.lang.library import load_library, parse_library
from pearl.lang.logical_lines import call_end
from pearl.lang.parser import parse
from pearl.lang.printer import print_library, print_plan
from pearl.lang.source import Source
from pearl.lang.values import DEEPEST
from pearl.lint.checker import check, fix


def step(*args: Arg, name: str = "a", note: str = "Say it") -> Step:
    return Step(name, "FIND_EVENT", args, note)


ARGUMENTS: dict[str, Arg] = {
    "document": Ref("CTX"),
    "reference": Ref("ross"),
    "each": Ref("people", Mode.EACH),
    "where": Ref("people", Mode.WHERE),
    "each values": Ref("ages", Mode.EACH_VALUES),
    "where values": Ref("ages", Mode.WHERE_VALUES),
    "text": Literal("Ross"),
    "empty text": Literal(""),
    "quotes": Literal("\"'“”«»"),
    "escapes": Literal('\\ \\n \n \t \r \x00 \x7f \u2028 \\" \\_ \\{'),
    "braces": Literal("{ross} {each ross} { ross } {{ross}} {} {1}"),
    "delimiters": Literal("a, b) : c # d = e ( [ ;"),
    "integer": Literal(42),
    "negative": Literal(-7),
    "float": Literal(2.5),
    "large": Literal(1e300),
    "small": Literal(-1.5e-07),
    "true": Literal(True),
    "false": Literal(False),
    "list": Literal(["a", 1, True, ["b", []]]),
    "empty list": Literal([]),
    "template": Template(("The boss of ", Ref("ross"), "?")),
    "template with mode": Template((Ref("people", Mode.EACH_VALUES), " and ", Ref("mara"))),
    "template with braces": Template(("{", Ref("ross"), "} {mara} \\")),
    "items": Items((Ref("ross"), Literal("x"), Template((Ref("mara"),)))),
    "nested items": Items((Items((Ref("ross"),)), Literal([1]))),
}


@pytest.mark.parametrize("arg", ARGUMENTS.values(), ids=ARGUMENTS)
def test_an_argument_is_printed_and_read_back(arg: Arg) -> None:
    plan = Plan((step(Ref("CTX"), arg, arg),))
    parsed = parse(print_plan(plan))
    assert not parsed.broken
    assert parsed.plan == plan


def test_a_whole_plan_is_printed_and_read_back() -> None:
    plan = Plan(
        steps=(
            Step("a", "FIND_PET", (Ref("CTX"),), "", ("# first", "# 1. x = F(CTX)"), ("PRL401",)),
            Step("b", "FIND_HAT", (Ref("a"),), "Say: it (now", (), ("",)),
        ),
        question="Why: “so”?",
        declares=(
            Action("FIND_PET", (Param("CTX"),), "text", "Find the pet"),
            Action(
                "FIND_HAT", (Param("CTX"), Param("X", "list")), "list", "Find hats", variadic=True
            ),
        ),
        returns=(Ref("a"), Ref("b")),
        comments=("# the end",),
        head=("# library: pets",),
    )
    assert parse(print_plan(plan)).plan == plan


def test_nothing_prints_as_nothing() -> None:
    assert print_plan(Plan()) == ""
    assert parse("").plan == Plan()


def test_a_library_is_printed_and_read_back() -> None:
    actions = (
        Action("F", (Param("CTX"), Param("X", "list")), "bool", "Say so", aliases=("G", "H")),
        Action("J", (Param("X"),), body=Builtin("join"), traits=frozenset({"pure"}), doc="Join"),
        Action("K", (Param("X"),), doc="Keep", comments=("# About K.",)),
    )
    assert parse_library(print_library(actions)).actions == actions


# -- recovery


def test_a_broken_line_leaves_its_neighbours_alone() -> None:
    text = "1. a = F(CTX)\n2. b = G(CTX a) : x\n3. c = H(CTX, b)\n4. = I(CTX)\n5. d = J(c)\n"
    parsed = parse(text)
    assert [one.name for one in parsed.plan.steps] == ["a", "c", "d"]
    assert [one.text for one in parsed.broken] == ["b = G(CTX a) : x", "= I(CTX)"]


def test_a_broken_line_says_what_it_defines() -> None:
    broken = parse("1. b = G(CTX a)\n2. \\_c = G(CTX a)\n").broken
    assert [one.name for one in broken] == ["b", "_c"]


def test_only_the_last_line_of_a_plan_is_last() -> None:
    parsed = parse("1. a = F(CTX\n2. b = F(CTX\n```\n")
    assert [one.last for one in parsed.broken] == [False, True]


# -- places


def test_spans_point_at_the_text() -> None:
    text = 'Plan:\r\n\r\n> 1. ross = FIND_EVENT(CTX, “the {each sale}”, [1, "b"], {mara}) : Say\r\n'
    plan = parse(text).plan
    found, at = plan.steps[0], plan.source.at
    assert at(found.name_span) == "ross"
    assert at(found.action_span) == "FIND_EVENT"
    args = [at(arg.span) for arg in found.args]
    assert args == ["CTX", "“the {each sale}”", '[1, "b"]', "mara"]
    template = found.args[1]
    assert isinstance(template, Template)
    assert at(template.parts[1].span) == "{each sale}"  # type: ignore[union-attr]
    assert at(found.span).startswith("ross = ")
    assert at(found.span).rstrip().endswith(": Say")


def test_spans_of_declarations_and_returns() -> None:
    text = "New actions:\n- FIND_PET(CTX) : Find it\n\n1. a = FIND_PET(CTX)\nreturn a"
    plan = parse(text).plan
    at = plan.source.at
    assert at(plan.declares[0].span) == "FIND_PET(CTX) : Find it"
    assert at(plan.returns[0].span) == "a"


def test_asides_keep_their_kind() -> None:
    text = "<think>x</think>\nHello.\n```\n1. a = F(CTX)</s>\n```"
    parsed = parse(text)
    found = [(one.kind, parsed.plan.source.at(one.span)) for one in parsed.aside]
    assert found == [
        ("thinking", "<think>x</think>"),
        ("prose", "Hello."),
        ("wrapping", "```"),
        ("wrapping", "</s>"),
        ("wrapping", "```"),
    ]


def test_a_source_keeps_its_name() -> None:
    source = Source("ro.plan", "a = F(CTX)")
    assert parse(source).plan.source is source


def test_call_end() -> None:
    assert call_end('f(a, ")", [b]) : (', 1, 18) == 14
    assert call_end("f(a, (b)", 1, 8) == -1
    assert call_end('f("a)', 1, 5) == -1


@pytest.mark.parametrize("digits", ["9" * 4400, "1e999", "-" + "1" * 400, "1." + "0" * 9 + "e309"])
def test_a_number_that_no_computer_holds_is_said_to_be_none(digits: str):
    text = f"1. a = FIND_EVENT(CTX, {digits}) : it\n1.{'1.' * 4400} b = FIND_EVENT(CTX, #1)\n"
    parsed = parse(text)
    assert [(line.got, line.token) for line in parsed.broken] == [("NUMBER", digits)]
    [found] = [one for one in check(parsed, load_library()) if one.code == "PRL122"]
    assert len(found.message) < 80
    assert "1.8e308" in found.message
    assert f'"{digits}"' in fix(Source("x", text), load_library(), unsafe=True).text
    library = f"F(X) : do\n  example: ({digits}) = {digits}\n  replaces: G(X) = ({digits})\n"
    assert len(parse_library(library).broken) == 2


@pytest.mark.parametrize("text", ["”, b", "a”) “b", "”]", "„a” ,", "x”，", "“”, ”)"])
def test_curly_quotes_before_a_delimiter_are_read_back(text: str):
    for arg in (Literal(text), Literal([text, text]), Template((Ref("b"), text)), Ref("b")):
        plan = Plan((step(Literal("x"), name="b"), step(arg, Ref("b"))))
        assert parse(print_plan(plan)).plan == plan


@pytest.mark.parametrize(("opening", "closing"), ["[]", "【】"])
def test_lists_stand_in_lists_up_to_a_depth(opening: str, closing: str):
    def plan(depth: int) -> str:
        return f'1. a = FLAT({opening * depth}"b"{closing * depth}) : it\n'

    deepest = parse(plan(DEEPEST))
    assert parse(print_plan(deepest.plan)).plan == deepest.plan
    for depth in (DEEPEST + 1, 3000):
        [line] = parse(plan(depth)).broken
        assert (line.at.start, line.got) == (plan(depth).index(opening) + DEEPEST, "LIST")


def test_brackets_in_texts_and_notes_are_no_lists():
    text = f'1. a = FIND_EVENT(CTX, "{"[" * 60}") : {"[" * 60} it\n'
    assert not check(parse(text), load_library())


@pytest.mark.parametrize("note", ["## the fire", "# # the fire", "# #fire", ": # the fire"])
def test_a_note_behind_several_signs_is_read_back_as_it_was_printed(note: str):
    plan = parse(f'a = FIND_EVENT(CTX, "fire"){note}').plan
    assert parse(print_plan(plan)).plan == plan
