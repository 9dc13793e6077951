"""Hops without their world: a fill-in-the-blank question, and what goes into its blanks.

A decomposition that was found for one question is of use for others only when
its entities and the numbers of its answers are left open. A `Move` is a hop
like that: ``Which movies has {} directed?``, asked for what the hop before it
gave, or for the second entity of the question.

Questions with their entities left open, so that those of one kind are one text.

What was learned, and its file.

A model holds the fill-in-the-blank questions of the agents it was learned
from, and for each kind of question the ways to decompose it. The file is JSON
that a person can read and correct; the same training gives the same bytes.

Which words of a question tell of which hops, fitted to many kinds of question.

Each hop that was learned has a logistic model of its own: given the words and
short phrases of a question, how likely is it that the hop is part of its
decomposition? A question with several entities is taken apart at them, so that
what is said of the one is no evidence for what is asked of the other. Nothing
is fitted to pairs of hops, so that hops that were never seen together are as
likely as their words say.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from pearl.commaqa.agents import Agents
from pearl.commaqa.decomposition import (
    MODES,
    REFERENCE,
    Hop,
    Operation,
    print_operation,
    read_operation,
    references,
)
from pearl.commaqa.world import World
from pearl.lang.ast import Mode
from pearl.lang.source import InputError, read_source
from pearl.lang.values import Pairs, Value

BLANK = "{}"


@dataclass(frozen=True, slots=True)
class Form:
    """One kind of question that agents answer, with its paraphrases.

    Args:
        phrasings: fill-in-the-blank questions, ``Who directed {}?``; the first
            is the one that is asked. Their blanks are in one order.
        orders: for each phrasing, which argument stands in which blank, from 0.
    """

    phrasings: tuple[str, ...]
    orders: tuple[tuple[int, ...], ...]

    @property
    def blanks(self) -> int:
        """How many arguments the question takes."""
        return len(set(self.orders[0]))

    def asked(self, arguments: Sequence[str], phrasing: int = 0) -> str:
        """The question in words, one argument for each blank."""
        parts = self.phrasings[phrasing].split(BLANK)
        words = [parts[0]]
        for argument, part in zip(self.orders[phrasing], parts[1:], strict=True):
            words += (arguments[argument], part)
        return "".join(words)


@dataclass(frozen=True, slots=True)
class Move:
    """A hop of any question of one kind.

    Args:
        mode: how it is asked: once, or for the items of an answer.
        then: the transformations that follow.
        form: what is asked.
        arguments: for each blank, an entity of the question (1, 2, … as they
            stand in it), or an earlier answer, counted back (-1 is the last);
            a text stands for itself.
        over: the earlier answer that `mode` goes over, counted back; None
            where it is the first that the question names, or there is none.
    """

    mode: Mode
    then: tuple[str, ...]
    form: Form
    arguments: tuple[int | str, ...]
    over: int | None = None

    @property
    def shape(self) -> tuple[object, ...]:
        """The move without what it asks."""
        return self.mode, self.then, self.arguments, self.over


def fits(move: Move, entities: int, answers: int) -> bool:
    """Whether the question has the entities, and the run the answers, that a move uses."""
    used = [one for one in (*move.arguments, move.over) if isinstance(one, int)]
    return all(one <= entities if one > 0 else -one <= answers for one in used)


def hop_of(move: Move, agent: str, entities: Sequence[str], number: int) -> Hop:
    """The hop that a move is in a question.

    Args:
        move: with `fits` for the question.
        agent: who is asked.
        entities: the question's, in order.
        number: the hop's own, counted from 1.
    """
    filled = [
        one if isinstance(one, str) else entities[one - 1] if one > 0 else f"#{number + one}"
        for one in move.arguments
    ]
    of = None if move.over is None else number + move.over
    return Hop(print_operation(Operation(move.mode, of, move.then)), agent, move.form.asked(filled))


def forms_of(world: World) -> dict[Form, tuple[str, ...]]:
    """The fill-in-the-blank questions of a world's agents, and who answers them.

    Only the words are used: neither what a template looks up, nor its types.
    """
    found: dict[Form, list[str]] = {}
    for template in world.language.templates:
        slots = [slot for slot, _ in template.inputs]
        phrasings = tuple(BLANK.join(one.fixed) for one in template.phrasings)
        orders = tuple(tuple(map(slots.index, one.slots)) for one in template.phrasings)
        if phrasings:
            found.setdefault(Form(phrasings, orders), []).append(template.agent)
    return {form: tuple(dict.fromkeys(agents)) for form, agents in found.items()}


def move_of(hop: Hop, number: int, entities: Sequence[str], world: World) -> Move | None:
    """A hop without its world; the inverse of `hop_of`.

    Args:
        hop: one of a decomposition.
        number: its own, counted from 1.
        entities: the question's, in order.
        world: whose agents' language tells which words are blanks. A question
            that is none of theirs, or of two of their templates, is a form of
            its own.

    Returns:
        The move; None for an operator that there is not.
    """
    operation = read_operation(hop.operator)
    if operation is None:
        return None
    form, words = _read(hop, world)
    named = references(hop.question)
    first = next(iter(named), None)
    over = None if operation.of in (None, first) else operation.of - number
    arguments = tuple(_argument(one, number, entities) for one in words)
    return Move(operation.mode, operation.then, form, arguments, over)


def _read(hop: Hop, world: World) -> tuple[Form, tuple[str, ...]]:
    readings = list(world.language.readings(hop.agent, hop.question))
    known = {form.phrasings: form for form in forms_of(world)}
    for template, words in readings:
        form = known.get(tuple(BLANK.join(one.fixed) for one in template.phrasings))
        if form is None:
            continue
        if len({reading.template for reading in readings}) == 1:
            return form, words
        for at in range(len(form.phrasings)):
            if form.asked(words, at) == hop.question:
                return Form(form.phrasings[at : at + 1], form.orders[at : at + 1]), words
    parts = REFERENCE.split(hop.question)
    order = tuple(range(len(parts) // 2))
    return Form((BLANK.join(parts[::2]),), (order,)), tuple(f"#{one}" for one in parts[1::2])


def _argument(words: str, number: int, entities: Sequence[str]) -> int | str:
    found = REFERENCE.fullmatch(words)
    if found:
        return int(found[1]) - number
    return entities.index(words) + 1 if words in entities else words


def is_empty(value: Value) -> bool:
    """Whether an answer is a list or pairs with nothing in it."""
    return isinstance(value, list | Pairs) and not len(value)


def who_answers(
    form: Form, arguments: Sequence[str], agents: Agents, names: Sequence[str]
) -> tuple[str, Value] | None:
    """The first agent that answers, and its answer."""
    question = form.asked(arguments)
    for name in names:
        answer = agents.ask(name, question)
        if answer is not None:
            return name, answer
    return None


_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_WORD = re.compile(r"\w+")
_CHUNK = re.compile(r"\S+")
_HOLE = re.compile(r"\{([1-9][0-9]?)\}")


def words_of(text: str) -> tuple[str, ...]:
    """A text's words in small letters; holes and blanks are none."""
    return tuple(word.casefold() for word in _WORD.findall(_HOLE.sub(" ", text)))


