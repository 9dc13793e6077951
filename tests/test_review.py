"""Reviewing plans: who judges what, what is kept, how far people agree, what may be read."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import socket
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import combinations
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest
from sqlalchemy import Engine

from pearl.lang.errors import InputError, install_command
from pearl.lang.library import load_library
from pearl.lang.text import text_digest
from pearl.review.agreement import agreement, labels_of, review_report
from pearl.review.pages import check_plan
from pearl.review.people import Person, admit, by_token, deal, enter, leave, read_wanted, who_is
from pearl.review.queue import (
    LONGEST,
    Folders,
    Queue,
    QueuedPlan,
    is_version,
    read_folders,
    read_queue,
    read_run,
    shorten_pieces,
)
from pearl.review.verdicts import (
    RecordedVerdict,
    Verdict,
    add_version,
    create,
    demo_name,
    last,
    of_person,
    options_of,
    read_form,
    read_verdicts,
    read_versions,
    save,
    send_to_demos,
    unswayed,
)
from pearl.store.database import open_database
from pearl.store.tables import review_people, review_sessions
from pearl.viewer.documents import DocumentPiece
from tests.reviewing import GOOD, at_once, laid_out, plans, reviewing
from tests.shell import BAD, STORY, call, one_line, write_rows

pytest_plugins = ["tests.postgres"]

PLANS = [f"p{number}" for number in range(30)]
YES = Verdict("yes", 4)


@pytest.fixture
def engine(place: str) -> Iterator[Engine]:
    """An empty store, in a file and on a server."""
    opened = open_database(place)
    yield opened
    opened.dispose()


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An empty store in a file, and the one that commands use."""
    monkeypatch.setenv("PEARL_STORE", "store.db")
    opened = open_database("store.db")
    yield opened
    opened.dispose()


def queued(engine: Engine, *names: str, documents: str | Path = "") -> tuple[Folders, Queue]:
    """The folders that some names and a folder of documents come to, and what is in the queue."""
    folders = read_folders([*names], str(documents), "")
    return folders, read_queue(names, folders, engine, "store.db")


def item(text: str = GOOD.format(who="Mara"), **more: object) -> QueuedPlan:
    return QueuedPlan("file", "a.plan", "Why does Mara leave?", text, **more)  # type: ignore[arg-type]


class TestAssignment:
    @pytest.mark.parametrize(("count", "overlap"), [(1, 2), (2, 2), (3, 2), (4, 2), (7, 3), (5, 5)])
    def test_everybody_has_about_as_many_and_each_plan_so_many(self, count: int, overlap: int):
        people = list(range(1, count + 1))
        found = deal(PLANS, people, overlap, {})
        assert list(found) == PLANS
        assert all(len(set(one)) == min(overlap, count) for one in found.values())
        load = Counter(person for one in found.values() for person in one)
        assert max(load.values()) - min(load.values()) <= 1
        assert found == deal(PLANS, people, overlap, {})

    def test_everybody_can_be_compared_with_everybody(self):
        found = deal(PLANS, [1, 2, 3, 4], 2, {})
        pairs = Counter(tuple(sorted(one)) for one in found.values())
        assert set(pairs) == set(combinations([1, 2, 3, 4], 2))
        assert max(pairs.values()) - min(pairs.values()) <= 1

    def test_what_was_judged_stays_and_counts(self):
        found = deal(["a", "b", "c"], [1, 2, 3], 2, {"a": [1], "b": [1, 2, 3]})
        assert found["a"][0] == 1
        assert len(found["a"]) == 2
        assert found["b"] == (1, 2, 3)
        load = Counter(person for one in found.values() for person in one)
        assert max(load.values()) - min(load.values()) <= 1


