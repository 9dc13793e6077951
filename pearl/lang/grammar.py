"""The grammars of grammar/ as parsers, made when first needed.

They turn one line into a `Step`, an `Action` or what is returned, with the places of all that is in
it, or say where it stops being readable: which token stands there, and which could have.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from lark import (
    Lark,
    TextSlice,
    Token,
    Transformer,
    UnexpectedCharacters,
    UnexpectedInput,
    UnexpectedToken,
)

from pearl.lang.ast import Action, Arg, Items, Literal, Mode, Param, Ref, Step, Template
from pearl.lang.source import Span, grammar_text
from pearl.lang.values import DEEPEST, TYPES, Type, Value, read_number

_MODES = {str(mode): mode for mode in Mode}
_INSIDE = re.compile(
    r"\\(?P<escape>u[0-9a-fA-F]{4}|.)"
    r"|\{\s*(?:(?P<mode>(?i:each|where)(?:\s+(?i:values))?|(?i:evidence))\s+)?"
    r"(?P<name>#\d{1,4}|[^\W\d](?:\w|\\_)*)\s*\}"
    r"|(?P<wrap>[ \t]*\r?\n\s*)",
    re.DOTALL,
)
ALMOST = re.compile(
    r"(?<!\\)(?:\{\s*(?:[$@]?\d{1,2}|step[ _]?\d{1,2}|[#$@][^\W\d]\w*"
    r"|[^\W\d]\w*(?:\.[^\W\d]\w*|\[[^\[\]{}]{0,40}\]|\([^(){}]{0,40}\))+)\s*\}"
    r"|(?P<double>\{\{\s*(?:(?:each|where)(?:\s+values)?\s+)?[^\W\d]\w*\s*\}\}))"
)
"""Braces inside a text around what looks like a reference and is none."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", **{char: char for char in "\"'\\{}_"}}
_NOQA = re.compile(r"#\s*noqa(?::\s*(?P<codes>[A-Z]+\d+(?:[\s,]+[A-Z]+\d+)*))?\s*$", re.IGNORECASE)
_NOTE_MARK = re.compile(
    r"[ \t]*(?:[:：]+(?:\s*(?:#(?=\s)|//|[—–-]+(?=\s)|[*•](?=\s)))?"
    r"|[#.;,]|//|[—–-]+|\s*\n\s*[*•]\s)"
)
_STARTS = re.compile(r"\\\"|f?(?:\"\"\"(?=.{3})|'''(?=.{3}))|f?.", re.DOTALL)


def _span(token: Token) -> Span:
    return Span(token.start_pos or 0, token.end_pos or 0)


def _name(token: Token) -> str:
    # Markdown escapes underscores; a name has no backslash.
    name = str(token).replace("\\", "") if "\\" in token else str(token)
    return name[1:] if name[0] == "$" else name


def _type(token: Token) -> Type:
    return next(kind for kind in TYPES if kind == token)


def _mode(text: str) -> Mode:
    return _MODES[" ".join(text.lower().split())]


def unquote(raw: str, at: int) -> str | tuple[str | Ref, ...]:
    """The text between quotes: plain, or a template's parts.

    Args:
        raw: what stands between the quotes, escapes and all.
        at: its place in the source, for the references' spans.
    """
    if "\\" not in raw and "{" not in raw and "\n" not in raw:
        return raw
    parts: list[str | Ref] = []
    text: list[str] = []
    done = 0
    for match in _INSIDE.finditer(raw):
        text.append(raw[done : match.start()])
        done = match.end()
        if match["name"] is not None:
            parts.append("".join(text))
            text.clear()
            span = Span(at + match.start(), at + match.end())
            parts.append(Ref(match["name"].replace("\\", ""), _mode(match["mode"] or ""), span))
        elif match["wrap"] is not None:
            text.append(" ")
        else:
            escape = match["escape"]
            if len(escape) > 1:
                text.append(chr(int(escape[1:], 16)))
            else:
                text.append(_ESCAPES.get(escape, "\\" + escape))
    text.append(raw[done:])
    if not parts:
        return "".join(text)
    parts.append("".join(text))
    return tuple(part for part in parts if part != "")


def _note(token: Token | None) -> tuple[str, tuple[str, ...]]:
    """The note's words and the codes its line silences."""
    if token is None:
        return "", ()
    raw = str(token)
    noqa: tuple[str, ...] = ()
    found = _NOQA.search(raw) if "noqa" in raw.lower() else None
    if found:
        raw = raw[: found.start()]
        codes = found["codes"]
        noqa = tuple(re.split(r"[\s,]+", codes.upper())) if codes else ("",)
    mark = _NOTE_MARK.match(raw)
    words = " ".join((raw[mark.end() :] if mark else raw).split())
    for wrapper in ("**", "*", "`"):
        if words.endswith(wrapper) and words.count(wrapper) % 2:
            words = words[: -len(wrapper)].rstrip()
    return words, noqa


