"""How many calls recorded plans on one document have in common, as a table.

    python -m benchmarks.sharing [RECORDED.jsonl --library FILE]

The recorded rows do not name their document. Their numbers are places in
QuALITY's order, where the questions on an article stand in two blocks, so rows
are put together by it and by the names that their answers mention: a name that
occurs in at most two blocks belongs to one article. An answer that names nobody
is taken to be alone on its document, so the shares are rather too low.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from benchmarks.shared_calls import Sharing, shared_calls
from pearl.lang.ast import Plan
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse

ROOT = Path(__file__).parent.parent
RECORDED = ROOT.parent / "shared" / "data" / "pearl_gpt4" / "train.ctx_eval_long.jsonl"
LIBRARY = RECORDED.parent / "mined_actions_81.txt"

# How far apart in QuALITY's order questions on one article stand, in each of its two blocks.
BLOCK = 10
# How many mentions of the same names make two answers be about one document.
NEAR, FAR = 2, 4
# Capitalised words inside a sentence.
NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]{2,}\b")


@dataclass(frozen=True)
class Row:
    """A recorded plan: its question's number, its run, and what its answer says."""

    question: int
    run: int
    plan: Plan
    text: str


def read_options(about: str) -> argparse.Namespace:
    """The file of recorded plans and the library that a person names.

    Args:
        about: the benchmark's docstring, whose first line ``--help`` shows.
    """
    options = argparse.ArgumentParser(description=about.splitlines()[0])
    options.add_argument("recorded", nargs="?", type=Path, default=RECORDED)
    options.add_argument("--library", default=str(LIBRARY))
    chosen = options.parse_args()
    if not chosen.recorded.exists():
        raise SystemExit(f"{chosen.recorded} is not there: give a file of recorded plans.")
    return chosen


def main() -> None:
    chosen = read_options(__doc__ or "")
    rows = read(chosen.recorded)
    library = load_library(chosen.library)
    documents = grouped(rows)
    first = [row for row in rows if row.run == 0]
    print(
        f"{len(rows)} plans for {len(documents)} questions, "
        f"taken to be on {len(set(documents.values()))} documents\n"
    )
    print(f"{'share of calls to a model saved':44} calls   call   +note  +names")
    report("one document, different questions (run 0)", by_document(first, documents), library)
    several = [group for group in by_document(first, documents) if len(group) > 1]
    report("  of these, documents with several plans", several, library)
    report("one document, both runs", by_document(rows, documents), library)
    twice = by_document(rows, {number: number for number in documents})
    pairs = [one for one in twice if len(one) > 1]
    report("one question, planned twice", pairs, library)
    second = sum(shared_calls(plans[1:], library).total for plans in pairs)
    report("  of these, the second plan's calls", pairs, library, second)
    report("each plan alone", [[row.plan] for row in rows], library)
    print(
        "\ncall: the same action on the same inputs; +note: the same notes as well;\n"
        "+names: the same names of steps as well, so that prompts are the same to the letter."
    )


def read(path: Path) -> list[Row]:
    """The rows of a file of recorded plans."""
    rows = []
    for line in path.open(encoding="utf-8"):
        row = json.loads(line)
        texts = [row.get("open_answer") or "", *(row.get("step_outputs") or {}).values()]
        rows.append(Row(int(row["qid"]), int(row["run"]), parse(row["plan"]).plan, " ".join(texts)))
    return rows


def grouped(rows: Iterable[Row]) -> dict[int, int]:
    """For every question the first question that is on the same document."""
    names: dict[int, Counter[str]] = defaultdict(Counter)
    for row in rows:
        names[row.question].update(NAME.findall(row.text))
    questions = sorted(names)
    where: dict[str, list[int]] = defaultdict(list)
    for number in questions:
        for name in names[number]:
            where[name].append(number)
    telling = {name for name, numbers in where.items() if _fits(numbers)}
    pairs = [
        (_ties(names[one], names[other], telling), one, other)
        for one, other in combinations(questions, 2)
    ]
    groups = {number: [number] for number in questions}
    # The surest pairs first, so that a doubtful one cannot take a place in a group.
    for ties, one, other in sorted(pairs, key=lambda pair: (-pair[0], pair[2] - pair[1])):
        if ties < (NEAR if other - one <= BLOCK else FAR):
            continue
        both = sorted({*groups[one], *groups[other]})
        if _fits(both):
            groups.update(dict.fromkeys(both, both))
    return {number: groups[number][0] for number in questions}


def _ties(one: Counter[str], other: Counter[str], telling: set[str]) -> int:
    """How often both answers mention telling names, the same ones."""
    return sum(min(one[name], other[name]) for name in one.keys() & other.keys() & telling)


def _fits(numbers: Sequence[int]) -> bool:
    """Whether numbers in order may be those of one article: two blocks at most."""
    starts = [numbers[0]]
    for number in numbers:
        if number - starts[-1] > BLOCK:
            starts.append(number)
    return len(starts) <= 2


def by_document(rows: Iterable[Row], documents: dict[int, int]) -> list[list[Plan]]:
    """Plans, those on one document together."""
    found: dict[int, list[Plan]] = defaultdict(list)
    for row in rows:
        found[documents[row.question]].append(row.plan)
    return list(found.values())


def report(title: str, groups: Iterable[Sequence[Plan]], library: Library, total: int = 0) -> None:
    """Print one line of the table: shares of all calls, or of a total that is given."""
    found: list[Sharing] = [shared_calls(plans, library) for plans in groups]
    total = total or sum(one.total for one in found)
    saved = (
        sum(one.saved for one in found),
        sum(one.saved_noted for one in found),
        sum(one.saved_prompted for one in found),
    )
    print(f"{title:44} {total:5}" + "".join(f"  {part / total:6.1%}" for part in saved))


if __name__ == "__main__":
    main()
