"""The next hop by analogy with questions that were learned from.

A question of a known kind goes the ways that its kind went. Any other is laid beside the known
ones: the words that it has instead of theirs (``directors`` for ``actors``) say which hops are to
be asked in other words (``Who directed {}?`` for ``Who all acted in the movie {}?``), so that parts
which were never seen together, and questions to agents that no decomposition ever had, are
proposed. Where no known question comes near, the beginning of one way and the end of another are
put together, as their words are found in the question. Agents then say which of them make sense.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, TypeAlias

from pearl.commaqa.decomposition import Hop
from pearl.commaqa.logistic import LogisticScorer
from pearl.commaqa.model import (
    Form,
    LearnedModel,
    LearnedStrategy,
    Move,
    Pattern,
    fits,
    hop_of,
    longest_match,
    words_of,
)
from pearl.commaqa.search import Candidate
from pearl.lang.ast import Mode
from pearl.lang.values import Value

# What counts how much, as negative logarithms.
_DIFFERENT = 0.5  # a word in which two questions differ
_SPLICED = 4.0  # putting two ways together
_MISPLACED = 4.0  # asking of an answer what was asked of no answers of its kind
_LEFT_OUT = 3.0  # leaving a hop of a way out
_DOUBTFUL = 3.0  # an entity that has words of known questions in it
_CHANGED = 0.5  # a hop that is asked in other words
_UNSAID = 2.0  # a word of a hop that the known question has and the new one lacks
_ADDED = 0.05  # another word that a changed hop brings with it
_UNSPOKEN = 1.5  # a hop that is changed for one that only comes with such a word, and says none
_UNCOVERED = 4.0  # a word of the question that no hop took up
_GUESSED = 4.0  # a hop that is changed for one that says no word in which two questions differ
_ASKED = 8.0  # a last hop that does not ask for what the question begins with
_REWORDED = 6.0  # leaving the ways of a question's kind, where words tell of others

_HEAD = 4
"""How many words a question begins with that say what it asks for."""

_CHANGED_WAYS = 20
"""How many ways that are put together, and that are shortened, are looked at for one question."""

_Moves: TypeAlias = tuple[Move, ...]


class _Option(NamedTuple):
    """One way to ask a hop of an analogy.

    Args:
        form: what is asked.
        cost: of asking it there.
        takes: the question's words that it takes up.
        replaces: where it is changed, the known question's words that the hop took up before, and
            the extra ones that it takes up in their place.
    """

    form: Form
    cost: float
    takes: frozenset[str]
    replaces: tuple[frozenset[str], frozenset[str]] = frozenset(), frozenset()


@dataclass(frozen=True, slots=True)
class Analogy:
    """A known way, laid beside a question.

    Args:
        moves: what is done.
        entities: the question's.
        cost: of the comparison.
        extra: the question's words that the known question does not have.
        words: those that hops are to take up: the extra ones, and those that the way takes up.
        lacking: the known question's words that this one does not have.
        question: all of the question's words; nothing where its kind is known.
        options: what may be asked at each hop; nothing before they are looked for.
        to_come: for each hop, and the end, the words that hops from there on may take up, and the
            least that they cost.
    """

    moves: _Moves
    entities: tuple[str, ...]
    cost: float
    extra: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    question: tuple[str, ...] = ()
    options: tuple[tuple[_Option, ...], ...] = ()
    to_come: tuple[tuple[frozenset[str], float], ...] = ()


class AnalogyScorer:
    """Proposes hops as a model has them (a `HopScorer`), by analogy and by their words."""

    def __init__(self, model: LearnedModel) -> None:
        self.model = model
        self._kinds = _KnownQuestions(model)
        self._logistic = LogisticScorer(model)
        self._aligned = lru_cache(maxsize=256)(self._align)
        self._forms_by_hop = lru_cache(maxsize=8192)(self._hops_of_shape)
        self._by_blanks: dict[int, list[Form]] = {}
        for form in sorted(model.forms, key=lambda form: form.phrasings):
            self._by_blanks.setdefault(form.blanks, []).append(form)

    def choices(
        self, question: str, hops: tuple[Hop, ...], answers: tuple[Value, ...]
    ) -> list[Candidate]:
        """Proposals, best first.

        A proposal's score is what it adds to the least that the whole decomposition can cost, so
        that scores add up to the whole's.
        """
        best: dict[Hop | None, float] = {}
        before = math.inf
        for analogy in self._aligned(question):
            chosen = self._match_hops(analogy, hops)
            if chosen is None:
                continue
            before = min(before, self._cost(analogy, chosen))
            for hop, cost in self._next(analogy, chosen):
                best[hop] = min(best.get(hop, math.inf), cost)
        # What was proposed first starts from nothing, so that questions compare.
        start = before if hops else 0.0
        scores = {hop: start - cost for hop, cost in best.items()}
        for candidate in self._logistic.choices(question, hops, answers):
            score = candidate.score - (_REWORDED if best else 0.0)
            scores[candidate.hop] = max(score, scores.get(candidate.hop, -math.inf))
        ordered = sorted(scores.items(), key=lambda pair: (-pair[1], str(pair[0])))
        return [Candidate(score, hop) for hop, score in ordered]

    def _align(self, question: str) -> tuple[Analogy, ...]:
        return tuple(map(self._with_options, self._kinds.analogies(question)))

    def _with_options(self, analogy: Analogy) -> Analogy:
        hops = tuple(tuple(self._options(analogy, at)) for at in range(len(analogy.moves)))
        to_come = []
        for at in range(len(hops) + 1):
            takes = frozenset().union(*(each.takes for hop in hops[at:] for each in hop))
            to_come.append((takes, sum(min(each.cost for each in hop) for hop in hops[at:])))
        return replace(analogy, options=hops, to_come=tuple(to_come))

    def _cost(self, analogy: Analogy, chosen: Sequence[_Option]) -> float:
        """The least that a decomposition costs that begins with what was asked.

        What is to come is taken at its best, each hop for itself, and a word that some hop may
        still take up is not missed yet.
        """
        later, to_come = analogy.to_come[len(chosen)]
        covered = later.union(*(each.takes for each in chosen))
        missing = [word for word in analogy.words if word not in covered]
        uncovered = _UNCOVERED * self._kinds.information(missing)
        own = sum(option.cost for option in chosen) + _GUESSED * _twice(chosen)
        return analogy.cost + own + to_come + uncovered

    def _options(self, analogy: Analogy, at: int) -> Iterable[_Option]:
        """A move's own question, and others in its place, which cost what they leave unsaid."""
        move, kinds = analogy.moves[at], self._kinds
        own, is_last = _form_words(move.form), at == len(analogy.moves) - 1
        forms = self._by_blanks.get(move.form.blanks, ()) if analogy.question else ()
        for form in dict.fromkeys((move.form, *forms)):
            phrasings = [words_of(phrasing) for phrasing in form.phrasings]
            unsaid = min(
                kinds.information(gone for gone in analogy.lacking if _has(words, gone))
                for words in phrasings
            )
            cost = _UNSAID * unsaid
            if form == move.form:
                covered = kinds.coverage(analogy.words, move)
            else:
                context = (*own, *analogy.words)
                added = min(sum(not _has(context, word) for word in words) for words in phrasings)
                unusual = kinds.unusual(form, (*own, *analogy.question))
                cost += _CHANGED + _ADDED * added + _UNSAID * unusual
                covered = kinds.coverage(analogy.words, replace(move, form=form))
                if not any(_has(_core_words(form), word) for word in analogy.extra):
                    cost += _UNSPOKEN if covered & {*analogy.extra} else _GUESSED
            if analogy.question and is_last:
                cost += kinds.head_cost(analogy.question[:_HEAD], form)
            replaces = kinds.coverage(analogy.lacking, move), covered & {*analogy.extra}
            yield _Option(form, cost, covered, *([replaces] if form != move.form else []))

    def _match_hops(self, analogy: Analogy, hops: Sequence[Hop]) -> tuple[_Option, ...] | None:
        """What the hops ask, where they go the analogy's way; None where they do not."""
        if len(hops) > len(analogy.moves):
            return None
        chosen: list[_Option] = []
        ways = zip(hops, analogy.moves, analogy.options, strict=False)
        for number, (hop, move, options) in enumerate(ways, 1):
            forms = self._forms_by_hop(move, analogy.entities, number)
            form = forms.get((hop.operator, hop.question))
            option = next((each for each in options if each.form == form), None)
            if option is None:
                return None
            chosen.append(option)
        return tuple(chosen)

    def _hops_of_shape(
        self, move: Move, entities: tuple[str, ...], number: int
    ) -> dict[tuple[str, str], Form]:
        """All hops of a move's shape, by operator and question; the move's own wins."""
        forms: dict[tuple[str, str], Form] = {}
        for form in (*self._by_blanks.get(move.form.blanks, ()), move.form):
            hop = hop_of(replace(move, form=form), "", entities, number)
            forms[hop.operator, hop.question] = form
        return forms

    def _next(
        self, analogy: Analogy, chosen: tuple[_Option, ...]
    ) -> Iterable[tuple[Hop | None, float]]:
        at = len(chosen)
        if at == len(analogy.moves):
            yield None, self._cost(analogy, chosen)
        elif fits(analogy.moves[at], len(analogy.entities), at):
            for option in analogy.options[at]:
                cost = self._cost(analogy, (*chosen, option))
                move = replace(analogy.moves[at], form=option.form)
                hop = hop_of(move, "", analogy.entities, at + 1)
                for agent, more in self.model.agent_costs(option.form):
                    yield Hop(hop.operator, agent, hop.question), cost + more


