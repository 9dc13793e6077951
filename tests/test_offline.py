"""The embedded reader: no model, but honest, deterministic, and clean."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pearl
from pearl.lang.ast import DOCUMENT, Action, Literal, Param, Ref, Step
from pearl.lang.library import Library, load_library
from pearl.lang.source import Source
from pearl.lang.values import TYPES, Pairs, decode
from pearl.models import offline as reading
from pearl.models import offline_planning as planning
from pearl.models.base import ModelError, Request
from pearl.models.offline import NOTHING, Offline, carry_out
from pearl.models.offline_planning import names, read_question
from pearl.prompts.calls import (
    Call,
    CorrectPlan,
    ExecuteStep,
    LabelQuestion,
    MapAnswer,
    NextStep,
    WritePlan,
)
from pearl.retrieval.converters import read_document
from pearl.retrieval.terms import sentences
from tests.conftest import ROOT
from tests.shell import call, one_line, read_rows

EXAMPLES = ROOT / "plans" / "examples"
QUESTIONS = [row for file in sorted(EXAMPLES.glob("*.questions.jsonl")) for row in read_rows(file)]


def ask(text: str, question: str = "Why did Ada leave?", **options) -> pearl.Answer:
    return pearl.ask_sync(Source("x.txt", text), question, model=Offline(), **options)


def answered(row: dict) -> pearl.Answer:
    """The answer to a question of the examples."""
    document, options = EXAMPLES / row["document"], row["options"]
    return pearl.ask_sync(document, row["question"], options=options, model=Offline())


def plan(question: str, library: Library | None = None) -> str:
    return planning.write(WritePlan(question, library or load_library()))


def steps(question: str) -> list[str]:
    """The plan's calls, without names and notes."""
    lines = plan(question).splitlines()[2:]
    return [line.split(" = ", 1)[1].split(" : ")[0] for line in lines]


# --- the example questions ---


@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row["id"])
def test_every_example_question_is_answered_with_the_documents_words(row: dict):
    document = (EXAMPLES / row["document"]).read_text(encoding="utf-8")
    answer = answered(row)
    assert answer.evidence
    for quote in answer.evidence:
        assert quote.span
        assert document[quote.span.start : quote.span.end] == quote.text
    assert answer.option
    assert answer.option.text in (row["options"] if answer.option.letter else [""])
    assert pearl.check(answer.plan) == []
    assert not answer.fallback
    assert "No language model" in answer.notice


@pytest.mark.parametrize("row", QUESTIONS, ids=lambda row: row["id"])
def test_the_examples_reference_evidence_is_in_the_document(row: dict):
    document = (EXAMPLES / row["document"]).read_text(encoding="utf-8")
    assert [one for one in row["evidence"] if one not in document] == []
    assert len(row["options"]) == 4
    assert row["gold"] in "ABCD"


def answers() -> str:
    """All of the answers to a few questions."""
    rows = [row for row in QUESTIONS if row["document"] == QUESTIONS[0]["document"]][:4]
    made = map(answered, rows)
    return "".join(f"{one.text}{one.evidence}{one.plan}{one.option}" for one in made)


def test_a_store_gives_no_reply_of_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = str(tmp_path / "s.db")
    kept = [ask("Ada left because of Bo.", store=store).kept for _ in range(2)]
    assert kept[0] == 0 < kept[1]
    copytree(ROOT / "pearl", tmp_path / "pearl", ignore=ignore_patterns("static", "__pycache__"))
    (tmp_path / "pearl/retrieval/terms.py").write_text("CHANGED = 1", encoding="utf-8")
    monkeypatch.setattr(reading, "files", lambda name: tmp_path / name)
    assert ask("Ada left because of Bo.", store=store).kept == 0


def test_two_processes_give_one_answer():
    code = "from tests.test_offline import answers; print(answers(), end='')"
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    other = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    assert len(other.stdout) > 2_000
    assert other.stdout == answers()


# --- plans ---

ODD = (
    "?", "Why", "Was?", "Почему Мара ушла?", "为什么?", "X" * 3000, '"', "\\", "{mara} left?",
    "how {x} is \"y\" 'z'", "CTX", "each where return", "between true and false?",
    "between Mara and Mara?", "What's the relation between topic and answer?",
    "What is the relationship between the event and the event?", "How does Ada feel about values?",
    "Why? Why? Why?", "- None", "New actions:", "1. a = SUMMARIZE(CTX) : all",
)  # fmt: skip


@pytest.mark.parametrize("libraries", [(), ("core",), ("quality",)])
def test_plans_check_clean(libraries: tuple[str, ...]):
    library = load_library(*libraries)
    for question in [row["question"] for row in QUESTIONS] + list(ODD):
        written = plan(question, library)
        assert written
        assert pearl.check(written, library) == [], written
        call = CorrectPlan(WritePlan(question, library), "1. a = NO(CTX)", "rejected")
        assert pearl.check(planning.write_shortest(call.write), library) == []


@pytest.mark.parametrize("file", ["mined_actions_81.txt", "mined_actions_407.txt"])
def test_plans_with_mined_libraries_for_questions_nobody_tuned_for(shared: Path, file: str):
    rows = read_rows(shared / "quality" / "questions_outside_challenge_set.jsonl")
    library = load_library(str(shared / "pearl_gpt4" / file))
    for row in rows[::15]:
        written = plan(row["question"], library)
        assert pearl.check(written, library) == [], written


@settings(derandomize=True, max_examples=25)
@given(st.one_of(st.text(max_size=60), st.text("{}aB. ?[0", max_size=30)))
def test_any_question_has_a_clean_plan(question: str):
    question = " ".join(question.split())
    if question:
        written = plan(question, load_library("core"))
        assert pearl.check(written, load_library("core")) == [], written


