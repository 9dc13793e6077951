"""``pearl lint``: checks and fixes plans and action libraries.

A few texts are checked one after another; many are checked on all cores, with a cache. Findings are
rendered in the process that finds them, so that the process that reads and prints has little to do,
and holds only some hundred texts at a time.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from pearl.cli import NoAnswer, Stopped, warn
from pearl.cli.inputs import (
    Input,
    each_input,
    folder_of,
    load,
    load_quietly,
    own_libraries,
    read_config,
    selection_for,
    warn_of_library,
)
from pearl.cli.options import Options, shared
from pearl.cli.output import counting, diff_of, emit, show, show_diff, tell
from pearl.jobs.progress import processors, signals_held
from pearl.lang.diagnostics import Diagnostic, Severity, SourceFindings
from pearl.lang.errors import InputError, UnreadableError
from pearl.lang.library import Library, builtins, library_source
from pearl.lang.output_files import cache_folder, write
from pearl.lang.parser import parse
from pearl.lang.source import TextKind
from pearl.lang.text import counted, printable
from pearl.lint.checker import Selection, check_for_person, check_library, fix
from pearl.lint.render import RENDERERS

if TYPE_CHECKING:
    from pearl.lint.cache import Cache

FEW = 1000
"""Up to so many texts are checked without further processes and a cache, which take time to
start."""

_CHUNK = 200
"""Texts that a process gets at a time."""

_AHEAD = 3
"""The most chunks for each process that are submitted and not yet printed."""


@click.command("lint", epilog="Example:  pearl lint plans/ my.plan actions/ --fix")
@click.argument("paths", nargs=-1, required=True)
@click.option("--fix", "safe", is_flag=True, help="Apply the fixes that keep a plan's meaning.")
@click.option(
    "--unsafe-fixes", "unsafe", is_flag=True, help="Apply the fixes that guess at it too."
)
@click.option(
    "--diff",
    "only_diff",
    is_flag=True,
    help="Change nothing; print what fixes change, and end with 1 where they do.",
)
@click.option(
    "--select", multiple=True, metavar="CODES", help="Only these, as PRL4 or PRL401,PRL402."
)
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these.")
@click.option(
    "--format", "form", default="terminal", show_default=True, help="How findings are written.",
    type=click.Choice(["terminal", "prompt", "json", "sarif", "github"]),
)  # fmt: skip
@click.option("--statistics", is_flag=True, help="Only count the findings of each rule.")
@click.option("--no-cache", is_flag=True, help="Check every text anew, however many there are.")
@click.option(
    "--exit-zero",
    is_flag=True,
    help="Exit with 0 even where there are findings, or files that cannot be read.",
)
@shared("library", "json")
def lint_command(
    paths: tuple[str, ...],
    safe: bool,
    unsafe: bool,
    only_diff: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    form: str,
    statistics: bool,
    no_cache: bool,
    exit_zero: bool,
    options: Options,
) -> None:
    """Check PATHS: .plan and .actions files, folders of them, .jsonl files whose rows have a
    "plan", or - for standard input. With --fix, a fixed standard input is printed, and what is
    left to mend is told on standard error. Many plans are checked on all cores, and what is
    found in them is kept below ~/.cache for the next time."""
    form = "json" if options.as_json else form
    unreadable: list[UnreadableError] = []
    unfixed: list[InputError] = []
    changed: list[str] = []
    inputs = each_input(paths, unreadable.append)
    if safe or unsafe or only_diff:
        selection = partial(selection_for, select, ignore)
        items = list(inputs)
        files = dict.fromkeys(item.file for item in items if item.row)
        unfixed = [InputError(f"{file}: rows are checked, and not fixed.") for file in files]
        fixed = _fix_all(items, options.libraries, selection, unsafe=unsafe)
        if statistics or form != "terminal":
            if only_diff:
                raise InputError("--diff prints what changes: leave out the other format.")
            if "-" in paths:
                raise InputError("- with --fix prints the fixed text: leave out the other format.")
        if only_diff:
            diff = "".join(diff_of(before.source, after.source.text) for before, after in fixed)
            show_diff(diff)
            if items and not diff:
                _say_no_fix(unsafe=unsafe)
            warn(*map(str, (*unreadable, *unfixed)))
            failed = bool(unreadable or unfixed or diff)
            raise click.exceptions.Exit(1 if failed and not exit_zero else 0)
        inputs = (_write_fixed(before, after, changed) for before, after in fixed)
    checks = Checks(
        options.libraries, select, ignore, "" if statistics else form, not no_cache, paths
    )
    counts, faults = _Counts(), list[UnreadableError]()
    rows = _rows(paths) if sys.stderr is not None and sys.stderr.isatty() else 0
    with counting("plans", rows if rows > FEW else 0) as done:
        parts = counts.parts(check_all(inputs, checks, faults.append), done)
        if statistics:
            deque(parts, maxlen=0)
        unused = chain(unreadable, faults)
        whole = () if statistics else RENDERERS[form].whole(parts, counts.flagged, unused)
        for text in whole:
            if form == "terminal":
                click.echo(text, nl=False, err="-" in paths and (safe or unsafe))
            else:
                show(text)
    if statistics:
        _statistics(counts, [*unreadable, *faults], as_json=form == "json")
    elif form == "terminal":
        noun = "plan" if any(path.endswith(".jsonl") for path in paths) else "file"
        # If nothing could be read, there is nothing to summarise.
        if counts.checked or not unreadable:
            _summary(counts, noun, len(faults))
        if (safe or unsafe) and counts.times and not (changed or unfixed):
            _say_no_fix(unsafe=unsafe)
    warn(*map(str, (*unreadable, *unfixed)))
    failed = bool(unreadable or unfixed or faults or counts.sources)
    raise click.exceptions.Exit(1 if failed and not exit_zero else 0)


def _fix_all(
    inputs: list[Input],
    libraries: tuple[str, ...],
    selection: Callable[[Path | None], Selection],
    *,
    unsafe: bool,
) -> Iterator[tuple[Input, Input]]:
    """Fix texts, except rows of a file; gives each before and after."""
    for item in inputs:
        source = item.source
        if item.kind is TextKind.PLAN and not item.row:
            folder = folder_of(source)
            library = load_quietly(own_libraries(source, libraries), folder)
            source = fix(source, library, selection(folder), unsafe=unsafe)
        yield item, replace(item, source=source)


def _write_fixed(before: Input, after: Input, changed: list[str]) -> Input:
    """Write a fixed text over its file, or print it where it came from standard input; its name is
    added to ``changed`` where a fix changed it."""
    source = after.source
    if source.text != before.source.text:
        changed.append(source.name)
    if source.name == "-":
        emit(source.text)
    elif source.text != before.source.text:
        write(source.name, source.text)
        click.echo(f"fixed {printable(source.name)}", err=True)
    return after


def _say_no_fix(*, unsafe: bool) -> None:
    more = "" if unsafe else " safe"
    others = "" if unsafe else "; --unsafe-fixes also applies those that guess, if any"
    click.echo(f"No{more} fix would change anything{others}.", err=True)


def _rows(paths: Sequence[str]) -> int:
    """How many lines the ``.jsonl`` files among these paths have."""
    count = 0
    for path in paths:
        if path.endswith(".jsonl") and Path(path).is_file():
            with Path(path).open("rb") as file:
                count += sum(block.count(b"\n") for block in iter(partial(file.read, 1 << 20), b""))
    return count


@dataclass(slots=True)
class _Counts:
    """Counts over many checks.

    Args:
        checked: how many texts were checked.
        sources: texts with findings.
        errors: findings that are errors.
        flagged: texts with findings of each rule.
        times: findings of each rule.
    """

    checked: int = 0
    sources: int = 0
    errors: int = 0
    flagged: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)

    def parts(self, checked: Iterable[TextFindings], done: Callable[[], None]) -> Iterator[str]:
        """The text to print for each source with findings; all results are counted."""
        for result in checked:
            self.checked += 1
            if result.codes:
                self.sources += 1
                self.errors += result.errors
                self.flagged.update(set(result.codes))
                self.times.update(result.codes)
            done()
            if result.text:
                yield result.text


def _statistics(counts: _Counts, unreadable: Sequence[UnreadableError], *, as_json: bool) -> None:
    """Print how many sources each rule flags, and how often."""
    from pearl.lint.rules import RULES

    flagged, times = counts.flagged, counts.times
    rows = [(rule, flagged[rule.code], times[rule.code]) for rule in RULES if flagged[rule.code]]
    rows.sort(key=lambda row: (-row[1], row[0].code))
    data = [
        {"code": rule.code, "name": rule.name, "flagged": files, "findings": count}
        for rule, files, count in rows
    ]
    lines = [
        f"{rule.code} {rule.name:24} {files:6} flagged {count:6} finding{'s' * (count != 1)}"
        for rule, files, count in rows
    ]
    lines.append(f"{counts.checked} checked")
    messages = [str(error) for error in unreadable]
    tell({"checked": counts.checked, "rules": data, "unreadable": messages}, as_json, lines)


def _summary(counts: _Counts, noun: str, faults: int) -> None:
    """Print how many texts were checked, with counts of findings and of errors in the library."""
    checked = f"{counted(counts.checked, noun)} checked"
    if not counts.times:
        but = f"; the library has {counted(faults, 'error')}" if faults else ""
        click.echo(f"{checked}, no findings{but}.", err=True)
        return
    warnings = counted(counts.times.total() - counts.errors, "warning")
    click.echo(
        f"\n{checked}: {counted(counts.errors, 'error')} and {warnings} "
        f"in {counted(counts.sources, noun)}. pearl rule CODE says more.", err=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Checks:
    """How texts are checked.

    Args:
        libraries: the values of ``--library``.
        select: the values of ``--select``.
        ignore: the values of ``--ignore``.
        form: how findings are written; empty where they are only counted.
        cache: whether to cache findings, where there are many texts.
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


