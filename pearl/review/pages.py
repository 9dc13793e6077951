"""What each page shows and does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pearl.review.app import Page, Visit, back_to
from pearl.review.entry import come_in, enter_page, go_out
from pearl.review.figures import review_report
from pearl.review.guard import RefusedError
from pearl.review.queue import LONGEST, Item
from pearl.review.runs import read_run
from pearl.review.shown import show_plan
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
from pearl.source import InputError

if TYPE_CHECKING:
    from starlette.responses import Response


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
