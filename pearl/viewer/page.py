"""A run, or a job, as a page: nothing from elsewhere, all escaped.

As one file for a browser it runs no script; served by `pearl view` its parts have addresses.
"""

from __future__ import annotations

import base64
import hashlib
import math
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import urlencode

from jinja2 import BaseLoader, Environment, FunctionLoader, StrictUndefined
from sqlalchemy import and_, case, func, select

from pearl.lang.diagnostics import has_errors
from pearl.lang.graph import dependencies, image, outputs
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_call
from pearl.lang.source import InputError, Source, shipped_actions
from pearl.lang.text import counted, printable_lines, shorten
from pearl.lang.values import canonical_json
from pearl.lint.checker import check
from pearl.models.base import Usage
from pearl.models.tokens import Prices, dollars
from pearl.report.document import NONE, number, percent
from pearl.runtime.calls import Entry
from pearl.runtime.evidence import passages_given, without_quotes
from pearl.store.database import reading
from pearl.store.history import (
    RunRow,
    Totals,
    Wanted,
    list_runs,
    read_beside,
    read_entries,
    read_identities,
    read_row,
    read_rows,
    read_tags,
    since_last_start,
    totals,
)
from pearl.store.tables import entries as entries_table
from pearl.viewer.documents import Passage, cut, find_document, find_passages, questions_in
from pearl.viewer.journal import Call, Stage, count_calls, head_of, read_frames, read_stages
from pearl.viewer.plans import Line, plan_lines
from pearl.viewer.prompts import read_prompts
from pearl.viewer.timeline import Timeline, timeline

if TYPE_CHECKING:
    from sqlalchemy import Engine, Select

_T = TypeVar("_T")

MOST = 5000
"""Rows on a page, at most: a browser shows no more of them with ease."""

SLOWEST = 10
"""Items that are named as the slowest."""

PAUSE = 2
"""Seconds between two looks at a run that is followed, at least."""

AT_ONCE = 100
"""Rows of a page that is served; links lead to the others."""

COMPARED = ("ask", "run", "batch", "eval")
"""Kinds of runs that can be held against another of their kind."""

CHOICE = 50
"""Runs to choose from for that, the last ones."""

STATES = {"ended": "ended", "running": "running", "stopped": "stopped on the way"}
"""What may be the matter with a run, in words."""

_NO_CHARACTERS = str.maketrans({"\ufffe": "�", "\uffff": "�"})


