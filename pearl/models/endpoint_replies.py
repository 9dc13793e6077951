"""Reads what an endpoint answers, which is not trusted: a completion, a response, or an error.

From top to bottom: a completion's text and usage; a response turned into a completion; whether the
endpoint read the whole document; an error's words, and the `ModelError` that they mean.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from pearl.lang.source import Source, cached_by_digest
from pearl.lang.text import one_line
from pearl.models.base import SAY_WINDOW, ModelError, Reply, Request, Usage
from pearl.models.secrets import Redact
from pearl.models.tokens import count_tokens
from pearl.prompts.calls import CorrectStep, ExecuteStep

SHOWN = 200
"""The most characters of an endpoint's own words that a message repeats."""

SEARCHED = 4000
"""The most characters of an error's words that are searched for what they mean."""

LONGEST = 1_000_000
"""The most characters of a reply; no further prompt could hold more."""

MOST_TOKENS = 10**9
"""The limit of plausible counts of tokens; a larger number counts as 0."""

INSTEAD = "The endpoint sent {} instead of a completion: check OPENAI_BASE_URL."


def read_json(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """A successful answer as JSON; a `ModelError` says what it looks like if it is no JSON."""
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
    """The text and usage of a completion, from the JSON of a successful answer, whatever shape it
    really has.

    Raises:
        ModelError: it holds no usable text; the error's usage is what was paid all the same.
    """
    usage = usage_of(_object(data).get("usage"))
    try:
        text, complete = _text(data, redact)
    except ModelError as error:
        error.usage = usage
        raise
    return Reply(text, usage, complete)


def _text(data: Any, redact: Redact) -> tuple[str, bool]:  # noqa: ANN401 - any JSON
    """A completion's text, and whether it is complete."""
    choices = _object(data).get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise error_of(data, redact) or ModelError("reply", INSTEAD.format("something else"))
    message, finished = _object(choice.get("message")), choice.get("finish_reason")
    text, refusal, tools = map(message.get, ("content", "refusal", "tool_calls"))
    if isinstance(tools, list) and tools:
        # The tool takes a reply that a grammar constrains; text beside it is not constrained.
        text = _object(_object(tools[0]).get("custom")).get("input") or text
    if isinstance(refusal, str) and refusal and not text:
        words = one_line(redact(refusal))[:SHOWN]
        raise ModelError("refusal", f"The model refused: {words}")
    if finished == "content_filter":
        raise ModelError("refusal", "The endpoint's content filter held the answer back.")
    if text is not None and not isinstance(text, str):
        kind = "a list" if isinstance(text, list) else "something else"
        raise ModelError("reply", f"The endpoint sent the answer as {kind} and not as text.")
    text = text and _without_thoughts(text)
    if text is None or not text.strip():
        error = error_of(choice, redact)
        if error is None and finished == "length":
            # The same call would come to the same end: only another request can mend it.
            error = ModelError(
                "length",
                "The model stopped at its token limit before it said anything: raise "
                "PEARL_MAX_TOKENS.",
            )
        if isinstance(tools, list) and tools:
            error = error or ModelError("empty", "The model called a tool instead of answering.")
        raise error or ModelError("empty", "The model sent an empty answer.")
    if len(text) > LONGEST:
        raise ModelError(
            "reply",
            f"The model's answer has {len(text):,} characters, more than the {LONGEST:,} that "
            "a further prompt could hold.",
        )
    # JSON may hold lone surrogates and NUL, which could not be sent on or stored.
    whole = redact(text).encode("utf-8", "replace").decode("utf-8").replace("\0", "\ufffd")
    return whole, finished != "length"


_THOUGHTS = re.compile(
    r"\s*+(?:<(think|thinking|reasoning)>.*?(?:</\1>|\Z)|(?:(?!<think>).)*?</think>)\s*",
    re.IGNORECASE | re.DOTALL,
)
_TAG = re.compile("</?(?:think|thinking|reasoning)>", re.IGNORECASE)


def _without_thoughts(text: str) -> str:
    """A reply without a reasoning model's thoughts before it.

    Some servers send them in the text, between tags; the opening tag may be missing, where it was
    in the server's prompt.
    """
    # Without the quick search for a tag, megabytes of text would take half a second.
    thoughts = _THOUGHTS.match(text) if _TAG.search(text) else None
    return text[thoughts.end() :] if thoughts else text


def error_of(data: Any, redact: Redact) -> ModelError | None:  # noqa: ANN401 - any JSON
    """The error in an answer with a status of success, by the code in it; None for none."""
    error = _object(data).get("error")
    code = _object(error).get("code")
    status = code if type(code) is int and 400 <= code < 600 else 500
    return failure(status, {}, complaint_of(data, redact)) if error else None


def usage_of(data: object) -> Usage:
    """The tokens that an endpoint reports; an implausible count is 0, as of more cached tokens than
    it has read."""
    counts = _object(data)
    details, read = counts.get("prompt_tokens_details"), natural(counts.get("prompt_tokens"))
    cached = natural(_object(details).get("cached_tokens"))
    cached = cached or natural(counts.get("prompt_cache_hit_tokens"))
    written = natural(counts.get("completion_tokens"))
    return Usage(read, written, cached if cached <= read else 0)


def _object(data: object) -> Mapping[str, Any]:
    """JSON data that is to be an object; an empty one in place of anything else."""
    return data if isinstance(data, dict) else {}


def natural(number: object) -> int:
    """A count, or the number of a line; 0 for anything else."""
    return number if type(number) is int and 0 < number < MOST_TOKENS else 0


# --- a response in the words of a completion ---

_FINISHED = {"max_output_tokens": "length", "content_filter": "content_filter"}
"""A completion's word for each reason for which a response is incomplete."""


def as_completion(data: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A response turned into a chat completion, so that both are checked alike.

    The text is that of its messages, or the input of a custom tool; a reasoning model's thoughts
    are left out.
    """
    usage, error, items = map(_object(data).get, ("usage", "error", "output"))
    completion: dict[str, Any] = {
        "error": error,
        "usage": {
            "prompt_tokens": _object(usage).get("input_tokens"),
            "completion_tokens": _object(usage).get("output_tokens"),
            "prompt_tokens_details": _object(usage).get("input_tokens_details"),
        },
    }
    if not isinstance(items, list):
        return completion
    contents = [_object(item).get("content") for item in items]
    parts = [part for each in contents if isinstance(each, list) for part in each]
    spoken = [part for part in parts if _object(part).get("type") in ("output_text", "refusal")]
    message = {
        "content": _joined([part["text"] for part in spoken if "text" in part]),
        "refusal": _joined([part["refusal"] for part in spoken if "refusal" in part]),
        "tool_calls": [
            {"custom": x} for x in items if _object(x).get("type") == "custom_tool_call"
        ],
    }
    why = _object(_object(data).get("incomplete_details")).get("reason")
    finished = _FINISHED.get(why, "stop") if isinstance(why, str) else "stop"
    return {
        **completion,
        "choices": [{"message": message, "finish_reason": finished, "error": error}],
    }


def _joined(texts: list[Any]) -> Any:  # noqa: ANN401 - any JSON
    """Texts joined; None for an empty list, and the list itself where it holds other things."""
    if not texts:
        return None
    return "".join(texts) if all(isinstance(text, str) for text in texts) else texts


# --- whether the document was read ---

SHARE_READ = 0.75
"""An endpoint that reports fewer than this share of our own count has cut the prompt."""

WORTH_COUNTING = 8000
"""The fewest characters of a document that is checked."""

TOKENS_A_PIECE = 1.3
"""The tokens of a word, a mark or three digits: above the average of all but unusual texts."""

BYTES_A_TOKEN = 4
"""The bytes of a token in texts without English words."""

_PIECE = re.compile(r"[A-Za-z]+|\d{1,3}|\n+|[^\sA-Za-z\d]+")


def check_read(request: Request, model: str, usage: Usage) -> None:
    """Check that an endpoint read the whole document it was sent.

    Some servers silently cut a prompt that exceeds their context length. But
    they report how many tokens they read, which is compared with our own count.
    tiktoken's vocabulary takes 79 MB and 0.2 seconds, so it is loaded only where
    an estimate, which takes 1 ms a document, leaves a doubt.

    Args:
        request: what was sent.
        model: the name of the model in whose vocabulary to count.
        usage: the tokens that the endpoint reports; zero tokens are not checked.

    Raises:
        ModelError: the document was cut.
    """
    call = request.call.step if isinstance(request.call, CorrectStep) else request.call
    document = call.document if isinstance(call, ExecuteStep) else None
    read = usage.prompt_tokens
    if document is None or not read or len(document.text) < WORTH_COUNTING:
        return
    if read >= SHARE_READ * _estimate(document):
        return
    counted = count_tokens(document.text, model)
    if read < SHARE_READ * counted:
        raise ModelError(
            "cut",
            f"The endpoint read {read:,} of about {counted:,} tokens, so it cut the document: "
            "raise its context length, or use a model with a longer one.",
            usage=usage,
        )


@cached_by_digest(256)
def _estimate(document: Source) -> float:
    """The most tokens of a document, unless it is unusual."""
    pieces = len(_PIECE.findall(document.text))
    size = len(document.text.encode("utf-8", "replace"))
    return max(TOKENS_A_PIECE * pieces, size / BYTES_A_TOKEN)


# --- an error ---

QUOTA = ("insufficient_quota", "billing_not_active", "billing_hard_limit_reached")
"""Codes of errors that waiting does not mend."""

TOO_LONG = (
    "context_length_exceeded", "exceed_context_size", "string_above_max_length", "context length",
    "context window", "context size", "prompt is too long", "input is too long", "prompt too long",
    "input too long", "model length", "prompt length", "configured limit",
    "number of tokens allowed", "too many tokens", "too large for model",
    "tokens + `max_new_tokens`", "reduce the length of the",
)  # fmt: skip
"""How endpoints say that a prompt does not fit."""

_TOKENS = r"(\d{1,3}(?:,\d{3}){1,3}|\d{3,9})(?!\d|\.\d)"
_WINDOWS = [
    re.compile(pattern.replace("N", _TOKENS), re.IGNORECASE)
    for pattern in (
        r">\s*N\s*(?:tokens\s*)?maximum",
        r"(?:context|model|prompt|input)[ _](?:length|size|window|len)\b"
        r"(?:(?!your|request|exceed)[^\d;:]){0,24}?N",
        r"N\s+(?:tokens?\s+)?maximum context",
        r"(?:limit|tokens allowed|max_model_len)\b[^\d;]{0,12}?N",
        r"(?:must be|less than|cannot exceed|at most)[^\d;]{0,6}?N",
    )
]
"""How endpoints name the tokens that fit a model, each in its own words."""

_REPLY_FIELD = re.compile(r"(?i)max\w{0,40}tokens")
_REPLY_LIMIT = re.compile(
    r"(?i)(?:>(?!=)|<=?|at most|no more than|less than(?: or equal to)?|limit(?: of| is)?"
    rf"|maximum(?: allowed)?(?: value)?(?: of| is)?|\b[01] ?(?:,|to|and|-))\W{{0,3}}{_TOKENS}"
)
"""How endpoints name the most tokens of a reply; the last form is the end of a range."""

NOT_TAKEN = re.compile(
    r"(?i)unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|not permitted|forbidden"
)
"""How endpoints say that they do not know a field, or do not take it."""


def reply_limit(complaint: str) -> int | None:
    """The most tokens of a reply, if an endpoint's complaint about the field that limits it says
    so. It is the smallest number named, as a larger one is what was asked for."""
    if not _REPLY_FIELD.search(complaint) or _is_too_long(complaint):
        return None
    numbers = [match[1].replace(",", "") for match in _REPLY_LIMIT.finditer(complaint)]
    return min(map(int, numbers), default=None)


def _is_too_long(complaint: str) -> bool:
    return any(phrase in complaint.lower() for phrase in TOO_LONG)


@dataclass(frozen=True, slots=True)
class Complaint:
    """What an endpoint says of an error.

    Args:
        words: the beginning of its message, in one line and without the key; empty for none.
        codes: names of the error's kind and of the field it is about.
        n_ctx: llama.cpp's field of that name, the tokens of its window; 0 where there is none.
    """

    words: str = ""
    codes: str = ""
    n_ctx: int = 0

    @property
    def text(self) -> str:
        """The words and the codes as one text, to search in."""
        return f"{self.words} {self.codes}"

    @property
    def window(self) -> int | None:
        """The model's context window in tokens, where the words name it. It is the smallest
        number named, as a larger one is that of the prompt."""
        numbers = [match[1] for pattern in _WINDOWS for match in pattern.finditer(self.words)]
        return self.n_ctx or min((int(each.replace(",", "")) for each in numbers), default=None)


def read_complaint(body: bytes, redact: Redact) -> Complaint:
    """An error's body, whatever shape it has; a web page has no words worth repeating."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return Complaint(_words(body.decode("utf-8", "replace"), redact))
    return complaint_of(data, redact)


def complaint_of(data: Any, redact: Redact) -> Complaint:  # noqa: ANN401 - any JSON
    """The complaint that a piece of JSON holds: an error's code, words and numbers."""
    error = data.get("error", data) if isinstance(data, dict) else data
    if not isinstance(error, dict):
        return Complaint(_words(error, redact) if isinstance(error, str) else "")
    named = [error.get(name) for name in ("code", "type", "param")]
    codes = " ".join(_words(name, redact) for name in named if isinstance(name, str))
    words = next((error[name] for name in ("message", "detail", "error") if error.get(name)), "")
    if not isinstance(words, str):
        # Validators list what is wrong with each field.
        words = json.dumps(words, ensure_ascii=False)
    return Complaint(_words(words, redact), codes, natural(error.get("n_ctx")))


def _words(text: str, redact: Redact) -> str:
    """The beginning of a text, in one line and without the key; nothing of a web page."""
    return "" if text.lstrip().startswith("<") else one_line(redact(text))[:SEARCHED]


def failure(
    status: int, headers: Mapping[str, str], complaint: Complaint, redact: Redact = str
) -> ModelError:
    """The error for an endpoint's answer with a status of 300 or above, its headers, of which
    ``redact`` takes out the key, and its body's complaint."""
    reason, message = _judged(status, headers, complaint, redact)
    seconds = number(headers.get("retry-after-ms", ""), 1000)
    if seconds is None:
        seconds = number(text := headers.get("Retry-After", ""))
        if seconds is None and (until := _date(text)):
            # By the endpoint's own clock, if it sends the time, as ours may differ.
            now = _date(headers.get("Date", "")) or datetime.now(UTC)
            seconds = (until - now).total_seconds()
    wait = seconds if seconds is not None and 0 < seconds < math.inf else None
    window = complaint.window if reason == "context" else None
    if reason == "context" and window is None:
        message += f" {SAY_WINDOW}"
    limited = reason == "request" and _REPLY_FIELD.search(complaint.text)
    if limited and not NOT_TAKEN.search(complaint.text):
        message += " Set PEARL_MAX_TOKENS to what it allows."
    error = ModelError(reason, message, retry_after=wait, window=window, status=status)
    error.complaint = complaint.text if status in (400, 422) else ""
    return error


def _judged(
    status: int, headers: Mapping[str, str], complaint: Complaint, redact: Redact
) -> tuple[str, str]:
    """A `ModelError`'s reason and message."""
    words = complaint.words[:SHOWN] or f"it says {status} and no more."
    words = words if words.endswith((".", "!", "?")) else f"{words}."
    if status < 400:
        host = ""
        with suppress(ValueError):  # The address may be none.
            # As it is written: `hostname` is in lower case, where no base64 is recognized.
            host = redact(urlsplit(headers.get("Location", "")).netloc.rpartition("@")[2])
        where = f" to {host[:SHOWN]}" if host else ""
        return "request", f"The endpoint sends calls elsewhere{where}: check OPENAI_BASE_URL."
    if status == 402 or any(code in complaint.text for code in QUOTA):
        return "quota", "The account's quota is used up: nothing more can be asked."
    if status in (401, 403):
        return "authentication", "The endpoint refuses the key, or wants one: check OPENAI_API_KEY."
    if status == 408:
        return "timeout", "The endpoint did not answer in time."
    if status == 409 or status >= 500:
        return "server", f"The endpoint failed ({status}): {words}"
    if status == 413 or (status in (400, 422) and _is_too_long(complaint.text)):
        return "context", f"The prompt does not fit the model: {words}"
    if status == 404:
        return "request", (
            f"The endpoint knows no such model or address: {words} "
            "Check --model and OPENAI_BASE_URL."
        )
    # A request of more tokens than the account may send in a minute fails after any pause.
    too_large = complaint.words.lower().startswith("request too large")
    if status == 425 or (status == 429 and not too_large):
        return "rate", f"The endpoint turns calls away: {words} Try again later."
    return "request", f"The endpoint refused the request: {words}"


def number(text: str, unit: int = 1) -> float | None:
    """A header's number divided by ``unit`` (1000 for milliseconds); None where it is none."""
    try:
        return float(text) / unit
    except ValueError:
        return None


def _date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
