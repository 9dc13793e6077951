"""What methods came to on questions: the one shape that runs write and reports read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from pearl.lang.source import InputError, read_rows
from pearl.models.base import Usage


@dataclass(frozen=True, slots=True)
class Result:
    """What a method came to on one question.

    Args:
        method: its name.
        id: the question's, unique within its split.
        split: the part of the data set, as ``long``; empty where there are none.
        score: 1 for right, 0 for wrong; in between where a data set scores in parts.
        gold: the right option's letter, or the right answer.
        answer: the letter of the option that was chosen, or the answer; None
            where there is none (the method failed, or named no option).
        orders: the option chosen under each order of the options, in the
            letters of the first order; only for methods that try several.
        labels: kinds the question belongs to, by what they tell apart
            (``context``, ``reasoning``, ``article``).
        question: what was asked.
        options: what there was to choose from.
        words: the open answer that the option was chosen by.
        plan: the plan that was written, in canonical form; empty where none was.
        error: why there is no answer; empty where there is one.
        fallback: whether no plan was accepted.
        calls: calls that the answer took.
        usage: the tokens they took when they were made.
        models: the same by model, where several answered.
        cost: of the same, in millionths of a dollar; None where no price is known.
        measures: more figures on the answer, by name, as ``f1``.
    """

    method: str
    id: str
    split: str = ""
    score: float = 0.0
    gold: str = ""
    answer: str | None = None
    orders: tuple[str | None, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    question: str = ""
    options: tuple[str, ...] = ()
    words: str = ""
    plan: str = ""
    error: str = ""
    fallback: bool = False
    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    models: Mapping[str, Usage] = field(default_factory=dict)
    cost: int | None = None
    measures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Methods side by side on the same questions.

    Args:
        title: what was evaluated on what.
        about: facts on how it was run, in order: data, model, library …
        methods: their names, in the order to show them; the first is what the
            others are compared with.
        asked: how many questions each split has; every one of them counts in
            a denominator, whether a method has a result for it or not.
        results: one a method and question.
        notes: what a reader must know, in whole sentences.
        strays: recorded rows that belong to no question, scored as whoever
            recorded them scored them. A share of the rows counts them, and
            nothing else does.
        called: words for methods whose names say little.
        groups: methods that differ in the model alone, where several models stand side by side.
        planned_with: as `pearl.evaluate.context.planned_with` has it.
    """

    title: str
    about: tuple[tuple[str, str], ...]
    methods: tuple[str, ...]
    asked: Mapping[str, int]
    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    strays: tuple[Result, ...] = ()
    called: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[tuple[str, ...], ...] = ()
    planned_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def name_of(self, method: str) -> str:
        """A method's name for a reader."""
        return self.called.get(method, method)

    def count(self, split: str | None = None) -> int:
        """How many questions a split has, or all splits together."""
        return sum(self.asked.values()) if split is None else self.asked[split]

    def results_of(
        self, method: str, split: str | None = None, *, strays: bool = False
    ) -> list[Result]:
        """A method's results of one split or of all; or, in place of them, its strays."""
        return [
            result
            for result in (self.strays if strays else self.results)
            if result.method == method and split in (None, result.split)
        ]


PROMPT_SET = "prompt set"
"""The fact that says which of several sets of demonstrations was shown."""


