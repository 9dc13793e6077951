"""Programs that explain the answers of questions of one kind, as many of them as possible.

One answer has many explanations, most of them wrong: an award that a person won may also be that of
one of his films. A program that explains the answers in many worlds is right, or as good. A kind of
question may need several programs, as CommaQA-I asks the same question of worlds that know
different things: each next program is sought for the questions that are still unexplained.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pearl.commaqa.agents import exact_match
from pearl.commaqa.logistic import design_matrix
from pearl.commaqa.model import Form, Move, words_of
from pearl.commaqa.programs import Bank, Case, Refusals, Term, levels_of, moves_of, run_moves
from pearl.lang.ast import Mode
from pearl.lang.values import Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

SUPPORT = 3
"""The fewest questions that a program has to explain."""

_SAMPLE = 6  # questions that programs are built over
_AGREE = 2  # on how many of them a program needs an answer
_ROUNDS = 12  # searches for one kind of question
_EQUALS = 50  # programs that are kept beside an equally good one
_ERRORS = 0.2  # the share of its answers that may be wrong

Moves: TypeAlias = tuple[Move, ...]
Way: TypeAlias = tuple[str, Moves]
"""A kind of question, as its text with holes, and the moves that one such question took."""

Report: TypeAlias = Callable[[str], None]
"""Called with each line of progress."""

SWAPPED = {
    ("values", "flat"): ("values", "flat", "unique"),
    ("values", "flat", "unique"): ("values", "flat"),
}
"""For each transformation, the variant that drops repeated answers instead of keeping them, or the
other way round."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program for questions of a kind.

    Args:
        moves: its hops.
        right: how many of the questions it answers as recorded.
        wrong: how many it answers otherwise.
        equals: other programs with as many hops that do as well.
    """

    moves: Moves
    right: int
    wrong: int
    equals: tuple[Moves, ...] = ()

    @property
    def ways(self) -> tuple[Moves, ...]:
        """This program's moves, and those of its equals."""
        return (self.moves, *self.equals)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What was found for one kind of question.

    Args:
        pattern: its text with holes.
        questions: how many questions are of this kind.
        programs: the programs that explain them, the one that explains most first.
        left: the questions that no program explains.
        stopped: how far the search went for the questions that are left; empty where none are.
    """

    pattern: str
    questions: int
    programs: tuple[Program, ...]
    left: tuple[Case, ...]
    stopped: str = ""


def explain_all(cases: Mapping[str, Sequence[Case]], report: Report) -> list[Explanation]:
    """Programs for all kinds of question, those with the most questions first.

    For each kind, programs are sought until all of its questions are explained, or nothing more is
    found. Programs found for earlier kinds are tried first.
    """
    refusals: Refusals = {}
    kinds: list[Explanation] = []
    known: dict[Moves, Program] = {}
    for pattern, own in sorted(cases.items(), key=lambda kind: (-len(kind[1]), kind[0])):
        report(f"{pattern} ({len(own)})")
        programs = _recalled(own, known.values())
        left, stopped = _not_right(own, programs), ""
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
        needed = _needed(programs, own)
        kinds.append(Explanation(pattern, len(own), needed, left, stopped if left else ""))
        known |= {program.moves: program for program in needed}
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
    for program in sorted(known, key=lambda program: -program.right):
        for holding in itertools.islice(_verified(program.moves, left), 1 if left else 0):
            equals = program.equals if holding.moves == program.moves else ()
            programs.append(replace(holding, equals=equals))
            left = _not_right(left, (holding,))
    return programs


def _needed(programs: Sequence[Program], cases: Sequence[Case]) -> tuple[Program, ...]:
    """The programs that are needed to explain all that these explain, the most useful first.

    A program that was found early, on questions with uninformative answers, may explain nothing
    that a later one does not.
    """
    left = [
        (own.moves, {at for at, case in enumerate(cases) if is_right(own.moves, case)})
        for own in programs
    ]
    equals = {program.moves: program.equals for program in programs}
    chosen: list[Program] = []
    while left:
        moves, most = max(left, key=lambda pair: len(pair[1]))
        if not most:
            break
        chosen.append(replace(_counted(moves, cases), equals=equals[moves]))
        left = [(other, right - most) for other, right in left]
    return tuple(chosen)


# Whether programs hold for questions that they were not found on.


def _verified(moves: Moves, left: Sequence[Case]) -> Iterator[Program]:
    """A program and its variants, with repeated answers kept or dropped, as far as they hold.

    A program holds if it explains `SUPPORT` of the questions that are left (all, where there are
    fewer), and few of its answers are wrong.
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
    """A program, with counts of the questions that it answers right and wrong."""
    answers = ((run_moves(moves, case), case.answer) for case in cases)
    agrees = Counter(equal(value, gold) for value, gold in answers if value is not None)
    return Program(moves, agrees[True], agrees[False])


