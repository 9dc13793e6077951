"""Token counts with no network and whatever cache there is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pearl.models.tokens import count_tokens
from tests.forks import Fork

COUNT = "from pearl.models.tokens import count_tokens; print(count_tokens('hello world', {!r}))"


def counting(model: str, **environment: str) -> subprocess.Popen[str]:
    """A process that counts, with no way to the network."""
    blocked = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:9")
    return Fork(
        [sys.executable, "-c", COUNT.format(model)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **blocked, **environment},
    )


def told(process: subprocess.Popen[str]) -> str:
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return text


def test_several_processes_at_once(tmp_path: Path):
    processes = [counting("gpt-4o", XDG_CACHE_HOME=str(tmp_path)) for _ in range(3)]
    assert [told(process) for process in processes] == ["2\n"] * 3
    (kept,) = (tmp_path / "pearl" / "tiktoken").iterdir()
    assert kept.stat().st_size > 1_000_000


def test_a_home_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert told(counting("gpt-4o", XDG_CACHE_HOME=str(tmp_path / "file"))) == "2\n"


def test_a_folder_that_is_there_and_cannot_be_written(tmp_path: Path):
    (tmp_path / "pearl").mkdir()
    (tmp_path / "pearl" / "tiktoken").symlink_to("/proc/self")
    assert told(counting("gpt-4o", XDG_CACHE_HOME=str(tmp_path))) == "2\n"


def test_a_damaged_cache_is_mended(tmp_path: Path):
    assert told(counting("gpt-4", XDG_CACHE_HOME=str(tmp_path))) == "2\n"
    (kept,) = (tmp_path / "pearl" / "tiktoken").iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:1000])
    assert told(counting("gpt-4", XDG_CACHE_HOME=str(tmp_path))) == "2\n"
    assert kept.read_bytes() == whole


@pytest.mark.parametrize(
    ("text", "model", "count"),
    [
        ("", "gpt-4", 0),
        # Counts from OpenAI's cookbook.
        ("antidisestablishmentarianism", "gpt-4", 6),
        ("antidisestablishmentarianism", "gpt-4o", 6),
        ("2 + 2 = 4", "gpt-4", 7),
        ("2 + 2 = 4", "gpt-4o", 7),
        ("お誕生日おめでとう", "gpt-4", 9),
        ("お誕生日おめでとう", "gpt-4o", 8),
        ("tiktoken is great!", "gpt-4", 6),
        # A special token in a document is ordinary text.
        ("<|endoftext|>", "gpt-4", 7),
    ],
)
def test_known_counts(text: str, model: str, count: int):
    assert count_tokens(text, model) == count


@pytest.mark.parametrize("model", ["", "llama3:8b", "gpt-4.1", "o3", "davinci"])
def test_a_model_without_a_carried_vocabulary_counts_with_the_newest(model: str):
    assert count_tokens("お誕生日おめでとう", model) == 8


def test_a_long_document_is_counted_in_pieces(examples: Path):
    story = (examples / "lighthouse.txt").read_text(encoding="utf-8")
    once = count_tokens(story, "gpt-4o")
    assert count_tokens(story * 20, "gpt-4o") == pytest.approx(20 * once, rel=0.001)


@pytest.mark.parametrize("text", [" " * 1_000_000, "a" * 500_000, "\ud800"])
def test_no_text_is_too_odd_to_count(text: str):
    assert count_tokens(text, "gpt-4o") > 0
