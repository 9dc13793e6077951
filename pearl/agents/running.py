"""Decompositions run on agents without a plan, as search does it many times a second.

The question becomes the same template that `pearl.agents.text` puts in a plan,
and is filled by `pearl.runtime.bind`: what runs here and what the executor runs
cannot differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from pearl.agents.agents import Agents
from pearl.agents.hops import Hop, Operation
from pearl.agents.operators import carried_out
from pearl.agents.text import HopError, asked, name_of
from pearl.plan import Arg, Ref, refs
from pearl.runtime.bind import Item, value_of
from pearl.values import Value


def run_hops(hops: Iterable[Hop], agents: Agents) -> list[Value]:
    """The answers ``#1`` … ``#n``; fewer where a hop has no answer, which ends it.

    Args:
        hops: a decomposition.
        agents: who is asked.
    """
    answers: list[Value] = []
    for hop in hops:
        answer = run_hop(hop, answers, agents)
        if answer is None:
            break
        answers.append(answer)
    return answers


def run_hop(hop: Hop, answers: Sequence[Value], agents: Agents) -> Value | None:
    """One hop's answer, given the answers before it; None for "no answer".

    A hop that cannot be asked has none: an unknown operator, an answer that is
    not there yet, a value of another kind than the operator goes over.
    """
    read = _read(hop.operator, hop.question)
    if read is None:
        return None
    operation, question, names, over = read
    values = {name_of(number): answer for number, answer in enumerate(answers, 1)}
    if not all(name in values for name in names):
        return None

    def ask(item: Item | None) -> Value | None:
        filled = value_of(question, values, item)
        return agents.ask(hop.agent, filled) if isinstance(filled, str) else None

    return carried_out(operation, values[over] if over else None, ask)


@lru_cache(maxsize=65536)
def _read(operator: str, question: str) -> tuple[Operation, Arg, tuple[str, ...], str] | None:
    """What a hop does, its question, the answers it names, and the one it goes over."""
    try:
        operation, argument = asked(Hop(operator, "", question))
    except HopError:
        return None
    named = list(refs(argument))
    over: Ref | None = next((ref for ref in named if ref.mode), None)
    return operation, argument, tuple(ref.name for ref in named), over.name if over else ""
