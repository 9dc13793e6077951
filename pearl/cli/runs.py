"""``pearl runs``, ``pearl cache``, ``pearl trace`` and ``pearl replay``."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli import warn
from pearl.cli.inputs import (
    folder_of,
    load,
    names_run,
    open_existing,
    open_run,
    own_libraries,
    warn_of_library,
)
from pearl.cli.options import Options, shared
from pearl.cli.output import check_ending, check_output, deliver, emit, emit_json, tell
from pearl.lang.errors import InputError, LinesError
from pearl.lang.output_files import write
from pearl.lang.rows import check_utf_8
from pearl.lang.source import Source, read_source
from pearl.lang.text import counted, one_line, printable, shorten

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from pearl.runtime.calls import Entry
    from pearl.runtime.trace import Trace
    from pearl.store.history import RunRow
    from pearl.store.totals import Totals

_SHOWN = 40
"""The most characters of an answer where two runs are compared."""


class Runs(click.Group):
    """``pearl runs``, which tells users who name a run how to show it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and names_run(args[0]):
            raise click.UsageError(
                f"There is no command {args[0]}: pearl runs show {args[0]} shows the run.", ctx
            )
        return super().resolve_command(ctx, args)


@click.group("runs", cls=Runs, invoke_without_command=True, epilog="Example:  pearl runs show last")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Runs to list."
)
@click.option("--tag", default="", metavar="NAME", help="Only runs with this tag.")
@shared("store", "json")
@click.pass_context
def runs_command(ctx: click.Context, limit: int, tag: str, options: Options) -> None:
    """List the runs of a store, the last one first. pearl view has them as pages."""
    if ctx.invoked_subcommand is not None:
        return
    from pearl.store.history import RunFilter, count_rows, list_runs, read_tags
    from pearl.store.totals import totals
    from pearl.viewer.render import title_of

    with open_existing(options.store) as engine:
        listed = list_runs(engine, time.time(), limit + 1, RunFilter(tag=tag))
        more, listed = len(listed) > limit, listed[:limit]
        pairs = [(run, totals(engine, run.name)) for run in listed]
        names = [run.name for run in listed]
        tags, counts = read_tags(engine, names), count_rows(engine, names)
    data: list[dict[str, Any]] = []
    lines = [] if pairs else ["There are no runs yet: make one with pearl ask, run or batch."]
    if tag and not pairs:
        lines = [f"No run is called {printable(tag)}: pearl runs lists them all."]
    for run, total in pairs:
        size = counts.get(run.name)
        done, failed = (size.rows, size.rows - size.answered) if size else (0, int(run.failed))
        failures = f", {failed:,} failed" if failed and run.has_rows else ""
        called = "".join(f"[{tag}] " for tag in tags[run.name])
        about = shorten(f"{called}{title_of(run)}", 60 - len(failures))
        lines.append(
            f"{run.name}  {run.kind:6} {run.status:8} {counted(total.made, 'call'):>12}  "
            f"{printable(about)}{failures}"
        )
        facts = _as_object(run, total, done if run.has_rows else None)
        data.append({**facts, "failed": failed, "tags": tags[run.name]})
    lines += [f"There are more: --limit {10 * limit} lists so many."] if more else []
    tell(data, options.as_json, lines)


@runs_command.command("tag", epilog="Example:  pearl runs tag last baseline")
@click.argument("run")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--off", is_flag=True, help="Remove these tags.")
@shared("store", "json")
def tag_command(run: str, names: tuple[str, ...], off: bool, options: Options) -> None:
    """Call RUN by some names, to find it again by them. --tag of pearl batch and
    pearl eval does it from the beginning."""
    from pearl.store.history import read_tags, tag_run

    with open_run(run, options.store) as (engine, record):
        tag_run(engine, record.name, names, off=off)
        tags = read_tags(engine, [record.name])[record.name]
    line = f"{record.name}: {', '.join(map(printable, tags)) or 'no tags'}"
    tell({"run": record.name, "tags": tags}, options.as_json, [line])


