"""Counters of a server, and their text for Prometheus."""

from __future__ import annotations

from collections import Counter

_HELP = {
    "paddock_sessions": ("gauge", "Sessions that live now."),
    "paddock_sessions_opened_total": ("counter", "Sessions that were opened."),
    "paddock_sessions_refused_total": ("counter", "Sessions that were refused, by reason."),
    "paddock_workers_lost_total": ("counter", "Workers that were lost, by cause."),
    "paddock_requests_total": ("counter", "HTTP requests, by status."),
    "paddock_replies_total": ("counter", "Replies of workers in sessions that have ended."),
    "paddock_uptime_seconds": ("gauge", "Seconds since the server began."),
}


class Metrics:
    """``count`` is cheap enough for every request; per step the sessions count themselves."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def count(self, name: str, labels: str = "", by: int = 1) -> None:
        """Add to a counter; ``labels`` as Prometheus writes them."""
        self._counts[name, labels] += by

    def text(self, **gauges: float) -> str:
        """Everything, in Prometheus' text form; ``gauges`` are measured now."""
        lines = []
        values: dict[tuple[str, str], float] = {**self._counts, **{(name, ""): now for name, now in gauges.items()}}
        for name, (kind, words) in _HELP.items():
            lines += [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
            own = {labels: value for (found, labels), value in values.items() if found == name}
            lines += [
                f"{name}{{{labels}}} {value:g}" if labels else f"{name} {value:g}" for labels, value in own.items()
            ]
        return "\n".join(lines) + "\n"