def test_a_library_no_action_of_which_can_be_asked_gives_no_plan():
    actions = load_library("core").actions.items()
    bare = Library(("bare",), {name: one for name, one in actions if one.is_builtin})
    assert plan("Why?", bare) == ""


@pytest.mark.parametrize(
    ("actions", "called"),
    [
        ("FIND_CLAUSE(CTX, TOPIC) : Find the clause on TOPIC.", "FIND_CLAUSE"),
        ("FIND_CLAUSE(CTX, Topic: text) -> list : List the clauses on Topic.", "FIND_CLAUSE"),
        ("SORT(CTX, LIST) : Sort LIST.\nPICK(CTX, OF: list) : Pick.\nSEE(CTX, IT) : See.", "SEE"),
        ("IS_SOLD(CTX, X) -> bool : Is X sold?\nCOUNT_BOATS(CTX, X) -> number : Count X."
         "\nLIST_BOATS(CTX, X) -> list : List X.", "LIST_BOATS"),
        ("CHECK_SALE(CTX, X) -> bool : Is X sold?", "ANSWER_DIRECTLY"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("question", ["How many boats did Bo sell?", "Where was Bo with a boat?"])
def test_a_plan_has_an_action_that_takes_a_text_and_can_be_carried_out(
    actions: str, called: str, question: str
):
    Path("own.actions").write_text(actions, encoding="utf-8")
    answer = ask("Bo sold seven boats in Ulm.", question, library="own.actions")
    assert f" = {called}(CTX, " in answer.plan
    assert answer.text == "Bo sold seven boats in Ulm."


def test_a_library_without_an_action_to_plan_with_is_told_what_is_needed():
    Path("own.actions").write_text("CHECK_SALE(CTX, X) -> bool : Is X sold?", encoding="utf-8")
    told = call("plan", "Why?", "--library", "own.actions", "--model", "offline")
    assert told.code == 1
    assert told.err.splitlines()[-1] == (
        "pearl: No plan was accepted after 3 attempts. The offline reader plans with actions that "
        "take CTX and one text, and give text or a list: use a library that has one, or another "
        "model."
    )


def test_planning_knows_no_action_by_name():
    folder = Path(planning.__file__).parent
    source = "".join(file.read_text(encoding="utf-8") for file in folder.glob("offline*.py"))
    for name in load_library().actions:
        assert name not in source


@pytest.mark.parametrize(
    ("question", "clause", "scene"),
    [
        ("Why does Mara leave the lighthouse?", "Mara leave the lighthouse", ""),
        ("Why, most probably, did Bo lie?", "Bo lie", ""),
        ("Which of these best states the main argument?", "the main argument", ""),
        ("Which best describes Mara's plan?", "Mara's plan", ""),
        ("What would best describe the tone?", "the tone", ""),
        ("Taken together, what do the two scenes show?", "the two scenes show", ""),
        ("According to the author, why did it fail?", "it fail", ""),
        ("Of the following ways, which would she choose?", "she choose", ""),
        ("What qualities does Bo value?", "qualities Bo value", ""),
        ("Which of these statements about Bo is NOT true?", "Bo", ""),
        ("Bo is tired. How does he sleep?", "he sleep", "Bo is tired."),
        ("Why did Mr. Orde of St. Abbs leave?", "Mr. Orde of St. Abbs leave", ""),
        ("Does Bo know?", "Bo know", ""),
        ("The crew agrees that", "The crew agrees that", ""),
        ("How?", "How", ""),
    ],
)
def test_a_question_is_about_its_clause(question: str, clause: str, scene: str):
    asked = read_question(question)
    assert (asked.clause, asked.scene) == (clause, scene)


@pytest.mark.parametrize(
    ("question", "pair"),
    [
        ("What is the relation between Bo and the Board?", ("Bo", "the Board")),
        ("How does Bo feel about the sale?", ("Bo", "the sale")),
        ("What is Mara's attitude to her father?", ("Mara", "her father")),
        ("How did Niobe compare to other planets?", ("Niobe", "other planets")),
        ("How does the essay use what Bo felt about it?", None),
        ("Why does Bo leave?", None),
    ],
)
def test_two_parties_are_seen(question: str, pair: tuple[str, str] | None):
    assert read_question(question).pair == pair


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Why did Mara leave the Garrow?", ["Mara", "Garrow"]),
        ("Rusk takes it. What does Mr. Orde say of E. P. Thompson's book?",
         ["Rusk", "Mr. Orde", "E. P. Thompson"]),
        ("Which is NOT true of the United States of America?", ["United States of America"]),
    ],
)  # fmt: skip
def test_names_are_seen(text: str, found: list[str]):
    assert names(text) == found


@pytest.mark.parametrize(
    ("question", "calls"),
    [
        ("Why does Bo lie?", 'FIND_EVENT(CTX, "Bo lie"); FIND_REASON(CTX, event)'),
        ("What is the meaning of the red chair?",
         'SUMMARIZE_TOPIC(CTX, "the red chair"); FIND_MEANING(CTX, topic)'),
        (
            "How does Bo feel about the sale in Ulm?",
            'FIND_CHARACTER(CTX, "Bo"); SUMMARIZE_TOPIC(CTX, "the sale in Ulm"); '
            "FIND_EMOTION(CTX, bo, sale_in_ulm)",
        ),
        ("What is the main idea of the text?", "FIND_MAIN_IDEA(CTX)"),
        ("Who is Bo?", 'FIND_CHARACTER(CTX, "Bo")'),
        ("What was in the box?", 'SUMMARIZE_TOPIC(CTX, "in the box")'),
        ("If Bo had stayed, what would have happened?",
         'SUMMARIZE_TOPIC(CTX, "Bo had stayed"); PREDICT_HYPOTHETICAL(CTX, topic)'),
        ("Which of these is NOT true of Bo?", 'SUMMARIZE_TOPIC(CTX, "NOT true of Bo")'),
        ("How many boats are there?", 'SUMMARIZE_TOPIC(CTX, "boats there")'),
    ],
)  # fmt: skip
def test_the_form_of_a_question_chooses_its_steps(question: str, calls: str):
    assert "; ".join(steps(question)) == calls


# --- reading ---


@pytest.mark.parametrize(
    "marked",
    [
        '|"No. That is so. I liked it," he said.| |She left.|\n\n'
        '|"Then go. Now!"| |Mr. Orde was in.|',
        "|“Go. Now,” she said.| |He ran.| |“I won't. Ever.”|",
        "|“It goes on.|\n\n|“And on.”| |He ran.|",
        "|It was No. 5 of E. P. Thompson's at 11.35 p.m. in the log.| |No.| |It was I.| "
        "|She left.|",
        "|MR. FREW: Did you see it?| |MS. LUND: I object.|\n\n"
        "|IT IS IN VOL. 2, FIGS. 3 AND 4, NO. 5.| |IT SANK.|",
        "|CHAPTER ONE|\n|The ship sailed.| |It sank.|",
        "|Rash\t\t4\nHeadache\tat night|",
        "|It had\nsailed to Ulm\nand Kiel.|",
        "|- one|\n|- two.| |Three.|",
        "|## 8. Governing Law|\n\n|8.1 Swedish law applies.|",
        "|LEASE|\n|1. The rent is due.| |So is gas.|\n|1.2 Mr. Orde pays.|\n|2) Ada does not|",
        "|4.2. Ada pays.| |It is due.|\n|4.3. Bo pays.|\n\n|§ 7. Cy pays.|\n\n|Art. 5. Di pays.|",
        "|Section 4. Ada pays.|\n\n|IV. Bo pays.|\n\n|B.2. Cy pays.|\n\n|In section 4.| |Di left.|",
        "|§ 3 Der Mieter zahlt.|\n|§ 4 Die Kaution folgt\n§ 551 BGB.| |§§ 5, 6 gelten.|",
        "|The oven cooled in\n3.5 hours.|\n|## Fees (a year)|\n|Ada pays.|",
        "|Ада уехала.| |Она не вернулась.|",
        "|他走了。||她没有回来。|",
        "|Er endet am 31. März 2035.| |Er kam on 3. May, le 14. Juillet.| |It was 7.| |Ada left.|",
        "|no end|",
        '|id,name,fee|\n|1,Ada,"4, at least"|\n|2,Bo,5|\n|3,Cy,6|',
        "|name;fee|\n|Ada;4|\n|Bo;5|",
        "|It had, so it, was\nsaid, of Ada, who\nwas, as Bo, said, ill.|",
        "|BURIALS|\n|1801\tAda Pope\t3\tfever|\n|1802\tBo\t60\tfell. Left a wife|\n|Sum\t2|",
        "|year,name,cause|\n|1801,Ada,fever|\n|1802,Bo,a fall|\n|Total,2|",
        "|1801: Ada Pope aged 3 of fever|\n|1802: Bo Hill aged 60 of a fall\nfrom the tower|\n"
        "|1803: Cy Orr aged 4|",
        "|They were counted by two clerks.|\n|Name      Born  Town|\n|Ada Pope  1801  Ulm|\n"
        "|Bo Hill   1790  Kiel|\n|Cy Orr    1811  Ulm|",
        "|Ada Pope 1801 Ulm|\n|Bo Hill 1790 Kiel|\n|Cy Orr 1811 Ulm|",
        "|name: Ada\ntown: Ulm|\n|name: Bo\nborn: 1790\ntown: Kiel|",
        "|Name: Ada\nTown: Ulm|\n|Name: Bo\nBorn: 1790\nTown: Kiel|",
        "|Age: 4\nRole: nurse\nTown: Ulm|\n\n|Scene: a kitchen|\n|Anna: Come in.|",
        "|Guests|\n|Name: Ada\nBorn: 1790\nTown: Kiel|",
        "|Mill Lane is closed until the winter|\n|New lamps|\n|Ada Pope is thanked|\n|No fence|",
        "|It was in the spring of the year\nthat Ada came to the mill, and when\n"
        "Bo Hill had seen her cart he asked who\nMr. Orr was, and was told.| |Then\nhe left.|",
        "|Die Brücke am Markt baute damals\nein Huber, der aus Graz kam und dort viele\n"
        "Brücken und Mühlen gebaut hatte, wie\nMayr sagte.|",
        '|"I am."|\n|"You are the one from the\nGarrow."|\n|"I am."|\n|"Go."|\n|"Not for a letter,'
        ' but for\nBo I will."|',
        "|Who has the meadow when the bells are still,\nAnd who the river and the road to Ulm,\n"
        "Let him remember those who built the mill\nAnd sleep beneath the linden and the elm|",
        "",
        " \n\n \n",
    ],
)
def test_sentences(marked: str):
    """Each sentence stands between two strokes."""
    text = marked.replace("|", "")
    assert [text[span.start : span.end] for span in sentences(text)] == marked.split("|")[1::2]


@pytest.mark.parametrize("name", ["lighthouse", "timekeeping"])
def test_sentences_cover_a_document_without_overlap(name: str):
    text = (EXAMPLES / f"{name}.txt").read_text(encoding="utf-8")
    spans = sentences(text)
    assert "".join(text.split()) == "".join("".join(text[a:b].split()) for a, b in spans)
    assert all(one.end <= other.start for one, other in pairwise(spans))
    assert max(span.end - span.start for span in spans) < 600


@given(st.text('Ab.!?"“” \n-1\t,:', max_size=80))
def test_sentences_lose_nothing(text: str):
    spans = sentences(text)
    assert "".join(text.split()) == "".join("".join(text[a:b].split()) for a, b in spans)


def test_a_stray_quotation_mark_holds_little_together():
    text = 'The gun was 5" long. ' + "The tide came in. " * 200
    assert len(sentences(text)) > 150


def test_text_without_an_end_is_cut_at_white_space():
    assert all(span.end - span.start <= 1000 for span in sentences("word " * 3000))


@pytest.mark.parametrize(
    "text",
    [
        "One sentence only.",
        "no end and no capitals here at all",
        "Ada left",
        "42 17 3\n\n8 9",
        "Ада уехала. Она не вернулась.\n\nОстров закрыт.",
        "他走了。她没有回来。",
        "- a list\n- of things\n- without sentences",
        "?" * 50,
        "\u2028\u0085 \u200b",
        "Ada left.\r\n\r\nShe was tired of it.\r\n",
    ],
)
def test_documents_that_are_no_prose(text: str):
    answer = ask(text, options=["one", "two"])
    for quote in answer.evidence:
        assert quote.span
        assert text[quote.span.start : quote.span.end] == quote.text
    assert answer.text
    assert answer.option


def test_a_long_document_is_read_to_its_end():
    filler = "The tide came in and went out again over the grey stones. " * 3_000
    text = filler + "\n\nThe zeppelin burned because the mooring rope had frayed."
    assert len(text) > 150_000
    assert "mooring rope" in ask(text, "Why did the zeppelin burn?").text


@pytest.mark.parametrize(
    "text", ["x" * 200_000, "word " * 40_000, '"' * 80_000, "Mr. " * 20_000, "A  b\n" * 40_000]
)
def test_a_long_document_without_sentences_is_read_in_sane_time(text: str):
    assert ask(text).text


STORY = Source("s", "Ada lives in Ulm. Bo sold seven boats in 1,884. No one knows why he did it.")


def carried_out(returns, argument: str, document: Source | None = STORY) -> str:
    action = Action("FIND_IT", (Param(DOCUMENT), Param("X")), returns, "Find X in CTX.")
    step = Step("a", "FIND_IT", (Ref(DOCUMENT), Literal(argument)))
    return reading.carry_out(ExecuteStep(document, action, step, (("X", argument),)))


@pytest.mark.parametrize("document", [STORY, Source("n", "Nothing."), None])
@pytest.mark.parametrize("returns", TYPES)
def test_every_type_is_quotes_but_numbers_and_truth_values_which_take_a_model(
    returns, document: Source | None
):
    if noun := {"number": "number", "bool": "yes or no"}.get(returns):
        with pytest.raises(ModelError, match=f"quotes, and gives no {noun}: use a language model"):
            carried_out(returns, "Bo sold seven boats in 1,884", document)
    else:
        decode(carried_out(returns, "Bo sold seven boats in 1,884", document), returns)


def test_an_option_is_a_guess_even_where_a_sentence_holds_it():
    answer = ask("Ada left to go to Ulm.", "Where did Ada go?", options=("Kiel", "Ulm"))
    assert answer.option
    assert (answer.option.letter, answer.option.fits, answer.guessed) == ("B", False, True)
    assert "picked by words alone" in answer.notice


@pytest.mark.parametrize("none", ["none", "none of these", "Nothing", "no"])
def test_an_option_that_says_none_is_no_answer_of_the_reader(none: str):
    text = "The provider is liable for up to 250,000 euros an event."
    options = ("1.2 million dollars", "90 days", none)
    answer = ask(text, "Who is the mayor of Trieste?", options=options)
    assert answer.option
    assert (answer.option.letter, answer.option.fits) == ("", False)


def test_a_heading_is_quoted_only_where_it_alone_has_a_word():
    text = "# The Survey of Brackwater: a report\n\nAda Finch made the survey of Brackwater."
    answer = ask(text, "Who made the survey of Brackwater?")
    assert [quote.text for quote in answer.evidence] == ["Ada Finch made the survey of Brackwater."]
    answer = ask(text, "What does the report on Brackwater say?")
    assert "# The Survey of Brackwater: a report" in [quote.text for quote in answer.evidence]


@pytest.mark.parametrize(
    "heading",
    [
        "8. GOVERNING LAW AND JURISDICTION",
        "GOVERNING LAW",
        "## 8. Governing law",
        "8 Governing law",
    ],
)
@pytest.mark.parametrize("clause", ["Swedish law applies.", "8.1 That of Sweden applies."])
def test_the_first_sentence_below_a_heading_is_quoted_and_not_the_heading(
    heading: str, clause: str
):
    others = "It is governed by the terms below. Mandatory law is unaffected by this clause."
    text = f"1. PARTIES\n\n{others}\n\n{heading}\n\n{clause} Fees are due in May.\n"
    quotes = [quote.text for quote in ask(text, "What is the governing law?").evidence]
    assert quotes[0] == clause
    assert heading not in quotes


@pytest.mark.parametrize("heading", ["## Liability cap", "9. Liability cap", "LIABILITY CAP"])
def test_a_sentence_that_has_no_word_of_its_heading_ranks_before_it(heading: str):
    text = f"It binds both.\n\n{heading}\n\nTwo million euros. The liability for gas is separate.\n"
    quotes = [quote.text for quote in ask(text, "What is the liability cap?").evidence]
    assert quotes[:2] == ["Two million euros.", heading]


def test_a_sentence_that_has_the_words_of_its_heading_is_quoted_for_it_and_not_the_first():
    rent = "The rent is 950 euros a month."
    text = f"7. RENT\n\nSee the annex for definitions. {rent}\n\n8. GAS\n\nGas is billed apart.\n"
    assert [quote.text for quote in ask(text, "What is the rent?").evidence] == [rent]


def test_a_heading_without_words_of_the_question_lends_none():
    rent = "The rent is 950 euros a month."
    text = f"## Extras\n\nSee rent.\n\n## Sums\n\n{rent}\n"
    assert [quote.text for quote in ask(text, "What is the rent?").evidence] == [rent]


def test_what_only_a_heading_bears_on_ranks_after_a_sentence_that_has_the_words_itself():
    text = "# Term\n\n## Rent\n\nAs agreed.\n\n## Other\n\nThe rent is 950 euros.\n"
    quotes = [quote.text for quote in ask(text, "What is the rent?").evidence]
    assert quotes == ["The rent is 950 euros.", "As agreed."]


@pytest.mark.parametrize("date", ["{} May 1904", "{} MAY 1904", "{}. Mai 1904", "{} MAY", "MAY {}"])
def test_a_date_is_no_heading(date: str):
    text = f"{date.format(12)}\nShe sank off Ulm.\n\n{date.format(14)}\nThey came home.\n"
    quotes = [quote.text for quote in ask(text, f"What of {date.format(12)}?").evidence]
    assert quotes
    assert not {"She sank off Ulm.", "They came home."} & {*quotes}


def test_the_name_of_who_speaks_and_a_price_are_no_headings():
    text = "MARA\nI left in May.\n\nORDE\nThe rent was 900 euros.\n\nMARA\nHe asked for it twice.\n"
    quotes = [quote.text for quote in ask(text, "What was the rent of Mara?").evidence]
    assert "I left in May." not in quotes
    text = "Prices\n5 euros for a child\n9 euros for an adult\nAll prices include tax.\n"
    quotes = [quote.text for quote in ask(text, "What is the price for an adult?").evidence]
    assert quotes[0] == "9 euros for an adult"


def test_an_item_of_a_list_is_no_heading():
    text = "1. Rent of the whole old mill\n2. Rent of the boats\n3. Gas.\n"
    quotes = [quote.text for quote in ask(text, "What is the rent of the mill?").evidence]
    assert quotes == ["1. Rent of the whole old mill", "2. Rent of the boats"]


@pytest.mark.parametrize(
    ("text", "question", "first"),
    [
        ("The board met on a Monday. Present were seven.", "Which seven were present?",
         "Present were seven."),
        ("He sat down on the stairs and wept for her father. He did not shout.",
         "Who did not shout at her father?", "He did not shout."),
        ("Mix well, and wait.\n\n| Reagent | Volume |\n|---|---|\n| Buffer | 2 ml |\n"
         "| Ethanol | 4 ml |\n", "How much ethanol?", "| Ethanol | 4 ml |"),
        # What answers a question of the document stands before it.
        ("CHAIR: Who approved the crane?\nOLSEN: It was the director.\nCHAIR: So be it.\n",
         "Who approved the crane?", "OLSEN: It was the director.\nCHAIR: Who approved the crane?"),
    ],
)  # fmt: skip
def test_a_short_sentence_and_a_row_of_a_table_are_quoted(text: str, question: str, first: str):
    lines = first.splitlines()
    assert ask(text, question).text.splitlines()[: len(lines)] == lines


def test_a_passage_of_a_transcript_is_shown_with_who_speaks():
    said = "I was told that the limit was suspended."
    text = f"[09:05] BO: Eleven knots. {said}\n[09:06] CHAIR: Who told you of the limit?\n{said}\n"
    Path("t.txt").write_text(text, encoding="utf-8")
    asked = ("ask", "t.txt", "What limit was suspended?", "--model", "offline")
    told = call(*asked).out
    assert call("runs", "show", "last", "--html", "run.html").code == 0
    page = Path("run.html").read_text(encoding="utf-8")
    assert f'<blockquote><span class="dim">[09:05] BO: …</span> {said}</blockquote>' in page
    quotes = call(*asked, "--json").json["evidence"]
    assert {one["text"]: one["speaker"] for one in quotes}[said] == "[09:05] BO:"
    assert "" in {one["speaker"] for one in quotes}
    assert f"\nline 1: [09:05] BO: … {said}\n" in told
    assert "\nline 2: [09:06] CHAIR: Who told you of the limit?\n" in told
    bold = f"**Bo Hill:** Eleven knots. {said}\n\n**Chair:** Who?\n\n**Bo Hill:** Nobody. {said}\n"
    Path("t.md").write_text(bold, encoding="utf-8")
    assert f"\nline 1: Bo Hill: … {said}\n" in call("ask", "t.md", *asked[2:]).out
    form = "Inspector: Ruth Adler. Next inspection of the harbour cranes on 3 September.\n"
    Path("f.txt").write_text(form, encoding="utf-8")
    told = call("ask", "f.txt", "Who is the inspector?", "--model", "offline").out
    assert "line 1: Inspector: Ruth Adler.\n" in told
    assert "…" not in told


def test_a_clause_is_found_by_its_number():
    text = "".join(f"{at}.2 The provider bears the cost of clause {at}.\n\n" for at in range(2, 30))
    told = pearl.ask_sync(Source("x", text), "What does clause 12.2 say?", model=Offline())
    assert told.text.startswith("12.2 ")
    assert "clause" not in told.lacks
    none = pearl.ask_sync(Source("x", text), "What does clause 31.2 say?", model=Offline())
    assert "31.2" in none.lacks


@pytest.mark.parametrize(
    ("question", "lacks"),
    [
        ("How many zebras did the keeper's son feed?", ("zebras", "feed")),
        ("What did the keeper's son sell?", ()),
        ("Which zebras sell boats?", ("zebras",)),
        ("Wie viele boats? Warum Zebras?", ("Zebras",)),
        ("Pourquoi sell boats?", ()),
        ("Why wouldn't he sell boats, and who isn’t the keeper's son?", ()),
        ("What boats did each other son sell again before?", ()),
        ("Did the keeper's son own boats?", ("own",)),
        ("Did the keeper's own son sell his own boats?", ()),
        ("Lesquels sell boats? Qu'est-ce que Zebras?", ("Zebras",)),
        ("Dov'è Zebras? Perchè sell boats? Qual boats?", ("Zebras",)),
        ("Wieviele boats? Wohin Zebras? Weshalb sell boats?", ("Zebras",)),
    ],
)
def test_passages_that_lack_words_of_the_question_are_not_said_to_be_its_answer(
    question: str, lacks: tuple[str, ...]
):
    Path("s.txt").write_text("The keeper's son had to sell boats in the spring.", encoding="utf-8")
    done = call("ask", "s.txt", question, "--model", "offline", "--json")
    assert tuple(done.json["lacks"]) == lacks
    near = f"they lack these words of the question: {', '.join(lacks)}."
    assert (near in done.json["notice"]) is bool(lacks)
    told = call("ask", "s.txt", question, "--model", "offline")
    sharing = "share the question's words, or stand beside one that does"
    alone = "come nearest; they may not answer the question" if lacks else sharing
    assert f"The passages below {alone}.\n" in told.out
    assert (near in told.err) is bool(lacks)
    assert call("runs", "show", "last", "--html", "run.html").code == 0
    page = Path("run.html").read_text(encoding="utf-8")
    said = f"these passages {alone}."
    assert said.replace("'", "&#39;") in page
    assert (near in Path("run.html").read_text(encoding="utf-8")) is bool(lacks)


def test_where_the_document_lacks_every_word_of_the_question_all_are_named():
    Path("s.txt").write_text("The keeper's son had to sell boats in the spring.", encoding="utf-8")
    done = call("ask", "s.txt", "Xylophone zebra quokka?", "--model", "offline", "--json").json
    assert (done["lacks"], done["notice"]) == (["Xylophone", "zebra", "quokka"], "")


def test_what_only_earlier_quotes_have_words_of_is_not_quoted():
    zebras = [f"Zebras number {at} graze near Nairobi." for at in range(9)]
    answer = ask("\n\n".join([*zebras, "The deposit is returned in May."]), "When is it returned?")
    quotes = {quote.text for quote in answer.evidence}
    assert quotes <= {"The deposit is returned in May.", zebras[-1]}
    assert "The deposit is returned in May." in quotes


def test_how_many_is_answered_by_quotes_or_by_nothing():
    text = "1.1 Ships pay.\n1.2 The monthly fee of each ship is 450 crowns."
    fee = ask(text, "How much is the monthly fee?")
    assert fee.evidence[0].text == "1.2 The monthly fee of each ship is 450 crowns."
    assert fee.words != "1.1"
    none = ask(text, "How many zebras are there?")
    assert (none.words, none.evidence) == (NOTHING, ())


@pytest.mark.parametrize(
    ("text", "question", "row"),
    [
        ("Rash was seen in a number of cases, all of them mild.\n\nRash\t\t4\n\nFever\t\t9",
         "How many cases of rash were there?", "Rash\t\t4"),
        ("area,quarter,units,head\nNorth,Q1,120,Ana\nSouth,Q1,210,Ben\nEast,Q2,75,Cleo\n",
         "Who is head of the South area?", "South,Q1,210,Ben"),
    ],
)  # fmt: skip
def test_a_short_row_of_a_table_is_quoted_beside_longer_lines(text: str, question: str, row: str):
    assert row in [quote.text for quote in ask(text, question).evidence]


def test_what_parts_gave_is_quoted_best_first_and_the_question_is_no_answer():
    found = Pairs((("CTX 1/2", "Bo sold a lamp."), ("CTX 2/2", NOTHING), ("x", "Ada sold boats.")))
    action = Action("MERGE_FIND", (Param("FINDINGS"), Param("X")), doc="Merge")
    given = (("FINDINGS", found), ("X", "who sold boats"))
    call = ExecuteStep(None, action, Step("a", action.name, (), ""), given)
    assert carry_out(call).splitlines()[0] == "> Ada sold boats."
    assert "who sold" not in carry_out(call)
    # What was found says nothing of what is looked for, however many words it has.
    long = f"Bo sold {', '.join(f'thing{number}' for number in range(40))} to Cy."
    found = Pairs((("CTX 1/2", long), ("CTX 2/2", "Ada sold her boats.")))
    given = (("FINDINGS", found), ("X", "sold boats"))
    outputs = (("a_parts", found, "the step a_parts"),)
    call = ExecuteStep(None, action, Step("a", action.name, (), ""), given, outputs=outputs)
    assert carry_out(call).splitlines()[0] == "> Ada sold her boats."


APART = Source("s", "Ada lives in Ulm.\n\nBo sold his boats.\n\nThe tide came in.")
FOUND = "Ada lives in Ulm."


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        (['RECALL("Is Ada in Kiel?")'], NOTHING),
        (['FIND_EVENT(CTX, "Ada lives")', 'ANSWER_FROM(a, "Kiel?", "{a}, or {a}: Kiel")'], FOUND),
        (['FIND_EVENT(CTX, "zebras")', 'ANSWER_FROM(a, "Kiel?")'], NOTHING),
        (['FIND_EVENT(CTX, "Ada lives")', 'CONCAT("Kiel?", a)', "ANSWER_FROM(b)"], FOUND),
        (['UNIQUE(["Kiel"])', 'RECALL("Is it {a}?")'], NOTHING),
        (['TELL("Kiel")'], NOTHING),
        (['FIND_EVENT(CTX, "Ada lives")', "TELL(a)"], FOUND),
        (['LIST(CTX, "Ada Bo")', "RECALL(each a)", "VALUES(b)", "RECALL(c)"],
         "Ada lives in Ulm.\nBo sold his boats."),
        (['LIST(CTX, "Ada lives")', 'CONCAT(each a, "Kiel")', "RECALL(b)"], FOUND),
        (["PARTS(CTX, 2)", "RECALL(a)"], NOTHING),
    ],
)  # fmt: skip
def test_without_the_document_only_what_steps_found_is_said(calls: list[str], said: str):
    assert run_calls(calls).text == said


