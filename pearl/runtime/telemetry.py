"""Turns a journal into OpenTelemetry spans, by the conventions for generative AI.

Each question is a trace: the run, within it planning and each step, and within these each call.
The spans are made from the journal when the question has ended, with the times recorded there. No
span holds text of a question, a document, a prompt or a reply.
"""

from __future__ import annotations

import logging
import math
import os
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pearl.lang.text import counted, one_line, printable
from pearl.models.base import Model
from pearl.models.routing import members
from pearl.models.secrets import CERTAIN, redaction
from pearl.runtime.calls import Entry, Journal

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""Variables that say where spans are sent. If none is set, and the program that imports Pearl has
configured nothing, no spans are made."""

TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
"""Variables that give the timeout for sending spans, in seconds."""

HEADERS = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
"""Variables that give headers, which may hold keys."""

WAIT = 2.0
"""The default timeout for spans, in seconds: a program is not to wait for a missing collector."""

_PROVIDERS = {"openai_client": "openai", "batch_api": "openai", "local": "llama.cpp"}
"""The provider of a backend's model, by the backend's module, where it has another name."""


@dataclass
class _Stage:
    """The journal's entries of planning, or of one step."""

    calls: list[Entry] = field(default_factory=list)
    decided: float | None = None
    cause: str = ""


def tell(kind: str, journal: Journal, model: Model, item: str = "") -> None:
    """Make the spans of a question that has ended, if spans are configured.

    Args:
        kind: what was done: ``ask``, ``plan``, ``run``, or a job's kind.
        journal: the journal of the question.
        model: the run's model, or `Models`.
        item: the question's name in its run; empty where the run is one question.
    """
    entries = journal.entries
    if not entries or not (tracer := _tracer()):
        return
    from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

    providers = {item.name: type(item).__module__.rpartition(".")[2] for item in members(model)}
    usual = next(iter(providers))
    ends: list[tuple[Any, float]] = []
    begun = min((entry.started for entry in entries if entry.started), default=time.time())

    def span(name: str, start: float, end: float, error: str, within: Any, **more: Any) -> Any:  # noqa: ANN401
        begun_span = tracer.start_span(
            name,
            set_span_in_context(within) if within else None,
            more.pop("kind", SpanKind.INTERNAL),
            {key: value for key, value in more["about"].items() if value not in ("", None)},
            start_time=round(start * 1e9),
        )
        if error:
            begun_span.set_attribute("error.type", error)
            begun_span.set_status(Status(StatusCode.ERROR))
        ends.append((begun_span, end))
        return begun_span

    failed = entries[-1].status == "failed" or any(entry.path == "failed" for entry in entries)
    root = span(
        f"invoke_workflow {kind}", begun, max(map(_end, entries), default=begun),
        "_OTHER" if failed else "", None,
        about={
            "gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": kind,
            "pearl.run": journal.name, "pearl.item": item,
        },
    )  # fmt: skip
    for name, stage in _stages(entries).items():
        times = [entry.started for entry in stage.calls if entry.started]
        start = min(times, default=stage.decided or begun)
        end = max(stage.decided or start, *map(_end, stage.calls), start)
        cause = stage.cause.partition(":")[0] if stage.cause else ""
        within = span(name, start, end, cause, root, about={"pearl.stage": name})
        for entry in stage.calls:
            named = entry.model or usual
            backend = providers.get(named, "openai")
            span(
                f"chat {named}", entry.started or start, _end(entry) or end,
                entry.cause.partition(":")[0] if entry.status == "failed" else "", within,
                kind=SpanKind.INTERNAL if entry.kept else SpanKind.CLIENT,
                about=_about_call(entry, named, _PROVIDERS.get(backend, backend)),
            )  # fmt: skip
    for ended, end in reversed(ends):
        ended.end(round(end * 1e9))


def _about_call(entry: Entry, model: str, provider: str) -> dict[str, Any]:
    """The attributes of a call's span. A cached reply has no tokens, as none were paid."""
    usage, sent = entry.usage, not entry.kept
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": usage.prompt_tokens if sent else None,
        "gen_ai.usage.output_tokens": usage.completion_tokens if sent else None,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens if sent else None,
        "pearl.path": entry.path,
        "pearl.attempt": entry.attempt,
        "pearl.kept": entry.kept,
    }


def _end(entry: Entry) -> float:
    return (entry.started or 0.0) + entry.seconds


