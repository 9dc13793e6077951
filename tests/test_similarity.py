"""How alike two actions are: every factor and every pair of opposites counts."""

import math

import pytest

from pearl.lang.library import parse_library
from pearl.lang.similarity import group, likeness


def alike(one: str, other: str) -> float:
    return float(likeness(parse_library(f"{one}\n{other}\n").actions)[0, 1])


QUARREL = "FIND_QUARREL(CTX, X, Y) : Find the quarrel of X and Y."


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (QUARREL, "IDENTIFY_QUARREL(CTX, X, Y) : Find the quarrel of X and Y.", 1.0),
        # One treats its parameters alike, the other does not.
        (QUARREL, "IDENTIFY_QUARREL(CTX, X, Y) : Find the quarrel of X to Y.", 0.85),
        # Another number of parameters, and parameters of another name.
        (QUARREL, "IDENTIFY_QUARREL(CTX, X) : Find the quarrel of X.", 0.7),
        (QUARREL, "IDENTIFY_QUARREL(CTX, LIST, Y) : Find the quarrel of LIST and Y.", 0.7),
        # A definition is missing, is told by a clause, or finds another thing of the same words.
        (QUARREL, "IDENTIFY_QUARREL(CTX, X, Y)", 0.85 * 0.8),
        ("FIND_QUARREL(CTX, X)", "IDENTIFY_QUARREL(CTX, X)", 0.8),
        ("FIND_QUARREL(CTX, X) : Find the quarrel of X.",
         "IDENTIFY_QUARREL(CTX, X) : Find the quarrel that X has.", 0.6),
        ("FIND_TREE_STONE(CTX, X) : Find the tree of X by stone.",
         "LIST_TREE_STONE(CTX, X) : Find the stone of X by tree.", 0.75),
        # What only reads the document has no argument to give; nor may these stand for each other.
        (QUARREL, "IDENTIFY_QUARREL(CTX) : Find the quarrel.", -math.inf),
        (QUARREL, "IDENTIFY_QUARREL(CTX, X, Y) -> list : Find the quarrel of X and Y.", -math.inf),
        (QUARREL, "IDENTIFY_QUARREL(CTX, X, Y) : Find no quarrel of X and Y.", -math.inf),
        ("FIND_QUARREL(CTX, X) : Find where X quarrels.",
         "IDENTIFY_QUARREL(CTX, X) : Find when X quarrels.", -math.inf),
        ("FIND_LIKELY(CTX, X) : Find the likely end of X in CTX.",
         "FIND_LEAST_LIKELY(CTX, X) : Find the least likely end of X in CTX.", -math.inf),
        ("FIND_LIKELY(CTX, X) : Find the likely end of X in CTX.",
         "FIND_MOST_LIKELY(CTX, X) : Find the most likely end of X in CTX.", -math.inf),
    ],
)  # fmt: skip
def test_what_speaks_against_two_actions_lowers_their_likeness(
    one: str, other: str, expected: float
):
    assert alike(one, other) == pytest.approx(expected)


def test_a_synonym_is_most_of_the_word_itself():
    one = "FIND_REASON(CTX, X) : Find the reason of X."
    assert 0.7 < alike(one, "FIND_CAUSE(CTX, X) : Find the cause of X.") < 0.75
    assert alike(one, "FIND_STONE(CTX, X) : Find the stone of X.") == 0
    # A word that only begins alike is another.
    held = "FIND_OBJECT(CTX, X) : Find the object that X holds in CTX"
    assert alike(held, "FIND_OBJECTIVE(CTX, X) : Find the main objective of X in CTX") < 0.2


@pytest.mark.parametrize(
    "pair",
    """
    true false, fact false, positive negative, benefit drawback, similarity difference,
    common different, cause effect, purpose outcome, agree disagree, first last, beginning ending,
    correct incorrect,
    before after, strength weakness, success failure, gain loss, problem solution, best worst,
    past future, protagonist antagonist, love hate, normal strange, question answer,
    expected surprise, reason consequence, advantage cost, happy unhappy, kind unkind
    """.split(","),
    ids=str.split,
)
def test_opposites_never_stand_for_each_other(pair: str):
    form = "FIND_{}_MATTER(CTX, X) : Find the {} matter of X."
    one, other = (form.format(word.upper(), word) for word in pair.split())
    assert alike(one, other) == -math.inf
    # At any target, either.
    assert group(parse_library(f"{one}\n{other}\n").actions, 1, floor=0.0) == [[0], [1]]
