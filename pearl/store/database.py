"""Opens a store's database, brings its tables up to date, and tells which processes are alive."""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pearl.lang.errors import InputError, install_command
from pearl.lang.text import shorten

if TYPE_CHECKING:
    from sqlalchemy import URL, Column, ColumnElement, Connection, Engine


HOME = str(Path(".pearl") / "store.db")
"""The default place of a store: a file below the working folder."""

BUSY = 60.0
"""The most seconds to wait while another process has locked the file."""

LONG_LOG = 1 << 24
"""The size of a file's write-ahead log, in bytes, from which it is moved into the file."""

_READS, _OPENED = "pearl_reads", "pearl_opened"

_LOCK = 7052961
"""The key of the PostgreSQL lock under which one process at a time migrates the tables."""


def address(place: str = "") -> str:
    """The place of the store: the given one, else ``PEARL_STORE``, else `HOME`."""
    return place or os.environ.get("PEARL_STORE", "").strip() or HOME


def store_files(place: str) -> list[str]:
    """The files of a store, which need not exist: SQLite makes and deletes those beside the first.
    No place, and a database on a server, have none."""
    if not place or "://" in place:
        return []
    # SQLite follows a link before it names the others.
    return [place, *(f"{os.path.realpath(place)}{end}" for end in ("", "-wal", "-shm", "-journal"))]


def is_there(place: str) -> bool:
    """Whether a store exists; a database on a server is assumed to."""
    return "://" in place or Path(place).is_file()


def open_database(place: str) -> Engine:
    """Connect to a file's path or an address such as ``postgresql+psycopg://user@host/name``,
    and bring the tables up to date.

    Raises:
        InputError: it cannot be reached or is no store; the message hides passwords.
    """
    from sqlalchemy.exc import SQLAlchemyError

    engine = _engine(place)
    try:
        with usable(engine), engine.begin() as connection:
            _migrate(connection)
            if engine.dialect.name == "sqlite" and engine.url.database:
                path = os.path.realpath(engine.url.database)
                opened = path, _identity(path), _identity(f"{path}-wal")
                engine.update_execution_options(**{_OPENED: opened})
    except (SQLAlchemyError, UnicodeError):
        raise _no_store(engine) from None
    return engine


def open_to_read(place: str) -> Engine:
    """Open an existing store to read it: as `open_database`, but a file that may not be written is
    opened read-only.

    Raises:
        InputError: it cannot be read, is no store, or is read-only and of another version of Pearl.
    """
    from sqlalchemy import NullPool, create_engine, event
    from sqlalchemy.exc import SQLAlchemyError

    from pearl.store.tables import HEAD

    path = Path(place).resolve()
    may_write = partial(
        os.access, mode=os.W_OK, effective_ids=os.access in os.supports_effective_ids
    )
    if "://" in place or (may_write(path) and may_write(path.parent)):
        return open_database(place)

    def connect() -> Any:  # noqa: ANN401 - the driver's
        import sqlite3

        # Without a log nobody is writing, and SQLite could not create one here.
        still = "" if _identity(f"{path}-wal") else "&immutable=1"
        address = f"{path.as_uri()}?mode=ro{still}"
        return sqlite3.connect(address, uri=True, timeout=BUSY, check_same_thread=False)

    # No pool, as the log may exist by the next connection.
    engine = create_engine(f"sqlite:///{place}", creator=connect, poolclass=NullPool)
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    try:
        with reading(engine) as connection:
            revision = _revision(connection)
    except (SQLAlchemyError, UnicodeError):
        raise _no_store(engine) from None
    if revision is None:
        raise _no_store(engine)
    if revision != HEAD:
        raise InputError(
            f"The store {place} may only be read, and an earlier Pearl wrote it: make a copy that "
            "may be written."
        )
    return engine


def _no_store(engine: Engine) -> InputError:
    return InputError(f"The store {shown_place(engine)} cannot be used: it is no store of Pearl's.")


