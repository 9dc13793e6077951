"""The timeline as an SVG picture: as wide as the page, and as high as there are rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from markupsafe import Markup

from pearl.viewer.calls import Made
from pearl.viewer.timeline import Bar, Row, Timeline
from pearl.viewer.words import shown, took

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
