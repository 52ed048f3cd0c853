"""Errors on the wire: as a Failed reply and back, redacted for remote peers, and as the reason of a websocket's Close.

A name from the far end only chooses among classes that are known here; it never imports anything.
"""

from __future__ import annotations

import builtins
import json
import os
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from paddock import errors as e
from paddock.errors import EnvFailed, PaddockError, WorkerLost, table
from paddock.hosting.messages import Failed
from paddock.sandbox.plain_text import shorten, strip_escapes

MESSAGE_LIMIT = 4_000
TRACE_LIMIT = 16_000
_PADDOCK = f"{Path(__file__).resolve().parents[1]}{os.sep}"
_LIBRARY = f"{Path(os.__file__).parent}{os.sep}"
_PACKAGES = ("site-packages", "dist-packages")
# As in a traceback, and as faulthandler writes it.
_FRAME = re.compile(r'File "(?P<file>[^"\n]{1,4096})", line (?P<line>\d{1,9}),? in (?P<name>[^\n]{1,200})')


class Frame(NamedTuple):
    """One line of a stack."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def trace(self) -> FarTrace:
        """The cause for an error that has no traceback of its own there, for ``place_of`` to find."""
        return FarTrace(f'File "{self.file}", line {self.line}, in {self.name}')


class FarTrace(Exception):
    """Where an error arose at the far end; as the cause of another error, Python prints it above that one."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def place_of(error: BaseException) -> Frame | None:
    """Where in the environment's own code the error arose, here or at the far end; None if paddock raised it."""
    import traceback

    at: BaseException | None = error
    while at is not None:
        frames = [Frame(one.filename, one.lineno or 0, one.name) for one in traceback.extract_tb(at.__traceback__)]
        far_frames = frames_in(at.args[0]) if isinstance(at, FarTrace) else []
        if (place := own_frame([*frames, *far_frames])) is not None:
            return place
        at = at.__cause__
    return None


def own_frame(frames: Iterable[Frame]) -> Frame | None:
    """The innermost, last frame of the environment's own code: not of paddock, Python or, if possible, a library."""
    own = [frame for frame in frames if is_own(frame.file)]
    authored = [frame for frame in own if not any(part in frame.file for part in _PACKAGES)]
    return next(reversed(authored or own), None)


def is_own(file: str) -> bool:
    """Whether a file belongs neither to paddock nor to Python's library."""
    installed = any(part in file for part in _PACKAGES)
    return not file.startswith(("<", _PADDOCK)) and (installed or not file.startswith(_LIBRARY))


def frames_in(text: str) -> list[Frame]:
    """The frames that a traceback names, in its order. Files that a worker sees elsewhere have the names of here."""
    return [Frame(_name_here(found["file"]), int(found["line"]), found["name"]) for found in _FRAME.finditer(text)]


# Files and folders by the names that workers behind a wall have for them. For people: nothing is opened by it.
SEEN_AS: dict[str, str] = {}


def _name_here(file: str) -> str:
    for inside, path in SEEN_AS.items():
        if file == inside or file.startswith(f"{inside}/"):
            return path + file[len(inside) :]
    return file


def to_failed(error: BaseException) -> Failed:
    """The reply of a Host to a request that raised."""
    import traceback  # only when something failed: a client of a server never needs it

    code = error.code if isinstance(error, PaddockError) else EnvFailed.code
    trace = "".join(traceback.format_exception(error))
    kind = error.error_type if isinstance(error, EnvFailed) else type(error).__name__
    return Failed(code, _text(error)[:MESSAGE_LIMIT], kind, trace[-TRACE_LIMIT:])


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:  # the environment's own class, and its own code
        return f"its text raised {type(problem).__name__}"


