"""``pearl graph``"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pearl.cli import NoAnswer, warn
from pearl.cli.options import Options, shared
from pearl.cli.output import check_ending, check_kind, check_output, emit, emit_json, has_graph
from pearl.lang.source import read_source

if TYPE_CHECKING:
    from pearl.lang.ast import Plan

_RUN = re.compile(r"(?:last|\d{1,8}(?:-[\w-]*)?)(?:/.+)?")
"""What names a run, and perhaps a question of it, where no file has that name."""

_FORMS = {
    ".mmd": "mermaid", ".mermaid": "mermaid", ".md": "mermaid", ".txt": "mermaid", ".svg": "svg",
}  # fmt: skip
"""How a graph is drawn in a file, by the ending of its name."""


@click.command("graph", epilog="Example:  pearl graph mara.plan -o mara.svg")
@click.argument("plan")
@click.option(
    "--format", "form", type=click.Choice(["mermaid", "svg"]),
    help="How it is drawn: by default as the file's name ends, else as Mermaid text.",
)  # fmt: skip
@shared("output", "store", "json")
def graph_command(plan: str, form: str | None, options: Options) -> None:
    """Draw PLAN (a file, or - for standard input) as Mermaid text or as an SVG picture.

    PLAN may be a run: its name, the start of it, or last; a question of a batch is RUN/ID. What
    an action's own steps did, as REBEL's sub-questions, is drawn with it.

    fsm, fsm1 and fsm2 are the state machines of FSM prompting, where no file has that name.
    """
    check_output(options.output)
    endings = " ".join(ending for ending, of in _FORMS.items() if form in (None, of))
    check_ending(options.output, endings, f"a graph as {form}" if form else "a graph")
    form = form or _FORMS.get(Path(options.output).suffix.lower(), "mermaid")
    if plan != "-" and not os.path.exists(plan):
        from pearl.strategies import fsm_states as picture

        if machine := picture.MACHINES.get(plan):
            if options.output or not options.as_json:
                _write((picture.svg if form == "svg" else picture.mermaid)(machine), options)
            if options.as_json:
                emit_json(picture.as_object(machine))
            return
        if _RUN.fullmatch(plan):
            _draw(_run_plan(plan, options), form, options)
            return
    from pearl.lang.ast import DOCUMENT, step_refs
    from pearl.lang.parser import parse

    parsed = parse(read_source(plan, "plan"))
    if parsed.broken or not parsed.plan.steps:
        raise NoAnswer(f"{plan} cannot be drawn as it stands: mend what pearl lint finds.")
    steps, defined = {step.name for step in parsed.plan.steps}, {DOCUMENT}
    unknown: set[str] = set()
    for step in parsed.plan.steps:
        unknown.update(ref.name for ref in step_refs(step) if ref.name not in defined)
        defined.add(step.name)
    unknown.update(ref.name for ref in parsed.plan.returns if ref.name not in defined)
    warn(
        *(
            f"{name} is {'used before its step' if name in steps else 'no step'}: pearl lint says "
            "where."
            for name in sorted(unknown)
        )
    )
    _draw(parsed.plan, form, options)


def _run_plan(name: str, options: Options) -> Plan:
    """The plan of a run, with the steps of its frames."""
    from pearl.cli.inputs import open_run
    from pearl.runtime.trace import as_plan, last_try, read_tree
    from pearl.store.history import read_entries, since_last_start

    run, _, item = name.partition("/")
    with open_run(run, options.store, options.output) as (engine, record):
        tree = read_tree(last_try(since_last_start(list(read_entries(engine, record, item)))))
    if tree is None or not tree.plan.steps:
        hint = f": name a question of it, as {record.name}/ID" if record.has_rows else ""
        asked = f"The question {item} of the run {record.name}" if item else f"The run {run}"
        raise NoAnswer(f"{asked} has no steps to draw{'' if item else hint}.")
    return as_plan(tree)


def _write(graph: str, options: Options) -> None:
    check_kind(options.output, "graph", has_graph)
    emit(graph, options.output)


def _draw(plan: Plan, form: str, options: Options) -> None:
    from pearl.lang import graph as draw
    from pearl.lang.graph import dependencies, levels, outputs, reads_document

    steps = plan.steps
    if options.output or not options.as_json:
        _write(draw.svg(plan) if form == "svg" else draw.mermaid(plan), options)
    if options.as_json:
        needs = dependencies(steps)
        depth = levels(needs)
        emit_json(
            {
                "steps": [
                    {
                        "name": step.name,
                        "action": step.action,
                        "uses": list(needs[step.name]),
                        "document": reads_document(step),
                        "level": depth[step.name],
                    }
                    for step in steps
                ],
                "answer": list(outputs(plan)),
            }
        )
