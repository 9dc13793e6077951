"""From paths to plans and libraries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from pearl.source import InputError, Source, read_source

_ACTION_LINE = re.compile(r"\s*(?:[-*]\s+)?[A-Za-z_]\w*\([^=]*\)\s*(?:->\s*\w+\s*)?(?:[:#]|$)")
_STEP_LINE = re.compile(r"\s*(?:\S{1,8}\s+)?[^\W\d]\w*\s*:?=\s*\w+\s*[(\[]")


class Kind(Enum):
    """What a text holds."""

    PLAN = auto()
    LIBRARY = auto()


@dataclass(frozen=True, slots=True)
class Input:
    """A text to check; ``row`` where it is one row of a file."""

    source: Source
    kind: Kind
    row: bool = False


def read_inputs(paths: Sequence[str]) -> list[Input]:
    """Every plan and library below some paths, in order, each once.

    Raises:
        InputError: a path that cannot be read, or a folder without plans.
    """
    found: dict[str, Input] = {}
    for path in paths:
        for given in _inputs(path):
            found.setdefault(given.source.name, given)
    return list(found.values())


def _inputs(path: str) -> Iterator[Input]:
    folder = Path(path)
    if path != "-" and folder.is_dir():
        files = sorted(
            file for ending in ("plan", "actions") for file in folder.rglob(f"*.{ending}")
            if file.is_file()
        )  # fmt: skip
        if not files:
            raise InputError(f"{path} holds no .plan and no .actions file: name one.")
        for file in files:
            yield from _inputs(str(file))
        return
    source = read_source(path, "plan")
    if path.endswith(".jsonl"):
        yield from _rows(source)
    else:
        yield Input(source, kind_of(source))


def kind_of(source: Source) -> Kind:
    """What a text holds, by its name's ending, or else by its lines."""
    if source.name.endswith(".plan"):
        return Kind.PLAN
    if source.name.endswith(".actions"):
        return Kind.LIBRARY
    lines = source.text.splitlines()
    steps = sum(bool(_STEP_LINE.match(line)) for line in lines)
    actions = sum(bool(_ACTION_LINE.match(line)) for line in lines)
    return Kind.LIBRARY if actions > steps and not steps else Kind.PLAN


def _rows(source: Source) -> Iterator[Input]:
    for number, line in enumerate(source.text.split("\n"), 1):
        if not line.strip():
            continue
        name = f"{source.name}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{name} is not JSON: give one object a line.") from None
        if not isinstance(row, dict) or not isinstance(row.get("plan"), str):
            raise InputError(f'{name} has no "plan": give a row such as {{"plan": "1. …"}}.')
        yield Input(Source(name, row["plan"]), Kind.PLAN, row=True)
