"""Thirty people judge plans at once for a minute: is every verdict kept, and how long do they wait?

    python -m benchmarks.review [--people 30] [--seconds 60] [--store postgresql+psycopg://…]

A real server is a process of its own on loopback. Each person opens the plans,
pauses over an edit, saves, and sees the others' verdicts; nobody thinks for longer
than a tenth of a second. What was acknowledged is then looked for in the store.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from pearl.review.verdicts import read_verdicts
from pearl.store.database import open_database

PLAN = """\
question: Why does Mara {number} leave the lighthouse?

1. who = FIND_CHARACTER(CTX, "Mara {number}") : Find who Mara is
2. event = FIND_EVENT(CTX, "Mara leaves the lighthouse") : Find what happens
3. why = FIND_REASON(CTX, event) : Find why she leaves
4. ans = CONCAT(who, why) : Combine them
"""
_CSRF = re.compile(r'name="csrf" value="([0-9a-f]{64})"')
_PLAN = re.compile(r'<a href="/plan/([0-9a-f]{16})"')


class Person:
    """Somebody at a browser, who writes down what was acknowledged and how long it took."""

    def __init__(self, number: int, link: str, until: float) -> None:
        self.number = number
        self.link = link
        self.until = until
        self.took: dict[str, list[float]] = defaultdict(list)
        self.saved: list[tuple[str, str]] = []
        self.refused: list[int] = []

    async def work(self) -> None:
        """Come in, and judge until the time is up."""
        address = self.link.partition("/enter")[0]
        # Only what carries a number as host is a cookie's owner to this library.
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(address, cookie_jar=jar) as self.web:
            page = await self.get("enter", self.link.removeprefix(address))
            token = self.link.partition("token=")[2]
            await self.post("enter", "/enter", page, token=token)
            plans = _PLAN.findall(await self.get("queue", "/"))
            chance = random.Random(self.number)
            count = 0
            while time.monotonic() < self.until:
                plan = chance.choice(plans)
                page = await self.get("plan", f"/plan/{plan}")
                await asyncio.sleep(chance.uniform(0, 0.1))
                text = PLAN.format(number=chance.randrange(99))
                await self.post("check", f"/plan/{plan}/check", page, text=text)
                await asyncio.sleep(chance.uniform(0, 0.1))
                count += 1
                words = f"{self.number}: {count}"
                status = await self.post(
                    "verdict", f"/plan/{plan}/verdict", page, words=words,
                    correct=chance.choice(("yes", "no", "unclear")),
                    confidence=str(chance.randint(1, 5)),
                )  # fmt: skip
                if status in (200, 303):
                    self.saved.append((plan, words))

    async def get(self, kind: str, path: str) -> str:
        """A page's text."""
        started = time.monotonic()
        async with self.web.get(path) as answer:
            text = await answer.text()
        self._took(kind, started, answer.status)
        return text

    async def post(self, kind: str, path: str, page: str, **fields: str) -> int:
        """A form's status."""
        found = _CSRF.search(page)
        form = {"csrf": found[1] if found else "", **fields}
        started = time.monotonic()
        headers = {"HX-Request": "true"} if kind != "enter" else {}
        async with self.web.post(path, data=form, headers=headers) as answer:
            await answer.read()
        self._took(kind, started, answer.status)
        return answer.status

    def _took(self, kind: str, started: float, status: int) -> None:
        self.took[kind].append(time.monotonic() - started)
        if status >= 400:
            self.refused.append(status)


async def review(folder: Path, store: str, count: int, seconds: float) -> list[Person]:
    """Serve, and let everybody work."""
    words = [sys.executable, "-m", "pearl", "review", str(folder), "--port", "0", "--json",
             "--annotators", str(count), "--overlap", str(count), "--new-links",
             "--store", store]  # fmt: skip
    server = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    told = b""
    while not told.endswith(b"\n}\n"):
        told += await server.stdout.readline()
    links = [one["link"] for one in json.loads(told)["annotators"]]
    until = time.monotonic() + seconds
    people = [Person(number, link, until) for number, link in enumerate(links)]
    try:
        async with asyncio.TaskGroup() as group:
            for one in people:
                group.create_task(one.work())
    finally:
        # Without a word, as a machine that goes down.
        server.kill()
        await server.wait()
    return people


def lines(people: list[Person], seconds: float) -> Iterator[str]:
    """What it came to."""
    yield f"{'':10}{'requests':>10}{'median':>10}{'p95':>10}{'p99':>10}{'slowest':>10}"
    whole: list[float] = []
    for kind in ("queue", "plan", "check", "verdict"):
        took = [spent for one in people for spent in one.took[kind]]
        whole += took
        yield _line(kind, took)
    yield _line("all", whole)
    yield f"{len(whole) / seconds:.0f} requests a second, {len(people)} people"


def _line(kind: str, took: list[float]) -> str:
    ordered = sorted(took)
    shares = [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in
              (0.5, 0.95, 0.99, 1)]  # fmt: skip
    told = "".join(f"{1000 * one:>7.0f} ms" for one in shares)
    return f"{kind:10}{len(took):>10,}{told}"


def main() -> int:
    """Run it; 1 where a verdict that was acknowledged is not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--plans", type=int, default=40)
    parser.add_argument("--store", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "plans"
        folder.mkdir()
        for number in range(given.plans):
            (folder / f"p{number}.plan").write_text(PLAN.format(number=number), encoding="utf-8")
        store = given.store or str(Path(name) / "store.db")
        people = asyncio.run(review(folder, store, given.people, given.seconds))
        engine = open_database(store)
        kept = {(one.plan, one.verdict.words) for one in read_verdicts(engine)}
        engine.dispose()
    print("\n".join(lines(people, given.seconds)))
    saved = [one for person in people for one in person.saved]
    lost = len(set(saved) - kept)
    refused = [status for person in people for status in person.refused]
    print(f"{len(saved):,} verdicts acknowledged, {lost} lost, {len(refused)} requests refused")
    return 1 if lost or refused else 0


if __name__ == "__main__":
    raise SystemExit(main())
