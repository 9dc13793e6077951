"""The server's side of the page: routes, and what every request goes through.

Coming in by a link, and going out.

What stands between the page and everybody else: names of hosts, headers, bodies, cookies.

The pages' forms. Whatever a value holds, it is text: escaped, and without hidden characters.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from anyio import CapacityLimiter, to_thread
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from pearl.lang.source import InputError
from pearl.lang.text import printable_lines
from pearl.review.people import (
    LIFE,
    LONGEST_NAME,
    Person,
    by_id,
    by_token,
    enter,
    everybody,
    form_token,
    leave,
    rename,
    who_is,
)
from pearl.review.session import Desk
from pearl.review.verdicts import Verdict, of_person

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


LARGEST = 512 * 1024
"""Bytes of a form."""

PATIENCE = 30.0
"""Seconds in which a form must have come."""

FIELDS = 100
"""Fields of a form."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""What a page may load and do. ``connect-src`` is for htmx, which asks this server only."""

HEADERS = (
    ("content-security-policy", POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    # With "no-referrer" a browser would not say either that a form comes from our own page.
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
)

LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})


class RefusedError(Exception):
    """A request that is not answered as it asks; the message says why, to a person."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Guard:
    """Lets requests through that were meant for this server, and adds `HEADERS` to every answer.

    A page of another site may have its own name lead to this machine; what
    its browser sends then names that site as the host, and is refused.

    Args:
        app: what answers.
        names: names under which this server is reached, in lower case.
        addresses: whether any address, which nobody else can own, will do.
    """

    app: ASGIApp
    names: frozenset[str]
    addresses: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in HEADERS
                      if name.encode() not in given),
                ]  # fmt: skip
            await send(message)

        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) == 1 and self._is_ours(hosts[0]):
            await self.app(scope, receive, guarded)
        else:
            refusal = PlainTextResponse(
                "This server is not reached under that name: start pearl review with --name.\n",
                421,
            )
            await refusal(scope, receive, guarded)

    def _is_ours(self, host: str) -> bool:
        name = _name(host)
        if name in self.names:
            return True
        return self.addresses and is_address(name)


def is_address(name: str) -> bool:
    """Whether a host's name is a number, as 192.0.2.7."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)


async def read_form(request: Request) -> dict[str, list[str]]:
    """The fields of a form that a page of ours sent.

    Raises:
        RefusedError: it is too large, no form, or another page's.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise RefusedError(415, "Send a form, as the page does.")
    _check_origin(request)
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
        form = parse_qs(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="replace"
        )
    except ValueError:
        raise RefusedError(400, "The form cannot be read: send it from the page.") from None
    return form


def check_form(form: Mapping[str, list[str]], key: str) -> None:
    """Make sure that a form comes from a page of ours in this very browser.

    Args:
        form: its fields.
        key: what the browser's cookie holds; empty where it has none.

    Raises:
        RefusedError: it does not.
    """
    sent = (form.get("csrf") or [""])[0]
    wanted = form_token(key)
    if not key or not hmac.compare_digest(sent.encode("utf-8", "replace"), wanted.encode()):
        raise RefusedError(403, "This form is too old or not ours: go back, load the page again.")


def set_cookie(response: Response, request: Request, name: str, key: str, life: float) -> None:
    """Hand a browser its secret: no script reads it, and no other site's page has it sent."""
    # Behind a server that speaks https for us, the secret is to travel by https only.
    secure = request.headers.get("origin", "").startswith("https://")
    response.set_cookie(
        name, key, max_age=int(life), path="/", httponly=True, samesite="strict", secure=secure
    )


def _check_origin(request: Request) -> None:
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise RefusedError(403, "This form comes from another site: use the page itself.")
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise RefusedError(403, "This form comes from another site: use the page itself.")


def _name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


