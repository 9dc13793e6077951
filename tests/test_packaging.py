"""The data folders are found alike from a wheel, an sdist and an editable install, whose version
is the repository's last tag."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from pearl.lang.library import load_library
from tests.conftest import ROOT

# To build and to install takes longer than all that one change may break of it.
pytestmark = pytest.mark.slow

LOOK = """
import json, sys
import pearl
from pearl.lang.source import grammar_table, shipped_actions, shipped_plans
from pearl.lang.library import load_library
read = lambda file: file.read_text(encoding="utf-8")
print(json.dumps({
    "home": pearl.__file__,
    "grammar": {name: grammar_table(name) for name in ("plan", "library")},
    "actions": {file.name: read(file) for file in shipped_actions().values()},
    "plans/demos": {file.name: read(file) for file in shipped_plans()},
    "count": len(load_library().actions),
}))
"""


def run(*words: str | Path, cwd: Path, **settings: str) -> str:
    done = subprocess.run(
        [*map(str, words)], cwd=cwd, capture_output=True, text=True, check=False, timeout=110,
        env={**os.environ, "PYTHONPATH": "", **settings},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A copy of the tree as git has it, tagged, and the sdist and the wheel made from it."""
    work = tmp_path_factory.mktemp("build")
    tree = work / "tree"
    ignored = shutil.ignore_patterns(
        ".git", ".*cache", "__pycache__", "*.egg-info", ".venv", "build"
    )
    shutil.copytree(ROOT, tree, ignore=ignored)
    assert version_of(tree) == "0.1.dev0"
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "all"), ("tag", "v7.8.9")):
        run(*git, *words, cwd=tree)
    # Without isolation: the backend is one of the test's own packages, and no network is needed.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", work / "dist", cwd=tree)
    dist = work / "dist"
    return tree, next(dist.glob("*.tar.gz")), next(dist.glob("*.whl"))


def version_of(tree: Path) -> str:
    """The version that a build of this folder has."""
    return run(sys.executable, "-m", "setuptools_scm", cwd=tree).strip()


def installed(what: str | Path, folder: Path, *options: str) -> Path:
    """The Python of a fresh environment in which Pearl is installed, its dependencies borrowed."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder.parent)
    python = folder / "bin" / "python"
    site = next(folder.glob("lib/python*/site-packages"))
    words = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps",
             "--no-build-isolation", "--no-compile", "--disable-pip-version-check",
             *options]  # fmt: skip
    # Building needs setuptools in the environment itself.
    (site / "borrowed.pth").write_text(_borrowed(folder), encoding="utf-8")
    run(*words, what, cwd=folder.parent)
    return python


def _borrowed(folder: Path) -> str:
    """A folder of links to every installed package but Pearl itself."""
    links = folder / "borrowed"
    links.mkdir()
    for path in sys.path:
        if path.endswith("site-packages"):
            for entry in Path(path).iterdir():
                if "pearl" not in entry.name and entry.suffix != ".pth":
                    (links / entry.name).symlink_to(entry)
    return f"{links}\n"


@pytest.fixture(scope="module", params=["wheel", "editable"])
def python(
    request: pytest.FixtureRequest,
    built: tuple[Path, Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Path]:
    """The Python of an environment that has Pearl, and the folder in which its modules are."""
    tree, _, wheel = built
    folder = tmp_path_factory.mktemp("installed") / "env"
    if request.param == "wheel":
        return installed(wheel, folder), folder
    return installed(tree, folder, "-e"), tree


def test_what_is_installed_has_its_data(python: tuple[Path, Path], built: tuple[Path, Path, Path]):
    """The wheel was built from the sdist, so both are tried; and the wheel from within the tree,
    whose modules stand before those that are installed."""
    (found, home), tree = python, built[0]
    for folder, where in {Path.cwd(): home, tree: tree}.items():
        seen = json.loads(run(found, "-c", LOOK, cwd=folder))
        assert Path(seen["home"]).is_relative_to(where)
        for name in ("plan", "library"):
            table = json.loads((ROOT / "grammar" / f"{name}.json").read_bytes())
            assert seen["grammar"][name] == table
        for kind, ending in (("actions", "actions"), ("plans/demos", "plan")):
            files = (ROOT / kind).glob(f"*.{ending}")
            texts = {file.name: file.read_text(encoding="utf-8") for file in files}
            assert seen[kind] == texts
        assert seen["count"] == len(load_library().actions)


def test_what_is_installed_answers(python: tuple[Path, Path], tmp_path: Path):
    pearl = python[0].parent / "pearl"
    assert run(pearl, "--version", cwd=tmp_path) == "pearl, version 7.8.9\n"
    story = tmp_path / "story.txt"
    story.write_text("Mara left. She left because the post had closed.\n", encoding="utf-8")
    answer = json.loads(run(pearl, "ask", story, "Why did Mara leave?", "--json", cwd=tmp_path))
    assert answer["model"] == "offline"
    assert answer["evidence"]


def test_what_the_wheel_says_of_itself(built: tuple[Path, Path, Path]):
    tree, _, wheel = built
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        said = message_from_bytes(archive.read(name))
    assert said["Version"] == version_of(tree) == "7.8.9"
    extras = set(said.get_all("Provides-Extra"))
    # Extras that are made of others name only such as there are.
    for wanted in re.findall(r"^pearl\[(.+?)\]", "\n".join(said.get_all("Requires-Dist")), re.M):
        assert set(wanted.split(",")) <= extras, wanted
    text = said.get_payload()
    assert said["Description-Content-Type"] == "text/markdown"
    # A package index has no pictures of the repository's: there their words stand in for them.
    for words, picture in re.findall(r"!\[(.*?)\]\((.*?)\)", text):
        assert (tree / picture).is_file()
        assert len(words.split()) > 3, picture


def test_what_the_archives_hold(built: tuple[Path, Path, Path]):
    _, sdist, wheel = built
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in (
        "pearl/py.typed",
        "pearl/grammar/plan.json",
        "pearl/grammar/plan.lark",
        "pearl/actions/quality.actions",
        "pearl/plans/demos/why.plan",
        "pearl/plans/examples/lighthouse.txt",
        "pearl/prompts/execute_step.jinja",
        "pearl/viewer/static/htmx.min.js",
        "pearl/review/templates/plan.jinja",
    ):
        assert wanted in names
    homes = {name.partition("/")[0].partition("-")[0] for name in names}
    assert homes == {"pearl"}
    endings = {Path(name).suffix for name in names if name.startswith("pearl/")}
    known = ".py .typed .jinja .json .lark .actions .plan .txt .jsonl .toml .js .css"
    assert endings == {*known.split()}
    inner = {name.split("/")[1] for name in names if name.startswith("pearl/")}
    assert not inner & {"tests", "benchmarks", "docs", "build"}
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"grammar/plan.lark", "actions/core.actions", "plans/demos/why.plan"} <= inside
