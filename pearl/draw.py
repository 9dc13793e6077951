"""The dependency picture of a plan, as Mermaid text and as SVG."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from pearl.graph import dependencies, levels, outputs, reads_document
from pearl.placing import Seat, place
from pearl.plan import DOCUMENT, Plan, Step
from pearl.screen import cells, printable

_HIGH, _GAP_X, _GAP_Y, _EDGE = 64, 32, 46, 24
_NARROW, _WIDE = 120.0, 290.0
_NAME_SIZE, _CALL_SIZE, _PADDING = 15, 12, 28.0
_ANSWER = "\0answer"
"""The name of the answer's box, which no step can have."""


def mermaid(plan: Plan) -> str:
    """A Mermaid flowchart: the document, the steps, the answer."""
    needs = dependencies(plan.steps)
    lines = ["flowchart TD"]
    if any(reads_document(step) for step in plan.steps):
        lines.append(f'    {DOCUMENT}[("document")]')
    for index, step in enumerate(plan.steps):
        lines.append(f'    s{index}["{_mermaid(step.name)}<br/>{_mermaid(step.action)}"]')
    lines.append('    answer(["answer"])')
    number = {step.name: index for index, step in enumerate(plan.steps)}
    for index, step in enumerate(plan.steps):
        if reads_document(step):
            lines.append(f"    {DOCUMENT} -.-> s{index}")
        lines += [f"    s{number[name]} --> s{index}" for name in needs[step.name]]
    lines += [f"    s{number[name]} ==> answer" for name in outputs(plan) if name in number]
    return "\n".join(lines) + "\n"


def _mermaid(text: str) -> str:
    return re.sub(r"[^\w .-]", lambda found: f"#{ord(found[0])};", text)


def svg(plan: Plan) -> str:
    """A self-contained SVG picture: one row of boxes a level, no script, light and dark."""
    steps = {step.name: step for step in plan.steps}
    needs = dependencies(tuple(steps.values()))
    depth = {**levels(needs)}
    depth[_ANSWER] = max(depth.values(), default=-1) + 1
    ends = dict.fromkeys(name for name in outputs(plan) if name in steps)
    lines = [(name, step) for step in steps for name in needs[step]]
    lines += [(name, _ANSWER) for name in ends]
    widths = {name: _box_width(step, number) for number, (name, step) in _numbered(steps)}
    rows, ways = place(depth, lines, {**widths, _ANSWER: _NARROW}, _GAP_X)
    for seat in (seat for row in rows for seat in row):
        seat.x += _EDGE
    tops = {id(seat): _EDGE + at * (_HIGH + _GAP_Y) for at, row in enumerate(rows) for seat in row}
    numbers = {name: number for number, (name, _) in _numbered(steps)}
    parts = [_line(way, tops) for way in ways]
    for seat in (seat for row in rows for seat in row):
        top = tops[id(seat)]
        if seat.name == _ANSWER:
            parts.append(_answer(seat, top))
        elif seat.name:
            parts.append(_box(steps[seat.name], numbers[seat.name], seat, top))
    width = _EDGE + max(seat.x + seat.width / 2 for row in rows for seat in row)
    height = 2 * _EDGE + len(rows) * (_HIGH + _GAP_Y) - _GAP_Y
    title = _escape(plan.question or "The plan's steps and what each one uses")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{title}">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        f'<rect class="page" width="100%" height="100%"/>{_ARROWS}{"".join(parts)}</svg>\n'
    )


