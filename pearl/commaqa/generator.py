"""Generates rows of the published format from a schema and a seed, and describes files of them
(docs/generating.md).

A theory is asked of a world, which gives a question, its decomposition, its answer, and the facts
it rests on. Answers are computed from the facts. The agents are asked the same decomposition, and a
question is dropped if they answer otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, count, product
from random import Random
from statistics import fmean
from typing import Any, TypeAlias

from pearl.commaqa.agents import Agents, run_hops
from pearl.commaqa.decomposition import Hop, Operation, print_operation, references, run_operation
from pearl.commaqa.model import is_empty
from pearl.commaqa.question_theories import (
    Node,
    Theory,
    TheoryStep,
    divide,
    fill_slots,
    make_world,
    predicate_of,
    theories_of,
)
from pearl.commaqa.schema import HOLE, WorldSchema
from pearl.commaqa.world import Fact, World, calculate, read_world
from pearl.lang.ast import Mode
from pearl.lang.errors import InputError
from pearl.lang.values import Pairs, Value, as_text, canonical_json, to_json
from pearl.runtime.binding import Item

PARTS = ("train", "dev", "test")
"""The parts of a split; each has its own worlds."""

_DRAWS = 8
_WORLDS = 200


_Row: TypeAlias = dict[str, Any]

_Turn: TypeAlias = Callable[[str, Sequence[str]], str]
"""Chooses one of the ways to word a piece or an ask, given its name and these ways."""


def _turns(random: Random) -> _Turn:
    """Choose wordings in random order, each once before any is used again."""
    unused: dict[str, list[str]] = {}

    def turn(name: str, options: Sequence[str]) -> str:
        ways = unused.setdefault(name, [])
        if not ways:
            ways += random.sample(options, len(options))
        return ways.pop()

    return turn


class _QuestionMaker:
    """Makes a world that a theory can be asked of, and questions for it.

    ``turn`` decides the words, and ``random`` everything else.
    """

    def __init__(self, schema: WorldSchema, theory: Theory, random: Random, turn: _Turn) -> None:
        self.schema, self.random, self.turn = schema, random, turn
        self.world = make_world(schema, theory, random)
        config = self.world.language(schema)
        data = {"kb": self.world.kb, "pred_lang_config": config, "qa_pairs": []}
        self.agents = Agents(read_world(data, schema.path, schema.name))
        # The theory's number and the things of each question so far.
        self.used: set[tuple[int, tuple[str, ...]]] = set()

    def question(self, number: int, theory: Theory) -> _Row | str:
        """A new question of the theory with this number, or the reason why there is none."""
        reason = "its kinds have too few things"
        for _ in range(_DRAWS):
            things: list[str] = []
            for kind in theory.leaves:
                free = [thing for thing in self.world.things[kind] if thing not in things]
                if not free:
                    return reason
                things.append(self.random.choice(free))
            key = (number, tuple(things))
            if key in self.used:
                reason = "it has too few things to ask about"
                continue
            row = self._about(theory, things)
            if not isinstance(row, str):
                self.used.add(key)
                return row
            reason = row
        return reason

    def _about(self, theory: Theory, things: Sequence[str]) -> _Row | str:
        """The row of a theory asked about these things, without an id; or why there is none."""
        answers: list[Value] = []
        facts: dict[str, None] = {}
        for call in theory.calls:
            answer = self._answer(call, things, answers, facts)
            if answer is None or is_empty(answer):
                return f"{call.ask} finds nothing"
            answers.append(answer)
        reason = _unfit(answers[-1], self.schema)
        if reason:
            return reason
        hops: list[Hop] = []
        steps: list[dict[str, str]] = []
        recorded = {f"#{at}": _as_published(answer) for at, answer in enumerate(answers, 1)}
        for call, number in zip(theory.calls, recorded, strict=True):
            ask = self.schema.asks[call.ask]
            words = self.turn(f"ask {ask.name}", ask.words)
            arguments = [things[-arg - 1] if arg < 0 else f"#{arg}" for arg in call.arguments]
            question = fill_slots(words, arguments)
            hops.append(Hop(_operator(call, question), self.world.agent_of(ask), question))
            slots = [f"${-arg}" if arg < 0 else f"#{arg}" for arg in call.arguments]
            probe = predicate_of(ask, slots)
            steps.append({"operation": _operator(call, probe), "question": probe, "answer": number})
        heard = run_hops(hops, self.agents)
        if [*map(_canonical, heard)] != [*map(_canonical, answers)]:
            hop = hops[min(len(heard), len(hops) - 1)]
            return f'[{hop.agent}] answers "{hop.question}" otherwise than the facts'
        pattern = self._words(theory.root, count(1))
        assignment = {f"${at}": thing for at, thing in enumerate(things, 1)}
        return {
            "id": "",
            "question": fill_slots(pattern, things),
            "answer": recorded[f"#{len(answers)}"],
            "assignment": assignment | recorded,
            "config": {
                "steps": steps,
                "questions": [pattern],
                "init": dict(zip(assignment, theory.leaves, strict=True)),
            },
            "decomposition": [
                {"m": hop.agent, "q": hop.question, "a": answer, "op": hop.operator}
                for hop, answer in zip(hops, recorded.values(), strict=True)
            ],
            "facts_used": list(facts),
            "theory": theory.name,
            "pairs": [list(pair) for pair in theory.pairs],
        }

    def _answer(
        self,
        call: TheoryStep,
        things: Sequence[str],
        answers: Sequence[Value],
        facts: dict[str, None],
    ) -> Value | None:
        """A step's answer, computed from the facts; those it uses are added to ``facts``."""
        ask = self.schema.asks[call.ask]

        def of_item(item: Item | None) -> Value | None:
            arguments: list[str] = []
            for argument in call.arguments:
                value = things[-argument - 1] if argument < 0 else answers[argument - 1]
                if item is not None and argument == call.over:
                    value = item.value
                arguments.append(as_text(value))
            if ask.total:
                return calculate(ask.total, arguments)
            place = ask.places.index("$1") if arguments else None
            results: list[Value] = []
            for fact in self.world.facts[ask.relation]:
                if place is None or fact[place] == arguments[0]:
                    facts[self.world.write_fact(ask.relation, fact)] = None
                    results.append(fact[ask.places.index("?")])
            return list(dict.fromkeys(results)) if ask.unique else results

        return run_operation(call.operation, answers[call.over - 1] if call.over else None, of_item)

    def _words(self, node: Node | str, numbers: Iterator[int]) -> str:
        """A node's words, with a numbered slot for each of its things."""
        if isinstance(node, str):
            return f"${next(numbers)}"
        inner = [self._words(part, numbers) for part in node.parts]
        words = self.turn(f"piece {node.piece.name}", node.piece.words)
        return HOLE.sub(lambda hole: inner[int(hole[1]) - 1], words)

    def questions(
        self, theories: Sequence[Theory], waiting: list[int], most: int
    ) -> dict[int, list[_Row]]:
        """Questions for this world, by the number of their theory; at most ``most`` in all.

        Theories that are waiting come first, and are taken out of ``waiting``.
        """
        can = self.world.can_be_asked
        possible = [at for at, theory in enumerate(theories) if can(theory, self.schema)]
        self.random.shuffle(possible)
        places = {number: place for place, number in enumerate(waiting)}
        possible.sort(key=lambda number: places.get(number, len(places)))
        questions: dict[int, list[_Row]] = {}
        while possible and most:
            number = possible.pop(0)
            question = self.question(number, theories[number])
            if not isinstance(question, str):
                most -= 1
                questions.setdefault(number, []).append(question)
                possible.append(number)
                if number in waiting:
                    waiting.remove(number)
        return questions


