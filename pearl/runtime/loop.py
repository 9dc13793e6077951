"""The loop that every strategy shares (docs/design.md).

Next steps → check → append → execute → journal, until the strategy returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile
from types import MappingProxyType
from typing import Protocol, TypeAlias

from pearl.lang.ast import DOCUMENT, Action, Parsed, Plan, Ref, Step, step_refs
from pearl.lang.builtins import is_label
from pearl.lang.diagnostics import Diagnostic
from pearl.lang.graph import outputs
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.printer import print_plan
from pearl.lang.source import Source, full_name
from pearl.lang.values import Value, as_text
from pearl.lint.checker import Selection, check_errors
from pearl.retrieval.text_splitter import LabelError, part
from pearl.runtime.calls import SchemaError
from pearl.runtime.chunking import condense_long, fit_plan, owner
from pearl.runtime.context import ContextError
from pearl.runtime.evidence import evidence_key
from pearl.runtime.executor import Frame, StepFailure, execute

STOPPING = Selection(select=("PRL1", "PRL2", "PRL3"))
"""Rules whose findings keep a plan from running."""


class RunError(Exception):
    """A run that ended without an answer.

    Args:
        message: one line that says why and what to do.
        failures: the steps that have no output.
        diagnostics: what the checker found in the steps.
    """

    def __init__(
        self,
        message: str,
        failures: tuple[StepFailure, ...] = (),
        diagnostics: tuple[Diagnostic, ...] = (),
    ) -> None:
        super().__init__(message)
        self.failures = failures
        self.diagnostics = diagnostics


@dataclass(frozen=True, slots=True)
class Run:
    """A run so far, as a strategy sees it.

    Args:
        question: what is asked.
        plan: the steps that were appended, in order.
        values: the outputs of those that ran.
        failed: why the last move, an `Attempt`, failed; None where it did not.
    """

    question: str
    plan: Plan
    values: Mapping[str, Value]
    failed: RunError | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """A strategy's move: append these steps, and run them.

    Args:
        steps: the steps, in an order in which inputs come first.
        declares: actions that only this run has.
        returns: the outputs that are the answer, if the plan is to have a return line.
        aside: names of earlier steps that led nowhere: they are removed from the plan, and stay in
            the journal.
        last: whether the plan's output is then the answer.
        checked: whether the checker has found no error in them, as a whole plan and with the
            run's library.
    """

    steps: tuple[Step, ...]
    declares: tuple[Action, ...] = ()
    returns: tuple[Ref, ...] = ()
    aside: frozenset[str] = frozenset()
    last: bool = False
    checked: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """A strategy's move: as `Steps`, but if one of them fails, the run goes on without them.

    Then they are not part of the plan, and `Run.failed` says why.
    """

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Return:
    """A strategy's last move: these outputs, in order, are the answer."""

    outputs: tuple[str, ...]


Move: TypeAlias = Steps | Attempt | Return


class Strategy(Protocol):
    """Given the run so far: what are the next steps, or what is the answer?"""

    async def next(self, run: Run) -> Move:
        """The next move.

        Raises:
            ModelError: the model gave no usable answer.
            RunError: there will be no answer.
            SchemaError: no reply fits its schema, so there will be no answer.
        """


@dataclass(frozen=True, slots=True)
class Finished:
    """A run with its answer.

    Args:
        plan: every step that ran.
        values: every output.
        outputs: the names of the steps that make up the answer.
        text: the answer: those outputs, a blank line between them.
        written: the plan's text.
    """

    plan: Plan
    values: Mapping[str, Value]
    outputs: tuple[str, ...]
    text: str
    written: str


async def run_strategy(strategy: Strategy, question: str, frame: Frame) -> Finished:
    """Run a strategy to its answer: a run of its own, or one action within a run.

    Args:
        strategy: writes the steps.
        question: what is asked.
        frame: the document, the actions, and the place in a run.

    Raises:
        RunError: a step was rejected, or has no output, or a prompt does not fit the window.
        ModelError: a call of the strategy itself got no usable answer.
    """
    run = Run(question, Plan(question=question), MappingProxyType({}))
    journal, written = frame.caller.journal, ""
    while True:
        try:
            move = await strategy.next(run)
        except SchemaError as error:
            raise RunError(str(error)) from None
        except ContextError as error:
            failure = StepFailure(error.step, "context", str(error))
            raise RunError(str(error), (failure,)) from None
        if isinstance(move, Attempt):
            try:
                run, written = await _append(run, Steps(move.steps), frame)
            except RunError as error:
                names = [step.name for step in move.steps]
                journal.decide("attempt/failed", {"steps": names, "cause": str(error)})
                # A trace has the last plan in the journal.
                written = print_plan(run.plan)
                journal.decide("plan", written)
                run = replace(run, failed=error)
            continue
        if isinstance(move, Steps):
            run, written = await _append(run, move, frame)
            if not move.last:
                continue
        plan, ends = run.plan, outputs(run.plan)
        if isinstance(move, Return) and ends != move.outputs:
            # By default the plan would return its unused steps, which are others.
            ends = move.outputs
            plan = replace(plan, returns=tuple(map(Ref, ends)))
            written = print_plan(plan)
            journal.decide("plan", written)
        text = "\n\n".join(as_text(run.values[name]) for name in ends)
        journal.decide("answer", {"outputs": list(ends), "text": text})
        return Finished(plan, run.values, ends, text, written)


