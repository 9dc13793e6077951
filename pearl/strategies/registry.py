"""Strategies by name: what each works with, and how it is set up for one question.

A strategy's module is loaded when it is started. `pearl.strategies.preparation` checks what the
user chose for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pearl.lang.entry_points import extension, failure_text, offered, source_digest
from pearl.lang.errors import InputError, check_whole
from pearl.lang.library import Library
from pearl.lang.source import Source
from pearl.lang.text import close_name
from pearl.models.base import ModelError
from pearl.passes import DEFAULT_PASSES
from pearl.prompts.calls import Demonstration
from pearl.retrieval.retriever import Retriever
from pearl.runtime.binding import is_interruption
from pearl.runtime.calls import CALLS, Caller, SchemaError, at_most
from pearl.runtime.context import Context
from pearl.runtime.executor import DEPTH, NONE, STEPS, Frame, Handlers
from pearl.runtime.loop import Attempt, Move, Return, Run, RunError, Steps, Strategy
from pearl.strategies.pearl import PearlStrategy, shown_plans
from pearl.strategies.retrieving import with_retriever

if TYPE_CHECKING:
    from pearl.models.embeddings import Embed
    from pearl.models.middleware.cache import Keep, ReplyCache
    from pearl.tools.toolbox import Tools

NONE_SHOWN = (
    "No demonstration is shown, as none calls only what the library has: name a folder with "
    "--demos; pearl refine makes one."
)
"""The notice where a strategy that takes demonstrations gets none."""

OWN_TOOLS = (
    "rebel asks these tools in place of a search of the document: it reads the document only if "
    "one of them searches an index of it (docs/rebel.md)."
)
"""The notice where tools were chosen."""

MACHINES = ("fsm1", "fsm2")
"""Strategies that go through states, which may be turns of one conversation."""

PLANNED = 10_000
"""The most calls of a question whose plan is written first. It is high, as each step may have to
read every part of a long document."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a question stops whose steps are written one at a time.

    Args:
        steps: the most steps of one decomposition.
        depth: how deep decompositions may nest.
        calls: the most calls of the model.
        width: the most items that one step runs over; None for the limit of every run.
    """

    steps: int = STEPS
    depth: int = DEPTH
    calls: int = CALLS
    width: int | None = None


DEFAULT_LIMITS = Limits()


def limits_within(depth: int | None) -> Limits:
    """The default limits, with this depth where it is not None."""
    return DEFAULT_LIMITS if depth is None else replace(DEFAULT_LIMITS, depth=depth)


@dataclass(frozen=True, slots=True)
class StrategySettings:
    """What a user may choose for a strategy beside its library and its demonstrations.

    Args:
        passes: names of the passes that rewrite plans.
        limits: where it stops, if its steps are written one at a time.
        retriever: where passages come from; None for the document.
        embed: the embedding that tells whether two questions are the same; None for
            `choose_embedding`.
        shown: the most actions that a planner is shown; 0 for all.
        turns: whether the states of a machine are turns of one conversation.
        passages: passages per look-up; 0 for the number that the step gives.

    Raises:
        InputError: a number is below 0.
    """

    passes: tuple[str, ...] = DEFAULT_PASSES
    limits: Limits = DEFAULT_LIMITS
    retriever: Retriever | None = None
    embed: Embed | None = None
    shown: int = 0
    turns: bool = False
    passages: int = 0

    def __post_init__(self) -> None:
        check_whole(shown=self.shown, passages=self.passages, depth=self.limits.depth)


DEFAULT_SETTINGS = StrategySettings()


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What a strategy is started with for one question.

    Args:
        caller: asks the model and writes the journal.
        document: the document that the question is about.
        tools: the tools that may be called; None for a search of the document.
        replies: where an endpoint's embeddings are cached; None for nowhere.
        options: whether the answer will be mapped to one of several options.
        keep: caches the results of the user's functions; None where nothing is kept.
    """

    caller: Caller
    document: Source
    tools: Tools | None = None
    replies: ReplyCache | None = None
    options: bool = False
    keep: Keep | None = None

    @property
    def context(self) -> Context:
        """The model's window, and what to do with a document that is longer."""
        return self.caller.context


OwnStrategy: TypeAlias = Callable[[RunInputs], Strategy]
"""A user's own class or function, which makes a strategy for one question."""

Made: TypeAlias = tuple[Strategy, Handlers]
"""A strategy, and the handlers of those steps that no prompt carries out."""

Started: TypeAlias = tuple[Strategy, Frame]
"""What `run_strategy` takes beside a question: a strategy, and the frame its steps run in, whose
caller counts calls up to the strategy's limit."""


