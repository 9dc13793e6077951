"""Decompositions as hops, as the paper's text, and as plans (CommaQA, section 3, Tables 1 and 2).

A line ``(project_values_flat_unique) [table] "Which movies has #1 directed?"`` is a hop. As a plan
it is one step that asks, and one builtin step for each transformation:

    2. a2_1 = ASK_TABLE("Which movies has {each a1} directed?")
    3. a2_2 = VALUES(a2_1)
    4. a2_3 = FLAT(a2_2)
    5. a2 = UNIQUE(a2_3)

Operators are the modes of `pearl.runtime.executor`, and transformations are builtins, so that a
decomposition gives the same answer whether it runs here or as a plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

from pearl.lang.ast import Arg, Literal, Mode, Plan, Ref, Step, Template
from pearl.lang.builtins import FUNCTIONS, BuiltinError, Given
from pearl.lang.graph import outputs
from pearl.lang.values import Value
from pearl.runtime.binding import BindError, Item, items_of, join_answers

MODES: Mapping[str, Mode] = MappingProxyType(
    {
        "select": Mode.PLAIN,
        "project": Mode.EACH,
        "filter": Mode.WHERE,
        "projectValues": Mode.EACH_VALUES,
        "filterValues": Mode.WHERE_VALUES,
    }
)
"""The operators of the paper's Table 1, and their modes in a plan."""

CHANGES = ("flat", "unique", "keys", "values")
"""The transformations of the paper's Table 2; each is the builtin of the same name."""

REFERENCE = re.compile(r"#([1-9][0-9]{0,3})(?![0-9])")
"""A reference to the answer of an earlier hop, counted from 1."""

_OPERATORS = {mode: name for name, mode in MODES.items()}
_OPERATOR = re.compile(r"([a-zA-Z]+)(?:\(#([1-9][0-9]{0,3})\))?((?:_[a-z]+)*)")
_LINE = re.compile(r'\((?P<operator>.+?)\) \[(?P<agent>[^\[\]]+)\] "(?P<question>.*)"')
_ESCAPED = re.compile(r"\\([\\nr])")
_ESCAPES = {"\\": "\\", "n": "\n", "r": "\r"}


class HopError(ValueError):
    """Hops that cannot become a plan, or a plan that cannot become hops; the message says why."""


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
    """An operator, read into its parts.

    Args:
        mode: how the question is asked: once, or for the items of an answer.
        of: the number of the answer whose items are asked for; None for the first answer that the
            question names.
        then: the transformations out of `CHANGES`, in order.
    """

    mode: Mode
    of: int | None = None
    then: tuple[str, ...] = ()

    @property
    def gives_pairs(self) -> bool:
        """Whether the answer is pairs of item and answer."""
        return not self.then and self.mode not in (Mode.PLAIN, Mode.WHERE)


@lru_cache(maxsize=4096)
def read_operation(operator: str) -> Operation | None:
    """Read an operator; None for one that the paper does not have.

    Its first word is an operator of Table 1, and transformations follow after underscores:
    ``project_values`` is ``project`` and then ``values``, while ``projectValues`` is an operator
    over pairs.
    """
    match = _OPERATOR.fullmatch(operator)
    if not match or match[1] not in MODES:
        return None
    mode, of = MODES[match[1]], int(match[2]) if match[2] else None
    then = tuple(match[3].split("_")[1:])
    if any(change not in CHANGES for change in then) or (of and mode is Mode.PLAIN):
        return None
    return Operation(mode, of, then)


def print_operation(operation: Operation) -> str:
    """The operator as the paper writes it; the inverse of `read_operation`."""
    of = f"(#{operation.of})" if operation.of else ""
    return _OPERATORS[operation.mode] + of + "".join(f"_{change}" for change in operation.then)


