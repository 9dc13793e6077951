"""Forms of plans that models write, each with its reading and its findings.

A file in ``cases/`` says what a careful person reads in a text. ``Reading``
and ``Findings`` are written by hand and never regenerated; ``Messages`` is
wording, and is written anew by ``UPDATE_CASES=1 pytest tests/test_cases.py``.
"""

import ast
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from pearl.lang.diagnostics import Diagnostic
from pearl.lang.errors import InputError
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.rewriting import format_plan
from pearl.lang.source import Source
from pearl.lint.checker import check

FILES = sorted((Path(__file__).parent / "cases").glob("*.md"))
_SECTION = re.compile(
    r"^## (\w+)\n\n(escapes: yes\n\n)?(~{4,})\n(.*?)^\3$", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Case:
    """One file's sections."""

    text: str
    reading: str
    findings: str
    messages: str


def load(path: Path) -> Case:
    """Read a case's file."""
    found: dict[str, str] = {}
    for name, escapes, _, body in _SECTION.findall(path.read_text(encoding="utf-8")):
        found[name] = unescaped(body) if escapes else body
    text = found["Text"].removesuffix("\n")
    return Case(text, found["Reading"].strip("\n"), found["Findings"], found["Messages"])


def unescaped(body: str) -> str:
    """The text with Python's escapes carried out."""
    quoted = body.replace('"', '\\"')
    return str(ast.literal_eval(f'"""{quoted}"""'))


@cache
def library() -> Library:
    return load_library()


def places(source: Source, found: list[Diagnostic]) -> str:
    """One line a finding: its code and where it stands."""
    lines = []
    for one in found:
        line, column = source.position(one.span.start)
        lines.append(f"{one.code} @{line}:{column}\n")
    return "".join(lines)


def wording(found: list[Diagnostic]) -> str:
    """Message and help of each finding."""
    return "".join(f"{one.code} {one.message}\n  {one.help}\n" for one in found)


def update(path: Path, messages: str) -> None:
    """Write a case's messages anew, and nothing else."""
    text = path.read_text(encoding="utf-8")
    head, mark, _ = text.rpartition("## Messages\n\n")
    path.write_text(f"{head}{mark}~~~~~\n{messages}~~~~~\n", encoding="utf-8")


@pytest.mark.parametrize("about", sorted({path.stem.partition("_")[0] for path in FILES}))
def test_cases(about: str) -> None:
    for path in FILES:
        if path.stem.partition("_")[0] != about:
            continue
        case = load(path)
        source = Source(path.stem, case.text)
        parsed = parse(source)
        found = check(parsed, library())
        assert print_plan(parsed.plan).strip("\n") == case.reading, path.stem
        assert places(source, found) == case.findings, path.stem
        if os.environ.get("UPDATE_CASES"):
            update(path, wording(found))
        else:
            # Run with UPDATE_CASES=1 if the wording is meant.
            assert wording(found) == case.messages, path.stem


FENCE = re.compile(r"^\s*[`~]{3,}.*$|</?\w+>|\[/?THINK\]|\\(?=_)", re.MULTILINE)
MARKS = {
    "new", "actions", "action", "question", "return", "step", "plan", "line", "the", "one", "two",
    "first", "second", "ii", "none", "my", "needed", "no", "end", "if", "any", "additional", "im",
    "steps", "think", "im_end", "are", "st", "nd", "rd",
}  # fmt: skip
"""What a number, a header or a heading is made of, which is not a word of the plan's."""


def test_no_word_is_lost_where_a_plan_is_formatted() -> None:
    written = 0
    for text in (load(path).text for path in FILES):
        with suppress(InputError):  # nothing is written then
            formatted = format_plan(Source("x", text))
            assert format_plan(Source("x", formatted)) == formatted
            words = re.findall(r"[^\W\d_]{2,}", FENCE.sub("", text).casefold())
            assert not {*words} - MARKS - {one for one in words if one in formatted.casefold()}
            written += 1
    assert written > 200
