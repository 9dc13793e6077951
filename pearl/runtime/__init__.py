"""The one loop: next steps → check → append → execute → journal."""

from pearl.runtime.calls import Caller
from pearl.runtime.evidence import Quote
from pearl.runtime.journal import Entry, Journal
from pearl.runtime.loop import (
    Attempt,
    Finished,
    Return,
    Run,
    RunError,
    Steps,
    Strategy,
    run_strategy,
)
from pearl.runtime.mapping import Option
from pearl.runtime.schemas import SchemaError, fill

__all__ = [
    "Attempt",
    "Caller",
    "Entry",
    "Finished",
    "Journal",
    "Option",
    "Quote",
    "Return",
    "Run",
    "RunError",
    "SchemaError",
    "Steps",
    "Strategy",
    "fill",
    "run_strategy",
]
