"""Kinds of reasoning, by a question's first words."""

from __future__ import annotations

import re

from pearl.llm.calls import LabelQuestion

_SIGNS = (
    (r"\bnot\b.*\?|\bexcept\b|\bleast\b", "not/except"),
    (r"\bif\b.*\bwould|\bwould\b.*\bif\b", "what if"),
    (r"^why\b|\breasons?\b|\bbecause\b|\bmotiv", "why/reason"),
    (r"\bhow (?:many|much|often)\b", "numeric"),
    (r"\bhow long\b|\bhow much time\b", "duration"),
    (r"\bsymbol|\bmean|\bmetaphor|\bironi|\bmoral\b|\btheme", "symbolism/interpretation"),
    (r"\brelation(?:ship)?|\bin common\b|\bcompar|\bdiffer", "relation"),
    (
        r"\bdescrib|\btraits?\b|\bpersonalit|\btone\b|\bfeel|\bwhat (?:is|was) .* like\b",
        "description",
    ),
    (r"^who(?:m|se)?\b", "person"),
    (r"^where\b|\bplace\b|\blocation\b", "location"),
    (r"^how\b", "how/method"),
    (r"\bhappen|\bevent|\bafter\b|\bbefore\b", "event"),
    (r"(?:\.\.\.|…|_+|\b(?:that|because|to|of|the|is|was))\W*$", "finish the phrase"),
    (r"^what (?:is|was|are|were) (?:an? |the )?[\w-]+\??$", "entity"),
)


def label(call: LabelQuestion) -> str:
    """The kinds whose signs the question bears, at most two; else the last one there is."""
    known = [name for name, _ in call.labels]
    question = " ".join(call.question.split())
    found = [
        name for asks, name in _SIGNS if name in known and re.search(asks, question, re.IGNORECASE)
    ]
    return ", ".join(found[:2] or known[-1:])
