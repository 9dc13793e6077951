"""What a question is about, and what it asks of it, in a word or two."""

from __future__ import annotations

import re

from pearl.llm.offline.multihop import relations
from pearl.llm.offline.multihop.given import ASKED, NOTE
from pearl.llm.offline.multihop.names import capitals

_OF = re.compile(
    r"^(?:who|what|which|where) (?:is|was|are|were) the (?P<what>[\w' -]{2,40}?) of "
    r"(?:the )?(?:film |song |movie |album |book )?(?P<about>.+?)\W*$",
    re.IGNORECASE,
)
_BORN = re.compile(r"^(?P<word>when|where) (?:was|were) (?P<about>.+) born\W*$", re.IGNORECASE)
_DIED = re.compile(r"^(?P<word>when|where) did (?P<about>.+) die\W*$", re.IGNORECASE)
_VERB = re.compile(r"\b(?P<verb>[a-z]+ed|wrote|sang|won|made|plays|play|stars)\b")


def relation(question: str) -> str:
    """What a question asks of what it is about: *director*, *date of birth*."""
    text = NOTE.sub("", question)[:ASKED]
    found = _OF.match(text)
    if found:
        what = found["what"].lower()
        return "country of citizenship" if relations.OF_A_LAND.search(what) else what
    for pattern, event in ((_BORN, "birth"), (_DIED, "death")):
        found = pattern.match(text)
        if found:
            return f"{'date' if found['word'].lower() == 'when' else 'place'} of {event}"
    if relations.DATED.search(text):
        return "publication date" if "released" in text else "date"
    if relations.PLACED.search(text):
        return "located in"
    verb = _VERB.search(text)
    return verb["verb"] if verb else "is"


def subject(question: str) -> str:
    """What a question is about; empty where it names nothing."""
    text = NOTE.sub("", question)[:ASKED]
    for pattern in (_OF, _BORN, _DIED):
        found = pattern.match(text)
        if found:
            return found["about"].strip()
    spans = [text[one.start : one.end] for one in capitals(text)]
    return max(spans, key=len, default="")
