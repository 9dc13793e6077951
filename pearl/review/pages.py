"""What each page shows and does."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pearl.lang.ast import Action, Plan
from pearl.lang.diagnostics import Diagnostic, Severity
from pearl.lang.errors import InputError
from pearl.lang.graph import dependencies, image, outputs, reads_document
from pearl.lang.library import Library, find_library, plan_library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.lang.text import counted
from pearl.lint.checker import check_for_person
from pearl.review import people, verdicts
from pearl.review.agreement import review_report
from pearl.review.app import Page, Visit, back_to, make_app
from pearl.review.people import ReviewSession
from pearl.review.queue import LONGEST, QueuedPlan, read_run
from pearl.review.verdicts import Verdict, Version
from pearl.store.database import StoreError
from pearl.store.history import find_run
from pearl.viewer.journal_tree import head_of, read_journal
from pearl.viewer.render import PlanLine, plan_lines
from pearl.viewer.serve import RefusedError, set_cookie, with_guard

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp

VISIT = 3600.0
"""Seconds for which the login page is valid."""

DRAWN = 200
"""The most steps of a plan that is drawn; a larger picture could not be read."""

SHOWN = 200
"""The most findings that are shown; the others are shown once these are fixed."""


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """A checked plan, as pages show it.

    Args:
        source: its text.
        lines: its lines, with findings.
        findings: the findings, in the order of the text.
        picture: the graph of its steps, as a data URL; empty where there is
            nothing to draw.
        uses: the same graph in words, one line for each step.
        actions: the actions of the library that it calls.
    """

    source: Source
    lines: Sequence[PlanLine]
    findings: Sequence[Diagnostic]
    picture: str
    uses: Sequence[str]
    actions: Sequence[Action]

    @property
    def shown(self) -> Sequence[Diagnostic]:
        """The findings that are shown."""
        return self.findings[:SHOWN]

    @property
    def summary(self) -> str:
        """How many findings there are, in words."""
        errors = sum(finding.severity is Severity.ERROR for finding in self.findings)
        counts = [(errors, "error"), (len(self.findings) - errors, "warning")]
        words = [counted(count, noun) for count, noun in counts if count]
        return f"{' and '.join(words)}." if words else "No findings."


def check_plan(name: str, text: str, library: Library) -> CheckedPlan:
    """Read and check a plan, and draw it.

    Args:
        name: the plan's name for people.
        text: the plan.
        library: the actions it may call.
    """
    source = Source(name, text)
    parsed = parse(source)
    findings = check_for_person(parsed, library)
    drawn = image(parsed.plan) if len(parsed.plan.steps) <= DRAWN else ""
    lines = plan_lines(source, findings)
    called = dict.fromkeys(step.action for step in parsed.plan.steps)
    actions = tuple(action for name in called if (action := library.get(name)))
    return CheckedPlan(source, lines, findings, drawn, tuple(_uses(parsed.plan)), actions)


def _uses(plan: Plan) -> Iterator[str]:
    needs = dependencies(plan.steps)
    ends = set(outputs(plan))
    for number, step in enumerate(plan.steps, 1):
        inputs = ["the document"] if reads_document(step) else []
        inputs += needs[step.name]
        words = f"{number}. {step.name} uses {', '.join(inputs) or 'nothing'}"
        yield f"{words}; it is part of the answer." if step.name in ends else f"{words}."


def enter_page(visit: Visit) -> Response:
    """The login page, which a link leads to.

    Opening the link does not log in by itself, as link previews and other
    sites' pages may open it, too.
    """
    token = visit.request.query_params.get("token", "")
    person = people.by_token(visit.session.engine, token) if token else None
    if person is None and not visit.session.open:
        raise RefusedError(401, "This link is not known here: ask for another one.")
    if person is not None and person.id not in visit.session.people:
        raise RefusedError(403, f"{person.name} is not asked for this review.")
    return _form(visit, person, token)


def come_in(visit: Visit) -> Response:
    """Log a browser in by its link's token, or as the annotator a person chooses."""
    token = visit.field("token")
    person = people.by_token(visit.session.engine, token) if token else None
    number = visit.field("person")
    if visit.session.open and not token and number.isdecimal() and len(number) <= 6:
        # In a review that is open to all on this machine, annotators choose their name.
        person = visit.people.get(int(number))
    if person is None or person.id not in visit.session.people:
        raise RefusedError(401, "This link is not known here: ask for another one.")
    try:
        with visit.session.writing() as connection:
            if visit.field("name").strip():
                person = people.rename(connection, person, visit.field("name"))
            key = people.enter(connection, person)
    except StoreError:
        raise
    except InputError as error:
        return _form(visit, person, token, str(error))
    response = back_to("/")
    set_cookie(response, visit.request, visit.session.cookie, key, people.LIFE)
    return response


