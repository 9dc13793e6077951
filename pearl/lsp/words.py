"""What is told of actions and steps, in Markdown or plain."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol import types

from pearl.lsp.desk import Desk
from pearl.lsp.shelf import Book
from pearl.plan import Action
from pearl.screen import printable

# Whatever may begin a mark-up, a link or a tag; an underscore only outside of words.
_MARKS = re.compile(r"[\\`*\[\]<>&|~#]|(?<!\w)_|_(?!\w)|(?m:^[-+=]|^\d+[.)])")


def told(desk: Desk, code: str, paragraphs: Sequence[str]) -> types.MarkupContent:
    """Code and words about it. Nothing in them is read as mark-up.

    Args:
        desk: whose editor shows it.
        code: one or several lines.
        paragraphs: each a line.
    """
    lines = [printable(line) for line in code.split("\n")]
    words = [printable(paragraph) for paragraph in paragraphs if paragraph]
    if not desk.editor.markdown:
        return types.MarkupContent(
            types.MarkupKind.PlainText, "\n\n".join(["\n".join(lines), *words])
        )
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    block = "\n".join([f"{fence}pearl-plan", *lines, fence])
    marked = [_MARKS.sub(lambda found: f"\\{found[0]}", one) for one in words]
    return types.MarkupContent(types.MarkupKind.Markdown, "\n\n".join([block, *marked]))


def signature(action: Action) -> str:
    """``FIND_ALL(CTX, X) -> list``."""
    return f"{action.signature} -> {action.returns}"


def about_action(desk: Desk, action: Action, book: Book | None) -> types.MarkupContent:
    """An action's signature, its definition, its other names, and where it is from.

    Args:
        desk: whose editor shows it.
        action: the action.
        book: the library that has it; None where the plan declares it.
    """
    typed = [f"{param.name} is {param.type}" for param in action.params if param.type != "any"]
    paragraphs = [
        action.doc,
        f"Takes: {', '.join(typed)}." if typed else "",
        f"Also called {', '.join(action.aliases)}." if action.aliases else "",
        "It runs without a model." if action.is_builtin else "",
        f"From {book.name}." if book else "Declared by this plan.",
    ]
    return told(desk, signature(action), paragraphs)


def cut(text: str, most: int) -> str:
    """Text on one line, cut where it is long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
