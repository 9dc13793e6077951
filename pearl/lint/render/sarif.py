"""For code scanning: SARIF 2.1.0."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pearl.lang.diagnostics import Diagnostic, Fix, Label, Severity
from pearl.lang.source import Source, Span
from pearl.lang.text import json_text
from pearl.lint.render.report import Renderer, array, elements, place_of_row
from pearl.lint.rules import RULES

_DEPTH = 8

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def _log(parts: Iterable[str], used: Collection[str]) -> Iterator[str]:
    """A SARIF log with one run, whose rules are told after its results."""
    head = _around(()).partition("[]")[0]
    return array(parts, _DEPTH, head, lambda: _around(used).partition("[]")[2])


def _around(used: Collection[str]) -> str:
    from importlib.metadata import version

    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "columnKind": "unicodeCodePoints",
                "results": [],
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
                            for rule in RULES
                            if rule.code in used
                        ],
                    }
                },
            }
        ],
    }
    return json_text(log)


render = Renderer(
    lambda report: elements((_result(item, report.source) for item in report.diagnostics), _DEPTH),
    _log,
)


def _result(diagnostic: Diagnostic, source: Source) -> dict[str, Any]:
    text = f"{diagnostic.message} {diagnostic.help}".strip()
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "level": _level(diagnostic.severity),
        "message": {"text": text},
        "locations": [{"physicalLocation": _location(diagnostic.span, source)}],
    }
    if diagnostic.labels:
        result["relatedLocations"] = _related(diagnostic.labels, source)
    if diagnostic.fix and not place_of_row(source):
        result["fixes"] = [_fix(diagnostic.fix, source)]
    return result


def _related(labels: Sequence[Label], source: Source) -> list[dict[str, Any]]:
    """The places of labels, each once, as the schema has it: a row is one place."""
    places: list[dict[str, Any]] = []
    for label in labels:
        place = {"physicalLocation": _location(label.span, source), "message": {"text": label.text}}
        if place not in places:
            places.append(place)
    return places


def _fix(fix: Fix, source: Source) -> dict[str, Any]:
    return {
        "description": {"text": fix.title},
        "artifactChanges": [
            {
                "artifactLocation": {"uri": _uri(source.name)},
                "replacements": [
                    {
                        "deletedRegion": _region(edit.span, source),
                        "insertedContent": {"text": edit.text},
                    }
                    for edit in fix.edits
                ],
            }
        ],
    }


def _location(span: Span, source: Source) -> dict[str, Any]:
    row = place_of_row(source)
    if row:
        return {"artifactLocation": {"uri": _uri(row[0])}, "region": {"startLine": row[1]}}
    return {"artifactLocation": {"uri": _uri(source.name)}, "region": _region(span, source)}


def _region(span: Span, source: Source) -> dict[str, Any]:
    ends = ("startLine", "startColumn", "endLine", "endColumn")
    size = {"charOffset": span.start, "charLength": span.end - span.start}
    return {**dict(zip(ends, source.place(span), strict=True)), **size}


def _uri(name: str) -> str:
    if name == "-":
        return "stdin"
    path = Path(name)
    if path.is_absolute():
        return path.as_uri()
    # The colon too: before the first slash it would make the rest a scheme.
    return quote(path.as_posix().encode("utf-8", "surrogateescape"), safe="/")


def _level(severity: Severity) -> str:
    return "error" if severity is Severity.ERROR else "warning"
