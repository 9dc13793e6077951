"""Every rule does what its documentation says."""

from pathlib import Path

import pytest

import pearl
from pearl.lang.diagnostics import Diagnostic, Safety, apply_fixes, errors_of
from pearl.lang.library import builtins, load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.rewriting import migrate
from pearl.lang.source import Source
from pearl.lint.checker import DEFAULT, Selection, check, check_library, fix
from pearl.lint.rules import RULES
from pearl.lint.rules.base import Rule
from pearl.retrieval import converters
from pearl.strategies.preparation import prepare_plan
from tests.conftest import library_of
from tests.growth import assert_linear
from tests.shell import call

SECTIONS = ("What it does", "Why", "Example", "Use instead", "Fix")
SAFE_FIX = frozenset(
    "PRL103 PRL107 PRL111 PRL112 PRL116 PRL117 PRL120 PRL121 PRL201 PRL202 PRL211 PRL404".split()
)
UNSAFE_FIX = frozenset(
    "PRL104 PRL107 PRL108 PRL109 PRL120 PRL122 PRL202 PRL203 PRL209 PRL210 PRL212 "
    "PRL402 PRL407 PRL408".split()
)
BY_RULE = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)

LIBRARY = load_library()


def findings(rule: Rule, text: str) -> list[Diagnostic]:
    """What is said of a text, with this rule on."""
    source = Source("x", text)
    if rule.library:
        return check_library(source)
    everything = Selection(select=("PRL",))
    return check(parse(source), LIBRARY, everything)


def codes(found: list[Diagnostic]) -> set[str]:
    return {one.code for one in found}


@BY_RULE
def test_the_documentation_is_whole_and_its_examples_true(rule: Rule) -> None:
    assert rule.doc.strip().splitlines()[0].endswith(".")
    assert all(map(rule.section, SECTIONS))
    found = [one for one in findings(rule, rule.section("Example")) if one.code == rule.code]
    assert found
    for one in found:
        assert (one.name, one.severity, one.message[-1]) == (rule.name, rule.severity, ".")
    better = findings(rule, rule.section("Use instead"))
    assert rule.code not in codes(better)
    assert not errors_of(better)
    reads = rule.code[3] == "1" and rule.code not in ("PRL107", "PRL115")
    assert bool(rule.explain) == (reads or rule.code in ("PRL209", "PRL210"))
    assert rule.explain or rule.plan or rule.library


@BY_RULE
def test_the_fix_is_as_documented(rule: Rule) -> None:
    said = rule.section("Fix")
    fixes = [one.fix for one in findings(rule, rule.section("Example")) if one.code == rule.code]
    safeties = {one.safety for one in fixes if one}
    assert ("Safe" in said) == (rule.code in SAFE_FIX), said
    assert ("nsafe" in said) == (rule.code in UNSAFE_FIX), said
    if said.startswith("None"):
        assert not safeties
    elif rule.code not in SAFE_FIX:
        assert safeties == {Safety.UNSAFE}
    elif rule.code not in UNSAFE_FIX:
        assert safeties <= {Safety.SAFE}


@pytest.mark.parametrize(
    "rule",
    [rule for rule in RULES if rule.code in SAFE_FIX - {"PRL111", "PRL120", "PRL201", "PRL202"}],
    ids=lambda rule: rule.code,
)
def test_a_safe_fix_mends_the_example(rule: Rule) -> None:
    text = rule.section("Example")
    fixed = fix(Source("x", text), LIBRARY)
    assert rule.code not in codes(findings(rule, fixed.text))


NONE_OF_LIST = 'an action that you declare under "New actions:" with "-> list".'


@pytest.mark.parametrize(
    ("call", "lists", "help"),
    [
        ("B(CTX, each a)", False, f"Write a without each, or make it a step of {NONE_OF_LIST}"),
        ("B(CTX, each a)", True,
         "Write a without each, or make it a step of an action that returns list."),
        ("B(CTX, each values a)", False,
         "Write a without each values, or make it a step with each."),
        ("B(each CTX, a)", False, "Write CTX without each; several documents are listed by "),
        ("COUNT(a)", False, f"Give COUNT a step of {NONE_OF_LIST}"),
        ("KEYS(a)", False, "Give KEYS a step with each."),
        ("N(CTX, where l)", False,
         f"Filter in a step of its own, by {NONE_OF_LIST.replace('list', 'bool')}"),
    ],
)  # fmt: skip
def test_an_action_of_a_type_is_advised_where_there_is_one(call: str, lists: bool, help: str):
    own = "B(CTX, X) : b X\nN(CTX, X) -> number : n X\n" + "L(CTX, X) -> list : l X\n" * lists
    library = library_of(own, builtins())
    text = f'a = B(CTX, "x") : it\nl = DOCUMENTS(CTX) : all\nb = {call} : it\nreturn a, l, b'
    [found] = check(parse(text), library)
    assert found.help.startswith(help)


def test_codes_and_names_are_unique() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


# -- a few that the examples leave open


@pytest.mark.parametrize(("text", "code", "place", "help"), [
    ("1. a = FIND_EVENT(CTX, b) : x\n2. b = FIND_REASON(CTX, a) : y", "PRL204", "b",
     "Step 2 needs step 1, too: let one do without the other."),
    # Words that are one name as well as two are not guessed.
    ('1. a = FIND_EVENT(CTX, "x")\n2. b = FIND_EVENT(CTX, a)\n3. a_b = CONCAT(a, b)\n'
     "4. c = CONCAT(a b, a_b)\n", "PRL109", "a b", 'Closest: a_b. Put "," between them.'),
    ('1. a = FIND_EVENT(CTX, "x") : y\n2. b = FIND_EVENT(CTX, [CTX, a]) : z\n', "PRL212", "CTX, a]",
     "Give CTX as an argument of its own."),
])  # fmt: skip
def test_what_is_told_and_not_fixed(text: str, code: str, place: str, help: str):
    [found] = check(parse(text), LIBRARY)
    assert (found.code, found.help, found.fix) == (code, help, None)
    assert text[found.span.start :].startswith(place)


def said(text: str, selection: Selection = DEFAULT) -> list[str]:
    return [one.code for one in check(parse(text), LIBRARY, selection)]


