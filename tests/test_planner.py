"""The planning loop, with a scripted model: every reply a model may give, every limit."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import pearl
from pearl.answer import read_option
from pearl.evaluate.evaluation_job import read_labels
from pearl.lang.ast import Plan
from pearl.lang.errors import InputError, LinesError
from pearl.lang.library import builtins, load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.lang.values import decode
from pearl.lint.checker import check
from pearl.mining.condense_rounds import read_reply
from pearl.mining.mine import read_proposals
from pearl.models.base import ModelError, Reply, Request
from pearl.models.tokens import count_tokens
from pearl.prompts.calls import ContinuePlan, CorrectPlan, Demonstration, ExecuteStep, WritePlan
from pearl.prompts.render import render
from pearl.runtime.evidence import evidence
from pearl.runtime.planner_prompt import likely_actions, narrowed
from pearl.strategies.pearl import choose_demonstrations, load_demonstrations
from pearl.strategies.preparation import prepare
from tests.conftest import ROOT, library_of
from tests.runs import entries
from tests.scripted_models import Scripted
from tests.server import Serve
from tests.shell import STORY, call, one_line

GOOD = '1. a = FIND_REASON(CTX, "Mara leaves") : Find why she leaves'
WRONG = '1. a = FIND_REASONS_OF(CTX, "Mara leaves") : Find why she leaves'
DOCUMENT = Source("story.txt", "Mara left. The secret sentence stays here.")


class Planner(Scripted):
    """Gives plans in order, then the last one again; answers steps with the step's name."""

    def __init__(self, *replies: str | Reply | ModelError) -> None:
        self.replies = replies

    @property
    def plans(self) -> list[Request]:
        planning = WritePlan | ContinuePlan | CorrectPlan
        return [one for one in self.asked if isinstance(one.call, planning)]

    def says(self, call: Any) -> str | Reply | ModelError:
        if isinstance(call, ExecuteStep):
            return f"output of {call.step.name}"
        return self.replies[min(len(self.plans), len(self.replies)) - 1]


def ask(model: Planner, store: Path | None = None) -> pearl.Answer:
    kept = str(store) if store else None
    return asyncio.run(pearl.ask(DOCUMENT, "Why does Mara leave?", model=model, store=kept))


@pytest.mark.parametrize(
    "reply",
    [
        f"<think>\n1. a = FIND_FATE(CTX) : no, wrong\n</think>\n\n{GOOD}",
        f"Here is the plan:\n\n```\n{GOOD}\n```\n\nIt first finds the reason.",
        f"## Plan\n\nNew actions:\n- None\n\n**{GOOD}**",
        f"- {GOOD[3:]}\n",
        f"Step 1: {GOOD[3:]}",
        GOOD.replace('"', "”").replace("”", "“", 1),
        GOOD.replace("\n", "\r\n") + "\r\n",
    ],
)
def test_the_plan_inside_a_reply_is_found(reply: str):
    model = Planner(reply)
    answer = ask(model)
    assert len(model.plans) == 1
    assert answer.text == "output of a"
    assert answer.plan == f"question: Why does Mara leave?\n\n{GOOD}\n"
    assert not answer.fallback


def test_the_planner_never_sees_the_document():
    model = Planner(WRONG, GOOD)
    ask(model)
    for request in model.plans:
        assert "secret sentence" not in "".join(one["content"] for one in request.messages)
    step = next(one for one in model.asked if isinstance(one.call, ExecuteStep))
    assert "secret sentence" in step.messages[-1]["content"]


def test_what_was_set_aside_is_in_the_journal(tmp_path: Path):
    ask(Planner(f"<think>hm, Mara</think>\nFirst of all, this.\n\n{GOOD}"), tmp_path / "s.db")
    found = {entry.path: entry.value for entry in entries(tmp_path / "s.db")}
    aside = "\n".join(found["plan/1/aside"])
    assert "hm, Mara" in aside
    assert "First of all, this." in aside
    assert found["plan/1"].endswith(GOOD)


