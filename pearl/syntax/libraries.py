"""Reads action libraries: never raises, recovers line by line."""

from __future__ import annotations

import re
from dataclasses import replace

from pearl.plan import Action, Builtin
from pearl.source import Source, Span
from pearl.syntax.parsers import Failure, parse_action
from pearl.syntax.tree import Broken, ParsedLibrary

_CALLS = re.compile(r"[`*\s\"'|]*([^\W\d](?:\w|\\_)*)")
# Any other indented line goes on with the definition.
_META = re.compile(r"\s+(aliases|traits|body(?=\s*:\s*builtin\s+\w+\s*$))\s*:\s*(.*)$")


def parse_library(text: str | Source, name: str = "<actions>") -> ParsedLibrary:
    """Read an action library, in our form or the paper's ``NAME(ARGS) # definition``.

    Args:
        text: any text at all.
        name: what to call it in messages, when it is not a `Source`.

    Returns:
        The actions, and the lines that cannot be read.
    """
    source = text if isinstance(text, Source) else Source(name, text)
    actions: list[Action] = []
    broken: list[Broken] = []
    comments: list[str] = []
    over = len(source.text.rstrip())
    for start, end, extra in _library_lines(source.text):
        line = source.text[start:end]
        if line.startswith("#"):
            comments.append(line.rstrip())
            continue
        bullet = re.match(r"\s*(?:[-*•]\s+|\d+[.)]\s+)?", line)
        at = start + (bullet.end() if bullet else 0)
        found = parse_action(source.text, Span(at, end))
        if isinstance(found, Failure):
            named = _CALLS.match(source.text, at, end)
            broken.append(
                Broken(
                    "action",
                    Span(at, end),
                    found.at,
                    found.got,
                    found.before,
                    found.accepts,
                    named[1] if named else "",
                    last=end >= over,
                )
            )
            continue
        action = replace(found, comments=tuple(comments))
        comments.clear()
        for key, value in extra:
            action = _with_metadata(action, key, value)
        actions.append(action)
    return ParsedLibrary(tuple(actions), tuple(broken))


def _library_lines(text: str) -> list[tuple[int, int, list[tuple[str, str]]]]:
    """Start and end of each action, and the metadata lines under it."""
    found: list[tuple[int, int, list[tuple[str, str]]]] = []
    start = 0
    for raw in text.splitlines(keepends=True):
        end = start + len(raw.rstrip("\r\n"))
        meta = _META.match(raw.rstrip("\r\n"))
        if not raw.strip():
            pass
        elif meta and found and not text.startswith("#", found[-1][0]):
            found[-1][2].append((meta[1], meta[2].strip()))
        elif raw[0] in " \t" and found and not found[-1][2] and not re.match(r"\s*[-*•\d]", raw):
            found[-1] = (found[-1][0], end, found[-1][2])
        else:
            found.append((start, end, []))
        start += len(raw)
    return found


def _with_metadata(action: Action, key: str, value: str) -> Action:
    names = tuple(name for name in re.split(r"[\s,]+", value) if name)
    match key:
        case "aliases":
            return replace(action, aliases=names)
        case "traits":
            return replace(action, traits=frozenset(names))
        case _:
            return replace(action, body=Builtin(names[-1]))