# A rectangle and not the root's background, which only browsers paint.
_STYLE = (
    "text{font-family:system-ui,'DejaVu Sans',sans-serif;text-anchor:middle}"
    ".page{fill:#fff}.box{fill:#f4f6fb;stroke:#5b6b8c}.doc{fill:#e4f1ea;stroke:#3c7d5a}"
    ".answer{fill:#fff3d6;stroke:#a87b16}.name{font-size:15px;font-weight:600;fill:#1c2333}"
    ".call{font-size:12px;fill:#4a5570}"
    ".line{fill:none;stroke:#7c879d;stroke-width:1.6}.out{stroke:#a87b16}"
    ".tip{fill:#7c879d}.tip-out{fill:#a87b16}"
    "@media(prefers-color-scheme:dark){.page{fill:#14171f}.box{fill:#232a3a}"
    ".doc{fill:#1e3329}.answer{fill:#3a3016}.name{fill:#e8ecf5}.call{fill:#b4bdd0}}"
)


def _arrow(name: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path class="{name}" d="M0 0L8 4L0 8z"/></marker>'
    )


_ARROWS = f"<defs>{_arrow('tip')}{_arrow('tip-out')}</defs>"


def _numbered(steps: dict[str, Step]) -> Iterator[tuple[int, tuple[str, Step]]]:
    yield from enumerate(steps.items(), 1)


def _line(way: Sequence[Seat], tops: dict[int, int]) -> str:
    """A curve from box to box, straight down past the boxes of the rows between."""
    kind, tip = (" out", "tip-out") if way[-1].name == _ANSWER else ("", "tip")
    y = tops[id(way[0])] + _HIGH
    path = [f"M{way[0].x:g} {y}"]
    for upper, lower in pairwise(way):
        top = tops[id(lower)]
        middle = (y + top) / 2
        path.append(f"C{upper.x:g} {middle:g} {lower.x:g} {middle:g} {lower.x:g} {top}")
        y = top
        if not lower.name:
            y = top + _HIGH
            path.append(f"L{lower.x:g} {y}")
    return f'<path class="line{kind}" marker-end="url(#{tip})" d="{"".join(path)}"/>'


def _answer(seat: Seat, top: int) -> str:
    y = top + 12
    return (
        f'<rect class="answer" x="{seat.x - 60:g}" y="{top}" width="120" height="40" rx="20"/>'
        f'<text x="{seat.x:g}" y="{y + 13}" class="name">answer</text>'
    )


def _box_width(step: Step, number: int) -> float:
    name, call = _labels(step, number)
    wanted = max(_length(name) * _NAME_SIZE, _length(call) * _CALL_SIZE) + _PADDING
    return max(_NARROW, wanted)


def _labels(step: Step, number: int) -> tuple[str, str]:
    room = _WIDE - _PADDING
    name = _short(f"{number}. {step.name}", room / _NAME_SIZE)
    return name, _short(step.action, room / _CALL_SIZE)


def _box(step: Step, number: int, seat: Seat, top: int) -> str:
    name, call = _labels(step, number)
    kind = "doc" if reads_document(step) else "box"
    left = seat.x - seat.width / 2
    return (
        f"<g><title>{_escape(step.note or step.action)}</title>"
        f'<rect class="{kind}" x="{left:g}" y="{top}" width="{seat.width:g}" height="{_HIGH}" '
        f'rx="8"/><text x="{seat.x:g}" y="{top + 27}" class="name">{_escape(name)}</text>'
        f'<text x="{seat.x:g}" y="{top + 47}" class="call">{_escape(call)}</text></g>'
    )


def _length(text: str) -> float:
    """About how long a text is in a wide bold type, in ems."""
    return sum(map(_em, text))


def _em(char: str) -> float:
    if not char.isascii():
        return 0.85 if cells(char) < 2 else 1.1
    if char in "MWmw@%":
        return 1.1
    return 0.82 if char.isupper() else 0.7


def _short(text: str, limit: float) -> str:
    """The text in at most so many ems."""
    if _length(text) <= limit:
        return text
    while _length(text) > limit - 1:
        text = text[:-1]
    return f"{text}…"


def _escape(text: str) -> str:
    # What `printable` takes out is no character of XML 1.0, nor are these two.
    return escape(printable(text).replace("\ufffe", "�").replace("\uffff", "�"))