def _canonical(value: Value) -> str:
    return canonical_json(to_json(value))


def _unfit(answer: Value, schema: WorldSchema) -> str:
    """Why an answer is not worth asking for; empty where it is."""
    fewest, most = schema.answers
    if isinstance(answer, list):
        if not fewest <= len(answer) <= most:
            return f"its answer has {len(answer)} items, and limits.answers is {fewest} to {most}"
        if len(set(map(_canonical, answer))) < len(answer):
            return "its answer has an item twice"
    elif answer is True or answer is False or not answer:
        return "its answer is 0, yes or no"
    return ""


def _operator(call: TheoryStep, question: str) -> str:
    """A step's operator as text; it names an answer only where the question names another first."""
    mode = call.operation.mode
    named = mode is not Mode.PLAIN and references(question)[:1] != [call.over]
    return print_operation(Operation(mode, call.over if named else None, call.operation.then))


def generate(
    schema: WorldSchema, split: str, part: str, seed: int, questions: int
) -> Iterator[dict[str, Any]]:
    """Generate worlds with questions, one row each; the same arguments give the same rows.

    The kinds of questions take turns, and so do the ways to word each piece.

    Args:
        schema: the schema of worlds and questions.
        split: ``iid``, or a split of the schema.
        part: one of `PARTS`, as `divide` makes them: ``test`` has the test questions, ``train`` and
            ``dev`` have the others.
        seed: any whole number.
        questions: how many questions, over all rows.

    Raises:
        InputError: the schema gives no such questions; the message names the place.
    """
    seeds = f"{schema.name}/{split}/{part}/{seed}"
    train, test = divide(schema, split, theories_of(schema))
    theories = test if part == PARTS[-1] else train
    held = schema.splits[split].held_out
    source = {"schema": schema.name, "split": split, "part": part, "seed": seed}
    random = Random(seeds)  # noqa: S311 - data, not secrets
    turn = _turns(random)
    fruitful: set[int] = set()
    waiting: list[int] = []
    number = done = 0
    while done < questions:
        waiting = waiting or random.sample(range(len(theories)), len(theories))
        first = waiting[0]
        maker = _QuestionMaker(schema, theories[first], random, turn)
        most = min(schema.questions, questions - done)
        generated = maker.questions(theories, waiting, most)
        fruitful |= generated.keys()
        if waiting[:1] == [first]:
            # This theory may need another world; meanwhile the others have their turn.
            waiting.append(waiting.pop(0))
            if first not in fruitful:
                _check_fruitful(schema, seeds, theories[first])
                fruitful.add(first)
        if generated:
            number += 1
            rows = list(chain(*generated.values()))
            done += len(rows)
            for at, row in enumerate(rows, 1):
                name = f"{seeds}/{number}/{at} {row['question']}"
                row["id"] = blake2b(name.encode(), digest_size=8).hexdigest()
                row["held_out"] = [pair for pair in row["pairs"] if tuple(pair) in held]
            yield {
                "kb": maker.world.kb,
                "context": " ".join(maker.world.sentences.values()),
                "per_fact_context": dict(maker.world.sentences),
                "pred_lang_config": maker.world.language(schema),
                "qa_pairs": rows,
                "generated": {**source, "held_out": [list(pair) for pair in held]},
            }


