"""Multi-hop questions answered by a language model, by every method that is for them.

    python -m benchmarks.multihop --model NAME [--data FOLDER] [--methods NAMES]

The model is one of the endpoint that is set (OPENAI_API_KEY, OPENAI_BASE_URL). For each set: the
share of supporting paragraphs among the first 2 and 5 that plain BM25 finds by the question, and
that the searches of FSM name by the sub-questions; and for each method exact match, F1, facts' F1,
the share of replies in the demanded form, calls a question, and questions without an answer.
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
RECALLS = ("recall_at_2", "recall_at_5")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--data", type=Path, default=SHARED)
    options.add_argument("--methods", default=METHODS)
    options.add_argument("--model", required=True)
    chosen = options.parse_args()
    if chosen.model == "offline":
        options.error("it measures what a language model does: name one with --model.")
    for name, file in FILES.items():
        path = chosen.data / file
        plain = bm25(name, path)
        started = time.perf_counter()
        rows = evaluated(name, path, chosen.methods, chosen.model)
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
        found[example.id] = recall(example, titles)
    return found


def evaluated(name: str, path: Path, methods: str, model: str) -> dict[str, dict[str, Any]]:
    """What every method came to, by its name and the question's id."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "rows.jsonl"
        told = ["--data", str(path.resolve()), "--methods", methods, "--model", model]
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
    print(f"  {'recall of supporting paragraphs':32} {'at 2':>6} {'at 5':>6}")
    sources: dict[str, Mapping[str, Mapping[str, float]]] = {"BM25, question": plain}
    for method in rows.keys() & {"fsm1", "fsm2"}:
        searched = {at: row["measures"] for at, row in rows[method].items()}
        sources[f"{method.upper()}, sub-questions"] = searched
    for source, measures in sorted(sources.items()):
        means = [mean(list(plain), measures, recalled) for recalled in RECALLS]
        print(f"  {source:32} {means[0]:6.1f} {means[1]:6.1f}")


def tell_answers(ids: Sequence[str], rows: Mapping[str, Mapping[str, Any]]) -> None:
    head = f"  {'method':14} {'EM':>6} {'F1':>6} {'facts F1':>9} {'format':>7}"
    print(f"{head} {'calls':>6} {'without':>8}")
    for method, answered in rows.items():
        measures = {at: {**row["measures"], "calls": row["calls"]} for at, row in answered.items()}
        without = sum(not answered.get(at, {}).get("answer") for at in ids)
        has_facts = any("sp_f1" in measured for measured in measures.values())
        facts = f"{mean(ids, measures, 'sp_f1'):9.1f}" if has_facts else f"{'–':>9}"
        print(
            f"  {method:14} {mean(ids, measures, 'exact_match'):6.1f} "
            f"{mean(ids, measures, 'f1'):6.1f} {facts} {mean(ids, measures, 'format'):7.1f} "
            f"{mean(ids, measures, 'calls') / 100:6.2f} {without:8}",
            flush=True,
        )


def mean(ids: Sequence[str], measures: Mapping[str, Mapping[str, float]], key: str) -> float:
    """In per cent; a question without a result counts as 0."""
    return 100 * sum(measures.get(at, {}).get(key, 0.0) for at in ids) / (len(ids) or 1)


if __name__ == "__main__":
    main()
