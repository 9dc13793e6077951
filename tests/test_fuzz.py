"""Mutated plans: nothing raises, fmt keeps the meaning and is done at once, fixes do no harm.

`python -m benchmarks.fuzz 100000` does the same by hand, with other seeds and recorded plans.
"""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz import attack, mutated, problems, seeds
from pearl.lang.library import load_library
from pearl.lang.source import Source
from pearl.lint.checker import fix

RECORDED = Path("pearl_gpt4") / "train.ctx_eval_long.jsonl"


def test_what_ships_is_mutated():
    assert list(attack(100, 1, seeds())) == []


def test_a_guess_waits_for_what_is_certain():
    plan = 'a = FIND_ALL(CTX, "x") : y\nb1 = FIND_EVENT(CTX, each a) b2 = VALUES(b1)\n'
    source = fix(Source("p", f"{plan}c = FLAT(b2) : z\n"), load_library(), unsafe=True)
    assert "FLAT(b2)" in source.text


def test_a_fix_that_mends_one_line_breaks_no_other():
    assert list(problems("s=T(a)r\ns=T(t\u200b()", load_library())) == []


def test_a_mark_behind_noqa_ends_no_words():
    for note in ("Find # noqa: PRL202, PRL4**", "Find it*`", "Find it** # noqa"):
        assert list(problems(f"1. a = FIND_INTENT(CTX, x) : {note}", load_library())) == []


@pytest.mark.parametrize(
    "text",
    [
        '1. a = FIND_INTENT(CTX, "x") : Find a b = FIND_ELEMENT\xa0(CTX, "y") : what',
        "New actions:\n- FIND_LAw actions:\n- FIND_LAw actions:\n- FIND_LAST(CTX, X) : Find it\n",
    ],
)
def test_what_cannot_be_read_is_so_however_it_is_printed(text: str):
    assert list(problems(text, load_library())) == []


def test_recorded_plans_are_mutated(shared: Path):
    assert list(attack(70, 1, seeds(str(shared / RECORDED)))) == []


@settings(max_examples=50, derandomize=True)
@given(st.randoms(use_true_random=False), st.binary(max_size=40), st.integers(0, 1 << 20))
def test_bytes_among_a_plan_do_no_harm(chance: random.Random, data: bytes, at: int):
    text = mutated(seeds(), chance)
    at %= len(text) + 1
    text = text[:at] + data.decode("utf-8", "replace") + text[at:]
    assert list(problems(text, load_library())) == []
