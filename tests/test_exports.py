"""Results in the forms of others, as their own packages read them; skipped without these, as they
weigh 130 and 190 MB (pip install 'pearl[inspect,datasets]')."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from pearl.evaluate.exports import write_dataset, write_inspect
from pearl.evaluate.results import Evaluation, Result
from pearl.lang.errors import InputError
from pearl.models.base import Usage
from tests.shell import STORY, call, one_line, read_rows, write_rows

RIGHT = Result(
    "pearl", "1", "long", 1.0, "B", "B", reason="The Fund says so.",
    labels={"reasoning": ("why",)}, question="Why? # no heading", options=("One", "Two"),
    words="Two, as\nthe Fund says.", plan="1. a = FIND(CTX)\n", calls=3,
    usage=Usage(900, 70, 640), cost=1200, measures={"f1": 0.5},
)  # fmt: skip
FAILED = Result("pearl", "2", "long", gold="A", question="Who?", error="The model said nothing.")
OTHER = Result("direct", "1", "long", 0.0, "B", "A", question="Why?", measures={"em": 0.0})
EVALUATION = Evaluation(
    "QuALITY: dev\u2028 of *it*",
    (("data", "dev.jsonl"), ("model", "gpt-x")),
    ("pearl", "direct"),
    {"long": 2},
    (RIGHT, FAILED, OTHER),
)


@pytest.fixture
def batch() -> str:
    """A batch's run in ``s.db``: a right answer, and one that nobody says is right."""
    Path("story.txt").write_text(STORY, encoding="utf-8")
    row = {"question": "Why does Mara leave the lighthouse?", "document": "story.txt"}
    rows = [{**row, "id": "a", "gold": "the Fund had closed it"}, {**row, "id": "b"}]
    write_rows("q.jsonl", *rows)
    done = ("batch", "q.jsonl", "-o", "a.jsonl", "--store", "s.db", "--model", "offline")
    assert call(*done).code == 0
    run: str = call("runs", "--store", "s.db", "--json").json[0]["run"]
    return run


def read_log(path: str) -> Any:
    return pytest.importorskip("inspect_ai.log").read_eval_log(path)


def test_a_log_of_inspect_has_a_method_s_results():
    pytest.importorskip("inspect_ai")
    write_inspect(EVALUATION, "pearl", "it.eval")
    log = read_log("it.eval")
    assert (log.status, log.eval.solver, log.eval.model) == ("success", "pearl", "gpt-x")
    assert log.eval.task == EVALUATION.title
    assert log.eval.metadata == {"data": "dev.jsonl", "model": "gpt-x"}
    (score,) = log.results.scores
    assert {name: one.value for name, one in score.metrics.items()} == {
        "accuracy": 0.5,
        "stderr": 0.5,
    }
    right, failed = log.samples
    assert (right.id, right.input, right.target) == ("long/1", RIGHT.question, "B")
    assert right.choices == ["One", "Two"]
    assert right.output.completion == RIGHT.words
    assert (right.scores["pearl"].value, right.scores["pearl"].answer) == (1.0, "B")
    assert (right.scores["pearl"].explanation, failed.scores["pearl"].explanation) == (
        "The Fund says so.", None,
    )  # fmt: skip
    used = right.model_usage["gpt-x"]
    assert (used.input_tokens, used.output_tokens, used.input_tokens_cache_read) == (900, 70, 640)
    assert right.metadata["plan"] == RIGHT.plan
    assert right.metadata["label_reasoning"] == ["why"]
    assert right.error is None
    assert failed.error.message == FAILED.error
    assert failed.scores["pearl"].value == 0.0
    assert [one.name for one in Path.cwd().iterdir()] == ["it.eval"]
    with pytest.raises(InputError, match="holds one method: say --method with one of pearl, dir"):
        write_inspect(EVALUATION, "", "it.eval")
    with pytest.raises(InputError, match="There is no method rebel"):
        write_inspect(EVALUATION, "rebel", "it.eval")


