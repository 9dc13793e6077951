"""The published systems, as ways to write steps of one plan language."""

from pearl.strategies.baselines import PlanShown, choosing_plan, reasoning_plan
from pearl.strategies.decomp import Decomp, decompose, worked
from pearl.strategies.given import GivenPlan
from pearl.strategies.pearl import Pearl, direct_plan, rewritten

__all__ = [
    "Decomp",
    "GivenPlan",
    "Pearl",
    "PlanShown",
    "choosing_plan",
    "decompose",
    "direct_plan",
    "reasoning_plan",
    "rewritten",
    "worked",
]
