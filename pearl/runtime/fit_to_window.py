"""Makes a prompt fit the model's window, once its arguments are known: `fit_call`, `fit_fill` and
`fit_choice`.

Passages take the place of what does not fit, as far as the policy allows; else an error says why
the prompt does not fit (docs/context.md). `pearl.runtime.chunking` plans ahead for long documents,
and `pearl.runtime.planner_prompt` does this for planners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from pearl.lang.source import Source, cached_by_digest
from pearl.lang.values import Pairs, Value, as_text
from pearl.passes.split_context import FINDINGS
from pearl.prompts.calls import (
    CorrectFilled,
    ExecuteStep,
    FillSchema,
    MapAnswer,
    NextStep,
    RefinePlan,
    WritePlan,
)
from pearl.prompts.render import render
from pearl.retrieval.retriever import Excerpt, choose_paragraphs, choose_passages, passage_terms
from pearl.runtime.context import Context, ContextError, Policy

Decision: TypeAlias = dict[str, Any]
"""What was left out, and the sizes in tokens, as JSON data for a journal."""

WRAPPED = 16
"""The tokens that a prompt puts around an earlier step's output."""

_TEMPLATE = 3000
"""An upper bound of the bytes of a step's prompt beside its texts."""

_LONG = 12
"""The most words of an argument that is the name of a thing; a longer one is a step's finding."""

NOTHING = Source("", "")

_Call = TypeVar("_Call", bound=ExecuteStep | FillSchema | CorrectFilled)
_Filled = TypeVar("_Filled", bound=FillSchema | CorrectFilled)
_Cut = TypeVar("_Cut", bound=FillSchema | CorrectFilled | MapAnswer)


@cached_by_digest(64)
def size_of(document: Source, count: Callable[[str], int]) -> int:
    """The tokens of a document, which are cached."""
    return count(document.text)


def size_without_document(call: ExecuteStep | FillSchema | CorrectFilled, context: Context) -> int:
    """The tokens of a prompt beside the document."""
    filled = call.fill if isinstance(call, CorrectFilled) else call
    return context.size(render(call if filled.document is None else _with(call, document=NOTHING)))


def _with(call: _Call, **changes: Any) -> _Call:  # noqa: ANN401 - as `replace` takes them
    """A call with some fields replaced; of a correction, those of the call that it corrects."""
    if isinstance(call, CorrectFilled):
        return replace(call, fill=replace(call.fill, **changes))
    return replace(call, **changes)


def most_without_document(call: ExecuteStep) -> int:
    """A cheap upper bound of `size_without_document`: the prompt's bytes."""
    texts = [call.action.signature, call.action.doc, call.step.note]
    for name, value in call.arguments:
        texts += [name, name, as_text(value)]
    for name, value, made_by in call.outputs:
        texts += [name, name, name, made_by, as_text(value)]
    return _TEMPLATE + sum(len(text.encode("utf-8", "replace")) + 16 for text in texts)


def fits_window(call: ExecuteStep, total: int, context: Context) -> bool:
    """Whether a prompt fits, with ``total`` tokens of what is not in the call."""
    room = context.room - total
    return most_without_document(call) <= room or size_without_document(call, context) <= room


def fit_call(call: ExecuteStep, context: Context) -> tuple[ExecuteStep, Decision | None]:
    """Make a step's prompt fit, once its arguments are known.

    Returns:
        The call; and what was left out, if passages took the place of the document, of the part
        that it reads, or of findings that it merges.

    Raises:
        ContextError: it cannot be made to fit.
    """
    if context.limit is None:
        return call, None
    document = call.document
    total = size_of(document, context.count) if document else 0
    if fits_window(call, total, context):
        return call, None
    chosen = None
    if document is not None and context.policy == "retrieve":
        chosen = passages_for(call, context)
    if document is None and context.policy != "full" and (cut := _cut_findings(call, context)):
        return cut
    if document is None or chosen is None:
        size = size_without_document(call, context)
        raise ContextError(too_long(total if document else None, size, context, call))
    passages, decision = _left_out(document, chosen, call.omitted)
    decision["found"] = chosen.bearing
    return replace(call, document=passages, omitted=decision["omitted"]), decision


def passages_for(call: ExecuteStep, context: Context) -> Excerpt | None:
    """The passages that a step is shown of a document that is too long; None where none fits."""
    assert call.document is not None
    room = context.room - size_without_document(replace(call, omitted=0.5), context)
    return choose_passages(call.document.text, _query(call), room, context.count)


def _query(call: ExecuteStep) -> dict[str, float]:
    """The terms that a step looks for, with weights: the arguments' weigh most."""
    query: dict[str, float] = {}
    weighted = [(0.25, call.action.name.replace("_", " ").lower()), (0.6, call.step.note)]
    weighted += ((0.3 if len(text.split()) > _LONG else 1.0, text) for text in call.texts)
    weighted += ((0.3, as_text(value)) for _, value, _ in call.outputs)
    for weight, text in weighted:
        query |= {term: max(weight, query.get(term, 0.0)) for term in passage_terms(text)}
    return query


