"""What a planner is asked, made to fit its window: `ask_planner` asks for a plan or a step.

Where the prompt does not fit it shows fewer examples, less of earlier outputs and the likeliest
actions only (docs/context.md); `narrowed` shows so few from the start. A planner may be kept to
less than its model's window (`Context.whole`): what is shown for that is no more than saves time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from pearl.lang.library import Library, builtins
from pearl.lang.parser import parse_known
from pearl.lang.text import counted
from pearl.models.base import Reply
from pearl.prompts.calls import Call, ContinuePlan, CorrectPlan, NextStep, RefinePlan, WritePlan
from pearl.prompts.render import render
from pearl.runtime.calls import Caller, ask_fitted
from pearl.runtime.context import Context, ContextError
from pearl.runtime.fitting import too_long

FUSION = 60
"""What a first place is worth beside later ones where two rankings become one (Cormack, Clarke and
Büttcher, "Reciprocal Rank Fusion", SIGIR 2009)."""

Planning: TypeAlias = WritePlan | NextStep | CorrectPlan | ContinuePlan | RefinePlan
"""What a planner is asked: for a plan or a step, or to go on from its reply."""

_BRIEF = 40
"""Characters of an output down to which no more of it is cut."""

_Write = TypeVar("_Write", bound=WritePlan | NextStep)


async def ask_planner(
    caller: Caller, call: Planning, path: str, asked: list[Call]
) -> tuple[Planning, Reply]:
    """Ask for a plan or a step within the planner's window, and again where the endpoint says that
    less fits it; the journal says what is shown where something is left out.

    Args:
        caller: asks the model, and knows the window.
        call: what is asked.
        path: where in the run.
        asked: the calls before it, which it is added to. A model that repeats its mistake is asked
            the same again: that is to be a new answer.

    Returns:
        The call as it was asked, and its reply.

    Raises:
        ContextError: the prompt does not fit; nothing was sent.
        ModelError: the model gave no usable answer.
    """

    def tell(fitted: Planning, told: str) -> None:
        kind = "next" if isinstance(_write(fitted), NextStep) else "plan"
        caller.journal.decide(f"{kind}/fitted", told)

    def fit() -> tuple[Planning, str]:
        return fit_planning(call, caller.planning)

    fitted, reply = await ask_fitted(caller, path, fit, tell, asked.count)
    asked.append(fitted)
    return fitted, reply


def fit_planning(call: Planning, context: Context) -> tuple[Planning, str]:
    """Make sure that what a planner is asked fits its window.

    A correction that does not fit even so is asked for anew, without what is wrong.

    Args:
        call: what is asked.
        context: the planner's window.

    Returns:
        The call, and, where something is left out, what is shown, in a sentence.

    Raises:
        ContextError: it does not fit even so.
    """
    window, fitted = context.whole or context, call
    while not context.holds(render(fitted)):
        # What a planner would miss goes only where the window itself does not hold the prompt.
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
    return fitted, "" if fitted == call else _told(call, fitted)


def _write(call: Planning) -> WritePlan | NextStep:
    """The plan or the step that a call is about."""
    return call if isinstance(call, WritePlan | NextStep) else call.write


def _with(call: Planning, **changes: Any) -> Planning:  # noqa: ANN401 - as `replace` takes them
    """A call that is about a plan or a step with other fields."""
    write: Any = replace(_write(call), **changes)
    return write if isinstance(call, WritePlan | NextStep) else replace(call, write=write)


def _actions(write: WritePlan | NextStep) -> int:
    """How many actions are shown beside the builtins."""
    return len({*(write.listed or write.library.actions)} - {*builtins()})


def _outputs(call: Planning) -> tuple[tuple[str, str], ...]:
    """What the earlier steps gave that a prompt shows, each with its name."""
    if isinstance(call, NextStep):
        return call.steps
    return call.outputs if isinstance(call, RefinePlan) else ()


def _with_brief_outputs(call: Planning) -> Planning | None:
    """The call with at most half as much of each output as it shows of the longest; None where
    that is brief already."""
    outputs = _outputs(call)
    longest = max((len(text) for _, text in outputs), default=0)
    if longest <= _BRIEF:
        return None
    half = longest // 2
    cut = ((name, f"{text[:half]} …" if len(text) > half else text) for name, text in outputs)
    field: dict[str, Any] = {"steps" if isinstance(call, NextStep) else "outputs": tuple(cut)}
    return replace(call, **field)


def _told(call: Planning, fitted: Planning) -> str:
    """What a call that was made to fit still shows of another."""
    write, of = _write(fitted), len(_write(call).demonstrations)
    told = f"{_actions(write)} actions and {len(write.demonstrations)} of {of} demonstrations"
    if cut := sum(was != now for was, now in zip(_outputs(call), _outputs(fitted), strict=True)):
        told += f", and the beginning of {counted(cut, 'output')}"
    return f"The planner's window shows it {told}."


def narrowed(write: _Write, most: int) -> _Write:
    """A call for a plan or a step that shows the actions which are likeliest to serve its question.

    How often a plan that was accepted used an action is known from the action's provenance (the
    questions that proposed it) and from the demonstrations.

    Args:
        write: what is asked.
        most: actions that are shown beside the builtins, at most; 0 for all.
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
    """The actions that are likeliest to serve a question, best first.

    Two rankings are made one: by the words that a name and a definition share with the question
    (BM25), and by how often accepted plans used an action, as far as that is known. Builtins are
    passed over.
    """
    from pearl.retrieval.terms import weigh, words

    names = [action.name for action in library.actions.values() if not action.is_builtin]
    actions = [library.actions[name] for name in names]
    texts = [words(f"{item.name.replace('_', ' ').lower()} {item.doc}") for item in actions]
    similarity = weigh(texts, 1.5, 0.75).scores(dict.fromkeys(words(question), 1.0)).tolist()
    worth = dict.fromkeys(names, 0.0)
    counts = [used.get(name, 0) for name in names]
    for scores in (dict(zip(names, scored, strict=True)) for scored in (similarity, counts)):
        ordered = sorted(scores.values(), reverse=True)
        for name, score in scores.items():
            # Equal scores are one place, and none at all is no place.
            worth[name] += 1 / (FUSION + ordered.index(score)) if score > 0 else 0
    return tuple(sorted(names, key=lambda name: -worth[name])[:most])
