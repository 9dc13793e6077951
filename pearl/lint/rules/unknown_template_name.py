"""A text with braces around a name that no step has.

What it does
    Reports ``{name}`` inside a text where no earlier step is called ``name``,
    and forms that a reference cannot have, as ``{name.part}`` or ``{#1}``, or
    ``{the name}`` beside a step ``the_name``.

Why
    Braces put an earlier output into a text. With no such output the braces
    themselves would reach the model.

Example
    1. films = FIND_ALL(CTX, "the films of {director}") : List the films

Use instead
    1. director = FIND_CHARACTER(CTX, "the director") : Identify the director
    2. films = FIND_ALL(CTX, "the films of {director}") : List the films

Fix
    Unsafe: writes the name that it nearly is, or else ``\\{``, which stands for the
    brace itself. What resembles names is left.
"""

from bisect import bisect_right
from collections.abc import Sequence

from pearl.lang.ast import DOCUMENT, Ref, Template
from pearl.lang.diagnostics import Diagnostic
from pearl.lang.text import pattern
from pearl.lint.rules.base import ERROR, Broken, Findings, PlanView, Rule, Span, guess
from pearl.lint.rules.names import CALLED, PART, alike, joined, meant, part_of, resembling

_WORDS = pattern(r"\\.|\{(?P<words>\s*+[^\W\d]\w*+(?>(?:[ \t-]++\w++)+)\s*+)\}")
"""Several words in braces, or an escaped character, in a text."""


def check(view: PlanView) -> Findings:
    args = (arg for step in view.plan.steps for arg in step.args)
    # Texts that hold nothing but a reference.
    whole = {
        id(arg.parts[0]): arg.span
        for arg in (args if view.template_refs else ())
        if isinstance(arg, Template) and len(arg.parts) == 1
    }
    for ref in view.template_refs:
        is_named = ref.name in view.defined or ref.name in view.broken_names
        if ref.name == DOCUMENT or (not is_named and ref.name.casefold() in CALLED):
            # If a step is named after the document, another rule reports that.
            if DOCUMENT not in view.defined:
                help = f"Give {DOCUMENT} as an argument of its own, without quotes."
                message, at = "The document cannot stand inside a text.", whole.get(id(ref))
                fix = guess(at, DOCUMENT) if at else None
                yield RULE(ref.span, message, help=help, data={"name": ref.name}, fix=fix)
        elif not is_named:
            yield _finding(ref.span, ref.name, f"{{{ref.name}}} names no step.", *_near(view, ref))
    if "{" in view.source.text:
        yield from _words(view)


def _words(view: PlanView) -> Findings:
    """The findings that words in braces are nearly an earlier step's name."""
    references = {ref.span.start for ref in view.template_refs}
    for index, step in enumerate(view.plan.steps):
        for arg in step.args:
            for match in () if type(arg) is Ref else _WORDS.finditer(view.source.text, *arg.span):
                if match["words"] and match.start() not in references:
                    words = match["words"].strip()
                    if near := joined(words, view.names_before(index)):
                        yield _braces(Span(*match.span()), words, near)


def explain(broken: Broken) -> Diagnostic | None:
    if broken.got != "BRACE":
        return None
    text = broken.token
    part = PART.fullmatch(text.strip("{}").strip())
    words = text.strip("{ }")
    if not part:
        return _braces(broken.at, words, [])
    whole, near = meant(part, broken)
    if whole and not near:
        return part_of(RULE, broken.at, text, part["name"], f"{{{whole}}}")
    return _braces(broken.at, words, near)


def _braces(span: Span, words: str, near: Sequence[str]) -> Diagnostic:
    """The finding that braces hold no reference, and which one may be meant."""
    shown = [f"{{{name}}}" for name in near if name != DOCUMENT]
    return _finding(span, words, f"{{{words}}} names no step.", shown, len(shown) == 1)


def _near(view: PlanView, ref: Ref) -> tuple[list[str], bool]:
    """The reference with the names of earlier steps that may be meant, and whether it nearly is
    the only one."""
    index = bisect_right(view.plan.steps, ref.span.start, key=lambda step: step.span.end)
    defined = view.names_before(index)
    close = alike(ref.name, defined, word=False)
    names = close or resembling(ref.name, defined)
    return [f"{{{f'{ref.mode} {name}'.lstrip()}}}" for name in names], len(close) == 1


def _finding(
    span: Span, name: str, message: str, near: Sequence[str] = (), sure: bool = False
) -> Diagnostic:
    help = "Name an earlier step, or write \\{ where you mean the brace."
    if near:
        help = f"Closest: {', '.join(near)}. {help}"
    fix = None
    if sure:
        fix = guess(span, near[0])
    elif not near:
        brace = Span(span.start, span.start + 1)
        fix = guess(brace, "\\{")
    return RULE(span, message, help=help, data={"name": name}, fix=fix)


RULE = Rule("PRL209", "unknown-template-name", ERROR, __doc__, plan=check, explain=explain)
