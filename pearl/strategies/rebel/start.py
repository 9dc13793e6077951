"""The strategy of one run."""

from __future__ import annotations

from pearl.embedding import Embed, choose_embedding
from pearl.engine.keep import Keeper
from pearl.runtime import Caller
from pearl.strategies.rebel.limits import RebelLimits, Spent
from pearl.strategies.rebel.recursion import Rebel
from pearl.strategies.rebel.vectors import embedding
from pearl.tools import Tools

LIBRARY = "rebel"
"""The action library that a run needs."""


def rebel(
    caller: Caller,
    tools: Tools,
    embed: Embed | None = None,
    limits: RebelLimits | None = None,
    keeper: Keeper | None = None,
) -> Rebel:
    """The strategy of one run, with the library ``rebel`` and the `Rebel.handlers` it needs.

    Args:
        caller: asks the model; the one that the run is started with.
        tools: a toolbox, or `document_tools` of the run's document. Whoever made it closes it.
        embed: tells whether two questions are the same; by default `choose_embedding`.
        limits: where it ends.
        keeper: where an endpoint's vectors are kept; by default nowhere.

    Raises:
        InputError: the embedding's settings cannot be used.
    """
    limits = limits or RebelLimits()
    known = embedding(embed or choose_embedding(), keeper)
    return Rebel(caller, tools, known, limits, Spent(limits))
