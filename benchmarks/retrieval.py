"""What an index of a corpus costs, and what it finds.

    python -m benchmarks.retrieval [--data DIR] [--passages N]

The contexts of real multi-hop questions (HotpotQA, 2WikiMultihopQA, MuSiQue)
are one corpus, on which the share of supporting paragraphs is counted that the
question itself finds among the first k. The same paragraphs and those of the
QuALITY articles, with words exchanged between them, are a corpus of N
passages, on which time, size, memory and searches a second are measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from pearl.lang.source import Source
from pearl.retrieval.index import build_index, open_index
from pearl.retrieval.retriever import DocumentRetriever, Retriever

SHARED = Path(__file__).parent.parent.parent / "shared" / "data"
DATASETS = ("hotpotqa", "2wiki", "musique")
AMONG = (2, 5, 10, 20, 100)
CHANGED = 0.15
"""The share of a variation's words that are another paragraph's."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, default=SHARED)
    options.add_argument("--passages", type=int, default=200_000)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        rows, asked = multihop(chosen.data / "multihop")
        recall(rows, asked)
        paragraphs = [*rows, *articles(chosen.data / "quality" / "dev_20_articles.jsonl")]
        scale(paragraphs, chosen.passages, [question for _, question, _ in asked])
        document(chosen.data / "quality" / "dev_20_articles.jsonl")


def multihop(folder: Path) -> tuple[dict[tuple[str, str], str], list[tuple[str, str, set[str]]]]:
    """Every paragraph with its id; every question with its data set and supporting paragraphs."""
    rows: dict[tuple[str, str], str] = {}
    asked = []
    for name in DATASETS:
        for line in (folder / f"{name}_dev.jsonl").open(encoding="utf-8"):
            row = json.loads(line)
            wanted = set()
            for key, supports in contexts(row):
                one = rows.setdefault(key, f"p{len(rows)}")
                wanted |= {one} if supports else set()
            asked.append((name, row["question"], wanted))
    return rows, asked


def contexts(row: dict) -> Iterator[tuple[tuple[str, str], bool]]:
    """A question's paragraphs, and whether each supports the answer."""
    if "paragraphs" in row:
        for one in row["paragraphs"]:
            yield (one["title"], one["paragraph_text"]), one["is_supporting"]
        return
    titles = {title for title, _ in row["supporting_facts"]}
    for title, sentences in row["context"]:
        text = " ".join(sentence.strip() for sentence in sentences)
        yield (title, text or title), title in titles


def articles(file: Path) -> Iterator[tuple[str, str]]:
    """The paragraphs of the articles, under their titles."""
    for line in file.open(encoding="utf-8"):
        row = json.loads(line)
        for text in re.split(r"\n\s*\n", row["article"]):
            if len(text.split()) > 5:
                yield row["title"], text


def write(path: str, rows: Iterator[tuple[str, str, str]]) -> None:
    with Path(path).open("w", encoding="utf-8") as file:
        for one, title, text in rows:
            file.write(json.dumps({"id": one, "title": title, "text": text}) + "\n")


def recall(rows: dict[tuple[str, str], str], asked: list[tuple[str, str, set[str]]]) -> None:
    write("multihop.jsonl", ((one, *key) for key, one in rows.items()))
    build_index("multihop.jsonl", "multihop.index")
    retriever = open_index("multihop.index")
    print(f"{len(rows):,} paragraphs, {len(asked)} questions; supporting paragraphs found by the")
    print("question itself among the first      " + "".join(f"{k:>7}" for k in AMONG))
    for name in DATASETS:
        shares = {k: [] for k in AMONG}
        for dataset, question, wanted in asked:
            if dataset == name:
                found = [one.id for one in retriever.search(question, max(AMONG))]
                for k in AMONG:
                    shares[k].append(len(wanted & set(found[:k])) / len(wanted))
        told = "".join(f"{sum(one) / len(one):>7.1%}" for one in shares.values())
        print(f"  {name:<35}{told}")


