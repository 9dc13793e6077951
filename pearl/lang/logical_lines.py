"""Splits a text into logical lines and says what each is meant as.

Models wrap plans in prose, fences, headings, bullets and `<think>` blocks, number steps in many
ways, and break lines anywhere. This module decides where each step begins and ends and what is no
part of the plan; the grammar reads the steps. First, wrapping is replaced with spaces, so that
every offset still holds in the original. Then one pass over physical lines looks at how a line
starts and whether its call is closed, never inside arguments. Last come lines whose meaning depends
on the whole text: a numbered line of words may be a step that calls nothing, the title of a step,
or a point of an outline; a sentence that holds a step may write the step, or only talk about it.
"""

import re
from collections.abc import Iterable, Iterator

from pearl.lang.ast import Kind, Line
from pearl.lang.grammar import CANONICAL, string_pattern
from pearl.lang.source import Span
from pearl.lang.text import pattern

BLANK = "\ufeff\u200b\u200c\u200d\u2060\u00ad \t\r\f\v\u00a0\u3000"
NAME = r"\$?(?:[^\W\d]|\\_)(?:\w|\\_)*"
_W = r"[\s\u200b-\u200d\u2060\u00ad\ufeff]*"
_MARK = r"[`*\s\u200b-\u200d\u2060\u00ad\ufeff]*"
ASSIGN = r"(?::=|=(?!=)|←|<-(?!-)|＝)"
_SPELT = r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_DELIMITER = r"[ \t]*\\?(?:[.):\]、．。）：|]+|[ \t]+(?:->|[-–—>]+)(?=\s))"

PREFIX = pattern(
    rf"{_W}(?:\#{{2,6}}\s+)?(?:(?:[-*+•·–—‣▪◦●○➤✓]|[-=]>)\s+(?:\[[ xX]\]\s+)?)?"
    r"(?:\*\*|`(?!``)|[*_](?=\d)|\*(?=\w))?"
    r"(?P<number>[(\[]?(?:(?:step|line|action)[ \t]*[-\#]?[ \t]*\d{1,4}"
    rf"|step[ \t]+(?:{_SPELT}))\b"
    rf"(?!\s*(?:{ASSIGN}|==))[ \t]*(?:[-.):\]–—]+)?"
    rf"|\d{{1,4}}(?:\.\d{{1,4}})*(?=\s+{NAME}\s*:?=)"
    rf"|[(\[]?(?:\d{{1,4}}|s\d{{1,4}})(?:\.\d{{1,4}})*(?:st|nd|rd|th)?{_DELIMITER}"
    rf"|[\#№][ \t]?\d{{1,4}}(?:{_DELIMITER}|(?=\s))"
    r"|[(\[]?(?:[ivx]{1,5}|[a-z])[.)\]](?=\s)"
    r"|[①-⑳❶-❿](?:[.):])?|\d\ufe0f?\u20e3[.):]?"
    r")?(?(number)(?:[*_]{1,3}(?=[\s:.)`])|\*{1,3}(?=\w))?(?:[:.)][*_]{0,3})?)\s*(?:[-*•]\s+)?`?",
    re.IGNORECASE,
)
"""Everything before a step's own words; never fails."""

STEP_NAME = pattern(rf"[`*\s]*({NAME})")
STEP = pattern(rf"{_MARK}{NAME}{_MARK}{ASSIGN}")
PLAIN_STEP = pattern(rf"\s*(?P<number>\d{{1,4}}\.)[ \t]+(?={CANONICAL}\Z)")
"""A numbered step in canonical form on one line, as most are."""

STEP_CALL = pattern(rf"{_MARK}{NAME}{_MARK}{ASSIGN}{_MARK}{NAME}{_MARK}(?:[(（\[{{]|$)")
ATTEMPT = pattern(
    rf"{_MARK}(?:{NAME}{_MARK}[(（\[{{]"  # a call without a name
    rf"|[^\n(=]{{1,60}}?(?::=|==?|\+=|←|<-|->|=>|:){_MARK}[\w.]+{_MARK}[(（\[{{])"  # a bad name
)
UPPER_CALL = pattern(
    r"(?<![A-Z0-9_])[A-Z][A-Z0-9]*(?:\\?_[A-Z0-9]+)*[ \t]*[(（\[{]|(?<!\w)\w+[(（]\s*CTX\b"
)
DECLARED = pattern(r"[`*\s\"'|]*[A-Z][A-Z0-9]*(?:\\?_[A-Z0-9]+)+[`*\s]*(?:[(（\[{:：#-]|$)")
INSIDE = pattern(
    rf"(?<![\w$\\])(?P<name>{NAME}){_MARK}{ASSIGN}{_MARK}"
    r"(?:[A-Z][A-Z0-9]+(?:\\?_[A-Z0-9]+)*[ \t]*[(（]|\w+[(（]\s*CTX\b)"
)
"""A step anywhere in a line."""

