"""The learned model of CommaQA, in its parts and as a file.

A decomposition of one question serves for others once its entities and the numbers of its answers
are left open. A pattern is a question with its entities left open, ``Who are from {1}?``. A `Move`
is such a hop, ``Which movies has {} directed?``, about the answer of the hop before it, say, or the
question's second entity. A model holds the questions that agents answer, the decompositions of each
pattern, and a classifier for each hop. Its file is JSON that a person can read and correct; the
same training gives the same bytes.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from pearl.commaqa.decomposition import (
    REFERENCE,
    Hop,
    Operation,
    print_operation,
    read_operation,
    references,
)
from pearl.commaqa.world import Language, QuestionTemplate
from pearl.lang.ast import Mode
from pearl.lang.errors import InputError
from pearl.lang.source import read_source
from pearl.lang.values import Pairs, Value

BLANK = "{}"
HOLE = re.compile(r"\{([1-9][0-9]?)\}")
"""An entity's place in a pattern, counted from 1."""

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_WORD = re.compile(r"\w+")
_CHUNK = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Form:
    """One kind of question that agents answer, with its paraphrases.

    Args:
        phrasings: fill-in-the-blank questions, ``Who directed {}?``; the first is the one that is
            asked.
        orders: for each phrasing, which argument (from 0) stands in each of its blanks.
    """

    phrasings: tuple[str, ...]
    orders: tuple[tuple[int, ...], ...]

    @property
    def blanks(self) -> int:
        """How many arguments the question takes."""
        return len(set(self.orders[0]))

    def fill(self, arguments: Sequence[str], phrasing: int = 0) -> str:
        """The question in words, one argument for each blank."""
        parts = self.phrasings[phrasing].split(BLANK)
        words = [parts[0]]
        for argument, part in zip(self.orders[phrasing], parts[1:], strict=True):
            words += (arguments[argument], part)
        return "".join(words)


@dataclass(frozen=True, slots=True)
class Move:
    """A hop without its world, for all questions of one kind.

    Args:
        mode: how it is asked: once, or for the items of an answer.
        then: the transformations that follow.
        form: what is asked.
        arguments: for each blank, an entity of the question (1 is its first), an earlier answer
            (-1 is the last), or a text that stands for itself.
        over: the earlier answer whose items are asked for (-1 is the last); None where it is the
            first answer that the question names, or the hop is asked once.
    """

    mode: Mode
    then: tuple[str, ...]
    form: Form
    arguments: tuple[int | str, ...]
    over: int | None = None


def fits(move: Move, entities: int, answers: int) -> bool:
    """Whether so many entities of a question and earlier answers are enough for a move."""
    used = [arg for arg in (*move.arguments, move.over) if isinstance(arg, int)]
    return all(arg <= entities if arg > 0 else -arg <= answers for arg in used)


def hop_of(move: Move, agent: str, entities: Sequence[str], number: int) -> Hop:
    """The hop that a move is in a question.

    Args:
        move: a move that `fits` the question.
        agent: the agent that is asked.
        entities: the question's, in order.
        number: the hop's own, counted from 1.
    """
    filled = [
        arg if isinstance(arg, str) else entities[arg - 1] if arg > 0 else f"#{number + arg}"
        for arg in move.arguments
    ]
    of = None if move.over is None else number + move.over
    return Hop(print_operation(Operation(move.mode, of, move.then)), agent, move.form.fill(filled))


def move_of(hop: Hop, number: int, entities: Sequence[str], language: Language) -> Move | None:
    """A hop without its world; the inverse of `hop_of`.

    Args:
        hop: a hop of a decomposition.
        number: the hop's number, counted from 1.
        entities: the question's, in order.
        language: tells which words fill blanks. A question that no template of the agent reads, or
            that several read, is a form of its own.

    Returns:
        The move; None for an unknown operator.
    """
    operation = read_operation(hop.operator)
    if operation is None:
        return None
    form, words = _form_of_hop(hop, language)
    arguments: list[int | str] = []
    for word in words:
        reference = REFERENCE.fullmatch(word)
        if reference:
            arguments.append(int(reference[1]) - number)
        else:
            arguments.append(entities.index(word) + 1 if word in entities else word)
    first = next(iter(references(hop.question)), None)
    over = None if operation.of in (None, first) else operation.of - number
    return Move(operation.mode, operation.then, form, tuple(arguments), over)


