"""The evidence of an answer: quotes, and their places in the document.

Where no step quotes anything, it is the sentences with the answer's words, in the passages that the
steps retrieved.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from pearl.lang.ast import Literal, Plan, Step
from pearl.lang.builtins import read_name
from pearl.lang.graph import dependencies
from pearl.lang.source import Place, Source, Span
from pearl.lang.text import one_line
from pearl.lang.values import Pairs, Value, as_text
from pearl.retrieval.retriever import DocumentRetriever
from pearl.retrieval.terms import sentences
from pearl.runtime.calls import Entry

_LINE = re.compile(r"^[ \t]*>[ \t]?(.+)$", re.MULTILINE)
"""A quotation in a value, as solvers give it, and old runs did before evidence was kept apart."""
SHORTEST = 12
"""The fewest characters of each part of a quotation with an ellipsis."""

_LEFT_OUT = re.compile(r"\[?(?:…|\.\.\.)\]?")
_QUOTED = re.compile(r"\"([^\"\n]{24,})\"|“([^“”\n]{24,})”")


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage that is evidence for an answer.

    Args:
        text: the passage, as the document has it, if it was found there.
        span: where it stands, or None where the document does not have it.
        step: the step whose output quotes it.
        speaker: in a transcript, the beginning of its line: who speaks, and when. Empty where the
            passage itself begins there.
        place: its document, where there are several, and its page or line; None where ``span`` is.
    """

    text: str
    span: Span | None
    step: str
    speaker: str = ""
    place: Place | None = field(default=None, compare=False)

    @property
    def document(self) -> str | None:
        """The name of its document; None where there is only one, or none has it."""
        return (self.place.document or None) if self.place else None

    @property
    def page(self) -> int | None:
        """Its page, where the document has pages."""
        return self.place.page if self.place else None

    @property
    def line(self) -> int | None:
        """Its line in the document; None where that does not have it."""
        return self.place.line if self.place else None


_SPEAKER = re.compile(
    r"(?:\[[\d:.]+\] ?)?(?P<name>(?:\*\*)?[A-Z][^\n:.?!]{0,40}:(?:\*\*)? )|\[[\d:.]+\] "
)
"""The head of a transcript's line: when something was said, and by whom; bold in Markdown."""


def _quote_at(document: Source, span: Span, step: str) -> Quote:
    """The quote that stands at a place.

    A name that begins only one line, without a time, is no speaker's: *Inspector: Ruth Adler*.
    """
    text = document.text
    head = _SPEAKER.match(text, text.rfind("\n", 0, span.start) + 1, span.start)
    spoken = head and (head[0] != head["name"] or text.count(head[0]) > 1)
    speaker = head[0].replace("**", "").strip() if head and spoken else ""
    return Quote(document.at(span), span, step, speaker, document.cited(span.start))


def evidence_key(step: str) -> str:
    """The key of a step's quotations in a run's values; no step can have such a name."""
    return f"evidence {step}"


class Quotation(NamedTuple):
    """Words that a step quotes, and the label of the document that it read, ``CTX.lease.pdf``; an
    empty one where the step read them all, or that is not known."""

    step: str
    words: str
    read: str = ""


def pairs_of(quotes: Value) -> list[tuple[str, str]]:
    """Quotations as a step keeps them, each with the label of the document that it read."""
    if isinstance(quotes, Pairs):
        return [(as_text(read), as_text(words)) for read, words in quotes]
    return [("", line) for line in as_text(quotes).splitlines()]


def joined(pairs: Iterable[tuple[str, str]]) -> list[Value] | Pairs:
    """Quotations as a step keeps them, each once: in pairs with the label of the document that was
    read, if any has one."""
    pairs = dict.fromkeys(pairs)
    return Pairs(tuple(pairs)) if any(read for read, _ in pairs) else [words for _, words in pairs]


