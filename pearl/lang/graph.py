"""What depends on what in a plan: order, sinks, levels, and pictures of them.

`mermaid` writes text for pages that draw it, as GitHub does. `svg` draws by itself: it needs
neither a script nor Graphviz, so that pages of runs and of reviews show the picture offline and
without a request to anybody, which is worth the layout below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from pearl.lang.ast import DOCUMENT, Literal, Plan, Step, step_refs
from pearl.lang.builtins import is_label
from pearl.lang.text import cells, printable


def dependencies(steps: Sequence[Step]) -> dict[str, tuple[str, ...]]:
    """The earlier steps whose outputs each step uses, by name, without repeats."""
    earlier: set[str] = set()
    needs: dict[str, tuple[str, ...]] = {}
    for step in steps:
        names = dict.fromkeys(ref.name for ref in step_refs(step) if ref.name in earlier)
        needs[step.name] = tuple(names)
        earlier.add(step.name)
    return needs


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
    """Some steps, and every step that they need, directly or through others.

    Args:
        names: the names of the steps.
        steps: the steps of the plan, in its order.
    """
    closure = set(names)
    for step in reversed(steps):
        if step.name in closure:
            closure.update(ref.name for ref in step_refs(step))
    return frozenset(step.name for step in steps if step.name in closure)


def levels(needs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """For each step, how many steps must run one after another before it; 0 for the first."""
    depth: dict[str, int] = {}
    for name, inputs in needs.items():
        depth[name] = max((depth[above] + 1 for above in inputs), default=0)
    return depth


def reads_document(step: Step) -> bool:
    """Whether the step takes the document, a part of it, or one of several."""
    named = any(isinstance(arg, Literal) and is_label(arg.value) for arg in step.args)
    return named or any(ref.name == DOCUMENT for ref in step_refs(step))


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
    return re.sub(r"[^\w .-]", lambda char: f"#{ord(char[0])};", text)


_HIGH, _GAP_X, _GAP_Y, _EDGE = 64, 32, 46, 24
_NARROW, _WIDE, _LINE = 120.0, 290.0, 18.0
"""The least and the greatest width of a box, and the width of a line in a row, in pixels."""

_NAME_SIZE, _CALL_SIZE, _PADDING = 15, 12, 28.0
_SWEEPS = 6
_ANSWER = "\0answer"
"""The name of the answer's box, which no step can have."""


@dataclass(slots=True, eq=False)
class _Node:
    """A box, by its name, or a line, without one, on its way through a row, of which it takes its
    width. ``top`` is the upper end of the row and ``x`` the node's middle; above and below are the
    nodes in the rows next to it that it is joined to."""

    name: str
    width: float
    top: int
    x: float = 0.0
    above: list[_Node] = field(default_factory=list)
    below: list[_Node] = field(default_factory=list)


def svg(plan: Plan) -> str:
    """A self-contained SVG picture: one row of boxes a level, no script, light and dark."""
    steps = {step.name: step for step in plan.steps}
    needs = dependencies(tuple(steps.values()))
    room = _WIDE - _PADDING
    labels = {
        step.name: (
            _short(f"{number}. {step.name}", room / _NAME_SIZE),
            _short(step.action, room / _CALL_SIZE),
        )
        for number, step in enumerate(steps.values(), 1)
    }
    widths = {
        step: max(_NARROW, _PADDING + max(_length(name) * _NAME_SIZE, _length(call) * _CALL_SIZE))
        for step, (name, call) in labels.items()
    }
    depth = levels(needs)
    depth[_ANSWER] = max(depth.values(), default=-1) + 1
    lines = [(name, step) for step in steps for name in needs[step]]
    lines += [(name, _ANSWER) for name in dict.fromkeys(outputs(plan)) if name in steps]
    nodes, paths = _layout(depth, lines, {**widths, _ANSWER: _NARROW})
    parts = [_line(path) for path in paths]
    for node in nodes:
        if node.name == _ANSWER:
            parts.append(
                f'<rect class="answer" x="{node.x - 60:g}" y="{node.top}" width="120" height="40" '
                f'rx="20"/><text x="{node.x:g}" y="{node.top + 25}" class="name">answer</text>'
            )
        elif node.name:
            parts.append(_box(node, steps[node.name], *labels[node.name]))
    width = _EDGE + max(node.x + node.width / 2 for node in nodes)
    height = _EDGE + max(node.top for node in nodes) + _HIGH
    title = plan.question or "The plan's steps and what each one uses"
    return picture(title, width, height, parts)


def picture(title: str, width: float, height: float, parts: Iterable[str]) -> str:
    """A self-contained SVG picture, ``width`` by ``height`` pixels, made of parts that use the
    classes and markers below."""
    title = _escape(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{title}">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        f'<rect class="page" width="100%" height="100%"/>{_ARROWS}{"".join(parts)}</svg>\n'
    )


def image(plan: Plan) -> str:
    """The graph of a plan as a data URL of an SVG image; empty where the plan has no step.

    As an image, it can change neither the style nor the content of the page.
    """
    if not plan.steps:
        return ""
    import base64

    data = base64.b64encode(svg(plan).encode("utf-8", "replace")).decode()
    return f"data:image/svg+xml;base64,{data}"


