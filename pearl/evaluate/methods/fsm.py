"""FSM prompting (Wang et al., 2024): FSM1 gives the answer, FSM2 its evidence too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest

from pearl.evaluate.datasets.base import Example
from pearl.evaluate.datasets.multihop import MultiHop
from pearl.evaluate.methods.base import Kit, Method, Outcome, by_name
from pearl.evaluate.supporting_facts import form, supported
from pearl.lang.values import as_text
from pearl.run.loop import Finished
from pearl.session import Session
from pearl.strategies.fsm import Fsm
from pearl.strategies.fsm_states import of, one_line, sentences

DEPTHS = (2, 5)
"""How many of the paragraphs that searches named are looked at for recall."""


async def answer(example: Example, kit: Kit, session: Session, name: str) -> Outcome:
    """Walk a machine over the question's paragraphs.

    Args:
        example: the question.
        kit: what methods share.
        session: the model in its layers.
        name: the machine's: ``fsm1`` or ``fsm2``.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: nothing was found within the limits.
    """
    ran = await by_name(name, example, kit, session)
    strategy, finished = ran.strategy, ran.finished
    assert isinstance(strategy, Fsm)
    measures = {
        "hops": float(strategy.hops),
        "backtracks": float(strategy.backtracks),
        **recall(example, named(finished)),
        **_evidence(example, finished, session),
    }
    return ran.outcome(measures)


def _evidence(example: Example, finished: Finished, session: Session) -> Mapping[str, float]:
    reviews = [one.name for one in finished.plan.steps if one.action == "REVIEW"]
    if not reviews:
        return form(session.journal.entries)
    review = finished.values[reviews[-1]]
    told = of(review, "triples")
    triples = told if isinstance(told, list) else []
    return supported(
        example,
        finished.text,
        sentences(of(review, "supporting_facts")),
        [[as_text(part) for part in one] for one in triples if isinstance(one, list)],
        session.journal.entries,
    )


def named(finished: Finished) -> list[list[str]]:
    """The titles that each search named, in the order of the searches.

    Args:
        finished: a run of a machine.
    """
    found: list[list[str]] = []
    for step in finished.plan.steps:
        if step.action == "SEARCH":
            titles = of(finished.values[step.name], "paragraphs")
            found.append([as_text(one) for one in titles] if isinstance(titles, list) else [])
    return found


def recall(example: Example, found: Sequence[Sequence[str]]) -> Mapping[str, float]:
    """``recall_at_2`` and ``recall_at_5``: the share of gold paragraphs among those named.

    The paragraphs are taken hop by hop: the first of each search, then the
    second of each, and so on.

    Args:
        example: the question with its gold.
        found: the titles that each search named, best first.

    Returns:
        Nothing where there are no gold paragraphs.
    """
    data = example.data
    gold = {_plain(one.title) for one in data.facts} if isinstance(data, MultiHop) else set()
    if not gold:
        return {}
    order = list(dict.fromkeys(_plain(one) for one in _in_turn(found)))
    return {f"recall_at_{depth}": len(gold & set(order[:depth])) / len(gold) for depth in DEPTHS}


def _in_turn(found: Sequence[Sequence[str]]) -> Iterable[str]:
    return (one for row in zip_longest(*found) for one in row if one is not None)


def _plain(title: str) -> str:
    return one_line(title).casefold()


ONE = Method(
    "fsm1",
    "A state machine decomposes, searches, revises and judges.",
    partial(answer, name="fsm1"),
    needs_model=True,
)
TWO = Method(
    "fsm2",
    "As fsm1, and then a review gives facts, triples and an explanation.",
    partial(answer, name="fsm2"),
    needs_model=True,
)
