"""``pearl mine``, ``pearl condense`` and ``pearl refine``: make actions and example plans from
questions, and merge similar actions."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli import Stopped, warn
from pearl.cli.batch import complain, do, fit_of, job_settings, report
from pearl.cli.inputs import load, load_sound
from pearl.cli.options import Options, choose_metric, shared
from pearl.cli.output import check_output, emit, emit_json, on_terminal, settle
from pearl.lang.errors import InputError
from pearl.lang.output_files import write
from pearl.lang.source import read_source
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from pearl.jobs.job import JobSettings
    from pearl.lang.ast import Action
    from pearl.lang.diagnostics import SourceFindings
    from pearl.mining.condense import Condensed
    from pearl.mining.mine import Mined
    from pearl.models.base import Model
    from pearl.models.batch_client import ProviderBatch
    from pearl.models.batch_files import BatchRecord

SHOWN = 3
"""The most notes of each kind that are printed; a file gets them all."""

_KINDS = {
    "unreadable": "lines of replies that cannot be read",
    "finding": "what rules say of actions",
    "parameters": "names with several signatures",
    "meaning": "actions that mean the same as another",
    "seed": "names that a seed has",
    "cut": "replies that were cut",
    "failed": "questions without a reply",
}


@click.command(
    "mine", epilog="Example:  pearl mine questions.jsonl -o mined.actions --seed-actions core"
)
@click.argument("questions")
@click.option("-o", "--output", required=True, metavar="FILE", help="The library to write.")
@click.option(
    "--seed-actions", "seeds", multiple=True, metavar="FILE", default=("core",), show_default=True,
    help="Actions that are there already: a shipped library, or a file. Repeatable.",
)  # fmt: skip
@click.option(
    "--mode", type=click.Choice(["live", "batch-api"]), default="live", show_default=True,
    help="One call after another, or the provider's Batch API: slower and cheaper "
    "(docs/batch-api.md).",
)  # fmt: skip
@click.option(
    "--poll", type=click.FloatRange(0.1), default=30.0, show_default=True, metavar="SECONDS",
    help="How often the state of a batch is asked for.",
)  # fmt: skip
@click.option("--notes", metavar="FILE", default="", help="Write every note, as JSON lines.")
@shared("exclude", "model", "job")
def mine_command(
    questions: str,
    output: str,
    seeds: tuple[str, ...],
    mode: str,
    poll: float,
    notes: str,
    options: Options,
) -> None:
    """Ask, for each of QUESTIONS, which new actions it needs; write them as one library.

    QUESTIONS is a file with one JSON object a line: question, and id or qid; or an article of
    QuALITY with its questions. Every finished call
    is kept, and the same command goes on where it stopped.
    """
    from pearl.jobs.job import read_results
    from pearl.jobs.question_file import questions_in
    from pearl.lang.values import canonical_json
    from pearl.mining.mine import gather, mine_job, read_examples

    if output == "-":
        raise InputError("The library needs a file of its own: name one with -o.")
    check_output(output, "library")
    check_output(notes, "file of notes")
    library = load_sound(seeds)
    left_out = questions_in(options.exclude) if options.exclude else frozenset()
    examples = read_examples(questions, left_out)
    settings = job_settings(options)
    if mode == "batch-api":
        folder = Path(f"{output}.batches")
        settings = _in_batches(settings, folder, len(examples), poll, quiet=options.as_json)
    progress = do(mine_job(examples, questions, library, left_out), settings, quiet=options.as_json)
    mined = gather(read_results(settings.store, progress.run), library)
    write(output, mined.text)
    rows = list(map(asdict, mined.notes))
    if notes:
        write(notes, "".join(canonical_json(row) + "\n" for row in rows))
    if options.as_json:
        data = {"actions": mined.rows(), "proposals": mined.proposals, "notes": rows}
        emit_json({**progress.as_object(), **data, "output": output})
    else:
        report(progress, settings)
        _show(mined, progress.done, output, notes)
    complain(progress)


def _in_batches(
    settings: JobSettings, folder: Path, questions: int, poll: float, *, quiet: bool
) -> JobSettings:
    """Settings that use the provider's Batch API, with all questions asked at once."""
    from pearl.models.batch_api import BatchOptions, open_batches

    if settings.scheduler:
        raise InputError("The Batch API needs no cluster: leave out --scheduler, or --mode.")
    printed: dict[int, str] = {}

    def show(record: BatchRecord, batch: ProviderBatch) -> None:
        """Print a line on standard error whenever the state of a batch has changed."""
        done = f"{batch.completed:,} of {record.requests:,} done, {batch.failed:,} failed"
        line = f"batch {record.number}: {batch.status}, {done}"
        if not quiet and printed.get(record.number) != line:
            printed[record.number] = line
            click.echo(line, err=True)

    model = open_batches(settings.model.name, folder, BatchOptions(interval=poll, progress=show))
    limits = replace(settings.limits, concurrency=questions, first=questions)
    return replace(settings, model=model, limits=limits)


