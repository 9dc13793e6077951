"""One diagnostic, many forms: what each of them reads like."""

import json
import re
import unicodedata
from typing import Any

import click
import pytest

from pearl.lang.diagnostics import Diagnostic, Edit, Fix, Label, Safety, Severity, SourceFindings
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source, Span, TextKind
from pearl.lint.checker import check, check_library
from pearl.lint.render import RENDERERS, prompt
from tests.conftest import library_of, rendered
from tests.shell import BAD


def report(text: str, name: str = "ro.plan") -> SourceFindings:
    source = Source(name, text)
    return SourceFindings(source, check(parse(source), load_library()))


def plain(text: str, name: str = "ro.plan") -> str:
    return click.unstyle(rendered("terminal", report(text, name)))


def test_control_characters_never_reach_a_screen():
    shown = plain('1. a = FIND_CHARACTER(CTX, "\x1b[31m\u202ex", \x9b3) : \x07\n', "\x1b[2J.plan")
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize("form", RENDERERS)
def test_every_form_takes_every_finding(form: str):
    texts = (BAD, "", "x", "\n\n", 'a = F("\n', "1. CTX = F(CTX)\n2. CTX = F(each CTX, b)\n\r\n")
    shown = rendered(form, *(report(text, f"{at}.plan") for at, text in enumerate(texts)))
    assert shown
    assert shown == rendered(form, *(report(text, f"{at}.plan") for at, text in enumerate(texts)))


def test_a_library_s_author_is_told_of_a_library():
    text = "FIND_A(CTX, X, X) : Find X.\nFIND_B(CTX : Find it.\n"
    source = Source("a.actions", text)
    one = SourceFindings(source, check_library(source), TextKind.LIBRARY)
    told = rendered("prompt", one, one, report("a = NOPE(CTX)\n"))
    assert told.startswith(prompt.LIBRARY_HEADING + "\n[PRL505] `FIND_A(CTX, X, X) : Find X.`: ")
    assert (told.count(prompt.LIBRARY_HEADING), told.count(prompt.HEADING)) == (1, 1)


def test_nothing_found_is_nothing_said():
    good = report('1. a = FIND_CHARACTER(CTX, "Ro") : who\n')
    said = {form: rendered(form, good) for form in ("terminal", "prompt", "github", "json")}
    assert said == {"terminal": "", "prompt": "", "github": "", "json": "[]\n"}


def test_a_rule_that_speaks_twice_adds_its_example():
    given = report("1. ro = FIND_CHARACTER(CTX, Ro) : who\n")
    core = load_library()
    assert "Wrong:" not in prompt.render(given, core)
    told = prompt.render(given, core, {"PRL202", "PRL101"})
    assert 'An example of PRL202. Wrong:\n  1. tie = FIND_RELATION(CTX, "Ross", mother)' in told
    assert "PRL101" not in told
    text = "REST(CTX) : x\n  traits: unlisted\nADD(X, Y, Z) : x\n"
    text += "TIE(CTX, X, Y) : How X and Y stand\n"
    own, none = library_of(text), library_of(text.partition("TIE")[0])
    told = prompt.render(given, own, {"PRL202"})
    assert 'Wrong:\n  1. tie = TIE(CTX, "Ross", mother)' in told
    assert 'Right:\n  1. tie = TIE(CTX, "Ross", "mother")' in told
    assert "Wrong:" not in prompt.render(given, none, {"PRL202"})


def test_github_escapes_what_would_end_the_command():
    shown = rendered("github", report("1. a = F(CTX, x%)\n", "a,b:c\n.plan"))
    for line in shown.splitlines():
        assert line.startswith(("::error file=a%2Cb%3Ac%0A.plan,line=", "::warning file="))
        assert "::" in line[2:]


PLAN = (
    '1. ro = FIND_CHARACTER(CTX, "Ro") : who Ro is\n'
    '2. tie = FIND_RELATIONSHIP(CTX, ro, "mother") : how they stand\n'
    "3. end FIND_FATE(CTX\n"
)


def finding(text: str, words: str, **more: Any) -> Diagnostic:
    """A finding about some words of a text, made by hand so that no rule's wording matters."""
    start = text.index(words)
    given: dict[str, Any] = {
        "code": "PRL201", "name": "unknown-action", "severity": Severity.ERROR,
        "span": Span(start, start + len(words)), "message": "It does not exist.", **more,
    }  # fmt: skip
    return Diagnostic(**given)


def shown(text: str, *found: Diagnostic, name: str = "ro.plan") -> str:
    return click.unstyle(rendered("terminal", SourceFindings(Source(name, text), found)))


