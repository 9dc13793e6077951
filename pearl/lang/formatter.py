"""What ``pearl fmt`` does with a file: its plan or its actions in canonical form, no word lost.

What is no part of a plan becomes comments, and only marks that say nothing (code fences, tags) go.
"""

from collections.abc import Sequence

from pearl.lang import ast
from pearl.lang.errors import InputError
from pearl.lang.library import parse_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_library, print_plan
from pearl.lang.source import Source, Span
from pearl.lang.text import pattern

_BREAK = pattern(r"[\n\r\x0b\x0c\x85\u2028\u2029]")
_MARK = pattern(r"\s*+(?:[`~]{3,}.*|[^\w\s]*)\s*")
_TAG = pattern(r"<[|/]?\s*\w[^<>\n]*>|\[/?[A-Z]+\]")


def comment_out(text: str, span: Span) -> str:
    """What to put in the place of a span so that its words stand in comments.

    Marks that say nothing (code fences, tags, rules) go. What shares a line
    with the span keeps a line of its own.

    Args:
        text: the whole text.
        span: a part of it that is no part of the plan.
    """
    # In a comment, a tag would open its block anew.
    lines = _BREAK.split(_TAG.sub(" ", text[span.start : span.end]))
    words = [line.strip() for line in lines if not _MARK.fullmatch(line)]
    body = [line if line.startswith("#") else f"# {line}" for line in words]
    start = text.rfind("\n", 0, span.start) + 1
    before = _BREAK.split(text[start : span.start])[-1]
    before = "" if _MARK.fullmatch(before) else before
    following = _BREAK.search(text, span.end)
    after = text[span.end : following.start() if following else len(text)].strip()
    return ("\n" if before else "") + "\n".join(body) + ("\n" if after and (body or before) else "")


def format_plan(source: Source) -> str:
    """A plan in canonical form. Text that is no part of it becomes comments.

    Raises:
        InputError: a line cannot be read, so nothing can be said of its form; or no line of a text
            is a step.
    """
    parsed = parse(source)
    if parsed.aside and not parsed.has_plan:
        raise InputError(f"{source.name}: no line of it is a step of a plan: it stays as it is.")
    _refuse_broken(parsed.broken, source)
    text = source.text
    for part in reversed(parsed.aside):
        text = text[: part.span.start] + comment_out(source.text, part.span) + text[part.span.end :]
    if text != source.text:
        source = Source(source.name, text)
        parsed = parse(source)
    _refuse_broken(parsed.broken, source)
    return print_plan(parsed.plan)


def format_library(source: Source) -> str:
    """An action library in canonical form.

    Raises:
        InputError: a line cannot be read.
    """
    parsed = parse_library(source)
    _refuse_broken(parsed.broken, source)
    text = print_library(parsed.actions)
    # Those above an action, and those in its plans.
    printed = {line.strip() for line in text.splitlines()}
    lines = [line.strip() for line in source.text.splitlines()]
    after = [line for line in lines if line.startswith("#") and line not in printed]
    return "\n".join([text, *after]) + "\n" if after else text


def _refuse_broken(broken: Sequence[ast.Broken], source: Source) -> None:
    if broken:
        line, _ = source.position(broken[0].at.start)
        raise InputError(f"{source.name}:{line} cannot be read: mend what pearl lint finds.")
