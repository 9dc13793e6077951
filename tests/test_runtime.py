"""The loop, the executor, the journal and the trace, with a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import pearl
from pearl.answer import map_answer, read_option
from pearl.lang.graph import outputs
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.source import Source
from pearl.lang.values import DecodeError, Pairs, Type, Value, decode, split_evidence
from pearl.lint.checker import check
from pearl.models.base import ModelError, Reply, Request
from pearl.models.middleware.stack import start_engine
from pearl.prompts.calls import CorrectStep, ExecuteStep, MapAnswer
from pearl.runtime.calls import Caller, Journal
from pearl.runtime.context import Context
from pearl.runtime.evidence import evidence, evidence_key
from pearl.runtime.executor import Frame
from pearl.runtime.loop import Return, Run, RunError, Steps, Strategy, run_strategy
from pearl.runtime.trace import export_trace, read_records, read_trace, replay
from pearl.store.store import open_store
from pearl.strategies.pearl import GivenPlan, with_one_answer
from tests.conftest import library_of
from tests.runs import entries, runs
from tests.scripted_models import Scripted

DOCUMENT = Source("town.txt", "Ada lives in Ulm. Bo lives in Kiel. Nobody lives in Rest.")


def run(
    plan: str | Strategy,
    model: Scripted | Mapping[str, str | ModelError],
    journal: Journal | None = None,
    library: Library | None = None,
):
    model = model if isinstance(model, Scripted) else Scripted(model)
    journal = journal or Journal()
    if isinstance(plan, str):
        parsed = parse(plan)
        assert not parsed.broken
        plan = GivenPlan(parsed.plan)
    caller = Caller(model.answer, model.identity, journal)
    work = run_strategy(plan, "who?", Frame(DOCUMENT, library or load_library(), caller))
    return asyncio.run(work), model, journal


def test_answer_is_every_unused_output_in_order():
    plan = """
    a = FIND_CHARACTER(CTX, "Ada") : who
    b = FIND_CHARACTER(CTX, "Bo") : who
    c = CONCAT(a, "and more") : both
    """
    finished, model, _ = run(plan, {"step/a": "Ada is here.\n", "step/b": "Bo is there."})
    assert finished.outputs == ("b", "c")
    assert finished.text == 'Bo is there.\n\nAda is here.\n\n"and more"'
    assert [request.path for request in model.asked] == ["step/a", "step/b"]
    explicit, _, _ = run(f"{plan}    return b, a", {"step/a": "one", "step/b": "two"})
    assert explicit.text == "two\n\none"


@pytest.mark.parametrize(("steps", "returned", "text", "plans"), [
    ('a = FLAT(["x"])\nb = CONCAT(a, "y")', "a", "x", 2),
    ('a = FLAT(["x"])\nb = CONCAT(a, "y")', "b", 'x\n"y"', 1),
    # Another step is unused, too.
    ('a = CONCAT("a", "b")\nb = CONCAT("c", "d")', "a", '"a"\n"b"', 2),
])  # fmt: skip
def test_a_strategy_may_return_an_earlier_output_and_its_trace_says_so(
    steps: str, returned: str, text: str, plans: int
):
    class Returning:
        async def next(self, run: Run) -> Steps | Return:
            if run.plan.steps:
                return Return((returned,))
            return Steps(parse(steps).plan.steps)

    finished, _, journal = run(Returning(), {})
    assert finished.text == text
    assert [entry.path for entry in journal.entries].count("plan") == plans
    [record] = read_records(Source("t.plan", export_trace(journal.entries, "t")))
    replayed = replay([record], load_library())
    assert (record.answer, replayed.exact, replayed.failed) == (text, 1, {})
    assert [ref.name for ref in parse(record.source).plan.returns] == [returned] * (plans - 1)


def test_each_gives_pairs_and_where_keeps_items():
    plan = """
    people = FIND_ALL(CTX, "people") : list them
    towns = FIND_LOCATION(CTX, each people) : where each lives
    there = CHECK_TRUE(CTX, "{where people} lives in Ulm") : is it so
    old = CHECK_TRUE(CTX, where values towns) : is the town old
    names = KEYS(old) : whose town is old
    count = COUNT(people) : how many
    rivers = FIND_LOCATION(CTX, "{count} rivers of {each values towns}") : which river
    return towns, there, old, names, rivers, count
    """
    finished, model, _ = run(
        plan,
        {
            "step/people": '["Ada", "Bo"]\n> Ada lives in Ulm.',
            "step/towns[0]": "Ulm",
            "step/towns[1]": "Kiel",
            "step/there[0]": "Yes, she does.\n> Ada lives in Ulm.",
            "step/there[1]": "no\n> Bo lives in Kiel.",
            "step/old[0]": "no",
            "step/old[1]": "yes",
            "step/rivers[0]": "Danube",
            "step/rivers[1]": "none",
        },
    )
    values = finished.values
    assert values["people"] == ["Ada", "Bo"]
    assert values["towns"] == Pairs((("Ada", "Ulm"), ("Bo", "Kiel")))
    assert values["there"] == ["Ada"]
    assert values[evidence_key("there")] == ["Ada lives in Ulm."]
    assert values["old"] == Pairs((("Bo", "Kiel"),))
    assert values["names"] == ["Bo"]
    assert values["rivers"] == Pairs((("Ada", "Danube"), ("Bo", "none")))
    assert values["count"] == 2
    asked = {request.path: request.call for request in model.asked}
    for path, argument in (("there[1]", "Bo lives in Ulm"), ("rivers[1]", "2 rivers of Kiel")):
        call = asked[f"step/{path}"]
        assert isinstance(call, ExecuteStep)
        assert call.arguments == (("X", argument),)


def test_an_item_that_fails_does_not_cut_its_siblings_off():
    """Their calls are paid for: each is in the journal, whenever it ends."""
    journal = Journal()

    class Late(Scripted):
        async def answer(self, request: Request) -> Reply:
            for _ in range(200 if request.path in ("step/b[1]", "step/b[2]") else 0):
                await asyncio.sleep(0)
            return await super().answer(request)

    plan = 'a = FLAT(["x", "y", "z"])\nb = FIND_CHARACTER(CTX, each a)'
    gone = ModelError("server", "The endpoint failed.")
    model = Late({"step/b[0]": gone, "step/b[1]": "1", "step/b[2]": "2"})
    with pytest.raises(RunError, match="Step b has no output: The endpoint failed."):
        run(plan, model, journal)
    done = [entry.path for entry in journal.entries if entry.kind == "call" and entry.value]
    assert done == ["step/b[1]", "step/b[2]"]


def test_an_item_of_which_a_reply_cannot_be_used_is_named():
    replies = {"step/a": '["Ada", "Bo"]', "step/b[0]": "yes", "step/b[1]": "Perhaps"}
    plan = 'a = FIND_ALL(CTX, "men")\nb = CHECK_TRUE(CTX, "{where a} came")'
    named = "Step b has no output: for the item Bo: expected yes or no, got 'Perhaps'"
    with pytest.raises(RunError, match=named) as caught:
        run(plan, replies)
    assert caught.value.failures[0].reason == "reply"
    refusal = ModelError("refusal", "The model refused.")
    with pytest.raises(RunError, match="for the item Bo: The model refused"):
        run(plan, replies | {"step/b[1]": refusal})


def test_a_failed_step_skips_what_needs_it_and_leaves_the_rest():
    journal = Journal()
    plan = """
    a = FIND_CHARACTER(CTX, "Ada") : who
    b = FIND_CHARACTER(CTX, "Bo") : who
    c = FIND_RELATION(CTX, a, b) : tie
    """
    failing = {"step/a": ModelError("server", "The endpoint failed."), "step/b": "Bo"}
    with pytest.raises(RunError, match="Step a has no output: The endpoint failed.") as caught:
        run(plan, failing, journal)
    failures = [(one.step, one.reason) for one in caught.value.failures]
    assert failures == [("a", "server"), ("c", "server")]
    found = journal.entries
    statuses = {entry.path: entry.status for entry in found if entry.path.startswith("step/")}
    assert statuses == {"step/a": "failed", "step/b": "done", "step/c": "skipped"}
    assert any(entry.path == "value/b" for entry in found)


@pytest.mark.parametrize(("steps", "reply", "why"), [
    ('a = CHECK_TRUE(CTX, "it rains")', "Perhaps", "Step a .* expected yes or no, got 'Perhaps'"),
    ('a = ANY(CTX, "x")\nb = CHECK_TRUE(CTX, where values a)', "Ada", "Step a .* expected .*pairs"),
    ('a = ITEM(["x"], 1)\nb = FIND_LOCATION(CTX, each a)', "",
     "each a needs a list, and it is text"),
    ('a = ITEM(["x"], 1)\nb = FIND_LOCATION(CTX, each values a)', "",
     "each values a needs pairs, and it is text"),
    ('a = FLAT(["x"])\nb = ANY(CTX, where a)', "yes", None),
])  # fmt: skip
def test_a_value_of_the_wrong_type_that_only_running_shows_names_its_step(
    steps: str, reply: str, why: str | None
):
    plan = f"New actions:\n- ANY(CTX, X) -> any : Find X in CTX\n\n{steps}"
    replies = {"step/a": reply, "step/b[0]": reply}
    library = load_library("core", "quality", "lists")
    if why is None:
        assert run(plan, replies, library=library)[0].values["b"] == ["x"]
        return
    with pytest.raises(RunError, match=why):
        run(plan, replies, library=library)


def test_a_reply_of_the_wrong_type_is_sent_back_with_what_is_wrong():
    plan = 'a = CHECK_TRUE(CTX, "it rains") : is it so'
    finished, model, _ = run(plan, Scripted(["Perhaps.\n> Nobody lives in Rest.", "Yes.", "-"]))
    assert finished.values["a"] is True
    first, second = model.asked
    assert isinstance(first.call, ExecuteStep)
    assert second.call == CorrectStep(
        first.call, "Perhaps.\n> Nobody lives in Rest.", "expected yes or no, got 'Perhaps.'"
    )


def test_a_model_that_repeats_its_correction_has_not_answered():
    def repeat(_: object) -> str:
        return model.asked[-1].messages[-1]["content"] if len(model.asked) > 1 else "3 or 4"

    model = Scripted(repeat)
    plan = "New actions:\n- COUNT_MEN(CTX) -> number : Count the men in CTX\n\na = COUNT_MEN(CTX)"
    with pytest.raises(RunError, match="the model repeats what it was asked"):
        run(plan, model)
    assert [type(request.call) for request in model.asked] == [
        ExecuteStep,
        CorrectStep,
        ExecuteStep,
    ]


def test_the_words_of_a_correction_are_an_answer_where_they_were_given():
    said = "That reply cannot be used in court, said the clerk."
    plan = 'a = FIND_EVENT(CTX, "the clerk")\nb = ANSWER_FROM("what he said", a)'
    model = Scripted({"step/a": said, "step/b": said})
    finished, _, _ = run(plan, model, library=load_library("core", "quality"))
    assert (finished.values["b"], len(model.asked)) == (said, 2)


@pytest.mark.parametrize("room", [True, False])
def test_a_wrong_reply_that_comes_again_or_leaves_no_room_is_another_sample(room: bool):
    """Three replies in all: of a correction where the window holds it, else of the call."""
    model = Scripted(["Perhaps. " * 200] * 3)
    step = parse('a = CHECK_TRUE(CTX, "it rains") : is it so').plan
    window = Context("chunk", None if room else 800, 100)
    caller = Caller(model.answer, model.identity, Journal(), context=window)
    with pytest.raises(RunError, match="expected yes or no, got 'Perhaps"):
        asyncio.run(run_strategy(GivenPlan(step), "?", Frame(DOCUMENT, load_library(), caller)))
    kinds = [(type(request.call), request.sample) for request in model.asked]
    mended = [(CorrectStep, 0), (CorrectStep, 1)]
    assert kinds == [(ExecuteStep, 0), *(mended if room else [(ExecuteStep, 1), (ExecuteStep, 2)])]


def test_the_journal_has_each_reply_before_it_is_used(tmp_path: Path):
    """When a second call starts, or a person's function, the first reply is on the disk already."""
    place = tmp_path / "s.db"
    store = open_store(str(place))
    journal = store.journal(store.start("run", {}))
    seen: list[list[str]] = []

    def look() -> None:
        seen.append([entry.path for entry in entries(place)] if runs(place) else [])

    class Looking(Scripted):
        async def answer(self, request: Request) -> Reply:
            look()
            return await super().answer(request)

    @pearl.action
    async def note(text: str) -> str:
        """Note TEXT."""
        look()
        return text

    model = Looking({"step/a": "x", "step/b": "y"})
    caller = Caller(start_engine(model, store).ask, model.identity, journal)
    library = load_library().with_declared([note.action])
    plan = 'a = FIND_CHARACTER(CTX, "Ada")\nb = FIND_REASON(CTX, a)\nc = NOTE(b)'
    given = GivenPlan(parse(plan).plan)
    asyncio.run(run_strategy(given, "who?", Frame(DOCUMENT, library, caller)))
    assert ["step/a" in paths for paths in seen] == [False, True, True]
    assert ["step/b" in paths for paths in seen] == [False, False, True]
    store.close()


