"""Programs that explain the answers of all questions of a kind, and of as many as they can.

One question's answer has many explanations, most of them wrong: an award that
somebody won may also be that of a film of his. What explains the answers of
many worlds is right, or as good. A kind of question may need several programs,
as CommaQA-I asks the same of worlds that know different things: what one
program leaves, the next one is sought for.

Whether programs hold for questions that they were not found on.

Learning to decompose: from gold decompositions, or from answers alone.

From gold, the entities of a question are what its hops ask about, and the
decomposition is what is left of them. From answers, programs are sought that
explain the answers of all questions of a kind (`pearl.learning.explain`), and
what was found takes gold's place; that way sees `World.without_gold` and nothing else.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pearl.commaqa.agents import Agents
from pearl.commaqa.decomposition import REFERENCE
from pearl.commaqa.model import (
    Form,
    Model,
    Move,
    forms_of,
    gathered,
    known_entities,
    move_of,
    opened,
)
from pearl.commaqa.programs import Bank, CachingAgents, Case, Term, Types, hops_of, moves_of
from pearl.commaqa.scoring import exact_match
from pearl.commaqa.world import Question, World
from pearl.lang.values import Value


@dataclass(frozen=True, slots=True)
class Program:
    """A program for questions of a kind.

    Args:
        moves: its hops.
        right: how many of the questions it explains.
        wrong: how many it answers otherwise than recorded.
    """

    moves: tuple[Move, ...]
    right: int
    wrong: int


def matches(term: Term, sample: Sequence[Case]) -> bool:
    """Whether a program has recorded answers wherever it has one, and somewhere it has."""
    pairs = [
        (value, case.answer)
        for value, case in zip(term.values, sample, strict=False)
        if value is not None
    ]
    return bool(pairs) and all(_equal(value, answer) for value, answer in pairs)


def _equal(value: Value, answer: Value) -> bool:
    if isinstance(answer, list) and isinstance(value, list) and len(answer) != len(value):
        return False
    return exact_match(value, answer)


def verified(
    moves: tuple[Move, ...], left: Sequence[Case], support: int, errors: float
) -> Iterator[Program]:
    """A program and its variants, those that hold for questions.

    Args:
        moves: the program.
        left: the questions.
        support: how many it has to explain, or all where there are fewer.
        errors: the share of its answers that may be wrong.
    """
    for variant in _variants(moves):
        few = counted(variant, left[:: max(1, len(left) // 12)])
        if few.wrong > max(2, errors * (few.right + few.wrong)):
            continue
        way = counted(variant, left)
        right = min(support, len(left))
        if way.right >= right and way.wrong <= errors * (way.right + way.wrong):
            yield way


_SWAPPED = {("values", "flat"): ("values", "flat", "unique"),
            ("values", "flat", "unique"): ("values", "flat")}  # fmt: skip


def _variants(moves: tuple[Move, ...]) -> Iterator[tuple[Move, ...]]:
    """A program, and the same with doubles kept where it drops them, or dropped."""
    either = [
        (move, replace(move, then=_SWAPPED[move.then])) if move.then in _SWAPPED else (move,)
        for move in moves
    ]
    return itertools.islice(itertools.product(*either), 16)


def counted(moves: tuple[Move, ...], cases: Sequence[Case]) -> Program:
    """A program, with how many questions it answers as recorded, and how many otherwise."""
    right = wrong = 0
    for case in cases:
        found = hops_of(moves, case)
        if found is None:
            continue
        agrees = _equal(found[1], case.answer)
        right += agrees
        wrong += not agrees
    return Program(moves, right, wrong)


def is_right(moves: tuple[Move, ...], case: Case) -> bool:
    """Whether a program gives a question's recorded answer."""
    found = hops_of(moves, case)
    return found is not None and _equal(found[1], case.answer)


@dataclass(frozen=True, slots=True)
class Effort:
    """How far the search goes.

    Args:
        sample: questions that programs are built over.
        agree: on how many of them a program needs an answer.
        chain: hops in a row before the last one.
        met: pairs of a list and one thing that the last hop is tried on.
        pairs: pairs of single things that the last hop is tried on.
        terms: programs that are kept of one length.
        rounds: searches for one kind of question.
        support: questions that a program has to explain.
        errors: the share of its answers that may be wrong.
    """

    sample: int = 6
    agree: int = 2
    chain: int = 3
    met: int = 1000
    pairs: int = 20000
    terms: int = 4000
    rounds: int = 12
    support: int = 3
    errors: float = 0.2


@dataclass(frozen=True, slots=True)
class Explained:
    """What was found for a kind of question.

    Args:
        ways: programs, the one that explains most first.
        left: the questions that none of them explains.
        stopped: for what is left, where the search ended, in words; or empty.
    """

    ways: tuple[Program, ...]
    left: tuple[Case, ...]
    stopped: str = ""


Told = Callable[[str], None]


