"""Actions and steps in an editor: hover, definition, references, outline, renaming, completion.

Every answer is a function of the session, the document and the request.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from lsprotocol import types

from pearl.lang import logical_lines
from pearl.lang.ast import DOCUMENT, RESERVED, Action, Mode, Plan, Step, renamed_plan
from pearl.lang.ast import Kind as LineKind
from pearl.lang.diagnostics import Edit, Fix, apply_fixes
from pearl.lang.parser import parse
from pearl.lang.printer import print_call, print_step
from pearl.lang.source import Span, TextKind
from pearl.lang.text import printable, printable_lines, shorten
from pearl.lang.values import TYPES
from pearl.lint.rules.base import PlanView
from pearl.lsp.workspace import (
    WORD,
    Document,
    LanguageSession,
    Libraries,
    Mention,
    Role,
    refused,
    workspace_edit,
)

# Characters that may begin markup, a link or a tag; an underscore only outside of words.
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
    """Code with an explanation, escaped so that nothing in it is read as markup.

    Args:
        session: the session, whose editor shows it.
        code: one or several lines.
        paragraphs: the explanation, one line each; empty ones are left out.
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
    """An action's signature with its type, ``FIND_ALL(CTX, X) -> list``."""
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
        # Of a name that is assigned twice, the step at this place is meant.
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
    """The span of a library's action, including the lines below that belong to it."""
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
        JsonRpcException: the name is not declared in this plan.
    """
    mention = _renameable(session, document, params.position)
    if not mention:
        return None
    return types.PrepareRenamePlaceholder(document.lines.range(mention.span), mention.name)


def rename(
    session: LanguageSession, document: Document, params: types.RenameParams
) -> types.WorkspaceEdit | None:
    """Rename a step or action everywhere in the plan.

    Raises:
        JsonRpcException: the name is invalid or taken, or the plan would mean something else.
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
    # A safeguard: the edited text must parse to exactly the renamed plan.
    if parse(text).plan != _renamed(document.plan.plan, mention, new):
        raise refused(f"The plan would mean something else with {new} for {mention.name}.")
    edits = [types.TextEdit(document.lines.range(span), new) for span in spans]
    return workspace_edit(session, document, edits)


def _renameable(
    session: LanguageSession, document: Document, position: types.Position
) -> Mention | None:
    """The name at a position, if it may be renamed; raises `JsonRpcException` if it may not."""
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
    """The plan as it should be after renaming."""
    old = mention.name
    if mention.is_variable:
        plan = renamed_plan(plan, {old: new})
        named = (replace(step, name=new) if step.name == old else step for step in plan.steps)
        return replace(plan, steps=tuple(named))
    steps = (replace(step, action=new) if step.action == old else step for step in plan.steps)
    own = (replace(action, name=new) if action.name == old else action for action in plan.declares)
    return replace(plan, steps=tuple(steps), declares=tuple(own))


# --- completion ---

# The line need not parse yet, so the text before the cursor is matched with regular expressions.

_HEAD = re.compile(rf"\s*{logical_lines.NAME}\s*{logical_lines.ASSIGN}\s*")
_RETURN = re.compile(r"\s*return\b\s*[:：]?\s*(?:\w+\s*,\s*)*\w*$", re.IGNORECASE)
_CALLED = re.compile(r"([^\W\d]\w*)\s*[(（]")
_WORD = re.compile(r"\w*\Z")
_BRACED = re.compile(
    r"\{\s*(?:(?:(?:each|where)(?:\s+values)?|evidence)\s+)?(?:[^\W\d]\w*)?$", re.IGNORECASE
)
_MODED = re.compile(r"\b(?:(?:each|where)(?:\s+values)?|evidence)\s+\w*$", re.IGNORECASE)
_TYPED = re.compile(r"(?:->|→)\s*\w*$")


class Where(Enum):
    """What may be written at the cursor."""

    NOWHERE = auto()
    ACTION = auto()
    ARGUMENT = auto()
    BRACES = auto()
    RETURN = auto()
    TYPE = auto()


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of the cursor.

    Args:
        line: the content of its line, after number and bullet, as far as the cursor.
        where: what may be written there.
        variables: the names that can be referred to there, in order, each with a short description.
        actions: the actions that can be called there, each with the document that declares it.
    """

    line: str
    where: Where
    variables: Mapping[str, str] = field(default_factory=dict)
    actions: Sequence[tuple[Action, Document]] = ()


def in_step(line: str) -> Where:
    """What may be written after the beginning of a plan's line."""
    if _RETURN.fullmatch(line):
        return Where.RETURN
    head = _HEAD.match(line)
    if not head:
        return Where.NOWHERE
    if called := _CALLED.match(line, head.end()):
        return _inside(line, called.end() - 1)
    return Where.ACTION if _WORD.fullmatch(line, head.end()) else Where.NOWHERE


def in_declaration(line: str) -> Where:
    """What may be written in a line that declares an action."""
    of_param = "(" in line and ")" not in line and re.search(r"\w\s*:\s*\w*$", line)
    return Where.TYPE if of_param or _TYPED.search(line) else Where.NOWHERE


