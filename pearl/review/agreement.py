"""How far people agree beyond chance. The coefficients are nltk's; what is handed to it is ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from pearl.review.verdicts import CATEGORIES, Given
from pearl.source import InputError

if TYPE_CHECKING:
    from nltk.metrics.agreement import AnnotationTask

Labels = Mapping[str, Mapping[int, str]]
"""What each person says of each plan, by plan and person."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two people on the plans that both judged.

    Args:
        one: a person's number.
        other: another's.
        plans: how many both judged.
        same: the share of these on which they said the same.
        kappa: Cohen's; None where it is not defined.
    """

    one: int
    other: int
    plans: int
    same: float
    kappa: float | None


@dataclass(frozen=True, slots=True)
class Agreement:
    """Everybody on one question.

    Args:
        plans: how many were judged by at least two people.
        same: the share of pairs of verdicts on one plan that say the same;
            None without pairs.
        cohen: the mean of the pairs' kappas, those that are defined.
        fleiss: Fleiss' kappa; it needs as many verdicts on every plan.
        raters: so many, for Fleiss' kappa; 0 where there are none.
        rated: plans with just so many verdicts.
        alpha: Krippendorff's, with any number of verdicts a plan.
        pairs: each two people who judged a plan in common.
    """

    plans: int
    same: float | None
    cohen: float | None
    fleiss: float | None
    raters: int
    rated: int
    alpha: float | None
    pairs: tuple[Pair, ...]


def agreement(labels: Labels) -> Agreement:
    """How far people agree.

    A coefficient is None where nothing is left to be explained by chance:
    where all verdicts say the same, or no plan has two.

    Args:
        labels: what each person says of each plan.

    Raises:
        InputError: the library that counts it is not installed.
    """
    shared = {plan: said for plan, said in labels.items() if len(said) > 1}
    people = sorted({person for said in shared.values() for person in said})
    pairs = tuple(
        pair for one, other in combinations(people, 2) if (pair := _pair(shared, one, other))
    )
    compared = sum(pair.plans for pair in pairs)
    kappas = [pair.kappa for pair in pairs if pair.kappa is not None]
    raters, rated = _commonest(shared)
    return Agreement(
        plans=len(shared),
        same=sum(pair.same * pair.plans for pair in pairs) / compared if compared else None,
        cohen=sum(kappas) / len(kappas) if kappas else None,
        fleiss=_fleiss(rated),
        raters=raters,
        rated=len(rated),
        alpha=_alpha(shared),
        pairs=pairs,
    )


def correct_labels(given: Mapping[tuple[str, int], Given]) -> Labels:
    """Whether each plan is correct; "cannot tell" is an answer like the others."""
    return _labels({key: one.verdict.correct for key, one in given.items()})


def category_labels(given: Mapping[tuple[str, int], Given], category: str) -> Labels:
    """Whether each plan has a category, yes or no."""
    assert category in {one.name for one in CATEGORIES}
    said = {
        key: "yes" if category in one.verdict.categories else "no" for key, one in given.items()
    }
    return _labels(said)


def _labels(said: Mapping[tuple[str, int], str]) -> Labels:
    found: dict[str, dict[int, str]] = {}
    for (plan, person), label in said.items():
        found.setdefault(plan, {})[person] = label
    return found


def _pair(labels: Labels, one: int, other: int) -> Pair | None:
    both = {
        plan: (said[one], said[other])
        for plan, said in labels.items()
        if one in said and other in said
    }
    if not both:
        return None
    same = sum(first == second for first, second in both.values()) / len(both)
    kappa = None
    if len({label for two in both.values() for label in two}) > 1:
        kappa = float(_task(both).kappa_pairwise("0", "1"))
    return Pair(one, other, len(both), same, kappa)


def _commonest(labels: Labels) -> tuple[int, dict[str, tuple[str, ...]]]:
    """The number of verdicts that the most plans have, and these plans' verdicts."""
    counts = Counter(len(said) for said in labels.values())
    if not counts:
        return 0, {}
    raters = max(counts, key=lambda number: (counts[number], number))
    rated = {
        plan: tuple(said[person] for person in sorted(said))
        for plan, said in labels.items()
        if len(said) == raters
    }
    return raters, rated


def _fleiss(rated: Mapping[str, Sequence[str]]) -> float | None:
    if len({label for said in rated.values() for label in said}) < 2:
        return None
    # nltk's pi takes chance from all verdicts together, whoever gave them: for as many verdicts
    # on every plan that is Fleiss' kappa, and the people may be others from plan to plan.
    return float(_task(rated).pi())


def _alpha(labels: Labels) -> float | None:
    if len({label for said in labels.values() for label in said.values()}) < 2:
        return None
    return float(_task({plan: tuple(said.values()) for plan, said in labels.items()}).alpha())


def _task(labels: Mapping[str, Sequence[str]]) -> AnnotationTask:
    try:
        from nltk.metrics.agreement import AnnotationTask
    except ImportError:
        raise InputError(
            "Agreement needs nltk: install it with pip install 'pearl[review]'."
        ) from None
    return AnnotationTask(
        [
            (str(place), plan, label)
            for plan, said in labels.items()
            for place, label in enumerate(said)
        ]
    )
