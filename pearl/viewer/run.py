"""A run, or one item of a job, as a page's template takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from pearl.llm.prices import Price
from pearl.runtime.journal import Entry
from pearl.source import Source
from pearl.viewer.calls import Made
from pearl.viewer.documents import Found
from pearl.viewer.frames import FrameView, find_library, view_frame
from pearl.viewer.gather import Frame, read_frames
from pearl.viewer.passages import Passage, Piece, cut, passages
from pearl.viewer.picture import draw
from pearl.viewer.steps import Cost, cost_of, stages_of
from pearl.viewer.timeline import Stage, Timeline, timeline
from pearl.viewer.words import counted, shown, took


@dataclass(frozen=True, slots=True)
class Timed:
    """A call in the table below the timeline.

    Args:
        stage: what it belongs to.
        call: the call.
        start: seconds since the run's first call; None where that is not known.
    """

    stage: str
    call: Made
    start: float | None


@dataclass(frozen=True, slots=True)
class RunView:
    """What a page of a run shows beside its head.

    Args:
        frames: the run's own first, then the tries of a refinement.
        costs: by stage.
        total: of all stages.
        line: the calls in time; None where that is not known.
        drawn: the same as a picture.
        path: the critical path: stages, and the seconds that each added.
        pieces: the document, cut at its quotes; none where it is not at hand.
        calls: every call, in the order in which they began.
    """

    frames: tuple[FrameView, ...]
    costs: tuple[Cost, ...]
    total: Cost
    line: Timeline | None
    drawn: Markup
    path: tuple[tuple[str, float], ...]
    pieces: tuple[Piece, ...]
    calls: tuple[Timed, ...]


def view_run(
    entries: Sequence[Entry], head: Mapping[str, Any], document: Found, price: Price | None
) -> RunView:
    """What a journal says, put together for a page.

    Args:
        entries: since the run was begun last, in order.
        head: what the journal says first of itself.
        document: what came of looking for the document.
        price: what the model's tokens cost; None where that is not known.
    """
    frames = read_frames(entries)
    library = find_library(head)
    quotes = _quotes(frames, document.text)
    views = [
        view_frame(frame, found, library, f"f{at}")
        for at, (frame, found) in enumerate(zip(frames, quotes, strict=True))
    ]
    stages = _stages(frames)
    line = timeline(stages)
    titles = {one.key: shown(one.title) for one in stages}
    every = [one for found in quotes for one in found]
    return RunView(
        tuple(one for one in views if not one.empty),
        tuple(cost_of(titles[one.key], one.calls, price) for one in stages if one.calls),
        cost_of("Total", [call for one in stages for call in one.calls], price),
        line,
        draw(line, "line", _about(line)) if line else Markup(""),
        tuple((titles[key], seconds) for key, seconds in line.chain) if line else (),
        tuple(cut(document.text, every)) if document.text else (),
        tuple(_timed(stages, line)),
    )


def _stages(frames: Sequence[Frame]) -> list[Stage]:
    """Every frame's stages; a try begins after all of the one before."""
    found: list[Stage] = []
    before: list[str] = []
    for frame in frames:
        some = stages_of(frame, before)
        found += some
        before = [one.key for one in some] or before
    return found


def _quotes(frames: Sequence[Frame], document: Source | None) -> list[list[Passage]]:
    """Each frame's quotes, numbered through the whole page."""
    found: list[list[Passage]] = []
    number = 0
    for frame in frames:
        ends = frame.answer[0] if frame.answer else ()
        known = tuple(name for name in ends if name in frame.values)
        some = passages(frame.plan, frame.values, known, document)
        found.append([replace(one, number=number + one.number) for one in some])
        number += len(some)
    return found


def _timed(stages: Sequence[Stage], line: Timeline | None) -> list[Timed]:
    if line is None:
        return [Timed(shown(one.title), call, None) for one in stages for call in one.calls]
    found = [
        Timed(shown(row.stage.title), bar.call, bar.start) for row in line.rows for bar in row.bars
    ]
    return sorted(found, key=lambda one: one.start or 0.0)


def _about(line: Timeline) -> str:
    number = sum(len(row.bars) for row in line.rows)
    return (
        f"{counted(number, 'call')} in {took(line.seconds)}, at most {line.most} at a time. "
        "The table below the picture lists them."
    )
