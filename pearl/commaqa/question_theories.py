"""The kinds of questions that a schema allows, and possible worlds to ask them of.

A theory (CommaQA, section 4) is a composition of pieces, and the steps that answer the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice, product
from random import Random
from typing import Any, NamedTuple

from pearl.commaqa.decomposition import Operation
from pearl.commaqa.schema import IID, QUESTION, SLOT, Ask, Pair, QuestionPart, Relation, WorldSchema
from pearl.lang.ast import Mode
from pearl.lang.errors import InputError

_MOST = 5000
_ONCE = Operation(Mode.PLAIN)
_OVER_ALL = Operation(Mode.EACH, None, ("values", "flat", "unique"))


@dataclass(frozen=True, slots=True)
class Node:
    """A piece with one of its ways chosen, and its holes filled by other nodes or by things of
    these kinds."""

    piece: QuestionPart
    way: int
    parts: tuple[Node | str, ...]

    @property
    def name(self) -> str:
        """As ``prizes(songs_by($person))``; of a piece with several ways, with the way's number."""
        way = f"/{self.way + 1}" if len(self.piece.ways) > 1 else ""
        parts = (part.name if isinstance(part, Node) else f"${part}" for part in self.parts)
        inner = ", ".join(parts)
        return f"{self.piece.name}{way}({inner})" if inner else f"{self.piece.name}{way}"

    @property
    def nodes(self) -> Iterator[Node]:
        """This node and all below it."""
        yield self
        for part in self.parts:
            if isinstance(part, Node):
                yield from part.nodes


class TheoryStep(NamedTuple):
    """One step of a theory.

    Args:
        ask: the name of the ask.
        operation: its operator.
        over: the number of the answer whose items are asked for, from 1; 0 for none.
        arguments: a number above 0 is an earlier answer, one below 0 is a thing (-1 is the first).
    """

    ask: str
    operation: Operation
    over: int
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Theory:
    """A kind of question.

    Args:
        root: the tree of its pieces.
        calls: its steps.
        leaves: the kinds of the things that it names, in the order of its holes.
        relations: the relations that it looks up.
    """

    root: Node
    calls: tuple[TheoryStep, ...]
    leaves: tuple[str, ...]
    relations: frozenset[str]

    @property
    def name(self) -> str:
        """Its pieces, as ``prizes(songs_by($person))``."""
        return self.root.name

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Each ask that is about another ask's answer, with that other first; without repeats."""
        pairs = (
            (self.calls[argument - 1].ask, call.ask)
            for call in self.calls
            for argument in call.arguments
            if argument > 0
        )
        return tuple(dict.fromkeys(pairs))


def theories_of(schema: WorldSchema) -> tuple[Theory, ...]:
    """Every theory within the schema's limits.

    No piece and no relation occurs twice on the path from a question to a thing, so that no
    question goes back to where it came from.

    Raises:
        InputError: there is no theory, or there are too many.
    """
    theories: list[Theory] = []
    fewest, most = schema.steps
    for node in _nodes(schema, (QUESTION,), most, frozenset()):
        theory = _theory(schema, node)
        if theory is not None and len(theory.calls) >= fewest:
            theories.append(theory)
            _check_number(len(theories), schema)
    if not theories:
        raise InputError(
            f"{schema.path}: limits.steps: no question has {fewest} to {most} steps: "
            "change them, or the pieces."
        )
    return tuple(theories)


def _check_number(number: int, schema: WorldSchema) -> None:
    if number > _MOST:
        raise InputError(
            f"{schema.path}: limits.steps: more than {_MOST} kinds of questions: make the most "
            "steps fewer."
        )


def _nodes(
    schema: WorldSchema, gives: Iterable[str], most: int, used: frozenset[str]
) -> Iterator[Node]:
    """Nodes that give one of these, with at most ``most`` steps including those of their parts.

    They have none of the pieces and relations in ``used``.
    """
    for piece in schema.pieces.values():
        if piece.gives not in gives or f"piece {piece.name}" in used:
            continue
        for way, steps in enumerate(piece.ways):
            relations = schema.looked_up(steps)
            if len(steps) > most or relations & used:
                continue
            below = used | relations | {f"piece {piece.name}"}
            inner: list[list[Node | str]] = []
            for hole in piece.holes:
                nodes = _nodes(schema, hole.gives, most - len(steps), below)
                inner.append([*hole.kinds, *islice(nodes, _MOST + 1)])
                _check_number(len(inner[-1]), schema)
            for parts in product(*inner):
                node = Node(piece, way, parts)
                if sum(len(each.piece.ways[each.way]) for each in node.nodes) <= most:
                    yield node


