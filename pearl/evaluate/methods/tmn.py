"""Talking to agents: hop by hop, as was learned or as a model proposes (CommaQA, section 4).

Beside it what asks no agents: one model reads the facts that they know (section 5). Each of these
methods is tried where its ``lacks_`` function finds nothing missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pearl.commaqa.agents import Agents, handlers
from pearl.commaqa.search import SEARCH, LanguageModelScorer, Search, Tmn
from pearl.commaqa.world import World
from pearl.evaluate.context import LIBRARY, EvaluationContext, HopSearch
from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import Outcome, conclude_text
from pearl.evaluate.methods.single import one_step
from pearl.lang.library import load_library
from pearl.lang.source import Source
from pearl.lang.values import canonical_json, to_json
from pearl.retrieval.retriever import DocumentRetriever
from pearl.runtime.calls import Entry, at_most
from pearl.runtime.executor import Frame
from pearl.runtime.loop import run_strategy
from pearl.session import Session
from pearl.strategies.baselines import facts_plan
from pearl.strategies.pearl import shown_plans

AGENTS = "commaqa"
"""The library whose actions ask agents."""


async def by_analogy(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """Search for a decomposition as was learned, by asking the world's agents, and run it."""
    assert shared.search
    return await _run_search(partial(shared.search.by, shared.search.scorer), example, session)


async def by_model(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """Search for a decomposition as a model proposes that is shown some, and run it."""
    decompositions = shown_plans(shared.setups[LIBRARY].demonstrations)
    search = shared.search or HopSearch()
    caller = at_most(session.caller(), shared.limits.calls)
    library, language = load_library(AGENTS), example.data.language
    scorer = LanguageModelScorer(caller, library, decompositions, search.budget.width, language)
    return await _run_search(partial(search.by, scorer), example, session)


PASSAGES = 20
"""Facts that are looked up for a question, where nobody says how many."""


async def facts_read(
    chosen: Callable[[World, Example, int], Sequence[str]],
    example: Example,
    shared: EvaluationContext,
    session: Session,
) -> Outcome:
    """One step that reads facts of the question's world and asks no agent.

    ``chosen`` says which facts, in words; it is given how many a look-up has at most.
    """
    sentences = chosen(example.data, example, shared.passages or PASSAGES)
    document = Source("facts", "\n".join(sentences))
    return await one_step(facts_plan, replace(example, document=document), shared, session)


def gold_facts(world: World, example: Example, _: int) -> Sequence[str]:
    """The facts that the recorded answer rests on; none where the file does not tell them."""
    used = next((item.facts for item in world.questions if item.text == example.question), ())
    return [world.sentences.get(fact, fact) for fact in used]


def found_facts(world: World, example: Example, most: int) -> Sequence[str]:
    """The facts that bear most on the question, by BM25, in the world's order."""
    facts = Source("facts", "\n\n".join(world.sentences.values()))
    texts = {passage.text for passage in DocumentRetriever(facts).search(example.question, most)}
    return [fact for fact in world.sentences.values() if fact in texts]


def all_facts(world: World, _: Example, __: int) -> Sequence[str]:
    """Every fact of the world."""
    return list(world.sentences.values())


def lacks_facts(_: EvaluationContext, example: Example) -> str:
    """What reading facts lacks; empty where it can begin."""
    if isinstance(example.data, World) and not gold_facts(example.data, example, 0):
        return f"finds no facts_used for question {example.id}: take a file that tells them."
    return lacks_world(_, example)


def search_measures(entries: Iterable[Entry]) -> Mapping[str, float]:
    """What a search took, by a run's journal, whether it came to an answer or not.

    ``agent_calls``, how many of them no agent could read, and ``hops_tried``; nothing where nothing
    was searched.
    """
    counts: Mapping[str, int] = next((entry.value for entry in entries if entry.path == SEARCH), {})
    return {name: float(count) for name, count in counts.items() if name != "hops"}


def lacks_learned(shared: EvaluationContext, example: Example) -> str:
    """What a search by analogy needs and does not have; empty where it can begin."""
    if shared.search is None or shared.search.model is None:
        return "needs what was learned: name it with --learned FILE."
    return lacks_world(shared, example)


def lacks_decompositions(shared: EvaluationContext, example: Example) -> str:
    """What a search by a model needs and does not have; empty where it can begin."""
    if not shared.setups[LIBRARY].demonstrations:
        return (
            "needs decompositions to show: name their folder with --demos, and --library "
            f"{AGENTS}; those of questions that are evaluated are not shown."
        )
    return lacks_world(shared, example)


def lacks_world(_: EvaluationContext, example: Example) -> str:
    """That there are no agents to ask, and no facts to read; empty where there are."""
    if isinstance(example.data, World):
        return ""
    return f"finds no agents to ask question {example.id}: take the data set commaqa."


async def _run_search(search: Search, example: Example, session: Session) -> Outcome:
    agents = Agents(example.data)
    parts = (load_library(AGENTS), session.caller(), session.context, handlers(agents))
    strategy, frame = Tmn(agents, search, session.journal), Frame(example.document, *parts)
    finished = await run_strategy(strategy, example.question, frame)
    outcome = await conclude_text(finished, example, session)
    value = finished.values[finished.outputs[0]]
    return replace(outcome, answer=canonical_json(to_json(value)))
