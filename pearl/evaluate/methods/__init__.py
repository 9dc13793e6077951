"""Every method of an evaluation, in the order they are listed; a new one is a row of `METHODS`."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from pearl.evaluate.methods import strategies
from pearl.evaluate.methods.base import (
    EXECUTE,
    LIBRARY,
    PLANS_WITH,
    STEPWISE,
    UNREFINED,
    Method,
    always,
)
from pearl.lang.entry_points import extension, offered
from pearl.lang.errors import InputError
from pearl.lang.text import close_name
from pearl.strategies import baselines
from pearl.strategies.pearl import direct_plan
from pearl.strategies.registry import OwnStrategy, own_strategy

_PROSE = partial(Method, prose=True)
_ONE_STEP = partial(Method, setup="", prose=True, plans=False)
_BY_MODEL = partial(Method, setup="", needs_model=True)
"""Methods that answer in sentences; those of them that write no plan; and methods that have actions
of their own and need a language model."""

_REACT = partial(
    _BY_MODEL,
    uses=("calls", "examples", "index"),
    lacks=strategies.nothing_to_look_up,
    actions=always("react"),
)
_FSM = partial(
    _BY_MODEL,
    uses=("calls", "examples", "turns"),
    lacks=strategies.no_document,
    actions=always("fsm"),
)
_IN_FORM = partial(_BY_MODEL, plans=False, uses=("examples",), actions=always(baselines.LIBRARY))
_HOPS = ("learned", "search", "width", "depth", "calls")
_AGENTS = partial(Method, actions=always(strategies.AGENTS))
_FACTS = partial(Method, setup="", plans=False, lacks=strategies.lacks_world)
"""Variants of one method, with the actions that all of them call."""

METHODS = (
    _ONE_STEP("zero-shot", partial(strategies.one_step, direct_plan)),
    _ONE_STEP("cot", partial(strategies.one_step, baselines.reasoning_plan)),
    Method("mcq", strategies.multiple_choice, "", plans=False, lacks=strategies.lacks_options),
    strategies.with_setup("pearl", LIBRARY),
    _PROSE("pearl-no-execution", strategies.show_plan, uses=("shown", *PLANS_WITH)),
    strategies.with_setup(strategies.NO_REFINEMENT, UNREFINED),
    strategies.with_setup("pearl-execute-only", EXECUTE),
    _PROSE(
        "decomp",
        partial(strategies.by_name, "decomp", STEPWISE),
        STEPWISE,
        needs_model=True,
        uses=("calls", "depth", "passages", "index", *PLANS_WITH),
        lacks=partial(strategies.lacks_solver, STEPWISE),
    ),
    _PROSE(
        "cot-rolled-out",
        strategies.rolled_out,
        STEPWISE,
        needs_model=True,
        plans=False,
        uses=PLANS_WITH,
    ),
    _ONE_STEP(
        "least-to-most", strategies.least_to_most, needs_model=True, plans=True, uses=("examples",)
    ),
    _ONE_STEP("no-context", partial(strategies.one_step, baselines.blind_plan), needs_model=True),
    _ONE_STEP(
        "retrieve-read",
        strategies.retrieve_and_read,
        uses=("passages", "index", "library"),
        actions=strategies.retrieving,
        lacks=strategies.nothing_to_look_up,
    ),
    _IN_FORM("normal", partial(strategies.in_form, "ANSWER_SHORT")),
    _IN_FORM("normal-evidence", partial(strategies.in_form, "ANSWER_WITH_EVIDENCE")),
    _IN_FORM("cot-answer", partial(strategies.in_form, "REASON_SHORT")),
    _IN_FORM("cot-evidence", partial(strategies.in_form, "REASON_WITH_EVIDENCE")),
    _IN_FORM("sp-cot", partial(strategies.in_form, "ASK_ONESELF")),
    _IN_FORM("sp-cot-evidence", partial(strategies.in_form, "ASK_ONESELF_WITH_EVIDENCE")),
    _REACT("react", partial(strategies.by_name, "react", "")),
    _REACT("react-evidence", strategies.react_with_evidence),
    _FSM("fsm1", partial(strategies.machine, "fsm1")),
    _FSM("fsm2", partial(strategies.machine, "fsm2")),
    _BY_MODEL(
        "rebel",
        strategies.rebel,
        uses=("tools", "calls", "depth", "examples", "index"),
        lacks=strategies.nothing_to_search,
        actions=always("rebel"),
    ),
    _AGENTS("tmn", strategies.by_analogy, setup="", uses=_HOPS, lacks=strategies.lacks_learned),
    _AGENTS(
        "tmn-model",
        strategies.by_model,
        needs_model=True,
        uses=(*_HOPS, "examples", *PLANS_WITH),
        lacks=strategies.lacks_decompositions,
    ),
    _FACTS(
        "gold-facts",
        partial(strategies.facts_read, strategies.gold_facts),
        lacks=strategies.lacks_facts,
    ),
    _FACTS(
        "found-facts", partial(strategies.facts_read, strategies.found_facts), uses=("passages",)
    ),
    _FACTS("all-facts", partial(strategies.facts_read, strategies.all_facts)),
)
"""By name; docs/evaluation.md says what each does."""


def find_method(name: str, own: Mapping[str, OwnStrategy] = MappingProxyType({})) -> Method:
    """The method of a name, as ``mcq`` or ``pearl@20``.

    Args:
        name: the method's name.
        own: the user's own strategies, which take precedence over those that packages offer.

    Raises:
        InputError: there is no such method.
    """
    if size := strategies.size_of(name):
        return strategies.with_setup(name, f"@{size}")
    for method in METHODS:
        if method.name == name and name not in own:
            return method
    if strategy := own.get(name) or extension("strategies", name):
        # Raises now if it cannot be called, and not at the first question.
        own_strategy(strategy, name)
        lacks = partial(strategies.lacks_solver, LIBRARY)
        # It may use any of these, as they are passed to it.
        uses = ("calls", "depth", "passages", "examples", "index", *PLANS_WITH)
        by_name = partial(strategies.by_name, name, LIBRARY)
        return _PROSE(name, by_name, shown=False, uses=uses, lacks=lacks)
    names = [*(method.name for method in METHODS), "pearl@N", *offered("strategies")]
    close = close_name(name, [*names, *own])
    raise InputError(f"There is no method {name}{close}: use one of {', '.join(names)}.")
