"""Plans written with older names of actions, for a library that replaces them."""

import json
import subprocess
from pathlib import Path

import pytest

from pearl.lang.diagnostics import errors_of
from pearl.lang.library import Library, load_library, parse_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_library
from pearl.lang.rewriting import migrate
from pearl.lint.checker import check
from pearl.mining.condense import condense
from tests.shell import Result, call, command, one_line

SMALL = """\
FIND_OUT(CTX, X) : Find out what X asks for, given CTX.
  replaces: FIND_BEST(CTX, X, Y) = (CTX, "best {X} for {Y}")
  replaces: FIND_PLOT(CTX) = (CTX, "plot")
  replaces: FIND_TIE(CTX, X) = (CTX, "tie of {X}")
FIND_REASON(CTX, X) : Find the reason for X in CTX.
  aliases: FIND_MOTIVE
FIND_TIE(CTX, X, Y) : Find the tie between X and Y in CTX.
  replaces: FIND_TIES(CTX, X, Y, Z) = (CTX, X, "{Y} and {Z}")
"""


@pytest.fixture
def small(tmp_path: Path) -> Library:
    (tmp_path / "small.actions").write_text(SMALL)
    return load_library("core", "small.actions")


def migrated(step: str, library: Library) -> str:
    head = '1. a = FIND_CHARACTER(CTX, "Ro") : Find him\n2. l = PARTS(CTX, 2)\n'
    plan = f"{head}3. b = {step} : Find it\n"
    done = migrate(plan, library)
    assert not done.problems
    assert not errors_of(check(parse(done.text), library))
    return done.text.splitlines()[2].removeprefix("3. b = ").removesuffix(" : Find it")


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("FIND_MOTIVE(CTX, a)", "FIND_REASON(CTX, a)"),
        ("FIND_REASON(CTX, a)", "FIND_REASON(CTX, a)"),
        ("FIND_PLOT(CTX)", 'FIND_OUT(CTX, "plot")'),
        ("FIND_PLOT(a)", 'FIND_OUT(a, "plot")'),
        ('FIND_BEST(CTX, "ship", a)', 'FIND_OUT(CTX, "best ship for {a}")'),
        ('FIND_BEST(CTX, "ship", "Ro")', 'FIND_OUT(CTX, "best ship for Ro")'),
        ('FIND_BEST(CTX, "an \\"A\\" {a}", 3)', 'FIND_OUT(CTX, "best an \\"A\\" {a} for 3")'),
        ('FIND_BEST(CTX, ["ship", a], ["x", 2])', 'FIND_OUT(CTX, "best ship, {a} for x, 2")'),
        ("FIND_BEST(CTX, each l, true)", 'FIND_OUT(CTX, "best {each l} for yes")'),
        ('FIND_BEST(CTX, "\\{x}", "y")', 'FIND_OUT(CTX, "best \\{x} for y")'),
        ("FIND_TIE(CTX, a, a)", "FIND_TIE(CTX, a, a)"),
        ("FIND_TIE(CTX, a)", 'FIND_OUT(CTX, "tie of {a}")'),
        ('FIND_TIES(CTX, a, "Bo", ["c", "d"])', 'FIND_TIE(CTX, a, "Bo and c, d")'),
    ],
)  # fmt: skip
def test_calls(step: str, expected: str, small: Library) -> None:
    assert migrated(step, small) == expected


def test_nothing_else_of_a_plan_changes(small: Library) -> None:
    plan = (
        "Here is the plan.\n\nquestion: Why (really)?\n\n"
        "# First of all\n1)  **a** := FIND_MOTIVE( CTX , 'Ro leaves' )  -  Find why (FIND_MOTIVE)\n"
        "2. b = FIND_BEST(CTX, a,\n   “ship”,) : Find FIND_BEST(x)  # noqa: PRL404\n"
        "3. c = BROKEN(CTX, : what\n# the end\nreturn a, b\n"
    )
    done = migrate(plan, small)
    assert done.text == plan.replace("FIND_MOTIVE( CTX", "FIND_REASON( CTX").replace(
        "FIND_BEST(CTX, a,\n   “ship”,)", 'FIND_OUT(CTX, "best {a} for ship")'
    )
    changes = [(one.step, one.old, one.new, one.mapped) for one in done.changes]
    first, second = ("a", "FIND_MOTIVE", "FIND_REASON", False), ("b", "FIND_BEST", "FIND_OUT", True)
    assert changes == [first, second]
    assert migrate(done.text, small) == type(done)(done.text, (), ())


