"""``pearl eval``, and the reports of evaluations: ``pearl report`` and ``pearl replicate``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pearl.cli import warn
from pearl.cli.batch import complain, do, fit_of, job_settings, prices_of
from pearl.cli.inputs import load
from pearl.cli.options import GROUPS, Options, choose_metric, shared
from pearl.cli.output import (
    check_ending,
    check_output,
    deliver,
    emit,
    emit_json,
    follow_up,
    on_terminal,
)
from pearl.lang.errors import InputError, install_command
from pearl.lang.output_files import write
from pearl.lang.text import counted

if TYPE_CHECKING:
    from pearl.evaluate.results import Evaluation
    from pearl.jobs.job import Job, JobSettings
    from pearl.jobs.workers import JobProgress
    from pearl.report.document import Report

_ENDINGS = {
    "": "terminal", ".txt": "terminal", ".md": "markdown", ".tex": "latex", ".html": "html",
    ".htm": "html", ".json": "json",
}  # fmt: skip


def _parts(text: str) -> tuple[str, ...]:
    """The parts of a text between commas, without repeats."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _names(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    if names := _parts(text):
        return names
    raise click.BadParameter("name at least one.")


def _sizes(text: str) -> tuple[int, ...]:
    """Numbers of actions with commas between them."""
    if all(part.isdigit() and int(part) for part in _parts(text)):
        return tuple(dict.fromkeys(map(int, _parts(text))))
    raise click.BadParameter(f"{text} is no list of numbers above 0: write it as 20,81.")


@click.command(
    "eval",
    epilog="Example:  pearl eval quality --data dev.jsonl --split long --methods "
    "zero-shot,cot,mcq,pearl",
)
@click.argument("dataset")
@click.option("--data", default="", metavar="FILE", help="The data set's file; needed.")
@click.option(
    "--documents", default="", metavar="DIR",
    help="For your own questions: the folder with their documents. Default: the file's own.",
)  # fmt: skip
@click.option(
    "--split", type=_names, default="all", show_default=True, metavar="NAMES",
    help="A part of it, or several with commas.",
)  # fmt: skip
@click.option(
    "--methods", type=_names, metavar="NAMES",
    help="Methods, with commas; the others are compared with the first (docs/evaluation.md has "
    "them all). Default: those that suit the data set.",
)  # fmt: skip
@click.option(
    "--library-sizes", "sizes", type=_sizes, default="", metavar="NUMBERS",
    help="Also PEARL with the library condensed to so many actions, as 1,20,81.",
)  # fmt: skip
@shared("library", "sets")
@click.option(
    "--limit", type=click.IntRange(1), metavar="N", help="Only the first N questions of the file."
)
@click.option(
    "--sample", type=click.IntRange(1), metavar="N",
    help="Only N questions, drawn at random: of each split and category its share.",
)  # fmt: skip
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="S", help="The seed of --sample."
)
@click.option(
    "--reasoning", is_flag=True, help="Have the model label each question's kind of reasoning."
)
@shared("scoring", "evaluation")
@click.option("-o", "--output", default="", metavar="FILE", help="Write all results, one a line.")
@shared("constrain", "context", "compared", "planner", "reader", "job")
def eval_command(
    dataset: str,
    data: str,
    documents: str,
    split: tuple[str, ...],
    methods: tuple[str, ...] | None,
    sizes: tuple[int, ...],
    limit: int | None,
    sample: int | None,
    seed: int,
    reasoning: bool,
    output: str,
    options: Options,
) -> None:
    """Run every method on every question of DATASET, and show what they came to. DATASET is one
    of docs/evaluation.md, as quality, hotpotqa or fever, or questions: your own, as pearl batch
    reads them.

    Questions without an answer count as wrong. Demonstrations of questions that are evaluated are
    not shown to the planner. The same command goes on where it stopped.
    """
    from pearl.evaluate.evaluation_job import load_run
    from pearl.evaluate.report import summarise
    from pearl.evaluate.results import side_by_side, write_lines
    from pearl.evaluate.setup import prepare_methods, read_sample, with_options
    from pearl.report.document import as_object

    seed_source = click.get_current_context().get_parameter_source("seed")
    if seed_source is ParameterSource.COMMANDLINE and not sample:
        raise InputError("--seed is the seed of --sample N: give both, or neither.")
    questions = read_sample(
        dataset, data, ",".join(split), limit or 0, documents, sample or 0, seed
    )
    library = load(options.libraries or questions.dataset.libraries)
    home = Path(documents or Path(data).parent)
    read = {str(home / example.document.name) for example in questions.examples}
    check_output(output, "evaluation", *read)
    check_ending(output, ".jsonl .json", "an evaluation (pearl report makes pages of it)")
    if len(options.sets) > 1 and len(options.compared) > 1:
        raise InputError("Several models and several --demos: compare one or the other.")
    equip = partial(with_options, metric=choose_metric(options),
                    **{name: getattr(options, name) for name in GROUPS["evaluation"]})  # fmt: skip
    fit = fit_of(options)
    given = {"library": options.libraries, "demos": options.sets}
    named = [name for name, values in given.items() if values]
    jobs: list[tuple[Job, JobSettings]] = []
    # Each model, or set of demonstrations, has the same job as if it were evaluated alone.
    for folder in options.sets or ("",):
        how = (methods or (), sizes, folder, options.libraries, equip)
        ready = prepare_methods(questions, library, *how)
        for name in options.compared or ("",):
            settings = job_settings(options, name)
            job, model = ready.job(
                settings.model, fit, reasoning=reasoning, shown=folder, named=named
            )
            jobs.append((job, replace(settings, model=model)))
    # Sets with the same plans would be one run, which could not be compared with itself.
    identities = [job.identity for job, _ in jobs]
    for folder, identity in zip(options.sets, identities, strict=False):
        earlier = options.sets[identities.index(identity)]
        if folder != earlier:
            raise InputError(f"{earlier} and {folder} show the methods the same plans: name one.")
    done = _do_all(jobs, quiet=options.as_json)
    _, settings = jobs[0]
    evaluations = [load_run(progress.run, settings.store, settings.prices) for progress in done]
    evaluation = side_by_side(evaluations)
    if output:
        write(output, "".join(write_lines(evaluation)))
    if options.as_json:
        summaries = list(map(_summary, done, evaluations))
        first = summaries[0] if len(summaries) == 1 else {"models": summaries}
        emit_json({**first, "report": as_object(summarise(evaluation))})
    else:
        show(summarise(evaluation), Options(form="terminal", output="", as_json=False))
        runs = " ".join(progress.run for progress in done)
        click.echo(click.style(f"\n{follow_up('report', runs)}", dim=True))
    complain(*done, noun="trial")


