"""``pearl ask``, and its two halves: ``pearl plan`` and ``pearl run``."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from pearl.cli import NoAnswer
from pearl.cli.inputs import (
    folder_of,
    library_for,
    load_sound,
    own_libraries,
    warn_of_library,
    warn_of_passed_over,
)
from pearl.cli.options import Options, choose, shared
from pearl.cli.output import check_output, deliver, emit_json, follow_up, on_screen, settle
from pearl.lang.errors import InputError
from pearl.lang.source import read_plan, read_source
from pearl.lang.text import counted, passage_line, printable, printable_lines
from pearl.retrieval.converters import read_documents

if TYPE_CHECKING:
    from pearl.answer import Answer
    from pearl.models.base import Model
    from pearl.strategies.pearl import Planned


@click.command("ask", epilog='Example:  pearl ask story.txt "Why does Mara leave the lighthouse?"')
@click.argument("documents", nargs=-1, metavar="DOCUMENT...")
@click.argument("question")
@shared("option", "strategy", "tools", "library", "demos", "shown", "examples", "turns")
@shared("depth", "models", "constrain", "context", "max-cost", "max-tokens")
@shared("store", "cache", "json")
def ask_command(documents: tuple[str, ...], question: str, options: Options) -> None:
    """Answer QUESTION about DOCUMENT... (files and folders; one may be - for standard input).

    A plan is written without looking at the document, checked, and run on it
    step by step; or, with --strategy, steps are written one at a time. The
    answer comes with the passages it rests on, the plan, and a trace.
    """
    from pearl.api import ask
    from pearl.session import context_for

    if not documents:
        raise InputError('Give a document and a question about it: pearl ask story.txt "Who …?"')
    if [*documents, question].count("-") > 1:
        raise InputError("Only one of the documents and the question can be standard input.")
    if not question.strip():
        raise InputError("The question is empty: write it in quotes after the document.")
    if os.path.isfile(question) and not any(map(os.path.exists, documents)):
        raise InputError(
            f'{question} is a file, and the document comes first: pearl ask {question} "Why …?"'
        )
    lost = [path for path in documents if path != "-" and not os.path.exists(path)]
    given = [path for path in documents if path not in lost]
    if lost and given and " " not in question:
        wrong = "does not exist: check the path of the document. If it is a word"
        if len(lost) > 1:
            wrong = "do not exist: check the paths of the documents. If they are words"
        raise InputError(
            f"{', '.join(lost)} {wrong} of the question, put that in quotes: "
            f'pearl ask {given[0]} "Why …?"'
        )
    library = library_for(options.strategy, options.libraries)
    model = choose(options.model, options.planner, options.reader)
    source = read_documents(documents)
    warn_of_passed_over(documents, "name the file itself")
    if question == "-":
        question = read_source("-", "question").text
    work = partial(
        ask,
        source,
        question,
        options=options.choices,
        library=library,
        demonstrations=options.demos,
        shown=options.shown,
        context=context_for(model, options.context, options.window),
        strategy=options.strategy,
        tools=options.tools,
        constrain=options.constrain,
        examples=options.examples,
        turns=options.turns,
        depth=options.depth,
        max_cost=options.max_cost,
        max_tokens=options.max_tokens,
    )
    answer, _ = settle(work, model, options)
    show(answer, as_json=options.as_json)


@click.command(
    "plan", epilog='Example:  pearl plan "Why does Mara leave the lighthouse?" -o mara.plan'
)
@click.argument("question")
@shared("output", "library", "demos", "shown", "model", "planner", "constrain")
@shared("store", "cache", "json")
def plan_command(question: str, options: Options) -> None:
    """Write a plan for QUESTION (or - for standard input). The document is never shown
    to the planner."""
    from pearl.api import write_plan
    from pearl.lang.diagnostics import SourceFindings
    from pearl.lint.render import terminal
    from pearl.models.base import OFFLINE
    from pearl.models.routing import planner_of
    from pearl.strategies.registry import NONE_SHOWN

    check_output(options.output, "plan")
    if question == "-":
        question = read_source("-", "question").text
    library = load_sound(options.libraries)
    model = choose(options.planner or options.model)
    work = partial(
        write_plan,
        question,
        library=library,
        demonstrations=options.demos,
        shown=options.shown,
        constrain=options.constrain,
    )
    planned, _ = settle(work, model, options)
    result = planned_object(planned, model)
    text = result["plan"]
    for notice in (model.notice, "" if planned.demonstrations else NONE_SHOWN):
        if notice and not options.as_json:
            click.echo(notice, err=True)
    if not text:
        if not options.as_json:
            unsound = SourceFindings(planned.source, planned.diagnostics)
            click.echo(terminal.RENDERER.part(unsound), err=True)
        attempts = counted(planned.attempts, "attempt")
        advice = planned.limited or "Ask in other words, or use another model."
        if planner_of(model).name == OFFLINE:
            from pearl.models.offline import NO_ACTION

            advice = NO_ACTION
        raise NoAnswer(f"No plan was accepted after {attempts}. {advice}", result)
    deliver(options, lambda: text, lambda: result)


def planned_object(planned: Planned, model: Model) -> dict[str, Any]:
    """The result of planning, as JSON data."""
    from pearl.lang.printer import print_plan
    from pearl.lint.render.machine_readable import as_object

    return {
        "plan": print_plan(planned.plan) if planned.plan else "",
        "attempts": planned.attempts,
        "demonstrations": planned.demonstrations,
        "findings": [as_object(finding, planned.source) for finding in planned.diagnostics],
        "model": model.name,
        "notice": model.notice,
    }


@click.command("run", epilog="Example:  pearl run mara.plan story.txt")
@click.argument("plan")
@click.argument("documents", nargs=-1, required=True, metavar="DOCUMENT...")
@shared("option", "library", "model", "reader", "context", "max-cost", "max-tokens")
@shared("store", "cache", "json")
def run_command(plan: str, documents: tuple[str, ...], options: Options) -> None:
    """Run PLAN on DOCUMENT... (files and folders; one may be - for standard input)."""
    from pearl.api import run
    from pearl.lang.diagnostics import SourceFindings, errors_of
    from pearl.lang.parser import parse
    from pearl.lint.checker import check_for_person
    from pearl.lint.render import terminal
    from pearl.lint.render.machine_readable import as_object
    from pearl.session import context_for

    if [*documents, plan].count("-") > 1:
        raise InputError("Only one of the plan and the documents can be standard input.")
    model = choose(options.reader or options.model)
    source = read_plan(plan)
    warn_of_library(source, options.libraries)
    library = load_sound(own_libraries(source, options.libraries), folder_of(source))
    doc = read_documents(documents)
    warn_of_passed_over(documents, "name the file itself")
    if errors := errors_of(check_for_person(parse(source), library)):
        if not options.as_json:
            click.echo(terminal.RENDERER.part(SourceFindings(source, errors)), nl=False)
        swapped = any(path.endswith(".plan") for path in documents)
        advice = "the plan comes first" if swapped else "mend what pearl lint finds"
        raise NoAnswer(
            f"{plan} has {counted(len(errors), 'error')}, so it was not run: {advice}.",
            {"findings": [as_object(error, source) for error in errors]},
        )
    context = context_for(model, options.context, options.window)
    work = partial(
        run,
        source.text,
        doc,
        options=options.choices,
        library=library,
        context=context,
        max_cost=options.max_cost,
        max_tokens=options.max_tokens,
    )
    answer, _ = settle(work, model, options)
    show(answer, as_json=options.as_json)


def show(answer: Answer, *, as_json: bool) -> None:
    """Print an answer for a person, or as JSON."""
    if as_json:
        from pearl.answer import as_object

        emit_json(as_object(answer))
        return

    from pearl.models.base import OFFLINE
    from pearl.runtime.evidence import NEAREST, SHARING, only_quotes

    if answer.notice:
        click.echo(answer.notice, err=True)
    if answer.fallback:
        click.echo(
            "No plan passed the checker, so the question was asked directly, in one step.", err=True
        )
    hint = f" or {follow_up('runs show', answer.run)} --json" if answer.run else ""
    whole = f"--json{hint} has the whole."
    _title("Answer")
    if only_quotes(answer.text, answer.evidence):
        verdict = "are the answer"
        # Without calls, a builtin or the user's own function chose the passages.
        if answer.lacks or (answer.model == OFFLINE and answer.calls):
            # Without a question it is not known which words the passages lack.
            verdict = SHARING if answer.question and not answer.lacks else NEAREST
        if answer.evidence and not answer.grounded:
            click.echo("What the model quotes below, which is not in the document.")
        else:
            click.echo(
                f"The passages below {verdict}." if answer.evidence else "None: it is empty."
            )
    else:
        click.echo(on_screen(printable_lines(answer.words), whole))
    if answer.option:
        _title("Option")
        if not answer.option.fits:
            nearest = " The nearest:" if answer.option.named else ""
            # The offline reader understands nothing, so it cannot deny that an option fits.
            none = "What was found bears out none." + nearest
            click.echo("The nearest by its words:" if nearest and answer.guessed else none)
        if answer.option.named:
            click.echo(printable(str(answer.option)))
    places, missing = [], []
    for quote in answer.evidence:
        if quote.span:
            place = click.style(f"{quote.place}:", dim=True)
            speaker = f"{printable(quote.speaker)} … " if quote.speaker else ""
            places.append(f"{place} {speaker}{printable(passage_line(quote.text))}")
        else:
            missing.append(f"the model quotes: {printable(quote.text)}")
    _title("Evidence")
    none = "None: no passage of the document is quoted for this answer."
    click.echo(on_screen("\n".join(places) or none, whole))
    if missing:
        _title("Not in the document")
        click.echo(on_screen("\n".join(missing), whole))
    _title("Plan")
    click.echo(on_screen(printable_lines(answer.plan).rstrip(), whole))
    if answer.run:
        click.echo(click.style(f"\n{follow_up('trace', answer.run)}", dim=True))


def _title(text: str) -> None:
    click.echo(click.style(f"\n{text}", bold=True))