def test_a_rejected_plan_is_corrected_with_its_own_findings_only():
    model = Planner(WRONG, f"{WRONG}\n2. b = CONCAT(nothing) : all", GOOD)
    answer = ask(model)
    first, second, third = model.plans
    assert isinstance(first.call, WritePlan)
    assert second.messages[:2] == first.messages
    assert second.messages[2] == {"role": "assistant", "content": WRONG}
    complaint = second.messages[3]["content"]
    assert complaint.startswith("The checker rejected your plan.")
    assert "[PRL201] step 1: FIND_REASONS_OF does not exist." in complaint
    assert "FIND_REASON(CTX, X)" in complaint
    assert "Wrong:" not in complaint
    again = third.messages[3]["content"]
    assert "[PRL202] step 2: nothing is not defined" in again
    assert "An example of PRL201. Wrong:" in again
    assert len(third.messages) == 4
    assert answer.text == "output of a"


def test_after_seven_corrections_the_question_is_asked_directly(tmp_path: Path):
    wrong = [f"1. a = FIND_REASON(CTX, why_{at})" for at in range(1, 9)]
    model = Planner(*wrong)
    answer = ask(model, tmp_path / "s.db")
    assert len(model.plans) == 8
    assert answer.fallback
    assert answer.text == "output of answer"
    step = model.asked[-1]
    assert isinstance(step.call, ExecuteStep)
    assert step.call.arguments == (("X", "Why does Mara leave?"),)
    found = entries(tmp_path / "s.db")
    tries = [entry for entry in found if entry.kind == "call" and "plan/" in entry.path]
    assert [entry.value for entry in tries] == wrong
    paths = [entry.path for entry in found]
    rejected = [path for path in paths if path.endswith("/rejected")]
    assert rejected == [f"plan/{attempt}/rejected" for attempt in range(1, 9)]
    assert "plan/fallback" in paths


MADE_UP = [f'1. a = FIND_NO_{name}(CTX, "x")' for name in "ABCDE"]
CLOSER = f"{MADE_UP[1]}\n2. b = CONCAT(a)"
CUT = [Reply(f'1. a = FIND_EVENT(CTX, "{at}") : Find', complete=False) for at in range(9)]


@pytest.mark.parametrize(("replies", "tries", "why"), [
    ((MADE_UP[0], CLOSER, "No.", *MADE_UP[2:]), 6, "call only actions that do not exist."),
    (("I cannot plan.", WRONG, "No.", "Sorry.", "I do not write plans."), 5, "have no step."),
    (CUT, 3, "are cut at their token limit."),
    # Numbered prose has no step either.
    *(([prose.format(at) for at in range(8)], 3, "have no step.") for prose in (
        "1. Read the document {}.\n2. Find the pump.\n3. Say why.", "Step {}: FIND_EVENT the pump",
        "1. x = find the pump {} : note",
    )),
])  # fmt: skip
def test_a_model_that_writes_no_plan_is_not_corrected_for_ever(
    tmp_path: Path, replies: Sequence[str | Reply], tries: int, why: str
):
    model = Planner(*replies, GOOD)
    answer = ask(model, tmp_path / "s.db")
    assert (answer.fallback, len(model.plans)) == (True, tries)
    said = {entry.path: entry.value for entry in entries(tmp_path / "s.db")}
    assert said[f"plan/{tries}/stopped"] == f"3 replies in a row {why}"
    assert f"No plan: 3 replies in a row {why}" in answer.notice


def test_a_planner_that_comes_to_its_limit_before_it_says_anything_is_asked_again():
    silent = ModelError("length", "It stopped.")
    model = Planner(silent, GOOD)
    assert not ask(model).fallback
    assert len(model.plans) == 2
    # What it had written before is not lost.
    begun = '1. a = FIND_EVENT(CTX, "x") : Find it\n2. b = FIND_EV'
    model = Planner(Reply(begun, complete=False), silent, '2. b = FIND_EVENT(CTX, "y") : Find it')
    answer = ask(model)
    assert not answer.fallback
    assert '"x"' in answer.plan
    assert '"y"' in answer.plan
    model = Planner(silent)
    assert "No plan: 3 replies in a row have no step." in ask(model).notice
    assert len(model.plans) == 3


