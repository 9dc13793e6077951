"""``pearl actions``"""

from __future__ import annotations

import click

from pearl.cli import NoAnswer
from pearl.cli.options import emit_json, json_option, library_option, load


@click.command(
    "actions", short_help="List the action library, or search it.",
    epilog="Example:  pearl actions --search conflict",
)  # fmt: skip
@click.option("--search", default="", metavar="WORDS", help="Only actions that match, best first.")
@library_option
@json_option
def command(search: str, libraries: tuple[str, ...], as_json: bool) -> None:
    """List every action that plans may call, with its definition."""
    from pearl.lang.library import search_actions
    from pearl.lang.text import printable

    library = load(libraries)
    found = search_actions(library, search) if search.strip() else list(library.actions.values())
    if not found and not as_json:
        raise NoAnswer(f"No action matches {search}: try another word, or fewer.")
    if as_json:
        emit_json(
            [
                {
                    "name": action.name,
                    "signature": action.signature,
                    "returns": action.returns,
                    "definition": action.doc,
                    "aliases": list(action.aliases),
                    "builtin": action.is_builtin,
                }
                for action in found
            ]
        )
    else:
        for action in found:
            builtin = " (builtin)" if action.is_builtin else ""
            head = click.style(printable(action.signature), bold=True)
            doc = printable(action.doc)
            click.echo(f"{head} -> {action.returns}{builtin}\n    {doc}".rstrip())
    raise click.exceptions.Exit(0 if found else 1)