class TestAgreement:
    def test_cohen_s_kappa_of_a_known_table(self):
        # 20 both yes, 15 both no, 5 and 10 apart: chance is 0.5 · 0.6 + 0.5 · 0.4, κ = 0.4.
        said = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10
        said += [("no", "no")] * 15
        labels = {str(at): {1: one, 2: two} for at, (one, two) in enumerate(said)}
        found = agreement(labels)
        assert (found.plans, found.same) == (50, 0.7)
        assert found.cohen == pytest.approx(0.4)
        assert found.pairs[0].kappa == pytest.approx(0.4)

    def test_fleiss_kappa_of_a_known_table(self):
        # Ten subjects, fourteen ratings of each into five categories.
        table = [
            (0, 0, 0, 0, 14), (0, 2, 6, 4, 2), (0, 0, 3, 5, 6), (0, 3, 9, 2, 0), (2, 2, 8, 1, 1),
            (7, 7, 0, 0, 0), (3, 2, 6, 3, 0), (2, 5, 3, 2, 2), (6, 5, 2, 1, 0), (0, 2, 2, 3, 7),
        ]  # fmt: skip
        labels = {}
        for at, counts in enumerate(table):
            said = [str(kind) for kind, count in enumerate(counts) for _ in range(count)]
            # Other people each time, as where plans are dealt out.
            labels[str(at)] = {100 * at + person: label for person, label in enumerate(said)}
        found = agreement(labels)
        assert found.fleiss == pytest.approx(0.2099, abs=5e-4)
        assert (found.raters, found.rated) == (14, 10)

    def test_krippendorff_s_alpha_where_verdicts_are_missing(self):
        rows = ("*****34121133*3", "1*213343*******", "**21344*21133*4")
        labels: dict[str, dict[int, str]] = {}
        for person, row in enumerate(rows):
            for unit, label in enumerate(row):
                if label != "*":
                    labels.setdefault(str(unit), {})[person] = label
        assert agreement(labels).alpha == pytest.approx(0.691, abs=5e-4)

    def test_what_is_not_defined_is_not_made_up(self):
        same = agreement({"a": {1: "yes", 2: "yes"}, "b": {1: "yes", 2: "yes"}})
        assert (same.same, same.cohen, same.fleiss, same.alpha) == (1.0, None, None, None)
        alone = agreement({"a": {1: "yes"}, "b": {2: "no"}})
        assert (alone.plans, alone.same, alone.pairs, alone.alpha) == (0, None, (), None)

    def test_fleiss_takes_the_plans_with_as_many_verdicts(self):
        labels = {str(at): {1: "yes", 2: "yes" if at % 2 else "no"} for at in range(6)}
        found = agreement({**labels, "x": {1: "no", 2: "no", 3: "no"}})
        assert (found.raters, found.rated, found.plans) == (2, 6, 7)
        assert found.fleiss == agreement(labels).fleiss

    def test_the_tables(self):
        people = {1: Person(1, "Anna"), 2: Person(2, "Ben")}
        given = [
            RecordedVerdict("a", 1, Verdict("yes", 5, ("merge",)), False, 0),
            RecordedVerdict("a", 2, Verdict("no", 2, ("merge", "edit")), False, 0),
            RecordedVerdict("b", 1, Verdict("no", 4), False, 0),
            RecordedVerdict("b", 2, Verdict("no", 1), False, 0),
            # Swayed by the other's: it counts as a verdict, and not as agreement.
            RecordedVerdict("a", 2, Verdict("yes", 2, ("merge", "edit")), True, 0),
        ]
        report = review_report(given, people)
        assert report.about == (("verdicts", "4 on 2 plans"),)
        assert review_report(given[:1], people).about == (("verdicts", "1 on 1 plan"),)
        judged, agreed, pairs = report.blocks
        rows = {row[0]: row[1:] for row in judged.rows}  # type: ignore[union-attr]
        assert rows["Correct"] == ("50.0 %", "50.0 %", "50.0 %")
        assert rows["Steps can be merged"] == ("50.0 %", "50.0 %", "50.0 %")
        assert rows["Needs a slight edit"] == ("25.0 %", "0.0 %", "50.0 %")
        assert rows["Mean confidence, of 5"] == ("3.00", "4.50", "1.50")
        first = agreed.data[0]  # type: ignore[union-attr]
        assert (first["question"], first["plans"], first["same"]) == ("correct", 2, 0.5)
        assert first["cohen"] == pytest.approx(0.0)
        # Three of four say no: chance is 0.5 of pairs with replacement, 0.625 without.
        assert first["fleiss"] == pytest.approx((0.5 - 0.625) / (1 - 0.625))
        assert first["krippendorff"] == pytest.approx(0.0)
        assert pairs.rows[0][:2] == ("Anna and Ben", "2")  # type: ignore[union-attr]
        assert labels_of(last(given), "edit")["a"] == {1: "no", 2: "yes"}
        assert labels_of(unswayed(given), "correct")["a"] == {1: "yes", 2: "no"}


