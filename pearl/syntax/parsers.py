"""The grammars as parsers, made when first needed, and what they say of a bad line."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from lark import Lark, TextSlice, Token, UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from pearl import resources
from pearl.source import Span
from pearl.syntax.build import ActionBuilder, PlanBuilder

DEEPEST = 50
"""How deep lists may stand in lists."""


class Failure(NamedTuple):
    """Where a line stops being readable: see `tree.Broken`."""

    at: Span
    got: str
    before: str
    accepts: frozenset[str]


@cache
def _plan_parser() -> Lark:
    return Lark(
        resources.grammar("plan"),
        parser="lalr",
        start=["step", "returns"],
        transformer=PlanBuilder(),
        maybe_placeholders=True,
    )


@cache
def _action_parser() -> Lark:
    return Lark(
        resources.grammar("library"),
        parser="lalr",
        start="action",
        transformer=ActionBuilder(),
        maybe_placeholders=True,
    )


@cache
def string_pattern() -> re.Pattern[str]:
    """The grammar's quoted text, for finding where a call ends."""
    return re.compile(_plan_parser().get_terminal("STRING").pattern.to_regexp())


def parse_step(text: str, span: Span) -> Any | Failure:  # noqa: ANN401 - lark's transformers are untyped
    """A `Step`, or where it fails."""
    deep = _too_deep(text, span) if text.count("[", span.start, span.end) > DEEPEST else None
    return deep or _run(_plan_parser(), text, span, "step")


def parse_returns(text: str, span: Span) -> Any | Failure:  # noqa: ANN401 - as above
    """A tuple of `Ref`, or where it fails."""
    return _run(_plan_parser(), text, span, "returns")


def parse_action(text: str, span: Span) -> Any | Failure:  # noqa: ANN401 - as above
    """An `Action`, or where it fails."""
    return _run(_action_parser(), text, span, "action")


def _too_deep(text: str, span: Span) -> Failure | None:
    """The bracket from which on lists stand deeper in lists than anything could walk."""
    depth = 0
    for at in range(span.start, span.end):
        depth += (text[at] == "[") - (text[at] == "]")
        if depth > DEEPEST:
            return Failure(Span(at, at + 1), "LIST", "LIST", frozenset({"NAME", "STRING"}))
    return None


def _run(parser: Lark, text: str, span: Span, start: str) -> Any | Failure:  # noqa: ANN401 - as above
    try:
        return parser.parse(TextSlice(text, span.start, span.end), start=start)
    except UnexpectedInput as error:
        return _failure(error, text, span)


_LAST = {",": "_COMMA", "(": "_OPEN", "[": "LIST", ")": "CLOSE", "]": "END", "=": "_ASSIGN"}


def _before(text: str, start: int, at: int) -> str:
    """The type of the token before a place, judged by its last character."""
    head = text[max(start, at - 200) : at].rstrip()
    if not head:
        return ""
    if head[-1] in "\"'”“’»›」』":
        return "STRING"
    return _LAST.get(head[-1], "NAME" if head[-1].isalnum() or head[-1] == "_" else "")


@cache
def _seen() -> dict[tuple[int, ...], frozenset[str]]:
    return {}


def _accepts(error: UnexpectedToken) -> frozenset[str]:
    """The tokens that could have stood there.

    Lark tries every token on a copy of the parser, so what it finds is kept:
    it hangs on the parser's stack only, and there are few of those.
    """
    state = getattr(error.interactive_parser, "parser_state", None)
    if state is None:
        return frozenset(error.expected)
    # The states are numbered anew in each grammar.
    key = (id(state.parse_conf.parse_table), *state.state_stack)
    seen = _seen()
    if key not in seen:
        if len(seen) > 1000:
            seen.clear()
        seen[key] = frozenset(error.accepts or error.expected)
    return seen[key]


def _failure(error: UnexpectedInput, text: str, span: Span) -> Failure:
    history = getattr(error, "token_history", None) or ()
    before = history[-1].type if history and isinstance(history[-1], Token) else ""
    at, end, kind, accepts = span.end, span.end, "$END", frozenset[str]()
    if isinstance(error, UnexpectedToken):
        accepts = _accepts(error)
        token = error.token
        if token.type != "$END" and token.start_pos is not None and token.end_pos is not None:
            at, end, kind = token.start_pos, token.end_pos, token.type
            at += len(token) - len(token.lstrip(" \t"))
    elif isinstance(error, UnexpectedCharacters):
        at = int(str(error.pos_in_stream))
        end, kind, accepts = at + 1, "", frozenset(error.allowed or ())
    before = "_OPEN" if before == "HEAD" else before
    return Failure(Span(at, end), kind, before or _before(text, span.start, at), accepts)
