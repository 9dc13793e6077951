"""Reports: an evaluation's file, its summary, and every form a reader may have it in."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pearl.evaluate.accuracy_tables import majority
from pearl.evaluate.report import plan_statistics, summarise
from pearl.evaluate.results import Evaluation, Result, from_row, read_evaluation, write_lines
from pearl.lang.ast import Action
from pearl.lang.errors import install_command
from pearl.lang.printer import print_plan
from pearl.lang.text import cells
from pearl.models.base import Usage
from pearl.report import FORMS
from pearl.report.document import Chart, Column, Point, Report, Series, Table, Text, parts, wide
from pearl.report.text import terminal, text_chart
from pearl.review.agreement import agreement, pairs_table
from pearl.strategies import baselines
from pearl.strategies.pearl import direct_plan
from tests.shell import call, on_terminal, one_line, process, read_rows, write_rows

HOSTILE = (
    '<script>alert(1)</script> & "50 %" $x_1$ \\input{secret} `code` | [a](http://b) '
    "\x1b[31mred\x07 ~^{} *bold* #1 été 漢字 ‮ \ud800"
)
PLAN = '1. a = FIND_EVENT(CTX, "x") : Find x\n2. b = CONCAT(a, a) : Combine\n'


def result(method: str, at: int, answer: str | None = "A", **more: Any) -> Result:
    """A result whose gold option is A."""
    return Result(method, str(at), "long", float(answer == "A"), "A", answer, **more)


def evaluation(*results: Result, asked: int | dict[str, int] = 10, **more: Any) -> Evaluation:
    methods = tuple(dict.fromkeys(one.method for one in results))
    asked = asked if isinstance(asked, dict) else {"long": asked}
    given = {"title": "Trial", "about": (("model", "stub"),), **more}
    return Evaluation(methods=methods, results=results, asked=asked, **given)


def everything() -> Evaluation:
    """An evaluation that has something for every part of a report."""
    results = []
    for at in range(24):
        labels = {"context": ("sentence" if at % 2 else "article",), "reasoning": ("how", "why")}
        for number, method in enumerate(("zero-shot", "mcq", "pearl", "pearl@1", "pearl@20")):
            answer = "ABC"[(at + number) % 3] if (at * number) % 5 else None
            results.append(
                replace(
                    result(method, at, answer),
                    split="long" if at % 2 else "short",
                    labels=labels,
                    orders=("A", answer, "B", "A") if method == "mcq" else (),
                    question="Why?",
                    options=("yes", "no", HOSTILE),
                    words="Because.",
                    plan=PLAN if method.startswith("pearl") else "",
                    calls=number + 1,
                    usage=Usage(1000 * (number + 1), 100, 0),
                    cost=2000 * (number + 1),
                )
            )
    title, about, asked = f"Trial {HOSTILE}", (("model", HOSTILE),), {"long": 12, "short": 12}
    return evaluation(*results, title=title, about=about, asked=asked, notes=(HOSTILE,))


def titled(report: Report, start: str) -> Any:
    """The block whose title starts so."""
    blocks = [block for block in report.blocks if not isinstance(block, Text)]
    found = [block for block in blocks if block.title.startswith(start)]
    assert len(found) == 1, (start, titles(report))
    return found[0]


def titles(report: Report) -> str:
    return " ".join(getattr(block, "title", "") for block in report.blocks)


def by_method(table: Table) -> dict[str, Any]:
    return {row["method"]: row for row in table.data}


texts = st.text(max_size=12)
some = st.builds(
    Result,
    method=texts, id=texts, split=texts, score=st.floats(0, 1), gold=texts,
    answer=st.none() | texts, orders=st.lists(st.none() | texts, max_size=3).map(tuple),
    labels=st.dictionaries(texts, st.lists(texts, max_size=2).map(tuple), max_size=2),
    question=texts, options=st.lists(texts, max_size=3).map(tuple), words=texts, plan=texts,
    error=texts, fallback=st.booleans(), calls=st.integers(0, 99),
    usage=st.builds(Usage, *[st.integers(0, 10**6)] * 3), cost=st.none() | st.integers(0, 10**9),
)  # fmt: skip

HEAD = '{"evaluation": {"title": "x", "about": [], "asked": {}, "notes": [], "methods": %s}}'


class TestFile:
    @given(some)
    def test_a_result_comes_back_from_its_row(self, one: Result):
        assert from_row(json.loads(json.dumps(asdict(one)))) == one

    def test_an_evaluation_comes_back_from_its_file(self):
        strays = (result("mcq", 1, words="a\nb\u2028c\ud800"),)
        given_ = replace(everything(), strays=strays, called={"mcq": "multiple choice"})
        with Path("eval.jsonl").open("w", encoding="utf-8", newline="") as file:
            file.writelines(write_lines(given_))
        assert read_evaluation("eval.jsonl") == given_
        assert len(Path("eval.jsonl").read_text("utf-8").split("\n")) == 1 + 120 + 1 + 1

    @pytest.mark.parametrize(
        ("at", "line", "said"),
        [
            (1, "{", "eval.jsonl is JSON over several lines"),
            (1, '{"', "eval.jsonl:1 is not JSON"),
            (1, "{}", 'eval.jsonl:1 has no "evaluation"'),
            (1, '{"evaluation": {"title": "x"}}', "eval.jsonl:1: about is missing"),
            (1, '{"evaluation": {"title": 3}}', "eval.jsonl:1: title is to be a text"),
            (1, '{"evaluation": {"about": [["x"]]}}', "about is to be a list of pairs of texts"),
            (1, HEAD % "[]", "eval.jsonl:1: methods is empty"),
            (1, HEAD % '["direct"], "groups": [[]]', "groups is to be lists of methods"),
            (1, HEAD % '["direct"], "groups": [["cot"]]', "groups is to be lists of methods"),
            (2, '{"method": "direct", "id"', "eval.jsonl:2 is not JSON"),
            (2, '{"method": "direct"}', "eval.jsonl:2: id is missing"),
            (2, '{"method": "other", "id": "1"}', 'eval.jsonl:2: "other" is not among the methods'),
            (2, '{"method": "direct", "id": "1", "split": "x"}', 'eval.jsonl:2: the split "x"'),
            (2, '{"method": "direct", "id": "1", "score": 2}', "score is to be a number from 0"),
            (2, '{"method": "direct", "id": "1", "score": NaN}', "score is to be a number from 0"),
            (2, '{"method": "direct", "id": "1", "cost": Infinity}', "eval.jsonl:2 is not JSON"),
            (2, '{"method": "direct", "id": "1", "cost": -Infinity}', "eval.jsonl:2 is not JSON"),
            (2, '{"method": "direct", "id": "1", "labels": {"a": "b"}}', "labels is to be lists"),
            (2, '{"method": "direct", "id": "1", "usage": {"x": 1}}', "usage is to be counts"),
            (2, '{"method": "direct", "id": "1", "calls": -1}', "calls is to be a whole number"),
            (2, '{"method": "direct", "id": "1", "calls": 1%s}' % ("0" * 400), "calls is to be"),
            (2, '{"method": "direct", "id": "1", "score": 1%s}' % ("0" * 400), "score is to be"),
            (2, '{"method": "direct", "id": "1", "cost": true}', "cost is to be a whole number or"),
            (2, '{"method": "direct", "id": "1", "mood": 1}', '"mood" is no key of a result'),
            (3, '{"method": "direct", "id": "0", "split": "long"}', "repeats eval.jsonl:2"),
        ],
    )
    def test_a_bad_line_is_named(self, at: int, line: str, said: str):
        lines = list(write_lines(evaluation(result("direct", 0), result("direct", 1))))
        lines[at - 1] = f"{line}\n"
        Path("eval.jsonl").write_text("".join(lines), encoding="utf-8")
        assert said in one_line(call("report", "eval.jsonl"), 2)


class TestSummary:
    def test_questions_without_a_result_and_failed_ones_are_wrong(self):
        rows = [result("direct", at) for at in range(4)]
        rows += [result("direct", 4, None, error="no plan"), result("direct", 5, "B")]
        report = summarise(evaluation(*rows))
        found = by_method(titled(report, "Accuracy in total (10"))["direct"]
        assert (found["right"], found["rows"], found["answered"]) == (4, 6, 5)
        assert found["of_rows"] == pytest.approx(4 / 6)
        assert found["of_answered"] == 0.8
        assert found["of_asked"] == 0.4
        assert found["of_asked_low"] < 0.4 < found["of_asked_high"]
        odd = by_method(titled(report, "What the rows are"))["direct"]
        assert (odd["failed"], odd["unnamed"], odd["missing"]) == (1, 0, 4)
        # Of nothing answered there is no share.
        none = summarise(evaluation(result("direct", 1, None)))
        assert titled(none, "Accuracy in total").rows[0][5:8] == ("0", "–", "–")

    def test_methods_are_compared_with_the_first(self):
        rows = [result("direct", at, "A" if at < 3 else "B") for at in range(10)]
        rows += [result("pearl", at, "B" if at == 0 else "A") for at in range(9)]
        report = summarise(evaluation(*rows))
        both = titled(report, "Compared with direct, on")
        found = by_method(both)["pearl"]
        counts = ("both_right", "only_first_right", "only_this_right", "neither_right")
        assert [found[key] for key in counts] == [2, 1, 6, 0]
        assert found["difference"] == pytest.approx(5 / 9)
        assert found["p"] == found["p_holm"] == pytest.approx(2 * 8 / 2**7)
        assert "exact McNemar test" in both.note
        filled = by_method(titled(report, "Compared with direct, over all 10 questions"))["pearl"]
        assert [filled[key] for key in counts] == [2, 1, 6, 1]

    def test_several_comparisons_are_corrected(self):
        rows = [result("a", at, "B") for at in range(6)]
        rows += [result(name, at) for name in ("b", "c") for at in range(6)]
        found = by_method(titled(summarise(evaluation(*rows, asked=6)), "Compared with a"))
        assert found["b"]["p"] == pytest.approx(2 / 2**6)
        assert found["b"]["p_holm"] == pytest.approx(4 / 2**6)

    def test_a_question_counts_under_each_of_its_labels_and_small_groups_are_folded(self):
        rows = []
        for at in range(10):
            kinds = ("how", "why") if at < 6 else ("how", "rare") if at < 8 else ("rarer",)
            rows.append(result("direct", at, "A" if at % 2 else "B", labels={"reasoning": kinds}))
        table = titled(summarise(evaluation(*rows)), "Accuracy by reasoning")
        told = {row["label"]: row["questions"] for row in table.data}
        assert told == {"how": 8, "why": 6, "other (2 with fewer than 5 each)": 4}
        assert table.data[0]["methods"]["direct"]["mean"] == 0.5
        assert "A question with several labels counts under each." in table.note

    def test_a_label_counts_for_methods_without_a_result(self):
        rows = [result("direct", at, labels={"context": ("sentence",)}) for at in range(8)]
        rows += [result("pearl", at) for at in range(2)]
        report = summarise(evaluation(*rows, asked=8))
        chart = [block for block in report.blocks if isinstance(block, Chart)][-1]
        assert chart.title == "Accuracy by context"
        shown = [(one.name, one.points[0].y) for one in chart.series]
        assert shown == [("direct", 100.0), ("pearl", 25.0)]

    def test_orders_of_options(self):
        rows = [
            result("mcq", 0, "A", orders=("A", "A", "A", "A")),
            result("mcq", 1, "A", orders=("A", "A", "B", "B")),
            result("mcq", 2, "B", orders=("B", "A", "B", None)),
            result("mcq", 3, None, orders=(None, None, None, None)),
        ]
        report = summarise(evaluation(*rows, result("direct", 0), asked=4))
        (found,) = titled(report, "Consistency").data
        assert found["orders"] == [0.5, 0.75, 0.25, 0.25]
        assert found["right"] == 0.25
        both = (result("mcq", 0, "A", orders=("A", "A")), result("mcq", 1, "A", orders=("A",) * 4))
        (right,) = titled(summarise(evaluation(*both, asked=2)), "Consistency").data
        assert (right["orders"], right["mean"], right["right"]) == ([1.0] * 4, 1.0, 1.0)
        steady = summarise(evaluation(result("mcq", 0, "B", orders=("B", "B")), asked=1))
        (wrong,) = titled(steady, "Consistency").data
        assert (wrong["same"], wrong["right"]) == (1, 0)
        assert (found["mean"], found["vote"], found["same"]) == (0.4375, 0.5, 0.25)

    @pytest.mark.parametrize(
        ("orders", "option"),
        [("BAAC", "A"), ("BAAB", "B"), ((None, "C", None, None), "C"), ((None, None), None)],
    )
    def test_a_majority(self, orders: Any, option: str | None):
        assert majority(tuple(orders)) == option

    def test_plans(self):
        declared = "New actions:\n- FIND_TIDE(CTX) : The tide\n\n1. a = FIND_TIDE(CTX) : x\n"
        rows = [
            result("pearl", 0, plan=PLAN),
            result("pearl", 1, plan=declared),
            result("pearl", 2, plan=print_plan(direct_plan("Why?")), fallback=True),
            result("pearl", 3, plan="I cannot write a plan."),
            result("direct", 0),
            result("least-to-most", 0, plan=print_plan(direct_plan("Why?"))),
        ]
        report = summarise(evaluation(*rows))
        # What Pearl itself declares is none of a plan's inventions.
        assert titled(report, "Plans").data[1]["inventing"] == 0
        own = [one for one in vars(baselines).values() if isinstance(one, Action)]
        assert {one.doc for one in own} <= baselines.DEFINITIONS
        for ask in (direct_plan, baselines.reasoning_plan):
            alone = print_plan(baselines.without_document(ask("Why?")))
            assert plan_statistics([alone])["inventing"] == 0
        report = summarise(evaluation(*rows[:-1]))
        (found,) = titled(report, "Plans").data
        assert (found["plans"], found["steps"], found["distinct_actions"]) == (2, 1.5, 1.5)
        assert (found["unreadable"], found["fallback"]) == (1, 1 / 4)
        assert (found["inventing"], found["invented"]) == (1, {"FIND_TIDE": 1})
        top = titled(report, "Most used actions, with")
        assert [row[1] for row in top.rows] == ["CONCAT 1", "FIND_EVENT 1", "FIND_TIDE 1"]

    def test_where_no_plan_was_accepted_there_is_no_mean_and_no_action(self):
        """One of two methods without a plan, and then both."""
        none = result("decomp", 0, fallback=True)
        report = summarise(evaluation(result("pearl", 0, plan=PLAN), none))
        table = titled(report, "Plans")
        assert table.rows[1] == ("decomp", "0", "–", "–", "100.0 %", "0", "0")
        assert plan_statistics([])["steps"] is None
        most = titled(report, "Most used actions, with")
        assert [one.title for one in most.columns] == ["rank", "pearl"]
        alone = titles(summarise(evaluation(none)))
        assert "Plans" in alone
        assert not any(title.startswith("Most used") for title in alone)

    def test_cost_in_multiples_of_the_first(self):
        def of(name: str, calls: int, cost: int | None) -> Result:
            return result(name, 0, calls=calls, usage=Usage(1000 * calls, 0, 0), cost=cost)

        report = summarise(evaluation(of("direct", 1, 4000), of("pearl", 5, 12000), asked=1))
        found = by_method(titled(report, "Calls, tokens and cost"))["pearl"]
        assert (found["calls_multiple"], found["tokens_multiple"]) == (5.0, 5.0)
        assert (found["cost"], found["cost_multiple"]) == (0.012, 3.0)
        chart = titled(report, "Cost against accuracy")
        assert [point.x for point in chart.series[0].points] == [0.004, 0.012]

        unpriced = summarise(evaluation(of("direct", 1, None), of("pearl", 5, 7), asked=1))
        assert "Tokens against accuracy" in titles(unpriced)

    def test_one_table_has_accuracy_and_what_a_question_takes(self):
        def of(name: str, at: int, **more: Any) -> Result:
            usage = Usage(1000, 100, 0)
            return result(name, at, calls=2, usage=usage, cost=3000, **more)

        rows = [of("normal-evidence", at, measures={"seconds": 2.0}) for at in range(2)]
        rows += [of("pearl-execute-only", at, measures={"seconds": 12.25}) for at in range(2)]
        whole = summarise(evaluation(*rows, asked=2))
        table = titled(whole, "Accuracy in total")
        assert [one.title for one in table.columns] == [
            "method", "right", "answered", "% of all 2", "95 % interval", "calls", "tokens",
            "cost", "seconds",
        ]  # fmt: skip
        assert table.rows[1][5:] == ("2.00", "1,100", "$0.0030", "12.2 s")
        assert "three ways" not in titles(whole)
        for form in ("terminal", "markdown", "latex", "json"):
            text = FORMS[form](Report("t", (), (table,)))
            for shown in ("0.0030", "1,100") if form != "json" else ("0.003", "1100.0"):
                assert shown in text, form
        shown = terminal(Report("t", (), (table,)))
        assert shown.count("pearl-execute-only") == 1
        assert all(cells(line) <= 100 for line in shown.splitlines())
        found = by_method(table)["normal-evidence"]
        assert (found["of_rows"], found["tokens"], found["seconds"]) == (1.0, 1100, 2.0)
        vain = {"in_vain": 2.0, "in_vain_tokens": 2200.0}
        flaky = summarise(evaluation(of("direct", 0, measures=vain), asked=1))
        told = "Not in it: 2 failed calls, which took 2,200 tokens."
        assert told in titled(flaky, "Accuracy in total").note

    def test_accuracy_is_counted_in_three_ways_where_they_differ(self):
        rows = [result("direct", 0, calls=1), result("direct", 1, None, calls=1, error="no")]
        report = summarise(evaluation(*rows, asked=2))
        first = titled(report, "Accuracy in total")
        assert [one.title for one in first.columns][5:] == ["calls"]
        ways = titled(report, "Accuracy counted in three ways (2 questions)")
        assert (ways.rows[0][3], ways.rows[0][6]) == ("50.0 %", "100.0 %")

    def test_without_tokens_calls_and_seconds_are_all_there_is(self):
        rows = [result("direct", 0, calls=1), result("pearl", 0, calls=4)]
        report = summarise(evaluation(*rows))
        assert titled(report, "Calls, tokens").columns[-1].title == "×"
        said = [" ".join(block.paragraphs) for block in report.blocks if isinstance(block, Text)]
        assert any("No tokens were reported" in one for one in said)
        assert "Calls against accuracy" in titles(report)
        timed = [replace(row, measures={"seconds": 3.0}) for row in rows]
        table = titled(summarise(evaluation(*timed, result("direct", 1, calls=1))), "Calls, tokens")
        assert (table.columns[-1].title, table.rows[0][-1]) == ("seconds", "3.0 s")
        assert "Seconds: from a question's beginning" in table.note
        assert "Seconds" not in titled(report, "Calls, tokens").note

    def test_accuracy_by_size_of_the_library(self):
        rows = [result(f"pearl@{size}", 0) for size in (140, 1, 20)]
        chart = titled(summarise(evaluation(*rows)), "Accuracy by size")
        assert chart.kind == "line"
        assert sorted(point.x for point in chart.series[0].points) == [1, 20, 140]
        assert "by size" not in titles(summarise(evaluation(rows[0])))
        two = [replace(row, method=f"{row.method}, {model}") for row in rows for model in "ab"]
        chart = titled(summarise(evaluation(*two)), "Accuracy by size")
        assert [(line.name, len(line.points)) for line in chart.series] == [
            ("pearl, a", 3), ("pearl, b", 3)]  # fmt: skip


@pytest.fixture(scope="module")
def report() -> Report:
    return summarise(everything())


@pytest.fixture
def _file() -> None:
    Path("eval.jsonl").write_text("".join(write_lines(everything())), encoding="utf-8")


class _Page(HTMLParser):
    """What a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.style = ""
        self.text = ""
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.style += data
        self.text += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


