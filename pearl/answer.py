"""A question answered: a prepared strategy, run on a document, gives an answer with its evidence.

It runs in a session: the model in its layers, and a journal in a store. Where options are given,
the open answer is mapped to one of them (PEARL, section 3).
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pearl.lang.ast import DOCUMENT, Action, Ref, step_refs
from pearl.lang.graph import needed
from pearl.lang.library import Library
from pearl.lang.printer import print_call, print_plan
from pearl.lang.source import InputError, Source
from pearl.lang.text import printable, shorten
from pearl.lang.values import Value, as_text
from pearl.models.base import Model, ModelError, TokenCounter, Usage, env_number
from pearl.models.constraints import Mode, choose_mode
from pearl.models.middleware.stack import Engine, start_engine
from pearl.models.routing import Models, planner_of, readers_of, sampling_of
from pearl.models.tokens import counter_of, load_prices
from pearl.prompts.calls import MapAnswer, letter
from pearl.runtime.binding import value_of
from pearl.runtime.calls import Caller, Entry, Journal, Watch, calls_made
from pearl.runtime.context import UNLIMITED, Context, Policy, learned_window, learning
from pearl.runtime.evidence import Quote, evidence, passages_given, without_quotes
from pearl.runtime.executor import CUT
from pearl.runtime.loop import Finished, RunError, run_strategy
from pearl.runtime.telemetry import tell
from pearl.strategies.registry import Prepared, RunInputs, Started

if TYPE_CHECKING:
    from pearl.tools.toolbox import Toolbox, Tools


Began = Callable[[str], None]
"""Told the run's name once it has one."""


@dataclass(frozen=True)
class Session:
    """The model in its layers, the journal of one run or question, and what fits a prompt.

    Args:
        engine: the model in its layers.
        journal: where the run is written down.
        context: how much fits a prompt.
        examples: worked examples that a demand for a form shows, at most.
        planning: how much fits the prompt of who plans.
    """

    engine: Engine
    journal: Journal
    context: Context = UNLIMITED
    examples: int = 0
    planning: Context = UNLIMITED

    def caller(self, watch: Watch | None = None) -> Caller:
        """Asks the model, and keeps the journal; ``watch`` is told of each call."""
        engine, journal = self.engine, self.journal
        return Caller(
            learning(engine.ask, self.context, journal),
            engine.identity,
            journal,
            watch,
            engine.forms,
            engine.constrain == "always",
            self.examples,
            engine.model if isinstance(engine.model, Models) else None,
        )


def context_for(model: Model, policy: Policy = "auto", window: int | None = None) -> Context:
    """How much fits a model's prompt.

    Args:
        model: who answers; of several, the one with the smallest window that is shown documents.
        policy: what to do with a document that does not fit.
        window: tokens; by default the model's own where it knows it,
            ``PEARL_CONTEXT``, or what the table of prices says of the model.

    Raises:
        InputError: a setting is wrong, or the window is smaller than a reply.
    """
    if isinstance(model, Models):
        contexts = [context_for(reader, policy, window) for reader in readers_of(model)]
        least = min(contexts, key=lambda context: context.window or math.inf)
        return replace(least, learned=learned_window(model.identity))
    own = model.window if isinstance(model, TokenCounter) else None
    if window and own and window > own:
        raise InputError(f"--window is {window:,}, and {model.name} has {own:,}: set it lower.")
    price = None if window or own else load_prices().get(model.name)
    size = window or own or env_number("PEARL_CONTEXT") or (price.window if price else None)
    reply, learned = env_number("PEARL_MAX_TOKENS") or 0, learned_window(model.identity)
    return Context(policy, size, reply, counter_of(model), learned)


