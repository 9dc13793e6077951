"""Symbolic agents over the worlds of CommaQA, and decompositions that talk to them."""

from pearl.agents.agents import Agents, NoAnswer, solver
from pearl.agents.hops import (
    Hop,
    Operation,
    ParsedHops,
    Problem,
    parse_hops,
    print_hop,
    print_hops,
    print_operation,
    read_operation,
)
from pearl.agents.language import Language, LanguageError, Phrasing, Template, read_language
from pearl.agents.running import run_hop, run_hops
from pearl.agents.scoring import exact_match, f1
from pearl.agents.solving import handlers
from pearl.agents.text import HopError, action_of, agent_of, to_hops, to_plan, to_steps
from pearl.agents.world import Question, World, read_world, read_worlds

__all__ = [
    "Agents",
    "Hop",
    "HopError",
    "Language",
    "LanguageError",
    "NoAnswer",
    "Operation",
    "ParsedHops",
    "Phrasing",
    "Problem",
    "Question",
    "Template",
    "World",
    "action_of",
    "agent_of",
    "exact_match",
    "f1",
    "handlers",
    "parse_hops",
    "print_hop",
    "print_hops",
    "print_operation",
    "read_language",
    "read_operation",
    "read_world",
    "read_worlds",
    "run_hop",
    "run_hops",
    "solver",
    "to_hops",
    "to_plan",
    "to_steps",
]
