"""What decompositions come to on the shared files, with a language model.

``python -m benchmarks.decomp --model NAME [--data ../shared/data]`` prints a table; the model
is one of the endpoint that is set (OPENAI_API_KEY, OPENAI_BASE_URL). Decompositions for
``tmn-model`` are taken from the training files: one for each kind of question and way, none of
a question that is asked.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pearl.commaqa.decomposition import to_plan
from pearl.commaqa.learning import learn_from_gold
from pearl.commaqa.model import longest_match
from pearl.commaqa.world import read_worlds
from pearl.lang.printer import print_plan

SETS = ("explicit", "implicit", "numeric")


def runs(data: Path, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each row's name, and what ``pearl eval`` is asked for it."""
    for file in sorted((data / "decomp" / "letter_cat").glob("*.json")):
        asked = ["letters", "--data", str(file)]
        yield f"letters, {file.stem}", asked
        taught = [*asked, "--library", "letters_by_example"]
        yield f"letters by example, {file.stem}", taught
        yield f"letters by example, flat, {file.stem}", [
            *taught, "--demonstrations", "letters_flat",
        ]  # fmt: skip
    for file in sorted((data / "decomp" / "reverse").glob("*.json")):
        yield f"reversal by halves, {file.stem}", ["reversal", "--data", str(file)]
        yield f"reversal by the tail, {file.stem}", [
            "reversal", "--data", str(file), "--library", "reversal_tail",
            "--demonstrations", "plans/reversal_tail",
        ]  # fmt: skip
        yield f"reversal by example, {file.stem}", [
            "reversal", "--data", str(file), "--library", "reversal_by_example",
        ]  # fmt: skip
    file = data / "decomp" / "commaqa_e" / "iid_test_eg100.json"
    for name in ("fine", "coarse"):
        yield f"commaqa-e, {name}", [
            "commaqa-e", "--data", str(file), "--library", f"commaqa_e_{name}",
        ]  # fmt: skip
    index = str(folder / "corpus.index")
    for name in ("hotpotqa", "2wiki", "musique"):
        file = data / "multihop" / f"{name}_dev.jsonl"
        for method in ("decomp", "retrieve-read", "no-context", "cot", "least-to-most"):
            yield f"{name}, {method}", [name, "--data", str(file), "--methods", method]
        yield f"{name}, decomp, one corpus", [
            name, "--data", str(file), "--methods", "decomp", "--index", index,
        ]  # fmt: skip
    for name, file in (("gsm8k", "gsm8k_test_100"), ("multiarith", "multiarith_100")):
        path = str(data / "math" / f"{file}.jsonl")
        yield f"{name}, decomp", [name, "--data", path, "--methods", "decomp"]
    for name in SETS:
        file = data / "commaqa" / f"{name}_dev_20kb.jsonl"
        for way in ("greedy", "best-first"):
            yield f"commaqa {name}, tmn-model, {way}", [
                "commaqa", "--data", str(file), "--methods", "tmn-model", "--search", way,
                "--demonstrations", str(folder / name),
            ]  # fmt: skip


def show_decompositions(data: Path, name: str, folder: Path) -> None:
    """Write decompositions of training questions, as plans."""
    folder.mkdir()
    train, dev = (
        [*read_worlds(str(data / "commaqa" / f"{name}_{part}.jsonl"))]
        for part in ("train_100kb", "dev_20kb")
    )
    asked = {one.text for world in dev for one in world.questions}
    kinds = {one.question: one for one in learn_from_gold(iter(train)).model.patterns}
    seen: set[Any] = set()
    for one in (one for world in train for one in world.questions if one.text not in asked):
        found = longest_match(one.text, kinds)
        way = (found and found[0], tuple((hop.operator, hop.agent) for hop in one.hops))
        if way not in seen:
            seen.add(way)
            text = print_plan(to_plan(one.hops, one.text))
            (folder / f"{len(seen):02}.plan").write_text(text, encoding="utf-8")


def write_corpus(data: Path, folder: Path) -> None:
    """Every paragraph of the three sets, in one index."""
    seen: dict[tuple[str, str], int] = {}
    for name in ("hotpotqa", "2wiki", "musique"):
        file = data / "multihop" / f"{name}_dev.jsonl"
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            told = row.get("context") or [
                (one["title"], [one["paragraph_text"]]) for one in row["paragraphs"]
            ]
            for title, sentences in told:
                text = " ".join(" ".join(sentences).split())
                if text:
                    seen.setdefault((title, text), len(seen) + 1)
    rows = ({"id": at, "title": title, "text": text} for (title, text), at in seen.items())
    corpus = folder / "corpus.jsonl"
    corpus.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    _pearl("index", str(corpus), "-o", str(folder / "corpus.index"))


def _pearl(*args: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pearl", *args], capture_output=True, text=True, check=False
    )
    return done.stdout


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data", type=Path)
    parser.add_argument("--model", required=True)
    chosen = parser.parse_args()
    if chosen.model == "offline":
        parser.error("it measures what a language model does: name one with --model.")
    data = chosen.data
    print("| what | questions | exact match | F1 | calls a question |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in SETS:
            show_decompositions(data, name, folder / name)
        write_corpus(data, folder)
        for name, asked in runs(data, folder):
            told = json.loads(
                _pearl("eval", *asked, "--model", chosen.model, "--json", "--no-cache",
                       "--store", str(folder / "store.db"))
            )  # fmt: skip
            count, calls = told["trials"], told["calls"]
            exact = 100 * told.get("exact_match", told["right"] / count)
            f1 = f"{100 * told['f1']:.1f}" if "f1" in told else ""
            asked_of = (
                f", {told['agent_calls']:,.0f} of agents in all" if "agent_calls" in told else ""
            )
            each = (calls["made"] + calls["kept"]) / count
            print(f"| {name} | {count} | {exact:.1f} | {f1} | {each:.1f}{asked_of} |", flush=True)


if __name__ == "__main__":
    main()
