"""Any OpenAI-compatible endpoint, over chat completions or the Responses API.

A call is one request: only the engine's retry layer retries. The timeout is that
of the whole call. Constraints stand in fields beside the messages, so that all
requests on a document open with the same prefix, which endpoints cache
(docs/design.md).

From top to bottom: the model; how requests are written; where the model is asked.
"""

from __future__ import annotations

import json
import re
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal
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
from pearl.models.transport import Transport, within
from pearl.prompts.calls import Message

if TYPE_CHECKING:
    from pearl.models.settings import Settings


class OpenAI:
    """A model of an OpenAI-compatible endpoint.

    Once the endpoint has refused the key, or the quota is used up, no further
    call is sent until the model is closed.

    Args:
        endpoint: where it is asked, and how.
        name: the name by which `choose_model` opens it again; by default its name at the endpoint.
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
        """A sentence saying that a constraint was refused; empty where none was."""
        return self.forms.notice

    async def answer(self, request: Request) -> Reply:
        if self._final:
            raise self._final.again()
        transport = self._transport
        try:
            timeout = self._endpoint.settings.timeout
            sent = await within(timeout, self._send(request, self._form))
            reply = reply_of(self._writer.completion(read_json(sent)), transport.redact)
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
                return await self._transport.send("POST", *self._writer.path, body=body)
            except ModelError as error:
                form = form.without(error.complaint)
                before, body = body, self._writer.body(request, form)
                if body == before:
                    raise
                # This is no retry but another request, without a field that the endpoint does
                # not take. Further requests leave the field out too.
                self._form = self._form.without(error.complaint)

    async def close(self) -> None:
        self._final = None
        await self._transport.close()


# --- how requests are written ---

OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"

SAMPLING = ("temperature", "seed")

EXPLICIT = {"mode": "explicit"}

FIRST_EXPLICIT = (5, 6)
"""The first version of GPT that takes a mark where the prefix to cache ends."""

_VERSION = re.compile(r"(?:^|[:/])gpt-(\d)(?:\.(\d+))?(?!\d)")
_CACHING = re.compile(r"prompt_cache|cache_control")


@dataclass(frozen=True, slots=True)
class RequestFormat:
    """Which optional fields an endpoint takes.

    None is part of a model's identity, because none decides the answer, except for ``greedy``,
    which the endpoint decides and not a person.

    Args:
        caching: how the endpoint is asked to cache a document: ``key`` names the
            prefix; ``breakpoint`` also marks its end; ``anthropic`` marks its end
            as Anthropic's API does.
        limit: the name of the field that limits the tokens of a reply.
        settled: whether that name is decided, as by the endpoint's own words, and stays.
        greedy: whether it takes a temperature of 0 where none is set.
        most: the most tokens of a reply that it allows, where no setting limits it; 0 for no limit.
    """

    caching: Literal["off", "key", "breakpoint", "anthropic"] = "off"
    limit: str = OLD_LIMIT
    settled: bool = False
    greedy: bool = True
    most: int = 0

    def fields(self, document: str) -> dict[str, Any]:
        """The fields that ask to cache a document, given its text's hash; none for an empty one."""
        if not document or self.caching not in ("key", "breakpoint"):
            return {}
        fields: dict[str, Any] = {"prompt_cache_key": f"pearl-{document[:32]}"}
        if self.caching == "breakpoint":
            fields["prompt_cache_options"] = EXPLICIT
        return fields

    @property
    def marker(self) -> dict[str, Any]:
        """The fields that mark the last part of the prefix to cache; empty for no mark."""
        match self.caching:
            case "breakpoint":
                return {"prompt_cache_breakpoint": EXPLICIT}
            case "anthropic":
                return {"cache_control": {"type": "ephemeral"}}
            case _:
                return {}

    def without(self, complaint: str) -> RequestFormat:
        """The format without the field, or with fewer tokens of a reply, that an endpoint's
        complaint names; the same format if it names none."""
        form = self
        if form.caching != "off" and _CACHING.search(complaint):
            form = replace(form, caching="off")
        if re.search(r"\btemperature\b", complaint):
            form = replace(form, greedy=False)
        named = re.search(rf"\b{form.limit}\b", complaint)
        if stated := reply_limit(complaint):
            # Only once: an endpoint that names ever lower numbers would be asked for ever.
            form = replace(form, most=form.most or stated)
        elif not form.settled and named and NOT_TAKEN.search(complaint):
            other = NEW_LIMIT if form.limit == OLD_LIMIT else OLD_LIMIT
            form = replace(form, limit=other, settled=True)
        return form


def _is_openai(settings: Settings) -> bool:
    host = urlsplit(settings.url).hostname or ""
    return host == "api.openai.com" or host.endswith(".api.openai.com")


MOST = 64
"""The most documents that are cached as JSON."""

