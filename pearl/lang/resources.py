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


def plan_folders() -> list[str]:
    """The names of the folders of plans that ship with Pearl."""
    folders = (one for one in files("pearl.plans").iterdir() if one.is_dir())
    return sorted(
        one.name for one in folders if any(file.name.endswith(".plan") for file in one.iterdir())
    )


def demonstrations(name: str = "demos") -> list[Traversable]:
    """The demonstration plans of a folder that ships with Pearl, in name order."""
    folder = files("pearl.plans") / name
    found = sorted(folder.iterdir(), key=lambda entry: entry.name)
    return [entry for entry in found if entry.name.endswith(".plan")]
