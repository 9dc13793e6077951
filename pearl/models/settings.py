"""The endpoint's address, key and sampling: from the environment, never from a file of Pearl's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from pearl.lang.errors import InputError
from pearl.models.secrets import is_key, redaction

OPENAI = "https://api.openai.com/v1"
"""The default endpoint."""

ANOTHER = 0.7
"""The temperature for a further answer to the same prompt, where decoding is greedy."""


class Settings(BaseSettings):
    """Read from the environment.

    ``OPENAI_API_KEY``, ``OPENAI_BASE_URL``, ``OPENAI_ORG_ID`` and
    ``OPENAI_PROJECT_ID`` are what every OpenAI-compatible tool reads;
    ``PEARL_TEMPERATURE``, ``PEARL_SEED``, ``PEARL_TIMEOUT`` (the most seconds of a call),
    ``PEARL_MAX_TOKENS`` (of a reply) and ``PEARL_PROMPT_CACHE`` (how an endpoint
    is asked to cache a document) are Pearl's own. An empty one counts as not set.
    """

    model_config = SettingsConfigDict(env_prefix="PEARL_", extra="ignore", env_ignore_empty=True)

    api_key: SecretStr = Field(SecretStr(""), validation_alias="OPENAI_API_KEY")
    base_url: str = Field("", validation_alias="OPENAI_BASE_URL")
    organization: str = Field("", validation_alias="OPENAI_ORG_ID")
    project: str = Field("", validation_alias="OPENAI_PROJECT_ID")
    temperature: float | None = Field(None, ge=0, le=2)
    seed: int | None = Field(None, ge=0, lt=1 << 31)
    timeout: float = Field(300.0, gt=0)
    max_tokens: int | None = Field(None, gt=0)
    prompt_cache: Literal["auto", "openai", "anthropic", "off"] = "auto"

    @property
    def url(self) -> str:
        """The endpoint's address."""
        return self.base_url or OPENAI

    def sampling_fields(self, sample: int = 0, *, greedy: bool = True) -> dict[str, Any]:
        """The fields of a request that say how its reply is sampled.

        Decoding is greedy where no temperature is set. As it gives the same reply each time, a
        further sample has the temperature `ANOTHER`. The sample's number is added to a seed.

        Args:
            sample: which of several answers to the same prompt is wanted, from 0.
            greedy: whether to send a temperature of 0 where none is set: some models refuse it.
        """
        fields: dict[str, Any] = {}
        if greedy or self.temperature is not None:
            fields["temperature"] = self.temperature or (ANOTHER if sample else 0)
        if self.seed is not None:
            fields["seed"] = self.seed + sample
        return fields

    @property
    def sampling(self) -> str:
        """How replies are sampled, in words, for the record of a run and for reports."""
        greedy = "temperature 0 where the endpoint takes it"
        temperature = greedy if self.temperature is None else f"temperature {self.temperature:g}"
        seed = "no seed" if self.seed is None else f"seed {self.seed}"
        limit = f"of {self.max_tokens:,} tokens" if self.max_tokens else "within the usual limits"
        return f"{temperature}, {seed}, replies {limit}"

    def redact(self, text: str) -> str:
        """A text from the endpoint without the key, which some endpoints repeat."""
        return redaction(filter(is_key, [self.api_key.get_secret_value()]))(text)

    @field_validator("api_key", "organization", "project")
    @classmethod
    def _sendable(cls, value: str | SecretStr) -> str | SecretStr:
        """A value for a header, stripped, as a key from a file may end with a line end."""
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        text, noun = text.strip(), "name" if isinstance(value, str) else "key"
        if not text.isascii() or not text.isprintable():
            raise ValueError(f"it holds characters that no {noun} has: copy it again")
        return text if isinstance(value, str) else SecretStr(text)

    @field_validator("base_url")
    @classmethod
    def _address(cls, url: str) -> str:
        url = url.strip()
        if not url:
            return url
        if not url.lower().startswith(("http://", "https://")):
            raise ValueError("it starts with neither http:// nor https://")
        try:
            parts = urlsplit(url)
            named = parts.hostname and parts.port != 0
        except ValueError:
            named = False
        if not named or any(map(str.isspace, url)):
            raise ValueError("it names no host and port")
        if parts.username or parts.password:
            # The address is part of a model's identity, which is stored and shown.
            raise ValueError("it holds a name or a password: put the key in OPENAI_API_KEY")
        return url

    @field_validator("prompt_cache", mode="before")
    @classmethod
    def _folded(cls, text: object) -> object:
        return text.strip().lower() if isinstance(text, str) else text


class NoEndpointError(InputError):
    """A model needs an endpoint, and none is set.

    Args:
        name: the model's name.
        instead: what else a person may do.
    """

    def __init__(self, name: str, instead: str = "use --model local or --model offline") -> None:
        super().__init__(
            f"The model {name} needs an endpoint: set OPENAI_API_KEY, or OPENAI_BASE_URL for a "
            f"server of your own, or {instead}."
        )


def read_settings(name: str) -> Settings:
    """The environment's settings for a model; an `InputError` where no endpoint is set, or a
    setting is wrong."""
    if not any(os.environ.get(each, "").strip() for each in ("OPENAI_API_KEY", "OPENAI_BASE_URL")):
        raise NoEndpointError(name)
    return make_settings()


def make_settings(names: Mapping[str, str] = MappingProxyType({})) -> Settings:
    """The environment's settings; the `InputError` says which is wrong.

    Args:
        names: variables to read in place of the usual ones, by the usual names; all must be set.
    """
    given: dict[str, Any] = {name: os.environ[own] for name, own in names.items()}
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        setting = str(first["loc"][0]).upper()
        setting = setting if setting.startswith("OPENAI_") else f"PEARL_{setting}"
        why = first["msg"].removeprefix("Value error, ")
        message = f"{setting} is wrong: {why[:1].lower()}{why[1:]}."
        raise InputError(renamed(message, names)) from None


def renamed(message: str, names: Mapping[str, str]) -> str:
    """A message with some names of settings replaced by those that the user has set."""
    for name, own in names.items():
        message = message.replace(name, own)
    return message
