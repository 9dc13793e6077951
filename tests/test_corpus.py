"""Many plans at once: on all cores, as they are read, and each checked only once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pearl.cli import lint
from pearl.cli.inputs import Input
from pearl.cli.lint import Checks, check_all
from pearl.lang.output_files import cache_folder
from pearl.lang.source import Source, TextKind
from pearl.lint.cache import Cache
from tests.shell import call

ROWS = 240
FORMS = ("terminal", "prompt", "json", "sarif", "github")


def text(number: int) -> str:
    wrong = ("", "2. b = FOO(CTX, a)\n", '2. b = CONCAT("x")\n3. c = CONCAT(b, )\n')[number % 3]
    return f'1. a = FIND_CHARACTER(CTX, "Ross {number}") : who\n{wrong}'


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a file with more plans than are checked one after another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lint, "FEW", 100)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = (json.dumps({"plan": text(number)}) for number in range(ROWS))
    (tmp_path / "many.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "my.actions").write_text("FOO(CTX, X) : Find X.\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one core, and so no process to start."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(1))


def test_several_processes_say_what_one_says_in_the_order_of_the_file(
    many: Path, monkeypatch: pytest.MonkeyPatch
):
    shared = call("lint", "many.jsonl", "--no-cache")
    assert not (cache_folder() / "lint.db").exists()
    monkeypatch.setattr(lint, "FEW", ROWS)
    assert shared == call("lint", "many.jsonl")
    assert "240 plans checked: 80 errors" in shared.err
    assert not (cache_folder() / "lint.db").exists()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.usefixtures("alone")
def test_what_is_kept_is_told_as_what_is_found(many: Path, form: str):
    found = call("lint", "many.jsonl", "--format", form, "--no-cache")
    assert found.out
    assert found == call("lint", "many.jsonl", "--format", form)
    assert (cache_folder() / "lint.db").stat().st_mode & 0o077 == 0
    assert found == call("lint", "many.jsonl", "--format", form)


@pytest.mark.usefixtures("alone", "many")
def test_a_text_that_is_known_is_not_checked_again_unless_its_library_or_the_rules_are_others(
    monkeypatch: pytest.MonkeyPatch,
):
    cold = call("lint", "many.jsonl", "--statistics", "--json").json
    checked: list[str] = []

    def check(*_: object) -> list[object]:
        checked.append("")
        return []

    monkeypatch.setattr(lint, "check_for_person", check)
    assert call("lint", "many.jsonl", "--statistics", "--json").json == cold
    assert not checked
    for other in (("--library", "my.actions"), ("--ignore", "PRL2"), ("--no-cache",)):
        call("lint", "many.jsonl", *other)
        assert len(checked) == ROWS, other
        checked.clear()
    monkeypatch.setattr("pearl.lint.cache.rules_version", lambda: "later")
    call("lint", "many.jsonl")
    assert len(checked) == ROWS


@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.write_bytes(b"no database" * 1000),
        lambda file: file.write_bytes(file.read_bytes()[:5000]),
        lambda file: (file.unlink(), file.mkdir()),
        lambda file: sqlite3.connect(file, isolation_level=None).execute(
            "UPDATE found SET found = '[[1, 2'"
        ),
    ],
    ids=["no database", "cut", "a folder", "no findings"],
)
@pytest.mark.usefixtures("alone", "many")
def test_a_damaged_cache_changes_nothing(harm):
    cold = call("lint", "many.jsonl")
    harm(cache_folder() / "lint.db")
    assert call("lint", "many.jsonl") == cold
    assert call("lint", "many.jsonl") == cold


@pytest.mark.usefixtures("alone", "many")
def test_a_user_without_a_home_folder_has_no_cache(monkeypatch: pytest.MonkeyPatch):
    cached = call("lint", "many.jsonl")
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 54321)
    assert call("lint", "many.jsonl") == cached


def test_a_cache_that_another_process_holds_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pearl.lint.cache._WAIT", 0.01)
    Cache(tmp_path / "lint.db").put({b"a": []})
    holder = sqlite3.connect(tmp_path / "lint.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    Cache(tmp_path / "lint.db").put({b"b": []})
    assert Cache(tmp_path / "lint.db").get([b"a"]) == {b"a": []}
    holder.execute("ROLLBACK")
    Cache(tmp_path / "lint.db").put({b"b": []})
    assert Cache(tmp_path / "lint.db").get([b"a", b"b", b"c"]) == {b"a": [], b"b": []}


def test_a_cache_that_has_grown_large_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    Cache(tmp_path / "lint.db").put({b"a": []})
    monkeypatch.setattr("pearl.lint.cache.LARGEST", 1)
    assert Cache(tmp_path / "lint.db").get([b"a"]) == {}


@pytest.mark.usefixtures("alone", "many")
def test_texts_are_read_as_they_are_checked():
    read = 0

    def texts() -> Iterator[Input]:
        nonlocal read
        for number in range(10 * lint.FEW):
            read += 1
            yield Input(Source(f"x.jsonl:{number}", text(number)), TextKind.PLAN, row=True)

    told = check_all(texts(), Checks((), (), (), "json"))
    next(told)
    assert read <= lint.FEW + lint._CHUNK
    told.close()


def checking(folder: Path) -> tuple[subprocess.Popen[str], Callable[[], list[int]]]:
    """A process that checks more plans than it is done with at once, and those that it started."""
    row = json.dumps({"plan": text(0)}) + "\n"
    (folder / "more.jsonl").write_text(row * 20_000, encoding="utf-8")
    words = [sys.executable, "-m", "pearl", "lint", "more.jsonl", "--no-cache"]
    child = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    children = Path(f"/proc/{child.pid}/task/{child.pid}/children")

    def started() -> list[int]:
        assert child.poll() is None
        time.sleep(0.01)
        return [int(pid) for pid in children.read_text(encoding="utf-8").split()]

    return child, started


def test_who_is_told_to_end_leaves_no_process_and_says_nothing_of_python_s(many: Path):
    child, started = checking(many)
    while len(started()) < 2:
        pass
    child.terminate()
    _, err = child.communicate()
    assert (child.returncode, err.splitlines()[-1]) == (130, "pearl: Stopped.")
    assert "Warning" not in err
    assert "Traceback" not in err


def test_a_process_that_is_killed_is_told_of(many: Path):
    child, started = checking(many)

    def begun() -> list[int]:
        """The processes that have begun: they heed SIGTERM, and no Ctrl-C."""
        found = []
        for pid in started():
            status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
            held, ignored = (
                int(line.split()[1], 16)
                for line in status.splitlines()
                if line.startswith(("SigBlk:", "SigIgn:"))
            )
            if ignored & 2 and not (held | ignored) & 1 << signal.SIGTERM - 1:
                found.append(pid)
        return found

    while len(found := begun()) < 2:
        pass
    os.kill(found[0], signal.SIGKILL)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "was ended from outside, as where memory is short" in err


def test_a_row_that_is_not_text_hides_no_other(many: Path):
    (many / "mixed.jsonl").write_bytes(b'\n{"plan": "1. a = FOO(CTX)"}\n\xff\n{"plan": "x = F("}\n')
    told = call("lint", "mixed.jsonl", "--json")
    rows = {int(one["file"].removeprefix("mixed.jsonl:")) for one in told.json}
    assert rows == {2, 3, 4}
    assert "mixed.jsonl:3 is not UTF-8 (byte 0 is 0xff)" in told.err
    assert told.code == 1
    for name, data, said in (
        ("blank.jsonl", b"\n \n", "blank.jsonl is empty"),
        ("wide.jsonl", "\ufeffx\n".encode("utf-16-le"), "wide.jsonl is UTF-16"),
    ):
        (many / name).write_bytes(data)
        told = call("lint", name)
        assert (told.code, told.out) == (1, "")
        assert said in told.err
        assert call("lint", name, "--exit-zero").code == 0
