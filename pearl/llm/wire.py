"""What goes over the wire to an OpenAI-compatible endpoint.

There is no response format in any request: every step is answered in plain
text, so all steps on a document share one prefix (DESIGN, section 6).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from pearl.llm.model import Request

Style = Literal["off", "openai", "anthropic"]

_VERSION = re.compile(r"gpt-(\d+)(?:\.(\d+))?")

BREAKPOINT_SINCE = (5, 6)
"""The first version of OpenAI's models that keeps a beginning only up to an explicit mark."""

CACHE_FIELDS = ("prompt_cache", "cache_control")
"""What an endpoint names that does not know a field of ours about caching."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a request is put.

    Args:
        model: the model's name at the endpoint.
        sampling: fields that decide the answer, as ``temperature``.
        caching: which fields about prompt caching the endpoint takes.
        reply_field: the field for the most tokens of a reply.
    """

    model: str
    sampling: Mapping[str, Any]
    caching: Style
    reply_field: Literal["max_tokens", "max_completion_tokens"]
    max_tokens: int | None

    def body(self, request: Request) -> bytes:
        """A request's JSON.

        Raises:
            UnicodeEncodeError: a message holds half a character.
        """
        fields: dict[str, Any] = {"model": self.model, **self.sampling}
        if self.max_tokens is not None:
            fields[self.reply_field] = self.max_tokens
        marked = request.stable > 0 and self.caching != "off"
        if marked and self.caching == "openai":
            fields["prompt_cache_key"] = f"pearl-{request.document[:32]}"
            if self._explicit:
                fields["prompt_cache_options"] = {"mode": "explicit"}
        head = json.dumps(fields, ensure_ascii=False)[:-1].encode()
        return b'%s, "messages": [%s]}' % (head, self._messages(request, marked=marked))

    @property
    def _explicit(self) -> bool:
        found = _VERSION.match(self.model.rpartition("/")[2])
        version = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
        return version >= BREAKPOINT_SINCE

    def _messages(self, request: Request, *, marked: bool) -> bytes:
        *before, last = request.messages
        parts = [json.dumps(message, ensure_ascii=False).encode() for message in before]
        shared = escaped(last["content"][: request.stable])
        rest = json.dumps(last["content"][request.stable :], ensure_ascii=False)[1:-1].encode()
        role = json.dumps(last["role"]).encode()
        if marked and self.caching == "anthropic":
            content = _marked(shared, b'"cache_control": {"type": "ephemeral"}', rest)
        elif marked and self._explicit:
            content = _marked(shared, b'"prompt_cache_breakpoint": {"mode": "explicit"}', rest)
        else:
            content = b'"%s%s"' % (shared, rest)
        parts.append(b'{"role": %s, "content": %s}' % (role, content))
        return b", ".join(parts)


def style_for(chosen: str, base_url: str) -> Style:
    """The caching fields to send.

    Args:
        chosen: a setting: ``auto``, ``off``, ``openai`` or ``anthropic``.
        base_url: where the endpoint is; empty for OpenAI's own.
    """
    if chosen == "auto":
        return "openai" if is_openai(base_url) else "off"
    return {"openai": "openai", "anthropic": "anthropic"}.get(chosen, "off")  # type: ignore[return-value]


def is_openai(base_url: str) -> bool:
    """Whether an address is OpenAI's own."""
    return (
        not base_url or re.match(r"https://api\.openai\.com(?::443)?(?:/|$)", base_url) is not None
    )


@lru_cache(maxsize=32)
def escaped(text: str) -> bytes:
    """A text as the inside of a JSON string; documents are kept, as every step sends one."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


def _marked(shared: bytes, mark: bytes, rest: bytes) -> bytes:
    """A message in two parts, with a mark on the first."""
    return b'[{"type": "text", "text": "%s", %s}, {"type": "text", "text": "%s"}]' % (
        shared,
        mark,
        rest,
    )
