"""Data sets, methods, and evaluations as a whole."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.stub import Stub
from pearl.commaqa.search import SearchBudget
from pearl.commaqa.world import World, read_world
from pearl.evaluate.datasets import DATASETS, draw_sample, find_dataset
from pearl.evaluate.datasets.base import NO_DOCUMENT, Example
from pearl.evaluate.datasets.multihop import MultiHop, SupportingFact, compose
from pearl.evaluate.evaluation_job import REASONING, Trial, Trials, read_labels, trial_tasks
from pearl.evaluate.methods import METHODS, find_method
from pearl.evaluate.methods.base import (
    EXECUTE,
    LIBRARY,
    STEPWISE,
    UNREFINED,
    EvaluationContext,
    HopSearch,
    load_tool_file,
    setups_in_use,
)
from pearl.evaluate.methods.strategies import orders_of
from pearl.evaluate.results import read_evaluation
from pearl.evaluate.setup import (
    Demonstrations,
    Preparation,
    Sample,
    make_context,
    read_sample,
    without_evaluated,
)
from pearl.jobs.workers import Task
from pearl.lang.errors import InputError
from pearl.lang.library import library_source, load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.lint.checker import check
from pearl.models.constraints import GRAMMARS
from pearl.prompts.calls import ExecuteStep, FillSchema, MapAnswer, NextStep, WritePlan
from pearl.retrieval.index import build_index
from pearl.runtime.context import UNLIMITED
from pearl.runtime.trace import export_trace
from pearl.session import open_session
from pearl.strategies.pearl import load_demonstrations
from pearl.strategies.registry import Limits, find_strategy
from tests.batches import killed_once
from tests.scripted_models import Scripted
from tests.server import Server, completion, failing
from tests.shell import STORY, Result, asked_of, call, one_line, write_rows

QUALITY = find_dataset("quality")
OPTIONS = ["She was ill", "The Fund closed it", "Tom drove her out", "She wanted to sail"]
PLAN = '1. a = FIND_REASON(CTX, "Mara leaves") : Find why she leaves'


def official(context: list[int] | None = None, **more: Any) -> dict[str, Any]:
    """A question as QuALITY's own files have it."""
    validation = [{"untimed_eval2_context": one} for one in context or []]
    return {
        "question": "Why does Mara  leave?",
        "question_unique_id": "52845_75VB1ISR_1",
        "options": OPTIONS,
        "gold_label": 2,
        "validation": validation,
        **more,
    }


def write_articles(folder: Path, *questions: dict[str, Any], **more: Any) -> str:
    row = {"article_id": "1", "title": "The\nLighthouse", "article": STORY, "source": "Gutenberg",
           "questions": list(questions), **more}  # fmt: skip
    return write_rows(folder / "quality.jsonl", row)


def many(count: int) -> list[dict[str, Any]]:
    return [
        {"qid": at, "question": f"Why does Mara leave, for the {at}. time?", "options": OPTIONS,
         "gold_label": 1 + at % 4, "pearl_subset": "dev_long" if at % 2 else "dev_short"}
        for at in range(count)
    ]  # fmt: skip


def test_an_official_row(tmp_path: Path):
    [example] = QUALITY.read(write_articles(tmp_path, official([4, 3, 3])))
    assert example.id == "52845_75VB1ISR_1"
    assert example.question == "Why does Mara leave?"
    assert (example.document.name, example.document.text) == ("The Lighthouse", STORY)
    assert (example.options, example.gold, example.split) == (tuple(OPTIONS), "B", "long")
    assert example.labels == {"context": ("3 to 3.5",), "source": ("Gutenberg",)}
    assert (QUALITY.score(example, "B"), QUALITY.score(example, "A")) == (1.0, 0.0)


def test_of_options_with_one_text_the_first_is_the_right_one_and_the_chosen_one(tmp_path: Path):
    twice = [OPTIONS[1], OPTIONS[0], OPTIONS[1], OPTIONS[3]]
    row = official(options=twice, gold_label=3)
    assert [example.gold for example in QUALITY.read(write_articles(tmp_path, row))] == ["A"]
    evaluated(tmp_path, [row], reader(lambda _: "C"), "--methods", "mcq")
    [chosen] = results(tmp_path)["mcq"]
    # The third place has, order by order, the third, second, first and fourth option.
    assert (chosen.answer, chosen.orders, chosen.score) == ("A", ("A", "B", "A", "D"), 1.0)


@pytest.mark.parametrize(
    ("context", "split", "label"),
    [([1, 2], "short", "1 to 3"), ([2, 3], "short", "1 to 3"), ([3, 3], "long", "3 to 3.5"),
     ([4, 4], "long", "3.5 to 4"), ([3, 4], "long", "3.5 to 4"), ([], "other", None)],
)  # fmt: skip
def test_the_split_follows_from_the_context_score(tmp_path, context, split, label):
    [example] = QUALITY.read(write_articles(tmp_path, official(context)))
    assert example.split == split
    assert example.labels.get("context") == ((label,) if label else None)


def test_a_row_that_names_its_subset(tmp_path: Path):
    rows = [*many(2), {**many(1)[0], "qid": 9, "pearl_subset": None}]
    found = list(QUALITY.read(write_articles(tmp_path, *rows)))
    assert [(one.id, one.split) for one in found] == [
        ("0", "short"), ("1", "long"), ("9", "other"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (official(gold_label=5), "question 1: gold_label is to be a number from 1 to 4"),
        (official(gold_label=True), "gold_label"),
        (official(options=["one"]), "question 1: Give 2 to 26 options"),
        (official(options="ab"), "options is to be a list"),
        (official(question=" "), "question 1 has no question"),
        (official(question_unique_id="of the first"), "question 2 has the id"),
    ],
)
def test_a_row_that_cannot_be_used(tmp_path: Path, row: dict[str, Any], words: str):
    first = official(question_unique_id="of the first")
    path = write_articles(tmp_path, *([first] if "question 2" in words else []), row)
    with pytest.raises(InputError, match="quality.jsonl:1") as error:
        list(QUALITY.read(path))
    assert words in str(error.value)


def test_the_twenty_articles(shared: Path):
    found = list(QUALITY.read(str(shared / "quality" / "dev_20_articles.jsonl")))
    assert len(found) == 351
    assert len({one.document.digest for one in found}) == 20
    long = read_sample(
        "quality", str(shared / "quality" / "dev_20_articles.jsonl"), "long"
    ).examples
    assert len(long) == 58
    assert all(one.gold in "ABCD" for one in found)


@pytest.mark.parametrize("name", ["quality", "hotpotqa", "letters"])
def test_own_questions_are_told_from_a_data_sets(tmp_path: Path, name: str):
    path = write_own(tmp_path)
    with pytest.raises(InputError, match=f"pearl eval questions --data {path} evaluates them"):
        read_sample(name, path)


