"""Learning to decompose: from gold decompositions, or from answers alone.

In gold decompositions, the entities of a question are the texts that its hops ask about. Without
them (the paper's open challenge), programs are sought that explain the answers of all questions of
a kind (`pearl.commaqa.explaining`). Of those that explain a question, the one that is probably
meant takes the place of gold. Learning from answers sees only `World.without_gold`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from pearl.commaqa.analogy import says
from pearl.commaqa.decomposition import REFERENCE
from pearl.commaqa.explaining import (
    SUPPORT,
    SWAPPED,
    Explanation,
    Moves,
    Report,
    Way,
    chosen_programs,
    equal,
    explain_all,
    general,
    is_right,
)
from pearl.commaqa.logistic import ENOUGH, LogisticScorer, fit_classifiers
from pearl.commaqa.model import (
    Form,
    LearnedModel,
    LearnedStrategy,
    Move,
    Pattern,
    forms_of,
    known_entities,
    moves_of_hops,
    with_holes,
    words_of,
)
from pearl.commaqa.programs import (
    CHAIN,
    Bank,
    CachingAgents,
    Case,
    Refusals,
    levels_of,
    moves_of,
    run_move,
    run_moves,
)
from pearl.commaqa.search import SearchBudget, best_first
from pearl.commaqa.world import World
from pearl.lang.ast import Mode
from pearl.lang.errors import InputError
from pearl.lang.text import shorten
from pearl.lang.values import Value

_PASSES = 3  # rounds of learning from the chosen programs to find programs for other questions
_GUIDED = SearchBudget(hops=100)  # the budget of each search that a learned model guides
_PARTS = 4  # folds of the kinds of question, each left out in turn


@dataclass(frozen=True, slots=True)
class Learned:
    """A model, and what it cost.

    Args:
        model: the learned model.
        questions: how many training questions there were.
        explained: how many of them have a decomposition that the model was learned from.
        calls: how many questions agents were asked.
        kinds: if learned from answers, the explanation of each kind of question.
    """

    model: LearnedModel
    questions: int
    explained: int
    calls: int
    kinds: tuple[Explanation, ...] = ()


def learn_from_gold(worlds: Iterable[World]) -> Learned:
    """Learn a model from the questions that have a gold decomposition; no agent is asked.

    Raises:
        InputError: a text has a brace, which in a model marks what is left open.
    """
    examples: list[Way] = []
    forms: dict[Form, Counter[str]] = {}
    questions = 0
    for world in worlds:
        _refuse_braces(world)
        for form, agents in forms_of(world.language).items():
            forms.setdefault(form, Counter()).update(agents)
        for question in world.questions:
            questions += 1
            asked = [
                word
                for hop in question.hops
                for _, words in world.language.readings(hop.agent, hop.question)
                for word in words
                if not REFERENCE.search(word)
            ]
            pattern, entities = with_holes(question.text, asked)
            # A question with a hop that cannot be read teaches nothing.
            if moves := moves_of_hops(question.hops, entities, world.language):
                examples.append((pattern, moves))
                for hop, move in zip(question.hops, moves, strict=True):
                    forms.setdefault(move.form, Counter()).setdefault(hop.agent, 1)
    return Learned(model_of("gold", forms, examples), questions, len(examples), 0)


def learn_from_answers(worlds: Iterable[World], report: Report = lambda _: None) -> Learned:
    """Learn a model from questions, answers and agents only (the paper's open challenge).

    Of the worlds it uses the agents, examples of valid inputs, and the texts and answers of
    questions. ``report`` is called with each line of progress.

    Raises:
        InputError: a text has a brace, which in a model marks what is left open.
    """
    forms: dict[Form, Counter[str]] = {}
    cases: dict[str, list[Case]] = {}
    asked: list[CachingAgents] = []
    for world in worlds:
        bare = world.without_gold()
        _refuse_braces(bare)
        for form, agents in forms_of(bare.language).items():
            forms.setdefault(form, Counter()).update(agents)
        asked.append(CachingAgents(bare))
        valid = frozenset().union(*bare.entities.values())
        for question in bare.questions:
            pattern, entities = with_holes(question.text, known_entities(question.text, valid))
            case = Case(pattern, entities, question.answer, asked[-1])
            cases.setdefault(pattern, []).append(case)
    kinds = explain_all(cases, report)
    known = tuple(
        dict.fromkeys(
            way
            for kind in kinds
            for program in kind.programs
            if program.right >= SUPPORT
            for way in program.ways
        )
    )
    ways = _all_ways(kinds, cases, known)
    chosen = _settled(forms, ways, _PASSES if len(cases) >= ENOUGH else 0, report)
    kinds = [
        replace(kind, left=tuple(case for case in cases[kind.pattern] if not ways[case]))
        for kind in kinds
    ]
    report(f"{sum(len(kind.left) for kind in kinds)} questions are left")
    examples = [(case.pattern, moves) for case, moves in chosen.items()]
    return Learned(
        model_of("answers", forms, examples),
        sum(map(len, cases.values())),
        len(examples),
        sum(agents.calls for agents in asked),
        tuple(kinds),
    )


def _refuse_braces(world: World) -> None:
    phrasings = (phrasing for asked in world.language.templates for phrasing in asked.phrasings)
    texts = [text for phrasing in phrasings for text in phrasing.fixed]
    for question in world.questions:
        texts += (question.text, *(hop.question for hop in question.hops))
    for text in texts:
        if "{" in text:
            message = "has {, which marks what a model leaves open: write the text without it."
            raise InputError(f"{world.name}: {shorten(text, 60)!r} {message}")


def model_of(
    source: str, forms: Mapping[Form, Mapping[str, int]], examples: Iterable[Way]
) -> LearnedModel:
    """A model of examples, which counts the decompositions of each pattern.

    Args:
        source: ``gold`` or ``answers``.
        forms: the questions that agents answer, and in how many worlds each agent did.
        examples: for each question, its pattern and its moves.
    """
    counted: dict[str, Counter[Moves]] = {}
    for question, moves in examples:
        counted.setdefault(question, Counter())[moves] += 1
    patterns = []
    for question, ways in sorted(counted.items()):
        ordered = sorted(ways.items(), key=lambda way: (-way[1], str(way[0])))
        patterns.append(Pattern(question, tuple(LearnedStrategy(*way) for way in ordered)))
    return LearnedModel(source, forms, tuple(patterns), fit_classifiers(patterns))


# Finding, among the programs that give an answer, the one that is meant.


def _all_ways(
    kinds: Iterable[Explanation], cases: Mapping[str, Sequence[Case]], known: Sequence[Moves]
) -> dict[Case, dict[Moves, None]]:
    """For each question, the programs that give its answer and so may be its decomposition.

    These are programs found for its kind. Programs of other kinds are added if there are many kinds
    (each then has few questions), if this kind has too few questions, or if none of its own
    programs is right; in the last two cases, so are programs with one more hop. If there is still
    none, this question is searched alone.
    """
    refusals: Refusals = {}
    ways: dict[Case, dict[Moves, None]] = {}
    for kind in kinds:
        own = dict.fromkeys(way for program in kind.programs for way in program.ways)
        same_kind = cases[kind.pattern]
        for case in same_kind:
            right = [way for way in own if is_right(way, case)]
            is_doubtful = not right or len(same_kind) < SUPPORT
            if is_doubtful or len(cases) >= ENOUGH:
                right += (way for way in known if way not in own and is_right(way, case))
            if is_doubtful:
                right += _longer(known, case)
            right = right or _explanations(case, refusals)
            ways[case] = dict.fromkeys(general(way, case) for way in right)
    return ways


def _settled(
    forms: Mapping[Form, Mapping[str, int]],
    ways: dict[Case, dict[Moves, None]],
    passes: int,
    report: Report,
) -> dict[Case, Moves]:
    """The program that is probably meant, for each question that has any.

    Programs that are chosen, or possible, for several questions are tried on others. Where they
    give the answer they are added to ``ways``, and all choices are made again.
    """
    chosen = _chosen(ways)
    tried: set[Moves] = set()
    for _ in range(passes):
        often = [moves for moves, seen in Counter(chosen.values()).items() if seen >= SUPPORT]
        possible = Counter(itertools.chain.from_iterable(ways.values()))
        shared = [moves for moves, seen in possible.items() if seen >= SUPPORT]
        untried = [moves for moves in dict.fromkeys((*often, *shared)) if moves not in tried]
        tried.update(untried)
        unknown = [case for case, those in ways.items() if not those]
        found = [
            *_predicted(forms, chosen, ways),
            *_transferred(untried, ways),
            *_joined(often, unknown),
        ]
        generalised = ((case, general(moves, case)) for case, moves in found)
        new = [(case, moves) for case, moves in generalised if moves not in ways[case]]
        report(f"{len(new)} programs more, by what was chosen for other questions")
        if not new:
            break
        for case, moves in new:
            ways[case][moves] = None
        chosen = _chosen(ways)
    return chosen


def _predicted(
    forms: Mapping[Form, Mapping[str, int]], chosen: Mapping[Case, Moves], cases: Iterable[Case]
) -> Iterator[tuple[Case, Moves]]:
    """Programs that give the answer, found by a search with a model of other questions' programs.

    The model is learned without the question's own kind, so that an earlier choice for a question
    does not confirm itself.
    """
    patterns = sorted({case.pattern for case in cases})
    for part in range(_PARTS):
        own = {*patterns[part::_PARTS]}
        others = [(case.pattern, way) for case, way in chosen.items() if case.pattern not in own]
        model = model_of("answers", forms, others)
        scorer = LogisticScorer(model)
        for case in cases:
            if case.pattern in own:
                accepts = partial(equal, answer=case.answer)
                result = best_first(case.text, case.agents, scorer, _GUIDED, accepts)
                language = case.agents.world.language
                if moves := moves_of_hops(result.hops, case.entities, language):
                    yield case, moves


def _chosen(ways: Mapping[Case, Iterable[Moves]]) -> dict[Case, Moves]:
    """The program that is probably meant, for each question that has any; none for fewer than
    `SUPPORT` questions."""
    explained = {case: tuple(those) for case, those in ways.items() if those}
    if len(explained) < SUPPORT:
        return {}
    chosen = chosen_programs([(case.pattern, those) for case, those in explained.items()])
    return dict(zip(explained, chosen, strict=True))


def _transferred(known: Iterable[Moves], cases: Iterable[Case]) -> Iterator[tuple[Case, Moves]]:
    """Programs of other questions with as many entities that give the answer, either unchanged or
    with some forms replaced by others that share more words with the question."""
    # A tree, so that the common beginning of programs is run once.
    trees: dict[frozenset[int], _Tree] = {}
    for way in known:
        tree = trees.setdefault(frozenset(_entities(way)), {})
        for move in way[:-1]:
            tree = tree.setdefault(move, {})
        tree.setdefault(way[-1], {})[None] = {}
    for case in cases:
        words = {*words_of(case.pattern)}
        shared = {form: sum(says(form, word) for word in words) for form in case.agents.forms}
        tree = trees.get(frozenset(range(1, len(case.entities) + 1)), {})
        for moves in _answering(tree, case, shared):
            yield case, moves


_Tree: TypeAlias = "dict[Move | None, _Tree]"
"""Programs as a tree of hops, in which the key None marks the end of a program."""


def _answering(
    tree: _Tree,
    case: Case,
    shared: Mapping[Form, int],
    before: Moves = (),
    answers: tuple[Value, ...] = (),
) -> Iterator[Moves]:
    """The programs of a tree that give a question's answer, unchanged or in its words."""
    for move, longer in tree.items():
        if move is None:
            if equal(answers[-1], case.answer):
                yield before
            continue
        own, blanks = shared.get(move.form, 0), move.form.blanks
        more = (form for form in shared if shared[form] > own and form.blanks == blanks)
        for form in (move.form, *more):
            hop = replace(move, form=form)
            if (answer := run_move(hop, answers, case)) is not None:
                yield from _answering(longer, case, shared, (*before, hop), (*answers, answer))


def _joined(known: Sequence[Moves], cases: Iterable[Case]) -> Iterator[tuple[Case, Moves]]:
    """Known programs about one entity, run for two entities, and a last hop about both answers."""
    single = [way for way in known if _entities(way) == {1}]
    for case in cases:
        programs: dict[tuple[int, str], tuple[Value, list[Moves]]] = {}
        for way, at in itertools.product(single, range(1, len(case.entities) + 1)):
            about = tuple(
                replace(move, arguments=tuple(at if arg == 1 else arg for arg in move.arguments))
                for move in way
            )
            if (value := run_moves(about, case)) is not None:
                programs.setdefault((at, str(value)), (value, []))[1].append(about)
        hops = [
            Move(Mode.PLAIN, (), form, (-2, -1)) for form in case.agents.forms if form.blanks == 2
        ]
        for (key, first), (other, second) in itertools.permutations(programs.items(), 2):
            for hop in hops if key[0] != other[0] else ():
                answer = run_move(hop, (first[0], second[0]), case)
                if answer is not None and equal(answer, case.answer):
                    for left, right in itertools.product(first[1], second[1]):
                        last = replace(hop, arguments=(-1 - len(right), -1))
                        yield case, (*left, *right, last)


def _entities(moves: Moves) -> set[int]:
    """The entities of a question that a program asks about, by their numbers."""
    asked = itertools.chain.from_iterable(move.arguments for move in moves)
    return {arg for arg in asked if isinstance(arg, int) and arg > 0}


def _longer(known: Iterable[Moves], case: Case) -> Iterator[Moves]:
    """Known programs with one more hop that give a question's answer; of variants of that hop, the
    first that does, and the one that drops repeated answers comes first."""
    for way in known:
        before = run_moves(way, case)
        is_list = isinstance(before, list)
        for form in case.agents.forms if before is not None else ():
            once = Move(Mode.PLAIN, (), form, (-1,))
            each = (
                replace(once, mode=Mode.EACH, then=then) for then in SWAPPED.values() if is_list
            )
            longer = ((*way, hop) for hop in (*each, once) if form.blanks == 1)
            yield from itertools.islice((moves for moves in longer if is_right(moves, case)), 1)


def _explanations(case: Case, refusals: Refusals) -> list[Moves]:
    """Chains of hops that give the answer of one question, those with the fewest hops first."""
    explanations: list[Moves] = []
    levels = levels_of(Bank((case,), refusals, 1), new_only=False)
    for hops, level in enumerate(itertools.islice(levels, CHAIN + 1), 1):
        if hops > CHAIN and explanations:
            break
        for term in level:
            [value] = term.values
            if value is not None and equal(value, case.answer):
                explanations.append(moves_of(term))
    return explanations