def test_a_planner_whose_answers_are_empty_has_no_plan():
    model = Planner(ModelError("empty", "The model sent an empty answer."))
    answer = ask(model)
    assert (answer.fallback, answer.text, len(model.plans)) == (True, "output of answer", 3)
    assert "No plan: The model sent an empty answer. (3 tries)" in answer.notice
    planned = asyncio.run(pearl.write_plan("Why?", model=model))
    [why] = planned.diagnostics
    assert why.message == "There is no step. The model sent an empty answer. (3 tries)"


def test_only_writing_a_plan_says_so_when_none_was_accepted():
    planned = asyncio.run(pearl.write_plan("Why?", model=Planner(WRONG)))
    assert planned.plan is None
    plan = pearl.parse(WRONG).plan
    assert pearl.format(plan) == pearl.format(WRONG) == pearl.fix(plan)
    assert [one.code for one in pearl.check(plan)] == ["PRL201"]
    for takes_text in (pearl.check, pearl.fix, pearl.format):
        with pytest.raises(InputError, match="Planned is no text of a plan"):
            takes_text(planned)
    assert planned.attempts == 3
    assert [one.code for one in planned.diagnostics] == ["PRL201"]


def test_a_reply_that_was_cut_is_corrected_even_where_it_parses():
    model = Planner(Reply(GOOD, complete=False), GOOD)
    assert not ask(model).fallback
    assert "[PRL106]" in model.plans[1].messages[3]["content"]


def test_a_plan_that_was_cut_is_gone_on_with():
    more = '2. b = FIND_EVENT(CTX, "the secret") : Find the secret'
    model = Planner(Reply(f"{GOOD}\n2. b = FIND_EV", complete=False), more)
    answer = ask(model)
    assert answer.plan.count(" = ") == 2 + ("ANSWER_FROM" in answer.plan)
    assert "FIND_EVENT" in answer.plan
    *_, begun, asked = model.plans[1].messages
    assert begun == {"role": "assistant", "content": f"{GOOD}\n"}
    assert "cut here" in asked["content"]
    anew = Planner(Reply(f"{GOOD}\n2. b = FIND_EV", complete=False), f"{GOOD}\n{more}")
    assert ask(anew).plan == answer.plan
    within = Planner(Reply(f"{GOOD}\n{more[:20]}", complete=False), more[20:])
    assert ask(within).plan == answer.plan
    # Behind what is left of a comment the step would be part of it.
    noted = Planner(Reply(f"{GOOD}\n# What she hid: ", complete=False), more)
    assert ask(noted).plan == answer.plan


def test_a_plan_without_end_is_gone_on_with_twice():
    steps = (f"{at}. s{at} = SUMMARIZE(CTX) : x\n{at + 1}. s" for at in (1, 2, 3))
    endless = [Reply(text, complete=False) for text in steps]
    model = Planner(*endless, GOOD)
    assert not ask(model).fallback
    assert len(model.plans) == 4
    asked = model.plans[3].messages[-1]["content"]
    # The last line is cut because the reply is: to end it alone is no help.
    assert asked.count("PRL106") == 1
    assert "Write a shorter plan." in asked


