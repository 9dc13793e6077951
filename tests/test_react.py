"""ReAct, the baselines in one reply, and short answers made of long ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from pearl.evaluate.datasets.base import NO_DOCUMENT, Example
from pearl.evaluate.datasets.multihop import MultiHop, SupportingFact, compose
from pearl.evaluate.evaluation_job import Trial, Trials, evaluation_of
from pearl.evaluate.methods import METHODS, find_method
from pearl.evaluate.methods.base import Outcome
from pearl.evaluate.setup import Demonstrations, make_context
from pearl.evaluate.supporting_facts import evidence_table
from pearl.jobs.workers import Task
from pearl.lang.ast import Plan
from pearl.lang.errors import InputError
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.source import Source
from pearl.models.base import ModelError
from pearl.models.middleware.stack import start_engine
from pearl.models.tokens import NO_PRICES
from pearl.prompts.calls import FillSchema
from pearl.retrieval.retriever import DocumentRetriever
from pearl.runtime.calls import Caller, Journal, plan_come_to
from pearl.runtime.context import UNLIMITED, Context
from pearl.runtime.executor import Handlers
from pearl.runtime.loop import Finished, RunError
from pearl.runtime.trace import export_trace
from pearl.session import Session
from pearl.strategies.baselines import asking, asking_plan
from pearl.strategies.pearl import GivenPlan
from pearl.strategies.react import React, reacting
from tests.scripted_models import Scripted, run

DOCUMENT, PARAGRAPHS = compose(
    "town",
    [
        ("The Mill", ["The Mill is a painting.", "Anna Berg made it."]),
        ("Anna Berg", ["Berg was a painter.", "She was born in Lund.", "She left Lund early."]),
        ("Lund", ["Lund is a town by the sea."]),
    ],
)
QUESTION = "Where was the painter of The Mill born?"
LIBRARY = load_library("react")


def act(action: str, words: str, thought: str = "Hm.") -> str:
    return json.dumps({"thought": thought, "action": action, "input": words})


def ran(
    *replies: str | ModelError, document: Source = DOCUMENT, retriever: Any = None, **limits: int
) -> tuple[Finished, list[dict[str, Any]], Journal]:
    """A run's end, what each step was asked with, and the journal; all replies are needed."""
    model = Scripted(replies)
    handlers = reacting(document, retriever)
    finished, journal, _ = run(
        model, lambda caller: React(caller, **limits), QUESTION, LIBRARY, document, handlers
    )
    assert not model.script
    return finished, model.given(), journal


def failing(*replies: str | ModelError, **limits: int) -> str:
    with pytest.raises(RunError) as error:
        ran(*replies, **limits)
    return str(error.value)


def refused(journal: Journal) -> list[str]:
    return [one.value for one in journal.entries if one.path.endswith("/refused")]


def test_search_lookup_and_finish_are_steps():
    finished, given, _ = ran(
        act("Search", "The Mill", "Who painted it?"),
        act("Search", "Anna Berg", "She did."),
        act("Lookup", "lund"),
        act("Lookup", "Lund"),
        act("Finish", "Lund"),
    )
    assert finished.text == "Lund"
    assert [(one.name, one.action) for one in finished.plan.steps] == [
        ("search_1", "SEARCH"), ("search_2", "SEARCH"), ("lookup_3", "LOOKUP"),
        ("lookup_4", "LOOKUP"), ("answer", "FINISH"),
    ]  # fmt: skip
    assert finished.values["search_1"] == "The Mill: The Mill is a painting. Anna Berg made it."
    # The same word shows the next sentence that has it.
    assert finished.values["lookup_3"] == "She was born in Lund."
    assert finished.values["lookup_4"] == "She left Lund early."
    assert given[0] == {"question": QUESTION, "steps": []}
    assert given[1]["steps"] == [
        "Thought: Who painted it? Action: Search[The Mill] "
        "Observation: The Mill: The Mill is a painting. Anna Berg made it."
    ]
    assert len(given[4]["steps"]) == 4


def test_a_lookup_is_one_of_the_last_paragraph():
    finished, _, _ = ran(
        act("Search", "Anna Berg"), act("Lookup", "Lund"), act("Search", "town sea"),
        act("Lookup", "Lund"), act("Finish", "Lund"),
    )  # fmt: skip
    assert finished.values["lookup_4"] == "Lund: Lund is a town by the sea."


@pytest.mark.parametrize("wrong", [act("Browse", "The Mill"), "Search[The Mill]"])
def test_a_reply_that_does_not_fit_is_mended(wrong: str):
    finished, _, journal = ran(wrong, act("Search", "Mill"), act("Finish", "x"))
    assert [one.action for one in finished.plan.steps] == ["SEARCH", "FINISH"]
    rejected = [one.path for one in journal.entries if one.path.endswith("/rejected")]
    assert rejected == ["react/1/1/rejected"]


