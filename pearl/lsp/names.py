"""What a name stands for: hover, definition, references, outline, and another name for it.

Every answer is a function of the session, the document and the request.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from lsprotocol import types

from pearl.lang.ast import DOCUMENT, RESERVED, Action, Mode, Plan, Step, renamed_plan
from pearl.lang.diagnostics import Edit, Fix, apply_fixes
from pearl.lang.parser import parse
from pearl.lang.printer import print_call, print_step
from pearl.lang.source import Span, TextKind
from pearl.lang.text import printable, printable_lines, shorten
from pearl.lint.rules.base import PlanView
from pearl.lsp.workspace import (
    WORD,
    Document,
    LanguageSession,
    Mention,
    Role,
    refused,
    workspace_edit,
)

# Whatever may begin a mark-up, a link or a tag; an underscore only outside of words.
_MARKS = re.compile(r"[\\`*\[\]<>&|~#]|(?<!\w)_|_(?!\w)|(?m:^[-+=]|^\d+[.)])")
_MODES = {
    Mode.EACH: "Runs the step once for every item of the list; the output is pairs of item and "
    "answer.",
    Mode.WHERE: "Keeps the items of the list for which the answer is yes.",
    Mode.EACH_VALUES: "Runs the step once for every value of the pairs; the keys stay.",
    Mode.WHERE_VALUES: "Keeps the pairs for whose value the answer is yes.",
    Mode.EVIDENCE: "What the step quoted of the document, as a list.",
}


def describe(session: LanguageSession, code: str, paragraphs: Sequence[str]) -> types.MarkupContent:
    """Code and words about it. Nothing in them is read as mark-up.

    Args:
        session: whose editor shows it.
        code: one or several lines.
        paragraphs: each a line; empty ones are left out.
    """
    shown = printable_lines(code)
    words = [printable(paragraph) for paragraph in paragraphs if paragraph]
    if not session.editor.markdown:
        return types.MarkupContent(types.MarkupKind.PlainText, "\n\n".join([shown, *words]))
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    block = f"{fence}pearl-plan\n{shown}\n{fence}"
    marked = [_MARKS.sub(lambda match: f"\\{match[0]}", word) for word in words]
    return types.MarkupContent(types.MarkupKind.Markdown, "\n\n".join([block, *marked]))


def signature(action: Action) -> str:
    """``FIND_ALL(CTX, X) -> list``."""
    return f"{action.signature} -> {action.returns}"


def describe_action(
    session: LanguageSession, action: Action, origin: Document
) -> types.MarkupContent:
    """An action's signature, its definition, its other names, and where it is from."""
    typed = [f"{param.name} is {param.type}" for param in action.params if param.type != "any"]
    paragraphs = [
        action.doc,
        f"Takes: {', '.join(typed)}." if typed else "",
        f"Also called {', '.join(action.aliases)}." if action.aliases else "",
        "It runs without a model." if action.is_builtin else "",
        "Declared by this plan." if origin.kind is TextKind.PLAN else f"From {origin.source.name}.",
    ]
    return describe(session, signature(action), paragraphs)


def hover(
    session: LanguageSession, document: Document, params: types.HoverParams
) -> types.Hover | None:
    """An action's definition, a variable's step, or what a mode does."""
    offset = document.lines.offset(params.position)
    mention = document.at(offset)
    if mention is None:
        for moded in document.mentions:
            if moded.mode and moded.whole.start <= offset < moded.span.start:
                span = Span(moded.whole.start, moded.span.start)
                code = f"{moded.mode} {moded.name}"
                content = describe(session, code, [_MODES[moded.mode]])
                return types.Hover(content, document.lines.range(span))
        return None
    if mention.is_variable:
        described = _describe_variable(session, document, mention)
    else:
        target = session.resolve(document, mention.name)
        described = describe_action(session, *target) if target else None
    return types.Hover(described, document.lines.range(mention.span)) if described else None


def _describe_variable(
    session: LanguageSession, document: Document, mention: Mention
) -> types.MarkupContent | None:
    if mention.name == DOCUMENT:
        return describe(session, DOCUMENT, ["The document that the plan is run on."])
    view = PlanView(document.plan, session.libraries(document).library)
    index = view.defined.get(mention.name)
    if index is None:
        return None
    if mention.role is Role.DEFINES:
        # A name that is set twice stands for its own step here.
        steps = enumerate(view.plan.steps)
        index = next(at for at, step in steps if step.name_span == mention.span)
    used = sorted({view.number(at) for at, _ in view.uses.get(mention.name, ())})
    paragraphs = [f"Step {view.number(index)}, gives {view.type_of(index)}."]
    if used:
        paragraphs.append(f"Used by step{'s'[: len(used) != 1]} {', '.join(map(str, used))}.")
    return describe(session, shorten(print_step(view.plan.steps[index]), 300), paragraphs)


def definition(
    session: LanguageSession, document: Document, params: types.DefinitionParams
) -> list[types.Location] | types.Location | None:
    """A variable's step, or the line that declares an action."""
    mention = document.at(document.lines.offset(params.position))
    if mention and mention.is_variable:
        same = [use for use in document.mentions if use.name == mention.name]
        return [document.location(use.span) for use in same if use.role is Role.DEFINES]
    target = session.resolve(document, mention.name) if mention else None
    return target[1].declaration(target[0]) if target else None


