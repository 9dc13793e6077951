"""Passes do what their documentation and fixtures say, and safe ones change no answer.

``passes/NAME.md`` holds titled cases: a plan, the plan after the pass, and its
notes. A case without a second plan is one the pass must leave alone; its title
starts with ``Blocked:`` and names the condition. ``UPDATE_DOCS=1`` writes
``docs/passes.md`` anew.
"""

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from benchmarks.shared_calls import shared_calls
from pearl.answer import answer_parts
from pearl.lang.ast import Arg, Items, Literal, Mode, Plan, Ref, Step, Template
from pearl.lang.diagnostics import Safety, errors_of
from pearl.lang.errors import InputError
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.source import Source, read_source
from pearl.lang.text import section
from pearl.lang.values import as_text, canonical_json
from pearl.lint.checker import check
from pearl.models.base import Reply, Request
from pearl.passes import DEFAULT_PASSES, PASSES, find_pass, rewrite
from pearl.passes.base import Pass, sound
from pearl.passes.split_context import split_context
from pearl.prompts.calls import ExecuteStep
from pearl.runtime.calls import Caller, Journal
from pearl.runtime.evidence import evidence
from pearl.runtime.executor import Frame
from pearl.runtime.loop import RunError, run_strategy
from pearl.runtime.trace import Trace, read_records, replay
from pearl.strategies.pearl import GivenPlan
from tests.conftest import ROOT, library_of
from tests.shell import read_rows

DOCUMENT = Source("town.txt", "Ro sold the boat. Mara saw it.\nNobody told the police.")
SENTENCES = ("Ro sold the boat.", "Mara saw it.", "Nobody told the police.")
SECTIONS = ("Why", "Before", "After", "Safety")
BY_PASS = pytest.mark.parametrize("one", PASSES, ids=lambda one: one.name)
SAFE = tuple(one for one in PASSES if one.safety is Safety.SAFE)

EVERY = (*PASSES, split_context((), 2))

LIBRARY = load_library()


# -- fixtures


@dataclass(frozen=True)
class Case:
    """A plan, what a pass makes of it (None: nothing), and what it says."""

    title: str
    actions: str
    before: str
    after: str | None
    notes: tuple[str, ...]

    @property
    def library(self) -> Library:
        return library_of(self.actions, LIBRARY.actions)


def cases(name: str) -> Iterator[Case]:
    """The cases of a fixture."""
    text = (Path(__file__).parent / "passes" / f"{name}.md").read_text(encoding="utf-8")
    for case in text.split("\n## ")[1:]:
        title, _, body = case.partition("\n")
        blocks = re.findall(r"^~~~(\w+)\n(.*?)^~~~$", body, re.MULTILINE | re.DOTALL)
        plans = [block for kind, block in blocks if kind == "plan"]
        own = "".join(block for kind, block in blocks if kind == "actions")
        after = plans[1] if len(plans) > 1 else None
        last = body[body.rindex("~~~") :]
        yield Case(title, own, plans[0], after, tuple(re.findall(r"^- (.*)$", last, re.MULTILINE)))


FIXTURES = [
    pytest.param(one, case, id=f"{one.name}: {case.title}")
    for one in PASSES
    for case in cases(one.name)
]


def plan_of(text: str) -> Plan:
    parsed = parse(text)
    assert not parsed.broken, text
    assert not parsed.aside, text
    return parsed.plan


@pytest.mark.parametrize(("one", "case"), FIXTURES)
def test_fixture(one: Pass, case: Case):
    plan = plan_of(case.before)
    applied = one.apply(plan, case.library)
    assert print_plan(applied.plan) == (case.after or case.before)
    assert applied.notes == case.notes
    assert (applied.plan is plan) == (case.after is None)
    assert case.title.startswith("Blocked:") == (case.after is None)
    assert not errors(plan, case.library)
    conforms(one, plan, case.library)
    keeps_its_answer(one, plan, case.library)


@BY_PASS
def test_a_fixture_has_cases_of_both_kinds(one: Pass):
    found = list(cases(one.name))
    assert {case.after is None for case in found} == {True, False}
    assert len({case.title for case in found}) == len(found)


