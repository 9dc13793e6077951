"""What a plan did when it ran: every step's output, and the quoted evidence in the document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pearl.graph import outputs
from pearl.plan import Plan
from pearl.review.documents import Found, document_of_name, document_of_run
from pearl.review.folders import Folders
from pearl.review.queue import Item
from pearl.review.stored import journal, planned, run_of
from pearl.runtime.evidence import Quote, evidence
from pearl.runtime.journal import Entry
from pearl.runtime.trace import is_trace, read_trace
from pearl.source import InputError, Source, Span
from pearl.syntax import parse
from pearl.values import DecodeError, Value, as_text, from_json

if TYPE_CHECKING:
    from sqlalchemy import Engine

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
