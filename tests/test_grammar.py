"""Grammars of plans: whatever they admit parses and checks without an error."""

import random
from collections.abc import Callable, Mapping

import pytest

from benchmarks.grammar import (
    MINED,
    RECORDED,
    by_llama,
    errors,
    matcher_of,
    numbered,
    recorded,
    sampler,
    takes,
)
from pearl.lang.context_free import Chars, Grammar, Repeated, Symbol
from pearl.lang.errors import InputError
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.plan_grammar import plan_grammar, step_grammar
from pearl.lang.printer import print_plan, print_value
from pearl.lang.values import Type
from pearl.lint.checker import check
from tests.conftest import library_of
from tests.shell import call

TYPED = """
LIST_PEOPLE(CTX, X) -> list : List everybody of X.
PAIR_UP(CTX, X: list, Y: list) -> pairs : Pair up X and Y.
IS_SO(CTX, X) -> bool : Say whether X is so.
HOW_MANY(CTX, X: pairs) -> number : Say how many X are.
PICK(CTX, X, N: number) -> any : Take N of X.
WHEN(CTX, X: text, Y: bool) : Say when X is, if Y.
ALL_OF(CTX, X: list, ...) : Put all together.
ANYTHING(...) : Take anything.
NEW_1(CTX) : A name that the plan's own actions have elsewhere.
"""
NAMES: Mapping[str, Type] = {
    "text": "text", "people": "list", "ages": "pairs", "what": "any", "so": "bool", "nina_3": "list"
}  # fmt: skip


@pytest.fixture(scope="module")
def typed() -> Library:
    return library_of(TYPED)


@pytest.fixture(scope="module", autouse=True)
def _needs_llguidance():
    pytest.importorskip("llguidance", reason="llguidance is not installed")


def drawn(
    sample: Callable[[random.Random], str], seed: str | int, count: int, library: Library
) -> list[str]:
    """So many plans from a sampler, none of which has an error."""
    dice = random.Random(seed)
    plans = [sample(dice) for _ in range(count)]
    assert [(found, plan) for plan in plans if (found := errors(plan, library))] == []
    return plans


@pytest.mark.parametrize(
    ("name", "own"),
    [("core", 0), ("quality", 3), ("asking", 0), ("fsm", 3), ("typed", 0), ("typed", 3)],
)
def test_a_random_plan_has_no_errors(name: str, own: int, typed: Library):
    library = typed if name == "typed" else load_library(name)
    plans = drawn(sampler(plan_grammar(library, 5, own).lark), name, 20, library)
    assert any("#" in plan for plan in plans)
    assert max(len(parse(plan).plan.steps) for plan in plans) == 5


def test_what_llama_cpp_draws_with_random_weights_has_no_errors(typed: Library):
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed")
    pytest.importorskip("gguf", reason="gguf is not installed")
    plans = drawn(by_llama("random", plan_grammar(typed, 3, 1)), 6, 12, typed)
    assert max(len(parse(plan).plan.steps) for plan in plans) == 3


@pytest.mark.parametrize(
    ("name", "room", "steps"),
    [
        ("core", 2900, 8),
        ("quality", 1050, 5),
        ("core", 450, 2),
        ("quality", 210, 1),
        ("typed", 450, 2),
    ],
)
def test_a_plan_has_room(name: str, room: int, steps: int, typed: Library):
    library = typed if name == "typed" else load_library(name)
    grammar = plan_grammar(library, room=room)
    assert grammar.longest <= room
    plans = drawn(sampler(grammar.lark), name, 12, library)
    assert max(map(len, plans)) <= grammar.longest
    if name != "typed":
        assert f"{steps}. " in grammar.lark
        assert f"{steps + 1}. " not in grammar.lark
    assert step_grammar(library, NAMES, room=room + 50).longest <= room + 50


def test_the_longest_text_is_known():
    grammar = Grammar(
        (
            ("start", (("a", Symbol("b")), (Symbol("b"), Repeated((Symbol("b"), "-"), 3)))),
            ("b", ((), (Chars("a-z", 0, 4), '"'))),
        )
    )
    assert grammar.longest == 5 + 3 * 6
    assert takes(matcher_of(grammar.lark), 'aaaa"' + 'aaaa"-' * 3)


def test_a_random_plan_of_the_gbnf_form_has_no_errors(typed: Library):
    from llguidance.gbnf_to_lark import gbnf_to_lark

    grammar = plan_grammar(typed, 4, 2)
    assert grammar.ebnf == grammar.gbnf
    drawn(sampler(gbnf_to_lark(grammar.gbnf)), 4, 30, typed)


