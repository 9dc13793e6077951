"""Intervals, paired tests and plan statistics, against counts made another way."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pearl.evaluate.report import plan_statistics
from pearl.evaluate.statistics import (
    MCNEMAR,
    SIGN_FLIP,
    compare,
    holm,
    interval,
    mcnemar,
    sign_flip,
)
from tests.shell import read_rows


class TestInterval:
    def test_it_is_the_percentile_bootstrap(self):
        from scipy.stats import bootstrap

        scores = [1.0] * 71 + [0.0] * 29
        found = interval(scores)
        other = bootstrap(
            (scores,), lambda one, axis: one.mean(axis=axis), vectorized=True,
            n_resamples=9_999, method="percentile", rng=1,
        ).confidence_interval  # fmt: skip
        assert found is not None
        assert (found.mean, found.count, found.how) == (0.71, 100, "bootstrap")
        assert found.low == pytest.approx(other.low, abs=0.011)
        assert found.high == pytest.approx(other.high, abs=0.011)

    def test_scores_in_between_are_drawn_one_by_one_or_by_value_alike(self):
        draw = random.Random(5)
        few = [draw.choice([0.0, 0.25, 0.5, 1.0]) for _ in range(300)]
        # The same scores but for a hair each, so that no two are equal.
        many = [max(0.0, score - at * 1e-9) for at, score in enumerate(few)]
        one, two = interval(few), interval(many)
        assert one is not None
        assert two is not None
        assert len(set(many)) > 20 > len(set(few))
        assert one.low == pytest.approx(two.low, abs=0.006)
        assert one.high == pytest.approx(two.high, abs=0.006)

    def test_the_mean_of_most_samples_is_inside(self):
        draw = random.Random(11)
        inside = 0
        for _ in range(150):
            found = interval([float(draw.random() < 0.7) for _ in range(120)])
            assert found is not None
            inside += found.low <= 0.7 <= found.high
        assert 0.91 <= inside / 150 <= 0.98

    @pytest.mark.parametrize(
        ("scores", "low", "high"),
        [([1.0] * 5, 0.5655, 1.0), ([0.0] * 5, 0.0, 0.4345), ([1.0] * 100, 0.9630, 1.0)],
    )
    def test_where_all_are_right_or_wrong_it_is_wilsons(
        self, scores: list[float], low: float, high: float
    ):
        found = interval(scores)
        assert found is not None
        assert found.how == "Wilson"
        assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)

    def test_the_same_scores_give_the_same_interval_and_none_have_none(self):
        scores = [1.0] * 30 + [0.0] * 9
        assert interval(scores) == interval(scores)
        assert interval([]) is None


class TestPaired:
    @pytest.mark.parametrize(("first", "second"), [(1, 5), (0, 0), (0, 7), (12, 12), (30, 11)])
    def test_mcnemar_is_the_binomial_sum(self, first: int, second: int):
        total, least = first + second, min(first, second)
        tail = sum(math.comb(total, k) for k in range(least + 1)) / 2**total
        assert mcnemar(first, second) == pytest.approx(min(1.0, 2 * tail))

    def test_only_questions_that_both_have_are_compared(self):
        first = {"a": 1.0, "b": 1.0, "c": 0.0, "d": 0.0, "e": 1.0}
        second = {"a": 1.0, "b": 0.0, "c": 1.0, "d": 0.0, "f": 1.0}
        found = compare(first, second)
        assert found is not None
        counts = (found.both, found.only_first, found.only_second, found.neither)
        assert counts == (1, 1, 1, 1)
        assert (found.count, found.difference.mean, found.p, found.test) == (4, 0.0, 1.0, MCNEMAR)

    def test_methods_without_a_common_question_are_not_compared(self):
        assert compare({"a": 1.0}, {"b": 1.0}) is None

    def test_scores_in_parts_are_compared_by_flipping_signs(self):
        draw = random.Random(3)
        first = {at: draw.random() / 2 for at in range(40)}
        second = {at: score + draw.uniform(0, 0.3) for at, score in first.items()}
        found = compare(first, second)
        assert found is not None
        assert found.test == SIGN_FLIP
        assert found.p == pytest.approx(1 / 10_001)
        assert found.difference.low > 0

    @pytest.mark.parametrize(
        "differences",
        [
            [0.5, -0.25, 0.75, 0.1, 0.3, -0.05, 0.2, 0.4],
            [0.5, 0.5, -0.5, 0.5, 0.5, 0.5, 0.0, 0.25, -0.25, 0.25],
            [0.1, -0.1, 0.1, -0.1],
        ],
    )
    def test_flipped_signs_agree_with_all_sets_of_signs(self, differences: list[float]):
        seen = abs(sum(differences)) - 1e-9
        sums = [
            abs(sum(sign * one for sign, one in zip(signs, differences, strict=True)))
            for signs in product((-1, 1), repeat=len(differences))
        ]
        exact = sum(one >= seen for one in sums) / len(sums)
        assert sign_flip(differences) == pytest.approx(exact, abs=0.02)

    def test_no_difference_is_no_evidence(self):
        assert sign_flip([0.0, 0.0]) == 1.0
        same = compare({"a": 0.5, "b": 1.0}, {"a": 0.5, "b": 1.0})
        assert same is not None
        assert (same.p, same.difference.low, same.difference.high) == (1.0, 0.0, 0.0)


class TestHolm:
    def test_it_is_the_textbook_example(self):
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))

    @given(st.lists(st.floats(0, 1), max_size=8))
    def test_it_keeps_the_order_and_lies_between_none_and_bonferroni(self, values: list[float]):
        corrected = holm(values)
        for value, found in zip(values, corrected, strict=True):
            assert value <= found <= min(1.0, len(values) * value)
        ranked = sorted(zip(values, corrected, strict=True))
        assert [one for _, one in ranked] == sorted(one for _, one in ranked)


class TestPlans:
    def test_what_pearl_adds_to_read_parts_is_no_step_and_no_action_of_the_plan(self):
        text = """\
New actions:
- MERGE_FIND_EVENT(FINDINGS, X) : Merge FINDINGS on X.
- RATE(X) : Rate X.

1. parts = PARTS(CTX, 3) : Cut
2. a_parts = FIND_EVENT(each parts, "x") : one
3. a = MERGE_FIND_EVENT(a_parts, "x") : one
4. b = RATE(a) : two
"""
        found = plan_statistics([text])
        assert (found["steps"], found["invented"]) == (2, {"RATE": 1})
        assert found["actions"] == {"FIND_EVENT": 1, "RATE": 1}

    def test_gpt4s_plans_agree_with_a_count_on_the_raw_text(self, shared: Path):
        file = shared / "pearl_gpt4" / "train.ctx_eval_long.jsonl"
        texts = [row["plan"] for row in read_rows(file)]
        line = re.compile(r"^\d+\. \w+ = ([A-Z_0-9]+)\(", re.MULTILINE)
        calls = [line.findall(text) for text in texts]
        used = Counter(name for one in calls for name in one)

        found = plan_statistics(texts)
        assert (found["plans"], found["unreadable"]) == (len(texts), 0) == (733, 0)
        assert found["steps"] == pytest.approx(sum(map(len, calls)) / 733)
        assert found["distinct_actions"] == pytest.approx(sum(len(set(one)) for one in calls) / 733)
        ranked = sorted(used.items(), key=lambda one: (-one[1], one[0]))
        assert list(found["actions"].items()) == ranked
        assert ranked[0] == ("IDENTIFY_ELEMENT", 748)
