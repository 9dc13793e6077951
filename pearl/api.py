"""What the commands do, as functions: `import pearl` offers these."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeAlias, TypeVar

from pearl.answer import Answer, answer, cached_tools, check_options, open_tools
from pearl.jobs.progress import in_loop
from pearl.lang.ast import Action, Parsed, Plan
from pearl.lang.diagnostics import Diagnostic
from pearl.lang.errors import InputError, check_whole, refuse
from pearl.lang.functions import OwnAction
from pearl.lang.library import Library, plan_library
from pearl.lang.library import load_library as _load_library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.rewriting import format_plan
from pearl.lang.source import LONGEST_PATH, Source
from pearl.lang.text import counted, one_line, shorten
from pearl.lint.checker import (
    DEFAULT,
    Selection,
    check_for_person,
    library_findings,
    with_taken_fixes,
)
from pearl.lint.checker import fix as _fix
from pearl.models.base import Model
from pearl.models.constraints import Mode
from pearl.models.middleware.stack import EngineLimits
from pearl.models.routing import check_model, choose_model, planner_of, with_library
from pearl.prompts.calls import Demonstration, WritePlan
from pearl.retrieval.converters import read_in_thread
from pearl.runtime.calls import Watch
from pearl.runtime.context import Context, Policy
from pearl.runtime.loop import RunError
from pearl.runtime.planner_prompt import narrowed
from pearl.session import Began, context_for, heading, open_session
from pearl.strategies.pearl import Planned, demonstrations_for
from pearl.strategies.pearl import write_plan as _write_plan
from pearl.strategies.preparation import prepare, prepare_plan, refuse_unused
from pearl.strategies.registry import OwnStrategy, StrategySettings, limits_within

_P = ParamSpec("_P")
_T = TypeVar("_T")

Document: TypeAlias = str | os.PathLike[str] | Source | Sequence[str | os.PathLike[str]]
Named: TypeAlias = "str | Path | Action | OwnAction"
Actions: TypeAlias = "Library | Named | Sequence[Named] | None"
"""A `Library`; one or several of what `load_library` takes, such as functions made into actions by
`action`; or None for the libraries Pearl ships."""


def check(
    plan: str | Plan | Parsed, library: Actions = None, selection: Selection = DEFAULT
) -> list[Diagnostic]:
    """Check a plan. A finding carries a fix only where `fix` could apply it.

    Args:
        plan: a plan, its text, or the result of `parse`.
        library: the actions it may call; by default the shipped libraries that the plan's head
            names, or else those Pearl ships.
        selection: the rules that report findings.

    Raises:
        InputError: an argument has another type, or the library cannot be loaded.
    """
    if not isinstance(selection, Selection):
        raise InputError('selection is to be a Selection: pearl.Selection(select=("PRL4",)).')
    parsed = plan if isinstance(plan, Parsed) else parse(_plan_text(plan))
    return check_for_person(parsed, _library_of(parsed.plan.source, library), selection)


def fix(plan: str | Plan, library: Actions = None, *, unsafe: bool = False) -> str:
    """A plan's text after all automatic fixes.

    Args:
        plan: a plan, or its text.
        library: as for `check`.
        unsafe: also apply fixes that guess at the meaning.

    Raises:
        InputError: as for `check`.
    """
    source = Source("<plan>", _plan_text(plan))
    return _fix(source, _library_of(source, library), unsafe=unsafe).text


def format(plan: str | Plan) -> str:
    """A plan, or its text, in canonical form; text that is not part of the plan becomes comments.

    Raises:
        InputError: a line cannot be read.
    """
    return format_plan(Source("<plan>", _plan_text(plan)))


def _library_of(plan: Source, library: Actions) -> Library:
    """The given library; else the shipped ones that the plan's head names; else the default."""
    return as_library(library) or plan_library(plan, _load_library())


def _plan_text(plan: object) -> str:
    if isinstance(plan, Plan):
        return print_plan(plan)
    if not isinstance(plan, str):
        kind = type(plan).__name__
        raise InputError(f"{kind} is no text of a plan: give that, as Planned.source.text has it.")
    return plan


