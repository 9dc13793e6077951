"""Methods, one family a file; a new one is a `Method`, and a line in `METHODS`."""

from pearl.evaluate.methods import cot, decomp, mcq, pearl, tmn, zero_shot
from pearl.evaluate.methods.base import Kit, Method, Outcome, Planning

METHODS = (
    zero_shot.METHOD,
    cot.METHOD,
    mcq.METHOD,
    pearl.PEARL,
    pearl.NO_EXECUTION,
    pearl.NO_REFINEMENT,
    pearl.EXECUTE_ONLY,
    decomp.METHOD,
    tmn.METHOD,
)

with_size = pearl.with_size

__all__ = ["METHODS", "Kit", "Method", "Outcome", "Planning", "with_size"]
