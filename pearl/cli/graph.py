"""``pearl graph``"""

from __future__ import annotations

import click

from pearl.cli.failures import NoAnswer
from pearl.cli.options import check_output, emit, emit_json, json_option, output_option


@click.command(
    "graph", short_help="Draw which step uses which.",
    epilog="Example:  pearl graph mara.plan --format svg -o mara.svg",
)  # fmt: skip
@click.argument("plan")
@click.option(
    "--format", "form", default="mermaid", show_default=True, help="How it is drawn.",
    type=click.Choice(["mermaid", "svg"]),
)  # fmt: skip
@output_option
@json_option
def command(plan: str, form: str, output: str, as_json: bool) -> None:
    """Draw PLAN (a file, or - for standard input) as Mermaid text or as an SVG picture."""
    from pearl import draw
    from pearl.graph import dependencies, levels, outputs, reads_document
    from pearl.source import read_source
    from pearl.syntax import parse

    check_output(output)
    source = read_source(plan, "plan")
    parsed = parse(source)
    if parsed.broken or not parsed.plan.steps:
        raise NoAnswer(f"{plan} cannot be drawn as it stands: mend what pearl lint finds.")
    steps = parsed.plan.steps
    if output or not as_json:
        emit(draw.svg(parsed.plan) if form == "svg" else draw.mermaid(parsed.plan), output)
    if as_json:
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
                "answer": list(outputs(parsed.plan)),
            }
        )
