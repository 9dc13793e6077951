"""Runs steps as soon as their inputs exist, each with the values of its arguments.

Actions are carried out by the model, by builtins, by functions, by plans of their own, or by a
*solver*: an agent, a retriever, a symbolic program. A *decomposer* writes the steps of an action
while they run. The caller passes solvers and the decomposer (`Handlers`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import TypeAlias

from pearl.lang.ast import (
    DOCUMENT,
    Action,
    Arg,
    Builtin,
    Decomposed,
    Function,
    Literal,
    Mode,
    Plan,
    Prompt,
    Ref,
    Solver,
    Step,
    SubPlan,
    mapped,
    refs,
    step_refs,
)
from pearl.lang.builtins import (
    FUNCTIONS,
    KINDS,
    BuiltinError,
    Given,
    is_label,
    kinds_taken,
    read_label,
    read_name,
)
from pearl.lang.graph import dependencies, outputs
from pearl.lang.library import Library
from pearl.lang.printer import print_call
from pearl.lang.source import Source
from pearl.lang.text import counted, shorten
from pearl.lang.values import (
    DecodeError,
    PartName,
    Type,
    Value,
    as_text,
    canonical_json,
    decode,
    size_of,
    split_evidence,
    to_json,
)
from pearl.models.base import FINAL, SILENT, ModelError
from pearl.models.middleware.cache import Keep
from pearl.prompts.calls import REFUSED, STEP_TASK, Call, CorrectStep, ExecuteStep
from pearl.prompts.render import render
from pearl.retrieval.terms import sentences
from pearl.retrieval.text_splitter import LabelError, part
from pearl.runtime.binding import (
    SHORT_ITEM,
    BindError,
    Item,
    Output,
    StepError,
    as_written,
    brief,
    carry_out,
    items_of,
    join_answers,
    most_characters,
    most_items,
    oversize_error,
    value_of,
)
from pearl.runtime.calls import Caller, Entry, SchemaError
from pearl.runtime.evidence import evidence_key, joined, pairs_of, quoted
from pearl.runtime.fit_to_window import fit_call


def _bind(
    step: Step, action: Action, values: Mapping[str, Value], item: Item | None, room: Room
) -> tuple[list[tuple[str, Given]], str | None]:
    """The arguments of a call, for the whole step or for one item of its list.

    They are the name and the argument for each parameter but the document, in order; beside them
    stands what the call reads: ``CTX``, the label of a part of the document, or None. A text counts
    as a label only where the action takes the document, and only if ``PARTS`` or ``DOCUMENTS`` made
    it or the plan itself has it, so that no document and no output can name a part.
    """
    # Checked before the call, as a builtin's output is about as long as its inputs.
    room.check(value_of(ref, values, item) for ref in step_refs(step) if ref.name != DOCUMENT)
    arguments: list[tuple[str, Given]] = []
    document: str | None = None
    for place, arg in enumerate(step.args):
        if isinstance(arg, Ref) and arg.name == DOCUMENT:
            document = DOCUMENT
            continue
        value = value_of(arg, values, item)
        param = action.params[place].name if place < len(action.params) else ""
        in_plan = isinstance(arg, Literal) and is_label(value)
        if param == DOCUMENT and (in_plan or isinstance(value, PartName)):
            document = str(value)
            continue
        arguments.append((param or f"S{len(arguments) + 1}", Given(arg, value)))
    return arguments, document


STEPS = 24
"""The most steps of one decomposition."""

DEPTH = 8
"""The most frames within each other."""


Solve: TypeAlias = Callable[[str, Sequence[Given]], Awaitable[Value]]
"""Answers a call, given its path in the run and its arguments. Raises `StepError`."""

Decompose: TypeAlias = "Callable[[Action, Sequence[tuple[str, Given]], Frame], Awaitable[Output]]"
"""Carries out an action by writing its steps, in a frame of its own. Raises `StepError`."""


@dataclass(frozen=True)
class Handlers:
    """Functions that carry out actions, passed by whoever starts a run.

    Args:
        solvers: functions by the name in an action's ``body: solver``.
        decompose: writes an action's steps; None where nothing does.
        depth: the most frames within each other.
        width: the most items that one step runs over, where that is less than `Room` has.
    """

    solvers: Mapping[str, Solve] = field(default_factory=lambda: MappingProxyType({}))
    decompose: Decompose | None = None
    depth: int = DEPTH
    width: int | None = None


NONE = Handlers()
"""No solvers and no decomposer."""


@dataclass
class Room:
    """The limits of the steps of one question, in all its frames.

    Args:
        width: the most items that one step runs over: ``PEARL_WIDTH``.
        characters: how many characters are left for all outputs: ``PEARL_CHARACTERS``.
    """

    width: int = field(default_factory=most_items)
    characters: int = field(default_factory=most_characters)

    def take(self, value: Value) -> None:
        """Count an output.

        Raises:
            StepError: there is no room for it.
        """
        self.characters -= self.check([value])

    def check(self, values: Iterable[Value]) -> int:
        """The size of values together, as `size_of` counts it.

        Raises:
            StepError: there is no room for them, or their lists are nested too deep.
        """
        size = size_of(values, self.characters)
        if size is None:
            raise oversize_error(self.characters)
        return size


@dataclass(frozen=True)
class Frame:
    """The frame in which the steps of a run, or of an action within it, run.

    Args:
        document: what ``CTX`` is.
        library: the actions.
        caller: asks the model; its journal's paths are below the frame's.
        handlers: the solvers and the decomposer.
        within: the calls of the frames around it, the outermost first.
        plan: the steps so far, by which prompts say where an output is from.
        room: the limits of the steps of the question, in all frames.
        cache: stores the results of functions; None where they are called each time.
        given: the parameters of the frame's action whose arguments hold nothing that a step found.
    """

    document: Source
    library: Library
    caller: Caller
    handlers: Handlers = NONE
    within: tuple[str, ...] = ()
    plan: Plan = field(default_factory=lambda: Plan(()))
    room: Room = field(default_factory=Room)
    cache: Keep | None = None
    given: frozenset[str] = frozenset()

    def enter(self, action: Action, args: Sequence[tuple[str, Given]], path: str) -> Frame:
        """The frame of a call.

        Raises:
            StepError: there are too many frames, or a frame around it has the
                same call, so that the run would never end.
        """
        called = canonical_json([action.name, [to_json(argument.value) for _, argument in args]])
        if called in self.within:
            raise StepError(
                "depth", f"{action.name} is asked what it is already at: it would never end."
            )
        if len(self.within) >= self.handlers.depth:
            raise StepError(
                "depth", f"{action.name} is more than {self.handlers.depth} calls deep."
            )
        caller = replace(self.caller, journal=self.caller.journal.under(path))
        given = frozenset(name for name, own in args if not _found([own.arg], self))
        within = (*self.within, called)
        return replace(self, caller=caller, within=within, plan=Plan(()), given=given)


REPLIES = 3
"""The most replies to a step, where none has a value of the type that is wanted."""


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Why a step has no output.

    Args:
        step: the step's name.
        reason: the `ModelError`'s reason where a call got no answer, ``reply`` where the reply has
            the wrong type, ``length`` where it was cut at its limit, ``value`` where an argument
            does not fit, ``context`` where the prompt does not fit the model's window,
            ``no-answer`` or ``solver`` where a solver gave none, ``depth`` where frames would
            never end, ``width`` where a list is too long to run over, ``size`` where outputs
            are too long together.
        cause: one sentence for a person.
    """

    step: str
    reason: str
    cause: str


