"""The extension for VS Code, the hooks for pre-commit, and the workflow of docs/editor.md."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.shell import BAD, GOOD, call
from tests.textmate import Grammars

CODE = ROOT / "editors" / "vscode"
EXAMPLE = """\
# a comment
question: Why does "Ross" leave?

New actions:
- FIND_TRUST(CTX, X: text, ...) -> number : Find how far X trusts (in CTX)

1. ross = FIND_CHARACTER(CTX, "Ro \\"x\\" {each people}") : Identify (him)
2. größe = COUNT([ross, -2.5e3], true, where values ross)  # noqa: PRL401
3. open = FIND_EVENT(CTX, "never closed
4. b = CONCAT(ross, größe) : x
return ross, b
"""
LIBRARY = """\
FIND_CHARACTER(CTX, X) -> text : Say who X is (in CTX).
  aliases: FIND_PERSON
  replaces: OLD(CTX, X) = (CTX, "all of {X}")
COUNT(LIST: list, ...) # Count
DEEP(CTX)
  plan:
    1. a = COUNT(CTX) : w
"""


def loaded(name: str) -> Any:
    return json.loads((CODE / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def grammars() -> Grammars:
    return Grammars(*sorted((CODE / "syntaxes").glob("*.json")))


def coloured(grammars: Grammars, scope: str, text: str) -> list[list[tuple[str, str]]]:
    """Each line's pieces that have a colour, with the first two words of its name."""
    return [
        [(piece, ".".join(name.split(".")[:2])) for piece, name in line if name]
        for line in grammars.colour(scope, text)
    ]


class TestExtension:
    def test_every_file_that_the_manifest_names_is_there(self):
        manifest = loaded("package.json")
        gives = manifest["contributes"]
        files = [manifest["main"], *(one["path"] for one in gives["grammars"])]
        files += [one["configuration"] for one in gives["languages"]]
        for name in files:
            assert (CODE / name).is_file(), name

    def test_languages_grammars_and_the_server_agree(self):
        gives = loaded("package.json")["contributes"]
        languages = {one["id"]: one["extensions"] for one in gives["languages"]}
        assert languages == {"pearl-plan": [".plan"], "pearl-actions": [".actions"]}
        assert {one["language"] for one in gives["grammars"]} == set(languages)
        for one in gives["grammars"]:
            assert loaded(one["path"])["scopeName"] == one["scopeName"]
        script = (CODE / "extension.js").read_text(encoding="utf-8")
        assert set(re.findall(r'language: "([\w-]+)"', script)) == set(languages)

    def test_the_setting_is_the_persons_and_starts_a_command_that_exists(self):
        setting = loaded("package.json")["contributes"]["configuration"]["properties"]
        # A workspace that could set it could start any program.
        assert setting["pearl.command"]["scope"] == "machine"
        assert loaded("package.json")["capabilities"]["untrustedWorkspaces"]["supported"] is False
        program, *words = setting["pearl.command"]["default"]
        assert program == "pearl"
        assert call(*words, "--help").code == 0

    def test_the_script_names_what_the_manifest_has(self):
        script = (CODE / "extension.js").read_text(encoding="utf-8")
        manifest = loaded("package.json")
        commands = {one["command"] for one in manifest["contributes"]["commands"]}
        assert set(re.findall(r'registerCommand\("([\w.]+)"', script)) == commands
        needed = {name.split("/")[0] for name in re.findall(r'require\("([^"]+)"\)', script)}
        assert needed - {"vscode"} == set(manifest["dependencies"])

    def test_the_script_is_javascript(self):
        node = shutil.which("node")
        if not node:
            pytest.skip("node is not installed")
        done = subprocess.run(
            [node, "--check", str(CODE / "extension.js")], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def test_words_are_names_of_the_language(self):
        pattern = loaded("language-configuration.json")["wordPattern"]
        assert re.findall(pattern, '1. größe = FIND_X2(CTX, "a {b}")') == [
            "größe", "FIND_X2", "CTX", "a", "b",
        ]  # fmt: skip


class TestGrammars:
    def test_every_regular_expression_compiles(self, grammars: Grammars):
        regexes = list(grammars.regexes())
        assert len(regexes) > 25
        for regex in regexes:
            re.compile(regex)

    def test_a_plan(self, grammars: Grammars):
        lines = coloured(grammars, "source.pearl-plan", EXAMPLE)
        assert lines[0] == [("# a comment", "comment.line")]
        assert lines[1][0] == ("question", "keyword.other")
        assert lines[1][2] == ('Why does "Ross" leave?', "markup.heading")
        for line, expected in (
            (4, "- punctuation|FIND_TRUST entity|( punctuation|CTX variable|X variable"
                "|: punctuation|text support|... keyword|) punctuation|-> keyword|number support"
                "|: punctuation|Find how far X trusts (in CTX) string"),
            (6, "1. constant|ross variable|= keyword|FIND_CHARACTER entity|( punctuation"
                '|CTX variable|, punctuation|" punctuation|Ro  string|\\" constant|x string'
                '|\\" constant|  string|{ punctuation|each keyword|  string|people variable'
                '|} punctuation|" punctuation|) punctuation|: punctuation|Identify (him) string'),
            (9, "4. constant|b variable|= keyword|CONCAT entity|( punctuation|ross variable"
                "|, punctuation|größe variable|) punctuation|: punctuation|x string"),
            (10, "return keyword|ross variable|b variable"),
        ):  # fmt: skip
            pieces = [f"{text} {scope.partition('.')[0]}" for text, scope in lines[line]]
            assert "|".join(pieces) == expected
        # A text that is not closed ends at the next step.
        assert lines[8][-1] == ("never closed", "string.quoted")
        assert ("CTX", "variable.language") in lines[4]
        assert ("X", "variable.parameter") in lines[4]
        assert ("-2.5e3", "constant.numeric") in lines[7]
        assert ("true", "constant.language") in lines[7]
        assert ("where values", "keyword.operator") in lines[7]
        assert lines[7][-1] == ("# noqa: PRL401", "comment.line")

    def test_a_library(self, grammars: Grammars):
        lines = coloured(grammars, "source.pearl-actions", LIBRARY)
        assert lines[0][0] == ("FIND_CHARACTER", "entity.name")
        assert lines[0][-1] == ("Say who X is (in CTX).", "string.unquoted")
        assert lines[1][0] == ("aliases", "keyword.other")
        assert lines[2][0] == ("replaces", "keyword.other")
        assert ("OLD", "entity.name") in lines[2]
        assert lines[2].count(("X", "variable.parameter")) == 1
        assert lines[2].count(("X", "variable.other")) == 1
        assert lines[3][-1] == ("Count", "string.unquoted")
        assert lines[5][0] == ("plan", "keyword.other")
        assert lines[6][:2] == [("1.", "constant.numeric"), ("a", "variable.other")]

    def test_every_action_and_step_of_the_demonstrations_is_coloured(self, grammars: Grammars):
        for file in ROOT.glob("plans/demos/*.plan"):
            text = file.read_text(encoding="utf-8")
            steps = re.findall(r"(?m)^\d+\. (\w+) = (\w+)\(", text)
            assert steps
            lines = coloured(grammars, "source.pearl-plan", text)
            flat = {piece for line in lines for piece in line}
            for name, action in steps:
                assert {(name, "variable.other"), (action, "entity.name")} <= flat, file

    def test_every_action_of_the_shipped_libraries_is_coloured(self, grammars: Grammars):
        for file in ROOT.glob("actions/*.actions"):
            text = file.read_text(encoding="utf-8")
            lines = coloured(grammars, "source.pearl-actions", text)
            for line, pieces in zip(text.split("\n"), lines, strict=True):
                named = re.match(r"(\w+)\(", line)
                if named:
                    assert pieces[0] == (named[1], "entity.name"), line


class TestHooks:
    @pytest.fixture
    def hooks(self) -> dict[str, Any]:
        text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
        return {one["id"]: one for one in yaml.safe_load(text)}

    def run(self, hook: dict[str, Any], folder: Path) -> tuple[int, str]:
        """What pre-commit does: the entry, with the files that match."""
        files = sorted(one.name for one in folder.iterdir() if re.search(hook["files"], one.name))
        program, *words = shlex.split(hook["entry"])
        assert program == "pearl"
        done = call(*words, *files)
        return done.code, done.out

    def test_they_say_what_pre_commit_asks_for(self, hooks: dict[str, Any]):
        assert set(hooks) == {"pearl-lint", "pearl-fmt"}
        for hook in hooks.values():
            assert {"id", "name", "description", "entry", "language", "files"} == set(hook)
            assert hook["language"] == "python"

    def test_lint_fails_on_what_is_found(self, hooks: dict[str, Any], tmp_path: Path):
        (tmp_path / "good.plan").write_text(GOOD, encoding="utf-8")
        (tmp_path / "notes.txt").write_text(BAD, encoding="utf-8")
        assert self.run(hooks["pearl-lint"], tmp_path)[0] == 0
        (tmp_path / "bad.plan").write_text(BAD, encoding="utf-8")
        code, out = self.run(hooks["pearl-lint"], tmp_path)
        assert code == 1
        assert "PRL201" in out

    def test_fmt_rewrites(self, hooks: dict[str, Any], tmp_path: Path):
        plan = tmp_path / "loose.plan"
        plan.write_text('a=FIND_EVENT( CTX,"x" ): y\n', encoding="utf-8")
        assert self.run(hooks["pearl-fmt"], tmp_path)[0] == 0
        assert plan.read_text(encoding="utf-8") == '1. a = FIND_EVENT(CTX, "x") : y\n'


class TestDocument:
    TEXT = (ROOT / "docs" / "editor.md").read_text(encoding="utf-8")

    def blocks(self, language: str) -> list[str]:
        return re.findall(rf"```{language}\n(.*?)```", self.TEXT, re.DOTALL)

    def test_the_hooks_it_names_are_those_that_are_there(self):
        config = next(yaml.safe_load(one) for one in self.blocks("yaml") if "repos:" in one)
        named = [hook["id"] for repo in config["repos"] for hook in repo["hooks"]]
        text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
        assert named == [one["id"] for one in yaml.safe_load(text)]

    def test_the_workflow_annotates_what_is_found(self, tmp_path: Path):
        flow = next(yaml.safe_load(one) for one in self.blocks("yaml") if "jobs:" in one)
        steps = [step for job in flow["jobs"].values() for step in job["steps"]]
        line = next(step["run"] for step in steps if "pearl lint" in step.get("run", ""))
        (tmp_path / "plans").mkdir()
        (tmp_path / "plans" / "bad.plan").write_text(BAD, encoding="utf-8")
        words = shlex.split(line)
        assert words[0] == "pearl"
        done = call(*words[1:])
        assert done.code == 1
        assert done.out.startswith("::error file=plans/bad.plan,line=1,col=")

    def test_neovim_takes_three_lines(self):
        lua = self.blocks("lua")[0].splitlines()
        assert len(lua) == 3
        assert "pearl" in lua[1]
        assert "lsp" in lua[1]
