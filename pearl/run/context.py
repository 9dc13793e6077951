"""What is done about a document that is longer than the model's window.

How much of the window a step's prompt takes.

Plans and prompts made to fit the window, or the reason why they cannot be.

Prompts that demand a form, made to fit the window, or the reason why they cannot be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any, TypeAlias, get_args
from typing import Literal as OneOf

from pearl.lang.ast import DOCUMENT, Action, Arg, Literal, Plan, Ref, Step, Template, refs
from pearl.lang.library import Library
from pearl.lang.printer import print_call
from pearl.lang.source import InputError, Source
from pearl.lang.values import Value, as_text
from pearl.models.tokens import count_tokens
from pearl.passes.split_context import FINDINGS, reading_place, split_context
from pearl.prompts.calls import ExecuteStep, FillSchema
from pearl.prompts.render import render
from pearl.retrieval.retriever import DocumentRetriever
from pearl.run.parts import choose, enough_parts, query_of

Policy: TypeAlias = OneOf["auto", "full", "chunk", "retrieve"]
POLICIES: tuple[Policy, ...] = get_args(Policy)

REPLY = 1024
"""Tokens kept free for a reply where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Context:
    """How much a prompt may hold, and what to do with a document that is longer.

    Args:
        policy: ``full`` fails; ``chunk`` runs steps on each part of the
            document and merges what they find; ``retrieve`` gives a step the
            passages that bear on it; ``auto`` gives the whole document to the
            steps it fits and does as ``chunk`` does with the others.
        window: tokens that a prompt and its reply may have together; None is
            unknown, and then nothing is checked or rewritten.
        reply: tokens of the window kept free for the reply.
        count: tokens of a text, at most one for each byte of its UTF-8 form.
            What it says of documents is remembered, for this very function.

    Raises:
        InputError: an unknown policy, or a window that a reply would fill.
    """

    policy: Policy = "auto"
    window: int | None = None
    reply: int = REPLY
    count: Callable[[str], int] = count_tokens

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise InputError(f"There is no context policy {self.policy}: use {_or(POLICIES)}.")
        if self.window is not None and self.window <= self.reply:
            raise InputError(
                f"A window of {self.window:,} tokens leaves nothing beside the {self.reply:,} kept "
                "free for a reply: give a larger window, or a smaller limit for replies."
            )


UNLIMITED = Context()
"""Nothing is known of a window, so nothing is checked."""


class ContextError(Exception):
    """A prompt that does not fit the window.

    Args:
        message: one line that names the sizes and says what to do.
        step: the step whose prompt it is.
    """

    def __init__(self, message: str, step: str = "") -> None:
        super().__init__(message)
        self.step = step


