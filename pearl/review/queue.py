"""What is reviewed: plans from files, folders, rows, runs and evaluations.

Plans of runs that are in the store.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pearl.evaluate.results import Evaluation, Result, read_evaluation
from pearl.lang.parser import parse
from pearl.lang.source import InputError, Source, read_rows, read_source
from pearl.lang.values import digest
from pearl.review.folders import Folders, is_version
from pearl.run.journal import Entry
from pearl.store.history import RunRow, find_run, read_entries, since_last_start
from pearl.store.history import read_rows as stored_rows
from pearl.store.store import storable

if TYPE_CHECKING:
    from sqlalchemy import Engine


def read_run_plans(
    name: str, engine: Engine, place: str
) -> Iterator[tuple[str, str, str, str, dict[str, Any]]]:
    """Every plan of a run.

    Args:
        name: the run's, the start of it, or ``last``; RUN/ID for one question.
        engine: the store.
        place: its address, as a person wrote it.

    Returns:
        For each plan how a person calls it, the run's name, the question's id,
        the plan's text, and what else is known of the question.

    Raises:
        InputError: there is no such run, or no plan in it.
    """
    run = _find(name, engine, place)
    _, _, task = name.partition("/")
    if not run.has_rows:
        text = planned(journal(engine, run, ""))
        if not text:
            raise InputError(f"The run {run.name} has no plan: it stopped before one was accepted.")
        yield run.name, run.name, "", text, run.head
        return
    found = False
    for id, row in stored_rows(engine, run.name):
        told = row["result"] if isinstance(row.get("result"), dict) else row
        plan = told.get("plan")
        if not isinstance(plan, str) or not plan.strip() or (task and id != task):
            continue
        found = True
        yield f"{run.name}/{id}", run.name, id, plan, _row(told)
    if not found:
        what = f"question {task} with a plan" if task else "plan in its rows"
        raise InputError(f"The run {run.name} has no {what}: pearl runs show {run.name} lists it.")


def run_of(engine: Engine, name: str) -> RunRow | None:
    """A run by its whole name; None where it is no longer there."""
    try:
        return find_run(engine, name, "the store", time.time())
    except InputError:
        return None


def journal(engine: Engine, run: RunRow, task: str) -> list[Entry]:
    """What a run did for one of its questions, the last time it was begun."""
    return since_last_start(list(read_entries(engine, run, task)))


def planned(entries: list[Entry]) -> str:
    """The last plan that a journal has, with all its steps; empty where it has none."""
    plans = [one.value for one in entries if one.path == "plan" and one.status == "done"]
    return str(plans[-1]) if plans else ""


def _row(told: dict[str, Any]) -> dict[str, Any]:
    """A row of an evaluation says ``words`` for the answer, and ``answer`` for the option."""
    if "method" not in told:
        return told
    return {**told, "answer": told.get("words"), "option": told.get("answer")}


def _find(name: str, engine: Engine, place: str) -> RunRow:
    try:
        return find_run(engine, name.partition("/")[0], place, time.time())
    except InputError as error:
        raise InputError(f"{name} is no file and no folder. {error}") from None


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
    found: dict[str, Item] = {}
    left_out: list[str] = []
    for name in names:
        path = Path(name)
        if path.is_dir():
            items = list(_folder(path, folders, left_out))
        elif path.exists() or name == "-":
            items = list(_file(name))
        else:
            items = [_run_item(*one) for one in read_run_plans(name, engine, place)]
        if not items:
            raise InputError(f"{name} holds no plan: name plans, a folder of them, or a run.")
        for item in items:
            if len(item.text) > LONGEST:
                raise InputError(
                    f"{item.name} is longer than {LONGEST:,} characters: leave it out."
                )
            found.setdefault(item.id, item)
    return Queue(tuple(found.values()), tuple(left_out))


def _folder(folder: Path, folders: Folders, left_out: list[str]) -> Iterator[Item]:
    for file in sorted(folder.rglob("*.plan")):
        if not file.is_file() or is_version(file):
            continue
        inside = folders.inside(file)
        if inside is None:
            left_out.append(f"{file} leads out of {folder}")
            continue
        yield _plan(read_source(str(file), "plan"), inside)


def _file(name: str) -> Iterator[Item]:
    if not name.endswith(".jsonl"):
        yield _plan(read_source(name, "plan"))
        return
    first = next(read_rows(name, "file of plans"), (name, {}))[1]
    if "evaluation" in first:
        yield from _results(read_evaluation(name), name)
        return
    for where, row in read_rows(name, "file of plans"):
        text = row.get("plan")
        if isinstance(text, str) and text.strip():
            yield Item("row", where, _question(row, text), storable(text), about=_about(row))


def _plan(source: Source, place: Path | None = None) -> Item:
    question = parse(source).plan.question
    return Item("file", storable(source.name), storable(question), storable(source.text), place)


def _run_item(name: str, run: str, task: str, text: str, row: dict[str, Any]) -> Item:
    return Item(
        "run", name, _question(row, text), storable(text), run=run, task=task, about=_about(row)
    )


def _results(evaluation: Evaluation, name: str) -> Iterator[Item]:
    for result in evaluation.results:
        if result.plan.strip():
            where = f"{name}, {result.method}, {result.id}"
            row = _told(result)
            yield Item("result", where, _question(row, result.plan), storable(result.plan),
                       about=_about(row))  # fmt: skip


def _told(result: Result) -> dict[str, Any]:
    return {
        "question": result.question,
        "answer": result.words,
        "options": list(result.options),
        "option": result.answer,
        "gold": result.gold,
    }


def _question(row: Mapping[str, Any], text: str) -> str:
    said = row.get("question")
    if isinstance(said, str) and said.strip():
        return storable(" ".join(said.split()))
    return storable(parse(text).plan.question)


def _about(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a row what a reviewer may want to see of its answer; nothing of another form."""
    found: dict[str, Any] = {}
    for key in ("answer", "words", "document", "gold"):
        if isinstance(row.get(key), str) and row[key].strip():
            found[key] = row[key]
    option = row.get("option")
    if isinstance(option, dict):
        option = f"{option.get('letter', '')}. {option.get('text', '')}"
    if isinstance(option, str) and option.strip(". "):
        found["option"] = option
    options = row.get("options")
    if isinstance(options, list) and all(isinstance(one, str) for one in options):
        found["options"] = options
    document = row.get("document")
    if isinstance(document, dict) and isinstance(document.get("text"), str):
        found["inline"] = document["text"]
    loaded: dict[str, Any] = json.loads(storable(json.dumps(found, ensure_ascii=False)))
    return loaded