@runs_command.command("show", epilog="Example:  pearl runs show last")
@click.argument("run")
@click.option(
    "--html", default="", metavar="FILE",
    help="Write a page for a browser: one file, no script, no network.",
)  # fmt: skip
@click.option(
    "--documents", default="", metavar="DIR",
    help="Where to look for the document of the page, beside where the run read it.",
)  # fmt: skip
@shared("store", "json")
def show(run: str, html: str, documents: str, options: Options) -> None:
    """Show RUN: its name, the start of it, last, or a tag that only it has; RUN/ID is one question
    of a job."""
    from pearl.models.tokens import load_prices
    from pearl.store.totals import totals
    from pearl.viewer.journal_tree import read_journal

    if html == "-":
        raise InputError("A page is written to a file: name one, as in --html run.html.")
    if documents and not html:
        raise InputError("--documents is for the page of a run: give --html FILE with it.")
    if documents and not Path(documents).is_dir():
        raise InputError(f"{documents} is no folder: name the one that the document is in.")
    check_output(html, "page")
    name, _, item = run.partition("/")
    with open_run(name, options.store, html) as (engine, record):
        many, prices = record.has_rows and not item, load_prices()
        if html:
            check_ending(html, ".html .htm", "a page")
            from pearl.viewer.job_page import job_page
            from pearl.viewer.run_page import run_page

            if many:
                page = job_page(engine, record, prices)
            else:
                page = run_page(engine, record, item, prices, documents)
            write(html, page)
            if not options.as_json:
                return
        total = totals(engine, record.name, item or None)
        rows = [row for id, row in _rows(engine, record).items() if item in ("", id)]
        entries = [] if many else read_journal(engine, record, item)
        if item and not entries:
            raise record.no_question(item)
    model = str(record.head.get("model", ""))
    if options.as_json:
        millionths = total.cost(prices, model)
        data = {
            "cost": None if millionths is None else millionths / 1e6,
            "rows": rows,
            "entries": [entry._asdict() | {"usage": asdict(entry.usage)} for entry in entries],
        }
        emit_json({**_as_object(record, total, len(rows) if many else None), **data})
        return
    cost = total.cost_in_words(prices, model)
    _print_run(record, item, [*_totals(total), ("cost", cost)], rows, entries)


def _print_run(
    record: RunRow,
    item: str,
    totals: list[tuple[str, str]],
    rows: list[dict[str, Any]],
    entries: list[Entry],
) -> None:
    """Print a run, or one question of a job: its facts, its totals, its result, and, for a single
    question, its journal."""
    from pearl.prompts.calls import letter

    many = record.has_rows and not item
    title = f"{record.name}/{printable(item)}" if item else record.name
    click.echo(click.style(f"{title}  {record.kind}  {record.status}", bold=True))
    # The journal of a job's question has its question and document.
    decided = {entry.path: entry.value for entry in entries if entry.kind == "decision"}
    request = decided.pop("run", None)
    facts = dict(request if item and isinstance(request, dict) else record.facts)
    if "options" in facts:
        options_given = (f"{letter(at)}. {text}" for at, text in enumerate(facts["options"]))
        facts["options"] = "; ".join(options_given)
    lines = [pair for pair in facts.items() if pair[1] != ""]
    lines += totals
    if many:
        lines.append(("answers" if record.kind == "eval" else "questions", _summary(record, rows)))
    else:
        lines += _result(rows[0] if rows else {}, decided)
    width = max(10, *(len(key) for key, _ in lines))
    for key, value in lines:
        click.echo(f"{key:{width}} {printable(str(value))}")
    if many:
        failed = [row for row in rows if row["status"] == "failed"]
        for row in failed[:20]:
            click.echo(f"  {printable(row['id'])}: {printable(row['error']['message'])}")
        if len(failed) > 20:
            click.echo(f"  and {len(failed) - 20} more: --json has them all")
    for entry in entries:
        if entry.path in ("run", "notice", "notice/endpoint", "marks", "failed"):
            continue
        mark = ("cached" if entry.kept else "") if entry.status == "done" else entry.status
        value = entry.cause or one_line(_in_words(entry.value))
        head = f"{entry.kind:8} {entry.path:24} {mark:7} {entry.seconds:7.2f} s"
        click.echo(f"{head}  {printable(shorten(value, 80))}")


