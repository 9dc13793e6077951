"""What ``ask`` and ``run`` have in common: running, showing, failing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pearl.cli.failures import NoAnswer, Stopped
from pearl.cli.options import emit_json

if TYPE_CHECKING:
    from pearl.answer import Answer
    from pearl.source import Source

_T = TypeVar("_T")


def settle(work: Callable[[Callable[[str], None]], Coroutine[Any, Any, _T]]) -> _T:
    """Run to the end; what went wrong on the way becomes one line.

    Args:
        work: what to run, given what is to be told the run's name.

    Raises:
        NoAnswer: the model or a step failed.
        Stopped: the person did.
    """
    from pearl.llm import ModelError
    from pearl.runtime import RunError

    names: list[str] = []
    try:
        return asyncio.run(work(names.append))
    except (ModelError, RunError) as error:
        raise NoAnswer(str(error), _named(names)) from None
    except KeyboardInterrupt:
        kept = f" What was done until then: pearl runs show {names[0]}" if names else ""
        raise Stopped(f"Stopped.{kept}", _named(names)) from None


def _named(names: list[str]) -> dict[str, Any]:
    return {"run": names[0]} if names else {}


def show(answer: Answer, document: Source, *, as_json: bool) -> None:
    """Print an answer for a person, or as JSON."""
    if as_json:
        from pearl.answer import as_object

        emit_json(as_object(answer, document))
        return
    from pearl.screen import printable, printable_lines

    if answer.notice:
        click.echo(answer.notice, err=True)
    if answer.fallback:
        click.echo(
            "No plan passed the checker, so the question was asked directly, in one step.", err=True
        )
    _title("Answer")
    click.echo(printable_lines(answer.words) or "The passages below are the answer.")
    if answer.option:
        _title("Option")
        click.echo(f"{answer.option.letter}. {printable(answer.option.text)}")
    found = [quote for quote in answer.evidence if quote.span]
    if found:
        _title("Evidence")
        for quote in found:
            line, _ = document.position(quote.span.start if quote.span else 0)
            text = printable(" ".join(quote.text.split()))
            click.echo(f"{click.style(f'line {line}:', dim=True)} {text}")
    missing = [quote for quote in answer.evidence if not quote.span]
    if missing:
        _title("Not in the document")
        for quote in missing:
            click.echo(f"the model quotes: {printable(quote.text)}")
    _title("Plan")
    click.echo(printable_lines(answer.plan).rstrip())
    if answer.run:
        click.echo(click.style(f"\npearl trace {answer.run}", dim=True))


def _title(text: str) -> None:
    click.echo(click.style(f"\n{text}", bold=True))
