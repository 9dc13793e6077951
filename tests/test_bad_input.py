"""Bad input gets one clear line that says what to do, and leaves nothing half-written."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import unicodedata
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import pearl
from pearl.jobs.answer_metrics import holds
from pearl.lang.output_files import replacing
from pearl.lang.source import Source
from pearl.lang.text import normalized
from pearl.models.embeddings import TfIdf
from pearl.prompts.render import fenced
from pearl.retrieval.converters import read_document
from pearl.retrieval.retriever import DocumentRetriever
from pearl.store.store import open_store
from tests.forks import ROOT, Fork
from tests.runs import runs
from tests.server import Serve, Server, completion, dripping, failing
from tests.shell import BAD, GOOD, STORY, Result, call, command, one_line

ASK = "Why did Mara leave?"
QUESTION = {"id": "a", "question": ASK, "document": "story.txt", "gold": "x"}
"""The row of q.jsonl."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind, written once."""
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_files()
    return folder


@pytest.fixture(autouse=True)
def _files(prepared: Path, tmp_path: Path) -> None:
    shutil.copytree(prepared, tmp_path, symlinks=True, dirs_exist_ok=True)


def write_files() -> None:
    files: dict[str, str | bytes] = {
        "story.txt": STORY,
        "good.plan": GOOD,
        "bad.plan": BAD,
        "free.plan": GOOD.partition("\n")[2],
        "empty.txt": "",
        "blank.txt": " \n\t\n",
        "lease.pdf": b"%PDF-1.4\nwords that look like text\n",
        "lease.docx": b"PK\x03\x04\x14\x00",
        "binary.txt": b"\x7fELF\x00\x01\x02",
        "latin.txt": "Mara était là".encode("latin-1"),
        "form.pdf": b"%PDF-1.4\n\xe9\n",
        "utf16.txt": "Mara left.".encode("utf-16"),
        "utf32.txt": "Mara left.".encode("utf-32"),
        "bare16.txt": "Mara left.".encode("utf-16-le"),
        "deep.jsonl": "[" * 100_000,
        "twice.jsonl": '{"id": "a", "id": "b", "question": "x?", "document": "story.txt"}\n',
        "labels.jsonl": '{"plan": "a = CONCAT(1)", "labels": {"kind": "x", "kind": "y"}}\n',
        "digits.jsonl": f'{{"id": {"1" * 5000}}}\n',
        "large.jsonl": '{"id": "1", "question": "x", "document": "story.txt", "gold": 1e999}\n',
        "table.csv": "id,question\n1,Why?\n2,Who?\n",
        "array.json": '[\n  {\n    "id": "a",\n    "question": "Why?"\n  }\n]\n',
        "rows.csv": '\n{"id": "a", "question": "Why?"}\n',
        "sheet.xlsx": b"PK\x03\x04\x14\x00",
        "bytes.db": b"\xff\xfe\x00" * 500,
        "existing.plan": "as it was",
        "existing.mmd": "flowchart TD",
        "none.actions": "just words\n",
        "own.py": "import pearl\n\n@pearl.action\ndef find(document: str) -> str: ...\n",
        "comment.actions": "# FIND_HABIT comes here\n",
        "array.jsonl": "[1]\n",
        "text.jsonl": "no json\n",
        "rows.jsonl": '{"question": "x"}\n',
        "one.jsonl": '{"id": "1", "question": "x?", "document": "story.txt"}\n',
        "gold.jsonl": '{"id": "1", "question": "x?", "document": "story.txt", "gold": "y"}\n',
        "outputs.jsonl": '{"plan": "a = CONCAT(1)", "step_outputs": 3}\n',
        "recording.jsonl": '{"path": "step/a"}\n',
        "q.jsonl": json.dumps(QUESTION),
        "binary.actions": b"\x7fELF\x00",
    }
    for name, data in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(data.encode() if isinstance(data, str) else data)
    Path("folder").mkdir()
    Path("file").write_text("x", encoding="utf-8")
    Path("empty").mkdir()
    Path("links").mkdir()
    Path("links/gone.plan").symlink_to("nowhere.plan")
    store = open_store("two.db")
    names = [store.start("ask", {"question": "x"}) for _ in range(2)]
    store.close()
    assert names[0][:2] == names[1][:2] == "20"
    open_store("none.db").close()
    with closing(sqlite3.connect("later.db")) as later:
        later.execute("CREATE TABLE pearl_version (version_num TEXT)")
        later.execute("INSERT INTO pearl_version VALUES ('9999')")
        later.commit()


