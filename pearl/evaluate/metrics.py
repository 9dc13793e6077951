"""Short answers compared with the right ones, as the data sets' own scripts do it.

HotpotQA's script (Yang et al., 2018) is the one that 2WikiMultihopQA and
MuSiQue took over; where theirs differ, the functions say so.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Set
from typing import Any, NamedTuple

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WHOLE = frozenset(("yes", "no", "noanswer"))
"""Answers that are right or wrong as a whole."""


class Scores(NamedTuple):
    """How near something found is to what is right; each from 0 to 1."""

    exact_match: float
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 where both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def jointly(self, other: Scores) -> Scores:
        """Both at once: the products (HotpotQA, section 5.2)."""
        return Scores(*(own * others for own, others in zip(self, other, strict=True)))


def bare(text: str) -> str:
    """A text in lower case, without ASCII punctuation, with one space for white space."""
    return " ".join(text.lower().translate(_PUNCTUATION).split())


def normalise(answer: str) -> str:
    """An answer as it is compared: `bare`, and without articles."""
    return " ".join(_ARTICLES.sub(" ", bare(answer)).split())


def compare(answer: str, gold: str) -> Scores:
    """An answer's words beside those of the right one (HotpotQA's ``f1_score``).

    Yes, no and noanswer share nothing with any other answer. Repeated words
    count as often as both have them.
    """
    said, wanted = normalise(answer), normalise(gold)
    if said != wanted and {said, wanted} & _WHOLE:
        return Scores(0.0, 0.0, 0.0)
    found = compare_spans(answer, gold)
    return found if said and wanted else Scores(found.exact_match, 0.0, 0.0)


def compare_spans(answer: str, gold: str) -> Scores:
    """`compare` as MuSiQue's script does it (SQuAD's).

    Yes and no are words like others, and two answers without words are equal.
    """
    said, wanted = normalise(answer).split(), normalise(gold).split()
    exact = float(said == wanted)
    if not said or not wanted:
        return Scores(exact, exact, exact)
    common = (Counter(said) & Counter(wanted)).total()
    return Scores(exact, common / len(said), common / len(wanted))


def compare_sets(found: Set[Any], gold: Set[Any]) -> Scores:
    """Supporting facts, or triples, beside the right ones (HotpotQA's ``update_sp``)."""
    right = len(found & gold)
    precision = right / len(found) if found else 0.0
    return Scores(float(found == gold), precision, right / len(gold) if gold else 0.0)
