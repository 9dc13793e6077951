"""From a name to what it names, and back to every place that names it.

Gives a step's output, or an action that a plan declares, another name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from lsprotocol import types

from pearl.lang.ast import DOCUMENT, Action, Arg, Items, Plan, Ref, Template
from pearl.lang.diagnostics import Edit, Fix, apply_fixes
from pearl.lang.parser import parse
from pearl.lang.source import Span
from pearl.lsp.documents import NAME, Document, Kind, Lines, Mention, Role
from pearl.lsp.session import Book, Desk, refused, workspace_edit

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


_NAME = re.compile(r"[^\W\d]\w*")
_KEPT = ("true", "false", "return")


def prepare_rename(
    desk: Desk, params: types.PrepareRenameParams
) -> types.PrepareRenamePlaceholder | None:
    """The name that would be changed.

    Raises:
        JsonRpcException: it is not this plan's to change.
    """
    document = desk.documents.get(params.text_document.uri)
    mention = _mention(desk, document, params.position) if document else None
    if not document or not mention:
        return None
    return types.PrepareRenamePlaceholder(document.lines.range(mention.span), mention.name)


def rename(desk: Desk, params: types.RenameParams) -> types.WorkspaceEdit | None:
    """Another name, everywhere in the plan: in steps, references, templates, what is returned.

    Raises:
        JsonRpcException: the name is none, is taken, or the plan would mean something else.
    """
    document = desk.documents.get(params.text_document.uri)
    mention = _mention(desk, document, params.position) if document else None
    if not document or not mention:
        return None
    new = params.new_name.strip()
    if new == mention.name:
        return workspace_edit(desk, document, [])
    _check_name(desk, document, mention, new)
    spans = [one.span for one in document.mentions if _same(one, mention)]
    text, _ = apply_fixes(document.text, [Fix("", tuple(Edit(span, new) for span in spans))])
    # Whatever the reasons may be, a plan that reads otherwise afterwards is not a renamed one.
    if parse(text).plan != _renamed(document.plan.plan, mention, new):
        raise refused(f"The plan would mean something else with {new} for {mention.name}.")
    edits = [types.TextEdit(document.lines.range(span), new) for span in spans]
    return workspace_edit(desk, document, edits)


def _mention(desk: Desk, document: Document, position: types.Position) -> Mention | None:
    """The name at a place, where it may be changed."""
    if document.kind is Kind.LIBRARY:
        raise refused("Only names of a plan are renamed: plans elsewhere may call this action.")
    mention = document.at(document.lines.offset(position))
    if not mention:
        return None
    if mention.name == DOCUMENT:
        raise refused(f"{DOCUMENT} is the document: it has no other name.")
    if not mention.is_variable:
        target = resolve(desk, document, mention.name)
        if target and target.book:
            raise refused(f"{mention.name} is an action of {target.book.name}, not of this plan.")
    return mention


def _same(one: Mention, other: Mention) -> bool:
    return one.name == other.name and one.is_variable == other.is_variable


def _check_name(desk: Desk, document: Document, mention: Mention, new: str) -> None:
    if not _NAME.fullmatch(new):
        raise refused(f"{new} is no name: write letters, digits and underscores.")
    if new.lower() in _KEPT or new.upper() == DOCUMENT:
        raise refused(f"{new} is a word of the language: choose another name.")
    if any(one.name == new and one.is_variable == mention.is_variable for one in document.mentions):
        raise refused(f"{new} is taken in this plan: choose another name.")
    if not mention.is_variable and resolve(desk, document, new):
        raise refused(f"{new} is an action already: choose another name.")
    word = re.compile(rf"(?<!\w)(?:{re.escape(mention.name)}|{re.escape(new)})(?!\w)")
    for broken in document.plan.broken:
        if word.search(document.text, *broken.span):
            line, _ = document.source.position(broken.span.start)
            raise refused(f"Line {line} cannot be read, and has that name: mend it first.")


def _renamed(plan: Plan, mention: Mention, new: str) -> Plan:
    """The plan as it should read afterwards."""

    def named(name: str) -> str:
        return new if name == mention.name else name

    if mention.role in (Role.CALLS, Role.DECLARES):
        steps = tuple(replace(step, action=named(step.action)) for step in plan.steps)
        declares = tuple(replace(one, name=named(one.name)) for one in plan.declares)
        return replace(plan, steps=steps, declares=declares)
    steps = tuple(
        replace(step, name=named(step.name), args=tuple(_arg(one, named) for one in step.args))
        for step in plan.steps
    )
    returns = tuple(replace(ref, name=named(ref.name)) for ref in plan.returns)
    return replace(plan, steps=steps, returns=returns)


def _arg(arg: Arg, named: Callable[[str], str]) -> Arg:
    match arg:
        case Ref():
            return replace(arg, name=named(arg.name))
        case Template():
            parts = tuple(
                part if isinstance(part, str) else replace(part, name=named(part.name))
                for part in arg.parts
            )
            return replace(arg, parts=parts)
        case Items():
            return replace(arg, items=tuple(_arg(one, named) for one in arg.items))
        case _:
            return arg