_VALUE_ERRORS = (BindError, BuiltinError, LabelError)
_FAILURES = (ModelError, StepError, DecodeError, SchemaError, *_VALUE_ERRORS)
"""The errors for which a step has no output; any other is a fault of Pearl."""


_OF_ALL = FINAL | SILENT | {"rate", "calls"}
"""Reasons of failures that are those of no single item."""


def _reason(error: Exception) -> str:
    """The reason of a step's failure: the error's own, if it has one."""
    if isinstance(error, ModelError | StepError):
        return error.reason
    return "value" if isinstance(error, _VALUE_ERRORS) else "reply"


async def execute(
    frame: Frame, steps: Sequence[Step], values: Mapping[str, Value]
) -> tuple[dict[str, Value], list[StepFailure]]:
    """Run checked steps, each after those it needs, on the outputs of steps that ran before.

    Independent steps run concurrently. If a step fails, those that need it are skipped, and the
    others run.

    Returns:
        All values, old and new, and the failures.
    """
    results = dict(values)
    failures: dict[str, StepFailure] = {}
    needs = dependencies(steps)
    tasks: dict[str, asyncio.Task[None]] = {}

    async def run(step: Step) -> None:
        for name in needs[step.name]:
            await tasks[name]
        lost = next((name for name in needs[step.name] if name in failures), None)
        if lost is not None:
            cause = f"{lost} has no output"
            failures[step.name] = StepFailure(step.name, failures[lost].reason, cause)
            path = f"step/{step.name}"
            frame.caller.journal.record(Entry("decision", path, status="skipped", cause=cause))
            return
        try:
            value, quotes = await _output(step, results, frame)
            results[step.name] = value
            frame.caller.journal.decide(f"value/{step.name}", to_json(value))
            if quotes is not None:
                results[evidence_key(step.name)] = quotes
                frame.caller.journal.decide(f"evidence/{step.name}", to_json(quotes))
        except _FAILURES as error:
            failures[step.name] = StepFailure(step.name, _reason(error), str(error))

    async with asyncio.TaskGroup() as group:
        for step in steps:
            tasks[step.name] = group.create_task(run(step))
    return results, [failures[step.name] for step in steps if step.name in failures]


