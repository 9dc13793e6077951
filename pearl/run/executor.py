"""Runs steps as soon as their inputs exist.

Who carries out an action that is neither a model's nor a builtin's.

A *solver* is something beside the model: an agent, a retriever, a symbolic
program. A *decomposer* writes the steps of an action while they run. Both are
handed in; the executor knows neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from pearl.lang.ast import DOCUMENT, Action, Builtin, Decomposed, Prompt, Ref, Solver, Step, SubPlan
from pearl.lang.builtins import FUNCTIONS, BuiltinError, Given
from pearl.lang.graph import dependencies, outputs
from pearl.lang.library import Library
from pearl.lang.source import Source
from pearl.lang.values import DecodeError, Value, as_text, canonical_json, decode, to_json
from pearl.models.base import ModelError
from pearl.prompts.calls import ExecuteStep
from pearl.run.binding import BindError, Bound, Item, bound, items_of, mapped, together
from pearl.run.calls import Caller
from pearl.run.context import UNLIMITED, Context, ContextError, fit_call
from pearl.run.journal import Entry
from pearl.run.parts import LabelError, part

STEPS = 24
"""Steps of one decomposition, at most."""

DEPTH = 8
"""Frames within each other, at most."""

WIDTH = 200
"""Items that one step runs over, at most, where steps are written one at a time."""


class SolverError(Exception):
    """A solver that has no answer.

    Args:
        reason: ``no-answer`` where the question is not one it can answer,
            ``solver`` where it failed.
        message: one sentence for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class WidthError(Exception):
    """A step with ``each`` or ``where`` over more items than it may run over."""


class DepthError(Exception):
    """Frames that would never end: too many within each other, or one within itself."""


Solve: TypeAlias = Callable[[str, Sequence[Given]], Awaitable[Value]]
"""Answers a call, given its path in the run and its arguments. Raises `SolverError`."""

Decompose: TypeAlias = "Callable[[Action, Sequence[tuple[str, Given]], Frame], Awaitable[Value]]"
"""Carries out an action by writing its steps, in a frame of its own. Raises `SolverError`."""


@dataclass(frozen=True)
class Handlers:
    """What is handed in.

    Args:
        solvers: by the name that an action's ``body: solver`` gives.
        decompose: what writes an action's steps; None where nothing does.
        depth: frames within each other, at most.
        width: items that one step runs over, at most; None for any number.
    """

    solvers: Mapping[str, Solve] = field(default_factory=lambda: MappingProxyType({}))
    decompose: Decompose | None = None
    depth: int = DEPTH
    width: int | None = None


NONE = Handlers()
"""Nothing is handed in."""


@dataclass(frozen=True)
class Frame:
    """Where in a run the steps of an action run.

    Args:
        document: what ``CTX`` is.
        library: the actions.
        caller: asks the model; its journal's paths are below the frame's.
        context: the model's window.
        handlers: what is handed in.
        within: what the frames around it were called with, the outermost first.
    """

    document: Source
    library: Library
    caller: Caller
    context: Context = UNLIMITED
    handlers: Handlers = NONE
    within: tuple[str, ...] = ()

    def enter(self, action: Action, given: Sequence[tuple[str, Given]], path: str) -> Frame:
        """The frame of a call.

        Raises:
            DepthError: there are too many frames, or the call is that of a
                frame around it, which would never end.
        """
        called = canonical_json([action.name, [to_json(one.value) for _, one in given]])
        if called in self.within:
            raise DepthError(f"{action.name} is asked what it is already at: it would never end.")
        if len(self.within) >= self.handlers.depth:
            raise DepthError(f"{action.name} is more than {self.handlers.depth} calls deep.")
        caller = replace(self.caller, journal=self.caller.journal.under(path))
        return replace(self, caller=caller, within=(*self.within, called))


