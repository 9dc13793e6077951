"""What ``ask`` and ``run`` have in common: running, showing, failing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pearl.cli.failures import NoAnswer, Stopped
from pearl.cli.options import emit_json

if TYPE_CHECKING:
    from pathlib import Path

    from pearl.answer import Answer
    from pearl.source import Source

_T = TypeVar("_T")


def settle(work: Callable[[], Coroutine[Any, Any, _T]], runs: Path) -> _T:
    """Run to the end; what went wrong on the way becomes one line.

    Args:
        work: what to run.
        runs: where its journal is kept.

    Raises:
        NoAnswer: the model or a step failed.
        Stopped: the person did.
    """
    from pearl.llm import ModelError
    from pearl.runtime import RunError

    before = _journals(runs)
    try:
        return asyncio.run(work())
    except (ModelError, RunError) as error:
        raise NoAnswer(str(error), _kept(_journals(runs) - before)) from None
    except KeyboardInterrupt:
        kept = _kept(_journals(runs) - before)
        where = f" What was done until then: {kept['journal']}" if kept else ""
        raise Stopped(f"Stopped.{where}", kept) from None


def _journals(runs: Path) -> set[Path]:
    return set(runs.glob("*/journal.jsonl"))


def _kept(new: set[Path]) -> dict[str, Any]:
    """The run that was made meanwhile; several may be, side by side, and then none is named."""
    if len(new) != 1:
        return {}
    journal = new.pop()
    return {"run": journal.parent.name, "journal": str(journal)}


def show(answer: Answer, document: Source, *, as_json: bool) -> None:
    """Print an answer for a person, or as JSON."""
    if as_json:
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


def as_object(answer: Answer, document: Source) -> dict[str, Any]:
    """An answer as JSON data; spans are character offsets in the document."""
    return {
        "question": answer.question,
        "answer": answer.text,
        "words": answer.words,
        "option": {"letter": answer.option.letter, "text": answer.option.text}
        if answer.option
        else None,
        "evidence": [
            {
                "text": quote.text,
                "span": list(quote.span) if quote.span else None,
                "line": document.position(quote.span.start)[0] if quote.span else None,
                "step": quote.step,
            }
            for quote in answer.evidence
        ],
        "plan": answer.plan,
        "fallback": answer.fallback,
        "run": answer.run,
        "model": answer.model,
        "notice": answer.notice,
        "calls": answer.calls,
        "usage": {
            "prompt_tokens": answer.usage.prompt_tokens,
            "completion_tokens": answer.usage.completion_tokens,
            "cached_tokens": answer.usage.cached_tokens,
        },
    }


def _title(text: str) -> None:
    click.echo(click.style(f"\n{text}", bold=True))
