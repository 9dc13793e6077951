"""Measures Pearl's engine beside its peers, on the same work against the same stub endpoint.

    python -m benchmarks.engine [--python PEERS_PYTHON] [--only pearl,plain] [--json FILE]

300 plans of six steps (three finds, two compares of them, one local join) on
24,000-character documents, 32 plans at a time, with 0 and 50 ms a call. Every
peer is a process of its own; rounds are interleaved, so that a slow moment of
the machine falls on all; figures are medians. The peers' packages are the
extra `bench`, and may be another Python's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.stub import ROOT, Stub
from benchmarks.stub_load import measure
from benchmarks.workload import AT_ONCE, PLANS

LIMIT = 900
"""Seconds after which a peer is given up."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Something that runs the plans.

    Args:
        module: its file in ``benchmarks/peers``.
        about: what it is, for the table.
        goal: how many times its plans a second Pearl is to run.
    """

    module: str
    about: str
    goal: float = 0.0


PEERS = {
    "pearl": Peer("with_pearl", "Pearl, journal and cache on"),
    "plain": Peer("plain", "AsyncOpenAI, default transport", 1.6),
    "plain-aiohttp": Peer("plain_aiohttp", "AsyncOpenAI, aiohttp transport"),
    "aiohttp": Peer("bare_aiohttp", "bare aiohttp", 0.9),
    "langgraph": Peer("with_langgraph", "LangGraph + langchain-openai", 2.5),
    "dspy": Peer("with_dspy", "DSPy, its own engine", 1.7),
    "dspy-litellm": Peer("with_dspy_litellm", "DSPy over litellm", 1.7),
    "pydantic-ai": Peer("with_pydantic_ai", "pydantic-ai", 3.5),
}
MEMORY = 100
"""MB that Pearl may hold at most."""

PROCESSOR = 4
"""Milliseconds of processor time that Pearl may need for a plan."""

PACKAGES = "openai aiohttp langgraph langchain-openai dspy litellm pydantic-ai-slim".split()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--python", default=sys.executable, help="the peers' Python")
    options.add_argument("--only", default="", help=f"of {', '.join(PEERS)}")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--plans", type=int, default=PLANS)
    options.add_argument("--at-once", type=int, default=AT_ONCE, help="plans at a time")
    options.add_argument("--latency", default="0,50", help="milliseconds a call takes")
    options.add_argument("--json", type=Path, help="write all figures to this file, too")
    chosen = options.parse_args()
    names = chosen.only.split(",") if chosen.only else list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        options.error(f"there is no peer called {unknown[0]}: choose of {', '.join(PEERS)}")
    versions = _versions(chosen.python)
    print(f"{chosen.plans} plans, {chosen.at_once} at a time, median of {chosen.rounds} rounds")
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    with Stub() as stub:
        print(f"the stub alone answers {measure(stub, 10_000):,.0f} requests/s")
    results: dict[str, dict[str, Any]] = {}
    for latency in chosen.latency.split(","):
        figures, skipped = _measured(names, float(latency), chosen)
        results[f"{latency} ms"] = figures
        _print_table(f"{latency} ms a call", figures, skipped)
        if "pearl" in figures and float(latency):
            _print_goals(figures)
    if chosen.json:
        told = {"plans": chosen.plans, "versions": versions, "results": results}
        chosen.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _measured(
    names: list[str], latency: float, chosen: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, str]]:
    """Medians by peer, and the reasons of those that were skipped."""
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    skipped: dict[str, str] = {}
    with Stub(latency=latency / 1000) as stub:
        for number in range(chosen.rounds):
            # Nobody is always the first, on a processor that may still be cool.
            for name in names[number % len(names) :] + names[: number % len(names)]:
                if name not in skipped:
                    _run(name, stub, chosen, taken, skipped)
    figures = {}
    for name, rounds in taken.items():
        if name not in skipped:
            middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
            figures[name] = {**middle, "rounds": [one["plans_per_second"] for one in rounds]}
    return figures, skipped


def _run(
    name: str,
    stub: Stub,
    chosen: argparse.Namespace,
    taken: dict[str, list[dict[str, float]]],
    skipped: dict[str, str],
) -> None:
    """Run one peer once, as a process of its own."""
    python = sys.executable if name == "pearl" else chosen.python
    stub.reset()
    module = f"benchmarks.peers.{PEERS[name].module}"
    amount = (f"--plans={chosen.plans}", f"--at-once={chosen.at_once}")
    done = subprocess.run(
        [python, "-m", module, "--url", stub.url, *amount],
        cwd=ROOT,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    if not done.returncode:
        taken[name].append(json.loads(done.stdout.splitlines()[-1]))
        return
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    if not reason.startswith(("ModuleNotFoundError", "ImportError", "NotImplementedError")):
        sys.exit(f"{name} failed:\n{done.stderr}")
    skipped[name] = reason.partition(": ")[2]


def _environment() -> dict[str, str]:
    """An environment in which no library finds a key, a proxy or a place to send traces to."""
    unwanted = ("OPENAI_", "LANGSMITH_", "LANGCHAIN_", "LOGFIRE_", "DSPY_", "LITELLM_", "OTEL_")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(unwanted) and not name.lower().endswith("_proxy")
    }
    # litellm and DSPy would look their prices up on the network, and wait for it.
    return {**kept, "LANGSMITH_TRACING": "false", "LITELLM_LOCAL_MODEL_COST_MAP": "true"}


def _print_table(title: str, figures: dict[str, Any], skipped: dict[str, str]) -> None:
    base = figures.get("plain", {}).get("plans_per_second")
    heads = (
        f"{'plans/s':>9}{'× plain':>9}{'CPU ms/plan':>13}{'peak MB':>9}{'calls':>7}{'tokens':>8}"
    )
    print(f"\n{title:33}{heads}")
    for name, one in sorted(figures.items(), key=lambda pair: -pair[1]["plans_per_second"]):
        ratio = f"{one['plans_per_second'] / base:.2f}" if base else "–"
        print(
            f"{PEERS[name].about:33}{one['plans_per_second']:9.0f}{ratio:>9}"
            f"{1000 * one['cpu_seconds'] / one['plans']:13.1f}{one['peak_rss_mb']:9.0f}"
            f"{one['calls']:7.0f}{one['prompt_tokens_a_call']:8.0f}"
        )
    for name, reason in skipped.items():
        print(f"{PEERS[name].about:33}  skipped: {reason}")
    if figures:
        busiest = max(one["stub_cpu_seconds"] / one["seconds"] for one in figures.values())
        print(
            f"tokens: of the prompt, a call. The stub was busy {busiest:.0%} of the time at most."
        )


def _print_goals(figures: dict[str, Any]) -> None:
    """Compare Pearl with the goals, which are for calls that take time, as a model's do."""
    ours = figures["pearl"]
    for name, one in figures.items():
        if goal := PEERS[name].goal:
            ratio = round(ours["plans_per_second"] / one["plans_per_second"], 2)
            verdict = "reached" if ratio >= goal else "MISSED"
            print(f"Pearl is {ratio:.2f} × {PEERS[name].about} (goal {goal} ×: {verdict})")
    spent = 1000 * ours["cpu_seconds"] / ours["plans"]
    for about, figure, most, unit in (
        ("held", ours["peak_rss_mb"], MEMORY, "MB"),
        ("needed", spent, PROCESSOR, "ms of processor time a plan"),
    ):
        verdict = "reached" if figure <= most else "MISSED"
        print(f"Pearl {about} {figure:.1f} {unit} (goal {most}: {verdict})")


def _versions(python: str) -> dict[str, str]:
    """The versions of the peers' packages, of those that are there."""
    code = (
        "import importlib.metadata as m, json, sys\n"
        "found = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try: found[name] = m.version(name)\n"
        "    except m.PackageNotFoundError: pass\n"
        "print(json.dumps(found))"
    )
    done = subprocess.run([python, "-c", code, *PACKAGES], capture_output=True, check=True)
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    main()
