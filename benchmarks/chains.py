"""Decompositions sought for one question at a time, by its answer alone: sampled, or all of them.

What CommaQA (Khot et al., Findings of ACL 2022) does where no decompositions are given: chains of
questions to agents are sampled, guided by the words that they share with the question; those that
end in the recorded answer are taken for decompositions, right or not, and trained on. Beside it
the exhaustive search. Neither remembers, shares or rules out anything from one question to the
next, which is what `pearl.commaqa.learning` does.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from pearl.commaqa.agents import Agents, exact_match, run_hop
from pearl.commaqa.decomposition import Hop, references
from pearl.commaqa.learning import Learned, Way, model_of
from pearl.commaqa.model import (
    Form,
    Move,
    forms_of,
    is_empty,
    known_entities,
    move_of,
    with_holes,
    words_of,
)
from pearl.commaqa.world import World
from pearl.lang.text import FUNCTION_WORDS
from pearl.lang.values import Pairs, Value

_ONCE = ("select",)
_OVER_LISTS = ("project_values_flat_unique", "project_values_flat", "project", "filter")
_OVER_PAIRS = ("projectValues", "filterValues_keys")
_OPERATORS = (
    *("select", "project", "project_values_flat_unique"),
    *("filter", "projectValues", "filterValues_keys"),
)
"""Those of the exhaustive search."""


@dataclass(frozen=True, slots=True)
class Chains:
    """What a search for one question came to.

    Args:
        calls: questions to agents.
        found: the chains that end in the recorded answer.
        finished: whether everything was tried that was to be.
    """

    calls: int
    found: tuple[tuple[Hop, ...], ...]
    finished: bool = True


Finder: TypeAlias = Callable[[str, Value, Agents], Chains]
"""Seeks chains for a question's text and its answer, by asking the agents of its world."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How chains are sampled.

    Args:
        depth: hops of a chain, at most.
        chains: chains that are begun, for each question.
        tries: hops that are tried at one place, until agents have an answer.
        guide: how much more likely a form is for the words that it shares: its weight is e to
            the power of this, times the share of its words that the question has.
    """

    depth: int
    chains: int = 100
    tries: int = 8
    guide: float = 4.0


def sampled(how: Sampling, random: Random) -> Finder:
    """A finder that samples chains; after its first a hop uses the last answer.

    Args:
        how: how many, and how long.
        random: decides everything.
    """

    def find(text: str, answer: Value, agents: Agents) -> Chains:
        before, found = agents.calls, dict[tuple[Hop, ...], None]()
        forms, entities = _asked_about(text, agents)
        weights = [math.exp(how.guide * overlap(text, form)) for form in forms]
        for _ in range(how.chains):
            hops: tuple[Hop, ...] = ()
            answers: tuple[Value, ...] = ()
            tried = 0
            while len(hops) < how.depth and tried < how.tries:
                tried += 1
                [form] = random.choices([*forms], weights)
                hop = _drawn(form, forms[form], entities, answers, random)
                if hop is None or hop in hops:
                    continue
                value = run_hop(hop, answers, agents.ask)
                if value is None or is_empty(value):
                    continue
                hops, answers, tried = (*hops, hop), (*answers, value), 0
                if exact_match(value, answer):
                    found[hops] = None
                    break
        return Chains(agents.calls - before, tuple(found))

    return find


def overlap(text: str, form: Form) -> float:
    """The share of the words of a form, in the phrasing that shares most, that a question has."""
    said = _content(text)
    shares = [len(words & said) / len(words) for words in map(_content, form.phrasings) if words]
    return max(shares, default=0.0)


def _content(text: str) -> frozenset[str]:
    return frozenset(words_of(text)) - FUNCTION_WORDS


def _asked_about(text: str, agents: Agents) -> tuple[Mapping[Form, Sequence[str]], tuple[str, ...]]:
    """What agents can be asked, with who answers; and the entities of a question."""
    valid = frozenset().union(*agents.world.entities.values())
    _, entities = with_holes(text, known_entities(text, valid))
    return forms_of(agents.world.language), entities


def _drawn(
    form: Form,
    agents: Sequence[str],
    entities: Sequence[str],
    answers: Sequence[Value],
    random: Random,
) -> Hop | None:
    """A hop that asks a form about the last answer, or an entity where there is none yet."""
    last = len(answers)
    fills = [*entities, *(f"#{number}" for number in range(1, last + 1))]
    if (not form.blanks and answers) or (form.blanks and not fills):
        return None
    arguments = [random.choice(fills) for _ in range(form.blanks)]
    operators: Sequence[str] = _ONCE
    if answers:
        arguments[random.randrange(form.blanks)] = f"#{last}"
        over = answers[-1]
        if isinstance(over, Pairs):
            operators = _OVER_PAIRS
        elif isinstance(over, list):
            operators = (*_ONCE, *_OVER_LISTS)
    question = form.fill(arguments, random.randrange(len(form.phrasings)))
    return Hop(random.choice(operators), random.choice(agents), question)


def exhaustive(depth: int, calls: int) -> Finder:
    """A finder that tries all chains, shorter ones first; ours, as the paper samples.

    Every question goes to every agent, with the entities of the question and all earlier answers
    in its blanks, by every operator with the transformations that most of the data has.

    Args:
        depth: hops, at most.
        calls: questions to agents, at most.
    """

    def find(text: str, answer: Value, agents: Agents) -> Chains:
        before, found = agents.calls, list[tuple[Hop, ...]]()
        forms, entities = _asked_about(text, agents)
        level: list[tuple[tuple[Hop, ...], tuple[Value, ...]]] = [((), ())]
        for _ in range(depth):
            longer: list[tuple[tuple[Hop, ...], tuple[Value, ...]]] = []
            for hops, answers in level:
                for hop in _all_hops(forms, entities, len(hops)):
                    if agents.calls - before >= calls:
                        return Chains(agents.calls - before, tuple(found), finished=False)
                    value = run_hop(hop, answers, agents.ask)
                    if value is None or is_empty(value):
                        continue
                    longer.append(((*hops, hop), (*answers, value)))
                    if exact_match(value, answer):
                        found.append((*hops, hop))
            level = longer
        return Chains(agents.calls - before, tuple(found))

    return find


def _all_hops(
    forms: Mapping[Form, Sequence[str]], entities: Sequence[str], answers: int
) -> Iterator[Hop]:
    """Every hop that can be written; after the first it uses the last answer."""
    fills = [*entities, *(f"#{number}" for number in range(1, answers + 1))]
    for form, agents in forms.items():
        for arguments in itertools.product(fills, repeat=form.blanks):
            if answers and form.blanks and f"#{answers}" not in arguments:
                continue
            for at, agent in itertools.product(range(len(form.phrasings)), agents):
                question = form.fill(arguments, at)
                for operator in _OPERATORS if references(question) else _ONCE:
                    yield Hop(operator, agent, question)


def learn_from_chains(worlds: Iterable[World], find: Finder, keep: int = 5) -> Learned:
    """A model of the chains that were found for each question by its answer (distant supervision).

    Args:
        worlds: their decompositions are not looked at.
        find: seeks the chains.
        keep: chains of a question that are trained on, at most: shorter ones first, as more
            of the longer ones end in the answer by chance, and of equal ones those whose
            questions share more words with the question.
    """
    forms: dict[Form, Counter[str]] = {}
    examples: list[Way] = []
    questions = explained = calls = 0
    for world in worlds:
        bare = world.without_gold()
        for form, names in forms_of(bare.language).items():
            forms.setdefault(form, Counter()).update(names)
        valid = frozenset().union(*bare.entities.values())
        for question in bare.questions:
            chains = find(question.text, question.answer, Agents(bare))
            questions, calls = questions + 1, calls + chains.calls
            pattern, entities = with_holes(question.text, known_entities(question.text, valid))
            ways: dict[tuple[Move, ...], None] = {}
            for hops in chains.found:
                moves = (move_of(hop, at, entities, bare.language) for at, hop in
                         enumerate(hops, 1))  # fmt: skip
                ways[tuple(move for move in moves if move is not None)] = None
            shared = {way: sum(overlap(question.text, move.form) for move in way) for way in ways}
            best = sorted(ways, key=lambda way: (len(way), -shared[way], str(way)))
            examples += [(pattern, way) for way in best[:keep]]
            explained += bool(best)
    return Learned(model_of("chains", forms, examples), questions, explained, calls)
