"""Checks texts: a few one after another, many on all cores and each only once in its life.

What is found is rendered where it is found, so that the process that reads and prints has
little to do, and holds no more than some hundred texts at a time.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pearl.cli import NoAnswer
from pearl.cli.inputs import Input, folder_of, read_config, selection_for
from pearl.cli.options import load, load_quietly, own_libraries, warn_of_library
from pearl.lang.diagnostics import Diagnostic, Severity
from pearl.lang.library import Library, builtins, library_source
from pearl.lang.parser import parse
from pearl.lang.source import TextKind
from pearl.lint.checker import Selection, check, check_library
from pearl.lint.render import RENDERERS, Report

if TYPE_CHECKING:
    from pearl.lint.cache import Cache

FEW = 1000
"""Texts for which neither further processes nor a cache are worth their start."""

_CHUNK = 200
"""Texts that a process gets at a time."""

_AHEAD = 3
"""Chunks that are under way or done before their turn, for each process."""


@dataclass(frozen=True, slots=True)
class Checks:
    """How texts are checked.

    Args:
        libraries: as after ``--library``.
        select: as after ``--select``.
        ignore: as after ``--ignore``.
        form: how findings are written; empty where they are only counted.
        cache: whether to keep what is found, where there are many texts.
        paths: the files and folders of the texts.
    """

    libraries: tuple[str, ...]
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    form: str
    cache: bool = True
    paths: tuple[str, ...] = ()


class TextFindings(NamedTuple):
    """The findings of one text: their codes, how many are errors, and what is printed of them."""

    codes: tuple[str, ...]
    errors: int
    text: str


def check_all(texts: Iterator[Input], checks: Checks) -> Iterator[TextFindings]:
    """What is found in texts, in their order, while they are read.

    Raises:
        InputError: a library cannot be read.
        NoAnswer: a process that checks has been ended.
    """
    first = list(islice(texts, FEW + 1))
    if len(first) <= FEW:
        checker = _Checker(replace(checks, cache=False), partial(load, linted=checks.paths))
        for item in first:
            yield from checker.many([item])
        return
    source = first[0].source
    load(own_libraries(source, checks.libraries), folder_of(source), checks.paths)
    rest = chain(first, texts)
    del first
    chunks = iter(lambda: list(islice(rest, _CHUNK)), [])
    # How many processors this process may use, where the system says.
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    cores = len(allowed) or os.cpu_count() or 1
    if cores == 1:
        checker = _Checker(checks)
        for chunk in chunks:
            yield from checker.many(chunk)
        return
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(cores, get_context("spawn"), _leave_interrupts)
    under_way: deque[Future[list[TextFindings]]] = deque()
    try:
        for chunk in chunks:
            under_way.append(pool.submit(_check, checks, chunk))
            if len(under_way) == _AHEAD * cores:
                yield from under_way.popleft().result()
        while under_way:
            yield from under_way.popleft().result()
    except BrokenProcessPool:
        raise NoAnswer(
            "A process that checks plans was ended from outside, as where memory is short: lint "
            "the file in parts."
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """Ctrl-C reaches every process at a terminal; the first one ends the others."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _check(checks: Checks, chunk: list[Input]) -> list[TextFindings]:
    """Check some of many texts, in a worker's process."""
    return _checker(checks).many(chunk)


@dataclass(frozen=True)
class _Project:
    """What texts are checked against."""

    library: Library
    selection: Selection

    @cached_property
    def base(self) -> bytes:
        """A hash of what decides the findings in a text, beside that text."""
        from hashlib import sha256

        from pearl.lint.cache import rules_version

        names = self.library.names
        texts = [library_source(name).text for name in names]
        decides = repr((rules_version(), self.selection, names, texts))
        return sha256(decides.encode("utf-8", "surrogatepass")).digest()


class _Checker:
    """Checks texts, and keeps libraries, and what it found, for the next ones."""

    def __init__(
        self,
        checks: Checks,
        read: Callable[[tuple[str, ...], Path | None], Library] = load_quietly,
    ) -> None:
        self._checks = checks
        self._read = read
        self._projects: dict[tuple[tuple[str, ...], Path | None, bool], _Project] = {}

    @cached_property
    def _cache(self) -> Cache | None:
        from pearl.lint.cache import Cache, cache_file

        return Cache(cache_file()) if self._checks.cache else None

    def _project(self, item: Input) -> _Project:
        """What a text is checked against, which is read once.

        A library is loaded in place of those that ship: its plans call none that was not named.
        """
        names, folder = own_libraries(item.source, self._checks.libraries), folder_of(item.source)
        is_library = item.kind is TextKind.LIBRARY
        alone = is_library and not (names or read_config(folder).library)
        key = (names, folder, alone)
        if key not in self._projects:
            selection = selection_for(self._checks.select, self._checks.ignore, folder)
            library = Library((), builtins()) if alone else self._read(names, folder)
            self._projects[key] = _Project(library, selection)
        return self._projects[key]

    def many(self, chunk: list[Input]) -> list[TextFindings]:
        """What came of some texts; what the cache knows is not looked for again."""
        keys, cached = [b""] * len(chunk), dict[bytes, list[Diagnostic]]()
        if self._cache:
            from pearl.lint.cache import key_of

            keys = [
                key_of(item.source.text, self._project(item).base)
                if item.kind is TextKind.PLAN
                else b""
                for item in chunk
            ]
            cached = self._cache.get(keys)
        fresh: dict[bytes, list[Diagnostic]] = {}
        checked = []
        for item, key in zip(chunk, keys, strict=True):
            if item.kind is TextKind.PLAN:
                warn_of_library(item.source, self._checks.libraries)
            findings = cached.get(key)
            if findings is None:
                project = self._project(item)
                library, selection = project.library, project.selection
                if item.kind is TextKind.LIBRARY:
                    findings = check_library(item.source, selection, library)
                else:
                    findings = check(parse(item.source), library, selection)
                if key:
                    fresh[key] = findings
            form = self._checks.form
            text = RENDERERS[form].part(Report(item.source, findings)) if form and findings else ""
            errors = sum(finding.severity is Severity.ERROR for finding in findings)
            checked.append(TextFindings(tuple(finding.code for finding in findings), errors, text))
        if self._cache and fresh:
            self._cache.put(fresh)
        return checked


_checker = lru_cache(maxsize=1)(_Checker)
"""A worker's checker, which keeps what it has loaded from chunk to chunk."""
