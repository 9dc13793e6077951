"""How long a plan takes, beside the longest chain of calls in it.

    python -m benchmarks.latency [--latency MS] [--plans N]

Runs plans that GPT-4 wrote (`../shared/data/pearl_gpt4`), one at a time, with
journal and cache, against a stub endpoint that takes 50 ms a call. A plan's
critical path is its longest chain of calls, at 50 ms each; joins are free.
The document's first call has returned before the clock starts: on a document
that no call has read yet, a plan's other first calls wait for that one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.stub import Stub
from benchmarks.workload import documents
from pearl.lang.ast import Plan
from pearl.lang.graph import dependencies
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.models.middleware.stack import Engine, start_engine
from pearl.models.routing import choose_model
from pearl.runtime.calls import Caller
from pearl.runtime.executor import Frame
from pearl.runtime.loop import run_strategy
from pearl.store.store import Store, open_store
from pearl.strategies.pearl import GivenPlan

SHARED = Path(__file__).parent.parent.parent / "shared" / "data" / "pearl_gpt4"
GOAL = 1.15


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--latency", type=float, default=50.0, help="milliseconds a call takes")
    options.add_argument("--plans", type=int, default=0, help="run the first N only")
    chosen = options.parse_args()
    if not SHARED.is_dir():
        sys.exit("The recorded plans are not beside this checkout: nothing to run.")
    library = load_library(str(SHARED / "mined_actions_81.txt"))
    rows = (SHARED / "train.ctx_eval_long.jsonl").read_text(encoding="utf-8").splitlines()
    plans = [parse(json.loads(row)["plan"]).plan for row in rows if row.strip()]
    runnable = [plan for plan in plans if _calls(plan, library)]
    if chosen.plans:
        runnable = runnable[: chosen.plans]
    with Stub(latency=chosen.latency / 1000) as stub:
        os.environ |= {"OPENAI_BASE_URL": stub.url, "OPENAI_API_KEY": "stub"}
        taken = asyncio.run(_run(runnable, library))
    _print([(plan, seconds) for plan, seconds in taken], library, chosen.latency / 1000, len(plans))


async def _run(plans: list[Plan], library: Library) -> list[tuple[Plan, float]]:
    taken: list[tuple[Plan, float]] = []
    model = choose_model("gpt-4o-mini")
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(str(Path(folder) / "store.db"))
        engine = start_engine(model, store)
        run = store.start("batch", {})
        warm = parse("a = SUMMARIZE(CTX) : all").plan
        text = documents()[0]
        # A document of its own for each plan, so that no call is answered from the cache.
        for number, plan in enumerate(plans):
            document = Source("document", f"Copy {number}.\n{text}")
            await _one(warm, document, load_library(), engine, store, run)
            started = time.perf_counter()
            await _one(plan, document, library, engine, store, run)
            taken.append((plan, time.perf_counter() - started))
        await model.close()
        store.close()
    return taken


async def _one(
    plan: Plan, document: Source, library: Library, engine: Engine, store: Store, run: str
) -> None:
    journal = store.journal(run)
    caller = Caller(engine.ask, engine.identity, journal)
    await run_strategy(GivenPlan(plan), "", Frame(document, library, caller))
    await journal.flush()


def _calls(plan: Plan, library: Library) -> int:
    """Calls to the model; 0 where the plan uses what the library lacks."""
    known = library.with_declared(plan.declares)
    actions = [known.get(step.action) for step in plan.steps]
    if not all(actions):
        return 0
    return sum(not action.is_builtin for action in actions if action)


def _longest(plan: Plan, library: Library) -> int:
    """Calls in the longest chain."""
    known = library.with_declared(plan.declares)
    depth: dict[str, int] = {}
    needs = dependencies(plan.steps)
    for step in plan.steps:
        action = known.get(step.action)
        own = 0 if action and action.is_builtin else 1
        depth[step.name] = own + max((depth[name] for name in needs[step.name]), default=0)
    return max(depth.values())


def _print(taken: list[tuple[Plan, float]], library: Library, latency: float, total: int) -> None:
    ratios = sorted(seconds / (_longest(plan, library) * latency) for plan, seconds in taken)
    within = sum(ratio <= GOAL for ratio in ratios)
    print(f"{len(taken)} of {total} plans (the others use actions that the library lacks)")
    print(
        f"wall-clock ÷ critical path: median {statistics.median(ratios):.3f}, "
        f"95 % {ratios[int(0.95 * len(ratios))]:.3f}, most {ratios[-1]:.3f}"
    )
    print(f"within {GOAL}: {within} of {len(ratios)}")
    speed = [_calls(plan, library) * latency / seconds for plan, seconds in taken]
    print(f"speed-up over one call after another: mean {statistics.mean(speed):.2f} ×")


if __name__ == "__main__":
    main()
