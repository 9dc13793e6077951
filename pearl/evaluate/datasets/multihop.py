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

The document is Markdown: a heading and a paragraph for each, its sentences
with a space between them. A method reads that and quotes it; where a quote
stands among the paragraphs is told by their spans.
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
    """Where something that supports an answer stands.

    Args:
        title: the paragraph's.
        number: the sentence's in it, from 0; where whole paragraphs support an
            answer, the paragraph's in its file's own numbers.
    """

    title: str
    number: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document, and where it stands there."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class ContextParagraph:
    """A paragraph of a document.

    Args:
        title: what it is headed by.
        sentences: in order.
        number: its number in the file it comes from.
    """

    title: str
    sentences: tuple[Sentence, ...]
    number: int


# The hash of a question has this class as it prints itself: another name or
# field would have every stored evaluation asked anew.
@dataclass(frozen=True, slots=True)
class MultiHop:
    """What is known of a question over several paragraphs.

    Args:
        paragraphs: in the document's order.
        facts: those that support the right answer.
        unit: what a fact is: a sentence, or a whole paragraph.
        triples: the facts in short; empty where the data set has none.
        aliases: other forms of the right answer.
    """

    paragraphs: tuple[ContextParagraph, ...] = ()
    facts: tuple[SupportingFact, ...] = ()
    unit: Literal["sentence", "paragraph"] = "sentence"
    triples: tuple[Triple, ...] = ()
    aliases: tuple[str, ...] = ()


def compose(
    name: str, paragraphs: Iterable[tuple[str, Sequence[str]]]
) -> tuple[Source, tuple[ContextParagraph, ...]]:
    """Paragraphs as one document.

    White space is folded, so that no sentence ends a paragraph or starts one,
    and a paragraph that begins like a heading has a backslash before it, as
    Markdown has it, which is no part of its sentence. A paragraph without a
    title stands under a dash, and not under the title before it.

    Args:
        name: the document's.
        paragraphs: the title and the sentences of each; one without words
            keeps its number and adds only its heading to the text.

    Returns:
        The document, and its paragraphs with the places of their sentences.
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


# Short answers compared with the right ones, as the data sets' own scripts do it. HotpotQA's is the
# one that 2WikiMultihopQA and MuSiQue took over; where theirs differ, the functions say so.


class Scores(NamedTuple):
    """How near something found is to what is right; each from 0 to 1."""

    exact_match: float
    precision: float
    recall: float

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall; 0 where both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0

    def jointly(self, other: Scores) -> Scores:
        """Both at once: the products (HotpotQA, section 5.2)."""
        return Scores(*(own * others for own, others in zip(self, other, strict=True)))


def bare(text: str) -> str:
    """A text in lower case, without ASCII punctuation, with one space for white space."""
    return one_line(text.lower().translate(_PUNCTUATION))


def normalise(answer: str) -> str:
    """An answer as it is compared: `bare`, and without articles."""
    return one_line(_ARTICLES.sub(" ", bare(answer)))


def compare(answer: str, gold: str) -> Scores:
    """An answer's words beside those of the right one (HotpotQA's ``f1_score``).

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
    """Supporting facts, or triples, beside the right ones (HotpotQA's ``update_sp``)."""
    common = len(facts & gold)
    precision = common / len(facts) if facts else 0.0
    return Scores(float(facts == gold), precision, common / len(gold) if gold else 0.0)


def golds(example: Example) -> tuple[str, ...]:
    """Every form of the right answer, the first of which stands in reports."""
    data = example.data
    return (example.gold, *(data.aliases if isinstance(data, MultiHop) else ()))


def best(example: Example, answer: str) -> Scores:
    """The form of the right answer that an answer is nearest to.

    MuSiQue takes the greatest exact match and the greatest F1 over all forms;
    a form that is matched exactly has both.
    """
    data = example.data
    by_paragraph = isinstance(data, MultiHop) and data.unit == "paragraph"
    comparison = compare_spans if by_paragraph else compare
    scores = [comparison(answer, gold) for gold in golds(example)]
    return max(scores, key=lambda score: (score.exact_match, score.f1))


def score(example: Example, answer: str) -> float:
    """1 where an answer is a right one but for case, articles and punctuation; else 0."""
    return best(example, answer).exact_match


def contains(example: Example, answer: str) -> float:
    """1 where the answer contains a right one, whatever their case; else 0 (REBEL, section 4).

    This also finds 48 in 1948. Exact match and F1, beside it, do not count what an answer holds
    by the way.
    """
    text = one_line(answer).casefold()
    return float(any(gold.casefold() in text for gold in golds(example) if gold))


def measures(example: Example, answer: str) -> Mapping[str, float]:
    """Exact match and F1 of an answer, and whether it contains a right one."""
    nearest = best(example, answer)
    return {
        "exact_match": nearest.exact_match,
        "f1": nearest.f1,
        "contains": contains(example, answer),
    }


def _hotpotqa(row: dict[str, Any], where: str) -> Example:
    """A row with ``_id``, ``question``, ``context``, ``supporting_facts`` and ``answer``.

    2WikiMultihopQA's ``evidences`` are triples. A supporting fact that no paragraph
    has stays gold: the official scripts count it too.
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

    MuSiQue-Full's questions that cannot be answered are left out, as they ask for
    something else than an answer.
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
    """Its title, its text, and whether it supports the answer."""
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

    A label's plain synonym counts where it is the whole answer: ``True.``, ``The claim is false``,
    ``No, it is not true.`` A label that is denied is no label.
    """
    labels = {name.upper() for name in _SAID.findall(answer)}
    plain = _PLAIN.fullmatch(normalise(answer))
    if plain and not labels:
        labels = {_SYNONYMS[word] for word in plain.groups() if word}
    return float(labels == {example.gold})


def _claim(row: dict[str, Any], where: str) -> Example | None:
    """A row with ``id``, ``claim`` and ``label``.

    Claims with not enough information are left out. There is no document: the rows
    say on which pages the evidence stands, and not what these say.
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
    """A question with ``Question``, ``Answer`` (a list: any of them is right) and ``category``.
    There is no document, and the published rows have no ids."""
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
