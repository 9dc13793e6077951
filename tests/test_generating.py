"""Generated worlds: gold decompositions give their answers, splits hold out what they say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pearl.commaqa.agents import Agents, run_hops
from pearl.commaqa.decomposition import to_hops, to_plan
from pearl.commaqa.generator import PARTS, generate
from pearl.commaqa.question_theories import divide, theories_of
from pearl.commaqa.schema_reader import invent_words, read_schema, shipped_schemas, shipped_text
from pearl.commaqa.world import Fact, World, WorldQuestion, read_world, read_worlds
from pearl.lang.errors import InputError
from tests.conftest import ROOT
from tests.shell import call
from tests.worlds import told

MANY = {
    "explicit": 320, "implicit": 225, "inventions": 100, "movies": 100, "numeric": 200,
    "throws": 100,
}  # fmt: skip
"""Questions that use all words of a shipped schema."""

SHIPPED = tuple(MANY)
COMPGEN = tuple(name for name in SHIPPED if "compgen" in read_schema(name).splits)
FILES = [(name, "iid", part) for name in SHIPPED for part in PARTS] + [
    (name, "compgen", part) for name in COMPGEN for part in PARTS
]

FLEET = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/generating.md").read_text("utf-8"), re.S)[0]


class Watched(Agents):
    """Agents that note every fact they find."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.found: set[str] = set()

    def facts(self, predicate: str, places: Sequence[str]) -> list[Fact]:
        facts = super().facts(predicate, places)
        self.found.update(f"{predicate}({', '.join(fact)})" for fact in facts)
        return facts


@cache
def rows(name: str, split: str = "iid", part: str = "train", questions: int = 0) -> Any:
    """Rows of a shipped schema; those of its first file use all of its words."""
    questions = questions or (MANY[name] if (split, part) == ("iid", "train") else 30)
    return tuple(generate(read_schema(name), split, part, 11, questions))


@cache
def worlds(*told: Any) -> list[tuple[dict[str, Any], World]]:
    """Rows as they come back from JSON, and their worlds."""
    data = [json.loads(json.dumps(row, ensure_ascii=False)) for row in rows(*told)]
    return [(row, read_world(row, f"rows:{at}", str(at))) for at, row in enumerate(data, 1)]


def asked(row: dict[str, Any]) -> list[dict[str, Any]]:
    return row["qa_pairs"]


def predicates(world: World, question: WorldQuestion) -> list[str]:
    """The agents' templates that the hops are of, read from the words."""
    found: list[str] = []
    for hop in question.hops:
        names = {one.template.predicate for one in world.language.readings(hop.agent, hop.question)}
        assert len(names) == 1, hop
        found.append(names.pop())
    return found


def pairs(world: World, question: WorldQuestion) -> set[tuple[str, str]]:
    names = predicates(world, question)
    return {
        (names[int(number) - 1], name)
        for name, hop in zip(names, question.hops, strict=True)
        for number in re.findall(r"#(\d+)", hop.question)
    }


def test_the_schemas_that_ship():
    assert shipped_schemas() == SHIPPED


@pytest.mark.parametrize(("name", "split", "part"), FILES)
def test_gold_decompositions_give_the_recorded_answers_from_the_facts_used(
    name: str, split: str, part: str
):
    for row, world in worlds(name, split, part):
        agents = Watched(world)
        assert (row["generated"]["split"], row["generated"]["part"]) == (split, part)
        for question in world.questions:
            agents.found.clear()
            answers = run_hops(question.hops, agents)
            assert told(answers) == told(question.answers), question.text
            assert told([answers[-1]]) == told([question.answer])
            assert agents.found == set(question.facts) < set(world.sentences)
            assert len(question.facts) == len(agents.found)
            assert to_hops(to_plan(question.hops, question.text)) == question.hops
            assert not re.search(r"[#${}]", question.text)