def test_a_model_that_never_has_the_form_is_given_up():
    assert "react_step does not fit after 3 tries" in failing("no", "{}", "[]")


def test_a_lookup_needs_a_paragraph():
    finished, given, journal = ran(
        act("Lookup", "Lund"), act("Search", "Anna Berg"), act("Finish", "Lund")
    )
    told = "Lookup[Lund]: no paragraph was shown yet: Search first."
    assert refused(journal) == [told]
    assert given[1]["refused"] == [told]
    # What was done since makes it past.
    assert "refused" not in given[2]
    assert [one.action for one in finished.plan.steps] == ["SEARCH", "FINISH"]


def test_what_comes_to_nothing_is_no_step():
    finished, given, journal = ran(
        act("Search", "zebra"), act("Search", "zebra"), act("Search", "Lund"),
        act("Lookup", "mountain", "I look."), act("Lookup", "town"), act("Lookup", "town"),
        act("Lookup", "town"), act("Finish", "Lund", "I know."),
    )  # fmt: skip
    assert [one.action for one in finished.plan.steps] == ["SEARCH", "LOOKUP", "FINISH"]
    nothing = "Search[zebra]: no paragraph has any of these words."
    assert given[1]["refused"] == [nothing]
    assert given[2]["refused"] == [nothing, "Search[zebra]: this was done already."]
    assert given[4]["refused"] == ["Lookup[mountain]: the paragraph has no sentence with that."]
    further = "Lookup[town]: the paragraph has no further sentence with that."
    assert given[7]["refused"] == [further, "Lookup[town]: this was done already."]
    assert [one.split(" Action")[0] for one in given[7]["steps"]] == ["Thought: Hm."] * 2
    assert sum(one.path == "attempt/failed" for one in journal.entries) == 3


def test_one_who_only_repeats_or_finds_nothing_is_given_up():
    told = failing(act("Search", "The Mill"), *[act("Search", "the  MILL")] * 4)
    assert told == "Step 2 was refused 4 times: Search[the MILL]: this was done already."
    told = failing(*[act("Search", f"zebra{at}") for at in range(2)], refusals=1)
    nothing = "no paragraph has any of these words."
    assert told == f"Step 1 was refused 2 times: Search[zebra1]: {nothing}"


def test_the_last_step_can_only_finish():
    searches = [act("Search", one) for one in ("The Mill", "Anna Berg", "Lund")]
    finished, _, journal = ran(*searches, act("Finish", "Lund"), most=3)
    assert [one.name for one in finished.plan.steps] == ["search_1", "search_2", "answer"]
    assert refused(journal) == ["Search[Lund]: this is the last step: Finish."]
    more = [act("Search", f"town {at}") for at in range(4)]
    assert "Step 3 was refused 4 times" in failing(*searches[:2], *more, most=3)


def test_white_space_is_no_input():
    _, _, journal = ran(act("Finish", " \n"), act("Finish", "Lund"))
    assert refused(journal) == ["Finish[]: it needs words."]


def test_a_model_that_fails_fails_the_run():
    with pytest.raises(ModelError):
        ran(ModelError("server", "It is down."))


NASTY = '"); 2. more = SEARCH(CTX, "x")\n3. ans = {answer} \\ # noqa : return answer \ud800'


def test_what_a_model_writes_adds_no_step():
    """Whatever it writes is one argument, and the trace has it to the letter."""
    finished, given, _ = ran(act("Search", f"Lund {NASTY}", NASTY), act("Finish", NASTY, NASTY))
    assert [one.action for one in finished.plan.steps] == ["SEARCH", "FINISH"]
    assert finished.text == " ".join(NASTY[:-1].split())
    assert "SEARCH(CTX" in given[1]["steps"][0]


def test_a_corpus_may_stand_for_the_document():
    other = Source("other", "# Hill\n\nThe hill is high.\n")
    finished, _, _ = ran(
        act("Search", "hill"), act("Finish", "high"), retriever=DocumentRetriever(other)
    )
    assert finished.values["search_1"] == "Hill: The hill is high."


def test_a_corpus_that_cannot_be_read_is_told():
    class Broken:
        def search(self, query: str, k: int) -> list[Any]:
            raise InputError("The index is gone: make it again.")

    _, given, _ = ran(act("Search", "hill"), act("Finish", "high"), retriever=Broken())
    assert given[1]["refused"] == ["The index is gone: make it again."]


# Methods


