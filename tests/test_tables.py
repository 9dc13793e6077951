"""The tables beside the grammars are those that lark makes of them; UPDATE_TABLES=1 writes them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from lark import Lark
from lark.grammar import Rule
from lark.parsers.lalr_analysis import Shift

GRAMMARS = Path(__file__).parent.parent / "grammar"
STARTS = {"plan": ["step", "returns"], "library": ["action"]}


@pytest.mark.parametrize("name", STARTS)
def test_table(name: str) -> None:
    path = GRAMMARS / f"{name}.json"
    text = json.dumps(table(name), ensure_ascii=False, separators=(",", ":")) + "\n"
    if os.environ.get("UPDATE_TABLES"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, (
        "run UPDATE_TABLES=1 pytest tests/test_tables.py"
    )


def table(name: str) -> dict[str, Any]:
    """The table of a grammar, its states numbered in the order in which symbols lead to them."""
    text = (GRAMMARS / f"{name}.lark").read_text(encoding="utf-8")
    lark = Lark(text, parser="lalr", start=STARTS[name], maybe_placeholders=True)
    parser: Any = lark.parser.parser
    made = parser._parse_table
    patterns = lark.parser.lexer.root_lexer.terminals  # type: ignore[attr-defined]
    order = [rule for rule in lark.rules if not rule.origin.name.startswith("$")]
    states = list(made.start_states.values())
    rows: list[dict[str, int]] = []
    for state in states:
        row = {}
        for symbol, (action, goal) in sorted(made.states[state].items(), key=lambda item: item[0]):
            if action is not Shift:
                row[symbol] = -1 - order.index(goal)
                continue
            if goal not in states:
                states.append(goal)
            row[symbol] = states.index(goal)
        rows.append(row)
    (ignored,) = lark.ignore_tokens
    return {
        "terminals": {pattern.name: pattern.pattern.to_regexp() for pattern in patterns},
        "ignored": ignored,
        "rules": [read(rule) for rule in order],
        "states": rows,
        "starts": {
            start: [states.index(made.start_states[start]), states.index(made.end_states[start])]
            for start in STARTS[name]
        },
    }


def read(rule: Rule) -> list[Any]:
    """A rule as `pearl.lang.grammar` reads it: origin, size, what builds it, spread, kept."""
    kept, place = [], 0
    for absent in rule.options.empty_indices or [False] * len(rule.expansion):
        if absent:
            kept.append(-1)
            continue
        if not (rule.expansion[place].is_term and rule.expansion[place].filter_out):  # type: ignore[attr-defined]
            kept.append(place)
        place += 1
    name = str(rule.origin.name)
    spread = [at for at, symbol in enumerate(rule.expansion) if symbol.name.startswith("__")]
    plain = name.startswith("__") or (rule.options.expand1 and not rule.alias)
    return [name, len(rule.expansion), "" if plain else str(rule.alias or name), spread, kept]