async def _output(step: Step, values: Mapping[str, Value], frame: Frame) -> Output:
    """The output of a step: that of one call, or those of a call for each item of a list."""
    action = frame.library.get(step.action)
    if action is None:
        raise BindError(f"{step.action} is not in the library.")
    path = f"step/{step.name}"
    references = step_refs(step)
    for name in {ref.name for ref in references if ref.mode is Mode.EVIDENCE}:
        # The evidence of a step that quotes nothing, as a merge, is that of its inputs.
        behind = quoted(frame.plan, values, [name])
        lines: list[Value] = [*dict.fromkeys(quote.words for quote in behind)]
        values = {**values, evidence_key(name): lines}

    async def call(item: Item | None, path: str) -> Output:
        output = await _run_call(step, action, values, item, path, frame)
        frame.room.take(output.value)
        return output

    ref = mapped(references)
    if ref is None:
        return await call(None, path)
    items, most = items_of(ref, values), frame.room.width
    most = min(most, frame.handlers.width or most)
    if len(items) > most:
        raise StepError(
            "width",
            f"{ref.name} has {len(items):,} items, and a step runs over {most:,} at most "
            "(PEARL_WIDTH): nothing was asked.",
        )
    direct = all(brief(item.value, SHORT_ITEM) for item in items)
    items = [item._replace(direct=direct) for item in items]
    calls = (call(item, f"{path}[{at}]") for at, item in enumerate(items))
    # A failed call must not cancel the others, which are paid for.
    answers = await asyncio.gather(*calls, return_exceptions=True)
    sound: list[Output] = []
    for item, answer in zip(items, answers, strict=True):
        if isinstance(answer, _FAILURES) and _reason(answer) not in _OF_ALL:
            named = shorten(as_text(item.key), 60)
            raise StepError(_reason(answer), f"for the item {named}: {answer}") from answer
        if isinstance(answer, BaseException):
            raise answer
        sound.append(answer)
    # If a filter keeps any items, what was quoted for the others is no evidence.
    kept = [answer for answer in sound if ref.mode.startswith("where") and answer.value is True]
    quoted_lines = [answer.evidence for answer in kept or sound]
    quotes = joined(chain.from_iterable(pairs_of(each or []) for each in quoted_lines))
    nothing: Value | None = [] if sound and all(each == [] for each in quoted_lines) else None
    value = join_answers(ref.mode, items, [answer.value for answer in sound])
    return Output(value, quotes or nothing)


async def _run_call(
    step: Step,
    action: Action,
    values: Mapping[str, Value],
    item: Item | None,
    path: str,
    frame: Frame,
) -> Output:
    """The output of one call: for the whole step, or for one item of its list."""
    arguments, label = _bind(step, action, values, item, frame.room)
    inputs, handlers = [argument for _, argument in arguments], frame.handlers
    if isinstance(action.body, Solver | Function):
        # A call to a model commits the journal with its claim; these may make no such call.
        await frame.caller.journal.flush()
    match action.body:
        case Prompt():
            ref = mapped(step_refs(step)) if item else None
            if ref and ref.mode.startswith("where"):
                # A filter asks for yes or no, whatever its action returns elsewhere.
                action = replace(action, returns="bool")
            elif item is None and action.returns == "any":
                action = replace(action, returns=_wanted(step.name, frame))
            return await _run_prompt(step, action, arguments, label, values, item, path, frame)
        case Builtin(function=name):
            function = FUNCTIONS.get(name)
            if function is None:
                raise BindError(f"There is no builtin {name}: use {', '.join(FUNCTIONS)}.")
            if name == "documents":
                inputs = [Given(Ref(DOCUMENT), [*frame.document.documents])]
            names = [ref.name for ref in step_refs(step) if ref.name != DOCUMENT]
            return Output(function(inputs), [] if _quote_nothing(names, values) else None)
        case Solver(name=name):
            solve = handlers.solvers.get(name)
            if solve is None:
                solvers = ", ".join(handlers.solvers) or "none"
                raise BindError(f"{action.name} needs the solver {name}; there is {solvers}.")
            output = Output(await solve(path, inputs))
        case Function():
            output = await carry_out(action, inputs, _read_by(label, frame), frame.cache)
            if isinstance(output.evidence, list):
                output = output._replace(evidence=_with_source(output.evidence, label))
        case SubPlan(plan=plan):
            inner = frame.enter(action, arguments, path)
            start = {name: argument.value for name, argument in arguments}
            values, failures = await execute(replace(inner, plan=plan), plan.steps, start)
            if failures:
                first = failures[0]
                raise StepError(first.reason, f"its step {first.step} has no output: {first.cause}")
            ends = outputs(plan)
            results = [values[name] for name in ends]
            value = results[0] if len(results) == 1 else "\n\n".join(map(as_text, results))
            quotes = joined((quote.read, quote.words) for quote in quoted(plan, values, ends))
            nothing: Value | None = [] if _quote_nothing(ends, values) else None
            output = Output(value, quotes or nothing)
        case Decomposed():
            if handlers.decompose is None:
                raise BindError(f"{action.name} needs a decomposer: run it with one.")
            inner = frame.enter(action, arguments, path)
            output = await handlers.decompose(action, arguments, inner)
    frame.caller.journal.decide(path, to_json(output.value))
    return output


