"""The review's pages in a real Chromium: judged, edited, attacked, by keys alone, on a phone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pearl.review.verdicts import read_verdicts
from tests.pages import CONTRAST, InChromium, Watched, fits, unreadable
from tests.reviewing import GOOD, Review, plans, reviewing
from tests.shell import STORY, write_rows
from tests.shell import process as pearl

pytest_plugins = ["tests.browser"]

PAYLOADS = (
    "<script>window.pwned=1</script>",
    "\"><img src=x onerror='window.pwned=1'>",
    "'><svg onload=window.pwned=1>",
    "</textarea></title><script>window.pwned=1</script>",
    "<hx-partial hx-target='body'><script>window.pwned=1</script></hx-partial>",
    "<a href='javascript:window.pwned=1' autofocus onfocus='window.pwned=1'>x</a>",
    "{{ 7*7 }}<style>*{display:none}</style>",
)


def enter(page: Any, review: Review, number: int = 0) -> Any:
    """Come in by an annotator's link."""
    page.goto(review.link(number))
    page.get_by_role("button", name="Come in").click()
    page.get_by_role("heading", name="Plans to judge").wait_for()
    return page


def on_pages(test: Callable[[Callable[..., Watched], Path], None]) -> Callable[..., None]:
    """A test that opens pages in Chromium; whatever goes wrong on one of them fails it."""

    def run(in_chromium: InChromium, tmp_path: Path) -> None:
        def look(browser: Any) -> None:
            with ExitStack() as opened:
                test(lambda **how: opened.enter_context(Watched(browser, **how)), tmp_path)

        in_chromium(look)

    return run


def judge(page: Any, correct: str, confidence: int, *categories: str, words: str = "") -> None:
    """Fill the form in with the mouse, and save."""
    page.check(f"label:has-text('{correct}') > input[name=correct]")
    page.check(f"input[name=confidence][value='{confidence}']")
    for category in categories:
        page.check(f"label:has-text('{category}') > input[name=category]")
    page.fill("#words", words)
    page.click("#verdict button")
    page.wait_for_selector("#verdict button:text('Save again')")


@on_pages
def test_two_annotators_judge_plans_and_edit_one(watched: Callable[..., Watched], tmp_path: Path):
    folder = plans(tmp_path / "plans", 2)
    demos = tmp_path / "demos"
    demos.mkdir()
    anna_says, ben_says = ["Yes", "No"], ["Yes", "Cannot tell"]
    with reviewing(folder, demos=demos) as review:
        pages = [enter(watched().page, review, number) for number in (0, 1)]
        for page, said in zip(pages, (anna_says, ben_says), strict=True):
            page.get_by_role("link", name="Begin").click()
            for number, correct in enumerate(said):
                page.get_by_role("heading", name=f"Why does Mara {number} leave?").wait_for()
                others = page.get_by_role("region", name="The others")
                assert "once you have said it yourself" in others.inner_text()
                judge(page, correct, 1 + number, "Steps can be merged", words=f"n{number}")
                if page is pages[1]:
                    assert f"{anna_says[number]}, {1 + number} of 5" in others.inner_text()
                    assert f"n{number}" in others.inner_text()
                if number < 1:
                    page.get_by_role("link", name="Next plan to judge").click()
            page.get_by_role("link", name="All your plans are judged").click()
            assert "2 of 2 plans judged" in page.inner_text("main")
        page = pages[0]
        page.goto(f"http://127.0.0.1:{review.port}/plan/{review.ids[1]}")
        page.locator("#edit > summary").click()
        area = page.get_by_label("The plan's text")
        area.fill(GOOD.format(who="Tom") + "2. x = NO_SUCH(CTX) : y\n")
        page.get_by_text("1 error").first.wait_for()
        assert "PRL201 unknown-action" in page.inner_text("#checked")
        page.get_by_role("button", name="Keep as a new version").click()
        page.get_by_role("alert").filter(has_text="The plan has errors").wait_for()
        area.fill(GOOD.format(who="Tom"))
        page.locator("#checked-summary", has_text="No findings.").wait_for()
        page.get_by_role("button", name="Keep as a new version").click()
        page.get_by_role("heading", name="Version 2").wait_for()
        page.get_by_role("button", name="Send version 2 to the demonstrations").click()
        page.get_by_text("among the demonstrations, as plan1.plan").wait_for()
        for kept in (folder / "plan1.v2.plan", demos / "plan1.plan"):
            assert kept.read_text(encoding="utf-8") == GOOD.format(who="Tom")
        page.get_by_role("link", name="Agreement").click()
        table = page.get_by_role("table", name="Agreement").inner_text()
        # One of two alike; chance by hand: yes .5 · .5, no .5 · 0, cannot tell 0 · .5 = .25.
        first = next(line for line in table.splitlines() if line.startswith("Correct"))
        assert first.split("\t")[1:4] == ["2", "50.0 %", f"{(0.5 - 0.25) / (1 - 0.25):.3f}"]
        assert len(read_verdicts(review.session.engine)) == 4


