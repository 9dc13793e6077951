"""The tables of a review: what was judged how, and how far people agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pearl.report import Report
from pearl.report.document import Block, Column, Table, Text
from pearl.review.agreement import Agreement, agreement, category_labels, correct_labels
from pearl.review.people import Person
from pearl.review.verdicts import CATEGORIES, Given, Verdict, last, unswayed

_NONE = "–"
_CORRECT = (("yes", "Correct"), ("no", "Not correct"), ("unclear", "Cannot tell"))


def review_report(
    given: Sequence[Given], people: Mapping[int, Person], about: Sequence[tuple[str, str]] = ()
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
    final: Mapping[tuple[str, int], Given],
    blind: Mapping[tuple[str, int], Given],
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


def _judged(final: Mapping[tuple[str, int], Given], people: Mapping[int, Person]) -> Table:
    """The paper's table: the share of plans judged correct, and of each category."""
    groups: list[tuple[str, list[Given]]] = [("everybody", list(final.values()))]
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
    words: str, groups: Sequence[tuple[str, Sequence[Given]]], holds: Callable[[Verdict], bool]
) -> tuple[str, list[str], dict[str, Any]]:
    """A line of the table: of each group the share of verdicts of which something holds."""
    shares = [sum(holds(one.verdict) for one in own) / len(own) for _, own in groups]
    return words, list(map(_percent, shares)), {"share": shares}


def _percent(share: float | None) -> str:
    return _NONE if share is None else f"{100 * share:.1f} %"


def _coefficient(value: float | None) -> str:
    return _NONE if value is None else f"{value:.3f}"
