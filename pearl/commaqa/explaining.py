"""Programs that explain the answers of all questions of a kind, and of as many as they can.

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
from typing import TypeAlias

from pearl.commaqa.choice import Moves
from pearl.commaqa.model import Form
from pearl.commaqa.programs import Bank, Case, Refusals, Term, levels_of, moves_of, run_moves
from pearl.commaqa.scoring import exact_match
from pearl.lang.ast import Mode
from pearl.lang.values import Value

SUPPORT = 3
"""Questions that a program has to explain."""

_SAMPLE = 6  # questions that programs are built over
_AGREE = 2  # on how many of them a program needs an answer
_ROUNDS = 12  # searches for one kind of question
_EQUALS = 50  # programs that are kept beside one that they do as well as
_ERRORS = 0.2  # the share of its answers that may be wrong

Report: TypeAlias = Callable[[str], None]
"""Takes a line of what is found."""

SWAPPED = {
    ("values", "flat"): ("values", "flat", "unique"),
    ("values", "flat", "unique"): ("values", "flat"),
}
"""What is done with answers: with doubles dropped where they were kept, and the other way round."""


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


def explain_all(cases: Mapping[str, Sequence[Case]], report: Report) -> list[Kind]:
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
            if len(left) < SUPPORT:
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
        case for case in cases if not any(is_right(program.moves, case) for program in programs)
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
        (one.moves, {at for at, case in enumerate(cases) if is_right(one.moves, case)})
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


# Whether programs hold for questions that they were not found on.


def _verified(moves: Moves, left: Sequence[Case]) -> Iterator[Program]:
    """Of a program and its variants, with doubles kept or dropped, those that hold for questions.

    One has to explain `SUPPORT` of them, or all where there are fewer.
    """
    either = [
        (move, replace(move, then=SWAPPED[move.then])) if move.then in SWAPPED else (move,)
        for move in moves
    ]
    for variant in itertools.islice(itertools.product(*either), 16):
        few = _counted(variant, left[:: max(1, len(left) // 12)])
        if few.wrong > max(2, _ERRORS * (few.right + few.wrong)):
            continue
        program = _counted(variant, left)
        wrong = program.wrong <= _ERRORS * (program.right + program.wrong)
        if program.right >= min(SUPPORT, len(left)) and wrong:
            yield program


def _counted(moves: Moves, cases: Sequence[Case]) -> Program:
    """A program, with how many questions it answers as recorded, and how many otherwise."""
    answers = ((run_moves(moves, case), case.answer) for case in cases)
    agrees = Counter(equal(value, gold) for value, gold in answers if value is not None)
    return Program(moves, agrees[True], agrees[False])


def is_right(moves: Moves, case: Case) -> bool:
    """Whether a program gives a question's recorded answer."""
    value = run_moves(moves, case)
    return value is not None and equal(value, case.answer)


def equal(value: Value, answer: Value) -> bool:
    """Whether a value is the recorded answer, a list of as many items where it is one."""
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
    if not usable or len(left) < SUPPORT:
        return []
    chosen = max(usable, key=lambda one: (languages[one], -given_up[one]))
    worlds: dict[int, list[Case]] = {}
    for case in left:
        worlds.setdefault(id(case.agents), []).append(case)
    turns = itertools.zip_longest(*worlds.values())
    spread = [case for turn in turns for case in turn if case is not None]
    nearest = sorted(spread, key=lambda case: len(_forms(case) ^ chosen))
    start = min(given_up[chosen] * _SAMPLE, max(0, languages[chosen] - SUPPORT))
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
            if all(value is None or equal(value, case.answer) for value, case in pairs):
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


def general(moves: Moves, cases: Sequence[Case]) -> Moves:
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
