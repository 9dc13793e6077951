"""Options chosen by the words they share with an answer."""

from __future__ import annotations

import math
from collections import Counter

from pearl.llm.calls import MapAnswer, letter
from pearl.llm.offline.text import words


def choose(call: MapAnswer) -> str:
    """The letter of the option whose own words the answer holds most of.

    A word that several options share says little; one that only the question
    has says nothing. Ties go to the first option.
    """
    asked = set(words(call.question))
    options = [set(words(option)) - asked for option in call.options]
    shared = Counter(stem for option in options for stem in option)
    answer = Counter(words(call.answer))
    total = len(call.options)
    best, top = 0, -1.0
    for at, option in enumerate(options):
        score = sum(
            math.log(1 + total / shared[stem]) * (1 + math.log(answer[stem]))
            for stem in option
            if stem in answer
        )
        score /= math.sqrt(4 + len(option))
        if score > top:
            best, top = at, score
    return letter(best)
