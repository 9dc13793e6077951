"""An evaluation in one number a measure."""

from __future__ import annotations

import re

from pearl.evaluate.results import Evaluation

_SCORES = re.compile(r"exact_match|f1|(?:sp|triples|joint)_\w+|recall_at_\d+|format")
"""Names of measures that a question without them has 0 of."""

_COUNTED = ("agent_calls",)
"""Names of measures that are summed up, as costs of the whole."""

_TOLD = {"seconds": "seconds_a_question"}
"""Names of measures that beside a run's own figures would be taken for one of them."""


def means_of(evaluation: Evaluation) -> dict[str, float]:
    """The means of the first method's measures.

    Scores count over all questions asked, those without any as 0; other
    measures, as hops, over the questions that have them.

    Args:
        evaluation: what is summed up.
    """
    total = sum(evaluation.asked.values())
    found: dict[str, list[float]] = {}
    for result in evaluation.results:
        if result.method == evaluation.methods[0]:
            for name, value in result.measures.items():
                found.setdefault(name, []).append(value)
    return {
        _TOLD.get(name, name): sum(values)
        / (1 if name in _COUNTED else total if _SCORES.fullmatch(name) else len(values))
        for name, values in found.items()
    }
