"""The paper's way to learn without decompositions, to compare with (CommaQA, appendix B).

Every question to every agent, with the entities of the question and all earlier
answers in its blanks, by every operator, up to a depth; what ends in the
recorded answer is a decomposition, right or not. Nothing is remembered, shared
or ruled out, so that the calls are what the paper counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pearl.agents import Agents, Hop, exact_match, run_hop
from pearl.agents.hops import references
from pearl.learning.moves import Form, forms_of, is_empty
from pearl.learning.texts import known_entities, opened
from pearl.values import Value

OPERATORS = ("select", "project", "project_values_flat_unique", "filter", "projectValues",
             "filterValues_keys")  # fmt: skip
"""The operators that are tried, with the transformations that the data has."""


@dataclass(frozen=True, slots=True)
class Brute:
    """What the search came to for one question.

    Args:
        calls: questions to agents.
        decompositions: those that end in the recorded answer.
        finished: whether everything up to the depth was tried.
    """

    calls: int
    decompositions: tuple[tuple[Hop, ...], ...]
    finished: bool


def brute_force(text: str, answer: Value, agents: Agents, depth: int, calls: int) -> Brute:
    """Try all decompositions of one question, shorter ones first.

    Args:
        text: the question.
        answer: what is recorded.
        agents: of its world; nothing else of the world is used but examples of
            valid inputs.
        depth: hops, at most.
        calls: questions to agents, at most.
    """
    world, before = agents.world, agents.calls
    valid = frozenset().union(*world.entities.values())
    _, entities = opened(text, known_entities(text, valid))
    forms = forms_of(world)
    found: list[tuple[Hop, ...]] = []
    level: list[tuple[tuple[Hop, ...], tuple[Value, ...]]] = [((), ())]
    for _ in range(depth):
        longer: list[tuple[tuple[Hop, ...], tuple[Value, ...]]] = []
        for hops, answers in level:
            for hop in _all_hops(forms, entities, len(hops)):
                if agents.calls - before >= calls:
                    return Brute(agents.calls - before, tuple(found), finished=False)
                value = run_hop(hop, answers, agents)
                if value is None or is_empty(value):
                    continue
                longer.append(((*hops, hop), (*answers, value)))
                if exact_match(value, answer):
                    found.append((*hops, hop))
        level = longer
    return Brute(agents.calls - before, tuple(found), finished=True)


def _all_hops(
    forms: dict[Form, tuple[str, ...]], entities: Sequence[str], answers: int
) -> Iterator[Hop]:
    """Every hop that can be written; after the first it uses the last answer."""
    fills = [*entities, *(f"#{number}" for number in range(1, answers + 1))]
    last = f"#{answers}"
    for form, names in forms.items():
        for arguments in itertools.product(fills, repeat=form.blanks):
            if answers and form.blanks and last not in arguments:
                continue
            for at, name in itertools.product(range(len(form.phrasings)), names):
                question = form.asked(arguments, at)
                for operator in OPERATORS if references(question) else OPERATORS[:1]:
                    yield Hop(operator, name, question)
