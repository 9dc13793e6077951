"""How right an answer is, where a person says it: by a metric of their own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pearl.lang.extensions import extension, source_digest
from pearl.lang.source import InputError
from pearl.runtime.loop import RunError

Metric: TypeAlias = Callable[[str, str, str], float | Awaitable[float]]
"""Scores an answer from 0 to 1, or as False or True, given the question, the right answer and the
answer. Where there are options, both are their texts."""


@dataclass(frozen=True)
class OwnMetric:
    """A metric with its name, and what tells it from another of that name."""

    name: str
    version: str
    metric: Metric

    async def score(self, question: str, options: Sequence[str], gold: str, answer: str) -> float:
        """The score of an answer, from 0 to 1.

        Args:
            question: what was asked.
            options: what there was to choose from; ``gold`` and ``answer`` are letters then.
            gold: the right answer.
            answer: what was answered.

        Raises:
            RunError: the metric failed, or gave no such score.
        """
        told = (_worded(text, options) for text in (gold, answer))
        try:
            if inspect.iscoroutinefunction(self.metric):
                made = await self.metric(question, *told)
            else:
                made = await asyncio.to_thread(self.metric, question, *told)
            score = float(made)
        except Exception as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise RunError(f"The metric {self.name} failed: {said}") from error
        if not 0 <= score <= 1:
            raise RunError(f"The metric {self.name} gave {score:g}: let it give 0 to 1.")
        return score


def _worded(text: str, options: Sequence[str]) -> str:
    """An option's words in place of its letter."""
    at = ord(text) - ord("A") if len(text) == 1 else -1
    return options[at] if 0 <= at < len(options) else text


def find_metric(metric: str | Metric) -> OwnMetric:
    """A metric of a person's own: a function, or the name under which a package offers one.

    Raises:
        InputError: there is none of that name, or it cannot be loaded or called.
    """
    found = extension("metrics", metric) if isinstance(metric, str) else metric
    if found is None:
        raise InputError(f"No installed package offers the metric {metric} (pearl.metrics).")
    if not callable(found):
        raise InputError(f"The metric {metric} is to be a function of question, gold and answer.")
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
    return OwnMetric(name, source_digest(found), found)
