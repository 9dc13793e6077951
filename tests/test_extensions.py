"""Strategies, actions, metrics and tools of one's own, from Python and from packages."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest

import pearl
from pearl.evaluate.methods import find_method
from pearl.evaluate.report import failures
from pearl.lang.entry_points import extension, failure_text
from pearl.lang.errors import install_command
from pearl.strategies.registry import find_strategy
from tests.scripted_models import Mind
from tests.server import Serve
from tests.shell import STORY, call, write_rows

MODULE = '''\
import pearl

PLAN = '1. said = FIND_REASON(CTX, "Mara leaves") : Find why'


@pearl.action
def shout(text: str) -> str:
    """Write TEXT in capitals."""
    return text.upper()


@pearl.action(traits=["verbatim"])
def first_line(ctx: str) -> str:
    """Copy the first line of CTX."""
    return ctx.splitlines()[0]


own = [shout, first_line]


class Fixed:
    """One step, whatever is asked."""

    def __init__(self, inputs):
        self.inputs = inputs

    async def next(self, run):
        if run.plan.steps:
            return pearl.Return(("said",))
        return pearl.Steps(pearl.parse(PLAN).plan.steps)


def first_word(question, gold, answer):
    """Whether both begin alike."""
    return answer.split()[:1] == gold.split()[:1]


async def strict(question, gold, answer):
    return 2 if "two" in gold else answer == gold


NUMBER = 5
'''
GROUPS = {"actions": "own", "strategies": "Fixed", "metrics": "first_word", "tools": "shout"}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package, as an installer leaves it."""
    points = "".join(
        f"[pearl.{group}]\nown = readers:{name}\nbroken = broken_reader:it\n"
        "wrong = readers:NUMBER\nleaving = leaving_reader:it\n"
        for group, name in GROUPS.items()
    )
    about = tmp_path / "installed" / "pearl_readers-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Name: pearl-readers\nVersion: 1\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(points, encoding="utf-8")
    (about.parent / "readers.py").write_text(MODULE, encoding="utf-8")
    (about.parent / "broken_reader.py").write_text(
        'raise OSError("no\\nlicence: beware-of-it")', "utf-8"
    )
    (about.parent / "leaving_reader.py").write_text("raise SystemExit(3)", "utf-8")
    monkeypatch.setenv("LICENCE_KEY", "beware-of-it")
    monkeypatch.syspath_prepend(about.parent)
    for name in ("readers", "broken_reader", "leaving_reader"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    row = {"id": "q", "question": "Why does Mara leave?", "document": "story.txt"}
    rows = [{**row, "id": gold, "gold": gold} for gold in ("The sea", "It burned")]
    return Path(write_rows(tmp_path / "q.jsonl", *rows))


def reading(body: dict[str, Any]) -> str:
    return "The Fund closed it."


def test_only_what_is_named_is_loaded(installed: None):
    pearl.load_library("core", "quality")
    find_strategy("pearl")
    find_method("zero-shot")
    assert "readers" not in sys.modules
    assert "SHOUT" in pearl.load_library("core", "own").actions
    assert "readers" in sys.modules
    assert find_strategy("own").about == "One step, whatever is asked."


def test_what_is_installed_meanwhile_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    assert extension("tools", "late") is None
    about = tmp_path / "late-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: late\nVersion: 1\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[pearl.tools]\nlate = math:pi\n", encoding="utf-8")
    assert extension("tools", "late") == math.pi


