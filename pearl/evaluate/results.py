"""The results of methods on questions, which runs write and reports read.

Recorded outcomes of other experiments are read as results, too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from pearl.lang.errors import InputError
from pearl.lang.rows import Tabled, as_frame, read_rows
from pearl.models.base import Usage

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a method on one question.

    Args:
        method: the method's name.
        id: the question's id, unique within its split.
        split: the split of the data set, as ``long``; empty where there are none.
        score: 1 for right, 0 for wrong, or partial credit in between.
        gold: the right option's letter, or the gold answer; of several, all of them with " or ".
        answer: the letter of the option that was chosen, or the answer; None
            where there is none (the method failed, or named no option).
        orders: the option chosen under each order of the options, in the
            letters of the first order; only for methods that try several.
        labels: labels of the question, by kind (``context``, ``reasoning``, ``article``).
        question: what was asked.
        options: the options, if there were any.
        words: the open answer from which the option was chosen.
        plan: the plan that was written, in canonical form; empty where none was.
        error: why there is no answer, or why it was not scored; else empty.
        fallback: whether no plan was accepted.
        calls: how many calls of models the answer took.
        usage: the tokens that these calls took when they were sent.
        models: these tokens by model, where several models answered.
        cost: the cost of these tokens in millionths of a dollar; None where no price is known.
        measures: further measures of the answer, by name, as ``f1``.
        reason: a grader's reason for the score; else empty.
        golds: each of the gold answers, where there are several; else empty.
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
    reason: str = ""
    golds: tuple[str, ...] = ()

    @property
    def answered(self) -> bool:
        """Whether there is an option or an answer that could be scored."""
        return self.answer is not None and not self.error

    @property
    def known_score(self) -> float | None:
        """The score; None where the answer was not scored, as there is no gold answer or scoring
        failed. A report counts that as wrong."""
        return None if not self.gold or (self.error and self.answer is not None) else self.score


@dataclass(frozen=True, slots=True)
class Evaluation(Tabled):
    """The results of several methods on the same questions.

    Args:
        title: what was evaluated on what.
        about: facts on how it was run, in order: data, model, library …
        methods: their names, in the order to show them; the others are
            compared with the first.
        asked: how many questions each split has; all of them count in
            accuracy, even without a result.
        results: one for each method and question.
        notes: what a reader must know, in whole sentences.
        strays: recorded rows that belong to no question, with the scores that
            the published figures gave them. Only the share of rows counts them.
        called: names for readers, of methods whose own names say little.
        groups: methods that differ only in the model, the library or the demonstrations,
            where several are compared.
        planned_with: as `pearl.evaluate.methods.base.planned_with` gives it.
    """

    title: str
    about: tuple[tuple[str, str], ...]
    methods: tuple[str, ...]
    asked: Mapping[str, int]
    results: tuple[Result, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    strays: tuple[Result, ...] = field(default=(), repr=False)
    called: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[tuple[str, ...], ...] = ()
    planned_with: Mapping[str, tuple[str, str, str, str]] = field(default_factory=dict)

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

    def frame(self) -> DataFrame:
        """The results as a pandas table (`as_frame`), with a row for each method and question; the
        score is missing where it is not known."""
        return as_frame({**asdict(each), "score": each.known_score} for each in self.results)


FAILED_CALLS, FAILED_TOKENS = "in_vain", "in_vain_tokens"
"""Measures of a result: calls that got no usable answer, and the tokens that they took."""

PROMPT_SET = "prompt set"
"""The name of the fact that says which of several sets of demonstrations was shown."""

SHIPPED = "shipped"
"""The name of the set of demonstrations that is shown where none is named."""

UNFINISHED = "unfinished"
"""The name of the fact that says how much of an unfinished run is done."""


def side_by_side(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Combine evaluations of the same questions, by several models, or by one model with several
    sets of demonstrations or libraries.

    Args:
        evaluations: each has a ``model``, `PROMPT_SET` or ``library`` of its own among its facts.

    Raises:
        InputError: none of these tells them all apart, one is unfinished, or they are not of the
            same questions.
    """
    if len(evaluations) == 1:
        return evaluations[0]
    varied, names = _told_apart([dict(evaluation.about) for evaluation in evaluations])
    by_model = dict(zip(names, evaluations, strict=True))
    for model, evaluation in by_model.items():
        if UNFINISHED in dict(evaluation.about):
            raise InputError(f"The run of {model} is not over: name it alone, or go on with it.")
        if evaluation.asked != evaluations[0].asked or evaluation.title != evaluations[0].title:
            raise InputError("The evaluations are not of the same questions: evaluate them anew.")
    named = [_of_model(own, model) for model, own in by_model.items()]
    every = dict.fromkeys(method for evaluation in evaluations for method in evaluation.methods)
    groups = tuple(
        tuple(f"{method}, {model}" for model, own in by_model.items() if method in own.methods)
        for method in every
    )
    common = set.intersection(*(set(evaluation.about) for evaluation in evaluations))
    facts = [
        (name if (name, text) in common else f"{name} of {model}", text)
        for model, own in by_model.items()
        for name, text in own.about
        if name != varied
    ]
    return replace(
        evaluations[0],
        about=((_PLURALS[varied], ", ".join(by_model)), *dict.fromkeys(facts)),
        methods=tuple(chain(*groups)),
        results=tuple(chain(*(own.results for own in named))),
        notes=tuple(dict.fromkeys(chain(*(own.notes for own in named)))),
        strays=(),
        called={name: words for own in named for name, words in own.called.items()},
        groups=groups,
        planned_with={name: texts for own in named for name, texts in own.planned_with.items()},
    )