def _or(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


_GIVEN, _SHARE = 500, 16
"""Tokens allowed for an argument that is not known before an earlier step has run: so
many, or one in so many of a large window's."""

FINDING = 400
"""Tokens allowed for what one part gave, when it is merged with the others."""

_MARGIN = 32
"""Tokens that an endpoint puts around messages, and that texts may take more when joined."""

_TEMPLATE = 3000
"""More bytes than a step's prompt has beside what is measured here."""

_NOTHING = Source("", "")


@lru_cache(maxsize=64)
def size_of(document: Source, count: Callable[[str], int]) -> int:
    """Tokens of a document, which is counted once."""
    return count(document.text)


def rest_of(call: ExecuteStep | FillSchema, context: Context) -> int:
    """Tokens of a prompt beside the document."""
    bare = call if call.document is None else replace(call, document=_NOTHING)
    return _MARGIN + sum(context.count(message["content"]) for message in render(bare))


def fits(call: ExecuteStep, total: int, context: Context) -> bool:
    """Whether a step's prompt and its reply fit the window.

    Args:
        call: the step.
        total: tokens of its document, and of what else is not in the call yet.
        context: the window; a known one.
    """
    room = (context.window or 0) - context.reply - total
    return _at_most(call) <= room or rest_of(call, context) <= room


def _at_most(call: ExecuteStep) -> int:
    """An upper bound of `rest_of` that costs next to nothing: a token has at least one byte."""
    texts = [call.action.signature, call.action.doc, call.step.note, print_call(call.step)]
    for name, value in call.arguments:
        texts += [name, name, as_text(value)]
    return _TEMPLATE + sum(len(text.encode("utf-8", "replace")) + 16 for text in texts)


@dataclass(frozen=True, slots=True)
class Draft:
    """A step's call as far as it shows before earlier steps have run.

    Args:
        call: the call, without its document and without their outputs.
        given: tokens allowed for those outputs.
    """

    call: ExecuteStep
    given: int


def draft_of(
    step: Step, action: Action, place: int, context: Context, omitted: float = 0.0
) -> Draft:
    """What is known of a step's call before the plan runs.

    Args:
        step: the step, as a plan has it.
        action: what it calls.
        place: which argument is the document, or the findings that it merges.
        context: the window; a known one.
        omitted: above 0 for a step that reads a part.
    """
    arguments: list[tuple[str, Value]] = []
    unknown = 0
    for at, arg in enumerate(step.args):
        if at != place:
            name = action.params[at].name if at < len(action.params) else f"S{at}"
            arguments.append((name, "".join(_written(arg))))
            unknown += sum(ref.name != DOCUMENT for ref in refs(arg))
    document = _NOTHING if action.params[place].name == DOCUMENT else None
    call = ExecuteStep(document, action, step, tuple(arguments), omitted)
    return Draft(call, unknown * max(_GIVEN, (context.window or 0) // _SHARE))


def _written(arg: Arg) -> Iterator[str]:
    """What is known of an argument before the plan runs."""
    match arg:
        case Literal():
            yield as_text(arg.value)
        case Template():
            yield from (part for part in arg.parts if isinstance(part, str))
        case Ref():
            return
        case _:
            for item in arg.items:
                yield from _written(item)
                yield "\n"


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


def fit_fill(call: FillSchema, context: Context) -> tuple[FillSchema, dict[str, Any] | None]:
    """Make sure that a prompt that demands a form fits the window.

    Under every policy but ``full`` a document that is too long is cut to the paragraphs that bear
    on what is given, in its order, each with its headings: parts could not be merged, as the reply
    has to have its form.

    Args:
        call: what is asked, with the document that it reads.
        context: the window, and the policy.

    Returns:
        The call, and, where it was given paragraphs in place of the document, what was left out,
        as JSON data for a journal.

    Raises:
        ContextError: it does not fit.
    """
    if context.window is None:
        return call, None
    rest = rest_of(call, context)
    room = context.window - context.reply - rest
    document = call.document
    total = size_of(document, context.count) if document else None
    if (total or 0) <= room:
        return call, None
    kept = _paragraphs(call, document, room, context) if document else None
    if document is None or context.policy == "full" or kept is None:
        # What else would help is only said where it does: parts and passages are one here.
        policy: Policy = "full" if document and context.policy == "full" else "retrieve"
        raise ContextError(too_long(total, rest, replace(context, policy=policy)))
    decision = {
        "passages": kept.paragraphs, "of": kept.of,
        "characters": kept.characters,
        "omitted": max(round(1 - kept.characters / len(document.text), 4), 0.0001),
    }  # fmt: skip
    passages = Source(f"{document.name} (passages)", kept.text)
    return replace(call, document=passages), decision


@dataclass(frozen=True, slots=True)
class _Kept:
    text: str
    paragraphs: int
    of: int
    characters: int


def _paragraphs(call: FillSchema, document: Source, room: int, context: Context) -> _Kept | None:
    """The paragraphs that bear most on what is given; the first ones where none does."""
    retriever = DocumentRetriever(document)
    paragraphs = {one.id: one for one in retriever.paragraphs}
    words = "\n".join(as_text(value) for _, value in call.given)
    best = [one.id for one in retriever.search(words, len(paragraphs))]
    texts: dict[str, str] = {}
    for id in best or list(paragraphs):
        one = paragraphs[id]
        heading = f"# {one.title}\n\n" if one.title else ""
        text = f"{heading}{document.at(one.span)}\n\n"
        size = context.count(text)
        if size <= room:
            texts[id] = text
            room -= size
    if not texts:
        return None
    text = "".join(texts[id] for id in paragraphs if id in texts)
    spans = [paragraphs[id].span for id in texts]
    return _Kept(text, len(texts), len(paragraphs), sum(one.end - one.start for one in spans))
