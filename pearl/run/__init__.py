"""The one loop: next steps → check → append → execute → journal."""

from pearl.run.calls import Caller
from pearl.run.evidence import Quote
from pearl.run.journal import Entry, Journal
from pearl.run.loop import Finished, Return, Run, RunError, Steps, Strategy, run_strategy

__all__ = [
    "Caller",
    "Entry",
    "Finished",
    "Journal",
    "Quote",
    "Return",
    "Run",
    "RunError",
    "Steps",
    "Strategy",
    "run_strategy",
]
