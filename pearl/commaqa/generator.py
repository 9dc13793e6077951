"""Rows of the published format, made from a schema and a seed (docs/generating.md).

A theory is asked of a world: words, decomposition, answer, and the facts it rests on. Answers come
from the facts and not from the agents' words; then the same decomposition is put to the agents,
and a question of which the two disagree is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Any

from pearl.commaqa.agents import Agents, run_hops
from pearl.commaqa.decomposition import Hop, Operation, print_operation, references, run_operation
from pearl.commaqa.patterns import is_empty
from pearl.commaqa.schema import HOLE, Schema
from pearl.commaqa.theories import (
    Call,
    Fact,
    Leaf,
    Node,
    PossibleWorld,
    Theory,
    can_ask,
    divided,
    filled,
    make_world,
    predicate_of,
    theories_of,
)
from pearl.commaqa.world import calculate, read_world
from pearl.lang.ast import Mode
from pearl.lang.source import InputError
from pearl.lang.values import Pairs, Value, as_text, canonical_json, to_json
from pearl.run.executor import Item

PARTS = ("train", "dev", "test")
"""What a split is divided into; each has worlds of its own."""

_DRAWS = 8
_WORLDS = 200


@dataclass(frozen=True, slots=True)
class _Generated:
    """A question of a world.

    Args:
        theory: what it is made of.
        pattern: its words, with ``$1`` for things.
        things: what stands there.
        hops: its decomposition.
        answers: what each hop gives; the last is the answer.
        facts: the facts that were looked up, relation and fact.
    """

    theory: Theory
    pattern: str
    things: tuple[str, ...]
    hops: tuple[Hop, ...]
    answers: tuple[Value, ...]
    facts: tuple[tuple[str, Fact], ...]


class _Turns:
    """Takes the ways to say a thing in turns: each comes once before any comes again."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._left: dict[str, list[str]] = {}

    def next(self, name: str, options: Sequence[str]) -> str:
        """One of the ways to say what a name stands for."""
        left = self._left.setdefault(name, [])
        if not left:
            left += self._random.sample(options, len(options))
        return left.pop()


@dataclass(frozen=True, slots=True)
class _Asking:
    """A world that is asked questions.

    Args:
        schema: where all of it comes from.
        world: its facts.
        agents: that know them.
        random: draws the things that questions name.
        turns: decides the words.
        taken: the kind and the things of each question so far.
    """

    schema: Schema
    world: PossibleWorld
    agents: Agents
    random: Random
    turns: _Turns
    taken: set[tuple[int, tuple[str, ...]]] = field(default_factory=set)

    def question(self, number: int, theory: Theory) -> _Generated | str:
        """A new question of a kind, or why there is none."""
        reason = "its kinds have too few things"
        for _ in range(_DRAWS):
            things: list[str] = []
            for kind in theory.leaves:
                left = [thing for thing in self.world.things[kind] if thing not in things]
                if not left:
                    return reason
                things.append(self.random.choice(left))
            key = (number, tuple(things))
            if key in self.taken:
                reason = "it has too few things to ask about"
                continue
            generated = self._about(theory, tuple(things))
            if isinstance(generated, _Generated):
                self.taken.add(key)
                return generated
            reason = generated
        return reason

    def _about(self, theory: Theory, things: tuple[str, ...]) -> _Generated | str:
        """A theory asked about some things, one for each of its leaves."""
        answers: list[Value] = []
        facts: dict[tuple[str, Fact], None] = {}
        for call in theory.calls:
            answer = self._answer(call, things, answers, facts)
            if answer is None or is_empty(answer):
                return f"{call.ask} finds nothing"
            answers.append(answer)
        reason = _unfit(answers[-1], self.schema)
        if reason:
            return reason
        hops: list[Hop] = []
        for call in theory.calls:
            ask = self.schema.asks[call.ask]
            words = self.turns.next(f"ask {ask.name}", ask.words)
            arguments = (things[-one - 1] if one < 0 else f"#{one}" for one in call.arguments)
            question = filled(words, [*arguments])
            hops.append(Hop(_operator(call, question), self.world.agent_of(ask), question))
        heard = run_hops(hops, self.agents)
        if [*map(_canonical, heard)] != [*map(_canonical, answers)]:
            hop = hops[min(len(heard), len(hops) - 1)]
            return f'[{hop.agent}] answers "{hop.question}" otherwise than the facts'
        pattern, _ = self._words(theory.root, 1)
        return _Generated(theory, pattern, things, tuple(hops), tuple(answers), tuple(facts))

    def _answer(
        self,
        call: Call,
        things: Sequence[str],
        answers: Sequence[Value],
        facts: dict[tuple[str, Fact], None],
    ) -> Value | None:
        """What a step gives by the facts alone, which are added to those used."""
        ask = self.schema.asks[call.ask]

        def one(item: Item | None) -> Value | None:
            arguments: list[str] = []
            for argument in call.arguments:
                value = things[-argument - 1] if argument < 0 else answers[argument - 1]
                if item is not None and argument == call.over:
                    value = item.value
                arguments.append(as_text(value))
            if ask.total:
                return calculate(ask.total, arguments)
            place = ask.places.index("$1") if arguments else None
            known = [
                fact
                for fact in self.world.facts[ask.relation]
                if place is None or fact[place] == arguments[0]
            ]
            facts.update(dict.fromkeys((ask.relation, fact) for fact in known))
            wanted: list[Value] = [fact[ask.places.index("?")] for fact in known]
            return list(dict.fromkeys(wanted)) if ask.unique else wanted

        return run_operation(call.operation, answers[call.over - 1] if call.over else None, one)

    def _words(self, node: Node | Leaf, number: int) -> tuple[str, int]:
        """A node's words, and the number of the next thing."""
        if isinstance(node, Leaf):
            return f"${number}", number + 1
        inner: list[str] = []
        for part in node.parts:
            text, number = self._words(part, number)
            inner.append(text)
        words = self.turns.next(f"piece {node.piece.name}", node.piece.words)
        return HOLE.sub(lambda hole: inner[int(hole[1]) - 1], words), number

    def questions(
        self, theories: Sequence[Theory], waiting: list[int], wanted: int
    ) -> dict[int, list[_Generated]]:
        """Questions for this world: first what waits, which then waits no more; then anything.

        Returns:
            The questions, by the number of their theory.
        """
        relations = frozenset(self.world.facts)
        possible = [
            number
            for number, theory in enumerate(theories)
            if can_ask(theory, relations, self.schema)
        ]
        self.random.shuffle(possible)
        places = {number: place for place, number in enumerate(waiting)}
        possible.sort(key=lambda number: places.get(number, len(places)))
        questions: dict[int, list[_Generated]] = {}
        while possible and wanted:
            number = possible.pop(0)
            question = self.question(number, theories[number])
            if isinstance(question, _Generated):
                wanted -= 1
                questions.setdefault(number, []).append(question)
                possible.append(number)
                if number in waiting:
                    waiting.remove(number)
        return questions


