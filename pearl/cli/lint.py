"""``pearl lint``"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from pearl.cli.options import json_option, library_option, load, write

if TYPE_CHECKING:
    from pearl.check import Selection
    from pearl.library import Library
    from pearl.render import Report
    from pearl.source import Source


@click.command(
    "lint", short_help="Check plans and action libraries.",
    epilog="Example:  pearl lint plans/ my.plan actions/ --fix",
)  # fmt: skip
@click.argument("paths", nargs=-1, required=True)
@click.option("--fix", "safe", is_flag=True, help="Apply the fixes that keep a plan's meaning.")
@click.option(
    "--unsafe-fixes", "unsafe", is_flag=True, help="Apply the fixes that guess at it too."
)
@click.option(
    "--select", multiple=True, metavar="CODES", help="Only these, as PRL4 or PRL401,PRL402."
)
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these.")
@click.option(
    "--format", "form", default="terminal", show_default=True,
    type=click.Choice(["terminal", "prompt", "json", "sarif", "github"]),
)  # fmt: skip
@click.option("--statistics", is_flag=True, help="Only count the findings of each rule.")
@library_option
@json_option
def command(
    paths: tuple[str, ...],
    safe: bool,
    unsafe: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    form: str,
    statistics: bool,
    libraries: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check PATHS: .plan and .actions files, folders of them, .jsonl files whose rows have a
    "plan", or - for standard input."""
    from pearl.cli.inputs import Kind, read_inputs
    from pearl.render import RENDERERS, Report

    library = load(libraries)
    selection = _selection(select, ignore)
    inputs = read_inputs(paths)
    reports: list[Report] = []
    for given in inputs:
        source = given.source
        if (safe or unsafe) and given.kind is Kind.PLAN:
            source = _fixed(source, library, selection, unsafe=unsafe, row=given.row)
        reports.append(Report(source, _found(given.kind, source, library, selection)))
    found = [one for report in reports for one in report.diagnostics]
    if statistics:
        _statistics(reports, as_json=as_json)
    elif as_json or form != "terminal":
        click.echo(RENDERERS["json" if as_json else form](reports), nl=False)
    else:
        click.echo(RENDERERS["terminal"](reports), nl=False)
        _summary(reports)
    raise click.exceptions.Exit(1 if found else 0)


def _selection(select: tuple[str, ...], ignore: tuple[str, ...]) -> Selection:
    from pearl.check import Selection
    from pearl.cli.config import read_config
    from pearl.rules import RULES
    from pearl.source import InputError

    config = read_config()
    chosen = [
        tuple(code for group in given for code in group.replace(",", " ").split())
        for given in (select or config.select, ignore or config.ignore)
    ]
    for code in (*chosen[0], *chosen[1]):
        if not any(rule.code.startswith(code) for rule in RULES):
            raise InputError(f"No rule's code starts with {code}: see pearl rule.")
    return Selection(*chosen)


def _found(kind, source: Source, library: Library, selection: Selection):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    from pearl.check import check, check_library
    from pearl.cli.inputs import Kind
    from pearl.syntax import parse

    if kind is Kind.LIBRARY:
        return check_library(source, selection)
    return check(parse(source), library, selection)


def _fixed(
    source: Source, library: Library, selection: Selection, *, unsafe: bool, row: bool
) -> Source:
    from pearl.check import fix
    from pearl.source import InputError

    if row:
        raise InputError(f"{source.name}: rows of a .jsonl file cannot be fixed in place.")
    fixed = fix(source, library, selection, unsafe=unsafe)
    if fixed.text != source.text:
        if source.name == "-":
            click.echo(fixed.text, nl=False)
        else:
            write(source.name, fixed.text)
            click.echo(f"fixed {source.name}", err=True)
    return fixed


def _statistics(reports: list[Report], *, as_json: bool) -> None:
    """How many sources each rule flags, and how often."""
    from pearl.cli.options import emit_json
    from pearl.rules import RULES

    flagged: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for report in reports:
        times.update(one.code for one in report.diagnostics)
        flagged.update({one.code for one in report.diagnostics})
    rows = [(rule, flagged[rule.code], times[rule.code]) for rule in RULES if flagged[rule.code]]
    rows.sort(key=lambda row: -row[1])
    if as_json:
        emit_json(
            {
                "checked": len(reports),
                "rules": [
                    {"code": rule.code, "name": rule.name, "flagged": files, "findings": count}
                    for rule, files, count in rows
                ],
            }
        )
        return
    for rule, files, count in rows:
        click.echo(f"{rule.code} {rule.name:24} {files:6} flagged {count:6} findings")
    click.echo(f"{len(reports)} checked")


def _summary(reports: list[Report]) -> None:
    from pearl.diagnostics import Severity

    found = [one for report in reports for one in report.diagnostics]
    errors = sum(one.severity is Severity.ERROR for one in found)
    count = f"{len(reports)} {'file' if len(reports) == 1 else 'files'} checked"
    if not found:
        click.echo(f"{count}, no findings.", err=True)
        return
    flagged = sum(bool(report.diagnostics) for report in reports)
    click.echo(
        f"\n{count}: {errors} errors and {len(found) - errors} warnings in {flagged}. "
        f"pearl rule CODE says more.", err=True,
    )  # fmt: skip
