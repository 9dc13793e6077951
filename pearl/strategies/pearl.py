"""PEARL: write the whole plan before the document is read, then execute it.

Sun et al., "PEARL: Prompting Large Language Models to Plan and Execute Actions Over Long
Documents", EACL 2024, section 2. A model writes the plan, and corrects it, up to a limit, where the
checker rejects it. This module also has demonstrations, and plans that the user wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from pathlib import Path

from pearl.lang.ast import DOCUMENT, Action, Literal, Param, Parsed, Plan, Ref, Step
from pearl.lang.builtins import read_name
from pearl.lang.diagnostics import Diagnostic, SourceFindings, errors_of
from pearl.lang.errors import InputError, LinesError
from pearl.lang.graph import outputs
from pearl.lang.library import Library, load_library
from pearl.lang.parser import parse, parse_known
from pearl.lang.printer import print_plan
from pearl.lang.rewriting import migrate
from pearl.lang.source import Source, Span, full_name, plan_folders, read_plan, shipped_plans
from pearl.lang.text import counted, free_name, one_line, pattern
from pearl.lang.values import as_text
from pearl.lint.checker import check
from pearl.lint.rules import no_steps, quoted_document, truncated_line, undefined_variable
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
from pearl.runtime.chunking import fit_plan
from pearl.runtime.context import Context, ContextError
from pearl.runtime.executor import StepFailure
from pearl.runtime.loop import Run, RunError, Steps
from pearl.runtime.planner_prompt import Planning, ask_planner, narrowed

CORRECTIONS = 7
"""How often a model may correct a plan, as in the paper's experiments."""

STEPLESS = 3
"""After so many replies in a row without a step, or with steps that call only unknown actions, no
more are asked for: the model writes no plans, or comes no closer to one."""

REPEATED = 3
"""After so many identical rejected replies in a row, no more are asked for."""

CONTINUED = 2
"""How often the model may continue a plan that was cut; then it is asked for a shorter one."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The result of planning.

    Args:
        plan: the plan, or None where every attempt was rejected.
        attempts: how many replies were read.
        source: the text of the last reply.
        diagnostics: the checker's findings in that text.
        demonstrations: how many demonstrations were shown.
    """

    plan: Plan | None
    attempts: int
    source: Source
    diagnostics: tuple[Diagnostic, ...]
    demonstrations: int

    @property
    def limited(self) -> str:
        """A sentence that says that ``PEARL_MAX_TOKENS`` cut the last reply; empty where not."""
        limit = env_number("PEARL_MAX_TOKENS")
        cut = any(finding.message == _AT_LIMIT for finding in self.diagnostics)
        return f"PEARL_MAX_TOKENS={limit} cut the plan off: set it higher." if limit and cut else ""

    def _repr_html_(self) -> str:
        """For a notebook: the plan as a drawing, or why there is none."""
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
        write: the request for a new plan.
        caller: asks the model; its journal records ignored text and rejected plans.
        first: the first request; by default ``write``.
        asked: calls that failed before, to which this function adds its own.

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
            # A model that reached its limit before it wrote anything may write a plan next time;
            # after an empty reply it was asked again already.
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
        findings = (*check(parsed, write.library), *_misnamed_documents(parsed, write))
        begun = source.text[: source.text.rfind("\n") + 1]
        if not reply.complete and continued < CONTINUED and parse(begun).plan.steps:
            continued += 1
            decide(f"plan/{attempt}/cut", "The reply was cut at its token limit: to be continued.")
            call, rest = ContinuePlan(write, begun), source.text[len(begun) :]
            continue
        if not reply.complete:
            # Even a cut plan that parses may lack steps; finishing its last line would not help.
            others = (found for found in findings if found.code != truncated_line.RULE.code)
            end = len(reply.text)
            place, shorter = Span(max(0, end - 1), end), "Write a shorter plan."
            findings = (*others, truncated_line.RULE(place, _AT_LIMIT, help=shorter))
        if stopped:
            findings = (no_steps.RULE(Span(0, 0), f"There is no step. {stopped}"),)
        errors = errors_of(findings)
        if not errors:
            plan = replace(parsed.plan, question=write.question)
            return Planned(plan, attempt, source, findings, len(write.demonstrations))
        from pearl.lint.render import prompt

        complaint = prompt.render(SourceFindings(source, errors), write.library, codes)
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
"""Text that looks like a call; a numbered line without a call is no step."""


