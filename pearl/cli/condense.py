"""``pearl condense``

What ``pearl condense`` says: what it read, what it asks, what came of it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli import Stopped
from pearl.cli.options import shared
from pearl.cli.output import check_output, emit, emit_json, on_terminal, write
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from pearl.lang.ast import Action
    from pearl.lang.source import Source
    from pearl.mining.condense import Condensed
    from pearl.mining.rounds import Rounds
    from pearl.models.base import Model


def reading(source: Source) -> dict[str, Any]:
    """How many lines were read, and which were not."""
    from pearl.lint.checker import Selection, check_library

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
    from pearl.lint.render import terminal
    from pearl.lint.render.report import Report

    if told["findings"]:
        text = terminal.render([Report(told["source"], told["findings"])])
        click.echo(text, err=True)


def asked(result: Condensed, beside: Mapping[str, Action]) -> Condensed:
    """The library with the merges that the person accepts."""
    from pearl.mining.merges import call_of, merges, without

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
    from pearl.lint.render import terminal
    from pearl.mining.merges import merges

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
    from pearl.lang.library import builtins

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
    from pearl.lang.printer import print_arg, print_library
    from pearl.lint.render.json import as_object as finding

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


ROUNDS = 4
"""How often a model sees what is left where nothing else is said."""


@click.command(
    "condense", short_help="Make an action library smaller.",
    epilog="Example:  pearl condense mined.actions -o small.actions --target 80",
)  # fmt: skip
@click.argument("file")
@click.option("-o", "--output", default="", metavar="FILE", help="Where the small library goes.")
@click.option(
    "--target", type=click.IntRange(1), default=80, show_default=True, metavar="N",
    help="How many actions are wanted, at most. Builtins do not count.",
)  # fmt: skip
@click.option(
    "--rounds", type=click.IntRange(0), metavar="N",
    help="How often a model sees what is left, at most; 0 condenses without a model. Default: 4, "
    "and 0 offline.",
)  # fmt: skip
@click.option(
    "--review", is_flag=True,
    help="Ask about each merge; where there is no terminal, write FILE.review to be edited.",
)  # fmt: skip
@click.option("--accept", default="", metavar="FILE", help="Take the merges of a reviewed file.")
@click.option(
    "--seed-actions", "seeds", multiple=True, metavar="FILE",
    help="Actions that plans will have beside these: their names stay theirs. Default: core.",
)  # fmt: skip
@shared("model", "store", "cache", "json")
def condense_command(
    file: str,
    output: str,
    target: int,
    rounds: int | None,
    review: bool,
    accept: str,
    seeds: tuple[str, ...],
    model: str,
    store: str,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Put like actions of FILE (a .actions file, or the paper's NAME(ARGS) # definition text)
    together, until TARGET are left. Each says what it replaces, so that pearl migrate can
    rewrite plans that use the older names."""
    from pearl.lang.library import library_source, load_library, parse_library
    from pearl.lang.source import InputError

    check_output(output, file, accept)
    source = library_source(file)
    parsed = parse_library(source)
    if not parsed.actions:
        raise InputError(f"{source.name} holds no action: write lines such as NAME(CTX, X) : …")
    beside = load_library(*(seeds or ("core",))).actions
    asking = review and on_terminal() and sys.stdin.isatty() and not as_json
    if review and not asking and output in ("", "-"):
        raise InputError("--review writes a file beside the library: name that with -o FILE.")
    if review and not asking and Path(f"{output}.review").exists():
        raise InputError(
            f"{output}.review is there already: take it with --accept {output}.review, or move it."
        )
    told = reading(source)
    if not as_json:
        unreadable(told)
    result, more = _condensed(parsed.actions, source, beside, target, rounds, accept, model,
                              store, keep=not no_cache, as_json=as_json)  # fmt: skip
    if asking:
        result = asked(result, beside)
    _written(result, source, output, review=review and not asking, as_json=as_json)
    missed = len(result.actions) > target and not accept and not review
    wanted = None if accept else target
    if as_json:
        emit_json(as_object(result, told, wanted, more, output))
    else:
        summary(result, told, wanted, more, output, review=review and not asking)
    raise click.exceptions.Exit(1 if told["findings"] or missed else 0)


def _condensed(
    actions: Sequence[Action],
    source: Source,
    beside: Mapping[str, Action],
    target: int,
    rounds: int | None,
    accept: str,
    model: str,
    store: str,
    *,
    keep: bool,
    as_json: bool,
) -> tuple[Condensed, dict[str, Any]]:
    """The library, and what is to be said of how it came about."""
    if accept:
        from pearl.lang.source import read_source
        from pearl.mining.merges import read_review

        return read_review(read_source(accept, "review"), actions, beside), {}
    if rounds != 0:
        from pearl.models.choose import choose_model

        chosen = choose_model(model)
        # The embedded reader merges by likeness, which is done without asking it.
        rounds = rounds if rounds is not None else ROUNDS * (chosen.name != "offline")
    if not rounds:
        from pearl.mining.condense import condense

        return condense(actions, target, seeds=beside), {}
    made, run = _rounds(actions, source, beside, target, rounds, chosen, store, keep=keep,
                        as_json=as_json)  # fmt: skip
    return made.condensed, {"rounds": made, "model": chosen, "run": run}


def _rounds(
    actions: Sequence[Action],
    source: Source,
    beside: Mapping[str, Action],
    target: int,
    rounds: int,
    model: Model,
    store: str,
    *,
    keep: bool,
    as_json: bool,
) -> tuple[Rounds, str]:
    from collections.abc import Callable

    from pearl.cli.output import progress, settle
    from pearl.mining.rounds import condense_with
    from pearl.run.calls import Caller
    from pearl.session import context_for, open_session
    from pearl.store.database import address

    names: list[str] = []
    head = {"library": source.name, "digest": source.digest, "target": target, "rounds": rounds,
            "model": model.name}  # fmt: skip
    context = context_for(model)

    async def work(began: Callable[[str], None]) -> Rounds:
        def started(name: str) -> None:
            names.append(name)
            began(name)

        with progress(quiet=as_json) as watch:
            async with open_session(
                model, head, "condense", address(store), context=context, cache=keep, began=started
            ) as session:
                engine = session.engine
                ask = Caller(engine.ask, engine.identity, session.journal, watch)
                return await condense_with(
                    actions, target, ask, rounds=rounds, seeds=beside, context=context
                )

    return settle(work), names[0] if names else ""


def _written(
    result: Condensed, source: Source, output: str, *, review: bool, as_json: bool
) -> None:
    from pearl.lang.printer import print_library
    from pearl.mining.merges import print_review

    if output or not as_json:
        emit(print_library(result.actions), output)
    if review:
        write(f"{output}.review", print_review(result, source.name, output))
