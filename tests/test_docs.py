"""The Markdown documents say what the program says.

Every ``console`` block is a session: lines that start with ``$`` are run in a
folder with this repository's plans and the document's titled blocks, saved
under their titles, and what they print must be what stands below them.
``UPDATE_DOCS=1 python -m pytest tests/test_docs.py`` writes it.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from io import StringIO
from operator import attrgetter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
import yaml
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

import pearl
from pearl.cli import COMMANDS, Commands
from pearl.evaluate.datasets import find_dataset
from pearl.evaluate.methods import find_method
from pearl.lang.diagnostics import SourceFindings
from pearl.lang.source import shipped_actions
from pearl.lint.rules import RULES
from pearl.models.settings import Settings
from pearl.prompts.calls import ProveForm
from pearl.prompts.render import render
from tests.conftest import PICTURES, ROOT, keep_picture, rendered
from tests.server import Script, Server
from tests.shell import call

pytest_plugins = ["tests.browser"]

DRAFT = """\
question: How are Ro and his mother related to the sale?

1. ro = FIND_CHARACTER(CTX, "Ro") : Identify who Ro is
2. tie = FIND_RELATIONSHIPS(CTX, ro, mother) : Find how the two stand to each other
3. sale = FIND_EVENT(CTX, "the sale" : Find what happens at the sale
4. ans = CONCAT(tie, sale) : Combine them
"""
BLOCK = re.compile(r'```(?:console|\w+ title="(.+?)")\n(.*?)```', re.DOTALL)
RUN_NAME = re.compile(r"\b20\d{6}-\d{6}-[0-9a-f]{6}\b")
BEGUN = re.compile(r"begun [\d-]{10} \d\d:\d\d UTC")
VERSION = re.compile(r"(?m)^# pearl: .+$")
SECONDS = re.compile(r"(?m)^time {7}[\d.]+ s$|\b\d\.\d (?:MB|s)$")
DOCUMENTS = (
    "README.md",
    "docs/tutorial.md",
    "docs/language.md",
    "docs/batch.md",
    "docs/spreadsheet.md",
    "docs/mining.md",
    "docs/evaluation.md",
    "docs/reports.md",
    "docs/decomp.md",
    "docs/fsm.md",
    "docs/rebel.md",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "plans", tmp_path / "plans")
    shutil.copytree(ROOT / "docs" / "recorded", tmp_path / "docs" / "recorded")
    (tmp_path / "draft.plan").write_text(DRAFT, encoding="utf-8")
    return tmp_path


def session(block: str, folder: Path, endpoint: str, patch: pytest.MonkeyPatch) -> Iterator[str]:
    """The block as it should read: each command with what it prints."""
    for line in block.splitlines():
        if not line.startswith("$ "):
            continue
        yield line
        program, *words = shlex.split(line[2:])
        if program == "export":
            name, _, value = words[0].partition("=")
            patch.setenv(name, endpoint if name == "OPENAI_BASE_URL" else value)
            continue
        if program == "pearl":
            printed = call(*words).out
        else:
            program = sys.executable if program == "python" else program
            printed = subprocess.check_output([program, *words], cwd=folder, text=True, timeout=60)
        printed = RUN_NAME.sub("20260101-120000-0a1b2c", printed)
        printed = VERSION.sub("# pearl: 0.1.0", printed)
        printed = SECONDS.sub(lambda found: re.sub(r"[\d.]+", "0.4", found[0]), printed)
        printed = BEGUN.sub("begun 2026-01-01 12:00 UTC", printed)
        yield from printed.rstrip().splitlines()


def replies(name: str) -> Script:
    """What a language model answered, in the order in which it was asked; it keeps to no form of
    replies, and where it is asked whether it does, that is none of them."""
    rows = (ROOT / "docs" / "recorded" / name).read_text(encoding="utf-8").splitlines()
    texts = [json.loads(row)["text"] for row in rows[1:]]
    proof = render(ProveForm("", ""))[0]["content"]

    def answer(body: dict[str, Any]) -> str:
        return "No." if body["messages"][0]["content"] == proof else texts.pop(0)

    return answer


@pytest.mark.parametrize("name", DOCUMENTS)
def test_sessions_print_what_the_document_says(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NO_COLOR", "1")
    # As it is for whoever follows the page.
    monkeypatch.delenv("PEARL_CONSTRAIN")
    file = ROOT / name
    text = file.read_text(encoding="utf-8")
    printed: list[str] = []

    def real(found: re.Match[str]) -> str:
        title, block = found.groups()
        if title:
            (folder / title).parent.mkdir(exist_ok=True)
            (folder / title).write_text(block, encoding="utf-8")
            return found[0]
        printed.append("\n".join(session(block, folder, server.url, monkeypatch)) + "\n")
        return f"```console\n{printed[-1]}```"

    with Server(replies("tutorial.jsonl")) as server:
        now = BLOCK.sub(real, text)
    assert printed, f"{name} shows no session"
    if os.environ.get("UPDATE_DOCS"):
        file.write_text(now, encoding="utf-8")
        return
    said = [block for title, block in BLOCK.findall(text) if not title]
    for one, other in zip(said, printed, strict=True):
        assert one == other


def test_the_python_example_runs(folder: Path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert example
    assert len([line for line in example[1].splitlines() if line.strip()]) <= 10
    done = subprocess.run([sys.executable, "-c", example[1]], cwd=folder, capture_output=True,
                          text=True, check=True, timeout=60)  # fmt: skip
    assert "Span(start=" in done.stdout
    assert "question: Why does Mara leave the lighthouse?" in done.stdout


def options_of(command: click.Command) -> set[str]:
    """Every option of a command and of those below it."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    own = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    return own.union(*map(options_of, below))


def test_the_table_of_commands_names_options_there_are_and_those_that_are_needed():
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `pearl (\w+)(.*?)` \|", text, re.MULTILINE)
    assert {name for name, _ in rows} == COMMANDS.keys()
    for name, words in rows:
        command = Commands().get_command(click.Context(click.Command("pearl")), name)
        assert command
        named = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", words))
        assert named <= options_of(command), name
        below = command.commands if isinstance(command, click.Group) else {}
        asked = [command, *(one for key, one in below.items() if f" {key} " in f"{words} ")]
        needed = [param for one in asked for param in one.params if param.required]
        options = [param for param in needed if isinstance(param, click.Option)]
        assert all(named.intersection(param.opts) for param in options), name


def test_every_setting_is_documented_and_no_other():
    text = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    table = text[text.index("\n## Settings") : text.index("\n## First-try")]
    own = {f"PEARL_{name.upper()}" for name, field in Settings.model_fields.items()
           if not field.validation_alias}  # fmt: skip
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "pearl").rglob("*.py"))
    read = set(re.findall(r'"(PEARL_[A-Z_]+)"', code))
    assert set(re.findall(r"`(PEARL_\w+)`", table)) == own | read


