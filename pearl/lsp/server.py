"""The server: which function answers which request."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from lsprotocol import types

from pearl.library import load_library
from pearl.lsp import completion, fixes, formatting, hover, rename, symbols, targets
from pearl.lsp.checking import Checks
from pearl.lsp.desk import Desk, Editor, SettingsOf
from pearl.lsp.documents import Kind, changed, opened, path_of
from pearl.lsp.protocol import Protocol, Server, is_trouble
from pearl.syntax import parse

Answer = Callable[[Desk, Any], Any]

ANSWERS: Mapping[str, Answer] = MappingProxyType(
    {
        types.TEXT_DOCUMENT_CODE_ACTION: fixes.code_actions,
        types.TEXT_DOCUMENT_COMPLETION: completion.completion,
        types.TEXT_DOCUMENT_DEFINITION: targets.definition,
        types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: symbols.symbols,
        types.TEXT_DOCUMENT_FORMATTING: formatting.formatting,
        types.TEXT_DOCUMENT_HOVER: hover.hover,
        types.TEXT_DOCUMENT_PREPARE_RENAME: rename.prepare_rename,
        types.TEXT_DOCUMENT_REFERENCES: targets.references,
        types.TEXT_DOCUMENT_RENAME: rename.rename,
    }
)
"""What each request is answered by. A new feature is a file in this folder and a line here."""

_OPTIONS: Mapping[str, Any] = MappingProxyType(
    {
        types.TEXT_DOCUMENT_CODE_ACTION: fixes.OPTIONS,
        types.TEXT_DOCUMENT_COMPLETION: completion.OPTIONS,
        types.TEXT_DOCUMENT_RENAME: types.RenameOptions(prepare_provider=True),
    }
)
_WATCHED = ("**/*.actions", "**/pyproject.toml")


def serve(settings_of: SettingsOf) -> bool:
    """Answer an editor on standard input and output until it ends the connection.

    Args:
        settings_of: reads the settings of a folder's project.

    Returns:
        Whether the editor took its leave, as the protocol asks of it.
    """
    from importlib.metadata import version

    desk = Desk(settings_of)
    server = Server("pearl", version("pearl"), protocol_cls=Protocol)
    checks = Checks(desk, server.text_document_publish_diagnostics)
    logging.getLogger("pygls.protocol.json_rpc").addFilter(is_trouble)
    _answer(server, desk)
    _begin(server, desk)
    _follow(server, desk, checks)
    try:
        server.start_io()
    finally:
        checks.close()
    return server.protocol.was_shut_down


def _answer(server: Server, desk: Desk) -> None:
    for method, work in ANSWERS.items():
        server.feature(method, _OPTIONS.get(method))(_handler(work, desk))


def _handler(work: Answer, desk: Desk) -> Callable[[Any], Any]:
    def handle(params: Any) -> Any:  # noqa: ANN401 - each request has types of its own
        return work(desk, params)

    return handle


def _begin(server: Server, desk: Desk) -> None:
    """Learn what the editor can do, and have it watch the files that matter."""

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        folders = params.workspace_folders or []
        uri = folders[0].uri if folders else params.root_uri or ""
        encoding = types.PositionEncodingKind(server.workspace.position_encoding).value
        desk.editor = _editor(params.capabilities, encoding, uri)

    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        if desk.editor.watches:
            watchers = [types.FileSystemWatcher(pattern) for pattern in _WATCHED]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = types.Registration("pearl-files", method, options)
            server.client_register_capability(types.RegistrationParams([registration]))
        _settle()


def _settle() -> None:
    """Make the parsers now, and leave all that is there for good to the collector no more.

    Going through the protocol's types again and again doubles what a check takes at its slowest.
    """
    load_library()
    parse("a = F(CTX)")
    gc.collect()
    gc.freeze()


def _editor(told: types.ClientCapabilities, encoding: str, uri: str) -> Editor:
    text, workspace = told.text_document, told.workspace
    completes = text.completion.completion_item if text and text.completion else None
    edits = workspace.workspace_edit if workspace else None
    watching = workspace.did_change_watched_files if workspace else None
    formats = (text.hover.content_format if text and text.hover else None) or []
    return Editor(
        encoding=encoding,
        snippets=bool(completes and completes.snippet_support),
        markdown=types.MarkupKind.Markdown in formats,
        versioned=bool(edits and edits.document_changes),
        watches=bool(watching and watching.dynamic_registration),
        folder=path_of(uri),
    )


def _follow(server: Server, desk: Desk, checks: Checks) -> None:
    """Keep the documents as they stand in the editor, and check them."""
    # pygls keeps texts too, but ends lines where the protocol does not (form feeds, U+2028).
    ours = (
        types.TEXT_DOCUMENT_DID_OPEN,
        types.TEXT_DOCUMENT_DID_CHANGE,
        types.TEXT_DOCUMENT_DID_CLOSE,
    )
    for method in ours:
        server.protocol.fm.builtin_features.pop(method)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        document = opened(params.text_document, desk.editor.encoding)
        if document:
            desk.documents[document.uri] = document
            checks.soon(document, delay=0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        document = desk.documents.get(params.text_document.uri)
        if document:
            document = changed(document, params.text_document.version, params.content_changes)
            desk.documents[document.uri] = document
            checks.soon(document)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        document = desk.documents.pop(params.text_document.uri, None)
        if document:
            checks.forget(document)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_files(_: types.DidChangeWatchedFilesParams) -> None:
        for document in list(desk.documents.values()):
            if document.kind is Kind.LIBRARY:
                checks.soon(document)
        checks.every_plan()
