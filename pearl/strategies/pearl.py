"""PEARL: write the whole plan before the document is read, then execute it.

Sun et al., "PEARL: Prompting Large Language Models to Plan and Execute Actions Over Long
Documents", EACL 2024, section 2. A model writes the plan; one that the checker rejects is
corrected, up to a limit. Demonstrations, and plans that somebody wrote, stand here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from pathlib import Path

from pearl.lang.ast import DOCUMENT, Action, Literal, Param, Parsed, Plan, Ref, Step
from pearl.lang.builtins import read_name
from pearl.lang.diagnostics import Diagnostic, Severity, SourceFindings, has_errors
from pearl.lang.errors import InputError, LinesError
from pearl.lang.graph import outputs
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse, parse_known
from pearl.lang.printer import print_plan
from pearl.lang.rewriting import migrate
from pearl.lang.source import Source, Span, full_name, plan_folders, read_source, shipped_plans
from pearl.lang.text import counted, free_name, one_line, pattern
from pearl.lang.values import as_text
from pearl.lint.checker import check
from pearl.lint.rules import no_steps, truncated_line, undefined_variable
from pearl.models.base import ModelError, Reply, env_number
from pearl.models.tokens import count_tokens
from pearl.passes import rewrite
from pearl.prompts.calls import (
    Call,
    ContinuePlan,
    CorrectPlan,
    Demonstration,
    RefinePlan,
    WritePlan,
)
from pearl.runtime.calls import LIMITED, Caller, Journal
from pearl.runtime.context import UNLIMITED, Context, ContextError
from pearl.runtime.executor import StepFailure
from pearl.runtime.loop import Run, RunError, Steps
from pearl.runtime.parts import fit_plan
from pearl.runtime.planner_prompt import Planning, ask_planner, narrowed

CORRECTIONS = 7
"""How often a model may correct a plan, as in the paper's experiments."""

STEPLESS = 3
"""Replies in a row without a step, or all of whose steps call what is no action, after which a
model is asked for no more: it writes no plans, or comes no closer to one."""

REPEATED = 3
"""Rejected replies in a row that are one and the same after which no more are asked for."""

CONTINUED = 2
"""How often a plan whose reply was cut is continued; after that a shorter one is asked for."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What came of planning.

    Args:
        plan: the plan, or None where every attempt was rejected.
        attempts: how many replies were read.
        source: the last reply.
        diagnostics: what was found in it.
        demonstrations: how many were shown.
    """

    plan: Plan | None
    attempts: int
    source: Source
    diagnostics: tuple[Diagnostic, ...]
    demonstrations: int

    @property
    def limited(self) -> str:
        """That a limit somebody has set cut the last reply, in a sentence; else empty."""
        limit = env_number("PEARL_MAX_TOKENS")
        cut = any(finding.message == _AT_LIMIT for finding in self.diagnostics)
        return f"PEARL_MAX_TOKENS={limit} cut the plan off: set it higher." if limit and cut else ""

    def _repr_html_(self) -> str:
        """In a notebook: the plan, drawn, or why there is none."""
        if self.plan:
            return self.plan._repr_html_()
        lines = (escape(f"{finding.code} {finding.message}") for finding in self.diagnostics)
        items = "".join(f"<li>{line}</li>" for line in lines)
        return f"<p>No plan was accepted ({counted(self.attempts, 'attempt')}).</p><ul>{items}</ul>"


