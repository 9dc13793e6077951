"""Reasoning and acting in turns: Search, Lookup and Finish over a document's paragraphs.

Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models", ICLR
2023, section 3. What was refused, or came to nothing, is in the journal and
in the next prompt, and not in the plan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pearl.lang.ast import DOCUMENT, Literal, Plan, Ref, Step
from pearl.lang.builtins import Given
from pearl.lang.source import InputError, Source
from pearl.lang.values import Value, as_text
from pearl.prompts.calls import FillSchema
from pearl.prompts.render import load_schema
from pearl.retrieval.retriever import DocumentRetriever, Retriever, passage_texts
from pearl.retrieval.terms import sentences
from pearl.run.calls import Caller, SchemaError, fill
from pearl.run.executor import Handlers, SolverError
from pearl.run.loop import Attempt, Return, Run, RunError, Steps

LIBRARY = "react"
"""The library whose actions these are."""

STEPS = 8
"""Steps of a question, at most; the last one can only be Finish."""

REFUSALS = 3
"""How often in a row an action may be refused, or come to nothing."""

_LONGEST = 500
"""Characters of what an action is given; no search needs more."""


@dataclass(slots=True)
class React:
    """Asks for a thought and an action until the answer is given; for one run.

    Args:
        caller: asks the model and keeps the journal.
        most: steps at most.
        refusals: how often in a row an action may be refused, or come to nothing.
    """

    caller: Caller
    most: int = STEPS
    refusals: int = REFUSALS
    _thoughts: list[str] = field(default_factory=list, init=False)
    _refused: list[str] = field(default_factory=list, init=False)
    _done: set[tuple[str, str, str]] = field(default_factory=set, init=False)
    _last: tuple[str, str, str] = field(default=("", "", ""), init=False)
    _tries: int = field(default=0, init=False)

    async def next(self, run: Run) -> Steps | Attempt | Return:
        """The next action, as a step.

        Raises:
            ModelError: the model gave no usable answer.
            RunError: there are too many steps, or no action can be done.
        """
        last = run.plan.steps[-1] if run.plan.steps else None
        if last is not None and last.action == "FINISH":
            return Return((last.name,))
        if run.failed is None:
            self._refused.clear()
        else:
            self._in_vain(run.failed)
        while len(self._refused) <= self.refusals:
            chosen = await self._choose(run)
            action, told = chosen["action"], _told(chosen["input"])
            reason = self._reason(action, told, run)
            if not reason:
                self._begun(action, told, _told(chosen["thought"]), run)
                return _move(action, told, run)
            self._refused.append(f"{action}[{told}]: {reason}")
            self.caller.journal.decide(f"react/{self._tries}/refused", self._refused[-1])
        raise RunError(
            f"Step {len(run.plan.steps) + 1} was refused {len(self._refused)} times: "
            f"{self._refused[-1]}"
        )

    def _begun(self, action: str, told: str, thought: str, run: Run) -> None:
        self._thoughts.append(thought)
        self._last = _key(action, told, run)
        if action == "Search":
            self._done.add(self._last)

    def _in_vain(self, error: RunError) -> None:
        """A lookup may be done again, for the next sentence, until there is none."""
        self._thoughts.pop()
        self._done.add(self._last)
        self._refused.append(error.failures[0].cause if error.failures else str(error))

    async def _choose(self, run: Run) -> dict[str, Any]:
        self._tries += 1
        told = [_shown(*one, run) for one in zip(self._thoughts, run.plan.steps, strict=True)]
        given: list[tuple[str, Value]] = [("question", run.question), ("steps", list(told))]
        if self._refused:
            given.append(("refused", list(self._refused)))
        call = FillSchema(load_schema("react_step"), tuple(given))
        try:
            return await fill(self.caller, call, f"react/{self._tries}")
        except SchemaError as error:
            raise RunError(str(error)) from None

    def _reason(self, action: str, told: str, run: Run) -> str:
        """Why an action cannot be done; empty where it can."""
        if not told:
            return "it needs words."
        if action == "Finish":
            return ""
        if len(run.plan.steps) + 1 >= self.most:
            return "this is the last step: Finish."
        if action == "Lookup" and not _paragraph(run.plan):
            return "no paragraph was shown yet: Search first."
        return "this was done already." if _key(action, told, run) in self._done else ""


def reacting(document: Source, retriever: Retriever | None = None) -> Handlers:
    """What a run is handed so that its steps can search, look up and finish.

    Args:
        document: where to look.
        retriever: where to look instead, as an index of a corpus; None for the document.
    """
    searched = DocumentRetriever(document) if retriever is None else retriever

    async def search(path: str, given: Sequence[Given]) -> Value:
        del path
        words = as_text(given[0].value)
        try:
            # Reading an index takes its time, and other steps have theirs.
            found = await asyncio.to_thread(searched.search, words, 1)
        except InputError as error:
            raise SolverError("solver", str(error)) from None
        if not found:
            raise SolverError("no-answer", f"Search[{words}]: no paragraph has any of these words.")
        return passage_texts(found)[0]

    return Handlers(
        MappingProxyType({"react_search": search, "react_lookup": _lookup, "react_finish": _finish})
    )


async def _lookup(path: str, given: Sequence[Given]) -> Value:
    """The N-th sentence of a paragraph that has some words; what follows from these alone."""
    del path
    paragraph, words, number = (one.value for one in given)
    text, wanted = as_text(paragraph), as_text(words)
    told = [text[one.start : one.end] for one in sentences(text)]
    found = [one for one in told if _folded(wanted) in _folded(one)]
    if not isinstance(number, int) or not 1 <= number <= len(found):
        further = "further " if found else ""
        raise SolverError(
            "no-answer", f"Lookup[{wanted}]: the paragraph has no {further}sentence with that."
        )
    return found[number - 1]


async def _finish(path: str, given: Sequence[Given]) -> Value:
    del path
    return as_text(given[0].value)


def _move(action: str, told: str, run: Run) -> Steps | Attempt:
    number = len(run.plan.steps) + 1
    said = Literal(told)
    if action == "Finish":
        step = Step("answer", "FINISH", (said,), "Give the answer")
        return Steps((step,), returns=(Ref(step.name),))
    if action == "Search":
        arguments: tuple[Ref | Literal, ...] = (Ref(DOCUMENT), said)
        return Attempt((Step(f"search_{number}", "SEARCH", arguments, "Show a paragraph"),))
    shown = Ref(_paragraph(run.plan))
    before = [one for one in run.plan.steps if one.action == "LOOKUP" and one.args[0] == shown]
    same = [one for one in before if _folded(_words(one)) == _folded(told)]
    arguments = (shown, said, Literal(len(same) + 1))
    return Attempt((Step(f"lookup_{number}", "LOOKUP", arguments, "Show a sentence"),))


def _words(step: Step) -> str:
    """What an action was given by the model."""
    return next(as_text(one.value) for one in step.args if isinstance(one, Literal))


def _shown(thought: str, step: Step, run: Run) -> str:
    """A step as the next prompt has it."""
    action = f"{step.action.capitalize()}[{_words(step)}]"
    observed = as_text(run.values[step.name])
    return f"Thought: {thought} Action: {action} Observation: {observed}"


def _paragraph(plan: Plan) -> str:
    """The name of the search that showed a paragraph last; empty where none did."""
    return next((one.name for one in reversed(plan.steps) if one.action == "SEARCH"), "")


def _key(action: str, told: str, run: Run) -> tuple[str, str, str]:
    """What makes two actions one; a lookup is one of its paragraph."""
    return action, _folded(told), _paragraph(run.plan) if action == "Lookup" else ""


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _told(text: str) -> str:
    """What a model wrote, as one short line; half a surrogate pair could not be kept."""
    whole = text.encode("utf-8", "ignore").decode()
    return " ".join(whole.split())[:_LONGEST].strip()
