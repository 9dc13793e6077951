"""Retrieve and read, without taking the question apart.

Khot et al., "Decomposed Prompting", ICLR 2023, section 4.4: the baseline that
looks passages up for the question itself.
"""

from __future__ import annotations

from pearl.plan import Literal, Plan, Ref, Step

PASSAGES = 5
"""Passages that are read."""

LIBRARY = "open_domain"
"""The library that has the two handlers."""


def retrieve_read_plan(question: str, passages: int = PASSAGES) -> Plan:
    """Two steps: look passages up, and read all of them at once.

    Args:
        question: what is asked; also the query.
        passages: how many are read.
    """
    found = Step("found", "RETRIEVE", (Literal(question), Literal(passages)))
    answer = Step("answer", "MULTI_HOP_READ", (Ref("found"), Literal(question)))
    return Plan((found, answer), question)