def check_all(
    texts: Iterator[Input],
    checks: Checks,
    refused: Callable[[UnreadableError], object] = lambda _: None,
) -> Iterator[TextFindings]:
    """The findings in texts, in their order, while they are read. ``refused`` is called with each
    error for which ``pearl run`` would refuse a library.

    Raises:
        InputError: a library cannot be read.
        NoAnswer: a worker process was killed.
    """
    first = list(islice(texts, FEW + 1))
    if len(first) <= FEW:
        checker = _Checker(
            replace(checks, cache=False), partial(load, linted=checks.paths, refused=refused)
        )
        for item in first:
            yield from checker.many([item])
        return
    source = first[0].source
    load(own_libraries(source, checks.libraries), folder_of(source), checks.paths, refused)
    rest = chain(first, texts)
    del first
    chunks = iter(lambda: list(islice(rest, _CHUNK)), [])
    cores = processors()
    if cores == 1:
        checker = _Checker(checks)
        for chunk in chunks:
            yield from checker.many(chunk)
        return
    yield from _check_on(cores, checks, chunks)


def _check_on(cores: int, checks: Checks, chunks: Iterable[list[Input]]) -> Iterator[TextFindings]:
    """The findings in texts, which are checked by as many processes as there are cores."""
    from concurrent.futures import Future, ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(cores, get_context("spawn"), _begin_worker)
    under_way: deque[Future[list[TextFindings]]] = deque()

    def stop(*_: object) -> None:
        raise Stopped("Stopped.")

    # A plain exit would leave resources that the processes share, about which Python warns.
    earlier = signal.signal(signal.SIGTERM, stop)
    try:
        for chunk in chunks:
            # A process that is stopped while it starts would print an error: it inherits the block,
            # until `_begin_worker`.
            with signals_held(signal.SIGINT, signal.SIGTERM):
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
        signal.signal(signal.SIGTERM, earlier)


