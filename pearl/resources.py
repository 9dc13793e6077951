"""Finds grammar/, actions/ and plans/ in a checkout, a wheel and an sdist alike."""

from __future__ import annotations

from importlib.abc import Traversable
from importlib.resources import files


def grammar(name: str) -> str:
    """The text of a grammar, as ``grammar("plan")``."""
    return (files("pearl.grammar") / f"{name}.lark").read_text(encoding="utf-8")


def actions() -> dict[str, Traversable]:
    """The action libraries that ship with Pearl, by name."""
    folder = files("pearl.actions")
    found = sorted(folder.iterdir(), key=lambda entry: entry.name)
    return {
        entry.name.removesuffix(".actions"): entry
        for entry in found
        if entry.name.endswith(".actions")
    }


def demonstrations() -> list[Traversable]:
    """The demonstration plans that ship with Pearl, in name order."""
    folder = files("pearl.plans") / "demos"
    found = sorted(folder.iterdir(), key=lambda entry: entry.name)
    return [entry for entry in found if entry.name.endswith(".plan")]
