"""Next-question search, and learning to decompose: from gold, and from answers alone."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.chains import Sampling, exhaustive, learn_from_chains, sampled
from benchmarks.commaqa import unseen_kinds
from pearl.commaqa.agents import Agents, exact_match, run_hops
from pearl.commaqa.analogy import AnalogyScorer
from pearl.commaqa.decomposition import Hop, parse_hops
from pearl.commaqa.explaining import Way, chosen_programs
from pearl.commaqa.generator import generate
from pearl.commaqa.learning import Learned, learn_from_answers, learn_from_gold, model_of
from pearl.commaqa.learning import _joined as joined
from pearl.commaqa.logistic import LogisticScorer, features_of, parts_of
from pearl.commaqa.model import (
    Form,
    LearnedModel,
    Move,
    fits,
    hop_of,
    known_entities,
    longest_match,
    move_of,
    read_model,
    strange_entities,
    with_holes,
    write_model,
)
from pearl.commaqa.programs import Bank, CachingAgents, Case, Refusals, Term, levels_of, run_moves
from pearl.commaqa.schema_reader import read_schema
from pearl.commaqa.search import Candidate, HopScorer, SearchBudget, best_first, greedy
from pearl.commaqa.world import World, WorldQuestion, read_world, read_worlds
from pearl.lang.ast import Mode
from pearl.lang.errors import InputError
from pearl.lang.values import Value
from tests.shell import call, write_rows
from tests.worlds import world as small_world

SETS = ("explicit", "implicit", "numeric")


@cache
def worlds(shared: Path, name: str, part: str) -> list[World]:
    return list(read_worlds(str(shared / "commaqa" / f"{name}_{part}.jsonl")))


def train(shared: Path, name: str) -> list[World]:
    return worlds(shared, name, "train_100kb")


@cache
def taught(shared: Path, name: str, learn: Callable[[Iterable[World]], Learned]) -> Learned:
    """What a training file teaches, or its first worlds without gold; several tests ask it."""
    worlds = train(shared, name)
    return learn(worlds if learn is learn_from_gold else worlds[:24])


def dev(shared: Path, name: str) -> list[World]:
    return worlds(shared, name, "dev_20kb")


def made(name: str, split: str, part: str, seed: int, questions: int) -> list[World]:
    rows = generate(read_schema(name), split, part, seed, questions)
    return [read_world(row, "here", "made") for row in rows]


def score(model: LearnedModel, test: Iterable[World]) -> float:
    """Exact match of best-first search, in percent."""
    scorer, right = AnalogyScorer(model), []
    for world in test:
        agents = Agents(world.without_gold())
        for question in world.questions:
            found = best_first(question.text, agents, scorer)
            right.append(exact_match(found.answer, question.answer))
    return 100 * sum(right) / len(right)


# -- the published files --------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "most"), [
    ("explicit", 7_000), ("implicit", 14_000),
    pytest.param("numeric", 48_000, marks=pytest.mark.slow),
])  # fmt: skip
def test_learned_from_gold_every_question_is_answered_and_most_from_answers(
    shared: Path, name: str, most: int, tmp_path: Path
):
    found = taught(shared, name, learn_from_gold)
    assert (found.questions, found.explained, found.calls) == (500, 500, 0)
    (tmp_path / "gold.model").write_text(write_model(found.model), encoding="utf-8")
    assert score(read_model(str(tmp_path / "gold.model")), dev(shared, name)) == 100
    found = taught(shared, name, learn_from_answers)
    assert found.explained == found.questions == 120
    assert found.calls < most
    assert score(found.model, dev(shared, name)[::4]) >= 95


def test_every_call_of_an_agent_is_counted(shared: Path, monkeypatch: pytest.MonkeyPatch):
    asked, ask = [], Agents.ask
    monkeypatch.setattr(Agents, "ask", lambda *given: asked.append(given) or ask(*given))
    assert learn_from_answers(train(shared, "explicit")[:12]).calls == len(asked) > 0


def poisoned(world: World) -> World:
    """Gold that is wrong, so that whoever reads it learns something else."""
    wrong = parse_hops('(select) [text] "Who is nobody?"')
    questions = (
        replace(one, hops=wrong, answers=(["nobody"],), facts=("x",)) for one in world.questions
    )
    return replace(world, questions=tuple(questions))


def test_gold_is_not_read_where_answers_are_learned_from(shared: Path):
    some = train(shared, "explicit")[:4]
    models = {
        write_model(learn_from_answers(given).model)
        for given in (some, map(World.without_gold, some), map(poisoned, some))
    }
    assert len(models) == 1
    assert learn_from_gold(map(World.without_gold, some)).explained == 0
    assert write_model(learn_from_gold(map(poisoned, some)).model) not in models


@pytest.mark.parametrize("learn", [learn_from_gold, learn_from_answers])
@pytest.mark.parametrize("asks", ["text | born(?, $1) | Who {} in $1? | year", ""])
def test_a_brace_in_a_text_is_refused(learn: Callable[[Iterable[World]], Learned], asks: str):
    question = WorldQuestion("1", "Who is Ada" if asks else "Who is {2}?", ["Ada"])
    marked = replace(small_world("born(Ada, 1907)", asks), questions=(question,))
    with pytest.raises(InputError, match="has {, which marks what a model leaves open"):
        learn([marked])


COMBINED = [
    ("What movies have the people from {} written?", "nation",
     '(select) [text] "Who are from {}?"\n'
     '(project_values_flat_unique) [WROTE] "What movies has #1 written?"'),
    ("What awards have movies directed by people born in {} won?", "b_year",
     '(select) [text] "Who were born in {}?"\n'
     '(project_values_flat_unique) [table] "Which movies has #1 directed?"\n'
     '(project_values_flat_unique) [table] "Which awards did the movie #2 win?"'),
    # No decomposition of the training file asks who directed something.
    ("What awards have the directors of the {} winning movies received?", "m_award",
     '(select) [table] "Which movies were given the {} award?"\n'
     '(project_values_flat_unique) [table] "Who directed #1?"\n'
     '(project_values_flat_unique) [HONOURS] "Which awards were given to #2?"'),
]  # fmt: skip


def combined(world: World) -> Iterator[tuple[str, Value]]:
    """Questions of kinds that the training file does not have, and their answers."""
    for text, kind, told in COMBINED:
        for entity, agent in itertools.product(sorted(world.entities[kind])[:3], ("text", "table")):
            named = told.replace("{}", entity).replace("WROTE", agent).replace("HONOURS", agent)
            hops = parse_hops(named)
            answers = run_hops(hops, Agents(world))
            if len(answers) == len(hops) and [] not in answers:
                yield text.replace("{}", entity), answers[-1]


def test_hops_that_were_never_seen_together(shared: Path):
    scorer, right = AnalogyScorer(taught(shared, "explicit", learn_from_answers).model), []
    for world in dev(shared, "explicit")[:1]:
        for text, answer in combined(world):
            found = best_first(text, Agents(world), scorer)
            right.append(exact_match(found.answer, answer))
    assert len(right) >= 8
    assert sum(right) / len(right) >= 0.95


def test_answers_alone_teach_where_few_questions_are_of_a_kind():
    learned = learn_from_answers(made("explicit", "compgen", "train", 7, 60))
    assert learned.explained >= 54
    assert score(learned.model, made("explicit", "compgen", "test", 7, 10)) >= 90


def asks(words: str, *arguments: int) -> Move:
    return Move(Mode.PLAIN, (), Form((words,), (tuple(range(len(arguments))),)), arguments)


def test_other_ends_go_on_from_answers_of_their_kind_first():
    born, won = asks("Who was born in {}?", 1), asks("Who won the {} prize?", 1)
    town, died = asks("Where did {} live?", -1), asks("When did {} die?", -1)
    inn, served = asks("Which inns are in {}?", -1), asks("What is served at {}?", -1)
    feast, eaten = asks("Which feasts did {} hold?", -1), asks("What is eaten at {}?", -1)
    ways: list[Way] = [
        ("What may the cook born in {1} have eaten?", (born, town, inn, served)),
        ("What may the cook with the {1} prize have eaten?", (won, feast, eaten)),
        *((f"When did the cook {whose} die?", (who, died))
          for whose, who in (("born in {1}", born), ("with the {1} prize", won))),
        # As many that begin with something else.
        *((f"What may the cook of the {at} {{1}} have eaten?",
           (asks(f"What is the {at} of {{}}?", 1), asks(f"Which {at} was in {{}}?", -1), served))
          for at in PLACES[:21]),
    ]  # fmt: skip
    forms = {move.form: {"text": 1} for _, moves in ways for move in moves}
    scorer = AnalogyScorer(model_of("answers", forms, ways))
    hops: tuple[Hop, ...] = ()
    for asked in ("Who was born in 1830?", "Which feasts did #1 hold?", "What is eaten at #2?"):
        proposed = scorer.choices("What may the cook born in 1830 have eaten?", hops, ())
        hops += tuple(one.hop for one in proposed if one.hop and one.hop.question == asked)[:1]
    assert len(hops) == 3


PLACES = (
    "show hall lane yard fort barn dock mill camp dale farm bay inlet lodge abbey tower park quay "
    "ridge shed well vale wood gate bridge ford pier bank crest knoll glen moor heath cove"
).split()


def test_which_of_two_things_is_named_first_is_told_by_the_words():
    def ways() -> Iterator[Way]:
        for crop, than in (("marrows", "less"), ("pumpkins", "less"), ("pumpkins", "more")):
            grew, weighed = (
                asks(f"Who grew {crop}?"),
                asks(f"What did the {crop} of {{}} weigh?", -1),
            )
            over = asks("Is {} more than {}?", *((-1, 1) if than == "more" else (1, -1)))
            for place in PLACES[: 4 if than == "more" else None]:
                question = f"Which {crop} of the {place} weigh {than} than {{1}} kilos?"
                yield question, (grew, weighed, over)

    given = [*ways()]
    forms = {move.form: {"text": 1} for _, moves in given for move in moves}
    scorer = LogisticScorer(model_of("gold", forms, given))
    grown = Hop("select", "text", "Who grew marrows?")
    weighed = Hop("select", "text", "What did the marrows of #1 weigh?")
    question = "Which marrows of the mill weigh more than 5 kilos?"
    best = next(iter(scorer.choices(question, (grown, weighed), ([], []))))
    assert best.hop
    assert best.hop.question == "Is #2 more than 5?"


def test_a_hop_that_is_of_no_use_elsewhere_is_given_up():
    grew, weights = asks("Who grew marrows?"), asks("What did the marrows of {} weigh?", -1)
    most, over = asks("What is the highest number in {}?", -1), asks("Is {} more than {}?", -1, 1)
    owner = asks("Who grew a marrow of {} kilos?", -1)
    # Whose heaviest marrow weighs over 40 is whose any marrow does.
    any_such, heaviest = (grew, weights, over, owner), (grew, weights, most, over)
    how_heavy = (grew, weights, most)
    either = ("Who grew marrows the heaviest of which weighs over {1}?", (any_such, heaviest))
    alone = ("How heavy is the heaviest of the marrows?", (how_heavy,))
    chosen = chosen_programs([either] * 4 + [alone] * 3)
    assert chosen == [heaviest] * 4 + [how_heavy] * 3


def growers(questions: int, *entities: str) -> list[Case]:
    """Questions about a world in which somebody grew a pumpkin and no marrow."""
    [world] = made("numeric", "iid", "train", 1, 1)
    agents = CachingAgents(world)
    return [Case("How heavy are they?", entities, [], agents) for _ in range(questions)]


def longer(bank: Bank, start: Iterable[Term], words: str, mode: str) -> list[Term]:
    hops = (hop for term in start for hop in bank.longer(term))
    return [one for one in hops if one.form and words in one.form.phrasings and one.mode == mode]


def test_that_one_list_is_empty_tells_nothing_of_types():
    refusals: Refusals = {}
    bank = Bank(growers(4), refusals, 1)
    highest: dict[str, list[Term]] = {}
    for grown in ("Who grew pumpkins?", "Who grew marrows?"):
        who = [one for one in bank.longer() if one.form and grown in one.form.phrasings]
        weights = longer(bank, who, "What did the marrows of {} weigh?", Mode.EACH)
        pairs = [one for one in weights if not one.then]
        assert pairs
        highest[grown] = longer(bank, pairs, "What is the highest number in {}?", Mode.EACH_VALUES)
    assert highest["Who grew pumpkins?"] == []
    assert highest["Who grew marrows?"]


def test_of_programs_that_do_alike_each_is_given_and_one_made_longer():
    levels = itertools.islice(levels_of(Bank(growers(1), {}, 1)), 3)
    given = [term for level in levels for term in level]
    assert len({str(term.values) for term in given}) < len(given)
    made_longer = {id(one): str(one.values) for term in given for one in term.arguments}
    assert len({*made_longer.values()}) == len(made_longer) > 1


def test_what_one_question_alone_is_searched_for_is_in_a_row():
    levels = itertools.islice(levels_of(Bank(growers(1, "40"), {}, 1), new_only=False), 3)
    for term in itertools.chain(*levels):
        assert sum(one.form is not None for one in term.arguments) < 2


def test_a_question_about_two_things_is_explained_by_what_is_known_of_one():
    worlds = made("numeric", "compgen", "train", 11, 40)
    patterns = [one for one in learn_from_gold(worlds).model.patterns if "{2}" not in one.question]
    known = {way.moves: None for one in patterns for way in one.strategies}
    explained = []
    for world in worlds:
        agents = CachingAgents(world)
        valid = frozenset().union(*world.entities.values())
        for question in world.questions:
            text, entities = with_holes(question.text, known_entities(question.text, valid))
            if "the best of" in text:
                case = Case(text, entities, question.answer, agents)
                explained.append({run_moves(way, case) for _, way in joined([*known], [case])})
                assert explained[-1] <= {question.answer}
    assert len(explained) > 4
    assert all(explained)


@pytest.mark.parametrize(("name", "few"), [("throws", True), ("movies", False)])
def test_the_words_of_a_question_decide_over_hops_seen_together(name: str, few: bool):
    train, test = unseen_kinds(read_schema(name), 2, 24, few=few)
    learned = learn_from_gold(train).model
    seen = {one.question for one in learned.patterns}
    assert not seen & {one.question for one in learn_from_gold(test).model.patterns}
    assert score(learned, test[:2]) == 100


@pytest.mark.parametrize(("name", "split", "seed", "sizes", "least"), [
    ("explicit", "compgen", 7, (60, 10), 95),
    ("throws", "published_cg", 33, (24, 8), 100),
    ("movies", "published_cg", 33, (24, 8), 100),
])  # fmt: skip
def test_joins_that_training_never_has(
    name: str, split: str, seed: int, sizes: tuple[int, int], least: int
):
    learned = learn_from_gold(made(name, split, "train", seed, sizes[0])).model
    assert score(learned, made(name, split, "test", seed, sizes[1])) >= least


def test_a_new_word_may_be_an_entity_or_none():
    train, _ = unseen_kinds(read_schema("throws"), 1, 12, few=True)
    openings = learn_from_gold(train).model.openings("How many throws by athletes from Velm?", 1)
    assert openings == [
        ("How many throws by {1} from Velm?", ("athletes",)),
        ("How many throws by athletes from {1}?", ("Velm",)),
    ]


# -- moves, and what is left open -----------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_a_hop_survives_without_its_world(shared: Path, name: str):
    for world in dev(shared, name):
        valid = frozenset().union(*world.entities.values())
        for question in world.questions:
            _, entities = with_holes(question.text, known_entities(question.text, valid))
            hops: list[Hop] = []
            for number, hop in enumerate(question.hops, 1):
                move = move_of(hop, number, entities, world.language)
                assert move is not None
                assert fits(move, len(entities), number - 1)
                assert not fits(move, 0, 0) or not move.arguments
                hops.append(hop_of(move, hop.agent, entities, number))
            assert run_hops(hops, Agents(world)) == list(question.answers)


def test_entities_are_left_open():
    assert with_holes("Who threw 4 and 48.0 shorter than 48.0?", ("48.0", "4")) == (
        "Who threw {1} and {2} shorter than {3}?", ("4", "48.0", "48.0"),
    )  # fmt: skip
    assert with_holes("Of Salt and Salt Lake?", ("Salt", "Salt Lake")) == (
        "Of {1} and {2}?", ("Salt", "Salt Lake"),
    )  # fmt: skip
    assert with_holes("Who?", ()) == ("Who?", ())
    valid = {"Salt Lake", "Po'Rsiera", "o"}
    assert known_entities("Is Po'Rsiera of Salt Lake 7 or 7.5?", valid) == (
        "7", "7.5", "Po'Rsiera", "Salt Lake",
    )  # fmt: skip


def test_a_question_fits_the_pattern_with_most_words_and_strange_words_are_entities():
    assert longest_match("Who is from?", ["Who is from {1}?"]) is None
    patterns = ["Who is {1}?", "Who is from {1}?"]
    assert longest_match("Who is from Norway?", patterns) == ("Who is from {1}?", ("Norway",))
    known = {"who", "are", "from", "and", "s", "threw", "than"}
    assert strange_entities("Who are from Upper Volta and 48.0?", known) == ("Upper Volta", "48.0")
    assert strange_entities("Who threw Jo's?", known) == ("Jo",)
    assert strange_entities("Who are Who?", known) == ()


def test_a_question_is_taken_apart_at_its_entities():
    assert parts_of("From {1} to {2} by air", 2) == ("From {1}", " to {2} by air")
    assert parts_of("Who are from {1}?", 1) == ("Who are from {1}?",)
    assert {"from {}", "to {} $", "^ from"} <= features_of("From {1} to {2}?")


# -- search, whoever proposes ---------------------------------------------------------------------


@pytest.fixture
def agents() -> Agents:
    """A small world with people, years, and arithmetic."""
    facts = """
        born(Ines, 1907); born(Ada, 1907); born(Tom, 1911)
        won(Ada, Medal); won(Tom, Cup); knows(Tom, Ada)
    """
    asks = """
        text | born(?, $1) | Who was born in $1? | year
        text | won($1, ?) | What did $1 win? | person
        text | born(?, _) | Who is there?
        text | born($1, ?) | When was $1 born? | person
        text | knows($1, ?) | Whom does $1 know? | person
        math | = count | How many are $1? | list(x)
        math | = is_greater | Is $1 more than $2? | x | x
    """
    return Agents(small_world(facts, asks))


class Scripted:
    """Proposes the same after any hops; ``#-1`` is the last answer."""

    def __init__(self, *proposals: tuple[float, str | None]) -> None:
        self.proposals = proposals

    def choices(self, question: str, hops: Sequence[Hop], answers: Sequence[Value]) -> Any:
        for score, line in self.proposals:
            yield Candidate(score, hop(line.replace("#-1", f"#{len(hops)}")) if line else None)


