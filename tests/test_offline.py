"""The embedded reader: no model, but honest, deterministic, and clean."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pearl
from pearl.library import Library, load_library
from pearl.llm import WritePlan
from pearl.llm.offline import Offline, planning
from pearl.llm.offline.text import sentences
from tests.conftest import ROOT

QUESTIONS = [
    json.loads(line)
    for file in sorted((ROOT / "plans" / "examples").glob("*.questions.jsonl"))
    for line in file.read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row["id"])
def test_every_example_question_is_answered_with_the_documents_words(row: dict, examples: Path):
    document = (examples / row["document"]).read_text(encoding="utf-8")
    answer = pearl.ask_sync(
        examples / row["document"], row["question"], options=row["options"], model=Offline()
    )
    assert answer.evidence
    for quote in answer.evidence:
        assert quote.span
        assert document[quote.span.start : quote.span.end] == quote.text
    assert answer.option
    assert answer.option.text in row["options"]
    assert pearl.check(answer.plan) == []
    assert "No language model" in answer.notice
    for evidence in row["evidence"]:
        assert evidence in document


@pytest.mark.parametrize("library", [load_library(), load_library("core")], ids=["default", "core"])
def test_plans_check_clean(library: Library):
    for row in QUESTIONS:
        plan = planning.write(WritePlan(row["question"], library))
        assert pearl.check(plan, library) == [], plan


def test_plans_for_questions_nobody_tuned_for(shared: Path):
    file = shared / "quality" / "questions_outside_challenge_set.jsonl"
    library = load_library(str(shared / "pearl_gpt4" / "mined_actions_81.txt"))
    for line in file.read_text(encoding="utf-8").splitlines()[::5]:
        plan = planning.write(WritePlan(json.loads(line)["question"], library))
        assert pearl.check(plan, library) == [], plan


def test_two_processes_give_one_answer(examples: Path, tmp_path: Path):
    words = [sys.executable, "-m", "pearl", "ask", examples / "lighthouse.txt",
             "Why does Mara leave the lighthouse?", "--json"]  # fmt: skip
    found = []
    for seed in ("1", "2"):
        done = subprocess.run(
            words, capture_output=True, check=True, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        data = json.loads(done.stdout)
        found.append({key: data[key] for key in ("answer", "evidence", "plan")})
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "text",
    [
        "One sentence only.",
        "no end and no capitals here at all",
        "42 17 3\n\n8 9",
        "Ада уехала. Она не вернулась.\n\nОстров закрыт.",
        "- a list\n- of things\n- without sentences",
        "?" * 50,
    ],
)
def test_documents_that_are_no_prose(text: str):
    answer = pearl.ask_sync(pearl.Source("x.txt", text), "Why did Ada leave?", model=Offline())
    for quote in answer.evidence:
        assert quote.text in text


def test_a_long_document_is_read_to_its_end():
    filler = "The tide came in and went out again over the grey stones. " * 20_000
    text = filler + "\n\nThe zeppelin burned because the mooring rope had frayed."
    answer = pearl.ask_sync(
        pearl.Source("x.txt", text), "Why did the zeppelin burn?", model=Offline()
    )
    assert "zeppelin" in answer.text


def test_what_is_said_in_quotes_stays_whole():
    text = '"No. That is so. I liked it," he said. She left.\n\n"Then go. Now!" Mr. Orde was in.'
    found = [text[span.start : span.end] for span in sentences(text)]
    assert found == [
        '"No. That is so. I liked it," he said.',
        "She left.",
        '"Then go. Now!"',
        "Mr. Orde was in.",
    ]


def test_planning_knows_no_action_by_name():
    source = Path(planning.__file__).read_text(encoding="utf-8")
    for name in load_library().actions:
        assert name not in source
