"""The language of one line: a `Step`, an `Action`, or what is returned.

What a line may be is written in grammar/plan.lark and grammar/library.lark. tests/test_tables.py
makes LALR(1) tables of these with lark, which are kept beside them, so that nothing is derived
while Pearl runs; `_parse` follows a table, with a lexer that looks only for what the parser's state
can take. For a line that cannot be read, the parser says where it stopped, which token stands
there, and which tokens could stand there.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from pearl.lang.ast import Action, Arg, Literal, Mode, Param, Ref, Step, Template, listed
from pearl.lang.source import Span, grammar_table
from pearl.lang.text import one_line, pattern
from pearl.lang.values import DEEPEST, TYPES, read_number

_TRUTHS = {"true": True, "false": False}
_MODES = {str(mode): mode for mode in Mode}
_INSIDE = pattern(
    r"\\(?P<escape>u[0-9a-fA-F]{4}|.)"
    r"|\{\s*(?:(?P<mode>(?i:each|where)(?:\s+(?i:values))?|(?i:evidence))\s+)?"
    r"(?P<name>#\d{1,4}|[^\W\d](?:\w|\\_)*)\s*\}"
    r"|(?P<wrap>(?:(?<![ \t])[ \t]+)?\r?\n\s*)",
    re.DOTALL,
)
ALMOST = pattern(
    r"(?<!\\)(?:\{\s*(?:[$@]?\d{1,2}|step \d{1,2}|[#$@][^\W\d]\w*"
    r"|[^\W\d]\w*(?:\.[^\W\d]\w*|\[[^\[\]{}]{0,40}\]|\([^(){}]{0,40}\))+)\s*\}"
    r"|(?P<double>\{\{\s*(?:(?:each|where)(?:\s+values)?\s+)?[^\W\d]\w*\s*\}\}))"
)
"""Braces inside a text around what looks like a reference and is none."""

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", **{char: char for char in "\"'\\{}_"}}
_NOQA = pattern(r"#\s*noqa(?::\s*(?P<codes>[A-Z]+\d+(?:[\s,]+[A-Z]+\d+)*))?\s*$", re.IGNORECASE)
_NOTE_MARK = pattern(
    r"[ \t]*(?:[:：]+|#+(?:\s+#+(?=\s))*|[.;,]|//|[—–-]+|\s*\n\s*[*•]\s)"
    # A note is printed without these marks at its start.
    r"(?:\s*(?:#(?=\s)|//|[—–-]+(?=\s)|[*•](?=\s)))*"
)
_NAME = r"[^\W\d]\w*"
_ARGUMENT = rf'{_NAME}|"[^"“”\\\n]*"'
CANONICAL = (
    rf"(?P<name>{_NAME}) = (?P<action>{_NAME})"
    rf"\((?P<args>(?:(?:{_ARGUMENT})(?:, (?:{_ARGUMENT}))*)?)\)(?P<note> : [^\n]*)?"
)
"""A step as the printer writes it, with names and texts as its only arguments, as most have."""

_CANONICAL, _ARGUMENTS = pattern(CANONICAL), pattern(_ARGUMENT)
_STARTS = pattern(r"\\\"|f?(?:\"\"\"(?=.{3})|'''(?=.{3}))|f?.", re.DOTALL)
_span = Span._make


class Token(NamedTuple):
    """A terminal of the grammar, its text, and where that starts and ends."""

    type: str
    text: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        return Span(self.start, self.end)

    @property
    def name(self) -> str:
        """A name without the marks that Markdown and shells put to it."""
        name = self.text.replace("\\", "") if "\\" in self.text else self.text
        return name[1:] if name[0] == "$" else name


def _mode(text: str) -> Mode:
    return _MODES[one_line(text.lower())]


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
            span = Span(*match.span()).moved(at)
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


def _note(raw: str) -> tuple[str, tuple[str, ...]]:
    """The note's words and the codes its line silences."""
    raw, noqa = without_noqa(_bare(raw))
    mark = _NOTE_MARK.match(raw)
    return _bare(one_line(raw[mark.end() :] if mark else raw)), noqa


