"""What may stand at the cursor: actions, variables, modes, parameters, types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from lsprotocol import types

from pearl.lsp.cursor import (
    Cursor,
    Where,
    action_cursor,
    arguments_cursor,
    step_cursor,
)
from pearl.lsp.desk import Desk
from pearl.lsp.documents import Document, Kind
from pearl.lsp.shelf import Shelf
from pearl.lsp.words import about_action, cut, signature
from pearl.plan import DOCUMENT, Action, Mode
from pearl.source import Span
from pearl.syntax import marks
from pearl.syntax.printer import print_call
from pearl.syntax.tree import Kind as LineKind
from pearl.values import TYPES

OPTIONS = types.CompletionOptions(trigger_characters=["(", ",", "{", "=", " ", ">"])
_BLOCK = re.compile(r"\s+(?:plan|demonstration)\s*:\s*$")
_REPLACES = re.compile(r"\s+replaces\s*:\s*\w+\s*\((?P<params>[^()=]*)\)\s*=\s*(?=\()")
_STEP = re.compile(rf"[ \t]*(?:\S{{1,8}}[ \t]+)?({marks.NAME})\s*=(?!=)")
_LONGEST = 80

Items = Iterator[types.CompletionItem]


def completion(desk: Desk, params: types.CompletionParams) -> list[types.CompletionItem] | None:
    """What may stand at the cursor; the editor chooses by what is typed on."""
    document = desk.documents.get(params.text_document.uri)
    if not document:
        return None
    offset = document.lines.offset(params.position)
    shelf = desk.shelf(document)
    if document.kind is Kind.LIBRARY:
        return list(_in_library(desk, document, shelf, offset))
    return list(_in_plan(desk, document, shelf, offset))


def _in_plan(desk: Desk, document: Document, shelf: Shelf, offset: int) -> Items:
    parsed = document.plan
    line = next((one for one in parsed.lines if one.begin <= offset <= one.end), None)
    if not line or offset < line.start or line.kind in (LineKind.COMMENT, LineKind.QUESTION):
        return
    if line.kind is LineKind.ACTION:
        yield from _types(document, action_cursor(document.text, line.start, offset))
        return
    cursor = step_cursor(document.text, line.start, offset)
    actions = (*shelf.library.actions.values(), *parsed.plan.declares)
    if cursor.where is Where.ACTION:
        yield from _actions(desk, document, shelf, cursor, actions)
    elif cursor.where in (Where.ARGUMENT, Where.BRACES, Where.RETURN):
        above = len(document.text) if cursor.where is Where.RETURN else line.start
        variables = [
            (step.name, cut(print_call(step).partition(" = ")[2], _LONGEST))
            for step in parsed.plan.steps
            if step.span.end <= above
        ]
        variables += [
            (one.name, "its line cannot be read yet")
            for one in parsed.broken
            if one.kind == "step" and one.name and one.span.end <= above
        ]
        yield from _names(document, cursor, variables)


def _in_library(desk: Desk, document: Document, shelf: Shelf, offset: int) -> Items:
    text = document.text
    line = document.lines.line_span(offset)
    replaces = _REPLACES.match(text, *line)
    block = _block(document, line.start)
    if replaces and offset > replaces.end():
        cursor = arguments_cursor(text, replaces.end(), offset)
        if cursor.where in (Where.ARGUMENT, Where.BRACES):
            params = [one.strip() for one in replaces["params"].split(",")]
            yield from _names(document, cursor, _parameters(params))
    elif block is not None:
        prefix = marks.PREFIX.match(text, *line)
        cursor = step_cursor(text, prefix.end() if prefix else line.start, offset)
        action = next(
            (one for one in reversed(document.library.actions) if one.span.start < block.start),
            None,
        )
        if cursor.where is Where.ACTION:
            named = {**shelf.library.actions, **{one.name: one for one in document.library.actions}}
            yield from _actions(desk, document, shelf, cursor, tuple(named.values()))
        elif cursor.where in (Where.ARGUMENT, Where.BRACES, Where.RETURN):
            params = [one.name for one in action.params] if action else []
            above = Span(block.end, line.start)
            steps = [(one, "a step above") for one in _steps(text, above)]
            yield from _names(document, cursor, [*_parameters(params), *steps])
    elif text[line.start : line.start + 1] not in (" ", "\t", "#"):
        yield from _types(document, action_cursor(text, line.start, offset))


def _block(document: Document, start: int) -> Span | None:
    """The line that opens the plan inside a library which a line belongs to."""
    while start > 0 and document.text[start : start + 1] in (" ", "\t", "\r", "\n", ""):
        line = document.lines.line_span(start)
        if _BLOCK.match(document.text, *line):
            return line
        if line.start == 0:
            return None
        start = document.lines.line_span(line.start - 1).start
    return None


def _steps(text: str, above: Span) -> Iterator[str]:
    for line in text[above.start : above.end].splitlines():
        found = _STEP.match(line)
        if found:
            yield found[1]


def _parameters(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, "a parameter") for name in names if name and name != DOCUMENT]


def _names(document: Document, cursor: Cursor, variables: Sequence[tuple[str, str]]) -> Items:
    """Variables, the nearest first; the document; modes."""
    known = dict(variables)
    for order, (name, detail) in enumerate(reversed(known.items())):
        yield _item(
            document, cursor, name, types.CompletionItemKind.Variable, detail, f"0{order:05}"
        )
    if cursor.where is Where.ARGUMENT and not cursor.moded:
        yield _item(
            document, cursor, DOCUMENT, types.CompletionItemKind.Constant, "the document", "1"
        )
    if cursor.where is not Where.RETURN and not cursor.moded:
        for mode in Mode:
            if mode:
                keyword = types.CompletionItemKind.Keyword
                yield _item(document, cursor, mode.value, keyword, "a mode", "2", f"{mode} ")


def _actions(
    desk: Desk, document: Document, shelf: Shelf, cursor: Cursor, actions: Sequence[Action]
) -> Items:
    called = document.text[cursor.word.end : cursor.word.end + 40].lstrip(" \t")[:1] == "("
    for action in actions:
        if "unlisted" in action.traits:
            continue
        book = shelf.origins.get(action.name)
        for name in (action.name, *action.aliases):
            item = _item(
                document,
                cursor,
                name,
                types.CompletionItemKind.Function,
                signature(action) if name == action.name else f"another name of {action.name}",
                f"{int(name != action.name)}{name}",
                name if called else _call(desk, name, action),
            )
            item.documentation = about_action(desk, action, book)
            if desk.editor.snippets and not called:
                item.insert_text_format = types.InsertTextFormat.Snippet
            yield item


def _call(desk: Desk, name: str, action: Action) -> str:
    """The call to fill in: a blank for every parameter but the document."""
    if not desk.editor.snippets:
        return f"{name}("
    blanks, number = [], 0
    for param in action.params:
        if param.name == DOCUMENT:
            blanks.append(DOCUMENT)
        else:
            number += 1
            blanks.append(f"${{{number}:{param.name}}}")
    return f"{name}({', '.join(blanks)})$0"


def _types(document: Document, cursor: Cursor) -> Items:
    if cursor.where is Where.TYPE:
        for name in TYPES:
            yield _item(
                document, cursor, name, types.CompletionItemKind.TypeParameter, "a type", name
            )


def _item(
    document: Document,
    cursor: Cursor,
    label: str,
    kind: types.CompletionItemKind,
    detail: str,
    order: str,
    text: str = "",
) -> types.CompletionItem:
    edit = types.TextEdit(document.lines.range(cursor.word), text or label)
    return types.CompletionItem(
        label, kind=kind, detail=detail, sort_text=order, filter_text=label, text_edit=edit
    )
