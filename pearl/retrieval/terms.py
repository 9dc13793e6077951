"""What a text is made of: the terms that it is found by, and its sentences."""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from functools import lru_cache
from itertools import filterfalse

from pearl.lang.source import Span
from pearl.lang.text import FUNCTION_WORDS

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_INITIALS = re.compile(r"(?<![^\W_])(?:(?:[A-Z]\.[^\S\n]?)+[A-Z]\.|[A-Z](?:\.[A-Z])+)(?![^\W_])")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+)")
"""Scripts that put no space between words."""

_LONGEST = 64
"""Characters of a term; what is longer is no word."""

_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"}
)
"""Letters that are not a letter and a mark, and that people leave out all the same."""

TITLE = 3
"""How often a title's terms count where a text's count once (Robertson, Zaragoza and Taylor,
"Simple BM25 Extension to Multiple Weighted Fields", CIKM 2004, section 3)."""

STOP = FUNCTION_WORDS | frozenset(
    """
    after again against am because before below between both doing down during each few further
    having he her here hers herself him himself his i itself just me my myself no nor not off
    once only other our ours ourselves own same she theirs themselves these those through too
    under until up upon us very we why you your yours yourself yourselves
    """.split()
)
"""Words that say nothing of what a text is about."""

_OPERATORS = frozenset({"AND", "OR", "NOT"})
"""What those write in capitals who take a query for a formula."""


def terms(text: str) -> list[str]:
    """A text's terms, in order.

    English words are stems (Porter's second stemmer). Names stay whole:
    accents and apostrophes fall away (*O'Brien*, *Sjöström*), initials are one
    term however they are set (*J. K.*, *J.K.*, *JK*), a single letter counts
    (*Malcolm X*), and so does a stop word in capitals (*WHO*, *US*), unless
    all of the text is in capitals. Scripts without spaces give every two
    characters that stand together.
    """
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    if "." in text:
        text = _INITIALS.sub(_joined, text)
    if "," in text:
        text = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), text)
    found = _WORD.findall(text)
    if len(found) > 1 and text.isupper():
        found = [word.lower() for word in found]
    return [term for word in found for term in _terms_of(word)]


def field_terms(title: str, text: str) -> list[str]:
    """The terms of a text under a title, whose own count more.

    Args:
        title: may be empty.
        text: any text.
    """
    return terms(title) * TITLE + terms(text)


def query_terms(query: str, most: int = 128) -> list[str]:
    """The different terms of a query, in order.

    Args:
        query: any text.
        most: what comes after so many terms is left out; nobody asks for more
            at once.
    """
    return list(dict.fromkeys(terms(query)))[:most]


def _joined(found: re.Match[str]) -> str:
    letters = "".join(char for char in found[0] if char.isalpha())
    return f" {letters} "


# A corpus has few words, each of them often.
@lru_cache(maxsize=1 << 18)
def _terms_of(word: str) -> tuple[str, ...]:
    if _UNSPACED.search(word):
        parts = [part for part in _UNSPACED.split(word) if part]
        return tuple(term for part in parts for term in _unspaced(part))
    plain = _folded(word)
    if plain.endswith("'s"):
        plain = plain[:-2]
    short = plain.partition("'")[0]
    stopped = plain in STOP or (short != plain and (short in STOP or plain.endswith("n't")))
    plain = plain.replace("'", "")[:_LONGEST]
    if stopped:
        named = len(word) > 1 and word.isupper() and word not in _OPERATORS
        return (f"={plain}",) if named else ()
    return (stem(plain),)


def _unspaced(part: str) -> tuple[str, ...]:
    if not _UNSPACED.match(part):
        return _terms_of(part)
    return tuple(part[at : at + 2] for at in range(max(1, len(part) - 1)))


def _folded(word: str) -> str:
    """A word without case and accents."""
    word = word.replace("’", "'").casefold()
    if word.isascii():
        return word
    parts = unicodedata.normalize("NFKD", word.translate(_LETTERS))
    return unicodedata.normalize("NFC", "".join(filterfalse(unicodedata.combining, parts)))


