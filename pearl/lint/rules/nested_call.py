"""A call inside another call's arguments.

What it does
    Reports a call that stands where an argument should.

Why
    Every step has a name, so that its output can be seen, cached and used
    again. A call inside a call has none.

Example
    1. a = CONCAT(FIND_CHARACTER(CTX, "Ross"), "and Mara") : Combine them

Use instead
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. a = CONCAT(ross, "and Mara") : Combine them

Fix
    Unsafe: gives the inner call a step of its own, with a name made up. Where
    both calls go over one list with ``each``, the outer one then goes over what
    the inner one gave for each item, with the item as its key; none where no
    such step says the same.
"""

import re
from collections.abc import Sequence

from pearl.lang.ast import Broken
from pearl.lang.grammar import string_pattern
from pearl.lang.logical_lines import call_end
from pearl.lang.text import pattern
from pearl.lint.rules.base import ERROR, Diagnostic, Edit, Fix, Rule, Safety, Span, word_start

_MODED_OR_BRACKET = pattern(
    r"\b(?P<mode>(?:each|where)(?:\s+values)?)\s+(?P<name>\$?[^\W\d]\w*|#\d+)"
    r"|(?P<bracket>[(（)）])",
    re.IGNORECASE,
)
_AROUND = pattern(r"(?:^|\})[^{]*(?:\{|$)")
"""The words of a text around the references in it."""


def explain(broken: Broken) -> Diagnostic | None:
    inside = broken.before == "NAME" and "_COMMA" in broken.accepts
    if broken.got != "_OPEN" or not (inside or broken.kind == "return"):
        return None
    text, opening = broken.source.text, broken.at.start
    start = word_start(text, opening)
    name = text[start:opening].strip()
    end = call_end(text, opening, broken.span.end)
    inner = Span(start, end if end > 0 else broken.span.end)
    fix, items = None, _items(broken, inner)
    # If the inner call's bracket is the only one, the outer call would have none.
    outer = call_end(text, text.find("(", broken.span.start, start), broken.span.end)
    if broken.name and end > 0 and (outer > end or broken.kind == "return") and items is not None:
        fix = _fix(broken, inner, items)
    help = f"Give {name}(…) a step of its own, and use that step's name here."
    if items:
        item = broken.source.at(items[0])
        help = f"Give {name}(…) a step x; here write each values x for it, and each x for {item}."
    return RULE(
        inner,
        f"{name}(…) is called inside another call.",
        help=help,
        data={"action": name},
        fix=fix,
    )


def _items(broken: Broken, inner: Span) -> list[Span] | None:
    """The places where the outer call takes items of the list that the inner call runs over, so
    that each item needs the inner call's output for it. None where that cannot be written."""
    text = string_pattern().sub(_blank, broken.source.at(broken.span))
    opening, refs = broken.at.start - broken.span.start, []
    depth = inner_depth = 0
    for ref in _MODED_OR_BRACKET.finditer(text):
        if bracket := ref["bracket"]:
            change = 1 if bracket in "(（" else -1
            depth += change
            inner_depth += change if ref.start() >= opening else 0
            continue
        span = Span(*ref.span()).moved(broken.span.start)
        inside = inner.start <= span.start < inner.end
        deep = (inner_depth if inside else depth) > 1
        refs.append((inside, deep, ref["mode"].lower(), ref["name"], span))
    listed = {name for inside, _, _, name, _ in refs if inside}
    if not any(name in listed for inside, deep, _, name, _ in refs if not (inside or deep)):
        return []
    # A third call that runs over the list, a filter, or values would have other keys and items.
    if any(deep or mode != "each" or name not in listed for _, deep, mode, name, _ in refs):
        return None
    return [span for inside, *_, span in refs if not inside] if len(listed) == 1 else None


def _blank(text: re.Match[str]) -> str:
    """A quoted text with spaces in place of all but the references in it."""
    return _AROUND.sub(lambda words: " " * len(words[0]), text[0])


def _fix(broken: Broken, inner: Span, items: Sequence[Span]) -> Fix | None:
    if "\n" in broken.text:
        return None
    line = broken.source.text.rfind("\n", 0, broken.span.start) + 1
    name = f"{broken.name}_part"
    while name in broken.source.text:
        name += "_1"
    step = f"{name} = {broken.source.at(inner)}\n"
    edits = [Edit(Span(line, line), step), Edit(inner, f"each values {name}" if items else name)]
    edits += (Edit(item, f"each {name}") for item in items)
    return Fix("give the inner call its own step", tuple(edits), Safety.UNSAFE)


RULE = Rule("PRL104", "nested-call", ERROR, __doc__, explain=explain)
