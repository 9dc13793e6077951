"""A line below an action that says what cannot be.

What it does
    Reports a definition that begins with a type (``NAME(CTX): number : …``), ``...`` before another
    parameter, and, below an action of a library: a key that there is none of (``alias:``), one
    without its colon, and one in a form that it does not have; one that is said twice, or two that
    each say how the action is carried out; a trait or a builtin that does not exist; a solver's
    name that is nearly ``retrieve``, the one that Pearl has, or that it has for no strategy and no
    tool, where only Python can hand it to a run; an example with other arguments, or whose answer
    is not of the action's type;
    parameters or an output that the builtin, the retriever or the plan does not have; a ``model``
    for what asks none; an older action that two replace, or one action twice, or whose calls stay
    as they are, as the library has its name; a name in ``replaces`` that it has no parameter for or
    two, no argument for one of its parameters, as many arguments as the new one does not take, a
    type that it does not, or the document where it takes none; a ``plan`` without steps, one that
    declares actions or comes back to the action itself, one whose action has a parameter that
    repeats, of which it gets the first alone, one that quotes a parameter's name and uses it
    nowhere, or that gives another parameter for an action's document; a parameter that the action
    has twice, or that is called as the document is but for the case of its letters. The steps of a
    plan or a demonstration are checked for errors by the rules for plans.

Why
    Such a line is taken for a part of the definition, or fails when a plan calls the action.

Example
    FIND_HABIT(CTX, X) : Find what X does every day in CTX.
      alias: FIND_CUSTOM
      traits: cachable

Use instead
    FIND_HABIT(CTX, X) : Find what X does every day in CTX.
      aliases: FIND_CUSTOM
      traits: cacheable

Fix
    None.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import TypeAlias

from pearl.lang.ast import (
    DOCUMENT,
    RETRIEVE,
    Action,
    Builtin,
    Decomposed,
    Parsed,
    Plan,
    Prompt,
    Ref,
    Replaced,
    Solver,
    Step,
    SubPlan,
    Template,
    refs,
    step_refs,
)
from pearl.lang.builtins import FUNCTIONS, misfit
from pearl.lang.graph import outputs
from pearl.lang.library import METADATA, TRAITS, Library, builtins, parse_library
from pearl.lang.printer import print_action, print_value
from pearl.lang.source import Span, shipped_actions
from pearl.lang.text import counted, pattern
from pearl.lang.values import TYPES, DecodeError, Type, as_text, decode
from pearl.lint.rules import misplaced_document, wrong_type
from pearl.lint.rules.base import ERROR, WARNING, Diagnostic, Findings, LibraryView, PlanView, Rule
from pearl.lint.rules.names import closest, nearest, no_key

_ACTION = pattern(r"[A-Z][A-Z0-9_]*")
_TYPED = pattern(rf"[^)）]*[)）][\s`*]*(?:(?:->|→)\s*\w+\s*)?[:：#]+\s*({'|'.join(TYPES)})[ \t]*:")
_KEYED = pattern(r"[ \t]+(\w+)[ \t]*:")
_EARLY = pattern(r"[^)）]*?(\.\.\.|…)\s*[,，、،]\s*[^)）\s]")
_NAMES = r"[A-Z][A-Z0-9_]*(?>(?:,[ \t]*[A-Z][A-Z0-9_]*)*)"
_VALUED = (
    rf"aliases(?=[ \t]+{_NAMES}$)|body(?=[ \t]+(?:builtin|solver)[ \t]+\w+$)|model(?=[ \t]+\S+$)"
    rf"|traits(?=[ \t]+(?>(?:(?:{'|'.join(TRAITS)}),?[ \t]*)+)$)"
    r"|replaces(?=[ \t]+[A-Z][A-Z0-9_]*[ \t]*[(（][^\n]*[)）][ \t]*=)"
    r"|example(?=[ \t]*[(（][^\n]*[)）][ \t]*=)"
    # Ids have digits as a rule, and other words have none.
    r"|provenance(?=[ \t]+[^\s,]*\d[^\s,]*(?>(?:,[ \t]*[^\s,]+)*)$)"
    r"|(?:plan|demonstration)(?=[ \t]*\n[ \t]+(?:\d+[.)][ \t]*)?\w+[ \t]*=[ \t]*[A-Z]\w*[(（])"
)
_MEANT = pattern(
    rf"[ \t]+(\w+(?=[ \t]*:)|(?:{'|'.join(METADATA)})(?=[ \t]*=)|{_VALUED})", re.MULTILINE
)
"""A key of metadata, also without its colon, if a value that it may have follows."""
_LATER = pattern(r"(?<=\n)[^\n]+")


_Problems: TypeAlias = Iterator[tuple[str, str, str]]
"""What is wrong, the place of it, and what to do. The place is a word in the lines below the
action, after the key of its line and a space if other lines may have the word."""


def check(view: LibraryView) -> Findings:
    replaced: dict[str, Action] = {}
    for action in (*view.actions, *view.unread):
        for older in action.replaces:
            if (first := replaced.setdefault(older.name, action)) is not action:
                wrong = f"{first.name} replaces {older.name}, too."
                help = "Keep one of the two lines: calls are written anew in one way."
                yield _finding(action, view.place(action, older.name, "replaces"), wrong, help)
        if action.name == DOCUMENT:
            yield _finding(action, action.span, "that is the document's name.", "Choose another.")
        if typed := _TYPED.match(view.source.text, *action.span):
            wrong = f"{typed[1]} stands in its definition, which tells no type of its output."
            meant = replace(action, returns=TYPES[TYPES.index(typed[1])], doc="definition")
            help = f"Write {print_action(meant)}."
            yield _finding(action, Span(*typed.span(1)), wrong, help)
        yield from _parameters(view, action)
        yield from _keys(view, action)
        # Doubts are warnings, so that the library can be loaded: a run may succeed all the same.
        doubts = (
            _migrated(view, action),
            _misleading(action),
            _unsolved(action),
            _lost(view, action),
        )
        for severity, problems in ((ERROR, _metadata(view, action)), (WARNING, chain(*doubts))):
            for wrong, place, help in problems:
                key, _, word = place.rpartition(" ")
                finding = _finding(action, view.place(action, word, key), wrong, help)
                yield replace(finding, severity=severity)


def _finding(action: Action, span: Span, wrong: str, help: str) -> Diagnostic:
    message = f"{action.name or 'This action'}: {wrong}"
    return RULE(span, message, help=help, data={"action": action.name})


def _parameters(view: LibraryView, action: Action) -> Findings:
    if action.variadic and (early := _EARLY.match(view.source.at(action.span))):
        span = Span(*early.span(1)).moved(action.span.start)
        help = f"Write {action.signature}, or name each parameter."
        yield _finding(action, span, "only its last parameter can repeat.", help)
    for name, times in Counter(param.name for param in action.params).items():
        if times > 1:
            help = "Give each parameter a name of its own."
            yield _finding(action, action.span, f"two parameters are called {name}.", help)
        if name != DOCUMENT and name.upper() == DOCUMENT:
            wrong = f"{name} is a parameter as any other, and not the document."
            yield _finding(action, view.place(action, name), wrong, f"Write {DOCUMENT}.")


def _keys(view: LibraryView, action: Action) -> Findings:
    """Findings for lines of metadata that are read as a part of the definition."""
    text = view.source.text
    for line in _LATER.finditer(text, *action.span):
        match = _MEANT.match(text, line.start())
        if match and (problem := no_key(match[1], text[match.end() : line.end()])):
            wrong, help = problem
            help = f"{help} Where it is a part of the definition, reword it."
            yield _finding(action, Span(*match.span(1)), wrong, help)


_BODIES = ("body", "plan", "demonstration", "example")
_SEVERAL = ("demonstration", "example", "replaces")


def _repeated(view: LibraryView, action: Action) -> _Problems:
    """Keys that stand several times, of which only the last line counts."""
    below = view.source.at(view.lines_below(action)).splitlines()
    keys = [match[1] for line in below if (match := _KEYED.match(line)) and match[1] in METADATA]
    for key in dict.fromkeys(keys):
        if keys.count(key) > 1 and key not in _SEVERAL:
            yield f"{keys.count(key)} of its lines begin with {key}.", key, "Keep one of them."
    bodies = [key for key in _BODIES if key in keys]
    if len(bodies) > 1:
        wrong = f"it has {bodies[0]} and {bodies[1]}, and is carried out in one way."
        yield wrong, bodies[0], "Keep one of them."


def _metadata(view: LibraryView, action: Action) -> _Problems:
    """What is wrong in the lines of metadata below an action."""
    for trait in sorted(action.traits - TRAITS.keys()):
        near = closest(trait, TRAITS) or list(TRAITS)
        yield f"there is no trait {trait}.", f"traits {trait}", f"Use {' or '.join(near)}."
    if isinstance(action.body, Builtin) and action.body.function not in FUNCTIONS:
        name = action.body.function
        near = closest(name, FUNCTIONS) or list(FUNCTIONS)
        yield f"there is no builtin {name}.", f"body {name}", f"Use one of {', '.join(near)}."
    if isinstance(action.body, Solver) and action.body.name != RETRIEVE:
        name = action.body.name
        if nearest(name, [RETRIEVE], word=True):
            yield f"Pearl has no solver {name}.", f"body {name}", f"Closest: {RETRIEVE}."
    own = {"aliases": action.aliases, "replaces": [older.name for older in action.replaces]}
    for key, names_said in own.items():
        if action.name in names_said:
            wrong, word = f"{key} names the action itself.", f"{key} {action.name}"
            yield wrong, word, "Name another, or leave it out."
    yield from _repeated(view, action)
    yield from _body(action)
    for alias in action.aliases:
        if not _ACTION.fullmatch(alias):
            help = "Write names in capitals, and commas between them."
            yield f"{alias} is no name of an action.", f"aliases {alias}", help
        elif alias != action.name and alias in builtins():
            yield f"{alias} is the name of a builtin.", f"aliases {alias}", "Choose another name."
    for older in action.replaces:
        word = f"replaces {older.name}"
        used = {ref.name for arg in older.args for ref in refs(arg)} - {DOCUMENT}
        for name in sorted(used - set(older.params)):
            params = ", ".join(older.params) or "none"
            yield f"{older.name} has no parameter {name}.", word, f"It has these: {params}."
        if not action.takes(len(older.args)):
            wrong = f"it is given {counted(len(older.args), 'argument')} in place of {older.name}."
            yield wrong, word, f"Write as many as {action.signature} takes."
    if isinstance(action.body, SubPlan):
        yield from _plan(view, action, action.body.plan)
    plans = action.body.demonstrations if isinstance(action.body, Decomposed) else ()
    if not all(plan.steps for plan in plans):
        help = "Write its steps below it, indented."
        yield "its demonstration has no step.", "demonstration", help


def _migrated(view: LibraryView, action: Action) -> _Problems:
    """What goes wrong when plans are migrated, and only then."""
    lines = Counter((older.name, len(older.params)) for older in action.replaces)
    for (name, count), times in lines.items():
        if times > 1:
            wrong = f"{times} of its lines replace {name} with {counted(count, 'parameter')}."
            yield wrong, f"replaces {name}", "Keep one of them."
    for older in action.replaces:
        for wrong, help in chain(_stays(view, action, older), _rewritten(action, older)):
            yield wrong, f"replaces {older.name}", help


def _misleading(action: Action) -> _Problems:
    """Examples whose answers have another type than the action, which a model would imitate."""
    for shown in action.body.examples if isinstance(action.body, Prompt) else ():
        answer = shown.answer
        text = print_value(answer) if isinstance(answer, list) else as_text(answer)
        try:
            decode(text, action.returns)
        except DecodeError as error:
            wrong = f"an example's answer is not of its type: {error}."
            yield wrong, "example", f"Write one that is, or another type than {action.returns}."


@cache
def _solvers() -> frozenset[str]:
    """The solvers that Pearl has, which are those that the shipped libraries name."""
    texts = (path.read_text(encoding="utf-8") for path in shipped_actions().values())
    bodies = (action.body for text in texts for action in parse_library(text).actions)
    return frozenset(body.name for body in bodies if isinstance(body, Solver))


def _unsolved(action: Action) -> _Problems:
    """A solver that Pearl does not have, but that a program may pass in Python."""
    name = action.body.name if isinstance(action.body, Solver) else RETRIEVE
    if name not in _solvers() and not nearest(name, [RETRIEVE], word=True):
        help = f"Only a run that is handed one in Python has it. Pearl's own is {RETRIEVE}."
        yield f"Pearl has no solver {name}.", f"body {name}", help


def _stays(view: LibraryView, action: Action, older: Replaced) -> Iterator[tuple[str, str]]:
    """Why calls of an older action are not migrated: the library has an action for them."""
    if older.name == action.name:
        return  # `_metadata` reports that.
    if (builtin := builtins().get(older.name)) and builtin.takes(len(older.params)):
        yield f"{older.name} is a builtin, and its calls stay as they are.", "Leave the line out."
    for other in view.actions:
        if not other.takes(len(older.params)):
            continue
        if older.name in other.aliases:
            whose = "aliases names it" if other is action else f"it is an alias of {other.name}"
            help = "Leave out one of the two lines: with an alias, arguments stay as they are."
            yield f"calls of {older.name} stay as they are, as {whose}.", help
        elif older.name == other.name and older.name not in builtins():
            wrong = f"calls of {older.name} stay as they are, as this library has it."
            yield wrong, f"Leave out this line, or the action {older.name}."


def _rewritten(action: Action, older: Replaced) -> Iterator[tuple[str, str]]:
    """What is wrong with the new call in place of an older one, and what to do."""
    for name, times in Counter(older.params).items():
        if times > 1:
            wrong = f"{times} parameters of {older.name} are called {name}."
            yield wrong, "Give each a name of its own: only the last is kept."
    if not action.takes(len(older.args)):
        return  # `_metadata` reports that.
    used, params = {ref.name for arg in older.args for ref in refs(arg)}, {*older.params}
    # An unknown name, which `_metadata` reports, may be the missing parameter misspelt.
    for name in sorted(params - used - {DOCUMENT}) if used <= params | {DOCUMENT} else ():
        wrong = f"{name} of {older.name} has no place in the new call: what it says is lost."
        yield wrong, f"Put it into an argument, as in a text: {{{name}}}."
    texts = (arg for arg in older.args if isinstance(arg, Template))
    if any(ref.name == DOCUMENT for arg in texts for ref in refs(arg)):
        wrong = f"{DOCUMENT} stands in a text in place of {older.name}."
        yield wrong, f"Give {DOCUMENT} as an argument of its own."
    # The new call is checked as a step with unknown names.
    step = Step("a", action.name, older.args)
    library = Library((), MappingProxyType({action.name: action}))
    plan = PlanView(Parsed(Plan((step,))), library)
    for finding in misplaced_document.check(plan):
        yield f"in place of {older.name}: {finding.message}", finding.help
    for finding in wrong_type.check(plan):
        help = f"Write one that it takes, or a parameter of {older.name}."
        yield f"in place of {older.name}: {finding.message}", help


def _body(action: Action) -> _Problems:
    """What in an action's signature or metadata does not fit its body."""
    if action.model and not isinstance(action.body, Prompt):
        yield "it has a model of its own and asks none.", "model", "Leave the line out."
    for shown in action.body.examples if isinstance(action.body, Prompt) else ():
        if not action.takes(len(shown.args)):
            wrong = f"an example of it has {counted(len(shown.args), 'argument')}."
            yield wrong, "example", f"Write as many as {action.signature} takes."
    if isinstance(action.body, Builtin):
        wrong, help = misfit(action)
        if wrong:
            yield wrong, action.body.function, help
    if isinstance(action.body, Solver) and action.body.name == RETRIEVE:
        params = [param for param in action.params if param.name != DOCUMENT]
        no_query = params and params[0].type in ("number", "bool")
        if len(params) not in (1, 2) or no_query or action.returns not in ("list", "any"):
            help = "Write NAME(Q, K: number) -> list: K passages that bear on the query Q."
            yield "a retriever takes a query and a number, and gives a list.", RETRIEVE, help
        elif params[1:] and params[1].type not in ("number", "any"):
            yield f"{params[1].name} is how many passages are wanted.", RETRIEVE, "Write : number."


