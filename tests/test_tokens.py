"""Token counts with no network."""

from __future__ import annotations

import gc
import socket
import weakref
from pathlib import Path

import pytest

from pearl.lang.ast import Action, Param, Step
from pearl.lang.source import Source
from pearl.models import tokens
from pearl.models.base import ModelError, Request, Usage
from pearl.models.endpoint_replies import check_read
from pearl.models.tokens import count_tokens
from pearl.prompts.calls import ExecuteStep
from pearl.runtime.fit_to_window import size_of


def test_nothing_is_fetched_or_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR", "TIKTOKEN_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(socket.socket, "connect", None, raising=False)
    tokens._encoding.cache_clear()
    assert [count_tokens("here and nowhere else", name) for name in ("gpt-4o", "gpt-4")] == [4, 4]
    assert not list(tmp_path.iterdir())


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


def test_a_document_s_tokens_are_remembered_and_the_document_is_not():
    class Document(str):
        """A text that tells when nothing holds it any more."""

    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(str(text))
        return count_tokens(text)

    for number in (1, 2):
        text = Document("Mara left the lighthouse. " * 1000)
        action, step = Action("TELL", (Param("CTX"),)), Step("a", "TELL", ())
        request = Request(ExecuteStep(Source("d", text), action, step, ()), (), "a", "k")
        assert size_of(Source("d", text), count) == count_tokens(text)
        with pytest.raises(ModelError, match="cut the document"):
            check_read(request, "gpt-4o", Usage(prompt_tokens=10))
        held = weakref.ref(text)
        del text, request
        gc.collect()
        assert (held(), len(counted)) == (None, 1), number


@pytest.mark.parametrize("text", [" " * 1_000_000, "a" * 500_000, "\ud800"])
def test_no_text_is_too_odd_to_count(text: str):
    assert count_tokens(text, "gpt-4o") > 0
