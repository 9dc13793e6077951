"""How text is shown: made safe, cut, counted and measured."""

import codecs
import json
import re
import unicodedata
from collections.abc import Container, Iterable
from functools import lru_cache
from itertools import chain, count
from typing import Any, Literal, cast


class _Pattern:
    """A regular expression that is compiled when it is first used."""

    def __init__(self, text: str, flags: int) -> None:
        self._written = text, flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what a pattern has by that name
        compiled = re.compile(*self._written)
        # From now on Python finds these without calling this method.
        self.__dict__ |= {key: getattr(compiled, key) for key in dir(compiled) if key[0] != "_"}
        return getattr(compiled, name)


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression of the language or of a rule, compiled when it is first used.

    Most are for what one plan in a hundred has, and compiling them all takes longer than a plan.
    A group that gives nothing back is atomic, ``(?>(?:…)*)``, and never has a plus behind its
    count: Python 3.11.0 to 3.11.4 then keep the beginning of what matched no longer.
    """
    return cast("re.Pattern[str]", _Pattern(text, flags))


SECRET_NAME = pattern(
    r"(?i)^(?!.*[-_](?:type|mode|version|policy)$|(?-i:PWD|OLDPWD)$)"
    r"(?:.*(?:key(?!word)|token|secret|cookie|authorization|credential|passw|passphrase)"
    r"|(?:x[-_])?(?:auth|pass|pw|pwd)$)"
)
"""The name of a header, parameter or variable whose value is a secret, and may not stand in a file;
what only describes a secret (``auth_type``) is none."""

MASKED_NAME = pattern(
    r"(?i)^(?!(?:old)?pwd$).*(?:auth|key|token|secret|cookie|credential|pass(?:w|phrase|$)|pwd)"
)
"""A name that suggests a secret, which is taken out of what is printed: more of them, as a mask too
many does little harm. A shell's PWD is a folder."""

_CHARSETS = pattern(
    r"ascii|utf-(?:8|16|32)|iso8859|cp\d|koi8|gb|big5|shift_jis|euc|iso2022|mac|tis|johab|hz|kz|ptcp"
)


def page_encoding(declared: str | None) -> str:
    """Python's name of the encoding that a page declares; that of UTF-8, with or without a byte
    order mark, if it declares none that web pages use."""
    try:
        name = codecs.lookup(declared or "utf-8").name
    except (LookupError, ValueError):
        name = "utf-8"
    # Python's other codecs are used by no page, and some take quadratic time.
    return name if name != "utf-8" and _CHARSETS.match(name) else "utf-8-sig"


_HIDDEN = "\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE = pattern(f"[\x00-\x1f{_HIDDEN}]")
_UNSAFE_IN_JSON = pattern(f"[{_HIDDEN}]")


FUNCTION_WORDS = frozenset(
    """
    a about all also an and any are as at be been being but by can could did do does for from
    had has have how if in into is it its more most of on or out over should so some such than
    that the their them then there they this to was were what when where which while who whom
    whose will with would
    """.split()
)
"""English words that say nothing of what a text is about; each use adds its own to them."""


# Names and first words of sentences come in capitals and without.
@lru_cache(maxsize=1 << 16)
def stem(word: str) -> str:
    """An English word's stem (Porter's second stemmer); the word is in lower case.

    A stemmer keeps the word it works on, so threads may not share one.
    """
    from snowballstemmer.english_stemmer import EnglishStemmer

    return str(EnglishStemmer().stemWord(word)) or word


def close_name(name: str, names: Iterable[str]) -> str:
    """`` (close: NAME)`` with the name that a mistyped one resembles most; empty for none."""
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), list(names), 1)
    return f" (close: {near[0]})" if near else ""


def free_name(name: str, taken: Container[str]) -> str:
    """The name, or, where it is taken, the name with the first free number from 2 on."""
    numbered = chain((name,), (f"{name}_{number}" for number in count(2)))
    return next(free for free in numbered if free not in taken)


def text_digest(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal digits; the text may hold lone surrogates."""
    # Loaded with the first digest: linting makes none.
    import hashlib

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def composed(text: str) -> str:
    """A text in which a letter and its mark are one character, where there is one for both (NFC):
    file names and texts of macOS, and of many PDFs, have two."""
    return normalized(text, "NFC")


def normalized(text: str, form: Literal["NFC", "NFKC", "NFKD"]) -> str:
    """A text in a normalization form of Unicode; more than 30 combining marks in a row, which no
    stream-safe text has (UAX #15), stay as they are."""
    if text.isascii():
        return text
    if not any(map(_is_mark, set(text[30::31]))):  # Each 31 characters in a row have one of these.
        return unicodedata.normalize(form, text)
    # Python takes quadratic time to sort marks, and lets no other thread run meanwhile.
    marks = "".join(filter(_is_mark, set(text)))
    pieces = re.split(f"([{marks}]{{31,}})", text)
    pieces[::2] = (unicodedata.normalize(form, piece) for piece in pieces[::2])
    return "".join(pieces)


def _is_mark(char: str) -> bool:
    """Whether a character is a combining mark, or is decomposed into such marks only."""
    return unicodedata.combining(unicodedata.normalize("NFKD", char)[0]) > 0


def printable(text: str) -> str:
    """One line without characters that could steer a terminal or hide other text."""
    return _UNSAFE.sub(lambda match: "\t" if match[0] == "\t" else "�", text)


def printable_lines(text: str) -> str:
    """Several lines, each safe to print."""
    return "\n".join(map(printable, text.replace("\r\n", "\n").split("\n")))


def passage_line(text: str) -> str:
    """A passage on one line; of a table, whose cells stand behind tabs, each cell behind a bar and
    each row behind a slash, so that an empty cell is seen."""
    if "\t" not in text:
        return one_line(text)
    rows = ([*map(one_line, row.split("\t"))] for row in text.splitlines())
    return " / ".join(" | ".join(row) for row in rows)


def json_text(data: Any) -> str:  # noqa: ANN401 - any JSON
    """JSON for a file and a screen alike: what could steer a terminal is escaped."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def section(doc: str, title: str) -> str:
    """A section of a docstring, unindented (``Example``, ``Why``); empty where it has none."""
    match = re.search(rf"^{title}\n((?:    .*\n|\n)+)", doc + "\n", re.MULTILINE)
    return "\n".join(line[4:] for line in match[1].rstrip().splitlines()) if match else ""


def one_line(text: str) -> str:
    """A text with one space where it has white space."""
    return " ".join(text.split())


def shorten(text: str, limit: int = 40) -> str:
    """Text on one line, cut where it has more characters than the limit."""
    flat = one_line(text)
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def counted(number: int, noun: str) -> str:
    """``1 error``, ``2 errors``, ``1,000 errors``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def cells(text: str) -> int:
    """The columns a text takes on a screen."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )
