"""A batch as the provider shows it, read with no trust."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pearl.llm.failures import Complaint, Hidden, complaint_of
from pearl.llm.model import ModelError

ENDS = frozenset({"completed", "failed", "expired", "cancelled"})
"""What the provider calls a batch that is over."""

NO_ROOM = "token_limit_exceeded"
"""The provider's code where batches under way leave no room for another."""

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


@dataclass(frozen=True, slots=True)
class Seen:
    """A batch as the provider shows it.

    Args:
        id: the provider's name of it.
        status: the provider's word, as ``in_progress``.
        input_file_id: what it was made of.
        output_file_id: its answers; empty where there are none.
        error_file_id: its failures; empty where there are none.
        completed: requests that were answered.
        failed: requests that failed.
        complaint: the first error of the batch as a whole, or None.
    """

    id: str
    status: str
    input_file_id: str = ""
    output_file_id: str = ""
    error_file_id: str = ""
    completed: int = 0
    failed: int = 0
    complaint: Complaint | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.status in ENDS

    @property
    def crowded_out(self) -> bool:
        """Whether it failed for want of room, and for nothing in it."""
        complaint = self.complaint
        return self.status == "failed" and complaint is not None and NO_ROOM in complaint.codes


def read_seen(data: dict[str, Any], hidden: Hidden) -> Seen:
    """A batch.

    Args:
        data: what the provider sent.
        hidden: takes the key out of a text.

    Raises:
        ModelError: it is no batch.
    """
    name, status = named(data.get("id")), named(data.get("status"))
    if not name or not status:
        raise unread()
    counts = data.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    return Seen(
        name,
        status,
        named(data.get("input_file_id")),
        named(data.get("output_file_id")),
        named(data.get("error_file_id")),
        _whole(counts.get("completed")),
        _whole(counts.get("failed")),
        _complaint(data.get("errors"), hidden),
    )


def named(text: object) -> str:
    """A name or a word of the provider's, which goes into addresses; empty where it is none."""
    return text if isinstance(text, str) and _NAME.fullmatch(text) else ""


def unread() -> ModelError:
    """What is raised where an answer is none of a Batch API's."""
    return ModelError(
        "reply", "The endpoint does not answer as a Batch API does: check OPENAI_BASE_URL."
    )


def _complaint(errors: object, hidden: Hidden) -> Complaint | None:
    found = errors.get("data") if isinstance(errors, dict) else errors
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        return None
    said = complaint_of(found[0], hidden)
    line = _whole(found[0].get("line"))
    return Complaint(f"line {line}: {said.words}" if line else said.words, said.codes)


def _whole(number: object) -> int:
    return number if type(number) is int and number > 0 else 0
