"""Tools of the language: ``pearl lint``, ``fmt``, ``rule``, ``actions``, ``grammar``, ``lsp``."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pearl.cli import NoAnswer, warn
from pearl.cli.options import Options, load, load_quietly, own_libraries, shared
from pearl.cli.output import await_program, counting, emit, emit_json, on_terminal, show, tell
from pearl.lang.source import InputError, Source, TextKind, install_command, write
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from pearl.cli.corpus import TextFindings
    from pearl.cli.inputs import Input
    from pearl.lang.ast import Action
    from pearl.lint.checker import Selection
    from pearl.lint.rules.base import Rule


@click.command("lint", epilog="Example:  pearl lint plans/ my.plan actions/ --fix")
@click.argument("paths", nargs=-1, required=True)
@click.option("--fix", "safe", is_flag=True, help="Apply the fixes that keep a plan's meaning.")
@click.option(
    "--unsafe-fixes", "unsafe", is_flag=True, help="Apply the fixes that guess at it too."
)
@click.option("--diff", "only_diff", is_flag=True, help="Change nothing; print what fixes change.")
@click.option(
    "--select", multiple=True, metavar="CODES", help="Only these, as PRL4 or PRL401,PRL402."
)
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these.")
@click.option(
    "--format", "form", default="terminal", show_default=True, help="How findings are written.",
    type=click.Choice(["terminal", "prompt", "json", "sarif", "github"]),
)  # fmt: skip
@click.option("--statistics", is_flag=True, help="Only count the findings of each rule.")
@click.option("--no-cache", is_flag=True, help="Check every text anew, however many there are.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even where there are findings.")
@shared("library", "json")
def lint_command(
    paths: tuple[str, ...],
    safe: bool,
    unsafe: bool,
    only_diff: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    form: str,
    statistics: bool,
    no_cache: bool,
    exit_zero: bool,
    options: Options,
) -> None:
    """Check PATHS: .plan and .actions files, folders of them, .jsonl files whose rows have a
    "plan", or - for standard input. With --fix, a fixed standard input is printed, and what is
    left to mend is told on standard error. Many plans are checked on all cores, and what is
    found in them is kept below ~/.cache for the next time."""
    from pearl.cli.corpus import FEW, Checks, check_all
    from pearl.cli.inputs import each_input, selection_for
    from pearl.lint.render import RENDERERS

    form = "json" if options.as_json else form
    problems: list[InputError] = []
    inputs = each_input(paths, problems.append)
    if safe or unsafe or only_diff:
        selection = partial(selection_for, select, ignore)
        fixed = _fix_all(list(inputs), options.libraries, selection, unsafe=unsafe)
        if statistics or form != "terminal":
            if only_diff:
                raise InputError("--diff prints what changes: leave out the other format.")
            if "-" in paths:
                raise InputError("- with --fix prints the fixed text: leave out the other format.")
        if only_diff:
            diff = "".join(_diff(before.source, after.source.text) for before, after in fixed)
            _show_diff(diff)
            if not diff:
                more = "" if unsafe else " safe"
                others = "" if unsafe else "; --unsafe-fixes also applies those that guess, if any"
                click.echo(f"No{more} fix would change anything{others}.", err=True)
            warn(*map(str, problems))
            raise click.exceptions.Exit(1 if problems or (diff and not exit_zero) else 0)
        inputs = (_write_fixed(before, after) for before, after in fixed)
    checks = Checks(
        options.libraries, select, ignore, "" if statistics else form, not no_cache, paths
    )
    counts = _Counts()
    rows = _rows(paths) if sys.stderr is not None and sys.stderr.isatty() else 0
    with counting("plans", rows if rows > FEW else 0) as done:
        parts = counts.parts(check_all(inputs, checks), done)
        if statistics:
            deque(parts, maxlen=0)
        for text in () if statistics else RENDERERS[form].whole(parts, counts.flagged):
            if form == "terminal":
                click.echo(text, nl=False, err="-" in paths and (safe or unsafe))
            else:
                show(text)
    if statistics:
        _statistics(counts, as_json=form == "json")
    elif form == "terminal":
        _summary(counts, "plan" if any(path.endswith(".jsonl") for path in paths) else "file")
    warn(*map(str, problems))
    raise click.exceptions.Exit(1 if problems or (counts.sources and not exit_zero) else 0)


def _fix_all(
    inputs: list[Input],
    libraries: tuple[str, ...],
    selection: Callable[[Path | None], Selection],
    *,
    unsafe: bool,
) -> Iterator[tuple[Input, Input]]:
    """Fix texts: each before and after. What cannot be fixed is refused before any is."""
    from pearl.cli.inputs import folder_of
    from pearl.lang.parser import parse
    from pearl.lint.checker import fix

    for item in inputs:
        if item.row:
            raise InputError(f"{item.source.name}: rows of a .jsonl file cannot be fixed.")

    for item in inputs:
        source = item.source
        parsed = parse(source) if item.kind is TextKind.PLAN else None
        # Numbered clauses look like broken steps; a text without one sound step is no plan.
        if parsed and (parsed.plan.steps or not parsed.aside):
            folder = folder_of(source)
            library = load_quietly(own_libraries(source, libraries), folder)
            source = fix(source, library, selection(folder), unsafe=unsafe)
        yield item, replace(item, source=source)


def _write_fixed(before: Input, after: Input) -> Input:
    """Write a fixed text over its file, or print it where it came from standard input."""
    source = after.source
    if source.name == "-":
        emit(source.text)
    elif source.text != before.source.text:
        write(source.name, source.text)
        click.echo(f"fixed {printable(source.name)}", err=True)
    return after


def _diff(before: Source, after: str) -> str:
    """What changes in a text, as ``patch`` takes it; empty where nothing does."""
    from difflib import unified_diff

    lines = before.text.splitlines(), after.splitlines()
    changes = unified_diff(*lines, before.name, before.name, lineterm="")
    return "".join(f"{line}\n" for line in changes)


def _show_diff(diff: str) -> None:
    """Print what changes: in colours on a terminal, else to the letter, as for ``patch``."""
    if not on_terminal():
        show(diff)
        return
    colours = {"+": "green", "-": "red", "@": "cyan"}
    for line in diff.splitlines():
        click.echo(click.style(printable(line), fg=colours.get(line[:1])))


def _rows(paths: Sequence[str]) -> int:
    """How many lines the files with rows have."""
    count = 0
    for path in paths:
        if path.endswith(".jsonl") and Path(path).is_file():
            with Path(path).open("rb") as file:
                count += sum(block.count(b"\n") for block in iter(partial(file.read, 1 << 20), b""))
    return count


@dataclass(slots=True)
class _Counts:
    """What many checks come to.

    Args:
        checked: how many texts.
        sources: those in which anything was found.
        errors: those that are errors.
        flagged: texts, by the rules that flag them.
        times: findings, by rule.
    """

    checked: int = 0
    sources: int = 0
    errors: int = 0
    flagged: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)

    def parts(self, checked: Iterable[TextFindings], done: Callable[[], None]) -> Iterator[str]:
        """What is printed of each text with findings; all are counted on the way."""
        for result in checked:
            self.checked += 1
            if result.codes:
                self.sources += 1
                self.errors += result.errors
                self.flagged.update(set(result.codes))
                self.times.update(result.codes)
            done()
            if result.text:
                yield result.text


def _statistics(counts: _Counts, *, as_json: bool) -> None:
    """How many sources each rule flags, and how often."""
    from pearl.lint.rules import RULES

    flagged, times = counts.flagged, counts.times
    rows = [(rule, flagged[rule.code], times[rule.code]) for rule in RULES if flagged[rule.code]]
    rows.sort(key=lambda row: (-row[1], row[0].code))
    data = [
        {"code": rule.code, "name": rule.name, "flagged": files, "findings": count}
        for rule, files, count in rows
    ]
    lines = [
        f"{rule.code} {rule.name:24} {files:6} flagged {count:6} findings"
        for rule, files, count in rows
    ]
    lines.append(f"{counts.checked} checked")
    tell({"checked": counts.checked, "rules": data}, as_json, lines)


def _summary(counts: _Counts, noun: str) -> None:
    checked = f"{counted(counts.checked, noun)} checked"
    if not counts.times:
        click.echo(f"{checked}, no findings.", err=True)
        return
    warnings = counted(counts.times.total() - counts.errors, "warning")
    click.echo(
        f"\n{checked}: {counted(counts.errors, 'error')} and {warnings} "
        f"in {counted(counts.sources, noun)}. pearl rule CODE says more.", err=True,
    )  # fmt: skip


@click.command("fmt", epilog="Example:  pearl fmt my.plan --diff")
@click.argument("paths", nargs=-1, required=True)
@click.option("--check", "only_check", is_flag=True, help="Change nothing; exit 1 if a file would.")
@click.option("--diff", "only_diff", is_flag=True, help="Change nothing; print what would change.")
@shared("json")
def fmt_command(
    paths: tuple[str, ...], only_check: bool, only_diff: bool, options: Options
) -> None:
    """Rewrite PATHS (.plan and .actions files, or folders of them) in canonical form; with -,
    read standard input and print. Text that is no part of a plan becomes comments. A file that
    cannot be read, or with a line that cannot, stays as it is and is named."""
    from pearl.cli.inputs import each_input
    from pearl.lang.formatter import format_library, format_plan

    changed: list[str] = []
    unreadable: list[InputError] = []
    rows: set[str] = set()
    diff = ""
    printed: str | None = None
    dry = only_check or only_diff
    for item in list(each_input(paths, unreadable.append)):
        name, text = item.source.name, item.source.text
        if item.row:
            file = name.rpartition(":")[0]
            if file not in rows:
                unreadable.append(InputError(f"{file}: rows of a .jsonl file are not formatted."))
            rows.add(file)
            continue
        try:
            form = format_library if item.kind is TextKind.LIBRARY else format_plan
            formatted = form(item.source)
        except InputError as error:
            unreadable.append(error)
            continue
        if formatted != text:
            changed.append(name)
            diff += _diff(item.source, formatted)
        if not dry and name == "-":
            printed = formatted
        elif not dry and formatted != text:
            write(name, formatted)
            if not options.as_json:
                click.echo(f"formatted {printable(name)}", err=True)
    if options.as_json:
        emit_json(
            {
                "changed": changed,
                "unreadable": [str(error) for error in unreadable],
                "diff": diff if only_diff else None,
                "text": printed,
            }
        )
    elif only_diff:
        _show_diff(diff)
    elif only_check:
        for name in changed:
            click.echo(f"would change {printable(name)}")
    elif printed is not None:
        emit(printed)
    warn(*map(str, unreadable))
    raise click.exceptions.Exit(1 if unreadable or (changed and dry) else 0)


@click.command("rule", epilog="Example:  pearl rule PRL201")
@click.argument("code", default="")
@shared("json")
def rule_command(code: str, options: Options) -> None:
    """Explain the rule CODE (PRL201, or its name); without CODE, list all rules."""
    from pearl.lint.rules import RULES

    def summary(rule: Rule) -> dict[str, object]:
        return {
            "code": rule.code,
            "name": rule.name,
            "severity": str(rule.severity),
            "enabled": rule.enabled,
            "summary": rule.doc.strip().splitlines()[0],
        }

    if not code:
        ordered = sorted(RULES, key=lambda rule: rule.code)
        offs = {True: "", False: "  (off unless selected)"}
        lines = (
            f"{rule.code}  {rule.name:22} {rule.severity:8} {summary(rule)['summary']}"
            f"{offs[rule.enabled]}"
            for rule in ordered
        )
        tell([summary(rule) for rule in ordered], options.as_json, lines)
        return
    named = [rule for rule in RULES if code.upper() == rule.code or code.lower() == rule.name]
    if not named:
        raise InputError(f"There is no rule {code}: pearl rule lists them.")
    rule = named[0]
    if options.as_json:
        emit_json({**summary(rule), "documentation": rule.doc.strip()})
        return
    off = "" if rule.enabled else ", off unless selected"
    click.echo(click.style(f"{rule.code} {rule.name} ({rule.severity}{off})\n", bold=True))
    click.echo(rule.doc.strip())


@click.command("actions", epilog="Example:  pearl actions --search conflict")
@click.option("--search", default="", metavar="WORDS", help="Only actions that match, best first.")
@shared("library", "json")
def actions_command(search: str, options: Options) -> None:
    """List every action that plans may call, with its definition."""
    from pearl.lang.library import search_actions

    library = load(options.libraries)
    matches = search_actions(library, search) if search.strip() else list(library.actions.values())
    if not matches and not options.as_json:
        raise NoAnswer(f"No action matches {search}: try another word, or fewer.")
    data, lines = [], []
    for action in matches:
        data.append(action_object(action))
        builtin = " (builtin)" if action.is_builtin else ""
        head = click.style(printable(action.signature), bold=True)
        lines.append(f"{head} -> {action.returns}{builtin}\n    {printable(action.doc)}".rstrip())
    tell(data, options.as_json, lines)
    raise click.exceptions.Exit(0 if matches else 1)


def action_object(action: Action) -> dict[str, Any]:
    """An action as JSON data."""
    return {
        "name": action.name,
        "signature": action.signature,
        "returns": action.returns,
        "definition": action.doc,
        "aliases": list(action.aliases),
        "builtin": action.is_builtin,
    }


@click.command(
    "grammar", epilog="Example:  pearl grammar --library my.actions --form gbnf > plans.gbnf"
)
@click.option(
    "--steps", default=8, show_default=True, type=click.IntRange(1, 50), metavar="N",
    help="The most steps of a plan.",
)  # fmt: skip
@click.option(
    "--new-actions", default=0, show_default=True, type=click.IntRange(0, 20), metavar="N",
    help="How many actions of its own a plan may declare.",
)  # fmt: skip
@click.option(
    "--form", default="lark", show_default=True, type=click.Choice(["lark", "gbnf", "ebnf"]),
    help="For OpenAI and llguidance, for llama.cpp, or for xgrammar (SGLang, vLLM).",
)  # fmt: skip
@shared("library", "json")
def grammar_command(steps: int, new_actions: int, form: str, options: Options) -> None:
    """Print a grammar of plans that call the library's actions and pass the checker without an
    error, for a server that constrains what a model writes."""
    from pearl.lang.plan_grammar import plan_grammar

    grammar = plan_grammar(load(options.libraries), steps, new_actions)
    text = {"lark": grammar.lark, "gbnf": grammar.gbnf, "ebnf": grammar.ebnf}[form]
    if options.as_json:
        emit_json({"form": form, "steps": steps, "new_actions": new_actions, "grammar": text})
    else:
        emit(text)


@click.command("lsp", epilog="Example:  pearl lsp --library my.actions")
@shared("library")
@click.option(
    "--json", "as_json", is_flag=True, help="Only print what the server answers, for machines."
)
def lsp_command(as_json: bool, options: Options) -> None:
    """Answer an editor on standard input and output: findings, fixes, completion, renaming.

    Editors start it themselves (docs/editor.md). What a plan is checked with is what pearl lint
    in its folder would take.
    """
    from pearl.cli.inputs import read_config, selection_for

    try:
        from pearl.lsp.server import ANSWERS, serve
        from pearl.lsp.workspace import Settings
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise InputError(f"pearl lsp needs pygls: {install_command('lsp')}.") from None
    if as_json:
        emit_json({"answers": sorted(ANSWERS)})
        return
    await_program("lsp", "an editor")

    def settings(folder: Path) -> Settings:
        """As ``pearl lint`` has them in a folder."""
        chosen = options.libraries or read_config(folder).library
        return Settings(chosen, selection_for((), (), folder))

    closed = serve(settings)
    raise click.exceptions.Exit(0 if closed else 1)
