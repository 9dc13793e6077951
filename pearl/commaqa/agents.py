"""Agents that answer questions about a world, and the scores of answers.

In CommaQA an agent knows some facts and answers only the questions of its templates, for valid
inputs. Anything else has no answer. Plans ask agents through `handlers`; search, which asks many
times a second, runs hops without a plan. Both fill in questions with `value_of` of
`pearl.runtime.binding`, so that they ask the same.
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
from pearl.runtime.binding import Item, StepError, value_of
from pearl.runtime.executor import Handlers


class Agents:
    """The agents of one world.

    Args:
        world: the facts and the agents' templates.

    Attributes:
        calls: how many questions were asked, answered or not.
        unread: how many of them matched no template of their agent.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.calls = self.unread = 0

    def ask(self, agent: str, question: str) -> Value | None:
        """The answer to one question.

        For a valid input without any facts the answer is an empty list. If several templates match
        the question, the one that finds facts counts; if several find different facts, there is no
        answer.

        Args:
            agent: the agent's name, as ``table``.
            question: a question in the agent's language, with earlier answers filled in.

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
        """The answer of a template's steps; None for an argument that is no valid input."""
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
        """The entities that a step of a template looks up, for all of an answer or one item."""
        filled = texts if item is None else {**texts, over: as_text(item.value)}
        places = [filled.get(place, place) for place in lookup.places]
        wanted = places.index("?")
        return [fact[wanted] for fact in self.facts(lookup.predicate, places)]

    def facts(self, predicate: str, places: Sequence[str]) -> list[Fact]:
        """The facts with these entities at their places; ``?`` and ``_`` match any."""
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
    """The handlers with which the steps of a run ask a world's agents.

    Args:
        agents: the agents; the actions that ask them have ``body: solver`` and the agent's name.
    """

    async def solve(name: str, _: str, args: Sequence[Given]) -> Value:
        question = as_text(args[0].value)
        answer = agents.ask(name, question)
        if answer is None:
            message = f"The agent {name} has no answer to: {question[:80]}"
            raise StepError("no-answer", message)
        return answer

    names = agents.world.language.agents
    return Handlers(MappingProxyType({name: partial(solve, name) for name in names}))


def run_hops(hops: Iterable[Hop], agents: Agents) -> list[Value]:
    """The answers ``#1`` … ``#n`` of a decomposition, up to the first hop without an answer."""
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

    ``ask`` takes an agent's name and a question, as `Agents.ask` does. A hop has no answer if its
    operator is unknown, it names an answer that is not there yet, or the operator cannot go over
    the answer's kind of value.
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
    """A hop's operation and question, the answers it names, and the one whose items it asks for."""
    try:
        operation, argument = read_hop(Hop(operator, "", question))
    except HopError:
        return None
    references = list(refs(argument))
    over = next((ref.name for ref in references if ref.mode), "")
    return operation, argument, tuple(ref.name for ref in references), over


# Answers are scored by exact match on their spans, in any order, and by F1 over the spans.
#
# The spans are the items of a list, the lines of a text, or a single number. Two spans are equal
# if their words are (case and spaces do not count) or both are the same number: 66, 66.0 and "66.0"
# are equal. A span that is given twice counts twice, as a decomposition that forgets `_unique`
# gives another answer.

_ARTICLES = frozenset(("a", "an", "the"))
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# A hyphen between letters or digits separates words; before a number it is a sign.
_BETWEEN = re.compile(r"\s+|(?<=\w)-(?=\w)")


def _spans(answer: Value) -> list[str]:
    if isinstance(answer, list):
        return [as_text(item) for item in answer]
    return [line for line in as_text(answer).split("\n") if line.strip()]


def _number(word: str) -> str:
    """The canonical text of a number; empty for a word that is no number."""
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
    """The F1 of an answer's spans against the gold spans, from 0 to 1.

    Spans are matched one to one so that the sum of their F1 is greatest; the sum is divided by the
    number of spans of the longer answer. The F1 of two spans is over the sets of their words in
    lower case, without articles and punctuation; it is 0 where the gold span has numbers and the
    answer's span has none of them. This is DROP's evaluation
    (Dua et al., "DROP: A Reading Comprehension Benchmark Requiring Discrete Reasoning Over
    Paragraphs", NAACL 2019), which CommaQA uses (Khot et al., Findings of ACL 2022, section 5).

    Two answers without spans score 1, and None scores 0.

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
        # A number keeps its sign and decimal point; 1,000 only becomes one without its comma.
        words.add(_number(word) or _number(bare) or bare)
    return frozenset(words - _ARTICLES - {""})


def _overlap(words: frozenset[str], gold: frozenset[str]) -> float:
    if not words and not gold:
        return 1.0
    numbers = frozenset(filter(_number, gold))
    if numbers and not numbers & words:
        return 0.0
    return 2 * len(words & gold) / (len(words) + len(gold))
