"""The pages' forms. Whatever a value holds, it is text: escaped, and without hidden characters."""

from __future__ import annotations

import hashlib
import time
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from pearl.screen import printable_lines

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