class Straight:
    """Proposes some hops one after another, and then the end."""

    def __init__(self, *lines: str) -> None:
        self.hops = tuple(map(hop, lines))

    def choices(self, question: str, hops: Sequence[Hop], answers: Sequence[Value]) -> Any:
        return [Candidate(-0.1, self.hops[len(hops)] if len(hops) < len(self.hops) else None)]


def hop(line: str) -> Hop:
    return parse_hops(line)[0]


class Endless:
    """Never comes to an end, and never runs out of proposals."""

    def choices(self, question: str, hops: Sequence[Hop], answers: Sequence[Value]) -> Any:
        for number in itertools.count():
            yield Candidate(-0.001, Hop("select", "text", "Who is there?" + " " * number))
            yield Candidate(-0.001, Hop("select", "text", "Who is there?"))
            yield Candidate(-0.002, Hop("project", "text", f"What did #{number % 3 + 1} win?"))


REPEATING = Scripted((-0.1, '(select) [text] "Who is there?"'))
UNKNOWN = Scripted((-0.1, '(select) [web] "Who is there?"'), (-0.2, '(select) [text] "Why?"'))
ODD = Scripted(
    (math.nan, None), (math.inf, None), (-math.inf, REPEATING.proposals[0][1]), (-1, None)
)
LISTS = Scripted(
    (0.5, REPEATING.proposals[0][1]), (0.5, '(project_keys) [text] "What did #-1 win?"')
)


