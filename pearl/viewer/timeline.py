"""When each call ran: beside which, after what, and which of them the run was as long as.

The timeline as an SVG picture: as wide as the page, and as high as there are rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from pearl.viewer.journal import Made
from pearl.viewer.text import shown, took


@dataclass(frozen=True, slots=True)
class Stage:
    """Calls that belong together: planning, or one step.

    Args:
        key: unique in the run.
        title: as a reader sees it.
        calls: in any order.
        after: the keys of the stages whose results it needs.
        decided: when its value was there, in seconds since 1970; None where that is not known.
    """

    key: str
    title: str
    calls: tuple[Made, ...]
    after: tuple[str, ...] = ()
    decided: float | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A call on the time axis; times in seconds since the run's first call.

    Args:
        call: the call.
        start: when it began.
        end: when it ended.
        lane: the row within its stage, counted from 0; calls that ran side by side stand in
            rows of their own.
        critical: whether the run would have been shorter without it.
    """

    call: Made
    start: float
    end: float
    lane: int
    critical: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A stage on the time axis.

    Args:
        stage: the stage.
        bars: its calls.
        lanes: how many rows they take.
        waited: the key of the stage that it started after; empty for none.
        critical: whether the run would have been shorter without it.
    """

    stage: Stage
    bars: tuple[Bar, ...]
    lanes: int
    waited: str = ""
    critical: bool = False

    @property
    def start(self) -> float:
        """When its first call began."""
        return min(bar.start for bar in self.bars)

    @property
    def end(self) -> float:
        """When its last call ended."""
        return max(bar.end for bar in self.bars)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run's calls on the time axis.

    Args:
        rows: stages that made calls, in order.
        seconds: from the first call's beginning to the last one's end.
        busy: the calls' times, added up.
        most: calls at the same time, at most.
        chain: the stages on the critical path, in order, and the seconds that each added.
    """

    rows: tuple[Row, ...]
    seconds: float
    busy: float
    most: int
    chain: tuple[tuple[str, float], ...]


def timeline(stages: Sequence[Stage]) -> Timeline | None:
    """Put calls on a time axis.

    Args:
        stages: in the order to show them; the first ones may be needed by later ones.

    Returns:
        The axis, or None where a call's beginning is not known, or none was made.
    """
    starts = [call.started for one in stages for call in one.calls]
    known = [one for one in starts if one is not None]
    if not known or len(known) < len(starts):
        return None
    zero = min(known)
    rows = {one.key: Row(one, *_bars(one.calls, zero)) for one in stages if one.calls}
    ends = _ends(stages, rows, zero)
    waited = {key: _waited(row, stages, ends) for key, row in rows.items()}
    chain = _chain(rows, waited)
    path = dict(chain)
    bars = [bar for row in rows.values() for bar in row.bars]
    return Timeline(
        tuple(
            Row(
                row.stage,
                _marked(row) if key in path else row.bars,
                row.lanes,
                waited[key],
                key in path,
            )
            for key, row in rows.items()
        ),
        max(bar.end for bar in bars),
        sum(bar.end - bar.start for bar in bars),
        _most(bars),
        tuple(chain),
    )


def _bars(calls: Iterable[Made], zero: float) -> tuple[tuple[Bar, ...], int]:
    """Bars in as few lanes as leave none upon another, and how many those are."""
    free: list[float] = []
    bars: list[Bar] = []
    for call in sorted(calls, key=lambda one: (one.started or 0.0, one.path)):
        start = (call.started or zero) - zero
        end = start + max(call.seconds, 0.0)
        lane = next((at for at, until in enumerate(free) if until <= start), len(free))
        free[lane : lane + 1] = [end]
        bars.append(Bar(call, start, end, lane))
    return tuple(bars), len(free)


def _ends(stages: Sequence[Stage], rows: Mapping[str, Row], zero: float) -> dict[str, float]:
    """When each stage's result was there; a step without calls has it once its inputs are."""
    ends: dict[str, float] = {}
    for one in stages:
        if one.key in rows:
            ends[one.key] = rows[one.key].end
        elif one.decided is not None:
            ends[one.key] = one.decided - zero
        else:
            ends[one.key] = max((ends[name] for name in one.after if name in ends), default=0.0)
    return ends


