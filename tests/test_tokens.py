"""Token counts with no network and an empty cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COUNT = "from pearl.llm.tokens import count_tokens; print(count_tokens('hello world', {!r}))"


@pytest.mark.parametrize("model", ["gpt-4", "gpt-4o", "some-local-model", ""])
def test_counts_in_a_fresh_cache(model: str, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(model)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "https_proxy": "http://127.0.0.1:9"},
    )
    assert done.stdout == "2\n"
    assert list((tmp_path / "pearl" / "tiktoken").iterdir())


def test_two_processes_at_once(tmp_path: Path):
    children = [
        subprocess.Popen(
            [sys.executable, "-c", COUNT.format("gpt-4o")],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        )
        for _ in range(3)
    ]
    assert [child.communicate(timeout=60)[0] for child in children] == ["2\n"] * 3


def test_a_home_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format("gpt-4o")],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "file")},
    )
    assert done.stdout == "2\n"
