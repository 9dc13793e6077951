"""Definitions made of definitions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from pearl.lang.ast import DOCUMENT, Action, Arg, Ref, Template
from pearl.lang.similarity import (
    GENERAL,
    PLAIN,
    given,
    is_plain,
    read_action,
    sentences_of,
    split_definition,
    without_document,
    words_of,
)

MOST_TAIL = 80
"""Characters of a definition's end that an argument takes over, at most."""

_BINDING = re.compile(
    r" (?:in|when|during|for|from|at|as|after|before|while|where|because|with|without|under)\b"
)

MOST_HEADS = 12
"""Things that a definition lists, at most: a longer one is no help to a reader."""


def widened(kept: Action, others: Iterable[Action]) -> str:
    """A definition that holds for an action and for those it stands for.

    What the others find is added to what it finds: *Find the reason,
    motivation or justification for X*. The rest stays as it is, so that each
    parameter is mentioned as often as before.
    """
    doc = kept.doc or made_up(kept)
    lead, region, rest = split_definition(doc, given(kept))
    own = read_action(kept).heads if kept.doc else (region,)
    if not region or not own:
        return doc
    chosen, seen = list(own), [words_of(head) for head in own]
    for other in others:
        for head in read_action(other).heads:
            words = words_of(head)
            if words - GENERAL and not any(words <= one for one in seen):
                seen.append(words)
                chosen.append(head)
    if len(chosen) == len(own):
        return doc
    *before, last = chosen[:MOST_HEADS]
    return f"{lead}{', '.join(before)} or {last}{rest}"


def made_up(action: Action) -> str:
    """A definition for an action that has none, from its name."""
    words = [word for word in action.name.lower().split("_") if word]
    told = [word for word in words if word not in PLAIN] or words
    first, *rest = [*given(action), ""]
    about = "".join(f" with regard to {param}" for param in rest if param)
    return f"Find the {' '.join(told)}{f' of {first}' if first else ''}{about} given CTX."


def phrase(action: Action) -> tuple[str | Ref, ...]:
    """What an action asks for, as the parts of a text: ``greatest flaw of {X}``.

    Each parameter stands in it where the definition mentions it; one that is not
    mentioned stands at the end, so that none is lost.
    """
    doc = without_document(action.doc or made_up(action))
    lead, region, rest = split_definition(doc, given(action))
    told = f"{region}{rest}" if is_plain(lead) else doc
    parts: list[str | Ref] = []
    names = given(action)
    mention = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    first, *more = sentences_of(" ".join((told or doc).replace("CTX", "the document").split()))
    # Further sentences about the action in general are no part of what it asks for.
    told = ". ".join([first, *(one for one in more if names and re.search(mention, one))])
    if names:
        for at, part in enumerate(re.split(rf"(?<!\w)({mention})(?!\w)", told)):
            parts += [Ref(part) if at % 2 else part] if part else []
    else:
        parts.append(told)
    for name in names:
        if not any(isinstance(part, Ref) and part.name == name for part in parts):
            if parts and isinstance(parts[-1], str):
                parts[-1] += " with regard to "
            else:
                parts.append(" with regard to ")
            parts.append(Ref(name))
    return tuple(parts)


def joined(action: Action, kept: int) -> Template | Ref:
    """The parameters from one on as a single text, joined as the definition joins them.

    Args:
        action: has more parameters than another action takes.
        kept: how many of them stay as they are, the document aside.
    """
    names = given(action)[kept:]
    if len(names) == 1:
        return Ref(names[0])
    doc = without_document(action.doc)
    parts: list[str | Ref] = [Ref(names[0])]
    for before, after in pairwise(names):
        between = rf"(?<!\w){re.escape(before)}(?!\w)(.{{1,40}}?)(?<!\w){re.escape(after)}(?!\w)"
        found = re.search(between, doc)
        words = found[1] if found else " with regard to "
        parts += [words, Ref(after)]
    return Template(tuple(parts))


def _bound(old: Action, new: Action) -> str:
    """The words at the end of a definition that bind it to a case, where another's do not."""
    found = re.search(
        rf"(?<!\w){re.escape(given(old)[-1])}(?!\w)(?!.*(?<!\w)"
        rf"{re.escape(given(old)[-1])}(?!\w))(.*)$",
        without_document(old.doc),
    )
    tail = found[1] if found else ""
    lost = words_of(tail) - words_of(new.doc)
    return tail.rstrip() if lost and _BINDING.match(tail) and len(tail) <= MOST_TAIL else ""


def arguments(old: Action, new: Action) -> tuple[Arg, ...] | None:
    """The arguments of a new call, from the parameters of the older action.

    One to one, in order. What the older action takes beyond that is joined in the
    last argument, ``"{X} in relation to {Y}"``, and so is what only its definition
    says: ``"{Y} in terms of their jobs"``.

    Returns:
        None where the new action takes more than the older one has, or takes no
        document where the older one reads it.
    """
    ours, theirs = given(old), given(new)
    reads = any(param.name == DOCUMENT for param in new.params)
    if len(theirs) > len(ours) or (ours and not theirs):
        return None
    if not reads and any(param.name == DOCUMENT for param in old.params):
        return None
    values: list[Ref | Template] = [Ref(name) for name in ours[: len(theirs)]]
    if len(ours) > len(theirs):
        values[-1] = joined(old, len(theirs) - 1)
    bound = _bound(old, new) if ours else ""
    if bound:
        last = values[-1]
        values[-1] = Template((*(last.parts if isinstance(last, Template) else (last,)), bound))
    following = iter(values)
    return tuple(
        Ref(DOCUMENT) if param.name == DOCUMENT else next(following) for param in new.params
    )
