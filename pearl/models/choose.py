"""What the environment says: which model a person means, and the numbers of the engine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pearl.lang.source import InputError
from pearl.models.base import Model

if TYPE_CHECKING:
    from pearl.models.settings import Settings


def choose_model(name: str = "") -> Model:
    """The model a person means.

    Args:
        name: ``offline``, ``recorded:FILE``, a model of the endpoint, or
            nothing: then ``PEARL_MODEL``, and with no key and no endpoint set,
            the offline reader.

    Raises:
        InputError: a setting is missing or wrong; the message says which.
    """
    name = (name or os.environ.get("PEARL_MODEL", "")).strip()
    if name == "offline":
        from pearl.models.offline import Offline

        return Offline(chosen=True)
    if name.startswith("recorded:"):
        from pearl.models.recorded import load_recording

        return load_recording(name.removeprefix("recorded:"))
    key, url = (os.environ.get(each, "").strip() for each in ("OPENAI_API_KEY", "OPENAI_BASE_URL"))
    if not name and not key and not url:
        from pearl.models.offline import Offline

        return Offline()
    if not name:
        raise InputError(
            "An endpoint is set and no model is named: add --model NAME, set PEARL_MODEL, "
            "or use --model offline."
        )
    from pearl.models.openai import OpenAI

    return OpenAI(name, read_settings(name))


def read_settings(name: str) -> Settings:
    """Where a model of an endpoint is asked, from the environment.

    Args:
        name: the model's, for messages.

    Raises:
        InputError: a setting is missing or wrong; the message says which.
    """
    from pydantic import ValidationError

    from pearl.models.settings import Settings

    if not any(os.environ.get(each, "").strip() for each in ("OPENAI_API_KEY", "OPENAI_BASE_URL")):
        raise InputError(
            f"The model {name} needs an endpoint: set OPENAI_API_KEY, or OPENAI_BASE_URL for a "
            "server of your own, or use --model offline."
        )
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        setting = str(first["loc"][0]).upper()
        setting = setting if setting.startswith("OPENAI_") else f"PEARL_{setting}"
        why = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{setting} is wrong: {why[:1].lower()}{why[1:]}.") from None


def env_number(name: str) -> int | None:
    """A number from the environment; None where it is not set.

    Args:
        name: ``PEARL_TRIES`` (how often a call is tried in all), ``PEARL_CONTEXT`` (tokens that fit
            the model, its reply among them) or ``PEARL_MAX_TOKENS`` (tokens that a reply may have).

    Raises:
        InputError: it is no whole number above 0.
    """
    text = os.environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"{name} is wrong: it is to be a whole number above 0.")
    return int(text)
