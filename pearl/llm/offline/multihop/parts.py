"""A question of several hops, taken apart from the inside.

What a bridge question says of its inner thing (*the director of the film X*,
*the city where the author of Y died*, *X's mother*) is a question by itself;
its answer takes the place of what was said (Min et al., "Multi-hop Reading
Comprehension through Question Decomposition and Rescoring", ACL 2019,
section 2: bridging, by spans of the question).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pearl.llm.offline.multihop import forms
from pearl.llm.offline.multihop.given import ASKED, covers, same

_WORD = re.compile(r"\S+")
_ASKING = r"(?:what|who|whom|whose|which|when|where|how|why)"
_BEGINS = re.compile(rf"^(?:(?:in|at|on|from|to|for|by|with|of|under) )?{_ASKING}\b", re.IGNORECASE)
_COPULA = re.compile(
    r"^(?:who|what|which|when|where|how|why)(?:'s|’s)? ?(?:is|was|are|were|did|does|do|has)? ?"
    r"(?:the name of )?(?:the )?$",
    re.IGNORECASE,
)
_DETERMINER = re.compile(r"^(?:the|this|his|her|its|their)$", re.IGNORECASE)
_UNSAID = re.compile(
    r"(?<!in )(?<!at )(?<!on )(?<!of )(?<!for )\b(?:what|which|how)\b"
    r"|\bwhich (?!the |he |she |they |it |an? )(?-i:[a-z])|\bwhere$",
    re.IGNORECASE,
)
_FOREMOST = re.compile(
    r"\b(?:of|in|by|from|to|at|for) (?P<thing>the (?:[\w-]+ ){0,2}?"
    r"(?:\w{2,}est|most|first|last|only|second|third|\d+(?:st|nd|rd|th)) .+)$"
)
_POSSESSIVE = re.compile(r"(?<=\w)(?:['’]s|s['’]) ")
_RELATION = re.compile(
    rf"(?:{'|'.join(sorted(forms.KIN, key=len, reverse=True))}"
    r"|(?:[a-z]+ ){0,2}?(?P<head>[a-z]+))\b",
)
_OF = re.compile(
    r"(?:\bthe|^The) (?P<noun>(?:(?!of\b|the\b)[\w-]+ ){0,2}?(?P<head>[A-Za-z-]+)) of "
    r"(?P<rest>\S.*)$"
)
_FREE = re.compile(r"\b(?:of|by|with|in|from|to|for) (?=(?:who|what|where) [a-z]+ )", re.IGNORECASE)
_TAIL = re.compile(
    rf"(?:,? (?:in|at|on|by|from|to|of|for) {_ASKING}\b|, {_ASKING}\b|[,;] (?:is|did)\b)", re.I
)
_OWNED = re.compile(r"['’]s (?=(?:[a-z-]+ ?){1,3}$)")
_STRANDED = re.compile(r" (?:from|in|at|to|for|on|with|by|under)$")
_OPEN = re.compile(
    rf"^(?:(?:in|at|on|from|to|for|by|with|of|under) )?{_ASKING}"
    r"(?: [a-z-]+){0,3}? ?(?:is|was|are|were)? ?$",
    re.IGNORECASE,
)
_SUPPORTED = re.compile(r"\b(?:did|does|do)\b", re.IGNORECASE)
_BEING = re.compile(r"^(?:when|where|how|why)\b.{0,20}? (?:is|was|are|were)\b", re.IGNORECASE)
_RELATIVE = re.compile(r"(?<=\w) (?:that|who|whom|which|where|whose)\b", re.IGNORECASE)
_IN_PLACE = re.compile(
    r"^(?P<main>.+?) (?P<a>an?|the) (?P<noun>(?:[\w'’-]+ ){0,4}?[\w'’-]+?),? "
    rf"(?P<rest>(?:that|who|which|whose|based|located|named|founded|attending"
    r"|born|formed|situated|headquartered|called)\b.*"
    rf"\b{_ASKING}\b.*)$",
    re.IGNORECASE,
)

_BUT = frozenset(
    "city town village county state province region district nation island area territory suburb "
    "municipality borough river university school college republic kingdom church team".split()
)


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a question that is a question by itself.

    Args:
        question: that question.
        start: where the piece begins.
        end: where it ends.
        put: what comes in its place, "{}" standing for the answer.
    """

    question: str
    start: int
    end: int
    put: str = "{}"

    def answered(self, question: str, answer: str) -> str:
        """The question with the answer in the piece's place."""
        after = question[self.end :]
        return f"{question[: self.start]}{self.put.replace('{}', answer)}{after}"


