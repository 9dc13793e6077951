"""The state of the language server: open documents, the names in them, their projects' libraries,
and the editor's capabilities.

Pearl counts characters from a text's start. The protocol counts lines, and, in
a line, code units of the negotiated encoding, by default UTF-16.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from itertools import takewhile
from operator import eq
from pathlib import Path
from types import MappingProxyType
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from lsprotocol.types import LSPErrorCodes
from pygls.exceptions import JsonRpcException

from pearl.lang import logical_lines
from pearl.lang.ast import Action, Mode, Parsed, ParsedLibrary, Ref, step_refs
from pearl.lang.errors import InputError
from pearl.lang.library import DEFAULT as SHIPPED
from pearl.lang.library import Library, builtins, library_source, parse_library
from pearl.lang.parser import parse
from pearl.lang.source import Source, Span, TextKind, shipped_actions
from pearl.lang.text import printable
from pearl.lint.checker import DEFAULT, Selection

# The protocol's line endings; Python's splitlines knows more.
_ENDING = re.compile(r"\r\n|\n|\r")

NAME = re.compile(logical_lines.NAME)
"""A name as plans may write it: with a shell's dollar sign, with Markdown's backslashes."""

WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Lines:
    """A text, with conversions between offsets and an editor's positions.

    Args:
        text: the characters.
        encoding: the encoding an editor counts in: ``utf-8``, ``utf-16`` or ``utf-32``.
        starts: the offset of each line's start, if known; otherwise they are computed.
    """

    text: str
    encoding: str = "utf-16"
    starts: Sequence[int] = ()

    @cached_property
    def _starts(self) -> Sequence[int]:
        """The offset at which each line starts."""
        return self.starts or [0, *(ending.end() for ending in _ENDING.finditer(self.text))]

    def _end(self, line: int) -> int:
        """The offset at which a line ends, before its line ending."""
        if line + 1 == len(self._starts):
            return len(self.text)
        end = self._starts[line + 1] - 1
        return end - (end > self._starts[line] and self.text[end - 1 : end + 1] == "\r\n")

    def edited(self, span: Span, text: str) -> "Lines":
        """The text with a span replaced; only line starts near the span are computed again, as a
        file may have megabytes, and hundreds of edits may come at once."""
        starts, whole = self._starts, self.text[: span.start] + text + self.text[span.end :]
        grown = len(whole) - len(self.text)
        first = max(0, bisect_right(starts, span.start) - 2)
        behind = [start + grown for start in starts[bisect_right(starts, span.end) + 1 :]]
        until = behind[0] if behind else len(whole)
        endings = _ENDING.finditer(whole, starts[first], until)
        between = [ending.end() for ending in endings if ending.end() < until or not behind]
        return Lines(whole, self.encoding, (*starts[: first + 1], *between, *behind))

    def position(self, offset: int) -> types.Position:
        """The editor's position of a character offset; inside a line ending, the line's end."""
        line = bisect_right(self._starts, offset) - 1
        before = self.text[self._starts[line] : min(offset, self._end(line))]
        return types.Position(line, self._units(before))

    def offset(self, position: types.Position) -> int:
        """The character offset of an editor's position.

        Past a line's end it is the line's end, and past the text's end the
        text's end; inside a character it is the character's start.
        """
        if position.line >= len(self._starts):
            return len(self.text)
        start, end = self._starts[position.line], self._end(position.line)
        part = self.text[start:end]
        if self.encoding == "utf-32" or part.isascii():
            return min(start + position.character, end)
        units = 0
        for at, char in enumerate(part, start):
            units += self._units(char)
            if units > position.character:
                return at
        return end

    def range(self, span: Span) -> types.Range:
        """The editor's range of a span."""
        return types.Range(self.position(span.start), self.position(span.end))

    def span(self, range: types.Range) -> Span:
        """The span of an editor's range; empty where its ends are swapped."""
        start = self.offset(range.start)
        return Span(start, max(start, self.offset(range.end)))

    def line_span(self, offset: int) -> Span:
        """The line that an offset is in, without its line ending."""
        line = bisect_right(self._starts, offset) - 1
        return Span(self._starts[line], self._end(line))

    def name_span(self, action: Action) -> Span:
        """The span of an action's name in its declaration."""
        match = NAME.match(self.text, action.span.start)
        return Span(*match.span()) if match else action.span

    def _units(self, part: str) -> int:
        if self.encoding == "utf-32" or part.isascii():
            return len(part)
        if self.encoding == "utf-8":
            return len(part.encode("utf-8", "surrogatepass"))
        return len(part) + sum(char > "\uffff" for char in part)


class Role(Enum):
    """The role of a name where it stands."""

    DEFINES = auto()
    USES = auto()
    CALLS = auto()
    DECLARES = auto()


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a plan, or a word of a library, which may be an action's.

    Args:
        name: without the marks it may be written with.
        role: a step's output, a reference, a call, a new action.
        span: the name alone.
        whole: with the mode before it, and a template's braces around it.
        mode: how a reference is taken.
    """

    name: str
    role: Role
    span: Span
    whole: Span
    mode: Mode = Mode.PLAIN

    @property
    def is_variable(self) -> bool:
        """Whether it names a step's output, or another value, such as the document."""
        return self.role in (Role.DEFINES, Role.USES)


