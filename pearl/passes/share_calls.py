"""Identical calls of a plan, made once: where that is safe, and wherever a model is asked."""

from collections import Counter
from collections.abc import Callable
from inspect import getdoc

from pearl.lang.ast import Action, Plan, Prompt, Step, renamed
from pearl.lang.diagnostics import Safety
from pearl.lang.library import Library
from pearl.lang.printer import print_arg
from pearl.passes.base import Applied, Pass, asks_model, users, without


def _share_calls(plan: Plan, library: Library) -> Applied:
    """Makes two steps that make the same call into one.

    Why
        A call that is made once need not be made again. The same action on the
        same arguments is the same call; the note has to be the same too, as it
        stands in the prompt of the call and of who chooses an option.

    Before
        1. people = FIND_ALL(CTX, "people") : List the people
        2. once = UNIQUE(people) : Each of them once
        3. many = COUNT(once) : Count them
        4. again = UNIQUE(people) : Each of them once
        5. ans = CONCAT(many, again) : How many, and who

    After
        1. people = FIND_ALL(CTX, "people") : List the people
        2. once = UNIQUE(people) : Each of them once
        3. many = COUNT(once) : Count them
        4. ans = CONCAT(many, once) : How many, and who

    Safety
        Safe, as far as libraries tell the truth. The action must have the trait
        `pure` or `cacheable`, by which its author says that one output may stand
        for another. A step whose name a prompt may show is left alone. There are
        three cases. A model is given the step's output: a long one stands in the
        prompt by name. A model is given the output of a step that uses it: the
        prompt shows that step's call. A step without a note uses it: who chooses
        an option is shown that step's call in place of the note. Without the trait
        a model may answer the same call in two ways, and the plan may be meant to
        ask twice: that is `share-samples`, which is not safe.
    """

    def asks(name: str) -> bool:
        return any(asks_model(user, library) for user in users(plan, name))

    def may(step: Step, action: Action) -> bool:
        using = users(plan, step.name)
        shown = asks(step.name) or any(not user.note or asks(user.name) for user in using)
        return not shown and not action.traits.isdisjoint(("pure", "cacheable"))

    return _share(plan, library, may)


def _share_samples(plan: Plan, library: Library) -> Applied:
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

    def may(_: Step, action: Action) -> bool:
        return isinstance(action.body, Prompt) or "pure" in action.traits

    return _share(plan, library, may)


def _share(plan: Plan, library: Library, may: Callable[[Step, Action], bool]) -> Applied:
    """Make identical calls of a sound plan into one, where a step ``may`` go, an earlier one being
    the same call. The plan's own actions are in the library."""
    first: dict[tuple[str, ...], str] = {}
    stand_ins: dict[str, str] = {}
    actions = [library.get(step.action) for step in plan.steps]
    called = [
        (action.name if action else step.action, step.note)
        for step, action in zip(plan.steps, actions, strict=True)
    ]
    alike = Counter(called)
    for step, action, call in zip(plan.steps, actions, called, strict=True):
        if alike[call] == 1:
            continue
        # As they are written, 1, 1.0 and true are three things.
        key = (*call, *map(print_arg, renamed(step, stand_ins).args))
        if key in first and action is not None and may(step, action):
            stand_ins[step.name] = first[key]
        first.setdefault(key, step.name)
    same = stand_ins.items()
    notes = (f"Took out {name}, which is the same call as {twin}." for name, twin in same)
    return Applied(without(plan, stand_ins, stand_ins), tuple(notes))


CALLS = Pass("share-calls", Safety.SAFE, _share_calls, getdoc(_share_calls) or "")
SAMPLES = Pass("share-samples", Safety.UNSAFE, _share_samples, getdoc(_share_samples) or "")