@pytest.mark.parametrize("scorer", [Endless(), REPEATING, UNKNOWN, ODD, LISTS],
                         ids=["endless", "repeating", "unknown", "odd", "lists"])  # fmt: skip
@pytest.mark.parametrize("search", [greedy, best_first])
def test_budgets_hold_under_any_scorer(agents: Agents, scorer: HopScorer, search: Any):
    budget = SearchBudget(width=5, depth=4, calls=30, hops=50)
    found = search("Who?", agents, scorer, budget)
    assert found.answer is None
    assert found.calls == agents.calls <= budget.calls
    assert found.tried <= budget.hops
    tight = search("Who?", agents, scorer, SearchBudget(width=5, depth=4, calls=2, hops=3))
    assert tight.calls <= 2
    assert tight.tried <= 3


IN_1907 = '(select) [text] "Who was born in 1907?"'
KNOWN = '(select) [text] "Whom does Ada know?"'
THERE = '(select) [text] "Who is there?"'


def test_the_search_goes_on_where_an_agent_has_no_answer(agents: Agents):
    nobody = (-0.1, '(select) [text] "Who was born in 1950?"')
    scorer = Scripted(nobody, (-0.2, KNOWN), (-0.4, IN_1907), (0.0, None))
    found = best_first("Who?", agents, scorer)
    assert (found.answer, found.hops) == (["Ines", "Ada"], (hop(IN_1907),))
    assert (found.tried, found.calls) == (3, 3)
    assert greedy("Who?", agents, scorer).answer is None


