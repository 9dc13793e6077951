"""PEARL with libraries of several sizes (PEARL, section 4.3: number of actions)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pearl.evaluate.about import own_actions
from pearl.library import Library

_SIZED = "pearl@"


@dataclass(frozen=True, slots=True)
class Sized:
    """Methods and sizes that go together.

    Args:
        methods: names, each once, ``pearl@N`` among them for each size.
        sizes: numbers of actions beside the builtins, each once.
        notes: what was changed, in whole sentences.
    """

    methods: tuple[str, ...]
    sizes: tuple[int, ...]
    notes: tuple[str, ...] = ()


def with_sizes(methods: Sequence[str], sizes: Sequence[int], library: Library) -> Sized:
    """The sizes that methods name, and those that are asked for beside them.

    A size that the library does not have is taken as the library's own, since
    a report that says 140 is to mean 140.

    Args:
        methods: names, as a person gave them.
        sizes: more numbers of actions.
        library: what is condensed.
    """
    most = own_actions(library)
    wanted = [*methods, *(f"{_SIZED}{size}" for size in sizes)]
    names = [_capped(name, most) for name in wanted]
    notes = tuple(
        f"The library has {most:,} actions beside the builtins, so {name} is {new}."
        for name, new in dict(zip(wanted, names, strict=True)).items()
        if name != new
    )
    unique = tuple(dict.fromkeys(names))
    found = tuple(size for name in unique if (size := _size(name)) is not None)
    return Sized(unique, found, notes)


def _capped(name: str, most: int) -> str:
    size = _size(name)
    return name if size is None else f"{_SIZED}{min(size, most)}"


def _size(name: str) -> int | None:
    number = name.removeprefix(_SIZED)
    return int(number) if name != number and number.isdecimal() and int(number) else None
