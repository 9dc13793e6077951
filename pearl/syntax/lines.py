"""Cuts a text into logical lines and says what each is meant as.

Models wrap plans in prose, fences, headings, bullets and `<think>` blocks,
number steps in many ways, and break lines anywhere. This module decides where
each step begins and ends and what is not part of the plan; the grammar reads
the steps. It is deliberately thin: it looks at how a line starts and whether
its call is closed, and never inside arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from pearl.source import Span
from pearl.syntax.engine import string_pattern


class Kind(Enum):
    """What a logical line is meant as."""

    STEP = auto()
    RETURN = auto()
    ACTION = auto()
    QUESTION = auto()
    COMMENT = auto()
    HEADER = auto()
    WRAPPING = auto()
    THINKING = auto()
    PROSE = auto()
    BROKEN = auto()


@dataclass(slots=True)
class Line:
    """One logical line; ``block`` numbers the code fence it stands in, 0 for none."""

    kind: Kind
    start: int
    end: int
    block: int = 0
    numbered: bool = False


_NAME = r"[^\W\d](?:\w|\\_)*"
_MARK = r"[`*\s\u200b-\u200d\ufeff]*"
_PREFIX = re.compile(
    r"[\s\u200b-\u200d\ufeff]*(?:>[ \t]?)*[ \t]*(?:\#{2,6}[ \t]+)?(?:[-*+•·][ \t]+)?[*_`]{0,3}"
    r"(?P<number>(?:step|line|action)[ \t]*\#?\d{1,3}\b[ \t]*[-.):–—]?"
    r"|[(\[]?\#?(?:\d{1,3}|s\d{1,3})(?:\.\d{1,3})*[ \t]*(?:[.):\]]|[ \t][-–—])+"
    r"|\d{1,3}(?=[ \t]+[^\W\d]\w*[ \t]*:?=)"
    r"|\(?(?:[ivx]{1,5}|[a-z])[.)](?=[ \t])"
    r"|[①-⑳❶-❿](?:[.):])?"
    r")?[*_]{0,3}[ \t]*(?:[-*•][ \t]+)?`?",
    re.IGNORECASE,
)
_STEP = re.compile(rf"{_MARK}{_NAME}{_MARK}(?::=|=(?!=)|←)")
_PLAIN_STEP = re.compile(rf"\s*\d{{1,3}}\.[ \t]+(?={_NAME} = {_NAME}\()")
_ATTEMPT = re.compile(
    rf"{_MARK}(?:{_NAME}{_MARK}[(（\[{{]"  # a call without a name
    rf"|[^\n(=]{{1,60}}?(?::=|=(?!=)|←|<-|:){_MARK}{_NAME}{_MARK}[(（\[{{])"  # a name that is none
)
_UPPER_CALL = re.compile(r"[A-Z][A-Z0-9]*(?:\\?_[A-Z0-9]+)*[ \t]*[(（\[{]|\w+[(（]\s*CTX\b")
_RETURN = re.compile(rf"(?:return|RETURN)\s+{_NAME}\s*(?:[,;.(:#]|$)")
_QUESTION = re.compile(r"[*_\s#]*question[*_\s]*[:：]", re.IGNORECASE)
_DECLARES = re.compile(
    r"[*_#\s>-]*(?:my\s+|the\s+)?new\s+actions?\b[^:：\n(=]{0,40}(?:[:：]|$)", re.I
)
_HEADING = re.compile(r"[*_#\s]*[\w' -]{1,60}[:：]?[*_\s]*$")
_ORNAMENT = re.compile(r"\s*(?:[-*_=~]{3,}|</?[A-Za-z][\w:-]*(?:\s[^<>]*)?>|[|+:\- ]+)\s*$")
_FENCE = re.compile(r"\s*(?:>\s*)*(`{3,}|~{3,})[^`\n]*$")
_NONE = re.compile(r"[-*•\s\d.]*[(\[]?(?:none|n/?a|nil|no new actions?|-)[^\w(]*$", re.IGNORECASE)
_THINK = re.compile(r"<(think|thinking|reasoning|scratchpad)>", re.IGNORECASE)
_THOUGHT = re.compile(r"</(think|thinking|reasoning|scratchpad)>", re.IGNORECASE)
_OPEN, _CLOSE = "(（[【", ")）]】"


def split(text: str) -> list[Line]:
    """The logical lines of a plan's text, in order, without blank ones."""
    lines: list[Line] = []
    start = 0
    for thought in _thoughts(text):
        lines.extend(_split_part(text, start, thought.start, lines))
        lines.append(Line(Kind.THINKING, thought.start, thought.end))
        start = thought.end
    lines.extend(_split_part(text, start, len(text), lines))
    return lines


