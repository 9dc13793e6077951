"""The folders that were given: nothing else is read or written."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pearl.lang.errors import InputError
from pearl.lang.source import Source
from pearl.retrieval.converters import SEVERAL
from pearl.viewer.documents import read_limited

LARGEST = 64 * 1024 * 1024
"""Bytes of a document that is shown."""

_VERSION = re.compile(r"(.+)\.v([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class Folders:
    """Where files may be read and written.

    Args:
        plans: folders of plans; new versions go beside their plans.
        documents: a folder of documents, or none.
        demos: where plans go that are to be demonstrations, or none.
    """

    plans: tuple[Path, ...] = ()
    documents: Path | None = None
    demos: Path | None = None

    @property
    def readable(self) -> tuple[Path, ...]:
        """The folders in which documents are looked for."""
        return (*((self.documents,) if self.documents else ()), *self.plans)

    def inside(self, path: Path) -> Path | None:
        """A file's real path where it lies in one of the folders of plans; else None."""
        return _inside(path, self.plans)

    def inside_any(self, path: Path) -> Path | None:
        """A file's real path where it may be read; else None."""
        real = _inside(path, self.readable)
        return real if real and real.is_file() else None

    def find(self, name: str) -> Iterator[Source]:
        """Files that a document's name may mean, the likeliest first.

        Args:
            name: as a run or a row names it, one or several; it may be anything.
        """
        tried: set[tuple[Path, ...]] = set()
        for names in ([name], name.split(SEVERAL)):
            files = [Path(file) for file in names]
            guesses = [files]
            for root in self.readable:
                guesses += [[root / file for file in files], [root / file.name for file in files]]
            for guess in guesses:
                inside = (_inside(path, self.readable) for path in guess)
                paths = tuple(path for path in inside if path is not None)
                if len(paths) < len(guess) or paths in tried:
                    continue
                tried.add(paths)
                if source := read_limited(paths, name, LARGEST):
                    yield source


def read_folders(names: list[str], documents: str, demos: str) -> Folders:
    """The folders as they were given, links resolved once and for all.

    Args:
        names: what is reviewed; those that are folders count.
        documents: the folder of documents; empty for none.
        demos: the folder of demonstrations; empty for none.

    Raises:
        InputError: one is no folder.
    """
    for option, name in (("--documents", documents), ("--demos", demos)):
        if name and not Path(name).is_dir():
            raise InputError(f"{name} is no folder: make it, or name another with {option}.")
    plans = tuple(Path(name).resolve() for name in names if Path(name).is_dir())
    return Folders(
        plans,
        Path(documents).resolve() if documents else None,
        Path(demos).resolve() if demos else None,
    )


def is_version(file: Path) -> bool:
    """Whether a plan's file is a later version of another one beside it."""
    match = _VERSION.fullmatch(file.stem)
    return match is not None and file.with_name(f"{match[1]}{file.suffix}").exists()


def version_file(place: Path, number: int) -> Path:
    """The file of a plan's version, beside the plan's own."""
    return place.with_name(f"{place.stem}.v{number}{place.suffix}")


def demo_name(name: str) -> str:
    """A name for a file of what a plan is called, which may be anything."""
    last = name.replace("\\", "/").rpartition("/")[2].removesuffix(".plan")
    return re.sub(r"[^A-Za-z0-9_-]+", "-", last).strip("-")[:60] or "plan"


def create(target: Path, text: str, roots: tuple[Path, ...]) -> bool:
    """Write a new file: as a whole or not at all, and over nothing.

    Args:
        target: the file.
        text: what it is to hold.
        roots: the folders of which one holds it, links resolved.

    Returns:
        Whether it was made; False where something of that name is there.

    Raises:
        InputError: it lies outside, or cannot be written.
    """
    parent = _inside(target.parent, roots)
    if parent is None:
        raise InputError(f"{target.name} is not written: its folder is none that was given.")
    part = parent / f".{target.name[:40]}.{secrets.token_hex(4)}"
    try:
        with part.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # A link is made over nothing, and is there at once as a whole.
        os.link(part, parent / target.name)
    except FileExistsError:
        return False
    except OSError as error:
        raise InputError(
            f"{target.name} cannot be written ({error.strerror}): look at the folder's rights."
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return True


def _inside(path: Path, roots: tuple[Path, ...]) -> Path | None:
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError):
        return None
    return real if any(real.is_relative_to(root) for root in roots) else None