def _result(row: dict[str, Any], decided: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The result of a question with remarks on it, which are not shortened as the journal is."""
    from pearl.viewer.job_page import JobRow

    if not row and "marks" in decided:
        row = {"status": "answered", **decided["marks"]}
        if {"option", "option/none"} & decided.keys():
            row["option"] = {"letter": decided.get("option"), "text": decided.get("option/text")}
    item = JobRow(row)
    gold = f", the right answer is {item.gold}" if item.gold and item.verdict != "right" else ""
    every = {
        "answer": shorten(item.answer, 300),
        "verdict": f"{item.scored}{gold}" if item.verdict else "",
        "remarks": item.remarks,
        "notice": " ".join(
            decided[path] for path in ("notice/endpoint", "notice") if path in decided
        ),
        "failed": decided.get("failed") or (row.get("error") or {}).get("message", ""),
    }
    yield from ((key, text) for key, text in every.items() if text)


@runs_command.command("diff", epilog="Example:  pearl runs diff 20261121-101500-ab12cd last")
@click.argument("first")
@click.argument("second")
@shared("store", "json")
def diff(first: str, second: str, options: Options) -> None:
    """Show where the batches, or evaluations, FIRST and SECOND answered differently. Of evaluations
    each method that both have is compared, by its answers and by the tokens they took."""
    from pearl.evaluate.statistics import MCNEMAR
    from pearl.report.document import percent
    from pearl.store.history import find_run
    from pearl.store.totals import totals
    from pearl.viewer.job_page import COMPARED, compare, outcome

    with open_existing(options.store) as engine:
        place = options.store or "the store"
        runs = [find_run(engine, name, place, time.time()) for name in (first, second)]
        for run in runs:
            if run.kind not in ("batch", "eval"):
                beside = ", and pearl view shows two side by side" if run.kind in COMPARED else ""
                raise InputError(
                    f"{run.name} is no batch and no evaluation: pearl runs show {run.name} shows "
                    f"it{beside}."
                )
        if runs[0].kind != runs[1].kind:
            raise InputError(f"{runs[0].name} and {runs[1].name}: compare runs of one kind.")
        sides = [_rows(engine, run) for run in runs]
        sums = [totals(engine, run.name) for run in runs]
    compared = compare(*sides)
    different = [pair for pair in compared.pairs if pair.differs]
    if options.as_json:
        emit_json(
            {
                "runs": [
                    _as_object(run, total, len(side))
                    for run, total, side in zip(runs, sums, sides, strict=True)
                ],
                "same": len(compared.pairs) - len(different),
                **({"methods": compared.methods} if compared.methods else {}),
                "only": list(map(sorted, compared.only)),
                "different": [
                    {"id": pair.id, "first": outcome(pair.first), "second": outcome(pair.second)}
                    for pair in different
                ],
            }
        )
        return
    for run, side, total in zip(runs, sides, sums, strict=True):
        click.echo(click.style(run.name, bold=True) + f"  {_summary(run, list(side.values()))}")
        for key, value in _totals(total):
            click.echo(f"  {key:8} {value}")
    one, other = (run.facts for run in runs)
    for key in dict.fromkeys((*one, *other)):
        if one.get(key) != other.get(key):
            sides_of = (printable(str(facts.get(key, "none"))) for facts in (one, other))
            click.echo(f"{key}: {' → '.join(sides_of)}")
    noun = "answer" if compared.methods else "question"
    both = counted(len(compared.pairs), noun)
    alone = [len(names) for names in compared.only]
    rest = (
        f"; {alone[0]:,} only in the first, {alone[1]:,} only in the second" if any(alone) else ""
    )
    click.echo(f"\n{both} in both, {len(different)} answered differently{rest}")
    for method, counts in compared.methods.items():
        right, full, by = counts["right"], "", ""
        tokens = ("not reported" if mean is None else f"{mean:,.0f}" for mean in counts["tokens"])
        if counts["test"] != MCNEMAR:
            full = f"mean score {' → '.join(map(percent, counts['score']))}, fully "
            by = f" by a {counts['test']}"
        click.echo(
            f"{printable(method):20} {full}right {right[0]:,} → {right[1]:,} of "
            f"{counts['questions']:,} (only the first {counts['only'][0]:,}, only the second "
            f"{counts['only'][1]:,}, p {counts['p']:.3f}{by}), tokens an answer "
            f"{' → '.join(tokens)}"
        )
    for pair in different:
        ends = [outcome(row) for row in (pair.first, pair.second)]
        texts = [one_line(end["words"] or "") for end in ends]
        # Equal answers, of another score, are shown from their beginning.
        letters = zip(*(texts if texts[0] != texts[1] else ()), strict=False)
        same = sum(1 for _ in takewhile(lambda each: each[0] == each[1], letters))
        outcomes = (_in_short(end, same) for end in ends)
        click.echo(f"{printable(pair.id):20} {' → '.join(outcomes)}")


def _in_words(value: Any) -> str:  # noqa: ANN401 - a journal holds any JSON
    """An entry's value for a person."""
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_in_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_in_words, value))
    return "" if value is None else str(value)


