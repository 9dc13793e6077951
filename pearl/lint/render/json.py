"""For programs: one object a finding, with places as offsets and as line and column."""

from typing import Any

from pearl.lang.diagnostics import Diagnostic
from pearl.lang.source import Source, Span
from pearl.lint.render.report import Renderer, array, elements

render = Renderer(
    lambda report: elements((as_object(item, report.source) for item in report.diagnostics), 2),
    lambda parts, _: array(parts, 2, "", lambda: "\n"),
)


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
    ends = ("line", "column", "end_line", "end_column")
    return {"span": [*span], **dict(zip(ends, source.place(span), strict=True))}