EXAMPLE = Example(
    "1", QUESTION, DOCUMENT, gold="Lund",
    data=MultiHop(PARAGRAPHS, (SupportingFact("The Mill", 1), SupportingFact("Anna Berg", 1))),
)  # fmt: skip
BARE = Example("2", QUESTION, NO_DOCUMENT, gold="Lund", data=MultiHop())
EVIDENCE = {
    "supporting_facts": ["Anna Berg made it.", "Lund is a town by the sea."],
    "triples": [["The Mill", "creator", "Anna Berg"]],
}
MEASURED = {
    "grounded": 1, "sp_em": 0, "sp_f1": 1 / 2, "sp_precision": 1 / 2, "sp_recall": 1 / 2,
    "joint_em": 0, "joint_f1": pytest.approx(1 / 3),
}  # fmt: skip
"""What `EVIDENCE` comes to on `EXAMPLE`."""
REPLIES: dict[str, dict[str, Any]] = {
    "normal": {"answer": "in Lund"},
    "normal-evidence": {"answer": "in Lund", **EVIDENCE},
    "cot-answer": {"reasoning": "Berg made it.", "answer": "in Lund"},
    "cot-evidence": {"reasoning": "Berg made it.", "answer": "in Lund", **EVIDENCE},
    "sp-cot": {"hops": [{"question": "Who?", "answer": "Berg", "sure": None}], "answer": "in Lund"},
    "sp-cot-evidence": {
        "hops": [{"question": "Who?", "answer": "Berg"}], "answer": "in Lund", **EVIDENCE
    },
}  # fmt: skip
KIT = make_context(load_library(), Demonstrations(()))


def answered(name: str, example: Example, *replies: str) -> tuple[Outcome, Scripted, Journal]:
    model, journal = Scripted(replies), Journal()
    journal.decide("run", {"question": example.question})
    session = Session(start_engine(model), journal)
    return asyncio.run(find_method(name).answer(example, KIT, session)), model, journal


def asked(
    model: Scripted, plan: Plan, document: Source, context: Context = UNLIMITED
) -> tuple[Finished, Journal, Any]:
    """A plan of one reply, carried out."""
    library = load_library("asking")

    def handed(caller: Caller) -> Handlers:
        return asking(caller, document)

    return run(model, lambda _: GivenPlan(plan), QUESTION, library, document, handed, context)


@pytest.mark.parametrize("name", REPLIES)
def test_one_reply_gives_the_answer(name: str):
    outcome, model, _ = answered(name, EXAMPLE, json.dumps({**REPLIES[name], "more": None}))
    assert outcome.answer == "in Lund"
    [request] = model.asked
    assert isinstance(request.call, FillSchema)
    assert request.call.document == DOCUMENT
    assert request.call.given == (("question", QUESTION),)
    assert outcome.measures == (MEASURED if name.endswith("evidence") else {"grounded": 0})
    _, model, _ = answered(name, BARE, json.dumps(REPLIES[name]))
    # Where there is no document, none is shown.
    assert model.asked[0].call.document is None  # type: ignore[union-attr]


def test_react_gives_its_evidence_with_the_answer():
    none: dict[str, Any] = {"supporting_facts": [], "triples": []}
    acts = [(act("Search", "Berg"), none), (act("Finish", "in Lund"), EVIDENCE)]
    replies = [json.dumps({**json.loads(one), **more}) for one, more in acts]
    outcome, model, journal = answered("react-evidence", EXAMPLE, *replies)
    assert outcome.answer == "in Lund"
    assert plan_come_to(journal.entries)[0].splitlines()[-2].endswith(
        'FINISH("in Lund", ["Anna Berg made it.", "Lund is a town by the sea."], '
        '[["The Mill", "creator", "Anna Berg"]]) : Give it'
    )  # fmt: skip
    assert {**outcome.measures} == MEASURED
    assert model.schemas() == ["react_step_with_evidence"] * 2
    plan = parse(export_trace(journal.entries, "test"))
    assert not plan.broken
    assert plan.plan.steps[-1].action == "FINISH"


def test_a_document_that_does_not_fit_is_cut_or_refused_in_one_reply():
    hills = "".join(f"# Hill {at}\n\n{'Grass grows on it. ' * 20}\n\n" for at in range(40))
    long = Source("long.md", hills + DOCUMENT.text)

    def ran(policy: Any) -> tuple[Scripted, Journal]:
        model = Scripted([SHORT])
        context = Context(policy, 6000, 1000, len)
        _, journal, _ = asked(model, asking_plan("ANSWER_SHORT", QUESTION), long, context)
        return model, journal

    model, journal = ran("auto")
    [request] = model.asked
    assert sum(len(one["content"]) for one in request.messages) <= 5000
    assert "Anna Berg" in request.messages[-1]["content"] + request.messages[0]["content"]
    [cut] = [one.value for one in journal.entries if one.path == "context/answer"]
    assert cut["passages"] < cut["of"]
    with pytest.raises(RunError, match=r"is to hold .* tokens of the document, and .* fit"):
        ran("full")


