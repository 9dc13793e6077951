"""The calls of a journal, each with the tries that came to nothing before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pearl.llm import Usage
from pearl.runtime.journal import Entry

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
