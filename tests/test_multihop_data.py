"""Data sets over several paragraphs, claims, and celebrities: what their files become."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pearl.evaluate.datasets import find_dataset
from pearl.evaluate.datasets.base import NO_DOCUMENT, Example
from pearl.evaluate.datasets.multihop import MultiHop, SupportingFact, compose, golds
from pearl.evaluate.setup import read_sample
from pearl.evaluate.supporting_facts import NOWHERE, facts_of
from pearl.lang.errors import InputError
from pearl.retrieval.retriever import DocumentRetriever

ROW: dict[str, Any] = {
    "_id": "a1",
    "question": "Where was the  painter of The Mill born?",
    "answer": "Lund",
    "type": "bridge",
    "context": [
        ["The Mill", ["The Mill is a painting.", " It is by\nAnna Berg."]],
        ["Empty", []],
        ["Anna Berg", ["", "Anna Berg was born in Lund.", " # 3 of her works are lost."]],
    ],
    "supporting_facts": [["The Mill", 1], ["Anna Berg", 1], ["The Mill", 1]],
}
EVIDENCES = [["The Mill", "creator", "Anna Berg"], ["Anna Berg", "place of birth", "Lund"]]
SONG: dict[str, Any] = {
    "id": "2hop__1_2",
    "question": "Who sang it?",
    "question_decomposition": [{"id": 1}, {"id": 2}],
    "answer": "Bo",
    "answer_aliases": ["Bo Ek"],
    "answerable": True,
    "paragraphs": [
        {"idx": 0, "title": "It", "paragraph_text": "It is a song. Bo sang it.",
         "is_supporting": True},
        {"idx": 1, "title": "It", "paragraph_text": "It was loud.", "is_supporting": False},
        {"idx": 2, "title": "Bo", "paragraph_text": "Bo is a singer.", "is_supporting": True},
    ],
}  # fmt: skip
CLAIM = {"id": 7, "label": "SUPPORTS", "claim": "Lund is a town.", "evidence": [[[1, 2, "L", 0]]]}
PERSON = {"Question": "What is the capital of the birthplace of Bo?", "Answer": ["Oslo", "oslo by"],
          "category": "birthplace_capital", "Q1": "?", "A1": ["Norway"]}  # fmt: skip

ROWS = {"hotpotqa": ROW, "2wiki": ROW, "musique": SONG, "fever": CLAIM, "celebrities": PERSON}


def as_lines(rows: list[Any]) -> str:
    return "\n".join(map(json.dumps, rows)) + "\n\n"


def as_array(rows: list[Any]) -> str:
    return json.dumps(rows, indent=1)


def read(name: str, *rows: Any, form: Callable[[list[Any]], str] = as_lines) -> list[Example]:
    Path("data").write_text(form(list(rows)), encoding="utf-8")
    return list(find_dataset(name).read("data", ""))


@pytest.mark.parametrize("name", ROWS)
def test_arrays_lines_and_one_object_are_the_same(name: str):
    row = ROWS[name]
    [example] = read(name, row)
    assert [example] == read(name, row, form=as_array)
    assert [example] == read(name, row, form=lambda rows: json.dumps(rows[0], indent=1))
    assert find_dataset(name).score(example, example.gold) == 1
    assert find_dataset(name).short
    # Workers on other machines are sent examples.
    assert pickle.loads(pickle.dumps(example)) == example


def test_the_document_is_markdown_and_its_sentences_have_places():
    [example] = read("hotpotqa", ROW)
    assert example.document.text == (
        "# The Mill\n\nThe Mill is a painting. It is by Anna Berg.\n\n"
        "# Empty\n\n"
        "# Anna Berg\n\nAnna Berg was born in Lund. # 3 of her works are lost.\n\n"
    )
    data = example.data
    assert isinstance(data, MultiHop)
    assert [one.title for one in data.paragraphs] == ["The Mill", "Empty", "Anna Berg"]
    for paragraph in data.paragraphs:
        for one in paragraph.sentences:
            assert example.document.at(one.span) == one.text
    assert [one.text for one in data.paragraphs[2].sentences][1] == "Anna Berg was born in Lund."
    assert data.facts == (SupportingFact("The Mill", 1), SupportingFact("Anna Berg", 1))
    assert (example.question, example.gold, example.labels) == (
        "Where was the painter of The Mill born?", "Lund", {"type": ("bridge",)},
    )  # fmt: skip
    found = DocumentRetriever(example.document).search("Berg born", 2)
    assert [one.title for one in found] == ["Anna Berg", "The Mill"]


FORGED: list[tuple[str, list[str]]] = [
    ("One", ["# 3 of her works are lost.", "# Two of them burned."]),
    ("Two\n\n# Forged\n\nx", ["", "#", "is a sign.\n\n# Forged\n\nNo heading."]),
    ("", ["Without a title."]),
    ("## Three", ["###### Six.\u2028# Seven."]),
    ("Four", ["#hash stays."]),
]


def test_every_paragraph_is_found_and_no_heading_is_forged():
    document, paragraphs = compose("d", FORGED)
    found = DocumentRetriever(document).paragraphs
    assert [one.title for one in found] == [
        "One", "Two # Forged x", "–", "## Three", "Four",
    ]  # fmt: skip
    assert [document.at(one.span) for one in found] == [
        "\\# 3 of her works are lost. # Two of them burned.",
        "\\# is a sign. # Forged No heading.",
        "Without a title.",
        "\\###### Six. # Seven.",
        "#hash stays.",
    ]
    for paragraph, (_, sentences) in zip(paragraphs, FORGED, strict=True):
        for one, told in zip(paragraph.sentences, sentences, strict=True):
            assert document.at(one.span) == one.text == " ".join(told.split())
    assert paragraphs[2].title == ""


BERG = ("Berg", ["Berg was the director of the film.", "He was born in 1931 in Lund, Sweden.",
                 "# 3 of his films are lost."])  # fmt: skip
LONG = ("Long", ["They say that Berg was born in Lund, and so do we.", "Berg was born in Lund in."])


@pytest.mark.parametrize(
    ("quote", "facts"),
    [
        ("Berg was the director of this film.", {SupportingFact("Berg", 0)}),
        ("Berg was not the director of the film.", {}),
        ("Berg was never the director of the film.", {}),
        ("Berg wasn’t the director of the film.", {}),
        ("He was born in 1931 in Lund (Sweden).", {SupportingFact("Berg", 1)}),
        ("He was born in 1932 in Lund, Sweden.", {}),
        ("\\# 3 of his films are lost.", {SupportingFact("Berg", 2)}),
        # It stands in the first sentence of the other too, and is most of the second.
        ("Berg was born in Lund", {SupportingFact("Long", 1)}),
    ],
)
def test_a_quote_that_says_otherwise_is_of_no_sentence(quote: str, facts: set[SupportingFact]):
    _, placed = compose("d", [BERG, LONG])
    found = facts_of(MultiHop(placed), [quote])
    assert found == (facts or {SupportingFact(quote, NOWHERE)})


def test_triples_are_2wikis_own():
    [example] = read("2wiki", {**ROW, "evidences": EVIDENCES})
    assert example.data.triples == tuple(map(tuple, EVIDENCES))
    assert read("2wiki", ROW)[0].data.triples == ()


def test_musique_supports_paragraphs_by_their_numbers():
    """Titles come twice in it."""
    [example] = read("musique", SONG)
    assert example.data.unit == "paragraph"
    assert example.data.facts == (SupportingFact("It", 0), SupportingFact("Bo", 2))
    assert [one.text for one in example.data.paragraphs[0].sentences] == [
        "It is a song.", "Bo sang it.",
    ]  # fmt: skip
    assert golds(example) == ("Bo", "Bo Ek")
    assert example.labels == {"hops": ("2",)}


def test_what_cannot_be_answered_is_left_out():
    assert [one.id for one in read("musique", {**SONG, "id": "x", "answerable": False}, SONG)] == [
        SONG["id"]
    ]
    unknown = {**CLAIM, "id": 8, "label": "NOT ENOUGH INFO"}
    assert [one.id for one in read("fever", unknown, CLAIM)] == ["7"]


def test_a_claim_is_a_question_without_a_document():
    [example] = read("fever", CLAIM)
    assert example.question.endswith("Claim: Lund is a town.")
    assert (example.document, example.gold) == (NO_DOCUMENT, "SUPPORTS")
    assert example.labels == {"label": ("SUPPORTS",)}


@pytest.mark.parametrize(
    ("answer", "score"),
    [("SUPPORTS", 1), ("It supports the claim.", 1), ("not SUPPORTS", 0),
     ("not supported", 0), ("REFUTES", 0), ("supports or refutes", 0),
     ("", 0), ("unsupports", 0), ("NOT ENOUGH INFO", 0), ("Yes.", 1), ("true", 1), ("no", 0),
     ("False", 0), ("The claim is true.", 1), ("It is false", 0), ("Yes and no", 0),
     ("It is not true", 0), ("True, but it REFUTES", 0), ("Yes, it is true.", 1),
     ("It's true", 1), ("That’s false", 0), ("support", 1),
     ("No, that is right.", 0), ("refute", 0), ("true and false", 0),
     ("No, it is untrue.", 0), ("Wrong.", 0)],
)  # fmt: skip
def test_a_claims_answer_names_one_label(answer: str, score: float):
    [example] = read("fever", CLAIM)
    fever = find_dataset("fever")
    assert fever.score(example, answer) == score
    assert fever.measures(example, answer) == {"exact_match": score}
    refuted = replace(example, gold="REFUTES")
    wrong = {"REFUTES", "no", "False", "It is false", "True, but it REFUTES", "It is not true"}
    wrong |= {"refute", "No, it is untrue", "Wrong", "not supported"}
    assert fever.score(refuted, answer) == (answer.rstrip(".") in wrong)


@pytest.mark.parametrize(
    ("answer", "score"),
    [("oslo", 1), ("It is OSLO BY,  I think", 1), ("Oslofjord", 1), ("Bergen", 0), ("", 0)],
)
def test_a_celebritys_answer_contains_a_right_one(answer: str, score: float):
    [example] = read("celebrities", PERSON)
    assert find_dataset("celebrities").score(example, answer) == score


def test_celebrities_as_published():
    published = {"note": "n", "data": [PERSON, {**PERSON, "Answer": [1948]}]}
    first, second = read("celebrities", published, form=lambda rows: json.dumps(rows[0], indent=1))
    assert (first.id, first.gold, golds(first)) == ("1", "Oslo", ("Oslo", "oslo by"))
    assert first.labels == {"category": ("birthplace_capital",)}
    celebrities = find_dataset("celebrities")
    assert celebrities.score(second, "in 1948") == 1
    assert celebrities.measures(second, "in 1948") == {
        "exact_match": 0.0, "f1": pytest.approx(2 / 3), "contains": 1.0,
    }  # fmt: skip


def without(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != key}


@pytest.mark.parametrize(
    ("name", "row", "words"),
    [
        ("hotpotqa", without(ROW, "_id"), "has no _id: give each row its own"),
        ("hotpotqa", {**ROW, "question": " "}, "has no question: give it as a text"),
        ("hotpotqa", {**ROW, "answer": 3}, "answer is to be a text"),
        ("hotpotqa", {**ROW, "context": {"title": []}}, "has no context: give pairs of a title"),
        ("hotpotqa", {**ROW, "context": [["T"]]}, "paragraph 1 is no pair"),
        ("hotpotqa", {**ROW, "context": [["T", "text"]]}, "paragraph 1 is to be a list of texts"),
        ("hotpotqa", {**ROW, "supporting_facts": [["T", "1"]]}, "supporting_facts is to be pairs"),
        ("2wiki", {**ROW, "evidences": [["a", "b"]]}, "evidence 1 is no subject, relation"),
        ("2wiki", {**ROW, "evidences": [["a", "b", 3]]}, "evidence 1 is to be a list of texts"),
        ("2wiki", {**ROW, "evidences": "no"}, "evidences is to be lists"),
        ("musique", {**SONG, "paragraphs": []}, "has no paragraphs: give MuSiQue's own rows"),
        ("musique", {**SONG, "paragraphs": [{"title": "T"}]}, "paragraph 1 has no title and"),
        ("musique", {**SONG, "answer_aliases": "Bo"}, "answer_aliases is to be a list of texts"),
        *(
            ("fever", {**CLAIM, "label": label}, "label is to be one of SUPPORTS, REFUTES, NOT")
            for label in ("TRUE", None, 0, [], ["SUPPORTS"], {"SUPPORTS": 1}, True)
        ),
        ("fever", without(CLAIM, "claim"), "has no claim: give it as a text"),
        ("celebrities", {**PERSON, "Answer": [None]}, "Answer is to be a list of texts"),
        ("celebrities", without(PERSON, "Question"), "has no Question: give it as a text"),
        ("musique", 3, "is no object"),
    ],
)
@pytest.mark.parametrize(("form", "place"), [(as_lines, "data:2"), (as_array, "data, row 2")])
def test_a_row_that_cannot_be_used(
    name: str, row: Any, words: str, form: Callable[[list[Any]], str], place: str
):
    other = {**ROWS[name], "_id": "0", "id": "0"}
    with pytest.raises(InputError) as error:
        read(name, other, row, form=form)
    assert words in str(error.value)
    assert str(error.value).startswith(place)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["hotpotqa", "2wiki", "musique", "fever"])
def test_an_id_that_comes_twice(name: str):
    row = ROWS[name]
    with pytest.raises(InputError, match=r"data:2 has the id .*, as data:1 has"):
        read(name, row, row)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"_id": "a"}', "is no whole JSON array"),
        ('{"_id": "a"\n', "data:1 is not JSON"),
        ('{"data": 3}', "data is no list"),
        ("[1]", "row 1 is no object"),
    ],
)
def test_a_file_that_cannot_be_used(text: str, words: str):
    Path("data").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=words):
        list(find_dataset("celebrities").read("data", ""))


@pytest.mark.parametrize(
    ("name", "key"),
    [("hotpotqa", "answer"), ("musique", "answer"), ("fever", "label"), ("celebrities", "Answer")],
)
def test_questions_without_a_known_answer_are_not_evaluated(name: str, key: str):
    assert read(name, without(ROWS[name], key))[0].gold == ""
    with pytest.raises(InputError, match="is not known, so it cannot be scored"):
        read_sample(name, "data")


@pytest.mark.parametrize(
    ("name", "file", "count"),
    [("hotpotqa", "multihop/hotpotqa_dev.jsonl", 100), ("2wiki", "multihop/2wiki_dev.jsonl", 82),
     ("musique", "multihop/musique_dev.jsonl", 100), ("fever", "rebel/fever_dev.jsonl", 150)],
)  # fmt: skip
def test_the_real_files(shared: Path, name: str, file: str, count: int):
    dataset = find_dataset(name)
    found = read_sample(name, str(shared / file)).examples
    assert len(found) == count
    for one in found:
        assert dataset.score(one, one.gold) == 1
        if isinstance(one.data, MultiHop):
            assert one.data.facts
            spans = [each for part in one.data.paragraphs for each in part.sentences]
            assert all(one.document.at(each.span) == each.text for each in spans)
    assert (name == "2wiki") == any(
        isinstance(one.data, MultiHop) and one.data.triples for one in found
    )
