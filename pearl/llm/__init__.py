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
    NextStep,
    RefinePlan,
    Worked,
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
    "NextStep",
    "RefinePlan",
    "Reply",
    "Request",
    "Usage",
    "Worked",
    "WritePlan",
    "choose_model",
]
