"""Questions with their entities left open, so that those of one kind are one text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_WORD = re.compile(r"\w+")
_CHUNK = re.compile(r"\S+")
_HOLE = re.compile(r"\{([1-9][0-9]?)\}")


def words_of(text: str) -> tuple[str, ...]:
    """A text's words in small letters; holes and blanks are none."""
    return tuple(word.casefold() for word in _WORD.findall(_HOLE.sub(" ", text)))


def opened(text: str, entities: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A question with a hole for each entity, and the entities in the order of the holes.

    An entity stands between word boundaries; a longer one comes before one
    that it holds.

    Args:
        text: the question.
        entities: in any order; those that do not occur are left out.

    Returns:
        ``("Who threw discus shorter than {1}?", ("48.0",))``.
    """
    known = sorted({one for one in entities if one}, key=lambda one: (-len(one), one))
    if not known:
        return text, ()
    either = "|".join(map(re.escape, known))
    found: list[str] = []

    def hole(match: re.Match[str]) -> str:
        found.append(match[0])
        return f"{{{len(found)}}}"

    pattern = re.sub(rf"(?<![\w.])(?:{either})(?!\w|\.\w)", hole, text)
    return pattern, tuple(found)


def known_entities(text: str, valid: Collection[str]) -> tuple[str, ...]:
    """What stands in a question that is a valid input of some agent, or a number.

    Args:
        text: the question.
        valid: examples of valid inputs, of all types together.
    """
    starts = [match.start() for match in _WORD.finditer(text)]
    ends = [match.end() for match in _WORD.finditer(text)]
    spans = {text[start:end] for start in starts for end in ends if start < end}
    numbers = (match[0] for match in _NUMBER.finditer(text))
    return tuple(sorted({*(spans & set(valid)), *numbers}))


@lru_cache(maxsize=4096)
def _matcher(pattern: str) -> re.Pattern[str]:
    parts = _HOLE.split(pattern)
    pieces = [re.escape(part) if at % 2 == 0 else "(.+?)" for at, part in enumerate(parts)]
    return re.compile("".join(pieces), re.DOTALL)


def fitted(text: str, pattern: str) -> tuple[str, ...] | None:
    """The entities of a question that is of a pattern; None for one that is not."""
    found = _matcher(pattern).fullmatch(text)
    return found.groups() if found else None


def strange_entities(text: str, vocabulary: Collection[str]) -> tuple[str, ...]:
    """What stands in a question of no known pattern that is not made of known words.

    Neighbouring words that are strange are one entity, and so is a number.

    Args:
        text: the question.
        vocabulary: the words of known patterns, in small letters.
    """
    found: list[str] = []
    last = -2
    for at, chunk in enumerate(_CHUNK.finditer(text)):
        words = list(_WORD.finditer(chunk[0]))
        strange = [one for one in words if one[0].casefold() not in vocabulary]
        if not strange:
            continue
        body = chunk[0][words[0].start() : words[-1].end()]
        number = _NUMBER.search(chunk[0])
        if len(words) > len(strange) and not number:
            body = chunk[0][strange[0].start() : strange[-1].end()]
        if number:
            body = number[0]
        if at == last + 1 and not number and _joins(text, found[-1], chunk[0], body):
            found[-1] = f"{found[-1]} {body}"
        else:
            found.append(body)
        last = at
    return tuple(found)


def _joins(text: str, before: str, chunk: str, body: str) -> bool:
    return chunk.startswith(body) and f"{before} {body}" in text


def longest_match(text: str, patterns: Iterable[str]) -> tuple[str, tuple[str, ...]] | None:
    """The pattern with the most words of its own that a question is of, and its entities."""
    found = [
        (pattern, entities)
        for pattern in patterns
        if (entities := fitted(text, pattern)) is not None
    ]
    return max(found, key=lambda one: (len(words_of(one[0])), one[0]), default=None)
