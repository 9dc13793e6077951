"""``pearl trace``"""

from __future__ import annotations

import click

from pearl.cli.options import (
    check_output,
    emit,
    emit_json,
    json_option,
    output_option,
    store_option,
)


@click.command(
    "trace", short_help="Show a finished run as a plan, with values.",
    epilog="Example:  pearl trace last -o mara.trace.plan",
)  # fmt: skip
@click.argument("run")
@output_option
@store_option
@json_option
def command(run: str, output: str, store: str, as_json: bool) -> None:
    """Print RUN (its name, the start of it, or last) as a plan with every step's value.

    A question of a batch is RUN/ID.

    The text is a plan: pearl lint checks it, pearl replay runs it again on its values.
    """
    from pearl.cli.inputs import open_run
    from pearl.lang.printer import print_plan
    from pearl.lang.source import InputError, Source
    from pearl.run.trace import export_trace, last_try, read_trace
    from pearl.store.history import read_entries, read_rows, since_last_start

    if not run.strip():
        raise InputError("Name a run: its name, the start of it, or last.")
    check_output(output)
    run, _, item = run.partition("/")
    with open_run(run, store) as (engine, found):
        entries = last_try(since_last_start(list(read_entries(engine, found, item))))
        name = f"{found.name}/{item}" if item else found.name
        if not entries and found.has_rows:
            first = next((name for name, _ in read_rows(engine, found.name)), "ID")
            raise InputError(
                f"The run {found.name} has many parts: name one of them, as in "
                f"pearl trace {found.name}/{first}; pearl runs show {found.name} --json has all."
            )
        text = export_trace(entries, name)
    if output or not as_json:
        emit(text, output)
    if as_json:
        trace = read_trace(Source(name, text))
        values = {path.removeprefix("step/"): value for path, value in trace.replies.items()}
        emit_json(
            {
                "run": name,
                "plan": print_plan(trace.plan),
                "values": values,
                "answer": trace.answer,
            }
        )
