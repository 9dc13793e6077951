"""How right an answer is: by the words of a gold answer, or, if the user chooses, by their own
function or by a rubric."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol, SupportsFloat, TypeAlias

from pearl.lang.entry_points import extension, failure_text, offered, source_digest
from pearl.lang.errors import InputError
from pearl.lang.numbers import in_digits
from pearl.lang.source import read_source
from pearl.lang.text import close_name, composed
from pearl.lang.values import digest
from pearl.models.base import OFFLINE, Model, ModelError
from pearl.models.routing import Models, choose_model, members, planner_of, readers_of
from pearl.prompts.calls import FillSchema
from pearl.prompts.render import load_schema
from pearl.retrieval.terms import UNSPACED
from pearl.runtime.binding import call, is_interruption
from pearl.runtime.calls import SchemaError, fill
from pearl.session import Session
from pearl.strategies.preparation import NEEDS_MODEL

GRADING = "grade"
"""The path of the grading in a trial's journal."""

GRADES: Mapping[str, float] = MappingProxyType({"wrong": 0.0, "partly": 0.5, "right": 1.0})
"""The score of each grade that a model may give."""


def holds(answer: str, *golds: str) -> bool:
    """Whether an open answer contains one of the gold answers: its words, in their order. Case and
    articles before words do not count, as in comparisons with SQuAD (Rajpurkar et al., 2016).

    Numbers are compared by value: ``148,000`` equals ``148000``, as 2.50 equals 2.5, ``3.750,00``
    equals 3750, 1.2 million equals 1200000, and twelve equals 12; -5 and 5 differ. A number with
    two readings, as ``3.750``, equals both. Times, *C++* and *C#* are words. A gold answer of yes,
    no, not, true, false, nothing or none counts only if a sentence consists of it, begins with it
    and punctuation, or says that it is the answer: *no claim was made* does not contain *no*.
    Nothing and none also count at the end of an answer of one sentence: *he found nothing*.
    """
    verdicts = [_VERDICTS.get(gold.strip().casefold(), "") for gold in golds]
    if any(re.search(verdict, answer, re.IGNORECASE) for verdict in verdicts if verdict):
        return True
    golds = tuple(gold for gold, verdict in zip(golds, verdicts, strict=True) if not verdict)
    return any(
        f" {gold} " in f" {words} "
        for words, *right in ([*map(_words, (answer, *golds))],
                              [_ARTICLE.sub("", _words(text)) for text in (answer, *golds)],
                              [_words(in_digits(text)) for text in (answer, *golds)])
        for gold in right
    )  # fmt: skip


_SAID = r"(?:^|[.?!:\n]|\b(?:is|was|answer)\b)[\W_]*+"
_ALONE = r"\b\s*(?:[^\w\s]|\n|$)"
_VERDICTS = {
    "yes": rf"{_SAID}yes\b",
    **{word: _SAID + word + _ALONE for word in ("no", "not", "true", "false")},
    **{word: rf"{_SAID}{word}{_ALONE}|\A[^.?!\n]*\b{word}\W*\Z" for word in ("nothing", "none")},
}
"""By gold answer, the pattern of a sentence that gives it: these words may also begin a phrase."""


def _words(text: str) -> str:
    """A text's words with spaces between them, and numbers in canonical form; in a script without
    spaces between words, each character is a word."""
    spaced = UNSPACED.sub(lambda run: f" {' '.join(run[0])} ", composed(text).casefold())
    return " ".join(map(_plain, _WORD.findall(_MINUS.sub("-", spaced))))


_ARTICLE = re.compile(r"\b(?:an?|the) (?=\w)")
_MINUS = re.compile(r"(?<![\w)\]])(?:[-−]|minus\s+)[$€£]?(?=\.?\d)")
_WORD = re.compile(
    r"(?:(?<![\w)\]])-(?=\.?\d))?"
    r"(?:\d{1,3}(?:,\d{3})+(?![,\d]*\d)(?:\.\d+)?|(?<!\w)\.\d+|\d+\.\d+|\d+(?::\d\d)+"
    r"|[^\W\d]++[+#]++(?!\w)|\w+)"
)


def _plain(word: str) -> str:
    """A number without thousands separators and extra zeros; any other word unchanged."""
    plain = re.sub(r"^(-?)0*\.", r"\g<1>0.", word.replace(",", ""))
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


class Score(NamedTuple):
    """The score of an answer, from 0 to 1, and the reason; empty where none is given."""

    value: float
    reason: str = ""


class Scorer(Protocol):
    """Scores answers."""

    @property
    def name(self) -> str:
        """Its name in reports."""
        ...

    @property
    def version(self) -> str:
        """A hash that tells it from others of the same name."""
        ...

    async def score(
        self, question: str, options: Sequence[str], gold: str, answer: str, session: Session
    ) -> Score:
        """The score of an answer.

        Args:
            question: what was asked.
            options: the options, if there were any; then ``gold`` and ``answer`` are letters.
            gold: the gold answer.
            answer: the answer to score.
            session: the model in its layers, and the journal.

        Raises:
            ModelError: there is no score (reason ``metric``), or the model that grades gave no
                usable answer.
        """
        ...


