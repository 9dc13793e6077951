"""The terms of a text, their weights (BM25, with bm25s), and its sentences."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import filterfalse, pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

from pearl.lang.source import Span
from pearl.lang.text import FUNCTION_WORDS, composed, normalized, stem

if TYPE_CHECKING:
    import numpy as np

    Scores: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_INITIALS = re.compile(r"(?<![^\W_])(?:(?:[A-Z]\.[^\S\n]?)+[A-Z]\.|[A-Z](?:\.[A-Z])+)(?![^\W_])")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
UNSPACED = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+)")
"""Scripts that put no space between words."""

_LONGEST = 64
"""The most characters of a term; a longer one is cut."""

_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"}
)
"""Letters that Unicode does not split into a letter and a mark, and that people write without."""

TITLE = 3
"""How many times each of a title's terms counts (Robertson, Zaragoza and Taylor, "Simple BM25
Extension to Multiple Weighted Fields", CIKM 2004, section 3)."""

_ELISION = re.compile(r"[^\W\d_]{1,5}'(?!(?:ll|re|ve)$)(?=[^\W\d_]{2})")
"""An elided word before another, as in *l'acconto* and *dell'anno*, but not in *they're*."""

STOP = FUNCTION_WORDS | frozenset(
    """
    after again against am because before below between both doing down during each few further
    having he her here hers herself him himself his i itself just me my myself no nor not off
    once only other our ours ourselves own same she theirs themselves these those through too
    under until up upon us very we why you your yours yourself yourselves
    """.split()
)
"""Words that say nothing of what a text is about."""

_OPERATORS = frozenset({"AND", "OR", "NOT"})
"""Words that some people write in capitals, as the operators of a query language."""


def terms(text: str) -> list[str]:
    """A text's terms, in order.

    English words are stems (Porter's second stemmer). Accents and apostrophes
    are dropped (*O'Brien*, *Sjöström*); after an elided word, the word alone is
    a term too (*l'acconto*). Initials are one term however they are written
    (*J. K.*, *J.K.*, *JK*), a single letter counts (*Malcolm X*), and so does a
    stop word in capitals (*WHO*, *US*), unless the whole text is in capitals.
    Scripts without spaces give every two neighbouring characters.
    """
    text = composed(text)
    if "." in text:
        text = _INITIALS.sub(lambda match: f" {''.join(filter(str.isalpha, match[0]))} ", text)
    if "," in text:
        text = _THOUSANDS.sub(lambda match: match[0].replace(",", ""), text)
    tokens = _WORD.findall(text)
    if len(tokens) > 1 and text.isupper():
        tokens = [word.lower() for word in tokens]
    return [term for word in tokens for term in _terms_of(word)]


def field_terms(title: str, text: str) -> list[str]:
    """The terms of a text and of its title, which may be empty; those of the title count more."""
    return terms(title) * TITLE + terms(text)


def query_terms(query: str) -> list[str]:
    """The distinct terms of a query, in order, at most 128."""
    return list(dict.fromkeys(terms(query)))[:128]


# A corpus has few distinct words.
@lru_cache(maxsize=1 << 18)
def _terms_of(word: str) -> tuple[str, ...]:
    if UNSPACED.search(word):
        return tuple(
            term
            for part in filter(None, UNSPACED.split(word))
            for term in (pairs_of(part) if UNSPACED.match(part) else _terms_of(part))
        )
    plain = _folded(word)
    if plain.endswith("'s"):
        plain = plain[:-2]
    short = plain.partition("'")[0]
    stopped = plain in STOP or (short != plain and (short in STOP or plain.endswith("n't")))
    whole = _unelided(plain)
    plain = plain.replace("'", "")[:_LONGEST]
    if whole:
        return stem(plain), stem(whole.replace("'", "")[:_LONGEST])
    if stopped:
        named = len(word) > 1 and word.isupper() and word not in _OPERATORS
        return (f"={plain}",) if named else ()
    return (stem(plain),)


_CONTRACTED = ("s", "d", "m", "ll", "re", "ve")


def _is_contraction(word: str) -> bool:
    """Whether a folded word is a contraction of stop words, as *wouldn't* and *she'll* are."""
    first, _, end = word.partition("'")
    return word.endswith("n't") or (end in _CONTRACTED and first in STOP)