def references(
    session: LanguageSession, document: Document, params: types.ReferenceParams
) -> list[types.Location] | None:
    """Every use of a variable in its plan; every call of an action in the open plans."""
    mention = document.at(document.lines.offset(params.position))
    declared = params.context.include_declaration
    if mention and mention.is_variable:
        same = [use for use in document.mentions if _same(use, mention)]
        return [document.location(use.span) for use in same if declared or use.role is Role.USES]
    target = session.resolve(document, mention.name) if mention else None
    if not target:
        return None
    action, origin = target
    places = [origin.declaration(action)] if declared else []
    names = {action.name, *action.aliases}
    for plan in session.plans():
        calls = [use for use in plan.mentions if use.role is Role.CALLS and use.name in names]
        for name in {call.name for call in calls}:
            declared_as = session.resolve(plan, name)
            if not declared_as or declared_as[0] != action or declared_as[1].uri != origin.uri:
                calls = [call for call in calls if call.name != name]
        places += (plan.location(call.span) for call in calls)
    return places


def _same(mention: Mention, other: Mention) -> bool:
    return mention.name == other.name and mention.is_variable == other.is_variable


def outline(
    _: LanguageSession, document: Document, __: types.DocumentSymbolParams
) -> list[types.DocumentSymbol]:
    """A plan's new actions and steps, or a library's actions."""
    if document.kind is TextKind.LIBRARY:
        actions, text = document.library.actions, document.text
        ends = [*(action.span.start for action in actions[1:]), len(text)]
        pairs = zip(actions, ends, strict=False)
        return [_symbol(document, item, _with_block(text, item, end)) for item, end in pairs]
    plan = document.plan.plan
    named: tuple[Action | Step, ...] = (*plan.declares, *plan.steps)
    return [_symbol(document, item, item.span) for item in named]


def _symbol(document: Document, named: Action | Step, whole: Span) -> types.DocumentSymbol:
    if isinstance(named, Step):
        kind, own = types.SymbolKind.Variable, named.name_span
        detail = print_call(named).removeprefix(f"{named.name} = ")
    else:
        kind, own = types.SymbolKind.Function, document.lines.name_span(named)
        detail = signature(named).removeprefix(named.name)
    whole_range, own_range = document.lines.range(whole), document.lines.range(own)
    detail = printable(shorten(detail, 100))
    return types.DocumentSymbol(printable(named.name), kind, whole_range, own_range, detail)


def _with_block(text: str, action: Action, end: int) -> Span:
    """An action of a library with the lines below it that belong to it."""
    start = action.span.start
    below = text[start:end].splitlines(keepends=True)
    # Comments above the next action are its own.
    while len(below) > 1 and not (below[-1].strip() and below[-1][0] in " \t"):
        below.pop()
    return Span(start, max(action.span.end, start + len("".join(below).rstrip())))


def prepare_rename(
    session: LanguageSession, document: Document, params: types.PrepareRenameParams
) -> types.PrepareRenamePlaceholder | None:
    """The name that would be changed.

    Raises:
        JsonRpcException: it is not this plan's to change.
    """
    mention = _renameable(session, document, params.position)
    if not mention:
        return None
    return types.PrepareRenamePlaceholder(document.lines.range(mention.span), mention.name)


def rename(
    session: LanguageSession, document: Document, params: types.RenameParams
) -> types.WorkspaceEdit | None:
    """Another name, everywhere in the plan: in steps, references, templates, what is returned.

    Raises:
        JsonRpcException: the name is none, is taken, or the plan would mean something else.
    """
    mention = _renameable(session, document, params.position)
    if not mention:
        return None
    new = params.new_name.strip()
    if new == mention.name:
        return workspace_edit(session, document, [])
    _check_name(session, document, mention, new)
    spans = [other.span for other in document.mentions if _same(other, mention)]
    text, _ = apply_fixes(document.text, [Fix("", tuple(Edit(span, new) for span in spans))])
    # Whatever the reasons may be, a plan that reads otherwise afterwards is not a renamed one.
    if parse(text).plan != _renamed(document.plan.plan, mention, new):
        raise refused(f"The plan would mean something else with {new} for {mention.name}.")
    edits = [types.TextEdit(document.lines.range(span), new) for span in spans]
    return workspace_edit(session, document, edits)


def _renameable(
    session: LanguageSession, document: Document, position: types.Position
) -> Mention | None:
    """The name at a place, where it may be changed."""
    if document.kind is TextKind.LIBRARY:
        raise refused("Only names of a plan are renamed: plans elsewhere may call this action.")
    mention = document.at(document.lines.offset(position))
    if not mention:
        return None
    if mention.name == DOCUMENT:
        raise refused(f"{DOCUMENT} is the document: it has no other name.")
    target = None if mention.is_variable else session.resolve(document, mention.name)
    if target and target[1].kind is TextKind.LIBRARY:
        raise refused(f"{mention.name} is an action of {target[1].source.name}, not of this plan.")
    return mention


def _check_name(session: LanguageSession, document: Document, mention: Mention, new: str) -> None:
    if not WORD.fullmatch(new):
        raise refused(f"{new} is no name: write letters, digits and underscores.")
    if new.lower() in RESERVED or new.upper() == DOCUMENT:
        raise refused(f"{new} is a word of the language: choose another name.")
    if any(_same(other, replace(mention, name=new)) for other in document.mentions):
        raise refused(f"{new} is taken in this plan: choose another name.")
    if not mention.is_variable and session.resolve(document, new):
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

    if not mention.is_variable:
        steps = tuple(replace(step, action=named(step.action)) for step in plan.steps)
        declares = tuple(replace(action, name=named(action.name)) for action in plan.declares)
        return replace(plan, steps=steps, declares=declares)
    plan = renamed_plan(plan, {mention.name: new})
    return replace(plan, steps=tuple(replace(step, name=named(step.name)) for step in plan.steps))
