"""For code scanning: SARIF 2.1.0."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pearl.diagnostics import Diagnostic, Severity
from pearl.render.report import Report
from pearl.rules import RULES
from pearl.source import Source, Span

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(reports: Sequence[Report]) -> str:
    """A SARIF log with one run."""
    used = sorted({one.code for report in reports for one in report.diagnostics})
    rules = [rule for rule in RULES if rule.code in used]
    results = [_result(one, report.source) for report in reports for one in report.diagnostics]
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "pearl",
                        "version": version("pearl"),
                        "rules": [
                            {
                                "id": rule.code,
                                "name": rule.name,
                                "shortDescription": {"text": rule.doc.splitlines()[0]},
                                "fullDescription": {"text": rule.section("Why") or rule.name},
                                "help": {"text": rule.doc.strip()},
                                "defaultConfiguration": {"level": _level(rule.severity)},
                            }
                            for rule in rules
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": results,
            }
        ],
    }
    return json.dumps(log, ensure_ascii=False, indent=2) + "\n"


def _result(diagnostic: Diagnostic, source: Source) -> dict[str, Any]:
    text = f"{diagnostic.message} {diagnostic.help}".strip()
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "level": _level(diagnostic.severity),
        "message": {"text": text},
        "locations": [{"physicalLocation": _location(diagnostic.span, source)}],
    }
    if diagnostic.labels:
        result["relatedLocations"] = [
            {
                "physicalLocation": _location(label.span, source),
                "message": {"text": label.text},
            }
            for label in diagnostic.labels
        ]
    if diagnostic.fix:
        result["fixes"] = [_fix(diagnostic, source)]
    return result


def _fix(diagnostic: Diagnostic, source: Source) -> dict[str, Any]:
    fix = diagnostic.fix
    edits = fix.edits if fix else ()
    return {
        "description": {"text": fix.title if fix else ""},
        "artifactChanges": [
            {
                "artifactLocation": {"uri": _uri(source)},
                "replacements": [
                    {
                        "deletedRegion": _region(edit.span, source),
                        "insertedContent": {"text": edit.text},
                    }
                    for edit in edits
                ],
            }
        ],
    }


def _location(span: Span, source: Source) -> dict[str, Any]:
    return {"artifactLocation": {"uri": _uri(source)}, "region": _region(span, source)}


def _region(span: Span, source: Source) -> dict[str, Any]:
    line, column = source.position(span.start)
    end_line, end_column = source.position(span.end)
    return {
        "startLine": line,
        "startColumn": column,
        "endLine": end_line,
        "endColumn": end_column,
        "charOffset": span.start,
        "charLength": span.end - span.start,
    }


def _uri(source: Source) -> str:
    if source.name == "-":
        return "stdin"
    return quote(Path(source.name).as_posix(), safe="/:#")


def _level(severity: Severity) -> str:
    return "error" if severity is Severity.ERROR else "warning"
