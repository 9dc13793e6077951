"""Multi-hop questions answered by a language model, by every method that is for them.

    python -m benchmarks.multihop --model NAME [--data FOLDER] [--methods NAMES]
    python -m benchmarks.multihop --turns [--data FOLDER]

The model is one of the endpoint that is set (OPENAI_API_KEY, OPENAI_BASE_URL). For each set: the
share of supporting paragraphs among the first 2 and 5 that plain BM25 finds by the question, and
that the searches of FSM name by the sub-questions; and for each method exact match, F1, facts' F1,
the shares of first and of last replies in the demanded form, calls a question, tokens read and
written, and questions without an answer. FSM's machines are measured with states as turns of one
conversation too.

With --turns no model is asked: replies are written from a question's gold paragraphs, a hop each,
so that both ways go through the same states, and what is printed is the tokens that their prompts
have, and how many of them no earlier prompt of the question begins with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

if not __package__:
    sys.path.insert(0, str(Path(__file__).parent.parent))

from pearl.evaluate.datasets import DATASETS
from pearl.evaluate.datasets.base import Example
from pearl.evaluate.datasets.multihop import MultiHop
from pearl.evaluate.supporting_facts import recall
from pearl.lang.library import load_library
from pearl.models.base import Reply, Request
from pearl.models.tokens import count_tokens
from pearl.prompts.calls import FillSchema
from pearl.retrieval.retriever import DocumentRetriever
from pearl.runtime.calls import Caller, Journal
from pearl.runtime.executor import Frame
from pearl.runtime.loop import run_strategy
from pearl.strategies.fsm import Fsm, FsmLimits
from pearl.strategies.fsm_states import FSM2
from pearl.strategies.registry import MACHINES

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
    options.add_argument("--model", default="")
    options.add_argument("--turns", action="store_true")
    chosen = options.parse_args()
    if chosen.turns:
        for name, file in FILES.items():
            tell_turns(name, chosen.data / file)
        return
    if not chosen.model:
        options.error("name a model with --model, or measure prompts with --turns.")
    if chosen.model == "offline":
        options.error("it measures what a language model does: name one with --model.")
    for name, file in FILES.items():
        path = chosen.data / file
        plain = bm25(name, path)
        started = time.perf_counter()
        rows = evaluated(name, path, chosen.methods, chosen.model)
        machines = [one for one in chosen.methods.split(",") if one in MACHINES]
        if machines:
            told = evaluated(name, path, ",".join(machines), chosen.model, "--turns")
            rows |= {f"{method} --turns": one for method, one in told.items()}
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


def evaluated(
    name: str, path: Path, methods: str, model: str, *more: str
) -> dict[str, dict[str, Any]]:
    """What every method came to, by its name and the question's id."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "rows.jsonl"
        told = ["--data", str(path.resolve()), "--methods", methods, "--model", model, *more]
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
    for method, answered in rows.items():
        machine, *turns = method.split()
        if machine in MACHINES:
            searched = {at: row["measures"] for at, row in answered.items()}
            sources[" ".join((machine.upper(), *turns)) + ", sub-questions"] = searched
    for source, measures in sorted(sources.items()):
        means = [mean(list(plain), measures, recalled) for recalled in RECALLS]
        print(f"  {source:32} {means[0]:6.1f} {means[1]:6.1f}")


def tell_answers(ids: Sequence[str], rows: Mapping[str, Mapping[str, Any]]) -> None:
    head = f"  {'method':14} {'EM':>6} {'F1':>6} {'facts F1':>9} {'format':>7} {'final':>7}"
    print(f"{head} {'calls':>6} {'read':>7} {'written':>7} {'without':>8}")
    for method, answered in rows.items():
        measures = {
            at: {**row["measures"], **row["usage"], "calls": row["calls"]}
            for at, row in answered.items()
        }
        without = sum(not answered.get(at, {}).get("answer") for at in ids)
        has_facts = any("sp_f1" in measured for measured in measures.values())
        facts = f"{mean(ids, measures, 'sp_f1'):9.1f}" if has_facts else f"{'–':>9}"
        print(
            f"  {method:14} {mean(ids, measures, 'exact_match'):6.1f} "
            f"{mean(ids, measures, 'f1'):6.1f} {facts} {mean(ids, measures, 'format'):7.1f} "
            f"{mean(ids, measures, 'format_final'):7.1f} "
            f"{mean(ids, measures, 'calls') / 100:6.2f} "
            f"{mean(ids, measures, 'prompt_tokens') / 100:7,.0f} "
            f"{mean(ids, measures, 'completion_tokens') / 100:7,.0f} {without:8}",
            flush=True,
        )


