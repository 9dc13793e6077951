"""What commands read: plans, libraries, a project's settings, and a store."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pearl.cli import warn
from pearl.lang.errors import InputError, UnreadableError, refuse
from pearl.lang.output_files import refuse_same
from pearl.lang.rows import plan_row
from pearl.lang.source import (
    Source,
    TextKind,
    decode,
    files_below,
    read_lines,
    read_plan,
    read_toml,
    shipped_actions,
)
from pearl.lang.text import pattern

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from pearl.lang.library import Library
    from pearl.lint.checker import Selection
    from pearl.store.history import RunRow


_ACTION_LINE = pattern(r"\s*(?:[-*]\s+)?[A-Za-z_]\w*\([^=\"']*\)\s*(?:->\s*\w+\s*)?(?:[:#]|$)")
_HEAD = pattern(r"\s*(?:question|new actions)\s*:", re.IGNORECASE)
_STEP_LINE = pattern(r"\s*(?:\S{1,8}\s+)?[^\W\d]\w*\s*:?=\s*\w+\s*[(\[]")

_RUN = pattern(r"(?:last|\d{1,8}(?:-[\w-]*)?)(?:/.+)?")


@dataclass(frozen=True, slots=True)
class Input:
    """A text to check; ``row`` says whether it is one row of a file."""

    source: Source
    kind: TextKind
    row: bool = False

    @property
    def file(self) -> str:
        """The file that it is in."""
        name = self.source.name
        return name.rpartition(":")[0] if self.row else name


def each_input(
    paths: Sequence[str], refused: Callable[[UnreadableError], object]
) -> Iterator[Input]:
    """Every plan and library in files and folders, in order and without repeats, each read when it
    is needed. ``refused`` is called with each error about a file that cannot be read.

    Raises:
        LinesError: none of the paths is a file, or a folder with plans or libraries.
    """
    errors: list[UnreadableError] = []

    def refuse_one(error: UnreadableError) -> None:
        errors.append(error)
        refused(error)

    files: dict[str, None] = {}
    for path in paths:
        if path == "-" or not os.path.isdir(path):
            files[path] = None
            continue
        below, shut = files_below(path)
        # Broken links are among them.
        within = [str(file) for file in below if file.name.endswith((".plan", ".actions"))]
        files |= dict.fromkeys(within)
        for problem in shut:
            refuse_one(problem)
        if not (within or shut):
            message = f"{path} holds no .plan and no .actions file: name one."
            refuse_one(UnreadableError(message, path))
    for file in files:
        yield from _read(file, refuse_one)
    if errors and not any(
        file == "-" or os.path.isfile(file) or os.path.islink(file) for file in files
    ):
        refuse(errors)


def _read(path: str, refused: Callable[[UnreadableError], object]) -> Iterator[Input]:
    from pearl.lang.library import library_actions, parse_library

    try:
        if path.endswith(".jsonl"):
            for name, line in read_lines(path):
                try:
                    text = plan_row(decode(name, line, "row").text, name)["plan"]
                    yield Input(Source(name, text), TextKind.PLAN, row=True)
                except InputError as error:
                    refused(UnreadableError(str(error), name))
            return
        source = read_plan(path, "library" if path.endswith(".actions") else "plan")
        is_library = path.endswith(".actions") or _is_library(source.text)
        if path.endswith(".plan") and is_library:
            raise InputError(f"{path} is an action library: save it as {path[:-4]}actions.")
        if is_library and not parse_library(source).broken:
            library_actions(source)  # Raises for a text of comments only, as loading it would.
        yield Input(source, TextKind.LIBRARY if is_library else TextKind.PLAN)
    except InputError as error:
        refused(UnreadableError(str(error), path))


def _is_library(text: str) -> bool:
    """Whether a text defines actions, and has neither steps nor a plan's head."""
    lines = text.splitlines()
    if any(_STEP_LINE.match(line) or _HEAD.match(line) for line in lines):
        return False
    return any(_ACTION_LINE.match(line) for line in lines)


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of ``[tool.pearl]``; each is a list of texts."""

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
            break
    else:
        return Config()
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{file} cannot be read: {error}.") from None
    tools = read_toml(text, str(file)).get("tool", {})
    table = tools.get("pearl", {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise InputError(f"{file}: pearl is to be a table of settings: write [tool.pearl].")
    names = Config.__dataclass_fields__
    if unknown := " or ".join(name for name in table if name not in names):
        raise InputError(f"{file}: [tool.pearl] has no setting {unknown}: use {', '.join(names)}.")
    values: dict[str, tuple[str, ...]] = {}
    for name, texts in table.items():
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            codes = ["quality"] if name == "library" else ["PRL4"]
            meant = json.dumps([texts] if isinstance(texts, str) else codes, ensure_ascii=False)
            raise InputError(f"{file}: {name} in [tool.pearl] is a list of texts, as {meant}.")
        if name == "library":
            # A library's path is relative to the file that names it.
            paths = [(text, file.parent / text) for text in texts]
            texts = [str(path) if path.is_file() else text for text, path in paths]
        values[name] = tuple(texts)
    return Config(**values)


def folder_of(source: Source) -> Path | None:
    """The folder of a text's file, or of the file that it is a row of; None where it has none."""
    for name in (source.name, source.name.rpartition(":")[0]):
        if name and Path(name).is_file():
            return Path(name).parent
    return None


