"""From raw questions to a report with the embedded reader: mine, condense, evaluate.

python -m benchmarks.loop QUESTIONS QUALITY

QUESTIONS is a file to mine, QUALITY one of QuALITY's articles. Prints the time
of each command, and what it came to. The reader is no language model: the
accuracies say how it reads, and nothing about the methods.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

METHODS = "zero-shot,cot,mcq,pearl,pearl-no-execution,pearl-no-refinement,pearl-execute-only"

LIBRARY = ("--library", "core", "--library", "small.actions")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("questions", type=Path)
    options.add_argument("quality", type=Path)
    options.add_argument("--target", default="80")
    options.add_argument("--sizes", default="1,20,40,60")
    chosen = options.parse_args()
    commands = (
        ("mine", str(chosen.questions.resolve()), "-o", "mined.actions"),
        ("condense", "mined.actions", "-o", "small.actions", "--target", chosen.target),
        # Demonstrations of the example story: none of their questions is evaluated.
        ("refine", "examples/lighthouse.questions.jsonl", "-o", "demos", *LIBRARY),
        ("eval", "quality", "--data", str(chosen.quality.resolve()), "--methods", METHODS,
         *LIBRARY, "--library-sizes", chosen.sizes, "--demos", "demos",
         "-o", "results.jsonl"),
        ("report", "results.jsonl", "--format", "html", "-o", "report.html"),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        examples = Path(__file__).parent.parent / "plans" / "examples"
        (home / "examples").symlink_to(examples.resolve())
        total = 0.0
        for words in commands:
            seconds, said = _timed(words, home)
            total += seconds
            print(f"{words[0]:9} {seconds:6.1f} s")
            print("".join(f"          {line}\n" for line in said), end="")
        print(f"{'all':9} {total:6.1f} s (goal 300)")


def _timed(words: tuple[str, ...], home: Path) -> tuple[float, list[str]]:
    own = () if words[0] in ("condense", "report") else ("--model", "offline")
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pearl", *words, *own],
        cwd=home, capture_output=True, text=True, check=True,
    )  # fmt: skip
    seconds = time.monotonic() - started
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return seconds, lines[:22] if words[0] == "eval" else lines[-3:]


if __name__ == "__main__":
    main()
