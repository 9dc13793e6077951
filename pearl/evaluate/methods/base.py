"""What a method is, what methods share, and how a run becomes an outcome.

They share planning setups, tools, limits, and a search. In all of them ``example`` is the question,
``shared`` what the methods of an evaluation share, and ``session`` the model in its layers. They
raise `ModelError` where the model gave no usable answer, and `RunError` where a strategy came to no
answer, or named none of the options.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeAlias

from pearl.answer import Option, answer, answer_parts, is_guess, map_answer, quotes_behind, start
from pearl.commaqa.agents import Agents
from pearl.commaqa.analogy import AnalogyScorer
from pearl.commaqa.model import LearnedModel, write_model
from pearl.commaqa.search import HopScorer, SearchBudget, SearchMode, SearchResult, search
from pearl.evaluate.datasets.base import NO_DOCUMENT, Example
from pearl.jobs.answer_metrics import Graded, Scorer
from pearl.lang.ast import Builtin, Function, Prompt
from pearl.lang.builtins import conclusion
from pearl.lang.entry_points import extension
from pearl.lang.library import Library, builtins, load_library
from pearl.lang.source import read_source
from pearl.lang.text import counted, shorten
from pearl.lang.values import digest
from pearl.models.embeddings import Embed, TfIdf
from pearl.models.routing import planner_of
from pearl.prompts.calls import Demonstration, MapAnswer
from pearl.retrieval.index import CorpusRetriever, open_index
from pearl.runtime.context import Context
from pearl.runtime.loop import Finished, Strategy, run_strategy
from pearl.session import Session
from pearl.strategies.preparation import prepare
from pearl.strategies.registry import (
    DEFAULT_LIMITS,
    MACHINES,
    STRATEGIES,
    Limits,
    OwnStrategy,
    Prepared,
    StrategySettings,
    find_strategy,
    own_strategy,
)
from pearl.tools.declared import NO_TOOLS, InstalledTool, Search, load_tools, read_tools
from pearl.tools.endpoint import McpServer
from pearl.tools.toolbox import Toolbox, Tools

LIBRARY = "library"
UNREFINED = "unrefined"
EXECUTE = "execute"
STEPWISE = "stepwise"
"""Names of planning setups: the user's choice; with demonstrations before refinement; with only
EXECUTE and CONCAT; and, for decompositions, the default where the user chose no library."""

PLANS_WITH = ("library", "demos")
"""The options for what plans call and what the planner is shown."""

STEPWISE_LIBRARY = "open_domain"
"""The library of `STEPWISE`, which is also the name of its demonstrations' folder."""


@dataclass(frozen=True)
class HopSearch:
    """How decompositions into hops are searched for (CommaQA).

    Args:
        model: a learned model; None where there is none.
        mode: ``greedy`` (TMN-G) or ``best-first`` (TMN-S).
        budget: what the search for one question may spend.
        learned: the file of the learned model; empty where there is none.
    """

    model: LearnedModel | None = None
    mode: SearchMode = "best-first"
    budget: SearchBudget = field(default_factory=SearchBudget)
    learned: str = ""

    async def by(self, proposer: HopScorer, question: str, agents: Agents) -> SearchResult:
        """Search for a decomposition of one question, with the proposals of a scorer."""
        return await search(self.mode, question, agents, proposer, self.budget)

    @cached_property
    def scorer(self) -> AnalogyScorer:
        """The scorer that proposes hops from the learned model."""
        assert self.model
        return AnalogyScorer(self.model)

    def __str__(self) -> str:
        width, depth, calls = self.budget.width, self.budget.depth, self.budget.calls
        return f"{self.mode}, {width:,} wide, {depth:,} deep, {calls:,} calls at most"

    @cached_property
    def digest(self) -> str:
        """The hash of all that decides which decomposition is found."""
        learned = write_model(self.model) if self.model else ""
        return digest([learned, self.mode, repr(self.budget)])


