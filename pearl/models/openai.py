"""Any OpenAI-compatible endpoint, over chat completions or the Responses API.

A call is one request: nothing here tries again, the engine's retry layer is
the only one that does. The deadline is the whole call's. What constrains an
answer stands in fields beside the messages, so all requests on a document open
with the same prefix, which endpoints keep (docs/design.md).

From top to bottom: the model; where it is asked, and how; how requests are written.
"""

from __future__ import annotations

import json
import re
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pearl.lang.values import canonical_json
from pearl.models.base import FINAL, Constraint, ModelError, Reply, Request
from pearl.models.constraints import GRAMMARS, Forms, request_fields
from pearl.models.endpoint_replies import (
    NOT_TAKEN,
    as_completion,
    check_read,
    read_json,
    reply_limit,
    reply_of,
)
from pearl.models.tokens import REASONING, counter, room_for
from pearl.models.transport import Transport, deadline

if TYPE_CHECKING:
    from pearl.models.settings import Settings


class OpenAI:
    """A model of an OpenAI-compatible endpoint.

    Once the endpoint has refused the key, or the quota is used up, no further
    call is sent until the model is closed.

    Args:
        endpoint: where it is asked, and how.
        name: what a person calls it, by which it is opened again; by default its name there.
    """

    def __init__(self, endpoint: Endpoint, name: str = "") -> None:
        self.name = name or endpoint.model
        self.identity = endpoint.identity
        self.forms = endpoint.forms
        self.sampling = endpoint.settings.sampling
        self._endpoint = endpoint
        self._final: ModelError | None = None
        self._transport = endpoint.connect()
        self._writer = endpoint.writer
        self._form = self._writer.first_form

    @property
    def notice(self) -> str:
        """A sentence that says that a constraint was refused; empty where none was."""
        return self.forms.notice

    async def answer(self, request: Request) -> Reply:
        if self._final:
            raise ModelError(self._final.reason, str(self._final))
        api, transport = self._endpoint.api, self._transport
        try:
            async with deadline(self._endpoint.settings.timeout):
                sent = await self._send(request, self._form)
            reply = reply_of(api.completion(read_json(sent)), transport.redact)
        except ModelError as error:
            error.reword(transport.named)
            if error.reason in FINAL:
                self._final = error
            raise
        check_read(request, self.name, reply.usage)
        return reply

    async def _send(self, request: Request, form: RequestFormat) -> bytes:
        body = self._writer.body(request, form)
        while True:
            try:
                return await self._transport.post(body, *self._endpoint.api.path)
            except ModelError as error:
                form = form.without(error.complaint)
                before, body = body, self._writer.body(request, form)
                if body == before:
                    raise
                # No retry of a failure: what goes out is another request, without a field that
                # the endpoint does not take, and each field is given up once and for all.
                self._form = self._form.without(error.complaint)

    async def close(self) -> None:
        self._final = None
        await self._transport.close()


# --- how requests are written ---

OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"

SAMPLING = ("temperature", "seed")

EXPLICIT = {"mode": "explicit"}

FIRST_EXPLICIT = (5, 6)
"""The first version of GPT that is told where a prefix ends."""

_VERSION = re.compile(r"(?:^|[:/])gpt-(\d)(?:\.(\d+))?(?!\d)")
_CACHING = re.compile(r"prompt_cache|cache_control")


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """What an endpoint takes beside the plain request.

    None of it is part of a model's identity: it decides no answer, but for ``greedy``, which an
    endpoint and not a person settles.

    Args:
        caching: how the endpoint is asked to keep a document: ``key`` names the
            prefix; ``breakpoint`` also says where it ends; ``anthropic`` says
            where it ends, in Anthropic's words.
        limit: the name of the field that limits a reply.
        settled: whether the endpoint has told the name of that field.
        greedy: whether it takes a temperature that nobody has set.
        most: tokens that it lets a reply have where nobody has set any; 0 for any number.
    """

    caching: Literal["off", "key", "breakpoint", "anthropic"] = "off"
    limit: str = OLD_LIMIT
    settled: bool = False
    greedy: bool = True
    most: int = 0

    def fields(self, document: str) -> dict[str, Any]:
        """Fields that ask to keep a document, given its text's hash; none for an empty one."""
        if not document or self.caching not in ("key", "breakpoint"):
            return {}
        fields: dict[str, Any] = {"prompt_cache_key": f"pearl-{document[:32]}"}
        if self.caching == "breakpoint":
            fields["prompt_cache_options"] = EXPLICIT
        return fields

    @property
    def marker(self) -> dict[str, Any]:
        """What marks the part of a message after which the kept prefix ends; empty for none."""
        match self.caching:
            case "breakpoint":
                return {"prompt_cache_breakpoint": EXPLICIT}
            case "anthropic":
                return {"cache_control": {"type": "ephemeral"}}
            case _:
                return {}

    def without(self, complaint: str) -> RequestFormat:
        """The form without what the endpoint's words say it does not take, if they name any: a
        field, or as many tokens of a reply."""
        form = self
        if form.caching != "off" and _CACHING.search(complaint):
            form = replace(form, caching="off")
        if re.search(r"\btemperature\b", complaint):
            form = replace(form, greedy=False)
        named = re.search(rf"\b{form.limit}\b", complaint)
        if stated := reply_limit(complaint):
            form = replace(form, most=min(stated, form.most or stated))
        elif not form.settled and named and NOT_TAKEN.search(complaint):
            other = NEW_LIMIT if form.limit == OLD_LIMIT else OLD_LIMIT
            form = replace(form, limit=other, settled=True)
        return form


