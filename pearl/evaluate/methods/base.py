"""The one shape that methods have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from pearl.answer import Answer, answer, start
from pearl.evaluate.context import Searching, Tooling
from pearl.evaluate.datasets.base import Example
from pearl.lang.ast import Plan
from pearl.lang.library import Library
from pearl.lang.printer import print_plan
from pearl.models.embeddings import Embed, TfIdf
from pearl.passes import DEFAULT_PASSES
from pearl.prompts.calls import Demonstration
from pearl.retrieval.retriever import Retriever
from pearl.run.loop import Finished, Strategy
from pearl.session import Session
from pearl.strategies.pearl import GivenPlan
from pearl.strategies.registry import (
    DEFAULT_LIMITS,
    Limits,
    Prepared,
    find_strategy,
    prepare,
    prepare_own,
)

if TYPE_CHECKING:
    from pearl.tools.toolbox import Tools

__all__ = [
    "EXECUTE",
    "LIBRARY",
    "STEPWISE",
    "UNREFINED",
    "Kit",
    "Limits",
    "Method",
    "Outcome",
    "Planning",
    "Ran",
    "by_name",
    "by_plan",
    "by_strategy",
    "outcome",
    "prepared_by",
    "rotations",
]


@dataclass(frozen=True, slots=True)
class Planning:
    """What plans are written with.

    Args:
        library: the actions they may call.
        demonstrations: example plans that this library can run.
    """

    library: Library
    demonstrations: tuple[Demonstration, ...] = ()


@dataclass(frozen=True, slots=True)
class Kit:
    """What methods share.

    Args:
        plannings: by name; `LIBRARY` is what was asked for.
        passes: names of rewrites that plans go through.
        search: how decompositions are searched for; None where nobody said.
        retriever: where passages come from; None for the question's own document.
        limits: where decompositions end that are written a step at a time.
        tools: what REBEL may call; None for a search of the question's own document.
        embed: tells whether two questions are the same.
    """

    plannings: Mapping[str, Planning]
    passes: tuple[str, ...] = DEFAULT_PASSES
    search: Searching | None = None
    retriever: Retriever | None = None
    limits: Limits = DEFAULT_LIMITS
    tools: Tooling | None = None
    embed: Embed = field(default_factory=TfIdf)


LIBRARY = "library"
UNREFINED = "unrefined"
EXECUTE = "execute"
STEPWISE = "stepwise"
"""Names of plannings: as asked for; with the demonstrations as they were before refinement; with
nothing but EXECUTE and CONCAT; for steps that are written one at a time, where nobody said with
what."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a method came to.

    Args:
        answer: the chosen option's letter, or the answer; None where there is none.
        words: the open answer.
        plan: the plan that was written, in canonical form; empty where none was.
        orders: as in `Result`.
        fallback: whether no plan was accepted.
        measures: what it took beside the model's calls, by name.
    """

    answer: str | None
    words: str = ""
    plan: str = ""
    orders: tuple[str | None, ...] = ()
    fallback: bool = False
    measures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Method:
    """A way to answer a question about a document.

    Args:
        name: as on the command line and in reports.
        about: what it does, in one sentence.
        answer: answers one example. Raises `RunError` or `ModelError` where
            there is no answer.
        prose: whether it answers in sentences; a data set of short answers has
            them brought to short ones.
        lacks: what it needs and does not have, in words behind its name; empty
            where it can begin.
        needs_model: whether it asks for steps, or for replies in a demanded form, which the
            offline reader does not write.
    """

    name: str
    about: str
    answer: Callable[[Example, Kit, Session], Awaitable[Outcome]]
    prose: bool = False
    lacks: Callable[[Kit, Example], str] = lambda *_: ""
    needs_model: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """A strategy that came to its end.

    Args:
        strategy: with what it has to say of its run.
        finished: the run with its answer.
    """

    strategy: Strategy
    finished: Finished

    def outcome(self, measures: Mapping[str, float] = MappingProxyType({})) -> Outcome:
        """The run's whole text as the answer.

        Args:
            measures: what it took, by name.
        """
        text, plan = self.finished.text, print_plan(self.finished.plan)
        return Outcome(text, text, plan, measures=measures)


async def by_name(
    name: str, example: Example, kit: Kit, session: Session, tools: Tools | None = None
) -> Ran:
    """Answer with a strategy as ``pearl ask`` puts it together, within the kit's limits.

    Args:
        name: as on the command line.
        example: the question.
        kit: what methods share.
        session: the model in its layers.
        tools: what the strategy may call, where it calls some.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: the strategy came to no answer.
    """
    given = None
    if find_strategy(name).demonstrations:
        given = kit.plannings.get(STEPWISE) or kit.plannings[LIBRARY]
    prepared = prepared_by(name, given, kit, session)
    runnable = start(prepared, example.document, session, tools=tools)
    return Ran(runnable.strategy, await runnable.run(example.question))


def prepared_by(name: str, given: Planning | None, kit: Kit, session: Session) -> Prepared:
    """A strategy within the kit's limits.

    Args:
        name: as on the command line.
        given: what steps are written with; None for a strategy with actions of its own.
        kit: what methods share.
        session: the model in its layers.
    """
    return prepare(
        name,
        session.engine.model.name,
        given.library if given else None,
        given.demonstrations if given else None,
        passes=kit.passes,
        limits=kit.limits,
        retriever=kit.retriever,
        embed=kit.embed,
    )


async def by_strategy(prepared: Prepared, example: Example, session: Session) -> Outcome:
    """Answer with a strategy, and map the answer to an option where there are some.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: a step has no output, or no option was named.
    """
    question, document, options = example.question, example.document, example.options
    return outcome(await answer(prepared, question, document, options, session))


async def by_plan(plan: Plan, example: Example, kit: Kit, session: Session) -> Outcome:
    """Answer with the one step of a baseline, which is no plan that anybody wrote.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: a step has no output, or no option was named.
    """
    library = kit.plannings[LIBRARY].library
    prepared = prepare_own(lambda _: GivenPlan(plan), library)
    found = await by_strategy(prepared, example, session)
    return replace(found, plan="")


def outcome(found: Answer) -> Outcome:
    """An answer as an outcome."""
    # An answer may be quotes and nothing else.
    chosen = found.option.letter if found.option else found.words or found.text
    return Outcome(chosen, found.text, found.plan, fallback=found.fallback)


def rotations(options: Sequence[str], count: int = 4) -> tuple[tuple[int, ...], ...]:
    """Orders in which every option stands at each place once, as far as the count goes.

    Args:
        options: those to be put in order.
        count: how many orders are wanted, at most.

    Returns:
        For each order the options' places in the first one.
    """
    size = len(options)
    return tuple(
        tuple((at + turn) % size for at in range(size)) for turn in range(min(count, size))
    )