def parts(question: str) -> list[Part]:
    """The pieces of a question that can be asked first, the innermost first."""
    if len(question) > ASKED:
        return []
    end = len(question.rstrip(" ?.!"))
    found = [*_possessives(question, end), *_nested(question, end), *_in_place(question, end)]
    kept: list[Part] = []
    for part in sorted(found, key=lambda one: (-one.start, one.end)):
        known = any(same(part.question, one.question) for one in kept)
        if not known and part.end > part.start and not covers(part.question, question):
            kept.append(part)
    return kept


def _possessives(text: str, end: int) -> Iterator[Part]:
    """*X's mother*: the mother of X."""
    for mark in _POSSESSIVE.finditer(text, 0, end):
        start = _owner(text, mark.start())
        relation = _RELATION.match(text, mark.end(), end)
        name = text[start : mark.start()].strip()
        if not relation or not (name[:1].isupper() or name[:1].isdigit()):
            continue
        noun = relation[0]
        if noun in forms.KIN:
            first, second = forms.KIN[noun]
            yield Part(
                f"Who is the {first} of {name}?", start, relation.end(), f"the {second} of {{}}"
            )
            return
        if forms.is_role(relation["head"] or ""):
            yield Part(f"{forms.who(noun)} is the {noun} of {name}?", start, relation.end())
        return


def _owner(text: str, end: int) -> int:
    """Where the name begins that owns something."""
    led = re.match(
        rf"(?:(?:in|at|on|from|to|for|by) )?{_ASKING}\b(?: [a-z]+){{0,3}}? "
        r"(?:is|was|are|were|did|does|do|has) ",
        text,
        re.IGNORECASE,
    )
    start = led.end() if led and led.end() < end else 0
    name = text[start:end]
    if start and (name[:1].isupper() or " " not in name):
        return start
    words = list(_WORD.finditer(text, start, end))
    at = end
    for word in reversed(words):
        named = word[0][:1].isupper() or word[0][:1].isdigit()
        if not named and word[0] not in ("the", "de", "von"):
            break
        if named:
            at = word.start()
    return at if at < end else (words[-1].start() if words else end)


def _nested(text: str, end: int) -> Iterator[Part]:
    for opener in forms.OPENER.finditer(text, 0, end):
        noun = opener["noun"]
        start = _begin(text, opener.end("noun"))
        if start < 0 or not noun[:1].islower() or forms.is_verb(noun):
            continue
        close = _close(text, start, opener.start("by"), end)
        # One that has something may be anyone; one that has a name is one.
        if opener["by"] != "with" or _concrete(text[start:close]):
            yield from _part(text, start, close, noun)
    found = _FOREMOST.search(text[:end])
    if found:
        yield from _part(text, found.start("thing"), end, found["thing"])
    at = 0
    while found := _OF.search(text, at, end):
        at = found.start() + 4
        noun = found["noun"]
        close = _close(text, found.start(), found.start("rest"), end, verbs=0)
        kin = noun.lower()
        if kin in forms.KIN:
            first, second = forms.KIN[kin]
            rest = text[found.start("rest") : close]
            yield Part(
                f"Who is the {first} of {rest}?", found.start(), close, f"the {second} of {{}}"
            )
        elif forms.is_role(found["head"]) and _concrete(found["rest"]) and not _called(found):
            yield from _part(text, found.start(), close, noun)
    for found in _FREE.finditer(text, 0, end) if _BEGINS.match(text) else ():
        close = _close(text, found.end(), found.end(), end)
        clause = text[found.end() : close]
        if len(clause.split()) > 2:
            yield Part(f"{clause[:1].upper()}{clause[1:]}?", found.end(), close)