def _layout(
    depth: Mapping[str, int], lines: Sequence[tuple[str, str]], widths: Mapping[str, float]
) -> tuple[list[_Node], list[list[_Node]]]:
    """Where the boxes and lines of a picture stand: rows by level, few crossings.

    The usual way with layered drawings (Sugiyama, Tagawa and Toda, "Methods for Visual
    Understanding of Hierarchical System Structures", 1981): a line that skips levels gets a narrow
    node in each, so that it never runs through a box; rows are then ordered, sweep by sweep, by the
    middle of their neighbours.

    ``depth`` is the row of each box, and ``lines`` lead downwards. Returns the nodes, row by row
    and from left to right, and for each line those it runs through.
    """
    rows: list[list[_Node]] = [[] for _ in range(max(depth.values()) + 1)]

    def add(name: str, width: float, level: int) -> _Node:
        rows[level].append(_Node(name, width, _EDGE + level * (_HIGH + _GAP_Y)))
        return rows[level][-1]

    boxes = {name: add(name, widths[name], level) for name, level in depth.items()}
    paths: list[list[_Node]] = []
    for start, end in lines:
        between = [add("", _LINE, level) for level in range(depth[start] + 1, depth[end])]
        paths.append([boxes[start], *between, boxes[end]])
        for upper, lower in pairwise(paths[-1]):
            upper.below.append(lower)
            lower.above.append(upper)
    for row in rows:
        _push_apart(row)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            for node in row:
                near = node.above if down else node.below
                if near:
                    node.x = sum(other.x for other in near) / len(near)
            row.sort(key=lambda node: node.x)
            _push_apart(row)
    nodes = [node for row in rows for node in row]
    edge = min(node.x - node.width / 2 for node in nodes)
    for node in nodes:
        node.x += _EDGE - edge
    return nodes, paths


def _push_apart(row: Sequence[_Node]) -> None:
    """Keep neighbours from overlapping, and as near as possible to the places they have.

    Nodes that would overlap form a block, which stands at the average of its members' places.
    """
    blocks: list[list[_Node]] = []
    middles: list[float] = []
    for node in row:
        blocks.append([node])
        middles.append(node.x)
        while len(blocks) > 1 and (
            middles[-2] + _block_width(blocks[-2]) / 2 + _GAP_X
            > middles[-1] - _block_width(blocks[-1]) / 2
        ):
            later, middle = blocks.pop(), middles.pop()
            sizes = len(blocks[-1]), len(later)
            middles[-1] = (middles[-1] * sizes[0] + middle * sizes[1]) / sum(sizes)
            blocks[-1].extend(later)
    for block, middle in zip(blocks, middles, strict=True):
        x = middle - _block_width(block) / 2
        for node in block:
            node.x = x + node.width / 2
            x += node.width + _GAP_X


def _block_width(block: Sequence[_Node]) -> float:
    return sum(node.width for node in block) + _GAP_X * (len(block) - 1)


# A rectangle and not the root's background, which only browsers paint.
_STYLE = (
    "text{font-family:system-ui,'DejaVu Sans',sans-serif;text-anchor:middle}"
    ".page{fill:#fff}.box{fill:#f4f6fb;stroke:#5b6b8c}.doc{fill:#e4f1ea;stroke:#3c7d5a}"
    ".answer{fill:#fff3d6;stroke:#a87b16}.name{font-size:15px;font-weight:600;fill:#1c2333}"
    ".call{font-size:12px;fill:#4a5570}"
    ".word{font-size:11px;fill:#4a5570;paint-order:stroke;stroke:#fff;stroke-width:5}"
    ".line{fill:none;stroke:#7c879d;stroke-width:1.6}.out{stroke:#a87b16}"
    ".back{stroke-dasharray:5 4}"
    ".tip{fill:#7c879d}.tip-out{fill:#a87b16}"
    "@media(prefers-color-scheme:dark){.page{fill:#14171f}.box{fill:#232a3a}"
    ".doc{fill:#1e3329}.answer{fill:#3a3016}.name{fill:#e8ecf5}.call,.word{fill:#b4bdd0}"
    ".word{stroke:#14171f}}"
)


def _arrow(name: str) -> str:
    return (
        f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path class="{name}" d="M0 0L8 4L0 8z"/></marker>'
    )


_ARROWS = f"<defs>{_arrow('tip')}{_arrow('tip-out')}</defs>"


def _line(path: Sequence[_Node]) -> str:
    """A curve from box to box, straight down past the boxes of the rows between."""
    kind, tip = (" out", "tip-out") if path[-1].name == _ANSWER else ("", "tip")
    drawn = [f"M{path[0].x:g} {path[0].top + _HIGH}"]
    for upper, lower in pairwise(path):
        y = upper.top + _HIGH
        middle = (y + lower.top) / 2
        drawn.append(f"C{upper.x:g} {middle:g} {lower.x:g} {middle:g} {lower.x:g} {lower.top}")
        if not lower.name:
            drawn.append(f"L{lower.x:g} {lower.top + _HIGH}")
    return f'<path class="line{kind}" marker-end="url(#{tip})" d="{"".join(drawn)}"/>'


def _box(node: _Node, step: Step, name: str, call: str) -> str:
    kind = "doc" if reads_document(step) else "box"
    start, top = node.x - node.width / 2, node.top
    return (
        f"<g><title>{_escape(step.note or step.action)}</title>"
        f'<rect class="{kind}" x="{start:g}" y="{top}" width="{node.width:g}" height="{_HIGH}" '
        f'rx="8"/><text x="{node.x:g}" y="{top + 27}" class="name">{_escape(name)}</text>'
        f'<text x="{node.x:g}" y="{top + 47}" class="call">{_escape(call)}</text></g>'
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
    """The text, cut to at most ``limit`` ems."""
    if _length(text) <= limit:
        return text
    while _length(text) > limit - 1:
        text = text[:-1]
    return f"{text}…"


def _escape(text: str) -> str:
    from html import escape

    # What `printable` takes out is no character of XML 1.0, nor are these two.
    return escape(printable(text).replace("\ufffe", "�").replace("\uffff", "�"))
