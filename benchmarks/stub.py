"""A fast OpenAI-compatible endpoint in a process of its own, which can misbehave.

    python -m benchmarks.stub --port 0 --latency 0.05 --faults 0.2 --seed 7

The first line it prints is its port. ``POST …/chat/completions`` answers,
``GET /stats`` tells what was asked and answered (``/stats?bodies`` also how
often each body was completed), ``POST /reset`` forgets it all. Answers are
decided by the prompt; faults by the seed, the body and the number of the
attempt at it: neither hangs on the order in which requests come in.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from benchmarks.stub_desk import Desk, Settings
from benchmarks.stub_faults import FAULTS, USUAL
from benchmarks.stub_http import Connection

ROOT = Path(__file__).parent.parent


class Stub:
    """The stub in a process of its own, from ``with`` to the end of the block.

    Args:
        settings: those of `Settings`, by name.
    """

    def __init__(self, **settings: Any) -> None:
        self._settings = Settings(**settings)
        self.address = ""

    @property
    def url(self) -> str:
        """What OPENAI_BASE_URL is to be."""
        return f"{self.address}/v1"

    def __enter__(self) -> Stub:
        command = [sys.executable, "-m", "benchmarks.stub", "--with-parent"]
        self._process = subprocess.Popen(
            command + self._settings.options(),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        port = self._process.stdout.readline().decode().strip()
        if not port:
            raise RuntimeError("The stub did not start: see above for its error.")
        self.address = f"http://127.0.0.1:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def stats(self, *, bodies: bool = False) -> dict[str, Any]:
        """What was asked and answered since the last reset.

        Args:
            bodies: whether to tell how often each body was completed.
        """
        return stats(self.address, bodies=bodies)

    def reset(self) -> None:
        """Forget what was asked and answered."""
        reset(self.address)

    @contextlib.contextmanager
    def paused(self, after: int) -> Iterator[None]:
        """Let answers wait until the end of the block, once so many were sent since the reset."""
        _asked(f"{self.address}/pause", b"%d" % after)
        try:
            yield
        finally:
            _asked(f"{self.address}/resume", b"")


def stats(address: str, *, bodies: bool = False) -> dict[str, Any]:
    """The counts of the stub at an address.

    ``requests``, ``distinct`` bodies, ``again`` (requests for a body that had
    been completed), ``completed`` answers (usable, and sent whole),
    ``repeated`` bodies (completed more than once), ``repeats`` (completions
    beyond the first), ``cut`` (answers whose client went away first),
    ``faults`` by kind, ``prompt_tokens``, ``completion_tokens`` and
    ``cached_tokens`` of every usage that was sent whole, ``in_flight``,
    ``max_in_flight``, and the stub's own ``cpu_seconds``.
    """
    told: dict[str, Any] = json.loads(_asked(f"{address}/stats{'?bodies' if bodies else ''}"))
    return told


def reset(address: str) -> None:
    """Let the stub at an address forget what was asked and answered."""
    _asked(f"{address}/reset", b"{}")


def _asked(address: str, data: bytes | None = None) -> bytes:
    # An environment's proxy is no way to a server on loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(address, data, timeout=30) as answer:
        body: bytes = answer.read()
    return body


def main() -> None:
    chosen = _options().parse_args()
    if chosen.with_parent:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    known = {field.name: getattr(chosen, field.name) for field in fields(Settings)}
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(Settings(**known), chosen.port))


def _options() -> argparse.ArgumentParser:
    usual = Settings()
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    for name, kind, about in (
        ("latency", float, "seconds to every answer"),
        ("jitter", float, "seconds added at most"),
        ("faults", float, "share of the requests that get a fault"),
        ("seed", int, "decides which requests get which fault"),
        ("max-in-flight", int, "requests at a time above which 429 is answered"),
        ("stall", float, "seconds for which a stalled answer is held open"),
        ("drip", float, "seconds over which a dripping body comes"),
    ):
        default = getattr(usual, name.replace("-", "_"))
        options.add_argument(f"--{name}", type=kind, default=default, help=about)
    options.add_argument("--faults-of", type=_kinds, default=USUAL, help=f"of {', '.join(FAULTS)}")
    options.add_argument("--prefix-cache", action="store_true", help="tell cached tokens")
    options.add_argument(
        "--with-parent", action="store_true", help="end when the standard input ends"
    )
    return options


def _kinds(written: str) -> tuple[str, ...]:
    kinds = tuple(written.split(","))
    for kind in kinds:
        if kind not in FAULTS:
            raise argparse.ArgumentTypeError(f"no fault is called {kind}")
    return kinds


def _end_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


async def _serve(settings: Settings, port: int) -> None:
    desk = Desk(settings)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(desk), "127.0.0.1", port, backlog=1024, reuse_address=True
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    main()
