"""Recorded outcomes: what is counted, how, and what is said of it."""

from __future__ import annotations

import json
from collections import Counter
from math import comb
from pathlib import Path
from typing import Any

import pytest

from pearl.evaluate.report import summarise
from pearl.evaluate.results import read_outcomes
from pearl.report import FORMS
from pearl.report.document import Report, Table, Text
from tests.shell import call, one_line, read_rows


def row(method: str, qid: str, answer: str | None, gold: str | None, split: str = "dev") -> str:
    given = {"split": split, "method": method, "qid": qid, "answer": answer, "gold": gold}
    return json.dumps(given)


def outcomes(*rows: str) -> str:
    Path("outcomes.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return "outcomes.jsonl"


def table(data: Any, title: str) -> dict[str, dict[str, Any]]:
    """A table of the JSON form, its rows by method."""
    found = [block for block in data["blocks"] if block.get("table", "").startswith(title)]
    assert len(found) == 1, title
    return {one["method"]: one for one in found[0]["rows"]}


class TestReading:
    def test_questions_rows_and_names_are_told_apart(self):
        evaluation = read_outcomes(
            outcomes(
                row("direct", "1", "A", "A"),
                row("direct", "1", "B", "A", split="train"),
                row("planned", "1", "T", "A"),
                row("planned", "2", "C", "C"),
                row("planned", "so the story goes", "A", None),
                row("planned", "- None", None, None),
            )
        )
        assert evaluation.methods == ("direct", "planned")
        assert evaluation.asked == {"dev": 2, "train": 1}
        told = [
            (one.method, one.split, one.id, one.answer, one.score) for one in evaluation.results
        ]
        assert told == [
            ("direct", "dev", "1", "A", 1.0),
            ("direct", "train", "1", "B", 0.0),
            ("planned", "dev", "1", None, 0.0),
            ("planned", "dev", "2", "C", 1.0),
        ]  # fmt: skip
        # The published count takes two gaps for alike.
        strays = [(one.id, one.score) for one in evaluation.strays]
        assert strays == [("so the story goes", 0.0), ("- None", 1.0)]

    @pytest.mark.parametrize(
        ("rows", "told"),
        [
            # A gold option that one row lacks is taken from another.
            ([("direct", "1", "A", "A"), ("planned", "1", "A", None)], [("A", 1), ("A", 1)]),
            # There may be more options than four.
            ([("direct", "1", "E", "F"), ("direct", "2", "F", "F"), ("direct", "3", "G", "A")],
             [("E", 0), ("F", 1), (None, 0)]),
            # Answers may be words.
            ([("direct", "1", "Paris", "Paris"), ("direct", "2", "", "Rome")],
             [("Paris", 1), (None, 0)]),
        ],
    )  # fmt: skip
    def test_answers_and_scores(self, rows: list[Any], told: list[Any]):
        evaluation = read_outcomes(outcomes(*(row(*parts) for parts in rows)))
        assert [(one.answer, one.score) for one in evaluation.results] == told
        assert evaluation.strays == ()

    def test_published_methods_have_names_in_words_and_others_keep_theirs(self):
        names = ("mine", "pearl_out", "baseline_gqa_out")
        evaluation = read_outcomes(outcomes(*(row(name, "1", "A", "A") for name in names)))
        assert evaluation.methods == ("baseline_gqa_out", "pearl_out", "mine")
        assert evaluation.called == {"baseline_gqa_out": "zero-shot", "pearl_out": "PEARL run 1"}

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("{", "outcomes.jsonl:2 is not JSON"),
            ("[1]", "outcomes.jsonl:2 is no object"),
            ('{"split": "dev"}', "outcomes.jsonl:2 has no method"),
            (row("direct", "2", 3, "A"), "outcomes.jsonl:2: answer is to be a text"),  # type: ignore[arg-type]
            (row(" ", "2", "A", "A"), "outcomes.jsonl:2 names no method"),
            (row("direct", "1", "A", "A"), "question of outcomes.jsonl:1"),
            (row("planned", "1", "A", "B"), "another gold option than outcomes.jsonl:1"),
            ("[" * 100_000, "outcomes.jsonl:2 is nested too deep"),
        ],
    )
    def test_a_bad_row_is_named(self, line: str, said: str):
        file = outcomes(row("direct", "1", "A", "A"), line)
        assert said in one_line(call("replicate", file), 2)

    def test_a_file_without_a_question_or_none_at_all(self):
        file = outcomes(row("direct", "1", "A", None))
        assert "has no question" in one_line(call("replicate", file), 2)
        assert "does not exist" in one_line(call("replicate", "none.jsonl"), 2)