@on_pages
def test_nothing_that_others_wrote_runs(watched: Callable[..., Watched], tmp_path: Path):
    folder = tmp_path / "plans"
    folder.mkdir()
    for at in range(0, len(PAYLOADS), 4):
        text = f"question: {PAYLOADS[at]}\n\n"
        for number, payload in enumerate(PAYLOADS[at : at + 4]):
            flat = payload.replace('"', "'")
            text += f'# {payload}\na{number} = FIND_REASON(CTX, "{flat}") : {payload}\n'
            text += f"b{number} = {payload}(CTX, a{number}) : {payload}\n{payload}\n"
        (folder / f"p{at}.plan").write_text(text, encoding="utf-8")
    every = "".join(PAYLOADS)
    row = {"plan": GOOD, "question": every, "answer": f"> {every}\n{every}", "option": every,
           "document": {"text": every}, "gold": every, "options": [every, every]}  # fmt: skip
    write_rows("row.jsonl", row)
    story = "\n".join((*PAYLOADS, STORY))
    (tmp_path / "s.txt").write_text(story, encoding="utf-8")
    question = f"Why is {PAYLOADS[0]} {PAYLOADS[1]} there?"
    assert pearl("ask", "s.txt", question, "--model", "offline").code == 0
    place = str(Path(".pearl") / "store.db")
    names = (PAYLOADS[0][:60], PAYLOADS[1][:60])
    with reviewing(folder, "row.jsonl", "last", place=place, annotators=names,
                   documents=tmp_path) as review:  # fmt: skip
        other = review.browser(1)
        page = enter(watched().page, review)
        for plan in review.ids:
            other.judge(plan, words=every)
            page.goto(f"http://127.0.0.1:{review.port}/plan/{plan}")
            page.get_by_role("link", name="Show the run").click()
            page.locator("#run-shown").wait_for()
            page.locator("#edit > summary").click()
            text = page.get_by_label("The plan's text")
            assert text.input_value() == review.session.by_id[plan].text
            text.fill(f"{text.input_value()}{every}")
            page.locator("#checked-summary:not(:empty)").wait_for()
            judge(page, "No", 1, words=every)
            assert page.get_by_label("Remark").input_value() == every
            assert page.evaluate("window.pwned") is None
            # The edit was only tried: back as it was, nobody is asked about it.
            text.fill(review.session.by_id[plan].text)
        for path in ("/", "/agreement"):
            page.goto(f"http://127.0.0.1:{review.port}{path}")
            assert page.evaluate("window.pwned") is None
            assert page.locator("img").count() == 0


