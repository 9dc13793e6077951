"""A piece of work, and what is done with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pearl.session import Session

T = TypeVar("T", covariant=True)


@dataclass(frozen=True, slots=True)
class Task(Generic[T]):
    """One piece. It travels to workers on other machines, so it is pickled.

    Args:
        id: what its row is filed under; unique in its job.
        position: where its row stands among the others, counted from 0.
        key: the hash of what is asked: where it is the same, a kept row holds.
        group: pieces of one group, as questions on one document, go together.
        what: what is asked.
    """

    id: str
    position: int
    key: str
    group: str
    what: T


class Tasks(Protocol[T]):
    """All pieces of a job."""

    @property
    def ids(self) -> Sequence[str]:
        """Every piece's, in the order to do them in."""
        ...

    def read(self, ids: Sequence[str]) -> Iterator[Task[T]]:
        """Some of them, in this order, each when it is drawn.

        Raises:
            InputError: one cannot be read any more.
        """
        ...


class Work(Protocol):
    """What is done with a piece. It is pickled, too."""

    async def __call__(self, task: Task[Any], session: Session) -> dict[str, Any]:
        """Do it.

        Args:
            task: what is asked.
            session: the model in its layers, and the piece's journal.

        Returns:
            Its row, as JSON data: ``id``; ``status``, which is ``answered`` or
            ``failed``; where it failed ``error`` with ``reason`` and
            ``message``; ``correct`` where that is known; and what else the
            work found.
        """
        ...


class Listed(Generic[T]):
    """Tasks that fit the memory."""

    def __init__(self, tasks: Sequence[Task[T]]) -> None:
        self._tasks = {task.id: task for task in tasks}

    @property
    def ids(self) -> Sequence[str]:
        """Every task's, in order."""
        return tuple(self._tasks)

    def read(self, ids: Sequence[str]) -> Iterator[Task[T]]:
        """Some of them."""
        return (self._tasks[one] for one in ids)
