"""Any OpenAI-compatible endpoint, over chat completions.

A call is one request: nothing here tries again, the engine's retry layer is
the only one that does. The deadline is the whole call's. No request asks for
a response format: every answer is plain text, so all requests on a document
open with the same prefix, which endpoints keep (DESIGN, section 6).

What an endpoint takes beside the plain request, and what it is found not to take.

Fields for prompt caching and the name of the token limit differ from endpoint
to endpoint. None of them decides an answer, so none is part of a model's
identity.

A request as the bytes that are sent.

A document is the same in every prompt of its steps, so it is written as JSON
once and the rest is put behind it. JSON escapes each character by itself, so
the escaped pieces of a text make the escaped text.

What an endpoint sent as a completion, read with no trust.

Whether an endpoint read the whole of what it was sent.

Some servers cut a prompt without a word where it exceeds the length they are
set to. They do report how many tokens they read, which is compared with a
count of ours. tiktoken's vocabulary takes 79 MB and 0.2 seconds, so it is
loaded only where an estimate, which costs 1 ms a document, leaves a doubt.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pearl.lang.source import Source
from pearl.lang.values import canonical_json
from pearl.models.base import FINAL, ModelError, Reply, Request, Usage
from pearl.models.tokens import count_tokens
from pearl.models.transport import SHOWN, Hidden, Transport, complaint_of, failure, read_complaint
from pearl.prompts.calls import ExecuteStep, Message

if TYPE_CHECKING:
    from pearl.models.settings import Settings


Caching = Literal["off", "key", "breakpoint", "anthropic"]
"""``key``: a name for the prefix; ``breakpoint``: that and where it ends; ``anthropic``:
where it ends, in Anthropic's words."""

OLD_LIMIT, NEW_LIMIT = "max_tokens", "max_completion_tokens"

EXPLICIT = {"mode": "explicit"}

FIRST_EXPLICIT = (5, 6)
"""The first version of GPT that is told where a prefix ends."""

_VERSION = re.compile(r"(?:^|[:/])gpt-(\d)(?:\.(\d+))?(?!\d)")
_CACHING = re.compile(r"prompt_cache|cache_control")
_NOT_TAKEN = re.compile(
    r"(?i)unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|not permitted|forbidden"
)


@dataclass(frozen=True, slots=True)
class Form:
    """How requests to an endpoint are written.

    Args:
        caching: how the endpoint is asked to keep a document.
        limit: the name of the field that limits a reply.
        settled: whether the endpoint has told the name of that field.
    """

    caching: Caching = "off"
    limit: str = OLD_LIMIT
    settled: bool = False

    def fields(self, document: str) -> dict[str, Any]:
        """Fields that ask to keep a document.

        Args:
            document: the hash of its text; empty for none.
        """
        if not document or self.caching not in ("key", "breakpoint"):
            return {}
        fields: dict[str, Any] = {"prompt_cache_key": f"pearl-{document[:32]}"}
        if self.caching == "breakpoint":
            fields["prompt_cache_options"] = EXPLICIT
        return fields

    def marker(self) -> dict[str, Any]:
        """What marks the part of a message after which the kept prefix ends; empty for none."""
        match self.caching:
            case "breakpoint":
                return {"prompt_cache_breakpoint": EXPLICIT}
            case "anthropic":
                return {"cache_control": {"type": "ephemeral"}}
            case _:
                return {}

    def without(self, complaint: str) -> Form:
        """The form without what an endpoint says it does not take; itself where it names nothing.

        Args:
            complaint: the endpoint's words, with the names of fields.
        """
        form = self
        if form.caching != "off" and _CACHING.search(complaint):
            form = replace(form, caching="off")
        named = re.search(rf"\b{form.limit}\b", complaint)
        if not form.settled and named and _NOT_TAKEN.search(complaint):
            other = NEW_LIMIT if form.limit == OLD_LIMIT else OLD_LIMIT
            form = replace(form, limit=other, settled=True)
        return form


def first_form(name: str, base_url: str, caching: str) -> Form:
    """The form to begin with.

    Args:
        name: the model's.
        base_url: the endpoint's address.
        caching: ``auto``, ``openai``, ``anthropic`` or ``off``.
    """
    host = urlsplit(base_url).hostname or ""
    own = host == "api.openai.com" or host.endswith(".api.openai.com")
    if caching == "auto":
        caching = "openai" if own else "off"
    limit = NEW_LIMIT if own else OLD_LIMIT
    match caching:
        case "openai":
            return Form("breakpoint" if _takes_breakpoints(name) else "key", limit)
        case "anthropic":
            return Form("anthropic", limit)
        case _:
            return Form("off", limit)


def _takes_breakpoints(name: str) -> bool:
    found = _VERSION.search(name)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= FIRST_EXPLICIT


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