def _fault(parsed: Parsed, library: Library) -> str:
    """What is wrong with a reply as a whole; empty where a step calls an existing action, or a
    step that cannot be read may do so."""
    lines = (parsed.plan.source.at(line.span) for line in parsed.broken if line.kind == "step")
    if any(map(_CALL.search, lines)):
        return ""
    callable_actions = library.with_declared(parsed.plan.declares)
    if any(callable_actions.get(step.action) for step in parsed.plan.steps):
        return ""
    return "call only actions that do not exist" if parsed.plan.steps else "have no step"


def _why_to_stop(rejected: Sequence[tuple[str, str]]) -> str:
    """Why no further correction is asked for, given the replies so far with the fault of each as a
    whole, if it has one; empty where one is."""
    faults = [fault for _, fault in rejected[-STEPLESS:]]
    if len(faults) == STEPLESS and faults[0] and len({*faults}) == 1:
        return f"{STEPLESS} replies in a row {faults[0]}."
    texts = [text for text, _ in rejected[-REPEATED:]]
    if len(texts) == REPEATED and len({*texts}) == 1:
        return f"{REPEATED} replies in a row are the same."
    return ""


def _misnamed_documents(parsed: Parsed, write: WritePlan) -> Iterator[Diagnostic]:
    """An error for each unknown document that a plan names, and for each that it names without
    ``CTX``. There are no names of documents where there is one, which plans do not name."""
    names, library = write.documents, write.library.with_declared(parsed.plan.declares)
    for step in parsed.plan.steps if names else ():
        for arg in (arg for arg in step.args if isinstance(arg, Literal)):
            name = read_name(as_text(arg.value))
            if name and not full_name(name, names):
                defined = ", ".join(f"{DOCUMENT}.{known}" for known in names)
                yield undefined_variable.RULE(
                    arg.span, f"There is no document {name}.", help=f"Defined: {defined}."
                )
        for arg in library.documents_of(step):
            full = full_name(as_text(arg.value), names)
            # The checker itself reports a name with a file's ending.
            if full and not quoted_document.names_file(arg.value):
                yield quoted_document.RULE(
                    arg.span,
                    f'"{arg.value}" is a text, and not the document.',
                    help=f'Write "{DOCUMENT}.{full}".',
                )


def _joined(call: Call, reply: str, rest: str) -> str:
    """The text of a plan whose reply may continue an earlier one that was cut.

    `ContinuePlan` holds the whole lines of the earlier reply, and ``rest`` is the beginning of the
    line that was cut, which the new reply may complete. A reply that writes the plan again from its
    first step is the whole text.
    """
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
    """A strategy that runs all steps of a given plan, and answers by PEARL's rule.

    Args:
        plan: the plan.
        checked: whether the plan was checked already, as for `Steps`.
    """

    plan: Plan
    checked: bool = False

    async def next(self, run: Run) -> Steps:
        del run
        return whole(self.plan, checked=self.checked)


def whole(plan: Plan, *, checked: bool = False) -> Steps:
    """The move that runs a whole plan and ends the run with the plan's outputs; ``checked`` as in
    `Steps`."""
    return Steps(plan.steps, plan.declares, plan.returns, last=True, checked=checked)


def shown_plans(demonstrations: Iterable[Demonstration]) -> tuple[Plan, ...]:
    """Demonstrations, each a question and a plan's text, as plans with their questions."""
    texts = (f"question: {demo.question}\n\n{demo.plan}" for demo in demonstrations)
    return tuple(parse_known(text).plan for text in texts)


ANSWER = Action(
    "ANSWER_DIRECTLY",
    (Param(DOCUMENT), Param("X")),
    doc="Answer the question X from CTX: say what CTX says and what follows from it.",
)
"""The action of the fallback, where no plan is accepted: one step that asks the question itself."""


