"""Takes off what models put around a plan, without moving a character.

The text is blanked in place, so every offset still counts in the original.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pearl.source import Span

# Most texts hold none of these, and are used as they are.
_TRIGGERS = ("<", ">", "```", '"""', "'''", "\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c")
_BREAKS = str.maketrans("\u2028\u2029\x85\x0b\x0c", "\n" * 5)
_QUOTED = re.compile(r"^[^\S\n]*(?:>[^\S\n]?)+", re.MULTILINE)
_TAG = r"<[A-Za-z][\w:-]*(?:\s[^<>\n]{0,200})?>"
_BEFORE = re.compile(
    rf"^[^\S\n]*((?:{_TAG}[^\S\n]*)+|`{{3,}}+(?![\w+.-]*[^\S\n]*$)(?![^`\n]*`{{3}}.))"
    r"(?=[^\S\n]*[^\s=:<])",
    re.MULTILINE,
)
_AFTER = re.compile(
    r"(?<=\S)[^\S\n]*"
    r"((?:</[A-Za-z][\w:-]{0,40}>|<\|/?\w{1,40}\|>|<br[ ]?/?>|</?s>|(?<!`)`{3,}+){1,4})[^\S\n]*$",
    re.MULTILINE | re.IGNORECASE,
)
_QUOTED_FROM = re.compile(r"^[^\S\n]*(?:\w{1,40}\s{0,9}=\s{0,9})?(?:\"{3}|'{3})", re.MULTILINE)
_QUOTED_TO = re.compile(r"(?<=\S)[^\S\n]*(\"{3}|'{3})\s*\Z")
_WORDS = r"(?:think|thinking|thoughts?|reasoning|scratchpad|reflection)"
_THINK = re.compile(rf"(?P<open><{_WORDS}>|\[THINK\])|<(?P<close>/){_WORDS}>|\[/THINK\]", re.I)


def unwrapped(text: str) -> tuple[str, list[Span]]:
    """A text of the same length without line endings of other systems, block
    quotation marks, and tags and fences that share a line with a step.

    Returns:
        The text, and the places of the tags and fences that were taken out.
    """
    if not any(mark in text for mark in _TRIGGERS):
        return text, []
    text = text.replace("\r\n", " \n").replace("\r", "\n").translate(_BREAKS)
    text = _QUOTED.sub(_blank, text)
    taken: list[Span] = []

    def take(match: re.Match[str]) -> str:
        taken.append(Span(*match.span(1)))
        return _blank(match)

    text = _AFTER.sub(take, _BEFORE.sub(take, text))
    # A program's text that holds the whole plan: its end shares the last step's line.
    if _QUOTED_FROM.search(text):
        text = _QUOTED_TO.sub(take, text)
    return text, sorted(taken)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def thoughts(text: str) -> Iterator[Span]:
    """Blocks in which a model talked to itself; the first may lack its opening
    tag (a chat template wrote it), the last its closing one (the reply was cut)."""
    if "<" not in text and "[" not in text:
        return
    start = -1
    at = 0
    closings = [match.start() for match in _THINK.finditer(text) if not match["open"]]
    last = closings[-1] if closings else -1
    for match in _THINK.finditer(text):
        if match["open"]:
            if start < 0 and (last > match.start() or _starts_line(text, match.start())):
                start = match.start()
        elif start >= 0:
            yield Span(start, match.end())
            start, at = -1, match.end()
        elif at == 0 and _alone(text, match):
            yield Span(0, match.end())
            at = match.end()
    if start >= 0:
        yield Span(start, len(text))


def _starts_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


def _alone(text: str, match: re.Match[str]) -> bool:
    """Whether a closing tag begins or ends its line, and is not words in a text."""
    following = text.find("\n", match.end())
    rest = text[match.end() : following if following >= 0 else len(text)]
    return not rest.strip() or _starts_line(text, match.start())
