"""Questions over several paragraphs: how their rows are read, and how answers are scored.

HotpotQA (Yang et al., EMNLP 2018): two of ten paragraphs of Wikipedia.
2WikiMultihopQA (Ho et al., COLING 2020): two to four of ten, in HotpotQA's rows
with evidence triples beside them; answers and triples are compared as its first
script does, without the later list of aliases. MuSiQue-Ans (Trivedi et al., TACL
2022): two to four hops over twenty paragraphs; it says which paragraphs support
an answer, by their numbers, and not which sentences.

Two are asked without a document, and scored as REBEL's authors score them. Compositional
Celebrities (Press et al., Findings of EMNLP 2023): two facts about a well-known person, one after
the other. FEVER (Thorne et al., NAACL 2018): claims that Wikipedia supports or refutes, with two
labels, as REBEL's authors ask it.

The document is Markdown: a heading and a paragraph for each, with a space
between sentences. A method reads and quotes it; the spans of sentences tell
which of them a quote is from.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from pearl.evaluate.datasets.base import (
    NO_DOCUMENT,
    Dataset,
    Example,
    gold_of,
    id_of,
    label,
    reader,
    text_of,
    texts_of,
)
from pearl.lang.errors import InputError
from pearl.lang.source import Source, Span
from pearl.lang.text import one_line
from pearl.retrieval.terms import sentences as split_sentences

METHODS = ("normal", "cot-answer", "sp-cot", "react", "fsm1", "fsm2", "rebel")
"""The methods that such questions are tried with where none is named."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_WHOLE = frozenset(("yes", "no", "noanswer"))
"""Answers that are right or wrong as a whole."""
_UNTITLED = "–"
_LIKE_A_HEADING = re.compile(r"#{1,6}(?!\S)")

Triple: TypeAlias = tuple[str, str, str]
"""Subject, relation, object."""


class SupportingFact(NamedTuple):
    """The place of a sentence or paragraph that supports an answer.

    Args:
        title: the paragraph's title.
        number: the sentence's number in the paragraph, from 0; where whole
            paragraphs support an answer, the paragraph's own number.
    """

    title: str
    number: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document, with its span."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class ContextParagraph:
    """A paragraph of a document.

    Args:
        title: its heading.
        sentences: its sentences, in order.
        number: its number in the file it comes from, from 0.
    """

    title: str
    sentences: tuple[Sentence, ...]
    number: int


# A question's hash includes the repr of this class: if it or a field were renamed,
# every stored evaluation would be run again.
@dataclass(frozen=True, slots=True)
class MultiHop:
    """What is known of a question over several paragraphs.

    Args:
        paragraphs: the paragraphs, in the document's order.
        facts: the gold supporting facts.
        unit: what a fact is: a sentence, or a whole paragraph.
        triples: the gold evidence triples; empty where the data set has none.
        aliases: other forms of the gold answer.
    """

    paragraphs: tuple[ContextParagraph, ...] = ()
    facts: tuple[SupportingFact, ...] = ()
    unit: Literal["sentence", "paragraph"] = "sentence"
    triples: tuple[Triple, ...] = ()
    aliases: tuple[str, ...] = ()


def compose(
    name: str, paragraphs: Iterable[tuple[str, Sequence[str]]]
) -> tuple[Source, tuple[ContextParagraph, ...]]:
    """Paragraphs as one Markdown document.

    White space is folded, so that no sentence ends or starts a paragraph. A
    paragraph that begins like a heading is escaped with a backslash, which is
    no part of its sentence. A paragraph without a title gets a dash as its
    heading, so that it is not under the title before it.

    Args:
        name: the document's name.
        paragraphs: the title and the sentences of each; one without words
            keeps its number, but adds only its heading to the text.

    Returns:
        The document, and its paragraphs with the spans of their sentences.
    """
    text = ""
    composed: list[ContextParagraph] = []
    for number, (title, sentences) in enumerate(paragraphs):
        text += f"# {one_line(title) or _UNTITLED}\n\n"
        placed: list[Sentence] = []
        for sentence in map(one_line, sentences):
            if not text.endswith("\n"):
                text += " " if sentence else ""
            elif _LIKE_A_HEADING.match(sentence):
                text += "\\"
            placed.append(Sentence(sentence, Span(len(text), len(text) + len(sentence))))
            text += sentence
        text += "" if text.endswith("\n") else "\n\n"
        composed.append(ContextParagraph(one_line(title), tuple(placed), number))
    return Source(name, text), tuple(composed)


