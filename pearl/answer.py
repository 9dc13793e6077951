"""How a question is answered: a prepared strategy, run on a document, gives an answer and evidence.

Where options are given, the open answer is mapped to one of them (PEARL, section 3).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from pearl.lang.ast import DOCUMENT, Action, Ref, step_refs
from pearl.lang.errors import InputError
from pearl.lang.graph import reads_document
from pearl.lang.printer import print_call
from pearl.lang.source import Source
from pearl.lang.text import counted, one_line, printable, shorten
from pearl.lang.values import Pairs, Value, as_text, from_json
from pearl.models.base import Model, ModelError, Reply, Usage
from pearl.models.constraints import forms_taken
from pearl.models.routing import members, readers_of
from pearl.prompts.calls import MapAnswer, first_alike, letter
from pearl.runtime.binding import value_of
from pearl.runtime.calls import (
    LIMITED,
    Caller,
    Entry,
    Watch,
    ask_fitted,
    calls_made,
    plan_come_to,
)
from pearl.runtime.context import learned_window
from pearl.runtime.evidence import (
    Quote,
    evidence,
    evidence_key,
    only_quotes,
    passages_given,
    without_quotes,
)
from pearl.runtime.executor import CUT
from pearl.runtime.fit_to_window import check_choice, fit_choice
from pearl.runtime.loop import Finished, RunError, run_strategy
from pearl.session import Session
from pearl.strategies.registry import Prepared, RunInputs, Started

if TYPE_CHECKING:
    from pearl.tools.toolbox import Toolbox, Tools


@dataclass(frozen=True, slots=True)
class Option:
    """The option an answer was mapped to.

    Args:
        letter: A for the first; empty where no option is nearer than the others.
        text: the option's words.
        fits: False where the model said that no option fits, and was asked for the best one.
    """

    letter: str
    text: str
    fits: bool = True

    @property
    def named(self) -> str | None:
        """The letter; None where no option is nearer than the others."""
        return self.letter or None

    def __str__(self) -> str:
        return f"{self.letter}. {self.text}" if self.named else "none"


_NONE = re.compile(r"(?i)\W*(?:the (?:answer|option) is\W+)?(none\b|no option\b)")


async def map_answer(call: MapAnswer, caller: Caller) -> Option:
    """Ask which option answers a question, given an open answer.

    If the model says that no option fits, or names none, it is asked again, for the best one; its
    second reply may be none as well. The journal's ``option/none`` records that none fits.

    An open answer that does not fit the window is cut to what bears on the question, and cut again
    if the endpoint says that its window is smaller; the journal records each cut.

    Raises:
        ContextError: the options leave no room for the answer; nothing was sent.
        ModelError: the model gave no usable answer.
        RunError: neither reply names an option.
    """
    options = call.options

    async def ask(call: MapAnswer, path: str) -> Reply:
        fit = partial(fit_choice, call, caller.window(call))
        return (await ask_fitted(caller, path, fit, f"context/{path}"))[1]

    def says_none(text: str) -> bool:
        return bool(_NONE.match(text)) and read_option(text, options) is None

    reply = await ask(call, "map")
    fits = not says_none(reply.text)
    chosen = read_option(reply.text, options) if fits else None
    if chosen is None:
        if not fits:
            caller.journal.decide("option/none", True)
        reply = await ask(replace(call, best=True), "map/best")
        if says_none(reply.text):
            return Option("", "", fits=False)
        chosen = read_option(reply.text, options)
    caller.journal.decide("option", letter(chosen) if chosen is not None else None)
    if chosen is None:
        excerpt = one_line(reply.text)[:80]
        raise RunError(
            f"The model named no option, asked twice: it last said {excerpt!r}. Ask another model."
        )
    caller.journal.decide("option/text", options[chosen])
    return Option(letter(chosen), options[chosen], fits)


def read_option(reply: str, options: Sequence[str]) -> int | None:
    """The index of the option that a reply names, by its letter or by its text, or None.

    A reply that names several options, or has a letter only as the first word of a sentence
    ("A person …"), names none. Of two options with the same text, the first counts.
    """
    letters = f"[A-{letter(len(options) - 1)}]"
    text = reply.strip()
    alone = re.fullmatch(rf"\W*({letters})\W*", text, re.IGNORECASE)
    marked = re.findall(rf"(?:\(|\*\*)({letters})(?:\)|\*\*)|\b({letters})[).:]", text)
    noted = re.findall(rf"\b(?:answer|option)(?: is)?\W+({letters})\b(?!['’])", text, re.IGNORECASE)
    named = {alone[1]} if alone else {bold or plain for bold, plain in marked} | set(noted)
    indices = {ord(mark.upper()) - ord("A") for mark in named}
    # Words such as "no option" deny that any fits; they name an option only if it is worded so.
    denial = _NONE.match(text)
    if not indices:
        lowered = text.lower()
        denied = denial.end() if denial else 0
        texts = [re.escape(option.strip().lower()) for option in options]
        indices = {
            at
            for at, text in enumerate(texts)
            if text
            and any(match.end() > denied for match in re.finditer(rf"(?<!\w){text}(?!\w)", lowered))
        }
    if not indices and denial:
        words = denial[1].lower()
        matches = list(map(_NONE.match, options))
        indices = {at for at, own in enumerate(matches) if own and own[1].lower() == words}
    places = {first_alike(options, at) for at in indices}
    return places.pop() if len(places) == 1 else None


@dataclass(frozen=True, slots=True)
class Answer:
    """A run's answer and what it rests on.

    Args:
        question: what was asked.
        text: the answer as the steps gave it, including quotes.
        evidence: passages of the document, in its order; a passage that the
            document does not have carries no span and stands last. Where no
            step quotes any, these are the sentences that hold the answer's
            words, from the paragraphs that steps looked up (`passages_given`).
        plan: the steps that ran, in canonical form.
        option: the option that the answer was mapped to, where options were given.
        fallback: whether no plan was accepted, so that the question was asked
            directly.
        guessed: whether the offline reader picked the value, or the option, by words alone.
        run: the run's name, for ``pearl trace``; empty without a store.
        model: the name of the model that answered.
        notice: what the user should know about the model and what it was shown.
        calls: how many calls of the model the answer took.
        kept: how many of those calls were answered from the cache.
        usage: the tokens that the calls took when they were sent, as far as
            the endpoint reports them.
        lacks: for the offline reader, words of the question that are missing: from the passages,
            where the answer is only passages; else, where it found nothing or counted what it
            found, from the whole document.
    """

    question: str
    text: str
    evidence: tuple[Quote, ...]
    plan: str
    option: Option | None
    fallback: bool
    guessed: bool
    run: str
    model: str
    notice: str
    calls: int
    kept: int
    usage: Usage
    lacks: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """For a notebook: the answer, its evidence, and the plan below."""
        chosen = str(self.option or "")
        quotes = (
            f"<li>{escape(quote.text)} <small>{escape(quote.step)}, "
            f"{escape(str(quote.place or 'not in the document'))}</small></li>"
            for quote in self.evidence
        )
        support = f"<ul>{''.join(quotes)}</ul>" if self.evidence else "<p>No evidence.</p>"
        notice = f"<p><small>{escape(self.notice)}</small></p>" if self.notice else ""
        return (
            f'{notice}<p style="white-space:pre-wrap">{escape(self.words)}</p>'
            f"{f'<p><b>{escape(chosen)}</b></p>' if chosen else ''}{support}"
            f"<details><summary>Plan</summary><pre>{escape(self.plan)}</pre></details>"
        )

    @property
    def grounded(self) -> bool:
        """Whether a passage that is in the document stands behind the answer."""
        return any(quote.span for quote in self.evidence)

    @property
    def words(self) -> str:
        """The answer in the model's own words: the text without quoted lines."""
        return without_quotes(self.text)


