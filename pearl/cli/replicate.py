"""``pearl replicate``"""

from __future__ import annotations

import click

from pearl.cli.options import check_output, json_option, output_option
from pearl.cli.report import FORM_NAMES, show


@click.command(
    "replicate", short_help="The tables of recorded outcomes, without a model.",
    epilog="Example:  pearl replicate outcomes.jsonl",
)  # fmt: skip
@click.argument("file")
@click.option(
    "--format", "form", type=click.Choice(FORM_NAMES),
    help="What to write. Default: what the file's ending says, else terminal.",
)  # fmt: skip
@output_option
@json_option
def command(file: str, form: str | None, output: str, as_json: bool) -> None:
    """Show what the recorded outcomes in FILE come to: accuracy with intervals, and paired tests.

    A row is one JSON object a line: split, method, qid, answer and gold.
    """
    from pearl.evaluate.replicate import read_outcomes
    from pearl.evaluate.report import summarise

    check_output(output, file)
    show(summarise(read_outcomes(file)), form, output, as_json=as_json)
