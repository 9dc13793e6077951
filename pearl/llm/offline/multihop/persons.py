"""Who is said to stand in a relation: a parent, a director, who plays whom."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pearl.llm.offline.multihop import relations
from pearl.llm.offline.multihop.forms import is_person, is_thing
from pearl.llm.offline.multihop.names import IMPERSONAL, capitals, whole
from pearl.llm.offline.multihop.paragraphs import Paragraph, plain
from pearl.source import Span

CLOSE = 12
"""Characters between a clue and the name it points at."""

_AS = re.compile(r" (?:as|playing|plays|played|portrays|portrayed) (?:the )?(?:[a-z]+ ){0,4}")
_PLAYING = re.compile(
    r"\bplay(?:s|ed|ing)?\b|\bactors?\b|\bactress\b|\bportray(?:s|ed)\b|\bvoice(?:s|d)?\b"
    r"|\bstarred as\b",
    re.IGNORECASE,
)
_IS = re.compile(r"\b(?:is|was|are|were) (?:an?|the|one of)\b", re.IGNORECASE)
_LISTING = re.compile(r",? (?:and |or )?(?:[a-z]+ ){0,3}")
_KIND = re.compile(r" (?:[a-z-]+ ){1,3}(?=[A-Z\u00c0-\u00de])")
_SUFFIX = re.compile(r"\s*[(,].*$")
_ROLE = re.compile(
    r"^who (?:is|was|are|were) the (?:[\w-]+ ){0,3}?(?P<role>[\w-]+) (?:of|in|at|for)\b", re.I
)


def related(question: str, one: Paragraph, sentence: str) -> Iterator[str]:
    """Who a sentence says stands in the relation that a question asks for, the surest first.

    Args:
        question: what is asked.
        one: the sentence's paragraph.
        sentence: where to look.
    """
    known = plain(question)
    person = question.lower().startswith("who")

    def nobody(name: str) -> bool:
        return person and IMPERSONAL.search(name) is not None

    spans = [one for one in capitals(sentence) if not describes(sentence, one)]
    if _PLAYING.search(question):
        yield from _cast(sentence, spans, known)
    for relation in relations.RELATIONS:
        if not relation.asks.search(question):
            continue
        for before in relation.before:
            for clue in before.finditer(sentence):
                for span in _listed(sentence, spans, clue.end()):
                    named = whole(sentence, span)
                    name = own(sentence[max(span.start, clue.end()) : named.end])
                    if name and plain(name) not in known and not nobody(name):
                        yield name
        if relation.titled and relation.titled.search(sentence) and one.title:
            about = (
                any(plain(sentence[it.start : it.end]) in known for it in spans)
                and plain(one.title) not in known
            )
            if about:
                yield one.title
    yield from _in_role(question, sentence, spans, known)


def is_about_person(one: Paragraph) -> bool:
    """Whether a paragraph is about somebody, as far as its first sentence tells.

    Args:
        one: a paragraph with a title.
    """
    first = one.sentences[0] if one.sentences else ""
    told = _IS.search(first)
    for word in re.findall(r"[\w'-]+", first[told.end() :] if told else ""):
        if is_person(word) or is_thing(word):
            return is_person(word)
    words = _SUFFIX.sub("", one.title).split()
    return 0 < len(words) <= 6 and all(
        not any(char.isdigit() for char in word) and (word[:1].isupper() or len(word) <= 3)
        for word in words
    )


def describes(sentence: str, span: Span) -> bool:
    """Whether a name only says what kind the next one is: *Danish*, *Danish Baroque painter X*.

    Args:
        sentence: where it stands.
        span: where in it.
    """
    name = sentence[span.start : span.end]
    if relations.LANDS.fullmatch(name):
        return True
    return bool(relations.LANDS.match(name) and _KIND.match(sentence, span.end))


def own(name: str) -> str:
    """A name without the land before it: of *American Ada Holt* the last two words.

    Args:
        name: words in capitals.
    """
    first = relations.LANDS.match(name)
    return name[first.end() :].strip(" -") if first else name


def _listed(sentence: str, spans: list[Span], start: int) -> Iterator[Span]:
    """The names of a list that begins here: *starring Ada Holt, Bo Orm and Cy Falk*."""
    last = start
    for span in spans:
        if span.end <= start:
            continue
        between = sentence[last : span.start]
        if last == start:
            if span.start - start > CLOSE:
                return
        elif not _LISTING.fullmatch(between):
            return
        yield span
        last = span.end


def _cast(sentence: str, spans: list[Span], known: str) -> Iterator[str]:
    """Who stands before *as X*, or in brackets behind X, where X is asked about."""
    for at, span in enumerate(spans):
        name = sentence[span.start : span.end]
        if plain(name) in known:
            continue
        following = spans[at + 1] if at + 1 < len(spans) else None
        clue = _AS.match(sentence, span.end)
        if clue and following and following.start - clue.end() <= CLOSE:
            role = sentence[following.start : following.end]
            if _shares(role, known):
                yield name
        before = spans[at - 1] if at else None
        bracketed = before and sentence[before.end : span.start].strip("\"'” ") == "("
        if before and bracketed and _shares(sentence[before.start : before.end], known):
            yield name


def _shares(name: str, known: str) -> bool:
    """Whether a question has a name, or a part of it."""
    return any(f" {word} " in known for word in plain(name).split() if len(word) > 2)


def _in_role(question: str, sentence: str, spans: list[Span], known: str) -> Iterator[str]:
    """Who stands behind *the mayor*, or before *as mayor*, where a mayor is asked for."""
    asked = _ROLE.match(question)
    if not asked:
        return
    role = re.escape(asked["role"])
    behind = re.compile(
        rf"\b{role}(?: (?:is|was|of|in|at)\b[^.;]{{0,40}}?)?,? (?:[\w-]+ ){{0,2}}?"
        r"(?=[A-Z\u00c0-\u00de])",
        re.I,
    )
    before = re.compile(
        rf"(?: \([^()]*\))?(?:,| as| is| was| became) (?:the |an? )?(?:[\w-]+ ){{0,2}}?{role}\b",
        re.I,
    )
    for span in spans:
        name = sentence[span.start : span.end]
        if before.match(sentence, span.end) and plain(name) not in known:
            yield name
    for clue in behind.finditer(sentence):
        inside = next((it for it in spans if it.start <= clue.end() < it.end), None)
        if inside and plain(sentence[clue.end() : inside.end]) not in known:
            yield sentence[clue.end() : inside.end]
