"""Theories: every way to put a schema's pieces together, with its steps in order.

What CommaQA calls a theory is a question's words with slots for things, and
the steps that answer it (Khot et al., 2022, section 4).

Possible worlds: things, facts about them, and the agents that know them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, NamedTuple

from pearl.commaqa.decomposition import Operation
from pearl.commaqa.schema import IID, QUESTION, Ask, Hole, Pair, Piece, Relation, Schema, Step
from pearl.lang.ast import Mode
from pearl.lang.source import InputError

_MOST = 5000
_ONCE = Operation(Mode.PLAIN)
_OVER_ALL = Operation(Mode.EACH, None, ("values", "flat", "unique"))


@dataclass(frozen=True, slots=True)
class Leaf:
    """A thing of a kind, named in the question."""

    kind: str


@dataclass(frozen=True, slots=True)
class Node:
    """A piece, one of its ways, and what stands in its holes."""

    piece: Piece
    way: int
    parts: tuple[Node | Leaf, ...]


class Call(NamedTuple):
    """One step of a theory.

    Args:
        ask: what is asked.
        operation: how.
        over: the answer whose items are asked for, counted from 1; 0 for none.
        arguments: above 0 an earlier answer, below 0 a thing (-1 is the first).
    """

    ask: str
    operation: Operation
    over: int
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class Theory:
    """A kind of question.

    Args:
        root: its pieces.
        calls: its steps.
        leaves: the kinds of the things that it names, in the order of its holes.
        relations: what it looks up.
    """

    root: Node
    calls: tuple[Call, ...]
    leaves: tuple[str, ...]
    relations: frozenset[str]

    @property
    def name(self) -> str:
        """Its pieces, as ``prizes(songs_by($person))``."""
        return _named(self.root)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """Each ask that is put to another's answer, with that other first; none twice."""
        found = [
            (self.calls[argument - 1].ask, call.ask)
            for call in self.calls
            for argument in call.arguments
            if argument > 0
        ]
        return tuple(dict.fromkeys(found))


def _named(node: Node | Leaf) -> str:
    if isinstance(node, Leaf):
        return f"${node.kind}"
    way = f"/{node.way + 1}" if len(node.piece.ways) > 1 else ""
    inner = ", ".join(map(_named, node.parts))
    return f"{node.piece.name}{way}({inner})" if inner else f"{node.piece.name}{way}"


def nodes_of(node: Node | Leaf) -> Iterator[Node]:
    """A node and all below it."""
    if isinstance(node, Node):
        yield node
        for part in node.parts:
            yield from nodes_of(part)


def theories_of(schema: Schema) -> tuple[Theory, ...]:
    """Every theory within the schema's limits.

    On the way from a question to a thing no piece and no relation comes twice,
    so that none goes back the way it came.

    Raises:
        InputError: there is none, or there are too many.
    """
    found: list[Theory] = []
    fewest, most = schema.limits.steps
    for node in _pieces(schema, (QUESTION,), most, frozenset()):
        theory = _theory(schema, node)
        if theory is None or len(theory.calls) < fewest:
            continue
        found.append(theory)
        _check_number(len(found), schema)
    if not found:
        raise InputError(
            f"{schema.path}: limits.steps: no question has {fewest} to {most} steps: "
            "change them, or the pieces."
        )
    return tuple(found)


def _check_number(number: int, schema: Schema) -> None:
    if number > _MOST:
        raise InputError(
            f"{schema.path}: limits.steps: more than {_MOST} kinds of questions: make the most "
            "steps fewer."
        )


def _pieces(
    schema: Schema, gives: Iterable[str], most: int, used: frozenset[str]
) -> Iterator[Node]:
    """Pieces that give one of these, with at most so many steps."""
    wanted = set(gives)
    for piece in schema.pieces.values():
        if piece.gives not in wanted or f"piece {piece.name}" in used:
            continue
        for way, steps in enumerate(piece.ways):
            looked = schema.looked_up(steps)
            if len(steps) > most or looked & used:
                continue
            below = used | looked | {f"piece {piece.name}"}
            inner = [_filled(schema, hole, most - len(steps), below) for hole in piece.holes]
            for parts in product(*inner):
                if len(steps) + sum(map(_size, parts)) <= most:
                    yield Node(piece, way, parts)


def _filled(schema: Schema, hole: Hole, most: int, used: frozenset[str]) -> list[Node | Leaf]:
    found: list[Node | Leaf] = [Leaf(kind) for kind in hole.kinds]
    for node in _pieces(schema, hole.gives, most, used):
        found.append(node)
        _check_number(len(found), schema)
    return found


