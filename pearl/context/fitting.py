"""Plans and prompts made to fit the window, or the reason why they cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from pearl.context.parts import enough_parts
from pearl.context.passages import choose, query_of
from pearl.context.policy import Context, ContextError
from pearl.context.sizes import FINDING, Draft, draft_of, fits, rest_of, size_of
from pearl.library import Library
from pearl.llm import ExecuteStep
from pearl.passes.split_context import FINDINGS, reading_place, split_context
from pearl.plan import DOCUMENT, Literal, Plan
from pearl.source import Source

_LONGER = "Use a model with a longer window."


@dataclass(frozen=True, slots=True)
class Fitted:
    """A plan, or a call, after it was made to fit.

    Args:
        plan: the plan with the steps that read parts, and merge them.
        decision: what was decided on which sizes, as JSON data for a journal.
    """

    plan: Plan
    decision: dict[str, Any]


def fit_plan(
    plan: Plan, start: int, document: Source, library: Library, context: Context
) -> Fitted | None:
    """Split steps that the whole document does not fit, as the policy says.

    Args:
        plan: a checked plan.
        start: the number of its steps that have run; they stay as they are.
        document: what ``CTX`` is.
        library: the actions, without the plan's own.
        context: the window, and the policy.

    Returns:
        The plan rewritten, or None where it may run as it is.

    Raises:
        ContextError: the policy is ``full`` and a step does not fit, or parts
            would not help.
    """
    if context.window is None or context.policy == "retrieve":
        return None
    total = size_of(document, context.count)
    known = library.with_declared(plan.declares)
    drafts: dict[str, Draft] = {}
    for step in plan.steps[start:]:
        action = known.get(step.action)
        place = reading_place(step, action)
        if action is not None and place is not None:
            drafts[step.name] = draft_of(step, action, place, context)
    long = [name for name, one in drafts.items() if not fits(one.call, total + one.given, context)]
    if not long:
        return None
    if context.policy == "full":
        raise ContextError(_too_long(drafts[long[0]], total, context), long[0])
    # With parts for one step there are parts for all: they open the same prompts.
    wanted = list(drafts) if context.policy == "chunk" else long
    number, groups = _numbers(plan, start, wanted, document, library, context)
    split = split_context(wanted, number, groups).apply(plan, library)
    decision = {
        "policy": context.policy, "document": total, "window": context.window,
        "reply": context.reply, "parts": number, "steps": wanted,
    }  # fmt: skip
    return Fitted(split.plan, decision)


def _numbers(
    plan: Plan,
    start: int,
    wanted: Sequence[str],
    document: Source,
    library: Library,
    context: Context,
) -> tuple[int, list[int]]:
    """How many parts the document needs, and in how many groups findings are merged."""
    draft = split_context(wanted, 2, (2,)).apply(plan, library).plan
    known = library.with_declared(draft.declares)
    reading, merging = 0, 0
    for step in draft.steps[start:]:
        action = known.get(step.action)
        if action is None or action.is_builtin:
            continue
        for place, param in enumerate(action.params):
            if param.name == DOCUMENT and place < len(step.args):
                reading = max(reading, _rest(draft_of(step, action, place, context, 0.5), context))
            elif param.name == FINDINGS:
                merging = max(merging, _rest(draft_of(step, action, place, context), context))
    window = context.window or 0
    number = enough_parts(document.text, window - context.reply - reading, context.count)
    holds = (window - context.reply - merging) // FINDING
    if number is None or (merging and holds < 2):
        raise ContextError(_too_small(reading, context), wanted[0])
    number = max(2, number)
    cut = [
        step.args[1].value
        for step in plan.steps[:start]
        if step.action == "PARTS" and isinstance(step.args[1], Literal)
    ]
    enough = [had for had in cut if isinstance(had, int) and had >= number]
    number = min(enough, default=number)
    return number, _groups(number, holds) if merging else []


def _groups(number: int, holds: int) -> list[int]:
    groups: list[int] = []
    while number > holds:
        number = ceil(number / holds)
        groups.append(number)
    return groups


def fit_call(call: ExecuteStep, context: Context) -> tuple[ExecuteStep, dict[str, Any] | None]:
    """Make sure that a step's prompt fits, once its arguments are known.

    Args:
        call: the step, with the document, or the part of it, that it reads.
        context: the window, and the policy.

    Returns:
        The call, and, where it was given passages in place of the document,
        what was left out, as JSON data for a journal.

    Raises:
        ContextError: it does not fit.
    """
    if context.window is None:
        return call, None
    total = size_of(call.document, context.count) if call.document else 0
    if fits(call, total, context):
        return call, None
    if call.document is not None and context.policy == "retrieve":
        return _retrieved(call, call.document, total, context)
    raise ContextError(_too_long(Draft(call, 0), total, context))


def _retrieved(
    call: ExecuteStep, document: Source, total: int, context: Context
) -> tuple[ExecuteStep, dict[str, Any]]:
    text = document.text
    rest = rest_of(replace(call, omitted=0.5), context)
    room = (context.window or 0) - context.reply - rest
    chosen = choose(text, query_of(call), room, context.count)
    if chosen is None:
        raise ContextError(_too_long(Draft(call, 0), total, context))
    kept = (1 - call.omitted) * chosen.characters / len(text)
    omitted = max(round(1 - kept, 4), 0.0001)
    decision = {
        "passages": chosen.passages, "of": chosen.of, "found": chosen.found,
        "characters": chosen.characters, "omitted": omitted,
    }  # fmt: skip
    passages = Source(f"{document.name} (passages)", chosen.text)
    return replace(call, document=passages, omitted=omitted), decision


def _rest(draft: Draft, context: Context) -> int:
    return rest_of(draft.call, context) + draft.given


def _too_long(draft: Draft, total: int, context: Context) -> str:
    return too_long(total if draft.call.document else None, _rest(draft, context), context)


def too_long(total: int | None, rest: int, context: Context) -> str:
    """Why a prompt does not fit, and what to do.

    Args:
        total: tokens of the document that it reads; None where it reads none.
        rest: tokens of the prompt beside it.
        context: the window; a known one.
    """
    ways = {"full": "--context chunk, --context retrieve", "retrieve": ""}
    way = ways.get(context.policy, "--context retrieve")
    use = f"Use {way} or a model with a longer window." if way else _LONGER
    window, reply = context.window or 0, context.reply
    if total is None:
        return (
            f"Its prompt has {rest:,} tokens, and {window - reply:,} fit: the window has "
            f"{window:,}, of which {reply:,} are kept free for the reply. {use}"
        )
    room = max(window - reply - rest, 0)
    return (
        f"It is to read {total:,} tokens of the document, and {room:,} fit: the window has "
        f"{window:,}, of which the step itself takes {rest:,} and {reply:,} are kept free for the "
        f"reply. {use}"
    )


def _too_small(rest: int, context: Context) -> str:
    return (
        f"The window of {context.window:,} tokens is too small to read the document in parts: a "
        f"step itself takes {rest:,}, and {context.reply:,} are kept free for the reply. Use "
        "--context retrieve or a model with a longer window."
    )
