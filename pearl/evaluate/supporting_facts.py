"""How well an answer over several paragraphs is supported, and whether replies fit their schema.

A model copies the sentences that its answer rests on; these quotes are matched
with sentences of the document, which are its supporting facts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, starmap, takewhile

from pearl.evaluate.accuracy_tables import means_of, method_rows, method_table
from pearl.evaluate.datasets.base import Example
from pearl.evaluate.datasets.multihop import MultiHop, SupportingFact, bare, best, compare_sets
from pearl.evaluate.results import Evaluation, Result
from pearl.lang.text import one_line
from pearl.report.document import Table, counts, figure, percent
from pearl.runtime.calls import FITTED, Entry

CLOSE = 85.0
"""The least similarity of a quote and a sentence, of 100 (rapidfuzz' ratio)."""

_TURNING = re.compile(
    r"\b(?:not|no|nor|neither|never|none|nothing|nobody|without|cannot)\b|n['’]t\b"
)
_NUMBER = re.compile(r"\d+")

SHORTEST = 4
"""The fewest words of a quote that is only a part of a sentence."""

HALF = 0.5
"""The least F1 of a wrong answer that counts as a right one in other words."""

DEPTHS = (2, 5)
"""The numbers of named paragraphs for which recall is measured."""

_STATE = re.compile(r"fsm/\d+/\w+")
"""The path of the journal entry about a machine's state."""

NOWHERE = -1
"""The number of a fact for a quote that the document does not have."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A sentence in the folded text of a document."""

    fact: SupportingFact
    text: str
    start: int
    end: int


def facts_of(data: MultiHop, quotes: Iterable[str]) -> frozenset[SupportingFact]:
    """The supporting facts that quotes refer to.

    A quote refers to the sentences of which it has at least half, apart from
    white space, or to the one sentence that it is a part of. If the text has it
    more than once, the place counts where it covers its sentences best. A quote
    that is not word for word refers to the most similar sentence, or two
    neighbours, with the same number of negations and all of its numbers. If
    none is similar enough, it is a wrong fact, with the number `NOWHERE`.

    Args:
        data: the paragraphs; its unit says what a fact is.
        quotes: sentences as a model copied them.
    """
    text = ""
    places: list[_Place] = []
    choices: list[tuple[list[SupportingFact], str]] = []
    for paragraph in data.paragraphs:
        text += f"# {paragraph.title} "
        by_paragraph = data.unit == "paragraph"
        facts = [
            SupportingFact(paragraph.title, paragraph.number if by_paragraph else number)
            for number in range(len(paragraph.sentences))
        ]
        sentences = list(zip(facts, (part.text for part in paragraph.sentences), strict=True))
        for fact, sentence in sentences:
            if sentence:
                places.append(_Place(fact, sentence, len(text), len(text + sentence)))
                text += f"{sentence} "
        choices += [
            ([fact, other], f"{sentence} {following}")
            for (fact, sentence), (other, following) in pairwise(sentences)
            if sentence and following
        ]
    choices = [*(([place.fact], place.text) for place in places), *choices]
    cited: set[SupportingFact] = set()
    for quote in quotes:
        # Without quote marks, and without the escapes of `compose`.
        words = one_line(quote.strip().removeprefix(">")).strip('"“”').replace("\\#", "#")
        if words:
            matches = _exact(words, text, places) or _close(words, choices)
            cited.update(matches or (SupportingFact(words, NOWHERE),))
    return frozenset(cited)


def _exact(quote: str, text: str, places: Sequence[_Place]) -> list[SupportingFact]:
    # Of a sentence that occurs twice, the first counts, whichever is gold.
    whole = [place.fact for place in places if place.text == quote]
    if whole:
        return whole[:1]

    def covered(start: int) -> list[tuple[int, _Place]]:
        """The sentences that the quote overlaps if it starts there, with the overlapping length."""
        end = start + len(quote)
        near = places[bisect_right(places, start, key=lambda place: place.end) :]
        return [
            (max(0, min(end, place.end) - max(start, place.start)), place)
            for place in takewhile(lambda place: place.start < end, near)
        ]

    def share(stretch: Sequence[tuple[int, _Place]]) -> float:
        """The share of these sentences that the quote covers, from 0 to 1."""
        length = sum(len(place.text) for _, place in stretch)
        return sum(shared for shared, _ in stretch) / length if length else 0.0

    starts = (match.start() for match in re.finditer(re.escape(quote), text))
    parts = max(map(covered, starts), key=share, default=[])
    most = [place.fact for shared, place in parts if 2 * shared >= len(place.text)]
    if most or not parts or len(quote.split()) < SHORTEST:
        return most
    return [max(parts, key=lambda part: part[0])[1].fact]


def _close(quote: str, choices: Sequence[tuple[list[SupportingFact], str]]) -> list[SupportingFact]:
    """The most similar sentence, or two neighbours, if similar enough, with as many negations as
    the quote and all of its numbers."""
    from rapidfuzz import fuzz, process

    folded = quote.casefold()
    texts = [text.casefold() for _, text in choices]
    denials, numbers = len(_TURNING.findall(folded)), Counter(_NUMBER.findall(folded))
    for text, _, at in process.extract(
        folded, texts, scorer=fuzz.ratio, score_cutoff=CLOSE, limit=None
    ):
        agrees = denials == len(_TURNING.findall(text))
        if agrees and numbers <= Counter(_NUMBER.findall(text)):
            return choices[at][0]
    return []


def support_measures(
    example: Example, answer: str, sentences: Iterable[str], triples: Iterable[Sequence[str]] | None
) -> Mapping[str, float]:
    """Measures of an answer that comes with its evidence.

    Supporting facts are compared as sets of (title, sentence) (HotpotQA,
    section 5.2), or of paragraphs for MuSiQue. Joint measures are those of
    answer and facts together, and of the triples too where the data set and
    the method have them (2WikiMultihopQA, section 5).

    Args:
        example: the question with its gold answer and facts.
        answer: the answer.
        sentences: its supporting facts, as sentences copied from the document.
        triples: its evidence as (subject, relation, object); None for a method that gives none.

    Returns:
        ``sp_em``, ``sp_f1``, ``sp_precision``, ``sp_recall``, ``joint_em``,
        ``joint_f1``; with gold triples ``triples_em`` and ``triples_f1``. Nothing where there are
        no gold facts.
    """
    data = example.data
    if not isinstance(data, MultiHop) or not data.facts:
        return {}
    facts = compare_sets(facts_of(data, sentences), frozenset(data.facts))
    joint = best(example, answer).jointly(facts)
    measures = {
        "sp_em": facts.exact_match,
        "sp_f1": facts.f1,
        "sp_precision": facts.precision,
        "sp_recall": facts.recall,
    }
    if data.triples and triples is not None:
        # Articles count here: 2WikiMultihopQA's script leaves them in.
        scores = compare_sets(_bare(triples), _bare(data.triples))
        joint = joint.jointly(scores)
        measures |= {"triples_em": scores.exact_match, "triples_f1": scores.f1}
    return {**measures, "joint_em": joint.exact_match, "joint_f1": joint.f1}


def form(entries: Iterable[Entry]) -> Mapping[str, float]:
    """``format``, the share of structured outputs whose first reply was valid, and
    ``format_final``, the share whose last reply was; nothing without structured outputs.

    Args:
        entries: the run's journal, which records for each structured output which
            reply was valid (`pearl.runtime.calls.fill`).
    """
    entries = list(entries)
    first = {entry.path for entry in entries if entry.kind == "call"}
    # A plan's step may have the same name as such a decision, but no call with a number.
    fitted = [
        entry.value
        for entry in entries
        if entry.kind == "decision"
        and entry.path.endswith(f"/{FITTED}")
        and f"{entry.path.removesuffix(FITTED)}1" in first
    ]
    if not fitted:
        return {}
    first_fits, some_fits = (sum(map(fits, fitted)) for fits in (lambda at: at == 1, bool))
    return {"format": first_fits / len(fitted), "format_final": some_fits / len(fitted)}


def recall(example: Example, searches: Sequence[tuple[str, Sequence[str]]]) -> Mapping[str, float]:
    """Recall and precision of the paragraphs that searches named, in that order.

    ``recall``, ``recall_at_2`` and ``recall_at_5`` are shares of the gold paragraphs;
    ``precision`` is there if any was named. There are no measures without gold paragraphs. Of
    several paragraphs with the same title, as in MuSiQue, those count that the search quoted.

    Args:
        example: the question with its gold paragraphs.
        searches: for each search, the title it named and the sentences it quoted.
    """

    def plain(title: str) -> str:
        return one_line(title).casefold()

    data = example.data
    if not isinstance(data, MultiHop) or not data.facts:
        return {}
    by_number = data.unit == "paragraph"

    def found(title: str, quotes: Sequence[str]) -> list[tuple[str, int]]:
        same_title = (own for own in data.paragraphs if by_number and plain(own.title) == title)
        numbers = {paragraph.number for paragraph in same_title}
        if len(numbers) > 1:
            numbers = numbers & {fact.number for fact in facts_of(data, quotes)} or numbers
        return [(title, number) for number in sorted(numbers)] or [(title, NOWHERE)]

    gold = {(plain(fact.title), fact.number if by_number else NOWHERE) for fact in data.facts}
    named = [(plain(title), quotes) for title, quotes in searches if plain(title)]
    order = list(dict.fromkeys(chain.from_iterable(starmap(found, named))))
    shares = {f"recall_at_{depth}": len(gold & {*order[:depth]}) / len(gold) for depth in DEPTHS}
    right = len(gold & {*order})
    precision = {"precision": right / len(order)} if order else {}
    return {**shares, "recall": right / len(gold), **precision}


def machine_measures(example: Example, entries: Iterable[Entry]) -> Mapping[str, float]:
    """Measures of the searches of a state machine, whether or not it came to an answer.

    Args:
        example: the question with its gold paragraphs.
        entries: the run's journal, which records the outcome of each state.

    Returns:
        The measures of `recall`, and ``unanswered``, how many searches found no answer. Nothing
        where no machine ran, or there are no gold paragraphs.
    """
    ends = [entry for entry in entries if entry.kind == "decision" and _STATE.fullmatch(entry.path)]
    searches = [entry.value for entry in ends if entry.path.endswith("/search")]
    named = [(end["title"], end.get("evidence", [])) for end in searches if "title" in end]
    shares = recall(example, named)
    if not ends or not shares:
        return {}
    unanswered = sum(search["outcome"] == "nothing" for search in searches)
    return {**shares, "unanswered": float(unanswered)}


def _bare(triples: Iterable[Sequence[str]]) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(map(bare, triple)) for triple in triples)