RETURN = pattern(
    rf"{_MARK}return\b{_W}(?:[:：]{_W})?(?:"
    rf"[(（]?{_W}(?:{NAME}|\#\d{{1,4}}){_MARK}(?:[,;.(（:：#)）]|$)"
    rf"|[\"'“\[{{(]"
    rf"|(?!the\b|an?\b|all\b|your\b|only\b|to\b|just\b|this\b|it\b|of\b|in\b|for\b|with\b)"
    rf"{NAME}\s+(?:and|or|&|\+|{NAME})\s+{NAME}{_W}[.;]?$)",
    re.IGNORECASE,
)
_MISSPELT = pattern(
    rf"{_MARK}(?P<word>[^\W\d_]{{5,7}})[:：`*]*[ \t]+"
    rf"(?P<names>{NAME}(?:(?:[ \t]*,[ \t]*|[ \t]+and[ \t]+){NAME})*)[;.`*\s]*$"
)
QUESTION = pattern(r"[*_\s#]*question[*_\s]*[:：]", re.IGNORECASE)
DECLARES = pattern(
    r"[*_#\s>-]*(?:my\s+|the\s+)?(?:new|additional|extra|custom)\s+actions?\b[^:：\n(=]{0,40}"
    r"(?:\((?:if any|if needed|optional|\d+)\)\s*[*_]*)?(?:[:：]|$)",
    re.IGNORECASE,
)
NONE = pattern(
    r"(?:(?>[-*•\s\d._]*-)|[-*•\s\d._]*+[(\[]?(?:none|n/?a|nil|no new actions?|\[\]|-)"
    r"(?:\s+(?:(?:is|are|were)\s+)?(?:needed|required|necessary))?)[^\w(]*+$",
    re.IGNORECASE,
)
COMMENT = pattern(rf"{_W}\#(?!\#{{1,5}}\s)(?!\d{{1,4}}\W)")
HEADING = pattern(r"[*_#\s]{0,9}[\w' -]{1,60}[:：]?[*_\s]{0,9}$")
TITLE = pattern(r"\s*#{2,6}\s")
LABEL = pattern(r"\s*[*_]*[A-Z][\w ]{0,30}[*_]*:[*_]*(?=\s*\d{1,4}[.)]\s)")
"""Words before the first step on its line: ``Plan: 1. a = F(CTX)``."""

BLOCK = pattern(r"\s*\w+\s*=\s*(?:\"{3}|'{3}|[\[(])\s*$")
"""The start of a program's text or list that holds a plan."""

ORNAMENT = pattern(
    r"\s*+(?:\"{3}|'{3}|[\])}],?|\w+\s*=\s*(?:\"{3}|'{3}|[\[(])"
    r"|[-*_=~]{3,}|</?[A-Za-z][\w:-]*(?:\s[^<>]*)?>|<\|[^<>|]*\|>|[|+:\-][|+:\- ]*+)\s*$"
)
FENCE = pattern(r"\s*(`{3,}+|~{3,}+)[^`\n]*$")
APART = pattern(
    r"//|/\*|[.…]+\s*$|(?:returns?|yields?|print|outputs?|answer|result|end|finally)\b",
    re.IGNORECASE,
)
"""The start of a line that does not continue a note, though it begins in lower case."""

CALL = pattern(rf"{NAME}\(")
BARE_NAME = pattern(rf"[`*\s]*{NAME}[`*\s]*$")
CONTINUED = pattern(rf"\s*{ASSIGN}{_MARK}{NAME}{_MARK}[(（]")
"""A line that starts with the equals sign of a step."""

TYPES = frozenset("str string text int integer float number bool list dict any pairs".split())


