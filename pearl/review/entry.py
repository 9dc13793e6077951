"""Coming in by a link, and going out."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from pearl.review.app import Visit, back_to
from pearl.review.guard import RefusedError, set_cookie
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
)
from pearl.source import InputError

if TYPE_CHECKING:
    from starlette.responses import Response

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