def test_the_readme_shows_a_picture_within_a_screen_and_a_half():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    shown = [at for at, line in enumerate(lines) if line.startswith("![")]
    assert shown[0] < 60
    assert [re.search(r"(\w+)\.\w+\)$", lines[at])[1] for at in shown] == [
        "run", "findings", "report",
    ]  # fmt: skip


def signature(name: str) -> str:
    """What a name of the package, or a method of `pearl.Pearl`, is called with, without types."""
    parts: list[str] = []
    for param in inspect.signature(attrgetter(name)(pearl)).parameters.values():
        mark = {param.VAR_POSITIONAL: "*", param.VAR_KEYWORD: "**"}.get(param.kind, "")
        if param.kind is param.KEYWORD_ONLY and not any(part[0] == "*" for part in parts):
            parts.append("*")
        default = param.default
        plain = default is None or isinstance(default, str | bool | int | tuple)
        said = "" if default is param.empty else f"={default!r}" if plain else "=…"
        parts.append(f"{mark}{param.name}{said}".replace("'", '"'))
    return f"{name}({', '.join(part for part in parts if part != 'self')})"


METHODS = [name for name, _ in inspect.getmembers(pearl.Pearl, inspect.iscoroutinefunction)
           if name[0] != "_" and not name.endswith("_sync")]  # fmt: skip


def test_calls_are_documented_as_they_are():
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    called = [name for name in pearl.__all__ if name[0].islower()]
    called += [
        "Graded",
        "Models",
        "OpenAIModel",
        "OwnPrompt",
        "Pearl",
        *(f"Pearl.{name}" for name in METHODS),
    ]
    headings = re.findall(r"^### `pearl\.(.+\))`$", text, re.MULTILINE)
    assert sorted(headings) == sorted(map(signature, called))
    for name in METHODS:
        assert signature(f"Pearl.{name}_sync") == signature(f"Pearl.{name}").replace(
            "(", "_sync(", 1
        )
        assert f"`{name}_sync`" in text
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    three = {name: inspect.signature(getattr(pearl, name)).parameters for name in
             ("write_plan", "run", "ask")}  # fmt: skip
    assert rows.keys() | {"plan"} == set().union(*three.values())
    for name, said in rows.items():
        takes = {one for one, taken in three.items() if name in taken}
        assert takes == (set(three) if said == "all" else set(re.findall(r"\w+", said))), name


