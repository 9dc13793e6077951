"""``pearl fmt``"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pearl.cli.options import emit, emit_json, json_option, on_terminal, write

if TYPE_CHECKING:
    from pearl.cli.inputs import Input
    from pearl.lang.source import Source


@click.command(
    "fmt", short_help="Write plans in canonical form.",
    epilog="Example:  pearl fmt my.plan --diff",
)  # fmt: skip
@click.argument("paths", nargs=-1, required=True)
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 if a file would.")
@click.option("--diff", "only_diff", is_flag=True, help="Change nothing; print what would change.")
@json_option
def command(paths: tuple[str, ...], only_check: bool, only_diff: bool, as_json: bool) -> None:
    """Rewrite PATHS (.plan and .actions files, or folders of them) in canonical form; with -,
    read standard input and print. Text that is no part of a plan becomes comments. A file with
    a line that cannot be read stays as it is."""
    from pearl.cli.inputs import read_inputs
    from pearl.lang.source import InputError
    from pearl.lang.text import printable

    changed: list[str] = []
    unreadable: list[str] = []
    diffs: list[str] = []
    printed: str | None = None
    dry = only_check or only_diff
    for given in read_inputs(paths):
        source = given.source
        try:
            formatted = _formatted(given)
        except InputError as error:
            unreadable.append(str(error))
            continue
        if formatted != source.text:
            changed.append(source.name)
            diffs.append(_diff(source, formatted))
        if dry:
            continue
        if source.name == "-":
            printed = formatted
        elif formatted != source.text:
            write(source.name, formatted)
    if as_json:
        emit_json(
            {
                "changed": changed,
                "unreadable": unreadable,
                "diff": "".join(diffs) if only_diff else None,
                "text": printed,
            }
        )
    elif only_diff:
        _show_diff("".join(diffs))
    elif only_check:
        for name in changed:
            click.echo(f"would change {printable(name)}")
    elif printed is not None:
        emit(printed)
    for message in unreadable:
        click.echo(f"pearl: {printable(message)}", err=True)
    raise click.exceptions.Exit(1 if unreadable or (changed and dry) else 0)


def _formatted(given: Input) -> str:
    from pearl.cli.inputs import Kind
    from pearl.lang.printer import format_library, format_plan
    from pearl.lang.source import InputError

    if given.row:
        raise InputError(f"{given.source.name}: rows of a .jsonl file are not formatted.")
    return format_library(given.source) if given.kind is Kind.LIBRARY else format_plan(given.source)


def _diff(source: Source, formatted: str) -> str:
    from difflib import unified_diff

    before, after = source.text.splitlines(), formatted.splitlines()
    lines = unified_diff(before, after, source.name, source.name, lineterm="")
    return "".join(f"{line}\n" for line in lines)


def _show_diff(text: str) -> None:
    """With colours on a terminal; elsewhere to the letter, as for ``patch``."""
    from pearl.lang.text import printable

    if not on_terminal():
        if text:
            emit(text)
        return
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in text.splitlines():
        click.echo(click.style(printable(line), fg=colours.get(line[:1])))
