"""A run as a page: what it says is what happened, and nothing that somebody wrote runs in it."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import pearl
from pearl.evaluate.datasets.decomp import COMMAQA_E
from pearl.lang.diagnostics import Severity
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source, Span
from pearl.lint.checker import check
from pearl.models.base import Usage
from pearl.prompts.calls import MapAnswer
from pearl.runtime.calls import Entry
from pearl.runtime.context import Context
from pearl.viewer import job_page
from pearl.viewer.documents import DocumentLookup, DocumentName, cut, find_document, find_passages
from pearl.viewer.journal_tree import CallNode, Stage, read_calls, read_frames, read_stages
from pearl.viewer.render import plan_lines
from pearl.viewer.run_page import timeline
from tests.pages import InChromium, Watched, fits, unreadable
from tests.runs import entries
from tests.scripted_models import Scripted
from tests.server import Asked, Serve, Server, completion, failing
from tests.shell import STORY, call, one_line, write_rows

pytest_plugins = ["tests.browser", "tests.postgres"]

QUESTION = "Why does Mara leave?"
PLAN = """\
question: Why does Mara leave?

1. who = FIND_CHARACTER(CTX, "Mara") : Who she is
2. tom = FIND_CHARACTER(CTX, "Tom") : Who he is
3. why = FIND_REASON(CTX, "{who} leaves") : Why
4. ans = CONCAT(why, tom) : Both
"""
QUOTING = (
    "She left.\n> Mara left the lighthouse because the Fund had closed it.\n> Not in it at all."
)
USED = {"prompt_tokens": 400, "completion_tokens": 20}
BAD = "<script>window.hacked=1</script>"
IMAGE = '"><img src=x onerror="window.hacked=1">'


def later(answer: str, seconds: float) -> Any:
    """An answer that takes a while."""

    async def handle(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.json_response(completion(answer, usage=USED))

    return handle


@pytest.fixture
def endpoint(serve: Serve) -> Server:
    """An endpoint that plans, with a mistake at first, and answers each step after a while."""

    def script(body: dict[str, Any]) -> Any:
        match Asked(body, {}).kind:
            case "plan":
                return later(f"1. a = NONE({BAD})", 0)
            case "correct":
                return later(PLAN, 0)
            case "step":
                return later(QUOTING, 0.05) if next(tries, True) else failing(503)
        return "A"

    tries = iter([False])
    key, model = "sk-very-secret", "gpt-4o-mini"
    return serve(script, OPENAI_API_KEY=key, PEARL_STORE="store.db", PEARL_MODEL=model)


@pytest.fixture
def story() -> Path:
    path = Path("story.txt")
    path.write_text(STORY, encoding="utf-8")
    return path


def page(run: str = "last", *more: str, file: str = "out.html") -> str:
    """The page of a run."""
    done = call("runs", "show", run, "--html", file, *more)
    assert (done.code, done.out, done.err) == (0, "", "")
    return Path(file).read_text(encoding="utf-8")


def words(html: str) -> str:
    """A page's text as a reader has it, tags and spaces apart."""
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            found.append(data)

        def handle_endtag(self, tag: str) -> None:
            if tag in ("td", "th", "dt", "dd", "p", "li", "div", "summary", "blockquote"):
                found.append(" ")

    Reader().feed(html.partition("</style>")[2])
    return " ".join("".join(found).split())


