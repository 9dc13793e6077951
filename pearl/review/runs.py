"""What a plan did when it ran: every step's output, and the quoted evidence in the document.

The document that a run read: the same one, and only from the folders that were given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pearl.evaluate.datasets import DATASETS
from pearl.jobs.questions import parse_question
from pearl.lang.ast import Plan
from pearl.lang.graph import outputs
from pearl.lang.parser import parse
from pearl.lang.source import InputError, Source, Span
from pearl.lang.values import DecodeError, Value, as_text, from_json
from pearl.review.folders import Folders
from pearl.review.queue import Item, journal, planned, run_of
from pearl.run.evidence import Quote, evidence
from pearl.run.journal import Entry
from pearl.run.trace import is_trace, read_trace
from pearl.store.history import RunRow

if TYPE_CHECKING:
    from sqlalchemy import Engine


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


LONGEST = 50_000
"""Characters of an output that are shown."""

WHOLE = 200_000
"""Characters of a document that is shown as a whole; of a longer one, what is around the quotes."""

AROUND = 1_500
"""Characters on either side of a quote in a longer document."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document.

    Args:
        text: the part; empty for a gap.
        mark: the number of the quote that it is, counted from 1; 0 for what
            nobody quotes.
        gap: characters that are left out here.
    """

    text: str
    mark: int = 0
    gap: int = 0


@dataclass(frozen=True, slots=True)
class Cited:
    """A quote, and the number of its mark in the document; 0 where it is not there."""

    text: str
    mark: int


@dataclass(frozen=True, slots=True)
class StepShown:
    """What a step came to.

    Args:
        number: counted from 1.
        name: its name.
        output: as text; empty where there is none.
        trouble: why there is none.
        quotes: passages that it quotes.
        ends: whether it is part of the answer.
    """

    number: int
    name: str
    output: str
    trouble: str
    quotes: tuple[Cited, ...]
    ends: bool


@dataclass(frozen=True, slots=True)
class RunShown:
    """A run, as a reviewer sees it.

    Args:
        name: the run's; empty where there was none in the store.
        note: what is not known, and why.
        steps: in order.
        answer: the answer's text; empty where there is none.
        facts: what else is known of the answer, each with its name.
        document: its name, where it is shown.
        passages: the document, or what of it is shown.
        missing: why no document is shown.
    """

    name: str = ""
    note: str = ""
    steps: tuple[StepShown, ...] = ()
    answer: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    document: str = ""
    passages: tuple[Passage, ...] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True)
class _Ran:
    """What is known of a run, wherever it was written down."""

    name: str
    plan: Plan
    values: Mapping[str, Value]
    troubles: Mapping[str, str]
    answer: str
    found: Found
    note: str = ""


def read_run(item: Item, engine: Engine, folders: Folders) -> RunShown:
    """What is known of a plan's run.

    Args:
        item: the plan.
        engine: the store.
        folders: where documents may be read.
    """
    ran = _stored(item, engine, folders) or _traced(item, folders) or _told(item, folders)
    if ran is None:
        return RunShown(
            note="This plan has not been run, as far as is known here: it came from a file, with "
            "no run and no answer. pearl run runs it; pearl review RUN shows it with its outputs."
        )
    return _shown(ran, item)


def _stored(item: Item, engine: Engine, folders: Folders) -> _Ran | None:
    run = run_of(engine, item.run) if item.run else None
    if run is None:
        return None
    entries = journal(engine, run, item.task)
    plan = parse(planned(entries) or item.text).plan
    head: Any = next((one.value for one in entries if one.path == "run"), {})
    values: dict[str, Value] = {}
    troubles: dict[str, str] = {}
    answer = failed = ""
    for entry in entries:
        name = entry.path.partition("/")[2]
        if entry.path.startswith("value/"):
            values[name] = _value(entry)
        elif entry.path.startswith("step/") and entry.status != "done":
            troubles[name.partition("[")[0]] = entry.cause
        elif entry.path == "answer" and isinstance(entry.value, dict):
            answer = str(entry.value.get("text", ""))
        elif entry.path == "failed":
            failed = str(entry.value)
    document = head.get("document") if isinstance(head, dict) else None
    found = document_of_run(str(document or ""), run, item.task, folders)
    note = f"The run failed: {failed}" if failed else ""
    return _Ran(run.name, plan, values, troubles, answer, found, note)


def _traced(item: Item, folders: Folders) -> _Ran | None:
    """A plan's file that holds the values of its run, as ``pearl trace`` writes it."""
    source = Source(item.name, item.text)
    if not is_trace(source):
        return None
    try:
        trace = read_trace(source)
        values = {
            path.removeprefix("step/"): from_json(value) for path, value in trace.values.items()
        }
    except (InputError, DecodeError):
        return None
    named = (line for line in item.text.split("\n") if line.startswith("# document: "))
    found = document_of_name(next(named, "").removeprefix("# document: "), folders)
    return _Ran("", trace.plan, values, {}, trace.answer or "", found)


