"""Errors of environments that are elsewhere: in another process, or behind a wall."""

from __future__ import annotations

from paddock.errors.root import PaddockError


class NotTransferable(PaddockError, TypeError):
    """A value that is no wire type; ``path`` says where it was found, ``kind`` what it is."""

    code = "NOT_TRANSFERABLE"

    def __init__(self, message: str, *, path: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.path, self.kind = path, kind


class BadFrame(PaddockError, ValueError):
    """Bytes that are no frame of the protocol, or one past its bounds."""

    code = "BAD_FRAME"
    session_alive = False


class EnvFailed(PaddockError):
    """An environment elsewhere raised an error of its own: ``error_type`` is its name, ``trace`` where it arose."""

    code = "ENV_FAILED"

    def __init__(self, message: str, *, lane: int | None = None, error_type: str = "", trace: str = "") -> None:
        super().__init__(message)
        self.lane, self.error_type, self.trace = lane, error_type, trace


class WorkerLost(PaddockError):
    """The process that held the environment is gone; the text says how it ended, ``cause`` in one word.

    "exit", "signal", "memory" (it took more than allowed), "cpu" (likewise), "timeout" (it did not answer and was
    ended), "protocol" (it sent what is no reply), "closed" (its connection, while it ran), "ended" (by this side).
    """

    code = "ENV_LOST"
    session_alive = False

    def __init__(self, message: str, *, lane: int | None = None, cause: str = "ended") -> None:
        super().__init__(message)
        self.lane, self.cause = lane, cause


class DeadlineExceeded(PaddockError, TimeoutError):
    """An environment elsewhere did not answer in time; its process is ended, so no late answer can follow."""

    code = "DEADLINE"
    session_alive = False
    cause = "timeout"

    def __init__(self, message: str, *, lane: int | None = None) -> None:
        super().__init__(message)
        self.lane = lane


class EnvironmentViolation(PaddockError):
    """What came from behind a wall is not what was declared: ``path`` says where. The environment has been stopped.

    ``rule``: the id of the rule of ``check_env`` that it breaks, if there is one.
    """

    code = "ENV_VIOLATION"
    session_alive = False
    cause = "violation"

    def __init__(self, message: str, *, path: str = "", lane: int | None = None, rule: str = "") -> None:
        super().__init__(message)
        self.path, self.lane, self.rule = path, lane, rule


class SandboxUnavailable(PaddockError):
    """The wall that was asked for can't be put up on this machine. Nothing was started; ask for a weaker one."""

    code = "SANDBOX_UNAVAILABLE"
    session_alive = False


class InvalidPolicy(PaddockError, ValueError):
    """Permissions that make no sense: an unknown name, a limit below zero, a path that is not absolute."""

    code = "INVALID_POLICY"
    session_alive = False


class NotPermitted(PaddockError, PermissionError):
    """Something that the policy does not allow; the text names the permission that would."""

    code = "NOT_PERMITTED"


class InvalidManifest(PaddockError, ValueError):
    """A ``paddock.toml`` that can't be used; the text names the entry."""

    code = "INVALID_MANIFEST"
    session_alive = False


class InvalidCassette(PaddockError, ValueError):
    """A recording of external calls that can't be read or written; the text names the line. Nothing was answered."""

    code = "INVALID_CASSETTE"
    session_alive = False
