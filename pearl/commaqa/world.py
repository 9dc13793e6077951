"""Worlds of CommaQA: facts, questions, and the language of the agents that know the facts.

A file of the published format has one world a line (or one list of them), each with ``kb``,
``pred_lang_config``, ``context`` and ``qa_pairs``. An agent is described by templates. A template
has several phrasings, the types of its arguments, and steps that look facts up:
``table_directed($1, ?)`` gives the entities at ``?``. A template with no steps is arithmetic.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pearl.commaqa.decomposition import Hop, Operation, read_operation
from pearl.lang.ast import Mode
from pearl.lang.errors import InputError, refuse
from pearl.lang.source import read_source
from pearl.lang.values import DecodeError, Pairs, Value, from_json

_NUMBER = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,12})?")
_SLOT = re.compile(r"(\$[1-9][0-9]?)(?![0-9])")
_LOOKUP = re.compile(r"\s*(\w+)\((.*)\)\s*", re.DOTALL)
_FACT = re.compile(r"(\w+)\((.*)\)", re.DOTALL)
_KINDS: Mapping[type, str] = {dict: "an object", list: "a list", str: "a text"}

Fact = tuple[str, ...]


# Arithmetic (CommaQA-N's ``math_special``) reads numbers from the text of a question. 66.0 is not
# 66, and differences are exact: 92.4 and 85.8 differ by 6.6.


def read_number(text: str) -> Decimal | None:
    """A number as text, with up to 12 digits on each side of its point; None for anything else."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def read_numbers(text: str) -> tuple[Decimal, ...] | None:
    """A list of numbers, one a line or as JSON; None for anything else.

    A plan writes a list into a question with one item a line, so an empty text is an empty list.
    """
    items: Any = text.split("\n") if text else []
    if text.startswith("["):
        try:
            # Digits are kept as written, as 66.0 is not 66.
            items = json.loads(text, parse_float=str, parse_int=str)
        except (ValueError, RecursionError):
            return None
    numbers = [read_number(item) if isinstance(item, str) else None for item in items]
    valid = tuple(number for number in numbers if number is not None)
    return valid if len(valid) == len(numbers) else None


def _value(number: Decimal) -> Value:
    return int(number) if number.as_tuple().exponent == 0 else float(number)


OF_LIST: Mapping[str, Callable[[Sequence[Decimal]], Value | None]] = MappingProxyType(
    {
        "count": len,
        "max": lambda numbers: _value(max(numbers)) if numbers else None,
        "min": lambda numbers: _value(min(numbers)) if numbers else None,
    }
)
"""The operations on one list of numbers; they give None for "no answer"."""

OF_TWO: Mapping[str, Callable[[Decimal, Decimal], Value]] = MappingProxyType(
    {
        "diff": lambda first, second: _value(abs(first - second)),
        "is_greater": lambda first, second: first > second,
        "is_smaller": lambda first, second: first < second,
    }
)
"""The operations on two numbers."""


def calculate(name: str, arguments: Sequence[str]) -> Value | None:
    """The answer of one operation; None for arguments that are no numbers.

    Args:
        name: an operation of `OF_LIST` or `OF_TWO`.
        arguments: the texts in the question: one list, or two numbers.
    """
    if name in OF_LIST:
        numbers = read_numbers(arguments[0])
        return None if numbers is None else OF_LIST[name](numbers)
    first, second = (read_number(argument) for argument in arguments)
    return None if first is None or second is None else OF_TWO[name](first, second)


# The agents' language.


@dataclass(frozen=True, slots=True)
class Phrasing:
    """One way to word a question: fixed texts, and the slots between them.

    Args:
        fixed: the fixed texts, one more than there are slots; the first and last may be empty.
        slots: the names of the slots, as ``$1``.
    """

    fixed: tuple[str, ...]
    slots: tuple[str, ...]

    def fillings(self, text: str) -> Iterator[Mapping[str, str]]:
        """The texts of the slots, for every way that the fixed texts match a question."""
        head, tail = self.fixed[0], self.fixed[-1]
        if not self.slots:
            if text == head:
                yield {}
            return
        end = len(text) - len(tail)
        if end < len(head) or not (text.startswith(head) and text.endswith(tail)):
            return
        for words in _cut(text[len(head) : end], self.fixed[1:-1]):
            filling = dict(zip(self.slots, words, strict=True))
            # A slot that occurs twice must have the same text both times.
            if all(filling[slot] == word for slot, word in zip(self.slots, words, strict=True)):
                yield filling

    def fill(self, things: Mapping[str, str]) -> str:
        """The question with the slots filled in; the inverse of `fillings`."""
        head, *fixed = self.fixed
        pairs = zip(self.slots, fixed, strict=True)
        return head + "".join(f"{things[slot]}{words}" for slot, words in pairs)