CASES: list[tuple[int, str, Sequence[str]]] = [
    (2, "missing.txt does not exist", ["ask", "missing.txt", ASK]),
    (2, "folder is a directory with no document", ["ask", "folder", ASK]),
    (2, "empty.txt is empty", ["ask", "empty.txt", ASK]),
    (2, "blank.txt is empty", ["ask", "blank.txt", ASK]),
    (2, "binary.txt is a binary file", ["ask", "binary.txt", ASK]),
    (
        2,
        "9 questions cannot be drawn of 1 question: draw fewer.",
        ["eval", "questions", "--data", "gold.jsonl", "--sample", "9"],
    ),
    (2, "latin.txt is not UTF-8", ["ask", "latin.txt", ASK]),
    (2, "bare16.txt is a binary file", ["ask", "bare16.txt", ASK]),
    (2, "story.txt/x cannot be read", ["ask", "story.txt/x", ASK]),
    (2, "cannot be read (File name too long)", ["ask", "x" * 300, ASK]),
    (2, "A document has no name", ["ask", "", ASK]),
    (2, "rebel has no states: take fsm1 or", "ask story.txt Who? --strategy rebel --turns".split()),
    (2, "Standard input is empty", ["ask", "-", ASK]),
    (2, "can be standard input", ["ask", "-", "-"]),
    (2, "Standard input is empty", ["plan", "-"]),
    (2, "question is empty", ["ask", "story.txt", "  "]),
    (2, "2 to 26 options", ["ask", "story.txt", ASK, "--option", "one"]),
    (2, "2 to 26 options", ["ask", "story.txt", ASK, *["--option", "x"] * 27]),
    (2, "2 to 26 options", ["ask", "story.txt", ASK, "--option", "x", "--option", " "]),
    (2, "no library is named", ["ask", "story.txt", ASK, "--library", "nosuch"]),
    (2, "gone.actions does not exist", ["lint", "good.plan", "--library", "gone.actions"]),
    (2, "none.actions", ["lint", "good.plan", "--library", "none.actions"]),
    (2, "own.py is Python, and a library is text", ["lint", "good.plan", "--library", "own.py"]),
    (2, "missing.plan does not exist", ["run", "missing.plan", "story.txt"]),
    (2, "standard input", ["run", "-", "-"]),
    (2, "There are no runs in none.db", ["trace", "last", "--store", "none.db"]),
    (2, "No run is named zz", ["trace", "zz", "--store", "two.db"]),
    (2, "bytes.db cannot be used: file is not a database", ["trace", "x", "--store", "bytes.db"]),
    (2, "written by a later Pearl", ["trace", "x", "--store", "later.db"]),
    (2, "names several runs", ["trace", "20", "--store", "two.db"]),
    (2, "has no plan", ["trace", "last", "--store", "two.db", "-o", "good.plan"]),
    (2, "Name a run", ["trace", " ", "--store", "two.db"]),
    (2, "There is no store at nowhere.db", ["runs", "--store", "nowhere.db"]),
    (2, "is no age", ["cache", "prune", "--older-than", "soon", "--store", "two.db"]),
    (2, "30d (a month)", ["cache", "prune", "--older-than", "1m", "--store", "two.db"]),
    (2, "no replies to export", ["cache", "export", "--store", "two.db"]),
    (2, "is no batch", ["runs", "diff", "last", "last", "--store", "two.db"]),
    (2, "pearl view shows two side", ["runs", "diff", "last", "last", "--store", "two.db"]),
    (2, "is no tag", ["runs", "tag", "last", "", "--store", "two.db"]),
    (2, "There is no store at nowhere.db", ["view", "--store", "nowhere.db"]),
    (2, "nowhere is no folder", ["view", "--store", "two.db", "--documents", "nowhere"]),
    (2, "address cannot be read", ["runs", "--store", "post gres://x"]),
    (2, "cannot be used", ["runs", "--store", "postgresql+psycopg://u:secret@127.0.0.1:9/x"]),
    (2, "missing.jsonl does not exist", ["batch", "missing.jsonl", "-o", "a.jsonl"]),
    (2, "Missing option", ["batch", "rows.jsonl"]),
    (2, "write them to a file", ["batch", "-", "-o", "a.jsonl"]),
    (2, "write them to a file", ["estimate", "-"]),
    (2, "decomp needs a language model", ["estimate", "rows.jsonl", "--strategy", "decomp"]),
    (2, "no strategy", ["estimate", "rows.jsonl", "--strategy", "nosuch"]),
    (2, "rows.jsonl:1 has no document", ["batch", "rows.jsonl", "-o", "a.jsonl"]),
    (2, "array.jsonl:1 is no object", ["batch", "array.jsonl", "-o", "a.jsonl"]),
    (2, "text.jsonl:1 is not JSON", ["estimate", "text.jsonl"]),
    (2, "deep.jsonl:1 is nested too deep", ["estimate", "deep.jsonl"]),
    (2, 'twice.jsonl:1 has the key "id" twice in one object', ["estimate", "twice.jsonl"]),
    (2, 'twice.jsonl:1 has the key "id" twice', ["batch", "twice.jsonl", "-o", "a.jsonl"]),
    (2, 'labels.jsonl:1 has the key "kind" twice', ["estimate", "labels.jsonl"]),
    (2, "digits.jsonl:1 has a number of too many digits", ["estimate", "digits.jsonl"]),
    (2, "large.jsonl:1: gold is to be the right option's letter", ["estimate", "large.jsonl"]),
    (2, "table.csv is a table, and no JSON", ["estimate", "table.csv"]),
    (2, "array.json is JSON over several lines: give one", ["estimate", "array.json"]),
    (2, "rows.csv:2 has no document", ["estimate", "rows.csv"]),
    (2, "table.csv is a table, and no JSON", ["report", "table.csv"]),
    (2, "sheet.xlsx is a table, and no JSON", ["batch", "sheet.xlsx", "-o", "a.jsonl"]),
    (2, "/dev/zero is a device: name a file.", ["index", "/dev/zero", "-o", "new.index"]),
    (2, "empty.txt holds no question", ["batch", "empty.txt", "-o", "a.jsonl"]),
    (2, "nosuch is no folder", ["batch", "rows.jsonl", "-o", "a.jsonl", "--documents", "nosuch"]),
    (2, "neither auto nor", ["batch", "rows.jsonl", "-o", "a.jsonl", "--concurrency", "many"]),
    (2, "no number above 0", ["batch", "rows.jsonl", "-o", "a.jsonl", "--max-tokens", "lots"]),
    (2, "a file of their own", ["batch", "rows.jsonl", "-o", "-"]),
    (2, "no such does not exist", ["batch", "rows.jsonl", "-o", "no such/x"]),
    (2, "file is not TOML", ["estimate", "rows.jsonl", "--prices", "file"]),
    (2, "deep.jsonl:1", ["ask", "story.txt", ASK, "--model", "recorded:deep.jsonl"]),
    (2, "good.plan has a plan without values: pearl run runs it", ["replay", "good.plan"]),
    (1, "so it was not run: the plan comes first", ["run", "story.txt", "good.plan"]),
    (2, "The folder no such does not exist", ["graph", "good.plan", "-o", "no such/x.svg"]),
    (2, "existing.plan/x does not exist", ["trace", "last", "-o", "existing.plan/x/y"]),
    (2, "question is empty", ["plan", " ", "-o", "good.plan"]),
    (2, "existing.plan exists and is no plan", ["plan", ASK, "-o", "existing.plan"]),
    (2, "latin.txt exists and is no plan", ["plan", ASK, "-o", "latin.txt"]),
    (2, "bad.plan exists and is no plan", ["plan", ASK, "-o", "bad.plan"]),
    (2, "rows.jsonl has many plans: name one", ["graph", "rows.jsonl"]),
    (2, "core.actions is a library of actions: name a plan", ["graph", "core.actions"]),
    (2, "story.txt exists and is no graph", ["graph", "good.plan", "-o", "story.txt"]),
    (2, "story.txt exists and is no plan", ["migrate", "good.plan", "-o", "story.txt"]),
    (2, "a graph is not written as .png", ["graph", "good.plan", "-o", "g.png"]),
    (
        2,
        "a graph as mermaid is not written as .svg: end the name in .mmd, .mermaid, .md, .txt.",
        ["graph", "good.plan", "--format", "mermaid", "-o", "g.svg"],
    ),
    (
        2,
        "a graph as svg is not written as .md: end the name in .svg.",
        ["graph", "good.plan", "--format", "svg", "-o", "g.md"],
    ),
    (2, "verdicts is not written as .pdf", ["review", "export", "-o", "v.pdf"]),
    (2, "rows.jsonl exists and is no file of answers", ["batch", "one.jsonl", "-o", "rows.jsonl"]),
    (2, "story.txt exists and is no library", ["mine", "rows.jsonl", "-o", "story.txt"]),
    (2, "cannot be written", ["plan", ASK, "--store", "/proc/runs/s.db"]),
    (2, "option fire is given twice", ["ask", "story.txt", ASK, *["--option", "fire"] * 2]),
    (2, "is given twice", ["ask", "story.txt", ASK, "--option", "a fire", "--option", "a  fire "]),
    (2, "Options need a question", ["run", "free.plan", "story.txt", *["--option", "x"] * 2]),
    (2, "folder", ["plan", ASK, "-o", "folder"]),
    (2, "not a database", ["ask", "story.txt", ASK, "--store", "bytes.db"]),
    (2, "rows.jsonl:1", ["replay", "rows.jsonl"]),
    (2, "step_outputs", ["replay", "outputs.jsonl"]),
    (2, "holds no .plan", ["lint", "folder"]),
    (2, "missing.plan", ["fmt", "missing.plan"]),
    (2, "no rule PRL999", ["rule", "PRL999"]),
    (2, "PRL9", ["lint", "good.plan", "--select", "PRL9"]),
    (1, "cannot be drawn", ["graph", "bad.plan", "-o", "existing.mmd"]),
    (2, "There is no command", ["nosuch"]),
    (2, "close: pearl review agreement.", ["review", "agrement", "--format", "markdown"]),
    (2, "close: pearl review export.", ["review", "exprt"]),
    (2, "is no file and no folder", ["review", "nosuch"]),
    (2, "or search one: pearl index INDEX --search WORDS.", ["index", "serch"]),
    (2, "missing is no index: build one of a corpus with -o INDEX.", ["index", "missing"]),
    (2, "No such option", ["ask", "story.txt", ASK, "--nosuch"]),
    (2, "-o FILE", ["condense", "core", "--review"]),
    (2, "--reasoning needs a language", "eval questions --data gold.jsonl --reasoning".split()),
    *(
        (2, said, ["generate", "commaqa", *words.split()])
        for words, said in (
            ("", "Name a --schema to make worlds of, or a file to --describe or --agents."),
            ("--describe no.jsonl", "no.jsonl does not exist"),
            ("--agents no.jsonl --json", "--json tells of a file: name one with -o FILE."),
            ("--schema other -o w", "No schema other ships with Pearl: use explicit, implicit"),
            ("--schema other.toml -o w", "other.toml does not exist"),
            ("--schema numeric --split odd -o w", "no split is called odd: use iid, compgen."),
            ("--schema numeric --json", "--json tells of a file: name one with -o FILE."),
            ("--schema numeric -o no/such.jsonl", "The folder no does not exist"),
        )
    ),
    (2, "'abc' is not a number", ["ask", "story.txt", ASK, "--max-cost", "abc"]),
    (2, "'1.5' is not a whole number", ["ask", "story.txt", ASK, "--depth", "1.5"]),
    (2, "pearl eval questions --data rows.jsonl evaluates", ["eval", "rows.jsonl"]),
    (2, "Give a document and a question about it", ["ask", "story.txt"]),
    (2, "the document comes first: pearl ask story.txt", ["ask", ASK, "story.txt"]),
    (2, "Why does not exist", ["ask", "story.txt", "Why", "dig?"]),
    (
        2,
        "Why, did, she do not exist: check the paths of the documents. If they are words of the "
        "question, put that in quotes: pearl ask story.txt",
        ["ask", "story.txt", *"Why did she dig?".split()],
    ),
    (2, "in quotes: pearl ask story.txt", ["ask", "Why did she", "story.txt", "x.txt"]),
    (2, "no.txt does not exist: check the path of the document.", ["ask", "no.txt", "Why?"]),
    (2, "form.pdf:1 is a PDF, and no text", ["batch", "form.pdf", "-o", "a.jsonl"]),
    (2, "needs an endpoint", ["ask", "story.txt", ASK, "--model", "some-model"]),
    (2, "recording", ["ask", "story.txt", ASK, "--model", "recorded:missing.jsonl"]),
    (2, "no recorded answers", ["ask", "story.txt", ASK, "--model", "recorded:recording.jsonl"]),
]


