"""Proposes the next hop by analogy with training questions.

In this module a way is a learned decomposition. A question of a known kind takes the ways of its
kind. Any other is compared with the known ones: words that differ (``directors`` for ``actors``)
show which hops to ask in other words (``Who directed {}?`` for ``Who all acted in the movie {}?``).
So hops can be proposed together that never occurred together, and questions to agents that no
decomposition had. If no known question is similar, the beginning of one way is joined to the end of
another, if the question has their words. The agents' answers then show which proposals make sense.
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

# Costs, as negative logarithms.
_DIFFERENT = 0.5  # a word in which two questions differ
_SPLICED = 4.0  # joining parts of two ways
_MISPLACED = 4.0  # a question about an answer that was never asked about answers of its kind
_LEFT_OUT = 3.0  # leaving out a hop of a way
_DOUBTFUL = 3.0  # an entity that contains words of known questions
_CHANGED = 0.5  # asking a hop in another form
_UNSAID = 2.0  # a word of a hop that the known question has and the new one lacks
_ADDED = 0.05  # another word that a changed hop brings with it
_UNSPOKEN = 1.5  # a changed hop that is only associated with a differing word
_UNCOVERED = 4.0  # a word of the question that no hop accounts for
_GUESSED = 4.0  # a changed hop that has nothing to do with the words in which two questions differ
_ASKED = 8.0  # a last hop that does not ask for what the question asks for
_REWORDED = 6.0  # a proposal from the question's words alone, where there are analogies

_HEAD = 4
"""How many first words of a question say what it asks for."""

_CHANGED_WAYS = 20
"""How many joined ways, and how many shortened ways, are considered for one question."""

_Moves: TypeAlias = tuple[Move, ...]


class _Option(NamedTuple):
    """One way to ask a hop of an analogy.

    Args:
        form: the question to an agent.
        cost: the cost of asking it at this hop.
        takes: the question's words that the form accounts for.
        replaces: for a changed hop, the known question's words that the old form accounted for,
            and the extra words that the new form accounts for instead.
    """

    form: Form
    cost: float
    takes: frozenset[str]
    replaces: tuple[frozenset[str], frozenset[str]] = frozenset(), frozenset()


@dataclass(frozen=True, slots=True)
class Analogy:
    """A known way, applied to a question.

    Args:
        moves: the hops of the way.
        entities: the question's entities.
        cost: the cost of the differences between the questions.
        extra: the question's words that the known question does not have.
        words: the words that hops should account for: the extra ones, and those of the way's forms.
        lacking: the known question's words that this one does not have.
        question: all of the question's words; empty where its kind is known.
        options: the forms that each hop may take; empty until they are computed.
        to_come: for each hop, and for the end, the words that the hops from there on can account
            for, and the least that these cost.
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
    """Proposes hops of a learned model (a `HopScorer`), by analogy and by the question's words."""

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

        A proposal's score is minus what it adds to the lowest possible cost of the decomposition,
        so that the scores of a decomposition sum to minus its cost.
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
        # A first hop is scored with its whole cost, so that analogies can be compared.
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
        """The lowest possible cost of a decomposition that begins with the chosen options.

        Each later hop is taken at its cheapest, and words that some later hop may account for do
        not count as missing yet.
        """
        later, to_come = analogy.to_come[len(chosen)]
        covered = later.union(*(each.takes for each in chosen))
        missing = [word for word in analogy.words if word not in covered]
        uncovered = _UNCOVERED * self._kinds.information(missing)
        own = sum(option.cost for option in chosen) + _GUESSED * _twice(chosen)
        return analogy.cost + own + to_come + uncovered

    def _options(self, analogy: Analogy, at: int) -> Iterable[_Option]:
        """A move's own form, and others that could replace it, with their costs."""
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
        """The options that the hops took, where they follow the analogy; None where they do not."""
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
        """The form of each hop of a move's shape, by operator and question; the move's own form
        wins over others."""
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
    """The kinds of question in a model, with which other questions are compared."""

    def __init__(self, model: LearnedModel) -> None:
        self.model = model
        self._patterns = {pattern.question: pattern for pattern in model.patterns}
        self._ways = [each.moves for pattern in model.patterns for each in pattern.strategies]
        self._most_entities = max(map(_needs, self._ways), default=0)
        # In how many kinds of question a word occurs.
        self._frequency = Counter(
            word for pattern in model.patterns for word in set(words_of(pattern.question))
        )
        self._information = lru_cache(maxsize=65536)(self._information_of)
        self._most_said = lru_cache(maxsize=256)(self._most_of_head)
        self._other_ends = lru_cache(maxsize=256)(self._with_other_ends)

    def analogies(self, question: str) -> list[Analogy]:
        """The analogies for a question: the ways of its kind, or else of all similar questions."""
        match = longest_match(question, self._patterns)
        analogies: list[Analogy] = []
        if match is not None:
            pattern, entities = self._patterns[match[0]], match[1]
            doubts = sum(word in self._frequency for name in entities for word in words_of(name))
            ways = [(each.moves, _DOUBTFUL * doubts + cost) for each, cost in _costs(pattern)]
            # A world's agents may answer none of these ways, but one with another end.
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
        """Known ways, whole or shortened, and joined ones that use all of a question's entities."""
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
        groups = (sorted(group, key=lambda analogy: analogy.cost) for group in (shorter, spliced))
        return whole + [analogy for group in groups for analogy in group[:_CHANGED_WAYS]]

    def information(self, words: Iterable[str]) -> float:
        """How informative words are together; a word of most kinds of question says little."""
        return sum(map(self._information, words))

    def _information_of(self, word: str) -> float:
        return math.log(1 + len(self.model.patterns) / (self._frequency[word] + 0.5))

    def coverage(self, words: Iterable[str], move: Move) -> frozenset[str]:
        """The words that a hop accounts for: those in all its phrasings, and associated ones."""
        core, others = _core_words(move.form), self.associations[move.form, move.arguments]
        return frozenset(word for word in words if word in others or _has(core, word))

    def head_cost(self, head: tuple[str, ...], form: Form) -> float:
        """The cost of a last hop that does not ask for what a question begins with.

        It counts how much less it asks for than the last hops of known questions usually do.
        """
        return _ASKED * max(0.0, self._usual_share - self._share(head, form))

    def _usual(self, form: Form) -> Iterable[str]:
        """Words of a form that known questions have; a question for it should have them too."""
        return (word for word in _core_words(form) if self._frequency[word])

    def unusual(self, form: Form, context: tuple[str, ...]) -> float:
        """How informative a form's words are that known questions have and the context lacks."""
        return self.information(word for word in self._usual(form) if not _has(context, word))

    def _share(self, head: tuple[str, ...], form: Form) -> float:
        """How much of a question's head a form's head shares, against the form that shares most."""
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
        """The question words associated with each hop (a form and its arguments).

        A word is associated with a hop if kinds of question with the one mostly have the other. The
        arguments count, as ``Is {} greater than {}?`` means two things. If a word that no hop says
        comes with several hops, it belongs to the one that says the fewest of the questions' words:
        where only javelins are thrown ``longer``, that word is about ``greater``, not javelins.
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

    # Beginnings and ends of known ways, joined.

    def _with_other_ends(self, pattern: Pattern) -> list[tuple[_Moves, float]]:
        """A kind's beginnings, joined to the ends of other kinds; the cheapest first."""
        if self.model.classifiers:
            return []
        best: dict[_Moves, float] = {}
        words = words_of(pattern.question)
        heads = {each.moves[:at] for each in pattern.strategies for at in range(1, len(each.moves))}
        for other in self.model.patterns:
            extra, lacking = _difference(words, words_of(other.question))
            for head, end in itertools.product(heads, other.strategies):
                # The end replaces the one at the same place, so what the beginnings say does not
                # count as a difference.
                moves = (*head, *end.moves[len(head) :])
                if _goes_on(moves[len(head) :]):
                    differing = (*_unsaid(extra, head), *_unsaid(lacking, end.moves[: len(head)]))
                    cost = _SPLICED + _DIFFERENT * self.information(differing)
                    # Count hops that ask about an answer of a kind that was never asked that.
                    joins = _joins(moves)
                    cost += _MISPLACED * sum(on.form not in self._users[of] for of, on in joins)
                    best[moves] = min(cost, best.get(moves, math.inf))
        own = {each.moves for each in pattern.strategies}
        entities = max(map(_needs, own))
        usable = (new for new in best.items() if new[0] not in own and _needs(new[0]) <= entities)
        return sorted(usable, key=lambda pair: (pair[1], str(pair[0])))[:_CHANGED_WAYS]

    @cached_property
    def _users(self) -> Mapping[Form, frozenset[Form]]:
        """By form, the forms that are asked about its answers, or about others of the same kind.

        Answers, and entities of questions, are of the same kind if the same is asked about both.
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
        """Joined ways of known hops, with costs by how well they match the question's words."""
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
        """Beginnings of ways, each joined to ends that use only the last answer."""
        heads = dict.fromkeys(way[:at] for way in self._ways for at in range(1, len(way) + 1))
        ends = dict.fromkeys(way[at:] for way in self._ways for at in range(1, len(way)))
        tails = [(), *filter(_goes_on, ends)]
        return list(dict.fromkeys((*head, *tail) for head in heads for tail in tails))


