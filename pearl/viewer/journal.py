"""What a journal says of a run: its frames, what was planned, and what each step came to.

The calls of a journal, each with the tries that came to nothing before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pearl.lang.ast import Plan
from pearl.lang.parser import parse
from pearl.lang.values import DecodeError, Value, from_json
from pearl.models.base import Usage
from pearl.run.journal import Entry

PLANNING = "planning"
"""The stage of the calls that write a plan."""

MAPPING = "option"
"""The stage of the call that maps the answer to an option."""


@dataclass(frozen=True, slots=True)
class Made:
    """A call: its reply or why there is none, and every try at it that came to nothing.

    Args:
        path: where in its frame of the run, as ``step/ross[2]``.
        entry: the journal's last word on it.
        tries: the failed ones, in order; the last of them is ``entry`` where none succeeded.
    """

    path: str
    entry: Entry
    tries: tuple[Entry, ...] = ()

    @property
    def stage(self) -> str:
        """What it belongs to: a step's name, `PLANNING`, `MAPPING`, or the path's first part."""
        return stage_of(self.path)

    @property
    def done(self) -> bool:
        """Whether it got a reply."""
        return self.entry.status == "done"

    @property
    def kept(self) -> bool:
        """Whether its reply was there already, so that nothing was sent."""
        return self.done and self.entry.kept

    @property
    def started(self) -> float | None:
        """When it began, in seconds since 1970; None where the journal does not say."""
        if self.done or not self.tries:
            return self.entry.started
        return self.tries[0].started

    @property
    def seconds(self) -> float:
        """How long it took, with every try and the waits between them."""
        last, first = self.entry, self.started
        if self.done or not self.tries:
            return last.seconds
        if first is None or last.started is None:
            return sum(one.seconds for one in self.tries)
        return last.started + last.seconds - first

    @property
    def spent(self) -> Usage:
        """Tokens of all that was sent for it; none where it was kept."""
        vain = sum((one.usage for one in self.tries), Usage())
        return vain + self.entry.usage if self.done and not self.entry.kept else vain


def made_calls(entries: Iterable[Entry]) -> list[Made]:
    """A journal's calls, in the order in which they ended.

    Args:
        entries: of one frame, in order.
    """
    found: list[Made] = []
    pending: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        if entry.kind != "call":
            continue
        place = (entry.path, entry.call_key)
        tries = pending.get(place, [])
        if tries and entry.attempt <= tries[-1].attempt:
            # The same was asked again after it had been given up.
            found.append(Made(entry.path, tries[-1], tuple(tries)))
            tries = []
        if entry.status == "done":
            pending.pop(place, None)
            found.append(Made(entry.path, entry, tuple(tries)))
        else:
            pending[place] = [*tries, entry]
    found += (Made(path, tries[-1], tuple(tries)) for (path, _), tries in pending.items())
    return found


def stage_of(path: str) -> str:
    """What a path belongs to: a step's name, or a stage of the work around the steps."""
    head, _, rest = path.partition("/")
    if head == "step":
        return rest.partition("/")[0].partition("[")[0]
    return {"plan": PLANNING, "map": MAPPING}.get(head, head)


def item_of(path: str) -> int | None:
    """Which item of a list a step's call is for, counted from 0; None where it is the step's."""
    _, _, number = path.removeprefix("step/").partition("/")[0].partition("[")
    return int(number.rstrip("]")) if number.rstrip("]").isdigit() else None


_FRAME = re.compile(r"(try/\d+)/(.+)", re.DOTALL)
_REPLY = re.compile(r"plan/(\d+)")
_NOTE = re.compile(r"plan/(\d+)/(aside|rejected)")


