"""A server's log, its counters for Prometheus and its spans. None of them ever holds a token or a value of an episode.

``PADDOCK_LOG`` chooses the log: ``json`` or ``text`` for all records, nothing for warnings only.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime, timezone
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import accumulate
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any, Literal

from paddock.errors import PlanError

_CHOICE, _ENDPOINTS = "OTEL_TRACES_EXPORTER", ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
LogForm = Literal["json", "text", ""]
VARIABLE = "PADDOCK_LOG"
LOG_FIELDS = ("session", "environment", "principal", "peer")  # that a record may have beside its text
# Which request a record belongs to: the caller's id (W3C Trace Context), or a new one.
trace: ContextVar[str] = ContextVar("paddock_trace", default="")
traceparent: ContextVar[str] = ContextVar("paddock_traceparent", default="")  # the caller's own words
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_LOGGERS = ("paddock.server", "paddock.audit")
_CHARACTERS = 4_000
REPLY, OPENING = "paddock_reply_seconds", "paddock_opening_seconds"
_HELP = {
    "paddock_sessions": ("gauge", "Sessions that are open now."),
    "paddock_workers": ("gauge", "Processes that run the environments of sessions now."),
    "paddock_sessions_opened_total": ("counter", "Sessions that were opened."),
    "paddock_sessions_refused_total": ("counter", "Sessions that were refused, by reason."),
    "paddock_sessions_ended_total": ("counter", "Sessions that were ended because of a quota, by reason."),
    "paddock_tenant_sessions": ("gauge", "Sessions of each tenant."),
    "paddock_tenant_memory_bytes": ("gauge", "Memory that the workers of each tenant take now."),
    "paddock_sessions_waiting": ("gauge", "Sessions that wait for their worker to be started."),
    "paddock_workers_starting": ("gauge", "Workers that are being started."),
    "paddock_workers_started_total": ("counter", "Workers that were started for sessions."),
    "paddock_workers_memory_bytes": ("gauge", "Memory that workers take now, by environment."),
    "paddock_workers_cpu_seconds": ("gauge", "CPU seconds that the workers of now have used, by environment."),
    "paddock_connections_total": ("counter", "Connections that were accepted."),
    "paddock_workers_lost_total": ("counter", "Workers that were lost, by cause."),
    "paddock_requests_total": ("counter", "HTTP requests, by status."),
    "paddock_replies_total": ("counter", "Replies of workers."),
    OPENING: ("histogram", "From the wish for a session to its worker, by environment; the wait in the queue too."),
    REPLY: ("histogram", "From a request to its worker's reply, by environment."),
    "paddock_uptime_seconds": ("gauge", "Seconds since the server began."),
}
_BOUNDS_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


def begin_trace(parent: str | None = None) -> None:
    """Give the records of this task a trace id from now on: the caller's, or a new one."""
    match = _TRACEPARENT.fullmatch(parent or "")
    traceparent.set("" if match is None else match[0])
    trace.set(match[1] if match is not None else secrets.token_hex(16))


class JsonLines(logging.Formatter):
    """One JSON object per line, in ASCII: nothing in it can end the line or move a terminal's cursor."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        fields = {"time": time, "level": record.levelname.lower(), "logger": record.name}
        fields["message"] = record.getMessage()[:_CHARACTERS]
        if trace.get():
            fields["trace"] = trace.get()
        for name in LOG_FIELDS:
            if (value := getattr(record, name, None)) is not None:
                fields[name] = str(value)
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)


class Lines(logging.Formatter):
    """One line for a person."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        found = [f"{name}={getattr(record, name)}" for name in LOG_FIELDS if getattr(record, name, None) is not None]
        found += [f"trace={trace.get()[:8]}"] if trace.get() else []
        text = " ".join([time, record.levelname.lower(), record.getMessage()[:_CHARACTERS], *found])
        text = text.encode("unicode_escape").decode("ascii")
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def begin_logging(form: LogForm | None = None) -> None:
    """Log to stderr, as PADDOCK_LOG says if ``form`` is None. Handlers that the program has set up stay."""
    chosen = os.environ.get(VARIABLE, "").lower() if form is None else form
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if chosen == "json" else Lines())
    handler.setLevel(logging.INFO if chosen in ("json", "text") else logging.WARNING)
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not logger.hasHandlers():
            logger.addHandler(handler)
            logger.propagate = False
            logger.setLevel(handler.level)


