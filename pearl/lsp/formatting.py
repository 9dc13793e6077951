"""A document in canonical form."""

from __future__ import annotations

from lsprotocol import types

from pearl.layout import layout, layout_library
from pearl.lsp.desk import Desk
from pearl.lsp.documents import Kind
from pearl.lsp.edits import rewritten
from pearl.lsp.refusals import refused
from pearl.source import InputError


def formatting(desk: Desk, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
    """What `pearl fmt` would change.

    Raises:
        JsonRpcException: a line cannot be read.
    """
    document = desk.documents.get(params.text_document.uri)
    if not document:
        return None
    if not document.text.strip():
        return []
    canonical = layout if document.kind is Kind.PLAN else layout_library
    try:
        text = canonical(document.source)
    except InputError as error:
        raise refused(str(error)) from None
    return rewritten(document, text)
