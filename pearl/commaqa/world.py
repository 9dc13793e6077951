"""An agent's language: which questions it answers, and what they look up.

CommaQA describes an agent by templates (``pred_lang_config``). A
template has several phrasings, the types of its arguments, and steps that look
facts up: ``table_directed($1, ?)`` gives what stands at ``?``. A template with
no steps is arithmetic.

The agent that counts and compares (CommaQA-N: ``math_special``).

It reads numbers as text, which is how answers stand in a question. A number
with a decimal point stays one, and differences are exact in decimal digits:
92.4 and 85.8 differ by 6.6.

A world of CommaQA: facts, the agents that know them, and questions.

A file of the published format has one world a line (or one list of them), each
with ``kb``, ``pred_lang_config``, ``context`` and ``qa_pairs``.
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
from pearl.lang.source import InputError, read_source
from pearl.lang.values import DecodeError, Pairs, Value, canonical_json, from_json

_NUMBER = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,12})?")


def read_number(text: str) -> Decimal | None:
    """A number as text, with up to 12 digits on each side of its point; None for anything else."""
    return Decimal(text) if _NUMBER.fullmatch(text) else None


def read_numbers(text: str) -> tuple[Decimal, ...] | None:
    """A list of numbers, one a line or as JSON; None for anything else.

    A list in a plan's template stands one item a line, so that nothing at all
    is the empty list.
    """
    if not text:
        return ()
    items = _json_list(text) if text.startswith("[") else text.split("\n")
    numbers = [read_number(item) for item in items]
    found = tuple(number for number in numbers if number is not None)
    return found if len(found) == len(numbers) else None


def _json_list(text: str) -> list[str]:
    try:
        # Digits are kept as written, as 66.0 is not 66.
        data = json.loads(text, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return [""]
    known = isinstance(data, list) and all(isinstance(item, str) for item in data)
    return data if known else [""]


def _value(number: Decimal) -> Value:
    return int(number) if number.as_tuple().exponent == 0 else float(number)


def _most(numbers: Sequence[Decimal]) -> Value | None:
    return _value(max(numbers)) if numbers else None


def _least(numbers: Sequence[Decimal]) -> Value | None:
    return _value(min(numbers)) if numbers else None


OF_LIST: Mapping[str, Callable[[Sequence[Decimal]], Value | None]] = MappingProxyType(
    {"count": len, "max": _most, "min": _least}
)
"""What the agent tells of one list of numbers; None for "no answer"."""

OF_TWO: Mapping[str, Callable[[Decimal, Decimal], Value]] = MappingProxyType(
    {
        "diff": lambda one, other: _value(abs(one - other)),
        "is_greater": lambda one, other: one > other,
        "is_smaller": lambda one, other: one < other,
    }
)
"""What the agent tells of two numbers."""


def reckoned(name: str, arguments: Sequence[str]) -> Value | None:
    """The answer of one operation; None for arguments that are no numbers.

    Args:
        name: out of `OF_LIST` or `OF_TWO`.
        arguments: as they stand in the question: one list, or two numbers.
    """
    if name in OF_LIST:
        numbers = read_numbers(arguments[0])
        return None if numbers is None else OF_LIST[name](numbers)
    one, other = (read_number(argument) for argument in arguments)
    return None if one is None or other is None else OF_TWO[name](one, other)


_SLOT = re.compile(r"(\$[1-9][0-9]?)(?![0-9])")
_LOOKUP = re.compile(r"\s*(\w+)\((.*)\)\s*", re.DOTALL)


class LanguageError(ValueError):
    """A description of an agent that cannot be used; the message says why, in one sentence."""


@dataclass(frozen=True, slots=True)
class Phrasing:
    """One way to ask: fixed texts, and the slots between them.

    Args:
        fixed: one more than there are slots; the first and last may be empty.
        slots: their names, as ``$1``.
    """

    fixed: tuple[str, ...]
    slots: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """One step of a template.

    Args:
        operation: how it is asked.
        predicate: whose facts are looked up.
        places: what stands at each place of a fact: ``?`` what is wanted, ``_``
            anything, ``$1`` an argument, ``#1`` an earlier step's answer, or
            the entity itself.
    """

    operation: Operation
    predicate: str
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Template:
    """One kind of question that an agent answers.

    Args:
        agent: whose it is.
        predicate: its name.
        phrasings: the ways to ask it.
        inputs: each slot and its type, in the slots' order.
        lookups: what it looks up; empty for arithmetic, whose operation is
            the predicate.
    """

    agent: str
    predicate: str
    phrasings: tuple[Phrasing, ...]
    inputs: tuple[tuple[str, str], ...]
    lookups: tuple[Lookup, ...]


class Reading(NamedTuple):
    """A question as one of an agent's templates: the words of each slot, in `inputs`' order."""

    template: Template
    arguments: tuple[str, ...]


_Entry = tuple[Phrasing, Template]


class Language:
    """The templates of all agents of a world.

    Questions are found by their agent and first word, so that a look-up costs
    a few comparisons of text.
    """

    def __init__(self, templates: Sequence[Template]) -> None:
        self.templates = tuple(templates)
        self.agents = tuple(dict.fromkeys(template.agent for template in templates))
        self._by_word: dict[tuple[str, str], list[_Entry]] = {}
        self._open: dict[str, list[_Entry]] = {agent: [] for agent in self.agents}
        for template in self.templates:
            for phrasing in template.phrasings:
                word, space, _ = phrasing.fixed[0].partition(" ")
                whole = space or not phrasing.slots
                entries = self._by_word.setdefault((template.agent, word), []) if whole else None
                (self._open[template.agent] if entries is None else entries).append(
                    (phrasing, template)
                )

    def readings(self, agent: str, question: str) -> Iterator[Reading]:
        """Every way to read a question as one of the agent's templates."""
        word = question.partition(" ")[0]
        for entries in (self._by_word.get((agent, word), ()), self._open.get(agent, ())):
            for phrasing, template in entries:
                for found in _filled(phrasing, question):
                    arguments = _in_order(phrasing, found, template)
                    if arguments is not None:
                        yield Reading(template, arguments)