def write_own(folder: Path, **more: Any) -> str:
    (folder / "story.txt").write_text(STORY, encoding="utf-8")
    row = {"id": 7, "question": "Who left?", "document": "story.txt", "gold": "Mara", **more}
    return write_rows(folder / "own.jsonl", row)


def test_a_person_s_own_questions(tmp_path: Path):
    own = find_dataset("questions")
    [example] = own.read(write_own(tmp_path))
    assert (example.id, example.gold, example.document.text) == ("7", "Mara", STORY)
    for answer, score in (("It was mara.", 1.0), ("Maras", 0.0), ("Tom", 0.0)):
        assert own.score(example, answer) == score
    [example] = own.read(write_own(tmp_path, gold=["Ada", "Mara"]))
    assert [own.score(example, answer) for answer in ("Ada", "mara", "Tom")] == [1.0, 1.0, 0.0]
    [example] = own.read(write_own(tmp_path, options=["Tom", "Mara"]))
    assert (example.gold, own.score(example, "B"), own.score(example, "A")) == ("B", 1.0, 0.0)
    file = Path(write_own(tmp_path, gold=None))
    file.write_text(file.read_text() + file.read_text().replace("7", "8"), encoding="utf-8")
    wanted = r'\(7\) and 1 more row: cannot be scored: give its gold answer as "gold", or leave'
    with pytest.raises(InputError, match=wanted):
        list(own.read(str(file)))
    row = {"id": "9", "document": "story.txt"}
    file.write_text(json.dumps(row), encoding="utf-8")
    with pytest.raises(InputError, match=r"neither a question.* \(9\): cannot be scored") as told:
        list(own.read(str(file)))
    assert "\n" not in str(told.value)


def test_a_person_s_own_questions_have_splits_and_labels(tmp_path: Path):
    row = {"question": "Who left?", "document": {"text": STORY}, "gold": "Mara"}
    told_apart = ({"split": "easy", "labels": {"kind": "who", "needs": ["one", "two"]}},
                  {"split": "hard", "labels": {"kind": "why"}}, {})  # fmt: skip
    rows = [{"id": at, **row, **each} for at, each in enumerate(told_apart * 5)]
    data = ("--data", write_rows(tmp_path / "own.jsonl", *rows))
    words = ("eval", "questions", *data, "--methods", "zero-shot", "--model", "offline")
    told = call(*words, "--json").json
    shown = {one.get("table"): one for one in told["report"]["blocks"]}
    assert [row["label"] for row in shown["Accuracy by kind"]["rows"]] == ["who", "why"]
    assert "Accuracy by needs" in shown
    assert "Own questions, hard split" in call(*words, "--split", "hard").out
    refused = one_line(call(*words, "--split", "none"), 2)
    assert "has no split none: use one of easy, hard, all." in refused
    # Rows of other tools have these keys with other meanings.
    for labels, kinds in (
        ("who", {"label": ("who",)}), (["a", 3, None], {"label": ("a", "3")}),
        ({"kind": [], "hops": 2, "": True}, {"hops": ("2",)}), (None, {}), ([[]], {}),
    ):  # fmt: skip
        file = write_rows(tmp_path / "own.jsonl", {**rows[0], "split": 1, "labels": labels})
        [example] = find_dataset("questions").read(file, "")
        assert (example.split, example.labels) == ("1", kinds)


def test_every_name_is_found_and_of_another_what_is_close_is_told():
    assert [find_dataset(one.name) for one in DATASETS] == list(DATASETS)
    assert [find_method(one.name) for one in METHODS] == list(METHODS)
    assert find_method("pearl@20").name == "pearl@20"
    for find, name, close in (
        (find_method, "zeroshot", "zero-shot"),
        (find_dataset, "question", "questions"),
        (find_strategy, "decmp", "decomp"),
        (library_source, "qualty", "quality"),
    ):
        with pytest.raises(InputError, match=rf" {name} \(close: {close}\): use one of"):
            find(name)


def test_each_option_stands_at_each_place_once():
    orders = orders_of(OPTIONS)
    assert orders[0] == (0, 1, 2, 3)
    for place in range(4):
        assert sorted(order[place] for order in orders) == [0, 1, 2, 3]
    assert len(orders_of(OPTIONS[:2])) == 2


@pytest.mark.parametrize(
    ("reply", "labels"),
    [
        ("why/reason", ("why/reason",)),
        ("Why/Reason, person", ("why/reason", "person")),
        ("- person\n- event\n- location", ("person", "event")),
        ("It is a personal matter.", ()),
        ("what if", ("what if",)),
        ("", ()),
    ],
)
def test_labels_of_reasoning(reply: str, labels: tuple[str, ...]):
    assert read_labels(reply) == labels


def demonstration(question: str) -> Source:
    return Source("a.plan", f"question: {question}\n\n{PLAN}\n")


def test_demonstrations_of_evaluated_questions_are_not_shown():
    example = Example("1", "Why does Mara leave?", Source("d", STORY))
    leaked, other = demonstration("why does  mara leave"), demonstration("Why does Tom stay?")
    kept = without_evaluated(Demonstrations((leaked, other), (leaked, other)), [example])
    assert kept.refined == kept.unrefined == (other,)
    assert kept.left_out == ("why does mara leave",)
    shared = make_context(load_library(), kept)
    for planning in shared.setups.values():
        assert all(one.question == "Why does Tom stay?" for one in planning.demonstrations)
    assert [len(shared.setups[name].demonstrations) for name in (LIBRARY, UNREFINED, EXECUTE)] == [
        1, 1, 0,
    ]  # fmt: skip


def test_a_library_of_each_size():
    library = load_library("core", "quality")
    shared = make_context(library, Demonstrations(()), (1, 20))
    for size in (1, 20):
        actions = shared.setups[f"@{size}"].library.actions.values()
        assert sum(not (one.is_builtin or one.variadic) for one in actions) <= size
        assert "ANSWER_FROM" in {one.name for one in actions}
        assert any(one.is_builtin for one in actions)


def evaluate(folder: Path, server: Server, *options: str) -> Result:
    return asked_of(
        folder, server.url, "eval", "quality", "--data", "quality.jsonl", "-o", "results.jsonl",
        *options,
    )  # fmt: skip


def evaluated(
    folder: Path, questions: Sequence[dict[str, Any]], script: Any, *options: str
) -> tuple[Result, Server]:
    """How an evaluation of some questions ended, and the endpoint with what it was asked."""
    write_articles(folder, *questions)
    with Server(script) as server:
        done = evaluate(folder, server, *options)
    return done, server


def reader(choose: Callable[[str], str], label: str = "person") -> Callable[[dict[str, Any]], Any]:
    """Plans with one step; options by ``choose``, given the prompt."""

    def script(body: dict[str, Any]) -> str:
        messages = [str(message["content"]) for message in body["messages"]]
        if "write reading plans" in messages[0]:
            return PLAN
        if "sort questions" in messages[0]:
            return label
        if "CHOOSE_OPTION" in messages[-1] or "Reply with the option's letter" in messages[-1]:
            return choose(messages[-1])
        return "The Fund closed it."

    return script