def selection_for(select: Sequence[str], ignore: Sequence[str], folder: Path | None) -> Selection:
    """The rules that report findings: as given, else as set in the project of a folder.

    Args:
        select: prefixes of the codes to select; a text may hold several, with commas or spaces
            between them; none selects the default rules.
        ignore: prefixes of the codes to ignore, in the same form.
        folder: the folder whose project counts; by default the working folder.

    Raises:
        InputError: no rule's code starts with a prefix, or the project's settings cannot be read.
    """
    from pearl.lint.checker import Selection
    from pearl.lint.rules import RULES

    config = read_config(folder)
    on, off = (
        tuple(code.upper() for group in groups for code in group.replace(",", " ").split())
        for groups in (select or config.select, ignore or config.ignore)
    )
    for code in (*on, *off):
        if not any(rule.code.startswith(code) for rule in RULES):
            raise InputError(f"No rule's code starts with {code}: pearl rule lists them.")
    return Selection(on, off)


def load(
    libraries: tuple[str, ...],
    folder: Path | None = None,
    linted: Sequence[str] = (),
    refused: Callable[[UnreadableError], object] = lambda _: None,
) -> Library:
    """The chosen library: from the command line, else from ``[tool.pearl]``, else the default.

    Findings of ``pearl lint`` in its files are printed on standard error, one line each.

    Args:
        libraries: the values of ``--library``.
        folder: the folder whose project counts; by default the working folder.
        linted: files and folders whose findings are printed elsewhere.
        refused: called with each error for which `load_sound` refuses the library.
    """
    library = load_quietly(libraries, folder)
    for is_error, line in _finding_lines(library, folder, linted):
        warn(line)
        if is_error:
            refused(UnreadableError(line, line.partition(":")[0]))
    return library


def load_sound(libraries: tuple[str, ...], folder: Path | None = None) -> Library:
    """As `load`, for a library that a model will use.

    Raises:
        LinesError: some of its actions cannot be read, or would fail when called.
    """
    library = load_quietly(libraries, folder)
    findings = list(_finding_lines(library, folder))
    warn(*(line for is_error, line in findings if not is_error))
    refuse([line for is_error, line in findings if is_error])
    return library


def _finding_lines(
    library: Library, folder: Path | None, linted: Sequence[str] = ()
) -> Iterator[tuple[bool, str]]:
    """Findings of ``pearl lint`` in the files of a library, with the project's rules: for each,
    whether it is an error, and its line."""
    from pearl.lint.checker import library_findings

    return library_findings(library, selection_for((), (), folder), [*map(Path, linted)])


def load_quietly(libraries: tuple[str, ...], folder: Path | None = None) -> Library:
    """As `load`, without printing findings, which were printed before."""
    from pearl.lang.library import load_library

    if not libraries:
        libraries = read_config(folder).library
    return load_library(*libraries)


def own_libraries(
    source: Source, libraries: tuple[str, ...], *, ran: bool = False
) -> tuple[str, ...]:
    """The given libraries; without any, those that the plan's head names, if they ship with Pearl
    or, for a run of the store (``ran``), are files (as in `find_library`)."""
    from pearl.lang.library import named_libraries

    names, shipped = () if libraries else named_libraries(source), shipped_actions()
    here = all(name in shipped or (ran and Path(name).is_file()) for name in names)
    return names if names and here else libraries


def warn_of_library(source: Source, libraries: tuple[str, ...]) -> None:
    """Warn if a plan's head names a library that does not ship, and no other was chosen."""
    from pearl.lang.library import named_libraries

    named = () if libraries else named_libraries(source)
    lost = [name for name in named if name not in shipped_actions()]
    if lost and not read_config(folder_of(source)).library:
        warn(
            f"{source.name} names the library {', '.join(lost)[:80]}, which does not ship with "
            "Pearl: the usual actions are used, as no --library is given."
        )


def warn_of_passed_over(paths: Sequence[str], advice: str) -> None:
    """Warn about files in folders that are not read, as their ending is that of no document;
    ``advice`` says how to have such a file read."""
    from pearl.retrieval.converters import passed_over

    if left := passed_over(paths):
        more = f" and {len(left) - 3} more" if len(left) > 3 else ""
        warn(
            f"Passed over, as no document ends so: {', '.join(left[:3])}{more}. To read one as "
            f"text, {advice}."
        )


def library_for(strategy: str, libraries: tuple[str, ...]) -> Library | None:
    """The library that the user chose for a strategy, by ``--library`` or in ``[tool.pearl]``; None
    for the strategy's own.

    Raises:
        InputError: there is no such strategy, or no such library.
    """
    from pearl.strategies.registry import find_strategy

    own = find_strategy(strategy).libraries
    return load_sound(libraries) if libraries or not own else None


def names_run(name: str) -> bool:
    """Whether a name means a run, or a question of one, and not a file."""
    return _RUN.fullmatch(name) is not None and not Path(name).exists()


@contextmanager
def open_existing(store: str) -> Iterator[Engine]:
    """Open the database that ``--store`` names, or the default one, to read it.

    Raises:
        InputError: there is no such store, or it cannot be used.
    """
    from pearl.store.database import address, is_there, open_to_read

    place = address(store)
    if not is_there(place):
        raise InputError(
            f"There is no store at {place}: make a run with pearl ask, run or batch, or name "
            "the store with --store."
        )
    engine = open_to_read(place)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def open_run(name: str, store: str, output: str = "") -> Iterator[tuple[Engine, RunRow]]:
    """Open a store's database as `open_existing` does, and find a run in it. ``output`` is the
    command's output file; empty for none.

    Raises:
        InputError: there is no such run, or the output is a file that the run has read.
    """
    from pearl.store.history import files_of, find_run

    with open_existing(store) as engine:
        run = find_run(engine, name, store or "the store", time.time())
        if output:
            refuse_same(output, files_of(engine, run))
        yield engine, run
