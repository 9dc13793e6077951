"""Colours a text by a TextMate grammar, as far as the grammars in ``editors/`` go.

Rules are ``match`` with captures, ``begin``/``end`` with patterns, and
``include`` of ``#name`` and ``scope#name``. At each place the rule that matches
first wins, and of those the first in the list; the end of an open rule goes
before the rules inside it.
"""

import json
import re
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

Rule: TypeAlias = dict[str, Any]
Placed: TypeAlias = tuple[Rule, str]
"""A rule, and the scope of the grammar that it is from."""


class Grammars:
    """Grammars that may include each other.

    Args:
        files: one grammar a file.
    """

    def __init__(self, *files: Path) -> None:
        loaded = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        self.by_scope: dict[str, Rule] = {one["scopeName"]: one for one in loaded}

    def regexes(self) -> Iterator[str]:
        """Every regular expression of every grammar."""
        return _regexes([*self.by_scope.values()])

    def colour(self, scope: str, text: str) -> list[list[tuple[str, str]]]:
        """The pieces of every line, each with the name of the innermost rule that colours it."""
        open_rules: list[Placed] = [({"patterns": self.by_scope[scope]["patterns"]}, scope)]
        lines = []
        for line in text.split("\n"):
            scopes = [""] * len(line)
            self._line(line, open_rules, scopes)
            runs = groupby(zip(line, scopes, strict=True), key=itemgetter(1))
            lines.append([("".join(char for char, _ in run), name) for name, run in runs])
        return lines

    def _line(self, line: str, open_rules: list[Placed], scopes: list[str]) -> None:
        at, stuck = 0, 0
        while at <= len(line) and stuck < 50:
            rule, home = open_rules[-1]
            inner = list(self._rules(rule.get("patterns", ()), home))
            wanted = [(each.get("match") or each["begin"], (each, where)) for each, where in inner]
            ends = [(rule["end"], None)] if "end" in rule else []
            tried = ((re.compile(one).search(line, at), begun) for one, begun in [*ends, *wanted])
            found = [(match.start(), match, begun) for match, begun in tried if match]
            start, match, begun = min(found, key=itemgetter(0), default=(len(line), None, None))
            _paint(scopes, at, start, rule.get("name", ""))
            if match is None:
                return
            taken, where = begun or open_rules.pop()
            kind = "endCaptures" if begun is None else "captures"
            if begun and "begin" in taken:
                open_rules.append(begun)
                kind = "beginCaptures"
            around = "" if begun is None else rule.get("name", "")
            _paint(scopes, *match.span(), taken.get("name", around))
            self._captures(taken.get(kind, {}), match, where, scopes)
            stuck = stuck + 1 if match.end() == at else 0
            at = match.end()

    def _captures(self, captures: Rule, match: re.Match[str], home: str, scopes: list[str]) -> None:
        for number, capture in captures.items():
            start, end = match.span(int(number))
            if start < 0:
                continue
            _paint(scopes, start, end, capture.get("name", ""))
            for rule, _ in self._rules(capture.get("patterns", ()), home):
                for inner in re.compile(rule["match"]).finditer(match.string, start, end):
                    if not any(scopes[slice(*inner.span())]):
                        _paint(scopes, *inner.span(), rule.get("name", ""))

    def _rules(self, patterns: Any, home: str) -> Iterator[Placed]:
        for rule in patterns:
            where = home
            if "include" in rule:
                scope, _, name = rule["include"].partition("#")
                where = scope or home
                rule = self.by_scope[where]["repository"][name]
            if "match" in rule or "begin" in rule:
                yield rule, where
            else:
                yield from self._rules(rule["patterns"], where)


def _paint(scopes: list[str], start: int, end: int, name: str) -> None:
    if name:
        scopes[start:end] = [name] * (end - start)


def _regexes(data: Any) -> Iterator[str]:
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if key in ("match", "begin", "end") and isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            yield from _regexes(value)