def opened(text: str, entities: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """A question with a hole for each entity, and the entities in the order of the holes.

    An entity stands between word boundaries; a longer one comes before one
    that it holds.

    Args:
        text: the question.
        entities: in any order; those that do not occur are left out.

    Returns:
        ``("Who threw discus shorter than {1}?", ("48.0",))``.
    """
    known = sorted({one for one in entities if one}, key=lambda one: (-len(one), one))
    if not known:
        return text, ()
    either = "|".join(map(re.escape, known))
    found: list[str] = []

    def hole(match: re.Match[str]) -> str:
        found.append(match[0])
        return f"{{{len(found)}}}"

    pattern = re.sub(rf"(?<![\w.])(?:{either})(?!\w|\.\w)", hole, text)
    return pattern, tuple(found)


def known_entities(text: str, valid: Collection[str]) -> tuple[str, ...]:
    """What stands in a question that is a valid input of some agent, or a number.

    Args:
        text: the question.
        valid: examples of valid inputs, of all types together.
    """
    starts = [match.start() for match in _WORD.finditer(text)]
    ends = [match.end() for match in _WORD.finditer(text)]
    spans = {text[start:end] for start in starts for end in ends if start < end}
    numbers = (match[0] for match in _NUMBER.finditer(text))
    return tuple(sorted({*(spans & set(valid)), *numbers}))


@lru_cache(maxsize=4096)
def _matcher(pattern: str) -> re.Pattern[str]:
    parts = _HOLE.split(pattern)
    pieces = [re.escape(part) if at % 2 == 0 else "(.+?)" for at, part in enumerate(parts)]
    return re.compile("".join(pieces), re.DOTALL)


def fitted(text: str, pattern: str) -> tuple[str, ...] | None:
    """The entities of a question that is of a pattern; None for one that is not."""
    found = _matcher(pattern).fullmatch(text)
    return found.groups() if found else None


def strange_entities(text: str, vocabulary: Collection[str]) -> tuple[str, ...]:
    """What stands in a question of no known pattern that is not made of known words.

    Neighbouring words that are strange are one entity, and so is a number.

    Args:
        text: the question.
        vocabulary: the words of known patterns, in small letters.
    """
    found: list[str] = []
    last = -2
    for at, chunk in enumerate(_CHUNK.finditer(text)):
        words = list(_WORD.finditer(chunk[0]))
        strange = [one for one in words if one[0].casefold() not in vocabulary]
        if not strange:
            continue
        body = chunk[0][words[0].start() : words[-1].end()]
        number = _NUMBER.search(chunk[0])
        if len(words) > len(strange) and not number:
            body = chunk[0][strange[0].start() : strange[-1].end()]
        if number:
            body = number[0]
        if at == last + 1 and not number and _joins(text, found[-1], chunk[0], body):
            found[-1] = f"{found[-1]} {body}"
        else:
            found.append(body)
        last = at
    return tuple(found)


def _joins(text: str, before: str, chunk: str, body: str) -> bool:
    return chunk.startswith(body) and f"{before} {body}" in text


def longest_match(text: str, patterns: Iterable[str]) -> tuple[str, tuple[str, ...]] | None:
    """The pattern with the most words of its own that a question is of, and its entities."""
    found = [
        (pattern, entities)
        for pattern in patterns
        if (entities := fitted(text, pattern)) is not None
    ]
    return max(found, key=lambda one: (len(words_of(one[0])), one[0]), default=None)


ENOUGH = 30
"""Fewer kinds of question do not tell apart which of their words mean what."""

_TOKEN = re.compile(r"\{[1-9][0-9]?\}|\w+")
_HOLE_TELLTALES = "{}"
_LONGEST = 3
_STRENGTH = 0.02
"""How strongly large weights are held down."""

OWN, ALL = "own", "all"
"""What a hop rests on: one entity, by its part of the question, or on more or none, by all of it.

A question with at most one entity has its whole text for its one part.
"""


@dataclass(frozen=True, slots=True)
class HopClassifier:
    """What tells of one hop.

    Args:
        move: the hop; the entity that it rests on is its first.
        scope: `OWN` or `ALL`.
        bias: of the logistic model, with no phrase.
        phrases: a phrase, and what it adds.
    """

    move: Move
    scope: str
    bias: float
    phrases: Mapping[str, float]

    def likely(self, phrases: Iterable[str]) -> float:
        """How likely the hop is, given a text's phrases."""
        total = self.bias + sum(self.phrases.get(one, 0.0) for one in phrases)
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def features_of(text: str) -> frozenset[str]:
    """A text's words and runs of up to three words; holes are all alike."""
    tokens = ["^", *(_token(one) for one in _TOKEN.findall(text)), "$"]
    return frozenset(
        " ".join(tokens[at : at + length])
        for length in range(1, _LONGEST + 1)
        for at in range(len(tokens) - length + 1)
    )


def _token(word: str) -> str:
    return _HOLE_TELLTALES if word.startswith("{") else word.casefold()


def parts_of(pattern: str, entities: int) -> tuple[str, ...]:
    """A question's text for each of its entities: from the one before up to itself.

    What follows the last entity is part of the last; with one entity or none
    there is one part.
    """
    if entities < 2:
        return (pattern,)
    holes = [f"{{{number}}}" for number in range(1, entities)]
    ends = [pattern.index(hole) + len(hole) for hole in holes]
    starts = [0, *ends]
    return tuple(pattern[start:end] for start, end in zip(starts, [*ends, None], strict=True))


def rests_on(move: Move, number: int, earlier: Sequence[frozenset[int]]) -> frozenset[int]:
    """The entities that a hop rests on, itself or through earlier hops."""
    found: set[int] = set()
    for one in (*move.arguments, move.over):
        if isinstance(one, int):
            found |= {one} if one > 0 else earlier[number - 1 + one]
    return frozenset(found)


def placed(move: Move, rests: frozenset[int], entities: int) -> tuple[Move, str, int]:
    """A hop as telltales know it, its scope, and which part of the question tells of it."""
    if entities < 2:
        return move, OWN, 0
    if len(rests) != 1:
        return move, ALL, 0
    (own,) = rests
    arguments = tuple(1 if one == own else one for one in move.arguments)
    return replace(move, arguments=arguments), OWN, own - 1


def fit_classifiers(patterns: Sequence[Pattern]) -> tuple[HopClassifier, ...]:
    """Telltales of all hops; none where there are fewer than `ENOUGH` kinds of question."""
    if len(patterns) < ENOUGH:
        return ()
    examples: dict[str, list[tuple[frozenset[str], frozenset[Move]]]] = {OWN: [], ALL: []}
    for pattern in patterns:
        for strategy in pattern.strategies:
            for scope, text, moves in _examples(pattern.question, strategy.moves):
                examples[scope].append((features_of(text), moves))
    return tuple(one for scope in (OWN, ALL) for one in _fitted(scope, examples[scope]))


def _examples(question: str, moves: Sequence[Move]) -> Iterator[tuple[str, str, frozenset[Move]]]:
    """Texts, and the hops that they tell of."""
    entities = len(re.findall(r"\{[1-9][0-9]?\}", question))
    parts = parts_of(question, entities)
    told: dict[tuple[str, int], set[Move]] = {(OWN, at): set() for at in range(len(parts))}
    if entities > 1:
        told[ALL, 0] = set()
    earlier: list[frozenset[int]] = []
    for number, move in enumerate(moves, 1):
        earlier.append(rests_on(move, number, earlier))
        known, scope, at = placed(move, earlier[-1], entities)
        told[scope, at].add(known)
    for (scope, at), found in told.items():
        yield scope, question if scope == ALL else parts[at], frozenset(found)


def _fitted(
    scope: str, examples: Sequence[tuple[frozenset[str], frozenset[Move]]]
) -> Iterator[HopClassifier]:
    """One logistic model for each hop, by ridge-penalised likelihood."""
    moves = sorted({move for _, found in examples for move in found}, key=str)
    counted = Counter(phrase for phrases, _ in examples for phrase in phrases)
    known = sorted(phrase for phrase, times in counted.items() if times > 1)
    if not moves:
        return
    weights = _regressed(
        [[phrase in phrases for phrase in known] for phrases, _ in examples],
        [[move in found for move in moves] for _, found in examples],
    )
    for at, move in enumerate(moves):
        column = [round(float(one), 2) for one in weights[:, at]]
        told = {phrase: one for phrase, one in zip(known, column, strict=False) if abs(one) >= 0.05}
        yield HopClassifier(move, scope, column[-1], told)


def _regressed(has: Sequence[Sequence[bool]], used: Sequence[Sequence[bool]]) -> Any:  # noqa: ANN401 - numpy's
    """Weights of logistic regressions: phrases and a bias (last) by hops."""
    import numpy as np
    from scipy.optimize import minimize

    inputs = np.hstack([np.array(has, float), np.ones((len(has), 1))])
    wanted = np.array(used, float)
    shape = (inputs.shape[1], wanted.shape[1])
    held = np.full(shape, _STRENGTH)
    held[-1] = 0.001

    def loss(flat: Any) -> tuple[float, Any]:  # noqa: ANN401 - numpy's
        weights = flat.reshape(shape)
        sums = inputs @ weights
        value = np.logaddexp(0, sums).sum() - (wanted * sums).sum()
        chances = 1 / (1 + np.exp(-np.clip(sums, -500, 500)))
        slope = inputs.T @ (chances - wanted) + held * weights
        return float(value + 0.5 * (held * weights**2).sum()), slope.ravel()

    start = np.zeros(shape[0] * shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200})
    return found.x.reshape(shape)


