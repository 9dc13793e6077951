"""``pearl index``"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from pearl.cli import NoAnswer
from pearl.cli.options import Options, shared
from pearl.cli.output import tell
from pearl.jobs.progress import bar, is_watched
from pearl.lang.source import InputError
from pearl.lang.text import counted, printable, printable_lines


@click.command("index", epilog="Example:  pearl index corpus.jsonl -o corpus.index")
@click.argument("path", metavar="CORPUS")
@click.option(
    "-o", "--output", default="", metavar="INDEX",
    help="The index, a folder. One that is there is replaced when the new one is whole.",
)  # fmt: skip
@click.option("--search", default=None, metavar="WORDS", help="Passages that match, best first.")
@click.option(
    "-k", "most", type=click.IntRange(1), default=5, show_default=True, metavar="N",
    help="How many passages to show.",
)  # fmt: skip
@shared("json")
def index_command(path: str, output: str, search: str | None, most: int, options: Options) -> None:
    """Index CORPUS: a document, a folder of them, or JSON lines with "id", "text" and "title".

    Where CORPUS is an index: search it with --search, or else check every byte of it.
    """
    from pearl.retrieval.index_files import check_index, is_index

    more: dict[str, Any] = {}
    if output:
        from pearl.retrieval.index import build_index

        if search is not None:
            raise InputError("-o and --search exclude each other: build first, then search.")
        started = time.monotonic()
        with _progress(quiet=options.as_json) as progress:
            info = build_index(path, output, progress)
        seconds = time.monotonic() - started
        more = {"fresh": info.fresh, "seconds": seconds}
        ending = f", {seconds:.1f} s" if info.fresh else ": it is there already."
    elif not is_index(path):
        raise InputError(f"{path} is no index: build one of a corpus with -o INDEX.")
    elif search is None:
        info, ending = check_index(path), ": every byte is as it was written."
    else:
        _search(path, search, most, as_json=options.as_json)
        return
    corpus = {"name": info.corpus, "bytes": info.size, "sha256": info.digest}
    size = {"passages": info.passages, "bytes": info.bytes}
    line = (
        f"{printable(output or path)}: {counted(info.passages, 'passage')} of "
        f"{printable(info.corpus)}, {info.bytes / 1e6:,.1f} MB{ending}"
    )
    tell({"index": output or path, **size, "corpus": corpus, **more}, options.as_json, [line])


def _search(path: str, query: str, most: int, *, as_json: bool) -> None:
    from pearl.retrieval.index import open_index

    hits = open_index(path).search(query, most)
    if not hits and not as_json:
        raise NoAnswer(f"No passage matches {query[:80]}: try other words.")
    data, lines = [], []
    for hit in hits:
        data.append({"id": hit.id, "title": hit.title, "text": hit.text, "score": hit.score})
        title = f" {hit.title}" if hit.title else ""
        lines.append(click.style(printable(f"{hit.id}{title}"), bold=True))
        lines.append("    " + printable_lines(hit.text).replace("\n", "\n    "))
    tell(data, as_json, lines)
    raise click.exceptions.Exit(0 if hits else 1)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Shows how much of a corpus is read, on a terminal.

    Yields:
        A function to tell of the bytes that are read, and of how many.
    """
    if quiet or not is_watched():
        yield lambda done, of: None
        return
    with bar("bar", "bytes", "{task.description}", "left") as update:
        doing = ("writing the index", "reading")
        yield lambda done, of: update(total=of, completed=done, description=doing[done < of])