@pytest.mark.parametrize(
    ("later", "reply", "value"),
    [
        ("b = FIND_HOME(CTX, each a) : x", '["Ada", "Bo"]', ["Ada", "Bo"]),
        ("b = COUNT(a) : x", "- Ada\n- Bo", ["Ada", "Bo"]),
        ("b = PARTS(CTX, a) : x", "2", 2),
        ("b = FIND_HOME(CTX, a) : x", "2", "2"),
    ],
)
def test_an_output_of_any_type_is_of_the_one_that_a_later_step_needs(
    later: str, reply: str, value: object
):
    plan = f"""
    New actions:
    - FIND_HOME(CTX, X) : Find where X lives in CTX
    - FIND_OUT(CTX, X) -> any : Find out what X asks for, given CTX

    a = FIND_OUT(CTX, "people") : find out
    {later}
    """
    homes = {f"step/b{at}": "Ulm" for at in ("", "[0]", "[1]")}
    finished, model, _ = run(plan, {"step/a": reply, **homes})
    assert finished.values["a"] == value
    asked = model.asked[0].messages[-1]["content"]
    form = {list: "JSON array", int: "one number", str: "plain text"}[type(value)]
    assert form in asked


def test_a_trace_is_a_plan_that_checks_and_replays():
    plan = """
    question: Who lives where?

    New actions:
    - FIND_HOME(CTX, X) : Find where X lives in CTX

    people = FIND_ALL(CTX, "people") : list them
    homes = FIND_HOME(CTX, each people) : where each lives
    far = CHECK_TRUE(CTX, "{where people} lives far away") : is it so
    both = CONCAT(homes, "and", far) : together
    """
    replies = {
        "step/people": '["Ada", "Bo\\n# value far = []"]',
        "step/homes[0]": 'Ulm, "on the\nDanube"',
        "step/homes[1]": "# answer = 3\u2028# answer = 4\x85\x0c",
        "step/far[0]": "no",
        "step/far[1]": "yes",
    }
    finished, _, journal = run(plan, replies)
    text = export_trace(journal.entries, "r")
    source = Source("trace.plan", text)
    parsed = parse(source)
    assert not parsed.broken
    assert not parsed.aside
    assert check(parsed, load_library()) == []
    trace = read_trace(source)
    assert trace.answer == finished.text
    assert trace.plan.steps == finished.plan.steps
    result = replay(list(read_records(source)), load_library())
    assert (result.executed, result.exact, result.failed) == (1, 1, {})