def _thoughts(text: str) -> Iterator[Span]:
    """Blocks in which a model talked to itself; the first may lack its opening
    tag (a chat template wrote it), the last its closing one (the reply was cut)."""
    at = 0
    while True:
        opening, closing = _THINK.search(text, at), _THOUGHT.search(text, at)
        if closing and (not opening or closing.start() < opening.start()):
            if at == 0:
                yield Span(0, closing.end())
            at = closing.end()
        elif opening:
            end = closing.end() if closing else len(text)
            yield Span(opening.start(), end)
            at = end
        else:
            return


class _Splitter:
    """The state of one pass over physical lines."""

    def __init__(self, text: str, blocks: int) -> None:
        self.text = text
        self.lines: list[Line] = []
        self.block = 0
        self.blocks = blocks
        self.fence = ""
        self.declaring = False
        self.open: Line | None = None  # the step or action whose call is not closed
        self.after_blank = True

    def feed(self, start: int, end: int) -> None:
        raw = self.text[start:end]
        if not raw.strip("\ufeff\u200b\u200c\u200d \t\r\f\v\u00a0"):
            self.after_blank = True
            self.open = None
            return
        fence = _FENCE.match(raw)
        if fence:
            self._fence(fence[1], start, end)
            return
        plain = _PLAIN_STEP.match(raw)
        if plain:
            self._start(Kind.STEP, start + plain.end(), end, numbered=True)
            return
        self._classify(raw, start, end)

    def _classify(self, raw: str, start: int, end: int) -> None:
        if _DECLARES.match(raw) and not _STEP.match(raw):
            self._declares(raw, start, end)
            return
        if raw.lstrip().startswith("#") and not re.match(r"\s*#{2,6}\s", raw):
            self._add(Kind.COMMENT, start, end)
            return
        prefix = _PREFIX.match(raw)
        at = prefix.end() if prefix else 0
        numbered = bool(prefix and prefix["number"])
        kind = self._kind(raw, at, numbered)
        if kind is None:
            self._other(raw, start, end, at, numbered)
        elif kind is Kind.QUESTION:
            self._add(kind, start, end)
        else:
            self._start(kind, start + at, end, numbered)

    def _kind(self, raw: str, at: int, numbered: bool) -> Kind | None:
        if self.declaring and _ATTEMPT.match(raw, at) and not _STEP.match(raw, at):
            return Kind.ACTION
        if _STEP.match(raw, at):
            return Kind.STEP
        if _RETURN.match(raw, at):
            return Kind.RETURN
        if not self._has_steps() and _QUESTION.match(raw) and not self.open:
            return Kind.QUESTION
        if self.open is not None:
            return None
        called = _UPPER_CALL.search(raw, at)
        if called and (numbered or _ATTEMPT.match(raw, at)):
            return Kind.BROKEN
        return None

    def _other(self, raw: str, start: int, end: int, at: int, numbered: bool) -> None:
        """A line that starts nothing: the rest of the one before, or no part of the plan."""
        if self.open is not None:
            self.open.end = end
            self._settle(self.open)
            return
        if _ORNAMENT.match(raw):
            self._add(Kind.WRAPPING, start, end)
            return
        if self.declaring and _NONE.match(raw):
            self._add(Kind.HEADER, start, end)
            return
        last = self.lines[-1] if self.lines else None
        if last and not self.after_blank and self._continues(raw, last, numbered):
            last.end = end
            return
        if not raw[at:].strip() and numbered:
            self._add(Kind.WRAPPING, start, end)
        elif numbered and not self._headed(raw, at):
            self._start(Kind.BROKEN, start + at, end, numbered)
        elif _HEADING.match(raw) and raw.rstrip("*_ \t\r").endswith((":", "：")):
            self.declaring = False
            self._add(Kind.WRAPPING, start, end)
        else:
            self._add(Kind.PROSE, start, end)

    def _headed(self, raw: str, at: int) -> bool:
        """Whether a numbered line of words stands over a step of its own.

        ``Step 1: Identify Ross`` and then the step on the next line.
        """
        rest = self._rest
        following = rest.lstrip()
        if not following:
            return False
        first = following.splitlines()[0]
        if _FENCE.match(first):
            lines = following.splitlines()
            first = lines[1] if len(lines) > 1 else ""
        prefix = _PREFIX.match(first)
        if prefix and prefix["number"]:
            return False
        return bool(_STEP.match(first, prefix.end() if prefix else 0))

    def _continues(self, raw: str, last: Line, numbered: bool) -> bool:
        if last.kind is Kind.PROSE:
            return not numbered
        if last.kind is Kind.QUESTION:
            return not numbered and last.end - last.start > 40
        if last.kind not in (Kind.STEP, Kind.ACTION) or numbered:
            return False
        body = raw.lstrip("> \t")
        indented = raw[:1] in " \t" and self.text[last.end :].startswith(("\n", "\r\n"))
        bullet = bool(re.match(r"[-*•]\s", body))
        return indented or (not bullet and (body[:1].islower() or body[:1] in "(\"'“,;.&/"))

    def _start(self, kind: Kind, start: int, end: int, numbered: bool) -> None:
        if kind in (Kind.STEP, Kind.RETURN) or (kind is Kind.BROKEN and numbered):
            self.declaring = False
        line = self._add(kind, start, end)
        line.numbered = numbered
        if kind in (Kind.STEP, Kind.ACTION, Kind.BROKEN):
            self._settle(line)

    def _settle(self, line: Line) -> None:
        """Keep a line open while its call is."""
        self.open = None if _closed(self.text, line.start, line.end) else line

    def _add(self, kind: Kind, start: int, end: int) -> Line:
        line = Line(kind, start, end, self.block)
        self.lines.append(line)
        self.open = None
        self.after_blank = False
        return line

    def _fence(self, mark: str, start: int, end: int) -> None:
        if self.fence and mark.startswith(self.fence):
            self.fence, self.block = "", 0
        elif not self.fence:
            self.blocks += 1
            self.fence, self.block = mark, self.blocks
        self._add(Kind.WRAPPING, start, end)

    def _declares(self, raw: str, start: int, end: int) -> None:
        self.declaring = True
        match = _DECLARES.match(raw)
        at = match.end() if match else len(raw)
        none = _NONE.match(raw, at)
        self._add(Kind.HEADER, start, end if none else start + at)
        if none:
            return
        rest = raw[at:]
        if rest.strip("*_ \t\r"):
            self._classify(rest.lstrip("*_"), start + at + len(rest) - len(rest.lstrip("*_")), end)

    def _has_steps(self) -> bool:
        return any(line.kind is Kind.STEP for line in self.lines)

    _rest = ""


