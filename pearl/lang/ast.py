"""The plan language's types (docs/design.md, section 3), and what parsing yields.

That is a plan, the lines that could not be read, and the text set aside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, auto
from itertools import chain
from typing import Any, TypeAlias
from typing import Literal as OneOf

from pearl.lang.source import NOWHERE, Source, Span
from pearl.lang.values import Type, Value, as_text

DOCUMENT = "CTX"
"""The name under which every plan reads its document."""

RESERVED = ("true", "false", "return")
"""Words that cannot be a step's name."""


class Mode(StrEnum):
    """How a step takes a reference: whole, item by item, or as the evidence it quotes."""

    PLAIN = ""
    EACH = "each"
    WHERE = "where"
    EACH_VALUES = "each values"
    WHERE_VALUES = "where values"
    EVIDENCE = "evidence"


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to an earlier step, or to the document (``CTX``).

    The mode belongs to the reference and not to the argument, because a template may
    hold references too (``"Which movies has {each person} directed?"``).
    """

    name: str
    mode: Mode = Mode.PLAIN
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def maps(self) -> bool:
        """Whether the step runs once for each item of it."""
        return self.mode not in (Mode.PLAIN, Mode.EVIDENCE)


@dataclass(frozen=True, slots=True)
class Literal:
    """A text, a number, a truth value, or a list of them."""

    value: Value
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Template:
    """A text with references in braces; its parts stand in the order of the text."""

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
    """An action that needs no model; `pearl.lang.builtins` holds the function of this name."""

    function: str


@dataclass(frozen=True, slots=True)
class Solver:
    """An action that something other than the model carries out: an agent, a retriever.

    Whoever starts the run passes the function of this name.
    """

    name: str


RETRIEVE = "retrieve"
"""The name of the solver that looks up passages; whoever starts a run may name others."""


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


@dataclass(frozen=True, slots=True)
class Function:
    """An action that a function of a person's program carries out (`pearl.lang.functions`).

    Args:
        name: its module and its name.
        digest: the hash of its text, as far as that can be read.
        call: the function.
    """

    name: str
    digest: str
    call: Callable[..., Any] = field(compare=False, repr=False)


Body: TypeAlias = "Prompt | Builtin | Solver | SubPlan | Decomposed | Function"


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter: its name and the type it takes."""

    name: str
    type: Type = "any"


@dataclass(frozen=True, slots=True)
class Replaced:
    """An older action that a newer one replaces, and the arguments of the newer call.

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
        body: how it is carried out.
        variadic: whether the last parameter may repeat (written ``...``).
        aliases: other names plans may use for it.
        traits: what a pass may assume of it, such as ``pure``.
        provenance: ids of the questions that proposed it.
        replaces: older actions whose calls need other arguments now; where the arguments
            stay the same, an alias is enough.
        model: the name of the model that carries it out; empty for the run's reader.
        span: where its line stands in the library or plan.
        comments: the comment lines above it.
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
    model: str = ""
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
    def fewest(self) -> int:
        """The least number of arguments; a parameter that may repeat may also be absent."""
        return max(1, len(self.params) - 1) if self.variadic else len(self.params)

    def takes(self, count: int) -> bool:
        """Whether a call may have this number of arguments."""
        return count == self.fewest or (self.variadic and count > self.fewest)

    @property
    def is_builtin(self) -> bool:
        """Whether it runs without a model: as a builtin, or as a function in Python."""
        return isinstance(self.body, Builtin | Function)


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
    ``head`` are the comment lines above the question, ``comments`` those
    below the last step.
    """

    steps: tuple[Step, ...] = ()
    question: str = ""
    declares: tuple[Action, ...] = ()
    returns: tuple[Ref, ...] = ()
    comments: tuple[str, ...] = ()
    head: tuple[str, ...] = ()
    source: Source = field(default=Source("", ""), compare=False)

    def _repr_html_(self) -> str:
        """The plan's graph, as an image for a notebook."""
        # `graph` imports this module.
        from pearl.lang.graph import image

        drawn = image(self)
        return f'<img alt="What uses what" style="max-width:100%" src="{drawn}">' if drawn else ""


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


def step_refs(step: Step) -> list[Ref]:
    """Every reference in a step's arguments, in order."""
    references: list[Ref] = []
    for arg in step.args:
        if type(arg) is Ref:
            references.append(arg)
        elif type(arg) is not Literal:
            references.extend(refs(arg))
    return references


def mapped(references: Iterable[Ref]) -> Ref | None:
    """The reference, among a step's, whose items the step runs over; None if there is none.

    Beside ``each values x``, ``each x`` is the key of the same item.
    """
    maps = [ref for ref in references if ref.maps]
    values = (ref for ref in maps if ref.mode.endswith("values"))
    return next(values, maps[0] if maps else None)