def quoted(
    plan: Plan, values: Mapping[str, Value], ends: Sequence[str], document: Source | None = None
) -> list[Quotation]:
    """The quotations behind some outputs.

    They are the outputs' own; where there are none, those of the steps they were made from.

    Args:
        plan: the plan that ran.
        values: its outputs, and their quotations under `evidence_key`.
        ends: the names of the steps that gave the outputs.
        document: if given, words in quotation marks count where it has them; lines after ">" count
            in any case.
    """
    needs = dependencies(plan.steps)
    quotes: list[Quotation] = []
    names = list(ends)
    visited: set[str] = set()
    spoken: list[Quotation] = []
    while names:
        for name in names:
            own_quotes = values.get(evidence_key(name))
            # An output that is known to quote nothing is not searched for quotations.
            value = "" if own_quotes == [] else values.get(name, "")
            text = as_text(value)
            quotes += (Quotation(name, words, read) for read, words in pairs_of(own_quotes or []))
            lines = [match[1].strip() for match in _LINE.finditer(text)] if ">" in text else []
            quotes += (Quotation(name, line) for line in lines)
            marked = document and ('"' in text or "“" in text)
            # The items of a list may be passages, in which others speak.
            answers = [answer for _, answer in value] if isinstance(value, Pairs) else [value]
            own_words = marked and not any(isinstance(answer, list) for answer in answers)
            for match in _QUOTED.finditer(without_quotes(text)) if own_words else ():
                words = (match[1] or match[2]).strip()
                if document and _located(_Part(0, document), words, name, document).span:
                    spoken.append(Quotation(name, words))
        if quotes:
            break
        visited.update(names)
        inputs = dict.fromkeys(source for name in names for source in needs.get(name, ()))
        names = [name for name in inputs if name not in visited]
    quoted_text = "\n".join(quote.words for quote in quotes)
    return quotes + [quote for quote in spoken if quote.words not in quoted_text]


def evidence(
    plan: Plan,
    values: Mapping[str, Value],
    ends: Sequence[str],
    document: Source,
    ran: Plan | None = None,
) -> list[Quote]:
    """The quotes behind an answer (`quoted`); those that the document does not have stand last.

    They are in document order. If the answer only quotes, they are in its order, which for the
    offline reader is from the best on.

    Args:
        plan, values, ends, document: as `quoted` takes them.
        ran: the plan whose steps say which of several documents they read; by default ``plan``.
    """
    steps = {step.name: step for step in (ran or plan).steps}
    read: dict[str, list[_Part]] = {}
    named: dict[str, list[_Part]] = {}
    quotes: dict[tuple[str | None, str], Quote] = {}
    for step, words, label in quoted(plan, values, ends, document):
        if step not in read:
            read[step] = _documents_read(steps[step], values, document) if step in steps else []
        if label not in named:
            named[label] = _parts([label], document)
        for quote in _quotes(words, step, document, named[label] or read[step]):
            quotes.setdefault((quote.document, quote.text), quote)
    text = "\n".join(as_text(values.get(name, "")) for name in ends)
    if quotes and only_quotes(text, quotes.values()):
        return sorted(quotes.values(), key=lambda quote: quote.span is None)
    last = Span(len(document.text), 0)
    return sorted(quotes.values(), key=lambda quote: quote.span or last)


NEAREST = "come nearest; they may not answer the question"
SHARING = "share the question's words, or stand beside one that does"
"""How messages describe passages that the offline reader quotes: where they lack words of the
question, and where they lack none."""


def only_quotes(text: str, quotes: Iterable[Quote]) -> bool:
    """Whether an answer has no words but its quotations."""
    passages = {one_line(quote.text) for quote in quotes}
    return passages.issuperset(one_line(line) for line in without_quotes(text).splitlines())


