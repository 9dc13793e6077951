"""``pearl learn commaqa``"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from pearl.cli import NoAnswer
from pearl.cli.options import check_output, counted, emit_json, json_option, write

if TYPE_CHECKING:
    from pearl.commaqa.learn import Kind, Learned


@click.group(
    "learn", short_help="Learn to decompose questions, from decompositions or answers.",
    epilog="Example:  pearl learn commaqa train.jsonl --from answers -o movies.model",
)  # fmt: skip
def command() -> None:
    """Learn to decompose questions. --json is an option of each command below."""


@command.command(
    "commaqa", epilog="Example:  pearl learn commaqa train.jsonl --from answers -o movies.model"
)
@click.argument("worlds", metavar="TRAIN")
@click.option(
    "--from", "source", type=click.Choice(["gold", "answers"]), required=True,
    help="What is learned from: the decompositions in the file, or questions, answers and agents "
    "alone.",
)  # fmt: skip
@click.option("-o", "--output", required=True, metavar="FILE", help="The model to write.")
@json_option
def commaqa(worlds: str, source: str, output: str, as_json: bool) -> None:
    """Learn from TRAIN, a file of CommaQA's worlds, and write a model.

    Learned from answers, no decomposition in TRAIN is looked at: agents are asked, and programs
    are sought that explain all answers of a kind of question.
    """
    from pearl.commaqa.learn import learn_from_answers, learn_from_gold
    from pearl.commaqa.learned import write_model
    from pearl.commaqa.world import read_worlds
    from pearl.lang.source import InputError

    if output == "-":
        raise InputError("The model needs a file of its own: name one with -o.")
    check_output(output, worlds)
    started = time.monotonic()
    if source == "gold":
        learned = learn_from_gold(read_worlds(worlds))
    else:
        quiet = as_json or sys.stderr is None or not sys.stderr.isatty()
        learned = learn_from_answers(read_worlds(worlds), told=_nothing if quiet else _tell)
    seconds = time.monotonic() - started
    if not learned.explained:
        raise NoAnswer(f"{worlds} has no {_LACKING[source]}: nothing was learned.")
    write(output, write_model(learned.model))
    if as_json:
        emit_json(_as_object(learned, output, seconds))
    else:
        _show(learned, output, seconds)


_LACKING = {
    "gold": "question with a decomposition",
    "answers": "kind of question that programs were found for",
}


def _nothing(_: str) -> None:
    pass


def _tell(line: str) -> None:
    from pearl.lang.text import printable

    click.echo(printable(line), err=True)


def _show(learned: Learned, output: str, seconds: float) -> None:
    from pearl.lang.text import printable

    click.echo(
        f"{printable(output)}: {counted(len(learned.model.patterns), 'kind')} of question, from "
        f"{learned.explained:,} of {learned.questions:,} questions, {learned.calls:,} calls of "
        f"agents, {seconds:.1f} s"
    )
    for kind in learned.kinds:
        if kind.found.left:
            click.echo(
                f"  {printable(kind.pattern)}: {len(kind.found.left)} of {kind.questions} not "
                f"explained; {kind.found.stopped or 'too few to go on'}"
            )


def _as_object(learned: Learned, output: str, seconds: float) -> dict[str, Any]:
    return {
        "model": output,
        "questions": learned.questions,
        "explained": learned.explained,
        "agent_calls": learned.calls,
        "seconds": seconds,
        "patterns": [
            {"question": one.question, "seen": one.seen, "strategies": len(one.strategies)}
            for one in learned.model.patterns
        ],
        "left": [_left(kind) for kind in learned.kinds if kind.found.left],
    }


def _left(kind: Kind) -> dict[str, Any]:
    return {
        "question": kind.pattern,
        "left": len(kind.found.left),
        "of": kind.questions,
        "stopped": kind.found.stopped,
    }