class TestShowing:
    def test_it_counts_in_three_ways(self):
        rows = [row("direct", str(at), "ABCD"[at % 4], "A") for at in range(8)]
        rows += [row("planned", str(at), "A", "A") for at in range(5)]
        rows += [row("planned", "5", "T", "A"), row("planned", "x", None, None)]
        result = call("replicate", outcomes(*rows), "--json")
        assert result.code == 0
        found = table(result.json, "Accuracy in total")["planned"]
        assert (found["right"], found["rows"], found["answered"]) == (6, 7, 5)
        assert found["right_questions"] == 5
        assert found["of_rows"] == pytest.approx(6 / 7)
        assert found["of_answered"] == 1.0
        assert found["of_asked"] == pytest.approx(5 / 8)
        both = table(result.json, "Compared with direct, on the questions both have")["planned"]
        assert (both["questions"], both["both_right"], both["only_this_right"]) == (6, 2, 3)
        filled = table(result.json, "Compared with direct, over all 8")["planned"]
        assert (filled["questions"], filled["neither_right"]) == (8, 3)

    def test_one_odd_row_is_told_in_the_singular(self):
        rows = [row("direct", "1", "T", "A"), row("direct", "x", None, None)]
        notes = " ".join(read_outcomes(outcomes(*rows)).notes)
        assert "1 recorded row is a fragment of a broken file" in notes
        assert "In 1 of them both the answer and the gold option are missing" in notes
        assert '1 row of a question names no option from A to D ("T")' in notes

    def test_names_in_the_file_cannot_steer_a_terminal(self):
        file = outcomes(
            row("\x1b[31mred", "1", "A", "A", split="\x07"), row("two", "1", "A", "A", split="\x07")
        )
        for form in ("terminal", "markdown", "latex"):
            out = call("replicate", file, "--format", form).out
            assert out.replace("\n", "").isprintable(), form


@pytest.fixture(scope="module")
def rows(shared: Path) -> list[dict[str, Any]]:
    return read_rows(shared / "pearl_gpt4" / "outcomes.jsonl")


@pytest.fixture(scope="module")
def report(shared: Path) -> Report:
    return summarise(read_outcomes(str(shared / "pearl_gpt4" / "outcomes.jsonl")))


@pytest.fixture(scope="module")
def data(report: Report) -> Any:
    return json.loads(FORMS["json"](report))


class TestPublished:
    """The outcomes of PEARL's runs with GPT-4."""

    def test_the_four_figures_stand_in_every_form(self, report: Report):
        for form in ("terminal", "markdown", "latex", "html"):
            out = FORMS[form](report).replace("\\", "")
            for figure in ("68.8 %", "72.2 %", "72.1 %", "78.7 %"):
                assert figure in out, form
            assert "exact McNemar test" in out, form

    def test_every_figure_agrees_with_a_count_of_the_file(
        self, data: Any, rows: list[dict[str, Any]]
    ):
        questions = {(one["split"], one["qid"]) for one in rows if one["gold"]}
        for split in (None, "train.ctx_eval_long", "dev.ctx_eval_long", "dev.ctx_eval_short"):
            title = f"Accuracy on {split} " if split else "Accuracy in total (1,000 questions)"
            shown = table(data, title)
            asked = sum(split in (None, one) for one, _ in questions)
            for method, found in shown.items():
                own = [
                    one for one in rows if one["method"] == method and split in (None, one["split"])
                ]
                known = [one for one in own if (one["split"], one["qid"]) in questions]
                named = [one for one in known if one["answer"] in ("A", "B", "C", "D")]
                right = sum(one["answer"] == one["gold"] for one in known)
                assert found["rows"] == len(own)
                assert found["right"] == sum(one["answer"] == one["gold"] for one in own)
                assert found["answered"] == len(named)
                assert found["of_answered"] == pytest.approx(right / len(named))
                assert found["of_asked"] == pytest.approx(right / asked)
        whole = table(data, "Accuracy in total")
        told = {name: (one["right"], one["rows"]) for name, one in whole.items()}
        assert told == {
            "baseline_gqa_out": (688, 1000),
            "pearl_out": (716, 992),
            "pearl_out_1": (723, 1003),
            "baseline_mcq_out": (787, 1000),
        }
        # 5 of the 723 are fragments with neither an answer nor a gold option.
        assert whole["pearl_out_1"]["right_questions"] == 718

    def test_p_values_are_those_of_the_binomial_sum(self, data: Any, rows: list[dict[str, Any]]):
        right = {
            (one["method"], one["split"], one["qid"]): one["answer"] == one["gold"]
            for one in rows if one["gold"]
        }  # fmt: skip
        questions = {key[1:] for key in right}
        both = table(data, "Compared with zero-shot, on the questions both have")
        filled = table(data, "Compared with zero-shot, over all 1,000")
        for method in ("pearl_out", "pearl_out_1"):
            for shown, missing in ((both, None), (filled, False)):
                both_methods = ("baseline_gqa_out", method)
                pairs = Counter(
                    tuple(right.get((one, *key), missing) for one in both_methods)
                    for key in questions
                )
                first, second = pairs[True, False], pairs[False, True]
                found = shown[method]
                assert (found["only_first_right"], found["only_this_right"]) == (first, second)
                tail = sum(comb(first + second, k) for k in range(min(first, second) + 1))
                assert found["p"] == pytest.approx(2 * tail / 2 ** (first + second))
                assert found["test"] == "exact McNemar test"

    def test_what_is_odd_in_the_file_is_said(self, shared: Path):
        out = " ".join(call("replicate", shared / "pearl_gpt4" / "outcomes.jsonl").out.split())
        assert "7 recorded rows are fragments of a broken file" in out
        assert "In 5 of them both the answer and the gold option are missing" in out
        assert '10 rows of questions name no option from A to D ("T", "N")' in out
        for words, name in (("zero-shot", "baseline_gqa_out"), ("PEARL run 2", "pearl_out_1")):
            assert f"{words} = {name}" in out


def test_a_summary_of_outcomes_has_no_plans_and_no_cost():
    report = summarise(read_outcomes(outcomes(row("direct", "1", "A", "A"))))
    titles = [block.title for block in report.blocks if isinstance(block, Table)]
    assert titles == ["Accuracy in total (1 question)"]
    assert isinstance(report.blocks[0], Text)
