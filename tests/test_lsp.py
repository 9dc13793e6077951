"""``pearl lsp``, spoken to over its standard input and output as an editor does."""

import asyncio
import os
import random
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.rewriting import format_library, format_plan
from pearl.lang.source import Source
from pearl.lint.checker import check
from pearl.lsp.findings import PendingChecks
from pearl.lsp.workspace import LanguageSession, ProjectSettings, open_document
from tests.conftest import ROOT
from tests.editor import (
    ABLE,
    Editor,
    RefusedError,
    applied,
    between,
    covered,
    editor,
    offset_of,
    place,
)
from tests.shell import call, one_line, process
from tests.test_cases import FILES, load

REFUSED = -32803
PLAN = """\
question: How are Ro and his mother related to the sale?

New actions:
- FIND_TRUST(CTX, X, Y) : Find how far X trusts Y

1. ro = FIND_CHARACTER(CTX, "Ro 😀") : Identify who Ro is
2. tie = FIND_RELATION(CTX, ro, "the mother of {ro}") : Find how the two stand 😀
3. all = FIND_ALL(CTX, "people near {ro}") : List them
4. ages = FIND_TRUST(CTX, each all, [ro, "x {tie}"]) : Find each one's age
return tie, ages
"""
LIBRARY = """\
# Ours
FIND_SMELL(CTX, X: text) -> list : Find what X *smells* of.
  aliases: FIND_ODOUR
  replaces: FIND_SCENT(CTX, A, B) = (CTX, "the scent of {A}")

FIND_BOTH(CTX, X) : Find both
  plan:
    1. a = FIND_SMELL(CTX, X)
    2. b = CONCAT(a, "{X}")
"""


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """A server that tests share; each opens texts of its own."""
    with editor(tmp_path_factory.mktemp("editor")) as running:
        yield running


def codes(found: list[dict[str, Any]]) -> list[str]:
    return [one["code"] for one in found]


