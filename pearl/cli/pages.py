"""What is served as pages on this machine: ``pearl view`` of runs, ``pearl review`` of plans.

And what came of a review: ``pearl review export``, ``pearl review agreement``.
"""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli.eval import show
from pearl.cli.inputs import load, open_existing
from pearl.cli.options import Options, shared
from pearl.cli.output import check_ending, check_output, deliver, require, tell
from pearl.lang.errors import InputError
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from pearl.review.people import Annotator, ReviewSession

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""


@click.command("view", epilog="Example:  pearl view --documents texts/")
@click.option(
    "--documents", default="", metavar="DIR",
    help="Where to look for documents, beside where runs read them.",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8810, show_default=True,
    help="Where to listen; 0 takes a free one.",
)  # fmt: skip
@shared("store", "json")
def view_command(documents: str, port: int, options: Options) -> None:
    """Serve the store's runs as pages, on this machine only: searched, filtered, each down to its
    calls, two side by side, followed while they run. Nothing is written."""
    import secrets

    require("view", "starlette", "uvicorn")
    if documents and not Path(documents).is_dir():
        raise InputError(f"{documents} is no folder: name the one that documents are in.")
    from pearl.models.tokens import load_prices
    from pearl.store.database import shown_place
    from pearl.viewer.app import ServedStore, application
    from pearl.viewer.serve import address_of, listen, serve

    with open_existing(options.store) as engine, listen("127.0.0.1", port) as sock:
        cookie = f"pearl_view_{sock.getsockname()[1]}"
        shown = ServedStore(engine, shown_place(engine), load_prices(), documents, cookie)
        token = secrets.token_urlsafe(32)
        link = f"{address_of(sock, '127.0.0.1', ())}/?token={token}"
        lines = [f"{shown.place} at {link}", "Ctrl-C stops."]
        tell({"store": shown.place, "link": link}, options.as_json, lines)
        serve(application(shown, token), sock)


class Review(click.Command):
    """Plans by default; ``export`` and ``agreement`` are commands of their own."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None,
        **extra: Any,  # noqa: ANN401 - as click's
    ) -> click.Context:  # fmt: skip
        if args and args[0] in _MORE:
            name = f"{info_name} {args[0]}"
            return _MORE[args[0]].make_context(name, args[1:], parent, **extra)
        if args and not args[0].startswith("-") and not os.path.lexists(args[0]):
            from difflib import get_close_matches

            # The name of a run begins with its year.
            if near := get_close_matches(args[0].lower(), _MORE, 1):
                close = f"close: pearl {info_name} {near[0]}."
                raise click.UsageError(f"{args[0]} is no file, no folder and no run; {close}")
        return super().make_context(info_name, args, parent, **extra)


@click.command(
    "review",
    cls=Review,
    epilog="Afterwards:  pearl review export -o verdicts.csv  and  pearl review agreement. "
    "Example:  pearl review plans/ --annotators 3",
)
@click.argument("names", nargs=-1, required=True, metavar="PLANS...")
@click.option(
    "--annotators", default="", metavar="N",
    help="How many people, or their names with commas. Default: those of the last time, or one.",
)  # fmt: skip
@click.option(
    "--overlap", type=click.IntRange(1), default=2, show_default=True, metavar="K",
    help="How many people judge each plan.",
)  # fmt: skip
@click.option(
    "--documents", default="", metavar="DIR",
    help="The folder whose documents may be shown beside runs. Folders of plans count as well.",
)  # fmt: skip
@click.option("--demos", default="", metavar="DIR", help="The folder that edited plans may go to.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8800, show_default=True,
    help="Where to listen; 0 takes a free one.",
)  # fmt: skip
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
    help="At which address to listen. Only this machine reaches the default.",
)  # fmt: skip
@click.option(
    "--name", "hosts", multiple=True, metavar="HOST",
    help="A name under which other machines reach this one. Repeatable.",
)  # fmt: skip
@click.option(
    "--new-links", is_flag=True, help="Give everybody a new link; the old ones are good no more."
)
@click.option(
    "--no-tokens", is_flag=True, help="Anybody on this machine may come in, as any annotator."
)
@shared("library", "store", "json")
def review_command(
    names: tuple[str, ...],
    annotators: str,
    overlap: int,
    documents: str,
    demos: str,
    port: int,
    host: str,
    hosts: tuple[str, ...],
    new_links: bool,
    no_tokens: bool,
    options: Options,
) -> None:
    """Open a page on which people judge PLANS: .plan files, folders of them, .jsonl files whose
    rows have a "plan", evaluations, and runs of the store (RUN, RUN/ID or last).

    Everybody gets a link. Verdicts go to the store as they are given; the same command goes on.
    """
    require("review", "starlette", "uvicorn", "nltk")
    from pearl.review.pages import application
    from pearl.review.people import ReviewSession, lay_out, read_wanted
    from pearl.review.queue import read_folders, read_queue
    from pearl.store.database import address, open_database
    from pearl.viewer.serve import address_of, is_loopback, listen, serve

    if no_tokens and not is_loopback(host):
        raise InputError(
            f"--no-tokens lets in anybody who reaches {host}: leave it out, and everybody gets a "
            "link with a token."
        )
    invited = read_wanted(annotators) if annotators else None
    folders = read_folders(list(names), documents, demos)
    library = load(options.libraries)
    place = address(options.store)
    engine = open_database(place)
    try:
        queue = read_queue(names, folders, engine, place)
        with listen(host, port) as sock:
            admitted = lay_out(engine, queue, invited, overlap, new_links=new_links)
            people = tuple(annotator.person.id for annotator in admitted)
            cookie = f"pearl_review_{sock.getsockname()[1]}"
            session = ReviewSession(
                engine, queue.items, library, folders, people, no_tokens, cookie
            )
            _welcome(
                session, admitted, queue.left_out, address_of(sock, host, hosts), options.as_json
            )
            serve(application(session, host, hosts), sock)
    except KeyboardInterrupt:
        click.echo(f"Stopped. What was saved is in {printable(place)}.", err=True)
    finally:
        engine.dispose()


@click.command("export", epilog="Example:  pearl review export -o verdicts.csv")
@shared("output", "store", "json")
def export(options: Options) -> None:
    """Write every verdict as a row of CSV, or as JSON.

    In CSV, a cell that a spreadsheet would take for a formula begins with an apostrophe.
    """
    check_output(options.output)
    check_ending(options.output, ".csv", "a file of verdicts")
    with open_existing(options.store) as engine:
        rows = _rows(engine)
    deliver(options, lambda: _csv(rows), lambda: rows)
    click.echo(f"{counted(len(rows), 'verdict')}.", err=True)


@click.command("agreement", epilog="Example:  pearl review agreement --format markdown")
@shared("form", "output", "store", "json")
def agreement(options: Options) -> None:
    """Say how plans were judged, and how far the annotators agree: Cohen's and Fleiss' kappa,
    Krippendorff's alpha."""
    check_output(options.output)
    from pearl.review.agreement import review_report
    from pearl.review.people import everybody
    from pearl.review.verdicts import read_mappings, read_verdicts
    from pearl.store.database import shown_place

    with open_existing(options.store) as engine:
        about = (("store", shown_place(engine)),)
        verdicts, people = read_verdicts(engine), everybody(engine)
        report = review_report(verdicts, people, about, read_mappings(engine))
    show(report, options)


