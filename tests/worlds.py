"""Small worlds of CommaQA, written as facts and as what agents are asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pearl.commaqa.world import World, read_world
from pearl.lang.values import Value, canonical_json, to_json


def template(agent: str, look: str, words: str, *kinds: str) -> dict[str, Any]:
    """A template of an agent.

    Args:
        agent: whose it is.
        look: ``born($1, ?)``, which is looked up; ``= count($1)`` is arithmetic.
        words: the ways to ask it, with ``/`` between them.
        kinds: the type of each slot.
    """
    steps = [{"operation": "select", "question": look, "answer": "#1"}]
    return {
        "steps": [] if look.startswith("=") else steps,
        "questions": words.split(" / "),
        "init": {f"${number}": kind for number, kind in enumerate(kinds, 1)},
        "model": agent,
        "predicate": look.removeprefix("= "),
    }


def row(facts: str, asks: str) -> dict[str, Any]:
    """A row of the published format.

    Args:
        facts: one a line, or with ``;`` between them.
        asks: templates, one a line, ``agent | look-up | words | type | type``.
    """
    kb: dict[str, list[str]] = {}
    for fact in facts.replace(";", "\n").strip().splitlines():
        kb.setdefault(fact.strip().partition("(")[0], []).append(fact.strip())
    config: dict[str, list[dict[str, Any]]] = {}
    for line in asks.strip().splitlines():
        parts = [part.strip() for part in line.split("|")]
        config.setdefault(parts[0], []).append(template(*parts))
    return {"kb": kb, "context": "…", "pred_lang_config": config, "qa_pairs": []}


def world(facts: str, asks: str) -> World:
    """The world of a `row`."""
    return read_world(row(facts, asks), "here:1", "here/1")


def told(values: Sequence[Value]) -> list[str]:
    """Values so that 66, 66.0 and "66.0" are three."""
    return [canonical_json(to_json(value)) for value in values]
