"""The tasks of decomposed prompting: DecomP's own data sets, CommaQA, and word problems.

Khot et al., "Decomposed Prompting", ICLR 2023, sections 4.1 to 4.3: letters and reversal without a
document, and CommaQA-E as reading comprehension, with a passage but no agents or decompositions.
CommaQA itself (Khot et al., "Hey AI, Can You Solve Complex Tasks by Talking to Agents?", Findings
of ACL 2022) has questions that agents answer together over synthetic worlds; answers of both are
scored alike.

The document of a word problem is the problem itself. GSM8K (Cobbe et al., "Training
Verifiers to Solve Math Word Problems", 2021): JSON lines with ``question`` and
``answer``, which ends with ``####`` and the number. MultiArith (Roy and Roth,
"Solving General Arithmetic Word Problems", EMNLP 2015): JSON lines, or one array,
with ``sQuestion`` and ``lSolutions``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pearl.commaqa.agents import exact_match, f1
from pearl.commaqa.world import read_worlds
from pearl.evaluate.datasets.base import (
    NO_DOCUMENT,
    Dataset,
    Example,
    label,
    reader,
    with_unique_ids,
)
from pearl.lang.errors import InputError
from pearl.lang.numbers import find_last, last_number
from pearl.lang.source import Source, read_source
from pearl.lang.text import one_line
from pearl.lang.values import Value, canonical_json, from_json, to_json

_PUBLISHED = "give a file as DecomP publishes it."


def read(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file in DecomP's form.

    The file is a JSON object whose values have ``qa_pairs``, each with ``question``, ``query_id``
    and ``answer``, whose ``spans`` are the right answer.
    """
    return _read(path, lambda *_: NO_DOCUMENT, ", ".join)


