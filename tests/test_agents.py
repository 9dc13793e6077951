"""CommaQA's agents: what they answer, how decompositions run, and how they become plans."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pearl.commaqa.agents import Agents, exact_match, f1, run_hops
from pearl.commaqa.decomposition import (
    CHANGES,
    MODES,
    Hop,
    HopError,
    Operation,
    agent_of,
    parse_hops,
    print_hop,
    print_hops,
    print_operation,
    read_operation,
    to_hops,
    to_plan,
)
from pearl.commaqa.world import read_numbers, read_world, read_worlds
from pearl.lang.ast import Mode, Plan, Ref
from pearl.lang.diagnostics import errors_of
from pearl.lang.errors import InputError
from pearl.lang.library import load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.values import Pairs, Value
from pearl.lint.checker import check
from tests import worlds
from tests.worlds import template, told

KINDS = ("explicit", "implicit", "numeric")
FACTS = """
directed(Alba, Ines); directed(Borea, Ines); directed(Cirro, Tom)
born(Ines, 1907); born(Tom, 1911); born(Ada, 1907)
made(Alba, 1911); made(Borea, 1950); made(Cirro, 1950)
threw(Ada, 50.0); threw(Ada, 70.4); threw(Tom, 66.0)
"""
ASKS = """
table | directed($1, ?) | Who directed $1? / Who was the director of $1? | film
table | directed(?, $1) | $1 made what? | person
table | made(?, $1) | What came out in $1? | made
table | directed(?, _) | Which films are there?
text | born(?, $1) | Who was born in $1? | b_year
text | born($1, ?) | When was $1 born? | person
text | threw($1, ?) | How far threw $1? | person
text | threw(?, $1) | Who all threw $2? | length
math_special | = count | How many are $1? | list(length)
math_special | = max | What is the most of $1? | list(x)
math_special | = min | What is the least of $1? | list(x)
math_special | = diff | From $1 to $2? | length | length
math_special | = is_smaller | Is $1 < $2? | length | length
math_special | = is_greater | Is $2 < $1 so? | length | length
"""


def row() -> dict[str, Any]:
    """A small world: films, people, years, lengths."""
    return worlds.row(FACTS, ASKS)


def reads(*templates: dict[str, Any], **facts: list[str]) -> Agents:
    """The small world's agents, with more templates of the table and more facts."""
    data = row()
    data["pred_lang_config"]["table"] += templates
    data["kb"] |= facts
    return Agents(read_world(data, "here:1", "here/1"))


@pytest.fixture
def agents() -> Agents:
    return reads()


# -- all published decompositions ---------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["dev_20kb", "train_100kb"])
def test_every_gold_decomposition_gives_every_recorded_answer(shared: Path, kind: str, part: str):
    seen = 0
    for world in read_worlds(str(shared / "commaqa" / f"{kind}_{part}.jsonl")):
        agents = Agents(world)
        for question in world.questions:
            answers = run_hops(question.hops, agents)
            assert told(answers) == told(question.answers), f"{world.name} {question.id}"
            assert told(answers[-1:]) == told([question.answer])
            assert exact_match(answers[-1], question.answer)
            seen += 1
        assert agents.calls >= sum(len(question.hops) for question in world.questions)
        bare = world.without_gold().questions
        assert not any(one.hops or one.answers or one.facts for one in bare)
        assert [(one.text, one.answer) for one in bare] == [
            (one.text, one.answer) for one in world.questions
        ]
    assert seen in (100, 500)


@pytest.mark.parametrize("kind", KINDS)
def test_every_gold_decomposition_is_a_plan_and_comes_back(shared: Path, kind: str):
    library = load_library("commaqa")
    for world in read_worlds(str(shared / "commaqa" / f"{kind}_dev_20kb.jsonl")):
        for question in world.questions:
            plan = to_plan(question.hops, question.text)
            text = print_plan(plan)
            parsed = parse(text)
            assert parsed.plan == plan
            assert not parsed.broken
            assert to_hops(parsed.plan) == question.hops
            assert print_plan(parsed.plan) == text
            assert parse_hops(print_hops(question.hops)) == question.hops
            assert not errors_of(check(parsed, library)), text


def test_a_question_that_two_templates_read_is_answered_by_the_one_with_facts(shared: Path):
    world = next(read_worlds(str(shared / "commaqa" / "numeric_dev_20kb.jsonl")))
    agents = Agents(world)
    for predicate in ("table_nationd", "table_nationj"):
        for person, nation in world.facts[predicate]:
            assert agents.ask("table", f"Which country is {person} from?") == [nation]


# -- the paper's text ----------------------------------------------------------------------------