class _KnownQuestions:
    """The kinds of question of a model, to compare others with."""

    def __init__(self, model: LearnedModel) -> None:
        self.model = model
        self._patterns = {pattern.question: pattern for pattern in model.patterns}
        self._ways = [each.moves for pattern in model.patterns for each in pattern.strategies]
        self._most_entities = max(map(_needs, self._ways), default=0)
        # In how many kinds of question a word stands.
        self._frequency = Counter(
            word for pattern in model.patterns for word in set(words_of(pattern.question))
        )
        self._information = lru_cache(maxsize=65536)(self._information_of)
        self._most_said = lru_cache(maxsize=256)(self._most_of_head)
        self._other_ends = lru_cache(maxsize=256)(self._with_other_ends)

    def analogies(self, question: str) -> list[Analogy]:
        """The ways that bear on a question: those of its kind, or else all that compare."""
        match = longest_match(question, self._patterns)
        analogies: list[Analogy] = []
        if match is not None:
            pattern, entities = self._patterns[match[0]], match[1]
            doubts = sum(word in self._frequency for name in entities for word in words_of(name))
            ways = [(each.moves, _DOUBTFUL * doubts + cost) for each, cost in _costs(pattern)]
            # In a world where none of its ways is answered, other ends may be.
            ways += [] if doubts else self._other_ends(pattern)
            analogies = [Analogy(moves, entities, cost) for moves, cost in ways]
            if not doubts:
                return analogies
        if self.model.classifiers:
            return analogies
        for text, entities in self.model.openings(question, self._most_entities):
            analogies += self._compare(text, entities)
        return analogies

    def _compare(self, text: str, entities: tuple[str, ...]) -> list[Analogy]:
        """Known ways that use all of the entities, and new ones, by the words of a question."""
        words = words_of(text)
        whole: list[Analogy] = []
        shorter: list[Analogy] = []
        for pattern in self.model.patterns:
            extra, lacking = _difference(words, words_of(pattern.question))
            distance = _DIFFERENT * self.information((*extra, *lacking))
            for strategy, cost in _costs(pattern):
                for moves in (strategy.moves, *_shorter(strategy.moves)):
                    if _needs(moves) != len(entities):
                        continue
                    left_out = _LEFT_OUT * (len(strategy.moves) - len(moves))
                    spoken = frozenset().union(*(self.coverage(words, move) for move in moves))
                    taken_up = (*extra, *spoken)
                    total = cost + distance + left_out
                    analogy = Analogy(moves, entities, total, extra, taken_up, lacking, words)
                    (shorter if left_out else whole).append(analogy)
        spliced = self._splice(words, entities)
        changed = (sorted(those, key=lambda analogy: analogy.cost) for those in (shorter, spliced))
        return whole + [analogy for those in changed for analogy in those[:_CHANGED_WAYS]]

    def information(self, words: Iterable[str]) -> float:
        """How much words say together; one that most kinds of question have says little."""
        return sum(map(self._information, words))

    def _information_of(self, word: str) -> float:
        return math.log(1 + len(self.model.patterns) / (self._frequency[word] + 0.5))

    def coverage(self, words: Iterable[str], move: Move) -> frozenset[str]:
        """The words that a hop says, or that come with it."""
        core, others = _core_words(move.form), self.associations[move.form, move.arguments]
        return frozenset(word for word in words if word in others or _has(core, word))

    def head_cost(self, head: tuple[str, ...], form: Form) -> float:
        """What it costs that a last hop does not ask for what a question begins with.

        It costs where the last hops of known questions do, as far as they do.
        """
        return _ASKED * max(0.0, self._usual_share - self._share(head, form))

    def _usual(self, form: Form) -> Iterable[str]:
        """What a form says and known questions say: one that it is asked for is to say it, too."""
        return (word for word in _core_words(form) if self._frequency[word])

    def unusual(self, form: Form, context: tuple[str, ...]) -> float:
        """How much words say that a form and known questions have, and the context has not."""
        return self.information(word for word in self._usual(form) if not _has(context, word))

    def _share(self, head: tuple[str, ...], form: Form) -> float:
        """How much of what a question begins with is what a form begins with."""
        return self._shared_head(head, form) / self._most_said(head)

    def _shared_head(self, head: Sequence[str], form: Form) -> float:
        words = map(_head, form.phrasings)
        return max(self.information(word for word in head if _has(own, word)) for own in words)

    def _most_of_head(self, head: tuple[str, ...]) -> float:
        return max((self._shared_head(head, form) for form in self.model.forms), default=0.0) or 1.0

    @cached_property
    def _usual_share(self) -> float:
        ways = [(kind, each) for kind in self.model.patterns for each in kind.strategies]
        shares = [self._share(_head(kind.question), each.moves[-1].form) for kind, each in ways]
        return sum(shares) / max(1, len(shares))

    @cached_property
    def associations(self) -> Mapping[tuple[Form, tuple[int | str, ...]], frozenset[str]]:
        """Which words of questions come with a hop, though no hop says them.

        They do where kinds of question that have the one mostly have the other. What a form is
        asked about is part of it: ``Is {} greater than {}?`` means two things. Of several hops that
        a word comes with, it is told by the one that says the least of the questions itself: where
        all that is longer is of javelins, ``longer`` is ``greater`` and no javelin.
        """
        users: dict[tuple[Form, tuple[int | str, ...]], set[str]] = {}
        havers: dict[str, set[str]] = {}
        spoken: set[str] = set()
        for pattern in self.model.patterns:
            moves = [move for strategy in pattern.strategies for move in strategy.moves]
            for move in moves:
                users.setdefault((move.form, move.arguments), set()).add(pattern.question)
            for word in words_of(pattern.question):
                havers.setdefault(word, set()).add(pattern.question)
                if any(says(move.form, word) for move in moves):
                    spoken.add(word)
        by_hop: dict[tuple[Form, tuple[int | str, ...]], set[str]] = defaultdict(set)
        for word, having in havers.items():
            own_words = {
                hop: sum(says(hop[0], own) for text in using for own in words_of(text)) / len(using)
                for hop, using in users.items()
                if having == using or 3 * len(having & using) > 2 * len(having | using)
            }
            least = min(own_words.values(), default=0.0)
            for hop, own in own_words.items():
                if says(hop[0], word) or (word not in spoken and own == least):
                    by_hop[hop].add(word)
        return defaultdict(frozenset, {hop: frozenset(words) for hop, words in by_hop.items()})

    # Beginnings and ends of known ways, put together.

    def _with_other_ends(self, pattern: Pattern) -> list[tuple[_Moves, float]]:
        """A kind's beginnings with the ends of other kinds, those of the likest first."""
        if self.model.classifiers:
            return []
        best: dict[_Moves, float] = {}
        words = words_of(pattern.question)
        heads = {each.moves[:at] for each in pattern.strategies for at in range(1, len(each.moves))}
        for other in self.model.patterns:
            extra, lacking = _difference(words, words_of(other.question))
            for head, end in itertools.product(heads, other.strategies):
                # The ends come in at the same place, and what the beginnings say is no difference.
                moves = (*head, *end.moves[len(head) :])
                if _goes_on(moves[len(head) :]):
                    differing = (*_unsaid(extra, head), *_unsaid(lacking, end.moves[: len(head)]))
                    cost = _SPLICED + _DIFFERENT * self.information(differing)
                    # Answers that go to hops that go on from no answers of their kind.
                    joins = _joins(moves)
                    cost += _MISPLACED * sum(on.form not in self._users[of] for of, on in joins)
                    best[moves] = min(cost, best.get(moves, math.inf))
        own = {each.moves for each in pattern.strategies}
        entities = max(map(_needs, own))
        usable = (new for new in best.items() if new[0] not in own and _needs(new[0]) <= entities)
        return sorted(usable, key=lambda pair: (pair[1], str(pair[0])))[:_CHANGED_WAYS]

    @cached_property
    def _users(self) -> Mapping[Form, frozenset[Form]]:
        """By form, what is asked of its answers, and of all else that is of their kind.

        Two answers, or entities of questions, are of a kind where the same is asked of both.
        """
        users: dict[Form | tuple[str, int], set[Form]] = defaultdict(set)
        for pattern in self.model.patterns:
            for strategy in pattern.strategies:
                for asked, move in _joins(strategy.moves):
                    users[asked].add(move.form)
                for move in strategy.moves:
                    for entity in move.arguments:
                        if isinstance(entity, int) and entity > 0:
                            users[pattern.question, entity].add(move.form)
        alike = {
            form: frozenset().union(*(other for other in users.values() if own & other))
            for form, own in users.items()
            if isinstance(form, Form)
        }
        return defaultdict(frozenset, alike)

    def _splice(self, words: tuple[str, ...], entities: tuple[str, ...]) -> Iterable[Analogy]:
        """New chains of known hops, by how many of the question's words they say."""
        own = tuple(dict.fromkeys(words))
        for moves in self._chains:
            if _needs(moves) != len(entities):
                continue
            others = sorted(
                {word for move in moves for word in self.associations[move.form, move.arguments]}
            )
            forms = dict.fromkeys(move.form for move in moves)
            spoken = tuple(word for form in forms for word in _form_words(form))
            extra = tuple(word for word in own if word not in others and not _has(spoken, word))
            usual = (word for form in forms for word in self._usual(form))
            missing = dict.fromkeys((*others, *usual))
            lacking = tuple(word for word in missing if not _has(own, word))
            cost = _DIFFERENT * self.information((*extra, *lacking)) + _SPLICED
            yield Analogy(moves, entities, cost, own, own, lacking, words)

    @cached_property
    def _chains(self) -> list[_Moves]:
        """Beginnings of ways, each with ends of ways that go on from the last answer alone."""
        heads = dict.fromkeys(way[:at] for way in self._ways for at in range(1, len(way) + 1))
        ends = dict.fromkeys(way[at:] for way in self._ways for at in range(1, len(way)))
        tails = [(), *filter(_goes_on, ends)]
        return list(dict.fromkeys((*head, *tail) for head in heads for tail in tails))