@pytest.fixture(scope="module")
def html(report: Report) -> str:
    pytest.importorskip("matplotlib")
    return FORMS["html"](report)


@pytest.fixture(scope="module")
def page(html: str) -> _Page:
    page = _Page()
    page.feed(html)
    return page


class TestHtml:
    def test_only_its_own_style_is_allowed_and_nothing_is_loaded(self, html: str, page: _Page):
        policy = next(
            told.get("content") or ""
            for tag, told in page.tags
            if tag == "meta" and told.get("http-equiv") == "Content-Security-Policy"
        )
        digest = base64.b64encode(hashlib.sha256(page.style.encode()).digest()).decode()
        assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
        assert "unsafe" not in policy
        names = {tag for tag, _ in page.tags}
        assert not names & {"script", "link", "img", "iframe", "object", "base", "form", "a"}
        for tag, told in page.tags:
            for key, value in told.items():
                # A style's attribute would not be let through, an address would be followed.
                assert key not in ("style", "src", "srcset"), (tag, key)
                assert not key.startswith("on"), (tag, key)
                if key.endswith("href"):
                    assert (value or "").startswith("#")
        assert "url(" not in page.style
        assert "@import" not in page.style

    def test_what_others_wrote_is_shown_and_not_obeyed(self, html: str, page: _Page):
        assert '<script>alert(1)</script> & "50 %" $x_1$' in page.text
        assert html.replace("\n", "").isprintable()

    def test_charts_can_be_read_aloud_and_do_not_share_names(self, html: str, page: _Page):
        pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
        assert len(pictures) == 5
        names: list[str] = []
        for picture in pictures:
            root = ElementTree.fromstring(picture)
            assert root.get("role") == "img"
            assert len(root.get("aria-label") or "") > 40
            names += [found for one in root.iter() if (found := one.get("id"))]
            for one in root.iter():
                for key, value in one.attrib.items():
                    for found in re.findall(r"url\(#([^)]+)\)", value):
                        assert found in names
                    if key.endswith("href"):
                        assert value.removeprefix("#") in {x.get("id") for x in root.iter()}
        assert len(names) == len(set(names))

    def test_charts_have_labels_and_take_the_pages_colours(self, html: str):
        picture = re.findall(r"<svg.*?</svg>", html, re.DOTALL)[0]
        words = [one.text for one in ElementTree.fromstring(picture).iter() if one.text]
        assert {"zero-shot", "mcq", "pearl", "% of all questions"} <= {one.strip() for one in words}
        paints = set(re.findall(r'(?:fill|stroke)="([^"]+)"', picture))
        assert paints <= {"none", "var(--ink)", "var(--dim)", "var(--line)", "var(--c1)"}

    def test_tables_have_headers(self, page: _Page):
        heads = [told.get("scope") for tag, told in page.tags if tag == "th"]
        assert set(heads) == {"col", "row"}
        assert {told.get("lang") for tag, told in page.tags if tag == "html"} == {"en"}

    def test_without_matplotlib_charts_are_text(
        self, report: Report, html: str, monkeypatch: pytest.MonkeyPatch
    ):
        assert FORMS["html"](report) == html
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        page = FORMS["html"](report)
        assert "[plots]" in page
        assert "<pre>" in page
        assert "<svg" not in page
        assert "█" in page
        assert "pip install" not in FORMS["html"](Report("Words", ()))


