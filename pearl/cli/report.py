"""``pearl report`` and ``pearl replicate``: what an evaluation came to."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli.options import Options, shared
from pearl.cli.output import check_ending, check_output, emit, emit_json, on_terminal
from pearl.lang.source import InputError
from pearl.lang.text import counted

if TYPE_CHECKING:
    from pearl.evaluate.results import Evaluation
    from pearl.report.document import Report


_ENDINGS = {
    "": "terminal", ".txt": "terminal", ".md": "markdown", ".tex": "latex", ".html": "html",
    ".htm": "html", ".json": "json",
}  # fmt: skip


@click.command("report", epilog="Example:  pearl report last -o report.html")
@click.argument("evaluations", nargs=-1, metavar="[EVAL]...")
@shared("form")
@click.option(
    "--errors", type=click.IntRange(1), metavar="N",
    help="Write N wrong answers, spread over the splits, as JSON lines for a person to label.",
)  # fmt: skip
@click.option(
    "--method", default="", metavar="NAME",
    help="Whose wrong answers, or whose log of Inspect. Default: of wrong answers, those of the "
    "first method with plans.",
)  # fmt: skip
@click.option(
    "--labelled", default="", metavar="FILE",
    help="Add the shares of a file that --errors wrote and a person filled in.",
)  # fmt: skip
@click.option(
    "--to-grade", type=click.IntRange(1), metavar="N",
    help="Write N answers that a model graded by a rubric, for people, without its grades.",
)  # fmt: skip
@click.option(
    "--grades", default="", metavar="FILE",
    help="Add how far the model and people agree, of a file that --to-grade wrote and people "
    "filled in.",
)  # fmt: skip
@shared("output", "prices", "store", "json")
def report_command(
    evaluations: tuple[str, ...],
    errors: int | None,
    method: str,
    labelled: str,
    to_grade: int | None,
    grades: str,
    options: Options,
) -> None:
    """Report on EVAL: a file that pearl eval wrote, the name of a run, or last. Several, of as
    many models, stand side by side.

    Accuracy with 95 % intervals, paired tests, plans, cost. With --labelled alone, only the shares.
    -o FILE.eval writes a log of Inspect, and -o FOLDER/ a folder that Hugging Face's datasets
    reads (docs/integrations.md); these take a batch without gold answers too.
    """
    from pearl.evaluate.errors import error_table, read_labelled
    from pearl.evaluate.exports import with_gold, write_dataset, write_inspect
    from pearl.evaluate.report import summarise
    from pearl.evaluate.results import side_by_side
    from pearl.report.document import Report

    log, folder = options.output.endswith(".eval"), options.output.endswith("/")
    target = "" if folder and Path(options.output).is_dir() else options.output.rstrip("/")
    check_output(target)
    drawn = errors or labelled or to_grade or grades
    if (log or folder) and (drawn or options.form or options.as_json):
        raise InputError(
            "-o FILE.eval and -o FOLDER/ take no --errors, --labelled, grades, form or --json."
        )
    if not evaluations and (errors or to_grade or grades or log or folder or not labelled):
        raise InputError("Name an evaluation: a file, the name of a run, or last.")
    if method and not (errors or log):
        raise InputError("--method says whose wrong answers to draw: give --errors N with it.")
    loaded = [load(name, options.store, options.prices) for name in evaluations]
    # A fact on the data names its file, and how many questions and documents there are.
    check_output(target, *(dict(run.about).get("data", "").rsplit(",", 2)[0] for run in loaded))
    if log or folder:
        data = side_by_side(loaded)
        write_inspect(data, method, options.output) if log else write_dataset(data, options.output)
        return
    loaded = [with_gold(evaluation) for evaluation in loaded]
    if errors:
        _draw(side_by_side(loaded), errors, method, options.output, as_json=options.as_json)
        return
    if to_grade:
        from pearl.review.agreement import draw_answers

        rows = draw_answers(side_by_side(loaded), to_grade)
        _rows(rows, options.output, as_json=options.as_json)
        return
    report = Report("Labelled errors", (("file", labelled),))
    if loaded:
        report = summarise(side_by_side(loaded))
    if labelled:
        report = replace(report, blocks=(*report.blocks, error_table(read_labelled(labelled))))
    if grades:
        from pearl.review.agreement import graders

        table = graders(side_by_side(loaded), grades).table
        report = replace(report, blocks=(*report.blocks, table))
    show(report, options.form, options.output, as_json=options.as_json)


def load(name: str, store: str, prices: str = "") -> Evaluation:
    """An evaluation from a file, or else from a run in the store.

    Args:
        name: the file, or the run's name, the start of it, or ``last``.
        store: where runs are kept; empty for the one in use here.
        prices: a table of prices for a run's tokens; empty for the usual one.

    Raises:
        InputError: there is none of that name, or it cannot be used.
    """
    if Path(name).is_file() or name == "-":
        from pearl.evaluate.results import read_evaluation

        return read_evaluation(name)
    if Path(name).suffix or "/" in name or Path(name).exists():
        raise InputError(f"{name} is no file: name one that pearl eval wrote, a run, or last.")
    from pearl.evaluate.job import load_run
    from pearl.models.tokens import load_prices
    from pearl.store.database import address

    return load_run(name, address(store), load_prices(Path(prices) if prices else None))


def show(report: Report, form: str | None, output: str, *, as_json: bool) -> None:
    """Print a report, or write it to a file, in the form that was asked for.

    Args:
        report: what to show.
        form: as after ``--format``; None for what the file's ending says.
        output: the file; empty for the screen.
        as_json: its data, whatever the form.

    Raises:
        InputError: the file's ending says no form.
    """
    from pearl.report import FORMS, terminal

    check_ending(output, " ".join(_ENDINGS), "a report")
    chosen = form or _ENDINGS[Path(output).suffix.lower()]
    if as_json:
        emit(FORMS["json"](report), output)
    elif output and output != "-":
        emit(FORMS[chosen](report), output)
    elif chosen == "terminal" and on_terminal():
        # The form has made every text harmless; `emit` would take its titles' weight away.
        bold, dim = partial(click.style, bold=True), partial(click.style, dim=True)
        width = shutil.get_terminal_size().columns
        click.echo(terminal.render(report, width, bold, dim), nl=False)
    else:
        emit(FORMS[chosen](report))


def _draw(evaluation: Evaluation, count: int, method: str, output: str, *, as_json: bool) -> None:
    from pearl.evaluate.errors import CATEGORIES, draw_errors

    rows = draw_errors(evaluation, count, method)
    _rows(rows, output, as_json=as_json)
    fewer = f" There are no more than {len(rows)}." if len(rows) < count else ""
    click.echo(
        f"{counted(len(rows), 'wrong answer')} of {rows[0]['method']}: write into category one of "
        f"{', '.join(CATEGORIES)}.{fewer}",
        err=True,
    )


def _rows(rows: list[dict[str, Any]], output: str, *, as_json: bool) -> None:
    if (output and output != "-") or not as_json:
        emit("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), output)
    if as_json:
        emit_json(rows)


@click.command("replicate", epilog="Example:  pearl replicate outcomes.jsonl")
@click.argument("file")
@shared("form", "output", "json")
def replicate_command(file: str, options: Options) -> None:
    """Show what the recorded outcomes in FILE come to: accuracy with intervals, and paired tests.

    A row is one JSON object a line: split, method, qid, answer and gold.
    """
    from pearl.evaluate.report import summarise
    from pearl.evaluate.results import read_outcomes

    check_output(options.output)
    show(summarise(read_outcomes(file)), options.form, options.output, as_json=options.as_json)