def three() -> SourceFindings:
    fix = Fix("quote the word", (Edit(Span(46, 49), '"ro"'),), Safety.UNSAFE)
    return SourceFindings(
        Source("ro.plan", PLAN),
        [
            finding(PLAN, "FIND_RELATIONSHIP", help="Closest: FIND_RELATION(CTX, X, Y).\nUse it."),
            finding(
                PLAN, '"mother"', code="PRL402", name="quoted-variable", severity=Severity.WARNING,
                message="It names no step.", fix=fix, labels=(Label(Span(3, 5), "ro is here"),),
            ),
            finding(PLAN, "end FIND_FATE(CTX", code="PRL113", name="not-a-step",
                    message="It is not a step.", help="Write name = ACTION(…) : note."),
        ],
    )  # fmt: skip


TERMINAL = """\
PRL201 unknown-action ──────────────────────────────── ro.plan:2:10
2 │ 2. tie = FIND_RELATIONSHIP(CTX, ro, "mother") : how they stand
  │          ^^^^^^^^^^^^^^^^^ It does not exist.
help: Closest: FIND_RELATION(CTX, X, Y).
      Use it.

PRL402 quoted-variable ─────────────────────────────── ro.plan:2:37
2 │ 2. tie = FIND_RELATIONSHIP(CTX, ro, "mother") : how they stand
  │                                     ^^^^^^^^ It names no step.
  │ ro is here: line 1, column 4
fix: quote the word (pearl lint --unsafe-fixes)

PRL113 not-a-step ──────────────────────────────────── ro.plan:3:4
3 │ 3. end FIND_FATE(CTX
  │    ^^^^^^^^^^^^^^^^^ It is not a step.
help: Write name = ACTION(…) : note.
"""
PROMPT = """\
The checker rejected your plan. Return the whole corrected plan only.
[PRL201] step 2: It does not exist.
  Closest: FIND_RELATION(CTX, X, Y).
  Use it.
[PRL113] step 3 `end FIND_FATE(CTX`: It is not a step.
  Write name = ACTION(…) : note.
"""
GITHUB = (
    "::error file=ro.plan,line=2,col=10,endLine=2,endColumn=27,title=PRL201 unknown-action::"
    "It does not exist. Closest: FIND_RELATION(CTX, X, Y).%0AUse it.\n"
    "::warning file=ro.plan,line=2,col=37,endLine=2,endColumn=45,title=PRL402 quoted-variable::"
    "It names no step.\n"
    "::error file=ro.plan,line=3,col=4,endLine=3,endColumn=21,title=PRL113 not-a-step::"
    "It is not a step. Write name = ACTION(…) : note.\n"
)


def test_the_whole_terminal_form():
    text = click.unstyle(rendered("terminal", three()))
    assert re.sub("─+", "─", text) == re.sub("─+", "─", TERMINAL)
    rules = [line for line in shown(PLAN, *three().diagnostics).splitlines() if "─" in line]
    assert {len(line) for line in rules} == {64}


def test_the_whole_prompt_form_is_in_step_order_and_the_github_form():
    turned = SourceFindings(three().source, list(reversed(three().diagnostics)))
    assert rendered("prompt", three()) == rendered("prompt", turned) == PROMPT
    assert rendered("github", three()) == GITHUB


def test_the_whole_of_a_json_finding():
    found = json.loads(rendered("json", three()))[1]
    place = {"line": 2, "column": 37, "end_line": 2, "end_column": 45}
    assert found == {
        "code": "PRL402", "name": "quoted-variable", "severity": "warning",
        "message": "It names no step.", "help": "", "file": "ro.plan",
        "span": [PLAN.index('"mother"'), PLAN.index('"mother"') + 8], **place,
        "labels": [{"text": "ro is here", "span": [3, 5], "line": 1, "column": 4, "end_line": 1,
                    "end_column": 6}],
        "data": {},
        "fix": {
            "title": "quote the word", "safety": "unsafe",
            "edits": [{"text": '"ro"', "span": [46, 49], "line": 2, "column": 1, "end_line": 2,
                       "end_column": 4}],
        },
    }  # fmt: skip