async def write_plan(
    write: WritePlan,
    caller: Caller,
    first: WritePlan | RefinePlan | None = None,
    asked: list[Call] | None = None,
) -> Planned:
    """Have a model write a plan. It never sees a document.

    Args:
        write: what is asked.
        caller: asks the model; its journal has what was set aside and what was rejected.
        first: what to ask to begin with; by default for a new plan.
        asked: failed calls that were made before, which these are added to.

    Raises:
        ContextError: the prompt does not fit the window; nothing was sent.
        ModelError: the model gave no usable answer.
    """
    call: Planning = first or write
    codes: frozenset[str] = frozenset()
    asked = [] if asked is None else asked
    decide = caller.journal.decide
    continued, rest, stopped = 0, "", ""
    rejected: list[tuple[str, str]] = []
    for attempt in range(1, CORRECTIONS + 2):
        try:
            call, reply = await ask_planner(caller, call, f"plan/{attempt}", asked)
        except ModelError as error:
            if error.reason not in ("length", "empty"):
                raise
            # At its limit before it said anything, it may say something the next time; for an
            # answer that was empty it has been asked again.
            reply = Reply("", complete=error.reason == "empty")
            stopped = str(error) if reply.complete else ""
            asked.append(call)
        if isinstance(call, WritePlan):
            write = call
        source = Source(f"plan/{attempt}", _joined(call, reply.text, rest))
        parsed = parse(source)
        aside = [source.at(part.span) for part in parsed.aside if part.kind != "wrapping"]
        if aside:
            decide(f"plan/{attempt}/aside", aside)
        findings = (*check(parsed, write.library), *_unknown_documents(parsed, write.documents))
        begun = source.text[: source.text.rfind("\n") + 1]
        if not reply.complete and continued < CONTINUED and parse(begun).plan.steps:
            continued += 1
            decide(f"plan/{attempt}/cut", "The reply was cut at its token limit: to be continued.")
            call, rest = ContinuePlan(write, begun), source.text[len(begun) :]
            continue
        if not reply.complete:
            # It may lack steps even where it parses; to write its last one to its end is no help.
            others = (one for one in findings if one.code != truncated_line.RULE.code)
            end = len(reply.text)
            place, shorter = Span(max(0, end - 1), end), "Write a shorter plan."
            findings = (*others, truncated_line.RULE(place, _AT_LIMIT, help=shorter))
        if stopped:
            findings = (no_steps.RULE(Span(0, 0), f"There is no step. {stopped}"),)
        errors = [finding for finding in findings if finding.severity is Severity.ERROR]
        if not errors:
            plan = replace(parsed.plan, question=write.question)
            return Planned(plan, attempt, source, findings, len(write.demonstrations))
        from pearl.lint.render import prompt

        complaint = prompt.render([SourceFindings(source, errors)], write.library, codes)
        decide(f"plan/{attempt}/rejected", [error.code for error in errors])
        cut = "" if reply.complete else "are cut at their token limit"
        fault = _fault(parsed, write.library) or cut
        rejected.append((one_line(reply.text), fault))
        if stopped := stopped or _why_to_stop(rejected):
            decide(f"plan/{attempt}/stopped", stopped)
            break
        call = CorrectPlan(write, reply.text, complaint) if reply.text.strip() else write
        codes = frozenset(error.code for error in errors)
    planned = Planned(None, attempt, source, findings, len(write.demonstrations))
    if planned.limited:
        decide(LIMITED, planned.limited)
    return planned


_AT_LIMIT = "The reply was cut at its token limit."


_CALL = pattern(r"[^\W\d]\w*\(")
"""What looks like a call; a numbered line without one is no step."""


def _fault(parsed: Parsed, library: Library) -> str:
    """What is wrong with a reply as a whole; empty where a step of it calls an action there is, or
    may once it can be read."""
    lines = (parsed.plan.source.at(line.span) for line in parsed.broken if line.kind == "step")
    if any(map(_CALL.search, lines)):
        return ""
    own = library.with_declared(parsed.plan.declares)
    if any(own.get(step.action) for step in parsed.plan.steps):
        return ""
    return "call only actions that do not exist" if parsed.plan.steps else "have no step"


def _why_to_stop(rejected: Sequence[tuple[str, str]]) -> str:
    """Why no further correction is asked for; empty where one is.

    Args:
        rejected: the replies so far, and the fault of each as a whole, if it has one.
    """
    faults = [fault for _, fault in rejected[-STEPLESS:]]
    if len(faults) == STEPLESS and faults[0] and len({*faults}) == 1:
        return f"{STEPLESS} replies in a row {faults[0]}."
    texts = [text for text, _ in rejected[-REPEATED:]]
    if len(texts) == REPEATED and len({*texts}) == 1:
        return f"{REPEATED} replies in a row are the same."
    return ""


def _unknown_documents(parsed: Parsed, names: Sequence[str]) -> Iterator[Diagnostic]:
    """Where a plan names a document that is none of several; of one document, none is named."""
    literals = (arg for step in parsed.plan.steps for arg in step.args if isinstance(arg, Literal))
    for arg in literals if names else ():
        name = read_name(as_text(arg.value))
        if name and not full_name(name, names):
            there = ", ".join(f"{DOCUMENT}.{one}" for one in names)
            yield undefined_variable.RULE(
                arg.span, f"There is no document {name}.", help=f"Defined: {there}."
            )


def _joined(call: Call, reply: str, rest: str) -> str:
    """A plan's text: what was begun before its reply was cut, and this reply; or only this one,
    where it begins anew. Where it goes on in the line that was cut, the rest of that stands
    between."""
    if not isinstance(call, ContinuePlan):
        return reply
    opening = parse(call.begun).plan.steps[0].name
    if opening in {step.name for step in parse(reply).plan.steps}:
        return reply
    apart, within = call.begun + reply, call.begun + rest + reply
    read = parse(within)
    goes_on = not read.broken and len(read.plan.steps) > len(parse(apart).plan.steps)
    return within if goes_on else apart


