"""SARIF is what the published schema says, whatever was checked."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import jsonschema
import pytest

from pearl.lang.diagnostics import (
    Diagnostic,
    Edit,
    Fix,
    Label,
    Severity,
    SourceFindings,
    apply_fixes,
)
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source, Span
from pearl.lint.checker import Selection, check, check_library
from pearl.lint.rules import RULES
from tests.conftest import rendered
from tests.shell import BAD, GOOD, call, write_rows
from tests.test_cases import FILES, load

SCHEMA = Path(__file__).parent / "data" / "sarif-2.1.0.json"
EVERYTHING = Selection(select=("PRL",))
# RFC 3986, appendix A, with the marks of each part.
_PART = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
_REFERENCE = re.compile(
    rf"(?:[A-Za-z][A-Za-z0-9+.-]*:{_PART}*|(?![^/?#]*:){_PART}*)(?:\?(?:{_PART}|\?)*)?(?:#{_PART}*)?"
)
FORMATS = jsonschema.FormatChecker(formats=())


@FORMATS.checks("uri-reference")
def is_reference(value: object) -> bool:
    return not isinstance(value, str) or bool(_REFERENCE.fullmatch(value))


@FORMATS.checks("uri")
def is_address(value: object) -> bool:
    return not isinstance(value, str) or (":" in value and is_reference(value))


@cache
def schema() -> jsonschema.Draft4Validator:
    text = json.loads(SCHEMA.read_text(encoding="utf-8"))
    assert text["$schema"] == "http://json-schema.org/draft-04/schema#"
    return jsonschema.Draft4Validator(text, format_checker=FORMATS)


def problems(log: Any) -> list[str]:
    return [f"{one.json_path}: {one.message[:200]}" for one in schema().iter_errors(log)]


def valid(text: str) -> dict[str, Any]:
    """A log that the schema takes."""
    log: dict[str, Any] = json.loads(text)
    assert not problems(log)
    ids = {rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]}
    assert {one["ruleId"] for one in log["runs"][0]["results"]} == ids
    return log


def results(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = valid(text)["runs"][0]["results"]
    return found


def sarif(*sources: Source) -> list[dict[str, Any]]:
    """What is found in some plans, as the results of a log that the schema takes."""
    found = ((one, check(parse(one), load_library(), EVERYTHING)) for one in sources)
    return results(rendered("sarif", *(SourceFindings(*one) for one in found)))


def examples() -> Iterator[tuple[str, str]]:
    """The example of every rule's documentation, with the name of a file for it."""
    for rule in RULES:
        ending = "actions" if rule.library else "plan"
        yield f"{rule.code}.{ending}", rule.section("Example") + "\n"


def test_the_schema_does_not_take_everything():
    log = json.loads(rendered("sarif", SourceFindings(Source("a.plan", GOOD), [])))
    assert not problems(log)
    for broken in (
        {**log, "version": "2.0.0"},
        {**log, "more": 1},
        {**log, "runs": [{"results": []}]},
        {**log, "$schema": "no address"},
    ):
        assert problems(broken)
    place = {"physicalLocation": {"artifactLocation": {"uri": "a b.plan"}}}
    result = {"message": {"text": "x"}, "locations": [place]}
    log["runs"][0]["results"] = [result]
    assert problems(log)
    place["physicalLocation"]["artifactLocation"]["uri"] = "a%20b.plan"
    assert not problems(log)
    place["physicalLocation"]["region"] = {"startLine": 0}
    assert problems(log)


def test_every_rule_on_the_command_line(tmp_path: Path):
    folder = tmp_path / "plans of größe 😀, 100% #1"
    folder.mkdir()
    for name, text in examples():
        (folder / name).write_text(text, encoding="utf-8")
    done = call("lint", folder.name, "--select", "PRL", "--format", "sarif")
    assert done.code == 1
    found = results(done.out)
    assert {one["ruleId"] for one in found} == {rule.code for rule in RULES}
    for one in found:
        uri = one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        assert (tmp_path / unquote_to_bytes(uri).decode()).is_file()


def test_forms_that_models_write():
    sources = (Source(f"{path.stem}.plan", load(path).text) for path in FILES[::4])
    assert len(sarif(*sources)) > 50


def test_places_and_fixes_are_those_of_the_text():
    """What a reader of the log sees and does, by lines and columns alone."""
    checked = 0
    for name, text in examples():
        source = Source(name, f"# größe 😀\n{text}")
        is_plan = name.endswith("plan")
        found = check(parse(source), load_library()) if is_plan else check_library(source)
        log = results(rendered("sarif", SourceFindings(source, found)))
        for one, told in zip(found, log, strict=True):
            region = told["locations"][0]["physicalLocation"]["region"]
            assert span_of(source.text, region) == one.span
            if one.fix:
                changes = told["fixes"][0]["artifactChanges"][0]["replacements"]
                spans = (span_of(source.text, change["deletedRegion"]) for change in changes)
                texts = (change["insertedContent"]["text"] for change in changes)
                edits = tuple(map(Edit, spans, texts))
                mended = apply_fixes(source.text, [Fix("", edits)])
                assert mended[0] == apply_fixes(source.text, [one.fix])[0]
                checked += 1
    assert checked > 10


def span_of(text: str, region: dict[str, Any]) -> Span:
    """The characters that a region's lines and columns name."""
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:number]) for number in range(len(lines))]
    start = starts[region["startLine"] - 1] + region["startColumn"] - 1
    end = starts[region["endLine"] - 1] + region["endColumn"] - 1
    assert (start, end - start) == (region["charOffset"], region["charLength"])
    return Span(start, end)


