"""Words that should be quoted, or arguments without a comma between them.

What it does
    Reports several words in a row where one argument should stand.

Why
    A single word is a reference to a step; text needs quotes.

Example
    1. a = FIND_EVENT(CTX, the sale of the magazine) : Find the sale

Use instead
    1. a = FIND_EVENT(CTX, "the sale of the magazine") : Find the sale

Fix
    Unsafe: quotes the words up to the next comma or parenthesis; where all of
    them are names, puts the commas in; where they are nearly one name, writes it.
"""

from pearl.lang.text import FUNCTION_WORDS, pattern, shorten
from pearl.lint.rules.base import DOCUMENT, ERROR, Broken, Diagnostic, Rule, guess, trimmed
from pearl.lint.rules.names import CALLED, bad_name_above, joined, names_above, near_above, nearest

_NO_COMMA = "Two arguments have no comma between them."
_JOINING = frozenset("all any both and or + & | / -".split())
_MODES = ("each", "where", "evidence")
_WORDS = pattern(r"[^\"(),\[\]=]+")


def explain(broken: Broken) -> Diagnostic | None:
    if broken.kind != "step" or "_COMMA" not in broken.accepts:
        return None
    if broken.before not in ("NAME", "NUMBER", "STRING"):
        return None
    if broken.got in ("CLOSE", "_ASSIGN", "_OPEN", "$END", "LIST"):
        return None
    text, at = broken.source.text, broken.at.start
    if broken.got == "STRING" or text[at : at + 1] == ";":
        return RULE(broken.at, _NO_COMMA, help='Put "," between them.')
    if broken.before == "STRING" or (broken.got == "NOTE" and text[at] in ":：#"):
        return None
    start = max(text.rfind(mark, broken.span.start, at) for mark in "(,[") + 1
    match = _WORDS.match(text, start, broken.span.end)
    closed = match is not None and text[match.end() : match.end() + 1] in (",", ")")
    end = match.end() if match else at
    # If the call is not closed, the note begins at the colon.
    note = -1 if closed else text.find(" :", at, end)
    span = trimmed(text, start, end if note < 0 else note)
    words = broken.source.at(span)
    known, names, nearby = words.split(), names_above(broken), near_above(broken, words)
    close = joined(words, nearby) or _moded(known, names)
    closest = f"Closest: {', '.join(close)}. " if close else ""
    wrong = f"{shorten(words)} is no reference."
    quote = f'If you mean the words, write "{shorten(words)}".'
    if len(known) > 1 and names.issuperset(known):
        # It is not known whether one name is meant or several.
        commas = None if close else guess(span, ", ".join(known), "put in commas")
        return RULE(span, _NO_COMMA, help=f'{closest}Put "," between them.', fix=commas)
    fix = None
    near = [] if close else [nearest(word, nearby, word=True) for word in known]
    if len(near) > 1 and all(near):
        help = f'Put "," between them. Closest: {", ".join(near)}.'
        return RULE(span, _NO_COMMA, help=help)
    if close:
        fix = guess(span, close[0]) if len(close) == 1 else None
        help = closest.strip() if fix else closest + quote
        return RULE(span, wrong, help=help, data={"text": words, "candidates": close}, fix=fix)
    listed = [word for word in known if word.lower() not in _JOINING]
    if listed and names.issuperset(listed):
        help = "A reference is one name: give each by itself, or join them in a step."
        return RULE(span, wrong, help=help, data={"text": words})
    if named := bad_name_above(RULE, broken, span):
        return named
    # A name with the same words in another order may be meant, or a name among the words.
    meant = [name for name in nearby if sorted(name.split("_")) == sorted(known)]
    meant += _among(known, nearby) if not meant else []
    closest = f"Closest: {', '.join(meant)}. " if meant else ""
    if closed and "\n" not in words and DOCUMENT not in known and not meant:
        quoted = words.replace("\\", "\\\\")
        fix = guess(span, f'"{quoted}"', "quote the words")
    wrong = f"{shorten(words)} is not quoted."
    return RULE(span, wrong, help=closest + quote, data={"text": words}, fix=fix)


def _among(known: list[str], nearby: list[str]) -> list[str]:
    """The names that one of several words is, or nearly is."""
    near = {
        DOCUMENT if word.casefold() in CALLED else nearest(word, nearby, word=True)
        for word in (word.removesuffix("'s") for word in known)
        if word.casefold() not in FUNCTION_WORDS
    }
    return [name for name in nearby if name in near]


def _moded(known: list[str], names: frozenset[str]) -> list[str]:
    """The reference that is meant, if the word before a name is a misspelt mode."""
    if len(known) != 2 or known[0] in names or known[1] not in names:
        return []
    mode = nearest(known[0].lower(), _MODES, word=False)
    return [f"{mode} {known[1]}"] if mode else []


RULE = Rule("PRL109", "unquoted-text", ERROR, __doc__, explain=explain)
