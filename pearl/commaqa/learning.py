"""Learning to decompose: from gold decompositions, or from answers alone.

From gold, the entities of a question are what its hops ask about, and the decomposition is what is
left of them. From answers (the paper's open challenge), programs are sought that explain the
answers of all questions of a kind, and what was found takes gold's place; that way sees
`World.without_gold` and nothing else.

One question's answer has many explanations, most of them wrong: an award that somebody won may
also be that of a film of his. What explains the answers of many worlds is right, or as good. A
kind of question may need several programs, as CommaQA-I asks the same of worlds that know
different things: what one program leaves, the next one is sought for.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from pearl.commaqa.agents import Agents
from pearl.commaqa.analogy import says
from pearl.commaqa.choice import Moves, Way, chosen_programs
from pearl.commaqa.decomposition import REFERENCE
from pearl.commaqa.logistic import ENOUGH, LogisticScorer, fit_classifiers
from pearl.commaqa.model import (
    Form,
    Model,
    Move,
    Pattern,
    Strategy,
    forms_of,
    known_entities,
    move_of,
    with_holes,
    words_of,
)
from pearl.commaqa.programs import (
    CHAIN,
    Bank,
    CachingAgents,
    Case,
    Refusals,
    Term,
    levels_of,
    moves_of,
    run_move,
    run_moves,
)
from pearl.commaqa.scoring import exact_match
from pearl.commaqa.search import Budget, best_first
from pearl.commaqa.world import World
from pearl.lang.ast import Mode
from pearl.lang.values import Value

# How far the search for programs goes.
_SAMPLE = 6  # questions that programs are built over
_AGREE = 2  # on how many of them a program needs an answer
_ROUNDS = 12  # searches for one kind of question
_SUPPORT = 3  # questions that a program has to explain
_EQUALS = 50  # programs that are kept beside one that they do as well as
_PASSES = 3  # how often what was chosen is learned from, to find programs for other questions
_GUIDED = Budget(hops=100)  # of the search for each
_PARTS = 4  # of the kinds of question, each left out in turn
_ERRORS = 0.2  # the share of its answers that may be wrong

Report = Callable[[str], None]
"""Takes a line of what is found."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program for questions of a kind.

    Args:
        moves: its hops.
        right: how many of the questions it explains.
        wrong: how many it answers otherwise than recorded.
        equals: others with as many hops that do as well.
    """

    moves: Moves
    right: int
    wrong: int
    equals: tuple[Moves, ...] = ()

    @property
    def ways(self) -> tuple[Moves, ...]:
        """It, and its equals."""
        return (self.moves, *self.equals)


@dataclass(frozen=True, slots=True)
class Kind:
    """What was found for one kind of question.

    Args:
        pattern: its text with holes.
        questions: how many there are.
        programs: that explain them, the one that explains most first.
        left: the questions that none of them explains.
        stopped: for what is left, where the search ended, in words; or empty.
    """

    pattern: str
    questions: int
    programs: tuple[Program, ...]
    left: tuple[Case, ...]
    stopped: str = ""


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
    """A model of gold decompositions, where there are some; no agent is asked."""
    examples: list[Way] = []
    forms: dict[Form, Counter[str]] = {}
    questions = 0
    for world in worlds:
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
            hops = enumerate(question.hops, 1)
            moves = [move_of(hop, at, entities, world.language) for at, hop in hops]
            readable = tuple(move for move in moves if move is not None)
            # A question with a hop that cannot be read teaches nothing.
            if readable and len(readable) == len(moves):
                examples.append((pattern, readable))
                for hop, move in zip(question.hops, readable, strict=True):
                    forms.setdefault(move.form, Counter()).setdefault(hop.agent, 1)
    return Learned(model_of("gold", forms, examples), questions, len(examples), 0)


def learn_from_answers(worlds: Iterable[World], report: Report = lambda _: None) -> Learned:
    """A model of questions, answers and agents alone (the paper's open challenge).

    Of the worlds, their agents are used, examples of valid inputs, and the questions' texts and
    answers. ``report`` is told what is found, a line at a time.
    """
    forms: dict[Form, Counter[str]] = {}
    cases: dict[str, list[Case]] = {}
    asked: list[CachingAgents] = []
    for world in worlds:
        bare = world.without_gold()
        for form, agents in forms_of(bare.language).items():
            forms.setdefault(form, Counter()).update(agents)
        asked.append(CachingAgents(Agents(bare)))
        valid = frozenset().union(*bare.entities.values())
        for question in bare.questions:
            pattern, entities = with_holes(question.text, known_entities(question.text, valid))
            case = Case(pattern, entities, question.answer, asked[-1])
            cases.setdefault(pattern, []).append(case)
    kinds = _explain_all(cases, report)
    known = tuple(
        dict.fromkeys(
            way
            for kind in kinds
            for one in kind.programs
            if one.right >= _SUPPORT
            for way in one.ways
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
        sum(one.agents.calls for one in asked),
        tuple(kinds),
    )


def model_of(
    source: str,
    forms: Mapping[Form, Mapping[str, int]],
    examples: Iterable[Way],
) -> Model:
    """A model of examples: how often each pattern went which way.

    Args:
        source: ``gold`` or ``answers``.
        forms: what agents answer, and in how many worlds each did.
        examples: a pattern and its moves, one for each question.
    """
    counted: dict[str, Counter[Moves]] = {}
    for question, moves in examples:
        counted.setdefault(question, Counter())[moves] += 1
    patterns = []
    for question, ways in sorted(counted.items()):
        ordered = sorted(ways.items(), key=lambda one: (-one[1], str(one[0])))
        patterns.append(Pattern(question, tuple(Strategy(*one) for one in ordered)))
    return Model(source, forms, tuple(patterns), fit_classifiers(patterns))


# Programs that explain the answers of all questions of a kind, and of as many as they can.


def _explain_all(cases: Mapping[str, Sequence[Case]], report: Report) -> list[Kind]:
    """Programs for all kinds of question, those with the most questions first.

    For each, programs are sought until all of its questions are explained, or nothing more is
    found. What explains one kind is tried on the next, and at the end on what was left.
    """
    refusals: Refusals = {}
    kinds: list[Kind] = []
    known: dict[Moves, Program] = {}
    for pattern, those in sorted(cases.items(), key=lambda one: (-len(one[1]), one[0])):
        report(f"{pattern} ({len(those)})")
        programs = _recalled(those, known.values())
        left, stopped = _not_right(those, programs), ""
        given_up: Counter[frozenset[Form]] = Counter()
        for _ in range(_ROUNDS):
            sample = _sample(left, given_up)
            if not sample:
                break
            program, tried = _shortest(sample, left, refusals)
            if program is None:
                over = f"{tried} programs over {len(sample)} questions"
                stopped = f"{over}, none of which explains them"
                given_up[_forms(sample[0])] += 1
                report(f"  nothing: {stopped}")
                continue
            programs.append(program)
            before, left = len(left), _not_right(left, (program,))
            explained = before - len(left)
            report(f"  {len(program.moves)} hops explain {explained}, {len(left)} left")
            if len(left) < _SUPPORT:
                break
        needed = _needed(programs, those)
        kinds.append(Kind(pattern, len(those), needed, left, stopped if left else ""))
        known |= {program.moves: program for program in needed}
    for at, kind in enumerate(kinds):
        if kind.left:
            more = _recalled(kind.left, known.values())
            needed = _needed((*kind.programs, *more), cases[kind.pattern])
            left = _not_right(kind.left, more)
            stopped = kind.stopped if left else ""
            kinds[at] = replace(kind, programs=needed, left=left, stopped=stopped)
    return kinds


def _not_right(cases: Iterable[Case], programs: Sequence[Program]) -> tuple[Case, ...]:
    """The questions that no program explains."""
    return tuple(
        case for case in cases if not any(_is_right(program.moves, case) for program in programs)
    )


def _recalled(cases: Sequence[Case], known: Iterable[Program]) -> list[Program]:
    """Programs of other kinds of question that hold for this one too."""
    programs: list[Program] = []
    left = tuple(cases)
    for program in sorted(known, key=lambda one: -one.right):
        for holding in itertools.islice(_verified(program.moves, left), 1 if left else 0):
            equals = program.equals if holding.moves == program.moves else ()
            programs.append(replace(holding, equals=equals))
            left = _not_right(left, (holding,))
    return programs


def _needed(programs: Sequence[Program], cases: Sequence[Case]) -> tuple[Program, ...]:
    """Programs that together explain all that can be, the one that explains most first.

    One that was found early, on questions whose answers have little to tell, may be part of what a
    later one explains.
    """
    left = [
        (one.moves, {at for at, case in enumerate(cases) if _is_right(one.moves, case)})
        for one in programs
    ]
    equals = {one.moves: one.equals for one in programs}
    chosen: list[Program] = []
    while left:
        moves, most = max(left, key=lambda one: len(one[1]))
        if not most:
            break
        chosen.append(replace(_counted(moves, cases), equals=equals[moves]))
        left = [(other, right - most) for other, right in left]
    return tuple(chosen)


# Of the programs that give an answer, the one that is meant.


def _all_ways(
    kinds: Iterable[Kind], cases: Mapping[str, Sequence[Case]], known: Sequence[Moves]
) -> dict[Case, dict[Moves, None]]:
    """The programs that may be the decomposition of each question.

    They are those that were found for its kind and give its answer, and for other kinds where
    there are many, so that few questions are of each; where its own kind has too few, or none that
    do, these with one more hop, too; and where none does either, what a search for this question
    alone finds.
    """
    refusals: Refusals = {}
    ways: dict[Case, dict[Moves, None]] = {}
    for kind in kinds:
        own = dict.fromkeys(way for one in kind.programs for way in one.ways)
        those = cases[kind.pattern]
        for case in those:
            right = [way for way in own if _is_right(way, case)]
            is_doubtful = not right or len(those) < _SUPPORT
            if is_doubtful or len(cases) >= ENOUGH:
                right += (way for way in known if way not in own and _is_right(way, case))
            if is_doubtful:
                right += _longer(known, case)
            ways[case] = dict.fromkeys(_general(way, (case,)) for way in right)
            if not right:
                ways[case] = dict.fromkeys(_explanations(case, refusals))
    return ways


def _settled(
    forms: Mapping[Form, Mapping[str, int]],
    ways: dict[Case, dict[Moves, None]],
    passes: int,
    report: Report,
) -> dict[Case, Moves]:
    """The program that is meant, for each question that has any.

    What is chosen for some, and what may be meant by several, is tried on others, and added to
    ``ways`` where it gives the answer; then it is chosen anew.
    """
    chosen = _chosen(ways)
    tried: set[Moves] = set()
    for _ in range(passes):
        often = [moves for moves, seen in Counter(chosen.values()).items() if seen >= _SUPPORT]
        possible = Counter(itertools.chain.from_iterable(ways.values()))
        shared = [moves for moves, seen in possible.items() if seen >= _SUPPORT]
        untried = [moves for moves in dict.fromkeys((*often, *shared)) if moves not in tried]
        tried.update(untried)
        unknown = [case for case, those in ways.items() if not those]
        found = [
            *_foretold(forms, chosen, ways),
            *_transferred(untried, ways),
            *_joined(often, unknown),
        ]
        new = [(case, moves) for case, moves in found if moves not in ways[case]]
        report(f"{len(new)} programs more, by what was chosen for other questions")
        if not new:
            break
        for case, moves in new:
            ways[case][moves] = None
        chosen = _chosen(ways)
    return chosen


def _foretold(
    forms: Mapping[Form, Mapping[str, int]],
    chosen: Mapping[Case, Moves],
    cases: Iterable[Case],
) -> Iterator[tuple[Case, Moves]]:
    """Programs that what was chosen for other questions foretells, and that give the answer.

    A question's own kind is left out of what the search for it learns from, so that what was
    chosen for it does not speak for itself.
    """
    patterns = sorted({case.pattern for case in cases})
    for part in range(_PARTS):
        own = {*patterns[part::_PARTS]}
        others = [(case.pattern, way) for case, way in chosen.items() if case.pattern not in own]
        model = model_of("answers", forms, others)
        scorer = LogisticScorer(model)
        for case in cases:
            if case.pattern in own:
                is_right = partial(_equal, answer=case.answer)
                found = best_first(case.text, case.agents, scorer, _GUIDED, is_right)
                language = case.agents.agents.world.language
                hops = enumerate(found.hops, 1)
                moves = [move_of(hop, at, case.entities, language) for at, hop in hops]
                if moves and None not in moves:
                    yield case, _general(tuple(filter(None, moves)), (case,))


def _chosen(ways: Mapping[Case, Iterable[Moves]]) -> dict[Case, Moves]:
    """The program that is meant, for each question that has any; none of fewer than `_SUPPORT`."""
    explained = [(case, tuple(those)) for case, those in ways.items() if those]
    if len(explained) < _SUPPORT:
        return {}
    chosen = chosen_programs([(case.pattern, those) for case, those in explained])
    return {case: moves for (case, _), (_, moves) in zip(explained, chosen, strict=True)}


def _transferred(known: Iterable[Moves], cases: Iterable[Case]) -> Iterator[tuple[Case, Moves]]:
    """Programs of other questions with as many entities that give the answer, as they are and in
    the question's words.

    In its words, hops are asked in forms with as many blanks that say more of them.
    """
    # What programs begin with alike is run once.
    trees: dict[frozenset[int], _Tree] = {}
    for way in known:
        tree = trees.setdefault(frozenset(_entities(way)), {})
        for move in way[:-1]:
            tree = tree.setdefault(move, {})
        tree.setdefault(way[-1], {})[None] = {}
    for case in cases:
        words = {*words_of(case.pattern)}
        said = {form: sum(says(form, word) for word in words) for form in case.agents.forms}
        tree = trees.get(frozenset(range(1, len(case.entities) + 1)), {})
        for moves in _answering(tree, case, said):
            yield case, _general(moves, (case,))


_Tree: TypeAlias = "dict[Move | None, _Tree]"
"""Programs by their first hops; None where one ends."""


def _answering(
    tree: _Tree,
    case: Case,
    said: Mapping[Form, int],
    before: Moves = (),
    answers: tuple[Value, ...] = (),
) -> Iterator[Moves]:
    """The programs of a tree, in a question's words, too, that give its answer."""
    for move, longer in tree.items():
        if move is None:
            if _equal(answers[-1], case.answer):
                yield before
            continue
        own, blanks = said.get(move.form, 0), move.form.blanks
        more = (form for form in said if said[form] > own and form.blanks == blanks)
        for form in (move.form, *more):
            hop = replace(move, form=form)
            if (answer := run_move(hop, answers, case)) is not None:
                yield from _answering(longer, case, said, (*before, hop), (*answers, answer))


def _joined(known: Sequence[Moves], cases: Iterable[Case]) -> Iterator[tuple[Case, Moves]]:
    """Known programs of one entity, for two of a question's, with a hop of both their answers."""
    single = [way for way in known if _entities(way) == {1}]
    for case in cases:
        given: dict[tuple[int, str], tuple[Value, list[Moves]]] = {}
        for way, at in itertools.product(single, range(1, len(case.entities) + 1)):
            about = tuple(
                replace(move, arguments=tuple(at if one == 1 else one for one in move.arguments))
                for move in way
            )
            if (value := run_moves(about, case)) is not None:
                given.setdefault((at, str(value)), (value, []))[1].append(about)
        hops = [
            Move(Mode.PLAIN, (), form, (-2, -1)) for form in case.agents.forms if form.blanks == 2
        ]
        for (one, first), (other, second) in itertools.permutations(given.items(), 2):
            for hop in hops if one[0] != other[0] else ():
                answer = run_move(hop, (first[0], second[0]), case)
                if answer is not None and _equal(answer, case.answer):
                    for left, right in itertools.product(first[1], second[1]):
                        last = replace(hop, arguments=(-1 - len(right), -1))
                        yield case, _general((*left, *right, last), (case,))


def _entities(moves: Moves) -> set[int]:
    """The entities of a question that a program asks about, by their numbers."""
    asked = itertools.chain.from_iterable(move.arguments for move in moves)
    return {one for one in asked if isinstance(one, int) and one > 0}


def _longer(known: Iterable[Moves], case: Case) -> Iterator[Moves]:
    """Known programs with one more hop that give a question's answer, best without doubles."""
    for way in known:
        before = run_moves(way, case)
        is_list = isinstance(before, list)
        for form in case.agents.forms if before is not None else ():
            once = Move(Mode.PLAIN, (), form, (-1,))
            each = (
                replace(once, mode=Mode.EACH, then=then) for then in _SWAPPED.values() if is_list
            )
            longer = ((*way, hop) for hop in (*each, once) if form.blanks == 1)
            yield from itertools.islice((one for one in longer if _is_right(one, case)), 1)


def _explanations(case: Case, refusals: Refusals) -> list[Moves]:
    """Programs in a row that give the answer of one question, those with the fewest hops first."""
    found: list[Moves] = []
    levels = levels_of(Bank((case,), refusals, 1), new_only=False)
    for hops, level in enumerate(itertools.islice(levels, CHAIN + 1), 1):
        if hops > CHAIN and found:
            break
        for term in level:
            [value] = term.values
            if value is not None and _equal(value, case.answer):
                found.append(_general(moves_of(term), (case,)))
    return found


def _general(moves: Moves, cases: Sequence[Case]) -> Moves:
    """A program that asks for each item of an answer where asking once gives the same.

    Where an answer has one item in every case, both do, and the next world has several.
    """
    for at, move in enumerate(moves):
        of_answer = [isinstance(one, int) and one < 0 for one in move.arguments] == [True]
        if move.mode is Mode.PLAIN and of_answer:
            each = replace(move, mode=Mode.EACH, then=("values", "flat", "unique"))
            pairs = ((*moves[:at], one) for one in (move, each))
            once, by_item = ([run_moves(one, case) for case in cases] for one in pairs)
            if once == by_item:
                moves = (*moves[:at], each, *moves[at + 1 :])
    return moves


# Whether programs hold for questions that they were not found on.

_SWAPPED = {
    ("values", "flat"): ("values", "flat", "unique"),
    ("values", "flat", "unique"): ("values", "flat"),
}


def _verified(moves: Moves, left: Sequence[Case]) -> Iterator[Program]:
    """Of a program and its variants, with doubles kept or dropped, those that hold for questions.

    One has to explain `_SUPPORT` of them, or all where there are fewer.
    """
    either = [
        (move, replace(move, then=_SWAPPED[move.then])) if move.then in _SWAPPED else (move,)
        for move in moves
    ]
    for variant in itertools.islice(itertools.product(*either), 16):
        few = _counted(variant, left[:: max(1, len(left) // 12)])
        if few.wrong > max(2, _ERRORS * (few.right + few.wrong)):
            continue
        program = _counted(variant, left)
        wrong = program.wrong <= _ERRORS * (program.right + program.wrong)
        if program.right >= min(_SUPPORT, len(left)) and wrong:
            yield program


def _counted(moves: Moves, cases: Sequence[Case]) -> Program:
    """A program, with how many questions it answers as recorded, and how many otherwise."""
    answers = ((run_moves(moves, case), case.answer) for case in cases)
    agrees = Counter(_equal(value, gold) for value, gold in answers if value is not None)
    return Program(moves, agrees[True], agrees[False])


def _is_right(moves: Moves, case: Case) -> bool:
    """Whether a program gives a question's recorded answer."""
    value = run_moves(moves, case)
    return value is not None and _equal(value, case.answer)


def _equal(value: Value, answer: Value) -> bool:
    if isinstance(answer, list) and isinstance(value, list) and len(answer) != len(value):
        return False
    return exact_match(value, answer)


# The search for one program.


def _forms(case: Case) -> frozenset[Form]:
    return frozenset(case.agents.forms)


def _sample(left: Sequence[Case], given_up: Counter[frozenset[Form]]) -> list[Case]:
    """Questions of worlds whose agents speak as much alike as can be, of many worlds.

    They begin with the language that most questions are left of, and that was not given up twice.
    """
    languages = Counter(map(_forms, left))
    usable = [language for language in languages if given_up[language] < 2]
    if not usable or len(left) < _SUPPORT:
        return []
    chosen = max(usable, key=lambda one: (languages[one], -given_up[one]))
    worlds: dict[int, list[Case]] = {}
    for case in left:
        worlds.setdefault(id(case.agents), []).append(case)
    turns = itertools.zip_longest(*worlds.values())
    spread = [case for turn in turns for case in turn if case is not None]
    nearest = sorted(spread, key=lambda case: len(_forms(case) ^ chosen))
    start = min(given_up[chosen] * _SAMPLE, max(0, languages[chosen] - _SUPPORT))
    return nearest[start : start + _SAMPLE]


def _shortest(
    sample: Sequence[Case], left: Sequence[Case], refusals: Refusals
) -> tuple[Program | None, int]:
    """The shortest program that explains a sample and holds for the others; and how many it tried.

    It has recorded answers wherever it has one. Of several that are as short, it is the one that
    explains most of what is left.
    """
    tried = 0
    for level in levels_of(Bank(sample, refusals, min(_AGREE, len(sample)))):
        goals: list[Term] = []
        for term in level:
            tried += 1
            pairs = zip(term.values, sample, strict=False)
            if all(value is None or _equal(value, case.answer) for value, case in pairs):
                goals.append(term)
        programs = [one for term in goals for one in _verified(moves_of(term), left)]
        if programs:
            best = max(programs, key=_worth)
            equals = (one.moves for one in programs if _worth(one) == _worth(best))
            others = dict.fromkeys(moves for moves in equals if moves != best.moves)
            return replace(best, equals=tuple(others)[:_EQUALS]), tried
    return None, tried


def _worth(program: Program) -> tuple[int, int]:
    return program.right - program.wrong, -len(program.moves)