def _is_openai(settings: Settings) -> bool:
    host = urlsplit(settings.url).hostname or ""
    return host == "api.openai.com" or host.endswith(".api.openai.com")


MOST = 64
"""Documents kept as JSON."""

MOST_BYTES = 16 << 20
"""Memory that they may take in all."""

_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True)
class RequestWriter:
    """Writes requests to one model as the bytes that are sent.

    A document is the same in every prompt of its steps, so it is written as
    JSON once and the rest is put behind it. JSON escapes each character by
    itself, so the escaped pieces of a text make the escaped text.

    Args:
        name: the model's, as the endpoint knows it.
        settings: how replies are sampled, and how long they may be.
    """

    name: str
    settings: Settings
    _openings: OrderedDict[tuple[str, int], tuple[str, bytes]] = field(
        default_factory=OrderedDict, init=False
    )
    """By document and length: the opening of its prompts, as text and as JSON without the last
    quote."""

    @property
    def first_form(self) -> RequestFormat:
        """The form to begin with."""
        own, caching = _is_openai(self.settings), self.settings.prompt_cache
        # Reasoning models refuse every temperature but their own; a batch of many is not sent
        # twice.
        greedy = not (own and REASONING.search(self.name))
        form = RequestFormat("off", NEW_LIMIT if own else OLD_LIMIT, greedy=greedy)
        if caching == "anthropic":
            return replace(form, caching="anthropic")
        if caching == "openai" or (caching == "auto" and own):
            version = _VERSION.search(self.name)
            explicit = version and (int(version[1]), int(version[2] or 0)) >= FIRST_EXPLICIT
            return replace(form, caching="breakpoint" if explicit else "key")
        return form

    def body(self, request: Request, form: RequestFormat) -> bytes:
        """A request's body in the form that is taken; a `ModelError` for half a character."""
        try:
            return self.written(request, form)
        except UnicodeEncodeError:
            raise ModelError(
                "request", "The prompt holds half a character, which cannot be sent."
            ) from None

    def written(self, request: Request, form: RequestFormat) -> bytes:
        """The same, with Python's own error."""
        head = _write(self.fields(request, form)).encode()[:-1]
        return b"".join((head, b',"messages":[', *self._messages(request, form.marker), b"]}"))

    def fields(self, request: Request, form: RequestFormat) -> dict[str, Any]:
        """A request's fields beside its messages."""
        settings, document = self.settings, request.document if request.stable else ""
        sampling = settings.sampling_fields(request.sample, greedy=form.greedy)
        fields = {"model": self.name, **sampling, **form.fields(document)}
        asked = min(request.limit, form.most or request.limit)
        if limit := settings.max_tokens or asked:
            fields[form.limit] = limit
        if request.constraint is not None:
            fields |= self.held(request.constraint)
        return fields

    def held(self, constraint: Constraint) -> dict[str, Any]:
        """The fields that hold a reply to a constraint."""
        return request_fields(constraint)

    def _messages(self, request: Request, marker: dict[str, Any]) -> list[bytes]:
        """Pieces of the list of messages; the last one's text is in one part, or in two."""
        *before, last = request.messages
        written = [_write(message).encode() + b"," for message in before]
        if not request.stable:
            return [*written, _write(last).encode()]
        text = last["content"]
        opening = self._opening(text, request)
        rest = _write(text[request.stable :]).encode()
        role = b'{"role":%b,"content":' % _write(last["role"]).encode()
        if not marker or len(rest) <= 2:
            return [*written, role, opening, rest[1:], b"}"]
        part = b'[{"type":"text","text":'
        mark = b'",' + _write(marker)[1:].encode()
        return [*written, role, part, opening, mark, b',{"type":"text","text":', rest, b"}]}"]

    def _opening(self, text: str, request: Request) -> bytes:
        key = (request.document, request.stable)
        cached = self._openings.get(key)
        if cached is not None and text.startswith(cached[0]):
            self._openings.move_to_end(key)
            return cached[1]
        start = text[: request.stable]
        written = _write(start)[:-1].encode()
        if request.document:
            self._openings[key] = start, written
            self._openings.move_to_end(key)
            size = sum(sys.getsizeof(part) for pair in self._openings.values() for part in pair)
            while len(self._openings) > MOST or size > MOST_BYTES:
                size -= sum(map(sys.getsizeof, self._openings.popitem(last=False)[1]))
        return written