KIND = "pearl commaqa model"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to decompose questions of a kind.

    Args:
        moves: its hops.
        seen: how many questions went that way.
    """

    moves: tuple[Move, ...]
    seen: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """A kind of question.

    Args:
        question: with holes, ``What movies have the directors from {1} directed?``.
        strategies: the one that was seen most comes first.
    """

    question: str
    strategies: tuple[Strategy, ...]

    @property
    def seen(self) -> int:
        """How many questions were of this kind."""
        return sum(strategy.seen for strategy in self.strategies)


@dataclass(frozen=True)
class Model:
    """What was learned.

    Args:
        source: ``gold`` or ``answers``.
        forms: what agents answer, and in how many worlds each agent did.
        patterns: by their text.
        telltales: which words tell of which hops; none where there are few patterns.
    """

    source: str
    forms: Mapping[Form, Mapping[str, int]]
    patterns: tuple[Pattern, ...]
    telltales: tuple[HopClassifier, ...] = ()

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The names of all agents, in order."""
        return tuple(sorted({name for names in self.forms.values() for name in names}))


def write_model(model: Model) -> str:
    """The text of a model's file."""
    forms = sorted(model.forms, key=lambda form: (form.phrasings, form.orders))
    numbers = {form: number for number, form in enumerate(forms, 1)}
    head = {"kind": KIND, "version": VERSION, "learned_from": model.source}
    lines = [f"{_line(key)}: {_line(value)}," for key, value in head.items()]
    lines.append('"forms": [')
    lines += _joined(
        _line({"number": numbers[form], "phrasings": _numbered(form),
               "agents": dict(sorted(model.forms[form].items()))})
        for form in forms
    )  # fmt: skip
    lines += ["],", '"patterns": [']
    lines += _joined(_written(pattern, numbers) for pattern in model.patterns)
    lines += ["],", '"telltales": [']
    lines += _joined(
        _line({**_move_data(one.move, numbers), "scope": one.scope, "bias": one.bias,
               "phrases": dict(one.phrases)})
        for one in model.telltales
    )  # fmt: skip
    return "\n".join(["{", *lines, "]", "}"]) + "\n"