THREE = ("a storm", "a late boat", "a lie")


@pytest.mark.parametrize(("reply", "options", "chosen"), [
    ("B", THREE, 1),
    (" (b) ", THREE, 1),
    ("**C**", THREE, 2),
    ("The answer is B.", THREE, 1),
    ("Option B, because the boat was late.", THREE, 1),
    ("B. a late boat", THREE, 1),
    ("(A) is wrong, so (B)", THREE, None),
    ("A person would choose the second.", THREE, None),
    ("It means a late boat, I think.", THREE, 1),
    ("a storm or a late boat", THREE, None),
    ("D", THREE, None),
    ("none of them", THREE, None),
    ("", THREE, None),
    # Words that say that none fits may be an option's.
    ("None of the women.", ("None of the men", "None of the women", "Kiel"), 1),
    ("None of them; Kiel is nearest.", ("None", "Kiel"), 1),
    ("No option fits.", ("no option", "Kiel"), 0),
    ("None.", ("None of the men", "Kiel"), 0),
])  # fmt: skip
def test_an_option_is_read_only_where_one_is_named(
    reply: str, options: tuple[str, ...], chosen: int | None
):
    assert read_option(reply, options) == chosen


@pytest.mark.parametrize(
    ("reply", "kind", "value"),
    [
        ("1e-05", "number", 1e-05),
        ("1,250 of them", "number", 1250),
        ("-3.5\n> 7 men sat there", "number", -3.5),
        ("Yes.", "bool", True),
        ("**No**, it does not", "bool", False),
        ('["a", "b"]\n> c', "list", ["a", "b"]),
        ("```json\n[1, 2]\n```", "list", [1, 2]),
        ("- a\n2. b\n\n• c", "list", ["a", "b", "c"]),
        ("[]", "list", []),
        ("Unknown: only 3 are named.", "number", "unknown"),
        ("**EUR 1,900.50** a month", "number", 1900.5),
        ("-4 °C\nas clause 3 says", "number", -4),
        ("**Yes** in May", "bool", True),
        ("No (clause 4).", "bool", False),
        (" as it is \n", "text", " as it is \n"),
        ('{"pairs": [["a", 1]]}', "pairs", Pairs((("a", 1),))),
        # The document's own words are no value of a kind.
        ("> Ada\n>\n> Bo", "list", []),
    ],
)
def test_replies_are_read_as_the_type_an_action_returns(reply: str, kind: Type, value: object):
    assert decode(reply, kind) == value


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("3 or 4", "number"), ("Unknown soldiers: 3", "number"),
        ("It seems that there are 90 days.", "number"), ("No cap is missing: it is 2.", "bool"),
        ("None before 1901", "number"), ("No-one came.", "bool"), ("maybe", "bool"),
        ("a: b", "pairs"),
        *(("> yes, in 1901", kind) for kind in ("bool", "number", "pairs")),
    ],
)  # fmt: skip
def test_a_reply_of_another_type_is_an_error(reply: str, kind: Type):
    with pytest.raises(DecodeError):
        decode(reply, kind)


