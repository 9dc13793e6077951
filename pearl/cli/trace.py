"""``pearl trace``"""

from __future__ import annotations

from pathlib import Path

import click

from pearl.cli.options import (
    check_output,
    emit,
    emit_json,
    json_option,
    output_option,
    runs_option,
)


@click.command(
    "trace", short_help="Show a finished run as a plan, with values.",
    epilog="Example:  pearl trace last -o mara.trace.plan",
)  # fmt: skip
@click.argument("run")
@output_option
@runs_option
@json_option
def command(run: str, output: str, runs: str, as_json: bool) -> None:
    """Print RUN (its name, the start of it, or last) as a plan with every step's value.

    The text is a plan: pearl lint checks it, pearl replay runs it again on its values.
    """
    from pearl.runtime.journal import find_run, read_journal
    from pearl.runtime.trace import export_trace, read_trace
    from pearl.source import InputError, Source
    from pearl.syntax import print_plan

    if not run.strip():
        raise InputError("Name a run: its name, the start of it, or last.")
    check_output(output)
    folder = find_run(run, Path(runs))
    try:
        text = export_trace(read_journal(folder), folder.name)
    except (TypeError, KeyError, AttributeError, ValueError):
        # Lines that are JSON and yet no journal of Pearl's.
        raise InputError(f"{folder} holds no run of Pearl's: its journal is damaged.") from None
    if output or not as_json:
        emit(text, output)
    if as_json:
        trace = read_trace(Source(folder.name, text))
        values = {path.removeprefix("step/"): value for path, value in trace.replies.items()}
        emit_json(
            {
                "run": folder.name,
                "plan": print_plan(trace.plan),
                "values": values,
                "answer": trace.answer,
            }
        )