@pytest.mark.parametrize(("line", "message"), [
    ("The answer is 5.", "Line 2 is no hop: write"),
    ('(select) [] "Who?"', "Line 2 is no hop: write"),
    ('(selects) [text] "Who?"', "Line 2: selects is no operator: use select, project"),
    ('(select(#1)) [text] "#1?"', r"Line 2: select\(#1\) is no operator"),
])  # fmt: skip
def test_a_line_that_is_no_hop_is_named(line: str, message: str):
    with pytest.raises(HopError, match=message):
        parse_hops(f'(select) [text] "Who?"\n{line}')


operators = st.builds(
    Operation,
    st.sampled_from(list(MODES.values())),
    st.none(),
    st.lists(st.sampled_from(CHANGES), max_size=4).map(tuple),
)
questions = st.text(st.sampled_from('ab "#12\\{}[]()\n\r“”\u2028$é_'), min_size=1, max_size=30)


@given(operators, questions)
def test_any_question_survives_being_written(operation: Operation, question: str):
    hop = Hop(print_operation(operation), "text", question)
    line = print_hop(hop)
    assert "\n" not in line
    assert parse_hops(line) == (hop,)
    assert read_operation(hop.operator) == operation


@pytest.mark.parametrize(
    ("operator", "operation"),
    [
        ("select", Operation(Mode.PLAIN)),
        ("project_values", Operation(Mode.EACH, None, ("values",))),
        ("projectValues", Operation(Mode.EACH_VALUES)),
        ("filterValues(#3)_keys", Operation(Mode.WHERE_VALUES, 3, ("keys",))),
        *((operator, None) for operator in ("select_select", "project_", "filter(#0)", "Select")),
    ],
)
def test_operators(operator: str, operation: Operation | None):
    assert read_operation(operator) == operation


# -- agents --------------------------------------------------------------------------------------

REFUSED = (
    "who directed Alba?|Who directed Alba? |Who directed Alba|Who directed ?|Who directed 1907?|"
    "Who directed Nobody?|What came out in 1907?|"
)


@pytest.mark.parametrize(
    ("agent", "question", "answer"),
    [
        ("table", "Who directed Alba?", ["Ines"]),
        ("table", "Who was the director of Alba?", ["Ines"]),
        ("table", "Ines made what?", ["Alba", "Borea"]),
        ("table", "Which films are there?", ["Alba", "Borea", "Cirro"]),
        ("text", "Who was born in 1907?", ["Ines", "Ada"]),
        # Somebody who is known, and of whom no such fact is.
        ("text", "How far threw Ines?", []),
        # Not this agent's, not its words, not its inputs.
        *(("table", question, None) for question in REFUSED.split("|")),
        ("text", "Who directed Alba?", None),
        ("text", "Who was born in 1950?", None),
        ("nobody", "Who directed Alba?", None),
        # A phrasing whose slot the template does not have.
        ("text", "Who all threw 50.0?", None),
        ("text", "Who all threw $2?", None),
    ],
)
def test_agents_answer_their_own_language_alone(
    agents: Agents, agent: str, question: str, answer: Value | None
):
    assert agents.ask(agent, question) == answer
    assert agents.calls == 1
    assert agents.unread == (not list(agents.world.language.readings(agent, question)))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How many are 50.0\n70.4?", 2),
        ("How many are 50.0?", 1),
        ("How many are ?", 0),
        ('How many are ["50.0", 66.0]?', 2),
        ("What is the most of 9.5\n70.4?", 70.4),
        ("What is the most of [66, 9]?", 66),
        ("What is the least of [66.0]?", 66.0),
        ("From 85.8 to 92.4?", 6.6),
        ("From 59.6 to 59.6?", 0.0),
        ("From 1911 to 1907?", 4),
        ("Is 9 < 10?", True),
        ("Is 10.0 < 10?", False),
        ("Is 9 < 10 so?", True),
    ],
)
def test_arithmetic(agents: Agents, question: str, answer: Value | None):
    assert told([agents.ask("math_special", question)]) == told([answer])


def test_arithmetic_of_what_is_no_number(agents: Agents):
    many = "Ines\nTom|50.0, 70.4|[[1]]|[1".split("|")
    questions = [f"How many are {words}?" for words in many]
    questions += "From 1911 to Ines?|From 1 to 2 to 3?|From 1e9 to 2?".split("|")
    questions += "What is the least of ?|Is 1907\n1911 < 1950?".split("|")
    assert {agents.ask("math_special", question) for question in questions} == {None}


