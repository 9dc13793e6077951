"""Takes out every CONCAT of one text, and lets later steps use the text's own step.

Why
    The CONCAT says nothing that its input does not, and two plans that differ
    in it only ask for the same.

Before
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. who = CONCAT(ross) : Who he is
    3. sale = FIND_OPINION(CTX, who, "the sale") : Find what he thinks of the sale

After
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. sale = FIND_OPINION(CTX, ross, "the sale") : Find what he thinks of the sale

Safety
    Unsafe: values stay the same, but prompts that named the CONCAT, or showed
    its call, name the input and its call, so that a model may answer in other
    words. With several outputs, evidence may be looked for one step nearer.
    Where the input's type is not known to be text, nothing is done, as the
    CONCAT makes a text of it; nor where a step asks for the evidence of the
    CONCAT, which has none of its own.
"""

from itertools import chain

from pearl.lang.ast import Mode, Plan, step_refs
from pearl.lang.diagnostics import Safety
from pearl.lang.library import Library
from pearl.passes.base import Applied, Pass, without
from pearl.passes.fold_concat import copied


def _rewrite(plan: Plan, library: Library) -> Applied:
    texts = set()
    for step in plan.steps:
        action = library.get(step.action)
        if action and action.returns == "text" and not any(ref.maps for ref in step_refs(step)):
            texts.add(step.name)
    used = chain.from_iterable(map(step_refs, plan.steps))
    quoted = {ref.name for ref in used if ref.mode is Mode.EVIDENCE}
    stand_ins: dict[str, str] = {}
    for step in plan.steps:
        source = copied(step, library)
        if source in texts and step.name not in quoted:
            stand_ins[step.name] = stand_ins.get(source, source)
    if not stand_ins:
        return Applied(plan)
    notes = (f"Took out {name}, and put {text} in its place." for name, text in stand_ins.items())
    return Applied(without(plan, stand_ins, stand_ins), tuple(notes))


PASS: Pass = Pass("fold-concat-inside", Safety.UNSAFE, _rewrite, __doc__)
