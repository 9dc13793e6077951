"""Colours a text by a TextMate grammar, as far as the grammars in ``editors/`` go.

Rules are ``match`` with captures, ``begin``/``end`` with patterns, and
``include`` of ``#name`` and ``scope#name``. At each place the rule that matches
first wins, and of those the first in the list; the end of an open rule goes
before the rules inside it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Rule = Mapping[str, Any]


class Piece(NamedTuple):
    """A piece of a line, and the name of the innermost rule that colours it."""

    text: str
    scope: str


class Open(NamedTuple):
    """A rule that has begun and not ended, and the grammar it is from."""

    rule: Rule
    home: str


class Grammars:
    """Grammars that may include each other.

    Args:
        files: one grammar a file.
    """

    def __init__(self, *files: Path) -> None:
        loaded = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        self.by_scope: dict[str, Any] = {one["scopeName"]: one for one in loaded}

    def regexes(self) -> Iterator[str]:
        """Every regular expression of every grammar."""
        for grammar in self.by_scope.values():
            yield from _regexes(grammar)

    def colour(self, scope: str, text: str) -> list[list[Piece]]:
        """The pieces of every line."""
        stack: list[Open] = []
        lines = []
        for line in text.split("\n"):
            scopes = [""] * len(line)
            self._line(scope, line, stack, scopes)
            lines.append(_pieces(line, scopes))
        return lines

    def _line(self, scope: str, line: str, stack: list[Open], scopes: list[str]) -> None:
        at, stuck = 0, 0
        while at <= len(line) and stuck < 50:
            top = stack[-1] if stack else None
            best: tuple[int, int, re.Match[str], Open | None] | None = None
            if top:
                found = re.compile(top.rule["end"]).search(line, at)
                best = (found.start(), -1, found, None) if found else None
            patterns = top.rule.get("patterns", ()) if top else self.by_scope[scope]["patterns"]
            home = top.home if top else scope
            for order, (rule, where) in enumerate(self._rules(patterns, home)):
                found = re.compile(rule.get("match") or rule["begin"]).search(line, at)
                if found and (best is None or (found.start(), order) < best[:2]):
                    best = (found.start(), order, found, Open(rule, where))
            end = best[0] if best else len(line)
            if top and "name" in top.rule:
                _paint(scopes, at, end, top.rule["name"])
            if best is None:
                return
            _, _, found, begun = best
            self._take(found, begun, stack, scopes)
            stuck = stuck + 1 if found.end() == at else 0
            at = found.end()

    def _take(
        self, found: re.Match[str], begun: Open | None, stack: list[Open], scopes: list[str]
    ) -> None:
        if begun is None:
            ended = stack.pop()
            _paint(scopes, *found.span(), ended.rule.get("name", ""))
            self._captures(ended.rule.get("endCaptures", {}), found, ended.home, scopes)
            return
        around = stack[-1].rule.get("name", "") if stack else ""
        _paint(scopes, *found.span(), begun.rule.get("name", around))
        if "begin" in begun.rule:
            stack.append(begun)
            self._captures(begun.rule.get("beginCaptures", {}), found, begun.home, scopes)
        else:
            self._captures(begun.rule.get("captures", {}), found, begun.home, scopes)

    def _captures(self, captures: Rule, found: re.Match[str], home: str, scopes: list[str]) -> None:
        for number, capture in captures.items():
            start, end = found.span(int(number))
            if start < 0:
                continue
            _paint(scopes, start, end, capture.get("name", ""))
            for rule, _ in self._rules(capture.get("patterns", ()), home):
                for inner in re.finditer(rule["match"], found.string[start:end]):
                    if not any(scopes[start + inner.start() : start + inner.end()]):
                        _paint(
                            scopes, start + inner.start(), start + inner.end(), rule.get("name", "")
                        )

    def _rules(self, patterns: Any, home: str) -> Iterator[tuple[Rule, str]]:
        for one in patterns:
            if "include" not in one:
                if "match" in one or "begin" in one:
                    yield one, home
                else:
                    yield from self._rules(one["patterns"], home)
                continue
            scope, _, name = one["include"].partition("#")
            inner = self.by_scope[scope or home]["repository"][name]
            where = scope or home
            if "match" in inner or "begin" in inner:
                yield inner, where
            else:
                yield from self._rules(inner["patterns"], where)


def _paint(scopes: list[str], start: int, end: int, name: str) -> None:
    if name:
        scopes[start:end] = [name] * (end - start)


def _pieces(line: str, scopes: list[str]) -> list[Piece]:
    pieces: list[Piece] = []
    for char, scope in zip(line, scopes, strict=True):
        if pieces and pieces[-1].scope == scope:
            pieces[-1] = Piece(pieces[-1].text + char, scope)
        else:
            pieces.append(Piece(char, scope))
    return pieces


def _regexes(data: Any) -> Iterator[str]:
    if isinstance(data, dict):
        for key, value in data.items():
            if key in ("match", "begin", "end") and isinstance(value, str):
                yield value
            else:
                yield from _regexes(value)
    elif isinstance(data, list):
        for value in data:
            yield from _regexes(value)
