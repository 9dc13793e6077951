"""Spans, as a receiver of OTLP on loopback reads them with the protocol's own messages."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.server import KEY, Loopback, Serve, completion, failing
from tests.shell import STORY, call, process, write_rows

WHY = "Why does Mara leave the lighthouse?"
PLAN = '1. ans = FIND_REASON(CTX, "Mara leaves") : Find why\n'
SECRETS = (WHY, "lighthouse", "Fund", "sorry", KEY, "FIND_REASON")


@dataclass
class Receiver(Loopback):
    """Takes traces as OTLP over HTTP."""

    path = ""
    came: list[bytes] = field(default_factory=list)

    def routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/traces", self._take)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        self.came.append(await request.read())
        body = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=body, content_type="application/x-protobuf")

    def spans(self) -> list[Span]:
        """All that came, the outer ones first; none of their bytes hold what was asked or said."""
        found = []
        for body in self.came:
            assert not [one for one in SECRETS if one.encode() in body]
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                names = {one.key: one.value.string_value for one in resource.resource.attributes}
                assert names["service.name"] == "pearl"
                found += [span for scope in resource.scope_spans for span in scope.spans]
        self.came.clear()
        outward = ("invoke_workflow", "step", "plan", "chat")
        return sorted(found, key=lambda span: outward.index(span.name.split()[0]))


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    Path("story.txt").write_text(STORY, encoding="utf-8")
    Path("mara.plan").write_text(f"question: {WHY}\n\n{PLAN}", encoding="utf-8")
    with Receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        yield receiver


def about(span: Span) -> dict[str, Any]:
    kinds = ("string_value", "int_value", "bool_value")
    return {
        one.key: getattr(one.value, next(kind for kind in kinds if one.value.HasField(kind)))
        for one in span.attributes
    }


def test_a_run_its_steps_and_its_calls_are_spans(receiver: Receiver, serve: Serve):
    usage = {"prompt_tokens": 90, "completion_tokens": 7}
    usage |= {"prompt_tokens_details": {"cached_tokens": 64}}
    serve([failing(500), completion("The Fund had closed it.", usage=usage)], PEARL_TRIES="2")
    run = process("run", "mara.plan", "story.txt", "--store", "s.db", "--json").json["run"]
    root, step, tried, made = spans = receiver.spans()
    chat = ("chat some-model", Span.SPAN_KIND_CLIENT, step.span_id)
    assert [(one.name, one.kind, one.parent_span_id) for one in spans] == [
        ("invoke_workflow run", Span.SPAN_KIND_INTERNAL, b""),
        ("step ans", Span.SPAN_KIND_INTERNAL, root.span_id), chat, chat,
    ]  # fmt: skip
    assert len({one.trace_id for one in spans}) == 1
    assert about(root) == {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "run",
        "pearl.run": run,
    }
    tried, made = sorted((tried, made), key=lambda one: about(one)["pearl.attempt"])
    assert about(made) == {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "some-model", "gen_ai.usage.input_tokens": 90,
        "gen_ai.usage.output_tokens": 7, "gen_ai.usage.cache_read.input_tokens": 64,
        "pearl.path": "step/ans", "pearl.attempt": 2, "pearl.kept": False,
    }  # fmt: skip
    assert about(tried)["error.type"] == "server"
    assert tried.status.code == Status.STATUS_CODE_ERROR
    assert {one.status.code for one in (made, step, root)} == {Status.STATUS_CODE_UNSET}
    for within, whole in ((made, step), (tried, step), (step, root)):
        assert whole.start_time_unix_nano <= within.start_time_unix_nano
        assert within.start_time_unix_nano <= within.end_time_unix_nano
        assert within.end_time_unix_nano <= whole.end_time_unix_nano

    # A reply that was kept is no call of the endpoint, and no tokens are paid for it again.
    process("run", "mara.plan", "story.txt", "--store", "s.db")
    kept = receiver.spans()[-1]
    assert kept.kind == Span.SPAN_KIND_INTERNAL
    assert about(kept)["pearl.kept"] is True
    assert "gen_ai.usage.input_tokens" not in about(kept)


def test_what_failed_says_so(receiver: Receiver, serve: Serve):
    serve([failing(400)])
    for command in (("run", "mara.plan", "story.txt"), ("plan", WHY)):
        assert process(*command, "--store", "s.db").code == 1
        spans = receiver.spans()
        assert [about(one)["error.type"] for one in spans] == ["_OTHER", "request", "request"]
        assert {one.status.code for one in spans} == {Status.STATUS_CODE_ERROR}


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "max_queue_size must be a positive integer."),
        # The SDK's error has no words: what it logs says why.
        ("OTEL_PYTHON_TRACER_PROVIDER", "zz",
         "Failed to load configured provider tracer_provider."),
        ("OTEL_SERVICE_NAME", "\udcff", "OTEL_SERVICE_NAME is not UTF-8."),
    ],
)  # fmt: skip
def test_a_wrong_variable_takes_no_answer(receiver: Receiver, name: str, value: str, why: str):
    words = ("ask", "story.txt", WHY, "--model", "offline", "--json", "--store", "s.db")
    done = process(*words, **{name: value})
    assert (done.code, receiver.came) == (0, []), done.err
    assert done.json["answer"]
    assert done.err == f"pearl: No spans are sent, by an OTEL_ variable: {why}\n"


LEFT_OUT = {
    "OTEL_BSP_SCHEDULE_DELAY": ("abc", "OTEL_BSP_SCHEDULE_DELAY as integer. Defaulting to "),
    "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": ("zz", "Failed to load resource detector 'zz'"),
    "OTEL_PYTHON_CONTEXT": ("zz", "Failed to load context: zz"),
    "OTEL_TRACES_SAMPLER": ("zz", "Couldn't recognize sampler zz."),
    "OTEL_EXPORTER_OTLP_HEADERS": (f"Authorization: Bearer {KEY}", "Header format invalid!"),
}


def test_each_variable_that_is_left_out_is_one_line_without_a_key(receiver: Receiver):
    write_rows("q.jsonl", *({"id": str(at), "question": WHY, "document": "story.txt"}
                            for at in range(3)))  # fmt: skip
    words = ("batch", "q.jsonl", "-o", "a.jsonl", "--model", "offline", "--store", "s.db")
    done = process(*words, **{name: value for name, (value, _) in LEFT_OUT.items()})
    assert done.code == 0, done.err
    assert len([one for one in receiver.spans() if not one.parent_span_id]) == 3
    told = [one for one in done.err.splitlines() if "OTEL_" in one or "Traceback" in one]
    assert all(one.startswith("pearl: An OTEL_ variable cannot be read: ") for one in told)
    assert [sum(why in one for one in told) for _, why in LEFT_OUT.values()] == [1] * len(told)
    assert KEY not in done.err


def test_a_key_behind_any_white_space_is_printed_nowhere(receiver: Receiver):
    """Each header has a key of its own, so that none is found by another's."""
    headers = (
        "authorization: Bearer  spacedsecret1,authorization: Bearer   spacedsecret2,"
        "authorization: Bearer\nspacedsecret3,bad,  Authorization:  Bearer%20tok   spacedsecret4,"
        "x-api-key:spacedsecret5"
    )
    words = ("ask", "story.txt", WHY, "--model", "offline", "--json")
    done = process(*words, OTEL_EXPORTER_OTLP_HEADERS=headers)
    assert done.code == 0, done.err
    told = [one for one in done.err.splitlines() if "Header format invalid!" in one]
    assert len([one for one in told if "***" in one]) == 5
    assert "spacedsecret" not in done.err
    assert "tok " not in done.err


