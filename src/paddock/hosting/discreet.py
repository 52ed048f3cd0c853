"""What a peer far away is told of an error: what it did wrong itself, and of everything else only that it happened.

The whole story goes to the worker's stderr under the same incident number, for whoever runs the server. The number is
made of the error itself, so that a repeated episode gives the same answer.
"""

from __future__ import annotations

import hashlib
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


def discreetly_failed(error: BaseException) -> Failed:
    """As ``failed``, for a peer that may not see traces, paths or texts of the environment."""
    whole = failed(error)
    if whole.code in _CALLERS:
        return Failed(whole.code, whole.message[:_LONGEST], whole.error_type)
    number = hashlib.sha256(f"{whole.error_type}\n{whole.message}\n{whole.trace}".encode()).hexdigest()[:12]
    print(f"incident {number}: {whole.trace or whole.message}", file=sys.stderr, flush=True)
    kind = whole.error_type if whole.error_type.isidentifier() else "an error"
    return Failed(whole.code, f"The environment raised {kind} (incident {number}).", whole.error_type)
