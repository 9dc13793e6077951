"""One file for a browser: no script, nothing from elsewhere, light and dark, readable aloud."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pearl.lang.source import InputError
from pearl.models.prices import Price, Prices
from pearl.report.document import percent
from pearl.store.history import RunRow, Totals, read_entries, read_rows, since_last_start, totals
from pearl.viewer.documents import Found, find_document, named_document
from pearl.viewer.frames import view_run
from pearl.viewer.items import read_counts, view_job
from pearl.viewer.journal import heading_of
from pearl.viewer.text import count, counted, lines, moment, money, short, shown, took

if TYPE_CHECKING:
    from jinja2 import Environment
    from sqlalchemy import Engine

Facts = list[tuple[str, str]]


def run_page(engine: Engine, run: RunRow, item: str, prices: Prices, folder: str = "") -> str:
    """The page of a run, or of one item of a job.

    Args:
        engine: the store's database.
        run: which run.
        item: the item's id in a job; empty for a run that is no job.
        prices: what models cost.
        folder: where documents are, beside the places that the run names; empty for nowhere.

    Raises:
        InputError: the job has no such item.
    """
    every = list(read_entries(engine, run, item))
    if not every and item:
        raise InputError(f"The run {run.name} has no question {item}.")
    entries = since_last_start(every)
    head = heading_of(entries) or run.head
    document = find_document(named_document(head), run.head, item, folder)
    price = prices.get(str(head.get("model", "")))
    total = totals(engine, run.name, item)
    starts = sum(one.path == "run" for one in every)
    ends = [one.started + one.seconds for one in entries if one.started is not None]
    ended = max(ends, default=None)
    span = (entries[0].started, ended) if item else (run.started, run.ended or ended)
    failed = any(one.path == "failed" for one in entries) and not item
    state = "ended without an answer" if failed else _state(run)
    row = _row_of(engine, run, item) if item else {}
    name = f"{run.name}/{item}" if item else run.name
    return _rendered(
        "run",
        title=short(shown(head.get("question") or name), 300),
        name=name,
        facts=[
            ("run", f"{run.name} ({run.kind}, {state})"),
            *_run_facts(head, document),
            *_times(*span),
            *_spent(total, price),
            *_origin(head, starts),
        ],
        view=view_run(entries, head, document, price),
        document=document,
        row=row,
        state=state,
    )


def job_page(engine: Engine, run: RunRow, prices: Prices) -> str:
    """The page of a job: what its items came to.

    Args:
        engine: the store's database.
        run: which run.
        prices: what models cost.
    """
    price = prices.get(str(run.head.get("model", "")))
    rows = (row for _, row in read_rows(engine, run.name))
    view = view_job(rows, read_counts(engine, run.name), price)
    total = totals(engine, run.name)
    evaluation = run.head.get("evaluation") or {}
    title = evaluation.get("title") or f"{run.kind} of {run.head.get('questions', '')}"
    return _rendered(
        "job",
        title=short(shown(title), 300),
        name=run.name,
        facts=_job_facts(run, total, price, sum(one.items for one in view.groups)),
        view=view,
        state=_state(run),
    )


def _row_of(engine: Engine, run: RunRow, item: str) -> Mapping[str, Any]:
    return next((row for name, row in read_rows(engine, run.name) if name == item), {})


def _run_facts(head: Mapping[str, Any], document: Found) -> Facts:
    facts = [(key, str(head[key])) for key in ("method", "model", "library") if head.get(key)]
    named = document.named
    if named is not None:
        size = "" if named.size is None else f", {named.size:,} characters"
        facts.append(("document", f"{named.name}{size}"))
        if named.digest:
            facts.append(("sha256", named.digest))
    return facts


def _origin(head: Mapping[str, Any], starts: int) -> Facts:
    often = f"{starts} times; the page shows the last, the sums are of all"
    facts = [("begun", often)] if starts > 1 else []
    return [*facts, ("Pearl", str(head["pearl"]))] if head.get("pearl") else facts


def _job_facts(run: RunRow, total: Totals, price: Price | None, rows: int) -> Facts:
    head = run.head
    facts = [("run", f"{run.name} ({run.kind}, {_state(run)})")]
    wanted = ("questions", "documents", "split", "methods", "model", "library", "output")
    facts += [(key, str(head[key])) for key in wanted if head.get(key)]
    if run.kind != "eval":
        facts.append(("rows", f"{rows:,} of {count(head.get('count'))}"))
    return facts + _times(run.started, run.ended) + _spent(total, price)


def _times(started: float | None, ended: float | None) -> Facts:
    if started is None:
        return []
    told = "it has not ended" if ended is None else took(ended - started)
    return [("started", moment(started)), ("took", told)]


def _spent(total: Totals, price: Price | None) -> Facts:
    spent = total.spent
    cost = None if price is None else price.cost(spent)
    return [
        ("calls", f"{total.made:,} made, {total.kept:,} kept, {total.failed:,} in vain"),
        (
            "tokens",
            f"{spent.prompt_tokens:,} read ({spent.cached_tokens:,} of them from the endpoint's "
            f"cache), {spent.completion_tokens:,} written",
        ),
        ("cost", money(cost) if cost is not None else "not known: no price for this model"),
    ]


def _state(run: RunRow) -> str:
    if run.ended is not None:
        return "ended"
    return "running" if run.alive else "stopped on the way"


def _rendered(template: str, **values: Any) -> str:  # noqa: ANN401 - template values
    style = _file("style.css")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        _environment()
        .get_template(f"{template}.html.jinja")
        .render(style=style, digest=digest, written=moment(time.time()), **values)
    )


def _file(name: str) -> str:
    return (files("pearl.viewer") / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_file),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
        finalize=_harmless,
    )
    environment.filters.update(
        percent=percent,
        count=count,
        counted=counted,
        money=money,
        took=took,
        moment=moment,
        short=short,
    )
    return environment


def _harmless(value: Any) -> Any:  # noqa: ANN401 - whatever a template shows
    """Texts without what could hide other text, whoever made them; markup stays markup."""
    return lines(value) if type(value) is str else value
