"""Counters of a server, and their text for Prometheus."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from itertools import accumulate

_HELP = {
    "paddock_sessions": ("gauge", "Sessions that live now."),
    "paddock_workers": ("gauge", "Processes that run the environments of sessions now."),
    "paddock_sessions_opened_total": ("counter", "Sessions that were opened."),
    "paddock_sessions_refused_total": ("counter", "Sessions that were refused, by reason."),
    "paddock_sessions_waiting": ("gauge", "Sessions that wait until their worker is started."),
    "paddock_workers_starting": ("gauge", "Workers that are being started."),
    "paddock_workers_started_total": ("counter", "Workers that were started for sessions."),
    "paddock_connections_total": ("counter", "Connections that were accepted."),
    "paddock_workers_lost_total": ("counter", "Workers that were lost, by cause."),
    "paddock_requests_total": ("counter", "HTTP requests, by status."),
    "paddock_replies_total": ("counter", "Replies of workers."),
    "paddock_reply_seconds": ("histogram", "From a request to its worker's reply, by environment."),
    "paddock_uptime_seconds": ("gauge", "Seconds since the server began."),
}
_BOUNDS_S = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Latency:
    """How long the replies of one environment took. Hot: ``add`` runs once a step."""

    __slots__ = ("_counts", "_total_s")

    def __init__(self) -> None:
        self._counts, self._total_s = [0] * (len(_BOUNDS_S) + 1), 0.0

    def add(self, seconds: float) -> None:
        """One more reply."""
        self._counts[bisect_left(_BOUNDS_S, seconds)] += 1
        self._total_s += seconds

    @property
    def count(self) -> int:
        """Of all replies."""
        return sum(self._counts)

    def lines(self, labels: str) -> list[str]:
        """As a histogram of Prometheus', whose buckets count all that was as fast or faster."""
        bounds = [*(f"{bound:g}" for bound in _BOUNDS_S), "+Inf"]
        sums = zip(bounds, accumulate(self._counts), strict=True)
        return [
            *(f'paddock_reply_seconds_bucket{{{labels},le="{bound}"}} {count}' for bound, count in sums),
            f"paddock_reply_seconds_sum{{{labels}}} {self._total_s:.9g}",
            f"paddock_reply_seconds_count{{{labels}}} {self.count}",
        ]


class Metrics:
    """``count`` is cheap enough for every request; ``latencies`` by environment are for every step."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self.latencies: dict[str, Latency] = {}

    def count(self, name: str, labels: str = "") -> None:
        """Add to a counter; ``labels`` as Prometheus writes them."""
        self._counts[name, labels] += 1

    def text(self, **gauges: float) -> str:
        """Everything, in Prometheus' text form; ``gauges`` are measured now."""
        gauges["paddock_replies_total"] = sum(one.count for one in self.latencies.values())
        values: dict[tuple[str, str], float] = {**self._counts, **{(name, ""): now for name, now in gauges.items()}}
        lines = []
        for name, (kind, words) in _HELP.items():
            lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
            if kind == "histogram":
                for environment, latency in self.latencies.items():
                    lines += latency.lines(f"environment={json.dumps(environment)}")
            own = {labels: value for (found, labels), value in values.items() if found == name}
            lines += [
                f"{name}{{{labels}}} {value:.15g}" if labels else f"{name} {value:.15g}"
                for labels, value in own.items()
            ]
        return "\n".join(lines) + "\n"