def edits_of(one: Editor, edit: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The changes to one document that are meant for its newest version."""
    (change,) = edit["documentChanges"]
    assert change["textDocument"] == {"uri": one.uri(name), "version": one.texts[name][0]}
    return change["edits"]


def actions(one: Editor, name: str, start: int = 0, end: int | None = None, **context: Any) -> Any:
    text = one.texts[name][1]
    given = between(text, start, len(text) if end is None else end)
    return one.about("codeAction", name, range=given, context={"diagnostics": [], **context})


class TestStarting:
    def test_a_session_from_its_beginning_to_its_end(self, tmp_path: Path):
        with Editor(tmp_path) as one:
            can = one.start()
            abilities = "completion hover definition references documentSymbol documentFormatting"
            assert all(can[f"{ability}Provider"] for ability in abilities.split())
            assert can["positionEncoding"] == "utf-16"
            assert can["renameProvider"] == {"prepareProvider": True}
            assert "source.fixAll.pearl" in can["codeActionProvider"]["codeActionKinds"]
            assert can["textDocumentSync"]["openClose"] is True
            assert can["textDocumentSync"]["change"] == 2
            while not one.asked:
                one.next()
            asked = [one["params"]["registrations"][0]["method"] for one in one.asked]
            assert asked == ["workspace/didChangeWatchedFiles"]
            one.open("a.plan", PLAN)
            with pytest.raises(RefusedError):
                one.mark("rename", "a.plan", "CTX, r|o, ", newName="tie")
            one.ask("shutdown", None)
            with pytest.raises(RefusedError, match="shut down") as error:
                one.mark("hover", "a.plan", "|question")
            assert error.value.code == -32600
            assert one.leave() == 0
            # An editor shows what is written there as something that went wrong.
            assert one.complaints == []

    def test_ctrl_c_ends_it(self, tmp_path: Path):
        with Editor(tmp_path) as one:
            one.start()
            one.process.send_signal(signal.SIGINT)
            assert one.process.wait(10) == -signal.SIGINT
            assert one.complaints == []

    def test_without_pygls_there_is_one_line(self, tmp_path: Path):
        (tmp_path / "pygls.py").write_text(
            "raise ModuleNotFoundError('gone', name='pygls')\n", encoding="utf-8"
        )
        done = process("lsp", PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
        line = one_line(done, 2)
        assert line.startswith("pearl lsp needs pygls: pip install '")
        assert line.endswith("[lsp]'.")

    def test_json_names_what_it_answers(self):
        assert "textDocument/rename" in process("lsp", "--json").json["answers"]


class TestBadMessages:
    @pytest.mark.parametrize(
        ("length", "code", "said"),
        [("9" * 11, 2, "99,999,999,999 bytes is announced"), ("9" * 5_000, 1, "")],
    )
    def test_a_message_without_end_is_not_waited_for(self, length: str, code: int, said: str):
        done = process("lsp", stdin=f"Content-Length: {length}\r\n\r\n{{}}".encode())
        assert (done.code, said in done.err) == (code, True)
        assert len(done.told) == bool(said)

    @pytest.mark.parametrize("body", ["[]", "{}"])
    def test_what_is_no_message_is_told_in_a_line(self, body: str):
        done = process("lsp", stdin=f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        assert done.err == "What came is no message of the protocol, and is passed over.\n"

    def test_a_request_that_cannot_be_read_is_answered(self, one: Editor):
        for params in ({}, {"textDocument": 5}, [], {"position": {"line": -1, "character": 0}}):
            with pytest.raises(RefusedError) as error:
                one.ask("textDocument/hover", params)
            assert error.value.code in (-32602, -32603)
        with pytest.raises(RefusedError) as error:
            one.ask("textDocument/dance", {})
        assert error.value.code == -32601

    def test_documents_it_does_not_know(self, one: Editor):
        document = {"uri": one.uri("never-opened.plan"), "version": 3}
        one.tell("textDocument/didChange", {"textDocument": document, "contentChanges": []})
        one.tell("textDocument/didClose", {"textDocument": document})
        where = {"textDocument": document, "position": {"line": 0, "character": 0}}
        assert one.ask("textDocument/hover", where) is None
        text = {"uri": one.uri("notes.txt"), "languageId": "plaintext", "version": 1, "text": PLAN}
        one.tell("textDocument/didOpen", {"textDocument": text})
        where = {"textDocument": {"uri": text["uri"]}, "position": {"line": 0, "character": 0}}
        assert one.ask("textDocument/completion", where) is None

    @pytest.mark.parametrize(
        "uri", ["untitled:Untitled-1", "file://[half", "file:///%00", "", "a b"]
    )
    def test_names_of_any_kind(self, one: Editor, uri: str):
        item = {"uri": uri, "languageId": "pearl-plan", "version": 1, "text": "a = X(CTX)\n"}
        one.tell("textDocument/didOpen", {"textDocument": item})
        while not any(said["uri"] == uri for said in one.published):
            one.next()
        said = next(said for said in one.published if said["uri"] == uri)
        one.published.clear()
        assert codes(said["diagnostics"]) == ["PRL201", "PRL406"][:1]


class TestFindings:
    def test_they_are_those_of_the_checker(self, one: Editor):
        text = PLAN.replace("FIND_ALL(", "FIND_ALLL(").replace("[ro,", "[roo,")
        found = one.open("found.plan", text)
        expected = check(parse(text), load_library())
        assert codes(found) == [said.code for said in expected]
        assert {"PRL201", "PRL202"} <= set(codes(found))
        for said, known in zip(found, expected, strict=True):
            assert said["source"] == "pearl"
            assert said["severity"] == (1 if known.severity == "error" else 2)
            assert covered(text, said["range"]) == text[known.span.start : known.span.end]
            assert said["message"] == f"{known.message}\n{known.help}".rstrip()

    def test_they_follow_the_text(self, one: Editor):
        assert one.open("follow.plan", PLAN) == []
        at = PLAN.index("FIND_ALL")
        one.change("follow.plan", {"range": between(PLAN, at, at + 8), "text": "FIND_NONE_OF"})
        assert codes(one.found("follow.plan")) == ["PRL201"]
        assert one.rewrite("follow.plan", PLAN) == []

    def test_an_empty_text_is_not_begun(self, one: Editor):
        assert one.open("empty.plan", "") == []
        assert one.rewrite("empty.plan", "\n\n  ") == []
        assert codes(one.rewrite("empty.plan", "words")) != []

    def test_other_places_are_told(self, one: Editor):
        text = LIBRARY + "FIND_SMELL(CTX) : Find it again\n"
        found = one.open("other-places.actions", text)
        twice = next(said for said in found if said["code"] == "PRL501")
        (related,) = twice["relatedInformation"]
        assert related["location"]["uri"] == one.uri("other-places.actions")
        assert covered(text, related["location"]["range"]).startswith("FIND_SMELL(CTX, X: text)")

    def test_typing_on_cancels_what_is_due(self, one: Editor):
        one.open("typing.plan", PLAN)
        for more in range(40):
            last = one.change("typing.plan", {"text": PLAN + "# x" * more})
        versions = self.versions(one, "typing.plan", last)
        # One, unless this process was kept waiting between two changes.
        assert len(versions) <= 10
        assert versions == sorted(versions)

    def test_versions_never_go_back(self, one: Editor):
        long = PLAN + "".join(f"x{at} = FIND_ALL(CTX, ro)\n" for at in range(400))
        one.open("back.plan", long)
        for at in range(6):
            one.change("back.plan", {"text": f"{long}# {at}\n"})
            one.quiet(0.03)
        # What is being found of the long one comes too late for the short one.
        last = one.change("back.plan", {"text": PLAN})
        versions = self.versions(one, "back.plan", last)
        assert versions == sorted(versions)
        one.quiet(0.3)
        assert one.published == []

    def versions(self, one: Editor, name: str, last: int) -> list[int]:
        """The versions of which findings are told, until the last one's are."""
        seen: list[int] = []
        while last not in seen:
            one.next()
            seen = [said["version"] for said in one.published if said["uri"] == one.uri(name)]
        one.published.clear()
        return seen

    def test_closing_takes_the_findings_back(self, one: Editor):
        assert one.open("closing.plan", "a = X(CTX)\n")
        one.close("closing.plan")
        message = one.next()
        assert message["params"]["uri"] == one.uri("closing.plan")
        assert message["params"]["diagnostics"] == []
        one.published.clear()

    def test_a_great_many_are_cut_and_counted(self, one: Editor):
        found = one.open("many.plan", "x = NO(CTX\n" * 1500)
        assert len(found) == 1001
        assert found[-1]["message"].startswith("500 more findings are not shown")


class TestPlaces:
    TEXT = (
        '1. größe = FIND_EVENT(CTX, "😀𝒳 {zz} é")\r\n2. b = X(größe, 𝒳y)\r# 😀\n3. c = Y(b)\u2028\n'
    )

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-32"])
    def test_each_encoding(self, tmp_path: Path, encoding: str):
        units, width = {"utf-8": ("utf-8", 1), "utf-32": ("utf-32-le", 4)}[encoding]
        with Editor(tmp_path) as one:
            can = one.start({**ABLE, "general": {"positionEncodings": [encoding]}})
            assert can["positionEncoding"] == encoding
            found = one.open("places.plan", self.TEXT)
            said = next(said for said in found if "zz" in said["message"])
            start = said["range"]["start"]
            before = self.TEXT[: self.TEXT.index("zz")].encode(units)
            assert said["range"]["start"]["line"] == 0
            assert 0 <= len(before) // width - start["character"] <= 2
            assert one.end() == 0

    def test_edits_land_where_the_editor_means_them(self, one: Editor):
        """Random edits with characters of every width: the texts stay the same."""
        chance = random.Random(7)
        odd = 'a()"😀𝒳é\n\r\u2028\x0c\x85\ud800'
        alphabet = [*odd, "\r\n", " = ", "F(CTX", "{b}", "1. ", "# "]
        text = self.TEXT
        one.open("random.plan", text)
        for step in range(36):
            changes = []
            for _ in range(chance.randint(1, 3)):
                ends = sorted(chance.choices(_places(text), k=2))
                new = "".join(chance.choices(alphabet, k=chance.randint(0, 6)))
                changes.append({"range": between(text, *ends), "text": new})
                text = text[: ends[0]] + new + text[ends[1] :]
            one.change("random.plan", *changes)
            if step % 6 == 5:
                edited = one.found("random.plan")
                fresh = one.open(f"fresh-{step}.plan", text)
                strip = [{**said, "relatedInformation": None} for said in edited]
                assert strip == [{**said, "relatedInformation": None} for said in fresh]

    def test_places_outside_the_text(self, one: Editor):
        one.open("outside.plan", PLAN)
        for line, character in ((0, 10**6), (10**6, 0), (2**31 - 1, 2**31 - 1)):
            where = {"line": line, "character": character}
            assert one.about("hover", "outside.plan", position=where) is None
        start, end = {"line": 10**6, "character": 0}, {"line": 2, "character": 0}
        one.change("outside.plan", {"range": {"start": start, "end": end}, "text": "b = X(CTX)\n"})
        assert "PRL201" in codes(one.found("outside.plan"))


def _places(text: str) -> list[int]:
    """Where an editor can put its cursor: not inside a line ending."""
    return [at for at in range(len(text) + 1) if text[at - 1 : at + 1] != "\r\n"]


class TestFixes:
    def test_safe_ones_first_and_unsafe_ones_say_so(self, one: Editor):
        text = '1. a = FIND_EVENT(ctx, "x") : y\n2. b = FIND_EVENT(CTX, mother) : z\n'
        one.open("fixes.plan", text)
        offered = actions(one, "fixes.plan", only=["quickfix"])
        assert [(action["title"], action.get("isPreferred")) for action in offered] == [
            ("Write CTX", True),
            ("Quote the word (unsafe: it may change the meaning)", None),
        ]
        for at, mended in enumerate(("(CTX, ", '"mother"')):
            one.rewrite("fixes.plan", text)
            action = actions(one, "fixes.plan", only=["quickfix"])[at]
            (about,) = action["diagnostics"]
            assert about["code"] == "PRL202"
            after = applied(text, edits_of(one, action["edit"], "fixes.plan"))
            assert mended in after
            line = about["range"]["start"]["line"]
            left = one.rewrite("fixes.plan", after)
            assert "PRL202" not in codes([s for s in left if s["range"]["start"]["line"] == line])

    def test_what_does_harm_is_not_offered_and_a_name_is_what_the_title_says(self, one: Editor):
        one.open("harm.plan", '1. a = FIND_EVENT(CTX, "x") : y\nc\n = CONCAT(a, a) : w\n')
        assert actions(one, "harm.plan", only=["quickfix"]) == []
        text = '1. the_end = FIND_EVENT(CTX, "x") : y\n2. b = FIND_REASON(CTX, the end) : z\n'
        one.open("words.plan", text)
        [action] = actions(one, "words.plan", only=["quickfix"])
        assert action["title"] == "Write the_end (unsafe: it may change the meaning)"
        after = applied(text, edits_of(one, action["edit"], "words.plan"))
        assert after == text.replace("the end", "the_end")

    def test_only_what_is_asked_for(self, one: Editor):
        text = '1. a = FIND_EVENT(ctx, "x") : y\n2. b = FIND_EVENT(CTX, mother) : z\n'
        one.open("asked.plan", text)
        second = text.index("2.")
        titles = [action["title"] for action in actions(one, "asked.plan", second, second + 30)]
        assert titles[0].startswith("Quote the word")
        kinds = {action["kind"] for action in actions(one, "asked.plan", only=["quickfix"])}
        assert kinds == {"quickfix"}
        (whole,) = actions(one, "asked.plan", only=["source"])
        assert whole["kind"] == "source.fixAll.pearl"
        assert actions(one, "asked.plan", only=["refactor"]) == []
        assert actions(one, "asked.plan", only=["source.organizeImports"]) == []
        by_itself = actions(one, "asked.plan", triggerKind=2)
        assert "source.fixAll.pearl" not in [action["kind"] for action in by_itself]

    def test_fix_all_is_what_lint_fix_does(self, one: Editor, tmp_path: Path):
        text = '# 😀\r\n1. a = FIND_EVENT(ctx, "x" : y\r\n2. b = find_event(CTX, mother) : z\r\n'
        file = tmp_path / "all.plan"
        file.write_bytes(text.encode())
        assert call("lint", file, "--fix").code == 1
        one.open("all.plan", text)
        (whole,) = actions(one, "all.plan", only=["source.fixAll"])
        after = applied(text, edits_of(one, whole["edit"], "all.plan"))
        assert after != text
        assert after.encode() == file.read_bytes()
        one.rewrite("all.plan", after)
        assert actions(one, "all.plan", only=["source.fixAll"]) == []

    def test_an_unknown_action_may_be_one_of_several(self, one: Editor):
        text = '1. a = FIND_RELATIONSHIPS(CTX, "x", "y") : z\n'
        one.open("several.plan", text)
        offered = actions(one, "several.plan", only=["quickfix"])
        assert len(offered) > 1
        assert all("unsafe" in action["title"] for action in offered)
        after = applied(text, edits_of(one, offered[0]["edit"], "several.plan"))
        assert one.rewrite("several.plan", after) == []

    def test_an_editor_that_minds_no_versions(self, tmp_path: Path):
        with Editor(tmp_path) as one:
            one.start({})
            one.open("plain.plan", "1. a = FIND_EVENT(ctx, true) : y\n")
            (action, *_) = actions(one, "plain.plan")
            assert list(action["edit"]) == ["changes"]
            told = one.mark("hover", "plain.plan", "FIND_EV|ENT")["contents"]
            assert told["kind"] == "plaintext"
            assert told["value"].startswith("FIND_EVENT(CTX, X) -> text\n\n")
            item = one.mark("completion", "plain.plan", "FIND_EV|ENT")[0]
            assert "$" not in item["textEdit"]["newText"]
            # Who goes without taking leave is told by the exit code.
            assert one.leave() == 1
        assert process("lsp") == (1, "", "")


class TestHover:
    @pytest.fixture(autouse=True)
    def _opened(self, one: Editor) -> None:
        assert one.open("hover.plan", PLAN) == []

    @pytest.mark.parametrize(
        ("mark", "covers", "words"),
        [
            (
                "FIND_RELA|TION(CTX",
                "FIND_RELATION",
                (
                    "```pearl-plan\nFIND_RELATION(CTX, X, Y) -> text\n```\n\n",
                    "State what X and Y are to each other",
                    "Also called FIND_RELATIONSHIP.",
                    "From quality.actions.",
                ),
            ),
            ("ages = FIND_|TRUST", "FIND_TRUST", ("Declared by this plan.",)),
            ("CTX, r|o, ", "ro", ("Step 1, gives text.", "Used by steps 2, 3, 4.")),
            ("|ro = FIND", "ro", ("```pearl-plan\nro = FIND_",)),
            ("mother of {r|o}", "ro", ("```pearl-plan\nro = FIND_",)),
            ("each al|l", "all", ("```pearl-plan\nall = FIND_",)),
            ("tie, ag|es", "ages", ("gives pairs",)),
            ("ea|ch all", "each ", ("once for every item",)),
            ("FIND_ALL(CT|X", "CTX", ("The document",)),
        ],
    )
    def test_what_is_shown(self, one: Editor, mark: str, covers: str, words: tuple[str, ...]):
        told = one.mark("hover", "hover.plan", mark)
        assert [part for part in words if part not in told["contents"]["value"]] == []
        assert covered(PLAN, told["range"]) == covers

    def test_nothing_where_nothing_is_named(self, one: Editor):
        for mark in ("How a|re Ro", "Identify w|ho", '"people n|ear'):
            assert one.mark("hover", "hover.plan", mark) is None

    def test_a_library(self, one: Editor):
        one.open("hover.actions", LIBRARY)
        value = one.hover("hover.actions", "FIND_OD|OUR")
        assert "FIND_SMELL(CTX, X) -> list" in value
        assert "X is text" in value
        value = one.mark("hover", "hover.actions", "CON|CAT(a")["contents"]["value"]
        assert "It runs without a model." in value

    def test_nothing_in_a_definition_is_mark_up(self, one: Editor):
        definition = "<script>x</script> [a](command:b) ![c](d) `e` **f** _g_ ``` h"
        text = f"New actions:\n- F_G(CTX) : {definition}\n\n1. a = F_G(CTX) : ```x <b>\n"
        one.open("marks.plan", text)
        value = one.hover("marks.plan", "a = F_|G")
        words = value.split("\n\n")[1]
        assert not re.search(r"(?<!\\)[<>\[\]`*]|(?<![\w\\])_|(?<!\\)_(?!\w)", words)
        assert "\\<script\\>x\\</script\\>" in value
        value = one.hover("marks.plan", "1. |a =")
        assert value.startswith("````pearl-plan\n")
        assert value.split("\n")[2] == "````"


class TestCompletion:
    TEXT = """\
New actions:
- FIND_TRUST(CTX, X) -> number : Find how far X trusts

1. ro = FIND_CHARACTER(CTX, "Ro") : Identify who Ro is
2. half = FIND_CHARACTER(CTX, "Ro :
3. two = FIND
4. three = FIND_RELATION(CTX, r
5. four = FIND_EVENT(CTX, "the {r
6. five = FIND_EVENT(CTX, each r
7. six = FIND_T(CTX)
8. later = FIND_EVENT(CTX, "x") : some words
return ro, l
"""

    @pytest.fixture(autouse=True)
    def _opened(self, one: Editor) -> None:
        one.open("completion.plan", self.TEXT)

    def labels(self, one: Editor, mark: str) -> list[str]:
        items = one.mark("completion", "completion.plan", mark)
        return [item["label"] for item in sorted(items, key=lambda item: item["sortText"])]

    def test_actions_with_blanks_to_fill_in(self, one: Editor):
        found = one.mark("completion", "completion.plan", "two = FIND|")
        items = {item["label"]: item for item in found}
        named = ((name, load_library().get(name)) for name in load_library().every_name())
        listed = [name for name, action in named if action and "unlisted" not in action.traits]
        assert set(items) == {*listed, "FIND_TRUST"}
        item = items["FIND_RELATION"]
        assert item["textEdit"]["newText"] == "FIND_RELATION(CTX, ${1:X}, ${2:Y})$0"
        assert item["insertTextFormat"] == 2
        assert covered(self.TEXT, item["textEdit"]["range"]) == "FIND"
        assert "State what X and Y are" in item["documentation"]["value"]
        assert item["detail"] == "FIND_RELATION(CTX, X, Y) -> text"
        assert items["FIND_RELATIONSHIP"]["detail"] == "another name of FIND_RELATION"
        assert "Declared by this plan." in items["FIND_TRUST"]["documentation"]["value"]

    def test_only_the_name_where_the_call_is_there(self, one: Editor):
        items = one.mark("completion", "completion.plan", "six = FIND_T|(")
        item = next(item for item in items if item["label"] == "FIND_TRUST")
        assert item["textEdit"]["newText"] == "FIND_TRUST"
        assert covered(self.TEXT, item["textEdit"]["range"]) == "FIND_T"
        assert item.get("insertTextFormat") is None

    def test_variables_above_and_modes(self, one: Editor):
        modes = ["each", "where", "each values", "where values", "evidence"]
        found = self.labels(one, "three = FIND_RELATION(CTX, r|")
        assert found == ["two", "half", "ro", "CTX", *modes]
        assert self.labels(one, '"the {r|') == ["three", "two", "half", "ro", *modes]
        assert "four" in self.labels(one, "CTX, each r|")
        assert not set(modes) & set(self.labels(one, "CTX, each r|"))
        assert "later" in self.labels(one, "return ro, l|")
        assert "each" not in self.labels(one, "return ro, l|")

    def test_a_name_on_a_line_of_its_own_takes_no_line_break_away(self, one: Editor):
        text = '1. ro = FIND_CHARACTER(CTX, "Ro")\n2. mara = FIND_RELATION(CTX,\n, "Mara")\n'
        one.open("wrapped.plan", text)
        items = one.mark("completion", "wrapped.plan", '|, "Mara"')
        assert "ro" in [item["label"] for item in items]
        assert {covered(text, item["textEdit"]["range"]) for item in items} == {""}

    def test_nothing_in_words(self, one: Editor):
        for mark in (": some wo|rds", "Identify w|ho", "8. lat|er", '(CTX, "x|") : some'):
            assert self.labels(one, mark) == []
        assert "pairs" in self.labels(one, "-> num|ber")

    def test_a_library(self, one: Editor):
        text = LIBRARY.replace("{A}", "{").replace("CONCAT(a, ", "CONCAT(")
        one.open("completion.actions", text.replace("-> list", "-> "))

        def labels(mark: str) -> list[str]:
            return [item["label"] for item in one.mark("completion", "completion.actions", mark)]

        assert labels("the scent of {|")[:2] == ["B", "A"]
        assert labels('CONCAT(|"{X}")')[:2] == ["a", "X"]
        assert labels('"{|X}")')[:2] == ["a", "X"]
        assert "FIND_BOTH" in labels("1. a = FIND_|SMELL")
        assert labels("-> |") == ["any", "text", "number", "bool", "list", "pairs"]
        assert labels("X: te|xt")[0] == "any"
        assert labels("Find b|oth") == []


class TestNames:
    @pytest.fixture(autouse=True)
    def _opened(self, one: Editor) -> None:
        assert one.open("names.plan", PLAN) == []

    def test_the_definition_of_a_variable(self, one: Editor):
        for mark in ("CTX, r|o, ", "mother of {r|o}", "[r|o,", "|ro = "):
            (found,) = one.mark("definition", "names.plan", mark)
            assert found["uri"] == one.uri("names.plan")
            assert offset_of(PLAN, found["range"]["start"]) == PLAN.index("ro = ")
            assert covered(PLAN, found["range"]) == "ro"
        (found,) = one.mark("definition", "names.plan", "return t|ie")
        assert offset_of(PLAN, found["range"]["start"]) == PLAN.index("tie = ")

    def test_the_definition_of_an_action(self, one: Editor):
        found = one.mark("definition", "names.plan", "ages = FIND_TR|UST")
        assert offset_of(PLAN, found["range"]["start"]) == PLAN.index("FIND_TRUST")
        found = one.mark("definition", "names.plan", "tie = FIND_REL|ATION")
        file = ROOT / "actions" / "quality.actions"
        assert found["uri"] == file.resolve().as_uri()
        line = file.read_text(encoding="utf-8").split("\n")[found["range"]["start"]["line"]]
        assert line.startswith("FIND_RELATION(CTX, X, Y)")

    def test_the_uses_of_a_variable(self, one: Editor):
        def places(declared: bool) -> list[int]:
            context = {"includeDeclaration": declared}
            found = one.mark("references", "names.plan", "CTX, r|o, ", context=context)
            assert all(covered(PLAN, one["range"]) == "ro" for one in found)
            return [offset_of(PLAN, one["range"]["start"]) for one in found]

        marks = ("ro = ", "CTX, ro, ", "of {ro}", "near {ro}", "[ro,")
        expected = [PLAN.index(mark) + mark.index("ro") for mark in marks]
        assert places(True) == expected
        assert places(False) == expected[1:]

    def test_the_calls_of_an_action(self, one: Editor):
        context = {"includeDeclaration": False}
        one.open("caller.plan", '1. a = FIND_RELATIONSHIP(CTX, "x", "y") : an alias\n')
        found = one.mark("references", "names.plan", "tie = FIND_REL|ATION", context=context)
        assert {place["uri"] for place in found} >= {one.uri("names.plan"), one.uri("caller.plan")}
        own = one.mark("references", "names.plan", "ages = FIND_TR|UST", context=context)
        assert [place["uri"] for place in own] == [one.uri("names.plan")]
        one.close("caller.plan")

    def test_the_outline(self, one: Editor):
        found = one.about("documentSymbol", "names.plan")
        assert [(symbol["name"], symbol["kind"]) for symbol in found] == [
            ("FIND_TRUST", 12), ("ro", 13), ("tie", 13), ("all", 13), ("ages", 13),
        ]  # fmt: skip
        assert found[1]["detail"] == 'FIND_CHARACTER(CTX, "Ro 😀")'
        assert covered(PLAN, found[1]["selectionRange"]) == "ro"
        assert covered(PLAN, found[2]["range"]).endswith("Find how the two stand 😀")

    def test_the_outline_of_a_library(self, one: Editor):
        one.open("outline.actions", LIBRARY)
        found = one.about("documentSymbol", "outline.actions")
        assert [symbol["name"] for symbol in found] == ["FIND_SMELL", "FIND_BOTH"]
        assert covered(LIBRARY, found[0]["range"]).endswith('{A}")')
        assert covered(LIBRARY, found[1]["range"]).endswith('"{X}")')
        place = one.mark("definition", "outline.actions", "a = FIND_SM|ELL")
        assert covered(LIBRARY, place["range"]) == "FIND_SMELL"


class TestRename:
    def rename(self, one: Editor, name: str, mark: str, new: str) -> str:
        edit = one.mark("rename", name, mark, newName=new)
        return applied(one.texts[name][1], edits_of(one, edit, name))

    @pytest.mark.parametrize(("mark", "old", "new", "places"), [
        *((mark, "ro", "größe", ["ro = ", "CTX, ro,", "{ro}", "[ro,"])
          for mark in ("|ro = ", "CTX, r|o, ", "of {r|o}", "[ro|,")),
        ("3. a|ll", "all", "people", ["3. all", "each all,"]),
        ("return t|ie", "tie", "bond", ["2. tie", "{tie}", "return tie"]),
        ("- FIND_TR|UST", "FIND_TRUST", "FIND_FAITH", ["FIND_TRUST"]),
    ])  # fmt: skip
    def test_a_name_everywhere(self, one: Editor, mark: str, old: str, new: str, places: list[str]):
        one.open("rename.plan", PLAN)
        prepared = one.mark("prepareRename", "rename.plan", mark)
        assert prepared["placeholder"] == old
        assert covered(PLAN, prepared["range"]) == old
        expected = PLAN
        for shown in places:
            expected = expected.replace(shown, shown.replace(old, new))
        after = self.rename(one, "rename.plan", mark, new)
        assert after == expected
        assert one.rewrite("rename.plan", after) == []

    def test_names_as_models_write_them(self, one: Editor):
        text = (
            '1. $my\\_x = FIND_EVENT(CTX, "a")\n2. b = FIND_EVENT(CTX, "{ each my_x }") : $my_x\n'
        )
        one.open("rename-odd.plan", text)
        after = self.rename(one, "rename-odd.plan", "{ each my|_x", "y")
        assert after == text.replace("$my\\_x", "y").replace("each my_x", "each y")

    @pytest.mark.parametrize(
        ("mark", "new", "said"),
        [
            ("CTX, r|o, ", "a b", "no name"),
            ("CTX, r|o, ", "1a", "no name"),
            ("CTX, r|o, ", "", "no name"),
            ("CTX, r|o, ", 'x", "', "no name"),
            ("CTX, r|o, ", "tie", "taken"),
            ("CTX, r|o, ", "True", "word of the language"),
            ("CTX, r|o, ", "ctx", "word of the language"),
            ("CTX, r|o, ", "return", "word of the language"),
            ("- FIND_TR|UST", "FIND_ALL", "taken"),
            ("- FIND_TR|UST", "FIND_DIALOGUE", "an action already"),
            ("tie = FIND_REL|ATION", "FIND_X", "an action of quality.actions"),
            ("FIND_ALL(CT|X", "doc", "CTX is the document"),
        ],
    )
    def test_refusals(self, one: Editor, mark: str, new: str, said: str):
        one.open("refused.plan", PLAN)
        with pytest.raises(RefusedError, match=said) as error:
            one.mark("rename", "refused.plan", mark, newName=new)
        assert error.value.code == REFUSED
        assert "\n" not in str(error.value)

    def test_a_line_that_cannot_be_read_is_mended_first(self, one: Editor):
        one.open("broken.plan", f"{PLAN}5. x = CONCAT(ro\n6. y = CONCAT(tie)\n")
        with pytest.raises(RefusedError, match=r"Line 11 cannot be read"):
            one.mark("rename", "broken.plan", "CTX, r|o, ", newName="who")
        with pytest.raises(RefusedError, match=r"Line 11 cannot be read"):
            one.mark("rename", "broken.plan", "6. |y", newName="x")
        assert one.mark("rename", "broken.plan", "6. |y", newName="z")

    def test_a_plan_that_would_mean_something_else(self, one: Editor):
        text = (
            '1. a = FIND_ALL(CTX, "x")\n'
            "2. b = FIND_EVENT(CTX, each values a)\n"
            "3. c = FIND_EVENT(CTX, each a)\n"
        )
        one.open("means.plan", text)
        after = self.rename(one, "means.plan", "3. |c", "values")
        assert "3. values = " in after
        with pytest.raises(RefusedError):
            one.mark("rename", "means.plan", "3. |c", newName="each a")

    def test_a_library_refuses(self, one: Editor):
        one.open("rename.actions", LIBRARY)
        with pytest.raises(RefusedError, match="Only names of a plan"):
            one.mark("rename", "rename.actions", "|FIND_BOTH", newName="X")

        # Nothing is renamed where no name is.
        one.open("nothing.plan", PLAN)
        assert one.mark("prepareRename", "nothing.plan", "Identify w|ho") is None
        assert one.mark("rename", "nothing.plan", "Identify w|ho", newName="x") is None


class TestFormatting:
    def formatted(self, one: Editor, name: str) -> str:
        return applied(one.texts[name][1], one.format(name))

    @pytest.mark.parametrize("ending", ["\n", "\r\n"])
    def test_as_pearl_fmt(self, one: Editor, ending: str):
        text = '# 😀\na=FIND_EVENT( CTX,"x 😀" ): y\n\n\nb = CONCAT(a,a)\nreturn b'
        expected = format_plan(Source("x", text))
        name = f"format-{len(ending)}.plan"
        one.open(name, text.replace("\n", ending))
        after = self.formatted(one, name)
        assert after == expected.replace("\n", ending)
        one.rewrite(name, after)
        assert self.formatted(one, name) == after

    def test_only_lines_that_differ_are_changed(self, one: Editor):
        text = PLAN.replace("3. all = ", "3. all=")
        one.open("small.plan", text)
        (edit,) = one.format("small.plan")
        assert covered(text, edit["range"]).startswith("3. all=")
        assert applied(text, [edit]) == PLAN

    def test_a_library(self, one: Editor):
        text = LIBRARY.replace("X: text) ->", "X:text)->")
        one.open("format.actions", text)
        assert self.formatted(one, "format.actions") == format_library(Source("x", text))

    def test_a_line_that_cannot_be_read(self, one: Editor):
        one.open("unformatted.plan", f"{PLAN}x = CONCAT(ro\n")
        with pytest.raises(RefusedError, match="unformatted.plan:11 cannot be read") as error:
            self.formatted(one, "unformatted.plan")
        assert error.value.code == REFUSED
        one.open("blank.plan", "\n\n")
        assert self.formatted(one, "blank.plan") == "\n\n"


class TestLibraries:
    PLAN = '1. a = FIND_SMELL(CTX, "x") : y\n'

    @pytest.fixture
    def project(self, one: Editor, request: pytest.FixtureRequest) -> Editor:
        """The server, in a project of its own."""
        folder = one.folder / re.sub(r"\W+", "-", request.node.name)
        (folder / "plans").mkdir(parents=True)
        (folder / "own.actions").write_text(LIBRARY, encoding="utf-8")
        self.settings(folder, 'library = ["own.actions"]')
        return one.inside(folder)

    def settings(self, folder: Path, text: str) -> None:
        (folder / "pyproject.toml").write_text(f"[tool.pearl]\n{text}\n", encoding="utf-8")

    def test_the_projects_settings_count(self, project: Editor):
        self.settings(project.folder, 'library = ["own.actions"]\nignore = ["PRL4"]')
        assert project.open("plans/a.plan", self.PLAN) == []
        assert codes(project.rewrite("plans/a.plan", self.PLAN.replace("SMELL", "EVENT"))) == [
            "PRL201"
        ]
        assert project.rewrite("plans/a.plan", "a = FIND_ALLL(CTX)  # noqa\n") == []
        found = project.mark("definition", "plans/a.plan", "a = FIND_|ALLL")
        assert found is None
        project.rewrite("plans/a.plan", self.PLAN)
        found = project.mark("definition", "plans/a.plan", "a = FIND_|SMELL")
        assert found["uri"] == project.uri("own.actions")
        assert found["range"]["start"] == {"line": 1, "character": 0}

    def test_a_library_s_plans_may_call_what_the_project_has(self, project: Editor):
        self.settings(project.folder, 'library = ["own.actions"]')
        look = 'LOOK(CTX) : Look at CTX.\n  plan:\n    1. a = FIND_SMELL(CTX, "bread")\n'
        assert project.open("look.actions", look) == []
        other = project.rewrite("look.actions", look.replace("SMELL", "TASTE"))
        assert codes(other) == ["PRL201"]

    def test_a_library_counts_as_it_stands_unsaved(self, project: Editor):
        project.open("plans/a.plan", self.PLAN)
        project.open("plans/b.plan", self.PLAN.replace("SMELL", "TASTE"))
        project.open("own.actions", LIBRARY)
        self.told(project, "plans/a.plan", "plans/b.plan")
        project.change(
            "own.actions", {"text": LIBRARY.replace("FIND_SMELL(CTX", "FIND_TASTE(CTX, Z")}
        )
        told = self.told(project, "plans/a.plan", "plans/b.plan")
        assert codes(told["plans/a.plan"]) == ["PRL201"]
        assert codes(told["plans/b.plan"]) == ["PRL203"]
        found = project.mark("definition", "plans/b.plan", "a = FIND_|TASTE")
        assert found["uri"] == project.uri("own.actions")
        project.close("own.actions")
        told = self.told(project, "plans/a.plan", "plans/b.plan")
        assert codes(told["plans/a.plan"]) == []
        assert codes(told["plans/b.plan"]) == ["PRL201"]

    def test_files_that_change_on_the_disk(self, project: Editor):
        assert project.open("plans/a.plan", self.PLAN) == []
        self.settings(project.folder, 'library = ["core"]')
        change = {"uri": project.uri("pyproject.toml"), "type": 2}
        project.tell("workspace/didChangeWatchedFiles", {"changes": [change]})
        assert codes(self.told(project, "plans/a.plan")["plans/a.plan"]) == ["PRL201"]
        (project.folder / "own.actions").write_text(
            LIBRARY.replace("FIND_SMELL(CTX", "FIND_SMELL(CTX, Z"), encoding="utf-8"
        )
        self.settings(project.folder, 'library = ["own.actions"]')
        project.tell("workspace/didChangeWatchedFiles", {"changes": [change]})
        assert codes(self.told(project, "plans/a.plan")["plans/a.plan"]) == ["PRL203"]

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ('library = ["gone.actions"]', "gone.actions does not exist"),
            ("library = 5", "library in [tool.pearl] is a list of texts"),
            ('ignore = ["XYZ"]', "No rule's code starts with XYZ"),
            ("library = [", "is not TOML"),
            ('library = ["empty.actions"]', "empty.actions holds no action"),
        ],
    )
    def test_settings_that_cannot_be_read_are_said(self, project: Editor, settings: str, said: str):
        (project.folder / "empty.actions").write_text("# nothing yet\n", encoding="utf-8")
        self.settings(project.folder, settings)
        found = project.open("plans/a.plan", f"{self.PLAN}2. b = X(CTX\n")
        assert said in found[0]["message"]
        assert found[0]["range"]["start"] == {"line": 0, "character": 0}
        assert [one.get("code", "") for one in found[1:]] == ["PRL106"]

    def test_the_command_line_overrides(self, project: Editor):
        self.settings(project.folder, 'library = ["gone.actions"]')
        with editor(project.folder, "--library", "own.actions") as one:
            assert one.open("plans/a.plan", self.PLAN) == []
            named = one.rewrite("plans/a.plan", '# library: letters\na = SPLIT("a b", " ")\n')
            assert "PRL201" in codes(named)

    def test_a_plan_names_its_library(self, project: Editor):
        self.settings(project.folder, 'library = ["own.actions"]')
        text = '# library: letters\nquestion: Which?\n\n1. a = SPLIT("a b", " ")\n'
        assert project.open("plans/a.plan", text) == []
        assert "PRL201" in codes(project.rewrite("plans/a.plan", text.replace("letters", "gone")))

    def test_two_projects_at_once(self, project: Editor):
        other = project.folder / "other"
        other.mkdir()
        self.settings(other, 'library = ["core"]')
        assert project.open("plans/a.plan", self.PLAN) == []
        assert codes(project.open("other/a.plan", self.PLAN)) == ["PRL201"]

    def told(self, one: Editor, *names: str) -> dict[str, list[dict[str, Any]]]:
        """What is said next about each of some documents."""
        found: dict[str, list[dict[str, Any]]] = {}
        while set(found) < set(names):
            while not one.published:
                one.next()
            said = one.published.pop(0)
            found.update({n: said["diagnostics"] for n in names if one.uri(n) == said["uri"]})
        return found