TWO = '1. a = FIND_CHARACTER(CTX, "Ross") : x{}\n2. b = FIND_CHARACTER(CTX, "Mara") : y\n'
CHAIN = TWO.format("").replace("2. b", "2. view = FIND_REASON(CTX, a)\n3. b")
DECLARED = 'New actions:\n- {} : {}\n\n1. a = FIND_EVENT(CTX, "the fire") : Find it\n'
PARTED = 'a_part = FIND_CHARACTER(CTX, "Ross")\n1. a = FIND_OPINION(CTX, a_part, "y") : z\n'
KNOWN = LIBRARY.actions["FIND_EVENT"]


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (TWO.format(""), ["PRL401"]),
        (PARTED, []),
        (TWO.format("  # noqa"), []),
        (TWO.format("  # noqa: PRL401"), []),
        (TWO.format("  # NOQA: PRL402, PRL401"), []),
        (TWO.format("  # noqa: PRL402"), ["PRL401"]),
        # A line that cannot be read is not hidden.
        ('1. a = FIND_CHARACTER(CTX "Ross") : x  # noqa\n', ["PRL109"]),
        # A quote that is missing at the end is no cut, and a colon no missing parenthesis.
        ('1. a = FIND_CHARACTER(CTX, "Ross)\n', ["PRL102"]),
        ("1. a = FIND_CHARACTER(CTX, 12:30) : Identify him\n", ["PRL122"]),
        ('1. a = FIND_CHARACTER(CTX, "a": b) : Identify him\n', ["PRL101"]),
        ("1. a = FIND_CHARACTER(CTX, CTX # why\n, x) : Identify him\n", ["PRL101"]),
        # A step may be called by its number, and one that is not there is told once.
        (TWO.format("").replace("a =", "step_1 =").replace('"Mara"', '"his {step_1}"'), []),
        (TWO.format("").replace('"Mara"', '"his {step_1}"'), ["PRL401", "PRL209"]),
        # A slip of the pen is told where it is, and not where its name goes unused.
        (TWO.format("").replace("a =", "avail =").replace('"Mara"', "avial"), ["PRL202"]),
        (TWO.format("").replace("a =", "fee =").replace('"Mara"', "fe"), ["PRL202"]),
        (TWO.format("").replace("a =", "parties =").replace('"Mara"', "party"), ["PRL202"]),
        (TWO.format("").replace("a =", "duties =").replace('"Mara"', "each dutys"), ["PRL202"]),
        (TWO.format("").replace("a =", "tenants =").replace('"Mara"', '"{tennant}"'), ["PRL209"]),
        (f"{CHAIN}4. c = CONCAT(b, veiw)\nreturn c", ["PRL202"]),
        (f"{CHAIN}4. c = CONCAT(b, zebra)\nreturn c", ["PRL401", "PRL401", "PRL202"]),
        # What a line without a name gives is not missed where it is used.
        ('1. FIND_EVENT(CTX, "x")\n2. b = FIND_REASON(CTX, #1) : z', ["PRL105"]),
        ('1. FIND_EVENT(CTX, "x")\n2. b = FIND_EVENT(CTX, "the {#1}") : z', ["PRL105"]),
        (TWO.format("") + '5. EVENT(CTX)\n6. c = FIND_EVENT(CTX, "{#5}, {a}, {b}")', ["PRL105"]),
        (TWO.format("") + "3. EVENT(CTX)\n4. c = CONCAT(#2, #5, a)", ["PRL105", "PRL202"]),
        # The document is given once, to what takes it; to another action as any value is.
        ("1. a = FIND_EVENT(CTX, CTX)\n", ["PRL212"]),
        ('1. a = CONCAT(CTX, "the end")\n', []),
        ('1. my b = FIND_EVENT(CTX, "x") : y\n2. b = FIND_REASON(CTX, my_b) : {my_b}', ["PRL111"]),
        # A declaration identical to the library's is no finding.
        (DECLARED.format(KNOWN.signature, KNOWN.doc), []),
        (DECLARED.format(KNOWN.signature, f"{KNOWN.doc} And when."), ["PRL208"]),
        (DECLARED.format(f"{KNOWN.signature} -> list", KNOWN.doc), ["PRL208"]),
        (DECLARED.format("FIND_EVENT(CTX, Y)", KNOWN.doc), ["PRL208"]),
    ],
)
def test_what_is_found(text: str, codes: list[str]) -> None:
    assert said(text) == codes


def test_a_text_that_is_cut_is_told_so() -> None:
    (cut,) = check(parse('1. a = FIND_CHARACTER(CTX, "Ross and'), LIBRARY)
    assert (cut.code, cut.message) == ("PRL106", "The last line stops in the middle of a text.")
    assert cut.help.startswith("Close the text")
    for text, help in (
        ('CTX, "Ross"', 'Add ")" if the call ends here; '),
        ("CTX,", "Write this"),
        ("CTX, where", "Write this"),
    ):
        (cut,) = check(parse(f"1. a = FIND_CHARACTER({text}"), LIBRARY)
        assert (cut.code, cut.help[: len(help)], cut.fix) == ("PRL106", help, None)


@pytest.mark.parametrize("below", [
    ', "x") : y', ", 'x' : y", 'and "x") : y', '# more of it\n, "x") : y', "，\"x\"）: y",
])  # fmt: skip
@pytest.mark.parametrize("action", ["FIND_REASON(CTX, ", "CONCAT("])
def test_a_call_is_not_closed_before_the_rest_of_it(action: str, below: str) -> None:
    line = f'1. a = {action}"Ross"'
    fixed = fix(Source("x", f"{line}\n\n{below}\n2. b = FIND_REASON(CTX, a) : z\n"), LIBRARY).text
    assert fixed.startswith(f"{line}\n")
    assert "PRL103" in said(fixed)
    # A number is no part of the call.
    text = f"{line}\n\n2) b = FIND_REASON(CTX, a) : z\n{below}\n"
    assert fix(Source("x", text), LIBRARY).text.startswith(f"{line})\n")


def test_a_slip_of_the_pen_is_told_the_name_first() -> None:
    text = '1. clear = FIND_CHARACTER(CTX, "Ross")\n2. b = FIND_REASON(CTX, {})\n'
    (slip,) = check(parse(text.format("celar")), LIBRARY, Selection(("PRL202",)))
    assert slip.help == "Closest: clear. Defined: CTX, clear."
    assert slip.fix
    assert slip.fix.edits[0].text == "clear"
    (other,) = check(parse(text.format("cellar")), LIBRARY, Selection(("PRL202",)))
    assert other.help.startswith("Closest: ") is False
    assert other.fix
    assert other.fix.edits[0].text == '"cellar"'


