"""``pearl condense``, which makes a library smaller, and ``pearl migrate`` for its older plans."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli import Stopped
from pearl.cli.inputs import Input, load, load_sound, read_inputs
from pearl.cli.options import Options, shared
from pearl.cli.output import check_kind, check_output, emit, emit_json, on_terminal, settle
from pearl.lang.errors import InputError
from pearl.lang.source import Source, TextKind, read_source, write
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from pearl.lang.ast import Action
    from pearl.lang.diagnostics import Report
    from pearl.lang.migrate import Migration
    from pearl.mining.condense import Condensed
    from pearl.models.base import Model


@click.command(
    "condense", epilog="Example:  pearl condense mined.actions -o small.actions --target 80"
)
@click.argument("file")
@click.option("-o", "--output", default="", metavar="FILE", help="Where the small library goes.")
@click.option(
    "--target", type=click.IntRange(1), default=80, show_default=True, metavar="N",
    help="How many actions are wanted, at most. Builtins do not count.",
)  # fmt: skip
@click.option(
    "--rounds", type=click.IntRange(0), metavar="N",
    help="How often a model sees what is left, at most; 0 condenses without a model. Default: 4, "
    "and 0 offline.",
)  # fmt: skip
@click.option(
    "--review", is_flag=True,
    help="Ask about each merge; where there is no terminal, write FILE.review to be edited.",
)  # fmt: skip
@click.option("--accept", default="", metavar="FILE", help="Take the merges of a reviewed file.")
@click.option(
    "--seed-actions", "seeds", multiple=True, metavar="FILE",
    help="Actions that plans will have beside these: their names stay theirs. Default: core.",
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
    """Put like actions of FILE (a .actions file, or the paper's NAME(ARGS) # definition text)
    together, until TARGET are left. Each says what it replaces, so that pearl migrate can
    rewrite plans that use the older names."""
    from pearl.lang.diagnostics import Report
    from pearl.lang.library import library_actions, library_source
    from pearl.lang.printer import print_library
    from pearl.lint.checker import Selection, check_library
    from pearl.lint.render import terminal
    from pearl.mining.condense import condense
    from pearl.mining.merges import print_review, read_review
    from pearl.mining.rounds import condense_in_run, usual_rounds
    from pearl.models.routing import choose_model

    check_output(output)
    check_kind(output, "library")
    source = library_source(file)
    actions = library_actions(source)
    seed_actions = load_sound(seeds or ("core",)).actions
    in_terminal = on_terminal() and sys.stdin.isatty() and not options.as_json
    review_file = _review_file(output) if review and not in_terminal else ""
    unread = Report(source, check_library(source, Selection(select=("PRL1", "PRL505"))))
    if unread.diagnostics and not options.as_json:
        click.echo(terminal.render([unread]), err=True)
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
    missed = len(result.actions) > target and not accept and not review
    goal = None if accept else target
    if options.as_json:
        emit_json({**as_object(result, unread, goal, model), "run": run, "output": output})
    else:
        _summarise(result, unread, goal, model)
        if review_file:
            _say(f"Write reject where a merge is wrong in {review_file}, then run its second line.")
        elif output not in ("", "-"):
            _say(f"Older plans:  pearl migrate OLD.plan --library {output}")
    raise click.exceptions.Exit(1 if unread.diagnostics or missed else 0)


def _review_file(output: str) -> str:
    """The file of merges to be judged, beside the library's.

    Raises:
        InputError: no file is named for the library, or that one is there.
    """
    if output in ("", "-"):
        raise InputError("--review writes a file beside the library: name that with -o FILE.")
    name = f"{output}.review"
    if Path(name).exists():
        raise InputError(f"{name} is there already: take it with --accept {name}, or move it.")
    return name


def _lines(unread: Report) -> tuple[int, int]:
    """How many lines of a library say something, and how many of those cannot be read."""
    source = unread.source
    unreadable = {source.position(finding.span.start)[0] for finding in unread.diagnostics}
    return sum(bool(line.strip()) for line in source.text.split("\n")), len(unreadable)


def ask_about_merges(result: Condensed, seeds: Mapping[str, Action]) -> Condensed:
    """The library with the merges that the person accepts.

    Raises:
        Stopped: they quit.
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


def _summarise(result: Condensed, unread: Report, target: int | None, model: Model | None) -> None:
    """Print on standard error what was read, what is left, and what to know of it."""
    from pearl.lint.render import terminal
    from pearl.mining.merges import merges

    lines, unreadable = _lines(unread)
    named = f", {unreadable:,} that cannot be read" if unreadable else ""
    _say(f"{lines:,} lines of {unread.source.name}: {lines - unreadable:,} read{named}.")
    if model:
        if model.notice:
            _say(model.notice)
        for round_ in result.rounds:
            calls = counted(round_.calls, "call")
            change = f"{round_.before:,} actions to {round_.after:,}"
            _say(f"Round {round_.number}: {change}, in {calls}.")
        click.echo(terminal.render(result.reports), nl=False, err=True)
    count = counted(len(merges(result)), "merge")
    bound = "" if target is None else f"; {target:,} wanted at most"
    _say(f"{result.before:,} actions condensed to {len(result.actions):,} ({count}{bound}).")
    for note in result.notes:
        _say(f"- {note.text}")


def _say(text: str) -> None:
    click.echo(printable(text), err=True)


def as_object(
    result: Condensed, unread: Report, target: int | None, model: Model | None
) -> dict[str, Any]:
    """The same for a program, as JSON data."""
    from pearl.lang.printer import print_arg, print_library
    from pearl.lint.render.programs import as_object as finding_object

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
    "migrate", epilog="Example:  pearl migrate old.plan --library small.actions -o new.plan"
)
@click.argument("paths", nargs=-1, required=True)
@shared("library", "output")
@click.option("--write", "in_place", is_flag=True, help="Write each plan back to its own file.")
@shared("json")
def migrate_command(paths: tuple[str, ...], in_place: bool, options: Options) -> None:
    """Rewrite PATHS: .plan files, folders of them, .jsonl files whose rows have a "plan", or -
    for standard input. A call of an action that the library replaces becomes a call of the
    action that replaces it; all else stays as it is."""
    from pearl.lang.diagnostics import Severity
    from pearl.lang.migrate import migrate
    from pearl.lang.parser import parse
    from pearl.lint.checker import check
    from pearl.lint.render.programs import as_object

    check_output(options.output)
    check_kind(options.output, "plan")
    library = load(options.libraries)
    plans = [item for item in read_inputs(paths) if item.kind is TextKind.PLAN]
    files = list(dict.fromkeys(map(_file, plans)))
    if not files:
        raise InputError(f"{paths[0]} holds no plan: name a .plan file.")
    if options.output and in_place:
        raise InputError("-o and --write exclude each other: give one of them.")
    if len(files) > 1 and not in_place and not options.as_json:
        raise InputError(f"{len(files)} files: add --write to write each of them back.")
    if len(files) > 1 and options.output:
        raise InputError(f"{len(files)} files do not go into one: add --write in place of -o.")
    done: list[_PlanMigration] = []
    for plan in plans:
        migrated = migrate(plan.source, library)
        source = Source(plan.source.name, migrated.text)
        findings = check(parse(source), library)
        errors = [as_object(each, source) for each in findings if each.severity is Severity.ERROR]
        done.append(_PlanMigration(plan, migrated, errors))
    texts = {file: _text(file, done) for file in files}
    if in_place:
        rewritten = {_file(result.plan) for result in done if result.migrated.changes}
        for file, text in texts.items():
            if file == "-":
                emit(text)
            elif file in rewritten:
                write(file, text)
    elif options.output or not options.as_json:
        emit(texts[files[0]], options.output)
    changed = sum(bool(result.migrated.changes) for result in done)
    clean = sum(not result.errors for result in done)
    if options.as_json:
        objects = [result.as_object() for result in done]
        emit_json({"plans": objects, "changed": changed, "clean": clean})
    else:
        for line in (line for result in done for line in result.lines()):
            click.echo(printable(line), err=True)
        steps = counted(sum(len(result.migrated.changes) for result in done), "step")
        count = counted(len(done), "plan")
        click.echo(f"{count}: {changed:,} changed, in {steps}; {clean:,} without errors.", err=True)
    problems = any(result.migrated.problems or result.errors for result in done)
    raise click.exceptions.Exit(1 if problems else 0)


