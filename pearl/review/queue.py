"""What is reviewed: plans from files, folders, rows, runs and evaluations."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pearl.evaluate.results import read_evaluation
from pearl.lang.parser import parse
from pearl.lang.source import InputError, Source, read_rows, read_source, refuse
from pearl.lang.values import digest
from pearl.review.folders import Folders, is_version
from pearl.runtime.calls import Entry
from pearl.store.history import RunRow, find_run, read_entries, since_last_start
from pearl.store.history import read_rows as stored_rows
from pearl.store.store import storable

if TYPE_CHECKING:
    from sqlalchemy import Engine


Kind = Literal["file", "row", "run", "result"]

LONGEST = 64 * 1024
"""Characters of a plan that can be reviewed."""


@dataclass(frozen=True, slots=True)
class Item:
    """A plan in the queue.

    Args:
        kind: where it came from: a ``file``, a ``row`` of a file, a ``run``
            of the store, a ``result`` of an evaluation's file.
        name: the same for a person, as ``plans/why.plan`` or ``a.jsonl:3``.
        question: what the plan is for; empty where nobody says.
        text: the plan as it was written.
        place: its file, where it lies in a folder that was given; a new
            version may be put beside it.
        run: the run's name, for a plan of the store.
        task: the question's id in that run; empty where it has one only.
        about: what is known of the answer it led to, as JSON data.
    """

    kind: Kind
    name: str
    question: str
    text: str
    place: Path | None = None
    run: str = ""
    task: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """What its verdicts are filed under: it changes where the plan does."""
        return digest([self.kind, self.name, self.text])[:16]


@dataclass(frozen=True, slots=True)
class Queue:
    """What was found.

    Args:
        items: in order, each once.
        left_out: files that were passed over, each with the reason.
    """

    items: tuple[Item, ...]
    left_out: tuple[str, ...] = ()


def read_queue(names: Sequence[str], folders: Folders, engine: Engine, place: str) -> Queue:
    """Every plan that some names stand for.

    Args:
        names: files, folders, ``.jsonl`` files, and runs of the store.
        folders: which folders may be read.
        engine: the store.
        place: its address, as a person wrote it.

    Raises:
        InputError: a name stands for nothing, or for no plan.
    """
    unique: dict[str, Item] = {}
    left_out: list[str] = []
    for name in names:
        path, passed = Path(name), list[str]()
        if path.is_dir():
            items = list(_folder(path, folders, passed))
        elif path.exists() or name == "-":
            items = list(_file(name))
        else:
            items = list(_run_items(name, engine, place))
        if not items:
            refuse(passed)
            raise InputError(f"{name} holds no plan: name plans, a folder of them, or a run.")
        left_out += passed
        for item in items:
            if len(item.text) > LONGEST:
                raise InputError(
                    f"{item.name} is longer than {LONGEST:,} characters: leave it out."
                )
            unique.setdefault(item.id, item)
    return Queue(tuple(unique.values()), tuple(left_out))


def run_of(engine: Engine, name: str) -> RunRow | None:
    """A run by its whole name; None where it is no longer there."""
    try:
        return find_run(engine, name, "the store", time.time())
    except InputError:
        return None


def read_journal(engine: Engine, run: RunRow, task: str) -> list[Entry]:
    """What a run did for one of its questions, the last time it was begun."""
    return since_last_start(list(read_entries(engine, run, task)))


def _folder(folder: Path, folders: Folders, left_out: list[str]) -> Iterator[Item]:
    for file in sorted(folder.rglob("*.plan")):
        if not file.is_file() or is_version(file):
            continue
        inside = folders.inside(file)
        if inside is None:
            left_out.append(f"{file} leads out of {folder}.")
            continue
        try:
            source = read_source(str(file), "plan")
        except InputError as error:
            left_out.append(str(error))
        else:
            yield _plan(source, inside)


def _file(name: str) -> Iterator[Item]:
    if not name.endswith(".jsonl"):
        yield _plan(read_source(name, "plan"))
        return
    first = next(read_rows(name, "file of plans"), (name, {}))[1]
    if "evaluation" in first:
        for result in read_evaluation(name).results:
            where = f"{name}, {result.method}, {result.id}"
            row = {
                "question": result.question,
                "answer": result.words,
                "options": list(result.options),
                "option": result.answer,
                "gold": result.gold,
            }
            yield from _item("result", where, result.plan, row)
        return
    for where, row in read_rows(name, "file of plans"):
        yield from _item("row", where, row.get("plan"), row)


def _plan(source: Source, place: Path | None = None) -> Item:
    question = parse(source).plan.question
    return Item("file", storable(source.name), storable(question), storable(source.text), place)


def _run_items(name: str, engine: Engine, place: str) -> Iterator[Item]:
    """Every plan of a run: its name, the start of it, or ``last``; RUN/ID for one question.

    Raises:
        InputError: there is no such run, or no plan in it.
    """
    start, _, task = name.partition("/")
    try:
        run = find_run(engine, start, place, time.time())
    except InputError as error:
        raise InputError(f"{name} is no file and no folder. {error}") from None
    if not run.has_rows:
        plans = [entry.value for entry in read_journal(engine, run, "") if entry.path == "plan"]
        if not plans or not plans[-1]:
            raise InputError(f"The run {run.name} has no plan: it stopped before one was accepted.")
        yield from _item("run", run.name, plans[-1], run.head, run.name)
        return
    none = True
    for id, stored in stored_rows(engine, run.name):
        row = stored["result"] if isinstance(stored.get("result"), dict) else stored
        if task and id != task:
            continue
        if "method" in row:
            # A row of an evaluation says "words" for the answer, and "answer" for the option.
            row = {**row, "answer": row.get("words"), "option": row.get("answer")}
        for item in _item("run", f"{run.name}/{id}", row.get("plan"), row, run.name, id):
            none = False
            yield item
    if none:
        lack = f"question {task} with a plan" if task else "plan in its rows"
        raise InputError(f"The run {run.name} has no {lack}: pearl runs show {run.name} lists it.")


def _item(
    kind: Kind, name: str, text: object, row: Mapping[str, Any], run: str = "", task: str = ""
) -> Iterator[Item]:
    """A row's plan; nothing where it has none."""
    if not isinstance(text, str) or not text.strip():
        return
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        question = parse(text).plan.question
    question = storable(" ".join(question.split()))
    yield Item(kind, name, question, storable(text), run=run, task=task, about=_about(row))


def _about(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a row what a reviewer may want to see of its answer; nothing of another form."""
    about: dict[str, Any] = {}
    for key in ("id", "answer", "words", "document", "gold"):
        if isinstance(row.get(key), str) and row[key].strip():
            about[key] = row[key]
    option = row.get("option")
    if isinstance(option, dict):
        option = f"{option.get('letter', '')}. {option.get('text', '')}"
    if isinstance(option, str) and option.strip(". "):
        about["option"] = option
    options = row.get("options")
    if isinstance(options, list) and all(isinstance(text, str) for text in options):
        about["options"] = options
        for key in ("option", "gold"):
            at = "ABCDEFGHIJKLMNOPQRSTUVWXYZ".find(about.get(key, ""))
            if len(about.get(key, "")) == 1 and 0 <= at < len(options):
                about[key] = f"{about[key]}. {options[at]}"
    document = row.get("document")
    if isinstance(document, dict) and isinstance(document.get("text"), str):
        about["inline"] = document["text"]
    stored: dict[str, Any] = json.loads(storable(json.dumps(about, ensure_ascii=False)))
    return stored
