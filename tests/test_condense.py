"""Condensing action libraries: metadata, likeness, merging, model rounds, review."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pearl.lang.ast import Action, Literal, Param, Ref, Replaced, Template, refs
from pearl.lang.definitions import params_of, phrase, read_action, split_definition, widen
from pearl.lang.library import Library, load_library, parse_library
from pearl.lang.printer import print_arg, print_library
from pearl.mining.condense import GENERAL, Condensed, condense
from pearl.mining.condense_rounds import condense_with, read_reply, shards
from pearl.models.base import ModelError
from pearl.prompts.render import render
from pearl.runtime.context import Context
from pearl.session import open_session
from tests.runs import runs
from tests.scripted_models import Scripted
from tests.shell import at_terminal, call, one_line

CTX = Ref("CTX")


def actions(text: str) -> tuple[Action, ...]:
    parsed = parse_library(text)
    assert not parsed.broken
    return parsed.actions


def new_names(condensed: Condensed) -> dict[str, str]:
    return {one.old.name: one.new for one in condensed.mapping}


def sound(condensed: Condensed, before: tuple[Action, ...]) -> None:
    """What must hold of every condensed library."""
    names = [action.name for action in condensed.actions]
    assert len(set(names)) == len(names)
    assert [one.old for one in condensed.mapping] == list(before)
    library = {action.name: action for action in condensed.actions}
    for one in condensed.mapping:
        if one.old.name == "CONCAT":
            continue
        new = library[one.new]
        assert len(one.args) == len(new.params)
        used = {ref.name for arg in one.args for ref in refs(arg)}
        assert set(params_of(one.old)) <= used, f"{one.old.name} loses an argument"
        assert used <= {"CTX", *(param.name for param in one.old.params)}
    text = print_library(condensed.actions)
    assert parse_library(text).actions == condensed.actions
    assert not parse_library(text).broken


def without_model(text: str, target: int, **more: Any) -> Condensed:
    """What comes of a library, which is sound."""
    condensed = condense(actions(text), target, **more)
    sound(condensed, actions(text))
    return condensed


REASONS = """\
FIND_MOTIVE(CTX, X) : Find the motive behind X given the input CTX.
FIND_JUSTIFICATION(CTX, X) : Find the justification or rationale for X given the input CTX.
FIND_PAINTINGS(CTX) : Find all the paintings mentioned in the input CTX.
FIND_REASON(CTX, X) : Find the reason for X given the input CTX.
"""


@pytest.mark.parametrize(("target", "told"), [(3, True), (1, False)])
def test_a_name_that_is_given_on_the_way_is_told_where_it_is_kept(target: int, told: bool):
    text = "FIND_DUTY(CTX, X) : Find what X must do\nFIND_DUTY(CTX, X, Y) : Find what X owes to Y\n"
    made = without_model(text + "FIND_RENT(CTX, X) : Find the rent for X\n", target)
    assert ("is now FIND_DUTY_2" in " ".join(note.text for note in made.notes)) is told
    assert ("FIND_DUTY_2" in {action.name for action in made.actions}) is told


class TestMetadata:
    ACTION = Action(
        "FIND_ELEMENT",
        (Param("CTX"), Param("X")),
        doc="Find X in CTX",
        aliases=("FIND_PART",),
        provenance=("17", "a, b", 'say "so"', "{x}", "33 b", "", "\u2028\u00e9"),
        replaces=(
            Replaced("FIND_BEST", ("CTX", "X", "Y"), (CTX, Template((Ref("X"), " of ", Ref("Y"))))),
            Replaced("FIND_THEME", ("CTX",), (CTX, Literal('"theme" = {x}'))),
        ),
    )

    def test_it_is_printed_and_read_back_and_its_canonical_form_stays(self) -> None:
        text = print_library([self.ACTION, self.ACTION])
        assert parse_library(text).actions == (self.ACTION, self.ACTION)
        assert '  replaces: FIND_BEST(CTX, X, Y) = (CTX, "{X} of {Y}")\n' in text
        assert '  provenance: 17, "a, b", "say \\"so\\""' in text
        Path("a.actions").write_text(print_library([self.ACTION]))
        assert call("fmt", "--check", "a.actions").code == 0

    @pytest.mark.parametrize(
        "line",
        [
            "replaces: FIND_A(CTX)",
            "replaces: FIND_A(CTX) = ",
            "replaces: FIND_A(CTX) = (CTX, x",
            "replaces: FIND_A(CTX, X Y) = (CTX, X)",
            'provenance: 1, "a',
        ],
    )
    def test_what_cannot_be_read_is_named_and_costs_no_action(self, line: str) -> None:
        text = f"A(CTX) : Find a\n  {line}\nB(CTX) : Find b\n"
        parsed = parse_library(text)
        assert [action.name for action in parsed.actions] == ["A", "B"]
        (broken,) = parsed.broken
        assert text[broken.span.start : broken.span.end] == line.partition(": ")[2].rstrip()
        assert broken.span.start <= broken.at.start <= broken.span.end + 1

    def test_a_definition_may_speak_of_what_it_replaces(self) -> None:
        parsed = parse_library("A(CTX) : Find what\n  replaces: the old roof\n")
        assert parsed.actions[0].doc == "Find what replaces: the old roof"


class TestDefinitions:
    def test_what_a_definition_finds(self) -> None:
        (action,) = actions("FIND_AIM(CTX, X) # Find and list all the aims or goals of X in CTX.")
        assert read_action(action).heads == ("aims", "goals")
        parts = split_definition(action.doc, params_of(action))
        assert parts == ("Find and list all the ", "aims or goals", " of X in CTX.")

    def test_a_definition_is_widened_and_mentions_each_parameter_as_before(self) -> None:
        motive, justification, _, reason = actions(REASONS)
        assert widen(reason, [motive, justification]) == (
            "Find the reason, motive, justification or rationale for X given the input CTX."
        )

    @pytest.mark.parametrize(
        ("line", "asked"),
        [
            (
                "FIND_FLAW(CTX, X) # Find the greatest flaw of X given the input CTX.",
                "greatest flaw of {X}",
            ),
            (
                "FIND_MISSION(CTX, X, Y) : Find the mission of X given the input CTX.",
                "mission of {X} with regard to {Y}",
            ),
            ("FIND_PLOT(CTX) : Find the plot of CTX.", "plot of the document"),
            (
                "FIND_END(CTX, X) : Tell where X stands when CTX ends.",
                "where {X} stands when the document ends",
            ),
            (
                "FIND_SAID(CTX, X) : Report what CTX says of X, from its start in CTX on.",
                "what the document says of {X}, from its start on",
            ),
            ("PREDICT(CTX, X) : Predict whether X happens", "Predict whether {X} happens"),
            ("FIND_REACTION(CTX, X) #", "reaction of {X}"),
        ],
    )
    def test_what_an_action_asks_for_in_words(self, line: str, asked: str) -> None:
        (action,) = actions(line)
        assert print_arg(phrase(action)) == f'"{asked}"'


class TestCondense:
    def test_like_actions_become_one_that_lists_them(self) -> None:
        condensed = without_model(REASONS, 2)
        kept, paintings = condensed.actions
        assert paintings.name == "FIND_PAINTINGS"
        assert {kept.name, *kept.aliases} == {"FIND_MOTIVE", "FIND_JUSTIFICATION", "FIND_REASON"}
        library = Library((), {action.name: action for action in condensed.actions})
        assert all(library.get(action.name) for action in actions(REASONS))

    def test_the_most_often_proposed_stays_and_all_questions_are_kept(self) -> None:
        text = (
            "FIND_MOTIVE(CTX, X) : Find the motive behind X\n  provenance: 1\n"
            "FIND_REASON(CTX, X) : Find the reason for X\n  provenance: 2, 3, 1\n"
        )
        (kept,) = without_model(text, 1).actions
        assert (kept.name, kept.provenance) == ("FIND_REASON", ("1", "2", "3"))

    @pytest.mark.parametrize(("lines", "printed"), [
        # More parameters are joined as the definition joins them.
        (["FIND_IMPORTANCE(CTX, X) : Find the importance of X in CTX",
          "FIND_IMPORTANCE_FOR(CTX, X, Y) : Find the importance of X for the life of Y in CTX"],
         ['= (CTX, "{X} for the life of {Y}")']),
        # What binds an action to a case goes into its argument.
        (["FIND_TIE(CTX, X, Y) : Find the tie or bond between X and Y given the input CTX",
          "FIND_JOB_TIE(CTX, X, Y) : Find the bond between X and Y in terms of their jobs"],
         ['= (CTX, X, "{Y} in terms of their jobs")']),
        # What nothing is like is asked of a general action.
        (["FIND_PAINTINGS(CTX) : Find all the paintings mentioned in the input CTX.",
          "FIND_INSULT(CTX, X, Y) : Find the greatest insult from X to Y given the input CTX."],
         [f"{GENERAL}(", 'FIND_PAINTINGS(CTX) = (CTX, "paintings mentioned")',
          'FIND_INSULT(CTX, X, Y) = (CTX, "greatest insult from {X} to {Y}")']),
    ])  # fmt: skip
    def test_two_actions_become_one(self, lines: list[str], printed: list[str]) -> None:
        [one] = without_model("\n".join(lines), 1).actions
        assert all(words in print_library([one]) for words in printed)

    def test_types_get_general_actions_of_their_own_or_share_one(self) -> None:
        text = (
            "FIND_HAT(CTX, X) : Find the hat of X\nFIND_CAT(CTX, X) : Find the cat of X\n"
            "LIST_DOGS(CTX, X) -> list : List the dogs of X\n"
            "LIST_BOATS(CTX, X) -> list : List the boats of X\n"
        )
        two = without_model(text, 2)
        assert {(one.name, one.returns) for one in two.actions} == {
            (GENERAL, "text"), (f"{GENERAL}_LIST", "list"),
        }  # fmt: skip
        one = without_model(text, 1)
        assert [action.returns for action in one.actions] == ["any"]

    def test_one_name_with_other_parameters(self) -> None:
        text = (
            "FIND_PET(CTX, X) : Find the pet of X\nFIND_PET(CTX, X, Y) : Find what pet X gave Y\n"
            "FIND_PET(CTX, X) : Find the animal of X\n"
        )
        condensed = without_model(text, 10)
        assert [one.new for one in condensed.mapping] == ["FIND_PET", "FIND_PET_2", "FIND_PET"]
        assert [note.kind for note in condensed.notes] == ["same-name", "same-name"]
        assert "replaces: FIND_PET(CTX, X, Y) = (CTX, X, Y)" in print_library(condensed.actions)

    def test_seeds_keep_their_names_and_builtins_do_not_count(self) -> None:
        text = (
            "CONCAT(S1, S2, ...) : Join\nFIND_EVENT(CTX, X, Y) : Find the event between X and Y\n"
            "COMPREHEND(CTX, X) : Understand X\n"
        )
        condensed = without_model(text, 2, seeds=load_library("core").actions)
        assert [one.name for one in condensed.actions] == ["FIND_EVENT_2", "COMPREHEND"]
        assert [note.kind for note in condensed.notes] == ["builtin", "same-name", "seed"]

    def test_what_no_prompt_carries_out_is_kept_and_calls_what_is_new(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.chdir(tmp_path)
        plan = "Find X in CTX.\n  plan:\n    1. a = FIND_AGE(CTX, X)\n"
        text = (
            f"FIND_OUT(CTX, X) : {plan}FIND_TIE(CTX, X) : Find the tie of X in CTX.\n"
            f"FIND_TIE(CTX, X) : {plan}FIND_AGE(CTX, X) : Find the age of X in CTX.\n"
            "SHIPS(CTX) -> list : List all ships of CTX.\n"
            "MY_SPLIT(X, SEP) -> list : Cut X at each SEP.\n  body: builtin split\n"
        )
        condensed = without_model(text, 1)
        names = [action.name for action in condensed.actions]
        assert names == ["FIND_OUT_2", "FIND_OUT", "FIND_TIE", "MY_SPLIT"]
        assert [note.actions for note in condensed.notes if note.kind == "kept"] == [
            ("FIND_OUT",), ("FIND_TIE",), ("MY_SPLIT",),
        ]  # fmt: skip
        # A person's review finds and leaves them as they are.
        Path("f.actions").write_text(text)
        asked = ("condense", "f.actions", "--target", "1", "--review", "-o", "s.actions")
        assert call(*asked).code == 0
        assert Path("s.actions").read_text() == condensed.text
        review = Path("s.actions.review").read_text()
        accepted = ("condense", "f.actions", "--accept", "s.actions.review", "-o", "t.actions")
        assert call(*accepted).code == 0
        assert Path("t.actions").read_text() == condensed.text
        Path("s.actions.review").write_text(review.replace("accept FIND_AGE", "reject FIND_AGE"))
        assert call(*accepted).code == 0
        rejected = Path("t.actions").read_text()
        assert rejected.count("1. a = FIND_AGE(CTX, X)") == rejected.count("plan:") == 2
        for name in ("s.actions", "t.actions"):
            found = call("lint", name, "--json").json
            assert {one["severity"] for one in found} <= {"warning"}

    def test_a_model_that_an_action_loses_is_said(self) -> None:
        lines = [f"FIND_{noun}(CTX, X) : Find the {noun.lower()} of X" for noun in ("FEE", "FEES")]
        condensed = without_model(f"{lines[0]}\n  model: a\n{lines[1]}\n  model: b\n", 1)
        [only] = condensed.actions
        told = [note.text for note in condensed.notes if note.kind == "model"]
        assert len(told) == (2 if not only.model else 1), told

    def test_what_repeats_a_parameter_is_kept_and_said(self) -> None:
        text = "JOIN_ALL(CTX, X, ...) : Join X\nFIND_A(CTX) : Find the apples\n"
        condensed = without_model(text, 1)
        assert "JOIN_ALL" in new_names(condensed).values()
        assert condensed.notes[-1].kind == "target"

    def test_condensing_again_keeps_every_older_call(self, shared: Path) -> None:
        text = (shared / "pearl_gpt4" / "mined_actions_407.txt").read_text()
        first = condense(actions(text), 80)
        second = condense(first.actions, 30)
        sound(second, first.actions)
        listed = {one.name for action in second.actions for one in action.replaces}
        names = listed | {name for action in second.actions for name in action.aliases}
        names |= {action.name for action in second.actions}
        assert {action.name for action in actions(text)} - names == {"CONCAT"}

    @pytest.mark.parametrize("target", [1, 20, 80, 140, 141, 500])
    def test_a_mined_library_at_any_target(self, shared: Path, target: int) -> None:
        text = (shared / "pearl_gpt4" / "mined_actions_407.txt").read_text()
        condensed = without_model(text, target, seeds=load_library("core").actions)
        assert len(condensed.actions) == min(target, 141)
        library = {action.name: action for action in condensed.actions}
        for one in condensed.mapping:
            if one.new not in (GENERAL, "CONCAT"):
                marks = read_action(one.old).marks
                assert marks <= read_action(library[one.new]).marks, one.old.name

    def test_the_command_reads_every_line_or_names_it(self, shared: Path, tmp_path: Path) -> None:
        text = (shared / "pearl_gpt4" / "mined_actions_407.txt").read_text()
        (tmp_path / "m.txt").write_text(f"{text}\nFIND_BROKEN(CTX, X Y) # Find it\n")
        result = call("condense", "m.txt", "-o", "s.actions", "--target", "80", "--json")
        told = result.json
        assert result.code == 1
        assert (told["lines"], told["read"], told["unreadable"]) == (144, 143, 1)
        assert [one["line"] for one in told["findings"]] == [144]
        assert told["left"] <= 80
        assert len(told["mapping"]) == 143
        small = load_library("s.actions")
        for one in told["mapping"]:
            assert small.get(one["new"])


FOUR = REASONS + "FIND_GIST(CTX) : Find the gist of CTX.\n"


def with_model(
    model: Scripted, text: str, target: int, rounds: int = 4, store: Path | None = None
) -> Condensed:
    """What comes of it, which is sound."""

    async def work() -> Condensed:
        place = str(store) if store else None
        async with open_session(model, {}, "condense", place) as session:
            caller = session.caller()
            return await condense_with(actions(text), target, caller, rounds=rounds)

    made = asyncio.run(work())
    sound(made, actions(text))
    return made


def kinds(rounds: Condensed) -> list[str]:
    return [note.kind for note in rounds.notes]


MENTIONED = """FIND_MENTIONED(CTX, X) : Find what CTX says of X
FIND_NOT_MENTIONED(CTX, X) : Find what CTX does not say of X
FIND_NOT_TOLD(CTX, X) : Find which tale of X is not told in CTX
FIND_TUNE(CTX, X) : Find the tune of X
"""
WHY = "FIND_WHY(CTX, X) : Find why X is done, and on what grounds, in CTX"


class TestRounds:
    def test_a_model_condenses(self) -> None:
        reply = (
            f"Sure, here they are:\n\n```\n- **{WHY}**\n"
            "  - replaces: `FIND_MOTIVE`, FIND_JUSTIFICATION(CTX, X) and FIND_REASON\n"
            "FIND_PAINTINGS(CTX) : Find all the paintings mentioned in CTX\n"
            "FIND_GIST(CTX) : Find the gist of CTX.\n```\nI hope this helps."
        )
        made = with_model(Scripted(lambda _: reply), FOUR, 3)
        assert [one.name for one in made.actions] == [
            "FIND_WHY", "FIND_PAINTINGS", "FIND_GIST",
        ]  # fmt: skip
        aliases = made.actions[0].aliases
        assert aliases == ("FIND_MOTIVE", "FIND_JUSTIFICATION", "FIND_REASON")
        assert (kinds(made), len(made.rounds), made.reports) == ([], 1, ())

    def test_what_is_wrong_with_a_reply_is_reported_and_nothing_is_lost(self) -> None:
        reply = (
            f"{WHY}\n  replaces: FIND_MOTIVE, FIND_REASON, FIND_BOATS\n"
            "FIND_MORE(CTX, X) : Find more of X\n  replaces: FIND_REASON\n"
            "FIND_ODD(CTX, X Y) : Find what is odd\n"
            "FIND_NOTHING(CTX, X) : Find nothing of X\n"
            "FIND_BOTH(CTX, X, Y) : Find both X and Y\n  replaces: FIND_GIST\n"
        )
        made = with_model(Scripted(lambda _: reply), FOUR, 4, rounds=1)
        assert new_names(made) == {
            "FIND_MOTIVE": "FIND_WHY",
            "FIND_REASON": "FIND_WHY",
            "FIND_JUSTIFICATION": "FIND_JUSTIFICATION",
            "FIND_PAINTINGS": "FIND_PAINTINGS",
            "FIND_GIST": "FIND_GIST",
        }
        told = " ".join(note.text for note in made.notes)
        assert "FIND_BOATS is replaced by FIND_WHY, and was not asked about" in told
        assert "FIND_REASON is replaced by FIND_WHY and FIND_MORE: the first counts." in told
        assert "FIND_NOTHING replaces nothing" in told
        assert "FIND_BOTH(CTX, X, Y) has other parameters" in told
        assert "No action of the reply covers FIND_JUSTIFICATION, FIND_PAINTINGS: what" in told
        (report,) = made.reports
        (finding,) = report.diagnostics
        assert (finding.code, report.source.at(finding.span)) == ("PRL118", "Y")

    def test_a_negation_is_not_lost(self) -> None:
        reply = "FIND_SAID(CTX, X) : Find what is said of X\n  replaces: FIND_MENTIONED, "
        model = Scripted(lambda _: f"{reply}FIND_NOT_MENTIONED, FIND_NOT_TOLD")
        made = with_model(model, MENTIONED, 1, rounds=1)
        assert any("negation" in note.text for note in made.notes)
        assert new_names(made)["FIND_NOT_MENTIONED"] == GENERAL

    def test_a_model_is_told_which_merges_were_refused_and_why(self) -> None:
        first = "FIND_SAID(CTX, X) : Find what is said of X\n  replaces: FIND_NOT_TOLD, FIND_TUNE"

        model = Scripted([first, f"{first}, FIND_MENTIONED"])
        made = with_model(model, MENTIONED, 3)
        # The first round brought nothing, and the next was told why.
        assert made.rounds[0].after == 4
        before, after = (request.call for request in model.asked)
        assert before.refused == ()
        reason = (
            "FIND_NOT_TOLD is not replaced by FIND_SAID, as the negation or superlative in it "
            "would be lost: it stays."
        )
        assert after.refused == (reason,)
        assert f"and cannot be:\n- {reason}\n" in render(after)[-1]["content"]
        assert len(made.rounds) == 2

    def test_what_nothing_can_be_put_together_with_is_not_asked_about(self) -> None:
        text = FOUR + (
            "FIND_WORST(CTX, X) : Find the worst of X in CTX\n"
            "LIST_BOATS(CTX) -> list : List the boats in CTX\n"
            "JOIN_ALL(S1, ...) : Join the inputs S1 and so on\n"
        )
        model = Scripted(lambda _: f"{WHY}\n  replaces: FIND_MOTIVE, FIND_REASON")
        with_model(model, text, 6, rounds=1)
        (asked,) = (request.call for request in model.asked)
        assert [one.name for one in asked.actions] == [one.name for one in actions(FOUR)]
        # Six are wanted of eight, and three of the eight are not its to put together.
        assert asked.target == 3

    def test_what_an_older_action_lacks_is_filled_with_a_text(self) -> None:
        reply = (
            f"{WHY}\n  replaces: FIND_MOTIVE, FIND_REASON, FIND_JUSTIFICATION\n"
            '  replaces: FIND_GIST(CTX) = (CTX, "all that is told")\n'
        )
        made = with_model(Scripted(lambda _: reply), FOUR, 2)
        assert 'replaces: FIND_GIST(CTX) = (CTX, "all that is told")' in (
            print_library(made.actions)
        )

    def test_arguments_are_composed_over_rounds(self) -> None:
        first = (
            "FIND_TIE(CTX, X) : Find the tie of X\n"
            '  replaces: FIND_BOND(CTX, X, Y) = (CTX, "{X} and {Y}")\n'
        )
        second = 'FIND_ANY(CTX, X) : Find X\n  replaces: FIND_TIE(CTX, X) = (CTX, "tie of {X}")\n'
        rest = "FIND_SHIP(CTX, X) : Find the ship of X\nFIND_KITE(CTX, X) : Find the kite of X\n"

        replies = [
            f"{first}  replaces: FIND_SHIP\nFIND_KITE(CTX, X) : Find the kite of X",
            f"{second}  replaces: FIND_KITE",
        ]
        text = f"FIND_BOND(CTX, X, Y) : Find the bond of X with Y\n{rest}"
        made = with_model(Scripted(replies), text, 1)
        printed = print_library(made.actions)
        assert 'replaces: FIND_BOND(CTX, X, Y) = (CTX, "tie of {X} and {Y}")' in printed
        assert 'replaces: FIND_SHIP(CTX, X) = (CTX, "tie of {X}")' in printed

    def test_a_round_that_brings_nothing_ends_it_and_the_rest_is_done_without(self) -> None:
        model = Scripted(lambda _: "I cannot do that.")
        made = with_model(model, FOUR, 2)
        assert (len(model.asked), len(made.actions)) == (1, 2)
        texts = [note.text for note in made.notes if note.kind == "round"]
        assert texts == [
            "Round 1 brought nothing: what the model wrote is left out.",
            "The model left 5 actions, not 2: the rest was condensed without it.",
        ]

    def test_a_library_that_is_small_enough_costs_no_call(self) -> None:
        model = Scripted(lambda _: "")
        assert len(with_model(model, FOUR, 5).actions) == 5
        assert model.asked == []

    def test_an_older_name_is_not_given_to_something_else(self) -> None:
        reply = (
            "FIND_GIST(CTX, X) : Find why X is done\n  replaces: FIND_MOTIVE, FIND_REASON\n"
            "FIND_PICTURES(CTX) : Find the pictures\n  replaces: FIND_PAINTINGS, FIND_GIST\n"
        )
        text = FOUR.replace("FIND_GIST(CTX) : Find the gist of CTX", "FIND_GIST(CTX) : Find it")
        made = with_model(Scripted(lambda _: reply), text, 3, rounds=1)
        small = Library((), {one.name: one for one in made.actions})
        gist = small.get("FIND_GIST")
        by_name = new_names(made)
        assert by_name["FIND_GIST"] == "FIND_PICTURES"
        # One call has an argument more than the other, which tells the two apart.
        assert gist
        assert len(gist.params) == 2

    def test_what_was_asked_before_a_failure_is_not_asked_again(self, tmp_path: Path) -> None:
        first, last = (
            f"{WHY}\n  replaces: {those}"
            for those in ("FIND_MOTIVE, FIND_REASON", "FIND_JUSTIFICATION, FIND_WHY")
        )
        model, store = Scripted([first, ModelError("refusal", "No."), last]), tmp_path / "s.db"
        with pytest.raises(ModelError):
            with_model(model, FOUR, 3, store=store)
        made = with_model(model, FOUR, 3, store=store)
        assert len(model.asked) == 3
        assert [one.after for one in made.rounds] == [4, 3]
        assert made.actions[0].name == "FIND_WHY"
        assert with_model(model, FOUR, 3, store=store) == made
        assert len(model.asked) == 3
        assert [run.kind for run in runs(store)] == ["condense"] * 3

    def test_what_is_alike_is_cut_apart_only_where_it_does_not_fit(self) -> None:
        long = "in CTX, and say what comes before it, what follows from it and who takes part " * 2
        told = [f"FIND_REASON_{at}(CTX, X) : Find reason {at} of X {long}" for at in range(3)]
        told += [f"FIND_COLOUR_{at}(CTX, X) : List colour {at} of X {long}" for at in range(3)]
        both = actions("\n".join(told[at % 2 * 3 + at // 2] for at in range(6)))
        for number in range(1, 5):
            parts = shards(both, number, Context(window=900, reply=300))
            kinds = [{action.name[5:11] for action in part} for part in parts]
            assert sorted(kinds, key=min) == [{"COLOUR"}, {"REASON"}]

    def test_like_actions_go_together_and_fit_the_prompt(self, shared: Path) -> None:
        before = actions((shared / "pearl_gpt4" / "mined_actions_81.txt").read_text())
        context = Context(window=3000, reply=1000)
        parts = shards(before, 1, context)
        assert len(parts) > 1
        assert sorted(one.name for part in parts for one in part) == sorted(
            one.name for one in before
        )
        for part in parts:
            assert context.count(print_library(part)) <= 1000
        (together,) = [part for part in parts if any(a.name == "FIND_INCORRECT" for a in part)]
        assert "FIND_FACT_FALSE" in [one.name for one in together]
        assert parts == shards(before, 1, context)
        assert parts != shards(before, 2, context)

    def test_the_offline_reader_writes_the_form_that_it_is_asked_for(self) -> None:
        result_file = Path("s.actions")
        Path("f.actions").write_text(FOUR)
        result = call(
            "condense", "f.actions", "-o", result_file, "--target", "3", "--rounds", "2", "--json"
        )
        assert result.code == 0
        assert result.json["left"] == 3
        assert result.json["rounds"][0]["before"] == 5
        assert result.json["model"] == "offline"
        assert result.json["run"]


@pytest.mark.parametrize(
    ("reply", "names"),
    [
        ("A_B(CTX, X) : Find X (replaces C_D, E_F(CTX, X))", ["C_D", "E_F"]),
        ("1. A_B(CTX, X) : Find X\n   Replaces:\n   - C_D\n   - `E_F(CTX, X)`\n", ["C_D", "E_F"]),
        ("A_B(CTX, X) : Find X\n**Replaces**: C_D; E_F.", ["C_D", "E_F"]),
        ("A_B(CTX, X) : Find X\n  replaces: none", []),
        ("A_B(CTX, X) : Find X\n   over lines\n  aliases: C_D", ["C_D"]),
    ],
)
def test_forms_that_models_write(reply: str, names: list[str]) -> None:
    (proposed,) = read_reply(reply).proposed
    assert proposed.action.name == "A_B"
    assert list(proposed.replaced) == names


def test_mappings_in_replies() -> None:
    reply = 'A(CTX, X) : Find X\n replaces: B(CTX, X, Y) = (CTX, "{X}; {Y}"), C(CTX, X) = (CTX, X)'
    (proposed,) = read_reply(reply).proposed
    both = Template((Ref("X"), "; ", Ref("Y")))
    assert proposed.replaced == {"B": (CTX, both), "C": (CTX, Ref("X"))}


class TestReview:
    @pytest.fixture(autouse=True)
    def _library(self, tmp_path: Path) -> None:
        (tmp_path / "f.actions").write_text(FOUR)

    def answer(self, keys: str) -> tuple[int, str]:
        """Run the review on a real terminal and type the answers."""
        words = ("condense", "f.actions", "-o", "s.actions", "--target", "3", "--review")
        return at_terminal(*words, prompt=b"q quit: ", keys=keys)

    def test_each_merge_is_asked_about(self) -> None:
        code, shown = self.answer("ny")
        assert code == 0
        assert "1 of 2" in shown
        assert "2 of 2" in shown
        assert re.search(r"was  Find the \w+", shown)
        assert re.search(r"now  Find the .* or ", shown)
        small = parse_library(Path("s.actions").read_text()).actions
        assert len(small) == 4
        rejected = re.search(r"(FIND_\w+)\(CTX, X\) becomes", shown)
        assert rejected
        stays = next(one for one in small if one.name == rejected[1])
        assert stays in actions(FOUR)
        # The definition no longer speaks of what was rejected.
        kept = next(one for one in small if one.aliases)
        assert not set(read_action(stays).heads) & set(read_action(kept).heads)

    def test_all_and_quit(self) -> None:
        code, shown = self.answer("a")
        assert (code, shown.count("q quit: ")) == (0, 1)
        assert len(parse_library(Path("s.actions").read_text()).actions) == 3
        Path("s.actions").unlink()
        code, shown = self.answer("xq")
        assert code == 130
        assert "nothing is written" in shown
        assert not Path("s.actions").exists()

    def test_a_file_to_edit_where_there_is_no_terminal(self) -> None:
        result = call("condense", "f.actions", "-o", "s.actions", "--target", "3", "--review")
        assert result.code == 0
        review = Path("s.actions.review").read_text()
        assert review.count("\naccept ") == 2
        whole = Path("s.actions").read_text()
        back = call("condense", "f.actions", "--accept", "s.actions.review", "-o", "t.actions")
        assert back.code == 0
        assert Path("t.actions").read_text() == whole
        Path("s.actions.review").write_text(review.replace("\naccept ", "\nreject "))
        call("condense", "f.actions", "--accept", "s.actions.review", "-o", "t.actions")
        assert set(parse_library(Path("t.actions").read_text()).actions) == set(actions(FOUR))

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("maybe FIND_MOTIVE(CTX, X) = FIND_REASON(CTX, X)", "neither accept nor reject"),
            ("accept FIND_MOTIVE", "change only its first word"),
            ("accept FIND_BOATS(CTX) = FIND_GIST(CTX)", "which the library does not have"),
            ("accept FIND_MOTIVE(CTX, X) = FIND_BOATS(CTX, X)", "no line with new for"),
            ("new FIND(", "is no action"),
        ],
    )
    def test_a_line_that_was_spoilt_is_named(self, line: str, said: str) -> None:
        Path("r.review").write_text(f"{line}\n")
        result = call("condense", "f.actions", "--accept", "r.review", "-o", "t.actions")
        assert said in one_line(result, 2)
        assert not Path("t.actions").exists()


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    (tmp_path / "f.actions").write_text(FOUR)
    result = call("condense", "f.actions", "-o", "s.actions", "--target", "3")
    assert result.code == 0
    assert result.out == ""
    assert result.told[:2] == [
        "5 lines of f.actions: 5 read.",
        "5 actions condensed to 3 (2 merges; 3 wanted at most).",
    ]
    printed = call("condense", "f.actions", "--target", "3")
    assert printed.out == Path("s.actions").read_text()
    assert json.loads(call("condense", "f.actions", "--json").out)["left"] == 5