def results(folder: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for one in read_evaluation(str(folder / "results.jsonl")).results:
        found.setdefault(one.method, []).append(one)
    return found


def test_each_method_asks_what_it_is_to_ask(tmp_path: Path):
    families = ("zero-shot", "cot", "mcq", "pearl", "pearl-no-execution", "pearl-execute-only")
    names = ",".join(one.name for one in METHODS if one.name in families)
    done, server = evaluated(tmp_path, many(1), reader(lambda _: "A"), "--methods", names)
    assert done.code == 0, done.err
    steps = [asked.text for asked in server.steps()]
    called = [text.split("Action: ")[1].split("(")[0] for text in steps]
    assert sorted(called) == sorted(
        ["ANSWER_DIRECTLY", "REASON_STEP_BY_STEP", *["CHOOSE_OPTION"] * 4, "FIND_REASON",
         "ANSWER_WITH_PLAN"]
    )  # fmt: skip
    shown = next(text for text in steps if "Action: ANSWER_WITH_PLAN" in text)
    assert 'a = FIND_REASON(CTX, "Mara leaves")' in shown
    executing = [one.text for one in server.asked if "EXECUTE(CTX, X)" in one.text]
    assert executing
    assert not any("FIND_CHARACTER" in text.split("Actions\n")[-1] for text in executing[:1])
    assert {name: len(found) for name, found in results(tmp_path).items()} == dict.fromkeys(
        names.split(","), 1
    )


def test_orders_are_told_in_the_letters_of_the_first(tmp_path: Path):
    def by_text(prompt: str) -> str:
        line = next(one for one in prompt.splitlines() if one.endswith("The Fund closed it"))
        return line.strip()[0]

    anew = ("--methods", "mcq", "--restart", "--no-cache")
    for choose, answer, orders in ((by_text, "B", "BBBB"), (lambda _: "A", "A", "ADCB")):
        evaluated(tmp_path, many(1), reader(choose), *anew)
        [found] = results(tmp_path)["mcq"]
        assert (found.answer, found.orders) == (answer, tuple(orders))


def test_every_question_counts(tmp_path: Path):
    """One whose call fails, and one whose option cannot be told, are wrong and not left out."""
    write_articles(tmp_path, *many(4))
    plain = reader(lambda prompt: "I cannot say" if "2. time" in prompt else "A")

    def script(body: dict[str, Any]) -> Any:
        return failing(400, "no") if "3. time" in body["messages"][-1]["content"] else plain(body)

    with Server(script) as server:
        done = evaluate(tmp_path, server, "--methods", "zero-shot,pearl", "--json")
        found = results(tmp_path)
        both = evaluate(tmp_path, server, "--methods", "zero-shot", "--model", "a")
    assert done.code == both.code == 1
    assert "4 trials failed" in done.err
    assert both.err.count("2 trials failed") == 2
    for name in ("zero-shot", "pearl"):
        assert [(one.id, one.answer, one.score) for one in found[name]] == [
            ("0", "A", 1.0), ("1", "A", 0.0), ("2", None, 0.0), ("3", None, 0.0),
        ]  # fmt: skip
        assert all(one.error for one in found[name][2:])
    assert done.json["right"] == 2
    assert done.json["judged"] == 8


def test_the_plan_of_a_question_whose_answer_failed_is_one(tmp_path: Path):
    """Plans that fail would be left out else, and those are the long ones."""

    def script(body: dict[str, Any]) -> Any:
        asked = str(body["messages"])
        number = re.findall(r"(\d)\. time", asked)[-1]
        if "write reading plans" in asked:
            plan = f'1. a = FIND_REASON(CTX, "the {number}. time") : Find why'
            return "No." if number in "23" else plan
        return failing(400, "no") if number in "13" else "A"

    methods = "zero-shot,pearl,pearl-no-execution"
    done, _ = evaluated(tmp_path, many(4), script, "--methods", methods, "--json")
    found = {
        name: [(one.error == "", one.plan != "", one.fallback) for one in of]
        for name, of in results(tmp_path).items()
    }
    planned = [(True, True, False), (False, True, False), (True, True, True), (False, True, True)]
    assert found["pearl"] == found["pearl-no-execution"] == planned
    # Nobody wrote the one step of a baseline.
    assert [plan for _, plan, _ in found["zero-shot"]] == [False] * 4
    assert all("FIND_REASON" in one.plan for one in results(tmp_path)["pearl-no-execution"][:2])
    [table] = [one for one in done.json["report"]["blocks"] if one.get("table") == "Plans"]
    assert [(row["plans"], row["fallback"]) for row in table["rows"]] == [(2, 0.5), (2, 0.5)]


def test_failed_calls_are_a_mean_over_all_questions_and_none_that_was_made_for_no_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plain, refused = reader(lambda _: "A"), 0

    def script(body: dict[str, Any]) -> Any:
        nonlocal refused
        if {*GRAMMARS, "tools", "response_format"} & body.keys():
            refused += 1
            return failing(400, "I hold replies to nothing.")
        if "0. time" in body["messages"][-1]["content"]:
            return completion("", usage={"prompt_tokens": 70, "completion_tokens": 2})
        return plain(body)

    words = ("--methods", "pearl", "--constrain", "auto", "--json")
    told = evaluated(tmp_path, many(4), script, *words)[0].json
    assert refused
    found = results(tmp_path)["pearl"]
    assert [one.measures["in_vain"] for one in found] == [2, 0, 0, 0]
    assert [one.measures["in_vain_tokens"] for one in found] == [144, 0, 0, 0]
    assert (told["in_vain"], told["in_vain_tokens"]) == (0.5, 36)


def test_a_question_that_pearl_itself_fails_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken = replace(QUALITY, score=lambda *_: 1 / 0)
    monkeypatch.setattr("pearl.evaluate.evaluation_job.find_dataset", lambda _: broken)
    words = ("--methods", "zero-shot", "--json")
    done, _ = evaluated(tmp_path, many(2), reader(lambda _: "A"), *words)
    assert (done.code, done.json["right"], done.json["judged"]) == (1, 0, 2)
    assert "ZeroDivisionError" in results(tmp_path)["zero-shot"][0].error


def test_questions_are_labelled_once(tmp_path: Path):
    words = ("--methods", "zero-shot,cot", "--reasoning")
    script = reader(lambda _: "A", label="person, event")
    done, server = evaluated(tmp_path, many(2), script, *words)
    assert done.code == 0, done.err
    assert server.kinds.count("label") == 2
    prompt = next(asked.text for asked in server.asked if asked.kind == "label")
    assert all(f"- {name}: {meaning}" in prompt for name, meaning in REASONING)
    for found in results(tmp_path).values():
        assert [one.labels["reasoning"] for one in found] == [("person", "event")] * 2


def test_the_window_that_was_set_is_told_and_held_against_another(tmp_path: Path):
    write_articles(tmp_path, *many(1))
    words = ("eval", "quality", "--data", "quality.jsonl", "--methods", "zero-shot")
    names = []
    for window, policy in (("4000", "chunk"), ("8000", "retrieve")):
        fit = ("--window", window, "--context", policy, "--model", "offline")
        names.append(asked_of(tmp_path, "", *words, *fit, "--json").json["run"])
    told = asked_of(tmp_path, "", "runs", "diff", *names).out
    assert "window: 4,000 tokens, chunk → 8,000 tokens, retrieve" in told


def test_tokens_that_no_endpoint_reports_are_not_0_beside_those_that_one_does(tmp_path: Path):
    write_articles(tmp_path, *many(1))
    words = ("eval", "quality", "--data", "quality.jsonl", "--methods", "zero-shot", "--json")
    offline = asked_of(tmp_path, "", *words, "--model", "offline").json["run"]
    usage = {"prompt_tokens": 2000, "completion_tokens": 268}
    with Server(lambda _: completion("A", usage=usage)) as server:
        online = asked_of(tmp_path, server.url, *words).json["run"]
    told = asked_of(tmp_path, "", "runs", "diff", offline, online)
    assert ", tokens an answer not reported → 4,536\n" in told.out
    told = asked_of(tmp_path, "", "runs", "diff", offline, online, "--json")
    assert told.json["methods"]["zero-shot"]["tokens"] == [None, 4536]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--turns", "uses --turns: leave it out, or add one of fsm1, fsm2."),
        ("--width 3", "uses --width: leave it out, or add one of tmn, tmn-model."),
        ("--search greedy", "uses --search: "),
        ("--tools none", "uses --tools: leave it out, or add one of rebel."),
        ("--depth 2", "uses --depth: leave it out, or add one of decomp, rebel, tmn, tmn-model."),
        ("--calls 3", "uses --calls: "),
        ("--passages 4", "uses --passages: "),
        ("--examples 2", "uses --examples: "),
        ("--shown 3", "uses --shown: "),
        ("--index corpus.index", "uses --index: "),
        ("--library core", "uses --library: leave it out, or add one of pearl, "),
        ("--demos letters", "uses --demos: leave it out, or add one of pearl, "),
        ("--seed 4", "--seed is the seed of --sample N: give both, or neither."),
    ],
)
def test_an_option_that_no_method_uses_is_refused(options: str, said: str, tmp_path: Path):
    words = ("eval", "questions", "--data", write_own(tmp_path), "--model", "offline")
    corpus = write_rows("corpus.jsonl", {"id": "1", "text": "Ada built it."})
    assert call("index", corpus, "-o", "corpus.index").code == 0
    assert said in one_line(call(*words, "--methods", "zero-shot,cot", *options.split()), 2)
    # What is as it is where nobody gives it is not told from that.
    usual = ("--search", "best-first", "--examples", "0", "--sample", "1", "--seed", "4")
    assert call(*words, "--methods", "zero-shot", *usual).code == 0