def _canonical(value: Value) -> str:
    return canonical_json(to_json(value))


def _unfit(answer: Value, schema: Schema) -> str:
    """Why an answer is none to ask for; empty where it is one."""
    fewest, most = schema.limits.answers
    if isinstance(answer, list):
        if not fewest <= len(answer) <= most:
            return f"its answer has {len(answer)} items, and limits.answers is {fewest} to {most}"
        if len(set(map(_canonical, answer))) < len(answer):
            return "its answer has an item twice"
    elif answer is True or answer is False or not answer:
        return "its answer is 0, yes or no"
    return ""


def _operator(call: Call, question: str) -> str:
    """A call's operator as text; it names its answer where the question names another first."""
    mode = call.operation.mode
    named = mode is not Mode.PLAIN and references(question)[:1] != [call.over]
    return print_operation(Operation(mode, call.over if named else None, call.operation.then))


@dataclass(frozen=True, slots=True)
class _Part:
    """What decides a file."""

    schema: Schema
    split: str
    part: str
    seed: int

    @property
    def seeds(self) -> str:
        return f"{self.schema.name}/{self.split}/{self.part}/{self.seed}"

    def world(self, theory: Theory, random: Random, turns: _Turns) -> _Asking:
        """A world that a theory can be asked of."""
        world = make_world(self.schema, theory, random)
        config = world.language(self.schema)
        data = {"kb": _facts(world), "pred_lang_config": config, "qa_pairs": []}
        agents = Agents(read_world(data, self.schema.path, self.schema.name))
        return _Asking(self.schema, world, agents, random, turns)