def _line(data: Any) -> str:  # noqa: ANN401 - any JSON
    return json.dumps(data, ensure_ascii=False)


def _joined(lines: Iterable[str]) -> list[str]:
    every = list(lines)
    return [f"{line}," for line in every[:-1]] + every[-1:]


def _numbered(form: Form) -> list[str]:
    """The phrasings with the arguments' numbers in their blanks."""
    numbers = [f"{{{number}}}" for number in range(1, form.blanks + 1)]
    return [form.asked(numbers, at) for at in range(len(form.phrasings))]


def _written(pattern: Pattern, numbers: Mapping[Form, int]) -> str:
    """A pattern, one move a line."""
    ways = []
    for one in pattern.strategies:
        moves = ",\n  ".join(_line(_move_data(move, numbers)) for move in one.moves)
        ways.append(f'{{"seen": {one.seen}, "moves": [\n  {moves}]}}')
    joined = ",\n ".join(ways)
    return f'{{"question": {_line(pattern.question)}, "strategies": [\n {joined}]}}'


def _move_data(move: Move, numbers: Mapping[Form, int]) -> dict[str, Any]:
    name = next(name for name, mode in MODES.items() if mode is move.mode)
    told: dict[str, Any] = {
        "operator": "_".join((name, *move.then)),
        "form": numbers[move.form],
        "asks": _numbered(move.form)[0],
        "with": list(move.arguments),
    }
    return told if move.over is None else {**told, "over": move.over}