def planning_context(model: Model, context: Context) -> Context:
    """How much fits the prompt of who plans.

    It is a quarter of the window where the planner reads in this process, in which the actions and
    examples of a whole library would take a minute.

    Args:
        model: who answers, or the several who do.
        context: how much fits the model; of several, those that are shown documents.
    """
    planner = planner_of(model)
    own = context if planner is model else context_for(planner)
    if not (isinstance(planner, TokenCounter) and own.window):
        return own
    return replace(own, window=max(own.window // 4, min(own.window, 2048)), reply=0)


@asynccontextmanager
async def open_session(
    model: Model,
    head: dict[str, Any],
    kind: str,
    store: str | Path | None = None,
    *,
    context: Context = UNLIMITED,
    cache: bool = True,
    began: Began | None = None,
    constrain: Mode | None = None,
) -> AsyncIterator[Session]:
    """Open a session for one run; model and store are let go at the end.

    Args:
        model: who answers.
        head: what is run on what, as JSON data.
        kind: ``ask``, ``run`` or ``plan``.
        store: where runs and replies are kept: a file's path or a database's
            address; None keeps nothing.
        context: how much fits a prompt, and what to do with a longer document.
        cache: whether replies of earlier runs count.
        began: told the run's name.
        constrain: whether replies are held to grammars and schemas; by default as `choose_mode`.

    Raises:
        InputError: the store cannot be used, or a setting is wrong.
    """
    mode = choose_mode(constrain)
    head = {**head, **model_head(model, mode)}
    context = replace(context, learned=learned_window(model.identity))
    opened, run, journal = None, "", Journal()
    if store is not None:
        # The database's library takes long to load.
        from pearl.store.store import open_store

        opened = open_store(str(store))
    try:
        if opened:
            run = opened.start(kind, head, own=not cache)
            journal = opened.journal(run)
            if began:
                began(run)
        journal.decide("run", head)
        engine = start_engine(model, opened, "" if cache else run, constrain=mode)
        planning = planning_context(model, context)
        yield Session(engine, journal, context, planning=planning)
        if opened:
            opened.end(run)
            await opened.flush()
    except (ModelError, RunError):
        # It came to its end, though to no answer; what was interrupted did not.
        if opened:
            opened.end(run)
        raise
    finally:
        if opened:
            opened.close()
        await model.close()
        tell(kind, journal, model)


@dataclass(frozen=True, slots=True)
class Option:
    """The option an answer was mapped to.

    Args:
        letter: A for the first; empty where none of them is any nearer than the others.
        text: the option's words.
        fits: False where the model said that none does, and was asked for the best.
    """

    letter: str
    text: str
    fits: bool = True

    def __str__(self) -> str:
        return f"{self.letter}. {self.text}" if self.letter else "none"


_NONE = re.compile(r"(?i)\W*(?:the (?:answer|option) is\W+)?(none\b|no option\b)")


async def map_answer(call: MapAnswer, caller: Caller) -> Option:
    """Ask which option answers a question, given an open answer.

    Where the model says that none fits, of which the journal is told ``option/none``, or its reply
    names none, the best is asked for. That may be none too.

    Raises:
        ModelError: the model gave no usable answer.
        RunError: neither reply names an option.
    """
    options = call.options

    def says_none(text: str) -> bool:
        return bool(_NONE.match(text)) and read_option(text, options) is None

    reply = await caller(call, "map")
    fits = not says_none(reply.text)
    chosen = read_option(reply.text, options) if fits else None
    if chosen is None:
        if not fits:
            caller.journal.decide("option/none", True)
        reply = await caller(replace(call, best=True), "map/best")
        if says_none(reply.text):
            return Option("", "", fits=False)
        chosen = read_option(reply.text, options)
    caller.journal.decide("option", letter(chosen) if chosen is not None else None)
    if chosen is None:
        excerpt = " ".join(reply.text.split())[:80]
        raise RunError(
            f"The model named no option, asked twice: it last said {excerpt!r}. Its replies are "
            "kept: name another model, or ask without the cache."
        )
    caller.journal.decide("option/text", options[chosen])
    return Option(letter(chosen), options[chosen], fits)


def read_option(reply: str, options: Sequence[str]) -> int | None:
    """The option a reply names, by its letter or by its text, or None.

    A reply that names several, or a letter that only starts a sentence
    ("A person …"), names none. Of two options with the same text it is the first.
    """
    letters = f"[A-{letter(len(options) - 1)}]"
    text = reply.strip()
    alone = re.fullmatch(rf"\W*({letters})\W*", text, re.IGNORECASE)
    marked = re.findall(rf"(?:\(|\*\*)({letters})(?:\)|\*\*)|\b({letters})[).:]", text)
    noted = re.findall(rf"\b(?:answer|option)(?: is)?\W+({letters})\b(?!['’])", text, re.IGNORECASE)
    named = {alone[1]} if alone else {bold or plain for bold, plain in marked} | set(noted)
    indices = {ord(mark.upper()) - ord("A") for mark in named}
    # The words that say that none fits are no option's, unless it says so itself.
    said = _NONE.match(text)
    if not indices:
        lowered = text[said.end() if said else 0 :].lower()
        texts = [re.escape(option.strip().lower()) for option in options]
        indices = {
            at
            for at, text in enumerate(texts)
            if text and re.search(rf"(?<!\w){text}(?!\w)", lowered)
        }
    if not indices and said:
        worded = list(map(_NONE.match, options))
        indices = {at for at, own in enumerate(worded) if own and own[1].lower() == said[1].lower()}
    places = {options.index(options[at]) for at in indices}
    return places.pop() if len(places) == 1 else None


def holds(answer: str, *golds: str) -> bool:
    """Whether an open answer holds a gold one: its words, in their order; case does not count.

    A number is a word by what it comes to: ``148,000`` and ``148000`` are one, as 2.50 and 2.5,
    ``3.750,00`` and 3750, 1.2 million and 1200000, twelve and 12 are; -5 and 5 are two. One that
    may be meant in two ways, as ``3.750``, is each of them. A time is a word, too.
    """
    from pearl.lang.numbers import in_digits

    return any(
        f" {gold} " in f" {words} "
        for words, *right in ([*map(_words, (answer, *golds))],
                              [_words(in_digits(text)) for text in (answer, *golds)])
        for gold in right
    )  # fmt: skip


def _words(text: str) -> str:
    """A text's words with a space between them, and numbers by what they come to."""
    return " ".join(map(_plain, _WORD.findall(_MINUS.sub("-", text.casefold()))))


_MINUS = re.compile(r"(?<![\w)\]])(?:[-−]|minus\s+)[$€£]?(?=\.?\d)")
_WORD = re.compile(
    r"(?:(?<![\w)\]])-(?=\.?\d))?"
    r"(?:\d{1,3}(?:,\d{3})+(?![,\d]*\d)(?:\.\d+)?|(?<!\w)\.\d+|\d+\.\d+|\d+(?::\d\d)+|\w+)"
)


def _plain(word: str) -> str:
    """A number without commas between its thousands and zeros at its ends; another word as is."""
    plain = re.sub(r"^(-?)0*\.", r"\g<1>0.", word.replace(",", ""))
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


@dataclass(frozen=True, slots=True)
class Answer:
    """A run's answer and what it rests on.

    Args:
        question: what was asked.
        text: the answer as the steps gave it, quotes and all.
        evidence: passages of the document, in its order; one the document
            does not have carries no span and stands last. Where no step
            quotes any, the sentences that hold the answer's words, of the
            paragraphs that were looked up for it (`passages_given`).
        plan: the steps that ran, in canonical form.
        option: the option the answer means, where options were given.
        fallback: whether no plan was accepted, so that the question was asked
            directly.
        guessed: whether the offline reader picked the value, or the option, by words alone.
        run: the run's name, for ``pearl trace``; empty where nothing was kept.
        model: who answered.
        notice: what a person should know about the model and what it was shown.
        calls: how many calls the answer took.
        kept: how many of them needed no sending, as their replies were kept.
        usage: the tokens they took when they were made, as far as the
            endpoint says.
        lacks: words of the question that no passage has, where passages that the offline reader
            chose are all there is of an answer.
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
        """In a notebook: the answer and what it rests on, and its plan below."""
        chosen = str(self.option or "")
        quotes = (
            f"<li>{escape(quote.text)} <small>{escape(quote.step)}"
            f"{'' if quote.span else ', not in the document'}</small></li>"
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
        """The answer in its own words: the text without the lines that quote."""
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
    """Put a strategy together for one question of a session, of what `RunInputs` names."""
    engine = session.engine
    args = (session.context, tools, engine.replies, options, session.planning, engine.keep)
    return prepared.start(RunInputs(session.caller(watch), document, *args))


def answer_parts(finished: Finished) -> tuple[tuple[str, str], ...]:
    """What an answer was put together from: what each part is, and its text.

    The outputs of several steps are parts, and so are the inputs of a ``CONCAT``; one output by
    itself has none. A ``CONCAT`` of one output counts as that output.
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
    """Whether a model that understands nothing picked one of the answer's values, or its option.

    Args:
        model: who was asked.
        values: those that rest on its replies.
        option: what the answer was mapped to, if anything.
    """
    if not reads_by_words(model):
        return False
    bare = any(isinstance(value, int | float) for value in values)
    return bare or (option is not None and bool(option.letter) and not option.fits)


def _values_read(finished: Finished, entries: Iterable[Entry]) -> Iterator[Value]:
    """The values of a run's answer that rest on a step for which the model was called."""
    calls = (entry.path.split("/") for entry in entries if entry.kind == "call")
    called = {path[1].partition("[")[0] for path in calls if path[0] == "step"}
    for name in finished.outputs:
        if not called.isdisjoint(needed([name], finished.plan.steps)):
            yield finished.values[name]


def reads_by_words(model: Model) -> bool:
    """Whether who is shown documents understands nothing, and picks by words alone."""
    return any(reader.name == "offline" for reader in readers_of(model))


def find_lacks(question: str, text: str, quotes: Sequence[Quote], model: Model) -> tuple[str, ...]:
    """What `Answer.lacks` is for an answer's text and what it quotes."""
    if not (quotes and reads_by_words(model) and only_quotes(text, quotes)):
        return ()
    from pearl.retrieval.terms import lacking

    return lacking(question, (quote.text for quote in quotes))


def only_quotes(text: str, quotes: Iterable[Quote]) -> bool:
    """Whether an answer says nothing beside what it quotes."""
    passages = {" ".join(quote.text.split()) for quote in quotes}
    return passages.issuperset(" ".join(line.split()) for line in without_quotes(text).splitlines())


PICKED = (
    "This was picked by words alone: the offline reader understands nothing. Read the passages."
)


SHORTENED = (
    "Of the replies about parts of the document, {:,} reached the limit of tokens: they are taken "
    "as far as their whole lines go."
)

LACKS = "The passages come nearest; they lack these words of the question: {}."


async def answer(
    prepared: Prepared,
    question: str,
    document: Source,
    options: Sequence[str],
    session: Session,
    watch: Watch | None = None,
    tools: Tools | None = None,
) -> Answer:
    """Run a strategy and put its answer together: one of the options, where there are some.

    Raises:
        InputError: the strategy's settings cannot be used.
        ModelError: the model gave no usable answer.
        RunError: a step has no output, or no option was named.
    """
    journal, model = session.journal, session.engine.model
    strategy, frame = start(prepared, document, session, watch, tools, options=bool(options))
    try:
        finished = await run_strategy(strategy, question, frame)
        option = None
        if options:
            call = MapAnswer(question, finished.text, tuple(options), answer_parts(finished))
            option = await map_answer(call, session.caller(watch))
    except (RunError, ModelError) as error:
        journal.decide("failed", str(error))
        raise
    calls = calls_made(journal.entries)
    guessed = is_guess(model, _values_read(finished, journal.entries), option)
    quotes = evidence(finished.plan, finished.values, finished.outputs, document)
    quotes = quotes or passages_given(journal.entries, finished.text, document)
    lacks = find_lacks(question, finished.text, quotes, model)
    window = learned_window(model.identity).notice
    near = LACKS.format(", ".join(map(printable, lacks))) if lacks else ""
    cut = sum(f"/{CUT}/" in f"/{entry.path}" for entry in journal.entries)
    picked = (PICKED if guessed else "", SHORTENED.format(cut) if cut else "")
    notices = (model.notice, window, prepared.notice, *picked, near)
    if notice := " ".join(filter(None, notices)):
        journal.decide("notice", notice)
    return Answer(
        question=question,
        text=finished.text,
        evidence=tuple(quotes),
        plan=print_plan(finished.plan),
        option=option,
        fallback=any(entry.path == "plan/fallback" for entry in journal.entries),
        guessed=guessed,
        run=journal.name,
        model=model.name,
        notice=notice,
        calls=len(calls),
        kept=sum(entry.kept for entry in calls),
        usage=sum((entry.usage for entry in calls), Usage()),
        lacks=lacks,
    )


@asynccontextmanager
async def open_tools(tools: str | tuple[Action, ...]) -> AsyncIterator[Toolbox | None]:
    """The tools of a file, as `load_tools` takes it and raises `InputError`, or functions as tools,
    or none where none are named; what they hold is let go at the end."""
    if not tools:
        yield None
        return
    if not isinstance(tools, str):
        from pearl.tools.functions import function_tools

        yield function_tools(tools)
        return
    import asyncio

    from pearl.tools.declared import load_tools

    # A server of tools takes its time to start.
    toolbox = await asyncio.to_thread(load_tools, tools)
    try:
        yield toolbox
    finally:
        await toolbox.close()


def cached_tools(tools: Tools, session: Session, question: str) -> Tools:
    """Tools whose replies a store keeps under a run's question, so that a run that goes on asks
    them nothing again."""
    from pearl.tools.toolbox import CachedTools

    replies, run = session.engine.replies, session.journal.name
    return CachedTools(tools, replies, run, question) if replies and run else tools


def check_options(options: object, where: str = "") -> Sequence[str]:
    """Options that can be chosen from.

    Args:
        options: a person's, or what a row has for them.
        where: the row, for the message. A data set's rows may have one text twice, a person who
            writes it twice has slipped.

    Raises:
        InputError: they cannot.
    """
    place = f"{where}: " if where else ""
    if not isinstance(options, list | tuple) or not all(isinstance(each, str) for each in options):
        raise InputError(f"{place}options is to be a list of texts.")
    if options and (len(options) < 2 or len(options) > 26 or not all(map(str.strip, options))):
        raise InputError(f"{place}Give 2 to 26 options, none of them empty.")
    twice = next((option for at, option in enumerate(options) if option in options[:at]), None)
    if twice is not None and not where:
        raise InputError(f"The option {shorten(twice)} is given twice: give each once.")
    return options


def heading(
    question: str, document: Source | None, library: Library, model: Model, shown: int | None = None
) -> dict[str, Any]:
    """What a journal says first: enough to know later what was run on what. ``shown`` is the number
    of demonstrations, or None where none are meant to be."""
    head: dict[str, Any] = {"question": question}
    if document:
        size = len(document.text)
        head["document"] = f"{document.name} ({size} characters, sha256 {document.digest})"
    head["library"] = ", ".join(library.names)
    if shown is not None:
        head["demonstrations"] = shown
    head |= model_head(model)
    head["pearl"] = _version("pearl")
    return head


def model_head(model: Model, constrain: Mode | None = None) -> dict[str, str]:
    """Who answers in a run, and how replies are sampled and constrained where a model says."""
    sampling = sampling_of(model)
    how = {"sampling": sampling, "constrain": constrain or ""} if sampling else {}
    return {"model": model.name, **{key: value for key, value in how.items() if value}}


_version = cache(version)  # The package's metadata is read from the disk each time.


def as_object(answer: Answer, document: Source) -> dict[str, Any]:
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
                "document": place.document or None if place else None,
                "page": place.page if place else None,
                "line": place.line if place else None,
                "step": quote.step,
            }
            for quote in answer.evidence
            for place in [document.cited(quote.span.start) if quote.span else None]
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
