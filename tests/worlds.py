"""Small worlds of CommaQA, written as facts and as what agents are asked."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pearl.commaqa.agents import Agents, handlers
from pearl.commaqa.decomposition import parse_hops, to_plan
from pearl.commaqa.search import LanguageModelScorer, Tmn
from pearl.commaqa.world import World, read_world
from pearl.evaluate.methods.base import HopSearch
from pearl.lang.library import load_library
from pearl.lang.source import Source
from pearl.lang.values import Value, canonical_json, to_json
from pearl.runtime.calls import Caller
from pearl.runtime.executor import Frame


def template(agent: str, look: str, words: str, *kinds: str) -> dict[str, Any]:
    """A template of an agent.

    Args:
        agent: whose it is.
        look: ``born($1, ?)``, which is looked up; ``= count($1)`` is arithmetic.
        words: the ways to ask it, with ``/`` between them.
        kinds: the type of each slot.
    """
    steps = [{"operation": "select", "question": look, "answer": "#1"}]
    return {
        "steps": [] if look.startswith("=") else steps,
        "questions": words.split(" / "),
        "init": {f"${number}": kind for number, kind in enumerate(kinds, 1)},
        "model": agent,
        "predicate": look.removeprefix("= "),
    }


def row(facts: str, asks: str) -> dict[str, Any]:
    """A row of the published format.

    Args:
        facts: one a line, or with ``;`` between them.
        asks: templates, one a line, ``agent | look-up | words | type | type``.
    """
    kb: dict[str, list[str]] = {}
    for fact in facts.replace(";", "\n").strip().splitlines():
        kb.setdefault(fact.strip().partition("(")[0], []).append(fact.strip())
    config: dict[str, list[dict[str, Any]]] = {}
    for line in asks.strip().splitlines():
        parts = [part.strip() for part in line.split("|")]
        config.setdefault(parts[0], []).append(template(*parts))
    return {"kb": kb, "context": "…", "pred_lang_config": config, "qa_pairs": []}


def world(facts: str, asks: str) -> World:
    """The world of a `row`."""
    return read_world(row(facts, asks), "here:1", "here/1")


def told(values: Sequence[Value]) -> list[str]:
    """Values so that 66, 66.0 and "66.0" are three."""
    return [canonical_json(to_json(value)) for value in values]


AWARDS = "What did those born in 1907 win?"
AWARDS_HOPS = (
    'a1 = ASK_TEXT("Who was born in 1907?")',
    'a2_1 = ASK_TEXT("What did {each a1} win?")\na2_2 = VALUES(a2_1)\na2 = FLAT(a2_2)',
)
AWARDS_SHOWN = to_plan(
    parse_hops(
        '(select) [text] "Who was born in 1911?"\n(project_values_flat) [text] "What did #1 win?"'
    ),
    "What did those born in 1911 win?",
)
"""A question, its hops as a model writes them, and another's decomposition, to be shown."""


def awards() -> Agents:
    """Who can be asked `AWARDS`."""
    facts = "born(Ines, 1907); born(Ada, 1907); won(Ada, Medal); won(Ines, Cup)"
    asks = """
        text | born(?, $1) | Who was born in $1? | year
        text | won($1, ?) | What did $1 win? | person
    """
    return Agents(world(facts, asks))


def searching(caller: Caller, agents: Agents, **options: Any) -> tuple[Tmn, Frame]:
    """A search whose hops a model proposes, and where its steps run."""
    library, how = load_library("commaqa"), HopSearch(**options)
    language, width = agents.world.language, how.budget.width
    proposer = LanguageModelScorer(caller, library, (AWARDS_SHOWN,), width, language)
    strategy = Tmn(agents, partial(how.by, proposer), caller.journal)
    return strategy, Frame(Source("d", "-"), library, caller, handlers=handlers(agents))
