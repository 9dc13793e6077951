"""Times the reader, the checker and the command line, and prints a table.

    python benchmarks/speed.py [RECORDED.jsonl --library FILE] [--corpus N]

Absolute figures vary with the machine, so each stands beside a ratio to
something measured in the same run: `ast.parse` of the same steps for the
reader, `python -c pass` for whole processes. ``--corpus 100000`` lints as many
plans in one file, on one core and on all, and again with what was found kept.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lint.checker import check

ROOT = Path(__file__).parent.parent
RECORDED = ROOT.parent / "shared" / "data" / "pearl_gpt4" / "train.ctx_eval_long.jsonl"
LIBRARY = RECORDED.parent / "mined_actions_81.txt"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("recorded", nargs="?", type=Path, default=RECORDED)
    options.add_argument("--library", default=str(LIBRARY))
    options.add_argument("--corpus", type=int, default=0, metavar="N", help="only this: lint N")
    chosen = options.parse_args()
    if chosen.recorded.exists():
        plans = [json.loads(line)["plan"] for line in chosen.recorded.open(encoding="utf-8")]
        library = load_library(chosen.library)
    else:
        texts = [
            path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("plans/demos/*.plan"))
        ]
        plans, library = texts * 150, load_library()
    if chosen.corpus:
        _corpus(plans, chosen.corpus, library.names)
        return
    print(f"{len(plans)} plans, best of 5 runs on one core")
    calls = [line for plan in plans for line in _as_python(plan)]
    base = _rate(len(plans), lambda: [ast.parse(line) for line in calls])
    parsed = [parse(plan) for plan in plans]
    rows = [
        ("ast.parse of the same steps", base),
        ("parse", _rate(len(plans), lambda: [parse(plan) for plan in plans])),
        ("check", _rate(len(plans), lambda: [check(one, library) for one in parsed])),
        (
            "parse + check",
            _rate(len(plans), lambda: [check(parse(plan), library) for plan in plans]),
        ),
    ]
    for name, rate in rows:
        print(f"{name:30} {rate:9,.0f} plans/s   {rate / base:6.3f} of ast.parse")
    print()
    _processes()


def _as_python(plan: str) -> list[str]:
    """The steps of a recorded plan as Python would read them."""
    found = re.findall(r"^\d+\. (\w+ = \w+\(.*?\)) :", plan, re.MULTILINE)
    return [step for step in found if _reads(step)]


def _reads(step: str) -> bool:
    try:
        ast.parse(step)
    except SyntaxError:
        return False
    return True


def _rate(count: int, work: Callable[[], object]) -> float:
    work()
    best = min(_seconds(work) for _ in range(5))
    return count / best


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _processes() -> None:
    pearl = str(Path(sys.executable).parent / "pearl")
    # As pip does: where PYTHONDONTWRITEBYTECODE is set, each start would compile what was changed.
    compileall.compile_dir(ROOT / "pearl", quiet=1)
    story = ROOT / "plans" / "examples" / "lighthouse.txt"
    question = "Why does Mara leave the lighthouse?"
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "one.plan"
        plan.write_text('1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross\n', encoding="utf-8")
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "pearl --help": [pearl, "--help"],
            "pearl lint one.plan": [pearl, "lint", str(plan)],
            "pearl fmt one.plan --check": [pearl, "fmt", str(plan), "--check"],
            "pearl ask lighthouse.txt": [pearl, "ask", str(story), question, "--model", "offline"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        # In turn, so that a slow moment of the machine falls on all of them.
        for _ in range(9):
            for name, command in commands.items():
                times[name].append(_seconds(lambda command=command: _silent(command, folder)))
    base = statistics.median(times["python -c pass"])
    print("whole processes, median of 9")
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        print(f"{name:30} {1000 * middle:6.0f} ms   {middle / base:5.1f} × python -c pass")


def _corpus(plans: list[str], count: int, libraries: Sequence[str]) -> None:
    """Lint a file of so many plans, no two alike, and a tenth of it."""
    cores = sorted(os.sched_getaffinity(0))
    words = [str(Path(sys.executable).parent / "pearl"), "lint", "--statistics"]
    words += [word for name in libraries for word in ("--library", name)]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for size in (count // 10, count):
            with (Path(folder) / f"{size}.jsonl").open("w", encoding="utf-8") as file:
                for at in range(size):
                    file.write(json.dumps({"plan": f"{plans[at % len(plans)]}\n# {at}\n"}) + "\n")
        for title, size, used, more in (
            ("all cores", count // 10, cores, ["--no-cache"]),
            ("all cores", count, cores, ["--no-cache"]),
            ("one core", count, cores[:1], ["--no-cache"]),
            ("all cores, kept for the next time", count, cores, []),
            ("all cores, known from before", count, cores, []),
        ):
            os.sched_setaffinity(0, used)
            started = time.perf_counter()
            command = subprocess.Popen(
                [*words, *more, f"{folder}/{size}.jsonl"], stdout=subprocess.DEVNULL
            )
            _, _, used_up = os.wait4(command.pid, 0)
            seconds = time.perf_counter() - started
            print(
                f"{size:9,} plans, {title:34} {size / seconds:7,.0f} plans/s, "
                f"{used_up.ru_utime + used_up.ru_stime:4.0f} s of processors, "
                f"{used_up.ru_maxrss / 1024:4.0f} MB in the largest process",
                flush=True,
            )
        kept = sum(file.stat().st_size for file in Path(folder).glob("pearl/lint.db*"))
        print(f"the cache: {kept / 1e6:.1f} MB")


def _silent(command: list[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, capture_output=True, check=True)


if __name__ == "__main__":
    main()
