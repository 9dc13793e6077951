"""A declaration that cannot be read.

What it does
    Reports a line of an action library, or under ``New actions:``, that is not
    ``NAME(PARAMETER, …) : definition``.

Why
    An action that is dropped in silence is missed only when a plan calls it.

Example
    New actions:
    - FIND_TRUST(CTX, X Y) : Find how far X trusts Y in CTX

    1. a = FIND_TRUST(CTX, "Ross", "Mara") : Find how far Ross trusts Mara

Use instead
    New actions:
    - FIND_TRUST(CTX, X, Y) : Find how far X trusts Y in CTX

    1. a = FIND_TRUST(CTX, "Ross", "Mara") : Find how far Ross trusts Mara

Fix
    None.
"""

import re

from pearl.lang.library import METADATA
from pearl.lang.values import TYPES
from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, Span, shorten
from pearl.lint.rules.names import no_key


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "action":
        return None
    at = broken.at
    if broken.before == "TYPE" and re.match(r"[\w\[(<{]", broken.token):
        # The place includes the type that a longer word begins with: boolean, list[text].
        head = broken.source.text[broken.span.start : at.start]
        at = Span(at.start - max(len(kind) * head.endswith(kind) for kind in TYPES), at.end)
    token = shorten(broken.source.at(at), 20)
    where = f"{token} cannot stand here" if token else "the line ends too early"
    wrong = f"The action {broken.name or shorten(broken.text)}"
    help = "Write NAME(CTX, X) -> type : definition."
    key = broken.source.text[: broken.span.start].rpartition("\n")[2].strip().rstrip(" \t:")
    behind = broken.text.lstrip()[len(broken.name) :].lstrip()
    said = behind.startswith(":") or (broken.name in METADATA and not behind.startswith("("))
    if said and (unknown := no_key(broken.name, behind)):
        wrong = f"What {broken.name} says of the action above it"
        where = unknown[0].rstrip(".")
        margin = broken.source.position(broken.span.start)[1] == 1
        help = f"{unknown[1][:-1]}, indented below the action." if margin else unknown[1]
    elif key in METADATA:
        wrong, help = f"What {key} says of the action {broken.name}", f"Write {METADATA[key]}."
    elif broken.text.count("(") > broken.text.count(")"):
        help = "Its parameters end with a parenthesis: NAME(CTX, X) -> type : definition."
    elif "TYPE" in broken.accepts or at != broken.at:
        help = "A type is one of any, text, number, bool, list, pairs."
    message, data = f"{wrong} cannot be read: {where}.", {"action": broken.name}
    return RULE(at if token else broken.span, message, help=help, data=data)


RULE = Rule("PRL118", "unreadable-action", ERROR, __doc__, explain=explain)
