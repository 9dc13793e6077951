"""Questions that are asked without a document: FEVER and Compositional Celebrities.

FEVER (Thorne et al., NAACL 2018): claims that Wikipedia supports or refutes, with
two labels, as REBEL's authors ask it. Compositional Celebrities (Press et al.,
Findings of EMNLP 2023): two facts about a well-known person, one after the other;
scored as REBEL's authors score it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pearl.evaluate.datasets.base import (
    NO_DOCUMENT,
    Dataset,
    Example,
    id_of,
    label,
    one_line,
    read_objects,
    reader,
    text_of,
)
from pearl.evaluate.datasets.multihop import MultiHop, contains, measures, normalise
from pearl.lang.errors import InputError

LABELS = ("SUPPORTS", "REFUTES")
UNKNOWN = "NOT ENOUGH INFO"
"""The label of claims that are left out."""

_SAID = re.compile(rf"\b(?:not )?(?:{'|'.join(LABELS)})\b", re.IGNORECASE)
_SYNONYMS = {
    **dict.fromkeys("yes true correct right support supported".split(), LABELS[0]),
    **dict.fromkeys("no false untrue incorrect wrong refute refuted".split(), LABELS[1]),
    **dict.fromkeys(("not true", "not supported"), LABELS[1]),
}
_PLAIN = re.compile(
    r"(?:(yes|no)(?: |$))?(?:(?:(?:this )?(?:claim|statement)|it|that|this)(?: i)?s )?"
    rf"({'|'.join(_SYNONYMS)})?"
)


def score_claim(example: Example, answer: str) -> float:
    """1 where the answer names the right label and not the other one; else 0.

    A label's plain synonym counts where it is the whole answer: ``True.``, ``The claim is false``,
    ``No, it is not true.`` A label that is denied is no label.
    """
    labels = {name.upper() for name in _SAID.findall(answer)}
    plain = _PLAIN.fullmatch(normalise(answer))
    if plain and not labels:
        labels = {_SYNONYMS[word] for word in plain.groups() if word}
    return float(labels == {example.gold})


def _claim(row: dict[str, Any], where: str) -> Example | None:
    """A row with ``id``, ``claim`` and ``label``.

    Claims with not enough information are left out. There is no document: the rows
    say on which pages the evidence stands, and not what these say.
    """
    if row.get("label") == UNKNOWN:
        return None
    gold = row.get("label", "")
    if not isinstance(gold, str) or (gold and gold not in LABELS):
        raise InputError(f"{where}: label is to be one of {', '.join((*LABELS, UNKNOWN))}.")
    claim = text_of(row, "claim", where)
    question = (
        "Is this claim true? Answer SUPPORTS where what is known supports it, and REFUTES where "
        f"it refutes it. Claim: {claim}"
    )
    name = id_of(row, "id", where)
    return Example(name, question, NO_DOCUMENT, gold=gold, labels=label("label", gold))


FEVER = Dataset(
    "fever",
    "FEVER",
    reader("file as FEVER publishes it", _claim),
    score_claim,
    "https://fever.ai (shared_task_dev.jsonl)",
    ("normal", "cot-answer"),
    # Accuracy, under the name that the other data sets have for it.
    measures=lambda example, answer: {"exact_match": score_claim(example, answer)},
    short=True,
)


def read_celebrities(path: str, folder: str = "") -> Iterator[Example]:
    """Every question of a file. There is no document.

    The file is an object whose ``data`` is a list, that list, or one object a line, with
    ``Question``, ``Answer`` (a list: any of them is right) and ``category``.
    """
    rows = read_objects(path, "file as Compositional Celebrities is published", "data")
    # The published rows have no ids.
    for number, (where, row) in enumerate(rows, 1):
        value = row.get("Answer", [])
        answers = value if isinstance(value, list) else [value]
        if not all(isinstance(gold, str | int | float) and str(gold).strip() for gold in answers):
            raise InputError(
                f"{where}: Answer is to be a list of texts or numbers, none of them empty."
            )
        gold, *aliases = [one_line(str(answer)) for answer in answers] or [""]
        yield Example(
            str(number),
            text_of(row, "Question", where),
            NO_DOCUMENT,
            gold=gold,
            labels=label("category", row.get("category")),
            data=MultiHop(aliases=tuple(aliases)),
        )


CELEBRITIES = Dataset(
    "celebrities",
    "Compositional Celebrities",
    read_celebrities,
    contains,
    "https://github.com/ofirpress/self-ask (datasets/compositional_celebrities.json)",
    ("normal", "cot-answer", "rebel"),
    measures=measures,
    short=True,
)