@dataclass(frozen=True, slots=True)
class StrategySpec:
    """A strategy that a user can choose.

    Args:
        name: as on the command line.
        about: what it does, in one sentence.
        make: sets it up for one question; the caller in the inputs enforces the limit of calls.
        libraries: names of the action libraries it works with; empty where the user chooses.
        demonstrations: the folder in ``plans/`` whose plans are shown by default, unless there is
            a folder with the name of a chosen library; empty for a strategy that is shown no plans.
        uses: what decides its answers beside the model, the document and its library.
        options: which of two options it uses: ``depth`` of questions, and worked ``examples``.
        needs_model: whether it asks for next steps or structured output, which the offline
            reader does not write.
        version: a digest that tells the user's own strategies of one name apart.
        calls: gives the most calls of a question, within the limits that were chosen.
    """

    name: str
    about: str
    make: Callable[[Prepared, RunInputs], Made]
    libraries: tuple[str, ...] = ()
    demonstrations: str = ""
    uses: tuple[Literal["tools", "embedding"], ...] = ()
    options: tuple[Literal["depth", "examples"], ...] = ()
    needs_model: bool = True
    version: str = ""
    calls: Callable[[Limits], int] = attrgetter("calls")

    @property
    def takes_library(self) -> bool:
        """Whether its steps call the library that the user chose, rather than its own actions."""
        return not self.libraries or bool(self.demonstrations)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A checked strategy with its library and settings, ready to be started for any question.

    Args:
        spec: the strategy.
        library: the actions that steps may call.
        demonstrations: examples for the model that writes the steps.
        settings: what else was chosen.
        tools: whether there are tools to ask in place of a search of the document.
    """

    spec: StrategySpec
    library: Library
    demonstrations: tuple[Demonstration, ...] = ()
    settings: StrategySettings = DEFAULT_SETTINGS
    tools: bool = False

    @property
    def demonstrated(self) -> int | None:
        """How many demonstrations are shown; None for a strategy that is shown none."""
        return len(self.demonstrations) if self.spec.demonstrations else None

    @property
    def notice(self) -> str:
        """What the user should know about this choice; empty where there is nothing."""
        return NONE_SHOWN if self.demonstrated == 0 else OWN_TOOLS if self.tools else ""

    @property
    def calls(self) -> int:
        """The most calls of a question, not counting those that map its answer to an option."""
        return self.spec.calls(self.settings.limits)

    def start(self, inputs: RunInputs) -> Started:
        """Set the strategy up for one question about one document."""
        inputs = replace(inputs, caller=at_most(inputs.caller, self.calls))
        strategy, handlers = self.spec.make(self, inputs)
        limits = self.settings.limits
        handlers = replace(handlers, depth=limits.depth, width=limits.width)
        document, caller = inputs.document, inputs.caller
        return strategy, Frame(document, self.library, caller, handlers, cache=inputs.keep)

    def retrieving(self, inputs: RunInputs, handlers: Handlers = NONE) -> Handlers:
        """The handlers, with a solver added that looks passages up as the settings say."""
        settings = self.settings
        return with_retriever(handlers, inputs.document, settings.retriever, settings.passages)


# Named functions, as lambdas could not be pickled for the workers of a cluster.
def _pearl_calls(_: Limits) -> int:
    return PLANNED


def _pearl(prepared: Prepared, inputs: RunInputs) -> Made:
    settings = prepared.settings
    options = (prepared.demonstrations, settings.passes, inputs.options, settings.shown)
    strategy = PearlStrategy(prepared.library, inputs.caller, *options, inputs.document)
    return strategy, prepared.retrieving(inputs)


def _decomp(prepared: Prepared, inputs: RunInputs) -> Made:
    from pearl.strategies.decomp import Decomp, as_decomposition, decompose

    shown = tuple(map(as_decomposition, shown_plans(prepared.demonstrations)))
    most = prepared.settings.limits.steps
    strategy = Decomp(prepared.library, inputs.caller, shown, most, inputs.document)
    return strategy, prepared.retrieving(inputs, Handlers(decompose=decompose))


def _fsm_calls(limits: Limits) -> int:
    from pearl.strategies.fsm import FsmLimits

    return min(FsmLimits().calls, limits.calls)


def _fsm(prepared: Prepared, inputs: RunInputs) -> Made:
    from pearl.strategies.fsm import Fsm, FsmLimits
    from pearl.strategies.fsm_states import MACHINES

    machine, turns = MACHINES[prepared.spec.name], prepared.settings.turns
    limits = FsmLimits(calls=prepared.calls)
    strategy = Fsm(machine, inputs.caller, inputs.document, limits, turns=turns)
    return strategy, strategy.handlers


def _rebel_calls(limits: Limits) -> int:
    from pearl.strategies.rebel import RebelLimits

    return min(RebelLimits().calls, limits.calls)


def _rebel(prepared: Prepared, inputs: RunInputs) -> Made:
    from pearl.strategies.rebel import RebelLimits, rebel
    from pearl.tools.toolbox import SearchTool, document_tools

    settings, index = prepared.settings, prepared.settings.retriever
    depth = min(RebelLimits().depth, settings.limits.depth)
    limits = RebelLimits(depth=depth, calls=prepared.calls)
    tools = inputs.tools or (SearchTool(index) if index else document_tools(inputs.document))
    strategy = rebel(inputs.caller, tools, settings.embed, limits, inputs.replies)
    return strategy, strategy.handlers


def _react_calls(limits: Limits) -> int:
    from pearl.strategies.react import MOST_CALLS

    return min(MOST_CALLS, limits.calls)


def _react(prepared: Prepared, inputs: RunInputs) -> Made:
    from pearl.strategies.react import React, reacting

    return React(inputs.caller), reacting(inputs.document, prepared.settings.retriever)


STRATEGIES = (
    StrategySpec(
        "pearl",
        "A plan is written, checked and executed.",
        _pearl,
        demonstrations="demos",
        needs_model=False,
        calls=_pearl_calls,
    ),
    StrategySpec(
        "decomp",
        "Steps are written one at a time, after seeing what the last gave.",
        _decomp,
        ("open_domain",),
        "open_domain",
        options=("depth",),
    ),
    StrategySpec(
        "fsm1",
        "A state machine asks for one sub-question after another.",
        _fsm,
        ("fsm",),
        options=("examples",),
        calls=_fsm_calls,
    ),
    StrategySpec(
        "fsm2",
        "As fsm1, with a review that gives supporting facts.",
        _fsm,
        ("fsm",),
        options=("examples",),
        calls=_fsm_calls,
    ),
    StrategySpec(
        "rebel",
        "The question is split until a tool, or what is known, answers each part.",
        _rebel,
        ("rebel",),
        uses=("tools", "embedding"),
        options=("depth", "examples"),
        calls=_rebel_calls,
    ),
    StrategySpec(
        "react",
        "Thoughts and actions take turns: search, look up, finish.",
        _react,
        ("react",),
        options=("examples",),
        calls=_react_calls,
    ),
)
"""Every strategy of Pearl's; a new one is a function that sets it up, and an entry here."""


