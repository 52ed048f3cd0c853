"""A failure as a worker behind a wall tells it: plain, cut, and never under a name that only this side may use."""

from __future__ import annotations

import json
import os
import re

import msgspec

from paddock import errors as e
from paddock.errors import EnvFailed, PaddockError, WorkerLost
from paddock.hosting.failure import MESSAGE_LIMIT, TRACE_LIMIT, to_error
from paddock.hosting.messages import Failed
from paddock.sandbox.plain_text import brief, plain

# What making, asking and the environment itself may go wrong with. What becomes of the worker, of the connection and
# of calls is known on this side: a worker that claims to be lost, or busy, only has an error of its own.
_THEIRS = (
    *(e.UnregisteredEnv, e.DeprecatedEnv, e.RegistrationError, e.InvalidSpec, e.PlanError, e.InvalidManifest),
    *(e.DependencyNotInstalled, e.UnsupportedMode, e.InvalidMetadata, e.VideoNotWritten, e.InvalidKeys),
    *(e.ResetNeeded, e.InvalidAction, e.InvalidState, e.InvalidKernel, e.InvalidSnapshot, e.SnapshotUnsupported),
    *(e.InvalidSeed, e.InvalidSpace, e.InvalidLanes, e.MissingArgument, e.CustomSpaceError, e.CheckFailed),
    *(e.DeprecatedWrapper, e.NoCanonicalForm, e.NoArrayForm, e.NotTransferable, e.BadFrame, e.NotPermitted),
    *(e.ClosedEnvironmentError, e.EnvFailed, e.InvalidTool, e.InvalidTask, e.ToolFailed, e.EpisodeFailed),
)
_CODES = frozenset(code for cls, code, _, _ in e.table() if issubclass(cls, _THEIRS))
# What a server may say beside that, of its workers and of sessions.
_SERVERS = (
    *(e.WorkerLost, e.DeadlineExceeded, e.EnvironmentViolation, e.SessionGone, e.Superseded, e.IdempotencyConflict),
    *(e.OutOfOrder, e.CapacityReached, e.RateLimited, e.Draining, e.StorageFull, e.Unauthenticated, e.Forbidden),
)
_CODES_OF_SERVERS = _CODES | {code for cls, code, _, _ in e.table() if issubclass(cls, _SERVERS)}
# NumPy's is a subclass with a name of its own.
_OUT_OF_MEMORY = ("MemoryError", "_ArrayMemoryError")
# As Python shows the file of an OSError: at the end, in quotes. One with an escape in it is left alone.
_FILE = re.compile(r"""(?P<quote>['"])(?P<path>/[^'"\\\n]{1,1000})(?P=quote)\s*\Z""")
_WHY = {
    "FileNotFoundError": "It exists here, but not behind the wall",
    "PermissionError": "Perhaps the wall keeps it back",
}


def walled_error(reply: Failed, *, lane: int | None = None, server: bool = False) -> PaddockError:
    """The error to raise. A worker that reports that memory is used up counts as lost to that: WorkerLost.

    ``server``: one speaks for its worker.
    """
    message = brief(reply.message, MESSAGE_LIMIT)
    if reply.error_type in _OUT_OF_MEMORY:
        place = "" if lane is None else f"lane {lane}: "
        return WorkerLost(f"{place}ran out of memory: {message or 'MemoryError'}", lane=lane, cause="memory")
    told = msgspec.structs.replace(
        reply,
        code=reply.code if reply.code in (_CODES_OF_SERVERS if server else _CODES) else EnvFailed.code,
        message=message if server else message + _advice(reply.error_type, message),
        error_type=brief(reply.error_type, 100),
        trace=plain(reply.trace[-TRACE_LIMIT:]),
    )
    return to_error(told, lane=lane)


def _advice(error_type: str, message: str) -> str:
    """How to permit the file that it misses, if that is here. It chose the text: the file is looked for, not opened."""
    found = _FILE.search(message) if error_type in _WHY else None
    if found is None or not os.path.lexists(found["path"]):
        return ""
    asked = f"read = [{json.dumps(found['path'], ensure_ascii=False)}]"
    return (
        f" {_WHY[error_type]}: if it may be read, ask for it with {asked} under [permissions] in paddock.toml, "
        f"or Policy(read=…)."
    )