def _told(item: Item, folders: Folders) -> _Ran | None:
    """A row that says what the plan led to, and not how."""
    answer = str(item.about.get("answer") or item.about.get("words") or "")
    if not answer and not item.about.get("option"):
        return None
    if "inline" in item.about:
        found = Found(Source("document", item.about["inline"]))
    else:
        found = document_of_name(str(item.about.get("document", "")), folders)
    note = "What the steps gave is not known: the file has the answer only."
    return _Ran("", Plan(), {}, {}, answer, found, note)


def _shown(ran: _Ran, item: Item) -> RunShown:
    document = ran.found.source or Source("", "")
    ends = set(outputs(ran.plan))
    by_step: dict[str, list[Quote]] = {}
    for step in ran.plan.steps:
        quotes = evidence(ran.plan, ran.values, [step.name], document)
        by_step[step.name] = [one for one in quotes if one.step == step.name]
    if not ran.plan.steps:
        by_step[""] = evidence(ran.plan, {"answer": ran.answer}, ["answer"], document)
    marks = _marks([one.span for found in by_step.values() for one in found if one.span])
    cited = {name: tuple(_cited(found, marks)) for name, found in by_step.items()}
    steps = tuple(
        StepShown(
            number,
            step.name,
            _cut(as_text(ran.values[step.name])) if step.name in ran.values else "",
            "" if step.name in ran.values else ran.troubles.get(step.name, "It has no output."),
            cited[step.name],
            step.name in ends,
        )
        for number, step in enumerate(ran.plan.steps, 1)
    )
    return RunShown(
        ran.name,
        ran.note,
        steps,
        _cut(ran.answer),
        tuple(_facts(item)),
        ran.found.source.name if ran.found.source else "",
        tuple(_passages(document.text, marks)) if ran.found.source else (),
        ran.found.missing,
    )


def _facts(item: Item) -> Iterator[tuple[str, str]]:
    options = item.about.get("options")
    if options:
        yield "Options", "\n".join(f"{chr(65 + at)}. {one}" for at, one in enumerate(options))
    for key, name in (("option", "Chosen"), ("gold", "Right answer")):
        if item.about.get(key):
            yield name, str(item.about[key])


def _marks(spans: Sequence[Span]) -> list[Span]:
    """Spans in order, those that overlap made one."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start < found[-1].end:
            found[-1] = Span(found[-1].start, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def _cited(quotes: Sequence[Quote], marks: Sequence[Span]) -> Iterator[Cited]:
    for quote in quotes:
        at = 0
        for number, mark in enumerate(marks, 1):
            if quote.span and mark.start <= quote.span.start < mark.end:
                at = number
        yield Cited(quote.text, at)


def _passages(text: str, marks: Sequence[Span]) -> Iterator[Passage]:
    """A document with its marks; of a long one, what is around them."""
    windows = [Span(0, len(text))]
    if len(text) > WHOLE:
        wide = [Span(max(0, a - AROUND), min(len(text), b + AROUND)) for a, b in marks]
        windows = _marks(wide or [Span(0, AROUND)])
    end = 0
    for window in windows:
        if window.start > end:
            yield Passage("", gap=window.start - end)
        end = window.start
        for number, mark in enumerate(marks, 1):
            if window.start <= mark.start < window.end:
                yield Passage(text[end : mark.start])
                yield Passage(text[mark.start : mark.end], number)
                end = mark.end
        yield Passage(text[end : window.end])
        end = window.end
    if end < len(text):
        yield Passage("", gap=len(text) - end)


def _value(entry: Entry) -> Value:
    try:
        return from_json(entry.value)
    except DecodeError:
        return str(entry.value)


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n… {len(text) - LONGEST:,} more characters"