def _twice(options: Sequence[_Option]) -> int:
    """How many hops are changed for a word that another was changed for, in place of others."""
    replaced = [option.replaces for option in options]
    return sum(
        any(new & other and not gone & away for away, other in replaced[:at])
        for at, (gone, new) in enumerate(replaced)
    )


def _costs(pattern: Pattern) -> list[tuple[LearnedStrategy, float]]:
    """Each strategy of a kind that was seen, and what it costs: how rarely it was the one."""
    counted = [strategy for strategy in pattern.strategies if strategy.count > 0]
    return [(strategy, -math.log(strategy.count / pattern.count)) for strategy in counted]


def _needs(moves: Iterable[Move]) -> int:
    """How many entities a question has to have."""
    used = (arg for move in moves for arg in move.arguments)
    return max((arg for arg in used if isinstance(arg, int)), default=0)


def _shorter(moves: _Moves) -> Iterable[_Moves]:
    """A way with one hop left out each; what asked of its answer asks what it asked of."""
    for at, hop in enumerate(moves):
        own = next((arg for arg in hop.arguments if isinstance(arg, int)), 0)
        rest = [
            replace(move, arguments=tuple(_shift(arg, place - at, own) for arg in move.arguments))
            for place, move in enumerate(moves[at + 1 :], at + 1)
        ]
        usable = all(0 not in move.arguments and move.over is None for move in rest)
        if usable and len(moves) > 1:
            # A hop that no longer goes over an answer is asked once.
            asks = (
                move
                if any(isinstance(arg, int) and arg < 0 for arg in move.arguments)
                else replace(move, mode=Mode.PLAIN, then=(), over=None)
                for move in rest
            )
            yield (*moves[:at], *asks)


