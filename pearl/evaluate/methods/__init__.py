"""Methods, one family a file; a new one is a `Method`, and a line in `METHODS`."""

from pearl.evaluate.methods import (
    cot,
    decomp,
    fsm,
    least_to_most,
    mcq,
    no_context,
    normal,
    pearl,
    react,
    rebel,
    retrieve_read,
    rolled_out,
    tmn,
    zero_shot,
)
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
    rolled_out.METHOD,
    least_to_most.METHOD,
    no_context.METHOD,
    retrieve_read.METHOD,
    normal.NORMAL,
    normal.EVIDENCE,
    normal.COT,
    normal.COT_EVIDENCE,
    normal.SP_COT,
    react.METHOD,
    fsm.ONE,
    fsm.TWO,
    rebel.METHOD,
    tmn.METHOD,
    tmn.BY_MODEL,
)

with_size = pearl.with_size

__all__ = ["METHODS", "Kit", "Method", "Outcome", "Planning", "with_size"]