def test_what_has_no_answer_takes_no_width(agents: Agents):
    refused, asked = (f'(select) [text] "Whom does {one} know?"' for one in ("Nobody", "Tom"))
    scorer = Scripted((-1.0, refused), (-2.0, asked), (-3.0, None))
    assert best_first("", agents, scorer, SearchBudget(width=1)).hops == (hop(asked),)


def test_no_hop_comes_twice_in_a_decomposition(agents: Agents):
    """Asked again it would give what it gave, for calls of agents."""
    found = best_first("Who?", agents, Scripted((-0.1, IN_1907), (-1.0, None)))
    assert (found.answer, found.hops) == (["Ines", "Ada"], (hop(IN_1907),))
    assert (found.tried, found.calls, agents.calls) == (1, 1, 1)


@pytest.mark.parametrize("search", [greedy, best_first])
@pytest.mark.parametrize(("depth", "answer"), [(2, ["Medal"]), (1, None)])
def test_a_decomposition_has_as_many_hops_as_the_budget_says(
    agents: Agents, search: Any, depth: int, answer: Value
):
    scorer = Straight(IN_1907, '(project_values_flat) [text] "What did #1 win?"')
    found = search("What?", agents, scorer, SearchBudget(depth=depth))
    assert (found.answer, found.tried) == (answer, depth)