async def best_score(
    scorer: Scorer,
    question: str,
    options: Sequence[str],
    golds: Sequence[str],
    answer: str,
    session: Session,
) -> Score:
    """The best score of an answer against several gold answers.

    They are tried one by one up to the first score of 1, as a grader costs money each time.
    """
    scores: list[Score] = []
    for gold in golds:
        scores.append(await scorer.score(question, options, gold, answer, session))
        if scores[-1].value == 1:
            break
    return max(scores, key=attrgetter("value"))


MetricFunction: TypeAlias = Callable[[str, str, str], float | Awaitable[float]]
"""Scores an answer from 0 to 1, or as False or True, given the question, the gold answer and the
answer. Where there are options, both answers are the options' texts."""


@dataclass(frozen=True)
class OwnMetric:
    """A function as a `Scorer`."""

    name: str
    version: str
    function: MetricFunction

    async def score(
        self, question: str, options: Sequence[str], gold: str, answer: str, session: Session
    ) -> Score:
        """As `Scorer.score`."""
        words = (option_words(text, options) for text in (gold, answer))
        try:
            result = await call(self.function, question, *words)
            # NumPy's booleans are no Python numbers, but can be converted.
            score = float(result) if isinstance(result, SupportsFloat) else -1.0
        except BaseException as error:
            if is_interruption(error):
                raise
            message = f"The metric {self.name} failed: {failure_text(error)}"
            raise ModelError("metric", message) from error
        if not 0 <= score <= 1:
            message = f"The metric {self.name} gave {str(result)[:80]}: let it give 0 to 1."
            raise ModelError("metric", message)
        return Score(score)


@dataclass(frozen=True)
class Graded:
    """A metric in which a model grades answers by a rubric: wrong is 0, partly 0.5, and right 1.

    Args:
        rubric: what makes an answer right: a text, or a `Path` of a file with it.
        model: the name of the model that grades, as `choose_model` takes it; empty for the model
            that reads.

    Raises:
        InputError: the rubric cannot be read, or is empty.
    """

    rubric: str | Path
    model: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.rubric, Path):
            object.__setattr__(self, "rubric", read_source(str(self.rubric), "rubric").text)
        if not str(self.rubric).strip():
            raise InputError("The rubric is empty: say what makes an answer right.")

    @property
    def name(self) -> str:
        """Its name in reports."""
        return f"graded by {self.model or 'the reader'} with a rubric"

    @property
    def version(self) -> str:
        """The hash of the rubric."""
        return digest(str(self.rubric))

    async def score(
        self, question: str, options: Sequence[str], gold: str, answer: str, session: Session
    ) -> Score:
        """As `Scorer.score`."""
        gold, answer = (option_words(text, options) for text in (gold, answer))
        inputs = (("question", question), ("rubric", str(self.rubric).strip()),
                  ("right_answer", gold), ("answer", answer))  # fmt: skip
        call = FillSchema(load_schema("grade"), inputs, model=self.model)
        try:
            reply = await fill(session.caller(), call, GRADING)
        except SchemaError as error:
            raise ModelError("metric", f"No grade was given: {error}") from None
        session.journal.decide(GRADING, reply)
        return Score(GRADES[reply["grade"]], reply["reason"])


def option_words(text: str, options: Sequence[str]) -> str:
    """The words of the option with this letter; any other text unchanged."""
    at = ord(text) - ord("A") if len(text) == 1 else -1
    return options[at] if 0 <= at < len(options) else text


Metric: TypeAlias = "str | MetricFunction | Graded"
"""What a user may choose: a function, the name under which a package offers one, or a rubric."""


def find_metric(metric: Metric) -> Scorer | None:
    """The scorer for a user's choice of metric; None for an empty name.

    Raises:
        InputError: there is no metric of that name, or it cannot be loaded or called.
    """
    if metric == "":
        return None
    if isinstance(metric, Graded):
        return metric
    function = extension("metrics", metric) if isinstance(metric, str) else metric
    if function is None:
        names = offered("metrics")
        close = close_name(str(metric), names)
        there = f": use one of {', '.join(names)}." if names else " (pearl.metrics)."
        raise InputError(f"No installed package offers the metric {metric}{close}{there}")
    if not callable(function):
        raise InputError(f"The metric {metric} is to be a function of question, gold and answer.")
    name = metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")
    return OwnMetric(name, source_digest(function), function)


def with_grader(model: Model, metric: Scorer | None) -> Model:
    """A run's models, with the one that grades added where the metric needs one.

    Raises:
        InputError: there is no such model, or it is no language model.
    """
    if not isinstance(metric, Graded):
        return model
    if metric.model in ("", readers_of(model)[0].name):
        grader = readers_of(model)[0]
    else:
        by_name = {member.name: member for member in members(model)}
        grader = by_name.get(metric.model) or choose_model(metric.model)
    if grader.name == OFFLINE:
        raise InputError(f"Grading by a rubric {NEEDS_MODEL}")
    if not metric.model:
        return model
    named = model.actions if isinstance(model, Models) else {}
    actions = MappingProxyType({**named, metric.model: grader})
    return Models(planner_of(model), readers_of(model)[0], actions)
