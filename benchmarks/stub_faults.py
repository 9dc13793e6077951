"""How the stub misbehaves: every kind of fault, and the answer it makes of a prompt."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.stub_replies import Prompt, completion, reply_text, tokens_of

BIG = 5_000_000
"""Characters of an answer far too long."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent back.

    Args:
        head: the response up to its body.
        body: the response's body.
        usable: whether it holds a completion that nobody may turn down.
        usage: prompt, completion and cached tokens that it tells, if it does.
        manner: ``whole``, ``nothing``, ``half``, ``stall`` or ``drip``.
    """

    head: bytes
    body: bytes
    usable: bool = False
    usage: tuple[int, int, int] = (0, 0, 0)
    manner: str = "whole"


def http(status: str, body: bytes, kind: str = "application/json", more: str = "") -> Answer:
    """A response with a whole body."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return Answer(head.encode(), body)


def good(prompt: Prompt, cached: int = 0) -> Answer:
    """The completion that a well-behaved endpoint sends."""
    return _told(prompt, reply_text(prompt), cached=cached)


def make_answer(kind: str, prompt: Prompt, cached: int = 0) -> Answer:
    """The answer to a prompt.

    Args:
        kind: a key of ``FAULTS``, or empty for none.
        prompt: what was asked.
        cached: tokens of the prompt that the endpoint had kept.
    """
    return FAULTS[kind](prompt) if kind else good(prompt, cached)


def error(status: str, message: str, code: str | None = None, more: str = "") -> Answer:
    """An error as the API words it."""
    told = {"error": {"message": message, "type": code, "param": None, "code": code}}
    return http(status, json.dumps(told).encode(), more=more)


def _page(status: str) -> Answer:
    body = f"<html><head><title>{status}</title></head><body><h1>{status}</h1></body></html>"
    return http(status, body.encode(), "text/html")


def _sent(data: object, *, usable: bool = False, usage: tuple[int, int, int]) -> Answer:
    plain = http("200 OK", json.dumps(data).encode())
    return Answer(plain.head, plain.body, usable, usage)


def _told(
    prompt: Prompt,
    content: Any,
    *,
    written: int | None = None,
    cached: int = 0,
    finished: str = "stop",
    refusal: str | None = None,
) -> Answer:
    """A completion with this content and a proper usage."""
    counted = tokens_of(content) if written is None else written
    message = {"role": "assistant", "content": content, "refusal": refusal}
    usage = {
        "prompt_tokens": prompt.tokens,
        "completion_tokens": counted,
        "total_tokens": prompt.tokens + counted,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    data = completion(prompt, message, usage, finished=finished)
    usable = isinstance(content, str) and bool(content) and finished == "stop"
    return _sent(data, usable=usable, usage=(prompt.tokens, counted, cached))


def _as(manner: str, prompt: Prompt) -> Answer:
    whole = good(prompt)
    return Answer(whole.head, whole.body, whole.usable, whole.usage, manner)


def _truncated(prompt: Prompt) -> Answer:
    body = good(prompt).body
    return http("200 OK", body[: len(body) * 2 // 3])


def _without_usage(prompt: Prompt, usage: object = None) -> Answer:
    message = {"role": "assistant", "content": reply_text(prompt), "refusal": None}
    return _sent(completion(prompt, message, usage), usable=True, usage=(0, 0, 0))


def _choices_dict(prompt: Prompt) -> Answer:
    data = json.loads(good(prompt).body)
    data["choices"] = data["choices"][0]
    usage = data["usage"]
    return _sent(data, usage=(usage["prompt_tokens"], usage["completion_tokens"], 0))


@cache
def _long() -> str:
    sentence = "The document says it again, at greater length. "
    return (sentence * (BIG // len(sentence) + 1))[:BIG]


def _big(prompt: Prompt) -> Answer:
    told = _told(prompt, _long())
    return Answer(told.head, told.body, usable=False, usage=told.usage)


def _length(prompt: Prompt) -> Answer:
    text = reply_text(prompt)
    return _told(prompt, text[: len(text) // 2], finished="length")


@cache
def _bomb() -> bytes:
    packer = zlib.compressobj(wbits=31)
    spaces = b" " * (1 << 20)
    return b"".join(packer.compress(spaces) for _ in range(200)) + packer.flush()


BUSY = "Rate limit reached for requests."
RATE = "rate_limit_exceeded"
DOWN = "The server had an error while processing your request."

FAULTS: dict[str, Callable[[Prompt], Answer]] = {
    "rate": lambda _: error("429 Too Many Requests", BUSY, RATE),
    "rate_short": lambda _: error("429 Too Many Requests", BUSY, RATE, "Retry-After: 1\r\n"),
    "rate_long": lambda _: error("429 Too Many Requests", BUSY, RATE, "Retry-After: 600\r\n"),
    "server_500": lambda _: error("500 Internal Server Error", DOWN, "server_error"),
    "server_502": lambda _: _page("502 Bad Gateway"),
    "server_503": lambda _: error("503 Service Unavailable", DOWN, more="Retry-After: 1\r\n"),
    "reset": lambda prompt: _as("nothing", prompt),
    "reset_middle": lambda prompt: _as("half", prompt),
    "page": lambda _: _page("200 OK"),
    "empty": lambda prompt: _told(prompt, ""),
    "null": lambda prompt: _told(prompt, None, written=0),
    "truncated": _truncated,
    "stall": lambda prompt: _as("stall", prompt),
    "drip": lambda prompt: _as("drip", prompt),
    "no_usage": _without_usage,
    "usage_text": lambda prompt: _without_usage(prompt, {"prompt_tokens": "many"}),
    "content_list": lambda prompt: _told(prompt, [reply_text(prompt)], written=9),
    "choices_dict": _choices_dict,
    "big": _big,
    "refusal": lambda prompt: _told(prompt, None, written=9, refusal="I cannot help with that."),
    "length": _length,
    "nan": lambda prompt: _without_usage(
        prompt, {"prompt_tokens": math.nan, "completion_tokens": -math.inf}
    ),
    "digits": lambda _: http("200 OK", b'{"choices": %b}' % (b"1" * 5_000)),
    "deep": lambda _: http("200 OK", b"[" * 100_000),
    "bomb": lambda _: http("200 OK", _bomb(), more="Content-Encoding: gzip\r\n"),
    "elsewhere": lambda _: http("302 Found", b"", more="Location: http://127.0.0.1:1/\r\n"),
    "header": lambda _: http("200 OK", b"{}", more=f"X-More: {'x' * 1_000_000}\r\n"),
    "no_http": lambda _: Answer(b"SSH-2.0-OpenSSH_9.6\r\n", b""),
    "quota": lambda _: error(
        "429 Too Many Requests", "You exceeded your current quota.", "insufficient_quota"
    ),
    "key": lambda _: error("401 Unauthorized", "Incorrect API key.", "invalid_api_key"),
    "bad_request": lambda _: error("400 Bad Request", "Unknown parameter.", "unknown_parameter"),
}

ENDING = frozenset({"quota", "key", "bad_request"})
"""Kinds that end a batch or a plan for good; left out unless they are asked for."""

USUAL = tuple(kind for kind in FAULTS if kind not in ENDING)
