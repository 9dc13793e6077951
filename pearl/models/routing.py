"""Finds the model that a name means, and, among several models of a run, the one for a call."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pearl.lang.ast import Prompt
from pearl.lang.errors import InputError
from pearl.lang.library import Library
from pearl.lang.values import canonical_json
from pearl.models.base import OFFLINE, Model, Reply, Request
from pearl.prompts import calls

if TYPE_CHECKING:
    from pearl.models.openai import Endpoint


def choose_model(name: str = "") -> Model:
    """The model a person means.

    Args:
        name: ``offline``, ``recorded:FILE``, ``local``, a GGUF file, ``azure:DEPLOYMENT``, a
            model of the endpoint (``responses:NAME`` for its Responses API), or nothing: then
            ``PEARL_MODEL``, and with no key and no endpoint set, the offline reader.

    Raises:
        InputError: a setting is missing or wrong; the message says which.
    """
    name = (name or os.environ.get("PEARL_MODEL", "")).strip()
    key, url = (os.environ.get(each, "").strip() for each in ("OPENAI_API_KEY", "OPENAI_BASE_URL"))
    if name == OFFLINE or not (name or key or url):
        from pearl.models.offline import Offline

        return Offline(chosen=bool(name))
    if name.startswith("recorded:"):
        from pearl.models.recorded import load_recording

        return load_recording(name.removeprefix("recorded:"))
    # A llama.cpp server names its models after files, which need not be here. But a path is never
    # taken for a server's model, or a mistyped one would send the document to an endpoint.
    is_file = "/" in name or Path(name).is_file()
    gguf = name.lower().endswith(".gguf") and (is_file or not (key or url))
    if name == "local" or gguf:
        from pearl.models.local import local_model

        return local_model(name)
    if not name:
        raise InputError(
            "An endpoint is set and no model is named: add --model NAME, set PEARL_MODEL, "
            "or use --model offline."
        )
    from pearl.models.openai import OpenAI

    return OpenAI(find_endpoint(name), name)


def find_endpoint(name: str) -> Endpoint:
    """The endpoint that a model's name and the environment mean.

    Args:
        name: the model's name, after ``responses:`` for the Responses API, and after ``azure:``
            for a deployment on Azure.

    Raises:
        InputError: a setting is missing or wrong; the message says which.
    """
    from pearl.models.openai import Endpoint, RequestWriter, ResponsesWriter
    from pearl.models.settings import read_settings
    from pearl.models.tokens import plain_name

    model = plain_name(name)
    kinds = name.removesuffix(model).split(":")
    api = ResponsesWriter if "responses" in kinds else RequestWriter
    if "azure" in kinds:
        from pearl.models.openai_client import azure_transport

        return Endpoint(model, azure_transport().settings, api, azure_transport)
    return Endpoint(model, read_settings(model), api)


def model_for(model: Model, call: calls.Call) -> Model:
    """The model that answers a call.

    The planner answers calls that decide on steps and see at most the beginning of their outputs:
    whole plans, next steps, their corrections, actions, and replies in a form whose schema plans.
    The reader answers all others, except for steps whose action names a model.

    Args:
        model: the run's model, or `Models`.
        call: what is asked.
    """
    if not isinstance(model, Models):
        return model
    match call:
        case calls.WritePlan() | calls.NextStep() | calls.CorrectPlan() | calls.ContinuePlan():
            return model.planner
        case calls.RefinePlan() | calls.MineActions() | calls.CondenseActions():
            return model.planner
        case calls.CorrectFilled():
            return model_for(model, call.fill)
        case calls.CorrectStep():
            return model_for(model, call.step)
        case calls.FillSchema() if call.model:
            return model.actions.get(call.model, model.reader)
        case calls.FillSchema() if call.schema.plans:
            return model.planner
        case calls.ExecuteStep():
            return model.actions.get(call.action.model, model.reader)
    return model.reader


def check_model(model: object) -> None:
    """Check that an object is a model; an `InputError` where it is none."""
    if not hasattr(model, "identity"):
        raise InputError(f"{model!r} is no model: give what choose_model makes of a name.")


@dataclass(frozen=True)
class Models:
    """A planner, a reader, and models of single actions, in the shape of a model.

    Args:
        planner: decides on steps.
        reader: reads documents and answers.
        actions: the models that actions of the library name (``model: NAME``), by that name.
    """

    planner: Model
    reader: Model
    actions: Mapping[str, Model] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for model in (self.planner, self.reader, *self.actions.values()):
            check_model(model)

    @property
    def name(self) -> str:
        """The names of the models, each with its role."""
        roles = [(self.planner.name, "planner"), (self.reader.name, "reader")]
        roles += [(name, "by name") for name in self.actions]
        return ", ".join(f"{name} ({role})" for name, role in roles)

    @property
    def identity(self) -> str:
        """The identity of all models, for a job's; the key of a call has only that of its model."""
        actions = {name: model.identity for name, model in self.actions.items()}
        return canonical_json([self.planner.identity, self.reader.identity, actions])

    @property
    def notice(self) -> str:
        """The notices of all models, each once."""
        return " ".join(dict.fromkeys(member.notice for member in members(self) if member.notice))

    @property
    def sampling(self) -> str:
        """How each model samples, as far as it says."""
        texts = {member.name: sampling_of(member) for member in members(self)}
        return "; ".join(f"{name}: {text}" for name, text in texts.items() if text)

    async def answer(self, request: Request) -> Reply:
        """The answer of the model that the call is for."""
        model = request.model or model_for(self, request.call)
        return await model.answer(request)

    async def close(self) -> None:
        """Close all of them."""
        await asyncio.gather(*(member.close() for member in members(self)))


