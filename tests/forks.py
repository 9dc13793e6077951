"""Processes of Python that start at once: forked from one that has Pearl's libraries loaded.

Importing them is most of what a short command takes. A fork has its own pid, streams, folder and
environment, takes signals and ends as any process does; what a test has to say about starting an
interpreter is said with `subprocess` itself.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import io
import json
import os
import runpy
import socket
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LOADED = (
    "aiohttp", "bm25s", "distributed.worker", "jinja2",
    "multiprocessing.synchronize",
    "rich.progress", "snowballstemmer", "sqlite3", "sqlalchemy.dialects.sqlite",
    "pearl.api", "pearl.cli.ask", "pearl.cli.batch", "pearl.cli.language", "pearl.cli.lint",
    "pearl.cli.runs", "pearl.jobs.batch", "pearl.lang.definitions", "pearl.models.middleware.stack",
    "pearl.models.settings",
    "pearl.models.offline", "pearl.models.openai", "pearl.retrieval.index",
    "pearl.store.store", "pearl.strategies.registry", "pearl.lsp.server", "pearl.review.pages",
    "pearl.cli.serve", "pearl.evaluate.evaluation_job", "pearl.lint.render",
    "uvicorn.protocols.http.h11_impl",
)  # fmt: skip
PLAN = 'question: Why?\n\n1. why = FIND_REASON(CTX, "Mara {each who} left", [1]) : Find why\n'
STARTING = ("PYTHON", "LANG", "LC_", "DASK_")
"""What is read from the environment as an interpreter or Dask starts, and no fork can be told."""
SUBREAPER = 36
"""``PR_SET_CHILD_SUBREAPER``: what has lost its parent becomes this process's child."""


class Fork(subprocess.Popen):  # type: ignore[type-arg]
    """A `subprocess.Popen` of ``[sys.executable, "-m" or "-c", …]``, forked where that can be."""

    def _execute_child(self, args: Any, *more: Any) -> None:  # as Popen names it
        folder, environment = more[4:6]
        streams = more[9:15]
        environment = dict(os.environ if environment is None else environment)
        if sys.platform != "linux" or _starting(environment) != _starting(os.environ):
            return super()._execute_child(args, *more)  # type: ignore[misc]
        request = [args[1:], os.fspath(folder or os.getcwd()), environment]
        given = [at if fd == -1 else fd for at, fd in enumerate(streams[at] for at in (0, 3, 5))]
        line = _server()
        socket.send_fds(line, [json.dumps(request).encode()], given)
        self.pid = int(line.recv(32))
        self._child_created = True
        self._close_pipe_fds(*streams)  # type: ignore[attr-defined]


def _starting(environment: Any) -> dict[str, str]:
    return {name: text for name, text in environment.items() if name.startswith(STARTING)}


@functools.cache
def _server() -> socket.socket:
    """The way to the process that forks; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    assert ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0) == 0
    words = [sys.executable, "-m", "tests.forks", str(theirs.fileno())]
    subprocess.Popen(words, cwd=ROOT, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    return ours


def _next(line: socket.socket) -> tuple[list[str], str, dict[str, str]]:
    """Fork for every request, and return in the fork with what it is to do; streams are set."""
    while True:
        data, streams, _, _ = socket.recv_fds(line, 1 << 20, 3)
        if not data:
            os._exit(0)
        ours, theirs = os.pipe()
        # Whoever asked becomes the parent of the second fork once the first is gone.
        if between := os.fork():
            os.close(theirs)
            os.waitpid(between, 0)
            line.send(os.read(ours, 32))
            for fd in (ours, *streams):
                os.close(fd)
        elif child := os.fork():
            os.write(theirs, str(child).encode())
            os._exit(0)
        else:
            line.close()
            for at, fd in enumerate(streams):
                os.dup2(fd, at)
            os.closerange(3, max(ours, theirs, *streams) + 1)
            words, folder, environment = json.loads(data)
            return words, folder, environment


def _reopen(name: str, fd: int, mode: str) -> None:
    old: io.TextIOWrapper = getattr(sys, name)
    new = open(  # noqa: SIM115 - it stays for as long as the process
        fd, mode, encoding=old.encoding, errors=old.errors, closefd=False
    )
    if name == "stderr" or new.isatty():
        new.reconfigure(line_buffering=True)
    setattr(sys, name, new)
    setattr(sys, f"__{name}__", new)


if __name__ == "__main__":
    for module in LOADED:
        with suppress(ImportError):
            import_module(module)
    library = import_module("pearl.lang.library").load_library()
    # Patterns and templates are compiled when they are first used.
    parsed = import_module("pearl.lang.parser").parse(PLAN)
    import_module("pearl.lint.checker").check(parsed, library)
    templates = import_module("pearl.prompts.render")._environment()
    for name in ("write_plan", "execute_step", "map_answer"):
        templates.get_template(f"{name}.jinja")
    gc.freeze()
    (how, what, *rest), folder, environment = _next(socket.socket(fileno=int(sys.argv[1])))
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for at, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        _reopen(name, at, mode)
    if how == "-m":
        sys.argv = [what, *rest]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [how, *rest]
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
