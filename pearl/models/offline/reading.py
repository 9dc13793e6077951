"""Steps answered with the document's own sentences, to the letter, and options by shared words.

A sentence's score is BM25's (`pearl.retrieval.terms`) for the words of the
step's arguments, its note and its action's name.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping

from pearl.lang.source import Span
from pearl.lang.values import UNITS, Pairs, Value, as_text
from pearl.models.offline.planning import CUES
from pearl.prompts.calls import ExecuteStep, MapAnswer, letter
from pearl.retrieval.terms import SentenceIndex, index_sentences, words

QUOTES = 4
"""How many sentences an answer quotes."""

WHOLE = 5
"""Words from which a sentence says something by itself."""

REPEATED = 0.6
"""What a sentence's score is worth when an earlier step has quoted it."""

HELD = 0.7
"""The share of a statement's words that one sentence must hold to bear it out."""

_ORDERS = "find list check answer summarize describe identify explain state name topic event"
"""Words by which steps tell a reader what to do, and not what to look for."""

# No "one": it stands for anybody and anything.
_SPELLED = UNITS[2:11]
_NUMBER = re.compile(
    rf"\b(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?\b|\b(?:{'|'.join(_SPELLED)})\b", re.IGNORECASE
)


def carry_out(call: ExecuteStep) -> str:
    """The sentences that bear on the step, each on its own line after ``> ``.

    For a truth value, a number or a list, the value stands on the first line.
    """
    if call.document is None:
        return _without_document(call)
    read = index_sentences(call.document.text)
    best = _choose(read, _query(call), _quoted(call))
    quotes = [" ".join(read.text[span.start : span.end].split()) for span in best]
    in_order = [quote for _, quote in sorted(zip(best, quotes, strict=True))]
    shown = "\n".join(f"> {quote}" for quote in in_order)
    match call.action.returns:
        case "bool":
            return f"{'yes' if _borne_out(call, read) else 'no'}\n{shown}"
        case "number":
            return f"{_number(quotes)}\n{shown}"
        case "list":
            return f"{json.dumps(in_order, ensure_ascii=False)}\n{shown}"
        case "pairs":
            pairs = [[at, quote] for at, quote in enumerate(in_order, 1)]
            return f"{json.dumps({'pairs': pairs}, ensure_ascii=False)}\n{shown}"
        case _:
            return shown or "The document has no sentence that bears on this."


def _without_document(call: ExecuteStep) -> str:
    """What can be said of the arguments alone: they themselves."""
    text = "\n".join(_answers(value) for _, value in call.arguments)
    match call.action.returns:
        case "bool":
            return "no"
        case "number":
            return str(len(text.splitlines()))
        case "list":
            return json.dumps(text.splitlines(), ensure_ascii=False)
        case "pairs":
            pairs = [[at, line] for at, line in enumerate(text.splitlines(), 1)]
            return json.dumps({"pairs": pairs}, ensure_ascii=False)
        case _:
            return text


def _answers(value: Value) -> str:
    """A value's text; of pairs only what was answered, as a key may be a part's label."""
    return (
        "\n".join(as_text(one) for _, one in value) if isinstance(value, Pairs) else as_text(value)
    )


def _query(call: ExecuteStep) -> Mapping[str, float]:
    """Stems and weights: the arguments' own words most, the action's least."""
    query: dict[str, float] = {}
    for stem in words(call.action.name.replace("_", " ").lower()):
        query[stem] = 0.25
    for stem in words(call.step.note):
        query[stem] = 0.6
    for stem in words(_ORDERS):
        query.pop(stem, None)
    for _, value in call.arguments:
        text = as_text(value)
        weight = 0.1 if ">" in text else 1.0
        for stem in words(text.replace(">", " ")):
            query[stem] = max(weight, query.get(stem, 0.0))
    return query


def _quoted(call: ExecuteStep) -> frozenset[str]:
    """Sentences that an earlier step found; this one should add to them."""
    lines = [line for _, value in call.arguments for line in as_text(value).splitlines()]
    return frozenset(line[2:] for line in lines if line.startswith("> "))


def _choose(read: SentenceIndex, query: Mapping[str, float], known: frozenset[str]) -> list[Span]:
    """The best sentences, best first; one that an earlier step quoted counts for less."""
    scores = read.scores(query)
    texts = [" ".join(read.text[span.start : span.end].split()) for span in read.spans]
    for at, text in enumerate(texts):
        if text in known:
            scores[at] *= REPEATED
    order = sorted(range(len(texts)), key=lambda at: (-scores[at], at))
    first: dict[str, int] = {}
    for at in order:
        if scores[at] > 0:
            first.setdefault(texts[at], at)
    best = list(first.values())
    # A few words answer little, but a document may hold nothing longer.
    whole = [at for at in best if len(texts[at].split()) >= WHOLE] or best
    return [read.spans[at] for at in whole[:QUOTES]]


def _borne_out(call: ExecuteStep, read: SentenceIndex) -> bool:
    """Whether one sentence holds most words of the statement that is to be checked."""
    asked = {stem for _, value in call.arguments for stem in words(as_text(value))}
    most = max((len(asked & held) for held in read.stems), default=0)
    return bool(asked) and most >= HELD * len(asked)


def _number(quotes: list[str]) -> str:
    """The first number of the best sentence that has one, or else how many sentences there are."""
    for quote in quotes:
        found = _NUMBER.search(quote)
        if found:
            word = found[0].lower()
            return str(UNITS.index(word)) if word in _SPELLED else word
    return str(len(quotes))


def choose(call: MapAnswer) -> str:
    """The letter of the option whose own words the answer holds most of.

    A word that several options share says little; one that only the question
    has says nothing. Where the question asks for what is not so, it is the
    option that the answer bears out least. Ties go to the first option.
    """
    scores = _scores(call)
    false = any(cue.false and cue.asks.search(call.question) for cue in CUES)
    best = min(scores) if false else max(scores)
    return letter(scores.index(best))


def _scores(call: MapAnswer) -> list[float]:
    asked = set(words(call.question))
    options = [set(words(option)) - asked for option in call.options]
    shared = Counter(stem for option in options for stem in option)
    answer = Counter(words(call.answer))
    total = len(call.options)
    scores: list[float] = []
    for option in options:
        score = sum(
            math.log(1 + total / shared[stem]) * (1 + math.log(answer[stem]))
            for stem in sorted(option)
            if stem in answer
        )
        scores.append(score / math.sqrt(4 + len(option)))
    return scores
