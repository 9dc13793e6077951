"""Plans with mutated bytes against the parser, the rules, their fixes and the formatter.

python -m tests.fuzz.mutation 100000 [--seed 1] [--plans FILE.jsonl]: each input is a plan that
ships with Pearl (or a row's "plan" of the file) after some random edits. Prints what does not hold.
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pearl.lang.ast import Plan
from pearl.lang.diagnostics import Diagnostic, Severity
from pearl.lang.errors import InputError
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.rewriting import format_plan
from pearl.lang.rows import lines_of, plan_row
from pearl.lang.source import Source, plan_folders, read_source, shipped_plans
from pearl.lint.checker import check, check_library, fix

TOKENS = r'''
1. 2) - # ## #2 $x {x} {each x} {{x}} \ \_ \n " ' “ ” ‘ ’ « » ( ) [ ] { } （ ） 【 ， : ： = := ==
-> ← , ; | * ** ` ``` ~~~ """ < > <think> </think> <plan> return each where values evidence CTX
true false 1,000 3rd 50% 1e999 -0 0x1 99999999999999999999 CONCAT FIND_EVENT FLAT noqa PRL201
question: \{x} ... … é
の 🎯
'''.split()
LINES = (
    "\n", "\r\n", "\n\n", "\t", "  ", "# noqa", "# noqa: PRL202, PRL4", "New actions:\n",
    "- ASK(X) : Ask X\n", "return a, b\n", *"\u200b\ufeff\u00a0\u2028\x00\x0b\x85",
    "Here is the plan:\n", "a = F(CTX) : it",
)  # fmt: skip


def seeds(rows: str = "") -> list[bytes]:
    """Texts to start from: the plans that ship, or those of a file of JSON lines."""
    if rows:
        lines = lines_of(read_source(rows, "file of plans"))
        plans = (plan_row(line, name)["plan"] for name, line in lines)
        return [plan.encode("utf-8", "surrogatepass") for plan in plans]
    found = (file for folder in plan_folders() for file in shipped_plans(folder))
    return [file.read_bytes() for file in found]


def mutated(texts: Sequence[bytes], chance: random.Random) -> bytes:
    """One of the texts after one to eight edits, some with a part of another."""
    data = bytearray(chance.choice(texts))
    for _ in range(chance.choice((1, 1, 2, 3, 5, 8))):
        at = chance.randrange(len(data) + 1)
        to = min(len(data), at + chance.choice((1, 1, 2, 5, 20, 80)))
        match chance.randrange(7):
            case 0:
                data[at:to] = b""
            case 1:
                data[at:at] = chance.choice((*TOKENS, *LINES)).encode()
            case 2:
                data[at:to] = chance.choice((*TOKENS, *LINES)).encode()
            case 3:
                data[at:at] = data[at:to] * chance.choice((1, 2, 10))
            case 4:
                data[at:to] = bytes(chance.randrange(256) for _ in data[at:to])
            case 5:
                other = chance.choice(texts)
                start = chance.randrange(len(other) + 1)
                data[at:to] = other[start : start + chance.randrange(200)]
            case _:
                del data[at:]
    return bytes(data)


def problems(text: str, library: Library) -> Iterator[str]:
    """What does not hold of a text, each by its name; nothing else is ever raised."""
    source = Source("fuzz", text)
    parsed = parse(source)
    found = check(parsed, library)
    check_library(source)
    if parse(print_plan(parsed.plan)).plan != parsed.plan:
        yield "printed plan is read otherwise"
    try:
        formatted = format_plan(source)
    except InputError:
        formatted = ""
    if formatted:
        again = parse(formatted)
        if again.broken or _meaning(again.plan) != _meaning(parsed.plan):
            yield "fmt changes the meaning"
        elif format_plan(Source("fuzz", formatted)) != formatted:
            yield "fmt is not idempotent"
    for unsafe in (True, False):
        fixed = fix(source, library, unsafe=unsafe)
        if fixed.text == text:
            break  # Safe fixes are taken first: there is none of either kind.
        mended = parse(fixed)
        after = check(mended, library)
        name = "--fix --unsafe" if unsafe else "--fix"
        if len(mended.broken) < len(parsed.broken):
            continue  # A line that can be read at last may have findings of its own.
        more = len(after) > len(found) and len(mended.plan.steps) <= len(parsed.plan.steps)
        if _errors(after) > _errors(found):
            yield f"{name} adds an error"
        elif _errors(after) == _errors(found) and more:
            yield f"{name} ends with more findings"


def _meaning(plan: Plan) -> Plan:
    """A plan without the comments that text around it becomes."""
    steps = tuple(replace(step, comments=()) for step in plan.steps)
    return replace(plan, steps=steps, comments=(), head=())


def _errors(found: Sequence[Diagnostic]) -> int:
    return sum(one.severity is Severity.ERROR for one in found)


def attack(count: int, seed: int, plans: Sequence[bytes]) -> Iterator[tuple[str, str]]:
    """Mutate, and give each problem with the text that has it; an exception is one, too."""
    chance, library = random.Random(seed), load_library()
    for _ in range(count):
        text = mutated(plans, chance).decode("utf-8", "replace")
        try:
            for problem in problems(text, library):
                yield problem, text
        except Exception as error:  # noqa: BLE001 - this is what is looked for
            yield f"{type(error).__name__}: {error}"[:100], text


def report(count: int, what: str, found: Iterable[tuple[str, str | bytes]]) -> None:
    """Attack, and print a table of what did not hold, with the shortest input for each.

    Args:
        count: how many inputs there are.
        what: what they are.
        found: each problem with the input that has it; asked for them, it attacks.
    """
    counts: Counter[str] = Counter()
    shortest: dict[str, str | bytes] = {}
    started = time.monotonic()
    for problem, data in found:
        counts[problem] += 1
        shortest[problem] = min(shortest.get(problem, data), data, key=len)
    print(f"{count:,} {what} in {time.monotonic() - started:,.0f} s")
    for problem, number in counts.most_common():
        print(f"{number:7,}  {problem}: {shortest[problem]!r}")
    if not counts:
        print("everything held")


def main() -> None:
    """Attack as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plans", default="")
    given = parser.parse_args()
    report(given.count, "inputs", attack(given.count, given.seed, seeds(given.plans)))


if __name__ == "__main__":
    main()
