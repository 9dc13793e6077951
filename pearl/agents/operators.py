"""The operators and transformations of CommaQA's Tables 1 and 2 over Pearl's values.

They are the modes of `pearl.runtime.bind` and the builtins of the same names,
so that a decomposition gives the same whether it runs here or as a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pearl.agents.hops import Operation
from pearl.builtins import FUNCTIONS, BuiltinError, Given
from pearl.plan import Mode, Ref
from pearl.runtime.bind import BindError, Item, items_of
from pearl.values import Pairs, Value

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


def together(mode: Mode, items: Sequence[Item], answers: Sequence[Value]) -> Value | None:
    """The answers to the items as one value.

    ``each`` gives pairs of key and answer; ``where`` keeps the items, and
    ``where values`` the pairs, whose answer is yes.

    Returns:
        The value; None where a filter's answer is neither yes nor no.
    """
    both = zip(items, answers, strict=True)
    if mode in (Mode.EACH, Mode.EACH_VALUES):
        return Pairs(tuple((item.key, answer) for item, answer in both))
    if not all(isinstance(answer, bool) for answer in answers):
        return None
    kept = [item for item, answer in both if answer is True]
    if mode is Mode.WHERE_VALUES:
        return Pairs(tuple((item.key, item.value) for item in kept))
    return [item.value for item in kept]
