"""What a caller settles, and what a caller is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How a batch stands, for a person who waits.

    Args:
        batch: its number in the folder.
        requests: how many it has.
        completed: those that were answered.
        failed: those that failed.
        status: the provider's word, ``submitting`` before it has one, or ``unreachable`` where it
            could not be asked.
    """

    batch: int
    requests: int
    completed: int
    failed: int
    status: str


@dataclass(frozen=True)
class Terms:
    """When batches go, and who is told of them.

    Args:
        quiet: seconds without a new request after which a batch goes.
        interval: seconds between two looks at a batch.
        most: requests of a batch at most.
        most_bytes: bytes of a batch's file at most.
        progress: is told how batches stand.
    """

    quiet: float
    interval: float
    most: int
    most_bytes: int
    progress: Callable[[BatchStatus], None]
