"""Commands for the plan language: ``fmt``, ``migrate``, ``rule``, ``actions``, ``grammar``,
``graph``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from pearl.cli import NoAnswer, warn
from pearl.cli.inputs import (
    Input,
    each_input,
    folder_of,
    load,
    names_run,
    open_run,
    own_libraries,
    warn_of_library,
)
from pearl.cli.options import Options, shared
from pearl.cli.output import (
    check_ending,
    check_output,
    deliver,
    diff_of,
    emit,
    emit_json,
    show_diff,
    tell,
)
from pearl.lang.errors import InputError
from pearl.lang.output_files import write
from pearl.lang.source import Source, TextKind, read_bytes, read_plan
from pearl.lang.text import counted, printable

if TYPE_CHECKING:
    from pearl.lang.ast import Action, Plan
    from pearl.lang.rewriting import Migration
    from pearl.lint.rules.base import Rule

_FORMS = {
    ".mmd": "mermaid", ".mermaid": "mermaid", ".md": "mermaid", ".txt": "mermaid", ".svg": "svg",
}  # fmt: skip
"""The form of a graph, by the ending of its file."""


def _refuse_to_hide(source: Source, formatted: str) -> None:
    """Refuse a library whose canonical form would hide a line that lint reports, as it would become
    part of the definition above it."""
    from pearl.lint.checker import Selection, check_library

    lines = Selection(select=("PRL505",))
    before, after = (check_library(each, lines) for each in (source, Source("", formatted)))
    if len(after) < len(before):
        line, _ = source.position(before[0].span.start)
        raise InputError(f"{source.name}:{line}: {before[0].message} {before[0].help}")


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
    from pearl.lang.rewriting import format_library, format_plan

    changed: list[str] = []
    unreadable: list[InputError] = []
    rows: set[str] = set()
    diff = ""
    printed: str | None = None
    dry = only_check or only_diff
    for item in list(each_input(paths, unreadable.append)):
        name, text = item.source.name, item.source.text
        if item.row:
            rows.add(item.file)
            continue
        try:
            form = format_library if item.kind is TextKind.LIBRARY else format_plan
            formatted = form(item.source)
            if item.kind is TextKind.LIBRARY and formatted != text:
                _refuse_to_hide(item.source, formatted)
        except InputError as error:
            unreadable.append(error)
            continue
        if formatted != text:
            changed.append(name)
            diff += diff_of(item.source, formatted)
        if not dry and name == "-":
            printed = formatted
        elif not dry and formatted != text:
            write(name, formatted)
            if not options.as_json:
                click.echo(f"formatted {printable(name)}", err=True)
    messages = (f"{file}: rows of a .jsonl file are not formatted." for file in sorted(rows))
    unreadable += map(InputError, messages)
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
        show_diff(diff)
    elif only_check:
        for name in changed:
            click.echo(f"would change {printable(name)}")
    elif printed is not None:
        emit(printed)
    warn(*map(str, unreadable))
    raise click.exceptions.Exit(1 if unreadable or (changed and dry) else 0)


@click.command(
    "migrate", epilog="Example:  pearl migrate old.plan --library small.actions -o new.plan"
)
@click.argument("paths", nargs=-1, required=True)
@shared("library", "output")
@click.option("--write", "in_place", is_flag=True, help="Write each plan back to its own file.")
@shared("json")
def migrate_command(paths: tuple[str, ...], in_place: bool, options: Options) -> None:
    """Rewrite PATHS: .plan files, folders of them, .jsonl files whose rows have a "plan", or -
    for standard input. A call of an action that the library replaces becomes a call of the
    action that replaces it; all else stays as it is. What cannot be read is named, and the other
    plans are rewritten."""
    from pearl.lang.diagnostics import errors_of
    from pearl.lang.parser import parse
    from pearl.lang.rewriting import migrate
    from pearl.lint.checker import check_for_person
    from pearl.lint.render.machine_readable import as_object

    check_output(options.output, "plan")
    unreadable: list[InputError] = []
    inputs = each_input(paths, unreadable.append)
    plans = [item for item in inputs if item.kind is TextKind.PLAN]
    files = list(dict.fromkeys(plan.file for plan in plans))
    if not files and not unreadable:
        raise InputError(f"{paths[0]} holds no plan: name a .plan file.")
    if options.output and in_place:
        raise InputError("-o and --write exclude each other: give one of them.")
    if len(files) > 1 and not in_place and (options.output or not options.as_json):
        raise InputError(f"{len(files)} files: add --write to write each of them back.")
    # Cached, so that findings in a library are printed once.
    library_of = cache(load)
    done: list[_PlanMigration] = []
    for plan in plans:
        warn_of_library(plan.source, options.libraries)
        library = library_of(own_libraries(plan.source, options.libraries), folder_of(plan.source))
        migrated = migrate(plan.source, library)
        source = Source(plan.source.name, migrated.text)
        findings = errors_of(check_for_person(parse(source), library))
        errors = [as_object(each, source) for each in findings]
        done.append(_PlanMigration(plan, migrated, errors))
    # `groupby` suffices, as the plans of a file follow each other.
    by_file = groupby(done, lambda result: result.plan.file)
    texts = {file: _migrated(file, [*results]) for file, results in by_file}
    if in_place:
        rewritten = {result.plan.file for result in done if result.migrated.changes}
        for file, text in texts.items():
            if file == "-":
                emit(text)
            elif file in rewritten:
                write(file, text)
    elif files and (options.output or not options.as_json):
        emit(texts[files[0]], options.output)
    changed = sum(bool(result.migrated.changes) for result in done)
    clean = sum(not result.errors for result in done)
    if options.as_json:
        objects = [result.as_object() for result in done]
        messages = [str(error) for error in unreadable]
        emit_json({"plans": objects, "changed": changed, "clean": clean, "unreadable": messages})
    elif files:
        for line in (line for result in done for line in result.lines()):
            click.echo(printable(line), err=True)
        steps = counted(sum(len(result.migrated.changes) for result in done), "step")
        count = counted(len(done), "plan")
        click.echo(f"{count}: {changed:,} changed, in {steps}; {clean:,} without errors.", err=True)
        if changed and not (in_place or options.output or files[0] == "-"):
            click.echo(f"{printable(files[0])} is as it was: --write writes it back.", err=True)
    warn(*map(str, unreadable))
    problems = unreadable or any(result.migrated.problems or result.errors for result in done)
    raise click.exceptions.Exit(1 if problems else 0)


@dataclass(frozen=True, slots=True)
class _PlanMigration:
    """A plan with its migration, and the errors that are left, as JSON data."""

    plan: Input
    migrated: Migration
    errors: Sequence[Mapping[str, Any]]

    def lines(self) -> Iterator[str]:
        """The migration in lines for people."""
        name, changes = self.plan.source.name, self.migrated.changes
        if changes:
            renamed = ", ".join(
                f"{edit.old} is {edit.new}{' (arguments too)' if edit.mapped else ''}"
                for edit in dict.fromkeys(changes)
            )
            yield f"{name}: {counted(len(changes), 'step')} changed: {renamed}."
        for problem in self.migrated.problems:
            yield f"{name}: {problem}"
        if self.errors:
            errors = counted(len(self.errors), "error")
            yield f"{name}: {errors} left: pearl lint with the same --library says which."

    def as_object(self) -> dict[str, Any]:
        """The migration as JSON data."""
        return {
            "plan": self.plan.source.name,
            "text": self.migrated.text,
            "changes": [
                {"step": edit.step, "old": edit.old, "new": edit.new, "arguments": edit.mapped}
                for edit in self.migrated.changes
            ],
            "problems": list(self.migrated.problems),
            "findings": list(self.errors),
        }


def _migrated(file: str, results: Sequence[_PlanMigration]) -> str | bytes:
    """A file with its plans rewritten; rows that cannot be read are unchanged."""
    if not results[0].plan.row:
        return results[0].migrated.text
    lines = read_bytes(file, "plan").split(b"\n")
    for result in (result for result in results if result.migrated.changes):
        at = int(result.plan.source.name.rpartition(":")[2]) - 1
        row = with_plan(lines[at].decode(), result.migrated.text)
        lines[at] = row.encode("utf-8", "replace")
    return b"\n".join(lines)


def with_plan(row: str, plan: str) -> str:
    """A row of JSON, an object with a ``plan``, with that replaced and every other character
    unchanged."""
    decoder = json.JSONDecoder()
    at = row.index("{") + 1
    start = end = -1
    while row[at := _skip(row, at)] != "}":
        key, at = decoder.raw_decode(row, at)
        at = _skip(row, at)
        _, after = decoder.raw_decode(row, at)
        if key == "plan":
            start, end = at, after
        at = after
    return row[:start] + json.dumps(plan, ensure_ascii=row.isascii()) + row[end:]


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n,:":
        at += 1
    return at


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
            f"{rule.code}  {rule.name:22} {rule.severity:8} "
            f"{_marked_once(str(summary(rule)['summary']))}{offs[rule.enabled]}"
            for rule in ordered
        )
        tell([summary(rule) for rule in ordered], options.as_json, lines)
        return
    names = (code.lower(), f"prl{code}")
    named = [rule for rule in RULES if rule.code.lower() in names or rule.name in names]
    if not named:
        raise InputError(f"There is no rule {code}: pearl rule lists them.")
    rule = named[0]
    if options.as_json:
        emit_json({**summary(rule), "documentation": rule.doc.strip()})
        return
    off = "" if rule.enabled else ", off unless selected"
    click.echo(click.style(f"{rule.code} {rule.name} ({rule.severity}{off})\n", bold=True))
    click.echo(_marked_once(rule.doc.strip()))


def _marked_once(doc: str) -> str:
    """A docstring with single backticks in place of double ones; fences stay."""
    return re.sub(r"(?<!`)``(?!`)", "`", doc)


@click.command("actions", epilog="Example:  pearl actions --search conflict")
@click.option("--search", default="", metavar="WORDS", help="Only actions that match, best first.")
@shared("library", "json")
def actions_command(search: str, options: Options) -> None:
    """List every action that plans may call, with its definition."""
    from pearl.lang.library import search_actions

    library = load(options.libraries)
    matches = search_actions(library, search) if search.strip() else list(library.actions.values())
    if not matches and not options.as_json:
        raise NoAnswer(f"No action matches {search}: try another word.")
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
    check_output(options.output, "graph")
    endings = " ".join(ending for ending, of in _FORMS.items() if form in (None, of))
    check_ending(options.output, endings, f"a graph as {form}" if form else "a graph")
    form = form or _FORMS.get(Path(options.output).suffix.lower(), "mermaid")
    if plan != "-" and not os.path.exists(plan):
        from pearl.strategies import fsm_states as picture

        if machine := picture.MACHINES.get(plan):
            _draw(picture, machine, partial(picture.as_object, machine), form, options)
            return
    if names_run(plan):
        _draw_plan(_run_plan(plan, options), form, options)
        return
    from pearl.lang.ast import DOCUMENT, step_refs
    from pearl.lang.parser import parse

    if plan.endswith(".jsonl"):
        raise InputError(f"{plan} has many plans: name one plan, or a question of a run as RUN/ID.")
    if plan.endswith(".actions"):
        raise InputError(f"{plan} is a library of actions: name a plan, which calls them.")
    parsed = parse(read_plan(plan))
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
    _draw_plan(parsed.plan, form, options)


def _run_plan(name: str, options: Options) -> Plan:
    """The plan of a run, including the steps of its inner frames."""
    from pearl.runtime.trace import as_plan, last_try, read_tree
    from pearl.viewer.journal_tree import read_journal

    run, _, item = name.partition("/")
    with open_run(run, options.store, options.output) as (engine, record):
        tree = read_tree(last_try(read_journal(engine, record, item)))
    if tree is None or not tree.plan.steps:
        hint = f": name a question of it, as {record.name}/ID" if record.has_rows else ""
        asked = f"The question {item} of the run {record.name}" if item else f"The run {run}"
        raise NoAnswer(f"{asked} has no steps to draw{'' if item else hint}.")
    return as_plan(tree)


def _draw(
    pictures: ModuleType, graph: object, data: Callable[[], Any], form: str, options: Options
) -> None:
    """Draw a graph with a module's ``svg`` or ``mermaid``, or print it as JSON data."""
    draw = pictures.svg if form == "svg" else pictures.mermaid
    deliver(options, partial(draw, graph), data)


def _draw_plan(plan: Plan, form: str, options: Options) -> None:
    from pearl.lang import graph

    def data() -> dict[str, Any]:
        needs = graph.dependencies(plan.steps)
        depth = graph.levels(needs)
        steps = [
            {
                "name": step.name,
                "action": step.action,
                "uses": list(needs[step.name]),
                "document": graph.reads_document(step),
                "level": depth[step.name],
            }
            for step in plan.steps
        ]
        return {"steps": steps, "answer": list(graph.outputs(plan))}

    _draw(graph, plan, data, form, options)
