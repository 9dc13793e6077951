"""The command line. A new command is a file in this folder and a line in `COMMANDS`."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from pearl.source import InputError

COMMANDS = (
    "ask",
    "plan",
    "run",
    "lint",
    "fmt",
    "rule",
    "graph",
    "trace",
    "replay",
    "actions",
)


class Commands(click.Group):
    """Loads a command when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"pearl.cli.{cmd_name}").command
        return command


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 fine, 1 findings or no answer, 2 wrong use.",
)
@click.version_option(package_name="pearl", prog_name="pearl")
def pearl() -> None:
    """Answer hard questions about long documents: plan, check, run, show the evidence.

    Start with:  pearl ask story.txt "Why does Mara leave the lighthouse?"
    """


def main() -> None:
    """The entry point: every known error becomes one line and an exit code."""
    try:
        code = pearl.main(standalone_mode=False, prog_name="pearl")
    except click.exceptions.Abort:
        _say("Stopped.")
        code = 130
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.UsageError as error:
        hint = f" Try: {error.ctx.command_path} --help" if error.ctx else ""
        _say(f"{error.format_message()}{hint}")
        code = 2
    except click.ClickException as error:
        _say(error.format_message())
        code = error.exit_code
    except InputError as error:
        _say(str(error))
        code = 2
    except BrokenPipeError:
        # Whoever read the output has gone; writing more would raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


def _say(message: str) -> None:
    from pearl.render.report import printable

    click.echo(f"pearl: {printable(' '.join(message.split()))}", err=True)