def _in_short(outcome: dict[str, Any], same: int) -> str:
    """The outcome of a question, in a few words: an answer from its beginning, or from about where
    it differs from another, which begins with the ``same`` number of characters."""
    from pearl.viewer.job_page import scored

    if outcome["status"] == "failed":
        return f"failed ({outcome['reason']})"
    words = one_line(outcome["words"] or "")
    if same >= _SHOWN:
        words = f"…{words[max(words.rfind(' ', 0, same) + 1, same - _SHOWN // 2) :]}"
    words = words[:_SHOWN] or "(quotes only)"
    answer = words if outcome["option"] is None else outcome["option"] or "none"
    return printable(f"{answer} {scored(outcome['score'])}".rstrip())


def _rows(engine: Engine, run: RunRow) -> dict[str, dict[str, Any]]:
    """A job's rows by id; empty for a run that is no job."""
    from pearl.store.history import read_rows

    return dict(read_rows(engine, run.name)) if run.has_rows else {}


def _summary(run: RunRow, rows: list[dict[str, Any]]) -> str:
    """The result of a job, in one line."""
    from pearl.report.document import percent
    from pearl.store.history import RowCounts
    from pearl.viewer.job_page import count_remarks

    counts = RowCounts.of(rows)
    mean = f"{percent(counts.mean)} " if counts.in_parts else ""
    right = f", {mean}{counts.verdict}" if counts.judged else ""
    more = "".join(f"; {part}" for part in (count_remarks(rows), run.unfinished(len(rows))) if part)
    return f"{counts.answered} of {counts.rows} answered{right}{more}"


def _totals(total: Totals) -> list[tuple[str, str]]:
    calls = f"{total.made:,} made, {total.kept:,} cached, {total.failed:,} failed"
    every = [("calls", calls), ("tokens", total.spent.in_words(total.made))]
    for model, share in total.models.items():
        if model:
            every += [(f"{name} of {printable(model)}", text) for name, text in _totals(share)]
    return every