def variations(paragraphs: list[tuple[str, str]], number: int) -> Iterator[tuple[str, str, str]]:
    """The paragraphs, and variations of them with words of others."""
    chance = random.Random(5)
    words = [text.split() for _, text in paragraphs]
    for at in range(number):
        title, text = paragraphs[at % len(paragraphs)]
        if at >= len(paragraphs):
            own, other = words[at % len(words)], chance.choice(words)
            text = " ".join(
                chance.choice(other) if chance.random() < CHANGED else word for word in own
            )
            title = f"{title} {' '.join(chance.choices(other, k=1))}"
        yield f"v{at}", title, text


def scale(paragraphs: list[tuple[str, str]], number: int, questions: list[str]) -> None:
    write("large.jsonl", variations(paragraphs, number))
    size = Path("large.jsonl").stat().st_size
    pid = os.fork()
    if not pid:
        # A process of its own, whose memory is that of the build alone.
        with Peak() as peak:
            started = time.perf_counter()
            built = build_index("large.jsonl", "large.index")
        seconds = time.perf_counter() - started
        print(
            f"{built.passages:,} passages, {size / 1e6:.0f} MB: built in {seconds:.1f} s "
            f"({built.passages / seconds:,.0f} a second), "
            f"index {built.bytes / 1e6:.0f} MB, "
            f"memory {peak.start:.0f} MB before, at most {peak.most:.0f} MB",
            flush=True,
        )
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        sys.exit("the build failed")
    started = time.perf_counter()
    retriever = open_index("large.index")
    opened = time.perf_counter()
    retriever.search(questions[0], 10)
    first = time.perf_counter()
    print(
        f"opened in {1e3 * (opened - started):.1f} ms, first search {1e3 * (first - opened):.1f} ms"
    )
    before = memory()
    for threads in (1, 2, 8):
        searches(retriever, questions, threads)
    after = memory()
    print(f"memory: {after - before:+.0f} MB by searching (files in memory included)")
    equal(number)


def searches(retriever: Retriever, questions: list[str], threads: int) -> None:
    took: list[float] = []

    def search(question: str) -> None:
        started = time.perf_counter()
        retriever.search(question, 10)
        took.append(time.perf_counter() - started)

    asked = questions * 8
    with ThreadPoolExecutor(threads) as pool:
        started = time.perf_counter()
        list(pool.map(search, asked))
        seconds = time.perf_counter() - started
    took.sort()
    middle, last = took[len(took) // 2], took[-len(took) // 100]
    print(
        f"{threads} threads: {len(asked) / seconds:,.0f} searches a second for 10 passages, "
        f"median {1e3 * middle:.2f} ms, 99 % below {1e3 * last:.1f} ms"
    )


def equal(number: int) -> None:
    """The worst case: every passage is equal, so every one has to be looked at."""
    write("equal.jsonl", ((str(at), "", "All of these are equal.") for at in range(number)))
    build_index("equal.jsonl", "equal.index")
    retriever = open_index("equal.index")
    retriever.search("nothing", 3)
    started = time.perf_counter()
    found = retriever.search("equal", 3)
    seconds = time.perf_counter() - started
    print(f"{number:,} equal passages: {[one.id for one in found]} in {seconds:.2f} s")


def document(file: Path) -> None:
    """A document's paragraphs: the first search reads it, later ones do not."""
    row = json.loads(file.open(encoding="utf-8").readline())
    retriever = DocumentRetriever(Source("article", row["article"]))
    started = time.perf_counter()
    retriever.search("a pirate ship", 5)
    first = time.perf_counter()
    for _ in range(200):
        retriever.search("Who fires at the pirate ship?", 5)
    each = (time.perf_counter() - first) / 200
    print(
        f"a document of {len(row['article']):,} characters, "
        f"{len(retriever.paragraphs)} paragraphs: "
        f"first search {1e3 * (first - started):.0f} ms, later ones {1e3 * each:.2f} ms"
    )


def memory() -> float:
    """What this process has in memory, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Peak:
    """The most memory that this process has while it lasts, in MB."""

    def __enter__(self) -> Peak:
        self.start = self.most = memory()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.02):
            self.most = max(self.most, memory())


if __name__ == "__main__":
    main()