COUNTED = ('LIST(CTX, "Ada Bo")', "COUNT(a)")


@pytest.mark.parametrize(
    ("calls", "guessed"),
    [
        (COUNTED, True),
        ((*COUNTED, 'CONCAT("How many", b)'), True),
        ((*COUNTED, 'CONCAT("There are {b}", a)'), True),
        ((*COUNTED, "UNIQUE([b])"), True),
        ((*COUNTED, 'ANSWER_FROM(b, "How many?")'), True),
        (('LIST(CTX, "Ada Bo")', "UNIQUE(a)", "ANSWER_FROM(b)", 'CONCAT("{c}", a)'), False),
        (('HOW_MANY(CTX, "Ada Bo")', 'CONCAT("So", a)'), True),
        (('LIST(CTX, "Ada Bo")', "CONCAT(a)"), False),
        (("PARTS(CTX, 2)", "COUNT(a)", 'FIND_EVENT(CTX, "Ada")', "CONCAT(b, c)"), False),
        ((*COUNTED, 'FIND_EVENT(CTX, "the {b} boats")'), False),
    ],
)
def test_what_is_counted_of_quotations_is_a_guess_whatever_is_made_of_it(
    calls: tuple[str, ...], guessed: bool
):
    done = run_calls(calls)
    assert (done.guessed, "picked by words alone" in done.notice) == (guessed, guessed)


