"""A reference to something no step defines.

What it does
    Reports a name that stands as an argument and is no step's output.

Why
    The step would run without its input. Often the author meant the word, and
    forgot its quotes.

Example
    1. tie = FIND_RELATION(CTX, "Ross", mother) : Find how they stand to each other

Use instead
    1. tie = FIND_RELATION(CTX, "Ross", "mother") : Find how they stand to each other

Fix
    Safe for ``ctx`` (``CTX``), and for ``each document`` where an action reads it: a step lists
    the documents, and ``each`` goes over them; unsafe: writes the name that it nearly is, or else
    quotes the word. A step's number (``#3``, ``step_3``), a letter, what no word is
    written like (``ro_2``, ``firstEvent``), and a word that resembles or abbreviates
    names or has one at its beginning or end, are left.
"""

import re

from pearl.lang.ast import DOCUMENT, Ref
from pearl.lang.diagnostics import Diagnostic, Edit, Fix
from pearl.lang.source import Span
from pearl.lang.text import free_name, pattern
from pearl.lint.rules.base import ERROR, NEAREST, SEVERAL, Findings, PlanView, Rule, guess, mend
from pearl.lint.rules.names import alike, differs_little, resembling

_IDENTIFIER = pattern(r".|\w*(?:[_\d]|[^\W\d_A-Z][A-Z])\w*")
"""A name that cannot be an ordinary word."""

_BY_NUMBER = pattern(r"#\d")
_NUMBERED = pattern(r"#?\d+|#.*|(?:step|line|output|result)_?\d+", re.IGNORECASE)


def check(view: PlanView) -> Findings:
    end = len(view.plan.steps)
    templates = {id(ref) for ref in view.template_refs}  # they have a rule of their own
    for index, used in enumerate((*view.step_refs, view.plan.returns)):
        for ref in used:
            if ref.name in view.defined or (ref.name == DOCUMENT and index < end):
                continue
            if ref.name not in view.broken_names and id(ref) not in templates:
                yield _undefined(view, ref, index)


def _undefined(view: PlanView, ref: Ref, index: int) -> Diagnostic:
    steps = view.plan.steps
    returned = index == len(steps)
    # The name of an unreadable line counts as defined, as the line has a finding of its own.
    broken = (line.name for line in view.broken if line.name and line.span.end < ref.span.start)
    document = () if returned else (DOCUMENT,)
    defined = [*dict.fromkeys((*document, *view.names_before(index), *broken))]
    if returned and ref.name.casefold() == DOCUMENT.casefold():
        return RULE(
            ref.span,
            "A plan returns what steps give, not the document.",
            help=f"Return a step. Defined: {', '.join(defined)}.",
            data={"name": ref.name, "candidates": defined},
        )
    close = alike(ref.name, defined, word=not returned and not ref.mode)
    # No quotes are advised for a step's number, nor for a name that resembles another.
    numbered = _NUMBERED.fullmatch(ref.name) is not None
    unlike_word = _IDENTIFIER.fullmatch(ref.name) is not None
    parts = [] if close else resembling(ref.name, defined)
    for_document = not returned and _stands_for_document(view, ref, index)
    if ref.maps and for_document and ref.name.casefold() in SEVERAL:
        listing = next((step.name for step in steps[:index] if step.action == "DOCUMENTS"), "")
        if listing or not (close or parts):
            return _each_document(view, ref, index, listing)
    if for_document and not (close or parts or ref.mode):
        close = [DOCUMENT]
    near = close[0] if len(close) == 1 else ""
    if len(parts) == 1 and parts[0][0] == ref.name[0] and differs_little(ref.name, parts[0]):
        near = parts[0]
    fix = None
    if near:
        sure = near == DOCUMENT and not ref.mode and ref.name.casefold() == DOCUMENT.casefold()
        # The document is no list, and has no evidence.
        text = near if near == DOCUMENT else f"{ref.mode} {near}".lstrip()
        fix = (mend if sure else guess)(ref.span, text)
    elif not (
        (returned or ref.mode or numbered or close or parts or unlike_word)
        # The first argument of an unknown action may be the document.
        or (view.actions[index] is None and steps[index].args[0] is ref)
    ):
        fix = guess(ref.span, f'"{ref.name}"', "quote the word")
    where = "in the plan" if returned else f"before step {view.number(index)}"
    # A name that resembles another one is not taken for a word.
    is_word = not (returned or numbered or near or ref.mode)
    word = f' If you mean the word, write "{ref.name}".' if is_word else ""
    shown = f"Closest: {', '.join(close or parts)}. " if close or parts else ""
    if not (close or parts or returned):
        # A name that is defined later is a wrong order of steps, which no edit here can fix.
        after = [step.name for step in steps[index + 1 : index + 1 + NEAREST]]
        later = alike(ref.name, after, word=not ref.mode) or resembling(ref.name, after)
        if later:
            at = view.number(index + 1 + after.index(later[0]))
            shown = f"Closest: {later[0]}, which is defined later, at step {at}. "
            fix = None
    return RULE(
        ref.span,
        f"{ref.name} is not defined {where}.",
        help=f"{shown}Defined: {', '.join(defined)}.{word}",
        data={"name": ref.name, "candidates": defined},
        fix=fix,
    )


def _each_document(view: PlanView, ref: Ref, index: int, listing: str) -> Diagnostic:
    """The finding that a step runs over documents that no step lists, or that a step lists under
    another name."""
    text = view.source.text
    name = listing or free_name("docs", view.defined)
    step = f"{name} = DOCUMENTS({DOCUMENT})"
    over = f"{ref.mode.split()[0]} {name}"
    edits = [Edit(ref.span, over)]
    if not listing:
        # Before the first step that needs the list, so that it serves all.
        first = next(at for at, each in view.moded if each.name.casefold() in SEVERAL)
        line = text.rfind("\n", 0, view.plan.steps[first].span.start) + 1
        edits.insert(0, Edit(Span(line, line), f"{step} : List the documents\n"))
    # A new step would change what references by number mean.
    counted = not listing and _BY_NUMBER.search(text)
    return RULE(
        ref.span,
        f"{ref.name} is not defined before step {view.number(index)}.",
        help=f"Several documents are listed by {step}; here write {over}.",
        data={"name": ref.name},
        fix=None if counted else Fix(f"write {over}", tuple(edits)),
    )


def _stands_for_document(view: PlanView, ref: Ref, index: int) -> bool:
    """Whether a reference is the argument for an action's document."""
    action, args = view.actions[index], view.plan.steps[index].args
    params = action.params if action else ()
    return any(
        arg is ref and param.name == DOCUMENT for arg, param in zip(args, params, strict=False)
    )


RULE = Rule("PRL202", "undefined-variable", ERROR, __doc__, plan=check)
