"""What may stand at the cursor: actions, variables, modes, parameters, types.

A line need not be readable yet: what stands before the cursor is looked at, character by character.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial

from lsprotocol import types

from pearl.lang import splitter
from pearl.lang.ast import DOCUMENT, Action, Mode
from pearl.lang.ast import Kind as LineKind
from pearl.lang.printer import print_call
from pearl.lang.source import Span, TextKind
from pearl.lang.text import shorten
from pearl.lang.values import TYPES
from pearl.lsp.names import describe_action, signature
from pearl.lsp.workspace import Document, LanguageSession, Libraries

_HEAD = re.compile(rf"\s*{splitter.NAME}\s*{splitter.ASSIGN}\s*")
_RETURN = re.compile(r"\s*return\b\s*[:：]?\s*(?:\w+\s*,\s*)*\w*$", re.IGNORECASE)
_CALLED = re.compile(r"([^\W\d]\w*)\s*[(（]")
_WORD = re.compile(r"[^\W\d]?\w*$")
_BRACED = re.compile(
    r"\{\s*(?:(?:(?:each|where)(?:\s+values)?|evidence)\s+)?(?:[^\W\d]\w*)?$", re.IGNORECASE
)
_MODED = re.compile(r"\b(?:(?:each|where)(?:\s+values)?|evidence)\s+\w*$", re.IGNORECASE)
_TYPED = re.compile(r"(?:->|→)\s*\w*$")


class Where(Enum):
    """What kind of thing may be written at a place."""

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
        moded: a mode stands before the name.
        actions: those that can be called there, with what declares them.
        variables: those that can be referred to there, in order, with a word on each.
    """

    where: Where
    word: Span
    moded: bool
    actions: Sequence[tuple[Action, Document]] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


def cursor_at(text: str, start: int, at: int, where: Callable[[str], Where]) -> Cursor:
    """The place in a line.

    Args:
        text: the whole text.
        start: where the line's own words start, past number and bullet.
        at: the place.
        where: what may stand behind a line's beginning.
    """
    line = text[start:at]
    begun = _WORD.search(line)
    word = Span(start + begun.start() if begun else at, at)
    return Cursor(where(line), word, bool(_MODED.search(line)))


def in_step(line: str) -> Where:
    """What may stand behind the beginning of a plan's line."""
    if _RETURN.fullmatch(line):
        return Where.RETURN
    head = _HEAD.match(line)
    if not head:
        return Where.NOWHERE
    if called := _CALLED.match(line, head.end()):
        return _inside(line, called.end() - 1)
    return Where.ACTION if _WORD.fullmatch(line, head.end()) else Where.NOWHERE


def in_arguments(line: str) -> Where:
    """What may stand in a list of arguments that starts with its parenthesis."""
    opening = line.find("(")
    return _inside(line, opening) if opening >= 0 else Where.NOWHERE


def in_declaration(line: str) -> Where:
    """What may stand in a line that declares an action."""
    of_param = "(" in line and ")" not in line and re.search(r"\w\s*:\s*\w*$", line)
    return Where.TYPE if of_param or _TYPED.search(line) else Where.NOWHERE


def _inside(line: str, opening: int) -> Where:
    """What may stand at a line's end, which is somewhere behind a call's parenthesis."""
    end, text = splitter.call_ends(line, opening, len(line))
    if end >= 0:
        return Where.NOWHERE
    # An apostrophe inside a word opens nothing.
    if text >= 0 and not (line[text] == "'" and line[text - 1].isalnum()):
        return Where.BRACES if _BRACED.search(line, text) else Where.NOWHERE
    return Where.ARGUMENT if re.search(r"[(（\[【,，{\s]\w*$", line) else Where.NOWHERE


OPTIONS: types.CompletionOptions = types.CompletionOptions(
    trigger_characters=["(", ",", "{", "=", " ", ">"]
)
_BLOCK = re.compile(r"\s+(?:plan|demonstration)\s*:\s*$")
_REPLACES = re.compile(r"\s+replaces\s*:\s*\w+\s*\((?P<params>[^()=]*)\)\s*=\s*(?=\()")
_STEP = re.compile(rf"[ \t]*(?:\S{{1,8}}[ \t]+)?({splitter.NAME})\s*=(?!=)")


def completion(
    session: LanguageSession, document: Document, params: types.CompletionParams
) -> list[types.CompletionItem]:
    """What may stand at the cursor; the editor chooses by what is typed on."""
    offset = document.lines.offset(params.position)
    place = _in_library if document.kind is TextKind.LIBRARY else _in_plan
    cursor = place(document, session.libraries(document), offset)
    return list(_items(session, document, cursor)) if cursor else []


