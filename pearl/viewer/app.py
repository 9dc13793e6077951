"""Serves a store as pages: the list of runs, each run down to its calls, and comparisons of two
runs. It only reads.

A visitor's first request has a secret in its link; after that, a cookie identifies the browser.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pearl.lang.errors import InputError
from pearl.store.database import check_in_place
from pearl.store.history import (
    STATUSES,
    RunFilter,
    count_rows,
    find_run,
    in_use,
    list_runs,
    read_rows,
    read_tags,
)
from pearl.store.totals import totals
from pearl.viewer.documents import find_passages, is_evidenced
from pearl.viewer.job_page import COMPARED, STATES, JobRow, compare, job_page
from pearl.viewer.journal_tree import head_of, read_frames, read_journal
from pearl.viewer.render import View, render
from pearl.viewer.run_page import run_page
from pearl.viewer.serve import (
    TROUBLES,
    RefusedError,
    describe_error,
    is_secret,
    set_cookie,
    static_files,
    with_guard,
)

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from starlette.types import ASGIApp

    from pearl.models.tokens import Prices

AT_ONCE = 50
"""Runs on a page."""

LIFE = 30 * 24 * 3600.0
"""Seconds for which a browser keeps the cookie; its key is valid as long as the server runs."""

STATIC = tuple(("pearl.viewer", name) for name in ("style.css", "view.js", "htmx.min.js"))


@dataclass(frozen=True, slots=True)
class ServedStore:
    """What is served.

    Args:
        engine: the store's database.
        place: the store's address, without a password.
        prices: the price table.
        documents: a folder of documents, beside the places that runs name; empty for none.
        cookie: the name of the cookie.
    """

    engine: Engine
    place: str
    prices: Prices
    documents: str = ""
    cookie: str = "pearl_view"


def runs_page(shown: ServedStore, view: View) -> str:
    """The runs that match the query, the latest first."""
    percents = map(view.number, ("least", "most"))
    least, most = (None if percent is None else percent / 100 for percent in percents)
    # The run after which the page begins.
    started, _, name = view.get("before").partition(" ")
    began = replace(view, query={"before": started}).number("before")
    criteria = RunFilter(
        words=tuple(view.get("q").split()),
        kind=view.get("kind"),
        tag=view.get("tag"),
        status=view.get("status"),
        least=least,
        most=most,
        before=None if began is None else (began, name),
    )
    listed = list_runs(shown.engine, time.time(), AT_ONCE + 1, criteria)
    runs = listed[:AT_ONCE]
    names = [run.name for run in runs]
    kinds, tags = in_use(shown.engine)
    return render(
        "runs",
        view,
        running=any(run.status == "running" for run in runs),
        runs=runs,
        counts=count_rows(shown.engine, names),
        called=read_tags(shown.engine, names),
        older=f"{runs[-1].started!r} {runs[-1].name}" if len(listed) > AT_ONCE else "",
        kinds=kinds,
        tags=tags,
        statuses=STATUSES,
    )


def one_page(shown: ServedStore, view: View, name: str) -> str:
    """A run, or, with an item in the query, one row of it.

    Raises:
        InputError: there is no such run, or it has no such row.
    """
    run, item = find_run(shown.engine, name, "the store", time.time()), view.get("item")
    if run.has_rows and not item:
        return job_page(shown.engine, run, shown.prices, view)
    return run_page(shown.engine, run, item, shown.prices, shown.documents, view)


def diff_page(shown: ServedStore, view: View) -> str:
    """Two runs of one kind side by side; of jobs, rows with different outcomes come first.

    Raises:
        InputError: they cannot be compared.
    """
    engine, now = shown.engine, time.time()
    a, b = runs = [find_run(engine, view.get(name), "the store", now) for name in ("a", "b")]
    if a.kind != b.kind or a.kind not in COMPARED:
        raise InputError(
            f"{a.name} ({a.kind}) and {b.name} ({b.kind}) cannot be compared: choose two "
            f"of one kind ({', '.join(COMPARED)})."
        )
    others = list_runs(engine, now, AT_ONCE, RunFilter(kind=a.kind))
    others += [run for run in runs if run not in others]
    values: dict[str, Any] = {"frames": [], "pairs": [], "links": {}, "differing": 0, "found": 0}
    if a.has_rows:
        compared = compare(*(dict(read_rows(engine, run.name)) for run in runs))
        pairs = sorted(compared.pairs, key=lambda pair: not pair.differs)
        differing = sum(pair.differs for pair in pairs)
        pairs = pairs[:differing] if view.get("which") else pairs
        both = [(pair, JobRow(pair.first), JobRow(pair.second)) for pair in pairs]
        both = [three for three in both if any(item.is_asked_for(view) for item in three[1:])]
        values["pairs"], values["links"] = view.some(both)
        values |= {"compared": compared, "differing": differing, "found": len(both)}
    else:
        for entries in (read_journal(engine, run) for run in runs):
            frame = read_frames(entries)[0]
            passages = find_passages(frame, None)
            values["frames"].append((frame, head_of(entries), is_evidenced(passages, None)))
    names = [run.name for run in runs]
    sums = [totals(engine, name) for name in names]
    models = [str(run.head.get("model", "")) for run in runs]
    return render(
        "diff",
        view,
        running=any(run.status == "running" for run in runs),
        runs=runs,
        others=others,
        states=STATES,
        totals=sums,
        costs=[total.cost(shown.prices, model) for total, model in zip(sums, models, strict=True)],
        counts=count_rows(engine, names),
        called=read_tags(engine, names),
        **values,
    )


PAGES: Mapping[str, Callable[..., str]] = {
    "/": runs_page,
    "/run/{name}": one_page,
    "/diff": diff_page,
}
"""Pages by path; named parts of a path are passed as arguments."""


def application(shown: ServedStore, token: str) -> ASGIApp:
    """The application, for a server that only this machine can reach.

    Args:
        shown: what is served.
        token: the secret in the link that lets a browser in.
    """
    route, addresses = static_files(*STATIC)
    key = secrets.token_urlsafe(32)

    def make_route(path: str, page: Callable[..., str]) -> Route:
        def answer(request: Request) -> Response:
            if is_secret(request.query_params.get("token", ""), token):
                # Redirected, so that the browser's address no longer shows the secret.
                response = RedirectResponse("/", 303)
                set_cookie(response, request, shown.cookie, key, LIFE)
                return response
            if not is_secret(request.cookies.get(shown.cookie, ""), key):
                raise RefusedError(401, "You are not in: open the link that pearl view printed.")
            check_in_place(shown.engine)
            return _page(page(shown, _view(request), **request.path_params))

        return Route(path, answer, methods=["GET"])

    def _view(request: Request) -> View:
        return View(addresses, shown.place, request.url.path, dict(request.query_params))

    def trouble(request: Request, error: Exception) -> Response:
        status, message = describe_error(error)
        text = render("trouble", _view(request), running=False, message=message)
        return _page(text, status)

    app = Starlette(
        routes=[*(make_route(path, page) for path, page in PAGES.items()), route],
        exception_handlers=dict.fromkeys(TROUBLES, trouble),
    )
    return with_guard(app, "127.0.0.1", ())


def _page(text: str, status: int = 200) -> Response:
    return HTMLResponse(text, status, {"cache-control": "no-store"})
