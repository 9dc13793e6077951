"""Every strategy by its name, put together for one question about one document.

A strategy with all that a run of it needs.

How far a strategy may go for one question.

A retriever as a handler, so that plans can look passages up.

Khot et al., "Decomposed Prompting", ICLR 2023, section 4.4: the decomposer
asks a retriever, a reader of what was found, and in the end a reader of all
that was found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from pearl.lang.builtins import MOST as MOST_GIVEN
from pearl.lang.builtins import Given
from pearl.lang.library import Library, load_library
from pearl.lang.source import InputError, Source
from pearl.lang.values import Value, as_text
from pearl.passes import DEFAULT_PASSES
from pearl.prompts.calls import Demonstration
from pearl.retrieval.retriever import DocumentRetriever, Retriever, passage_texts
from pearl.run.calls import CALLS, Caller, at_most
from pearl.run.context import UNLIMITED, Context
from pearl.run.executor import DEPTH, NONE, WIDTH, Handlers, Solve, SolverError
from pearl.run.loop import Finished, Strategy, run_strategy
from pearl.strategies.decomp import STEPS, Decomp, decompose, worked
from pearl.strategies.pearl import Pearl, shown_plans

if TYPE_CHECKING:
    from pearl.models.embeddings import Embed
    from pearl.models.middleware.cache import ReplyCache
    from pearl.strategies.fsm_states import Machine
    from pearl.tools.base import Tools


@dataclass(frozen=True, slots=True)
class Prepared:
    """A strategy for one run, and what the run is started with.

    Args:
        strategy: writes the steps.
        library: the actions they call.
        handlers: who carries out those that are neither the model's nor builtins.
        caller: who asks the model for the steps' values, where the strategy and they share a
            limit; None for the one it was prepared with.
    """

    strategy: Strategy
    library: Library
    handlers: Handlers = NONE
    caller: Caller | None = None


async def run_prepared(
    ready: Prepared,
    question: str,
    document: Source,
    caller: Caller,
    context: Context = UNLIMITED,
) -> Finished:
    """`run_strategy`, with what was prepared.

    Args:
        ready: for this run.
        question: what is asked.
        document: what ``CTX`` is.
        caller: the one it was prepared with.
        context: the model's window, and what to do with a document that is longer.

    Raises:
        RunError: a step was rejected, does not fit the window, or has no output.
        ModelError: the strategy's own calls got no usable answer.
    """
    return await run_strategy(
        ready.strategy,
        question,
        document,
        ready.library,
        ready.caller or caller,
        context,
        ready.handlers,
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Where a question ends whose steps are written one at a time.

    Args:
        steps: of one decomposition, at most.
        depth: decompositions within each other, at most.
        calls: of the model, at most.
        width: items that one step runs over, at most.
    """

    steps: int = STEPS
    depth: int = DEPTH
    calls: int = CALLS
    width: int = WIDTH


USUAL = Limits()
"""Where nobody said."""


RETRIEVE = "retrieve"
"""The name by which an action asks for passages: ``body: solver retrieve``."""

PASSAGES = 3
"""Passages that are given where a step does not say how many."""

MOST = 20
"""Passages that a step is given, at most."""


def retrieving(document: Source, retriever: Retriever | None = None) -> Solve:
    """A solver that gives the passages that bear on a query.

    Its arguments are the query and, where there is a second one, how many
    passages are wanted. Its value is a list of texts, best first, each the
    passage to the letter with its title and a colon before it.

    Args:
        document: where to look.
        retriever: where to look instead, as an index of a corpus; None for
            the document.
    """
    searched = DocumentRetriever(document) if retriever is None else retriever

    async def solve(path: str, given: Sequence[Given]) -> Value:
        del path
        query, most = as_text(given[0].value), _most(given[1:])
        try:
            # Reading an index takes its time, and other steps have theirs.
            found = await asyncio.to_thread(searched.search, query, most)
        except InputError as error:
            raise SolverError("solver", str(error)) from None
        return list(passage_texts(found))

    return solve


def with_retriever(
    handlers: Handlers, document: Source, retriever: Retriever | None = None
) -> Handlers:
    """Handlers, and beside them a retriever.

    Args:
        handlers: those there are.
        document: as `retrieving` takes it.
        retriever: as `retrieving` takes it.
    """
    solvers = {**handlers.solvers, RETRIEVE: retrieving(document, retriever)}
    return replace(handlers, solvers=MappingProxyType(solvers))


def _most(given: Sequence[Given]) -> int:
    if not given:
        return PASSAGES
    value = given[0].value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SolverError("solver", f"A retriever gives a whole number of passages, not {value!r}.")
    return min(value, MOST)


PLANNED = 10_000
"""Calls of a question whose plan is written first, at most: its steps are known before they run,
and may have to read every part of a long document."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a strategy works with.

    Args:
        caller: asks the model and keeps the journal.
        document: what is asked of.
        library: the actions that steps may call, where the strategy leaves the choice.
        demonstrations: examples for whoever writes steps.
        passes: names of rewrites that plans go through.
        tools: what can be asked beside the document; None for a search of it.
        retriever: where passages come from; None for the document.
        limits: how far it goes, where its steps are written one at a time.
        context: the model's window, and what to do with a document that is longer.
        embed: tells whether two questions are the same; None for `choose_embedding`.
        replies: where an endpoint's vectors are kept; None for nowhere.
    """

    caller: Caller
    document: Source
    library: Library
    demonstrations: tuple[Demonstration, ...] = ()
    passes: tuple[str, ...] = DEFAULT_PASSES
    tools: Tools | None = None
    retriever: Retriever | None = None
    limits: Limits = USUAL
    context: Context = UNLIMITED
    embed: Embed | None = None
    replies: ReplyCache | None = None