def test_facts_used_mean_what_the_published_files_mean(shared: Path):
    for kind in ("explicit", "implicit", "numeric"):
        for world in read_worlds(str(shared / "commaqa" / f"{kind}_dev_20kb.jsonl")):
            for question in world.questions:
                agents = Watched(world)
                run_hops(question.hops, agents)
                assert agents.found == set(question.facts)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_fact_stands_in_the_context(name: str):
    shapes: dict[str, set[str]] = defaultdict(set)
    for row, world in worlds(name, "iid", "dev"):
        assert list(world.sentences) == [fact for told_of in row["kb"].values() for fact in told_of]
        assert world.context == " ".join(world.sentences.values())
        for predicate, told_of in world.facts.items():
            for one, other in told_of:
                shape = world.sentences[f"{predicate}({one}, {other})"].replace(one, "$1")
                assert {"$1", "$2"} <= set(re.findall(r"\$\d", shape.replace(other, "$2")))
                shapes[predicate].add(shape.replace(other, "$2"))
    assert all(len(said) >= 2 for said in shapes.values())


@pytest.mark.parametrize("name", SHIPPED)
def test_a_question_is_what_its_config_says_and_its_answer_is_some_of_all(name: str):
    fewest, most = read_schema(name).answers
    assert all(
        len({one["question"] for one in asked(row)}) == len(asked(row)) for row in rows(name)
    )
    questions = [question for row in rows(name) for question in asked(row)]
    assert len({question["id"] for question in questions}) == MANY[name]
    for question in questions:
        pattern = question["config"]["questions"][0]
        for slot in question["config"]["init"]:
            pattern = pattern.replace(slot, question["assignment"][slot])
        assert pattern == question["question"]
        assert len(question["config"]["steps"]) == len(question["decomposition"])
        for number, step in enumerate(question["decomposition"], 1):
            assert step["a"] == question["assignment"][f"#{number}"]
            assert step["a"]
    answers = [question["answer"] for question in questions]
    lists = [answer for answer in answers if isinstance(answer, list)]
    assert {len(answer) for answer in lists} == set(range(fewest, most + 1))
    assert all(len(set(answer)) == len(answer) for answer in lists)
    others = (answer for answer in answers if not isinstance(answer, list))
    assert all(type(one) in (int, float) and one > 0 for one in others)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_way_to_say_a_thing_is_used(name: str):
    schema = read_schema(name)
    patterns: dict[str, set[str]] = defaultdict(set)
    hops: dict[str, set[str]] = defaultdict(set)
    for row, world in worlds(name):
        for data, question in zip(asked(row), world.questions, strict=True):
            patterns[data["theory"]].add(data["config"]["questions"][0])
            for hop, predicate in zip(question.hops, predicates(world, question), strict=True):
                hops[predicate].add(re.sub(r"#\d+", "#", hop.question))
    theories = theories_of(schema)
    assert set(patterns) == {theory.name for theory in theories}
    # As in the published sets, each of their kinds is asked in one way.
    fewest = 1 if "published" in schema.splits else 2
    assert all(len(said) >= fewest for said in patterns.values())
    assert {call.ask for theory in theories for call in theory.calls} <= {
        *hops, *(ask.name for ask in schema.asks.values() if ask.total)
    }  # fmt: skip
    assert all(len(said) >= 2 for said in hops.values())


@pytest.mark.parametrize("name", COMPGEN)
def test_compgen_holds_out_what_it_says(name: str):
    """Pairs are read from the words of the hops, not from what the rows say of themselves."""
    schema = read_schema(name)
    # Arithmetic is named by its operation.
    public = {ask.name: ask.total or ask.name for ask in schema.asks.values()}
    held = {(public[one], public[other]) for one, other in schema.splits["compgen"].held_out}
    seen: dict[str, set[str]] = defaultdict(set)
    words: dict[str, set[str]] = defaultdict(set)
    for part in PARTS:
        tested = set()
        for row, world in worlds(name, "compgen", part):
            assert row["generated"]["held_out"] == [
                list(x) for x in schema.splits["compgen"].held_out
            ]
            for data, question in zip(asked(row), world.questions, strict=True):
                found = pairs(world, question)
                assert bool(found & held) == (part == "test"), question.text
                assert {(public[one], public[other]) for one, other in data["pairs"]} == found
                told_of = {(public[one], public[other]) for one, other in data["held_out"]}
                assert told_of == found & held
                tested |= found & held
                seen[part] |= set(predicates(world, question))
                words[part] |= set(re.findall(r"[a-z_]+", data["theory"]))
        assert tested == (held if part == "test" else set())
    assert seen["test"] <= seen["train"]
    assert words["test"] <= words["train"]


