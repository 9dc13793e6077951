"""Makes calls to the model, and keeps the journal of a run.

A call is rendered, given a key, sent, and recorded before its reply is used. Decisions are recorded
too. Structured output is checked, and sent back until it fits its schema.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from pearl.models.base import (
    NOTHING,
    SILENT,
    UNUSABLE,
    Ask,
    Constraint,
    FailedTry,
    Model,
    ModelError,
    Reply,
    Request,
    Usage,
    call_key,
)
from pearl.models.constraints import Forms, constraints_of, forms_taken, held, object_schema
from pearl.models.routing import Models, model_for
from pearl.prompts.calls import (
    Call,
    CorrectFilled,
    CorrectPlan,
    ExecuteStep,
    FillSchema,
    NextStep,
    ProveForm,
    RefinePlan,
    Schema,
    WritePlan,
)
from pearl.prompts.render import document_block, render
from pearl.runtime.context import UNLIMITED, Context, ContextError
from pearl.runtime.fit_to_window import fit_fill


class Entry(NamedTuple):
    """One line of a journal.

    Args:
        kind: a call to the model, or a decision of the loop.
        path: where in the run, as ``plan/1``, ``step/ross``, ``step/born[0]``.
        value: a call's reply, unchanged, or what was decided, as JSON.
        call_key: the hash of what decides the answer; empty for decisions.
        attempt: the number of the try, counted from 1.
        status: ``done``, ``failed`` or ``skipped``.
        cause: why it failed or was skipped.
        usage: the tokens that a call took.
        seconds: how long a call took.
        kept: whether nothing was sent, because the reply was cached, another question made the
            call, or it was refused first, as by a budget or once the run had stopped.
        started: when a call, or a try at it, began, or a decision was made: seconds since 1970;
            None where that was not recorded.
        model: the name of the model that was asked, where the run has several.
    """

    kind: Literal["call", "decision"]
    path: str
    value: Any = None
    call_key: str = ""
    attempt: int = 1
    status: Literal["done", "failed", "skipped"] = "done"
    cause: str = ""
    usage: Usage = NOTHING
    seconds: float = 0.0
    kept: bool = False
    started: float | None = None
    model: str = ""


class Journal:
    """An append-only journal, in memory and, if ``write`` is given, in a store.

    Args:
        name: the run's name; empty where the journal is in memory only.
        write: gives an entry to the store.
        flush: waits until the store has committed all entries so far.
    """

    def __init__(
        self,
        name: str = "",
        write: Callable[[Entry], None] | None = None,
        flush: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.entries: list[Entry] = []
        self._write = write
        self._flush = flush

    def record(self, entry: Entry) -> None:
        """Append an entry; it is safe once `flush` has returned."""
        self.entries.append(entry)
        if self._write:
            self._write(entry)

    def decide(self, path: str, value: Any) -> None:  # noqa: ANN401 - any JSON
        """Append a decision."""
        self.record(Entry("decision", path, value, started=time.time()))

    def under(self, frame: str) -> Journal:
        """A journal whose entries are recorded here too, their paths below a frame's: ``try/2``."""

        def write(entry: Entry) -> None:
            self.record(entry._replace(path=f"{frame}/{entry.path}"))

        return Journal(self.name, write, self.flush)

    async def flush(self) -> None:
        """Wait until the store has committed every entry so far."""
        if self._flush:
            await self._flush()


Watch: TypeAlias = Callable[[str, bool], None]
"""Called with the path of each call when it starts (False) and when it ends (True)."""

CALLS = 500
"""The most calls of one question, where its steps are written one at a time."""

REFUSING = ("request", "length", "server")
"""Reasons of errors that may be caused by a constraint that an endpoint does not take."""

PROVE = "prove"
"""The first part of the path of a call that finds out which constraints a model takes."""

CONSTRAINED, UNCONSTRAINED = "constrained", "unconstrained"
"""The last part of the path of a decision on a call's constraint: its form, or why it has none."""


