"""The language server: which function answers which request, and how messages are handled."""

import gc
import logging
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, BinaryIO

from lsprotocol import types
from lsprotocol.types import EXIT, LSPErrorCodes
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import RPCMessage, RPCRequest

from pearl.lang.errors import InputError
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import TextKind
from pearl.lsp import findings, hover_and_completion
from pearl.lsp.findings import PendingChecks
from pearl.lsp.workspace import (
    Document,
    Editor,
    LanguageSession,
    SettingsOf,
    edit_document,
    open_document,
    path_of,
)

logger = logging.getLogger(__name__)

Answer = Callable[[LanguageSession, Document, Any], Any]

ANSWERS: Mapping[str, Answer] = MappingProxyType(
    {
        types.TEXT_DOCUMENT_CODE_ACTION: findings.code_actions,
        types.TEXT_DOCUMENT_COMPLETION: hover_and_completion.completion,
        types.TEXT_DOCUMENT_DEFINITION: hover_and_completion.definition,
        types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: hover_and_completion.outline,
        types.TEXT_DOCUMENT_FORMATTING: findings.formatting,
        types.TEXT_DOCUMENT_HOVER: hover_and_completion.hover,
        types.TEXT_DOCUMENT_PREPARE_RENAME: hover_and_completion.prepare_rename,
        types.TEXT_DOCUMENT_REFERENCES: hover_and_completion.references,
        types.TEXT_DOCUMENT_RENAME: hover_and_completion.rename,
    }
)
"""The function that answers each request about an open document; other documents have no answer."""

_OPTIONS: Mapping[str, Any] = MappingProxyType(
    {
        types.TEXT_DOCUMENT_CODE_ACTION: findings.OPTIONS,
        types.TEXT_DOCUMENT_COMPLETION: hover_and_completion.COMPLETION_OPTIONS,
        types.TEXT_DOCUMENT_RENAME: types.RenameOptions(prepare_provider=True),
    }
)
_WATCHED = ("**/*.actions", "**/pyproject.toml")


def _is_refusal(error: BaseException | None) -> bool:
    return getattr(error, "code", None) == LSPErrorCodes.RequestFailed.value


class Protocol(LanguageServerProtocol):
    """The protocol, changed so that every request is answered, if only with an error.

    pygls does not answer requests that cannot be read, or come after the shutdown.
    """

    @property
    def was_shut_down(self) -> bool:
        """Whether the editor sent a shutdown request before it ended the connection."""
        return self._shutdown

    def structure_message(self, data: dict[str, Any]) -> Any:  # noqa: ANN401 - as pygls'
        """A message from JSON; an invalid one is answered with an error, which is also raised."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if isinstance(data.get("id"), str | int) and "method" in data:
                self._send_response(data["id"], None, error.to_response_error())
            raise

    def handle_message(self, message: RPCMessage) -> None:
        """Answer a message, also one that comes after the shutdown."""
        if not hasattr(message, "jsonrpc"):
            logger.warning("What came is no message of the protocol, and is passed over.")
            return
        if self._shutdown and isinstance(message, RPCRequest) and message.method != EXIT:
            error = JsonRpcInvalidRequest("The server is shut down: start it anew.")
            self._send_response(message.id, None, error.to_response_error())
            return
        super().handle_message(message)


class Server(LanguageServer):
    """The server, which reports its own errors on standard error, not in the editor's window."""

    protocol: Protocol

    def report_server_error(self, error: Exception, source: type[Exception]) -> None:
        """Log an error on standard error, unless it is a refusal that the editor shows."""
        if not _is_refusal(error):
            logger.warning("%s: %s", type(error).__name__, error)


LARGEST = 1 << 28
"""The most bytes of a message."""

HEADER = 1_000
"""The most bytes of a header line; a longer one is read as several, which are ignored."""