def _stages(entries: Sequence[Entry]) -> dict[str, _Stage]:
    """The stages of a run, by name: ``plan``, ``step ross``, ``try/0 step ross``."""
    stages: dict[str, _Stage] = {}
    for entry in entries:
        before, path = "", entry.path
        while path.startswith("try/"):
            _, number, path = path.split("/", 2)
            before += f"try/{number} "
        head, _, rest = path.partition("/")
        name = rest.partition("/")[0].partition("[")[0]
        if entry.kind == "call":
            name = f"step {name}" if head == "step" else head
            stages.setdefault(before + name, _Stage()).calls.append(entry)
        elif head == "value":
            stages.setdefault(f"{before}step {rest}", _Stage()).decided = entry.started
        elif head == "step" and entry.status == "skipped" and "/" not in rest:
            stages.setdefault(f"{before}step {rest}", _Stage()).cause = "skipped"
    for stage in stages.values():
        last = stage.calls[-1] if stage.calls else None
        if last and last.status == "failed" and stage.decided is None:
            stage.cause = last.cause
    return stages


def _exporter() -> SpanExporter:
    """An exporter to where the standard variables say, which reports lost spans at its end; an
    `ImportError` without its package, and a `ValueError` where a variable cannot be used."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    has_timeout = any(os.environ.get(name, "").strip() for name in TIMEOUTS)

    class Exporter(OTLPSpanExporter):
        lost = 0
        failed_at = -math.inf

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            result = SpanExportResult.FAILURE
            # After a failed batch, others are dropped for a while, so as not to wait for each.
            if time.monotonic() - self.failed_at > WAIT:
                result = super().export(spans)
                if result is SpanExportResult.FAILURE:
                    self.failed_at = time.monotonic()
            if result is SpanExportResult.FAILURE:
                self.lost += len(spans)
            return result

        def shutdown(self) -> None:
            super().shutdown()  # type: ignore[no-untyped-call]
            if self.lost:
                _write(
                    f"{counted(self.lost, 'span')} could not be delivered: check "
                    f"{ENDPOINTS[1]}, or give it more seconds with {TIMEOUTS[1]}."
                )

    # The library's own log has a line for each failed try.
    logging.getLogger(OTLPSpanExporter.__module__).setLevel(logging.CRITICAL)
    return Exporter(timeout=None if has_timeout else WAIT)


@cache
def _say(what: str, reason: str) -> None:
    """Write one line, once for each message, about a variable that cannot be used; the values of
    headers are redacted, whole and in parts."""
    headers = ",".join(os.environ.get(name, "") for name in HEADERS)
    words = {*headers.split(), *re.split(r"[\s,]+", headers), *re.split(r"[\s,=:]+", headers)}
    parts = {word for word in words if len(word) >= CERTAIN}
    # White space is still that of the variables: with less of it, a header would not be found.
    told = redaction({*map(str.strip, headers.split(",")), *parts, *map(unquote, parts)})(reason)
    _write(f"{what}: {printable(one_line(told).rstrip('.'))}.")


def _write(message: str) -> None:
    # A program without a console has no standard error.
    if sys.stderr is not None:
        sys.stderr.write(f"pearl: {message}\n")


def _tracer() -> Tracer | None:
    """The tracer: the program's own if it has configured one, or one that sends spans where the
    standard variables say; None where neither is configured."""
    configured = any(os.environ.get(name, "").strip() for name in ENDPOINTS)
    if not configured and "opentelemetry.trace" not in sys.modules:
        return None
    from importlib.metadata import version
    from logging.handlers import BufferingHandler

    # What the SDK logs about a variable may be several lines, and hold a key.
    logger, listener = logging.getLogger("opentelemetry"), BufferingHandler(1000)
    listener.setLevel(logging.WARNING)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(listener)
    try:
        is_sending = _provide(configured)
    except ImportError:
        return None
    except Exception as error:  # noqa: BLE001 - what was answered stands, whatever the variables are
        reason = str(error) or "; ".join(record.getMessage() for record in listener.buffer)
        _say("No spans are sent, by an OTEL_ variable", reason)
        return None
    finally:
        logger.removeHandler(listener)
        logger.propagate = propagate
    for record in listener.buffer:
        _say("An OTEL_ variable cannot be read", record.getMessage())
    if not is_sending:
        return None
    from opentelemetry import trace

    return trace.get_tracer("pearl", version("pearl"))


def _provide(configured: bool) -> bool:
    """Set up the sending of spans by the standard variables, if they are ``configured`` and the
    program has not done so itself; gives whether spans are sent.

    An `ImportError` where OpenTelemetry is not installed; where a variable cannot be used, the SDK
    raises errors of many classes.
    """
    from opentelemetry import trace

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return True
    if not configured:
        return False
    for name, value in os.environ.items():
        if name.startswith("OTEL_") and value.encode("utf-8", "replace").decode() != value:
            raise ValueError(f"{name} is not UTF-8")
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    name = os.environ.get("OTEL_SERVICE_NAME") or "pearl"
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(_exporter()))
    trace.set_tracer_provider(provider)
    return True