def test_failures_are_seen_behind_a_long_list_of_methods(tmp_path: Path):
    methods = "zero-shot,cot,pearl,decomp,fsm1,fsm2,rebel,react"
    evaluated(tmp_path, many(1), lambda _: failing(400, "No."), "--methods", methods)
    (line,) = asked_of(tmp_path, "", "runs").out.splitlines()
    assert "QuALITY: zero-shot, cot, pearl," in line
    assert line.endswith("…, 7 failed")


def test_sizes_that_methods_name_and_sizes_that_the_library_does_not_have(tmp_path: Path):
    words = ("--library-sizes", "5,900", "--library", "quality")
    methods = ("--methods", "pearl@5,zero-shot,pearl@5")
    done, _ = evaluated(tmp_path, many(2), reader(lambda _: "A"), *methods, *words)
    assert done.code == 0, done.err
    most = sum(not one.is_builtin for one in load_library("quality").actions.values())
    assert list(results(tmp_path)) == ["pearl@5", "zero-shot", f"pearl@{most}"]
    assert f"so pearl@900 is pearl@{most}." in " ".join(done.out.split())


def test_questions_whose_answer_is_not_known_cannot_be_scored(tmp_path: Path):
    row = {key: value for key, value in official().items() if key != "gold_label"}
    done, _ = evaluated(tmp_path, [row], ["A"])
    assert done.code == 2
    assert "the right answer of question 52845_75VB1ISR_1 is not known" in done.err


def test_an_answer_of_quotes_alone_counts(tmp_path: Path):
    write_own(tmp_path, gold="closed it")
    said = "> Mara left the lighthouse because the Fund had closed it."
    with Server([PLAN, said]) as server:
        words = ("eval", "questions", "--data", "own.jsonl", "--methods", "pearl", "--json")
        assert asked_of(tmp_path, server.url, *words).json["right"] == 1


def test_an_answer_that_decides_for_no_option_is_counted_as_such(tmp_path: Path):
    replies = ["It does not say.", "none", "A"]
    done, _ = evaluated(tmp_path, [official()], replies, "--methods", "zero-shot")
    row = next(line for line in done.out.splitlines() if line.startswith("zero-shot"))
    assert row.split()[-4:] == ["1", "3.00", row.split()[-2], "s"]
    assert re.search(r"no\s.*option\s.*fits", done.out, re.DOTALL)


def test_who_names_no_option_twice_has_chosen_none(tmp_path: Path):
    methods = "zero-shot,retrieve-read,mcq"
    done, _ = evaluated(tmp_path, [official()], reader(lambda _: "none"), "--methods", methods)
    assert done.code == 0, done.err
    found = {name: one.answer for name, [one] in results(tmp_path).items()}
    assert found == dict.fromkeys(methods.split(","))
    row = next(line for line in done.out.splitlines() if line.startswith("zero-shot"))
    assert row.split()[1:3] == ["0", "0"]


def test_an_evaluation_can_be_shown_again_and_last_is_the_last_one(tmp_path: Path):
    write_articles(tmp_path, *many(4))
    with Server(reader(lambda _: "A")) as server:
        done = evaluate(tmp_path, server, "--methods", "zero-shot,pearl")
        asked = len(server.asked)
        again = evaluate(tmp_path, server, "--methods", "zero-shot,pearl", "--json").json
    assert again["trials"] == 8
    about = again["report"]["about"]
    assert about["model"] == "m"
    assert about["run"].startswith(again["run"])
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    assert asked_of(tmp_path, "", "ask", "story.txt", "Who?", "--model", "offline").code == 0
    shown = asked_of(tmp_path, "", "report", "last")
    of_file = asked_of(tmp_path, "", "report", "results.jsonl")
    assert shown.code == of_file.code == 0
    assert shown.out == of_file.out
    assert shown.out.strip() in done.out
    assert len(server.asked) == asked


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--methods", "nothing"), "There is no method nothing"),
        (("--split", "nowhere"), "has no split nowhere"),
        (("--split", "other"), "no question in the split other"),
        (("--library-sizes", "0"), "no list of numbers above 0"),
        (("--methods", "pearl-no-refinement"), "--demos"),
        (("--demos", "gone"), "gone is no folder"),
        (("--data", ""), "QuALITY: name the file with --data (https://github.com/nyu-mll/quality"),
    ],
)
def test_wrong_use_is_told_before_anything_is_sent(tmp_path: Path, options, words: str):
    done, server = evaluated(tmp_path, many(2), ["A"], *options)
    assert done.code == 2
    assert words in done.err
    assert server.asked == []


