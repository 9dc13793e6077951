"""Quick fixes, and one action for every safe one."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from lsprotocol import types

from pearl.checker import fix
from pearl.diagnostics import Diagnostic, Edit, Fix, Safety
from pearl.lsp.desk import Desk
from pearl.lsp.documents import Document, Kind
from pearl.lsp.edits import rewritten, workspace_edit
from pearl.lsp.findings import as_diagnostic, find
from pearl.lsp.shelf import Shelf
from pearl.screen import printable
from pearl.source import Source

FIX_ALL = "source.fixAll.pearl"
OPTIONS = types.CodeActionOptions([types.CodeActionKind.QuickFix, FIX_ALL])


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
