"""For a person at a terminal: the line, a marker under the place, the act."""

from __future__ import annotations

from collections.abc import Sequence

import click

from pearl.diagnostics import Diagnostic, Safety, Severity
from pearl.render.report import Report, printable
from pearl.source import Source

WIDTH = 96
"""Columns a shown line may take; a longer one is cut around the place."""


def render(reports: Sequence[Report]) -> str:
    """All findings with colours; `click.echo` takes them off where there is no terminal."""
    blocks = [
        _block(diagnostic, report.source) for report in reports for diagnostic in report.diagnostics
    ]
    return "\n\n".join(blocks) + ("\n" if blocks else "")


def _block(diagnostic: Diagnostic, source: Source) -> str:
    row, column = source.position(diagnostic.span.start)
    colour = "red" if diagnostic.severity is Severity.ERROR else "yellow"
    title = f"{diagnostic.code} {diagnostic.name} "
    place = f" {printable(source.name)}:{row}:{column}"
    rule = "─" * max(4, 64 - len(title) - len(place))
    lines = [f"{click.style(title, fg=colour, bold=True)}{click.style(rule + place, dim=True)}"]
    gutter = len(str(row))
    shown, start, end = _window(source, diagnostic)
    bar = click.style("│", dim=True)
    marker = click.style("^" * max(1, end - start), fg=colour)
    lines.append(f"{row} {bar} {shown}")
    message = printable(diagnostic.message)
    lines.append(f"{' ' * gutter} {bar} {' ' * start}{marker} {message}")
    for label in diagnostic.labels:
        at, col = source.position(label.span.start)
        lines.append(f"{' ' * gutter} {bar} {printable(label.text)}: line {at}, column {col}")
    if diagnostic.help:
        lines.append(f"{click.style('help:', fg='cyan')} {printable(diagnostic.help)}")
    if diagnostic.fix:
        how = "--fix" if diagnostic.fix.safety is Safety.SAFE else "--unsafe-fixes"
        title = printable(diagnostic.fix.title)
        lines.append(f"{click.style('fix:', fg='cyan')} {title} (pearl lint {how})")
    return "\n".join(lines)


def _window(source: Source, diagnostic: Diagnostic) -> tuple[str, int, int]:
    """The line cut to the screen, and where the marked place stands in it."""
    row, column = source.position(diagnostic.span.start)
    line = printable(source.line(row)).replace("\t", " ")
    start = column - 1
    end = min(start + diagnostic.span.end - diagnostic.span.start, len(line))
    if len(line) <= WIDTH:
        return line, start, end
    left = max(0, min(start - WIDTH // 4, len(line) - WIDTH))
    cut = line[left : left + WIDTH]
    head, tail = ("…" if left else ""), ("…" if left + WIDTH < len(line) else "")
    start, end = start - left, min(end - left, WIDTH)
    return head + cut[len(head) : len(cut) - len(tail)] + tail, start, end
