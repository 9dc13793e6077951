"""Every method of an evaluation, in the order they are listed; a new one is a row of `METHODS`."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from pearl.evaluate.methods import strategies
from pearl.evaluate.methods.base import EXECUTE, LIBRARY, STEPWISE, UNREFINED, Method, library_of
from pearl.lang.errors import InputError
from pearl.lang.extensions import extension
from pearl.lang.text import close_name
from pearl.strategies.baselines import blind_plan, reasoning_plan
from pearl.strategies.pearl import direct_plan
from pearl.strategies.registry import OwnStrategy, own_strategy

_PROSE = partial(Method, prose=True)
_ONE_STEP = partial(Method, setup="", prose=True, plans=False)
_BY_MODEL = partial(Method, setup="", needs_model=True)
"""Methods that answer in sentences, of these the ones that plan nothing, and those with actions of
their own for a language model."""

METHODS = (
    _ONE_STEP("zero-shot", "The question is asked in one step.",
              partial(strategies.one_step, direct_plan)),
    _ONE_STEP("cot", "One step, which is to reason before it answers.",
              partial(strategies.one_step, reasoning_plan)),
    Method("mcq", "The options are shown, in four orders, and one is chosen.",
           strategies.multiple_choice, setup="", plans=False, lacks=strategies.lacks_options),
    _PROSE("pearl", "A plan is written, checked and executed.",
           partial(strategies.run_pearl, LIBRARY), lacks=partial(strategies.lacks_solver, LIBRARY)),
    _PROSE("pearl-no-execution", "The plan is shown with the question, and not executed.",
           strategies.show_plan),
    _PROSE(strategies.NO_REFINEMENT,
           "PEARL with its demonstrations as they were before refinement.",
           partial(strategies.run_pearl, UNREFINED), UNREFINED,
           lacks=partial(strategies.lacks_solver, UNREFINED)),
    _PROSE("pearl-execute-only", "PEARL with no actions but EXECUTE and CONCAT.",
           partial(strategies.run_pearl, EXECUTE), EXECUTE),
    _PROSE("decomp", "Steps are written one at a time, after seeing what the last gave.",
           partial(strategies.by_name, "decomp", STEPWISE), STEPWISE, needs_model=True,
           lacks=partial(strategies.lacks_solver, STEPWISE)),
    _PROSE("cot-rolled-out", "One step that sees the demonstrations as chains of thought.",
           strategies.rolled_out, STEPWISE, needs_model=True, plans=False),
    _ONE_STEP("least-to-most", "Sub-questions are listed first, then answered one after another.",
              strategies.least_to_most, needs_model=True, plans=True),
    _ONE_STEP("no-context", "The question is asked without the document.",
              partial(strategies.one_step, blind_plan), needs_model=True),
    _ONE_STEP("retrieve-read", "Passages for the question are looked up and read once.",
              strategies.retrieve_and_read, actions=strategies.retrieving,
              lacks=strategies.nothing_to_look_up),
    *(
        _BY_MODEL(name, about, partial(strategies.in_form, action), plans=False,
                  actions=strategies.demanding)
        for name, about, action in (
            ("normal", "One reply gives the answer alone.", "ANSWER_SHORT"),
            ("normal-evidence", "One reply gives the answer, its sentences and its triples.",
             "ANSWER_WITH_EVIDENCE"),
            ("cot-answer", "One reply reasons, and gives the answer alone.", "REASON_SHORT"),
            ("cot-evidence",
             "One reply reasons, and gives the answer, its sentences and its triples.",
             "REASON_WITH_EVIDENCE"),
            ("sp-cot",
             "One reply asks and answers sub-questions of its own, and then the question.",
             "ASK_ONESELF"),
            ("sp-cot-evidence", "As sp-cot, and it gives the answer's sentences and its triples.",
             "ASK_ONESELF_WITH_EVIDENCE"),
        )
    ),
    _BY_MODEL("react",
              "Paragraphs are searched and read a sentence at a time, as the model chooses.",
              partial(strategies.by_name, "react", ""), lacks=strategies.nothing_to_look_up,
              actions=partial(library_of, "react")),
    _BY_MODEL("react-evidence",
              "As react, and the answer comes with its sentences and its triples.",
              strategies.react_with_evidence, lacks=strategies.nothing_to_look_up,
              actions=partial(library_of, "react")),
    _BY_MODEL("fsm1", "A state machine decomposes, searches, revises and judges.",
              partial(strategies.machine, "fsm1"), lacks=strategies.no_document,
              actions=partial(library_of, "fsm1")),
    _BY_MODEL("fsm2", "As fsm1, and then a review gives facts, triples and an explanation.",
              partial(strategies.machine, "fsm2"), lacks=strategies.no_document,
              actions=partial(library_of, "fsm2")),
    _BY_MODEL("rebel", "Questions are split until a tool, or what is known, answers each part.",
              strategies.rebel, lacks=strategies.nothing_to_search,
              actions=partial(library_of, "rebel")),
    Method("tmn", "Agents are asked, hop by hop, as was learned from other questions.",
           strategies.by_analogy, setup="", lacks=strategies.lacks_learned,
           actions=strategies.asking_agents),
    Method("tmn-model", "Agents are asked, hop by hop, as the model proposes.",
           strategies.by_model, needs_model=True, lacks=strategies.lacks_decompositions,
           actions=strategies.asking_agents),
    *(
        Method(name, f"One step reads {which}, and asks no agent.",
               partial(strategies.facts_read, facts), setup="", plans=False, lacks=lacks)
        for name, which, facts, lacks in (
            ("gold-facts", "the facts that the recorded answer rests on", strategies.gold_facts,
             strategies.lacks_facts),
            ("found-facts", "the facts that are looked up for the question", strategies.found_facts,
             strategies.lacks_world),
            ("all-facts", "every fact of the question's world", strategies.all_facts,
             strategies.lacks_world),
        )
    ),
)  # fmt: skip


def find_method(name: str, own: Mapping[str, OwnStrategy] = MappingProxyType({})) -> Method:
    """The method of a name, as ``mcq`` or ``pearl@20``.

    Args:
        name: it.
        own: strategies of a person's own, which go before those that packages offer.

    Raises:
        InputError: there is none.
    """
    if size := strategies.size_of(name):
        return strategies.with_size(size)
    for method in METHODS:
        if method.name == name and name not in own:
            return method
    if strategy := own.get(name) or extension("strategies", name):
        about = own_strategy(strategy, name).about
        lacks = partial(strategies.lacks_solver, LIBRARY)
        return _PROSE(name, about, partial(strategies.by_name, name, LIBRARY), lacks=lacks)
    names = [*(method.name for method in METHODS), "pearl@N"]
    close = close_name(name, [*names, *own])
    raise InputError(f"There is no method {name}{close}: use one of {', '.join(names)}.")