def to_error(reply: Failed, *, lane: int | None = None) -> PaddockError:
    """The error to raise for a reply. A ValueError of the environment is an EnvFailed that is a ValueError too."""
    cls = error_classes().get(reply.code, EnvFailed)
    place = "" if lane is None else f"lane {lane}: "
    if issubclass(cls, EnvFailed):
        name = reply.error_type
        known = getattr(builtins, name, None) if name.isidentifier() else None
        if isinstance(known, type) and issubclass(known, Exception) and known not in (Exception, StopIteration):
            cls = _env_failed_and(known)  # type: ignore[arg-type]  # a class is hashable, whatever its instances are
        else:
            cls = EnvFailed
        error: PaddockError = cls(f"{place}{reply.message}", lane=lane, error_type=name, trace=reply.trace)
    else:
        try:
            error = cls(f"{place}{reply.message}")
        except TypeError:  # the two that also take the name of a call
            error = cls(f"{place}{reply.message}", "")
        error.lane = lane  # type: ignore[attr-defined]
    if reply.trace:
        error.__cause__ = FarTrace(reply.trace)
    return error


@cache
def error_classes() -> dict[str, type[PaddockError]]:
    """Paddock's error classes by their wire codes."""
    return {code: cls for cls, code, _, _ in table()}


@cache  # over built-in classes only: a name from the far end can't make it grow
def _env_failed_and(known: type[Exception]) -> type[EnvFailed]:
    """EnvFailed that is also this built-in error, so that ``except ValueError`` still works."""
    # Not KeyError's own text: that would be in quotes.
    members = {"__module__": __name__, "__str__": lambda error: str(error.args[0])}
    try:
        cls = type(known.__name__, (EnvFailed, known), members)
        cls("")
    except TypeError:  # its constructor wants more than a message
        return EnvFailed
    return cls


# Redacted, for remote peers


# Mistakes of the caller. Their texts name nothing but what the caller sent and the declared spaces.
_CALLERS = {
    one.code
    for one in (
        e.InvalidAction,
        e.ResetNeeded,
        e.InvalidSeed,
        e.InvalidSnapshot,
        e.SnapshotUnsupported,
        e.ClosedEnvironmentError,
        e.NotTransferable,
        e.BadFrame,
        e.UnsupportedMode,
        e.InvalidTask,
        # Not the caller's mistakes, but raised in the knowledge that their texts are passed on.
        e.EpisodeFailed,
        e.GradingFailed,
    )
}
_LONGEST = 1_000
_TRACE_CHARACTERS = 3_800  # the end of it, which names the error; a record of the log has 4,000
_INCIDENT = re.compile(r'(incident [0-9a-f]{12}): (".*")', re.ASCII)
_MOST_INCIDENTS = 1_000
_printed: set[str] = set()  # by this process


def to_redacted_failed(error: BaseException) -> Failed:
    """As ``to_failed``, for a peer that may not see traces, paths or texts of the environment.

    A caller's own mistake is passed on; of everything else the peer learns only that it happened, and an incident
    number. The whole error goes to the worker's stderr under that number, for the operator: once, on one line,
    however often it comes. The number is a hash of the error, so that a repeated episode gives the same answer.
    """
    import hashlib  # here: it brings OpenSSL, and a client of a server never redacts

    whole = to_failed(error)
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
    """The text behind a line that ``to_redacted_failed`` printed, with its number; None for any other line."""
    found = _INCIDENT.fullmatch(line)
    try:
        return None if found is None else f"{found[1]}: {json.loads(found[2])}"
    except ValueError:  # the environment's own text
        return None


# Why a server ends a connection: an error code and a text in the reason of a websocket's Close, ``CODE: text``. The
# Close's own number only says what to do: nothing (1000), fix the client (1008), or try again later (1013).

_CODES = {code: retryable for _, code, retryable, _ in table()}
_REASON = re.compile(r"([A-Z][A-Z_]{2,40})(?:: (.*))?", re.DOTALL)
_REASON_BYTES = 123
POLICY, LATER = 1008, 1013


def close_number(code: str) -> int:
    """The Close's number for an error code."""
    return LATER if _CODES.get(code, False) else POLICY