def test_a_killed_evaluation_goes_on_without_repeating_a_call(tmp_path: Path):
    write_articles(tmp_path, *many(3))
    words = ("eval", "quality", "--data", "quality.jsonl", "--methods", "zero-shot,pearl,mcq")
    with Stub(latency=0.02) as stub:
        killed = killed_once(tmp_path, stub, words, 8)
    assert killed.repeats <= 4
    assert killed.done.json["answered"] == 9


def test_offline_the_report_says_that_there_is_no_model(tmp_path: Path):
    write_articles(tmp_path, *many(4))
    words = ("--data", "quality.jsonl", "--methods", "zero-shot,pearl", "--library-sizes", "1,5")
    done = asked_of(tmp_path, "", "eval", "quality", *words)
    assert done.code == 0, done.err
    assert "No language model" in done.out
    assert "pearl@5" in done.out
    fewer = asked_of(tmp_path, "", "eval", "quality", *words, "--shown", "4")
    assert "shown 4 of a library's actions" in " ".join(fewer.out.split())
    assert "shown" not in done.out.split("Accuracy")[0]
    [table] = [one for one in done.out.split("\n\n") if one.startswith("What methods plan with")]
    rows = [line.split() for line in table.splitlines() if line.startswith("pearl")]
    assert [(row[0], row[-3:]) for row in rows] == [
        ("pearl", ["93", "5", "model"]),
        # With ANSWER_FROM, which every size has.
        ("pearl@1", ["2", "5", "model"]),
        ("pearl@5", ["5", "5", "model"]),
    ]
    note = "pearl@1 has 2 actions: no fewer can say what the library's do."
    assert note in " ".join(done.out.split())
    assert "pearl@5 has" not in done.out


def key(example: Example, shared: EvaluationContext | None = None, dataset: str = "2wiki") -> str:
    given = shared or make_context(load_library(), Demonstrations(()))
    [task] = trial_tasks([example], ["normal"], given, dataset)
    return task.key


def test_gold_that_was_mended_is_scored_anew():
    document, paragraphs = compose("d", [("Lund", ["Lund is a town.", "It is old."])])
    data = MultiHop(paragraphs, (SupportingFact("Lund", 0),), aliases=("Lunn",))
    example = Example("1", "Where?", document, gold="Lund", data=data)
    others = [
        replace(data, aliases=()),
        replace(data, facts=(SupportingFact("Lund", 1),)),
        replace(data, triples=(("Lund", "is", "old"),)),
        replace(data, unit="paragraph"),
    ]
    keys = [key(example), *(key(replace(example, data=one)) for one in others)]
    keys += [key(replace(example, gold="Lunn")), key(replace(example, labels={"type": ("x",)}))]
    keys.append(key(example, dataset="musique"))
    assert len(set(keys)) == len(keys)
    assert key(replace(example, data=replace(data))) == keys[0]


def test_what_a_world_s_agents_know_is_part_of_what_is_asked():
    def world(year: int) -> World:
        row = {"kb": {"made": [f"made(Mill, {year})"]}, "pred_lang_config": {}}
        return read_world({**row, "context": "", "qa_pairs": []}, "here:1", "here/1")

    one, same, other = (
        key(Example("1", "When?", Source("world 1", "-"), gold="[1]", data=world(year)))
        for year in (1900, 1900, 1901)
    )
    assert one == same != other


def test_the_search_and_its_budget_are_part_of_what_is_asked():
    example = Example("1", "When?", Source("d", STORY), gold="1900")
    shared = make_context(load_library(), Demonstrations(()))
    found = [HopSearch(), HopSearch(budget=SearchBudget(width=3)), HopSearch(mode="greedy")]
    keys = [key(example, shared), *(key(example, replace(shared, search=one)) for one in found)]
    limits = (Limits(calls=7), Limits(depth=2), Limits(steps=3), Limits(width=4))
    keys += [key(example, replace(shared, limits=one)) for one in limits]
    assert len(set(keys)) == len(keys)
    assert key(example, replace(shared, search=HopSearch())) == keys[1]


def test_an_index_that_was_made_anew_is_another_tool(tmp_path: Path):
    tools = tmp_path / "tools.toml"
    tools.write_text("[it]\nkind = 'search'\nindex = 'corpus.index'\n", encoding="utf-8")
    found = []
    for text in ("Lund is a town.", "Lund is a town.", "Lund is a city."):
        corpus = write_rows(tmp_path / "corpus.jsonl", {"id": "1", "text": text})
        build_index(corpus, str(tmp_path / "corpus.index"))
        tooling = load_tool_file(str(tools))
        assert tooling is not None
        found.append(tooling.digest)
    assert found[0] == found[1] != found[2]


def test_failed_questions_count_in_the_form_and_the_seconds_of_a_run_are_its_own(tmp_path: Path):
    def script(body: dict[str, Any]) -> str:
        asked = str(body["messages"])
        return "I refuse" if "Claim 1." in asked else json.dumps({"answer": "SUPPORTS"})

    rows = ({"id": at, "label": "SUPPORTS", "claim": f"Claim {at}."} for at in range(4))
    write_rows(tmp_path / "claims.jsonl", *rows)
    words = ("eval", "fever", "--data", "claims.jsonl", "--methods", "normal", "-o")
    with Server(script) as server:
        told = asked_of(tmp_path, server.url, *words, "results.jsonl", "--json", "--concurrency",
                        "1").json  # fmt: skip
    found = {one.id: one.measures for one in results(tmp_path)["normal"]}
    assert {name: one["format"] for name, one in found.items()} == {"0": 1, "1": 0, "2": 1, "3": 1}
    assert "exact_match" not in found["1"]
    assert (told["exact_match"], told["format"]) == (0.75, 0.75)
    seconds = [one["seconds"] for one in found.values()]
    assert told["seconds"] >= sum(seconds) > 0
    assert told["seconds_a_question"] == pytest.approx(sum(seconds) / 4)


def shipped() -> list[str]:
    """The questions of the plans for steps over passages."""
    return [parse(one).plan.question for one in load_demonstrations("", "open_domain")]


