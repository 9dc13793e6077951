"""A real server on loopback that speaks files and batches, records what it is asked, and can
misbehave."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aiohttp import web

from tests.server import Handler, Loopback, completion

Body: TypeAlias = dict[str, Any]
Answer: TypeAlias = str | Body | tuple[int, Any]
"""A text is a completion, a dictionary a body with status 200, a pair a status and a body."""

Line: TypeAlias = Body | bytes
Lines: TypeAlias = Callable[[list[Line]], list[Line]]
Act: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


def echo(body: Body) -> Answer:
    """Says the prompt back."""
    text = body["messages"][-1]["content"]
    return completion(f"said {text}", usage={"prompt_tokens": 10, "completion_tokens": 2})


@dataclass
class Provider(Loopback):
    """Runs in a thread of its own from ``with`` to the end of the block.

    Args:
        script: what to answer to a request's body.
        looks: how often a batch is looked at before it is over.
        room: batches that run at a time; more are refused for want of room.
        outputs, errors: what to make of the lines of the two files before they are sent.
        end: the status a batch ends with, and more of its fields, by its place in line.
        instead: what to do in place of an act (``upload``, ``create``, ``look``, ``list``,
            ``download``), one after another; None does what should be done.
        after: likewise, but the act is done first: only its answer is another.
    """

    script: Callable[[Body], Answer] = echo
    looks: int = 1
    room: int = 1000
    outputs: Lines = list
    errors: Lines = list
    end: Callable[[int], Body] = lambda _: {"status": "completed"}
    instead: dict[str, list[Handler | None]] = field(default_factory=dict)
    after: dict[str, list[Handler | None]] = field(default_factory=dict)
    page: int = 100
    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, Body] = field(default_factory=dict)
    acts: Counter[str] = field(default_factory=Counter)
    heads: list[dict[str, str]] = field(default_factory=list)
    uploads: list[tuple[str, str, bytes]] = field(default_factory=list)
    created: list[Body] = field(default_factory=list)

    def __post_init__(self) -> None:
        # They are used up.
        self.instead = {name: list(acts) for name, acts in self.instead.items()}
        self.after = {name: list(acts) for name, acts in self.after.items()}

    @property
    def sent(self) -> list[list[str]]:
        """The ids of the requests in each batch, in order: what is paid for."""
        return [[one["custom_id"] for one in batch] for batch in self._requests()]

    @property
    def bodies(self) -> list[Body]:
        """The bodies of all requests of all batches."""
        return [one["body"] for batch in self._requests() for one in batch]

    def wait(self, act: str, count: int = 1) -> None:
        """Wait until an act has been asked for this often."""
        until = time.monotonic() + 60
        while self.acts[act] < count:
            assert time.monotonic() < until, f"{act} never came: {self.acts}"
            time.sleep(0.01)

    def routes(self, app: web.Application) -> None:
        acts: dict[str, tuple[str, str, Act]] = {
            "upload": ("POST", "/v1/files", self._upload),
            "create": ("POST", "/v1/batches", self._create),
            "list": ("GET", "/v1/batches", self._list),
            "look": ("GET", "/v1/batches/{id}", self._look),
            "download": ("GET", "/v1/files/{id}/content", self._download),
        }
        for name, (method, path, act) in acts.items():
            app.router.add_route(method, path, self._acting(name, act))
            # As Azure has it.
            app.router.add_route(method, path.replace("/v1", "/openai"), self._acting(name, act))

    def _acting(self, name: str, act: Act) -> Act:
        async def handle(request: web.Request) -> web.StreamResponse:
            instead, after = (_next(kind, name) for kind in (self.instead, self.after))
            self.heads.append(dict(request.headers))
            response = None if instead else await act(request)
            self.acts[name] += 1
            if instead or after:
                response = await (instead or after)(request)  # type: ignore[misc]
            assert response is not None
            return response

        return handle

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        file = form["file"]
        assert isinstance(file, web.FileField)
        name, data = f"file-{len(self.files) + 1}", file.file.read()
        assert int(request.headers["Content-Length"]) > len(data)
        self.uploads.append((str(form["purpose"]), file.filename, data))
        self.files[name] = data
        return web.json_response({"id": name, "object": "file", "purpose": "batch"})

    async def _create(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if asked["input_file_id"] not in self.files:
            return web.json_response({"error": {"message": "No such File object"}}, status=400)
        self.created.append(asked)
        name = f"batch_{len(self.batches) + 1}"
        total = len(self.files[asked["input_file_id"]].splitlines())
        self.batches[name] = {
            **asked, "id": name, "object": "batch", "errors": None, "status": "validating",
            "output_file_id": None, "error_file_id": None, "looks": 0,
            "request_counts": {"total": total, "completed": 0, "failed": 0},
        }  # fmt: skip
        return web.json_response(self.batches[name])

    async def _list(self, request: web.Request) -> web.StreamResponse:
        newest = list(reversed(self.batches.values()))
        names = [batch["id"] for batch in newest]
        after = request.query.get("after")
        start = names.index(after) + 1 if after else 0
        size = min(self.page, int(request.query["limit"]))
        page = newest[start : start + size]
        more = start + size < len(newest)
        return web.json_response({"object": "list", "data": page, "has_more": more})

    async def _look(self, request: web.Request) -> web.StreamResponse:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return web.json_response({"error": {"message": "No batch"}}, status=404)
        batch["looks"] += 1
        running = [one["id"] for one in self.batches.values() if one["status"] == "in_progress"]
        if "done" not in batch and batch["id"] not in running and len(running) >= self.room:
            batch |= crowded() | {"done": True}
        elif batch["looks"] <= self.looks:
            batch["status"] = "in_progress"
        elif "done" not in batch:
            self._finish(batch)
        return web.json_response(batch)

    async def _download(self, request: web.Request) -> web.StreamResponse:
        data = self.files.get(request.match_info["id"])
        if data is None:
            return web.json_response({"error": {"message": "No such File"}}, status=404)
        return web.Response(body=data, content_type="application/octet-stream")

    def _finish(self, batch: Body) -> None:
        batch["done"] = True
        batch |= self.end(list(self.batches).index(batch["id"]))
        if batch["status"] == "failed":
            return
        good: list[Line] = []
        bad: list[Line] = []
        for asked in self._asked(batch):
            answer = self.script(asked["body"])
            status, body = answer if isinstance(answer, tuple) else (200, answer)
            body = completion(body) if status == 200 and isinstance(body, str) else body
            (good if status < 300 else bad).append(result(asked["custom_id"], body, status))
        made = {"output_file_id": self.outputs(good), "error_file_id": self.errors(bad)}
        for name, lines in made.items():
            if lines:
                batch[name] = f"file-{len(self.files) + 1}"
                self.files[batch[name]] = b"\n".join(map(_written, lines)) + b"\n"
        batch["request_counts"] |= {"completed": len(good), "failed": len(bad)}

    def _asked(self, batch: Body) -> list[Body]:
        return list(map(json.loads, self.files[batch["input_file_id"]].splitlines()))

    def _requests(self) -> list[list[Body]]:
        return [self._asked(batch) for batch in self.batches.values()]


def crowded(_: int = 0) -> Body:
    """How a batch ends that there is no room for."""
    error = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached."}
    return {"status": "failed", "errors": {"object": "list", "data": [error]}}


def result(key: str, body: Any, status: int = 200) -> Body:
    """A line of a batch's results that holds a response."""
    response = {"status_code": status, "request_id": "req_1", "body": body}
    return {"id": "batch_req_1", "custom_id": key, "response": response, "error": None}


def unsent(key: str, code: str, message: str = "no") -> Body:
    """A line of a batch's results for a request that was never made."""
    error = {"code": code, "message": message}
    return {"id": "batch_req_1", "custom_id": key, "response": None, "error": error}


def _next(scripts: dict[str, list[Handler | None]], name: str) -> Handler | None:
    left = scripts.get(name)
    return left.pop(0) if left else None


def _written(line: Line) -> bytes:
    return line if isinstance(line, bytes) else json.dumps(line).encode()
