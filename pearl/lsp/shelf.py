"""The actions that a plan in the editor may call, and where each is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pearl.checker import DEFAULT, Selection
from pearl.library import Library, builtins
from pearl.lsp.places import Lines
from pearl.plan import Action


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