def _unelided(word: str) -> str:
    """A word in lower case, without the elided word before it; empty where there is none."""
    elision = _ELISION.match(word)
    rest = word[elision.end() :] if elision else ""
    return "" if rest in STOP else rest


def pairs_of(run: str) -> list[str]:
    """Every two neighbouring characters of a text without spaces; a single character itself."""
    return [run[at : at + 2] for at in range(max(1, len(run) - 1))]


def _folded(word: str) -> str:
    """A word without case and accents."""
    word = word.replace("’", "'").casefold()
    if word.isascii():
        return word
    parts = normalized(word.translate(_LETTERS), "NFKD")
    return composed("".join(filterfalse(unicodedata.combining, parts)))


_CLAUSE = r"(?:\d{1,3}(?:\.\d{1,3})+\.?|\d{1,3}[.)])[^\S\n]+(?=[^\W\da-z_])"
"""What stands before a numbered clause, a list's item or a heading: *3.2*, *3.* or *3)*."""

_CLAUSE_NAME = (
    r"§+|(?i:art(?:\.|icles?|ikeln?|ículos?|icol[oi])|(?:chapter|clause|section)s?|sec\.|abschnitt"
    r"|klausel|cláusula|clausola|sección|sezione)"
)
"""What stands before a clause's number, in English, German, French, Spanish and Italian."""

_STAMP = (
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\[?\d\d:\d\d:\d\d[\],. ]"
    r"|\[\d\d?:\d\d\] (?:<[^<>\n]{1,40}>|[^\W\d_][^\n:]{0,40}:) "
)
"""How a line of a log or a chat begins: with when it was written, and in a chat by whom."""

_PARAGRAPH = re.compile(
    rf"\n[^\S\n]*\n\s*|\n(?=[^\S\n]*(?:[-*•]\s|#{{1,6}}[^\S\n]|{_CLAUSE}|{_STAMP}))"
    # A table's row in Markdown, past the line below its head.
    r"|\n(?:[^\S\n]*\|[-:| ]+\n)?(?=[^\S\n]*\|)"
)
_LINE, _FIELD = re.compile("\n"), re.compile('"[^"\n]*"')
_GAP, _TIGHT = re.compile(r"(?<=[^\s.!?:]) {2,}(?=\S)"), re.compile(r",(?=[^\W\d])|(?<!\d),(?=\w)")
_FIGURE, _LABEL = re.compile(r"\d+"), re.compile(r"[^\W\d_][\w .'/-]{0,30}(?::\s|=)")
_OPENING, _CLOSING, _WITHIN = "\"'“‘«„([*_", "\"'”’»)]*_", ",.;:!?)”»"
_STOPS, _GOES_ON = (".", "!", "?", "…"), (",", "-", "–", "—")
_NEAR, _ROOM = 3, 0.9
"""How many lines on either side are compared with a line; and the share of their width up to which
a word surely had room, as lines of one width in a proportional font differ in characters."""
_RECORD = 2000
"""The number of characters in which the first three fields of a record are looked for."""
_HEADING = re.compile(
    r"[^\S\n]*+(?:#{1,6}[^\S\n][^\n]*+|[^\n\t]{0,59}[^\n\s.!?,;:…\"”’)—-])[^\S\n]*\n"
    r"(?=\s*[\"“‘(]?[^\W_])"
)
_END = re.compile(
    r"[.!?…؟।](?P<close>[\"'”’»)\]]*)\s+(?=[\"'“‘«„(\[]*(?:§+\s?)?(?P<next>[^\W_]))|[。！？]+[」』”’）]*"
)
_TITLES = "Mr|Mrs|Ms|Mme|Mlle|Dr|St|Prof|Rev|Hon|Capt|Col|Gen|Maj|Sgt|Lt|Gov|Sen|Rep|Jr|Sr|Mt|Ft"
_ABBREVIATED = re.compile(rf"\b(?:{_TITLES}|{_TITLES.upper()}|vs|cf|viz|ca|[A-HJ-Z])$")
_NUMBERED = re.compile(r"\b(?:nos?|pp?|figs?|vol|ch|arts?|secs?)$", re.IGNORECASE)
_CLAUSE_NUMBER = re.compile(
    rf"\s*(?:#{{1,6}}\s+)?(?:(?:{_CLAUSE_NAME})\s?)?(?:[A-Z]\.)?(?:\d+|\d{{1,3}}(?:\.\d{{1,3}})+)[a-z]?\s*"
    r"|\s*[IVX]{1,5}"
)
"""The number of a clause, before the full stop that ends it: *4*, *4.2*, *§ 4*, *Article 4*, *IV*.
"""
MONTH = re.compile(
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Januar|Jänner|Februar|März|Mai|Juni|Juli|Oktober|Dezember"
    r"|[Jj]anvier|[Ff]évrier|[Mm]ars|[Aa]vril|mai|[Jj]uin|[Jj]uillet|[Aa]oût|septembre|octobre"
    r"|novembre|[Dd]écembre"
    r"|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"
    r"|gennaio|febbraio|aprile|maggio|giugno|luglio|settembre|ottobre|dicembre)\b"
)
"""The months in English and German, and in French, Spanish and Italian, which do not capitalize
them."""

