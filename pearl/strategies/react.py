"""Reasoning and acting in turns: Search, Lookup and Finish over a document's paragraphs.

Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models", ICLR
2023, section 3. An action that was refused or failed is in the journal and in
the next prompt, but not in the plan.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from itertools import count
from types import MappingProxyType
from typing import Any

from pearl.lang.ast import DOCUMENT, Literal, Plan, Ref, Step
from pearl.lang.builtins import Given
from pearl.lang.source import Source
from pearl.lang.text import one_line
from pearl.lang.values import Value, as_text
from pearl.prompts.calls import FillSchema, Schema
from pearl.prompts.render import load_schema
from pearl.retrieval.retriever import DocumentRetriever, Retriever
from pearl.retrieval.terms import sentences
from pearl.runtime.binding import StepError
from pearl.runtime.calls import REVISIONS, Caller, fill
from pearl.runtime.executor import Handlers
from pearl.runtime.loop import Attempt, Move, Run, RunError, Steps
from pearl.strategies.retrieving import look_up

STEPS = 8
"""The most steps of a question; the last one can only be Finish."""

REFUSALS = 3
"""How often in a row an action may be refused or fail."""

MOST_CALLS = STEPS * (REFUSALS + 1) * (REVISIONS + 1)
"""The most calls that these steps can take, if every action is refused and every reply revised as
often as allowed."""

_LONGEST = 500
"""The most characters of a thought or of an action's input; no search needs more."""


class React:
    """Asks for a thought and an action until the answer is given; for one run.

    Args:
        caller: asks the model and writes the journal.
        most: the most steps.
        refusals: how often in a row an action may be refused or fail.
        evidence: whether the answer comes with its supporting facts and triples.
    """

    def __init__(
        self, caller: Caller, most: int = STEPS, refusals: int = REFUSALS, *, evidence: bool = False
    ) -> None:
        self.caller = caller
        self.evidence = evidence
        self.most = most
        self.refusals = refusals
        self._moves = self._turns()
        self._run: Run

    async def next(self, run: Run) -> Move:
        """The next action, as a step; a `RunError` after too many that were refused or failed."""
        self._run = run
        return await anext(self._moves)

    async def _turns(self) -> AsyncIterator[Move]:
        """The moves of the run, a thought and an action each; after a move, `_run` has its
        result."""
        thoughts: list[str] = []
        refused: list[str] = []
        done: set[tuple[str, str, str]] = set()
        for turn in count(1):
            reply = await self._choose(turn, thoughts, refused)
            action, words = reply["action"], _short_line(reply["input"])
            paragraph = _paragraph(self._run.plan)
            key = action, _folded(words), paragraph if action == "Lookup" else ""
            last = len(self._run.plan.steps) + 1 >= self.most
            reasons = (
                (not words, "it needs words."),
                (action == "Finish", ""),
                (last, "this is the last step: Finish."),
                (action == "Lookup" and not paragraph, "no paragraph was shown yet: Search first."),
                (key in done, "this was done already."),
            )
            reason = next((why for is_so, why in reasons if is_so), "")
            if reason:
                refused.append(f"{action}[{words}]: {reason}")
                self.caller.journal.decide(f"react/{turn}/refused", refused[-1])
            elif action == "Finish":
                shown = [reply["supporting_facts"], reply["triples"]] if self.evidence else []
                step = Step("answer", "FINISH", tuple(map(Literal, [words, *shown])), "Give it")
                yield Steps((step,), returns=(Ref(step.name),), last=True)
            else:
                yield Attempt((_step(action, words, self._run.plan),))
                if error := self._run.failed:
                    refused.append(error.failures[0].cause if error.failures else str(error))
                else:
                    refused.clear()
                    thoughts.append(_short_line(reply["thought"]))
                # A lookup may be done again, for the next sentence, until there is none.
                if action == "Search" or error:
                    done.add(key)
            if len(refused) > self.refusals:
                raise RunError(
                    f"Step {len(self._run.plan.steps) + 1} was refused {len(refused)} times: "
                    f"{refused[-1]}"
                )

    async def _choose(
        self, turn: int, thoughts: Sequence[str], refused: Sequence[str]
    ) -> dict[str, Any]:
        steps: list[Value] = []
        for thought, step in zip(thoughts, self._run.plan.steps, strict=True):
            action = f"{step.action.capitalize()}[{_words(step)}]"
            observed = as_text(self._run.values[step.name])
            steps.append(f"Thought: {thought} Action: {action} Observation: {observed}")
        inputs: list[tuple[str, Value]] = [("question", self._run.question), ("steps", steps)]
        if refused:
            inputs.append(("refused", list(refused)))
        return await fill(self.caller, FillSchema(self._schema(), tuple(inputs)), f"react/{turn}")

    def _schema(self) -> Schema:
        """The schema of a turn's reply, which allows only the actions that are possible now."""
        schema = load_schema("react_step", *["evidence"] * self.evidence)
        last = len(self._run.plan.steps) + 1 >= self.most
        shown = ["Lookup"] if _paragraph(self._run.plan) else []
        actions = ["Finish"] if last else ["Search", *shown, "Finish"]
        words = {"type": "string", "minLength": 1, "maxLength": _LONGEST}
        within = {"thought": words, "action": {"enum": actions}, "input": words}
        fields = (
            replace(field, within=json.dumps(within[field.name])) if field.name in within else field
            for field in schema.fields
        )
        return replace(schema, fields=tuple(fields))


