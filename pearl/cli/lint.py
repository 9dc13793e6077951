"""``pearl lint``"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pearl.cli.options import counted, emit, emit_json, json_option, library_option, load_for, write

if TYPE_CHECKING:
    from pearl.cli.inputs import Input
    from pearl.lang.library import Library
    from pearl.lang.source import Source
    from pearl.lint.checker import Selection
    from pearl.lint.render.report import Report


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
    "--format", "form", default="terminal", show_default=True, help="How findings are written.",
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
    "plan", or - for standard input. With --fix, a fixed standard input is printed, and what is
    left to mend is told on standard error."""
    from pearl.cli.inputs import read_inputs

    form = "json" if as_json else form
    selection = _selection(select, ignore)
    inputs = read_inputs(paths)
    fixing = safe or unsafe
    if fixing:
        _fixable(inputs, machine=statistics or form != "terminal")
    reports: list[Report] = []
    for given in inputs:
        library = load_for(given.source, libraries)
        source = _fixed(given, library, selection, unsafe=unsafe) if fixing else given.source
        reports.append(_found(given, source, library, selection))
    if statistics:
        _statistics(reports, as_json=form == "json")
    else:
        _show(reports, form, to_stderr=fixing and any(one.source.name == "-" for one in inputs))
    raise click.exceptions.Exit(1 if any(report.diagnostics for report in reports) else 0)


def _selection(select: tuple[str, ...], ignore: tuple[str, ...]) -> Selection:
    from pearl.cli.inputs import read_config
    from pearl.lang.source import InputError
    from pearl.lint.checker import Selection
    from pearl.lint.rules import RULES

    config = read_config()
    chosen = [
        tuple(code.upper() for group in given for code in group.replace(",", " ").split())
        for given in (select or config.select, ignore or config.ignore)
    ]
    for code in (*chosen[0], *chosen[1]):
        if not any(rule.code.startswith(code) for rule in RULES):
            raise InputError(f"No rule's code starts with {code}: pearl rule lists them.")
    return Selection(*chosen)


def _found(given: Input, source: Source, library: Library, selection: Selection) -> Report:
    from pearl.cli.inputs import Kind
    from pearl.lang.parser import parse
    from pearl.lint.checker import check, check_library
    from pearl.lint.render.report import Report

    if given.kind is Kind.LIBRARY:
        return Report(source, check_library(source, selection))
    return Report(source, check(parse(source), library, selection))


def _fixable(inputs: Sequence[Input], *, machine: bool) -> None:
    """Refuse before anything is changed."""
    from pearl.lang.source import InputError

    for given in inputs:
        if given.row:
            raise InputError(f"{given.source.name}: rows of a .jsonl file cannot be fixed.")
        if machine and given.source.name == "-":
            raise InputError("- with --fix prints the fixed text: leave out the other format.")


def _fixed(given: Input, library: Library, selection: Selection, *, unsafe: bool) -> Source:
    from pearl.cli.inputs import Kind
    from pearl.lang.text import printable
    from pearl.lint.checker import fix

    source = given.source
    if given.kind is Kind.PLAN:
        source = fix(source, library, selection, unsafe=unsafe)
    if source.name == "-":
        emit(source.text)
    elif source.text != given.source.text:
        write(source.name, source.text)
        click.echo(f"fixed {printable(source.name)}", err=True)
    return source


def _show(reports: Sequence[Report], form: str, *, to_stderr: bool) -> None:
    from pearl.lint.render import RENDERERS

    text = RENDERERS[form](reports)
    if form == "terminal":
        click.echo(text, nl=False, err=to_stderr)
        _summary(reports)
    elif text:
        emit(text)


def _statistics(reports: Sequence[Report], *, as_json: bool) -> None:
    """How many sources each rule flags, and how often."""
    from pearl.lint.rules import RULES

    flagged: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for report in reports:
        times.update(one.code for one in report.diagnostics)
        flagged.update({one.code for one in report.diagnostics})
    rows = [(rule, flagged[rule.code], times[rule.code]) for rule in RULES if flagged[rule.code]]
    rows.sort(key=lambda row: (-row[1], row[0].code))
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


def _summary(reports: Sequence[Report]) -> None:
    from pearl.lang.diagnostics import Severity

    found = [one for report in reports for one in report.diagnostics]
    errors = sum(one.severity is Severity.ERROR for one in found)
    rows = any(report.source.name.rpartition(":")[0].endswith(".jsonl") for report in reports)
    noun = "plan" if rows else "file"
    checked = f"{counted(len(reports), noun)} checked"
    if not found:
        click.echo(f"{checked}, no findings.", err=True)
        return
    flagged = sum(bool(report.diagnostics) for report in reports)
    click.echo(
        f"\n{checked}: {counted(errors, 'error')} and {counted(len(found) - errors, 'warning')} "
        f"in {counted(flagged, noun)}. pearl rule CODE says more.", err=True,
    )  # fmt: skip