def _quote_nothing(names: Sequence[str], values: Mapping[str, Value]) -> bool:
    """Whether outputs are known to quote nothing, as those of functions: then quotation marks in
    them mean nothing."""
    return bool(names) and all(values.get(evidence_key(name)) == [] for name in names)


def _wanted(name: str, frame: Frame) -> Type:
    """The type that later steps need of an output of type ``any``, such as a list that they run
    over; ``any`` where they take all types."""
    for step in frame.plan.steps:
        for ref in step_refs(step):
            if ref.name == name and ref.maps:
                return "pairs" if ref.mode.endswith("values") else "list"
        action = frame.library.get(step.action)
        if action is None:
            continue
        params = zip(action.params, step.args, strict=False)
        args = (arg for param, arg in params if param.name != DOCUMENT)
        for arg, kinds in zip(args, kinds_taken(action), strict=False):
            types = [KINDS[kind] for kind in kinds]
            whole = isinstance(arg, Ref) and arg.name == name and not arg.mode
            if whole and not {"any", "text"}.intersection(types):
                return types[0]
    return "any"


def _found(args: Iterable[Arg], frame: Frame) -> tuple[Ref, ...]:
    """The references of arguments to what steps found. The plan's own words are left out, also
    where builtins pass them on or ``CONCAT`` joins them with findings."""
    of: dict[str, tuple[Ref, ...]] = dict.fromkeys((DOCUMENT, *frame.given), ())
    for step in frame.plan.steps:
        action = frame.library.get(step.action)
        if action and isinstance(action.body, Builtin):
            sources = _sources(step.args, of)
            joined = tuple(replace(ref, mode=Mode.PLAIN) if ref.maps else ref for ref in sources)
            concat = action.body.function == "concat"
            of[step.name] = joined if concat or not sources else (Ref(step.name),)
    return _sources(args, of)


def _sources(args: Iterable[Arg], of: Mapping[str, tuple[Ref, ...]]) -> tuple[Ref, ...]:
    """The references of arguments, each once; ``of`` has those that a name stands for."""
    sources: dict[Ref, None] = {}
    for ref in chain.from_iterable(map(refs, args)):
        inside = of.get(ref.name, (ref,))
        whole = ref.mode is Mode.PLAIN or not inside
        sources |= dict.fromkeys(inside if whole else (ref,))
    return tuple(sources)


def _read_by(label: str | None, frame: Frame) -> Source | None:
    """The text that a call reads: the document, a part of it, or none."""
    if label in (None, DOCUMENT):
        return frame.document if label else None
    # It is a label of the plan's own: see `_bind`.
    return part(frame.document, label)


