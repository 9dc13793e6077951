"""What installed packages add, by entry points in the groups ``pearl.actions`` and so on.

Nothing is looked up for a name that is Pearl's own, and only what is named is loaded.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from types import CellType, CodeType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pearl.lang.source import InputError
from pearl.lang.text import pattern

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

Group: TypeAlias = Literal["actions", "metrics", "strategies", "tools"]


_SECRET = pattern(r"(?i)auth|key|token|secret|passw|credential")
_SHORTEST, _LONGEST = 8, 300
"""Characters of a variable's value that is no word, and of what is told of an error."""


def failure_text(error: Exception) -> str:
    """What a person's own code says of its failure, in a line: without the values of variables of
    the environment whose names are those of keys."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    secrets = {value.strip() for name, value in os.environ.items() if _SECRET.search(name)}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "***")
    return text[:_LONGEST]


def extension(group: Group, name: str) -> Any:  # noqa: ANN401 - whatever a package offers
    """What a package offers under a name; None where none does.

    Raises:
        InputError: it cannot be loaded.
    """
    folders = filter(os.path.isdir, sys.path)
    versions = tuple((folder, os.stat(folder).st_mtime_ns) for folder in folders)
    for entry in _offered(group, versions).select(name=name):
        try:
            return entry.load()
        except Exception as error:  # noqa: BLE001 - whatever a package's code raises
            package = entry.dist.name if entry.dist else entry.value
            raise InputError(
                f"{name} of the package {package} cannot be loaded ({failure_text(error)})."
            ) from None
    return None


@lru_cache(maxsize=8)
def _offered(group: Group, folders: tuple[tuple[str, int], ...]) -> EntryPoints:
    """A group's entry points, read anew where something was installed: reading takes its time."""
    from importlib.metadata import entry_points

    return entry_points(group=f"pearl.{group}")


def source_digest(code: object) -> str:
    """The hash of a function's or a class's text, and of what the functions around it gave it; of
    what has no text, as it was typed at a prompt, that of its code.

    Another text is another function: what was kept of the one says nothing of the other.
    """
    import inspect

    from pearl.lang.values import digest

    cells = getattr(code, "__closure__", None) or ()
    held = [_compiled(cell.cell_contents) for cell in cells if cell != CellType()]
    try:
        return digest([inspect.getsource(code), held])  # type: ignore[arg-type]
    except (OSError, TypeError):
        return digest([_compiled(code), held])


def _compiled(code: object) -> Any:  # noqa: ANN401 - JSON
    """What code does, or a value is, in every process alike; of a class, what its functions do."""
    code = getattr(code, "__func__", getattr(code, "fget", code))
    code = getattr(code, "__code__", code)
    match code:
        case type():
            return [[name, _compiled(value)] for name, value in sorted(vars(code).items())]
        case CodeType():
            return [code.co_code.hex(), code.co_names, [_compiled(part) for part in code.co_consts]]
        case tuple():
            return [_compiled(item) for item in code]
        case frozenset():
            return sorted(map(repr, code))
        case str() | bytes() | int() | float():
            return repr(code)
    # The representation of others may hold a place in memory.
    return type(code).__name__
