"""``pearl migrate``"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pearl.cli.options import Options, load, shared
from pearl.cli.output import check_output, emit, emit_json
from pearl.lang.source import InputError, Source, read_source, write
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from pearl.cli.inputs import Input
    from pearl.lang.migrate import Migrated


@click.command(
    "migrate", epilog="Example:  pearl migrate old.plan --library small.actions -o new.plan"
)
@click.argument("paths", nargs=-1, required=True)
@shared("library", "output")
@click.option("--write", "in_place", is_flag=True, help="Write each plan back to its own file.")
@shared("json")
def migrate_command(paths: tuple[str, ...], in_place: bool, given: Options) -> None:
    """Rewrite PATHS: .plan files, folders of them, .jsonl files whose rows have a "plan", or -
    for standard input. A call of an action that the library replaces becomes a call of the
    action that replaces it; all else stays as it is."""
    from pearl.cli.inputs import Kind, read_inputs
    from pearl.lang.diagnostics import Severity
    from pearl.lang.migrate import migrate
    from pearl.lang.parser import parse
    from pearl.lint.checker import check
    from pearl.lint.render.json import as_object

    check_output(given.output)
    library = load(given.libraries)
    plans = [one for one in read_inputs(paths) if one.kind is Kind.PLAN]
    files = list(dict.fromkeys(map(_file, plans)))
    if not files:
        raise InputError(f"{paths[0]} holds no plan: name a .plan file.")
    if given.output and in_place:
        raise InputError("-o and --write exclude each other: give one of them.")
    if len(files) > 1 and not in_place and not given.as_json:
        raise InputError(f"{len(files)} files: add --write to write each of them back.")
    if len(files) > 1 and given.output:
        raise InputError(f"{len(files)} files do not go into one: add --write in place of -o.")
    done: list[_Rewritten] = []
    for plan in plans:
        migrated = migrate(plan.source, library)
        source = Source(plan.source.name, migrated.text)
        wrong = [one for one in check(parse(source), library) if one.severity is Severity.ERROR]
        done.append(_Rewritten(plan, migrated, [as_object(one, source) for one in wrong]))
    texts = {file: _text(file, [one for one in done if _file(one.plan) == file]) for file in files}
    if in_place:
        rewritten = {_file(one.plan) for one in done if one.migrated.changes}
        for file, text in texts.items():
            if file == "-":
                emit(text)
            elif file in rewritten:
                write(file, text)
    elif given.output or not given.as_json:
        emit(texts[files[0]], given.output)
    changed = sum(bool(one.migrated.changes) for one in done)
    clean = sum(not one.errors for one in done)
    if given.as_json:
        objects = [one.as_object() for one in done]
        emit_json({"plans": objects, "changed": changed, "clean": clean})
    else:
        for line in (line for one in done for line in one.lines()):
            click.echo(printable(line), err=True)
        steps = counted(sum(len(one.migrated.changes) for one in done), "step")
        count = counted(len(done), "plan")
        click.echo(f"{count}: {changed:,} changed, in {steps}; {clean:,} without errors.", err=True)
    problems = any(one.migrated.problems or one.errors for one in done)
    raise click.exceptions.Exit(1 if problems else 0)


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """A plan, what became of it, and the errors that are left, as JSON data."""

    plan: Input
    migrated: Migrated
    errors: Sequence[Mapping[str, Any]]

    def lines(self) -> Iterator[str]:
        """The same for a person."""
        name, changes = self.plan.source.name, self.migrated.changes
        if changes:
            told = ", ".join(
                f"{one.old} is {one.new}{' (arguments too)' if one.mapped else ''}"
                for one in dict.fromkeys(changes)
            )
            yield f"{name}: {counted(len(changes), 'step')} changed: {told}."
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
                {"step": one.step, "old": one.old, "new": one.new, "arguments": one.mapped}
                for one in self.migrated.changes
            ],
            "problems": list(self.migrated.problems),
            "findings": list(self.errors),
        }


def _file(given: Input) -> str:
    return given.source.name.rpartition(":")[0] if given.row else given.source.name


def _text(file: str, done: Sequence[_Rewritten]) -> str:
    """The file with its plans rewritten."""
    if not done[0].plan.row:
        return done[0].migrated.text

    lines = read_source(file, "plan").text.split("\n")
    for one in (one for one in done if one.migrated.changes):
        at = int(one.plan.source.name.rpartition(":")[2]) - 1
        lines[at] = with_plan(lines[at], one.migrated.text)
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
