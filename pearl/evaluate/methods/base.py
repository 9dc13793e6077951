"""The one shape that methods have, what theirs are planned with, and how a run becomes an outcome.

In all of them ``example`` is the question, ``shared`` what the methods of an evaluation share, and
``session`` the model in its layers. They raise `ModelError` where the model gave no usable answer,
and `RunError` where a strategy came to no answer, or named none of the options.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from pearl.answer import Option, answer, answer_parts, is_guess, map_answer, start
from pearl.evaluate.context import LIBRARY, EvaluationContext, own_actions
from pearl.evaluate.datasets.base import NO_DOCUMENT, Example
from pearl.lang.builtins import conclusion
from pearl.lang.text import counted
from pearl.models.routing import planner_of
from pearl.prompts.calls import MapAnswer
from pearl.retrieval.index import CorpusRetriever
from pearl.runtime.loop import Finished, Strategy, run_strategy
from pearl.session import Session
from pearl.strategies.registry import (
    DEFAULT_LIMITS,
    MACHINES,
    Limits,
    Prepared,
    find_strategy,
    prepare,
)

if TYPE_CHECKING:
    from pearl.tools.toolbox import Tools


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a method came to.

    Args:
        answer: the chosen option's letter, or the answer; None where there is none.
        words: the open answer.
        orders: as in `Result`.
        measures: what it took beside the model's calls, by name.
    """

    answer: str | None
    words: str = ""
    orders: tuple[str | None, ...] = ()
    measures: Mapping[str, float] = field(default_factory=dict)


AnswerOne: TypeAlias = Callable[[Example, EvaluationContext, Session], Awaitable[Outcome]]
"""Answers one example. Raises `InputError` where it cannot begin."""


@dataclass(frozen=True, slots=True)
class Method:
    """A way to answer a question about a document.

    Args:
        name: as on the command line and in reports.
        about: what it does, in one sentence.
        answer: answers one example.
        setup: the name of the planning setup that a report's head shows for it; empty for
            one with actions of its own, which is shown no plans.
        prose: whether it answers in sentences; a data set of short answers has
            them brought to short ones.
        plans: whether the steps that it runs are a plan that it wrote, and not one of Pearl's.
        needs_model: whether it asks for what the offline reader does not write.
        lacks: what it needs and does not have, in words behind its name; empty
            where it can begin.
    """

    name: str
    about: str
    answer: AnswerOne
    setup: str = LIBRARY
    prose: bool = False
    plans: bool = True
    needs_model: bool = False
    lacks: Callable[[EvaluationContext, Example], str] = lambda *_: ""


def setups_in_use(methods: Sequence[Method], shared: EvaluationContext) -> dict[str, list[str]]:
    """The planning setups that methods work with, each with the names of those methods.

    A method with actions of its own has none.
    """
    users: dict[str, list[str]] = {}
    for method in methods:
        if name := shared.setup_name(method.setup):
            users.setdefault(name, []).append(method.name)
    return dict(sorted(users.items(), key=lambda item: item[0] != LIBRARY))


def planned_with(
    methods: Sequence[Method], shared: EvaluationContext
) -> dict[str, tuple[str, str, str, str]]:
    """What each method that is shown a library works with (`PlanningSetup.about`), by method."""
    return {method.name: shared.setup(method.setup).about for method in methods if method.setup}