# Short answers are compared with gold answers as the data sets' own scripts do. 2WikiMultihopQA and
# MuSiQue took over HotpotQA's script; the functions say where theirs differ.


class Scores(NamedTuple):
    """How well a prediction matches the gold answer; each score is from 0 to 1."""

    exact_match: float
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 where both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def jointly(self, other: Scores) -> Scores:
        """Joint scores: the products of both (HotpotQA, section 5.2)."""
        return Scores(*(own * others for own, others in zip(self, other, strict=True)))


def bare(text: str) -> str:
    """A text in lower case, without ASCII punctuation, and with white space folded."""
    return one_line(text.lower().translate(_PUNCTUATION))


def normalise(answer: str) -> str:
    """An answer in the form for comparison: `bare`, and without articles."""
    return one_line(_ARTICLES.sub(" ", bare(answer)))


def compare(answer: str, gold: str) -> Scores:
    """Compare an answer's words with those of the gold answer (HotpotQA's ``f1_score``).

    Yes, no and noanswer share nothing with any other answer. Repeated words
    count as often as both have them.
    """
    words, gold_words = normalise(answer), normalise(gold)
    if words != gold_words and {words, gold_words} & _WHOLE:
        return Scores(0.0, 0.0, 0.0)
    scores = compare_spans(answer, gold)
    return scores if words and gold_words else Scores(scores.exact_match, 0.0, 0.0)


def compare_spans(answer: str, gold: str) -> Scores:
    """`compare` as MuSiQue's script does it (SQuAD's).

    Yes and no are words like others, and two answers without words are equal.
    """
    words, gold_words = normalise(answer).split(), normalise(gold).split()
    exact = float(words == gold_words)
    if not words or not gold_words:
        return Scores(exact, exact, exact)
    common = (Counter(words) & Counter(gold_words)).total()
    return Scores(exact, common / len(words), common / len(gold_words))


def compare_sets(facts: Set[Any], gold: Set[Any]) -> Scores:
    """Compare supporting facts, or triples, with the gold ones (HotpotQA's ``update_sp``)."""
    common = len(facts & gold)
    precision = common / len(facts) if facts else 0.0
    return Scores(float(facts == gold), precision, common / len(gold) if gold else 0.0)


def golds(example: Example) -> tuple[str, ...]:
    """Every form of the gold answer; reports show the first."""
    data = example.data
    return (example.gold, *(data.aliases if isinstance(data, MultiHop) else ()))


def best(example: Example, answer: str) -> Scores:
    """The scores against the form of the gold answer that is nearest.

    MuSiQue takes the greatest exact match and the greatest F1 over all forms;
    a form that is matched exactly has both.
    """
    data = example.data
    by_paragraph = isinstance(data, MultiHop) and data.unit == "paragraph"
    comparison = compare_spans if by_paragraph else compare
    scores = [comparison(answer, gold) for gold in golds(example)]
    return max(scores, key=lambda score: (score.exact_match, score.f1))


def score(example: Example, answer: str) -> float:
    """1 where an answer equals a gold one except for case, articles and punctuation; else 0."""
    return best(example, answer).exact_match


def contains(example: Example, answer: str) -> float:
    """1 where the answer contains a gold one, in any case; else 0 (REBEL, section 4).

    This also finds 48 in 1948; exact match and F1, which are measured as well, do not.
    """
    text = one_line(answer).casefold()
    return float(any(gold.casefold() in text for gold in golds(example) if gold))


def measures(example: Example, answer: str) -> Mapping[str, float]:
    """Exact match and F1 of an answer, and whether it contains a gold one."""
    nearest = best(example, answer)
    return {
        "exact_match": nearest.exact_match,
        "f1": nearest.f1,
        "contains": contains(example, answer),
    }