def _step(action: str, words: str, plan: Plan) -> Step:
    """The step of a search, or of a look-up of the next sentence that has the words."""
    number = len(plan.steps) + 1
    if action == "Search":
        arguments = (Ref(DOCUMENT), Literal(words))
        return Step(f"search_{number}", "SEARCH", arguments, "Show a paragraph")
    paragraph = Ref(_paragraph(plan))
    lookups = [step for step in plan.steps if step.action == "LOOKUP" and step.args[0] == paragraph]
    before = sum(_folded(_words(step)) == _folded(words) for step in lookups)
    lookup = (paragraph, Literal(words), Literal(before + 1))
    return Step(f"lookup_{number}", "LOOKUP", lookup, "Show a sentence")


def reacting(document: Source, retriever: Retriever | None = None) -> Handlers:
    """The handlers of a run's steps, which search, look up and finish.

    Args:
        document: what is searched.
        retriever: what is searched instead, such as the index of a corpus; None for the document.
    """
    searched = DocumentRetriever(document) if retriever is None else retriever

    async def search(_: str, args: Sequence[Given]) -> Value:
        words = as_text(args[0].value)
        if texts := await look_up(searched, words, 1):
            return texts[0]
        raise StepError("no-answer", f"Search[{words}]: no paragraph has any of these words.")

    async def lookup(_: str, args: Sequence[Given]) -> Value:
        paragraph, words, number = (argument.value for argument in args)
        text, phrase = as_text(paragraph), as_text(words)
        every = [text[span.start : span.end] for span in sentences(text)]
        matching = [sentence for sentence in every if _folded(phrase) in _folded(sentence)]
        if isinstance(number, int) and 1 <= number <= len(matching):
            return matching[number - 1]
        further = "further " if matching else ""
        raise StepError(
            "no-answer", f"Lookup[{phrase}]: the paragraph has no {further}sentence with that."
        )

    async def finish(_: str, args: Sequence[Given]) -> Value:
        return as_text(args[0].value)

    solvers = {"react_search": search, "react_lookup": lookup, "react_finish": finish}
    return Handlers(MappingProxyType(solvers))


def _words(step: Step) -> str:
    """The words that the model gave a step's action."""
    return next(as_text(arg.value) for arg in step.args if isinstance(arg, Literal))


def _paragraph(plan: Plan) -> str:
    """The name of the search that showed a paragraph last; empty where none did."""
    return next((step.name for step in reversed(plan.steps) if step.action == "SEARCH"), "")


def _folded(text: str) -> str:
    return one_line(text.casefold())


def _short_line(text: str) -> str:
    """A model's text as one short line, without lone surrogates, which a store could not hold."""
    whole = text.encode("utf-8", "ignore").decode()
    return one_line(whole)[:_LONGEST].strip()
