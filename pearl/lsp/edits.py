"""Changes to a text, in the protocol's form."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from pearl.lsp.desk import Desk
from pearl.lsp.documents import Document
from pearl.source import Span


def workspace_edit(
    desk: Desk, document: Document, edits: Sequence[types.TextEdit]
) -> types.WorkspaceEdit:
    """Changes to one document; meant for this version of it where the editor minds versions."""
    if not desk.editor.versioned:
        return types.WorkspaceEdit(changes={document.uri: list(edits)})
    known = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(known, list(edits))])


def rewritten(document: Document, text: str) -> list[types.TextEdit]:
    """What turns a document into a text: one change, of the lines that differ.

    The text's line feeds become the document's line endings.
    """
    if document.lines.ending != "\n":
        text = text.replace("\n", document.lines.ending)
    old, new = document.text, text
    if old == new:
        return []
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    head = _alike(before, after)
    tail = _alike(before[head:][::-1], after[head:][::-1])
    start = sum(map(len, before[:head]))
    end = len(old) - sum(map(len, before[len(before) - tail :]))
    changed = "".join(after[head : len(after) - tail])
    return [types.TextEdit(document.lines.range(Span(start, end)), changed)]


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines two texts have alike at their start."""
    count = 0
    for mine, yours in zip(one, other, strict=False):
        if mine != yours:
            break
        count += 1
    return count
