"""How soon an editor has the findings after an edit.

    python -m benchmarks.lsp [--steps 500] [--edits 100]

A real ``pearl lsp`` is spoken to over pipes, as an editor does. Each edit
types one character into a step, in turn a good one and one that breaks the
line; timed is from the moment didChange is sent to that version's
publishDiagnostics. An edit is sent when the findings of the one before have
arrived, so every edit pays for the server's pause of `pearl.lsp.findings.DELAY`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lint.checker import check
from pearl.lsp.findings import DELAY
from tests.editor import Editor, editor

NAME = "long.plan"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=500)
    options.add_argument("--edits", type=int, default=100)
    chosen = options.parse_args()
    good = plan(chosen.steps)
    bad = good.replace("FIND_RELATION(", "FIND_RELATIONS(").replace("Find what", 'Find "what')
    print(f"{chosen.steps} steps, {chosen.edits} edits, a pause of {1000 * DELAY:.0f} ms")
    for name, text in (("a clean plan", good), ("a third of its actions unknown", bad)):
        with tempfile.TemporaryDirectory() as folder, editor(Path(folder)) as one:
            found = len(one.open(NAME, text))
            times = sorted(edits(one, text, chosen.edits))
        work = 1000 * min(checked(text) for _ in range(5))
        late = times[int(0.95 * len(times))]
        print(
            f"{name:32} median {statistics.median(times):6.1f} ms   95 % {late:6.1f} ms   "
            f"({found} findings; reading and checking alone takes {work:.1f} ms)"
        )


def plan(steps: int) -> str:
    """A plan in which most steps use the two before them."""
    lines = ["question: Why does everybody leave the lighthouse, one after another?", ""]
    for number in range(steps):
        before, earlier = f"s{max(0, number - 1)}", f"s{max(0, number - 2)}"
        call = [
            f'FIND_CHARACTER(CTX, "keeper {number}")',
            f'FIND_RELATION(CTX, {before}, "the friend of {{{earlier}}}")',
            f"CONCAT({before}, {earlier})",
        ][number % 3]
        lines.append(f"{number + 1}. s{number} = {call} : Find what is said of keeper {number}")
    return "\n".join(lines) + "\n"


def edits(one: Editor, text: str, count: int) -> list[float]:
    """The milliseconds each edit took."""
    rows = text.split("\n")
    times = []
    for number in range(count):
        # A pair of edits takes back what it typed.
        line = 2 + (number // 2 * 7919) % (len(rows) - 3)
        opening = rows[line].index("(")
        places = (opening, opening) if number % 2 == 0 else (opening, opening + 1)
        ends = [{"line": line, "character": place} for place in places]
        typed = "(" if number % 2 == 0 else ""
        started = time.perf_counter()
        one.change(NAME, {"range": {"start": ends[0], "end": ends[1]}, "text": typed})
        one.found(NAME)
        times.append(1000 * (time.perf_counter() - started))
    return times


def checked(text: str) -> float:
    """The seconds of one reading and one check, without a server."""
    library = load_library()
    started = time.perf_counter()
    check(parse(text), library)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
