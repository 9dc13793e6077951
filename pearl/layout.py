"""The canonical form of a file: what ``pearl fmt`` writes."""

from __future__ import annotations

from pearl.source import InputError, Source
from pearl.syntax import parse, parse_library, print_plan
from pearl.syntax.printer import print_library

_COMMENTED = ("prose", "thinking")


def layout(source: Source) -> str:
    """A plan in canonical form. Text that is no part of it becomes comments.

    Raises:
        InputError: a line cannot be read, so nothing can be said of its form.
    """
    parsed = parse(source)
    if any(part.kind in _COMMENTED for part in parsed.aside):
        text = source.text
        for part in reversed(parsed.aside):
            if part.kind in _COMMENTED:
                start = text.rfind("\n", 0, part.span.start) + 1
                lines = text[start : part.span.end].split("\n")
                kept = "\n".join(f"# {line.strip()}" for line in lines if line.strip())
                text = text[:start] + kept + text[part.span.end :]
        source = Source(source.name, text)
        parsed = parse(source)
    if parsed.broken:
        line, _ = source.position(parsed.broken[0].at.start)
        raise InputError(f"{source.name}:{line} cannot be read: see pearl lint {source.name}.")
    return print_plan(parsed.plan)


def layout_library(source: Source) -> str:
    """An action library in canonical form.

    Raises:
        InputError: a line cannot be read.
    """
    parsed = parse_library(source)
    if parsed.broken:
        line, _ = source.position(parsed.broken[0].at.start)
        raise InputError(f"{source.name}:{line} cannot be read: see pearl lint {source.name}.")
    return print_library(parsed.actions)
