"""The store: who makes a call, what is kept of it, and what is read back; on either database."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, insert, inspect, select, update

from pearl.jobs.progress import uninterrupted
from pearl.jobs.workers import JobProgress, RowsFile, Task, WorkerPool
from pearl.lang.errors import InputError
from pearl.models.base import ModelError, Reply, Request, Usage
from pearl.models.middleware.budget import Amount, Ceiling
from pearl.models.middleware.stack import start_engine
from pearl.models.recorded import load_recording
from pearl.models.routing import choose_model
from pearl.runtime.calls import Entry
from pearl.runtime.context import UNLIMITED
from pearl.store import cache, history, statements
from pearl.store.database import (
    DisplacedError,
    StoreError,
    is_dead,
    new_owner,
    open_database,
    writing,
)
from pearl.store.history import (
    RowCounts,
    RowKey,
    count_rows,
    find_run,
    latest,
    list_runs,
    read_entries,
    read_row_keys,
    read_rows,
    since_last_start,
)
from pearl.store.statements import renew
from pearl.store.store import Store, StoreLedger, open_store
from pearl.store.tables import entries, leases, replies, rows, runs
from pearl.store.totals import mean_seconds, totals
from pearl.store.writer import LOOK, LoopWriter
from tests.forks import Fork
from tests.runs import back_to_first_version
from tests.shell import call, write_rows

pytest_plugins = ["tests.postgres"]

ROOT = Path(__file__).parent.parent
KEYS = 60
ODD = "NUL \0, half of 😀: \ud83d, a line\nand a tab\t"
STORED = "NUL \ufffd, half of 😀: ?, a line\nand a tab\t"


@contextmanager
def opened(place: str, count: int = 1) -> Iterator[Any]:
    """One store, or as many as processes would have."""
    with ExitStack() as stack:
        found = [open_store(place) for _ in range(count)]
        for one in found:
            stack.callback(one.close)
        yield found[0] if count == 1 else found


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def play(place: str, scenario: Callable[..., Coroutine[Any, Any, Any]], stores: int = 1) -> None:
    """Run a scenario with as many stores as it takes, each as a process would have it."""
    with ExitStack() as stack:
        run(scenario(*(stack.enter_context(opened(place)) for _ in range(stores))))


async def kept(store: Store, key: str, text: str = "said", scope: str = "") -> None:
    """Claim a call and keep its reply."""
    assert await store.claim(scope, key) is True
    store.put(scope, key, Reply(text, Usage(9, 3, 1)), "m", "model m")
    await store.flush()


async def written(store: Store, name: str, *found: Entry, item: str = "") -> None:
    journal = store.journal(name, item)
    for one in found:
        journal.record(one)
    await journal.flush()


def row(run: str, id: str, position: int = 0, **more: Any) -> dict[str, Any]:
    """The row of a question that was answered, and is not judged, but for what is told."""
    usual = {"row_key": "", "status": "answered", "correct": None, "score": None, "result": "{}"}
    return {"run": run, "id": id, "position": position, **usual, **more}


def count(place: str | Store, table: Any) -> int:
    engine = place.engine if isinstance(place, Store) else open_database(place)
    with engine.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def script(text: str, *args: str, **more: Any) -> subprocess.Popen[str]:
    """A process of its own that uses the store."""
    words = [sys.executable, "-c", text, *args]
    return Fork(words, stdout=subprocess.PIPE, text=True, **more)


def test_questions_without_calls_do_not_run_ahead_of_their_rows(place: str):
    async def work(task: Task[None], _: Any) -> dict[str, Any]:
        return {"id": task.id, "status": "answered"}

    async def scenario(store: Store) -> None:
        taken, done, ahead = list[str](), list[str](), list[int]()

        def tasks() -> Iterator[Task[None]]:
            for at in range(100):
                taken.append(str(at))
                yield Task(str(at), at, "key", "", None)

        def tell(row: dict[str, Any]) -> None:
            done.append(row["id"])
            ahead.append(len(taken) - len(done))

        engine = start_engine(choose_model("offline"), store)
        progress = JobProgress(store.start("batch", {}), 100)
        await WorkerPool(work, UNLIMITED, engine, store, 2, progress).do_all(tasks(), tell)
        assert sorted(done) == sorted(taken)
        assert max(ahead) <= 4

    play(place, scenario)


class TestClaims:
    def test_a_call_is_claimed_by_one_and_answered_to_the_others(self, place: str):
        async def scenario(one: Store, two: Store) -> None:
            assert await one.claim("", "k") is True
            assert await two.claim("", "k") is False
            one.put("", "k", Reply("cut o", Usage(9, 1, 1), complete=False), "m", "model m")
            await one.flush()
            # A reply that was cut off is in the journal's books, and answers nobody.
            assert await two.claim("", "k") is True
            two.put("", "k", Reply("said", Usage(9, 3, 1)), "m", "model m")
            await two.flush()
            told = Reply("said", Usage(9, 3, 1), kept=True)
            assert await two.claim("", "k") == told
            assert await one.claim("", "k") == told

        with opened(place, 2) as stores:
            run(scenario(*stores))
            assert count(stores[0], leases) == 0

    def test_however_many_calls_are_looked_up_few_queries_are_compiled(
        self, place: str, monkeypatch: pytest.MonkeyPatch
    ):
        sizes = set[int]()

        def looking_up(size: int) -> Any:
            sizes.add(size)
            return query(size)

        async def scenario(store: Store) -> None:
            for at in range(20):
                await kept(store, f"k{at}")
            for most in range(1, 21):
                claims = [store.claim("", f"k{at}") for at in range(most)]
                assert await asyncio.gather(*claims) == [told] * most

        told, query = Reply("said", Usage(9, 3, 1), kept=True), statements._looking_up
        monkeypatch.setattr(statements, "_looking_up", looking_up)
        play(place, scenario)
        assert sizes == {1, 2, 4, 8, 16, 32}

    def test_a_call_that_is_given_up_is_free(self, place: str):
        async def scenario(one: Store, two: Store) -> None:
            assert await one.claim("", "k") is True
            one.release("", "k")
            await one.flush()
            assert await two.claim("", "k") is True
            # It is no longer the first one's to give up.
            one.release("", "k")
            await one.flush()
            assert await one.claim("", "k") is False

        play(place, scenario, 2)

    def test_a_store_that_closes_gives_up_its_calls(self, place: str):
        with opened(place) as one:
            assert run(one.claim("", "k")) is True
        with opened(place) as two:
            assert run(two.claim("", "k")) is True

    def test_many_claims_at_once_keep_their_order(self, place: str):
        async def scenario(one: Store, two: Store) -> None:
            await kept(one, "b", "said b")
            assert await two.claim("", "c") is True
            found = await asyncio.gather(*(one.claim("", key) for key in "dcba"))
            texts = [item if isinstance(item, bool) else item.text for item in found]
            assert texts == [True, False, "said b", True]

        play(place, scenario, 2)

    def test_a_dead_process_s_calls_are_taken_over(self, place: str):
        dying = script(
            "import asyncio, os, sys\n"
            "from pearl.store.store import open_store\n"
            "store = open_store(sys.argv[1])\n"
            "print(asyncio.run(store.claim('', 'k')), flush=True)\n"
            "sys.stdin.read()",
            place,
        )
        assert dying.stdout is not None
        with opened(place, 2) as (one, two):
            assert dying.stdout.readline() == "True\n"
            assert run(one.claim("", "k")) is False or dying.poll() is not None
            dying.kill()
            # Not waited for: it is a zombie, and dead all the same.
            while dying.poll() is None:
                time.sleep(0.01)
            assert run(one.claim("", "k")) is True
            assert run(two.claim("", "k")) is False
        dying.communicate()

    @pytest.mark.parametrize(("age", "taken"), [(1.0, True), (-30.0, False), (-3e7, True)])
    def test_another_machine_s_calls_are_taken_over_when_their_time_is_up(
        self, place: str, age: float, taken: bool
    ):
        with opened(place) as one:
            lease = {"scope": "", "key": "k", "owner": "elsewhere:1:1:ab"}
            with one.engine.begin() as connection:
                connection.execute(insert(leases), {**lease, "expires": time.time() - age})
            assert run(one.claim("", "k")) is taken

    def test_a_living_process_renews_its_calls_and_runs(self, place: str):
        with opened(place) as one:
            name = one.start("batch", {})
            assert run(one.claim("", "k")) is True
            with one.engine.begin() as connection:
                connection.execute(update(leases).values(expires=5.0))
                connection.execute(update(runs).values(seen=5.0))
                renew(connection, [one.owner, one.owner])
            with one.engine.connect() as connection:
                assert connection.execute(select(leases.c.expires)).scalar_one() > time.time()
                assert connection.execute(select(runs.c.seen)).scalar_one() > time.time() - 60
            assert find_run(one.engine, name, place, time.time()).alive

    def test_what_a_run_took_leaves_out_the_time_between_its_goes(self, place: str):
        def move(store: Store, **times: float) -> None:
            with store.engine.begin() as connection:
                connection.execute(update(runs).values(times))

        with opened(place) as store:
            name = store.start("batch", {})
            store.end(name)
            run(store.flush())
            move(store, started=1000.0, ended=1002.0)
            store.resume(name, {})
            run(store.flush())
            # This go is broken off, and was last heard of after three seconds.
            move(store, resumed=2000.0, seen=2003.0)
            store.resume(name, {})
            run(store.flush())
            assert find_run(store.engine, name, place, time.time()).seconds is None
            store.end(name)
            run(store.flush())
            move(store, resumed=3000.0, ended=3004.0)
            assert find_run(store.engine, name, place, time.time()).seconds == 9.0

    def test_scopes_keep_apart(self, place: str):
        async def scenario(store: Store) -> None:
            await kept(store, "k", "in common")
            await kept(store, "k", "its own", scope="run-1")
            for scope, text in (("", "in common"), ("run-1", "its own")):
                found = await store.claim(scope, "k")
                assert isinstance(found, Reply)
                assert found.text == text
            assert await store.claim("run-2", "k") is True

        play(place, scenario)

    def test_the_first_reply_stands(self, place: str):
        async def scenario(store: Store) -> None:
            await kept(store, "k", "first")
            for _ in range(2):
                store.put("", "k", Reply("later"), "m", "model m")
                await store.flush()
            found = await store.claim("", "k")
            assert isinstance(found, Reply)
            assert found.text == "first"

        play(place, scenario)

    def test_processes_that_want_the_same_calls_make_each_once(self, place: str):
        with opened(place):
            pass
        working = [script(WANT_ALL, place, str(KEYS), str(seed)) for seed in range(3)]
        made = [one.communicate()[0].split() for one in working]
        assert [one.returncode for one in working] == [0, 0, 0]
        assert sorted(key for keys in made for key in keys) == sorted(map(str, range(KEYS)))


WANT_ALL = """
import asyncio, random, sys
from pearl.models.base import Reply
from pearl.store.store import open_store