def without_noqa(line: str) -> tuple[str, tuple[str, ...]]:
    """A line before the mark that silences what is found in it, and the codes that the mark names:
    ``("",)`` for all of them, none where there is no mark."""
    match = _NOQA.search(line) if "noqa" in line.lower() else None
    if not match:
        return line, ()
    codes = match["codes"]
    return line[: match.start()], tuple(re.split(r"[\s,]+", codes.upper())) if codes else ("",)


def _bare(words: str) -> str:
    """Words without the Markdown marks at their end that close nothing opened in them."""
    while words[-1:] in ("*", "`"):
        wrapper = next(
            (w for w in ("**", "*", "`") if words.endswith(w) and words.count(w) % 2), ""
        )
        if not wrapper:
            break
        words = words[: -len(wrapper)].rstrip()
    return words


class _BeyondError(Exception):
    """A number is too large for a double; the exception's argument is its token."""


def _step(children: list[Any]) -> Step:
    name, action, args, close, note = children
    words, noqa = _note(note.text if note else "")
    span = Span(name.start, (note or close).end)
    return Step(name.name, action.name, args, words, (), noqa, span, name.span, action.span)


def _ref(children: list[Token]) -> Arg:
    token = children[0]
    truth = _TRUTHS.get(token.text.lower())
    return Ref(token.name, Mode.PLAIN, token.span) if truth is None else Literal(truth, token.span)


def _string(children: list[Token]) -> Arg:
    token = children[0]
    text = token.text
    start, width = 1, 1
    if text[0] in "\"'f\\F":
        opening = _STARTS.match(text)
        start = opening.end() if opening else 1
        width = start - (text[0] in "fF")
    inner = unquote(text[start:-width], token.start + start)
    return Literal(inner, token.span) if isinstance(inner, str) else Template(inner, token.span)


def _number(children: list[Token]) -> Literal:
    number = read_number(children[0].text)
    if number is None:
        raise _BeyondError(children[0])
    return Literal(number, children[0].span)


def _action(children: list[Any]) -> Action:
    name, params, close, returns, doc = children
    words, _ = _note(doc.text if doc else "")
    variadic = any(param is None for param in params)
    return Action(
        name=name.name,
        params=tuple(param for param in params if param is not None),
        returns=TYPES[TYPES.index(returns.text)] if returns else "text",
        doc=words,
        variadic=variadic,
        span=Span(name.start, (doc or returns or close).end),
    )


_BUILD: Mapping[str, Callable[[list[Any]], Any]] = {
    "step": _step,
    "returns": lambda parts: tuple(Ref(token.name, span=token.span) for token in parts[0]),
    "names": tuple,
    "args": tuple,
    "ref": _ref,
    "moded": lambda parts: Ref(
        parts[1].name, _mode(parts[0].text), Span(parts[0].start, parts[1].end)
    ),
    "string": _string,
    "number": _number,
    "items": lambda parts: listed(parts[1], Span(parts[0].start, parts[2].end)),
    "action": _action,
    "params": tuple,
    "param": lambda parts: Param(parts[0].name),
    "typed": lambda parts: Param(parts[0].name, TYPES[TYPES.index(parts[1].text)]),
    "ellipsis": lambda _: None,
}
"""What builds a rule's result from its parts, by the rule's name or the alias behind its arrow."""


class ParseFailure(NamedTuple):
    """Where a line stops being readable: see `pearl.lang.ast.Broken`."""

    at: Span
    got: str = ""
    before: str = ""
    accepts: frozenset[str] = frozenset()


_Rule: TypeAlias = tuple[str, int, Callable[[list[Any]], Any]]
"""A rule of the grammar: the symbol that stands for its parts once they are read, the number of
symbols on its right side, and what builds its result from its parts."""


def _same(parts: list[Any]) -> list[Any]:
    return parts


