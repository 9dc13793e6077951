"""Decomposed prompting: one step at a time, after seeing the output of the last one.

Khot et al., "Decomposed Prompting: A Modular Approach for Solving Complex
Tasks", ICLR 2023, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pearl.lang.ast import DOCUMENT, Action, Builtin, Decomposed, Parsed, Plan, Prompt
from pearl.lang.builtins import Given
from pearl.lang.diagnostics import Diagnostic, Severity
from pearl.lang.graph import sinks
from pearl.lang.library import Library
from pearl.lang.parser import parse
from pearl.lang.printer import print_call
from pearl.lang.source import Source, Span
from pearl.lang.values import as_text, one_line_json, to_json
from pearl.lint.checker import Selection, check
from pearl.lint.render import prompt
from pearl.lint.rules import duplicate_step, no_steps
from pearl.models.base import Reply
from pearl.prompts.calls import Call, CorrectPlan, Decomposition, NextStep
from pearl.runtime.binding import Output, StepError
from pearl.runtime.calls import Caller
from pearl.runtime.evidence import joined, quoted
from pearl.runtime.executor import STEPS, Frame
from pearl.runtime.loop import Return, Run, RunError, Steps, run_strategy
from pearl.runtime.planner_prompt import Planning, ask_planner
from pearl.strategies.pearl import STEPLESS, check_fits

CORRECTIONS = 3
"""How often a step that the checker rejects may be corrected."""

_STOPPING = Selection(select=("PRL1", "PRL2", "PRL3", duplicate_step.RULE.code))
"""The rules that reject a step."""


@dataclass(frozen=True, slots=True)
class Decomp:
    """Asks for the next step until the model returns an answer.

    Args:
        library: the actions that a step may call (the paper's sub-task handlers).
        caller: asks the model and writes the journal.
        demonstrations: decompositions of other questions.
        most: the most steps.
        document: the document; None to not check whether it fits the window.
    """

    library: Library
    caller: Caller
    demonstrations: tuple[Decomposition, ...] = ()
    most: int = STEPS
    document: Source | None = None

    async def next(self, run: Run) -> Steps | Return:
        """Ask for one more step.

        Raises:
            ContextError: the prompt does not fit the window; nothing was sent.
            ModelError: the model gave no usable answer.
            RunError: there are too many steps, or no reply passes the checker; or the document
                fits the window of no prompt, and no action could look passages up in it.
        """
        # An action that is neither a prompt nor a builtin may look passages up, so that the
        # document need not fit a prompt.
        readers = [
            isinstance(action.body, Prompt)
            for action in self.library.listed
            if not isinstance(action.body, Prompt | Builtin)
            or any(param.name == DOCUMENT for param in action.params)
        ]
        if self.document is not None and not run.plan.steps and readers and all(readers):
            check_fits(run.question, self.document, self.library, self.caller.context)
        number = len(run.plan.steps) + 1
        if number > self.most:
            raise RunError(
                f"The decomposition has {self.most} steps and no answer: allow more, or show the "
                "model other examples."
            )
        done = tuple(
            (print_call(step), one_line_json(to_json(run.values[step.name])))
            for step in run.plan.steps
        )
        write = NextStep(run.question, self.library, self.demonstrations, done)
        call: Planning = write
        calls: list[Call] = []
        stepless = 0
        for attempt in range(1, CORRECTIONS + 2):
            call, reply = await ask_planner(self.caller, call, f"next/{number}/{attempt}", calls)
            if isinstance(call, NextStep):
                write = call
            move, findings = _read(reply, run, self.library, number)
            if move is not None:
                return move
            codes = [finding.code for finding in findings]
            self.caller.journal.decide(f"next/{number}/{attempt}/rejected", codes)
            stepless = stepless + 1 if codes == [no_steps.RULE.code] else 0
            if stepless == STEPLESS:
                break
            complaint = prompt.render_step(Source(f"next/{number}", reply.text), findings)
            call = CorrectPlan(write, reply.text, complaint)
        advice = (
            " Name a more capable model, or use the strategy pearl, which then asks the question "
            "without a plan."
        )
        raise RunError(
            f"Step {number} was rejected {attempt} times: {findings[0].message}"
            f"{advice if stepless == STEPLESS else ''}",
            diagnostics=tuple(findings),
        )


async def decompose(action: Action, args: Sequence[tuple[str, Given]], frame: Frame) -> Output:
    """Carry out an action by a decomposition of its own, with the action's examples.

    The question is the text of the action's arguments, one per line.

    Raises:
        ModelError: the model gave no usable answer.
        StepError: the decomposition came to no answer.
    """
    assert isinstance(action.body, Decomposed)
    question = "\n".join(as_text(argument.value) for _, argument in args)
    shown = tuple(map(as_decomposition, action.body.demonstrations))
    try:
        finished = await run_strategy(Decomp(frame.library, frame.caller, shown), question, frame)
    except RunError as error:
        # The step that called the action fails, and its run decides what follows.
        reason = error.failures[0].reason if error.failures else "reply"
        raise StepError(reason, str(error)) from None
    ends = finished.outputs
    value = finished.values[ends[0]] if len(ends) == 1 else finished.text
    quotes = quoted(finished.plan, finished.values, ends)
    return Output(value, joined((quote.read, quote.words) for quote in quotes) or None)


def as_decomposition(plan: Plan) -> Decomposition:
    """A plan as an example; comments hold the values of its steps, as in a trace."""
    values: dict[str, str] = {}
    for line in (*(line for step in plan.steps for line in step.comments), *plan.comments):
        name, sign, value = line.removeprefix("#").strip().partition("=")
        if sign and name.startswith("value "):
            values[name.removeprefix("value ").strip()] = value.strip()
    return Decomposition(
        plan.question,
        tuple((print_call(step), values.get(step.name, "")) for step in plan.steps),
        tuple(ref.name for ref in plan.returns),
    )


def _read(
    reply: Reply, run: Run, library: Library, number: int
) -> tuple[Steps | Return | None, list[Diagnostic]]:
    """The move that a reply makes, or what is wrong with it."""
    names = [step.name for step in run.plan.steps]
    parsed = parse(Source(f"next/{number}", reply.text), before=names)
    steps, returns = parsed.plan.steps[:1], parsed.plan.returns
    if not steps and returns:
        unknown = [ref for ref in returns if ref.name not in run.values]
        if not unknown:
            return Return(tuple(ref.name for ref in returns)), []
    if not steps and not parsed.broken and run.plan.steps and not returns:
        # A reply that does not even try to write a step ends with the last outputs.
        return Return(sinks(run.plan.steps)), []
    every, returns = (*run.plan.steps, *steps), () if steps else returns
    plan = replace(parsed.plan, steps=every, returns=returns, question=run.question)
    # A repeated step is an error here: the model would go on repeating it.
    findings = [
        replace(finding, severity=Severity.ERROR)
        for finding in check(Parsed(plan, parsed.broken), library, _STOPPING)
        if finding.severity is Severity.ERROR or finding.code == duplicate_step.RULE.code
    ]
    if steps and not findings:
        return Steps(steps), []
    no_step = no_steps.RULE(
        Span(0, len(parsed.plan.source.text)),
        "The reply holds no step.",
        help="Write one step, or return and a name.",
    )
    return None, findings or [no_step]
