"""Models behind one shape: any OpenAI-compatible endpoint, the offline reader, recordings."""

from pearl.llm.calls import (
    Call,
    CondenseActions,
    CorrectPlan,
    Demonstration,
    ExecuteStep,
    LabelQuestion,
    MapAnswer,
    MineActions,
    RefinePlan,
    WritePlan,
)
from pearl.llm.choose import choose_model
from pearl.llm.model import Ask, Attempt, Message, Model, ModelError, Reply, Request, Usage

__all__ = [
    "Ask",
    "Attempt",
    "Call",
    "CondenseActions",
    "CorrectPlan",
    "Demonstration",
    "ExecuteStep",
    "LabelQuestion",
    "MapAnswer",
    "Message",
    "MineActions",
    "Model",
    "ModelError",
    "RefinePlan",
    "Reply",
    "Request",
    "Usage",
    "WritePlan",
    "choose_model",
]
