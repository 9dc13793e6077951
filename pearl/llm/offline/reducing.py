"""Questions reduced to simpler ones by their form: what a relative clause says is asked first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pearl.llm.calls import FillSchema
from pearl.values import as_text

_CLAUSE = re.compile(
    r"\bthe (?P<noun>[\w-]+(?: [\w-]+)?) (?P<who>who|that|which) "
    r"(?P<says>[^?,.;]+?)(?=,|[?.;]|$| (?:has|have|had|is|are|was|were|does|do|did|say|says)\b)"
)


def sub_questions(call: FillSchema) -> Mapping[str, Any]:
    """Those of ``least_to_most``: one for each relative clause; none where there is none."""
    question = as_text(dict(call.given).get("question", ""))
    found = [f"Which {one['noun']} {one['says']}?" for one in _CLAUSE.finditer(question)]
    return {"sub_questions": found[:8]}
