"""Agents that answer questions over a world, in their own language alone; scores of answers.

In CommaQA an agent knows some facts and answers the questions of its templates, exactly, for its
valid inputs. Anything else has no answer. Plans ask agents through `handlers`; search, which asks
many times a second, runs hops without a plan. Both fill questions by `value_of` of
`pearl.runtime.binding`, so that they cannot differ.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from types import MappingProxyType

from pearl.commaqa.decomposition import Hop, HopError, Operation, name_of, read_hop, run_operation
from pearl.commaqa.world import Fact, Lookup, QuestionTemplate, World, calculate, read_number
from pearl.lang.ast import Arg, refs
from pearl.lang.builtins import Given
from pearl.lang.text import one_line
from pearl.lang.values import Value, as_text
from pearl.runtime.binding import Item, SolverError, value_of
from pearl.runtime.executor import Handlers


class Agents:
    """The agents of one world.

    Args:
        world: the facts and the agents' templates.

    Attributes:
        calls: how many questions were asked, answered or not.
        unread: how many of them no template of their agent reads: they are outside its language.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls = self.unread = 0

    def ask(self, agent: str, question: str) -> Value | None:
        """The answer to one question.

        A valid input about which no fact is known has the empty list for an answer. A question
        that two templates read counts as the one that finds facts; where both do, and they
        differ, it has no answer.

        Args:
            agent: the agent's name, as ``table``.
            question: in the agent's language, earlier answers filled in.

        Returns:
            A list of entities, a number or a truth value; None for "no answer".
        """
        self.calls += 1
        answers: list[Value] = []
        readings = list(self.world.language.readings(agent, question))
        self.unread += not readings
        for template, arguments in readings:
            if template.lookups:
                answer = self._look_up(template, arguments)
            else:
                answer = calculate(template.predicate, arguments)
            if answer is not None and answer not in answers:
                answers.append(answer)
        full = [answer for answer in answers if answer != []]
        return None if len(full) > 1 else next(iter(full or answers), None)

    def _look_up(self, template: QuestionTemplate, arguments: Sequence[str]) -> Value | None:
        """What the steps of a template find; None for an argument that is no valid input."""
        texts: dict[str, str] = {}
        for (slot, kind), words in zip(template.inputs, arguments, strict=True):
            if words not in self.world.entities.get(kind, ()):
                return None
            texts[slot] = words
        earlier: dict[str, Value] = {}
        answer: Value | None = None
        for number, lookup in enumerate(template.lookups, 1):
            # An operator that goes over items has one place with an answer in it.
            over = next((place for place in lookup.places if place.startswith("#")), "")
            ask = partial(self._run_lookup, lookup, texts, over)
            answer = run_operation(lookup.operation, earlier.get(over), ask)
            if answer is None:
                return None
            earlier[f"#{number}"] = answer
            texts[f"#{number}"] = as_text(answer)
        return answer

    def _run_lookup(
        self, lookup: Lookup, texts: Mapping[str, str], over: str, item: Item | None
    ) -> Value:
        """What stands where a step of a template wants it, for the whole or for one item."""
        filled = texts if item is None else {**texts, over: as_text(item.value)}
        places = [filled.get(place, place) for place in lookup.places]
        gap = places.index("?")
        return [fact[gap] for fact in self.facts(lookup.predicate, places)]

    def facts(self, predicate: str, places: Sequence[str]) -> list[Fact]:
        """The facts that have what stands at each place; ``?`` and ``_`` are anything."""
        fixed = [(at, place) for at, place in enumerate(places) if place not in ("?", "_")]
        candidates: Sequence[Fact] = self.world.facts.get(predicate, ())
        if fixed:
            at, entity = fixed[0]
            candidates = self.world.index.get((predicate, at), {}).get(entity, ())
        return [
            fact
            for fact in candidates
            if len(fact) == len(places) and all(fact[at] == entity for at, entity in fixed)
        ]


def handlers(agents: Agents) -> Handlers:
    """What a run is handed so that its steps can ask a world's agents.

    Args:
        agents: the agents; the actions that ask them have ``body: solver`` and the agent's name.
    """

    async def solve(name: str, _: str, args: Sequence[Given]) -> Value:
        question = as_text(args[0].value)
        answer = agents.ask(name, question)
        if answer is None:
            message = f"The agent {name} has no answer to: {question[:80]}"
            raise SolverError("no-answer", message)
        return answer

    names = agents.world.language.agents
    return Handlers(MappingProxyType({name: partial(solve, name) for name in names}))


def run_hops(hops: Iterable[Hop], agents: Agents) -> list[Value]:
    """The answers ``#1`` … ``#n`` of a decomposition; fewer where a hop has none, which ends it."""
    answers: list[Value] = []
    for hop in hops:
        answer = run_hop(hop, answers, agents.ask)
        if answer is None:
            break
        answers.append(answer)
    return answers


