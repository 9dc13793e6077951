"""What each page shows and does.

A plan as the page shows it: its lines, what the checker finds in them, the picture.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pearl.lang.ast import Plan
from pearl.lang.diagnostics import Diagnostic, Safety, Severity
from pearl.lang.graph import dependencies, outputs, reads_document, svg
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.source import InputError, Source
from pearl.lint.checker import check
from pearl.review.agreement import review_report
from pearl.review.app import Page, RefusedError, Visit, back_to, come_in, enter_page, go_out
from pearl.review.queue import LONGEST, Item
from pearl.review.runs import read_run
from pearl.review.verdicts import (
    CATEGORIES,
    CONFIDENCE,
    CORRECT,
    LONGEST_WORDS,
    Verdict,
    last,
    read_form,
    read_verdicts,
    save,
)
from pearl.review.versions import Version, accept, edited, keep, read_versions, send

if TYPE_CHECKING:
    from starlette.responses import Response


DRAWN = 200
"""Steps of a plan that is drawn; nobody sees anything in a larger picture."""

SHOWN = 200
"""Findings that are shown; who mends these will see the others."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a line: its text, and the severity of a finding on it, or nothing."""

    text: str
    severity: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plan.

    Args:
        number: counted from 1.
        pieces: its text, in order.
        comment: whether it says nothing to the checker.
    """

    number: int
    pieces: tuple[Piece, ...]
    comment: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """What the checker says, in the words that the terminal has.

    Args:
        code: the rule's.
        name: the rule's name.
        severity: ``error`` or ``warning``.
        line: where, counted from 1.
        column: likewise.
        message: one fact.
        labels: other places that matter.
        help: the act that mends it, in lines.
        fix: what ``pearl lint`` would do, and with which option; or nothing.
    """

    code: str
    name: str
    severity: str
    line: int
    column: int
    message: str
    labels: tuple[str, ...]
    help: tuple[str, ...]
    fix: str


@dataclass(frozen=True, slots=True)
class PlanShown:
    """A plan with all that is said of it.

    Args:
        text: as it was written.
        lines: the same in lines.
        findings: in the order of the text.
        more: how many further ones are not shown.
        summary: how many there are, in words.
        picture: what uses what, as an address of the picture itself; empty
            where there is nothing to draw.
        uses: the same in words, a step a line.
    """

    text: str
    lines: tuple[Line, ...]
    findings: tuple[Finding, ...]
    more: int
    summary: str
    picture: str
    uses: tuple[str, ...]


def show_plan(name: str, text: str, library: Library) -> PlanShown:
    """Read and check a plan, and draw it.

    Args:
        name: what a person calls it.
        text: the plan.
        library: the actions it may call.
    """
    source = Source(name, text)
    parsed = parse(source)
    found = check(parsed, library)
    return PlanShown(
        text,
        tuple(_lines(source, found)),
        tuple(_finding(one, source) for one in found[:SHOWN]),
        max(0, len(found) - SHOWN),
        summary(found),
        _picture(parsed.plan),
        tuple(_uses(parsed.plan)),
    )


def summary(found: Sequence[Diagnostic]) -> str:
    """How many findings there are, in words."""
    errors = sum(one.severity is Severity.ERROR for one in found)
    counts = [(errors, "error"), (len(found) - errors, "warning")]
    told = [f"{count} {noun}{'s'[: count != 1]}" for count, noun in counts if count]
    return f"{' and '.join(told)}." if told else "No findings."


def _lines(source: Source, found: Sequence[Diagnostic]) -> Iterator[Line]:
    severities = [""] * len(source.text)
    for one in sorted(found, key=lambda one: one.severity is Severity.ERROR):
        end = max(one.span.end, one.span.start + 1)
        for at in range(one.span.start, min(end, len(source.text))):
            severities[at] = str(one.severity)
    start = 0
    for number, line in enumerate(source.text.rstrip("\n").split("\n"), 1):
        comment = line.lstrip().startswith("#")
        yield Line(number, tuple(_pieces(line, severities[start : start + len(line)])), comment)
        start += len(line) + 1


def _pieces(line: str, severities: Sequence[str]) -> Iterator[Piece]:
    start = 0
    for at in range(1, len(line) + 1):
        if at == len(line) or severities[at] != severities[start]:
            yield Piece(line[start:at], severities[start])
            start = at


def _finding(one: Diagnostic, source: Source) -> Finding:
    line, column = source.position(one.span.start)
    labels = [f"{label.text}: line {source.position(label.span.start)[0]}" for label in one.labels]
    fix = ""
    if one.fix:
        how = "--fix" if one.fix.safety is Safety.SAFE else "--unsafe-fixes"
        fix = f"{one.fix.title} (pearl lint {how})"
    return Finding(
        one.code, one.name, str(one.severity), line, column, one.message, tuple(labels),
        tuple(one.help.splitlines()), fix,
    )  # fmt: skip


def _picture(plan: Plan) -> str:
    if not 0 < len(plan.steps) <= DRAWN:
        return ""
    # As a picture, and not as a part of the page, nothing in it can run or be styled from without.
    data = base64.b64encode(svg(plan).encode("utf-8", "replace")).decode()
    return f"data:image/svg+xml;base64,{data}"


def _uses(plan: Plan) -> Iterator[str]:
    needs = dependencies(plan.steps)
    ends = set(outputs(plan))
    for number, step in enumerate(plan.steps, 1):
        inputs = ["the document"] if reads_document(step) else []
        inputs += needs[step.name]
        told = f"{number}. {step.name} uses {', '.join(inputs) or 'nothing'}"
        yield f"{told}; it is part of the answer." if step.name in ends else f"{told}."


def queue_page(visit: Visit) -> Response:
    """The plans that somebody is asked to judge."""
    items = visit.desk.share(visit.who.id)
    verdicts = visit.own
    values = {
        "items": items,
        "verdicts": verdicts,
        "judged": sum(item.id in verdicts for item in items),
        "following": next((item for item in items if item.id not in verdicts), None),
        "correct": {one.name: one.words for one in CORRECT},
    }
    return visit.show("queue.jinja", values)


def plan_page(visit: Visit) -> Response:
    """One plan with all there is to judge it by."""
    item = _item(visit)
    items = visit.desk.share(visit.who.id)
    at = next((at for at, one in enumerate(items) if one.id == item.id), None)
    values = {
        "number": None if at is None else at + 1,
        "count": len(items),
        "before": None if at is None else _at(items, at - 1),
        "after": None if at is None else _at(items, at + 1),
        "plan": show_plan(item.name, item.text, visit.desk.library),
        "longest": LONGEST,
    }
    return visit.show("plan.jinja", values | _judging(visit, item) | _versions(visit, item))


def run_page(visit: Visit) -> Response:
    """What the plan did when it ran."""
    item = _item(visit)
    template = "_run.jinja" if visit.in_part else "run.jinja"
    run = read_run(item, visit.desk.engine, visit.desk.folders)
    return visit.show(template, {"item": item, "run": run})


def check_page(visit: Visit) -> Response:
    """The checker's word on a plan that is being edited."""
    item = _item(visit)
    text = edited(visit.field("text"))
    if len(text) > LONGEST:
        raise RefusedError(413, f"The plan is longer than {LONGEST:,} characters: shorten it.")
    shown = show_plan(item.name, text, visit.desk.library)
    return visit.show("_checked.jinja", {"item": item, "plan": shown})


