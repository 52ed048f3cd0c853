"""Errors of using environments and values: order of calls, actions, spaces, kernels, snapshots, checks."""

from __future__ import annotations

from typing import Any

from paddock.errors.root import PaddockError


class ResetNeeded(PaddockError):
    """``reset`` must be called first: at the start, and after an episode has ended."""

    code = "RESET_NEEDED"


class InvalidAction(PaddockError, AssertionError, ValueError):
    """An action outside the action space. Raised before any environment code runs."""

    code = "INVALID_ACTION"

    def __init__(self, message: str, *, action: Any = None, space: Any = None, lane: int | None = None) -> None:
        super().__init__(message)
        self.action, self.space, self.lane = action, space, lane


class InvalidState(PaddockError):
    """``public_state()`` returned something outside the declared ``state_space``."""

    code = "INVALID_STATE"


class InvalidKernel(PaddockError, ValueError):
    """A kernel's functions, parameters or state are not what they should be."""

    code = "INVALID_KERNEL"


class KernelNotCompiled(InvalidKernel):
    """Numba can't compile a kernel's function; the text names the line and what to write instead."""

    code = "KERNEL_NOT_COMPILED"


class InvalidSnapshot(PaddockError, ValueError):
    """Bytes that are no snapshot of this environment; nothing was changed."""

    code = "INVALID_SNAPSHOT"


class SnapshotUnsupported(PaddockError, NotImplementedError):
    """The environment can't save or restore its state."""

    code = "SNAPSHOT_UNSUPPORTED"


class InvalidSeed(PaddockError, ValueError):
    """A seed that is not a non-negative integer."""

    code = "INVALID_SEED"


class InvalidSpace(PaddockError, AssertionError, ValueError, TypeError):
    """A space, its JSON form or a value for it is malformed."""

    code = "INVALID_SPACE"


class InvalidProbability(InvalidSpace):
    """Probabilities that do not fit the space or do not sum to one."""

    code = "INVALID_PROBABILITY"


class InvalidBound(InvalidSpace):
    """Bounds of a Box that are not bounds."""

    code = "INVALID_BOUND"


class InvalidValue(InvalidSpace):
    """Data that is no value of a Struct; ``path`` says where, ``moves[2].to``, and is empty for the whole."""

    code = "INVALID_VALUE"

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class InvalidLanes(PaddockError, ValueError, AssertionError, TypeError, RuntimeError):
    """Values, a mask or a mode that do not fit the lanes of a vector environment."""

    code = "INVALID_LANES"


class MissingArgument(PaddockError):
    """A required argument was not given."""

    code = "MISSING_ARGUMENT"


class CustomSpaceError(PaddockError, NotImplementedError):
    """A function over spaces has no rule for a user's own space class."""

    code = "CUSTOM_SPACE"


class CheckFailed(PaddockError, AssertionError):
    """``check_env`` found something wrong; ``findings`` lists all of it."""

    code = "CHECK_FAILED"

    def __init__(self, message: str, *, findings: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.findings = findings


class WrongClass(CheckFailed, TypeError):
    """What should be an environment or a space does not inherit from Env or Space."""

    code = "WRONG_CLASS"


class MissingSpace(CheckFailed, AttributeError):
    """The environment has no ``observation_space`` or no ``action_space``."""

    code = "MISSING_SPACE"


class DeprecatedWrapper(PaddockError, ImportError):
    """A wrapper is asked for under a former name."""

    code = "DEPRECATED_WRAPPER"


class NoCanonicalForm(PaddockError, TypeError):
    """A value that has no bytes which are the same everywhere, so nothing can be said about its digest."""

    code = "NO_CANONICAL_FORM"


class NoArrayForm(PaddockError, TypeError, ValueError):
    """A value that has no form in an array library, or a module that is none."""

    code = "NO_ARRAY_FORM"


class AlreadyPendingCallError(PaddockError):
    """A vector environment already waits for the answer to ``name``."""

    code = "ALREADY_PENDING"

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class NoAsyncCallError(PaddockError):
    """A vector environment was asked for an answer to ``name`` that nobody asked for."""

    code = "NOT_PENDING"

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class ClosedEnvironmentError(PaddockError):
    """The environment is closed."""

    code = "CLOSED"
    session_alive = False