def test_a_log_is_written_to_what_a_link_leads_to():
    pytest.importorskip("inspect_ai")
    Path("logs").mkdir()
    Path("it.eval").symlink_to("logs/it.eval")
    write_inspect(EVALUATION, "pearl", "it.eval")
    assert Path("it.eval").is_symlink()
    assert read_log("logs/it.eval").status == "success"


def test_a_batch_is_a_log_of_inspect_too(batch: str):
    pytest.importorskip("inspect_ai")
    assert call("report", batch, "--store", "s.db", "-o", "it.eval").code == 0
    log = read_log("it.eval")
    a, b = log.samples
    assert a.scores["pearl"].value == 1.0
    assert "the Fund had closed it" in a.output.completion
    assert not b.scores
    assert (log.results.scores[0].scored_samples, log.results.scores[0].unscored_samples) == (1, 1)


def test_a_folder_has_rows_and_a_card_that_names_their_columns():
    write_dataset(EVALUATION, "it")
    rows = read_rows("it/test.jsonl")
    card = Path("it/README.md").read_text("utf-8")
    _, head, told = card.split("---\n", 2)
    meta = yaml.safe_load(head)
    assert meta["pretty_name"] == EVALUATION.title
    assert meta["configs"][0]["data_files"] == [{"split": "test", "path": "test.jsonl"}]
    names = [one["name"] for one in meta["dataset_info"]["features"]]
    assert [list(row) for row in rows] == [names] * 3
    assert [row["reason"] for row in rows] == ["The Fund says so.", "", ""]
    assert told.startswith("# QuALITY: dev")
    assert "\\*it\\*" in told.splitlines()[0] + told.splitlines()[1]
    assert "pearl 2, direct 1" in told
    unscored = replace(RIGHT, error="The answer was not scored.")
    write_dataset(replace(EVALUATION, results=(unscored,)), "it")
    [row] = read_rows("it/test.jsonl")
    assert (row["answer"], row["score"]) == ("B", None)
    Path("it/mine.txt").touch()
    with pytest.raises(InputError, match=r"it has other files, as mine\.txt: name a new folder"):
        write_dataset(EVALUATION, "it")


@pytest.mark.parametrize("job", ["batch q.jsonl -o a.jsonl", "eval questions --data q.jsonl"])
def test_each_of_several_gold_answers_comes_through(job: str):
    Path("story.txt").write_text(STORY, encoding="utf-8")
    row = {"question": "Why does Mara leave the lighthouse?", "document": "story.txt"}
    golds = ["the Fund had closed it", "it was closed"]
    write_rows("q.jsonl", {**row, "id": "a", "gold": golds}, {**row, "id": "b", "gold": golds[0]})
    more = ("--methods", "pearl") if "eval" in job else ()
    options = ("--store", "s.db", "--model", "offline")
    assert call(*job.split(), *more, *options).code == 0
    run = call("runs", "--store", "s.db", "--json").json[0]["run"]
    if Path("a.jsonl").exists():
        a, b = read_rows("a.jsonl")
        assert (a["gold"], a["golds"]) == (" or ".join(golds), golds)
        assert (b["gold"], "golds" in b) == (golds[0], False)
    assert call("report", run, "--store", "s.db", "-o", "it/").code == 0
    a, b = read_rows("it/test.jsonl")
    assert (a["gold"], a["golds"]) == (" or ".join(golds), golds)
    assert (b["gold"], b["golds"]) == (golds[0], [])
    pytest.importorskip("inspect_ai")
    assert call("report", run, "--store", "s.db", "-o", "it.eval").code == 0
    assert [one.target for one in read_log("it.eval").samples] == [golds, golds[0]]