def judge(visit: Visit) -> Response:
    """Take a verdict. It is safe before the answer goes out."""
    item = _item(visit)
    try:
        verdict = read_form(visit.form)
    except InputError as error:
        if not visit.in_part:
            raise
        entered = _entered(visit) | {"trouble": str(error)}
        return visit.show("_judging.jinja", _judging(visit, item) | entered, 422)
    with visit.desk.writing() as connection:
        save(connection, item.id, visit.who.id, verdict)
    if not visit.in_part:
        return back_to(f"/plan/{item.id}#judging")
    values = _judging(visit, item) | _versions(visit, item) | {"saved": True}
    return visit.show("_judging.jinja", values)


def keep_edit(visit: Visit) -> Response:
    """Take an edited plan as a new version."""
    item = _item(visit)
    try:
        text = accept(visit.field("text"), item, visit.desk.library)
        version = keep(visit.desk.engine, item, visit.who.id, text, visit.desk.folders)
    except InputError as error:
        return _kept(visit, item, None, error)
    return _kept(visit, item, version)


def send_version(visit: Visit) -> Response:
    """Send a version to the demonstrations."""
    item = _item(visit)
    demos = visit.desk.folders.demos
    number = visit.request.path_params["number"]
    known = {one.number: one for one in _visible(visit, item)}
    if demos is None or number not in known:
        raise RefusedError(404, "There is no such version, or no folder of demonstrations.")
    try:
        send(visit.desk.engine, item, known[number], demos)
    except InputError as error:
        return _kept(visit, item, None, error)
    return _kept(visit, item, None)


