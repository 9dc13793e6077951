"""What the methods of an evaluation share: what plans are written with, tools, limits, a search."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from pearl.commaqa.agents import Agents
from pearl.commaqa.analogy import AnalogyScorer
from pearl.commaqa.model import Model, write_model
from pearl.commaqa.search import Budget, Scorer, SearchMode, SearchResult, search
from pearl.evaluate.datasets.base import Example
from pearl.jobs.questions import comparable
from pearl.jobs.scoring import Scorer as AnswerScorer
from pearl.lang.ast import Prompt
from pearl.lang.extensions import extension
from pearl.lang.library import Library, builtins, load_library
from pearl.lang.parser import parse_known
from pearl.lang.source import Source, read_source
from pearl.lang.values import digest
from pearl.mining.condense import condense
from pearl.models.embeddings import Embed, TfIdf
from pearl.prompts.calls import Demonstration
from pearl.retrieval.index import CorpusRetriever
from pearl.strategies.pearl import choose_demonstrations
from pearl.strategies.registry import MACHINES, STRATEGIES, OwnStrategy, Settings, own_strategy
from pearl.tools.declared import NO_TOOLS, Search, load_tools, read_tools
from pearl.tools.functions import Entry
from pearl.tools.toolbox import Toolbox

LIBRARY = "library"
UNREFINED = "unrefined"
EXECUTE = "execute"
STEPWISE = "stepwise"
"""Names of planning setups: as asked for; with the demonstrations as they were before refinement;
with nothing but EXECUTE and CONCAT; for steps that are written one at a time, where nobody said
with what."""

STEPWISE_LIBRARY = "open_domain"
"""The library of those steps, and the demonstrations that ship for it."""


@dataclass(frozen=True)
class HopSearch:
    """How decompositions into hops are searched for, and who proposes (CommaQA).

    Args:
        model: what was learned; None where nothing was.
        mode: TMN-G or TMN-S.
        budget: what a question may take.
        learned: the file that the model is from; empty where nothing was learned.
    """

    model: Model | None = None
    mode: SearchMode = "best-first"
    budget: Budget = field(default_factory=Budget)
    learned: str = ""

    async def by(self, proposer: Scorer, question: str, agents: Agents) -> SearchResult:
        """Search for a decomposition of one question, with somebody's proposals."""
        return await search(self.mode, question, agents, proposer, self.budget)

    @cached_property
    def scorer(self) -> AnalogyScorer:
        """The learned model as what proposes hops to the search."""
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
        """Sent to a worker without what the environment gave: it reads its own."""
        return ToolFile, (self.path, self.digest)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Toolbox]:
        """The tools, for one question; connections are let go when no question has them.

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
    """The tools of a file, or of `NO_TOOLS` none at all; None where nothing is named.

    Raises:
        InputError: the file cannot be used.
    """
    from pearl.retrieval.index import open_index
    from pearl.tools.mcp import Server

    if not path:
        return None
    toolbox = load_tools(path)
    decisive: list[Any] = [path if path == NO_TOOLS else read_source(path, "tools").digest]
    for declared in read_tools(path).tools:
        if isinstance(declared.how, Search):
            # An index may be made anew where it is.
            info = open_index(str(declared.how.index)).info
            decisive.append([declared.tool.name, info.digest, info.engine])
        elif isinstance(declared.how, Entry):
            decisive.append([declared.tool.name, load_library(declared.how.action).digest])
        elif isinstance(declared.how, Server):
            of = f"{declared.tool.name}_"
            served = [tool for name, tool in toolbox.tools.items() if name.startswith(of)]
            decisive.append([[tool.name, tool.about, tool.json_schema] for tool in served])
    return ToolFile(path, digest(decisive), toolbox)


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
        """As a table of a report says it.

        The library, how many actions it has beside the builtins, how many demonstrations are
        shown, and who carries out its actions: ``builtin``, ``by example``, both, or the model.
        """
        common, actions = builtins(), self.library.actions.values()
        kinds = {
            "builtin": any(action.is_builtin and action.name not in common for action in actions),
            "by example": any(
                isinstance(action.body, Prompt) and action.body.examples for action in actions
            ),
        }
        handled_by = " and ".join(kind for kind, there in kinds.items() if there) or "model"
        own, shown = own_actions(self.library), len(self.demonstrations)
        return ", ".join(self.library.names), f"{own:,}", f"{shown:,}", handled_by


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationContext(Settings):
    """What methods share: the settings of their strategies, and more.

    Args:
        setups: what plans are written with, by name; `LIBRARY` is what was asked for.
        search: how decompositions are searched for; None where nobody said.
        tools: what REBEL may call; None for a search of the question's own document.
        embed: tells whether two questions are the same.
        examples: worked examples that a demand for a form shows, at most.
        metric: what scores answers; None for the data set's own.
        own: strategies of a person's own, by the names under which they are methods.
    """

    setups: Mapping[str, PlanningSetup]
    search: HopSearch | None = None
    tools: ToolFile | None = None
    embed: Embed = field(default_factory=TfIdf)
    examples: int = 0
    metric: AnswerScorer | None = None
    own: Mapping[str, OwnStrategy] = field(default_factory=lambda: MappingProxyType({}))

    def setup_name(self, name: str) -> str:
        """The setup that stands for a name: without one for steps, the library's."""
        return LIBRARY if name == STEPWISE and STEPWISE not in self.setups else name

    def setup(self, name: str) -> PlanningSetup:
        """The setup of a name, as `setup_name` has it."""
        return self.setups[self.setup_name(name)]

    def digest(self, method: str) -> str:
        """The hash of what decides the answers of the method of a name, beside the question."""
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
        # What nobody has set is no part of it: digests of before there was the setting stay.
        set_too = (
            strategy and strategy.version,
            self.metric and [self.metric.name, self.metric.version],
            self.shown,
            "turns" if method in MACHINES and self.turns else "",
            self.passages and ["passages", self.passages],
        )
        return digest([*decisive, *filter(None, set_too)])