def test_documents_that_do_not_exist_are_all_named_without_advice_to_ask_one_of_them():
    said = call("ask", "gone1.txt", "gone2.txt", "Why?").err.splitlines()
    assert said == [
        f"pearl: {name} does not exist: check the path of the document."
        for name in ("gone1.txt", "gone2.txt")
    ]


@pytest.mark.parametrize(("code", "said", "args"), CASES, ids=lambda value: str(value)[:60])
def test_one_clear_line(code: int, said: str, args: Sequence[str]):
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert said in one_line(call(*args), code)
    result = call(*args, "--json")
    assert said in one_line(result, code)
    assert said in json.loads(result.out)["error"]
    after = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    # A database that is looked into has another header and files beside it.
    ours = {path for path in after if ".pearl" in path.parts or ".db" in path.name}
    assert {path: data for path, data in after.items() if path not in ours} == {
        path: data for path, data in before.items() if path not in ours
    }


UNREADABLE = [
    ("lease.pdf is a PDF, and no text", ["lint", "lease.pdf"]),
    ("comment.actions holds no action: write lines such as", ["lint", "comment.actions"]),
    ("gone.plan does not exist", ["lint", "links"]),
    ("lease.docx is a Word, EPUB or other packed file", ["lint", "lease.docx"]),
    ("utf16.txt is UTF-16: convert it, with iconv -f UTF-16 -t", ["lint", "utf16.txt"]),
    ("utf32.txt is UTF-32: convert it, with iconv -f UTF-32 -t", ["lint", "utf32.txt"]),
    ("Standard input is empty", ["lint", "-"]),
    ("empty.txt is empty", ["fmt", "empty.txt"]),
    ("deep.jsonl:1", ["lint", "deep.jsonl"]),
    ("rows.jsonl:1", ["lint", "rows.jsonl"]),
    ("binary file: give the library as UTF-8", ["lint", "binary.actions"]),
]


