"""Multi-hop questions answered by the embedded offline reader, end to end with no model.

    python -m benchmarks.multihop [--data FOLDER] [--methods NAMES]

For each set, its even rows, its odd rows, and all: the share of supporting paragraphs among the
first 2 and 5 that plain BM25 finds by the question, and that the searches of FSM name by the
sub-questions; and for each method exact match, F1, facts' F1, the share of replies in the demanded
form, calls a question, and questions without an answer. The offline reader's rules were written
with the even rows in sight; the odd ones were only counted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from pearl.evaluate.datasets import DATASETS
from pearl.evaluate.methods.multihop import recall
from pearl.retrieval.retriever import DocumentRetriever

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared" / "data" / "multihop"
FILES = {
    "hotpotqa": "hotpotqa_dev.jsonl",
    "2wiki": "2wiki_dev.jsonl",
    "musique": "musique_dev.jsonl",
}
METHODS = "normal,cot-answer,sp-cot,react,fsm1,fsm2,rebel"
PARTS = ("even", "odd", "all")
RECALLS = ("recall_at_2", "recall_at_5")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, default=SHARED)
    options.add_argument("--methods", default=METHODS)
    chosen = options.parse_args()
    for name, file in FILES.items():
        path = chosen.data / file
        plain = bm25(name, path)
        started = time.perf_counter()
        rows = evaluated(name, path, chosen.methods)
        seconds = time.perf_counter() - started
        print(f"{name}: {len(plain)} questions, {len(rows)} methods, {seconds:.1f} s")
        tell_recall(plain, rows)
        tell_answers(list(plain), rows)


def bm25(name: str, path: Path) -> dict[str, Mapping[str, float]]:
    """Recall of supporting paragraphs by the whole question, for each of a set."""
    dataset = next(one for one in DATASETS if one.name == name)
    found = {}
    for example in dataset.read(str(path)):
        # As FSM's searches are counted: by titles, of which two paragraphs may have one.
        passages = DocumentRetriever(example.document).search(example.question, 100)
        titles = list(dict.fromkeys(one.title for one in passages))
        found[example.id] = recall(example, [titles])
    return found


def evaluated(name: str, path: Path, methods: str) -> dict[str, dict[str, Any]]:
    """What every method came to, by its name and the question's id."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "rows.jsonl"
        told = ["--data", str(path.resolve()), "--methods", methods, "--model", "offline"]
        command = [sys.executable, "-m", "pearl", "eval", name, *told, "-o", str(output)]
        store = ["--store", str(Path(folder) / "store.db")]
        # A question without an answer makes it end with 1; it is counted below.
        done = subprocess.run(
            [*command, *store], check=False, capture_output=True, text=True, cwd=ROOT
        )
        if not output.exists():
            raise SystemExit(done.stderr)
        rows: dict[str, dict[str, Any]] = {one: {} for one in methods.split(",")}
        for line in output.open(encoding="utf-8"):
            row = json.loads(line)
            if "method" in row:
                rows[row["method"]][row["id"]] = row
    return rows


def tell_recall(
    plain: Mapping[str, Mapping[str, float]], rows: Mapping[str, Mapping[str, Any]]
) -> None:
    searched = {at: row["measures"] for at, row in rows.get("fsm1", {}).items()}
    print(f"  {'recall of supporting paragraphs':32} {'at 2':>6} {'at 5':>6}")
    for part in PARTS:
        for source, measures in (("BM25, question", plain), ("FSM, sub-questions", searched)):
            means = [mean(_taken(list(plain), part), measures, one) for one in RECALLS]
            print(f"  {part:5} {source:26} {means[0]:6.1f} {means[1]:6.1f}")


def tell_answers(ids: Sequence[str], rows: Mapping[str, Mapping[str, Any]]) -> None:
    head = f"  {'method':14} {'part':5} {'EM':>6} {'F1':>6} {'facts F1':>9} {'format':>7}"
    print(f"{head} {'calls':>6} {'without':>8}")
    for method, found in rows.items():
        measures = {at: {**row["measures"], "calls": row["calls"]} for at, row in found.items()}
        for part in PARTS:
            taken = _taken(ids, part)
            calls = mean(taken, measures, "calls") / 100
            without = sum(not found.get(at, {}).get("answer") for at in taken)
            facts = (
                f"{mean(taken, measures, 'sp_f1'):9.1f}" if _has(measures, "sp_f1") else f"{'–':>9}"
            )
            print(
                f"  {method:14} {part:5} {mean(taken, measures, 'exact_match'):6.1f} "
                f"{mean(taken, measures, 'f1'):6.1f} {facts} "
                f"{mean(taken, measures, 'format'):7.1f} {calls:6.2f} {without:8}",
                flush=True,
            )


def mean(ids: Sequence[str], measures: Mapping[str, Mapping[str, float]], key: str) -> float:
    """In per cent; a question without a result counts as 0."""
    return 100 * sum(measures.get(at, {}).get(key, 0.0) for at in ids) / (len(ids) or 1)


def _has(measures: Mapping[str, Mapping[str, float]], key: str) -> bool:
    return any(key in one for one in measures.values())


def _taken(ids: Sequence[str], part: str) -> Sequence[str]:
    return ids if part == "all" else ids[PARTS.index(part) :: 2]


if __name__ == "__main__":
    main()
