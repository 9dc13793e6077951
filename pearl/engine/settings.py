"""Settings of the engine, from the environment."""

from __future__ import annotations

import os

from pearl.engine.retry import TRIES
from pearl.source import InputError


def read_tries() -> int:
    """How often a call is tried in all: ``PEARL_TRIES``.

    Raises:
        InputError: it is no number above 0.
    """
    return _whole("PEARL_TRIES") or TRIES


def read_window() -> int | None:
    """Tokens that fit the model, its reply among them: ``PEARL_CONTEXT``; None where not set.

    Raises:
        InputError: it is no number above 0.
    """
    return _whole("PEARL_CONTEXT")


def read_reply() -> int | None:
    """Tokens that a reply may have: ``PEARL_MAX_TOKENS``; None where not set.

    Raises:
        InputError: it is no number above 0.
    """
    return _whole("PEARL_MAX_TOKENS")


def _whole(name: str) -> int | None:
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{name} is wrong: it is to be a whole number above 0.")
    return int(text)