def _as_object(run: RunRow, total: Totals, done: int | None) -> dict[str, Any]:
    """A run as JSON data; for a job also how many rows are ``done``, ``of`` how many."""
    return {
        "run": run.name,
        "kind": run.kind,
        "state": run.status,
        "started": run.started,
        "ended": run.ended,
        **({} if done is None else {"done": done, "of": run.tasks}),
        "head": run.head,
        "calls": {"made": total.made, "kept": total.kept, "in_vain": total.failed},
        "usage": asdict(total.spent),
        "models": {
            name: {"made": share.made, "kept": share.kept, "usage": asdict(share.spent)}
            for name, share in total.models.items()
            if name
        },
        "seconds": total.seconds,
    }


@click.group("cache", epilog="Example:  pearl cache stats")
def cache_command() -> None:
    """The replies that a store keeps. --json is an option of each command below."""


@cache_command.command("stats", epilog="Example:  pearl cache stats")
@shared("store", "json")
def stats(options: Options) -> None:
    """Count what the store holds."""
    from pearl.store import cache

    with open_existing(options.store) as engine:
        counts = cache.stats(engine)
    lines = []
    for model in counts.models:
        replies = f"{model.replies:,} repl{'y' if model.replies == 1 else 'ies'}"
        tokens = f"{model.prompt_tokens:,} tokens read, {model.completion_tokens:,} written"
        if not (model.prompt_tokens or model.completion_tokens):
            tokens = "tokens not reported"
        lines.append(f"{printable(model.model)}: {replies}, {tokens}")
    lines.append(f"{counted(counts.runs, 'run')}, {counts.entries:,} journal entries")
    lines.append(f"{counted(counts.saved, 'call')} answered from the cache")
    tell(asdict(counts), options.as_json, [*lines, f"{counts.size / 1e6:,.1f} MB"])


@cache_command.command("prune", epilog="Example:  pearl cache prune --older-than 30d")
@click.option(
    "--older-than", "age", required=True, metavar="AGE",
    help="As 12h, 30d or 8w: runs last at work before that go, with every reply only they used. "
    "0d lets go of all that are not at work.",
)  # fmt: skip
@shared("store", "json")
def prune(age: str, options: Options) -> None:
    """Let go of old runs and their replies."""
    from pearl.store import cache

    # Not m, which is a minute to some and a month to others.
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([hdw])\s*", age, re.IGNORECASE)
    if not parts:
        raise InputError(
            f"{age} is no age: write hours, days or weeks, as 12h, 30d (a month) or 8w."
        )
    units = {"h": 3600, "d": 86400, "w": 604800}
    seconds = float(parts[1]) * units[parts[2].lower()]
    with open_existing(options.store) as engine:
        gone, replies = cache.prune(engine, time.time() - seconds)
    line = f"Let go of {counted(gone, 'run')} and {replies:,} replies."
    tell({"runs": gone, "replies": replies}, options.as_json, [line])


@cache_command.command("export", epilog="Example:  pearl cache export last -o replies.jsonl")
@click.argument("run", default="")
@shared("output", "store", "json")
def export(run: str, options: Options) -> None:
    """Write the replies as JSON lines (with or without --json): all, or those of RUN.

    --model recorded:FILE answers from them.
    """
    from pearl.jobs.workers import line_of
    from pearl.store import cache

    check_output(options.output, "recording")
    name = ""
    if run:
        with open_run(run, options.store, options.output) as (_, record):
            name = record.name
    with open_existing(options.store) as engine:
        text = "".join(map(line_of, cache.export(engine, name)))
    if not text:
        raise InputError("There are no replies to export.")
    emit(text, options.output)