def _begin_worker() -> None:
    """Start a worker, which ignores Ctrl-C: the main process stops the workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))


def _check(checks: Checks, chunk: list[Input]) -> list[TextFindings]:
    """Check a chunk of texts in a worker process."""
    return _checker(checks).many(chunk)


@dataclass(frozen=True)
class _Project:
    """The library and the rules that texts are checked with."""

    library: Library
    selection: Selection

    @cached_property
    def base(self) -> bytes:
        """The hash of all that decides the findings in a text, except the text."""
        from hashlib import sha256

        from pearl.lint.cache import rules_version

        names = self.library.names
        texts = [library_source(name).text for name in names]
        decides = repr((rules_version(), self.selection, names, texts))
        return sha256(decides.encode("utf-8", "surrogatepass")).digest()


class _Checker:
    """Checks texts, and keeps libraries and findings for later ones."""

    def __init__(
        self, checks: Checks, read: Callable[[tuple[str, ...], Path | None], Library] = load_quietly
    ) -> None:
        self._checks = checks
        self._read = read
        self._projects: dict[tuple[tuple[str, ...], Path | None, bool], _Project] = {}

    @cached_property
    def _cache(self) -> Cache | None:
        if not self._checks.cache:
            return None
        from pearl.lint.cache import Cache

        try:
            return Cache(cache_folder() / "lint.db")
        except RuntimeError:
            # A process may have no home at all, and then it checks every text anew.
            return None

    def _project(self, item: Input) -> _Project:
        """The project of a text, which is read once.

        A library replaces those that ship: its plans may only call actions of libraries that were
        named.
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
        """Check some texts; those in the cache are not checked again."""
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
                    findings = check_for_person(parse(item.source), library, selection)
                if key:
                    fresh[key] = findings
            form = self._checks.form
            report = SourceFindings(item.source, findings, item.kind)
            text = RENDERERS[form].part(report) if form and findings else ""
            errors = sum(finding.severity is Severity.ERROR for finding in findings)
            checked.append(TextFindings(tuple(finding.code for finding in findings), errors, text))
        if self._cache and fresh:
            self._cache.put(fresh)
        return checked


_checker = lru_cache(maxsize=1)(_Checker)
"""A worker's checker, which keeps what it has loaded from chunk to chunk."""