class TestTerminal:
    @pytest.mark.parametrize("width", [60, 100, 180])
    def test_no_line_is_wider_than_the_screen(self, report: Report, width: int):
        lines = terminal(report, width).splitlines()
        assert max(map(cells, lines)) <= width
        assert all(line.isprintable() and line == line.rstrip() for line in lines)

    def test_columns_stand_under_their_titles(self):
        table = Table(
            "Trial",
            (Column("method", "left"), Column("% of all 1,000 questions"), Column("right")),
            (("漢字", "7.0 %", "1,000"), ("zero-shot", "68.8 %", "5")),
            note="A note.",
        )
        assert terminal(Report("Title", (), (table,)), 60).splitlines() == [
            "Title",
            "",
            "Trial",
            "            % of all",
            "               1,000",
            "method     questions  right",
            "───────────────────────────",
            "漢字           7.0 %  1,000",
            "zero-shot     68.8 %      5",
            "A note.",
        ]

    def test_a_wide_table_goes_on_below_with_its_first_column(self):
        columns = (Column("method", "left"), *(Column(f"figure {at}") for at in range(9)))
        table = Table("Wide", columns, (("zero-shot", *[f"{at:,}.5" for at in range(9)]),))
        out = terminal(Report("Title", (), (table,)), 50)
        assert out.count("zero-shot") == out.count("method") == 3
        assert all(f"figure {at}" in out and f"{at}.5" in out for at in range(9))

    def test_parts_are_about_as_wide_as_each_other(self):
        widths = [10, *[8] * 9]
        found = parts(widths, 60, 2)
        assert [len(one) for one in found] == [6, 5]
        assert [at for one in found for at in one[1:]] == list(range(1, 10))
        assert all(wide([widths[at] for at in one], 2) <= 60 for one in found)

    @pytest.mark.usefixtures("_file")
    def test_titles_are_bold_on_a_terminal_alone(self):
        code, shown = on_terminal("report", "eval.jsonl")
        assert code == 0
        assert "\x1b[1mAccuracy in total (24 questions)\x1b[0m" in shown
        assert "\x1b[31m" not in shown
        plain = call("report", "eval.jsonl").out
        assert "\x1b" not in plain