@pytest.mark.parametrize(("said", "args"), UNREADABLE, ids=lambda value: str(value)[:60])
def test_a_text_that_cannot_be_read_is_found_as_one_with_findings_is(
    said: str, args: Sequence[str]
):
    assert said in one_line(call(*args), 1)
    result = call(*args, "--json")
    assert said in one_line(result, 1)
    json.loads(result.out)
    if args[0] == "lint":
        assert said in one_line(call(*args, "--exit-zero"), 0)


REPLACED = """
batch q.jsonl -o q.jsonl
batch q.jsonl -o folder/../q.jsonl
batch q.jsonl -o linked.jsonl
batch linked.jsonl -o q.jsonl
batch q.jsonl -o same.jsonl
batch q.jsonl -o story.txt
batch q.jsonl -o .pearl/store.db
batch q.jsonl -o good.actions --library good.actions
batch q.jsonl -o recording.jsonl --model recorded:recording.jsonl
eval questions --data q.jsonl -o q.jsonl
eval questions --data q.jsonl -o story.txt
mine q.jsonl -o good.actions --seed-actions good.actions
mine q.jsonl -o new.actions --notes q.jsonl
mine q.jsonl -o q.jsonl
refine q.jsonl -o demos --demos demos
refine q.jsonl -o demos --documents demos/
refine q.jsonl -o .
condense good.actions -o good.actions
plan why -o good.actions --library good.actions
graph good.plan -o good.plan
migrate good.plan -o good.plan
replicate q.jsonl -o q.jsonl
trace last -o two.db --store two.db
report last -o two.db --store two.db
report q.jsonl -o q.jsonl
runs show last --html two.db --store two.db
cache export -o two.db --store two.db
cache export last -o two.db-wal --store two.db
review export -o two.db --store two.db
review agreement -o two.db --store two.db
learn commaqa q.jsonl --from gold -o q.jsonl
"""


@pytest.mark.parametrize("line", REPLACED.split("\n")[1:-1])
def test_what_is_read_is_never_written_over(line: str):
    Path("good.actions").write_text("FIND_REASON(CTX, X) : Find why X\n", encoding="utf-8")
    Path("linked.jsonl").symlink_to("q.jsonl")
    Path("same.jsonl").hardlink_to("q.jsonl")
    Path("demos").mkdir()
    Path("two.db-wal").touch()
    open_store(".pearl/store.db").close()
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert "is what is read: name another file to write." in one_line(call(*line.split()), 2)
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("line", "ending"),
    [
        *(("plan Why? -o", ending) for ending in ("", "-shm", "-journal")),
        ("batch q.jsonl -o", "-wal"),
        ("eval questions --data q.jsonl --methods pearl -o", ""),
        ("mine q.jsonl -o", ""),
        ("mine q.jsonl -o new.actions --notes", "-shm"),
        ("condense core --rounds 1 -o", "-journal"),
    ],
)
def test_a_store_that_is_not_there_yet_is_not_what_is_written(line: str, ending: str, serve: Serve):
    server = serve(failing(500))
    Path("link").symlink_to(".")
    Path("linked.db").symlink_to("new.db")
    for store in ("new.db", "link/new.db", "linked.db"):
        done = call(*line.split(), f"new.db{ending}", "--store", store, "--model", "m")
        told = f"new.db{ending} belongs to the store: name another file to write."
        assert one_line(done, 2) == told
    assert not server.asked
    assert not list(Path().glob("new.*"))


PAGE = '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="">\nA'


@pytest.mark.parametrize("kind", ["ask", "batch"])
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("runs show last --html", PAGE),
        ("trace LAST -o", GOOD),
        ("graph LAST -o", "flowchart TD\n"),
        ("cache export last -o", '{"key": "x"}\n'),
    ],
)
def test_what_a_run_has_read_is_never_written_over(kind: str, line: str, text: str):
    # It could be one of what the command writes.
    Path("story.txt").write_text(text, encoding="utf-8")
    Path("q.jsonl").write_text(json.dumps({**QUESTION, "key": "k"}), encoding="utf-8")
    words = "ask story.txt Why" if kind == "ask" else "batch q.jsonl -o answers.jsonl"
    assert call(*words.split(), "--model", "offline", "--store", "s.db").code == 0
    read = ["story.txt", "./story.txt"]
    read += ["q.jsonl"] if (kind, text[:6]) == ("batch", '{"key"') else []
    refused(line.replace("LAST", "last" if kind == "ask" else "last/a"), *read)


def test_the_questions_of_an_evaluation_are_not_written_over_by_its_report():
    words = "eval questions --data q.jsonl --methods pearl --model offline --store s.db"
    assert call(*words.split()).code == 0
    refused("report last --format markdown -o", "q.jsonl", "./q.jsonl")


def refused(line: str, *outputs: str) -> None:
    """See that a command does not write over what a run of s.db has read."""
    for output in outputs:
        before = Path(output).read_bytes()
        shown = call(*line.split(), output, "--store", "s.db")
        assert one_line(shown, 2) == f"{output} is what is read: name another file to write."
        assert Path(output).read_bytes() == before