def run_calls(calls: Sequence[str]) -> pearl.Answer:
    """What steps called a, b, c, d come to, with the core library and four actions more."""
    Path("own.actions").write_text(
        "RECALL(X) : Tell what is known of X.\n"
        "LIST(CTX, X) -> list : List what CTX says of X.\n"
        "TELL(X) : Tell X.\n  plan:\n    1. told = RECALL(X)\n"
        "HOW_MANY(CTX, X) : Tell how many X are.\n  plan:\n"
        "    1. all = LIST(CTX, X)\n    2. n = COUNT(all)\n    3. told = CONCAT(n)\n",
        encoding="utf-8",
    )
    lines = [f"{name} = {one}\n" for name, one in zip("abcd", calls, strict=False)]
    written = f"{''.join(lines)}return {'abcd'[len(calls) - 1]}\n"
    return pearl.run_sync(written, APART, library=["core", "own.actions"], model=Offline())


@pytest.mark.parametrize(
    "call", [NextStep("Why?", load_library()), LabelQuestion("Why?", (("why", "a reason"),))]
)
def test_what_takes_a_model_is_refused_in_a_line(call: Call):
    request = Request(call, ({"role": "user", "content": "?"},), "x", "k")
    with pytest.raises(ModelError, match="This needs a language model: set OPENAI_API_KEY"):
        asyncio.run(Offline().answer(request))