def _cut(text: str, between: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not between:
        yield (text,)
        return
    at = text.find(between[0])
    while at >= 0:
        for rest in _cut(text[at + len(between[0]) :], between[1:]):
            yield (text[:at], *rest)
        at = text.find(between[0], at + 1)


@dataclass(frozen=True, slots=True)
class Lookup:
    """One step of a template.

    Args:
        operation: how it is asked: once, or for the items of an answer.
        predicate: the predicate whose facts are looked up.
        places: for each place of a fact, ``?`` for what is wanted, ``_`` for anything, ``$1`` for
            an argument, ``#1`` for an earlier step's answer, or an entity.
    """

    operation: Operation
    predicate: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QuestionTemplate:
    """One kind of question that an agent answers.

    Args:
        agent: the name of the agent.
        predicate: the template's name.
        phrasings: the ways to ask it.
        inputs: each slot and its type, in the slots' order.
        lookups: what it looks up; empty for arithmetic, whose operation is the predicate.
    """

    agent: str
    predicate: str
    phrasings: tuple[Phrasing, ...]
    inputs: tuple[tuple[str, str], ...]
    lookups: tuple[Lookup, ...]


class Reading(NamedTuple):
    """A question read by a template: the text of each argument, in the order of ``inputs``."""

    template: QuestionTemplate
    arguments: tuple[str, ...]


class Language:
    """The templates of all agents of a world.

    Questions are found by their agent and first word, so that a look-up costs a few comparisons
    of text.
    """

    def __init__(self, templates: Sequence[QuestionTemplate]) -> None:
        self.templates = tuple(templates)
        self.agents = tuple(dict.fromkeys(template.agent for template in templates))
        # The word is None for phrasings that begin with a slot, or with a word that has one in it.
        self._phrasings: dict[tuple[str, str | None], list[tuple[Phrasing, QuestionTemplate]]] = {}
        for template in self.templates:
            for phrasing in template.phrasings:
                word, space, _ = phrasing.fixed[0].partition(" ")
                key = (template.agent, word if space or not phrasing.slots else None)
                self._phrasings.setdefault(key, []).append((phrasing, template))

    def readings(self, agent: str, question: str) -> Iterator[Reading]:
        """Every way to read a question as one of the agent's templates."""
        for word in (question.partition(" ")[0], None):
            for phrasing, template in self._phrasings.get((agent, word), ()):
                # A quick test first: most phrasings fail it, and `fillings` takes longer.
                if not question.startswith(phrasing.fixed[0]):
                    continue
                for filling in phrasing.fillings(question):
                    yield Reading(template, tuple(filling[slot] for slot, _ in template.inputs))


# A world.


@dataclass(frozen=True, slots=True)
class WorldQuestion:
    """A question of a world, with its gold answer.

    Args:
        id: the question's name.
        text: the question.
        answer: the gold answer: a list of texts, or a number.
        hops: the gold decomposition; empty where it is not recorded.
        answers: the recorded answer of each hop, in order.
        facts: the facts that the answer rests on, as the file writes them.
        theory: the kind of question: the name of its theory, or its text with holes.
    """

    id: str
    text: str
    answer: Value
    hops: tuple[Hop, ...] = ()
    answers: tuple[Value, ...] = ()
    facts: tuple[str, ...] = ()
    theory: str = ""


@dataclass(frozen=True)
class World:
    """One knowledge base, and the language of the agents that know it.

    Args:
        name: the file's name and the world's number in it.
        facts: the entities of each fact, by predicate, in the file's order.
        language: the agents' templates.
        context: all facts in words.
        sentences: each fact in words, by the fact as written.
        questions: what is asked of this world.
    """

    name: str
    facts: Mapping[str, tuple[Fact, ...]]
    language: Language
    context: str = ""
    sentences: Mapping[str, str] = field(default_factory=dict)
    questions: tuple[WorldQuestion, ...] = ()

    @cached_property
    def index(self) -> Mapping[tuple[str, int], Mapping[str, Sequence[Fact]]]:
        """Facts by predicate and place (from 0), then by the entity at that place."""
        columns: dict[tuple[str, int], dict[str, list[Fact]]] = {}
        for predicate, facts in self.facts.items():
            for fact in facts:
                for place, entity in enumerate(fact):
                    columns.setdefault((predicate, place), {}).setdefault(entity, []).append(fact)
        return columns

    @cached_property
    def entities(self) -> Mapping[str, frozenset[str]]:
        """The entities of each type: those at the places where a template takes that type."""
        entities: dict[str, set[str]] = {}
        for template in self.language.templates:
            types = dict(template.inputs)
            for lookup in template.lookups:
                for at, place in enumerate(lookup.places):
                    if place in types:
                        column = self.index.get((lookup.predicate, at), {})
                        entities.setdefault(types[place], set()).update(column)
        return {kind: frozenset(names) for kind, names in entities.items()}

    def without_gold(self) -> World:
        """The same world without gold decompositions and the facts that answers rest on."""
        bare = (WorldQuestion(item.id, item.text, item.answer) for item in self.questions)
        return replace(self, questions=tuple(bare))


# Reading the published format.


def read_worlds(path: str) -> Iterator[World]:
    """Read a file of worlds: JSON lines, or one JSON list, in UTF-8.

    Raises:
        InputError: the file cannot be read, or, after the last world, some worlds were wrong; each
            is named by its line (of JSON lines) or number (in a list).
    """
    text = read_source(path, "file of worlds").text
    listed = _json(text, path) if text.lstrip().startswith("[") else None
    problems: list[InputError] = []
    for number, row in enumerate(text.split("\n") if listed is None else listed, 1):
        where = f"{path}:{number}"
        try:
            if listed is not None or row.strip():
                data = row if listed is not None else _json(row, where)
                yield read_world(data, where, f"{Path(path).stem}/{number}")
        except InputError as error:
            problems.append(error)
    refuse(problems)


def _json(text: str, where: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{where} is not JSON: give one world of CommaQA a line.") from None


def read_world(data: Any, where: str, name: str) -> World:  # noqa: ANN401 - any JSON
    """One world from JSON data.

    Args:
        data: an object of the published format; ``decomposition`` and ``facts_used`` may be
            absent.
        where: the file and line, for messages.
        name: what the world is called.

    Raises:
        InputError: something is missing or of another kind.
    """
    if not isinstance(data, dict):
        raise InputError(f"{where}: a world is an object with kb, pred_lang_config and qa_pairs.")
    templates: list[QuestionTemplate] = []
    for agent, entries in _of(data, "pred_lang_config", dict, where).items():
        if not isinstance(entries, list):
            raise InputError(f"{where}: the agent {agent} needs a list of templates.")
        templates += [_template(agent, entry, where) for entry in entries]
    return World(
        name,
        _facts(_of(data, "kb", dict, where), where),
        Language(templates),
        _of(data, "context", str, where, ""),
        _of(data, "per_fact_context", dict, where, {}),
        tuple(_question(pair, where) for pair in _of(data, "qa_pairs", list, where)),
    )


def _of(data: Any, key: str, kind: type, where: str, default: Any = None) -> Any:  # noqa: ANN401 - any JSON
    value = data.get(key, default) if isinstance(data, dict) else None
    if not isinstance(value, kind):
        raise InputError(f"{where}: {key} is not there, or is not {_KINDS[kind]}.")
    return value


def _facts(kb: Mapping[str, Any], where: str) -> dict[str, tuple[Fact, ...]]:
    facts: dict[str, tuple[Fact, ...]] = {}
    for predicate, written in kb.items():
        if not isinstance(written, list):
            raise InputError(f"{where}: kb: {predicate} is not a list of facts.")
        matches = [_FACT.fullmatch(fact) if isinstance(fact, str) else None for fact in written]
        matching = [match for match in matches if match and match[1] == predicate]
        if len(matching) < len(written):
            raise InputError(f"{where}: kb: write a fact as {predicate}(one, other).")
        facts[predicate] = tuple(tuple(match[2].split(", ")) for match in matching)
        if len(set(map(len, facts[predicate]))) > 1:
            raise InputError(f"{where}: kb: the facts of {predicate} are not all of one length.")
    return facts


def _question(data: Any, where: str) -> WorldQuestion:  # noqa: ANN401 - any JSON
    name = _of(data, "id", str, where)
    place = f"{where}: question {name}"
    hops: list[Hop] = []
    answers: list[Value] = []
    for step in _of(data, "decomposition", list, place, []):
        operator, agent, text = (_of(step, key, str, place) for key in ("op", "m", "q"))
        hops.append(Hop(operator, agent, text))
        answers.append(_recorded_answer(operator, step.get("a"), place))
    facts = tuple(map(str, _of(data, "facts_used", list, place, [])))
    text = _of(data, "question", str, place)
    answer = _recorded_answer(hops[-1].operator if hops else "", data.get("answer"), place)
    theory = data.get("theory")
    if not isinstance(theory, str):
        patterns = _of(data, "config", dict, place, {}).get("questions")
        first = patterns[0] if isinstance(patterns, list) and patterns else ""
        theory = first if isinstance(first, str) else ""
    return WorldQuestion(name, text, answer, tuple(hops), tuple(answers), facts, theory)


def _recorded_answer(operator: str, data: Any, where: str) -> Value:  # noqa: ANN401 - any JSON
    """A recorded answer, in which the files write pairs as lists of two."""
    try:
        value = from_json(data)
    except (DecodeError, RecursionError):
        raise InputError(f"{where}: an answer is a list, a text or a number.") from None
    operation = read_operation(operator)
    if operation is None or not operation.gives_pairs or not isinstance(value, list):
        return value
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise InputError(f"{where}: the answer of ({operator}) is a list of item and answer.")
    return Pairs(tuple((pair[0], pair[1]) for pair in value if isinstance(pair, list)))


def _template(agent: str, entry: Any, where: str) -> QuestionTemplate:  # noqa: ANN401 - any JSON
    """Read a template, and leave out phrasings whose slots are not the template's.

    The published CommaQA-I has ``Who all work as $2?`` for ``$1``.
    """
    if not isinstance(entry, dict):
        raise InputError(f"{where}: a template of {agent} is no object.")
    inputs: Any = entry.get("init")
    name, questions, steps = map(entry.get, ("predicate", "questions", "steps"))
    if not isinstance(name, str) or not isinstance(questions, list) or not isinstance(steps, list):
        raise InputError(f"{where}: a template of {agent} needs a predicate, questions and steps.")

    def check(met: object, message: str, name: str = name) -> None:
        if not met:
            raise InputError(f"{where}: {agent}: {name}{message}.")

    texts = isinstance(inputs, dict) and all(isinstance(kind, str) for kind in inputs.values())
    check(texts, " needs init, the types of its arguments")
    check(all(map(_SLOT.fullmatch, inputs)), " needs slots such as $1 in init")
    lookups: list[Lookup] = []
    for step in steps:
        read = step if isinstance(step, dict) else {}
        operator, asks = (str(read.get(key)) for key in ("operation", "question"))
        operation, match = read_operation(operator), _LOOKUP.fullmatch(asks)
        if operation is None or match is None:
            check(False, " has a step that is not an operation with pred($1, ?)")
            break
        places = tuple(place.strip() for place in match[2].split(","))
        one_wanted = places.count("?") == 1
        check(one_wanted, f": a look-up needs one ?, where its answers stand: {asks}")
        over = [place for place in places if place.startswith("#")]
        mapped = operation.mode is Mode.PLAIN or len(over) == 1
        check(mapped, f": {operator} needs one earlier answer, as #1: {asks}")
        lookups.append(Lookup(operation, match[1], places))
    predicate = name.partition("(")[0]
    if not lookups:
        names = ", ".join((*OF_LIST, *OF_TWO))
        message = f" has no steps and is no arithmetic: use {names}, or give it steps"
        check(predicate in OF_LIST or predicate in OF_TWO, message, predicate)
        fits = len(inputs) == (1 if predicate in OF_LIST else 2)
        check(fits, f" has {len(inputs)} arguments in init", predicate)
    phrasings: list[Phrasing] = []
    for question in questions:
        check(question and isinstance(question, str), " has a question that is no text")
        parts = _SLOT.split(question)
        apart = "" not in parts[2:-2:2]
        check(apart, f" has two slots with nothing between them: {question}")
        if set(parts[1::2]) == set(inputs):
            phrasings.append(Phrasing(tuple(parts[::2]), tuple(parts[1::2])))
    ordered = sorted(inputs.items(), key=lambda slot: int(slot[0][1:]))
    return QuestionTemplate(agent, predicate, tuple(phrasings), tuple(ordered), tuple(lookups))