def start(
    prepared: Prepared,
    document: Source,
    session: Session,
    watch: Watch | None = None,
    tools: Tools | None = None,
    *,
    options: bool = False,
) -> Started:
    """Set up a strategy and its frame for one question of a session."""
    engine, caller = session.engine, session.caller(watch)
    return prepared.start(RunInputs(caller, document, tools, engine.replies, options, engine.keep))


def answer_parts(finished: Finished) -> tuple[tuple[str, str], ...]:
    """The parts that an answer was joined from: for each, a description and its text.

    The outputs of several steps are parts, and so are the inputs of a ``CONCAT``; a single output
    has no parts. A ``CONCAT`` of one output counts as that output.
    """
    steps = {step.name: step for step in finished.plan.steps}
    parts: list[tuple[str, str]] = []
    for name in finished.outputs:
        while step := steps.get(name):
            match step.args:
                case (Ref(name=copied, mode=""),) if step.action == "CONCAT" and copied in steps:
                    name = copied
                case _:
                    break
        joins = step and step.action == "CONCAT" and not any(ref.maps for ref in step_refs(step))
        joined = step.args if step and joins else (Ref(name),)
        for arg in joined:
            if isinstance(arg, Ref) and arg.name == DOCUMENT:
                continue
            text = as_text(value_of(arg, finished.values, None))
            origin = steps.get(arg.name) if isinstance(arg, Ref) else None
            call = print_call(origin).partition(" = ")[2] if origin else "The plan says"
            about = (origin and origin.note) or call
            parts.append((about.rstrip(".:"), text))
    return tuple(parts) if len(parts) > 1 else ()


