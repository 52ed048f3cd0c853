"""Every error that paddock raises on purpose, in one tree. Classes carry facts as fields, so handlers never parse text.

::

    PaddockError
    ├── UnregisteredEnv                  no environment of that id
    │   ├── NamespaceNotFound
    │   ├── NameNotFound
    │   └── VersionNotFound
    ├── DeprecatedEnv                    a version older than the ones that exist
    ├── RegistrationError                an id can't be registered as asked
    │   ├── InvalidId                    the id is not `[namespace/]Name[-vN]`
    │   ├── RegistryConflict             the id is taken: built in, or another entry point
    │   └── PluginError                  a plugin's code failed when `make` loaded it
    ├── InvalidSpec                      an EnvSpec, or its JSON, is malformed
    ├── PlanError                        a combination of target and options that can't be built
    ├── DependencyNotInstalled           an extra is missing; the text names the pip command
    ├── UnsupportedMode, InvalidMetadata render modes and metadata
    ├── VideoNotWritten                  a video can't be encoded or its file not be written
    ├── InvalidKeys                      a mapping from keys to actions that can't be played with
    │   └── MissingKeysToAction          none is given, and the environment has none of its own
    ├── ResetNeeded                      step or render before reset, or after the end
    ├── InvalidAction                    an action outside the action space
    ├── InvalidState                     public_state() outside state_space
    ├── InvalidKernel                    a kernel's functions or state are not what they should be
    │   └── KernelNotCompiled            Numba can't compile a function; the text names the line
    ├── InvalidSnapshot                  bytes that are no snapshot of this environment
    ├── SnapshotUnsupported              the environment can't save its state
    ├── InvalidSeed                      a seed that is not a non-negative integer
    ├── InvalidSpace                     a space, its JSON or a value for it is malformed
    │   ├── InvalidBound
    │   ├── InvalidProbability
    │   └── InvalidValue                 data that is no value of a Struct; `path` names the field
    ├── InvalidLanes                     values, a mask or a mode that do not fit the lanes of a vector environment
    ├── MissingArgument
    ├── CustomSpaceError                 a function has no rule for a user's own space class
    ├── CheckFailed                      check_env, or the guard's first look, found something unusable
    │   ├── WrongClass                   the environment is no Env, or one of its spaces no Space
    │   └── MissingSpace                 observation_space or action_space does not exist
    ├── DeprecatedWrapper                a wrapper's former name
    ├── NoCanonicalForm                  a value whose bytes would not be the same everywhere
    ├── NoArrayForm                      a value or module that array libraries can't exchange
    ├── NotTransferable                  a value that is no wire type, so it can't cross to or from another process
    ├── BadFrame                         bytes that are no frame of the protocol, or one past its bounds
    ├── EnvFailed                        an environment elsewhere raised an error of its own
    ├── WorkerLost                       the process that held the environment is gone
    ├── DeadlineExceeded                 an environment elsewhere did not answer in time
    ├── EnvironmentViolation             what came from behind a wall is not what was declared
    ├── SandboxUnavailable               this machine can't put up the wall that was asked for
    ├── InvalidPolicy                    permissions that make no sense
    ├── NotPermitted                     something that the policy does not allow
    ├── InvalidManifest                  a paddock.toml that can't be used
    ├── InvalidCassette                  a recording of external calls that can't be used
    ├── Unreachable                      no connection to a server, though it was tried again and again
    ├── SessionGone                      the server does not have this session any more
    ├── Superseded                       another client took the session over
    ├── IdempotencyConflict              a request's number was used before, for another request
    ├── OutOfOrder                       a request's number is not the next one, or too old
    ├── CapacityReached, RateLimited, Draining    a server that takes no more, for now
    ├── StorageFull                      what must be kept can't be written
    ├── InvalidJournal                   a session's journal that was changed
    ├── Unauthenticated, Forbidden       no valid token, or one that does not allow this
    ├── InvalidTool                      a tool that can't be offered as it is written
    ├── InvalidTask                      a split or index without a task, or a row that is none
    ├── InvalidRubric                    a rubric that can't be built so, or a state that is not its
    ├── ToolFailed                       raised by a tool, in words for the model
    ├── EpisodeFailed                    an episode that can't go on; it has no reward
    │   └── GradingFailed                a rubric raised, took too long or gave no score
    ├── InvalidTrace                     a trace that can't be read, or a value that can't stand in one
    ├── AlreadyPendingCallError, NoAsyncCallError, ClosedEnvironmentError    vector environments

What a reply on the wire and a retry loop need to know of each are class attributes, and ``table()`` lists them:

* ``code``: the name on the wire, never reused for another meaning.
* ``retryable``: the same call may succeed later without a change.
* ``session_alive``: the environment is still usable after this error.

Where Gymnasium raises ``AssertionError`` or ``ValueError`` for the same mistake, ours inherits that too, and
``paddock.gym.error`` exports these very classes under Gymnasium's names.
"""