@dataclass(frozen=True, slots=True)
class _PlanMigration:
    """A plan, what became of it, and the errors that are left, as JSON data."""

    plan: Input
    migrated: Migration
    errors: Sequence[Mapping[str, Any]]

    def lines(self) -> Iterator[str]:
        """The same for a person."""
        name, changes = self.plan.source.name, self.migrated.changes
        if changes:
            renamed = ", ".join(
                f"{edit.old} is {edit.new}{' (arguments too)' if edit.mapped else ''}"
                for edit in dict.fromkeys(changes)
            )
            yield f"{name}: {counted(len(changes), 'step')} changed: {renamed}."
        for problem in self.migrated.problems:
            yield f"{name}: {problem}"
        if self.errors:
            errors = counted(len(self.errors), "error")
            yield f"{name}: {errors} left: pearl lint says which."

    def as_object(self) -> dict[str, Any]:
        """The same as JSON data."""
        return {
            "plan": self.plan.source.name,
            "text": self.migrated.text,
            "changes": [
                {"step": edit.step, "old": edit.old, "new": edit.new, "arguments": edit.mapped}
                for edit in self.migrated.changes
            ],
            "problems": list(self.migrated.problems),
            "findings": list(self.errors),
        }


def _file(item: Input) -> str:
    return item.source.name.rpartition(":")[0] if item.row else item.source.name


def _text(file: str, done: Sequence[_PlanMigration]) -> str:
    """The file with those of the plans rewritten that it holds."""
    results = [result for result in done if _file(result.plan) == file]
    if not results[0].plan.row:
        return results[0].migrated.text
    lines = read_source(file, "plan").text.split("\n")
    for result in (result for result in results if result.migrated.changes):
        at = int(result.plan.source.name.rpartition(":")[2]) - 1
        lines[at] = with_plan(lines[at], result.migrated.text)
    return "\n".join(lines)


def with_plan(row: str, plan: str) -> str:
    """A row of JSON with another plan; every other character stays.

    Args:
        row: an object with a ``plan``.
        plan: the new one.
    """
    decoder = json.JSONDecoder()
    at = row.index("{") + 1
    start = end = -1
    while row[at := _skip(row, at)] != "}":
        key, at = decoder.raw_decode(row, at)
        at = _skip(row, at)
        _, after = decoder.raw_decode(row, at)
        if key == "plan":
            start, end = at, after
        at = after
    return row[:start] + json.dumps(plan, ensure_ascii=row.isascii()) + row[end:]


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n,:":
        at += 1
    return at
