"""Possible worlds: things, facts about them, and the agents that know them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pearl.generating.schema import Ask, Relation, Schema
from pearl.generating.theories import Theory, nodes_of

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