def test_a_plans_own_actions_are_its_own():
    declared = "New actions:\n- FIND_GHOST(CTX, X) : Find the ghost X in CTX\n\n"
    own = f"{declared}{GOOD}\n2. b = FIND_GHOST(CTX, a) : Find it"
    model = Planner(own)
    answer = ask(model)
    assert "FIND_GHOST" in answer.plan
    step = next(one for one in model.asked if one.path == "step/b")
    assert "Find the ghost X in CTX" in step.messages[-1]["content"]
    other = Planner('1. b = FIND_GHOST(CTX, "a") : Find it', GOOD)
    ask(other)
    assert "FIND_GHOST does not exist" in other.plans[1].messages[3]["content"]
    third = Planner(GOOD)
    ask(third)
    assert "FIND_GHOST" not in str(third.plans[0].messages)
    assert "FIND_GHOST" not in load_library().actions
    assert not [one for one in other.plans if "Find the ghost" in str(one.messages)]


def test_a_demonstration_that_filters_goes_on_with_those_that_are_kept():
    def reply(call: ExecuteStep) -> str:
        told = dict(call.arguments)
        match call.action.name:
            case "LIST_ACCOUNTS":
                return '["Ada", "Bo"]'
            case "IS_CONTRADICTED":
                return "yes" if told["X"] == "Bo" else "no"
        return f"{told['Y']} was there."

    [plan] = [text for text in load_demonstrations("", "seed") if "auction" in text.text]
    document = Source("x", "Ada and Bo tell of the auction.")
    answer = pearl.run_sync(plan.text, document, model=Scripted(reply))
    assert answer.text == "Bo: Bo was there."


def test_demonstrations_fit_the_library_and_the_budget():
    sources = load_demonstrations()
    chosen = choose_demonstrations(sources, load_library())
    assert len(chosen) == len(sources) == 5
    assert choose_demonstrations(sources, load_library("core")) == ()
    seed = load_demonstrations("", "seed")
    assert choose_demonstrations(sources, load_library(), seed=seed) == chosen
    # The question of one document is often that of the next.
    again = [Source(f"other/{source.name}", source.text) for source in sources]
    assert choose_demonstrations([*sources, *again], load_library()) == chosen
    few = choose_demonstrations(sources, load_library(), budget=400)
    assert 0 < len(few) < len(chosen)
    assert set(few) < set(chosen)
    assert sum(count_tokens(f"{one.question}\n{one.plan}") for one in few) <= 400


OWN = "FIND_FOO(CTX, X) : Find X in CTX.\n"
OLD_NAMES = """FIND_OUT(CTX, X) : Find X in CTX.
  replaces: FIND_EVENT(CTX, X) = (CTX, "the event {X}")
  replaces: FIND_CHARACTER(CTX, X) = (CTX, "who {X} is")
  replaces: FIND_REASON(CTX, X) = (CTX, "the reason for {X}")
"""


@pytest.mark.parametrize(
    ("libraries", "count"),
    [((), 5), (("core",), 5), (("seed",), 6), (("execute",), 5), ((OWN,), 1),
     (("core", OWN), 5), ((OLD_NAMES,), 2)],
)  # fmt: skip
def test_every_library_gets_demonstrations_that_it_can_run(
    tmp_path: Path, libraries: tuple[str, ...], count: int
):
    own = tmp_path / "own.actions"
    own.write_text(next((one for one in libraries if ":" in one), ""), encoding="utf-8")
    library = load_library(*(str(own) if ":" in one else one for one in libraries))
    prepared = prepare("pearl", "offline", library)
    assert prepared.demonstrated == count
    assert prepared.notice == ""
    for shown in prepared.demonstrations:
        assert not check(parse(f"question: {shown.question}\n\n{shown.plan}"), library)
        # A file's head says for people which library it calls.
        assert "#" not in shown.plan


def test_every_demonstration_that_cannot_be_read_is_named(tmp_path: Path):
    (tmp_path / "a.plan").write_text("", encoding="utf-8")
    (tmp_path / "b.plan").write_bytes(b"\xe9")
    (tmp_path / "c.plan").write_text("1. a = CONCAT(1)\n", encoding="utf-8")
    with pytest.raises(LinesError) as told:
        load_demonstrations(str(tmp_path))
    first, second = told.value.lines
    assert "a.plan is empty" in first
    assert "b.plan is not UTF-8" in second