@dataclass(frozen=True)
class Caller:
    """Asks a model and keeps the journal.

    Args:
        ask: a model's ``answer``, alone or in the engine's layers.
        identity: everything about the model that decides its answers.
        journal: where calls and decisions are recorded.
        watch: called with the path of each call when it starts and when it ends.
        forms: the forms in which the model takes constraints; None for no constraints.
        always: whether a call fails if it should be constrained and cannot be.
        examples: the most worked examples in a prompt for structured output; 0 is zero-shot.
        models: the models of the run, where there are several; the key of each call then has the
            identity of the model that answers it.
        model: the one of them that answers, once that is known.
        context: the window of the models that read.
        planning: the window of the planner.
    """

    ask: Ask
    identity: str
    journal: Journal
    watch: Watch | None = None
    forms: Forms | None = None
    always: bool = False
    examples: int = 0
    models: Models | None = None
    model: Model | None = None
    context: Context = UNLIMITED
    planning: Context = UNLIMITED

    def window(self, call: Call) -> Context:
        """The window of the model that answers a call."""
        planner = self.models and model_for(self.models, call) is self.models.planner
        return self.planning.whole or self.planning if planner else self.context

    def shown(self, call: FillSchema) -> FillSchema:
        """The call with at most ``examples`` worked examples."""
        examples = call.schema.examples[: self.examples]
        return replace(call, schema=replace(call.schema, examples=examples))

    async def __call__(self, call: Call, path: str, sample: int = 0) -> Reply:
        """Make a call. The reply is in the journal before it is returned.

        A call that expects a plan, a step or a JSON object is constrained if the model takes
        constraints. If the model then refuses the call, it is made again without one.

        Args:
            call: what is asked.
            path: where in the run it stands.
            sample: which of several answers to the same prompt is wanted.

        Raises:
            ModelError: there is no usable answer; the journal says so too.
        """
        if self.models and not self.model:
            model = model_for(self.models, call)
            own = forms_taken(model) if self.forms else None
            caller = replace(self, model=model, identity=model.identity, forms=own)
            return await caller(call, path, sample)
        forms = self.forms
        constraint = await self._constraint(call, forms) if forms else None
        if forms is None or constraint is None:
            return await self._ask_model(call, path, sample)
        self.journal.decide(f"{path}/{CONSTRAINED}", constraint.form)
        try:
            return await self._ask_model(call, path, sample, constraint)
        except ModelError as error:
            if self.always or error.reason not in REFUSING:
                raise
            reply = await self._ask_model(call, path, sample)
            # The call succeeds without its constraint, so the constraint was the fault.
            self.journal.decide(f"{path}/{UNCONSTRAINED}", str(error))
            forms.refuse(constraint.kind)
            return reply

    async def _constraint(self, call: Call, forms: Forms) -> Constraint | None:
        """The constraint of a call, in the form that the model takes; None for none. A `ModelError`
        where the model takes no constraint, and ``always`` is set."""
        if not (forms.any or self.always):
            return None
        room = None
        if isinstance(call, WritePlan | NextStep | CorrectPlan | RefinePlan):
            room = await asyncio.to_thread(forms.room, render(held(call)))
        constraints = constraints_of(call, room)
        for constraint in constraints:
            try:
                form = await forms.form_of(constraint.kind, self._prove, anew=self.always)
            except ModelError as error:
                if error.reason not in (*SILENT, "rate"):
                    raise
                # The call itself will show whether the endpoint answers at all.
                return None
            if form:
                return replace(constraint, form=form)
        if not constraints:
            return None
        if self.always:
            raise ModelError(
                "request",
                f"The model takes no {constraints[-1].kind} that replies are held to: use "
                "--constrain auto, or a server that does.",
            )
        forms.none_taken(constraints[-1].kind)
        return None

    async def _prove(self, call: ProveForm) -> str | None:
        [proof] = constraints_of(call)
        try:
            return (await self._ask_model(call, f"{PROVE}/{call.form}", 0, proof)).text
        except ModelError as error:
            if error.reason in UNUSABLE | {"refusal", "context"} or error.status in (400, 422):
                return ""
            if error.reason in ("request", "length"):
                # The form need not be the cause: there may be no such model.
                return None
            raise

    async def _ask_model(
        self, call: Call, path: str, sample: int, constraint: Constraint | None = None
    ) -> Reply:
        messages = render(call)
        document = call.document if isinstance(call, ExecuteStep | FillSchema) else None
        # Within a conversation, the earlier turns stand before the document: nothing is shared.
        alone = not (isinstance(call, FillSchema) and call.turns)
        shared = document_block(document) if document and alone else ""
        key = plain = call_key(self.identity, messages, sample, shared)
        if constraint is not None:
            messages = render(held(call))
            key = call_key(self.identity, messages, sample, shared, constraint)
        digest = document.digest if document else ""
        name = self.model.name if self.model else ""
        settings = (sample, constraint, plain, self.model)
        request = Request(call, messages, path, key, len(shared), digest, *settings)
        began, started = time.time(), time.monotonic()
        if self.watch:
            self.watch(path, False)
        try:
            reply = await self.ask(request)
        except ModelError as error:
            spent = time.monotonic() - started
            only = FailedTry(error.reason, str(error), error.usage, spent, began)
            unsent = error.shared or not (error.sent or error.attempts)
            self._record_failed(request, error.attempts or (only,), name, kept=unsent)
            raise
        finally:
            if self.watch:
                self.watch(path, True)
        self._record_failed(request, reply.attempts, name)
        spent = round(time.monotonic() - started, 3)
        fields = (path, reply.text, reply.key or key, len(reply.attempts) + 1)
        costs: dict[str, Any] = {"usage": reply.usage, "seconds": spent, "kept": reply.kept}
        self.journal.record(Entry("call", *fields, **costs, started=began, model=name))
        return reply

    def _record_failed(
        self, request: Request, attempts: Sequence[FailedTry], model: str, *, kept: bool = False
    ) -> None:
        for number, attempt in enumerate(attempts, 1):
            cause, seconds = f"{attempt.reason}: {attempt.cause}", round(attempt.seconds, 3)
            fields, costs = (request.path, None, request.key, number), (attempt.usage, seconds)
            self.journal.record(
                Entry("call", *fields, "failed", cause, *costs, kept, attempt.started, model)
            )


