"""What the server knows: the open documents, their projects' libraries, the editor's abilities."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from lsprotocol import types
from lsprotocol.types import LSPErrorCodes
from pygls.exceptions import JsonRpcException

from pearl.lang.ast import Action
from pearl.lang.library import DEFAULT as SHIPPED
from pearl.lang.library import Library, builtins, library_source
from pearl.lang.source import InputError, TextKind, shipped_actions
from pearl.lang.text import printable
from pearl.lint.checker import DEFAULT, Selection
from pearl.lsp.documents import Document, Lines


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
class Libraries:
    """The libraries of a plan, put together.

    Args:
        library: the actions by name.
        origins: the libraries that declare them, by the action's own name.
        selection: which rules speak.
        trouble: what cannot be read of the project's settings and libraries.
    """

    library: Library
    origins: Mapping[str, Document]
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
        # Libraries on the disk, beside what tells whether they have changed.
        self._read: dict[str, tuple[object, Document]] = {}

    def plans(self) -> Iterator[Document]:
        """Every open plan."""
        return (document for document in self.documents.values() if document.kind is TextKind.PLAN)

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
        origins = dict.fromkeys(own, self._library("core"))
        # A library is loaded in place of those that ship.
        usual = () if document.kind is TextKind.LIBRARY else SHIPPED
        names = settings.libraries or usual
        for name in names:
            try:
                origin = self._library(name)
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
        """The action that a document means by a name, and the document that declares it.

        In a plan the libraries' actions come before its own; in a library its own come first,
        which may be meant by their other names too.
        """
        if document.kind is TextKind.LIBRARY:
            for action in document.declares:
                if name in (action.name, *action.aliases):
                    return action, document
        libraries = self.libraries(document)
        target = libraries.library.get(name)
        if target:
            return target, libraries.origins[target.name]
        return next(((own, document) for own in document.declares if own.name == name), None)

    def _library(self, name: str) -> Document:
        """A library as it stands in the editor, or else on the disk."""
        path = shipped_actions().get(name, Path(name)).resolve()
        for edited in self.documents.values():
            if edited.path == path and edited.kind is TextKind.LIBRARY:
                return edited
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
    """Changes to one document; meant for this version of it where the editor minds versions."""
    if not session.editor.versioned:
        return types.WorkspaceEdit(changes={document.uri: list(edits)})
    identifier = types.OptionalVersionedTextDocumentIdentifier(document.uri, document.version)
    return types.WorkspaceEdit(document_changes=[types.TextDocumentEdit(identifier, list(edits))])


def refused(message: str) -> JsonRpcException:
    """The error that an editor shows as one line."""
    return JsonRpcException(printable(message), code=LSPErrorCodes.RequestFailed.value)