_EVIDENCE_TITLES = {
    "exact_match": "exact match",
    "f1": "F1",
    "contains": "contains",
    "sp_em": "facts EM",
    "sp_f1": "facts F1",
    "triples_em": "triples EM",
    "triples_f1": "triples F1",
    "joint_em": "joint EM",
    "joint_f1": "joint F1",
    "recall_at_2": "recall@2",
    "recall_at_5": "recall@5",
    "format": "format",
    "format_final": "final format",
}
_EVIDENCE_WORDS = {
    "sp": "Facts: the sentences, or paragraphs, that support the answer.",
    "joint": "Joint: all of it together, triples only of methods that give them.",
    "recall": "Recall: the share of the supporting paragraphs among the first that searches named.",
    "contains": "Contains: the answer holds a right one, letter for letter but for case.",
    "format": "Format: the share of structured outputs whose first reply was valid, over the "
    "questions with any; final: whose last reply was.",
}
"""Explanations of columns, by the beginning of their measures' names."""

_EVIDENCE = r"(?:sp|triples|joint)_\w+"
_MEASURED = re.compile(
    rf".* (?:exact_match|f1|contains)|(?:.*-evidence|fsm2) {_EVIDENCE}"
    r"|fsm1 (?:sp|joint)_\w+|fsm\d recall_at_\d"
)
"""Methods with the measures that each of them has; without any answer, these are 0."""


