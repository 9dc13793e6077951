"""For a README or an issue: pipe tables, and charts as blocks of characters."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pearl.lang.text import printable
from pearl.report.document import Chart, Report, Table
from pearl.report.terminal import text_chart

WIDTH = 92
"""Columns of a chart: as many as a page of code has."""

_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~$&@])")
_OPENS = re.compile(r"^(\d+)([.)])(?=\s|$)|^([-+=])")


def render(report: Report) -> str:
    """The report as Markdown."""
    parts = [f"# {_text(report.title)}"]
    if report.about:
        # A list whose points have names; a table without a head is none.
        parts.append(
            "\n".join(f"- **{_text(name)}:** {_text(fact)}" for name, fact in report.about)
        )
    for block in report.blocks:
        if isinstance(block, Table):
            aligned = {"left": ":---", "right": "---:"}
            marks = " | ".join(aligned[column.align] for column in block.columns)
            head = _row([column.title for column in block.columns])
            parts += [
                f"## {_text(block.title)}",
                "\n".join([head, f"| {marks} |", *map(_row, block.rows)]),
                *([_paragraph(block.note)] if block.note else []),
            ]
        elif isinstance(block, Chart):
            lines = "\n".join(text_chart(block, WIDTH))
            # A fence longer than any run of its mark within.
            fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", lines)), default=0))
            parts += [f"## {_text(block.heading)}", f"{fence}text\n{lines}\n{fence}"]
        else:
            parts += map(_paragraph, block.paragraphs)
    return "\n\n".join(parts) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_text, cells)) + " |"


def _text(text: str) -> str:
    """Words that stand for themselves: nothing in them marks up or links."""
    shown = " ".join(printable(text).split())
    shown = _MARKS.sub(r"\\\1", shown)
    # An address would become a link by itself.
    return re.sub(r"(?i)\b(https?|ftp|mailto)(:)|\b(www)(\.)", r"\1\3&#8203;\2\4", shown)


def _paragraph(text: str) -> str:
    """The same where a line begins, so that it opens no list and underlines nothing."""
    return _OPENS.sub(
        lambda match: f"\\{match[3]}" if match[3] else f"{match[1]}\\{match[2]}", _text(text)
    )