def _in_plan(document: Document, libraries: Libraries, offset: int) -> Cursor | None:
    parsed = document.plan
    line = next((line for line in parsed.lines if line.begin <= offset <= line.end), None)
    if not line or offset < line.start or line.kind in (LineKind.COMMENT, LineKind.QUESTION):
        return None
    if line.kind is LineKind.ACTION:
        return cursor_at(document.text, line.start, offset, in_declaration)
    cursor = cursor_at(document.text, line.start, offset, in_step)
    above = len(document.text) if cursor.where is Where.RETURN else line.start
    variables = {
        step.name: shorten(print_call(step).partition(" = ")[2], 80)
        for step in parsed.plan.steps
        if step.span.end <= above
    }
    for broken in parsed.broken:
        if broken.kind == "step" and broken.name and broken.span.end <= above:
            variables[broken.name] = "its line cannot be read yet"
    own = libraries.library.actions.items()
    actions = [(action, libraries.origins[name]) for name, action in own]
    actions += ((action, document) for action in document.declares)
    return replace(cursor, actions=actions, variables=variables)


def _in_library(document: Document, libraries: Libraries, offset: int) -> Cursor | None:
    text = document.text
    line = document.lines.line_span(offset)
    replaces = _REPLACES.match(text, *line)
    if replaces and offset > replaces.end():
        cursor = cursor_at(text, replaces.end(), offset, in_arguments)
        params = [name.strip() for name in replaces["params"].split(",")]
        return replace(cursor, variables=_parameters(params))
    block = _block(document, line.start)
    if block is not None:
        prefix = splitter.PREFIX.match(text, *line)
        cursor = cursor_at(text, prefix.end() if prefix else line.start, offset, in_step)
        above = [action for action in document.library.actions if action.span.start < block.start]
        variables = _parameters(param.name for param in above[-1].params) if above else {}
        for written in text[block.end : line.start].splitlines():
            if step := _STEP.match(written):
                variables[step[1]] = "a step above"
        others = libraries.library.actions.items()
        named = {name: (action, libraries.origins[name]) for name, action in others}
        named |= {action.name: (action, document) for action in document.declares}
        return replace(cursor, actions=tuple(named.values()), variables=variables)
    if text[line.start : line.start + 1] not in (" ", "\t", "#"):
        return cursor_at(text, line.start, offset, in_declaration)
    return None


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


def _parameters(names: Iterable[str]) -> dict[str, str]:
    return {name: "a parameter" for name in names if name and name != DOCUMENT}


def _items(
    session: LanguageSession, document: Document, cursor: Cursor
) -> Iterator[types.CompletionItem]:
    """What may stand at a cursor: types; actions; or variables, the nearest first, the document,
    modes."""
    kind, where = types.CompletionItemKind, cursor.where
    item = partial(_item, document.lines.range(cursor.word))
    if where is Where.TYPE:
        yield from (item(name, kind.TypeParameter, "a type", name) for name in TYPES)
    elif where is Where.ACTION:
        called = document.text[cursor.word.end : cursor.word.end + 40].lstrip(" \t")[:1] == "("
        for action, origin in cursor.actions:
            if "unlisted" not in action.traits:
                yield from _calls(session, item, called, action, origin)
    elif where is not Where.NOWHERE:
        for order, (name, detail) in enumerate(reversed([*cursor.variables.items()])):
            yield item(name, kind.Variable, detail, f"0{order:05}")
        if where is Where.ARGUMENT and not cursor.moded:
            yield item(DOCUMENT, kind.Constant, "the document", "1")
        if where is not Where.RETURN and not cursor.moded:
            for mode in filter(None, Mode):
                yield item(mode.value, kind.Keyword, "a mode", "2", f"{mode} ")


def _calls(
    session: LanguageSession,
    item: Callable[..., types.CompletionItem],
    called: bool,
    action: Action,
    origin: Document,
) -> Iterator[types.CompletionItem]:
    """An action under each of its names; the parameters are blanks to be filled in."""
    snippets = session.editor.snippets and not called
    params = [param.name for param in action.params]
    numbers = {name: at for at, name in enumerate((name for name in params if name != DOCUMENT), 1)}
    blanks = [f"${{{numbers[name]}:{name}}}" if name in numbers else name for name in params]
    for name in (action.name, *action.aliases):
        text = name if called else f"{name}({', '.join(blanks)})$0" if snippets else f"{name}("
        other = name != action.name
        detail = f"another name of {action.name}" if other else signature(action)
        entry = item(name, types.CompletionItemKind.Function, detail, f"{int(other)}{name}", text)
        entry.documentation = describe_action(session, action, origin)
        if snippets:
            entry.insert_text_format = types.InsertTextFormat.Snippet
        yield entry


def _item(
    place: types.Range,
    label: str,
    kind: types.CompletionItemKind,
    detail: str,
    order: str,
    text: str = "",
) -> types.CompletionItem:
    edit = types.TextEdit(place, text or label)
    return types.CompletionItem(
        label, kind=kind, detail=detail, sort_text=order, filter_text=label, text_edit=edit
    )
