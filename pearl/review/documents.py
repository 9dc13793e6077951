"""The document that a run read: the same one, and only from the folders that were given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pearl.batch.questions import parse_question
from pearl.evaluate.datasets import DATASETS
from pearl.review.folders import Folders
from pearl.source import InputError, Source
from pearl.store.history import RunRow

_HEAD = re.compile(r"(.*) \(\d+ characters, sha256 ([0-9a-f]{64})\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Found:
    """A document, or why it cannot be shown."""

    source: Source | None = None
    missing: str = ""


def document_of_name(told: str, folders: Folders) -> Found:
    """A document by its name.

    Args:
        told: the name, and behind it the text's hash where that is known.
        folders: where it may be.
    """
    if not told.strip():
        return Found(missing="It is not known which document this was.")
    name, digest = _parted(told)
    if not folders.readable:
        return _not_found(name)
    other = False
    for source in folders.find(name):
        if not digest or source.digest == digest:
            return Found(source)
        other = True
    if other:
        return Found(missing=f"{name} is another text than the one that was read.")
    return _not_found(name)


def document_of_run(told: str, run: RunRow, task: str, folders: Folders) -> Found:
    """The document of one of a run's questions.

    Args:
        told: what its journal says of it.
        run: the run.
        task: the question's id; empty where the run has one only.
        folders: where documents, and files of questions, may be.
    """
    found = document_of_name(told, folders)
    if found.source or not told or not task:
        return found
    name, digest = _parted(told)
    file = folders.inside_any(Path(str(run.head.get("questions", ""))))
    if file is None:
        return found
    home = str(folders.documents or "")
    texts = _of_questions(file, task) if run.kind == "batch" else _of_dataset(file, run, home)
    for text in texts:
        source = Source(name, text)
        if source.digest == digest:
            return Found(source)
    return found


def _parted(told: str) -> tuple[str, str]:
    found = _HEAD.fullmatch(told)
    return (found[1], found[2]) if found else (told, "")


def _not_found(name: str) -> Found:
    return Found(
        missing=f"{name} is in none of the folders that were given: start pearl review with "
        "--documents and the folder that holds it."
    )


def _of_questions(file: Path, task: str) -> Iterator[str]:
    """The document that a batch's row holds itself."""
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                question = parse_question(line, f"{file.name}:{number}")
                if question.id == task and question.text:
                    yield question.text
    except (OSError, ValueError, InputError):
        return


def _of_dataset(file: Path, run: RunRow, home: str) -> Iterator[str]:
    """The documents that an evaluation's data set holds."""
    title = str((run.head.get("evaluation") or {}).get("title", ""))
    for dataset in DATASETS:
        if title.startswith(dataset.title):
            try:
                for example in dataset.read(str(file), home):
                    yield example.document.text
            except InputError:
                return
