"""What parsing yields: a plan, the lines that could not be read, the text set aside."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Literal

from pearl.plan import Action, Plan
from pearl.source import Span

BrokenKind = Literal["step", "action", "return", "plans"]
AsideKind = Literal["prose", "wrapping", "thinking"]


class Kind(Enum):
    """What a logical line is meant as."""

    STEP = auto()
    RETURN = auto()
    ACTION = auto()
    QUESTION = auto()
    COMMENT = auto()
    HEADER = auto()
    WRAPPING = auto()
    THINKING = auto()
    PROSE = auto()
    NUMBER = auto()
    WORDS = auto()
    INSIDE = auto()
    BROKEN = auto()


@dataclass(slots=True)
class Line:
    """One logical line.

    Args:
        kind: what it is meant as.
        start: where its words start, past number and bullet.
        end: where they end.
        block: the code fence it stands in, 0 for none.
        number: its number or bullet as written, without spaces.
        begin: where its first physical line starts.
    """

    kind: Kind
    start: int
    end: int
    block: int = 0
    number: str = ""
    begin: int = -1


@dataclass(frozen=True, slots=True)
class Broken:
    """A line that was meant for the plan and cannot be read.

    Args:
        kind: what the line was meant as; ``plans`` for a text with several plans.
        span: the whole logical line, without its number.
        at: the offending token; empty at the end of the line.
        got: the offending token's type in the grammar, ``$END`` past the last one,
            ``STEP`` for a second step or one inside a sentence, ``RESERVED`` for
            a name the language keeps, ``BRACE`` or ``BRACES`` for a text's braces
            that are no reference, ``""`` for a character no token starts with.
        before: the type of the token before it, ``""`` at the line's start.
        accepts: the token types that could have stood there.
        name: the variable or action the line defines, as far as it shows.
        last: whether no other line of the plan follows it.
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

    kind: AsideKind
    span: Span


@dataclass(frozen=True, slots=True)
class Parsed:
    """The reading of a plan's text. Nothing in the text is lost: every
    character that is not white space is in the plan, in a broken line, set
    aside, or one of the marks that ``lines`` begin with (number, bullet,
    ``return``, ``New actions:``).

    Args:
        plan: what is read.
        broken: the lines that cannot be read.
        aside: the text that is no part of the plan.
        lines: the logical lines it was read from.
    """

    plan: Plan
    broken: tuple[Broken, ...] = ()
    aside: tuple[Aside, ...] = ()
    lines: tuple[Line, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ParsedLibrary:
    """The reading of an action library's text."""

    actions: tuple[Action, ...]
    broken: tuple[Broken, ...] = ()