def evidence_table(evaluation: Evaluation) -> Table | None:
    """The table of exact match and F1 of answers, supporting facts and triples, alone and jointly,
    and of the format of replies; None where neither F1 nor a format is measured."""
    if not any({"format", "f1"} & result.measures.keys() for result in evaluation.results):
        return None
    elsewhere = {name for result in evaluation.results for name in result.measures}
    if all(result.answer is None for result in evaluation.results):
        elsewhere |= {"exact_match", "f1"}

    def row(method: str) -> dict[str, float | None]:
        # After a comma, a method's name may have that of a model or a set of demonstrations.
        name_of = method.partition(", ")[0]
        zeros = {name: 0.0 for name in elsewhere if _MEASURED.fullmatch(f"{name_of} {name}")}
        means = {**zeros, **means_of(evaluation, method)}
        return {name: means.get(name) for name in _EVIDENCE_TITLES}

    rows = method_rows(evaluation, row)
    known = [name for name in _EVIDENCE_TITLES if any(row[name] is not None for row in rows)]
    fields = [figure(name, _EVIDENCE_TITLES[name], percent) for name in known]
    explanations = [
        words
        for beginning, words in _EVIDENCE_WORDS.items()
        if any(name.startswith(beginning) for name in known)
    ]
    note = " ".join(("Means over all questions; one without a result counts as 0.", *explanations))
    return method_table("Answers and their evidence", fields, rows, note)


