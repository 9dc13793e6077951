"""Which name is meant by one that is misspelt, or by what stands in a line that cannot be read."""

import re
from collections.abc import Iterable

from pearl.lang.ast import DOCUMENT, Broken
from pearl.lang.diagnostics import Diagnostic
from pearl.lang.library import METADATA, TRAITS
from pearl.lang.logical_lines import ASSIGN, PREFIX
from pearl.lang.source import Span
from pearl.lang.text import FUNCTION_WORDS, one_line, pattern, shorten, stem
from pearl.lint.rules.base import NEAREST, Rule, letters, trimmed

CALLED = frozenset((DOCUMENT.casefold(), "document", "the document", "context"))
"""Names that people give the document, in lower case."""

_STEP = pattern(r"^[ \t]*(?:[-*][ \t]+)?(?:\d+[.)][ \t]*)?([^\W\d]\w*)[ \t]*=", re.MULTILINE)


def names_above(broken: Broken) -> frozenset[str]:
    """What an argument of a line may refer to: the document, and the steps of the lines above."""
    return frozenset((DOCUMENT, *_STEP.findall(_above(broken))))


def near_above(broken: Broken, words: str) -> list[str]:
    """The names that an argument's words may mean: those of the `NEAREST` lines above, and those
    further up that have the same letters, whatever their case and separators."""
    names = _STEP.findall(_above(broken))
    meant = letters(_MODE.sub("", words, count=1))
    far = [name for name in names[:-NEAREST] if letters(name) == meant]
    return [DOCUMENT, *far, *names[-NEAREST:]]


_LEFT = pattern(rf"^.{{1,200}}?(?={ASSIGN})", re.MULTILINE)


def bad_name_above(rule: Rule, broken: Broken, span: Span) -> Diagnostic | None:
    """The finding that an argument repeats the name of a line above, where that cannot be a name;
    None where no line above has it."""
    words, above = broken.source.at(span), _above(broken)
    for left in _LEFT.finditer(above) if words in above else ():
        if not left[0].rstrip().endswith(words):
            continue
        number = PREFIX.match(above, left.start())
        if number and above[number.end() : left.end()].strip() == words:
            return rule(
                span,
                f"{shorten(words)} cannot be a step's name, and so is no reference.",
                help="Write the name that the step gets.",
                data={"text": words},
            )
    return None


PART = pattern(r"(?P<name>[^\W\d]\w*)(?:(?:\.[^\W\d]\w*|\[[^\[\]]*\])(?:\([^()]*\))?)+")
"""A part of a step's output, as other languages write it: ``x.name``, ``x[0]``."""


def meant(part: re.Match[str], broken: Broken) -> tuple[str, list[str]]:
    """The name whose part a match of `PART` is, or an empty text; and other names it may mean."""
    name, near = part["name"], near_above(broken, part["name"])
    whole = name if name in names_above(broken) else nearest(name, near, word=False)
    return whole, [other for other in joined(part[0], near) if other != whole]


def part_of(rule: Rule, span: Span, text: str, name: str, whole: str) -> Diagnostic:
    """The finding that a text names a part of an output; ``whole`` is how all of it is written."""
    return rule(
        span,
        f"{text} names a part of {name}.",
        help=f"Write {whole} for the whole, or find the part in a step of its own.",
        data={"text": text, "name": name},
    )


def _above(broken: Broken) -> str:
    return broken.source.text[max(0, broken.span.start - _ABOVE) : broken.span.start]


# The number of characters before a line in which names are looked for.
_ABOVE = 20_000

# The number of characters on either side in which an argument's ends are looked for.
_REACH = 200


def argument(broken: Broken) -> Span:
    """The whole argument in which a line stops being readable."""
    text, at = broken.source.text, broken.at.start
    low, high = max(broken.span.start, at - _REACH), min(broken.span.end, at + _REACH)
    start = max(low, *(text.rfind(mark, low, at) + 1 for mark in "(,[，（"))
    end, depth = at, 0
    while end < high and (depth or text[end] not in ",)]\n，）"):
        depth += (text[end] in "([{") - (text[end] in ")]}")
        end += 1
    return trimmed(text, start, end)


def lacks_argument(broken: Broken) -> bool:
    """Whether a line stops being readable where an argument has to follow: after a parenthesis, a
    comma, or a mode that is no step's name."""
    if broken.before != "NAME":
        return broken.before in ("_OPEN", "_COMMA")
    words = broken.source.text[argument(broken).start : broken.at.start].strip()
    lead = _MODE.fullmatch(f"{words} ")
    return bool(lead and lead["mode"]) and words not in names_above(broken)


def nearest(written: str, names: Iterable[str], *, word: bool) -> str:
    """The name that `alike` finds, if it finds exactly one; else an empty text."""
    near = alike(written, names, word=word)
    return near[0] if len(near) == 1 else ""


def alike(written: str, names: Iterable[str], *, word: bool) -> list[str]:
    """The names that differ in case alone, or else those that differ by a typing error.

    Args:
        written: what is written.
        names: what may be meant.
        word: whether it may be a word and no name at all. Then a short one is taken for a name
            only where two of its letters have changed places.
    """
    names, folded = dict.fromkeys(names), written.casefold()
    same = [name for name in names if name.casefold() == folded]
    return same or [name for name in names if _is_slip(written, name, word=word)]


