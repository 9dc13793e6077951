"""How often the first plan that a model writes is valid: constrained, and not.

    python -m benchmarks.constrain ROWS.jsonl [--questions N] [--data FILE] [--library NAME]

Asks the endpoint that is set (OPENAI_BASE_URL, PEARL_MODEL) for a plan for each of the first N
questions of a QuALITY file, once held to the grammar of plans and once free, as `pearl plan` asks
for it, and never corrects one. A row of ROWS.jsonl is a call; what stands there is not asked again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from pearl.evaluate.datasets.reading import read
from pearl.lang.diagnostics import Severity
from pearl.lang.errors import InputError
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lint.checker import check
from pearl.models.base import Model, ModelError
from pearl.models.constraints import Mode
from pearl.models.middleware.stack import start_engine
from pearl.models.routing import choose_model
from pearl.prompts.calls import WritePlan
from pearl.runtime.calls import Journal
from pearl.session import Session
from pearl.strategies.preparation import prepare
from pearl.strategies.registry import Prepared

DATA = Path(__file__).parent.parent.parent / "shared/data/quality/dev_20_articles.jsonl"
MODES: tuple[Mode, ...] = ("always", "never")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("rows", type=Path, help="where results are kept, and found again")
    options.add_argument("--questions", type=int, default=100)
    options.add_argument("--data", type=Path, default=DATA, help="a file of QuALITY articles")
    options.add_argument(
        "--library", default="", help="the actions; by default those of pearl plan"
    )
    options.add_argument("--no-demonstrations", action="store_true", help="show no other plans")
    chosen = options.parse_args()
    if not chosen.data.is_file():
        sys.exit(f"{chosen.data} is not there: name a file of QuALITY articles with --data.")
    try:
        questions = [one.question for one in islice(read(str(chosen.data)), chosen.questions)]
        library = load_library(chosen.library) if chosen.library else None
        model = choose_model()
        shown = () if chosen.no_demonstrations else None
        prepared = prepare("pearl", model.name, library, shown)
        done = {(row["question"], row["mode"]) for row in _rows(chosen.rows)}
        left = [(one, mode) for one in questions for mode in MODES if (one, mode) not in done]
        # By turns, so that both modes have the same neighbours on the machine.
        with chosen.rows.open("a", encoding="utf-8") as file:
            asyncio.run(_ask(left, prepared, model, file))
    except (InputError, ModelError) as error:
        sys.exit(str(error))
    _tell([row for row in _rows(chosen.rows) if row["question"] in questions])


def _rows(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


async def _ask(
    left: Sequence[tuple[str, Mode]], prepared: Prepared, model: Model, file: TextIO
) -> None:
    try:
        for question, mode in left:
            session = Session(start_engine(model, constrain=mode), Journal())
            row = await _first_plan(question, prepared, session)
            file.write(json.dumps({"question": question, "mode": mode, **row}) + "\n")
            file.flush()
    finally:
        await model.close()


async def _first_plan(question: str, prepared: Prepared, session: Session) -> dict[str, Any]:
    """The first reply to a question, and what the checker finds in it."""
    write = WritePlan(question, prepared.library, prepared.demonstrations)
    started = time.monotonic()
    reply = await session.caller()(write, "plan/1")
    seconds = time.monotonic() - started
    parsed = parse(reply.text)
    found = check(parsed, prepared.library)
    errors = [one.code for one in found if one.severity is Severity.ERROR]
    return {
        "valid": reply.complete and not errors,
        "complete": reply.complete,
        "errors": errors,
        "steps": len(parsed.plan.steps),
        "read": reply.usage.prompt_tokens,
        "written": reply.usage.completion_tokens,
        "seconds": round(seconds, 2),
        "plan": print_plan(parsed.plan),
        "reply": reply.text,
    }


def _tell(rows: Sequence[dict[str, Any]]) -> None:
    for mode in MODES:
        own = [row for row in rows if row["mode"] == mode]
        if not own:
            continue
        errors = Counter(code for row in own for code in set(row["errors"]))
        told = ", ".join(f"{code} {count}" for code, count in errors.most_common(6)) or "none"
        print(
            f"{'constrained' if mode == 'always' else 'free':11}  {len(own)} questions: "
            f"{sum(row['valid'] for row in own)} valid at the first try, "
            f"{sum(not row['complete'] for row in own)} cut at the token limit; "
            f"{statistics.mean(row['steps'] for row in own):.1f} steps, "
            f"{statistics.mean(row['written'] for row in own):.0f} tokens written and "
            f"{statistics.mean(row['seconds'] for row in own):.1f} s a plan; replies with: {told}"
        )


if __name__ == "__main__":
    main()
