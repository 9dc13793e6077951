"""A request as the bytes that are sent.

A document is the same in every prompt of its steps, so it is written as JSON
once and the rest is put behind it. JSON escapes each character by itself, so
the escaped pieces of a text make the escaped text.
"""

from __future__ import annotations

import json
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pearl.llm.forms import Form
from pearl.llm.model import Message, Request

MOST = 64
"""Documents kept as JSON."""

MOST_BYTES = 16 << 20
"""Memory that they may take in all."""

_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class _Opening:
    """What opens every prompt on a document: its text, and as JSON without the last quote."""

    text: str
    data: bytes

    @property
    def size(self) -> int:
        return sys.getsizeof(self.text) + sys.getsizeof(self.data)


class Writer:
    """Writes requests to one model.

    Args:
        name: the model's, as the endpoint knows it.
        temperature: None leaves it to the endpoint.
        limit: tokens that a reply may have; None leaves it to the endpoint.
    """

    def __init__(self, name: str, temperature: float | None, limit: int | None) -> None:
        self._fields: dict[str, Any] = {"model": name}
        if temperature is not None:
            self._fields["temperature"] = temperature
        self._limit = limit
        self._openings: OrderedDict[tuple[str, int], _Opening] = OrderedDict()
        self._size = 0

    def body(self, request: Request, form: Form) -> bytes:
        """A request's body.

        Args:
            request: what is asked.
            form: what the endpoint takes.

        Raises:
            UnicodeEncodeError: a message holds half a surrogate pair.
        """
        fields = self._fields | form.fields(request.document if request.stable else "")
        if self._limit is not None:
            fields[form.limit] = self._limit
        *before, last = request.messages
        written = b"".join(_write(message).encode() + b"," for message in before)
        head = _write(fields).encode()[:-1]
        return b"".join(
            (head, b',"messages":[', written, *self._last(last, request, form.marker()), b"]}")
        )

    def _last(
        self, message: Message, request: Request, marker: Mapping[str, Any]
    ) -> tuple[bytes, ...]:
        text = message["content"]
        if not request.stable:
            return (_write(message).encode(),)
        opening = self._opening(text, request)
        rest = _write(text[request.stable :]).encode()
        role = b'{"role":%b,"content":' % _write(message["role"]).encode()
        if not marker or len(rest) <= 2:
            return (role, opening, rest[1:], b"}")
        part = b'[{"type":"text","text":'
        mark = b'",' + _write(marker)[1:].encode()
        return (role, part, opening, mark, b',{"type":"text","text":', rest, b"}]}")

    def _opening(self, text: str, request: Request) -> bytes:
        key = (request.document, request.stable)
        found = self._openings.get(key)
        if found is not None and text.startswith(found.text):
            self._openings.move_to_end(key)
            return found.data
        start = text[: request.stable]
        opening = _Opening(start, _write(start)[:-1].encode())
        if request.document:
            self._keep(key, opening)
        return opening.data

    def _keep(self, key: tuple[str, int], opening: _Opening) -> None:
        replaced = self._openings.pop(key, None)
        self._size -= replaced.size if replaced else 0
        self._openings[key] = opening
        self._size += opening.size
        while len(self._openings) > MOST or self._size > MOST_BYTES:
            self._size -= self._openings.popitem(last=False)[1].size