@dataclass(frozen=True, slots=True)
class GivenPlan:
    """All steps of a plan at once, then PEARL's answer rule.

    Args:
        plan: the plan.
        checked: as `Steps` has it.
    """

    plan: Plan
    checked: bool = False

    async def next(self, run: Run) -> Steps:
        del run
        return replace(whole(self.plan), checked=self.checked)


def whole(plan: Plan) -> Steps:
    """The move that runs a plan, and answers with what it gives."""
    return Steps(plan.steps, plan.declares, plan.returns, last=True)


def shown_plans(demonstrations: Iterable[Demonstration]) -> tuple[Plan, ...]:
    """Demonstrations, each a question and a plan's text, as plans with their questions."""
    texts = (f"question: {demo.question}\n\n{demo.plan}" for demo in demonstrations)
    return tuple(parse_known(text).plan for text in texts)


ANSWER = Action(
    "ANSWER_DIRECTLY",
    (Param(DOCUMENT), Param("X")),
    doc="Answer the question X from CTX: say what CTX says and what follows from it.",
)
"""What is left when no plan is accepted: one step that asks the question itself."""


@dataclass(frozen=True, slots=True)
class PearlStrategy:
    """Plan, then execute, with what a strategy is prepared with and started with.

    Where the model writes no plan that the checker accepts, the question is
    answered directly, by one step; the journal's ``plan/fallback`` says so. Where the document
    is known, it is looked at first whether that step fits the window.
    """

    library: Library
    caller: Caller
    demonstrations: tuple[Demonstration, ...] = ()
    passes: tuple[str, ...] = ()
    options: bool = False
    shown: int = 0
    document: Source | None = None
    context: Context = UNLIMITED

    async def next(self, run: Run) -> Steps:
        if self.document is not None:
            check_fits(run.question, self.document, self.library, self.context)
        write = WritePlan(
            run.question,
            self.library,
            self.demonstrations,
            self.options,
            documents=document_names(self.document),
        )
        planned = await write_plan(narrowed(write, self.shown), self.caller)
        written = planned.plan
        if written is None:
            self.caller.journal.decide("plan/fallback", planned.source.text)
            written = direct_plan(run.question)
        elif not self.options:
            written = with_one_answer(written)
        written = rewritten(written, self.library, self.passes, self.caller.journal)
        return whole(written)


def check_fits(question: str, document: Source, library: Library, context: Context) -> None:
    """See, before anything is paid for, that the plan that only asks the question fits the window.

    Raises:
        RunError: not even that one does.
    """
    try:
        fit_plan(direct_plan(question), 0, document, library, context)
    except ContextError as error:
        failure = StepFailure(error.step, "context", str(error))
        raise RunError(f"No plan can run: {error}", (failure,)) from None


def document_names(document: Source | None) -> tuple[str, ...]:
    """The names of the documents that a text consists of; none where it is one."""
    names = tuple(document.documents) if document else ()
    return names if len(names) > 1 else ()


def rewritten(plan: Plan, library: Library, passes: tuple[str, ...], journal: Journal) -> Plan:
    """A plan after some passes; the journal says what they did."""
    applied = rewrite(plan, library, passes)
    if applied.notes:
        journal.decide("plan/passes", list(applied.notes))
    return applied.plan


def direct_plan(question: str) -> Plan:
    """The plan that only asks the question."""
    args = (Ref(DOCUMENT), Literal(question))
    step = Step("answer", ANSWER.name, args, "Answer the question directly")
    return Plan((step,), question, (ANSWER,))


ANSWER_FROM = "ANSWER_FROM"
"""The action of ``core`` that makes one answer of several outputs."""


def with_one_answer(plan: Plan) -> Plan:
    """The plan with a last step that answers the question from its outputs, where it has several.

    The question is the step's note, which its reader sees as what is wanted.
    """
    ends = outputs(plan)
    used = {step.name for step in plan.steps} | {action.name for action in plan.declares}
    if len(ends) < 2 or ANSWER_FROM in used:
        return plan
    name = free_name("answer", used)
    last = Step(name, ANSWER_FROM, tuple(map(Ref, ends)), one_line(plan.question))
    declares = (*plan.declares, load_library("core").actions[ANSWER_FROM])
    returns = (Ref(name),) if plan.returns else ()
    return replace(plan, steps=(*plan.steps, last), declares=declares, returns=returns)


BUDGET = 3000
"""Tokens that demonstrations may take in a prompt."""

SHIPPED = "demos"
SEED = "seed"
"""Folders in ``plans/``: for the library that ships; with no actions but those that mining starts
from, or the plan's own, so that every library gets some."""

FEWEST = 5
"""Demonstrations below which those of `SEED` are shown too."""


