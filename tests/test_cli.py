"""Every command, with the offline backend: what it prints, and how it ends."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pearl.cli import COMMANDS
from pearl.lang.parser import parse
from tests.runs import runs
from tests.server import Serve
from tests.shell import BAD, GOOD, STORY, all_on_terminal, call, on_terminal, one_line, process

ROOT = Path(__file__).parent.parent
ANSWER = {
    "question", "answer", "words", "option", "evidence", "grounded", "plan", "fallback", "guessed",
    "lacks", "run", "model", "notice", "calls", "kept", "usage",
}  # fmt: skip
FINDING = {
    "code", "name", "severity", "message", "help", "file", "span", "line", "column", "end_line",
    "end_column", "labels", "data", "fix",
}  # fmt: skip
RULE = {"code", "name", "severity", "enabled", "summary"}


def given(name: str, text: str) -> Any:
    """A fixture: a file that is there, by its name."""

    @pytest.fixture
    def file(tmp_path: Path) -> str:
        (tmp_path / name).write_text(text)
        return name

    return file


story = given("story.txt", STORY)
plan = given("good.plan", GOOD)
bad = given("bad.plan", BAD)


class TestHelp:
    @pytest.mark.parametrize("name", COMMANDS)
    def test_each_command_has_an_example_and_explains_every_option(self, name: str) -> None:
        result = call(name, "--help")
        assert (result.code, result.err) == (0, "")
        assert re.search(rf"Example:\s+pearl {name} \S", result.out)
        assert "--json" in result.out
        options = result.out[result.out.index("Options:") :]
        for line in re.findall(r"^  -.*\n(?:    .*\n)*", options, re.MULTILINE):
            assert re.search(r"[a-z]+ [a-z]+", line), line

    def test_the_commands_are_listed(self) -> None:
        result = call("--help")
        assert all(f"  {name} " in result.out for name in COMMANDS)
        assert "0 fine, 1 findings or no answer, 2 wrong use" in result.out

    def test_nothing_asked_is_wrong_use_and_shows_the_help(self) -> None:
        result = call()
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith("Usage: pearl")

    def test_version_and_short_help(self) -> None:
        assert re.fullmatch(r"pearl, version \S+\n", call("--version").out)
        assert call("lint", "-h").out == call("lint", "--help").out


class TestAsk:
    def test_an_example_document_is_answered_with_its_own_words(self, examples: Path) -> None:
        document = examples / "lighthouse.txt"
        result = call("ask", document, "Why does Mara leave the lighthouse?")
        assert result.code == 0
        assert result.told == [line for line in result.told if line.startswith("No language model")]
        for title in ("Answer", "Evidence", "Plan", "pearl trace "):
            assert f"\n{title}" in result.out
        text = document.read_text(encoding="utf-8")
        quotes = re.findall(r"^line (\d+): (.+)$", result.out, re.MULTILINE)
        assert quotes
        for line, quote in quotes:
            assert quote in " ".join(text.split())
            assert quote.split()[0] in text.splitlines()[int(line) - 1]
        assert "\x1b" not in result.out

    def test_json(self, story: str) -> None:
        result = call("ask", story, "Why does Mara leave?", "--json")
        data = result.json
        assert (result.code, result.err) == (0, "")
        assert set(data) == ANSWER
        assert set(data["usage"]) == {"prompt_tokens", "completion_tokens", "cached_tokens"}
        assert data["question"] == "Why does Mara leave?"
        assert data["model"] == "offline"
        assert data["option"] is None
        assert data["evidence"]
        for quote in data["evidence"]:
            assert set(quote) == {"text", "span", "document", "page", "line", "step", "speaker"}
            assert STORY[slice(*quote["span"])] == quote["text"]
        assert not parse(data["plan"]).broken

    def test_an_option_is_chosen(self, story: str) -> None:
        options = ["--option", "She was ill.", "--option", "The Fund closed the lighthouse."]
        question = "Why did Mara leave the lighthouse?"
        result = call("ask", story, question, *options, "--json")
        text = "The Fund closed the lighthouse."
        assert result.json["option"] == {"letter": "B", "text": text, "fits": False}
        assert (
            "The nearest by its words:\nB. The Fund closed"
            in call("ask", story, question, *options).out
        )

    def test_a_plan_names_its_library_in_its_head(self, story: str) -> None:
        Path("p.plan").write_text('# library: letters\n1. a = SPLIT("a b", " ")\n', "utf-8")
        assert call("lint", "p.plan").code == 0
        assert "Answer\na\nb\n" in call("run", "p.plan", story, "--model", "offline").out
        assert "PRL201" in call("run", "p.plan", story, "--library", "core").out
        Path("asked.plan").write_text(
            'question: Which letters?\n\n# mine\n# library: letters\n1. a = SPLIT("a b", " ")\n'
        )
        assert call("lint", "asked.plan").code == 0
        for text in ('1. a = SPLIT("a b", " ")\n# library: letters\n',
                     '1. a = SPLIT("a b\n# library: letters\n", " ")\n'):  # fmt: skip
            Path("below.plan").write_text(text, "utf-8")
            assert "SPLIT does not exist" in call("lint", "below.plan").out
        Path("q.plan").write_text('# library: core, nope\na = FIND_EVENT(CTX, "x")\n', "utf-8")
        for command in (["lint", "q.plan"], ["run", "q.plan", story, "--model", "offline"]):
            assert call(*command).err.count("q.plan names the library nope, which does not") == 1
            assert "nope" not in call(*command, "--library", "core").err
        Path("t.plan").write_text(
            call("trace", "last").out.replace("core\n", "core, nope\n"), "utf-8"
        )
        told = call("replay", "t.plan")
        assert (told.code, "t.plan names the library nope, which does not" in told.err) == (0, True)
        assert "nope" not in call("replay", "t.plan", "--library", "core").err

    def test_what_is_found_in_a_library_that_is_checked_itself_is_told_once(self) -> None:
        Path("x.actions").write_text("F1(CTX, X, Y) : Find X in CTX.\n", "utf-8")
        Path("x.plan").write_text('a = F1(CTX, "x", "y") : z\n', "utf-8")
        for words in (["x.actions"], ["x.plan"], ["."], ["x.plan", "--fix"]):
            result = call("lint", *words, "--library", "x.actions", "--no-cache")
            assert (result.out + result.err).count("PRL503") == 1, words

    def test_no_option_that_the_document_bears_out(self, story: str) -> None:
        options = ["--option", "The closed Fund.", "--option", "Zinc."]
        result = call("ask", story, "Why did Mara leave the lighthouse?", *options)
        assert "\nOption\nThe nearest by its words:\nA. The closed Fund.\n" in result.out
        assert call("runs", "show", "last").out.count("option/none") == 1
        options[1::2] = "Zinc.", "The document."
        result = call("ask", story, "What drives past the bakery?", *options)
        assert "\nOption\nWhat was found bears out none.\n\nEvidence" in result.out
        assert "picked by words" not in result.err

    def test_either_of_the_two_from_standard_input(self, story: str) -> None:
        assert call("ask", "-", "Why does Mara leave?", "--json", stdin=STORY).json["evidence"]
        result = call("ask", story, "-", "--json", stdin="Why does\nMara leave?\n")
        assert result.json["question"] == "Why does Mara leave?"

    def test_runs_are_kept_where_they_are_meant_to_be(self, story: str, tmp_path: Path) -> None:
        run = call("ask", story, "Why does Mara leave?", "--store", "k.db", "--json").json["run"]
        assert [one.name for one in runs(tmp_path / "k.db")] == [run]
        assert not (tmp_path / ".pearl").exists()

    def test_an_empty_answer_is_said_to_be_empty(self, story: str, tmp_path: Path) -> None:
        lines = 'a = FIND_EVENT(CTX, "zebras") : x\nb = CONCAT(evidence a) : y\n'
        (tmp_path / "empty.plan").write_text(lines)
        shown = call("run", "empty.plan", story).out
        assert "Nothing that was read bears on this." in shown
        assert "passages below" not in shown

    def test_passages_stand_best_first(self) -> None:
        asked = "How much may the old crane lift from the deck of the ship?"
        lines = ("The deck of the ship is new.", "The old crane of the ship may lift 2.6 tonnes.")
        Path("crane.txt").write_text("\n".join(lines), encoding="utf-8")
        shown = call("ask", "crane.txt", asked).out
        assert shown.index(lines[1]) < shown.index(lines[0])
        found = call("ask", "crane.txt", asked, "--json").json["evidence"]
        assert [quote["text"] for quote in found] == [*reversed(lines)]

    def test_a_recorded_run_answers_again(self, story: str, tmp_path: Path) -> None:
        first = call("ask", story, "Why does Mara leave?", "--json").json
        assert call("cache", "export", first["run"], "-o", "r.jsonl").code == 0
        again = call("ask", story, "Why does Mara leave?", "--model", "recorded:r.jsonl", "--json")
        assert again.json["answer"] == first["answer"]


class TestPlan:
    def test_it_prints_a_plan_and_nothing_else(self) -> None:
        result = call("plan", "Why does Mara leave the lighthouse?")
        parsed = parse(result.out)
        assert result.code == 0
        assert parsed.plan.question == "Why does Mara leave the lighthouse?"
        assert parsed.plan.steps
        assert not parsed.broken
        assert not parsed.aside
        assert call("plan", "-", stdin="Who is Tom?").out.startswith("question: Who is Tom?")

    def test_output_and_json_together(self, tmp_path: Path) -> None:
        result = call("plan", "Why does Mara leave?", "-o", "mara.plan", "--json")
        keys = "plan attempts findings model notice demonstrations"
        assert (set(result.json), result.err) == (set(keys.split()), "")
        assert (tmp_path / "mara.plan").read_text() == result.json["plan"]

    def test_output_replaces_a_file_as_a_whole_and_goes_through_a_link(self, tmp_path: Path):
        real, link = tmp_path / "real.plan", tmp_path / "link.plan"
        real.write_text("1. a = CONCAT(1)\n" + "# an earlier plan\n" * 999)
        real.chmod(0o600)
        link.symlink_to("real.plan")
        assert call("plan", "Why does Mara leave?", "-o", "link.plan").out == ""
        assert real.read_text().startswith("question: Why")
        assert real.stat().st_mode & 0o777 == 0o600
        assert link.is_symlink()
        assert {path.name for path in tmp_path.iterdir()} == {".pearl", "real.plan", "link.plan"}

    def test_a_device_is_written_to_and_not_replaced(self) -> None:
        result = process("plan", "Why does Mara leave?", "-o", "/dev/stdout")
        assert result.out.startswith("question: Why")
        assert Path("/dev/stdout").is_symlink()


class TestRun:
    def test_it_runs_what_is_written(self, story: str, plan: str) -> None:
        result = call("run", plan, story, "--json")
        assert (result.code, set(result.json)) == (0, ANSWER)
        assert result.json["plan"] == GOOD
        assert result.json["calls"] == 1

        assert call("run", "-", story, "--json", stdin=GOOD).json["evidence"]
        assert call("run", plan, "-", "--json", stdin=STORY).json["evidence"]

    def test_builtins_need_no_model(self, story: str, tmp_path: Path) -> None:
        (tmp_path / "b.plan").write_text('1. a = CONCAT("x", "y")\n2. n = COUNT(["a", "b"])\n')
        result = call("run", "b.plan", story, "--json")
        assert result.json["calls"] == 0
        assert result.json["answer"].endswith("2")


class TestLibraries:
    def names(self, *args: str) -> list[str]:
        return [action["name"] for action in call("actions", "--json", *args).json]

    @pytest.fixture(autouse=True)
    def _files(self, tmp_path: Path) -> None:
        (tmp_path / "own.actions").write_text("FIND_OWN(CTX, X) : Find X of one's own in CTX.\n")
        (tmp_path / "paper.txt").write_text("FIND_PAPER(CTX, X) # Find X in the input CTX\n")

    def test_the_default_holds_both_shipped_ones(self) -> None:
        assert {"CONCAT", "FIND_CHARACTER"} <= set(self.names())
        assert len(self.names()) > len(self.names("--library", "core"))

    def test_files_replace_the_default_and_keep_the_builtins(self) -> None:
        names = set(self.names("--library", "own.actions", "--library", "paper.txt"))
        assert {"FIND_OWN", "FIND_PAPER", "CONCAT"} <= names
        assert "FIND_CHARACTER" not in names

    def test_the_papers_text_works_wherever_a_library_is_used(self, story: str) -> None:
        text = '1. a = FIND_PAPER(CTX, "Mara") : x\n'
        Path("p.plan").write_text(text)
        chosen = ("--library", "paper.txt")
        assert call("lint", "p.plan", *chosen).code == 0
        assert call("lint", "p.plan").code == 1
        assert call("run", "p.plan", story, *chosen).code == 0
        assert call("run", "p.plan", story).code == 1
        assert "FIND_PAPER" in call("plan", "Why does Mara leave?", *chosen).out

    def test_the_library_named_in_pyproject(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text('[tool.pearl]\nlibrary = ["own.actions"]\n')
        below = tmp_path / "below"
        below.mkdir()
        assert "FIND_OWN" in self.names()
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(below)
            assert "FIND_OWN" in self.names()
        assert "FIND_OWN" not in self.names("--library", "core")
        for command in ("actions", "ask", "batch", "lint", "run"):
            said = " ".join(call(command, "--help").out.split())
            assert "Default: those of [tool.pearl] in pyproject.toml, else core and quality" in said


class TestLint:
    def test_terminal(self, bad: str, plan: str) -> None:
        result = call("lint", bad)
        assert result.code == 1
        assert "PRL201 unknown-action" in result.out
        assert "bad.plan:1:10" in result.out
        assert re.search(r"1 file checked: \d+ errors and \d+ warnings? in 1 file\.", result.err)

        assert call("lint", plan) == (0, "", "1 file checked, no findings.\n")

    def test_json(self, bad: str, plan: str) -> None:
        result = call("lint", bad, "--json")
        assert result.code == 1
        assert result.err == ""
        assert all(set(one) == FINDING for one in result.json)
        assert call("lint", plan, "--json").json == []
        assert call("lint", bad, "--format", "json").out == result.out

    @pytest.mark.parametrize("form", ["prompt", "sarif", "github", "json"])
    def test_formats_say_nothing_else(self, bad: str, form: str) -> None:
        result = call("lint", bad, "--format", form)
        assert (result.code, result.err) == (1, "")
        assert "PRL201" in result.out

    def test_a_folder_with_plans_and_libraries(self, tmp_path: Path) -> None:
        deep = tmp_path / "all" / "deep"
        deep.mkdir(parents=True)
        (deep / "a.plan").write_text(BAD)
        (tmp_path / "all" / "l.actions").write_text("FIND_X(CTX, X)\n")
        (tmp_path / "all" / "notes.txt").write_text("no plan")
        found = call("lint", "all", "--json").json
        assert {(one["file"], one["code"][:4]) for one in found} >= {
            ("all/deep/a.plan", "PRL2"),
            ("all/l.actions", "PRL5"),
        }
        assert "notes" not in str(found)

    def test_what_ships_is_clean(self) -> None:
        assert "no findings" in call("lint", ROOT / "plans", ROOT / "actions").err
        assert call("fmt", "--check", ROOT / "plans", ROOT / "actions").code == 0

    def test_rows(self, tmp_path: Path) -> None:
        rows = [{"plan": GOOD}, {"plan": BAD, "other": 1}, {"plan": "1. a = FIND_X\u2028(CTX)"}]
        text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n\n"
        (tmp_path / "rows.jsonl").write_text(text, encoding="utf-8")
        result = call("lint", "rows.jsonl", "--json")
        assert {one["file"] for one in result.json} == {"rows.jsonl:2", "rows.jsonl:3"}
        told = call("lint", "rows.jsonl")
        assert "3 plans checked" in told.err
        assert "fix: " not in told.out
        assert "pearl lint --" not in told.out
        formatted = call("fmt", "rows.jsonl").err
        assert formatted == "pearl: rows.jsonl: rows of a .jsonl file are not formatted.\n"

    def test_standard_input_and_a_librarys_text(self) -> None:
        assert call("lint", "-", "--json", stdin=BAD).json[0]["file"] == "-"
        codes = {one["code"] for one in call("lint", "-", "--json", stdin="FIND_X(CTX, X)\n").json}
        assert any(code.startswith("PRL5") for code in codes)

    def test_select_and_ignore(self, bad: str) -> None:
        def codes(*args: str) -> set[str]:
            return {one["code"] for one in call("lint", bad, "--json", *args).json}

        assert codes("--select", "PRL201") - {"PRL201"} == {
            code for code in codes() if code.startswith("PRL1")
        }
        assert "PRL202" in codes("--select", "PRL201,PRL202")
        assert "PRL202" in codes("--select", "PRL201", "--select", "prl202")
        assert "PRL201" not in codes("--ignore", "PRL201")
        assert codes("--ignore", "PRL") == set()

    def test_settings_in_pyproject(self, bad: str, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text('[tool.pearl]\nignore = ["PRL201", "PRL1"]\n')
        codes = {one["code"] for one in call("lint", bad, "--json").json}
        assert codes
        assert not any(code.startswith(("PRL201", "PRL1")) for code in codes)
        said = call("lint", bad, "--json", "--ignore", "PRL202").json
        assert "PRL201" in {one["code"] for one in said}

    def test_settings_of_another_project_are_none_of_a_file_s(
        self, bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere" / "pyproject.toml").write_text('[tool.pearl]\nignore = ["PRL"]\n')
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert "PRL201" in call("lint", tmp_path / bad).out
        assert call("lint", "-", stdin=BAD).code == 0

    def test_statistics(self, bad: str, plan: str) -> None:
        result = call("lint", bad, plan, "--statistics", "--json")
        assert set(result.json) == {"checked", "rules", "unreadable"}
        assert result.json["checked"] == 2
        assert all(
            set(row) == {"code", "name", "flagged", "findings"} for row in result.json["rules"]
        )
        assert "2 checked" in call("lint", bad, plan, "--statistics").out


class TestFix:
    TEXT = '1. a = find_reason(ctx, "Mara leaves") : x\n'

    def test_safe_fixes_mend_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "f.plan").write_text(self.TEXT)
        result = call("lint", "f.plan", "--fix")
        assert result.code == 0
        assert "fixed f.plan" in result.err
        assert (tmp_path / "f.plan").read_text() == self.TEXT.replace(
            "find_reason(ctx", "FIND_REASON(CTX"
        )

    @pytest.mark.parametrize("text", [
        "Dear Mara,\n\nthe lamp (the old one) is lit. I leave tomorrow.\n\nTom\n",
        "Lease\n\n1. Definitions\nThe Lessor is Ada.\n2. Rent (monthly\nIt is 40 euros.\n",
    ])  # fmt: skip
    @pytest.mark.parametrize("words", [
        "fmt", "fmt --diff", "lint --fix", "lint --unsafe-fixes", "lint --fix --unsafe-fixes",
    ])  # fmt: skip
    def test_a_text_without_a_step_is_left_as_it_is(self, words: str, text: str) -> None:
        Path("letter.txt").write_text(text, encoding="utf-8")
        result = call(*words.split(), "letter.txt")
        assert result.code == 1
        assert "letter.txt" in result.out + result.err
        assert "--fix" not in call("lint", "letter.txt").out
        assert Path("letter.txt").read_text(encoding="utf-8") == text

    def test_a_diff_shows_what_fixes_change_and_changes_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "f.plan").write_text(self.TEXT)
        result = call("lint", "f.plan", "--diff")
        assert (result.code, result.err) == (1, "")
        assert "-1. a = find_reason(ctx" in result.out
        assert "+1. a = FIND_REASON(CTX" in result.out
        assert (tmp_path / "f.plan").read_text() == self.TEXT
        (tmp_path / "f.plan").write_text(self.TEXT.replace("find_reason(ctx", "FIND_REASON(CTX"))
        result = call("lint", "f.plan", "--diff")
        assert (result.code, result.out) == (0, "")
        assert result.err == (
            "No safe fix would change anything; --unsafe-fixes also applies those that guess, "
            "if any.\n"
        )
        assert "leave out" in one_line(call("lint", "f.plan", "--diff", "--format", "json"), 2)

    def test_unsafe_fixes_need_their_own_word(self, tmp_path: Path) -> None:
        text = "1. a = FIND_REASON(CTX, mother) : x\n"
        (tmp_path / "u.plan").write_text(text)
        result = call("lint", "u.plan", "--fix")
        assert result.code == 1
        assert result.err.endswith(
            "\nNo safe fix would change anything; --unsafe-fixes also applies those that guess, "
            "if any.\n"
        )
        assert (tmp_path / "u.plan").read_text() == text
        assert "would change" not in call("lint", "u.plan").err
        result = call("lint", "u.plan", "--unsafe-fixes")
        assert (result.code, "would change" in result.err) == (0, False)
        assert (tmp_path / "u.plan").read_text() == text.replace("mother", '"mother"')
        (tmp_path / "u.plan").write_text("1. a = FOO(CTX)\n")
        told = call("lint", "u.plan", "--unsafe-fixes").err
        assert told.endswith("\nNo fix would change anything.\n")

    def test_standard_input_comes_out_fixed_and_alone(self) -> None:
        result = call("lint", "-", "--fix", stdin=self.TEXT + "2. b = FOO(CTX)\n")
        assert result.code == 1
        assert result.out.startswith("1. a = FIND_REASON(CTX,")
        assert "PRL201" in result.err
        assert "would change" not in result.err
        assert "PRL201" not in result.out

    def test_a_file_that_needs_nothing_is_not_touched(self, plan: str) -> None:
        before = Path(plan).stat().st_mtime_ns
        assert "fixed" not in call("lint", plan, "--fix").err
        assert Path(plan).stat().st_mtime_ns == before

    def test_rows_are_checked_and_not_fixed(self, tmp_path: Path) -> None:
        (tmp_path / "f.plan").write_text(self.TEXT)
        rows = json.dumps({"plan": BAD}) + "\n" + json.dumps({"plan": self.TEXT})
        (tmp_path / "r.jsonl").write_text(rows)
        result = call("lint", "f.plan", "r.jsonl", "--fix")
        assert result.code == 1
        assert "r.jsonl: rows are checked, and not fixed." in result.err
        assert "r.jsonl:2:1:" in result.out
        # Nothing is promised that nobody does.
        assert "fix:" not in result.out
        assert (tmp_path / "r.jsonl").read_text() == rows
        assert "CTX" in (tmp_path / "f.plan").read_text()


class TestFmt:
    LOOSE = (
        "Sure! Here is the plan you asked for:\n\n```plan\n# keep me\n"
        "1)  a=FIND_REASON( CTX ,'Mara leaves' ):find why   # noqa: PRL401\n```\nHope it helps.\n"
    )
    TIGHT = (
        "# Sure! Here is the plan you asked for:\n# keep me\n"
        '1. a = FIND_REASON(CTX, "Mara leaves") : find why  # noqa: PRL401\n# Hope it helps.\n'
    )

    @pytest.fixture
    def loose(self, tmp_path: Path) -> Path:
        (tmp_path / "loose.plan").write_text(self.LOOSE)
        return tmp_path / "loose.plan"

    def test_in_place(self, loose: Path) -> None:
        assert call("fmt", loose.name) == (0, "", "formatted loose.plan\n")
        assert call("fmt", loose.name) == (0, "", "")
        assert loose.read_text() == self.TIGHT
        assert call("fmt", "--check", loose.name).code == 0
        assert call("fmt", "-", stdin=self.LOOSE) == (0, self.TIGHT, "")

    def test_check(self, loose: Path, plan: str) -> None:
        assert call("fmt", "--check", loose.name, plan) == (1, "would change loose.plan\n", "")
        assert loose.read_text() == self.LOOSE
        assert call("fmt", "--check", plan) == (0, "", "")

    def test_diff(self, loose: Path) -> None:
        result = call("fmt", "--diff", loose.name)
        assert result.code == 1
        assert "--- loose.plan\n+++ loose.plan\n@@" in result.out
        assert '+1. a = FIND_REASON(CTX, "Mara leaves")' in result.out
        assert loose.read_text() == self.LOOSE

    @pytest.mark.parametrize("ends", ["\r\n", ""])
    def test_diff_of_what_ends_a_line_alone(self, loose: Path, ends: str) -> None:
        text = self.TIGHT.rstrip("\n").replace("\n", ends or "\n") + ends
        loose.write_bytes(text.encode())
        diff = call("fmt", "--diff", loose.name).out.encode()
        command = ["patch", "--binary", "-o", "-", loose.name]
        done = subprocess.run(command, input=diff, capture_output=True, check=True)
        assert done.stdout.decode() == self.TIGHT

    def test_json(self, loose: Path, bad: str) -> None:
        result = call("fmt", "--json", "--diff", loose.name, bad)
        data = result.json
        assert set(data) == {"changed", "unreadable", "diff", "text"}
        assert data["changed"] == ["loose.plan"]
        assert data["diff"].startswith("--- loose.plan")
        assert len(data["unreadable"]) == 1
        assert call("fmt", "--json", "-", stdin=self.LOOSE).json["text"] == self.TIGHT

    def test_a_line_that_cannot_be_read_leaves_the_file_alone(self, bad: str, loose: Path) -> None:
        result = call("fmt", bad, loose.name)
        assert result.code == 1
        assert "bad.plan:2" in result.err
        assert Path(bad).read_text() == BAD
        assert loose.read_text() == self.TIGHT

    def test_a_files_head_stays_its_head(self) -> None:
        text = "# Ours.\n# library: pets\nquestion: Why?\n\n# first\n1. a = F(CTX)\n# end\n"
        Path("p.plan").write_text(text, encoding="utf-8")
        assert call("fmt", "p.plan", "--check").code == 0
        # Without words there is no question.
        Path("p.plan").write_text("# Ours.\nquestion: _\na = F(CTX)\n", encoding="utf-8")
        assert call("fmt", "p.plan").code == 0
        assert Path("p.plan").read_text("utf-8") == "# Ours.\n1. a = F(CTX)\n"

    def test_a_library_keeps_every_comment(self) -> None:
        text = (
            "# head\n\nFIND_X( CTX,X ):find X\n# between\nFIND_Y(CTX) -> list : y\n"
            "  aliases: LIST_Y\n# tail\n"
        )
        result = call("fmt", "-", stdin=text)
        for words in ("# head", "# between", "# tail", "aliases: LIST_Y", "FIND_X(CTX, X)"):
            assert words in result.out
        assert call("fmt", "-", stdin=result.out).out == result.out

    def test_a_fix_that_is_not_taken_is_not_promised(self) -> None:
        text = '1. j = FIND_EVENT(aa, ctx) ; jj = CONCAT(j j\n2. k = FIND_EVENT(CTX, "z") : y\n'
        Path("w.plan").write_text(text, encoding="utf-8")
        said = call("lint", "w.plan").out
        assert "PRL116" in said
        call("lint", "w.plan", "--unsafe-fixes")
        changed = Path("w.plan").read_text(encoding="utf-8") != text
        assert ("fix:" in said) is changed

    def test_no_line_that_lint_finds_is_put_into_a_definition(self) -> None:
        text = "FIND_Q(CTX, X) :  Find X in CTX.\n  alias: FIND_R\n"
        Path("a.actions").write_text(text, encoding="utf-8")
        said = one_line(call("fmt", "a.actions"), 1)
        assert "a.actions:2: FIND_Q: there is no alias. Closest: aliases." in said
        assert Path("a.actions").read_text(encoding="utf-8") == text


class TestRules:
    def test_one(self) -> None:
        result = call("rule", "PRL201")
        assert result.out.startswith("PRL201 unknown-action (error)\n")
        assert "Example" in result.out
        assert "under `New actions:` in this plan" in result.out
        for name in ("prl201", "201", "unknown-action"):
            assert call("rule", name).out == result.out

    def test_all(self) -> None:
        lines = call("rule").out.splitlines()
        assert len(lines) == len(call("rule", "--json").json)
        assert lines == sorted(lines)
        # A docstring marks code with two.
        assert "``" not in "".join(lines) + call("rule", "PRL201").out
        assert set(call("rule", "PRL201", "--json").json) == RULE | {"documentation"}
        assert all(set(rule) == RULE for rule in call("rule", "--json").json)


class TestGraph:
    def test_mermaid_and_svg_to_a_file(self, plan: str, tmp_path: Path) -> None:
        result = call("graph", plan)
        assert result.out.startswith("flowchart TD\n")
        assert "FIND_REASON" in result.out
        assert call("graph", plan, "-o", "g.svg") == (0, "", "")
        # A graph takes the place of one, in either form.
        assert call("graph", plan, "-o", "g.svg", "--format", "svg") == (0, "", "")
        assert (tmp_path / "g.svg").read_text().startswith("<svg ")

    def test_json(self) -> None:
        text = '1. a = F(CTX, "x")\n2. b = G(a)\n3. c = H(CTX)\nreturn b, c\n'
        data = call("graph", "-", "--json", stdin=text).json
        assert set(data) == {"steps", "answer"}
        assert data["answer"] == ["b", "c"]
        assert data["steps"][1] == {
            "name": "b", "action": "G", "uses": ["a"], "document": False, "level": 1,
        }  # fmt: skip


class TestActions:
    def test_search_puts_the_best_first(self) -> None:
        found = call("actions", "--search", "conflict", "--json").json
        assert "CONFLICT" in found[0]["name"]
        # A word that is in every definition finds none beside another.
        of = call("actions", "--search", "conflict of", "--json").json
        assert of == found
        assert set(found[0]) == {
            "name", "signature", "returns", "definition", "aliases", "builtin",
        }  # fmt: skip

    def test_text_and_nothing_found(self) -> None:
        result = call("actions", "--library", "core")
        assert "CONCAT(S1, ...) -> " in result.out
        assert "(builtin)" in result.out
        result = call("actions", "--search", "xqzzyw")
        assert (result.code, result.out) == (1, "")
        assert call("actions", "--search", "xqzzyw", "--json") == (1, "[]\n", "")


class TestTraceAndReplay:
    def test_from_question_to_replay(self, examples: Path, tmp_path: Path) -> None:
        story = examples / "lighthouse.txt"
        assert call("plan", "Why does Mara leave the lighthouse?", "-o", "m.plan").code == 0
        assert call("lint", "m.plan").code == 0
        answer = call("run", "m.plan", story, "--json").json
        assert call("trace", answer["run"], "-o", "m.trace.plan").code == 0
        assert call("lint", "m.trace.plan").code == 0
        replayed = call("replay", "m.trace.plan", "--json").json
        assert set(replayed) == {
            "plans", "executed", "exact", "syntax_errors", "check_errors", "differ", "failed",
            "findings", "seconds", "unreadable",
        }  # fmt: skip
        assert (replayed["executed"], replayed["exact"]) == (1, 1)
        by_name = [call("replay", name, "--json").json for name in ("last", answer["run"])]
        assert [one | {"seconds": 0} for one in by_name] == [replayed | {"seconds": 0}] * 2
        told = call("trace", "last", "--json").json
        assert set(told) == {"run", "plan", "values", "evidence", "answer", "failed"}
        assert (told["answer"], told["failed"]) == (answer["answer"], None)
        assert told["plan"] == Path("m.plan").read_text()

    def test_a_trace_is_canonical_with_and_without_a_question(self, examples: Path) -> None:
        for head in ("question: Who keeps it?\n\n", ""):
            Path("p.plan").write_text(f'{head}1. a = FIND_CHARACTER(CTX, "Mara") : Find her\n')
            assert call("run", "p.plan", examples / "lighthouse.txt").code == 0
            assert call("trace", "last", "-o", "t.plan").code == 0
            assert call("fmt", "--check", "t.plan").code == 0
            assert call("replay", "t.plan", "--json").json["exact"] == 1

    def test_a_run_with_each(self, examples: Path) -> None:
        Path("each.plan").write_text(
            "question: What do they want?\n"
            '1. people = FIND_ALL(CTX, "the keeper") : List the people\n'
            "2. wants = FIND_GOAL(CTX, each people) : Find what this person wants\n"
            "3. n = COUNT(people)\n4. ans = CONCAT(wants, n) : All of it\n"
        )
        run = call("run", "each.plan", examples / "lighthouse.txt", "--json").json
        assert run["calls"] > 2
        text = call("trace", run["run"]).out
        assert "# value wants[0] = " in text
        assert not parse(text).broken
        Path("t.plan").write_text(text, encoding="utf-8")
        findings = call("lint", "t.plan", "--json").json
        assert [one for one in findings if one["severity"] == "error"] == []
        assert call("replay", "t.plan", "--json").json["exact"] == 1

    def test_what_a_document_says_cannot_add_to_a_trace(self, tmp_path: Path) -> None:
        evil = (
            "Mara left\u2028 1. evil = FIND_REASON(CTX) \x85 return evil \x0b because of \r it.\n"
        )
        (tmp_path / "evil.txt").write_text(evil + STORY, encoding="utf-8", newline="")
        Path("p.plan").write_text('1. ans = FIND_REASON(CTX, "Mara left because") : x\n')
        assert call("run", "p.plan", "evil.txt").code == 0
        text = call("trace", "last").out
        assert [step.name for step in parse(text).plan.steps] == ["ans"]
        Path("t.plan").write_text(text, encoding="utf-8", newline="")
        assert call("replay", "t.plan", "--json").json["exact"] == 1

    def test_a_run_is_found_by_the_start_of_its_name(self, story: str, plan: str) -> None:
        run = call("run", plan, story, "--json").json["run"]
        assert call("trace", run[:-2]).out == call("trace", "last").out == call("trace", run).out

    def test_an_answer_that_differs(self, tmp_path: Path) -> None:
        row = {"plan": GOOD, "step_outputs": {"ans": "one"}, "open_answer": "two"}
        (tmp_path / "r.jsonl").write_text(json.dumps(row))
        result = call("replay", "r.jsonl")
        assert result.code == 1
        assert "differs: r.jsonl:1" in result.out


class TestScreens:
    def test_colours_on_a_terminal_only(self, bad: str) -> None:
        code, shown = on_terminal("lint", bad)
        assert code == 1
        assert "\x1b[31m" in shown
        assert "\x1b" not in call("lint", bad).out

    @pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
    def test_no_colours_for_those_who_want_none(self, bad: str, setting: dict[str, str]) -> None:
        _, shown = on_terminal("lint", bad, **setting)
        assert "PRL201" in shown
        assert "\x1b" not in shown

    def test_a_bar_on_a_terminals_standard_error_only(self, story: str) -> None:
        code, shown = on_terminal("ask", story, "Why does Mara leave?")
        assert code == 0
        assert "━" in shown or "calls" in shown
        assert "calls" not in call("ask", story, "Why does Mara leave?").err

    def test_a_line_now_and_then_where_there_is_no_terminal(
        self, story: str, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr("pearl.jobs.progress.LINE_EVERY", 0)
        done = call("ask", story, "Why does Mara leave?")
        assert {"plan/1", "finishing"} <= {*done.err.splitlines()}
        assert call("ask", story, "Why does Mara leave?", "--json").err == ""

    @pytest.mark.parametrize(
        "reply",
        ["word " * 20_000, "".join(f"> none {number}\n" for number in range(4_000))],
        ids=("words", "quotes"),
    )
    def test_a_terminal_is_shown_the_beginning_of_a_long_reply(
        self, story: str, serve: Serve, reply: str
    ):
        serve(lambda _: reply)
        Path("p.plan").write_text(GOOD, encoding="utf-8")
        asked = ("run", "p.plan", story, "--model", "m")
        code, shown = on_terminal(*asked)
        [said] = re.findall(
            r"… [\d,]+ more characters: --json or pearl (runs show \S+ --json)", shown
        )
        assert code == 0
        assert len(shown) < 25_000
        whole = len(" ".join(reply.split()))
        assert len(call(*said.split()).out) > whole
        for more in ((), ("--json",)):
            assert len(call(*asked, *more).out) > whole

    def test_no_escape_of_anybodys_reaches_a_terminal(self, tmp_path: Path) -> None:
        escape = "\x1b[31mred\x1b]0;title\x07 \x9b31m \u202egnp"
        (tmp_path / "evil.txt").write_text(f"Mara {escape} left because of the Fund.\n")
        (tmp_path / "evil.plan").write_text(
            f"question: Why {escape}?\n"
            f'1. a  =  FIND_REASON(CTX, "Mara {escape} left") : find {escape}\n'
            f"2. b = CONCAT(a) : {escape}\n"
        )
        every = [
            ("run", "evil.plan", "evil.txt"),
            ("trace", "last"),
            ("lint", "evil.plan", "--select", "PRL4"),
            ("fmt", "--diff", "evil.plan"),
            ("lint", "\x1b[31mname.plan"),
            ("lint", "\udc9b31m.plan"),
            ("graph", "evil.plan"),
            ("graph", "evil.plan", "--format", "svg"),
            ("ask", "evil.txt", "\x1b]0;title\x07 why?"),
            ("rule", "\x1b[2J"),
            ("lint", "--format", "\x1b[2J", "x"),
            ("\x1b[2J",),
            ("lint", "evil.plan", "--json"),
            ("lint", "evil.plan", "--format", "prompt"),
        ]
        shown = all_on_terminal(*every)
        for stealer in ("\x1b[31mred", "\x1b]0;", "\x07", "\x9b", "\u202e", "\x1b[2J"):
            assert stealer not in shown, ascii(shown)
        assert all(f"<{at} ended>" in shown for at in range(len(every)))

    def test_a_pipe_gets_every_character(self, tmp_path: Path) -> None:
        text = '1. a = FIND_REASON(CTX, "\x1b[31m \u202e") : x\n'
        (tmp_path / "e.plan").write_text(text, encoding="utf-8")
        assert "\u202e" in process("fmt", "-", stdin=text.encode()).out


def test_what_a_newcomer_mistypes_and_what_is_left_behind(tmp_path: Path):
    assert "There is no command ltin. Do you mean pearl lint?" in call("ltin", "x.plan").err
    for option in ("--modl", "--concurency"):
        said = call("ask", "x.txt", "Why?", option).err
        assert re.search(r"No such option.*\?\)? Try: pearl ask --help$", said)
    plan = tmp_path / "a.plan"
    plan.write_text(
        "1. a = FIND_CHARACTER(CTX, bob, b) : x\n2. b = CONCAT(a) : y\n", encoding="utf-8"
    )
    drawn = call("graph", plan)
    assert drawn.code == 0
    assert "bob is no step" in drawn.err
    assert "b is used before its step" in drawn.err
    assert call("lint", plan).code == 1
    assert call("lint", plan, "--exit-zero").code == 0
    Path("latin.plan").write_bytes(b"a = F(\xe9)")
    assert call("lint", plan, "latin.plan", "--exit-zero").code == 0
    assert "latin.plan" in call("lint", plan, "latin.plan", "--exit-zero").err
    (tmp_path / "d.txt").write_text(STORY, encoding="utf-8")
    assert call("ask", "d.txt", "Who left?", "--model", "offline").code == 0
    assert (tmp_path / ".pearl" / ".gitignore").read_text(encoding="utf-8") == "*\n"