_QUOTED = re.compile(
    r"\"[^\"]*(?:\"|$)|“[^”]*(?:”|$)|«[^»]*(?:»|$)|„[^“”]*(?:[“”]|$)|「[^」]*(?:」|$)"
)
_SPEECH = 400
"""The most characters of a quotation that counts as one sentence; a longer one is split."""

_LONGEST_SENTENCES = 1000
"""The most characters of a sentence; a longer one is cut at white space."""


def blocks(text: str, between: re.Pattern[str]) -> Iterator[Span]:
    """The pieces of a text that stand between a pattern's matches."""
    start = 0
    for match in between.finditer(text):
        yield Span(start, match.start())
        start = match.end()
    yield Span(start, len(text))


def stripped(text: str, start: int, end: int) -> list[Span]:
    """A piece of a text without the white space around it; empty where there is nothing else."""
    body = text[start:end]
    start += len(body) - len(body.lstrip())
    end = start + len(body.strip())
    return [Span(start, end)] if end > start else []


def sentences(text: str) -> list[Span]:
    """Where each sentence stands, without the white space around it.

    A quotation stays whole, with its quotes, unless it is long or its paragraph ends. A heading is
    a sentence, and so is a row of values. The end of a line ends a sentence in records and lists,
    but not in wrapped text (`_pieces`).
    """
    spans: list[Span] = []
    for block in blocks(text, _PARAGRAPH):
        record = False
        for (start, end), row in _pieces(text, *block):
            if row:
                _keep(spans, text, start, end)
                continue
            # The first field of a record is no heading; three fields in a row make a record.
            fields = text[start : min(block[1], start + _RECORD)].lstrip().splitlines()[:3]
            record = (record or len(fields) == 3) and all(map(_LABEL.match, fields))
            heading = None if record else _HEADING.match(text, start, end)
            if heading and text[heading.end() : heading.end() + 2].strip('"“‘( ')[:1].isupper():
                _keep(spans, text, start, heading.end())
                start = heading.end()
            _split(spans, text, start, end)
    return spans


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[Span, bool]]:
    """A paragraph, cut where its lines are records, and whether each piece is a row of values.

    A line is complete if it and the next have one form (`_form`), or both are labelled fields. It
    is complete, too, if it does not run on (`_runs_on`) and the next line's first word had room in
    it, compared with the longest line near by: wrapped text fills its lines. Lines are records if
    most lines near by are complete, so that a name at the start of a line does not make prose a
    record. Among records, each line that does not run on is a record of its own, except for the
    fields of one record (`_heads`). The end of a sentence tells nothing: prose has it as well.
    """
    lines = [Span(start + a, start + b) for a, b in blocks(text[start:end].rstrip(), _LINE)]
    # Two lines are too few to compare, unless tabs separate their values.
    fewest = 1 if "\t" in text[start:end] else 2
    if len(lines) <= fewest:
        yield Span(start, end), False
        return
    texts = [text[a:b].strip() for a, b in lines]
    plain = [_FIELD.sub("", line) if '"' in line else line for line in texts]
    # A comma before a space separates values only if all lines have as many: prose has some too.
    even = len(lines) > 3 and len({line.count(",") for line in plain[1:]}) == 1
    forms = [_form(line, even) for line in plain]
    labels = [match[0] if (match := _LABEL.match(line)) else "" for line in plain]
    heads = _heads([label for label in labels if label], end - start)
    alike = [form & following for form, following in pairwise(forms)]
    values = [any(number for _, number in shared) for shared in alike]
    fields = [bool(label and following) for label, following in pairwise(labels)]
    done = [2] * len(alike)
    for at, line in enumerate(texts[:-1]):
        if values[at]:
            continue
        if line.rstrip(_CLOSING).endswith(_STOPS):
            done[at] = 0
        elif alike[at] or fields[at]:
            continue
        elif _runs_on(line, texts[at + 1]):
            done[at] = -2
        else:
            width = max(b - a for a, b in lines[max(0, at - _NEAR) : at + _NEAR + 2])
            if len(line) + 1 + len(texts[at + 1].split(maxsplit=1)[0]) > _ROOM * width:
                done[at] = -1
    begin = 0
    for at in range(len(lines)):
        if at < len(done):
            near = done[max(0, at - _NEAR) : at + _NEAR + 1]
            most = sum(near) > 0 and 2 * near.count(2) > max(len(near), 2 * fewest - 1)
            if not most or done[at] in (-2, 0):
                continue
            if fields[at] and not values[at] and labels[at + 1] not in heads:
                continue
        row = begin == at and any(values[max(0, at - 1) : at + 1])
        yield Span(lines[begin].start, lines[at].end), row
        begin = at + 1