def find_strategy(name: str | OwnStrategy) -> StrategySpec:
    """The strategy of a name, from Pearl or an installed package; or the user's own.

    Raises:
        InputError: there is no such strategy, or it cannot be loaded.
    """
    if not isinstance(name, str):
        return own_strategy(name)
    for spec in STRATEGIES:
        if spec.name == name:
            return spec
    if own := extension("strategies", name):
        return own_strategy(own, name)
    names = [*(spec.name for spec in STRATEGIES), *offered("strategies")]
    close = close_name(name, names)
    raise InputError(f"There is no strategy {name}{close}: use one of {', '.join(names)}.")


def own_strategy(make: Any, name: str = "") -> StrategySpec:  # noqa: ANN401 - whatever is offered
    """A user's own strategy, whose steps call the library that the user chose.

    Args:
        make: an `OwnStrategy`.
        name: the strategy's name; empty for that of ``make``.

    Raises:
        InputError: it cannot be called, or has the name of one of Pearl's strategies.
    """
    name = name or getattr(make, "__name__", "")
    if any(spec.name == name for spec in STRATEGIES):
        raise InputError(f"{name} is a strategy of Pearl's: give yours another name.")
    if not callable(make) or not name:
        raise InputError(
            "A strategy of one's own is a class or a function that makes, given the inputs of a "
            "question, an object with next(run)."
        )

    def set_up(prepared: Prepared, inputs: RunInputs) -> Made:
        with _failing_as(name):
            strategy = make(inputs)
        return _Own(name, strategy), prepared.retrieving(inputs)

    about = (getattr(make, "__doc__", "") or "A strategy of one's own.").strip().split("\n")[0]
    version = source_digest(make)
    return StrategySpec(name, about, set_up, needs_model=False, version=version)


@dataclass(frozen=True, slots=True)
class _Own:
    """A user's own strategy, whose exceptions and wrong moves end the run with its name."""

    name: str
    strategy: Strategy

    async def next(self, run: Run) -> Move:
        with _failing_as(self.name):
            move: object = await self.strategy.next(run)
            if not isinstance(move, Steps | Attempt | Return):
                raise TypeError(f"next gave {type(move).__name__}; let it give Steps or Return")
            named: Sequence[str] = move.outputs if isinstance(move, Return) else ()
            if isinstance(named, str) or (isinstance(move, Return) and not named):
                raise TypeError(f"Return was given {named!r}; let it be given a tuple of names")
            if unknown := [name for name in named if name not in run.values]:
                names = ", ".join(step.name for step in run.plan.steps) or "none"
                raise ValueError(f"Return names {unknown[0]}, and the steps that ran are {names}")
            return move


@contextmanager
def _failing_as(name: str) -> Iterator[None]:
    """Turn an unexpected exception into a `RunError` that names the strategy."""
    try:
        yield
    except (InputError, ModelError, RunError, SchemaError):
        raise
    except BaseException as error:
        if is_interruption(error):
            raise
        raise RunError(f"The strategy {name} failed: {failure_text(error)}") from error
