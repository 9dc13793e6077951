"""What the actions that need no model give."""

import pytest

from pearl.lang.ast import Builtin, Literal
from pearl.lang.builtins import FUNCTIONS, BuiltinError, Given
from pearl.lang.library import parse_library
from pearl.lang.values import Pairs, Value
from tests.conftest import ROOT

AGES = Pairs((("Ro", 3), ("Mara", [4]), ("Al", 3)))


def call(name: str, *values: Value) -> Value:
    return FUNCTIONS[name]([Given(Literal(value), value) for value in values])


COUNTED = Pairs((("items 1 to 2", "one"), ("items 3 to 4", "two")))
PARTED = Pairs((("CTX 1/9 to CTX 4/9", "one"), ("CTX 5/9 to CTX 8/9", "two")))


@pytest.mark.parametrize(("name", "values", "result"), [
    ("keys", (AGES,), ["Ro", "Mara", "Al"]),
    ("values", (AGES,), [3, [4], 3]),
    ("count", (AGES,), 3),
    ("flat", ([["a", ["b"]], "c", []],), ["a", ["b"], "c"]),
    ("unique", ([1, True, 1, "1", 1.0],), [1, True, "1", 1.0]),
    ("concat", ("x", 2, True, ["p", "q"]), '"x"\n2\nyes\np\nq'),
    ("rest", ([1, 2, 3],), [2, 3]),
    ("rest", ([],), []),
    ("groups", (AGES, 2), Pairs((("Ro to Mara", Pairs(AGES.items[:2])),
                                 ("Al", Pairs(AGES.items[2:]))))),
    ("groups", (Pairs(()), 2), Pairs(())),
    ("groups", (Pairs(AGES.items[:1]), 3), Pairs((("Ro", Pairs(AGES.items[:1])),))),
    ("groups", (Pairs((("so " * 20, 1), ("on " * 20, 2))), 1),
     Pairs((("items 1 to 2", Pairs((("so " * 20, 1), ("on " * 20, 2)))),))),
    ("groups", (COUNTED, 1), Pairs((("items 1 to 4", COUNTED),))),
    ("groups", (PARTED, 1), Pairs((("CTX 1/9 to CTX 8/9", PARTED),))),
    ("by_item", (["a", "b"], [1, 2], Pairs((("x", 3), ("y", 4)))),
     Pairs((("a", [1, 3]), ("b", [2, 4])))),
    ("by_item", (AGES, ["x", "y", "z"]), Pairs(((3, "x"), ([4], "y"), (3, "z")))),
    ("by_item", ([], [], []), Pairs(())),
    ("keep_items", (["a", "b"], Pairs((("a", False), ("b", True)))), ["b"]),
    ("keep_items", (AGES, [True, False, "yes"]), Pairs(AGES.items[:1])),
    ("split", ("a, b", ", "), ["a", "b"]),
    ("split", ("née", ""), ["n", "é", "e"]),
    ("join", (["a", 1], "-"), "a-1"),
    ("item", (["a", "b"], 2), "b"),
    ("item", ("née", 2), "é"),
    ("halves", ([1, 2, 3],), [[1, 2], [3]]),
    ("halves", ([],), [[], []]),
    *((("sign", (word,), mark)) for word, mark in {
        "dash": "-", "Hyphen": "-", "slash": "/", "full-stop": ".", "period": ".", "pipe": "|",
        "under-score": "_", "tab": "\t", "new line": "\n", "hash": "#", "and": "&",
        "semi-colon": ";", "space": " ", "comma": ",", "asterisk": "*", "vertical line": "|",
        "plus": "+", "question mark": "?", ";": ";",
    }.items()),
])  # fmt: skip
def test_what_a_builtin_gives(name: str, values: tuple[Value, ...], result: Value):
    assert repr(call(name, *values)) == repr(result)


@pytest.mark.parametrize(("name", "values", "words"), [
    ("keys", ([1],), "KEYS needs pairs, and was given list."),
    ("count", ("ab",), "COUNT needs a list, and was given text."),
    ("flat", (AGES,), "FLAT needs a list, and was given pairs."),
    ("by_item", ([1], [1, 2]), "BY_ITEM needs as many items of each."),
    ("keep_items", ([1], []), "KEEP_ITEMS needs as many answers as items."),
    *(("parts", (wrong,), "PARTS needs a whole number from 1 to 9999.")
      for wrong in (10_000, 0, -1, 2.5, True, "3")),
    ("item", (["a"], 2), "ITEM was asked for number 2 of 1."),
    ("item", (3, 1), "ITEM needs a list or a text, and was given number."),
    ("item", (["a"], 0), "ITEM needs a whole number from 1 to 9999."),
    ("join", ("ab", "-"), "JOIN needs a list, and was given text."),
    ("sign", ("nothing of it",), "SIGN knows no character called 'nothing of it'."),
    ("sign", ("x" * 50,), f"SIGN knows no character called '{'x' * 40}'."),
])  # fmt: skip
def test_a_builtin_that_cannot_work_says_so(name: str, values: tuple[Value, ...], words: str):
    with pytest.raises(BuiltinError) as caught:
        call(name, *values)
    assert str(caught.value) == words


def test_a_library_names_builtins_in_either_case_as_the_documentation_lists_them():
    listed = ", ".join(f"`{name}`" for name in FUNCTIONS)
    assert f"is one of {listed} |" in (ROOT / "docs/language.md").read_text(encoding="utf-8")
    for name in FUNCTIONS:
        [action] = parse_library(f"A(X) : X\n  body: builtin {name.upper()}\n").actions
        assert action.body == Builtin(name)