def _runs_on(line: str, following: str) -> bool:
    """Whether a line goes on in the next one, by its end and by the start of the next. Two lines
    all in capitals do."""
    first = following.lstrip(_OPENING)[:1]
    small = first.islower() or first in _WITHIN or (line.isupper() and following.isupper())
    return small or line.endswith(_GOES_ON)


def _form(line: str, even: bool) -> frozenset[tuple[str, int]]:
    """What a line has in common with similar ones: the number of tabs, gaps, semicolons and commas
    between its values; whether it begins with a digit; and its number of figures, unless it begins
    in lower case. With ``even``, a comma before a space separates values too."""
    form = {(mark, line.count(mark)) for mark in "\t;" if mark in line[:-1]}
    if gaps := len(_GAP.findall(line)):
        form.add((" ", gaps))
    large = not line[:1].islower()
    commas = line.count(",")
    if (even and commas > 1 and large) or (commas and _TIGHT.search(line)):
        form.add((",", commas))
    if line[:1].isdigit():
        form.add(("0", 0))
    if large and (figures := len(_FIGURE.findall(line))):
        form.add((f"{figures} figures", 0))
    return frozenset(form)


def _heads(labels: list[str], length: int) -> frozenset[str]:
    """The labels in a paragraph that begin a record. It is the first label alone, if no other one
    is repeated before it comes again and records are short; else every one, as in a play."""
    seen: set[str] = set()
    for label in labels:
        if label == labels[0]:
            seen.clear()
        if label in seen:
            break
        seen.add(label)
    else:
        if labels and length <= _SPEECH * labels.count(labels[0]):
            return frozenset(labels[:1])
    return frozenset(labels)


def _split(spans: list[Span], text: str, start: int, end: int) -> None:
    """The sentences of one paragraph."""
    speeches = (Span(*quoted.span()) for quoted in _QUOTED.finditer(text, start, end))
    whole = deque(span for span in speeches if span.end - span.start <= _SPEECH)
    for stop in _END.finditer(text, start, end):
        if stop["next"] and (stop["next"].islower() or _abbreviated(text, start, stop)):
            continue
        at = stop.end("close") if stop["next"] else stop.end()
        while whole and whole[0].end <= at:
            whole.popleft()
        if not whole or at <= whole[0].start:
            _keep(spans, text, start, at)
            start = at
    _keep(spans, text, start, end)


