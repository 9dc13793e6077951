"""Which process something belongs to, and whether that process still lives."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

LIFE = 60.0
"""Seconds without a sign of life after which a process on another machine counts as dead."""


def new_owner() -> str:
    """A name for this process that no other has, not even a later one of the same number."""
    return f"{socket.gethostname()}:{os.getpid()}:{_born(os.getpid())}:{secrets.token_hex(4)}"


def is_dead(owner: str, seen: float, now: float) -> bool:
    """Whether an owner's process is gone.

    Args:
        owner: as `new_owner` made it; empty where a process has let go.
        seen: when it last gave a sign of life, in seconds since 1970.
        now: the time, likewise.
    """
    if not owner:
        return True
    host, pid, born, *_ = (*owner.split(":"), "", "", "")
    if host == socket.gethostname() and pid.isdigit():
        return not _alive(int(pid), born)
    return now - seen > LIFE


def _alive(pid: int, born: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        # It is another person's process, and there.
        return True
    return _born(pid) == born


def _born(pid: int) -> str:
    """When a process started, in the machine's own ticks; empty where Linux is not asked."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The command's name, in parentheses, may hold anything; what follows it does not.
        state, *fields = stat.rpartition(")")[2].split()
    except (OSError, ValueError):
        return ""
    # A zombie is dead: only its parent has not looked yet.
    return "" if state == "Z" else fields[18]
