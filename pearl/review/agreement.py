"""How far people agree beyond chance. The coefficients are nltk's; what is handed to it is ours.

The tables of a review: what was judged how, and how far people agree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pearl.lang.source import InputError
from pearl.report.document import Block, Column, Report, Table, Text
from pearl.review.people import Person
from pearl.review.verdicts import CATEGORIES, RecordedVerdict, Verdict, last, unswayed

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


def correct_labels(given: Mapping[tuple[str, int], RecordedVerdict]) -> Labels:
    """Whether each plan is correct; "cannot tell" is an answer like the others."""
    return _labels({key: one.verdict.correct for key, one in given.items()})


def category_labels(given: Mapping[tuple[str, int], RecordedVerdict], category: str) -> Labels:
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


_NONE = "–"
_CORRECT = (("yes", "Correct"), ("no", "Not correct"), ("unclear", "Cannot tell"))


def review_report(
    given: Sequence[RecordedVerdict],
    people: Mapping[int, Person],
    about: Sequence[tuple[str, str]] = (),
) -> Report:
    """What a review comes to.

    Args:
        given: verdicts, in the order in which they were given.
        people: who gave them, by number.
        about: facts, each with its name.

    Raises:
        InputError: the library that counts agreement is not installed.
    """
    final = last(given)
    plans = len({plan for plan, _ in final})
    facts = (*about, ("verdicts", f"{len(final):,} on {plans:,} plans"))
    if not final:
        return Report("Review", facts, (Text(("There are no verdicts yet.",)),))
    return Report("Review", facts, tuple(_blocks(final, unswayed(given), people)))


def _blocks(
    final: Mapping[tuple[str, int], RecordedVerdict],
    blind: Mapping[tuple[str, int], RecordedVerdict],
    people: Mapping[int, Person],
) -> list[Block]:
    judged = _judged(final, people)
    questions = [
        ("correct", "Correct", agreement(correct_labels(blind))),
        *((one.name, one.words, agreement(category_labels(blind, one.name))) for one in CATEGORIES),
    ]
    blocks: list[Block] = [judged, _agreed(questions)]
    pairs = questions[0][2].pairs
    if pairs:
        blocks.append(_pairs(questions[0][2], people))
    return blocks


def _judged(
    final: Mapping[tuple[str, int], RecordedVerdict], people: Mapping[int, Person]
) -> Table:
    """The paper's table: the share of plans judged correct, and of each category."""
    groups: list[tuple[str, list[RecordedVerdict]]] = [("everybody", list(final.values()))]
    for number, person in people.items():
        own = [one for one in final.values() if one.person == number]
        if own:
            groups.append((person.name, own))
    lines = [_shares(words, groups, partial(_is, name)) for name, words in _CORRECT]
    lines += [_shares(one.words, groups, partial(_has, one.name)) for one in CATEGORIES]
    means = [sum(one.verdict.confidence for one in own) / len(own) for _, own in groups]
    lines.append(("Mean confidence, of 5", [f"{mean:.2f}" for mean in means], {"mean": means}))
    counts = [len(own) for _, own in groups]
    lines.append(("Verdicts", [f"{count:,}" for count in counts], {"count": counts}))
    return Table(
        "Verdicts",
        (Column("", "left"), *(Column(name) for name, _ in groups)),
        tuple((words, *cells) for words, cells, _ in lines),
        "Of what each person said last of each plan. Categories do not exclude one another.",
        tuple({"row": words, "of": [name for name, _ in groups], **data}
              for words, _, data in lines),
    )  # fmt: skip


def _agreed(questions: Sequence[tuple[str, str, Agreement]]) -> Table:
    columns = ("", "plans", "same", "Cohen's κ", "Fleiss' κ", "Krippendorff's α")
    first = questions[0][2]
    with_fleiss = (
        f" Fleiss' κ is of the {first.rated:,} plans with {first.raters} verdicts."
        if first.rated != first.plans
        else ""
    )
    return Table(
        "Agreement",
        tuple(Column(title, "right" if title else "left") for title in columns),
        tuple(
            (words, f"{one.plans:,}", _percent(one.same), _coefficient(one.cohen),
             _coefficient(one.fleiss), _coefficient(one.alpha))
            for _, words, one in questions
        ),
        "Of plans with at least two verdicts; a verdict that was changed after others' were shown "
        "counts as it was before. Same: the share of pairs of verdicts on a plan that say the "
        "same. Cohen's κ is the mean over pairs of people. – stands where it is not defined, as "
        f"where everybody always says the same.{with_fleiss}",
        tuple(
            {"question": name, "plans": one.plans, "same": one.same, "cohen": one.cohen,
             "fleiss": one.fleiss, "fleiss_plans": one.rated, "fleiss_verdicts": one.raters,
             "krippendorff": one.alpha}
            for name, _, one in questions
        ),
    )  # fmt: skip


def _pairs(found: Agreement, people: Mapping[int, Person]) -> Table:
    return Table(
        "Pairs of people on whether plans are correct",
        (Column("", "left"), Column("plans"), Column("same"), Column("Cohen's κ")),
        tuple(
            (f"{_name(pair.one, people)} and {_name(pair.other, people)}", f"{pair.plans:,}",
             _percent(pair.same), _coefficient(pair.kappa))
            for pair in found.pairs
        ),
        data=tuple(
            {"one": _name(pair.one, people), "other": _name(pair.other, people),
             "plans": pair.plans, "same": pair.same, "cohen": pair.kappa}
            for pair in found.pairs
        ),
    )  # fmt: skip


def _name(number: int, people: Mapping[int, Person]) -> str:
    return people[number].name if number in people else f"annotator {number}"


def _is(name: str, verdict: Verdict) -> bool:
    return verdict.correct == name


def _has(name: str, verdict: Verdict) -> bool:
    return name in verdict.categories


def _shares(
    words: str,
    groups: Sequence[tuple[str, Sequence[RecordedVerdict]]],
    holds: Callable[[Verdict], bool],
) -> tuple[str, list[str], dict[str, Any]]:
    """A line of the table: of each group the share of verdicts of which something holds."""
    shares = [sum(holds(one.verdict) for one in own) / len(own) for _, own in groups]
    return words, list(map(_percent, shares)), {"share": shares}


def _percent(share: float | None) -> str:
    return _NONE if share is None else f"{100 * share:.1f} %"


def _coefficient(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"
