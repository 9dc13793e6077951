"""Runs steps as soon as their inputs exist."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pearl.builtins import FUNCTIONS, BuiltinError
from pearl.context import UNLIMITED, Context, ContextError, LabelError, fit_call, part
from pearl.graph import dependencies
from pearl.library import Library
from pearl.llm import Call, ExecuteStep, ModelError, Reply
from pearl.plan import DOCUMENT, Action, Builtin, Ref, Step
from pearl.runtime.bind import BindError, Bound, Item, bound, items_of, mapped
from pearl.runtime.journal import Entry, Journal
from pearl.source import Source
from pearl.values import DecodeError, Pairs, Value, decode, to_json

SAMPLES = 3
"""Replies that are read in all where they hold no value of the kind that is wanted."""


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Why a step has no output.

    Args:
        step: the step's name.
        reason: the call's (`ModelError`) where it got no answer, ``reply`` where it got one
            of the wrong type, ``value`` where an input does not fit, ``context``
            where the prompt does not fit the model's window.
        cause: one sentence for a person.
    """

    step: str
    reason: str
    cause: str


@dataclass(frozen=True)
class Executor:
    """What executing a step needs.

    Args:
        document: what ``CTX`` is.
        library: the actions, the plan's own among them.
        ask: puts a call to the model; the number says which sample is wanted.
        journal: where outputs of builtins and skipped steps are written.
        context: the model's window, and what to do where a prompt is longer.
    """

    document: Source
    library: Library
    ask: Callable[[Call, str, int], Awaitable[Reply]]
    journal: Journal
    context: Context = UNLIMITED

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
                self.journal.record(Entry("decision", path, status="skipped", cause=cause))
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

        async with asyncio.TaskGroup() as group:
            for step in steps:
                tasks[step.name] = group.create_task(one(step))
        return known, [failures[step.name] for step in steps if step.name in failures]

    async def _step(self, step: Step, values: Mapping[str, Value]) -> Value:
        action = self.library.get(step.action)
        if action is None:
            raise BindError(f"{step.action} is not in the library.")
        ref = mapped(step)
        if ref is None:
            value = await self._once(step, action, values, None, f"step/{step.name}")
        else:
            items = items_of(ref, values)
            answers = await asyncio.gather(
                *(
                    self._once(step, action, values, item, f"step/{step.name}[{at}]")
                    for at, item in enumerate(items)
                ),
                # One that fails must not cut the others off, which are paid for.
                return_exceptions=True,
            )
            value = _together(ref, items, [_sound(answer) for answer in answers])
        self.journal.decide(f"value/{step.name}", to_json(value))
        return value

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
        if isinstance(action.body, Builtin):
            function = FUNCTIONS.get(action.body.function)
            if function is None:
                known = ", ".join(FUNCTIONS)
                raise BindError(f"There is no builtin {action.body.function}: use {known}.")
            return function([one for _, one in given.arguments])
        # A filter asks yes or no, whatever its action tells elsewhere.
        returns = "bool" if item is not None and _filters(step) else action.returns
        call, left_out = fit_call(
            self._call(step, replace(action, returns=returns), given), self.context
        )
        if left_out:
            self.journal.decide(f"context/{path.removeprefix('step/')}", left_out)
        return await self._decoded(call, path)

    async def _decoded(self, call: ExecuteStep, path: str) -> Value:
        """A reply as a value; one of the wrong kind is asked for again."""
        sample = 0
        while True:
            reply = await self.ask(call, path, sample)
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
            return ExecuteStep(self.document, action, step, arguments)
        # Only the plan's own labels come here: see `bound`.
        read = part(self.document, given.document)
        omitted = 1 - len(read.text) / max(len(self.document.text), 1)
        return ExecuteStep(read, action, step, arguments, round(omitted, 4))


def _sound(answer: Value | BaseException) -> Value:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _filters(step: Step) -> bool:
    ref = mapped(step)
    return ref is not None and ref.mode.startswith("where")


def _together(ref: Ref, items: Sequence[Item], answers: Sequence[Value]) -> Value:
    """The step's value: pairs for ``each``, the kept items for ``where``."""
    if ref.mode.startswith("each"):
        return Pairs(tuple((item.key, answer) for item, answer in zip(items, answers, strict=True)))
    kept = [item for item, answer in zip(items, answers, strict=True) if answer is True]
    if ref.mode == "where values":
        return Pairs(tuple((item.key, item.value) for item in kept))
    return [item.value for item in kept]