STATIC = {
    "htmx.min.js": "text/javascript; charset=utf-8",
    "review.js": "text/javascript; charset=utf-8",
    "review.css": "text/css; charset=utf-8",
}
"""The files that pages load; there are no others."""


def read_static() -> dict[str, bytes]:
    """What is in these files."""
    folder = files("pearl.review") / "static"
    return {name: (folder / name).read_bytes() for name in STATIC}


def make_templates() -> Environment:
    """The forms, ready to be filled in."""
    templates = Environment(
        loader=PackageLoader("pearl.review", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    templates.globals["static"] = {
        name: f"/static/{name}?{hashlib.sha256(held).hexdigest()[:12]}"
        for name, held in read_static().items()
    }
    templates.filters["to_the_letter"] = _to_the_letter
    templates.filters["at"] = _at
    templates.filters["counted"] = _counted
    return templates


def _finalize(value: Any) -> Any:  # noqa: ANN401 - jinja's
    # What turns text around, or is no character of HTML, would show another text than there is.
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable_lines(value).replace("\ufffe", "�").replace("\uffff", "�")
    return value


def _to_the_letter(text: str) -> Markup:
    """A text that comes back: escaped, and nothing in it replaced."""
    return Markup(escape(text))  # noqa: S704 - it is escaped


def _at(seconds: float) -> str:
    """A time, in the zone of the server."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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


VISIT = 3600.0
"""Seconds for which the page of the entry is good."""


def enter_page(visit: Visit) -> Response:
    """Ask whoever has a link whether to come in.

    The link alone lets nobody in: a program that looks at links beforehand
    is no annotator, and another site's page cannot send a browser in.
    """
    token = visit.request.query_params.get("token", "")
    person = by_token(visit.desk.engine, token) if token else None
    if person is None and not visit.desk.open:
        raise RefusedError(401, "This link is not known here: ask for another one.")
    if person is not None and person.id not in visit.desk.people:
        raise RefusedError(403, f"{person.name} is not asked for this review.")
    return _form(visit, person, token)


def come_in(visit: Visit) -> Response:
    """Let a browser in."""
    token = visit.field("token")
    person = by_token(visit.desk.engine, token) if token else _chosen(visit)
    if person is None or person.id not in visit.desk.people:
        raise RefusedError(401, "This link is not known here: ask for another one.")
    try:
        with visit.desk.writing() as connection:
            if visit.field("name").strip():
                person = rename(connection, person, visit.field("name"))
            key = enter(connection, person)
    except InputError as error:
        return _form(visit, person, token, str(error))
    response = back_to("/")
    set_cookie(response, visit.request, visit.desk.cookie, key, LIFE)
    return response


def go_out(visit: Visit) -> Response:
    """Let the browser in no more."""
    with visit.desk.writing() as connection:
        leave(connection, visit.key)
    response = visit.show("left.jinja", {})
    response.delete_cookie(visit.desk.cookie, path="/", httponly=True, samesite="strict")
    return response


def _chosen(visit: Visit) -> Person | None:
    """Who somebody says to be, where the review is open to all on this machine."""
    number = visit.field("person")
    if not visit.desk.open or not number.isdecimal() or len(number) > 6:
        return None
    return by_id(visit.desk.engine, int(number))


def _form(visit: Visit, person: Person | None, token: str, trouble: str = "") -> Response:
    # Before anybody is in, the browser has a secret of its own, so that the form can be told from
    # another page's.
    key = visit.key or secrets.token_urlsafe(32)
    known = everybody(visit.desk.engine)
    people = [known[number] for number in visit.desk.people] if person is None else []
    values = {
        "entering": person,
        "people": people,
        "token": token,
        "form_token": form_token(key),
        "longest": LONGEST_NAME,
        "trouble": trouble,
    }
    response = visit.show("enter.jinja", values, 422 if trouble else 200)
    if not visit.key:
        set_cookie(response, visit.request, visit.desk.cookie, key, VISIT)
    return response