def _show(mined: Mined, questions: int, output: str, notes: str) -> None:
    click.echo(
        f"\n{counted(len(mined.actions), 'action')} from {counted(mined.proposals, 'proposal')}, "
        f"in {output}; {counted(questions - mined.proposing, 'question')} brought none"
    )
    kinds = Counter(note.kind for note in mined.notes)
    for kind, count in kinds.items():
        click.echo(f"\n{_KINDS[kind]}: {count:,}")
        for note in [note for note in mined.notes if note.kind == kind][:SHOWN]:
            shown = ", ".join(note.questions[:5])
            more = f" and {len(note.questions) - 5} more" if len(note.questions) > 5 else ""
            asked_by = click.style(f"(question {shown}{more})" if shown else "", dim=True)
            click.echo(f"  {printable(note.message)} {asked_by}")
        if count > SHOWN:
            click.echo(f"  … {notes or 'all of them: --notes FILE'}")


@click.command(
    "condense", epilog="Example:  pearl condense mined.actions -o small.actions --target 80"
)
@click.argument("file")
@click.option("-o", "--output", default="", metavar="FILE", help="The condensed library to write.")
@click.option(
    "--target", type=click.IntRange(1), default=80, show_default=True, metavar="N",
    help="The most actions to keep. Builtins do not count.",
)  # fmt: skip
@click.option(
    "--rounds", type=click.IntRange(0), metavar="N",
    help="The most rounds in which a model sees the remaining actions; 0 condenses without a "
    "model. Default: 4, and 0 offline.",
)  # fmt: skip
@click.option(
    "--review", is_flag=True,
    help="Ask about each merge; where there is no terminal, write FILE.review to be edited.",
)  # fmt: skip
@click.option("--accept", default="", metavar="FILE", help="Take the merges of a reviewed file.")
@click.option(
    "--seed-actions", "seeds", multiple=True, metavar="FILE",
    help="Libraries that plans will use beside this one, whose names are not taken. Default: core.",
)  # fmt: skip
@shared("model", "store", "cache", "json")
def condense_command(
    file: str,
    output: str,
    target: int,
    rounds: int | None,
    review: bool,
    accept: str,
    seeds: tuple[str, ...],
    options: Options,
) -> None:
    """Merge similar actions of FILE (a .actions file, or the paper's NAME(ARGS) # definition text)
    until TARGET are left. Each says what it replaces, so that pearl migrate can rewrite plans
    that use the older names."""
    from pearl.lang.diagnostics import SourceFindings
    from pearl.lang.library import library_actions, library_source
    from pearl.lang.printer import print_library
    from pearl.lint.checker import Selection, check_library
    from pearl.lint.render import terminal
    from pearl.mining.condense import condense, is_kept
    from pearl.mining.condense_rounds import condense_in_run, usual_rounds
    from pearl.mining.merges import print_review, read_review
    from pearl.models.routing import choose_model

    check_output(output, "library")
    source = library_source(file)
    actions = library_actions(source)
    seed_actions = load_sound(seeds or ("core",)).actions
    in_terminal = on_terminal() and sys.stdin.isatty() and not options.as_json
    review_file = _review_file(output) if review and not in_terminal else ""
    unread = SourceFindings(source, check_library(source, Selection(select=("PRL1", "PRL505"))))
    if unread.diagnostics and not options.as_json:
        click.echo(terminal.RENDERER.part(unread), err=True)
    model = None if accept or rounds == 0 else choose_model(options.model)
    if model and rounds is None:
        rounds = usual_rounds(model)
        model = model if rounds else None
    run = ""
    if accept:
        result = read_review(read_source(accept, "review"), actions, seed_actions)
    elif model and rounds:
        work = partial(condense_in_run, source, target, rounds, seeds=seed_actions)
        result, run = settle(work, model, options)
    else:
        result = condense(actions, target, seeds=seed_actions)
    if review and in_terminal:
        result = ask_about_merges(result, seed_actions)
    if output or not options.as_json:
        emit(print_library(result.actions), output)
    if review_file:
        write(review_file, print_review(result, source.name, output))
    missed = (
        sum(not is_kept(action) for action in result.actions) > target and not accept and not review
    )
    goal = None if accept else target
    if options.as_json:
        emit_json({**_condensed_object(result, unread, goal, model), "run": run, "output": output})
    else:
        _summarise(result, unread, goal, model)
        if review_file:
            _say(f"Write reject where a merge is wrong in {review_file}, then run its second line.")
        elif output not in ("", "-"):
            _say(f"Older plans:  pearl migrate OLD.plan --library {output}")
    raise click.exceptions.Exit(1 if unread.diagnostics or missed else 0)


