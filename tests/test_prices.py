"""The table of prices, a person's own over it, and what calls are expected to take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pearl.lang.errors import InputError
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.models.base import Request, Usage
from pearl.models.middleware.stack import upper
from pearl.models.tokens import FREE, Price, count_tokens, dollars, load_prices
from pearl.prompts.calls import ExecuteStep, WritePlan
from pearl.prompts.render import document_block, render
from tests.conftest import ROOT
from tests.shell import call


def test_every_price_of_the_table_is_sound():
    for name, price in load_prices().models.items():
        assert 0 < price.input < price.output < 1000, name
        assert price.cached_input is None or 0 < price.cached_input < price.input, name
        assert price.window is None or 4_000 <= price.window <= 10_000_000, name


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(1_000_000, 0, 0), 2_500_000),
        (Usage(0, 1_000_000, 0), 10_000_000),
        (Usage(1_000, 100, 0), 3_500),
        (Usage(1_000, 100, 800), 500 + 1_000 + 1_000),
        (Usage(10, 0, 99), 13),
        (Usage(1, 0, 0), 3),
        (Usage(), 0),
    ],
)
def test_costs_are_what_they_are_by_hand(usage: Usage, cost: int):
    assert Price(2.5, 10.0, 1.25).cost(usage) == cost
    # Without a price of its own, kept input costs as other input.
    plain = Usage(usage.prompt_tokens, usage.completion_tokens)
    assert Price(2.5, 10.0).cost(usage) == Price(2.5, 10.0, 1.25).cost(plain)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("gpt-4o", True),
        ("gpt-4o-2024-08-06", True),
        ("openai/gpt-4o", True),
        ("openai/gpt-4o-2024-08-06", True),
        ("gpt-4o-20240806", True),
        ("gpt-4o-large", False),
        ("gpt-4", False),
        ("my-gpt-4o", False),
        ("", False),
    ],
)
def test_a_name_is_looked_up_and_never_guessed(name: str, known: bool):
    assert (load_prices().get(name) is not None) == known
    # What asks nobody costs nothing.
    for free in ("offline", "recorded", "recorded:replies.jsonl"):
        assert load_prices().get(free) == FREE


def test_ones_own_table_is_read_as_every_file_is_and_goes_over_the_other(
    monkeypatch: pytest.MonkeyPatch,
):
    with pytest.raises(InputError, match="/dev/zero has more than 256 MB: name a file"):
        load_prices(Path("/dev/zero"))
    table = '\ufeff[models."m"]\ninput = 1\noutput = 2.5\nwindow = 8_000\n'
    Path("own.toml").write_text(table, encoding="utf-8")
    assert load_prices(Path("own.toml")).get("m") == Price(1, 2.5, None, 8000)
    assert load_prices(Path("own.toml")).get("gpt-4o") == load_prices().get("gpt-4o")
    assert load_prices().get("m") is None
    monkeypatch.setenv("PEARL_PRICES", "own.toml")
    assert load_prices().get("m") is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "is not TOML: "),
        ("a = 1" + "0" * 5_000, "is not TOML: it has a number of too many digits."),
        ("a = " + "[" * 2_000, "is not TOML: it is nested too deep."),
        ("x = 1", "has no prices"),
        ("models = 3", "has no prices"),
        ('[models."m"]\ninput = 1\n', "m lacks output"),
        ('[models."m"]\ninput = 1\noutput = 2\nprice = 3\n', "no key price: use input, output"),
        ('[models."m"]\ninput = "1"\noutput = 2\n', "input is to be a number"),
        ('[models."m"]\ninput = -1\noutput = 2\n', "input is to be a number"),
        ('[models."m"]\ninput = true\noutput = 2\n', "input is to be a number"),
        ('[models."m"]\ninput = 1\noutput = 2\nwindow = 1.5\n', "whole number of tokens"),
        ("[models]\nm = 3\n", "m is no table"),
    ],
)
def test_a_wrong_table_is_one_line(text: str, words: str):
    Path("own.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words) as caught:
        load_prices(Path("own.toml"))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("millionths", "text"),
    [(0, "$0.00"), (13, "$0.0000"), (123_456, "$0.1235"), (1_234_567, "$1.23"),
     (1_234_567_890, "$1,234.57")],
)  # fmt: skip
def test_money_for_people(millionths: int, text: str):
    assert dollars(millionths) == text


TEXTS = {
    "story": (ROOT / "plans/examples/lighthouse.txt").read_text(encoding="utf-8"),
    "article": (ROOT / "plans/examples/timekeeping.txt").read_text(encoding="utf-8"),
    "code": (ROOT / "pearl/lang/values.py").read_text(encoding="utf-8"),
    "grammar": (ROOT / "grammar/plan.lark").read_text(encoding="utf-8"),
    "chinese": "灯塔的守护人在冬天离开了这个岛,因为基金会已经把它关闭了。" * 40,
    "signs": "🙂🚢⚓️ ".join("abc" for _ in range(300)),
    "digits": "3.14159 2.71828 " * 300,
    "short": "x",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("where", ["document", "argument"])
def test_no_prompt_takes_more_tokens_than_are_reserved_for_it(text: str, where: str):
    document = Source("d", text if where == "document" else "short")
    step = parse('a = FIND_EVENT(CTX, "x") : note').plan.steps[0]
    action = load_library().actions["FIND_EVENT"]
    value = text if where == "argument" else "x"
    call = ExecuteStep(document, action, step, (("X", value),))
    messages = render(call)
    request = Request(call, messages, "step/a", "k", len(document_block(document)), document.digest)
    true = sum(count_tokens(message["content"]) for message in messages)
    reserved = upper(request, "gpt-4o", 0).prompt_tokens
    assert reserved >= true
    if where == "document" and len(text) > 5000:
        assert reserved < 1.3 * true


def test_a_planning_prompt_is_counted_all_but_its_question():
    call = WritePlan("Why does Mara leave the lighthouse?", load_library())
    messages = render(call)
    true = sum(count_tokens(message["content"]) for message in messages)
    reserved = upper(Request(call, messages, "plan/1", "k"), "gpt-4o", 500)
    assert true <= reserved.prompt_tokens < 1.05 * true
    assert reserved.completion_tokens == 500


def test_the_window_of_a_table_that_is_named_counts(monkeypatch: pytest.MonkeyPatch):
    Path("own.toml").write_text('[models."m"]\ninput = 1\noutput = 2\nwindow = 4000\n')
    Path("d.txt").write_text("Ann sold the boat. " * 3000)
    plan = '1. a = FIND_EVENT(CTX, "the boat") : find'
    row = {"id": "a", "question": "Who?", "document": "d.txt", "plan": plan}
    Path("q.jsonl").write_text(json.dumps(row))
    estimate = ("estimate", "q.jsonl", "--model", "m", "--json")
    named = call(*estimate, "--prices", "own.toml").json
    assert named["calls"] > 2
    monkeypatch.setenv("PEARL_PRICES", "own.toml")
    assert call(*estimate).json["calls"] == named["calls"]