# Most texts hold none of these and need no unwrapping.
_TRIGGERS = ("<", ">", "```", '"""', "'''", "\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c")
_BREAKS = str.maketrans("\u2028\u2029\x85\x0b\x0c", "\n" * 5)
_QUOTED = pattern(r"^[^\S\n]*(?:>[^\S\n]?)+", re.MULTILINE)
_TAG = r"<[A-Za-z][\w:-]*(?:\s[^<>\n]{0,200})?>"
_BEFORE = pattern(
    rf"^[^\S\n]*((?:{_TAG}[^\S\n]*)+|`{{3,}}+(?![\w+.-]*[^\S\n]*$)(?![^`\n]*`{{3}}.))"
    r"(?=[^\S\n]*[^\s=:<])",
    re.MULTILINE,
)
_AFTER = pattern(
    r"(?<=\S)[^\S\n]*"
    r"((?:</[A-Za-z][\w:-]{0,40}>|<\|/?\w{1,40}\|>|<br[ ]?/?>|</?s>|(?<!`)`{3,}+){1,4})[^\S\n]*$",
    re.MULTILINE | re.IGNORECASE,
)
_QUOTED_FROM = pattern(r"^[^\S\n]*(?:\w{1,40}\s{0,9}=\s{0,9})?(?:\"{3}|'{3})", re.MULTILINE)
_QUOTED_TO = pattern(r"(?<=\S)[^\S\n]*(\"{3}|'{3})\s*\Z")
_WORDS = r"(?:think|thinking|thoughts?|reasoning|scratchpad|reflection)"
_NO_WORDS, _ENDED = re.compile(r"[^\S\n]*+"), re.compile(r"[^\S\n]*+(?:\n|\Z)")
_THINK = pattern(rf"(?P<open><{_WORDS}>|\[THINK\])|<(?P<close>/){_WORDS}>|\[/THINK\]", re.I)


def unwrap(text: str) -> tuple[str, list[Span]]:
    """A text of the same length without line endings of other systems, block
    quotation marks, and tags and fences that share a line with a step.

    Returns:
        The text, and the places of the tags and fences that were taken out.
    """
    if not any(mark in text for mark in _TRIGGERS):
        return text, []
    text = text.replace("\r\n", " \n").replace("\r", "\n").translate(_BREAKS)
    text = _QUOTED.sub(_blank, text)
    wrappings: list[Span] = []

    def take(match: re.Match[str]) -> str:
        wrappings.append(Span(*match.span(1)))
        return _blank(match)

    text = _AFTER.sub(take, _BEFORE.sub(take, text))
    # A program's text that holds the whole plan: its end shares the last step's line.
    if _QUOTED_FROM.search(text):
        text = _QUOTED_TO.sub(take, text)
    return text, sorted(wrappings)


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
    line = past = 0
    words = _NO_WORDS.match(text)
    for match in _THINK.finditer(text):
        if (end := text.rfind("\n", past, match.start())) >= 0:
            line = end + 1
            words = _NO_WORDS.match(text, line)
        past = match.end()
        starts_line = words is not None and words.end() >= match.start()
        if match["open"]:
            if start < 0 and (last > match.start() or starts_line):
                start = match.start()
        elif start >= 0:
            yield Span(start, match.end())
            start, at = -1, match.end()
        # A closing tag that begins or ends its line is not words in a text.
        elif at == 0 and (starts_line or _ENDED.match(text, match.end())):
            yield Span(0, match.end())
            at = match.end()
    if start >= 0:
        yield Span(start, len(text))


QUOTES = "\"'“”„«»‹「『＂‘‚"
"""The characters that may open a quoted text."""

_OPEN, _CLOSE = "(（[【{", ")）]】}"
_MARKS = pattern(rf"[{re.escape(_OPEN + _CLOSE + QUOTES)}]|\\\"")
_OPENING = pattern(r"[(（\[【{]")
_UNDONE = pattern(r"[^(]*(?:=|←|<-|＝)\s*+(?:[^\W\d](?>(?:\w|\\_)*)\s*+)?\\?\s*+")


def closed(text: str, start: int, end: int) -> bool:
    """Whether the call that starts in the range is complete.

    A line that ends in ``=``, in an action's name or in the middle of a call
    is not.
    """
    opening = _OPENING.search(text, start, end)
    if not opening:
        return not _UNDONE.fullmatch(text, start, end)
    return call_end(text, opening.start(), end) >= 0


