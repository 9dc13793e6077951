"""Takes out steps that nothing returned needs.

Why
    With ``return``, a step that no returned step needs, not even through
    others, costs its calls and gives nothing to the answer. Without it
    nothing is taken out, as every output that no step uses is then part of
    the answer (PEARL's rule).

Before
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. sale = FIND_EVENT(CTX, "the sale of the magazine") : Find the sale
    3. ties = FIND_RELATION(CTX, ross, sale) : Find how he stands to the sale
    return ross

After
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    return ross

Safety
    Safe: the answer, its evidence and the prompts of the calls that are left
    stay as they are. A plan that failed because of a step it did not need no
    longer fails. The plan has to be whole: a strategy that goes on to write
    steps may still need what is unreachable now.
"""

from pearl.lang.ast import Plan
from pearl.lang.diagnostics import Safety
from pearl.lang.graph import needed
from pearl.lang.library import Library
from pearl.passes.base import Applied, Pass, without


def _rewrite(plan: Plan, _: Library) -> Applied:
    if not plan.returns:
        return Applied(plan)
    used = needed((ref.name for ref in plan.returns), plan.steps)
    gone = [step.name for step in plan.steps if step.name not in used]
    notes = (f"Took out {name}, which nothing returned needs." for name in gone)
    return Applied(without(plan, gone, {}), tuple(notes))


PASS: Pass = Pass("drop-unreachable", Safety.SAFE, _rewrite, __doc__)
