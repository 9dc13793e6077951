"""An editor: speaks the Language Server Protocol to a real ``pearl lsp`` over pipes."""

from __future__ import annotations

import copy
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.forks import Fork

TIMEOUT = 30.0
ABLE = {
    "general": {"positionEncodings": ["utf-16"]},
    "textDocument": {
        "completion": {"completionItem": {"snippetSupport": True}},
        "rename": {"prepareSupport": True},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
    },
    "workspace": {
        "workspaceEdit": {"documentChanges": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
    },
}


class RefusedError(Exception):
    """The server answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


class Editor:
    """One connection.

    Args:
        folder: the server's working folder.
        words: more of the command line.
    """

    def __init__(self, folder: Path, *words: str) -> None:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = Fork([sys.executable, "-m", "pearl", "lsp", *words], cwd=folder, **pipes)
        self.folder = folder
        self.texts: dict[str, tuple[int, str]] = {}
        self.published: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self._numbers = itertools.count(1)
        self._arrived: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.complaints: list[bytes] = []
        works = (self._read, self._listen)
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Editor:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT)

    def inside(self, folder: Path) -> Editor:
        """The same connection, for texts of another folder."""
        other = copy.copy(self)
        other.folder, other.texts = folder, {}
        return other

    def start(self, able: dict[str, Any] = ABLE) -> dict[str, Any]:
        """Introduce the editor; what the server can do."""
        params = {
            "processId": os.getpid(),
            "rootUri": self.folder.as_uri(),
            "capabilities": able,
            "workspaceFolders": [{"uri": self.folder.as_uri(), "name": "folder"}],
        }
        told = self.ask("initialize", params)
        self.tell("initialized", {})
        return told["capabilities"]

    def end(self) -> int:
        """Take leave; the server's exit code."""
        self.ask("shutdown", None)
        return self.leave()

    def leave(self) -> int:
        """End the connection; the server's exit code."""
        self.tell("exit", None)
        for thread in self._threads:
            thread.join(TIMEOUT)
        return self.process.wait(TIMEOUT)

    def send(self, message: object) -> None:
        self.send_bytes(json.dumps(message).encode())

    def send_bytes(self, body: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def tell(self, method: str, params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        """A request's result, waited for."""
        number = next(self._numbers)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return self.answer(number)

    def answer(self, number: int) -> Any:
        """The result of the request with this id."""
        while True:
            message = self.next()
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise RefusedError(message["error"])
                return message["result"]

    def next(self, timeout: float = TIMEOUT) -> dict[str, Any]:
        """The next message, kept if it is one that nobody asked for."""
        message = self._arrived.get(timeout=timeout)
        assert message is not None, "the server has gone"
        if message.get("method") == "textDocument/publishDiagnostics":
            self.published.append(message["params"])
        elif "method" in message and "id" in message:
            self.asked.append(message)
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": None})
        return message

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str, language: str = "plaintext") -> list[dict[str, Any]]:
        """Open a text without writing it to the disk; what is found in it."""
        self.texts[name] = (1, text)
        item = {"uri": self.uri(name), "languageId": language, "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": item})
        return self.found(name)

    def change(self, name: str, *changes: dict[str, Any]) -> int:
        """Send changes; the new version."""
        version = self.texts[name][0] + 1
        self.texts[name] = (version, self.texts[name][1])
        document = {"uri": self.uri(name), "version": version}
        params = {"textDocument": document, "contentChanges": list(changes)}
        self.tell("textDocument/didChange", params)
        return version

    def rewrite(self, name: str, text: str) -> list[dict[str, Any]]:
        """Replace the whole text; what is found in the new one."""
        version = self.change(name, {"text": text})
        self.texts[name] = (version, text)
        return self.found(name)

    def close(self, name: str) -> None:
        self.tell("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}})

    def found(self, name: str) -> list[dict[str, Any]]:
        """What is found in the newest version of a text, waited for."""
        key = self.uri(name), self.texts[name][0]
        while True:
            for said in self.published:
                if (said["uri"], said.get("version")) == key:
                    self.published.clear()
                    return said["diagnostics"]
            self.next()

    def quiet(self, seconds: float) -> None:
        """Take in what arrives until nothing does for a while."""
        try:
            while True:
                self.next(seconds)
        except queue.Empty:
            return

    def about(self, method: str, name: str, **more: Any) -> Any:
        """The answer to a request about a document."""
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": self.uri(name)}, **more})

    def mark(self, method: str, name: str, mark: str, **more: Any) -> Any:
        """The answer to a request about the place of ``|`` in a piece of the text."""
        text = self.texts[name][1]
        assert text.count(mark.replace("|", "", 1)) == 1, mark
        offset = text.index(mark.replace("|", "", 1)) + mark.index("|")
        return self.about(method, name, position=place(text, offset), **more)

    def hover(self, name: str, mark: str) -> str:
        """The words of a hover at a mark."""
        return self.mark("hover", name, mark)["contents"]["value"]

    def format(self, name: str) -> list[dict[str, Any]]:
        """The edits that format a document."""
        return self.about("formatting", name, options={"tabSize": 2, "insertSpaces": True})

    def _listen(self) -> None:
        # Whoever does not read what a server complains of makes it wait.
        assert self.process.stderr
        self.complaints.extend(self.process.stderr)

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream
        while line := stream.readline():
            length = 0
            while line.strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
                line = stream.readline()
            self._arrived.put(json.loads(stream.read(length)))
        self._arrived.put(None)


def place(text: str, offset: int) -> dict[str, int]:
    """Line and UTF-16 units in it, of an offset."""
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    units = len(before.rpartition("\n")[2].encode("utf-16-le", "surrogatepass")) // 2
    return {"line": before.count("\n"), "character": units}


def between(text: str, start: int, end: int) -> dict[str, dict[str, int]]:
    """The range from one offset to another."""
    return {"start": place(text, start), "end": place(text, end)}


def offset_of(text: str, position: dict[str, int]) -> int:
    """The offset of a line and the UTF-16 units in it."""
    starts = [0]
    for at, char in enumerate(text):
        if char == "\n" or (char == "\r" and text[at + 1 : at + 2] != "\n"):
            starts.append(at + 1)
    start, units = starts[position["line"]], position["character"]
    rest = text[start:].encode("utf-16-le", "surrogatepass")[: units * 2]
    return start + len(rest.decode("utf-16-le", "surrogatepass"))


def applied(text: str, edits: list[dict[str, Any]]) -> str:
    """A text after changes, made as an editor makes them."""
    ends = [[offset_of(text, one["range"][end]) for end in ("start", "end")] for one in edits]
    for (start, end), at in sorted(zip(ends, range(len(edits)), strict=True), reverse=True):
        text = text[:start] + edits[at]["newText"] + text[end:]
    return text


def covered(text: str, given: dict[str, Any]) -> str:
    """What a range covers."""
    return text[offset_of(text, given["start"]) : offset_of(text, given["end"])]


@contextmanager
def editor(folder: Path, *words: str) -> Iterator[Editor]:
    """A connection that is introduced, and ended as the protocol asks."""
    with Editor(folder, *words) as one:
        one.start()
        yield one
        assert one.end() == 0
