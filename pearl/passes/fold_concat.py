"""A CONCAT of one text, which is that text: taken out where it is the answer, and within a plan."""

from inspect import getdoc
from itertools import chain

from pearl.lang.ast import DOCUMENT, Mode, Plan, Ref, Step, step_refs
from pearl.lang.diagnostics import Safety
from pearl.lang.graph import outputs
from pearl.lang.library import Library
from pearl.passes.base import Applied, Pass, pure_builtin, users, without


def _at_end(plan: Plan, library: Library) -> Applied:
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
    notes: list[str] = []
    while True:
        answer = outputs(plan)
        last = next((step for step in plan.steps if answer == (step.name,)), None)
        source = _copied(last, library) if last else None
        if not last or not source or users(plan, last.name):
            return Applied(plan, tuple(notes))
        plan = without(plan, {last.name}, {last.name: source})
        notes.append(f"Took out {last.name}, whose only input {source} is the same text.")


def _inside(plan: Plan, library: Library) -> Applied:
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
    texts = set()
    for step in plan.steps:
        action = library.get(step.action)
        if action and action.returns == "text" and not any(ref.maps for ref in step_refs(step)):
            texts.add(step.name)
    used = chain.from_iterable(map(step_refs, plan.steps))
    quoted = {ref.name for ref in used if ref.mode is Mode.EVIDENCE}
    stand_ins: dict[str, str] = {}
    for step in plan.steps:
        source = _copied(step, library)
        if source in texts and step.name not in quoted:
            stand_ins[step.name] = stand_ins.get(source, source)
    notes = (f"Took out {name}, and put {text} in its place." for name, text in stand_ins.items())
    return Applied(without(plan, stand_ins, stand_ins), tuple(notes))


def _copied(step: Step, library: Library) -> str | None:
    """The one step whose text a CONCAT repeats, or None."""
    if (step.action, len(step.args)) != ("CONCAT", 1) or pure_builtin(step, library) != "concat":
        return None
    arg = step.args[0]
    if not isinstance(arg, Ref) or arg.mode is not Mode.PLAIN or arg.name == DOCUMENT:
        return None
    return arg.name


AT_END = Pass("fold-concat", Safety.SAFE, _at_end, getdoc(_at_end) or "")
INSIDE = Pass("fold-concat-inside", Safety.UNSAFE, _inside, getdoc(_inside) or "")