def test_a_run_has_its_question_plan_answer_evidence_and_costs(endpoint: Server, story: Path):
    assert call("ask", story, QUESTION).code == 0
    html = page()
    told = words(html)
    assert f"<h1>{QUESTION}</h1>" in html
    for fact in ("gpt-4o-mini", "core, quality", "story.txt", "5 made, 0 cached, 1 failed"):
        assert fact in told
    assert '3. why = FIND_REASON(CTX, "{who} leaves") : Why' in told
    assert "Mara left the lighthouse because the Fund had closed it. line 2" in told
    assert "Not in it at all. not in the document" in told
    assert "Total 5 0 1 2,000 0 100 $" in told
    assert "sk-very-secret" not in html
    # The rejected reply is there with what the checker says of it.
    assert "Reply 1: rejected" in told
    assert "PRL" in told.partition("Reply 1: rejected")[2][:60]
    assert "Reply 2: accepted" in told

    # The whole document is there, with its quotes marked.
    shown = re.search(r'<div class="document".*?<div class="text">(.*?)</div>', html, re.DOTALL)
    assert shown
    marked = re.findall(r'<mark class="final">(.*?)</mark>', shown[1])
    assert marked == ["Mara left the lighthouse because the Fund had closed it."]
    links = re.sub(r'<a class="back".*?</a>', "", shown[1])
    assert re.sub(r"</?mark[^>]*>", "", links).replace("&#34;", '"') == STORY
    # The picture is an image of its own.
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)" alt="([^"]+)"', html)
    assert data
    assert "1. who" in base64.b64decode(data[1]).decode()
    assert "ans uses why, tom" in data[2]

    # Prompts are made again in a loop that runs already, too.
    async def within() -> str:
        return page()

    prompts = html.count("Its prompt, to the letter")
    assert asyncio.run(within()).count("Its prompt, to the letter") == prompts > 3


@pytest.mark.parametrize("constrain", ["never", "auto"])
def test_each_call_has_its_prompt_as_it_was_sent(endpoint: Server, story: Path, constrain: str):
    options = ("--option", "The Fund closed it", "--option", "Tom wanted it")
    assert call("ask", story, QUESTION, "--constrain", constrain).code == 0
    shown = prompts_of(page())
    sent = [
        [(one["role"], Asked({"messages": [one]}, {}).text.rpartition("</document>")[2].strip())
         for one in asked.messages]
        for asked in endpoint.asked
    ]  # fmt: skip
    assert len(shown) == 5
    assert all(one in sent for one in shown)
    assert "The document: " in page()
    rows = {"id": "a", "question": QUESTION, "document": "story.txt", "options": options[1::2]}
    write_rows("q.jsonl", rows)
    assert call("batch", "q.jsonl", "-o", "a.jsonl", "--constrain", constrain).code == 0
    assert len(prompts_of(page("last/a"))) == 6
    # What the file says now is not what was asked.
    write_rows("q.jsonl", {**rows, "options": ["a", "b"]})
    assert len(prompts_of(page("last/a"))) == 6
    # What cannot be what was sent is not shown.
    story.write_text("Another story.", encoding="utf-8")
    assert prompts_of(page("last/a")) == []


@pytest.mark.parametrize("strategy", ["decomp", "fsm1", "react"])
def test_calls_of_every_strategy_have_their_prompts(endpoint: Server, story: Path, strategy: str):
    call("ask", story, QUESTION, "--strategy", strategy)
    html = page()
    assert f"<dd>{strategy}</dd>" in html
    assert len(prompts_of(html)) == len(endpoint.asked) > 0
    assert endpoint.asked[0].messages[0]["content"] in unescape(html)


@pytest.mark.parametrize("name", ["a", "map"])
def test_a_choice_by_what_was_cut_has_its_prompt(story: Path, name: str):
    long = "Rain fell in the street. " * 800
    model = Scripted(lambda call: "A" if isinstance(call, MapAnswer) else long)
    plan = f'question: Who?\n\n{name} = FIND_CHARACTER(CTX, "x") : one'
    setting = {"model": model, "context": Context(window=1500), "store": "store.db"}
    pearl.run_sync(plan, str(story), options=["Tom", "Mara"], **setting)
    html = page("last", "--store", "store.db")
    assert [(one["role"], one["content"]) for one in model.asked[-1].messages] in prompts_of(html)
    assert "None of None" not in html


def prompts_of(html: str) -> list[list[tuple[str, str]]]:
    """The prompts of a page: the roles of their messages, and their texts."""
    parts = re.findall(r'<details class="prompt">(.*?)</details>', html, re.DOTALL)
    said = re.compile(r'<p class="where">(\w+)</p>.*?<pre class="text">(.*?)</pre>', re.DOTALL)
    return [[(role, unescape(text)) for role, text in said.findall(part)] for part in parts]


def test_when_calls_began_is_written_down(endpoint: Server, story: Path):
    before = time.time()
    assert call("ask", story, QUESTION).code == 0
    found = entries("store.db")
    starts = {one.path: one.started for one in found if one.kind == "call" and one.attempt == 1}
    assert all(one is not None and before <= one <= time.time() for one in starts.values())
    decided = {one.path: one.started for one in found if one.kind == "decision"}
    assert starts["step/why"] >= decided["value/who"]
    assert starts["step/tom"] < decided["value/who"]
    vain = [one for one in found if one.status == "failed"]
    assert [(one.attempt, one.cause.partition(":")[0]) for one in vain] == [(1, "server")]
    again = next(one for one in found if one.path == vain[0].path and one.status == "done")
    assert again.started <= vain[0].started <= again.started + again.seconds


def test_the_timeline_says_what_ran_side_by_side_and_what_waited(endpoint: Server, story: Path):
    assert call("run", "-", story, stdin=PLAN).code == 0
    told = words(page())
    assert "3 calls in" in told
    assert "at most 2 at a time" in told
    assert call("run", "-", story, stdin=PLAN).code == 0
    again = words(page())
    assert "0 made, 3 cached, 0 failed" in again
    assert "cached: nothing was sent" in again


def made(path: str, start: float | None, seconds: float, **more: Any) -> CallNode:
    return CallNode(Entry("call", path, "said", path, seconds=seconds, started=start, **more))


def test_each_stage_stands_behind_what_it_waited_for():
    plan = 'a = F(CTX, "x") : n\nb = F(CTX, "y") : n\njoin = CONCAT(a, b)\nc = F(CTX, join) : n\n'
    plan += 'd = F(a, "z") : n\nreturn c, d\n'
    every = [
        made("plan/1", 100.0, 1.0), made("step/a", 101.0, 1.0), made("step/b", 101.0, 3.0),
        made("step/c[0]", 104.0, 2.0), made("step/c[1]", 104.5, 1.0),
        made("step/d", 102.0, 0.5, kept=True), made("map", 106.0, 0.5),
    ]  # fmt: skip
    journal = [Entry("decision", "plan", plan), *(call.entry for call in every)]
    found = timeline(read_stages(read_frames(journal)))
    assert found is not None
    assert (found.seconds, found.busy, found.most) == (6.5, 9.0, 2)
    rows = {row.stage.key: row for row in found.rows}
    assert {key: row.waited for key, row in rows.items()} == {
        "planning": "", "a": "planning", "b": "planning", "c": "b", "d": "a", "option": "c",
    }  # fmt: skip
    # What runs side by side stands in lanes of its own, what follows in one.
    assert [bar.lane for bar in rows["c"].bars] == [0, 1]
    calls = tuple(made(f"plan/{at}", 10.0 + at, 1.0) for at in range(3))
    alone = timeline([Stage("plan", "Plan", calls)])
    assert alone is not None
    assert alone.rows[0].lanes == 1


def test_test_calls_wait_for_no_step():
    calls = (made("prove/plan", 100.0, 1.0), made("plan/1", 101.0, 1.0), made("step/a", 102.0, 1.0))
    journal = [Entry("decision", "plan", 'a = F(CTX, "x") : n\n'), *(call.entry for call in calls)]
    found = timeline(read_stages(read_frames(journal)))
    assert found is not None
    assert [(row.stage.title, row.waited) for row in found.rows] == [
        ("Short test calls", ""), ("Planning", ""), ("1. a", "planning"),
    ]  # fmt: skip


def test_without_times_there_is_no_timeline():
    calls = (made("step/a", 1.0, 1.0), made("step/a", None, 1.0))
    assert timeline([]) is timeline([Stage("a", "a", calls)]) is None


def test_a_call_is_known_with_the_tries_before_it():
    used = Usage(10, 0, 0)
    lost = Entry("call", "step/a", None, "k", 1, "failed", "rate: no", used, 0.5, started=1.0)
    last = Entry("call", "step/a", "yes", "k", 2, usage=Usage(10, 5, 0), seconds=2.0, started=1.0)
    gone = Entry("call", "step/b", None, "b", 1, "failed", "server: no", used, 0.5, started=2.0)
    more = Entry("call", "step/b", None, "b", 2, "failed", "server: no", used, 0.5, started=4.0)
    found = read_calls([lost, last, gone, more])
    assert [(one.entry.path, one.done, len(one.tries)) for one in found] == [
        ("step/a", True, 1), ("step/b", False, 2),
    ]  # fmt: skip
    assert [one.spent for one in found] == [Usage(20, 5, 0), Usage(20, 0, 0)]
    assert [(one.started, one.seconds) for one in found] == [(1.0, 2.0), (2.0, 2.5)]
    # The same asked again, after it had been given up, is another call.
    assert len(read_calls([gone, gone])) == 2


@pytest.mark.parametrize(
    ("path", "stage", "label"),
    [
        ("step/a", "a", "the whole step"),
        ("step/a[3]", "a", "item 4"),
        ("step/a[3]/step/b[1]", "a", "item 4, step/b[1]"),
        ("step/a/short", "a", "the whole step, short"),
        ("plan/2", "planning", "the whole step, 2"),
        ("map", "option", "the whole step"),
        ("condense/1/2", "condense", "the whole step, 1/2"),
    ],
)
def test_where_a_call_belongs_and_what_it_is_for(path: str, stage: str, label: str):
    found = CallNode(Entry("call", path))
    assert (found.stage, found.label) == (stage, label)


def test_the_tries_of_a_refinement_are_frames():
    journal = [
        Entry("decision", "run", {"question": "q"}),
        Entry("call", "try/0/plan/1", "1. a = FIND_REASON(CTX", "x"),
        Entry("decision", "try/0/plan/1/rejected", ["PRL103"]),
        Entry("decision", "try/0/plan/2/cut", "to be continued"),
        Entry("call", "try/0/plan/2", PLAN, "y"),
        Entry("decision", "try/0/plan", PLAN),
        Entry("decision", "try/0/step/tom", status="skipped", cause="who has no output"),
        Entry("decision", "try/0/context/why", {"passages": 2, "of": 5, "characters": 90}),
        Entry("decision", "try/0/judgement", "It is wrong."),
        Entry("decision", "try/1/value/who", {"pairs": [["a", 1]]}),
        Entry("decision", "accepted", False),
    ]
    own, first, second = read_frames(journal)
    assert own.decisions == {"accepted": False}
    assert (first.title, second.title) == ("Try 1", "Try 2")
    assert [(one.number, one.rejected) for one in first.drafts] == [(1, ("PRL103",)), (2, ())]
    assert [one.cut for one in first.drafts] == [False, True]
    assert [step.name for step in first.plan.steps] == ["who", "tom", "why", "ans"]
    assert [step.state for step in first.steps] == ["not run", "skipped", "not run", "not run"]
    assert first.steps[1].cause == "who has no output"
    assert first.passages["why"]["of"] == 5
    assert first.decisions == {"judgement": "It is wrong."}
    assert list(second.values) == ["who"]


def test_every_character_of_a_plan_is_shown_and_findings_stand_at_their_lines():
    text = 'x\n1. a = F(CTX, "{each b} \\"q\\"", [1, true]) : n (o) te\n# c\nreturn a\n\n'
    source = Source("plan", text)
    found = check(parse(source), load_library())
    lines = plan_lines(source, found)
    assert "\n".join("".join(part for _, part in line.parts) for line in lines) == text.rstrip("\n")
    assert sum(len(line.findings) for line in lines) == len(found) > 0
    # Where an error and a warning stand on the same words, the error is marked.
    error = next(one for one in found if one.severity is Severity.ERROR)
    warning = replace(error, severity=Severity.WARNING)
    for both in ([error, warning], [warning, error]):
        kinds = " ".join(kind for line in plan_lines(source, both) for kind, _ in line.parts)
        assert "error" in kinds
        assert "warning" not in kinds


def test_overlapping_quotes_cut_the_document_without_losing_a_character():
    text = Source("d", "One two three four. Five six seven eight.")
    values = {"a": "> two three four. Five six\n> three four.", "b": "> seven eight."}
    plan = '1. a = FIND_REASON(CTX, "x") : n\n2. b = FIND_REASON(CTX, "y") : n\n'
    answer = Entry("decision", "answer", {"text": values["a"], "outputs": ["a"]})
    outputs = [Entry("decision", f"value/{name}", value) for name, value in values.items()]
    [frame] = read_frames([Entry("decision", "plan", plan), *outputs, answer])
    found = find_passages(frame, text)
    assert [(one.span, one.answers) for one in found] == [
        (Span(4, 28), True), (Span(8, 19), True), (Span(29, 41), False),
    ]  # fmt: skip
    pieces = cut(text, found)
    assert "".join(one.text for one in pieces) == text.text
    assert sorted(number for one in pieces for number in one.starts) == [1, 2, 3]
    assert [one.kind for one in pieces] == ["", "final", "final", "final", "", "quoted"]
    assert find_passages(read_frames([])[0], text) == []


def found(name: str, size: int, digest: str, run: Any = None, item: str = "", folder: str = ""):
    """What comes of looking for a document that a journal names."""
    head = {"document": f"{name} ({size} characters, sha256 {digest})"}
    return find_document(head, run or {}, item, folder)


def test_a_document_is_shown_only_where_it_is_the_one_that_was_read():
    text = Source("story.txt", STORY)
    size, digest = len(STORY), text.digest
    gone = found("story.txt", size, digest)
    assert (gone.named, gone.text) == (DocumentName("story.txt", size, digest), None)
    assert gone.trouble.startswith("story.txt is no longer where it was")
    Path("story.txt").write_text(STORY.replace("Mara", "Nora"), encoding="utf-8")
    changed = found("story.txt", size, digest)
    assert changed.text is None
    assert "its hash differs" in changed.trouble
    Path("kept").mkdir()
    Path("kept/story.txt").write_bytes(b"\xef\xbb\xbf" + STORY.encode())
    assert found("story.txt", size, digest, folder="kept").text == text
    assert found("story.txt", size, digest, {"documents": "kept"}).text == text
    wide = "😀" * 5
    Path("wide.txt").write_text(wide, encoding="utf-8-sig")
    assert found("wide.txt", 5, Source("", wide).digest).text == Source("wide.txt", wide)
    # A store may name anything: what cannot be the document is not read at all.
    assert found("/dev/zero", 4, digest).text is None
    assert found("x" * 5000, 4, digest).text is None
    assert find_document({}, {}, "", "") == DocumentLookup(None)


def test_a_document_within_the_questions_is_found():
    row = {"id": "q1", "question": "Why?", "document": {"text": STORY}}
    Path("q.jsonl").write_text(f"not json\n{json.dumps(row)}\n", encoding="utf-8")
    asked = ("document of q1", len(STORY), Source("", STORY).digest, {"questions": "q.jsonl"})
    inside = found(*asked, "q1").text
    assert inside is not None
    assert inside.text == STORY
    assert found(*asked, "q2").text is None


def test_a_document_of_a_data_set_whose_title_begins_with_anothers_is_found():
    asked = {"question": "Who left?", "query_id": "q1", "answer": {"spans": ["Mara"]}}
    passages = {"p1": {"passage": STORY, "qa_pairs": [asked]}}
    Path("e.json").write_text(json.dumps(passages), encoding="utf-8")
    head = {"questions": "e.json", "evaluation": {"title": f"{COMMAQA_E.title}, test split"}}
    there = found("p1", len(STORY), Source("", STORY).digest, head, "pearl/q1").text
    assert there == Source("p1", STORY)


def test_a_page_without_its_document_and_library_has_the_quotes(endpoint: Server, story: Path):
    own = Path("own.actions")
    own.write_text("SAY(X) : Say X.\n", encoding="utf-8")
    assert call("ask", story, QUESTION, "--library", "quality", "--library", own).code == 0
    story.unlink()
    own.unlink()
    told = words(page())
    assert "Its library is not at hand, so the plan was not checked again." in told
    assert "The document is not shown. story.txt is no longer where it was" in told
    assert "Mara left the lighthouse because the Fund had closed it." in told
    assert "not in the document" not in told
    Path("elsewhere").mkdir()
    Path("elsewhere/story.txt").write_text(STORY, encoding="utf-8")
    assert "Nobody on the island believed her." in words(page("last", "--documents", "elsewhere"))


def test_a_run_that_failed_says_why_and_which_steps_did_not_run(
    endpoint: Server, story: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PEARL_TRIES", "1")
    assert call("run", "-", story, stdin=PLAN).code == 1
    told = words(page())
    assert "ended without an answer" in told
    assert "No answer. Step" in told
    assert "4. ans CONCAT skipped" in told


def questions(count: int) -> str:
    """Some questions; every third has a plan that cannot run."""
    rows = [
        {
            "id": f"q{at}", "question": f"Why {at}?", "document": "story.txt",
            "options": ["the Fund", "the sea"], "gold": "AB"[at % 2],
            **({"plan": "n = COUNT([])\na = PARTS(CTX, n) : no"} if at % 3 == 2 else {}),
        }
        for at in range(count)
    ]  # fmt: skip
    return write_rows("questions.jsonl", *rows)


def test_a_job_has_a_page_of_its_rows(
    endpoint: Server, story: Path, place: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PEARL_STORE", place)
    assert call("batch", questions(6), "-o", "answers.jsonl").code == 1
    told = words(page())
    assert "6 questions of questions.jsonl" in told
    # Of six, two cannot run; the model says A, and that is right for every other one.
    assert re.search(r"share [^%]* 6 4 2 2 of 6 33\.3 %", told)
    assert "value 2" in told.partition("Failures by reason")[2][:60]
    assert "q2 failed wrong" in told
    assert "q0 answered right" in told
    item = words(page("last/q0"))
    assert "Why 0?" in item
    assert "Options the Fund the sea It means option A: the Fund." in item
    assert "The right answer is A. the Fund: right" in item
    assert "the Fund the sea Right answer B. the sea" in told
    assert "Nobody on the island believed her." in item
    assert "value. Step a has no output: PARTS needs" in words(page("last/q2"))


def test_tokens_that_nobody_reported_are_not_said_to_be_none(story: Path):
    assert call("batch", questions(2), "-o", "answers.jsonl", "--model", "offline").code == 0
    job, row = page(), page("last/q0")
    sums = words(job).partition("calls made tokens cost")[2]
    assert re.match(r" 2 2 0 .* \d+ not reported \$0\.00", sums)
    rows = job.partition('id="rows"')[2]
    assert rows.count('<td class="right" colspan="3">not reported</td>') == 2
    assert "tokens not reported, " in row.partition('class="said"')[2]
    assert not re.search(r"\b0 (tokens )?(read|written)", words(row))
    # A question whose replies are all at hand takes no tokens, and that is known.
    again = call("batch", questions(2), "-o", "answers.jsonl", "--model", "offline", "--restart")
    assert again.code == 0
    assert "0 tokens" not in words(page("last/q0"))
    assert '<td class="right">0</td><td class="right">0</td>' in page()


def test_a_file_of_too_many_rows_has_those_that_need_a_look(
    endpoint: Server, story: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(job_page, "MOST", 4)
    assert call("batch", questions(6), "-o", "answers.jsonl").code == 1
    assert re.findall(r'<tr id="r\d".*?><th scope="row">(q\d)', page()) == "q1 q2 q3 q5".split()


def test_an_evaluation_has_a_row_a_method(endpoint: Server, story: Path):
    done = call("eval", "questions", "--data", questions(2), "--methods", "zero-shot,pearl")
    assert done.code == 0, done.err
    told = words(page())
    assert re.search(r"zero-shot 2 2 0 1 of 2 50\.0 %", told)
    assert "An answer that names no option is among the answered: pearl report counts it" in told
    assert re.search(r"pearl 2 2 0 1 of 2 50\.0 %", told)
    item = words(page("last/pearl/q0"))
    assert "method pearl" in item
    assert "The right answer is A. the Fund: right" in item
    assert "A. the Fund Question Why 0?" in told
    assert "Nobody on the island believed her." in item


def test_documents_of_every_kind_of_job_are_found_where_it_read_them(story: Path):
    Path("texts").mkdir()
    story.rename("texts/story.txt")
    row = {"question": QUESTION, "gold": "the Fund"}
    one, two = {"id": "q/1", "document": "story.txt"}, {"id": "q2", "document": {"text": STORY}}
    write_rows("q.jsonl", {**one, **row}, {**two, **row})
    options = ("--documents", "texts", "--model", "offline")
    evaluated = ("eval", "questions", "--data", "q.jsonl", "--methods", "pearl", *options)
    batch, refined = ("batch", "q.jsonl", *options), ("refine", "q.jsonl", *options)
    jobs = ((evaluated, "pearl/"), ((*batch, "-o", "a.jsonl"), ""), ((*refined, "-o", "made"), ""))
    for job, method in jobs:
        assert call(*job).code == 0
        assert "<mark" in page(f"last/{method}q/1"), job
        # A question that holds its text needs no other document of the file.
        Path("texts/story.txt").rename("gone.txt")
        assert "The document is not shown" in page(f"last/{method}q/1")
        assert "<mark" in page(f"last/{method}q2"), job
        Path("gone.txt").rename("texts/story.txt")


def test_a_page_is_written_to_a_file_that_can_be_written(story: Path):
    assert call("ask", story, QUESTION, "--model", "offline", "--store", "s.db").code == 0
    show = ("runs", "show", "last", "--store", "s.db")
    assert "name one" in one_line(call(*show, "--html", "-"), 2)
    assert "end the name in .html" in one_line(call(*show, "--html", "x.pdf"), 2)
    assert "does not exist" in one_line(call(*show, "--html", "no/such/out.html"), 2)
    assert "--html FILE" in one_line(call(*show, "--documents", "."), 2)
    assert "no folder" in one_line(call(*show, "--html", "a.html", "--documents", "nowhere"), 2)
    assert "no question x" in one_line(call("runs", "show", "last/x", "--html", "a.html",
                                            "--store", "s.db"), 2)  # fmt: skip
    both = call(*show, "--html", "a.html", "--json")
    assert both.json["kind"] == "ask"
    assert Path("a.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


# In Chromium


class Opened(Watched):
    """A page from a disk, that asks for nothing from elsewhere."""

    def __init__(self, browser: Any, path: str, **how: Any) -> None:
        super().__init__(browser, "file:", **how)
        self.page.goto(Path(path).resolve().as_uri())

    def harmless(self) -> bool:
        """Whether nothing ran, nothing tried to, and nothing came from elsewhere."""
        state = self.page.evaluate(
            "[window.hacked === undefined, document.scripts.length, [...document.querySelectorAll"
            "('*')].some(one => [...one.attributes].some(at => at.name.startsWith('on')))]"
        )
        return state == [True, 0, False] and not self.wrong


def test_the_trap_is_live(in_chromium: InChromium):
    def look(browser: Any) -> None:
        for trap in (BAD, IMAGE, "<p onclick=''>", "<img src=https://localhost/x>"):
            Path("trap.html").write_text(f"<p>{trap}</p>", encoding="utf-8")
            opened = Opened(browser, "trap.html")
            assert not opened.harmless()
            opened.context.close()

    in_chromium(look)


@pytest.fixture
def hostile(serve: Serve) -> None:
    """An endpoint that answers with markup, in plans, outputs and options."""
    plan = (
        f"New actions:\n- SAY(CTX, X) : {IMAGE} {BAD}\n\n"
        f'1. a = SAY(CTX, "{BAD}") : {IMAGE}\n2. b = SAY(CTX, "\u202e{{a}}") : </pre>{BAD}\n'
    )

    def script(body: dict[str, Any]) -> Any:
        replies = {
            "plan": f"{BAD}\n1. x = {IMAGE}(CTX) : {BAD}",
            "correct": plan,
            "step": f"{BAD}{IMAGE}</mark></div>\n> {BAD} said Tom.\n> {IMAGE}",
        }
        return replies.get(Asked(body, {}).kind, "A")

    serve(script, PEARL_STORE="store.db", PEARL_MODEL=f"{BAD}{IMAGE}")


def test_nothing_that_anybody_wrote_runs(hostile: None, in_chromium: InChromium):
    name = "<img src=x onerror=window.hacked=1>.txt"
    text = f"{STORY}{BAD} said Tom. {IMAGE} </div></main>{BAD}\n"
    Path(name).write_text(text, encoding="utf-8")
    asked = f"{BAD}{IMAGE} why?"
    done = call("ask", name, asked, "--option", BAD, "--option", IMAGE)
    assert done.code == 0, done.err
    page(file="run.html")
    id = f"{BAD}{IMAGE}"
    write_rows("q.jsonl", {"id": id, "question": asked, "document": name, "options": [BAD, IMAGE]})
    assert call("batch", "q.jsonl", "-o", "answers.jsonl").code == 0
    page(file="job.html")
    page(f"last/{id}", file="item.html")

    def look(browser: Any) -> None:
        with Opened(browser, "item.html") as opened:
            page = opened.page
            for file in ("item.html", "job.html", "run.html"):
                page.goto(Path(file).resolve().as_uri())
                assert opened.harmless(), (file, opened.wrong)
                assert "\u202e" not in page.content()
                if file == "job.html":
                    assert page.locator("section.rows tbody th").inner_text() == id
            # It is all there to be read, to the letter.
            assert page.inner_text("h1") == asked
            # What the chosen letter stands for, too.
            assert page.inner_text(".choice").split(": ", 1)[1].rstrip(".") in (BAD, IMAGE)
            assert page.inner_text(".document .text").count(f"{BAD} said Tom.") == 1
            assert page.locator("mark").count() >= 2
            assert name in page.inner_text(".facts")
            assert BAD in page.locator(".plan").first.inner_text()

    in_chromium(look)


def test_links_lead_to_a_quote_and_back_and_all_is_printed(in_chromium: InChromium):
    # So long that the place is far below what the box shows.
    Path("story.txt").write_text("A line about the sea.\n" * 400 + STORY, encoding="utf-8")
    run = ("ask", "story.txt", QUESTION, "--model", "offline", "--store", "s.db")
    assert call(*run).code == 0
    page("last", "--store", "s.db")

    def look(browser: Any) -> None:
        size = {"width": 1100, "height": 700}
        with Opened(browser, "out.html", viewport=size) as found:
            opened = found.page
            assert not in_sight(opened, "#q1")
            opened.click(".quotes a[href='#q1']")
            assert in_sight(opened, "#q1")
            style = "getComputedStyle(document.querySelector('#q1')).outlineStyle"
            assert opened.evaluate(style) == "solid"
            opened.evaluate("scrollTo(0, 0)")
            opened.click("#q1")
            assert opened.url.endswith("#e1")
            assert in_sight(opened, "#e1")
            # On paper all is unfolded.
            hidden = opened.locator("details.calls .said").first
            assert not hidden.is_visible()
            opened.emulate_media(media="print")
            assert hidden.evaluate("one => one.checkVisibility()")
            assert hidden.bounding_box()["height"] > 10
            assert not opened.locator("nav").is_visible()

    in_chromium(look)


def in_sight(opened: Any, selector: str) -> bool:
    """Whether a thing is within the window, and within the box that scrolls it."""
    return bool(
        opened.evaluate(
            "name => { const one = document.querySelector(name); const at = "
            "one.getBoundingClientRect(); const box = one.closest('.document'); const room = box ? "
            "box.getBoundingClientRect() : {top: 0, bottom: innerHeight};"
            "return at.top >= room.top - 1 && at.bottom <= room.bottom + 1 && at.top >= 0 && "
            "at.bottom <= innerHeight; }",
            selector,
        )
    )


def test_pages_fit_are_light_and_dark_and_have_an_order(
    endpoint: Server, story: Path, in_chromium: InChromium
):
    assert call("batch", questions(6), "-o", "answers.jsonl").code == 1
    for at, run in enumerate(("last", "last/q0", "last/q2")):
        page(run, file=f"{at}.html")
    colours = set()

    def look(browser: Any) -> None:
        with Opened(browser, "0.html") as opened:
            page = opened.page
            for at in (1, 2, 0):
                page.goto(Path(f"{at}.html").resolve().as_uri())
                assert opened.harmless(), opened.wrong
                for width, scheme in product((360, 1100), ("light", "dark")):
                    page.set_viewport_size({"width": width, "height": 800})
                    page.emulate_media(color_scheme=scheme)
                    assert fits(page)
                    colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
                assert unreadable(page) == []
            # Rows are chosen without a script.
            rows = page.locator("section.rows tbody th")
            for label, chosen in (("all", 6), ("failed", ["q2", "q5"]), ("right", ["q0", "q4"])):
                page.get_by_role("radio", name=label, exact=True).check()
                seen = [one.inner_text() for one in rows.all() if one.is_visible()]
                assert chosen in (seen, len(seen))

    in_chromium(look)
    assert len(colours) == 2
