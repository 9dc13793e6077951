"""The paragraphs that bear on a sub-question, and the sentence that answers it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pearl.llm.offline.multihop import relations, spans
from pearl.llm.offline.multihop.forms import is_verb
from pearl.llm.offline.multihop.given import ASKED, NOTE, content
from pearl.llm.offline.multihop.names import capitals
from pearl.llm.offline.multihop.paragraphs import SUFFIX, Paragraph, plain, rank, titles
from pearl.llm.offline.multihop.persons import is_about_person
from pearl.llm.offline.text import words

DEEP = 4
"""How many paragraphs are read for the answer."""

WIDE = 8
"""How many sentences are looked at for a name."""

ENTRY = 1.8
"""What a name is worth that has a paragraph of its own: it leads on."""

NEAR = 3
"""The place from which a paragraph may come to the top by what it says."""

OF_KIND = 2.0
"""What it adds that a name's own paragraph calls it what is asked for."""

LATER = 0.93
"""What a sentence is worth beside the one before it: the first say what matters."""

BORNE = 1.0
"""The share of a statement's words that bear it out."""

_ASKED_KIND = re.compile(
    r"\b(?:which|what|who (?:is|was) the) (?P<what>(?:[\w'’-]+ ?){1,8})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Found:
    """What a document says on a sub-question.

    Args:
        answer: short; None where nothing bears on it.
        evidence: the sentence that says so, to the letter; empty where none does.
        titles: of the paragraphs that bear on it, best first.
    """

    answer: str | None
    evidence: tuple[str, ...]
    titles: tuple[str, ...]


def search(document: str, question: str) -> Found:
    """Search a document for a sub-question's answer."""
    ranked = rank(document, question)
    asked = NOTE.sub("", question)[:ASKED]
    best = sentences(asked, ranked)
    said = _said(asked, best)
    if said:
        # A sentence in the form of an answer says more of its paragraph than the words it shares.
        ranked = _lifted(ranked, said[1])
    answer, sentence = said or _guessed(asked, ranked, best)
    return Found(answer, (sentence,) if sentence else (), tuple(titles(ranked)))


def sentences(question: str, ranked: list[Paragraph]) -> list[tuple[float, Paragraph, str]]:
    """Sentences of the best paragraphs, those that hold most of the question first."""
    asked = content(question)
    top = ranked[:DEEP]
    worth = {
        stem: math.log(1 + (len(ranked) + 1) / (1 + sum(stem in one.stems for one in ranked)))
        for stem in asked
    }
    whole = sum(worth.values()) or 1.0
    highest = max((one.score for one in top), default=1.0) or 1.0
    found = []
    for one in top:
        title = set(words(one.title))
        for at, sentence in enumerate(one.sentences):
            own = set(words(sentence))
            share = sum(worth[it] for it in sorted(asked & own)) / whole
            share += 0.5 * sum(worth[it] for it in sorted(asked & title - own)) / whole
            score = (share + 0.15) * (one.score / highest) * LATER ** min(at, 9)
            found.append((score, one, sentence))
    return sorted(found, key=lambda it: -it[0])


def _said(question: str, best: list[tuple[float, Paragraph, str]]) -> tuple[str, str] | None:
    """The answer and the sentence that gives it in a known form; None where none does."""
    if not best:
        return None
    if relations.YES_OR_NO.match(question):
        return _borne_out(question, best)
    for _, one, sentence in _by_form(question, best):
        found = next((it for it in spans.told(question, one, sentence) if it.strip()), None)
        if found:
            return _clean(found), sentence
    return None


def _guessed(
    question: str, ranked: list[Paragraph], best: list[tuple[float, Paragraph, str]]
) -> tuple[str | None, str]:
    """The likeliest name of the best sentences, and its sentence."""
    entries = {plain(SUFFIX.sub("", one.title)): one for one in reversed(ranked)}
    kind, person = _kind(question), question.lower().startswith("who")
    names = [
        (score * worth * _leads(name, one, entries, kind, person=person), name, sentence)
        for score, one, sentence in best[:WIDE]
        for worth, name in spans.any_name(question, one, sentence)
        if name.strip()
    ]
    if names:
        _, name, sentence = max(names, key=lambda it: it[0])
        return _clean(name), sentence
    return (best[0][2][:200], best[0][2]) if best else (None, "")


def _by_form(
    question: str, best: list[tuple[float, Paragraph, str]]
) -> Iterator[tuple[float, Paragraph, str]]:
    """Where a form of question is looked for: in what is about the name it gives, then anywhere."""
    attribute = relations.BORN.search(question) or relations.DIED.search(question)
    if not attribute and (relations.DATED.search(question) or relations.COUNTED.search(question)):
        yield from best
        return
    yield from (it for it in best if it[1].named)
    known = plain(question)
    yield from (it for it in best if not it[1].named and _mentions(it[2], known))
    yield from (it for it in best if not it[1].named and not _mentions(it[2], known))


def _kind(question: str) -> set[str]:
    """The words for what is asked for: of *which Italian painter*, both."""
    found = _ASKED_KIND.search(question)
    if not found:
        return set()
    kept = []
    for word in found["what"].split():
        if is_verb(word) or word[0].isdigit():
            break
        kept.append(word)
    return set(words(" ".join(kept)))


def _leads(
    name: str, one: Paragraph, entries: Mapping[str, Paragraph], kind: set[str], *, person: bool
) -> float:
    """What a name is worth by the paragraph it has: more, where that says it is of the kind."""
    own = entries.get(plain(name))
    if own is None:
        return 1.5 if kind & set(words(name)) else 1.0
    if person and not is_about_person(own):
        return 0.5
    worth = ENTRY if name != one.title else 1.0
    if kind & set(words(name)):
        worth *= 1.5
    if kind:
        said = set(words(" ".join(own.sentences[:1])))
        worth *= 1 + OF_KIND * len(kind & said) / len(kind)
    return worth


def _mentions(sentence: str, known: str) -> bool:
    return any(plain(sentence[one.start : one.end]) in known for one in capitals(sentence))


def _borne_out(question: str, best: list[tuple[float, Paragraph, str]]) -> tuple[str, str]:
    about = next((it for it in best if it[1].named), best[0])
    _, one, sentence = about
    asked = content(question) - content(one.title)
    own = content(" ".join(one.sentences[:2]))
    return ("yes" if len(asked & own) >= BORNE * len(asked) else "no"), sentence


def _clean(answer: str) -> str:
    return SUFFIX.sub("", " ".join(answer.split())).strip(' ,;:"“”') or answer.strip()


def _lifted(ranked: list[Paragraph], sentence: str) -> list[Paragraph]:
    """The paragraphs, the one with the evidence first among those not named."""
    if not sentence:
        return ranked
    source = next((one for one in ranked if sentence in one.sentences), None)
    if source is None or source.named or source not in ranked[:NEAR]:
        return ranked
    return [
        *(one for one in ranked if one.named),
        source,
        *(one for one in ranked if not one.named and one is not source),
    ]
