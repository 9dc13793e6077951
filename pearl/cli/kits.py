"""What the methods of an evaluation are given beside a library and demonstrations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pearl.cli.options import budget_options, given_of

if TYPE_CHECKING:
    from pearl.evaluate.methods import Kit
    from pearl.evaluate.searching import Way

_F = TypeVar("_F", bound=Callable[..., Any])


def kit_options(command: _F) -> _F:
    """``--learned``, ``--search``, ``--index``, ``--tools`` and budgets."""
    for option in (
        budget_options,
        click.option(
            "--tools", default="", metavar="FILE",
            help="For rebel: the tools that it may call (docs/tools.md). Default: a search of the "
            "question's own document.",
        ),
        click.option(
            "--index", default="", metavar="DIR",
            help="Look passages up in this index, as pearl index makes it. Default: in the "
            "question's own document.",
        ),
        click.option(
            "--search", type=click.Choice(["greedy", "best-first"]), default="best-first",
            show_default=True,
            help="For CommaQA: the best proposal at each hop, or best-first search.",
        ),
        click.option(
            "--learned", default="", metavar="FILE",
            help="For CommaQA: what pearl learn commaqa wrote.",
        ),
    ):  # fmt: skip
        command = option(command)
    return command


def equipped(
    kit: Kit,
    learned: str,
    search: Way,
    index: str,
    tools: str,
    width: int | None,
    depth: int | None,
    calls: int | None,
    **others: Any,  # noqa: ANN401 - options of the same command that are not of the kit
) -> tuple[Kit, dict[str, Any]]:
    """A kit with what the options of `kit_options` name, and the options that are not theirs.

    Raises:
        InputError: one of them cannot be used.
    """
    from pearl.embedding import choose_embedding
    from pearl.evaluate.methods.base import Limits
    from pearl.evaluate.searching import load_search
    from pearl.evaluate.tooling import load_tooling
    from pearl.learning.search import Budget
    from pearl.retrieval import open_index

    budget = given_of(Budget, width=width, depth=depth, calls=calls)
    found = replace(
        kit,
        search=load_search(learned, search, budget),
        retriever=open_index(index) if index else None,
        limits=given_of(Limits, depth=depth, calls=calls),
        tools=load_tooling(tools),
        embed=choose_embedding(),
    )
    return found, others