def _shift(argument: int | str, behind: int, own: int) -> int | str:
    """An argument of a hop that stands so far behind one that is left out, which asked of `own`."""
    if isinstance(argument, str) or argument > 0 or -argument < behind:
        return argument
    if -argument > behind:
        return argument + 1
    return own if own >= 0 else own - behind + 1


def _joins(moves: _Moves) -> Iterable[tuple[Form, Move]]:
    """Each hop of a way that asks of an answer, with what that is the answer to."""
    for at, move in enumerate(moves):
        back = (arg for arg in move.arguments if isinstance(arg, int) and -at <= arg < 0)
        yield from ((moves[at + arg].form, move) for arg in back)


def _goes_on(moves: Sequence[Move]) -> bool:
    """Whether moves use, of what came before them, the last answer alone."""
    back = [
        at + arg
        for at, move in enumerate(moves)
        for arg in (*move.arguments, move.over)
        if isinstance(arg, int) and arg < 0
    ]
    return all(place >= -1 for place in back) and -1 in back


@lru_cache(maxsize=8192)
def _head(text: str) -> tuple[str, ...]:
    """What a text begins with."""
    return words_of(text)[:_HEAD]


# Words, which are alike where they are forms of one.


def _difference(
    words: tuple[str, ...], others: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that the one text has and the other has not, and the other way round."""
    extra = tuple(word for word in dict.fromkeys(words) if not _has(others, word))
    return extra, tuple(word for word in dict.fromkeys(others) if not _has(words, word))


def _unsaid(words: Iterable[str], moves: Iterable[Move]) -> list[str]:
    spoken = tuple(word for move in moves for word in _form_words(move.form))
    return [word for word in words if not _has(spoken, word)]


@lru_cache(maxsize=8192)
def _form_words(form: Form) -> tuple[str, ...]:
    """The words of all phrasings of a form."""
    return tuple(dict.fromkeys(word for phrasing in form.phrasings for word in words_of(phrasing)))


@lru_cache(maxsize=8192)
def _core_words(form: Form) -> tuple[str, ...]:
    """The words that all phrasings of a form have, in some form of them."""
    phrasings = [words_of(phrasing) for phrasing in form.phrasings]
    return tuple(
        word for word in _form_words(form) if all(_has(phrasing, word) for phrasing in phrasings)
    )


def says(form: Form, word: str) -> bool:
    """Whether a phrasing of a form has a form of a word."""
    return _has(_form_words(form), word)


@lru_cache(maxsize=65536)
def _has(words: tuple[str, ...], word: str) -> bool:
    """Whether one of the words is a form of a word."""
    return any(_same_stem(other, word) for other in words)


@lru_cache(maxsize=65536)
def _same_stem(word: str, other: str) -> bool:
    """Whether two words are forms of one, by how they begin: ``directed`` and ``directors``."""
    if word == other:
        return True
    pairs = zip(word, other, strict=False)
    common = len([*itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)])
    longer, shorter = max(len(word), len(other)), min(len(word), len(other))
    return common >= 3 and 2 * common >= longer and shorter > 2
