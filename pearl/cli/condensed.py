"""What ``pearl condense`` says: what it read, what it asks, what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from pearl.cli.failures import Stopped
from pearl.cli.options import counted
from pearl.screen import printable

if TYPE_CHECKING:
    from pearl.mining.covering import Condensed
    from pearl.plan import Action
    from pearl.source import Source


def reading(source: Source) -> dict[str, Any]:
    """How many lines were read, and which were not."""
    from pearl.checker import Selection, check_library

    findings = check_library(source, Selection(select=("PRL1",)))
    named = {source.position(one.span.start)[0] for one in findings}
    lines = [number for number, line in enumerate(source.text.split("\n"), 1) if line.strip()]
    return {
        "source": source,
        "lines": len(lines),
        "read": len(lines) - len(named),
        "named": len(named),
        "findings": findings,
    }


def unreadable(told: Mapping[str, Any]) -> None:
    """Show the lines that cannot be read."""
    from pearl.render import Report, terminal

    if told["findings"]:
        text = terminal.render([Report(told["source"], told["findings"])])
        click.echo(text, err=True)


def asked(result: Condensed, beside: Mapping[str, Action]) -> Condensed:
    """The library with the merges that the person accepts."""
    from pearl.mining.review import call_of, merges, without

    places = merges(result)
    docs = {action.name: action.doc for action in result.actions}
    rejected: list[int] = []
    for count, at in enumerate(places, 1):
        one = result.mapping[at]
        title = click.style(printable(f"{one.old.signature} becomes {call_of(one)}"), bold=True)
        click.echo(f"\n{title}  {count} of {len(places)}")
        click.echo(f"  {click.style('was', fg='red')}  {printable(one.old.doc)}")
        click.echo(f"  {click.style('now', fg='green')}  {printable(docs[one.new])}")
        answer = _answer()
        if answer == "q":
            raise Stopped("Stopped: nothing is written.")
        if answer == "a":
            break
        if answer == "n":
            rejected.append(at)
    return without(result, rejected, frozenset(beside))


def _answer() -> str:
    while True:
        try:
            given = input("Accept? y yes, n no, a all that are left, q quit: ").strip().lower()
        except EOFError:
            return "q"
        if given[:1] in ("y", "n", "a", "q"):
            return given[:1]


def summary(
    result: Condensed,
    told: Mapping[str, Any],
    target: int | None,
    more: Mapping[str, Any],
    output: str,
    *,
    review: bool,
) -> None:
    """Print on standard error what was read, what is left, and what to know of it."""
    from pearl.mining.review import merges
    from pearl.render import terminal

    named = f", {told['named']:,} that cannot be read" if told["named"] else ""
    _say(f"{told['lines']:,} lines of {told['source'].name}: {told['read']:,} read{named}.")
    rounds = more.get("rounds")
    if rounds:
        if more["model"].notice:
            _say(more["model"].notice)
        for one in rounds.rounds:
            calls = counted(one.shards, "call")
            _say(f"Round {one.number}: {one.before:,} actions to {one.after:,}, in {calls}.")
        click.echo(terminal.render(rounds.reports), nl=False, err=True)
    count = len(merges(result))
    wanted = "" if target is None else f"; {target:,} wanted at most"
    _say(
        f"{_before(result):,} actions condensed to {len(result.actions):,} "
        f"({counted(count, 'merge')}{wanted})."
    )
    for note in result.notes:
        _say(f"- {note.text}")
    if review:
        _say(f"Write reject where a merge is wrong in {output}.review, then run its second line.")
    elif output not in ("", "-"):
        _say(f"Older plans:  pearl migrate OLD.plan --library {output}")


def _before(result: Condensed) -> int:
    from pearl.library import builtins

    own = builtins()
    return sum(one.old.name not in own for one in result.mapping)


def _say(text: str) -> None:
    click.echo(printable(text), err=True)


def as_object(
    result: Condensed,
    told: Mapping[str, Any],
    target: int | None,
    more: Mapping[str, Any],
    output: str,
) -> dict[str, Any]:
    """The same for a program."""
    from pearl.render.json import as_object as finding
    from pearl.syntax.printer import print_arg, print_library

    rounds = more.get("rounds")
    found = [finding(one, told["source"]) for one in told["findings"]]
    for report in rounds.reports if rounds else ():
        found += [finding(one, report.source) for one in report.diagnostics]
    return {
        "lines": told["lines"],
        "read": told["read"],
        "unreadable": told["named"],
        "before": _before(result),
        "left": len(result.actions),
        "target": target,
        "library": print_library(result.actions),
        "mapping": [
            {
                "old": one.old.name,
                "parameters": [param.name for param in one.old.params],
                "new": one.new,
                "arguments": [print_arg(arg) for arg in one.args],
            }
            for one in result.mapping
        ],
        "notes": [
            {"kind": note.kind, "text": note.text, "actions": list(note.actions)}
            for note in result.notes
        ],
        "rounds": [
            {"round": one.number, "calls": one.shards, "before": one.before, "after": one.after}
            for one in (rounds.rounds if rounds else ())
        ],
        "findings": found,
        "model": more["model"].name if rounds else None,
        "notice": more["model"].notice if rounds else "",
        "run": more.get("run", ""),
        "output": output,
    }
