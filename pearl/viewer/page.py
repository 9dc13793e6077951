"""A run, or one row of a job, as a page.

As one file for a browser it runs no script; served by `pearl view` its parts have addresses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pearl.lang.diagnostics import has_errors
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.source import InputError, Source, shipped_actions
from pearl.lint.checker import check
from pearl.models.tokens import Prices
from pearl.runtime.calls import Entry
from pearl.runtime.evidence import passages_given
from pearl.store.history import (
    RunRow,
    read_entries,
    read_identities,
    read_row,
    since_last_start,
    totals,
)
from pearl.viewer.documents import Passage, cut, find_document, find_passages
from pearl.viewer.job import STATES, Item, cost_of, neighbours, tags_and_others, with_text
from pearl.viewer.journal import Frame, count_calls, head_of, read_frames, read_stages
from pearl.viewer.plans import Line, plan_lines
from pearl.viewer.prompts import read_prompts
from pearl.viewer.render import View, render
from pearl.viewer.timeline import timeline

if TYPE_CHECKING:
    from sqlalchemy import Engine


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
    quotes = _quotes(frames, entries, document.text)
    stages = read_stages(frames)
    library = _find_library(head)
    asked_as = {"strategy": run.head.get("strategy"), **head}
    keys = (entry.call_key for entry in entries if entry.kind == "call")
    identities = read_identities(engine, run, keys)
    options = head.get("options", ())
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
        options=options,
        gold=with_text(Item(row).gold, options),
        neighbours=neighbours(engine, run, item, view),
        **tags_and_others(engine, run, view if not item else None),
        span=(entries[0].started, ended) if item else (run.started, run.ended or ended),
        begun=sum(entry.path == "run" for entry in every),
        total=totals(engine, run.name, item),
        cost=partial(cost_of, prices, str(head.get("model", ""))),
        frames=[pair for pair in zip(frames, quotes, strict=True) if not pair[0].empty],
        stages=[(stage.title, count_calls(stage.calls)) for stage in stages if stage.calls],
        sum=count_calls(call for _, call in calls),
        line=line,
        calls=line.calls if line else [(stage, call, None) for stage, call in calls],
        checked=partial(_check, library),
        prompts=read_prompts(entries, identities, asked_as, options, document.text, library),
    )


def _quotes(
    frames: Sequence[Frame], entries: Sequence[Entry], text: Source | None
) -> list[list[Passage]]:
    """What each frame quotes of the document, numbered through."""
    quotes: list[list[Passage]] = []
    for frame in frames:
        first = 1 + sum(map(len, quotes))
        # Of a try only what it quotes itself.
        own = text and frame.answer and not frame.name
        quoted = passages_given(entries, frame.answer or "", text) if text and own else ()
        quotes.append(find_passages(frame.plan, frame.values, frame.ends, text, first, quoted))
    return quotes


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


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """A plan's text with what the checker says of it today.

    Args:
        lines: coloured, each with the findings on it; none where there is no plan.
        findings: how many there are.
        remark: what to know of them; empty for nothing.
    """

    lines: Sequence[Line] = ()
    findings: int = 0
    remark: str = ""


def _check(library: Library | None, text: str, *, ran: bool) -> PlanCheck:
    """Check a plan's text against its library, where that is at hand; ``ran``: it passed then."""
    if not text.strip():
        return PlanCheck()
    source = Source("plan", text)
    if library is None:
        remark = "Its library is not at hand, so the plan was not checked again."
        return PlanCheck(plan_lines(source), 0, remark)
    findings = check(parse(source), library)
    remark = ""
    if ran and has_errors(findings):
        remark = "It passed the checker when it ran: the library, or a rule, has changed since."
    return PlanCheck(plan_lines(source, findings), len(findings), remark)