def members(model: Model) -> tuple[Model, ...]:
    """The models of a run, each once: the planner, the reader, those of actions."""
    if not isinstance(model, Models):
        return (model,)
    every = (model.planner, model.reader, *model.actions.values())
    return tuple({id(each): each for each in every}.values())


def planner_of(model: Model) -> Model:
    """The model that decides on steps: the planner, or the only model."""
    return model.planner if isinstance(model, Models) else model


def readers_of(model: Model) -> tuple[Model, ...]:
    """The models that are shown documents: the reader, then the models of actions."""
    return (model.reader, *model.actions.values()) if isinstance(model, Models) else (model,)


def sampling_of(model: Model) -> str:
    """How a model samples, in words; empty for one that does not say."""
    return str(getattr(model, "sampling", ""))


@dataclass(frozen=True, slots=True)
class ModelNames:
    """The models of a run by name, as a person gives them, or as they travel to a worker.

    Args:
        planner: as `choose_model` takes it.
        reader: likewise.
        actions: the names that actions of the library give.
    """

    planner: str = ""
    reader: str = ""
    actions: tuple[str, ...] = ()

    @classmethod
    def of(cls, model: Model) -> ModelNames:
        """The names of a run's models."""
        actions = tuple(model.actions) if isinstance(model, Models) else ()
        return cls(planner_of(model).name, readers_of(model)[0].name, actions)

    def choose(self) -> Model:
        """The models, or the only model; an `InputError` says which setting is wrong."""
        names = dict.fromkeys((self.planner, self.reader, *self.actions))
        models = {name: choose_model(name) for name in names}
        if len(models) == 1 and not self.actions:
            return models[self.planner]
        actions = {name: models[name] for name in self.actions}
        return Models(models[self.planner], models[self.reader], MappingProxyType(actions))


def with_library(model: Model, libraries: Iterable[Library]) -> Model:
    """A run's models, together with those that actions name.

    Args:
        model: the run's model, or `Models`.
        libraries: the actions that steps may call.

    Raises:
        InputError: there is no such model, or an action that no model carries out names one.
    """
    by_name = {member.name: member for member in members(model)}
    named = dict(model.actions) if isinstance(model, Models) else {}
    before = len(named)
    for library in libraries:
        for action in library.actions.values():
            if not action.model:
                continue
            if not isinstance(action.body, Prompt):
                raise InputError(
                    f"{action.name} has a model of its own and asks none: take the line model: "
                    f"{action.model} out."
                )
            if action.model in named:
                continue
            try:
                named[action.model] = by_name.get(action.model) or choose_model(action.model)
            except InputError as error:
                from pearl.models.settings import NoEndpointError

                if isinstance(error, NoEndpointError):
                    # The default advice, to use another model for the run, would not help here.
                    taken_out = f"take the line model: {action.model} out of the action"
                    error = NoEndpointError(action.model, taken_out)
                raise InputError(f"{action.name} has a model of its own. {error}") from None
    if len(named) == before:
        return model
    return Models(planner_of(model), readers_of(model)[0], MappingProxyType(named))
