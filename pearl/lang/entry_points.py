"""What installed packages add, by entry points in the groups ``pearl.actions`` and so on.

Nothing is looked up for a name that is Pearl's own, and only what is named is loaded.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import lru_cache, partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pearl.lang.errors import InputError
from pearl.lang.text import MASKED_NAME, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

Group: TypeAlias = Literal["actions", "metrics", "strategies", "tools"]


_SHORTEST, _LONGEST = 8, 300
"""The fewest characters of a value that is taken for a key, and the most of an error's text."""


def failure_text(error: BaseException) -> str:
    """One line about an error that a user's own code raised. The values of environment variables
    whose names suggest a key are taken out."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - whatever a class of a person's own raises
        message = "<exception str() failed>"
    text = one_line(": ".join(filter(None, (type(error).__name__, message))))
    secrets = {value.strip() for name, value in os.environ.items() if MASKED_NAME.search(name)}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "***")
    return text[:_LONGEST]


def extension(group: Group, name: str) -> Any:  # noqa: ANN401 - whatever a package offers
    """What a package offers under a name; None where none does.

    Raises:
        InputError: it cannot be loaded.
    """
    for entry in _entries(group).select(name=name):
        try:
            return entry.load()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a package's code raises
            package = entry.dist.name if entry.dist else entry.value
            raise InputError(
                f"{name} of the package {package} cannot be loaded ({failure_text(error)})."
            ) from None
    return None


def offered(group: Group) -> list[str]:
    """The names under which installed packages offer something, in alphabetical order."""
    return sorted(_entries(group).names)


def _entries(group: Group) -> EntryPoints:
    folders = filter(os.path.isdir, sys.path)
    return _read_entries(group, tuple((folder, os.stat(folder).st_mtime_ns) for folder in folders))


@lru_cache(maxsize=8)
def _read_entries(group: Group, folders: tuple[tuple[str, int], ...]) -> EntryPoints:
    """A group's entry points; reading is slow, and repeated only where a folder has changed."""
    from importlib.metadata import entry_points

    return entry_points(group=f"pearl.{group}")


def source_digest(code: object) -> str:
    """A hash that changes with what a function or a class does, so that old results are not used.

    It covers the source text (at a prompt, where there is none, the bytecode), default values,
    variables of enclosing functions, an object's fields, and the module's plain data.
    """
    from pearl.lang.values import digest

    return digest(_described(code, ()))


_DEEPEST = 8
"""How deep values within values count for the hash."""

_PLAIN = (str, bytes, int, float, list, tuple, dict, set, frozenset)


def _described(value: object, around: tuple[int, ...]) -> Any:  # noqa: ANN401 - JSON
    """A description of a value or of code, the same in every process, to be hashed."""
    if id(value) in around or len(around) > _DEEPEST:
        return "around"
    within = (*around, id(value))
    match value:
        case None | str() | bytes() | int() | float():
            return _written(value)
        case list() | tuple():
            return [_described(item, within) for item in value]
        case set() | frozenset():
            return sorted(str(_described(item, within)) for item in value)
        case dict():
            return [[_written(key), _described(item, within)] for key, item in value.items()]
        case ModuleType():
            return value.__name__
        case BuiltinFunctionType():
            return [_described(value.__self__, within), value.__name__]
        case partial():
            return [_described(part, within) for part in (value.func, value.args, value.keywords)]
        case MethodType():
            return [_described(value.__func__, within), _described(value.__self__, within)]
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
            data = {name: value.__globals__.get(name) for name in value.__code__.co_names}
            used = {name: item for name, item in data.items() if isinstance(item, _PLAIN)}
            context = [cells, value.__defaults__, value.__kwdefaults__, used]
            # A line may hold several lambdas, and its text would be that of each.
            text = None if value.__name__ == "<lambda>" else _text(value)
            described = (_described(item, within) for item in context)
            return [text or _described(value.__code__, within), *described]
        case type():
            own = sorted((name, item) for name, item in vars(value).items() if name != "__dict__")
            return _text(value) or [[name, _described(item, within)] for name, item in own]
        case CodeType():
            consts = [_described(item, within) for item in value.co_consts]
            return [value.co_code.hex(), value.co_names, consts]
        case _ if wrapped := getattr(value, "fget", getattr(value, "__wrapped__", None)):
            return _described(wrapped, within)
    # The representation of other objects may hold a memory address.
    fields = getattr(value, "__dict__", {})
    return [
        type(value).__name__,
        _described(type(value), within) if fields else "",
        _described(fields, within),
    ]


def _written(value: object) -> str:
    """A value as code has it; in base 16 where a number has more digits than Python writes."""
    try:
        return repr(value)
    except ValueError:
        return hex(value) if isinstance(value, int) else str(_described(value, ()))


def _text(code: Any) -> str | None:  # noqa: ANN401 - a function or a class
    """The text of code; None where it has none."""
    import inspect

    with suppress(OSError, TypeError):
        try:
            return inspect.getsource(code)
        except SystemError:
            # CPython 3.11 and 3.12 raise it where another text is parsed while they parse one, as
            # another thread or what is freed meanwhile may do (gh-106905).
            return inspect.getsource(code)
    return None