def _waited(row: Row, stages: Sequence[Stage], ends: Mapping[str, float]) -> str:
    """The stage with calls that a stage started after: the last to end of those it needs."""
    after = {one.key: one for one in stages}
    with_calls = {one.key for one in stages if one.calls}
    wanted, seen, found = list(row.stage.after), set[str](), list[str]()
    while wanted:
        name = wanted.pop()
        if name in seen or name not in after:
            continue
        seen.add(name)
        if name in with_calls:
            found.append(name)
        else:
            wanted += after[name].after
    return max(found, key=lambda name: ends[name], default="")


def _chain(rows: Mapping[str, Row], waited: Mapping[str, str]) -> list[tuple[str, float]]:
    """From the stage that ended last, back through what each one waited for."""
    key = max(rows, key=lambda name: rows[name].end)
    chain: list[tuple[str, float]] = []
    while key and key not in dict(chain):
        before = waited[key]
        begun = rows[before].end if before else rows[key].start
        chain.append((key, max(0.0, rows[key].end - begun)))
        key = before
    return chain[::-1]


def _marked(row: Row) -> tuple[Bar, ...]:
    """A critical stage's bars: the last to end is critical, and what it began after, and so on."""
    chain: set[int] = set()
    last: Bar | None = max(row.bars, key=lambda bar: bar.end)
    while last is not None and id(last) not in chain:
        chain.add(id(last))
        start = last.start
        before = [bar for bar in row.bars if bar.end <= start and id(bar) not in chain]
        last = max(before, key=lambda bar: bar.end, default=None)
    return tuple(replace(bar, critical=id(bar) in chain) for bar in row.bars)


def _most(bars: Iterable[Bar]) -> int:
    """How many ran at the same time, at most; one that ended just then does not count."""
    changes = sorted(
        change for bar in bars if bar.end > bar.start for change in ((bar.start, 1), (bar.end, -1))
    )
    most = now = 0
    for _, step in changes:
        now += step
        most = max(most, now)
    return most or 1


_TOP, _TITLE, _GAP, _BOTTOM = 24, 18, 10, 6
_HIGH = ((8, 14), (16, 8), (10**9, 5))
"""Lanes of a stage up to a number, and the pixels of each: where there are many, they are low."""

_THIN = 0.35
"""The least that a bar takes of the width, in hundredths, so that it is seen at all."""

_TICKS = 5


def draw(line: Timeline, name: str, about: str) -> Markup:
    """The picture. Across it places are hundredths of its width, so that it fits any page.

    Args:
        line: what to draw.
        name: begins the names of its parts; unique on the page, of letters and digits.
        about: what it shows, for those who cannot see it.
    """
    tops, height = _tops(line)
    scale = 100 / line.seconds if line.seconds else 0.0
    # Where there is only one stage there is nothing that it could be critical beside.
    alone = len(line.rows) == 1
    rows = [replace(row, critical=row.critical and not alone) for row in line.rows]
    parts = [
        *_axis(line.seconds, scale, height),
        *(part for row in rows for part in _links(row, line, tops, scale)),
        *(part for row in rows for part in _row(row, tops[row.stage.key], scale)),
    ]
    body = Markup("").join(parts)
    return Markup(
        '<svg class="line" width="100%" height="{height}" role="img" '
        'aria-labelledby="{name}-t {name}-d"><title id="{name}-t">Timeline of calls</title>'
        '<desc id="{name}-d">{about}</desc>{body}</svg>'
    ).format(height=height, name=name, about=about, body=body)


def _tops(line: Timeline) -> tuple[dict[str, int], int]:
    """Where each row's first lane begins, and how high the picture is, in pixels."""
    tops: dict[str, int] = {}
    at = _TOP
    for row in line.rows:
        tops[row.stage.key] = at + _TITLE
        at += _TITLE + row.lanes * _lane(row) + _GAP
    return tops, at + _BOTTOM