SAMPLES = 3
"""Replies that are read in all where they hold no value of the kind that is wanted."""


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Why a step has no output.

    Args:
        step: the step's name.
        reason: the call's (`ModelError`) where it got no answer, ``reply`` where it got one
            of the wrong type, ``value`` where an input does not fit, ``context``
            where the prompt does not fit the model's window, ``no-answer`` or
            ``solver`` where a solver has none, ``depth`` where frames would
            never end, ``width`` where a list is too long to run over.
        cause: one sentence for a person.
    """

    step: str
    reason: str
    cause: str


class StepsError(Exception):
    """Steps of an action of which one has no output."""

    def __init__(self, failure: StepFailure) -> None:
        super().__init__(f"its step {failure.step} has no output: {failure.cause}")
        self.reason = failure.reason


@dataclass(frozen=True)
class Executor:
    """Runs steps.

    Args:
        frame: where in a run, with all that steps need.
    """

    frame: Frame

    async def run(
        self, steps: Sequence[Step], values: Mapping[str, Value]
    ) -> tuple[dict[str, Value], list[StepFailure]]:
        """Run steps, independent ones side by side.

        A failed step leaves the others alone; what needs it is skipped.

        Args:
            steps: checked steps, in an order in which inputs come first.
            values: outputs of steps that ran before.

        Returns:
            All values, old and new, and what failed.
        """
        known = dict(values)
        failures: dict[str, StepFailure] = {}
        needs = dependencies(steps)
        tasks: dict[str, asyncio.Task[None]] = {}

        async def one(step: Step) -> None:
            for name in needs[step.name]:
                await tasks[name]
            lost = next((name for name in needs[step.name] if name in failures), None)
            if lost is not None:
                cause = f"{lost} has no output"
                failures[step.name] = StepFailure(step.name, failures[lost].reason, cause)
                path = f"step/{step.name}"
                self.frame.caller.journal.record(
                    Entry("decision", path, status="skipped", cause=cause)
                )
                return
            try:
                known[step.name] = await self._step(step, known)
            except ModelError as error:
                failures[step.name] = StepFailure(step.name, error.reason, str(error))
            except DecodeError as error:
                failures[step.name] = StepFailure(step.name, "reply", str(error))
            except (BindError, BuiltinError, LabelError) as error:
                failures[step.name] = StepFailure(step.name, "value", str(error))
            except ContextError as error:
                failures[step.name] = StepFailure(step.name, "context", str(error))
            except WidthError as error:
                failures[step.name] = StepFailure(step.name, "width", str(error))
            except DepthError as error:
                failures[step.name] = StepFailure(step.name, "depth", str(error))
            except (SolverError, StepsError) as error:
                failures[step.name] = StepFailure(step.name, error.reason, str(error))

        async with asyncio.TaskGroup() as group:
            for step in steps:
                tasks[step.name] = group.create_task(one(step))
        return known, [failures[step.name] for step in steps if step.name in failures]

    async def _step(self, step: Step, values: Mapping[str, Value]) -> Value:
        action = self.frame.library.get(step.action)
        if action is None:
            raise BindError(f"{step.action} is not in the library.")
        ref = mapped(step)
        if ref is None:
            value = await self._once(step, action, values, None, f"step/{step.name}")
        else:
            items = self._items(ref, values)
            answers = await asyncio.gather(
                *(
                    self._once(step, action, values, item, f"step/{step.name}[{at}]")
                    for at, item in enumerate(items)
                ),
                # One that fails must not cut the others off, which are paid for.
                return_exceptions=True,
            )
            value = together(ref.mode, items, [_sound(answer) for answer in answers])
        self.frame.caller.journal.decide(f"value/{step.name}", to_json(value))
        return value

    def _items(self, ref: Ref, values: Mapping[str, Value]) -> list[Item]:
        items, most = items_of(ref, values), self.frame.handlers.width
        if most is not None and len(items) > most:
            raise WidthError(
                f"{ref.name} has {len(items):,} items, and a step runs over {most:,} at most."
            )
        return items

    async def _once(
        self,
        step: Step,
        action: Action,
        values: Mapping[str, Value],
        item: Item | None,
        path: str,
    ) -> Value:
        """One call of the action: for the whole step, or for one item of its list."""
        given = bound(step, action, values, item)
        match action.body:
            case Prompt():
                return await self._prompted(step, action, given, item, path)
            case Builtin(function=name):
                function = FUNCTIONS.get(name)
                if function is None:
                    known = ", ".join(FUNCTIONS)
                    raise BindError(f"There is no builtin {name}: use {known}.")
                return function([one for _, one in given.arguments])
            case _:
                value = await self._handled(action, given, path)
                self.frame.caller.journal.decide(path, to_json(value))
                return value

    async def _handled(self, action: Action, given: Bound, path: str) -> Value:
        """The value of an action that a solver, or steps of its own, carry out."""
        handlers = self.frame.handlers
        match action.body:
            case Solver(name=name):
                solve = handlers.solvers.get(name)
                if solve is None:
                    known = ", ".join(handlers.solvers) or "none"
                    raise BindError(f"{action.name} needs the solver {name}; there is {known}.")
                return await solve(path, [one for _, one in given.arguments])
            case SubPlan(plan=plan):
                frame = self.frame.enter(action, given.arguments, path)
                start = {name: one.value for name, one in given.arguments}
                values, failures = await Executor(frame).run(plan.steps, start)
                if failures:
                    raise StepsError(failures[0])
                found = [values[name] for name in outputs(plan)]
                return found[0] if len(found) == 1 else "\n\n".join(map(as_text, found))
            case Decomposed():
                if handlers.decompose is None:
                    raise BindError(f"{action.name} needs a decomposer: run it with one.")
                frame = self.frame.enter(action, given.arguments, path)
                return await handlers.decompose(action, given.arguments, frame)
        raise BindError(f"{action.name} has no one to carry it out.")

    async def _prompted(
        self, step: Step, action: Action, given: Bound, item: Item | None, path: str
    ) -> Value:
        """The value of an action that the model carries out."""
        # A filter asks yes or no, whatever its action tells elsewhere.
        returns = "bool" if item is not None and _filters(step) else action.returns
        call, left_out = fit_call(
            self._call(step, replace(action, returns=returns), given), self.frame.context
        )
        if left_out:
            self.frame.caller.journal.decide(f"context/{path.removeprefix('step/')}", left_out)
        return await self._decoded(call, path)

    async def _decoded(self, call: ExecuteStep, path: str) -> Value:
        """A reply as a value; one of the wrong kind is asked for again."""
        sample = 0
        while True:
            reply = await self.frame.caller(call, path, sample)
            if not reply.complete:
                raise DecodeError("the model stopped at its token limit: raise PEARL_MAX_TOKENS.")
            try:
                return decode(reply.text, call.action.returns)
            except DecodeError:
                sample += 1
                if sample == SAMPLES:
                    raise

    def _call(self, step: Step, action: Action, given: Bound) -> ExecuteStep:
        arguments = tuple((name, one.value) for name, one in given.arguments)
        if given.document is None:
            return ExecuteStep(None, action, step, arguments)
        if given.document == DOCUMENT:
            return ExecuteStep(self.frame.document, action, step, arguments)
        # Only the plan's own labels come here: see `bound`.
        read = part(self.frame.document, given.document)
        omitted = 1 - len(read.text) / max(len(self.frame.document.text), 1)
        return ExecuteStep(read, action, step, arguments, round(omitted, 4))


def _sound(answer: Value | BaseException) -> Value:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _filters(step: Step) -> bool:
    ref = mapped(step)
    return ref is not None and ref.mode.startswith("where")
