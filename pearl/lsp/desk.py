"""What the server knows: the open documents, their projects, the editor's abilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pearl import resources
from pearl.library import DEFAULT, library_source
from pearl.lsp.documents import Document, Kind
from pearl.lsp.places import Lines
from pearl.lsp.shelf import Book, Settings, Shelf, put_together
from pearl.source import InputError
from pearl.syntax import parse_library

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
        names = settings.libraries or DEFAULT
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
        file = resources.actions().get(name, Path(name))
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