# -- what holds for every pass and plan


def errors(plan: Plan, known: Library) -> set[str]:
    """The codes of the errors in a plan."""
    return {one.code for one in check(parse(print_plan(plan)), known) if errors_of([one])}


def conforms(one: Pass, plan: Plan, known: Library) -> Plan:
    """The plan after the pass: printable, without new errors, and not rewritten again."""
    printed = print_plan(plan)
    applied = one.apply(plan, known)
    assert print_plan(plan) == printed
    assert bool(applied.notes) == (applied.plan != plan)
    assert parse(print_plan(applied.plan)).plan == applied.plan
    assert errors(applied.plan, known) <= errors(plan, known)
    again = one.apply(applied.plan, known)
    assert again.plan is applied.plan
    assert again.notes == ()
    for note in applied.notes:
        assert note.endswith(".")
    return applied.plan


@dataclass(frozen=True)
class Ran:
    """What came of a plan: its answer, what the answer rests on, and what was asked."""

    text: str
    quotes: tuple[str, ...]
    prompts: frozenset[str]
    parts: tuple[tuple[str, str], ...]


def ran(plan: Plan, known: Library, seed: Callable[[Request], str]) -> Ran | None:
    """Run a plan on a model whose replies follow from the seed alone; None where it fails."""
    prompts: set[str] = set()

    async def answer(request: Request) -> Reply:
        prompts.add(whole(request))
        return Reply(scripted(request, seed(request)))

    caller = Caller(answer, "scripted", Journal())
    try:
        done = asyncio.run(run_strategy(GivenPlan(plan), "who?", Frame(DOCUMENT, known, caller)))
    except RunError:
        return None
    quotes = evidence(done.plan, done.values, done.outputs, DOCUMENT)
    texts = tuple(quote.text for quote in quotes)
    return Ran(done.text, texts, frozenset(prompts), answer_parts(done))


def scripted(request: Request, seed: str) -> str:
    """A reply of the type that is asked for."""
    assert isinstance(request.call, ExecuteStep)
    number = int(hashlib.sha256(seed.encode()).hexdigest()[:6], 16)
    match request.call.action.returns:
        case "list":
            return json.dumps([f"x{number % 3}", "y", f"x{number % 2}"])
        case "bool":
            return "yes" if number % 2 else "no"
        case "number":
            return str(number)
        case _:
            quoted = number % 5
            said = f"\n> {SENTENCES[quoted]}" if quoted < len(SENTENCES) else ""
            # A prompt shows a short text in place, and names the step of a long one.
            return f"text {number}{' and so on' * (number % 2 * 5)}{said}"


def whole(request: Request) -> str:
    """All that a model sees."""
    return canonical_json(list(request.messages))


def as_marked(request: Request) -> str:
    """All that a model sees; but a `cacheable` action's outputs stand for one another."""
    assert isinstance(request.call, ExecuteStep)
    return nameless(request) if "cacheable" in request.call.action.traits else whole(request)


def nameless(request: Request) -> str:
    """What a model sees but for the names of steps."""
    call = request.call
    assert isinstance(call, ExecuteStep)
    values = [as_text(value) for _, value in call.arguments]
    read = call.document.text if call.document else ""
    return canonical_json([call.action.name, values, call.step.note, read])


def keeps_its_answer(one: Pass, plan: Plan, known: Library) -> None:
    """A safe pass keeps answer, evidence and prompts; another one the answer but for names."""
    after = one.apply(plan, known).plan
    if after is plan:
        return
    if one.safety is Safety.UNSAFE:
        old, new = ran(plan, known, nameless), ran(after, known, nameless)
        assert old is None or (new is not None and new.text == old.text)
        return
    old, new = ran(plan, known, as_marked), ran(after, known, as_marked)
    if old is not None:
        assert new is not None
        assert (new.text, new.quotes, new.parts) == (old.text, old.quotes, old.parts)
        assert new.prompts <= old.prompts


# -- any plan