def test_a_random_step_goes_on_with_its_plan(typed: Library):
    before = (
        'text = WHEN(CTX, "x", true)\npeople = LIST_PEOPLE(CTX, "y")\n'
        "ages = IS_SO(CTX, each people)\nwhat = PICK(CTX, text, 2)\nso = IS_SO(CTX, what)\n"
        'nina_3 = LIST_PEOPLE(CTX, "z")\n'
    )
    assert errors(before, typed) == []
    sample, dice = sampler(step_grammar(typed, NAMES).lark), random.Random(5)
    steps = [sample(dice) for _ in range(60)]
    for step in steps:
        assert errors(before + step, typed) == [], step
    assert any("each values ages" in step for step in steps)
    assert any("where people" in step or "where nina_3" in step for step in steps)


def test_a_step_takes_what_its_examples_take():
    start = matcher_of(step_grammar(load_library("letters_by_example"), {"word": "text"}).lark)
    for step in ('a = SPLIT(word, "")', 'a = SPLIT("Emmy Noether", " ")', "a = ITEM(word, 4)"):
        assert takes(start, step)


def test_a_step_calls_an_action_or_returns_what_there_is(typed: Library):
    start = matcher_of(step_grammar(typed, NAMES).lark)
    assert takes(start, "return nina_3")
    assert takes(start, "a = IS_SO(CTX, text)")
    assert not takes(matcher_of(step_grammar(typed, {}).lark), "return text")


@pytest.mark.parametrize(
    "plan",
    [
        '1. who = FIND_CHARACTER(CTX, "Ro\'s mother") : Find who she is (in "part" one)\n',
        '1. a = UNIQUE(["Ro", "Mara"])\n2. b = FIND_CHARACTER(CTX, each #1)\n3. c = VALUES(#2)\n',
        '1. a = UNIQUE(["Ro"])\n2. b = COMPREHEND(CTX, "is {where #1} a sailor?")\nreturn #2\n',
        '1. a = SUMMARIZE(CTX)\n2. b = FIND_RELATION(CTX, "{#1} of {#1}", [#1, "Ro"])\n',
        '1. a = SUMMARIZE(CTX)\n2. b = FIND_CHARACTER(CTX, "Ross’s 3 sisters (1984)")',
        '1. a = SUMMARIZE_X(CTX, "3 sailors") : who\n2. b = COUNT(evidence #1)\nreturn #2',
        '1. a = SUMMARIZE(CTX)\n2. b = COMPREHEND(CTX, "what {evidence #1} says")\n',
        '1. truely = SUMMARIZE(CTX)\n2. returned = CONCAT("x", #1, #1) : 莎士比亚\n',
    ],
)
def test_it_admits(plan: str):
    library = load_library("core")
    assert takes(matcher_of(plan_grammar(library).lark), plan)
    assert errors(plan, library) == []


@pytest.mark.parametrize(
    "plan",
    [
        "1. a = FIND_CHARACTER(CTX, #1)\n",
        '1. a = FIND_CHARACTER(CTX, "")\n',
        '1. a = FIND_CHARACTER(CTX, "1")\n',
        '1. a = FIND_CHARACTER(CTX, "a")\n',
        '1. a = FIND_CHARACTER(CTX, "so ' + "so " * 60 + '")\n',
        "1. a = FIND_CHARACTER(CTX, 1)\n",
        "1. a = FIND_CHARACTER(CTX, [1, 2])\n",
        "1. a = FIND_CHARACTER(CTX, true)\n",
        '1. a = FIND_CHARACTER(CTX, ["Ro"])\n',
        "New actions:\n- None\n\n1. a = SUMMARIZE(CTX)\n",
        '1. a = FIND_CHARACTER(CTX, "x", "y")\n',
        "1. a = FIND_FATHER(CTX)\n",
        "1. a = SUMMARIZE(CTX)\n2. b = FLAT(#1)\n",
        "1. a = SUMMARIZE(CTX)\n2. b = FIND_CHARACTER(CTX, each #1)\n",
        "1. a = SUMMARIZE(CTX)\n2. b = KEYS([1])\n",
        "1. true = SUMMARIZE(CTX)\n",
        "1. a = SUMMARIZE(CTX)\nreturn #2\n",
        "1. a = SUMMARIZE(CTX) : b = SUMMARIZE(CTX)\n",
        "1. a = SUMMARIZE(CTX)\n2. b = SUMMARIZE(CTX)\n3. c = SUMMARIZE(CTX)\n",
        "2. a = SUMMARIZE(CTX)\n",
        "1. a = PARTS(CTX, 3)\n",
    ],
)
def test_it_does_not_admit(plan: str):
    assert not takes(matcher_of(plan_grammar(load_library("core"), 2).lark), plan)


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        ("COUNT(1)", False),
        ('COUNT("Ro and Mara")', False),
        ('COUNT(["Ro", "Mara"])', True),
        ("HALVES(2)", False),
        ("ITEM(1, 2)", False),
        ('ITEM("Mara", true)', False),
        ('ITEM("Mara", "last")', True),
        ('ITEM(["Mara"], 1)', True),
        ('ITEM(["Mara"], 0)', False),
        ('ITEM(["Mara"], "first")', False),
        ('ITEM(["Mara"], 2.5)', False),
        ('ITEM(["Mara"], 10000)', False),
        ('JOIN("Mara", "-")', False),
    ],
)
def test_a_builtin_takes_what_it_can_work_on(call: str, fits: bool):
    library = load_library("lists")
    plan = f"1. a = {call}\n"
    assert errors(plan, library) == ([] if fits else ["PRL303"])
    assert takes(matcher_of(plan_grammar(library, 1).lark), plan) is fits