_PLURALS = {"model": "models", PROMPT_SET: f"{PROMPT_SET}s", "library": "libraries"}
"""The facts that evaluations side by side may differ in, in one and in several."""


def _told_apart(facts: Sequence[Mapping[str, str]]) -> tuple[str, list[str]]:
    """The fact in which all evaluations differ, and each one's name for it.

    Args:
        facts: the facts of each evaluation.

    Raises:
        InputError: they differ in none.
    """
    sets, models = ([own.get(fact, "") for own in facts] for fact in (PROMPT_SET, "model"))
    # In an evaluation the number of actions follows the names of the libraries.
    named = (re.sub(r", [\d,]+ actions?$", "", own.get("library", "")) for own in facts)
    libraries = [names.replace(", ", " + ") for names in named]
    shown = [name or SHIPPED for name in sets]
    for varied, names in (
        (PROMPT_SET, sets), ("model", models), ("library", libraries), (PROMPT_SET, shown)
    ):  # fmt: skip
        if all(names) and len({*names}) == len(names):
            return varied, names
    raise InputError(
        "Each evaluation is to have a model, library or set of demonstrations that no other has: "
        "leave one out, or compare two runs by pearl runs diff RUN RUN."
    )


def _of_model(evaluation: Evaluation, model: str) -> Evaluation:
    """An evaluation with the name of a model, set of demonstrations or library after each
    method's."""
    called, planned_with = evaluation.called, evaluation.planned_with
    return replace(
        evaluation,
        results=tuple(
            replace(result, method=f"{result.method}, {model}") for result in evaluation.results
        ),
        called={f"{name}, {model}": f"{words}, {model}" for name, words in called.items()},
        planned_with={f"{name}, {model}": texts for name, texts in planned_with.items()},
    )


def from_row(row: Mapping[str, Any]) -> Result:
    """A result from its row, which `dataclasses.asdict` made; missing keys have defaults.

    Raises:
        InputError: it is no row of a result; the message begins with the
            wrong key, so that a place can be put before it.
    """
    for key in ("method", "id"):
        if key not in row:
            raise InputError(f"{key} is missing: give it.")
    for key in row:
        if key not in _TYPES[Result]:
            raise InputError(f"{_quote(key)} is no key of a result: leave it out.")
    result = Result(**_arguments(Result, row))
    if not 0 <= result.score <= 1:
        raise InputError(f"score is to be {_WORDS['float']}.")
    return result


