"""A review that is being served, and a browser's side of it without a browser."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import uvicorn
from sqlalchemy import Engine

from pearl.lang.library import load_library
from pearl.review.pages import application
from pearl.review.people import Annotator, ReviewSession, lay_out
from pearl.review.queue import Folders, read_folders, read_queue
from pearl.store.database import open_database
from pearl.viewer.serve import listen, server_config
from tests.forks import Fork
from tests.shell import command

GOOD = 'question: Why does {who} leave?\n\n1. ans = FIND_REASON(CTX, "{who} leaves") : Find why\n'
_FORM = re.compile(r'name="csrf" value="([0-9a-f]{64})"')


def plans(folder: Path, count: int = 10) -> Path:
    """A folder of plans without errors."""
    folder.mkdir()
    for number in range(count):
        text = GOOD.format(who=f"Mara {number}")
        (folder / f"plan{number}.plan").write_text(text, encoding="utf-8")
    return folder


def at_once(work: Callable[[int], None], count: int) -> None:
    """Do something as many times in threads of its own; what one of them raises is raised."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))


@dataclass
class Answer:
    """What a server said."""

    status: int
    headers: dict[str, str]
    text: str
    cookies: list[str] = field(default_factory=list)


@dataclass
class Browser:
    """Asks as a browser does: keeps its cookies, and sends what forms hold."""

    port: int
    cookies: dict[str, str] = field(default_factory=dict)
    csrf: str = ""

    def ask(self, method: str, path: str, body: Any = None, **headers: str | None) -> Answer:
        """One request; a header that is None is left out."""
        told: dict[str, str | None] = {"Host": f"127.0.0.1:{self.port}"}
        if self.cookies:
            told["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if isinstance(body, dict | list):
            body = urlencode(body, doseq=True)
            told["Content-Type"] = "application/x-www-form-urlencoded"
            told["Origin"] = f"http://127.0.0.1:{self.port}"
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            line.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            data = body.encode() if isinstance(body, str) else body
            for name, value in told.items():
                if value is not None:
                    line.putheader(name, value)
            if data is not None and "Content-Length" not in told:
                line.putheader("Content-Length", str(len(data)))
            line.endheaders(data)
            got = line.getresponse()
            text = got.read().decode()
        finally:
            line.close()
        cookies = [value for name, value in got.getheaders() if name == "set-cookie"]
        for one in cookies:
            name, _, value = one.partition(";")[0].partition("=")
            self.cookies[name] = value
        found = _FORM.search(text)
        if found:
            self.csrf = found[1]
        return Answer(got.status, {name.lower(): v for name, v in got.getheaders()}, text, cookies)

    def get(self, path: str, **headers: str | None) -> Answer:
        """A page."""
        return self.ask("GET", path, **headers)

    def post(self, path: str, fields: dict[str, Any], **headers: str | None) -> Answer:
        """A form, with what our pages put into each."""
        return self.ask("POST", path, {"csrf": self.csrf, **fields}, **headers)

    def enter(self, token: str) -> None:
        """Come in by a link."""
        assert self.get(f"/enter?token={token}").status == 200
        assert self.post("/enter", {"token": token}).status == 303
        assert self.get("/").status == 200

    def judge(self, plan: str, correct: str = "yes", confidence: int = 4, **more: Any) -> Answer:
        """Give a verdict."""
        fields = {"correct": correct, "confidence": confidence, **more}
        return self.post(f"/plan/{plan}/verdict", fields)


@dataclass
class Review:
    """A review that is served by this process."""

    session: ReviewSession
    admitted: list[Annotator]
    port: int

    @property
    def ids(self) -> list[str]:
        """The plans', in order."""
        return [item.id for item in self.session.items]

    def link(self, number: int = 0) -> str:
        """An annotator's link."""
        return f"http://127.0.0.1:{self.port}/enter?token={self.admitted[number].token}"

    def browser(self, number: int | None = None) -> Browser:
        """A browser; one that is in, where it is said as whom."""
        found = Browser(self.port)
        if number is not None:
            found.enter(self.admitted[number].token)
        return found


def laid_out(
    names: Sequence[str | Path], place: str, folders: Folders, *who: Any, open: bool = False
) -> tuple[Engine, ReviewSession, list[Annotator]]:
    """What `pearl review` starts from."""
    engine = open_database(place)
    queue = read_queue([str(name) for name in names], folders, engine, place)
    admitted = lay_out(engine, queue, *who)
    people = tuple(one.person.id for one in admitted)
    library = load_library()
    session = ReviewSession(engine, queue.items, library, folders, people, open, "pearl_review")
    return engine, session, admitted


@contextmanager
def reviewing(
    *names: str | Path,
    place: str = "store.db",
    annotators: int | Sequence[str] = ("Anna", "Ben"),
    overlap: int = 2,
    documents: str | Path = "",
    demos: str | Path = "",
    open: bool = False,
    host: str = "127.0.0.1",
    hosts: Sequence[str] = (),
) -> Iterator[Review]:
    """A review, served on loopback as long as the block lasts."""
    folders = read_folders([str(name) for name in names], str(documents), str(demos))
    who = (annotators, overlap)
    engine, session, admitted = laid_out(names, place, folders, *who, open=open)
    try:
        with served(application(session, host, hosts)) as port:
            yield Review(session, admitted, port)
    finally:
        engine.dispose()


@contextmanager
def served(app: Any) -> Iterator[int]:
    """An application on loopback, as long as the block lasts; its port."""
    taken = listen("127.0.0.1", 0)
    server = uvicorn.Server(server_config(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
    thread.start()
    try:
        yield int(taken.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def process(*args: str | Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """``pearl review`` as a process of its own, and what it says at the start."""
    words = command("review", *args, "--port", "0", "--json")
    child = Fork(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    told = ""
    for line in child.stdout:
        told += line
        if line == "}\n":
            break
    try:
        said = json.loads(told)
        wait_for(int(said["address"].rpartition(":")[2]))
        yield child, said
    finally:
        child.kill()
        child.communicate()


def wait_for(port: int) -> None:
    """Wait until a server answers."""
    for _ in range(200):
        try:
            Browser(port).get("/static/review.css")
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the server does not answer")
