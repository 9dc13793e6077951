"""Where the endpoint is, and who pays: from the environment, never from a file of Pearl's."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Read from the environment.

    ``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` are what every OpenAI-compatible
    tool reads; ``PEARL_TEMPERATURE``, ``PEARL_TIMEOUT`` (seconds a call may
    take in all), ``PEARL_MAX_TOKENS`` (of a reply) and ``PEARL_PROMPT_CACHE``
    (which fields about prompt caching the endpoint takes) are Pearl's own. An
    empty one counts as not set.
    """

    model_config = SettingsConfigDict(env_prefix="PEARL_", extra="ignore", env_ignore_empty=True)

    api_key: SecretStr = Field(SecretStr(""), validation_alias="OPENAI_API_KEY")
    base_url: str = Field("", validation_alias="OPENAI_BASE_URL")
    temperature: float | None = Field(None, ge=0, le=2)
    timeout: float = Field(300.0, gt=0)
    max_tokens: int | None = Field(None, gt=0)
    prompt_cache: Literal["auto", "openai", "anthropic", "off"] = "auto"

    @field_validator("api_key")
    @classmethod
    def _sendable(cls, key: SecretStr) -> SecretStr:
        """A key read from a file often ends with a line end, which no header may hold."""
        text = key.get_secret_value().strip()
        if not text.isascii() or not text.isprintable():
            raise ValueError("it holds characters that no key has: copy it again")
        return SecretStr(text)

    @field_validator("base_url")
    @classmethod
    def _address(cls, url: str) -> str:
        url = url.strip()
        if url and not url.lower().startswith(("http://", "https://")):
            raise ValueError("it starts with neither http:// nor https://")
        return url
