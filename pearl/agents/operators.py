"""The operators and transformations of CommaQA's Tables 1 and 2 over Pearl's values.

They are the modes of `pearl.runtime.bind` and the builtins of the same names,
so that a decomposition gives the same whether it runs here or as a plan.
"""

from __future__ import annotations

from collections.abc import Callable

from pearl.agents.hops import Operation
from pearl.builtins import FUNCTIONS, BuiltinError, Given
from pearl.plan import Mode, Ref
from pearl.runtime.bind import BindError, Item, items_of, together
from pearl.values import Value

_OVER = "answer"


def carried_out(
    operation: Operation, over: Value | None, ask: Callable[[Item | None], Value | None]
) -> Value | None:
    """Ask once, or for every item, and transform what comes back.

    Args:
        operation: what the operator says.
        over: the value whose items are asked for; None for ``select``.
        ask: puts the question, for one item or for none; None is "no answer".

    Returns:
        The value, or None where an item has no answer or a value has no items
        of the kind that is needed.
    """
    try:
        value = _asked(operation.mode, over, ask)
        if value is None:
            return None
        for change in operation.then:
            value = FUNCTIONS[change]([Given(Ref(_OVER), value)])
    except (BindError, BuiltinError):
        return None
    return value


def _asked(
    mode: Mode, over: Value | None, ask: Callable[[Item | None], Value | None]
) -> Value | None:
    if mode is Mode.PLAIN:
        return ask(None)
    if over is None:
        return None
    items = items_of(Ref(_OVER, mode), {_OVER: over})
    answers: list[Value] = []
    for item in items:
        answer = ask(item)
        if answer is None:
            return None
        answers.append(answer)
    return together(mode, items, answers)
