"""Next-question search on CommaQA, learned from decompositions and from answers alone.

    python -m benchmarks.commaqa [--data FOLDER] [--chains N [--hops N] [--seed S]] [--brute N]
        [--generated]
    python -m benchmarks.commaqa --unseen SEED … [--questions N] [--answers]
    python -m benchmarks.commaqa --compgen SEED … [--questions N] [--answers]

For each set: exact match and F1 of greedy (TMN-G) and best-first search (TMN-S) on the dev file,
the calls of agents that training and test took, and the seconds; and the mean over the sets.
``--chains`` learns from so many sampled chains a training question (the paper's way where no
decompositions are given), of so many ``--hops`` at most and drawn by ``--seed``, ``--brute`` from
all chains to depth 3 of so many training questions of each set; ``--generated`` learns from files
of Pearl's own generator, and tests on what their compositional splits hold out. ``--unseen`` does
nothing but the following, for each seed: of worlds of movies and of throws, six kinds of question
are held out of training, and then all but six; every development question is of a held-out kind.
``--compgen`` does nothing but the compositional splits of the generator, with so many questions.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import NamedTuple

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.chains import Finder, Sampling, exhaustive, learn_from_chains, sampled
from pearl.commaqa.agents import Agents, exact_match, f1
from pearl.commaqa.analogy import AnalogyScorer
from pearl.commaqa.generator import generate
from pearl.commaqa.learning import Learned, learn_from_answers, learn_from_gold
from pearl.commaqa.question_theories import theories_of
from pearl.commaqa.schema import WorldSchema
from pearl.commaqa.schema_reader import read_schema
from pearl.commaqa.search import best_first, greedy
from pearl.commaqa.world import World, read_world, read_worlds

SHARED = Path(__file__).parent.parent.parent / "shared" / "data" / "commaqa"
UNSEEN = ("movies", "throws")
SETS = ("explicit", "implicit", "numeric")
GENERATED = {
    **dict.fromkeys(SETS, ("iid", "compgen")),
    "movies": ("published", "published_cg"),
    "inventions": ("published",),
    "throws": ("published", "published_cg"),
}
SEARCHES = {"TMN-G": greedy, "TMN-S": best_first}
DEPTHS = {"explicit": 3, "implicit": 3, "numeric": 4}
"""Hops of a sampled chain: what most questions of a set take."""


class Row(NamedTuple):
    """Exact match and F1, in hundredths, of one search with what was learned from one source."""

    source: str
    search: str
    exact_match: float
    f1: float
    calls: int


HEAD = (
    f"{'set':20} {'learned from':12} {'search':6} {'EM':>6} {'F1':>6} {'training: questions':>20} "
    f"{'calls':>8} {'seconds':>8} {'test: calls':>12} {'seconds':>8}"
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, default=SHARED)
    options.add_argument("--chains", type=int, default=0, metavar="N")
    options.add_argument("--hops", type=int, metavar="N", help="of a chain; else by the set")
    options.add_argument("--seed", type=int, default=1, metavar="S", help="of sampled chains")
    options.add_argument("--brute", type=int, default=0, metavar="N")
    options.add_argument("--calls", type=int, default=300_000, help="of exhaustive search, each")
    options.add_argument("--generated", action="store_true")
    options.add_argument("--unseen", type=int, nargs="+", metavar="SEED")
    options.add_argument("--compgen", type=int, nargs="+", metavar="SEED")
    options.add_argument("--questions", type=int, default=300, help="of each part")
    options.add_argument("--answers", action="store_true", help="no gold is read")
    chosen = options.parse_args()
    print(HEAD)
    if chosen.unseen or chosen.compgen:
        for name, seed, few in itertools.product(UNSEEN, chosen.unseen or (), (False, True)):
            parts = unseen_kinds(read_schema(name), seed, chosen.questions, few=few)
            _held_out(f"{name} {seed} {'6 seen' if few else '6 unseen'}", *parts, chosen)
        for name, seed in itertools.product((*SETS, *UNSEEN), chosen.compgen or ()):
            schema = read_schema(name)
            train, test = (
                [read_world(row, schema.path, part)
                 for row in generate(schema, "compgen", part, seed, chosen.questions)]
                for part in ("train", "test")
            )  # fmt: skip
            _held_out(f"{name} {seed} compgen", train, test, chosen)
        return
    train = {name: _read(chosen.data / f"{name}_train_100kb.jsonl") for name in SETS}
    test = {name: _read(chosen.data / f"{name}_dev_20kb.jsonl") for name in SETS}
    rows = [row for name in SETS for row in _both(name, train[name], test[name])]
    rows += _chains(train, test, chosen)
    for source, search in dict.fromkeys((row.source, row.search) for row in rows):
        those = [row for row in rows if (row.source, row.search) == (source, search)]
        means = (fmean(row.exact_match for row in those), fmean(row.f1 for row in those))
        calls = f"{sum(row.calls for row in those):,} calls in training"
        print(f"{'mean':20} {source:12} {search:6} {means[0]:6.1f} {means[1]:6.1f} {calls:>29}")
    if chosen.generated:
        print(HEAD)
        for name, splits in GENERATED.items():
            for split in splits:
                _generated(name, split)


def _read(path: Path) -> list[World]:
    return list(read_worlds(str(path)))


def _both(name: str, train: Sequence[World], test: Sequence[World]) -> list[Row]:
    """The rows of one set, learned from gold and from answers."""
    started = time.perf_counter()
    gold = learn_from_gold(train)
    seconds = time.perf_counter() - started
    rows = [_row(name, "gold", search, gold, seconds, test) for search in SEARCHES]
    started = time.perf_counter()
    learned = learn_from_answers(train)
    seconds = time.perf_counter() - started
    rows += [_row(name, "answers", search, learned, seconds, test) for search in SEARCHES]
    for kind in learned.kinds:
        if kind.left:
            print(f"  {kind.pattern}: {len(kind.left)} of {kind.questions} not explained; "
                  f"{kind.stopped}")  # fmt: skip
    return rows


def _row(
    name: str, source: str, search: str, learned: Learned, training: float, test: Sequence[World]
) -> Row:
    scorer, started = AnalogyScorer(learned.model), time.perf_counter()
    exact: list[bool] = []
    shared: list[float] = []
    calls = 0
    for world in test:
        agents = Agents(world)
        for question in world.questions:
            found = SEARCHES[search](question.text, agents, scorer)
            exact.append(exact_match(found.answer, question.answer))
            shared.append(f1(found.answer, question.answer))
        calls += agents.calls
    seconds = time.perf_counter() - started
    explained = f"{learned.explained} of {learned.questions}"
    row = Row(source, search, 100 * fmean(exact), 100 * fmean(shared), learned.calls)
    print(
        f"{name:20} {source:12} {search:6} {row.exact_match:6.1f} {row.f1:6.1f} {explained:>20} "
        f"{learned.calls:8,} {training:8.1f} {calls:12,} {seconds:8.1f}",
        flush=True,
    )
    return row


def _held_out(
    label: str, train: Sequence[World], test: Sequence[World], chosen: argparse.Namespace
) -> None:
    learn = learn_from_answers if chosen.answers else learn_from_gold
    started = time.perf_counter()
    learned = learn(train)
    seconds = time.perf_counter() - started
    _row(label, learned.model.source, "TMN-S", learned, seconds, test)


def unseen_kinds(
    schema: WorldSchema, seed: int, questions: int, *, few: bool
) -> tuple[list[World], list[World]]:
    """Training and development worlds that have no kind of question in common.

    What is calculated of a development question is calculated in training, too, as no word of an
    agent says what "longer" is. What is looked up need not be.

    Args:
        schema: of the worlds.
        seed: draws the kinds and the worlds.
        questions: of each part, at least.
        few: whether six kinds are left for training; else six are held out of it.
    """
    theories = theories_of(schema)

    def calculated(names: Collection[str]) -> set[tuple[object, ...]]:
        return {
            (call.ask, call.operation, *(one > 0 and at - one for one in call.arguments))
            for theory in theories
            if theory.name in names
            for at, call in enumerate(theory.calls)
            if schema.asks[call.ask].total
        }

    random, names = Random(seed), sorted(one.name for one in theories)
    six: set[str] = set()
    seen: set[str] = set()
    while not seen or not calculated(names) <= calculated(seen):
        six = set(random.sample(names, 6))
        seen = six if few else set(names) - six
    train, dev = ("train", seen), ("dev", set(names) - seen)
    return _of_kinds(schema, seed, questions, *train), _of_kinds(schema, seed, questions, *dev)


def _of_kinds(
    schema: WorldSchema, seed: int, questions: int, part: str, kinds: set[str]
) -> list[World]:
    """Worlds of a part, with their questions of some kinds alone."""
    worlds: list[World] = []
    for row in generate(schema, "iid", part, seed, 50 * questions):
        row["qa_pairs"] = [one for one in row["qa_pairs"] if one["theory"] in kinds]
        if row["qa_pairs"]:
            worlds.append(read_world(row, schema.path, f"{part}/{len(worlds) + 1}"))
        questions -= len(row["qa_pairs"])
        if questions <= 0:
            break
    return worlds


def _generated(name: str, split: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        parts: dict[str, list[World]] = {}
        for part in ("train", "test"):
            path = Path(folder) / f"{part}.jsonl"
            told = ["--schema", name, "--split", split, "--part", part, "--seed", "7"]
            command = [sys.executable, "-m", "pearl", "generate", "commaqa", *told, "-o", str(path)]
            subprocess.run(command, check=True, capture_output=True,
                           cwd=Path(__file__).parent.parent)  # fmt: skip
            parts[part] = _read(path)
    started = time.perf_counter()
    gold = learn_from_gold(parts["train"])
    seconds = time.perf_counter() - started
    for search in SEARCHES:
        _row(f"{name} {split}", "gold", search, gold, seconds, parts["test"])
    if split in ("iid", "published"):
        started = time.perf_counter()
        learned = learn_from_answers(parts["train"])
        seconds = time.perf_counter() - started
        for search in SEARCHES:
            _row(f"{name} {split}", "answers", search, learned, seconds, parts["test"])


def _chains(
    train: Mapping[str, list[World]], test: Mapping[str, list[World]], chosen: argparse.Namespace
) -> list[Row]:
    """The rows of what is learned from chains that are found for one question at a time."""
    rows: list[Row] = []
    finders: dict[str, Callable[[str], Finder]] = {}
    if chosen.chains:
        finders["chains"] = lambda name: sampled(
            Sampling(chosen.hops or DEPTHS[name], chosen.chains), Random(chosen.seed)
        )
    if chosen.brute:
        finders["exhaustive"] = lambda _: exhaustive(3, chosen.calls)
    for source, finder in finders.items():
        for name, worlds in train.items():
            if source == "exhaustive":
                firsts = (replace(one, questions=one.questions[:1]) for one in worlds)
                worlds = list(itertools.islice(firsts, chosen.brute))
            started = time.perf_counter()
            learned = learn_from_chains(worlds, finder(name))
            seconds = time.perf_counter() - started
            rows += [
                _row(name, source, search, learned, seconds, test[name]) for search in SEARCHES
            ]
    return rows


if __name__ == "__main__":
    main()
