"""What is told about the name under the pointer."""

from __future__ import annotations

from lsprotocol import types

from pearl.lsp.desk import Desk
from pearl.lsp.documents import Document, Kind
from pearl.lsp.names import Mention, Role
from pearl.lsp.targets import action_at, resolve
from pearl.lsp.words import about_action, cut, told
from pearl.plan import DOCUMENT, Mode
from pearl.rules import PlanView
from pearl.source import Span
from pearl.syntax import print_step

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
