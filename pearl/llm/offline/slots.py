"""Texts with places that others fill: what names something in one, and what is like it otherwise.

Whoever works by analogy with an example starts here: the names of the example
become slots, and all else has to be there to the letter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

_NAMED = re.compile(r"\"([^\"]+)\"|(\d[\d.,]*\d|\d)|((?<!^)(?<![.?!] )\b[^\W\d_][\w'-]*)")
_RUN = re.compile(r"(?<!^)\b[^\W\d_a-z][\w'-]*(?: [^\W\d_a-z][\w'-]*)+")
"""Several capitalised words on end: one name."""

_GAP = re.compile(r"\s+|\b[Aa]n?\b")


@dataclass(frozen=True, slots=True)
class Takes:
    """What may stand in a slot: patterns of one character each.

    Args:
        first: of the first one.
        more: of each one behind it.
    """

    first: str = r"\S"
    more: str = "."


ANYTHING = Takes()
"""What a slot takes where nothing more is known of it."""


def named(text: str) -> set[str]:
    """Words of a text that may name something: quoted, numbers, words after the first."""
    found = {part for match in _NAMED.finditer(text) for part in match.groups() if part}
    return found | {match[0] for match in _RUN.finditer(text)}


def naming(word: str, text: str) -> bool:
    """Whether a word of a text names something: it is quoted there, or not in small letters."""
    return f'"{word}"' in text or not word[0].islower()


def holds(text: str, part: str) -> bool:
    """Whether a text holds another, between words' ends."""
    return bool(part.strip()) and bool(re.search(_place(part), text))


def outermost(found: Iterable[str]) -> list[str]:
    """Texts of which none is within another, the longest first."""
    ordered = sorted(set(found), key=lambda one: (-len(one), one))
    return [one for at, one in enumerate(ordered) if not any(one in more for more in ordered[:at])]


def form(
    text: str, slots: Sequence[str], takes: Callable[[str], Takes] = lambda _: ANYTHING
) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """A pattern of a text with a group for each slot, and the slots in its order.

    A slot ends where the text that follows it first stands, so that a text is
    read in one way, and in time by its length, however many slots there are.
    The pattern is for `re.Pattern.fullmatch`.

    Args:
        text: an example, with single spaces.
        slots: its words that others may take the place of. One with nothing
            behind it but another one stays as it is, as nobody could tell
            where it ends.
        takes: what a slot takes, by the example's own word.
    """
    if not slots:
        return re.compile(fixed(text)), ()
    places = re.compile("|".join(map(_place, slots)))
    found = list(places.finditer(text))
    parts = [fixed(text[: found[0].start()] if found else text)]
    order: list[str] = []
    for at, place in enumerate(found):
        word = place[0]
        after = found[at + 1] if at + 1 < len(found) else None
        between = fixed(text[place.end() : after.start() if after else len(text)])
        if word in order:
            parts.append(_again(word, order.index(word) + 1))
        elif after and not between:
            parts.append(re.escape(word))
        else:
            order.append(word)
            new = after and after[0] not in order
            ends = between + (takes(after[0]).first if after and new else "" if after else r"\Z")
            one = takes(word)
            # Possessive: what was read is not read again.
            parts.append(rf"({one.first}(?:(?!{ends}){one.more})*+(?<!\s))")
        parts.append(between)
    return re.compile("".join(parts)), tuple(order)


def _again(word: str, group: int) -> str:
    """A slot that was there before: the same, or the example's own word."""
    return rf"(?>\{group}(?!\w)|{re.escape(word)})"


def fixed(text: str) -> str:
    """Words that any text like it has; ``a`` and ``an`` are one."""
    pieces: list[str] = []
    end = 0
    for found in _GAP.finditer(text):
        pieces.append(re.escape(text[end : found.start()]))
        pieces.append(r"\s+" if found[0].isspace() else "[Aa]n?")
        end = found.end()
    return "".join((*pieces, re.escape(text[end:])))


def _place(part: str) -> str:
    return rf"(?<!\w){re.escape(part)}(?!\w)"
