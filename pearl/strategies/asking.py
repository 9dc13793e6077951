"""Baselines in one reply of demanded form, as plans of one step.

The step's action names a schema of ``prompts/schemas/``; its value is what the
reply's fields hold. Zero-shot and few-shot prompts of this kind are what FSM
prompting is compared with (Wang et al., 2024, settings 1 and 2); SP-CoT is
Wang et al., "Self-prompted Chain-of-Thought on Large Language Models for
Open-domain Multi-hop Reasoning", Findings of EMNLP 2023.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pearl.builtins import Given
from pearl.context import UNLIMITED, Context, fit_fill
from pearl.library import load_library
from pearl.llm import FillSchema, Schema
from pearl.plan import DOCUMENT, Literal, Plan, Ref, Solver, Step
from pearl.prompts.schemas import load_schema
from pearl.runtime import Caller, SchemaError, fill
from pearl.runtime.handlers import Handlers, Solve, SolverError
from pearl.source import Source
from pearl.values import Pairs, Value, as_text

LIBRARY = "asking"
"""The library whose actions these are."""

OUTPUT = "answer"
"""The step's name."""


def asking_plan(action: str, question: str) -> Plan:
    """The plan whose one step asks a question in a demanded form.

    Args:
        action: of the library `LIBRARY`.
        question: what is asked.
    """
    step = Step(OUTPUT, action, (Ref(DOCUMENT), Literal(question)), "Answer the question")
    return Plan((step,), question)


def asking(caller: Caller, document: Source | None, context: Context = UNLIMITED) -> Handlers:
    """What a run is handed so that its step can be asked.

    Args:
        caller: asks the model and keeps the journal.
        document: what is read; None where there is nothing to read.
        context: the model's window, and what to do with a document that is longer.
    """
    bodies = [one.body for one in load_library(LIBRARY).actions.values()]
    names = [one.name for one in bodies if isinstance(one, Solver)]
    solvers = {one: _asked(one, caller, document, context) for one in names}
    return Handlers(MappingProxyType(solvers))


def fields_of(value: Value) -> Mapping[str, Any]:
    """A step's value as the reply's fields, with lists and texts in them."""
    assert isinstance(value, Pairs)
    return {as_text(name): held for name, held in value}


def _asked(name: str, caller: Caller, document: Source | None, context: Context) -> Solve:
    schema = load_schema(name)

    async def solve(path: str, given: Sequence[Given]) -> Value:
        whole = FillSchema(schema, (("question", given[0].value),), document)
        call, left_out = fit_fill(whole, context)
        if left_out:
            caller.journal.decide(f"context/{path.removeprefix('step/')}", left_out)
        try:
            return _value(await fill(caller, call, path), schema)
        except SchemaError as error:
            raise SolverError("reply", str(error)) from None

    return solve


def _value(found: Mapping[str, Any], schema: Schema) -> Value:
    """The fields that were asked for, and no others."""
    return Pairs(tuple((one.name, _held(found[one.name])) for one in schema.fields))


def _held(data: Any) -> Value:  # noqa: ANN401 - any JSON
    if isinstance(data, dict):
        return Pairs(tuple((key, _held(one)) for key, one in data.items()))
    if isinstance(data, list):
        return [_held(one) for one in data]
    return data if isinstance(data, str | bool | int | float) else ""