@dataclass(eq=False)
class ToolFile:
    """A file of tools, and its toolbox while a question needs it.

    Args:
        path: the file.
        digest: the hash of its text, and of the indexes that it names.
    """

    path: str
    digest: str
    _toolbox: Toolbox | None = None
    _users: int = field(default=0, init=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without its toolbox: a worker reads the file with its own environment."""
        return ToolFile, (self.path, self.digest)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Toolbox]:
        """The tools, for one question; connections are closed when no question uses them.

        Raises:
            InputError: the file cannot be used here.
        """
        toolbox = self._toolbox = self._toolbox or load_tools(self.path)
        self._users += 1
        try:
            yield toolbox.afresh()
        finally:
            self._users -= 1
            if not self._users:
                await toolbox.close()


def load_tool_file(path: str) -> ToolFile | None:
    """The tools of a file, or no tools for `NO_TOOLS`; None for an empty path.

    Raises:
        InputError: the file cannot be used.
    """
    if not path:
        return None
    toolbox = load_tools(path)
    decisive: list[Any] = [path if path == NO_TOOLS else read_source(path, "tools").digest]
    for declared in read_tools(path).tools:
        if isinstance(declared.how, Search):
            # An index may be rebuilt under the same path.
            info = open_index(str(declared.how.index)).info
            decisive.append([declared.tool.name, info.digest, info.engine])
        elif isinstance(declared.how, InstalledTool):
            decisive.append([declared.tool.name, load_library(declared.how.action).digest])
        elif isinstance(declared.how, McpServer):
            of = f"{declared.tool.name}_"
            served = [tool for name, tool in toolbox.tools.items() if name.startswith(of)]
            decisive.append([[tool.name, tool.about, tool.json_schema] for tool in served])
    return ToolFile(path, digest(decisive), toolbox)


def own_actions(library: Library) -> int:
    """How many actions a library has beside the builtins."""
    return sum(not action.is_builtin for action in library.actions.values())


@dataclass(frozen=True, slots=True)
class PlanningSetup:
    """What plans are written with.

    Args:
        library: the actions they may call.
        demonstrations: example plans that this library can run.
    """

    library: Library
    demonstrations: tuple[Demonstration, ...] = ()

    @property
    def about(self) -> tuple[str, str, str, str]:
        """The cells of a report's table: the library, how many actions it has beside the builtins,
        how many demonstrations are shown, and what carries out its actions: those of ``model``,
        ``by example``, ``builtin`` and ``function`` that there are."""
        common = builtins()
        bodies = [own.body for own in self.library.actions.values() if own.name not in common]
        kinds = {
            "model": any(isinstance(body, Prompt) and not body.examples for body in bodies),
            "by example": any(isinstance(body, Prompt) and body.examples for body in bodies),
            "builtin": any(isinstance(body, Builtin) for body in bodies),
            "function": any(isinstance(body, Function) for body in bodies),
        }
        handled_by = " and ".join(kind for kind, there in kinds.items() if there) or "model"
        own, shown = own_actions(self.library), len(self.demonstrations)
        return ", ".join(self.library.names), f"{own:,}", f"{shown:,}", handled_by


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationContext(StrategySettings):
    """What methods share: the settings of their strategies, and more.

    Args:
        setups: planning setups, by name; `LIBRARY` is the user's choice.
        search: how decompositions are searched for; None for the default.
        tools: the tools that REBEL may call; None for a search of the question's own document.
        embed: the embedding that tells whether two questions are the same.
        examples: the most worked examples that a prompt for structured output shows.
        metric: scores answers; None for the data set's own scores.
        own: the user's own strategies, by the names of their methods.
    """

    setups: Mapping[str, PlanningSetup]
    search: HopSearch | None = None
    tools: ToolFile | None = None
    embed: Embed = field(default_factory=TfIdf)
    examples: int = 0
    metric: Scorer | None = None
    own: Mapping[str, OwnStrategy] = field(default_factory=lambda: MappingProxyType({}))

    def setup_name(self, name: str) -> str:
        """The name of the setup to use: `LIBRARY` where there is none for `STEPWISE`."""
        return LIBRARY if name == STEPWISE and STEPWISE not in self.setups else name

    def setup(self, name: str) -> PlanningSetup:
        """The setup to use for a name (`setup_name`)."""
        return self.setups[self.setup_name(name)]

    def digest(self, method: str) -> str:
        """The hash of all that decides the answers of this method, besides the question."""
        shown = {
            name: [own.library.digest, [[demo.question, demo.plan] for demo in own.demonstrations]]
            for name, own in self.setups.items()
        }
        searched = self.search.digest if self.search else ""
        retrieved = [type(self.retriever).__name__] if self.retriever else []
        if isinstance(self.retriever, CorpusRetriever):
            retrieved = [self.retriever.info.digest, self.retriever.info.engine]
        limits = [self.limits.steps, self.limits.depth, self.limits.calls, self.limits.width]
        tools = self.tools.digest if self.tools else ""
        strategy = next((spec for spec in STRATEGIES if spec.name == method), None)
        if own := self.own.get(method) or (not strategy and extension("strategies", method)):
            strategy = own_strategy(own, method)
        uses = strategy.uses if strategy else ()
        reached = [tools if use == "tools" else self.embed.identity for use in uses]
        decisive = [method, shown, self.passes, searched, retrieved, limits, reached, self.examples]
        # Settings that are not set are left out, so that digests older than a setting stay.
        set_too = (
            strategy and strategy.version,
            self.metric and [self.metric.name, self.metric.version],
            self.shown,
            "turns" if method in MACHINES and self.turns else "",
            self.passages and ["passages", self.passages],
        )
        return digest([*decisive, *filter(None, set_too)])


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a method on one question.

    Args:
        answer: the chosen option's letter, or the answer; None where there is none.
        words: the open answer.
        orders: as in `Result`.
        measures: further measures of the answer or the run, by name.
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
        answer: answers one example.
        setup: the name of its planning setup, which a report's head shows; empty for a method
            that has its own actions and is shown no plans.
        prose: whether it answers in sentences, which are shortened for data
            sets with short answers.
        plans: whether the plan that it runs was written by the model, and not by Pearl.
        shown: whether it is shown the demonstrations of its setup.
        needs_model: whether it asks for text that the offline reader does not write.
        uses: those options of ``pearl eval`` that it uses, among those not used by every method.
        lacks: says what it needs but does not have, as words after its name; empty where it can
            begin.
        actions: gives the library that its steps call; None for that of its setup, or else of
            `LIBRARY`.
    """

    name: str
    answer: AnswerOne
    setup: str = LIBRARY
    prose: bool = False
    plans: bool = True
    shown: bool = True
    needs_model: bool = False
    uses: tuple[str, ...] = ()
    lacks: Callable[[EvaluationContext, Example], str] = lambda *_: ""
    actions: Callable[[EvaluationContext], Library] | None = None

    def library(self, shared: EvaluationContext) -> Library:
        """The library of its steps, for a run's head, so that its trace can be read with it."""
        return self.actions(shared) if self.actions else shared.setup(self.setup or LIBRARY).library


def always(library: str) -> Callable[[EvaluationContext], Library]:
    """The `Method.actions` of a method with actions of its own."""
    return lambda _: load_library(library)


def setups_in_use(methods: Sequence[Method], shared: EvaluationContext) -> dict[str, list[str]]:
    """The planning setups that methods use, each with the names of those methods."""
    users: dict[str, list[str]] = {}
    for method in methods:
        if name := shared.setup_name(method.setup):
            users.setdefault(name, []).append(method.name)
    return dict(sorted(users.items(), key=lambda item: item[0] != LIBRARY))


def planned_with(
    methods: Sequence[Method], shared: EvaluationContext
) -> dict[str, tuple[str, str, str, str]]:
    """For each method with a planning setup, that setup's `PlanningSetup.about`."""
    texts = {}
    for method in (method for method in methods if method.setup):
        libraries, actions, shown, handled_by = shared.setup(method.setup).about
        texts[method.name] = (libraries, actions, shown if method.shown else "0", handled_by)
    return texts


def describe(
    methods: Sequence[Method], shared: EvaluationContext, context: Context
) -> Iterator[list[str]]:
    """Rows of a report's head: the setups in use, and settings that differ from the defaults."""
    names_of = {method.name for method in methods}
    users = setups_in_use(methods, shared)
    for name, names in users.items():
        of = "" if name == LIBRARY or len(users) == 1 else f" of {', '.join(names)}"
        libraries, _, shown, _ = shared.setups[name].about
        own = counted(own_actions(shared.setups[name].library), "action")
        yield [f"library{of}", f"{libraries}, {own}"]
        yield [f"demonstrations{of}", shown]
    search = shared.search if any(name.startswith("tmn") for name in names_of) else None
    retriever, metric = shared.retriever, shared.metric
    window = f"{context.window:,} tokens, " if context.window else ""
    facts = {
        "window": f"{window}{context.policy}" if window or context.policy != "auto" else "",
        "metric": metric and f"{metric.name} (sha256 {metric.version[:8]})",
        "rubric": shorten(str(metric.rubric), 200) if isinstance(metric, Graded) else "",
        "learned": search and search.learned,
        "search": search and str(search),
        "index": retriever.info.corpus if isinstance(retriever, CorpusRetriever) else "",
        "passages": shared.passages and f"{shared.passages:,} of each look-up",
        "tools": shared.tools and shared.tools.path,
        "shown": shared.shown and f"{shared.shown:,} of a library's actions, beside its builtins",
        "examples": shared.examples and f"{shared.examples:,} at most of each structured output",
        "states": "turns of one conversation" if shared.turns and names_of & {*MACHINES} else "",
        "limits": ", ".join(
            f"{limit.name} {value:,}"
            for limit in fields(Limits)
            if (value := getattr(shared.limits, limit.name)) != getattr(DEFAULT_LIMITS, limit.name)
        ),
    }
    yield from ([name, text] for name, text in facts.items() if text)


def prepare_method(name: str, setup: str, shared: EvaluationContext, session: Session) -> Prepared:
    """A strategy, prepared with the settings of an evaluation.

    Args:
        name: as on the command line.
        setup: the name of its planning setup; empty for a strategy with its own actions.

    Raises:
        InputError: it needs a language model where there is none.
    """
    planning = shared.setup(setup) if setup else None
    most, turns = shared.shown if name == "pearl" else 0, shared.turns and name in MACHINES
    settings = replace(shared, shown=most, turns=turns)
    model, library = planner_of(session.engine.model).name, planning.library if planning else None
    own = shared.own.get(name)
    plans = planning and not own and find_strategy(name).demonstrations
    shown = planning.demonstrations if planning and plans else None
    return prepare(own or name, model, library, shown, settings)


async def run(
    ready: Prepared, example: Example, session: Session, tools: Tools | None = None
) -> tuple[Strategy, Finished]:
    """Run a strategy, and return it with the finished run, as it may have measures of it."""
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
    """An outcome with its final answer: the open one, or the option it is mapped to.

    Args:
        outcome: the outcome without its answer.
        text: the open answer.
        parts: the parts that the answer was joined from (`answer_parts`).
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
    """The outcome of a run whose whole text is the answer, mapped to an option where there are
    options; ``measures`` are added to it."""
    text = finished.text
    outcome = Outcome(text, text, measures={**measures, **grounding(finished, example, session)})
    return await conclude(outcome, text, example, session, answer_parts(finished))


def grounding(finished: Finished, example: Example, session: Session) -> Mapping[str, float]:
    """The measure ``grounded``: whether a passage of the document supports a run's answer; nothing
    without a document."""
    if example.document == NO_DOCUMENT:
        return {}
    quotes = quotes_behind(finished, session.journal.entries, example.document)
    return {"grounded": float(any(quote.span for quote in quotes))}


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
    """The measures ``none_fits``, that the model found no option to fit, and ``guessed``, that the
    offline reader picked the answer by words alone; each only where it is so."""
    marks = {"none_fits": option is not None and not option.fits, "guessed": guessed}
    return {name: 1.0 for name, so in marks.items() if so}
