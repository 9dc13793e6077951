"""Answers from a file: a run's journal, or lines of ``{"path": …, "text": …}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pearl.llm.model import ModelError, Reply, Request
from pearl.source import InputError, read_source


@dataclass(frozen=True)
class Recorded:
    """Replays answers; a missing one is an error that names the call.

    Args:
        answers: text by call key, or by the call's path in the run.
        name: what to call the recording in messages.
    """

    answers: Mapping[str, str]
    name: str = "recorded"
    notice: str = field(default="", init=False)

    @property
    def identity(self) -> str:
        return "recorded"

    async def answer(self, request: Request) -> Reply:
        text = self.answers.get(request.key)
        if text is None:
            text = self.answers.get(request.path)
        if text is None:
            raise ModelError("recording", f"{self.name} has no answer for the call {request.path}.")
        return Reply(text)

    async def close(self) -> None:
        return


def load_recording(path: str) -> Recorded:
    """Read a recording.

    Args:
        path: a run's ``journal.jsonl``, or JSON lines with ``text`` and
            ``key`` or ``path``.

    Raises:
        InputError: the file cannot be read, or holds no answers.
    """
    source = read_source(path, "recording")
    answers: dict[str, str] = {}
    for number, line in enumerate(source.text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}:{number} is not JSON: give one object a line.") from None
        # A journal's decisions are not answers.
        if not isinstance(entry, dict) or entry.get("kind", "call") != "call":
            continue
        text = entry.get("text", entry.get("value"))
        if not isinstance(text, str):
            continue
        for name in ("key", "call_key", "path"):
            if isinstance(entry.get(name), str):
                answers[entry[name]] = text
    if not answers:
        raise InputError(f"{path} holds no recorded answers: give a run's journal.jsonl.")
    return Recorded(answers, f"recorded:{path}")
