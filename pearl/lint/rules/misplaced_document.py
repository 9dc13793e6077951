"""The document at the place of something else.

What it does
    Reports a call of an action that takes the document in which ``CTX`` is given
    for another parameter, instead or as well, and ``CTX`` in a list.

Why
    Arguments are given by place: the action would look for the document
    inside a word, or inside what a step found out. A list holds texts and
    outputs: with the document in it no step can run.

Example
    1. ross = FIND_CHARACTER("Ross", CTX) : Identify Ross

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    Unsafe: puts the document in its place, where it does not stand there; the others
    keep their order.
"""

from pearl.lang.ast import Items
from pearl.lint.rules.base import DOCUMENT, ERROR, Edit, Findings, Fix, PlanView, Ref, Rule, Safety


def check(view: PlanView) -> Findings:
    if any(step.name == DOCUMENT for step in view.plan.steps):
        return  # What its uses mean is not known.
    uses = view.uses.get(DOCUMENT, ())
    # By identity, found once: a step may be given the document thousands of times.
    places: dict[tuple[int, int], int] = {}
    listed: set[tuple[int, int]] = set()
    mended: set[int] = set()
    for index in dict(uses):
        for at, arg in enumerate(view.plan.steps[index].args):
            places.setdefault((index, id(arg)), at)
            if isinstance(arg, Items):
                listed.update((index, id(item)) for item in arg.items)
    for index, ref in uses:
        step, action = view.plan.steps[index], view.actions[index]
        given = places.get((index, id(ref)))
        if given is None:
            if (index, id(ref)) in listed:
                help = f"Give {DOCUMENT} as an argument of its own."
                yield RULE(ref.span, "The document cannot stand in a list.", help=help)
            continue
        if not action or ref.mode:
            continue
        names = [param.name for param in action.params]
        name = names[min(given, len(names) - 1)] if names else DOCUMENT
        if name == DOCUMENT or DOCUMENT not in names[: len(step.args)]:
            continue
        own = step.args[names.index(DOCUMENT)]
        message, fix = f"{DOCUMENT} does not stand where {step.action} takes the document.", None
        if own == Ref(DOCUMENT):
            message = f"{step.action} is given {DOCUMENT} for {name} as well."
        elif index not in mended:
            # One fix a step, as another would put the document there a second time.
            mended.add(index)
            place = names.index(DOCUMENT)
            moved = [arg for arg in step.args if arg is not ref]
            moved.insert(place, ref)
            fix = Fix(
                f"put {DOCUMENT} in its place",
                tuple(
                    Edit(before.span, view.source.at(after.span))
                    for before, after in zip(step.args, moved, strict=True)
                    if before is not after
                ),
                Safety.UNSAFE,
            )
        yield RULE(
            ref.span,
            message,
            help=f"Write {action.signature}.",
            data={"action": step.action, "signature": action.signature},
            fix=fix,
        )


RULE = Rule("PRL212", "misplaced-document", ERROR, __doc__, plan=check)