def test_what_is_quoted_stands_apart_from_what_is_said():
    assert split_evidence("Ulm\n> a\n>\n> b") == ("Ulm", ["a", "b"])


@pytest.mark.parametrize(
    "plan",
    [
        "a = FIND_CHARACTER(CTX, " + "[" * 4000 + "x" + "]" * 4000 + ")",
        "s0 = FIND_ALL(CTX, 'a')\n"
        + "\n".join(f"s{at} = CHECK_TRUE(CTX, where s{at - 1})" for at in range(1, 2000)),
    ],
    ids=["lists in lists", "filters of filters"],
)
def test_what_a_model_nests_without_end_is_no_recursion(plan: str):
    parsed = parse(plan)
    check(parsed, load_library())
    print_plan(parsed.plan)
    assert parsed.broken or len(parsed.plan.steps) == 2000


def test_a_library_that_names_no_builtin_of_ours_is_told_so(tmp_path: Path):
    file = tmp_path / "own.actions"
    file.write_text("JOIN(X, ...) : Join X.\n  body: builtin glue\n", encoding="utf-8")
    with pytest.raises(RunError, match="no builtin glue: use concat"):
        run('a = JOIN("x", "y")', {}, library=load_library(str(file)))


# --- values, and what was quoted for them ---

HOME = "Ada lives in Ulm."
LONG = "Ada is the keeper of the lamp\nwho has lived in the town of Ulm for all of her life."