def is_guess(model: Model, values: Iterable[object], option: Option | None) -> bool:
    """Whether the offline reader, which understands nothing, made up a number or chose the option.

    Args:
        model: the model that was asked.
        values: the values that the answer was made of, as far as they rest on the model's replies.
        option: the option that the answer was mapped to, if any.
    """
    if not reads_by_words(model):
        return False
    numeric = any(map(_has_number, values))
    return numeric or (option is not None and option.named is not None and not option.fits)


def _has_number(value: object) -> bool:
    """Whether a value is, or contains, a number or a truth value. The keys of pairs do not count,
    as they only say which part or item a value was made from."""
    if isinstance(value, Pairs):
        return any(_has_number(item) for _, item in value)
    if isinstance(value, list):
        return any(map(_has_number, value))
    return isinstance(value, int | float)


def _values_read(finished: Finished, entries: Iterable[Entry]) -> Iterator[Value]:
    """The values behind a run's answer that rest on calls of the model.

    The search goes back from the outputs to the steps that quote the document, and takes in the
    values of steps inside an action.
    """
    within = [
        (entry, path[1].partition("[")[0], path[2:])
        for entry in entries
        for path in [entry.path.split("/")]
        if path[0] == "step"
    ]
    called = {name for entry, name, _ in within if entry.kind == "call"}
    asked = {name for entry, name, inside in within if entry.kind == "call" and not inside}
    steps = {step.name: step for step in finished.plan.steps}
    rests = set[str]()
    for name, step in steps.items():
        if name in called or any(ref.name in rests for ref in step_refs(step)):
            rests.add(name)
    made, names = set[str](), [*finished.outputs]
    while names:
        name = names.pop()
        if name not in rests or name in made:
            continue
        made.add(name)
        yield finished.values[name]
        quotes = reads_document(steps[name]) or finished.values.get(evidence_key(name))
        if name not in asked or not quotes:
            names += [ref.name for ref in step_refs(steps[name])]
    for entry, name, inside in within:
        if name in made and inside[-2:-1] == ["value"]:
            yield from_json(entry.value)


def reads_by_words(model: Model) -> bool:
    """Whether documents are read by the offline reader, which picks passages by their words alone;
    a recording of its replies has the same identity."""
    return any(reader.identity.startswith("offline ") for reader in readers_of(model))


def quotes_behind(finished: Finished, entries: Sequence[Entry], document: Source) -> list[Quote]:
    """The passages behind a run's answer: those its steps quote, or else those it was made from."""
    quotes = evidence(finished.plan, finished.values, finished.outputs, document)
    return quotes or passages_given(entries, finished.text, document)


