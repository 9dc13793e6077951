"""One step of a decomposition in the paper's own text (CommaQA, section 3).

A line is ``(operator) [agent] "question with #1"``, where ``#1`` is the answer
of the first line. The operator says how the question is asked, and what is
made of the answers: ``project_values_flat_unique`` asks it for every item,
takes the answers without their items, makes one list of them, and keeps the
first of equal ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from pearl.plan import Mode

MODES: Mapping[str, Mode] = MappingProxyType(
    {
        "select": Mode.PLAIN,
        "project": Mode.EACH,
        "filter": Mode.WHERE,
        "projectValues": Mode.EACH_VALUES,
        "filterValues": Mode.WHERE_VALUES,
    }
)
"""The operators of the paper's Table 1, and the modes they are in a plan."""

CHANGES = ("flat", "unique", "keys", "values")
"""The transformations of the paper's Table 2; each is the builtin of the same name."""

REFERENCE = re.compile(r"#([1-9][0-9]{0,3})(?![0-9])")
"""The answer of an earlier line, counted from 1."""

_OPERATOR = re.compile(r"([a-zA-Z]+)(?:\(#([1-9][0-9]{0,3})\))?((?:_[a-z]+)*)")
_LINE = re.compile(
    r"\s*(?:[0-9]+[.)]\s*)?\((?P<operator>[^\[\]]*)\)\s*\[(?P<agent>[^\[\]]*)\]\s*"
    r'["“](?P<question>.*)["”]\s*',
    re.DOTALL,
)
_ESCAPED = re.compile(r'\\([\\nr"])')
_NAMED = {"\\": "\\", "n": "\n", "r": "\r", '"': '"'}


@dataclass(frozen=True, slots=True)
class Hop:
    """One question to one agent.

    Args:
        operator: as written, ``select`` or ``project_values_flat_unique``.
        agent: the agent's name, as ``text`` or ``math_special``.
        question: its words, with ``#1`` for earlier answers.
    """

    operator: str
    agent: str
    question: str


@dataclass(frozen=True, slots=True)
class Operation:
    """What an operator says.

    Args:
        mode: how the question is asked: once, or for the items of an answer.
        of: the answer whose items they are; None for the first that the
            question names.
        then: the transformations, in order, out of `CHANGES`.
    """

    mode: Mode
    of: int | None = None
    then: tuple[str, ...] = ()

    @property
    def gives_pairs(self) -> bool:
        """Whether the answer is pairs of item and answer."""
        return not self.then and self.mode not in (Mode.PLAIN, Mode.WHERE)


@dataclass(frozen=True, slots=True)
class Problem:
    """A line that is no hop.

    Args:
        line: its number, counted from 1.
        text: the line.
        message: one fact, and what to write.
    """

    line: int
    text: str
    message: str


@dataclass(frozen=True, slots=True)
class ParsedHops:
    """What a text holds: the hops that can be read, and the lines that cannot."""

    hops: tuple[Hop, ...]
    problems: tuple[Problem, ...]


@lru_cache(maxsize=4096)
def read_operation(operator: str) -> Operation | None:
    """What an operator says; None for one that the paper does not have.

    The first word is one of Table 1's. What follows an underscore is a
    transformation, so that ``project_values`` is ``project`` and then
    ``values``, and ``projectValues`` is the operator over pairs.
    """
    found = _OPERATOR.fullmatch(operator)
    if not found or found[1] not in MODES:
        return None
    mode, of = MODES[found[1]], int(found[2]) if found[2] else None
    then = tuple(found[3].split("_")[1:])
    if any(change not in CHANGES for change in then) or (of and mode is Mode.PLAIN):
        return None
    return Operation(mode, of, then)


def print_operation(operation: Operation) -> str:
    """The operator as the paper writes it; the inverse of `read_operation`."""
    name = next(name for name, mode in MODES.items() if mode is operation.mode)
    of = f"(#{operation.of})" if operation.of else ""
    return name + of + "".join(f"_{change}" for change in operation.then)


def references(question: str) -> list[int]:
    """The earlier answers that a question names, in order, as often as it does."""
    return [int(number) for number in REFERENCE.findall(question)]


def parse_hops(text: str) -> ParsedHops:
    """Read a decomposition, one hop a line; a bad line costs no good one.

    Args:
        text: any text at all. Empty lines count for nothing, and a number
            before a line is left out.
    """
    hops: list[Hop] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        read = _hop(line)
        if isinstance(read, Hop):
            hops.append(read)
        else:
            problems.append(Problem(number, line, read))
    return ParsedHops(tuple(hops), tuple(problems))


def _hop(line: str) -> Hop | str:
    found = _LINE.fullmatch(line)
    if not found:
        return 'This is no hop: write (operator) [agent] "question".'
    operator, agent = found["operator"].strip(), found["agent"].strip()
    if read_operation(operator) is None:
        known = ", ".join(MODES)
        changes = ", ".join(f"_{change}" for change in CHANGES)
        return f"{operator or 'Nothing'} is no operator: use {known}, with {changes} behind it."
    if not agent:
        return "The brackets name no agent: write its name in them."
    question = _ESCAPED.sub(lambda escape: _NAMED[escape[1]], found["question"])
    return Hop(operator, agent, question)


def print_hop(hop: Hop) -> str:
    """``(operator) [agent] "question"`` on one line."""
    question = hop.question.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f'({hop.operator}) [{hop.agent}] "{question}"'


def print_hops(hops: Iterable[Hop]) -> str:
    """A decomposition's text; ``parse_hops(print_hops(x)).hops == x``."""
    return "".join(f"{print_hop(hop)}\n" for hop in hops)
