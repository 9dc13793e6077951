"""Confidence intervals, and paired tests between two methods.

Random numbers come from a generator with a fixed seed, so that the same results
give the same report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

SEED = 20_240_501
RESAMPLES = 10_000
LEVEL = 0.95
FEW = 20
"""With at most so many distinct values, a resample is drawn as counts of each value."""

AT_A_TIME = 500
"""Resamples drawn together; more would take more memory where all scores differ."""

MCNEMAR = "exact McNemar test"
SIGN_FLIP = "paired sign-flip permutation test"


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval.

    Args:
        mean: the mean of the scores.
        low: the interval's lower end.
        high: its upper end.
        count: how many scores there are.
        how: ``bootstrap``; ``Wilson`` where all scores are equal, and ``none`` where all
            differences are equal.
    """

    mean: float
    low: float
    high: float
    count: int
    how: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two methods compared on the questions that both have results for.

    A question is right where its score is 1.

    Args:
        count: how many questions were compared.
        both: questions that both methods have right.
        only_first: questions that only the first method has right.
        only_second: questions that only the second method has right.
        neither: questions that neither has right.
        difference: the second method's mean minus the first's, with its interval.
        p: the two-sided p-value.
        test: the name of the test.
    """

    count: int
    both: int
    only_first: int
    only_second: int
    neither: int
    difference: Interval
    p: float
    test: str


def interval(scores: Sequence[float]) -> Interval | None:
    """The mean of scores with its 95 % interval, by the percentile bootstrap (10,000 resamples).

    Resamples of equal scores are all equal, so that a bootstrap would take a mean of five questions
    to be certain. Where all scores are equal, Wilson's interval for a proportion (1927) is used
    instead.

    Args:
        scores: one for each question, from 0 to 1; without any the result is None.
    """
    if len(set(scores)) != 1:
        return _bootstrap(tuple(scores)) if scores else None
    share, count = scores[0], len(scores)
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    spread = share * (1 - share) / count + z * z / (4 * count * count)
    half = z * spread**0.5 / (1 + z * z / count)
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half), count, "Wilson")


@lru_cache(maxsize=1024)
def _bootstrap(scores: tuple[float, ...]) -> Interval:
    """The mean of scores, with the middle 95 % of the means of their resamples.

    A resample's mean depends only on how often it has each value, and these
    counts have a multinomial distribution. Where there are few distinct values,
    drawing the counts is equivalent to drawing the scores, and faster.
    """
    import numpy as np

    random = np.random.default_rng(SEED)
    values, count = Counter(scores), len(scores)
    if len(values) <= FEW:
        shares = np.array(list(values.values()), dtype=float) / count
        drawn = random.multinomial(count, shares, RESAMPLES)
        means = drawn @ np.array(list(values), dtype=float) / count
    else:
        each = np.array(scores, dtype=float)
        means = np.concatenate(
            [
                each[random.integers(count, size=(AT_A_TIME, count))].mean(axis=1)
                for _ in range(RESAMPLES // AT_A_TIME)
            ]
        )
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(sum(scores) / count, float(low), float(high), count, "bootstrap")


def compare(first: Mapping[Hashable, float], second: Mapping[Hashable, float]) -> Comparison | None:
    """Compare two methods by their scores on the questions that both have; None without any.

    If all scores are 0 or 1, the test is McNemar's exact test: a binomial test on the questions
    that only one of the two has right. Otherwise it is a permutation test that flips the signs of
    the differences at random.
    """
    pairs = [(score, second[key]) for key, score in first.items() if key in second]
    if not pairs:
        return None
    outcomes = Counter((a == 1, b == 1) for a, b in pairs)
    both, only_first, only_second, neither = (
        outcomes[a, b] for a in (True, False) for b in (True, False)
    )
    differences = [b - a for a, b in pairs]
    if {score for pair in pairs for score in pair} <= {0, 1}:
        p, test = mcnemar(only_first, only_second), MCNEMAR
    else:
        p, test = sign_flip(differences), SIGN_FLIP
    mean = differences[0]
    difference = Interval(mean, mean, mean, len(pairs), "none")
    if len(set(differences)) > 1:
        difference = _bootstrap(tuple(differences))
    return Comparison(len(pairs), both, only_first, only_second, neither, difference, p, test)


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided p-value of McNemar's exact test, given how many questions only the first, and
    only the second, method has right."""
    from scipy.stats import binomtest

    if not only_first + only_second:
        return 1.0
    return float(binomtest(only_first, only_first + only_second).pvalue)


def sign_flip(differences: Sequence[float]) -> float:
    """The two-sided p-value of a paired permutation test, with 10,000 random sets of signs, given
    the difference of scores for each question."""
    import numpy as np

    sizes = Counter(round(abs(each), 12) for each in differences if abs(each) > 1e-12)
    if not sizes:
        return 1.0
    random = np.random.default_rng(SEED)
    sums = np.zeros(RESAMPLES)
    # Differences of one size flip alike: how many of them are positive is one draw.
    for size, count in sizes.items():
        sums += size * (2 * random.binomial(count, 0.5, RESAMPLES) - count)
    as_far = np.abs(sums) >= abs(sum(differences)) - 1e-9
    # The observed signs count as one of the sets, so that no p-value is 0.
    return float((as_far.sum() + 1) / (RESAMPLES + 1))


def holm(values: Sequence[float]) -> tuple[float, ...]:
    """P-values corrected for their number by Holm's step-down method, in the given order."""
    corrected, least = [0.0] * len(values), 0.0
    for rank, at in enumerate(sorted(range(len(values)), key=lambda at: values[at])):
        least = max(least, min(1.0, (len(values) - rank) * values[at]))
        corrected[at] = least
    return tuple(corrected)