class TestBars:
    def test_a_bar_is_as_long_as_its_value(self):
        points = tuple(Point(name, y, 0, y - 5, y + 5) for name, y in (("a", 25.0), ("bb", 50.0)))
        chart = Chart("bars", "Trial", (Series("", points),), "%", top=100.0, unit=" %")
        one, two = text_chart(chart, 100)
        assert one.count("█") * 2 == two.count("█") == 22
        assert one.endswith("25.0 %  20.0–30.0")
        assert one.index("25.0") == two.index("50.0")

    def test_points_stand_in_a_frame(self):
        points = (Point("low", 0.0, 0.0), Point("high", 100.0, 100.0), Point("too", 100.0, 100.0))
        chart = Chart("scatter", "Trial", (Series("", points),), "%", "calls", top=100.0)
        lines = text_chart(chart, 80)
        assert lines[0].rstrip().endswith("*")
        assert "│a" in lines[11]
        assert [" ".join(line.split()[:2]) for line in lines[14:17]] == ["a low", "b high", "c too"]

    def test_points_of_a_line_are_drawn_from_left_to_right_and_those_of_a_scatter_apart(self):
        one, two = Point("a", 1.0, 9.0), Point("b", 2.0, 3.0)
        lines = Chart("line", "Trial", (Series("pearl", (one, two)),), "%", "size")
        assert lines.plots == [("pearl", [two, one])]
        apart = replace(lines, kind="scatter").plots
        assert apart == [("pearl, a", [one]), ("pearl, b", [two])]

    def test_series_have_their_names_over_them(self):
        series = tuple(Series(name, (Point("", 5.0, 20.0),)) for name in ("one", "two"))
        chart = Chart("line", "Trial", series, "%", "size")
        shown = [line.split()[0] for line in text_chart(chart, 60) if line]
        assert shown == ["one", "20", "two", "20"]


