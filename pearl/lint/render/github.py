"""For GitHub Actions: workflow commands that annotate the changed lines."""

from pearl.lang.diagnostics import Diagnostic
from pearl.lang.source import Source
from pearl.lang.text import printable
from pearl.lint.render.report import Renderer, Report, one_after_another, place_of_row


def _commands(report: Report) -> str:
    """One ``::error`` or ``::warning`` line a finding."""
    lines = []
    for item in report.diagnostics:
        title = _property(f"{item.code} {item.name}")
        text = _message(f"{item.message} {item.help}".strip())
        lines.append(f"::{item.severity} {_place(item, report.source)},title={title}::{text}\n")
    return "".join(lines)


render = Renderer(_commands, one_after_another)


def _place(diagnostic: Diagnostic, source: Source) -> str:
    row = place_of_row(source)
    if row:
        return f"file={_property(row[0])},line={row[1]}"
    line, column, end_line, end_column = source.place(diagnostic.span)
    file = _property(source.name)
    return f"file={file},line={line},col={column},endLine={end_line},endColumn={end_column}"


def _message(text: str) -> str:
    # A line break ends the command; what follows would be read as the next one.
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return printable(escaped)


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