def _abbreviated(text: str, start: int, stop: re.Match[str]) -> bool:
    """Whether a full stop only shortens the word before it."""
    at = stop.start()
    if text[at] != ".":
        return False
    word = text[max(start, at - 8) : at]
    if _CLAUSE_NUMBER.fullmatch(text, start, at):
        return True  # The number of a clause belongs to it.
    if re.search(r"(?<![\w.,])\d{1,2}$", word) and MONTH.match(text, stop.start("next")):
        return True  # The day of a date, as in "31. März".
    numbered = stop["next"].isdigit() and _NUMBERED.search(word)
    return bool(numbered or _ABBREVIATED.search(word))


def _keep(spans: list[Span], text: str, start: int, end: int) -> None:
    while end - start > _LONGEST_SENTENCES:
        at = max(
            text.rfind(mark, start + 1, start + _LONGEST_SENTENCES) for mark in (" ", "\n", "\t")
        )
        at = at if at > start else start + _LONGEST_SENTENCES
        _keep(spans, text, start, at)
        start = at
    spans += stripped(text, start, end)


@dataclass(frozen=True)
class Weights:
    """The weight of each term in each text.

    Args:
        count: how many texts there are.
        table: the index that bm25s made of them.
    """

    count: int
    table: Any

    def scores(self, query: Mapping[str, float]) -> Scores:
        """How well each text bears on a query.

        Args:
            query: terms, each with its weight.

        Returns:
            A score for each text, in order; 0 where it has none of the terms.
        """
        import numpy as np

        total = np.zeros(self.count)
        for weight in sorted(set(query.values())):
            known = (term for term, own in query.items() if own == weight)
            if indexed := [term for term in known if term in self.table.vocab_dict]:
                total += weight * self.table.get_scores(indexed)
        return total


def with_neighbours(scores: Scores) -> Scores:
    """Scores of texts in order, each with a quarter of its neighbours' scores added: an answer
    often stands beside the words asked for."""
    near = scores * 0.0
    near[1:] += scores[:-1]
    near[:-1] += scores[1:]
    return scores + 0.25 * near


def weigh(texts: Sequence[Sequence[str]], k1: float, b: float) -> Weights:
    """Weigh the terms of texts (Robertson and Zaragoza, 2009, section 3.2).

    Args:
        texts: the terms of each, in order.
        k1: how much a term's second mention adds to its first.
        b: how far a long text's mentions count for less, from 0 to 1.
    """
    import bm25s

    table = bm25s.BM25(k1=k1, b=b)
    # bm25s takes no empty list and no text without terms; no query has the empty term.
    table.index([list(terms) or [""] for terms in texts] or [[""]], show_progress=False)
    return Weights(len(texts), table)


QUESTION_STOP = FUNCTION_WORDS | frozenset(
    """
    according article author best document following get he her him his i just like may me might
    mr mrs ms must my no not one our passage said say says she story text these those too up us
    very we why you your
    """.split()
)
"""Words that say nothing of what a question asks for."""

_OWN = re.compile(
    r"(?:\b(?:my|our|your|his|her|its|their|whose)|['’]s?)\s+(?:very\s+)?\bown\b", re.IGNORECASE
)
"""*Own* after a possessive, where it adds nothing. Elsewhere it says who has something."""

_CONTENT = re.compile(rf"\d+(?:[.,]\d+)+|{_WORD.pattern}")
"""Words, and numbers as they are written: *12.2* is a clause."""


def words(text: str) -> list[str]:
    """A text's content words as stems, in order, without elided words before them."""
    text = _OWN.sub("", composed(text))
    tokens = [word.lower().replace("’", "'") for word in _CONTENT.findall(text)]
    plain = [word.removesuffix("'s") for word in tokens]
    plain = [_unelided(word) or word for word in plain]
    long = [word for word in plain if len(word) > 1 or word.isdecimal()]
    return stems([word for word in long if word not in QUESTION_STOP])


