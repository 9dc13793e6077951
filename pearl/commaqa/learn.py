"""Learning to decompose: from gold decompositions, or from answers alone.

From gold, the entities of a question are what its hops ask about, and the
decomposition is what is left of them. From answers, programs are sought that
explain the answers of all questions of a kind (`pearl.learning.explain`), and
what was found takes gold's place; that way sees `World.untold` and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pearl.commaqa.agents import Agents
from pearl.commaqa.decomposition import REFERENCE
from pearl.commaqa.explain import Effort, Explained, Way, explain, is_right, needed, recalled
from pearl.commaqa.learned import Model, gathered
from pearl.commaqa.moves import Form, Move, forms_of, known_entities, move_of, opened
from pearl.commaqa.programs import Case, Remembered, Types
from pearl.commaqa.world import Question, World


@dataclass(frozen=True, slots=True)
class Kind:
    """What was found for one kind of question.

    Args:
        pattern: its text with holes.
        questions: how many there are.
        found: programs, and what they do not explain.
    """

    pattern: str
    questions: int
    found: Explained


@dataclass(frozen=True, slots=True)
class Learned:
    """A model, and what it cost.

    Args:
        model: to write to a file, or to search with.
        questions: of the training.
        explained: those that the model was made of.
        calls: questions that agents were asked.
        kinds: learned from answers: what was found for each kind of question.
    """

    model: Model
    questions: int
    explained: int
    calls: int
    kinds: tuple[Kind, ...] = ()


def learn_from_gold(worlds: Iterable[World]) -> Learned:
    """A model of gold decompositions; no agent is asked.

    Args:
        worlds: with decompositions. A question without one is left out.
    """
    examples: list[tuple[str, tuple[Move, ...]]] = []
    forms: dict[Form, dict[str, int]] = {}
    questions = 0
    for world in worlds:
        _count_forms(world, forms)
        for question in world.questions:
            questions += 1
            example = _example(question, world)
            if example is not None:
                examples.append(example)
                for hop, move in zip(question.hops, example[1], strict=True):
                    forms.setdefault(move.form, {}).setdefault(hop.agent, 1)
    return Learned(gathered("gold", forms, examples), questions, len(examples), 0)


def _count_forms(world: World, forms: dict[Form, dict[str, int]]) -> None:
    for form, names in forms_of(world).items():
        seen = forms.setdefault(form, {})
        for name in names:
            seen[name] = seen.get(name, 0) + 1


def _example(question: Question, world: World) -> tuple[str, tuple[Move, ...]] | None:
    """A question's pattern and moves; None where a hop cannot be read."""
    asked: list[str] = []
    for hop in question.hops:
        for _, words in world.language.readings(hop.agent, hop.question):
            asked += [one for one in words if not REFERENCE.search(one)]
    pattern, entities = opened(question.text, asked)
    moves = [move_of(hop, at, entities, world) for at, hop in enumerate(question.hops, 1)]
    readable = tuple(move for move in moves if move is not None)
    return (pattern, readable) if readable and len(readable) == len(moves) else None


def learn_from_answers(
    worlds: Iterable[World],
    effort: Effort = Effort(),  # noqa: B008 - frozen
    told: Callable[[str], None] = lambda _: None,
) -> Learned:
    """A model of questions, answers and agents alone (the paper's open challenge).

    Args:
        worlds: what is used of them is their agents, examples of valid inputs,
            and the questions' texts and answers.
        effort: how far the search goes.
        told: is told what is found, a line at a time.
    """
    forms: dict[Form, dict[str, int]] = {}
    kinds: dict[str, list[Case]] = {}
    asked: list[Remembered] = []
    for world in worlds:
        bare = world.untold()
        _count_forms(bare, forms)
        asked.append(Remembered(Agents(bare)))
        for case in _cases(bare, asked[-1]):
            kinds.setdefault(case.pattern, []).append(case)
    found = _searched(kinds, effort, told)
    examples = [one for kind in found for one in _explained(kind, kinds[kind.pattern])]
    return Learned(
        gathered("answers", forms, examples),
        sum(map(len, kinds.values())),
        len(examples),
        sum(agents.calls for agents in asked),
        found,
    )


def _searched(
    kinds: Mapping[str, Sequence[Case]], effort: Effort, told: Callable[[str], None]
) -> tuple[Kind, ...]:
    """Programs for all kinds of question, those with the most questions first.

    What explains one kind is tried on the next, and at the end on what was left.
    """
    types = Types()
    found: list[Kind] = []
    known: dict[tuple[Move, ...], Way] = {}
    for pattern, cases in sorted(kinds.items(), key=lambda one: (-len(one[1]), one[0])):
        told(f"{pattern} ({len(cases)})")
        one = explain(cases, types, effort, told, tuple(known.values()))
        found.append(Kind(pattern, len(cases), one))
        known |= {way.moves: way for way in one.ways}
    return tuple(_once_more(kind, kinds[kind.pattern], known, effort) for kind in found)


def _once_more(
    kind: Kind, cases: Sequence[Case], known: Mapping[tuple[Move, ...], Way], effort: Effort
) -> Kind:
    if not kind.found.left:
        return kind
    more = recalled(kind.found.left, tuple(known.values()), effort)
    ways = needed((*kind.found.ways, *more), cases)
    left = [case for case in kind.found.left if not any(is_right(way.moves, case) for way in more)]
    stopped = kind.found.stopped if left else ""
    return Kind(kind.pattern, kind.questions, Explained(ways, tuple(left), stopped))


def _cases(world: World, agents: Remembered) -> Iterable[Case]:
    valid = frozenset().union(*world.entities.values())
    for question in world.questions:
        pattern, entities = opened(question.text, known_entities(question.text, valid))
        yield Case(pattern, entities, question.text, question.answer, agents)


def _explained(kind: Kind, cases: Sequence[Case]) -> Iterable[tuple[str, tuple[Move, ...]]]:
    """For each question that is explained, the program that does."""
    for case in cases:
        for way in kind.found.ways:
            if is_right(way.moves, case):
                yield kind.pattern, way.moves
                break
