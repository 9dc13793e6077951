"""A parenthesis that is missing, or one too many.

What it does
    Reports a call that does not open, does not close, or closes twice.

Why
    The parentheses say what is an argument and what is the note.

Example
    1. a = FIND_CHARACTER(CTX, "Ross" : Identify Ross
    2. b = FIND_RELATION(CTX, a, "Mara") : Find how the two stand to each other

Use instead
    1. a = FIND_CHARACTER(CTX, "Ross") : Identify Ross
    2. b = FIND_RELATION(CTX, a, "Mara") : Find how the two stand to each other

Fix
    Safe: puts in the parenthesis before the note or at the line's end, or takes out the second
    one. None where the line ends before an argument, or where the text below may be the rest of
    the call.
"""

from itertools import accumulate

from pearl.lang.logical_lines import PREFIX, STEP
from pearl.lint.rules.base import ERROR, Broken, Diagnostic, Rule, Span, mend, pattern
from pearl.lint.rules.names import lacks_argument

_WORDS = pattern(r"(?:\w+[ \t]+){0,3}\w+[ \t]?[(（]")
_PARENTHESIS = pattern(r"[()（）]")
_REACH = 2_000
"""The most characters after a line in which the rest of its call is looked for."""


def explain(broken: Broken) -> Diagnostic | None:
    text, at = broken.source.text, broken.at.start
    # A note may begin within a list only where its end is missing; else a mark looks like one.
    ended = broken.got == "NOTE" and "]" in text[at : broken.span.end].partition(")")[0]
    ended = ended and text[at] not in ":：#"
    if "END" in broken.accepts and broken.got in ("CLOSE", "NOTE", "$END") and not ended:
        return RULE(broken.at, 'The list has no "]" at its end.', help='Add "]".')
    noted = broken.got == "NOTE" and text[at] in ":：#"
    if "CLOSE" in broken.accepts and noted and broken.before != "_COMMA":
        if _closes(broken.rest):
            return None
        return _unclosed(broken, "before its note")
    if "CLOSE" in broken.accepts and broken.got == "$END":
        return _unclosed(broken, "at its end")
    if broken.got == "CLOSE" and broken.before == "CLOSE":
        fix = mend(Span(at, at + 1), "", 'take out ")"')
        return RULE(broken.at, 'There is one ")" too many.', help='Take out ")".', fix=fix)
    unopened = broken.got in ("STRING", "NUMBER", "CLOSE") or noted
    # More words of the action's name may follow, and then its parenthesis.
    named = broken.got == "NAME" and not _WORDS.match(text, at, broken.span.end)
    if broken.accepts == {"_OPEN"} and (unopened or named):
        return RULE(
            broken.at,
            'The action\'s name is not followed by "(".',
            help="Write the call as ACTION(argument, …).",
        )
    return None


def _unclosed(broken: Broken, where: str) -> Diagnostic:
    """The finding that a call is not closed."""
    message = f'The call has no ")" {where}.'
    if lacks_argument(broken):
        return RULE(broken.at, message, help='Write the arguments that follow, and ")".')
    start = broken.span.start
    end = start + len(broken.source.text[start : broken.at.start].rstrip())
    fix = None if _goes_on(broken) else mend(Span(end, end), ")", 'put in ")"')
    return RULE(broken.at, message, help='Add ")".', fix=fix)


def _goes_on(broken: Broken) -> bool:
    """Whether the text between a line and the next step may be the rest of its call."""
    end, lines = broken.span.end, []
    for line in broken.source.text[end : end + _REACH].splitlines():
        prefix = PREFIX.match(line)
        words = line[prefix.end() if prefix else 0 :]
        if STEP.match(words):
            break
        lines.append(words)
    rest = "\n".join(lines)
    # Another fix may have made the rest a comment.
    return rest.lstrip("# \t\n").startswith((",", "，")) or _closes(rest)


def _closes(text: str) -> bool:
    """Whether a text closes a parenthesis that it does not open."""
    marks = accumulate(1 if mark in "(（" else -1 for mark in _PARENTHESIS.findall(text))
    return min(marks, default=0) < 0


RULE = Rule("PRL103", "missing-parenthesis", ERROR, __doc__, explain=explain)
