"""What every renderer takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pearl.lang.diagnostics import Diagnostic
from pearl.lang.source import Source
from pearl.lang.text import pattern

_ROW = pattern(r"(.+\.jsonl):(\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Report:
    """A source and what was found in it."""

    source: Source
    diagnostics: Sequence[Diagnostic]


def place_of_row(source: Source) -> tuple[str, int] | None:
    """File and line of a plan that is one row of a ``.jsonl`` file.

    Lines and columns in the plan are no places in that file.
    """
    found = _ROW.fullmatch(source.name)
    return (found[1], int(found[2])) if found else None