LONGEST = 1_000_000
"""Characters of a reply beyond which no further prompt could hold it."""

MOST_TOKENS = 10**9
"""Tokens beyond which a number is no count of any call's."""

INSTEAD = "The endpoint sent {} instead of a completion: check OPENAI_BASE_URL."


def read_completion(body: bytes, hidden: Hidden) -> Reply:
    """The text and usage of a completion, whatever shape it really has.

    Args:
        body: what the endpoint sent with a status of success.
        hidden: takes the key out of a text.

    Raises:
        ModelError: it holds no usable text; its usage is what was paid all the same.
    """
    return reply_of(_loaded(body), hidden)


def reply_of(data: Any, hidden: Hidden) -> Reply:  # noqa: ANN401 - any JSON
    """The text and usage of a completion that was read as JSON.

    Args:
        data: the JSON.
        hidden: takes the key out of a text.

    Raises:
        ModelError: as `read_completion`.
    """
    usage = _usage(_of(data, "usage"))
    try:
        return _reply(data, usage, hidden)
    except ModelError as error:
        error.usage = usage
        raise


def _loaded(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise ModelError("reply", _no_json(body[:200].lstrip())) from None


def _no_json(start: bytes) -> str:
    if start.startswith((b"data:", b"event:")):
        return "The endpoint streams its answer, which was not asked for: turn streaming off there."
    if start.startswith((b"{", b"[")):
        return "The endpoint's answer is damaged: it is not whole JSON."
    return INSTEAD.format("a page" if start.startswith(b"<") else "something else")


def _reply(data: Any, usage: Usage, hidden: Hidden) -> Reply:  # noqa: ANN401 - any JSON
    choices = _of(data, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise _told(data, hidden) or ModelError("reply", INSTEAD.format("something else"))
    message, finished = _of(choice, "message"), _of(choice, "finish_reason")
    text, refusal = _of(message, "content"), _of(message, "refusal")
    if isinstance(refusal, str) and refusal and not text:
        raise ModelError("refusal", f"The model refused: {_short(refusal, hidden)}")
    if finished == "content_filter":
        raise ModelError("refusal", "The endpoint's content filter held the answer back.")
    if text is not None and not isinstance(text, str):
        kind = "a list" if isinstance(text, list) else "something else"
        raise ModelError("reply", f"The endpoint sent the answer as {kind} and not as text.")
    if text is None or not text.strip():
        raise _told(choice, hidden) or _empty(finished)
    if len(text) > LONGEST:
        raise ModelError(
            "reply",
            f"The model's answer has {len(text):,} characters, more than the {LONGEST:,} that "
            "a further prompt could hold.",
        )
    # Half a surrogate pair and NUL may be written in JSON, and could not be sent on or kept.
    whole = hidden(text).encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    return Reply(whole, usage, complete=finished != "length")


def _told(data: Any, hidden: Hidden) -> ModelError | None:  # noqa: ANN401 - any JSON
    """An error that came with a status of success, judged by the code in it."""
    error = _of(data, "error")
    if not error:
        return None
    code = _of(error, "code")
    status = code if type(code) is int and 400 <= code < 600 else 500
    return failure(status, {}, complaint_of(data, hidden))


def _empty(finished: object) -> ModelError:
    if finished == "length":
        # The same call would come to the same end: only another request can mend it.
        return ModelError(
            "request",
            "The model stopped at its token limit before it said anything: raise PEARL_MAX_TOKENS.",
        )
    return ModelError("reply", "The model sent an empty answer.")


def _short(text: str, hidden: Hidden) -> str:
    return " ".join(hidden(text).split())[:SHOWN]


def _usage(usage: object) -> Usage:
    details = _of(usage, "prompt_tokens_details")
    return Usage(
        _whole(_of(usage, "prompt_tokens")),
        _whole(_of(usage, "completion_tokens")),
        _whole(_of(details, "cached_tokens")) or _whole(_of(usage, "prompt_cache_hit_tokens")),
    )


def _of(data: object, name: str) -> Any:  # noqa: ANN401 - any JSON
    return data.get(name) if isinstance(data, dict) else None


def _whole(number: object) -> int:
    return number if type(number) is int and 0 < number < MOST_TOKENS else 0


SHARE_READ = 0.75
"""An endpoint that reports fewer than this share of our own count has cut the prompt."""

WORTH_COUNTING = 8000
"""Characters below which a document is not counted."""

MOST_READING = 4096
"""Documents whose counts are remembered."""

TOKENS_A_PIECE = 1.3
"""More tokens than a word, a mark or three digits have on average, in all but odd texts."""

BYTES_A_TOKEN = 4
"""As many bytes as a token has in texts that are not of English words."""

_PIECE = re.compile(r"[A-Za-z]+|\d{1,3}|\n+|[^\sA-Za-z\d]+")


class Reading:
    """Watches over the documents sent to one model.

    Args:
        model: whose vocabulary to count with.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._estimates: OrderedDict[str, float] = OrderedDict()
        self._counts: OrderedDict[str, float] = OrderedDict()

    def check(self, document: Source, usage: Usage) -> None:
        """See that a document was read.

        Args:
            document: what was sent, among other things.
            usage: what the endpoint reports; without tokens where it reports nothing.

        Raises:
            ModelError: it was cut.
        """
        read = usage.prompt_tokens
        if not read or len(document.text) < WORTH_COUNTING:
            return
        if read >= SHARE_READ * self._estimate(document):
            return
        counted = self._count(document)
        if read < SHARE_READ * counted:
            raise ModelError(
                "cut",
                f"The endpoint read {read:,} of about {counted:,} tokens, so it cut the document: "
                "raise its context length, or use a model with a longer one.",
                usage=usage,
            )

    def _estimate(self, document: Source) -> float:
        """Tokens that it has at most, unless it is an odd text."""
        found = self._estimates.get(document.digest)
        if found is None:
            pieces = sum(1 for _ in _PIECE.finditer(document.text))
            size = len(document.text.encode("utf-8", "replace"))
            found = max(TOKENS_A_PIECE * pieces, size / BYTES_A_TOKEN)
            _keep(self._estimates, document.digest, found)
        return found

    def _count(self, document: Source) -> float:
        found = self._counts.get(document.digest)
        if found is None:
            found = count_tokens(document.text, self._model)
            _keep(self._counts, document.digest, found)
        return found


def _keep(kept: OrderedDict[str, float], digest: str, number: float) -> None:
    kept[digest] = number
    while len(kept) > MOST_READING:
        kept.popitem(last=False)


OPENAI = "https://api.openai.com/v1"
"""The endpoint where none is named."""

SECRET_LENGTH = 8
"""A shorter key ("none", "ollama") is a stand-in, and an ordinary word of many texts."""


class OpenAI:
    """A model of an OpenAI-compatible endpoint.

    Once the endpoint has refused the key, or the quota is used up, no further
    call is sent until the model is closed.

    Args:
        name: the model's, as the endpoint knows it.
        settings: where the endpoint is, and how it is to sample.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self._settings = settings
        self._final: ModelError | None = None
        url = settings.base_url or OPENAI
        self._transport = Transport(url, settings)
        self._writer = Writer(name, settings.temperature, settings.max_tokens)
        self._form = first_form(name, url, settings.prompt_cache)
        self._reading = Reading(name)

    @property
    def identity(self) -> str:
        sampling: dict[str, Any] = {}
        if self._settings.temperature is not None:
            sampling["temperature"] = self._settings.temperature
        if self._settings.max_tokens is not None:
            sampling["max_tokens"] = self._settings.max_tokens
        return canonical_json([self.name, self._settings.base_url, sampling])

    @property
    def notice(self) -> str:
        return ""

    async def answer(self, request: Request) -> Reply:
        if self._final:
            raise ModelError(self._final.reason, str(self._final))
        try:
            reply = await self._asked(request)
        except ModelError as error:
            if error.reason in FINAL:
                self._final = error
            raise
        if isinstance(request.call, ExecuteStep) and request.call.document is not None:
            self._reading.check(request.call.document, reply.usage)
        return reply

    async def close(self) -> None:
        self._final = None
        await self._transport.close()

    async def _asked(self, request: Request) -> Reply:
        limit = self._settings.timeout
        try:
            async with asyncio.timeout(limit):
                return read_completion(await self._sent(request), self._hidden)
        except TimeoutError:
            raise ModelError("timeout", f"No answer within {limit:g} seconds.") from None
        except UnicodeEncodeError:
            raise ModelError(
                "request", "The prompt holds half a character, which cannot be sent."
            ) from None

    async def _sent(self, request: Request) -> bytes:
        """The body of an answer with a status of success."""
        form = self._form
        body = self._writer.body(request, form)
        while True:
            answer = await self._transport.post(body)
            if answer.status < 300:
                return answer.body
            complaint = read_complaint(answer.body, self._hidden)
            if answer.status in (400, 422):
                form = form.without(complaint.text)
            before, body = body, self._writer.body(request, form)
            if body == before:
                raise failure(answer.status, answer.headers, complaint)
            # No retry of a failure: what goes out is another request, without a field that the
            # endpoint does not take, and each field is given up once and for all.
            self._form = self._form.without(complaint.text)

    def _hidden(self, text: str) -> str:
        """A text of the endpoint's without the key, which some endpoints repeat."""
        secret = self._settings.api_key.get_secret_value()
        return text.replace(secret, "***") if len(secret) >= SECRET_LENGTH else text