def call_end(text: str, opening: int, end: int) -> int:
    """The place after a call's last parenthesis, or -1 where it is not closed.

    Args:
        text: the text.
        opening: the place of the call's first parenthesis.
        end: where to stop looking.
    """
    return call_ends(text, opening, end)[0]


def call_ends(text: str, opening: int, end: int) -> tuple[int, int]:
    """What `call_end` gives, and where an unclosed text in the call begins, or -1."""
    strings = string_pattern()
    depth, at = 0, opening
    while mark := _MARKS.search(text, at, end):
        char, at = mark[0], mark.end()
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth <= 0:
                return at, -1
        else:
            quoted = strings.match(text, mark.start(), end)
            if not quoted:
                return -1, mark.start()
            at = quoted.end()
    return -1, -1


def inner_step(text: str, start: int, end: int) -> int:
    """Where a step begins that has other words before it on its line, or -1.

    Two words, a type, or marks inside the name are a bad name and no step
    inside a sentence.
    """
    match = INSIDE.search(text, start, end)
    if not match:
        return -1
    at = match.start("name")
    head = text[start:at].strip("`* \t")
    joined = not text[at - 1].isspace() and (
        head[-1:] in "-./@#&~+?!" or (head[1:2] and head[-1] in "'’,")
    )
    if not head or joined:
        return -1
    words = head.split()
    typed = head.endswith(":") and match["name"] in TYPES
    paired = len(words) == 1 and (words[0].isalnum() or head.endswith(","))
    return -1 if typed or (paired and head.lower() != "return") else at


def misspelt_return(line: str) -> list[str]:
    """The names that a line gives after `return` with one typing error; empty for other lines."""
    match = _MISSPELT.match(line)
    if not match:
        return []
    from rapidfuzz.distance import OSA

    slips = OSA.distance(match["word"].casefold(), "return", score_cutoff=1)
    return re.split(r"\s*,\s*|\s+and\s+", match["names"]) if slips == 1 else []


def _follows(number: str, before: str) -> bool:
    """Whether a line's number is the next one after another line's."""
    digits = [re.sub(r"\D", "", each)[:9] for each in (before, number)]
    return all(digits) and int(digits[0]) + 1 == int(digits[1])


def _settle_inside(text: str, lines: list[Line]) -> None:
    steps = (line for line in lines if line.kind is Kind.STEP)
    named = (STEP_NAME.match(text, line.start, line.end) for line in steps)
    names = {match[1] for match in named if match}
    for line in lines:
        if line.kind is Kind.INSIDE:
            call = INSIDE.search(text, line.start, line.end)
            talk = call and call["name"] in names
            inner = inner_step(text, line.start, line.end)
            if talk and (inner >= 0 or not line.number):
                line.kind, line.start = Kind.PROSE, line.begin
            elif inner < 0:
                line.kind = Kind.BROKEN


def _points(text: str, lines: list[Line]) -> set[int]:
    """The numbered lines that stand, indented, under a step."""
    points: set[int] = set()
    step = -1
    for index, line in enumerate(lines):
        words = text[line.begin : line.begin + 80]
        indent = len(words) - len(words.lstrip())
        if line.kind is Kind.STEP:
            step = indent
        elif line.kind is Kind.WORDS and 0 <= step < indent:
            points.add(index)
        else:
            step = -1
    return points


def _settle_words(text: str, lines: list[Line]) -> None:
    steps = [index for index, line in enumerate(lines) if line.kind in (Kind.STEP, Kind.BROKEN)]
    numbers = {lines[index].number for index in steps}
    points = _points(text, lines)
    first, last = (steps[0], steps[-1]) if steps else (0, len(lines))
    following: Line | None = None
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        if line.kind is Kind.WORDS:
            titled = following and following.kind is Kind.STEP and not following.number
            between = first < index < last
            outside = bool(steps) and not between and (numbers == {""} or line.number in numbers)
            if titled or outside or index in points:
                line.kind, line.start = Kind.PROSE, line.begin
            else:
                line.kind = Kind.BROKEN
            following = line
        elif line.kind is not Kind.WRAPPING:
            following = line


def _settle_numbers(lines: list[Line]) -> None:
    """A number alone on its line belongs to the step below; at the end, its step is cut off."""
    for line in lines:
        if line.kind is Kind.NUMBER:
            line.kind = Kind.WRAPPING
    last = next((line for line in reversed(lines) if line.kind is not Kind.COMMENT), None)
    if last and last.kind is Kind.WRAPPING and last.number:
        last.kind = Kind.BROKEN