def write_lines(evaluation: Evaluation) -> Iterator[str]:
    """An evaluation as lines of JSON: its head, then a row for each result, and then stray rows as
    ``{"stray": {…}}``."""
    yield _line({"evaluation": {key: getattr(evaluation, key) for key in _HEAD}})
    keys = _TYPES[Result]
    for result in evaluation.results:
        yield _line({key: getattr(result, key) for key in keys})
    for stray in evaluation.strays:
        yield _line({"stray": stray})


def _line(row: dict[str, Any]) -> str:
    text = json.dumps(row, ensure_ascii=False, default=asdict)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # UTF-8 cannot hold a lone surrogate; an escape keeps it.
        text = json.dumps(row, default=asdict)
    return text + "\n"


def read_evaluation(path: str) -> Evaluation:
    """Read what `write_lines` wrote.

    Raises:
        InputError: the file or one of its rows cannot be used.
    """
    rows = iter(list(read_rows(path, "evaluation")))
    where, first = next(rows)
    if "evaluation" not in first and {"id", "status", "document"} <= first.keys():
        raise InputError(
            f"{path} has the answers of a batch: give the name of its run (pearl runs)."
        )
    evaluation = read_head(first.get("evaluation"), where)
    results: dict[tuple[str, str, str], tuple[str, Result]] = {}
    strays: list[Result] = []
    for where, row in rows:
        stray = row.keys() == {"stray"} and isinstance(row["stray"], dict)
        try:
            result = from_row(row["stray"] if stray else row)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        if result.method not in evaluation.methods:
            name = _quote(result.method)
            raise InputError(f"{where}: {name} is not among the methods of line 1.")
        if result.split not in evaluation.asked:
            name = _quote(result.split)
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
    recorded = tuple(result for _, result in results.values())
    return replace(evaluation, results=recorded, strays=tuple(strays))


_HEAD = tuple(item.name for item in fields(Evaluation) if item.name not in ("results", "strays"))


def read_head(data: Any, where: str) -> Evaluation:  # noqa: ANN401 - any JSON
    """An evaluation without its results, from the first line that `write_lines` writes.

    Raises:
        InputError: it is no such line; the message begins with the place, ``where``.
    """
    if not isinstance(data, dict):
        raise InputError(
            f'{where} has no "evaluation": the first line says what was evaluated, '
            "as pearl eval writes it."
        )
    try:
        arguments = _arguments(Evaluation, {key: data[key] for key in _HEAD if key in data})
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    for key in _HEAD:
        if key not in data and key not in ("called", "groups", "planned_with"):
            raise InputError(f"{where}: {key} is missing in the evaluation: give it.")
    methods = set(arguments["methods"])
    if not methods or len(methods) < len(arguments["methods"]):
        wrong = "names one twice: give each once" if methods else "is empty: name at least one"
        raise InputError(f"{where}: methods {wrong}.")
    if not all(group and methods.issuperset(group) for group in arguments.get("groups", ())):
        raise InputError(f"{where}: groups is to be lists of methods, none of them empty.")
    return Evaluation(results=(), **arguments)


def _quote(name: str) -> str:
    return f'"{name[:60]}"'


_WORDS: Mapping[str, str] = {
    "str": "a text",
    "str | None": "a text or null",
    "bool": "true or false",
    "int": "a whole number from 0",
    "int | None": "a whole number or null",
    "float": "a number from 0 to 1",
    "Usage": "counts of tokens",
    "tuple[str, ...]": "a list of texts",
    "tuple[str | None, ...]": "a list of texts and nulls",
    "tuple[tuple[str, str], ...]": "a list of pairs of texts",
    "tuple[tuple[str, ...], ...]": "a list of lists of texts",
    "Mapping[str, str]": "texts by method",
    "Mapping[str, int]": "counts by split",
    "Mapping[str, float]": "numbers by name",
    "Mapping[str, Usage]": "counts of tokens by model",
    "Mapping[str, tuple[str, ...]]": "lists of texts by kind",
    "Mapping[str, tuple[str, str, str, str]]": (
        "library, actions, demonstrations and handlers by method"
    ),
}
"""Descriptions of a field's type for messages, by its annotation."""