def test_a_filter_that_keeps_nothing_is_an_answer_and_nothing_found_is_none(agents: Agents):
    count = '(select) [math] "How many are #3?"'
    years = '(project_values_flat) [text] "When was #1 born?"'
    kept = Straight(IN_1907, years, '(filter) [math] "Is #2 more than 1950?"', count)
    assert best_first("How many?", agents, kept).answer == 0
    assert run_hops([hop(KNOWN)], agents) == [[]]
    found = best_first("How many?", agents, Straight(IN_1907, KNOWN, THERE, count))
    assert found.answer is None


def test_the_cheapest_whole_wins(agents: Agents):
    class Two:
        def choices(self, question: str, hops: Sequence[Hop], answers: Sequence[Value]) -> Any:
            in_1911 = hop('(select) [text] "Who was born in 1911?"')
            if not hops:
                return [Candidate(-0.1, in_1911), Candidate(-0.5, hop(IN_1907))]
            return [Candidate(-1.0 if hops == (in_1911,) else -0.1, None)]

    assert best_first("Who?", agents, Two()).answer == ["Ines", "Ada"]
    assert greedy("Who?", agents, Two()).answer == ["Tom"]
    assert best_first("Who?", agents, Two(), accepts=lambda one: one != ["Ines", "Ada"]).answer == [
        "Tom"
    ]