def _lane(row: Row) -> int:
    return next(high for most, high in _HIGH if row.lanes <= most)


def _axis(seconds: float, scale: float, height: int) -> Iterator[Markup]:
    step = _step(seconds)
    digits = max(0, -_exponent(step))
    for number in range(int(seconds / step + 1e-9) + 1):
        at = number * step * scale
        yield Markup('<line class="tick" x1="{0:.3f}%" x2="{0:.3f}%" y1="18" y2="{1}"/>').format(
            at, height - _BOTTOM
        )
        if at <= 94:
            side = "start" if at < 1 else "middle"
            yield Markup('<text class="when" x="{:.3f}%" y="12" text-anchor="{}">{}</text>').format(
                at, side, f"{number * step:.{digits}f} s"
            )


def _step(seconds: float) -> float:
    """A round number of seconds that goes into a time a few times."""
    wanted = max(seconds, 0.001) / _TICKS
    size = 10.0 ** _exponent(wanted)
    return next((size * one for one in (1, 2, 5) if size * one >= wanted), size * 10)


def _exponent(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


def _links(row: Row, line: Timeline, tops: dict[str, int], scale: float) -> Iterator[Markup]:
    """From the end of what a stage waited for to its own beginning."""
    before = next((one for one in line.rows if one.stage.key == row.waited), None)
    if before is None:
        return
    last = max(before.bars, key=lambda bar: bar.end)
    first = min(row.bars, key=lambda bar: bar.start)
    kind = "wait path" if row.critical and before.critical else "wait"
    yield Markup('<line class="{}" x1="{:.3f}%" y1="{}" x2="{:.3f}%" y2="{}"/>').format(
        kind,
        last.end * scale,
        tops[before.stage.key] + last.lane * _lane(before) + _lane(before) // 2,
        first.start * scale,
        tops[row.stage.key] + first.lane * _lane(row) + _lane(row) // 2,
    )


def _row(row: Row, top: int, scale: float) -> Iterator[Markup]:
    mark = " · critical path" if row.critical else ""
    yield Markup('<text class="stage{}" x="0" y="{}">{}</text>').format(
        " path" if row.critical else "", top - 5, shown(row.stage.title) + mark
    )
    high = _lane(row)
    for bar in row.bars:
        yield from _bar(bar, top + bar.lane * high, high, scale, " path" * row.critical)


def _bar(bar: Bar, top: int, high: int, scale: float, path: str) -> Iterator[Markup]:
    wide = max((bar.end - bar.start) * scale, _THIN)
    left = min(bar.start * scale, 100 - wide)
    kind = f"call {_kind(bar.call)}{path if bar.critical else ''}"
    yield Markup(
        '<g><title>{told}</title><rect class="{kind}" x="{left:.3f}%" y="{top}" '
        'width="{wide:.3f}%" height="{high}" rx="2"/>'
    ).format(
        told=told(bar.call),
        kind=kind,
        left=left,
        top=top + 1,
        wide=wide,
        high=high - 1,
    )
    for tried in bar.call.tries:
        if tried.started is None or bar.call.started is None:
            continue
        begun = (bar.start + tried.started - bar.call.started) * scale
        part = max(tried.seconds * scale, _THIN)
        yield Markup('<rect class="vain" x="{:.3f}%" y="{}" width="{:.3f}%" height="{}"/>').format(
            min(begun, 100 - part), top + 1, part, high - 1
        )
    yield Markup("</g>")


def told(call: Made) -> str:
    """What became of a call, in a line."""
    tries = len(call.tries)
    ended = "kept: nothing was sent" if call.kept else took(call.seconds)
    if not call.done:
        ended = f"failed after {took(call.seconds)}: {call.entry.cause}"
    again = f", {tries} {'try' if tries == 1 else 'tries'} in vain" if tries and call.done else ""
    return shown(f"{call.path}: {ended}{again}")


def _kind(call: Made) -> str:
    if call.kept:
        return "kept"
    return "sent" if call.done else "lost"
