"""Every strategy and method on a real small model: each keeps to its limits, and ends in words.

SmolLM2-135M answers hardly anything and writes hardly any JSON; what is shown is that its replies
are held to their forms, that no more is asked than was allowed, and that a refusal is one line.
These take minutes, and are run by themselves: ``python -m pytest -m slow``.
"""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pearl.commaqa.world import read_worlds
from pearl.evaluate.methods import find_method
from tests.runs import entries
from tests.shell import call, write_rows
from tests.test_local import ABSENT, FILE
from tests.test_model_search import demonstrations
from tests.test_multihop_data import ROW

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("llama"),
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("xllamacpp") is None or not FILE.is_file(), reason=ABSENT),
]
CALLS = 3
PLANNING = 12
"""Calls that PEARL may take, which has limits of its own: of tries at a plan, and at each step."""


@pytest.fixture(autouse=True)
def _alone(_alone: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One test of a machine's at a time, with replies that are held to their forms."""
    monkeypatch.setenv("PEARL_CONSTRAIN", "auto")
    monkeypatch.setenv("PEARL_MAX_TOKENS", "24")
    monkeypatch.setenv("PEARL_THREADS", "1")
    with (Path(tempfile.gettempdir()) / "pearl-llama.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def evaluated(dataset: str, data: str, method: str, *options: str) -> None:
    """Evaluate a method on a question, and see how it ended."""
    limit = ("--calls", str(CALLS)) if "calls" in find_method(method).uses else ()
    found = call("eval", dataset, "--data", data, "--methods", method, "--model", "local",
                 *limit, "--limit", "1", "--json", *options)  # fmt: skip
    [row] = call("runs", "show", found.json["run"], "--json").json["rows"]
    result: dict[str, Any] = row["result"]
    assert 1 <= result["calls"] <= (PLANNING if method == "pearl" else CALLS)
    if row["status"] == "failed":
        message = row["error"]["message"]
        assert message.strip()
        assert "\n" not in message
        assert "failed in a way" not in message, message
    else:
        assert result["answer"] is not None
    made = entries(".pearl/store.db", row["id"])
    forms = {entry.value for entry in made if entry.path.endswith("/constrained")}
    assert forms <= {"json_schema", "grammar"}
    # What reads facts answers in words of its own.
    assert forms or method.endswith("-facts")


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("pearl", ""), ("decomp", ""), ("fsm1", ""), ("fsm1", "--turns"), ("fsm2", "--turns"),
        ("rebel", ""), ("rebel", "--tools none --depth 0"), ("react", ""),
        ("normal-evidence", ""), ("cot-evidence", ""), ("sp-cot-evidence", ""),
        ("react-evidence", ""),
    ],
)  # fmt: skip
def test_a_question_over_paragraphs(method: str, options: str):
    evaluated("hotpotqa", write_rows("data.json", [ROW]), method, *options.split())


@pytest.mark.parametrize("method", ["gold-facts", "found-facts", "all-facts", "tmn-model"])
def test_a_question_of_a_world(method: str, tmp_path: Path):
    told = ("--schema", "explicit", "--questions", "2", "--seed", "3", "-o", "w.jsonl")
    assert call("generate", "commaqa", *told).code == 0
    _, other = (question for world in read_worlds("w.jsonl") for question in world.questions)
    demos = ("--demos", str(demonstrations(tmp_path / "d", [other])))
    evaluated("commaqa", "w.jsonl", method, *(demos if "demos" in find_method(method).uses else ()))
