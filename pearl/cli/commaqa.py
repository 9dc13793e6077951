"""``pearl learn commaqa`` and ``pearl generate commaqa``."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

import click

from pearl.cli import NoAnswer
from pearl.cli.options import Options, shared
from pearl.cli.output import check_output, emit, emit_json, tell
from pearl.jobs.progress import is_watched
from pearl.lang.errors import InputError
from pearl.lang.output_files import write
from pearl.lang.text import counted, printable

_KINDS = 10
"""The most kinds of question without an explanation that are printed."""


@click.group(
    "learn", epilog="Example:  pearl learn commaqa train.jsonl --from answers -o movies.model"
)
def learn_command() -> None:
    """Learn to decompose questions. --json is an option of each command below."""


@learn_command.command(
    "commaqa", epilog="Example:  pearl learn commaqa train.jsonl --from answers -o movies.model"
)
@click.argument("worlds", metavar="TRAIN")
@click.option(
    "--from", "source", type=click.Choice(["gold", "answers"]), required=True,
    help="What is learned from: the decompositions in the file, or questions, answers and agents "
    "alone.",
)  # fmt: skip
@click.option("-o", "--output", required=True, metavar="FILE", help="The model to write.")
@shared("json")
def commaqa(worlds: str, source: str, output: str, options: Options) -> None:
    """Learn from TRAIN, a file of CommaQA's worlds, and write a model.

    Learned from answers, no decomposition in TRAIN is looked at: agents are asked, and programs
    are sought that explain all answers of a kind of question.
    """
    from pearl.commaqa.learning import learn_from_answers, learn_from_gold
    from pearl.commaqa.model import write_model
    from pearl.commaqa.world import read_worlds

    if output == "-":
        raise InputError("The model needs a file of its own: name one with -o.")
    check_output(output, "model")
    started = time.monotonic()
    if source == "gold":
        learned = learn_from_gold(read_worlds(worlds))
    else:
        quiet = options.as_json or not is_watched()
        report = (lambda _: None) if quiet else (lambda line: click.echo(printable(line), err=True))
        learned = learn_from_answers(read_worlds(worlds), report)
    seconds = time.monotonic() - started
    if not learned.explained:
        lacking = "question with a decomposition"
        if source == "answers":
            lacking = "kind of question that programs were found for"
        raise NoAnswer(f"{worlds} has no {lacking}: nothing was learned.")
    write(output, write_model(learned.model))
    unexplained = sorted(
        (kind for kind in learned.kinds if kind.left), key=lambda kind: len(kind.left), reverse=True
    )
    data = {
        "model": output,
        "questions": learned.questions,
        "explained": learned.explained,
        "agent_calls": learned.calls,
        "seconds": seconds,
        "patterns": [
            {"question": kind.question, "seen": kind.count, "strategies": len(kind.strategies)}
            for kind in learned.model.patterns
        ],
        "left": [
            {"question": kind.pattern, "left": len(kind.left), "of": kind.questions}
            | {"stopped": kind.stopped}
            for kind in unexplained
        ],
    }
    line = (
        f"{printable(output)}: {counted(len(learned.model.patterns), 'kind')} of question, from "
        f"{learned.explained:,} of {counted(learned.questions, 'question')}, "
        f"{counted(learned.calls, 'call')} of "
        f"agents, {seconds:.1f} s"
    )
    more = [
        f"  {printable(kind.pattern)}: {len(kind.left)} of {kind.questions} not explained; "
        f"{kind.stopped or 'too few to go on'}"
        for kind in unexplained[:_KINDS]
    ]
    if rest := len(unexplained) - len(more):
        more.append(f"  and {counted(rest, 'kind')} more: --json names them")
    tell(data, options.as_json, [line, *more])


@click.command(
    "generate",
    epilog="Example:  pearl generate commaqa --schema explicit --split compgen --part test "
    "-o test.jsonl",
)
@click.argument("form", type=click.Choice(["commaqa"]), metavar="commaqa")
@click.option(
    "--schema", "name", default="", metavar="NAME|FILE",
    help="explicit, implicit, inventions, movies, numeric or throws, or a schema of yours in TOML "
    "or JSON.",
)  # fmt: skip
@click.option(
    "--split", default="iid", show_default=True, metavar="NAME",
    help="iid, or a split of the schema's: compgen holds pairs of asks out of training.",
)  # fmt: skip
@click.option(
    "--part", type=click.Choice(["train", "dev", "test"]), default="train", show_default=True,
    help="Each part has worlds of its own; test alone has what a split holds out.",
)  # fmt: skip
@click.option(
    "--questions", type=click.IntRange(1, 1_000_000), default=500, show_default=True, metavar="N",
    help="How many questions, over all worlds.",
)  # fmt: skip
@click.option(
    "--seed", type=int, default=1, show_default=True, metavar="N",
    help="The same seed gives the same bytes.",
)  # fmt: skip
@shared("output")
@click.option("--show", is_flag=True, help="Print a shipped schema, to start your own from.")
@click.option(
    "--describe", "described", default="", metavar="FILE",
    help="Make nothing: print statistics of a file of worlds.",
)  # fmt: skip
@click.option(
    "--agents", "agents_of", default="", metavar="FILE",
    help="Make no worlds: write what the agents of a file's worlds are asked and answer, one a "
    "line.",
)  # fmt: skip
@shared("json")
def generate_command(
    form: str,
    name: str,
    split: str,
    part: str,
    questions: int,
    seed: int,
    show: bool,
    described: str,
    agents_of: str,
    options: Options,
) -> None:
    """Make a file of worlds in CommaQA's published format, one a line."""
    if sum(map(bool, (name, described, agents_of))) != 1:
        raise InputError("Name a --schema to make worlds of, or a file to --describe or --agents.")
    if described:
        _describe(described, options)
        return
    if agents_of:
        _export_agents(agents_of, options)
        return
    from pearl.commaqa.generator import generate
    from pearl.commaqa.schema_reader import read_schema, shipped_text

    if show:
        check_output(options.output, "schema")
        emit(shipped_text(name), options.output)
        return
    _check(options, "file of worlds")
    started = time.perf_counter()
    rows = list(generate(read_schema(name), split, part, seed, questions))
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    seconds = time.perf_counter() - started
    generated = [question for row in rows for question in row["qa_pairs"]]
    kinds = {question["theory"] for question in generated}
    speed = round(questions / seconds * 60)
    data = {
        **rows[0]["generated"],
        "questions": len(generated),
        "worlds": len(rows),
        "kinds": len(kinds),
        "seconds": round(seconds, 3),
        "questions_a_minute": speed,
        "form": form,
        "output": options.output,
    }
    summary = (
        f"{counted(len(generated), 'question')} of {counted(len(kinds), 'kind')} in "
        f"{counted(len(rows), 'world')}, {seconds:.2f} s, {speed:,} a minute"
    )
    _emit(lines, options, summary, data)


