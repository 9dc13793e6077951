"""What is told about the name under the pointer.

What is told of actions and steps, in Markdown or plain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol import types

from pearl.lang.ast import DOCUMENT, Action, Mode
from pearl.lang.printer import print_step
from pearl.lang.source import Span
from pearl.lang.text import printable
from pearl.lint.rules.base import PlanView
from pearl.lsp.documents import Document, Kind, Mention, Role
from pearl.lsp.navigation import action_at, resolve
from pearl.lsp.session import Book, Desk

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


_MODES = {
    Mode.EACH: "Runs the step once for every item of the list; the output is pairs of item and "
    "answer.",
    Mode.WHERE: "Keeps the items of the list for which the answer is yes.",
    Mode.EACH_VALUES: "Runs the step once for every value of the pairs; the keys stay.",
    Mode.WHERE_VALUES: "Keeps the pairs for whose value the answer is yes.",
}
_LONGEST = 300


def hover(desk: Desk, params: types.HoverParams) -> types.Hover | None:
    """An action's definition, a variable's step, or what a mode does."""
    document = desk.documents.get(params.text_document.uri)
    if not document:
        return None
    offset = document.lines.offset(params.position)
    if document.kind is Kind.LIBRARY:
        return _library(desk, document, offset)
    mention = document.at(offset)
    if mention:
        return _mention(desk, document, mention)
    moded = next(
        (
            one
            for one in document.mentions
            if one.mode and one.whole.start <= offset < one.span.start
        ),
        None,
    )
    if not moded:
        return None
    span = Span(moded.whole.start, moded.span.start)
    content = told(desk, f"{moded.mode} {moded.name}", [_MODES[moded.mode]])
    return types.Hover(content, document.lines.range(span))


def _mention(desk: Desk, document: Document, mention: Mention) -> types.Hover | None:
    if mention.is_variable:
        content = _variable(desk, document, mention)
    else:
        target = resolve(desk, document, mention.name)
        content = about_action(desk, target.action, target.book) if target else None
    return types.Hover(content, document.lines.range(mention.span)) if content else None


def _variable(desk: Desk, document: Document, mention: Mention) -> types.MarkupContent | None:
    if mention.name == DOCUMENT:
        return told(desk, DOCUMENT, ["The document that the plan is run on."])
    view = PlanView(document.plan, desk.shelf(document).library)
    index = view.defined.get(mention.name)
    if index is None:
        return None
    if mention.role is Role.DEFINES:
        # A name that is set twice stands for its own step here.
        index = next(
            at for at, step in enumerate(view.plan.steps) if step.name_span == mention.span
        )
    used = sorted({view.number(at) for at, _ in view.uses.get(mention.name, ())})
    paragraphs = [
        f"Step {view.number(index)}, gives {view.type_of(index)}.",
        f"Used by {'step' if len(used) == 1 else 'steps'} {', '.join(map(str, used))}."
        if used
        else "",
    ]
    return told(desk, cut(print_step(view.plan.steps[index]), _LONGEST), paragraphs)


def _library(desk: Desk, document: Document, offset: int) -> types.Hover | None:
    target = action_at(desk, document, offset)
    if not target:
        return None
    return types.Hover(about_action(desk, target.action, target.book))
