"""Models behind one shape: any OpenAI-compatible endpoint, the offline reader, recordings."""

from pearl.llm.calls import Call, CorrectPlan, Demonstration, ExecuteStep, MapAnswer, WritePlan
from pearl.llm.choose import choose_model
from pearl.llm.model import Ask, Attempt, Message, Model, ModelError, Reply, Request, Usage

__all__ = [
    "Ask",
    "Attempt",
    "Call",
    "CorrectPlan",
    "Demonstration",
    "ExecuteStep",
    "MapAnswer",
    "Message",
    "Model",
    "ModelError",
    "Reply",
    "Request",
    "Usage",
    "WritePlan",
    "choose_model",
]
