"""``pearl lsp``"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pearl.cli.options import Options, shared
from pearl.cli.output import emit_json


@click.command("lsp", epilog="Example:  pearl lsp --library my.actions")
@shared("library")
@click.option(
    "--json", "as_json", is_flag=True, help="Only print what the server answers, for machines."
)
def lsp_command(as_json: bool, given: Options) -> None:
    """Answer an editor on standard input and output: findings, fixes, completion, renaming.

    Editors start it themselves (docs/editor.md). What a plan is checked with is what pearl lint
    in its folder would take.
    """
    from pearl.cli.inputs import read_config, selection_for
    from pearl.lang.source import InputError

    try:
        from pearl.lsp.server import ANSWERS, serve
        from pearl.lsp.session import Settings
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise InputError("pearl lsp needs pygls: install it with pip install pygls.") from None
    if as_json:
        emit_json({"answers": sorted(ANSWERS)})
        return
    if sys.stdin is None or sys.stdout is None:
        raise InputError("pearl lsp has no standard input: have an editor start it.")
    if sys.stdin.isatty():
        click.echo("pearl lsp waits for an editor on standard input; Ctrl-C ends it.", err=True)

    def settings(folder: Path) -> Settings:
        """As ``pearl lint`` has them in a folder."""
        chosen = given.libraries or read_config(folder).library
        return Settings(chosen, selection_for((), (), folder))

    left = serve(settings)
    raise click.exceptions.Exit(0 if left else 1)
