"""Replies of batches that are over: left in their files, and found by key."""

from __future__ import annotations

from dataclasses import replace

from pearl.llm.batches.results import Outcome, Place, read_outcome
from pearl.llm.failures import Hidden
from pearl.llm.model import Reply


class Shelf:
    """Finds replies again.

    Args:
        hidden: takes the key out of a text.
    """

    def __init__(self, hidden: Hidden) -> None:
        self._hidden = hidden
        self._places: dict[str, Place] = {}
        self._booked: set[str] = set()

    def add(self, outcome: Outcome) -> None:
        """Remember where a reply stands; a failure is no reason not to ask again."""
        if outcome.reply is not None:
            self._places.setdefault(outcome.key, outcome.place)

    def book(self, key: str) -> None:
        """Note that somebody has what a reply cost in their books."""
        self._booked.add(key)

    def take(self, key: str) -> Reply | None:
        """A reply, kept where it is in somebody's books already; None where there is none.

        Args:
            key: the request's.
        """
        place = self._places.get(key)
        if place is None:
            return None
        found = read_outcome(place, self._hidden)
        if found is None or found.key != key or found.reply is None:
            # Somebody has changed the file meanwhile.
            del self._places[key]
            return None
        kept = key in self._booked
        self._booked.add(key)
        return replace(found.reply, kept=kept)