class TestMarkdown:
    def test_every_row_has_the_cells_of_its_head(self, report: Report):
        out = FORMS["markdown"](report)
        blocks = re.findall(r"(?:^\|.*\n?)+", out, re.MULTILINE)
        assert len(blocks) == sum(isinstance(block, Table) for block in report.blocks)
        for block in blocks:
            bars = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(bars) == 1

    def test_nothing_in_it_marks_up(self):
        hostile = Report(
            HOSTILE, ((HOSTILE, HOSTILE),), (Text((HOSTILE, "1. one", "- two", "# x")),)
        )
        out = FORMS["markdown"](hostile)
        assert "<script>" not in re.sub(r"\\.", "", out)
        assert not re.search(r"(?<!\\)\]\(", out)
        assert "\n1. " not in out
        assert "\n- two" not in out
        assert "http://" not in out

    def test_a_label_cannot_end_a_block_of_code(self):
        chart = Chart("bars", "Trial", (Series("", (Point("```\n# x", 1.0),)),), "%")
        out = FORMS["markdown"](Report("Title", (), (chart,)))
        assert out.count("````") == 2


class TestLatex:
    def test_everything_is_escaped(self):
        out = FORMS["latex"](Report(HOSTILE, (), (Text((HOSTILE,)),)))
        body = out[out.index(r"\section*") :]
        assert r"\textbackslash{}input\{secret\}" in body
        assert r"50 \%" in body
        assert r"\$x\_1\$" in body
        assert r"\'{e}t\'{e}" in body
        assert r"\texttt{U+6F22}" in body
        assert body.isascii()

    def test_pearls_own_headings_and_numbers_are_set_as_mathematics(self):
        pytest.importorskip("nltk")
        labels = {"p": {1: "yes", 2: "no"}, "q": {1: "no", 2: "yes"}}
        table = pairs_table("Pairs", "plans", agreement(labels), {1: "Anna", 2: "Ben"})
        out = FORMS["latex"](Report("Review", (), (table, Text(("Krippendorff's α",)))))
        assert r" & plans & same & Cohen's $\kappa$ \\" in out
        assert r"Anna and Ben & 2 & 0.0 \% & $-$1.000 \\" in out
        assert "Krippendorff's $\\alpha$\n" in out

    def test_every_table_and_figure_has_a_label_of_its_own(self, report: Report):
        out = FORMS["latex"](report)
        labelled = re.findall(r"\\caption\{(.*)\}\n\\label\{(.*)\}\n", out)
        assert len(labelled) == out.count(r"\caption") > 1
        assert len({label for _, label in labelled}) == len(labelled)
        assert {label.partition(":")[0] for _, label in labelled} == {"tab", "fig"}
        twice = (Table("Accuracy by é (2 questions)", (Column("", "left"),), (("a",),)),) * 2
        out = FORMS["latex"](Report("Own questions, test split", (), twice))
        labels = re.findall(r"\\label\{(.*)\}", out)
        # How many questions there are may change, and the label stays.
        stem = "tab:own-questions-test-split:accuracy-by"
        assert labels == [stem, f"{stem}-2"]
        titles = (f"accuracy by {name}" for name in ("", "", "2"))
        named = [Table(title, (Column("", "left"),), (("a",),)) for title in titles]
        out = FORMS["latex"](Report("t", (), tuple(named)))
        labels = re.findall(r"\\label\{tab:t:(.*)\}", out)
        assert labels == ["accuracy-by", "accuracy-by-2", "accuracy-by-2-2"]

    def test_it_compiles(self, report: Report, tmp_path: Path):
        program = shutil.which("pdflatex")
        if program is None:
            pytest.skip("there is no LaTeX here")
        # These need what the usual packages of a distribution have.
        if subprocess.run(
            ["kpsewhich", "pgfplots.sty"], capture_output=True, check=False
        ).returncode:
            pytest.skip("this LaTeX has no pgfplots")
        (tmp_path / "report.tex").write_text(FORMS["latex"](report), encoding="utf-8")
        (tmp_path / "page.tex").write_text(
            "\\documentclass{article}\n\\usepackage{booktabs,graphicx,pgfplots}\n"
            "\\pgfplotsset{compat=1.16}\n\\begin{document}\n\\input{report}\n\\end{document}\n"
        )
        done = subprocess.run(
            [program, "-interaction=nonstopmode", "-halt-on-error", "page.tex"],
            cwd=tmp_path, capture_output=True, check=False, timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-3000:].decode("utf-8", "replace")
        assert (tmp_path / "page.pdf").stat().st_size > 10_000