ACTIONS = """\
import pearl
@pearl.action
def shout(text: str) -> str:
    'Put TEXT in capitals.'
    return text.upper()
@pearl.action
def count(document: str, word: str) -> int:
    'Count WORD in the document.'
    return document.count(word)
actions = [shout, count]
own: pearl.OwnAction = shout
pearl.Pearl(library=actions)
"""


@pytest.mark.timeout(400)
def test_the_program_of_the_python_page_runs_and_type_checks(folder: Path):
    """It is what a user would write: strict mypy takes it as it is."""
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    program = folder / "program.py"
    program.write_text("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)))
    done = subprocess.run([sys.executable, "program.py"], cwd=folder, capture_output=True,
                          text=True, check=True, timeout=60)  # fmt: skip
    assert "line " in done.stdout
    assert re.search(r"^(?:A\. Mara|B\. Rusk|none) \d+$", done.stdout, re.MULTILINE)
    # Other pages go on from names that they do not define; what they call has to be there.
    pages = []
    for page in ("condense", "decomp", "fsm", "learning", "rebel", "retrieval", "tools"):
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        blocks = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
        head = '# mypy: disable-error-code="name-defined"\nasync def page() -> None:\n'
        pages.append(folder / f"{page}_page.py")
        pages[-1].write_text(head + textwrap.indent(blocks, "    "))
    wrong = folder / "wrong.py"
    wrong.write_text("import pearl\npearl.run_sync('x', 'y', strategy='fsm1')\npearl.aks_sync\n")
    actions = folder / "actions.py"
    actions.write_text(ACTIONS)
    # With the package's own settings, which are strict; what Pearl itself stands on is not read.
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-site-packages", "--ignore-missing-imports",
         "--follow-imports=silent", program, wrong, actions, *pages],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 'wrong.py:2: error: Unexpected keyword argument "strategy"' in checked.stdout
    assert 'wrong.py:3: error: Module has no attribute "aks_sync"' in checked.stdout
    assert "Found 2 errors in 1 file" in checked.stdout


def test_a_plan_that_nobody_accepted_is_told_as_such():
    planned = pearl.Planned(None, 8, pearl.Source("plan/8", "-"), (), 0)
    with pytest.raises(pearl.RunError, match="No plan was accepted in 8 attempts"):
        pearl.run_sync(planned, "any.txt", model="offline")


@pytest.mark.parametrize("name", ["Answer", "Quote"])
def test_every_field_of_an_answer_is_documented(name: str):
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    table = text[text.index(f"| `pearl.{name}` |") :].partition("\n\n")[0]
    assert set(re.findall(r"`\.(\w+)`", table)) >= getattr(pearl, name).__annotations__.keys()


def test_every_exported_name_is_documented():
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    names = re.findall(r"^### `pearl\.(\w+)(?!\.)\b", text, re.MULTILINE)
    assert set(names) <= set(pearl.__all__)
    rows = "".join(re.findall(r"^\| `.+?` \|", text, re.MULTILINE))
    assert set(pearl.__all__) <= {*names, *re.findall(r"`pearl\.(\w+)`", rows)}
    for name in pearl.__all__:
        assert getattr(pearl, name).__doc__, name


def test_every_rule_is_documented():
    text = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    rows = "".join(
        f"| {rule.code} | {rule.name} | "
        f"{rule.severity}{'' if rule.enabled else ', off unless selected'} | "
        f"{rule.doc.strip().splitlines()[0]} |\n"
        for rule in sorted(RULES, key=lambda rule: rule.code)
    )
    if os.environ.get("UPDATE_DOCS"):
        head = text[: text.index("|---|") + len("|---|---|---|---|\n")]
        (ROOT / "docs" / "rules.md").write_text(head + rows, encoding="utf-8")
        return
    assert text.endswith(rows)


def test_links_lead_somewhere():
    for file in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", file.read_text(encoding="utf-8")):
            assert (file.parent / target).exists(), f"{file.name}: {target}"


