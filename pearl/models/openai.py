"""Any OpenAI-compatible endpoint, over chat completions or the Responses API.

A call is one request: nothing here tries again, the engine's retry layer is
the only one that does. The deadline is the whole call's. What constrains an
answer stands in fields beside the messages, so all requests on a document open
with the same prefix, which endpoints keep (docs/design.md).

From top to bottom: the model; how requests are written for an endpoint; a
completion read with no trust; whether the endpoint read the whole document.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pearl.lang.values import canonical_json
from pearl.models.base import FINAL, Constraint, ModelError, Reply, Request, Usage
from pearl.models.constraints import GRAMMARS, Forms, request_fields
from pearl.models.tokens import REASONING, count_tokens, counter, plain_name, room_for
from pearl.models.transport import SHOWN, Redact, Transport, complaint_of, failure, read_complaint
from pearl.prompts.calls import ExecuteStep

if TYPE_CHECKING:
    from pearl.models.settings import Settings


class OpenAI:
    """A model of an OpenAI-compatible endpoint.

    Once the endpoint has refused the key, or the quota is used up, no further
    call is sent until the model is closed.

    Args:
        name: the model's, as the endpoint knows it.
        settings: where the endpoint is, and how it is to sample.
        api: how the endpoint is spoken to; by default chat completions.
        transport: to the endpoint; by default one with the settings' key.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        api: Api | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.name = name
        self._api = api or CHAT
        self.identity = identity_of(name, settings, self._api)
        self.forms = forms_of(name, settings, self._api)
        self.sampling = settings.sampling
        self._limit = settings.timeout
        self._final: ModelError | None = None
        self._transport = transport or Transport(settings)
        self._writer = self._api.writer(name, settings)
        self._form = self._api.form(name, settings)

    @property
    def notice(self) -> str:
        """That a constraint was refused, where one was."""
        return self.forms.notice

    async def answer(self, request: Request) -> Reply:
        if self._final:
            raise ModelError(self._final.reason, str(self._final))
        transport, form = self._transport, self._form
        try:
            body = self._writer.body(request, form)
            async with asyncio.timeout(self._limit):
                while (answer := await transport.post(body, *self._api.path)).status >= 300:
                    complaint = read_complaint(answer.body, transport.redact)
                    if answer.status in (400, 422):
                        form = form.without(complaint.text)
                    before, body = body, self._writer.body(request, form)
                    if body == before:
                        raise failure(answer.status, answer.headers, complaint)
                    # No retry of a failure: what goes out is another request, without a field that
                    # the endpoint does not take, and each field is given up once and for all.
                    self._form = self._form.without(complaint.text)
            reply = self._api.read(answer.body, transport.redact)
        except TimeoutError:
            raise ModelError("timeout", f"No answer within {self._limit:g} seconds.") from None
        except ModelError as error:
            error.args = (transport.named(str(error)),)
            if error.reason in FINAL:
                self._final = error
            raise
        check_read(request, self.name, reply.usage)
        return reply

    async def close(self) -> None:
        self._final = None
        await self._transport.close()


def identity_of(name: str, settings: Settings, api: Api | None = None) -> str:
    """Everything about a model of an endpoint that decides its answers.

    Of the sampling what somebody has set: replies that were kept before greedy decoding was asked
    for are still found.
    """
    sampling = ("temperature", "max_tokens", "seed")
    named = {each: value for each in sampling if (value := getattr(settings, each)) is not None}
    path = [] if api in (None, CHAT) else list(api.path)
    return canonical_json([name, settings.base_url, named, *path])