def tell_turns(name: str, path: Path) -> None:
    """Tokens of FSM2's prompts, each state by itself and as turns of one conversation."""
    dataset = next(one for one in DATASETS if one.name == name)
    examples = list(dataset.read(str(path), ""))
    print(f"{name}: {len(examples)} questions {'calls':>9} {'tokens read':>12} {'not cached':>11}")
    for turns in (False, True):
        scripts = [asyncio.run(walked(example, turns=turns)) for example in examples]
        calls, read, fresh = (
            sum(counted) / len(examples)
            for counted in zip(*(script.counted() for script in scripts), strict=True)
        )
        title = "turns of one conversation" if turns else "each state by itself"
        print(f"  {title:26} {calls:9.1f} {read:12,.0f} {fresh:11,.0f}", flush=True)


@dataclass
class Script:
    """Says that each gold paragraph is a hop, and what its first sentence is."""

    example: Example
    asked: list[str] = field(default_factory=list)
    hops: int = 0

    async def __call__(self, request: Request) -> Reply:
        call, data, gold = request.call, self.example.data, self.example.gold
        assert isinstance(call, FillSchema)
        assert isinstance(data, MultiHop)
        self.asked.append("\n".join(message["content"] for message in request.messages))
        titles = list(dict.fromkeys(fact.title for fact in data.facts))
        title = titles[min(self.hops, len(titles) - 1)]
        paragraph = next(one for one in data.paragraphs if one.title == title)
        sentence = next(one.text for one in paragraph.sentences if one.text)
        told: Mapping[str, Mapping[str, Any]] = {
            "decompose": {"kind": "compound", "sub_question": f"What does {title} say?"},
            "search": {"answer": f"fact {self.hops + 1}", "evidence": [sentence], "title": title},
            "revise": {"type": "composition", "question": f"{self.example.question} {title}"},
            "judge": {"same": self.hops >= len(titles)},
            "summarise": {"answer": gold},
            "review": {
                "answer": gold,
                "supporting_facts": [sentence],
                "triples": [["it", "is", "so"]],
                "explanation": "It follows.",
            },
        }
        state = call.schema.name.removeprefix("fsm_")
        self.hops += state == "search"
        return Reply(json.dumps(told[state]))

    def counted(self) -> tuple[int, int, int]:
        """Calls, tokens read, and those of them that no earlier prompt begins with."""
        read = [count_tokens(text, "gpt-4o") for text in self.asked]
        begun = [max((shared(text, one) for one in self.asked[:at]), default=0)
                 for at, text in enumerate(self.asked)]  # fmt: skip
        cached = sum(
            count_tokens(text[:end], "gpt-4o") for text, end in zip(self.asked, begun, strict=True)
        )
        return len(read), sum(read), sum(read) - cached


def shared(text: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(text, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


async def walked(example: Example, *, turns: bool) -> Script:
    script, document = Script(example), example.document
    caller = Caller(script, "script", Journal())
    strategy = Fsm(FSM2, caller, document, FsmLimits(), turns=turns)
    library, handlers = load_library("fsm"), strategy.handlers
    frame = Frame(document, library, caller, handlers=handlers)
    await run_strategy(strategy, example.question, frame)
    return script


def mean(ids: Sequence[str], measures: Mapping[str, Mapping[str, float]], key: str) -> float:
    """In per cent; a question without a result counts as 0."""
    return 100 * sum(measures.get(at, {}).get(key, 0.0) for at in ids) / (len(ids) or 1)


if __name__ == "__main__":
    main()