def test_a_quotation_is_no_part_of_a_value_and_reaches_no_later_step():
    plan = """
    ada = FIND_CHARACTER(CTX, "Ada") : who she is
    bo = FIND_RELATION(CTX, "the work of {ada}", ada) : what Bo is to her
    """
    replies = {"step/ada": f"{LONG}\n> {HOME}", "step/bo": "A friend.\n> Bo lives in Kiel."}
    finished, model, journal = run(plan, replies)
    assert (finished.values["ada"], finished.text) == (LONG, "A friend.")
    second = model.asked[1].messages[-1]["content"]
    asked = second.partition("</document>")[2]
    assert HOME not in asked
    assert "<X>\nthe work of [ada]\n</X>\nY is [ada]." in asked
    assert asked.count(LONG) == 1
    assert f'[ada], from FIND_CHARACTER(CTX, "Ada"):\n<found_ada>\n{LONG}\n</found_ada>' in asked
    kept = {entry.path: entry.value for entry in journal.entries if entry.kind == "decision"}
    assert (kept["value/ada"], kept["evidence/ada"]) == (LONG, [HOME])
    quotes = evidence(finished.plan, finished.values, finished.outputs, DOCUMENT)
    assert [(quote.text, quote.step) for quote in quotes] == [("Bo lives in Kiel.", "bo")]