@pytest.mark.usefixtures("_file")
class TestCommand:
    @pytest.mark.parametrize(
        ("name", "begins", "format"),
        [
            ("r.md", "# Trial", ""), ("r.tex", "% Needs", ""), ("r.html", "<!DOCTYPE", ""),
            ("r.txt", "Trial", ""), ("r.md", "% Needs", "latex"),
        ],
    )  # fmt: skip
    def test_a_files_ending_says_its_form_unless_one_is_asked_for(
        self, name: str, begins: str, format: str
    ):
        if name.endswith("html"):
            pytest.importorskip("matplotlib")
        asked = ("--format", format) if format else ()
        assert call("report", "eval.jsonl", "-o", name, *asked) == (0, "", "")
        assert Path(name).read_text("utf-8").startswith(begins)

    def test_a_page_whose_charts_cannot_be_drawn_says_so(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        result = call("report", "eval.jsonl", "-o", "r.html")
        said = f"matplotlib is not installed: {install_command('plots')}."
        assert result == (0, "", f"pearl: The charts are drawn as text, as {said}\n")
        assert "<svg" not in Path("r.html").read_text("utf-8")

    def test_a_backend_of_matplotlib_s_that_is_none_is_one_line(self):
        pytest.importorskip("matplotlib")
        result = process("report", "eval.jsonl", "-o", "r.html", MPLBACKEND="zz")
        assert one_line(result, 2).startswith("matplotlib cannot be loaded: unset MPLBACKEND")
        assert not Path("r.html").exists()

    def test_json_has_numbers(self):
        data = call("report", "eval.jsonl", "--json").json
        assert data["about"].keys() == {"model"}
        table = next(one for one in data["blocks"] if one.get("table", "").startswith("Accuracy"))
        assert {type(row["of_asked"]) for row in table["rows"]} == {float}
        chart = next(one for one in data["blocks"] if "chart" in one)
        assert chart["series"][0]["points"][0]["label"] == "zero-shot"

    @pytest.mark.parametrize(
        ("args", "said"),
        [
            ((), "Name an evaluation"),
            (("none.jsonl",), "none.jsonl is no file"),
            (("--errors", "3"), "Name an evaluation"),
            (("eval.jsonl", "--method", "pearl"), "--errors N"),
            (("eval.jsonl", "--errors", "3", "--method", "x"), "no method x: name one of zero"),
            (("eval.jsonl", "--errors", "0"), "0 is not in the range"),
            (("eval.jsonl", "--labelled", "none.jsonl"), "none.jsonl does not exist"),
            (("eval.jsonl", "--labelled", "eval.jsonl"), 'eval.jsonl:1 has no "category"'),
            (("eval.jsonl", "-o", "none/r.md"), "The folder none does not exist"),
            (("eval.jsonl", "-o", "r.docx"), "end the name in .txt, .md, .tex, .html, .htm, .json"),
            (("eval.jsonl", "--format", "html", "-o", "x.pdf"), "a report is not written as .pdf"),
            (("last",), "There is no store"),
        ],
    )  # fmt: skip
    def test_wrong_use_is_one_line(self, args: tuple[str, ...], said: str):
        assert said in one_line(call("report", *args), 2)


@pytest.mark.usefixtures("_file")
class TestErrors:
    def drawn(self, *args: str) -> list[dict[str, Any]]:
        result = call("report", "eval.jsonl", "--errors", *args)
        assert result.code == 0, result.err
        return [json.loads(line) for line in result.out.splitlines()]

    def test_wrong_answers_are_spread_over_the_splits(self):
        rows = self.drawn("6")
        assert [row["split"] for row in rows] == ["long"] * 3 + ["short"] * 3
        assert {row["method"] for row in rows} == {"pearl"}
        assert all(row["chosen"] != row["gold"] and row["category"] == "" for row in rows)
        assert rows[0]["options"]["A"] == "yes"
        assert rows[0]["plan"] == PLAN
        assert self.drawn("6") == rows

    def test_there_may_be_fewer(self):
        result = call("report", "eval.jsonl", "--errors", "999", "--method", "mcq", "-o", "e.jsonl")
        rows = read_rows("e.jsonl")
        assert f"There are no more than {len(rows)}." in result.err
        wrong = [one for one in everything().results if one.method == "mcq" and one.score < 1]
        assert len(rows) == len(wrong)

    def test_failed_questions_are_not_drawn(self):
        rows = [result("direct", 0, None, error="no plan"), result("direct", 1, "B")]
        Path("one.jsonl").write_text("".join(write_lines(evaluation(*rows))), encoding="utf-8")
        out = call("report", "one.jsonl", "--errors", "5").out
        assert [json.loads(line)["id"] for line in out.splitlines()] == ["1"]

    def test_labels_are_counted_and_rows_without_one_are_named(self):
        rows = self.drawn("8")
        given_ = ["plan", "plan ", "Execution", "mapping", "gold", "other", "", "Plna"]
        pairs = zip(rows, given_, strict=True)
        write_rows("done.jsonl", *({**row, "category": category} for row, category in pairs))
        data = call("report", "--labelled", "done.jsonl", "--json").json
        (table,) = data["blocks"]
        assert table["table"] == "Where 6 wrong answers went wrong"
        counts = {row["category"]: row["count"] for row in table["rows"]}
        assert counts == {"plan": 2, "execution": 1, "mapping": 1, "gold": 1, "other": 1}
        assert table["rows"][0]["share"] == pytest.approx(1 / 3)
        said = 'done.jsonl:7 (empty), done.jsonl:8 ("Plna" is no category)'
        assert table["note"] == f"Not counted: {said}."
        whole = call("report", "eval.jsonl", "--labelled", "done.jsonl").out
        assert "Where 6 wrong answers went wrong" in whole
        assert "Accuracy in total" in whole

    def test_a_file_is_drawn_anew_only_as_long_as_nobody_filled_it_in(self):
        draw = ("report", "eval.jsonl", "--errors", "3", "-o", "e.jsonl")
        assert call(*draw).code == call(*draw).code == 0
        assert "no row has a category yet" in one_line(call("report", "--labelled", "e.jsonl"), 2)
        file = Path("e.jsonl")
        file.write_text(file.read_text("utf-8").replace('"category": ""', '"category": "gold"', 1))
        assert "e.jsonl is filled in already" in one_line(call(*draw), 2)
        assert '"category": "gold"' in file.read_text("utf-8")