def read_model(path: str) -> Model:
    """Read a model's file.

    Raises:
        InputError: it is none, or of another version.
    """
    source = read_source(path, "model")
    try:
        data = json.loads(source.text)
    except (ValueError, RecursionError):
        raise InputError(f"{path} is no model: make one with pearl learn commaqa.") from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise InputError(f"{path} is no model: make one with pearl learn commaqa.")
    if data.get("version") != VERSION:
        raise InputError(
            f"{path} is a model of version {data.get('version')}, and this Pearl reads "
            f"{VERSION}: learn it anew with pearl learn commaqa."
        )
    try:
        return _model(data)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        raise InputError(f"{path} is a damaged model: learn it anew.") from None


def _model(data: Mapping[str, Any]) -> Model:
    forms: dict[int, Form] = {}
    agents: dict[Form, Mapping[str, int]] = {}
    for one in data["forms"]:
        form = _form([_text(phrasing) for phrasing in one["phrasings"]])
        forms[_whole(one["number"])] = form
        agents[form] = {str(name): _whole(seen) for name, seen in one["agents"].items()}
    patterns = tuple(
        Pattern(
            _text(one["question"]),
            tuple(
                Strategy(tuple(_move(move, forms) for move in way["moves"]), _whole(way["seen"]))
                for way in one["strategies"]
            ),
        )
        for one in data["patterns"]
    )
    telltales = tuple(
        HopClassifier(
            _move(one, forms), _text(one["scope"]), float(one["bias"]),
            {_text(phrase): float(weight) for phrase, weight in one["phrases"].items()},
        )
        for one in data["telltales"]
    )  # fmt: skip
    return Model(_text(data["learned_from"]), agents, patterns, telltales)


