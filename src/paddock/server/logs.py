"""A server's log: lines for people, or JSON lines for programs. No token and no value of an episode is ever in it.

``PADDOCK_LOG`` chooses: ``json``, ``text`` for all lines, or nothing for warnings only.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import sys
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Literal

Form = Literal["json", "text", ""]
VARIABLE = "PADDOCK_LOG"
NAMES = ("session", "environment", "principal", "peer")  # what a record may bear beside its text
# Which request a record belongs to: given by who asks (W3C Trace Context), or made here.
trace: ContextVar[str] = ContextVar("paddock_trace", default="")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)
_LOGGERS = ("paddock.server", "paddock.audit")
_CHARACTERS = 4_000


def begin_trace(traceparent: str | None = None) -> str:
    """From here on, records of this task bear this trace's id: the caller's, or a new one."""
    given = _TRACEPARENT.fullmatch(traceparent or "")
    id = given[1] if given is not None else secrets.token_hex(16)
    trace.set(id)
    return id


class JsonLines(logging.Formatter):
    """One JSON object a line, in ASCII: nothing in it can end the line or move a terminal's cursor."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        fields = {"time": time, "level": record.levelname.lower(), "logger": record.name}
        fields["message"] = record.getMessage()[:_CHARACTERS]
        if trace.get():
            fields["trace"] = trace.get()
        for name in NAMES:
            if (value := getattr(record, name, None)) is not None:
                fields[name] = str(value)
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)


class Lines(logging.Formatter):
    """One line for a person."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        found = [f"{name}={getattr(record, name)}" for name in NAMES if getattr(record, name, None) is not None]
        found += [f"trace={trace.get()[:8]}"] if trace.get() else []
        text = " ".join([time, record.levelname.lower(), record.getMessage()[:_CHARACTERS], *found])
        text = text.encode("unicode_escape").decode("ascii")
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def begin(form: Form | None = None) -> None:
    """Write the server's log to stderr, as PADDOCK_LOG says if ``form`` is None. What a program set up itself stays."""
    chosen = os.environ.get(VARIABLE, "").lower() if form is None else form
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if chosen == "json" else Lines())
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not logger.hasHandlers():
            logger.addHandler(handler)
            logger.propagate = False
            logger.setLevel(logging.INFO if chosen in ("json", "text") else logging.WARNING)