def test_what_a_plan_declares_wins(small: Library) -> None:
    plan = "New actions:\n- FIND_BEST(CTX, X, Y) : Find the best X that Y ever saw in CTX\n\n"
    plan += '1. a = FIND_BEST(CTX, "ship", "Ro") : Find it\n'
    assert migrate(plan, small).text == plan


def test_what_cannot_be_mapped_is_said(small: Library) -> None:
    plan = (
        '1. a = FIND_BEST(CTX, "ship") : Find it\n2. b = FIND_BEST(CTX, CTX, a) : Find it\n'
        "3. c = FIND_UNKNOWN(CTX) : Find it\n4. d = FIND_MOTIVE(CTX) : Find it\n"
    )
    done = migrate(plan, small)
    assert done.text == plan
    assert done.problems == (
        "a calls FIND_BEST with 2 arguments, and it took 3: mend the call by hand.",
        "b calls FIND_BEST in a way that cannot be mapped.",
        "d calls FIND_MOTIVE with 1 argument, and it took 2: mend the call by hand.",
    )


@pytest.mark.parametrize(
    ("args", "lost"),
    [
        ('CTX, "ship", "Ro"', '"Ro"'),
        ('a, "ship", "of {b}"', '"of {b}"'),
        ('CTX, "ship", each b', "each b"),
        ('CTX, "ship", ""', ""),
        ('CTX, "ship", CTX', ""),
        ('CTX, "ship", "ship"', ""),
        ('CTX, "best {a}", a', ""),
        ('CTX, a, " {a}"', ""),
        ('CTX, "ship", " "', ""),
    ],
)
def test_what_a_new_call_no_longer_says_is_told(args: str, lost: str, tmp_path: Path) -> None:
    own = "FIND_IT(CTX, X) : Find X in CTX.\n  replaces: FIND_FOR(CTX, X, Y) = (CTX, X)\n"
    (tmp_path / "own.actions").write_text(own)
    done = migrate(f"1. x = FIND_FOR({args}) : Find it\n", load_library("own.actions"))
    assert done.text.startswith("1. x = FIND_IT(")
    told = "x calls FIND_IT in place of FIND_FOR, and no longer says {}: see whether it is missed."
    assert done.problems == ((told.format(lost),) if lost else ())


