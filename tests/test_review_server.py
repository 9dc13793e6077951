"""The review's server over real HTTP: who is let in, what is refused, what survives a kill."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette

from pearl.lang.source import START
from pearl.review.app import LARGEST
from pearl.review.people import form_token
from pearl.review.verdicts import add_version, read_verdicts, read_versions
from pearl.store.database import DisplacedError
from pearl.viewer.serve import (
    HEADERS,
    address_of,
    check_host_name,
    is_loopback,
    listen,
    static_files,
)
from tests.reviewing import (
    GOOD,
    Answer,
    Browser,
    Review,
    at_once,
    plans,
    process,
    reviewing,
    served,
)
from tests.runs import runs
from tests.shell import STORY, call, write_rows

pytest_plugins = ["tests.postgres"]

EVIL = "<script>window.pwned=1</script>\"><img src=x onerror='window.pwned=1'>"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Review]:
    """Three plans in a folder, two annotators; for tests that save nothing."""
    folder = tmp_path_factory.mktemp("review")
    with reviewing(plans(folder / "plans", 3), place=str(folder / "store.db")) as found:
        yield found


@pytest.fixture
def review(tmp_path: Path) -> Iterator[Review]:
    """The same, for one test."""
    with reviewing(plans(tmp_path / "plans", 3)) as found:
        yield found


def refused(answer: Answer, status: int, says: str) -> None:
    assert answer.status == status, answer
    assert says in answer.text
    assert "Traceback" not in answer.text


class TestWhoIsLetIn:
    def test_nothing_is_shown_to_who_is_not_in(self, shared: Review):
        browser = shared.browser()
        for path in ("/", "/agreement", f"/plan/{shared.ids[0]}", f"/plan/{shared.ids[0]}/run"):
            refused(browser.get(path), 401, "open the link")
        for path in ("/enter", "/enter?token=", "/enter?token=wrong"):
            refused(browser.get(path), 401, "not known here")
        browser.cookies["pearl_review"] = "made-up"
        browser.csrf = form_token("made-up")
        refused(browser.judge(shared.ids[0]), 401, "open the link")
        refused(browser.post("/enter", {"token": "wrong"}), 401, "not known here")
        refused(browser.post("/enter", {"person": "1"}), 401, "not known here")
        assert read_verdicts(shared.session.engine) == []

    def test_a_link_alone_lets_nobody_in(self, shared: Review):
        browser = shared.browser()
        path = f"/enter?token={shared.admitted[0].token}"
        assert "Come in" in browser.get(path).text
        refused(browser.get("/"), 401, "open the link")
        before = dict(browser.cookies)
        assert browser.post("/enter", {"token": shared.admitted[0].token}).status == 303
        # Nobody who knew the browser's secret before knows it now.
        assert browser.cookies != before
        assert browser.get("/").status == 200

    def test_a_name_is_given_on_the_way_in(self, review: Review):
        browser = review.browser()
        token = review.admitted[0].token
        browser.get(f"/enter?token={token}")
        for name, says in (("ben", "somebody else"), ("x" * 61, "A name"), ("a\u202eb", "A name")):
            refused(browser.post("/enter", {"token": token, "name": name}), 422, says)
        assert browser.post("/enter", {"token": token, "name": "<b>Ann"}).status == 303
        page = browser.get("/").text
        assert "&lt;b&gt;Ann" in page
        assert "<b>Ann" not in page

    def test_the_cookie_is_for_this_host_and_no_script(self, shared: Review):
        browser = shared.browser()
        token = shared.admitted[0].token
        answers = browser.get(f"/enter?token={token}"), browser.post("/enter", {"token": token})
        for answer in answers:
            (cookie,) = answer.cookies
            said = {part.strip().lower() for part in cookie.split(";")[1:]}
            assert {"httponly", "samesite=strict", "path=/"} <= said
            # A domain would let the cookie go to hosts below it, too.
            assert not any(part.startswith("domain") for part in said)
            assert "secure" not in said

    def test_who_leaves_is_out(self, shared: Review):
        browser = shared.browser(0)
        held = dict(browser.cookies)
        assert "You have left" in browser.post("/leave", {}).text
        browser.cookies = held
        refused(browser.get("/"), 401, "open the link")

    def test_without_tokens_anybody_on_this_machine_chooses_who_to_be(self, tmp_path: Path):
        with reviewing(plans(tmp_path / "plans", 1), open=True) as review:
            browser = review.browser()
            assert browser.get("/").headers["location"] == "/enter"
            assert "Ben" in browser.get("/enter").text
            assert browser.post("/enter", {"person": "2"}).status == 303
            assert "Ben" in browser.get("/").text
            refused(browser.post("/enter", {"person": "3"}), 401, "not known")

    @pytest.mark.parametrize(
        ("host", "own"),
        [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True),
         ("0.0.0.0", False), ("::", False), ("192.0.2.1", False), ("localhost.example", False)],
    )  # fmt: skip
    def test_what_is_loopback(self, host: str, own: bool):
        assert is_loopback(host) is own


class TestForms:
    def test_a_form_needs_this_browser_s_token(self, shared: Review):
        browser, other = shared.browser(0), shared.browser(1)
        good = {"correct": "yes", "confidence": 3}
        path = f"/plan/{shared.ids[0]}/verdict"
        for token in ("", "0" * 64, other.csrf, form_token(""), "é"):
            refused(browser.post(path, {**good, "csrf": token}), 403, "load the page again")
        for path in ("/leave", "/enter", f"/plan/{shared.ids[0]}/check",
                     f"/plan/{shared.ids[0]}/versions"):  # fmt: skip
            refused(browser.ask("POST", path, {"text": GOOD}), 403, "load the page again")
        assert read_verdicts(shared.session.engine) == []
        assert browser.get("/").status == 200

    def test_a_form_of_another_site_is_refused(self, review: Review):
        browser = review.browser(0)
        path = f"/plan/{review.ids[0]}/verdict"
        good = {"correct": "yes", "confidence": 3}
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:1"},
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
        ):
            refused(browser.post(path, good, **headers), 403, "another site")
        assert browser.post(path, good, Origin=None).status == 303

    def test_what_is_no_form(self, shared: Review):
        browser = shared.browser(0)
        path = f"/plan/{shared.ids[0]}/verdict"
        refused(browser.ask("POST", path, "{}", Content_Type="application/json"), 415, "form")
        refused(browser.ask("POST", path, "{}", Content_Type="text/plain"), 415, "form")
        many = "&".join(f"a{number}=1" for number in range(200))
        kind = "application/x-www-form-urlencoded"
        refused(browser.ask("POST", path, many, Content_Type=kind), 400, "cannot be read")
        refused(browser.ask("POST", path, "é=1", Content_Type=kind), 400, "cannot be read")

    def test_what_is_too_long(self, shared: Review):
        browser = shared.browser(0)
        path = f"/plan/{shared.ids[0]}/check"
        refused(browser.post(path, {"text": "x" * (LARGEST + 1)}), 413, "shorten it")
        refused(browser.post(path, {"text": "x" * 70_000}), 413, "shorten it")
        assert browser.get("/").status == 200

    def test_what_is_missing_is_said_and_what_was_entered_stays(self, shared: Review):
        browser = shared.browser(0)
        answer = browser.post(
            f"/plan/{shared.ids[0]}/verdict",
            {"confidence": 3, "category": ["edit"], "words": EVIL}, HX_Request="true",
        )  # fmt: skip
        refused(answer, 422, "Say whether the plan is correct")
        assert 'value="3" required data-key="3" checked' in answer.text
        assert 'value="edit" data-key="s" checked' in answer.text
        assert "&lt;script&gt;" in answer.text
        assert "<script>" not in answer.text


class TestHosts:
    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1.evil.example", "", "10.0.0.1", "localhost@evil", "[::"]
    )
    def test_another_name_is_refused(self, shared: Review, host: str):
        browser = shared.browser(0)
        refused(browser.get("/", Host=host), 421, "--name")
        refused(browser.get("/static/review.css", Host=host), 421, "--name")

    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8800", "[::1]:1", "127.0.0.1"])
    def test_this_machine_s_names_are_its_own(self, shared: Review, host: str):
        assert shared.browser(0).get("/", Host=host).status == 200

    def test_a_server_for_others_is_reached_by_address_and_by_its_names(self, tmp_path: Path):
        folder, names = plans(tmp_path / "plans", 1), ("Lab.example",)
        for name in (*names, "xn--bcher-kva.example.", "my_host", "192.0.2.7", "2001:db8::1"):
            check_host_name(name)
        with listen("127.0.0.1", 0) as taken:
            assert address_of(taken, "0.0.0.0", names).startswith("http://Lab.example:")
            assert address_of(taken, "::1", ()).startswith("http://[::1]:")
        with reviewing(folder, host="0.0.0.0", hosts=names) as review:
            browser, token = review.browser(), review.admitted[0].token
            refused(browser.get("/"), 401, "open the link")
            for host in ("192.0.2.1", "lab.example:80", "[2001:db8::1]"):
                assert browser.get(f"/enter?token={token}", Host=host).status == 200
            refused(browser.get(f"/enter?token={token}", Host="evil.example"), 421, "--name")


class TestPages:
    def test_every_answer_has_the_headers(self, review: Review):
        browser = review.browser(0)
        plan = f"/plan/{review.ids[0]}"
        more = ("/x", "/static/htmx.min.js", "/static/../app.py")
        answers = [browser.get(path) for path in ("/", plan, f"{plan}/run", "/agreement", *more)]
        answers.append(browser.get("/", Host="evil.example"))
        answers.append(browser.judge(review.ids[0]))
        for answer in answers:
            assert {name: answer.headers.get(name) for name, _ in HEADERS} == dict(HEADERS)
        policy = answers[0].headers["content-security-policy"]
        for rule in ("default-src 'none'", "script-src 'self'", "style-src 'self'",
                     "img-src 'self' data:", "form-action 'self'", "frame-ancestors 'none'",
                     "base-uri 'none'"):  # fmt: skip
            assert rule in policy.split("; ")
        assert "unsafe" not in policy
        assert [one.headers["cache-control"] for one in answers[:4]] == ["no-store"] * 4

    @pytest.mark.parametrize(
        "path",
        ["/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static/htmx-LICENSE.txt", "/plan/x",
         "/plan/..%2f..%2fetc%2fpasswd", "/plan/%00", "/static//etc/passwd"],
    )  # fmt: skip
    def test_there_are_no_other_files(self, shared: Review, path: str):
        refused(shared.browser(0).get(path), 404, "There is no such")

    def test_pages_hold_no_script_and_no_style_of_their_own(self, shared: Review):
        browser = shared.browser(0)
        for path in ("/", f"/plan/{shared.ids[0]}", f"/plan/{shared.ids[0]}/run", "/agreement"):
            page = browser.get(path).text
            assert "style=" not in page
            assert "<style" not in page
            assert " on" not in {word.partition("=")[0] for word in page.split('"')}
            scripts = [line for line in page.splitlines() if "<script" in line]
            assert all('<script src="/static/' in line for line in scripts)
            assert "http://" not in page
            assert "https://" not in page

    def test_what_others_wrote_is_escaped(self, tmp_path: Path):
        folder = tmp_path / "plans"
        folder.mkdir()
        flat = EVIL.replace('"', "")
        text = f'question: {EVIL}\n\n1. a = FIND_REASON(CTX, "{flat}") : {EVIL}\n'
        (folder / "x.plan").write_text(f"{text}2. </textarea><script>pwned</script>\n")
        with reviewing(folder, annotators=("Anna", "</b><script>x")) as found:
            browser, other = found.browser(0), found.browser(1)
            (plan,) = found.ids
            assert other.judge(plan, words=EVIL).status == 303
            assert browser.judge(plan, words=EVIL).status == 303
            checked = browser.post(f"/plan/{plan}/check", {"text": f"{text}{EVIL}"})
            paths = ("/", f"/plan/{plan}", f"/plan/{plan}/run", "/agreement")
            pages = [browser.get(path) for path in paths]
            for answer in (*pages, checked):
                assert answer.status == 200
                assert "<img src=x" not in answer.text
                assert "<script>" not in answer.text
                assert answer.text.count("</textarea>") in (0, 2)

    def test_nobody_sees_another_s_verdict_or_edit_before_giving_theirs(self, review: Review):
        anna, ben = review.browser(0), review.browser(1)
        plan, other = review.ids[:2]
        secret = "the second step is needless"
        assert anna.judge(plan, "no", 2, words=secret).status == 303
        edit = GOOD.format(who="Nobody else")
        assert anna.post(f"/plan/{plan}/versions", {"text": edit}).status == 303
        before = [ben.get(path).text for path in ("/", f"/plan/{plan}", f"/plan/{plan}/run",
                                                  "/agreement")]  # fmt: skip
        before.append(ben.post(f"/plan/{plan}/verdict", {}, HX_Request="true").text)
        for page in before:
            assert secret not in page
            assert "Nobody else leaves" not in page
            assert "Anna" not in page
        assert "Nobody else leaves" in anna.get(f"/plan/{plan}").text
        assert ben.judge(plan).status == 303
        page = ben.get(f"/plan/{plan}").text
        assert secret in page
        assert "Nobody else leaves" in page
        assert "Of the 1 plan" in ben.get("/agreement").text
        assert secret not in ben.get(f"/plan/{other}").text

    def test_what_is_known_of_a_row_without_an_answer_is_shown(self, tmp_path: Path):
        row = {"plan": GOOD.format(who="Ada"), "options": ["It rained", "It closed"], "gold": "B",
               "result": "a person's own", "measures": [1]}  # fmt: skip
        write_rows(tmp_path / "rows.jsonl", row)
        with reviewing("rows.jsonl") as found:
            run = found.browser(0).get(f"/plan/{found.ids[0]}/run").text
            assert "no run and no answer" in run
            assert "Right answer</dt><dd>B. It closed<" in run

    def test_people_map_answers_to_options_and_are_held_against_the_model(self, tmp_path: Path):
        rows = [
            {"id": str(at), "plan": GOOD.format(who=f"Ada {at}"), "question": f"Why, {at}?",
             "answer": f"It closed & {at}.", "options": ["She <was> ill", "It closed"],
             "option": "AB"[at % 2], "gold": "B"}
            for at in range(4)
        ]  # fmt: skip
        # The last was mapped to no option, so there is nothing to be held against.
        rows.append({**rows[0], "id": "4", "option": None, "question": "Who?", "grounded": False})
        write_rows(tmp_path / "rows.jsonl", *rows)
        with reviewing("rows.jsonl") as found:
            anna, ben = found.browser(0), found.browser(1)
            page = anna.get(f"/plan/{found.ids[0]}").text
            assert "It closed &amp; 0." in page
            assert "A. She &lt;was&gt; ill" in page
            assert "rows.jsonl:1 · 0</p>" in page
            assert "<code>FIND_REASON(CTX, X)</code></dt><dd>" in page
            runs = [anna.get(f"/plan/{found.ids[at]}/run").text for at in (0, 4)]
            assert "Right answer</dt><dd>B. It closed<" in runs[0]
            assert ["no evidence" in run for run in runs] == [False, True]
            assert 'name="option"' not in anna.get(f"/plan/{found.ids[4]}").text
            refused(anna.judge(found.ids[0], option="C"), 422, "no such option")
            refused(anna.judge(found.ids[4], option="A"), 422, "no such option")
            for at, plan in enumerate(found.ids[:4]):
                assert anna.judge(plan, option="AB"[at % 2]).status == 303
                assert ben.judge(plan, option="none" if at else "A").status == 303
            # Another choice takes the place of the first; a verdict alone changes none.
            assert anna.judge(found.ids[3], option="A").status == 303
            assert anna.judge(found.ids[3], "no").status == 303
            assert 'value="A" checked' in anna.get(f"/plan/{found.ids[3]}").text
            assert "Answers mapped to options" in anna.get("/agreement").text
            told = call("review", "agreement", "--json", "--store", "store.db").json
        [table] = [one for one in told["blocks"] if one.get("table") == "Answers mapped to options"]
        pairs = {(row["one"], row["other"]): row for row in table["rows"]}
        anna_model = pairs["the model", "Anna"]
        assert (anna_model["plans"], anna_model["same"]) == (4, 0.75)
        # Chance: the model has A and B twice each, Anna three A and one B.
        assert anna_model["cohen"] == pytest.approx((0.75 - 0.5) / (1 - 0.5))
        assert pairs["the model", "Ben"]["same"] == 0.25
        assert pairs["Anna", "Ben"]["same"] == 0.25

    def test_an_edit_is_checked_kept_and_sent(self, tmp_path: Path):
        folder = plans(tmp_path / "plans", 1)
        (tmp_path / "demos").mkdir()
        with reviewing(folder, demos=tmp_path / "demos") as found:
            browser = found.browser(0)
            (plan,) = found.ids
            edit = GOOD.format(who="Tom")
            checked = browser.post(f"/plan/{plan}/check", {"text": f"{edit}2. b = X(CTX) : y"})
            assert "PRL201" in checked.text
            given = found.session.items[0].text
            for text, says in (("1. b CONCAT(", "The plan has errors"), ("", "The plan has errors"),
                               (given.replace("\n", "\r\n"), "The plan is as it was")):  # fmt: skip
                refused(browser.post(f"/plan/{plan}/versions", {"text": text}), 422, says)
            wrong = browser.post(f"/plan/{plan}/versions", {"text": "x"}, HX_Request="true")
            refused(wrong, 422, "The plan has errors")
            sent_as = {"text": edit.replace("\n", "\r\n").rstrip()}
            kept = browser.post(f"/plan/{plan}/versions", sent_as, HX_Request="true")
            assert "Kept as version 2, in " in kept.text
            file = folder / "plan0.v2.plan"
            assert file.read_text(encoding="utf-8") == edit
            for number, status in ((3, 404), ("9" * 5_000, 404), (1, 404), (2, 303), (2, 303)):
                path = f"/plan/{plan}/versions/{number}/demo"
                assert browser.post(path, {}).status == status
            (sent,) = (tmp_path / "demos").iterdir()
            assert sent.read_text(encoding="utf-8") == edit
            assert "among the demonstrations, as plan0.plan" in browser.get(f"/plan/{plan}").text

    def test_a_run_s_document_is_shown(self, tmp_path: Path):
        (tmp_path / "s.txt").write_text(STORY, encoding="utf-8")
        assert call("ask", "s.txt", "Why does Mara leave?", "--model", "offline").code == 0
        place = str(Path(".pearl") / "store.db")
        with reviewing("last", place=place, documents=tmp_path) as found:
            page = found.browser(0).get(f"/plan/{found.ids[0]}/run").text
        assert '<mark id="quote-1"' in page
        assert "nine years" in page

    def test_quotes_of_several_documents_say_where_they_stand(self, tmp_path: Path):
        (tmp_path / "s.txt").write_text(STORY, encoding="utf-8")
        (tmp_path / "t.txt").write_text("Mara does not leave the sea.\n", encoding="utf-8")
        question = "Why does Mara leave?"
        assert call("ask", "s.txt", "t.txt", question, "--model", "offline").code == 0
        place = str(Path(".pearl") / "store.db")
        with reviewing("last", place=place, documents=tmp_path) as found:
            page = found.browser(0).get(f"/plan/{found.ids[0]}/run").text
        assert '<li>t.txt, line 1: <a href="#quote-' in page
        assert "# t.txt\n" in page
        assert START not in page

    def test_a_run_s_plan_is_checked_with_the_run_s_library(self, tmp_path: Path):
        (tmp_path / "s.txt").write_text(STORY, encoding="utf-8")
        library, plan = Path("my.actions"), '1. a = FIND_WHO(CTX, "Mara") : Find Mara\n'
        library.write_text("FIND_WHO(CTX, X) : Find who X is\n", encoding="utf-8")
        Path("my.plan").write_text(plan, encoding="utf-8")
        write_rows("q.jsonl", {"id": "q", "document": "s.txt", "plan": plan})
        own = ["--library", "my.actions", "--model", "offline"]
        assert call("batch", "q.jsonl", "-o", "o.jsonl", *own).code == 0
        assert call("run", "my.plan", "s.txt", *own).code == 0
        assert "1 plan: 0 with syntax errors, 0 with errors." in call("replay", "last").out
        core = call("replay", "last", "--library", "core")
        assert "0 with syntax errors, 1 with errors" in core.out
        place = str(Path(".pearl") / "store.db")
        names = [run.name for run in runs(place)]
        # With no run, a plan's head says which.
        headed = '# library: letters\nquestion: Which?\n\n1. a = SPLIT("a b", " ")\n'
        Path("headed.plan").write_text(headed, encoding="utf-8")
        Path("unheaded.plan").write_text(headed.partition("\n")[2], encoding="utf-8")
        with reviewing(*names, "my.plan", "headed.plan", "unheaded.plan", place=place) as found:
            browser = found.browser(0)
            said = ["does not exist" in browser.get(f"/plan/{id}").text for id in found.ids]
            assert said == [False, False, True, False, True]
            edit = {"text": plan.replace("Mara", "Jo")}
            for id, status in zip(found.ids, (303, 303, 422), strict=False):
                assert browser.post(f"/plan/{id}/versions", edit).status == status
            library.unlink()
            assert "FIND_WHO does not exist" in browser.get(f"/plan/{found.ids[0]}").text


class TestSafe:
    @pytest.mark.parametrize("asked", ["", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"])
    def test_who_sends_no_whole_request_is_hung_up_on(
        self, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("pearl.viewer.serve.HURRY", 0.1)
        monkeypatch.setattr("pearl.viewer.serve.CONNECTIONS", 4)
        with reviewing(plans(tmp_path / "plans", 1)) as found, contextlib.ExitStack() as stack:
            address = ("127.0.0.1", found.port)
            lines = [stack.enter_context(socket.create_connection(address, 20)) for _ in range(5)]
            for line in lines:
                line.sendall(f"{asked}GET / HTTP/1.1\r\nHost: 127".encode())
            for line in lines:
                said = b""
                while part := line.recv(4096):
                    said += part
                assert bool(said) is bool(asked)
            assert found.browser(0).get("/").status == 200

    def test_who_reads_no_answer_is_hung_up_on(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr("pearl.viewer.serve.STANDSTILL", 1.0)
        monkeypatch.setattr("pearl.viewer.serve.CONNECTIONS", 2)
        monkeypatch.setattr("pearl.viewer.serve.BUFFER", 2048)
        path, head = "/static/htmx.min.js", "Host: 127.0.0.1\r\n"
        last = f"GET {path} HTTP/1.1\r\n{head}Connection: close\r\n\r\n"
        route, _ = static_files(("pearl.viewer", "htmx.min.js"))
        with served(Starlette(routes=[route])) as port, contextlib.ExitStack() as end:
            browser = Browser(port)
            size = len(browser.get(path).text)

            def connect(times: int) -> socket.socket:
                time.sleep(0.3)  # until the browser's connection is closed
                line = end.enter_context(socket.socket())
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                line.settimeout(20)
                line.connect(("127.0.0.1", port))
                line.sendall((last.replace("close", "keep-alive") * (times - 1) + last).encode())
                return line

            # One answer is less than uvicorn lets wait, so it closes the connection at once.
            for times in (1, 30):
                line, until = connect(times), time.monotonic() + 20
                time.sleep(0.3)
                assert browser.get(path).status == 503
                while browser.get(path).status == 503:
                    assert time.monotonic() < until
                    time.sleep(0.1)
                read = 0
                with contextlib.suppress(ConnectionError):
                    while part := line.recv(4096):
                        read += len(part)
                assert read < times * size
            slow, begun, read = connect(2), time.monotonic(), 0
            while part := slow.recv(2048):
                read += len(part)
                time.sleep(0.05)
            assert time.monotonic() - begun > 1.5
            assert read > 2 * size

    def test_many_browsers_at_once_lose_nothing(self, place: str, tmp_path: Path):
        folder = plans(tmp_path / "plans", 8)
        names = tuple(f"person {number}" for number in range(6))
        with reviewing(folder, place=place, annotators=names, overlap=6) as found:
            acknowledged: list[tuple[str, int]] = []

            def work(number: int) -> None:
                browser = found.browser(number)
                kept = [one for one in found.ids if browser.judge(one, words="x").status == 303]
                acknowledged.extend((plan, number + 1) for plan in kept)

            at_once(work, 6)
            kept = [(one.plan, one.person) for one in read_verdicts(found.session.engine)]
            assert len(acknowledged) == 48
            assert sorted(kept) == sorted(acknowledged)

    @pytest.mark.parametrize("there", [True, False])
    def test_nothing_is_said_to_be_saved_in_a_store_that_is_gone(self, tmp_path: Path, there: bool):
        folder, store = plans(tmp_path / "plans", 1), tmp_path / "store.db"
        demos = tmp_path / "demos"
        demos.mkdir()
        with reviewing(folder, place=str(store), demos=demos) as found:
            browser, (plan,) = found.browser(0), found.ids
            edit = {"text": GOOD.format(who="Jo")}
            assert browser.post(f"/plan/{plan}/versions", edit).status == 303
            copy = Path(shutil.copy(store, tmp_path / "copy.db"))
            store.unlink()
            if there:
                copy.rename(store)
            before = sorted(folder.iterdir())
            what = "replaced" if there else "deleted"
            edit = {"text": GOOD.format(who="Tom")}
            for answer in (
                browser.judge(plan, words="precious"),
                browser.post(f"/plan/{plan}/verdict", {"correct": "no", "confidence": 1},
                             HX_Request="true"),
                browser.post(f"/plan/{plan}/versions", edit),
                browser.post(f"/plan/{plan}/versions", edit, HX_Request="true"),
                browser.post(f"/plan/{plan}/versions/2/demo", {}),
                browser.post("/enter", {"token": found.admitted[1].token, "name": "Bo"}),
                browser.post("/leave", {}),
                browser.get(f"/plan/{plan}"),
            ):  # fmt: skip
                refused(answer, 503, f"was {what} meanwhile. Nothing is read from it or saved in")
            with pytest.raises(DisplacedError), found.session.writing():
                pass
            with pytest.raises(DisplacedError):
                add_version(found.session.engine, found.session.items[0], 1, GOOD,
                            found.session.folders)  # fmt: skip
            assert (sorted(folder.iterdir()), list(demos.iterdir())) == (before, [])
        assert store.exists() is there

    def test_a_variable_of_the_server_s_own_library_stops_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setenv("WEB_CONCURRENCY", "abc")
        with process(plans(tmp_path / "plans", 1), "--no-tokens") as (child, said):
            port = int(said["address"].rpartition(":")[2])
            assert Browser(port).get("/enter").status == 200
            assert child.poll() is None

    def test_a_killed_server_loses_nothing_that_it_acknowledged(self, tmp_path: Path):
        folder = plans(tmp_path / "plans", 20)
        acknowledged: list[str] = []
        edits: list[str] = []
        words = ("--annotators", "2", "--overlap", "2", "--no-tokens")
        with process(folder, *words) as (child, said):
            port = int(said["address"].rpartition(":")[2])
            assert Browser(port).get("/").headers["location"] == "/enter"
            browser = Browser(port)
            browser.enter(said["annotators"][0]["link"].partition("token=")[2])
            links = re.findall(r'<a href="/plan/(.{16})"', browser.get("/").text)
            ids = list(dict.fromkeys(links))
            assert len(ids) == 20

            with contextlib.suppress(OSError):
                for number, plan in enumerate(ids):
                    if browser.judge(plan).status == 303:
                        acknowledged.append(plan)
                    edit = {"text": GOOD.format(who=f"X{number}")}
                    if browser.post(f"/plan/{plan}/versions", edit).status == 303:
                        edits.append(plan)
                    if number == 6:
                        child.send_signal(signal.SIGKILL)
            child.wait()
        assert 6 <= len(acknowledged) < 20
        with reviewing(folder, place=str(Path(".pearl") / "store.db"), annotators=2) as found:
            kept = {one.plan for one in read_verdicts(found.session.engine)}
            assert set(acknowledged) <= kept
            assert set(edits) <= {one.plan for one in read_versions(found.session.engine)}
            # Who was in is in still, and goes on where the server was killed.
            assert [one.token for one in found.admitted] == ["", ""]
            browser.port = found.port
            browser.cookies = {found.session.cookie: browser.cookies.popitem()[1]}
            assert f"{len(kept)} of 20 plans judged" in browser.get("/").text
