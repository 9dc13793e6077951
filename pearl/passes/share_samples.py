"""Makes two steps that put the same question to a model into one.

Why
    As `share-calls`, for actions whose author does not say that one output
    may stand for another, and also where a prompt shows the step's name.

Before
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. him = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    3. sale = FIND_OPINION(CTX, him, "the sale") : Find what he thinks of it
    4. ans = CONCAT(ross, sale) : Who he is, and what he thinks

After
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. sale = FIND_OPINION(CTX, ross, "the sale") : Find what he thinks of it
    3. ans = CONCAT(ross, sale) : Who he is, and what he thinks

Safety
    Unsafe: a model may answer the same call in two ways, so that one output
    in place of two may change the answer and the evidence; and the prompts of
    later steps name the step that is left, by itself or in the call of another.
"""

from pearl.lang.ast import Action, Plan, Prompt, Step
from pearl.lang.diagnostics import Safety
from pearl.lang.library import Library
from pearl.passes.base import Applied, Pass
from pearl.passes.share_calls import share


def _rewrite(plan: Plan, library: Library) -> Applied:
    def may(_: Step, action: Action) -> bool:
        return isinstance(action.body, Prompt) or "pure" in action.traits

    return share(plan, library, may)


PASS: Pass = Pass("share-samples", Safety.UNSAFE, _rewrite, __doc__)
