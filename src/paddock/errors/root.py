"""The root of all errors, with what the wire and a retry loop must know of each."""

from __future__ import annotations

from typing import ClassVar


class PaddockError(Exception):
    """Root of all errors raised on purpose. ``gym.error.Error`` is this class."""

    code: ClassVar[str] = "ERROR"
    retryable: ClassVar[bool] = False
    session_alive: ClassVar[bool] = True