def read_passages(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file, those of one passage together.

    The file is as `read` takes it; the values have a ``passage`` too, and the ``spans`` are in no
    order.
    """

    def document(name: str, group: dict[str, Any]) -> Source:
        passage = group.get("passage")
        if not isinstance(passage, str) or not passage.strip():
            raise InputError(f"{path}: {name} has no passage: {_PUBLISHED}")
        return Source(name, passage)

    return _read(path, document, canonical_json)


def _read(
    path: str,
    document_of: Callable[[str, dict[str, Any]], Source],
    gold_of: Callable[[list[str]], str],
) -> Iterator[Example]:
    """Every question, given a group's document by its name and data, and the gold of spans."""

    def placed() -> Iterator[tuple[str, Example | InputError]]:
        for name, group in _read_groups(path):
            document = document_of(name, group)
            for number, pair in enumerate(group["qa_pairs"], 1):
                where = f"{path}: {name}, question {number}"
                try:
                    id, text, spans = pair["query_id"], pair["question"], pair["answer"]["spans"]
                except (KeyError, TypeError):
                    yield where, InputError(f"{where} has no question, spans and query_id.")
                    continue
                if isinstance(spans, list) and all(isinstance(span, str) for span in spans):
                    yield where, Example(str(id), str(text), document, gold=gold_of(spans))
                else:
                    yield where, InputError(f"{where} has spans that are no list of texts.")

    return with_unique_ids(placed())


def score(example: Example, answer: str) -> float:
    """1 where the answer equals the gold answer, except for spaces and quotation marks around it;
    else 0."""
    gold = example.gold.strip()
    return float(gold in (answer.strip(), answer.strip('"“” \t\r\n')))


def _read_groups(path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The groups of a file, each with its name and at least one question."""
    try:
        data = json.loads(read_source(path, "file of questions").text)
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not JSON: {_PUBLISHED}") from None
    groups = []
    for name, group in data.items() if isinstance(data, dict) else ():
        pairs = group.get("qa_pairs") if isinstance(group, dict) else None
        if isinstance(pairs, list) and pairs:
            groups.append((str(name), group))
    if not groups:
        raise InputError(f"{path} has no qa_pairs: {_PUBLISHED}")
    yield from groups


def read_world_file(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file of worlds, with one world per line; each has its world as ``data``.

    Gold decompositions are left out, so that methods cannot use them. The facts that an answer
    rests on stay, for the baseline that reads them.
    """
    for number, world in enumerate(read_worlds(path), 1):
        questions = (replace(question, hops=(), answers=()) for question in world.questions)
        bare = replace(world, questions=tuple(questions))
        document = Source(f"world {number}", world.context)
        for at, question in enumerate(world.questions, 1):
            yield Example(
                f"{number}.{at}",
                question.text,
                document,
                gold=canonical_json(to_json(question.answer)),
                labels=label("theory", question.theory),
                data=bare,
            )


def score_spans(example: Example, answer: str) -> float:
    """1 where the answer has the gold spans and no others, in any order; else 0."""
    return float(exact_match(_value(answer), _value(example.gold)))


def measure_spans(example: Example, answer: str) -> Mapping[str, float]:
    """F1 over spans, beside the exact match."""
    value, gold = _value(answer), _value(example.gold)
    return {"exact_match": float(exact_match(value, gold)), "f1": f1(value, gold)}


def _value(text: str) -> Value:
    """A value as JSON, or a text as it stands."""
    try:
        return from_json(json.loads(text))
    except (ValueError, RecursionError):
        return text


def _gsm8k(row: Any) -> tuple[Any, str]:  # noqa: ANN401 - any JSON
    _, sign, gold = row["answer"].rpartition("####")
    return row["question"] if sign else None, gold


def _multiarith(row: Any) -> tuple[Any, str]:  # noqa: ANN401 - any JSON
    gold = row["lSolutions"][0]
    return None if isinstance(gold, bool | None) else row["sQuestion"], str(gold)


def _problems(
    parts: Callable[[Any], tuple[Any, str]], missing: str
) -> Callable[[str, str], Iterator[Example]]:
    """How a file of problems is read.

    Args:
        parts: the question of a row, which is no text where it has none, and the answer.
        missing: what a row lacks that has no question or no answer.
    """

    def problem(row: dict[str, Any], where: str) -> Example:
        try:
            question, gold = parts(row)
        except (KeyError, TypeError, AttributeError, IndexError):
            question, gold = None, ""
        if not isinstance(question, str):
            raise InputError(f"{where} has {missing}.")
        if last_number(gold) is None:
            raise InputError(f"{where}: its answer {gold.strip()!r} is no number.")
        text = one_line(question)
        return Example("", text, Source("problem", text), gold=gold.strip())

    return reader("file of problems", problem)


def score_number(example: Example, answer: str) -> float:
    """1 where the answer's last number equals the gold number, however it is written; else 0.

    Gold numbers are in digits, and the question implies their unit: *7 dozen*
    equals both 7 and 84, and *2 million dollars* both 2 and 2000000.
    """
    last = find_last(answer)
    return float(last is not None and last_number(example.gold) in (last.scaled, last.written))


LETTERS = Dataset(
    "letters",
    "Letter concatenation",
    read,
    score,
    "https://github.com/allenai/DecomP",
    ("decomp",),
    libraries=("letters",),
    demonstrations="letters",
)
REVERSAL = replace(
    LETTERS,
    name="reversal",
    title="List reversal",
    libraries=("reversal",),
    demonstrations="reversal",
)
COMMAQA_E = replace(
    LETTERS,
    name="commaqa-e",
    title="CommaQA-E, reading comprehension",
    read=read_passages,
    score=score_spans,
    measures=measure_spans,
    libraries=("commaqa_e_fine",),
    demonstrations="commaqa_e",
)
COMMAQA = Dataset(
    "commaqa",
    "CommaQA",
    read_world_file,
    score_spans,
    "https://github.com/allenai/commaqa, or pearl generate commaqa",
    ("tmn",),
    measures=measure_spans,
    libraries=("commaqa",),
    demonstrations="commaqa",
)
GSM8K = Dataset(
    "gsm8k",
    "GSM8K",
    _problems(_gsm8k, "no question, or no answer after ####"),
    score_number,
    "https://github.com/openai/grade-school-math",
    ("decomp", "zero-shot", "cot", "cot-rolled-out", "least-to-most", "no-context"),
    libraries=("arithmetic",),
    demonstrations="arithmetic",
)
MULTIARITH = replace(
    GSM8K,
    name="multiarith",
    title="MultiArith",
    read=_problems(_multiarith, "no sQuestion, or no lSolutions"),
    where="https://github.com/kojima-takeshi188/zero_shot_cot",
)