def find_lacks(
    question: str, text: str, quotes: Sequence[Quote], model: Model, document: Source
) -> tuple[str, ...]:
    """The words for `Answer.lacks`, given an answer's text and quotes."""
    if not reads_by_words(model):
        return ()
    from pearl.retrieval.terms import lacking

    # Any other answer, such as a count, rests on the whole document.
    quoted = quotes and only_quotes(text, quotes) and not says_nothing(text, model)
    return lacking(question, [quote.text for quote in quotes] if quoted else [document.text])


def says_nothing(text: str, model: Model) -> bool:
    """Whether an answer is only the offline reader's sentence that nothing bears on the question.
    Of another model such words count as an answer: a gold answer may have them, too."""
    if not reads_by_words(model):
        return False
    from pearl.models.offline import NOTHING

    return all(line.strip() in ("", NOTHING) for line in text.splitlines())


MARKS = ("grounded", "fallback", "guessed")
"""Properties of an `Answer` that the journal records beside its text."""


async def answer(
    prepared: Prepared,
    question: str,
    document: Source,
    options: Sequence[str],
    session: Session,
    watch: Watch | None = None,
    tools: Tools | None = None,
) -> Answer:
    """Run a strategy on a question, and map its answer to an option where there are options.

    Raises:
        InputError: the strategy's settings cannot be used.
        ModelError: the model gave no usable answer.
        RunError: a step has no output, or no option was named.
    """
    journal, model = session.journal, session.engine.model
    strategy, frame = start(prepared, document, session, watch, tools, options=bool(options))
    try:
        check_choice(question, options, session.context)
        finished = await run_strategy(strategy, question, frame)
        option = None
        if options:
            call = MapAnswer(question, finished.text, tuple(options), answer_parts(finished))
            option = await map_answer(call, session.caller(watch))
    except (RunError, ModelError) as error:
        journal.decide("failed", str(error))
        raise
    entries, text = journal.entries, finished.text
    if not text.strip() and reads_by_words(model):
        # An empty list, for example, is an empty text.
        from pearl.models.offline import NOTHING

        text = NOTHING
    calls = calls_made(entries)
    guessed = is_guess(model, _values_read(finished, entries), option)
    quotes = quotes_behind(finished, entries, document)
    lacks = find_lacks(question, text, quotes, model, document)
    # What an endpoint takes says nothing of the answer, and stands apart on the run's page.
    endpoint = [forms_taken(each).notice for each in members(model)]
    about = [each.notice for each in members(model) if each.notice not in endpoint]
    about += (prepared.notice, *_notices(entries, lacks if quotes else (), guessed=guessed))
    endpoint.append(learned_window(model.identity).notice)
    said = [" ".join(dict.fromkeys(filter(None, notices))) for notices in (endpoint, about)]
    for path, notice in zip(("notice/endpoint", "notice"), said, strict=True):
        if notice:
            journal.decide(path, notice)
    result = Answer(
        question=question,
        text=text,
        evidence=tuple(quotes),
        plan=finished.written,
        option=option,
        fallback=plan_come_to(entries)[1],
        guessed=guessed,
        run=journal.name,
        model=model.name,
        notice=" ".join(filter(None, said)),
        calls=len(calls),
        kept=sum(entry.kept for entry in calls),
        usage=sum((entry.usage for entry in calls), Usage()),
        lacks=lacks,
    )
    journal.decide("marks", {mark: getattr(result, mark) for mark in MARKS})
    return result