class StoreError(InputError):
    """A store that was opened cannot be used: it is damaged, or its server has gone."""


class DisplacedError(StoreError):
    """A store's file is no longer where it was opened."""


def check_in_place(engine: Engine) -> None:
    """Check that a store's file is still where it was opened.

    Raises:
        DisplacedError: the file was deleted or replaced.
    """
    if _OPENED not in engine.get_execution_options():
        return
    path, opened, _ = engine.get_execution_options()[_OPENED]
    try:
        now = _identity(path)
    except OSError:
        # Its folder cannot be read any more, which says nothing of the file.
        return
    if now != opened:
        what = "replaced" if now else "deleted"
        raise DisplacedError(f"The store {shown_place(engine)} was {what} meanwhile.")


def check_to_write(engine: Engine) -> None:
    """As `check_in_place`, before something is written, as SQLite would go on writing to a deleted
    file.

    The log of a file that is gone is deleted, unless another process has it open: it would be
    applied to the file that is now in its place.

    Raises:
        DisplacedError: the file was deleted or replaced.
    """
    try:
        check_in_place(engine)
    except DisplacedError:
        path, _, log = engine.get_execution_options()[_OPENED]
        if _identity(f"{path}-wal") == log and not _is_locked(f"{path}-shm"):
            for ending in ("-wal", "-shm"):
                Path(f"{path}{ending}").unlink(missing_ok=True)
        raise


def _is_locked(path: str) -> bool:
    """Whether another process has a lock on a file, as far as the system tells."""
    try:
        number, locks = os.stat(path).st_ino, Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return False
    own = str(os.getpid())
    held = re.findall(r" (\d+) [0-9a-f]+:[0-9a-f]+:(\d+) ", locks)
    return any(inode == str(number) and pid != own for pid, inode in held)


def _identity(path: str) -> tuple[int, int] | None:
    """The device and inode of a file, which change if it is replaced; None where there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def shown_place(engine: Engine) -> str:
    """A file's path, or a server's address without its password."""
    if engine.dialect.name == "sqlite":
        return str(engine.url.database)
    return _shown(engine.url)


def without_password(place: str) -> str:
    """The place of a store, as a person typed it, without the password of an address."""
    from sqlalchemy import make_url

    return _shown(make_url(place)) if "://" in place else place


def _shown(url: URL) -> str:
    secret = {name: "***" for name in url.query if "password" in name.lower()}
    return url.update_query_dict(secret).render_as_string(hide_password=True)


def _engine(place: str) -> Engine:
    from sqlalchemy import create_engine, event, make_url
    from sqlalchemy.exc import SQLAlchemyError

    try:
        url = make_url(place if "://" in place else "sqlite://")
        if "://" not in place:
            url = url.set(database=str(_file(place)))
        options: dict[str, Any] = {}
        if url.get_backend_name() == "sqlite":
            options["connect_args"] = {"timeout": BUSY, "check_same_thread": False}
        else:
            # A server may have closed an idle connection.
            options["pool_pre_ping"] = True
            # What it logs is raised too; without a handler, Python would print it.
            logging.getLogger("psycopg").addHandler(logging.NullHandler())
        engine = create_engine(url, **options)
    except (SQLAlchemyError, ValueError):
        raise InputError(
            "The store's address cannot be read: name a file, or "
            "postgresql+psycopg://user@host/name."
        ) from None
    except ImportError as error:
        if not place.startswith("postgresql"):
            raise InputError(
                "A store is a file, or postgresql+psycopg://user@host/name: name one of these."
            ) from None
        missing = getattr(error, "name", "") or "its driver"
        raise InputError(f"The store needs {missing}: {install_command('postgres')}.") from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)
    else:
        event.listen(engine, "connect", _bound)
    return engine


def _bound(connection: Any, _: object) -> None:  # noqa: ANN401 - the driver's
    """Let nothing wait without end for a lock that somebody holds on a server, unless its address
    has a time of its own."""
    limit = f"set_config('lock_timeout', '{round(1000 * BUSY)}', false)"
    connection.cursor().execute(f"SELECT {limit} WHERE current_setting('lock_timeout') = '0'")
    connection.commit()


def _file(place: str) -> Path:
    path = Path(place)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        ignore = path.parent / ".gitignore"
        if path.parent.name == Path(HOME).parent.name and not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
        # It holds documents, questions and answers, so only its owner may read it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror}): run in a folder of your own, or name "
            "a file with --store."
        ) from None
    return path


def _prepare(connection: Any, _: object) -> None:  # noqa: ANN401 - the driver's
    # Else the driver begins transactions late, and two processes may read before either writes.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={round(1000 * BUSY)}")
    import sqlite3

    give_up = time.monotonic() + BUSY
    while True:
        try:
            # This mode, which the file keeps, lets readers and a writer work concurrently.
            cursor.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            # SQLite itself does not wait here while others open a new file too.
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
    # Moving the log into the file takes long, and `checkpoint` does it in another thread.
    cursor.execute("PRAGMA wal_autocheckpoint=20000")
    # A kill loses nothing with NORMAL; a power cut may lose the last moments, and harms nothing.
    cursor.execute("PRAGMA synchronous=NORMAL")
    # SQLite's own ``lower``, on which case-insensitive search relies, knows only ASCII letters.
    connection.create_function("lower", 1, lambda text: text and str(text).lower())
    cursor.close()


def _begin(connection: Connection) -> None:
    import sqlite3

    from sqlalchemy.exc import OperationalError

    reads = connection.get_execution_options().get(_READS)
    cursor = connection.connection.cursor()
    try:
        cursor.execute("BEGIN" if reads else "BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        # As SQLAlchemy would raise it, so that `Writer` tries again after a lock.
        raise OperationalError("BEGIN", {}, error) from None
    finally:
        cursor.close()


def is_log_long(engine: Engine) -> bool:
    """Whether a file's log is longer than `LONG_LOG`."""
    try:
        return Path(f"{engine.url.database}-wal").stat().st_size > LONG_LOG
    except OSError:
        return False