def _size(node: Node | Leaf) -> int:
    if isinstance(node, Leaf):
        return 0
    return len(node.piece.ways[node.way]) + sum(map(_size, node.parts))


def _theory(schema: Schema, root: Node) -> Theory | None:
    """The theory of a question; None where one piece is meant in two ways."""
    chosen: dict[str, int] = {}
    for node in nodes_of(root):
        if chosen.setdefault(node.piece.name, node.way) != node.way:
            return None
    calls: list[Call] = []
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
    looked = frozenset(schema.asks[call.ask].relation for call in calls) - {""}
    return Theory(root, tuple(calls), tuple(leaves), looked)


def _flatten(node: Node | Leaf, calls: list[Call], leaves: list[str]) -> int:
    """Add a node's calls and things; the argument that stands for it."""
    if isinstance(node, Leaf):
        leaves.append(node.kind)
        return -len(leaves)
    holes = [_flatten(part, calls, leaves) for part in node.parts]
    steps = node.piece.ways[node.way]
    if not steps:
        return holes[0]
    before = len(calls)
    calls += [_call(step, holes, before) for step in steps]
    return len(calls)


def _call(step: Step, holes: list[int], before: int) -> Call:
    arguments = tuple(
        holes[-argument - 1] if argument < 0 else before + argument for argument in step.arguments
    )
    first = next((argument for argument in arguments if argument > 0), 0)
    operation = step.operation or (_OVER_ALL if first else _ONCE)
    return Call(step.ask, operation, 0 if operation.mode is Mode.PLAIN else first, arguments)


@dataclass(frozen=True, slots=True)
class Divided:
    """The theories of a split.

    Args:
        train: what training and development questions are made of.
        test: what test questions are made of.
    """

    train: tuple[Theory, ...]
    test: tuple[Theory, ...]


def divided(schema: Schema, split: str, theories: tuple[Theory, ...]) -> Divided:
    """Which theories training has, and which the test.

    In a split that holds pairs out, a test question has at least one of them
    and no training question has any, while every ask and every piece of a
    test question also comes in training.

    Raises:
        InputError: there is no such split, or it does not hold what it says.
    """
    if split not in schema.splits:
        known = ", ".join(schema.splits)
        raise InputError(f"{schema.path}: no split is called {split}: use {known}.")
    if split == IID:
        return Divided(theories, theories)
    place = f"{schema.path}: splits.{split}.held_out"
    held = set(schema.splits[split])
    test = tuple(theory for theory in theories if held & set(theory.pairs))
    train = tuple(theory for theory in theories if not held & set(theory.pairs))
    for pair in schema.splits[split]:
        if not any(pair in theory.pairs for theory in test):
            raise InputError(f"{place}: no question puts {pair[1]} to the answer of {pair[0]}.")
    for what, seen, needed in (
        ("ask", _asks(train), _asks(test)),
        ("piece", _names(train), _names(test)),
    ):
        for name in needed:
            if name not in seen:
                raise InputError(f"{place}: no training question is left with the {what} {name}.")
    return Divided(train, test)


def _asks(theories: Iterable[Theory]) -> dict[str, None]:
    return dict.fromkeys(call.ask for theory in theories for call in theory.calls)


def _names(theories: Iterable[Theory]) -> dict[str, None]:
    return dict.fromkeys(node.piece.name for one in theories for node in nodes_of(one.root))


_SLOT = re.compile(r"\$([1-9])")

Fact = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Made:
    """A world.

    Args:
        agents: who knows each relation that the world has.
        facts: by relation, in the order they are written.
        sentences: each fact in words, by relation and fact.
        things: by kind, what the facts name.
    """

    agents: Mapping[str, str]
    facts: Mapping[str, tuple[Fact, ...]]
    sentences: Mapping[tuple[str, Fact], str]
    things: Mapping[str, tuple[str, ...]]

    def written(self, relation: str, fact: Fact) -> str:
        """A fact as the published format writes it: ``table_composed(one, other)``."""
        return f"{self.agents[relation]}_{relation}({fact[0]}, {fact[1]})"


def filled(text: str, things: Sequence[str]) -> str:
    """A text with ``$1`` … filled in."""
    return _SLOT.sub(lambda slot: things[int(slot[1]) - 1], text)


def possible(theory: Theory, relations: frozenset[str], schema: Schema) -> bool:
    """Whether a world with these relations can be asked a theory.

    It has what the theory looks up, and of every piece that is meant in
    several ways it has one alone.
    """
    if not theory.relations <= relations:
        return False
    return all(
        sum(schema.looked_up(way) <= relations for way in node.piece.ways) == 1
        for node in nodes_of(theory.root)
        if len(node.piece.ways) > 1
    )


