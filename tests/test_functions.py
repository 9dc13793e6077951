"""Actions whose body is a function: from its definition to what a step makes of it."""

from __future__ import annotations

import asyncio
import itertools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pearl
from pearl.lang.entry_points import source_digest
from pearl.lang.printer import print_action, print_library
from tests.server import Serve
from tests.shell import STORY, call


@pearl.action
def count_word(document: str, word: str) -> int:
    """Count how often WORD
    stands in the document.

    What follows is not the definition.
    """
    return document.lower().split().count(word.lower())


@pearl.action(name="SUM_OF")
async def total(*numbers: float) -> float:
    """Add the numbers."""
    await asyncio.sleep(0)
    return sum(numbers)


def run(plan: str, *library: Any, **settings: Any) -> pearl.Answer:
    Path("story.txt").write_text(STORY, encoding="utf-8")
    reader = pearl.Pearl(model="offline", library=["core", *library], **settings)
    return reader.run_sync(plan, "story.txt")


def test_a_function_is_an_action_and_stays_a_function():
    assert print_action(count_word.action) == (
        "COUNT_WORD(CTX, WORD: text) -> number : Count how often WORD stands in the document."
    )
    assert print_action(total.action) == "SUM_OF(NUMBERS: number, ...) -> number : Add the numbers."
    assert count_word("a b A", "a") == 2
    # No text of a library runs anything.
    assert "test_functions:count_word" in print_library([count_word.action])
    assert not pearl.load_library("core").get("COUNT_WORD")


def test_plans_call_it_and_the_checker_knows_it():
    plan = '1. n = COUNT_WORD(CTX, "the") : Count\n2. s = SUM_OF(n, 1, 2.5) : Add\n'
    assert run(plan, count_word, total).text == str(STORY.lower().split().count("the") + 3.5)
    words = '1. w = UNIQUE(["the", "the"]) : Words\n2. n = COUNT_WORD(CTX, each w) : Count\n'
    assert run(words, count_word).text == f"the: {STORY.lower().split().count('the')}"
    found = pearl.check(
        '1. n = COUNT_WORD("the") : Count\n2. s = SUM_OF(n, "x") : Add\n', [count_word, total]
    )
    assert {"PRL203"} <= {one.code for one in found}
    assert "PRL201" not in {one.code for one in found}


@pytest.mark.parametrize(("given", "guessed"), [('"ab"', False), ("f", True)])
def test_only_what_rests_on_a_reply_of_the_offline_reader_is_a_guess(given: str, guessed: bool):
    @pearl.action
    def size(text: str) -> int:
        """Count the letters."""
        return len(text)

    read = 'f = FIND_EVENT(CTX, "Mara") : Look\n'
    answer = run(f"{read}n = SIZE({given})\nreturn n\n", size)
    assert (answer.guessed, "picked by words" in answer.notice) == (guessed, guessed)


def test_a_planner_is_told_of_it_and_evidence_is_what_it_copies(serve: Serve, tmp_path: Path):
    @pearl.action(traits=["verbatim"])
    def lines_with(document: str, word: str) -> str:
        """Copy the lines that have WORD."""
        return "\n".join(line for line in document.splitlines() if word in line)

    server = serve(['1. a = LINES_WITH(CTX, "Mara") : Copy them\n'])
    (tmp_path / "story.txt").write_text("Mara left.\nTom stayed.\n", encoding="utf-8")
    reader = pearl.Pearl(model="some-model", library=["core", lines_with], store="work.db")
    answer = reader.ask_sync("story.txt", "Who left?")
    assert re.search(r"LINES_WITH\(CTX, WORD.*Copy the lines that have WORD", server.asked[0].text)
    assert (answer.text, [one.text for one in answer.evidence]) == ("Mara left.", ["Mara left."])
    assert "Mara left." in call("trace", answer.run, "--store", "work.db").out