def test_the_whole_of_a_sarif_result():
    log = json.loads(rendered("sarif", three()))
    assert set(log) == {"$schema", "version", "runs"}
    assert log["runs"][0]["columnKind"] == "unicodeCodePoints"
    driver = log["runs"][0]["tool"]["driver"]
    assert driver["name"] == "pearl"
    assert [rule["id"] for rule in driver["rules"]] == ["PRL113", "PRL201", "PRL402"]
    file = {"artifactLocation": {"uri": "ro.plan"}}

    def region(line: int, start: int, end: int, offset: int) -> dict[str, int]:
        return {"startLine": line, "startColumn": start, "endLine": line, "endColumn": end,
                "charOffset": offset, "charLength": end - start}  # fmt: skip

    def place(*numbers: int) -> dict[str, Any]:
        return {"physicalLocation": {**file, "region": region(*numbers)}}

    new = {"deletedRegion": region(2, 1, 4, 46), "insertedContent": {"text": '"ro"'}}
    change = {**file, "replacements": [new]}
    assert log["runs"][0]["results"][1] == {
        "ruleId": "PRL402",
        "level": "warning",
        "message": {"text": "It names no step."},
        "locations": [place(2, 37, 45, PLAN.index('"mother"'))],
        "relatedLocations": [{**place(1, 4, 6, 3), "message": {"text": "ro is here"}}],
        "fixes": [{"description": {"text": "quote the word"}, "artifactChanges": [change]}],
    }


def test_a_row_is_a_place_in_its_file():
    row = SourceFindings(Source("plans/rows.jsonl:12", PLAN), three().diagnostics)
    place = {"artifactLocation": {"uri": "plans/rows.jsonl"}, "region": {"startLine": 12}}
    for result in json.loads(rendered("sarif", row))["runs"][0]["results"]:
        assert result["locations"][0]["physicalLocation"] == place
        assert "fixes" not in result
    assert rendered("github", row).startswith("::error file=plans/rows.jsonl,line=12,title=")


def marked(text: str, words: str) -> str:
    """What stands, column for column, above the marker."""
    line, marker = shown(text, finding(text, words)).splitlines()[1:3]
    start = marker.index("^")
    taken, found = 0, ""
    for char in line:
        if start <= taken < start + marker.count("^"):
            found += char
        taken += 1 if unicodedata.east_asian_width(char) not in "WF" else 2
    return found


@pytest.mark.parametrize(
    "text",
    [
        "a = F(x)",
        "\t\ta\t= F(x)\tx",
        '漢字 = F("漢字", x)',
        'cafe\u0301 = F("e\u0301", x)',
        'a = F("\x1b[31m\x00", x)',
        "漢" * 300 + " F(x) " + "字" * 300,
        "y" * 5000 + " F(x)",
        "F(x) " + "y" * 5000,
        "y" * 92 + " F(x)",
        "y" * 500 + " F(x) " + "y" * 10,
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_the_marker_stands_under_the_words(text: str):
    if "\u0301" in text:
        line, marker = shown(text, finding(text, "F(")).splitlines()[1:3]
        assert marker.index("^") == line.replace("\u0301", "").index("F(")
        return
    assert marked(text, "F(") == "F("


@pytest.mark.parametrize("text", ["漢" * 500, "y" * 5000, "x " * 300])
def test_a_shown_line_fits_the_screen(text: str):
    found = Diagnostic("PRL101", "x", Severity.ERROR, Span(150, 290), "m")
    line, marker = shown(text, found).splitlines()[1:3]
    wide = sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in line)
    assert wide <= 96 + len("1 │ ")
    assert len(marker) <= 96 + len("1 │  m")
    assert line.count("…") == 2


@pytest.mark.parametrize("text", ["a = F(", "a = F(\n", "", "\n\n", "a = F(\r\n"])
def test_a_finding_at_the_end_of_the_file(text: str):
    end = len(text)
    found = Diagnostic("PRL101", "x", Severity.ERROR, Span(end, end), "It stops.")
    for form in RENDERERS:
        assert rendered(form, SourceFindings(Source("x.plan", text), [found]))
    assert shown(text, found).count("^") == 1


def test_a_finding_over_several_lines():
    text = "a = F(CTX,\n  b,\n  c)\nd = G(a)\n"
    told = shown(text, finding(text, "F(CTX,\n  b,\n  c)"))
    assert told.splitlines()[1:4] == [
        "1 │ a = F(CTX,",
        "  │     ^^^^^^ It does not exist.",
        "  │ as far as line 3, column 5",
    ]


def test_a_broken_step_is_quoted_on_one_line_and_cut():
    text = "1. a = F(CTX)\n" + "2. b FIND(" + "very " * 100 + "\n"
    told = rendered("prompt", SourceFindings(Source("x", text), [finding(text, "b FIND(")]))
    line = told.splitlines()[1]
    assert line.startswith("[PRL201] step 2 `b FIND(very very")
    assert len(line) < 260
    assert "…`: It does not exist." in line


def test_what_is_no_step_is_quoted():
    text = "New actions:\n- FIND_X(CTX : x\n\n1. a = FIND_CHARACTER(CTX) : x\n"
    told = rendered("prompt", SourceFindings(Source("x", text), [finding(text, "FIND_X(CTX")]))
    assert told.splitlines()[1] == "[PRL201] `- FIND_X(CTX : x`: It does not exist."