def test_standard_input():
    done = call("lint", "-", "--format", "sarif", stdin=BAD)
    found = results(done.out)
    assert done.code == 1
    places = [one["locations"][0]["physicalLocation"] for one in found]
    assert {place["artifactLocation"]["uri"] for place in places} == {"stdin"}


def test_nothing_found(tmp_path: Path):
    (tmp_path / "good.plan").write_text(GOOD, encoding="utf-8")
    done = call("lint", "good.plan", "--format", "sarif")
    assert done.code == 0
    assert results(done.out) == []
    assert json.loads(done.out)["runs"][0]["invocations"] == [{"executionSuccessful": True}]


@pytest.mark.parametrize("exit_zero", [[], ["--exit-zero"]], ids=["", "exit-zero"])
def test_what_cannot_be_read_is_told_in_every_form(exit_zero: list[str]):
    Path("latin.plan").write_bytes(b'a = F("caf\xe9")\n')
    Path("wide.plan").write_bytes(GOOD.encode("utf-16"))
    Path("rows.jsonl").write_text(json.dumps({"plan": GOOD}) + '\n{"plan": 3}\n', encoding="utf-8")
    names, said = ["latin.plan", "wide.plan", "rows.jsonl"], ["not UTF-8", "is UTF-16", "a text"]

    def lint(form: str) -> str:
        done = call("lint", *names, "--format", form, *exit_zero)
        assert done.code == (0 if exit_zero else 1)
        return done.out

    log = lint("sarif")
    assert results(log) == []
    (invocation,) = json.loads(log)["runs"][0]["invocations"]
    assert not invocation["executionSuccessful"]
    told = invocation["toolExecutionNotifications"]
    for name, why, one in zip(names, said, told, strict=True):
        place = one["locations"][0]["physicalLocation"]
        assert (one["level"], place["artifactLocation"]["uri"]) == ("error", name)
        assert why in one["message"]["text"]
    assert place["region"] == {"startLine": 2}
    objects = json.loads(lint("json"))
    assert [one["file"] for one in objects] == ["latin.plan", "wide.plan", "rows.jsonl:2"]
    assert {one["code"] for one in objects} == {"unreadable"}
    assert all(why in one["message"] for why, one in zip(said, objects, strict=True))
    lines = lint("github").splitlines()
    for name, why, line in zip(names, said, lines, strict=True):
        assert line.startswith(f"::error file={name},line=")
        assert why in line
    Path("own.actions").write_text("A(CTX) : Find it\nB(CTX, : Find\n", encoding="utf-8")
    Path("good.plan").write_text(GOOD, encoding="utf-8")
    names, said = [*names, "good.plan", "--library", "own.actions"], [*said, "own.actions:2"]
    assert said[-1] in json.loads(lint("json"))[-1]["message"]
    assert said[-1] in lint("github").splitlines()[-1]
    assert not json.loads(lint("sarif"))["runs"][0]["invocations"][0]["executionSuccessful"]
    counts = json.loads(call("lint", *names, "--statistics", "--json").out)
    assert all(why in text for why, text in zip(said, counts["unreadable"], strict=True))


def test_rows_of_a_file():
    write_rows("rows of plans.jsonl", *({"plan": text} for text in (GOOD, BAD, "", "x")))
    found = results(call("lint", "rows of plans.jsonl", "--format", "sarif").out)
    places = [one["locations"][0]["physicalLocation"] for one in found]
    assert {place["artifactLocation"]["uri"] for place in places} == {"rows%20of%20plans.jsonl"}
    assert {place["region"]["startLine"] for place in places} == {2, 3, 4}


@pytest.mark.parametrize(
    "name",
    [
        "a:b.plan",
        "a b/ü#1.plan",
        "/tmp/a b.plan",
        "../up/a?b#c.plan",
        "-x.plan",
        "//host/a.plan",
        '/tmp/[a] {b} |c| ^`"<>\\.plan',
        "a\tb\nc.plan",
        "größe/日本/😀.plan",
        "undecodable-\udcff.plan",
        "C:\\plans\\a.plan",
        "%41.plan",
    ],
)
def test_names_of_files(name: str):
    found = sarif(Source(name, BAD))
    assert found
    for one in found:
        uri = one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        path = unquote_to_bytes(uri.removeprefix("file://"))
        assert path == name.encode("utf-8", "surrogateescape")


def test_a_place_that_is_named_twice_is_told_once():
    label = Label(Span(0, 1), "here")
    found = Diagnostic(
        "PRL201", "unknown-action", Severity.ERROR, Span(0, 3), "No.", labels=(label, label)
    )
    told = results(rendered("sarif", SourceFindings(Source("a.plan", GOOD), [found, found])))
    assert [len(one["relatedLocations"]) for one in told] == [1, 1]
    # Every place in a row is the row.
    two = replace(found, labels=(label, Label(Span(2, 3), "here")))
    for name, count in (("a.plan", 2), ("a.jsonl:3", 1)):
        told = results(rendered("sarif", SourceFindings(Source(name, GOOD), [two])))
        assert len(told[0]["relatedLocations"]) == count


@pytest.mark.parametrize(
    "text",
    [
        "\ud800 = F(\udc00)\n",
        "a = F(CTX\r\n\r\n",
        "\x00\x1b[31m = F(",
        "a = F(CTX)\u2028b",
        "\ufeff(",
    ],
)
def test_odd_characters(text: str):
    assert sarif(Source("odd.plan", text))