def side_by_side(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Evaluations of the same questions as one, those of a method together.

    They are by several models, or one model was shown several sets of demonstrations.

    Args:
        evaluations: each with its ``model``, or its `PROMPT_SET`, among its facts.

    Raises:
        InputError: two are of one model, or they are not of the same questions.
    """
    if len(evaluations) == 1:
        return evaluations[0]
    sets = {dict(one.about).get(PROMPT_SET, "") for one in evaluations}
    varied = PROMPT_SET if len(sets) > 1 else "model"
    by_model: dict[str, Evaluation] = {}
    for one in evaluations:
        model = dict(one.about).get(varied, "")
        if not model or model in by_model:
            raise InputError(
                f"Two of the evaluations are of {model}: name one of each {varied}."
                if model
                else f"An evaluation names no {varied}, so it cannot stand beside another."
            )
        if one.asked != evaluations[0].asked or one.title != evaluations[0].title:
            raise InputError("The evaluations are not of the same questions: evaluate them anew.")
        by_model[model] = one
    every = dict.fromkeys(method for one in evaluations for method in one.methods)
    groups = tuple(
        tuple(f"{method}, {model}" for model, one in by_model.items() if method in one.methods)
        for method in every
    )
    facts = [
        (
            name if all((name, text) in one.about for one in evaluations) else f"{name} of {model}",
            text,
        )
        for model, one in by_model.items()
        for name, text in one.about
        if name != varied
    ]
    return replace(
        evaluations[0],
        about=((f"{varied}s", ", ".join(by_model)), *dict.fromkeys(facts)),
        methods=tuple(name for group in groups for name in group),
        results=tuple(
            replace(result, method=f"{result.method}, {model}")
            for model, one in by_model.items()
            for result in one.results
        ),
        notes=tuple(dict.fromkeys(note for one in evaluations for note in one.notes)),
        strays=(),
        called={
            f"{method}, {model}": f"{words}, {model}"
            for model, one in by_model.items()
            for method, words in one.called.items()
        },
        groups=groups,
        planned_with={
            f"{method}, {model}": texts
            for model, one in by_model.items()
            for method, texts in one.planned_with.items()
        },
    )


def as_row(result: Result) -> dict[str, Any]:
    """A result as a row of JSON."""
    return {
        **{one.name: getattr(result, one.name) for one in fields(Result)},
        "orders": list(result.orders),
        "labels": {kind: list(values) for kind, values in result.labels.items()},
        "options": list(result.options),
        "usage": asdict(result.usage),
        "models": {model: asdict(usage) for model, usage in result.models.items()},
        "measures": dict(result.measures),
    }


def from_row(row: dict[str, Any]) -> Result:
    """A result from its row; keys that are not there take their usual values.

    Raises:
        InputError: it is no row of a result; the message says which key, and
            begins with it, so that a place can be put before it.
    """
    for key in ("method", "id"):
        if key not in row:
            raise InputError(f"{key} is missing: give it.")
    for key, value in row.items():
        if key not in _READ:
            raise InputError(f"{_quoted(key)} is no key of a result: leave it out.")
        if not _READ[key].fits(value):
            raise InputError(f"{key} is to be {_READ[key].words}.")
    return Result(**{key: _READ[key].made(value) for key, value in row.items()})


def write_lines(evaluation: Evaluation) -> Iterator[str]:
    """An evaluation as lines of JSON: what it is, then a row a result.

    A stray row stands after the results, as ``{"stray": {…}}``.
    """
    yield _line({"evaluation": {key: getattr(evaluation, key) for key in _HEAD}})
    yield from (_line(as_row(result)) for result in evaluation.results)
    yield from (_line({"stray": as_row(stray)}) for stray in evaluation.strays)


def _line(row: dict[str, Any]) -> str:
    text = json.dumps(row, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Half a surrogate pair cannot be written as UTF-8, and is to come back as it was.
        text = json.dumps(row)
    return text + "\n"


def read_evaluation(path: str) -> Evaluation:
    """Read what `write_lines` wrote.

    Raises:
        InputError: the file or one of its rows cannot be used.
    """
    rows = read_rows(path, "evaluation")
    where, first = next(rows)
    head = _head(first.get("evaluation"), where)
    results: dict[tuple[str, str, str], tuple[str, Result]] = {}
    strays: list[Result] = []
    for where, row in rows:
        stray = row.keys() == {"stray"} and isinstance(row["stray"], dict)
        try:
            result = from_row(row["stray"] if stray else row)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        if result.method not in head["methods"]:
            name = _quoted(result.method)
            raise InputError(f"{where}: {name} is not among the methods of line 1.")
        if result.split not in head["asked"]:
            name = _quoted(result.split)
            raise InputError(f"{where}: the split {name} is not in asked of line 1.")
        key = (result.method, result.split, result.id)
        if stray:
            strays.append(result)
        elif key in results:
            raise InputError(
                f"{where} repeats {results[key][0]}: keep one result a method and question."
            )
        else:
            results[key] = (where, result)
    found = tuple(result for _, result in results.values())
    return Evaluation(results=found, strays=tuple(strays), **head)


def _head(given: Any, where: str) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """The header as the arguments of an `Evaluation`."""
    if not isinstance(given, dict):
        raise InputError(
            f'{where} has no "evaluation": the first line says what was evaluated, '
            "as pearl eval writes it."
        )
    for key, reader in _HEAD.items():
        if key not in given and key not in ("called", "groups", "planned_with"):
            raise InputError(f"{where}: {key} is missing in the evaluation: give it.")
        if key in given and not reader.fits(given[key]):
            raise InputError(f"{where}: {key} is to be {reader.words}.")
    head = {key: reader.made(given[key]) for key, reader in _HEAD.items() if key in given}
    if len(set(head["methods"])) < len(head["methods"]):
        raise InputError(f"{where}: methods names one twice: give each once.")
    return head


def _quoted(name: str) -> str:
    return f'"{name[:60]}"'


@dataclass(frozen=True, slots=True)
class _Reader:
    """How a value is read from JSON: what fits, in words, and what is made of it."""

    words: str
    fits: Callable[[Any], bool]
    made: Callable[[Any], Any] = lambda value: value


def _is(*kinds: type | None) -> Callable[[Any], bool]:
    """Whether a value is of one of these types; a truth value is no number."""
    return lambda value: (None if value is None else type(value)) in kinds


def _list(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _by_name(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def _is_number(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return type(value) in (int, float) and math.isfinite(value)


def _is_count(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return type(value) is int and value >= 0


_TEXT = _Reader("a text", _is(str))
_TEXTS = _Reader("a list of texts", _list(_is(str)), tuple)


def _is_usage(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return _by_name(_is_count)(value) and value.keys() <= asdict(Usage()).keys()


_READ: Mapping[str, _Reader] = {
    **dict.fromkeys(("method", "id", "split", "gold", "question", "words", "plan", "error"), _TEXT),
    "score": _Reader("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1),
    "answer": _Reader("a text or null", _is(str, None)),
    "orders": _Reader("a list of texts and nulls", _list(_is(str, None)), tuple),
    "labels": _Reader(
        "lists of texts by kind",
        _by_name(_list(_is(str))),
        lambda value: {kind: tuple(names) for kind, names in value.items()},
    ),
    "options": _TEXTS,
    "fallback": _Reader("true or false", _is(bool)),
    "calls": _Reader("a whole number from 0", _is_count),
    "usage": _Reader("counts of tokens", _is_usage, lambda value: Usage(**value)),
    "models": _Reader(
        "counts of tokens by model",
        _by_name(_is_usage),
        lambda value: {model: Usage(**usage) for model, usage in value.items()},
    ),
    "measures": _Reader("numbers by name", _by_name(_is_number), dict),
    "cost": _Reader("a whole number or null", lambda value: value is None or _is_count(value)),
}
_HEAD: Mapping[str, _Reader] = {
    "title": _TEXT,
    "about": _Reader(
        "a list of pairs of texts",
        _list(lambda value: _list(_is(str))(value) and len(value) == 2),
        lambda value: tuple(map(tuple, value)),
    ),
    "methods": _TEXTS,
    "asked": _Reader("counts by split", _by_name(_is_count), dict),
    "notes": _TEXTS,
    "called": _Reader("texts by method", _by_name(_is(str)), dict),
    "groups": _Reader(
        "a list of lists of texts",
        _list(_list(_is(str))),
        lambda value: tuple(map(tuple, value)),
    ),
    "planned_with": _Reader(
        "library, actions, demonstrations and handlers by method",
        _by_name(lambda value: _list(_is(str))(value) and len(value) == 4),
        lambda value: {method: tuple(texts) for method, texts in value.items()},
    ),
}