def is_right(moves: Moves, case: Case) -> bool:
    """Whether a program gives a question's recorded answer."""
    value = run_moves(moves, case)
    return value is not None and equal(value, case.answer)


def equal(value: Value, answer: Value) -> bool:
    """Whether a value is the recorded answer; two lists must also have the same length."""
    if isinstance(answer, list) and isinstance(value, list) and len(answer) != len(value):
        return False
    return exact_match(value, answer)


# The search for one program.


def _forms(case: Case) -> frozenset[Form]:
    return frozenset(case.agents.forms)


def _sample(left: Sequence[Case], given_up: Counter[frozenset[Form]]) -> list[Case]:
    """A few questions, from many worlds whose agents' languages are as similar as possible.

    The first are of the language that most of the remaining questions have, unless no program was
    found for it twice.
    """
    languages = Counter(map(_forms, left))
    usable = [language for language in languages if given_up[language] < 2]
    if not usable or len(left) < SUPPORT:
        return []
    chosen = max(usable, key=lambda language: (languages[language], -given_up[language]))
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
    """The shortest program that explains a sample and holds for the rest, and how many were tried.

    Where it answers a question of the sample, the answer is the recorded one. Of several equally
    short programs, the one that explains most of what is left is taken.
    """
    tried = 0
    for level in levels_of(Bank(sample, refusals, min(_AGREE, len(sample)))):
        goals: list[Term] = []
        for term in level:
            tried += 1
            pairs = zip(term.values, sample, strict=False)
            if all(value is None or equal(value, case.answer) for value, case in pairs):
                goals.append(term)
        programs = [program for term in goals for program in _verified(moves_of(term), left)]
        if programs:
            best = max(programs, key=_worth)
            equals = (other.moves for other in programs if _worth(other) == _worth(best))
            others = dict.fromkeys(moves for moves in equals if moves != best.moves)
            return replace(best, equals=tuple(others)[:_EQUALS]), tried
    return None, tried


def _worth(program: Program) -> tuple[int, int]:
    return program.right - program.wrong, -len(program.moves)


def general(moves: Moves, case: Case) -> Moves:
    """The program, changed to ask for each item of an answer where that gives the same value.

    Asking once works only where an answer has one item, and in another world it may have several.
    """
    for at, move in enumerate(moves):
        of_answer = [isinstance(arg, int) and arg < 0 for arg in move.arguments] == [True]
        if move.mode is Mode.PLAIN and of_answer:
            each = replace(move, mode=Mode.EACH, then=("values", "flat", "unique"))
            by_item = (*moves[:at], each)
            if run_moves(moves[: at + 1], case) == run_moves(by_item, case):
                moves = (*by_item, *moves[at + 1 :])
    return moves


# Choosing, among the programs that give each question's answer, the one that is meant.

_RIDGE, _RIDGE_OF_BIAS = 0.3, 0.01
_TURNS = 8  # of choosing by words and learning the words of what was chosen
_NEVER = -8.0  # the log odds of a piece that no chosen program has

_Array: TypeAlias = "NDArray[Any]"


