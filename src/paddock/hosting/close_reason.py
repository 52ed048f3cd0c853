"""Why a server ends a connection: an error code and a text in the reason of a websocket's Close, ``CODE: text``.

The Close's own number only says who can do something about it: 1000 nobody must, 1008 the client, 1013 try again later.
"""

from __future__ import annotations

import re

from paddock.errors import table

_CODES = {code: retryable for _, code, retryable, _ in table()}
_REASON = re.compile(r"([A-Z][A-Z_]{2,40})(?:: (.*))?", re.DOTALL)
_REASON_BYTES = 123
POLICY, LATER = 1008, 1013


def close_number(code: str) -> int:
    """The number that goes with an error code."""
    return LATER if _CODES.get(code, False) else POLICY


def close_reason(code: str, text: str = "") -> str:
    """The reason for a Close, cut to what fits into it."""
    reason = f"{code}: {text}" if text else code
    return reason.encode()[:_REASON_BYTES].decode("utf-8", "ignore")


def read_reason(reason: str) -> tuple[str, str]:
    """Code and text; the code is empty unless it is one of ours."""
    match = _REASON.fullmatch(reason)
    if match is None or match[1] not in _CODES:
        return "", reason
    return match[1], match[2] or ""