def explain(
    cases: Sequence[Case],
    types: Types,
    effort: Effort,
    told: Told,
    known: Sequence[Program] = (),
) -> Explained:
    """Find programs until all questions of one kind are explained, or nothing more is found.

    Args:
        cases: of one pattern, of several worlds.
        types: what is known of the agents so far; added to.
        effort: how far to go.
        told: is told what is found, a line at a time.
        known: programs that explain questions of other kinds; they are tried first.
    """
    ways = recalled(cases, known, effort)
    left, stopped = [case for case in cases if not _any_right(ways, case)], ""
    given_up: Counter[frozenset[object]] = Counter()
    for _ in range(effort.rounds):
        sample = _sample(left, given_up, effort)
        if not sample:
            break
        found = _searched(sample, left, types, effort)
        if isinstance(found, str):
            stopped = found
            given_up[_signature(sample[0])] += 1
            told(f"  nothing: {found}")
            continue
        ways.append(found)
        explained = {id(case) for case in left if is_right(found.moves, case)}
        left = [case for case in left if id(case) not in explained]
        told(f"  {len(found.moves)} hops explain {len(explained)}, {len(left)} left")
        if len(left) < effort.support:
            break
    return Explained(needed(ways, cases), tuple(left), stopped if left else "")


def recalled(cases: Sequence[Case], known: Sequence[Program], effort: Effort) -> list[Program]:
    """Programs of other kinds of question that hold for this one too."""
    ways: list[Program] = []
    left = list(cases)
    for way in sorted(known, key=lambda way: -way.right):
        found = next(verified(way.moves, left, effort.support, effort.errors), None)
        if left and found is not None:
            ways.append(found)
            left = [case for case in left if not is_right(found.moves, case)]
    return ways


def _any_right(ways: Sequence[Program], case: Case) -> bool:
    return any(is_right(way.moves, case) for way in ways)


def needed(ways: Sequence[Program], cases: Sequence[Case]) -> tuple[Program, ...]:
    """Programs that together explain all that can be, the one that explains most first.

    One that was found early, on questions whose answers have little to tell, may
    be part of what a later one explains.
    """
    right = {
        at: {number for number, case in enumerate(cases) if is_right(way.moves, case)}
        for at, way in enumerate(ways)
    }
    chosen: list[Program] = []
    covered: set[int] = set()
    while right:
        at = max(right, key=lambda at: (len(right[at] - covered), -at))
        if not right[at] - covered:
            break
        covered |= right.pop(at)
        chosen.append(counted(ways[at].moves, cases))
    return tuple(chosen)


def _signature(case: Case) -> frozenset[object]:
    return frozenset(case.agents.forms)


def _sample(
    left: Sequence[Case], given_up: Counter[frozenset[object]], effort: Effort
) -> list[Case]:
    """Questions of worlds whose agents speak as much alike as can be, of many worlds.

    They begin with the language that most questions are left of, and that was
    not given up twice.
    """
    languages = Counter(map(_signature, left))
    usable = [one for one in languages if given_up[one] < 2]
    if not usable or len(left) < effort.support:
        return []
    chosen = max(usable, key=lambda one: (languages[one], -given_up[one]))
    worlds: dict[int, list[Case]] = {}
    for case in left:
        worlds.setdefault(id(case.agents), []).append(case)
    turns = itertools.zip_longest(*worlds.values())
    spread = [case for turn in turns for case in turn if case is not None]
    alike = sorted(spread, key=lambda case: len(_signature(case) ^ chosen))
    same = languages[chosen]
    start = min(given_up[chosen] * effort.sample, max(0, same - effort.support))
    return alike[start : start + effort.sample]


def _searched(
    sample: Sequence[Case], left: Sequence[Case], types: Types, effort: Effort
) -> Program | str:
    """The shortest program that explains the sample and holds for the others; or where it ends."""
    bank = Bank(sample, types, min(effort.agree, len(sample)))
    kept = 0
    for level in _levels(bank, effort):
        goals: list[Term] = []
        for term in level:
            kept += 1
            if matches(term, sample):
                goals.append(term)
        way = _best(goals, left, effort)
        if way is not None:
            return way
    return f"{kept} programs over {len(sample)} questions, none of which explains them"


def _levels(bank: Bank, effort: Effort) -> Iterator[Iterable[Term]]:
    """Programs by the length of their longest chain; the last level is not kept."""
    levels = [_new(bank, bank.first(), effort)]
    yield levels[0]
    for _ in range(effort.chain - 1):
        made = itertools.chain.from_iterable(map(bank.unary, levels[-1]))
        levels.append(_new(bank, itertools.chain(made, _joined(bank, levels)), effort))
        yield levels[-1]
    # The last hop is tried on few questions: most programs are wrong on the first.
    narrow = replace(bank, cases=bank.cases[:2], alive=1)
    last = itertools.chain.from_iterable(map(narrow.unary, levels[-1]))
    yield itertools.chain(last, _joined(narrow, levels))
    yield from _paired(narrow, levels, effort)
    yield _met(narrow, levels, effort)