@dataclass(frozen=True)
class Document:
    """One version of an open document; it is parsed at most once.

    Args:
        uri: its URI, as the editor writes it.
        version: the editor's number of this version.
        kind: whether it is a plan or a library.
        lines: the text, with the editor's positions.
    """

    uri: str
    version: int | None
    kind: TextKind
    lines: Lines

    @property
    def text(self) -> str:
        """The characters."""
        return self.lines.text

    @cached_property
    def path(self) -> Path | None:
        """The file, where it is one."""
        return path_of(self.uri)

    @cached_property
    def source(self) -> Source:
        """The text under the name that messages use."""
        return Source(self.path.name if self.path else self.uri, self.text)

    @cached_property
    def plan(self) -> Parsed:
        """The text read as a plan."""
        return parse(self.source)

    @cached_property
    def library(self) -> ParsedLibrary:
        """The text read as a library."""
        return parse_library(self.source)

    @property
    def declares(self) -> tuple[Action, ...]:
        """The actions that a library, or a plan itself, declares."""
        return self.plan.plan.declares if self.kind is TextKind.PLAN else self.library.actions

    def location(self, span: Span) -> types.Location:
        """A span of this document as the protocol's location."""
        return types.Location(self.uri, self.lines.range(span))

    def declaration(self, action: Action) -> types.Location:
        """Where an action is declared here."""
        return self.location(self.lines.name_span(action))

    @cached_property
    def mentions(self) -> tuple[Mention, ...]:
        """Every name in a plan's readable lines, or every word of a library, in order."""
        return tuple(sorted(self._mentions(), key=lambda mention: mention.span))

    def _mentions(self) -> Iterator[Mention]:
        if self.kind is TextKind.LIBRARY:
            for word in WORD.finditer(self.text):
                yield Mention(word[0], Role.CALLS, span := Span(*word.span()), span)
            return
        plan = self.plan.plan
        for action in plan.declares:
            if match := NAME.match(self.text, action.span.start):
                yield Mention(action.name, Role.DECLARES, span := Span(*match.span()), span)
        refs: list[Ref] = list(plan.returns)
        for step in plan.steps:
            yield Mention(step.name, Role.DEFINES, step.name_span, step.name_span)
            yield Mention(step.action, Role.CALLS, step.action_span, step.action_span)
            refs += step_refs(step)
        for ref in refs:
            # The mode stands before the name.
            spans = [Span(*match.span()) for match in NAME.finditer(self.text, *ref.span)]
            yield Mention(ref.name, Role.USES, [ref.span, *spans][-1], ref.span, ref.mode)

    def at(self, offset: int) -> Mention | None:
        """The name that an offset is in, or else the one that ends there."""
        touching = [name for name in self.mentions if name.span.start <= offset <= name.span.end]
        return touching[-1] if touching else None

    def edits_to(self, text: str) -> list[types.TextEdit]:
        """The edit that turns the document into another text: one change, of the lines that differ.

        It has the line endings of the document's first line.
        """
        ending = _ENDING.search(self.text)
        if ending and ending[0] != "\n":
            text = text.replace(ending[0], "\n").replace("\n", ending[0])
        if text == self.text:
            return []
        before, after = self.text.splitlines(keepends=True), text.splitlines(keepends=True)
        head = _common(before, after)
        tail = _common(before[head:][::-1], after[head:][::-1])
        start = sum(map(len, before[:head]))
        end = len(self.text) - sum(map(len, before[len(before) - tail :]))
        changed = "".join(after[head : len(after) - tail])
        return [types.TextEdit(self.lines.range(Span(start, end)), changed)]


def _common(before: list[str], after: list[str]) -> int:
    """How many lines two texts have in common at their start."""
    return len([*takewhile(bool, map(eq, before, after))])


def open_document(item: types.TextDocumentItem, encoding: str) -> Document | None:
    """A document that was opened; None where it is neither a plan nor a library."""
    ending = item.uri.rpartition(".")[2].lower()
    for name, kind in (("plan", TextKind.PLAN), ("actions", TextKind.LIBRARY)):
        if ending == name or item.language_id == f"pearl-{name}":
            return Document(item.uri, item.version, kind, Lines(item.text, encoding))
    return None


def edit_document(
    document: Document, version: int | None, changes: Iterable[types.TextDocumentContentChangeEvent]
) -> Document:
    """The next version of a document."""
    lines = document.lines
    for change in changes:
        if isinstance(change, types.TextDocumentContentChangePartial):
            lines = lines.edited(lines.span(change.range), change.text)
        else:
            lines = Lines(change.text, lines.encoding)
    return replace(document, version=version, lines=lines)


