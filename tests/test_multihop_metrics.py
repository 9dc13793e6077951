"""Answers, supporting facts, triples and form, measured on cases computed by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from pearl.evaluate.accuracy_tables import means_of
from pearl.evaluate.datasets.base import Example
from pearl.evaluate.datasets.multihop import (
    MultiHop,
    Scores,
    SupportingFact,
    best,
    compare,
    compare_sets,
    compare_spans,
    compose,
    measures,
    normalise,
    score,
)
from pearl.evaluate.results import Evaluation, Result
from pearl.evaluate.supporting_facts import (
    NOWHERE,
    evidence_table,
    facts_of,
    form,
    found_table,
    support_measures,
)
from pearl.runtime.calls import Entry

PARAGRAPHS = [
    ("The Mill", ["The Mill is a painting.", "It is by Anna Berg.", "It hangs in Ulm."]),
    ("Anna Berg", ["Anna Berg (1800–1860) was a painter.", "She was born in Lund, in the north."]),
    ("Lund", ["Lund is a town.", "It hangs in Ulm."]),
]
DOCUMENT, PLACED = compose("d", PARAGRAPHS)
GOLD = (SupportingFact("The Mill", 1), SupportingFact("Anna Berg", 1))
TRIPLES = (("The Mill", "creator", "Anna Berg"), ("Anna Berg", "born in", "the Lund"))


def example(gold: str = "Lund", **more: Any) -> Example:
    return Example("1", "?", DOCUMENT, gold=gold, data=MultiHop(PLACED, GOLD, **more))


def approx(*values: float) -> Any:
    return pytest.approx(values)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Beatles!", "beatles"),
        ("An apple a day", "apple day"),
        ("theatre", "theatre"),
        ("U.S.A.", "usa"),
        ("the-end", "theend"),
        ("1,289,500", "1289500"),
        ("Måns’s", "måns’s"),
        ("the", ""),
        (" \n", ""),
    ],
)
def test_answers_are_normalised(text: str, normal: str):
    """Lower case, then punctuation, then articles, then white space."""
    assert normalise(text) == normal


@pytest.mark.parametrize(
    ("answer", "gold", "exact", "precision", "recall", "f1"),
    [
        ("Lund", "lund.", 1, 1, 1, 1),
        ("in the town of Lund", "Lund", 0, 1 / 4, 1, 2 / 5),
        ("February 14", "February 14, 1859", 0, 1, 2 / 3, 4 / 5),
        ("Oslo", "Lund", 0, 0, 0, 0),
        # Each word counts as often as both have it.
        ("New New York", "New York New York", 0, 1, 3 / 4, 6 / 7),
        ("york york york", "New York", 0, 1 / 3, 1 / 2, 2 / 5),
        ("", "Lund", 0, 0, 0, 0),
        ("the", "Lund", 0, 0, 0, 0),
        # Yes and no are right or wrong as a whole.
        ("yes", "Yes.", 1, 1, 1, 1),
        ("yes", "no", 0, 0, 0, 0),
        ("yes, they are", "yes", 0, 0, 0, 0),
        ("no", "no way", 0, 0, 0, 0),
        ("noanswer", "noanswer given", 0, 0, 0, 0),
        ("it is no secret", "no secret", 0, 1 / 2, 1, 2 / 3),
        # As HotpotQA's script has it, two answers without words are equal and share nothing.
        ("", "the", 1, 0, 0, 0),
    ],
)
def test_an_answers_words(answer, gold, exact, precision, recall, f1):
    found = compare(answer, gold)
    assert (*found, found.f1) == approx(exact, precision, recall, f1)


@pytest.mark.parametrize(
    ("answer", "gold", "exact", "f1"),
    [("yes they are", "yes", 0, 1 / 2), ("the", "a", 1, 1), ("", "Lund", 0, 0), ("x", "X", 1, 1)],
)  # fmt: skip
def test_musiques_words_have_no_rule_for_yes_and_no(answer, gold, exact, f1):
    found = compare_spans(answer, gold)
    assert (found.exact_match, found.f1) == approx(exact, f1)


def test_each_data_set_has_its_scripts_way():
    for unit, f1 in (("sentence", 0.0), ("paragraph", 1 / 2)):
        found = measures(example("yes", unit=unit), "yes they are")
        assert found == {"exact_match": 0, "f1": pytest.approx(f1), "contains": 1}


def test_any_form_of_the_answer_will_do():
    asked = example("Richland County", aliases=("Richland County, South Carolina", "Richland"))
    assert score(asked, "Richland") == 1
    found = {"exact_match": 0, "f1": pytest.approx(2 / 3), "contains": 0}
    assert measures(asked, "South Carolina") == found
    assert best(asked, "Richland County, South Carolina") == (1, 1, 1)
    assert measures(asked, "Oslo") == {"exact_match": 0, "f1": 0, "contains": 0}


@pytest.mark.parametrize(
    ("found", "gold", "exact", "precision", "recall", "f1"),
    [
        ({1, 2}, {1, 2}, 1, 1, 1, 1),
        ({1}, {1, 2}, 0, 1, 1 / 2, 2 / 3),
        ({1, 2, 3, 4}, {1, 2}, 0, 1 / 2, 1, 2 / 3),
        ({1, 3, 4}, {1, 2}, 0, 1 / 3, 1 / 2, 2 / 5),
        ({3}, {1, 2}, 0, 0, 0, 0),
        (set(), {1, 2}, 0, 0, 0, 0),
    ],
)
def test_sets_of_facts(found, gold, exact, precision, recall, f1):
    told = compare_sets(found, gold)
    assert (*told, told.f1) == approx(exact, precision, recall, f1)


def test_joint_figures_are_products():
    one, two = Scores(1.0, 1.0, 0.5), Scores(0.0, 0.5, 1.0)
    assert one.jointly(two) == (0, 0.5, 0.5)
    assert one.jointly(two).f1 == 0.5
    assert one.jointly(Scores(1.0, 0.0, 0.0)).f1 == 0


@pytest.mark.parametrize(
    ("quote", "facts"),
    [
        ("It is by Anna Berg.", [("The Mill", 1)]),
        ("  It is\nby  Anna Berg.  ", [("The Mill", 1)]),
        ("> “It is by Anna Berg.”", [("The Mill", 1)]),
        ("IT IS BY ANNA BERG", [("The Mill", 1)]),
        ("It is by Ana Berg.", [("The Mill", 1)]),
        ("She was born in Lund, in the north", [("Anna Berg", 1)]),
        ("was born in Lund,", [("Anna Berg", 1)]),
        # Four words that are less than half of a sentence, and one that is less than four.
        ("She was born in", [("Anna Berg", 1)]),
        ("She was", [("", NOWHERE)]),
        # Two sentences, to the letter and nearly so.
        ("The Mill is a painting. It is by Anna Berg.", [("The Mill", 0), ("The Mill", 1)]),
        ("The mill is a paintng. It is by Anna Berg.", [("The Mill", 0), ("The Mill", 1)]),
        # Over the end of a paragraph, and in three sentences.
        ("It hangs in Ulm.\n\n# Anna Berg\n\nAnna Berg (1800–1860) was a painter.",
         [("The Mill", 2), ("Anna Berg", 0)]),
        (" ".join(PARAGRAPHS[0][1]), [("The Mill", 0), ("The Mill", 1), ("The Mill", 2)]),
        # A sentence that stands twice is the first one.
        ("It hangs in Ulm.", [("The Mill", 2)]),
        ("The moon is made of green cheese.", [("", NOWHERE)]),
        ("Lund", [("", NOWHERE)]),
    ],
)  # fmt: skip
def test_a_quote_is_some_sentences(quote: str, facts: list[tuple[str, int]]):
    found = facts_of(example().data, [quote])
    placed = {(one.title if one.number != NOWHERE else "", one.number) for one in found}
    assert placed == set(facts)


def test_quotes_without_words_are_none():
    assert facts_of(example().data, ["", " \n", '""', ">"]) == frozenset()
    assert facts_of(MultiHop(), ["Anything."]) == {SupportingFact("Anything.", NOWHERE)}


def test_every_wrong_quote_counts_once():
    quotes = ["No such thing.", "no other either", "No such  thing."]
    assert len(facts_of(example().data, [*quotes, "It is by Anna Berg."])) == 3


def test_paragraphs_support_musiques_answers():
    facts = (SupportingFact("The Mill", 0), SupportingFact("Anna Berg", 1))
    data = MultiHop(PLACED, facts, "paragraph")
    quotes = ["The Mill is a painting.", "It is by Anna Berg.", "Lund is a town."]
    assert facts_of(data, quotes) == {SupportingFact("The Mill", 0), SupportingFact("Lund", 2)}
    asked = Example("1", "?", DOCUMENT, gold="Lund", data=data)
    found = support_measures(asked, "Lund", quotes, [])
    assert (found["sp_em"], found["sp_f1"], found["joint_f1"]) == approx(0, 1 / 2, 1 / 2)


def test_an_answer_with_all_or_some_of_its_facts():
    """Answer: precision 1/2, recall 1. Facts: one of three, one of two. Joint: 1/6 and 1/2."""
    told = ["It is by Anna Berg.", "She was born in Lund, in the north."]
    names = ("sp_em", "sp_f1", "sp_precision", "sp_recall", "joint_em", "joint_f1")
    assert support_measures(example(), "Lund", told, ()) == dict.fromkeys(names, 1)
    told = ["It is by Anna Berg.", "Lund is a town.", "Nothing of the kind is said."]
    found = support_measures(example(), "town Lund", told, ())
    assert found == {
        "sp_em": 0, "sp_f1": pytest.approx(2 / 5), "sp_precision": pytest.approx(1 / 3),
        "sp_recall": 1 / 2, "joint_em": 0, "joint_f1": pytest.approx(1 / 4),
    }  # fmt: skip


def test_triples_count_where_the_data_set_has_them():
    """Case and punctuation do not count in them, and articles do."""
    told = ["It is by Anna Berg.", "She was born in Lund, in the north."]
    asked = example(triples=TRIPLES)
    right = [["the mill", "Creator", "Anna Berg."], ["Anna Berg", "born  in", "the lund"]]
    found = support_measures(asked, "Lund", told, right)
    assert (found["triples_em"], found["triples_f1"], found["joint_em"]) == (1, 1, 1)
    half = [["the mill", "Creator", "Anna Berg."], ["Anna Berg", "born in", "Lund"]]
    found = support_measures(asked, "Lund", told, half)
    assert (found["triples_em"], found["triples_f1"]) == (0, 1 / 2)
    assert (found["joint_em"], found["joint_f1"]) == (0, 1 / 2)
    found = support_measures(asked, "Lund", told, [])
    assert (found["triples_f1"], found["joint_f1"]) == (0, 0)
    assert not support_measures(Example("1", "?", DOCUMENT), "x", ["y"], [])


def call(path: str, status: Any = "done") -> Entry:
    return Entry("call", path, "{}", status=status)


def fitted(path: str, attempt: Any) -> Entry:
    return Entry("decision", f"{path}/fitted", attempt)


def test_form_is_the_share_of_demands_whose_first_reply_fits():
    """Plans and steps are asked for in tries too, and demand none."""
    plain = [
        call("plan/1"), Entry("decision", "plan/1/rejected", ["PRL103"]), call("plan/2"),
        call("next/1/1"), call("step/answer"), fitted("step", 1),
    ]  # fmt: skip
    demands = [
        call("react/1/1"), fitted("react/1", 1), call("react/2/1"), call("react/2/2"),
        fitted("react/2", 2), call("short/1", "failed"), call("short/1"), fitted("short", 1),
        call("react/3/1"), fitted("react/3", 0),
    ]  # fmt: skip
    assert form([*plain, *demands]) == {"format": 2 / 4, "format_final": 3 / 4}
    assert form(plain) == {}


def result(method: str, answer: str | None, **measures: float) -> Result:
    return Result(method, "1", answer=answer, measures=measures)


def evidence(*results: Result) -> dict[str, Any]:
    methods = tuple(one.method for one in results)
    table = evidence_table(Evaluation("t", (), methods, {"": 1}, results))
    assert table is not None
    return {row["method"]: row for row in table.data}


def test_a_method_that_failed_everywhere_has_0():
    answered = result("normal-evidence", "x", exact_match=1, f1=1, sp_em=1, sp_f1=1, format=1)
    free = replace(result("normal-evidence", "y", f1=0), id="2")
    found = evidence(answered, free, result("fsm2", None, format=0.5), result("normal", None))
    names = ("exact_match", "f1", "sp_em", "sp_f1", "triples_em", "recall_at_2", "format")
    assert [found["fsm2"][name] for name in names] == [0, 0, 0, 0, None, None, 0.5]
    assert [found["normal"][name] for name in names] == [0, 0, None, None, None, None, None]
    assert found["normal-evidence"]["format"] == 1
    # So it is where several models stand side by side.
    other = replace(answered, method="normal-evidence, one")
    found = evidence(other, result("fsm2, two", None, format=0.5))
    assert [found["fsm2, two"][name] for name in names[:4]] == [0, 0, 0, 0]


def test_where_every_method_failed_all_have_0_and_accuracy_alone_is_no_exact_match():
    """Accuracy as of a person's own questions, where there are no words to compare."""
    found = evidence(result("normal", None, format=0))["normal"]
    assert [found[name] for name in ("exact_match", "f1", "sp_em")] == [0, 0, None]
    assert evidence(result("fsm1", "x", format=1))["fsm1"]["exact_match"] is None