async def write_plan(
    question: str,
    *,
    library: Actions = None,
    demonstrations: Sequence[Demonstration] | str | Path | None = None,
    model: Model | str | None = None,
    store: str | Path | None = None,
    cache: bool = True,
    watch: Watch | None = None,
    began: Began | None = None,
    constrain: Mode | None = None,
    shown: int = 0,
) -> Planned:
    """Have a model write a plan. It never sees a document.

    Args:
        question: what the plan is to answer.
        library: the actions it may call; by default those Pearl ships.
        demonstrations: example plans, or the folder they are in; by default those
            Pearl ships that the library can run.
        model: the model that writes it (of `Models`, the planner), or a name that `choose_model`
            takes; by default the model that the environment names.
        store: where the run and its replies are kept: a file's path or a
            database's address; None keeps nothing.
        cache: whether to reuse the replies of earlier runs in the store.
        watch: called with a call's path and False when it starts, and True when it ends.
        began: called with the run's name once it has one.
        constrain: ``auto`` holds plans to a grammar of valid plans where the model's endpoint
            takes a grammar; ``always`` ends with an error where it takes none; ``never`` leaves
            plans free. By default the value of ``PEARL_CONSTRAIN``, or ``auto``.
        shown: the most actions that the model is shown beside the builtins: those likeliest to
            serve the question. 0 for all.

    Raises:
        InputError: the question is empty, or a setting is wrong.
        ModelError: the model gave no usable answer.
    """
    question = _question(question)
    check_whole(shown=shown)
    model = as_model(model)
    # `prepare` would refuse actions that cannot be run here; a plan that is only written may
    # call them.
    actions = as_library(library) or _load_library()
    plans = demonstrations_for(actions, demonstrations)
    write = narrowed(WritePlan(question, actions, plans), shown)
    head = heading(question, None, actions, model, len(plans))
    window = context_for(planner_of(model))
    async with open_session(
        model, head, "plan", store, context=window, cache=cache, began=began, constrain=constrain
    ) as session:
        journal, caller = session.journal, session.caller(watch)
        planned = await _write_plan(write, caller)
        if planned.plan:
            journal.decide("plan", print_plan(planned.plan))
        diagnostics = with_taken_fixes(planned.diagnostics, planned.source, actions)
        return replace(planned, diagnostics=tuple(diagnostics))


async def ask(
    document: Document,
    question: str,
    *,
    options: Sequence[str] = (),
    library: Actions = None,
    demonstrations: Sequence[Demonstration] | str | Path | None = None,
    model: Model | str | None = None,
    context: Context | Policy | None = None,
    store: str | Path | None = None,
    cache: bool = True,
    watch: Watch | None = None,
    began: Began | None = None,
    strategy: str | OwnStrategy = "pearl",
    tools: str | Sequence[OwnAction] = "",
    constrain: Mode | None = None,
    examples: int = 0,
    shown: int = 0,
    turns: bool = False,
    depth: int | None = None,
    max_cost: float | None = None,
    max_tokens: int | None = None,
) -> Answer:
    """Answer a question about a document, with evidence; by default with a plan written first.

    Args:
        document: a `Source`, or the path of a file or folder, or several.
        question: what is asked.
        options: 2 to 26 answers to choose from; the answer is mapped to one of them.
        library: as `write_plan` takes it; by default those Pearl ships for the strategy.
        demonstrations: as `write_plan` takes them; by default those Pearl ships for the strategy
            that the library can run.
        model: the model that plans and reads, or a name that `choose_model` takes; by default the
            model that the environment names. `Models` for several.
        context: how much fits a prompt, and what to do with a longer document; or only the
            latter, as a policy's name. By default `context_for` the model.
        store, cache, watch, began, constrain: as `write_plan` takes them; single steps and JSON
            replies are constrained as plans are.
        strategy: ``pearl``, ``decomp``, ``fsm1``, ``fsm2``, ``rebel`` or ``react``; the name of
            one that an installed package offers; or a function that makes your own for a question.
        tools: for ``rebel``, the path of a ``tools.toml`` with the tools that may be called,
            ``none``, or functions; empty for a search of the document.
        examples: the most worked examples that each prompt for structured output shows.
        shown: as `write_plan` takes it; for ``pearl``.
        turns: for ``fsm1`` and ``fsm2``, whether states are turns of one conversation.
        depth: how deep decompositions (``decomp``) or sub-questions (``rebel``, where 0 splits
            nothing) may nest; by default the strategy's own limit.
        max_cost: the most dollars that the calls may cost; None for no limit.
        max_tokens: the most tokens that they may read and write; None for no limit.

    Raises:
        InputError: an empty question, an unreadable document, a wrong setting.
        ModelError: the model gave no usable answer, or the next call would exceed a limit.
        RunError: a step has no output, or the strategy came to no answer.
    """
    limits = EngineLimits(max_cost=max_cost, max_tokens=max_tokens)
    model = as_model(model)
    settings = StrategySettings(limits=limits_within(depth), shown=shown, turns=turns)
    planner = planner_of(model).name
    chosen = as_tools(tools)
    prepared = prepare(strategy, planner, as_library(library), demonstrations, settings, chosen)
    model = with_library(model, (prepared.library,))
    question, source = _question(question), await _read(document)
    check_options(options)
    head = heading(question, source, prepared.library, model, prepared.demonstrated, options)
    name = prepared.spec.name
    head |= {"strategy": name} if name != "pearl" else {}
    fitting = as_context(context, model)
    check_whole(examples=examples)
    refuse_unused(prepared, examples)
    opened = open_session(
        model, head, "ask", store, context=fitting, cache=cache, began=began, constrain=constrain,
        limits=limits,
    )  # fmt: skip
    async with open_tools(chosen) as toolbox, opened as session:
        cached = cached_tools(toolbox, session, question) if toolbox else None
        session = replace(session, examples=examples)
        return await answer(prepared, question, source, options, session, watch, cached)


