"""Replies in demanded form, by rules: one function a schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from pearl.llm.calls import FillSchema
from pearl.llm.offline.hopping import next_hops
from pearl.llm.offline.multihop.fillers import MULTIHOP
from pearl.llm.offline.reducing import sub_questions

Filler: TypeAlias = Callable[[FillSchema], Mapping[str, Any]]
"""What a schema is filled with, by field."""

FILLERS: Mapping[str, Filler] = MappingProxyType(
    {"least_to_most": sub_questions, "next_hops": next_hops, **MULTIHOP}
)
"""By the schema's name; a new one is a function, and a line here."""


def fill(call: FillSchema) -> str:
    """Fill a schema; an empty object where there are no rules for it."""
    filler = FILLERS.get(call.schema.name)
    return json.dumps(filler(call) if filler else {}, ensure_ascii=False)
