"""What the methods of an evaluation are given, as the head of its report tells it.

PEARL with libraries of several sizes (PEARL, section 4.3: number of actions).

From a long answer to the short one that a data set asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from pearl.evaluate.methods.base import EXECUTE, LIBRARY, STEPWISE, UNREFINED, Kit, Outcome
from pearl.evaluate.methods.pearl import EXECUTE_ONLY, NO_REFINEMENT
from pearl.lang.library import Library
from pearl.prompts.calls import FillSchema
from pearl.prompts.render import load_schema
from pearl.retrieval.index import CorpusRetriever
from pearl.run.calls import SchemaError, fill
from pearl.run.loop import RunError
from pearl.session import Session
from pearl.strategies.registry import STRATEGIES, Limits

_OWN = frozenset(
    ("retrieve-read", "normal", "normal-evidence", "cot-answer", "cot-evidence", "sp-cot", "tmn")
)
"""Methods with actions of their own, which are shown no plans, beside such strategies."""


def planning_of(method: str, kit: Kit) -> str:
    """The name of the planning that a method works with; empty for one with actions of its own.

    A size that a method names is told by that name, and its planning is the library's.

    Args:
        method: its name.
        kit: what methods share.
    """
    named = next((one for one in STRATEGIES if one.name == method and one.libraries), None)
    if method in _OWN or (named and not named.demonstrations):
        return ""
    if named or method == "cot-rolled-out":
        return STEPWISE if STEPWISE in kit.plannings else LIBRARY
    return {NO_REFINEMENT.name: UNREFINED, EXECUTE_ONLY.name: EXECUTE}.get(method, LIBRARY)


def plannings_of(methods: Sequence[str], kit: Kit) -> dict[str, list[str]]:
    """The plannings that methods work with, each with the names of those methods.

    Args:
        methods: their names, in order.
        kit: what they share.
    """
    found: dict[str, list[str]] = {}
    for method in methods:
        if name := planning_of(method, kit):
            found.setdefault(name, []).append(method)
    return dict(sorted(found.items(), key=lambda one: one[0] != LIBRARY))


def told_plannings(methods: Sequence[str], kit: Kit) -> Iterator[list[str]]:
    """Rows of a report's head: the library and the demonstrations of each planning in use.

    Args:
        methods: names of the methods.
        kit: what they share.
    """
    found = plannings_of(methods, kit)
    for name, users in found.items():
        of = "" if name == LIBRARY or len(found) == 1 else f" of {', '.join(users)}"
        given = kit.plannings[name]
        names, own = ", ".join(given.library.names), own_actions(given.library)
        yield [f"library{of}", f"{names}, {own:,} action{'s'[: own != 1]}"]
        yield [f"demonstrations{of}", f"{len(given.demonstrations):,}"]


def told_settings(methods: Sequence[str], kit: Kit) -> Iterator[list[str]]:
    """Rows of a report's head: what was set for this run beside a library.

    Args:
        methods: names of the methods.
        kit: what they share.
    """
    if kit.search is not None and any(one.startswith("tmn") for one in methods):
        if kit.search.learned:
            yield ["learned", kit.search.learned]
        budget = kit.search.budget
        yield [
            "search",
            f"{kit.search.way}, {budget.width:,} wide, {budget.depth:,} deep, "
            f"{budget.calls:,} calls at most",
        ]
    if isinstance(kit.retriever, CorpusRetriever):
        yield ["index", kit.retriever.info.corpus]
    if kit.tools is not None:
        yield ["tools", kit.tools.path]
    usual = Limits()
    if kit.limits != usual:
        changed = (
            f"{one.name} {getattr(kit.limits, one.name):,}"
            for one in fields(Limits)
            if getattr(kit.limits, one.name) != getattr(usual, one.name)
        )
        yield ["limits", ", ".join(changed)]


def own_actions(library: Library) -> int:
    """How many actions a library has beside the builtins."""
    return sum(not one.is_builtin for one in library.actions.values())


_SIZED = "pearl@"


@dataclass(frozen=True, slots=True)
class Sized:
    """Methods and sizes that go together.

    Args:
        methods: names, each once, ``pearl@N`` among them for each size.
        sizes: numbers of actions beside the builtins, each once.
        notes: what was changed, in whole sentences.
    """

    methods: tuple[str, ...]
    sizes: tuple[int, ...]
    notes: tuple[str, ...] = ()


def with_sizes(methods: Sequence[str], sizes: Sequence[int], library: Library) -> Sized:
    """The sizes that methods name, and those that are asked for beside them.

    A size that the library does not have is taken as the library's own, since
    a report that says 140 is to mean 140.

    Args:
        methods: names, as a person gave them.
        sizes: more numbers of actions.
        library: what is condensed.
    """
    most = own_actions(library)
    wanted = [*methods, *(f"{_SIZED}{size}" for size in sizes)]
    names = [_capped(name, most) for name in wanted]
    notes = tuple(
        f"The library has {most:,} actions beside the builtins, so {name} is {new}."
        for name, new in dict(zip(wanted, names, strict=True)).items()
        if name != new
    )
    unique = tuple(dict.fromkeys(names))
    found = tuple(size for name in unique if (size := _size(name)) is not None)
    return Sized(unique, found, notes)


def _capped(name: str, most: int) -> str:
    size = _size(name)
    return name if size is None else f"{_SIZED}{min(size, most)}"


def _size(name: str) -> int | None:
    number = name.removeprefix(_SIZED)
    return int(number) if name != number and number.isdecimal() and int(number) else None


async def shortened(outcome: Outcome, question: str, session: Session) -> Outcome:
    """An outcome with the short answer that its words give; the words stay as they are.

    Args:
        outcome: what a method came to that answers in sentences.
        question: what was asked.
        session: the model in its layers.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: no reply holds a short answer.
    """
    if outcome.answer is None:
        return outcome
    caller = session.caller()
    given = (("question", question), ("answer", outcome.answer))
    try:
        found = await fill(caller, FillSchema(load_schema("short_answer"), given), "short")
    except SchemaError as error:
        raise RunError(str(error)) from None
    session.journal.decide("short", found["answer"])
    return replace(outcome, answer=found["answer"])