def _review_file(output: str) -> str:
    """The name of the review file, beside the library's file.

    Raises:
        InputError: no file is named for the library, or the review file exists.
    """
    if output in ("", "-"):
        raise InputError("--review writes a file beside the library: name that with -o FILE.")
    name = f"{output}.review"
    if Path(name).exists():
        raise InputError(f"{name} is there already: take it with --accept {name}, or move it.")
    return name


def _lines(unread: SourceFindings) -> tuple[int, int]:
    """How many lines of a library are not blank, and how many of them cannot be read."""
    source = unread.source
    unreadable = {source.position(finding.span.start)[0] for finding in unread.diagnostics}
    return sum(bool(line.strip()) for line in source.text.split("\n")), len(unreadable)


def ask_about_merges(result: Condensed, seeds: Mapping[str, Action]) -> Condensed:
    """The library with the merges that the user accepts.

    Raises:
        Stopped: the user quit.
    """
    from pearl.mining.merges import call_of, merges, without

    places = merges(result)
    docs = {action.name: action.doc for action in result.actions}
    rejected: list[int] = []
    for count, at in enumerate(places, 1):
        merge = result.mapping[at]
        title = printable(f"{merge.old.signature} becomes {call_of(merge)}")
        click.echo(f"\n{click.style(title, bold=True)}  {count} of {len(places)}")
        click.echo(f"  {click.style('was', fg='red')}  {printable(merge.old.doc)}")
        click.echo(f"  {click.style('now', fg='green')}  {printable(docs[merge.new])}")
        key = ""
        while key not in ("y", "n", "a", "q"):
            try:
                answer = input("Accept? y yes, n no, a all that are left, q quit: ")
            except EOFError:
                answer = "q"
            key = answer.strip().lower()[:1] or "?"
        if key == "q":
            raise Stopped("Stopped: nothing is written.")
        if key == "a":
            break
        if key == "n":
            rejected.append(at)
    return without(result, rejected, frozenset(seeds))


def _summarise(
    result: Condensed, unread: SourceFindings, target: int | None, model: Model | None
) -> None:
    """Print on standard error what was read, how many actions are left, and notes."""
    from pearl.lint.render import terminal
    from pearl.mining.merges import merges

    lines, unreadable = _lines(unread)
    named = f", {unreadable:,} that cannot be read" if unreadable else ""
    _say(f"{counted(lines, 'line')} of {unread.source.name}: {lines - unreadable:,} read{named}.")
    if model:
        if model.notice:
            _say(model.notice)
        for round_ in result.rounds:
            calls = counted(round_.calls, "call")
            change = f"{counted(round_.before, 'action')} to {round_.after:,}"
            _say(f"Round {round_.number}: {change}, in {calls}.")
        shown = filter(None, map(terminal.RENDERER.part, result.reports))
        click.echo("\n".join(shown), nl=False, err=True)
    count = counted(len(merges(result)), "merge")
    bound = "" if target is None else f"; {target:,} wanted at most"
    before = counted(result.before, "action")
    _say(f"{before} condensed to {len(result.actions):,} ({count}{bound}).")
    for note in result.notes:
        _say(f"- {note.text}")


