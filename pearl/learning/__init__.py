"""Next questions found by search, and learned from decompositions or from answers alone."""

from pearl.learning.analogy import Weights
from pearl.learning.brute import Brute, brute_force
from pearl.learning.by_model import ByModel
from pearl.learning.explain import Effort, Explained
from pearl.learning.learn import Kind, Learned, learn_from_answers, learn_from_gold
from pearl.learning.model import Model, Pattern, Strategy, read_model, write_model
from pearl.learning.moves import Form, Move
from pearl.learning.scorer import ByAnalogy
from pearl.learning.search import (
    Budget,
    Choice,
    Found,
    NextStep,
    Proposer,
    best_first,
    greedy,
    search,
)
from pearl.learning.verify import Way

__all__ = [
    "Brute",
    "Budget",
    "ByAnalogy",
    "ByModel",
    "Choice",
    "Effort",
    "Explained",
    "Form",
    "Found",
    "Kind",
    "Learned",
    "Model",
    "Move",
    "NextStep",
    "Pattern",
    "Proposer",
    "Strategy",
    "Way",
    "Weights",
    "best_first",
    "brute_force",
    "greedy",
    "learn_from_answers",
    "learn_from_gold",
    "read_model",
    "search",
    "write_model",
]