def run_operation(
    operation: Operation, over: Value | None, ask: Callable[[Item | None], Value | None]
) -> Value | None:
    """Ask once, or for every item, and transform what comes back.

    Args:
        operation: the operator.
        over: the value whose items are asked for; None for ``select``.
        ask: asks the question for one item, or once for None; it gives None for "no answer".

    Returns:
        The value, or None where an item has no answer or the operator cannot go over such a value.
    """
    mode = operation.mode
    try:
        if mode is Mode.PLAIN:
            value = ask(None)
        elif over is None:
            return None
        else:
            items = items_of(Ref("answer", mode), {"answer": over})
            answers: list[Value] = []
            for item in items:
                answer = ask(item)
                if answer is None:
                    return None
                answers.append(answer)
            value = join_answers(mode, items, answers)
        return None if value is None else transform(value, operation.then)
    except (BindError, BuiltinError):
        return None


def transform(value: Value, changes: Iterable[str]) -> Value:
    """A value after transformations of Table 2.

    Raises:
        BuiltinError: a transformation does not take such a value.
    """
    for change in changes:
        value = FUNCTIONS[change]([Given(Ref("answer"), value)])
    return value


def references(question: str) -> list[int]:
    """The numbers of the earlier answers that a question names, in order, with repetitions."""
    return [int(number) for number in REFERENCE.findall(question)]


# The paper's text.


def parse_hops(text: str) -> tuple[Hop, ...]:
    """Read a decomposition, one hop a line; empty lines are skipped.

    Raises:
        HopError: a line is no hop; names the line and says what to write instead.
    """
    hops: list[Hop] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:
            raise HopError(f'Line {number} is no hop: write (operator) [agent] "question".')
        if read_operation(match["operator"]) is None:
            changes = ", ".join(f"_{change}" for change in CHANGES)
            raise HopError(
                f"Line {number}: {match['operator']} is no operator: use {', '.join(MODES)}, "
                f"with {changes} behind it."
            )
        question = _ESCAPED.sub(lambda escape: _ESCAPES[escape[1]], match["question"])
        hops.append(Hop(match["operator"], match["agent"], question))
    return tuple(hops)


def print_hop(hop: Hop) -> str:
    """``(operator) [agent] "question"`` on one line."""
    question = hop.question.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f'({hop.operator}) [{hop.agent}] "{question}"'


def print_hops(hops: Iterable[Hop]) -> str:
    """A decomposition's text; ``parse_hops(print_hops(x)) == x``."""
    return "".join(f"{print_hop(hop)}\n" for hop in hops)


# Plans.

_ASK = "ASK_"
_SHORT = {"math_special": "MATH"}
_LONG = {short: agent for agent, short in _SHORT.items()}
_AGENT = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


def action_of(agent: str) -> str:
    """The action that asks an agent: ``ASK_TABLE`` for ``table``, ``ASK_MATH`` for its arithmetic.

    Raises:
        HopError: the name cannot be an action's.
    """
    if not _AGENT.fullmatch(agent) or agent.upper() in _LONG:
        raise HopError(f"[{agent}] is no agent's name: use small letters, digits and underscores.")
    return _ASK + _SHORT.get(agent, agent.upper())


def agent_of(action: str) -> str | None:
    """The agent that an action asks; None for an action that asks none."""
    if not action.startswith(_ASK):
        return None
    name = action.removeprefix(_ASK)
    agent = _LONG.get(name, name.lower())
    return agent if _AGENT.fullmatch(agent) and action_of(agent) == action else None


def name_of(number: int) -> str:
    """The name of the step that gives the answer ``#number`` in a plan."""
    return f"a{number}"


def read_hop(hop: Hop) -> tuple[Operation, Arg]:
    """A hop's operation, and its question as a step's argument.

    Raises:
        HopError: there is no such operator, or the question does not name the answer whose items
            the operator asks for.
    """
    operation = read_operation(hop.operator)
    if operation is None:
        raise HopError(f"({hop.operator}) is no operator of the paper's Tables 1 and 2.")
    numbers = references(hop.question)
    over = None
    if operation.mode is not Mode.PLAIN:
        over = operation.of or next(iter(numbers), None)
        if over not in numbers:
            reference = f"#{over}" if over else "an answer such as #1"
            raise HopError(f"({hop.operator}) needs {reference} in its question: {hop.question}")
    if not numbers:
        return operation, Literal(hop.question)
    parts: list[str | Ref] = []
    for at, part in enumerate(REFERENCE.split(hop.question)):
        if at % 2:
            number = int(part)
            parts.append(Ref(name_of(number), operation.mode if number == over else Mode.PLAIN))
        elif part:
            parts.append(part)
    return operation, Template(tuple(parts))