def test_a_long_document_is_read_beside_the_loop_which_hears_of_ctrl_c():
    sentence = "Ada left in {}, because the harbour was shut and the {} was lost."
    text = " ".join(sentence.format(year, year % 97) for year in range(12_000))
    find = load_library().actions["FIND_REASON"]
    step = Step("why", find.name, (Ref(DOCUMENT), Literal("Ada left")), "Find why")
    call = ExecuteStep(Source("long", text), find, step, (("S", "Ada left in 7"),))
    request = Request(call, ({"role": "user", "content": "?"},), "x", "k")

    async def stopped() -> str:
        task = asyncio.create_task(Offline().answer(request))
        await asyncio.sleep(0.01)
        assert task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return (await Offline().answer(request)).text

    assert asyncio.run(stopped()) == carry_out(call)


# --- options ---


@pytest.mark.parametrize(
    ("question", "answer", "letter"),
    [
        ("Why did she leave?", "> The log showed her father's lie.", "B"),
        ("Which of these did she NOT leave for?", "> Her aunt was ill; the log told a lie.", "C"),
        ("Why did she leave?", "nothing at all", "no option"),
    ],
)
def test_an_option_is_chosen_by_its_own_words(question: str, answer: str, letter: str):
    options = ("her aunt was ill", "her father's lie in the log", "the gas conversion")
    asked = MapAnswer(question, answer, options, best=letter != "no option")
    assert reading.choose(asked) == letter


