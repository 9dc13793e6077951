"""What a notebook shows: a plan drawn, an answer's evidence, a bar; in a real kernel."""

from __future__ import annotations

import base64
import json
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import pearl
from pearl.jobs.workers import JobProgress
from pearl.lang.source import Span
from pearl.models.base import Usage
from tests.shell import STORY

EVIL = "<script>alert(1)</script> & \"'</pre></details><img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_an_answer_shows_its_evidence_and_nothing_in_it_is_run():
    quotes = (pearl.Quote(EVIL, Span(3, 9), EVIL), pearl.Quote("made up", None, "two"))
    answer = pearl.Answer(
        EVIL, EVIL, quotes, EVIL, pearl.Option("A", EVIL), False, False, "", "m", "", 1, 0, Usage()
    )
    page = Tags(answer._repr_html_())
    assert {*page.tags} == {"p", "b", "ul", "li", "small", "details", "summary", "pre"}
    assert page.text.count(EVIL) == 5
    assert "made up two, not in the document" in page.text


def test_a_plan_is_an_image_of_its_own_and_a_rejected_one_says_why():
    plan = pearl.parse('1. a = FIND_REASON(CTX, "</svg><script>") : Why\n').plan
    [tag] = Tags(plan._repr_html_()).tags
    assert tag == "img"
    drawn = base64.b64decode(plan._repr_html_().partition("base64,")[2].partition('"')[0])
    assert b"FIND_REASON" in drawn
    assert b"<script>" not in drawn
    assert pearl.Plan()._repr_html_() == ""
    source = pearl.Source("plan/8", f"1. a = {EVIL}(CTX) : x")
    found = tuple(pearl.check(source.text))
    page = Tags(pearl.Planned(None, 8, source, found, 0)._repr_html_())
    assert page.text.startswith("No plan was accepted (8 attempts).PRL")
    assert {*page.tags} <= {"p", "ul", "li"}
    assert pearl.Planned(plan, 1, source, (), 0)._repr_html_() == plan._repr_html_()


def test_results_are_their_tables():
    pytest.importorskip("pandas")
    rows = tuple({"id": str(at), "answer": EVIL} for at in range(500))
    page = Tags(pearl.JobResult("r", rows, JobProgress("r", 500))._repr_html_() or "")
    assert "script" not in page.tags
    assert page.tags.count("tr") < 100
    assert "500 rows" in page.text
    mined = pearl.Mined(tuple(pearl.load_library("quality").listed), (), 1, 1)
    assert "<td>COUNT_INSTANCES</td>" in (mined._repr_html_() or "")


def test_results_without_pandas_have_no_table(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert pearl.JobResult("r", (), JobProgress("r", 0))._repr_html_() is None


CELLS = (
    "import pearl\nreader = pearl.Pearl(model='offline', library='quality')",
    "pearl.parse('1. a = FIND_REASON(CTX, \"Mara leaves\") : Why').plan",
    "reader.run_sync('1. a = FIND_REASON(CTX, \"Mara leaves\") : Why', 'story.txt')",
    "answer = await reader.run('1. a = FIND_REASON(CTX, \"Mara\") : Why', 'story.txt')",
    "len(reader.batch_sync('q.jsonl').rows)",
    """import asyncio, threading
from pearl.jobs.progress import bar

before = threading.active_count()
with bar("bar", "{task.description}") as update:
    for at in range(5):
        update(total=5, completed=at, description=f"{at} of 5 done")
        await asyncio.sleep(0.1)
    added = threading.active_count() - before
added""",
)


@pytest.mark.timeout(300)
def test_in_a_kernel(tmp_path: Path):
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipywidgets")
    nbformat = pytest.importorskip("nbformat.v4")
    manager = pytest.importorskip("jupyter_client").KernelManager()
    # The kernel of this Python, whatever is installed for the person who runs the test.
    manager.kernel_spec.argv[0] = sys.executable
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    row = {"id": "1", "question": "Why does Mara leave?", "document": "story.txt"}
    (tmp_path / "q.jsonl").write_text(json.dumps(row), encoding="utf-8")
    notebook = nbformat.new_notebook(cells=[nbformat.new_code_cell(cell) for cell in CELLS])
    client = nbclient.NotebookClient(notebook, km=manager, timeout=120,
                                     resources={"metadata": {"path": str(tmp_path)}})  # fmt: skip
    _, plan, answer, awaited, batch, moved = (cell["outputs"] for cell in client.execute()["cells"])

    def shown(outputs: list[Any], kind: str) -> list[str]:
        return [one["data"][kind] for one in outputs if kind in one.get("data", {})]

    assert shown(plan, "text/html")[0].startswith("<img ")
    assert "<details><summary>Plan</summary>" in shown(answer, "text/html")[0]
    assert awaited == []
    assert shown(batch, "text/plain")[-1] == "1"
    # The bar is a widget, which is gone when the work is done.
    assert shown(batch, "application/vnd.jupyter.widget-view+json")
    # No thread draws it beside a kernel that hears of its widgets meanwhile, as in an awaited cell.
    assert shown(moved, "application/vnd.jupyter.widget-view+json")
    assert shown(moved, "text/plain")[-1] == "0"
    assert "of 5 done" not in json.dumps(moved)
