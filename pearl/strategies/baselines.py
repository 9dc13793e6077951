"""The baselines that planning and decomposition are compared with.

Each is a plan, so that it is run, journaled and traced as every plan is:
- the question in one step (PEARL, section 3), also under several orders of the options;
- one structured output, whose schema the step's action names: the two baselines of FSM prompting
  (settings 1 and 2; Wang et al., 2024), and SP-CoT (Wang et al., "Self-prompted
  Chain-of-Thought on Large Language Models for Open-domain Multi-hop Reasoning", Findings of
  EMNLP 2023);
- least-to-most prompting: split a question first, then answer its parts one after another (Zhou
  et al., "Least-to-Most Prompting Enables Complex Reasoning in Large Language Models", ICLR 2023,
  section 2);
- retrieve-and-read, with the question as the query, and decompositions rolled out into chains
  of thought (Khot et al., "Decomposed Prompting", ICLR 2023, sections 4.4 and 4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from pearl.lang.ast import (
    DOCUMENT,
    Action,
    Arg,
    Builtin,
    Items,
    Literal,
    Param,
    Plan,
    Prompt,
    Ref,
    Shown,
    Solver,
    Step,
    Template,
    mapped,
    step_refs,
)
from pearl.lang.builtins import SAID, Given
from pearl.lang.library import Library, load_library
from pearl.lang.printer import print_plan
from pearl.lang.source import Source
from pearl.lang.text import one_line
from pearl.lang.values import DecodeError, Pairs, Value, as_text, canonical_json, from_json, to_json
from pearl.prompts.calls import Demonstration, FillSchema, WritePlan, letter
from pearl.prompts.render import load_schema
from pearl.runtime.calls import Caller, fill
from pearl.runtime.executor import Handlers
from pearl.runtime.loop import Run, Steps
from pearl.runtime.planner_prompt import narrowed
from pearl.strategies.decomp import as_decomposition
from pearl.strategies.pearl import ANSWER, direct_plan, whole, write_plan

REASON = Action(
    "REASON_STEP_BY_STEP",
    (Param(DOCUMENT), Param("X")),
    "any",
    "Answer the question X from CTX. Reason step by step first: say what in CTX bears on X and "
    'what follows from it. Then end with a line that starts with "The answer is".',
)
"""Zero-shot chain of thought (Kojima et al., 2022), as an action."""

CHOOSE = Action(
    "CHOOSE_OPTION",
    (Param(DOCUMENT), Param("X"), Param("OPTIONS")),
    "any",
    "Answer the question X from CTX by choosing the best of OPTIONS. Reply with its letter alone "
    "on the first line.",
)
"""Multiple choice: the model sees the options together with the document (PEARL, appendix)."""

REMEMBER = Action(
    "ANSWER_WITHOUT_DOCUMENT",
    (Param("X"),),
    "any",
    "Answer the question X from what you know: there is no document. Reply with the answer alone, "
    "one a line where there are several.",
    traits=frozenset({"knowledge"}),
)
"""The closed-book baseline, which shows what a model knows without the document."""

COMBINE = Action(
    "ANSWER_FROM_FACTS",
    (Param(DOCUMENT), Param("X")),
    "any",
    "Answer the question X from the facts in CTX, which may have to be put together, counted or "
    "compared. Reply with the answer alone, one a line where there are several.",
)
"""One model reads all facts, where other methods ask agents for them (CommaQA, section 5)."""

FOLLOW = Action(
    "ANSWER_WITH_PLAN",
    (Param(DOCUMENT), Param("X"), Param("PLAN")),
    "any",
    "Answer the question X from CTX. Work through the steps of PLAN one after another in your "
    "head, and state the answer that they lead to.",
)
"""The ablation in which a plan is shown and not executed."""

ANSWER_NEXT = Action(
    "ANSWER_NEXT",
    (Param(DOCUMENT), Param("X"), Param("EARLIER")),
    "any",
    "Answer the question X from CTX, with the help of EARLIER, which are simpler questions and "
    "their answers. Begin with the answer alone, one a line where there are several.",
)
"""Least-to-most prompting: answers one question, given the earlier ones with their answers."""

FOLLOW_CHAINS = Action(
    "REASON_AS_SHOWN",
    (Param(DOCUMENT), Param("X")),
    "any",
    "Answer the question X from CTX. Take it apart first, say what each part comes to in CTX, "
    'and end with a line that starts with "The answer is"; several answers stand there as a '
    "JSON array.",
)
"""Rolled-out chain of thought, before its examples are added."""


@dataclass(frozen=True, slots=True)
class PlanShown:
    """The ablation in which a plan, written as for `PearlStrategy`, is shown but not executed."""

    library: Library
    caller: Caller
    demonstrations: tuple[Demonstration, ...] = ()
    shown: int = 0

    async def next(self, run: Run) -> Steps:
        decide = self.caller.journal.decide
        write = WritePlan(run.question, self.library, self.demonstrations)
        planned = await write_plan(narrowed(write, self.shown), self.caller)
        if planned.plan is None:
            decide("plan/fallback", planned.source.text)
            return whole(direct_plan(run.question))
        decide("plan/shown", print_plan(planned.plan))
        return whole(_plan(run.question, FOLLOW, print_plan(planned.plan)))


_ALONE = {
    ANSWER.name: "Answer the question X. Reply with the answer only.",
    REASON.name: "Answer the question X. Reason step by step first, then end with a line that "
    'starts with "The answer is".',
    FOLLOW_CHAINS.name: "Answer the question X. Take it apart first, say what each part comes to, "
    'and end with a line that starts with "The answer is".',
}
"""The definitions of one-step actions for questions without a document, by the action's name."""

