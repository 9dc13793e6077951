"""The states of FSM prompting and what follows on what: one table, walked and drawn.

Wang et al., "FSM: A Finite State Machine Based Zero-Shot Prompting Paradigm
for Multi-Hop Question Answering", 2024. FSM1 ends with the answer, FSM2 with a
review of it. `pearl.strategies.fsm` walks the table; the picture of it is
Mermaid text, or SVG.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from types import MappingProxyType
from typing import Any, NamedTuple

END = "answer"
"""Where a machine stops."""


@dataclass(frozen=True, slots=True)
class State:
    """A state.

    Args:
        name: as in the journal.
        asks: the schema of the model's reply.
        about: what is done in it, in a few words.
        on: which state follows, by the outcome.
        back: to which state the machine goes back, by the outcome, with the reason.
        action: what its step calls; empty where the state only decides, and is no step.
        limit: which state follows where a limit is met; there is no answer where it is empty,
            or where nothing was found for it.
    """

    name: str
    asks: str
    about: str
    on: Mapping[str, str]
    back: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    action: str = ""
    limit: str = "summarise"


@dataclass(frozen=True, slots=True)
class Machine:
    """States, the first of which is where it starts.

    Args:
        name: as on the command line.
        states: all of them.
        closing: the states that make the answer of what was found, in order.
    """

    name: str
    states: tuple[State, ...]
    closing: tuple[str, ...]

    def state(self, name: str) -> State:
        """The state of this name."""
        return next(one for one in self.states if one.name == name)

    def after(self, name: str) -> int:
        """How many states still have to follow one, before there is an answer."""
        if name not in self.closing:
            return len(self.closing)
        return len(self.closing) - self.closing.index(name) - 1


def _to(**outcomes: str) -> Mapping[str, str]:
    return MappingProxyType(outcomes)


def _summarise(then: str, limit: str) -> State:
    return State(
        "summarise",
        "fsm_summarise",
        "the answer of what was found",
        on=_to(answered=then),
        back=_to(misfit="judge"),
        action="SUMMARISE",
        limit=limit,
    )


_LOOP = (
    State(
        "decompose",
        "fsm_decompose",
        "simple or compound, and the first sub-question",
        on=_to(simple="search", compound="search", repeated="summarise"),
        back=_to(misfit="judge"),
    ),
    State(
        "search",
        "fsm_search",
        "its answer in the paragraphs",
        on=_to(found="revise", settled="summarise"),
        back=_to(nothing="decompose", misfit="decompose"),
        action="SEARCH",
    ),
    State(
        "revise",
        "fsm_revise",
        "the question with the answer put in",
        on=_to(revised="judge"),
        back=_to(misfit="search"),
        action="REVISE",
    ),
    State(
        "judge",
        "fsm_judge",
        "sub-question and question the same?",
        on=_to(same="summarise", different="decompose"),
        back=_to(misfit="revise"),
    ),
)
_REVIEW = State(
    "review",
    "fsm_review",
    "supporting facts, triples, explanation",
    on=_to(reviewed=END),
    # A review that does not fit goes back there, where there is an answer already.
    back=_to(misfit="summarise"),
    action="REVIEW",
    limit=END,
)
FSM1 = Machine("fsm1", (*_LOOP, _summarise(END, "")), ("summarise",))
FSM2 = Machine("fsm2", (*_LOOP, _summarise("review", END), _REVIEW), ("summarise", "review"))

MACHINES: Mapping[str, Machine] = MappingProxyType({"fsm": FSM2, "fsm1": FSM1, "fsm2": FSM2})
"""By name; ``fsm`` is the one with every state."""


_WIDE, _HIGH, _GAP, _EDGE = 290, 56, 54, 24
_LANE = 54
"""From one line beside the boxes to the next."""
_SIDE = 90
"""Room for the words beside the outermost line."""
_LIMIT = "limit"


class _Line(NamedTuple):
    """From state to state, with its outcomes; ``back`` where the machine goes back."""

    start: str
    end: str
    words: str
    back: bool


def as_object(machine: Machine) -> dict[str, Any]:
    """The table as JSON data.

    Args:
        machine: its states.
    """
    return {
        "machine": machine.name,
        "start": machine.states[0].name,
        "states": [
            {
                "name": state.name,
                "asks": state.asks,
                "action": state.action,
                "about": state.about,
                "on": dict(state.on),
                "back": dict(state.back),
                "limit": state.limit,
            }
            for state in machine.states
        ],
    }


def mermaid(machine: Machine) -> str:
    """A Mermaid flowchart: work states as boxes, decisions as rhombs, ways back dashed.

    Args:
        machine: its states.
    """
    lines = ["flowchart TD", '    start(["question"])']
    for state in machine.states:
        text = f'"{state.name}<br/>{state.action or state.about}"'
        lines.append(f"    {state.name}{f'[{text}]' if state.action else f'{{{text}}}'}")
    lines += [f'    {END}(["the answer"])', f'    {_LIMIT}(["a limit is met"])']
    lines.append(f"    start --> {machine.states[0].name}")
    for one in _lines(machine):
        lines.append(f'    {one.start} {"-.->" if one.back else "-->"}|"{one.words}"| {one.end}')
    lines.append(f"    {_LIMIT} -.-> {machine.closing[0]}")
    return "\n".join(lines) + "\n"


def svg(machine: Machine) -> str:
    """A self-contained SVG picture: states in a column, ways back at the left, no script.

    Args:
        machine: its states.
    """
    names = [one.name for one in machine.states] + [END]
    tops = {name: _EDGE + at * (_HIGH + _GAP) for at, name in enumerate(names)}
    lines = list(_lines(machine))
    at = {name: place for place, name in enumerate(names)}
    beside = [one for one in lines if at[one.end] != at[one.start] + 1]
    lefts = _lanes([one for one in beside if at[one.end] < at[one.start]], at)
    rights = _lanes([one for one in beside if at[one.end] > at[one.start]], at)
    left = _EDGE + _SIDE + _LANE * max(lefts.values(), default=0)
    width = left + _WIDE + _LANE * max(rights.values(), default=0) + _SIDE + _EDGE
    height = tops[END] + _HIGH + _EDGE
    parts = [_down(one, tops, left) for one in lines if one not in beside]
    parts += [_around(one, tops, left, -lane) for one, lane in lefts.items()]
    parts += [_around(one, tops, left + _WIDE, lane) for one, lane in rights.items()]
    parts += [_box(state, left, tops[state.name]) for state in machine.states]
    parts.append(
        f'<rect class="answer" x="{left}" y="{tops[END]}" width="{_WIDE}" height="{_HIGH}" '
        f'rx="28"/><text class="name" x="{left + _WIDE / 2:g}" y="{tops[END] + 33}">answer</text>'
    )
    title = f"The states of {machine.name}; a limit leads to {machine.closing[0]}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
        f"<title>{title}</title><style>{_STYLE}</style>"
        f'<rect class="page" width="100%" height="100%"/>{_TIP}{"".join(parts)}</svg>\n'
    )


_STYLE = (
    "text{font-family:system-ui,'DejaVu Sans',sans-serif;text-anchor:middle}"
    ".page{fill:#fff}.work{fill:#e4f1ea;stroke:#3c7d5a}.decision{fill:#f4f6fb;stroke:#5b6b8c}"
    ".answer{fill:#fff3d6;stroke:#a87b16}.name{font-size:15px;font-weight:600;fill:#1c2333}"
    ".about,.word{font-size:11px;fill:#4a5570}.word{paint-order:stroke;stroke:#fff;stroke-width:5}"
    ".from{text-anchor:end}.to{text-anchor:start}"
    ".line{fill:none;stroke:#7c879d;stroke-width:1.6}.back{stroke-dasharray:5 4}.tip{fill:#7c879d}"
    "@media(prefers-color-scheme:dark){.page{fill:#14171f}.decision{fill:#232a3a}"
    ".work{fill:#1e3329}.answer{fill:#3a3016}.name{fill:#e8ecf5}.about,.word{fill:#b4bdd0}"
    ".word{stroke:#14171f}}"
)
_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>'
)


def _lines(machine: Machine) -> Iterator[_Line]:
    for state in machine.states:
        on, aside = dict(state.on), dict(state.back)
        if state.limit == END:
            # Beside another way to the same end, it is a word more on that way's line.
            (on if END in on.values() else aside)[_LIMIT] = END
        for back, outcomes in ((False, on), (True, aside)):
            for end, words in _together(outcomes).items():
                yield _Line(state.name, end, words, back)


def _together(outcomes: Mapping[str, str]) -> dict[str, str]:
    """Outcomes by where they lead."""
    found: dict[str, list[str]] = {}
    for outcome, end in outcomes.items():
        found.setdefault(end, []).append(outcome)
    return {end: ", ".join(words) for end, words in found.items()}


def _lanes(lines: Sequence[_Line], at: Mapping[str, int]) -> dict[_Line, int]:
    """Which lane beside the boxes each line has, so that none lies on another; short ones first."""
    taken: list[set[int]] = []
    found: dict[_Line, int] = {}
    for line in sorted(lines, key=lambda one: abs(at[one.end] - at[one.start])):
        rows = set(range(min(at[line.start], at[line.end]), max(at[line.start], at[line.end]) + 1))
        lane = next((one for one, used in enumerate(taken) if not used & rows), len(taken))
        if lane == len(taken):
            taken.append(set())
        taken[lane] |= rows
        found[line] = lane + 1
    return found


def _box(state: State, left: float, top: float) -> str:
    kind, middle = ("work" if state.action else "decision"), left + _WIDE / 2
    return (
        f'<rect class="{kind}" x="{left}" y="{top}" width="{_WIDE}" height="{_HIGH}" rx="8"/>'
        f'<text class="name" x="{middle:g}" y="{top + 23}">{escape(state.name)}</text>'
        f'<text class="about" x="{middle:g}" y="{top + 42}">{escape(state.about)}</text>'
    )


def _down(line: _Line, tops: Mapping[str, int], left: float) -> str:
    x, y = left + _WIDE / 2, tops[line.start] + _HIGH
    return (
        f'<path class="line" marker-end="url(#tip)" d="M{x:g} {y}L{x:g} {tops[line.end]}"/>'
        f'<text class="word to" x="{x + 8:g}" y="{y + 31}">{escape(line.words)}</text>'
    )


def _around(line: _Line, tops: Mapping[str, int], side: float, lane: int) -> str:
    """A line beside the boxes, in a lane to the right, or to the left where that is below 0."""
    shift = min(7 * abs(lane), 24)
    start, end = tops[line.start] + _HIGH / 2 + shift, tops[line.end] + _HIGH / 2 - shift
    x = side + _LANE * lane
    kind, anchor, gap = (" back" if line.back else ""), *(("from", -5) if lane < 0 else ("to", 5))
    return (
        f'<path class="line{kind}" marker-end="url(#tip)" '
        f'd="M{side:g} {start:g}L{x:g} {start:g}L{x:g} {end:g}L{side:g} {end:g}"/>'
        f'<text class="word {anchor}" x="{x + gap:g}" y="{(start + end) / 2 + 4:g}">'
        f"{escape(line.words)}</text>"
    )