def chosen_programs(explained: Sequence[tuple[str, Sequence[Moves]]]) -> list[Moves]:
    """Choose one program for each question so that all choices have the shortest description.

    There are two starts: the programs with the fewest pieces, and those that the words predict
    before anything is chosen. From each, every question takes, in rounds, the program that its
    words predict best, given the choices of the others. Then single pieces are dropped, or taken,
    wherever possible, as long as the description gets shorter. At first a piece is what a hop asks;
    the better result is then improved with pieces that also say how it is asked.

    Args:
        explained: for each of at least one question, its text with holes, and at least one possible
            program.
    """
    coarse = _Problem(explained, _asked)
    fine = _Problem(explained, lambda move: (_asked(move), move.mode, move.then))
    ends = (coarse.shortened(start) for start in coarse.starts())
    best = fine.shortened(min(ends, key=lambda end: end.length).chosen)
    return [ways[int(at)] for (_, ways), at in zip(explained, best.chosen, strict=True)]


def _asked(move: Move) -> Hashable:
    """A hop's question, and for each argument whether it is an entity, the last answer, or an
    earlier one."""
    of = tuple(
        one if isinstance(one, str) else "{}" if one > 0 else "#1" if one == -1 else "#"
        for one in move.arguments
    )
    return move.form, of


def _pieces(moves: Moves, piece: Callable[[Move], Hashable]) -> Iterator[tuple[Hashable, int]]:
    """The pieces of a program, numbered so that a repeated piece counts as another one."""
    seen: Counter[Hashable] = Counter()
    for move in moves:
        seen[piece(move)] += 1
        yield piece(move), seen[piece(move)]


@dataclass(frozen=True, eq=False, slots=True)
class _Solution:
    """A program for each question.

    Args:
        length: the length of the description, in nats.
        chosen: for each question, the index of its chosen program among its own programs.
        scores: for each program of all questions, the log odds that its question's words give it.
        uses: for each piece, how many questions' programs have it.
    """

    length: float
    chosen: _Array
    scores: _Array
    uses: _Array