def test_one_of_several_documents_stands_in_quotes():
    name = 'a "b" {c}.pdf'
    library = load_library("core", "quality")
    several = matcher_of(plan_grammar(library, 2, sources=(f"CTX.{name}", "CTX.lease")).lark)
    alone = matcher_of(plan_grammar(library, 2).lark)
    for document in ('"CTX.lease"', print_value(f"CTX.{name}"), "CTX"):
        plan = f'1. a = FIND_EVENT({document}, "the sale") : Find it\n'
        assert errors(plan, library) == []
        assert takes(several, plan)
        assert takes(alone, plan) is (document == "CTX")
    for document in ("CTX.lease", '"CTX.will"', '"lease"'):
        assert not takes(several, f'1. a = FIND_EVENT({document}, "the sale") : Find it\n')
    bare = check(parse('1. a = FIND_EVENT(CTX.lease.pdf, "x") : Find it\n'), library)
    assert [one.code for one in bare] == ["PRL120"]
    assert bare[0].help.endswith('One of several documents stands in quotes: "CTX.lease.pdf".')


def test_a_grammar_with_new_actions_takes_a_plan_that_has_none():
    start = matcher_of(plan_grammar(load_library("core"), new_actions=1).lark)
    head, step = "New actions:\n- {}\n\n", "1. a = {}(CTX, 'the sale')".replace("'", '"')
    assert takes(start, head.format("None") + step.format("FIND_EVENT"))
    assert takes(start, head.format("NEW_1(CTX, X) : what X costs") + step.format("NEW_1"))
    assert not takes(start, head.format("None") + step.format("NEW_1"))


@pytest.mark.parametrize(("text", "before", "printed"), [
    # Names that repeat are numbered, and a number counts as it is written.
    ('1. a = F(CTX)\n2. a = F(#1)\n3. a_2 = G(#2, "{#1}")\n4. a = H(#3)\n', (),
     '1. a = F(CTX)\n2. a_3 = F(a)\n3. a_2 = G(a_3, "{a}")\n4. a_4 = H(a_2)\n'),
    ("ross = F(#1, ross)", ("ross", "mara"), "1. ross_2 = F(ross, ross)\n"),
    ("0. a = F(CTX)\n1. b = G(#0)\n2. c = H(#1)\n", (),
     "1. a = F(CTX)\n2. b = G(a)\n3. c = H(b)\n"),
    ("1. c = F(#1, #2)", ("a", "b"), "1. c = F(a, b)\n"),
])  # fmt: skip
def test_what_a_reference_by_number_means(text: str, before: tuple[str, ...], printed: str):
    assert print_plan(parse(text, before=before).plan) == printed


def test_grammars_are_values(typed: Library):
    one, same, other = (plan_grammar(typed, steps) for steps in (2, 2, 3))
    assert one == same != other
    assert hash(one) == hash(same)
    with pytest.raises(InputError, match="at least one step"):
        plan_grammar(typed, 0)
    with pytest.raises(InputError, match="no action"):
        plan_grammar(Library((), {}))
    with pytest.raises(InputError, match="no action"):
        step_grammar(Library((), {}), {})


@pytest.mark.parametrize("form", ["lark", "gbnf", "ebnf"])
def test_the_command_prints_a_form(form: str):
    options = ("--library", "core", "--steps", "3", "--new-actions", "1", "--form", form)
    expected = getattr(plan_grammar(load_library("core"), 3, 1), form)
    assert call("grammar", *options).out == expected
    printed = call("grammar", *options, "--json").json
    assert printed == {"form": form, "steps": 3, "new_actions": 1, "grammar": expected}


@pytest.mark.skipif(not RECORDED.exists(), reason="GPT-4's recorded plans are not here")
def test_recorded_plans_are_admitted():
    library = load_library(str(MINED))
    assert numbered(parse("1. a = F(CTX)\n2. b = G(a)").plan, library) == (
        "1. a = F(CTX)\n2. b = G(#1)\n"
    )
    rows = list(recorded(RECORDED, library, every=12))
    assert len(rows) > 50
    assert sum(admitted for admitted, _ in rows) > 0.95 * len(rows)