def _twice(options: Sequence[_Option]) -> int:
    """How many hops were changed for a word for which an unrelated hop was changed already."""
    replaced = [option.replaces for option in options]
    return sum(
        any(new & other and not gone & away for away, other in replaced[:at])
        for at, (gone, new) in enumerate(replaced)
    )


def _costs(pattern: Pattern) -> list[tuple[LearnedStrategy, float]]:
    """Each strategy that was seen for a kind, with its cost: the rarer, the higher."""
    counted = [strategy for strategy in pattern.strategies if strategy.count > 0]
    return [(strategy, -math.log(strategy.count / pattern.count)) for strategy in counted]


def _needs(moves: Iterable[Move]) -> int:
    """How many entities a question needs for these moves."""
    used = (arg for move in moves for arg in move.arguments)
    return max((arg for arg in used if isinstance(arg, int)), default=0)


def _shorter(moves: _Moves) -> Iterable[_Moves]:
    """A way with each hop left out in turn; hops about its answer are asked about its argument."""
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
    """A hop's argument, adjusted for a hop that was left out.

    Args:
        argument: the argument.
        behind: how many places before this hop the other one was.
        own: the argument of the hop that was left out.
    """
    if isinstance(argument, str) or argument > 0 or -argument < behind:
        return argument
    if -argument > behind:
        return argument + 1
    return own if own >= 0 else own - behind + 1