MOST_BYTES = 16 << 20
"""The most bytes that they take in all."""

_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _role(message: Message) -> bytes:
    """A message as JSON, up to its content."""
    return b'{"role":%b,"content":' % _write(message["role"]).encode()


@dataclass(frozen=True)
class RequestWriter:
    """Writes requests to one model as the bytes that are sent, for chat completions.

    A document opens the prompts of all steps that read it, so it is encoded as JSON once, and the
    rest is appended. JSON escapes each character by itself, so the escaped pieces of a text make
    the escaped text.

    Args:
        name: the model's name at the endpoint.
        settings: how replies are sampled, and how long they may be.
    """

    path: ClassVar[tuple[str, ...]] = ("chat", "completions")
    """The API's path below the endpoint's address."""

    name: str
    settings: Settings
    _openings: OrderedDict[tuple[str, int], tuple[str, bytes]] = field(
        default_factory=OrderedDict, init=False
    )
    """The opening of a document's prompts, as text and as JSON without the last quote, by the
    document's hash and the opening's length."""

    @property
    def first_form(self) -> RequestFormat:
        """The format to begin with."""
        own, caching = _is_openai(self.settings), self.settings.prompt_cache
        # OpenAI's reasoning models refuse a temperature; known beforehand, no batch is sent twice.
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
        """The body of a request; a `ModelError` where the prompt has a lone surrogate."""
        try:
            return self.written(request, form)
        except UnicodeEncodeError:
            raise ModelError(
                "request", "The prompt holds half a character, which cannot be sent."
            ) from None

    def written(self, request: Request, form: RequestFormat) -> bytes:
        """The body of a request; a `UnicodeEncodeError` where the prompt has a lone surrogate."""
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
        """The fields that constrain a reply."""
        return request_fields(constraint)

    def completion(self, data: Any) -> Any:  # noqa: ANN401 - any JSON
        """An answer as a chat completion."""
        return data

    def _messages(self, request: Request, marker: dict[str, Any]) -> list[bytes]:
        """Pieces of the JSON of the messages. With a marker, the last message has two parts."""
        *before, last = request.messages
        # Text by text, for which no encoder is set up as for an object.
        written = [_role(each) + _write(each["content"]).encode() + b"}," for each in before]
        if not request.stable:
            return [*written, _write(last).encode()]
        text = last["content"]
        opening = self._opening(text, request)
        rest = _write(text[request.stable :]).encode()
        role = _role(last)
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
    """Writes requests of the Responses API, which ask the endpoint not to store them."""

    path = ("responses",)

    @property
    def first_form(self) -> RequestFormat:
        """The format to begin with: that of chat completions, but without marks in messages."""
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
            # In a chat completion these fields are nested one level deeper.
            [tool] = fields["tools"]
            custom = tool["custom"]
            form = {"type": "grammar", **custom["format"]["grammar"]}
            choice = {"type": "custom", "name": custom["name"]}
            fields = {
                "tools": [{"type": "custom", **custom, "format": form}],
                "tool_choice": choice,
            }
        return fields

    def completion(self, data: Any) -> Any:  # noqa: ANN401 - any JSON
        return as_completion(data)


# --- where a model is asked ---


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is asked, and how.

    Args:
        model: its name at the endpoint.
        settings: the endpoint's address and key, and how it is to sample.
        api: the class that writes requests of the API by which it is asked.
        opens: makes the transport; None for one that uses the settings.
    """

    model: str
    settings: Settings
    api: type[RequestWriter] = RequestWriter
    opens: Callable[[], Transport] | None = None

    @property
    def identity(self) -> str:
        """Everything about the model that decides its answers.

        Of the sampling it has what somebody has set, so that replies are found that were stored
        before greedy decoding became the default. The limit of a reply is no part of it, as only
        complete replies are stored.
        """
        sampling = {name: getattr(self.settings, name) for name in SAMPLING}
        named = {name: value for name, value in sampling.items() if value is not None}
        path = [] if self.api is RequestWriter else self.api.path
        return canonical_json([self.model, self.settings.base_url, named, *path])

    @property
    def forms(self) -> Forms:
        """The forms in which the model may take constraints."""
        # OpenAI refuses fields that it does not know; others ignore them.
        grammars = ("custom_tool",) if _is_openai(self.settings) else GRAMMARS
        place = canonical_json([self.model, self.settings.url, *self.api.path])
        room = partial(room_for, self.settings.max_tokens, counter(self.model))
        return Forms(place, grammars, room=room)

    @property
    def writer(self) -> RequestWriter:
        """The writer of requests to the model, in its API's form."""
        return self.api(self.model, self.settings)

    def connect(self) -> Transport:
        """Open the transport that sends requests."""
        return self.opens() if self.opens else Transport(self.settings)