class _Problem:
    """Programs and words as arrays, with a row for each text, or for each program of a question."""

    def __init__(
        self, explained: Sequence[tuple[str, Sequence[Moves]]], piece: Callable[[Move], Hashable]
    ) -> None:
        import numpy as np

        self._np = np
        texts = sorted({text for text, _ in explained})
        of_text = {text: at for at, text in enumerate(texts)}
        # Texts × words and a bias (last), and how many questions have each text.
        repeated, self._inputs = design_matrix([frozenset(words_of(text)) for text in texts])
        self._times = np.bincount([of_text[text] for text, _ in explained]).astype(float)
        self._ridge = np.array([*(_RIDGE for _ in repeated), _RIDGE_OF_BIAS])
        # Programs × pieces, the question of each program, and each question's first program.
        programs = [[*_pieces(moves, piece)] for _, ways in explained for moves in ways]
        pieces = sorted({used for own in programs for used in own}, key=str)
        column = {each: at for at, each in enumerate(pieces)}
        self._pieces = np.zeros((len(programs), len(pieces)))
        for row, own in enumerate(programs):
            self._pieces[row, [column[used] for used in own]] = 1
        many = [len(ways) for _, ways in explained]
        self._question = np.repeat(np.arange(len(many)), many)
        self._first = np.cumsum([0, *many[:-1]])
        self._text = np.repeat([of_text[text] for text, _ in explained], many)
        self._naming = math.log(max(2, len(pieces)))
        self._fitted: dict[bytes, tuple[_Array, float]] = {}

    def starts(self) -> Iterator[_Array]:
        """The choices of programs that the search starts from."""
        np = self._np
        yield self._best(-self._pieces.sum(1))
        alike = 1 / np.bincount(self._question)[self._question]
        yield self._best(self._scored(alike)[1])

    def shortened(self, chosen: _Array) -> _Solution:
        """The local optimum that is reached from a start."""
        now, before = self._in_turns(chosen), math.inf
        while now.length < before:
            before = now.length
            rare = [int(piece) for piece in self._np.argsort(now.uses, kind="stable")]
            for given_up, piece in itertools.product((True, False), rare):
                other = self._changed(now, piece, given_up=given_up)
                if other is not None and other.length < now.length - 1e-3:
                    now = other
        return now

    def _changed(self, now: _Solution, piece: int, *, given_up: bool) -> _Solution | None:
        """The solution after a piece is dropped, or taken, wherever possible; None if nowhere."""
        np = self._np
        usable = (self._pieces[:, piece] > 0) != given_up
        can = np.logical_or.reduceat(usable, self._first) & ~usable[self._first + now.chosen]
        if not can.any():
            return None
        others = self._best(np.where(usable, now.scores, -math.inf))
        return self._in_turns(np.where(can, others, now.chosen))

    def _in_turns(self, chosen: _Array) -> _Solution:
        """Choose for each question the best-scored program, as long as the description shortens."""
        now = self._solution(chosen)
        for _ in range(_TURNS):
            chosen = self._best(now.scores)
            if (chosen == now.chosen).all():
                break
            other = self._solution(chosen)
            if other.length >= now.length:
                break
            now = other
        return now

    def _best(self, scores: _Array) -> _Array:
        """The index of each question's best program; of equals, the first."""
        most = self._np.maximum.reduceat(scores, self._first)[self._question]
        rows = self._np.flatnonzero(scores >= most - 1e-9)
        _, first = self._np.unique(self._question[rows], return_index=True)
        best: _Array = rows[first] - self._first
        return best

    def _solution(self, chosen: _Array) -> _Solution:
        rows = self._np.zeros(len(self._question))
        rows[self._first + chosen] = 1
        length, scores, uses = self._scored(rows)
        return _Solution(length, chosen, scores, uses)

    def _scored(self, shares: _Array) -> tuple[float, _Array, _Array]:
        """The length of a description, scores of all programs, and how often pieces are used.

        Args:
            shares: the weight of each program; those of a question's programs sum to 1.
        """
        np = self._np
        targets = np.zeros((len(self._times), self._pieces.shape[1]))
        rows = np.flatnonzero(shares)
        np.add.at(targets, self._text[rows], self._pieces[rows] * shares[rows, None])
        uses = targets.sum(0)
        odds, length = np.full(targets.shape, _NEVER), 0.0
        for piece in np.flatnonzero(uses):
            odds[:, piece], more = self._fit(np.ascontiguousarray(targets[:, piece]))
            length += more + self._naming
        return length, (self._pieces * odds[self._text]).sum(1), uses

    def _fit(self, targets: _Array) -> tuple[_Array, float]:
        """Fit a ridge-penalised logistic model of one piece, given words, by Newton's method.

        Args:
            targets: for each text, how many of its questions have the piece.

        Returns:
            The log odds of the piece for each text, and the cost of encoding the targets.
        """
        key = targets.tobytes()
        if key in self._fitted:
            return self._fitted[key]
        np, inputs, times = self._np, self._inputs, self._times

        def loss(weights: _Array) -> float:
            sums = inputs @ weights
            costs = times * np.logaddexp(0, sums) - targets * sums
            return float(costs.sum() + 0.5 * (self._ridge * weights**2).sum())

        weights = np.zeros(inputs.shape[1])
        weights[-1] = math.log((targets.sum() + 0.5) / (times.sum() - targets.sum() + 0.5))
        now, step = loss(weights), math.inf
        while step > 1e-3:
            chances = 1 / (1 + np.exp(-inputs @ weights))
            slope = inputs.T @ (times * chances - targets) + self._ridge * weights
            spread = (times * chances * (1 - chances))[:, None]
            curve = (inputs * spread).T @ inputs + np.diag(self._ridge)
            direction, size = np.linalg.solve(curve, slope), 1.0
            while size > 1e-3 and loss(weights - size * direction) > now:
                size /= 2
            weights = weights - size * direction
            step, now = now - loss(weights), loss(weights)
        self._fitted[key] = inputs @ weights, now
        return self._fitted[key]