class TestVerdicts:
    def test_every_verdict_comes_back(self, engine: Engine):
        odd = Verdict("unclear", 1, ("merge", "edit"), "half 😀, <b>\nand \ufffd")
        with engine.begin() as connection:
            save(connection, "a", 1, odd)
            save(connection, "b", 2, YES)
            save(connection, "a", 1, odd)
        found = read_verdicts(engine)
        assert [(one.plan, one.person, one.verdict) for one in found] == [
            ("a", 1, odd), ("b", 2, YES),
        ]  # fmt: skip
        assert of_person(engine, 1) == {"a": odd}
        assert read_verdicts(engine, "b") == found[1:]

    def test_who_changes_a_verdict_after_the_others_were_shown_is_known(self, engine: Engine):
        said = [(1, "yes"), (1, "no"), (2, "yes"), (2, "no"), (1, "unclear")]
        for person, word in said:
            with engine.begin() as connection:
                save(connection, "a", person, Verdict(word, 3))
        found = read_verdicts(engine)
        assert [one.seen for one in found] == [False, False, False, True, True]
        assert unswayed(found)["a", 1].verdict.correct == "no"
        assert last(found)["a", 1].verdict.correct == "unclear"

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"correct": ["maybe"]}, "Say whether"),
            ({"correct": []}, "Say whether"),
            ({"confidence": ["6"]}, "how confident"),
            ({"confidence": ["٣"]}, "how confident"),
            ({"category": ["merge", "x"]}, "no such category"),
            ({"words": ["x" * 10_001]}, "shorten it"),
        ],
    )
    def test_what_is_no_verdict(self, change: dict[str, list[str]], says: str):
        form = {"correct": ["no"], "confidence": ["2"], "category": ["edit", "merge"]}
        assert read_form({**form, "words": [" a\r\nb "]}) == Verdict(
            "no", 2, ("merge", "edit"), "a\nb"
        )
        with pytest.raises(InputError, match=says):
            read_form(form | change)


class TestPeople:
    def test_tokens_are_made_once_and_kept_as_hashes(self, engine: Engine):
        with engine.begin() as connection:
            first = admit(connection, 2, new_links=False)
            again = admit(connection, None, new_links=False)
            more = admit(connection, 3, new_links=False)
        assert [one.person.name for one in more] == ["annotator 1", "annotator 2", "annotator 3"]
        assert [bool(one.token) for one in (*first, *again)] == [True, True, False, False]
        assert [bool(one.token) for one in more] == [False, False, True]
        assert by_token(engine, first[1].token) == first[1].person
        assert by_token(engine, "x") is None
        with engine.connect() as connection:
            stored = connection.execute(review_people.select()).all()
        assert stored[0].token == text_digest(first[0].token)
        assert first[0].token not in repr(stored)

    def test_a_browser_stays_in_until_it_leaves_or_links_are_new(self, engine: Engine):
        with engine.begin() as connection:
            (one,) = admit(connection, ("Anna",), new_links=False)
            keys = [enter(connection, one.person) for _ in range(2)]
        assert [who_is(engine, key) for key in keys] == [one.person] * 2
        with engine.begin() as connection:
            assert keys[0] not in repr(connection.execute(review_sessions.select()).all())
            leave(connection, keys[0])
        assert [who_is(engine, key) for key in keys] == [None, one.person]
        with engine.begin() as connection:
            (anew,) = admit(connection, ("anna",), new_links=True)
        assert who_is(engine, keys[1]) is None
        assert by_token(engine, one.token) is None
        assert by_token(engine, anew.token) == one.person

    def test_who_is_wanted(self):
        assert read_wanted("3") == 3
        assert read_wanted("Anna, Ben") == ("Anna", "Ben")
        for name in ("Nan", "7of9", "e1", "五"):
            assert read_wanted(name) == (name,)


