"""Renders pages from templates, with all values escaped and no external resources.

A plan's text is shown with findings at their lines.
"""

from __future__ import annotations

import base64
import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any, TypeVar
from urllib.parse import urlencode

from jinja2 import BaseLoader, Environment, FunctionLoader, StrictUndefined

from pearl.lang.diagnostics import Diagnostic, Severity
from pearl.lang.errors import InputError
from pearl.lang.graph import dependencies, image, outputs
from pearl.lang.parser import parse
from pearl.lang.printer import print_call
from pearl.lang.source import Source
from pearl.lang.text import counted, printable_lines, shorten
from pearl.lang.values import canonical_json
from pearl.models.tokens import dollars
from pearl.report.document import NONE, number, percent
from pearl.retrieval.terms import lacking
from pearl.runtime.evidence import NEAREST, SHARING, only_quotes, without_quotes
from pearl.store.history import RunRow
from pearl.viewer.documents import is_evidenced

_T = TypeVar("_T")

PAUSE = 2
"""The least seconds between two updates of a page that follows a run."""

AT_ONCE = 100
"""The most rows of a served page; links lead to the others."""

_NO_CHARACTERS = str.maketrans({"\ufffe": "�", "\uffff": "�"})


@dataclass(frozen=True, slots=True)
class View:
    """A served page: its address and query, and what its links need.

    Args:
        static: the addresses of the files that pages load.
        place: the store's address, without a password.
        path: the path of the page.
        query: the parameters of the request, by name.
        since: when it was requested, in seconds on the monotonic clock.
    """

    static: Mapping[str, str]
    place: str
    path: str = "/"
    query: Mapping[str, str] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    @property
    def pause(self) -> int:
        """Seconds after which a page that follows a run is updated: more if rendering is slow."""
        return max(PAUSE, math.ceil(5 * (time.monotonic() - self.since)))

    def get(self, name: str) -> str:
        """The value of a query parameter; empty where it is missing."""
        return self.query.get(name, "").strip()

    def link(self, **changed: str) -> str:
        """The page's address with some query parameters changed; empty ones are left out."""
        query = {name: text for name, text in {**self.query, **changed}.items() if text}
        return f"{self.path}?{urlencode(query)}" if query else self.path

    def number(self, name: str) -> float | None:
        """A query parameter as a number; None where it is missing.

        Raises:
            InputError: it is no number.
        """
        if not (text := self.get(name)):
            return None
        with suppress(ValueError):
            if math.isfinite(number := float(text)):
                return number
        raise InputError(f"{text} is no number.")

    def some(self, items: Sequence[_T]) -> tuple[list[_T], dict[str, str]]:
        """The items on the requested page, and links to the previous and the next page."""
        at = max(0, min(int(self.number("page") or 1), -(-len(items) // AT_ONCE)) - 1)
        links = {}
        if at:
            links["Previous"] = self.link(page=str(at) if at > 1 else "")
        if (at + 1) * AT_ONCE < len(items):
            links["Next"] = self.link(page=str(at + 2))
        return list(items[at * AT_ONCE : (at + 1) * AT_ONCE]), links


def render(template: str, view: View | None, *, running: bool, **values: Any) -> str:  # noqa: ANN401
    """Render a page.

    Args:
        template: the name of its template.
        view: the request, where it is served; None for a file.
        running: whether the run that it shows is still running.
        values: the values for the template.
    """
    style = "" if view else _file("static/style.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = _environment().get_template(f"{template}.html.jinja")
    live = view is not None and running and view.get("live") != "off"
    about = {"view": view, "running": running, "live": live, "written": time.time()}
    return page.render(style=style, digest=digest, **about, **values)


def title_of(run: RunRow) -> str:
    """What a run is about, in one line."""
    head = run.head
    if evaluation := head.get("evaluation"):
        return f"{evaluation.get('title')}: {head.get('methods')}"
    if run.has_rows:
        return f"{counted(head['count'], 'question')} of {head.get('questions', '')}"
    document = str(head.get("document", "")).rpartition(" (")[0]
    of = f"a plan on {document}" if document else head.get("library", run.name)
    return str(head.get("question") or f"{run.kind} of {of}")


def _file(name: str) -> str:
    return (files("pearl.viewer") / name).read_text(encoding="utf-8")


def make_templates(loader: BaseLoader) -> Environment:
    """Templates that escape all values and remove hidden characters from them."""
    environment = Environment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
        finalize=_harmless,
    )
    environment.filters["evidenced"] = is_evidenced
    return environment


@cache
def _environment() -> Environment:
    environment = make_templates(FunctionLoader(_file))
    environment.filters.update(
        percent=percent,
        count=number,
        counted=counted,
        took=_duration,
        moment=lambda seconds: time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds)),
        short=shorten,
        title_of=title_of,
        money=lambda millionths: NONE if millionths is None else dollars(millionths),
        plain=lambda value: value if isinstance(value, str) else canonical_json(value),
        own_words=without_quotes,
        only_quotes=only_quotes,
        lacks=lambda question, passages: lacking(question, (one.text for one in passages)),
        call=print_call,
        read_plan=lambda text: parse(text, "plan").plan,
        picture=image,
        dependencies=dependencies,
        outputs=outputs,
    )
    environment.globals.update(nearest=NEAREST, sharing=SHARING)
    return environment


def _harmless(value: Any) -> Any:  # noqa: ANN401 - whatever a template shows
    """A text without characters that could hide other text, or that HTML does not allow; markup is
    unchanged."""
    return printable_lines(value).translate(_NO_CHARACTERS) if type(value) is str else value


def _duration(seconds: float | None) -> str:
    """A duration in seconds as ``0.42 s``, ``12.3 s`` or ``3 min 20 s``."""
    if seconds is None:
        return NONE
    if seconds >= 120:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"
    return f"{seconds:.{2 if seconds < 10 else 1}f} s"


# --- a plan's text ---


@dataclass(frozen=True, slots=True)
class PlanLine:
    """A line of a plan.

    Args:
        number: counted from 1.
        parts: pieces of its text, each after the severity of the finding there, empty for none.
        findings: the findings that begin on it.
    """

    number: int
    parts: tuple[tuple[str, str], ...]
    findings: tuple[Diagnostic, ...] = ()


def plan_lines(source: Source, findings: Sequence[Diagnostic] = ()) -> list[PlanLine]:
    """A plan's lines with its findings.

    Args:
        source: the plan's text, in canonical form or as a model wrote it.
        findings: the checker's findings in this text.
    """
    ranked = sorted(findings, key=lambda finding: finding.severity is Severity.ERROR)
    lines: list[PlanLine] = []
    start = 0
    for text in source.text.split("\n"):
        marks = [""] * len(text)
        for finding in ranked:
            begin, end = finding.span.start - start, finding.span.end - start
            for at in range(max(begin, 0), min(max(end, begin + 1), len(text))):
                marks[at] = str(finding.severity)
        parts = tuple(
            (key, "".join(text[at] for at in places).replace("\r", ""))
            for key, places in groupby(range(len(text)), key=marks.__getitem__)
        )
        own = (finding for finding in findings if start <= finding.span.start <= start + len(text))
        lines.append(PlanLine(len(lines) + 1, parts, tuple(own)))
        start += len(text) + 1
    while len(lines) > 1 and not lines[-1].parts and not lines[-1].findings:
        lines.pop()
    return lines