def _say(text: str) -> None:
    click.echo(printable(text), err=True)


def _condensed_object(
    result: Condensed, unread: SourceFindings, target: int | None, model: Model | None
) -> dict[str, Any]:
    """The result of condensing, as JSON data."""
    from pearl.lang.printer import print_arg, print_library
    from pearl.lint.render.machine_readable import as_object as finding_object

    lines, unreadable = _lines(unread)
    return {
        "lines": lines,
        "read": lines - unreadable,
        "unreadable": unreadable,
        "before": result.before,
        "left": len(result.actions),
        "target": target,
        "library": print_library(result.actions),
        "mapping": [
            {
                "old": merge.old.name,
                "parameters": [param.name for param in merge.old.params],
                "new": merge.new,
                "arguments": [print_arg(arg) for arg in merge.args],
            }
            for merge in result.mapping
        ],
        "notes": [asdict(note) for note in result.notes],
        "rounds": [
            {"round": each.number, "calls": each.calls, "before": each.before, "after": each.after}
            for each in result.rounds
        ],
        "findings": [
            finding_object(finding, report.source)
            for report in (unread, *result.reports)
            for finding in report.diagnostics
        ],
        "model": model.name if model else None,
        "notice": model.notice if model else "",
    }


@click.command(
    "refine", epilog="Example:  pearl refine questions.jsonl --documents docs/ -o plans/demos/"
)
@click.argument("questions")
@shared("documents")
@click.option("-o", "--output", required=True, metavar="DIR", help="The folder for the plans.")
@click.option(
    "--rounds", type=click.IntRange(0), default=3, show_default=True, metavar="N",
    help="How often a plan whose answer is wrong may be refined.",
)  # fmt: skip
@shared("scoring", "exclude", "library", "demos", "constrain", "context", "models", "job")
def refine_command(questions: str, output: str, rounds: int, options: Options) -> None:
    """Write a plan for each of QUESTIONS, execute it, and keep it if its answer is the gold one.

    A plan whose answer is wrong is refined by the model. QUESTIONS is as for pearl batch, or a
    file of QuALITY, with gold in every row. Plans as they were written first go to DIR/unrefined.
    """
    from pearl.jobs.answer_metrics import find_metric, with_grader
    from pearl.jobs.batch import make_setup
    from pearl.jobs.job import read_results
    from pearl.jobs.question_file import gold_problem, questions_in, read_index
    from pearl.mining.refine import first_file, refine_job, write_demonstrations

    folder = Path(output)
    read = (options.demos, options.documents or Path(questions).parent)
    check_output(first_file(folder, read), "")
    settings = job_settings(options)
    fit = fit_of(options)
    how = ("pearl", load(options.libraries), options.demos)
    setup, model = make_setup(settings.model, *how, fit=fit)
    left_out = questions_in(options.exclude) if options.exclude else frozenset()
    index = read_index(questions, options.documents, without=left_out, problem=gold_problem)
    warn(*index.notes)
    metric = find_metric(choose_metric(options))
    settings = replace(settings, model=with_grader(model, metric))
    job = refine_job(index, setup, rounds, left_out, metric)
    progress = do(job, settings, quiet=options.as_json)
    if setup.prepared.notice:
        click.echo(setup.prepared.notice, err=True)
    rows = list(read_results(settings.store, progress.run))
    written, left = write_demonstrations(rows, folder)
    refined = sum(bool(row.get("correct")) and len(row["tries"]) > 1 for row in rows)
    if options.as_json:
        files = {"plans": [*map(str, written)], "left": [*map(str, left)]}
        emit_json({**progress.as_object(), **files, "refined": refined, "rows": rows})
    else:
        report(progress, settings)
        others = len([*folder.glob("*.plan")]) - len(written)
        beside = f"; {others:,} more were there" if others else ""
        plans = counted(len(written), "plan")
        click.echo(f"{plans} in {output}, {refined:,} of them refined{beside}")
    for path in left:
        warn(f"{path} holds another plan than was made, and stays: take it out to have that.")
    complain(progress)
