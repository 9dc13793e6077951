"""What each method does with a question: strategies, as in ``pearl ask``, and baselines.

The strategies are PEARL, its ablations, and PEARL with libraries of several sizes (PEARL, sections
2 and 4); decomposed prompting (Khot et al., ICLR 2023); least-to-most (Zhou et al., ICLR 2023);
ReAct (Yao et al., ICLR 2023); FSM prompting (Wang et al., 2024); REBEL (Sodani et al., 2023); and
talking to agents hop by hop, proposed by a learned or a language model (CommaQA, Khot et al.,
Findings of ACL 2022, section 4).

The baselines are one prompt, or a fixed plan: the question alone (PEARL, section 3: the baseline
GQA), zero-shot chain of thought (Kojima et al., 2022), multiple choice under several orders of the
options (PEARL, appendix), rolled-out chain of thought and retrieve-and-read (Khot et al., ICLR
2023, section 4), and one structured output: the answer only, or its evidence too (Wang et
al., "FSM: A Finite State Machine Based Zero-Shot Prompting Paradigm for Multi-Hop Question
Answering", 2024, settings 1 and 2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from pearl.answer import cached_tools, map_answer, read_option, reads_by_words, start
from pearl.commaqa.agents import Agents, handlers
from pearl.commaqa.search import SEARCH, HopScorer, LanguageModelScorer, Tmn
from pearl.commaqa.world import World
from pearl.evaluate.datasets.base import NO_DOCUMENT, Example
from pearl.evaluate.methods.base import (
    LIBRARY,
    PLANS_WITH,
    STEPWISE,
    EvaluationContext,
    HopSearch,
    Method,
    Outcome,
    answer_and_map,
    conclude,
    conclude_text,
    grounding,
    own_actions,
    prepare_method,
    run,
)
from pearl.evaluate.supporting_facts import support_measures
from pearl.lang.ast import Literal, Plan
from pearl.lang.builtins import conclusion
from pearl.lang.library import Library, load_library
from pearl.lang.source import Source
from pearl.lang.values import as_text, canonical_json, to_json
from pearl.prompts.calls import MapAnswer, letter_of
from pearl.retrieval.retriever import DocumentRetriever
from pearl.runtime.calls import Caller, Entry, at_most
from pearl.runtime.executor import NONE, Frame, Handlers
from pearl.runtime.loop import Finished, RunError, Strategy, run_strategy
from pearl.session import Session
from pearl.strategies import baselines
from pearl.strategies.fsm import Fsm, field_of, sentences
from pearl.strategies.pearl import GivenPlan, check_fits, shown_plans
from pearl.strategies.preparation import lacking_solver, prepare_own
from pearl.strategies.react import React
from pearl.strategies.rebel import Rebel
from pearl.strategies.retrieving import with_retriever

# Strategies.

NO_REFINEMENT = "pearl-no-refinement"
"""The name of the ablation that needs the first versions of refined demonstrations."""

_SIZED = "pearl@"


async def run_pearl(
    setup: str, example: Example, shared: EvaluationContext, session: Session
) -> Outcome:
    """Write a plan with a setup, run it, and map its answer to an option."""
    return await answer_and_map(prepare_method("pearl", setup, shared, session), example, session)


def lacks_solver(setup: str, shared: EvaluationContext, _: Example) -> str:
    """A message about an action of a setup's library that nothing carries out; empty for none."""
    lacking = lacking_solver(shared.setup(setup).library, decomposes=setup == STEPWISE)
    more = "Name a --library whose actions the model carries out, or another method."
    return lacking and f"cannot be evaluated: {lacking} {more}"


