"""Files of every kind that a person hands to Pearl, mutated, against the commands that read them.

python -m tests.fuzz.files 2000 [--seed 1]: each input is a file that is right, after some random
edits of its bytes or of its JSON. A command may refuse it in a line; prints what does not hold.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.fuzz.mutation import mutated, report
from tests.shell import STORY, call

LONGEST = 10.0
"""Seconds that a command may take with a file of a few thousand bytes."""

ODD = (
    None, True, -1, 0, 1e308, 10**400, "", " ", "\ud800", "\u202ea\x1b[31m", "../x", "1e999", "nan",
    [], {}, [[[]]], [None], {"": None}, {"a": {"a": 1}}, "x" * 3000,
)  # fmt: skip
"""Values that JSON allows, and hardly anybody means."""

PLAN = 'a = FIND_EVENT(CTX, "Tom") : Find it\nans = FIND_REASON(CTX, a) : Say why\n'
QUESTIONS = [
    {"id": "q1", "question": "Why did Mara leave?", "document": {"text": STORY}, "gold": "Tom"},
    {"id": "q2", "question": "Who was sorry?", "document": "story.txt", "plan": PLAN, "gold": "x"},
    {"id": "q3", "question": "Who?", "document": "story.txt", "options": ["Mara", "Tom"],
     "gold": "A"},
]  # fmt: skip
OUTPUTS = {"a": "Tom was sorry.", "ans": "The Fund had closed it."}
RECORDED = [{"id": "r1", "plan": PLAN, "step_outputs": OUTPUTS, "open_answer": OUTPUTS["ans"]}]
LIBRARY = """# Actions for tales.
FIND_FRIEND(CTX, X) -> list : Find the friends of X in CTX
FIND_ALLY(CTX, X) : Find the allies of X in CTX
  replaces: FIND_HELPER(CTX, X, Y) = (CTX, "{X} of {Y}")
"""
CORPUS = [{"id": "p1", "title": "Mara", "text": STORY}, {"id": "p2", "title": "Tom", "text": "."}]

EVAL = "eval questions --methods pearl --data"
CONDENSE = "condense --rounds 0"
KINDS = {
    "questions.jsonl": ("batch F -o out.jsonl", "estimate F", f"{EVAL} F -o out.jsonl"),
    "mined.jsonl": ("mine F -o out.actions",),
    "tale.actions": ("lint F", "fmt --check F", "actions --library F", f"{CONDENSE} F -o out"),
    "recorded.jsonl": ("replay F", "migrate F -o out", "lint F"),
    "tools.toml": ("tools check F",),
    "schema.toml": ("generate commaqa --schema F --questions 3 -o out.jsonl",),
    "corpus.jsonl": ("index F -o out",),
    "evaluated.jsonl": ("report F", "report F --format markdown"),
    "story.txt": ("run good.plan F",),
    "run.plan": ("replay F", "lint F", "run F story.txt"),
}  # fmt: skip
"""The files by name, and the commands that read each; F is the file."""


def prepare(folder: Path) -> dict[str, bytes]:
    """Write files that are right, of every kind, and give them by name."""
    schema = next((ROOT / "pearl" / "commaqa").rglob("*.toml"))
    texts = {
        "questions.jsonl": _lines(QUESTIONS),
        "mined.jsonl": _lines([{key: row[key] for key in ("id", "question")} for row in QUESTIONS]),
        "tale.actions": LIBRARY,
        "recorded.jsonl": _lines(RECORDED),
        "tools.toml": (ROOT / "docs" / "tools.toml").read_text(encoding="utf-8"),
        "schema.toml": schema.read_text(encoding="utf-8"),
        "corpus.jsonl": _lines(CORPUS),
        "story.txt": STORY,
        "good.plan": PLAN,
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    here = (placed(word, folder, "questions.jsonl") for word in f"{EVAL} F".split())
    for words in (
        (*here, "-o", folder / "evaluated.jsonl"),
        ("run", folder / "good.plan", folder / "story.txt"),
        ("trace", "last", "-o", folder / "run.plan"),
    ):
        result = call(*words)
        assert result.code == 0, result.err
    return {name: (folder / name).read_bytes() for name in KINDS}


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def mutated_file(name: str, files: dict[str, bytes], chance: random.Random) -> bytes:
    """A file after some edits: of its bytes, or of what its JSON holds."""
    data = files[name]
    if name.endswith(".jsonl") and chance.random() < 0.7:
        rows = [json.loads(line) for line in data.splitlines()]
        for _ in range(chance.choice((1, 1, 2))):
            _edit(chance.choice(rows), chance)
        return _lines(rows).encode()
    return mutated([data], chance)


def _edit(data: Any, chance: random.Random) -> None:
    """Put something odd somewhere into JSON data that has parts."""
    places = list(data) if isinstance(data, dict) else list(range(len(data)))
    if not places:
        return
    at = chance.choice(places)
    if isinstance(data[at], dict | list) and data[at] and chance.random() < 0.8:
        _edit(data[at], chance)
    elif isinstance(data, dict) and chance.random() < 0.2:
        del data[at]
    else:
        data[at] = deepcopy(chance.choice(ODD))


STEERS = re.compile("[\x1b\u202a-\u202e\u2066-\u2069]")
"""What would move a terminal's cursor, colour it, or turn its text around."""