def test_no_command_writes_over_what_is_another_kind_of_file():
    make = "generate commaqa --schema movies --questions"
    for line in (
        "ask story.txt Why? --model offline",
        "eval questions --data q.jsonl --methods pearl --model offline",
        f"{make} 4 -o w",
    ):
        assert call(*line.split()).code == 0
    asked = call("runs", "--json").json[1]["run"]
    commands = {
        f"trace {asked} -o": "plan",
        f"graph {asked} -o": "graph",
        "runs show last --html": "page",
        "report last --format {0} -o": "report",
        "report last --errors 1 -o": "file of wrong answers",
        "replicate outcomes --format html -o": "report",
        "report last --json -o": "report",
        "review agreement --format latex -o": "report",
        "review export -o": "file of verdicts",
        "cache export -o": "recording",
        f"{make} 2 -o": "file of worlds",
        "generate commaqa --schema movies --show -o": "schema",
        "generate commaqa --agents w -o": "file of pairs",
        "learn commaqa w --from gold -o": "model",
        "mine q.jsonl --model offline -o new.actions --notes": "file of notes",
    }
    outcome = {"split": "all", "method": "m", "qid": "1", "answer": "A", "gold": "A"}
    Path("outcomes").write_text(json.dumps(outcome), encoding="utf-8")
    Path("reading").write_text("# Mine\n\nThe lamp burnt.  It had oil.\n", encoding="utf-8")
    for line, noun in commands.items():
        for form in ("terminal", "markdown", "latex", "html")[: 4 if "{0}" in line else 1]:
            done = call(*line.format(form).split(), "reading")
            told = f"reading exists and is no {noun}: name another file to write."
            assert one_line(done, 2) == told
            Path("again").unlink(missing_ok=True)
            for _ in range(2):
                assert call(*line.format(form).split(), "again").code == 0, line
    Path("own.actions").write_text("# The actions of the ledger come here.\n", encoding="utf-8")
    assert call("condense", "core", "--model", "offline", "-o", "own.actions").code == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DROP TABLE entries", "has lost its table entries"),
        ("UPDATE pearl_version SET version_num = '0000'", "cannot be used"),
        ("UPDATE pearl_version SET version_num = X'fffe'", "none of Pearl's"),
        (
            "UPDATE sqlite_master SET sql = CAST(X'435245415445fffe' AS TEXT) WHERE name = 'runs'",
            "no store of Pearl's",
        ),
    ],
)
def test_a_store_that_is_none_any_more(change: str, said: str):
    with closing(sqlite3.connect("two.db")) as store:
        store.execute("PRAGMA writable_schema = 1")
        store.execute(change)
        store.commit()
    for line in ("runs", "trace last", "cache stats", "cache export"):
        assert said in one_line(call(*line.split(), "--store", "two.db"), 2)


@pytest.mark.parametrize(
    "line", ["runs", "runs show last", "trace last", "cache export", "cache prune --older-than 0d"]
)
def test_a_store_with_a_damaged_page(line: str):
    assert call(*"ask story.txt Why --model offline --store s.db".split()).code == 0
    whole, codes = Path("s.db").read_bytes(), set()
    for at in range(4096, len(whole), 8192):
        Path("s.db").write_bytes(whole[:at] + bytes(4096) + whole[at + 4096 :])
        done = call(*line.split(), "--store", "s.db")
        codes.add(done.code)
        if done.code:
            assert "s.db cannot be used: database disk image is malformed" in one_line(done, 2)
    assert codes == {0, 2}


def test_a_plan_with_errors_is_not_run():
    result = call("run", "bad.plan", "story.txt")
    assert result.code == 1
    assert "PRL201" in result.out
    assert not Path(".pearl").exists()


@pytest.mark.parametrize("text", ["﻿Mara left. It had closed.\r\n", "Mara left.\r\nShe had to.\r\n"])
def test_a_byte_order_mark_and_crlf_are_fine(text: str):
    Path("dos.txt").write_bytes(text.encode())
    result = call("ask", "dos.txt", ASK, "--json")
    assert result.code == 0
    for quote in json.loads(result.out)["evidence"]:
        assert quote["span"]


def test_a_letter_with_many_marks_holds_nothing_up():
    for marks in ("\u0301" * (1 << 18) + "\u0316" * (1 << 18), "\u0f73" * (1 << 18)):
        text = f"Mara left. e\u0301, fi\N{LATIN SMALL LIGATURE FI} \uff41{marks}"
        Path("marks.txt").write_text(text, encoding="utf-8")
        assert read_document("marks.txt").text == text.replace("e\u0301", "é")
        assert normalized(text, "NFKC") == f"Mara left. é, fifi a{marks}"
        assert holds(text, "Mara left")
        assert fenced("document", text).startswith("<document>\n")
        assert DocumentRetriever(Source("d", text)).paragraphs
        assert any(asyncio.run(TfIdf()([text, "Mara"]))[0])


@given(st.text("ae é\u0301\u0316\u0344\u0f73\uff9eｶﬁ가\u1100\u1161", max_size=90))
@example("ｶ" + "\u0316\uff9e" * 15)
def test_texts_with_fewer_marks_are_in_unicode_s_own_forms(text: str):
    forms: tuple[Literal["NFC", "NFKC", "NFKD"], ...] = ("NFC", "NFKC", "NFKD")
    for form in forms if not re.search("[\u0301\u0316\u0344\u0f73\uff9e]{31}", text) else ():
        assert normalized(text, form) == unicodedata.normalize(form, text)


def test_a_very_long_question_is_only_a_question():
    result = call("ask", "story.txt", "why " * 25_000, "--json")
    assert result.code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.pearl]\nselect = 3\n", 'select in [tool.pearl] is a list of texts, as ["PRL4"].'),
        ('[tool.pearl]\nlibrary = "my.actions"\n', 'a list of texts, as ["my.actions"].'),
        ("[tool.pearl]\nlibrary = 3\n", 'a list of texts, as ["quality"].'),
        ("[tool.pearl]\nnosuch = []\nnone = []\n", "no setting nosuch or none"),
        ("not toml", "pyproject.toml"),
        ("tool = 3\n[tool.pearl]\n", "pyproject.toml"),
        ("[tool]\npearl = 3\n", "[tool.pearl]"),
        ('[tool.pearl]\nselect = ["NO1"]\n', "NO1"),
        ('[tool.pearl]\nlibrary = ["gone.actions"]\n', "gone.actions"),
    ],
)
def test_a_wrong_project_file(text: str, said: str):
    Path("pyproject.toml").write_text(text, encoding="utf-8")
    assert said in one_line(call("lint", "good.plan"), 2)


NO_CHANGE = "1 plan: 0 changed, in 0 steps; 1 without errors."