@click.command("trace", epilog="Example:  pearl trace last -o mara.trace.plan")
@click.argument("run")
@shared("output", "store", "json")
def trace_command(run: str, options: Options) -> None:
    """Print RUN (its name, the start of it, or last) as a plan with every step's value.

    A question of a batch is RUN/ID.

    The text is a plan: pearl lint checks it, pearl replay runs it again on its values.
    """
    from pearl.lang.printer import print_plan
    from pearl.lang.values import to_json
    from pearl.runtime.trace import read_trace

    if not run.strip():
        raise InputError("Name a run: its name, the start of it, or last.")
    check_output(options.output, "plan")
    name, text = _trace(run, options.store, options.output)

    def data() -> dict[str, Any]:
        trace = read_trace(Source(name, text))
        values = {path.removeprefix("step/"): value for path, value in trace.replies.items()}
        return {
            "run": name,
            "plan": print_plan(trace.plan),
            "values": values,
            "evidence": {name: to_json(quotes) for name, quotes in trace.evidence.items()},
            "answer": trace.answer,
            "failed": trace.failed or None,
        }

    deliver(options, lambda: text, data)


def _trace(run: str, store: str, output: str = "") -> tuple[str, str]:
    """The full name of a run, or of one question of it (``RUN/ID``), and its trace.

    Raises:
        InputError: there is no such run or question, it has many questions and none is named, or
            the output is a file that the run has read.
    """
    from pearl.runtime.trace import export_trace, last_try
    from pearl.store.history import read_rows
    from pearl.viewer.journal_tree import read_journal

    run, _, item = run.partition("/")
    with open_run(run, store, output) as (engine, record):
        entries = last_try(read_journal(engine, record, item))
        name = f"{record.name}/{item}" if item else record.name
        if not entries and item:
            raise record.no_question(item)
        if not entries and record.has_rows:
            first = next((name for name, _ in read_rows(engine, record.name)), "ID")
            raise InputError(
                f"The run {record.name} has many parts: name one of them, as {record.name}/"
                f"{first}; pearl runs show {record.name} --json has all."
            )
        return name, export_trace(entries, name)


@click.command("replay", epilog="Example:  pearl replay recorded.jsonl --library paper.txt --json")
@click.argument("recorded")
@shared("library", "store", "json")
def replay_command(recorded: str, options: Options) -> None:
    """Replay RECORDED: JSON lines with "plan", and with "step_outputs" and "open_answer" where
    there are any; a trace; or a run of the store (RUN, RUN/ID or last). Exits 1 if an answer
    differs, or a row cannot be read: it is named, and the others are run."""
    from pearl.runtime.trace import is_trace, read_records, replay

    if ran := names_run(recorded):
        source = Source(*_trace(recorded, options.store))
    else:
        source = read_source(recorded, "recording", rows=True)
        if is_trace(source):
            check_utf_8(source.text, source.name)
            warn_of_library(source, options.libraries)
    library = load(own_libraries(source, options.libraries, ran=ran), folder_of(source))
    records: list[Trace] = []
    unreadable: tuple[str, ...] = ()
    try:
        for record in read_records(source):
            records.append(record)  # noqa: PERF402 - those before an error count
    except LinesError as error:
        if not records:
            # The file is no recording at all: it may be a plan.
            raise InputError(error.lines[0]) from None
        unreadable = error.lines
    started = time.monotonic()
    result = replay(records, library)
    seconds = round(time.monotonic() - started, 3)
    run = f"{result.executed} run on recorded outputs: {result.exact} with exactly the recorded "
    lines = (
        f"{counted(result.plans, 'plan')}: {result.syntax_errors} with syntax errors, "
        f"{result.check_errors} with errors.",
        f"{run}answer."
        if any(record.replies for record in records)
        else "None was run: no row has step_outputs.",
        *(f"differs: {printable(name)}" for name in result.differ),
        *(f"failed: {printable(name)}: {printable(why)}" for name, why in result.failed.items()),
    )
    data = asdict(result) | {"findings": dict(sorted(result.findings.items()))}
    tell({**data, "seconds": seconds, "unreadable": unreadable}, options.as_json, lines)
    warn(*unreadable)
    raise click.exceptions.Exit(1 if unreadable or result.exact < result.executed else 0)
