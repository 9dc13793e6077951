"""Kinds of reasoning that questions ask for, as QuALITY's authors name them (section 4.3)."""

from __future__ import annotations

import re

REASONING = (
    ("description", "what somebody or something is like"),
    ("why/reason", "why something happens or is done"),
    ("symbolism/interpretation", "what something stands for, or how it is to be understood"),
    ("how/method", "how something is done or comes about"),
    ("event", "what happens"),
    ("person", "who somebody is, or who does something"),
    ("not/except", "what is not so, or is the exception"),
    ("relation", "how people or things stand to each other"),
    ("entity", "what a thing or a group is"),
    ("numeric", "how many or how much"),
    ("location", "where something is or happens"),
    ("what if", "what would be if something were otherwise"),
    ("object", "which thing is used, owned or meant"),
    ("duration", "how long something lasts"),
    ("finish the phrase", "the end of a sentence that the question begins"),
    ("other", "none of the kinds above"),
)
"""Names, and what each means."""

MOST = 2
"""Kinds that a question may have."""


def read_labels(reply: str) -> tuple[str, ...]:
    """The kinds that a reply names, in its order, at most two.

    Args:
        reply: as a model wrote it; what is no kind is passed over.
    """
    names = [name for name, _ in REASONING]
    pattern = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    found = re.findall(rf"(?<![\w/])(?:{pattern})(?![\w/])", reply.lower())
    return tuple(dict.fromkeys(found))[:MOST]
