"""What is open in the editor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lsprotocol.types import (
    TextDocumentContentChangeEvent,
    TextDocumentContentChangePartial,
    TextDocumentItem,
)

from pearl.lsp.names import Mention, mentions
from pearl.lsp.places import Lines
from pearl.source import Source
from pearl.syntax import Parsed, ParsedLibrary, parse, parse_library


class Kind(Enum):
    """What a document holds."""

    PLAN = auto()
    LIBRARY = auto()


@dataclass(frozen=True)
class Document:
    """One version of a text that is open. What is read of it is read once.

    Args:
        uri: its name, as the editor writes it.
        version: the editor's number of this version.
        kind: what it holds.
        text: the characters.
        encoding: what the editor counts a line's characters in.
    """

    uri: str
    version: int | None
    kind: Kind
    text: str
    encoding: str = "utf-16"

    @cached_property
    def path(self) -> Path | None:
        """The file, where it is one."""
        return path_of(self.uri)

    @cached_property
    def source(self) -> Source:
        """The text under the name that messages use."""
        return Source(self.path.name if self.path else self.uri, self.text)

    @cached_property
    def lines(self) -> Lines:
        """The text as the editor counts it."""
        return Lines(self.text, self.encoding)

    @cached_property
    def plan(self) -> Parsed:
        """The text read as a plan."""
        return parse(self.source)

    @cached_property
    def library(self) -> ParsedLibrary:
        """The text read as a library."""
        return parse_library(self.source)

    @cached_property
    def mentions(self) -> tuple[Mention, ...]:
        """Every name that the plan writes, in order."""
        return mentions(self.plan)

    def at(self, offset: int) -> Mention | None:
        """The name of the plan that an offset is in, or else the one that ends there."""
        touching = [one for one in self.mentions if one.span.start <= offset <= one.span.end]
        return touching[-1] if touching else None


def opened(item: TextDocumentItem, encoding: str) -> Document | None:
    """A text as it was opened; nothing where it is neither a plan nor a library."""
    kind = _kind(item.uri, item.language_id)
    return Document(item.uri, item.version, kind, item.text, encoding) if kind else None


def changed(
    document: Document, version: int | None, changes: Iterable[TextDocumentContentChangeEvent]
) -> Document:
    """The next version of a document."""
    text = document.text
    for change in changes:
        if isinstance(change, TextDocumentContentChangePartial):
            span = Lines(text, document.encoding).span(change.range)
            text = text[: span.start] + change.text + text[span.end :]
        else:
            text = change.text
    return replace(document, version=version, text=text)


def path_of(uri: str) -> Path | None:
    """The file that a name stands for; nothing where it stands for no file."""
    try:
        parts = urlsplit(uri)
        if parts.scheme != "file":
            return None
        return Path(unquote(parts.path, errors="surrogateescape")).resolve()
    except (ValueError, OSError, RuntimeError):
        # A name can be anything: half an address, a NUL, a loop of links.
        return None


def _kind(uri: str, language: str) -> Kind | None:
    ending = uri.rpartition(".")[2].lower()
    for name, kind in (("plan", Kind.PLAN), ("actions", Kind.LIBRARY)):
        if ending == name or language == f"pearl-{name}":
            return kind
    return None
