"""The published systems, as ways to write steps of one plan language."""

from pearl.strategies.given import GivenPlan
from pearl.strategies.pearl import Pearl, rewritten

__all__ = ["GivenPlan", "Pearl", "rewritten"]