class TestQueue:
    def test_from_everything_that_holds_plans(self, local: Engine, tmp_path: Path):
        folder = plans(tmp_path / "plans", 2)
        (folder / "plan0.v2.plan").write_text(GOOD, encoding="utf-8")
        (folder / "a.actions").write_text("", encoding="utf-8")
        rows = [{"plan": GOOD, "question": "Why?", "answer": "So."}, {"plan": None}, {"id": "x"}]
        write_rows("a.jsonl", *rows)
        head = {"title": "t", "about": [], "methods": ["pearl"], "asked": {"": 1}, "notes": []}
        result = {"method": "pearl", "id": "q1", "plan": GOOD, "question": "Who?", "gold": "B"}
        write_rows("e.jsonl", {"evaluation": head}, result)
        Path("s.txt").write_text(STORY, encoding="utf-8")
        assert call("ask", "s.txt", "Why does Mara leave?", "--model", "offline").code == 0
        row = {"id": "q1", "question": "Why does Mara leave?", "document": "s.txt"}
        write_rows("q.jsonl", row)
        assert call("batch", "q.jsonl", "-o", "o.jsonl", "--model", "offline").code == 0
        names = ["plans", "a.jsonl", "e.jsonl", "last", "o.jsonl", "plans"]
        found = queued(local, *names)[1].items
        assert [one.kind for one in found] == ["file", "file", "row", "result", "run", "row"]
        assert [one.name for one in found[:4]] == [
            "plans/plan0.plan", "plans/plan1.plan", "a.jsonl:1", "e.jsonl, pearl, q1",
        ]  # fmt: skip
        assert found[4].task == "q1"
        assert found[0].place == tmp_path / "plans" / "plan0.plan"
        assert found[2].about["answer"] == "So."
        assert found[3].about["gold"] == "B"
        assert len({one.id for one in found}) == 6

    @pytest.mark.parametrize("name", ["nowhere.plan", "last", "empty"])
    def test_what_stands_for_nothing(self, name: str):
        Path("empty").mkdir()
        line = one_line(call("review", name, "--port", "0"), 2)
        assert name in line

    def test_remarks_on_an_evaluation_s_answer_are_there_in_a_run_of_the_store(self):
        options = ["The Fund closed it", "Tom wanted it"]
        row = {"id": "a", "question": "Why did Mara leave?", "document": {"text": STORY}}
        write_rows("q.jsonl", {**row, "options": options, "gold": "A"})
        words = ("--data", "q.jsonl", "--methods", "pearl", "--model", "offline")
        assert call("eval", "questions", *words, "--store", "store.db", "-o", "e.jsonl").code == 0
        engine = open_database("store.db")
        found = [queued(engine, name)[1].items[0].about for name in ("last", "e.jsonl")]
        engine.dispose()
        assert [one["remarks"] for one in found] == ["picked by words"] * 2

    def test_a_link_out_of_a_folder_is_left_out(self, local: Engine, tmp_path: Path):
        folder = plans(tmp_path / "plans", 1)
        secret = tmp_path / "secret.plan"
        secret.write_text(GOOD, encoding="utf-8")
        (folder / "link.plan").symlink_to(secret)
        _, queue = queued(local, "plans")
        assert [one.name for one in queue.items] == ["plans/plan0.plan"]
        assert queue.left_out == ("plans/link.plan leads out of plans.",)

    def test_a_plan_that_cannot_be_read_hides_no_other(self, local: Engine, tmp_path: Path):
        plans(folder := tmp_path / "plans", 1)
        for name in ("old", "odd"):
            (folder / f"{name}.plan").write_bytes(b"\xff\xfea")
        _, queue = queued(local, "plans")
        assert [one.name for one in queue.items] == ["plans/plan0.plan"]
        said = "is UTF-16: convert it, with iconv -f UTF-16 -t UTF-8."
        reasons = [f"plans/{name}.plan {said}" for name in ("odd", "old")]
        assert list(queue.left_out) == reasons
        (tmp_path / "bare").mkdir()
        _, queue = queued(local, "plans", "bare")
        told = "bare holds no plan: name plans, a folder of them, or a run."
        assert (len(queue.items), queue.left_out) == (1, (*reasons, told))
        (tmp_path / "story.md").write_text("# The winch\n\nMara sold it.\n", encoding="utf-8")
        left_out = queued(local, "plans", "story.md")[1].left_out
        assert left_out[-1] == told.replace("bare", "story.md")
        (folder / "plan0.plan").unlink()
        with pytest.raises(InputError, match=r"odd\.plan is UTF-16.* plans/old\.plan is UTF-16"):
            queued(local, "plans")

    def test_only_as_many_options_are_chosen_from_as_there_are_letters(self):
        # A row of somebody else's may have more of them than there are characters.
        about = {"answer": "It closed.", "option": "A", "options": ["It closed"] * 1_200_000}
        assert "".join(options_of(item(about=about))) == ascii_uppercase

    def test_a_row_that_holds_no_plan_hides_no_other(self, local: Engine, tmp_path: Path):
        long, other = {"plan": "# " + "x" * LONGEST}, {"plan": GOOD.replace("who", "whom")}
        rows = ({"plan": GOOD}, {"question": "Why?"}, {"plan": ""}, long, other)
        lines = [*map(json.dumps, rows)]
        (tmp_path / "r.jsonl").write_text("\n".join([lines[0], "{bad", *lines[1:]]))
        _, queue = queued(local, "r.jsonl")
        assert [one.name for one in queue.items] == ["r.jsonl:1", "r.jsonl:6"]
        told = [line.partition(".jsonl:")[2] for line in queue.left_out]
        assert [line[0] for line in told] == ["2", "3", "4", "5"]
        assert "not JSON" in told[0]
        assert [line[2:] for line in told[1:3]] == ["has no plan."] * 2
        assert "longer than" in told[3]
        (tmp_path / "r.jsonl").write_text(f"{lines[3]}\n{lines[1]}")
        with pytest.raises(InputError, match=r"r\.jsonl:2 has no plan\. .* is longer than"):
            queued(local, "r.jsonl")

    def test_the_same_start_again_changes_nothing_and_more_people_share_the_rest(
        self, tmp_path: Path
    ):
        plans(tmp_path / "plans", 8)
        folders = read_folders(["plans"], "", "")

        def shares(*who: int | None) -> list[list[str]]:
            engine, session, _ = laid_out(["plans"], "store.db", folders, *who)
            engine.dispose()
            return [[one.id for one in session.share(person)] for person in session.people]

        before = shares(2, 1)
        assert [len(one) for one in before] == [4, 4]
        engine = open_database("store.db")
        with engine.begin() as connection:
            save(connection, before[0][0], 1, YES)
        engine.dispose()
        assert shares(None, 1) == before
        after = shares(4, 1)
        assert [len(one) for one in after] == [2, 2, 2, 2]
        assert before[0][0] in after[0]


