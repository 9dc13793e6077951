"""What a file of worlds holds: its figures (CommaQA, Table 7), and what its agents can be asked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from statistics import fmean
from typing import Any

from pearl.commaqa.agents import Agents, run_hops
from pearl.commaqa.world import Fact, World
from pearl.lang.values import Value, to_json

_TOKEN = re.compile(r"\w+|[^\w\s]")


def figures(worlds: Iterable[World]) -> dict[str, Any]:
    """The figures of all worlds of a file, as the paper's table of data sets has them.

    Returns:
        ``questions``, ``worlds`` and ``kinds`` as numbers; and each as mean, least and most:
        ``questions_a_world``, ``steps`` (of the questions with a decomposition), ``answers``
        (spans of an answer), ``facts_used``, ``facts`` and ``tokens`` (words and marks) of a
        world's context. What no question or world tells is left out.
    """
    known = list(worlds)
    asked = [question for world in known for question in world.questions]
    spans = [len(one.answer) if isinstance(one.answer, list) else 1 for one in asked]
    counted = {
        "questions_a_world": [len(world.questions) for world in known],
        "steps": [len(one.hops) for one in asked if one.hops],
        "answers": spans,
        "facts_used": [len(one.facts) for one in asked if one.facts],
        "facts": [sum(map(len, world.facts.values())) for world in known],
        "tokens": [len(_TOKEN.findall(world.context)) for world in known if world.context],
    }
    return {
        "questions": len(asked),
        "worlds": len(known),
        "kinds": len({one.theory for one in asked if one.theory}),
        **{
            name: {"mean": fmean(counts), "least": min(counts), "most": max(counts)}
            for name, counts in counted.items()
            if counts
        },
    }


class _Watching(Agents):
    """Agents of whom it is known what they were asked, and which facts they looked up."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.asked: dict[tuple[str, str], None] = {}
        self.found: dict[str, None] = {}

    def ask(self, agent: str, question: str) -> Value | None:
        self.asked[agent, question] = None
        return super().ask(agent, question)

    def facts(self, predicate: str, places: Sequence[str]) -> list[Fact]:
        found = super().facts(predicate, places)
        self.found |= dict.fromkeys(f"{predicate}({', '.join(fact)})" for fact in found)
        return found


def agent_pairs(world: World) -> Iterator[dict[str, Any]]:
    """Every question that a world's agents answer, with its answer: what models of them learn.

    A look-up is asked in all its phrasings of every valid input. Arithmetic takes any numbers, so
    it is asked what the decompositions of the world's questions ask.

    Args:
        world: with gold decompositions, where arithmetic is wanted.

    Yields:
        ``world``, ``agent``, ``question``, ``answer``, and ``facts``, in words, that it rests on.
    """
    agents = _Watching(world)
    for template in world.language.templates:
        valid = [sorted(world.entities.get(kind, ())) for _, kind in template.inputs]
        slots = [slot for slot, _ in template.inputs]
        for phrasing, things in product(template.phrasings, product(*valid)):
            if template.lookups:
                text = phrasing.filled(dict(zip(slots, things, strict=True)))
                agents.asked[template.agent, text] = None
    for question in world.questions:
        run_hops(question.hops, agents)
    for agent, text in [*agents.asked]:
        agents.found.clear()
        answer = agents.ask(agent, text)
        if answer is not None:
            facts = [world.sentences.get(fact, fact) for fact in agents.found]
            told = {"question": text, "answer": to_json(answer), "facts": facts}
            yield {"world": world.name, "agent": agent, **told}
