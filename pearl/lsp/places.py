"""Places as editors count them, and as Pearl does.

Pearl counts characters from a text's start. The protocol counts lines, and in
a line the units of an encoding that was agreed on: UTF-16 where nothing was.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

from lsprotocol.types import Position, Range

from pearl.source import Span

# The protocol's line endings; Python's splitlines knows more.
_ENDING = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class Lines:
    """A text in which places are looked up.

    Args:
        text: the characters.
        encoding: what an editor counts in: ``utf-8``, ``utf-16`` or ``utf-32``.
    """

    text: str
    encoding: str = "utf-16"

    @cached_property
    def _bounds(self) -> tuple[list[int], list[int]]:
        """Where each line starts, and where it ends before its line ending."""
        starts, ends = [0], []
        for found in _ENDING.finditer(self.text):
            ends.append(found.start())
            starts.append(found.end())
        ends.append(len(self.text))
        return starts, ends

    def position(self, offset: int) -> Position:
        """The editor's place of a character offset; inside a line ending, the line's end."""
        starts, ends = self._bounds
        line = bisect_right(starts, offset) - 1
        part = self.text[starts[line] : min(offset, ends[line])]
        return Position(line, self._units(part))

    def offset(self, position: Position) -> int:
        """The character offset of an editor's place.

        Past a line's end it is the line's end, past the text's end that one;
        inside a character it is where the character starts.
        """
        starts, ends = self._bounds
        if position.line >= len(starts):
            return len(self.text)
        start, end = starts[position.line], ends[position.line]
        part = self.text[start:end]
        if self.encoding == "utf-32" or part.isascii():
            return min(start + position.character, end)
        units = 0
        for at, char in enumerate(part, start):
            units += self._units(char)
            if units > position.character:
                return at
        return end

    def range(self, span: Span) -> Range:
        """The editor's range of a span."""
        return Range(self.position(span.start), self.position(span.end))

    def span(self, given: Range) -> Span:
        """The span of an editor's range; where its ends are swapped, an empty one."""
        start = self.offset(given.start)
        return Span(start, max(start, self.offset(given.end)))

    def line_span(self, offset: int) -> Span:
        """The line that an offset is in, without its line ending."""
        starts, ends = self._bounds
        line = bisect_right(starts, offset) - 1
        return Span(starts[line], ends[line])

    @property
    def ending(self) -> str:
        """The line ending of the first line; of a text of one line, a line feed."""
        found = _ENDING.search(self.text)
        return found[0] if found else "\n"

    def _units(self, part: str) -> int:
        if self.encoding == "utf-32" or part.isascii():
            return len(part)
        if self.encoding == "utf-8":
            return len(part.encode("utf-8", "surrogatepass"))
        return len(part) + sum(char > "\uffff" for char in part)
