"""A run, or one row of a job, as a page: its result, a timeline of its calls, and their prompts.

As a file it has no scripts; `pearl view` serves it with links between its parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any

from pearl.answer import answer
from pearl.lang.ast import Function
from pearl.lang.diagnostics import errors_of
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
from pearl.store.history import RunRow, read_entries, read_identities, read_rows, since_last_start
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
        run: the run.
        item: the item's id in a job; empty for a run that is no job.
        prices: the price table.
        folder: a folder of documents, beside the places that the run names; empty for none.
        view: the request, where it is served; None for a file.

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
    row = dict(read_rows(engine, run.name, [item])).get(item, {}) if item else {}
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
    """The quotes of each frame, numbered across all frames."""
    quotes: list[list[QuotedPassage]] = []
    for frame in frames:
        first = 1 + sum(map(len, quotes))
        own = text and frame.answer and not frame.name
        quoted = passages_given(entries, frame.answer or "", text) if text and own else ()
        quotes.append(find_passages(frame, text, first, quoted))
    return quotes


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """A plan's text with the findings of the current checker.

    Args:
        lines: its lines with their findings; empty where there is no plan.
        findings: how many findings there are.
        remark: a remark on the check; empty for none.
    """

    lines: Sequence[PlanLine] = ()
    findings: int = 0
    remark: str = ""


def _check(library: Library | None, text: str, *, ran: bool) -> PlanCheck:
    """Check a plan's text with its library, if available; ``ran`` says that it passed before."""
    if not text.strip():
        return PlanCheck()
    source = Source("plan", text)
    if library is None:
        remark = "Its library is not at hand, so the plan was not checked again."
        return PlanCheck(plan_lines(source), 0, remark)
    findings = check(parse(source), library)
    changed = "It passed the checker when it ran: the library, or a rule, has changed since."
    remark = changed if ran and errors_of(findings) else ""
    return PlanCheck(plan_lines(source, findings), len(findings), remark)


# --- the timeline of calls ---

# Times are seconds since the run's first call. In the picture horizontal positions are in percent
# of its width, so that it fits any page, and vertical ones are in pixels.

TOP, TITLE, GAP, BOTTOM = 24, 18, 10, 6
_LANE_HEIGHTS = ((8, 14), (16, 8), (10**9, 5))
"""Pairs of a number of lanes and the pixels of each lane of a stage with up to so many."""

_TICKS = 5


@dataclass(frozen=True, slots=True)
class Bar:
    """A call on the time axis.

    Args:
        call: the call.
        start: when it started.
        end: when it ended.
        lane: its lane in the stage, from 0; calls that ran at the same time have different lanes.
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
        lanes: how many lanes they take.
        waited: the key of the last stage that it waited for; empty for none.
        top: where its first lane begins, in pixels.
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
        seconds: from the start of the first call to the end of the last.
        busy: the sum of the calls' durations, in seconds.
        most: the most calls at the same time.
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
        """Every call with its stage and start, in the order of starts."""
        bars = [(row.stage, bar.call, bar.start) for row in self.rows for bar in row.bars]
        return sorted(bars, key=lambda bar: bar[2])

    @property
    def links(self) -> list[tuple[TimelineRow, TimelineRow]]:
        """For each row that waited for another, both, that other one first."""
        rows = {row.stage.key: row for row in self.rows}
        return [(rows[row.waited], row) for row in self.rows if row.waited]

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """A few round times on the axis, with their labels."""
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
        stages: the stages, in the order to show them.

    Returns:
        The timeline, or None where there are no calls, or one's start is not known.
    """
    starts = [call.started for stage in stages for call in stage.calls]
    times = [start for start in starts if start is not None]
    if not times or len(times) < len(starts):
        return None
    zero = min(times)
    placed = {stage.key: _bars(stage.calls, zero) for stage in stages}
    bars = [bar for own, _ in placed.values() for bar in own]
    ends = {key: max(bar.end for bar in own) for key, (own, _) in placed.items()}
    rows: list[TimelineRow] = []
    at = TOP + TITLE
    for stage in stages:
        waited = max(stage.after, key=ends.__getitem__, default="")
        rows.append(TimelineRow(stage, *placed[stage.key], waited, at))
        at += rows[-1].lanes * rows[-1].lane_height + GAP + TITLE
    busy = sum(bar.end - bar.start for bar in bars)
    return Timeline(tuple(rows), max(ends.values()), busy, _most(bars))