def test_scores_are_meant_over_all_questions_and_other_measures_over_those_that_have_them():
    results = (
        replace(result("fsm2", "x", f1=1, recall_at_2=1, format=1, hops=4, seconds=3), id="1"),
        replace(result("fsm2", None, format=0.5, seconds=1), id="2"),
        result("normal", "x", f1=1, agent_calls=5),
    )
    found = means_of(Evaluation("t", (), ("fsm2", "normal"), {"": 4}, results), "fsm2")
    assert found == {
        "f1": 1 / 4, "recall_at_2": 1 / 4, "format": 1.5 / 2, "hops": 4, "seconds": 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "score", "measures", "kind"),
    [
        ("Lund", 1, {"recall": 1}, "right_found"),
        ("Lund", 1, {"recall": 0.5}, "right_unfound"),
        ("in Lund", 0, {"recall": 0.5, "contains": 1}, "wording"),
        ("Lund Nord", 0, {"recall": 1, "f1": 2 / 3}, "wording"),
        ("Ulm", 0, {"recall": 0.5, "f1": 0.4, "unanswered": 0, "precision": 0.5}, "paragraph"),
        ("Ulm", 0, {"recall": 0.5, "unanswered": 1, "precision": 1}, "hops"),
        ("Ulm", 0, {"recall": 0, "unanswered": 0}, "nothing"),
        # Of a run of before, whose row says less.
        ("Ulm", 0, {"recall": 0.5}, "paragraph"),
        ("Ulm", 0, {"recall": 1, "unanswered": 0, "precision": 0.5}, "reasoning"),
        (None, 0, {"format": 0.5, "format_final": 0.9, "recall": 0, "unanswered": 2}, "nothing"),
        (None, 0, {"format": 0.5, "format_final": 0.9, "recall": 0, "unanswered": 0}, "form"),
        (None, 0, {"format": 0.5, "format_final": 0.9}, "form"),
        (None, 0, {"format": 0.5, "format_final": 1}, "none"),
    ],
)
def test_each_answer_is_of_one_kind_by_what_was_found(
    answer: str | None, score: float, measures: dict[str, float], kind: str
):
    results = (
        Result("fsm1", "1", score=score, answer=answer, measures=measures),
        Result("fsm1", "2", score=1, answer="x", measures={"recall": 1}),
        Result("normal", "1", score=1, answer="x"),
    )
    table = found_table(Evaluation("t", (), ("normal", "fsm1"), {"": 2}, results))
    assert table
    [row] = table.data
    wanted = Counter([kind, "right_found"])
    assert {name: row[name] for name in row.keys() - {"method", "called"}} == {
        name: wanted[name] for name in (
            "right_found", "right_unfound", "wording", "nothing", "paragraph", "hops", "reasoning",
            "form", "none")
    }  # fmt: skip
    assert found_table(Evaluation("t", (), ("normal",), {"": 1}, results[2:])) is None