def path_of(uri: str) -> Path | None:
    """The path of a file URI; None for any other URI."""
    try:
        parts = urlsplit(uri)
        if parts.scheme != "file":
            return None
        return Path(unquote(parts.path, errors="surrogateescape")).resolve()
    except (ValueError, OSError, RuntimeError):
        # A URI may be malformed, contain a NUL, or lead to a loop of links.
        return None


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """A project's settings for its plans.

    Args:
        libraries: names or paths of action libraries; none means Pearl's own.
        selection: the rules that report findings.
    """

    libraries: tuple[str, ...] = ()
    selection: Selection = DEFAULT


SettingsOf = Callable[[Path, Source], ProjectSettings]
"""The settings of the project that a folder is in, for a text in it; raises `InputError`."""


@dataclass(frozen=True)
class Libraries:
    """The libraries and rules that a document is checked with.

    Args:
        library: the actions by name.
        origins: the documents that declare them, by the action's own name.
        selection: the rules that report findings.
        trouble: messages about settings and libraries that cannot be read.
    """

    library: Library
    origins: Mapping[str, Document]
    selection: Selection = DEFAULT
    trouble: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Editor:
    """The editor's capabilities.

    Args:
        encoding: the encoding it counts characters in.
        snippets: whether it supports snippets in completions.
        markdown: whether it shows Markdown.
        versioned: whether it takes edits for a version of a document.
        watches: whether it can watch files for changes on the disk.
        folder: its working folder.
    """

    encoding: str = "utf-16"
    snippets: bool = False
    markdown: bool = False
    versioned: bool = False
    watches: bool = False
    folder: Path | None = None


class LanguageSession:
    """The open documents, and the libraries they are checked with.

    Args:
        settings_of: reads the settings of a folder's project, for a text in it.
    """

    def __init__(self, settings_of: SettingsOf) -> None:
        self.editor = Editor()
        self.documents: dict[str, Document] = {}
        self._settings_of = settings_of
        # Libraries on the disk, each after a stamp that changes when the file does.
        self._read: dict[str, tuple[object, Document]] = {}

    def plans(self) -> Iterator[Document]:
        """Every open plan."""
        return (document for document in self.documents.values() if document.kind is TextKind.PLAN)

    def libraries(self, document: Document) -> Libraries:
        """The actions a document may call, as they are now, in the editor or on the disk.

        Later libraries override earlier ones, as in `pearl.lang.library.load_library`.
        """
        trouble: list[str] = []
        settings = ProjectSettings()
        try:
            folder = document.path.parent if document.path else self.editor.folder or Path.cwd()
            settings = self._settings_of(folder, document.source)
        except InputError as error:
            trouble.append(str(error))
        own = builtins()
        actions = dict(own)
        # Found once, as thousands of plans may be open beside them.
        edited = [open for open in self.documents.values() if open.kind is TextKind.LIBRARY]
        origins = dict.fromkeys(own, self._library("core", edited))
        # An open library replaces the shipped ones.
        usual = () if document.kind is TextKind.LIBRARY else SHIPPED
        names = settings.libraries or usual
        for name in names:
            try:
                origin = self._library(name, edited)
            except InputError as error:
                trouble.append(str(error))
                continue
            if not origin.declares:
                empty = "holds no action: write lines such as F(CTX) : Find it."
                trouble.append(f"{origin.source.name} {empty}")
            added = {action.name: action for action in origin.declares if action.name not in own}
            actions |= added
            origins |= dict.fromkeys(added, origin)
        library = Library(tuple(names), MappingProxyType(actions))
        return Libraries(library, MappingProxyType(origins), settings.selection, tuple(trouble))

    def resolve(self, document: Document, name: str) -> tuple[Action, Document] | None:
        """The action that a name means in a document, and the document that declares it.

        In a plan, actions of libraries come before its own; in a library, its own come first, and
        may be called by their aliases.
        """
        if document.kind is TextKind.LIBRARY:
            for action in document.declares:
                if name in (action.name, *action.aliases):
                    return action, document
        libraries = self.libraries(document)
        if target := libraries.library.get(name):
            return target, libraries.origins[target.name]
        return next(((own, document) for own in document.declares if own.name == name), None)

    def _library(self, name: str, edited: Iterable[Document]) -> Document:
        """A library as it is in the editor, among those that are open, or else on the disk."""
        path = shipped_actions().get(name, Path(name)).resolve()
        for document in edited:
            if document.path == path:
                return document
        stamp = None
        with suppress(OSError, ValueError):
            stat = path.stat()
            stamp = stat.st_mtime_ns, stat.st_size
        cached = self._read.get(name)
        if not cached or cached[0] != stamp:
            lines = Lines(library_source(name).text, self.editor.encoding)
            cached = stamp, Document(path.as_uri(), None, TextKind.LIBRARY, lines)
            self._read[name] = cached
        return cached[1]


def workspace_edit(
    session: LanguageSession, document: Document, edits: Sequence[types.TextEdit]
) -> types.WorkspaceEdit:
    """Changes to one document, for this version of it if the editor supports versions."""
    if not session.editor.versioned:
        return types.WorkspaceEdit(changes={document.uri: list(edits)})
    identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, list(edits))])


def refused(message: str) -> JsonRpcException:
    """The error that an editor shows as one line."""
    return JsonRpcException(printable(message), code=LSPErrorCodes.RequestFailed.value)