DEFINITIONS = frozenset(
    (
        *(ANSWER.doc, REASON.doc, CHOOSE.doc, REMEMBER.doc, COMBINE.doc, FOLLOW.doc),
        *(ANSWER_NEXT.doc, FOLLOW_CHAINS.doc),
        *_ALONE.values(),
    )
)
"""The definitions of the actions that Pearl's own plans declare."""


def without_document(plan: Plan) -> Plan:
    """A one-step plan, changed for a question without a document."""
    [step], [action] = plan.steps, plan.declares
    params = tuple(param for param in action.params if param.name != DOCUMENT)
    args = tuple(arg for arg in step.args if not isinstance(arg, Ref))
    traits = action.traits | {"knowledge"}
    doc = _ALONE.get(action.name, action.doc)
    action = replace(action, params=params, doc=doc, traits=traits)
    return replace(plan, steps=(replace(step, args=args),), declares=(action,))


def reasoning_plan(question: str) -> Plan:
    """The plan of zero-shot chain of thought."""
    return _plan(question, REASON)


def facts_plan(question: str) -> Plan:
    """The plan in which one model answers from all facts."""
    return _plan(question, COMBINE)


def blind_plan(question: str) -> Plan:
    """The plan of the closed-book baseline."""
    return _plan(question, REMEMBER)


def choosing_plan(question: str, orders: Sequence[Sequence[str]]) -> Plan:
    """The plan of multiple choice, with one step for each order of the options' texts."""
    shown = [[f"{letter(at)}. {text}" for at, text in enumerate(order)] for order in orders]
    names = [f"order_{number}" for number in range(1, len(shown) + 1)] if shown[1:] else [OUTPUT]
    steps = (
        _step(CHOOSE.name, question, list(order), name=name)
        for name, order in zip(names, shown, strict=True)
    )
    return Plan(tuple(steps), question, (CHOOSE,))


def _plan(question: str, action: Action, *more: Value) -> Plan:
    """A plan whose one step asks the question."""
    step = _step(action.name, question, *more)
    reads = any(param.name == DOCUMENT for param in action.params)
    step = step if reads else replace(step, args=step.args[1:])
    return Plan((step,), question, (action,))


OUTPUT = "answer"
"""The name of the step of a one-step plan."""


def _step(action: str, *values: Value, name: str = OUTPUT) -> Step:
    return Step(name, action, (Ref(DOCUMENT), *map(Literal, values)), "Answer the question")


@dataclass(frozen=True, slots=True)
class LeastToMost:
    """Least-to-most prompting: one call splits the question, then each part is a step, and the
    question itself is the last."""

    caller: Caller

    async def next(self, run: Run) -> Steps:
        """Ask for the sub-questions, and give all steps at once."""
        call = FillSchema(load_schema("least_to_most"), (("question", run.question),))
        reply = await fill(self.caller, call, "reduce")
        return whole(in_turn(run.question, reply["sub_questions"]))


def in_turn(question: str, parts: Sequence[str]) -> Plan:
    """A plan with a step for each part of a question, in order, and a last one for the question.

    Each step is given the earlier parts with their answers.
    """
    lines = dict.fromkeys(one_line(part) for part in parts)
    new = [part for part in lines if part and part.casefold() != question.casefold()]
    names = [*(f"part_{number}" for number in range(1, len(new) + 1)), "answer"]
    steps = []
    before: list[str | Ref] = []
    for name, part in zip(names, [*new, question], strict=True):
        earlier = Template(tuple(before)) if before else Literal("Nothing was asked before.")
        steps.append(Step(name, ANSWER_NEXT.name, (Ref(DOCUMENT), Literal(part), earlier)))
        gap = "\n" if before else ""
        before += [f"{gap}Question: {part}\nAnswer: ", Ref(name)]
    return Plan(tuple(steps), question, (ANSWER_NEXT,), (Ref("answer"),))


LIBRARY = "asking"
"""The library of the actions that ask for one structured output."""


def asking_plan(action: str, question: str) -> Plan:
    """The plan whose one step, an action of `LIBRARY`, asks for structured output."""
    return Plan((_step(action, question),), question)


def asking(caller: Caller, document: Source | None) -> Handlers:
    """The handlers of `LIBRARY`, which ask about a document, or without one where it is None."""

    async def solve(name: str, path: str, args: Sequence[Given]) -> Value:
        schema = load_schema(*name.split("_with_"))
        call = FillSchema(schema, (("question", args[0].value),), document)
        reply = await fill(caller, call, path)
        return Pairs(tuple((field.name, _as_value(reply[field.name])) for field in schema.fields))

    bodies = [action.body for action in load_library(LIBRARY).actions.values()]
    names = [body.name for body in bodies if isinstance(body, Solver)]
    return Handlers(MappingProxyType({name: partial(solve, name) for name in names}))


