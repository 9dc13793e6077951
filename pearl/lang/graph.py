"""What depends on what in a plan: order, sinks, levels.

Where the boxes and lines of a plan's picture stand: rows by level, few crossings.

The usual way with layered drawings (Sugiyama, Tagawa and Toda, "Methods for
Visual Understanding of Hierarchical System Structures", 1981): a line that
skips levels gets a narrow seat in each, so that it never runs through a box;
rows are then ordered, sweep by sweep, by the middle of their neighbours.

The dependency picture of a plan, as Mermaid text and as SVG.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from pearl.lang.ast import DOCUMENT, Plan, Step, step_refs
from pearl.lang.text import cells, printable


def dependencies(steps: Sequence[Step]) -> dict[str, tuple[str, ...]]:
    """The earlier steps whose outputs each step uses, by name, without repeats."""
    known: set[str] = set()
    found: dict[str, tuple[str, ...]] = {}
    for step in steps:
        names = dict.fromkeys(ref.name for ref in step_refs(step) if ref.name in known)
        found[step.name] = tuple(names)
        known.add(step.name)
    return found


def sinks(steps: Sequence[Step]) -> tuple[str, ...]:
    """The steps whose outputs no step uses, in order: PEARL's answer."""
    used = {ref.name for step in steps for ref in step_refs(step)}
    return tuple(step.name for step in steps if step.name not in used)


def outputs(plan: Plan) -> tuple[str, ...]:
    """The steps that make up the answer: what is returned, or else the sinks."""
    if plan.returns:
        return tuple(ref.name for ref in plan.returns)
    return sinks(plan.steps)


def needed(names: Iterable[str], steps: Sequence[Step]) -> frozenset[str]:
    """The steps of some names, and every step that they need, also through others.

    Args:
        names: of steps.
        steps: a plan's, in its order.
    """
    found = set(names)
    for step in reversed(steps):
        if step.name in found:
            found.update(ref.name for ref in step_refs(step))
    return frozenset(one.name for one in steps if one.name in found)


def levels(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """How many steps must run one after another before each; 0 for the first."""
    found: dict[str, int] = {}
    for name, inputs in needs.items():
        found[name] = max((found[one] + 1 for one in inputs), default=0)
    return found


def reads_document(step: Step) -> bool:
    """Whether the step takes the document."""
    return any(ref.name == DOCUMENT for ref in step_refs(step))


SEAT = 18.0
"""The width of a line's seat in a row it passes through."""
_SWEEPS = 6


@dataclass(slots=True)
class Seat:
    """A box, or a line on its way through a row.

    Args:
        name: the box's; empty for a line.
        width: what it takes.
        x: its middle.
        above: the seats in the row above that it is joined to.
        below: the seats in the row below.
    """

    name: str
    width: float
    x: float = 0.0
    above: list[Seat] = field(default_factory=list, repr=False)
    below: list[Seat] = field(default_factory=list, repr=False)


def place(
    levels: Mapping[str, int],
    lines: Sequence[tuple[str, str]],
    widths: Mapping[str, float],
    gap: float,
) -> tuple[list[list[Seat]], list[list[Seat]]]:
    """Seats for boxes and lines.

    Args:
        levels: the row of each box.
        lines: from box to box, downwards.
        widths: of each box.
        gap: between neighbours in a row.

    Returns:
        The rows from top to bottom, each from left to right, and for each line
        the seats it runs through, from its first box to its last.
    """
    rows: list[list[Seat]] = [[] for _ in range(max(levels.values(), default=-1) + 1)]
    boxes = {name: Seat(name, widths[name]) for name in levels}
    for name, level in levels.items():
        rows[level].append(boxes[name])
    ways: list[list[Seat]] = []
    for start, end in lines:
        way = [boxes[start]]
        for level in range(levels[start] + 1, levels[end]):
            way.append(Seat("", SEAT))
            rows[level].append(way[-1])
        way.append(boxes[end])
        for upper, lower in pairwise(way):
            upper.below.append(lower)
            lower.above.append(upper)
        ways.append(way)
    for row in rows:
        _spread(row, gap)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            _order(row, gap, down=down)
    left = min((seat.x - seat.width / 2 for row in rows for seat in row), default=0.0)
    for seat in (seat for row in rows for seat in row):
        seat.x -= left
    return rows, ways


def _order(row: list[Seat], gap: float, *, down: bool) -> None:
    """Sort a row by the middle of what its seats are joined to, and seat it there."""
    wished: dict[int, float] = {}
    for seat in row:
        near = seat.above if down else seat.below
        wished[id(seat)] = sum(one.x for one in near) / len(near) if near else seat.x
    row.sort(key=lambda seat: wished[id(seat)])
    for seat in row:
        seat.x = wished[id(seat)]
    _push_apart(row, gap)


def _push_apart(row: list[Seat], gap: float) -> None:
    """Keep neighbours from overlapping, as near to where they wish to be as it goes.

    Seats that would overlap form a block, which stands where its members wish
    on average.
    """
    blocks: list[list[Seat]] = []
    middles: list[float] = []
    for seat in row:
        blocks.append([seat])
        middles.append(seat.x)
        while len(blocks) > 1 and (
            middles[-2] + _width(blocks[-2], gap) / 2 + gap
            > middles[-1] - _width(blocks[-1], gap) / 2
        ):
            later, middle = blocks.pop(), middles.pop()
            sizes = len(blocks[-1]), len(later)
            middles[-1] = (middles[-1] * sizes[0] + middle * sizes[1]) / sum(sizes)
            blocks[-1].extend(later)
    for block, middle in zip(blocks, middles, strict=True):
        x = middle - _width(block, gap) / 2
        for seat in block:
            seat.x = x + seat.width / 2
            x += seat.width + gap


def _spread(row: list[Seat], gap: float) -> None:
    for seat in row:
        seat.x = 0.0
    _push_apart(row, gap)


def _width(block: Sequence[Seat], gap: float) -> float:
    return sum(seat.width for seat in block) + gap * (len(block) - 1)


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