def _hotpotqa(row: dict[str, Any], where: str) -> Example:
    """A row with ``_id``, ``question``, ``context``, ``supporting_facts`` and ``answer``.

    2WikiMultihopQA's ``evidences`` are triples. A supporting fact that is in no
    paragraph stays gold, as the official scripts count it, too.
    """
    name = id_of(row, "_id", where)
    document, paragraphs = compose(name, _context(row.get("context"), where))
    facts = _facts(row.get("supporting_facts", []), where)
    triples = _triples(row.get("evidences", []), where)
    return Example(
        name,
        text_of(row, "question", where),
        document,
        gold=gold_of(row, where),
        labels=label("type", row.get("type")),
        data=MultiHop(paragraphs, facts, triples=triples),
    )


def _context(value: Any, where: str) -> list[tuple[str, tuple[str, ...]]]:  # noqa: ANN401 - any JSON
    if not isinstance(value, list) or not value:
        raise InputError(f"{where} has no context: give pairs of a title and its sentences.")
    paragraphs = []
    for number, pair in enumerate(value, 1):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise InputError(f"{where}: paragraph {number} is no pair of a title and sentences.")
        paragraphs.append((pair[0], texts_of(pair[1], f"paragraph {number}", where)))
    return paragraphs


def _facts(value: Any, where: str) -> tuple[SupportingFact, ...]:  # noqa: ANN401 - any JSON
    facts: list[Any] = value if isinstance(value, list) else [None]
    for fact in facts:
        match fact:
            case [str(), int(number)] if not isinstance(number, bool):
                continue
        raise InputError(f"{where}: supporting_facts is to be pairs of a title and a number.")
    return tuple(dict.fromkeys(SupportingFact(one_line(title), number) for title, number in facts))


def _triples(value: Any, where: str) -> tuple[Triple, ...]:  # noqa: ANN401 - any JSON
    if not isinstance(value, list):
        raise InputError(f"{where}: evidences is to be lists of subject, relation and object.")
    triples = []
    for number, parts in enumerate(value, 1):
        texts = texts_of(parts, f"evidence {number}", where)
        if len(texts) != 3:
            raise InputError(f"{where}: evidence {number} is no subject, relation and object.")
        triples.append((texts[0], texts[1], texts[2]))
    return tuple(triples)


def _musique(row: dict[str, Any], where: str) -> Example | None:
    """A row with ``id``, ``question``, ``paragraphs``, ``answer`` and ``answer_aliases``.

    MuSiQue-Full's questions that cannot be answered are left out.
    """
    if row.get("answerable") is False:
        return None
    name = id_of(row, "id", where)
    value = row.get("paragraphs")
    if not isinstance(value, list) or not value:
        raise InputError(f"{where} has no paragraphs: give MuSiQue's own rows.")
    texts = [_paragraph(paragraph, number, where) for number, paragraph in enumerate(value, 1)]
    document, paragraphs = compose(
        name,
        (
            (title, [text[at.start : at.end] for at in split_sentences(text)])
            for title, text, _ in texts
        ),
    )
    facts = tuple(
        SupportingFact(paragraph.title, paragraph.number)
        for paragraph, (_, _, supports) in zip(paragraphs, texts, strict=True)
        if supports
    )
    aliases = texts_of(row.get("answer_aliases", []), "answer_aliases", where)
    hops = row.get("question_decomposition")
    return Example(
        name,
        text_of(row, "question", where),
        document,
        gold=gold_of(row, where),
        labels={"hops": (str(len(hops)),)} if isinstance(hops, list) and hops else {},
        data=MultiHop(paragraphs, facts, "paragraph", aliases=aliases),
    )


def _paragraph(value: Any, number: int, where: str) -> tuple[str, str, bool]:  # noqa: ANN401 - any JSON
    """A paragraph's title, its text, and whether it supports the answer."""
    match {"is_supporting": False, **value} if isinstance(value, dict) else value:
        case {"title": str(title), "paragraph_text": str(text), "is_supporting": bool(supports)}:
            return one_line(title), one_line(text), supports
    raise InputError(f"{where}: paragraph {number} has no title and paragraph_text.")


