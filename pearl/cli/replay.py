"""``pearl replay``"""

from __future__ import annotations

import time

import click

from pearl.cli.options import counted, emit_json, json_option, library_option, load_for


@click.command(
    "replay", short_help="Run recorded plans on their recorded step outputs.",
    epilog="Example:  pearl replay recorded.jsonl --library paper.txt --json",
)  # fmt: skip
@click.argument("recorded")
@library_option
@json_option
def command(recorded: str, libraries: tuple[str, ...], as_json: bool) -> None:
    """Replay RECORDED: JSON lines with "plan", and with "step_outputs" and "open_answer" where
    there are any; or a trace. Exits 1 if an answer differs."""
    from pearl.lang.source import read_source
    from pearl.lang.text import printable
    from pearl.run.replay import as_object, read_records, replay

    source = read_source(recorded, "recording")
    library = load_for(source, libraries)
    records = list(read_records(source))
    started = time.monotonic()
    result = replay(records, library)
    seconds = round(time.monotonic() - started, 3)
    if as_json:
        emit_json({**as_object(result), "seconds": seconds})
    else:
        click.echo(
            f"{counted(result.plans, 'plan')}: {result.syntax_errors} with syntax errors, "
            f"{result.check_errors} with errors.\n"
            f"{result.executed} run on recorded outputs: {result.exact} with exactly the "
            f"recorded answer."
        )
        for name in result.differ:
            click.echo(f"differs: {printable(name)}")
        for name, cause in result.failed.items():
            click.echo(f"failed: {printable(name)}: {printable(cause)}")
    raise click.exceptions.Exit(0 if result.exact == result.executed else 1)
