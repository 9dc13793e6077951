"""The text of a reply."""

from __future__ import annotations

import codecs
import re
from html import unescape

from pearl.tools.base import ToolError

_TEXTS = re.compile(r"text/|application/(?:json|xml|x-ndjson|jsonl|yaml|toml)$|.*\+(?:json|xml)$")
_PAGES = ("text/html", "application/xhtml+xml")
_CHARSETS = re.compile(r"ascii|utf-(?:8|16|32)|iso8859|cp\d|koi8|gb|big5|shift_jis|euc|iso2022|mac")
_UNKNOWN = ("", "application/octet-stream")

# The standard library's parser fails on some pages (an AssertionError at "<![<"), and takes the
# square of the time on others. Here each pattern ends at the next "<" or where it began.
_UNSEEN = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(script|style|template|noscript|svg|iframe)\b[^<>]*>.*?(?:</\1[^<>]*>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_BREAK = re.compile(
    r"<(?:/?(?:p|div|section|article|header|footer|main|nav|aside|h[1-6]|ul|ol|dl|dt|dd|table"
    r"|tr|title|blockquote|pre|form|figure|figcaption)|br|hr|li)\b[^<>]*>",
    re.IGNORECASE,
)
_CELL = re.compile(r"</t[dh]\b[^<>]*>", re.IGNORECASE)
_TAG = re.compile(r"<[a-zA-Z/!?][^<>]*>")
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r"\s*\n\s*")


def read_text(body: bytes, kind: str, charset: str | None) -> str:
    """The text of a reply; a page's words without its tags and scripts.

    Args:
        body: what came, unpacked.
        kind: its media type, in small letters; empty where it has none.
        charset: what it says its characters are.

    Raises:
        ToolError: it is no text.
    """
    if kind not in _UNKNOWN and not _TEXTS.match(kind):
        raise ToolError("reply", "It answered with something that is no text.")
    text = _decoded(body, charset)
    if kind in _UNKNOWN and ("\0" in text or "\ufffd" in text):
        raise ToolError("reply", "It answered with something that is no text.")
    if kind in _PAGES:
        text = page_text(text)
    return text.replace("\0", "\ufffd")


def _decoded(body: bytes, charset: str | None) -> str:
    try:
        name = codecs.lookup(charset or "utf-8").name
    except (LookupError, ValueError):
        name = "utf-8"
    # Python knows others that no page is in, and reads some in the square of the time.
    known = name if name != "utf-8" and _CHARSETS.match(name) else "utf-8-sig"
    return body.decode(known, "replace")


def page_text(page: str) -> str:
    """The words of a page in HTML, one block a line.

    Args:
        page: any text; nothing in it fails.
    """
    shown = _BREAK.sub("\n", _CELL.sub(" ", _UNSEEN.sub(" ", page)))
    return _LINES.sub("\n", _SPACES.sub(" ", unescape(_TAG.sub("", shown)))).strip()