def test_a_plan_may_ask_for_what_a_step_quoted():
    plan = """
    ada = FIND_CHARACTER(CTX, "Ada") : who she is
    said = CONCAT(evidence ada) : the passage
    """
    finished, _, journal = run(plan, {"step/ada": f"She lives there.\n> {HOME}"})
    assert finished.text == HOME
    assert "CONCAT(evidence ada)" in print_plan(finished.plan)
    trace = read_trace(Source("t", export_trace(journal.entries, "t")))
    assert trace.evidence == {"ada": [HOME]}
    assert replay([trace], load_library()).exact == 1


def test_a_short_value_stands_in_the_text_and_an_item_of_each_too():
    plan = """
    who = UNIQUE(["Ada", "Bo"]) : both
    home = FIND_ELEMENT(CTX, "the home of {each who}", "town") : where each lives
    """
    finished, model, _ = run(plan, {"step/home[0]": f"Ulm\n> {HOME}", "step/home[1]": "Kiel"})
    assert "<X>\nthe home of Ada\n</X>" in model.asked[0].messages[-1]["content"]
    assert finished.values["home"] == Pairs((("Ada", "Ulm"), ("Bo", "Kiel")))
    assert finished.values[evidence_key("home")] == [HOME]


def test_a_short_value_says_what_it_is_of_where_no_document_does():
    plan = """
    ada = COUNT(["a", "b"]) : count her letters
    bo = FIND_QUANTITY(CTX, "the letters of Bo") : count his
    most = ANSWER_FROM(ada, "{bo}", [bo]) : who wrote more
    where = FIND_LOCATION(CTX, most) : where that is
    """
    _, model, _ = run(plan, {"step/bo": "3", "step/most": "Bo", "step/where": "Kiel"})
    texts = {one.path: one.messages[-1]["content"] for one in model.asked}
    assert "X is [ada].\n<S2>\n3\n</S2>\nS3 is [bo].\n[ada], from COUNT" in texts["step/most"]
    assert '[bo], from FIND_QUANTITY(CTX, "the letters of Bo"):' in texts["step/most"]
    assert "<found_ada>\n2\n</found_ada>" in texts["step/most"]
    # Who reads the document sees there who Bo is.
    assert "<X>\nBo\n</X>" in texts["step/where"]


@pytest.mark.parametrize(("longest", "direct"), [(29, True), (31, False)])
def test_the_longest_item_decides_how_all_items_of_each_are_put(longest: int, direct: bool):
    plan = f"""
    who = UNIQUE(["Ada", "{"who " * longest}lives"]) : name both
    all = FLAT([who]) : put them into one list
    home = FIND_ELEMENT(CTX, "the home of {{each all}}", "town") : where each lives
    """
    _, model, _ = run(plan, {"step/home[0]": "Ulm", "step/home[1]": "Kiel"})
    first, second = (one.messages[-1]["content"] for one in model.asked)
    assert ("<X>\nthe home of Ada\n</X>" in first) is direct
    assert ("<X>\nthe home of who who" in second) is direct
    # A call that names other outputs says nothing without them; the step's note does.
    told = '[one of all], from the step "put them into one list":\n<found_one_of_all>\nAda\n'
    assert (told in first) is not direct
    assert "FLAT" not in first


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (HOME, HOME),
        (f"Of her:\n> {HOME}\n> Bo lives in Kiel.", f"{HOME}\nBo lives in Kiel."),
        (f"{HOME}\nShe likes it there.", f"{HOME}\nShe likes it there."),
    ],
)
def test_what_is_copied_is_its_own_evidence_and_is_not_asked_for_twice(reply: str, text: str):
    plan = 'ada = EXTRACT(CTX, "Ada") : what is said of her'
    finished, model, _ = run(plan, {"step/ada": reply}, library=load_library("seed"))
    assert finished.text == text
    quotes = evidence(finished.plan, finished.values, finished.outputs, DOCUMENT)
    assert [one.text for one in quotes] == [line for line in text.splitlines() if "lives" in line]
    assert "Below your answer" not in model.asked[0].messages[-1]["content"]