_OUTCOME_KINDS = {
    "right_found": "right, all found",
    "right_unfound": "right, not all found",
    "wording": "wrong: wording",
    "nothing": "wrong: none found",
    "paragraph": "wrong: other paragraph",
    "hops": "wrong: too few hops",
    "reasoning": "wrong: reasoning",
    "form": "no valid output",
    "none": "no answer",
}
"""The outcomes of an answer and the search for its paragraphs, with their titles."""


def found_table(evaluation: Evaluation) -> Table | None:
    """The table of outcomes: right answers with and without all paragraphs, and kinds of errors.

    FSM's paper labels these outcomes by hand; here they follow from measures of the run. None where
    no search is measured.
    """

    def row(method: str) -> dict[str, int]:
        results = evaluation.results_of(method)
        kinds = Counter(map(_outcome_kind, results))
        searched = any("recall" in result.measures for result in results)
        return {kind: kinds[kind] for kind in _OUTCOME_KINDS} if searched else {}

    note = (
        "Found: every supporting paragraph is among those that searches named. Wording: the answer "
        "holds a right one, or shares half of its words. None found: searches named no paragraph. "
        "Other paragraph: they named one that supports nothing, and not all that do. Too few hops: "
        "they named supporting ones alone, and not all. Reasoning: all were found. No valid "
        "output: the run ended without an answer, as a structured output never was valid."
    )
    title, rows = "Answers and the paragraphs that were found", method_rows(evaluation, row)
    return method_table(title, counts(**_OUTCOME_KINDS), rows, note)


def _outcome_kind(result: Result) -> str:
    """Which of `_OUTCOME_KINDS` a result is."""
    measured = result.measures
    whole = measured.get("recall", 0) == 1
    if result.score == 1:
        return "right_found" if whole else "right_unfound"
    unnamed = "unanswered" in measured and "precision" not in measured
    if result.answer is None:
        if unnamed and measured["unanswered"]:
            return "nothing"
        return "form" if measured.get("format_final", 1) < 1 else "none"
    if measured.get("contains", 0) == 1 or measured.get("f1", 0) >= HALF:
        return "wording"
    if whole:
        return "reasoning"
    if unnamed:
        return "nothing"
    return "hops" if measured.get("precision") == 1 else "paragraph"
