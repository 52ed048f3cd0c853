"""An error as a Failed reply, and back as an error. Names from the far end choose among known classes, never import."""

from __future__ import annotations

import builtins
import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from paddock.errors import EnvFailed, PaddockError, table
from paddock.hosting.messages import Failed

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
        """As a cause of an error that has no traceback of its own there, for ``place_of`` to find."""
        return FarTrace(f'File "{self.file}", line {self.line}, in {self.name}')


class FarTrace(Exception):
    """Where an error arose at the far end; Python prints it above the error that it is the cause of."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def place_of(error: BaseException) -> Frame | None:
    """Where in the environment's own code the error arose, here or at the far end; None if paddock raised it."""
    import traceback

    at: BaseException | None = error
    while at is not None:
        frames = [Frame(one.filename, one.lineno or 0, one.name) for one in traceback.extract_tb(at.__traceback__)]
        told = [*frames, *frames_in(at.args[0] if isinstance(at, FarTrace) else "")]
        if (place := own_frame(told)) is not None:
            return place
        at = at.__cause__
    return None


def own_frame(frames: Iterable[Frame]) -> Frame | None:
    """The innermost, last frame of the environment's own code: not of paddock, Python or, if possible, a library."""
    own = [frame for frame in frames if is_own(frame.file)]
    authored = [frame for frame in own if not any(part in frame.file for part in _PACKAGES)]
    return next(reversed(authored or own), None)


def is_own(file: str) -> bool:
    """Whether a file is neither paddock's nor of Python's library."""
    installed = any(part in file for part in _PACKAGES)
    return not file.startswith(("<", _PADDOCK)) and (installed or not file.startswith(_LIBRARY))


def frames_in(text: str) -> list[Frame]:
    """The frames that a traceback names, in its order."""
    return [Frame(found["file"], int(found["line"]), found["name"]) for found in _FRAME.finditer(text)]


def failed(error: BaseException) -> Failed:
    """What a Host says of an error."""
    import traceback  # when something failed: a client of a server never needs it

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
    """The error to raise here. A ValueError of the environment is an EnvFailed that is a ValueError too."""
    cls = _by_code().get(reply.code, EnvFailed)
    place = "" if lane is None else f"lane {lane}: "
    if issubclass(cls, EnvFailed):
        cls = _also(reply.error_type)
        error: PaddockError = cls(f"{place}{reply.message}", lane=lane, error_type=reply.error_type, trace=reply.trace)
    else:
        error = _made(cls, f"{place}{reply.message}")
        error.lane = lane  # type: ignore[attr-defined]
    if reply.trace:
        error.__cause__ = FarTrace(reply.trace)
    return error


def _made(cls: type[PaddockError], message: str) -> PaddockError:
    try:
        return cls(message)
    except TypeError:  # the two that also take the name of a call
        return cls(message, "")


@cache
def _by_code() -> dict[str, type[PaddockError]]:
    return {code: cls for cls, code, _, _ in table()}


def _also(name: str) -> type[EnvFailed]:
    """EnvFailed that is also the built-in error of that name, so that ``except ValueError`` goes on working."""
    known = getattr(builtins, name, None) if name.isidentifier() else None
    if not (isinstance(known, type) and issubclass(known, Exception)) or known in (Exception, StopIteration):
        return EnvFailed
    return _both(known)  # type: ignore[arg-type]  # a class is hashable, whatever its instances are


def _first(error: BaseException) -> str:
    return str(error.args[0])  # KeyError's own text would be in quotes


@cache  # over built-in classes only: a name from the far end can't make it grow
def _both(known: type[Exception]) -> type[EnvFailed]:
    name = known.__name__
    try:
        cls = type(name, (EnvFailed, known), {"__module__": __name__, "__str__": _first})
        cls("")
    except TypeError:  # its constructor wants more than a message
        return EnvFailed
    return cls
