"""What may stand at the cursor: actions, variables, modes, parameters, types.

What is being written at a place, also in a line that cannot be read yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from lsprotocol import types

from pearl.lang import splitter as marks
from pearl.lang.ast import DOCUMENT, Action, Mode
from pearl.lang.ast import Kind as LineKind
from pearl.lang.printer import print_call
from pearl.lang.source import Span
from pearl.lang.splitter import QUOTES
from pearl.lang.values import TYPES
from pearl.lsp.documents import Document, Kind
from pearl.lsp.hover import about_action, cut, signature
from pearl.lsp.session import Desk, Shelf

_PAIRS = {
    "“": "”",
    "„": "”",
    "«": "»",
    "»": "«",
    "「": "」",
    "『": "』",
    "＂": "＂",
    "‘": "’",
    "‚": "’",
}
_HEAD = re.compile(rf"\s*{marks.NAME}\s*(?::=|=(?!=)|←|<-(?!-)|＝)\s*")
_RETURN = re.compile(r"\s*return\b\s*[:：]?\s*(?:\w+\s*,\s*)*\w*$", re.IGNORECASE)
_CALLED = re.compile(r"([^\W\d]\w*)\s*[(（]")
_WORD = re.compile(r"[^\W\d]?\w*$")
_BRACED = re.compile(r"\{\s*(?:(?:each|where)(?:\s+values)?\s+)?(?:[^\W\d]\w*)?$", re.IGNORECASE)
_MODED = re.compile(r"\b(?:each|where)(\s+values)?\s+\w*$", re.IGNORECASE)
_TYPED = re.compile(r"(?:->|→)\s*\w*$")


class Where(Enum):
    """What may stand at a place."""

    NOWHERE = auto()
    ACTION = auto()
    ARGUMENT = auto()
    BRACES = auto()
    RETURN = auto()
    TYPE = auto()


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a line.

    Args:
        where: what may stand there.
        word: the name that has been begun.
        action: the action whose call the place is in.
        moded: a mode stands before the name.
    """

    where: Where
    word: Span
    action: str = ""
    moded: bool = False


def step_cursor(text: str, start: int, at: int) -> Cursor:
    """The place in a line of a plan.

    Args:
        text: the whole text.
        start: where the line's own words start, past number and bullet.
        at: the place.
    """
    line = text[start:at]
    begun = _WORD.search(line)
    word = Span(start + begun.start() if begun else at, at)
    if _RETURN.fullmatch(line):
        return Cursor(Where.RETURN, word)
    head = _HEAD.match(line)
    if not head:
        return Cursor(Where.NOWHERE, word)
    called = _CALLED.match(line, head.end())
    if not called:
        free = line[head.end() :] == line[word.start - start :]
        return Cursor(Where.ACTION if free else Where.NOWHERE, word)
    where = _inside(line, called.end())
    moded = bool(_MODED.search(line))
    return Cursor(where, word, called[1], moded)


def arguments_cursor(text: str, start: int, at: int) -> Cursor:
    """The place in a list of arguments that starts with its parenthesis."""
    line = text[start:at]
    begun = _WORD.search(line)
    word = Span(start + begun.start() if begun else at, at)
    opening = line.find("(")
    where = _inside(line, opening + 1) if opening >= 0 else Where.NOWHERE
    return Cursor(where, word, "", bool(_MODED.search(line)))


def action_cursor(text: str, start: int, at: int) -> Cursor:
    """The place in a line that declares an action."""
    line = text[start:at]
    begun = _WORD.search(line)
    word = Span(start + begun.start() if begun else at, at)
    opening, close = line.find("("), line.rfind(")")
    of_param = opening >= 0 and close < 0 and re.search(r"\w\s*:\s*\w*$", line)
    return Cursor(Where.TYPE if of_param or _TYPED.search(line) else Where.NOWHERE, word)


def _inside(line: str, opened: int) -> Where:
    """What may stand at a line's end, which is somewhere behind a call's parenthesis."""
    depth, quote, at = 1, "", opened
    text_from = opened
    while at < len(line):
        char = line[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif _opens_text(line, at):
            quote, text_from = _PAIRS.get(char, char), at
        elif char in "(（[【":
            depth += 1
        elif char in ")）]】":
            depth -= 1
            if depth == 0:
                return Where.NOWHERE
        at += 1
    if quote:
        return Where.BRACES if _BRACED.search(line, text_from) else Where.NOWHERE
    return Where.ARGUMENT if re.search(r"[(（\[【,，{\s]\w*$", line) else Where.NOWHERE


def _opens_text(line: str, at: int) -> bool:
    # An apostrophe inside a word opens nothing.
    return line[at] in QUOTES and not (line[at] == "'" and line[at - 1 : at].isalnum())


OPTIONS: types.CompletionOptions = types.CompletionOptions(
    trigger_characters=["(", ",", "{", "=", " ", ">"]
)
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