def _check_fruitful(schema: WorldSchema, seeds: str, theory: Theory) -> None:
    """Raise `InputError`, with a reason, if none of many worlds gives a question of this theory."""
    random = Random(f"{seeds}/{theory.name}")  # noqa: S311 - data, not secrets
    reason = "no world has one way alone for each of its pieces"
    for _ in range(_WORLDS):
        maker = _QuestionMaker(schema, theory, random, _turns(random))
        if maker.world.can_be_asked(theory, schema):
            question = maker.question(0, theory)
            if not isinstance(question, str):
                return
            reason = question
    raise InputError(
        f"{schema.path}: {_WORLDS} worlds gave no question of the kind {theory.name}: {reason}."
    )


def _as_published(value: Value) -> Any:  # noqa: ANN401 - any JSON
    """A value as the published files write it: pairs are lists of two."""
    if isinstance(value, Pairs):
        return [[_as_published(key), _as_published(item)] for key, item in value]
    return [_as_published(item) for item in value] if isinstance(value, list) else value


# The statistics of a file of worlds (CommaQA, Table 7), and what its agents can be asked.

_TOKEN = re.compile(r"\w+|[^\w\s]")


def figures(worlds: Iterable[World]) -> dict[str, Any]:
    """Statistics of a file of worlds, as in the paper's table of data sets.

    Returns:
        The numbers of ``questions``, ``worlds`` and ``kinds``; and the mean, least and most of
        ``questions_a_world``, ``steps`` (of questions with a decomposition), ``answers``
        (spans of an answer), ``facts_used`` (of a question), ``facts`` (of a world) and ``tokens``
        (words and punctuation of a world's context). Statistics without data are left out.
    """
    every = list(worlds)
    questions = [question for world in every for question in world.questions]
    spans = [len(item.answer) if isinstance(item.answer, list) else 1 for item in questions]
    counted = {
        "questions_a_world": [len(world.questions) for world in every],
        "steps": [len(item.hops) for item in questions if item.hops],
        "answers": spans,
        "facts_used": [len(item.facts) for item in questions if item.facts],
        "facts": [sum(map(len, world.facts.values())) for world in every],
        "tokens": [len(_TOKEN.findall(world.context)) for world in every if world.context],
    }
    return {
        "questions": len(questions),
        "worlds": len(every),
        "kinds": len({item.theory for item in questions if item.theory}),
        **{
            name: {"mean": fmean(counts), "least": min(counts), "most": max(counts)}
            for name, counts in counted.items()
            if counts
        },
    }


class _RecordingAgents(Agents):
    """Agents that record the questions they were asked, and the facts they looked up."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.questions: dict[tuple[str, str], None] = {}
        self.used_facts: dict[str, None] = {}

    def ask(self, agent: str, question: str) -> Value | None:
        self.questions[agent, question] = None
        return super().ask(agent, question)

    def facts(self, predicate: str, places: Sequence[str]) -> list[Fact]:
        facts = super().facts(predicate, places)
        self.used_facts |= dict.fromkeys(f"{predicate}({', '.join(fact)})" for fact in facts)
        return facts


def agent_pairs(world: World) -> Iterator[dict[str, Any]]:
    """Every question that a world's agents answer, with its answer: training data for models of
    agents.

    Look-ups are asked in all phrasings for every valid input. Arithmetic takes any numbers, so only
    the questions in gold decompositions are asked.

    Args:
        world: the world; without gold decompositions there is no arithmetic.

    Yields:
        ``world``, ``agent``, ``question``, ``answer``, and the ``facts`` behind it, in words.
    """
    agents = _RecordingAgents(world)
    for template in world.language.templates:
        valid = [sorted(world.entities.get(kind, ())) for _, kind in template.inputs]
        slots = [slot for slot, _ in template.inputs]
        for phrasing, things in product(template.phrasings, product(*valid)):
            if template.lookups:
                text = phrasing.fill(dict(zip(slots, things, strict=True)))
                agents.questions[template.agent, text] = None
    for question in world.questions:
        run_hops(question.hops, agents)
    for agent, text in [*agents.questions]:
        agents.used_facts.clear()
        answer = agents.ask(agent, text)
        if answer is not None:
            facts = [world.sentences.get(fact, fact) for fact in agents.used_facts]
            row = {"question": text, "answer": to_json(answer), "facts": facts}
            yield {"world": world.name, "agent": agent, **row}