@pytest.mark.slow
def test_the_site_is_built_and_asks_no_other_host(tmp_path: Path):
    pytest.importorskip("mkdocs", reason="pip install -e '.[docs]'")
    site = tmp_path / "site"
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {page.parent.relative_to(site).as_posix(): page.read_text(encoding="utf-8")
             for page in site.glob("**/index.html")}  # fmt: skip
    for name, page in pages.items():
        loaded = re.findall(r"<(?:script|link|img|source)\b[^>]*?(?:src|href)=\"?(\S+)", page)
        assert loaded, name
        assert not [one for one in loaded if "//" in one], name
        # The theme's script would fetch what draws these.
        assert 'class="mermaid"' not in page, name
    shown = set(re.findall(r'id="pearl\.(\w+)"', pages["api"]))
    assert shown >= {name for name in pearl.__all__ if not name.endswith("_sync")}
    for rule in RULES:
        assert f'href="{rule.code}/"' in pages["rules"], rule.code
        assert "What it does" in pages[f"rules/{rule.code}"], rule.code


def test_a_plan_s_findings_are_drawn_as_a_terminal_shows_them():
    report = SourceFindings(pearl.Source("draft.plan", DRAFT), tuple(pearl.check(DRAFT)))
    shown = rendered("terminal", report)
    file = PICTURES / "findings.svg"
    if os.environ.get("UPDATE_PICTURES"):
        drawn = Console(record=True, width=100, file=StringIO())
        drawn.print(Text.from_ansi(shown))
        # Rich's own form asks another host for its font.
        form = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
        form = form.replace("Fira Code, monospace", "ui-monospace, 'DejaVu Sans Mono', monospace")
        drawn.save_svg(str(file), title="pearl lint draft.plan", code_format=form, unique_id="lint")
    text = " ".join(ElementTree.parse(file).getroot().itertext())
    said = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert set(said.split()) <= set(text.split())
    assert "url(http" not in file.read_text(encoding="utf-8")


@pytest.mark.skipif("UPDATE_PICTURES" not in os.environ, reason="UPDATE_PICTURES makes it anew")
def test_the_picture_of_a_report(shared: Path, in_chromium: Callable[..., Any]):
    shutil.copy(shared / "pearl_gpt4" / "outcomes.jsonl", "outcomes.jsonl")
    assert call("replicate", "outcomes.jsonl", "-o", "report.html").code == 0

    def look(browser: Any) -> bytes:
        page = browser.new_page(viewport={"width": 1180, "height": 900})
        page.goto(Path("report.html").absolute().as_uri())
        top = page.locator("h2").nth(0).bounding_box()["y"] - 20
        end = page.locator("h2").nth(1).bounding_box()["y"] - 10
        page.set_viewport_size({"width": 1180, "height": int(end) + 1})
        return page.screenshot(clip={"x": 40, "y": top, "width": 1100, "height": end - top})

    keep_picture("report", in_chromium(look))


PAPERS = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("line", sorted(set(re.findall(r"`(pearl [^`\n]+)`", PAPERS))))
def test_a_command_of_the_papers_can_be_given(line: str):
    name, *words = shlex.split(line)[1:]
    command = Commands().get_command(click.Context(click.Command("pearl")), name)
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))
    assert command, line
    if words == ["--help"]:
        return
    # Arguments are read, and nothing is run.
    given = command.make_context(name, words).params
    for method in given.get("methods") or ():
        find_method(method)
    if "dataset" in given:
        find_dataset(given["dataset"])
    for library in given.get("libraries", ()):
        assert library in shipped_actions() or library.endswith((".actions", ".txt")), library


def test_the_papers_are_cited():
    """With what the page on them says, and nothing else."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    line = re.compile(r'^"(.+)", (\w+)\b.*?(\d{4})\.', re.MULTILINE)
    assert [
        (one["title"], one["authors"][0]["family-names"], str(one["year"])) for one in cited
    ] == (line.findall(PAPERS))


def test_benchmarks_of_the_papers_take_their_options():
    for module, words in re.findall(r"`python -m benchmarks\.(\w+)([^`\n]*)`", PAPERS):
        text = (ROOT / "benchmarks" / f"{module}.py").read_text(encoding="utf-8")
        for option in re.findall(r"--[a-z-]+", words):
            assert f'"{option}"' in text, (module, option)


def test_what_the_page_on_security_rests_on_is_tested():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(?:\w+::)?(test_\w+)`", page)
    assert len(named) == page.count("`tests/") >= 15
    for file, test in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), test
