"""Where the endpoint is, and who pays: from the environment, never from a file of Pearl's."""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Read from the environment.

    ``OPENAI_API_KEY`` and ``OPENAI_BASE_URL`` are what every OpenAI-compatible
    tool reads; ``PEARL_MODEL``, ``PEARL_TEMPERATURE``, ``PEARL_TIMEOUT``
    (seconds a call may take in all) and ``PEARL_MAX_TOKENS`` are Pearl's own.
    """

    model_config = SettingsConfigDict(env_prefix="PEARL_", extra="ignore")

    api_key: SecretStr = Field(SecretStr(""), validation_alias="OPENAI_API_KEY")
    base_url: str = Field("", validation_alias="OPENAI_BASE_URL")
    model: str = ""
    temperature: float | None = Field(None, ge=0, le=2)
    timeout: float = Field(300.0, gt=0)
    max_tokens: int | None = Field(None, gt=0)