def test_demonstrations_are_migrated_to_the_actions_that_replace_theirs():
    library = library_of(OLD_NAMES, builtins())
    [why] = choose_demonstrations(load_demonstrations(), library)
    assert why.question == "Why does the gardener lie to the police about the key?"
    assert 'lie = FIND_OUT(CTX, "the event the gardener tells the police' in why.plan
    assert 'reason = FIND_OUT(CTX, "the reason for {lie}") : Find why' in why.plan


def test_it_is_said_where_no_demonstration_can_be_shown(tmp_path: Path):
    (tmp_path / "story.txt").write_text(STORY, encoding="utf-8")
    (tmp_path / "a.plan").write_text("question: Q?\n\n1. a = FIND_FOO(CTX, 1) : Find it\n")
    result = call("plan", "Why?", "--model", "offline", "--demos", str(tmp_path))
    assert "No demonstration is shown, as none calls only what the library has" in result.err
    told = call("plan", "Why?", "--model", "offline", "--json").json
    assert told["demonstrations"] == 5
    asked = call("ask", "story.txt", "Why?", "--model", "offline", "--demos", str(tmp_path))
    assert "No demonstration is shown" in asked.err
    assert "# demonstrations: 0" in call("trace", "last").out


def test_the_likeliest_actions_share_words_with_the_question_or_were_often_used():
    library = load_library()
    asked = "Is there irony in it?"
    by_words = likely_actions(asked, library, 3, {})
    assert by_words[0] == "FIND_IRONY"
    both = likely_actions(asked, library, 3, {"FIND_EVENT": 9, "FIND_GOAL": 2, "CONCAT": 99})
    assert set(both[:2]) == {"FIND_EVENT", "FIND_IRONY"}
    by_use = likely_actions("zzz", library, 2, {"FIND_GOAL": 2, "FIND_EVENT": 9})
    assert by_use == ("FIND_EVENT", "FIND_GOAL")
    every = likely_actions(asked, library, 1000, {})
    assert len(set(every)) == sum(not one.is_builtin for one in library.actions.values())


def test_provenance_and_demonstrations_say_how_often_an_action_was_used():
    one, two, three = (f"FIND_{name}(CTX, X) : Find X in CTX.\n" for name in "ABC")
    library = library_of(f"{one}{two}  provenance: q1, q2\n{three}", builtins())
    write = WritePlan("zzz", library)
    assert narrowed(write, 0) == write
    assert narrowed(write, 1).listed == {"FIND_B", *builtins()}
    shown = Demonstration("q", "\n".join(f'{at}. a{at} = FIND_C(CTX, "x")' for at in (1, 2, 3)))
    again = WritePlan("zzz", library, (shown,))
    assert narrowed(again, 1).listed == {"FIND_C", *builtins()}
    prompt = render(narrowed(again, 1))[-1]["content"]
    assert "- FIND_C(CTX, X) : Find" in prompt
    assert "- CONCAT(S1, ...)" in prompt
    assert "- FIND_A" not in prompt


def test_a_planner_is_shown_few_actions_and_may_call_the_others(serve: Serve):
    Path("story.txt").write_text(STORY, encoding="utf-8")
    server = serve([GOOD])
    asked = ("Is there irony in it?", "--model", "m", "--json")
    few, every = (call("plan", *asked, *more).json for more in (("--shown", "3"), ()))
    one = call("ask", "story.txt", *asked, "--shown", "3")
    assert few["plan"] == every["plan"]
    assert "FIND_REASON" in few["plan"]
    assert one.code == 0, one.err
    prompts = [prompt.text for prompt in server.asked if prompt.kind == "plan"]
    # What was asked with --shown before is not asked again.
    assert len(prompts) == 2
    listed = [re.findall(r"^- ([A-Z_]+)\(", text.split("Actions\n")[1].split("Example")[0], re.M)
              for text in prompts]  # fmt: skip
    names = {name for name in builtins() if "unlisted" not in builtins()[name].traits}
    assert len(set(listed[0]) - names) == 3
    assert names <= set(listed[0])
    assert "FIND_IRONY" in listed[0]
    # The plan calls it all the same.
    assert "FIND_REASON" not in listed[0]
    assert len(set(listed[1]) - names) == 93
    refused = call(
        "ask", "story.txt", "Why?", "--strategy", "decomp", "--model", "m", "--shown", "3"
    )
    assert "decomp writes no whole plan: leave out the option shown." in refused.err


