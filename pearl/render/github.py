"""For GitHub Actions: workflow commands that annotate the changed lines."""

from __future__ import annotations

from collections.abc import Sequence

from pearl.diagnostics import Diagnostic
from pearl.render.report import Report
from pearl.source import Source


def render(reports: Sequence[Report]) -> str:
    """One ``::error`` or ``::warning`` line a finding."""
    return "".join(_command(one, report.source) for report in reports for one in report.diagnostics)


def _command(diagnostic: Diagnostic, source: Source) -> str:
    line, column = source.position(diagnostic.span.start)
    end_line, end_column = source.position(diagnostic.span.end)
    places = f"line={line},col={column},endLine={end_line},endColumn={end_column}"
    title = _property(f"{diagnostic.code} {diagnostic.name}")
    text = _message(f"{diagnostic.message} {diagnostic.help}".strip())
    return f"::{diagnostic.severity} file={_property(source.name)},{places},title={title}::{text}\n"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