def go_out(visit: Visit) -> Response:
    """Log the browser out."""
    with visit.session.writing() as connection:
        people.leave(connection, visit.key)
    response = visit.show("left.jinja", {})
    response.delete_cookie(visit.session.cookie, path="/", httponly=True, samesite="strict")
    return response


def _form(visit: Visit, person: people.Person | None, token: str, trouble: str = "") -> Response:
    # Even before the login the browser has a key, so that forms of other sites can be refused.
    key = visit.key or secrets.token_urlsafe(32)
    choices = [visit.people[number] for number in visit.session.people] if person is None else []
    values = {
        "entering": person,
        "people": choices,
        "token": token,
        "form_token": people.form_token(key),
        "longest": people.LONGEST_NAME,
        "trouble": trouble,
    }
    response = visit.show("enter.jinja", values, 422 if trouble else 200)
    if not visit.key:
        set_cookie(response, visit.request, visit.session.cookie, key, VISIT)
    return response


def queue_page(visit: Visit) -> Response:
    """The plans that an annotator is asked to judge."""
    items = visit.session.share(visit.who.id)
    values = {
        "items": items,
        "verdicts": visit.own,
        "judged": sum(item.id in visit.own for item in items),
        "following": next((item for item in items if item.id not in visit.own), None),
    }
    return visit.show("queue.jinja", values)


def plan_page(visit: Visit) -> Response:
    """The page on which a plan is judged."""
    item = _item(visit)
    items = visit.session.share(visit.who.id)
    at = next((at for at, other in enumerate(items) if other.id == item.id), None)
    values = {
        "number": None if at is None else at + 1,
        "count": len(items),
        "before": items[at - 1] if at else None,
        "after": next(iter(items[at + 1 :]), None) if at is not None else None,
        "plan": check_plan(item.name, item.text, _library(visit, item)),
        "longest": LONGEST,
    }
    return visit.show("plan.jinja", values | _judging(visit, item) | _versions(visit, item))


def _library(visit: Visit, item: QueuedPlan) -> Library:
    """The actions that a plan may call: those of its run, where they are available; else those that
    the plan's head names, or the chosen library."""
    engine, library = visit.session.engine, None
    with suppress(InputError):
        # The run may have been deleted.
        run = find_run(engine, item.run, "the store", time.time()) if item.run else None
        head = run and (head_of(read_journal(engine, run, item.task)) or run.head)
        library = find_library(head or {})
    return library or plan_library(Source(item.name, item.text), visit.session.library)


def run_page(visit: Visit) -> Response:
    """The page of a plan's run."""
    item = _item(visit)
    template = "_run.jinja" if visit.in_part else "run.jinja"
    run = read_run(item, visit.session.engine, visit.session.folders)
    return visit.show(template, {"item": item, "run": run})


def check_page(visit: Visit) -> Response:
    """Check a plan that is being edited."""
    item = _item(visit)
    text = verdicts.normalise_lines(visit.field("text"))
    if len(text) > LONGEST:
        raise RefusedError(413, f"The plan is longer than {LONGEST:,} characters: shorten it.")
    shown = check_plan(item.name, text, _library(visit, item))
    return visit.show("_checked.jinja", {"item": item, "plan": shown})


def judge(visit: Visit) -> Response:
    """Store a verdict."""
    item = _item(visit)
    option = visit.field("option")
    try:
        verdict = verdicts.read_form(visit.form)
        options = verdicts.options_of(item)
        if option and not (options and option in (*options, verdicts.NO_OPTION)):
            raise InputError("There is no such option: choose from those on the page.")
    except InputError as error:
        if not visit.in_part:
            raise
        # Show the form again as it was filled in.
        chosen, ticked = visit.field("confidence"), tuple(visit.form.get("category", []))
        number = int(chosen) if chosen in map(str, verdicts.CONFIDENCE) else 0
        entered = Verdict(visit.field("correct"), number, ticked, visit.field("words"))
        values = _judging(visit, item) | {"verdict": entered, "trouble": str(error)}
        return visit.show("_judging.jinja", values, 422)
    with visit.session.writing() as connection:
        verdicts.save(connection, item.id, visit.who.id, verdict)
        if option:
            verdicts.save_mapping(connection, item, visit.who.id, option)
    if not visit.in_part:
        return back_to(f"/plan/{item.id}#judging")
    values = _judging(visit, item) | _versions(visit, item) | {"saved": True}
    return visit.show("_judging.jinja", values)