def test_a_program_without_standard_error_has_its_answer(receiver: Receiver):
    code = (
        "import sys\nsys.stderr = None\nimport pearl\n"
        "reader = pearl.Pearl(model='offline')\n"
        f"print(reader.ask_sync('story.txt', {WHY!r}).text)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, "OTEL_TRACES_SAMPLER": "zz"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip()


def test_a_collector_that_is_not_there_is_one_line_at_the_end(receiver: Receiver):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
        settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": dead, "OTEL_EXPORTER_OTLP_TIMEOUT": "0.1"}
        done = process("ask", "story.txt", WHY, "--model", "offline", "--json", **settings)
    assert done.json["answer"]
    [line] = done.err.splitlines()
    assert re.fullmatch(r"pearl: \d+ spans could not be delivered: check OTEL_.*", line)


def test_each_question_of_a_batch_is_a_trace(receiver: Receiver):
    row = '{"id": "%s", "question": "%s", "document": "story.txt"}\n'
    rows = "".join(row % (name, WHY) for name in ("a", "b"))
    Path("questions.jsonl").write_text(rows, encoding="utf-8")
    batch = ("batch", "questions.jsonl", "-o", "answers.jsonl", "--store", "s.db")
    assert process(*batch, "--model", "offline").code == 0
    roots = [one for one in receiver.spans() if not one.parent_span_id]
    assert {one.name for one in roots} == {"invoke_workflow question"}
    assert {about(one)["pearl.item"] for one in roots} == {"a", "b"}
    assert len({one.trace_id for one in roots}) == 2
    assert call("runs", "--store", "s.db", "--json").json[0]["run"] == about(roots[0])["pearl.run"]


IN_A_PROGRAM = """
import sys
import pearl
pearl.ask_sync("story.txt", "Why does Mara leave the lighthouse?", model="offline")
assert not [name for name in sys.modules if name.startswith("opentelemetry")], "loaded unasked"
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
pearl.ask_sync("story.txt", "Why does Mara leave the lighthouse?", model="offline")
kept = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(kept))
trace.set_tracer_provider(provider)
with trace.get_tracer("program").start_as_current_span("request"):
    pearl.ask_sync("story.txt", "Why does Mara leave the lighthouse?", model="offline")
spans = {one.name: one for one in kept.get_finished_spans()}
assert spans["invoke_workflow ask"].parent.span_id == spans["request"].context.span_id
print(*sorted(spans))
"""


def test_a_program_that_has_configured_spans_finds_a_run_s_within_its_own():
    """And nothing of them is loaded where nobody wants them."""
    Path("story.txt").write_text(STORY, encoding="utf-8")
    words = [sys.executable, "-c", IN_A_PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(" step")[0].strip() == "chat offline invoke_workflow ask plan request"
