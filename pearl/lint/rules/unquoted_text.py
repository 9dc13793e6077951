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
from pearl.lint.rules.base import (
    CALLED,
    DOCUMENT,
    ERROR,
    Broken,
    Diagnostic,
    Rule,
    bad_name_above,
    guess,
    joined,
    names_above,
    near_above,
    nearest,
    trimmed,
)

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
    # Where nothing closes the call, what follows the colon is the note.
    note = -1 if closed else text.find(" :", at, end)
    span = trimmed(text, start, end if note < 0 else note)
    words = broken.source.at(span)
    known, names, nearby = words.split(), names_above(broken), near_above(broken, words)
    one = joined(words, nearby) or _moded(known, names)
    closest = f"Closest: {', '.join(one)}. " if one else ""
    if len(known) > 1 and names.issuperset(known):
        # What may be one name as well as several, nobody can tell.
        commas = None if one else guess(span, ", ".join(known), "put in commas")
        return RULE(span, _NO_COMMA, help=f'{closest}Put "," between them.', fix=commas)
    fix = None
    near = [] if one else [nearest(word, nearby, word=True) for word in known]
    if len(near) > 1 and all(near):
        close = ", ".join(near)
        return RULE(span, _NO_COMMA, help=f'Put "," between them. Closest: {close}.')
    if one:
        fix = guess(span, one[0]) if len(one) == 1 else None
        return RULE(
            span,
            f"{shorten(words)} is no reference.",
            help=closest.strip()
            if fix
            else f'{closest}If you mean the words, write "{shorten(words)}".',
            data={"text": words, "candidates": one},
            fix=fix,
        )
    listed = [word for word in known if word.lower() not in _JOINING]
    if listed and names.issuperset(listed):
        return RULE(
            span,
            f"{shorten(words)} is no reference.",
            help="A reference is one name: give each by itself, or join them in a step.",
            data={"text": words},
        )
    if named := bad_name_above(RULE, broken, span):
        return named
    # In another order they may be the name, and a name among others may be all that is meant.
    told = [name for name in nearby if sorted(name.split("_")) == sorted(known)]
    told += _among(known, nearby) if not told else []
    closest = f"Closest: {', '.join(told)}. " if told else ""
    if closed and "\n" not in words and DOCUMENT not in known and not told:
        quoted = words.replace("\\", "\\\\")
        fix = guess(span, f'"{quoted}"', "quote the words")
    return RULE(
        span,
        f"{shorten(words)} is not quoted.",
        help=f'{closest}If you mean the words, write "{shorten(words)}".',
        data={"text": words},
        fix=fix,
    )


def _among(known: list[str], nearby: list[str]) -> list[str]:
    """The references of which a word of several is one, or nearly is."""
    near = {
        DOCUMENT if word.casefold() in CALLED else nearest(word, nearby, word=True)
        for word in (word.removesuffix("'s") for word in known)
        if word.casefold() not in FUNCTION_WORDS
    }
    return [name for name in nearby if name in near]


def _moded(known: list[str], names: frozenset[str]) -> list[str]:
    """The reference that is meant, where what stands before a name is a slip of a mode."""
    if len(known) != 2 or known[0] in names or known[1] not in names:
        return []
    mode = nearest(known[0].lower(), _MODES, word=False)
    return [f"{mode} {known[1]}"] if mode else []


RULE = Rule("PRL109", "unquoted-text", ERROR, __doc__, explain=explain)