def _form(phrasings: Sequence[str]) -> Form:
    parts = [_HOLE.split(one) for one in phrasings]
    orders = tuple(tuple(int(number) - 1 for number in one[1::2]) for one in parts)
    if not orders or any(set(one) != set(range(len(set(orders[0])))) for one in orders):
        raise ValueError
    return Form(tuple(BLANK.join(one[::2]) for one in parts), orders)


def _move(data: Mapping[str, Any], forms: Mapping[int, Form]) -> Move:
    operation, form = read_operation(data["operator"]), forms[data["form"]]
    over = data.get("over")
    arguments = tuple(one if isinstance(one, str) else _whole(one) for one in data["with"])
    if operation is None or operation.of or len(arguments) != form.blanks or 0 in arguments:
        raise ValueError
    if over is not None and (_whole(over) >= 0 or operation.mode is Mode.PLAIN):
        raise ValueError
    return Move(operation.mode, operation.then, form, arguments, over)


def _text(data: Any) -> str:  # noqa: ANN401 - any JSON
    if not isinstance(data, str):
        raise TypeError
    return data


def _whole(data: Any) -> int:  # noqa: ANN401 - any JSON
    if type(data) is not int:
        raise TypeError
    return data


def gathered(
    source: str,
    forms: Mapping[Form, Mapping[str, int]],
    examples: Iterable[tuple[str, Sequence[Move]]],
) -> Model:
    """A model of examples: how often each pattern went which way.

    Args:
        source: ``gold`` or ``answers``.
        forms: what agents answer, and in how many worlds each did.
        examples: a pattern and its moves, one for each question.
    """
    counted: dict[str, dict[tuple[Move, ...], int]] = {}
    known = {form: dict(names) for form, names in forms.items()}
    for pattern, moves in examples:
        ways = counted.setdefault(pattern, {})
        ways[tuple(moves)] = ways.get(tuple(moves), 0) + 1
    patterns = tuple(
        Pattern(
            question,
            tuple(
                Strategy(moves, seen)
                for moves, seen in sorted(ways.items(), key=lambda one: (-one[1], str(one[0])))
            ),
        )
        for question, ways in sorted(counted.items())
    )
    return Model(source, known, patterns, fit_classifiers(patterns))