def test_the_exhaustive_search_finds_every_way_and_counts_each_call(agents: Agents):
    asked = ("What did those born in 1907 win?", ["Medal"], agents)
    chains = exhaustive(2, 10_000)(*asked)
    assert chains.finished
    assert chains.calls == agents.calls
    lines = [[hop.question for hop in hops] for hops in chains.found]
    assert ["Who was born in 1907?", "What did #1 win?"] in lines
    short = exhaustive(3, 20)(*asked)
    assert not short.finished
    assert short.calls <= 30


def test_sampled_chains_end_in_the_answer(agents: Agents):
    asked = ("What did those born in 1907 win?", ["Medal"], agents)
    chains = sampled(Sampling(2, 200), Random(1))(*asked)
    assert chains.calls == agents.calls
    lines = [[hop.question for hop in hops] for hops in chains.found]
    assert ["Who was born in 1907?", "What did #1 win?"] in lines
    assert all(run_hops(hops, agents)[-1] == ["Medal"] for hops in chains.found)
    assert sampled(Sampling(1, 200), Random(1))(*asked).found == ()


def test_what_is_learned_from_chains_answers_other_worlds():
    train = made("explicit", "iid", "train", 3, 30)
    find = partial(sampled, Sampling(3, 10))
    learned = learn_from_chains(train, find(Random(1)), keep=2)
    unguided = learn_from_chains(train, sampled(Sampling(3, 10, guide=0.0), Random(1)), keep=2)
    assert unguided.explained < learned.explained <= learned.questions == 30 < learned.calls
    same = learn_from_chains(map(World.without_gold, train), find(Random(1)), keep=2)
    assert write_model(same.model) == write_model(learned.model)
    assert score(learned.model, made("explicit", "iid", "dev", 3, 5)) > 0