def renamed(step: Step, names: Mapping[str, str]) -> Step:
    """The step with its references renamed, whatever their mode."""
    if not any(ref.name in names for ref in step_refs(step)):
        return step

    def rename(ref: Ref) -> Ref:
        return replace(ref, name=names.get(ref.name, ref.name))

    return replace(step, args=tuple(map_refs(arg, rename) for arg in step.args))


def renamed_plan(plan: Plan, names: Mapping[str, str]) -> Plan:
    """The plan with its references renamed, in its steps and in what it returns."""
    returns = tuple(replace(ref, name=names.get(ref.name, ref.name)) for ref in plan.returns)
    return replace(plan, steps=tuple(renamed(step, names) for step in plan.steps), returns=returns)


def by_number(plan: Plan) -> Plan:
    """The plan whose steps are referred to by number, as ``#2``."""
    return renamed_plan(plan, {step.name: f"#{at}" for at, step in enumerate(plan.steps, 1)})


def map_refs(arg: Arg, change: Callable[[Ref], Arg], text: Callable[[Value], str] = as_text) -> Arg:
    """An argument with each of its references replaced.

    Args:
        arg: any argument.
        change: gives what replaces a reference. Inside a text, a literal becomes part of the
            text, and the items of a list are joined with commas.
        text: how a literal is written in a text.
    """
    match arg:
        case Ref():
            return change(arg)
        case Template():
            parts = (_parts(p if isinstance(p, str) else change(p), text) for p in arg.parts)
            return replace(as_arg(chain.from_iterable(parts)), span=arg.span)
        case Items():
            return listed((map_refs(item, change, text) for item in arg.items), arg.span)
        case Literal():
            return arg


def listed(args: Iterable[Arg], span: Span = NOWHERE) -> Literal | Items:
    """A list as an argument: a literal if all its items are."""
    items = tuple(args)
    literals = [item.value for item in items if isinstance(item, Literal)]
    return Literal(literals, span) if len(literals) == len(items) else Items(items, span)


def _parts(arg: Arg | str, text: Callable[[Value], str]) -> Iterator[str | Ref]:
    """An argument as parts of a text."""
    match arg:
        case Template():
            yield from arg.parts
        case Literal():
            yield text(arg.value)
        case Items():
            for place, item in enumerate(arg.items):
                yield ", " if place else ""
                yield from _parts(item, text)
        case _:
            yield arg


def as_arg(parts: Iterable[str | Ref]) -> Literal | Template:
    """Parts of a text as an argument: a template if one of them is a reference."""
    joint: list[str | Ref] = []
    for part in parts:
        if isinstance(part, str) and joint and isinstance(joint[-1], str):
            joint[-1] += part
        elif part != "":
            joint.append(part)
    if any(isinstance(part, Ref) for part in joint):
        return Template(tuple(joint))
    return Literal("".join(map(str, joint)))


BrokenKind = OneOf["step", "action", "return", "plans"]
AsideKind = OneOf["prose", "wrapping", "thinking"]


class Kind(Enum):
    """The kind of a logical line: what it is meant as."""

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
        source: the text it stands in.
    """

    kind: BrokenKind
    span: Span
    at: Span
    got: str = ""
    before: str = ""
    accepts: frozenset[str] = frozenset()
    name: str = ""
    last: bool = False
    source: Source = field(default=Source("", ""), compare=False, repr=False)

    @property
    def text(self) -> str:
        """The line."""
        return self.source.at(self.span)

    @property
    def token(self) -> str:
        """The offending token's text."""
        return self.source.at(self.at)

    @property
    def rest(self) -> str:
        """The line from the offending token on."""
        return self.source.text[self.at.start : self.span.end]


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

    @property
    def has_plan(self) -> bool:
        """Whether the text has anything of a plan: a step, if only a damaged one, or a
        declaration."""
        broken_step = any(line.kind == "step" for line in self.broken)
        return bool(self.plan.steps or self.plan.declares or broken_step)


@dataclass(frozen=True, slots=True)
class ParsedLibrary:
    """The reading of an action library's text.

    Args:
        actions: what is read.
        broken: the lines that cannot be read.
        unread: the actions whose own line is broken: their names, with what the lines below
            say of them.
        plans: for each plan or demonstration, the span of its action and its own span.
    """

    actions: tuple[Action, ...]
    broken: tuple[Broken, ...] = ()
    unread: tuple[Action, ...] = ()
    plans: tuple[tuple[Span, Span], ...] = ()


def woven(text: str, steps: Mapping[str, str]) -> tuple[str | Ref, ...]:
    """The parts of a text, with a reference to a step in place of each earlier step's answer.

    Args:
        text: the argument of a step, in words.
        steps: the steps' names by their answers, none of them empty. An answer is replaced only
            where it stands as words of its own, the longest answer first.
    """
    if not steps:
        return (text,)
    longest_first = "|".join(map(re.escape, sorted(steps, key=len, reverse=True)))
    # The answers are in the odd places.
    parts = re.split(rf"(?<!\w)({longest_first})(?!\w)", text)
    return tuple(Ref(steps[part]) if at % 2 else part for at, part in enumerate(parts) if part)