async def _append(run: Run, move: Steps, frame: Frame) -> tuple[Run, str]:
    """Run a move's steps, and give the run with them and the text of its plan."""
    library, journal, context = frame.library, frame.caller.journal, frame.caller.context
    past = tuple(step for step in run.plan.steps if step.name not in move.aside)
    plan = replace(
        run.plan,
        steps=past + move.steps,
        declares=run.plan.declares + move.declares,
        returns=move.returns or run.plan.returns,
    )
    whole = move.checked and not past
    printed = print_plan(plan) if whole else _checked(plan, library)
    try:
        _check_labels(move.steps, library.with_declared(plan.declares), frame.document)
    except RunError:
        # So that a trace shows the plan that could not run.
        journal.decide("plan", printed)
        raise
    ran, values, start = run.plan, dict(run.values), len(past)
    failed, sizes = set[str](), dict[str, Value]()
    while True:
        limit, before = context.limit, failed
        try:
            args = plan, start, frame.document, library, context
            fitted, decision = fit_plan(*args, sizes)
        except ContextError as error:
            long = next((step for step in plan.steps if step.name == error.step), None)
            condensed = long and condense_long(
                plan, start, long, sizes, library, context, beside=True
            )
            if not condensed:
                failure = StepFailure(error.step, "context", str(error))
                raise RunError(f"Step {error.step} cannot run: {error}", (failure,)) from None
            plan, decision = condensed
            printed = _checked(plan, library)
            journal.decide("context", decision)
            continue
        if decision:
            journal.decide("context", decision)
        written = printed if fitted is plan else _checked(fitted, library)
        journal.decide("plan", written)
        # Outputs from before the window was known are kept if their steps would run unchanged.
        results = dict(run.values)
        for step in fitted.steps[len(past) :]:
            same = step in ran.steps and step.name in values
            if same and all(ref.name in results or ref.name == DOCUMENT for ref in step_refs(step)):
                for key in (step.name, evidence_key(step.name)):
                    results |= {key: values[key]} if key in values else {}
        inner = replace(frame, library=library.with_declared(fitted.declares), plan=fitted)
        pending = [step for step in fitted.steps[len(past) :] if step.name not in results]
        values, failures = await execute(inner, pending, results)
        if not failures:
            return Run(run.question, fitted, MappingProxyType(values)), written
        failed = {failure.step for failure in failures if failure.reason == "context"}
        long = next((step for step in fitted.steps if step.name in failed), None)
        known = context.limit == limit
        plan, start = _kept(plan, start, fitted, values)
        printed = _checked(plan, library)
        condensed = long and condense_long(plan, start, long, values, library, context)
        needed = {ref.name for ref in step_refs(long)} & values.keys() if long else set()
        if known and condensed:
            plan, decision = condensed
            printed = _checked(plan, library)
            journal.decide("context", decision)
        elif not failed or (known and failed == before and needed <= sizes.keys()):
            first, own = failures[0], owner(failures[0].step, plan)
            whose = "" if own == first.step else f" It is a part of the plan's step {own}."
            raise RunError(
                f"Step {first.step} has no output: {first.cause}{whose}", tuple(failures)
            )
        # Else the steps are fitted again: to the window that the endpoint has named meanwhile, or
        # to outputs that are longer than was expected.
        ran, sizes = fitted, values


def _kept(plan: Plan, start: int, fitted: Plan, values: Mapping[str, Value]) -> tuple[Plan, int]:
    """The plan with its first steps as they ran, if they have outputs, so that a document that was
    read in parts is not read again in other parts; and the number of steps that stay."""
    done = [*takewhile(lambda step: step.name in values, plan.steps[start:])]
    if not done:
        return plan, start
    names = [step.name for step in fitted.steps]
    steps = fitted.steps[: names.index(done[-1].name) + 1]
    called = {step.action for step in steps}
    added = (own for own in fitted.declares if own.name in called and own not in plan.declares)
    rest, declares = plan.steps[start + len(done) :], (*plan.declares, *added)
    return replace(plan, steps=steps + rest, declares=declares), len(steps)


def _check_labels(steps: Iterable[Step], library: Library, document: Source) -> None:
    """Check that each part, or each of several documents, that steps name exists, and that no
    document stands there by its bare name."""
    for step in steps:
        for arg in library.documents_of(step):
            text = as_text(arg.value)
            try:
                if is_label(text):
                    part(document, text)
                elif full := full_name(text, document.documents):
                    raise LabelError(
                        f'"{text}" is a text, and not the document: write "{DOCUMENT}.{full}".'
                    )
            except LabelError as error:
                failure = StepFailure(step.name, "value", str(error))
                raise RunError(f"Step {step.name} cannot run: {error}", (failure,)) from None


def _checked(plan: Plan, library: Library) -> str:
    """The plan's text; a `RunError` where the checker finds an error in it."""
    printed = print_plan(plan)
    if findings := check_errors(Parsed(plan), library, STOPPING):
        # Parsed again, so that the findings have places in the text that is shown. Errors that
        # ``noqa`` silences there count too.
        errors = tuple(check_errors(parse(printed, "plan"), library) or findings)
        names = ", ".join(library.names)
        actions = f" with the actions of {names}" if errors[0].name == "unknown-action" else ""
        raise RunError(f"The plan cannot run{actions}: {errors[0].message}", diagnostics=errors)
    return printed