def test_a_rule_that_is_off_speaks_when_selected() -> None:
    rule = next(rule for rule in RULES if rule.code == "PRL407")
    assert not rule.enabled
    parsed = parse(rule.section("Example"))
    assert "PRL407" not in codes(check(parsed, LIBRARY))
    assert "PRL407" in codes(check(parsed, LIBRARY, Selection(select=("PRL407",))))


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        # A parenthesis is put where the call ends, and a second step gets its own line.
        ('1. a = FIND_CHARACTER(CTX, "Ross" : Identify him (the cook)\n',
         '1. a = FIND_CHARACTER(CTX, "Ross") : Identify him (the cook)\n'),
        ('1. a = FIND_CHARACTER(CTX, "Ross") : x 2. b = FIND_OPINION(CTX, a, "y") : z',
         '1. a = FIND_CHARACTER(CTX, "Ross") : x\n2. b = FIND_OPINION(CTX, a, "y") : z'),
        # What is set aside keeps its words, on lines of their own; marks alone go.
        ("Now: look\n```\n1. a = FIND_CHARACTER(CTX)\n---\nThe end.\n",
         "# Now: look\n\n1. a = FIND_CHARACTER(CTX)\n\n# The end.\n"),
        ("<think>First.\nThen.</think>1. a = FIND_CHARACTER(CTX)\n",
         "# First.\n# Then.\n1. a = FIND_CHARACTER(CTX)\n"),
        ("<think>\n</think>1. a = FIND_CHARACTER(CTX)\n", "1. a = FIND_CHARACTER(CTX)\n"),
        # A line that ends before its parenthesis gets one, unless an argument is missing, too.
        ('1. a = FIND_CHARACTER(CTX, "Ross"  \nreturn a\n',
         '1. a = FIND_CHARACTER(CTX, "Ross")  \nreturn a\n'),
        ("1. a = FIND_CHARACTER(CTX,\nreturn a\n", ""),
        ("1. a = FIND_CHARACTER(CTX, each\nreturn a\n", ""),
        ("1. a = FIND_CHARACTER(CTX, each  values : Find him\nreturn a\n", ""),
        ('1. each = FIND_ALL(CTX, "x")\n2. b = FIND_REASON(CTX, each\nreturn b\n',
         '1. each = FIND_ALL(CTX, "x")\n2. b = FIND_REASON(CTX, each)\nreturn b\n'),
        # Behind a space, a colon begins the note: it names no step.
        ('1. him = FIND_ALL(CTX, "x")\n2. b = FIND_REASON(CTX, each : him\nreturn b\n', ""),
        ('1. him = FIND_ALL(CTX, "x")\n2. b = FIND_REASON(CTX, each: him)\nreturn b\n',
         '1. him = FIND_ALL(CTX, "x")\n2. b = FIND_REASON(CTX, each him)\nreturn b\n'),
        # A mode before a text is put where the text names a step, and one only.
        ('1. a = FIND_ALL(CTX, "x")\n2. b = FIND_REASON(CTX, each "why, {a}")\n',
         '1. a = FIND_ALL(CTX, "x")\n2. b = FIND_REASON(CTX, "why, {each a}")\n'),
        ('1. a = FIND_ALL(CTX, "x")\n2. b = FIND_REASON(CTX, where "{a} of {CTX}")\n', ""),
        # What may be wrong is not taken.
        ("1. a = FIND_CHARACTER(CTX, Brown) : x\n", ""),
        # A part of a step is no call.
        ('1. a = FIND_ALL(CTX, "x")\n2. b = a[0]\n', ""),
    ],
)  # fmt: skip
def test_a_safe_fix(text: str, fixed: str) -> None:
    """Where nothing stands for what is fixed, the text stays as it is."""
    assert fix(Source("x", text), LIBRARY).text == (fixed or text)


ITEMS = 'p = FIND_ALL(CTX, "people") : list\n'


@pytest.mark.parametrize(("text", "fixed"), [
    ('1. a = FIND_OPINION(CTX, FIND_CHARACTER(CTX, "Ross"), "y") : z\n',
     PARTED),
    # What a nested call gives for an item stays beside the item.
    (f'{ITEMS}a = FIND_OPINION(CTX, FIND_TRAIT(CTX, each p), "on {{each p}}, not each p (") : z\n',
     f"{ITEMS}a_part = FIND_TRAIT(CTX, each p)\n"
     'a = FIND_OPINION(CTX, each values a_part, "on {each a_part}, not each p (") : z\n'),
    (f'{ITEMS}a = FIND_OPINION(CTX, "each p", FIND_TRAIT(CTX, each p)) : z\n',
     f'{ITEMS}a_part = FIND_TRAIT(CTX, each p)\na = FIND_OPINION(CTX, "each p", a_part) : z\n'),
    (f"{ITEMS}a = FIND_OPINION(CTX, each p, FIND_TRAIT(CTX, where p)) : z\n", ""),
    (f"{ITEMS}a = FIND_OPINION(CTX, each p, FIND_OPINION(CTX, FIND_TRAIT(CTX, each p), q)) : z\n",
     ""),
    # A name before an argument is taken out whole, where it says what its place does.
    ('a = FIND_EVENT(CTX, my\\_arg="x") : find\n', 'a = FIND_EVENT(CTX, "x") : find\n'),
    ('1. a = FIND_RELATION(CTX, Y="Mara", X="Jon") : one\n', ""),
    ('1. a = FIND_RELATION(X="Jon", Y="Mara", CTX=CTX) : one\n', ""),
    ('1. a = FIND_RELATION(CTX=CTX, X="Jon", Y="Mara") : one\n',
     '1. a = FIND_RELATION(CTX, "Jon", "Mara") : one\n'),
    ("1. a = FIND_CHARACTER(CTX, Brown) : x\n", '1. a = FIND_CHARACTER(CTX, "Brown") : x\n'),
    # The document goes to its place, and the others keep their order.
    ('1. a = FIND_RELATION("Jon", "Mara", CTX) : one\n',
     '1. a = FIND_RELATION(CTX, "Jon", "Mara") : one\n'),
    # A step whose name is several words is the one that others name in one.
    ('1. the boat = FIND_EVENT(CTX, "x") : one\n2. b = FIND_REASON(CTX, the_boat) : {the_boat}',
     ""),
])  # fmt: skip
def test_an_unsafe_fix(text: str, fixed: str) -> None:
    """As `test_a_safe_fix`."""
    assert fix(Source("x", text), LIBRARY, unsafe=True).text == (fixed or text)


def test_a_line_is_mended_whatever_it_is_then_found_to_have() -> None:
    line = "2. why = FIND_RESON(CTX, who, nonsense : Find why"
    text = f'1. who = FIND_CHARACTER(CTX, "Mara")\n{line}\n'
    assert said(text) == ["PRL103"]
    fixed = fix(Source("x", text), LIBRARY).text
    assert fixed == text.replace(" : Find", ") : Find")
    assert {*said(fixed)} == {"PRL201", "PRL202"}


