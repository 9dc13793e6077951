"""When each call ran: beside which others, and after what.

Times are seconds since the run's first call. In the picture a place across is a share of its
width in percent, so that it fits any page, and a place down is in pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from pearl.viewer.journal import Call, Stage

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

    call: Call
    start: float
    end: float
    lane: int


@dataclass(frozen=True, slots=True)
class Row:
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

    rows: tuple[Row, ...]
    seconds: float
    busy: float
    most: int

    @property
    def height(self) -> int:
        """Pixels of the picture."""
        last = self.rows[-1]
        return last.top + last.lanes * last.lane_height + GAP + BOTTOM

    @property
    def calls(self) -> list[tuple[Stage, Call, float]]:
        """Every call with its stage and its beginning, in the order in which they began."""
        bars = [(row.stage, bar.call, bar.start) for row in self.rows for bar in row.bars]
        return sorted(bars, key=lambda bar: bar[2])

    @property
    def links(self) -> list[tuple[Row, Row]]:
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
    rows = {stage.key: Row(stage, *_bars(stage.calls, zero)) for stage in stages}
    ends = {key: row.last.end for key, row in rows.items()}
    bars = [bar for row in rows.values() for bar in row.bars]
    placed: list[Row] = []
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


def _bars(calls: Iterable[Call], zero: float) -> tuple[tuple[Bar, ...], int]:
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