# Names and first words of sentences come in capitals and without.
@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """An English word's stem; the word is in lower case.

    A stemmer keeps the word it works on, so threads may not share one.
    """
    from snowballstemmer.english_stemmer import EnglishStemmer

    return str(EnglishStemmer().stemWord(word)) or word


_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*|\n(?=[^\S\n]*[-*•]\s)")
_HEADING = re.compile(r"[^\S\n]*[^\n]{0,59}[^\n\s.!?,;:…\"”’)—-][^\S\n]*\n(?=\s*[\"“‘(]?[^\W_])")
_END = re.compile(
    r"[.!?…؟।](?P<close>[\"'”’»)\]]*)\s+(?=[\"'“‘«„(\[]*(?P<next>[^\W_]))|[。！？]+[」』”’）]*"
)
_ABBREVIATED = re.compile(
    r"\b(?:Mr|Mrs|Ms|Mme|Mlle|Dr|St|Prof|Rev|Hon|Capt|Col|Gen|Maj|Sgt|Lt|Gov|Sen|Rep|Jr|Sr|Mt|Ft"
    r"|vs|cf|viz|ca|[A-HJ-Z])$"
)
_NUMBERED = re.compile(r"\b(?:[Nn]os?|pp?|[Ff]igs?|[Vv]ol|[Cc]h)$")
_QUOTED = re.compile(
    r"\"[^\"]*(?:\"|$)|“[^”]*(?:”|$)|«[^»]*(?:»|$)|„[^“”]*(?:[“”]|$)|「[^」]*(?:」|$)"
)
_SPEECH = 400
"""Characters that quotation marks hold together; a longer speech has sentences of its own."""

_LONGEST_SENTENCES = 1000
"""Characters of a sentence; what runs on without an end is cut at white space."""


def sentences(text: str) -> list[Span]:
    """Where each sentence stands, without the white space around it.

    What somebody says in quotes stays whole, with its quotes, as long as its
    paragraph lasts and it is no long speech. A heading is a sentence.
    """
    found: list[Span] = []
    start = 0
    for between in (*_PARAGRAPH.finditer(text), None):
        end = between.start() if between else len(text)
        heading = _HEADING.match(text, start, end)
        if heading and text[heading.end() : heading.end() + 2].strip('"“‘( ')[:1].isupper():
            _keep(found, text, start, heading.end())
            start = heading.end()
        _split(found, text, start, end)
        start = between.end() if between else end
    return found


def _split(found: list[Span], text: str, start: int, end: int) -> None:
    """The sentences of one paragraph."""
    speeches = (Span(*quoted.span()) for quoted in _QUOTED.finditer(text, start, end))
    whole = deque(span for span in speeches if span.end - span.start <= _SPEECH)
    for stop in _END.finditer(text, start, end):
        if stop["next"] and (stop["next"].islower() or _abbreviated(text, start, stop)):
            continue
        at = stop.end("close") if stop["next"] else stop.end()
        while whole and whole[0].end <= at:
            whole.popleft()
        if not whole or at <= whole[0].start:
            _keep(found, text, start, at)
            start = at
    _keep(found, text, start, end)


def _abbreviated(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether a full stop only shortens the word before it."""
    at = stop.start()
    if text[at] != ".":
        return False
    word = text[max(start, at - 8) : at]
    numbered = stop["next"].isdigit() and _NUMBERED.search(word)
    return bool(numbered or _ABBREVIATED.search(word))


def _keep(found: list[Span], text: str, start: int, end: int) -> None:
    while end - start > _LONGEST_SENTENCES:
        at = max(
            text.rfind(mark, start + 1, start + _LONGEST_SENTENCES) for mark in (" ", "\n", "\t")
        )
        at = at if at > start else start + _LONGEST_SENTENCES
        _keep(found, text, start, at)
        start = at
    body = text[start:end]
    start += len(body) - len(body.lstrip())
    end = start + len(body.strip())
    if end > start:
        found.append(Span(start, end))