async def want(store, key):
    while True:
        found = await store.claim("", key)
        if isinstance(found, Reply):
            assert found.text == f"said {key}"
            return
        if found:
            # Some calls fail, and are anybody's again.
            await asyncio.sleep(random.uniform(0, 0.01))
            if random.random() < 0.2:
                store.release("", key)
                continue
            print(key)
            store.put("", key, Reply(f"said {key}"), "m", "m")
            await store.flush()
            return
        await asyncio.sleep(0.002)

async def main(store, keys):
    random.shuffle(keys)
    waiting = iter(keys)
    async def some():
        for key in waiting:
            await want(store, key)
    await asyncio.gather(*(some() for _ in range(20)))

random.seed(sys.argv[3])
store = open_store(sys.argv[1])
asyncio.run(main(store, [str(at) for at in range(int(sys.argv[2]))]))
store.close()
"""


class TestTexts:
    def test_every_text_comes_back_as_it_was_used(self, place: str):
        texts = {"odd": ODD, "long": "ä€😀\n" * 250_000, "empty": "", "plain": "said"}

        async def scenario(store: Store) -> None:
            for key, text in texts.items():
                assert await store.claim("", key) is True
                used = store.put("", key, Reply(text), "m", ODD)
                await store.flush()
                found = await store.claim("", key)
                assert isinstance(found, Reply)
                assert found.text == used.text == (STORED if key == "odd" else text)

        play(place, scenario)

    def test_a_journal_s_values_and_causes(self, place: str):
        with opened(place) as store:
            name = store.start("ask", {"question": ODD})
            run(written(
                store, name,
                Entry("decision", f"value/{ODD}", ["long " * 200_000, "\0"]),
                Entry("call", "step/a", None, "k", 2, "failed", ODD),
            ))  # fmt: skip
            found = find_run(store.engine, "last", place, time.time())
            first, second = read_entries(store.engine, found)
        assert found.head == {"question": STORED.replace("\ufffd", "\0")}
        assert first.path == f"value/{STORED}"
        assert first.value == ["long " * 200_000, "\0"]
        assert (second.cause, second.attempt, second.value) == (STORED, 2, None)


class TestHistory:
    def test_totals_are_what_was_sent(self, place: str):
        used = Usage(100, 10, 40)
        made = Entry("call", "step/a", "said", "a", usage=used, seconds=1.5)
        again = Entry("call", "step/b", "said", "b", usage=used, seconds=0.0, kept=True)
        vain = Entry("call", "step/c", None, "c", 1, "failed", "reply: empty", Usage(7, 1, 0), 0.5)
        with opened(place) as store:
            name, other = store.start("batch", {}), store.start("batch", {})
            run(written(store, name, made, again, vain, Entry("decision", "answer", 1), item="q1"))
            run(written(store, name, made, vain, vain, item="q2"))
            run(written(store, other, made))
            whole, one = totals(store.engine, name), totals(store.engine, name, "q1")
            assert totals(store.engine, "none").made == 0
        assert (whole.made, whole.kept, whole.failed) == (2, 1, 3)
        assert (whole.spent, whole.saved) == (Usage(221, 23, 80), used)
        assert whole.seconds == 3.0
        assert (one.made, one.kept, one.failed, one.spent) == (1, 1, 1, Usage(107, 11, 40))

    def test_a_journal_in_order_by_question(self, place: str):
        with opened(place) as store:
            name = store.start("batch", {})
            run(kept(store, "a", "what a said"))
            for item in ("q1", "q2", "q1"):
                head = Entry("decision", "run", item)
                run(written(store, name, head, Entry("call", "step/a", "?", "a"), item=item))
            found = find_run(store.engine, name, place, time.time())
            whole = list(read_entries(store.engine, found, None))
            own = list(read_entries(store.engine, found, "q1"))
        assert [entry.value for entry in whole[::2]] == ["q1", "q2", "q1"]
        assert {entry.value for entry in whole[1::2]} == {"what a said"}
        assert len(own) == 4
        assert since_last_start(own) == own[2:]

    def test_rows_are_in_the_order_of_the_questions(self, place: str):
        with opened(place) as store:
            for name, position in (("c", 2), ("b", 1), ("d", 3)):
                store.put_row(row("r", name, position))
            for status, answer in (("failed", "first"), ("answered", "later")):
                result = json.dumps({"id": "a", "answer": answer})
                store.put_row(row("r", "a", row_key="key of a", status=status, result=result))
            store.move_row("r", "d", -1)
            store.drop_row("r", "c")
            store.put_row(row("another", "a"))
            run(store.flush())
            found = list(read_rows(store.engine, "r"))
            keys = read_row_keys(store.engine, "r")
            some = list(read_rows(store.engine, "r", ["a", "d"], "answered"))
        assert [name for name, _ in found] == ["d", "a", "b"]
        assert [name for name, _ in some] == ["d", "a"]
        assert found[1][1] == {"id": "a", "answer": "later"}
        assert keys["a"] == RowKey("key of a", 0, "answered")

    def test_what_a_method_of_several_came_to(self, place: str):
        with opened(place) as store:
            for at, name in enumerate(("pearl/1", "pearl/2", "pearl@5/1", "Pearl/1", "p_arl/1")):
                score = (0.25, None)[at] if at < 2 else 0.5
                store.put_row(row("r", name, at, correct=at == 1, score=score))
                store.journal("r", name).record(Entry("call", "map", "x", name))
            run(store.flush())
            assert count_rows(store.engine, ["r"], "pearl") == {"r": RowCounts(2, 2, 2, 1, 1.25)}
            assert count_rows(store.engine, ["r"], "p_arl") == {"r": RowCounts(1, 1, 1, 0, 0.5)}
            assert totals(store.engine, "r", method="pearl").made == 2
            assert totals(store.engine, "r").made == 5

    def test_runs_are_found_by_name_and_by_work(self, place: str):
        with opened(place) as store:
            first = store.start("batch", {"count": 1}, "same")
            store.end(first)
            second = store.start("batch", {"count": 2}, "same")
            run(store.flush())
            now = time.time()
            # What is still at work is not gone on with; what has ended may be.
            assert latest(store.engine, "same", now).name == first
            assert latest(store.engine, "other", now) is None
            assert find_run(store.engine, second[:-1], place, now).head == {"count": 2}
            assert {one.name for one in list_runs(store.engine, now)} == {first, second}
            assert len(list_runs(store.engine, now, 1)) == 1
            history.tag_run(store.engine, first, ["paper", "both"])
            history.tag_run(store.engine, second, ["both", first])
            assert find_run(store.engine, "paper", place, now).name == first
            assert find_run(store.engine, first, place, now).name == first
            wrong = {"nosuch": "No run is named", first[:4]: "names several", "both": "of one"}
            for name, said in wrong.items():
                with pytest.raises(InputError, match=said):
                    find_run(store.engine, name, place, now)
        with opened(place) as store:
            assert latest(store.engine, "same", time.time()).name in (first, second)

    def test_runs_are_found_by_words_kind_tag_status_and_share(self, place: str):
        with opened(place) as store:
            heads = [{"question": 'Why does "Änne" leave?'}, {"count": 4}, {"count": 2}, {}]
            names = [store.start(kind, heads[at], "") for at, kind in enumerate("abba")]
            run(store.flush())
            with store.engine.begin() as connection:
                for at, name in enumerate(names):
                    moved = {"started": float(at), "owner": "" if at == 2 else store.owner}
                    connection.execute(update(runs).where(runs.c.id == name).values(moved))
            for at, right in enumerate((True, True, False, None)):
                status, score = ("failed" if at == 2 else "answered"), (1.0, 1.0, 0.25, None)[at]
                store.put_row(row(names[1], str(at), at, status=status, correct=right, score=score))
            store.end(names[0])
            run(store.flush())
            engine, now = store.engine, time.time()
            history.tag_run(engine, names[1], ["base  line", "x"])
            history.tag_run(engine, names[1], ["base line"])
            history.tag_run(engine, names[1], ["x"], off=True)
            for wrong in ("", "x" * 61):
                with pytest.raises(InputError, match="is no tag"):
                    history.tag_run(engine, names[0], [wrong])

            def found(**wanted: Any) -> str:
                some = list_runs(engine, now, 3, history.RunFilter(**wanted))
                return "".join(str(names.index(one.name)) for one in some)

            assert found() == "321"
            assert found(before=(1.0, names[1])) == "0"
            assert found(kind="b") == "21"
            assert found(tag="base line") == found(words=("BASE",)) == "1"
            assert found(words=('"Änne"', "why")) == found(status="ended") == "0"
            assert found(words=("äNNE",)) == "0"
            assert found(words=("%",)) == found(tag="x") == ""
            assert found(status="running") == "31"
            assert found(status="stopped") == "2"
            assert found(least=0.7) == found(most=0.8) == "1"
            assert found(least=0.8) == ""
            counts = history.count_rows(engine, names)
            assert counts == {names[1]: history.RowCounts(4, 3, 3, 2, 2.25)}
            assert history.read_tags(engine, names[:2]) == {names[0]: [], names[1]: ["base line"]}
            assert history.in_use(engine) == (["a", "b"], ["base line"])

    def test_how_long_calls_take_and_how_long_without_waiting_for_each_other(self, place: str):
        with opened(place) as store:
            name = store.start("ask", {})
            run(kept(store, "a"))
            call = Entry("call", "step/a", "said", "a")
            both = [call._replace(seconds=took, started=10.0) for took in (5.0, 2.0)]
            last = call._replace(seconds=2.0, started=20.0)
            run(written(store, name, *both, last, call._replace(kept=True)))
            assert mean_seconds(store.engine, "m") == 3.0
            # Of the first five two were spent waiting.
            assert mean_seconds(store.engine, "m", alone=True) == 7.0 / 3
            assert mean_seconds(store.engine, "another") is None
            assert mean_seconds(store.engine, "another", alone=True) is None


class TestCache:
    def filled(self, store: Store) -> tuple[str, str]:
        """An old run and a new one, which have a call in common, and a call of nobody's."""
        old, new = store.start("ask", {}), store.start("batch", {})
        for key in ("old", "both", "new", "nobody"):
            run(kept(store, key, f"said {key}"))
        for name, keys in ((old, ("old", "both")), (new, ("both", "new"))):
            calls = [Entry("call", f"step/{key}", "", key) for key in keys]
            run(written(store, name, *calls, item="q"))
        store.put_row(row(old, "q"))
        run(store.flush())
        with store.engine.begin() as connection:
            connection.execute(update(runs).where(runs.c.id == old).values(seen=100.0, owner=""))
            connection.execute(update(replies).values(created=100.0))
            lease = {"scope": "", "key": "lost", "owner": "elsewhere:1:1:ab", "expires": 100.0}
            connection.execute(insert(leases), lease)
        return old, new

    def test_pruning_leaves_what_a_journal_needs(self, place: str):
        with opened(place) as store:
            _, new = self.filled(store)
            assert cache.prune(store.engine, 50.0) == (0, 0)
            assert cache.prune(store.engine, 1000.0) == (1, 2)
            assert [one.name for one in list_runs(store.engine, time.time())] == [new]
            found = find_run(store.engine, new, place, time.time())
            values = [entry.value for entry in read_entries(store.engine, found, None)]
            assert values == ["said both", "said new"]
            assert (count(store, rows), count(store, entries), count(store, leases)) == (0, 2, 0)
            # The store works on.
            run(kept(store, "old"))

    def test_a_run_at_work_is_not_pruned(self, place: str):
        with opened(place) as store:
            name = store.start("batch", {})
            run(kept(store, "k"))
            run(written(store, name, Entry("call", "step/a", "", "k")))
            run(kept(store, "not in the journal yet"))
            budget = StoreLedger(store, name, Ceiling(tokens=10))
            budget.open(Amount(4))
            run(store.flush())
            # No sign of life has come for long, as after a suspend.
            with store.engine.begin() as connection:
                connection.execute(update(runs).values(seen=5.0))
            assert cache.prune(store.engine, time.time() + 1) == (0, 0)
            assert run(budget.spent()) == Amount(4)
            store.end(name)
            run(store.flush())
            assert cache.prune(store.engine, time.time() + 1) == (1, 2)

    def test_stats(self, place: str):
        with opened(place) as store:
            self.filled(store)
            found = cache.stats(store.engine)
        assert found.models == (cache.ModelStats("m", 4, 8 + 9 + 8 + 11, 36, 12),)
        assert (found.runs, found.entries, found.saved) == (2, 4, 0)
        assert found.size > 10_000

    def test_what_is_exported_answers_again(self, place: str, tmp_path: Path):
        with opened(place) as store:
            old, _ = self.filled(store)
            own = store.start("ask", {}, own=True)
            run(kept(store, "both", "its own", scope=own))
            run(written(store, own, Entry("call", "step/both", "", "both")))
            whole = list(cache.export(store.engine))
            some = list(cache.export(store.engine, old))
            apart = list(cache.export(store.engine, own))
        assert len(whole) == 5
        assert {one["key"]: one["text"] for one in some} == {
            "old": "said old", "both": "said both",
        }  # fmt: skip
        assert [one["text"] for one in apart] == ["its own"]
        assert some[0]["usage"] == {
            "prompt_tokens": 9, "completion_tokens": 3, "cached_tokens": 1,
        }  # fmt: skip
        model = load_recording(write_rows(tmp_path / "replies.jsonl", *some))
        assert model.identity == "model m"
        request = Request(None, (), "step/x", "both")  # type: ignore[arg-type]
        assert run(model.answer(request)).text == "said both"


