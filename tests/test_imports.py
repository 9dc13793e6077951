"""Who may import whom (docs/house.md), and what is loaded when."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

from tests.conftest import ROOT

ROOMS = (
    "lang", "lint", "passes", "retrieval", "prompts", "models", "runtime", "store", "tools",
    "strategies", "session", "answer", "commaqa", "jobs", "mining", "report", "evaluate", "viewer",
    "review", "lsp", "api", "facade", "cli", "__main__",
)  # fmt: skip
HEAVY = (
    "tiktoken", "numpy", "bm25s", "pydantic", "jinja2", "aiohttp", "rich", "sqlalchemy",
    "distributed", "tantivy", "snowballstemmer", "sqlite3", "pygls", "starlette",
    "uvicorn", "nltk", "scipy", "asyncio", "jsonschema", "openai",
    "xllamacpp", "multiprocessing", "pypdfium2", "mammoth", "markdownify", "bs4", "lxml", "zipfile",
    "pandas", "opentelemetry", "mcp", "anyio",
)  # fmt: skip
PACKAGE = ROOT / "pearl"
FILES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts): file for file in PACKAGE.rglob("*.py")
}
"""By the modules' names; a package's own is ``pearl.lang.__init__``."""


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imports(file: Path) -> frozenset[str]:
    """The modules that a file imports anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                found.add(inner if inner in FILES else node.module)
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return frozenset(found)


def room(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_every_module_is_in_a_room_and_imports_only_point_upward():
    assert {room(file) for file in FILES.values()} - {"__init__"} == set(ROOMS)
    wrong = []
    for file in FILES.values():
        parts = (module.split(".") for module in imports(file))
        used = [names[1] for names in parts if names[0] == "pearl" and len(names) > 1]
        allowed = ROOMS[: ROOMS.index(room(file)) + 1] if room(file) != "__init__" else ROOMS
        wrong += [f"{file.name} imports {one}" for one in used if one not in allowed]
    assert wrong == []


BACK = {
    ("lang.ast", "lang.graph"),  # a notebook's picture of a plan
    ("jobs.job", "jobs.cluster"),  # a job, where it is done on a cluster
}
"""What a file imports while it runs of one that imports it, and why."""


def test_no_two_files_import_each_other():
    """Not even where one of them does so late: whoever changes one would have to know both."""
    modules = {
        ".".join(file.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): {
            module.removeprefix("pearl.") for module in imports(file) if module.startswith("pearl.")
        }
        for file in FILES.values()
    }
    order = TopologicalSorter(
        {
            name: {other for other in used if other in modules and (name, other) not in BACK}
            - {name}
            for name, used in modules.items()
        }
    )
    assert len(list(order.static_order())) == len(modules)
    assert all(other in modules[name] for name, other in BACK)


def test_nobody_imports_commaqa_but_its_commands_its_data_sets_and_its_methods():
    importers = {
        str(file.relative_to(PACKAGE).with_suffix(""))
        for file in FILES.values()
        if room(file) != "commaqa"
        and any(module.startswith("pearl.commaqa") for module in imports(file))
    }
    evaluation = {
        "evaluation_job",
        "setup",
        "datasets/decomp",
        "methods/base",
        "methods/strategies",
    }
    assert importers <= {f"evaluate/{name}" for name in evaluation} | {"cli/commaqa", "cli/options"}


def test_no_module_hides_a_name_that_is_exported():
    """A package ``pearl.run`` would take the place of the function once it is imported."""
    import pearl

    for name in pearl.__all__:
        assert not (PACKAGE / name / "__init__.py").exists(), name
        assert not (PACKAGE / f"{name}.py").exists(), name


def test_no_group_is_possessive():
    """Python 3.11.0 to 3.11.4 read such a group wrongly (see `pearl.lang.text.pattern`)."""
    possessive = re.compile(r"(?<![\\(])\)(?:[*+?]|\{[\d,]+\})\+")
    found = {
        str(path.relative_to(ROOT)): token.string
        for path in (ROOT / "pearl").rglob("*.py")
        for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
        if "STRING" in tokenize.tok_name[token.type] and possessive.search(token.string)
    }
    assert found == {}
    assert possessive.search(r"(?:a b)*+")
    assert possessive.search(r"(?:a b){1,3}+")


def test_public_functions_and_classes_say_what_they_are():
    exempt = {"check", "explain", "check_plan", "check_library"}  # a rule's module says it
    for file in FILES.values():
        assert ast.get_docstring(tree(file)), file
        for node in tree(file).body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if node.name.startswith("_") or ("rules" in file.parts and node.name in exempt):
                continue
            if any(
                isinstance(one, ast.Name) and one.id == "overload" for one in node.decorator_list
            ):
                continue
            assert ast.get_docstring(node), f"{file.name}: {node.name}"


COMMANDS = (
    ("--help",), ("lint", "one.plan"), ("fmt", "one.plan", "--check"), ("rule", "PRL201"),
    ("graph", "one.plan"), ("actions",),
)  # fmt: skip


def test_nothing_heavy_is_loaded_before_it_is_used(tmp_path: Path):
    text = '1. ross = FIND_CHARACTER(CTX, "Ross") : Identify Ross\n'
    (tmp_path / "one.plan").write_text(text, encoding="utf-8")
    code = (
        "import sys\nfrom pearl.cli import main\n"
        f"for words in {COMMANDS!r}:\n"
        "    sys.argv = ['pearl', *words]\n"
        "    try:\n        main()\n"
        "    except SystemExit as ended:\n        assert not ended.code, ended.code\n"
        f"    print('loaded:', words[0], [one for one in {HEAVY!r} if one in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    loaded = [line for line in done.stdout.splitlines() if line.startswith("loaded:")]
    assert loaded == [f"loaded: {words[0]} []" for words in COMMANDS]
