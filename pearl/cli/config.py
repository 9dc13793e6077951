"""Settings of a project: ``[tool.pearl]`` in the nearest ``pyproject.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pearl.source import InputError


@dataclass(frozen=True, slots=True)
class Config:
    """What ``[tool.pearl]`` may hold; each is a list of texts."""

    library: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def read_config(start: Path | None = None) -> Config:
    """The settings of the project that a folder is in.

    Args:
        start: the folder; by default the working folder.

    Raises:
        InputError: the file cannot be read, or a setting is wrong.
    """
    folder = (start or Path.cwd()).resolve()
    for candidate in (folder, *folder.parents):
        file = candidate / "pyproject.toml"
        if file.is_file():
            return _read(file)
    return Config()


def _read(file: Path) -> Config:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read as TOML: {error}.") from None
    tools = data.get("tool", {})
    table = tools.get("pearl", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise InputError(f"{file}: pearl is to be a table of settings: write [tool.pearl].")
    names = Config.__dataclass_fields__
    unknown = [name for name in table if name not in names]
    if unknown:
        raise InputError(
            f"{file}: [tool.pearl] has no setting {unknown[0]}: use {', '.join(names)}."
        )
    values = {name: _texts(file, name, table[name]) for name in table}
    if "library" in values:
        values["library"] = tuple(_beside(file, name) for name in values["library"])
    return Config(**values)


def _texts(file: Path, name: str, value: Any) -> tuple[str, ...]:  # noqa: ANN401 - any TOML
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InputError(f'{file}: {name} in [tool.pearl] is a list of texts, as ["PRL4"].')
    return tuple(value)


def _beside(file: Path, name: str) -> str:
    """A library's path is meant from the file that names it."""
    path = file.parent / name
    return str(path) if path.is_file() else name
