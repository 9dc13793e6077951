"""Computes, before a plan runs, the steps that need only its own texts, numbers and lists.

Why
    A builtin whose arguments all stand in the plan gives the same value every
    time. The value replaces the step where other steps use it, and a text with
    braces becomes a plain text once all of them are filled.

Before
    1. suspects = UNIQUE(["Ro", "Mara", "Ro"]) : The suspects
    2. many = COUNT(suspects) : How many they are
    3. who = FIND_CHARACTER(CTX, "the one of the {many} who lies") : Find the liar

After
    1. who = FIND_CHARACTER(CTX, "the one of the 2 who lies") : Find the liar

Safety
    Unsafe: values stay the same, but prompts show a value in place where they
    named the step of a long one, and calls with the value in place of the
    name, so that a model may answer in other words. A value stays
    a step where it is part of the answer, under ``each`` and ``where``, in the
    document's place, and as a text in CONCAT, which would put it in quotes.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from pearl.lang.ast import DOCUMENT, Arg, Literal, Plan, Ref, Step, map_refs, step_refs
from pearl.lang.builtins import FUNCTIONS, BuiltinError, Given
from pearl.lang.diagnostics import Safety
from pearl.lang.graph import outputs
from pearl.lang.library import Library
from pearl.lang.printer import print_value
from pearl.lang.text import shorten
from pearl.lang.values import Value
from pearl.passes.base import Applied, Pass, pure_builtin, users, without


def _rewrite(plan: Plan, library: Library) -> Applied:
    values = _constants(plan, library)
    filled = {step.name: _filled(step, values, library) for step in plan.steps}
    gone = _idle(plan, filled, values)
    notes: list[str] = []
    for name, value in values.items():
        using = [step for step in users(plan, name) if step.name not in gone]
        put = [step.name for step in using if _uses(filled[step.name], name) < _uses(step, name)]
        end = f", and took out {name}" if name in gone else ""
        if put:
            text = shorten(print_value(value))
            notes.append(f"Put {text} in place of {name} in {', '.join(put)}{end}.")
        elif end:
            notes.append(f"Took out {name}, which only went into other values.")
    if not notes:
        return Applied(plan)
    shorter = without(plan, gone, {})
    # Comments may have moved to another step.
    steps = tuple(replace(step, args=filled[step.name].args) for step in shorter.steps)
    return Applied(replace(shorter, steps=steps), tuple(notes))


def _constants(plan: Plan, library: Library) -> dict[str, Value]:
    """The values of the steps that need neither a model nor the document."""
    values: dict[str, Value] = {}
    for step in plan.steps:
        action = library.get(step.action)
        function = FUNCTIONS.get(pure_builtin(step, library) or "")
        if action is None or function is None or len(step.args) < len(action.params):
            continue
        args = [(arg, _fill(arg, values)) for arg in step.args]
        inputs = [Given(arg, const.value) for arg, const in args if isinstance(const, Literal)]
        if len(inputs) == len(args):
            # A step that fails here stays in the plan, and fails when it runs.
            with suppress(BuiltinError):
                values[step.name] = function(inputs)
    return values


def _filled(step: Step, values: Mapping[str, Value], library: Library) -> Step:
    """The step with values in place of names, wherever a value may stand."""
    action = library.get(step.action)
    if action is None:
        return step
    quotes = pure_builtin(step, library) == "concat"
    params = [param.name for param in action.params]
    args: list[Arg] = []
    for place, arg in enumerate(step.args):
        filled = _fill(arg, values)
        quoted = quotes and isinstance(filled, Literal) and isinstance(filled.value, str)
        document = params[place : place + 1] == [DOCUMENT]
        args.append(arg if quoted or document else filled)
    return replace(step, args=tuple(args))


def _fill(arg: Arg, values: Mapping[str, Value]) -> Arg:
    def value_of(ref: Ref) -> Arg:
        return Literal(values[ref.name]) if not ref.mode and ref.name in values else ref

    return map_refs(arg, value_of)


def _idle(plan: Plan, filled: Mapping[str, Step], values: Mapping[str, Value]) -> set[str]:
    """The steps that no step or answer needs once their values are filled in."""
    needed = set(outputs(plan))
    gone: set[str] = set()
    for step in reversed(plan.steps):
        if step.name in values and step.name not in needed and users(plan, step.name):
            gone.add(step.name)
        else:
            needed.update(ref.name for ref in step_refs(filled[step.name]))
    return gone


def _uses(step: Step, name: str) -> int:
    return sum(ref.name == name for ref in step_refs(step))


PASS: Pass = Pass("hoist-literals", Safety.UNSAFE, _rewrite, __doc__)
