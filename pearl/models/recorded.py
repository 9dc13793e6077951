"""Answers from a file: what ``pearl cache export`` writes, or ``{"path": …, "text": …}``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from pearl.lang.errors import InputError
from pearl.lang.rows import json_problem, lines_of
from pearl.lang.source import read_source
from pearl.lang.values import digest
from pearl.models.base import Kind, ModelError, Reply, Request
from pearl.models.constraints import Forms

_ANY: Mapping[Kind, str] = {"grammar": "recorded", "schema": "recorded"}
"""Any constraint counts as taken: it was applied, or not, when the reply was recorded."""


@dataclass(frozen=True)
class Recorded:
    """Replays answers; a missing one is an error that names the call.

    Args:
        answers: text by call key, or by the call's path in the run.
        name: what to call the recording in messages.
        identity: the identity of the recorded model, so that its keys match;
            empty where it is not known.
        cut: the keys of answers that stopped at their token limit.
    """

    answers: Mapping[str, str]
    name: str = "recorded"
    identity: str = ""
    cut: frozenset[str] = frozenset()
    notice: str = field(default="", init=False)
    forms: Forms = field(init=False, default_factory=partial(Forms, forms=_ANY), compare=False)

    def __post_init__(self) -> None:
        if not self.identity:
            # Each recording has its own identity, so that replies of another are not used for it.
            object.__setattr__(self, "identity", f"recorded {digest(dict(self.answers))}")

    async def answer(self, request: Request) -> Reply:
        # What was recorded may have been constrained or not.
        for key in (request.key, request.plain, request.path):
            if key and key in self.answers:
                # The reply is stored under the key without a constraint, as it was recorded.
                own = key if key == request.plain != request.key else ""
                return Reply(self.answers[key], complete=key not in self.cut, key=own)
        raise ModelError("recording", f"{self.name} has no answer for the call {request.path}.")

    async def close(self) -> None:
        return


def load_recording(path: str) -> Recorded:
    """Read a recording.

    Args:
        path: what ``pearl cache export`` wrote, or JSON lines with ``text``
            and ``key`` or ``path``.

    Raises:
        InputError: the file cannot be read, holds no answers, or holds those
            of several models.
    """
    answers: dict[str, str] = {}
    identities: set[str] = set()
    cut: set[str] = set()
    for where, line in lines_of(read_source(path, "recording")):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise json_problem(error, where) from None
        if not isinstance(entry, dict) or not isinstance(entry.get("text"), str):
            continue
        for name in ("key", "path"):
            if isinstance(entry.get(name), str):
                answers[entry[name]] = entry["text"]
        if entry.get("complete") is False:
            cut.add(str(entry.get("key")))
        if isinstance(entry.get("identity"), str):
            identities.add(entry["identity"])
    if not answers:
        raise InputError(
            f"{path} holds no recorded answers: give what pearl cache export writes, or rows "
            'such as {"path": "step/ross", "text": "…"}.'
        )
    if len(identities) > 1:
        raise InputError(
            f"{path} holds answers of {len(identities)} models: export one run, with "
            "pearl cache export RUN."
        )
    return Recorded(answers, f"recorded:{path}", "".join(identities), frozenset(cut))