LEASE = (
    "Die Gemeinde verpachtet eine Wiese von 2,4 Hektar. Der Pachtzins beträgt 180 Euro im Jahr. "
    "Die Scheune ist nicht mitverpachtet. Der Vertrag endet am 31. März 2033."
)


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        ("Wer ist der Bürgermeister?", None),
        ("Ist die Scheune mitverpachtet?", "Die Scheune ist nicht mitverpachtet."),
        ("Wann endet der Vertrag?", "Der Vertrag endet am 31. März 2033."),
    ],
)
def test_the_stop_words_of_the_document_s_language_bear_on_nothing(
    question: str, quoted: str | None
):
    answer = ask(LEASE, question)
    assert answer.text.splitlines()[0] == (quoted or NOTHING)
    # What no passage has is named, and no stop word.
    assert answer.lacks == (() if quoted else ("Bürgermeister",))


def test_a_letter_and_its_mark_are_one_character_however_they_are_written(tmp_path: Path):
    text = "Die Kündigung erfolgt schriftlich. Der Schlüssel wird bei der Übergabe ausgehändigt."
    apart = unicodedata.normalize("NFD", text)
    assert apart != text
    file = tmp_path / "apart.txt"
    file.write_text(apart, encoding="utf-8")
    for document in (Source("x.txt", apart), file):
        answer = pearl.ask_sync(document, "Schlüssel bei der Übergabe?", model=Offline())
        said = unicodedata.normalize("NFC", answer.text.splitlines()[0])
        assert said == text.partition(". ")[2]
        assert answer.lacks == ()
    assert read_document(str(file)).text == text