@pytest.mark.parametrize(("steps", "reply"), [
    # A reply that only quotes says its quotations; a merge rests on what its inputs quote.
    ("", f"> {HOME}"),
    ('\nboth = CONCAT(ada, "and more") : joined\nsaid = CONCAT(evidence both) : the passage',
     f'She says "I have lived in this town for ever".\n> {HOME}'),
])  # fmt: skip
def test_what_is_quoted_may_be_what_is_said(steps: str, reply: str):
    finished, _, _ = run(f'ada = FIND_CHARACTER(CTX, "Ada") : who{steps}', {"step/ada": reply})
    assert finished.text == HOME


# --- options, and plans that end in several outputs ---

ENDS = """
a = FIND_CHARACTER(CTX, "Ada") : Find who Ada is
b = FIND_CHARACTER(CTX, "Bo") : Find who Bo is"""


@pytest.mark.parametrize("end", ["", "\nc = CONCAT(a, b) : both"])
def test_an_option_is_chosen_from_parts_that_say_what_they_are(end: str):
    model = Scripted({"plan/1": ENDS + end, "step/a": "A keeper.", "step/b": "A sailor.",
                      "map": "None of them", "map/best": "B"})  # fmt: skip
    answer = pearl.ask_sync(DOCUMENT, "Who is NOT here?", options=["Ada", "Bo"], model=model)
    assert answer.option
    assert (answer.option.letter, answer.option.fits) == ("B", False)
    by_path = {request.path: request.messages[-1]["content"] for request in model.asked}
    assert "Find who Ada is:\n<found>\nA keeper.\n</found>\nFind who Bo is:\n" in by_path["map"]
    assert 'with "none"' in by_path["map"]
    assert "comes nearest" in by_path["map/best"]
    assert "options to choose from, which you are not shown" in by_path["plan/1"]


def test_a_plan_that_ends_in_several_outputs_gives_one_answer():
    model = Scripted({"plan/1": ENDS, "step/a": "A keeper.", "step/b": "A sailor.",
                      "step/answer": "A keeper and a sailor."})  # fmt: skip
    answer = pearl.ask_sync(DOCUMENT, "Who are\nAda and Bo?", model=model)
    assert answer.text == "A keeper and a sailor."
    last = model.asked[-1].messages[-1]["content"]
    assert "What is wanted above all: Who are Ada and Bo?" in last
    assert "options to choose from" not in model.asked[0].messages[-1]["content"]
    assert not [one for one in check(parse(answer.plan), load_library()) if one.severity == "error"]


@pytest.mark.parametrize(
    ("outputs", "quotes"),
    [
        # Words in quotation marks count where the document has them, and once.
        ({"b": 'He: "Bo  lives in Kiel. Nobody" so.'}, [("Bo lives in Kiel. Nobody", "b")]),
        ({"b": "He: “Bo lives in Kiel. Nobody” so."}, [("Bo lives in Kiel. Nobody", "b")]),
        ({"b": 'He: "Bo lives in Rest, all alone" so.', "a": f"> {HOME}"}, [(HOME, "a")]),
        ({"b": '"Bo lives in Kiel. Nobody"\n> Bo lives in Kiel. Nobody lives'},
         [("Bo lives in Kiel. Nobody lives", "b")]),
        # What an output quotes stands before what its inputs do; what nobody has stands last.
        ({"b": "> Bo lives in Kiel.", "a": f"> {HOME}"}, [("Bo lives in Kiel.", "b")]),
        ({"b": "> Bo swims.\n> Bo lives in Kiel."},
         [("Bo lives in Kiel.", "b"), ("Bo swims.", "b")]),
        # What is left out of a quotation parts it.
        ({"b": "> Ada lives in … lives in Kiel. [...] lives in Rest."},
         [("Ada lives in", "b"), ("lives in Kiel.", "b"), ("lives in Rest.", "b")]),
        ({"b": "> Bo swims … lives in Kiel."}, [("Bo swims … lives in Kiel.", "b")]),
        ({"b": "> Bo … lives in Kiel."}, [("Bo … lives in Kiel.", "b")]),
        ({"b": "> lives in Kiel. … lives in Ulm."}, [("lives in Kiel. … lives in Ulm.", "b")]),
        # Whoever speaks in passages is not who was asked.
        ({"b": ['He: "Bo lives in Kiel. Nobody" so.']}, []),
        ({"b": Pairs((("Bo", ['He: "Bo lives in Kiel. Nobody" so.']),))}, []),
        ({"b": "nothing", "a": "nothing"}, []),
    ],
)  # fmt: skip
def test_what_an_answer_rests_on(outputs: dict[str, Value], quotes: list[tuple[str, str]]):
    plan = parse('a = FIND_CHARACTER(CTX, "Ada")\nb = CONCAT(a)').plan
    found = evidence(plan, outputs, ["b"], DOCUMENT)
    assert [(quote.text, quote.step) for quote in found] == quotes
    for quote in found:
        assert (quote.span is None) == (quote.text not in DOCUMENT.text)
        assert quote.span is None or DOCUMENT.at(quote.span) == quote.text