class TestVersions:
    def test_a_version_stands_beside_the_original(self, local: Engine, tmp_path: Path):
        folder = plans(tmp_path / "plans", 1)
        folders, queue = queued(local, "plans")
        (one,) = queue.items
        (folder / "plan0.v2.plan").write_text("somebody's\n", encoding="utf-8")
        found = add_version(local, one, 1, "new\n", folders)
        assert (found.number, found.file) == (3, "plans/plan0.v3.plan")
        assert (folder / "plan0.v3.plan").read_text(encoding="utf-8") == "new\n"
        assert (folder / "plan0.v2.plan").read_text(encoding="utf-8") == "somebody's\n"
        assert (folder / "plan0.plan").read_text(encoding="utf-8") == one.text
        assert is_version(folder / "plan0.v3.plan")
        assert not list(folder.glob(".*"))

    def test_two_at_once_get_two_numbers(self, engine: Engine, tmp_path: Path):
        folder = plans(tmp_path / "plans", 1)
        folders, queue = queued(engine, "plans")
        (one,) = queue.items
        stored = item()

        def work(person: int) -> None:
            for number in range(4):
                add_version(engine, one, person, f"{person} {number}\n", folders)
                add_version(engine, stored, person, f"{person} {number}\n", folders)

        at_once(work, 4)
        said = {f"{person} {number}\n" for person in range(4) for number in range(4)}
        for plan in (one, stored):
            found = read_versions(engine, plan.id)
            assert [version.number for version in found] == list(range(2, 18))
            assert {version.text for version in found} == said
        for version in read_versions(engine, one.id):
            file = folder / f"plan0.v{version.number}.plan"
            assert file.read_text(encoding="utf-8") == version.text

    def test_a_folder_that_has_become_a_link_is_not_written_to(self, local: Engine, tmp_path: Path):
        folder = plans(tmp_path / "in", 1)
        outside = tmp_path / "outside"
        outside.mkdir()
        folders, queue = queued(local, "in")
        (one,) = queue.items
        folder.rename(tmp_path / "was")
        folder.symlink_to(outside)
        with pytest.raises(InputError, match="not written"):
            add_version(local, one, 1, "new\n", folders)
        assert list(outside.iterdir()) == []
        assert read_versions(local) == []

    def test_nothing_is_written_over_or_outside(self, tmp_path: Path):
        inside = tmp_path / "in"
        inside.mkdir()
        (inside / "there").write_text("old", encoding="utf-8")
        (inside / "link").symlink_to(tmp_path / "target")
        assert create(inside / "new", "text", (inside,))
        assert not create(inside / "there", "text", (inside,))
        assert not create(inside / "link", "text", (inside,))
        assert not (tmp_path / "target").exists()
        for target in (tmp_path / "out", inside / ".." / "out"):
            with pytest.raises(InputError, match="none that was given"):
                create(target, "text", (inside,))
        assert not (tmp_path / "out").exists()

    def test_a_demonstration_has_its_question_and_a_name_of_its_own(
        self, local: Engine, tmp_path: Path
    ):
        demos = tmp_path / "demos"
        demos.mkdir()
        (demos / "a.plan").write_text("there\n", encoding="utf-8")
        folders = read_folders([], "", str(demos))
        text = '1. a = FIND_REASON(CTX, "b") : c\n'
        version = add_version(local, item(), 1, text, folders)
        sent = send_to_demos(local, item(), version, demos)
        assert sent.demo == "a-2.plan"
        assert read_versions(local)[0] == sent
        assert send_to_demos(local, item(), sent, demos) == sent
        written = (demos / "a-2.plan").read_text(encoding="utf-8")
        assert written == f"question: Why does Mara leave?\n\n{text}"
        assert (demos / "a.plan").read_text(encoding="utf-8") == "there\n"
        nameless = QueuedPlan("row", "b", "", text)
        with pytest.raises(InputError, match="needs its question"):
            send_to_demos(local, nameless, add_version(local, nameless, 1, text, folders), demos)

    @pytest.mark.parametrize(
        ("name", "file"),
        [("p/why.plan", "why"), ("../../x y.plan", "x-y"), ("/", "plan"), ("a" * 99, "a" * 60)],
    )
    def test_names_of_demonstrations(self, name: str, file: str):
        assert demo_name(name) == file