@pytest.mark.parametrize(
    "text",
    ["a = FIND_REASON(CTX) b) : Find why\n", 'a = FIND_EVENT(FIND_EVENT(CTX, "it") : Find it\n'],
)
def test_no_fix_is_promised_where_a_bracket_says_that_more_is_wrong(text: str) -> None:
    found = [one for one in check(parse(text), LIBRARY) if one.code in ("PRL104", "PRL112")]
    assert [one.fix for one in found] == [None]
    assert fix(Source("x", text), LIBRARY, unsafe=True).text == text


def test_a_long_list_of_names_is_cut() -> None:
    steps = "".join(f'{n}. a{n} = FIND_EVENT(CTX, "{n}")\n' for n in range(100))
    found = check(parse(steps + "last = FIND_EVENT(CTX, b)\n"), LIBRARY)
    undefined = next(one for one in found if one.code == "PRL202")
    assert len(undefined.help) < 400


def test_all_of_a_few_actions_are_named_where_none_is_close() -> None:
    text = "A_ONE(CTX, X) : See X in CTX.\nTWO(X) : See X.\nREST() : x\n  traits: unlisted\n"
    [found] = check(parse("1. a = FIND_RELATIN(CTX)\n"), library_of(text, builtins()))
    assert found.help == (
        "None is close to it: use another, as A_ONE(CTX, X); TWO(X), or declare yours under "
        '"New actions:".'
    )
    assert found.data["candidates"] == []


@pytest.mark.parametrize(
    ("called", "others", "help"),
    [
        ("FIND_YEAST", "", "None is close to it: use another, or define it in the library."),
        ("BAKE_TWCE", "", "None is close to it: use another, or define it in the library."),
        ("FIND_YEAST", "SEE(X) : See X.\n", "None is close to it: use another, as SEE(X), or def"),
        ("BAKE_ONCE", "BAKE_ONE(X) : Bake X.\n", "Closest: BAKE_ONE(X). Use one, or define it"),
        ("BAKE_ONCE", "BAKE_ONE(X) : X.\n  plan:\n    1. a = BAKE_TWICE(X, X)\n", "None is close"),
    ],
)
def test_an_action_s_plan_is_not_told_to_come_back_to_it(called: str, others: str, help: str):
    plan = f"BAKE_TWICE(CTX, X) : Bake X.\n  plan:\n    1. a = {called}(CTX, X) : Find it\n"
    told = check_library(Source("x", others + plan))
    assert next(one.help for one in told if one.code == "PRL201").startswith(help)


def test_suggestions_are_few() -> None:
    found = check(parse("1. a = FIND_RELATIN(CTX, CTX, CTX)\n"), LIBRARY)
    unknown = next(one for one in found if one.code == "PRL201")
    assert 1 <= len(unknown.data["candidates"]) <= 4
    assert "FIND_RELATION(CTX, X, Y)" in unknown.data["candidates"]


@pytest.mark.parametrize(
    ("count", "fits"), [(0, False), (1, False), (2, True), (3, True), (5, True)]
)
def test_what_may_repeat_may_also_be_absent_but_nothing_else(count: int, fits: bool):
    text = "LOOK(CTX, X, MORE, ...) : Look for X in CTX; MORE says where.\n  aliases: SEEK\n"
    given = ", ".join(["CTX", '"a"', '"b"', '"c"', '"d"'][:count])
    actions = library_of(text)
    text += f"  replaces: OLD(CTX) = ({given})\n"
    assert ("PRL505" in codes(check_library(Source("x", text)))) != fits
    plan = f"1. a = LOOK({given}) : look\n"
    assert ("PRL203" in codes(check(parse(plan), actions))) != fits
    assert (not migrate(plan.replace("LOOK", "SEEK"), actions).problems) == fits


@pytest.mark.parametrize(
    ("declared", "clash"), [("X: list", False), ("X", True), ("X: text", True)]
)
def test_a_declaration_that_says_the_same_is_none_of_another(declared: str, clash: bool):
    said = "GET({}) : Get what X says.\n"
    plan = f'New actions:\n- {said.format(declared)}\n1. a = GET(["b"]) : get it\n'
    found = check(parse(plan), library_of(said.format("X: list")))
    assert ("PRL208" in codes(found)) == clash


def test_a_part_of_a_step_is_told_alike_in_a_text_and_outside():
    text = '1. a = FIND_ALL(CTX, "x")\n2. b = FIND_REASON(CTX, a[0])\n'
    text += '3. c = FIND_REASON(CTX, "the first, {a.first()}")\n'
    whole = "for the whole, or find the part in a step of its own."
    assert [(one.code, one.message, one.help) for one in check(parse(text), LIBRARY)] == [
        ("PRL120", "a[0] names a part of a.", f"Write a {whole}"),
        ("PRL209", "{a.first()} names a part of a.", f"Write {{a}} {whole}"),
    ]


