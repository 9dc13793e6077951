"""What the rules say about a document, for an editor."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from pearl.checker import check, check_library
from pearl.diagnostics import Diagnostic, Severity
from pearl.lsp.documents import Document, Kind
from pearl.lsp.shelf import Shelf
from pearl.screen import printable

MOST = 1000
"""More findings than anybody reads; a text that is no plan at all may have one a line."""

_SYNTAX = "PRL1"
_FADED = ("PRL406",)
"""Rules about text that could go."""


def find(document: Document, shelf: Shelf) -> list[Diagnostic]:
    """What the rules say about a document, in the order of its text.

    An empty one is not begun yet, and nothing is said about it. Where the
    library cannot be read, only the form of a plan is judged.

    Args:
        document: a plan or a library.
        shelf: what it is checked with.
    """
    if not document.text.strip():
        return []
    if document.kind is Kind.LIBRARY:
        return check_library(document.source, shelf.selection)
    found = check(document.plan, shelf.library, shelf.selection)
    if shelf.trouble:
        found = [one for one in found if one.code.startswith(_SYNTAX)]
    return found


def shown(document: Document, found: Sequence[Diagnostic], shelf: Shelf) -> list[types.Diagnostic]:
    """Findings in the protocol's form, what cannot be read of the project first."""
    first = document.lines.range(document.lines.line_span(0))
    told = [
        types.Diagnostic(first, printable(said), types.DiagnosticSeverity.Error, source="pearl")
        for said in (shelf.trouble if document.kind is Kind.PLAN else ())
    ]
    told += [as_diagnostic(document, one) for one in found[:MOST]]
    if len(found) > MOST:
        rest = f"{len(found) - MOST} more findings are not shown: pearl lint prints all of them."
        information = types.DiagnosticSeverity.Information
        told.append(types.Diagnostic(first, rest, information, source="pearl"))
    return told


def as_diagnostic(document: Document, found: Diagnostic) -> types.Diagnostic:
    """One finding in the protocol's form."""
    severity = types.DiagnosticSeverity.Warning
    if found.severity is Severity.ERROR:
        severity = types.DiagnosticSeverity.Error
    told = f"{found.message}\n{found.help}" if found.help else found.message
    return types.Diagnostic(
        range=document.lines.range(found.span),
        message="\n".join(map(printable, told.split("\n"))),
        severity=severity,
        code=found.code,
        source="pearl",
        tags=[types.DiagnosticTag.Unnecessary] if found.code in _FADED else None,
        related_information=[
            types.DiagnosticRelatedInformation(
                types.Location(document.uri, document.lines.range(label.span)),
                printable(label.text),
            )
            for label in found.labels
        ]
        or None,
    )