def _plan(view: LibraryView, action: Action, plan: Plan) -> _Problems:
    """What is wrong with an action's plan as a whole; the rules for plans check its steps."""
    if plan.declares:
        declared = plan.declares[0].name
        yield f"its plan declares {declared}.", "plan", f"Make {declared} an action of the library."
    if not plan.steps:
        yield "its plan has no step.", "plan", "Write its steps below it, indented."
    if action.variadic and action.params:
        name = action.params[-1].name
        wrong = f"{name} repeats, and its plan can only use the first."
        yield wrong, name, f"Write {name}: list, without the dots, and give it a list."
    if back := _comes_back(action, view.library):
        yield f"its plan calls {back}, and would never end.", "plan", "Call another."
    gives = _type_of(PlanView(Parsed(plan), view.library, action))
    fits = action.returns in (gives, "text") or "any" in (gives, action.returns)
    if plan.steps and not fits:
        yield f"its plan gives {gives}, and no {action.returns}.", "plan", f"Write -> {gives}."


def _lost(view: LibraryView, action: Action) -> _Problems:
    """Arguments that an action's plan may not use as meant, though it runs: a parameter that the
    plan only quotes, the document under another name, and a list that need not be one."""
    if not isinstance(action.body, SubPlan):
        return
    facts = PlanView(Parsed(action.body.plan), view.library, action)
    used = facts.uses.keys() | {ref.name for ref in facts.plan.returns}
    quoted = (arg.value for _, _, arg in facts.literals if isinstance(arg.value, str))
    for name in dict.fromkeys(name for name in quoted if name in facts.params.keys() - used):
        wrong = f'its plan has "{name}" as a text, and uses the parameter {name} nowhere.'
        yield wrong, f'"{name}"', f"Write {name} for what is given."
    moded = (ref for _, ref in facts.moded if ref.maps)
    uses = [(ref.name, "pairs" if "values" in ref.mode else "list") for ref in moded]
    for step, called in zip(facts.plan.steps, facts.actions, strict=True):
        for param, arg in zip(called.params if called else (), step.args, strict=False):
            whole = arg.name if isinstance(arg, Ref) and not arg.mode else ""
            # A parameter may be given a part's label or a text, but never the document.
            if param.name == DOCUMENT and facts.params.get(whole) in ("any", "text"):
                wrong = f"its plan gives {whole} to {step.action} for {DOCUMENT}."
                yield wrong, whole, f"Call it {DOCUMENT}, unless it is a part's label or a text."
            if whole and called and called.is_builtin:
                uses.append((whole, param.type))
    for name in dict.fromkeys(name for name, _ in uses if facts.params.get(name) == "any"):
        types = {type for used, type in uses if used == name} & {"list", "pairs"}
        # If the plan takes it for both, no type is right.
        for wanted in types if len(types) == 1 else ():
            wrong = f"its plan takes {name} for {wanted}, and its signature does not say so."
            yield wrong, name, f"Write {name}: {wanted}, so that calls are checked."


def _type_of(facts: PlanView) -> Type:
    """The type of a plan's output, as far as it shows; several outputs make one text."""
    ends = outputs(facts.plan)
    if len(ends) != 1:
        return "text"
    return facts.type_of(facts.defined[ends[0]]) if ends[0] in facts.defined else "any"


def _comes_back(action: Action, library: Library) -> str:
    """The calls by which an action's plan calls the action again; empty where there are none. Calls
    for each item of a list are left out, as they may end."""
    callers, ahead = dict[str, str](), [action]
    for at in ahead:
        steps = at.body.plan.steps if isinstance(at.body, SubPlan) else ()
        for step in steps:
            called = library.get(step.action)
            if called is None or any(ref.maps for ref in step_refs(step)):
                continue
            if called.name == action.name:
                chain, name = list[str](), at.name
                while name != action.name:
                    chain.insert(0, name)
                    name = callers[name]
                return ", which calls ".join((*chain, "it")) if chain else "the action itself"
            if called.name not in callers:
                callers[called.name] = at.name
                ahead.append(called)
    return ""


RULE = Rule("PRL505", "bad-metadata", ERROR, __doc__, library=check)
