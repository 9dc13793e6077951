"""A store as pages: found, filtered, compared, followed; nothing is written and nobody let in."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from html import unescape
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from sqlalchemy import event, insert

import pearl
from pearl.models.tokens import load_prices
from pearl.store.database import HOME, open_database
from pearl.store.history import count_rows, list_runs, tag_run
from pearl.store.store import open_store
from pearl.store.tables import runs
from pearl.viewer.app import ServedStore, application
from pearl.viewer.render import View
from pearl.viewer.serve import HEADERS
from tests.conftest import PICTURES, keep_picture
from tests.forks import Fork
from tests.pages import CONTRAST, InChromium, Watched, fits, unreadable
from tests.reviewing import Browser, served
from tests.server import Asked, Serve, completion
from tests.shell import STORY, call, command, one_line, read_rows, write_rows
from tests.test_review_pages import PAYLOADS

pytest_plugins = ["tests.browser", "tests.postgres"]

TOKEN = "a-token"


@contextmanager
def viewing(place: str = "store.db") -> Iterator[Browser]:
    """A store that is served, and somebody who has come in by the link."""
    engine = open_database(place)
    told: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *given: told.append(given[2]))
    try:
        with served(application(ServedStore(engine, str(HOME), load_prices()), TOKEN)) as port:
            browser = Browser(port)
            assert browser.get(f"/?token={TOKEN}").status == 303
            yield browser
    finally:
        engine.dispose()
    assert all(one.startswith("SELECT") for one in told), told


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a question, two batches and an evaluation, all answered offline."""
    folder = tmp_path_factory.mktemp("filled")
    (folder / "story.txt").write_text(STORY, encoding="utf-8")
    rows = [
        {"id": f"q/{at}", "question": f"Why does {who} leave?", "document": "story.txt",
         "options": ["The Fund had closed it", "Tom wanted the post"], "gold": "AB"[at % 2]}
        for at, who in enumerate(("Mara", "Tom", "she"))
    ]  # fmt: skip
    for name, some in (("one", rows), ("two", [{**row, "gold": "B"} for row in rows[:2]])):
        write_rows(folder / f"{name}.jsonl", *some)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PEARL_STORE", str(folder / "store.db"))
        patch.setenv("PEARL_MODEL", "offline")
        for words in (
            ("ask", "story.txt", "Why does Mara leave?"),
            ("ask", "story.txt", "What did Tom want?"),
            ("batch", "one.jsonl", "-o", "a.jsonl", "--tag", "base line", "--tag", "<b>"),
            ("batch", "two.jsonl", "-o", "b.jsonl"),
            ("eval", "questions", "--data", "one.jsonl", "--methods", "mcq,pearl", "--tag", "x"),
        ):
            done = call(*words)
            assert done.code == 0, done.err
    return folder / "store.db"


@pytest.fixture(scope="module")
def inside(filled: Path) -> Iterator[Browser]:
    """Somebody who looks at that store."""
    with viewing(str(filled)) as browser:
        yield browser


@pytest.fixture(scope="module")
def known(filled: Path) -> dict[str, str]:
    return names(filled)


def names(place: Path | str) -> dict[str, str]:
    """The runs' names by the order in which they were made: ``0`` is the first."""
    engine = open_database(str(place))
    try:
        runs = reversed(list_runs(engine, 0.0))
        return {str(at): run.name for at, run in enumerate(runs)}
    finally:
        engine.dispose()


def listed(text: str, known: dict[str, str]) -> str:
    """Which runs a page leads to, in their order."""
    places = {text.find(f'"/run/{name}"'): at for at, name in known.items()}
    return "".join(places[at] for at in sorted(places) if at >= 0)