@dataclass(frozen=True)
class Demonstrations:
    """Example plans for an evaluation.

    Args:
        refined: plans with their question.
        unrefined: the same as they were written first; empty where they are
            not known.
        left_out: questions that are evaluated, so that their plans are not
            shown.
        seed: what is shown too where a library can run few of them.
        execute: what is shown with nothing but EXECUTE and CONCAT.
    """

    refined: tuple[Source, ...]
    unrefined: tuple[Source, ...] = ()
    left_out: tuple[str, ...] = ()
    seed: tuple[Source, ...] = ()
    execute: tuple[Source, ...] = ()


def without_evaluated(
    demonstrations: Demonstrations, examples: Sequence[Example]
) -> Demonstrations:
    """Demonstrations without those whose question is to be evaluated.

    A plan that was refined until its answer was right would otherwise be shown to the planner
    beside the very question it answers.
    """
    evaluated = {comparable(example.question) for example in examples}

    def split(sources: tuple[Source, ...]) -> tuple[tuple[Source, ...], tuple[str, ...]]:
        questions = [(source, parse_known(source).plan.question) for source in sources]
        others = tuple(source for source, text in questions if comparable(text) not in evaluated)
        return others, tuple(text for _, text in questions if comparable(text) in evaluated)

    refined, left_out = split(demonstrations.refined)
    others = (demonstrations.unrefined, demonstrations.seed, demonstrations.execute)
    unrefined, seed, execute = (split(sources)[0] for sources in others)
    return Demonstrations(refined, unrefined, left_out, seed, execute)


def make_context(
    library: Library,
    demonstrations: Demonstrations,
    sizes: Sequence[int] = (),
    stepwise: Demonstrations | None = None,
) -> EvaluationContext:
    """What methods share.

    Libraries of several sizes are shown the same demonstrations: those that all of them can run,
    where there are any.

    Args:
        library: the actions that plans may call.
        demonstrations: none of an evaluated question (`without_evaluated`).
        sizes: numbers of actions that the library is also condensed to.
        stepwise: what decompositions over passages are written after, where the library and
            the demonstrations are for whole plans; None where they are for decompositions.
    """

    def setup(library: Library, sources: Sequence[Source]) -> PlanningSetup:
        shown = choose_demonstrations(sources, library, seed=demonstrations.seed)
        return PlanningSetup(library, shown)

    setups = {
        LIBRARY: setup(library, demonstrations.refined),
        UNREFINED: setup(library, demonstrations.unrefined),
        EXECUTE: setup(load_library(EXECUTE), demonstrations.execute),
    }
    # What repeats its last parameter cannot be written anew: every size has it, as the builtins.
    fixed = {name: own for name, own in library.actions.items() if own.is_builtin or own.variadic}
    others = [action for name, action in library.actions.items() if name not in fixed]
    for size in sizes:
        small = {action.name: action for action in condense(others, size).actions}
        names = (*library.names, f"condensed to {size:,}")
        setups[f"@{size}"] = setup(Library(names, {**fixed, **small}), demonstrations.refined)
    sized = [setups[name] for name in (LIBRARY, *(f"@{size}" for size in sizes))]
    questions = [{shown.question for shown in each_setup.demonstrations} for each_setup in sized]
    if common := set.intersection(*questions):
        for name in (LIBRARY, *(f"@{size}" for size in sizes)):
            shown = setups[name].demonstrations
            same = tuple(demo for demo in shown if demo.question in common)
            setups[name] = replace(setups[name], demonstrations=same)
    if stepwise is not None:
        setups[STEPWISE] = setup(load_library(STEPWISE_LIBRARY), stepwise.refined)
    return EvaluationContext(setups=setups)


def own_actions(library: Library) -> int:
    """How many actions a library has beside the builtins."""
    return sum(not action.is_builtin for action in library.actions.values())