def close_reason(code: str, text: str = "") -> str:
    """The reason of a Close, cut to fit."""
    reason = f"{code}: {text}" if text else code
    return reason.encode()[:_REASON_BYTES].decode("utf-8", "ignore")


def read_reason(reason: str) -> tuple[str, str]:
    """Code and text of a reason; the code is empty unless it is one of paddock's."""
    match = _REASON.fullmatch(reason)
    if match is None or match[1] not in _CODES:
        return "", reason
    return match[1], match[2] or ""


# Failures that a worker behind a wall reports: plain, cut, and never with a code that only this side may use.


def _codes(names: str) -> frozenset[str]:
    """The codes of these classes and of those below them."""
    classes = tuple(getattr(e, name) for name in names.split())
    return frozenset(code for cls, code, _, _ in table() if issubclass(cls, classes))


# What may go wrong with making, asking and the environment itself. This side knows what became of the worker, of the
# connection and of calls: a worker that claims to be lost, or busy, only has an error of its own.
_WORKER_CODES = _codes(
    """
    UnregisteredEnv DeprecatedEnv RegistrationError InvalidSpec PlanError InvalidManifest
    DependencyNotInstalled UnsupportedMode InvalidMetadata VideoNotWritten InvalidKeys ResetNeeded
    InvalidAction InvalidState InvalidKernel InvalidSnapshot SnapshotUnsupported InvalidSeed InvalidSpace
    InvalidLanes MissingArgument CustomSpaceError CheckFailed DeprecatedWrapper NoCanonicalForm NoArrayForm
    NotTransferable BadFrame NotPermitted ClosedEnvironmentError EnvFailed InvalidTool InvalidTask ToolFailed
    EpisodeFailed
    """
)
# What a server may report beside that, about its workers and sessions.
_SERVER_CODES = _WORKER_CODES | _codes(
    """
    WorkerLost DeadlineExceeded EnvironmentViolation SessionGone Superseded IdempotencyConflict OutOfOrder
    CapacityReached RateLimited Draining StorageFull Unauthenticated Forbidden
    """
)
# NumPy's is a subclass with a name of its own.
_OUT_OF_MEMORY = ("MemoryError", "_ArrayMemoryError")
# As Python shows the file of an OSError: at the end, in quotes. One with an escape in it is left alone.
_FILE = re.compile(r"""(?P<quote>['"])(?P<path>/[^'"\\\n]{1,1000})(?P=quote)\s*\Z""")
_WHY = {
    "FileNotFoundError": "It exists here, but not behind the wall",
    "PermissionError": "The wall may hide it",
}


def walled_error(reply: Failed, *, lane: int | None = None, server: bool = False) -> PaddockError:
    """The error to raise for an untrusted failure. A worker that reports that memory is used up counts as lost.

    ``server``: the reply comes from a server, which speaks for its worker.
    """
    message = shorten(reply.message, MESSAGE_LIMIT)
    if reply.error_type in _OUT_OF_MEMORY:
        place = "" if lane is None else f"lane {lane}: "
        return WorkerLost(f"{place}ran out of memory: {message or 'MemoryError'}", lane=lane, cause="memory")
    cleaned = msgspec.structs.replace(
        reply,
        code=reply.code if reply.code in (_SERVER_CODES if server else _WORKER_CODES) else EnvFailed.code,
        message=message if server else message + _advice(reply.error_type, message),
        error_type=shorten(reply.error_type, 100),
        trace=strip_escapes(reply.trace[-TRACE_LIMIT:]),
    )
    return to_error(cleaned, lane=lane)


def _advice(error_type: str, message: str) -> str:
    """How to permit the file that it misses, if it exists. The worker chose the text, so the file is not opened."""
    found = _FILE.search(message) if error_type in _WHY else None
    if found is None or not os.path.lexists(found["path"]):
        return ""
    grant = f"read = [{json.dumps(found['path'], ensure_ascii=False)}]"
    return (
        f" {_WHY[error_type]}: if it may be read, ask for it with {grant} under [permissions] in paddock.toml, "
        f"or Policy(read=…)."
    )
