"""``pearl lsp``"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pearl.cli.options import shared
from pearl.cli.output import emit_json

if TYPE_CHECKING:
    from pearl.lsp.session import Settings


@click.command(
    "lsp", short_help="Serve an editor, by the Language Server Protocol.",
    epilog="Example:  pearl lsp --library my.actions",
)  # fmt: skip
@shared("library")
@click.option(
    "--json", "as_json", is_flag=True, help="Only print what the server answers, for machines."
)
def lsp_command(libraries: tuple[str, ...], as_json: bool) -> None:
    """Answer an editor on standard input and output: findings, fixes, completion, renaming.

    Editors start it themselves (docs/editor.md). What a plan is checked with is what pearl lint
    in its folder would take.
    """
    from pearl.lang.source import InputError

    try:
        from pearl.lsp.server import ANSWERS, serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise InputError(
            "pearl lsp needs pygls: install it with pip install 'pearl[lsp]'."
        ) from None
    if as_json:
        emit_json({"answers": sorted(ANSWERS)})
        return
    if sys.stdin is None or sys.stdout is None:
        raise InputError("pearl lsp has no standard input: have an editor start it.")
    if sys.stdin.isatty():
        click.echo("pearl lsp waits for an editor on standard input; Ctrl-C ends it.", err=True)
    left = serve(lambda folder: _settings(folder, libraries))
    raise click.exceptions.Exit(0 if left else 1)


def _settings(folder: Path, libraries: tuple[str, ...]) -> Settings:
    """As ``pearl lint`` has them in a folder."""
    from pearl.cli.inputs import read_config
    from pearl.lang.source import InputError
    from pearl.lint.checker import Selection
    from pearl.lint.rules import RULES
    from pearl.lsp.session import Settings

    config = read_config(folder)
    select, ignore = (
        tuple(code.upper() for group in given for code in group.replace(",", " ").split())
        for given in (config.select, config.ignore)
    )
    for code in (*select, *ignore):
        if not any(rule.code.startswith(code) for rule in RULES):
            raise InputError(f"No rule's code starts with {code}: pearl rule lists them.")
    return Settings(libraries or config.library, Selection(select, ignore))