def _inside(line: str, opening: int) -> Where:
    """What may be written at a line's end, after a call's parenthesis at ``opening``."""
    end, text = logical_lines.call_ends(line, opening, len(line))
    if end >= 0:
        return Where.NOWHERE
    # An apostrophe inside a word opens nothing.
    if text >= 0 and not (line[text] == "'" and line[text - 1].isalnum()):
        return Where.BRACES if _BRACED.search(line, text) else Where.NOWHERE
    return Where.ARGUMENT if re.search(r"[(（\[【,，{\s]\w*$", line) else Where.NOWHERE


COMPLETION_OPTIONS: types.CompletionOptions = types.CompletionOptions(
    trigger_characters=["(", ",", "{", "=", " ", ">"]
)
_BLOCK = re.compile(r"\s+(?:plan|demonstration)\s*:\s*$")
_REPLACES = re.compile(r"\s+replaces\s*:\s*\w+\s*\((?P<params>[^()=]*)\)\s*=\s*(?=\()")
_STEP = re.compile(rf"[ \t]*(?:\S{{1,8}}[ \t]+)?({logical_lines.NAME})\s*=(?!=)")


def completion(
    session: LanguageSession, document: Document, params: types.CompletionParams
) -> list[types.CompletionItem]:
    """What may be written at the cursor; the editor filters it as the user types on."""
    offset = document.lines.offset(params.position)
    place = _in_library if document.kind is TextKind.LIBRARY else _in_plan
    cursor = place(document, session.libraries(document), offset)
    return list(_items(session, document, offset, cursor)) if cursor else []


def _in_plan(document: Document, libraries: Libraries, offset: int) -> Cursor | None:
    parsed = document.plan
    line = next((line for line in parsed.lines if line.begin <= offset <= line.end), None)
    if not line or offset < line.start or line.kind in (LineKind.COMMENT, LineKind.QUESTION):
        return None
    begun = document.text[line.start : offset]
    if line.kind is LineKind.ACTION:
        return Cursor(begun, in_declaration(begun))
    where = in_step(begun)
    above = len(document.text) if where is Where.RETURN else line.start
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
    return Cursor(begun, where, variables, actions)


def _in_library(document: Document, libraries: Libraries, offset: int) -> Cursor | None:
    text = document.text
    line = document.lines.line_span(offset)
    replaces = _REPLACES.match(text, *line)
    if replaces and offset > replaces.end():
        begun = text[replaces.end() : offset]
        params = [name.strip() for name in replaces["params"].split(",")]
        return Cursor(begun, _inside(begun, 0), _parameters(params))
    block = _block(document, line.start)
    if block is not None:
        prefix = logical_lines.PREFIX.match(text, *line)
        begun = text[prefix.end() if prefix else line.start : offset]
        above = [action for action in document.library.actions if action.span.start < block.start]
        variables = _parameters(param.name for param in above[-1].params) if above else {}
        for written in text[block.end : line.start].splitlines():
            if step := _STEP.match(written):
                variables[step[1]] = "a step above"
        others = libraries.library.actions.items()
        named = {name: (action, libraries.origins[name]) for name, action in others}
        named |= {action.name: (action, document) for action in document.declares}
        return Cursor(begun, in_step(begun), variables, tuple(named.values()))
    if text[line.start : line.start + 1] not in (" ", "\t", "#"):
        begun = text[line.start : offset]
        return Cursor(begun, in_declaration(begun))
    return None


def _block(document: Document, start: int) -> Span | None:
    """The span of the line that opens the plan, inside a library, that a line belongs to."""
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
    session: LanguageSession, document: Document, offset: int, cursor: Cursor
) -> Iterator[types.CompletionItem]:
    """Completions at a cursor: types; actions; or variables, the nearest first, then the document
    and modes."""
    kind, where, moded = types.CompletionItemKind, cursor.where, _MODED.search(cursor.line)
    word = _WORD.search(cursor.line)
    place = document.lines.range(Span(offset - len(word[0] if word else ""), offset))

    def item(
        label: str, kind: types.CompletionItemKind, detail: str, order: str, text: str = ""
    ) -> types.CompletionItem:
        edit = types.TextEdit(place, text or label)
        return types.CompletionItem(
            label, kind=kind, detail=detail, sort_text=order, filter_text=label, text_edit=edit
        )

    if where is Where.TYPE:
        yield from (item(name, kind.TypeParameter, "a type", name) for name in TYPES)
    elif where is Where.ACTION:
        called = document.text[offset : offset + 40].lstrip(" \t")[:1] == "("
        for action, origin in cursor.actions:
            if "unlisted" not in action.traits:
                yield from _calls(session, item, called, action, origin)
    elif where is not Where.NOWHERE:
        for order, (name, detail) in enumerate(reversed([*cursor.variables.items()])):
            yield item(name, kind.Variable, detail, f"0{order:05}")
        if where is Where.ARGUMENT and not moded:
            yield item(DOCUMENT, kind.Constant, "the document", "1")
        if where is not Where.RETURN and not moded:
            for mode in filter(None, Mode):
                yield item(mode.value, kind.Keyword, "a mode", "2", f"{mode} ")


def _calls(
    session: LanguageSession,
    item: Callable[..., types.CompletionItem],
    called: bool,
    action: Action,
    origin: Document,
) -> Iterator[types.CompletionItem]:
    """Completions of an action, one for each of its names; parameters are a snippet's blanks."""
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
