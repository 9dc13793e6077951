"""The canonical form of a file: what ``pearl fmt`` writes.

Words are never lost: what is no part of a plan becomes comments, and only
marks that say nothing (code fences, tags) go.
"""

from __future__ import annotations

from collections.abc import Sequence

from pearl.source import InputError, Source
from pearl.syntax import Broken, parse, parse_library, print_plan
from pearl.syntax.comments import commented
from pearl.syntax.printer import print_library


def layout(source: Source) -> str:
    """A plan in canonical form. Text that is no part of it becomes comments.

    Raises:
        InputError: a line cannot be read, so nothing can be said of its form.
    """
    parsed = parse(source)
    text = source.text
    for part in reversed(parsed.aside):
        text = text[: part.span.start] + commented(source.text, part.span) + text[part.span.end :]
    if text != source.text:
        source = Source(source.name, text)
        parsed = parse(source)
    _refuse_broken(parsed.broken, source)
    return print_plan(parsed.plan)


def layout_library(source: Source) -> str:
    """An action library in canonical form.

    Raises:
        InputError: a line cannot be read.
    """
    parsed = parse_library(source)
    _refuse_broken(parsed.broken, source)
    text = print_library(parsed.actions)
    # Those above an action, and those in its plans.
    known = {line.strip() for line in text.splitlines()}
    lines = [line.strip() for line in source.text.splitlines()]
    after = [line for line in lines if line.startswith("#") and line not in known]
    return "\n".join([text, *after]) + "\n" if after else text


def _refuse_broken(broken: Sequence[Broken], source: Source) -> None:
    if broken:
        line, _ = source.position(broken[0].at.start)
        raise InputError(f"{source.name}:{line} cannot be read: mend what pearl lint finds.")
