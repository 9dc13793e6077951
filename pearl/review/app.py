"""The server's side of the page: routes, and what every request goes through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from pearl.review.desk import Desk
from pearl.review.forms import STATIC, make_templates, read_static
from pearl.review.guard import Guard, RefusedError, check_form, read_form
from pearl.review.people import Person, everybody, form_token, who_is
from pearl.review.verdicts import Verdict, of_person
from pearl.source import InputError

if TYPE_CHECKING:
    from jinja2 import Environment

TOGETHER = 5
"""Requests that are worked on at a time, as many as connections are held to the store."""


@dataclass(frozen=True)
class Visit:
    """A request, as pages see it.

    Args:
        desk: what the review has.
        templates: the pages' forms.
        request: as it came.
        key: what the browser's cookie holds; empty where it has none.
        person: who is in; None where nobody is.
        form: the fields that were sent.
    """

    desk: Desk
    templates: Environment
    request: Request
    key: str
    person: Person | None
    form: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def in_part(self) -> bool:
        """Whether htmx asks, and wants the part that changes only."""
        return self.request.headers.get("hx-request") == "true"

    @cached_property
    def own(self) -> Mapping[str, Verdict]:
        """What whoever is in has said, by plan; read once, so not before it is saved."""
        return of_person(self.desk.engine, self.who.id)

    @cached_property
    def people(self) -> Mapping[int, Person]:
        """All annotators, by number."""
        return everybody(self.desk.engine)

    @property
    def who(self) -> Person:
        """Who is in.

        Raises:
            RefusedError: nobody is.
        """
        if self.person is None:
            raise RefusedError(401, "You are not in: open the link that you were given.")
        return self.person

    def field(self, name: str) -> str:
        """A field that was sent, or nothing."""
        return (self.form.get(name) or [""])[0]

    def show(self, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
        """A page, or a part of one.

        Args:
            template: its form.
            values: what it is filled in with.
            status: of the answer.
        """
        given = {"person": self.person, "form_token": form_token(self.key), **values}
        text = self.templates.get_template(template).render(given)
        return HTMLResponse(text, status, {"cache-control": "no-store"})


Page = Callable[[Visit], Response]


def make_app(
    desk: Desk, pages: Mapping[str, tuple[str, Page]], names: frozenset[str], *, addresses: bool
) -> Guard:
    """The whole application.

    Args:
        desk: what the review has.
        pages: by ``METHOD /path``, a word on who may come (``in`` or
            ``anybody``), and what answers.
        names: names under which this server is reached.
        addresses: whether it is reached by any address as well.
    """
    templates = make_templates()
    limiter = CapacityLimiter(TOGETHER)
    routes = []
    for where, (who, page) in pages.items():
        method, _, path = where.partition(" ")
        routes.append(Route(path, _endpoint(desk, templates, who, page, limiter), methods=[method]))
    routes.append(Route("/static/{name}", _static(), methods=["GET"]))
    app = Starlette(
        routes=routes,
        exception_handlers={
            RefusedError: _trouble(desk, templates),
            InputError: _trouble(desk, templates),
            HTTPException: _trouble(desk, templates),
            Exception: _trouble(desk, templates),
        },
    )
    return Guard(app, names, addresses)


def back_to(address: str) -> Response:
    """Send the browser to another page, after something was saved."""
    return RedirectResponse(address, 303)


def _endpoint(
    desk: Desk, templates: Environment, who: str, page: Page, limiter: CapacityLimiter
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        key = request.cookies.get(desk.cookie, "")
        form = await read_form(request) if request.method == "POST" else {}
        if request.method == "POST":
            check_form(form, key)
        return await to_thread.run_sync(_answer, request, key, form, limiter=limiter)

    def _answer(request: Request, key: str, form: dict[str, list[str]]) -> Response:
        person = who_is(desk.engine, key) if key else None
        if person is not None and person.id not in desk.people:
            person = None
        visit = Visit(desk, templates, request, key, person, form)
        if who == "in" and person is None:
            if visit.in_part or request.method == "POST" or not desk.open:
                visit.who  # noqa: B018 - it refuses
            return back_to("/enter")
        return page(visit)

    return answer


def _static() -> Callable[[Request], Awaitable[Response]]:
    held = read_static()

    async def answer(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in held:
            raise HTTPException(404)
        # Pages name a file with its hash: another one has another address.
        headers = {"cache-control": "private, max-age=31536000, immutable"}
        return Response(held[name], headers=headers, media_type=STATIC[name])

    return answer


def _trouble(
    desk: Desk, templates: Environment
) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Anything that goes wrong as a page that says what to do, without what is within."""

    async def answer(request: Request, error: Exception) -> Response:
        status, message = 500, "Something went wrong here. What you saved before is safe."
        if isinstance(error, RefusedError):
            status, message = error.status, str(error)
        elif isinstance(error, InputError):
            status, message = 422, str(error)
        elif isinstance(error, HTTPException):
            status = error.status_code
            message = "There is no such page: go back to the plans."
        visit = Visit(desk, templates, request, "", None)
        template = "_trouble.jinja" if visit.in_part else "trouble.jinja"
        return visit.show(template, {"message": message}, status)

    return answer