def decomposed(folder: Path, *options: str, question: str = "Who left?") -> tuple[Result, str]:
    """What was told, and the first prompt, of `decomp` on a question."""
    write_own(folder, question=question)
    with Server(lambda _: "no step") as server:
        words = ("eval", "questions", "--data", "own.jsonl", "--json", "--restart", *options)
        return asked_of(folder, server.url, *words), server.asked[0].text


def test_steps_are_written_with_passages_where_nobody_named_a_library(tmp_path: Path):
    done, prompt = decomposed(tmp_path, "--methods", "decomp")
    count = len(shipped())
    assert "RETRIEVE" in prompt
    assert sum(one in prompt for one in shipped()) >= count - 1
    about = done.json["report"]["about"]
    assert about["library"].startswith("open_domain, ")
    assert about["demonstrations"] == str(count)
    # Plans that are named for another method take nothing from this one, which cannot run them.
    for folder, shown in (("letters", count), ("open_domain", count)):
        done, prompt = decomposed(tmp_path, "--methods", "decomp", "--demos", folder)
        about = done.json["report"]["about"]
        assert about["library"].startswith("open_domain, ")
        assert about["demonstrations"] == str(shown)
    done, prompt = decomposed(tmp_path, "--methods", "decomp", "--library", "quality")
    assert "FIND_CHARACTER" in prompt
    assert not any(one in prompt for one in shipped())
    assert done.json["report"]["about"]["library"].startswith("quality, ")
    # Methods with actions of their own are told without a library.
    done, _ = decomposed(tmp_path, "--methods", "fsm1,normal")
    assert not any("library" in name for name in done.json["report"]["about"])


def test_a_demonstration_of_an_evaluated_question_is_not_shown_to_steps_either(tmp_path: Path):
    first, second, *_ = shipped()
    done, prompt = decomposed(tmp_path, "--methods", "decomp,pearl", question=first)
    assert prompt.count(first) == 1
    assert second in prompt
    report = done.json["report"]
    assert report["about"]["library"].startswith("core, quality, ")
    assert report["about"]["library of decomp"].startswith("open_domain, ")
    assert report["about"]["demonstrations of decomp"] == str(len(shipped()) - 1)
    told = "1 demonstration of decomp left out, as the questions are evaluated."
    assert told in str(report["blocks"][0])
    done, _ = decomposed(tmp_path, "--methods", "pearl", question=first)
    assert "left out" not in str(done.json["report"])
    (tmp_path / "demos").mkdir()
    plan = f"question: {first}\n\nwhy = FIND_EVENT(CTX, 'it') : Find it\n"
    (tmp_path / "demos" / "first.plan").write_text(plan, encoding="utf-8")
    done, _ = decomposed(tmp_path, "--methods", "pearl", "--demos", "demos", question=first)
    assert "evaluated." in str(done.json["report"]["blocks"][0])
    assert "None is left to be shown." in str(done.json["report"]["blocks"][0])


def test_every_setup_of_a_method_is_there():
    shared = make_context(load_library(), Demonstrations(()), stepwise=Demonstrations(()))
    users = setups_in_use(METHODS, shared)
    assert users.keys() == {LIBRARY, UNREFINED, EXECUTE, STEPWISE}
    assert [one.name for one in METHODS if not one.setup] == [
        "zero-shot", "cot", "mcq", "least-to-most", "no-context", "retrieve-read", "normal",
        "normal-evidence", "cot-answer", "cot-evidence", "sp-cot", "sp-cot-evidence", "react",
        "react-evidence", "fsm1", "fsm2", "rebel", "tmn", "gold-facts", "found-facts",
        "all-facts",
    ]  # fmt: skip
    alone = setups_in_use(METHODS, make_context(load_library(), Demonstrations(())))
    assert STEPWISE not in alone
    assert {"decomp", "cot-rolled-out"} <= set(alone[LIBRARY])


@dataclass
class Knowing(Scripted):
    """Says what is right, in the form of each call."""

    example: Example
    script: Any = ()

    def says(self, call: Any) -> str:
        given, right = self.example, self.example.gold
        if given.options:
            right = given.options[ord(right) - ord("A")]
        match call:
            case MapAnswer():
                return given.gold if right in call.answer else "none"
            case WritePlan():
                return 'New actions:\n- TELL(X) : Say X\n\n1. answer = TELL("it") : Say it'
            case NextStep():
                return "return answer" if call.steps else f"answer = UNIQUE([{json.dumps(right)}])"
            case ExecuteStep() if call.action.name == "CHOOSE_OPTION":
                return next(line[0] for line in call.texts[-1].split("\n") if right in line)
            case ExecuteStep():
                return right
        assert isinstance(call, FillSchema), call
        asked, text = call.schema, given.document.text.strip()
        known: dict[str, Any] = {
            "answer": right, "input": right, "action": "Finish", "same": True, "kind": "simple",
            "sub_question": given.question, "question": given.question, "sub_questions": [],
            "title": "Lund", "evidence": [text.split("\n")[-1]], "answerable": True,
            "supporting_facts": [text.split("\n")[-1]],
            "hops": [{"question": given.question, "answer": right}],
        }  # fmt: skip
        return json.dumps(
            {
                field.name: known.get(field.name, [] if "array" in field.schema else "So.")
                for field in asked.fields
            }
        )


QUESTION = "Where was Anna Berg born?"
PLACE = Source("place", "# Lund\n\nAnna Berg was born in Lund.")
RIGHT = {
    "quality": Example("1", QUESTION, PLACE, ("Malmö", "Lund"), "B", "long"),
    "questions": Example("1", QUESTION, PLACE, gold="Lund"),
    "letters": Example("1", "Join the last letters of Ann and Bob.", NO_DOCUMENT, gold="nb"),
    "reversal": Example("1", "Reverse the sequence \"a, b\".", NO_DOCUMENT, gold="b, a"),
    "commaqa": Example("1", QUESTION, PLACE, gold='["Lund"]'),
    "commaqa-e": Example("1", QUESTION, PLACE, gold='["Lund"]'),
    "fever": Example("1", "Is it true? Answer SUPPORTS or REFUTES.", NO_DOCUMENT, gold="REFUTES"),
    "celebrities": Example("1", QUESTION, NO_DOCUMENT, gold="Lund", data=MultiHop()),
    **dict.fromkeys(("gsm8k", "multiarith"), Example("1", "How many?", PLACE, gold="42")),
    **dict.fromkeys(
        ("hotpotqa", "2wiki", "musique"), Example("1", QUESTION, PLACE, gold="Lund",
                                                  data=MultiHop())),
    "questions with options": Example("1", QUESTION, PLACE, ("Malmö", "Lund"), "B"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*(one.name for one in DATASETS), "questions with options"])