STEPS = '1. event = FIND_EVENT(CTX, "x")\n2. why = FIND_REASON(CTX, event)\n3. '


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        # How a reference is taken stays as it is.
        ("b = FIND_REASON(CTX, evidence evnt)", "b = FIND_REASON(CTX, evidence event)"),
        ("b = FIND_REASON(CTX, each evnt)", "b = FIND_REASON(CTX, each event)"),
        ('b = FIND_EVENT(CTX, "for {evnt}")', 'b = FIND_EVENT(CTX, "for {event}")'),
        ('b = FIND_EVENT(CTX, "for {each evnt}")', 'b = FIND_EVENT(CTX, "for {each event}")'),
        # A mode may have a slip, too.
        ("b = FIND_REASON(CTX, eahc why)", "b = FIND_REASON(CTX, each why)"),
        ("b = FIND_REASON(CTX, whre why)", "b = FIND_REASON(CTX, where why)"),
        ("b = FIND_REASON(CTX, evidnce why)", "b = FIND_REASON(CTX, evidence why)"),
        ("b = FIND_REASON(CTX, <evnt>)", "b = FIND_REASON(CTX, event)"),
        ("b = FIND_REASON(evidence ctx, why)", "b = FIND_REASON(CTX, why)"),
        # A list has an end where it stands, whatever marks are in it.
        ('f_age = FIND_EVENT(CTX, why)\n4. b = FIND_RELATION(CTX, [f-age, "x"], why)',
         'f_age = FIND_EVENT(CTX, why)\n4. b = FIND_RELATION(CTX, [f_age, "x"], why)'),
        # A name that comes later is not offered, nor one that nothing is near.
        ('b = FIND_EVENT(CTX, "for {later}")\n4. latr = FIND_EVENT(CTX, "y")',
         'b = FIND_EVENT(CTX, "for \\{later}")\n4. latr = FIND_EVENT(CTX, "y")'),
        # A short word is a name where letters changed places; after return it can be no word.
        ("b = FIND_REASON(CTX, wyh)", "b = FIND_REASON(CTX, why)"),
        # What is close to several names, or a number of no step, is no word; names want a comma.
        ("a = FIND_EVENT(CTX, \"y\")\n4. b = FIND_REASON(CTX, aa)",
         "a = FIND_EVENT(CTX, \"y\")\n4. b = FIND_REASON(CTX, a)"),
        ("whys = FIND_EVENT(CTX, why)\n4. b = FIND_REASON(CTX, whyz)", ""),
        ('ro = FIND_ALL(CTX, "y")\n4. b = FIND_EVENT(each ros, "y")', ""),
        ('fee = FIND_EVENT(CTX, "y")\n4. b = FIND_REASON(CTX, fe)', ""),
        ('my-fee = FIND_EVENT(CTX, "y")\n4. b = FIND_REASON(CTX, my-fee)', ""),
        ('duties = FIND_EVENT(CTX, "y")\n4. b = FIND_REASON(CTX, duty)', ""),
        ('b = FIND_REASON(CTX, duty)\n4. duties = FIND_EVENT(CTX, "y")', ""),
        ('duties = FIND_EVENT(CTX, "y")\n4. b = FIND_EVENT(CTX, "the {duty}")', ""),
        ("2nd = FIND_EVENT(CTX, why)\n4. b = FIND_REASON(CTX, 2nd)", ""),
        ("2nd fee = FIND_EVENT(CTX, why)\n4. b = FIND_REASON(CTX, 2nd fee)", ""),
        ("b = FIND_REASON(CTX, 2nd fee : x", 'b = FIND_REASON(CTX, "2nd fee") : x'),
        ("b = FIND_REASON(CTX, #12)", ""),
        # What is made of names, or has a part of one, is no text.
        ("b = FIND_REASON(CTX, event or why)", ""),
        ("b = FIND_REASON(CTX, event AND why)", ""),
        ("b = FIND_REASON(CTX, all why)", ""),
        ('b = FIND_EVENT(CTX, "all {why.first}")', ""),
        ('b = FIND_EVENT(CTX, "{ why[0](2) }")', ""),
        ("b = FIND_REASON(CTX why)", "b = FIND_REASON(CTX, why)"),
        ("b = CONCAT(event why)", "b = CONCAT(event, why)"),
        ("b = CONCAT(evnt why)", ""),
        ("b = FIND_REASON(CTX, the storm : x", ""),
        ("b = FIND_REASON(CTX, the event)", ""),
        ("b = FIND_REASON(CTX, my evnt)", ""),
        ("b = FIND_REASON(CTX, event's cause)", ""),
        ("b = FIND_REASON(the document, why)", ""),
        ("b = FIND_REASON(CTX, the sea)", 'b = FIND_REASON(CTX, "the sea")'),
        # What names the document inside a text is none of a text.
        ('b = FIND_REASON("{ctx}", why)', "b = FIND_REASON(CTX, why)"),
        ('b = FIND_REASON("{document}", why)', "b = FIND_REASON(CTX, why)"),
        ('b = FIND_REASON(CTX, "of {CTX}")', ""),
        ("b = FIND_REASON(CTX, why), : x", "b = FIND_REASON(CTX, why) : x"),
        ("b = FIND_REASON(CTX, shy)", ""),
        ("b = FIND_REASON(CTX, sea)", 'b = FIND_REASON(CTX, "sea")'),
        # Of an action that nobody knows, the first argument may be the document.
        ("b = SAIL_HOME(document, why)", ""),
        ("b = SAIL_HOME(CTX, sea)", 'b = SAIL_HOME(CTX, "sea")'),
        # What no word is written like, as Pearl numbers names, is no text.
        ("b = FIND_REASON(CTX, ro_2)", ""),
        ("b = FIND_REASON(CTX, depositAmount)", ""),
        ("b = FIND_REASON(CTX, n)", ""),
        ("b = FIND_REASON(CTX, Ross)", 'b = FIND_REASON(CTX, "Ross")'),
        # Without some vowels, or in another order, it may be the name, and may not.
        ("captain = FIND_EVENT(CTX, why)\n4. b = FIND_REASON(CTX, captn)", ""),
        ('loss_boat = FIND_EVENT(CTX, why)\n4. b = FIND_EVENT(CTX, "{boat_loss}")', ""),
        ("loss_boat = FIND_EVENT(CTX, why)\n4. b = FIND_REASON(CTX, boat_loss)", ""),
        ("loss_boat = FIND_EVENT(CTX, why)\n4. b = FIND_REASON(CTX, boat loss)", ""),
        ("ro_to_di = FIND_EVENT(CTX, why)\n4. b = FIND_REASON(CTX, di_to_ro)", ""),
        ("martin = FIND_EVENT(CTX, why)\n4. b = FIND_REASON(CTX, main)",
         'martin = FIND_EVENT(CTX, why)\n4. b = FIND_REASON(CTX, "main")'),
        ("last = FIND_EVENT(CTX, why)\nreturn lst", "last = FIND_EVENT(CTX, why)\nreturn last"),
        ("more = FIND_EVENT(CTX, why)\nreturn mor", "more = FIND_EVENT(CTX, why)\nreturn more"),
        ("more = FIND_EVENT(CTX, why)\nreturn shy", ""),
        # The document is given to what reads it, and to nothing else.
        ("b = FIND_REASON(each why)", "b = FIND_REASON(CTX, each why)"),
        ("b = SUMMARIZE( )", "b = SUMMARIZE( CTX)"),
        ("b = COUNT(CTX,  [why])", "b = COUNT([why])"),
        ("b = FIND_RELATION(CTX, why)", ""),
        ("b = FIND_REASON(why, CTX)", "b = FIND_REASON(CTX, why)"),
        ('b = FIND_REASON("all {why}", CTX)', 'b = FIND_REASON(CTX, "all {why}")'),
    ],
)  # fmt: skip
def test_a_guess_at_a_name(line: str, fixed: str) -> None:
    """Where nothing stands for what is fixed, the line stays as it is."""
    rules = Selection(("PRL109", "PRL112", "PRL12", "PRL202", "PRL203", "PRL209", "PRL212"))
    text = fix(Source("x", f"{STEPS}{line}\n"), LIBRARY, rules, unsafe=True)
    assert text.text == f"{STEPS}{fixed or line}\n"


LISTING = "docs = DOCUMENTS(CTX) : List the documents\n"
LOOK = '1. a = FIND_EVENT({}, "x") : y\n2. b = FIND_REASON({}, a) : z\n'