_LONGEST = 200
"""The longest name, in characters, that is compared letter by letter: the time for that grows with
the square of the length."""


def _is_slip(written: str, name: str, *, word: bool) -> bool:
    if len(written) < 3:  # "aa" beside "a"; any other letter is another name.
        return name[:1] == written[:1] and len(name) < 3
    turned = sorted(name) == sorted(written)
    if (turned and name[0] == written[0]) or max(len(written), len(name)) > _LONGEST:
        return turned
    if len(written) == 3 and not turned and (word or len(name) <= 3):
        # With another letter, a short word is another word.
        return False
    from rapidfuzz.distance import OSA

    most = 1 + len(written) // 8
    return OSA.distance(written, name, score_cutoff=most) <= most


_VOWELS = pattern(r"(?<=.)[aeiouy]")


_MODE = pattern(r"\s*(?P<mode>(?:each|where)(?:\s+values)?\s|evidence\s)?\s*", re.IGNORECASE)


def joined(words: str, names: Iterable[str]) -> list[str]:
    """The references that words may mean when they are joined, with ``_`` or without:
    ``rudder_state`` for ``rudder state``. A mode such as ``each`` stays."""
    lead = _MODE.match(words)
    mode, start = (one_line(lead["mode"] or ""), lead.end()) if lead else ("", 0)
    whole = re.sub(r"\W+", "_", words[start:]).strip("_")
    together, names = whole.replace("_", ""), dict.fromkeys(names)
    letters = together.casefold()
    near = [name for name in names if name.replace("_", "").casefold() == letters]
    if not near:
        # Words that hold a name as it is are no misspelling of it: "my mother" is not mother.
        present = set(words.split())
        others = [name for name in names if name not in present]
        near = alike(whole, others, word=True) or alike(together, others, word=True)
    return [f"{mode} {name}".lstrip() for name in near]


def resembling(written: str, names: Iterable[str]) -> list[str]:
    """The names that resemble what is written: another form of it, a part, an abbreviation (each
    with one typing error at most), the same words in another order, or a name that differs in at
    most a third of its letters. Examples: ``parties`` for ``party``, ``notice_period`` for
    ``period``, ``brother`` for ``mother``, ``events`` for ``evt``."""
    return [name for name in dict.fromkeys(names) if _resembles(written.casefold(), name)]


def _resembles(written: str, name: str) -> bool:
    both = written, name.casefold()
    if max(map(len, both)) > _LONGEST:
        return False
    same_words = sorted(both[0].split("_")) == sorted(both[1].split("_"))
    like = same_words or differs_little(*both)
    # "context" is no abbreviation of CTX here: other rules know by its place what it means.
    like = like or (name != DOCUMENT and _abbreviates(*sorted(both, key=len)))
    return like or _shares(*both) or _shares(*map(stem, both))


def _abbreviates(short: str, long: str) -> bool:
    """Whether a text of at least three letters abbreviates a longer one: it is the beginning of it,
    or the first letter with some of the consonants, or all of it but some vowels."""
    if len(short) < 3 or short in FUNCTION_WORDS:
        return False
    from rapidfuzz.distance import Indel

    kept_in_order = short[0] == long[0] and Indel.distance(short, long) == len(long) - len(short)
    alone = not _VOWELS.search(short) or _VOWELS.sub("", short) == _VOWELS.sub("", long)
    return long.startswith(short) or (kept_in_order and alone)


def differs_little(written: str, name: str) -> bool:
    """Whether names differ in a third of their letters at most."""
    from rapidfuzz.distance import OSA

    third = min(len(written), len(name)) // 3
    return OSA.distance(written, name, score_cutoff=third) <= third


def _shares(one: str, other: str) -> bool:
    """Whether one text begins or ends with the other, or they differ in one letter, or in two
    neighbouring letters that have changed places."""
    from rapidfuzz.distance import OSA

    short, long = sorted((one, other), key=len)
    part = len(short) > 3 and (long.startswith(short) or long.endswith(short))
    enough = len(long) > 2 or sorted(short) == sorted(long)
    return part or (enough and OSA.distance(short, long, score_cutoff=1) == 1)


def no_key(word: str, behind: str) -> tuple[str, str] | None:
    """What is wrong with a key of metadata below an action, and what to write; None where the word
    may begin a sentence. ``behind`` is the text that follows it."""
    near = closest(word, METADATA)
    if word in METADATA:
        colon = behind.lstrip().startswith(":")
        wrong = "cannot be read as it stands" if colon else "has no colon behind it"
        return f"{word} {wrong}.", f"Write {METADATA[word]}."
    if word in TRAITS:
        return f"{word} is a trait, and no key.", f"Write traits: {word}."
    if near:
        return f"there is no {word}.", f"Closest: {near[0]}. Write {METADATA[near[0]]}."
    if word.islower():
        return f"there is no {word}.", f"Use one of {', '.join(METADATA)}."
    return None


def closest(name: str, candidates: Iterable[str]) -> list[str]:
    """At most four names that resemble this one, nearest first."""
    from rapidfuzz import fuzz, process, utils

    matches = process.extract(
        name,
        list(candidates),
        scorer=fuzz.ratio,
        processor=utils.default_process,
        score_cutoff=66.0,
        limit=4,
    )
    return [candidate for candidate, _, _ in matches]