def test_a_right_answer_scores_whichever_method_gives_it(name: str):
    """Or the method is refused on that data set; it never counts as wrong. Its trace names the
    library that its steps call."""
    example, dataset = RIGHT[name], find_dataset(name.partition(" ")[0])
    shown = Demonstrations(load_demonstrations("", dataset.demonstrations))
    shared = make_context(load_library(*dataset.libraries), shown)
    model = Knowing(example)
    refused, wrong = set(), {}

    async def tried(method: str) -> Any:
        async with open_session(model, {}, "eval") as session:
            trial = Task(method, 0, method, "", Trial(method, example))
            row = (await Trials(dataset.name, shared)(trial, session))["result"]
        trace = export_trace(session.journal.entries, method)
        [names] = re.findall(r"^# library: (.+)$", trace, re.MULTILINE)
        found = check(parse(trace), load_library(*names.split(", ")))
        assert not [one.message for one in found if one.code == "PRL201"], method
        return row

    for method in METHODS:
        try:
            sample = Sample(dataset, "-", "all", [example])
            ready = Preparation(sample, (method.name,), shared)
            ready.job(model, lambda _: UNLIMITED)
        except InputError as error:
            refused.add(str(error).partition(" ")[0])
            continue
        row = asyncio.run(tried(method.name))
        if row["score"] != 1:
            wrong[method.name] = row["answer"], row["error"]
    assert wrong == {}
    # Without options there is no choice, without a document no search; agents are a world's.
    expected = {"tmn", "tmn-model", "gold-facts", "found-facts", "all-facts"} | (
        set() if example.options else {"mcq"}
    )
    searching = {"fsm1", "fsm2", "rebel", "react", "react-evidence", "retrieve-read"}
    expected |= searching if example.document == NO_DOCUMENT else set()
    # What its library's agents are asked for, no plan is handed.
    planning = {"pearl", "pearl-no-refinement", "decomp"}
    expected |= planning if dataset.libraries == ("commaqa",) else set()
    # A library's demonstrations are for decomp alone.
    expected |= planning - {"decomp"} if dataset.libraries == ("reversal",) else set()
    assert refused == expected


# --- which questions, which demonstrations, how much is looked up ---


def test_a_draw_gives_each_split_and_kind_its_share():
    kinds = [("long", "a")] * 50 + [("long", "b")] * 30 + [("short", "a")] * 20
    every = [
        Example(str(at), "?", Source("d", "x"), gold="A", split=split, labels={"kind": (kind,)})
        for at, (split, kind) in enumerate(kinds)
    ]
    ten = draw_sample(every, 10, 1)
    assert [(one.split, *one.labels["kind"]) for one in ten] == (
        [("long", "a")] * 5 + [("long", "b")] * 3 + [("short", "a")] * 2
    )
    assert [one.id for one in ten] == sorted((one.id for one in ten), key=int)
    assert draw_sample(every, 10, 1) == ten != draw_sample(every, 10, 2)
    assert len(draw_sample(every, 7, 1)) == 7
    assert draw_sample(every, 500, 3) == every


def test_a_draw_of_several_splits_is_told(tmp_path: Path):
    write_articles(tmp_path, *many(8), *({**one, "qid": 9, "pearl_subset": ""} for one in many(1)))
    with Server(reader(lambda _: "A")) as server:
        done = evaluate(tmp_path, server, "--methods", "zero-shot", "--split", "long,short",
                        "--sample", "4", "--seed", "3")  # fmt: skip
        assert done.code == 0, done.err
        refused = evaluate(tmp_path, server, "--split", "long,none")
    assert Counter(one.split for one in results(tmp_path)["zero-shot"]) == {"long": 2, "short": 2}
    assert done.out.startswith("QuALITY, long and short splits")
    assert "of each split and category its share, with the seed 3." in " ".join(done.out.split())
    assert "QuALITY has no split none" in refused.err


def test_sets_of_demonstrations_stand_side_by_side_with_their_spread(tmp_path: Path):
    write_articles(tmp_path, *many(4))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        plan = demonstration(f"Is this set {name}?").text
        (tmp_path / name / "a.plan").write_text(plan, encoding="utf-8")

    def script(body: dict[str, Any]) -> str:
        asked = str(body["messages"])
        if "write reading plans" in asked:
            return PLAN.replace("leaves", "goes") if "Is this set two?" in asked else PLAN
        if "(A)" not in asked:
            return "Two." if "Mara goes" in asked else "One."
        return "B" if "Two." in asked and "1. time" in asked else "A"

    asked = ("--methods", "pearl", "--demos", "one", "--demos", "two")
    with Server(script) as server:
        alone = evaluate(tmp_path, server, "--methods", "pearl", "--demos", "one", "--json")
        assert alone.json["report"]["about"]["prompt set"] == "one"
        done = evaluate(tmp_path, server, *asked, "--json")
        assert done.code == 0, done.err
        # What the first set came to alone holds.
        assert done.json["models"][0]["run"] == alone.json["run"]
        last = asked_of(tmp_path, "", "report", "last", "--json").json
        both = evaluate(tmp_path, server, *asked, "--model", "other")
        sent = len(server.asked)
        shutil.copytree(tmp_path / "one", tmp_path / "three")
        alike = evaluate(tmp_path, server, *asked, "--demos", "three")
        assert len(server.asked) == sent
    assert "compare one or the other" in both.err
    assert alike.code == 2
    assert "one and three show the methods the same plans: name one." in alike.err
    report = done.json["report"]
    assert last == report
    assert report["about"]["prompt sets"] == "one, two"
    [spread] = [one for one in report["blocks"] if "sets of demonstrations" in str(one)[:80]]
    [row] = spread["rows"]
    assert (row["method"], row["measure"], row["sets"]) == ("pearl", "accuracy", 2)
    assert (row["lowest"], row["mean"], row["highest"]) == (0.25, 0.375, 0.5)
    assert row["spread"] == pytest.approx(0.25 / 2**0.5)
    # The runs themselves are evaluations like any other, and can be held against each other.
    names = [one["run"] for one in done.json["models"]]
    words = ("runs", "diff", *names)
    told = asked_of(tmp_path, "", *words, "--json").json
    assert [one["id"] for one in told["different"]] == ["pearl/1"]
    pearl = told["methods"]["pearl"]
    assert (pearl["right"], pearl["only"], pearl["questions"]) == ([1, 2], [0, 1], 4)
    shown = asked_of(tmp_path, "", *words).out
    assert "pearl                right 1 → 2 of 4 (only the first 0, only the second 1" in shown
    assert "pearl/1              A wrong → B right" in shown