@given(st.lists(st.decimals(-999, 999, places=1), max_size=5))
def test_a_list_reads_the_same_as_lines_and_as_json(numbers: list):
    lines = "\n".join(map(str, numbers))
    assert read_numbers(lines) == tuple(numbers)
    assert read_numbers(json.dumps([str(number) for number in numbers])) == tuple(numbers)


def test_two_templates_that_differ_have_no_answer():
    agents = reads(template("table", "made($1, ?)", "Who directed $1?", "film"))
    assert agents.ask("table", "Who directed Alba?") is None
    assert agents.ask("table", "Who was the director of Alba?") == ["Ines"]


def test_a_template_may_have_steps_of_its_own():
    composed = template("table", "made(?, $1)", "Who directed in $1?", "made")
    composed["steps"].append(
        {"operation": "project_values_flat_unique", "question": "directed(#1, ?)", "answer": "#2"}
    )
    agents = reads(composed)
    assert agents.ask("table", "Who directed in 1950?") == ["Ines", "Tom"]
    assert agents.ask("table", "Who directed in 1907?") is None


def test_slots_are_filled_in_every_way_the_words_allow():
    agents = reads(
        template("table", "played($1, ?)", "What of $1 and $2 is it?", "band", "player"),
        template("table", "played(?, $1)", "Whose is $1?", "player"),
        played=["played(Salt and Pepper, Ada)", "played(Salt, Pepper and Ada)"],
    )
    assert agents.ask("table", "What of Salt and Pepper and Ada is it?") is None  # both ways fit
    assert agents.ask("table", "What of Salt and Ada is it?") == ["Pepper and Ada"]


# -- running -------------------------------------------------------------------------------------


def test_every_operator_and_transformation(agents: Agents):
    answers = run_hops(
        parse_hops(
            '(select) [text] "Who was born in 1907?"\n'
            '(project) [text] "How far threw #1?"\n'
            '(projectValues) [math_special] "How many are #2?"\n'
            '(filterValues) [math_special] "Is 1 < #3?"\n'
            '(filterValues_keys) [math_special] "Is #3 < 1?"\n'
            '(project_values_flat) [text] "How far threw #1?"\n'
            '(filter) [math_special] "Is 60 < #6?"\n'
            '(project_keys) [text] "When was #1 born?"\n'
            '(project_values_flat_unique) [text] "When was #1 born?"\n'
            '(filterValues(#3)_keys) [math_special] "Is #9 < #3?"\n'
            '(select) [math_special] "What is the most of #6?"\n'
        ),
        agents,
    )
    throws = Pairs((("Ines", []), ("Ada", ["50.0", "70.4"])))
    counts = Pairs((("Ines", 0), ("Ada", 2)))
    assert answers[:4] == [["Ines", "Ada"], throws, counts, Pairs((("Ada", 2),))]
    assert answers[4:7] == [["Ines"], ["50.0", "70.4"], ["70.4"]]
    assert answers[7:] == [["Ines", "Ada"], ["1907"], [], 70.4]


@pytest.mark.parametrize(
    "line",
    [
        '(select) [text] "How far threw Nobody?"',
        '(select) [text] "How far threw #2?"',
        '(project) [text] "How far threw Ada?"',
        '(project(#2)) [text] "How far threw #1?"',
        '(projectValues) [text] "How far threw #1?"',
        '(filter) [text] "How far threw #1?"',
        '(project_keys_keys) [text] "How far threw #1?"',
        '(select_values) [text] "Who was born in 1907?"',
        '(filter) [math_special] "Is #2 < 60?"',
    ],
)
def test_a_hop_without_an_answer_ends_the_run(agents: Agents, line: str):
    first = '(select) [text] "Who was born in 1907?"\n'
    assert run_hops(parse_hops(first + line + "\n" + first), agents) == [["Ines", "Ada"]]


# -- plans ---------------------------------------------------------------------------------------


def test_a_decomposition_as_a_plan():
    text = (
        '(select) [text] "Who was \\\\born {in} 1907?"\n'
        '(project_values_flat_unique) [table] "#1 made what?"\n'
        '(filter(#2)) [math_special] "Is #2 < 5?"\n'
        '(filterValues(#4)_keys) [kb] "Is #1 as #4?"\n'
    )
    plan = to_plan(parse_hops(text), "What?")
    printed = print_plan(plan)
    assert printed == (
        "question: What?\n\n"
        '1. a1 = ASK_TEXT("Who was \\\\born \\{in} 1907?")\n'
        '2. a2_1 = ASK_TABLE("{each a1} made what?")\n'
        "3. a2_2 = VALUES(a2_1)\n"
        "4. a2_3 = FLAT(a2_2)\n"
        "5. a2 = UNIQUE(a2_3)\n"
        '6. a3 = ASK_MATH("Is {where a2} < 5?") : filter(#2)\n'
        '7. a4_1 = ASK_KB("Is {a1} as {where values a4}?")\n'
        "8. a4 = KEYS(a4_1)\n"
        "return a4\n"
    )
    assert parse(printed).plan == plan
    with pytest.raises(HopError, match="a4_1 uses a4"):
        to_hops(plan)  # it asks for its own answer


