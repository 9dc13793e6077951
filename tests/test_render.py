"""One diagnostic, many forms: what each of them reads like."""

from __future__ import annotations

import json

import pytest

from pearl.checker import check
from pearl.library import load_library
from pearl.render import RENDERERS, Report, prompt
from pearl.source import Source
from pearl.syntax import parse
from tests.shell import BAD


def report(text: str, name: str = "ro.plan") -> Report:
    source = Source(name, text)
    return Report(source, check(parse(source), load_library()))


def plain(text: str, name: str = "ro.plan") -> str:
    import click

    return click.unstyle(RENDERERS["terminal"]([report(text, name)]))


def test_terminal_marks_the_place_and_says_the_act():
    shown = plain(
        '1. ro = FIND_CHARACTER(CTX, "Ro")\n2. tie = FIND_RELATION(CTX, ro, mother) : t\n'
    )
    lines = shown.splitlines()
    assert lines[0].startswith("PRL202 undefined-variable ─")
    assert lines[0].endswith(" ro.plan:2:33")
    assert lines[1] == "2 │ 2. tie = FIND_RELATION(CTX, ro, mother) : t"
    assert lines[2].startswith("  │                                 ^^^^^^ mother is not defined")
    assert lines[3] == 'help: Defined: CTX, ro. If you mean the word, write "mother".'
    assert lines[4] == "fix: quote the word (pearl lint --unsafe-fixes)"


def test_long_lines_are_cut_around_the_place():
    note = "word " * 60
    shown = plain(f'1. tie = FIND_RELATION(CTX, "{note}", mother) : {note}\n')
    line, marker = shown.splitlines()[1:3]
    assert "…" in line
    at = marker.index("^")
    assert line[at : at + 6] == "mother"
    assert len(line) < 120


def test_control_characters_never_reach_a_screen():
    shown = plain('1. a = FIND_CHARACTER(CTX, "\x1b[31m\u202ex", \x9b3) : \x07\n', "\x1b[2J.plan")
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize("form", RENDERERS)
def test_every_form_takes_every_finding(form: str):
    texts = (BAD, "", "x", "\n\n", 'a = F("\n', "1. CTX = F(CTX)\n2. CTX = F(each CTX, b)\n\r\n")
    shown = RENDERERS[form]([report(text, f"{at}.plan") for at, text in enumerate(texts)])
    assert shown
    assert shown == RENDERERS[form]([report(text, f"{at}.plan") for at, text in enumerate(texts)])


def test_nothing_found_is_nothing_said():
    good = report('1. a = FIND_CHARACTER(CTX, "Ro") : who\n')
    assert RENDERERS["terminal"]([good]) == ""
    assert RENDERERS["prompt"]([good]) == ""
    assert json.loads(RENDERERS["json"]([good])) == []
    assert RENDERERS["github"]([good]) == ""


def test_the_model_is_told_steps_and_words_not_columns():
    told = prompt.render(
        [
            report(
                "1. ro = FIND_CHARACTER(CTX, Ro) : who\n"
                '2. tie = FIND_RELATIONSHP(CTX, ro, "mother") : tie\n'
                '3. end = FIND_FATE(CTX, "x" : end\n'
            )
        ]
    )
    lines = told.splitlines()
    assert lines[0] == "The checker rejected your plan. Return the whole corrected plan only."
    assert lines[1] == "[PRL202] step 1: Ro is not defined before step 1."
    assert lines[2] == '  Defined: CTX. If you mean the word, write "Ro".'
    assert lines[3] == "[PRL201] step 2: FIND_RELATIONSHP does not exist."
    assert lines[4].startswith("  Closest: FIND_RELATION(CTX, X, Y); ")
    assert lines[5].startswith("[PRL103] step 3")
    assert 'end = FIND_FATE(CTX, "x" : end' in lines[5]
    assert "^" not in told


def test_warnings_are_not_the_models_errors():
    text = '1. a = FIND_CHARACTER(CTX, "Ro") : who\n2. b = CONCAT(a) : all\n'
    assert [one.code for one in report(text).diagnostics] == ["PRL404"]
    assert prompt.render([report(text)]) == ""


def test_a_rule_that_speaks_twice_adds_its_example():
    given = report("1. ro = FIND_CHARACTER(CTX, Ro) : who\n")
    assert "Wrong:" not in prompt.render([given])
    told = prompt.render([given], {"PRL202", "PRL101"})
    assert "An example of PRL202. Wrong:" in told
    assert "PRL101" not in told


def test_json_has_places_and_fixes():
    found = json.loads(RENDERERS["json"]([report(BAD)]))
    assert [one["code"] for one in found] == sorted(
        (one["code"] for one in found), key=[one["code"] for one in found].index
    )
    for one in found:
        start, end = one["span"]
        assert 0 <= start <= end <= len(BAD)
        assert one["line"] >= 1
        assert set(one) >= {"code", "name", "severity", "message", "help", "file", "fix", "data"}


def test_sarif_is_version_2_1_0():
    log = json.loads(RENDERERS["sarif"]([report(BAD, "a folder/ro.plan")]))
    assert log["version"] == "2.1.0"
    run = log["runs"][0]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert ids == list(dict.fromkeys(ids))
    for result in run["results"]:
        assert result["ruleId"] in ids
        assert result["level"] in ("error", "warning")
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "a%20folder/ro.plan"
        assert place["region"]["startLine"] >= 1
        for fix in result.get("fixes", []):
            for change in fix["artifactChanges"]:
                assert all("deletedRegion" in one for one in change["replacements"])


def test_github_escapes_what_would_end_the_command():
    shown = RENDERERS["github"]([report("1. a = F(CTX, x%)\n", "a,b:c\n.plan")])
    for line in shown.splitlines():
        assert line.startswith(("::error file=a%2Cb%3Ac%0A.plan,line=", "::warning file="))
        assert "::" in line[2:]
