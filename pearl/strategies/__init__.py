"""The published systems, as ways to write steps of one plan language."""

from pearl.strategies.baselines import PlanShown, blind_plan, choosing_plan, reasoning_plan
from pearl.strategies.decomp import Decomp, decompose, worked
from pearl.strategies.given import GivenPlan
from pearl.strategies.least_to_most import LeastToMost
from pearl.strategies.pearl import Pearl, direct_plan, rewritten
from pearl.strategies.retrieve_read import retrieve_read_plan
from pearl.strategies.rolled_out import conclusion, rolled_out_plan

__all__ = [
    "Decomp",
    "GivenPlan",
    "LeastToMost",
    "Pearl",
    "PlanShown",
    "blind_plan",
    "choosing_plan",
    "conclusion",
    "decompose",
    "direct_plan",
    "reasoning_plan",
    "retrieve_read_plan",
    "rewritten",
    "rolled_out_plan",
    "worked",
]
