"""What a model's condensed library says: its actions, and what each of them replaces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pearl.checker import Selection, check_library
from pearl.diagnostics import Diagnostic
from pearl.plan import Action, Replaced
from pearl.source import Source
from pearl.syntax import parse_library

_READING = Selection(select=("PRL1",))
_CALL = re.compile(r"[`*\s]*[^\W\d]\w*[`*]*\s*\([^()=]*\)?")
_BULLET = r"\s*(?:[-*•]\s+|\d+[.)]\s+)?"
_REPLACES = re.compile(
    rf"{_BULLET}[*_`]*(?:replac(?:es|ing|ed)|covers|merges|combines|aliases|stands for)"
    r"[*_`]*\s*(?:[:：]|=>|->)[*_`]*\s*(?P<told>.*)$",
    re.IGNORECASE,
)
_INLINE = re.compile(
    r"[\s.;,—–-]*[(\[]\s*(?:replaces|covers|merges)\s*[:：]?\s*(?P<told>[^()\[\]]*"
    r"(?:\([^()]*\)[^()\[\]]*)*)[)\]]\s*\.?\s*$",
    re.IGNORECASE,
)
_ITEM = re.compile(rf"{_BULLET}[`*]*[A-Z]\w*[`*]*(?:\s*\([^()]*\))?\s*(?:=\s*\(.*\))?[`,;.]*\s*$")
_NAME = re.compile(r"[^\W\d]\w*")
_AND = re.compile(r"\b(?:and|none|nothing)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Proposed:
    """An action that a reply proposes, with what it says it replaces.

    Args:
        action: the action.
        names: replaced ones that are only named.
        mapped: replaced ones whose arguments are said too.
    """

    action: Action
    names: tuple[str, ...]
    mapped: tuple[Replaced, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A reply, read.

    Args:
        proposed: the actions, in order.
        source: the reply with everything blanked that is no part of the library.
        findings: the lines that cannot be read, as places in ``source``.
        aside: the other lines that were left out, but for marks that say nothing.
    """

    proposed: tuple[Proposed, ...]
    source: Source
    findings: tuple[Diagnostic, ...]
    aside: tuple[str, ...]


def read_reply(text: str, name: str = "reply") -> Read:
    """Read a reply of `CondenseActions`, whatever a model put around and into it.

    Fences, bullets, emphasis and prose are passed over; what an action replaces may
    stand below it or behind it, as calls with their arguments or as bare names.

    Args:
        text: the reply.
        name: what to call it in findings.
    """
    lines: list[str] = []
    told: list[tuple[int, str]] = []
    aside: list[str] = []
    at, listing, action = 0, False, False
    for raw in text.splitlines(keepends=True):
        line = raw.rstrip("\r\n")
        found = _REPLACES.match(line)
        kept = ""
        if found:
            told.append((at, found["told"]))
            listing = True
        elif listing and _ITEM.match(line) and ":" not in line:
            told.append((at, line.strip().lstrip("-*•").strip()))
        elif _CALL.match(re.sub(rf"^{_BULLET}", "", line)):
            inline = _INLINE.search(line)
            if inline:
                told.append((at + len(line), inline["told"]))
            kept = line[: inline.start()] if inline else line
            listing, action = False, True
        elif action and not listing and line[:1] in " \t" and line.strip():
            kept = line
        elif line.strip(" \t`~*#-=_"):
            aside.append(line.strip())
            action = False
        lines.append(kept + " " * (len(line) - len(kept)) + raw[len(line) :])
        at += len(raw)
    source = Source(name, "".join(lines))
    library = parse_library(source)
    findings = check_library(source, _READING) if library.broken else []
    proposed = [_with(action, told, library.actions) for action in library.actions]
    return Read(tuple(proposed), source, tuple(findings), tuple(aside))


def _with(action: Action, told: Iterable[tuple[int, str]], actions: Sequence[Action]) -> Proposed:
    """An action with what stands below it, as far as the next one."""
    after = [one.span.start for one in actions if one.span.start > action.span.start]
    end = min(after, default=1 << 60)
    names: list[str] = []
    mapped: list[Replaced] = []
    for at, words in told:
        if action.span.start <= at < end:
            for part in re.split(r"(?<=\))\s*[;,]\s*(?=[`*]*\w+[`*]*\s*\([^()]*\)\s*=)", words):
                one = _mapping(part)
                if one:
                    mapped.append(one)
                else:
                    bare = _AND.sub(" ", re.sub(r"\([^()]*\)?|=.*$", " ", part))
                    names += _NAME.findall(bare)
    return Proposed(action, tuple(dict.fromkeys(names)), tuple(mapped))


def _mapping(text: str) -> Replaced | None:
    if "=" not in text:
        return None
    line = text.strip().strip("`*").rstrip(".;, `")
    found = parse_library(f"A(CTX) : a\n  replaces: {line}").actions
    return found[0].replaces[0] if found and found[0].replaces else None
