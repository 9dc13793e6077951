"""Takes an action's name and definition apart: what it finds, and of what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pearl.alike.words import basic, synonyms
from pearl.plan import DOCUMENT, Action

_DETERMINER = r"(?:the|an?|all|any|one|some|each|every)\b"
_VERBS = r"(?:list|describe|explain|summari[sz]e|identify|report|name|tell|state|show|give)\b"
_LEAD = re.compile(
    rf"\s*(?!{_DETERMINER})[^\W\d_]+(?: out)?(?:,? and (?:{_VERBS}|[a-z]+(?= {_DETERMINER})))?"
    rf"(?:\s+(?:{_DETERMINER}|of the)(?!-))*\s*",
    re.IGNORECASE,
)
_BEFORE = (
    r"(?:of|behind|for|about|between|in|to|towards?|from|with|by|on|at|as|into|among|against|"
    r"through|throughout|upon|over|under|during)"
)
_LINK = re.compile(
    rf"\b(?:{_BEFORE}|if|whether|how|that|which|who|whom|whose|where|when|what|why|is|are|was|were|"
    rf"given|[a-z]+(?:ed|ing|own|ade)(?= (?:{_BEFORE}|[A-Z]\w*)\b)|regarding|concerning)\b"
)
_CLAUSE = re.compile(r"\s*(?:that|which|what|who|whom|whose|where|when|how|why|if|whether)\b")
_FROM = r"(?:based (?:up)?on|given|as given by|in|from|within|throughout|according to|of|across)"
_OF_DOCUMENT = re.compile(
    rf",?\s*\b(?:{_FROM} )?(?:the )?(?:information provided in )?(?:the )?"
    rf"(?:(?:given|provided) )?(?:input )?{DOCUMENT}\b(?!['’])",
)
# "given the input CTX and a list of X" is given a list of X.
_AND_MORE = re.compile(rf"(?<=\bgiven )(?:the )?(?:input )?{DOCUMENT} and ")
_LOOSE = re.compile(r"[\s,]+(?:or|and|of|in|from|for|by|about|on)$")
_ASIDE = re.compile(r"\((?:e\.g\.|for (?:example|instance))[^)]*\)|,? (?:such as|for instance)\b.*")
_SUCH_AS = re.compile(r"\b(?:such as|including)\b")
_COMMAS = re.compile(r"\s*,\s*(?:(?:or|and)\s+)?|\s+(?:or|and)\s+")
_WORD = re.compile(r"[^\W\d_]+")
_MARKS = (
    ("not", re.compile(r"\b(?:not|never|no|none|nor|neither|non|except|exception)\b|n't\b")),
    ("least", re.compile(r"\b(?:least|fewest)\b")),
    ("negative", re.compile(r"\bnegative(?:ly)?\b")),
    ("positive", re.compile(r"\bpositive(?:ly)?\b")),
    ("hypothetical", re.compile(r"\bhypothetical(?:ly)?\b")),
)
_MARKING = frozenset("not never no none nor neither non except exception least fewest".split())
_NAMED_MARKS = frozenset(
    "most best worst first last next only greatest biggest largest strongest smallest".split()
)

PLAIN = frozenset("find identify list get give provide name tell state report show".split())
"""Verbs that say nothing about what is found."""

EMPTY = frozenset(
    """
    a about all also an and any are as at be been being but by can could did do does done each for
    from get given had has have how if in input into is it its main might more most of on one or
    other out over related should so some such than that the their them then there they thing this
    to used using was were what when where whether which while who whom whose will with without
    would something someone somebody based context seem seems seemed aspect aspects
    ultimate main major key central chief pivotal real definite overall
    remaining direct particular specific detailed
    """.split()
)
"""Words that do not count: what they add is no other thing to find."""

GENERAL = frozenset(
    "person people entity item word words adjective instance information individual figure".split()
)
"""What many different actions find: it says little of one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What an action's name and definition say.

    Args:
        lead: the definition up to what is found: ``Find and list all the``.
        heads: what is found: ``intent``, ``main purpose``.
        rest: the definition from there on, without the document at its end.
        bag: the words that count, in their basic form, each with its weight.
        marks: negations and superlatives; actions differ where these do.
        topic: the words of the name, and the last of each head.
        clause: the word that begins the clause by which it is told what is found, as in
            ``features that X cares about`` and ``where X takes place``; empty where none is.
        wide: whether it lists examples of what it can be asked: ``aspects such as …``.
    """

    lead: str
    heads: tuple[str, ...]
    rest: str
    bag: tuple[tuple[str, float], ...]
    marks: frozenset[str]
    topic: frozenset[str]
    clause: str
    wide: bool


def given(action: Action) -> tuple[str, ...]:
    """The names of an action's parameters without the document."""
    return tuple(param.name for param in action.params if param.name != DOCUMENT)


