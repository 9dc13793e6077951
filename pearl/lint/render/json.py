"""For programs: one object a finding, with places as offsets and as line and column."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from pearl.lang.diagnostics import Diagnostic
from pearl.lang.source import Source, Span
from pearl.lint.render.report import Renderer, Report, array, elements


def _elements(report: Report) -> str:
    return elements((as_object(one, report.source) for one in report.diagnostics), 2)


def _array(parts: Iterable[str], _: Collection[str]) -> Iterator[str]:
    """A JSON array of findings."""
    return array(parts, 2, "", lambda: "\n")


render = Renderer(_elements, _array)


def as_object(diagnostic: Diagnostic, source: Source) -> dict[str, Any]:
    """One finding as JSON data."""
    fix = diagnostic.fix
    return {
        "code": diagnostic.code,
        "name": diagnostic.name,
        "severity": str(diagnostic.severity),
        "message": diagnostic.message,
        "help": diagnostic.help,
        "file": source.name,
        **_place(diagnostic.span, source),
        "labels": [
            {"text": label.text, **_place(label.span, source)} for label in diagnostic.labels
        ],
        "data": dict(diagnostic.data),
        "fix": {
            "title": fix.title,
            "safety": str(fix.safety),
            "edits": [{"text": edit.text, **_place(edit.span, source)} for edit in fix.edits],
        }
        if fix
        else None,
    }


def _place(span: Span, source: Source) -> dict[str, Any]:
    line, column = source.position(span.start)
    end_line, end_column = source.position(span.end)
    return {
        "span": [span.start, span.end],
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }
