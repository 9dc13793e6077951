"""The dependency picture of a plan, as Mermaid text and as SVG."""

from __future__ import annotations

import re
from html import escape

from pearl.graph import dependencies, levels, outputs, reads_document
from pearl.plan import DOCUMENT, Plan, Step

_BOX, _HIGH, _GAP_X, _GAP_Y, _EDGE = 250, 64, 36, 54, 24


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
    needs = dependencies(plan.steps)
    depth = levels(needs)
    rows: list[list[Step]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for step in plan.steps:
        rows[depth[step.name]].append(step)
    widest = max((len(row) for row in rows), default=1)
    width = 2 * _EDGE + widest * _BOX + (widest - 1) * _GAP_X
    height = 2 * _EDGE + len(rows) * (_HIGH + _GAP_Y) + 40
    places: dict[str, tuple[float, float]] = {}
    for number, row in enumerate(rows):
        used = len(row) * _BOX + (len(row) - 1) * _GAP_X
        for column, step in enumerate(row):
            x = (width - used) / 2 + column * (_BOX + _GAP_X)
            places[step.name] = (x, _EDGE + number * (_HIGH + _GAP_Y))
    answer = (width / 2, height - _EDGE - 20)
    parts = [_curve(*_foot(places[name]), *_head(places[step.name]), "")
             for step in plan.steps for name in needs[step.name]]  # fmt: skip
    ends = [name for name in outputs(plan) if name in places]
    parts += [_curve(*_foot(places[name]), answer[0], answer[1] - 20, "out") for name in ends]
    for number, step in enumerate(plan.steps, 1):
        parts.append(_box(step, number, *places[step.name]))
    parts.append(_answer(*answer))
    title = escape(plan.question or "The plan's steps and what each one uses")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{title}">'
        f"<title>{title}</title><style>{_STYLE}</style>{''.join(parts)}</svg>\n"
    )


_STYLE = (
    "svg{background:#fff;font-family:system-ui,sans-serif}"
    ".box{fill:#f4f6fb;stroke:#5b6b8c}.doc{fill:#e4f1ea;stroke:#3c7d5a}"
    ".answer{fill:#fff3d6;stroke:#a87b16}.name{font-size:15px;font-weight:600;fill:#1c2333}"
    ".call{font-size:12px;fill:#4a5570}.mid{text-anchor:middle}"
    "path{fill:none;stroke:#8a94a8;stroke-width:1.6}.out{stroke:#a87b16}"
    "@media(prefers-color-scheme:dark){svg{background:#14171f}.box{fill:#232a3a}"
    ".doc{fill:#1e3329}.answer{fill:#3a3016}.name{fill:#e8ecf5}.call{fill:#aab4c8}}"
)


def _head(place: tuple[float, float]) -> tuple[float, float]:
    return place[0] + _BOX / 2, place[1]


def _foot(place: tuple[float, float]) -> tuple[float, float]:
    return place[0] + _BOX / 2, place[1] + _HIGH


def _curve(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    bend = (to_y - y) / 2
    name = f' class="{kind}"' if kind else ""
    ends = f"{x:g} {y + bend:g} {to_x:g} {to_y - bend:g} {to_x:g} {to_y:g}"
    return f'<path{name} d="M{x:g} {y:g}C{ends}"/>'


def _answer(x: float, y: float) -> str:
    return (
        f'<rect class="answer" x="{x - 60:g}" y="{y - 20:g}" width="120" height="40" rx="20"/>'
        f'<text x="{x:g}" y="{y + 5:g}" class="name mid">answer</text>'
    )


def _box(step: Step, number: int, x: float, y: float) -> str:
    kind = "doc" if reads_document(step) else "box"
    note = f"<title>{escape(step.note or step.action)}</title>"
    mid = x + _BOX / 2
    return (
        f'<g>{note}<rect class="{kind}" x="{x:g}" y="{y:g}" width="{_BOX}" height="{_HIGH}" '
        f'rx="8"/><text x="{mid:g}" y="{y + 27:g}" class="name mid">'
        f"{number}. {escape(_short(step.name, 24))}</text>"
        f'<text x="{mid:g}" y="{y + 47:g}" class="call mid">'
        f"{escape(_short(step.action, 32))}</text></g>"
    )


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
