"""The values of a step's arguments, for the whole step or for each item that it runs over.

A reference stands for an earlier output; ``each``, ``where`` and ``values`` say how a list is run
over (CommaQA, section 3: select, project and filter). An action whose body is a function in Python
(`pearl.lang.functions`) is called with them here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pearl.lang.ast import (
    DOCUMENT,
    Action,
    Arg,
    Function,
    Items,
    Literal,
    Mode,
    Param,
    Ref,
    Template,
)
from pearl.lang.builtins import Given
from pearl.lang.entry_points import failure_text
from pearl.lang.functions import as_python, as_value
from pearl.lang.source import Source
from pearl.lang.values import (
    DEEPEST,
    DecodeError,
    OversizeError,
    Pairs,
    Value,
    as_text,
    digest,
    from_json,
    to_json,
    type_of,
)
from pearl.models.base import env_number
from pearl.models.middleware.cache import Keep
from pearl.runtime.evidence import evidence_key


class BindError(Exception):
    """A reference whose value does not fit its mode."""


class StepError(Exception):
    """A step that has no output.

    Args:
        reason: as in `StepFailure`: of a solver, ``no-answer`` where it cannot answer the question,
            and ``solver`` where it failed.
        message: one sentence for a person.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Output(NamedTuple):
    """A step's output, and the list of lines that it quotes as evidence, in pairs with the document
    where it read one of several; None where these are not known, and may stand in the output's own
    words."""

    value: Value
    evidence: Value | None = None


class Item(NamedTuple):
    """One item of the list that the step maps.

    Args:
        key: its key in the result.
        value: its value in the step's arguments.
        direct: whether all items of the list are short enough to stand in the arguments' texts.
    """

    key: Value
    value: Value
    direct: bool = False


WIDTH = 500
"""The default of the most items that one step runs over."""


def most_items() -> int:
    """The most items that one step runs over: ``PEARL_WIDTH``, or `WIDTH`."""
    return env_number("PEARL_WIDTH") or WIDTH


CHARACTERS = 10_000_000
"""The most characters of the outputs of a question's steps together."""


def most_characters() -> int:
    """The same, as a user may set it: ``PEARL_CHARACTERS``, or `CHARACTERS`."""
    return env_number("PEARL_CHARACTERS") or CHARACTERS


def oversize_error(left: int) -> StepError:
    """The error of an output for which there is no room; ``left`` characters are left."""
    return StepError(
        "size",
        f"it is too long, or too deep: {left:,} characters are left of what the outputs of a "
        "question have together at most (PEARL_CHARACTERS sets more, and what a store keeps is "
        f"not asked again), and lists stand {DEEPEST} deep.",
    )


def items_of(ref: Ref, values: Mapping[str, Value]) -> list[Item]:
    """The items that a step runs over, for a reference with a mode.

    Raises:
        BindError: the value has no items of the kind that the mode needs.
    """
    value = value_of(ref, values, None)
    if ref.mode in (Mode.EACH_VALUES, Mode.WHERE_VALUES):
        if not isinstance(value, Pairs):
            raise BindError(f"{ref.mode} {ref.name} needs pairs, and it is {type_of(value)}.")
        return [Item(key, item) for key, item in value]
    if not isinstance(value, list):
        raise BindError(f"{ref.mode} {ref.name} needs a list, and it is {type_of(value)}.")
    return [Item(item, item) for item in value]


def join_answers(mode: Mode, items: Sequence[Item], answers: Sequence[Value]) -> Value:
    """The answers to the items as one value.

    ``each`` gives pairs of key and answer; ``where`` keeps the items, and
    ``where values`` the pairs, whose answer is yes.

    Raises:
        BindError: a filter's answer is neither yes nor no.
    """
    both = zip(items, answers, strict=True)
    if mode in (Mode.EACH, Mode.EACH_VALUES):
        return Pairs(tuple((item.key, answer) for item, answer in both))
    wrong = next((answer for answer in answers if not isinstance(answer, bool)), None)
    if wrong is not None:
        raise BindError(f"A filter needs yes or no, and was given {type_of(wrong)}.")
    passing = [item for item, answer in both if answer is True]
    if mode is Mode.WHERE_VALUES:
        return Pairs(tuple((item.key, item.value) for item in passing))
    return [item.value for item in passing]


def value_of(arg: Arg, values: Mapping[str, Value], item: Item | None) -> Value:
    """An argument's value; a reference whose items the step runs over stands for the item."""
    match arg:
        case Ref(mode=Mode.EVIDENCE):
            return values.get(evidence_key(arg.name), [])
        case Ref():
            if arg.maps and item is not None:
                return item.value if arg.mode.endswith("values") else item.key
            if arg.name not in values:
                inside = "stands inside an argument: make it one of its own."
                missing = f"is given nothing, or the document, which only {DOCUMENT} can be."
                raise BindError(f"{arg.name} {inside if arg.name == DOCUMENT else missing}")
            return values[arg.name]
        case Literal():
            return arg.value
        case Items():
            return [value_of(inner, values, item) for inner in arg.items]
        case Template():
            return "".join(
                part if isinstance(part, str) else as_text(value_of(part, values, item))
                for part in arg.parts
            )


