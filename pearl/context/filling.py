"""Prompts that demand a form, made to fit the window, or the reason why they cannot be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pearl.context.fitting import too_long
from pearl.context.policy import Context, ContextError, Policy
from pearl.context.sizes import rest_of, size_of
from pearl.llm import FillSchema
from pearl.retrieval import DocumentRetriever
from pearl.source import Source
from pearl.values import as_text


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