def moves_of_hops(
    hops: Sequence[Hop], entities: Sequence[str], language: Language
) -> tuple[Move, ...]:
    """A decomposition as moves (`move_of`); empty where one of its hops has no move."""
    moves = [move_of(hop, at, entities, language) for at, hop in enumerate(hops, 1)]
    return () if None in moves else tuple(filter(None, moves))


def _form_of_hop(hop: Hop, language: Language) -> tuple[Form, tuple[str, ...]]:
    readings = list(language.readings(hop.agent, hop.question))
    for template, words in readings:
        form = _form_of_template(template)
        if all(reading.template == template for reading in readings):
            return form, words
        for at in range(len(form.phrasings)):
            if form.fill(words, at) == hop.question:
                return Form(form.phrasings[at : at + 1], form.orders[at : at + 1]), words
    parts = REFERENCE.split(hop.question)
    form = Form((BLANK.join(parts[::2]),), (tuple(range(len(parts) // 2)),))
    return form, tuple(f"#{number}" for number in parts[1::2])


def _form_of_template(template: QuestionTemplate) -> Form:
    slots = [slot for slot, _ in template.inputs]
    return Form(
        tuple(BLANK.join(phrasing.fixed) for phrasing in template.phrasings),
        tuple(tuple(map(slots.index, phrasing.slots)) for phrasing in template.phrasings),
    )


@lru_cache(maxsize=256)
def forms_of(language: Language) -> Mapping[Form, tuple[str, ...]]:
    """The fill-in-the-blank questions of a world's agents, and who answers them.

    Only the words are used: neither what a template looks up, nor its types.
    """
    forms: dict[Form, dict[str, None]] = {}
    for template in language.templates:
        if template.phrasings:
            forms.setdefault(_form_of_template(template), {})[template.agent] = None
    return {form: tuple(agents) for form, agents in forms.items()}


def is_empty(value: Value) -> bool:
    """Whether an answer is a list or pairs with nothing in it."""
    return isinstance(value, list | Pairs) and not len(value)


@lru_cache(maxsize=65536)
def words_of(text: str) -> tuple[str, ...]:
    """A text's words in lower case, without holes and blanks."""
    return tuple(word.casefold() for word in _WORD.findall(HOLE.sub(" ", text)))


def with_holes(text: str, entities: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """A question with a hole for each entity, and the entities in the order of the holes.

    Entities are looked for at word boundaries, the longest first. Those that do not occur are left
    out.

    Returns:
        ``("Who threw discus shorter than {1}?", ("48.0",))``.
    """
    names = sorted({name for name in entities if name}, key=lambda name: (-len(name), name))
    if not names:
        return text, ()
    either = "|".join(map(re.escape, names))
    inside: list[str] = []

    def hole(match: re.Match[str]) -> str:
        inside.append(match[0])
        return f"{{{len(inside)}}}"

    pattern = re.sub(rf"(?<![\w.])(?:{either})(?!\w|\.\w)", hole, text)
    return pattern, tuple(inside)


def known_entities(text: str, valid: Collection[str]) -> tuple[str, ...]:
    """The numbers in a question, and the texts in it that are among the ``valid`` inputs of
    agents."""
    words = list(_WORD.finditer(text))
    spans = {text[first.start() : last.end()] for first in words for last in words}
    return tuple(sorted({*(spans & set(valid)), *_NUMBER.findall(text)} - {""}))


def strange_entities(text: str, vocabulary: Collection[str]) -> tuple[str, ...]:
    """The likely entities of a question of no known pattern: the words that are not known.

    Neighbouring unknown words are one entity, and so is a number. ``vocabulary`` has the known
    words, in lower case.
    """
    entities: list[str] = []
    last = -2
    for at, chunk in enumerate(_CHUNK.finditer(text)):
        words = list(_WORD.finditer(chunk[0]))
        strange = [word for word in words if word[0].casefold() not in vocabulary]
        if not strange:
            continue
        number = _NUMBER.search(chunk[0])
        body = number[0] if number else chunk[0][strange[0].start() : strange[-1].end()]
        joins = at == last + 1 and not number and chunk[0].startswith(body)
        if joins and f"{entities[-1]} {body}" in text:
            entities[-1] = f"{entities[-1]} {body}"
        else:
            entities.append(body)
        last = at
    return tuple(entities)


@lru_cache(maxsize=4096)
def _matcher(pattern: str) -> re.Pattern[str]:
    parts = HOLE.split(pattern)
    pieces = [re.escape(part) if at % 2 == 0 else "(.+?)" for at, part in enumerate(parts)]
    return re.compile("".join(pieces), re.DOTALL)


def longest_match(text: str, patterns: Iterable[str]) -> tuple[str, tuple[str, ...]] | None:
    """The pattern that a question matches with the most fixed words, and the question's entities;
    None where it matches none."""
    matches = [
        (pattern, match.groups())
        for pattern in patterns
        if (match := _matcher(pattern).fullmatch(text)) is not None
    ]
    return max(matches, key=lambda match: (len(words_of(match[0])), match[0]), default=None)


# What was learned.

T = TypeVar("T")

_KIND = "pearl commaqa model"
_VERSION = 1
_STRANGER = 6.0
"""The cost, a negative logarithm, of asking an agent that was never seen to answer the question."""


@dataclass(frozen=True, slots=True)
class LearnedStrategy:
    """A way to decompose questions of a kind.

    Args:
        moves: its hops.
        count: how many training questions were decomposed like this.
    """

    moves: tuple[Move, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """A kind of question.

    Args:
        question: its text with holes, ``What movies have the directors from {1} directed?``.
        strategies: its decompositions, the most frequent first.
    """

    question: str
    strategies: tuple[LearnedStrategy, ...]

    @property
    def count(self) -> int:
        """How many questions were of this kind."""
        return sum(strategy.count for strategy in self.strategies)


@dataclass(frozen=True, slots=True)
class HopClassifier:
    """A logistic model of whether a hop is part of a question's decomposition.

    Args:
        move: the hop; if it is about one entity, that is written as entity 1.
        scope: the text that is classified, `OWN` or `ALL` of `pearl.commaqa.logistic`.
        bias: the log odds without any feature.
        weights: what each feature, a word or a short phrase, adds to the log odds.
    """

    move: Move
    scope: str
    bias: float
    weights: Mapping[str, float]

    def probability(self, features: Iterable[str]) -> float:
        """How likely the hop is, given a text's features."""
        total = self.bias + sum(self.weights.get(feature, 0.0) for feature in features)
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


@dataclass(frozen=True)
class LearnedModel:
    """A learned model.

    Args:
        source: what it was learned from, ``gold`` or ``answers``.
        forms: the questions that agents answer, and in how many worlds each agent answered them.
        patterns: the kinds of question, in the order of their texts.
        classifiers: one for each hop; empty where there are too few patterns to fit them.
    """

    source: str
    forms: Mapping[Form, Mapping[str, int]]
    patterns: tuple[Pattern, ...]
    classifiers: tuple[HopClassifier, ...] = ()

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The names of all agents, in order."""
        return tuple(sorted({name for names in self.forms.values() for name in names}))

    @cached_property
    def _vocabulary(self) -> frozenset[str]:
        texts = [pattern.question for pattern in self.patterns]
        texts += [phrasing for form in self.forms for phrasing in form.phrasings]
        return frozenset(word for text in texts for word in words_of(text))

    def pattern_of(self, question: str) -> tuple[str, tuple[str, ...]]:
        """A question of no known pattern, with holes for its unknown words, and these words."""
        return with_holes(question, strange_entities(question, self._vocabulary))

    def openings(self, question: str, most: int) -> list[tuple[str, tuple[str, ...]]]:
        """As `pattern_of`, for every choice of up to ``most`` entities among the unknown words, as
        an unknown word need not be an entity."""
        strange = strange_entities(question, self._vocabulary)
        words = (word for phrase in strange for word in phrase.split())
        strange = tuple(dict.fromkeys((*strange, *words)))
        sizes = range(1 if strange else 0, most + 1)
        chosen = (some for size in sizes for some in itertools.combinations(strange, size))
        return list(dict.fromkeys(with_holes(question, some) for some in chosen))

    def agent_costs(self, form: Form) -> list[tuple[str, float]]:
        """All agents with the cost of asking each, which is higher the less often it answered."""
        counts = self.forms.get(form, {})
        total = sum(counts.values())
        return [
            (agent, -math.log(counts[agent] / total) if counts.get(agent) else _STRANGER)
            for agent in self.agents
        ]


def write_model(model: LearnedModel) -> str:
    """The text of a model's file."""
    forms = sorted(model.forms, key=lambda form: (form.phrasings, form.orders))
    numbers = {form: number for number, form in enumerate(forms, 1)}

    data = {
        "kind": _KIND,
        "version": _VERSION,
        "learned_from": model.source,
        "forms": [
            {"number": number, "phrasings": _number_blanks(form)}
            | {"agents": dict(sorted(model.forms[form].items()))}
            for form, number in numbers.items()
        ],
        "patterns": [
            {"question": pattern.question, "strategies": [
                {"seen": each.count, "moves": [_move_data(move, numbers) for move in each.moves]}
                for each in pattern.strategies
            ]}
            for pattern in model.patterns
        ],
        # The file format keeps this older name of the classifiers.
        "telltales": [
            _move_data(each.move, numbers)
            | {"scope": each.scope, "bias": each.bias, "phrases": dict(each.weights)}
            for each in model.classifiers
        ],
    }  # fmt: skip
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def _number_blanks(form: Form) -> list[str]:
    """The phrasings with the arguments' numbers in their blanks."""
    numbers = [f"{{{number}}}" for number in range(1, form.blanks + 1)]
    return [form.fill(numbers, at) for at in range(len(form.phrasings))]


def _move_data(move: Move, numbers: Mapping[Form, int]) -> dict[str, Any]:
    over = {} if move.over is None else {"over": move.over}
    return {
        "operator": print_operation(Operation(move.mode, None, move.then)),
        "form": numbers[move.form],
        "asks": _number_blanks(move.form)[0],
        "with": list(move.arguments),
        **over,
    }


def read_model(path: str) -> LearnedModel:
    """Read a model's file.

    Raises:
        InputError: the file is no model, is damaged, or has another version.
    """
    text = read_source(path, "model").text
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or data.get("kind") != _KIND:
        raise InputError(f"{path} is no model: make one with pearl learn commaqa.")
    if data.get("version") != _VERSION:
        raise InputError(
            f"{path} is a model of version {data.get('version')}, and this Pearl reads "
            f"{_VERSION}: learn it anew with pearl learn commaqa."
        )
    try:
        return _model(data)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise InputError(f"{path} is a damaged model: learn it anew.") from None


def _model(data: Mapping[str, Any]) -> LearnedModel:
    forms: dict[int, Form] = {}
    agents: dict[Form, Mapping[str, int]] = {}
    for item in data["forms"]:
        parts = [HOLE.split(_is(str, text)) for text in item["phrasings"]]
        orders = tuple(tuple(int(number) - 1 for number in part[1::2]) for part in parts)
        if not orders or any(set(order) != set(range(len(set(orders[0])))) for order in orders):
            raise ValueError
        form = Form(tuple(BLANK.join(part[::2]) for part in parts), orders)
        forms[_is(int, item["number"])] = form
        agents[form] = {name: _is(int, count) for name, count in item["agents"].items()}

    def move(data: Mapping[str, Any]) -> Move:
        operation, form, over = read_operation(data["operator"]), forms[data["form"]], None
        if data.get("over") is not None:
            over = _is(int, data["over"])
        arguments = tuple(arg if isinstance(arg, str) else _is(int, arg) for arg in data["with"])
        if operation is None or operation.of or len(arguments) != form.blanks or 0 in arguments:
            raise ValueError
        if over is not None and (over >= 0 or operation.mode is Mode.PLAIN):
            raise ValueError
        return Move(operation.mode, operation.then, form, arguments, over)

    patterns = []
    for item in data["patterns"]:
        strategies = (
            LearnedStrategy(tuple(map(move, entry["moves"])), _is(int, entry["seen"]))
            for entry in item["strategies"]
        )
        patterns.append(Pattern(_is(str, item["question"]), tuple(strategies)))
    classifiers = []
    for item in data["telltales"]:
        weights = {phrase: float(weight) for phrase, weight in item["phrases"].items()}
        scope, bias = _is(str, item["scope"]), float(item["bias"])
        classifiers.append(HopClassifier(move(item), scope, bias, weights))
    source = _is(str, data["learned_from"])
    return LearnedModel(source, agents, tuple(patterns), tuple(classifiers))


def _is(kind: type[T], data: Any) -> T:  # noqa: ANN401 - any JSON
    if type(data) is not kind:
        raise TypeError
    return data