SHORT = 12
"""The most words of a value that stands in an argument's text; a longer one is named there."""

SHORT_ITEM = 30
"""The same for the longest item of a list that a step runs over, so that all items stand alike."""


def brief(value: Value, most: int) -> bool:
    """Whether a value is one line of at most ``most`` words."""
    text = as_text(value)
    return "\n" not in text and len(text.split()) <= most and not isinstance(value, Pairs)


def as_written(
    arg: Arg,
    values: Mapping[str, Value],
    item: Item | None,
    long: dict[str, Value],
    named: Collection[str] = (),
) -> str:
    """An argument as a prompt shows it: short values in place, longer ones by name.

    Args:
        arg: the argument.
        values: outputs of steps that ran before.
        item: the item that the step runs over.
        long: each value that the text only names, in brackets, is added here under its name.
        named: outputs that the text also names where they are whole arguments, however short.
    """
    match arg:
        case Ref():
            value = value_of(arg, values, item)
            in_place = (arg.maps or arg.name not in named) and brief(value, SHORT)
            if item.direct if arg.maps and item and value is item.value else in_place:
                return as_text(value)
            kind = "evidence of " if arg.mode is Mode.EVIDENCE else "one of " if arg.maps else ""
            name = f"{kind}{arg.name}"
            long[name] = value
            return f"[{name}]"
        case Literal():
            return as_text(arg.value)
        case Items():
            return "\n".join(as_written(inner, values, item, long, named) for inner in arg.items)
        case Template():
            return "".join(
                part if isinstance(part, str) else as_written(part, values, item, long)
                for part in arg.parts
            )


# --- functions in Python ---


async def carry_out(
    action: Action, args: Sequence[Given], document: Source | None, cache: Keep | None
) -> Output:
    """Call an action's function.

    Args:
        action: an action whose body is a `Function`.
        args: the arguments in order, without the document.
        document: the document that the call reads; None where it reads none.
        cache: has earlier results of actions with the trait ``cacheable`` or ``pure``; others are
            called each time.

    Raises:
        StepError: an argument or the result has the wrong type, or the function failed.
    """
    assert isinstance(action.body, Function)
    arguments, function = _arguments(action, [arg.value for arg in args], document), action.body

    async def run() -> Any:  # noqa: ANN401 - JSON
        most = most_characters()
        try:
            result = await call(function.call, *arguments)
            # The result may be of the user's own class, with methods that raise or never end.
            value = await call(as_value, result, most)
        except OversizeError:
            message = f"its result is too deep, or has more than {most:,} characters"
            raise StepError("size", f"{message} (PEARL_CHARACTERS sets more).") from None
        except DecodeError as error:
            raise StepError("value", f"{action.name}: {error}") from None
        except BaseException as error:
            if is_interruption(error):
                raise
            raise StepError("solver", f"{action.name} failed: {failure_text(error)}") from error
        if action.returns not in ("any", kind := type_of(value)):
            message = f"{action.name} is to give {action.returns}, and gave {kind}."
            raise StepError("value", message)
        return to_json(value)

    if cache and not action.traits.isdisjoint(("cacheable", "pure")):
        inputs = [to_json(arg.value) for arg in args], document and document.digest
        key = digest(["function", function.name, function.digest, *inputs])
        value = from_json(await cache(key, f"function {action.name}", run))
    else:
        value = from_json(await run())
    if not document or "verbatim" not in action.traits:
        return Output(value, [])
    return Output(value, [line for line in as_text(value).splitlines() if document.find(line)])


async def call(function: Callable[..., object], *arguments: object) -> Any:  # noqa: ANN401
    """The result of a user's function; one that is not a coroutine function runs in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)

    def called() -> object:
        try:
            return function(*arguments)
        except StopIteration:
            # A future cannot hold it, and the caller would wait for ever.
            raise RuntimeError("it raised StopIteration") from None

    return await asyncio.to_thread(called)


def is_interruption(error: BaseException) -> bool:
    """Whether an exception from a user's function is no failure of the function: Ctrl-C, or the
    cancellation of the task that called it."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt)


def _arguments(action: Action, values: list[Value], document: Source | None) -> list[object]:
    """The Python arguments of a call, the document's text among them."""
    arguments: list[object] = []
    for at, param in enumerate(action.params):
        if param.name == DOCUMENT:
            if document is None:
                raise StepError("value", f"{action.name} reads the document: give it {DOCUMENT}.")
            arguments.append(document.text)
            continue
        rest = action.variadic and at == len(action.params) - 1
        for _ in range(len(values) if rest else 1):
            if not values:
                raise StepError("value", f"{action.name} is given nothing for {param.name}.")
            arguments.append(_as_python(param, values.pop(0)))
    return arguments


def _as_python(param: Param, value: Value) -> object:
    if param.type == "text":
        return as_text(value)
    if param.type not in ("any", kind := type_of(value)):
        raise StepError("value", f"{param.name} is to be {param.type}, and is {kind}.")
    try:
        return as_python(value)
    except DecodeError as error:
        raise StepError("value", f"{param.name}: {error}") from None