@pytest.mark.parametrize(("origin", "package"), [
    ({"url": "file:///home/ada/my%20pearl"}, "'/home/ada/my pearl[view]'"),
    ({"url": "file:///o%27brien"}, "'/o'\"'\"'brien[view]'"),
    ({"url": "https://a.b/pearl.whl"}, "'pearl[view] @ https://a.b/pearl.whl'"),
    ({"url": "https://a.b/c", "vcs_info": {"vcs": "git", "commit_id": "f0"}, "subdirectory": "d"},
     "'pearl[view] @ git+https://a.b/c@f0#subdirectory=d'"),
    ({}, "'pearl[view]'"),
])  # fmt: skip
def test_an_extra_is_installed_from_where_pearl_is_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any], package: str
):
    monkeypatch.syspath_prepend(tmp_path)
    about = tmp_path / "pearl-9.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: pearl\nVersion: 9\n", encoding="utf-8")
    (about / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    assert install_command("view") == f"pip install {package}"


@pytest.mark.parametrize("model", ["offline", "m"])
def test_what_a_function_copies_is_the_answer(
    installed: None, serve: Serve, questions: Path, model: str
):
    serve(reading)
    words = ["run", "-", "story.txt", "--library", "own", "--model", model]
    told = call(*words, stdin="1. a = FIRST_LINE(CTX) : Copy it\n").out
    assert "The passages below are the answer.\n" in told


def test_commands_take_what_a_package_offers(installed: None, serve: Serve, questions: Path):
    serve(reading)
    Path("x.plan").write_text('1. a = SHOUT("x") : Shout\n', encoding="utf-8")
    assert "PRL201" in call("lint", "x.plan").out
    Path("own").mkdir()  # A folder is no library, and hides none.
    assert "PRL201" not in call("lint", "x.plan", "--library", "core", "--library", "own").out
    asked = call("ask", "story.txt", "Why?", "--strategy", "own", "--json").json
    assert (asked["answer"], asked["calls"]) == ("The Fund closed it.", 1)
    done = call("eval", "questions", "--data", questions, "--methods", "own,zero-shot", "--metric",
                "own", "--json")  # fmt: skip
    assert done.code == 0, done.err
    tables = {one.get("table"): one for one in done.json["report"]["blocks"]}
    [planned] = tables["What methods plan with"]["rows"]
    assert (planned["method"], planned["demonstrations"], planned["handlers"]) == (
        "own", "0", "model",
    )  # fmt: skip
    scores = pearl.Pearl(model="some-model", store=".pearl/store.db").evaluate_sync(
        "questions", questions, methods=["own", "zero-shot"], metric="own"
    )
    assert {(one.method, one.id): one.score for one in scores.results} == {
        (method, gold): float(gold == "The sea")
        for method in ("own", "zero-shot")
        for gold in ("The sea", "It burned")
    }
    assert dict(scores.about)["metric"].startswith("own (sha256 ")
    # The run of the command was the one that the object found again.
    assert dict(scores.about)["run"].startswith(done.json["run"])
    reader = pearl.Pearl(model="some-model", library=["core", "own"])
    scores = reader.evaluate_sync("questions", questions, methods=["own"])
    assert scores.planned_with["own"] == ("core, own", "8", "0", "model and function")


def test_a_tool_of_a_package(installed: None):
    Path("t.toml").write_text('[loud]\nkind = "python"\nentry = "own"\n', encoding="utf-8")
    shown = call("tools", "check", "t.toml")
    assert "loud: Write TEXT in capitals." in shown.out
    assert "the function own of an installed package" in shown.out
    assert call("tools", "call", "t.toml", "loud", "text=quiet").out == "QUIET\n"
    for entry, said in (("broken", "no licence"), ("none", "no installed"), ("wrong", "is to be")):
        text = f'[loud]\nkind = "python"\nentry = "{entry}"\n'
        Path("t.toml").write_text(text, encoding="utf-8")
        assert said in call("tools", "check", "t.toml").out


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (("lint", "x.plan", "--library"), "actions"),
        (("ask", "story.txt", "Why?", "--model", "offline", "--strategy"), "strategies"),
        (("eval", "questions", "--data", "q.jsonl", "--model", "offline", "--metric"), "metrics"),
        (("refine", "q.jsonl", "-o", "demos", "--model", "offline", "--metric"), "metrics"),
        (("eval", "questions", "--data", "q.jsonl", "--model", "offline", "--methods"), "methods"),
    ],
)
def test_a_broken_one_is_one_clear_line(
    installed: None, questions: Path, words: tuple[str, ...], names: str
):
    Path("x.plan").write_text('1. a = SHOUT("x") : Shout\n', encoding="utf-8")
    for name, said in (
        ("broken", "broken of the package pearl-readers cannot be loaded (OSError: no licence: "
         "***)."),
        ("leaving", "leaving of the package pearl-readers cannot be loaded (SystemExit: 3)."),
        ("wrong", {"actions": "is to offer actions", "metrics": "is to be a function"}.get(
            names, "is a class or a function")),
        ("nobodys", {"actions": "no library is named nobodys", "metrics": "No installed package",
                     "strategies": "no strategy nobodys"}.get(names, "no method nobodys")),
    ):  # fmt: skip
        done = call(*words, name)
        assert (done.code, len(done.err.splitlines())) == (2, 1), done.err
        assert said in done.err
    mistyped = call(*words, "brokn").err
    assert "brokn (close: broken): use one of " in mistyped
    assert "broken, leaving, own, wrong" in mistyped


