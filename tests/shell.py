"""Commands run as a person runs them: in this process where speed counts, or as a real one."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pearl.cli import main
from tests.forks import Fork

STORY = (
    "Mara kept the lighthouse for nine years. Her brother Tom wanted the post for himself.\n"
    "Mara left the lighthouse because the Fund had closed it. Tom was sorry, and said so.\n"
    'She said, "I will not come back." Nobody on the island believed her.\n'
)
GOOD = 'question: Why does Mara leave?\n\n1. ans = FIND_REASON(CTX, "Mara leaves") : Find why\n'
BAD = '1. tie = FIND_RELATIONSHIPS(CTX, "Mara", mother) : Find it\n2. b CONCAT(tie\n'


def write_rows(path: str | Path, *rows: Mapping[str, Any]) -> Path:
    """A file of JSON lines."""
    file = Path(path)
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


class Result(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def told(self) -> list[str]:
        """The lines on standard error."""
        return self.err.splitlines()


def call(*args: str | Path, stdin: bytes | str | None = b"") -> Result:
    """Run a command in this process; an exception that it lets through fails the test."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["pearl", *map(str, args)])
        given = None if data is None else io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
        patch.setattr(sys, "stdin", given)
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        with pytest.raises(SystemExit) as ended:
            main()
    told = []
    for stream in (out, err):
        stream.flush()
        told.append(stream.buffer.getvalue().decode("utf-8"))  # type: ignore[attr-defined]
    return Result(int(str(ended.value.code)), *told)


def asked_of(folder: Path, url: str, *words: str) -> Result:
    """Run a command in a folder, with the endpoint at an address, or with none at all."""
    endpoint = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "sk-secretsecret", "PEARL_TRIES": "1"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, value in endpoint.items() if url else ():
            patch.setenv(name, value)
        return call(*words, *(("--model", "m") if url else ()))


def command(*args: str | Path) -> list[str]:
    """The words of a real process."""
    return [sys.executable, "-m", "pearl", *map(str, args)]


def process(*args: str | Path, stdin: bytes = b"", **settings: str) -> Result:
    """Run a command as a process of its own."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with Fork(command(*args), env={**os.environ, **settings}, **pipes) as child:
        out, err = child.communicate(stdin, timeout=60)
    return Result(child.returncode, out.decode(), err.decode())


ONE_AFTER_ANOTHER = """
import json, sys
from pearl.cli import main
for at, words in enumerate(json.loads(sys.argv[1])):
    sys.argv = ["pearl", *words]
    try:
        main()
    except SystemExit as ended:
        print(f"<{at} ended>", flush=True)
"""


def on_terminal(*args: str | Path, stdin: bytes | None = None, **settings: str) -> tuple[int, str]:
    """Run a command that writes to a terminal; what that terminal was sent."""
    return _on_terminal(command(*args), stdin, **settings)


def all_on_terminal(*commands: tuple[str, ...]) -> str:
    """What a terminal was sent by commands that one process runs; ``<3 ended>`` after the third."""
    return _on_terminal([sys.executable, "-c", ONE_AFTER_ANOTHER, json.dumps(commands)])[1]


def at_terminal(*args: str | Path, prompt: bytes, keys: str) -> tuple[int, str]:
    """Run a command at a terminal, where a key is typed, and Enter, whenever it prompts."""
    return _on_terminal(command(*args), prompt=prompt, keys=keys, TERM="dumb")


def _on_terminal(
    words: list[str],
    stdin: bytes | None = None,
    prompt: bytes = b"",
    keys: str = "",
    **settings: str,
) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **settings}
    given = theirs if stdin is None else subprocess.PIPE
    child = Fork(words, stdin=given, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    if child.stdin is not None:
        child.stdin.write(stdin or b"")
        child.stdin.close()
    shown, typed = b"", 0
    try:
        while part := os.read(ours, 4096):
            shown += part
            if typed < min(len(keys), shown.count(prompt)):
                os.write(ours, f"{keys[typed]}\n".encode())
                typed += 1
    except OSError:
        pass  # Linux ends a terminal whose last writer has gone with EIO.
    finally:
        os.close(ours)
    return child.wait(timeout=60), shown.decode()


def one_line(result: Result, code: int) -> str:
    """The single line a failure is told in; everything that holds for every failure is checked."""
    assert result.code == code, result
    assert len(result.told) == 1, result.err
    line = result.told[0]
    assert line.startswith("pearl: ")
    # It ends as a sentence, or with the command to run next.
    assert line.endswith((".", "--help")) or ": pearl " in line, line
    assert 15 < len(line) < 400, line
    assert "Traceback" not in result.err
    assert line.isprintable(), ascii(line)
    return line.removeprefix("pearl: ")