class TestRuns:
    @pytest.fixture
    def ran(self, local: Engine, tmp_path: Path) -> Path:
        """A batch's run in the store, and the folder with its document."""
        folder = tmp_path / "documents"
        folder.mkdir()
        (folder / "s.txt").write_text(STORY, encoding="utf-8")
        rows = [
            {"id": "q1", "question": "Why does Mara leave?", "document": "s.txt"},
            {"id": "q2", "question": "Why is Tom sorry?", "document": {"text": STORY}},
        ]
        file = write_rows(folder / "q.jsonl", *rows)
        assert call("batch", file, "-o", "o.jsonl", "--model", "offline").code == 0
        return folder

    def test_outputs_and_quotes_in_the_document(self, local: Engine, ran: Path):
        folders, queue = queued(local, "last", "o.jsonl", documents=ran)
        for one in queue.items:
            shown = read_run(one, local, folders)
            assert shown.frame
            if one.kind != "run":
                assert "answer only" in shown.note
                continue
            text = shown.document.text
            assert text
            assert text.name == ("s.txt" if one.task == "q1" else "document of q2")
            assert [record.step.name for record in shown.frame.steps] == ["event", "answer"]
            assert all(record.value for record in shown.frame.steps)
            marked = [piece.text for _, piece in shown.pieces if piece.kind]
            assert marked
            assert {" ".join(piece.split()) for piece in marked} <= {q.text for q in shown.quotes}
            assert "".join(piece.text for _, piece in shown.pieces) == STORY

    def test_several_documents_are_found_together(self, local: Engine, ran: Path):
        (ran / "t.txt").write_text("Tom went to sea, and Mara did not.\n", encoding="utf-8")
        row = {"id": "q", "question": "Why does Mara leave?", "documents": ["s.txt", "t.txt"]}
        file = write_rows(ran / "r.jsonl", row)
        assert call("batch", file, "-o", "r.jsonl", "--model", "offline").code == 0
        folders, queue = queued(local, "last", "r.jsonl", documents=ran)
        assert len(queue.items) == 2
        for one in queue.items:
            shown = read_run(one, local, folders)
            assert shown.document.trouble == ""
            assert shown.document.text
            assert shown.document.text.documents.keys() == {"s.txt", "t.txt"}
            places = {quote.place for quote in shown.quotes}
            assert "t.txt, line 1" in places or one.kind == "row"
        (ran / "t.txt").unlink()
        (ran / "t.txt").symlink_to("s.txt")
        assert "another text" in read_run(queue.items[0], local, folders).document.trouble

    def test_no_document_from_elsewhere_and_none_that_was_changed(self, local: Engine, ran: Path):
        nowhere, queue = queued(local, "last")
        first = queue.items[0]
        shown = read_run(first, local, nowhere)
        assert shown.pieces == []
        assert "--documents" in shown.document.trouble
        assert shown.frame
        assert shown.frame.steps[0].value
        (ran / "s.txt").write_text("Another story.\n", encoding="utf-8")
        shown = read_run(first, local, read_folders(["last"], str(ran), ""))
        assert shown.pieces == []
        assert "another text" in shown.document.trouble

    @pytest.mark.parametrize("name", ["../secret.txt", "/etc/passwd", "link.txt", "sub/../../x"])
    def test_a_row_cannot_name_a_file_elsewhere(self, local: Engine, name: str, tmp_path: Path):
        folder = tmp_path / "documents"
        folder.mkdir()
        (tmp_path / "secret.txt").write_text("secret", encoding="utf-8")
        (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
        row = {"plan": GOOD, "answer": "So.", "document": name}
        write_rows("a.jsonl", row)
        folders, queue = queued(local, "a.jsonl", documents=folder)
        (one,) = queue.items
        shown = read_run(one, local, folders)
        assert shown.pieces == []
        assert "none of the folders" in shown.document.trouble

    def test_a_trace_shows_its_values(self, local: Engine, ran: Path):
        assert call("trace", "last/q1", "-o", "t.plan").code == 0
        folders, queue = queued(local, "t.plan", documents=ran)
        (one,) = queue.items
        shown = read_run(one, local, folders)
        assert shown.frame
        assert [record.step.name for record in shown.frame.steps] == ["event", "answer"]
        assert all(record.value for record in shown.frame.steps)
        assert shown.document.text
        assert shown.document.text.name == "s.txt"
        assert read_run(item(), local, folders).note.startswith("This plan has not been run")
        # Of a batch, and of an evaluation, where an answer may be kept that was not scored.
        row = {"plan": GOOD, "status": "failed", "error": {"reason": "reply", "message": "No."}}
        head = {"title": "t", "about": [], "methods": ["m"], "asked": {"": 2}, "notes": []}
        lost = {"method": "m", "id": "a", "plan": GOOD, "question": "Who?", "error": "No."}
        evaluated = ({"evaluation": head}, lost, {**lost, "id": "b", "answer": "x", "words": "x"})
        failed, kept = "The run failed: No.", "What the steps gave is not known: the file has the"
        for rows, notes in (([row], [failed]), (evaluated, [failed, f"{kept} answer only."])):
            write_rows("failed.jsonl", *rows)
            items = queued(local, "failed.jsonl")[1].items
            assert [read_run(one, local, folders).note for one in items] == notes

    def test_a_long_document_is_shown_around_its_quotes(self):
        quote = DocumentPiece("QUOTE", (1,), "final")
        whole = [DocumentPiece("a" * 300_000), quote, DocumentPiece("b" * 100_000)]
        assert list(shorten_pieces(whole)) == [
            (0, DocumentPiece("")), (298_500, DocumentPiece("a" * 1500)), (0, quote),
            (0, DocumentPiece("b" * 1500)), (98_500, DocumentPiece("")),
        ]  # fmt: skip
        assert list(shorten_pieces([DocumentPiece("c" * 300_000)])) == [
            (0, DocumentPiece("c" * 1500)), (298_500, DocumentPiece("")),
        ]  # fmt: skip
        assert list(shorten_pieces(whole[1:])) == [(0, piece) for piece in whole[1:]]


class TestCheckedPlan:
    def test_the_words_are_those_of_the_terminal(self, tmp_path: Path):
        (tmp_path / "bad.plan").write_text(BAD, encoding="utf-8")
        terminal = call("lint", "bad.plan").out
        shown = check_plan("bad.plan", BAD, load_library())
        assert len(shown.findings) == terminal.count("bad.plan:")
        for one in shown.findings:
            line, column = shown.source.position(one.span.start)
            for words in (f"{one.code} {one.name}", one.message, f"bad.plan:{line}:{column}"):
                assert words in terminal
        assert shown.summary.startswith("3 errors")

    def test_no_fix_is_shown_that_lint_does_not_take(self):
        text = '1. a = FIND_EVENT(CTX, "x") : y\nc\n = CONCAT(a, a) : w\n'
        shown = check_plan("bad.plan", text, load_library())
        assert [(one.code, one.fix) for one in shown.findings] == [("PRL116", None)]

    def test_a_text_with_thousands_of_findings_is_still_a_page(self):
        text = '1. a = FIND_REASON(CTX, "' + "{b} " * 5_000 + '") : c\n'
        shown = check_plan("a", text, load_library())
        assert (len(shown.findings), len(shown.shown)) == (5_000, 200)


class TestCommands:
    def test_export_and_agreement(self, tmp_path: Path):
        plans(tmp_path / "plans", 3)
        folders = read_folders(["plans"], "", "")
        engine, session, _ = laid_out(["plans"], "s.db", folders, ("Anna", "=Ben"), 2)
        with engine.begin() as connection:
            for one in session.items:
                save(connection, one.id, 1, Verdict("yes", 5, ("edit",), "=1+1"))
                save(connection, one.id, 2, Verdict("no", 2))
        add_version(engine, session.items[0], 1, "x\n", folders)
        engine.dispose()
        assert call("review", "export", "-o", "v.csv", "--store", "s.db").code == 0
        rows = list(csv.DictReader(Path("v.csv").read_text(encoding="utf-8").splitlines()))
        assert [row["annotator"] for row in rows] == ["Anna", "'=Ben"] * 3
        assert (rows[0]["correct"], rows[0]["edit"], rows[0]["merge"]) == ("yes", "1", "0")
        assert (rows[0]["words"], rows[0]["versions"]) == ("'=1+1", "plans/plan0.v2.plan")
        told = call("review", "export", "--json", "--store", "s.db").json
        assert told[0]["words"] == "=1+1"
        assert told[1]["annotator"] == "=Ben"
        assert told[0]["categories"] == ["edit"]
        text = call("review", "agreement", "--store", "s.db").out
        assert "Krippendorff" in text
        assert "Anna and =Ben" in text
        data = call("review", "agreement", "--json", "--store", "s.db").json
        assert "krippendorff" in json.dumps(data)

    def test_a_row_that_is_no_verdict_is_told_and_the_others_stay(self, tmp_path: Path):
        folder, store = plans(tmp_path / "plans", 2), str(tmp_path / "s.db")
        columns = "categories, correct, confidence, words, given"
        changes = (
            "categories = 'not json'", "categories = '3'", """categories = '["x", []]'""",
            "categories = CAST(printf('%.*c', 99999, '[') AS TEXT)", "categories = X'ff'",
            "correct = 'maybe'", "confidence = 6", "confidence = 'x'", "words = X'ff'",
            "given = 'x'",
        )  # fmt: skip
        with reviewing(folder, place=store) as found, closing(sqlite3.connect(store)) as changed:
            browsers = [found.browser(number) for number in (0, 1)]
            for browser in browsers:
                assert [browser.judge(id).status for id in found.ids] == [303, 303]
            line = (f"pearl: Row 1 of review_verdicts is no verdict, and is left out: annotator 1 "
                    f"on plan {found.ids[0]}.")  # fmt: skip
            was = changed.execute(f"SELECT {columns} FROM review_verdicts WHERE id = 1").fetchone()
            mend = f"UPDATE review_verdicts SET ({columns}) = (?, ?, ?, ?, ?) WHERE id = 1"
            for change in changes:
                changed.execute(mend, was)
                changed.execute(f"UPDATE review_verdicts SET {change} WHERE id = 1")
                changed.commit()
                for browser in browsers:
                    for path in ("/", "/agreement", f"/plan/{found.ids[0]}"):
                        assert browser.get(path).status == 200, change
                done = call("review", "export", "--json", "--store", store)
                assert (len(done.json), done.err.splitlines()[0]) == (3, line), change
                done = call("review", "agreement", "--store", store)
                assert (done.code, done.err.splitlines()) == (0, [line]), change
            # Whoever gave it may judge the plan anew.
            assert browsers[0].judge(found.ids[0], "no").status == 303
            assert len(call("review", "export", "--json", "--store", store).json) == 4

    def test_help_says_what_there_is(self):
        for words in (("--help",), ("export", "--help"), ("agreement", "--help")):
            found = call("review", *words)
            assert found.code == 0
            assert f"pearl review {words[0]}".replace(" --help", "") in found.out
            assert "Example:" in found.out

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (("--no-tokens", "--host", "0.0.0.0"), "a link with a token"),
            (("--annotators", "0"), "from 1 to"),
            (("--annotators", "101"), "from 1 to"),
            (("--annotators", "-1"), "from 1 to"),
            (("--annotators", "1e9"), "from 1 to"),
            (("--annotators", "²"), "from 1 to"),
            (("--annotators", "9" * 5000), "from 1 to"),
            (("--name", "http://x"), "http://x is no host's name"),
            (("--name", "x:8800"), "is no host's name"),
            (("--name", "two words"), "is no host's name"),
            (("--name", ""), "is no host's name"),
            (("--annotators", "a,A"), "names one twice"),
            (("--annotators", "a,,b"), "A name has"),
            (("--demos", "nowhere"), "--demos"),
            (("--documents", "nowhere"), "--documents"),
            (("--host", "203.0.113.7"), "cannot be listened on"),
        ],
    )
    def test_what_is_refused_at_the_start(self, words: tuple[str, ...], says: str):
        Path("a.plan").write_text(GOOD, encoding="utf-8")
        assert says in one_line(call("review", "a.plan", "--port", "0", *words), 2)

    def test_a_port_that_is_taken(self):
        Path("a.plan").write_text(GOOD, encoding="utf-8")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            assert "in use" in one_line(call("review", "a.plan", "--port", port), 2)

    @pytest.mark.parametrize("name", ["starlette", "uvicorn", "nltk"])
    def test_an_extra_that_is_missing(self, name: str, monkeypatch: pytest.MonkeyPatch):
        def without(one: str, *more: Any) -> Any:
            return None if one == name else real(one, *more)

        real = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", without)
        Path("a.plan").write_text(GOOD, encoding="utf-8")
        line = one_line(call("review", "a.plan", "--port", "0"), 2)
        assert line == f"pearl review needs {name}: {install_command('review')}."

    def test_agreement_without_the_library_that_counts_it(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setitem(sys.modules, "nltk.metrics.agreement", None)
        with pytest.raises(InputError, match=re.escape(install_command("review"))):
            agreement({"a": {1: "yes", 2: "no"}})
