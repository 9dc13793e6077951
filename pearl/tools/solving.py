"""Tools as a solver, so that a plan's steps can call them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pearl.builtins import Given
from pearl.runtime.handlers import Solve, SolverError
from pearl.tools.base import ToolError, ToolReply, Tools
from pearl.values import Pairs, Value, as_text, to_json

Told = Callable[[str, ToolReply], None]
"""Told of a reply, with the step's path; what was cut of it can be noted there."""


WRONG_INPUT = "tool-input"
"""Why a solver has no value where other arguments may mend it."""


def solver(toolbox: Tools, told: Told = lambda path, reply: None) -> Solve:
    """What calls tools for an action with ``body: solver``.

    Its arguments are a tool's name, and the call's arguments: pairs, a list of lists of two,
    or a JSON object in a text; none for a tool that needs none.

    Args:
        toolbox: the tools, of one question.
        told: told of every reply.

    Returns:
        The solver; its value is the reply's text. A call that comes to nothing
        is a `SolverError` with the tool's message; its reason is `WRONG_INPUT`
        or ``tool``.
    """

    async def solve(path: str, given: Sequence[Given]) -> Value:
        name = as_text(given[0].value)
        try:
            reply = await toolbox.call(name, arguments_of(given[1].value if given[1:] else []))
        except ToolError as error:
            reason = WRONG_INPUT if error.reason == "input" else "tool"
            raise SolverError(reason, str(error)) from None
        told(path, reply)
        return reply.text

    return solve


def arguments_of(value: Value) -> Mapping[str, Any]:
    """A call's arguments, as a step gives them.

    Args:
        value: pairs, a list of lists of two, or a JSON object in a text.

    Raises:
        ToolError: it is none of these.
    """
    match value:
        case Pairs():
            return {as_text(key): to_json(one) for key, one in value}
        case list() if all(isinstance(one, list) and len(one) == 2 for one in value):
            return {as_text(one[0]): to_json(one[1]) for one in value if isinstance(one, list)}
        case str():
            try:
                found = json.loads(value)
            except (ValueError, RecursionError):
                found = None
            if isinstance(found, dict):
                return found
    raise ToolError("input", 'Give a call\'s arguments as pairs, or as {"name": value} in JSON.')