@pytest.mark.parametrize(
    ("plan", "args", "fixed"),
    [
        (LOOK, ("CTX.lease", "CTX.a/b-1.pdf"), ('"CTX.lease"', '"CTX.a/b-1.pdf"')),
        (LOOK, ("CTX.find(1)", "CTX"), None),
        # A text is no document.
        (LOOK.replace("a)", "CTX.title)"), ("CTX", "CTX"), None),
        (f"{{}}{LOOK}", ("", "each document", "each documents"), (LISTING, *["each docs"] * 2)),
        (f"all = DOCUMENTS(CTX)\n{LOOK}", ("each document", "CTX"), ("each all", "CTX")),
        (f'docs = FIND_ALL(CTX, "x")\n{{}}{LOOK}', ("", "each document", "CTX"),
         (LISTING.replace("docs", "docs_2"), "each docs_2", "CTX")),
        # Another step would change what a number refers to.
        (f"{LOOK}3. c = CONCAT(#1, #2) : y\n", ("each document", "CTX"), None),
    ],
)  # fmt: skip
def test_how_a_plan_names_one_or_each_of_several_documents(
    plan: str, args: tuple[str, ...], fixed: tuple[str, ...] | None
):
    assert fix(Source("x", plan.format(*args)), LIBRARY).text == plan.format(*(fixed or args))
    told = check(parse(LOOK.format("each document", "each person")), LIBRARY)[0].help
    assert told == "Several documents are listed by docs = DOCUMENTS(CTX); here write each docs."


TWO_WORDS = '1. the_end = FIND_EVENT(CTX, "x") : y\n2. why = FIND_REASON(CTX, the_end) : z\n{}\n'


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("3. b = CONCAT({}, why) : z", ("the end", "the_end")),
        ("3. b = CONCAT({}, why) : z", ("the-end", "the_end")),
        ("3. b = CONCAT({}, why) : z", ("thee end", "the_end")),
        ("3. b = CONCAT({}, why) : z", ("the.end", "the_end")),
        ("3. b = CONCAT([{}, why]) : z", ("the end", "the_end")),
        ("3. b = FIND_REASON(CTX, {}) : z", ("evidence the end", "evidence the_end")),
        ('3. b = FIND_REASON(CTX, "of {} and {{why}}") : z', ("{the end}", "{the_end}")),
        ('3. b = FIND_REASON(CTX, "of {} and {{why}}") : z', ("{the-end}", "{the_end}")),
        ('3. b = FIND_REASON(CTX, "of {} and {{why}}") : z', ("{the.end}", "{the_end}")),
        ("{}", ("return the end", "return the_end")),
    ],
)
def test_words_that_together_are_a_name_become_that_name(line: str, fixed: tuple[str, str]):
    text, mended = (TWO_WORDS.format(line.format(each)) for each in fixed)
    [found] = check(parse(text), LIBRARY)
    assert found.help.startswith(("Closest: ", 'Write "return the_end"'))
    assert found.fix
    assert apply_fixes(text, [found.fix])[0] == mended
    assert found.fix.title == f"write {found.fix.edits[0].text}"
    assert fix(Source("x", text), LIBRARY).text == text
    assert fix(Source("x", text), LIBRARY, unsafe=True).text == mended
    assert not errors_of(check(parse(mended), LIBRARY))


def test_no_name_is_said_of_a_part_that_there_is_not():
    text = TWO_WORDS.format("3. b = CONCAT(the.rest, why) : z")
    [found] = check(parse(text), LIBRARY)
    assert found.message == "the.rest is no reference."
    assert found.help == "Write the name of the step that is meant."
    # Braces around other words, or that are escaped, are a text's own.
    for words in ("{the rest}", "\\{the end}", "{evidence the_end}", "{a the_end}"):
        line = f'3. b = FIND_REASON(CTX, "of {words} and {{why}}") : z'
        assert check(parse(TWO_WORDS.format(line)), LIBRARY) == []


REPLACING = """\
FIND_MOOR(CTX, X, Y) : Find how X bears on Y in CTX.
  aliases: FIND_MORE
  {line}
FIND_SOME(CTX, N: number, L: list) : Find N of L in CTX.
  {other}
"""


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ('OLD(CTX, A) = (CTX, A, "for {A}")', ""),
        ("OLD(D, A) = (D, A, A)", ""),
        # By the number of arguments, calls of the older one are told from those of the newer.
        ("FIND_SOME(CTX, A) = (CTX, A, A)", ""),
        ("FIND_MORE(CTX, A) = (CTX, A, A)", ""),
        ("COUNT(CTX, A) = (CTX, A, A)", ""),
        ("OLD(CTX, A, A) = (CTX, A, A)", "2 parameters of OLD are called A"),
        ("OLD(CTX, A) = (CTX, A, A)\n  replaces: OLD(CTX, B) = (CTX, B, B)",
         "2 of its lines replace OLD with 2 parameters"),
        ('OLD(CTX, A) = (A, CTX, "x")', "CTX does not stand where"),
        ("OLD(CTX, A) = (CTX, CTX, A)", "CTX for X as well"),
        ("OLD(CTX, A) = (CTX, [CTX], A)", "cannot stand in a list"),
        ('OLD(CTX, A) = (CTX, "{CTX}", A)', "CTX stands in a text"),
        ("CONCAT(A, B) = (CTX, A, B)", "CONCAT is a builtin"),
        ("FIND_SOME(CTX, A, B) = (CTX, B, A)", "as this library has it"),
        ("FIND_MORE(CTX, A, B) = (CTX, B, A)", "as aliases names it"),
    ],
)  # fmt: skip
def test_what_replaces_would_make_of_a_plan(line: str, wrong: str):
    text = REPLACING.format(line=f"replaces: {line}", other="traits: cacheable")
    found = check_library(Source("x", text))
    assert [(one.code, wrong in one.message) for one in found] == [("PRL505", True)] * bool(wrong)


@pytest.mark.parametrize(
    ("args", "wrong"),
    [
        ('CTX, 3, ["x", A]', ""),
        ("CTX, A, A", ""),
        ('CTX, "3", A', "takes number for N, and is given text"),
        ('CTX, A, "{A}"', "takes list for L, and is given text"),
    ],
)
def test_what_replaces_gives_is_of_the_type_that_is_taken(args: str, wrong: str):
    text = REPLACING.format(line="model: m", other=f"replaces: OLD(CTX, A) = ({args})")
    found = check_library(Source("x", text))
    assert [(one.code, wrong in one.message) for one in found] == [("PRL505", True)] * bool(wrong)
    # As lint has it of a plan after its migration.
    plan = migrate("1. a = FIND_ALL(CTX)\n2. b = OLD(CTX, a)\n", library_of(text)).text
    assert ("PRL303" in codes(check(parse(plan), library_of(text)))) == bool(wrong)


