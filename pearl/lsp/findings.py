"""What the rules say about a document, for an editor.

Quick fixes, and one action for every safe one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from lsprotocol import types

from pearl.lang.diagnostics import Diagnostic, Edit, Fix, Safety, Severity
from pearl.lang.source import Source
from pearl.lang.text import printable
from pearl.lint.checker import check, check_library, fix
from pearl.lsp.documents import Document, Kind
from pearl.lsp.session import Desk, Shelf, rewritten, workspace_edit

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


FIX_ALL = "source.fixAll.pearl"
OPTIONS: types.CodeActionOptions = types.CodeActionOptions([types.CodeActionKind.QuickFix, FIX_ALL])


def code_actions(desk: Desk, params: types.CodeActionParams) -> list[types.CodeAction] | None:
    """The fixes for what is found in a range, safe ones first, and the fix for everything."""
    document = desk.documents.get(params.text_document.uri)
    if not document:
        return None
    shelf = desk.shelf(document)
    offered: list[types.CodeAction] = []
    if _wanted(types.CodeActionKind.QuickFix.value, params.context):
        offered += _quick_fixes(desk, document, shelf, params.range)
    # An editor asks by itself at every move of the cursor; mending a whole plan is too much then.
    by_itself = params.context.trigger_kind is types.CodeActionTriggerKind.Automatic
    if _wanted(FIX_ALL, params.context) and not (by_itself and not params.context.only):
        offered += _fix_all(desk, document, shelf)
    return offered


def _wanted(kind: str, context: types.CodeActionContext) -> bool:
    """Whether the editor asks for actions of a kind; a kind stands for all below it."""
    asked = [one.value if isinstance(one, Enum) else one for one in context.only or ()]
    return not asked or any(f"{kind}.".startswith(f"{one}.") for one in asked)


def _quick_fixes(
    desk: Desk, document: Document, shelf: Shelf, given: types.Range
) -> list[types.CodeAction]:
    span = document.lines.span(given)
    safe: list[types.CodeAction] = []
    unsafe: list[types.CodeAction] = []
    for found in find(document, shelf):
        if found.span.start > span.end or found.span.end < span.start:
            continue
        for chosen in _fixes(found):
            is_safe = chosen.safety is Safety.SAFE
            action = _action(desk, document, found, chosen)
            (safe if is_safe else unsafe).append(action)
    return safe + unsafe


def _fixes(found: Diagnostic) -> Iterator[Fix]:
    """The rule's own fix, or else one for each action that may have been meant."""
    if found.fix:
        yield found.fix
    elif found.code == "PRL201":
        for signature in found.data["candidates"]:
            name = signature.partition("(")[0]
            yield Fix(f"write {name}", (Edit(found.span, name),), Safety.UNSAFE)


def _action(desk: Desk, document: Document, found: Diagnostic, chosen: Fix) -> types.CodeAction:
    lines = document.lines
    is_safe = chosen.safety is Safety.SAFE
    title = chosen.title[:1].upper() + chosen.title[1:]
    edits = [types.TextEdit(lines.range(edit.span), edit.text) for edit in chosen.edits]
    return types.CodeAction(
        printable(title) if is_safe else f"{printable(title)} (unsafe: it may change the meaning)",
        kind=types.CodeActionKind.QuickFix,
        diagnostics=[as_diagnostic(document, found)],
        is_preferred=is_safe or None,
        edit=workspace_edit(desk, document, edits),
    )


def _fix_all(desk: Desk, document: Document, shelf: Shelf) -> list[types.CodeAction]:
    """What `pearl lint --fix` does; libraries have no fixes."""
    if document.kind is not Kind.PLAN or shelf.trouble:
        return []
    fixed = fix(document.source, shelf.library, shelf.selection)
    edits = rewritten(document, _unix(fixed, document))
    if not edits:
        return []
    edit = workspace_edit(desk, document, edits)
    return [types.CodeAction("Apply every safe fix", kind=FIX_ALL, edit=edit)]


def _unix(fixed: Source, document: Document) -> str:
    """A fixed text keeps the document's line endings; `rewritten` puts them in again."""
    ending = document.lines.ending
    return fixed.text.replace(ending, "\n") if ending != "\n" else fixed.text