def shipped_folder(libraries: Iterable[str], otherwise: str = SHIPPED) -> str:
    """The folder in ``plans/`` that has the name of one of the libraries, else another."""
    return next((name for name in libraries if name in plan_folders()), otherwise)


def seed_demonstrations(folder: str, shipped: str) -> tuple[Source, ...]:
    """What is shown beside demonstrations that a library can run too few of: nothing where
    somebody named a folder, or where another is shown without a name than `SHIPPED`."""
    return load_demonstrations("", SEED) if not folder and shipped == SHIPPED else ()


def load_demonstrations(folder: str = "", shipped: str = SHIPPED) -> tuple[Source, ...]:
    """Demonstration plans.

    Args:
        folder: one with ``.plan`` files, as ``pearl refine`` fills it, or the
            name of one that ships with Pearl; empty for ``shipped``.
        shipped: a folder in ``plans/``.

    Raises:
        InputError: there is no such folder, or no plan in it.
        LinesError: some of its plans cannot be read; each is named.
    """
    if folder and not Path(folder).is_dir() and folder in plan_folders():
        folder, shipped = "", folder
    if not folder:
        files = shipped_plans(shipped)
        return tuple(Source(file.name, file.read_text(encoding="utf-8")) for file in files)
    if not Path(folder).is_dir():
        raise InputError(
            f"{folder} is no folder: name one with demonstrations, make one with pearl refine, or "
            f"name one that ships: {', '.join(plan_folders())}."
        )
    plans: list[Source] = []
    wrong: list[str] = []
    for file in sorted(Path(folder).glob("*.plan")):
        try:
            plans.append(read_source(str(file), "plan"))
        except InputError as error:
            wrong.append(str(error))
    if wrong:
        raise LinesError(wrong)
    if not plans:
        raise InputError(f"{folder} holds no .plan file: make some with pearl refine.")
    return tuple(plans)


def demonstrations_for(
    library: Library, given: Sequence[Demonstration] | str | Path | None, otherwise: str = SHIPPED
) -> tuple[Demonstration, ...]:
    """What a planner is shown: the demonstrations that are given, or those of the folder that is
    named, or else those that ship for the library, as far as it can run them.

    Raises:
        InputError: there is no such folder, or a plan in it cannot be read.
    """
    if not isinstance(given, str | Path | None):
        return tuple(given)
    folder, shipped = str(given or ""), shipped_folder(library.names, otherwise)
    plans, seed = load_demonstrations(folder, shipped), seed_demonstrations(folder, shipped)
    return choose_demonstrations(plans, library, seed=seed)


def choose_demonstrations(
    sources: Iterable[Source], library: Library, budget: int = BUDGET, seed: Iterable[Source] = ()
) -> tuple[Demonstration, ...]:
    """The demonstrations that a library can run, as many as fit a budget.

    One that calls actions which the library replaces is migrated. A plan that
    the checker rejects with this library would teach the model actions it does
    not have. One that is too long for what is left of the budget makes room
    for the next.

    Args:
        sources: plans with their question in the head.
        library: the actions the new plan may call.
        budget: tokens in all.
        seed: more plans, with which fewer than `FEWEST` are made up to as many.
    """
    fitting = _runnable(sources, library)
    if len(fitting) < FEWEST:
        fitting += _runnable(seed, library)[: FEWEST - len(fitting)]
    texts = [f"{shown.question}\n{shown.plan}" for shown in fitting]
    # No token is shorter than a byte, and a vocabulary takes a quarter of a second to load.
    if sum(len(text.encode("utf-8", "replace")) for text in texts) <= budget:
        return tuple(fitting)
    chosen: list[Demonstration] = []
    for shown, text in zip(fitting, texts, strict=True):
        size = count_tokens(text)
        if size <= budget:
            budget -= size
            chosen.append(shown)
    return tuple(chosen)


def _runnable(sources: Iterable[Source], library: Library) -> list[Demonstration]:
    """The demonstrations that a library can run as they are, or migrated."""
    return [shown for source in sources if (shown := _demonstration(source, library))]


@lru_cache(maxsize=256)  # The next question, or method, is shown the same.
def _demonstration(source: Source, library: Library) -> Demonstration | None:

    def values(node: Plan | Step) -> tuple[str, ...]:
        # What a step gave; other comments, as a file's head, are for people.
        return tuple(line for line in node.comments if line.startswith("# value "))

    parsed = parse_known(source)
    if has_errors(check(parsed, library)):
        parsed = parse(migrate(source, library).text)
        if has_errors(check(parsed, library)):
            return None
    if not parsed.plan.question:
        return None
    steps = tuple(replace(step, comments=values(step)) for step in parsed.plan.steps)
    plan = replace(parsed.plan, steps=steps, question="", comments=values(parsed.plan), head=())
    return Demonstration(parsed.plan.question, print_plan(plan).strip())