def test_the_project_of_a_file_counts_wherever_lint_is_called():
    Path("project/plans").mkdir(parents=True)
    Path("project/pyproject.toml").write_text(
        '[tool.pearl]\nlibrary = ["own.actions"]\nignore = ["PRL4"]\n', encoding="utf-8"
    )
    Path("project/own.actions").write_text("FIND_OWN(CTX, X) : Find X\n", encoding="utf-8")
    plan = '1. a = FIND_OWN(CTX, "x") : Find x\n'
    Path("project/plans/a.plan").write_text(plan, encoding="utf-8")
    Path("project/rows.jsonl").write_text(json.dumps({"plan": plan}) + "\n", encoding="utf-8")
    found = call("lint", "project/plans/a.plan", "project/rows.jsonl")
    assert (found.code, found.out) == (0, "")
    Path("outside.plan").write_text(plan, encoding="utf-8")
    assert "PRL201" in call("lint", "outside.plan").out
    for path in ("project/plans/a.plan", "project/rows.jsonl"):
        migrated = call("migrate", path)
        assert (migrated.code, migrated.told[0]) == (0, NO_CHANGE), migrated.err
    row = {"id": "1", "document": {"text": STORY}, "plan": plan}
    Path("project/q.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    Path("outside.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    for words in (["batch", "-o", "o.jsonl"], ["estimate"]):
        done = call(*words, "project/q.jsonl", "--model", "offline")
        assert (done.code, "does not exist" in done.err, "refused" in done.err) == (0, False, False)
        assert "FIND_OWN does not exist" in call(*words, "outside.jsonl", "--model", "offline").err


def test_questions_do_not_come_through_a_pipe():
    os.mkfifo("pipe")
    told = "Questions are read more than once, so not from pipe: write them to a file."
    assert told in one_line(call("batch", "pipe", "-o", "answers.jsonl"), 2)


def test_no_row_is_about_a_pipe():
    """Whoever wrote the rows may have put it there, and nothing would ever come out of it."""
    os.mkfifo("pipe.txt")
    row = {"id": "a", "question": "Why?", "document": "pipe.txt"}
    Path("q.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    told = one_line(call("batch", "q.jsonl", "-o", "answers.jsonl", "--model", "offline"), 2)
    assert told.endswith("q.jsonl:1: pipe.txt is a pipe or a device: name a file.")


def test_what_is_typed_ends_once():
    screen, keys = pty.openpty()
    child = Fork(command("fmt", "-"), stdin=keys, stdout=subprocess.PIPE, text=True)
    os.write(screen, b'1. a = CONCAT("x")\n\x04')
    out, _ = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, '1. a = CONCAT("x")\n')
    for end in (screen, keys):
        os.close(end)


@pytest.mark.parametrize("command", [("lint",), ("fmt",), ("ask", "Why?")])
def test_what_has_no_end_is_not_read_until_memory_has_one(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pearl.lang.source.LARGEST_STREAM", 3 << 20)
    name, *more = command
    told = call(name, "/dev/zero", *more, *(["--model", "offline"] if more else []))
    assert told.code in (1, 2)
    assert told.told == ["pearl: /dev/zero has more than 3 MB: name a file."]


@pytest.mark.parametrize(
    "line",
    [
        "lint large.actions",
        "lint large.plan",
        "lint rows.jsonl",
        "fmt large.plan",
        "graph large.plan",
        "actions --library large.actions",
        "run large.plan story.txt --model offline",
        "batch rows.jsonl -o answers.jsonl --model offline",
    ],
)
def test_a_plan_or_library_of_many_megabytes_is_not_checked(line: str):
    text = "FIND_X(CTX, X) : " + "Find X in CTX. " * 300_000
    row = {"id": "a", "document": "story.txt", "plan": text}
    Path("large.actions").write_text(text, encoding="utf-8")
    Path("large.plan").write_text(f"1. a = {text}", encoding="utf-8")
    Path("rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    Path("story.txt").write_text(STORY, encoding="utf-8")
    told = one_line(call(*line.split()), 1 if line.startswith(("lint", "fmt")) else 2)
    assert "a plan or a library has at most 4,000,000 characters, and this one has 4,500," in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_the_journal(number: signal.Signals, tmp_path: Path):
    with Server([dripping]) as server:
        settings = {"OPENAI_BASE_URL": server.url, "PEARL_MODEL": "m"}
        child = Fork(
            command("ask", "story.txt", ASK),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **settings},
        )
        # However busy the machine: the suite's own limit ends what hangs.
        server.reached.wait()
        child.send_signal(number)
        # Who is impatient, or a shell beside a program, sends several.
        while number == signal.SIGINT and child.poll() is None:
            child.send_signal(number)
            time.sleep(0.001)
        _, err = child.communicate()
    assert child.returncode == 130
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1
    (run,) = runs(tmp_path / ".pearl" / "store.db")
    assert f"pearl runs show {run.name}" in err
    assert run.ended is None


def test_a_question_asked_alone_has_a_budget(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    server = serve(lambda _: completion("Yes.", usage={"prompt_tokens": 400}), PEARL_MAX_TOKENS="9")
    words = ("ask", "story.txt", ASK, "--model", "some-model", "--strategy", "fsm1")
    assert "No price is known for some-model" in one_line(call(*words, "--max-cost", "1"), 2)
    assert not server.asked
    assert "raise --max-tokens" in one_line(call(*words, "--max-tokens", "1k"), 1)
    sent = len(server.asked)
    assert sent in (1, 2)
    Path("p.toml").write_text('[models."some-model"]\ninput = 1e6\noutput = 1e6\n', "utf-8")
    monkeypatch.setenv("PEARL_PRICES", "p.toml")
    plan = ("run", "good.plan", "story.txt", "--model", "some-model")
    assert "raise --max-cost" in one_line(call(*plan, "--max-cost", "0.01"), 1)
    with pytest.raises(pearl.ModelError, match="raise --max-cost"):
        pearl.Pearl(model="some-model", max_cost=0.01).ask_sync("story.txt", ASK)
    assert len(server.asked) == sent


def test_a_strategy_without_an_answer_names_its_run(serve: Serve, tmp_path: Path):
    serve(["no such form"])
    done = call("ask", "story.txt", ASK, "--model", "m", "--strategy", "fsm1")
    (run,) = runs(tmp_path / ".pearl" / "store.db")
    assert done.code == 1
    assert done.err.startswith("pearl: fsm1 has no answer: ")
    assert done.err.endswith(f" What was done until then: pearl runs show {run.name}\n")


def shell(
    line: str, before: Sequence[str] = (), **settings: str
) -> subprocess.CompletedProcess[str]:
    """A line for a shell, in which ``pearl`` is this Python's."""
    return subprocess.run(
        [*before, "bash", "-c", f'pearl() {{ {sys.executable} -m pearl "$@"; }}; {line}'],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **settings},
    )


def test_an_early_closed_pipe_is_no_error():
    done = shell("pearl actions | head -1")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    # The reader is gone before Python has started.
    assert shell("pearl runs --store nowhere.db --json | true").stderr == ""


def test_a_reader_that_goes_in_the_middle_of_much_is_no_error():
    rows = "".join(f"{at}. v{at} = FOO{at}(CTX)\n" for at in range(3000))
    Path("many.plan").write_text(rows, encoding="utf-8")
    done = shell("pearl lint many.plan --json | head -1; echo ${PIPESTATUS[0]}")
    assert done.stdout.splitlines() == ["[", "1"]
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["actions", "runs --store nowhere.db --json"])
def test_a_full_disk_is_told(words: str):
    done = shell(f"pearl {words} > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "pearl: The output cannot be written: No space left on device.\n"


@pytest.mark.parametrize("words", ["actions", "ask story.txt Why? --json"])
def test_a_folder_that_was_deleted_is_told(words: str):
    done = shell(f"mkdir gone; cd gone; rmdir ../gone; pearl {words}")
    assert done.returncode == 2
    assert done.stderr == "pearl: The current folder was deleted: cd to another.\n"


def test_closed_streams():
    done = shell("pearl lint - <&-")
    assert done.returncode == 1
    assert done.stderr.startswith("pearl: Standard input is closed")
    assert len(done.stderr.splitlines()) == 1
    assert shell("pearl lint good.plan >&-").returncode == 0
    assert shell("pearl lint good.plan 2>&-").stdout == ""


SUPERUSER = os.geteuid() == 0
CAPABILITIES = "-dac_override,-dac_read_search"
"""By which nothing is shut to the superuser."""


SHUT = (
    # A file that is there is told of beside findings.
    ("lint good.plan", 1, "good.plan cannot be read (Permission denied)"),
    ("lint shut/in.plan", 2, "shut/in.plan cannot be read (Permission denied)"),
    ("lint shut", 2, "shut cannot be read (Permission denied): change its permissions, or name"),
    ("lint above", 2, "above/shut cannot be read (Permission denied)"),
    ("review above", 2, "above/shut cannot be read (Permission denied)"),
    ("ask shut Why?", 2, "shut cannot be read (Permission denied)"),
    ("ask above Why?", 2, "above/shut cannot be read (Permission denied)"),
    ("ask listed Why?", 2, "listed/a.txt cannot be read (Permission denied)"),
    ("index above -o new.index", 2, "above/shut cannot be read (Permission denied)"),
    ("runs --store shut/s.db", 2, "shut/s.db cannot be used (Permission denied): check its path"),
    ("plan Why? -o folder/x.plan", 2, "cannot be written"),
    ("plan Why? --store folder/s.db", 2, "cannot be written"),
    ("plan Why? -o good.plan", 2, "cannot be written"),
)
EACH = """
import json, sys
from tests.shell import call
print(json.dumps([call(*words.split()) for words in json.loads(sys.argv[1])]))
"""
"""Commands one after another, in a process that is let see no more than a person is."""


@pytest.mark.skipif(SUPERUSER and not shutil.which("setpriv"), reason="needs setpriv")
def test_files_and_folders_that_are_shut():
    Path("good.plan").chmod(0)
    Path("folder").chmod(0o500)
    Path("listed/.hidden").mkdir(parents=True, mode=0)
    for name in ("shut", "above/shut"):
        Path(name).mkdir(parents=True)
    for file in ("above/a.txt", "listed/a.txt"):
        Path(file).write_text(STORY, encoding="utf-8")
    for name, mode in (("shut", 0), ("above/shut", 0), ("listed", 0o400)):
        Path(name).chmod(mode)
    bounds = [f"--{kind}={CAPABILITIES}" for kind in ("bounding-set", "inh-caps")]
    words = [*(("setpriv", *bounds) if SUPERUSER else ()), sys.executable, "-c", EACH]
    words.append(json.dumps([line for line, *_ in SHUT]))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    for name in ("shut", "above/shut", "listed", "listed/.hidden"):
        Path(name).chmod(0o700)
    for (line, code, said), result in zip(SHUT, json.loads(done.stdout), strict=True):
        assert said in one_line(Result(*result), code), line


@pytest.mark.parametrize("bad", [b"", b'a = CONCAT("caf\xe9")\n'])
def test_fmt_of_a_folder_names_what_it_cannot_read_and_goes_on(bad: bytes):
    loose = Path("empty/b.plan")
    for name in ("a", "c"):
        Path(f"empty/{name}.plan").write_bytes(bad)
    for words, after in (("--check", " a=CONCAT( 1 )\n"), ("", "1. a = CONCAT(1)\n")):
        loose.write_text(" a=CONCAT( 1 )\n", encoding="utf-8")
        result = call("fmt", "empty", *words.split())
        told = [line for line in result.err.splitlines() if not line.startswith("formatted ")]
        assert (result.code, len(told)) == (1, 2)
        assert "empty/a.plan" in told[0]
        assert "empty/c.plan" in told[1]
        assert ("would change empty/b.plan" in result.out) == bool(words)
        assert loose.read_text(encoding="utf-8") == after


def test_words_that_no_encoding_can_write():
    Path("half.jsonl").write_text('{"plan": "a = FOO(CTX, \\"\\ud83d\\")"}\n', encoding="utf-8")
    for form in ("terminal", "json", "github", "sarif", "prompt"):
        result = call("lint", "half.jsonl", "--format", form)
        assert result.code == 1
        if form in ("json", "sarif"):
            json.loads(result.out)
    done = shell("pearl lint half.jsonl", PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


def test_an_endpoint_that_is_not_there_leaves_a_run_that_has_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("PEARL_TRIES", "1")
    result = call("ask", "story.txt", ASK, "--model", "m", "--json")
    said = one_line(result, 1)
    assert "cannot be reached" in said
    told = json.loads(result.out)
    assert told["error"] == said
    (run,) = runs(Path(".pearl/store.db"))
    assert run.name == told["run"]
    # It is none that is still under way.
    assert run.ended is not None


def test_a_file_that_cannot_be_read_hides_no_finding_of_the_others(tmp_path: Path):
    (tmp_path / "a.plan").write_text("1. a = NOPE(CTX) : x\n", encoding="utf-8")
    (tmp_path / "b.plan").write_bytes(b"")
    (tmp_path / "c.plan").write_bytes("1. é = SUMMARIZE(CTX) : x\n".encode("latin-1"))
    rows = ['{"plan": "1. b = NOPE(CTX) : x"}', '{"id": 2}', "no json"]
    (tmp_path / "r.jsonl").write_text("\n".join(rows), encoding="utf-8")
    done = call("lint", tmp_path, tmp_path / "r.jsonl")
    assert done.code == 1
    assert "a.plan:1:8" in done.out
    assert "r.jsonl:1:1:8" in done.out
    for words in ("b.plan is empty", "c.plan is not UTF-8", 'jsonl:2 has no "plan"', ":3 is not"):
        assert words in done.err


@pytest.mark.parametrize(
    "command",
    [
        ["batch", "q.jsonl", "-o", "a.jsonl"],
        ["estimate", "q.jsonl"],
        ["mine", "q.jsonl", "-o", "a.actions"],
        ["refine", "q.jsonl", "-o", "a"],
        ["eval", "questions", "--data", "q.jsonl"],
        ["eval", "quality", "--data", "q.jsonl"],
        ["eval", "hotpotqa", "--data", "q.jsonl"],
        ["eval", "gsm8k", "--data", "q.jsonl"],
        ["eval", "celebrities", "--data", "q.jsonl"],
    ],
)
def test_a_row_that_is_not_utf_8_hides_no_other(command: list[str]):
    Path("q.jsonl").write_bytes(b'no json\n{"id": "caf\xe9"}\n[]\n')
    result = call(*command)
    words = (":1 is not JSON", ":2 is not UTF-8 (byte 11 is 0xe9)", ":3 is no object")
    assert [f"pearl: q.jsonl{word}" in result.err for word in words] == [True] * 3
    assert result.code == 2
    # Of a file that is all so, the first are named, and it is one message in UTF-16.
    Path("q.jsonl").write_bytes(b'{"id": "caf\xe9"}\n' * 2000)
    said = call(*command).told
    assert ["is not UTF-8" in line for line in said] == [True] * 200 + [False]
    assert said[200] == "pearl: 1,800 more of its lines cannot be used."
    Path("q.jsonl").write_text('{"id": 1}\n' * 2000, encoding="utf-16")
    assert one_line(call(*command), 2).count("is UTF-16") == 1


@pytest.mark.parametrize("command", [("learn", "commaqa"), ("eval", "commaqa", "--data")])
def test_every_world_that_cannot_be_used_is_named(command: tuple[str, ...]):
    made = call("generate", "commaqa", "--schema", "movies", "--questions", "4", "-o", "w.jsonl")
    assert made.code == 0
    rows = ["{broken", "[1]", '{"a": 1}']
    Path("w.jsonl").write_text(Path("w.jsonl").read_text() + "\n".join(rows))
    first = Path("w.jsonl").read_text().count("\n") - 1
    more = ("--from", "gold", "-o", "c.model") if command[0] == "learn" else ()
    told = call(*command, "w.jsonl", *more).told
    places = [line.partition("w.jsonl:")[2].partition(":")[0].partition(" ")[0] for line in told]
    assert places == [str(first + at) for at in range(3)]


@pytest.mark.parametrize("text", ["# value a = 1\n1. é = X(CTX)", '[{"é": 1}]'])
def test_what_has_no_rows_is_utf_8_as_a_whole(text: str):
    Path("x").write_bytes(text.encode("latin-1"))
    command = ["replay", "x"] if text[0] == "#" else ["eval", "hotpotqa", "--data", "x"]
    assert "x is not UTF-8" in one_line(call(*command), 2)


def test_rows_take_the_place_of_no_pipe_and_no_device():
    os.mkfifo("pipe.jsonl")
    told = one_line(call("batch", "gold.jsonl", "-o", "pipe.jsonl"), 2)
    assert "cannot be written (it is a device or a pipe): name a file" in told
    assert Path("pipe.jsonl").is_fifo()
    Path("astray.jsonl").symlink_to(Path("gone", "a.jsonl"))
    told = one_line(call("batch", "gold.jsonl", "-o", "astray.jsonl"), 2)
    assert "astray.jsonl cannot be written (No such file or directory)" in told
    # What is refused has begun no run.
    assert not Path(".pearl").exists()


def test_what_is_broken_off_leaves_the_file_as_it_was_and_none_beside_it(tmp_path: Path):
    target = tmp_path / "new" / "a.jsonl"
    target.parent.mkdir()
    target.write_text("before", encoding="utf-8")
    with suppress(RuntimeError), replacing(target) as file:
        file.write(b"half")
        raise RuntimeError
    assert [path.read_text(encoding="utf-8") for path in target.parent.iterdir()] == ["before"]


@pytest.mark.parametrize("name", ["batch", "mine"])
def test_an_output_that_leads_to_itself(name: str):
    Path("loop.jsonl").symlink_to("other.jsonl")
    Path("other.jsonl").symlink_to("loop.jsonl")
    told = one_line(call(name, "gold.jsonl", "-o", "loop.jsonl"), 2)
    assert "cannot be written (Too many levels of symbolic links)" in told
    assert Path("loop.jsonl").is_symlink()


def test_a_folder_of_results_takes_the_place_of_no_file():
    methods = ("--methods", "pearl", "-o", "e.jsonl")
    assert call("eval", "questions", "--data", "gold.jsonl", *methods).code == 0
    told = one_line(call("report", "e.jsonl", "-o", "good.plan/"), 2)
    assert told == "good.plan/ cannot be written (File exists): name a new folder of your own."
    assert "is what is read" in one_line(call("report", "e.jsonl", "-o", "e.jsonl/"), 2)
