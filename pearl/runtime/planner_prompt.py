"""Makes prompts for plans and steps fit the planner's window; `ask_planner` asks for one.

A prompt that does not fit shows fewer demonstrations, less of earlier outputs, and only the
likeliest actions (docs/context.md); `narrowed` shows few actions from the start. To save time, a
planner's prompts may be kept shorter than its model's window (`Context.whole`), as far as nothing
has to be left out that it needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar

from pearl.lang.library import Library, builtins
from pearl.lang.parser import parse_known
from pearl.lang.text import counted
from pearl.models.base import Reply
from pearl.prompts.calls import Call, ContinuePlan, CorrectPlan, NextStep, RefinePlan, WritePlan
from pearl.prompts.render import render
from pearl.retrieval.terms import weigh, words
from pearl.runtime.calls import Caller, ask_fitted
from pearl.runtime.context import Context, ContextError
from pearl.runtime.fit_to_window import too_long

FUSION = 60
"""The constant of reciprocal rank fusion, by which two rankings are combined (Cormack, Clarke and
Büttcher, "Reciprocal Rank Fusion", SIGIR 2009)."""

Planning: TypeAlias = WritePlan | NextStep | CorrectPlan | ContinuePlan | RefinePlan
"""The calls to a planner: for a plan or a step, or to correct or continue a reply."""

_BRIEF = 40
"""The fewest characters to which an output is cut."""

_Write = TypeVar("_Write", bound=WritePlan | NextStep)


async def ask_planner(
    caller: Caller, call: Planning, path: str, asked: list[Call]
) -> tuple[Planning, Reply]:
    """Ask for a plan or a step within the planner's window, and with a shorter prompt if the
    endpoint refuses it. Where something is left out, the journal says what is shown.

    Args:
        caller: makes the call, and knows the window.
        call: what is asked.
        path: where in the run.
        asked: the calls before it, to which it is added. If one of them was the same, as after a
            repeated mistake, another sample is asked for.

    Returns:
        The call as it was made, and its reply.

    Raises:
        ContextError: the prompt does not fit; nothing was sent.
        ModelError: the model gave no usable answer.
    """

    noted = "next/fitted" if isinstance(_write(call), NextStep) else "plan/fitted"
    fit = partial(fit_planning, call, caller.planning)
    fitted, reply = await ask_fitted(caller, path, fit, noted, asked.count)
    asked.append(fitted)
    return fitted, reply


def fit_planning(call: Planning, context: Context) -> tuple[Planning, str]:
    """Make a call to a planner fit its window.

    In place of a correction that cannot be made to fit, the first call is made again.

    Args:
        call: what is asked.
        context: the planner's window.

    Returns:
        The call, and, where something is left out, a sentence that says what is shown.

    Raises:
        ContextError: the shortest prompt does not fit.
    """
    window, fitted = context.whole or context, call
    while not context.holds(render(fitted)):
        # What a planner needs is left out only if the model's own window does not hold the prompt.
        must = context is window or not window.holds(render(fitted))
        write = _write(fitted)
        shown, actions = write.demonstrations, _actions(write)
        if len(shown) > 1:
            fitted = _with(fitted, demonstrations=shown[:-1])
        elif must and window.policy != "full" and (cut := _with_brief_outputs(fitted)):
            fitted = cut
        elif actions > 1:
            fitted = _with(fitted, listed=narrowed(write, actions * 3 // 4).listed)
        elif not must:
            break
        elif shown:
            fitted = _with(fitted, demonstrations=())
        elif isinstance(fitted, CorrectPlan | ContinuePlan):
            return fit_planning(_write(call), context)
        else:
            raise ContextError(too_long(None, window.size(render(fitted)), window, fitted))
    return fitted, "" if fitted == call else _summary(call, fitted)


def _write(call: Planning) -> WritePlan | NextStep:
    """The plan or the step that a call is about."""
    return call if isinstance(call, WritePlan | NextStep) else call.write


def _with(call: Planning, **changes: Any) -> Planning:  # noqa: ANN401 - as `replace` takes them
    """The call, with fields of the plan or step that it is about replaced."""
    write: Any = replace(_write(call), **changes)
    return write if isinstance(call, WritePlan | NextStep) else replace(call, write=write)


def _actions(write: WritePlan | NextStep) -> int:
    """How many actions are shown, without the builtins."""
    return len({*(write.listed or write.library.actions)} - {*builtins()})


def _outputs(call: Planning) -> tuple[tuple[str, str], ...]:
    """The outputs of earlier steps in a prompt, each with its step."""
    if isinstance(call, NextStep):
        return call.steps
    return call.outputs if isinstance(call, RefinePlan) else ()


def _with_brief_outputs(call: Planning) -> Planning | None:
    """The call with each output cut to half the length of the longest; None where that is `_BRIEF`
    already."""
    outputs = _outputs(call)
    longest = max((len(text) for _, text in outputs), default=0)
    if longest <= _BRIEF:
        return None
    half = longest // 2
    cut = ((name, f"{text[:half]} …" if len(text) > half else text) for name, text in outputs)
    field: dict[str, Any] = {"steps" if isinstance(call, NextStep) else "outputs": tuple(cut)}
    return replace(call, **field)


def _summary(call: Planning, fitted: Planning) -> str:
    """A sentence that says what a call still shows after it was made to fit."""
    write, of = _write(fitted), len(_write(call).demonstrations)
    shown = f"{_actions(write)} actions and {len(write.demonstrations)} of {of} demonstrations"
    if cut := sum(was != now for was, now in zip(_outputs(call), _outputs(fitted), strict=True)):
        shown += f", and the beginning of {counted(cut, 'output')}"
    return f"The planner's window shows it {shown}."


def narrowed(write: _Write, most: int) -> _Write:
    """A call for a plan or a step that shows only the actions that are likeliest to be used.

    How often accepted plans used an action is known from its provenance (the questions that
    proposed it) and from the demonstrations.

    Args:
        write: what is asked.
        most: the most actions to show, without the builtins; 0 for all.
    """
    if not most:
        return write
    used: Counter[str] = Counter()
    for shown in write.demonstrations if isinstance(write, WritePlan) else ():
        used.update(step.action for step in parse_known(shown.plan).plan.steps)
    for action in write.library.actions.values():
        used[action.name] += len(action.provenance)
    likely = likely_actions(write.question, write.library, most, used)
    return replace(write, listed=frozenset((*likely, *builtins())))


def likely_actions(
    question: str, library: Library, most: int, used: Mapping[str, float]
) -> tuple[str, ...]:
    """The names of the actions that are likeliest to be used for a question, best first.

    Two rankings are combined: by the words that a name and a definition share with the question
    (BM25), and by how often accepted plans used an action, as far as that is known. Builtins are
    left out.
    """
    names = [action.name for action in library.actions.values() if not action.is_builtin]
    actions = [library.actions[name] for name in names]
    texts = [words(f"{item.name.replace('_', ' ').lower()} {item.doc}") for item in actions]
    similarity = weigh(texts, 1.5, 0.75).scores(dict.fromkeys(words(question), 1.0)).tolist()
    worth = dict.fromkeys(names, 0.0)
    counts = [used.get(name, 0) for name in names]
    for scores in (dict(zip(names, scored, strict=True)) for scored in (similarity, counts)):
        ordered = sorted(scores.values(), reverse=True)
        for name, score in scores.items():
            # Equal scores share a rank, and a score of 0 has none.
            worth[name] += 1 / (FUSION + ordered.index(score)) if score > 0 else 0
    return tuple(sorted(names, key=lambda name: -worth[name])[:most])
