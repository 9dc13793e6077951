"""Documents that are longer than a model's window: read whole, in parts, by passages, or not."""

from pearl.context.filling import fit_fill
from pearl.context.fitting import Fitted, fit_call, fit_plan
from pearl.context.parts import LabelError, part
from pearl.context.policy import POLICIES, UNLIMITED, Context, ContextError, Policy

__all__ = [
    "POLICIES",
    "UNLIMITED",
    "Context",
    "ContextError",
    "Fitted",
    "LabelError",
    "Policy",
    "fit_call",
    "fit_fill",
    "fit_plan",
    "part",
]
