"""What parsing yields: a plan, the lines that could not be read, the text set aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pearl.plan import Action, Plan
from pearl.source import Span

BrokenKind = Literal["step", "action", "return", "plans"]


@dataclass(frozen=True, slots=True)
class Broken:
    """A line that was meant for the plan and cannot be read.

    Args:
        kind: what the line was meant as; ``plans`` for a text with several plans.
        span: the whole logical line, without its number.
        at: the offending token; empty at the end of the line.
        got: the offending token's type in the grammar, ``$END`` past the last one,
            ``""`` for a character no token starts with.
        before: the type of the token before it, ``""`` at the line's start.
        accepts: the token types that could have stood there.
        name: the variable or action the line defines, as far as it shows.
        last: whether nothing follows it in the text.
    """

    kind: BrokenKind
    span: Span
    at: Span
    got: str = ""
    before: str = ""
    accepts: frozenset[str] = frozenset()
    name: str = ""
    last: bool = False


@dataclass(frozen=True, slots=True)
class Aside:
    """Text around a plan that is no part of it.

    ``prose`` is somebody's words; ``wrapping`` is a code fence, a tag, a rule
    or a heading, which says nothing; ``thinking`` is a ``<think>`` block.
    """

    kind: Literal["prose", "wrapping", "thinking"]
    span: Span


@dataclass(frozen=True, slots=True)
class Parsed:
    """The reading of a plan's text. Nothing in the text is lost: every
    character that is not white space is in the plan, in a broken line, or
    set aside."""

    plan: Plan
    broken: tuple[Broken, ...] = ()
    aside: tuple[Aside, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedLibrary:
    """The reading of an action library's text."""

    actions: tuple[Action, ...]
    broken: tuple[Broken, ...] = ()
