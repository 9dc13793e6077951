"""``pearl migrate``"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pearl.cli.options import Options, load, shared
from pearl.cli.output import check_kind, check_output, emit, emit_json, has_plan
from pearl.lang.source import InputError, Source, TextKind, read_source, write
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from pearl.cli.inputs import Input
    from pearl.lang.migrate import Migration


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
    from pearl.cli.inputs import read_inputs
    from pearl.lang.diagnostics import Severity
    from pearl.lang.migrate import migrate
    from pearl.lang.parser import parse
    from pearl.lint.checker import check
    from pearl.lint.render.json import as_object

    check_output(options.output)
    check_kind(options.output, "plan", has_plan)
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
