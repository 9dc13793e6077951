"""Every strategy by its name, put together for one question about one document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pearl.library import Library, load_library
from pearl.llm import Demonstration
from pearl.passes import DEFAULT_PASSES
from pearl.retrieval import Retriever
from pearl.runtime import Caller
from pearl.runtime.handlers import NONE, Handlers
from pearl.source import InputError, Source
from pearl.strategies.decomp import Decomp, decompose, worked
from pearl.strategies.pearl import Pearl
from pearl.strategies.prepared import Prepared
from pearl.strategies.retrieving import with_retriever
from pearl.syntax import parse

if TYPE_CHECKING:
    from pearl.strategies.rebel.tools import Tools


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
    """

    caller: Caller
    document: Source
    library: Library
    demonstrations: tuple[Demonstration, ...] = ()
    passes: tuple[str, ...] = DEFAULT_PASSES
    tools: Tools | None = None
    retriever: Retriever | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """A strategy as a person chooses it.

    Args:
        name: as on the command line.
        about: what it does, in one sentence.
        make: puts it together for one run.
        libraries: names of the action libraries it works with; none leaves the choice.
        demonstrations: the folder in ``plans/`` whose plans are shown where no other is named;
            empty for a strategy that is shown none.
    """

    name: str
    about: str
    make: Callable[[Setting], Prepared]
    libraries: tuple[str, ...] = ()
    demonstrations: str = ""


def _pearl(one: Setting) -> Prepared:
    strategy = Pearl(one.library, one.caller, one.demonstrations, passes=one.passes)
    return Prepared(strategy, one.library, with_retriever(NONE, one.document, one.retriever))


def _decomp(one: Setting) -> Prepared:
    texts = (f"question: {shown.question}\n\n{shown.plan}" for shown in one.demonstrations)
    shown = tuple(worked(parse(text).plan) for text in texts)
    handlers = with_retriever(Handlers(decompose=decompose), one.document, one.retriever)
    return Prepared(Decomp(one.library, one.caller, shown), one.library, handlers)


def _fsm1(one: Setting) -> Prepared:
    from pearl.strategies.fsm import fsm1

    machine = fsm1(one.caller, one.document)
    return Prepared(machine, machine.library, machine.handlers)


def _fsm2(one: Setting) -> Prepared:
    from pearl.strategies.fsm import fsm2

    machine = fsm2(one.caller, one.document)
    return Prepared(machine, machine.library, machine.handlers)


def _rebel(one: Setting) -> Prepared:
    from pearl.strategies.rebel import LIBRARY, rebel
    from pearl.strategies.rebel.tools import document_tools, searching_tools

    search = searching_tools(one.retriever) if one.retriever else document_tools(one.document)
    found = rebel(one.caller, one.tools or search)
    return Prepared(found, load_library(LIBRARY), found.handlers)


def _react(one: Setting) -> Prepared:
    from pearl.strategies.react import LIBRARY, React, reacting

    handlers = reacting(one.document, one.retriever)
    return Prepared(React(one.caller), load_library(LIBRARY), handlers)


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
        _rebel, ("rebel",),
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