def test_a_reply_without_its_form_is_no_answer():
    with pytest.raises(RunError, match="answer_question does not fit after 3 tries"):
        answered("normal", EXAMPLE, "no", "no way", "never")


# Short answers


def tried(dataset: str, method: str, *replies: str, example: Example = EXAMPLE) -> Any:
    model, journal = Scripted(replies), Journal()
    task = Task("t", 0, "k", "d", Trial(method, example))
    session = Session(start_engine(model), journal)
    row = asyncio.run(Trials(dataset, KIT)(task, session))
    assert not model.script
    return row, model


SHORT = '{"answer": "Lund"}'


@pytest.mark.parametrize("method", ["zero-shot", "cot"])
def test_a_long_answer_is_brought_to_a_short_one(method: str):
    row, model = tried("hotpotqa", method, "She was born in Lund.\n> She was born in Lund.", SHORT)
    assert row["correct"] is True
    result = row["result"]
    assert (result["answer"], result["words"]) == ("Lund", "She was born in Lund.")
    assert result["measures"].items() >= {"exact_match": 1, "f1": 1, "format": 1}.items()
    assert result["calls"] == 2
    assert model.given() == [{"question": QUESTION, "answer": "She was born in Lund."}]


def test_what_is_short_already_is_left_alone():
    for method, said in (("normal", SHORT), ("zero-shot", "Lund"), ("cot", "The answer is Lund")):
        row, model = tried("hotpotqa", method, said)
        assert (row["correct"], row["result"]["answer"], len(model.asked)) == (True, "Lund", 1)


def test_a_short_answer_out_of_form_counts_against_the_form():
    row, _ = tried("hotpotqa", "zero-shot", "In Lund.", "Lund", SHORT)
    assert row["result"]["measures"]["format"] == 0
    row, _ = tried("hotpotqa", "zero-shot", "In Lund.", "Lund", "Lund!", "Lund.")
    assert (row["status"], row["correct"]) == ("failed", False)
    assert "short_answer does not fit" in row["error"]["message"]


def test_other_data_sets_are_asked_as_before():
    """QuALITY has options to choose from; a person's own answers are scored by what they hold."""
    row, model = tried("questions", "zero-shot", "She was born in Lund.")
    assert (row["correct"], len(model.asked)) == (True, 1)
    assert "format" not in row["result"]["measures"]
    chosen = Example("3", QUESTION, DOCUMENT, ("Ulm", "Lund"), "B")
    row, model = tried("quality", "zero-shot", "In Lund.", "B", example=chosen)
    assert (row["correct"], len(model.asked)) == (True, 2)


def test_methods_that_answer_in_prose_say_so():
    prose = {one.name for one in METHODS if one.prose}
    assert prose >= {
        *("zero-shot", "cot", "pearl", "pearl-no-execution", "pearl-execute-only", "decomp")
    }
    assert not prose & {*REPLIES, "react", "mcq", "tmn"}
    assert find_method("pearl@5").prose


def test_the_report_has_every_figure():
    rows = [
        tried("hotpotqa", "normal-evidence", json.dumps(REPLIES["normal-evidence"]))[0],
        tried("hotpotqa", "normal", SHORT)[0],
    ]
    head = {"title": "t", "about": [], "methods": ["normal", "normal-evidence", "react"],
            "asked": {"": 2}, "notes": []}  # fmt: skip
    table = evidence_table(evaluation_of(rows, head, NO_PRICES, ""))
    assert table is not None
    assert [one.title for one in table.columns] == [
        "method", "exact match", "F1", "contains", "facts EM", "facts F1", "joint EM",
        "joint F1", "format", "final format",
    ]  # fmt: skip
    assert [" ".join(row) for row in table.rows] == [
        "normal 50.0 % 50.0 % 50.0 % – – – – 100.0 % 100.0 %",
        "normal-evidence 0.0 % 33.3 % 50.0 % 0.0 % 25.0 % 0.0 % 16.7 % 100.0 % 100.0 %",
        "react 0.0 % 0.0 % 0.0 % – – – – – –",
    ]
    plain = evaluation_of([tried("questions", "zero-shot", "Lund")[0]], head, NO_PRICES, "")
    assert evidence_table(plain) is None