@pytest.mark.parametrize(
    "plan",
    [
        "l = ROWS(CTX)\nn = COUNT(l)",
        "l = WRAPPED(CTX)\nn = COUNT(l)",
        "l = ROWS(CTX)\nm = CONCAT(l)\nn = COUNT(l)\nreturn n, m",
        "l = ROWS(CTX)\nm = SAY(each l)\nn = COUNT(l)\nreturn n, m",
    ],
)
def test_what_stands_in_the_words_of_a_function_is_no_quotation(plan: str, tmp_path: Path):
    @pearl.action
    def rows(document: str) -> list[str]:
        """Split it into its lines."""
        return document.splitlines()

    story = 'Ann came in.\n"I have never liked the sea at all," she said.\nBen left.\n'

    @pearl.action
    def say(x: str) -> str:
        """Say it."""
        return x

    wrapped = tmp_path / "wrapped.actions"
    body = "  plan:\n    1. l = ROWS(CTX)\n"
    wrapped.write_text(f"WRAPPED(CTX) -> list : Split it.\n{body}", encoding="utf-8")
    reader = pearl.Pearl(model="offline", library=["core", rows, say, wrapped], store=None)
    answer = reader.run_sync(plan, pearl.Source("s", story))
    assert (answer.text[:1], answer.evidence) == ("3", ())


def test_functions_that_block_leave_the_others_running():
    together = threading.Barrier(3, timeout=60)

    @pearl.action
    def wait(x: str) -> str:
        """Wait for the others."""
        together.wait()
        return x

    plan = "".join(f'{at}. s{at} = WAIT("{at}") : Wait\n' for at in (1, 2, 3))
    assert run(plan, wait).text == "1\n\n2\n\n3"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ((1, ["x", 2.5], True), "1\nx\n2.5\nyes"),
        ({"a": 1, "b": ["x"]}, "a: 1\nb: x"),
        ("text", "text"),
    ],
)
def test_values_come_and_go_as_python_has_them(given: Any, shown: str):
    seen: list[Any] = []

    @pearl.action
    def make(x: str) -> Any:
        """Make it."""
        return given

    @pearl.action
    def look(x: Any) -> str:
        """Look at it."""
        seen.append(x)
        return x if isinstance(x, str) else str(len(x))

    plan = '1. a = MAKE("x") : Make\n2. b = LOOK(a) : Look\nreturn a\n'
    assert run(plan, make, look).text == shown
    assert seen == [list(given) if isinstance(given, tuple) else given]


def failing(text: str) -> str:
    """Fail."""
    raise RuntimeError(f"no way:\n {text}")


def none(text: str) -> Any:
    """Give nothing."""


def wrong(text: str) -> int:
    """Give a text."""
    return text  # type: ignore[return-value]


def typed(number: float) -> float:
    """Take a number."""
    return number


def empty(x: str) -> str:
    """Find what is nowhere."""
    return next(word for word in x.split() if word == "nowhere")


class OddPairs(dict[str, int]):
    """Pairs that cannot be read."""

    def items(self) -> Any:
        raise RuntimeError("no pairs")


class Endless(list[str]):
    """A list without an end."""

    def __iter__(self) -> Iterator[str]:
        return itertools.repeat("x")


def odd(text: str) -> Any:
    """Give what cannot be read."""
    return [OddPairs(a=1)]


async def later(text: str) -> Any:
    """Give what cannot be read."""
    return OddPairs(a=1)


def endless(text: str) -> Any:
    """Give what has no end."""
    return Endless(["x"])


def nested(text: str) -> Any:
    """Give what holds itself."""
    held: list[Any] = []
    held += [held] * 9
    return held


class OddError(BaseException):
    """One that does not even say what it is."""

    def __str__(self) -> str:
        raise ValueError("no text")


def ending(error: BaseException) -> Callable[[str], str]:
    def ends(x: str) -> str:
        """End."""
        raise error

    return ends


