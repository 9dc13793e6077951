"""What every peer's process does around its own library: warm up, measure, print one line."""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.stub import reset, stats
from benchmarks.workload import AT_ONCE, CALLS, PLANS, Plan, plans

MODEL = "gpt-4o-mini"
KEY = "stub"
WARM = 1_000_000
"""Number of the first plan that is run before the clock starts."""

Run = Callable[[list[Plan], int], Awaitable[list[str]]]
"""Runs plans, so many at a time, and gives their answers in order."""

Peer = Callable[[str], AbstractAsyncContextManager[Run]]
"""Opens a library on an endpoint's address, and closes it."""


def run_peer(peer: Peer) -> None:
    """Run a peer as its process does, and print what it took as a line of JSON.

    The clock runs from the first plan to the last answer; imports, the client
    and its first connections stand outside.
    """
    options = argparse.ArgumentParser()
    options.add_argument("--url", required=True)
    options.add_argument("--plans", type=int, default=PLANS)
    options.add_argument("--at-once", type=int, default=AT_ONCE)
    chosen = options.parse_args()
    print(json.dumps(asyncio.run(_measured(peer, chosen.url, chosen.plans, chosen.at_once))))


async def _measured(peer: Peer, url: str, count: int, at_once: int) -> dict[str, float]:
    address = f"http://{urlsplit(url).netloc}"
    work = plans(count)
    async with peer(url) as run:
        # Twice as many as run at once, so that connections are open and used again.
        await run(plans(2 * at_once, WARM), at_once)
        reset(address)
        processor, started = time.process_time(), time.perf_counter()
        answers = await run(work, at_once)
        seconds = time.perf_counter() - started
        processor = time.process_time() - processor
        told = stats(address)
    if len(answers) != count or not all(answer.count("mark") == 2 for answer in answers):
        sys.exit("Not every plan was answered with both of its compares.")
    if told["completed"] != count * CALLS or told["distinct"] != count * CALLS:
        sys.exit(f"{told['completed']} calls were answered instead of {count * CALLS}.")
    return {
        "plans": count,
        "seconds": seconds,
        "plans_per_second": count / seconds,
        "calls": told["requests"],
        "most_calls_at_once": told["max_in_flight"],
        "prompt_tokens_a_call": told["prompt_tokens"] / told["requests"],
        "cpu_seconds": processor,
        "stub_cpu_seconds": told["cpu_seconds"],
        "peak_rss_mb": peak_rss(),
    }


def peak_rss() -> float:
    """The most memory this process has held, in MB."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: on Linux it starts from what the parent held.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1024 * 1024 if sys.platform == "darwin" else 1024)
