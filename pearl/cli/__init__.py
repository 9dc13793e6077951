"""The command line, and the exceptions with which commands end. A new command is a file in this
folder and a line in `COMMANDS`."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Any

import click

from pearl.lang.errors import InputError, LinesError
from pearl.lang.text import json_text, one_line, printable


class Failure(click.ClickException):
    """A message of one line; ``--json`` prints it as ``error``, beside ``data``."""

    def __init__(self, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.data = data or {}


class NoAnswer(Failure):
    """The command did its work and found no answer."""

    exit_code = 1


class Stopped(Failure):
    """The user stopped the command."""

    exit_code = 130


COMMANDS = {
    "ask": ("ask", "Plan, run, and answer with evidence."),
    "plan": ("ask", "Only write the plan."),
    "run": ("ask", "Only execute a plan."),
    "batch": ("batch", "Answer a file of questions; stop it any time, it goes on."),
    "estimate": ("batch", "What a batch takes, before anything is sent."),
    "runs": ("runs", "What was run, what it came to, what differs."),
    "view": ("serve", "Runs and evaluations as pages, followed while they run."),
    "cache": ("runs", "The cache of replies: its size, and pruning it."),
    "index": ("tools", "Make a corpus searchable, and search it."),
    "mine": ("mining", "Learn a library of actions from example questions."),
    "condense": ("mining", "Make an action library smaller."),
    "migrate": ("language", "Rewrite plans for a library that replaces their actions."),
    "refine": ("mining", "Make example plans that were executed and led to the right answer."),
    "learn": ("commaqa", "Learn to decompose questions, from decompositions or answers."),
    "eval": ("eval", "Evaluate methods on a data set, side by side."),
    "generate": ("commaqa", "Make questions, with worlds, answers and decompositions."),
    "tools": ("tools", "Tools that questions may use: check them, and call one."),
    "lint": ("lint", "Check plans and action libraries."),
    "fmt": ("language", "Write plans in canonical form."),
    "rule": ("language", "Say what a rule means, with an example."),
    "graph": ("language", "Draw which step uses which."),
    "trace": ("runs", "Show a finished run as a plan, with values."),
    "replay": ("runs", "Run recorded plans on their recorded step outputs."),
    "report": ("eval", "What an evaluation came to, as text, Markdown, LaTeX or HTML."),
    "replicate": ("eval", "The tables of recorded outcomes, without a model."),
    "review": ("serve", "A page on which several people judge plans."),
    "actions": ("language", "List the action library, or search it."),
    "grammar": ("language", "Print the grammar of the plans that lint passes."),
    "lsp": ("serve", "Serve an editor, by the Language Server Protocol."),
    "mcp": ("serve", "Serve other programs, by the Model Context Protocol."),
}
"""For each command, the file in this folder that has it as ``NAME_command``, and what it does."""


class Commands(click.Group):
    """Loads a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        file, does = COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(f"pearl.cli.{file}"), f"{cmd_name}_command")
        command.short_help = does
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, does) for name, (_, does) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, 1)
            hint = f" Do you mean pearl {near[0]}?" if near else ""
            raise click.UsageError(f"There is no command {args[0]}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 - as click's
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Stopped("Stopped.") from None


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 fine, 1 findings or no answer, 2 wrong use, 130 stopped.",
)
@click.version_option(package_name="pearl", prog_name="pearl")
def pearl() -> None:
    """Answer hard questions about long documents: plan, check, run, show the evidence.

    Start with:  pearl ask story.txt "Why does Mara leave the lighthouse?"
    """


def main() -> None:
    """The entry point: every known error becomes one line and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file's name or a row of JSON may hold what no encoding can write.
            stream.reconfigure(errors="backslashreplace")
    colour = False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None
    try:
        code = _run(colour)
    except OSError as error:
        if error.errno is None:
            raise  # It does not come from the operating system.
        # Nothing can be written to the screen or pipe; buffered output would raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = NoAnswer.exit_code
        if not isinstance(error, BrokenPipeError):
            warn(f"The output cannot be written: {error.strerror}.")
    sys.exit(code)


def _run(colour: bool | None) -> int:
    """Run the command, report errors, and return the exit code; raises `OSError` where the output
    cannot be written."""
    try:
        code = pearl.main(standalone_mode=False, prog_name="pearl", color=colour)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except (click.ClickException, InputError) as error:
        return _report_error(error)
    except OSError as error:
        if error.filename:
            message = (
                f"{error.filename} cannot be used ({error.strerror}): check its path, and who may "
                "use it."
            )
        elif isinstance(error, FileNotFoundError) and not _has_folder():
            message = "The current folder was deleted: cd to another."
        else:
            raise
        return _report_error(InputError(message))
    return code if isinstance(code, int) else 0


def _has_folder() -> bool:
    """Whether the current folder still exists."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def _report_error(error: click.ClickException | InputError) -> int:
    """Report an error as a line, or with ``--json`` also as an object, and return the exit code."""
    message = str(error)
    code = 2
    more: dict[str, Any] = {}
    if isinstance(error, click.ClickException):
        message, code = error.format_message(), error.exit_code
    if isinstance(error, click.BadParameter):
        # click calls numbers by its own classes.
        message = message.replace(" valid integer range", " whole number")
        message = message.replace(" valid integer", " whole number")
        message = message.replace(" valid float range", " number")
    if isinstance(error, click.UsageError) and error.ctx:
        message = message.strip().rstrip(".")
        # click's own question "Did you mean …?" ends the sentence already.
        stop = "" if message.endswith(("?", "?)")) else "."
        message = f"{message}{stop} Try: {error.ctx.command_path} --help"
    if isinstance(error, Failure):
        more = error.data
    message = one_line(message)
    lines = error.lines if isinstance(error, LinesError) else (message,)
    if "--json" in sys.argv[1:]:
        click.echo(json_text({"error": message, **more}), nl=False, color=True)
    warn(*(one_line(line) for line in lines))
    return code


def warn(*messages: str) -> None:
    """Print each message on standard error, on a line of its own."""
    for message in messages:
        click.echo(f"pearl: {printable(message)}", err=True)