@pytest.mark.parametrize("name", SHIPPED)
def test_the_document_counts_kinds_as_the_schema_has_them(name: str):
    schema = read_schema(name)
    theories = theories_of(schema)
    fewest, most = schema.steps
    document = (ROOT / "docs/generating.md").read_text("utf-8")
    assert re.search(rf"\| `{name}` \| .* \| {len(theories)} \| {fewest}–{most} \|", document)
    if name not in COMPGEN:
        return
    train, test = divide(schema, "compgen", theories)
    held = ", ".join(f"`{one} → {other}`" for one, other in schema.splits["compgen"].held_out)
    assert f"| `{name}` | {held} | {len(train)} | {len(test)} |" in document


PUBLISHED = [
    ("movies", "explicit", 16, set()),
    ("inventions", "implicit", 0, set()),
    ("throws", "numeric", 8, {"discus_throwers_from"}),
]


@pytest.mark.parametrize(("name", "file", "others", "new"), PUBLISHED)
def test_a_file_has_the_published_kinds_of_question_and_nothing_else(
    shared: Path, name: str, file: str, others: int, new: set[str]
):
    """Words, operators and agents; a compositional test has other words, and these new asks."""
    files = (shared / "commaqa" / f"{file}_{part}.jsonl" for part in ("train_100kb", "dev_20kb"))
    published = forms(json.loads(line) for one in files for line in one.open(encoding="utf-8"))
    made = {part: forms(rows(name, "published", part, 100)) for part in PARTS}
    assert made["train"] == made["dev"] == made["test"] == published
    schema = read_schema(name)
    assert ("published_cg" in schema.splits) == bool(others)
    if others:
        made = {part: forms(rows(name, "published_cg", part, 100)) for part in PARTS}
        assert made["train"] == made["dev"] == published
        tested = {words for words, _ in made["test"]}
        assert len(tested) == others
        assert not tested & {words for words, _ in published}
        train, test = (
            {call.ask for theory in those for call in theory.calls}
            for those in divide(schema, "published_cg", theories_of(schema))
        )
        assert test - train == new