def calls_made(entries: Iterable[Entry]) -> list[Entry]:
    """The successful calls of a run, without those that found out what a model takes."""
    return [entry for entry in _asked(entries) if entry.status == "done"]


def failed_calls(entries: Iterable[Entry]) -> list[Entry]:
    """The failed tries of such calls, without those that another question made or none sent."""
    return [entry for entry in _asked(entries) if entry.status == "failed" and not entry.kept]


def _asked(entries: Iterable[Entry]) -> Iterator[Entry]:
    calls = (entry for entry in entries if entry.kind == "call")
    return (entry for entry in calls if not entry.path.startswith(f"{PROVE}/"))


LIMITED = "plan/limited"
"""The path of a decision which says that a limit that a setting gives cut the last plan."""


def plan_come_to(entries: Iterable[Entry]) -> tuple[str, bool]:
    """The last plan of a run, in canonical form, whether the run has an answer or not; and whether
    it is Pearl's own fallback, which only asks the question, because no plan was accepted."""
    decided = {entry.path: entry.value for entry in entries if entry.kind == "decision"}
    return decided.get("plan/shown") or decided.get("plan", ""), "plan/fallback" in decided


def spent_by_model(entries: Iterable[Entry], name: str) -> dict[str, Usage]:
    """The tokens of calls, as `calls_made` gives them, by the model that answered; ``name`` is that
    of the run's only model. Cached replies count too."""
    spent: dict[str, Usage] = {}
    for entry in entries:
        model = entry.model or name
        spent[model] = spent.get(model, Usage()) + entry.usage
    return spent


def counting(ask: Ask, count: Callable[[], None]) -> Ask:
    """An ask that runs ``count`` before each call, which may raise an error to prevent it.

    Calls that find out which constraints a model takes are not counted.
    """

    def counted(request: Request) -> Awaitable[Reply]:
        if not isinstance(request.call, ProveForm):
            count()
        return ask(request)

    return counted


def at_most(caller: Caller, calls: int = CALLS) -> Caller:
    """A caller that fails after ``calls`` calls.

    A cached reply counts too, so that the result of a run does not depend on
    earlier ones.
    """
    spent = 0

    def count() -> None:
        nonlocal spent
        if spent == calls:
            limited = f"The question has taken its {calls} calls: allow more."
            raise ModelError("calls", limited, sent=False)
        spent += 1

    return replace(caller, ask=counting(caller.ask, count))


REVISIONS = 2
"""How often a reply that does not fit its schema is sent back."""

REJECTED = "rejected"
"""The last part of the path of a decision that a reply does not fit its schema."""

FITTED = "fitted"
"""The last part of the path of a decision that says which reply fitted, from 1; 0 for none."""

NO_OBJECT = "It holds no JSON object."
"""What is wrong with a reply that has no JSON object at all."""

Fitted = TypeVar("Fitted", bound=Call)

Check: TypeAlias = Callable[[dict[str, Any]], Sequence[str]]
"""Checks an object beyond its schema, and gives what is wrong with it, a sentence each."""


class SchemaError(Exception):
    """No reply fits its schema.

    Args:
        message: one sentence for a person.
        problems: what is wrong with the last reply, a sentence each.
        formless: the number of replies, if none held an object at all; else 0.
    """

    def __init__(self, message: str, problems: tuple[str, ...], formless: int = 0) -> None:
        super().__init__(message)
        self.problems = problems
        self.formless = formless


