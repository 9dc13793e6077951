"""What the commands do, as functions: `import pearl` offers these."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from pearl.check import DEFAULT, Selection
from pearl.check import check as _check
from pearl.check import fix as _fix
from pearl.diagnostics import Diagnostic, Severity
from pearl.layout import layout
from pearl.library import Library, load_library
from pearl.llm import MapAnswer, Model, Usage, choose_model
from pearl.llm.calls import letter
from pearl.plan import Plan
from pearl.planner import Planned, choose_demonstrations, load_demonstrations
from pearl.planner import write_plan as _write_plan
from pearl.runtime import Caller, Finished, Journal, Quote, RunError, Strategy, run_strategy
from pearl.runtime.evidence import evidence, without_quotes
from pearl.runtime.journal import new_run
from pearl.source import InputError, Source
from pearl.strategies import GivenPlan, Pearl
from pearl.syntax import Parsed, parse, print_plan

_T = TypeVar("_T")
Watch = Callable[[str, bool], None]


@dataclass(frozen=True, slots=True)
class Option:
    """The option an answer was mapped to."""

    letter: str
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A run's answer and what it rests on.

    Args:
        question: what was asked.
        text: the answer as the steps gave it, quotes and all.
        evidence: passages of the document, in its order; one the document
            does not have carries no span and stands last.
        plan: the steps that ran, in canonical form.
        option: the option the answer means, where options were given.
        fallback: whether no plan was accepted, so that the question was asked
            directly.
        run: the run's name, for ``pearl trace``; empty where nothing was kept.
        model: who answered.
        notice: what a person should know about the model.
        calls: how many calls were made.
        usage: the tokens they took, as far as the endpoint says.
    """

    question: str
    text: str
    evidence: tuple[Quote, ...]
    plan: str
    option: Option | None
    fallback: bool
    run: str
    model: str
    notice: str
    calls: int
    usage: Usage

    @property
    def words(self) -> str:
        """The answer in its own words: the text without the lines that quote."""
        return without_quotes(self.text)


def check(
    plan: str | Parsed, library: Library | None = None, selection: Selection = DEFAULT
) -> list[Diagnostic]:
    """Check a plan's text.

    Args:
        plan: its text, or what `parse` made of it.
        library: the actions it may call; by default those Pearl ships.
        selection: which rules speak.
    """
    parsed = parse(plan) if isinstance(plan, str) else plan
    return _check(parsed, library or load_library(), selection)


def fix(plan: str, library: Library | None = None, *, unsafe: bool = False) -> str:
    """A plan's text with what can be fixed automatically fixed.

    Args:
        plan: its text.
        library: the actions it may call; by default those Pearl ships.
        unsafe: also take fixes that guess at the meaning.
    """
    return _fix(Source("<plan>", plan), library or load_library(), unsafe=unsafe).text


def format(plan: str) -> str:
    """A plan's text in canonical form; what is not part of it becomes comments.

    Raises:
        InputError: a line cannot be read.
    """
    return layout(Source("<plan>", plan))


async def write_plan(
    question: str,
    *,
    library: Library | None = None,
    model: Model | None = None,
    runs: Path | None = None,
    watch: Watch | None = None,
) -> Planned:
    """Have a model write a plan. It never sees a document.

    Args:
        question: what the plan is to answer.
        library: the actions it may call; by default those Pearl ships.
        model: who writes it; by default what the environment says.
        runs: the folder in which the journal is kept; None keeps none.
        watch: told the path of each call when it starts and when it ends.

    Raises:
        InputError: an empty question, or a wrong setting.
        ModelError: the model gave no usable answer.
    """
    question = _question(question)
    library, model = library or load_library(), model or choose_model()
    journal = Journal(new_run(runs) if runs else None)
    try:
        journal.decide("run", _head(question, None, library, model))
        demonstrations = choose_demonstrations(load_demonstrations(), library)
        caller = Caller(model, journal, watch)
        planned = await _write_plan(question, library, caller, journal.decide, demonstrations)
        if planned.plan:
            journal.decide("plan", print_plan(planned.plan))
        return planned
    finally:
        journal.close()
        await model.close()


async def ask(
    document: str | Path | Source,
    question: str,
    *,
    options: Sequence[str] = (),
    library: Library | None = None,
    model: Model | None = None,
    runs: Path | None = None,
    watch: Watch | None = None,
) -> Answer:
    """Plan for a question, run the plan on a document, and answer with evidence.

    Args:
        document: a `Source`, or the path of a text file.
        question: what is asked.
        options: answers to choose from, at least two; the answer is mapped to one.
        library: the actions a plan may call; by default those Pearl ships.
        model: who plans and reads; by default what the environment says.
        runs: the folder in which the journal is kept; None keeps none.
        watch: told the path of each call when it starts and when it ends.

    Raises:
        InputError: an empty question, an unreadable document, a wrong setting.
        ModelError: the model gave no usable answer.
        RunError: a step has no output.
    """
    library, model = library or load_library(), model or choose_model()
    demonstrations = choose_demonstrations(load_demonstrations(), library)
    return await _answer(
        lambda caller: Pearl(library, caller, demonstrations),
        _question(question),
        _document(document),
        options,
        library,
        model,
        runs,
        watch,
    )


