"""Pearl: a plan compiler for language-model reasoning over long documents.

Everything a program needs is here; each name is loaded when first used, so
``import pearl`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pearl.answer import Answer, Option
    from pearl.api import (
        ask,
        ask_sync,
        check,
        fix,
        format,
        load_library,
        run,
        run_sync,
        write_plan,
        write_plan_sync,
    )
    from pearl.evaluate.report import render_report
    from pearl.evaluate.results import Evaluation
    from pearl.facade import Pearl, Refined
    from pearl.jobs.answer_metrics import Graded
    from pearl.jobs.job import JobResult
    from pearl.lang.ast import Action, Literal, Parsed, Plan, Step
    from pearl.lang.diagnostics import Diagnostic
    from pearl.lang.errors import InputError
    from pearl.lang.functions import OwnAction, action
    from pearl.lang.library import Library
    from pearl.lang.parser import parse
    from pearl.lang.source import Source
    from pearl.lint.checker import Selection
    from pearl.mining.condense import Condensed
    from pearl.mining.mine import Mined
    from pearl.models.base import Model, ModelError
    from pearl.models.openai_client import OpenAIModel
    from pearl.models.routing import Models, choose_model
    from pearl.prompts.calls import OwnPrompt
    from pearl.review.agreement import Graders, graders
    from pearl.runtime.evidence import Quote
    from pearl.runtime.loop import Return, Run, RunError, Steps
    from pearl.strategies.pearl import Planned
    from pearl.strategies.registry import RunInputs

_HOMES = {
    "answer": "Answer Option",
    "api": "ask ask_sync check fix format load_library run run_sync write_plan write_plan_sync",
    "evaluate.report": "render_report",
    "evaluate.results": "Evaluation",
    "facade": "Pearl Refined",
    "jobs.job": "JobResult",
    "jobs.answer_metrics": "Graded",
    "lang.ast": "Action Literal Parsed Plan Step",
    "lang.diagnostics": "Diagnostic",
    "lang.errors": "InputError",
    "lang.functions": "OwnAction action",
    "lang.library": "Library",
    "lang.parser": "parse",
    "lang.source": "Source",
    "lint.checker": "Selection",
    "mining.condense": "Condensed",
    "mining.mine": "Mined",
    "models.base": "Model ModelError",
    "models.openai_client": "OpenAIModel",
    "models.routing": "Models choose_model",
    "prompts.calls": "OwnPrompt",
    "review.agreement": "Graders graders",
    "runtime.evidence": "Quote",
    "runtime.loop": "Return Run RunError Steps",
    "strategies.pearl": "Planned",
    "strategies.registry": "RunInputs",
}

__all__ = [
    "Action",
    "Answer",
    "Condensed",
    "Diagnostic",
    "Evaluation",
    "Graded",
    "Graders",
    "InputError",
    "JobResult",
    "Library",
    "Literal",
    "Mined",
    "Model",
    "ModelError",
    "Models",
    "OpenAIModel",
    "Option",
    "OwnAction",
    "OwnPrompt",
    "Parsed",
    "Pearl",
    "Plan",
    "Planned",
    "Quote",
    "Refined",
    "Return",
    "Run",
    "RunError",
    "RunInputs",
    "Selection",
    "Source",
    "Step",
    "Steps",
    "action",
    "ask",
    "ask_sync",
    "check",
    "choose_model",
    "fix",
    "format",
    "graders",
    "load_library",
    "parse",
    "render_report",
    "run",
    "run_sync",
    "write_plan",
    "write_plan_sync",
]


if not TYPE_CHECKING:  # A name that is not there is to be an error there, too.

    def __getattr__(name: str) -> Any:  # noqa: ANN401 - any exported name
        for home, names in _HOMES.items():
            if name in names.split():
                return getattr(import_module(f"pearl.{home}"), name)
        raise AttributeError(f"module 'pearl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