@dataclass(frozen=True, slots=True)
class PearlStrategy:
    """Write a plan, then execute it. The fields are as in `Prepared`, its settings and `RunInputs`.

    Where the checker accepts no plan of the model's, one step answers the question directly, and
    the journal has an entry ``plan/fallback``. Where the document is given, it is first checked
    that this step would fit the window.
    """

    library: Library
    caller: Caller
    demonstrations: tuple[Demonstration, ...] = ()
    passes: tuple[str, ...] = ()
    options: bool = False
    shown: int = 0
    document: Source | None = None

    async def next(self, run: Run) -> Steps:
        if self.document is not None:
            check_fits(run.question, self.document, self.library, self.caller.context)
        documents = tuple(self.document.documents) if self.document else ()
        write = WritePlan(
            run.question,
            self.library,
            self.demonstrations,
            self.options,
            # A single document is called CTX alone.
            documents=documents if len(documents) > 1 else (),
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
    """Check, before anything is sent, that the shortest plan, `direct_plan`, fits the window.

    Raises:
        RunError: it does not fit, so no plan would.
    """
    try:
        fit_plan(direct_plan(question), 0, document, library, context)
    except ContextError as error:
        failure = StepFailure(error.step, "context", str(error))
        raise RunError(f"No plan can run: {error}", (failure,)) from None


def rewritten(plan: Plan, library: Library, passes: tuple[str, ...], journal: Journal) -> Plan:
    """A plan rewritten by these passes; the journal records what they did."""
    applied = rewrite(plan, library, passes)
    if applied.notes:
        journal.decide("plan/passes", list(applied.notes))
    return applied.plan


def direct_plan(question: str) -> Plan:
    """The plan whose one step asks the question."""
    args = (Ref(DOCUMENT), Literal(question))
    step = Step("answer", ANSWER.name, args, "Answer the question directly")
    return Plan((step,), question, (ANSWER,))


ANSWER_FROM = "ANSWER_FROM"
"""The action of ``core`` that makes one answer from several outputs."""


def with_one_answer(plan: Plan) -> Plan:
    """The plan, with a last step added that answers from its outputs where it has several.

    The question is the step's note, so that the model sees what is asked.
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
"""Folders in ``plans/``. `SHIPPED` is for the default library. Plans in `SEED` call only actions
that mining starts from, or that they declare, so that every library can run some."""

FEWEST = 5
"""With fewer demonstrations than this, those of `SEED` are shown too."""


def shipped_folder(libraries: Iterable[str], otherwise: str = SHIPPED) -> str:
    """The folder in ``plans/`` named after the first library that has one, else ``otherwise``."""
    return next((name for name in libraries if name in plan_folders()), otherwise)


def seed_demonstrations(folder: str, shipped: str) -> tuple[Source, ...]:
    """The plans to fall back on where a library can run too few demonstrations. There are none if
    the user named a folder, or if the default folder is not `SHIPPED`."""
    return load_demonstrations("", SEED) if not folder and shipped == SHIPPED else ()


def load_demonstrations(folder: str = "", shipped: str = SHIPPED) -> tuple[Source, ...]:
    """Demonstration plans.

    Args:
        folder: a folder with ``.plan`` files, as ``pearl refine`` makes it, or the
            name of one that ships with Pearl; empty for ``shipped``.
        shipped: the name of a folder in ``plans/``.

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
            plans.append(read_plan(str(file)))
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
    """The demonstrations that a planner is shown.

    Args:
        library: the actions that new plans may call.
        given: demonstrations, which are shown as they are, or the folder they are in; None or an
            empty name for those that ship for the library. Of a folder, only plans that the
            library can run are shown.
        otherwise: the folder in ``plans/`` where none has the name of a library.

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

    A demonstration with older names of the library's actions is migrated. One
    that the checker still rejects is left out, as it would teach the model
    actions that the library does not have. One that is too long for the rest
    of the budget is skipped, and the next is tried.

    Args:
        sources: plans with their question in the head.
        library: the actions the new plan may call.
        budget: tokens that all of them may take together.
        seed: more plans, which make up the number to `FEWEST` where there are fewer.
    """
    fitting = _runnable(sources, library)
    if len(fitting) < FEWEST:
        fitting += _runnable(seed, library)[: FEWEST - len(fitting)]
    texts = [f"{shown.question}\n{shown.plan}" for shown in fitting]
    # Every token is at least a byte long, so short texts need no count, for which the tokenizer
    # would take a quarter of a second to load.
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
    """The demonstrations that a library can run as they are, or migrated, each once: a question
    that was asked about many documents has as many equal plans."""
    read = (_demonstration(source, library) for source in sources)
    return [*dict.fromkeys(shown for shown in read if shown)]


@lru_cache(maxsize=256)  # Every question of a batch is shown the same plans.
def _demonstration(source: Source, library: Library) -> Demonstration | None:

    def values(node: Plan | Step) -> tuple[str, ...]:
        # Only the values of steps are shown: other comments, as in a file's head, are for people.
        return tuple(line for line in node.comments if line.startswith("# value "))

    parsed = parse_known(source)
    if errors_of(check(parsed, library)):
        parsed = parse(migrate(source, library).text)
        if errors_of(check(parsed, library)):
            return None
    if not parsed.plan.question:
        return None
    steps = tuple(replace(step, comments=values(step)) for step in parsed.plan.steps)
    plan = replace(parsed.plan, steps=steps, question="", comments=values(parsed.plan), head=())
    return Demonstration(parsed.plan.question, print_plan(plan).strip())
