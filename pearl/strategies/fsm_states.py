"""The states and transitions of FSM prompting (Wang et al., 2024): one table, which is run and
drawn.

FSM1 ends with the answer, FSM2 with a review of it. `pearl.strategies.fsm` runs the machine, and
names the paper; this module draws it as Mermaid text, or SVG.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

from pearl.lang.graph import picture

END = "answer"
"""Where a machine stops."""


@dataclass(frozen=True, slots=True)
class State:
    """A state of a machine.

    Args:
        name: as in the journal.
        about: what is done in the state, in a few words.
        on: the next state, by the outcome.
        back: the state that the machine goes back to, by the outcome of a failure.
        works: True for a work state, which is a step of the plan; False for a decision.
        limit: the next state where a limit is met. Where it is empty, or nothing was found so far,
            the run ends without an answer.
    """

    name: str
    about: str
    on: Mapping[str, str]
    back: Mapping[str, str]
    works: bool = True
    limit: str = "summarise"

    @property
    def asks(self) -> str:
        """The schema of the model's reply."""
        return f"fsm_{self.name}"

    @property
    def action(self) -> str:
        """The action that the state's step calls; empty for a state without a step."""
        return self.name.upper() if self.works else ""


@dataclass(frozen=True, slots=True)
class Machine:
    """A state machine.

    Args:
        name: as on the command line.
        states: all of its states; it starts in the first.
        closing: the states that make the answer from what was found, in order.
    """

    name: str
    states: tuple[State, ...]
    closing: tuple[str, ...]

    def state(self, name: str) -> State:
        """The state of this name."""
        return next(state for state in self.states if state.name == name)

    def after(self, name: str) -> int:
        """How many closing states must still follow the state of this name."""
        if name not in self.closing:
            return len(self.closing)
        return len(self.closing) - self.closing.index(name) - 1


_LOOP = (
    State(
        "decompose",
        "simple or compound, and the first sub-question",
        {"simple": "search", "compound": "search", "repeated": "summarise"},
        {"misfit": "judge"},
        works=False,
    ),
    State(
        "search",
        "its answer in the paragraphs",
        {"found": "revise", "settled": "summarise"},
        {"nothing": "decompose", "misfit": "decompose"},
    ),
    State(
        "revise",
        "the question with the answer put in",
        {"revised": "judge"},
        {"misfit": "search"},
    ),
    State(
        "judge",
        "sub-question and question the same?",
        {"same": "summarise", "different": "decompose"},
        {"misfit": "revise"},
        works=False,
    ),
)
_SUMMARISE = State(
    "summarise", "the answer of what was found", {"answered": END}, {"misfit": "judge"}, limit=""
)
_REVIEW = State(
    "review",
    "supporting facts, triples, explanation",
    {"reviewed": END},
    # A review only follows an answer, so one that fails goes back to where the answer is made.
    {"misfit": "summarise"},
    limit=END,
)
_REVIEWED = replace(_SUMMARISE, on={"answered": "review"}, limit=END)
FSM1 = Machine("fsm1", (*_LOOP, _SUMMARISE), ("summarise",))
FSM2 = Machine("fsm2", (*_LOOP, _REVIEWED, _REVIEW), ("summarise", "review"))

MACHINES: Mapping[str, Machine] = MappingProxyType({"fsm": FSM2, "fsm1": FSM1, "fsm2": FSM2})
"""By name; ``fsm`` is the one with every state."""


_WIDE, _HIGH, _GAP, _EDGE = 290, 56, 54, 24
_LANE = 54
"""Pixels from one line beside the boxes to the next."""
_SIDE = 90
"""Pixels for the words beside the outermost line."""
_LIMIT = "limit"


class _Line(NamedTuple):
    """A drawn transition, labelled with its outcomes; ``back`` for one that goes back."""

    start: str
    end: str
    words: str
    back: bool


def as_object(machine: Machine) -> dict[str, Any]:
    """The table of states as JSON data."""
    keys = ("name", "asks", "action", "about", "on", "back", "limit")
    return {
        "machine": machine.name,
        "start": machine.states[0].name,
        "states": [{key: getattr(state, key) for key in keys} for state in machine.states],
    }


