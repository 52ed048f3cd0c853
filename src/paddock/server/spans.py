"""OpenTelemetry spans of sessions: each session, and in it each make and reset, and its steps in batches.

Only if the SDK is installed and someone wants spans: the program that runs the server, which has set a provider, or
OpenTelemetry's variables. Otherwise nothing of it is imported, and sessions are plain ones.
"""

from __future__ import annotations

import os
import sys
import time
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Any

from paddock.errors import PlanError
from paddock.hosting.codec import PREFIX_BYTES
from paddock.server import telemetry
from paddock.server.live_session import LiveSession
from paddock.server.served_env import is_make

_CHOICE, _ENDPOINTS = "OTEL_TRACES_EXPORTER", ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_RESET = b"\xa4type\xa5reset"  # after the byte that begins a map
_BATCH, _BATCH_S = 1000, 10.0  # at most so many steps, and so many seconds, in one span


def session_class() -> type[LiveSession]:
    """Return the class of sessions: with spans if someone wants them."""
    sdk = sys.modules.get("opentelemetry.sdk.trace")
    if sdk is not None and isinstance(sys.modules["opentelemetry.trace"].get_tracer_provider(), sdk.TracerProvider):
        return TracedSession
    chosen = os.environ.get(_CHOICE) or ("otlp" if any(os.environ.get(name) for name in _ENDPOINTS) else "none")
    if chosen == "none" or find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        return LiveSession
    from opentelemetry import trace

    trace.set_tracer_provider(_provider(chosen))
    return TracedSession


def _provider(exporter: str) -> Any:
    """Make what the variables ask for. Not in the parent of several processes: it has a thread."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    found = [one for one in entry_points(group="opentelemetry_traces_exporter") if one.name == exporter]
    if not found:
        hint = "For otlp: pip install opentelemetry-exporter-otlp; for no spans: none"
        raise PlanError(f"{_CHOICE}={exporter!r:.40}: no such exporter is installed. {hint}")
    os.environ.setdefault("OTEL_SERVICE_NAME", "paddock")
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(found[0].load()()))
    return provider


def flush() -> None:
    """Send the spans that are not sent yet. Blocks."""
    from opentelemetry import trace

    trace.get_tracer_provider().force_flush()


class TracedSession(LiveSession):
    """A session with spans below the one of the client that opened it (W3C Trace Context)."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        parent = TraceContextTextMapPropagator().extract({"traceparent": telemetry.traceparent.get()})
        self._tracer = trace.get_tracer("paddock")
        self._span = self._tracer.start_span(
            "session",
            parent,
            trace.SpanKind.SERVER,
            {f"paddock.{name}": value for name, value in self.labels.items()},
        )
        self._within = trace.set_span_in_context(self._span)
        self._work: Any = None  # the span of what the worker does
        self._kind, self._count, self._began_s, self._replied_ns = "", 0, 0.0, 0

    def request(self, connection: int, frame: bytes, *, final: bool = False) -> None:
        kind = "make" if is_make(frame) else "reset" if frame.startswith(_RESET, PREFIX_BYTES + 1) else "steps"
        whole = self._count >= _BATCH or time.monotonic() - self._began_s > _BATCH_S
        if final:
            self._end_work()
        elif self._work is None or kind != self._kind or kind != "steps" or whole:
            self._end_work()
            self._kind, self._count, self._began_s = kind, 0, time.monotonic()
            self._work = self._tracer.start_span(kind, self._within)
        super().request(connection, frame, final=final)

    def _handle_reply(self, worker: int, frame: bytes) -> None:
        self._count += 1
        self._replied_ns = time.time_ns()
        super()._handle_reply(worker, frame)

    def _end_work(self) -> None:
        if self._work is not None:
            self._work.set_attribute("paddock.replies", self._count)
            self._work.end(self._replied_ns if self._count else None)
            self._work = None

    def _handle_loss(self, worker: int, cause: str) -> None:
        self._span.add_event("worker lost", {"paddock.cause": cause})
        super()._handle_loss(worker, cause)

    def _end(self, *, resumable: bool) -> None:
        self._end_work()
        self._span.end()
        super()._end(resumable=resumable)