# --- how requests are written ---

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
    """

    caching: Literal["off", "key", "breakpoint", "anthropic"] = "off"
    limit: str = OLD_LIMIT
    settled: bool = False
    greedy: bool = True

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

    def without(self, complaint: str) -> Form:
        """The form without what an endpoint says it does not take; itself where it names nothing.

        Args:
            complaint: the endpoint's words, with the names of fields.
        """
        form = self
        if form.caching != "off" and _CACHING.search(complaint):
            form = replace(form, caching="off")
        if re.search(r"\btemperature\b", complaint):
            form = replace(form, greedy=False)
        named = re.search(rf"\b{form.limit}\b", complaint)
        if not form.settled and named and _NOT_TAKEN.search(complaint):
            other = NEW_LIMIT if form.limit == OLD_LIMIT else OLD_LIMIT
            form = replace(form, limit=other, settled=True)
        return form


def _is_openai(settings: Settings) -> bool:
    host = urlsplit(settings.url).hostname or ""
    return host == "api.openai.com" or host.endswith(".api.openai.com")


def forms_of(name: str, settings: Settings, api: Api) -> Forms:
    """In which forms a model of an endpoint may take constraints.

    Args:
        name: the model's.
        settings: where the endpoint is.
        api: how it is spoken to.
    """
    # OpenAI refuses fields that it does not know; others pass over them.
    grammars = ("custom_tool",) if _is_openai(settings) else GRAMMARS
    endpoint = canonical_json([name, settings.url, *api.path])
    return Forms(endpoint, grammars, room=partial(room_for, settings.max_tokens, counter(name)))


def first_form(name: str, settings: Settings) -> Form:
    """The form to begin with.

    Args:
        name: the model's.
        settings: where the endpoint is, and in which words it is asked to keep a document.
    """
    own = _is_openai(settings)
    limit = NEW_LIMIT if own else OLD_LIMIT
    # Reasoning models refuse every temperature but their own; a batch of many is not sent twice.
    greedy = not (own and REASONING.search(name))
    caching = settings.prompt_cache
    if caching == "anthropic":
        return Form("anthropic", limit, greedy=greedy)
    if caching == "openai" or (caching == "auto" and own):
        version = _VERSION.search(name)
        explicit = version and (int(version[1]), int(version[2] or 0)) >= FIRST_EXPLICIT
        return Form("breakpoint" if explicit else "key", limit, greedy=greedy)
    return Form("off", limit, greedy=greedy)


MOST = 64
"""Documents kept as JSON."""

MOST_BYTES = 16 << 20
"""Memory that they may take in all."""

_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def half_a_character() -> ModelError:
    """Why a prompt is not sent that cannot be written as UTF-8."""
    return ModelError("request", "The prompt holds half a character, which cannot be sent.")


class Writer:
    """Writes requests to one model as the bytes that are sent.

    A document is the same in every prompt of its steps, so it is written as
    JSON once and the rest is put behind it. JSON escapes each character by
    itself, so the escaped pieces of a text make the escaped text.

    Args:
        name: the model's, as the endpoint knows it.
        settings: how replies are sampled, and how long they may be.
    """

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        self._settings = settings
        # By document and length: the opening of its prompts, as text and as JSON without the
        # last quote.
        self._openings: OrderedDict[tuple[str, int], tuple[str, bytes]] = OrderedDict()

    def body(self, request: Request, form: Form) -> bytes:
        """A request's body, in the form that the endpoint takes.

        Raises:
            ModelError: a message holds half a surrogate pair.
        """
        head = _write(self.fields(request, form)).encode()[:-1]
        try:
            return b"".join((head, b',"messages":[', *self._messages(request, form.marker), b"]}"))
        except UnicodeEncodeError:
            raise half_a_character() from None

    def fields(self, request: Request, form: Form) -> dict[str, Any]:
        """A request's fields beside its messages."""
        settings, document = self._settings, request.document if request.stable else ""
        sampling = settings.sampling_fields(request.sample, greedy=form.greedy)
        fields = {"model": self._name, **sampling, **form.fields(document)}
        if limit := settings.max_tokens or request.limit:
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


# --- a completion, read with no trust ---

LONGEST = 1_000_000
"""Characters of a reply beyond which no further prompt could hold it."""

MOST_TOKENS = 10**9
"""Tokens beyond which a number is no count of any call's."""

INSTEAD = "The endpoint sent {} instead of a completion: check OPENAI_BASE_URL."


