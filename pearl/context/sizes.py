"""How much of the window a step's prompt takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from pearl.context.policy import Context
from pearl.llm import ExecuteStep, FillSchema
from pearl.plan import DOCUMENT, Action, Arg, Literal, Ref, Step, Template, refs
from pearl.prompts import render
from pearl.source import Source
from pearl.syntax.printer import print_call
from pearl.values import Value, as_text

_GIVEN, _SHARE = 500, 16
"""Tokens allowed for an argument that is not known before an earlier step has run: so
many, or one in so many of a large window's."""

FINDING = 400
"""Tokens allowed for what one part gave, when it is merged with the others."""

_MARGIN = 32
"""Tokens that an endpoint puts around messages, and that texts may take more when joined."""

_TEMPLATE = 3000
"""More bytes than a step's prompt has beside what is measured here."""

_NOTHING = Source("", "")


@lru_cache(maxsize=64)
def size_of(document: Source, count: Callable[[str], int]) -> int:
    """Tokens of a document, which is counted once."""
    return count(document.text)


def rest_of(call: ExecuteStep | FillSchema, context: Context) -> int:
    """Tokens of a prompt beside the document."""
    bare = call if call.document is None else replace(call, document=_NOTHING)
    return _MARGIN + sum(context.count(message["content"]) for message in render(bare))


def fits(call: ExecuteStep, total: int, context: Context) -> bool:
    """Whether a step's prompt and its reply fit the window.

    Args:
        call: the step.
        total: tokens of its document, and of what else is not in the call yet.
        context: the window; a known one.
    """
    room = (context.window or 0) - context.reply - total
    return _at_most(call) <= room or rest_of(call, context) <= room


def _at_most(call: ExecuteStep) -> int:
    """An upper bound of `rest_of` that costs next to nothing: a token has at least one byte."""
    texts = [call.action.signature, call.action.doc, call.step.note, print_call(call.step)]
    for name, value in call.arguments:
        texts += [name, name, as_text(value)]
    return _TEMPLATE + sum(len(text.encode("utf-8", "replace")) + 16 for text in texts)


@dataclass(frozen=True, slots=True)
class Draft:
    """A step's call as far as it shows before earlier steps have run.

    Args:
        call: the call, without its document and without their outputs.
        given: tokens allowed for those outputs.
    """

    call: ExecuteStep
    given: int


def draft_of(
    step: Step, action: Action, place: int, context: Context, omitted: float = 0.0
) -> Draft:
    """What is known of a step's call before the plan runs.

    Args:
        step: the step, as a plan has it.
        action: what it calls.
        place: which argument is the document, or the findings that it merges.
        context: the window; a known one.
        omitted: above 0 for a step that reads a part.
    """
    arguments: list[tuple[str, Value]] = []
    unknown = 0
    for at, arg in enumerate(step.args):
        if at != place:
            name = action.params[at].name if at < len(action.params) else f"S{at}"
            arguments.append((name, "".join(_written(arg))))
            unknown += sum(ref.name != DOCUMENT for ref in refs(arg))
    document = _NOTHING if action.params[place].name == DOCUMENT else None
    call = ExecuteStep(document, action, step, tuple(arguments), omitted)
    return Draft(call, unknown * max(_GIVEN, (context.window or 0) // _SHARE))


def _written(arg: Arg) -> Iterator[str]:
    """What is known of an argument before the plan runs."""
    match arg:
        case Literal():
            yield as_text(arg.value)
        case Template():
            yield from (part for part in arg.parts if isinstance(part, str))
        case Ref():
            return
        case _:
            for item in arg.items:
                yield from _written(item)
                yield "\n"