def mermaid(machine: Machine) -> str:
    """A Mermaid flowchart: work states as boxes, decisions as diamonds, ways back dashed."""
    lines = ["flowchart TD", '    start(["question"])']
    for state in machine.states:
        text = f'"{state.name}<br/>{state.action or state.about}"'
        lines.append(f"    {state.name}{f'[{text}]' if state.action else f'{{{text}}}'}")
    lines += [f'    {END}(["the answer"])', f'    {_LIMIT}(["a limit is met"])']
    lines.append(f"    start --> {machine.states[0].name}")
    for line in _lines(machine):
        arrow = "-.->" if line.back else "-->"
        lines.append(f'    {line.start} {arrow}|"{line.words}"| {line.end}')
    lines.append(f"    {_LIMIT} -.-> {machine.closing[0]}")
    return "\n".join(lines) + "\n"


def svg(machine: Machine) -> str:
    """A self-contained SVG picture: states in a column, ways back at the left, no script."""
    names = [state.name for state in machine.states] + [END]
    at = {name: place for place, name in enumerate(names)}
    lines = list(_lines(machine))
    jumps = [line for line in lines if at[line.end] != at[line.start] + 1]
    lefts = _lanes([line for line in jumps if at[line.end] < at[line.start]], at)
    rights = _lanes([line for line in jumps if at[line.end] > at[line.start]], at)
    left = _EDGE + _SIDE + _LANE * max(lefts.values(), default=0)
    right, middle = left + _WIDE, left + _WIDE / 2
    tops = {name: _EDGE + place * (_HIGH + _GAP) for name, place in at.items()}
    parts = []
    for line in lines:
        start, end = tops[line.start] + _HIGH, tops[line.end]
        if line not in jumps:
            drawn, anchor = f"M{middle:g} {start}L{middle:g} {end}", "start"
            x, y = middle + 8, start + 31.0
        else:
            side, lane = (left, -lefts[line]) if line in lefts else (right, rights[line])
            shift = _HIGH / 2 - min(7 * abs(lane), 24)
            x, first, last = side + _LANE * lane, start - shift, end + shift
            drawn = f"M{side} {first:g}L{x} {first:g}L{x} {last:g}L{side} {last:g}"
            gap, anchor = (5, "start") if lane > 0 else (-5, "end")
            x, y = x + gap, (first + last) / 2 + 4
        parts.append(
            f'<path class="line{" back" * line.back}" marker-end="url(#tip)" d="{drawn}"/>'
            f'<text class="word" style="text-anchor:{anchor}" x="{x:g}" y="{y:g}">'
            f"{line.words}</text>"
        )
    boxes = [
        (state.name, state.about, "doc" if state.action else "box") for state in machine.states
    ]
    for name, about, kind in (*boxes, (END, "", "answer")):
        top = tops[name]
        parts.append(
            f'<rect class="{kind}" x="{left}" y="{top}" width="{_WIDE}" height="{_HIGH}" '
            f'rx="{8 if about else 28}"/>'
            f'<text class="name" x="{middle:g}" y="{top + (23 if about else 33)}">{name}</text>'
            f'<text class="word" style="stroke:none" x="{middle:g}" y="{top + 42}">{about}</text>'
        )
    width = right + _LANE * max(rights.values(), default=0) + _SIDE + _EDGE
    title = f"The states of {machine.name}; a limit leads to {machine.closing[0]}"
    return picture(title, width, tops[END] + _HIGH + _EDGE, parts)


def _lines(machine: Machine) -> Iterator[_Line]:
    for state in machine.states:
        on, aside = dict(state.on), dict(state.back)
        if state.limit == END:
            # Where another transition leads to the same end, the limit shares its line.
            (on if END in on.values() else aside)[_LIMIT] = END
        for back, outcomes in ((False, on), (True, aside)):
            for end in dict.fromkeys(outcomes.values()):
                words = ", ".join(outcome for outcome, to in outcomes.items() if to == end)
                yield _Line(state.name, end, words, back)


def _lanes(lines: Sequence[_Line], at: Mapping[str, int]) -> dict[_Line, int]:
    """Which lane beside the boxes each line has, so that none lies on another; short ones first."""
    lanes: dict[_Line, int] = {}
    occupied: set[tuple[int, int]] = set()
    for line in sorted(lines, key=lambda line: abs(at[line.end] - at[line.start])):
        first, last = sorted((at[line.start], at[line.end]))
        rows = range(first, last + 1)
        free = (lane for lane in count(1) if not occupied & {(lane, row) for row in rows})
        lanes[line] = next(free)
        occupied |= {(lanes[line], row) for row in rows}
    return lanes
