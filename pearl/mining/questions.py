"""Example questions: a file with one JSON object a line, of which only the question is read."""

from __future__ import annotations

from dataclasses import dataclass

from pearl.rows import read_row
from pearl.source import InputError, read_source


@dataclass(frozen=True, slots=True)
class Example:
    """A question to learn from.

    Args:
        id: its own, or its line's number where it has none.
        question: what is asked.
    """

    id: str
    question: str


def read_examples(path: str) -> tuple[Example, ...]:
    """Read example questions.

    Args:
        path: JSON lines with ``question``, and ``id`` or ``qid``.

    Raises:
        InputError: a line cannot be used; the message names the first, and
            says how many there are.
    """
    lines = read_source(path, "file of questions").text.split("\n")
    found: dict[str, Example] = {}
    wrong: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            one = _example(line, number, f"{path}:{number}")
            if one.id in found:
                raise InputError(f"{path}:{number} has the id {one.id} again: give each its own.")
            found[one.id] = one
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        more = f" {len(wrong) - 1} more of its lines cannot be used." if len(wrong) > 1 else ""
        raise InputError(wrong[0] + more)
    if not found:
        raise InputError(f'{path} holds no question: give rows such as {{"question": "Why …?"}}.')
    return tuple(found.values())


def _example(line: str, number: int, name: str) -> Example:
    row = read_row(line, name)
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise InputError(f"{name} has no question: give one as text.")
    given = row.get("id", row.get("qid", number))
    if isinstance(given, bool) or not isinstance(given, int | str) or not str(given).strip():
        raise InputError(f"{name}: its id is to be a text or a whole number.")
    if not str(given).isprintable():
        raise InputError(f"{name}: its id holds characters that cannot be printed.")
    return Example(str(given), " ".join(question.split()))
