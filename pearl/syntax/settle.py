"""Decides about the lines whose meaning hangs on the whole text.

A numbered line of words may be a step that calls nothing, the title over a
step, or one point of an outline or an explanation. A sentence that holds a
step may be where the step is written, or talk about one.
"""

from __future__ import annotations

from pearl.syntax import marks
from pearl.syntax.tree import Kind, Line


def inner_step(text: str, start: int, end: int) -> int:
    """Where a step begins that has other words before it on its line, or -1.

    Two words, a type, or marks inside the name are a bad name and no step
    inside a sentence.
    """
    found = marks.INSIDE.search(text, start, end)
    if not found:
        return -1
    at = found.start("name")
    head = text[start:at].strip("`* \t")
    joined = not text[at - 1].isspace() and (
        head[-1:] in "-./@#&~+?!" or (head[1:2] and head[-1] in "'’,")
    )
    if not head or joined:
        return -1
    words = head.split()
    typed = head.endswith(":") and found["name"] in marks.TYPES
    paired = len(words) == 1 and (words[0].isalnum() or head.endswith(","))
    return -1 if typed or (paired and head.lower() != "return") else at


def settle(text: str, lines: list[Line]) -> list[Line]:
    """The lines with their last kinds: no WORDS, NUMBER or talk about steps is left."""
    kinds = {line.kind for line in lines}
    if Kind.INSIDE in kinds:
        _settle_inside(text, lines)
    if Kind.WORDS in kinds:
        _settle_words(text, lines)
    if Kind.NUMBER in kinds:
        _settle_numbers(lines)
    return lines


def _settle_inside(text: str, lines: list[Line]) -> None:
    names = set()
    for line in lines:
        if line.kind is Kind.STEP:
            named = marks.STEP_NAME.match(text, line.start, line.end)
            names.add(named[1] if named else "")
    for line in lines:
        if line.kind is Kind.INSIDE:
            found = marks.INSIDE.search(text, line.start, line.end)
            talk = found and found["name"] in names
            inner = inner_step(text, line.start, line.end)
            if talk and (inner >= 0 or not line.number):
                line.kind, line.start = Kind.PROSE, line.begin
            elif inner < 0:
                line.kind = Kind.BROKEN


def _indent(text: str, line: Line) -> int:
    words = text[line.begin : line.begin + 80]
    return len(words) - len(words.lstrip())


def _points(text: str, lines: list[Line]) -> set[int]:
    """The numbered lines that stand, indented, under a step."""
    found: set[int] = set()
    step = -1
    for index, line in enumerate(lines):
        if line.kind is Kind.STEP:
            step = _indent(text, line)
        elif line.kind is Kind.WORDS and 0 <= step < _indent(text, line):
            found.add(index)
        else:
            step = -1
    return found


def _settle_words(text: str, lines: list[Line]) -> None:
    steps = [index for index, line in enumerate(lines) if line.kind in (Kind.STEP, Kind.BROKEN)]
    numbers = {lines[index].number for index in steps}
    points = _points(text, lines)
    first, last = (steps[0], steps[-1]) if steps else (0, len(lines))
    following: Line | None = None
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        if line.kind is Kind.WORDS:
            titled = following and following.kind is Kind.STEP and not following.number
            between = first < index < last
            told = bool(steps) and not between and (numbers == {""} or line.number in numbers)
            if titled or told or index in points:
                line.kind, line.start = Kind.PROSE, line.begin
            else:
                line.kind = Kind.BROKEN
            following = line
        elif line.kind is not Kind.WRAPPING:
            following = line


def _settle_numbers(lines: list[Line]) -> None:
    """A number alone stands over its step; at the text's end its step is cut off."""
    for line in lines:
        if line.kind is Kind.NUMBER:
            line.kind = Kind.WRAPPING
    last = next((line for line in reversed(lines) if line.kind is not Kind.COMMENT), None)
    if last and last.kind is Kind.WRAPPING and last.number:
        last.kind = Kind.BROKEN