def test_what_is_a_stop_word_elsewhere_counts_in_an_english_document():
    text = "The fever took hold of the town. Two of them will die in it. It was a hard war."
    assert ask(text, "Who will die?").text.splitlines()[0] == "Two of them will die in it."


def test_that_nothing_bears_leads_no_later_step_anywhere():
    text = "The zoo opened in 1901. Two bears escaped. A keeper read this. Nothing was done."
    answer = ask(text, "Why did the helicopter crash?")
    assert (answer.text, answer.evidence) == (NOTHING, ())
    assert "FIND_REASON(CTX, event)" in answer.plan


def test_that_nothing_bears_is_no_answer_whatever_the_gold_answer_is():
    row = {"id": "a", "question": "What did Olga take?", "document": {"text": "Fish swim."}}
    Path("q.jsonl").write_text(json.dumps({**row, "gold": "nothing"}), encoding="utf-8")
    batch = call("batch", "q.jsonl", "-o", "a.jsonl", "--model", "offline", "--json").json
    assert (batch["right"], batch["judged"], batch["ungrounded"]) == (0, 1, 1)
    assert json.loads(Path("a.jsonl").read_text(encoding="utf-8"))["words"] == NOTHING
    asked = ("eval", "questions", "--data", "q.jsonl", "--model", "offline", "--json")
    done = call(*asked, "--methods", "pearl,zero-shot").json
    assert (done["right"], done["answered"]) == (0, 2)
    # A metric of a person's own may want just that.
    evaluated = pearl.Pearl(model="offline").evaluate_sync(
        "questions", "q.jsonl", methods=["pearl"], metric=lambda _, gold, answer: answer == NOTHING
    )
    assert [one.score for one in evaluated.results] == [1.0]
    blocks = call("report", done["run"], "--json").json["blocks"]
    table = next(block for block in blocks if "rows" in block)
    assert [row["ungrounded"] for row in table["rows"]] == [1, 1]
    assert "no-context needs a language model" in call(*asked, "--methods", "no-context").err
    # What pearl itself does without, the short answers of a data set do not.
    sources = {"context": [["Fish", ["Fish swim."]]], "supporting_facts": [["Fish", 0]]}
    example = {"_id": "a", "question": "What did Olga take?", "answer": "Fish", **sources}
    Path("hotpot.json").write_text(json.dumps([example]), encoding="utf-8")
    asked = ("eval", "hotpotqa", "--data", "hotpot.json", "--model", "offline")
    refused = one_line(call(*asked, "--methods", "pearl"), 2)
    said = "HotpotQA wants short answers, and shortening those of pearl needs a language model: "
    assert refused.startswith(said)


