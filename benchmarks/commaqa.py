"""Next-question search on CommaQA, learned from decompositions and from answers alone.

    python -m benchmarks.commaqa [--data FOLDER] [--brute N] [--generated]
    python -m benchmarks.commaqa --unseen SEED … [--questions N] [--answers]

For each set: exact match and F1 of greedy (TMN-G) and best-first search (TMN-S) on the dev file,
the calls of agents that training and test took, and the seconds. ``--brute`` tries an
exhaustive search on so many training questions of each set; ``--generated`` learns from files of
Pearl's own generator, and tests on what their compositional splits hold out. ``--unseen`` does
nothing but the following, for each seed: of worlds of movies and of throws, six kinds of question
are held out of training, and then all but six; every development question is of a held-out kind.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from pearl.commaqa.agents import Agents, run_hop
from pearl.commaqa.analogy import AnalogyScorer
from pearl.commaqa.decomposition import Hop, references
from pearl.commaqa.generator import generate
from pearl.commaqa.learning import Learned, learn_from_answers, learn_from_gold
from pearl.commaqa.model import Form, forms_of, is_empty, known_entities, opened
from pearl.commaqa.schema import Schema, read_schema
from pearl.commaqa.scoring import exact_match, f1
from pearl.commaqa.search import best_first, greedy
from pearl.commaqa.theories import theories_of
from pearl.commaqa.world import World, read_world, read_worlds
from pearl.lang.values import Value

SHARED = Path(__file__).parent.parent.parent / "shared" / "data" / "commaqa"
UNSEEN = ("movies", "throws")
SETS = ("explicit", "implicit", "numeric")
SEARCHES = {"TMN-G": greedy, "TMN-S": best_first}
HEAD = (
    f"{'set':20} {'learned from':12} {'search':6} {'EM':>6} {'F1':>6} {'training: questions':>20} "
    f"{'calls':>8} {'seconds':>8} {'test: calls':>12} {'seconds':>8}"
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, default=SHARED)
    options.add_argument("--brute", type=int, default=0, metavar="N")
    options.add_argument("--calls", type=int, default=300_000, help="of exhaustive search, each")
    options.add_argument("--generated", action="store_true")
    options.add_argument("--unseen", type=int, nargs="+", metavar="SEED")
    options.add_argument("--questions", type=int, default=300, help="of --unseen, each part")
    options.add_argument("--answers", action="store_true", help="of --unseen: no gold is read")
    chosen = options.parse_args()
    print(HEAD)
    if chosen.unseen:
        for name, seed, few in itertools.product(UNSEEN, chosen.unseen, (False, True)):
            _unseen(name, seed, few, chosen)
        return
    calls = sum(
        _both(name, *(_read(chosen.data / f"{name}_{part}.jsonl") for part in
                      ("train_100kb", "dev_20kb")))
        for name in SETS
    )  # fmt: skip
    print(f"calls of the three trainings from answers: {calls:,}")
    if chosen.generated:
        print(HEAD)
        for name in SETS:
            for split in ("iid", "compgen"):
                _generated(name, split)
    if chosen.brute:
        for name in SETS:
            _brute(name, _read(chosen.data / f"{name}_train_100kb.jsonl"), chosen)


def _read(path: Path) -> list[World]:
    return list(read_worlds(str(path)))


def _both(name: str, train: Sequence[World], test: Sequence[World]) -> int:
    """The rows of one set; returns the calls of the training from answers."""
    started = time.perf_counter()
    gold = learn_from_gold(train)
    seconds = time.perf_counter() - started
    for search in SEARCHES:
        _row(name, "gold", search, gold, seconds, test)
    started = time.perf_counter()
    learned = learn_from_answers(train)
    seconds = time.perf_counter() - started
    _row(name, "answers", "TMN-S", learned, seconds, test)
    for kind in learned.kinds:
        if kind.left:
            print(f"  {kind.pattern}: {len(kind.left)} of {kind.questions} not explained; "
                  f"{kind.stopped}")  # fmt: skip
    return learned.calls


def _row(
    name: str, source: str, search: str, learned: Learned, training: float, test: Sequence[World]
) -> None:
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
    print(
        f"{name:20} {source:12} {search:6} {100 * sum(exact) / len(exact):6.1f} "
        f"{100 * sum(shared) / len(shared):6.1f} {explained:>20} {learned.calls:8,} "
        f"{training:8.1f} {calls:12,} {seconds:8.1f}",
        flush=True,
    )


def _unseen(name: str, seed: int, few: bool, chosen: argparse.Namespace) -> None:
    train, test = unseen_kinds(read_schema(name), seed, chosen.questions, few=few)
    learn = learn_from_answers if chosen.answers else learn_from_gold
    started = time.perf_counter()
    learned = learn(train)
    seconds = time.perf_counter() - started
    label = f"{name} {seed} {'6 seen' if few else '6 unseen'}"
    _row(label, learned.model.source, "TMN-S", learned, seconds, test)


def unseen_kinds(
    schema: Schema, seed: int, questions: int, *, few: bool
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


def _of_kinds(schema: Schema, seed: int, questions: int, part: str, kinds: set[str]) -> list[World]:
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
    if split == "iid":
        started = time.perf_counter()
        learned = learn_from_answers(parts["train"])
        seconds = time.perf_counter() - started
        _row(f"{name} {split}", "answers", "TMN-S", learned, seconds, parts["test"])


def _brute(name: str, worlds: Sequence[World], chosen: argparse.Namespace) -> None:
    """An exhaustive search (the paper samples) on the first question of some worlds."""
    started = time.perf_counter()
    for world in worlds[: chosen.brute]:
        question = world.without_gold().questions[0]
        for depth in (2, 3):
            agents = Agents(world.without_gold())
            found = exhaustive_search(question.text, question.answer, agents, depth, chosen.calls)
            print(
                f"{name}: depth {depth}, {found.calls:,} calls"
                f"{'' if found.finished else ' (stopped)'}, {len(found.decompositions)} "
                f"decompositions end in the answer: {question.text}",
                flush=True,
            )
    print(f"{name}: {time.perf_counter() - started:.0f} s")


_OPERATORS = (
    *("select", "project", "project_values_flat_unique"),
    *("filter", "projectValues", "filterValues_keys"),
)


@dataclass(frozen=True, slots=True)
class ExhaustiveResult:
    """What the exhaustive search came to for one question.

    Args:
        calls: questions to agents.
        decompositions: those that end in the recorded answer.
        finished: whether everything up to the depth was tried.
    """

    calls: int
    decompositions: tuple[tuple[Hop, ...], ...]
    finished: bool


def exhaustive_search(
    text: str, answer: Value, agents: Agents, depth: int, calls: int
) -> ExhaustiveResult:
    """Try all decompositions of one question, shorter ones first (CommaQA, appendix B).

    Every question goes to every agent, with the entities of the question and all earlier answers
    in its blanks, by every operator with the transformations that the data has. What ends in the
    recorded answer is a decomposition, right or not. Nothing is remembered, shared or ruled out,
    so that the calls are what the paper counts.

    Args:
        text: the question.
        answer: what is recorded.
        agents: of its world; nothing else of the world is used but examples of valid inputs.
        depth: hops, at most.
        calls: questions to agents, at most.
    """
    before, forms = agents.calls, forms_of(agents.world.language)
    valid = frozenset().union(*agents.world.entities.values())
    _, entities = opened(text, known_entities(text, valid))
    decompositions: list[tuple[Hop, ...]] = []
    level: list[tuple[tuple[Hop, ...], tuple[Value, ...]]] = [((), ())]
    for _ in range(depth):
        longer: list[tuple[tuple[Hop, ...], tuple[Value, ...]]] = []
        for hops, answers in level:
            for hop in _all_hops(forms, entities, len(hops)):
                if agents.calls - before >= calls:
                    spent = agents.calls - before
                    return ExhaustiveResult(spent, tuple(decompositions), finished=False)
                value = run_hop(hop, answers, agents.ask)
                if value is None or is_empty(value):
                    continue
                longer.append(((*hops, hop), (*answers, value)))
                if exact_match(value, answer):
                    decompositions.append((*hops, hop))
        level = longer
    return ExhaustiveResult(agents.calls - before, tuple(decompositions), finished=True)


def _all_hops(
    forms: Mapping[Form, Sequence[str]], entities: Sequence[str], answers: int
) -> Iterator[Hop]:
    """Every hop that can be written; after the first it uses the last answer."""
    fills = [*entities, *(f"#{number}" for number in range(1, answers + 1))]
    for form, agents in forms.items():
        for arguments in itertools.product(fills, repeat=form.blanks):
            if answers and form.blanks and f"#{answers}" not in arguments:
                continue
            for at, agent in itertools.product(range(len(form.phrasings)), agents):
                question = form.fill(arguments, at)
                for operator in _OPERATORS if references(question) else _OPERATORS[:1]:
                    yield Hop(operator, agent, question)


if __name__ == "__main__":
    main()