def _check(options: Options, noun: str) -> None:
    """Check that lines can be written, before they are made."""
    if options.as_json and options.output in ("", "-"):
        raise InputError("--json tells of a file: name one with -o FILE.")
    check_output(options.output, noun)


def _emit(lines: Sequence[str], options: Options, summary: str, data: dict[str, Any]) -> None:
    """Write lines, and print a summary of them, or its data as JSON."""
    output = options.output
    emit("".join(f"{line}\n" for line in lines), output)
    to_screen = output in ("", "-")
    if options.as_json:
        emit_json(data)
    else:
        click.echo(summary if to_screen else f"{printable(output)}: {summary}", err=to_screen)


def _describe(path: str, options: Options) -> None:
    """Print statistics of a file of worlds."""
    from pearl.commaqa.generator import figures
    from pearl.commaqa.world import read_worlds

    measures = figures(read_worlds(path))
    lines = [
        f"{printable(path)}: {counted(measures['questions'], 'question')} of "
        f"{counted(measures['kinds'], 'kind')} in {counted(measures['worlds'], 'world')}\n",
        f"{'':18}{'mean':>9}{'least':>7}{'most':>7}",
    ]
    for name, row in measures.items():
        if isinstance(row, dict):
            title = name.replace("_", " ")
            lines.append(f"{title:18}{row['mean']:9,.2f}{row['least']:7,}{row['most']:7,}")
    tell({"file": path, **measures}, options.as_json, lines)


def _export_agents(path: str, options: Options) -> None:
    """Write the question-answer pairs of the agents of a file of worlds."""
    from pearl.commaqa.generator import agent_pairs
    from pearl.commaqa.world import read_worlds

    _check(options, "file of pairs")
    pairs = [pair for world in read_worlds(path) for pair in agent_pairs(world)]
    agents = sorted({pair["agent"] for pair in pairs})
    data = {"output": options.output, "pairs": len(pairs), "agents": agents}
    summary = f"{counted(len(pairs), 'pair')} of {counted(len(agents), 'agent')}"
    lines = [json.dumps(pair, ensure_ascii=False) for pair in pairs]
    _emit(lines, options, summary, data)