@dataclass(frozen=True, slots=True)
class View:
    """A page that is served: what its links lead to, and what it was asked for.

    Args:
        static: the addresses of the files that pages load.
        place: the store, as a person may see it.
        path: the page's own.
        query: what stands behind the path, by name.
        asked: when it was asked for, by the monotonic clock.
    """

    static: Mapping[str, str]
    place: str
    path: str = "/"
    query: Mapping[str, str] = field(default_factory=dict)
    asked: float = field(default_factory=time.monotonic)

    @property
    def pause(self) -> int:
        """Seconds after which a page that follows a run asks again: more where it takes long."""
        return max(PAUSE, math.ceil(5 * (time.monotonic() - self.asked)))

    def get(self, name: str) -> str:
        """What was asked for under a name; empty for nothing."""
        return self.query.get(name, "").strip()

    def link(self, **changed: str) -> str:
        """The page's address with other wishes; an empty one is left out."""
        query = {name: text for name, text in {**self.query, **changed}.items() if text}
        return f"{self.path}?{urlencode(query)}" if query else self.path

    def number(self, name: str) -> float | None:
        """A number that was asked for; None for none.

        Raises:
            InputError: it is none.
        """
        text = self.get(name)
        try:
            number = float(text) if text else None
        except ValueError:
            number = math.nan
        if number is not None and not math.isfinite(number):
            raise InputError(f"{text} is no number.")
        return number

    def some(self, items: Sequence[_T]) -> tuple[list[_T], dict[str, str]]:
        """Those on the page that was asked for, and links to the pages before and behind it."""
        at = max(0, min(int(self.number("page") or 1), -(-len(items) // AT_ONCE)) - 1)
        links = {}
        if at:
            links["Previous"] = self.link(page=str(at) if at > 1 else "")
        if (at + 1) * AT_ONCE < len(items):
            links["Next"] = self.link(page=str(at + 2))
        return list(items[at * AT_ONCE : (at + 1) * AT_ONCE]), links


def run_page(
    engine: Engine,
    run: RunRow,
    item: str,
    prices: Prices,
    folder: str = "",
    view: View | None = None,
) -> str:
    """The page of a run, or of one item of a job.

    Args:
        engine: the store's database.
        run: which run.
        item: the item's id in a job; empty for a run that is no job.
        prices: what models cost.
        folder: where documents are, beside the places that the run names; empty for nowhere.
        view: where it is served; None for a file.

    Raises:
        InputError: the job has no such item.
    """
    every = list(read_entries(engine, run, item))
    if not every and item:
        raise InputError(f"The run {run.name} has no question {item}.")
    entries = since_last_start(every)
    head = head_of(entries) or run.head
    document = find_document(head, run.head, item, folder)
    ends = [entry.started + entry.seconds for entry in entries if entry.started is not None]
    ended = max(ends, default=None)
    failed = any(entry.path == "failed" for entry in entries) and not item
    row = read_row(engine, run.name, item) if item else {}
    frames = read_frames(entries)
    quotes: list[list[Passage]] = []
    for frame in frames:
        first = 1 + sum(map(len, quotes))
        text, given = document.text, (frame.plan, frame.values, frame.ends)
        # Of a try only what it quotes itself.
        own = text and frame.answer and not frame.name
        found = passages_given(entries, frame.answer or "", text) if text and own else ()
        quotes.append(find_passages(*given, text, first, found))
    stages = read_stages(frames)
    library = _find_library(head)
    asked_as = {"strategy": run.head.get("strategy"), **head}
    keys = (entry.call_key for entry in entries if entry.kind == "call")
    identities = read_identities(engine, run, keys)
    options = (row.get("result") or {}).get("options") or ()
    if item and not options and run.kind == "batch":
        asked = questions_in(Path(str(run.head.get("questions", ""))), item)
        options = next((one.options for one in asked), ())
    calls = [(stage, call) for stage in stages for call in stage.calls]
    line = timeline(stages)
    return render(
        "run",
        view,
        running=run.status == "running" and not row,
        name=f"{run.name}/{item}" if item else run.name,
        run=run,
        state="ended without an answer" if failed else STATES[run.status],
        head=head,
        document=document,
        pieces=cut(document.text, chain(*quotes)) if document.text else (),
        row=row,
        item=item,
        neighbours=_neighbours(engine, run, item, view),
        **_beside(engine, run, view if not item else None),
        span=(entries[0].started, ended) if item else (run.started, run.ended or ended),
        begun=sum(entry.path == "run" for entry in every),
        total=totals(engine, run.name, item),
        cost=partial(_cost, prices, str(head.get("model", ""))),
        frames=[pair for pair in zip(frames, quotes, strict=True) if not pair[0].empty],
        stages=[(stage.title, count_calls(stage.calls)) for stage in stages if stage.calls],
        sum=count_calls(call for _, call in calls),
        line=line,
        calls=line.calls if line else [(stage, call, None) for stage, call in calls],
        checked=partial(_checked, library),
        prompts=read_prompts(entries, identities, asked_as, options, document.text, library),
    )


def _neighbours(engine: Engine, run: RunRow, item: str, view: View | None) -> dict[str, str]:
    """Links to the rows before and behind one, of those that are asked for."""
    if not view or not item:
        return {}
    before, behind = "", ""
    if any(map(view.get, ("q", "show", "method"))):
        rows = (Item(row) for _, row in read_rows(engine, run.name))
        names = [one.id for one in rows if one.is_asked_for(view) or one.id == item]
        if item in names:
            at = names.index(item)
            before, behind = (names[at - 1] if at else ""), "".join(names[at + 1 : at + 2])
    else:
        before, behind = read_beside(engine, run.name, item)
    found = {"Previous row": before, "Next row": behind}
    return {label: view.link(item=name) for label, name in found.items() if name}


def _cost(prices: Prices, name: str, spent: Mapping[str, Usage]) -> int | None:
    """What tokens cost; those under no name are of the run's one model."""
    return prices.cost({model or name: usage for model, usage in spent.items()} or {name: Usage()})


def _find_library(head: Mapping[str, Any]) -> Library | None:
    """The library that a journal's head names, as it is here and now; None where it is not here."""
    text = head.get("library")
    names = text.split(", ") if isinstance(text, str) and text else []
    shipped = shipped_actions()
    try:
        if not names or not all(name in shipped or Path(name).is_file() for name in names):
            return None
        return load_library(*names)
    except (InputError, OSError, ValueError):
        return None


def price_of(prices: Prices, run: RunRow, total: Totals) -> int | None:
    """What a run's calls cost, in millionths of a dollar; None where no price is known."""
    name = str(run.head.get("model", ""))
    return _cost(prices, name, total.spent_by(name))


@dataclass(frozen=True, slots=True)
class Checked:
    """A plan's text with what the checker says of it today.

    Args:
        lines: coloured, each with the findings on it; none where there is no plan.
        findings: how many there are.
        remark: what to know of them; empty for nothing.
    """

    lines: Sequence[Line] = ()
    findings: int = 0
    remark: str = ""


def _checked(library: Library | None, text: str, *, ran: bool) -> Checked:
    if not text.strip():
        return Checked()
    source = Source("plan", text)
    if library is None:
        remark = "Its library is not at hand, so the plan was not checked again."
        return Checked(plan_lines(source), 0, remark)
    findings = check(parse(source), library)
    remark = ""
    if ran and has_errors(findings):
        remark = "It passed the checker when it ran: the library, or a rule, has changed since."
    return Checked(plan_lines(source, findings), len(findings), remark)


_SEARCHED = ("question", "words", "gold", "error", "document")
"""What of a row words are looked for in."""


@dataclass(frozen=True, slots=True)
class Item:
    """A row of a job.

    Args:
        row: as the store has it.
        counts: what its calls came to, over all the times that it was begun.
        seconds: from when it was begun last to its last call's end; None where that is not known.
        begun: when it was, in seconds since 1970; None likewise.
    """

    row: Mapping[str, Any]
    counts: Totals = field(default_factory=Totals)
    seconds: float | None = None
    begun: float | None = None

    def get(self, key: str) -> Any:  # noqa: ANN401 - any JSON
        """What the row says, or the result in it; an empty text for nothing."""
        return self.row.get(key) or (self.row.get("result") or {}).get(key) or ""

    @property
    def id(self) -> str:
        """The item's id."""
        return str(self.row.get("id", ""))

    @property
    def answered(self) -> bool:
        """Whether it has an answer."""
        return self.row.get("status") == "answered"

    @property
    def remarks(self) -> str:
        """What to know of its answer: that nothing stands behind it, that there was no plan."""
        told = {"no evidence": ("grounded", False), "no plan": ("fallback", True)}
        return ", ".join(said for said, (key, value) in told.items() if self.row.get(key) is value)

    @property
    def verdict(self) -> str:
        """``right``, ``wrong``, or empty where that is not known."""
        return {"True": "right", "False": "wrong"}.get(str(self.row.get("correct")), "")

    def is_asked_for(self, view: View) -> bool:
        """Whether it has the words, the verdict and the method that a page is asked for."""
        wanted, method = view.get("show"), view.get("method")
        verdict = self.verdict if self.answered else f"failed {self.verdict}"
        if wanted and wanted not in verdict.split():
            return False
        if method and method != self.method:
            return False
        words = view.get("q").casefold().split()
        text = " ".join([self.id, *map(str, map(self.get, _SEARCHED)), self.answer]).casefold()
        return all(word in text for word in words)

    @property
    def method(self) -> str:
        """Of an evaluation's row, whose id is that, and the question's behind it; else empty."""
        if "example" not in self.row:
            return ""
        method = (self.row.get("result") or {}).get("method")
        return str(method or self.id.partition("/")[0])

    @property
    def answer(self) -> str:
        """What came of it in a line: an option, an answer, actions, tries, labels."""
        if not self.answered:
            return ""
        option = self.row.get("option")
        if isinstance(option, dict):
            return f"{option.get('letter')}. {option.get('text')}"
        for key, noun in (("actions", "action"), ("tries", "plan")):
            if isinstance(self.row.get(key), list):
                return counted(len(self.row[key]), noun)
        if isinstance(self.row.get("labels"), list):
            return ", ".join(map(str, self.row["labels"]))
        return str(self.row.get("words") or self.get("answer"))


def job_page(engine: Engine, run: RunRow, prices: Prices, view: View | None = None) -> str:
    """The page of a job: what its items came to.

    Args:
        engine: the store's database.
        run: which run.
        prices: what models cost.
        view: where it is served; None for a file.
    """
    counts = _read_counts(engine, run.name)
    items = [Item(row, *counts.get(name, ())) for name, row in read_rows(engine, run.name)]
    return render(
        "job",
        view,
        running=run.status == "running",
        name=run.name,
        run=run,
        state=STATES[run.status],
        total=totals(engine, run.name),
        cost=partial(_cost, prices, str(run.head.get("model", ""))),
        **_beside(engine, run, view),
        **sum_up(items, view),
    )


def _beside(engine: Engine, run: RunRow, view: View | None) -> dict[str, Any]:
    """What a run is called, and where a page is served the others that it may be compared with."""
    others: list[RunRow] = []
    if view and run.kind in COMPARED:
        others = list_runs(engine, time.time(), CHOICE + 1, Wanted(kind=run.kind))
        others.sort(key=lambda one: one.head.get("questions") != run.head.get("questions"))
    called = ", ".join(read_tags(engine, [run.name])[run.name])
    return {"called": called, "others": [one for one in others if one.name != run.name][:CHOICE]}


def sum_up(items: Sequence[Item], view: View | None = None) -> dict[str, Any]:
    """What a job came to, for its template.

    Args:
        items: its rows, in order.
        view: where it is served, and which rows are asked for; None for a file.

    Returns:
        ``items``, where there are too many those that failed or are wrong first; of a page that is
        served those on it, ``links`` to the others, and how many are ``found``; ``all`` of them;
        ``groups`` by method; ``reasons`` why items failed, the commonest first; the ``slowest``,
        each with its place in ``items``; the ``line`` of items in time, where that is known.
    """
    listed = [item for item in items if item.is_asked_for(view)] if view else list(items)
    found = len(listed)
    links: dict[str, str] = {}
    if view:
        listed, links = view.some(listed)
    elif len(items) > MOST:
        listed.sort(key=lambda item: item.answered and item.verdict != "wrong")
    places = {id(item): at for at, item in enumerate(listed[:MOST])}
    timed = [item for item in items if item.seconds is not None]
    slowest = sorted(timed, key=lambda item: -(item.seconds or 0.0))[:SLOWEST]
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.method, []).append(item)
    failures = Counter(
        str((item.row.get("error") or {}).get("reason", "")) for item in items if not item.answered
    )
    return {
        "items": listed[:MOST],
        "found": found,
        "links": links,
        "all": items,
        "groups": groups,
        "reasons": failures.most_common(),
        "slowest": [(item, places.get(id(item))) for item in slowest],
        "line": _in_time(items) if len(timed) == len(items) <= MOST else None,
    }


def _in_time(items: Iterable[Item]) -> Timeline | None:
    """The items in time, each as one bar."""
    bars = []
    for item in items:
        status: Literal["done", "failed"] = "done" if item.answered else "failed"
        cause = str((item.row.get("error") or {}).get("message", ""))
        seconds = item.seconds or 0.0
        entry = Entry(
            "call", item.id, status=status, cause=cause, seconds=seconds, started=item.begun
        )
        bars.append(Call(item.id, entry))
    return timeline([Stage("items", counted(len(bars), "item"), tuple(bars))])


def _read_counts(engine: Engine, run: str) -> dict[str, tuple[Totals, float | None, float | None]]:
    """Of each item of a job, what an `Item` has beside its row."""
    columns = entries_table.c
    call, done = columns.kind == "call", columns.status == "done"
    sorts = (
        and_(call, done, ~columns.kept),
        and_(call, done, columns.kept),
        and_(call, columns.status == "failed"),
    )
    tokens = (columns.prompt_tokens, columns.completion_tokens, columns.cached_tokens)
    query: Select[Any] = (
        select(
            columns.item,
            columns.model,
            func.max(case((columns.path == "run", columns.started))),
            func.max(columns.started + columns.seconds),
            *(func.sum(case((where, 1), else_=0)) for where in sorts),
            *(func.sum(case((and_(call, ~columns.kept), sent), else_=0)) for sent in tokens),
        )
        .where(columns.run == run)
        .group_by(columns.item, columns.model)
    )
    models: dict[str, dict[str, Totals]] = {}
    times: dict[str, tuple[list[float], list[float]]] = {}
    with reading(engine) as connection:
        for item, model, begun, ended, *numbers in connection.execute(query):
            made, kept, failed, *spent = map(int, numbers)
            own = models.setdefault(item, {})
            # Decisions, the first among them, are of no model.
            if made + kept + failed:
                own[model] = Totals(made, kept, failed, Usage(*spent))
            for known, time in zip(times.setdefault(item, ([], [])), (begun, ended), strict=True):
                known += [] if time is None else [time]
    counts = {}
    for item, own in models.items():
        begun, ended = (max(known, default=None) for known in times[item])
        seconds = None if begun is None or ended is None else max(0.0, ended - begun)
        counts[item] = (replace(sum(own.values(), Totals()), models=own), seconds, begun)
    return counts


def render(template: str, view: View | None, *, running: bool, **values: Any) -> str:  # noqa: ANN401
    """A page.

    Args:
        template: the name of its form.
        view: where it is served; None for a file.
        running: whether what it shows is still being made.
        values: what it is filled in with.
    """
    style = "" if view else _file("static/style.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = _environment().get_template(f"{template}.html.jinja")
    shown = {"style": style, "digest": digest, "written": time.time(), **values}
    live = view is not None and running and view.get("live") != "off"
    return page.render(view=view, running=running, live=live, **shown)


def title_of(run: RunRow) -> str:
    """What a run was about, in a line."""
    head = run.head
    if evaluation := head.get("evaluation"):
        return f"{evaluation.get('title')}: {head.get('methods')}"
    if run.has_rows:
        return f"{counted(head['count'], 'question')} of {head.get('questions', '')}"
    return str(head.get("question") or f"{run.kind} of {head.get('library', run.name)}")


def _file(name: str) -> str:
    return (files("pearl.viewer") / name).read_text(encoding="utf-8")


def make_templates(loader: BaseLoader) -> Environment:
    """Templates in which whatever a value holds is text: escaped, without hidden characters."""
    return Environment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
        finalize=_harmless,
    )


@cache
def _environment() -> Environment:
    environment = make_templates(FunctionLoader(_file))
    environment.filters.update(
        percent=percent,
        count=number,
        counted=counted,
        took=_took,
        moment=lambda seconds: time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds)),
        short=shorten,
        title_of=title_of,
        # Of millionths of a dollar; a dash where no price is known.
        money=lambda millionths: NONE if millionths is None else dollars(millionths),
        cost=lambda counts, cost: cost(counts.spent_by("")),
        plain=lambda value: value if isinstance(value, str) else canonical_json(value),
        own_words=without_quotes,
        call=print_call,
        read_plan=lambda text: parse(text, "plan").plan,
        picture=image,
        dependencies=dependencies,
        outputs=outputs,
    )
    return environment


def _harmless(value: Any) -> Any:  # noqa: ANN401 - whatever a template shows
    """A text without what could hide other text, or is no character; markup stays markup."""
    return printable_lines(value).translate(_NO_CHARACTERS) if type(value) is str else value


def _took(seconds: float | None) -> str:
    """``0.42 s``, ``12.3 s``, ``3 min 20 s``: a time that something took."""
    if seconds is None:
        return NONE
    if seconds >= 120:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {rest} s"
    return f"{seconds:.{2 if seconds < 10 else 1}f} s"