async def run(
    plan: str | Plan | Planned,
    document: Document,
    *,
    options: Sequence[str] = (),
    library: Actions = None,
    model: Model | str | None = None,
    context: Context | Policy | None = None,
    store: str | Path | None = None,
    cache: bool = True,
    watch: Watch | None = None,
    began: Began | None = None,
    max_cost: float | None = None,
    max_tokens: int | None = None,
) -> Answer:
    """Run a plan on a document.

    Args:
        plan: a plan, its text, or the result of `write_plan`.
        document: a `Source`, or the path of a file or folder, or several.
        options: as `ask` takes them; the plan then needs a question.
        library: as for `check`.
        model, context, max_cost, max_tokens: as `ask` takes them.
        store, cache, watch, began: as `write_plan` takes them.

    Raises:
        InputError: an unreadable document, a wrong setting, options without a
            question.
        ModelError: the model gave no usable answer.
        RunError: there is no plan, it has errors, or a step has no output.
    """
    limits = EngineLimits(max_cost=max_cost, max_tokens=max_tokens)
    if isinstance(plan, Planned):
        if plan.plan is None:
            raise RunError(
                f"No plan was accepted in {counted(plan.attempts, 'attempt')}, so there is none to "
                "run: its diagnostics say why.",
                diagnostics=plan.diagnostics,
            )
        plan = plan.plan
    if not isinstance(plan, str | Plan):
        raise InputError(
            f"{type(plan).__name__} is no plan: give its text, or what write_plan gave."
        )
    parsed = parse(print_plan(plan) if isinstance(plan, Plan) else plan)
    actions = _library_of(parsed.plan.source, library)
    prepared = prepare_plan(parsed, actions)
    if options and not parsed.plan.question:
        raise InputError("Options need a question: put a line question: … at the plan's head.")
    model = with_library(as_model(model), (actions.called_by(parsed.plan),))
    question, source = parsed.plan.question, await _read(document)
    check_options(options)
    head = heading(question, source, actions, model, options=options)
    fitting = as_context(context, model)
    async with open_session(
        model, head, "run", store, context=fitting, cache=cache, began=began, limits=limits
    ) as session:
        return await answer(prepared, question, source, options, session, watch)


def as_library(library: Actions) -> Library | None:
    """A library that is given as such, or as what `load_library` takes; None for None.

    Raises:
        InputError: it cannot be loaded, some of its actions cannot be read, or would fail when
            called; the message names each.
    """
    if library is None or isinstance(library, Library):
        return library
    items = _listed(library)
    for item in items:
        if not isinstance(item, str | Path | Action | OwnAction):
            raise InputError(
                f"A library is given by its name, its file's path, or its actions, not as "
                f"{type(item).__name__}: give one of these."
            )
    names = (item.action if isinstance(item, OwnAction) else item for item in items)
    loaded = _load_library(*names)
    refuse([line for is_error, line in library_findings(loaded) if is_error])
    return loaded


