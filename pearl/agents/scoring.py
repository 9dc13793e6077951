"""How an answer of CommaQA is scored: exact match on spans in no order, and F1 over them.

The spans are the items of a list, the lines of a text, or a
number alone. Spans are equal where their words are (case and spaces do not
count), and where both are numbers, where the numbers are: 66, 66.0 and "66.0"
are one answer. A span that is given twice counts twice, as a decomposition
that forgets ``_unique`` gives another answer.
"""

from __future__ import annotations

from collections import Counter

from pearl.agents.sums import read_number
from pearl.values import Value, as_text


def spans(answer: Value) -> Counter[str]:
    """An answer's spans in the form in which they are compared, and how often each stands there.

    Args:
        answer: a list, a text with one span a line, a number, or a truth value
            (``yes`` or ``no``). Pairs are their lines.
    """
    items = answer if isinstance(answer, list) else _lines(answer)
    return Counter(_form(as_text(item)) for item in items)


def _lines(answer: Value) -> list[str]:
    return [line for line in as_text(answer).split("\n") if line.strip()]


def _form(text: str) -> str:
    words = " ".join(text.split()).casefold()
    number = read_number(words)
    # Adding zero makes -0 a 0.
    return words if number is None else f"{(number + 0).normalize():f}"


def exact_match(answer: Value | None, gold: Value) -> bool:
    """Whether an answer has the gold spans and no others.

    Args:
        answer: None for "no answer", which never matches.
        gold: the recorded answer.
    """
    return answer is not None and spans(answer) == spans(gold)


def f1(answer: Value | None, gold: Value) -> float:
    """The harmonic mean of precision and recall over spans, from 0 to 1.

    Two empty answers agree: 1. No answer has 0. A number that is wrong has 0,
    however near it is.
    """
    if answer is None:
        return 0.0
    given, wanted = spans(answer), spans(gold)
    if not given and not wanted:
        return 1.0
    return 2 * (given & wanted).total() / (given.total() + wanted.total())