@on_pages
def test_by_keys_alone(watched: Callable[..., Watched], tmp_path: Path):
    folder = plans(tmp_path / "plans", 2)
    with reviewing(folder, annotators=("Anna",)) as review:
        page = watched().page
        page.goto(review.link())
        focused = "document.activeElement.textContent.trim()"
        # What is focused by itself is so once the page is painted, which may be after it is loaded.
        page.locator("button:focus", has_text="Come in").wait_for()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Plans to judge").wait_for()
        page.keyboard.press("Tab")
        assert page.evaluate(focused) == "Skip to the content"
        page.keyboard.press("o")
        page.get_by_role("heading", name="Why does Mara 0 leave?").wait_for()
        page.keyboard.press("?")
        assert page.get_by_role("table").is_visible()
        for key in ("n", "2", "u", "m", "u", "l"):
            page.keyboard.press(key)
        page.keyboard.press("w")
        page.keyboard.type("no y in here")
        page.keyboard.press("Escape")
        page.keyboard.press("e")
        page.keyboard.press("Control+Home")
        page.keyboard.type("# yes\n")
        page.locator("#checked-summary", has_text="No findings.").wait_for()
        page.keyboard.press("Control+Enter")
        page.get_by_role("heading", name="Version 2").wait_for()
        page.keyboard.press("Escape")
        page.keyboard.press("r")
        page.get_by_text("has not been run").wait_for()
        assert page.evaluate("document.activeElement.id") == "run-title"
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        page.keyboard.press("Tab")
        assert page.evaluate(outline) == "solid"
        page.keyboard.press("Control+Enter")
        page.get_by_role("button", name="Save again").wait_for()
        assert page.evaluate("document.activeElement.id") == "judging-title"
        assert page.inner_text("#said") == "Saved."
        (given,) = read_verdicts(review.session.engine)
        said = given.verdict
        assert (said.correct, said.confidence, said.words) == ("no", 2, "no y in here")
        assert said.categories == ("merge", "incorrect")
        page.keyboard.press("o")
        page.get_by_role("heading", name="Why does Mara 1 leave?").wait_for()
        page.keyboard.press("k")
        page.get_by_role("heading", name="Why does Mara 0 leave?").wait_for()
        page.keyboard.press("?")
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        page.keyboard.press("j")
        page.reload()
        page.keyboard.press("j")
        page.evaluate("new Promise(done => setTimeout(done))")
        assert page.get_by_role("heading", name="Why does Mara 0 leave?").is_visible()


@on_pages
def test_on_a_phone_in_the_dark(watched: Callable[..., Watched], tmp_path: Path):
    folder = plans(tmp_path / "plans", 0)
    long = "x" * 400
    text = f'question: {long}\n\n1. {long} = FIND_REASON(CTX, "{long}") : {long}\n2. b {long}\n'
    (folder / "long.plan").write_text(text, encoding="utf-8")
    (tmp_path / "s.txt").write_text(f"{STORY}{long}\n", encoding="utf-8")
    assert pearl("ask", "s.txt", "Why does Mara leave?", "--model", "offline").code == 0
    place = str(Path(".pearl") / "store.db")
    with reviewing(folder, "last", place=place, documents=tmp_path) as review:
        phone = watched(viewport={"width": 360, "height": 740}, color_scheme="dark")
        page = enter(phone.page, review)
        assert fits(page)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background != "rgb(255, 255, 255)"
        for plan in review.ids:
            page.goto(f"http://127.0.0.1:{review.port}/plan/{plan}")
            assert fits(page)
            page.get_by_role("link", name="Show the run").click()
            page.locator("#run-shown").wait_for()
            page.locator("#edit > summary").click()
            page.keyboard.press("?")
            assert fits(page)
            judge(page, "Yes", 5, words=long)
            review.browser(1).judge(plan, words=long)
            page.reload()
            assert long in page.get_by_role("region", name="The others").inner_text()
            assert fits(page)
        page.get_by_role("link", name="Agreement").click()
        page.get_by_role("heading", name="Verdicts and agreement").wait_for()
        page.wait_for_load_state()
        assert fits(page)
        # What is wider is moved within its own frame, which keys reach.
        assert page.locator(".wide[tabindex='0']").count() == page.locator("table").count()


@on_pages
def test_readable_aloud(watched: Callable[..., Watched], tmp_path: Path):
    with reviewing(plans(tmp_path / "plans", 2)) as review:
        page = enter(watched().page, review)
        for path in ("/", f"/plan/{review.ids[0]}", "/agreement"):
            page.goto(f"http://127.0.0.1:{review.port}{path}")
            for mark in ("banner", "contentinfo"):
                assert page.get_by_role(mark).count() == 1
            assert unreadable(page) == []
            assert page.evaluate(CONTRAST) == []


@on_pages
def test_what_was_written_stays_where_the_server_is_gone(
    watched: Callable[..., Watched], tmp_path: Path
):
    one = watched()
    with reviewing(plans(tmp_path / "plans", 1)) as review:
        page = enter(one.page, review)
        page.goto(f"http://127.0.0.1:{review.port}/plan/{review.ids[0]}")
        page.get_by_label("Remark").fill("long thought about")
        page.keyboard.press("Escape")
        page.keyboard.press("y")
        page.keyboard.press("3")
    page.get_by_role("button", name="Save the verdict").click()
    page.get_by_role("alert").filter(has_text="The server does not answer").wait_for()
    assert page.get_by_label("Remark").input_value() == "long thought about"
    one.wrong[:] = [said for said in one.wrong if "ERR_CONNECTION" not in said
                    and "Failed to fetch" not in said]  # fmt: skip