class _BeyondError(Exception):
    """A number that no double holds; its token is the argument."""


class PlanBuilder(Transformer[Token, Any]):
    """Values of plan.lark's rules."""

    def plain(self, children: list[Any]) -> Step:
        head, args, close, note = children
        name, _, action = head.partition(" = ")
        words, noqa = _note(note)
        start = head.start_pos
        begin = start + len(name) + 3
        return Step(
            name=name,
            action=action[:-1],
            args=args,
            note=words,
            noqa=noqa,
            span=Span(start, (note if note is not None else close).end_pos),
            name_span=Span(start, start + len(name)),
            action_span=Span(begin, begin + len(action) - 1),
        )

    def step(self, children: list[Any]) -> Step:
        name, action, args, close, note = children
        words, noqa = _note(note)
        end = (note if note is not None else close).end_pos
        return Step(
            name=_name(name),
            action=_name(action),
            args=args,
            note=words,
            noqa=noqa,
            span=Span(name.start_pos, end),
            name_span=_span(name),
            action_span=_span(action),
        )

    def returns(self, children: list[Any]) -> tuple[Ref, ...]:
        names: list[Token] = children[0]
        return tuple(Ref(_name(token), span=_span(token)) for token in names)

    def names(self, children: list[Token]) -> list[Token]:
        return children

    def args(self, children: list[Arg]) -> tuple[Arg, ...]:
        return tuple(children)

    def ref(self, children: list[Token]) -> Arg:
        token = children[0]
        lowered = token.lower()
        if lowered in ("true", "false"):
            return Literal(lowered == "true", _span(token))
        return Ref(_name(token), Mode.PLAIN, _span(token))

    def moded(self, children: list[Token]) -> Ref:
        mode, name = children
        return Ref(_name(name), _mode(mode), Span(mode.start_pos or 0, name.end_pos or 0))

    def string(self, children: list[Token]) -> Arg:
        token = children[0]
        start, width = 1, 1
        if token[0] in "\"'f\\F":
            opening = _STARTS.match(token)
            start = opening.end() if opening else 1
            width = start - (token[0] in "fF")
        inner = unquote(token[start:-width], (token.start_pos or 0) + start)
        span = _span(token)
        return Literal(inner, span) if isinstance(inner, str) else Template(inner, span)

    def number(self, children: list[Token]) -> Literal:
        token = children[0]
        number = read_number(token)
        if number is None:
            raise _BeyondError(token)
        return Literal(number, _span(token))

    def items(self, children: list[Any]) -> Arg:
        opening, items, closing = children
        span = Span(opening.start_pos, closing.end_pos)
        if all(isinstance(item, Literal) for item in items):
            values: list[Value] = [item.value for item in items if isinstance(item, Literal)]
            return Literal(values, span)
        return Items(items, span)


class ActionBuilder(Transformer[Token, Any]):
    """Values of library.lark's rules."""

    def action(self, children: list[Any]) -> Action:
        name, params, close, returns, doc = children
        words, _ = _note(doc)
        variadic = any(param is None for param in params)
        end = next(token for token in (doc, returns, close) if token is not None).end_pos
        return Action(
            name=_name(name),
            params=tuple(param for param in params if param is not None),
            returns=_type(returns) if returns is not None else "text",
            doc=words,
            variadic=variadic,
            span=Span(name.start_pos, end),
        )

    def params(self, children: list[Param | None]) -> tuple[Param | None, ...]:
        return tuple(children)

    def param(self, children: list[Token]) -> Param:
        return Param(_name(children[0]))

    def typed(self, children: list[Token]) -> Param:
        return Param(_name(children[0]), _type(children[1]))

    def ellipsis(self, children: list[Token]) -> None:
        return None


class Failure(NamedTuple):
    """Where a line stops being readable: see `pearl.lang.ast.Broken`."""

    at: Span
    got: str
    before: str
    accepts: frozenset[str]


@cache
def _plan_parser() -> Lark:
    return _parser("plan", ["step", "returns"], PlanBuilder())


@cache
def _action_parser() -> Lark:
    return _parser("library", ["action"], ActionBuilder())


def _parser(name: str, start: list[str], builder: Transformer[Token, Any]) -> Lark:
    grammar = grammar_text(name)
    return Lark(grammar, parser="lalr", start=start, transformer=builder, maybe_placeholders=True)


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
    except _BeyondError as error:
        at = _span(error.args[0])
        return Failure(at, "NUMBER", _before(text, span.start, at.start), frozenset())


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