def chosen_relations(theory: Theory, schema: Schema, random: Random) -> frozenset[str]:
    """The relations of a world that is to be asked a theory.

    Of every other way to mean one of its pieces a relation is left out, and
    where it can be the same is done for the pieces that the theory has not.
    """
    ways = {node.piece.name: node.way for node in nodes_of(theory.root)}
    pieces = [piece for piece in schema.pieces.values() if len(piece.ways) > 1]
    random.shuffle(pieces)
    pieces.sort(key=lambda piece: piece.name not in ways)
    kept = set(theory.relations)
    gone: set[str] = set()
    for piece in pieces:
        looked = [schema.looked_up(way) for way in piece.ways]
        open_ways = [at for at, needed in enumerate(looked) if not needed & gone]
        if not open_ways:
            continue
        way = ways[piece.name] if piece.name in ways else random.choice(open_ways)
        kept |= looked[way]
        for at, needed in enumerate(looked):
            if at != way and not needed & gone and needed - kept:
                gone.add(random.choice(sorted(needed - kept)))
    return frozenset(schema.relations) - gone


def make_world(schema: Schema, relations: frozenset[str], random: Random) -> Made:
    """Draw a world.

    Args:
        schema: what there is.
        relations: which of its relations the world has.
        random: decides everything.
    """
    drawn = {
        name: tuple(random.sample(kind.pool, kind.count)) for name, kind in schema.kinds.items()
    }
    agents: dict[str, str] = {}
    facts: dict[str, tuple[Fact, ...]] = {}
    sentences: dict[tuple[str, Fact], str] = {}
    things: dict[str, dict[str, None]] = {kind: {} for kind in schema.kinds}
    for name, relation in schema.relations.items():
        if name not in relations:
            continue
        agents[name] = random.choice(sorted(relation.says))
        facts[name] = _facts(relation, drawn, random)
        for fact in facts[name]:
            sentences[name, fact] = filled(random.choice(relation.says[agents[name]]), fact)
            for kind, thing in zip(relation.kinds, fact, strict=True):
                things[kind][thing] = None
    return Made(agents, facts, sentences, {kind: tuple(named) for kind, named in things.items()})


def _facts(
    relation: Relation, drawn: Mapping[str, tuple[str, ...]], random: Random
) -> tuple[Fact, ...]:
    """Facts for everything at the first place, which use all at the second alike."""
    first, second = (drawn[kind] for kind in relation.kinds)
    same = relation.kinds[0] == relation.kinds[1]
    facts: list[Fact] = []
    deck: list[str] = []
    for one in first:
        wanted = random.randint(*relation.each)
        others: list[str] = []
        while len(others) < wanted:
            if not deck:
                deck = random.sample(second, len(second))
            other = deck.pop()
            if other not in others and not (same and other == one):
                others.append(other)
        facts += [(one, other) for other in others]
    random.shuffle(facts)
    return tuple(facts)


def language_of(made: Made, schema: Schema) -> dict[str, list[dict[str, Any]]]:
    """``pred_lang_config``: the templates of each agent, for what the world knows."""
    config: dict[str, list[dict[str, Any]]] = {}
    for ask in schema.asks.values():
        agent = agent_of(ask, made)
        if agent:
            config.setdefault(agent, []).append(_template(ask, agent))
    return config


def agent_of(ask: Ask, made: Made) -> str:
    """Who answers; empty where nobody in this world does."""
    return made.agents.get(ask.relation, "") if ask.relation else ask.agent


def _template(ask: Ask, agent: str) -> dict[str, Any]:
    slots = [f"${number + 1}" for number in range(len(ask.inputs))]
    steps: list[dict[str, str]] = []
    if ask.relation:
        look = f"{agent}_{ask.relation}({', '.join(ask.places)})"
        operation = "select_unique" if ask.unique else "select"
        steps = [{"operation": operation, "question": look, "answer": "#1"}]
    return {
        "steps": steps,
        "questions": list(ask.words),
        "init": dict(zip(slots, ask.inputs, strict=True)),
        "model": agent,
        "predicate": predicate_of(ask, slots),
    }


def predicate_of(ask: Ask, arguments: Sequence[str]) -> str:
    """An ask as the published format names it: ``songs_by($1, ?)``, ``diff($1 | $2)``."""
    if ask.total:
        return f"{ask.total}({' | '.join(arguments)})"
    return f"{ask.name}({', '.join([*arguments, '?'])})"