_TYPES: Mapping[type, Mapping[str, Any]] = {
    kind: get_type_hints(kind) for kind in (Result, Evaluation)
}


_MOST = 1 << 63
"""An upper bound on all counts and measures."""


@cache
def _parts(kind: Any) -> tuple[Any, tuple[Any, ...]]:  # noqa: ANN401 - any type
    return get_origin(kind), get_args(kind)


def _arguments(kind: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """JSON data converted to the types of a class's fields.

    Raises:
        InputError: a value has another type; the message begins with the field's name.
    """
    types, arguments = _TYPES[kind], {}
    for key, value in data.items():
        try:
            arguments[key] = _read(types[key], value)
        except (TypeError, ValueError):
            raise InputError(f"{key} is to be {_WORDS[kind.__annotations__[key]]}.") from None
    return arguments


def _read(kind: Any, data: Any) -> Any:  # noqa: ANN401 - any type, and any JSON
    """JSON data as a value of a type: lists become tuples, and whole numbers must be at least 0.

    Raises:
        TypeError, ValueError: the data have another type.
    """
    if type(data) is kind and kind in (str, bool):
        return data
    origin, of = _parts(kind)
    if origin is UnionType:
        return None if data is None else _read(of[0], data)
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise TypeError
        kinds = of[:1] * len(data) if of[-1] is ... else of
        return tuple(_read(*pair) for pair in zip(kinds, data, strict=True))
    if origin is Mapping:
        if not isinstance(data, dict):
            raise TypeError
        return {name: _read(of[1], value) for name, value in data.items()}
    if kind is Usage:
        return Usage(**_read(Mapping[str, int], data))
    fits = type(data) is kind or (kind is float and type(data) is int)
    # Of NaN no comparison is true.
    if not fits or not abs(data) < _MOST or (kind is int and data < 0):
        raise TypeError
    return data


# Recorded outcomes as an evaluation, to report a finished experiment without a model. Each line is
# a JSON object with the keys of `_KEYS`, the format of the outcomes of PEARL's published runs.

CALLED: Mapping[str, str] = MappingProxyType(
    {
        "baseline_gqa_out": "zero-shot",
        "pearl_out": "PEARL run 1",
        "pearl_out_1": "PEARL run 2",
        "baseline_mcq_out": "multiple choice",
    }
)
"""Names for the methods of the published outcomes, in the order to show them."""

LAST = "D"
"""The last option, unless some gold answer is a later letter: QuALITY's questions have four."""

_KEYS: Mapping[str, Any] = MappingProxyType(
    {"split": str, "method": str, "qid": str | int, "answer": str | None, "gold": str | None}
)


def read_outcomes(path: str) -> Evaluation:
    """Read recorded outcomes.

    A question is identified by its split and number, and counts if some row
    gives its gold option. A row whose question has no gold option anywhere is
    a fragment of a broken file: it counts only in the share of rows, as in the
    published figures. They take a fragment without an answer for right.

    Args:
        path: the file of outcomes.

    Raises:
        InputError: the file or a row cannot be used; the message names the
            file and the line.
    """
    rows = [(where, _row(row, where)) for where, row in read_rows(path, "file of outcomes")]
    golds: dict[tuple[str, str], tuple[str, str]] = {}
    for where, row in rows:
        if row.gold:
            # The same number stands for another question in another split.
            gold, first = golds.setdefault((row.split, row.id), (row.gold, where))
            if gold != row.gold:
                raise InputError(
                    f"{where} has another gold option than {first} for the same question: mend "
                    "one of them."
                )
    if not golds:
        raise InputError(f'{path} has no question: give rows such as {{"gold": "B", …}}.')
    last = max([LAST, *(gold for gold, _ in golds.values() if _is_letter(gold))])
    results: dict[tuple[str, str, str], tuple[str, Result]] = {}
    for where, row in rows:
        key = (row.method, row.split, row.id)
        if key in results:
            raise InputError(
                f"{where} has the method and the question of {results[key][0]}: keep one of them."
            )
        results[key] = (where, _score(row, golds.get(key[1:], ("", ""))[0], last))
    methods = dict.fromkeys(row.method for _, row in rows)
    called = {method: name for method, name in CALLED.items() if method in methods}
    sizes = dict(Counter(split for split, _ in golds))
    splits = ", ".join(f"{split or 'no split'} {count:,}" for split, count in sizes.items())
    about = [("file", path), ("questions", f"{len(golds):,}: {splits}")]
    if called:
        names = ", ".join(f"{name} = {method}" for method, name in called.items())
        about.append(("methods", names))
    evaluation = Evaluation(
        title=f"Recorded outcomes: {Path(path).name}",
        about=tuple(about),
        methods=tuple(dict.fromkeys([*called, *methods])),
        asked=sizes,
        results=tuple(result for key, (_, result) in results.items() if key[1:] in golds),
        strays=tuple(result for key, (_, result) in results.items() if key[1:] not in golds),
        called=called,
    )
    return replace(evaluation, notes=tuple(_notes(evaluation, last)))


def _row(row: dict[str, Any], where: str) -> Result:
    """A row as a result that is not scored yet; its answer is in ``words``."""
    for key, kinds in _KEYS.items():
        if key not in row:
            raise InputError(f"{where} has no {key}: give {', '.join(_KEYS)}.")
        if not isinstance(row[key], kinds) or isinstance(row[key], bool):
            raise InputError(f"{where}: {key} is to be a text.")
    if not row["method"].strip():
        raise InputError(f"{where} names no method: give one.")
    gold, answer = ((row[key] or "").strip() for key in ("gold", "answer"))
    return Result(row["method"], str(row["qid"]), row["split"], gold=gold, words=answer)


def _score(row: Result, gold: str, last: str) -> Result:
    names_option = _is_letter(row.words) and row.words <= last
    # If the gold answer is no letter, any text is an answer.
    open_answer = gold and not _is_letter(gold) and row.words
    answer = row.words if names_option or open_answer else None
    # The published figures take a row with neither answer nor gold option for right.
    score = float(answer == gold) if gold else float(row.words == row.gold)
    return replace(row, score=score, gold=gold, answer=answer, words="" if answer else row.words)


def _is_letter(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text.isupper()


def _notes(evaluation: Evaluation, last: str) -> Iterator[str]:
    yield (
        "The published way of counting is right ÷ recorded rows: the column % of rows. Beside it "
        "stand the share of the rows that name an option, and the share of all questions, where "
        "one that a method has no row for is wrong."
    )
    if strays := evaluation.strays:
        counts = Counter(stray.method for stray in strays)
        owners = ", ".join(
            f"{counts[method]:,} of {evaluation.name_of(method)}"
            for method in evaluation.methods
            if counts[method]
        )
        noun = "row is a fragment" if len(strays) == 1 else "rows are fragments"
        gaps = sum(stray.score == 1 for stray in strays)
        yield (
            f"{len(strays):,} recorded {noun} of a broken file ({owners}) and no question, without "
            "a gold option: counted among the rows, as in the published figures, and nowhere else."
        ) + (
            f" In {gaps:,} of them both the answer and the gold option are missing, which the "
            "published count takes for right; the count of questions leaves them out."
            if gaps
            else ""
        )
    unnamed = Counter(result.words for result in evaluation.results if result.answer is None)
    if unnamed:
        forms = ", ".join(f'"{text}"' if text else "nothing" for text, _ in unnamed.most_common(5))
        more = ", …" if len(unnamed) > 5 else ""
        count = unnamed.total()
        rows = "row of a question names" if count == 1 else "rows of questions name"
        yield (
            f"{count:,} {rows} no option from A to {last} ({forms}{more}): "
            "without one, an answer is wrong."
        )