async def ask_fitted(
    caller: Caller,
    path: str,
    fit: Callable[[], tuple[Fitted, Any]],
    noted: str,
    sample: Callable[[Fitted], int] = lambda _: 0,
) -> tuple[Fitted, Reply]:
    """Make a call that was cut to fit the window, and a shorter one if the endpoint refuses it.

    Args:
        caller: makes the call.
        path: where in the run.
        fit: gives the call, cut to fit the window as it is known now, and what is left out, as
            JSON data.
        noted: the path of the decision that records what is left out.
        sample: which of several answers to a call is wanted.

    Returns:
        The call as it was made, and its reply.

    Raises:
        ContextError: the prompt does not fit; nothing was sent.
        ModelError: the model gave no usable answer.
    """
    fitted, cut = fit()
    while True:
        if cut:
            caller.journal.decide(noted, cut)
        try:
            return fitted, await caller(fitted, path, sample(fitted))
        except ModelError as error:
            # The refusal has said how long a prompt may be, or that it counts more tokens than us.
            before, (fitted, cut) = fitted, fit()
            if error.window is None or fitted == before:
                raise


async def fill(
    caller: Caller,
    call: FillSchema,
    path: str,
    check: Check = lambda _: (),
    revisions: int = REVISIONS,
) -> dict[str, Any]:
    """Ask for a JSON object that fits a schema.

    A reply that does not fit is sent back with what is wrong; if the window does not hold that, the
    first call is made again. The journal says which reply fitted, and what was left out of a
    document that does not fit the window.

    Args:
        caller: makes the call, and keeps the journal.
        call: what is asked.
        path: where in the run; tries stand below it.
        check: checks an object beyond its schema.
        revisions: how often a reply may be sent back.

    Raises:
        ContextError: the prompt does not fit the window; nothing was sent.
        ModelError: the model gave no usable answer.
        SchemaError: no reply fits, not even the last.
    """
    calls: list[Call] = []
    context, call = caller.window(call), caller.shown(call)
    first, left_out = fit_fill(call, context)
    if left_out:
        caller.journal.decide(f"context/{path.removeprefix('step/')}", left_out)
    current: Call = first
    # A correction shows the inputs as they were cut for the first prompt.
    call = replace(call, given=first.given)
    problems: tuple[str, ...] = ()
    formless = 0
    for attempt in range(1, revisions + 2):
        try:
            reply = await caller(current, f"{path}/{attempt}", calls.count(current))
        except Exception:
            if calls:
                caller.journal.decide(f"{path}/{FITTED}", 0)
            raise
        calls.append(current)
        reply_object, problems = read_object(reply.text, call.schema)
        if reply_object is not None:
            problems = tuple(check(reply_object))
            if not problems:
                caller.journal.decide(f"{path}/{FITTED}", attempt)
                return reply_object
        elif not reply.complete:
            problems = ("It was cut at its token limit: write a shorter one.",)
        formless += problems == (NO_OBJECT,)
        caller.journal.decide(f"{path}/{attempt}/{REJECTED}", list(problems))
        lines = "\n".join(f"- {problem}" for problem in problems)
        try:
            current, _ = fit_fill(CorrectFilled(call, reply.text, lines), context)
        except ContextError:
            current = first
    caller.journal.decide(f"{path}/{FITTED}", 0)
    # The advice is for the person who runs the model, not for the model.
    cause = problems[0]
    if not reply.complete:
        cause = "it was cut at its token limit: raise PEARL_MAX_TOKENS."
    elif problems == (NO_OBJECT,):
        cause = (
            "it holds no JSON object: name a more capable model, or one that can be held to a form "
            "(--constrain always)."
        )
    raise SchemaError(
        f"The reply to {call.schema.name} does not fit after {revisions + 1} tries: {cause}",
        problems,
        formless if formless == revisions + 1 else 0,
    )


def read_object(text: str, schema: Schema) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """The JSON object of a reply that fits a schema, or what is wrong with it.

    A code fence around the object, and words before and after it, are ignored.
    """
    value: dict[str, Any] | None = None
    # NaN and the like become texts, for which the schema reports the field.
    decoder = json.JSONDecoder(parse_constant=str)
    start = text.find("{")
    while value is None and start >= 0:
        try:
            value = decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
    if value is None:
        return None, (NO_OBJECT,)
    from jsonschema import Draft202012Validator

    fields = {field.name: json.loads(field.schema) for field in schema.fields}
    errors = Draft202012Validator(object_schema(fields)).iter_errors(value)
    problems: list[str] = []
    for error in sorted(errors, key=lambda error: [str(at) for at in error.path])[:8]:
        place, message = ".".join(map(str, error.path)), error.message
        short = message if len(message) <= 200 else f"{message[:200]}…"
        problems.append(f"{place}: {short}" if place else f"{short}.")
    return (None if problems else value), tuple(problems)