@pytest.mark.parametrize("command", ["ask story.txt Why?", "batch q.jsonl -o a.jsonl"])
def test_options_that_a_strategy_does_not_use_are_refused(command: str):
    Path("story.txt").write_text(STORY, encoding="utf-8")
    row = {"id": 1, "question": "Why?", "document": "story.txt"}
    Path("q.jsonl").write_text(json.dumps(row), encoding="utf-8")
    words = (*command.split(), "--model", "offline")
    told = one_line(call(*words, "--depth", "3"), 2)
    assert told == "pearl nests nothing: take decomp or rebel, or leave out the option depth."
    told = one_line(call(*words, "--examples", "3"), 2)
    assert told == "pearl asks for no structured output: leave out the option examples."
    # Actions that are plans may be within each other.
    own = "ONCE(CTX, X) : Find X in CTX.\n    plan:\n        1. a = FIND_REASON(CTX, X) : Why X\n"
    Path("own.actions").write_text(own, encoding="utf-8")
    libraries = ("--library", "own.actions", "--library", "quality")
    assert call(*words, "--depth", "3", *libraries).code == 0


def _mined(text: str, stem: str) -> None:
    found = read_proposals(text)
    assert found["findings"] == []
    assert len(found["actions"]) == {"mine_colony": 2, "mine_who": 0}.get(stem, 1)


def _condensed(text: str, _: str) -> None:
    read = read_reply(text)
    sizes = [len(one.replaced) for one in read.proposed]
    assert (sizes, read.findings) == ([6, 1, 3, 2, 0, 0, 0, 0], ())


def _next(text: str, _: str) -> None:
    parsed = parse(text)
    assert not parsed.broken
    assert len(parsed.plan.steps) + len(parsed.plan.returns) == 1


def _labelled(text: str, _: str) -> None:
    assert ", ".join(read_labels(text)) == text.strip()


def _mapped(text: str, stem: str) -> None:
    option = read_option(text.partition("\n")[0], ["one", "two", "three", "four"])
    assert option == 2 if stem.startswith("choose") else option is not None


def _sound(text: str, _: str) -> None:
    assert pearl.check(text) == []


def _quoted(text: str, stem: str) -> None:
    kind, name = stem.split("_")[:2]
    story = Source(name, (ROOT / f"plans/examples/{name}.txt").read_text(encoding="utf-8"))
    quotes = evidence(Plan(), {"a": text}, ["a"], story)
    assert len(quotes) == (6 if kind == "merge" else 4)
    assert all(quote.span for quote in quotes)
    if stem.endswith("_list"):
        assert len(decode(text, "list")) == 8


READ = {
    "plan": [_sound], "correct": [_sound], "refine": [_sound], "mine": [_mined],
    "condense": [_condensed], "next": [_next], "label": [_labelled], "map": [_mapped],
    "choose": [_mapped, _quoted], "step": [_quoted], "merge": [_quoted], "reason": [_quoted],
    "follow": [_quoted],
}  # fmt: skip
"""How the replies to each kind of call are read."""


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "replies").glob("*.txt")))
def test_replies_that_a_language_model_wrote_to_our_prompts(path: Path):
    """Written by a stand-in model given one rendered prompt each; no accuracy is claimed."""
    for read in READ[path.stem.split("_")[0]]:
        read(path.read_text(encoding="utf-8"), path.stem)