def export_audit(file: Path) -> None:
    """Append every record of the audit log to ``file`` too, as JSON lines that only its owner may read.

    A file that was moved away is begun again, so it can be rotated. All processes of a server append to the same one.
    """
    begin_logging()
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
    handler = WatchedFileHandler(file, encoding="ascii")
    handler.setFormatter(JsonLines())
    audit = logging.getLogger("paddock.audit")
    audit.addHandler(handler)
    audit.setLevel(logging.INFO)


class Latency:
    """How long something took, of one environment. Hot: ``add`` runs once per step."""

    __slots__ = ("_counts", "_total_s")

    def __init__(self) -> None:
        self._counts, self._total_s = [0] * (len(_BOUNDS_S) + 1), 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(_BOUNDS_S, seconds)] += 1
        self._total_s += seconds

    @property
    def count(self) -> int:
        return sum(self._counts)

    def dump(self) -> tuple[list[int], float]:
        return self._counts, self._total_s

    def merge(self, counts: list[int], total_s: float) -> None:
        self._counts = [own + more for own, more in zip(self._counts, counts, strict=True)]
        self._total_s += total_s

    def lines(self, name: str, labels: str) -> list[str]:
        """Write a Prometheus histogram, whose buckets count everything as fast or faster."""
        bounds = [*(f"{bound:g}" for bound in _BOUNDS_S), "+Inf"]
        sums = zip(bounds, accumulate(self._counts), strict=True)
        return [
            *(f'{name}_bucket{{{labels},le="{bound}"}} {count}' for bound, count in sums),
            f"{name}_sum{{{labels}}} {self._total_s:.9g}",
            f"{name}_count{{{labels}}} {self.count}",
        ]


def label(name: str, value: str) -> str:
    """Write a label; Prometheus knows three escapes, and refuses everything if it meets another."""
    text = value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'{name}="{text}"'


class Metrics:
    """Counters, cheap enough for every request, and latencies by environment, cheap enough for every step."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._latencies: dict[tuple[str, str], Latency] = {}

    def latency(self, name: str, environment: str) -> Latency:
        """Return the histogram of this name for an environment."""
        return self._latencies.setdefault((name, environment), Latency())

    def count(self, name: str, labels: str = "", by: int = 1) -> None:
        """Add to a counter; ``labels`` as Prometheus writes them."""
        self._counts[name, labels] += by

    def dump(self) -> dict[str, Any]:
        """Return everything as plain data, for ``add``."""
        counts = [[*key, count] for key, count in self._counts.items()]
        return {"counts": counts, "latencies": [[*key, *one.dump()] for key, one in self._latencies.items()]}

    def add(self, dump: Mapping[str, Any]) -> None:
        self._counts.update({(name, labels): count for name, labels, count in dump["counts"]})
        for name, environment, counts, total_s in dump["latencies"]:
            self.latency(name, environment).merge(counts, total_s)

    def text(self, **gauges: float) -> str:
        """Write everything in Prometheus' text form, together with ``gauges`` measured now."""
        replies = (one.count for (name, _), one in self._latencies.items() if name == REPLY)
        gauges["paddock_replies_total"] = sum(replies)
        values: dict[tuple[str, str], float] = dict(self._counts)
        for key, now in gauges.items():  # a name, with labels in braces if it has any
            name, _, labels = key.partition("{")
            values[name, labels.removesuffix("}")] = now
        lines = []
        for name, (kind, words) in _HELP.items():
            lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
            for (of, environment), latency in self._latencies.items():
                lines += latency.lines(name, label("environment", environment)) if of == name else ()
            own = {labels: value for (found, labels), value in values.items() if found == name}
            lines += [
                f"{name}{{{labels}}} {value:.15g}" if labels else f"{name} {value:.15g}"
                for labels, value in own.items()
            ]
        return "\n".join(lines) + "\n"


def begin_spans() -> bool:
    """Whether sessions shall have spans; if OpenTelemetry's variables want some, set up where they go.

    Only if its SDK is installed; unless a program has set a provider, or the variables are there, nothing is imported.
    """
    sdk = sys.modules.get("opentelemetry.sdk.trace")
    if sdk is not None and isinstance(sys.modules["opentelemetry.trace"].get_tracer_provider(), sdk.TracerProvider):
        return True
    chosen = os.environ.get(_CHOICE) or ("otlp" if any(os.environ.get(name) for name in _ENDPOINTS) else "none")
    if chosen == "none" or find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        return False
    from opentelemetry import trace

    trace.set_tracer_provider(_provider(chosen))
    return True


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


def flush_spans() -> None:
    """Send the spans that are not sent yet. Blocks."""
    from opentelemetry import trace

    trace.get_tracer_provider().force_flush()