words = st.text(st.sampled_from('ab "12\\{}[]()\n\r\u2028$é_,:'), max_size=30)


@given(st.lists(st.tuples(operators, words), max_size=4))
def test_what_becomes_a_plan_comes_back(drawn: list):
    chain = [Hop("select", "text", "Who?")]
    for number, (operation, question) in enumerate(drawn, 1):
        chain.append(Hop(print_operation(operation), "text", f"{question} #{number}"))
    plan = to_plan(chain)
    parsed = parse(print_plan(plan))
    assert parsed.plan == plan
    assert to_hops(parsed.plan) == tuple(chain)


def test_a_plan_with_other_names_is_read():
    plan = parse(
        'people = ASK_TEXT("Who?") : find them\n'
        'asked = ASK_TABLE("{each people} made what?") : a note\n'
        "films = VALUES(asked)\n"
    ).plan
    assert to_hops(plan) == (
        Hop("select", "text", "Who?"),
        Hop("project_values", "table", "#1 made what?"),
    )


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ('a = FIND_EVENT(CTX, "x")', "a asks no agent"),
        ('a = ASK_TEXT("x")\nb = COUNT(a)', "b asks no agent"),
        ('a = ASK_TEXT("x", "y")', "a asks no question"),
        ("a = ASK_TEXT(5)", "a asks no question"),
        ('a = ASK_TEXT("x #1")', "would read as an answer"),
        ('a = ASK_TEXT("x")\nb = ASK_TEXT("#{a}{a}1")', "would read as an answer"),
        ('a = ASK_TEXT("x")\nb = ASK_TEXT("{a}")\nreturn a', "return that one alone"),
        ('a = ASK_TEXT("x")\nb = ASK_TEXT("y")', "return that one alone"),
        ('a = ASK_TEXT("x")\nb = FLAT(a)\nc = ASK_TEXT("{a}{b}")', "a, which is no hop's answer"),
        ('a = ASK_TEXT("x")\nb = ASK_TEXT("{each a} {a}")', "in more ways"),
        ('a = ASK_TEXT("x")\nb = ASK_TEXT("{a}")\nc = ASK_TEXT("{each a} {each b}")', "more ways"),
    ],
)
def test_plans_that_are_no_decompositions(plan: str, message: str):
    with pytest.raises(HopError, match=message):
        to_hops(parse(plan).plan)


@pytest.mark.parametrize(
    ("hop", "message"),
    [
        (Hop("guess", "text", "Who?"), "no operator"),
        (Hop("project", "text", "Who?"), "needs an answer such as #1"),
        (Hop("project(#2)", "text", "Who is #1?"), "needs #2"),
        (Hop("select", "Text", "Who?"), "no agent's name"),
        (Hop("select", "math", "Who?"), "no agent's name"),
    ],
)
def test_hops_that_are_no_plan(hop: Hop, message: str):
    with pytest.raises(HopError, match=message):
        to_plan([hop])


def test_agents_have_actions():
    named = {agent_of(name) for name in load_library("commaqa").actions} - {None}
    assert named == {"text", "table", "kb", "math_special"}
    assert agent_of("ASK_MATH_SPECIAL") is None
    assert agent_of("ASK_") is None
    assert to_hops(Plan()) == ()
    assert to_plan(()) == Plan()
    assert to_plan([Hop("select", "my_web", "x")]).returns == (Ref("a1"),)


# -- files ---------------------------------------------------------------------------------------


def test_a_list_of_worlds_is_read_too(tmp_path: Path):
    (tmp_path / "two.json").write_text(json.dumps([row(), row()]), encoding="utf-8")
    assert [world.name for world in read_worlds(str(tmp_path / "two.json"))] == ["two/1", "two/2"]


def test_a_decomposition_need_not_be_told():
    data = row()
    data["qa_pairs"] = [{"id": "q", "question": "Who?", "answer": ["Ines"]}]
    question = read_world(data, "here:1", "here/1").questions[0]
    assert (question.answer, question.hops) == (["Ines"], ())


def broken(**changes: object) -> dict[str, object]:
    return {**row(), **changes}