def _split_part(text: str, start: int, end: int, before: list[Line]) -> list[Line]:
    splitter = _Splitter(text, max((line.block for line in before), default=0))
    while start < end:
        stop = text.find("\n", start, end)
        stop = stop if stop >= 0 else end
        splitter._rest = text[stop + 1 : min(stop + 400, end)]
        splitter.feed(start, stop)
        start = stop + 1
    return splitter.lines


def _closed(text: str, start: int, end: int) -> bool:
    """Whether the call that starts in the range is complete.

    A line that ends in ``=`` or in the middle of a call is not.
    """
    opening = min((at for at in (text.find(c, start, end) for c in _OPEN) if at >= 0), default=-1)
    if opening < 0:
        tail = text[start:end].rstrip()
        return not tail.endswith(("=", "←")) and not re.fullmatch(rf"{_NAME}\s*=\s*{_NAME}", tail)
    return call_end(text, opening, end) >= 0


def call_end(text: str, opening: int, end: int) -> int:
    """The place after a call's last parenthesis, or -1 where it is not closed.

    Args:
        opening: the place of the call's first parenthesis.
        end: where to stop looking.
    """
    strings = string_pattern()
    depth, at = 0, opening
    while at < end:
        char = text[at]
        if char in "\"'“„”«「‘":
            quoted = strings.match(text, at, end)
            if not quoted:
                return -1
            at = quoted.end()
            continue
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth <= 0:
                return at + 1
        at += 1
    return -1
