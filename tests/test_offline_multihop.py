"""Multi-hop questions without a model: rules on made-up questions, and replies that always fit."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pearl.llm import CorrectFilled, Field, FillSchema, Request, Schema
from pearl.llm.offline import Offline
from pearl.llm.offline.filling import fill
from pearl.llm.offline.multihop.answering import walk
from pearl.llm.offline.multihop.comparing import compare
from pearl.llm.offline.multihop.fillers import MULTIHOP
from pearl.llm.offline.multihop.hops import conclude, next_question, put
from pearl.llm.offline.multihop.names import capitals, day, number
from pearl.llm.offline.multihop.paragraphs import rank, titles
from pearl.llm.offline.multihop.parts import parts
from pearl.llm.offline.multihop.searching import search
from pearl.prompts.schemas import load_schema
from pearl.runtime.schemas import read_object
from pearl.source import Source
from pearl.values import Value

DOCUMENT = """# The Grey Harbour

The Grey Harbour is a 1931 drama film directed by Ines Falk and starring Bo Lind as Captain Orm.

# Ines Falk

Ines Falk (3 May 1899 – 7 June 1960) was a Danish film director. She was born in Ribe, Denmark.

# A Winter Song

A Winter Song is a 1944 musical film directed by Tom Ahlgren.

# Tom Ahlgren

Tom Ahlgren (born 12 March 1910) was a Swedish film director and the son of Karl Ahlgren.

# Ribe

Ribe is a town in Jutland. Its cathedral has 52 bells, and its mayor is Anna Berg.

# Karl Ahlgren

