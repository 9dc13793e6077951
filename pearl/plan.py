"""The plan language's types (DESIGN, section 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from pearl.source import NOWHERE, Source, Span
from pearl.values import Type, Value

DOCUMENT = "CTX"
"""The name under which every plan reads its document."""


class Mode(StrEnum):
    """How a reference is taken: the whole value, or an item at a time."""

    PLAIN = ""
    EACH = "each"
    WHERE = "where"
    EACH_VALUES = "each values"
    WHERE_VALUES = "where values"


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to an earlier step, or to the document (``CTX``).

    The mode is the reference's, not the argument's, as a template may hold
    one (``"Which movies has {each person} directed?"``).
    """

    name: str
    mode: Mode = Mode.PLAIN
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, a truth value, or a list of them."""

    value: Value
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Template:
    """A text with references in braces; parts alternate as written."""

    parts: tuple[str | Ref, ...]
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Items:
    """A list that holds at least one reference or template."""

    items: tuple[Arg, ...]
    span: Span = field(default=NOWHERE, compare=False)


Arg: TypeAlias = Ref | Literal | Template | Items


@dataclass(frozen=True, slots=True)
class Shown:
    """A call of an action and its answer, as an example.

    Args:
        args: the call's arguments, without the document, or with a text in its place.
        answer: what it gave.
    """

    args: tuple[Arg, ...]
    answer: Value


@dataclass(frozen=True, slots=True)
class Prompt:
    """An action that a model carries out from its definition, and from examples of it."""

    examples: tuple[Shown, ...] = ()


@dataclass(frozen=True, slots=True)
class Builtin:
    """An action that needs no model; `pearl.builtins` holds the function of this name."""

    function: str


@dataclass(frozen=True, slots=True)
class Solver:
    """An action that something beside the model carries out: an agent, a retriever.

    The run is handed the function of this name.
    """

    name: str


@dataclass(frozen=True, slots=True)
class SubPlan:
    """An action that is a plan of its own over its parameters (DecomP, section 3: hierarchy)."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Decomposed:
    """An action whose steps are written one at a time, after these examples (DecomP, section 3).

    The steps may call the action itself: recursion.
    """

    demonstrations: tuple[Plan, ...]


Body: TypeAlias = "Prompt | Builtin | Solver | SubPlan | Decomposed"


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter: its name and the type it takes."""

    name: str
    type: Type = "any"


@dataclass(frozen=True, slots=True)
class Replaced:
    """An older action that another one stands for, and how its calls are written now.

    Args:
        name: the older action's name.
        params: the names of its parameters, in order.
        args: the new call's arguments; a reference names a parameter of the older action.
    """

    name: str
    params: tuple[str, ...]
    args: tuple[Arg, ...]


@dataclass(frozen=True, slots=True)
class Action:
    """A named instruction that steps call.

    Args:
        name: as written in plans.
        params: in order; the document is the parameter named ``CTX``.
        returns: the type of its output.
        doc: the definition, which a model reads.
        body: who carries it out.
        variadic: whether the last parameter may repeat (written ``...``).
        aliases: other names plans may use for it.
        traits: what a pass may assume; absent a trait, nothing.
        provenance: ids of the questions that proposed it.
        replaces: older actions whose calls are written otherwise now; one whose
            arguments stay as they are is an alias.
        span: where its line stands in the library or plan.
    """

    name: str
    params: tuple[Param, ...]
    returns: Type = "text"
    doc: str = ""
    body: Body = Prompt()
    variadic: bool = False
    aliases: tuple[str, ...] = ()
    traits: frozenset[str] = frozenset()
    provenance: tuple[str, ...] = ()
    replaces: tuple[Replaced, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    comments: tuple[str, ...] = ()

    @property
    def signature(self) -> str:
        """The call as a reader sees it: ``FIND_RELATION(CTX, X, Y)``."""
        names = [param.name for param in self.params]
        if self.variadic:
            names.append("...")
        return f"{self.name}({', '.join(names)})"

    @property
    def is_builtin(self) -> bool:
        """Whether it runs without a model."""
        return isinstance(self.body, Builtin)


@dataclass(frozen=True, slots=True)
class Step:
    """``name = action(args) : note``.

    ``comments`` are the comment lines above it, ``noqa`` the codes its line
    silences (``("",)`` for all of them).
    """

    name: str
    action: str
    args: tuple[Arg, ...]
    note: str = ""
    comments: tuple[str, ...] = ()
    noqa: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    name_span: Span = field(default=NOWHERE, compare=False)
    action_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps, the actions they declare, and what they return.

    ``returns`` empty means PEARL's rule: every output that no step uses.
    """

    steps: tuple[Step, ...] = ()
    question: str = ""
    declares: tuple[Action, ...] = ()
    returns: tuple[Ref, ...] = ()
    comments: tuple[str, ...] = ()
    source: Source = field(default=Source("", ""), compare=False)


def refs(arg: Arg) -> Iterator[Ref]:
    """Every reference in an argument, in order."""
    if type(arg) is Ref:
        yield arg
    elif type(arg) is Template:
        for part in arg.parts:
            if type(part) is Ref:
                yield part
    elif type(arg) is Items:
        for item in arg.items:
            yield from refs(item)


def step_refs(step: Step) -> Iterator[Ref]:
    """Every reference in a step's arguments, in order."""
    for arg in step.args:
        yield from refs(arg)
