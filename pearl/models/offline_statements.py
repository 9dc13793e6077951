"""Whether the document says a statement outright, or denies it, for the offline reader.

It does so where a clause is the statement, word for word but for articles and inflection; and
denies it where that clause has a negation besides. Of a sentence that asks, supposes, reports or
quotes nothing is taken. All else is left open: what is said in other words only a model knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pearl.models.base import ModelError
from pearl.retrieval.terms import CLAUSE, words

NO_STATEMENT = (
    "No sentence says this in these words, or denies it in them, and the offline reader does not "
    "reason: use a language model, or an action that gives text."
)

_NEGATION = re.compile(
    r"\b(?:not|no(?!\.\s*\d)|never|none|nobody|nothing|nor|neither|without|cannot|nicht|keine?[mnrs]?|nie"
    r"|niemals|ohne|weder|pas|jamais|sans|aucune?"
    r"|non|né|mai|nessun[oa]?|niente|nulla|nunca|jamás|tampoco|nadie|ningun[oa]?|ningún)\b|n['’]t\b",
    re.IGNORECASE,
)

_DOUBT = re.compile(
    r"\b(?:if|unless|whether|only|den(?:y|ies|ied|ying)|doubt\w*|alleg\w+|claim(?:s|ed|ing)?"
    r"|refus\w+|rumou?r\w*|suppos\w+|believ\w+|thought|hop(?:e[sd]?|ing)|fail(?:s|ed)?"
    r"|sa(?:id|ys)|according|plan(?:s|ned)? to|might|may|could|would|should|perhaps|maybe|possibly"
    r"|almost"
    r"|wenn|falls|sofern|ob|nur|leugnet\w*|bestreite[nt]|bestritt\w*|vielleicht|könnten?|würden?"
    r"|sauf|seule?(?:ment|s)?|uniquement|ne|n(?=['’])|nia|nie(?:nt|r)?|peut-être|pourrait"
    r"|solo|sólo|solamente|salvo|niega\w*|negó|quizás?|podría"
    r"|se|qualora|soltanto|nega|negò|forse|potrebbe)\b|(?:^|[,;:] )s(?:i\b|['’])"
    r"|\?|[\"“”„«»「」]",
    re.IGNORECASE,
)
"""What makes a sentence a question, a condition, a report, a doubt or an exception."""

_BETWEEN_CLAUSES = re.compile(r"[,;:.!?…()–—]+(?:\s|$)|\s-\s")
_NUMBERED = re.compile(rf"\s*{CLAUSE}")
_WORD = re.compile(r"[^\W_]+(?:['’.,-][^\W_]+)*")
_LEFT_OUT = frozenset(
    "a an the der die das den dem ein eine einen le la les l un une el los las il lo i gli "
    "do does did".split()
)
"""Articles, and what English adds to a verb that it negates."""


def stated_truth(sentences: Iterable[str], claim: str) -> bool:
    """Whether a statement is so.

    Args:
        sentences: the document's.
        claim: the statement.

    Raises:
        ModelError: no clause is the statement or its denial, or there are both.
    """
    wanted, held = _positive(claim), set(words(_NEGATION.sub(" ", claim)))
    negated = bool(_NEGATION.search(claim))
    doubts = {match.lower() for match in _DOUBT.findall(claim)}
    truths: set[bool] = set()
    for sentence in sentences if wanted and held else ():
        if not held.issubset(words(sentence)):
            continue
        certain = {match.lower() for match in _DOUBT.findall(sentence)} <= doubts
        plain = _NUMBERED.sub("", sentence, 1)
        clauses = [one for one in _BETWEEN_CLAUSES.split(plain) if _positive(one) == wanted]
        if clauses and certain:
            truths |= {bool(_NEGATION.search(clause)) is negated for clause in clauses}
        elif denies(sentence, claim):
            # It may take back what another says, or only look as if it did.
            truths |= {True, False}
    if len(truths) != 1:
        raise ModelError("refusal", NO_STATEMENT)
    return truths.pop()


def _positive(clause: str) -> list[str]:
    """The words of a clause, in order, without its negations: stems, but for function words."""
    found: list[str] = []
    for word in _WORD.findall(clause):
        plain = {"cannot": "can", "can't": "can", "won't": "will"}.get(
            word.lower().replace("’", "'"), re.sub(r"n['’]t$", "", word)
        )
        if plain.lower() not in _LEFT_OUT and not _NEGATION.fullmatch(plain):
            found += words(plain) or [plain.casefold()]
    return found


def denies(sentence: str, claim: str) -> bool:
    """Whether one of the two is negated and the other is not."""
    if bool(_NEGATION.search(sentence)) is not bool(_NEGATION.search(claim)):
        return True
    first, second = set(words(sentence)), set(words(claim))
    negated = {f"{prefix}{stem}" for prefix in ("un", "non") for stem in first ^ second}
    return not negated.isdisjoint(first ^ second)
