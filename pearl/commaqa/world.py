"""A world of CommaQA: facts, the agents that know them, and questions.

A file of the published format has one world a line (or one list of them), each
with ``kb``, ``pred_lang_config``, ``context`` and ``qa_pairs``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pearl.commaqa.decomposition import Hop, read_operation
from pearl.commaqa.language import Language, LanguageError, read_language
from pearl.lang.source import InputError, read_source
from pearl.lang.values import DecodeError, Pairs, Value, canonical_json, from_json

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

    def untold(self) -> World:
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
