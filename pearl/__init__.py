"""Pearl: a plan compiler for language-model reasoning over long documents.

Everything a program needs is here; each name is loaded when first used, so
``import pearl`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pearl.answer import Answer
    from pearl.api import (
        ask,
        ask_sync,
        check,
        fix,
        format,
        run,
        run_sync,
        write_plan,
        write_plan_sync,
    )
    from pearl.diagnostics import Diagnostic
    from pearl.library import Library, load_library
    from pearl.llm import Model, ModelError, choose_model
    from pearl.plan import Action, Plan, Step
    from pearl.runtime import Option, Quote, RunError
    from pearl.source import InputError, Source
    from pearl.syntax import Parsed, parse

_HOMES = {
    "pearl.answer": ("Answer",),
    "pearl.api": (
        "ask",
        "ask_sync",
        "check",
        "fix",
        "format",
        "run",
        "run_sync",
        "write_plan",
        "write_plan_sync",
    ),
    "pearl.diagnostics": ("Diagnostic",),
    "pearl.library": ("Library", "load_library"),
    "pearl.llm": ("Model", "ModelError", "choose_model"),
    "pearl.plan": ("Action", "Plan", "Step"),
    "pearl.runtime": ("Option", "Quote", "RunError"),
    "pearl.source": ("InputError", "Source"),
    "pearl.syntax": ("Parsed", "parse"),
}

__all__ = [
    "Action",
    "Answer",
    "Diagnostic",
    "InputError",
    "Library",
    "Model",
    "ModelError",
    "Option",
    "Parsed",
    "Plan",
    "Quote",
    "RunError",
    "Source",
    "Step",
    "ask",
    "ask_sync",
    "check",
    "choose_model",
    "fix",
    "format",
    "load_library",
    "parse",
    "run",
    "run_sync",
    "write_plan",
    "write_plan_sync",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any exported name
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    raise AttributeError(f"module 'pearl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