# A call that is wrapped over more lines or characters than this has lost its end.
_MOST_LINES = 60
_MOST_TEXT = 20_000


def split(text: str, thoughts: Iterable[Span] = ()) -> list[Line]:
    """The logical lines of a plan's text, in order, without blank ones.

    Args:
        text: the text, without its wrapping.
        thoughts: the blocks of it that are no part of the reply.
    """
    splitter = _Splitter(text)
    start = 0
    for thought in thoughts:
        splitter.part(start, thought.start)
        splitter.thought(thought.start, thought.end)
        start = thought.end
    splitter.part(start, len(text))
    lines = splitter.lines
    kinds = {line.kind for line in lines}
    if Kind.INSIDE in kinds:
        _settle_inside(text, lines)
    if Kind.WORDS in kinds:
        _settle_words(text, lines)
    if Kind.NUMBER in kinds:
        _settle_numbers(lines)
    return lines


class _Splitter:
    """The state of one pass over physical lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines: list[Line] = []
        self.block = 0
        self.blocks = 0
        self.fence = ""
        self.declaring = False
        self.open: Line | None = None  # the step or action whose call is not closed
        self.wrapped = 0
        self.after_blank = True
        self.stepped = False
        self.has_question = False

    def part(self, start: int, end: int) -> None:
        """Read a stretch of the text."""
        text = self.text
        while start < end:
            stop = text.find("\n", start, end)
            stop = stop if stop >= 0 else end
            if plain := PLAIN_STEP.match(text, start, stop):
                self._add(Kind.STEP, start, plain.end(), stop).number = plain["number"]
                self.declaring, self.stepped, self.wrapped = False, True, 0
            else:
                self._feed(start, stop)
            start = stop + 1

    def thought(self, start: int, end: int) -> None:
        """Put a thinking block aside."""
        self._add(Kind.THINKING, start, start, end)
        self.fence, self.block, self.declaring = "", 0, False

    def _feed(self, start: int, end: int) -> None:
        raw = self.text[start:end]
        if not raw.strip(BLANK):
            self.after_blank = True
            self.open = None
            return
        if fence := FENCE.match(raw):
            self._fence(fence[1], start, end)
        elif DECLARES.match(raw) and not STEP.match(raw):
            self._declares(raw, start, end)
        else:
            self._classify(raw, start, end)

    def _classify(self, raw: str, start: int, end: int) -> None:
        if COMMENT.match(raw):
            self._add(Kind.COMMENT, start, start, end)
            return
        prefix = PREFIX.match(raw)
        at = prefix.end() if prefix else 0
        number = (prefix["number"] or "").strip() if prefix else ""
        kind = self._kind(raw, at, number)
        if kind is Kind.INSIDE and number:
            # A number behind a number: "1. 1) a = F(CTX)".
            second = PREFIX.match(raw, at)
            if second and STEP.match(raw, second.end()):
                kind, at = Kind.STEP, second.end()
        label = LABEL.match(raw) if kind is Kind.INSIDE else None
        if label:
            self._add(Kind.WRAPPING, start, start, start + label.end())
            self._classify(raw[label.end() :], start + label.end(), end)
        elif kind is None:
            self._other(raw, start, end, at, number)
        elif kind is Kind.QUESTION:
            self.has_question = True
            self._add(kind, start, start, end)
        else:
            self._start(kind, start, start + at, end, number)

    def _kind(self, raw: str, at: int, number: str) -> Kind | None:
        step = STEP.match(raw, at)
        if self.declaring and not step and (ATTEMPT.match(raw, at) or DECLARED.match(raw, at)):
            return Kind.ACTION
        if step:
            if not number and not self.open and BLOCK.match(raw):
                return None
            inside = self.open is not None and not number and not STEP_CALL.match(raw, at)
            return None if inside else Kind.STEP
        if RETURN.match(raw, at) and not INSIDE.search(raw, at):
            return Kind.RETURN
        if not self.stepped and not self.has_question and not self.open and QUESTION.match(raw):
            return Kind.QUESTION
        if INSIDE.search(raw, at):
            return Kind.INSIDE
        apart = self.open is None or _follows(number, self.open.number)
        if apart and UPPER_CALL.search(raw, at) and (number or ATTEMPT.match(raw, at)):
            return Kind.BROKEN
        return None

    def _other(self, raw: str, start: int, end: int, at: int, number: str) -> None:
        """A line that starts nothing: the rest of the one before, or no part of the plan."""
        last = self.lines[-1] if self.lines else None
        if self.open is not None and self.wrapped < _MOST_LINES:
            self._extend(self.open, end)
        elif ORNAMENT.match(raw):
            self._add(Kind.WRAPPING, start, start, end)
        elif self.declaring and NONE.match(raw):
            self._add(Kind.HEADER, start, start, end)
        elif (
            # The last line is a step's name alone, and this is the rest of the step.
            last
            and not self.after_blank
            and last.kind in (Kind.WORDS, Kind.PROSE)
            and CONTINUED.match(raw)
            and BARE_NAME.match(self.text, last.start, last.end)
        ):
            last.kind, self.stepped = Kind.STEP, True
            self._extend(last, end)
        elif last and not self.after_blank and self._continues(raw, end, last, number):
            last.end = end
        elif number.startswith("#"):
            self._add(Kind.COMMENT, start, start, end)
        elif number and not raw[at:].strip():
            self._add(Kind.NUMBER, start, start, end).number = number
        elif number:
            self._start(Kind.WORDS, start, start + at, end, number)
        elif raw.rstrip("*_ \t\r").endswith((":", "：")) and HEADING.match(raw):
            self.declaring = False
            self._add(Kind.WRAPPING, start, start, end)
        else:
            kind = Kind.WRAPPING if TITLE.match(raw) else Kind.PROSE
            self._add(kind, start, start, end)

    def _continues(self, raw: str, end: int, last: Line, number: str) -> bool:
        if last.kind in (Kind.PROSE, Kind.WORDS):
            return not number
        if last.kind is Kind.QUESTION:
            return not number and last.end - last.start > 40
        if last.kind not in (Kind.STEP, Kind.ACTION) or number:
            return False
        # A call, a misspelt return, or a name that was cut off, is no part of a note.
        is_last = not self.text[end : end + 80].strip("`~* \t\r\n")
        if CALL.match(raw) or misspelt_return(raw) or (is_last and BARE_NAME.match(raw)):
            return False
        body = raw.lstrip()
        indented = raw[:1] in (" ", "\t", "\u00a0")
        bullet = bool(re.match(r"[-*•]\s", body))
        wraps = body[:1].islower() or body[:1] in "(\"'“,;.&/:：—–"
        return indented or (wraps and not bullet and not APART.match(body))

    def _start(self, kind: Kind, begin: int, start: int, end: int, number: str) -> None:
        if kind in (Kind.STEP, Kind.RETURN, Kind.INSIDE) or (kind is Kind.BROKEN and number):
            self.declaring = False
        line = self._add(kind, begin, start, end)
        line.number = number
        self.stepped = self.stepped or kind is Kind.STEP
        if kind in (Kind.STEP, Kind.ACTION, Kind.BROKEN):
            self.wrapped = 0
            self.open = None if closed(self.text, start, end) else line

    def _extend(self, line: Line, end: int) -> None:
        line.end = end
        self.wrapped += 1
        done = end - line.start > _MOST_TEXT or closed(self.text, line.start, end)
        self.open = None if done else line

    def _add(self, kind: Kind, begin: int, start: int, end: int) -> Line:
        line = Line(kind, start, end, self.block, "", begin)
        self.lines.append(line)
        self.open = None
        self.after_blank = False
        return line

    def _fence(self, mark: str, start: int, end: int) -> None:
        if self.fence and mark.startswith(self.fence):
            self.fence, self.block = "", 0
        elif not self.fence:
            self.blocks += 1
            self.fence, self.block = mark, self.blocks
        self._add(Kind.WRAPPING, start, start, end)

    def _declares(self, raw: str, start: int, end: int) -> None:
        self.declaring = True
        match = DECLARES.match(raw)
        at = match.end() if match else len(raw)
        rest = raw[at:].lstrip("*_ \t")
        none = NONE.match(rest) or not rest.strip(BLANK + "*_")
        self._add(Kind.HEADER, start, start, end if none else start + at)
        if not none:
            self._classify(rest, end - len(rest), end)
