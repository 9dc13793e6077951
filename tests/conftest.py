"""What every test starts from: no settings of the person who runs it, a folder of its own."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pearl.lang.ast import Action
    from pearl.lang.diagnostics import SourceFindings
    from pearl.lang.library import Library
    from tests.server import Serve

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared" / "data"
PICTURES = ROOT / "docs" / "pictures"
# For matrices as small as here threads that wait for each other take twenty times what one does.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
MEMORY = Path("/dev/shm")
if (
    MEMORY.is_dir()
    and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    and shutil.disk_usage(MEMORY).free > 2 << 30
):
    # Where files are in memory, no store waits for a busy disk; those of 3 workers take 0.2 GB.
    tempfile.tempdir = os.environ.setdefault("TMPDIR", str(MEMORY))
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # Each of the many processes that tests start would compile what nobody else has.
    sys.dont_write_bytecode = False
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As where a shell runs the suite in the background: all that tests start would ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def library_of(text: str, others: Mapping[str, Action] | None = None) -> Library:
    """A library of the actions in a text, and of others, by name."""
    from pearl.lang.library import Library, parse_library

    own = {action.name: action for action in parse_library(text).actions}
    return Library(("own",), MappingProxyType({**(others or {}), **own}))


def rendered(form: str, *reports: SourceFindings) -> str:
    """What `pearl lint` prints of reports in a format."""
    from pearl.lint.render import RENDERERS

    codes = {finding.code for report in reports for finding in report.diagnostics}
    parts = filter(None, map(RENDERERS[form].part, reports))
    return "".join(RENDERERS[form].whole(parts, codes, ()))


def keep_picture(name: str, picture: bytes) -> None:
    """Write a picture of the documentation's, in few colours."""
    from PIL import Image

    few = Image.open(BytesIO(picture)).convert("RGB").quantize(64)
    few.save(PICTURES / f"{name}.png", optimize=True)


# More examples have not found anything here; what draws few does so by its own settings.
settings.register_profile("suite", max_examples=50, deadline=None)
settings.load_profile("suite")


if "PYTEST_XDIST_WORKER" in os.environ:
    # Once a worker has told all, what it loaded is not taken apart: that takes a second each.
    atexit.register(os._exit, 0)

# Nothing that is imported or collected goes before the end: no collector need look through it.
gc.disable()


def pytest_collection_finish() -> None:
    """What there is now is looked through no more, and seldom what tests make."""
    gc.freeze()
    gc.set_threshold(60_000, 20, 50)
    gc.enable()


def pytest_sessionfinish() -> None:
    """pytest collects five times before a process ends, and Python once more: all goes anyway."""
    gc.freeze()


def pytest_collection(session: pytest.Session) -> None:
    """Begin to import the tests elsewhere in each worker.

    In a fresh clone they are compiled as they are imported; nobody compiles what another has.
    """
    worker, folder = os.environ.get("PYTEST_XDIST_WORKER"), Path(__file__).parent
    if worker and [Path(one).resolve() for one in session.config.args] == [folder]:
        names = sorted(one.stem for one in folder.glob("test_*.py"))
        first = len(names) * int(worker[2:]) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        for name in names[first:] + names[:first]:
            # What is wrong with it, or lets it be skipped, is told where it is collected.
            with suppress(Exception, pytest.skip.Exception):
                import_module(name)


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("caches"))


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, _caches: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", _caches)
    for name in [one for one in os.environ if one.startswith(("PEARL_", "OPENAI_"))]:
        monkeypatch.delenv(name)
    # A server that records what it is asked is to be asked nothing but what the test is about.
    monkeypatch.setenv("PEARL_CONSTRAIN", "never")
    # No test outlives a power cut: a busy disk takes milliseconds for each.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts servers that speak as OpenAI's does."""
    from tests.server import starting

    yield from starting(monkeypatch)


@pytest.fixture
def examples() -> Path:
    """The folder with the example documents."""
    return ROOT / "plans" / "examples"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The shared data; tests that use it are skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the shared data is not beside this checkout")
    return SHARED
