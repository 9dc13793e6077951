"""Replies in demanded form, by rules: one function a schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from pearl.llm.calls import FillSchema

Filler: TypeAlias = Callable[[FillSchema], Mapping[str, Any]]
"""What a schema is filled with, by field."""

FILLERS: Mapping[str, Filler] = MappingProxyType({})
"""By the schema's name; a new one is a function, and a line here."""


def fill(call: FillSchema) -> str:
    """Fill a schema; an empty object where there are no rules for it."""
    filler = FILLERS.get(call.schema.name)
    return json.dumps(filler(call) if filler else {}, ensure_ascii=False)