def _normal(operation: Operation, question: str) -> Operation:
    """The operation as `to_hops` writes it, which names an answer only where it must."""
    first = next(iter(references(question)), None)
    return replace(operation, of=None) if operation.of == first else operation


def to_plan(hops: Sequence[Hop], question: str = "") -> Plan:
    """A decomposition as a plan that returns its last answer.

    The last step of a hop is named by `name_of`. An operator that `to_hops` would write in another
    way is kept in the step's note: ``filter(#2)``, for example, where ``filter`` means the same.

    Raises:
        HopError: a hop cannot be written as steps.
    """
    steps: list[Step] = []
    for number, hop in enumerate(hops, 1):
        operation, argument = read_hop(hop)
        names = [f"{name_of(number)}_{at}" for at in range(1, len(operation.then) + 1)]
        names.append(name_of(number))
        plain = print_operation(_normal(operation, hop.question))
        note = "" if hop.operator == plain else hop.operator
        steps.append(Step(names[0], action_of(hop.agent), (argument,), note))
        for before, name, change in zip(names, names[1:], operation.then, strict=False):
            steps.append(Step(name, change.upper(), (Ref(before),)))
    returns = (Ref(steps[-1].name),) if steps else ()
    return Plan(tuple(steps), question, returns=returns)


def to_hops(plan: Plan) -> tuple[Hop, ...]:
    """The inverse of `to_plan`, for any names of steps.

    Raises:
        HopError: the plan has a step that is neither a question to an agent nor a transformation
            of the step before it, or does not return the last hop's answer.
    """
    # The steps of each hop: one that asks, and the transformations after it.
    chains: list[list[Step]] = []
    for step in plan.steps:
        if chains and step.action.lower() in CHANGES and step.args == (Ref(chains[-1][-1].name),):
            chains[-1].append(step)
        elif agent_of(step.action) is None:
            raise HopError(f"{step.name} asks no agent: {step.action} is no part of a hop.")
        else:
            chains.append([step])
    hops: list[Hop] = []
    numbers: dict[str, int] = {}
    for chain in chains:
        first = chain[0]
        question, over, mode = _question(first, numbers)
        then = tuple(step.action.lower() for step in chain[1:])
        operation = _normal(Operation(mode, over, then), question)
        noted = read_operation(first.note)
        spelled = noted is not None and _normal(noted, question) == operation
        operator = first.note if spelled else print_operation(operation)
        hops.append(Hop(operator, agent_of(first.action) or "", question))
        numbers[chain[-1].name] = len(hops)
    if outputs(plan) != tuple(step.name for step in plan.steps[-1:]):
        raise HopError("A decomposition's answer is its last hop's: return that one alone.")
    return tuple(hops)


def _question(step: Step, numbers: Mapping[str, int]) -> tuple[str, int | None, Mode]:
    """A step's question in the paper's form, the answer whose items it asks for, and its mode."""
    arg = step.args[0] if len(step.args) == 1 else None
    if isinstance(arg, Literal) and isinstance(arg.value, str):
        parts: tuple[str | Ref, ...] = (arg.value,)
    elif isinstance(arg, Template):
        parts = arg.parts
    else:
        raise HopError(f"{step.name} asks no question: {step.action} needs one text.")
    texts: list[str] = []
    named: list[int] = []
    modes: dict[int, set[Mode]] = {}
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        if part.name not in numbers:
            raise HopError(f"{step.name} uses {part.name}, which is no hop's answer.")
        named.append(numbers[part.name])
        modes.setdefault(named[-1], set()).add(part.mode)
        texts.append(f"#{named[-1]}")
    question = "".join(texts)
    if references(question) != named:
        raise HopError(f"{step.name} has a # in its words that would read as an answer.")
    mapped = [number for number, kinds in modes.items() if kinds != {Mode.PLAIN}]
    if not mapped:
        return question, None, Mode.PLAIN
    if len(mapped) > 1 or len(modes[mapped[0]]) > 1:
        raise HopError(f"{step.name} takes its answers in more ways than one operator says.")
    return question, mapped[0], modes[mapped[0]].pop()