def test_evaluations_by_one_model_are_told_apart_by_what_differs(tmp_path: Path):
    write_own(tmp_path)
    (tmp_path / "mine").mkdir()
    plan = demonstration("Who keeps the lamp?").text
    (tmp_path / "mine" / "a.plan").write_text(plan, encoding="utf-8")
    asked = ("eval", "questions", "--data", "own.jsonl", "--methods", "pearl", "--model", "offline")
    settings = {"usual": (), "core": ("--library", "core"), "shown": ("--demos", "mine")}
    for name, options in settings.items():
        done = asked_of(tmp_path, "", *asked, *options, "-o", f"{name}.jsonl")
        assert done.code == 0, done.err

    def report(*names: str) -> Any:
        return asked_of(tmp_path, "", "report", *(f"{name}.jsonl" for name in names), "--json")

    told = report("usual", "core").json
    assert told["about"]["libraries"] == "core + quality, core"
    assert told["about"]["model"] == "offline"
    [total] = [block for block in told["blocks"] if "in total" in block.get("table", "")]
    assert [row["method"] for row in total["rows"]] == ["pearl, core + quality", "pearl, core"]
    told = report("shown", "usual").json
    assert told["about"]["prompt sets"] == "mine, shipped"
    said = one_line(report("core", "core"), 2)
    assert "a model, library or set of demonstrations that no other has" in said
    assert "pearl runs diff RUN RUN" in said


def test_how_many_questions_a_method_cannot_answer_is_told(tmp_path: Path):
    row = {"document": {"text": "Yes."}, "question": "Is it?", "gold": "Yes"}
    rows = [row | {"id": f"p{at}", "options": [[], ["Yes", "No"]][at % 2]} for at in range(1, 5)]
    file = write_rows(tmp_path / "q.jsonl", *rows)
    done = call("eval", "questions", "--data", file, "--methods", "mcq", "--model", "offline")
    said = "mcq needs options, and question p2 has none. It cannot answer 2 of 4 questions."
    assert (done.code, said in done.err) == (2, True), done.err


def test_evaluations_whose_ids_stand_for_other_questions_have_no_pair(tmp_path: Path):
    names = []
    for asked in ("Who left?", "Who stayed?"):
        file = Path(write_own(tmp_path, question=asked)).rename(tmp_path / f"{asked}.jsonl")
        words = ("eval", "questions", "--data", str(file), "--methods", "zero-shot", "--json")
        names.append(asked_of(tmp_path, "", *words, "--model", "offline").json["run"])
    told = asked_of(tmp_path, "", "runs", "diff", *names, "--json").json
    assert (told["same"], told["different"]) == (0, [])
    assert told["only"] == [["zero-shot/7"]] * 2


PASSAGES = "\n\n".join(f"# Lamp {at}\n\nLamp {at} hangs in Ulm." for at in range(6))


def lamps(
    folder: Path, script: Any, methods: str, *options: str
) -> tuple[Result, list[Any], dict[str, Any]]:
    """How an evaluation over six passages ended, what was asked, and each method's answer."""
    write_own(folder, question="Where hangs the lamp?", gold="Ulm")
    (folder / "story.txt").write_text(PASSAGES, encoding="utf-8")
    words = ("eval", "questions", "--data", "own.jsonl", "--methods", methods, "--json")
    with Server(script) as server:
        done = asked_of(folder, server.url, *words, "-o", "results.jsonl", *options)
    assert done.code == 0, done.err
    return done, server.asked, {name: one.answer for name, [one] in results(folder).items()}


@pytest.mark.parametrize(("options", "count"), [((), 5), (("--passages", "2"), 2)])
def test_how_many_passages_a_look_up_gives(tmp_path: Path, options: tuple[str, ...], count: int):
    done, asked, _ = lamps(tmp_path, lambda _: "Ulm", "retrieve-read", *options)
    assert done.json["right"] == 1
    assert asked[0].text.count("hangs in Ulm") == count
    about = done.json["report"]["about"]
    assert about.get("passages") == (f"{count} of each look-up" if options else None)


@pytest.mark.parametrize(
    ("said", "grounded"),
    [("Lamp 3 hangs in Ulm.", 1), ("Lamp 3: Lamp 3 hangs in Ulm.", 1), ("Ulm", 1), ("Berlin", 0),
     ("Lamp 3 hangs in Berlin.", 0)],
)  # fmt: skip
def test_who_reads_passages_and_says_a_sentence_of_them_quotes_it(
    tmp_path: Path, said: str, grounded: int
):
    lamps(tmp_path, lambda _: said, "retrieve-read")
    [row] = results(tmp_path)["retrieve-read"]
    assert row.measures["grounded"] == grounded


def test_a_reader_that_reasons_is_another_library(tmp_path: Path):
    steps = ['one = RETRIEVE("lamp", 3)', 'answer = READ(one, "Where hangs the lamp?")',
             "return answer"]  # fmt: skip

    def script(body: dict[str, Any]) -> str:
        asked = str(body["messages"][-1]["content"])
        if "REASON_OVER(" not in asked or "RETRIEVE(Q" in asked:
            return steps.pop(0)
        return "A lamp hangs in a town.\nThe answer is Ulm."

    options = ("--library", "open_domain_cot", "--demos", "open_domain")
    _, _, answers = lamps(tmp_path, script, "retrieve-read,decomp", *options)
    assert answers == dict.fromkeys(("retrieve-read", "decomp"), "Ulm")


def test_a_handler_of_an_evaluation_has_a_model_of_its_own(tmp_path: Path):
    handlers = (
        "RETRIEVE(Q, K: number) -> list : Give K passages on Q.\n  body: solver retrieve\n"
        "MULTI_HOP_READ(PASSAGES: list, Q) -> any : Answer Q from PASSAGES.\n  model: careful\n"
    )
    (tmp_path / "own.actions").write_text(handlers, encoding="utf-8")
    options = ("--library", "core", "--library", "own.actions")
    _, asked, _ = lamps(tmp_path, lambda _: "Ulm", "retrieve-read,no-context", *options)
    models = {one.body["model"]: "PASSAGES" in one.text for one in asked}
    assert models == {"careful": True, "m": False}


def test_celebrities_are_counted_by_category(tmp_path: Path):
    rows = [
        {"Question": f"Where was number {at} born?", "Answer": ["Oslo"],
         "category": "birthplace" if at < 6 else "birthyear"}
        for at in range(12)
    ]  # fmt: skip
    (tmp_path / "c.json").write_text(json.dumps({"data": rows}), encoding="utf-8")
    words = ("eval", "celebrities", "--data", "c.json", "--methods", "normal", "--json")

    def script(body: dict[str, Any]) -> str:
        right = any(f"number {at} born" in str(body["messages"]) for at in (0, 1, 2, 6))
        return json.dumps({"answer": "In Oslo" if right else "In Rome"})

    with Server(script) as server:
        done = asked_of(tmp_path, server.url, *words)
    assert done.code == 0, done.err
    [table] = [
        one for one in done.json["report"]["blocks"] if one.get("table") == "Accuracy by category"
    ]
    means = {row["label"]: row["methods"]["normal"]["mean"] for row in table["rows"]}
    assert means == {"birthplace": 0.5, "birthyear": pytest.approx(1 / 6)}