def generate(
    schema: Schema, split: str, part: str, seed: int, questions: int
) -> Iterator[dict[str, Any]]:
    """Worlds with questions, one row each; the same arguments give the same rows.

    The kinds of questions come in turns, and so do the ways to say each part.

    Args:
        schema: what worlds and questions are made of.
        split: ``iid``, or one of the schema's.
        part: one of `PARTS`. In a split that holds pairs out, ``test`` has questions with such a
            pair, and ``train`` and ``dev`` have none.
        seed: any number.
        questions: how many, over all rows.

    Raises:
        InputError: the schema gives no such questions; names the place.
    """
    file = _Part(schema, split, part, seed)
    train, test = divided(schema, split, theories_of(schema))
    theories = test if part == PARTS[-1] else train
    random = Random(file.seeds)  # noqa: S311 - data, not secrets
    turns = _Turns(random)
    fruitful: set[int] = set()
    waiting: list[int] = []
    number = done = 0
    while done < questions:
        waiting = waiting or random.sample(range(len(theories)), len(theories))
        first = waiting[0]
        asking = file.world(theories[first], random, turns)
        most = min(schema.limits.questions, questions - done)
        generated = asking.questions(theories, waiting, most)
        fruitful |= generated.keys()
        if waiting[:1] == [first]:
            # Another world may do for it; the others should not wait for that.
            waiting.append(waiting.pop(0))
            if first not in fruitful:
                _check_fruitful(file, theories[first])
                fruitful.add(first)
        made = [question for several in generated.values() for question in several]
        if made:
            number += 1
            done += len(made)
            yield _row(file, asking.world, made, number)


def _check_fruitful(file: _Part, theory: Theory) -> None:
    """Make sure that some world gives a question of a kind.

    Raises:
        InputError: none of many does; says why the last did not.
    """
    schema = file.schema
    random = Random(f"{file.seeds}/{theory.name}")  # noqa: S311 - data, not secrets
    reason = "no world has one way alone for each of its pieces"
    for _ in range(_WORLDS):
        asking = file.world(theory, random, _Turns(random))
        if can_ask(theory, frozenset(asking.world.facts), schema):
            question = asking.question(0, theory)
            if isinstance(question, _Generated):
                return
            reason = question
    raise InputError(
        f"{schema.path}: {_WORLDS} worlds gave no question of the kind {theory.name}: {reason}."
    )


# Rows.


def _facts(world: PossibleWorld) -> dict[str, list[str]]:
    return {
        world.predicate(relation): [world.written(relation, fact) for fact in facts]
        for relation, facts in world.facts.items()
    }


def _row(
    file: _Part, world: PossibleWorld, questions: Sequence[_Generated], number: int
) -> dict[str, Any]:
    sentences = {
        world.written(relation, fact): world.sentences[relation, fact]
        for relation, facts in world.facts.items()
        for fact in facts
    }
    return {
        "kb": _facts(world),
        "context": " ".join(sentences.values()),
        "per_fact_context": sentences,
        "pred_lang_config": world.language(file.schema),
        "qa_pairs": [
            _question(file, world, question, f"{file.seeds}/{number}/{at}")
            for at, question in enumerate(questions, 1)
        ],
        "generated": {
            "schema": file.schema.name,
            "split": file.split,
            "part": file.part,
            "seed": file.seed,
            "held_out": [list(pair) for pair in file.schema.splits[file.split]],
        },
    }


def _question(file: _Part, world: PossibleWorld, question: _Generated, name: str) -> dict[str, Any]:
    theory = question.theory
    things = {f"${at}": thing for at, thing in enumerate(question.things, 1)}
    answers = {f"#{at}": _recorded(answer) for at, answer in enumerate(question.answers, 1)}
    text = filled(question.pattern, question.things)
    held = file.schema.splits[file.split]
    steps: list[dict[str, str]] = []
    for call, answer in zip(theory.calls, answers, strict=True):
        arguments = [f"${-one}" if one < 0 else f"#{one}" for one in call.arguments]
        asked = predicate_of(file.schema.asks[call.ask], arguments)
        step = {"operation": _operator(call, asked), "question": asked, "answer": answer}
        steps.append(step)
    return {
        "id": blake2b(f"{name} {text}".encode(), digest_size=8).hexdigest(),
        "question": text,
        "answer": answers[f"#{len(answers)}"],
        "assignment": {**things, **answers},
        "config": {
            "steps": steps,
            "questions": [question.pattern],
            "init": dict(zip(things, theory.leaves, strict=True)),
        },
        "decomposition": [
            {"m": hop.agent, "q": hop.question, "a": answer, "op": hop.operator}
            for hop, answer in zip(question.hops, answers.values(), strict=True)
        ],
        "facts_used": [world.written(relation, fact) for relation, fact in question.facts],
        "theory": theory.name,
        "pairs": [list(pair) for pair in theory.pairs],
        "held_out": [list(pair) for pair in theory.pairs if pair in held],
    }


def _recorded(value: Value) -> Any:  # noqa: ANN401 - any JSON
    """A value as the published files write it: pairs are lists of two."""
    if isinstance(value, Pairs):
        return [[_recorded(key), _recorded(item)] for key, item in value]
    return [_recorded(item) for item in value] if isinstance(value, list) else value
