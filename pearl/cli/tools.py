"""``pearl tools`` and ``pearl index``: what questions may use besides their documents."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from pearl.cli import NoAnswer
from pearl.cli.inputs import warn_of_passed_over
from pearl.cli.options import Options, shared
from pearl.cli.output import emit, emit_json, tell
from pearl.jobs.progress import bar, is_watched
from pearl.lang.errors import InputError
from pearl.lang.text import counted, printable, printable_lines

if TYPE_CHECKING:
    from pearl.tools.declared import Declaration
    from pearl.tools.toolbox import Tool, ToolReply


@click.group("tools", epilog="Example:  pearl tools check tools.toml")
def tools_command() -> None:
    """The tools that a file declares (docs/tools.md). --json is an option of each command."""


@tools_command.command("check", epilog="Example:  pearl tools check tools.toml")
@click.argument("path", metavar="TOOLS")
@shared("json")
def check(path: str, options: Options) -> None:
    """Show every tool of the file TOOLS, and what is wrong with it. No tool is called; servers of
    tools are asked what they offer."""
    from pearl.tools.declared import expand_server, faults_of, read_tools

    file = read_tools(path)
    tools, mistakes = [], [*file.mistakes]
    for tool in file.tools:
        wrong = faults_of(tool)
        try:
            tools += [tool] if wrong else expand_server(tool)
        except InputError as error:
            wrong = [str(error)]
        mistakes += wrong
    if options.as_json:
        emit_json({"tools": [_as_object(tool) for tool in tools], "mistakes": mistakes})
    else:
        for tool in tools:
            _show(tool)
        for mistake in mistakes:
            click.echo(click.style("wrong: ", fg="red") + printable(mistake))
    raise click.exceptions.Exit(1 if mistakes else 0)


@tools_command.command("call", epilog="Example:  pearl tools call tools.toml weather place=Ulm")
@click.argument("path", metavar="TOOLS")
@click.argument("name", metavar="TOOL")
@click.argument("values", nargs=-1, metavar="[PARAMETER=VALUE]...")
@click.option(
    "--arguments", default="", metavar="JSON",
    help="All arguments as one object, as {\"place\": \"Ulm\"}.",
)  # fmt: skip
@shared("json")
def call(path: str, name: str, values: tuple[str, ...], arguments: str, options: Options) -> None:
    """Call TOOL of the file TOOLS once, and print its reply as a prompt would hold it."""
    # Imported here, so that --help is fast.
    import asyncio

    from pearl.tools.declared import load_tools
    from pearl.tools.toolbox import ToolError

    toolbox = load_tools(path)
    if name not in toolbox.tools:
        raise InputError(f"{path} has no tool {name}: use {', '.join(toolbox.tools)}.")
    filled = _arguments(toolbox.tools[name], values, arguments)

    async def call_and_close() -> ToolReply:
        try:
            return await toolbox.call(name, filled)
        finally:
            await toolbox.close()

    started = time.monotonic()
    try:
        reply = asyncio.run(call_and_close())
    except ToolError as error:
        data = {"reason": error.reason, "seconds": round(time.monotonic() - started, 3)}
        if error.reason == "input":
            raise InputError(str(error)) from None
        raise NoAnswer(str(error), data) from None
    seconds = round(time.monotonic() - started, 3)
    if options.as_json:
        emit_json({"text": reply.text, "cut": reply.cut, "seconds": seconds})
        return
    emit(reply.text)
    if reply.cut:
        click.echo(f"{reply.cut:,} more characters are left out.", err=True)


def _arguments(tool: Tool, pairs: tuple[str, ...], whole: str) -> dict[str, Any]:
    """The arguments of a call by name, from pairs or from one JSON object.

    Raises:
        InputError: both are there, one is given twice, or one cannot be read.
    """
    if pairs and whole:
        raise InputError("PARAMETER=VALUE and --arguments exclude each other: give one of them.")
    if whole:
        try:
            parsed = json.loads(whole)
        except (ValueError, RecursionError):
            parsed = None
        if not isinstance(parsed, dict):
            raise InputError('--arguments is no JSON object: give it as {"place": "Ulm"}.')
        return parsed
    kinds = {param.name: json.loads(param.schema).get("type") for param in tool.parameters}
    filled: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise InputError(f"{pair[:60]} is no argument: write PARAMETER=VALUE, as place=Ulm.")
        if key in filled:
            raise InputError(f"{key[:60]} is given twice: give each parameter one value.")
        filled[key] = text
        if kinds.get(key, "string") != "string":
            # A value that is no JSON stays a text, which the tool's own check refuses.
            with suppress(ValueError, RecursionError):
                filled[key] = json.loads(text)
    return filled


def _show(declared: Declaration) -> None:
    tool = declared.tool
    click.echo(click.style(tool.name, bold=True) + printable(f": {tool.about}"))
    click.echo(printable(f"    {_place(declared)}"))
    for param in tool.parameters:
        kind = json.loads(param.schema).get("type", "any")
        needed = "" if param.required else ", may be left out"
        click.echo(printable(f"    {param.name} ({kind}{needed}): {param.about}"))
    for variable in declared.variables:
        is_set = "is set" if os.environ.get(variable, "").strip() else "is not set"
        click.echo(f"    ${variable} {is_set}")


def _place(declared: Declaration) -> str:
    from pearl.tools.declared import InstalledTool, Search
    from pearl.tools.endpoint import Http, McpServer

    match declared.how:
        case Http() as http:
            where = ", may be in a private network" if declared.tool.limits.private else ""
            if not where and http.origin.startswith("http:") and declared.variables:
                where = ", where keys travel unencrypted"
            return f"{http.method} {http.origin}{http.path}{where}"
        case Search() as search:
            return f"searches {search.index}"
        case McpServer() as server:
            return f"MCP, {server.url or shlex.join(server.command)}"
        case InstalledTool() as entry:
            return f"the function {entry.name} of an installed package"
        case _:
            return "the calculator"


def _as_object(declared: Declaration) -> dict[str, Any]:
    tool = declared.tool
    return {
        "name": tool.name,
        "about": tool.about,
        "place": _place(declared),
        "parameters": tool.json_schema,
        "limits": asdict(tool.limits),
        "variables": {name: bool(os.environ.get(name, "").strip()) for name in declared.variables},
    }


@click.command("index", epilog="Example:  pearl index corpus.jsonl -o corpus.index")
@click.argument("path", metavar="CORPUS")
@click.option(
    "-o", "--output", default="", metavar="INDEX",
    help="The index, a folder. One that is there is replaced when the new one is whole.",
)  # fmt: skip
@click.option("--search", default=None, metavar="WORDS", help="Passages that match, best first.")
@click.option(
    "-k", "most", type=click.IntRange(1), default=5, show_default=True, metavar="N",
    help="How many passages to show.",
)  # fmt: skip
@shared("json")
def index_command(path: str, output: str, search: str | None, most: int, options: Options) -> None:
    """Index CORPUS: a document, a folder of them, or JSON lines with "id", "text" and "title".

    Where CORPUS is an index: search it with --search, or else check every byte of it.
    """
    from pearl.retrieval.index import build_index, check_index, is_index

    more: dict[str, Any] = {}
    if output:
        if search is not None:
            raise InputError("-o and --search exclude each other: build first, then search.")
        started = time.monotonic()
        with _progress(quiet=options.as_json) as progress:
            info = build_index(path, output, progress)
        warn_of_passed_over([path], "give it the ending .txt")
        seconds = time.monotonic() - started
        more = {"fresh": info.fresh, "seconds": seconds}
        ending = f", {seconds:.1f} s" if info.fresh else ": it is there already."
    elif not is_index(path):
        from difflib import get_close_matches

        # The user may take "search" for a subcommand, as other commands have some.
        near = not os.path.lexists(path) and get_close_matches(path.lower(), ["search"])
        hint = ", or search one: pearl index INDEX --search WORDS" if near else ""
        raise InputError(f"{path} is no index: build one of a corpus with -o INDEX{hint}.")
    elif search is None:
        info, ending = check_index(path), ": every byte is as it was written."
    else:
        _search(path, search, most, as_json=options.as_json)
        return
    corpus = {"name": info.corpus, "bytes": info.size, "sha256": info.digest}
    size = {"passages": info.passages, "bytes": info.bytes}
    line = (
        f"{printable(output or path)}: {counted(info.passages, 'passage')} of "
        f"{printable(info.corpus)}, {info.bytes / 1e6:,.1f} MB{ending}"
    )
    tell({"index": output or path, **size, "corpus": corpus, **more}, options.as_json, [line])


def _search(path: str, query: str, most: int, *, as_json: bool) -> None:
    from pearl.retrieval.index import open_index

    if not query.strip():
        raise InputError("The search is empty: write its words in quotes after --search.")
    hits = open_index(path).search(query, most)
    if not hits and not as_json:
        raise NoAnswer(f"No passage matches {query[:80]}: try other words.")
    data, lines = [], []
    for hit in hits:
        data.append({"id": hit.id, "title": hit.title, "text": hit.text, "score": hit.score})
        # In a corpus of documents, a passage's id begins with its document's title.
        title = f" {hit.title}" if not hit.id.startswith(hit.title) else ""
        lines.append(click.style(printable(f"{hit.id}{title}"), bold=True))
        lines.append("    " + printable_lines(hit.text).replace("\n", "\n    "))
    tell(data, as_json, lines)
    raise click.exceptions.Exit(0 if hits else 1)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal how much of a corpus is read; gives a function to call with the bytes
    that were read, and the bytes in all."""
    if quiet or not is_watched():
        yield lambda done, of: None
        return
    with bar("bar", "bytes", "{task.description}", "left") as update:
        doing = ("writing the index", "reading")
        yield lambda done, of: update(total=of, completed=done, description=doing[done < of])
