"""A line below an action that says what cannot be.

What it does
    Reports, below an action of a library: a key that there is none of (``alias:``), and one in a
    form that it does not have; a trait or a builtin that does not exist; a solver's name that is
    nearly ``retrieve``, the one that Pearl has; a name in ``replaces`` that the older action has
    no parameter for, or as many arguments as the new one does not take; a step of a ``plan`` that
    calls no action, takes too many or too few arguments, or uses what no earlier step and no
    parameter is; and a parameter that the action has twice.

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
from collections.abc import Iterator

from pearl.lang.ast import (
    DOCUMENT,
    RETRIEVE,
    Action,
    Builtin,
    Decomposed,
    Solver,
    Step,
    SubPlan,
    refs,
    step_refs,
)
from pearl.lang.builtins import FUNCTIONS
from pearl.lang.library import TRAITS, builtins
from pearl.lang.text import counted, pattern
from pearl.lint.rules.base import (
    ERROR,
    Diagnostic,
    Findings,
    LibraryView,
    Rule,
    Span,
    closest,
    nearest,
    no_key,
)

_ACTION = pattern(r"[A-Z][A-Z0-9_]*")
_KEYED = pattern(r"[ \t]+(\w+)[ \t]*:[ \t]*(.*)")


def check(view: LibraryView) -> Findings:
    for action in (*view.actions, *view.unread):
        yield from _parameters(action)
        yield from _keys(view, action)
        for wrong, word, help in _metadata(view, action):
            yield _finding(action, view.place(action, word), wrong, help)


def _finding(action: Action, span: Span, wrong: str, help: str) -> Diagnostic:
    message = f"{action.name or 'This action'}: {wrong}"
    return RULE(span, message, help=help, data={"action": action.name})


def _parameters(action: Action) -> Findings:
    names = [param.name for param in action.params]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            help = "Give each parameter a name of its own."
            yield _finding(action, action.span, f"two parameters are called {name}.", help)


def _keys(view: LibraryView, action: Action) -> Findings:
    """Lines that were taken for a part of the definition."""
    text = view.source.at(action.span)
    for line in re.finditer(r"(?<=\n)[^\n]+", text):
        if (match := _KEYED.match(line[0])) and (said := no_key(match[1])):
            at = action.span.start + line.start()
            span = Span(at + match.start(1), at + match.end(1))
            help = f"{said[1]} Where it is a part of the definition, reword it."
            yield _finding(action, span, said[0], help)


def _metadata(view: LibraryView, action: Action) -> Iterator[tuple[str, str, str]]:
    """What is wrong, the word that it is about, and what to do."""
    for trait in sorted(action.traits - TRAITS.keys()):
        near = closest(trait, TRAITS) or list(TRAITS)
        yield f"there is no trait {trait}.", trait, f"Use {' or '.join(near)}."
    if isinstance(action.body, Builtin) and action.body.function not in FUNCTIONS:
        name = action.body.function
        near = closest(name, FUNCTIONS) or list(FUNCTIONS)
        yield f"there is no builtin {name}.", name, f"Use one of {', '.join(near)}."
    if isinstance(action.body, Solver) and action.body.name != RETRIEVE:
        name = action.body.name
        if nearest(name, [RETRIEVE], word=True):
            yield f"Pearl has no solver {name}.", name, f"Closest: {RETRIEVE}."
    own = {"aliases": action.aliases, "replaces": [older.name for older in action.replaces]}
    for key, names_said in own.items():
        if action.name in names_said:
            yield f"{key} names the action itself.", action.name, "Name another, or leave it out."
    for alias in action.aliases:
        if not _ACTION.fullmatch(alias):
            help = "Write names in capitals, and commas between them."
            yield f"{alias} is no name of an action.", alias, help
        elif alias != action.name and alias in builtins():
            yield f"{alias} is the name of a builtin.", alias, "Choose another name."
    for older in action.replaces:
        params = ", ".join(older.params) or "none"
        used = {ref.name for arg in older.args for ref in refs(arg)} - {DOCUMENT}
        for name in sorted(used - set(older.params)):
            help = f"It has these: {params}."
            yield f"{older.name} has no parameter {name}.", older.name, help
        if not action.takes(len(older.args)):
            wrong = f"it is given {counted(len(older.args), 'argument')} in place of {older.name}."
            yield wrong, older.name, f"Write as many as {action.signature} takes."
    bodies = action.body.demonstrations if isinstance(action.body, Decomposed) else ()
    if isinstance(action.body, SubPlan):
        bodies = (action.body.plan,)
    for plan in bodies:
        library = view.library.with_declared(plan.declares)
        names = {DOCUMENT, *(param.name for param in action.params)}
        shown = isinstance(action.body, Decomposed)
        # Of what cannot be read, names may come that are used here.
        below = view.lines_below(action)
        partly = action in view.unread or any(
            below.start <= line.span.start < below.end for line in view.broken
        )
        again = [step for step in plan.steps if step.action == action.name]
        # Over a list it may end.
        if not shown and not all(any(ref.maps for ref in step_refs(step)) for step in again):
            yield "its plan calls the action itself, and would never end.", "plan", "Call another."
        for step in plan.steps:
            yield from _step(step, library.get(step.action), names, shown=shown or partly)
            names.add(step.name)


def _step(
    step: Step, called: Action | None, names: set[str], *, shown: bool
) -> Iterator[tuple[str, str, str]]:
    word = f"{step.name} = {step.action}"
    if called is None:
        help = "Name an action of this library, or of one that is loaded with it (--library)."
        yield f"its step {step.name} calls {step.action}, which does not exist.", word, help
    elif not called.takes(len(step.args)):
        wrong = f"its step {step.name} gives {step.action} {len(step.args)} arguments."
        yield wrong, word, f"It takes {called.signature}."
    for name in dict.fromkeys(ref.name for arg in step.args for ref in refs(arg)):
        if name not in names and not shown:
            wrong = f"its step {step.name} uses {name}, which is no earlier step and no parameter."
            yield wrong, word, f"Known there: {', '.join(sorted(names))}."


RULE = Rule("PRL505", "bad-metadata", ERROR, __doc__, library=check)