def without_quotes(text: str) -> str:
    """An answer without the lines that are quotations."""
    return "\n".join(line for line in text.splitlines() if not _LINE.match(line)).strip()


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the text of several documents, and where it starts there."""

    start: int
    source: Source


def _documents_read(step: Step, values: Mapping[str, Value], document: Source) -> list[_Part]:
    """Those of several documents that a step read by themselves: those that the plan names, and
    those that it went through with ``each`` or ``where``."""
    value = values.get(step.name)
    through = [key for key, _ in value] if isinstance(value, Pairs) else value
    named = [arg.value for arg in step.args if isinstance(arg, Literal)]
    labels = [*named, *(through if isinstance(through, list) else ())]
    return _parts(labels, document)


def _parts(labels: Iterable[Value], document: Source) -> list[_Part]:
    """Those of several documents that labels name."""
    names = dict.fromkeys(read_name(label) for label in labels if isinstance(label, str))
    spans = dict.fromkeys(document.named(name) for name in names if name)
    return [_Part(span.start, Source("", document.at(span))) for span in spans if span]


def _quotes(words: str, step: str, document: Source, read: Sequence[_Part]) -> list[Quote]:
    """The quotes of some words: in each document that its step read and that has them as they
    stand, as contracts share whole sentences; or else in the first that has them, or anywhere."""
    # Short words occur by chance.
    shared = [part for part in read if len(words) >= SHORTEST and words in part.source.text]
    if shared:
        return [quote for part in shared for quote in _quotes_in(part, words, step, document)]
    for part in read:
        quotes = _quotes_in(part, words, step, document)
        if quotes[0].span:
            return quotes
    return _quotes_in(_Part(0, document), words, step, document)


def _quotes_in(part: _Part, words: str, step: str, document: Source) -> list[Quote]:
    """The quote of some words; or, where they have an ellipsis, the quotes of their pieces, if the
    part has all of these in this order."""
    whole = _located(part, words, step, document)
    pieces = [piece.strip() for piece in _LEFT_OUT.split(words) if piece.strip()]
    # Short pieces occur by chance.
    if whole.span or len(pieces) < 2 or min(map(len, pieces)) < SHORTEST:
        return [whole]
    quotes = [_located(part, piece, step, document) for piece in pieces]
    spans = [quote.span for quote in quotes if quote.span]
    in_order = all(span.end <= following.start for span, following in pairwise(spans))
    return quotes if in_order and len(spans) == len(pieces) else [whole]


def _located(part: _Part, text: str, step: str, document: Source) -> Quote:
    """The quote of a text, if the part has it."""
    for candidate in dict.fromkeys((text, text.strip('"“”'), text.strip('"“”. …'))):
        if match := part.source.find(candidate):
            return _quote_at(document, match.moved(part.start), step)
    return Quote(text, None, step)


_VALUE = re.compile(r"(?:step/(?P<within>[^/\[]+).*/)?value/(?P<step>[^/]+)")
_SAYS_NOTHING = frozenset({"yes", "no", "true", "false"})
"""Answers for which a sentence with the same word is no evidence."""


def passages_given(entries: Sequence[Entry], answer: str, document: Source) -> list[Quote]:
    """The sentences with an answer's words, from the passages that were retrieved for it.

    A passage is a paragraph of the document that an output has unchanged. The
    last output with such a sentence counts, because the answer was made from
    what was retrieved last. It is not known that the sentence is why the model
    gave the answer. Each line of an answer is looked for by itself; for a yes or
    a no there are no sentences.
    """
    lines = [_spaced(line) for line in answer.splitlines()]
    lines = [line for line in lines if line.strip() and line.strip() not in _SAYS_NOTHING]
    if not lines:
        return []
    spans = [paragraph.span for paragraph in DocumentRetriever(document).paragraphs]
    shortest = min([end - start for start, end in spans], default=0)
    for entry in reversed(entries):
        path = _VALUE.fullmatch(entry.path)
        if path is None or entry.status != "done":
            continue
        step, texts = path["within"] or path["step"], list(_texts(entry.value))
        longest = max(map(len, texts), default=0)
        if longest < shortest:
            continue
        quotes = [
            _quote_at(document, Span(span.start + start, span.start + end), step)
            for span in spans
            if span.end - span.start <= longest
            for paragraph in [document.at(span)]
            if any(paragraph in text for text in texts)
            for start, end in sentences(paragraph)
            for sentence in [_spaced(paragraph[start:end])]
            # A sentence that is only the answer, such as a heading, is no evidence.
            if any(line in sentence and sentence.replace(line[:-1], "").strip() for line in lines)
        ]
        if quotes:
            return quotes
    return []


def _spaced(text: str) -> str:
    """The words of a text, a space on each side of them."""
    words = " ".join(re.findall(r"\w+", text.lower()))
    return f" {words} "


def _texts(value: Any) -> Iterable[str]:  # noqa: ANN401 - any JSON
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
