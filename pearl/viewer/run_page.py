"""A run, or one row of a job, as a page: what it came to, its calls in time, and what they asked.

As one file for a browser it runs no script; served by `pearl view` its parts have addresses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from pearl.answer import answer
from pearl.lang.ast import Function
from pearl.lang.diagnostics import has_errors
from pearl.lang.errors import InputError
from pearl.lang.library import Library, find_library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.lint.checker import check
from pearl.models.base import ModelError, Reply, Request
from pearl.models.constraints import Mode
from pearl.models.middleware.stack import Engine as ModelEngine
from pearl.models.recorded import Recorded
from pearl.models.tokens import Prices
from pearl.prompts.calls import Message
from pearl.prompts.render import render as render_call
from pearl.runtime.calls import CONSTRAINED, Entry, Journal
from pearl.runtime.context import UNLIMITED, Context
from pearl.runtime.evidence import passages_given
from pearl.runtime.loop import RunError
from pearl.session import Session, planning_context
from pearl.store.history import (
    RunRow,
    read_entries,
    read_identities,
    read_row,
    since_last_start,
)
from pearl.store.totals import totals
from pearl.strategies.preparation import prepare, prepare_plan
from pearl.strategies.registry import STRATEGIES, Prepared
from pearl.viewer.documents import QuotedPassage, cut, find_document, find_passages
from pearl.viewer.job_page import STATES, JobRow, neighbours, tags_and_others, with_text
from pearl.viewer.journal_tree import (
    CallNode,
    FrameNode,
    Stage,
    count_calls,
    head_of,
    read_frames,
    read_stages,
)
from pearl.viewer.render import PlanLine, View, plan_lines, render

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
        raise run.no_question(item)
    entries = since_last_start(every)
    head = head_of(entries) or run.head
    document = find_document(head, run.head, item, folder)
    ends = [entry.started + entry.seconds for entry in entries if entry.started is not None]
    started, seconds = (entries[0].started, None) if item else (run.started, run.seconds)
    if seconds is None and ends and started is not None:
        seconds = max(ends) - started
    row = read_row(engine, run.name, item) if item else {}
    frames = read_frames(entries)
    quotes = _quotes(frames, entries, document.text)
    stages = read_stages(frames)
    library = find_library(head)
    asked_as = {"strategy": run.head.get("strategy"), **head}
    keys = (entry.call_key for entry in entries if entry.kind == "call")
    identities = read_identities(engine, run, keys)
    options = head.get("options", ())
    line = timeline(stages)
    calls = [(stage, call, None) for stage in stages for call in stage.calls]
    return render(
        "run",
        view,
        running=run.status == "running" and not row,
        name=f"{run.name}/{item}" if item else run.name,
        run=run,
        state=STATES[run.status],
        head=head,
        document=document,
        pieces=cut(document.text, chain(*quotes)) if document.text else (),
        row=row,
        item=item,
        options=options,
        judged=JobRow(row),
        gold=with_text(JobRow(row).gold, options),
        neighbours=neighbours(engine, run, item, view),
        **tags_and_others(engine, run, view if not item else None),
        times=(started, seconds),
        begun=sum(entry.path == "run" for entry in every),
        total=totals(engine, run.name, item),
        pricing=(prices, str(head.get("model", ""))),
        frames=[pair for pair in zip(frames, quotes, strict=True) if not pair[0].empty],
        stages=[(stage.title, count_calls(stage.calls)) for stage in stages],
        sum=count_calls(call for _, call, _ in calls),
        line=line,
        calls=line.calls if line else calls,
        checked=partial(_check, library),
        prompts=read_prompts(entries, identities, asked_as, options, document.text, library),
    )


def _quotes(
    frames: Sequence[FrameNode], entries: Sequence[Entry], text: Source | None
) -> list[list[QuotedPassage]]:
    """What each frame quotes of the document, numbered through."""
    quotes: list[list[QuotedPassage]] = []
    for frame in frames:
        first = 1 + sum(map(len, quotes))
        # Of a try only what it quotes itself.
        own = text and frame.answer and not frame.name
        quoted = passages_given(entries, frame.answer or "", text) if text and own else ()
        quotes.append(find_passages(frame.plan, frame.values, frame.ends, text, first, quoted))
    return quotes


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """A plan's text with what the checker says of it today.

    Args:
        lines: each with the findings on it; none where there is no plan.
        findings: how many there are.
        remark: what to know of them; empty for nothing.
    """

    lines: Sequence[PlanLine] = ()
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
    changed = "It passed the checker when it ran: the library, or a rule, has changed since."
    remark = changed if ran and has_errors(findings) else ""
    return PlanCheck(plan_lines(source, findings), len(findings), remark)


# --- when each call ran: beside which others, and after what ---

# Times are seconds since the run's first call. In the picture a place across is a share of its
# width in percent, so that it fits any page, and a place down is in pixels.

TOP, TITLE, GAP, BOTTOM = 24, 18, 10, 6
_LANE_HEIGHTS = ((8, 14), (16, 8), (10**9, 5))
"""Lanes of a stage up to a number, and the pixels of each: where there are many, they are low."""

_TICKS = 5


@dataclass(frozen=True, slots=True)
class Bar:
    """A call on the time axis.

    Args:
        call: the call.
        start: when it began.
        end: when it ended.
        lane: the row within its stage, counted from 0; calls that ran side by side stand in
            rows of their own.
    """

    call: CallNode
    start: float
    end: float
    lane: int


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """A stage on the time axis.

    Args:
        stage: the stage.
        bars: its calls.
        lanes: how many rows they take.
        waited: the key of the stage that it started after, the last to end; empty for none.
        top: where its first lane begins.
    """

    stage: Stage
    bars: tuple[Bar, ...]
    lanes: int
    waited: str = ""
    top: int = 0

    @property
    def first(self) -> Bar:
        """The call that began first."""
        return min(self.bars, key=lambda bar: bar.start)

    @property
    def last(self) -> Bar:
        """The call that ended last."""
        return max(self.bars, key=lambda bar: bar.end)

    @property
    def lane_height(self) -> int:
        """Pixels of a lane."""
        return next(height for most, height in _LANE_HEIGHTS if self.lanes <= most)

    def middle(self, bar: Bar) -> int:
        """The middle of a bar, in pixels from the top."""
        return self.top + bar.lane * self.lane_height + self.lane_height // 2


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run's calls on the time axis.

    Args:
        rows: stages that made calls, in order.
        seconds: from the first call's beginning to the last one's end.
        busy: the calls' times, added up.
        most: calls at the same time, at most.
    """

    rows: tuple[TimelineRow, ...]
    seconds: float
    busy: float
    most: int

    @property
    def height(self) -> int:
        """Pixels of the picture."""
        last = self.rows[-1]
        return last.top + last.lanes * last.lane_height + GAP + BOTTOM

    @property
    def calls(self) -> list[tuple[Stage, CallNode, float]]:
        """Every call with its stage and its beginning, in the order in which they began."""
        bars = [(row.stage, bar.call, bar.start) for row in self.rows for bar in row.bars]
        return sorted(bars, key=lambda bar: bar[2])

    @property
    def links(self) -> list[tuple[TimelineRow, TimelineRow]]:
        """Each row that waited for another, behind the one that it waited for."""
        rows = {row.stage.key: row for row in self.rows}
        return [(rows[row.waited], row) for row in self.rows if row.waited]

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round times on the axis, a few, each with its label."""
        spacing = max(self.seconds, 0.001) / _TICKS
        size = 10.0 ** _exponent(spacing)
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= spacing)
        digits = max(0, -_exponent(step))
        numbers = range(int(self.seconds / step + 1e-9) + 1)
        return [(number * step, f"{number * step:.{digits}f} s") for number in numbers]


def _exponent(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


def timeline(stages: Sequence[Stage]) -> Timeline | None:
    """Put calls on a time axis.

    Args:
        stages: in the order to show them; earlier ones may be needed by later ones.

    Returns:
        The axis, or None where a call's beginning is not known, or none was made.
    """
    starts = [call.started for stage in stages for call in stage.calls]
    times = [start for start in starts if start is not None]
    if not times or len(times) < len(starts):
        return None
    zero = min(times)
    rows = {stage.key: TimelineRow(stage, *_bars(stage.calls, zero)) for stage in stages}
    ends = {key: row.last.end for key, row in rows.items()}
    bars = [bar for row in rows.values() for bar in row.bars]
    placed: list[TimelineRow] = []
    at = TOP + TITLE
    for row in rows.values():
        waited = max(row.stage.after, key=ends.__getitem__, default="")
        placed.append(replace(row, waited=waited, top=at))
        at += row.lanes * row.lane_height + GAP + TITLE
    return Timeline(
        tuple(placed),
        max(bar.end for bar in bars),
        sum(bar.end - bar.start for bar in bars),
        _most(bars),
    )


def _bars(calls: Iterable[CallNode], zero: float) -> tuple[tuple[Bar, ...], int]:
    """Bars in as few lanes as leave none upon another, and how many those are."""
    free: list[float] = []
    bars: list[Bar] = []
    for call in sorted(calls, key=lambda call: (call.started or 0.0, call.path)):
        start = (call.started or zero) - zero
        end = start + max(call.seconds, 0.0)
        lane = next((at for at, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [end]
        bars.append(Bar(call, start, end, lane))
    return tuple(bars), len(free)


def _most(bars: Iterable[Bar]) -> int:
    """How many ran at the same time, at most; one that ended just then does not count."""
    changes = sorted(
        change for bar in bars if bar.end > bar.start for change in ((bar.start, 1), (bar.end, -1))
    )
    return max(accumulate(step for _, step in changes), default=1)


# --- what the run asked, to the letter ---


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """A prompt as it was sent.

    Args:
        messages: their roles and texts; of the last one without the document.
        document: how many characters of the document, or of a part of it, the last one begins with.
    """

    messages: tuple[tuple[str, str], ...]
    document: int = 0


def read_prompts(
    entries: Sequence[Entry],
    identities: Sequence[str],
    head: Mapping[str, Any],
    options: Sequence[str],
    document: Source | None,
    library: Library | None,
) -> dict[str, SentPrompt]:
    """The prompts of a journal's calls by the calls' keys, as far as they can be made again.

    A journal has of each call its key, which is a hash of the whole prompt, and the reply. So the
    run is made again on its own replies, and a prompt whose key is the journal's is what was sent.
    Where the library, the document or Pearl's own words have changed since, keys differ, and
    nothing is shown. Nothing is asked of anybody, and no function of a person's own is called.

    Args:
        entries: since the run was begun last, in order.
        identities: of the models that answered.
        head: what the journal says first of itself.
        options: what could be chosen from, where that is known.
        document: what was read; None where it is not at hand.
        library: the actions; None likewise.
    """
    own = library and any(isinstance(action.body, Function) for action in library.actions.values())
    if document is None or library is None or own:
        return {}
    done = (entry for entry in entries if entry.kind == "call" and entry.status == "done")
    replies = {call.call_key: call.value for call in done if isinstance(call.value, str)}
    paths = {entry.path for entry in entries}
    mode: Mode = "auto" if any(path.endswith(f"/{CONSTRAINED}") for path in paths) else "never"
    if not options and "map" in paths:
        # There were some: what was asked before hangs on that, and not on which.
        options = ("", "")
    question, context = str(head.get("question", "")), _context(entries)
    prompts: dict[str, SentPrompt] = {}
    for identity in identities:
        model = Recorded(replies, str(head.get("model", "")), identity)

        async def ask(request: Request, model: Recorded = model) -> Reply:
            if request.key in replies:
                prompts[request.key] = _prompt(request.messages, request.stable)
            elif request.plain in replies:
                prompts[request.plain] = _prompt(render_call(request.call), request.stable)
            return await model.answer(request)

        engine = ModelEngine(ask, model, (), constrain=mode)
        planning = planning_context(model, context)
        session = Session(engine, Journal(), context, planning=planning)
        # An event loop may run already in this thread, as in a notebook.
        with ThreadPoolExecutor(1) as pool:
            for prepared in _replays(entries, head, library):
                if prompts.keys() >= replies.keys():
                    break
                replayed = answer(prepared, question, document, options, session)
                # Where it goes another way than the run did, what was met until then is sound.
                with suppress(RunError, ModelError, InputError):
                    pool.submit(asyncio.run, replayed).result()
    return prompts


def _replays(
    entries: Sequence[Entry], head: Mapping[str, Any], library: Library
) -> Iterator[Prepared]:
    """How the run may have gone: by its strategy, as that is prepared where nothing else is said;
    or by the steps that it came to, after all rewriting."""
    name = str(head.get("strategy") or head.get("method") or "pearl")
    # One that uses tools, or an embedding, might ask somebody for something.
    for spec in (spec for spec in STRATEGIES if spec.name == name and not spec.uses):
        with suppress(InputError):
            own = library if spec.demonstrations else None
            yield prepare(name, str(head.get("model", "")), own)
    plans = [str(entry.value) for entry in entries if entry.path == "plan" and entry.value]
    if plans:
        with suppress(RunError):
            yield prepare_plan(parse(plans[-1]), library)


def _context(entries: Sequence[Entry]) -> Context:
    """How much fitted the model's window, where the journal says that it mattered."""
    for said in (entry.value for entry in entries if entry.path.split("/")[0] == "context"):
        with suppress(KeyError, TypeError, ValueError, InputError):
            return Context(said["policy"], int(said["window"]), int(said["reply"]))
    return UNLIMITED


def _prompt(messages: Sequence[Message], stable: int) -> SentPrompt:
    *before, last = ((message["role"], message["content"]) for message in messages)
    return SentPrompt((*before, (last[0], last[1][stable:].lstrip("\n"))), stable)
