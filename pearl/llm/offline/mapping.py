"""Options chosen by the words they share with an answer."""

from __future__ import annotations

import math
from collections import Counter

from pearl.llm.calls import MapAnswer, letter
from pearl.llm.offline.cues import CUES
from pearl.llm.offline.text import words


def choose(call: MapAnswer) -> str:
    """The letter of the option whose own words the answer holds most of.

    A word that several options share says little; one that only the question
    has says nothing. Where the question asks for what is not so, it is the
    option that the answer bears out least. Ties go to the first option.
    """
    scores = _scores(call)
    false = any(cue.false and cue.asks.search(call.question) for cue in CUES)
    best = min(scores) if false else max(scores)
    return letter(scores.index(best))


def _scores(call: MapAnswer) -> list[float]:
    asked = set(words(call.question))
    options = [set(words(option)) - asked for option in call.options]
    shared = Counter(stem for option in options for stem in option)
    answer = Counter(words(call.answer))
    total = len(call.options)
    scores: list[float] = []
    for option in options:
        score = sum(
            math.log(1 + total / shared[stem]) * (1 + math.log(answer[stem]))
            for stem in sorted(option)
            if stem in answer
        )
        scores.append(score / math.sqrt(4 + len(option)))
    return scores
