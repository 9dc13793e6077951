"""From an open answer to one of several options (PEARL, section 3)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pearl.llm import MapAnswer
from pearl.llm.calls import letter
from pearl.runtime.calls import Caller
from pearl.runtime.loop import RunError


@dataclass(frozen=True, slots=True)
class Option:
    """The option an answer was mapped to."""

    letter: str
    text: str


async def map_answer(question: str, text: str, options: Sequence[str], caller: Caller) -> Option:
    """Ask which option an answer means.

    Args:
        question: what was asked.
        text: the open answer.
        options: 2 to 26 answers to choose from.
        caller: asks the model and keeps the journal.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: its reply names no option.
    """
    reply = await caller(MapAnswer(question, text, tuple(options)), "map")
    chosen = read_option(reply.text, options)
    caller.journal.decide("option", letter(chosen) if chosen is not None else None)
    if chosen is None:
        said = " ".join(reply.text.split())[:80]
        raise RunError(f"The model named no option: it said {said!r}. Run it again.")
    return Option(letter(chosen), options[chosen])


def read_option(reply: str, options: Sequence[str]) -> int | None:
    """The option a reply names, by its letter or by its text, or None.

    A reply that names several, or a letter that only starts a sentence
    ("A person …"), names none.
    """
    letters = f"[A-{letter(len(options) - 1)}]"
    told = reply.strip()
    alone = re.fullmatch(rf"\W*({letters})\W*", told, re.IGNORECASE)
    marked = re.findall(rf"(?:\(|\*\*)({letters})(?:\)|\*\*)|\b({letters})[).:]", told)
    said = re.findall(rf"\b(?:answer|option)(?: is)?\W+({letters})\b(?!['’])", told, re.IGNORECASE)
    named = {alone[1]} if alone else {one or other for one, other in marked} | set(said)
    found = {ord(one.upper()) - ord("A") for one in named}
    if not found:
        lowered = told.lower()
        found = {at for at, option in enumerate(options) if option.strip().lower() in lowered}
    return found.pop() if len(found) == 1 else None


def holds(answer: str, gold: str) -> bool:
    """Whether an open answer holds the gold one: its words, in their order; case does not count."""
    said, wanted = (" ".join(re.findall(r"\w+", text.casefold())) for text in (answer, gold))
    return f" {wanted} " in f" {said} "