def without_document(doc: str) -> str:
    """A definition without the words that say where to look."""
    doc = _AND_MORE.sub("", doc)
    return _LOOSE.sub("", _OF_DOCUMENT.sub("", doc).strip(" ."))


def read_action(action: Action) -> Reading:
    """Take an action's name and definition apart; never fails, whatever they say."""
    params = given(action)
    lead, region, rest = split_definition(without_document(action.doc), params)
    heads = tuple(head for head in _COMMAS.split(region) if head)
    name = [word for word in action.name.lower().split("_") if word]
    said = f"{' '.join(name)} {action.doc.lower()}"
    marks = {mark for mark, pattern in _MARKS if pattern.search(said)}
    marks |= _NAMED_MARKS.intersection(name)
    passed = EMPTY | _MARKING | marks | {param.lower() for param in params}
    named = [word for word in name if word not in PLAIN | passed]
    bag: dict[str, float] = {}
    for word, weight in _weighed(named, lead, heads, rest):
        if word not in passed and len(word) > 1:
            form = basic(word)
            bag[form] = max(bag.get(form, 0.0), weight / 3 if word in GENERAL else weight)
    ends = [words[-1].lower() for words in map(_WORD.findall, heads) if words]
    topic = frozenset(basic(word) for word in (*named, *ends) if word not in passed)
    told = _CLAUSE.match(rest)
    clause = told[0].strip().lower() if told else ""
    wide = bool(_SUCH_AS.search(rest))
    return Reading(lead, heads, rest, tuple(bag.items()), frozenset(marks), topic, clause, wide)


def split_definition(doc: str, params: Sequence[str]) -> tuple[str, str, str]:
    """A definition in three: how it starts, what is found, and the rest.

    ``Find the`` · ``intent or purpose`` · ``of X``.
    """
    found = _LEAD.match(doc)
    at = found.end() if found else 0
    ends = [one.start() for one in (_LINK.search(doc, at), _ASIDE.search(doc, at)) if one]
    for param in params:
        mention = re.compile(rf"\b{re.escape(param)}\b").search(doc, at)
        ends += [mention.start()] if mention else []
    region = doc[at : min(ends, default=len(doc))].rstrip(" ,.")
    return doc[:at], region, doc[at + len(region) :]


def words_of(text: str) -> frozenset[str]:
    """The words of a text that count, in their basic form."""
    found = (word.lower() for word in _WORD.findall(text))
    return frozenset(basic(word) for word in found if word not in EMPTY)


def narrow(action: Action) -> int:
    """How narrowly an action is defined: the words that bind it beside what it finds.

    One that asks for the least of something, or takes nothing but the document,
    serves few questions; one that lists examples of what it can be asked serves many.
    """
    reading = read_action(action)
    aside = _ASIDE.search(reading.rest)
    rest = sentences_of(reading.rest[: aside.start()] if aside else reading.rest)[0]
    found = {like for head in reading.heads for word in words_of(head) for like in synonyms(word)}
    bound = words_of(rest) - {basic(name) for name in given(action)} - found
    return len(bound) + len(reading.marks) + (0 if given(action) else 1) - (3 if aside else 0)


def sentences_of(text: str) -> list[str]:
    """A definition's sentences; the first says what the action finds."""
    return re.split(r"(?<=[\w)\]])\.\s+(?=[A-Z])", text)


def is_plain(lead: str) -> bool:
    """Whether a definition starts with a verb that says nothing of what is found."""
    verb = lead.split(maxsplit=1)[0].lower() if lead.strip() else ""
    return verb in PLAIN or verb.removesuffix("s") in PLAIN


def _weighed(
    named: Sequence[str], lead: str, heads: Sequence[str], rest: str
) -> Iterator[tuple[str, float]]:
    """Words in lower case, each with what it says of the action."""
    yield from ((word, 1.0) for word in named)
    if lead.strip() and not is_plain(lead):
        yield lead.split(maxsplit=1)[0].lower(), 0.6
    for head in heads:
        *before, last = [word.lower() for word in _WORD.findall(head)] or [""]
        yield from ((word, 0.6) for word in before)
        yield last, 1.0
    aside = _ASIDE.search(rest)
    cut = aside.start() if aside else len(rest)
    yield from ((word.lower(), 0.45) for word in _WORD.findall(rest[:cut]))
    yield from ((word.lower(), 0.1) for word in _WORD.findall(rest[cut:]))