@pytest.mark.parametrize("form", ["{}\t{}\t{}\t{}", "{},{},{},{}", "{}: {} aged {}, {}",
                                  "{}  {:<9}  {:<2}  {}", "{} {} {} {}"])  # fmt: skip
def test_a_row_is_quoted_by_itself(form: str):
    cause = ("old age", "fever", "a fall from the tower")
    rows = [form.format(1790 + at % 40, "Ada Pope", at, cause[at % 3]) for at in range(400)]
    rows[211] = form.format(1801, "Bo Hill", 7, "drowned in the mill race")
    answer = ask("\n".join(["PARISH REGISTER OF ST OSYTH, BURIALS", *rows]), "Who drowned in 1801?")
    assert answer.evidence[0].text == rows[211]
    assert {quote.text for quote in answer.evidence} <= {*rows}


def test_a_line_of_a_log_is_quoted_by_itself():
    stamps = ("2024-03-05T10:56:44Z", "2024-03-05 10:57:01,120", "[10:58:00]", "Mar  5 10:59:12")
    said = ("INFO request served", "WARN queue is long", "ERROR scheduler restarted", "INFO ready")
    lines = [f"{stamp} {words} in 27 ms" for stamp, words in zip(stamps, said, strict=True)]
    answer = ask("\n".join(lines), "Why did the scheduler restart?")
    assert answer.evidence[0].text == lines[2]


@pytest.mark.parametrize("head", ["[09:0{}] NAME{}: ", "[9:0{}] <name{}> "])
def test_what_somebody_writes_in_a_chat_is_quoted_by_itself(head: str):
    said = ("who has the spare key?", "does the porter keep it?", "no, Lena took it.", "fine")
    lines = [head.format(at, at) + words for at, words in enumerate(said)]
    quotes = ask("\n".join(lines), "Who took the spare key?").evidence
    assert lines[2] in {quote.text for quote in quotes} <= {*lines}


@pytest.mark.parametrize(
    ("question", "text", "best"),
    [
        ("What is on page 6?", "\n\n".join(f"Page {at} tells of it." for at in range(1, 9)),
         "Page 6 tells of it."),
        ("Why did the motion fail?", "They sat in the hall for hours.\n\nThe motion failed.\n\n"
         "The vote was held in the hall that evening.", "The motion failed."),
        ("What did Mr Halloran find?", "MR VESTER: I ask again.\nMR HOLT: Halloran found salt.",
         "MR HOLT: Halloran found salt."),
    ],
)  # fmt: skip
def test_the_best_passage_has_what_is_asked_for(question: str, text: str, best: str):
    assert ask(text, question).evidence[0].text == best