def test_a_path_below_the_working_folder_is_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("PWD", "OLDPWD"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("REDIS_PASS", "beware-of-it")
    with pytest.raises(OSError, match="No such file") as caught:
        (tmp_path / "own" / "words.txt").read_text("utf-8")
    assert f"'{tmp_path}/own/words.txt'" in failure_text(caught.value)
    assert failure_text(ValueError("beware-of-it")) == "ValueError: ***"


def test_a_strategy_from_python(installed: None, serve: Serve, questions: Path):
    import readers  # type: ignore[import-not-found]

    server = serve(reading)
    reader = pearl.Pearl(model="some-model", library="quality", store="work.db")
    answer = reader.ask_sync("story.txt", "Why does Mara leave?", strategy=readers.Fixed)
    assert (answer.text, answer.plan.count("FIND_REASON")) == ("The Fund closed it.", 1)
    asked = len(server.asked)
    done = reader.batch_sync(questions, strategy=readers.Fixed)
    assert [row["status"] for row in done.rows] == ["answered"] * 2
    assert len(server.asked) == asked
    scores = reader.evaluate_sync("questions", questions, methods=[readers.Fixed, "zero-shot"])
    assert scores.methods == ("Fixed", "zero-shot")
    assert [one.words for one in scores.results_of("Fixed")] == ["The Fund closed it."] * 2
    assert {one.calls for one in scores.results} == {1}

    class Fixed(readers.Fixed):
        """Another of the name."""

    kept = dict(scores.about)["run"]
    assert dict(reader.evaluate_sync("questions", questions, methods=[Fixed]).about)["run"] != kept
    with pytest.raises(pearl.InputError, match="is a class or a function"):
        reader.ask_sync("story.txt", "Why?", strategy=5)  # type: ignore[arg-type]

    class Failing(Fixed):
        async def next(self, run: pearl.Run) -> Any:
            raise KeyError("beware-of-it")

    failed = reader.batch_sync(questions, strategy=Failing).rows[0]["error"]
    assert failed["message"] == "The strategy Failing failed: KeyError: '***'"

    class Ending(Fixed):
        async def next(self, run: pearl.Run) -> Any:
            raise SystemExit(3)

    failed = reader.batch_sync(questions, strategy=Ending).rows[0]["error"]
    assert failed["message"] == "The strategy Ending failed: SystemExit: 3"

    class Odd(Fixed):
        gives: object = None

        async def next(self, run: pearl.Run) -> Any:
            return self.gives

    for gives, said in (
        (None, "next gave NoneType; let it give Steps or Return"),
        (pearl.Return(("why",)), "Return names why, and the steps that ran are none"),
        (pearl.Return("why"), "Return was given 'why'"),  # type: ignore[arg-type]
    ):
        Odd.gives = gives
        with pytest.raises(pearl.RunError, match=f"The strategy Odd failed: .*Error: {said}"):
            reader.ask_sync("story.txt", "Why?", strategy=Odd)
    with pytest.raises(pearl.InputError, match=r"have one name \(Fixed\)"):
        reader.evaluate_sync("questions", questions, methods=[Fixed, readers.Fixed])

    @pearl.action
    def say(text: str) -> str:
        """Give TEXT as it is."""
        return text

    class OnePrompt(Fixed):
        async def next(self, run: pearl.Run) -> pearl.Steps | pearl.Return:
            if run.plan.steps:
                return pearl.Return(("answer",))
            prompt = pearl.OwnPrompt(f"Mine: {{{run.question}}}", "Be brief.")
            reply = await self.inputs.caller(prompt, "one-prompt")
            step = pearl.Step("answer", "SAY", (pearl.Literal(reply.text),))
            return pearl.Steps((step,), declares=(say.action,))

    class Lost(Fixed):
        async def next(self, run: pearl.Run) -> pearl.Steps:
            return pearl.Steps(pearl.parse('1. a = NO_SUCH("x") : Find').plan.steps)

    of = "The plan cannot run with the actions of quality: NO_SUCH does not exist."
    with pytest.raises(pearl.RunError, match=of):
        reader.ask_sync("story.txt", "Why?", strategy=Lost)

    server = serve(["A {name} in braces."])
    for calls in (1, 0):
        own = pearl.ask_sync("story.txt", "Why?", model="m", strategy=OnePrompt, store="one.db")
        assert (own.text, own.calls - own.kept) == ("A {name} in braces.", calls)
    [sent] = server.asked
    assert [message["content"] for message in sent.body["messages"]] == [
        "Be brief.",
        "Mine: {Why?}",
    ]
    Fixed.__name__ = "pearl"
    with pytest.raises(pearl.InputError, match="give yours another name"):
        reader.ask_sync("story.txt", "Why?", strategy=Fixed)


def test_refining_and_evaluating_by_a_metric_of_ones_own(
    installed: None, serve: Serve, questions: Path
):
    import readers

    plan = '1. a = FIND_REASON(CTX, "Mara leaves") : Find why'
    serve(lambda body: plan if "write reading plans" in str(body) else reading(body))
    reader = pearl.Pearl(model="some-model")
    refined = reader.refine_sync(questions, "demos", rounds=0, metric=readers.first_word)
    assert [row["correct"] for row in refined.rows] == [True, False]
    assert [path.name for path in refined.plans] == ["The_sea.plan"]
    shown = pearl.Pearl(model="some-model", demonstrations=refined.plans[0].parent)
    assert shown.plan_sync("Why?").plan
    scores = reader.evaluate_sync(
        "questions", questions, methods=["zero-shot"], metric=lambda question, gold, answer: 0.25
    )
    assert [one.score for one in scores.results] == [0.25, 0.25]
    scores = reader.evaluate_sync(
        "questions", questions, methods=["zero-shot"], metric=lambda *_: numpy.bool_(True)
    )
    assert [one.score for one in scores.results] == [1, 1]

    def fails(question: str, gold: str, answer: str) -> float:
        return 2 if gold == "The sea" else sys.exit(gold)

    wrong = reader.evaluate_sync("questions", questions, methods=["zero-shot"], metric=fails)
    assert [one.error for one in wrong.results] == [
        "The answer was not scored: The metric fails gave 2: let it give 0 to 1.",
        "The answer was not scored: The metric fails failed: SystemExit: It burned",
    ]
    assert (
        "zero-shot: 2 questions could not be answered or scored, 1 of them so: The answer was not "
        "scored: The metric fails gave 2: let it give 0 to 1; 1 of them so: The answer was not "
        "scored: The metric fails failed: SystemExit: It burned."
    ) in wrong.notes
    several = [replace(wrong.results[0], error=f"No {at}.") for at in (1, 1, 2, 3, 4, 5, 6)]
    assert [*failures(replace(wrong, results=tuple(several)))] == [
        "zero-shot: 7 questions could not be answered or scored, 2 of them so: No 1; 1 of them so: "
        "No 2; 1 of them so: No 3; 1 of them so: No 4; 2 for other reasons."
    ]


def test_a_metric_that_fails_is_named_as_the_reason_and_ends_with_exit_code_1(
    installed: None, serve: Serve, questions: Path, monkeypatch: pytest.MonkeyPatch
):
    import readers

    def fails(question: str, gold: str, answer: str) -> float:
        return 1.0 if gold == "The sea" else float(gold)

    monkeypatch.setattr(readers, "first_word", fails)
    plan = '1. a = FIND_REASON(CTX, "Mara leaves") : Find why'
    serve(lambda body: plan if "write reading plans" in str(body) else reading(body))
    done = call("eval", "questions", "--data", questions, "--methods", "zero-shot", "--metric",
                "own", "--json")  # fmt: skip
    assert (done.code, done.json["answered"], done.json["failed"]) == (1, 1, {"metric": 1})
    assert "1 trial failed" in done.err
    why = "The metric own failed: ValueError: could not convert string to float: 'It burned'"
    assert why in call("runs", "show", "last").out
    refined = call("refine", questions, "-o", "demos", "--rounds", "0", "--metric", "own", "--json")
    assert (refined.code, refined.json["failed"]) == (1, {"metric": 1})
    assert why in call("runs", "show", "last").out


def test_a_metric_is_told_the_words_of_options(serve: Serve, tmp_path: Path):
    told: list[tuple[str, str, str]] = []

    async def metric(question: str, gold: str, answer: str) -> bool:
        told.append((question, gold, answer))
        return gold == answer

    serve(lambda body: "A" if "A. She left" in str(body) else "She left.")
    row = {"id": "1", "question": "Why?", "document": {"text": STORY}, "gold": "B",
           "options": ["She left", "He left"]}  # fmt: skip
    write_rows(tmp_path / "o.jsonl", row)
    reader = pearl.Pearl(model="some-model")
    reader.evaluate_sync("questions", tmp_path / "o.jsonl", methods=["zero-shot"], metric=metric)
    assert told == [("Why?", "He left", "She left")]


def test_rebel_asks_functions(tmp_path: Path):
    who = "Who directed Jaws?"

    @pearl.action
    def search(query: str) -> str:
        """Look a film up."""
        return "Steven Spielberg" if query == who else "nothing"

    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    mind = Mind(splits={}, tools={who: ["search"]}, knows={})
    reader = pearl.Pearl(model=mind)
    answer = reader.ask_sync("story.txt", who, strategy="rebel", tools=[search])
    assert answer.text == "Steven Spielberg"
    assert mind.given("rebel_tool")

    @pearl.action
    def reads(document: str) -> str:
        """Read it."""
        return document

    with pytest.raises(pearl.InputError, match="READS is no tool"):
        reader.ask_sync("story.txt", who, strategy="rebel", tools=[reads])
    with pytest.raises(pearl.InputError, match="A tool is given as what pearl.action made"):
        reader.ask_sync("story.txt", who, strategy="rebel", tools=[len])  # type: ignore[list-item]
    with pytest.raises(pearl.InputError, match="asks no tools"):
        reader.ask_sync("story.txt", who, tools=[search])