def load_library(*names: str | Path | Action | OwnAction) -> Library:
    """Load action libraries; later ones override earlier ones, and the builtins are always there.

    Args:
        names: names of libraries that ship with Pearl or that a package offers, paths of files, or
            actions themselves; none means core and quality.

    Raises:
        InputError: a library is unknown, cannot be read or holds no action; or some of its actions
            cannot be read, or would fail when called. The message names each.
    """
    return as_library(names) or _load_library()


def as_tools(tools: str | Sequence[OwnAction]) -> str | tuple[Action, ...]:
    """Tools as `open_tools` takes them.

    Raises:
        InputError: one of them was not made by `action`.
    """
    if isinstance(tools, str):
        return tools
    listed = _listed(tools)
    for tool in listed:
        if not isinstance(tool, OwnAction):
            raise InputError(
                f"A tool is given as what pearl.action made, not as {type(tool).__name__}."
            )
    return tuple(tool.action for tool in listed)


def as_context(context: Context | Policy | None, model: Model) -> Context:
    """How much fits a prompt: as given, or as `context_for` the model, with the policy if named.

    Raises:
        InputError: there is no such policy, or it is no context.
    """
    if isinstance(context, str):
        return context_for(model, context)
    if not isinstance(context, Context | None):
        raise InputError(
            f"{context!r} is no context: give a policy, as chunk, or what "
            "pearl.runtime.context.Context makes, as Context(window=8192)."
        )
    return context or context_for(model)


def as_model(model: Model | str | None) -> Model:
    """A model that is given as such, or by a name that `choose_model` takes.

    Raises:
        InputError: there is no model of that name, or the object is no model.
    """
    if model is None or isinstance(model, str):
        return choose_model(model or "")
    check_model(model)
    return model


def _listed(value: object) -> list[Any]:
    """An argument that may be a single value or several, as a list."""
    return [*value] if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def _question(text: object) -> str:
    if not isinstance(text, str):
        raise InputError(f"The question is {repr(text)[:40]}: give a text.")
    question = one_line(text)
    if not question:
        raise InputError("The question is empty: write it in quotes.")
    return question


async def _read(document: Document) -> Source:
    if not isinstance(document, Source):
        return await read_in_thread(_paths(document))
    text: object = document.text
    if not isinstance(text, str):
        raise InputError(f"The text of {document.name} is {type(text).__name__}: give a text.")
    if not text.strip():
        raise InputError(f"{document.name} is empty: give a document with text in it.")
    return document


def _paths(document: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    if hasattr(document, "read") and not isinstance(document, os.PathLike):
        raise InputError("An open file is no document: give its path, or pearl.Source(name, text).")
    paths = _listed(document)
    if isinstance(document, str) and (
        "\n" in document
        or len(document) > LONGEST_PATH
        or (" " in document and not Path(document).exists())
    ):
        raise InputError(
            f"{shorten(document)} is no file: a document is given by its path; a text itself as "
            "pearl.Source(name, text)."
        )
    if not paths or not all(isinstance(path, str | os.PathLike) for path in paths):
        raise InputError(
            f"{shorten(repr(document))} is no document: give a path, several, or a Source."
        )
    return [*map(os.fsdecode, paths)]


def blocking(work: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, _T]:
    """A coroutine function as an ordinary function, which blocks until the coroutine is done.

    It also works where an event loop is running, as in a notebook; an interruption cancels the
    coroutine there.
    """

    @wraps(work)
    def wait(*args: _P.args, **options: _P.kwargs) -> _T:
        if not in_loop():
            return asyncio.run(work(*args, **options))
        stop: list[Callable[[], object]] = []

        async def working() -> _T:
            task = asyncio.ensure_future(work(*args, **options))
            stop.append(partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel))
            return await task

        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(asyncio.run, working())
            try:
                return done.result()
            except BaseException:
                # The loop is closed where the coroutine itself has failed.
                with suppress(RuntimeError):
                    for cancel in stop:
                        cancel()
                raise

    return wait


write_plan_sync = blocking(write_plan)
ask_sync = blocking(ask)
run_sync = blocking(run)
