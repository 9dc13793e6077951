"""What installed packages add, by entry points in the groups ``pearl.actions`` and so on.

Nothing is looked up for a name that is Pearl's own, and only what is named is loaded.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache, partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pearl.lang.errors import InputError
from pearl.lang.text import SECRET_NAME, one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

Group: TypeAlias = Literal["actions", "metrics", "strategies", "tools"]


_SHORTEST, _LONGEST = 8, 300
"""Characters of a variable's value that is no word, and of what is told of an error."""


def failure_text(error: BaseException) -> str:
    """What a person's own code says of its failure, in a line: without the values of variables of
    the environment whose names are those of keys."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - whatever a class of a person's own raises
        said = "<exception str() failed>"
    text = one_line(": ".join(filter(None, (type(error).__name__, said))))
    secrets = {value.strip() for name, value in os.environ.items() if SECRET_NAME.search(name)}
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
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a package's code raises
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
    """The hash of a function's or a class's text, and of what it was given: by functions around it,
    as defaults, as an object's fields, or as a module's plain data. Of what has no text, as it was
    typed at a prompt, that of its code.

    Another text is another function: what was kept of the one says nothing of the other.
    """
    from pearl.lang.values import digest

    return digest(_told(code, ()))


_DEEPEST = 8
"""Values within values that tell functions apart."""

_PLAIN = (str, bytes, int, float, list, tuple, dict, set, frozenset)


def _told(value: object, around: tuple[int, ...]) -> Any:  # noqa: ANN401 - JSON
    """What a value is, or what code does, in every process alike."""
    if id(value) in around or len(around) > _DEEPEST:
        return "around"
    within = (*around, id(value))
    match value:
        case None | str() | bytes() | int() | float():
            return _written(value)
        case list() | tuple():
            return [_told(item, within) for item in value]
        case set() | frozenset():
            return sorted(str(_told(item, within)) for item in value)
        case dict():
            return [[_written(key), _told(item, within)] for key, item in value.items()]
        case ModuleType():
            return value.__name__
        case BuiltinFunctionType():
            return [_told(value.__self__, within), value.__name__]
        case partial():
            return [_told(one, within) for one in (value.func, value.args, value.keywords)]
        case MethodType():
            return [_told(value.__func__, within), _told(value.__self__, within)]
        case FunctionType():
            cells = [cell.cell_contents for cell in value.__closure__ or () if cell != CellType()]
            data = {name: value.__globals__.get(name) for name in value.__code__.co_names}
            used = {name: one for name, one in data.items() if isinstance(one, _PLAIN)}
            given = [cells, value.__defaults__, value.__kwdefaults__, used]
            # Several of these stand in one line.
            text = None if value.__name__ == "<lambda>" else _text(value)
            return [text or _told(value.__code__, within), *(_told(one, within) for one in given)]
        case type():
            own = sorted((name, one) for name, one in vars(value).items() if name != "__dict__")
            return _text(value) or [[name, _told(one, within)] for name, one in own]
        case CodeType():
            consts = [_told(one, within) for one in value.co_consts]
            return [value.co_code.hex(), value.co_names, consts]
        case _ if wrapped := getattr(value, "fget", getattr(value, "__wrapped__", None)):
            return _told(wrapped, within)
    # The representation of others may hold a place in memory.
    fields = getattr(value, "__dict__", {})
    return [
        type(value).__name__,
        _told(type(value), within) if fields else "",
        _told(fields, within),
    ]


def _written(value: object) -> str:
    """A value as code has it; a number of more digits than Python writes has those of base 16."""
    try:
        return repr(value)
    except ValueError:
        return hex(value) if isinstance(value, int) else str(_told(value, ()))


def _text(code: Any) -> str | None:  # noqa: ANN401 - a function or a class
    """The text of code; None where it has none."""
    import inspect

    try:
        return inspect.getsource(code)
    except (OSError, TypeError):
        return None
