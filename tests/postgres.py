"""A real PostgreSQL server on loopback, started by the tests: one a session, a database a test.

A test module that says ``pytest_plugins = ["tests.postgres"]`` has the fixtures
``database``, the address of a fresh database, and ``place``, with which a test
runs on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import getpass
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import psycopg

USER = "postgres"
"""Who runs the server where the tests run as root, which PostgreSQL refuses to be."""

HURRY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
"""No test cuts the power."""


class NoServerError(Exception):
    """There is no server to start here; the message says why."""


@dataclass(frozen=True)
class Server:
    """A running server, on a port of 127.0.0.1, and a connection on which databases are made."""

    port: int
    connection: psycopg.Connection

    def address(self, database: str) -> str:
        """What PEARL_STORE is to be."""
        return f"postgresql+psycopg://{_user()}@127.0.0.1:{self.port}/{database}"

    @contextmanager
    def database(self) -> Iterator[str]:
        """The address of a fresh database, which is dropped at the end."""
        name = f"pearl_{secrets.token_hex(4)}"
        self.connection.execute(f"CREATE DATABASE {name}")
        try:
            yield self.address(name)
        finally:
            self.connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def running() -> Iterator[Server]:
    """A server in a folder of its own, from ``with`` to the end of the block.

    Raises:
        NoServerError: none can be started here.
    """
    import psycopg

    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="pearl-postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        data = folder / "data"
        log = folder / "log"
        made = _as_user([programs / "initdb", "-D", data, "-A", "trust", "-U", _user(), "-N",
                         "-E", "UTF8", "--locale=C.UTF-8"], log)  # fmt: skip
        if made.wait():
            raise NoServerError(f"initdb failed: {_said(log)}")
        port = _free_port()
        options = [word for one in HURRY for word in ("-c", one)]
        server = _as_user([programs / "postgres", "-D", data, "-p", str(port), "-k", folder,
                           "-c", "listen_addresses=127.0.0.1", *options], log)  # fmt: skip
        try:
            asked = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
            while subprocess.run(asked).returncode:
                if server.poll() is not None:
                    raise NoServerError(f"PostgreSQL did not start: {_said(log)}")
                time.sleep(0.05)
            address = f"postgresql://{_user()}@127.0.0.1:{port}/postgres"
            with psycopg.connect(address, autocommit=True) as connection:
                yield Server(port, connection)
        finally:
            # It ends at once: nothing in it is worth keeping.
            server.send_signal(signal.SIGQUIT)
            server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The session's server; what needs it is skipped where there is none."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(running())
        except NoServerError as reason:
            pytest.skip(str(reason))
        yield server


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """The address of a fresh PostgreSQL database."""
    with postgres.database() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a fresh store is to be, on either kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    address: str = request.getfixturevalue("database")
    return address


def _programs() -> Path:
    config = shutil.which("pg_config")
    if config is None:
        raise NoServerError("there is no PostgreSQL here: pg_config is not found")
    told = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=True)
    programs = Path(told.stdout.strip())
    for name in ("initdb", "postgres", "pg_isready"):
        if not (file := programs / name).is_file():
            raise NoServerError(f"there is no PostgreSQL server here: {file} is not there")
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(USER)
        except KeyError:
            raise NoServerError(
                f"root cannot run PostgreSQL, and there is no user {USER}"
            ) from None
    return programs


def _user() -> str:
    return USER if os.geteuid() == 0 else getpass.getuser()


def _as_user(words: list[str | Path], log: Path) -> subprocess.Popen[bytes]:
    """Start a program that root may not be, in a folder that its user may enter."""
    who: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []}
    with log.open("ab") as file:
        return subprocess.Popen(
            words, cwd="/", stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            **(who if os.geteuid() == 0 else {}),
        )  # fmt: skip


def _said(log: Path) -> str:
    told = log.read_text(encoding="utf-8", errors="replace").strip()
    return told.splitlines()[-1] if told else "it does not say why"


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port