def checkpoint(engine: Engine) -> None:
    """Move a file's log into the file, as far as nobody reads it, without blocking writers."""
    with engine.connect().execution_options(**{_READS: True}) as connection:
        connection.rollback()
        connection.connection.cursor().execute("PRAGMA wal_checkpoint(PASSIVE)")


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection that only reads, and does not block writers.

    Raises:
        StoreError: the store cannot be read: it is damaged, or its server is gone.
    """
    with usable(engine), engine.connect().execution_options(**{_READS: True}) as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction; its changes are on disk when the block has ended.

    Raises:
        StoreError: the store cannot be written.
    """
    # A new connection would make a file where there is none.
    check_to_write(engine)
    with usable(engine), engine.begin() as connection:
        yield connection
        check_to_write(engine)


def starts_with(engine: Engine, column: Column[str], text: str) -> ColumnElement[bool]:
    """A condition that a column begins with a text, for which the column's index is used."""
    from sqlalchemy import and_

    if engine.dialect.name == "sqlite":
        # LIKE would look at every row. U+10FFFF is the last of all characters.
        return and_(column >= text, column < f"{text}\U0010ffff")
    return column.startswith(text, autoescape=True)


@contextmanager
def usable(engine: Engine) -> Iterator[None]:
    """Turn errors of the database in the block into one line.

    Raises:
        StoreError: the database is damaged, or its server is gone.
    """
    from sqlalchemy.exc import DBAPIError

    try:
        yield
    except (DBAPIError, engine.dialect.loaded_dbapi.Error) as error:
        reason = driver_reason(engine, error)
        raise StoreError(f"The store {shown_place(engine)} cannot be used: {reason}.") from None