def _theory(schema: WorldSchema, root: Node) -> Theory | None:
    """The theory of a question; None where a piece occurs in two of its ways."""
    chosen: dict[str, int] = {}
    for node in root.nodes:
        if chosen.setdefault(node.piece.name, node.way) != node.way:
            return None
    calls: list[TheoryStep] = []
    leaves: list[str] = []
    _flatten(root, calls, leaves)
    place = f"{schema.path}: pieces.{root.piece.name}"
    if calls[-1].operation.gives_pairs:
        raise InputError(f"{place}: its answer is pairs: end in an operator with _values or _keys.")
    for call in calls:
        if call.operation.mode is not Mode.PLAIN and not call.over:
            raise InputError(
                f"{place}: {call.ask} goes over items, and is given a thing: leave its operator "
                "away, or take no kind."
            )
    relations = (schema.looked_up(node.piece.ways[node.way]) for node in root.nodes)
    return Theory(root, tuple(calls), tuple(leaves), frozenset().union(*relations))


def _flatten(node: Node | str, calls: list[TheoryStep], leaves: list[str]) -> int:
    """Add a node's steps and things to these lists, and return the argument that refers to it."""
    if isinstance(node, str):
        leaves.append(node)
        return -len(leaves)
    holes = [_flatten(part, calls, leaves) for part in node.parts]
    steps = node.piece.ways[node.way]
    if not steps:
        return holes[0]
    before = len(calls)
    for step in steps:
        arguments = tuple(holes[-arg - 1] if arg < 0 else before + arg for arg in step.arguments)
        first = next((argument for argument in arguments if argument > 0), 0)
        operation = step.operation or (_OVER_ALL if first else _ONCE)
        over = 0 if operation.mode is Mode.PLAIN else first
        calls.append(TheoryStep(step.ask, operation, over, arguments))
    return len(calls)


def divide(
    schema: WorldSchema, split: str, theories: tuple[Theory, ...]
) -> tuple[tuple[Theory, ...], tuple[Theory, ...]]:
    """The theories of training and development questions, and those of test questions.

    In a split that holds pairs out, every test question has one of the pairs and no training
    question has any, but every ask and piece of a test question also occurs in training. In a split
    that names kinds, training has only these; so has the test, unless the split names its own.

    Raises:
        InputError: there is no such split, or it cannot be made.
    """
    if split not in schema.splits:
        names = ", ".join(schema.splits)
        raise InputError(f"{schema.path}: no split is called {split}: use {names}.")
    if split == IID:
        return theories, theories
    if named := schema.splits[split].kinds:
        train = _of_kinds(schema, split, named, theories)
        return train, _of_kinds(schema, split, schema.splits[split].test, theories) or train
    place = f"{schema.path}: splits.{split}.held_out"
    held = set(schema.splits[split].held_out)
    test = tuple(theory for theory in theories if held & set(theory.pairs))
    train = tuple(theory for theory in theories if not held & set(theory.pairs))
    for pair in schema.splits[split].held_out:
        if not any(pair in theory.pairs for theory in test):
            raise InputError(f"{place}: no question puts {pair[1]} to the answer of {pair[0]}.")
    trained, needed = (
        dict.fromkeys(
            [f"ask {call.ask}" for theory in theories for call in theory.calls]
            + [f"piece {node.piece.name}" for theory in theories for node in theory.root.nodes]
        )
        for theories in (train, test)
    )
    for part in needed:
        if part not in trained:
            raise InputError(f"{place}: no training question is left with the {part}.")
    return train, test


def _of_kinds(
    schema: WorldSchema, split: str, names: Iterable[str], theories: tuple[Theory, ...]
) -> tuple[Theory, ...]:
    """The theories of these names.

    Raises:
        InputError: there is no theory of one of the names; the message suggests a close one.
    """
    by_name = {theory.name: theory for theory in theories}
    for name in names:
        if name not in by_name:
            close = get_close_matches(name, by_name, 1) or list(by_name)[:3]
            raise InputError(
                f"{schema.path}: splits.{split}: there is no kind of question {name}: use "
                f"{', '.join(close)}."
            )
    return tuple(by_name[name] for name in names)


# Possible worlds.

