"""``pearl migrate``"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pearl.cli.options import load, shared
from pearl.cli.output import check_output, emit, emit_json, write
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from pearl.cli.inputs import Input
    from pearl.lang.migrate import Migrated


@click.command(
    "migrate", short_help="Rewrite plans for a library that replaces their actions.",
    epilog="Example:  pearl migrate old.plan --library small.actions -o new.plan",
)  # fmt: skip
@click.argument("paths", nargs=-1, required=True)
@shared("library", "output")
@click.option("--write", "in_place", is_flag=True, help="Write each plan back to its own file.")
@shared("json")
def migrate_command(
    paths: tuple[str, ...], libraries: tuple[str, ...], output: str, in_place: bool, as_json: bool
) -> None:
    """Rewrite PATHS: .plan files, folders of them, .jsonl files whose rows have a "plan", or -
    for standard input. A call of an action that the library replaces becomes a call of the
    action that replaces it; all else stays as it is."""
    from pearl.cli.inputs import Kind, read_inputs
    from pearl.lang.diagnostics import Severity
    from pearl.lang.migrate import migrate
    from pearl.lang.parser import parse
    from pearl.lang.source import InputError, Source
    from pearl.lint.checker import check
    from pearl.lint.render.json import as_object

    check_output(output)
    library = load(libraries)
    given_inputs, unreadable = read_inputs(paths)
    if unreadable:
        raise unreadable[0]
    inputs = [given for given in given_inputs if given.kind is Kind.PLAN]
    files = list(dict.fromkeys(_file(given) for given in inputs))
    if not files:
        raise InputError(f"{paths[0]} holds no plan: name a .plan file.")
    if output and in_place:
        raise InputError("-o and --write exclude each other: give one of them.")
    if len(files) > 1 and not in_place and not as_json:
        raise InputError(f"{len(files)} files: add --write to write each of them back.")
    if len(files) > 1 and output:
        raise InputError(f"{len(files)} files do not go into one: add --write in place of -o.")
    done = [(given, migrate(given.source, library)) for given in inputs]
    texts = {file: _text(file, [one for one in done if _file(one[0]) == file]) for file in files}
    if in_place:
        rewritten = {_file(given) for given, migrated in done if migrated.changes}
        for file, text in texts.items():
            if file == "-":
                emit(text)
            elif file in rewritten:
                write(file, text)
    elif output or not as_json:
        emit(texts[files[0]], output)
    errors: dict[str, list[dict[str, Any]]] = {}
    for given, migrated in done:
        source = Source(given.source.name, migrated.text)
        wrong = [one for one in check(parse(source), library) if one.severity is Severity.ERROR]
        errors[source.name] = [as_object(one, source) for one in wrong]
    changed = sum(bool(migrated.changes) for _, migrated in done)
    clean = sum(not left for left in errors.values())
    if as_json:
        emit_json({"plans": _as_objects(done, errors), "changed": changed, "clean": clean})
    else:
        _tell(done, errors)
        steps = counted(sum(len(migrated.changes) for _, migrated in done), "step")
        plans = counted(len(done), "plan")
        click.echo(f"{plans}: {changed:,} changed, in {steps}; {clean:,} without errors.", err=True)
    problems = any(migrated.problems for _, migrated in done)
    raise click.exceptions.Exit(1 if problems or any(errors.values()) else 0)


def _file(given: Input) -> str:
    return given.source.name.rpartition(":")[0] if given.row else given.source.name


def _text(file: str, done: Sequence[tuple[Input, Migrated]]) -> str:
    """The file with its plans rewritten."""
    if not done[0][0].row:
        return done[0][1].text
    from pearl.lang.source import read_source

    rows = {int(given.source.name.rpartition(":")[2]): migrated for given, migrated in done}
    lines = read_source(file, "plan").text.split("\n")
    for number, migrated in rows.items():
        if migrated.changes:
            lines[number - 1] = with_plan(lines[number - 1], migrated.text)
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


def _tell(
    done: Sequence[tuple[Input, Migrated]], left: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    for given, migrated in done:
        name = given.source.name
        if migrated.changes:
            told = ", ".join(
                f"{one.old} is {one.new}{' (arguments too)' if one.mapped else ''}"
                for one in dict.fromkeys(migrated.changes)
            )
            steps = counted(len(migrated.changes), "step")
            click.echo(printable(f"{name}: {steps} changed: {told}."), err=True)
        for problem in migrated.problems:
            click.echo(printable(f"{name}: {problem}"), err=True)
        if left[name]:
            errors = counted(len(left[name]), "error")
            click.echo(printable(f"{name}: {errors} left: pearl lint says which."), err=True)


def _as_objects(
    done: Sequence[tuple[Input, Migrated]], left: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    return [
        {
            "plan": given.source.name,
            "text": migrated.text,
            "changes": [
                {"step": one.step, "old": one.old, "new": one.new, "arguments": one.mapped}
                for one in migrated.changes
            ],
            "problems": list(migrated.problems),
            "findings": list(left[given.source.name]),
        }
        for given, migrated in done
    ]
