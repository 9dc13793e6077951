"""``pearl mcp``, as the SDK's own client finds it over standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pearl
from pearl.cli.serve import LONGEST, TAKES
from tests.shell import GOOD, STORY, call, one_line


def told(*calls: tuple[str, dict[str, Any]], at_once: bool = False) -> list[Any]:
    """What each call of one session gave: data, or the line that says why there is none. Calls
    that are made at once stand in the order of their replies."""
    import mcp

    async def each() -> list[Any]:
        words = ["-m", "pearl", "mcp", "--root", "papers", "--store", "kept.db"]
        given = {"PEARL_CONSTRAIN": "never", "OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
        # Else another checkout may be the one that is installed.
        given["PYTHONPATH"] = str(Path(pearl.__file__).parents[1])
        server = mcp.StdioServerParameters(command=sys.executable, args=words, env=given)
        async with mcp.Client(mcp.stdio_client(server, said)) as client:
            tools = await client.list_tools()
            assert [one.name for one in tools.tools] == ["ask", "plan", "lint", "actions"]
            if at_once:
                tasks = [asyncio.ensure_future(client.call_tool(*one)) for one in calls]
                replies = [await one for one in asyncio.as_completed(tasks)]
            else:
                replies = [await client.call_tool(*one) for one in calls]
        return [
            one.content[0].text.removeprefix("Error executing tool ask: ")  # type: ignore[union-attr]
            if one.is_error
            else one.structured_content
            for one in replies
        ]

    with Path("said").open("w") as said:
        replies = asyncio.run(each())
    assert Path("said").read_text() == ""
    return replies


LARGE: dict[tuple[str, str], Any] = {
    **dict.fromkeys((("ask", "question"), ("plan", "question")), "w" * (LONGEST["question"] + 1)),
    ("ask", "documents"): ["a.txt"] * 30_000,
    ("ask", "options"): ["o" * (LONGEST["options"] + 1), "x"],
    ("lint", "plan"): "(" * (LONGEST["plan"] + 1),
    ("actions", "search"): "find " * 100_000,
}
"""Arguments that are too large, by tool and name."""
MISTAKEN: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("ask", {"documents": 3}, f"documents takes {TAKES['documents']}."),
    ("ask", {"documents": [1]}, f"documents takes {TAKES['documents']}."),
    ("ask", {"documents": "a", "options": "b"}, f"options takes {TAKES['options']}."),
    ("ask", {"document": "a"}, "'document' is no argument of ask, which takes documents, …"),
    ("plan", {"question": None}, f"question takes {TAKES['question']}."),
    ("lint", {}, f"plan is missing: it takes {TAKES['plan']}."),
    ("actions", {"search": 4}, f"search takes {TAKES['search']}."),
    *((tool, {"documents": "a.txt", name: value} if tool == "ask" else {name: value},
       f"{name} has more than {LONGEST[name]:,} characters: shorten it.")
      for (tool, name), value in LARGE.items()),
)  # fmt: skip
"""Calls with an argument that is wrong, and the line about it, or its beginning."""


@pytest.mark.timeout(60)
def test_another_program_asks_plans_checks_looks_up_and_is_told_what_is_wrong():
    Path("papers").mkdir()
    Path("papers/story.txt").write_text(STORY, encoding="utf-8")
    Path("papers/.env").write_text("KEY=feed-the-bear", encoding="utf-8")
    Path("secret.txt").write_text("feed-the-bear", encoding="utf-8")
    Path("papers/link.txt").symlink_to("../secret.txt")
    os.mkfifo("papers/pipe.txt")
    why = "Why does Mara leave the lighthouse?"
    elsewhere = ("../secret.txt", "link.txt", ".env", str(Path("secret.txt").resolve()), "a\0b")
    answer, whole, alone, planned, found, none, actions, missing, pipe, pipes, *wrong = told(
        ("ask", {"documents": ["story.txt"], "question": why}),
        ("ask", {"documents": ["."], "question": why}),
        ("ask", {"documents": "story.txt", "question": why}),
        ("plan", {"question": why}),
        ("lint", {"plan": GOOD.replace("FIND_REASON", "FIND_RAESON")}),
        ("lint", {"plan": GOOD}),
        ("actions", {"search": "conflict"}),
        ("ask", {}),
        ("ask", {"documents": "pipe.txt", "question": why}),
        ("ask", {"documents": ["pipe.txt"], "question": why}),
        *(("ask", {"documents": [one], "question": why}) for one in elsewhere),
        ("ask", {"documents": ["none.txt"], "question": why}),
        ("ask", {"documents": [], "question": why}),
        ("ask", {"documents": ["story.txt"], "question": " "}),
        ("ask", {"documents": ["story.txt"], "question": why, "options": ["one"]}),
        *(
            (tool, {"question": "x"} | args if tool == "ask" else args)
            for tool, args, _ in MISTAKEN
        ),
    )
    assert answer["grounded"]
    assert answer["evidence"][0]["text"] in " ".join(STORY.split())
    assert whole["evidence"][0]["document"] == "story.txt"
    assert alone["answer"] == answer["answer"]
    assert answer["plan"] == planned["plan"]
    assert [one["name"] for one in found["result"]] == ["unknown-action"]
    assert none["result"] == []
    assert actions["result"][0]["name"] == "FIND_CONFLICT"
    for name, line in zip(elsewhere, wrong, strict=False):
        assert line == f"{name} is not below the folder that is served, or is hidden."
    assert "none.txt does not exist" in wrong[len(elsewhere)]
    mistakes = len(elsewhere) + 4
    assert wrong[len(elsewhere) + 1 : mistakes] == [
        "documents is empty: name a file or a folder.",
        "The question is empty: write it in quotes.",
        "Give 2 to 26 options, none of them empty.",
    ]
    for reply, (_, _, line) in zip(wrong[mistakes:], MISTAKEN, strict=True):
        assert reply == line or (line.endswith("…") and reply.startswith(line.rstrip(" …")))
        assert "\n" not in reply
    assert missing.splitlines() == [
        f"{one} is missing: it takes {TAKES[one]}." for one in ("documents", "question")
    ]
    # A pipe is not waited for.
    assert pipe == pipes == "pipe.txt is a pipe or a device: name a file."
    assert "feed-the-bear" not in str((answer, whole, wrong))
    assert answer["run"] in call("runs", "--store", "kept.db").out


@pytest.mark.timeout(120)
def test_a_large_plan_holds_nobody_up():
    Path("papers").mkdir()
    plan = "".join(f'{at}. a{at} = FIND_ELEMENT(CTX, "x") : Find\n' for at in range(2000))
    # Of the same tool, as a search loads more than a check, and may be the slower one.
    small = 'a = FIND_PERSON(CTX, "x") : Find\n'
    first, last = told(("lint", {"plan": plan}), ("lint", {"plan": small}), at_once=True)
    assert first["result"] == []
    assert len(last["result"]) > 1000


def test_ctrl_c_ends_it():
    """Also where the client holds standard input open."""
    words = [sys.executable, "-m", "pearl", "mcp"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, **pipes) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        server.send_signal(signal.SIGINT)
        assert server.wait(10) == -signal.SIGINT
        assert server.stderr.read() == b""


def test_what_is_wrong_is_said_before_it_serves():
    assert "no-such" in one_line(call("mcp", "--root", "no-such"), 2)
    assert "no-such" in one_line(call("mcp", "--library", "no-such"), 2)
    assert call("mcp", "--json").json == {"tools": ["ask", "plan", "lint", "actions"]}