# --- what a review found ---


@pytest.mark.parametrize(
    ("reply", "options", "letter", "fits"),
    [
        ("none", ["Yes", "No"], "A", False),
        ("The answer is none.", ["One", "Two"], "A", False),
        ("No option fits.", ["x", "y"], "A", False),
        ("None of the above", ["x", "None of the above"], "B", True),
        ("No", ["Yes", "No"], "B", True),
        ("Both of them.", ["Yes", "No"], "A", True),
    ],
)
def test_none_is_no_option_unless_one_says_so(
    reply: str, options: list[str], letter: str, fits: bool
):
    model = Scripted({"map": reply, "map/best": "A"})
    call = MapAnswer("Which?", "It does not say.", tuple(options))
    option = asyncio.run(map_answer(call, Caller(model.answer, "s", Journal())))
    assert (option.letter, option.fits) == (letter, fits)


def test_a_document_among_the_parts_of_an_answer_is_none_of_them():
    model = Scripted({"plan/1": f"{ENDS}\nc = CONCAT(CTX, a, b) : both", "step/a": "A keeper.",
                      "step/b": "A sailor.", "map": "B"})  # fmt: skip
    answer = pearl.ask_sync(DOCUMENT, "Who?", options=["Ada", "Bo"], model=model)
    assert answer.option
    assert answer.option.letter == "B"


def test_a_last_step_leaves_unused_steps_out_and_finds_a_name():
    plan = parse('answer = COUNT(["a"])\nb = COUNT(["b"])\nc = COUNT(["c"])\nreturn answer, b').plan
    ended = with_one_answer(replace(plan, question="Which?"))
    assert outputs(ended) == ("answer_2",)
    assert [step.name for step in ended.steps] == ["answer", "b", "c", "answer_2"]


def test_words_in_quotation_marks_do_not_stand_for_evidence():
    document = Source("d", f'{HOME} "I have lived in this town for ever", she said.')
    values = {"a": 'She says "I have lived in this town for ever".', evidence_key("a"): [HOME]}
    plan = parse('a = FIND_CHARACTER(CTX, "Ada")\nb = CONCAT(a)').plan
    quotes = evidence(plan, {**values, "b": values["a"]}, ["b"], document)
    assert {quote.text for quote in quotes} == {HOME, "I have lived in this town for ever"}


def test_a_trace_of_a_step_with_steps_of_its_own_replays_its_evidence(tmp_path: Path):
    text = "LOOK(CTX, X) : Look X up.\n  plan:\n    1. one = FIND_CHARACTER(CTX, X)\n"
    library = library_of(text, load_library().actions)
    plan = 'k = LOOK(CTX, "Ada") : who\nsaid = CONCAT(evidence k) : the passage'
    finished, _, journal = run(plan, {"step/one": f"Here.\n> {HOME}"}, library=library)
    assert finished.text == HOME
    trace = read_trace(Source("t", export_trace(journal.entries, "t")))
    assert replay([trace], library).exact == 1
    assert trace.replies["step/k"] == "Here."
    found = check(parse("c = CONCAT(evidence CTX)"), load_library())
    assert [one.code for one in found if one.severity == "error"] == ["PRL301"]


def test_tags_that_the_examples_stand_in_are_no_part_of_an_answer():
    plan = 'a = SPLIT("Ann Bo", " ")\nb = SPLIT("Cy", "")'
    said = {"step/a": '<answer>\n["Ann", "Bo"]\n</answer>', "step/b": '<answer>["C", "y"]</answer>'}
    library = load_library("letters_by_example")
    finished, _, _ = run(plan, said, library=library)
    assert finished.values["a"] == ["Ann", "Bo"]
    assert finished.values["b"] == ["C", "y"]