class TestCommand:
    OLD = '1. a = FIND_BEST(CTX, "ship", "Ro") : Find it\n'
    NEW = '1. a = FIND_OUT(CTX, "best ship for Ro") : Find it\n'

    @pytest.fixture(autouse=True)
    def _files(self, tmp_path: Path, small: Library) -> None:
        (tmp_path / "plans").mkdir()
        (tmp_path / "plans" / "a.plan").write_text(self.OLD)

    def run(self, *args: str, **more: str) -> Result:
        return call("migrate", *args, "--library", "small.actions", **more)

    def test_it_prints_and_says_what_it_changed(self) -> None:
        result = self.run("plans/a.plan")
        assert (result.code, result.out) == (0, self.NEW)
        assert result.told == [
            "plans/a.plan: 1 step changed: FIND_BEST is FIND_OUT (arguments too).",
            "1 plan: 1 changed, in 1 step; 1 without errors.",
            "plans/a.plan is as it was: --write writes it back.",
        ]
        assert Path("plans/a.plan").read_text() == self.OLD

    def test_it_writes_in_place(self) -> None:
        Path("plans/b.plan").write_text('1. b = FIND_OUT(CTX, "x") : Find it\r\n')
        result = self.run("plans", "--write")
        assert (result.code, result.out) == (0, "")
        assert Path("plans/a.plan").read_text() == self.NEW
        assert Path("plans/b.plan").read_bytes().endswith(b"\r\n")

    def test_rows_keep_all_but_their_plan(self) -> None:
        rows = [
            f'{{ "id":7 , "plan" :{json.dumps(self.OLD)}, "more": {{"plan": [1.0, "é"]}} }}',
            "",
            '{"plan": "1. a = FIND_OUT(CTX, \\"x\\") : Find it", "n": 1e3}',
        ]
        Path("r.jsonl").write_text("\n".join(rows) + "\n")
        result = self.run("r.jsonl", "-o", "s.jsonl")
        assert result.code == 0
        rows[0] = rows[0].replace(json.dumps(self.OLD), json.dumps(self.NEW))
        assert Path("s.jsonl").read_text() == "\n".join(rows) + "\n"

    def test_json_and_standard_input(self) -> None:
        result = self.run("-", "--json", stdin=self.OLD)
        (plan,) = result.json["plans"]
        assert plan["text"] == self.NEW
        assert plan["changes"] == [
            {"step": "a", "old": "FIND_BEST", "new": "FIND_OUT", "arguments": True}
        ]

    def test_findings_are_told_in_the_exit_code(self) -> None:
        Path("bad.plan").write_text('1. a = FIND_BEST(CTX, "ship") : Find it\n')
        result = self.run("bad.plan", "-o", "n.plan")
        assert result.code == 1
        assert result.told[0] == (
            "bad.plan: a calls FIND_BEST with 2 arguments, and it took 3: mend the call by hand."
        )

    @pytest.mark.parametrize(
        "args", [("plans", "small.actions", "-o", "n", "--write"), ("small.actions",)]
    )
    def test_wrong_use(self, args: tuple[str, ...]) -> None:
        one_line(self.run(*args), 2)

    @pytest.mark.parametrize("as_json", [(), ("--json",)])
    def test_what_cannot_be_read_is_named_and_the_others_are_written(
        self, as_json: tuple[str, ...]
    ) -> None:
        Path("plans/_empty.plan").write_text("")
        Path("plans/latin.plan").write_bytes(b"1. \xe9 = X(CTX)")
        for args in ((), ("--write",)):
            result = self.run("plans", *args, *as_json)
            assert result.code == 1
            assert (not args and not as_json) == (result.out == self.NEW)
            told = [line for line in result.told if line.startswith("pearl: ")]
            assert ["_empty.plan is empty" in told[0], "latin.plan is not" in told[1]] == [True] * 2
            if as_json:
                assert [f"pearl: {line}" for line in result.json["unreadable"]] == told
        assert Path("plans/a.plan").read_text() == self.NEW
        Path("plans/a.plan").unlink()
        assert "holds no plan" not in self.run("plans").err
        assert len(self.run("plans").told) == 2

    def test_rows_that_cannot_be_read_stay_as_they_are(self) -> None:
        rows = ["no json", json.dumps({"plan": self.OLD}), '{"plan": 3}', '{"n": 1}']
        Path("r.jsonl").write_text("\n".join(rows))
        result = self.run("r.jsonl", "--write")
        assert result.code == 1
        assert [f"pearl: r.jsonl:{row}" in result.err for row in (1, 2, 3, 4)] == [1, 0, 1, 1]
        rows[1] = json.dumps({"plan": self.NEW})
        assert Path("r.jsonl").read_text() == "\n".join(rows)

    @pytest.mark.parametrize("to", ["--write", "-on.jsonl", ">"])
    def test_a_row_that_is_not_utf_8_stays_byte_for_byte(self, to: str) -> None:
        old, new = (json.dumps({"plan": plan}).encode() for plan in (self.OLD, self.NEW))
        damaged = b'{"plan": "caf\xe9"}'
        Path("r.jsonl").write_bytes(b"\n".join([damaged, old, b"no json", old]))
        words = ["migrate", "r.jsonl", "--library", "small.actions", *([to] if to != ">" else [])]
        done = subprocess.run(command(*words), capture_output=True, check=False)
        assert done.returncode == 1
        assert b"r.jsonl:1 is not UTF-8 (byte 13 is 0xe9)" in done.stderr
        assert b"r.jsonl:3 is not JSON" in done.stderr
        files = {"--write": "r.jsonl", "-on.jsonl": "n.jsonl"}
        written = Path(files[to]).read_bytes() if to in files else done.stdout
        assert written == b"\n".join([damaged, new, b"no json", new])

    def test_several_files_need_write(self) -> None:
        Path("plans/b.plan").write_text(self.OLD)
        assert "--write" in one_line(self.run("plans"), 2)


@pytest.mark.parametrize(
    ("file", "seeds", "target"),
    [("mined_actions_407.txt", ("core",), 80), ("mined_actions_81.txt", (), 1)],
)
def test_recorded_plans_that_check_clean_do_so_after(
    file: str, seeds: tuple[str, ...], target: int, shared: Path, tmp_path: Path
) -> None:
    data = shared / "pearl_gpt4"
    before = load_library(*seeds, str(data / file))
    parsed = parse_library((data / file).read_text())
    small = condense(parsed.actions, target, seeds=load_library("core").actions)
    (tmp_path / "small.actions").write_text(print_library(small.actions))
    after = load_library(*seeds, "small.actions")
    rows = (data / "train.ctx_eval_long.jsonl").read_text().splitlines()
    assert len(rows) == 733
    clean = changed = 0
    for row in rows[::6]:
        text = json.loads(row)["plan"]
        found = check(parse(text), before)
        done = migrate(text, after)
        left = check(parse(done.text), after)
        changed += bool(done.changes)
        if not errors_of(found):
            assert not errors_of(left), done.text
            assert not done.problems
        if not found:
            clean += 1
            assert not left, done.text
    assert clean > 25
    assert changed > 16
