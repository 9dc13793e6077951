"""Action libraries: loading them, and finding an action by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pearl import resources
from pearl.plan import Action
from pearl.source import InputError, Source, read_source
from pearl.syntax import ParsedLibrary, parse_library
from pearl.values import digest

DEFAULT = ("core", "quality")
"""The libraries that are used where none is named."""


@dataclass(frozen=True)
class Library:
    """Actions by name.

    Args:
        names: the files the actions came from, as they were named.
        actions: every action under its own name, in order.
    """

    names: tuple[str, ...]
    actions: Mapping[str, Action]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as a list: a read-only mapping cannot be, and workers elsewhere need it."""
        return _restored, (self.names, tuple(self.actions.values()))

    @cached_property
    def _by_any_name(self) -> Mapping[str, Action]:
        found: dict[str, Action] = {}
        for action in self.actions.values():
            for alias in action.aliases:
                found.setdefault(alias, action)
        found.update(self.actions)
        return MappingProxyType(found)

    def get(self, name: str) -> Action | None:
        """The action of this name or alias."""
        return self._by_any_name.get(name)

    def every_name(self) -> Iterable[str]:
        """All names and aliases."""
        return self._by_any_name.keys()

    @cached_property
    def digest(self) -> str:
        """The hash of all in it that may change an answer."""
        return digest([_told(action) for action in self.actions.values()])

    def with_declared(self, declares: Sequence[Action]) -> Library:
        """A library for one plan: these actions, and the plan's own.

        A declaration never replaces an action of the library.
        """
        own = {action.name: action for action in declares if not self.get(action.name)}
        if not own:
            return self
        return Library(self.names, MappingProxyType({**self.actions, **own}))


def _told(action: Action) -> list[Any]:
    """All of an action that may change an answer, in an order that is always the same."""
    params = [[one.name, one.type] for one in action.params]
    sets = [sorted(action.aliases), sorted(action.traits)]
    return [
        action.name,
        params,
        action.variadic,
        action.returns,
        action.doc,
        repr(action.body),
        *sets,
    ]


def _restored(names: tuple[str, ...], actions: tuple[Action, ...]) -> Library:
    return Library(names, MappingProxyType({action.name: action for action in actions}))


@cache
def _core() -> ParsedLibrary:
    return parse_library(resources.actions()["core"].read_text(encoding="utf-8"), "core")


def builtins() -> dict[str, Action]:
    """The actions that need no model; every library holds them."""
    return {action.name: action for action in _core().actions if action.is_builtin}


def library_source(name: str) -> Source:
    """The text of a library that ships with Pearl, or of a file.

    Args:
        name: ``core``, ``quality`` …, or a path.

    Raises:
        InputError: no such library, or a file that cannot be read.
    """
    shipped = resources.actions()
    if name in shipped:
        return Source(f"{name}.actions", shipped[name].read_text(encoding="utf-8"))
    if not Path(name).suffix and name != "-" and not Path(name).exists():
        known = ", ".join(shipped)
        raise InputError(f"no library is named {name}: use one of {known}, or a file's path.")
    return read_source(name, "action library")


def load_library(*names: str) -> Library:
    """Load action libraries, later ones over earlier ones.

    The builtins are always there. A line that declares one of them (the
    paper's library lists ``CONCAT``) leaves it as it is.

    Args:
        names: names of libraries that ship with Pearl, or paths; none means
            `DEFAULT`.

    Raises:
        InputError: no such library, a file that cannot be read, or one that
            holds no action.
    """
    chosen = names or DEFAULT
    own = builtins()
    actions = dict(own)
    for name in chosen:
        source = library_source(name)
        found = parse_library(source).actions
        if not found:
            raise InputError(
                f"{source.name} holds no action: write lines such as "
                f"FIND_CHARACTER(CTX, X) : Find and describe X in CTX."
            )
        for action in found:
            if action.name not in own:
                actions[action.name] = replace(action)
    return Library(tuple(chosen), MappingProxyType(actions))


def search_actions(library: Library, words: str) -> list[Action]:
    """Actions whose name, aliases or definition hold the words, best first.

    Every word counts as found where it, or a word that starts with it, occurs;
    a misspelt one where a name resembles it.
    """
    from rapidfuzz import fuzz

    wanted = words.lower().split()
    scored: list[tuple[float, int, Action]] = []
    for order, action in enumerate(library.actions.values()):
        names = " ".join((action.name, *action.aliases)).replace("_", " ").lower()
        doc = action.doc.lower()
        score = 0.0
        for word in wanted:
            near = max((fuzz.ratio(word, name) for name in names.split()), default=0.0)
            if word in names:
                score += 3
            elif word in doc:
                score += 1
            elif near >= 75:
                score += near / 50
        if score > 0:
            scored.append((-score, order, action))
    return [action for _, _, action in sorted(scored, key=lambda one: one[:2])]