# -- models and the command -----------------------------------------------------------------------


@pytest.fixture
def learned(shared: Path) -> Learned:
    return learn_from_gold(train(shared, "implicit")[:20])


def test_the_same_training_gives_the_same_bytes(shared: Path, learned: Learned, tmp_path: Path):
    text = write_model(learned.model)
    assert write_model(learn_from_gold(train(shared, "implicit")[:20]).model) == text
    (tmp_path / "a.model").write_text(text, encoding="utf-8")
    assert write_model(read_model("a.model")) == text
    assert len(text) < 20_000
    assert "Which companies has {1} founded?" in text


@pytest.mark.parametrize(("change", "message"), [
    (lambda data: [data], "is no model"),
    (lambda data: {**data, "kind": "x"}, "is no model"),
    (lambda data: {**data, "version": 9}, "version 9"),
    (lambda data: {**data, "forms": []}, "damaged"),
    (lambda data: {**data, "forms": [{"number": 1, "phrasings": ["{2}?"], "agents": {}}]},
     "damaged"),
    (lambda data: {**data, "patterns": [{"question": 3, "strategies": []}]}, "damaged"),
])  # fmt: skip
def test_models_that_cannot_be_used(learned: Learned, tmp_path: Path, change: Any, message: str):
    data = change(json.loads(write_model(learned.model)))
    (tmp_path / "bad.model").write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        read_model("bad.model")
    assert "\n" not in str(caught.value)


def test_the_command_learns(shared: Path, tmp_path: Path):
    source = shared / "commaqa" / "explicit_dev_20kb.jsonl"
    for told in ("gold", "answers"):
        result = call("learn", "commaqa", str(source), "--from", told, "-o", "m.model", "--json")
        assert result.code == 0, result.err
        assert result.json["questions"] == result.json["explained"] == 100
        assert (result.json["agent_calls"] > 0) is (told == "answers")
        assert read_model("m.model").source == told
    plain = call("learn", "commaqa", str(source), "--from", "gold", "-o", "m.model")
    assert re.match(r"m\.model: 6 kinds of question, from 100 of 100 questions", plain.out)


def test_of_many_kinds_that_are_not_explained_the_command_names_ten():
    made = ("generate", "commaqa", "--schema", "explicit", "--questions", "24", "--seed", "5")
    worlds = [json.loads(line) for line in call(*made).out.splitlines()]
    for question in [each for world in worlds for each in world["qa_pairs"]][4:]:
        question["answer"] = ["nobody"]
    write_rows("wrong.jsonl", *worlds)
    command = ("learn", "commaqa", "wrong.jsonl", "--from", "answers", "-o", "m.model")
    told = call(*command).out.splitlines()
    assert len(told) == 12
    assert re.fullmatch(r"  and \d+ kinds more: --json names them", told[-1])


def test_the_command_says_what_it_lacks(shared: Path, tmp_path: Path):
    source = shared / "commaqa" / "explicit_dev_20kb.jsonl"
    row = json.loads(source.read_text("utf-8").partition("\n")[0])
    for question in row["qa_pairs"]:
        del question["decomposition"], question["facts_used"]
    (tmp_path / "bare.jsonl").write_text(json.dumps(row), encoding="utf-8")
    result = call("learn", "commaqa", "bare.jsonl", "--from", "gold", "-o", "m.model")
    assert result.code == 1
    assert "no question with a decomposition" in result.err
    assert not (tmp_path / "m.model").exists()
    assert call("learn", "commaqa", "bare.jsonl", "--from", "gold", "-o", "bare.jsonl").code == 2
    assert call("learn", "commaqa", "none.jsonl", "--from", "gold", "-o", "m.model").code == 2
    row["qa_pairs"] = row["qa_pairs"][:1]
    (tmp_path / "one.jsonl").write_text(json.dumps(row), encoding="utf-8")
    few = call("learn", "commaqa", "one.jsonl", "--from", "answers", "-o", "m.model")
    assert few.code == 1
    assert "no kind of question that programs were found for" in few.err