def keep_edit(visit: Visit) -> Response:
    """Store an edited plan as a new version."""
    item, session = _item(visit), visit.session
    try:
        text = verdicts.accept_edit(visit.field("text"), item, _library(visit, item))
        version = verdicts.add_version(session.engine, item, visit.who.id, text, session.folders)
    except InputError as error:
        return _kept(visit, item, None, error)
    return _kept(visit, item, version)


def send_version(visit: Visit) -> Response:
    """Send a version to the demonstrations."""
    item = _item(visit)
    demos = visit.session.folders.demos
    number = visit.request.path_params["number"]
    versions = {str(version.number): version for version in _visible(visit, item)}
    if demos is None or number not in versions:
        raise RefusedError(404, "There is no such version, or no folder of demonstrations.")
    try:
        verdicts.send_to_demos(visit.session.engine, item, versions[number], demos)
    except InputError as error:
        return _kept(visit, item, None, error)
    return _kept(visit, item, None)


def agreement_page(visit: Visit) -> Response:
    """The tables of agreement, over only the plans that this annotator has judged."""
    ours = {item.id for item in visit.session.items if item.id in visit.own}
    engine = visit.session.engine
    mapped = [mapping for mapping in verdicts.read_mappings(engine) if mapping.plan in ours]
    recorded = [verdict for verdict in verdicts.read_verdicts(engine) if verdict.plan in ours]
    report = review_report(recorded, visit.people, mapped=mapped)
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
    "POST /plan/{id}/versions/{number}/demo": ("in", send_version),
}
"""All addresses, each with who may see it and the function that answers."""


def _item(visit: Visit) -> QueuedPlan:
    item = visit.session.by_id.get(visit.request.path_params["id"])
    if item is None:
        raise RefusedError(404, "There is no such plan: go back to the plans.")
    return item


def _kept(
    visit: Visit, item: QueuedPlan, version: Version | None, trouble: InputError | None = None
) -> Response:
    """The list of versions, after one was stored or sent, or could not be."""
    if trouble and (isinstance(trouble, StoreError) or not visit.in_part):
        raise trouble
    if not visit.in_part:
        return back_to(f"/plan/{item.id}#versions")
    values = {"version": version, "trouble_of_versions": str(trouble or "")}
    return visit.show("_versions.jinja", values | _versions(visit, item), 422 if trouble else 200)


def _judging(visit: Visit, item: QueuedPlan) -> dict[str, Any]:
    """The values for the form of a verdict; others' verdicts only after one's own is given."""
    engine = visit.session.engine
    latest = verdicts.last(verdicts.read_verdicts(engine, item.id))
    own = latest.pop((item.id, visit.who.id), None)
    others = [(visit.people[row.person].name, row) for row in latest.values()] if own else []
    items = visit.session.share(visit.who.id)
    unjudged = [other for other in items if other.id not in visit.own and other.id != item.id]
    mapped = {(row.plan, row.person): row.option for row in verdicts.read_mappings(engine)}
    return {
        "item": item,
        "options": verdicts.options_of(item),
        # The option that this annotator mapped the answer to; empty where none yet.
        "mapped": visit.field("option") or mapped.get((item.id, visit.who.id), ""),
        "verdict": own.verdict if own else None,
        "others": others,
        "following": unjudged[0] if unjudged else None,
        "trouble": "",
        "saved": False,
    }


def _visible(visit: Visit, item: QueuedPlan) -> list[Version]:
    """The annotator's own versions, and, once they have given a verdict, the others' too."""
    versions = verdicts.read_versions(visit.session.engine, item.id)
    if item.id in visit.own:
        return versions
    return [version for version in versions if version.person == visit.who.id]


def _versions(visit: Visit, item: QueuedPlan) -> dict[str, Any]:
    versions = [(visit.people[version.person].name, version) for version in _visible(visit, item)]
    return {"item": item, "versions": versions, "demos": visit.session.folders.demos is not None}


def application(session: ReviewSession, host: str, names: Sequence[str]) -> ASGIApp:
    """The application for a server.

    Args:
        session: the review.
        host: the address it listens on.
        names: further names of the server.
    """
    return with_guard(make_app(session, PAGES), host, names)