def _rule(origin: str, size: int, name: str, spread: list[int], keep: list[int]) -> _Rule:
    """A rule as the table has it.

    Args:
        origin: the symbol for its parts.
        size: the number of symbols on its right side.
        name: what builds its result, in `_BUILD`; empty where its one part stands for itself, or
            where its parts belong to the rule around it.
        spread: the places of symbols whose parts are its own (lark's ``*``).
        keep: the places of the symbols that it keeps; -1 for an optional one that is absent.
    """
    build = _BUILD[name] if name else _same if origin.startswith("__") else itemgetter(0)
    if not spread and keep == list(range(size)):
        return origin, size, build

    def give(parts: list[Any]) -> Any:  # noqa: ANN401 - what a rule gives depends on the rule
        children: list[Any] = []
        for place in keep:
            if place in spread and not children:
                # Nothing else has this list; to copy it for each item would take the square of
                # their number.
                children = parts[place]
            elif place in spread:
                children += parts[place]
            else:
                children.append(parts[place] if place >= 0 else None)
        return build(children)

    return origin, size, give


@dataclass(frozen=True, eq=False)
class _Table:
    """An LALR(1) table: see tests/test_tables.py, which writes it.

    Args:
        terminals: the pattern of each, in the order in which they are tried.
        ignored: the one that is passed over.
        rules: by number.
        states: in each, the number of the state after a symbol, or -1 - N to reduce by rule N.
        starts: the first state of each rule that a line may be, and its last.
    """

    terminals: Mapping[str, str]
    ignored: str
    rules: tuple[_Rule, ...]
    states: tuple[Mapping[str, int], ...]
    starts: Mapping[str, tuple[int, int]]
    scanners: dict[int, Callable[[str, int, int], re.Match[str] | None]] = field(
        default_factory=dict
    )

    def scan(self, state: int, text: str, start: int, end: int) -> re.Match[str] | None:
        """The terminal at a place, among those that a state takes; among all for state -1."""
        if state not in self.scanners:
            valid = self.terminals if state < 0 else {*self.states[state], self.ignored}
            self.scanners[state] = re.compile(
                "|".join(f"(?P<{name}>{p})" for name, p in self.terminals.items() if name in valid)
            ).match
        return self.scanners[state](text, start, end)

    def accepts(self, stack: list[int]) -> frozenset[str]:
        """The terminals that could stand next."""
        symbols = (name for name in self.states[stack[-1]] if name.isupper())
        return frozenset(name for name in symbols if self._shifts(stack, name))

    def _shifts(self, stack: list[int], symbol: str) -> bool:
        """Whether a symbol can be read next, after the reductions that it leads to."""
        stack = stack.copy()
        while (goal := self.states[stack[-1]].get(symbol)) is not None:
            if goal >= 0:
                return True
            origin, size, _ = self.rules[-1 - goal]
            del stack[len(stack) - size :]
            stack.append(self.states[stack[-1]][origin])
            if symbol == "$END" and any(stack[-1] == end for _, end in self.starts.values()):
                return True
        return False


@cache
def _table(name: str) -> _Table:
    raw = grammar_table(name)
    rules = (_rule(*rule) for rule in raw["rules"])
    starts = {rule: (first, last) for rule, (first, last) in raw["starts"].items()}
    return _Table(raw["terminals"], raw["ignored"], tuple(rules), tuple(raw["states"]), starts)


@cache
def string_pattern() -> re.Pattern[str]:
    """The grammar's quoted text, for finding where a call ends."""
    return re.compile(_table("plan").terminals["STRING"])


def parse_step(text: str, span: Span) -> Step | ParseFailure:
    """A `Step`, or where it fails."""
    plain = _CANONICAL.fullmatch(text, *span)
    return _canonical(plain) if plain else _parse(_table("plan"), text, span, "step")


def _canonical(step: re.Match[str]) -> Step:
    """What the table would make of a step in canonical form, at three times its speed."""
    args: list[Arg] = []
    for match in _ARGUMENTS.finditer(step.string, *step.span("args")):
        text, span = match[0], _span(match.span())
        if text[0] != '"':
            truth = _TRUTHS.get(text.lower())
            args.append(Ref(text, Mode.PLAIN, span) if truth is None else Literal(truth, span))
        elif "{" in text:
            args.append(_string([Token("STRING", text, *span)]))
        else:
            args.append(Literal(text[1:-1], span))
    note, whole = step["note"], _span(step.span())
    words, noqa = _note(note) if note else ("", ())
    named, called = _span(step.span("name")), _span(step.span("action"))
    return Step(step["name"], step["action"], tuple(args), words, (), noqa, whole, named, called)