@dataclass(frozen=True, slots=True)
class Draft:
    """A reply that was to be a plan.

    Args:
        number: counted from 1.
        call: what was asked, and came back.
        rejected: the codes of the errors for which the checker rejected it.
        aside: parts of it that belong to no plan.
    """

    number: int
    call: Made
    rejected: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole run, or one try of a refinement.

    Args:
        name: empty, or ``try/0`` and so on.
        text: the plan that ran last, in canonical form; empty where none did.
        plan: the same, read.
        calls: in the order in which they ended.
        drafts: the replies of planning.
        values: what steps came to.
        decided: when they had come to it, where that is known.
        skipped: steps that did not run, and why.
        passages: for a step's call, what it was given of the document.
        told: the other decisions of the loop, by path: ``answer``, ``option``,
            ``failed``, ``context``, ``plan/passes`` and so on.
        inner: what stands below steps: the frames of actions that have steps of their own.
    """

    name: str = ""
    text: str = ""
    plan: Plan = field(default_factory=Plan)
    calls: tuple[Made, ...] = ()
    drafts: tuple[Draft, ...] = ()
    values: Mapping[str, Value] = field(default_factory=dict)
    decided: Mapping[str, float] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    passages: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    inner: tuple[Entry, ...] = ()

    @property
    def title(self) -> str:
        """Its name for a reader: empty for the run itself, else ``Try 1`` and so on."""
        number = self.name.partition("/")[2]
        return f"Try {int(number) + 1}" if number else ""

    @property
    def answer(self) -> tuple[tuple[str, ...], str] | None:
        """The steps that make up the answer, and its text; None where there is none."""
        found = self.told.get("answer")
        if not isinstance(found, dict):
            return None
        return tuple(map(str, found.get("outputs", ()))), str(found.get("text", ""))

    @property
    def shown(self) -> str:
        """The plan to show: the one that ran, else the last one that was written."""
        if self.text:
            return self.text
        last = self.drafts[-1] if self.drafts else None
        return str(last.call.entry.value) if last and last.call.done and not last.rejected else ""


def read_frames(entries: Sequence[Entry]) -> list[Frame]:
    """A journal as frames: the run's own first, then each try of a refinement.

    Args:
        entries: since the run was begun last, in order.
    """
    own: list[Entry] = []
    tries: dict[str, list[Entry]] = {}
    for entry in entries:
        found = _FRAME.fullmatch(entry.path)
        if found:
            tries.setdefault(found[1], []).append(replace(entry, path=found[2]))
        else:
            own.append(entry)
    return [_frame("", own), *(_frame(name, some) for name, some in tries.items())]


def heading_of(entries: Sequence[Entry]) -> dict[str, Any]:
    """What a journal says first of itself; empty where it says nothing."""
    value = next((one.value for one in entries if one.path == "run"), None)
    return value if isinstance(value, dict) else {}


def _frame(name: str, entries: Sequence[Entry]) -> Frame:
    values: dict[str, Value] = {}
    decided: dict[str, float] = {}
    skipped: dict[str, str] = {}
    passages: dict[str, Mapping[str, Any]] = {}
    told: dict[str, Any] = {}
    inner: list[Entry] = []
    for one in entries:
        if one.kind == "call":
            continue
        head, _, rest = one.path.partition("/")
        if head == "step" and one.status == "skipped" and "/" not in rest:
            skipped[rest] = one.cause
        elif head == "step":
            inner.append(one)
        elif head == "value":
            _take(values, rest, one.value)
            if one.started is not None:
                decided[rest] = one.started
        elif head == "context" and rest and isinstance(one.value, dict):
            passages[rest] = one.value
        elif one.path != "run":
            told[one.path] = one.value
    text = str(told.pop("plan", "") or "")
    calls = tuple(made_calls(entries))
    drafts = _drafts(calls, told)
    plan = parse(text, "plan").plan
    return Frame(
        name, text, plan, calls, drafts, values, decided, skipped, passages, told, tuple(inner)
    )


def _take(values: dict[str, Value], name: str, data: Any) -> None:  # noqa: ANN401 - any JSON
    try:
        values[name] = from_json(data)
    except DecodeError:
        # A later Pearl may know values that this one does not.
        values[name] = str(data)


def _drafts(calls: Sequence[Made], told: dict[str, Any]) -> tuple[Draft, ...]:
    """The replies of planning, with what was said of each; that is taken out of ``told``."""
    notes: dict[tuple[int, str], tuple[str, ...]] = {}
    for path in list(told):
        found = _NOTE.fullmatch(path)
        if found and isinstance(told[path], list):
            notes[int(found[1]), found[2]] = tuple(map(str, told.pop(path)))
    drafts: list[Draft] = []
    for call in calls:
        found = _REPLY.fullmatch(call.path)
        if found and call.stage == PLANNING:
            number = int(found[1])
            rejected, aside = (notes.get((number, kind), ()) for kind in ("rejected", "aside"))
            drafts.append(Draft(number, call, rejected, aside))
    return tuple(sorted(drafts, key=lambda one: one.number))
