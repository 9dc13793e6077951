"""Takes out a CONCAT of one step that is the whole answer.

Why
    The answer is then that step's output, which is the same text. Plans that
    models write often end so.

Before
    1. moral = SUMMARIZE_X(CTX, "the moral") : Find the moral of the story
    2. ans = CONCAT(moral) : The final answer

After
    1. moral = SUMMARIZE_X(CTX, "the moral") : Find the moral of the story

Safety
    Safe: the answer and its evidence are the same texts, no prompt of a step
    names a step that no step uses, and who chooses an option is shown the
    parts of the input either way. `fold-concat-inside` does the rest, which
    is not safe: where later steps use the CONCAT, its name or its call may
    stand in prompts, and where it is one of several outputs, evidence may be
    looked for one step nearer. A CONCAT of a text that the plan itself writes
    is more than that text, as it keeps the quotes.
"""

from pearl.lang.ast import DOCUMENT, Mode, Plan, Ref, Step
from pearl.lang.diagnostics import Safety
from pearl.lang.graph import outputs
from pearl.lang.library import Library
from pearl.passes.base import Applied, Pass, pure_builtin, users, without


def _rewrite(plan: Plan, library: Library) -> Applied:
    notes: list[str] = []
    while True:
        answer = outputs(plan)
        last = next((step for step in plan.steps if answer == (step.name,)), None)
        source = copied(last, library) if last else None
        if not last or not source or users(plan, last.name):
            return Applied(plan, tuple(notes))
        plan = without(plan, {last.name}, {last.name: source})
        notes.append(f"Took out {last.name}, whose only input {source} is the same text.")


def copied(step: Step, library: Library) -> str | None:
    """The one step whose text a CONCAT repeats, or None."""
    if (step.action, len(step.args)) != ("CONCAT", 1) or pure_builtin(step, library) != "concat":
        return None
    arg = step.args[0]
    if not isinstance(arg, Ref) or arg.mode is not Mode.PLAIN or arg.name == DOCUMENT:
        return None
    return arg.name


PASS: Pass = Pass("fold-concat", Safety.SAFE, _rewrite, __doc__)