Fact = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PossibleWorld:
    """Facts of some of a schema's relations, and the agents that know them.

    Args:
        agents: the agent that knows each relation of the world.
        facts: by relation, in the order they are written.
        sentences: each fact in words, by the fact as `write_fact` writes it.
        things: by kind, the things that the facts name.
    """

    agents: Mapping[str, str]
    facts: Mapping[str, tuple[Fact, ...]]
    sentences: Mapping[str, str]
    things: Mapping[str, Sequence[str]]

    def predicate(self, relation: str) -> str:
        """A relation as the published format names it: ``table_composed``."""
        return f"{self.agents[relation]}_{relation}"

    def write_fact(self, relation: str, fact: Fact) -> str:
        """A fact as the published format writes it: ``table_composed(one, other)``."""
        return f"{self.predicate(relation)}({fact[0]}, {fact[1]})"

    @property
    def kb(self) -> dict[str, list[str]]:
        """All facts as the published format writes them."""
        return {
            self.predicate(relation): [self.write_fact(relation, fact) for fact in facts]
            for relation, facts in self.facts.items()
        }

    def can_be_asked(self, theory: Theory, schema: WorldSchema) -> bool:
        """Whether this world has the relations that a theory looks up, and those of only one way of
        each piece."""
        return theory.relations <= self.facts.keys() and all(
            sum(schema.looked_up(way) <= self.facts.keys() for way in node.piece.ways) == 1
            for node in theory.root.nodes
            if len(node.piece.ways) > 1
        )

    def agent_of(self, ask: Ask) -> str:
        """The agent that answers an ask; empty where none of this world does."""
        return self.agents.get(ask.relation, "") if ask.relation else ask.agent

    def language(self, schema: WorldSchema) -> dict[str, list[dict[str, Any]]]:
        """``pred_lang_config``: the templates of each agent, for what the world knows."""
        config: dict[str, list[dict[str, Any]]] = {}
        for ask in schema.asks.values():
            agent = self.agent_of(ask)
            if not agent:
                continue
            inputs = {f"${number}": kind for number, kind in enumerate(ask.inputs, 1)}
            steps: list[dict[str, str]] = []
            if ask.relation:
                look = f"{self.predicate(ask.relation)}({', '.join(ask.places)})"
                operation = "select_unique" if ask.unique else "select"
                steps = [{"operation": operation, "question": look, "answer": "#1"}]
            template = {
                "steps": steps,
                "questions": list(ask.words),
                "init": inputs,
                "model": agent,
                "predicate": predicate_of(ask, [*inputs]),
            }
            config.setdefault(agent, []).append(template)
        return config


def predicate_of(ask: Ask, arguments: Sequence[str]) -> str:
    """An ask as the published format names it: ``songs_by($1, ?)``, ``diff($1 | $2)``."""
    if ask.total:
        return f"{ask.total}({' | '.join(arguments)})"
    return f"{ask.name}({', '.join([*arguments, '?'])})"


def fill_slots(text: str, things: Sequence[str]) -> str:
    """A text with its slots ``$1`` … filled in."""
    return SLOT.sub(lambda slot: things[int(slot[1]) - 1], text)


def make_world(schema: WorldSchema, theory: Theory, random: Random) -> PossibleWorld:
    """Draw a world that a theory can be asked of; ``random`` decides everything."""
    relations = _chosen_relations(theory, schema, random)
    drawn = {
        name: tuple(random.sample(kind.pool, kind.count)) for name, kind in schema.kinds.items()
    }
    agents: dict[str, str] = {}
    facts: dict[str, tuple[Fact, ...]] = {}
    sentences: dict[str, str] = {}
    things: dict[str, list[str]] = {kind: [] for kind in schema.kinds}
    world = PossibleWorld(agents, facts, sentences, things)
    for name, relation in schema.relations.items():
        if name not in relations:
            continue
        agents[name] = random.choice(sorted(relation.says))
        facts[name] = _facts(relation, drawn, random)
        for fact in facts[name]:
            words = fill_slots(random.choice(relation.says[agents[name]]), fact)
            sentences[world.write_fact(name, fact)] = words
            for kind, thing in zip(relation.kinds, fact, strict=True):
                if thing not in things[kind]:
                    things[kind].append(thing)
    return world


def _chosen_relations(theory: Theory, schema: WorldSchema, random: Random) -> frozenset[str]:
    """The relations of a world that a theory can be asked of.

    For each piece of the theory, every other way lacks a relation, so that only one way can be
    meant. If possible, the same is done for pieces that the theory does not have.
    """
    ways = {node.piece.name: node.way for node in theory.root.nodes}
    pieces = [piece for piece in schema.pieces.values() if len(piece.ways) > 1]
    random.shuffle(pieces)
    pieces.sort(key=lambda piece: piece.name not in ways)
    present = set(theory.relations)
    gone: set[str] = set()
    for piece in pieces:
        relations = [schema.looked_up(way) for way in piece.ways]
        open_ways = [at for at, needed in enumerate(relations) if not needed & gone]
        if not open_ways:
            continue
        way = ways[piece.name] if piece.name in ways else random.choice(open_ways)
        present |= relations[way]
        for at, needed in enumerate(relations):
            if at != way and not needed & gone and needed - present:
                gone.add(random.choice(sorted(needed - present)))
    return frozenset(schema.relations) - gone


def _facts(
    relation: Relation, drawn: Mapping[str, tuple[str, ...]], random: Random
) -> tuple[Fact, ...]:
    """Facts for everything at the first place, with things at the second place used evenly."""
    first, second = (drawn[kind] for kind in relation.kinds)
    same = relation.kinds[0] == relation.kinds[1]
    facts: list[Fact] = []
    deck: list[str] = []
    for subject in first:
        count = random.randint(*relation.each)
        others: list[str] = []
        while len(others) < count:
            if not deck:
                deck = random.sample(second, len(second))
            other = deck.pop()
            if other not in others and not (same and other == subject):
                others.append(other)
        facts += [(subject, other) for other in others]
    random.shuffle(facts)
    return tuple(facts)