Karl Ahlgren was a Swedish clockmaker who died in Lund.
"""


@pytest.mark.parametrize(
    ("question", "first", "then"),
    [
        (
            "When was the director of the film The Grey Harbour born?",
            "Who is the director of the film The Grey Harbour?",
            "When was X born?",
        ),
        (
            "Where did Tom Ahlgren's father die?",
            "Who is the father of Tom Ahlgren?",
            "Where did X die?",
        ),
        (
            "Who is Mira Holt's maternal grandfather?",
            "Who is the mother of Mira Holt?",
            "Who is the father of X?",
        ),
        (
            "Who is the mayor of the town where Ines Falk was born?",
            "What is the town where Ines Falk was born?",
            "Who is the mayor of X?",
        ),
        (
            "When did the city where the author of Grey Days died become a bishopric?",
            "Who is the author of Grey Days?",
            "When did the city where X died become a bishopric?",
        ),
        (
            "Which firm bought the company that built the Larkin Bridge?",
            "What is the company that built the Larkin Bridge?",
            "Which firm bought X?",
        ),
        (
            "Orm Air was sold in 2001 to an airline based where?",
            "Orm Air was sold in 2001 to what airline?",
            "X based where?",
        ),
        (
            "The founder of Holt Records went to school in what town?",
            "Who is the founder of Holt Records?",
            "X went to school in what town?",
        ),
    ],
)
def test_a_bridge_question_is_asked_from_the_inside(question: str, first: str, then: str):
    assert next_question(question) == first
    assert put(question, first, "X") == then


@pytest.mark.parametrize(
    "question",
    [
        "Who is the mayor of Ribe?",
        "When was Ines Falk born?",
        "What is the University of Lund?",
        "What is the name of the film directed by Ines Falk?",
        "Who wrote The City and the Stars?",
        "",
        "?",
    ],
)
def test_a_simple_question_is_left_whole(question: str):
    assert next_question(question) is None


@pytest.mark.parametrize(
    ("question", "names", "chain"),
    [
        (
            "Which film came out first, The Grey Harbour or A Winter Song?",
            ["The Grey Harbour", "A Winter Song"],
            ["When was {} released?"],
        ),
        (
            "Who was born later, Tom Ahlgren or Ines Falk?",
            ["Tom Ahlgren", "Ines Falk"],
            ["When was {} born?"],
        ),
        (
            "Which film has the director who died first, Low Tide or Oh, Brother?",
            ["Low Tide", "Oh, Brother"],
            ["Who is the director of film {}?", "When did {} die?"],
        ),
        (
            "Are both Lake Orm and Lake Vidra (Kelm) located in the same country?",
            ["Lake Orm", "Lake Vidra (Kelm)"],
            ["Where is {} located?"],
        ),
        (
            "What profession do Bo Lind and Ada Holt have in common?",
            ["Bo Lind", "Ada Holt"],
            ["What was the profession of {}?"],
        ),
        (
            "Which genus has more species, Orma or Vidria?",
            ["Orma", "Vidria"],
            ["How many species does {} have?"],
        ),
        ("Are Bo Lind and Ada Holt both painters?", ["Bo Lind", "Ada Holt"], ["Is {} painters?"]),
    ],
)
def test_a_comparison_asks_the_same_of_both(question: str, names: list[str], chain: list[str]):
    found = compare(question)
    assert found is not None
    assert [one.name for one in found.things] == names
    assert list(found.chain) == chain


def test_what_is_known_of_a_thing_is_noted_behind_it():
    question = "Which film has the director who died first, Low Tide or High Hat?"
    asked = []
    while part := next_question(question):
        asked.append(part)
        question = put(question, part, f"[answer {len(asked)}; x]")
    assert asked == [
        "Who is the director of film Low Tide?",
        "Who is the director of film High Hat?",
        "When did (answer 1, x) die?",
        "When did (answer 2, x) die?",
    ]
    assert "Low Tide [(answer 1, x); (answer 3, x)] or High Hat [" in question


@pytest.mark.parametrize(
    ("question", "answers", "verdict"),
    [
        ("Who was born first, Ada Holt or Bo Lind?", ("3 May 1899", "12 March 1899"), "Bo Lind"),
        ("Who is younger, Ada Holt or Bo Lind?", ("1899", "12 March 1910"), "Bo Lind"),
        ("Who died earlier, Ada Holt or Bo Lind?", ("44 BC", "AD 1200"), "Ada Holt"),
        ("Which has more bells, Low Church or Old Abbey?", ("52 bells", "1,204"), "Old Abbey"),
        ("Which has fewer bells, Low Church or Old Abbey?", ("52", "seven"), "Old Abbey"),
        ("Are Ada Holt and Bo Lind both painters?", ("yes", "no"), "no"),
        ("Are Ada Holt and Bo Lind both painters?", ("yes", "yes"), "yes"),
        ("Are Lake A and Lake B located in the same country?", ("Ulm, Germany", "Germany"), "yes"),
        ("Do Ada Holt and Bo Lind have the same nationality?", ("Dutch", "Danish"), "no"),
        ("What do Ada Holt and Bo Lind have in common?", ("a tall painter", "painter"), "painter"),
    ],
)
def test_two_answers_are_compared_as_the_question_says(
    question: str, answers: tuple[str, str], verdict: str
):
    found = compare(question)
    assert found is not None
    solved = [(part, answer) for (_, part), answer in zip(found.questions(), answers, strict=True)]
    assert conclude(question, solved) == verdict


@pytest.mark.parametrize(
    ("question", "answer", "first"),
    [
        ("Who is the director of the film The Grey Harbour?", "Ines Falk", "The Grey Harbour"),
        ("When was Ines Falk born?", "3 May 1899", "Ines Falk"),
        ("When did Ines Falk die?", "7 June 1960", "Ines Falk"),
        ("What is the place of birth of Ines Falk?", "Ribe, Denmark", "Ines Falk"),
        ("What is the nationality of Tom Ahlgren?", "Swedish", "Tom Ahlgren"),
        ("Who is the father of Tom Ahlgren?", "Karl Ahlgren", "Tom Ahlgren"),
        ("Who played Captain Orm in The Grey Harbour?", "Bo Lind", "The Grey Harbour"),
        ("How many bells does the cathedral of Ribe have?", "52", "Ribe"),
        ("Who is the mayor of Ribe?", "Anna Berg", "Ribe"),
        ("Is Tom Ahlgren a Swedish director?", "yes", "Tom Ahlgren"),
        ("Is Tom Ahlgren a Swiss clockmaker?", "no", "Tom Ahlgren"),
    ],
)
def test_a_sub_question_finds_its_paragraph_and_its_answer(question: str, answer: str, first: str):
    found = search(DOCUMENT, question)
    assert found.answer == answer
    assert found.titles[0] == first
    assert all(one in DOCUMENT for one in found.evidence)
    assert found.evidence


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was the director of the film The Grey Harbour born?", "3 May 1899"),
        ("Where did Tom Ahlgren's father die?", "Lund"),
        (
            "Which film has the director who was born first, The Grey Harbour or A Winter Song?",
            "The Grey Harbour",
        ),
        ("Who is the mayor of the town where Ines Falk was born?", "Anna Berg"),
    ],
)
def test_hop_by_hop_a_question_is_answered_end_to_end(question: str, answer: str):
    hops, found = walk(DOCUMENT, question)
    assert found == answer
    assert len(hops) > 1


def test_a_link_leads_to_a_paragraph_that_shares_no_word_with_the_question():
    text = (
        "# Low Tide\n\nLow Tide was shot by Vera Kamm.\n\n"
        "# Bo Lind\n\nHe lives in Lund.\n\n# Vera Kamm\n\nShe lives in Ulm."
    )
    assert titles(rank(text, "Who shot Low Tide?")) == ["Low Tide", "Vera Kamm"]


def test_names_days_and_numbers_are_told_by_their_form():
    text = "In Ulm, Ada van Holt met J. R. Orm's sister, and the Duke of Kelm."
    spans = [text[one.start : one.end] for one in capitals(text)]
    assert spans == ["Ulm", "Ada van Holt", "J. R. Orm", "Duke of Kelm"]
    assert day("7 June 1960") == (1960, 6, 7)
    assert day("44 BC") == (-44, 0, 0)
    assert day("soon") is None
    assert [day(f"{name} 4, 1776") for name in ("July", "Jul.", "Sept", "Sept.", "May")] == [
        (1776, 7, 4), (1776, 7, 4), (1776, 9, 4), (1776, 9, 4), (1776, 5, 4),
    ]  # fmt: skip
    assert number("over 1,204 bells") == 1204
    assert number("seven") == 7
    assert number("none") is None


PARAMETERS = (
    Field("expression", "an arithmetic expression", '{"type": "string", "maxLength": 200}'),
    Field("city", "the name of a city", '{"type": "string"}'),
    Field("unit", "of temperature", '{"enum": ["celsius", "kelvin"]}'),
    Field("days", "how many", '{"type": "integer", "minimum": 1, "maximum": 7}'),
    Field("share", "from 0 to 1", '{"type": "number", "maximum": 1}'),
    Field("loud", "whether", '{"type": "boolean"}'),
    Field("words", "to look for", '{"type": "array", "items": {"type": "string"}}'),
    Field("since", "a date", '{"anyOf": [{"type": "string"}, {"type": "null"}]}'),
    Field("place", "where", '{"type": "object", "properties": {"lake": {"type": "string"}}}'),
)
INPUT = Schema("rebel_input", "Fill in the parameters.", PARAMETERS)


def schema(name: str) -> Schema:
    return INPUT if name == "rebel_input" else load_schema(name)


def filled(name: str, document: str | None = DOCUMENT, **told: Value) -> dict[str, Any]:
    source = None if document is None else Source("document", document)
    call = FillSchema(schema(name), tuple(told.items()), source)
    found, wrong = read_object(fill(call), call.schema)
    assert found is not None, wrong
    return found


def test_the_states_of_fsm_lead_to_the_answer():
    question = "When was the director of the film The Grey Harbour born?"
    part = filled("fsm_decompose", question=question, solved=[])
    assert part["kind"] == "compound"
    found = filled("fsm_search", sub_question=part["sub_question"])
    revised = filled(
        "fsm_revise",
        question=question,
        sub_question=part["sub_question"],
        answer=found["answer"],
    )["question"]
    assert revised == "When was Ines Falk born?"
    asked = {"question": revised, "sub_question": part["sub_question"]}
    assert filled("fsm_judge", **asked)["same"] is False
    assert filled("fsm_judge", question=revised, sub_question=revised)["same"] is True
    assert filled("fsm_decompose", question=revised, solved=[]) == {
        "kind": "simple",
        "sub_question": revised,
    }
    solved: list[Value] = [f"{part['sub_question']} -> Ines Falk", f"{revised} -> 3 May 1899"]
    assert filled("fsm_summarise", question=question, solved=solved) == {"answer": "3 May 1899"}
    told = filled("fsm_review", question=question, solved=solved, answer="3 May 1899")
    assert told["triples"] == [
        ["The Grey Harbour", "director", "Ines Falk"],
        ["Ines Falk", "date of birth", "3 May 1899"],
    ]
    assert len(told["supporting_facts"]) == 2


def test_a_refused_sub_question_is_not_asked_again():
    question = "Who is the mayor of the town where the director of Low Tide was born?"
    first = filled("fsm_decompose", question=question, solved=[])["sub_question"]
    refused: list[Value] = [f"{first} (the paragraphs do not say)"]
    again = filled("fsm_decompose", question=question, solved=[], refused=refused)
    assert again["sub_question"] not in (first, "")


def test_react_searches_for_what_is_open_and_finishes():
    question = "When was the director of the film The Grey Harbour born?"
    first = filled("react_step", None, question=question, steps=[])
    assert (first["action"], first["input"][:3]) == ("Search", "Who")
    seen = "The Grey Harbour: The Grey Harbour is a film directed by Ines Falk."
    steps: list[Value] = [f"Thought: t Action: Search[{first['input']}] Observation: {seen}"]
    second = filled("react_step", None, question=question, steps=steps)
    assert (second["action"], second["input"]) == ("Search", "When was Ines Falk born?")
    seen = "Ines Falk: Ines Falk (3 May 1899 – 7 June 1960) was a Danish film director."
    steps.append(f"Thought: t Action: Search[{second['input']}] Observation: {seen}")
    last = filled("react_step", None, question=question, steps=steps)
    assert (last["action"], last["input"]) == ("Finish", "3 May 1899")


@pytest.mark.parametrize("name", ["answer_question", "reason_answer", "answer_with_evidence"])
def test_nothing_is_known_without_a_document(name: str):
    question = "Answer SUPPORTS or REFUTES. Claim: Ines Falk is a Danish film director."
    assert filled(name, None, question=question)["answer"] == ""


def test_rebel_splits_and_knows_when_the_facts_settle_it():
    question = "Who was born first, Ines Falk or Tom Ahlgren?"
    asked = filled("rebel_split", None, question=question, answered=[])["sub_questions"]
    assert asked == ["When was Ines Falk born?", "When was Tom Ahlgren born?"]
    facts: list[Value] = [f"{asked[0]}: 3 May 1899"]
    assert not filled("rebel_memory", None, question=question, facts=facts)["answerable"]
    facts.append(f"{asked[1]}: 12 March 1910")
    assert filled("rebel_memory", None, question=question, facts=facts)["answerable"]
    assert filled("rebel_answer", None, question=question, facts=facts)["answer"] == "Ines Falk"
    assert filled("rebel_split", None, question=asked[0], answered=[])["sub_questions"] == []


@pytest.mark.parametrize(
    ("question", "tool"),
    [
        ("What is 17 * (4 + 5)?", "calculator"),
        ("What will the weather be in Ulm?", "weather"),
        ("Who wrote The Grey Harbour?", "archive"),
    ],
)
def test_rebel_chooses_the_tool_that_is_most_like_the_question(question: str, tool: str):
    tools = (
        "weather: The weather of a city on a day.\n"
        "calculator: Calculates an arithmetic expression.\n"
        "archive: Searches articles."
    )
    assert filled("rebel_tool", None, question=question, tools=tools) == {"tool": tool}
    assert filled("rebel_tool", None, question=question, tools="") == {"tool": "none"}


def test_a_tools_input_is_filled_by_type_and_with_what_is_known():
    question = "How warm is the town where Ines Falk was born, in kelvin, for 3 days, 2 * 8.5?"
    facts: list[Value] = ["What is the town where Ines Falk was born?: Ribe"]
    found = filled("rebel_input", None, question=question, facts=facts)
    assert found["expression"] == "2 * 8.5"
    assert found["city"] == "Ribe"
    assert found["unit"] == "kelvin"
    assert found["days"] == 3
    assert found["since"] is None


@pytest.mark.parametrize(
    ("question", "reply", "answer"),
    [
        ("How many crowns is the rate?", '{"from": "CHF", "rate": 11.42}', "11.42"),
        ("Who directed Low Tide?", '[{"title": "Low Tide", "text": "Low Tide is a film directed '
         'by Vera Kamm."}]', "Vera Kamm"),
        ("Who directed Low Tide?", "Low Tide is a film directed by Vera Kamm.", "Vera Kamm"),
        ("What is 6 * 7?", "42", "42"),
        ("Who directed Low Tide?", "", None),
        ("Who directed Low Tide?", "{}", None),
    ],
)  # fmt: skip
def test_an_answer_is_read_from_a_tools_reply(question: str, reply: str, answer: str | None):
    assert filled("rebel_read", None, question=question, reply=reply)["answer"] == answer


@pytest.mark.parametrize(
    ("question", "long", "short"),
    [
        ("Is it cold?", "Yes, it is very cold there in winter.", "yes"),
        ("When was she born?", "She was born on 3 May 1899 in a town in Jutland.", "3 May 1899"),
        ("Answer SUPPORTS or REFUTES. Claim: Ulm is old.", "The text REFUTES it all.", "REFUTES"),
        ("Who was it?", "Ines Falk.", "Ines Falk"),
    ],
)  # fmt: skip
def test_a_long_answer_is_made_short(question: str, long: str, short: str):
    assert filled("short_answer", None, question=question, answer=long)["answer"] == short


NAMES = ("question", "sub_question", "answer", "reply", "tools")
LISTS = ("solved", "refused", "facts", "answered", "steps")


def told(text: str, listed: list[str]) -> dict[str, Value]:
    """What any call may be given: too much for each, and enough for all."""
    return {**dict.fromkeys(NAMES, text), **{one: list[Value](listed) for one in LISTS}}


HOSTILE = {
    "empty": "",
    "no capitals": "who is the father of the man who wrote the book that nobody read or saw",
    "long": "When was the director of the film that " * 500,
    "brackets": "Which came first, A [x; [y] or B [z]] or C ]; [?" * 9,
    "names": "Who is the A's B's C's D's E's mother's father's " + "Of The And Or " * 50,
    "unicode": "Wer ist \u0130\u0307\u017f\u1e9e\u202e \ud83d\ude00 \u0645 \u8c01 or \u00dcber?",
    "blanks": "\u00a0\n\t\r\x0b\x00 ?",
    "dashes": "(" + "1111-" * 300 + " or " + "a, " * 200 + "B and C",
    "arrows": "-> -> a -> b ?: c: d",
}


@pytest.mark.parametrize("name", [*MULTIHOP])
@pytest.mark.parametrize("hostile", [*HOSTILE])
def test_hostile_input_is_answered_in_the_demanded_form(name: str, hostile: str):
    text = HOSTILE[hostile]
    started = time.process_time()
    for document in (None, "", text, DOCUMENT):
        filled(name, document, **told(text, [text, f"{text}? -> {text}", f"{text}?: {text}"]))
    assert time.process_time() - started < 3


TEXTS = st.one_of(
    st.text(max_size=80),
    st.lists(
        st.sampled_from(
            "Who is the father of Ada Holt 's mother , or [ ] ; -> ? and both that born 1899 "
            "where ( ) Low Tide director film \u00dcber first named did die the 3 May".split()
        ),
        max_size=25,
    ).map(" ".join),
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*MULTIHOP]), TEXTS, st.lists(TEXTS, max_size=3), st.none() | TEXTS)
def test_any_text_is_answered_in_the_demanded_form(
    name: str, text: str, listed: list[str], document: str | None
):
    filled(name, document, **told(text, listed))


@given(TEXTS)
def test_a_part_is_a_piece_of_its_question(text: str):
    for part in parts(text):
        assert 0 <= part.start < part.end <= len(text)
        assert part.question.strip()


def test_a_reply_that_is_sent_back_is_given_again():
    """So that the complaint told at last is the one about the first reply."""
    call = FillSchema(schema("short_answer"), (("question", "Who?"), ("answer", "Ada Holt.")))
    first, again = (
        asyncio.run(Offline().answer(Request(one, (), "1", "k"))).text
        for one in (call, CorrectFilled(call, "{}", "too long"))
    )
    assert again == first != "{}"


def test_a_schema_without_anything_given_is_filled():
    for name in MULTIHOP:
        call = FillSchema(schema(name), ())
        assert read_object(json.dumps(MULTIHOP[name](call)), call.schema)[0] is not None, name