def parse_returns(text: str, span: Span) -> tuple[Ref, ...] | ParseFailure:
    """The references of a return line, or where it stops being readable."""
    return _parse(_table("plan"), text, span, "returns")


def parse_action(text: str, span: Span) -> Action | ParseFailure:
    """An `Action`, or where it fails."""
    return _parse(_table("library"), text, span, "action")


def _parse(table: _Table, text: str, span: Span, start: str) -> Any | ParseFailure:  # noqa: ANN401 - what a rule gives depends on the rule
    """Follow a table from a span's start to its end."""
    states, rules, ignored = table.states, table.rules, table.ignored
    first, last = table.starts[start]
    stack: list[int] = [first]
    values: list[Any] = []
    at, end, before = span.start, span.end, ""
    while True:
        token, symbol = None, "$END"
        while at < end:
            match = table.scan(stack[-1], text, at, end)
            if match is None:
                return _unexpected(table, stack, text, span, at, before)
            at = match.end()
            if match.lastgroup != ignored:
                symbol = match.lastgroup or ""
                token = Token(symbol, match[0], match.start(), at)
                before = symbol
                break
        while (goal := states[stack[-1]].get(symbol)) is not None and goal < 0:
            origin, size, give = rules[-1 - goal]
            cut = len(values) - size
            parts = values[cut:]
            del stack[cut + 1 :], values[cut:]
            try:
                values.append(give(parts))
            except _BeyondError as error:
                number: Token = error.args[0]
                before = _before(text, span.start, number.start)
                return ParseFailure(number.span, "NUMBER", before)
            stack.append(states[stack[-1]][origin])
            if token is None and stack[-1] == last:
                return values[-1]
        if goal is None:
            return _failure(token, table.accepts(stack), text, span, "")
        if token and symbol == "LIST":
            # Functions that walk values are recursive, so lists may not nest deeper.
            around = sum(isinstance(value, Token) and value.type == "LIST" for value in values)
            if around >= DEEPEST:
                return ParseFailure(token.span, "LIST", "LIST", frozenset({"NAME", "STRING"}))
        stack.append(goal)
        values.append(token)


_LAST = {",": "_COMMA", "(": "_OPEN", "[": "LIST", ")": "CLOSE", "]": "END", "=": "_ASSIGN"}


def _before(text: str, start: int, at: int) -> str:
    """The type of the token before a place, judged by its last character."""
    head = text[max(start, at - 200) : at].rstrip()
    if not head:
        return ""
    if head[-1] in "\"'”“’»›」』":
        return "STRING"
    return _LAST.get(head[-1], "NAME" if head[-1].isalnum() or head[-1] == "_" else "")


def _unexpected(
    table: _Table, stack: list[int], text: str, span: Span, at: int, before: str
) -> ParseFailure:
    """No terminal that the state takes stands here: another one does, or none of the grammar's."""
    match = table.scan(-1, text, at, span.end)
    if match is None:
        allowed = frozenset(name for name in table.states[stack[-1]] if name in table.terminals)
        place = Span(at, at + 1)
        return ParseFailure(place, "", before or _before(text, span.start, at), allowed)
    token = Token(match.lastgroup or "", match[0], match.start(), match.end())
    return _failure(token, table.accepts(stack), text, span, before)


def _failure(
    token: Token | None, accepts: frozenset[str], text: str, span: Span, before: str
) -> ParseFailure:
    at, end, kind = span.end, span.end, "$END"
    if token is not None:
        at, end, kind = token.start, token.end, token.type
        at += len(token.text) - len(token.text.lstrip(" \t"))
    return ParseFailure(Span(at, end), kind, before or _before(text, span.start, at), accepts)
