"""Whether a call's arguments fit its tool."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pearl.tools.base import Tool, ToolError

LONGEST_CALL = 20_000
"""Characters of a call's arguments, as JSON."""

_SHOWN = 200


def checked(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, where they fit the tool's parameters.

    Args:
        tool: the one that is called.
        arguments: JSON values by parameter. A null for a parameter that is not
            required counts as none.

    Raises:
        ToolError: they do not; all that is wrong with them is told at once.
    """
    from jsonschema import Draft202012Validator

    optional = {one.name for one in tool.parameters if not one.required}
    given = {
        name: value
        for name, value in arguments.items()
        if value is not None or name not in optional
    }
    try:
        size = len(json.dumps(given, ensure_ascii=False, allow_nan=False).encode())
    except (ValueError, TypeError, RecursionError):
        raise ToolError("input", "The arguments are no JSON that can be sent.") from None
    if size > LONGEST_CALL:
        raise ToolError("input", f"The arguments are longer than {LONGEST_CALL:,} characters.")
    wrong = sorted(
        Draft202012Validator(tool.json_schema).iter_errors(given), key=lambda one: str(one.path)
    )
    if wrong:
        told = "; ".join(
            f"{'.'.join(map(str, one.path))}: {one.message[:_SHOWN]}"
            if one.path
            else one.message[:_SHOWN]
            for one in wrong
        )
        raise ToolError("input", f"The arguments do not fit: {told}.")
    return given