Uses: TypeAlias = Literal["tools", "embedding"]
"""What a strategy may use beside the model, the document and its library."""

Known: TypeAlias = Mapping[Uses, Callable[[], str]]
"""The digest or the identity of each of these, found out only where it is wanted."""


@dataclass(frozen=True, slots=True)
class Named:
    """A strategy as a person chooses it.

    Args:
        name: as on the command line.
        about: what it does, in one sentence.
        make: puts it together for one run, within the setting's limits.
        libraries: names of the action libraries it works with; none leaves the choice.
        demonstrations: the folder in ``plans/`` whose plans are shown where no other is named;
            empty for a strategy that is shown none, and has actions of its own.
        uses: what else decides its answers.
    """

    name: str
    about: str
    make: Callable[[Setting], Prepared]
    libraries: tuple[str, ...] = ()
    demonstrations: str = ""
    uses: tuple[Uses, ...] = ()

    def decisive(self, known: Known) -> list[str]:
        """What else decides its answers, of what there is.

        Args:
            known: what identifies each thing that a strategy may use.
        """
        return [known[one]() for one in self.uses]


def _pearl(one: Setting) -> Prepared:
    caller = at_most(one.caller, PLANNED)
    strategy = Pearl(one.library, caller, one.demonstrations, passes=one.passes)
    handlers = Handlers(depth=one.limits.depth, width=max(one.limits.width, MOST_GIVEN))
    retrieving = with_retriever(handlers, one.document, one.retriever)
    return Prepared(strategy, one.library, retrieving, caller)


def _decomp(one: Setting) -> Prepared:
    caller = at_most(one.caller, one.limits.calls)
    shown = tuple(map(worked, shown_plans(one.demonstrations)))
    strategy = Decomp(one.library, caller, shown, one.limits.steps)
    handlers = with_retriever(Handlers(decompose=decompose), one.document, one.retriever)
    return Prepared(strategy, one.library, _limited(handlers, one.limits), caller)


def _fsm1(one: Setting) -> Prepared:
    from pearl.strategies.fsm_states import FSM1

    return _machine(FSM1, one)


def _fsm2(one: Setting) -> Prepared:
    from pearl.strategies.fsm_states import FSM2

    return _machine(FSM2, one)


def _machine(machine: Machine, one: Setting) -> Prepared:
    from pearl.strategies.fsm import Fsm
    from pearl.strategies.fsm_states import FsmLimits

    calls = min(FsmLimits().calls, one.limits.calls)
    caller = at_most(one.caller, calls)
    found = Fsm(machine, caller, one.document, FsmLimits(calls=calls, context=one.context))
    return Prepared(found, found.library, _limited(found.handlers, one.limits), caller)


def _rebel(one: Setting) -> Prepared:
    from pearl.strategies.rebel import LIBRARY, rebel
    from pearl.strategies.rebel_calls import RebelLimits, document_tools, searching_tools

    usual = RebelLimits()
    depth, calls = min(usual.depth, one.limits.depth), min(usual.calls, one.limits.calls)
    caller = at_most(one.caller, calls)
    search = searching_tools(one.retriever) if one.retriever else document_tools(one.document)
    limits = RebelLimits(depth=depth, calls=calls)
    found = rebel(caller, one.tools or search, one.embed, limits, one.replies)
    handlers = replace(found.handlers, width=one.limits.width)
    return Prepared(found, load_library(LIBRARY), handlers, caller)


def _react(one: Setting) -> Prepared:
    from pearl.strategies.react import LIBRARY, React, reacting

    caller = at_most(one.caller, one.limits.calls)
    handlers = _limited(reacting(one.document, one.retriever), one.limits)
    return Prepared(React(caller), load_library(LIBRARY), handlers, caller)


def _limited(handlers: Handlers, limits: Limits) -> Handlers:
    return replace(handlers, depth=limits.depth, width=limits.width)


STRATEGIES = (
    Named("pearl", "A plan is written, checked and executed.", _pearl, (), "demos"),
    Named(
        "decomp", "Steps are written one at a time, after seeing what the last gave.", _decomp,
        ("open_domain",), "open_domain",
    ),
    Named("fsm1", "A state machine asks for one sub-question after another.", _fsm1, ("fsm",)),
    Named("fsm2", "As fsm1, with a review that gives supporting facts.", _fsm2, ("fsm",)),
    Named(
        "rebel", "The question is split until a tool, or what is known, answers each part.",
        _rebel, ("rebel",), uses=("tools", "embedding"),
    ),
    Named(
        "react", "Thoughts and actions take turns: search, look up, finish.", _react,
        ("react",),
    ),
)  # fmt: skip
"""By name; a new one is a function that puts it together, and a line here."""


def find_strategy(name: str) -> Named:
    """The strategy of a name.

    Raises:
        InputError: there is none.
    """
    for one in STRATEGIES:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in STRATEGIES)
    raise InputError(f"There is no strategy {name}: use one of {known}.")


def check_own(
    named: Named,
    library: Library | None,
    demonstrations: Sequence[Demonstration] | None,
    tools: str,
) -> None:
    """Make sure that a strategy is given nothing that it would pass over.

    Args:
        named: the strategy.
        library: the actions that were chosen for it; None where none were.
        demonstrations: the plans that it is to be shown.
        tools: the file with what it may call; empty where there is none.

    Raises:
        InputError: it takes none of these.
    """
    if library and not named.demonstrations:
        raise InputError(f"{named.name} has actions of its own: leave the library out.")
    if demonstrations and not named.demonstrations:
        raise InputError(f"{named.name} is shown no plans: leave the demonstrations out.")
    if tools and "tools" not in named.uses:
        raise InputError(f"{named.name} asks no tools: take the strategy rebel.")