def describe(methods: Sequence[Method], shared: EvaluationContext) -> Iterator[list[str]]:
    """Rows of a report's head: the setups in use, and what was set for this run beside them."""
    names_of = {method.name for method in methods}
    users = setups_in_use(methods, shared)
    for name, names in users.items():
        of = "" if name == LIBRARY or len(users) == 1 else f" of {', '.join(names)}"
        libraries, _, shown, _ = shared.setups[name].about
        own = counted(own_actions(shared.setups[name].library), "action")
        yield [f"library{of}", f"{libraries}, {own}"]
        yield [f"demonstrations{of}", shown]
    search = shared.search if any(name.startswith("tmn") for name in names_of) else None
    retriever = shared.retriever
    facts = {
        "metric": shared.metric and shared.metric.name,
        "learned": search and search.learned,
        "search": search and str(search),
        "index": retriever.info.corpus if isinstance(retriever, CorpusRetriever) else "",
        "passages": shared.passages and f"{shared.passages:,} of each look-up",
        "tools": shared.tools and shared.tools.path,
        "shown": shared.shown and f"{shared.shown:,} of a library's actions, beside its builtins",
        "examples": shared.examples and f"{shared.examples:,} at most of each form",
        "states": "turns of one conversation" if shared.turns and names_of & {*MACHINES} else "",
        "limits": ", ".join(
            f"{limit.name} {value:,}"
            for limit in fields(Limits)
            if (value := getattr(shared.limits, limit.name)) != getattr(DEFAULT_LIMITS, limit.name)
        ),
    }
    yield from ([name, text] for name, text in facts.items() if text)


def prepare_method(name: str, setup: str, shared: EvaluationContext, session: Session) -> Prepared:
    """A strategy, prepared within the limits of an evaluation.

    Args:
        name: as on the command line.
        setup: the name of what steps are written with; empty for a strategy with actions of
            its own.

    Raises:
        InputError: it needs a language model where there is none.
    """
    planning = shared.setup(setup) if setup else None
    most, turns = shared.shown if name == "pearl" else 0, shared.turns and name in MACHINES
    settings = replace(shared, shown=most, turns=turns)
    model, library = planner_of(session.engine.model).name, planning.library if planning else None
    own = shared.own.get(name)
    # Those of a person's own are shown no plans.
    plans = planning and not own and find_strategy(name).demonstrations
    shown = planning.demonstrations if planning and plans else None
    return prepare(own or name, model, library, shown, settings)


async def run(
    ready: Prepared, example: Example, session: Session, tools: Tools | None = None
) -> tuple[Strategy, Finished]:
    """Run a strategy, with what it may call, and give it back with what it has to say of it."""
    options = bool(example.options)
    strategy, frame = start(ready, example.document, session, tools=tools, options=options)
    return strategy, await run_strategy(strategy, example.question, frame)


async def conclude(
    outcome: Outcome,
    text: str,
    example: Example,
    session: Session,
    parts: tuple[tuple[str, str], ...] = (),
) -> Outcome:
    """An outcome whose answer is an open one, or the option that it means where there are some.

    Args:
        outcome: all else that is known of it.
        text: the open answer.
        parts: what the answer was put together from (`answer_parts`).
    """
    if not example.options:
        return replace(outcome, answer=text)
    call = MapAnswer(example.question, text, example.options, parts)
    option = await map_answer(call, session.caller())
    guessed = is_guess(session.engine.model, (), option)
    measures = {**outcome.measures, **_marks(option, guessed=guessed)}
    return replace(outcome, answer=option.named, measures=measures)


async def conclude_text(
    finished: Finished,
    example: Example,
    session: Session,
    measures: Mapping[str, float] = MappingProxyType({}),
) -> Outcome:
    """A run's whole text as the answer, mapped to an option where there are some.

    ``measures`` is what the run took, by name.
    """
    text = finished.text
    outcome = Outcome(text, text, measures=measures)
    return await conclude(outcome, text, example, session, answer_parts(finished))


async def answer_and_map(ready: Prepared, example: Example, session: Session) -> Outcome:
    """Answer with a strategy, and map the answer to an option where there are some."""
    question, document, options = example.question, example.document, example.options
    reply = await answer(ready, question, document, options, session)
    chosen = reply.option.named if reply.option else conclusion(reply.text)
    measures = {**_marks(reply.option, guessed=reply.guessed)}
    if document != NO_DOCUMENT:
        measures["grounded"] = float(reply.grounded)
    return Outcome(chosen, reply.text, measures=measures)


def _marks(option: Option | None, *, guessed: bool) -> Mapping[str, float]:
    """That what was found decided for no option, a failure of its own, right or wrong; and that the
    answer was picked by words alone."""
    marks = {"none_fits": option is not None and not option.fits, "guessed": guessed}
    return {name: 1.0 for name, so in marks.items() if so}
