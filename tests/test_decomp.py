"""Decomposed prompting: what the model is asked, what its steps may be, and where it ends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, repeat

import pytest

from pearl.lang.library import builtins, load_library
from pearl.lang.parser import parse
from pearl.models.base import ModelError
from pearl.prompts.calls import CorrectPlan, Decomposition, NextStep
from pearl.prompts.render import render
from pearl.runtime.calls import Journal
from pearl.runtime.executor import Handlers
from pearl.runtime.loop import Finished, RunError
from pearl.strategies.decomp import Decomp, as_decomposition, decompose
from tests.conftest import library_of
from tests.scripted_models import Scripted, carry_out

LISTS = load_library("lists")
LOOPING = """\
AGAIN(Q) -> any : Answer Q.
  demonstration:
    question: Ask again

    1. a = AGAIN("Ask again")
    return a
DEEPER(Q) -> any : Answer Q.
  demonstration:
    question: Ask 1

    1. a = DEEPER("Ask 1 more")
    return a
"""


def decomposer(replies: Sequence[str]) -> Scripted:
    """Gives replies in order, the last of which repeats."""
    said = chain(replies, repeat(replies[-1]))
    wrong = ModelError("request", "Only steps are written here.")
    steps = NextStep | CorrectPlan
    return Scripted(lambda call: next(said) if isinstance(call, steps) else wrong)


def run(*replies: str) -> tuple[Finished, Scripted, Journal]:
    model = decomposer(replies)
    finished, journal, _ = carry_out(model, partial(Decomp, LISTS), "What is it?", LISTS)
    return finished, model, journal


def test_steps_are_asked_for_one_at_a_time_with_what_they_gave():
    finished, model, _ = run('a = SPLIT("x,y", ",")', "b = COUNT(a)", "return b")
    assert finished.text == "2"
    calls = [one.call for one in model.asked]
    assert [len(call.steps) for call in calls if isinstance(call, NextStep)] == [0, 1, 2]
    last = calls[-1]
    assert isinstance(last, NextStep)
    assert last.steps == (('a = SPLIT("x,y", ",")', '["x","y"]'), ("b = COUNT(a)", "2"))
    prompt = render(last)[-1]["content"]
    assert 'a = SPLIT("x,y", ",")\n<output>\n["x","y"]\n</output>' in prompt


def test_only_the_first_step_of_a_reply_counts():
    """What comes after it was written without seeing what it gave."""
    finished, model, _ = run(
        '1. a = SPLIT("x,y", ",")\n2. b = COUNT(a)\nreturn b', 'c = JOIN(a, "-")', "return c"
    )
    assert finished.text == "x-y"
    assert [step.name for step in finished.plan.steps] == ["a", "c"]
    assert len(model.asked) == 3


@pytest.mark.parametrize(
    ("replies", "text"),
    [
        (['Sure! The next step is:\n```\na = SPLIT("x", ",")\n```', "return a"], "x"),
        (['a = SPLIT("x", ",")', 'b = SPLIT("y", ",")', "return a, b"], "x\n\ny"),
    ],
)
def test_prose_around_a_step_is_passed_over_and_an_answer_may_be_several_outputs(replies, text):
    assert run(*replies)[0].text == text


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ("a = FIND_NOTHING(x)", "PRL201"),
        ("b = COUNT(gone)", "PRL202"),
        ('b = SPLIT("x"', "PRL1"),
        ('c = SPLIT("x,y", ",")', "PRL403"),
        ("return gone", "PRL"),
        ("", "PRL"),
        ("I do not know.", "PRL"),
    ],
)
def test_a_wrong_step_is_corrected_with_what_is_wrong_with_it(wrong: str, code: str):
    finished, model, journal = run(
        'a = SPLIT("x,y", ",")', wrong or " ", "b = COUNT(a)", "return b"
    )
    rejected = [one.value for one in journal.entries if one.path.endswith("/rejected")]
    if not rejected:
        # A model that says nothing more has said its answer.
        assert not wrong or wrong == "I do not know."
        assert finished.text == "x\ny"
        return
    assert finished.text == "2"
    [call] = [one.call for one in model.asked if isinstance(one.call, CorrectPlan)]
    assert f"[{code}" in call.complaint
    first, *rest = call.complaint.splitlines()
    assert "corrected step only" in first
    # It speaks of one step, and of nothing that a step cannot do.
    assert not any(words in call.complaint for words in ("your plan", "New actions"))
    assert all(line.startswith(("[PRL", "  ")) for line in rest)
    assert any(one.startswith(code) for one in rejected[0])


@pytest.mark.parametrize(
    ("replies", "words", "asked"),
    [
        (["a = NOTHING(x)"], "Step 1 was rejected 4 times", 4),
        (['a = SPLIT("x', 'a = SPLIT("y'], "Step 1 was rejected 4 times", 4),
        (['a = SPLIT("x", ",")', 'b = SPLIT("x", ",")'], "Step 2 was rejected 4 times", 5),
        (["I cannot say."], "Step 1 was rejected 3 times: There is no step. Name a more", 3),
        ([f'a{at} = SPLIT("{at}", ",")' for at in range(40)], "has 24 steps and no answer", 24),
    ],
)
def test_a_decomposer_that_never_learns_or_returns_is_given_up(
    replies: list[str], words: str, asked: int
):
    model = decomposer(replies)
    with pytest.raises(RunError, match=words):
        carry_out(model, partial(Decomp, LISTS), "?", LISTS)
    assert len(model.asked) == asked


@pytest.mark.parametrize(
    ("action", "step", "words"),
    [("AGAIN", "a = AGAIN({})", "already at"), ("DEEPER", "a = DEEPER({})", "calls deep")],
)
def test_recursion_that_never_ends_is_cut(action: str, step: str, words: str):
    """Every frame asks the same again, or more each time."""
    library = library_of(LOOPING, builtins())
    more = " more" if action == "DEEPER" else ""
    model = Scripted(lambda call: step.format(f'"{call.question}{more}"'))
    handlers = Handlers(decompose=decompose, depth=4)
    with pytest.raises(RunError, match=words):
        carry_out(model, partial(Decomp, library), "Ask 1", library, handlers=handlers)


def test_values_in_comments_are_what_an_example_s_steps_gave():
    plan = (
        'question: Q\n\n1. a = SPLIT("x", ",")\n# value a = ["x"]\n2. b = COUNT(a)\n# value b = 1\n'
    )
    assert as_decomposition(parse(plan).plan) == Decomposition(
        "Q", (('a = SPLIT("x", ",")', '["x"]'), ("b = COUNT(a)", "1"))
    )