def fields_of(value: Value) -> Mapping[str, Any]:
    """The fields of a reply, by name, from the value of the step that asked for it."""
    assert isinstance(value, Pairs)
    return {as_text(name): field for name, field in value}


def _as_value(data: Any) -> Value:  # noqa: ANN401 - any JSON
    if isinstance(data, dict):
        return Pairs(tuple((key, _as_value(item)) for key, item in data.items()))
    if isinstance(data, list):
        return [_as_value(item) for item in data]
    return data if isinstance(data, str | bool | int | float) else ""


PASSAGES = 5
"""How many passages the retrieve-and-read baseline reads."""

RETRIEVAL_LIBRARY = "open_domain"
"""The library of the two actions of `retrieve_read_plan`."""


def retrieve_read_plan(question: str, passages: int = PASSAGES) -> Plan:
    """A plan of two steps: look passages up with the question as the query, and read them all."""
    search = Step("found", "RETRIEVE", (Literal(question), Literal(passages)))
    answer = Step("answer", "MULTI_HOP_READ", (Ref("found"), Literal(question)))
    return Plan((search, answer), question)


def rolled_out_plan(question: str, shown: Sequence[Plan], library: Library) -> Plan:
    """The plan of rolled-out chain of thought: one step, with chains of thought as its examples.

    Args:
        question: what is asked.
        shown: decompositions of other questions, with the values of their steps in comments. One
            that does not say what its answer was is left out.
        library: the actions that the decompositions call.
    """
    chains = ((plan.question, chain(plan, library)) for plan in shown)
    examples = tuple(Shown((Literal(text),), steps) for text, steps in chains if SAID.search(steps))
    return _plan(question, replace(FOLLOW_CHAINS, body=Prompt(examples)))


def chain(plan: Plan, library: Library) -> str:
    """A decomposition, with the values of its steps in comments, as a chain of thought.

    It has a line for what each step asks and gave, and ends with the answer. Builtins are left out,
    as a person would do them without a word, and so are steps whose value is not known.
    """
    example = as_decomposition(plan)
    values: dict[str, Value] = {}
    for step, (_, text) in zip(plan.steps, example.steps, strict=True):
        try:
            if text:
                values[step.name] = from_json(json.loads(text))
        except (ValueError, RecursionError, DecodeError):
            continue
    lines: list[str] = []
    for step in plan.steps:
        action = library.get(step.action)
        if action is None or step.name not in values or isinstance(action.body, Builtin):
            continue
        # A step that only confirms an earlier answer would repeat its line.
        for line in _lines(step, action, values, plan.question):
            if not any(line in earlier for earlier in lines):
                lines.append(line)
    names = example.returns or tuple(step.name for step in plan.steps[-1:])
    answers = [
        canonical_json(to_json(value)) if isinstance(value, list) else as_text(value)
        for value in (values[name] for name in names if name in values)
    ]
    answer = f"The answer is {', '.join(answers)}."
    if answers and not any(answer in line for line in lines):
        lines.append(answer)
    return "\n".join(lines)


def _lines(step: Step, action: Action, values: Mapping[str, Value], question: str) -> list[str]:
    """A step and its value in words, one line for each item that the step runs over."""
    value, ref = values[step.name], mapped(step_refs(step))
    pairs: list[tuple[Value | None, Value]] = [(None, value)]
    filters, items = ref and ref.mode.startswith("where"), values.get(ref.name) if ref else None
    if ref and not filters and isinstance(value, Pairs):
        pairs = list(value)
    elif filters and isinstance(items, list) and isinstance(value, list):
        pairs = [(item, item in value) for item in items]
    lines: list[str] = []
    for item, result in pairs:
        args = [_in_words(arg, values, item) for arg in step.args]
        sentence = next((arg for arg in args if arg.endswith(("?", "!", "."))), "")
        if not sentence:
            names = [param.name for param in action.params]
            sentence = action.doc.rstrip(".") + ":"
            for name, text in zip(names, args, strict=False):
                sentence = text.join(re.split(rf"\b{re.escape(name)}\b", sentence))
        words = _listed(result)
        lines.append(words if sentence == question else f"{sentence} {words}".strip())
    return lines


def _in_words(arg: Arg, values: Mapping[str, Value], item: Value | None) -> str:
    match arg:
        case Ref():
            if arg.name == DOCUMENT:
                return "the text"
            if arg.mode and item is not None:
                return as_text(item)
            return _listed(values[arg.name]) if arg.name in values else arg.name
        case Literal():
            return _listed(arg.value)
        case Items():
            return ", ".join(_in_words(inner, values, item) for inner in arg.items)
        case Template():
            return "".join(
                part if isinstance(part, str) else _in_words(part, values, item)
                for part in arg.parts
            )


def _listed(value: Value) -> str:
    if isinstance(value, list):
        return ", ".join(map(as_text, value)) or "none"
    return as_text(value)
