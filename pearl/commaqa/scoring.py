"""How an answer of CommaQA is scored: exact match on spans in no order, and F1 over them.

The spans are the items of a list, the lines of a text, or a
number alone. Spans are equal where their words are (case and spaces do not
count), and where both are numbers, where the numbers are: 66, 66.0 and "66.0"
are one answer. A span that is given twice counts twice, as a decomposition
that forgets ``_unique`` gives another answer.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from pearl.commaqa.world import read_number
from pearl.lang.values import Value, as_text

_ARTICLES = frozenset(("a", "an", "the"))
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# A hyphen between words parts them; before a number it is a sign.
_BETWEEN = re.compile(r"\s+|(?<=\w)-(?=\w)")


def spans(answer: Value) -> Counter[str]:
    """An answer's spans in the form in which they are compared, and how often each stands there.

    Args:
        answer: a list, a text with one span a line, a number, or a truth value
            (``yes`` or ``no``). Pairs are their lines.
    """
    return Counter(map(_form, _told(answer)))


def _told(answer: Value) -> list[str]:
    items = answer if isinstance(answer, list) else _lines(answer)
    return [as_text(item) for item in items]


def _lines(answer: Value) -> list[str]:
    return [line for line in as_text(answer).split("\n") if line.strip()]


def _form(text: str) -> str:
    words = " ".join(text.split()).casefold()
    return _as_number(words) or words


def _as_number(word: str) -> str:
    """A number in one form; empty where it is none."""
    number = read_number(word)
    # Adding zero makes -0 a 0.
    return "" if number is None else f"{(number + 0).normalize():f}"


def exact_match(answer: Value | None, gold: Value) -> bool:
    """Whether an answer has the gold spans and no others.

    Args:
        answer: None for "no answer", which never matches.
        gold: the recorded answer.
    """
    return answer is not None and spans(answer) == spans(gold)


def f1(answer: Value | None, gold: Value) -> float:
    """How much of their words an answer's spans share with the gold ones, from 0 to 1.

    Each span of one is put beside at most one of the other, so that the sum of
    their F1 is greatest, and the sum is divided by the number of spans of the
    longer answer. The F1 of two spans is over the sets of their words in lower
    case, without articles and punctuation; where the gold span has numbers, one
    of them has to be there, or it is 0. That is DROP's evaluation (Dua et al.,
    "DROP: A Reading Comprehension Benchmark Requiring Discrete Reasoning Over
    Paragraphs", NAACL 2019), which CommaQA takes over (Khot et al.,
    Findings of ACL 2022, section 5).

    Two answers without spans agree: 1. No answer has 0.

    Args:
        answer: as `spans` takes it; None for "no answer".
        gold: the recorded answer.
    """
    if answer is None:
        return 0.0
    given, wanted = _told(answer), _told(gold)
    most = max(len(given), len(wanted))
    if not most:
        return 1.0
    said = [_words(span) for span in given]
    right = [_words(span) for span in wanted]
    return _aligned([[_overlap(one, other) for other in right] for one in said]) / most


def _aligned(shared: Sequence[Sequence[float]]) -> float:
    """The greatest sum of a table's cells, no two of one row or column."""
    if not shared or not shared[0]:
        return 0.0
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(shared, maximize=True)
    return float(sum(shared[row][column] for row, column in zip(rows, columns, strict=True)))


def _words(span: str) -> frozenset[str]:
    words = map(_word, _BETWEEN.split(span.casefold()))
    return frozenset(word for word in words if word and word not in _ARTICLES)


def _word(word: str) -> str:
    bare = word.translate(_PUNCTUATION)
    # A number keeps its sign and its point; 1,000 has neither.
    return _as_number(word) or _as_number(bare) or bare


def _overlap(said: frozenset[str], right: frozenset[str]) -> float:
    if not said and not right:
        return 1.0
    numbers = frozenset(filter(_as_number, right))
    if numbers and not numbers & said:
        return 0.0
    return 2 * len(said & right) / (len(said) + len(right))
