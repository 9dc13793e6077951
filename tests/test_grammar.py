"""Grammars of plans: whatever they admit parses and checks without an error."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from pearl.lang.library import Library, load_library, parse_library
from pearl.lang.plan_grammar import plan_grammar

llguidance = pytest.importorskip("llguidance", reason="llguidance is not installed")

from benchmarks.grammar import errors, sampler  # noqa: E402 - they need llguidance

TYPED = """
LIST_PEOPLE(CTX, X) -> list : List everybody of X.
PAIR_UP(CTX, X: list, Y: list) -> pairs : Pair up X and Y.
IS_SO(CTX, X) -> bool : Say whether X is so.
HOW_MANY(CTX, X: pairs) -> number : Say how many X are.
PICK(CTX, X, N: number) -> any : Take N of X.
WHEN(CTX, X: text, Y: bool) : Say when X is, if Y.
ALL_OF(CTX, X: list, ...) : Put all together.
ANYTHING(...) : Take anything.
"""


def of_text(text: str) -> Library:
    return Library(("test",), {one.name: one for one in parse_library(text).actions})


def drawn(sample: Callable[[random.Random], str], count: int, seed: str) -> list[str]:
    dice = random.Random(seed)
    return [sample(dice) for _ in range(count)]


@pytest.mark.parametrize("name", ["core", "quality", "asking", "fsm", "typed"])
@pytest.mark.parametrize("own", [0, 2])
def test_a_random_plan_has_no_errors(name: str, own: int) -> None:
    library = of_text(TYPED) if name == "typed" else load_library(name)
    grammar = plan_grammar(library, 6, own)
    plans = drawn(sampler(grammar.lark), 30, name)
    assert [(errors(plan, library), plan) for plan in plans if errors(plan, library)] == []
    assert any("#" in plan for plan in plans)