def _do_all(jobs: Sequence[tuple[Job, JobSettings]], *, quiet: bool) -> list[JobProgress]:
    """Do jobs one after another, with one budget for all. The head of each has the fingerprints of
    all, so that ``pearl report last`` finds them."""
    from pearl.evaluate.evaluation_job import BESIDE
    from pearl.jobs.job import fingerprint, spent_in

    known = [fingerprint(job, settings) for job, settings in jobs]
    done: list[JobProgress] = []
    for job, settings in jobs:
        limits = settings.limits
        for earlier, (_, other) in zip(done, jobs, strict=False):
            limits = limits.less(spent_in(earlier.run, other), settings.prices)
        evaluation = job.head["evaluation"] | {BESIDE: known}
        linked = replace(job, head=job.head | {"evaluation": evaluation})
        done.append(do(linked, replace(settings, limits=limits), quiet=quiet))
    return done


def _summary(done: JobProgress, evaluation: Evaluation) -> dict[str, Any]:
    """A run's progress, and the means of its measures, as JSON data."""
    from pearl.evaluate.accuracy_tables import means_of

    facts = done.as_object()
    facts = {"trials": facts.pop("questions"), **facts, "model": done.model}
    means = means_of(evaluation, evaluation.methods[0])
    if "seconds" in means:
        # A run has ``seconds`` of its own.
        means["seconds_a_question"] = means.pop("seconds")
    # A measure never overrides a fact of the same name.
    return {**facts, **means, **facts}


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
    """Report on EVAL: a file that pearl eval wrote, the name of a run, or last. Several stand
    side by side if each has a model, library or set of demonstrations of its own.

    Accuracy with 95 % intervals, paired tests, plans, cost. With --labelled alone, only the shares.
    -o FILE.eval writes a log of Inspect, and -o FOLDER/ a folder that Hugging Face's datasets
    reads (docs/integrations.md); these take a batch without gold answers too.
    """
    from pearl.evaluate.errors import error_table
    from pearl.evaluate.exports import with_gold, write_dataset, write_inspect
    from pearl.evaluate.report import summarise
    from pearl.evaluate.results import side_by_side
    from pearl.report.document import Report

    log, folder = options.output.endswith(".eval"), options.output.endswith("/")
    target = "" if folder and Path(options.output).is_dir() else options.output.rstrip("/")
    check_output(target, "")
    drawn = errors or labelled or to_grade or grades
    if (log or folder) and (drawn or options.form or options.as_json):
        raise InputError(
            "-o FILE.eval and -o FOLDER/ take no --errors, --labelled, grades, form or --json."
        )
    if not evaluations and (errors or to_grade or grades or log or folder or not labelled):
        raise InputError("Name an evaluation: a file, the name of a run, or last.")
    if method and not (errors or log):
        raise InputError("--method says whose wrong answers to draw: give --errors N with it.")
    loaded = [_load(name, options) for name in evaluations]
    # The fact "data" is the file's name, followed by counts of questions and documents.
    noun = "file of answers to grade" if to_grade else "" if log or folder else "report"
    noun = "file of wrong answers" if errors else noun
    read = (dict(run.about).get("data", "").rsplit(",", 2)[0] for run in loaded)
    check_output(target, noun, *read)
    if log or folder:
        data = side_by_side(loaded)
        write_inspect(data, method, options.output) if log else write_dataset(data, options.output)
        return
    loaded = [with_gold(evaluation) for evaluation in loaded]
    if errors:
        _draw(side_by_side(loaded), errors, method, options)
        return
    if to_grade:
        from pearl.review.agreement import draw_answers

        rows = draw_answers(side_by_side(loaded), to_grade)
        _deliver_rows(rows, options)
        return
    report = Report("Labelled errors", (("file", labelled),))
    if loaded:
        report = summarise(side_by_side(loaded))
    if labelled:
        report = replace(report, blocks=(*report.blocks, error_table(labelled)))
    if grades:
        from pearl.review.agreement import graders

        table = graders(side_by_side(loaded), grades).table
        report = replace(report, blocks=(*report.blocks, table))
    show(report, options)


