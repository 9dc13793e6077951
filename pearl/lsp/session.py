"""What the server knows: the open documents, their projects, the editor's abilities.

The actions that a plan in the editor may call, and where each is written.

Changes to a text, in the protocol's form.

How the server says that it does not do what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from lsprotocol import types
from lsprotocol.types import LSPErrorCodes
from pygls.exceptions import JsonRpcException

from pearl.lang.ast import Action
from pearl.lang.library import DEFAULT as SHIPPED
from pearl.lang.library import Library, builtins, library_source, parse_library
from pearl.lang.source import InputError, Span, shipped_actions
from pearl.lang.text import printable
from pearl.lint.checker import DEFAULT, Selection
from pearl.lsp.documents import Document, Kind, Lines


@dataclass(frozen=True, slots=True)
class Settings:
    """What a project says about its plans.

    Args:
        libraries: names or paths of action libraries; none means Pearl's own.
        selection: which rules speak.
    """

    libraries: tuple[str, ...] = ()
    selection: Selection = DEFAULT


@dataclass(frozen=True)
class Book:
    """A library's text, and what is read of it.

    Args:
        name: as messages call it.
        uri: where an editor finds it; empty where it is no file.
        lines: the text.
        actions: what it declares, in order.
    """

    name: str
    uri: str
    lines: Lines
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Shelf:
    """The libraries of a plan, put together.

    Args:
        library: the actions by name.
        origins: the book each action is from, by the action's own name.
        selection: which rules speak.
        trouble: what cannot be read of the project's settings and libraries.
    """

    library: Library
    origins: Mapping[str, Book]
    selection: Selection = DEFAULT
    trouble: tuple[str, ...] = ()


def put_together(
    names: Sequence[str], books: Sequence[Book], core: Book, settings: Settings, trouble: list[str]
) -> Shelf:
    """A shelf of books, later ones over earlier ones, as `pearl.library.load_library` has it.

    Args:
        names: the books' names, as they were asked for.
        books: what could be read of them.
        core: the book that the builtins are from.
        settings: whose they are.
        trouble: what could not be read.
    """
    own = builtins()
    actions = dict(own)
    origins = dict.fromkeys(own, core)
    for book in books:
        for action in book.actions:
            if action.name not in own:
                actions[action.name] = action
                origins[action.name] = book
    library = Library(tuple(names), MappingProxyType(actions))
    return Shelf(library, MappingProxyType(origins), settings.selection, tuple(trouble))


SettingsOf = Callable[[Path], Settings]
"""The settings of the project that a folder is in; raises `InputError`."""


@dataclass(frozen=True, slots=True)
class Editor:
    """What the editor can do.

    Args:
        encoding: what it counts a line's characters in.
        snippets: it fills in a snippet's blanks one by one.
        markdown: it shows Markdown.
        versioned: it takes edits that name the version they are meant for.
        watches: it tells of files that change on the disk, when asked to.
        folder: its working folder.
    """

    encoding: str = "utf-16"
    snippets: bool = False
    markdown: bool = False
    versioned: bool = False
    watches: bool = False
    folder: Path | None = None


class Desk:
    """What is open, and what it is checked with.

    Args:
        settings_of: reads the settings of a folder's project.
    """

    def __init__(self, settings_of: SettingsOf) -> None:
        self.editor = Editor()
        self.documents: dict[str, Document] = {}
        self._settings_of = settings_of
        # What was read of a library, beside what tells whether it has changed.
        self._books: dict[str, tuple[object, Book]] = {}

    def plan(self, uri: str) -> Document | None:
        """The open plan of this name."""
        found = self.documents.get(uri)
        return found if found and found.kind is Kind.PLAN else None

    def plans(self) -> Iterator[Document]:
        """Every open plan."""
        return (one for one in self.documents.values() if one.kind is Kind.PLAN)

    def shelf(self, document: Document) -> Shelf:
        """The actions a document may call, as they stand now: on the disk, or unsaved."""
        trouble: list[str] = []
        settings = self._settings(document, trouble)
        names = settings.libraries or SHIPPED
        books: list[Book] = []
        for name in names:
            try:
                book = self._book(name)
            except InputError as error:
                trouble.append(str(error))
                continue
            books.append(book)
            if not book.actions:
                trouble.append(
                    f"{book.name} holds no action: write lines such as F(CTX) : Find it."
                )
        return put_together(names, books, self._book("core"), settings, trouble)

    def folder(self, document: Document) -> Path:
        """The folder whose project a document belongs to."""
        if document.path:
            return document.path.parent
        return self.editor.folder or Path.cwd()

    def _settings(self, document: Document, trouble: list[str]) -> Settings:
        try:
            return self._settings_of(self.folder(document))
        except InputError as error:
            trouble.append(str(error))
            return Settings()

    def _book(self, name: str) -> Book:
        """A library as it stands in the editor, or else on the disk."""
        file = shipped_actions().get(name, Path(name))
        path = file.resolve() if isinstance(file, Path) else None
        open_now = next((one for one in self.documents.values() if path and one.path == path), None)
        stamp: object = open_now or _stamp(path)
        known = self._books.get(name)
        if known and known[0] == stamp:
            return known[1]
        if open_now:
            book = Book(path_name(path), open_now.uri, open_now.lines, open_now.library.actions)
        else:
            book = self._read(name, path)
        self._books[name] = (stamp, book)
        return book

    def _read(self, name: str, path: Path | None) -> Book:
        source = library_source(name)
        lines = Lines(source.text, self.editor.encoding)
        uri = path.as_uri() if path else ""
        return Book(path_name(path) or source.name, uri, lines, parse_library(source).actions)


def path_name(path: Path | None) -> str:
    """A file's name without its folders; nothing of no file."""
    return path.name if path else ""


def _stamp(path: Path | None) -> object:
    """What changes when a file does."""
    if path is None:
        return None
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return None
    return stat.st_mtime_ns, stat.st_size


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


def refused(message: str) -> JsonRpcException:
    """The error that an editor shows as one line."""
    return JsonRpcException(printable(message), code=LSPErrorCodes.RequestFailed.value)
