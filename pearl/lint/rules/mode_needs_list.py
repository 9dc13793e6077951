"""``each`` or ``where`` over something that has no items.

What it does
    Reports a mode on the output of a step that gives a text, a number or a
    truth value, on the document, and ``values`` on a list that has no keys.

Why
    ``each x`` runs the step once for every item of x, ``where x`` keeps items,
    ``each values x`` works on the values of pairs (CommaQA, section 3.2).

Example
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. ties = FIND_RELATION(CTX, each ross, "Mara") : Find how they stand to each other

Use instead
    1. people = FIND_ALL(CTX, "people") : List the people
    2. ties = FIND_RELATION(CTX, each people, "Mara") : Find how they stand to each other

Fix
    None.
"""

from pearl.lang.ast import Mode
from pearl.lint.rules.base import DOCUMENT, ERROR, Findings, PlanView, Rule


def check(view: PlanView) -> Findings:
    for index, ref in view.moded:
        if ref.mode is Mode.EVIDENCE and ref.name == DOCUMENT:
            yield RULE(
                ref.span,
                "CTX quotes nothing.",
                help="Name a step: evidence is what a step quotes from CTX.",
            )
        if not ref.maps:
            continue
        kind = "text" if ref.name == DOCUMENT else view.type_before(ref.name, index)
        over_values = ref.mode.endswith("values")
        over = view.mapped_over[index]
        if over and over != ref and over.name == ref.name:
            continue  # It is the key of what is mapped.
        if kind in ("any", "pairs" if over_values else "list"):
            continue
        expected = "pairs" if over_values else "a list"
        actual = kind if kind in ("text", "pairs") else f"a {kind}"
        name, source = ref.name, "with each" if over_values else f"of {view.action_of('list')}"
        if name == DOCUMENT:
            help = f"Write CTX without {ref.mode}; several documents are listed by DOCUMENTS(CTX)."
        elif kind == "pairs" and (advice := view.filter_instead(name, index)):
            help = advice
        elif kind == "pairs":
            help = f"Write {ref.mode} values {name}, or take KEYS({name}) or VALUES({name}) first."
        elif kind == "list":
            help = f"Write {ref.mode.split()[0]} {name}."
        elif name in view.params:
            kinds = expected.split()[-1]
            help = f"Write {name} without {ref.mode}, or declare it as {name}: {kinds}."
        else:
            help = f"Write {name} without {ref.mode}, or make it a step {source}."
        yield RULE(
            ref.span,
            f"{ref.mode} needs {expected}, and {name} is {actual}.",
            help=help,
            data={"name": name, "mode": str(ref.mode), "type": kind},
        )


RULE = Rule("PRL301", "mode-needs-list", ERROR, __doc__, plan=check)