def _bars(calls: Iterable[CallNode], zero: float) -> tuple[tuple[Bar, ...], int]:
    """Bars in as few lanes as possible without overlaps, and the number of lanes."""
    free: list[float] = []
    bars: list[Bar] = []
    for call in sorted(calls, key=lambda call: (call.started or 0.0, call.entry.path)):
        start = (call.started or zero) - zero
        end = start + max(call.seconds, 0.0)
        lane = next((at for at, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [end]
        bars.append(Bar(call, start, end, lane))
    return tuple(bars), len(free)


def _most(bars: Iterable[Bar]) -> int:
    """The most calls at the same time; one that ends just when another starts does not count."""
    changes = sorted(
        change for bar in bars if bar.end > bar.start for change in ((bar.start, 1), (bar.end, -1))
    )
    return max(accumulate(step for _, step in changes), default=1)


# --- the prompts of the run ---


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """A prompt as it was sent.

    Args:
        messages: roles and texts; the last one without the document.
        document: how many characters of the document, or a part of it, begin the last message.
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
    """The prompts of a journal's calls, by the calls' keys, as far as they can be reconstructed.

    A journal has only the key of each call, a hash of the whole prompt, and the reply. So the run
    is replayed with these replies, and a prompt with the same key is the one that was sent. If the
    library, the document or Pearl's templates have changed, keys differ, and no prompt is shown.
    No model, tool or function of the user's is called.

    Args:
        entries: the entries since the run was last started, in order.
        identities: the identities of the models that answered.
        head: the head of the journal.
        options: the options, where they are known.
        document: the document; None where it is not available.
        library: the actions; None where they are not available.
    """
    own = library and any(isinstance(action.body, Function) for action in library.actions.values())
    if document is None or library is None or own:
        return {}
    done = (entry for entry in entries if entry.kind == "call" and entry.status == "done")
    replies = {call.call_key: call.value for call in done if isinstance(call.value, str)}
    paths = {entry.path for entry in entries}
    mode: Mode = "auto" if any(path.endswith(f"/{CONSTRAINED}") for path in paths) else "never"
    if not options and "map" in paths:
        # There were options: earlier prompts depend only on whether there were any.
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
                # If the replay departs from the run and fails, the prompts before that are right.
                with suppress(RunError, ModelError, InputError):
                    pool.submit(asyncio.run, replayed).result()
    return prompts


def _replays(
    entries: Sequence[Entry], head: Mapping[str, Any], library: Library
) -> Iterator[Prepared]:
    """Ways to replay a run: by its strategy with default settings, and by the plan that it ran."""
    name = str(head.get("strategy") or head.get("method") or "pearl")
    # A strategy with tools or an embedding could send something.
    for spec in (spec for spec in STRATEGIES if spec.name == name and not spec.uses):
        with suppress(InputError):
            own = library if spec.demonstrations else None
            yield prepare(name, str(head.get("model", "")), own)
    plans = [str(entry.value) for entry in entries if entry.path == "plan" and entry.value]
    if plans:
        with suppress(RunError):
            yield prepare_plan(parse(plans[-1]), library)


def _context(entries: Sequence[Entry]) -> Context:
    """The context of the run, if the journal records it; else no limit."""
    for value in (entry.value for entry in entries if entry.path.split("/")[0] == "context"):
        with suppress(KeyError, TypeError, ValueError, InputError):
            return Context(value["policy"], int(value["window"]), int(value["reply"]))
    return UNLIMITED


def _prompt(messages: Sequence[Message], stable: int) -> SentPrompt:
    *before, last = ((message["role"], message["content"]) for message in messages)
    return SentPrompt((*before, (last[0], last[1][stable:].lstrip("\n"))), stable)
