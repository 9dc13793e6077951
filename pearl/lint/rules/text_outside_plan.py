"""Text that is no part of the plan.

What it does
    Reports prose, code fences, tags, headings and ``<think>`` blocks around or
    between steps. They are set aside and never run.

Why
    In a model's reply this is usual. In a plan file it may be a step that
    somebody forgot to write as one.

Example
    Here is my plan:
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    First we look at who Ross is.

Use instead
    # First we look at who Ross is.
    1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross

Fix
    Safe: makes the words a comment, and takes out marks that say nothing, such
    as code fences and tags.
    Unsafe: of a misspelt ``return`` before the names of steps, writes ``return``;
    behind it, the name that words nearly are (``return the end`` for ``the_end``).
"""

from pearl.lang.logical_lines import misspelt_return
from pearl.lang.rewriting import comment_out
from pearl.lint.rules.base import WARNING, Findings, PlanView, Rule, guess, mend, shorten
from pearl.lint.rules.names import joined

_WHAT = {
    "prose": "is not a step",
    "wrapping": "says nothing to the plan",
    "thinking": "is the model's thinking, not its plan",
}


def check(view: PlanView) -> Findings:
    text = view.source.text
    for aside in view.aside:
        span = aside.span
        words = text[span.start : span.end]
        names = misspelt_return(words)
        if not names and words.casefold().startswith("return "):
            returned = words[len("return ") :]
            before = view.names_before(len(view.plan.steps))
            near = joined(returned, [*view.spelled(returned), *before])
            names = near if len(near) == 1 else []
        one = "one " if words.startswith("##") else ""
        if names and view.defined.keys() >= set(names):
            returns = f"return {', '.join(names)}"
            help = f'Write "{returns}", or make it a comment with "#".'
            fix = guess(span, returns)
        else:
            help = f'Take it out, or make it a comment with {one}"#".'
            fix = mend(span, comment_out(text, span), "make it a comment")
        yield RULE(
            span,
            f"{shorten(words, 50)} {_WHAT[aside.kind]}.",
            help=help,
            data={"kind": aside.kind},
            fix=fix,
        )


RULE = Rule("PRL107", "text-outside-plan", WARNING, __doc__, plan=check)