def problem(words: list[str], file: Path) -> str:
    """What does not hold of a command that reads a file; empty where all does."""
    before = file.read_bytes()
    started = time.monotonic()
    try:
        result = call(*words)
    except KeyboardInterrupt:
        raise
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - this is looked for
        return f"{type(error).__name__}: {error}"[:200]
    if time.monotonic() - started > LONGEST:
        return f"takes more than {LONGEST:g} s"
    said = result.out + result.err
    if "Traceback" in said or "Pearl itself failed" in said:
        return next(line for line in said.splitlines() if "Trace" in line or "itself" in line)[:200]
    if result.code not in (0, 1, 2):
        return f"ends with {result.code}"
    if result.code and not said.strip():
        return "fails and says nothing"
    if file.read_bytes() != before:
        return "changes what it reads"
    if steers := STEERS.search(said):
        return f"prints {steers[0]!a}"
    try:
        for row in _rows(file.with_name("out.jsonl")):
            json.loads(row, parse_constant=int)
    except ValueError as error:
        return f"writes what is no JSON: {error}"
    return ""


def _rows(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").split("\n")[:-1] if file.is_file() else []


def attack(count: int, seed: int) -> Iterator[tuple[str, str, bytes]]:
    """Mutate, and give each problem with its command and the file that has it."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        # Neither the store nor the model of whoever attacks.
        patch.setenv("PEARL_STORE", str(Path(place) / "store.db"))
        for setting in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "PEARL_MODEL"):
            patch.delenv(setting, raising=False)
        files = prepare(Path(place))
        for _ in range(count):
            name = chance.choice(list(files))
            command = chance.choice(KINDS[name])
            data = mutated_file(name, files, chance)
            words, file = in_folder(Path(place), name, command, data)
            if found := problem(words, file):
                yield found, command.replace("F", name, 1), data
            shutil.rmtree(file.parent)


def in_folder(home: Path, name: str, command: str, data: bytes) -> tuple[list[str], Path]:
    """A command on a file in a new folder, with what it reads beside it: its words, and the file.

    Args:
        home: what `prepare` has written; the folder is in it, and goes with it.
        name: the file's.
        command: of `KINDS`.
        data: the file.
    """
    folder = Path(tempfile.mkdtemp(dir=home))
    for other in ("story.txt", "good.plan"):
        shutil.copy(home / other, folder)
    (folder / name).write_bytes(data)
    return [placed(word, folder, name) for word in command.split()], folder / name


def placed(word: str, folder: Path, name: str) -> str:
    """A word of a command, with files in the folder that the attack is made in."""
    if word == "F":
        return str(folder / name)
    return str(folder / word) if "." in word or word == "out" else word


def main() -> None:
    """Attack as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    every = attack(given.count, given.seed)
    report(given.count, "files", ((f"pearl {line}: {found}", data) for found, line, data in every))


if __name__ == "__main__":
    main()
