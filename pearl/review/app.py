"""The web application of a review: templates, and how every request is handled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs

from anyio import CapacityLimiter, to_thread
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pearl.lang.graph import outputs
from pearl.lang.text import counted
from pearl.lang.values import as_text
from pearl.review import verdicts
from pearl.review.people import Person, ReviewSession, everybody, form_token, who_is
from pearl.store.database import check_in_place
from pearl.viewer.render import make_templates
from pearl.viewer.serve import TROUBLES, RefusedError, describe_error, is_secret, static_files

LARGEST = 512 * 1024
"""The most bytes of a form."""

PATIENCE = 10.0
"""Seconds in which a form must arrive."""

FIELDS = 100
"""The most fields of a form."""

LONGEST_OUTPUT = 50_000
"""The most characters of an output that are shown."""

STATIC = (
    ("pearl.viewer", "htmx.min.js"),
    ("pearl.review", "review.js"),
    ("pearl.review", "review.css"),
)
"""The files that pages load, each with its package."""


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form that one of our own pages sent.

    Raises:
        RefusedError: it is too large or too slow, no form, or from another site.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise RefusedError(415, "Send a form, as the page does.")
    origin = request.headers.get("origin")
    foreign = origin is not None and origin.partition("://")[2] != request.headers.get("host")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if foreign or site not in ("same-origin", "none"):
        raise RefusedError(403, "This form comes from another site: use the page itself.")
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in request.stream():
                body += part
                if len(body) > LARGEST:
                    raise RefusedError(413, "That is too long: shorten it.")
    except TimeoutError:
        raise RefusedError(408, "The form did not come in time: send it again.") from None
    try:
        return parse_qs(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="replace"
        )
    except ValueError:
        raise RefusedError(400, "The form cannot be read: send it from the page.") from None


def check_form(form: Mapping[str, list[str]], key: str) -> None:
    """Check that a form comes from one of our own pages in this browser (against CSRF).

    Args:
        form: its fields.
        key: the key in the browser's cookie; empty where it has none.

    Raises:
        RefusedError: it does not.
    """
    if not key or not is_secret(verdicts.field_of(form, "csrf"), form_token(key)):
        raise RefusedError(403, "This form is too old or not ours: go back, load the page again.")


def make_pages(static: Mapping[str, str]) -> Environment:
    """The pages' templates.

    Args:
        static: the addresses of the files that they load.
    """
    templates = make_templates(PackageLoader("pearl.review", "templates"))
    templates.globals["static"] = static
    templates.globals["choices"] = verdicts
    templates.filters.update(
        # For a text that the form sends back: escaped, but with hidden characters kept.
        to_the_letter=lambda text: Markup(escape(text)),  # noqa: S704 - it is escaped
        # In the zone of the server.
        at=lambda seconds: time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)),
        counted=counted,
        first_part=_first_part,
        as_text=as_text,
        outputs=outputs,
    )
    return templates


def _first_part(text: str) -> str:
    """The first characters of an output, with a line for how many more there are."""
    if len(text) <= LONGEST_OUTPUT:
        return text
    return f"{text[:LONGEST_OUTPUT]}\n… {len(text) - LONGEST_OUTPUT:,} more characters"


TOGETHER = 5
"""The most requests handled at the same time, as there are so many connections to the store."""


@dataclass(frozen=True)
class Visit:
    """A request, as pages see it.

    Args:
        session: the review.
        templates: the pages' templates.
        request: the request.
        key: the key in the browser's cookie; empty where it has none.
        person: the annotator who is logged in; None where nobody is.
        form: the fields that were sent.
    """

    session: ReviewSession
    templates: Environment
    request: Request
    key: str
    person: Person | None
    form: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def in_part(self) -> bool:
        """Whether htmx sent the request, and needs only the part that changes."""
        return self.request.headers.get("hx-request") == "true"

    @cached_property
    def own(self) -> Mapping[str, verdicts.Verdict]:
        """This annotator's verdicts, by plan. They are read only once: use it after saving."""
        return verdicts.of_person(self.session.engine, self.who.id)

    @cached_property
    def people(self) -> Mapping[int, Person]:
        """All annotators, by number."""
        return everybody(self.session.engine)

    @property
    def who(self) -> Person:
        """The annotator who is logged in.

        Raises:
            RefusedError: nobody is.
        """
        if self.person is None:
            raise RefusedError(401, "You are not in: open the link that you were given.")
        return self.person

    def field(self, name: str) -> str:
        """A field that was sent, or nothing."""
        return verdicts.field_of(self.form, name)

    def show(self, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
        """Render a page, or a part of one.

        Args:
            template: the name of its template.
            values: the values for the template.
            status: the HTTP status.
        """
        context = {"person": self.person, "form_token": form_token(self.key), **values}
        text = self.templates.get_template(template).render(context)
        return HTMLResponse(text, status, {"cache-control": "no-store"})


Page = Callable[[Visit], Response]


def make_app(session: ReviewSession, pages: Mapping[str, tuple[str, Page]]) -> Starlette:
    """The application.

    Args:
        session: the review.
        pages: by ``METHOD /path``, who may see it (``in`` for those who
            are logged in, or ``anybody``), and the function that answers.
    """
    static, addresses = static_files(*STATIC)
    templates = make_pages(addresses)
    limiter = CapacityLimiter(TOGETHER)

    def routed(where: str, who: str, page: Page) -> Route:
        method, _, path = where.partition(" ")

        async def answer(request: Request) -> Response:
            key = request.cookies.get(session.cookie, "")
            form: dict[str, list[str]] = {}
            if method == "POST":
                form = await read_form(request)
                check_form(form, key)
            return await to_thread.run_sync(work, request, key, form, limiter=limiter)

        def work(request: Request, key: str, form: dict[str, list[str]]) -> Response:
            check_in_place(session.engine)
            person = who_is(session.engine, key) if key else None
            if person is not None and person.id not in session.people:
                person = None
            visit = Visit(session, templates, request, key, person, form)
            if who == "in" and person is None:
                if visit.in_part or method == "POST" or not session.open:
                    visit.who  # noqa: B018 - it refuses
                return back_to("/enter")
            return page(visit)

        return Route(path, answer, methods=[method])

    async def trouble(request: Request, error: Exception) -> Response:
        status, message = describe_error(error)
        visit = Visit(session, templates, request, "", None)
        template = "_trouble.jinja" if visit.in_part else "trouble.jinja"
        return visit.show(template, {"message": message}, status)

    routes = [routed(where, who, page) for where, (who, page) in pages.items()]
    return Starlette(routes=[*routes, static], exception_handlers=dict.fromkeys(TROUBLES, trouble))


def back_to(address: str) -> Response:
    """Send the browser to another page, after something was saved."""
    return RedirectResponse(address, 303)