LITERALS = (
    *("a", "b", 'say "b"', "Mara saw it.", "{x} of old", "line\nbreak", "", 1, 1.0, True, 2.5),
    *([], ["a", "b", "a"], [["a"], "b", ["a"]], [1, True, 1.0]),
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans whose steps fit each other, with much that is alike."""
    types: dict[str, str] = {}

    def of(*wanted: str) -> list[str]:
        return [name for name, kind in types.items() if kind in wanted]

    def reference(names: list[str], mode: Mode = Mode.PLAIN) -> Ref:
        return Ref(draw(st.sampled_from(names)), mode)

    def argument(deep: bool = True) -> Arg:
        kind = draw(st.integers(0, 6))
        if kind < 3 and types:
            return reference(list(types))
        if kind == 6 and types:
            return reference(list(types), Mode.EVIDENCE)
        if kind == 3 and types:
            ends = draw(st.sampled_from((("the ", " of old"), ("", ""), ("{", "}"))))
            parts = (ends[0], reference(list(types)), " and ", reference(list(types)), ends[1])
            return Template(tuple(part for part in parts if part))
        if kind == 4 and types and deep:
            return Items((argument(False), reference(list(types))))
        return Literal(draw(st.sampled_from(LITERALS)))

    def listed() -> Arg:
        if of("list") and draw(st.booleans()):
            return reference(of("list"))
        return Literal(draw(st.sampled_from([one for one in LITERALS if isinstance(one, list)])))

    def call() -> tuple[str, tuple[Arg, ...], str]:
        kind = draw(st.integers(0, 11))
        if kind == 0 and of("list"):
            return "FIND_CHARACTER", (Ref("CTX"), reference(of("list"), Mode.EACH)), "pairs"
        if kind == 1 and of("list"):
            return "FIND_CHARACTER", (Ref("CTX"), reference(of("list"), Mode.WHERE)), "list"
        if kind == 2 and of("pairs"):
            return draw(st.sampled_from(("KEYS", "VALUES"))), (reference(of("pairs")),), "list"
        if kind == 3:
            return "COUNT", (listed(),), "number"
        if kind == 4:
            return draw(st.sampled_from(("UNIQUE", "FLAT"))), (listed(),), "list"
        if kind == 5:
            return "FIND_ALL", (Ref("CTX"), argument()), "list"
        if kind < 9:
            count = draw(st.sampled_from((1, 1, 2, 3)))
            return "CONCAT", tuple(argument() for _ in range(count)), "text"
        if kind == 9:
            return "FIND_RELATION", (Ref("CTX"), argument(), argument()), "text"
        return "FIND_CHARACTER", (Ref("CTX"), argument()), "text"

    steps: list[Step] = []
    for number in range(draw(st.integers(1, 9))):
        if steps and draw(st.integers(0, 2)) == 0:
            again = draw(st.sampled_from(steps))
            action, args, kind = again.action, again.args, types[again.name]
        else:
            action, args, kind = call()
        comments = draw(st.sampled_from(((), (), (), ("# a comment",))))
        note = draw(st.sampled_from(("Look", "Look", "Look again", "")))
        steps.append(Step(f"s{number}", action, args, note, comments))
        types[f"s{number}"] = kind
    returns = draw(st.lists(st.sampled_from([step.name for step in steps]), max_size=3))
    return Plan(tuple(steps), returns=tuple(map(Ref, returns)) if draw(st.booleans()) else ())


TOGETHER = (
    Pass("the default ones", Safety.SAFE, rewrite, ""),
    Pass("all", Safety.UNSAFE, lambda plan, known: rewrite(plan, known, PASSES), ""),
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(plans())
def test_each_pass_and_all_together_keep_any_plans_answer(plan: Plan):
    plan = parse(print_plan(plan)).plan
    assume(not errors(plan, LIBRARY))
    for one in (*PASSES, *TOGETHER):
        conforms(one, plan, LIBRARY)
        keeps_its_answer(one, plan, LIBRARY)


# -- plans that GPT-4 wrote


@pytest.fixture(scope="module")
def recorded() -> tuple[list[Trace], Library]:
    folder = ROOT.parent / "shared" / "data" / "pearl_gpt4"
    if not folder.is_dir():
        pytest.skip("the shared data is not beside this checkout")
    source = read_source(str(folder / "train.ctx_eval_long.jsonl"))
    return list(read_records(source)), load_library(str(folder / "mined_actions_81.txt"))


@BY_PASS
def test_recorded_plans_conform(one: Pass, recorded: tuple[list[Trace], Library]):
    records, known = recorded
    for record in records[::12]:
        conforms(one, parse(record.source).plan, known)


def test_recorded_answers_stay(recorded: tuple[list[Trace], Library]):
    records, known = recorded
    rewritten, changed = [], 0
    for record in records:
        plan = parse(record.source).plan
        # None of them writes `return`, or makes a call twice.
        assert rewrite(plan, known, ("drop-unreachable", "share-calls")).plan is plan
        folded = rewrite(plan, known, DEFAULT_PASSES).plan
        changed += folded is not plan
        rewritten.append(replace(record, source=Source(record.source.name, print_plan(folded))))
    result = replay(rewritten, known)
    assert (result.plans, result.executed, result.exact) == (733, 368, 368)
    assert changed


# -- rewrite


def test_only_safe_passes_are_on_by_default():
    assert tuple(one.name for one in SAFE) == DEFAULT_PASSES
    assert {one.name for one in SAFE} == {"drop-unreachable", "fold-concat", "share-calls"}


def test_passes_make_room_for_each_other():
    plan = plan_of(
        '1. ross = FIND_CHARACTER(CTX, "Ross") : Look\n'
        "2. who = CONCAT(ross) : Who he is\n"
        '3. view = FIND_OPINION(CTX, who, "the sale") : His opinion\n'
        "return who\n"
    )
    done = rewrite(plan, LIBRARY, ("fold-concat", "drop-unreachable"))
    assert print_plan(done.plan) == '1. ross = FIND_CHARACTER(CTX, "Ross") : Look\nreturn ross\n'
    assert done.notes == (
        "Took out view, which nothing returned needs.",
        "Took out who, whose only input ross is the same text.",
    )
    assert rewrite(plan, LIBRARY, ()).plan is plan


def test_a_pass_that_is_made_for_a_document_runs_among_the_others():
    plan = plan_of(
        '1. ross = FIND_CHARACTER(CTX, "Ross") : Look\n2. ans = CONCAT(ross) : The answer\n'
    )
    done = rewrite(plan, LIBRARY, ("fold-concat", split_context({"ross"}, 2)))
    assert [step.name for step in done.plan.steps][-1] == "ross"
    assert len(done.notes) == 2
    assert not errors(done.plan, LIBRARY)


def test_an_unknown_pass_is_named_with_those_there_are():
    with pytest.raises(InputError, match="no pass is named fold: use drop-unreachable, "):
        rewrite(Plan(), LIBRARY, ("fold",))
    assert find_pass("fold-concat").safety is Safety.SAFE


@BY_PASS
@pytest.mark.parametrize(
    "text",
    [
        "a = CONCAT(b)\nb = CONCAT(a)\nreturn b\n",
        "a = COUNT([1])\na = COUNT([1])\nb = CONCAT(a)\nreturn b\n",
        "a = CONCAT(nothing)\n",
        "a = COUNT([1])\nb = CONCAT(a)\nreturn c\n",
        "CTX = COUNT([1])\nb = CONCAT(CTX)\nreturn b\n",
    ],
)
def test_a_plan_that_is_not_sound_is_left_alone(one: Pass, text: str):
    plan = parse(text).plan
    assert not sound(plan)
    assert one.apply(plan, LIBRARY).plan is plan


@BY_PASS
@pytest.mark.parametrize(
    "text", ["a = COUNT()\nb = CONCAT()\nc = F(a, b)\n", "a = F()\nb = F()\nc = CONCAT(a)\n", ""]
)
def test_nothing_is_raised_on_a_plan_with_errors(one: Pass, text: str):
    one.apply(parse(text).plan, LIBRARY)


# -- calls that plans share


def test_calls_are_the_same_whatever_plans_call_them():
    first = plan_of(
        '1. people = FIND_ALL(CTX, "people") : List them\n'
        "2. all = CONCAT(people) : All of them\n"
        '3. view = FIND_OPINION(CTX, all, "the {people}") : What they think\n'
    )
    second = plan_of(
        '1. x = FIND_ALL(CTX, "people") : List them\n'
        "2. y = CONCAT(x) : In other words\n"
        '3. z = FIND_OPINION(CTX, y, "the {x}") : Their view\n'
    )
    found = shared_calls([first, second], LIBRARY)
    assert (found.total, found.saved, found.saved_noted, found.saved_prompted) == (4, 2, 1, 0)
    assert found.groups == (((0, "people"), (1, "x")), ((0, "view"), (1, "z")))
    again = shared_calls([first, first], LIBRARY)
    assert (again.saved, again.saved_noted, again.saved_prompted) == (2, 2, 2)


def test_a_long_chain_of_steps_is_hashed_in_linear_time():
    steps = ["a0 = FIND_ALL(CTX, 1)", *(f"a{n} = FIND_RELATION(CTX, a{n - 1}, a{n - 1})"
                                        for n in range(1, 200))]  # fmt: skip
    plan = parse("\n".join(steps)).plan
    assert shared_calls([plan, plan], LIBRARY).saved == 200


def test_questions_planned_twice_share_calls(recorded: tuple[list[Trace], Library]):
    records, known = recorded
    path = ROOT.parent / "shared" / "data" / "pearl_gpt4" / "train.ctx_eval_long.jsonl"
    pairs: dict[str, list[Plan]] = {}
    for row, record in zip(read_rows(path), records, strict=True):
        pairs.setdefault(row["qid"], []).append(parse(record.source).plan)
    found = [shared_calls(plans, known) for plans in pairs.values() if len(plans) == 2]
    total, noted = sum(one.total for one in found), sum(one.saved_noted for one in found)
    assert round(2 * noted / total, 2) == 0.60


# -- documentation


@BY_PASS
def test_the_documentation_is_whole_and_its_example_true(one: Pass):
    assert one.doc.strip().splitlines()[0].endswith(".")
    assert all(section(one.doc, title) for title in SECTIONS)
    safety = section(one.doc, "Safety")
    assert safety.startswith("Safe" if one.safety is Safety.SAFE else "Unsafe")
    before = plan_of(section(one.doc, "Before"))
    assert not errors(before, LIBRARY)
    assert print_plan(one.apply(before, LIBRARY).plan) == section(one.doc, "After") + "\n"


def documented(one: Pass) -> str:
    """A pass's part of the page."""
    lines = [f"## {one.name}", "", f"*{one.safety}* · {one.doc.strip().splitlines()[0]}", ""]
    lines += [" ".join(section(one.doc, "Why").split()), ""]
    for title in ("Before", "After"):
        plan, _, rest = section(one.doc, title).partition("\n\n    ")
        lines += [f"{title}:", "", "```", plan, "```", ""]
        assert not rest
    return "\n".join([*lines, " ".join(section(one.doc, "Safety").split()), ""])


def test_every_pass_is_documented():
    page = ROOT / "docs" / "passes.md"
    text = page.read_text(encoding="utf-8")
    rows = "".join(
        f"| [{one.name}](#{one.name}) | {one.safety} | "
        f"{'yes' if one.name in DEFAULT_PASSES else 'no' if one in PASSES else 'by `--context`'} | "
        f"{one.doc.strip().splitlines()[0]} |\n"
        for one in EVERY
    )
    body = rows + "".join(f"\n{documented(one)}" for one in EVERY)
    if os.environ.get("UPDATE_DOCS"):
        head = text[: text.index("|---|") + len("|---|---|---|---|\n")]
        page.write_text(head + body, encoding="utf-8")
        return
    assert text.endswith(body), "run UPDATE_DOCS=1 python -m pytest tests/test_passes.py"
