"""Cuts a text into logical lines and says what each is meant as.

Models wrap plans in prose, fences, headings, bullets and `<think>` blocks,
number steps in many ways, and break lines anywhere. This module decides where
each step begins and ends and what is not part of the plan; the grammar reads
the steps. It is deliberately thin: it looks at how a line starts and whether
its call is closed, and never inside arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pearl.source import Span
from pearl.syntax import marks
from pearl.syntax.calls import closed
from pearl.syntax.settle import settle
from pearl.syntax.tree import Kind, Line

# A call that is wrapped over more lines or characters than this has lost its end.
_MOST_LINES = 60
_MOST_TEXT = 20_000


def split(text: str, thoughts: Iterable[Span] = ()) -> list[Line]:
    """The logical lines of a plan's text, in order, without blank ones.

    Args:
        text: the text, without its wrapping.
        thoughts: the blocks of it that are no part of the reply.
    """
    splitter = _Splitter(text)
    start = 0
    for thought in thoughts:
        splitter.part(start, thought.start)
        splitter.thought(thought.start, thought.end)
        start = thought.end
    splitter.part(start, len(text))
    return settle(text, splitter.lines)


class _Splitter:
    """The state of one pass over physical lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: list[Line] = []
        self.block = 0
        self.blocks = 0
        self.fence = ""
        self.declaring = False
        self.open: Line | None = None  # the step or action whose call is not closed
        self.wrapped = 0
        self.after_blank = True
        self.stepped = False
        self.asked = False

    def part(self, start: int, end: int) -> None:
        """Read a stretch of the text."""
        text = self.text
        while start < end:
            stop = text.find("\n", start, end)
            stop = stop if stop >= 0 else end
            plain = marks.PLAIN_STEP.match(text, start, stop)
            if plain:
                self._start(Kind.STEP, start, plain.end(), stop, plain[1])
            else:
                self._feed(start, stop)
            start = stop + 1

    def thought(self, start: int, end: int) -> None:
        """Put a thinking block aside."""
        self._add(Kind.THINKING, start, start, end)
        self.fence, self.block, self.declaring = "", 0, False

    def _feed(self, start: int, end: int) -> None:
        raw = self.text[start:end]
        if not raw.strip(marks.BLANK):
            self.after_blank = True
            self.open = None
            return
        fence = marks.FENCE.match(raw)
        if fence:
            self._fence(fence[1], start, end)
        elif marks.DECLARES.match(raw) and not marks.STEP.match(raw):
            self._declares(raw, start, end)
        else:
            self._classify(raw, start, end)

    def _classify(self, raw: str, start: int, end: int) -> None:
        if marks.COMMENT.match(raw):
            self._add(Kind.COMMENT, start, start, end)
            return
        prefix = marks.PREFIX.match(raw)
        at = prefix.end() if prefix else 0
        number = (prefix["number"] or "").strip() if prefix else ""
        kind = self._kind(raw, at, number)
        if kind is Kind.INSIDE and number:
            # A number behind a number: "1. 1) a = F(CTX)".
            second = marks.PREFIX.match(raw, at)
            if second and marks.STEP.match(raw, second.end()):
                kind, at = Kind.STEP, second.end()
        label = marks.LABEL.match(raw) if kind is Kind.INSIDE else None
        if label:
            self._add(Kind.WRAPPING, start, start, start + label.end())
            self._classify(raw[label.end() :], start + label.end(), end)
        elif kind is None:
            self._other(raw, start, end, at, number)
        elif kind is Kind.QUESTION:
            self.asked = True
            self._add(kind, start, start, end)
        else:
            self._start(kind, start, start + at, end, number)

    def _kind(self, raw: str, at: int, number: str) -> Kind | None:
        if self.declaring and not marks.STEP.match(raw, at) and self._is_declared(raw, at):
            return Kind.ACTION
        if marks.STEP.match(raw, at):
            if not number and not self.open and marks.BLOCK.match(raw):
                return None
            inside = self.open is not None and not number and not marks.STEP_CALL.match(raw, at)
            return None if inside else Kind.STEP
        if marks.RETURN.match(raw, at) and not marks.INSIDE.search(raw, at):
            return Kind.RETURN
        if not self.stepped and not self.asked and not self.open and marks.QUESTION.match(raw):
            return Kind.QUESTION
        if marks.INSIDE.search(raw, at):
            return Kind.INSIDE
        if self.open is not None:
            return None
        called = marks.UPPER_CALL.search(raw, at)
        if called and (number or marks.ATTEMPT.match(raw, at)):
            return Kind.BROKEN
        return None

    def _is_declared(self, raw: str, at: int) -> bool:
        return bool(marks.ATTEMPT.match(raw, at) or marks.DECLARED.match(raw, at))

    def _other(self, raw: str, start: int, end: int, at: int, number: str) -> None:
        """A line that starts nothing: the rest of the one before, or no part of the plan."""
        last = self.lines[-1] if self.lines else None
        if self.open is not None and self.wrapped < _MOST_LINES:
            self._extend(self.open, end)
        elif marks.ORNAMENT.match(raw):
            self._add(Kind.WRAPPING, start, start, end)
        elif self.declaring and marks.NONE.match(raw):
            self._add(Kind.HEADER, start, start, end)
        elif last and not self.after_blank and self._is_glued(raw, last):
            last.kind, self.stepped = Kind.STEP, True
            self._extend(last, end)
        elif last and not self.after_blank and self._continues(raw, end, last, number):
            last.end = end
        elif number.startswith("#"):
            self._add(Kind.COMMENT, start, start, end)
        elif number and not raw[at:].strip():
            self._add(Kind.NUMBER, start, start, end).number = number
        elif number:
            self._start(Kind.WORDS, start, start + at, end, number)
        elif raw.rstrip("*_ \t\r").endswith((":", "：")) and marks.HEADING.match(raw):
            self.declaring = False
            self._add(Kind.WRAPPING, start, start, end)
        else:
            kind = Kind.WRAPPING if marks.TITLE.match(raw) else Kind.PROSE
            self._add(kind, start, start, end)

    def _is_glued(self, raw: str, last: Line) -> bool:
        """Whether this is the rest of a step whose name the last line is."""
        named = last.kind in (Kind.WORDS, Kind.PROSE) and marks.CONTINUED.match(raw)
        return bool(named and marks.BARE_NAME.match(self.text, last.start, last.end))

    def _continues(self, raw: str, end: int, last: Line, number: str) -> bool:
        if last.kind in (Kind.PROSE, Kind.WORDS):
            return not number
        if last.kind is Kind.QUESTION:
            return not number and last.end - last.start > 40
        if last.kind not in (Kind.STEP, Kind.ACTION) or number:
            return False
        # A call, or a name that was cut off, is no part of a note.
        if marks.CALL.match(raw) or (marks.BARE_NAME.match(raw) and self._is_last(end)):
            return False
        body = raw.lstrip()
        indented = raw[:1] in (" ", "\t", "\u00a0")
        bullet = bool(re.match(r"[-*•]\s", body))
        wraps = body[:1].islower() or body[:1] in "(\"'“,;.&/:：—–"
        return indented or (wraps and not bullet and not marks.APART.match(body))

    def _is_last(self, end: int) -> bool:
        return not self.text[end : end + 80].strip("`~* \t\r\n")

    def _start(self, kind: Kind, begin: int, start: int, end: int, number: str) -> None:
        if kind in (Kind.STEP, Kind.RETURN, Kind.INSIDE) or (kind is Kind.BROKEN and number):
            self.declaring = False
        line = self._add(kind, begin, start, end)
        line.number = number
        self.stepped = self.stepped or kind is Kind.STEP
        if kind in (Kind.STEP, Kind.ACTION, Kind.BROKEN):
            self.wrapped = 0
            self.open = None if closed(self.text, start, end) else line

    def _extend(self, line: Line, end: int) -> None:
        line.end = end
        self.wrapped += 1
        done = end - line.start > _MOST_TEXT or closed(self.text, line.start, end)
        self.open = None if done else line

    def _add(self, kind: Kind, begin: int, start: int, end: int) -> Line:
        line = Line(kind, start, end, self.block, "", begin)
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
        self._add(Kind.WRAPPING, start, start, end)

    def _declares(self, raw: str, start: int, end: int) -> None:
        self.declaring = True
        match = marks.DECLARES.match(raw)
        at = match.end() if match else len(raw)
        rest = raw[at:].lstrip("*_ \t")
        none = marks.NONE.match(rest) or not rest.strip(marks.BLANK + "*_")
        self._add(Kind.HEADER, start, start, end if none else start + at)
        if not none:
            self._classify(rest, end - len(rest), end)