class TestAnyText:
    """No text and no place in it makes the server fail."""

    REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
        ("hover", {}),
        ("definition", {}),
        ("completion", {}),
        ("prepareRename", {}),
        ("references", {"context": {"includeDeclaration": True}}),
        ("rename", {"newName": "x_y"}),
    )

    ODD = (*'("{})=😀\r\n\ud800\x00\u2028', " each ", "  plan:\n")

    def texts(self) -> Iterator[tuple[str, str]]:
        chance = random.Random(11)
        cases = [load(path).text for path in FILES]
        for at, text in enumerate(chance.sample(cases, 2)):
            yield f"case-{at}.plan", text
            yield f"case-{at}.actions", text
        for at in range(4):
            words = list(chance.choice((PLAN, LIBRARY, chance.choice(cases))))
            for _ in range(chance.randint(1, 30)):
                where = chance.randrange(len(words) + 1)
                words[where:where] = chance.choice(self.ODD)
            yield f"cut-{at}.{chance.choice(('plan', 'actions'))}", "".join(words)
        for at, text in enumerate(("(", '"', "a = F(", "{", "\n")):
            yield f"long-{at}.{('plan', 'actions')[at % 2]}", text * 100

    def test_every_request_is_answered(self, one: Editor):
        chance = random.Random(5)
        answered = 0
        for name, text in self.texts():
            one.open(name, text)
            actions(one, name)
            answered += self.asked(one.format, name)
            answered += self.asked(one.about, "documentSymbol", name)
            for offset in chance.choices(range(len(text) + 1), k=2):
                for method, more in self.REQUESTS:
                    more["position"] = place(text, offset)
                    answered += self.asked(one.about, method, name, **more)
            one.close(name)
        assert answered > 170
        assert one.process.poll() is None

    def asked(self, ask: Callable[..., Any], *words: str, **more: Any) -> int:
        """1 for an answer, or for one line that refuses."""
        try:
            ask(*words, **more)
        except RefusedError as error:
            if error.code != REFUSED:
                raise
        return 1


def test_libraries_are_gathered_for_one_check_at_a_time():
    """Else no request would be answered until they are for every open plan, of which there may be
    thousands."""
    gathered, published = [], []

    def settings(_folder: Path, source: Source) -> ProjectSettings:
        gathered.append(source.name)
        return ProjectSettings()

    def publish(found: types.PublishDiagnosticsParams) -> None:
        published.append(found.uri)
        assert len(gathered) - len(published) <= 1

    async def change() -> None:
        session = LanguageSession(settings)
        checks = PendingChecks(session, publish)
        for number in range(20):
            item = types.TextDocumentItem(f"file:///x/p{number}.plan", "", 1, "a = F(CTX)")
            opened = open_document(item, "utf-16")
            assert opened
            session.documents[opened.uri] = opened
        checks.every_plan()
        await asyncio.gather(*checks._due.values())
        checks.close()

    asyncio.run(change())
    assert sorted(published) == sorted(f"file:///x/{name}" for name in gathered)
    assert len(gathered) == 20