def test_datasets_loads_the_folder(batch: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    load = pytest.importorskip("datasets").load_dataset
    write_dataset(EVALUATION, "it")
    rows = load("it", split="test", cache_dir="kept").to_list()
    assert rows[0]["options"] == ["One", "Two"]
    assert rows[0]["label_reasoning"] == ["why"]
    assert [row["measure_f1"] for row in rows] == [0.5, None, None]
    assert [row["score"] for row in rows] == [1.0, 0.0, 0.0]
    assert rows[0]["words"] == RIGHT.words
    assert call("report", batch, "--store", "s.db", "-o", "of-batch/").code == 0
    a, b = load("of-batch", split="test", cache_dir="kept").to_list()
    assert (a["score"], b["score"]) == (1.0, None)


def test_a_report_of_a_batch_counts_what_has_a_gold_answer(batch: str):
    told = call("report", batch, "--store", "s.db").out
    assert "Accuracy in total (1 question)" in told
    assert "1 row without a gold answer left out." in told
    line = one_line(call("report", "last", "--store", "s.db"), 2)
    assert line.endswith(f"The last batch's report is pearl report {batch}.")
    assert "give the name of its run (pearl runs)" in one_line(call("report", "a.jsonl"), 2)
    for wrong in (("--errors", "2"), ("--json",), ("--format", "html")):
        line = one_line(call("report", batch, "--store", "s.db", "-o", "it/", *wrong), 2)
        assert "-o FOLDER/ take no" in line
    Path("there").mkdir()
    assert "is a directory" in one_line(call("report", batch, "--store", "s.db", "-o", "there"), 2)


def test_a_run_that_is_not_over_says_how_much_is_done_and_scores_no_more():
    row = {"document": "story.txt", "question": "Why?", "gold": "x"}
    rows = ({**row, "id": str(at)} for at in range(3))
    Path("story.txt").write_text(STORY, "utf-8")
    write_rows("q.jsonl", *rows)
    assert call("batch", "q.jsonl", "-o", "a.jsonl", "--store", "s.db").code == 0
    methods = ("--methods", "pearl,zero-shot")
    assert call("eval", "questions", "--data", "q.jsonl", *methods, "--store", "s.db").code == 0
    line = one_line(call("eval", "questions", "--data", "q.jsonl", *methods, "-o", "r1.html"), 2)
    assert line.endswith("end the name in .jsonl, .json.")
    of_eval, of_batch = (run["run"] for run in call("runs", "--store", "s.db", "--json").json)
    with closing(sqlite3.connect("s.db")) as database, database:
        database.execute("UPDATE runs SET ended = NULL, owner = ''")
        gone = "('1', 'zero-shot/1', 'zero-shot/2', 'pearl/2')"
        database.execute(f"DELETE FROM rows WHERE id IN {gone}")
    half = "stopped on the way, with 2 of 3 questions done"
    assert half in call("report", of_batch, "--store", "s.db").out
    told = call("report", of_eval, "--store", "s.db").out
    assert "with 3 of 6 answers done; every figure is of 1 question alone" in " ".join(told.split())
    assert "Accuracy in total (1 question)" in told
    about = call("report", of_eval, "--store", "s.db", "--json").json["about"]
    assert about["unfinished"].startswith("stopped on the way")
    assert half in call("runs", "show", of_batch, "--store", "s.db").out
    data = call("runs", "show", of_eval, "--store", "s.db", "--json").json
    assert (data["done"], data["of"]) == (3, 6)
    call("runs", "show", of_batch, "--store", "s.db", "--html", "it.html")
    page = Path("it.html").read_text("utf-8")
    assert "The run is not over" in page
    assert "2 of 3" in page
    with closing(sqlite3.connect("s.db")) as database, database:
        database.execute("DELETE FROM rows WHERE id LIKE 'zero-shot/%'")
    refused = call("report", of_eval, "--store", "s.db")
    assert refused.code == 2
    assert "2 of 6 answers done: no question is answered by every method" in refused.err
    assert not refused.out