class TestPages:
    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("", "43210"), ("q=MARA", "4320"), ("q=because", "432"), ("q=jsonl%20two", "3"),
            ("q=zebras", ""), ("kind=batch", "32"), ("tag=base+line", "2"), ("q=base", "2"),
            ("status=ended", "43210"), ("status=running", ""), ("least=0", "432"),
            ("most=100&kind=batch", "32"), ("least=100.5", ""), ("least=0&most=-1", ""),
        ],
    )  # fmt: skip
    def test_runs_are_found(self, inside: Browser, known: dict[str, str], query: str, found: str):
        assert listed(inside.get(f"/?{query}").text, known) == found

    def test_runs_are_found_by_the_share_that_is_right(
        self, filled: Path, inside: Browser, known: dict[str, str]
    ):
        engine = open_database(str(filled))
        counts = count_rows(engine, list(known.values()))
        shares = {at: counts[name].mean for at, name in known.items()
                  if name in counts}  # fmt: skip
        assert len(set(shares.values())) > 1
        for share in set(shares.values()):
            over = inside.get(f"/?least={100 * share:.1f}").text
            assert set(listed(over, known)) == {at for at in shares if shares[at] >= share}
            under = inside.get(f"/?most={100 * share:.1f}").text
            assert set(listed(under, known)) == {at for at in shares if shares[at] <= share}
            assert f"<b>{100 * share:.1f} %</b>" in over

    def test_of_many_there_are_links_to_older_ones(self, place: str):
        engine = open_database(place)
        row = {"kind": "ask", "fingerprint": "", "scope": "", "owner": "", "seen": 1.0, "ended": 2}
        every = [
            {**row, "id": f"20260101-000000-{at:06x}", "started": at // 3 / 7, "head": "{}"}
            for at in range(120)
        ]
        with engine.begin() as connection:
            connection.execute(insert(runs), every)
        engine.dispose()
        seen: list[str] = []
        with viewing(place) as browser:
            link: str | None = "/"
            while link:
                text = browser.get(link.replace("&amp;", "&")).text
                seen += [part.partition('"')[0] for part in text.split('href="/run/')[1:]]
                before, older, _ = text.partition('">Older</a>')
                link = before.rpartition('href="')[2] if older else None
        assert seen == [one["id"] for one in reversed(every)]

    def test_a_run_a_row_and_each_of_its_calls(self, inside: Browser, known: dict[str, str]):
        page = inside.get(f"/run/{known['2']}")
        assert page.status == 200
        assert "&lt;b&gt;, base line" in page.text
        assert "?item=q%2F1" in page.text
        assert "3 rows." in page.text
        row = inside.get(f"/run/{known['2']}?item=q%2F1").text
        assert "<h1>Why does Tom leave?</h1>" in row
        assert "to the letter" in row
        assert "The right answer is <b>B. Tom wanted the post</b>" in row
        # Rows are gone through one by one: all, or those that were asked for.
        links = re.findall(r'<a href="([^"]+)" rel="(prev|next)"', row)
        assert [(unescape(link).partition("?")[2], way) for link, way in links] == [
            ("item=q%2F0", "prev"), ("item=q%2F2", "next"),
        ]  # fmt: skip
        some = inside.get(f"/run/{known['2']}?item=q%2F1&q=leave").text
        assert "?item=q%2F2&amp;q=leave" in some
        alone = inside.get(f"/run/{known['2']}?item=q%2F1&q=q/1").text
        assert "Next row" not in alone
        assert "Previous row" not in alone
        evaluation = inside.get(f"/run/{known['4']}?method=mcq&show=wrong").text
        assert "rows of 6" in evaluation or "row of 6" in evaluation
        assert "item=pearl%2Fq%2F0" not in evaluation.partition('id="rows"')[2]
        assert inside.get(f"/run/{known['2']}?q=Q/1").text.count('<tr id="r') == 1
        assert inside.get(f"/run/{known['0']}").text.count("<h1>Why does Mara leave?") == 1

    def test_two_runs_side_by_side(self, inside: Browser, known: dict[str, str]):
        text = inside.get(f"/diff?a={known['2']}&b={known['3']}").text
        assert "2 rows in both, " in text
        assert "1 only in the first, 0 only in the second" in text
        rows = text.partition('<th scope="col">second</th></tr>')[2].partition("</table>")[0]
        ends = [">differs<" in row for row in rows.split("<tr")[1:]]
        assert ends == sorted(ends, reverse=True) != []
        assert True in ends
        only = inside.get(f"/diff?a={known['2']}&b={known['3']}&which=differ").text
        assert f'<p class="note">{ends.count(True)} row' in only
        asks = inside.get(f"/diff?a={known['0']}&b={known['1']}").text
        assert "What did Tom want?" in asks
        # What was picked by words says so here too.
        assert '<span class="badge bad">picked by words' in rows
        assert "FIND_" in asks.partition('id="plan"')[2]
        itself = inside.get(f"/diff?a={known['4']}&b={known['4']}").text
        assert "p: exact McNemar test." in itself
        # What is offline counts no tokens.
        assert itself.partition('id="methods"')[2].count(">not reported</td>") == 2 * 2

    def test_scores_in_parts_are_summed_up_alike_everywhere(self, place: str):
        def nine_tenths(question: str, gold: str, answer: str) -> float:
            return 0.9

        rows = [{"id": str(at), "question": f"Why does Mara leave {at}?", "gold": "x",
                 "document": {"text": STORY}} for at in range(4)]  # fmt: skip
        write_rows("q.jsonl", *rows)
        reader = pearl.Pearl(model="offline", store=place)
        for metric in (lambda question, *_: (1, 0.5, 0, 0.5)[int(question[-2])], nine_tenths):
            reader.evaluate_sync("questions", "q.jsonl", methods=["zero-shot"], metric=metric)
        assert "90.0 %" in call("report", "last", "--store", place).out
        told = call("runs", "show", "last", "--store", place).out
        assert "metric     nine_tenths (sha256 " in told
        assert "4 of 4 answered, 90.0 % mean score, 0 of 4 fully right" in told
        with viewing(place) as inside:
            known = names(place)
            first = f"/run/{known['0']}"
            assert (
                '<b>50.0 %</b> <span class="dim">mean score, 1 of 4 fully' in inside.get("/").text
            )
            assert listed(inside.get("/?least=80").text, known) == "1"
            page = inside.get(first).text
            assert "<dt>metric</dt><dd>&lt;lambda&gt; (sha256 " in page
            shown = re.findall(r'<span class="badge (\w*)">(right|wrong|partly.*?)</span>', page)
            partly = ("", "partly, score 0.5")
            assert shown == [("good", "right"), partly, ("bad", "wrong"), partly]
            assert '<p class="note">2 rows of 4.' in inside.get(f"{first}?show=partly").text
            row = inside.get(f"{first}?item=zero-shot%2F1").text
            assert 'The right answer is <b>x</b>: <span class="badge ">partly, score 0.5' in row
            sides = inside.get(f"/diff?a={known['0']}&b={known['1']}").text
            assert '<tr class=differs><th scope="row">metric</th><td>&lt;lambda&gt; (' in sides
            assert "p: paired sign-flip permutation test." in sides
            assert "<td>90.0 % (mean score, 0 of 4 fully right)</td>" in sides
        told = call("runs", "diff", known["0"], "last", "--store", place)
        assert "mean score 50.0 % → 90.0 %, fully right 1 → 0 of 4" in told.out
        assert "by a paired sign-flip permutation test" in told.out

    @pytest.mark.parametrize(
        ("path", "status", "said"),
        [
            ("/run/nosuch", 422, "No run is named nosuch"),
            ("/run/last?item=nosuch", 422, "has no question nosuch"),
            ("/run/last?page=x", 422, "x is no number"),
            ("/?least=nan", 422, "nan is no number"),
            ("/?before=x", 422, "x is no number"),
            ("/diff", 422, "No run is named"),
            ("/diff?a=last&b={0}", 422, "cannot be compared"),
            ("/nosuch", 404, "no such page"),
            ("/static/../app.py", 404, "no such page"),
        ],
    )
    def test_what_cannot_be_shown_is_said(
        self, inside: Browser, known: dict[str, str], path: str, status: int, said: str
    ):
        answer = inside.get(path.format(*known.values()))
        assert answer.status == status
        assert said in answer.text

    def test_a_page_that_takes_long_is_asked_for_less_often(self):
        assert View({}, "").pause == 2
        assert View({}, "", since=time.monotonic() - 4).pause > 20

    @pytest.mark.parametrize("page", ["9", "-1", "0", "1e9"])
    def test_a_page_beyond_the_last_one_is_the_last_one(self, inside: Browser, page: str):
        assert "?item=pearl%2Fq%2F0" in inside.get(f"/run/last?page={page}").text


def test_a_batch_with_a_tag_that_is_none_is_not_begun():
    Path("story.txt").write_text(STORY, encoding="utf-8")
    write_rows("q.jsonl", {"id": "a", "question": "Why?", "document": "story.txt"})
    done = call("batch", "q.jsonl", "-o", "a.jsonl", "--model", "offline", "--tag", "x" * 61)
    assert "is no tag" in one_line(done, 2)
    assert "no store" in one_line(call("runs"), 2)


@pytest.mark.parametrize("there", [True, False])
def test_a_store_that_is_gone_is_shown_no_more(filled: Path, tmp_path: Path, there: bool):
    store, other = tmp_path / "store.db", tmp_path / "other.db"
    for copy in (store, other):
        shutil.copy(filled, copy)
    with viewing(str(store)) as browser:
        assert browser.get("/").status == 200
        store.unlink()
        if there:
            other.rename(store)
        answer = browser.get("/")
        assert answer.status == 503
        assert f"was {'replaced' if there else 'deleted'} meanwhile. Nothing is" in answer.text
    assert store.exists() is there


class TestWhoIsLetIn:
    def test_who_has_no_link_sees_nothing(self, inside: Browser):
        other = Browser(inside.port)
        for path in ("/", "/run/last", "/diff", "/?token=wrong", "/?token=%ff"):
            answer = other.get(path)
            assert answer.status == 401
            assert "open the link" in answer.text
            assert "Mara" not in answer.text
        other.cookies = {"pearl_view": TOKEN}
        assert other.get("/").status == 401
        (cookie,) = Browser(inside.port).get(f"/?token={TOKEN}").cookies
        assert {"HttpOnly", "SameSite=strict"} <= {one.strip() for one in cookie.split(";")}
        assert TOKEN not in cookie

    def test_nothing_is_sent_to_it_and_no_other_name_leads_to_it(self, inside: Browser):
        assert inside.get("/", Host="evil.example").status == 421
        for method in ("POST", "PUT", "DELETE"):
            assert inside.ask(method, "/", "x").status == 405
        for path in ("/", "/run/last", "/diff", "/nosuch"):
            headers = inside.get(path).headers
            assert dict(HEADERS).items() <= headers.items()
            assert headers["cache-control"] == "no-store"


def test_the_command_says_where_it_is_and_writes_nothing(filled: Path):
    def held() -> list[str]:
        with closing(sqlite3.connect(filled)) as store:
            return list(store.iterdump())

    before = held()
    words = command("view", "--port", "0", "--json", "--store", filled)
    with Fork(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        told = json.loads("".join(child.stdout.readline() for _ in range(4)))
        port = int(told["link"].partition("127.0.0.1:")[2].partition("/")[0])
        browser = Browser(port)
        assert browser.get(told["link"].partition(str(port))[2]).status == 303
        assert browser.get("/").text.count('href="/run/') == 5
        assert str(filled) in told["store"]
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate()
    # That is how it is stopped, and no error.
    assert (child.returncode, out) == (0, "")
    assert held() == before


# In Chromium


class Visitor(Watched):
    """A page of a browser that has come in."""

    def __init__(self, browser: Any, port: int, **how: Any) -> None:
        super().__init__(browser, f"http://127.0.0.1:{port}", **how)
        self.page.goto(f"{self.home}/?token={TOKEN}")


@pytest.mark.parametrize("script", [True, False])
def test_by_keys_alone_with_and_without_a_script(
    inside: Browser, in_chromium: InChromium, script: bool
):
    def look(browser: Any) -> None:
        with Visitor(browser, inside.port, java_script_enabled=script) as seen:
            page = seen.page
            assert TOKEN not in page.url

            def tab_to(role: str, name: str) -> None:
                wanted = page.get_by_role(role, name=name).first
                for _ in range(60):
                    page.keyboard.press("Tab")
                    if wanted.and_(page.locator(":focus")).count():
                        return
                raise AssertionError(name)

            tab_to("searchbox", "Words")
            page.keyboard.type("one.jsonl")
            tab_to("combobox", "Kind")
            page.keyboard.type("batch")
            page.keyboard.press("Enter")
            tab_to("button", "Show")
            page.keyboard.press("Enter")
            page.wait_for_url("**q=one.jsonl**")
            assert page.locator(".runs li").count() == 1
            tab_to("link", "3 questions of one.jsonl")
            page.keyboard.press("Enter")
            page.get_by_role("heading", name="3 questions of one.jsonl").wait_for()
            tab_to("link", "q/1")
            page.keyboard.press("Enter")
            page.get_by_role("heading", name="Why does Tom leave?").wait_for()
            tab_to("link", "All runs")
            page.keyboard.press("Enter")
            page.get_by_role("heading", name="Runs", exact=True).wait_for()

    in_chromium(look)


def test_on_a_phone_and_a_desk_readable_by_everybody(
    inside: Browser, known: dict[str, str], in_chromium: InChromium
):
    paths = ("/", "/?q=none", "/run/last", "/run/last?item=mcq/q/0", f"/run/{known['0']}",
             f"/diff?a={known['2']}&b={known['3']}", f"/diff?a={known['0']}&b={known['1']}",
             f"/diff?a={known['4']}&b={known['4']}")  # fmt: skip

    def look(browser: Any) -> None:
        with Visitor(browser, inside.port) as seen:
            page = seen.page
            for path in paths:
                page.goto(seen.home + path)
                for width, scheme in product((360, 1280), ("light", "dark")):
                    page.set_viewport_size({"width": width, "height": 800})
                    page.emulate_media(color_scheme=scheme)
                    assert fits(page), (path, width)
                    assert page.evaluate(CONTRAST) == [], (path, scheme)
                assert unreadable(page) == []
                tables = page.locator(".wide[tabindex='0'] table").count()
                assert tables == page.locator("table").count()

    in_chromium(look)


def test_nothing_that_anybody_wrote_runs(serve: Serve, in_chromium: InChromium):
    serve(lambda _: PAYLOADS[0], PEARL_STORE="store.db")
    rows = [
        {"id": evil, "question": evil, "document": {"text": evil}, "options": [evil, "b"],
         "gold": "A"} for evil in PAYLOADS
    ]  # fmt: skip
    name = "<img src=x onerror='window.pwned=1'>.jsonl"
    write_rows(name, *rows)
    call("batch", name, "-o", "a.jsonl", "--tag", PAYLOADS[1])
    call("batch", name, "-o", "b.jsonl", "--tag", PAYLOADS[2])

    def look(browser: Any, port: int) -> None:
        with Visitor(browser, port) as seen:
            page = seen.page
            a, b = names("store.db").values()
            page.goto(f"{seen.home}/run/{b}")
            rows = [str(one.get_attribute("href")) for one in page.locator("tbody th a").all()]
            assert len(rows) == len(PAYLOADS)
            for path in ("/", f"/diff?a={a}&b={b}", *rows):
                assert page.goto(seen.home + path).status == 200
                assert page.evaluate("[window.pwned === undefined, document.scripts.length]") == [
                    True, 0,
                ]  # fmt: skip
            page.goto(seen.home)
            page.locator("a.tag").first.click()
            assert page.locator(".runs li").count() == 1
            assert page.evaluate("window.pwned === undefined")

    with viewing() as inside:
        in_chromium(lambda browser: look(browser, inside.port))


def test_a_batch_is_followed_while_it_runs(serve: Serve, in_chromium: InChromium):
    go_on = threading.Event()

    def script(body: dict[str, Any]) -> Any:
        async def later(_: web.Request) -> web.StreamResponse:
            await asyncio.to_thread(go_on.wait, 60)
            return web.json_response(completion("She left."))

        return later if "Why does 2 leave" in json.dumps(body) else "She left."

    serve(script, PEARL_STORE="store.db")
    plan = '1. ans = FIND_REASON(CTX, "Why does {} leave") : Find why\n'
    rows = [
        {"id": str(at), "question": f"Why does {at} leave?", "document": {"text": STORY},
         "plan": plan.format(at)} for at in range(3)
    ]  # fmt: skip
    write_rows("q.jsonl", *rows)
    open_database("store.db").dispose()

    def look(browser: Any, port: int) -> None:
        with Visitor(browser, port) as seen:
            page = seen.page
            with Fork(command("batch", "q.jsonl", "-o", "a.jsonl"), env=dict(os.environ)) as child:
                while not page.locator(".runs li:has-text('running'):has-text('2 of 3')").count():
                    page.reload()
                page.get_by_role("link", name="3 questions of q.jsonl").click()
                page.get_by_text("2 of 3").wait_for()
                assert page.get_by_text("This page follows it.").is_visible()
                page.evaluate("window.same = true")
                page.locator("td details > summary").first.click()
                still = seen.context.new_page()
                still.goto(page.url)
                still.get_by_role("link", name="Stand still").click()
                still.get_by_text("This page stands still.").wait_for()
                go_on.set()
                page.get_by_text("3 of 3").wait_for()
                page.get_by_text("(batch, ended)").wait_for()
                assert child.wait(60) == 0
            # The page was not loaded anew, what was unfolded is, and it asks no more.
            assert page.evaluate("window.same")
            assert page.locator("td details[open]").count() == 1
            assert page.locator("[hx-get], .live").count() == 0
            assert still.get_by_text("2 of 3").is_visible()

    with viewing() as inside:
        in_chromium(lambda browser: look(browser, inside.port))


def test_a_page_says_when_nobody_answers_any_more(in_chromium: InChromium):
    with closing(open_store("store.db")) as store:
        store.start("batch", {"count": 2})
        asyncio.run(store.flush())
        with viewing() as inside:
            seen = in_chromium(lambda browser: Visitor(browser, inside.port))
            in_chromium(lambda _: seen.page.get_by_text("This page follows it.").wait_for())
        in_chromium(lambda _: seen.page.get_by_text("Nobody answers").wait_for())
        in_chromium(lambda _: seen.context.close())


SHOWN = """\
question: Why does Mara leave the lighthouse?

1. staying = FIND_REASON(CTX, "Mara stays at the lighthouse") : What keeps her there
2. entry = FIND_EVENT(CTX, "the wreck, as the log has it") : What is written, and by whom
3. wreck = FIND_EVENT(CTX, "the wreck, otherwise than {entry} has it") : What the story reveals
4. why = FIND_REASON(CTX, "Mara leaves, who stayed for {staying}, knowing {wreck}") : Why she goes
"""


def from_the_examples(examples: Path) -> Callable[[dict[str, Any]], str]:
    """A reader who knows the examples' own answers and quotes, and takes some for others."""
    known = read_rows(examples / "lighthouse.questions.jsonl")
    told = known[0]["answer"].split(". ")
    quotes = known[0]["evidence"]
    parts = {
        "What keeps her there": (told[0], quotes[4:]),
        "What is written": ("The log has rockets at 11.35 p.m., in Mara's watch", quotes[1:2]),
        "What the story reveals": (told[1], [quotes[0], quotes[2]]),
        "Why she goes": (". ".join(told[1:]), [quotes[0], quotes[2], quotes[4]]),
    }

    def script(body: dict[str, Any]) -> str:
        asked = Asked(body, {})
        row = next((row for row in known if row["question"] in asked.text), known[0])
        if asked.kind == "plan":
            return f'1. ans = FIND_REASON(CTX, "{row["question"].replace(chr(34), "")}") : Find it'
        if asked.kind == "map":
            missed = known.index(row) % (2 if "small" in body["model"] else 5) == 1
            return "A" if missed and row["gold"] != "A" else row["gold"]
        words, found = row["answer"], row["evidence"][:3]
        for note, said in parts.items():
            if note in asked.text:
                words, found = said
        return "\n".join([f"{words.rstrip('.')}.", *(f"> {quote}" for quote in found)])

    return script


@pytest.mark.skipif("UPDATE_PICTURES" not in os.environ, reason="UPDATE_PICTURES makes them anew")
def test_the_pictures_of_the_documentation(
    serve: Serve, in_chromium: InChromium, examples: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(examples, "texts")
    serve(from_the_examples(examples), PEARL_STORE="store.db")
    rows = read_rows("texts/lighthouse.questions.jsonl")
    rows[0]["plan"] = SHOWN
    write_rows("texts/lighthouse.jsonl", *rows)
    for size in ("small", "large"):
        monkeypatch.setenv("PEARL_MODEL", f"example-{size}")
        words = ("texts/lighthouse.jsonl", "-o", f"{size}.jsonl", "--tag", size)
        assert call("batch", *words).code == 0
    data = ("--data", "texts/lighthouse.jsonl")
    assert call("eval", "questions", *data, "--methods", "mcq,pearl").code == 0
    story = "texts/lighthouse.txt"
    assert call("ask", story, "Why does Mara leave the lighthouse?").code == 0
    with closing(open_store("store.db")) as store:
        head = {"questions": "texts/timekeeping.questions.jsonl", "model": "example-large"}
        run = store.start("batch", {**head, "count": 12})
        tag_run(store.engine, run, ["large"])
        for at in range(7):
            row = {"run": run, "id": str(at), "position": at, "row_key": ""}
            store.put_row({**row, "status": "answered", "result": "{}", "correct": at % 4 != 1,
                           "score": None})  # fmt: skip
        asyncio.run(store.flush())
        batch = names("store.db")["1"]

        def look(browser: Any, port: int) -> None:
            with Visitor(browser, port, viewport={"width": 1180, "height": 590}) as seen:
                page = seen.page
                page.goto(f"{seen.home}/")
                keep_picture("view", page.screenshot())
                page.set_viewport_size({"width": 1180, "height": 900})
                page.goto(f"{seen.home}/run/{batch}?item=lighthouse-01")
                page.locator(".quotes a[href='#q1']").click()
                page.evaluate("scrollTo(0, document.querySelector('nav').offsetTop - 14)")
                keep_picture("run", page.screenshot())

        with viewing() as inside:
            in_chromium(lambda browser: look(browser, inside.port))


@pytest.mark.parametrize("name", ["view", "run", "report"])
def test_a_picture_is_light_enough_for_a_page(name: str):
    assert 10_000 < (PICTURES / f"{name}.png").stat().st_size < 150_000