def _cut_findings(call: ExecuteStep, context: Context) -> tuple[ExecuteStep, Decision] | None:
    """A merge of one or two findings, each cut to the passages that are relevant to the task, since
    no smaller groups would help. None for any other step, or where the room for each is less than
    half of a reply."""
    given = dict(call.arguments).get(FINDINGS)
    # Findings are pairs, a list, or, where there is only one, a text.
    keys = [key for key, _ in given] if isinstance(given, Pairs) else []
    items = [text for _, text in given] if isinstance(given, Pairs) else given
    items = items if isinstance(items, list) else [items or ""]
    texts = [text for text in items if isinstance(text, str)]
    if given is None or not 0 < len(texts) <= 2 or texts != items:
        return None

    def put(texts: Sequence[str]) -> ExecuteStep:
        cut: Value = [*texts] if isinstance(given, list) else texts[0]
        if keys:
            cut = Pairs(tuple(zip(keys, texts, strict=True)))

        def taken(value: Value) -> Value:
            return cut if value == given else value

        return replace(
            call,
            arguments=tuple((name, taken(value)) for name, value in call.arguments),
            outputs=tuple((name, taken(value), origin) for name, value, origin in call.outputs),
            found=tuple(map(taken, call.found)),
        )

    sizes = [*map(context.count, texts)]
    bare = put([""] * len(texts))
    room = context.room - size_without_document(bare, context) - WRAPPED
    # If one finding is short, the other may have the rest.
    share = max(room // len(texts), room - min(sizes))
    if share < context.free // 2:
        return None
    query, kept = _query(bare), [*texts]
    for at, (text, size) in enumerate(zip(texts, sizes, strict=True)):
        if size > share:
            # Passages of an eighth of the share, so that several fit.
            length = max(1, len(text) * share // size // 8)
            chosen = choose_passages(text, query, share, context.count, length)
            if chosen is None:
                return None
            kept[at] = chosen.text
    decision = {"findings": sizes, "cut": [*map(context.count, kept)]}
    return put(kept), decision


def fit_fill(call: _Filled, context: Context) -> tuple[_Filled, Decision | None]:
    """Make a prompt for structured output, or for its correction, fit the window.

    Under every policy but ``full``, a document that is too long is cut to the paragraphs that are
    relevant to the inputs, in its order, each with its headings. It is not read in parts, as the
    objects could not be merged.

    Returns:
        The call, and what was left out, if anything.

    Raises:
        ContextError: it cannot be made to fit.
    """
    if context.limit is None:
        return call, None
    filled = call.fill if isinstance(call, CorrectFilled) else call
    size, document = size_without_document(call, context), filled.document
    total = size_of(document, context.count) if document else None
    if (total or 0) <= context.room - size:
        return call, None
    if document and context.policy != "full":
        words = "\n".join(as_text(value) for _, value in filled.given)
        chosen = choose_paragraphs(document, words, context.room - size, context.count)
        if chosen is not None:
            passages, decision = _left_out(document, chosen)
            return _with(call, document=passages), decision
    if filled.schema.examples:
        fewer = replace(filled.schema, examples=filled.schema.examples[:-1])
        fitted, left_out = fit_fill(_with(call, schema=fewer), context)
        return fitted, {"examples": len(fewer.examples), **(left_out or {})}
    mends = isinstance(call, CorrectFilled)
    if context.policy != "full" and not mends and (shorter := _cut_found(call, context)):
        return shorter
    # Another policy is only advised where it would help; here all but ``full`` do the same.
    policy: Policy = "full" if document and context.policy == "full" else "retrieve"
    raise ContextError(too_long(total, size, replace(context, policy=policy), filled))


def _cut_found(call: _Filled, context: Context) -> tuple[_Filled, Decision] | None:
    """A call whose longest findings are cut to passages that are relevant to its other inputs; None
    where it has no findings, or that is not enough."""
    filled = call.fill if isinstance(call, CorrectFilled) else call
    others = dict(filled.given)
    found = others.pop(filled.schema.found, None)
    texts = [as_text(text) for text in (found if isinstance(found, list) else [found or ""])]

    def put(texts: Sequence[str]) -> _Filled:
        cut: Value = [*texts] if isinstance(found, list) else texts[0]
        return _with(call, given=tuple({**dict(filled.given), filled.schema.found: cut}.items()))

    words = "\n".join(map(as_text, others.values()))
    return _cut_texts(texts, put, words, lambda cut: size_without_document(cut, context), context)


def fit_choice(call: MapAnswer, context: Context) -> tuple[MapAnswer, Decision | None]:
    """Make the prompt that chooses an option fit the window.

    Under every policy but ``full``, outputs are cut to passages that are relevant to the question
    and the options; where they are too many for each to have room, their text as a whole is cut.

    Returns:
        The call; and, if outputs were cut, how many tokens they had before and have now.

    Raises:
        ContextError: it cannot be made to fit.
    """
    if context.holds(render(call)):
        return call, None

    def put_parts(texts: Sequence[str]) -> MapAnswer:
        abouts = (about for about, _ in call.parts)
        return replace(call, parts=tuple(zip(abouts, texts, strict=True)))

    def put_whole(texts: Sequence[str]) -> MapAnswer:
        return replace(call, answer=texts[0], parts=())

    def size(cut: MapAnswer) -> int:
        return context.size(render(cut))

    words = "\n".join((call.question, *call.options))
    parts = [text for _, text in call.parts]
    if context.policy != "full":
        for texts, put in ((parts, put_parts), ([call.answer], put_whole)):
            if cut := _cut_texts(texts, put, words, size, context):
                return cut
    raise ContextError(too_long(None, context.size(render(call)), context, call))


def check_choice(question: str, options: Sequence[str], context: Context) -> None:
    """Check, before anything is paid for, that the prompt that chooses an option has room for the
    answer: at least half a reply.

    Raises:
        ContextError: it has no such room.
    """
    call = MapAnswer(question, "", tuple(options))
    if options and context.limit is not None:
        size = context.size(render(call)) + context.free // 2
        if size > context.room:
            raise ContextError(too_long(None, size, context, call))


def _cut_texts(
    texts: Sequence[str],
    put: Callable[[Sequence[str]], _Cut],
    words: str,
    size: Callable[[_Cut], int],
    context: Context,
) -> tuple[_Cut, Decision] | None:
    """Cut the longest of some texts to passages that are relevant to ``words``, until the prompt of
    the call that ``put`` makes of them fits, whose tokens ``size`` counts. Gives that call, and the
    texts' tokens before and after, with the window's facts; None where that is not enough."""
    query = dict.fromkeys(passage_terms(words), 1.0)
    cut, before = [*texts], [*map(context.count, texts)]
    sizes = before
    while (over := size(call := put(cut)) - context.room) > 0:
        at = max(range(len(cut)), key=sizes.__getitem__, default=0)
        share = max(sizes[at] - over, sizes[at] // 2) if sizes else 0
        if share < WRAPPED:
            return None
        # From the whole text each time, so that the marks say how much of it is left out.
        length = max(1, len(texts[at]) * share // before[at] // 8)
        chosen = choose_passages(texts[at], query, share, context.count, length)
        if chosen is None:
            return None
        cut[at] = chosen.text
        sizes = [*map(context.count, cut)]
    return call, {"tokens": before, "cut": sizes, **context.facts}


def _left_out(document: Source, chosen: Excerpt, omitted: float = 0.0) -> tuple[Source, Decision]:
    """The text in place of a document, of which a share was omitted before, and the decision."""
    share = (1 - omitted) * chosen.characters / len(document.text)
    decision = {
        "passages": chosen.passages,
        "of": chosen.of,
        "characters": chosen.characters,
        "omitted": max(round(1 - share, 4), 0.0001),
    }
    return Source(f"{document.name} (passages)", chosen.text), decision


def too_long(
    total: int | None,
    size: int,
    context: Context,
    call: ExecuteStep | FillSchema | MapAnswer | WritePlan | NextStep | RefinePlan,
) -> str:
    """Why a prompt does not fit, and what to do; ``total`` is the tokens of the document, or None
    where it reads none, and ``size`` is those of the prompt beside it."""
    policies = {"full": "--context chunk, --context retrieve", "retrieve": ""}
    # No policy helps where the step itself fills the window.
    helps = total is not None and size < context.room
    policy = policies.get(context.policy, "--context retrieve") if helps else ""
    use = f"Use {policy} or a" if policy else "Use a"
    window, reply = context.limit or 0, context.free
    reading, prompt = "It is to read", "Its prompt"
    given: tuple[tuple[str, Value], ...]
    match call:
        case ExecuteStep():
            given = call.arguments
        case FillSchema():
            # People know a schema not by its name but by its fields, which stand in replies.
            wanted = ", ".join(field.name.replace("_", " ") for field in call.schema.fields)
            given, prompt = call.given, f"The prompt that asks for {wanted}"
            reading = f"{prompt} is to hold"
        case MapAnswer():
            options = "\n".join(call.options)
            given = (("question", call.question), ("the options", options))
            given += (("what was found", call.answer),)
            beside = "" if call.answer else ", with room for what is found,"
            prompt = f"The prompt that chooses an option{beside}"
        case _:
            write = call.write if isinstance(call, RefinePlan) else call
            given = (("question", write.question),)
            kinds = {NextStep: "the next step", RefinePlan: "a better plan"}
            wanted = kinds.get(type(call), "a plan")
            prompt = f"The shortest prompt that asks for {wanted}"
    longest, name = max(
        ((context.count(as_text(value)), name) for name, value in given), default=(0, "")
    )
    # The longest argument is only named if it has most of the tokens.
    most = f", {longest:,} of them for {name}," if 2 * longest > size else ""
    sizes = f"{prompt} has {size:,} tokens{most or ','} and {context.room:,} fit"
    itself = ""
    if total is not None:
        room = max(context.room - size, 0)
        sizes = f"{reading} {total:,} tokens of the document, and {room:,} fit"
        itself = f" the step itself takes {size:,}{most} and"
    return (
        f"{sizes}: the window has {window:,}, of which{itself} {reply:,} are kept free for the "
        f"reply. {use} model with a longer window."
    )