HOTPOTQA = Dataset(
    "hotpotqa",
    "HotpotQA",
    reader("file as HotpotQA publishes it", _hotpotqa),
    score,
    "https://hotpotqa.github.io (hotpot_dev_distractor_v1.json)",
    METHODS,
    measures=measures,
    short=True,
)
TWO_WIKI = replace(
    HOTPOTQA,
    name="2wiki",
    title="2WikiMultihopQA",
    where="https://github.com/Alab-NII/2wikimultihop (dev.json)",
)
MUSIQUE = replace(
    HOTPOTQA,
    name="musique",
    title="MuSiQue",
    read=reader("file as MuSiQue publishes it", _musique),
    where="https://github.com/stonybrooknlp/musique (musique_ans_v1.0_dev.jsonl)",
)


# --- without a document ---

LABELS = ("SUPPORTS", "REFUTES")
UNKNOWN = "NOT ENOUGH INFO"
"""The label of claims that are left out."""

_SAID = re.compile(rf"\b(?:not )?(?:{'|'.join(LABELS)})\b", re.IGNORECASE)
_SYNONYMS = {
    **dict.fromkeys("yes true correct right support supported".split(), LABELS[0]),
    **dict.fromkeys("no false untrue incorrect wrong refute refuted".split(), LABELS[1]),
    **dict.fromkeys(("not true", "not supported"), LABELS[1]),
}
_PLAIN = re.compile(
    r"(?:(yes|no)(?: |$))?(?:(?:(?:this )?(?:claim|statement)|it|that|this)(?: i)?s )?"
    rf"({'|'.join(_SYNONYMS)})?"
)


def score_claim(example: Example, answer: str) -> float:
    """1 where the answer names the right label and not the other one; else 0.

    A synonym of a label counts where it is the whole answer: ``True.``, ``The claim is false``,
    ``No, it is not true.`` A negated label does not count.
    """
    labels = {name.upper() for name in _SAID.findall(answer)}
    plain = _PLAIN.fullmatch(normalise(answer))
    if plain and not labels:
        labels = {_SYNONYMS[word] for word in plain.groups() if word}
    return float(labels == {example.gold})


def _claim(row: dict[str, Any], where: str) -> Example | None:
    """A row with ``id``, ``claim`` and ``label``.

    Claims with not enough information are left out. There is no document: the rows
    name the pages with the evidence, but do not have their text.
    """
    if row.get("label") == UNKNOWN:
        return None
    gold = row.get("label", "")
    if not isinstance(gold, str) or (gold and gold not in LABELS):
        raise InputError(f"{where}: label is to be one of {', '.join((*LABELS, UNKNOWN))}.")
    claim = text_of(row, "claim", where)
    question = (
        "Is this claim true? Answer SUPPORTS where what is known supports it, and REFUTES where "
        f"it refutes it. Claim: {claim}"
    )
    name = id_of(row, "id", where)
    return Example(name, question, NO_DOCUMENT, gold=gold, labels=label("label", gold))


FEVER = Dataset(
    "fever",
    "FEVER",
    reader("file as FEVER publishes it", _claim),
    score_claim,
    "https://fever.ai (shared_task_dev.jsonl)",
    ("normal", "cot-answer"),
    # Accuracy, under the name that the other data sets have for it.
    measures=lambda example, answer: {"exact_match": score_claim(example, answer)},
    short=True,
)


def _celebrity(row: dict[str, Any], where: str) -> Example:
    """A row with ``Question``, ``Answer`` (a list of gold answers) and ``category``. There is no
    document, and the published rows have no ids."""
    value = row.get("Answer", [])
    answers = value if isinstance(value, list) else [value]
    if not all(isinstance(gold, str | int | float) and str(gold).strip() for gold in answers):
        raise InputError(
            f"{where}: Answer is to be a list of texts or numbers, none of them empty."
        )
    gold, *aliases = [one_line(str(answer)) for answer in answers] or [""]
    return Example(
        "",
        text_of(row, "Question", where),
        NO_DOCUMENT,
        gold=gold,
        labels=label("category", row.get("category")),
        data=MultiHop(aliases=tuple(aliases)),
    )


CELEBRITIES = Dataset(
    "celebrities",
    "Compositional Celebrities",
    reader("file as Compositional Celebrities is published", _celebrity, "data"),
    contains,
    "https://github.com/ofirpress/self-ask (datasets/compositional_celebrities.json)",
    ("normal", "cot-answer", "rebel"),
    measures=measures,
    short=True,
)
