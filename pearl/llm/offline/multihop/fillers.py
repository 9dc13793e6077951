"""The schemas of multi-hop questions, each with the function that fills it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from pearl.llm.calls import FillSchema
from pearl.llm.offline.multihop import answering, rebel, states

Filler: TypeAlias = Callable[[FillSchema], Mapping[str, Any]]

MULTIHOP: Mapping[str, Filler] = MappingProxyType(
    {
        "fsm_decompose": states.decompose,
        "fsm_search": states.find,
        "fsm_revise": states.revise,
        "fsm_judge": states.judge,
        "fsm_summarise": states.summarise,
        "fsm_review": states.review,
        "short_answer": answering.short_answer,
        "answer_question": answering.normal,
        "answer_with_evidence": answering.normal_with_evidence,
        "reason_answer": answering.reasoned,
        "reason_with_evidence": answering.reasoned_with_evidence,
        "sp_cot": answering.self_prompted,
        "react_step": answering.react,
        "rebel_split": rebel.split,
        "rebel_memory": rebel.memory,
        "rebel_tool": rebel.tool,
        "rebel_input": rebel.fill_input,
        "rebel_read": rebel.read,
        "rebel_answer": rebel.answer,
    }
)
"""By the schema's name."""
