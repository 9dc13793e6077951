"""How a command ends that has nothing to show for its work."""

from __future__ import annotations

from typing import Any

import click


class Failure(click.ClickException):
    """One line for a person; ``--json`` prints it as ``error``, beside ``data``."""

    def __init__(self, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.data = data or {}


class NoAnswer(Failure):
    """The command did its work and found no answer."""

    exit_code = 1


class Stopped(Failure):
    """The person stopped it."""

    exit_code = 130

    def __init__(self, message: str = "Stopped.", data: dict[str, Any] | None = None) -> None:
        super().__init__(message, data)
