"""``pearl fmt``"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pearl.cli.options import emit_json, json_option, write

if TYPE_CHECKING:
    from pearl.source import Source


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
    read standard input and print. Text that is no part of a plan becomes comments."""
    from pearl.cli.inputs import read_inputs
    from pearl.source import InputError

    changed: list[str] = []
    unreadable: list[str] = []
    for given in read_inputs(paths):
        source = given.source
        try:
            if given.row:
                raise InputError(f"{source.name}: rows of a .jsonl file are not formatted.")
            formatted = _formatted(source)
        except InputError as error:
            unreadable.append(str(error))
            continue
        if formatted != source.text:
            changed.append(source.name)
        if only_diff:
            click.echo(_diff(source, formatted), nl=False)
        elif not only_check and source.name == "-":
            if not as_json:
                click.echo(formatted, nl=False)
        elif not only_check and formatted != source.text:
            write(source.name, formatted)
    for message in unreadable:
        click.echo(f"pearl: {message}", err=True)
    if as_json:
        emit_json({"changed": changed, "unreadable": unreadable})
    elif only_check:
        for name in changed:
            click.echo(f"would change {name}")
    would = only_check or only_diff
    raise click.exceptions.Exit(1 if unreadable or (changed and would) else 0)


def _formatted(source: Source) -> str:
    from pearl.cli.inputs import Kind, kind_of
    from pearl.layout import layout, layout_library

    return layout_library(source) if kind_of(source) is Kind.LIBRARY else layout(source)


def _diff(source: Source, formatted: str) -> str:
    from difflib import unified_diff

    colours = {"+": "green", "-": "red", "@": "cyan"}
    lines = unified_diff(
        source.text.splitlines(), formatted.splitlines(), source.name, source.name, lineterm=""
    )
    return "".join(click.style(line, fg=colours.get(line[:1])) + "\n" for line in lines)
