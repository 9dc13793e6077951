"""What the server knows: the open documents, their projects' libraries, the editor's abilities."""

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
from pearl.lang.source import InputError, shipped_actions
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


SettingsOf = Callable[[Path], Settings]
"""The settings of the project that a folder is in; raises `InputError`."""


@dataclass(frozen=True)
class Origin:
    """The text that declares actions: a library's, or a plan's with actions of its own.

    Args:
        name: as messages call the library; empty for a plan.
        uri: where an editor finds it; empty where it is no file.
        lines: the text.
        actions: what it declares, in order.
    """

    name: str
    uri: str
    lines: Lines
    actions: tuple[Action, ...]

    @property
    def words(self) -> str:
        """Where its actions are from, in a sentence."""
        return f"From {self.name}." if self.name else "Declared by this plan."

    def location(self, action: Action) -> types.Location | None:
        """The name of one of its actions; None where it is no file."""
        if not self.uri:
            return None
        return types.Location(self.uri, self.lines.range(self.lines.name_span(action)))


def origin_of(document: Document) -> Origin:
    """An open document as what declares actions."""
    if document.kind is Kind.PLAN:
        return Origin("", document.uri, document.lines, document.plan.plan.declares)
    return Origin(document.source.name, document.uri, document.lines, document.library.actions)


@dataclass(frozen=True)
class Libraries:
    """The libraries of a plan, put together.

    Args:
        library: the actions by name.
        origins: where each action is from, by the action's own name.
        selection: which rules speak.
        trouble: what cannot be read of the project's settings and libraries.
    """

    library: Library
    origins: Mapping[str, Origin]
    selection: Selection = DEFAULT
    trouble: tuple[str, ...] = ()


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


class LanguageSession:
    """What is open, and what it is checked with.

    Args:
        settings_of: reads the settings of a folder's project.
    """

    def __init__(self, settings_of: SettingsOf) -> None:
        self.editor = Editor()
        self.documents: dict[str, Document] = {}
        self._settings_of = settings_of
        # What was read of a library, beside what tells whether it has changed.
        self._read: dict[str, tuple[object, Origin]] = {}

    def plans(self) -> Iterator[Document]:
        """Every open plan."""
        return (one for one in self.documents.values() if one.kind is Kind.PLAN)

    def libraries(self, document: Document) -> Libraries:
        """The actions a document may call, as they stand now: on the disk, or unsaved.

        Later libraries win over earlier ones, as `pearl.lang.library.load_library` has it.
        """
        trouble: list[str] = []
        settings = Settings()
        try:
            folder = document.path.parent if document.path else self.editor.folder or Path.cwd()
            settings = self._settings_of(folder)
        except InputError as error:
            trouble.append(str(error))
        own = builtins()
        actions = dict(own)
        origins = dict.fromkeys(own, self._origin("core"))
        names = settings.libraries or SHIPPED
        for name in names:
            try:
                origin = self._origin(name)
            except InputError as error:
                trouble.append(str(error))
                continue
            if not origin.actions:
                trouble.append(
                    f"{origin.name} holds no action: write lines such as F(CTX) : Find it."
                )
            added = {action.name: action for action in origin.actions if action.name not in own}
            actions |= added
            origins |= dict.fromkeys(added, origin)
        library = Library(tuple(names), MappingProxyType(actions))
        return Libraries(library, MappingProxyType(origins), settings.selection, tuple(trouble))

    def resolve(self, document: Document, name: str) -> tuple[Action, Origin] | None:
        """The action that a document means by a name, and what declares it.

        In a plan the libraries' actions come before its own; in a library its own come first,
        which may be meant by their other names too.
        """
        own = origin_of(document)
        if document.kind is Kind.LIBRARY:
            for action in own.actions:
                if name in (action.name, *action.aliases):
                    return action, own
        libraries = self.libraries(document)
        found = libraries.library.get(name)
        if found:
            return found, libraries.origins[found.name]
        return next(((action, own) for action in own.actions if action.name == name), None)

    def _origin(self, name: str) -> Origin:
        """A library as it stands in the editor, or else on the disk."""
        path = shipped_actions().get(name, Path(name)).resolve()
        edited = next((one for one in self.documents.values() if one.path == path), None)
        stamp: object = edited or _stamp(path)
        known = self._read.get(name)
        if known and known[0] == stamp:
            return known[1]
        if edited:
            actions = edited.library.actions
            origin = Origin(edited.source.name, edited.uri, edited.lines, actions)
        else:
            source = library_source(name)
            lines = Lines(source.text, self.editor.encoding)
            origin = Origin(path.name, path.as_uri(), lines, parse_library(source).actions)
        self._read[name] = (stamp, origin)
        return origin


def _stamp(path: Path) -> object:
    """What changes when a file does."""
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return None
    return stat.st_mtime_ns, stat.st_size


def workspace_edit(
    session: LanguageSession, document: Document, edits: Sequence[types.TextEdit]
) -> types.WorkspaceEdit:
    """Changes to one document; meant for this version of it where the editor minds versions."""
    if not session.editor.versioned:
        return types.WorkspaceEdit(changes={document.uri: list(edits)})
    known = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(known, list(edits))])


def refused(message: str) -> JsonRpcException:
    """The error that an editor shows as one line."""
    return JsonRpcException(printable(message), code=LSPErrorCodes.RequestFailed.value)
