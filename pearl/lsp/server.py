"""The server: which function answers which request.

What pygls leaves open: requests that cannot be read, or come too late, are answered too.

A document in canonical form.

The outline of a document.

Checks documents while they are typed in.

A check starts when nothing was typed for `DELAY` seconds, on a thread of its
own, so that the server goes on reading. What is found of a version that is no
longer the newest is dropped.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Any

from lsprotocol import types
from lsprotocol.types import EXIT, LSPErrorCodes
from pygls.exceptions import JsonRpcException, JsonRpcInvalidRequest
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import RPCMessage, RPCRequest

from pearl.lang.ast import Action, Plan, Step
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.printer import format_library, format_plan, print_call
from pearl.lang.source import InputError, Span
from pearl.lang.text import printable
from pearl.lsp import completion, hover
from pearl.lsp import findings as fixes
from pearl.lsp import navigation as rename
from pearl.lsp import navigation as targets
from pearl.lsp.documents import NAME, Document, Kind, changed, opened, path_of
from pearl.lsp.findings import find, shown
from pearl.lsp.hover import cut, signature
from pearl.lsp.session import Desk, Editor, SettingsOf, Shelf, refused, rewritten

logger = logging.getLogger(__name__)


def is_trouble(record: logging.LogRecord) -> bool:
    """Whether something went wrong; pygls would log each refusal as an exception."""
    return not (record.exc_info and _is_refusal(record.exc_info[1]))


def _is_refusal(error: BaseException | None) -> bool:
    return getattr(error, "code", None) == LSPErrorCodes.RequestFailed.value


class Protocol(LanguageServerProtocol):
    """The protocol; a request always has an answer, if only an error."""

    @property
    def was_shut_down(self) -> bool:
        """Whether the editor took its leave before it ended the connection."""
        return self._shutdown

    def structure_message(self, data: dict[str, Any]) -> Any:  # noqa: ANN401 - as pygls'
        """A message from JSON; one that is none is answered, and raised."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if isinstance(data.get("id"), str | int) and "method" in data:
                self._send_response(data["id"], None, error.to_response_error())
            raise

    def handle_message(self, message: RPCMessage) -> None:
        """Answer a message, also one that comes after the shutdown."""
        if self._shutdown and isinstance(message, RPCRequest) and message.method != EXIT:
            error = JsonRpcInvalidRequest("The server is shut down: start it anew.")
            self._send_response(message.id, None, error.to_response_error())
            return
        super().handle_message(message)


class Server(LanguageServer):
    """The server; what goes wrong inside it is told on standard error, not in a window."""

    protocol: Protocol

    def report_server_error(self, error: Exception, source: type[Exception]) -> None:
        """Say on standard error what went wrong."""
        if not _is_refusal(error):
            logger.warning("%s: %s", type(error).__name__, error)


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
    canonical = format_plan if document.kind is Kind.PLAN else format_library
    try:
        text = canonical(document.source)
    except InputError as error:
        raise refused(str(error)) from None
    return rewritten(document, text)


_LONGEST = 100


def symbols(desk: Desk, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol] | None:
    """A plan's new actions and steps, or a library's actions."""
    document = desk.documents.get(params.text_document.uri)
    if not document:
        return None
    if document.kind is Kind.LIBRARY:
        return _actions(document, document.library.actions)
    plan: Plan = document.plan.plan
    return [
        *(_action(document, one, one.span) for one in plan.declares),
        *(_step(document, one) for one in plan.steps),
    ]


def _step(document: Document, step: Step) -> types.DocumentSymbol:
    called = print_call(step).removeprefix(f"{step.name} = ")
    return types.DocumentSymbol(
        printable(step.name),
        types.SymbolKind.Variable,
        document.lines.range(step.span),
        document.lines.range(step.name_span),
        printable(cut(called, _LONGEST)),
    )


def _actions(document: Document, actions: Sequence[Action]) -> list[types.DocumentSymbol]:
    """Each action with the lines below it that belong to it."""
    ends = [*(one.span.start for one in actions[1:]), len(document.text)]
    found = []
    for action, end in zip(actions, ends, strict=False):
        start = action.span.start
        below = document.text[start:end].splitlines(keepends=True)
        # Comments above the next action are its own.
        while len(below) > 1 and not (below[-1].strip() and below[-1][0] in " \t"):
            below.pop()
        whole = Span(start, max(action.span.end, start + len("".join(below).rstrip())))
        found.append(_action(document, action, whole))
    return found


def _action(document: Document, action: Action, whole: Span) -> types.DocumentSymbol:
    name = NAME.match(document.text, action.span.start)
    return types.DocumentSymbol(
        printable(action.name),
        types.SymbolKind.Function,
        document.lines.range(whole),
        document.lines.range(Span(*name.span()) if name else action.span),
        printable(cut(signature(action).removeprefix(action.name), _LONGEST)),
    )


DELAY = 0.01
"""Long enough for a paste or a change in many places to arrive in full, too short to be felt."""

Publish = Callable[[types.PublishDiagnosticsParams], None]


class Checks:
    """The checks that are due, one a document.

    Args:
        desk: the documents.
        publish: sends what is found.
    """

    def __init__(self, desk: Desk, publish: Publish) -> None:
        self._desk = desk
        self._publish = publish
        self._due: dict[str, asyncio.Task[None]] = {}
        self._pool = ThreadPoolExecutor(1, "pearl-check")

    def soon(self, document: Document, delay: float = DELAY) -> None:
        """Check a document, and what depends on it, when nothing is typed any more."""
        self._plan_check(document, delay)
        if document.kind is Kind.LIBRARY:
            self.every_plan(delay)

    def every_plan(self, delay: float = DELAY) -> None:
        """Check all open plans: what they are checked with has changed."""
        for plan in self._desk.plans():
            self._plan_check(plan, delay)

    def forget(self, document: Document) -> None:
        """Take back what was said about a document that is closed."""
        self._cancel(document.uri)
        self._publish(types.PublishDiagnosticsParams(document.uri, []))
        if document.kind is Kind.LIBRARY:
            self.every_plan()

    def close(self) -> None:
        """Start no more checks."""
        for uri in list(self._due):
            self._cancel(uri)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _cancel(self, uri: str) -> None:
        task = self._due.pop(uri, None)
        if task:
            task.cancel()

    def _plan_check(self, document: Document, delay: float) -> None:
        self._cancel(document.uri)
        loop = asyncio.get_running_loop()
        self._due[document.uri] = loop.create_task(self._check(document, delay))

    async def _check(self, document: Document, delay: float) -> None:
        await asyncio.sleep(delay)
        shelf = self._desk.shelf(document)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._pool, self._found, document, shelf)
        if found is not None and self._is_newest(document):
            self._publish(types.PublishDiagnosticsParams(document.uri, found, document.version))

    def _found(self, document: Document, shelf: Shelf) -> list[types.Diagnostic] | None:
        if not self._is_newest(document):
            return None
        return shown(document, find(document, shelf), shelf)

    def _is_newest(self, document: Document) -> bool:
        return self._desk.documents.get(document.uri) is document


Answer = Callable[[Desk, Any], Any]

ANSWERS: Mapping[str, Answer] = MappingProxyType(
    {
        types.TEXT_DOCUMENT_CODE_ACTION: fixes.code_actions,
        types.TEXT_DOCUMENT_COMPLETION: completion.completion,
        types.TEXT_DOCUMENT_DEFINITION: targets.definition,
        types.TEXT_DOCUMENT_DOCUMENT_SYMBOL: symbols,
        types.TEXT_DOCUMENT_FORMATTING: formatting,
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
