"""A context-free grammar as a value, and the forms in which servers take one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Symbol(NamedTuple):
    """A use of a rule."""

    name: str


class Chars(NamedTuple):
    """From ``least`` to ``most`` characters of a class, written as in a pattern's brackets."""

    of: str
    least: int = 1
    most: int = 1


class Repeated(NamedTuple):
    """The same items from none to ``most`` times."""

    items: Alternative
    most: int


Item: TypeAlias = "str | Symbol | Chars | Repeated"
Alternative: TypeAlias = tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Grammar:
    """A context-free grammar.

    Args:
        rules: each rule's name and alternatives; ``start`` is the first. A name in capitals is
            one token, made of characters.
    """

    rules: tuple[tuple[str, tuple[Alternative, ...]], ...]

    @property
    def lark(self) -> str:
        """In llguidance's dialect of Lark, which OpenAI's custom tools take."""
        return self._print(":", str, "/{}/")

    @property
    def gbnf(self) -> str:
        """In llama.cpp's form."""
        return self._print(" ::=", lambda name: "root" if name == "start" else name.lower(), "{}")

    @property
    def ebnf(self) -> str:
        """In xgrammar's form, which SGLang takes; what is used here is written as in GBNF."""
        return self.gbnf

    @property
    def longest(self) -> int:
        """The number of characters of the longest text that the grammar allows."""
        rules, lengths = dict(self.rules), dict[str, int]()

        def of(item: Item) -> int:
            match item:
                case Symbol(name):
                    if name not in lengths:
                        lengths[name] = max(sum(map(of, sequence)) for sequence in rules[name])
                    return lengths[name]
                case Chars(_, _, most):
                    return most
                case Repeated(items, most):
                    return most * sum(map(of, items))
                case _:
                    return len(item)

        return of(Symbol("start"))

    def _print(self, sign: str, named: Callable[[str], str], pattern: str) -> str:
        def item(part: Item) -> str:
            match part:
                case Symbol(name):
                    return named(name)
                case Chars(of, least, most):
                    times = "" if least == most == 1 else f"{{{least},{most}}}"
                    return pattern.format(f"[{of}]{times}")
                case Repeated(items, most):
                    return f"({' '.join(map(item, items))}){{0,{most}}}"
                case _:
                    escaped = part.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
                    return f'"{escaped}"'

        lines = []
        for name, alternatives in self.rules:
            body = " | ".join(" ".join(map(item, sequence or ("",))) for sequence in alternatives)
            lines.append(f"{named(name)}{sign} {body}\n")
        return "".join(lines)