def _filled(phrasing: Phrasing, text: str) -> Iterator[tuple[str, ...]]:
    """What stands in the slots, for every way the fixed texts fit."""
    head, tail = phrasing.fixed[0], phrasing.fixed[-1]
    if not phrasing.slots:
        if text == head:
            yield ()
        return
    end = len(text) - len(tail)
    if end >= len(head) and text.startswith(head) and text.endswith(tail):
        yield from _cut(text[len(head) : end], phrasing.fixed[1:-1])


def _cut(text: str, between: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not between:
        yield (text,)
        return
    at = text.find(between[0])
    while at >= 0:
        for rest in _cut(text[at + len(between[0]) :], between[1:]):
            yield (text[:at], *rest)
        at = text.find(between[0], at + 1)


def _in_order(
    phrasing: Phrasing, found: tuple[str, ...], template: Template
) -> tuple[str, ...] | None:
    """The words in the order of the template's inputs; None where one slot holds two things."""
    given: dict[str, str] = {}
    for slot, words in zip(phrasing.slots, found, strict=True):
        if given.setdefault(slot, words) != words:
            return None
    return tuple(given[slot] for slot, _ in template.inputs)


def read_language(config: Mapping[str, Any]) -> Language:
    """Read ``pred_lang_config``: each agent's templates.

    A phrasing whose slots are not the template's (the published CommaQA-I has
    ``Who all work as $2?`` for ``$1``) cannot be asked, and is left out.

    Raises:
        LanguageError: a template is not of the published form.
    """
    templates: list[Template] = []
    for agent, entries in config.items():
        if not isinstance(entries, list):
            raise LanguageError(f"the agent {agent} needs a list of templates")
        templates += [_template(agent, entry) for entry in entries]
    return Language(templates)


def _template(agent: str, entry: Any) -> Template:  # noqa: ANN401 - any JSON
    if not isinstance(entry, dict):
        raise LanguageError(f"a template of {agent} is no object")
    name, questions = entry.get("predicate"), entry.get("questions")
    inputs, steps = entry.get("init"), entry.get("steps")
    if not isinstance(name, str) or not isinstance(questions, list) or not isinstance(steps, list):
        raise LanguageError(f"a template of {agent} needs a predicate, questions and steps")
    if not isinstance(inputs, dict) or not all(isinstance(one, str) for one in inputs.values()):
        raise LanguageError(f"{agent}: {name} needs init, the types of its arguments")
    if not all(_SLOT.fullmatch(slot) for slot in inputs):
        raise LanguageError(f"{agent}: {name} needs slots such as $1 in init")
    lookups = tuple(_lookup(step, f"{agent}: {name}") for step in steps)
    predicate = name.partition("(")[0]
    if not lookups:
        _check_sum(agent, predicate, len(inputs))
    phrasings = (_phrasing(question, f"{agent}: {name}") for question in questions)
    usable = tuple(one for one in phrasings if set(one.slots) == set(inputs))
    ordered = sorted(inputs.items(), key=lambda one: int(one[0][1:]))
    return Template(agent, predicate, usable, tuple(ordered), lookups)


def _check_sum(agent: str, predicate: str, inputs: int) -> None:
    if predicate not in OF_LIST and predicate not in OF_TWO:
        known = ", ".join((*OF_LIST, *OF_TWO))
        raise LanguageError(
            f"{agent}: {predicate} has no steps and is no arithmetic: use {known}, or give it steps"
        )
    if inputs != (1 if predicate in OF_LIST else 2):
        raise LanguageError(f"{agent}: {predicate} has {inputs} arguments in init")


def _phrasing(question: Any, where: str) -> Phrasing:  # noqa: ANN401 - any JSON
    if not isinstance(question, str) or not question:
        raise LanguageError(f"{where} has a question that is no text")
    parts = _SLOT.split(question)
    if "" in parts[2:-2:2]:
        raise LanguageError(f"{where} has two slots with nothing between them: {question}")
    return Phrasing(tuple(parts[::2]), tuple(parts[1::2]))


def _lookup(step: Any, where: str) -> Lookup:  # noqa: ANN401 - any JSON
    told = step.get("operation") if isinstance(step, dict) else None
    asks = step.get("question") if isinstance(step, dict) else None
    operation = read_operation(told) if isinstance(told, str) else None
    found = _LOOKUP.fullmatch(asks) if isinstance(asks, str) else None
    if operation is None or found is None:
        raise LanguageError(f"{where} has a step that is not an operation with pred($1, ?)")
    places = tuple(place.strip() for place in found[2].split(","))
    if places.count("?") != 1:
        raise LanguageError(f"{where}: a look-up needs one ?, where its answers stand: {asks}")
    over = [place for place in places if place.startswith("#")]
    if operation.mode is not Mode.PLAIN and len(over) != 1:
        raise LanguageError(f"{where}: {told} needs one earlier answer, as #1: {asks}")
    return Lookup(operation, found[1], places)


_FACT = re.compile(r"(\w+)\((.*)\)", re.DOTALL)

_KINDS = {"dict": "an object", "list": "a list", "str": "a text"}

Fact = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a world, and what is recorded of it.

    Args:
        id: its name.
        text: its words.
        answer: a list of texts, or a number.
        hops: the gold decomposition; empty where it is not told.
        answers: what each hop gives, in order.
        facts: the facts that the answer rests on, as written.
    """

    id: str
    text: str
    answer: Value
    hops: tuple[Hop, ...] = ()
    answers: tuple[Value, ...] = ()
    facts: tuple[str, ...] = ()


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
    questions: tuple[Question, ...] = ()

    @cached_property
    def index(self) -> Mapping[tuple[str, int], Mapping[str, tuple[Fact, ...]]]:
        """Facts by predicate and place (from 0), and the entity that stands there."""
        found: dict[tuple[str, int], dict[str, list[Fact]]] = {}
        for predicate, facts in self.facts.items():
            for fact in facts:
                for place, entity in enumerate(fact):
                    found.setdefault((predicate, place), {}).setdefault(entity, []).append(fact)
        return {
            column: {entity: tuple(facts) for entity, facts in entities.items()}
            for column, entities in found.items()
        }

    @cached_property
    def entities(self) -> Mapping[str, frozenset[str]]:
        """The entities of each type: what stands where a template takes that type."""
        found: dict[str, set[str]] = {}
        for template in self.language.templates:
            types = dict(template.inputs)
            for lookup in template.lookups:
                for place, told in enumerate(lookup.places):
                    if told in types:
                        column = self.index.get((lookup.predicate, place), {})
                        found.setdefault(types[told], set()).update(column)
        return {kind: frozenset(entities) for kind, entities in found.items()}

    def without_gold(self) -> World:
        """The same world with questions and answers alone: no decomposition, no facts used."""
        bare = (Question(one.id, one.text, one.answer) for one in self.questions)
        return replace(self, questions=tuple(bare))


def read_worlds(path: str) -> Iterator[World]:
    """Read a file of worlds.

    Args:
        path: JSON lines, or one JSON list, in UTF-8.

    Raises:
        InputError: the file or a world in it cannot be used; names the line
            (of JSON lines) or the number (in a list).
    """
    source = read_source(path, "file of worlds")
    languages: dict[str, Language] = {}
    for number, data in _rows(source.text, path):
        yield read_world(data, f"{path}:{number}", f"{Path(path).stem}/{number}", languages)


def _rows(text: str, path: str) -> Iterator[tuple[int, Any]]:
    if text.lstrip().startswith("["):
        yield from enumerate(_json(text, path), 1)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, _json(line, f"{path}:{number}")


def _json(text: str, where: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{where} is not JSON: give one world of CommaQA a line.") from None


def read_world(
    data: Any,  # noqa: ANN401 - any JSON
    where: str,
    name: str,
    languages: dict[str, Language] | None = None,
) -> World:
    """One world from JSON data.

    Args:
        data: an object of the published format; ``decomposition`` and
            ``facts_used`` may be absent.
        where: the file and line, for messages.
        name: what the world is called.
        languages: languages read before, which worlds share; new ones are added.

    Raises:
        InputError: something is missing or of another kind.
    """
    if not isinstance(data, dict):
        raise InputError(f"{where}: a world is an object with kb, pred_lang_config and qa_pairs.")
    known = {} if languages is None else languages
    config = _of(data, "pred_lang_config", dict, where)
    key = canonical_json(config)
    if key not in known:
        try:
            known[key] = read_language(config)
        except LanguageError as error:
            raise InputError(f"{where}: {error}.") from None
    return World(
        name,
        _facts(_of(data, "kb", dict, where), where),
        known[key],
        _of({"context": "", **data}, "context", str, where),
        _of({"per_fact_context": {}, **data}, "per_fact_context", dict, where),
        tuple(_question(one, where) for one in _of(data, "qa_pairs", list, where)),
    )


def _of(data: Any, key: str, kind: type, where: str) -> Any:  # noqa: ANN401 - any JSON
    value = data.get(key) if isinstance(data, dict) else None
    if not isinstance(value, kind):
        raise InputError(f"{where}: {key} is not there, or is not {_KINDS[kind.__name__]}.")
    return value


def _facts(kb: Mapping[str, Any], where: str) -> dict[str, tuple[Fact, ...]]:
    found: dict[str, tuple[Fact, ...]] = {}
    for predicate, told in kb.items():
        if not isinstance(told, list):
            raise InputError(f"{where}: kb: {predicate} is not a list of facts.")
        facts: list[Fact] = []
        for one in told:
            read = _FACT.fullmatch(one) if isinstance(one, str) else None
            if not read or read[1] != predicate:
                raise InputError(f"{where}: kb: write a fact as {predicate}(one, other).")
            facts.append(tuple(read[2].split(", ")))
        if len({len(fact) for fact in facts}) > 1:
            raise InputError(f"{where}: kb: the facts of {predicate} are not all of one length.")
        found[predicate] = tuple(facts)
    return found


def _question(data: Any, where: str) -> Question:  # noqa: ANN401 - any JSON
    named = _of(data, "id", str, where)
    place = f"{where}: question {named}"
    hops: list[Hop] = []
    answers: list[Value] = []
    for step in _of({"decomposition": [], **data}, "decomposition", list, place):
        operator, agent, text = (_of(step, key, str, place) for key in ("op", "m", "q"))
        hops.append(Hop(operator, agent, text))
        answers.append(_recorded(operator, step.get("a"), place))
    facts = tuple(map(str, _of({"facts_used": [], **data}, "facts_used", list, place)))
    text = _of(data, "question", str, place)
    last = hops[-1].operator if hops else ""
    answer = _recorded(last, data.get("answer"), place)
    return Question(named, text, answer, tuple(hops), tuple(answers), facts)


def _recorded(operator: str, data: Any, where: str) -> Value:  # noqa: ANN401 - any JSON
    """A recorded answer: the files write pairs as lists of two."""
    try:
        value = from_json(data)
    except (DecodeError, RecursionError):
        raise InputError(f"{where}: an answer is a list, a text or a number.") from None
    operation = read_operation(operator)
    if operation is None or not operation.gives_pairs or not isinstance(value, list):
        return value
    pairs: list[tuple[Value, Value]] = []
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f"{where}: the answer of ({operator}) is a list of item and answer.")
        pairs.append((pair[0], pair[1]))
    return Pairs(tuple(pairs))