async def run(
    plan: str | Plan,
    document: str | Path | Source,
    *,
    options: Sequence[str] = (),
    library: Library | None = None,
    model: Model | None = None,
    runs: Path | None = None,
    watch: Watch | None = None,
) -> Answer:
    """Run a plan on a document.

    Args:
        plan: a plan, or its text.
        document: a `Source`, or the path of a text file.
        options: answers to choose from; the plan then needs a question.
        library: the actions it may call; by default those Pearl ships.
        model: who reads; by default what the environment says.
        runs: the folder in which the journal is kept; None keeps none.
        watch: told the path of each call when it starts and when it ends.

    Raises:
        InputError: an unreadable document, a wrong setting, options without a
            question.
        RunError: the plan has errors, or a step has no output.
    """
    library = library or load_library()
    parsed = parse(print_plan(plan) if isinstance(plan, Plan) else plan)
    errors = [one for one in _check(parsed, library) if one.severity is Severity.ERROR]
    if errors:
        raise RunError(
            f"The plan has {len(errors)} error{'s'[: len(errors) != 1]}: {errors[0].message} "
            f"{errors[0].help}".rstrip(),
            diagnostics=tuple(errors),
        )
    if options and not parsed.plan.question:
        raise InputError("Options need a question: put a line question: … at the plan's head.")
    return await _answer(
        lambda _: GivenPlan(parsed.plan),
        parsed.plan.question,
        _document(document),
        options,
        library,
        model or choose_model(),
        runs,
        watch,
    )


async def _answer(
    strategy: Callable[[Caller], Strategy],
    question: str,
    document: Source,
    options: Sequence[str],
    library: Library,
    model: Model,
    runs: Path | None,
    watch: Watch | None,
) -> Answer:
    if options and (len(options) < 2 or len(options) > 26 or not all(map(str.strip, options))):
        raise InputError("Give 2 to 26 options, none of them empty.")
    journal = Journal(new_run(runs) if runs else None)
    try:
        journal.decide("run", _head(question, document, library, model))
        caller = Caller(model, journal, watch)
        finished = await run_strategy(strategy(caller), question, document, library, caller)
        option = await _mapped(finished, question, options, caller) if options else None
        return _result(finished, question, document, option, journal, model)
    except RunError as error:
        journal.decide("failed", str(error))
        raise
    finally:
        journal.close()
        await model.close()


def _result(
    finished: Finished,
    question: str,
    document: Source,
    option: Option | None,
    journal: Journal,
    model: Model,
) -> Answer:
    calls = [entry for entry in journal.entries if entry.kind == "call"]
    quotes = evidence(finished.plan, finished.values, finished.outputs, document)
    return Answer(
        question=question,
        text=finished.text,
        evidence=tuple(quotes),
        plan=print_plan(finished.plan),
        option=option,
        fallback=any(entry.path == "plan/fallback" for entry in journal.entries),
        run=journal.name,
        model=model.name,
        notice=model.notice,
        calls=len(calls),
        usage=sum((entry.usage for entry in calls), Usage()),
    )


async def _mapped(
    finished: Finished, question: str, options: Sequence[str], caller: Caller
) -> Option:
    reply = await caller(MapAnswer(question, finished.text, tuple(options)), "map")
    chosen = _letter(reply.text, options)
    caller.journal.decide("option", letter(chosen) if chosen is not None else None)
    if chosen is None:
        said = " ".join(reply.text.split())[:80]
        raise RunError(f"The model named no option: it said {said!r}. Run it again.")
    return Option(letter(chosen), options[chosen])


def _letter(reply: str, options: Sequence[str]) -> int | None:
    """The option a reply names: one letter, or one option's text."""
    last = letter(len(options) - 1)
    told = reply.strip().strip("*`\"' .")
    first = re.match(rf"(?:(?:the )?(?:answer|option) (?:is )?)?\W*([A-{last}])\b(?!['’])", told,
                     re.IGNORECASE)  # fmt: skip
    if first and (len(told) == 1 or not re.match(r"\s+[a-z]", told[first.end() :])):
        return ord(first[1].upper()) - ord("A")
    same = [at for at, option in enumerate(options) if option.strip().lower() in told.lower()]
    return same[0] if len(same) == 1 else None


def _head(question: str, document: Source | None, library: Library, model: Model) -> dict[str, Any]:
    head: dict[str, Any] = {"question": question}
    if document:
        digest = hashlib.sha256(document.text.encode("utf-8", "surrogatepass")).hexdigest()
        head["document"] = f"{document.name} ({len(document.text)} characters, sha256 {digest})"
    head["library"] = ", ".join(library.names)
    head["model"] = model.name
    head["pearl"] = version("pearl")
    return head


def _question(text: str) -> str:
    question = " ".join(text.split())
    if not question:
        raise InputError("The question is empty: write it in quotes.")
    return question


def _document(document: str | Path | Source) -> Source:
    from pearl.source import read_source

    if isinstance(document, Source):
        if not document.text.strip():
            raise InputError(f"{document.name} is empty: give a document with text in it.")
        return document
    return read_source(str(document), "document")


def _wait(work: Coroutine[Any, Any, _T]) -> _T:
    """Run to the end, also where an event loop runs already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def write_plan_sync(question: str, **options: Any) -> Planned:  # noqa: ANN401 - as write_plan's
    """`write_plan`, waited for."""
    return _wait(write_plan(question, **options))


def ask_sync(document: str | Path | Source, question: str, **options: Any) -> Answer:  # noqa: ANN401
    """`ask`, waited for."""
    return _wait(ask(document, question, **options))


def run_sync(plan: str | Plan, document: str | Path | Source, **options: Any) -> Answer:  # noqa: ANN401
    """`run`, waited for."""
    return _wait(run(plan, document, **options))
