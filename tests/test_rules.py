"""Every rule does what its documentation says."""

from __future__ import annotations

import re

import pytest

from pearl.checker import Selection, check, check_library, fix
from pearl.diagnostics import Safety
from pearl.library import load_library
from pearl.rules import RULES, Rule
from pearl.source import Source
from pearl.syntax import parse

LIBRARY = load_library()
ALL = Selection(select=("PRL",))


def codes(rule: Rule, text: str) -> set[str]:
    """What is found in a text: a library's if the rule looks at libraries only."""
    if rule.library and not rule.plan:
        return {one.code for one in check_library(Source("x.actions", text), ALL)}
    if rule.plan and rule.library:
        text = "New actions:\n" + text + '\n\n1. a = FIND_HABIT(CTX, "Ross") : Find his habits'
    return {one.code for one in check(parse(text), LIBRARY, ALL)}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_example_has_the_fault_and_the_better_form_has_not(rule: Rule):
    wrong, right = rule.section("Example"), rule.section("Use instead")
    assert rule.code in codes(rule, wrong), wrong
    assert codes(rule, right) == set(), right


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_says_what_why_and_how(rule: Rule):
    assert re.fullmatch(r"PRL[1-5]\d\d", rule.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    assert rule.doc.splitlines()[0].endswith(".")
    for title in ("What it does", "Why", "Example", "Use instead", "Fix"):
        assert rule.section(title), title
    assert any((rule.explain, rule.plan, rule.library))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_fixes_are_worth_what_the_documentation_says(rule: Rule):
    if rule.library and not rule.plan:
        return
    said = rule.section("Fix").lower()
    found = check(parse(rule.section("Example")), LIBRARY, ALL)
    fixes = [one.fix for one in found if one.code == rule.code and one.fix]
    for one in fixes:
        assert ("safe" if one.safety is Safety.SAFE else "unsafe") in said
    if said.startswith("none"):
        assert not fixes


def test_codes_and_names_are_given_once():
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert len({rule.name for rule in RULES}) == len(RULES)


PLAN = '1. ro = FIND_CHARACTER(CTX, "Ro") : who\n2. ans = CONCAT(ro) : all{}\n'


@pytest.mark.parametrize(
    ("end", "left"),
    [
        ("", ["PRL404"]),
        ("  # noqa", []),
        ("  # noqa: PRL404", []),
        ("  # noqa: PRL401, PRL404", []),
        ("  # noqa: PRL401", ["PRL404"]),
        ("  # NOQA:PRL404", []),
    ],
)
def test_a_line_can_silence_a_rule(end: str, left: list[str]):
    assert [one.code for one in check(parse(PLAN.format(end)), LIBRARY)] == left


@pytest.mark.parametrize(
    ("selection", "left"),
    [
        (Selection(), ["PRL404"]),
        (Selection(select=("PRL4",)), ["PRL404"]),
        (Selection(select=("PRL2",)), []),
        (Selection(ignore=("PRL404",)), []),
        (Selection(select=("PRL",), ignore=("PRL40",)), []),
    ],
)
def test_rules_are_selected_by_the_start_of_their_codes(selection: Selection, left: list[str]):
    assert [one.code for one in check(parse(PLAN.format("")), LIBRARY, selection)] == left


def test_one_errors_consequences_are_not_reported():
    text = (
        '1. ross = FIND_CHARACTER(CTX, "Ross : who\n2. tie = FIND_RELATION(CTX, ross, ross) : tie\n'
    )
    assert [one.code for one in check(parse(text), LIBRARY)] == ["PRL102"]


def test_a_quoted_step_is_found_with_case_and_spaces_folded():
    text = (
        '1. missing_isotope = FIND_EVENT(CTX, "the isotope") : what\n'
        '2. end = FIND_EMOTION(CTX, "Eddie", "Missing Isotope") : feels\n'
    )
    found = check(parse(text), LIBRARY)
    assert [one.code for one in found] == ["PRL402"]
    assert "Missing Isotope" not in fix(Source("x", text), LIBRARY, unsafe=True).text
    assert fix(Source("x", text), LIBRARY).text == text


def test_a_steps_own_name_in_quotes_is_harmless():
    text = '1. ross = FIND_CHARACTER(CTX, "Ross") : who\n'
    assert check(parse(text), LIBRARY, ALL) == []


def test_the_shipped_libraries_and_plans_are_clean():
    from pearl.library import library_source

    for name in ("core", "quality"):
        assert check_library(library_source(name), ALL) == []
