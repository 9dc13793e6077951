"""What a call gives, whatever its values are."""

from __future__ import annotations

import re

from pearl.llm.calls import FillSchema
from pearl.llm.offline.text import words
from pearl.values import Pairs, Value, as_text

ASKED = 800
"""Characters of a question that its form is read from; people ask nothing longer."""

NOTE = re.compile(r" ?\[[^\[\]]*\]")
"""What has been found out about a name in a question, in brackets behind it."""

_ARROW = " -> "


def told(call: FillSchema, name: str) -> str:
    """What stands under a name, as one text; empty where nothing does."""
    found = [value for key, value in call.given if key == name]
    return as_text(found[0]) if found else ""


def asked(call: FillSchema, name: str = "question") -> str:
    """A question on one line."""
    return " ".join(told(call, name).split())


def listed(call: FillSchema, name: str) -> list[str]:
    """What stands under a name, as texts."""
    found: list[Value] = [value for key, value in call.given if key == name]
    if not found:
        return []
    match found[0]:
        case Pairs() as pairs:
            return [as_text(one) for _, one in pairs]
        case list() as many:
            return [as_text(one) for one in many]
        case one:
            return [line for line in as_text(one).splitlines() if line.strip()]


def solved(call: FillSchema, name: str = "solved") -> list[tuple[str, str]]:
    """Sub-questions and their answers, in order."""
    parts = [one.partition(_ARROW) for one in listed(call, name)]
    return [(question.strip(), answer.strip()) for question, _, answer in parts]


def body(call: FillSchema) -> str:
    """The document's text; empty where there is none."""
    return call.document.text if call.document else ""


def content(text: str) -> set[str]:
    """The stems of a text that say something, without notes in brackets."""
    return set(words(NOTE.sub("", text)))


def covers(text: str, question: str) -> bool:
    """Whether a text has every word that a question is about."""
    return content(question) <= content(text)


def same(one: str, other: str) -> bool:
    """Whether two questions are one but for case, spaces and the mark at the end."""
    return _plain(one) == _plain(other)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" ?.")


def shortened(text: str, most: int) -> str:
    """The first words of a text, in as many characters as there may be."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    return text[:most].rsplit(" ", 1)[0][:most]