def _new(bank: Bank, terms: Iterable[Term], effort: Effort) -> list[Term]:
    return list(itertools.islice(filter(bank.is_new, terms), effort.terms))


def _joined(bank: Bank, levels: Sequence[Sequence[Term]]) -> Iterator[Term]:
    """The newest terms with an entity, or with one thing that was found out earlier."""
    earlier = [term for level in levels[:-1] for term in level if _is_single(term)]
    for term in levels[-1]:
        for other in (*bank.entities, *earlier):
            yield from bank.binary(term, other)


def _met(bank: Bank, levels: Sequence[Sequence[Term]], effort: Effort) -> Iterator[Term]:
    """Lists with one thing that was found out no earlier than they were; short ones first."""
    pairs = [
        (term, other)
        for at, level in enumerate(levels)
        for term in level
        if not _is_single(term)
        for later in levels[at:]
        for other in later
        if _is_single(other)
    ]
    pairs.sort(key=lambda pair: _length(*pair))
    for term, other in pairs[: effort.met]:
        yield from bank.binary(term, other)


def _length(*terms: Term) -> int:
    """How many hops some programs have, shared ones once."""
    return len({id(step) for term in terms for step in term.steps})


def _paired(
    bank: Bank, levels: Sequence[Sequence[Term]], effort: Effort
) -> Iterator[Iterable[Term]]:
    """Two things that were found out, in one question; those with the fewest hops first."""
    single = [term for level in levels for term in level if _is_single(term)]
    pairs = [
        (_length(one, other), not _alike(one, other), at)
        for at, (one, other) in enumerate(itertools.combinations(single, 2))
    ]
    chosen = dict(enumerate(itertools.combinations(single, 2)))
    pairs.sort()
    for start in range(0, min(len(pairs), effort.pairs), 500):
        some = pairs[start : min(start + 500, effort.pairs)]
        yield (term for *_, at in some for term in bank.binary(*chosen[at]))


def _alike(one: Term, other: Term) -> bool:
    """Whether two programs do the same with two entities."""
    forms = [
        [step.made.form for step in term.steps if step.made is not None] for term in (one, other)
    ]
    return forms[0] == forms[1]


def _is_single(term: Term) -> bool:
    """Whether a term is one thing everywhere: a number, or a list with one item."""
    return all(
        value is None or isinstance(value, int | float | str)
        or (isinstance(value, list) and len(value) == 1)
        for value in term.values
    )  # fmt: skip


def _best(goals: Sequence[Term], left: Sequence[Case], effort: Effort) -> Program | None:
    """Of programs that explain a sample, the one that explains most of what is left."""
    tried = [
        way
        for term in goals
        for way in verified(moves_of(term), left, effort.support, effort.errors)
    ]
    return max(tried, key=lambda way: (way.right - way.wrong, -len(way.moves)), default=None)


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
    effort: Effort = Effort(),
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
    asked: list[CachingAgents] = []
    for world in worlds:
        bare = world.without_gold()
        _count_forms(bare, forms)
        asked.append(CachingAgents(Agents(bare)))
        for case in _cases(bare, asked[-1]):
            kinds.setdefault(case.pattern, []).append(case)
    found = _searched_learn(kinds, effort, told)
    examples = [one for kind in found for one in _explained(kind, kinds[kind.pattern])]
    return Learned(
        gathered("answers", forms, examples),
        sum(map(len, kinds.values())),
        len(examples),
        sum(agents.calls for agents in asked),
        found,
    )


def _searched_learn(
    kinds: Mapping[str, Sequence[Case]], effort: Effort, told: Callable[[str], None]
) -> tuple[Kind, ...]:
    """Programs for all kinds of question, those with the most questions first.

    What explains one kind is tried on the next, and at the end on what was left.
    """
    types = Types()
    found: list[Kind] = []
    known: dict[tuple[Move, ...], Program] = {}
    for pattern, cases in sorted(kinds.items(), key=lambda one: (-len(one[1]), one[0])):
        told(f"{pattern} ({len(cases)})")
        one = explain(cases, types, effort, told, tuple(known.values()))
        found.append(Kind(pattern, len(cases), one))
        known |= {way.moves: way for way in one.ways}
    return tuple(_once_more(kind, kinds[kind.pattern], known, effort) for kind in found)


def _once_more(
    kind: Kind, cases: Sequence[Case], known: Mapping[tuple[Move, ...], Program], effort: Effort
) -> Kind:
    if not kind.found.left:
        return kind
    more = recalled(kind.found.left, tuple(known.values()), effort)
    ways = needed((*kind.found.ways, *more), cases)
    left = [case for case in kind.found.left if not any(is_right(way.moves, case) for way in more)]
    stopped = kind.found.stopped if left else ""
    return Kind(kind.pattern, kind.questions, Explained(ways, tuple(left), stopped))


def _cases(world: World, agents: CachingAgents) -> Iterable[Case]:
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
