"""For a person at a terminal: the line, a marker under the place, and what to do."""

from collections.abc import Iterable, Iterator

import click

from pearl.lang.diagnostics import Diagnostic, Renderer, Safety, Severity, SourceFindings
from pearl.lang.source import Source
from pearl.lang.text import cells, printable

WIDTH = 96
"""The most columns of a shown line; a longer one is cut around the place."""

_NEAR = 1000
"""The most characters on each side of a place that are looked at: a line may have thousands of
findings."""


def _blocks(report: SourceFindings) -> str:
    """All findings with colours; `click.echo` takes them off where there is no terminal."""
    blocks = ["\n".join(_block(diagnostic, report.source)) for diagnostic in report.diagnostics]
    return "\n\n".join(blocks) + ("\n" if blocks else "")


def _apart(parts: Iterable[str], *_: Iterable[object]) -> Iterator[str]:
    """Parts with an empty line between them."""
    between = ""
    for part in parts:
        yield between + part
        between = "\n"


RENDERER = Renderer(_blocks, _apart)


def _block(diagnostic: Diagnostic, source: Source) -> Iterator[str]:
    colour = "red" if diagnostic.severity is Severity.ERROR else "yellow"
    row, column = source.position(diagnostic.span.start)
    title = f"{diagnostic.code} {diagnostic.name} "
    place = f" {printable(source.name)}:{row}:{column}"
    rule = "─" * max(4, 64 - cells(title) - cells(place))
    yield click.style(title, fg=colour, bold=True) + click.style(rule + place, dim=True)

    shown, start, width = _window(source, diagnostic)
    bar = click.style("│", dim=True)
    margin = " " * len(str(row))
    marker = click.style("^" * width, fg=colour)
    yield f"{row} {bar} {shown}".rstrip()
    yield f"{margin} {bar} {' ' * start}{marker} {printable(diagnostic.message)}"
    last, end = source.position(diagnostic.span.end)
    if last > row:
        yield f"{margin} {bar} as far as line {last}, column {end}"
    for label in diagnostic.labels:
        at, col = source.position(label.span.start)
        yield f"{margin} {bar} {printable(label.text)}: line {at}, column {col}"
    if diagnostic.help:
        first, *more = diagnostic.help.splitlines()
        yield f"{click.style('help:', fg='cyan')} {printable(first)}"
        yield from (f"      {printable(line)}" for line in more)
    # ``pearl lint --fix`` does not change the rows of a file.
    if diagnostic.fix and not source.row:
        how = "--fix" if diagnostic.fix.safety is Safety.SAFE else "--unsafe-fixes"
        act = printable(diagnostic.fix.title)
        yield f"{click.style('fix:', fg='cyan')} {act} (pearl lint {how})"


def _window(source: Source, diagnostic: Diagnostic) -> tuple[str, int, int]:
    """The line cut to the screen, where the marker stands under it, and its width."""
    _, column = source.position(diagnostic.span.start)
    at = diagnostic.span.start
    before = source.text[at - min(column - 1, _NEAR) : at]
    after, _, _ = source.text[at : at + _NEAR].partition("\n")
    line = printable((before + after).rstrip("\r")).replace("\t", " ")
    start = min(len(before), len(line))
    end = max(start, min(start + diagnostic.span.end - diagnostic.span.start, len(line)))
    left, right = 0, len(line)
    if cells(line) > WIDTH:
        left = _back(line, start, WIDTH // 4)
        right = len(line) - _back(line[::-1], len(line) - left, WIDTH)
        if right == len(line):
            left = _back(line, right, WIDTH)
    shown = line[left:right]
    if left:
        shown = "…" + shown[1:]
    if right < len(line):
        shown = shown[:-1] + "…"
    end = min(end, right)
    return shown, cells(shown[: start - left]), max(1, cells(shown[start - left : end - left]))


def _back(line: str, at: int, width: int) -> int:
    """The first index from which the text up to ``at`` takes at most ``width`` columns."""
    while at > 0 and width >= cells(line[at - 1]):
        at -= 1
        width -= cells(line[at])
    return at
