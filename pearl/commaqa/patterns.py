"""Questions and hops with their entities left open.

A decomposition that was found for one question is of use for others only when its entities and
the numbers of its answers are left open. A pattern is a question like that, ``Who are from {1}?``;
a `Move` is a hop like that: ``Which movies has {} directed?``, asked for what the hop before it
gave, or for the second entity of the question.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pearl.commaqa.decomposition import (
    REFERENCE,
    Hop,
    Operation,
    print_operation,
    read_operation,
    references,
)
from pearl.commaqa.world import Language, Template
from pearl.lang.ast import Mode
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
            asked. Their blanks are in one order.
        orders: for each phrasing, which argument stands in which blank, from 0.
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
    """A hop of any question of one kind.

    Args:
        mode: how it is asked: once, or for the items of an answer.
        then: the transformations that follow.
        form: what is asked.
        arguments: for each blank, an entity of the question (1, 2, … as they stand in it), or an
            earlier answer, counted back (-1 is the last); a text stands for itself.
        over: the earlier answer that `mode` goes over, counted back; None where it is the first
            that the question names, or there is none.
    """

    mode: Mode
    then: tuple[str, ...]
    form: Form
    arguments: tuple[int | str, ...]
    over: int | None = None


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
    return Hop(print_operation(Operation(move.mode, of, move.then)), agent, move.form.fill(filled))


def move_of(hop: Hop, number: int, entities: Sequence[str], language: Language) -> Move | None:
    """A hop without its world; the inverse of `hop_of`.

    Args:
        hop: one of a decomposition.
        number: its own, counted from 1.
        entities: the question's, in order.
        language: tells which words are blanks. A question that no agent's template reads, or two
            of them, is a form of its own.

    Returns:
        The move; None for an operator that there is not.
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


def _form_of_template(template: Template) -> Form:
    slots = [slot for slot, _ in template.inputs]
    return Form(
        tuple(BLANK.join(one.fixed) for one in template.phrasings),
        tuple(tuple(map(slots.index, one.slots)) for one in template.phrasings),
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


def words_of(text: str) -> tuple[str, ...]:
    """A text's words in small letters; holes and blanks are none."""
    return tuple(word.casefold() for word in _WORD.findall(HOLE.sub(" ", text)))


def opened(text: str, entities: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """A question with a hole for each entity, and the entities in the order of the holes.

    An entity stands between word boundaries; a longer one comes before one that it holds.

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
    inside: list[str] = []

    def hole(match: re.Match[str]) -> str:
        inside.append(match[0])
        return f"{{{len(inside)}}}"

    pattern = re.sub(rf"(?<![\w.])(?:{either})(?!\w|\.\w)", hole, text)
    return pattern, tuple(inside)


def known_entities(text: str, valid: Collection[str]) -> tuple[str, ...]:
    """What stands in a question that is a valid input of some agent, or a number.

    Args:
        text: the question.
        valid: examples of valid inputs, of all types together.
    """
    words = list(_WORD.finditer(text))
    spans = {text[one.start() : other.end()] for one in words for other in words}
    return tuple(sorted({*(spans & set(valid)), *_NUMBER.findall(text)} - {""}))


def strange_entities(text: str, vocabulary: Collection[str]) -> tuple[str, ...]:
    """What stands in a question of no known pattern that is not made of known words.

    Neighbouring words that are strange are one entity, and so is a number.

    Args:
        text: the question.
        vocabulary: the words of known patterns, in small letters.
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
    """The pattern with the most words of its own that a question is of, and its entities."""
    matches = [
        (pattern, match.groups())
        for pattern in patterns
        if (match := _matcher(pattern).fullmatch(text)) is not None
    ]
    return max(matches, key=lambda one: (len(words_of(one[0])), one[0]), default=None)
