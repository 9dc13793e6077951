"""Writes files whole or not at all, and never over an input or over another kind of file."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from pearl.lang.errors import InputError
from pearl.lang.rows import read_row, read_rows
from pearl.lang.source import read_source
from pearl.lang.text import pattern


def cache_folder() -> Path:
    """The folder of Pearl's caches; a `RuntimeError` where the user has no home folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pearl"


def refuse_same(output: str, read: Iterable[str | Path], kept: Collection[str | Path] = ()) -> None:
    """Make sure that a file to be written is none of the files that are read.

    Args:
        output: the path of the file to be written.
        read: the files that are read; an entry that is no path is passed over.
        kept: files that are read and written, which need not exist yet, as those of a store.

    Raises:
        InputError: it is one of them.
    """
    target = Path(output)
    for path in (*read, *kept):
        try:
            same = target.resolve() == Path(path).resolve() or target.samefile(path)
        except (OSError, ValueError, RuntimeError):
            # One of them is not there, or is no path.
            continue
        if same and target.exists():
            raise InputError(f"{output} is what is read: name another file to write.")
        if same and path in kept:
            raise InputError(f"{output} belongs to the store: name another file to write.")


def check_writable(
    output: str, read: Iterable[str | Path] = (), kept: Collection[str | Path] = ()
) -> None:
    """Make sure that a file can be written, before work is done for it.

    Args:
        output: its path.
        read: the files that are read, none of which it may be.
        kept: files that are read and written, which it may not be even where they do not exist yet.

    Raises:
        InputError: it cannot be written, or it is one of those that are read.
    """
    refuse_same(output, read, kept)
    target = Path(output)
    try:
        target.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        # A link that leads to itself, or a name that is too long.
        raise unwritable(output, error) from None
    if target.is_dir():
        raise InputError(f"{output} is a directory: name a file in it.")
    if not target.parent.is_dir():
        raise InputError(f"The folder {target.parent} does not exist: make it, or name another.")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise InputError(f"{output} cannot be written: name a file in a folder of your own.")


@contextmanager
def replacing(path: Path, folder: Path | None = None) -> Iterator[BinaryIO]:
    """A file that takes the place of ``path`` when the block ends well: whole, or not at all.

    Args:
        path: the file to replace; a link is followed.
        folder: where it is written meanwhile, on the same disk; by default beside ``path``.

    Raises:
        OSError: the file cannot be written; ``path`` is as it was.
    """
    target, part = _part_of(path, folder)
    try:
        with part.open("xb") as file:
            if target.exists():
                part.chmod(target.stat().st_mode & 0o777)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def check_replaceable(path: str) -> None:
    """Make sure that `replacing` can write a file, before work is done for it. Links are followed.
    A device or a pipe is refused, unlike by `check_writable` and `write`.

    Raises:
        InputError: the file cannot be replaced.
    """
    try:
        _, part = _part_of(Path(path))
        part.touch(exist_ok=False)
        part.unlink()
    except OSError as error:
        raise unwritable(path, error) from None


def _part_of(path: Path, folder: Path | None = None) -> tuple[Path, Path]:
    """The file that a path leads to, and another for what is to take its place."""
    target = path.resolve()
    if target.exists() and not target.is_file() and not target.is_dir():
        # Whoever may write to /dev would lose what all programs write to.
        raise OSError(errno.EEXIST, "it is a device or a pipe")
    return target, (folder or target.parent) / f".{target.name[:40]}.{os.urandom(4).hex()}.part"


def lock(file: IO[bytes]) -> bool | None:
    """Lock a file for as long as it is open. False means that somebody else holds the lock, None
    that the system or the disk has no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def write(path: str, text: str | bytes) -> None:
    """Write a file whole, or leave it as it was.

    Raises:
        InputError: it cannot be written.
    """
    data = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    target = Path(path)
    try:
        if target.exists() and not target.is_file():
            # A pipe or a device is written to, not replaced; a directory says that it is one.
            target.write_bytes(data)
        else:
            with replacing(target) as file:
                file.write(data)
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(
    path: str | Path, error: OSError, instead: str = "a file in a folder of your own"
) -> InputError:
    """The error that says that a file cannot be written, why, and what to do.

    Args:
        path: the file.
        error: what the system reports.
        instead: what to name in its place, unless the disk is full.
    """
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    advice = "make room, and run it again" if full else f"name {instead}"
    return InputError(f"{path} cannot be written ({error.strerror}): {advice}.")


_FILLED_IN = {"file of wrong answers": "category", "file of answers to grade": "grade"}
"""The key that a person fills in, in each object of a file of JSON lines, by what the file is."""

_KEYS = {
    "recording": {"key"},
    "file of answers": {"id", "status"},
    "evaluation": {"evaluation"},
    "file of notes": {"kind", "message"},
    "file of worlds": {"kb", "qa_pairs"},
    "file of pairs": {"world", "agent"},
    **{noun: {key} for noun, key in _FILLED_IN.items()},
}
"""The keys that the first object of a file of JSON lines has, by what the file is."""

_PAGE = r'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv='
_OPENINGS = {
    "graph": pattern("flowchart|<svg"),
    "page": pattern(_PAGE),
    # As a page, Markdown, LaTeX, JSON, and plain text.
    "report": pattern(
        rf"{_PAGE}"
        r'|# .+\n\n- \*\*.+?:\*\* |% Needs \\usepackage|\{\s+"title": .+\s+"about": '
        r"|(?:.+\n){1,9}\n\w[\w -]{0,40} {2}\S"
    ),
    "model": pattern(r'\{\s+"kind": "pearl commaqa model"'),
    "schema": pattern(r"(?:#.*\n|\n)*about = "),
    "file of verdicts": pattern("plan,plan_id,"),
}
"""How a file begins, by what it is."""


def check_kind(path: str, noun: str) -> None:
    """Make sure that a file to be overwritten is empty, or is of the same kind and nobody has
    filled it in.

    Args:
        path: the file; ``-`` for none.
        noun: what it is to be: a plan, a library, or one of `_KEYS` and `_OPENINGS`.

    Raises:
        InputError: it is of another kind, or is filled in.
    """
    target = Path(path)
    if path == "-" or not target.is_file() or not target.stat().st_size:
        return
    wrong = f"{path} exists and is no {noun}: name another file to write."
    try:
        is_one, key = _is_a(path, noun), _FILLED_IN.get(noun, "")
        filled_in = bool(key) and any(row.get(key) for _, row in read_rows(path, noun))
    except InputError:
        raise InputError(wrong) from None
    if not is_one:
        raise InputError(wrong)
    if filled_in:
        raise InputError(f"{path} is filled in already: name another file to write.")


def _is_a(path: str, noun: str) -> bool:
    """Whether a file is of the kind that `check_kind` calls by a noun."""
    if keys := _KEYS.get(noun):
        with open(path, "rb") as file:
            first = file.readline().decode("utf-8-sig", "replace")
        return keys <= read_row(first, path).keys()
    from pearl.lang.library import parse_library
    from pearl.lang.parser import parse

    text = read_source(path, noun)
    if opening := _OPENINGS.get(noun):
        return bool(opening.match(text.text))
    if noun == "plan":
        parsed = parse(text)
        return bool(parsed.plan.steps) and not (parsed.broken or parsed.aside)
    # A library may be one of comments alone.
    library = parse_library(text)
    return bool(library.actions) or not library.broken
