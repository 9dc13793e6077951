"""Gives a step's output, or an action that a plan declares, another name."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from lsprotocol import types

from pearl.diagnostics import Edit, Fix, apply_fixes
from pearl.lsp.desk import Desk
from pearl.lsp.documents import Document, Kind
from pearl.lsp.edits import workspace_edit
from pearl.lsp.names import Mention, Role
from pearl.lsp.refusals import refused
from pearl.lsp.targets import resolve
from pearl.plan import DOCUMENT, Arg, Items, Plan, Ref, Template
from pearl.syntax import parse

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