def _joins(moves: _Moves) -> Iterable[tuple[Form, Move]]:
    """Each hop of a way that asks about an answer, after the form that gave the answer."""
    for at, move in enumerate(moves):
        back = (arg for arg in move.arguments if isinstance(arg, int) and -at <= arg < 0)
        yield from ((moves[at + arg].form, move) for arg in back)


def _goes_on(moves: Sequence[Move]) -> bool:
    """Whether moves use the last answer before them, and no earlier one."""
    back = [
        at + arg
        for at, move in enumerate(moves)
        for arg in (*move.arguments, move.over)
        if isinstance(arg, int) and arg < 0
    ]
    return all(place >= -1 for place in back) and -1 in back


@lru_cache(maxsize=8192)
def _head(text: str) -> tuple[str, ...]:
    """The first words of a text."""
    return words_of(text)[:_HEAD]


# Comparing words, which count as the same if they have the same stem.


def _difference(
    words: tuple[str, ...], others: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words that only the first text has, and those that only the second has."""
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
    """The words that all phrasings of a form have, or another form of."""
    phrasings = [words_of(phrasing) for phrasing in form.phrasings]
    return tuple(
        word for word in _form_words(form) if all(_has(phrasing, word) for phrasing in phrasings)
    )


def says(form: Form, word: str) -> bool:
    """Whether a phrasing of a form has a word, or one with the same stem."""
    return _has(_form_words(form), word)


@lru_cache(maxsize=65536)
def _has(words: tuple[str, ...], word: str) -> bool:
    """Whether one of the words has the stem of a word."""
    return any(_same_stem(other, word) for other in words)


@lru_cache(maxsize=65536)
def _same_stem(word: str, other: str) -> bool:
    """Whether two words begin alike, as forms of one word do: ``directed`` and ``directors``."""
    if word == other:
        return True
    pairs = zip(word, other, strict=False)
    common = len([*itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)])
    longer, shorter = max(len(word), len(other)), min(len(word), len(other))
    return common >= 3 and 2 * common >= longer and shorter > 2