def driver_reason(engine: Engine, error: Exception) -> str:
    """What a driver says of an error, without the password and the period. Only its first line: a
    server's further ones are guesses, and the place in the SQL."""
    first = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    password = engine.url.password
    masked = first.replace(str(password), "***") if password else first
    return shorten(masked, 200).rstrip(".")


def _migrate(connection: Connection) -> None:
    """Create the tables, or bring those of an earlier version up to date."""
    from sqlalchemy import delete, insert, text

    from pearl.store.tables import CHANGES, HEAD, metadata, version

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    revision = _revision(connection)
    if revision == HEAD:
        return
    if revision is None:
        with closing(connection.connection.cursor()) as cursor:
            # In a database that is no store yet, a table of such a name is an error.
            for statement in _making(connection.dialect.name):
                cursor.execute(statement)
    else:
        metadata.create_all(connection)
    for number, change in CHANGES.items():
        if revision is not None and revision < number and change:
            own = change if isinstance(change, str) else change[connection.dialect.name]
            connection.execute(text(own))
    connection.execute(delete(version))
    connection.execute(insert(version), {"version_num": HEAD})


def _revision(connection: Connection) -> str | None:
    """The version of a database's tables, a key of `CHANGES`; None where there are none. An
    `InputError` where they are not Pearl's, of a later version, or incomplete."""
    from sqlalchemy import inspect

    from pearl.store.tables import HEAD, metadata, version

    exists = inspect(connection).has_table(version.name)
    revision = connection.execute(version.select()).scalar() if exists else None
    if not isinstance(revision, str | None):
        raise InputError("The store is none of Pearl's: name another.")
    if revision is not None and revision > HEAD:
        raise InputError(
            f"The store was written by a later Pearl (its tables are at {revision}, this one knows "
            f"{HEAD}): upgrade Pearl, or name another store."
        )
    lost = metadata.tables.keys() - set(inspect(connection).get_table_names())
    if revision == HEAD and lost:
        raise InputError(
            f"The store has lost its table {min(lost)}: take an older copy of it, or name "
            "another store."
        )
    return revision


@cache
def _making(dialect: str) -> tuple[str, ...]:
    """The SQL that creates the tables, cached, as compiling it takes longer than running it."""
    from sqlalchemy.dialects import postgresql, sqlite
    from sqlalchemy.schema import CreateIndex, CreateTable

    from pearl.store.tables import metadata

    tables = metadata.sorted_tables
    indices = (index for table in tables for index in table.indexes)
    made: list[CreateTable | CreateIndex] = [*map(CreateTable, tables), *map(CreateIndex, indices)]
    kind = (postgresql if dialect == "postgresql" else sqlite).dialect()
    return tuple(str(statement.compile(dialect=kind)) for statement in made)


LIFE = 60.0
"""Seconds without a heartbeat after which a process on another machine counts as dead."""


def new_owner() -> str:
    """A unique name for this process, which no later process with the same id has."""
    return f"{_machine()}:{os.getpid()}:{_born(os.getpid())}:{secrets.token_hex(4)}"


def _machine() -> str:
    """The host and the namespace (as of a container) in which process ids are unique."""
    try:
        space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"


def is_dead(owner: str, seen: float, now: float) -> bool:
    """Whether an owner's process is gone.

    Args:
        owner: as `new_owner` made it; empty where the process has ended its work.
        seen: its last heartbeat, in seconds since 1970. By a wrong clock it may be in the future;
            far in the future, it counts as too old.
        now: the time, likewise.
    """
    if not owner:
        return True
    host, pid, born, *_ = (*owner.split(":"), "", "", "")
    if host != _machine() or not pid.isdigit():
        return abs(now - seen) > LIFE
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except OSError:
        # The process exists and is another user's.
        return False
    return _born(int(pid)) != born


def _born(pid: int) -> str:
    """When a process started, in ticks of the machine's clock; empty where that is not known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The command's name, in parentheses, may hold anything; what follows it does not.
        state, *fields = stat.rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    # A zombie has ended, and only waits for its parent.
    return "" if state == "Z" else fields[18]