def _load(name: str, options: Options) -> Evaluation:
    """An evaluation from a file, or from a run in the store: its name, the start of it, or last.

    Raises:
        InputError: there is no such file or run, or it cannot be used.
    """
    if Path(name).is_file() or name == "-":
        from pearl.evaluate.results import read_evaluation

        return read_evaluation(name)
    if Path(name).suffix or "/" in name or Path(name).exists():
        raise InputError(f"{name} is no file: name one that pearl eval wrote, a run, or last.")
    from pearl.evaluate.evaluation_job import load_run
    from pearl.store.database import address

    return load_run(name, address(options.store), prices_of(options))


def show(report: Report, options: Options) -> None:
    """Print a report, or write it to a file, by the options ``form`` (by default that of the
    output's ending), ``output`` and ``as_json``.

    Raises:
        InputError: there is no form for the output's ending.
    """
    from pearl.report import FORMS
    from pearl.report.document import Chart
    from pearl.report.text import terminal

    output = options.output
    check_ending(output, " ".join(_ENDINGS), "a report")
    chosen = options.form or _ENDINGS[Path(output).suffix.lower()]
    if options.as_json:
        emit(FORMS["json"](report), output)
    elif output in ("", "-") and chosen == "terminal" and on_terminal():
        # The report's texts are escaped already, and `emit` would remove the bold titles.
        bold, dim = partial(click.style, bold=True), partial(click.style, dim=True)
        width = shutil.get_terminal_size().columns
        click.echo(terminal(report, width, bold, dim), nl=False)
    else:
        emit(FORMS[chosen](report), output)
        has_charts = any(isinstance(block, Chart) for block in report.blocks)
        if chosen == "html" and has_charts and find_spec("matplotlib") is None:
            missing = f"matplotlib is not installed: {install_command('plots')}"
            warn(f"The charts are drawn as text, as {missing}.")


def _draw(evaluation: Evaluation, count: int, method: str, options: Options) -> None:
    from pearl.evaluate.errors import CATEGORIES, draw_errors

    rows = draw_errors(evaluation, count, method)
    _deliver_rows(rows, options)
    fewer = f" There are no more than {len(rows)}." if len(rows) < count else ""
    click.echo(
        f"{counted(len(rows), 'wrong answer')} of {rows[0]['method']}: write into category one of "
        f"{', '.join(CATEGORIES)}.{fewer}",
        err=True,
    )


def _deliver_rows(rows: list[dict[str, Any]], options: Options) -> None:
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    deliver(options, lambda: "".join(lines), lambda: rows)


@click.command("replicate", epilog="Example:  pearl replicate outcomes.jsonl")
@click.argument("file")
@shared("form", "output", "json")
def replicate_command(file: str, options: Options) -> None:
    """Show what the recorded outcomes in FILE come to: accuracy with intervals, and paired tests.

    A row is one JSON object a line: split, method, qid, answer and gold.
    """
    from pearl.evaluate.report import summarise
    from pearl.evaluate.results import read_outcomes

    check_output(options.output, "report")
    show(summarise(read_outcomes(file)), options)