async def cancelled(x: str) -> str:
    """Wait for what is cancelled."""
    other = asyncio.create_task(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(other.cancel)
    await other
    return x


@pytest.mark.parametrize(
    ("function", "reason", "said"),
    [
        *(
            (ending(error), "solver", f"ENDS failed: {said}")
            for error, said in (
                (SystemExit(3), "SystemExit: 3"),
                (GeneratorExit(), "GeneratorExit$"),
                (asyncio.CancelledError(), "CancelledError$"),
                (OddError(), "OddError: <exception str() failed>"),
            )
        ),
        (cancelled, "solver", "CANCELLED failed: CancelledError$"),
        (failing, "solver", "FAILING failed: RuntimeError: no way: x"),
        (empty, "solver", "EMPTY failed: RuntimeError: it raised StopIteration"),
        (odd, "solver", "ODD failed: RuntimeError: no pairs"),
        (later, "solver", "LATER failed: RuntimeError: no pairs"),
        (endless, "size", "its result is too deep, or has more than 5,000 characters (PEARL_"),
        (nested, "value", "NESTED: it gave what is no text, .* (too deep)"),
        (none, "value", "NONE: it gave what is no text, .* (NoneType)"),
        (wrong, "value", "WRONG is to give number, and gave text"),
        (typed, "value", "NUMBER is to be number, and is text"),
    ],
)
def test_what_goes_wrong_fails_its_step_in_one_line(
    function: Callable[..., Any], reason: str, said: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PEARL_CHARACTERS", "5000")
    own = pearl.action(function)
    plan = f'1. t = ECHO("x") : Say it\n2. a = {own.action.name}(t) : Do it\n'
    with pytest.raises(pearl.RunError, match=said.replace("(", r"\(").replace(")", r"\)")) as told:
        run(plan, own, pearl.action(echo))
    assert [one.reason for one in told.value.failures] == [reason]
    assert "\n" not in str(told.value)


def echo(x: str) -> Any:
    """Say it again."""
    return x


def test_a_limit_of_time_and_ctrl_c_are_no_failures_of_a_function():
    @pearl.action
    async def wait(x: str) -> str:
        """Wait."""
        await asyncio.sleep(60)
        return x

    async def timed() -> None:
        reader = pearl.Pearl(model="offline", library=["core", wait], store=None)
        async with asyncio.timeout(0.2):
            await reader.run('a = WAIT("x")', pearl.Source("s", STORY))

    with pytest.raises(TimeoutError):
        asyncio.run(timed())
    with pytest.raises(KeyboardInterrupt):
        run('a = ENDS("x")', pearl.action(ending(KeyboardInterrupt())), store=None)


def test_a_key_that_a_function_tells_is_nowhere(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PRICES_API_KEY", "pk-abcdef123456")

    @pearl.action
    def price(x: str) -> str:
        """Look a price up."""
        raise OSError("403 for https://prices.example/?key=pk-abcdef123456")

    with pytest.raises(pearl.RunError, match=r"key=\*\*\*"):
        run('1. a = PRICE("x") : Look\n', price, store="work.db")
    assert b"pk-abcdef" not in b"".join(file.read_bytes() for file in Path().glob("work.db*"))


def test_only_what_may_be_kept_is_kept_and_another_function_is_another_action():
    made: list[str] = []

    def look_up(x: str) -> str:
        """Look it up."""
        made.append(x)
        return x

    plan = '1. a = LOOK_UP("x") : Look\n'
    for own in (pearl.action(look_up), pearl.action(traits=["cacheable"])(look_up)):
        made.clear()
        for _ in range(3):
            assert run(plan, own, store="work.db").text == "x"
        assert len(made) == (1 if own.action.traits else 3)
    assert run(plan, own, store="work.db", cache=False).text == "x"
    assert len(made) == 2

    def digest() -> str:
        @pearl.action
        def look_up(x: str) -> str:
            """Look it up."""
            return x + x

        return pearl.load_library(look_up.action).digest

    assert digest() != pearl.load_library(pearl.action(look_up).action).digest
    assert digest() == digest()


def adding(more: object) -> Callable[[float], float]:
    return lambda x: x + more  # type: ignore[operator,no-any-return]


def pair() -> tuple[Callable[[float], float], ...]:
    return (lambda x: x + 1), (lambda x: x + 2)


class Scaled:
    """A metric with a field."""

    def __init__(self, by: float) -> None:
        self.by = by

    def score(self, question: str, gold: str, answer: str) -> float:
        return self.by


@pytest.mark.parametrize(
    "texts",
    [
        ("def made(x): return x + 1", "def made(x): return x + 2"),
        ("def made(x): return x in {'a', 'b'}", "def made(x): return x in {'a', 'c'}"),
        ("def made(x): return [y + 1 for y in x]", "def made(x): return [y + 2 for y in x]"),
        (
            "class made:\n def next(self, run): return 1",
            "class made:\n def next(self, run): return 2",
        ),
        ("made = adding(1)", "made = adding(2)"),
        ("made = adding(adding(1))", "made = adding(made)"),
        ("made = adding([1])", "made = adding([2])"),
        ("made = partial(round, 1)", "made = partial(round, 2)"),
        ("made = partial(round, 1)", "made = partial(abs, 1)"),
        ("def made(x, y=1): return y", "def made(x, y=2): return y"),
        ("y = 1\ndef made(x): return y", "y = 2\ndef made(x): return y"),
        *(
            (f"y = {one}\ndef made(x): return y", f"y = {other}\ndef made(x): return y")
            for one, other in (("10**5000", "-(10**5000)"), ("{10**5000: 1}", "{10**5001: 1}"))
        ),
        ("made = Scaled(1)", "made = Scaled(2)"),
        ("made = Scaled(1).score", "made = Scaled(2).score"),
        ("made = pair()[0]", "made = pair()[1]"),
        ("def made(x): return made(x)", "def made(x): return made(x + 1)"),
    ],
)
def test_what_was_typed_at_a_prompt_is_told_apart(texts: tuple[str, str]):
    """Where a function has no text, and where functions of one text add different numbers."""

    def typed(text: str) -> str:
        given: dict[str, Any] = {"adding": adding, "made": str, "partial": partial, "pair": pair}
        given["Scaled"] = Scaled
        exec(text, given)
        return source_digest(given["made"])

    assert typed(texts[0]) == typed(texts[0]) != typed(texts[1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "class made:\n def __call__(self, x: str) -> str:\n  'Read it.'",
            "no function with a name",
        ),
        ("made = lambda x: x", "no function with a name"),
        ("def made(self, x: str) -> str: 'Read it.'", "a method of a class"),
        ("def made(x: str) -> str: return x", "no docstring"),
        ("def made(x: str, *, y: str) -> str: 'Take a keyword.'", "y has a default or a keyword"),
        ("def made(x: str, y: str = '') -> str: 'Take both.'", "y has a default or a keyword"),
        ("def made(x: bytes) -> str: 'Take bytes.'", "x is no text"),
        ("def made(x: str) -> bytes: 'Give bytes.'", "gives no value"),
        ("def made(x: str) -> None: 'Give nothing.'", "gives no value"),
        ("def made() -> str: 'Take nothing.'", "takes nothing"),
        ("def made(document: list[str]) -> str: 'Take lines.'", "the document is given as a text"),
        ("def concat(x: str) -> str: 'Join.'\nmade = concat", "CONCAT is no name that is free"),
        ("def made(x: 'Missing') -> str: 'Miss.'", "its types cannot be read .*Missing"),
    ],
)
def test_a_function_that_can_be_no_action_says_why(text: str, said: str):
    given: dict[str, Any] = {}
    exec(text, given)
    with pytest.raises(pearl.InputError, match=said) as told:
        pearl.action(given["made"])
    assert "can be no action" in str(told.value)


def test_names_and_traits_are_checked_too():
    def fine(x: str, y: int | float, z: Mapping[str, int]) -> str:
        """Be fine."""
        return x

    assert print_action(pearl.action(fine).action) == (
        "FINE(X: text, Y: number, Z: pairs) : Be fine."
    )
    with pytest.raises(pearl.InputError, match="there is no trait pur: use pure"):
        pearl.action(traits=["pur"])(fine)
    with pytest.raises(pearl.InputError, match="no name that is free"):
        pearl.action(name="NOT FREE")(fine)