def agreement_page(visit: Visit) -> Response:
    """The tables, of those plans only that whoever asks has judged."""
    ours = [item.id for item in visit.desk.items if item.id in visit.own]
    report = review_report(read_verdicts(visit.desk.engine, ours), visit.people)
    return visit.show("agreement.jinja", {"report": report, "count": len(ours)})


PAGES: Mapping[str, tuple[str, Page]] = {
    "GET /": ("in", queue_page),
    "GET /enter": ("anybody", enter_page),
    "POST /enter": ("anybody", come_in),
    "POST /leave": ("in", go_out),
    "GET /agreement": ("in", agreement_page),
    "GET /plan/{id}": ("in", plan_page),
    "GET /plan/{id}/run": ("in", run_page),
    "POST /plan/{id}/check": ("in", check_page),
    "POST /plan/{id}/verdict": ("in", judge),
    "POST /plan/{id}/versions": ("in", keep_edit),
    "POST /plan/{id}/versions/{number:int}/demo": ("in", send_version),
}
"""Every address there is, who may come, and what answers."""


def _item(visit: Visit) -> Item:
    item = visit.desk.by_id.get(visit.request.path_params["id"])
    if item is None:
        raise RefusedError(404, "There is no such plan: go back to the plans.")
    return item


def _kept(
    visit: Visit, item: Item, version: Version | None, trouble: InputError | None = None
) -> Response:
    """The versions, after one was made or sent, or was not."""
    if not visit.in_part:
        if trouble:
            raise trouble
        return back_to(f"/plan/{item.id}#versions")
    values = {"version": version, "trouble_of_versions": str(trouble or "")}
    return visit.show("_versions.jinja", values | _versions(visit, item), 422 if trouble else 200)


def _at(items: Sequence[Item], at: int) -> Item | None:
    return items[at] if 0 <= at < len(items) else None


def _judging(visit: Visit, item: Item) -> dict[str, Any]:
    """What the form for a verdict needs; others' verdicts for those only who have given theirs."""
    given = last(read_verdicts(visit.desk.engine, (item.id,)))
    own = given.pop((item.id, visit.who.id), None)
    others = [(visit.people[one.person].name, one) for one in given.values()] if own else []
    items = visit.desk.share(visit.who.id)
    open_ones = [one for one in items if one.id not in visit.own and one.id != item.id]
    return {
        "item": item,
        "verdict": own.verdict if own else None,
        "others": others,
        "following": open_ones[0] if open_ones else None,
        "correct": CORRECT,
        "confidence": CONFIDENCE,
        "categories": CATEGORIES,
        "words_of": {one.name: one.words for one in (*CORRECT, *CATEGORIES)},
        "longest_words": LONGEST_WORDS,
        "trouble": "",
        "saved": False,
    }


def _entered(visit: Visit) -> dict[str, Any]:
    """A form that cannot be taken as it was filled in."""
    chosen = visit.field("confidence")
    number = int(chosen) if chosen in map(str, CONFIDENCE) else 0
    ticked = tuple(visit.form.get("category", []))
    return {"verdict": Verdict(visit.field("correct"), number, ticked, visit.field("words"))}


def _visible(visit: Visit, item: Item) -> list[Version]:
    """One's own versions, and the others' where they say no more than their verdicts already do."""
    versions = read_versions(visit.desk.engine, item.id)
    if item.id in visit.own:
        return versions
    return [one for one in versions if one.person == visit.who.id]


def _versions(visit: Visit, item: Item) -> dict[str, Any]:
    versions = [(visit.people[one.person].name, one) for one in _visible(visit, item)]
    return {"item": item, "versions": versions, "demos": visit.desk.folders.demos is not None}