_ASKING = re.compile(
    r"\b(?:how (?:many|much|often|long|old|far)"
    r"|warum|wieso|weshalb|wann|wer|wen|wem|wessen|wie(?:viele?| (?:viele?|oft|lange|alt|weit))?"
    r"|was|welche[mnrs]?|wo(?:her|hin|mit|für|durch|von|zu|bei|gegen|nach|r(?:an|auf|aus|in|über|um))?"
    r"|pourquoi|quand|qui|quoi|(?:les?|la|aux?|des?|du)?quel(?:le)?s?|où|comment|combien"
    r"|qu['’]est-ce (?:que|qui)|est-ce que|y a-t-il"
    r"|ils?|une?|et|est|sont"
    r"|chi|che|cosa|quando|dove|quant[oaie]|perch[éè]|qual[ei]?|come"
    r"|(?:com|cos|dov|quand|quant)['’](?:è|era)"
    r"|quem|onde|quant[oa]s|quais|porqu[eê]|por que|hoeveel|waarom|wanneer|waar|welke"
    r"|quién(?:es)?|qué|cuándo|dónde|cuánt[oa]s?|cuál(?:es)?|cómo)\b"
    r"|\b(?:article|chapter|clause|page|paragraph|section)s?(?= \d)",
    re.IGNORECASE,
)
"""Question words in English, German, French, Italian, Spanish and other languages, which stand in
no answer; QUESTION_STOP has more."""

LANGUAGES = (
    *("DUTCH", "FRENCH", "GERMAN", "ITALIAN", "NORWEGIAN", "PORTUGUESE", "RUSSIAN", "SPANISH"),
    "SWEDISH",
)
"""Languages with spaces between words, other than English, whose stop words are in every version
of bm25s that Pearl runs with."""


@lru_cache(maxsize=16)
def foreign_stop(text: str) -> frozenset[str]:
    """The stop words of a text's language, in lower case; none where that is English.

    The language is that whose stop words occur most: *die* counts as one only in a German text.
    """
    from bm25s import stopwords

    counts = Counter(_CONTENT.findall(composed(text[:_SAMPLE]).casefold()))
    lists = [STOP, *(frozenset(getattr(stopwords, f"STOPWORDS_{name}")) for name in LANGUAGES)]
    best = max(lists, key=lambda stop: sum(counts[word] for word in stop))
    return frozenset() if best is STOP else best


_SAMPLE = 20_000
"""The number of characters of a text by which its language is detected."""


def lacking(question: str, passages: Iterable[str]) -> tuple[str, ...]:
    """The content words of a question, as written there, that occur in no passage."""
    text = "\n".join(passages)
    present, stop = frozenset(words(text)), STOP - {"own"} | foreign_stop(text)
    left = _CONTENT.findall(_ASKING.sub("", _OWN.sub("", composed(question))))
    asked = (
        word for word in left if word.casefold() not in stop and not _is_contraction(_folded(word))
    )
    return tuple(dict.fromkeys(word for word in asked if not present.issuperset(words(word))))


def stems(plain: Sequence[str]) -> list[str]:
    """The stems of words in lower case."""
    return [stem(word) for word in plain]


@dataclass(frozen=True)
class SentenceIndex:
    """A document's sentences, with the stems of each, indexed to be ranked for a query."""

    text: str
    spans: tuple[Span, ...]
    stems: tuple[frozenset[str], ...]
    weights: Weights

    def scores(self, query: Mapping[str, float]) -> Scores:
        """Each sentence's score for weighted stems: BM25, its neighbours', times the coverage."""
        return with_neighbours(self.weights.scores(query)) * self._coverage(query)

    def _coverage(self, query: Mapping[str, float]) -> Scores:
        """The share of the query that each sentence holds, in which rare words count for more.
        So neither a single word in a short sentence nor a name on every page outweighs
        several of the words asked for."""
        import numpy as np

        total, whole = np.zeros(len(self.spans)), 0.0
        for term, own in query.items():
            holds = np.fromiter((term in held for held in self.stems), bool, len(self.spans))
            count = int(holds.sum())
            if count:
                worth = own * math.log(1 + len(self.spans) / count)
                total += worth * holds
                whole += worth
        return total / (whole or 1.0) + 0.1


@lru_cache(maxsize=16)
def index_sentences(text: str) -> SentenceIndex:
    """The index of a document's sentences, which is cached."""
    spans = tuple(sentences(text))
    tokens = [words(text[span.start : span.end]) for span in spans]
    # b is lower than usual, because all sentences are short.
    weights = weigh(tokens, k1=1.2, b=0.3)
    return SentenceIndex(text, spans, tuple(map(frozenset, tokens)), weights)