def taught(*told: str) -> dict[str, object]:
    """The small world with one template alone."""
    return broken(pred_lang_config={told[0]: [template(*told)]})


ASKED = {"id": "q", "question": "Who?", "answer": ["Ines"]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "a world is an object"),
        (broken(kb=None), "kb is not there, or is not an object"),
        (broken(kb={"born": ["died(Ada, 1)"]}), r"write a fact as born\(one, other\)"),
        (broken(kb={"born": ["born(Ada, 1)", "born(Ada)"]}), "not all of one length"),
        (broken(kb={"born": "born(Ada, 1)"}), "born is not a list"),
        (broken(pred_lang_config={"text": {}}), "the agent text needs a list of templates"),
        (broken(pred_lang_config={"text": [3]}), "a template of text is no object"),
        (taught("m", "= median($1)", "$1?", "x"), "median has no steps and is no arithmetic: use"),
        (taught("m", "= diff($1)", "$1?", "x"), "diff has 1 arguments"),
        (taught("t", "born(Ada)", "x?"), r"born\(Ada\): a look-up needs one \?"),
        (taught("t", "born", "x?"), "born has a step that is not an operation"),
        (taught("t", "born(?, $1)", "$1$2", "x"), "two slots with nothing between them"),
        (
            broken(pred_lang_config={"t": [{**template("t", "b(?)", "x"), "init": {"y": "x"}}]}),
            "needs slots such",
        ),
        (broken(qa_pairs=[{"question": "Who?"}]), "id is not there"),
        (broken(qa_pairs=[{**ASKED, "answer": None}]), "question q: an answer is a list"),
        (
            broken(
                qa_pairs=[
                    {
                        **ASKED,
                        "decomposition": [{"op": "project", "m": "t", "q": "#1?", "a": ["x"]}],
                    }
                ]
            ),
            "list of item and answer",
        ),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, data: object, message: str):
    path = tmp_path / "worlds.jsonl"
    path.write_text(json.dumps(row()) + "\n" + json.dumps(data) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        list(read_worlds(str(path)))
    assert str(caught.value).startswith(f"{path}:2: ")
    assert "\n" not in str(caught.value)


# -- scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "gold", "exact", "score"),
    [
        (["b", "a"], ["a", "b"], True, 1.0),
        ("b\na\n", ["a", "b"], True, 1.0),
        (["A ", "b"], ["a", "B"], True, 1.0),
        (["b"], ["b", "c"], False, 1 / 2),
        (["b", "c", "d", "e"], ["b", "c"], False, 1 / 2),
        (["b", "b"], ["b"], False, 1 / 2),
        # Spans are put beside one another by the words they share.
        (["Xan", "Bor", "Cul"], ["Xan"], False, 1 / 3),
        (["New York", "Xan"], ["New Jersey", "Xan"], False, 3 / 4),
        (["Xan", "Jersey"], ["New Jersey", "Xan"], False, (2 / 3 + 1) / 2),
        # Greedily, "b c" beside "b c d" leaves "d" nothing: 4/5. The best is 1/2 + 2/3.
        (["b c", "b e"], ["b c d", "c"], False, (2 / 5 + 2 / 3) / 2),
        # Articles, punctuation and hyphens between words count in no span, and repeated words once.
        (["The Xan!"], ["xan"], False, 1.0),
        (["Xan-Bor"], ["Bor, Xan"], False, 1.0),
        (["Xan Xan Xan"], ["Xan"], False, 1.0),
        (["the"], ["a"], False, 1.0),
        (["the"], ["Xan"], False, 0.0),
        # A number of the gold span has to be there.
        (["12 jars"], ["13 jars"], False, 0.0),
        (["12.0 jars"], ["12 jars"], False, 1.0),
        (["12 jars"], ["jars"], False, 2 / 3),
        (["1,200"], ["1200"], False, 1.0),
        (["-5"], ["5"], False, 0.0),
        (["c"], ["a", "b"], False, 0.0),
        ([], ["a"], False, 0.0),
        ([], [], True, 1.0),
        (None, ["a"], False, 0.0),
        (None, [], False, 0.0),
        ("66.0", 66, True, 1.0),
        (["66"], 66.0, True, 1.0),
        (100, "100.0", True, 1.0),
        (6.5, 6.6, False, 0.0),
        ("-0.0", 0, True, 1.0),
        (True, "yes", True, 1.0),
        (Pairs((("a", 1),)), "a: 1", True, 1.0),
        (Pairs(()), [], True, 1.0),
    ],
)
def test_scores(answer: Value | None, gold: Value, exact: bool, score: float):
    assert exact_match(answer, gold) is exact
    assert f1(answer, gold) == pytest.approx(score)
