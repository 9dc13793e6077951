"""Turns the grammars' matches into plan types, with their places."""

from __future__ import annotations

import re
from typing import Any

from lark import Token, Transformer

from pearl.plan import Action, Arg, Items, Literal, Mode, Param, Ref, Step, Template
from pearl.source import Span
from pearl.values import TYPES, Type, Value

_MODES = {str(mode): mode for mode in Mode}
_INSIDE = re.compile(
    r"\\(?P<escape>u[0-9a-fA-F]{4}|.)"
    r"|\{\s*(?:(?P<mode>(?i:each|where)(?:\s+(?i:values))?)\s+)?(?P<name>[^\W\d](?:\w|\\_)*)\s*\}"
    r"|(?P<wrap>[ \t]*\r?\n\s*)",
    re.DOTALL,
)
ALMOST = re.compile(
    r"(?<!\\)(?:\{\s*(?:[#$@]?\d{1,2}|step[ _]?\d{1,2}|[#$@][^\W\d]\w*"
    r"|[^\W\d]\w*(?:\.[^\W\d]\w*|\[[^\[\]{}]{0,40}\]|\([^(){}]{0,40}\))+)\s*\}"
    r"|(?P<double>\{\{\s*(?:(?:each|where)(?:\s+values)?\s+)?[^\W\d]\w*\s*\}\}))"
)
"""Braces inside a text around what looks like a reference and is none."""

_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    '"': '"',
    "'": "'",
    "\\": "\\",
    "{": "{",
    "}": "}",
    "_": "_",
}
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
        whole = token.lstrip("-").isdigit()
        return Literal(int(token) if whole else float(token), _span(token))

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