_MORE = {"export": export, "agreement": agreement}


def _welcome(
    session: ReviewSession,
    admitted: list[Annotator],
    left_out: tuple[str, ...],
    start: str,
    as_json: bool,
) -> None:
    """Who may come in, and how. Tokens are shown this once."""
    invited = [
        (
            annotator.person.name,
            len(session.share(annotator.person.id)),
            f"{start}/enter?token={annotator.token}" if annotator.token else None,
        )
        for annotator in admitted
    ]
    data = {
        "address": start,
        "plans": len(session.items),
        "left_out": list(left_out),
        "annotators": [dict(zip(("name", "plans", "link"), row, strict=True)) for row in invited],
    }
    for name in () if as_json else left_out:
        click.echo(f"left out: {printable(name)}", err=True)
    people = counted(len(invited), "annotator")
    lines = [f"{counted(len(session.items), 'plan')} for {people} at {start}\n"]
    if session.open:
        lines.append(f"Anybody on this machine may come in at {start}/enter\n")
    width = max(len(name) for name, _, _ in invited)
    old = "has a link from before; --new-links makes another"
    for name, plans, link in invited:
        lines.append(f"{printable(name):{width}}  {counted(plans, 'plan'):>9}  {link or old}")
    lines.append("\nEach link is for one person. Ctrl-C stops; the same command goes on.")
    tell(data, as_json, lines)


def _rows(engine: Engine) -> list[dict[str, Any]]:
    from datetime import UTC, datetime

    from sqlalchemy import select

    from pearl.review.people import everybody
    from pearl.review.verdicts import last, read_verdicts, read_versions
    from pearl.store.database import reading
    from pearl.store.tables import review_plans

    people = everybody(engine)
    with reading(engine) as connection:
        plans = {row.id: row for row in connection.execute(select(review_plans))}
    edits: dict[tuple[str, int], list[str]] = {}
    for edit in read_versions(engine):
        edits.setdefault((edit.plan, edit.person), []).append(edit.file or f"version {edit.number}")
    verdicts = last(read_verdicts(engine)).values()
    return [
        {
            "plan": plans[row.plan].name,
            "plan_id": row.plan,
            "question": plans[row.plan].question,
            "annotator": people[row.person].name,
            "correct": row.verdict.correct,
            "confidence": row.verdict.confidence,
            "categories": list(row.verdict.categories),
            "words": row.verdict.words,
            "after_others": row.seen,
            "versions": edits.get((row.plan, row.person), []),
            "given": datetime.fromtimestamp(row.time, UTC).isoformat(timespec="seconds"),
        }
        for row in sorted(verdicts, key=lambda row: (plans[row.plan].added, row.plan, row.person))
    ]


def _csv(rows: list[dict[str, Any]]) -> str:
    """The rows with a column for each category."""
    from pearl.review.verdicts import CATEGORIES

    names = [category.name for category in CATEGORIES]
    heads = ["plan", "plan_id", "question", "annotator", "correct", "confidence", *names,
             "words", "after_others", "versions", "given"]  # fmt: skip
    text = io.StringIO()
    writer = csv.DictWriter(text, heads, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        flat = row | {name: int(name in row["categories"]) for name in names}
        flat |= {"after_others": int(row["after_others"]), "versions": "; ".join(row["versions"])}
        writer.writerow(
            {
                head: f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
                for head, cell in flat.items()
            }
        )
    return text.getvalue()
