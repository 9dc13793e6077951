"""The embedded backend: no network, no weights, no language model, and it says so.

It is deterministic, and does what can be done honestly without a model: it
writes plans by matching a question's form and words to the library's actions,
answers steps with the document's own sentences, and maps an answer to the
option that shares its words. Its English patterns are forms of questions; none
is fitted to rows of a data set (docs/offline.md lists each family).
"""

from __future__ import annotations

from importlib.metadata import version

from pearl.models.base import ModelError, Reply, Request
from pearl.prompts.calls import (
    CondenseActions,
    CorrectFilled,
    CorrectPlan,
    ExecuteStep,
    FillSchema,
    LabelQuestion,
    MapAnswer,
    MineActions,
    NextStep,
    RefinePlan,
    WritePlan,
)

NOTICE = (
    "No language model: the embedded offline reader quotes the sentences that bear on each "
    "step. For a model, set OPENAI_API_KEY or OPENAI_BASE_URL, and --model NAME."
)

NEEDED = "This needs a language model: set OPENAI_API_KEY or OPENAI_BASE_URL, and --model NAME."


class Offline:
    """See the module.

    Args:
        chosen: whether a person asked for it by name; then it needs no notice.
    """

    name = "offline"

    def __init__(self, *, chosen: bool = False) -> None:
        self.notice = "" if chosen else NOTICE
        # Another version may read otherwise.
        self.identity = f"offline {version('pearl')}"

    async def answer(self, request: Request) -> Reply:
        from pearl.models.offline import mining, planning, reading

        match request.call:
            case WritePlan() as call:
                return Reply(planning.write(call))
            case CorrectPlan(write=WritePlan() as write):
                return Reply(planning.write_shortest(write))
            case ExecuteStep() as call:
                return Reply(reading.carry_out(call))
            case MapAnswer() as call:
                return Reply(reading.choose(call))
            case MineActions() as call:
                return Reply(mining.propose(call))
            case CondenseActions() as call:
                return Reply(mining.condense(call))
            case RefinePlan() as call:
                return Reply(planning.write_shortest(call.write))
            case LabelQuestion() as call:
                return Reply(mining.label(call))
            case NextStep() | FillSchema() | CorrectPlan() | CorrectFilled():
                raise ModelError("request", NEEDED)

    async def close(self) -> None:
        return
