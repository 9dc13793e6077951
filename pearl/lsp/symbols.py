"""The outline of a document."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from pearl.lsp.desk import Desk
from pearl.lsp.documents import Document, Kind
from pearl.lsp.names import NAME
from pearl.lsp.words import cut, signature
from pearl.plan import Action, Plan, Step
from pearl.screen import printable
from pearl.source import Span
from pearl.syntax.printer import print_call

_LONGEST = 100


def symbols(desk: Desk, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol] | None:
    """A plan's new actions and steps, or a library's actions."""
    document = desk.documents.get(params.text_document.uri)
    if not document:
        return None
    if document.kind is Kind.LIBRARY:
        return _actions(document, document.library.actions)
    plan: Plan = document.plan.plan
    return [
        *(_action(document, one, one.span) for one in plan.declares),
        *(_step(document, one) for one in plan.steps),
    ]


def _step(document: Document, step: Step) -> types.DocumentSymbol:
    called = print_call(step).removeprefix(f"{step.name} = ")
    return types.DocumentSymbol(
        printable(step.name),
        types.SymbolKind.Variable,
        document.lines.range(step.span),
        document.lines.range(step.name_span),
        printable(cut(called, _LONGEST)),
    )


def _actions(document: Document, actions: Sequence[Action]) -> list[types.DocumentSymbol]:
    """Each action with the lines below it that belong to it."""
    ends = [*(one.span.start for one in actions[1:]), len(document.text)]
    found = []
    for action, end in zip(actions, ends, strict=False):
        start = action.span.start
        below = document.text[start:end].splitlines(keepends=True)
        # Comments above the next action are its own.
        while len(below) > 1 and not (below[-1].strip() and below[-1][0] in " \t"):
            below.pop()
        whole = Span(start, max(action.span.end, start + len("".join(below).rstrip())))
        found.append(_action(document, action, whole))
    return found


def _action(document: Document, action: Action, whole: Span) -> types.DocumentSymbol:
    name = NAME.match(document.text, action.span.start)
    return types.DocumentSymbol(
        printable(action.name),
        types.SymbolKind.Function,
        document.lines.range(whole),
        document.lines.range(Span(*name.span()) if name else action.span),
        printable(cut(signature(action).removeprefix(action.name), _LONGEST)),
    )