PLAN_BELOW = "  plan:\n    1. n = COUNT(X) : the number of X\n"
TYPES = "A type is one of any, text, "
WHOLE = "Write NAME(CTX, X) -> type : definition."


@pytest.mark.parametrize(
    ("text", "code", "place", "help"),
    [
        ("LOOK(CTX, X, ..., Y) : Look for X and Y in CTX.\n", "PRL505", "...", "Write LOOK("),
        # A type behind the colon is none of the output's.
        (f"COUNT_OF(CTX, X: list): number : Count X in CTX.\n{PLAN_BELOW}", "PRL505", "number",
         "Write COUNT_OF(CTX, X: list) -> number : definition."),
        # What only begins as a type is told which there are.
        ("GET(CTX, X) -> boolean : Get X.\n", "PRL118", "boolean", TYPES),
        ("GET(CTX, X: list[text]) : Get X.\n", "PRL118", "list[", TYPES),
        ("GET(CTX, X) -> integer : Get X.\n", "PRL118", "integer", TYPES),
        ("GET(CTX, X) -> text Get X.\n", "PRL118", "Get", WHOLE),
        ("GET(CTX, X: list; Y) : Get X, Y.\n", "PRL118", ";", WHOLE),
        # What an action is to be written as has its types.
        ("COUNT_OF(CTX, X: list) -> number\n", "PRL502", "COUNT_OF(CTX, X: list) -> number",
         "Write COUNT_OF(CTX, X: list) -> number : what it finds out."),
        # A parameter that is nearly the document.
        ("FIND_A(ctx, X) : Find X in ctx.\n", "PRL505", "FIND_A(ctx, X) : Find X in ctx.",
         "Write CTX."),
    ],
)  # fmt: skip
def test_what_is_found_in_a_library(text: str, code: str, place: str, help: str):
    source = Source("x", text)
    [found] = check_library(source)
    assert (found.code, source.at(found.span)) == (code, place)
    assert found.span.start == text.index(place)
    assert found.help.startswith(help)


@pytest.mark.parametrize(
    "text",
    [
        "LOOK(CTX, X, Y, …,) : Look for X and Y in CTX.\n",
        "COUNT_OF(CTX, X): number of X in CTX.\n",
        "COUNT_OF(CTX, X): X (in CTX): number: all.\n",
    ],
)
def test_what_is_fine_in_a_library(text: str):
    assert not check_library(Source("x", text))


def test_a_library_s_plans_call_its_own_actions_and_builtins():
    plan = "  plan:\n    1. a = FIND_REASON(CTX, X) : why\n    2. b = CONCAT(a, X) : both\n"
    [found] = check_library(Source("x", f"WHY(CTX, X) : Find why X in CTX.\n{plan}"))
    assert (found.code, found.help) == (
        "PRL201",
        "The library quality has it: name that too, as --library quality, or define it in the "
        "library.",
    )
    assert not check_library(Source("x", f"WHY(CTX, X) : Find why X in CTX.\n{plan}"), base=LIBRARY)
    # A builtin stays what it is in the plans, too.
    both = "CONCAT(CTX) : Join CTX.\nBOTH(X) : Join X.\n  plan:\n    1. a = CONCAT(X, X) : both\n"
    assert codes(check_library(Source("x", both))) == {"PRL501"}


HIDING = (
    '1. at = FIND_EVENT(CTX, "x") : a\n2. b = FIND_EVENT(CTX, "y {at}") : b\n'
    '3. eels = FIND_EVENT(CTX, "z") : c\nreturn e_ls\n'
)
"""What has no part in the answer shows once what is returned is known."""
HARMFUL = '1. a = FIND_EVENT(CTX, "x") : y\nc\n = CONCAT(a, a) : w\n'
"""Here the rule's own fix makes the text no better."""


def test_a_fix_is_taken_though_it_shows_what_an_error_hid() -> None:
    assert any(one.fix for one in pearl.check(HIDING, LIBRARY))
    left = pearl.check(pearl.fix(HIDING, LIBRARY, unsafe=True), LIBRARY)
    assert not errors_of(left)


def test_what_is_promised_is_taken() -> None:
    [promised] = check(parse(HARMFUL), LIBRARY)
    assert promised.fix
    assert pearl.fix(HARMFUL, LIBRARY, unsafe=True) == HARMFUL
    assert [one.fix for one in pearl.check(HARMFUL, LIBRARY)] == [None]
    with pytest.raises(pearl.RunError) as refused:
        prepare_plan(parse(HARMFUL), LIBRARY)
    assert [one.fix for one in refused.value.diagnostics] == [None]
    # Beside one that is taken, too.
    [left, taken] = pearl.check(f"{HARMFUL}3. e = FIND_REASON(ctx, a) : z\n", LIBRARY)
    assert left.fix is None
    assert taken.fix


def test_no_fix_is_promised_for_a_text_without_a_step():
    source = Source("x", "Sure, here is a plan.\n")
    assert {found.fix for found in check(parse(source.text), LIBRARY)} == {None}
    assert fix(source, LIBRARY).text == source.text


@pytest.mark.parametrize(
    ("written", "fixed"), [("bycicle", "bicycle"), ("bikicle", "bicycle"), ("the_bicycle", "")]
)
def test_what_is_a_slip_or_two_away_from_a_name_is_never_quoted(written: str, fixed: str):
    text = f'1. bicycle = FIND_EVENT(CTX, "it") : x\n2. a = FIND_REASON(CTX, {written}) : y\n'
    found = next(item for item in check(parse(text), LIBRARY) if item.code == "PRL202")
    assert found.help.startswith("Closest: bicycle.")
    assert (found.fix.edits[0].text if found.fix else "") == fixed


@pytest.mark.parametrize(
    ("name", "written"),
    [("res", "result"), ("evt", "events"), ("events", "evt"), ("captn", "captain"), ("ro", "or")],
)
def test_what_abbreviates_a_step_or_is_abbreviated_by_it_is_never_quoted(name: str, written: str):
    text = '1. {} = FIND_EVENT(CTX, "x") : Find it\n2. b = FIND_REASON(CTX, {}) : Find why\n'
    Path("x.plan").write_text(text.format(name, written))
    told = call("lint", "x.plan", "--unsafe-fixes")
    assert f"Closest: {name}. " in told.out
    assert Path("x.plan").read_text() == text.format(name, written)
    # What only has a name's letters in their order, and what only joins words, is a word.
    for other, word in (("ross", "relationships"), ("together", "to"), ("format", "for")):
        Path("x.plan").write_text(text.format(other, word))
        call("lint", "x.plan", "--unsafe-fixes")
        assert f'"{word}")' in Path("x.plan").read_text()