def _begin(text: str, end: int) -> int:
    """Where the noun phrase begins that ends here; -1 where none does."""
    words = list(_WORD.finditer(text, 0, end))[-8:]
    for word in reversed(words):
        bare = word[0].strip("\"“”'(")
        if _DETERMINER.match(bare):
            return word.start()
        if word is not words[-1] and (
            word[0][-1] in ",;:?!" or _BEGINS.match(bare) or forms.is_verb(bare)
        ):
            return -1
    return -1


def _part(text: str, start: int, end: int, noun: str) -> Iterator[Part]:
    piece = text[start:end].rstrip(" ,;:")
    outer = text[:start] + text[start + len(piece) :].rstrip(" ?.!")
    if (
        not piece
        or _UNSAID.search(piece)
        or _COPULA.match(outer.strip() + " ")
        or not outer.strip(" ?")
    ):
        return
    if not piece.lower().startswith("the "):
        piece_asked = re.sub(r"^\S+", "the", piece)
    else:
        piece_asked = f"the{piece[3:]}"
    yield Part(f"{forms.who(noun)} is {piece_asked}?", start, start + len(piece))


def _close(text: str, start: int, inner: int, end: int, verbs: int = 1) -> int:
    """Where a noun phrase ends whose clause begins at `inner`.

    Args:
        text: the question.
        start: where the phrase begins.
        inner: where its clause begins.
        end: where the question ends.
        verbs: how many verbs the clause has of its own.
    """
    tail = _TAIL.search(text, inner + 1, end)
    if tail:
        end = tail.start()
    if verbs == 0:
        owned = _OWNED.search(text, inner, end)
        end = owned.start() if owned else end
    if not _pending(text[:start]):
        return end
    stranded = _STRANDED.search(text, inner, end) if verbs == 0 else None
    end = stranded.start() if stranded and stranded.end() == end else end
    within, last = False, None
    words = list(_WORD.finditer(text, inner, end))
    for place, word in enumerate(words):
        if forms.is_verb(word[0]) and not (place == 0 and verbs == 0):
            split = within and last is not None and _anew(last, word[0])
            if not within or split:
                verbs -= 1
                if verbs < 0:
                    return word.start() - 1
            within, last = True, word[0]
        elif not (within and word[0].endswith("ly")):
            within = False
    return end


def _anew(last: str, word: str) -> bool:
    """Whether a verb behind a verb belongs to another clause."""
    led = last in (
        "is",
        "are",
        "was",
        "were",
        "be",
        "been",
        "has",
        "have",
        "had",
        "can",
        "could",
        "will",
        "would",
        "may",
    )
    return not led


def _pending(before: str) -> bool:
    """Whether what stands before a phrase waits for a verb behind it."""
    if not before.strip():
        return True
    if _SUPPORTED.search(before) and not any(word in forms.BARE for word in before.lower().split()):
        return True
    if _BEING.match(before) or _OPEN.match(before):
        return True
    inner = list(_RELATIVE.finditer(before))
    if not inner or inner[-1].start() == 0:
        return False
    return not any(forms.is_verb(word) for word in before[inner[-1].end() :].split())


def _concrete(text: str) -> bool:
    """Whether a text names something."""
    return any(
        word[:1].isupper() or word[:1].isdigit() or word[:1] in '"“' for word in text.split()
    )


def _called(found: re.Match[str]) -> bool:
    """Whether *the city of X* is but X."""
    head = found["head"].lower().removesuffix("s")
    return head in _BUT and found["rest"][:1].isupper()


def _in_place(text: str, end: int) -> Iterator[Part]:
    """*X was bought by an airline based where?*: by what airline first."""
    if _BEGINS.match(text):
        return
    found = _IN_PLACE.match(text[:end])
    if found and not re.search(rf"\b{_ASKING}\b", found["main"], re.IGNORECASE):
        yield Part(f"{found['main']} what {found['noun']}?", 0, found.start("rest") - 1)
