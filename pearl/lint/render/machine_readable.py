"""For programs: JSON, an object a finding; SARIF 2.1.0, for code scanning; and GitHub's commands,
which annotate changed lines."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pearl.lang.diagnostics import Diagnostic, Fix, Label, Renderer, Severity, SourceFindings
from pearl.lang.errors import UnreadableError
from pearl.lang.source import NOWHERE, Source, Span
from pearl.lang.text import json_text, printable
from pearl.lint.rules import RULES

_DEPTH = 8
"""The indentation of the results in a SARIF log, in spaces."""

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def _as_findings(
    part: Callable[[SourceFindings], str], unreadable: Iterable[UnreadableError]
) -> Iterator[str]:
    """Texts that cannot be read, as parts of a format that has only findings. Lazy, as they are
    known only at the end."""
    for error in unreadable:
        found = Diagnostic("unreadable", "unreadable", Severity.ERROR, NOWHERE, str(error))
        yield part(SourceFindings(Source(error.name, ""), [found]))


def _elements(data: Iterable[Any], depth: int) -> str:
    """JSON data as elements of an array, indented by ``depth`` spaces."""
    margin = depth * " "
    texts = (json_text(item).rstrip("\n").replace("\n", f"\n{margin}") for item in data)
    return ",\n".join(f"{margin}{text}" for text in texts)


def _array(parts: Iterable[str], depth: int, head: str, tail: Callable[[], str]) -> Iterator[str]:
    """Parts, as `_elements` gives them with this depth, as a JSON array, after the text ``head``;
    ``tail`` gives the text after it, once the array is written."""
    between = f"{head}[\n"
    for part in parts:
        yield between + part
        between = ",\n"
    closed = f"\n{(depth - 2) * ' '}]" if between == ",\n" else f"{head}[]"
    yield closed + tail()


def as_object(diagnostic: Diagnostic, source: Source) -> dict[str, Any]:
    """One finding as JSON data."""
    fix = diagnostic.fix
    return {
        "code": diagnostic.code,
        "name": diagnostic.name,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "help": diagnostic.help,
        "file": source.name,
        **_offsets(diagnostic.span, source),
        "labels": [
            {"text": label.text, **_offsets(label.span, source)} for label in diagnostic.labels
        ],
        "data": dict(diagnostic.data),
        "fix": {
            "title": fix.title,
            "safety": str(fix.safety),
            "edits": [{"text": edit.text, **_offsets(edit.span, source)} for edit in fix.edits],
        }
        if fix
        else None,
    }


def _offsets(span: Span, source: Source) -> dict[str, Any]:
    ends = ("line", "column", "end_line", "end_column")
    return {"span": [*span], **dict(zip(ends, source.place(span), strict=True))}


def _log(
    parts: Iterable[str], used: Collection[str], unreadable: Iterable[UnreadableError]
) -> Iterator[str]:
    """A SARIF log with one run, whose rules come after its results."""
    head = _around((), ()).partition("[]")[0]
    return _array(parts, _DEPTH, head, lambda: _around(used, unreadable).partition("[]")[2])


def _around(used: Collection[str], unreadable: Iterable[UnreadableError]) -> str:
    from importlib.metadata import version

    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "columnKind": "unicodeCodePoints",
                "results": [],
                "invocations": [_invocation(unreadable)],
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
                                "defaultConfiguration": {"level": rule.severity},
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


def _invocation(unreadable: Iterable[UnreadableError]) -> dict[str, Any]:
    """Whether everything was read, and what was not."""
    notifications = [
        {
            "level": "error",
            "message": {"text": str(error)},
            "locations": [{"physicalLocation": _location(NOWHERE, Source(error.name, ""))}],
        }
        for error in unreadable
    ]
    unread = {"toolExecutionNotifications": notifications} if notifications else {}
    return {"executionSuccessful": not notifications, **unread}


def _result(diagnostic: Diagnostic, source: Source) -> dict[str, Any]:
    text = f"{diagnostic.message} {diagnostic.help}".strip()
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "level": diagnostic.severity,
        "message": {"text": text},
        "locations": [{"physicalLocation": _location(diagnostic.span, source)}],
    }
    if diagnostic.labels:
        result["relatedLocations"] = _related(diagnostic.labels, source)
    if diagnostic.fix and not source.row:
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
    if row := source.row:
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


def _commands(report: SourceFindings) -> str:
    """One ``::error`` or ``::warning`` line a finding."""
    lines = []
    for item in report.diagnostics:
        # What cannot be read breaks no rule: its code is its name.
        title = _property(" ".join(dict.fromkeys((item.code, item.name))))
        text = _message(f"{item.message} {item.help}".strip())
        lines.append(f"::{item.severity} {_place(item, report.source)},title={title}::{text}\n")
    return "".join(lines)


def _place(diagnostic: Diagnostic, source: Source) -> str:
    if row := source.row:
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


def _objects(report: SourceFindings) -> str:
    return _elements((as_object(item, report.source) for item in report.diagnostics), 2)


JSON = Renderer(
    _objects,
    lambda parts, _, unreadable: _array(
        chain(parts, _as_findings(_objects, unreadable)), 2, "", lambda: "\n"
    ),
)
SARIF = Renderer(
    lambda report: _elements((_result(item, report.source) for item in report.diagnostics), _DEPTH),
    _log,
)
GITHUB = Renderer(
    _commands, lambda parts, _, unreadable: chain(parts, _as_findings(_commands, unreadable))
)
