"""How sure a figure is: intervals, and paired tests between two methods.

Every draw comes from a generator with a fixed seed, so the same results give
the same report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


SEED = 20_240_501
RESAMPLES = 10_000
LEVEL = 0.95
FEW = 20
"""Values up to which a resample is drawn by how often it has each."""

AT_A_TIME = 500
"""Resamples drawn together, so that memory stays small where all scores differ."""

MCNEMAR = "exact McNemar test"
SIGN_FLIP = "paired sign-flip permutation test"


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval.

    Args:
        mean: of the scores.
        low: the interval's lower end.
        high: its upper end.
        count: how many scores.
        how: ``bootstrap``, or ``Wilson`` where all scores are equal.
    """

    mean: float
    low: float
    high: float
    count: int
    how: str


@dataclass(frozen=True, slots=True)
class Paired:
    """Two methods on the questions that both have.

    A question is right where its score is 1.

    Args:
        count: how many questions.
        both: that both have right.
        only_first: that only the first method has right.
        only_second: that only the second has right.
        neither: that neither has right.
        difference: the second's mean less the first's, and its interval.
        p: two-sided.
        test: which test, in words.
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

    Resamples of equal scores are all equal, so that a bootstrap would call a
    mean certain that five questions gave. There Wilson's interval for a share
    is taken instead, whose width depends on the number of scores alone.

    Args:
        scores: one a question, from 0 to 1.

    Returns:
        None where there are no scores.
    """
    if not scores:
        return None
    if len(set(scores)) == 1:
        return _wilson(scores[0], len(scores))
    return _bootstrap(scores)


def compare(first: Mapping[Hashable, float], second: Mapping[Hashable, float]) -> Paired | None:
    """Compare two methods on the questions that both have.

    Where all scores are 0 or 1, by McNemar's test in its exact form: a
    binomial test on the questions that one of the two alone has right. Else by
    a permutation test that flips the signs of the differences at random.

    Args:
        first: scores by question.
        second: the other method's.

    Returns:
        None where they have no question in common.
    """
    pairs = [(score, second[key]) for key, score in first.items() if key in second]
    if not pairs:
        return None
    right = Counter((one == 1, two == 1) for one, two in pairs)
    differences = [two - one for one, two in pairs]
    if {score for pair in pairs for score in pair} <= {0, 1}:
        p, test = mcnemar(right[True, False], right[False, True]), MCNEMAR
    else:
        p, test = sign_flip(differences), SIGN_FLIP
    return Paired(
        count=len(pairs),
        both=right[True, True],
        only_first=right[True, False],
        only_second=right[False, True],
        neither=right[False, False],
        difference=_spread(differences),
        p=p,
        test=test,
    )


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided p-value of McNemar's test in its exact form.

    Args:
        only_first: questions that only the first method has right.
        only_second: questions that only the second has right.
    """
    from scipy.stats import binomtest

    if not only_first + only_second:
        return 1.0
    return float(binomtest(only_first, only_first + only_second).pvalue)


def sign_flip(differences: Sequence[float]) -> float:
    """The two-sided p-value of a paired permutation test, with 10,000 random sets of signs.

    Args:
        differences: of the scores, one a question.
    """
    import numpy as np

    sizes = Counter(round(abs(one), 12) for one in differences if abs(one) > 1e-12)
    if not sizes:
        return 1.0
    random = np.random.default_rng(SEED)
    sums = np.zeros(RESAMPLES)
    # Differences of one size flip alike: how many of them are positive is one draw.
    for size, count in sizes.items():
        sums += size * (2 * random.binomial(count, 0.5, RESAMPLES) - count)
    as_far = np.abs(sums) >= abs(sum(differences)) - 1e-9
    # What was observed is one of the sets, so that no p-value is 0.
    return float((as_far.sum() + 1) / (RESAMPLES + 1))


def holm(values: Sequence[float]) -> tuple[float, ...]:
    """P-values corrected for their number by Holm's step-down method, in the given order."""
    order = sorted(range(len(values)), key=lambda at: values[at])
    corrected = [0.0] * len(values)
    least = 0.0
    for rank, at in enumerate(order):
        least = max(least, min(1.0, (len(values) - rank) * values[at]))
        corrected[at] = least
    return tuple(corrected)


def _bootstrap(scores: Sequence[float]) -> Interval:
    import numpy as np

    means = _resampled_means(scores)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    count = len(scores)
    return Interval(sum(scores) / count, float(low), float(high), count, "bootstrap")


def _resampled_means(scores: Sequence[float]) -> NDArray[Any]:
    """The means of 10,000 resamples.

    How often each value is drawn decides a resample's mean, and those counts
    are multinomial. Where there are few values, drawing the counts is the same
    as drawing the scores, and takes a draw a value in place of one a score.
    """
    import numpy as np

    random = np.random.default_rng(SEED)
    found = Counter(scores)
    count = len(scores)
    if len(found) <= FEW:
        values = np.array(list(found), dtype=float)
        shares = np.array(list(found.values()), dtype=float) / count
        drawn = random.multinomial(count, shares, RESAMPLES)
        means: NDArray[Any] = drawn @ values / count
        return means
    given = np.array(scores, dtype=float)
    parts = [
        given[random.integers(count, size=(AT_A_TIME, count))].mean(axis=1)
        for _ in range(RESAMPLES // AT_A_TIME)
    ]
    return np.concatenate(parts)


def _spread(differences: Sequence[float]) -> Interval:
    """The mean difference with its interval; one that is always the same has no spread to show."""
    if len(set(differences)) > 1:
        return _bootstrap(differences)
    mean = differences[0]
    return Interval(mean, mean, mean, len(differences), "none")


def _wilson(share: float, count: int) -> Interval:
    """Wilson's interval (1927) for a share of so many."""
    z = NormalDist().inv_cdf((1 + LEVEL) / 2)
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    spread = share * (1 - share) / count + z * z / (4 * count * count)
    half = z * spread**0.5 / (1 + z * z / count)
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half), count, "Wilson")
