"""Hops without their world: a fill-in-the-blank question, and what goes into its blanks.

A decomposition that was found for one question is of use for others only when
its entities and the numbers of its answers are left open. A `Move` is a hop
like that: ``Which movies has {} directed?``, asked for what the hop before it
gave, or for the second entity of the question.

Questions with their entities left open, so that those of one kind are one text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pearl.commaqa.agents import Agents
from pearl.commaqa.decomposition import (
    REFERENCE,
    Hop,
    Operation,
    print_operation,
    read_operation,
    references,
)
from pearl.commaqa.world import World
from pearl.lang.ast import Mode
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
