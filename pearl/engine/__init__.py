"""The layers between a call and its model: nothing lost, nothing paid twice."""

from pearl.engine.budget import Amount, Ceiling, Ledger, Verdict, judge
from pearl.engine.stack import Engine, Limits, start_engine

__all__ = [
    "Amount",
    "Ceiling",
    "Engine",
    "Ledger",
    "Limits",
    "Verdict",
    "judge",
    "start_engine",
]
