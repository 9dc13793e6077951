"""The states of FSM prompting and what follows on what: one table, walked and drawn.

Wang et al., "FSM: A Finite State Machine Based Zero-Shot Prompting Paradigm
for Multi-Hop Question Answering", 2024. FSM1 ends with the answer, FSM2 with a
review of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

END = "answer"
"""Where a machine stops."""


@dataclass(frozen=True, slots=True)
class State:
    """A state.

    Args:
        name: as in the journal.
        asks: the schema of the model's reply.
        about: what is done in it, in a few words.
        on: which state follows, by the outcome.
        back: to which state the machine goes back, by the outcome, with the reason.
        action: what its step calls; empty where the state only decides, and is no step.
        limit: which state follows where a limit is met; there is no answer where it is empty,
            or where nothing was found for it.
    """

    name: str
    asks: str
    about: str
    on: Mapping[str, str]
    back: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    action: str = ""
    limit: str = "summarise"


@dataclass(frozen=True, slots=True)
class Machine:
    """States, the first of which is where it starts.

    Args:
        name: as on the command line.
        states: all of them.
        closing: the states that make the answer of what was found, in order.
    """

    name: str
    states: tuple[State, ...]
    closing: tuple[str, ...]

    def state(self, name: str) -> State:
        """The state of this name."""
        return next(one for one in self.states if one.name == name)

    def after(self, name: str) -> int:
        """How many states still have to follow one, before there is an answer."""
        if name not in self.closing:
            return len(self.closing)
        return len(self.closing) - self.closing.index(name) - 1


def _to(**outcomes: str) -> Mapping[str, str]:
    return MappingProxyType(outcomes)


_DECOMPOSE = State(
    "decompose", "fsm_decompose", "simple or compound, and the first sub-question",
    _to(simple="search", compound="search", repeated="summarise"),
    _to(misfit="judge"),
)  # fmt: skip
_SEARCH = State(
    "search", "fsm_search", "its answer in the paragraphs",
    _to(found="revise", settled="summarise"),
    _to(nothing="decompose", misfit="decompose"), "SEARCH",
)  # fmt: skip
_REVISE = State(
    "revise", "fsm_revise", "the question with the answer put in",
    _to(revised="judge"), _to(misfit="search"), "REVISE",
)  # fmt: skip
_JUDGE = State(
    "judge", "fsm_judge", "sub-question and question the same?",
    _to(same="summarise", different="decompose"), _to(misfit="revise"),
)  # fmt: skip
_REVIEW = State(
    "review", "fsm_review", "supporting facts, triples, explanation",
    _to(reviewed=END), _to(misfit="summarise"), "REVIEW", END,
)  # fmt: skip


def _summarise(then: str, limit: str) -> State:
    return State(
        "summarise", "fsm_summarise", "the answer of what was found",
        _to(answered=then), _to(misfit="judge"), "SUMMARISE", limit,
    )  # fmt: skip


_LOOP = (_DECOMPOSE, _SEARCH, _REVISE, _JUDGE)
FSM1 = Machine("fsm1", (*_LOOP, _summarise(END, "")), ("summarise",))
# A review that does not fit goes back there, where there is an answer already.
FSM2 = Machine("fsm2", (*_LOOP, _summarise("review", END), _REVIEW), ("summarise", "review"))

MACHINES: Mapping[str, Machine] = MappingProxyType({"fsm": FSM2, "fsm1": FSM1, "fsm2": FSM2})
"""By name; ``fsm`` is the one with every state."""
