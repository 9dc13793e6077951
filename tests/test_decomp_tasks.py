"""DecomP's tasks: readers by example, arithmetic, baselines, handlers that are swapped."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pearl.evaluate.datasets import DATASETS
from pearl.evaluate.datasets.base import Example
from pearl.evaluate.datasets.decomp import COMMAQA_E, GSM8K, MULTIARITH
from pearl.evaluate.datasets.decomp import score as exact
from pearl.lang.ast import Literal, Plan, Prompt
from pearl.lang.builtins import FUNCTIONS, BuiltinError, Given, conclusion
from pearl.lang.errors import InputError
from pearl.lang.library import Library, builtins, load_library
from pearl.lang.numbers import last_number
from pearl.lang.parser import parse
from pearl.lang.rewriting import format_library
from pearl.lang.source import Source
from pearl.lang.values import Value, to_json
from pearl.lint.checker import check
from pearl.prompts.calls import Call, Decomposition, ExecuteStep, FillSchema, NextStep
from pearl.prompts.render import render
from pearl.retrieval.retriever import Passage
from pearl.runtime.calls import Caller, Journal, at_most
from pearl.runtime.executor import Frame, Handlers, StepFailure
from pearl.runtime.loop import Finished, RunError, run_strategy
from pearl.strategies.baselines import (
    LeastToMost,
    blind_plan,
    chain,
    reasoning_plan,
    retrieve_read_plan,
    rolled_out_plan,
    without_document,
)
from pearl.strategies.decomp import Decomp, as_decomposition, decompose
from pearl.strategies.pearl import GivenPlan, direct_plan, load_demonstrations
from pearl.strategies.retrieving import with_retriever
from tests.conftest import ROOT, library_of
from tests.scripted_models import Reader, Scripted, next_step, record, run
from tests.shell import call, write_rows

PASSAGE = (
    "movie: Ashfall ; directed by: Vell. movie: Grout ; director: Ruan Oke. movie: Ashfall ; "
    "awarded: Brightcup. movie: Grout ; award: Longspoon. movie: Ashfall ; release year: 1975. "
    "Vell acted in the movie Grout. Ruan Oke was an actor in the movie Ashfall. Vell was born in "
    "the year 1931. Ruan Oke was born in 1931. Dr. Tam was born in 1940. Vell is from the country "
    "of Hesper. Dr. Tam grew up in the nation of Hesper. Dr. Tam won the Old Bell award. Old Bell "
    "was awarded to Vell."
)


def own(text: str) -> Library:
    return library_of(text, builtins())


def demonstrations(name: str, library: Library) -> tuple[Decomposition, ...]:
    plans = [parse(source).plan for source in load_demonstrations("", name)]
    known = [one for one in plans if all(library.get(step.action) for step in one.steps)]
    return tuple(map(as_decomposition, known))


# --- Data sets ---


def pair(name: str, *spans: str) -> dict[str, Any]:
    return {"question": f"{name}?", "query_id": name, "answer": {"spans": list(spans)}}


def test_an_answer_to_the_letter_may_stand_in_quotation_marks():
    asked = Example("a", "?", Source("d", ""), gold="n a s")
    assert [exact(asked, said) for said in (' "n a s"', "n a s.", "“n a”")] == [1, 0, 0]


def test_commaqa_e_is_read_and_scored_in_no_order(tmp_path: Path):
    data = {"one": {"passage": PASSAGE, "qa_pairs": [pair("a", "X", "Y z"), pair("b", "1931")]}}
    first, second = COMMAQA_E.read(write_rows(tmp_path / "f.json", data), "")
    assert (first.question, first.document.text) == ("a?", PASSAGE)
    assert COMMAQA_E.score(first, "y Z\nX") == 1
    assert COMMAQA_E.score(first, "X") == 0
    assert COMMAQA_E.measures(first, "X")["f1"] == pytest.approx(1 / 2)
    assert COMMAQA_E.score(second, "1931") == 1


@pytest.mark.parametrize(("dataset", "data", "words"), [
    (COMMAQA_E, [], "has no qa_pairs"),
    (COMMAQA_E, {"one": {"passage": "x", "qa_pairs": []}}, "has no qa_pairs"),
    (COMMAQA_E, {"one": {"qa_pairs": [pair("a", "X")]}}, "one has no passage"),
    (COMMAQA_E, {"one": {"passage": "x", "qa_pairs": [{"question": "?"}]}},
     "question 1 has no question"),
    (COMMAQA_E, {"one": {"passage": "x", "qa_pairs": [{**pair("a"), "answer": {"spans": "X"}}]}},
     "no list of texts"),
    (COMMAQA_E, {"one": {"passage": "x", "qa_pairs": [pair("a", "X")] * 2}},
     "the id a, as .* question 1 has"),
    (GSM8K, [{"question": "?", "answer": "18"}], "no answer after ####"),
    (GSM8K, [{"question": "?", "answer": "#### many"}], "is no number"),
    (MULTIARITH, [{"sQuestion": "?", "lSolutions": []}], "no lSolutions"),
    (MULTIARITH, [{"lSolutions": [1]}], "no sQuestion"),
])  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, dataset: Any, data: Any, words: str):
    file = write_rows(tmp_path / "f.json", *([data] if dataset is COMMAQA_E else data))
    with pytest.raises(InputError, match=words):
        list(dataset.read(file, ""))


NUMBERS = """
$18 => 18 | 1,000 => 1000 | 1000.0 => 1000 | It is $1,250.50. => 1250.5 | 16 - 3 = 13. => 13
10-3 => 3 | It fell to -5. => -5 | -$3 => -3 | 3 1/2 pies => 3.5 | 1/2 => 0.5
on 10/11/2020 => 2020 | 1/0 => 0 | 2.5 million => 2500000 | two and a half => 2.5
3 and a half => 3.5 | twenty-one => 21 | three hundred and five thousand => 305000 | half => 0.5
a dozen eggs => 12 | half a dozen => 6 | half a million => 500000
one and a half million => 1500000 | 2 and a half million => 2500000 | 7 dozen => 7
seven dozen => 7 | 2 million dollars => 2000000 | three-quarters => 0.75
three quarters and a dime => 3 | three fifths => 0.6 | five halves => 2.5
one fifth of it => 0.2 | two tenth graders => 2 | two and one-half => 2.5
3 and a quarter => 3.25 | 7 ½ => 7.5 | -7½ => -7.5 | ¾ of it => 0.75 | 1⁄2 => 0.5 | 1e3 => 1000
2.5E-1 => 0.25 | 1e3x => 1 | 18, one by one => 18 | about .5 => 0.5
"""


@pytest.mark.parametrize("row", [*re.split(r" \| |\n", NUMBERS.strip()), "model A4", "none", ""])
def test_the_last_number_of_a_text(row: str):
    text, _, number = row.partition(" => ")
    assert last_number(text) == (Decimal(number) if number else None)
    # A fraction in words is as exact as in digits.
    assert last_number("two-thirds") == last_number("2/3")


def test_the_builtin_gives_a_step_s_value():
    def call(text: str) -> Value:
        return FUNCTIONS["last_number"]([Given(Literal(text), text)])

    assert [repr(call(text)) for text in ("$1,000.00", "x = 2.5 kg")] == ["1000", "2.5"]
    with pytest.raises(BuiltinError, match="finds no number in 'nothing'"):
        call("nothing")


def test_word_problems_are_read_and_scored_by_number(tmp_path: Path):
    rows = [{"question": "How  many?", "answer": "1 + 1 = <<1+1=2>>2\n#### 1,002"}]
    [one] = GSM8K.read(write_rows(tmp_path / "g.jsonl", *rows), "")
    assert (one.question, one.document.text, one.gold) == ("How many?", "How many?", "1,002")
    for right in ("1002", "1,002.0", "That makes $1,002.", "1 + 1 = 1002 jars"):
        assert GSM8K.score(one, right) == 1
    for wrong in ("", "2", "1002.5", "1002 of 5"):
        assert GSM8K.score(one, wrong) == 0
    for gold, right in (("7", "7 dozen"), ("84", "7 dozen"), ("2", "$2 million"),
                        ("2000000", "2 million dollars"), ("6", "half a dozen")):  # fmt: skip
        assert GSM8K.score(replace(one, gold=gold), right) == 1
    for gold, wrong in (("12", "7 dozen"), ("6", "12 dozen"), ("3", "three hundred")):
        assert GSM8K.score(replace(one, gold=gold), wrong) == 0
    other = {"sQuestion": " How many? ", "lSolutions": [39.0]}
    for written in ([other], other):
        [two] = MULTIARITH.read(write_rows(tmp_path / "m.json", written), "")
        assert MULTIARITH.score(two, "39") == 1


def test_every_data_set_s_own_library_runs_its_demonstrations():
    named = [one for one in DATASETS if one.libraries]
    assert {"letters", "reversal", "commaqa-e", "gsm8k"} <= {one.name for one in named}
    for dataset in named:
        library = load_library(*dataset.libraries)
        assert demonstrations(dataset.demonstrations, library), dataset.name


# --- Arithmetic ---

JARS = "A crate holds 5 rows of 4 jars. 3 are cracked. How many are whole?"


def reckoner(call: Call) -> str:
    """Writes the steps, and reasons as a model that forgets to state the number."""
    if isinstance(call, NextStep):
        return next_step(call)
    assert isinstance(call, ExecuteStep)
    if call.action.name == "REASON":
        return "There are 5 * 4 = 20 jars.\nOf these, 17 are whole and 3 are not."
    return "That is 17.0 jars."


def arithmetic(library: Library, model: Any) -> Finished:
    shown = demonstrations("arithmetic", library)
    return run(model, lambda caller: Decomp(library, caller, shown), JARS, library)[0]


def test_an_answer_is_extracted_from_a_chain_of_thought_and_corrected():
    library = load_library("arithmetic")
    assert arithmetic(library, Scripted(reckoner)).values["answer"] == 17


SWAPPED = {
    "a builtin": "EXTRACT_NUMBER(TEXT) -> number : Take it.\n  body: builtin last_number\n",
    "a plan": "EXTRACT_NUMBER(Q, TEXT) -> number : Take it.\n  plan:\n"
    "    1. told = SUM_UP(Q, TEXT)\n    2. number = LAST_NUMBER(told)\n"
    "SUM_UP(Q, TEXT) : Say what TEXT comes to as the answer to Q.\n",
}


@pytest.mark.parametrize("body", ["a builtin", "a plan", "other examples"])
def test_a_handler_is_swapped_in_the_library_and_the_plan_stays(body: str):
    """A prompted handler becomes a builtin, or a plan of its own: the steps are the same."""
    text = (ROOT / "actions" / "arithmetic.actions").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    at = next(at for at, line in enumerate(lines) if line.startswith("EXTRACT_NUMBER"))
    end = next(at for at, line in enumerate(lines) if line.startswith("LAST_NUMBER"))
    kept = "EXTRACT_NUMBER(Q, TEXT) : Take it.\n"
    other = SWAPPED.get(body, kept).replace("(TEXT)", "(Q, TEXT)")
    changed = "".join((*lines[:at], other, *lines[end:]))
    if body == "a builtin":
        # A builtin reads its first argument.
        changed = changed.replace("(Q, TEXT) -> number", "(TEXT, Q) -> number")
    library = own(changed)
    plan = parse((ROOT / "plans" / "arithmetic" / "1.plan").read_text(encoding="utf-8")).plan
    steps = [step.action for step in plan.steps]
    model = Scripted(reckoner)
    finished, _, _ = run(model, lambda _: GivenPlan(plan), plan.question, library)
    assert [step.action for step in finished.plan.steps] == steps
    calls = [request.call for request in model.asked]
    asked = [one.action.name for one in calls if isinstance(one, ExecuteStep)]
    assert asked == {
        "a builtin": ["REASON"],
        "a plan": ["REASON", "SUM_UP"],
        "other examples": ["REASON", "EXTRACT_NUMBER"],
    }[body]  # fmt: skip


# --- Baselines ---


def test_demonstrations_are_rolled_out_into_chains_of_thought():
    library = load_library("commaqa_e_fine")
    sources = {one.name: one for one in load_demonstrations("", "commaqa_e")}
    assert chain(parse(sources["fine_7.plan"]).plan, library).splitlines() == [
        "List everybody who is from the country Norvia, as the text states it: Perrin, Lasko",
        "List every movie that Perrin directed, as the text states it: Oldmark, Brayle",
        "List every movie that Lasko directed, as the text states it: Fenwell",
        "Say whether the movie Oldmark was released in the year 1951, as the text states it: yes",
        "Say whether the movie Brayle was released in the year 1951, as the text states it: no",
        "Say whether the movie Fenwell was released in the year 1951, as the text states it: yes",
        'The answer is ["Oldmark","Fenwell"].',
    ]
    coarse = chain(parse(sources["coarse_1.plan"]).plan, load_library("commaqa_e_coarse"))
    assert coarse.startswith("Who is from the country Norvia? Perrin, Lasko\nWhich movies has")
    sums = chain(parse(load_demonstrations("", "arithmetic")[0]).plan, load_library("arithmetic"))
    assert sums.count("The answer is 19.") == 1


def test_rolled_out_chain_of_thought_is_one_call():
    library = load_library("arithmetic")
    shown = [parse(one).plan for one in load_demonstrations("", "arithmetic")]
    model = Scripted(lambda _: "There are 20 jars.\nThe answer is 17.")
    rolled = GivenPlan(rolled_out_plan(JARS, shown, library))
    finished, _, _ = run(model, lambda _: rolled, JARS, library, Source("d", JARS))
    assert conclusion(finished.text) == "17"
    [request] = model.asked
    prompt = render(request.call)[-1]["content"]
    for plan in shown:
        assert chain(plan, library) in prompt


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("A.\nThe answer is 17.", "17"),
        ('So the answer is: ["A", "B c"].\n> a quote', "A\nB c"),
        ("The answer is 3. No, the answer is 4.", "4"),
        ('The answer is "Ulm".', "Ulm"),
        ("The answer is [broken", "[broken"),
        ("Nothing was said.", "Nothing was said."),
        ("The answer is .", "The answer is ."),
    ],
)
def test_what_a_chain_of_thought_says_its_answer_is(text: str, said: str):
    assert conclusion(text) == said


def in_turn(call: Call) -> str:
    if isinstance(call, FillSchema):
        return json.dumps({"sub_questions": ["Who  made {it}?", "When was she born?", "q?"]})
    assert isinstance(call, ExecuteStep)
    return {"Who made {it}?": "Vell", "When was she born?": "1931"}.get(
        str(dict(call.arguments)["X"]), "Hesper"
    )


def test_least_to_most_answers_each_part_with_those_before_it():
    library = load_library()
    model = Scripted(in_turn)
    finished, _, _ = run(model, LeastToMost, "Q?", library, Source("d", PASSAGE))
    assert finished.text == "Hesper"
    assert [step.name for step in finished.plan.steps] == ["part_1", "part_2", "answer"]
    last = model.asked[-1].call
    assert isinstance(last, ExecuteStep)
    assert dict(last.arguments)["EARLIER"] == (
        "Question: Who made {it}?\nAnswer: Vell\nQuestion: When was she born?\nAnswer: 1931"
    )


def test_least_to_most_without_sub_questions_in_the_form_that_is_wanted():
    model = Scripted(lambda _: '{"sub_questions": "none"}')
    with pytest.raises(RunError, match="least_to_most does not fit after 3 tries"):
        run(model, LeastToMost, "q?", load_library())
    assert len(model.asked) == 3


def test_without_context_the_document_is_not_shown():
    library = load_library()
    model = Scripted(lambda _: "Ulm")
    blind = GivenPlan(blind_plan("Where?"))
    run(model, lambda _: blind, "Where?", library, Source("d", PASSAGE))
    [request] = model.asked
    assert isinstance(request.call, ExecuteStep)
    assert request.call.document is None
    assert "Ashfall" not in render(request.call)[-1]["content"]


class Shelf:
    """A retriever that has one passage."""

    def search(self, query: str, k: int) -> list[Passage]:
        return [Passage("1", "Shelf", f"{query} {k}", 1.0)]


@pytest.mark.parametrize("retriever", [None, Shelf()])
def test_retrieve_and_read_looks_the_question_itself_up(retriever: Any):
    library = load_library("open_domain")
    model = Scripted(lambda _: "Vell")
    source = Source("d", "# One\n\nVell made Ashfall.\n\n# Two\n\nTam sings.\n")
    handed = with_retriever(Handlers(), source, retriever)
    plan = GivenPlan(retrieve_read_plan("Who made Ashfall?"))
    finished, _, _ = run(model, lambda _: plan, "Who made Ashfall?", library, source, handed)
    wanted = "Shelf: Who made Ashfall? 5" if retriever else "One: Vell made Ashfall."
    assert finished.values["found"] == [wanted]
    assert len(model.asked) == 1


# --- Handlers by example ---

CALLED = {"space": " ", "dash": "-", "comma": ",", "semi-colon": ";"}


def taught(call: Call) -> str:
    """Decomposes, and does what the examples of an action teach; those are in the prompt."""
    if isinstance(call, NextStep):
        return decomposed(call)
    assert isinstance(call, ExecuteStep)
    assert isinstance(call.action.body, Prompt)
    assert call.action.body.examples
    assert render(call)[-1]["content"].count("the answer was:") == len(call.action.body.examples)
    given: dict[str, Any] = dict(call.arguments)
    items = re.findall(r"\d+\. ([^,:]+)", given.get("TEXT", ""))
    half = len(items) // 2
    match call.action.name, given:
        case "SPLIT", {"TEXT": text, "BY": by}:
            return json.dumps(text.split(by) if by else [*text])
        case "NUMBERED", {"WORD": word}:
            return ", ".join(f"({one}, {at})" for at, one in enumerate(word, 1))
        case "ITEM", {"LIST": letters, "N": place}:
            found = re.findall(r"\((\w), ", letters) if isinstance(letters, str) else letters
            return str(found[-1] if place == "last" else found[place - 1])
        case "MERGE", {"LIST": letters, "BY": by}:
            return CALLED[by].join(letters)
        case "NUMBERED", {"TEXT": text}:
            numbered = [f"{at}. {one}" for at, one in enumerate(text.split(", "), 1)]
            return f"{', '.join(numbered)}: {len(numbered)} items"
        case "HALF", {"WHICH": which}:
            return ", ".join(items[:half] if which == "first" else items[half:])
        case "TURN", _:
            return f"Turned about. The answer is {', '.join(items[::-1])}."
        case "CONCLUDE", {"TEXT": text}:
            return str(conclusion(text))
        case "MERGE", {"ONE": one, "TWO": two}:
            return f"{one}, {two}"
    raise AssertionError(call.action.name)


def decomposed(call: NextStep) -> str:
    """The next step, written after the demonstrations that are shown."""
    done = len(call.steps)
    if match := re.fullmatch(r'Reverse the sequence "(.*)"\.', call.question):
        short = not done or call.steps[0][1].count(",") < 3
        steps = ['items = NUMBERED("$")']
        steps += ["thought = TURN(items)", "answer = CONCLUDE(thought)"] if short else [
            'left = HALF(items, "first")', 'right = HALF(items, "second")',
            'last = REVERSE("Reverse the sequence \\"{right}\\".")',
            'first = REVERSE("Reverse the sequence \\"{left}\\".")',
            "answer = MERGE(last, first)",
        ]  # fmt: skip
        return [*steps, "return answer"][done].replace("$", match[1])
    match = re.fullmatch(
        r'Take the (?:letters at position (\d)|last letters) of the words in "(.*)" and '
        r"concatenate them using a (.*)\.", call.question,
    )  # fmt: skip
    assert match
    place = match[1] or '"last"'
    flat = any("SPLIT(each words" in step for step, _ in call.demonstrations[0].steps)
    taken = (
        ['spelled = SPLIT(each words, "")', f"letters = ITEM(each values spelled, {place})"]
        if flat else [f"letters = LETTER_AT(each words, {place})"]
    )  # fmt: skip
    merged = (
        [f'answer = MERGE(found, "{match[3]}")']
        if call.library.get("MERGE")
        else [f'sign = SIGN("{match[3]}")', "answer = JOIN(found, sign)"]
    )
    steps = [f'words = SPLIT("{match[2]}", " ")', *taken, "found = VALUES(letters)", *merged]
    return [*steps, "return answer"][done]


def test_numbers_and_blanks_are_meant_where_an_action_s_examples_have_them():
    library = load_library("letters_by_example")
    plan = '1. a = SPLIT("Ann", "")\n2. b = ITEM(a, 1)\n3. c = SPLIT("", " ")\n4. d = MERGE(b, 1)\n'
    found = [one for one in check(parse(plan), library) if one.code in ("PRL408", "PRL409")]
    assert [(one.code, plan[: one.span.start].count("\n") + 1) for one in found] == [
        ("PRL409", 3), ("PRL408", 4),
    ]  # fmt: skip


LAST = 'Take the last letters of the words in "Ann Bob Cy" and concatenate them using a space.'
SECOND = LAST.replace("last letters", "letters at position 2")
SEQUENCE = 'Reverse the sequence "sea, wind, rope, sail, oar, key, tea cup"'


@pytest.mark.parametrize(
    ("library", "folder", "question", "answer", "asked"),
    [
        ("letters", "letters", LAST, "n b y", 0),
        ("letters", "letters_flat", SECOND, "n o y", 0),
        ("letters_by_example", "letters_by_example", LAST, "n b y", 1 + 3 * 2 + 1),
        ("letters_by_example", "letters_by_example", SECOND, "n o y", 1 + 3 * 2 + 1),
        ("letters_by_example", "letters_flat", SECOND, "n o y", 1 + 3 + 3 + 1),
        (
            "reversal_by_example",
            "reversal_by_example",
            f"{SEQUENCE}.",
            "tea cup, key, oar, sail, rope, wind, sea",
            2 * (3 + 1) + 3 * 3,
        ),
    ],
)
def test_the_same_questions_with_builtins_and_with_handlers_by_example(
    library: str, folder: str, question: str, answer: str, asked: int
):
    chosen = load_library(library)
    shown = demonstrations(folder, chosen)
    model, handed = Scripted(taught), Handlers(decompose=decompose)
    finished, _, _ = run(
        model, lambda caller: Decomp(chosen, caller, shown), question, chosen, handlers=handed
    )
    assert finished.text == answer
    assert sum(isinstance(one.call, ExecuteStep) for one in model.asked) == asked


@pytest.mark.parametrize("folder", ["letters", "letters_flat", "letters_by_example"])
def test_what_demonstrations_say_of_letters_is_so(folder: str):
    library = load_library("letters" if folder == "letters" else "letters_by_example")
    for source in load_demonstrations("", folder):
        plan = parse(source).plan
        if not all(library.get(step.action) for step in plan.steps):
            continue
        given = GivenPlan(plan)
        finished, _, _ = run(Scripted(taught), lambda _, one=given: one, plan.question, library)
        shown = as_decomposition(plan).steps
        assert [json.dumps(to_json(finished.values[one.name]), separators=(",", ":"))
                for one in plan.steps] == [value for _, value in shown]  # fmt: skip


def test_who_carries_handlers_out_stands_in_the_table():
    rows = {}
    for library in ("letters", "letters_by_example"):
        asked = ("--data", write_rows("letters.json", LETTERS_FILE), "--library", library)
        asked += ("--model", recorded(LETTERS_ASKED, library, model=Scripted(taught)))
        done = call("eval", "letters", *asked)
        table = done.out.split("What methods plan with")[1].split("\n\n")[0]
        rows[library] = next(line for line in table.splitlines() if line.startswith("decomp"))
    assert rows["letters"].split()[1:] == ["letters", "1", "4", "builtin"]
    assert rows["letters_by_example"].split()[1:] == ["letters_by_example", *"53", "by", "example"]


# --- Limits ---


def test_a_question_s_calls_are_counted_over_all_frames():
    """Frames that call themselves twice stay above the depth limit and would take 2^40 calls."""
    library = own('FORK(Q) -> any : Answer Q.\n  demonstration:\n    1. a = FORK("Fork")\n')

    def fork(call: Call) -> str:
        assert isinstance(call, NextStep)
        return f'{"ab"[len(call.steps)]} = FORK("{call.question} {len(call.steps)}")'

    journal = Journal()
    handed = Handlers(decompose=decompose, depth=40)
    caller = at_most(Caller(Scripted(fork).answer, "scripted", journal), 30)
    strategy, source = Decomp(library, caller), Source("d", "-")
    frame = Frame(source, library, caller, handlers=handed)
    with pytest.raises(RunError, match="has taken its 30 calls"):
        asyncio.run(run_strategy(strategy, "Fork 1", frame))
    done = [one for one in journal.entries if one.kind == "call" and one.status == "done"]
    assert len(done) == 30


def test_values_in_an_action_s_demonstrations_stay_there_when_a_library_is_laid_out():
    text = (ROOT / "actions" / "reversal_tail.actions").read_text(encoding="utf-8")
    assert "    # value items" in text
    assert format_library(Source("reversal_tail.actions", text)) == text


# --- From the command line ---


def evaluated(*args: str) -> dict[str, Any]:
    done = call("eval", *args, "--json")
    assert done.code == 0, done.err
    found: dict[str, Any] = done.json
    return found


def recorded(question: str, name: str, text: str = "-", model: Any = None) -> str:
    """A recording of a decomposition, as ``--model`` names it; its keys are those of prompts."""
    library = load_library(name)
    shown = demonstrations(name, library)
    _, journal, _ = run(
        model or Reader(),
        lambda caller: Decomp(library, caller, shown),
        question,
        library,
        Source("d", text),
        Handlers(decompose=decompose),
    )
    return record(journal, f"{name}.replies.jsonl")


def sequence(text: str) -> dict[str, Any]:
    items = text.split(", ")
    asked = {"question": f'Reverse the sequence "{text}".'}
    return {"0": {"qa_pairs": [{**pair("a", ", ".join(items[::-1])), **asked}]}}


@pytest.mark.parametrize("folder", ["reversal", "reversal_tail"])
def test_lists_are_reversed_with_the_plans_that_a_library_brings(folder: str):
    data = write_rows("r.json", sequence("a, b, c, d, e"))
    asked = ("reversal", "--data", data, "--library", folder)
    asked += ("--model", recorded('Reverse the sequence "a, b, c, d, e".', folder))
    found = evaluated(*asked)
    assert found["right"] == 1
    # No other demonstrations were shown: with others the recording has no answer.
    assert evaluated(*asked, "--demos", folder)["right"] == 1
    assert call("eval", *asked, "--demos", "letters").code != 0


def test_a_data_set_brings_its_library_and_demonstrations(tmp_path: Path):
    sums = write_rows(tmp_path / "g.jsonl", {"question": JARS, "answer": "#### 17"})
    model = recorded(JARS, "arithmetic", JARS, Scripted(reckoner))
    assert evaluated("gsm8k", "--data", sums, "--methods", "decomp", "--model", model)["right"] == 1
    asked = {"one": {"passage": PASSAGE, "qa_pairs": [pair("a", "X")]}}
    data = write_rows(tmp_path / "f.json", asked)
    coarse = ("--library", "commaqa_e_coarse", "--methods", "zero-shot,retrieve-read")
    assert evaluated("commaqa-e", "--data", data, *coarse)["answered"] == 2


LETTERS_ASKED = (
    'Take the letters at position 2 of the words in "Ann Bob" and concatenate them using a dash.'
)
LETTERS_FILE = {
    "0": {"qa_pairs": [{"query_id": "a", "question": LETTERS_ASKED, "answer": {"spans": ["n-o"]}}]}
}


def test_two_settings_are_two_runs_that_stand_side_by_side():
    asked = ("eval", "letters", "--data", write_rows("letters.json", LETTERS_FILE))
    asked += ("--model", recorded(LETTERS_ASKED, "letters"))
    first = call(*asked, "--json").json
    second = call(*asked, "--calls", "1", "--json").json
    assert (first["right"], second["right"]) == (1, 0)
    assert first["run"] != second["run"]
    assert call("report", first["run"], "--json").json["title"]
    assert "limits" not in call("report", first["run"]).out
    assert "calls 1" in call("report", second["run"]).out
    assert call(*asked, "--json").json["run"] == first["run"]


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ("tmn", "tmn needs what was learned: name it with --learned FILE."),
        ("tmn-model", "finds no agents to ask question a: take the data set commaqa."),
        (
            "rebel",
            "rebel has no document to search: name --tools FILE, --tools none or --index DIR.",
        ),
    ],
)
def test_a_method_that_cannot_begin_says_so_before_anything_is_asked(methods: str, words: str):
    data, model = write_rows("letters.json", LETTERS_FILE), recorded(LETTERS_ASKED, "letters")
    done = call("eval", "letters", "--data", data, "--methods", methods, "--model", model)
    assert done.code == 2
    assert words in done.err


@pytest.mark.parametrize("method", ["zero-shot", "cot-rolled-out", "decomp"])
def test_a_right_reply_of_every_method_scores(method: str):
    said = 'The second letters are n and o.\nThe answer is "n-o".'
    write_rows("said.jsonl", {"path": "step/answer", "text": said})
    model = recorded(LETTERS_ASKED, "letters") if method == "decomp" else "recorded:said.jsonl"
    data = write_rows("letters.json", LETTERS_FILE)
    asked = ("eval", "letters", "--data", data, "--methods", method, "--model", model)
    assert call(*asked, "--json").json["right"] == 1


@pytest.mark.parametrize("plan_of", [direct_plan, reasoning_plan, blind_plan])
def test_a_question_without_a_document_is_not_told_of_one(plan_of: Callable[[str], Plan]):
    plan = without_document(plan_of(LETTERS_ASKED))
    [step], [action] = plan.steps, plan.declares
    arguments = (("X", LETTERS_ASKED),)
    words = "".join(one["content"] for one in render(ExecuteStep(None, action, step, arguments)))
    assert "CTX" not in words
    assert "only sources" not in words


def fails(plan: str, **handed: Any) -> StepFailure:
    """Why a plan of builtins comes to nothing."""
    library, model = load_library("core", "lists", "quality"), Scripted(lambda _: "yes")
    with pytest.raises(RunError) as raised:
        run(model, lambda _: GivenPlan(parse(plan).plan), "q", library, **handed)
    assert not model.asked
    return raised.value.failures[0]


def bomb(action: str, steps: int) -> str:
    lines = ["a0 = CONCAT([1, 2], 3)"]
    lines += [f"a{at} = {action}" for at in range(1, steps + 1)]
    return "\n".join(line.replace("@", f"a{at - 1}") for at, line in enumerate(lines))


@pytest.mark.parametrize(
    "plan",
    [
        bomb(f"CONCAT({', '.join(['@'] * 10)})", 11),
        bomb(f'CONCAT("{"{@}" * 10}")', 11),
        bomb(f"HALVES([{', '.join(['@'] * 10)}])", 11),
        bomb("HALVES([@])", 60),
        'a = PARTS(CTX, 9999)\nb = CONCAT(a, a)\nc = SPLIT(b, "")\nd = JOIN(c, b)',
    ],
    ids=["texts", "templates", "lists", "depth", "join"],
)
def test_a_plan_bomb_fails_before_it_takes_the_memory(plan: str, monkeypatch: pytest.MonkeyPatch):
    if "HALVES" in plan or "SPLIT" in plan:
        # Long lists take their time, up to where outputs are too long.
        monkeypatch.setenv("PEARL_CHARACTERS", "200000")
    failure = fails(plan)
    assert failure.reason in ("size", "value")
    assert "characters" in failure.cause


def test_what_a_step_may_take_is_set_from_outside(monkeypatch: pytest.MonkeyPatch):
    wide = "a = PARTS(CTX, 501)\nb = CHECK_TRUE(CTX, {} a)"
    for mode in ("each", "where"):
        assert fails(wide.format(mode)) == StepFailure(
            "b", "width",
            "a has 501 items, and a step runs over 500 at most (PEARL_WIDTH): nothing was asked.",
        )  # fmt: skip
    monkeypatch.setenv("PEARL_WIDTH", "7")
    assert "over 7 at most" in fails(wide.format("each").replace("501", "8")).cause
    model, seven = Scripted(lambda _: "yes"), parse(wide.format("where").replace("501", "7")).plan
    run(model, lambda _: GivenPlan(seven), "q", load_library())
    assert len(model.asked) == 7
    monkeypatch.setenv("PEARL_CHARACTERS", "99")
    assert "99 characters are left" in fails("a = PARTS(CTX, 50)").cause
    monkeypatch.setenv("PEARL_WIDTH", "many")
    with pytest.raises(InputError, match="PEARL_WIDTH is wrong"):
        fails(wide.format("each"))
