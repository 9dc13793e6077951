"""From a name to what it names, and back to every place that names it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lsprotocol import types

from pearl.lsp.desk import Desk
from pearl.lsp.documents import Document, Kind
from pearl.lsp.names import NAME, Mention, Role
from pearl.lsp.places import Lines
from pearl.lsp.shelf import Book
from pearl.plan import Action
from pearl.source import Span

_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Target:
    """An action, and where it is written.

    Args:
        action: the action.
        uri: the document or file; empty where it is none.
        lines: its text.
        book: the library; None where a plan declares the action.
    """

    action: Action
    uri: str
    lines: Lines
    book: Book | None = None

    @property
    def location(self) -> types.Location | None:
        """The action's name, where it is declared."""
        if not self.uri:
            return None
        found = NAME.match(self.lines.text, self.action.span.start)
        span = Span(*found.span()) if found else self.action.span
        return types.Location(self.uri, self.lines.range(span))


def resolve(desk: Desk, plan: Document, name: str) -> Target | None:
    """The action that a plan means by a name; the library's before the plan's own."""
    shelf = desk.shelf(plan)
    action = shelf.library.get(name)
    if action:
        book = shelf.origins[action.name]
        return Target(action, book.uri, book.lines, book)
    own = next((one for one in plan.plan.plan.declares if one.name == name), None)
    return Target(own, plan.uri, plan.lines) if own else None


def action_at(desk: Desk, library: Document, offset: int) -> Target | None:
    """The action of a library that the word at a place names: its own, or one of the project."""
    line = library.lines.line_span(offset)
    found = next(
        (one for one in _WORD.finditer(library.text, *line) if one.start() <= offset <= one.end()),
        None,
    )
    if not found:
        return None
    for action in library.library.actions:
        if found[0] in (action.name, *action.aliases):
            return Target(action, library.uri, library.lines, _book(library))
    shelf = desk.shelf(library)
    other = shelf.library.get(found[0])
    if not other:
        return None
    book = shelf.origins[other.name]
    return Target(other, book.uri, book.lines, book)


def _book(library: Document) -> Book:
    return Book(library.source.name, library.uri, library.lines, library.library.actions)


def definition(
    desk: Desk, params: types.DefinitionParams
) -> list[types.Location] | types.Location | None:
    """A variable's step, or the line that declares an action."""
    document = desk.documents.get(params.text_document.uri)
    if not document:
        return None
    offset = document.lines.offset(params.position)
    if document.kind is Kind.LIBRARY:
        target = action_at(desk, document, offset)
        return target.location if target else None
    mention = document.at(offset)
    if not mention:
        return None
    if mention.is_variable:
        return [
            _place(document, one)
            for one in document.mentions
            if one.role is Role.DEFINES and one.name == mention.name
        ]
    target = resolve(desk, document, mention.name)
    return target.location if target else None


def references(desk: Desk, params: types.ReferenceParams) -> list[types.Location] | None:
    """Every use of a variable in its plan; every call of an action in the open plans."""
    document = desk.documents.get(params.text_document.uri)
    if not document:
        return None
    offset = document.lines.offset(params.position)
    declared = params.context.include_declaration
    if document.kind is Kind.LIBRARY:
        target = action_at(desk, document, offset)
    else:
        mention = document.at(offset)
        if not mention:
            return None
        if mention.is_variable:
            return [
                _place(document, one)
                for one in document.mentions
                if one.is_variable
                and one.name == mention.name
                and (declared or one.role is Role.USES)
            ]
        target = resolve(desk, document, mention.name)
    if not target:
        return None
    found = list(_calls(desk, target))
    if declared and target.location:
        found.insert(0, target.location)
    return found


def _calls(desk: Desk, target: Target) -> Iterator[types.Location]:
    """Where open plans call an action, under whatever name."""
    names = {target.action.name, *target.action.aliases}
    for plan in desk.plans():
        called = [one for one in plan.mentions if one.role is Role.CALLS and one.name in names]
        same = {
            name: bool(meant and meant.uri == target.uri and meant.action == target.action)
            for name in {one.name for one in called}
            for meant in [resolve(desk, plan, name)]
        }
        yield from (_place(plan, one) for one in called if same[one.name])


def _place(document: Document, mention: Mention) -> types.Location:
    return types.Location(document.uri, document.lines.range(mention.span))
