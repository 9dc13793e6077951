"""Multiple choice under several orders of the options (PEARL, appendix).

A model may prefer a place to an option. So the options are shown in four
orders, in which each stands at every place once; the answer is the one under
the order of the data set.
"""

from __future__ import annotations

from dataclasses import replace

from pearl.answer import map_answer, read_option
from pearl.evaluate.datasets.base import Example
from pearl.evaluate.methods.base import LIBRARY, Kit, Method, Outcome, rotations
from pearl.lang.source import InputError
from pearl.lang.values import as_text
from pearl.prompts.calls import letter
from pearl.run.calls import Caller
from pearl.run.evidence import without_quotes
from pearl.run.loop import Finished, RunError, run_strategy
from pearl.session import Session
from pearl.strategies.baselines import choosing_plan
from pearl.strategies.pearl import GivenPlan


async def answer(example: Example, kit: Kit, session: Session) -> Outcome:
    """One step for each order.

    A reply that names no option is mapped to one, as an open answer is.

    Raises:
        InputError: there are no options.
        ModelError: the model gave no usable answer.
        RunError: a step has no output.
    """
    if not example.options:
        raise InputError(f"Question {example.id} has no options to choose from.")
    orders = rotations(example.options)
    shown = [[example.options[at] for at in order] for order in orders]
    plan = choosing_plan(example.question, shown)
    caller = session.caller()
    library = kit.plannings[LIBRARY].library
    finished = await run_strategy(
        GivenPlan(plan), example.question, example.document, library, caller, session.context
    )
    chosen = [
        await _chosen(finished, step.name, example, order, caller)
        for step, order in zip(plan.steps, orders, strict=True)
    ]
    words = as_text(finished.values[plan.steps[0].name])
    return Outcome(chosen[0], words, orders=tuple(chosen))


async def _chosen(
    finished: Finished, name: str, example: Example, order: tuple[int, ...], caller: Caller
) -> str | None:
    """The option that a step chose, in the letters of the data set's order."""
    words = without_quotes(as_text(finished.values[name]))
    options = [example.options[at] for at in order]
    first, _, rest = words.partition("\n")
    place = read_option(first, options)
    if place is None and rest:
        place = read_option(words, options)
    if place is None:
        apart = replace(caller, journal=caller.journal.under(name))
        text = as_text(finished.values[name])
        try:
            mapped = await map_answer(example.question, text, options, apart)
        except RunError:
            return None
        place = options.index(mapped.text)
    return letter(order[place])


METHOD = Method("mcq", "The options are shown, in four orders, and one is chosen.", answer)