async def _run_prompt(
    step: Step,
    action: Action,
    inputs: Sequence[tuple[str, Given]],
    label: str | None,
    values: Mapping[str, Value],
    item: Item | None,
    path: str,
    frame: Frame,
) -> Output:
    """The output of an action that the model carries out; after a reply of the wrong type, the
    model is told what is wrong and asked again."""
    document, omitted = _read_by(label, frame), 0.0
    # One of several documents is a whole one, of which nothing is omitted; a part is not.
    if document not in (None, frame.document) and not read_name(label or ""):
        share = len(document.text) / max(len(frame.document.text), 1)
        # A name above a part may make it longer than a short document.
        omitted = max(0.0, round(1 - share, 4))
    arguments = tuple((name, argument.value) for name, argument in inputs)
    long: dict[str, Value] = {}
    # Without a document, even short outputs are named, so that the prompt says what they are of.
    alone = not document and not (isinstance(action.body, Prompt) and action.body.examples)
    made = frozenset(step.name for step in frame.plan.steps) if alone else frozenset()
    written = tuple(as_written(own.arg, values, item, long, made) for _, own in inputs)
    steps = {step.name: step for step in frame.plan.steps} if long else {}
    named = tuple(
        (name, value, _origin(steps[maker]) if (maker := name.split()[-1]) in steps else "")
        for name, value in long.items()
    )
    # Only the offline reader uses it, for steps without a document.
    own = () if document else _found(step.args, frame)
    found = tuple(value_of(ref, values, item) for ref in own)
    call, left_out = fit_call(
        ExecuteStep(document, action, step, arguments, omitted, written, named, found),
        frame.caller.context,
    )
    if left_out:
        frame.caller.journal.decide(f"context/{path.removeprefix('step/')}", left_out)
    sources = (document.text if document else "", *(value for _, value in arguments))
    asked: list[Call] = []
    current: Call = call
    while True:
        reply = await frame.caller(current, path, asked.count(current))
        asked.append(current)
        text = reply.text
        if not reply.complete:
            text = _whole_lines(text) if read_label(label or "") else ""
            if not text or action.returns not in ("text", "any"):
                tokens = reply.usage.completion_tokens
                at = f" after {counted(tokens, 'token')}" if tokens else ""
                cause = f"the model stopped at its token limit{at}: raise PEARL_MAX_TOKENS."
                raise StepError("length", cause)
            # The other parts were paid for, and the merge has no room for longer replies.
            frame.caller.journal.decide(f"{CUT}/{path.removeprefix('step/')}", len(text))
        # Small models may repeat their prompt as the answer.
        repeated = any(
            words in text and not any(words in as_text(value) for value in sources)
            for words in ((STEP_TASK,) if current is call else (STEP_TASK, REFUSED))
        )
        try:
            if repeated:
                raise DecodeError("the model repeats what it was asked")
            value, quotes = _read(text, action, document)
        except DecodeError as error:
            if len(asked) == REPLIES:
                raise
            correction = CorrectStep(call, text, str(error))
            anew = repeated or not frame.caller.context.holds(render(correction))
            current = call if anew else correction
        else:
            return Output(value, _with_source(quotes, label) or None)


def _with_source(quotes: Sequence[Value], label: str | None) -> Value:
    """The quotes of a call, in pairs with the label of what it read where that is one of several
    documents."""
    read = label if label and read_name(label) else ""
    return joined((read, as_text(quote)) for quote in quotes)


CUT = "cut-reply"
"""The first part of the path of a decision that says how many characters of a cut reply about a
part were used; no step can have this name."""


def _whole_lines(text: str) -> str:
    """A cut text without its last line, or the last sentence of its only one; it may be empty."""
    lines, _, _ = text.rpartition("\n")
    if lines.strip():
        return lines
    whole = sentences(text)[:-1]
    return text[: whole[-1].end] if whole else ""


def _origin(step: Step) -> str:
    """What a prompt says of the origin of an output: the step's call; or, if the call refers to
    other outputs, which the prompt does not show, the step's note.
    """
    if all(ref.name == DOCUMENT for ref in step_refs(step)):
        return print_call(step).partition(" = ")[2]
    return f'the step "{step.note}"' if step.note else step.action


_TAGGED = re.compile(r"\s*<answer>\n?(.*?)\n?</answer>", re.DOTALL)


def _read(reply: str, action: Action, document: Source | None) -> tuple[Value, list[str]]:
    """The value of a reply, and its quotations; what a ``verbatim`` action copies is both. A
    `DecodeError` where it holds no value of the action's type."""
    if isinstance(action.body, Prompt) and action.body.examples:
        # In the prompt, the answers of examples stand in these tags, which models copy.
        tagged = _TAGGED.match(reply)
        reply = tagged[1] + reply[tagged.end() :] if tagged else reply
    value, quotes = decode(reply, action.returns), split_evidence(reply)[1]
    if "verbatim" in action.traits and document:
        if quotes and isinstance(value, str):
            return "\n".join(quotes), quotes
        lines = as_text(value).splitlines()
        quotes = quotes or [line for line in lines if document.find(line)]
    return value, quotes
