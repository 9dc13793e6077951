"""Text around a plan, turned into comments."""

from __future__ import annotations

import re

from pearl.source import Span

_BREAK = re.compile(r"[\n\r\x0b\x0c\x85\u2028\u2029]")
_MARK = re.compile(r"\s*+(?:[`~]{3,}.*|[^\w\s]*)\s*")
_TAG = re.compile(r"<[|/]?\s*\w[^<>\n]*>|\[/?[A-Z]+\]")


def commented(text: str, span: Span) -> str:
    """What to put in the place of a span so that its words stand in comments.

    Marks that say nothing (code fences, tags, rules) go. What shares a line
    with the span keeps a line of its own.

    Args:
        text: the whole text.
        span: a part of it that is no part of the plan.
    """
    # In a comment, a tag would open its block anew.
    lines = _BREAK.split(_TAG.sub(" ", text[span.start : span.end]))
    kept = [_comment(line) for line in lines if not _MARK.fullmatch(line)]
    start = text.rfind("\n", 0, span.start) + 1
    before = _BREAK.split(text[start : span.start])[-1]
    before = "" if _MARK.fullmatch(before) else before
    following = _BREAK.search(text, span.end)
    after = text[span.end : following.start() if following else len(text)].strip()
    return ("\n" if before else "") + "\n".join(kept) + ("\n" if after and (kept or before) else "")


def _comment(line: str) -> str:
    words = line.strip()
    return words if words.startswith("#") else f"# {words}"
