"""A cache of the texts of converted documents: a file each, in the user's ``~/.cache``.

It goes by what a document's file holds, not by its name. If it cannot be used, documents are
converted as if there were none.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import time

from pearl.lang.output_files import cache_folder, replacing

UNUSED = 30 * 86_400
"""Seconds after which a text that was not read again is deleted."""

LARGEST = 1 << 30
"""The bytes of all texts above which those that were not read for longest are deleted."""

_UNUSABLE = (OSError, RuntimeError, UnicodeDecodeError)
"""A disk is full or read-only, the user has no home folder, or a text is damaged."""


def read(version: bytes, data: bytes) -> str | None:
    """The text of a document that was converted before; None where the cache does not hold it.

    Args:
        version: what decides the text besides the file.
        data: what the document's file holds.
    """
    with suppress(*_UNUSABLE):
        place = _place(version, data)
        folder = place.parent.stat()
        if hasattr(os, "getuid") and (folder.st_uid != os.getuid() or folder.st_mode & 0o077):
            # Others may have put a text of theirs in it.
            return None
        text = place.read_bytes().decode("utf-8")
        with suppress(OSError):
            os.utime(place)
        return text
    return None


def write(version: bytes, data: bytes, text: bytes) -> None:
    """Add the text of a document, in UTF-8; ``version`` and ``data`` are as `read` takes them."""
    with suppress(*_UNUSABLE):
        place = _place(version, data)
        place.parent.mkdir(parents=True, exist_ok=True)
        # Others may not read what is confidential.
        place.parent.chmod(0o700)
        with replacing(place) as file:
            file.write(text)
        if place.name.startswith("0"):
            # Now and then is often enough: this looks at every text.
            _prune(place.parent)


def _place(version: bytes, data: bytes) -> Path:
    key = sha256(version)
    key.update(data)
    return cache_folder() / "documents" / key.hexdigest()


def _prune(folder: Path) -> None:
    """Delete the texts that were not read for long, and the oldest of too many."""
    oldest, size = time() - UNUSED, 0
    texts: list[tuple[float, int, Path]] = []
    for file in filter(Path.is_file, folder.iterdir()):
        # Another process may have deleted it, or put it in its place, meanwhile.
        with suppress(OSError):
            about = file.stat()
            texts.append((about.st_mtime, about.st_size, file))
    for used, taken, file in sorted(texts, reverse=True):
        size += taken
        if used < oldest or size > LARGEST:
            with suppress(OSError):
                file.unlink()