class TestDatabase:
    def test_processes_may_open_a_fresh_store_at_once(self, place: str):
        opening = [script(OPEN, place) for _ in range(3)]
        assert [one.communicate()[0] for one in opening] == ["opened\n"] * 3
        assert count(place, runs) == 3

    def test_threads_may_open_a_fresh_store_at_once(self, place: str, tmp_path: Path):
        """Many times over, as the moment in which it goes wrong is short."""
        places = [place, *(str(tmp_path / f"{at}.db") for at in range(3))]
        failed: list[InputError] = []

        def work(one: str, barrier: threading.Barrier) -> None:
            barrier.wait()
            try:
                with opened(one) as store:
                    store.start("ask", {})
            except InputError as error:
                failed.append(error)

        for one in places:
            barrier = threading.Barrier(4)
            threads = [threading.Thread(target=work, args=(one, barrier)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert count(one, runs) == 4
        assert not failed

    def test_who_reads_stands_in_no_writer_s_way(self, place: str):
        with opened(place, 2) as (store, other):
            name = store.start("batch", {})
            lines = [Entry("decision", f"value/{at}", "x" * 200) for at in range(3000)]
            run(written(store, name, *lines))
            found = find_run(store.engine, name, place, time.time())
            reading = read_entries(store.engine, found)
            assert next(reading).path == "value/0"
            for one in (store, other):
                run(kept(one, secrets.token_hex(4)))
                run(written(one, name, Entry("decision", "later", 1)))
            # It sees the journal as it was when it began.
            assert [entry.path for entry in reading] == [f"value/{at}" for at in range(1, 3000)]
            assert len(list(read_entries(store.engine, found))) == 3002

    def test_a_store_outlives_its_event_loops(self, place: str):
        with opened(place) as store:
            name = store.start("ask", {})

            async def leaves_work_behind(number: int) -> None:
                store.journal(name).decide(f"value/{number}", number)

            for number in range(3):
                run(leaves_work_behind(number))
                run(asyncio.wait_for(kept(store, f"k{number}"), 60))
            run(leaves_work_behind(3))
            store.end(name)
        assert (count(place, entries), count(place, replies)) == (4, 3)

    def test_a_store_of_a_later_pearl_is_left_alone(self, place: str):
        engine = open_database(place)
        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE pearl_version SET version_num = '9999'")
        engine.dispose()
        with pytest.raises(InputError, match="later Pearl .*9999.*: upgrade Pearl, or name an"):
            open_database(place)

    def test_a_database_that_is_not_there(self, place: str, tmp_path: Path):
        nowhere = place.rpartition("/")[0] + "/no_such" if "://" in place else str(tmp_path)
        with pytest.raises(InputError) as error:
            open_database(nowhere)
        assert "\n" not in str(error.value)

    def test_a_file_that_is_no_store(self, tmp_path: Path):
        (tmp_path / "notes.txt").write_text("Not a database at all, and long enough. " * 50)
        with pytest.raises(InputError, match="cannot be used: file is not a database"):
            open_database(str(tmp_path / "notes.txt"))

    def test_a_server_that_goes_away_is_told_in_one_line(self, database: str):
        """Whoever waits learns of it, and nothing hangs."""
        with opened(database) as store, opened(database) as other:
            run(kept(store, "k"))
            name = database.rpartition("/")[2]
            end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s "
            with other.engine.begin() as connection:
                connection.exec_driver_sql(end + "AND pid <> pg_backend_pid()", (name,))
            # A connection that was cut while it lay idle is made anew.
            run(kept(store, "another"))
            with other.engine.begin() as connection:
                connection.exec_driver_sql("DROP TABLE leases")
            with pytest.raises(ModelError, match="The store cannot be written: ") as error:
                run(store.claim("", "third"))
            assert error.value.reason == "store"
            assert "\n" not in str(error.value)
        with pytest.raises(InputError, match=r"failed: Connection refused\.$"):
            open_database("postgresql+psycopg://nobody@127.0.0.1:1/nothing")

    def test_a_lock_on_a_server_is_not_waited_for_without_end(
        self, database: str, monkeypatch: pytest.MonkeyPatch
    ):
        """As somebody holds one who changes the tables: else pages would never come."""
        from sqlalchemy import text

        monkeypatch.setattr("pearl.store.database.BUSY", 0.2)
        with opened(database) as store, opened(database) as other:
            with other.engine.begin() as connection:
                connection.execute(text("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE"))
                with pytest.raises(StoreError, match="cannot be used: .*lock timeout"):
                    list_runs(store.engine, 0)
            assert list_runs(store.engine, 0) == []

    def test_a_server_that_falls_silent_is_not_waited_for(
        self, database: str, monkeypatch: pytest.MonkeyPatch
    ):
        """As one does whose network is gone: else neither Ctrl-C would end a job."""
        monkeypatch.setattr("pearl.store.writer.SILENT", 0.3)
        with opened(database) as store:
            run(kept(store, "k"))
            with store.engine.begin() as connection:
                pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            os.kill(pid, signal.SIGSTOP)
            try:
                for key in ("another", "third"):
                    with pytest.raises(ModelError, match="has not answered for") as error:
                        run(asyncio.wait_for(store.claim("", key), 30))
                    assert error.value.reason == "store"
                closing_it = threading.Thread(target=store.close, daemon=True)
                closing_it.start()
                closing_it.join(30)
                assert not closing_it.is_alive()
            finally:
                os.kill(pid, signal.SIGCONT)

    def test_what_the_driver_logs_is_not_printed(self, database: str):
        """It warns of statements that were cut off, and the transaction is made again."""
        # No fork of this process, as pytest takes what is logged.
        words = [sys.executable, "-c", CUT_OFF, database]
        done = subprocess.run(words, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")


CUT_OFF = """
import asyncio, sys
from sqlalchemy import text
from pearl.store.store import open_store

store, tries = open_store(sys.argv[1]), []

def work(connection, changes):
    tries.append(connection.connection.dbapi_connection.info.backend_pid)
    if len(tries) == 1:
        with store.engine.connect() as other:
            end = text("SELECT pg_terminate_backend(:pid, 60000)")
            assert other.execute(end, {"pid": tries[0]}).scalar()
    connection.connection.cursor().executemany("SELECT %s", [(1,), (2,)])

asyncio.run(store.writer.ask(work, None))
store.close()
print(len(tries))
"""


class TestEarlierVersion:
    """A store that an earlier Pearl has filled: an ask, two batches, an evaluation, a review."""

    @pytest.fixture(params=["0004", "0001"])
    def earlier(self, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
        place = tmp_path / f"{request.param}.db"
        with closing(sqlite3.connect(place)) as database:
            database.executescript((ROOT / "tests/data/store-0004.sql").read_text("utf-8"))
            if request.param == "0001":
                back_to_first_version(database)
        return place

    def test_its_tables_are_those_of_a_fresh_one(self, earlier: Path, place: str):
        def tables(place: str) -> dict[str, Any]:
            found = inspect(open_database(place))
            return {
                name: (
                    [(one["name"], str(one["type"]), one["nullable"]) for one in columns],
                    [(one["name"], one["column_names"]) for one in found.get_indexes(name)],
                    found.get_pk_constraint(name)["constrained_columns"],
                )
                for name in found.get_table_names()
                if (columns := found.get_columns(name)) and name != "pearl_version"
            }

        assert tables(str(earlier)) == tables(str(earlier.with_name("fresh.db")))
        assert tables(place).keys() == tables(str(earlier)).keys()

    def test_scores_in_parts_of_before_there_was_a_column(self, place: str):
        with opened(place) as store:
            for at, score in enumerate((0.0, 0.75, 1.0, 1e-05)):
                right, result = score == 1, {"id": '\0"score": 0.5', "score": score}
                told = json.dumps({"correct": right, "result": result})
                store.put_row(row("r", str(at), at, correct=right, result=told))
            run(store.flush())
            with store.engine.begin() as connection:
                for change in ("DROP INDEX rows_by_result", "ALTER TABLE rows DROP COLUMN score",
                               "ALTER TABLE runs DROP COLUMN resumed",
                               "ALTER TABLE runs DROP COLUMN earlier_seconds",
                               "UPDATE pearl_version SET version_num = '0015'"):  # fmt: skip
                    connection.exec_driver_sql(change)
        with opened(place) as store:
            assert count_rows(store.engine, ["r"]) == {"r": RowCounts(4, 4, 4, 1, 1.75001)}

    def test_every_command_reads_it(self, earlier: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("PEARL_STORE", str(earlier))

        def read(*words: str) -> Any:
            result = call(*words)
            assert result.code == 0, result.err
            return result.json if "--json" in words else result.out

        names = [one["run"] for one in reversed(read("runs", "--json"))]
        ask, batch, evaluation, again = names
        assert "Mara kept the lighthouse" in read("runs", "show", ask)
        assert [row["id"] for row in read("runs", "show", batch, "--json")["rows"]] == ["a", "b"]
        assert read("runs", "diff", batch, again, "--json")["different"] == []
        counts = history.count_rows(open_database(str(earlier)), names)
        assert [(one.rows, one.judged, one.right, one.mean) for one in counts.values()] == [
            (2, 1, 1, 1.0), (2, 2, 2, 1.0), (2, 1, 1, 1.0),
        ]  # fmt: skip
        assert read("runs", "tag", ask, "mara", "old", "--json")["tags"] == ["mara", "old"]
        assert [one["run"] for one in read("runs", "--tag", "mara", "--json")] == [ask]
        assert read("runs", "--tag", "x") == "No run is called x: pearl runs lists them all.\n"
        assert "[mara] [old] " in read("runs")
        assert read("runs", "tag", ask, "old", "mara", "--off") == f"{ask}: no tags\n"
        assert read("trace", ask).startswith("# trace of run ")
        read("runs", "show", f"{batch}/b", "--html", "page.html")
        page = Path("page.html").read_text("utf-8")
        for shown in ("Who met Mara", "3 made, 0 cached, 0 failed", "1 call, 9.72 s"):
            assert shown in page
        # The first Pearl did not write down when a call began.
        assert ("When calls began is not known" in page) is (earlier.stem == "0001")
        (model,) = read("cache", "stats", "--json")["models"]
        read("cache", "export", "-o", "replies.jsonl")
        assert len(Path("replies.jsonl").read_text("utf-8").splitlines()) == model["replies"] > 0
        assert read("report", evaluation, "--json")

    def test_a_review_goes_on(self, earlier: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("PEARL_STORE", str(earlier))
        verdicts = call("review", "export", "--json")
        with closing(sqlite3.connect(earlier)) as database:
            count = database.execute("SELECT count(*) FROM review_verdicts").fetchone()[0]
        assert len(verdicts.json) == count, verdicts.err


OPEN = """
import sys
from pearl.store.store import open_store
store = open_store(sys.argv[1])
store.start("ask", {})
store.close()
print("opened")
"""

LIMITED = """
import ctypes, os, resource, sys
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
if not os.geteuid():
    # Root without CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, so that a file's mode counts.
    libc, head, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)()
    assert not libc.capget(head, sets)
    sets[0] &= ~0b110
    assert not libc.capset(head, sets)
from pearl.cli import main
main()
"""
"""A file that may not grow is what a full disk is, and needs no disk."""


def pearl(folder: Path, *words: str, limit: int = -1) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own that heeds modes; its files may not outgrow a limit."""
    line = [sys.executable, "-c", LIMITED, str(limit), *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with Fork(line, cwd=folder, **pipes) as child:
        out, err = child.communicate(timeout=60)
    return subprocess.CompletedProcess(line, child.returncode, out, err)


def told(done: subprocess.CompletedProcess[str], code: int) -> str:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


class TestDisk:
    def questions(self, folder: Path, number: int = 12) -> None:
        (folder / "a.txt").write_text("Mara left the lighthouse, as the Fund had closed it. " * 50)
        row = {"question": "Why does Mara leave the lighthouse?", "document": "a.txt"}
        write_rows(folder / "q.jsonl", *({**row, "id": str(at)} for at in range(number)))

    def test_a_long_log_is_moved_into_the_file_long_before_sqlite_would(self, tmp_path: Path):
        def fill(connection: Connection, _: list[Any]) -> list[Any]:
            connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS filler (data BLOB)")
            connection.exec_driver_sql("INSERT INTO filler VALUES (zeroblob(20000000))")
            return [None]

        async def moved(writer: LoopWriter) -> bool:
            await writer.ask(None, None)  # The first look is at a short log.
            await writer.ask(fill, None)
            for _ in range(60):
                await asyncio.sleep(LOOK / 10)
                await writer.ask(None, None)
                if (tmp_path / "store.db").stat().st_size > 20_000_000:
                    return True
            return False

        with (
            opened(str(tmp_path / "store.db")) as store,
            closing(LoopWriter(store.engine, (fill, None))) as writer,
        ):
            assert asyncio.run(moved(writer))

    def test_a_store_is_its_owner_s_alone_to_read(self, tmp_path: Path):
        for name in ("new/store.db", "new/store.db"):
            with opened(str(tmp_path / name)) as store:
                store.start("ask", {})
                modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.glob("new/*")}
        assert modes == dict.fromkeys(("store.db", "store.db-wal", "store.db-shm"), 0o600)

    def test_answers_stay_as_private_as_they_were(self, tmp_path: Path):
        self.questions(tmp_path, 2)
        (tmp_path / "a.jsonl").touch(0o600)
        done = pearl(tmp_path, "batch", "q.jsonl", "-o", "a.jsonl", "--model", "offline")
        assert (done.returncode, (tmp_path / "a.jsonl").stat().st_mode & 0o777) == (0, 0o600)

    def test_a_store_that_may_not_be_written(self, tmp_path: Path):
        self.questions(tmp_path)
        store = tmp_path / "store.db"
        with opened(str(store)):
            pass
        store.chmod(0o444)
        done = pearl(tmp_path, "batch", "q.jsonl", "-o", "a.jsonl", "--model", "offline",
                     "--store", "store.db")  # fmt: skip
        assert "store.db cannot be written (Permission denied)" in told(done, 2)

    def test_a_store_that_may_only_be_read_is_read(self, tmp_path: Path):
        self.questions(tmp_path, 2)
        shut, name = tmp_path / "shut", "shut/store.db"
        offline = ("--model", "offline", "--store", name)
        assert not pearl(tmp_path, "batch", "q.jsonl", "-o", "a.jsonl", *offline).returncode
        (shut / "store.db").chmod(0o444)
        shut.chmod(0o555)
        listed = pearl(tmp_path, "runs", "--store", name)
        assert "2 questions of q.jsonl" in listed.stdout, listed.stderr
        shown = pearl(tmp_path, "runs", "show", "last/1", "--json", "--store", name)
        assert json.loads(shown.stdout)["rows"][0]["id"] == "1"
        assert "readonly" in told(pearl(tmp_path, "runs", "tag", "last", "x", "--store", name), 2)
        assert "Permission denied" in told(pearl(tmp_path, "ask", "a.txt", "Why?", *offline), 2)
        # What another process is writing is seen, too.
        shut.chmod(0o755)
        (shut / "store.db").chmod(0o644)
        with opened(str(shut / "store.db")) as store:
            store.start("ask", {"question": "Who?"})
            run(store.flush())
            (shut / "store.db").chmod(0o444)
            shut.chmod(0o555)
            listed = pearl(tmp_path, "runs", "--store", name)
        shut.chmod(0o755)
        assert "Who?" in listed.stdout, listed.stderr
        with closing(sqlite3.connect(shut / "store.db")) as database:
            database.execute("UPDATE pearl_version SET version_num = '0019'")
            database.commit()
        shut.chmod(0o555)
        line = told(pearl(tmp_path, "runs", "--store", name), 2)
        shut.chmod(0o755)
        assert line.endswith("and an earlier Pearl wrote it: make a copy that may be written.")

    @pytest.mark.parametrize("there", [True, False])
    def test_a_file_that_is_replaced_or_deleted_is_written_no_more(
        self, tmp_path: Path, there: bool
    ):
        place, other, link = (tmp_path / name for name in ("store.db", "other.db", "s/link.db"))
        link.parent.mkdir()
        link.symlink_to(place)
        with opened(str(other)) as store:
            run(kept(store, "theirs"))
        with opened(str(link)) as store:
            run(kept(store, "ours"))
            place.unlink()
            if there:
                other.rename(place)
            with pytest.raises(ModelError, match="replaced meanw" if there else "deleted meanw"):
                run(kept(store, "more"))
        # Nor is its log, which would be read into the file in its place.
        with opened(str(place)) as store, store.engine.connect() as connection:
            keys = connection.execute(select(replies.c.key)).scalars().all()
        assert keys == (["theirs"] if there else [])

    def test_runs_are_neither_called_nor_let_go_in_a_store_that_is_gone(self, tmp_path: Path):
        with opened(str(tmp_path / "store.db")) as store:
            made = store.start("ask", {})
            gone = pytest.raises(DisplacedError, match=r"store\.db was deleted meanwhile")
            with gone, writing(store.engine) as connection:
                connection.execute(runs.delete())
                (tmp_path / "store.db").unlink()
            for write in (
                lambda: history.tag_run(store.engine, made, ["good"]),
                lambda: cache.prune(store.engine, time.time()),
            ):
                with gone:
                    write()

    def test_the_log_of_a_process_that_has_the_new_file_open_stays(self, tmp_path: Path):
        place, other = tmp_path / "store.db", tmp_path / "other.db"
        with opened(str(other)):
            pass
        with opened(str(place)) as store:
            run(kept(store, "ours"))
            other.replace(place)
            waits = OPEN.replace("store.close()", "print('open', flush=True)\ninput()")
            with script(waits, str(place), stdin=subprocess.PIPE) as process:
                assert process.stdout.readline() == "open\n"
                with pytest.raises(ModelError, match="replaced meanwhile"):
                    run(kept(store, "more"))
                assert (tmp_path / "store.db-wal").exists()
                process.communicate("\n")

    def test_a_folder_that_may_not_be_written(self, tmp_path: Path):
        self.questions(tmp_path)
        tmp_path.chmod(0o555)
        done = pearl(tmp_path, "ask", "a.txt", "Why?", "--model", "offline")
        tmp_path.chmod(0o755)
        assert "cannot be written (Permission denied)" in told(done, 2)

    @pytest.mark.parametrize("limit", [8_000, 300_000])
    def test_a_disk_that_is_full(self, tmp_path: Path, limit: int):
        self.questions(tmp_path)
        done = pearl(tmp_path, "batch", "q.jsonl", "-o", "a.jsonl", "--model", "offline",
                     "--store", "store.db", limit=limit)  # fmt: skip
        line = told(done, done.returncode)
        assert done.returncode in (1, 2, 130)
        assert "cannot be" in line
        answers = tmp_path / "a.jsonl"
        if answers.exists():
            assert all(json.loads(one) for one in answers.read_text().splitlines())
        assert not list(tmp_path.glob(".a.jsonl*"))
        # There is room again: the same command goes on.
        again = pearl(tmp_path, "batch", "q.jsonl", "-o", "a.jsonl", "--model", "offline",
                      "--store", "store.db", limit=1 << 30)  # fmt: skip
        assert again.returncode == 0, again.stderr
        assert len(answers.read_text().splitlines()) == 12

    def test_answers_are_whole_lines_where_the_disk_is_full(self, tmp_path: Path):
        done = script(FILL, str(tmp_path / "a.jsonl"), stderr=subprocess.PIPE)
        out, err = done.communicate()
        assert done.returncode == 0, err
        assert out.startswith("a.jsonl cannot be written (No space left on device): make")
        data = (tmp_path / "a.jsonl").read_bytes()
        assert data.endswith(b"\n")
        assert [json.loads(line)["id"] for line in data.splitlines()] == list(range(4))


FILL = """
import os, resource, sys
from pathlib import Path
from pearl.jobs.workers import RowsFile
from pearl.lang.errors import InputError
resource.setrlimit(resource.RLIMIT_FSIZE, (90_000, 90_000))
folder, _, name = sys.argv[1].rpartition("/")
os.chdir(folder)
output = RowsFile(name, [])
try:
    for at in range(9):
        output.add({"id": at, "answer": "x" * 20_000})
except InputError as error:
    print(error)
"""


def test_no_two_owners_have_a_name_in_common():
    assert len({new_owner() for _ in range(100)}) == 100


def test_a_process_s_number_says_nothing_in_another_container():
    """Where two have one host's name, the number of the one's process is nobody's in the other."""
    now, owner = time.time(), new_owner()
    space = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    assert f"/{space}:{os.getpid()}:" in owner
    nobody = owner.replace(f":{os.getpid()}:", f":{1 << 22}:", 1)
    elsewhere = nobody.replace(f"/{space}:", f"/{space}1:", 1)
    assert is_dead(nobody, now, now)
    assert not is_dead(elsewhere, now, now)
    assert is_dead(elsewhere, now - 100, now)
    assert not is_dead(owner, now - 100, now)


def test_two_jobs_do_not_write_one_file(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    first = RowsFile(str(path), ["1\n"])
    with pytest.raises(InputError, match=r"a\.jsonl is being written by another job"):
        RowsFile(str(path), ["2\n"])
    first.close(["1\n", "3\n"])
    second = RowsFile(str(path), ["2\n"])
    path.unlink()
    path.write_text("a person's\n", encoding="utf-8")
    with pytest.raises(InputError, match="was replaced meanwhile, and is left as it is"):
        second.close(["2\n"])
    assert path.read_text(encoding="utf-8") == "a person's\n"


def test_what_is_closed_is_closed_whole_before_an_interrupt_is_heeded():
    done = False

    def close() -> None:
        nonlocal done
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
            done = True

    with pytest.raises(KeyboardInterrupt):
        close()
    assert done