class MessageStream:
    """The stream of an editor's messages, with limits on their size."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readline(self) -> bytes:
        """A line of a message's head."""
        return self._stream.readline(HEADER)

    def read(self, size: int) -> bytes:
        """A message's body.

        Raises:
            InputError: it is too large. It is not skipped, so no later message can be read.
        """
        if size > LARGEST:
            raise InputError(
                f"A message of {size:,} bytes is announced on standard input, and none may have "
                f"more than {LARGEST:,}: start the server anew."
            )
        return self._stream.read(size)


def serve(settings_of: SettingsOf) -> bool:
    """Answer an editor on standard input and output until it ends the connection.

    Args:
        settings_of: reads the settings of a folder's project.

    Returns:
        Whether the editor sent a shutdown request before, as the protocol demands.

    Raises:
        InputError: a message is too large to be an editor's.
    """
    from importlib.metadata import version

    session = LanguageSession(settings_of)
    server = Server("pearl", version("pearl"), protocol_cls=Protocol)
    checks = PendingChecks(session, server.text_document_publish_diagnostics)
    # pygls would log each refusal as an exception.
    logging.getLogger("pygls.protocol.json_rpc").addFilter(
        lambda record: not (record.exc_info and _is_refusal(record.exc_info[1]))
    )

    def answered(answer: Answer, params: Any) -> Any:  # noqa: ANN401 - each has its own
        document = session.documents.get(params.text_document.uri)
        return answer(session, document, params) if document else None

    for method, answer in ANSWERS.items():
        server.feature(method, _OPTIONS.get(method))(partial(answered, answer))
    _begin(server, session)
    _follow(server, session, checks)
    try:
        server.start_io(MessageStream(sys.stdin.buffer))  # type: ignore[arg-type]
    finally:
        checks.close()
    return server.protocol.was_shut_down


def _begin(server: Server, session: LanguageSession) -> None:
    """Learn the editor's capabilities, and have it watch libraries and settings."""

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        folders = params.workspace_folders or []

        def can(ability: str) -> Any:  # noqa: ANN401 - as the protocol has it
            return get_capability(params.capabilities, ability)

        session.editor = Editor(
            types.PositionEncodingKind(server.workspace.position_encoding).value,
            bool(can("text_document.completion.completion_item.snippet_support")),
            types.MarkupKind.Markdown in (can("text_document.hover.content_format") or []),
            bool(can("workspace.workspace_edit.document_changes")),
            bool(can("workspace.did_change_watched_files.dynamic_registration")),
            path_of(folders[0].uri if folders else params.root_uri or ""),
        )

    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        if session.editor.watches:
            watchers = [types.FileSystemWatcher(pattern) for pattern in _WATCHED]
            options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = types.Registration("pearl-files", method, options)
            server.client_register_capability(types.RegistrationParams([registration]))
        # The parsers are loaded now, and permanent objects are hidden from the garbage collector:
        # scanning the protocol's types again and again doubles the time of the slowest checks.
        load_library()
        parse("a = F(CTX)")
        gc.collect()
        gc.freeze()


def _follow(server: Server, session: LanguageSession, checks: PendingChecks) -> None:
    """Keep the documents up to date with the editor, and check them."""
    # pygls keeps texts too, but ends lines where the protocol does not (form feeds, U+2028).
    for method in (
        types.TEXT_DOCUMENT_DID_OPEN,
        types.TEXT_DOCUMENT_DID_CHANGE,
        types.TEXT_DOCUMENT_DID_CLOSE,
    ):
        server.protocol.fm.builtin_features.pop(method)

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        if document := open_document(params.text_document, session.editor.encoding):
            session.documents[document.uri] = document
            checks.soon(document, delay=0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        if document := session.documents.get(params.text_document.uri):
            document = edit_document(document, params.text_document.version, params.content_changes)
            session.documents[document.uri] = document
            checks.soon(document)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        if document := session.documents.pop(params.text_document.uri, None):
            checks.forget(document)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def did_change_files(_: types.DidChangeWatchedFilesParams) -> None:
        for document in list(session.documents.values()):
            if document.kind is TextKind.LIBRARY:
                checks.soon(document)
        checks.every_plan()
