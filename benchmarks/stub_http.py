"""The stub's side of HTTP/1.1: kept-alive connections, and every way to break one."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from functools import partial

from benchmarks.stub_desk import Desk, Tally
from benchmarks.stub_faults import BUSY, RATE, Answer, error, http, make_answer
from benchmarks.stub_replies import Prompt, read_prompt

LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)")
CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked")
CONTINUE = re.compile(rb"\r\nexpect:[ \t]*100-continue")
CLOSE = re.compile(rb"\r\nconnection:[ \t]*close")

PIECES = 20
"""Parts in which a dripping body comes."""


class Connection(asyncio.Protocol):
    """One kept-alive connection: requests are read and answered one after another."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._head = b""
        self._last = False
        self._tally: Tally | None = None
        self._later: asyncio.TimerHandle | None = None
        self._unsent: tuple[Prompt, Answer] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # So that resume_writing means: all of it is handed over.
        transport.set_write_buffer_limits(0)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._later:
            self._later.cancel()
        if self._tally:
            self._tally.cut += 1
            self._over()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._tally:
            self._read()

    def resume_writing(self) -> None:
        if self._unsent:
            self._sent(*self._unsent)

    def _read(self) -> None:
        """Serve the next request, once it is whole."""
        while not self._tally and not self._transport.is_closing():
            if not self._head and not self._read_head():
                return
            body = self._read_body()
            if body is None:
                return
            head, self._head = self._head, b""
            self._serve(head, body)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        self._head = bytes(self._buffer[: end + 2]).lower()
        del self._buffer[: end + 4]
        if CONTINUE.search(self._head) and not self._buffer:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return True

    def _read_body(self) -> bytes | None:
        if CHUNKED.search(self._head):
            return _unchunked(self._buffer)
        found = LENGTH.search(self._head)
        length = int(found[1]) if found else 0
        if len(self._buffer) < length:
            return None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return body

    def _serve(self, head: bytes, body: bytes) -> None:
        method, path = head.split(b" ", 2)[:2]
        self._last = CLOSE.search(head) is not None
        if method == b"post" and path.endswith(b"/chat/completions"):
            self._begin(body)
        elif method == b"get" and path.startswith(b"/stats"):
            told = self._desk.tally.told(bodies=path.endswith(b"?bodies"))
            self._write(http("200 OK", json.dumps(told).encode()))
        elif method == b"post" and path == b"/reset":
            self._desk.tally = Tally()
            self._write(http("200 OK", b"{}"))
        elif method == b"post" and path == b"/pause":
            self._desk.pause_after = int(body)
            self._write(http("200 OK", b"{}"))
        elif method == b"post" and path == b"/resume":
            for paused in self._desk.resume():
                paused()
            self._write(http("200 OK", b"{}"))
        else:
            self._write(error("404 Not Found", "There is no such page here."))

    def _write(self, answer: Answer) -> None:
        self._transport.write(b"%b%b" % (answer.head, answer.body))
        if self._last:
            self._transport.close()

    def _begin(self, body: bytes) -> None:
        try:
            prompt = read_prompt(body)
        except (ValueError, TypeError, KeyError, AttributeError):
            self._write(error("400 Bad Request", "The body is no chat-completions request."))
            return
        # A reset in the middle of a request must not count its end in the new tally.
        self._tally = self._desk.tally
        kind, wait = self._desk.take(prompt)
        if wait:
            self._later = self._loop.call_later(wait, self._answer, kind, prompt)
        else:
            self._answer(kind, prompt)

    def _answer(self, kind: str, prompt: Prompt) -> None:
        if not self._tally:
            return
        if self._desk.tally.completed >= self._desk.pause_after:
            self._desk.paused.append(partial(self._answer, kind, prompt))
            return
        if kind == "overload":
            answer = error("429 Too Many Requests", BUSY, RATE)
        else:
            answer = make_answer(kind, prompt, self._desk.cached(prompt))
        match answer.manner:
            case "whole":
                self._hand_over(prompt, answer, b"%b%b" % (answer.head, answer.body))
            case "nothing":
                self._reset()
            case "half":
                half = answer.body[: len(answer.body) // 2]
                self._transport.write(answer.head + half)
                self._later = self._loop.call_later(0.01, self._reset)
            case "stall":
                self._transport.write(answer.head)
                self._later = self._loop.call_later(self._desk.settings.stall, self._reset)
            case _:
                self._transport.write(answer.head)
                self._drip(prompt, answer, 0)

    def _drip(self, prompt: Prompt, answer: Answer, at: int) -> None:
        size = len(answer.body) // PIECES + 1
        piece = answer.body[at : at + size]
        if at + size >= len(answer.body):
            self._hand_over(prompt, answer, piece)
            return
        self._transport.write(piece)
        wait = self._desk.settings.drip / PIECES
        self._later = self._loop.call_later(wait, self._drip, prompt, answer, at + size)

    def _hand_over(self, prompt: Prompt, answer: Answer, last: bytes) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(last)
        if self._transport.get_write_buffer_size():
            self._unsent = (prompt, answer)
        else:
            self._sent(prompt, answer)

    def _sent(self, prompt: Prompt, answer: Answer) -> None:
        # A socket that failed while it was written to closes without raising.
        if self._transport.is_closing():
            self._desk.tally.cut += 1
        elif self._tally is self._desk.tally:
            self._desk.sent(prompt, answer)
        self._over()
        if self._last:
            self._transport.close()
        # Not from here: a client may have sent many requests at once.
        elif self._buffer:
            self._loop.call_soon(self._read)

    def _reset(self) -> None:
        """Close with a reset, so that the client sees an error and not an end."""
        linger = struct.pack("ii", 1, 0)
        self._transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, linger
        )
        self._over()
        self._transport.abort()

    def _over(self) -> None:
        if self._tally:
            self._tally.in_flight -= 1
        self._tally = self._later = self._unsent = None


def _unchunked(buffer: bytearray) -> bytes | None:
    """Take a body in chunks off the buffer; None while it is not whole."""
    body, at = bytearray(), 0
    while (end := buffer.find(b"\r\n", at)) >= 0:
        size = int(buffer[at:end].split(b";")[0], 16)
        if len(buffer) < end + 2 + size + 2:
            return None
        body += buffer[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
        if not size:
            del buffer[:at]
            return bytes(body)
    return None
