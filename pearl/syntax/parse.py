"""Reads plans and action libraries: never raises, recovers line by line."""

from __future__ import annotations

import re
from dataclasses import replace

from pearl.plan import Action, Builtin, Plan, Ref, Step
from pearl.source import Source, Span
from pearl.syntax.engine import Failure, parse_action, parse_returns, parse_step
from pearl.syntax.lines import Kind, Line, split
from pearl.syntax.tree import Aside, Broken, BrokenKind, Parsed, ParsedLibrary

_DEFINES = re.compile(r"[`*\s]*([^\W\d](?:\w|\\_)*)[`*\s]*(?::=|=|←|:(?=\s*\w+\s*\())")
_CALLS = re.compile(r"[`*\s]*([^\W\d](?:\w|\\_)*)")
_ASIDE = {Kind.PROSE: "prose", Kind.WRAPPING: "wrapping", Kind.THINKING: "thinking"}
_META = re.compile(r"\s+(aliases|traits|body|from)\s*:\s*(.*)$")


def parse(text: str | Source, name: str = "<plan>") -> Parsed:
    """Read a plan's text, or a model's reply that holds one.

    Args:
        text: any text at all.
        name: what to call it in messages, when it is not a `Source`.

    Returns:
        The plan, the lines that were meant for it and cannot be read, and the
        text that is no part of it.
    """
    source = text if isinstance(text, Source) else Source(name, text)
    lines = split(source.text)
    rival = _rival_blocks(source.text, lines)
    reader = _Reader(source)
    for line in lines:
        if line.block in rival:
            reader.put_aside("prose", Span(line.start, line.end))
        else:
            reader.read(line)
    if rival:
        first = next(line for line in lines if line.block in rival)
        span = Span(first.start, first.end)
        reader.broken.append(Broken("plans", span, span))
    return reader.finish()


class _Reader:
    """Collects what the lines hold."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.question = ""
        self.steps: list[Step] = []
        self.declares: list[Action] = []
        self.returns: tuple[Ref, ...] = ()
        self.comments: list[str] = []
        self.broken: list[Broken] = []
        self.aside: list[Aside] = []
        self.end = len(source.text.rstrip("`~ \t\r\n*"))

    def read(self, line: Line) -> None:
        text, span = self.source.text, Span(line.start, line.end)
        match line.kind:
            case Kind.STEP:
                found = parse_step(text, span)
                if isinstance(found, Failure):
                    self._fail("step", line, found, _DEFINES)
                else:
                    self.steps.append(self._commented(found))
            case Kind.ACTION:
                found = parse_action(text, span)
                if isinstance(found, Failure):
                    self._fail("action", line, found, _CALLS)
                else:
                    self.declares.append(found)
            case Kind.RETURN:
                found = parse_returns(
                    text, Span(line.start, len(text[: line.end].rstrip(" \t\r;.")))
                )
                if isinstance(found, Failure):
                    self._fail("return", line, found, None)
                else:
                    self.returns += found
            case Kind.BROKEN:
                found = parse_step(text, span)
                if isinstance(found, Failure):
                    self._fail("step", line, found, _DEFINES)
            case Kind.QUESTION:
                self.question = _question(text[line.start : line.end])
            case Kind.COMMENT:
                self.comments.append(text[line.start : line.end].strip())
            case Kind.HEADER:
                pass
            case _:
                self.put_aside(_ASIDE[line.kind], span)

    def put_aside(self, kind: str, span: Span) -> None:
        last = self.aside[-1] if self.aside else None
        if last and last.kind == kind and not self.source.text[last.span.end : span.start].strip():
            self.aside[-1] = replace(last, span=Span(last.span.start, span.end))
        else:
            self.aside.append(Aside(kind, span))  # type: ignore[arg-type]

    def _commented(self, step: Step) -> Step:
        if not self.comments:
            return step
        comments, self.comments = tuple(self.comments), []
        return replace(step, comments=comments)

    def _fail(
        self, kind: BrokenKind, line: Line, failure: Failure, defines: re.Pattern[str] | None
    ) -> None:
        named = defines.match(self.source.text, line.start, line.end) if defines else None
        self.broken.append(
            Broken(
                kind,
                Span(line.start, line.end),
                failure.at,
                failure.got,
                failure.before,
                failure.accepts,
                named[1].replace("\\", "") if named else "",
                last=line.end >= self.end,
            )
        )

    def finish(self) -> Parsed:
        plan = Plan(
            steps=tuple(self.steps),
            question=self.question,
            declares=tuple(self.declares),
            returns=self.returns,
            comments=tuple(self.comments),
            source=self.source,
        )
        broken = sorted(self.broken, key=lambda broken: broken.span)
        return Parsed(plan, tuple(broken), tuple(self.aside))


def _question(line: str) -> str:
    words = " ".join(re.split(r"[:：]", line, maxsplit=1)[1].split())
    return words.strip("*_ ")


def _rival_blocks(text: str, lines: list[Line]) -> frozenset[int]:
    """Code fences that hold another plan than the last one does.

    Several fences are one plan in pieces as long as no name is set twice.
    """
    names: dict[int, set[str]] = {}
    for line in lines:
        if line.kind is Kind.STEP:
            named = _DEFINES.match(text, line.start, line.end)
            names.setdefault(line.block, set()).add(named[1] if named else "")
    fenced = [block for block in names if block]
    if len(names) < 2 or not fenced:
        return frozenset()
    final = max(fenced)
    return frozenset(block for block in names if block != final and names[block] & names[final])


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
                    last=end >= len(source.text.rstrip()),
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
        case "body" if len(names) == 2 and names[0] == "builtin":
            return replace(action, body=Builtin(names[1]))
        case _:
            return action