class ResponsesWriter(RequestWriter):
    """Writes requests to one model; nothing of them is kept at the endpoint."""

    @property
    def first_form(self) -> RequestFormat:
        """The form to begin with; a document's prefix is named where chat completions name it."""
        chat = super().first_form
        caching = "key" if chat.caching == "breakpoint" else chat.caching
        return replace(chat, caching=caching, limit="max_output_tokens", settled=True)

    def written(self, request: Request, form: RequestFormat) -> bytes:
        fields = self.fields(request, form) | {"store": False, "input": request.messages}
        return _write(fields).encode()

    def held(self, constraint: Constraint) -> dict[str, Any]:
        fields = super().held(constraint)
        if "response_format" in fields:
            named = fields["response_format"]["json_schema"]
            return {"text": {"format": {"type": "json_schema", **named}}}
        if "tools" in fields:
            # What stands a level deeper in a chat completion.
            [tool] = fields["tools"]
            custom = tool["custom"]
            form = {"type": "grammar", **custom["format"]["grammar"]}
            choice = {"type": "custom", "name": custom["name"]}
            fields = {
                "tools": [{"type": "custom", **custom, "format": form}],
                "tool_choice": choice,
            }
        return fields


@dataclass(frozen=True, slots=True)
class Api:
    """A way in which endpoints are asked for a model's words.

    Args:
        path: below the endpoint's address.
        writer: writes requests.
        completion: puts an answer to one into the words of a chat completion.
    """

    path: tuple[str, ...]
    writer: type[RequestWriter]
    completion: Callable[[Any], Any]


CHAT = Api(("chat", "completions"), RequestWriter, lambda data: data)
"""Chat completions, which every compatible endpoint has."""

RESPONSES = Api(("responses",), ResponsesWriter, as_completion)
"""The Responses API of OpenAI and of endpoints that speak like it."""


# --- where a model is asked ---


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is asked, and how.

    Args:
        model: its name there.
        settings: where the endpoint is, and how it is to sample.
        api: how it is spoken to.
        opens: gives what sends; None for what has the settings' key.
    """

    model: str
    settings: Settings
    api: Api = CHAT
    opens: Callable[[], Transport] | None = None

    @property
    def identity(self) -> str:
        """Everything about the model that decides its answers.

        Of the sampling what somebody has set: replies that were kept before greedy decoding was
        asked for are still found. How long a reply may be decides none that comes to its end, and
        no other is kept.
        """
        sampling = {name: getattr(self.settings, name) for name in SAMPLING}
        named = {name: value for name, value in sampling.items() if value is not None}
        path = [] if self.api is CHAT else self.api.path
        return canonical_json([self.model, self.settings.base_url, named, *path])

    @property
    def forms(self) -> Forms:
        """In which forms the model may take constraints."""
        # OpenAI refuses fields that it does not know; others pass over them.
        grammars = ("custom_tool",) if _is_openai(self.settings) else GRAMMARS
        place = canonical_json([self.model, self.settings.url, *self.api.path])
        room = partial(room_for, self.settings.max_tokens, counter(self.model))
        return Forms(place, grammars, room=room)

    @property
    def writer(self) -> RequestWriter:
        """The writer of requests to the model, in its API's form."""
        return self.api.writer(self.model, self.settings)

    def connect(self) -> Transport:
        """Open the transport that sends requests."""
        return self.opens() if self.opens else Transport(self.settings)