def run_hop(
    hop: Hop, answers: Sequence[Value], ask: Callable[[str, str], Value | None]
) -> Value | None:
    """One hop's answer, given the answers ``#1`` … ``#n`` before it; None for "no answer".

    ``ask`` puts a question to the agent of a name, as `Agents.ask`. A hop that cannot be asked has
    no answer: an unknown operator, an answer that is not there yet, a value of another kind than
    the operator goes over.
    """
    read = _read(hop.operator, hop.question)
    if read is None:
        return None
    operation, question, names, over = read
    values = {name_of(number): answer for number, answer in enumerate(answers, 1)}
    if not all(name in values for name in names):
        return None

    def answer(item: Item | None) -> Value | None:
        filled = value_of(question, values, item)
        return ask(hop.agent, filled) if isinstance(filled, str) else None

    return run_operation(operation, values[over] if over else None, answer)


@lru_cache(maxsize=65536)
def _read(operator: str, question: str) -> tuple[Operation, Arg, tuple[str, ...], str] | None:
    """What a hop does, its question, the answers it names, and the one it goes over."""
    try:
        operation, argument = read_hop(Hop(operator, "", question))
    except HopError:
        return None
    references = list(refs(argument))
    over = next((ref.name for ref in references if ref.mode), "")
    return operation, argument, tuple(ref.name for ref in references), over


# How an answer is scored: exact match on spans in no order, and F1 over them.
#
# The spans are the items of a list, the lines of a text, or a number alone. Spans are equal where
# their words are (case and spaces do not count), and where both are numbers, where the numbers are:
# 66, 66.0 and "66.0" are one answer. A span that is given twice counts twice, as a decomposition
# that forgets `_unique` gives another answer.

_ARTICLES = frozenset(("a", "an", "the"))
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# A hyphen between words parts them; before a number it is a sign.
_BETWEEN = re.compile(r"\s+|(?<=\w)-(?=\w)")


def _spans(answer: Value) -> list[str]:
    if isinstance(answer, list):
        return [as_text(item) for item in answer]
    return [line for line in as_text(answer).split("\n") if line.strip()]


def _number(word: str) -> str:
    """A number in one form; empty where it is none."""
    number = read_number(word)
    # Adding zero makes -0 a 0.
    return "" if number is None else f"{(number + 0).normalize():f}"


def exact_match(answer: Value | None, gold: Value) -> bool:
    """Whether an answer has the gold spans and no others.

    Args:
        answer: a list, a text with one span a line, a number, or a truth value (``yes`` or
            ``no``), pairs being their lines; None for "no answer", which never matches.
        gold: the recorded answer.
    """

    def count_spans(value: Value) -> Counter[str]:
        spans = (one_line(span).casefold() for span in _spans(value))
        return Counter(_number(span) or span for span in spans)

    return answer is not None and count_spans(answer) == count_spans(gold)


def f1(answer: Value | None, gold: Value) -> float:
    """How much of their words an answer's spans share with the gold ones, from 0 to 1.

    Each span of one is put beside at most one of the other, so that the sum of their F1 is
    greatest, and the sum is divided by the number of spans of the longer answer. The F1 of two
    spans is over the sets of their words in lower case, without articles and punctuation; where
    the gold span has numbers, one of them has to be there, or it is 0. That is DROP's evaluation
    (Dua et al., "DROP: A Reading Comprehension Benchmark Requiring Discrete Reasoning Over
    Paragraphs", NAACL 2019), which CommaQA takes over (Khot et al., Findings of ACL 2022,
    section 5).

    Two answers without spans agree: 1. No answer has 0.

    Args:
        answer: as `exact_match` takes it.
        gold: the recorded answer.
    """
    if answer is None:
        return 0.0
    rows, columns = ([*map(_words, _spans(value))] for value in (answer, gold))
    if not rows or not columns:
        return float(not rows and not columns)
    from scipy.optimize import linear_sum_assignment

    table = [[_overlap(words, right) for right in columns] for words in rows]
    pairs = zip(*linear_sum_assignment(table, maximize=True), strict=True)
    return float(sum(table[row][column] for row, column in pairs)) / max(len(rows), len(columns))


def _words(span: str) -> frozenset[str]:
    words: set[str] = set()
    for word in _BETWEEN.split(span.casefold()):
        bare = word.translate(_PUNCTUATION)
        # A number keeps its sign and its point; 1,000 has neither.
        words.add(_number(word) or _number(bare) or bare)
    return frozenset(words - _ARTICLES - {""})


def _overlap(words: frozenset[str], gold: frozenset[str]) -> float:
    if not words and not gold:
        return 1.0
    numbers = frozenset(filter(_number, gold))
    if numbers and not numbers & words:
        return 0.0
    return 2 * len(words & gold) / (len(words) + len(gold))
