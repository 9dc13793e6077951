"""What every renderer takes, and how untrusted text is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pearl.diagnostics import Diagnostic
from pearl.source import Source

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Report:
    """A source and what was found in it."""

    source: Source
    diagnostics: Sequence[Diagnostic]


def printable(text: str) -> str:
    """Text without characters that could steer a terminal or hide other text."""
    return _CONTROL.sub(lambda found: "\t" if found[0] == "\t" else "�", text)
