"""What a peer far away is told of an error: what it did wrong itself, and of everything else only that it happened.

The whole story goes to the worker's stderr under the same incident number, for whoever runs the server: once, on one
line, however often the error comes. The number is made of the error itself, so that a repeated episode gives the same
answer.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys

from paddock import errors
from paddock.hosting.failure import failed
from paddock.hosting.messages import Failed

# Mistakes of the caller's. Their texts name nothing but what the caller sent and the declared spaces.
_CALLERS = {
    one.code
    for one in (
        errors.InvalidAction,
        errors.ResetNeeded,
        errors.InvalidSeed,
        errors.InvalidSnapshot,
        errors.SnapshotUnsupported,
        errors.ClosedEnvironmentError,
        errors.NotTransferable,
        errors.BadFrame,
        errors.UnsupportedMode,
        errors.InvalidTask,
        # Not the caller's mistake, but whoever raises them knows that their texts are told.
        errors.EpisodeFailed,
        errors.GradingFailed,
    )
}
_LONGEST = 1_000
_TRACE_CHARACTERS = 3_800  # the end of it, which names the error; a record of the log has 4,000
_INCIDENT = re.compile(r'(incident [0-9a-f]{12}): (".*")', re.ASCII)
_MOST_INCIDENTS = 1_000
_printed: set[str] = set()  # by this process


def discreetly_failed(error: BaseException) -> Failed:
    """As ``failed``, for a peer that may not see traces, paths or texts of the environment."""
    whole = failed(error)
    if whole.code in _CALLERS:
        return Failed(whole.code, whole.message[:_LONGEST], whole.error_type)
    number = hashlib.sha256(f"{whole.error_type}\n{whole.message}\n{whole.trace}".encode()).hexdigest()[:12]
    if number not in _printed and len(_printed) < _MOST_INCIDENTS:
        _printed.add(number)
        trace = (whole.trace or whole.message)[-_TRACE_CHARACTERS:]
        print(f"incident {number}: {json.dumps(trace)}", file=sys.stderr, flush=True)
    kind = whole.error_type if whole.error_type.isidentifier() else "an error"
    return Failed(whole.code, f"The environment raised {kind} (incident {number}).", whole.error_type)


def read_incident(line: str) -> str | None:
    """The text behind a line that ``discreetly_failed`` printed, with its number; None for any other line."""
    found = _INCIDENT.fullmatch(line)
    try:
        return None if found is None else f"{found[1]}: {json.loads(found[2])}"
    except ValueError:  # the environment's own words
        return None
