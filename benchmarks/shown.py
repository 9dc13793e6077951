"""How many recorded plans could have been written with N actions shown, and what a library costs.

    python -m benchmarks.shown [RECORDED.jsonl --library FILE]

A plan could have been written if every action of the library that it calls is among those that
``--shown N`` shows. How often actions are used is counted in four fifths of the questions, whose
plans are neighbours in QuALITY's order, and tried on the fifth that is left out, in turn. The
recorded rows do not have their questions: what a plan's own texts say in quotes stands for them,
which is what the question names, without the words by which it asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.sharing import read, read_options
from pearl.lang.ast import Arg, Items, Literal, Plan, Template
from pearl.lang.library import Library, load_library
from pearl.models.tokens import count_tokens
from pearl.prompts.calls import WritePlan
from pearl.prompts.render import render
from pearl.runtime.planner_prompt import likely_actions, narrowed

FOLDS = 5
SHOWN = (10, 20, 40)


@dataclass(frozen=True)
class Row:
    """A recorded plan: its question's number, the texts in it, and the actions it calls."""

    question: int
    texts: str
    called: frozenset[str]


def main() -> None:
    chosen = read_options(__doc__ or "")
    library = load_library(chosen.library)
    rows = [
        Row(row.question, " ".join(texts(row.plan)), called(row.plan, library))
        for row in read(chosen.recorded)
    ]
    print(f"{len(rows)} plans\n")
    print(f"{'plans whose every action is shown':36}" + "".join(f"{n:>9}" for n in SHOWN))
    for name, by_words, by_use in (
        ("by words", True, False), ("by use", False, True), ("by words and use", True, True)
    ):  # fmt: skip
        found = shares(rows, library, by_words=by_words, by_use=by_use)
        print(f"{name:36}" + "".join(f"{100 * found[n]:7.1f} %" for n in SHOWN))
    print(f"\n{'tokens of the prompt for a plan':36}{'all':>9}" + "".join(f"{n:>9}" for n in SHOWN))
    for name, one in (("the 81 actions", library), ("core and quality", load_library())):
        write = WritePlan("Why does Mara leave the lighthouse?", one)
        print(f"{name:36}" + "".join(f"{size(narrowed(write, n)):>9,}" for n in (0, *SHOWN)))


def shares(rows: list[Row], library: Library, *, by_words: bool, by_use: bool) -> dict[int, float]:
    """The share of plans whose every action is shown, for each number of actions."""
    order = sorted({row.question for row in rows})
    fold = {question: at * FOLDS // len(order) for at, question in enumerate(order)}
    right: Counter[int] = Counter()
    for left_out in range(FOLDS):
        used = Counter(
            name for row in rows if by_use and fold[row.question] != left_out for name in row.called
        )
        for row in (row for row in rows if fold[row.question] == left_out):
            found = likely_actions(row.texts if by_words else "", library, max(SHOWN), used)
            for number in SHOWN:
                right[number] += row.called <= set(found[:number])
    return {number: right[number] / len(rows) for number in SHOWN}


def called(plan: Plan, library: Library) -> frozenset[str]:
    """The actions of the library that a plan calls and does not declare; builtins aside."""
    own = {action.name for action in plan.declares}
    known = (library.get(step.action) for step in plan.steps if step.action not in own)
    return frozenset(action.name for action in known if action and not action.is_builtin)


def texts(plan: Plan) -> Iterator[str]:
    """What a plan's arguments say in quotes."""
    stack: list[Arg] = [arg for step in plan.steps for arg in step.args]
    for arg in stack:
        match arg:
            case Literal():
                yield str(arg.value)
            case Template():
                yield from (part for part in arg.parts if isinstance(part, str))
            case Items():
                stack += arg.items


def size(write: WritePlan) -> int:
    """Tokens of a call's prompt."""
    return sum(count_tokens(message["content"]) for message in render(write))


if __name__ == "__main__":
    main()
