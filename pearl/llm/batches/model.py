"""An endpoint's model, asked through its Batch API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pearl.llm.batches.desk import Desk
from pearl.llm.batches.folder import Folder
from pearl.llm.batches.terms import BatchStatus, Terms
from pearl.llm.batches.wire import Wire
from pearl.llm.calls import ExecuteStep
from pearl.llm.forms import first_form
from pearl.llm.model import Reply, Request
from pearl.llm.openai import OPENAI, SECRET_LENGTH, OpenAI
from pearl.llm.reading import Reading
from pearl.llm.wire import Writer
from pearl.source import InputError

if TYPE_CHECKING:
    from pearl.llm.settings import Settings

QUIET = 2.0
"""Seconds without a new request after which a batch goes."""

INTERVAL = 30.0
"""Seconds between two looks at a batch, to begin with."""

MOST = 50_000
"""Requests that a provider takes in one file."""

MOST_BYTES = 90 << 20
"""Bytes of a file. OpenAI takes 200 MB; others that speak the same way take 100 MB."""


class Batches:
    """A model of an OpenAI-compatible endpoint, asked in batches.

    Requests are gathered, sent as a file, and answered when the provider is
    done with it, which may take a day. Replies are those of a live call, so
    they are kept under the same keys. What is under way is in a folder: a
    process that ends, however it does, loses nothing, and the next one with
    the same folder sends nothing again.

    Args:
        name: the model's, as the endpoint knows it.
        settings: where the endpoint is, and how it is to sample; the timeout
            is that of each call to it, and not of a batch.
        folder: where batches are kept; one process at a time works in it.
        quiet: seconds without a new request after which a batch goes.
        interval: seconds between two looks at a batch, to begin with.
        progress: is told how batches stand, at every look.
        most: requests of a batch at most.
        most_bytes: bytes of a batch's file at most.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        folder: Path,
        quiet: float = QUIET,
        interval: float = INTERVAL,
        progress: Callable[[BatchStatus], None] | None = None,
        *,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.name = name
        self._settings = settings
        self._folder = folder
        self._terms = Terms(quiet, interval, most, most_bytes, progress or _untold)
        self._live = OpenAI(name, settings)
        self._reading = Reading(name)
        self._desk: Desk | None = None

    @property
    def identity(self) -> str:
        return self._live.identity

    @property
    def notice(self) -> str:
        return self._live.notice

    async def answer(self, request: Request) -> Reply:
        reply = await (await self._opened()).reply(request)
        if isinstance(request.call, ExecuteStep) and request.call.document is not None:
            self._reading.check(request.call.document, reply.usage)
        return reply

    async def close(self) -> None:
        """Give back what is held open; batches run on at the provider, and are met again."""
        desk, self._desk = self._desk, None
        if desk is not None:
            await (desk.close() if desk.loop is asyncio.get_running_loop() else desk.leave())

    async def _opened(self) -> Desk:
        desk = self._desk
        if desk is not None and desk.loop is not asyncio.get_running_loop():
            self._desk = None
            await desk.leave()
        if self._desk is None:
            self._desk = self._open()
        return self._desk

    def _open(self) -> Desk:
        settings, url = self._settings, self._settings.base_url or OPENAI
        return Desk(
            self.identity,
            Writer(self.name, settings.temperature, settings.max_tokens),
            first_form(self.name, url, settings.prompt_cache),
            Wire(settings, self._hidden),
            Folder(self._folder),
            self._hidden,
            self._terms,
        )

    def _hidden(self, text: str) -> str:
        """A text of the endpoint's without the key, which some endpoints repeat."""
        secret = self._settings.api_key.get_secret_value()
        return text.replace(secret, "***") if len(secret) >= SECRET_LENGTH else text


def open_batches(
    name: str,
    folder: Path,
    quiet: float = QUIET,
    interval: float = INTERVAL,
    progress: Callable[[BatchStatus], None] | None = None,
) -> Batches:
    """A model of the endpoint that the environment names, asked through its Batch API.

    Args:
        name: the model's.
        folder: where batches are kept.
        quiet: seconds without a new request after which a batch goes.
        interval: seconds between two looks at a batch, to begin with.
        progress: is told how batches stand.

    Raises:
        InputError: a setting is missing or wrong, or the model is none of an endpoint.
    """
    from pearl.llm.choose import read_settings

    name = name.strip()
    if not name or name == "offline" or name.startswith("recorded:"):
        raise InputError(
            "The Batch API needs a model of an endpoint: add --model NAME, or ask live."
        )
    return Batches(name, read_settings(name), folder, quiet, interval, progress)


def _untold(_: BatchStatus) -> None:
    return
