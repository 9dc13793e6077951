"""How an answer of CommaQA is scored: exact match on spans in no order, and F1 over them.

The spans are the items of a list, the lines of a text, or a number alone. Spans are equal where
their words are (case and spaces do not count), and where both are numbers, where the numbers are:
66, 66.0 and "66.0" are one answer. A span that is given twice counts twice, as a decomposition
that forgets ``_unique`` gives another answer.
"""

from __future__ import annotations

import re
import string
from collections import Counter

from pearl.commaqa.world import read_number
from pearl.lang.values import Value, as_text

_ARTICLES = frozenset(("a", "an", "the"))
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# A hyphen between words parts them; before a number it is a sign.
_BETWEEN = re.compile(r"\s+|(?<=\w)-(?=\w)")


def _spans(answer: Value) -> list[str]:
    if isinstance(answer, list):
        return [as_text(item) for item in answer]
    return [line for line in as_text(answer).split("\n") if line.strip()]


def _number(word: str) -> str:
    """A number in one form; empty where it is none."""
    number = read_number(word)
    # Adding zero makes -0 a 0.
    return "" if number is None else f"{(number + 0).normalize():f}"


def exact_match(answer: Value | None, gold: Value) -> bool:
    """Whether an answer has the gold spans and no others.

    Args:
        answer: a list, a text with one span a line, a number, or a truth value (``yes`` or
            ``no``), pairs being their lines; None for "no answer", which never matches.
        gold: the recorded answer.
    """

    def count_spans(value: Value) -> Counter[str]:
        spans = (" ".join(span.split()).casefold() for span in _spans(value))
        return Counter(_number(span) or span for span in spans)

    return answer is not None and count_spans(answer) == count_spans(gold)


def f1(answer: Value | None, gold: Value) -> float:
    """How much of their words an answer's spans share with the gold ones, from 0 to 1.

    Each span of one is put beside at most one of the other, so that the sum of their F1 is
    greatest, and the sum is divided by the number of spans of the longer answer. The F1 of two
    spans is over the sets of their words in lower case, without articles and punctuation; where
    the gold span has numbers, one of them has to be there, or it is 0. That is DROP's evaluation
    (Dua et al., "DROP: A Reading Comprehension Benchmark Requiring Discrete Reasoning Over
    Paragraphs", NAACL 2019), which CommaQA takes over (Khot et al., Findings of ACL 2022,
    section 5).

    Two answers without spans agree: 1. No answer has 0.

    Args:
        answer: as `exact_match` takes it.
        gold: the recorded answer.
    """
    if answer is None:
        return 0.0
    rows, columns = ([*map(_words, _spans(value))] for value in (answer, gold))
    if not rows or not columns:
        return float(not rows and not columns)
    from scipy.optimize import linear_sum_assignment

    table = [[_overlap(words, right) for right in columns] for words in rows]
    pairs = zip(*linear_sum_assignment(table, maximize=True), strict=True)
    return float(sum(table[row][column] for row, column in pairs)) / max(len(rows), len(columns))


def _words(span: str) -> frozenset[str]:
    words: set[str] = set()
    for word in _BETWEEN.split(span.casefold()):
        bare = word.translate(_PUNCTUATION)
        # A number keeps its sign and its point; 1,000 has neither.
        words.add(_number(word) or _number(bare) or bare)
    return frozenset(words - _ARTICLES - {""})


def _overlap(words: frozenset[str], gold: frozenset[str]) -> float:
    if not words and not gold:
        return 1.0
    numbers = frozenset(filter(_number, gold))
    if numbers and not numbers & words:
        return 0.0
    return 2 * len(words & gold) / (len(words) + len(gold))