async def show_plan(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """Write a plan, show it with the question instead of running it, and map the answer."""
    setup = shared.setups[LIBRARY]
    check_fits(example.question, example.document, setup.library, session.context)
    ready = prepare_own(
        lambda caller: baselines.PlanShown(
            setup.library, caller, setup.demonstrations, shared.shown
        ),
        setup.library,
    )
    return await answer_and_map(ready, example, session)


def with_setup(name: str, setup: str) -> Method:
    """PEARL that plans with a setup."""
    lacks = partial(lacks_solver, setup)
    uses = ("shown", "passages", "index", *PLANS_WITH)
    return Method(name, partial(run_pearl, setup), setup, prose=True, uses=uses, lacks=lacks)


def size_of(name: str) -> int:
    """The library size in a method's name, such as ``pearl@20``; 0 for none."""
    number = name.removeprefix(_SIZED)
    return int(number) if name != number and number.isdecimal() else 0


def with_sizes(
    methods: Sequence[str], sizes: Sequence[int], library: Library
) -> tuple[tuple[str, ...], tuple[int, ...], tuple[str, ...]]:
    """The methods and the library sizes of an evaluation.

    A size above the library's own is replaced by that, so that a report names the true size.

    Args:
        methods: names, as the user gave them.
        sizes: further numbers of actions.
        library: the library to be condensed.

    Returns:
        The names without repeats, with ``pearl@N`` for each size; the sizes without repeats, in
        actions beside the builtins; and notes on what was changed, in whole sentences.
    """
    most = own_actions(library)
    names: dict[str, str] = {}
    for name in (*methods, *(f"{_SIZED}{size}" for size in sizes)):
        size = size_of(name)
        names[name] = f"{_SIZED}{min(size, most)}" if size else name
    notes = tuple(
        f"The library has {most:,} actions beside the builtins, so {name} is {new}."
        for name, new in names.items()
        if name != new
    )
    unique = tuple(dict.fromkeys(names.values()))
    return unique, tuple(size for name in unique if (size := size_of(name))), notes


async def by_name(
    name: str, setup: str, example: Example, shared: EvaluationContext, session: Session
) -> Outcome:
    """Answer with a strategy; its whole text is the answer.

    Args:
        name: as on the command line.
        setup: the name of its planning setup; empty for a strategy with its own actions.
    """
    _, finished = await run(prepare_method(name, setup, shared, session), example, session)
    return await conclude_text(finished, example, session)


async def react_with_evidence(
    example: Example, shared: EvaluationContext, session: Session
) -> Outcome:
    """ReAct in setting 2 of FSM's paper, where Finish also gives supporting facts and triples."""
    _, frame = start(prepare_method("react", "", shared, session), example.document, session)
    reacting = React(frame.caller, evidence=True)
    finished = await run_strategy(reacting, example.question, frame)
    _, facts, triples = (
        arg.value if isinstance(arg, Literal) else [] for arg in finished.plan.steps[-1].args
    )
    texts = [_texts(triple) for triple in triples] if isinstance(triples, list) else []
    measures = support_measures(example, finished.text, _texts(facts), texts)
    return await conclude_text(finished, example, session, measures)


def _texts(value: object) -> list[str]:
    return [as_text(item) for item in value] if isinstance(value, list) else []


async def least_to_most(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """Answer sub-questions, the simplest first, and then the question itself."""
    library = shared.setups[LIBRARY].library
    check_fits(example.question, example.document, library, session.context)
    ready = prepare_own(baselines.LeastToMost, library)
    return await answer_and_map(ready, example, session)


async def machine(
    name: str, example: Example, shared: EvaluationContext, session: Session
) -> Outcome:
    """FSM prompting over the question's paragraphs: ``fsm1``, or ``fsm2`` with its review."""
    strategy, finished = await run(prepare_method(name, "", shared, session), example, session)
    assert isinstance(strategy, Fsm)
    measures = {
        "hops": float(strategy.hops),
        "backtracks": float(strategy.backtracks),
        **_evidence(example, finished),
    }
    return await conclude_text(finished, example, session, measures)


def _evidence(example: Example, finished: Finished) -> Mapping[str, float]:
    """Measures of the evidence: the review's, or else the sentences that searches quoted."""
    steps = finished.plan.steps
    reviews = [finished.values[step.name] for step in steps if step.action == "REVIEW"]
    records = [finished.values[step.name] for step in steps if step.action == "SEARCH"]
    stated = field_of(reviews[-1], "triples") if reviews else None
    triples = [_texts(triple) for triple in stated] if isinstance(stated, list) else []
    quotes = [field_of(review, "supporting_facts") for review in reviews[-1:]]
    quotes = quotes or [field_of(record, "evidence") for record in records]
    copied = [sentence for each in quotes for sentence in sentences(each)]
    reviewed = triples if reviews else None
    return support_measures(example, finished.text, copied, reviewed)


async def rebel(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """Split the question, and answer its parts by tools; by default the only tool searches the
    question's document, or the index that was named."""
    ready = prepare_method("rebel", "", shared, session)
    if shared.tools is None:
        strategy, finished = await run(ready, example, session)
    else:
        async with shared.tools.open() as toolbox:
            tools = cached_tools(toolbox, session, f"{example.id} {example.question}")
            strategy, finished = await run(ready, example, session, tools)
    assert isinstance(strategy, Rebel)
    spent = strategy.spent
    measures = {"tool_calls": float(spent.tool_calls), "depth": float(spent.deepest)}
    return await conclude_text(finished, example, session, measures)


def nothing_to_search(shared: EvaluationContext, example: Example) -> str:
    """What REBEL lacks where there is neither a document, an index nor a tool."""
    if shared.tools is None and shared.retriever is None and example.document == NO_DOCUMENT:
        return "has no document to search: name --tools FILE, --tools none or --index DIR."
    return ""


def nothing_to_look_up(shared: EvaluationContext, example: Example) -> str:
    """What a method that looks up passages lacks where there is neither a document nor an index."""
    if shared.retriever is None and example.document == NO_DOCUMENT:
        return "has no document to search: name --index DIR."
    return ""


def no_document(_: EvaluationContext, example: Example) -> str:
    """What a machine lacks that searches the question's document, where there is none."""
    return "has no document to search." if example.document == NO_DOCUMENT else ""


# Baselines: one prompt, or a fixed plan.


async def one_step(
    plan_of: Callable[[str], Plan], example: Example, shared: EvaluationContext, session: Session
) -> Outcome:
    """Run the one-step plan that ``plan_of`` makes for a question, and map its answer."""
    plan = plan_of(example.question)
    if example.document == NO_DOCUMENT:
        plan = baselines.without_document(plan)
    ready = prepare_own(lambda _: GivenPlan(plan), shared.setups[LIBRARY].library)
    return await answer_and_map(ready, example, session)


async def rolled_out(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """One step that is shown the demonstrations as chains of thought."""
    setup = shared.setup(STEPWISE)
    shown = shown_plans(setup.demonstrations)
    plan_of = partial(baselines.rolled_out_plan, shown=shown, library=setup.library)
    return await one_step(plan_of, example, shared, session)


async def multiple_choice(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """One step for each of up to four orders of the options, as a model may prefer a position.

    For four options they are the paper's: as given, A↔D B↔C, A↔C B↔D, A↔B C↔D. The answer is the
    one under the data set's own order. A reply that names no option is mapped to one.
    """
    orders = orders_of(example.options)
    texts = [[example.options[at] for at in order] for order in orders]
    plan = baselines.choosing_plan(example.question, texts)
    finished = await _run(GivenPlan(plan), example, shared.setups[LIBRARY].library, session)
    chosen: list[str | None] = []
    for step, order, options in zip(plan.steps, orders, texts, strict=True):
        reply = as_text(finished.values[step.name])
        caller = session.caller()
        caller = replace(caller, journal=caller.journal.under(step.name))
        place = await _choice(reply, options, example.question, caller)
        chosen.append(None if place is None else letter_of(example.options, order[place]))
    first = replace(finished, outputs=finished.outputs[:1])
    words = as_text(finished.values[plan.steps[0].name])
    picked = chosen[0] is not None and reads_by_words(session.engine.model)
    measures = {**grounding(first, example, session), **({"guessed": 1.0} if picked else {})}
    return Outcome(chosen[0], words, orders=tuple(chosen), measures=measures)


def lacks_options(_: EvaluationContext, example: Example) -> str:
    """What multiple choice lacks for a question without options; empty where it has some."""
    return "" if example.options else f"needs options, and question {example.id} has none."


PAPER = ((0, 1, 2, 3), (3, 2, 1, 0), (2, 3, 0, 1), (1, 0, 3, 2))
"""The orders of four options (PEARL, appendix)."""


def orders_of(options: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Up to four orders in which no option has the same position twice; each order is given as
    indices of ``options``."""
    size = len(options)
    if size == len(PAPER):
        return PAPER
    turns = range(min(len(PAPER), size))
    return tuple(tuple((at + turn) % size for at in range(size)) for turn in turns)


async def _choice(reply: str, options: Sequence[str], question: str, caller: Caller) -> int | None:
    """The index of the option that a reply chose, in the order that was shown."""
    first, _, rest = reply.partition("\n")
    place = read_option(first, options)
    if place is None and rest:
        place = read_option(reply, options)
    if place is None:
        try:
            call = MapAnswer(question, reply, tuple(options))
            option = await map_answer(call, caller)
            place = options.index(option.text) if option.named else None
        except RunError:
            return None
    return place


_HEADING = 4
"""The most words of a line that may be a heading rather than a sentence."""


async def retrieve_and_read(
    example: Example, shared: EvaluationContext, session: Session
) -> Outcome:
    """Look passages up for the question itself, and answer from them in one step."""
    passages = shared.passages or baselines.PASSAGES
    plan = baselines.retrieve_read_plan(example.question, passages)
    handlers = with_retriever(NONE, example.document, shared.retriever)
    finished = await _run(GivenPlan(plan), example, retrieving(shared), session, handlers)
    outcome = await conclude_text(finished, example, session)
    lines = finished.text.splitlines()
    # A passage is shown after its title.
    parts = (part for line in lines for part in (line, line.partition(": ")[2]))
    if any(example.document.find(part) for part in parts if len(part.split()) > _HEADING):
        # A sentence of the document counts as a quote, as the model saw only passages.
        outcome = replace(outcome, measures={**outcome.measures, "grounded": 1.0})
    return outcome if example.options else replace(outcome, answer=conclusion(finished.text))


def retrieving(shared: EvaluationContext) -> Library:
    """The library for looking passages up and reading them: that of `STEPWISE`, if it can."""
    library = shared.setup(STEPWISE).library
    steps = baselines.retrieve_read_plan("?").steps
    if all(step.action in library.actions for step in steps):
        return library
    return load_library(baselines.RETRIEVAL_LIBRARY)


async def in_form(
    action: str, example: Example, shared: EvaluationContext, session: Session
) -> Outcome:
    """Ask for one structured output by an action of the library ``asking``, and measure its
    evidence where it has any."""
    document = None if example.document == NO_DOCUMENT else example.document
    plan = baselines.asking_plan(action, example.question)
    handlers = baselines.asking(session.caller(), document)
    finished = await _run(
        GivenPlan(plan), example, load_library(baselines.LIBRARY), session, handlers
    )
    reply = baselines.fields_of(finished.values[baselines.OUTPUT])
    answer = reply["answer"]
    facts = reply.get("supporting_facts", [])
    measures = {"grounded": float(any(map(document.find, facts)))} if document else {}
    if "supporting_facts" in reply:
        measures |= support_measures(example, answer, facts, reply["triples"])
    outcome = Outcome(None, finished.text, measures=measures)
    return await conclude(outcome, answer, example, session)


async def _run(
    strategy: Strategy,
    example: Example,
    library: Library,
    session: Session,
    handlers: Handlers = NONE,
) -> Finished:
    frame = Frame(example.document, library, session.caller(), handlers)
    return await run_strategy(strategy, example.question, frame)


# CommaQA: its agents, and the baselines that read the agents' facts (section 5).

AGENTS = "commaqa"
"""The library whose actions ask agents."""


async def by_analogy(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """Search for a decomposition with a learned model, by asking the world's agents, and run it."""
    assert shared.search
    return await _run_search(shared.search, shared.search.scorer, example, session)


async def by_model(example: Example, shared: EvaluationContext, session: Session) -> Outcome:
    """Search for a decomposition with a language model's proposals, and run it."""
    decompositions = shown_plans(shared.setups[LIBRARY].demonstrations)
    search = shared.search or HopSearch()
    caller = at_most(session.caller(), shared.limits.calls)
    library, language = load_library(AGENTS), example.data.language
    scorer = LanguageModelScorer(caller, library, decompositions, search.budget.width, language)
    return await _run_search(search, scorer, example, session)


PASSAGES = 20
"""Facts that are looked up for a question, by default."""


async def facts_read(
    chosen: Callable[[World, Example, int], Sequence[str]],
    example: Example,
    shared: EvaluationContext,
    session: Session,
) -> Outcome:
    """Answer in one step from facts of the question's world, without agents.

    ``chosen`` gives the facts in words; its last argument is the most facts of a look-up.
    """
    sentences = chosen(example.data, example, shared.passages or PASSAGES)
    document = Source("facts", "\n".join(sentences))
    return await one_step(
        baselines.facts_plan, replace(example, document=document), shared, session
    )


def gold_facts(world: World, example: Example, _: int) -> Sequence[str]:
    """The facts that the gold answer rests on; none where the file does not have them."""
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
    """What reading gold facts lacks; empty where it can begin."""
    if isinstance(example.data, World) and not gold_facts(example.data, example, 0):
        return f"finds no facts_used for question {example.id}: take a file that tells them."
    return lacks_world(_, example)


def search_measures(entries: Iterable[Entry]) -> Mapping[str, float]:
    """Measures of a search, whether or not it found an answer: ``agent_calls``,
    ``agent_calls_unread`` and ``hops_tried``; nothing without a search."""
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
    """A message that a question has no world with agents and facts; empty where it has one."""
    if isinstance(example.data, World):
        return ""
    return f"finds no agents to ask question {example.id}: take the data set commaqa."


async def _run_search(
    search: HopSearch, scorer: HopScorer, example: Example, session: Session
) -> Outcome:
    agents = Agents(example.data)
    strategy = Tmn(agents, partial(search.by, scorer), session.journal)
    finished = await _run(strategy, example, load_library(AGENTS), session, handlers(agents))
    outcome = await conclude_text(finished, example, session)
    value = finished.values[finished.outputs[0]]
    return replace(outcome, answer=canonical_json(to_json(value)))
