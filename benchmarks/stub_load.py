"""Measures how many requests a second the stub itself can answer.

    python -m benchmarks.stub_load [--requests 20000]

The client writes requests made beforehand to plain sockets, 64 at a time, and
reads no more than it must, so that the stub and not the client is measured.
"""

from __future__ import annotations

import argparse
import json
import socket
import time
from urllib.parse import urlsplit

from benchmarks.stub import Stub
from benchmarks.workload import documents, find_instruction, plans, prompt

SOCKETS = 64


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--requests", type=int, default=20_000)
    chosen = options.parse_args()
    with Stub() as stub:
        rate = measure(stub, chosen.requests)
        told = stub.stats()
    print(
        f"{rate:,.0f} requests/s of {len(_requests()[0]):,} bytes; the stub was busy for "
        f"{1e6 * told['cpu_seconds'] / told['requests']:.0f} µs of processor time a request"
    )


def measure(stub: Stub, count: int) -> float:
    """Requests a second that a stub answers when nothing else is slow.

    Args:
        stub: a running one, without latency or faults.
        count: how many requests to send.
    """
    where = urlsplit(stub.address)
    ready = _requests()
    sockets = [socket.create_connection((where.hostname, where.port)) for _ in range(SOCKETS)]
    try:
        _round(sockets, ready)
        stub.reset()
        started = time.perf_counter()
        for _ in range(count // SOCKETS):
            _round(sockets, ready)
        return count // SOCKETS * SOCKETS / (time.perf_counter() - started)
    finally:
        for one in sockets:
            one.close()


def _round(sockets: list[socket.socket], ready: list[bytes]) -> None:
    for at, one in enumerate(sockets):
        one.sendall(ready[at % len(ready)])
    for one in sockets:
        # An answer is far shorter than a read, and is written in one go.
        if not one.recv(65_536).endswith(b"}"):
            raise RuntimeError("The stub sent no whole answer.")


def _requests() -> list[bytes]:
    texts = documents()
    ready = []
    for plan in plans(SOCKETS):
        text = prompt(texts[plan.document], find_instruction(plan, 0))
        body = json.dumps({"model": "stub", "messages": [{"role": "user", "content": text}]})
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: stub\r\nContent-Length: {len(body)}"
        ready.append(f"{head}\r\nContent-Type: application/json\r\n\r\n{body}".encode())
    return ready


if __name__ == "__main__":
    main()