def _notices(entries: Sequence[Entry], lacks: Sequence[str], *, guessed: bool) -> Iterator[str]:
    """What the user should know about this answer: why no further plan was asked for, what was
    picked by words or cut, and which words of the question its passages lack."""
    yield from (str(entry.value) for entry in entries if entry.path == LIMITED)
    yield from (f"No plan: {entry.value}" for entry in entries if entry.path.endswith("/stopped"))
    if guessed:
        yield (
            "This was picked by words alone: the offline reader understands nothing. Read the "
            "passages."
        )
    if cut := sum(CUT in entry.path.split("/") for entry in entries):
        yield (
            f"Of the replies about parts of the document, {cut:,} reached the limit of tokens: "
            "they are taken as far as their whole lines go."
        )
    shown = [entry.value for entry in entries if "context" in entry.path.split("/")]
    if merges := sum(isinstance(value, dict) and "findings" in value for value in shown):
        yield (
            "What the parts of the document gave came out longer than was asked for: in "
            f"{counted(merges, 'merge')} passages of it were read."
        )
    if cut := sum(isinstance(value, dict) and "tokens" in value for value in shown):
        yield (
            "What was found did not fit the model's window: it was cut to what bears on the "
            f"question in {counted(cut, 'call')}."
        )
    if lacks:
        words = ", ".join(map(printable, lacks))
        yield f"The passages come nearest; they lack these words of the question: {words}."


@asynccontextmanager
async def open_tools(tools: str | tuple[Action, ...]) -> AsyncIterator[Toolbox | None]:
    """Open a toolbox of the tools in a file, or of functions, and close it at the end; None where
    no tools are named.

    Raises:
        InputError: `load_tools` refuses the file.
    """
    if not tools:
        yield None
        return
    import asyncio

    from pearl.tools.declared import function_tools, load_tools

    if not isinstance(tools, str):
        yield function_tools(tools)
        return
    # A tool server takes time to start, and would block the event loop.
    toolbox = await asyncio.to_thread(load_tools, tools)
    try:
        yield toolbox
    finally:
        await toolbox.close()


def cached_tools(tools: Tools, session: Session, question: str) -> Tools:
    """Tools whose replies the store keeps for a run and its question, so that a resumed run does
    not call them again."""
    from pearl.tools.toolbox import CachedTools

    replies, run = session.engine.replies, session.journal.name
    return CachedTools(tools, replies, run, question) if replies and run else tools


MOST_OPTIONS = 26
"""The most options that can have a letter, A to Z."""


def check_options(options: object, where: str = "") -> Sequence[str]:
    """Check that options are texts that can be chosen from, and return them.

    Args:
        options: as the user gave them, or as a row of a file has them.
        where: the row, for the message; empty where the user gave them, who then may not give a
            text twice, as rows of data sets do.

    Raises:
        InputError: they are no list of 0 or 2 to `MOST_OPTIONS` texts; one is empty, or repeated.
    """
    place = f"{where}: " if where else ""
    if not isinstance(options, list | tuple) or not all(isinstance(each, str) for each in options):
        raise InputError(f"{place}options is to be a list of texts.")
    usable = 2 <= len(options) <= MOST_OPTIONS and all(map(str.strip, options))
    if options and not usable:
        raise InputError(f"{place}Give 2 to {MOST_OPTIONS} options, none of them empty.")
    if not where and (twice := twice_given(options)):
        raise InputError(f"The option {shorten(twice)} is given twice: give each once.")
    return options


def twice_given(options: Sequence[str]) -> str:
    """The first option that repeats the text of an earlier one; empty where none does."""
    places = range(len(options))
    return next((options[at] for at in places if first_alike(options, at) < at), "")


def as_object(answer: Answer) -> dict[str, Any]:
    """An answer as JSON data; spans are character offsets in the document."""
    return {
        "question": answer.question,
        "answer": answer.text,
        "words": answer.words,
        "option": asdict(answer.option) if answer.option else None,
        "evidence": [
            {
                "text": quote.text,
                "speaker": quote.speaker,
                "span": list(quote.span) if quote.span else None,
                "document": quote.document,
                "page": quote.page,
                "line": quote.line,
                "step": quote.step,
            }
            for quote in answer.evidence
        ],
        "grounded": answer.grounded,
        "plan": answer.plan,
        "fallback": answer.fallback,
        "guessed": answer.guessed,
        "lacks": list(answer.lacks),
        "run": answer.run,
        "model": answer.model,
        "notice": answer.notice,
        "calls": answer.calls,
        "kept": answer.kept,
        "usage": asdict(answer.usage),
    }