def forms(made: Iterable[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """How many decompositions, by a question's words and the operator and agent of each step."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one in (question for row in made for question in asked(row)):
        hops = " ".join(f"({hop['op']}) [{hop['m']}]" for hop in one["decomposition"])
        words = one["config"]["questions"][0]
        found[words, re.sub(r"\(#\d+\)", "", hops)].add(str(one["config"]["steps"]))
    return {form: len(steps) for form, steps in found.items()}


def test_parts_have_the_same_kinds_and_worlds_of_their_own():
    made = [rows("numeric", "iid", part, 60) for part in PARTS]
    kinds = [{question["theory"] for row in part for question in asked(row)} for part in made]
    assert kinds[0] == kinds[1] == kinds[2]
    assert len({row["context"] for part in made for row in part}) == sum(map(len, made))


def test_a_world_of_the_implicit_schema_has_one_way_alone():
    schema = read_schema("implicit")
    used: dict[str, set[int]] = defaultdict(set)
    for row in rows("implicit"):
        known = {predicate.partition("_")[2] for predicate in row["kb"]}
        for question in asked(row):
            piece, way = re.match(r"(\w+)/(\d)", question["theory"]).groups()
            ways = enumerate(schema.pieces[piece].ways, 1)
            assert [at for at, steps in ways if schema.looked_up(steps) <= known] == [int(way)]
            used[piece].add(int(way))
    assert used == {"tasted": {1, 2, 3}, "helped": {1, 2, 3}}


def test_an_explicit_relation_is_known_to_one_agent_of_several():
    knowing = defaultdict(set)
    for row in rows("explicit"):
        for predicate in row["kb"]:
            agent, _, relation = predicate.partition("_")
            knowing[relation].add(agent)
        assert len({one.partition("_")[2] for one in row["kb"]}) == len(row["kb"])
    assert knowing["composed"] == {"table", "text"}
    assert knowing["hails"] == {"text"}


def test_numeric_questions_use_every_operator():
    operators = {
        step["op"] for row in rows("numeric") for q in asked(row) for step in q["decomposition"]
    }
    assert operators == {
        "select", "project", "project_values_flat", "project_values_flat_unique",
        "projectValues", "filter", "filterValues_keys",
    }  # fmt: skip


def test_the_same_seed_gives_the_same_bytes():
    told = "generate commaqa --schema implicit --split compgen --questions 12".split()
    done = subprocess.run(
        [sys.executable, "-m", "pearl", *told, "--seed", "7"],
        check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "1"}, cwd=ROOT,
    )  # fmt: skip
    one, other = (call(*told, "--seed", seed).out for seed in "78")
    assert done.stdout.decode() == one != other


@pytest.mark.parametrize("questions", [1, 4, 5, 6])
def test_as_many_questions_as_asked_for(questions: int):
    made = rows("explicit", "iid", "train", questions)
    assert sum(len(asked(row)) for row in made) == questions


def test_names_are_new_and_no_two_the_same():
    names = list(islice(invent_words("one", frozenset({"ada"})), 5000))
    assert len(set(names)) == 5000
    assert all(re.fullmatch(r"[a-z]{5,}", name) for name in names)
    assert names == list(islice(invent_words("one", frozenset({"ada"})), 5000))
    assert names[0] not in islice(invent_words("one", frozenset({names[0]})), 5000)


# A schema of one's own: the one that docs/generating.md shows.


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET, encoding="utf-8")
    return path


@pytest.mark.parametrize("split", ["iid", "compgen"])
@pytest.mark.parametrize("part", PARTS)
def test_a_fourth_schema(fleet: Path, split: str, part: str):
    schema = read_schema(str(fleet))
    made = list(generate(schema, split, part, 3, 100))
    kinds = {question["theory"] for row in made for question in asked(row)}
    load = "load(ships_commanded($captain))"
    assert (load in kinds) == (split == "iid" or part == "test")
    for number, row in enumerate(made):
        world = read_world(row, "here", str(number))
        for question in world.questions:
            assert told(run_hops(question.hops, Agents(world))) == told(question.answers)
            assert {"Ostre", "Velm", "Kardun", "Hollin"} >= world.entities["harbour"]


def test_a_schema_in_json_is_the_same(fleet: Path):
    other = fleet.with_suffix(".json")
    other.write_text(json.dumps(tomllib.loads(FLEET)), encoding="utf-8")
    one, two = (read_schema(str(path)) for path in (fleet, other))
    assert list(generate(one, "iid", "dev", 3, 40)) == list(generate(two, "iid", "dev", 3, 40))


BAD = [
    ("about = ", "abuot = ", "abuot: there is no such key: use about, limits, kinds"),
    ('about = "', "about = ", "fleet.toml is not TOML: "),
    ("steps = [2, 3]", "steps = [3, 2]", "limits.steps: the fewest is at least 1"),
    ("steps = [2, 3]", "steps = 3", "limits.steps: give the fewest and the most"),
    ("steps = [2, 3]", "steps = [4, 5]", "limits.steps: no question has 4 to 5 steps"),
    ("steps = [2, 3]", "steps = [2, 99]", "limits.steps: 20 steps are the most"),
    ("questions = 5 ", "questions = 0 ", "limits.questions: give a whole number above 0."),
    ("names = 40", "names = 4.5", "kinds.ship.names: give a whole number above 0."),
    ("names = 40", "names = 40000", "kinds.ship.names: 5000 names are the most."),
    ("names = 40", 'names = 40\nstyle = "big"', "kinds.ship.style: use Capital or small."),
    ("each_world = 10", "each_world = 41", "kinds.ship.each_world: there are 40 alone."),
    ('"Velm"', '"Ostre"', "kinds: Ostre is named twice: a name stands for one thing."),
    ('"Velm"', '"Velm, the"', "kinds.harbour.names: a name is letters, digits, spaces"),
    ("to = 90.0", "to = 9.0", "kinds.tons.numbers: to is at least from, and step above 0."),
    ("step = 0.5", "step = 0.0001", "kinds.tons.numbers: 5000 numbers are the most"),
    ("step = 0.5", "step = 1e-9", "kinds.tons.numbers.step: a number has at most 6 digits"),
    ("from = 10.5", "from = nan", "kinds.tons.numbers.from: a number is at least 0"),
    ("from = 10.5", 'from = "a"', "kinds.tons.numbers.from: give a number."),
    ("[kinds.ship]", "[kinds.Ship]", "kinds.Ship: a name is small letters, digits and _"),
    ('of = ["captain", "ship"]', 'of = ["captian", "ship"]',
     "relations.commands.of: no kind is called captian: use captain."),
    ('of = ["captain", "ship"]', 'of = ["captain"]', "relations.commands.of: name two kinds."),
    ("each = [1, 2] ", "each = [1, 12] ", "relations.commands.each: a world has 10 of ship"),
    ("bridge of $2 stands $1", "bridge stands $1",
     "relations.commands.says.text: write $1 and $2 once each in 'On the bridge stands $1.'."),
    ("says.table = [\"ship: $2 | captain: $1.\"]", "says.table = []",
     "relations.commands.says.table: give a list of texts, at least one."),
    ('looks = "berth(?, $1)"', 'looks = "birth(?, $1)"',
     "asks.ships_in.looks: no relation is called birth: use berth."),
    ('looks = "berth(?, $1)"', 'looks = "berth(?, $2)"', "asks.ships_in.looks: its places are ?"),
    ('looks = "berth(?, $1)"', 'looks = "berth"', "asks.ships_in.looks: write it as composed"),
    ('looks = "berth(?, $1)"', 'look = "berth(?, $1)"', "asks.ships_in.look: there is no such key"),
    ('"Which ships lie in $1?"', '"Which ships lie in $2?"',
     "asks.ships_in.words: write $1 once in 'Which ships lie in $2?'."),
    ('"Which ships lie in $1?"', '"Which #1 lie in $1?"',
     "asks.ships_in.words: leave quotes, brackets and # out of 'Which #1 lie in $1?'."),
    ('"How many tons does $1 carry?"', '"Which ships lie in $1?"',
     "asks.tons_of.words: table is asked ships_in in the same words."),
    ('sum = "max"', 'sum = "mean"', "asks.most.sum: use count, max, min, diff"),
    ('takes = ["$harbour"]', 'takes = ["harbour"]',
     "pieces.ships_lying.takes: no piece gives harbour: a kind is written $harbour."),
    ('takes = ["$harbour"]', 'takes = ["$port"]', "pieces.ships_lying.takes: no kind is called"),
    ('"ships berthed in {1}"', '"ships berthed in {2}"',
     "pieces.ships_lying.words: write {1} once in 'ships berthed in {2}'."),
    ('"ships berthed in {1}"', '"ships at $5 in {1}"', "pieces.ships_lying.words: leave $ out"),
    ('steps = ["ships_in({1})"]', 'steps = ["ships_at({1})"]',
     "pieces.ships_lying.steps, step 1: no ask is called ships_at: use ships_in."),
    ('steps = ["ships_in({1})"]', 'steps = ["ships_in({2})"]',
     "pieces.ships_lying.steps, step 1: there is no hole {2} in takes."),
    ('steps = ["ships_in({1})"]', 'steps = ["ships_in({1}, {1})"]',
     "pieces.ships_lying.steps, step 1: ships_in takes 1 arguments."),
    ('steps = ["ships_in({1})"]', 'steps = ["ships_in {1}"]',
     "pieces.ships_lying.steps, step 1: write it as (operator) ask({1}, #1)"),
    ('steps = ["ships_in({1})"]', 'steps = ["(sort) ships_in({1})"]',
     "pieces.ships_lying.steps, step 1: (sort) is no operator"),
    ('steps = ["ships_in({1})"]', 'steps = ["ships_in(1)"]',
     "pieces.ships_lying.steps, step 1: an argument is {1} or #1, unlike '1'."),
    ('steps = ["ships_in({1})"]', "steps = []",
     "pieces.ships_lying.steps: a piece with no steps means what its one hole means"),
    ('steps = ["ships_in({1})"]', 'ways = [["ships_in({1})"]]',
     "pieces.ships_lying.ways: give at least two lists of steps."),
    ('steps = ["ships_in({1})"]', 'ways = [["ships_in({1})"], ["ships_in({1})"]]',
     "pieces.ships_lying.ways: way 1 looks up nothing that way 2 does not."),
    ('steps = ["ships_in({1})"]', "",
     "pieces.ships_lying: give steps, or ways where worlds differ in them."),
    ('steps = ["ships_in({1})"]', 'steps = ["(project_values_flat) ships_in({1})"]',
     "pieces.captains: ships_in goes over items, and is given a thing"),
    ("(select) most(#1)", "(select) most(#2)",
     "pieces.load.steps, step 2: #2 is no step before it."),
    ("(select) most(#1)", "(select) mots(#1)",
     "pieces.load.steps, step 2: no ask is called mots: use most."),
    ("(project_values_flat) tons_of", "(project) tons_of",
     "fleet.toml: 200 worlds gave no question of the kind load("),
    (', "(select) most(#1)"', "", None),
    ('["(project_values_flat) tons_of({1})", "(select) most(#1)"]', '["(project) tons_of({1})"]',
     "pieces.load: its answer is pairs: end in an operator with _values or _keys."),
    ('["(project_values_flat) tons_of({1})", "(select) most(#1)"]',
     '["tons_of({1})", "captains_of({1})"]', "pieces.load.steps: no later step uses #1."),
    ('gives = "question"\ntakes = ["ships"]\nwords = ["Who',
     'gives = "people"\ntakes = ["ships"]\nwords = ["Who',
     "pieces.captains: it gives people, which no piece takes."),
    ('held_out = [["ships_under", "tons_of"]]', 'held_out = [["ships_under"]]',
     "splits.compgen.held_out: give pairs of asks"),
    ('held_out = [["ships_under", "tons_of"]]', 'held_out = [["ships_under", "tuns_of"]]',
     "splits.compgen.held_out: no ask is called tuns_of: use tons_of."),
    ('held_out = [["ships_under", "tons_of"]]', 'held_out = [["tons_of", "ships_in"]]',
     "splits.compgen.held_out: no question puts ships_in to the answer of tons_of."),
    ('held_out = [["ships_under", "tons_of"]]', 'held_out = [["tons_of", "most"]]',
     "splits.compgen.held_out: no training question is left with the ask tons_of."),
    ('held_out = [["ships_under", "tons_of"]]', 'kinds = ["load(ships_lying($harbor))"]',
     "splits.compgen: there is no kind of question load(ships_lying($harbor)): use "
     "load(ships_lying($harbour))."),
    ('held_out = [["ships_under", "tons_of"]]', 'test = ["load(ships_lying($harbour))"]',
     "splits.compgen.test: give kinds beside it"),
    ("[splits.compgen]", '[splits.compgen]\nkinds = ["load"]', "give held_out or kinds, not both"),
    ("[splits.compgen]", "[splits.iid]", "splits.iid: it holds nothing out: leave it away."),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=range(len(BAD)))
def test_a_schema_that_cannot_be_used(fleet: Path, old: str, new: str, message: str | None):
    assert old in FLEET
    fleet.write_text(FLEET.replace(old, new, 1), encoding="utf-8")

    def make() -> None:
        schema = read_schema(str(fleet))
        split = "compgen" if "compgen" in schema.splits else "iid"
        list(generate(schema, split, "train", 1, 20))

    if message is None:
        make()
        return
    with pytest.raises(InputError) as error:
        make()
    said = str(error.value)
    assert message in said
    assert said.startswith(str(fleet))
    assert "\n" not in said


def test_too_many_kinds_of_questions_are_refused_at_once(fleet: Path):
    many = "\n".join(
        f'[pieces.more{number}]\ngives = "ships"\ntakes = ["ships"]\nwords = ["{number} {{1}}"]\n'
        "steps = []\n"
        for number in range(12)
    )
    fleet.write_text(f"{FLEET}\n{many}", encoding="utf-8")
    with pytest.raises(InputError, match="more than 5000 kinds of questions"):
        theories_of(read_schema(str(fleet)))


# The command.


def test_the_command_says_what_it_made():
    done = call("generate", "commaqa", "--schema", "explicit", "--split", "compgen", "--part",
                "test", "--questions", "30", "--seed", "7", "-o", "out.jsonl")  # fmt: skip
    assert done.code == 0
    said = r"out\.jsonl: 30 questions of 30 kinds in 6 worlds, [\d.]+ s, [\d,]+ a minute\n"
    assert re.fullmatch(said, done.out)
    read = [question.text for world in read_worlds("out.jsonl") for question in world.questions]
    lines = Path("out.jsonl").read_text("utf-8").splitlines()
    assert read == [one["question"] for line in lines for one in asked(json.loads(line))]
    assert len(read) == 30


def test_the_command_for_machines(fleet: Path):
    made = call("generate", "commaqa", "--schema", fleet, "-o", "out.jsonl", "--json").json
    assert made["schema"] == "fleet"
    assert (made["questions"], made["worlds"], made["held_out"]) == (500, 100, [])
    assert made["questions_a_minute"] > 0


def test_the_command_on_the_screen():
    done = call("generate", "commaqa", "--schema", "numeric", "--questions", "50")
    assert len(done.out.splitlines()) == 10
    assert "50 questions of 50 kinds" in done.err
    done = call("generate", "commaqa", "--schema", "numeric", "--show")
    assert done.out == shipped_text("numeric")


def test_a_file_s_figures_are_told(fleet: Path):
    call("generate", "commaqa", "--schema", fleet, "--questions", "60", "-o", "made.jsonl")
    found = call("generate", "commaqa", "--describe", "made.jsonl", "--json").json
    made = list(read_worlds("made.jsonl"))
    steps = [len(question.hops) for world in made for question in world.questions]
    assert (found["questions"], found["worlds"]) == (60, len(made))
    assert found["steps"] == {
        "mean": pytest.approx(sum(steps) / 60), "least": min(steps), "most": max(steps)
    }  # fmt: skip
    assert found["answers"]["most"] <= 4
    assert found["facts"]["most"] == max(len(world.sentences) for world in made)
    assert found["tokens"]["least"] > found["facts"]["least"]
    plain = call("generate", "commaqa", "--describe", "made.jsonl").out
    assert plain.startswith(f"made.jsonl: 60 questions of {found['kinds']} kinds in {len(made)}")


def test_what_agents_are_asked_and_answer_is_written(fleet: Path):
    call("generate", "commaqa", "--schema", fleet, "--questions", "60", "-o", "made.jsonl")
    told = call("generate", "commaqa", "--agents", "made.jsonl", "-o", "pairs.jsonl", "--json").json
    assert told["agents"] == ["math_special", "table", "text"]
    pairs = [json.loads(line) for line in Path("pairs.jsonl").read_text("utf-8").splitlines()]
    assert len(pairs) == told["pairs"]
    worlds = {world.name: world for world in read_worlds("made.jsonl")}
    asked = {name: Watched(world) for name, world in worlds.items()}
    for pair in pairs:
        agents = asked[pair["world"]]
        agents.found.clear()
        assert agents.ask(pair["agent"], pair["question"]) == pair["answer"]
        sentences = worlds[pair["world"]].sentences
        assert {sentences[fact] for fact in agents.found} == set(pair["facts"])
    said = {(pair["world"], pair["question"]) for pair in pairs}
    for name, world in worlds.items():
        for template in world.language.templates:
            for kind in {kind for _, kind in template.inputs} & {"harbour", "ship", "captain"}:
                for phrasing in template.phrasings:
                    for thing in world.entities[kind]:
                        assert (name, thing.join(phrasing.fixed)) in said