def test_a_step_s_own_number_is_what_a_reference_by_number_means():
    text = '1. a = FIND_EVENT(CTX, "x") : y\nc = FIND_EVENT(CTX, "r") : y\n'
    text += '2. d = FIND_EVENT(CTX, "o") : y\n3. e = CONCAT(#2, #1) : z\n'
    assert "CONCAT(d, a)" in print_plan(parse(text).plan)
    split = text.replace("\nc", " ; c")
    assert "CONCAT(d, a)" in print_plan(parse(fix(Source("p", split), LIBRARY)).plan)


def test_a_call_of_no_action_in_a_line_that_cannot_be_read_is_told():
    lines = (
        'FIND_EVENT(CTX, FIND_FOO(CTX, "q")) : z',
        'FIND_FOO(CTX "q") : z',
        'FIND_FOO(CTX, "q" : z',
        'FIND_FOO CTX, "q" : z',
        'FIND_FOO x, "q") : z',
        'FIND_FOO[CTX, "q"] : z',
    )
    for line in (*(f"a = {line}" for line in lines), 'FIND_FOO(CTX, "q") : z'):
        [found] = [item for item in check(parse(line), LIBRARY) if item.code.startswith("PRL1")]
        assert "FIND_FOO does not exist" in found.help


def test_a_number_means_the_step_that_a_reader_counts():
    text = '1. b = FIND_EVENT(CTX, FIND_EVENT(CTX, "q"))\n2. c = FIND_EVENT(CTX, "r") : y\n'
    text += "3. d = FIND_EVENT(CTX, 2) : z\n"
    [found] = [item for item in check(parse(text), LIBRARY) if item.code == "PRL408"]
    assert found.fix
    assert found.fix.edits[0].text == "c"


def test_no_step_goes_that_a_line_which_cannot_be_read_may_use():
    text = 'x = FIND_EVENT(CTX, "a") : y\nw = FIND_REASON(CTX, z "b") : y\nz = CONCAT(x) : y\n'
    [found] = [item for item in check(parse(text), LIBRARY) if item.code == "PRL404"]
    assert found.fix is None


def test_a_second_step_on_a_line_keeps_its_number():
    text = '0. x = FIND_EVENT(CTX, "k") 1. y = FIND_EVENT(CTX, "l")\n2. w = FIND_REASON(CTX, #1)\n'
    assert "FIND_REASON(CTX, y)" in print_plan(parse(fix(Source("p", text), LIBRARY)).plan)
    note = 'x = FIND_EVENT(CTX, "k")\nz = CONCAT(x)\ny FIND_EVENT(CTX, z)\n'
    assert "FIND_EVENT(CTX, z)" in fix(Source("p", note), LIBRARY).text


@pytest.mark.parametrize("call", ["COUNT(CTX)", "GROUPS(CTX, 2)", "BY_ITEM(CTX, CTX)", "KEYS(CTX)"])
def test_a_builtin_works_on_what_steps_found_and_not_on_the_document(call: str):
    assert set(codes(check(parse(f"1. n = {call} : c"), load_library()))) == {"PRL303"}


@pytest.mark.parametrize("call", ["TAKE(CTX)", "SUM(2, CTX)", "PLANNED(CTX)", "LOOK_UP(CTX)"])
def test_the_document_goes_to_no_parameter_that_cannot_hold_it(call: str):
    text = (
        "TAKE(L: list) : a L\nSUM(N, M: number) : a N, M\nSAY(X, T: text) : a X, T\n"
        "PLANNED(X) : a X\n  plan:\n    1. a = SAY(X, X)\n"
        "LOOK_UP(Q) -> list : a Q\n  body: solver retrieve\n"
    )
    [found] = check(parse(f"1. a = {call} : c"), library_of(text))
    assert (found.code, "is given the document" in found.message) == ("PRL303", True)
    # A model reads it beside what it is given.
    assert check(parse("1. a = SAY(CTX, CTX) : c"), library_of(text)) == []


def test_the_document_has_its_place_in_some_builtins_and_concat_passes_over_it():
    text = "1. p = PARTS(CTX, 2) : cut\n2. d = DOCUMENTS(CTX) : all\n"
    assert check(parse(f'{text}3. a = CONCAT("a", CTX, p, d) : b'), LIBRARY) == []


@pytest.mark.parametrize(
    ("returns", "right", "wrong"), [("number", "3", '"many"'), ("bool", '"yes"', '"maybe"')]
)
def test_an_example_s_answer_is_of_the_action_s_type(returns: str, right: str, wrong: str):
    for answer, found in ((right, set()), (wrong, {"PRL505"})):
        text = f'A(X) -> {returns} : Say what X comes to.\n  example: ("a") = {answer}\n'
        findings = check_library(Source("x", text))
        assert codes(findings) == found, answer
        assert not errors_of(findings)


@pytest.mark.parametrize("step", ["CONCAT({})", "CONCAT([{}])", 'FIND_CHARACTER("x", {})'])
def test_a_step_that_is_given_the_document_again_and_again_is_checked_in_linear_time(step: str):
    def checked(text: str) -> None:
        fixes = [one.fix for one in check(parse(text), LIBRARY) if one.code == "PRL212"]
        assert sum(fix is not None for fix in fixes) <= 1

    assert_linear(checked, lambda size: f"a = {step.format('CTX, ' * size + 'CTX')} : it", 500)


def test_a_file_s_name_for_the_document_is_told_how_documents_are_named() -> None:
    plan = 'a = FIND_EVENT("{}", "the law") : Find the law\n'
    for name in ("lease bedford.docx", *(f"A.{kind.upper()}" for kind in converters._KINDS)):
        found = check(parse(Source("x", plan.format(name))), LIBRARY)
        assert [one.code for one in found] == ["PRL211"]
        assert f'Where there are several, write "CTX.{name}"' in found[0].help
        assert not check(parse(Source("x", plan.format(f"CTX.{name}"))), LIBRARY)
    assert codes(check(parse(Source("x", plan.format("the lease"))), LIBRARY)) == {"PRL405"}
    own = check(parse(Source("x", 'a = FIND_LAW("a.docx") : Find the law\n')), LIBRARY)
    assert codes(own) == {"PRL201", "PRL211"}
    for text in ('each "documents"', 'where "docs"'):
        found = check(parse(Source("x", plan.replace('"{}"', text))), LIBRARY)
        assert f"are listed by docs = DOCUMENTS(CTX); here write {text.split()[0]} docs" in (
            found[0].help
        )