def read_completion(body: bytes, redact: Redact) -> Reply:
    """The text and usage of a completion, whatever shape it really has.

    Args:
        body: what the endpoint sent with a status of success.
        redact: takes the key out of a text.

    Raises:
        ModelError: it holds no usable text; its usage is what was paid all the same.
    """
    return reply_of(read_json(body), redact)


def read_json(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """An answer with a status of success as JSON.

    Raises:
        ModelError: it is none; the message says what it looks like.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        start = body[:200].lstrip()
        if start.startswith((b"data:", b"event:")):
            message = "The endpoint streams its answer, which was not asked for: turn streaming "
            message += "off there."
        elif start.startswith((b"{", b"[")):
            message = "The endpoint's answer is damaged: it is not whole JSON."
        else:
            message = INSTEAD.format("a page" if start.startswith(b"<") else "something else")
        raise ModelError("reply", message) from None


def reply_of(data: Any, redact: Redact) -> Reply:  # noqa: ANN401 - any JSON
    """The text and usage of a completion that was read as JSON.

    Raises:
        ModelError: as `read_completion`.
    """
    usage = usage_of(_get(data, "usage"))
    try:
        text, complete = _text(data, redact)
    except ModelError as error:
        error.usage = usage
        raise
    return Reply(text, usage, complete)


def _text(data: Any, redact: Redact) -> tuple[str, bool]:  # noqa: ANN401 - any JSON
    """A completion's text, and whether the model came to its end."""
    choices = _get(data, "choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise _error_of(data, redact) or ModelError("reply", INSTEAD.format("something else"))
    message, finished = _get(choice, "message"), _get(choice, "finish_reason")
    text, refusal = _get(message, "content"), _get(message, "refusal")
    tools = _get(message, "tool_calls")
    if isinstance(tools, list) and tools:
        # The one tool that was offered takes the reply, held to a grammar; text beside it is not.
        text = _get(_get(tools[0], "custom"), "input") or text
    if isinstance(refusal, str) and refusal and not text:
        words = " ".join(redact(refusal).split())[:SHOWN]
        raise ModelError("refusal", f"The model refused: {words}")
    if finished == "content_filter":
        raise ModelError("refusal", "The endpoint's content filter held the answer back.")
    if text is not None and not isinstance(text, str):
        kind = "a list" if isinstance(text, list) else "something else"
        raise ModelError("reply", f"The endpoint sent the answer as {kind} and not as text.")
    if text is None or not text.strip():
        error = _error_of(choice, redact)
        if error is None and finished == "length":
            # The same call would come to the same end: only another request can mend it.
            error = ModelError(
                "request",
                "The model stopped at its token limit before it said anything: raise "
                "PEARL_MAX_TOKENS.",
            )
        raise error or ModelError("reply", "The model sent an empty answer.")
    if len(text) > LONGEST:
        raise ModelError(
            "reply",
            f"The model's answer has {len(text):,} characters, more than the {LONGEST:,} that "
            "a further prompt could hold.",
        )
    # Half a surrogate pair and NUL may be written in JSON, and could not be sent on or kept.
    whole = redact(text).encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    return whole, finished != "length"


def _error_of(data: Any, redact: Redact) -> ModelError | None:  # noqa: ANN401 - any JSON
    """An error that came with a status of success, judged by the code in it."""
    error = _get(data, "error")
    if not error:
        return None
    code = _get(error, "code")
    status = code if type(code) is int and 400 <= code < 600 else 500
    return failure(status, {}, complaint_of(data, redact))


def usage_of(data: object) -> Usage:
    """The tokens that an endpoint reports; 0 for what is no count."""
    details = _get(data, "prompt_tokens_details")
    return Usage(
        _whole(_get(data, "prompt_tokens")),
        _whole(_get(data, "completion_tokens")),
        _whole(_get(details, "cached_tokens")) or _whole(_get(data, "prompt_cache_hit_tokens")),
    )


def _get(data: object, name: str) -> Any:  # noqa: ANN401 - any JSON
    return data.get(name) if isinstance(data, dict) else None


def _whole(number: object) -> int:
    return number if type(number) is int and 0 < number < MOST_TOKENS else 0


@dataclass(frozen=True, slots=True)
class Api:
    """A way in which endpoints are asked for a model's words.

    Args:
        path: below the endpoint's address.
        writer: writes requests.
        read: reads the answer to one, with no trust.
        form: the form of requests to begin with.
    """

    path: tuple[str, ...]
    writer: type[Writer]
    read: Callable[[bytes, Redact], Reply]
    form: Callable[[str, Settings], Form]


CHAT = Api(("chat", "completions"), Writer, read_completion, first_form)
"""Chat completions, which every compatible endpoint has."""


# --- which endpoint a name means ---


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is asked.

    Args:
        model: its name there.
        settings: where the endpoint is, and how it is to sample.
        api: how it is spoken to.
        connect: opens what sends.
    """

    model: str
    settings: Settings
    api: Api
    connect: Callable[[], Transport]


def find_endpoint(name: str) -> Endpoint:
    """The endpoint that a model's name and the environment mean.

    Args:
        name: as people write it: ``responses:`` in front asks over the Responses API, ``azure:``
            a deployment on Azure.

    Raises:
        InputError: a setting is missing or wrong; the message says which.
    """
    from pearl.models.settings import read_settings

    model = plain_name(name)
    kinds, api = name.removesuffix(model).split(":"), CHAT
    if "responses" in kinds:
        from pearl.models.responses import RESPONSES

        api = RESPONSES
    if "azure" in kinds:
        from pearl.models.openai_client import azure_transport

        return Endpoint(model, azure_transport().settings, api, azure_transport)
    settings = read_settings(model)
    return Endpoint(model, settings, api, partial(Transport, settings))


def open_endpoint(name: str) -> OpenAI:
    """The model that a name and the environment mean (`find_endpoint`)."""
    endpoint = find_endpoint(name)
    model = OpenAI(endpoint.model, endpoint.settings, endpoint.api, endpoint.connect())
    # By which it is opened again, as a worker of a cluster does.
    model.name = name
    return model


# --- whether the document was read ---

SHARE_READ = 0.75
"""An endpoint that reports fewer than this share of our own count has cut the prompt."""

WORTH_COUNTING = 8000
"""Characters below which a document is not counted."""

TOKENS_A_PIECE = 1.3
"""More tokens than a word, a mark or three digits have on average, in all but odd texts."""

BYTES_A_TOKEN = 4
"""As many bytes as a token has in texts that are not of English words."""

_PIECE = re.compile(r"[A-Za-z]+|\d{1,3}|\n+|[^\sA-Za-z\d]+")


def check_read(request: Request, model: str, usage: Usage) -> None:
    """See that an endpoint read the whole of the document it was sent.

    Some servers cut a prompt without a word where it exceeds the length they
    are set to. They do report how many tokens they read, which is compared
    with a count of ours. tiktoken's vocabulary takes 79 MB and 0.2 seconds, so
    it is loaded only where an estimate, which costs 1 ms a document, leaves a
    doubt.

    Args:
        request: what was sent.
        model: whose vocabulary to count with.
        usage: what the endpoint reports; without tokens where it reports nothing.

    Raises:
        ModelError: the document was cut.
    """
    document = request.call.document if isinstance(request.call, ExecuteStep) else None
    read = usage.prompt_tokens
    if document is None or not read or len(document.text) < WORTH_COUNTING:
        return
    if read >= SHARE_READ * _estimate(document.text):
        return
    counted = count_tokens(document.text, model)
    if read < SHARE_READ * counted:
        raise ModelError(
            "cut",
            f"The endpoint read {read:,} of about {counted:,} tokens, so it cut the document: "
            "raise its context length, or use a model with a longer one.",
            usage=usage,
        )


@lru_cache(maxsize=256)
def _estimate(text: str) -> float:
    """Tokens that a text has at most, unless it is an odd one."""
    pieces = sum(1 for _ in _PIECE.finditer(text))
    size = len(text.encode("utf-8", "replace"))
    return max(TOKENS_A_PIECE * pieces, size / BYTES_A_TOKEN)