from __future__ import annotations

from paddock.errors.elsewhere import (
    BadFrame,
    DeadlineExceeded,
    EnvFailed,
    EnvironmentViolation,
    InvalidCassette,
    InvalidManifest,
    InvalidPolicy,
    NotPermitted,
    NotTransferable,
    SandboxUnavailable,
    WorkerLost,
)
from paddock.errors.naming import (
    DependencyNotInstalled,
    DeprecatedEnv,
    InvalidId,
    InvalidKeys,
    InvalidMetadata,
    InvalidSpec,
    MissingKeysToAction,
    NameNotFound,
    NamespaceNotFound,
    PlanError,
    PluginError,
    RegistrationError,
    RegistryConflict,
    UnregisteredEnv,
    UnsupportedMode,
    VersionNotFound,
    VideoNotWritten,
)
from paddock.errors.root import PaddockError
from paddock.errors.service import (
    CapacityReached,
    Draining,
    Forbidden,
    IdempotencyConflict,
    InvalidJournal,
    OutOfOrder,
    RateLimited,
    SessionGone,
    StorageFull,
    Superseded,
    Unauthenticated,
    Unreachable,
)
from paddock.errors.using import (
    AlreadyPendingCallError,
    CheckFailed,
    ClosedEnvironmentError,
    CustomSpaceError,
    DeprecatedWrapper,
    InvalidAction,
    InvalidBound,
    InvalidKernel,
    InvalidLanes,
    InvalidProbability,
    InvalidSeed,
    InvalidSnapshot,
    InvalidSpace,
    InvalidState,
    InvalidValue,
    KernelNotCompiled,
    MissingArgument,
    MissingSpace,
    NoArrayForm,
    NoAsyncCallError,
    NoCanonicalForm,
    ResetNeeded,
    SnapshotUnsupported,
    WrongClass,
)
from paddock.errors.working import (
    EpisodeFailed,
    GradingFailed,
    InvalidRubric,
    InvalidTask,
    InvalidTool,
    InvalidTrace,
    ToolFailed,
)

__all__ = [
    "AlreadyPendingCallError",
    "BadFrame",
    "CapacityReached",
    "CheckFailed",
    "ClosedEnvironmentError",
    "CustomSpaceError",
    "DeadlineExceeded",
    "DependencyNotInstalled",
    "DeprecatedEnv",
    "DeprecatedWrapper",
    "Draining",
    "EnvFailed",
    "EnvironmentViolation",
    "EpisodeFailed",
    "Forbidden",
    "GradingFailed",
    "IdempotencyConflict",
    "InvalidAction",
    "InvalidBound",
    "InvalidCassette",
    "InvalidId",
    "InvalidJournal",
    "InvalidKernel",
    "InvalidKeys",
    "InvalidLanes",
    "InvalidManifest",
    "InvalidMetadata",
    "InvalidPolicy",
    "InvalidProbability",
    "InvalidRubric",
    "InvalidSeed",
    "InvalidSnapshot",
    "InvalidSpace",
    "InvalidSpec",
    "InvalidState",
    "InvalidTask",
    "InvalidTool",
    "InvalidTrace",
    "InvalidValue",
    "KernelNotCompiled",
    "MissingArgument",
    "MissingKeysToAction",
    "MissingSpace",
    "NameNotFound",
    "NamespaceNotFound",
    "NoArrayForm",
    "NoAsyncCallError",
    "NoCanonicalForm",
    "NotPermitted",
    "NotTransferable",
    "OutOfOrder",
    "PaddockError",
    "PlanError",
    "PluginError",
    "RateLimited",
    "RegistrationError",
    "RegistryConflict",
    "ResetNeeded",
    "SandboxUnavailable",
    "SessionGone",
    "SnapshotUnsupported",
    "StorageFull",
    "Superseded",
    "ToolFailed",
    "Unauthenticated",
    "Unreachable",
    "UnregisteredEnv",
    "UnsupportedMode",
    "VersionNotFound",
    "VideoNotWritten",
    "WorkerLost",
    "WrongClass",
    "table",
]


def table() -> list[tuple[type[PaddockError], str, bool, bool]]:
    """Every class with its wire code, retryable and session_alive; codes are unique."""
    rows = [(PaddockError, PaddockError.code, PaddockError.retryable, PaddockError.session_alive)]
    for cls in _descendants(PaddockError):
        if "code" in vars(cls):  # not those that are another error under a second name
            rows.append((cls, cls.code, cls.retryable, cls.session_alive))
    return rows


def _descendants(cls: type[PaddockError]) -> list[type[PaddockError]]:
    return [found for child in cls.__subclasses__() for found in (child, *_descendants(child))]


for _error in (PaddockError, *_descendants(PaddockError)):
    # Where they are defined is nobody's business: tracebacks and pickles name the door that users know.
    _error.__module__ = __name__
