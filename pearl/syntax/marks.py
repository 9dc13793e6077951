"""How the lines of a plan begin: numbers, bullets, names, headings."""

from __future__ import annotations

import re

BLANK = "\ufeff\u200b\u200c\u200d\u2060\u00ad \t\r\f\v\u00a0\u3000"
NAME = r"\$?(?:[^\W\d]|\\_)(?:\w|\\_)*"
_W = r"[\s\u200b-\u200d\u2060\u00ad\ufeff]*"
_MARK = r"[`*\s\u200b-\u200d\u2060\u00ad\ufeff]*"
_ASSIGN = r"(?::=|=(?!=)|←|<-(?!-)|＝)"
_SPELT = r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_DELIMITER = r"[ \t]*\\?(?:[.):\]、．。）：|]+|[ \t]+(?:->|[-–—>]+)(?=\s))"

PREFIX = re.compile(
    rf"{_W}(?:\#{{2,6}}\s+)?(?:(?:[-*+•·–—‣▪◦●○➤✓]|[-=]>)\s+(?:\[[ xX]\]\s+)?)?"
    r"(?:\*\*|`(?!``)|[*_](?=\d)|\*(?=\w))?"
    r"(?P<number>[(\[]?(?:(?:step|line|action)[ \t]*[-\#]?[ \t]*\d{1,4}"
    rf"|step[ \t]+(?:{_SPELT}))\b"
    rf"(?!\s*(?:{_ASSIGN}|==))[ \t]*(?:[-.):\]–—]+)?"
    rf"|\d{{1,4}}(?:\.\d{{1,4}})*(?=\s+{NAME}\s*:?=)"
    rf"|[(\[]?(?:\d{{1,4}}|s\d{{1,4}})(?:\.\d{{1,4}})*(?:st|nd|rd|th)?{_DELIMITER}"
    rf"|[\#№][ \t]?\d{{1,4}}(?:{_DELIMITER}|(?=\s))"
    r"|[(\[]?(?:[ivx]{1,5}|[a-z])[.)\]](?=\s)"
    r"|[①-⑳❶-❿](?:[.):])?|\d\ufe0f?\u20e3[.):]?"
    r")?(?(number)(?:[*_]{1,3}(?=[\s:.)`])|\*{1,3}(?=\w))?(?:[:.)][*_]{0,3})?)\s*(?:[-*•]\s+)?`?",
    re.IGNORECASE,
)
"""Everything before a step's own words; never fails."""

STEP_NAME = re.compile(rf"[`*\s]*({NAME})")
STEP = re.compile(rf"{_MARK}{NAME}{_MARK}{_ASSIGN}")
PLAIN_STEP = re.compile(rf"\s*(\d{{1,4}}\.)[ \t]+(?={NAME} = {NAME}\()")
"""The canonical start of a step, which most lines have."""

STEP_CALL = re.compile(rf"{_MARK}{NAME}{_MARK}{_ASSIGN}{_MARK}{NAME}{_MARK}(?:[(（\[{{]|$)")
ATTEMPT = re.compile(
    rf"{_MARK}(?:{NAME}{_MARK}[(（\[{{]"  # a call without a name
    rf"|[^\n(=]{{1,60}}?(?::=|==?|\+=|←|<-|->|=>|:){_MARK}[\w.]+{_MARK}[(（\[{{])"  # a bad name
)
UPPER_CALL = re.compile(
    r"(?<![A-Z0-9_])[A-Z][A-Z0-9]*(?:\\?_[A-Z0-9]+)*[ \t]*[(（\[{]|(?<!\w)\w+[(（]\s*CTX\b"
)
DECLARED = re.compile(r"[`*\s\"'|]*[A-Z][A-Z0-9]*(?:\\?_[A-Z0-9]+)+[`*\s]*(?:[(（\[{:：#-]|$)")
INSIDE = re.compile(
    rf"(?<![\w$\\])(?P<name>{NAME}){_MARK}{_ASSIGN}{_MARK}"
    r"(?:[A-Z][A-Z0-9]+(?:\\?_[A-Z0-9]+)*[ \t]*[(（]|\w+[(（]\s*CTX\b)"
)
"""A step anywhere in a line."""

RETURN = re.compile(
    rf"{_MARK}return\b{_W}(?:[:：]{_W})?(?:"
    rf"[(（]?{_W}{NAME}{_MARK}(?:[,;.(（:：#)）]|$)"
    rf"|[\"'“\[{{(]"
    rf"|(?!the\b|an?\b|all\b|your\b|only\b|to\b|just\b|this\b|it\b|of\b|in\b|for\b|with\b)"
    rf"{NAME}\s+(?:and|or|&|\+|{NAME})\s+{NAME}{_W}[.;]?$)",
    re.IGNORECASE,
)
QUESTION = re.compile(r"[*_\s#]*question[*_\s]*[:：]", re.IGNORECASE)
DECLARES = re.compile(
    r"[*_#\s>-]*(?:my\s+|the\s+)?(?:new|additional|extra|custom)\s+actions?\b[^:：\n(=]{0,40}"
    r"(?:\((?:if any|if needed|optional|\d+)\)\s*[*_]*)?(?:[:：]|$)",
    re.IGNORECASE,
)
NONE = re.compile(
    r"[-*•\s\d._]*[(\[]?(?:none|n/?a|nil|no new actions?|\[\]|-)"
    r"(?:\s+(?:(?:is|are|were)\s+)?(?:needed|required|necessary))?[^\w(]*$",
    re.IGNORECASE,
)
COMMENT = re.compile(rf"{_W}\#(?!\#{{1,5}}\s)(?!\d{{1,4}}\W)")
HEADING = re.compile(r"[*_#\s]{0,9}[\w' -]{1,60}[:：]?[*_\s]{0,9}$")
TITLE = re.compile(r"\s*#{2,6}\s")
LABEL = re.compile(r"\s*[*_]*[A-Z][\w ]{0,30}[*_]*:[*_]*(?=\s*\d{1,4}[.)]\s)")
"""Words before the first step on its line: ``Plan: 1. a = F(CTX)``."""

BLOCK = re.compile(r"\s*\w+\s*=\s*(?:\"{3}|'{3}|[\[(])\s*$")
"""The start of a program's text or list that holds a plan."""

ORNAMENT = re.compile(
    r"\s*+(?:\"{3}|'{3}|[\])}],?|\w+\s*=\s*(?:\"{3}|'{3}|[\[(])"
    r"|[-*_=~]{3,}|</?[A-Za-z][\w:-]*(?:\s[^<>]*)?>|<\|[^<>|]*\|>|[|+:\-][|+:\- ]*)\s*$"
)
FENCE = re.compile(r"\s*(`{3,}|~{3,})[^`\n]*$")
APART = re.compile(
    r"//|/\*|[.…]+\s*$|(?:returns?|yields?|print|outputs?|answer|result|end|finally)\b",
    re.IGNORECASE,
)
"""The start of a line that is no more of a note, though it is not capitalized."""

CALL = re.compile(rf"{NAME}\(")
BARE_NAME = re.compile(rf"[`*\s]*{NAME}[`*\s]*$")
CONTINUED = re.compile(rf"\s*{_ASSIGN}{_MARK}{NAME}{_MARK}[(（]")
"""A line that starts with the equals sign of a step."""

TYPES = frozenset("str string text int integer float number bool list dict any pairs".split())
