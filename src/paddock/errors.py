"""Every error that paddock raises on purpose, in one tree. Classes carry facts as fields, so handlers never parse text.

::

    PaddockError
    ├── UnregisteredEnv                  no environment of that id
    │   ├── NamespaceNotFound
    │   ├── NameNotFound
    │   └── VersionNotFound
    ├── DeprecatedEnv                    a version older than the ones that exist
    ├── RegistrationError                an id can't be registered like this
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
    ├── InvalidSnapshot                  bytes that are not a snapshot of this environment
    ├── SnapshotUnsupported              the environment can't save its state
    ├── InvalidSeed                      a seed that is not a non-negative integer
    ├── InvalidSpace                     a space, its JSON or a value for it is malformed
    │   ├── InvalidBound
    │   ├── InvalidProbability
    │   └── InvalidValue                 data that is not a value of a Struct; `path` names the field
    ├── InvalidLanes                     values, a mask or a mode that do not fit the lanes of a vector environment
    ├── MissingArgument
    ├── CustomSpaceError                 a function has no rule for a user's own space class
    ├── CheckFailed                      check_env, or the guard's first look, found something unusable
    │   ├── WrongClass                   the environment is not an Env, or one of its spaces not a Space
    │   └── MissingSpace                 observation_space or action_space does not exist
    ├── DeprecatedWrapper                a wrapper's former name
    ├── NoCanonicalForm                  a value whose bytes would differ between machines
    ├── NoArrayForm                      a value or module that array libraries can't exchange
    ├── NotTransferable                  a value without a form on the wire: it can't cross to or from another process
    ├── BadFrame                         bytes that are not a frame of the protocol, or one past its bounds
    ├── EnvFailed                        an environment elsewhere raised an error of its own
    ├── WorkerLost                       the process that held the environment is gone
    ├── DeadlineExceeded                 an environment elsewhere did not answer in time
    ├── EnvironmentViolation             what came from behind a wall is not what was declared
    ├── SandboxUnavailable               this machine can't put up the wall that you want
    ├── InvalidPolicy                    permissions that make no sense
    ├── NotPermitted                     something that the policy does not allow
    ├── InvalidManifest                  a paddock.toml that can't be used
    ├── InvalidCassette                  a recording of external calls that can't be used
    ├── Unreachable                      no connection to a server, after several tries
    ├── SessionGone                      the server does not have this session any more
    ├── Superseded                       another client took the session over
    ├── IdempotencyConflict              a request's number was used before, for another request
    ├── OutOfOrder                       a request's number is not the next one, or too old
    ├── CapacityReached, RateLimited, Draining    a server that takes no more for now
    ├── StorageFull                      data that must be stored can't be written
    ├── InvalidJournal                   a session's journal that was changed
    ├── Unauthenticated, Forbidden       no valid token, or one that does not allow this
    ├── InvalidKey                       a key file that can't be used, or a wrong password
    ├── InvalidPackage                   a package file that is damaged, changed or malformed
    ├── InvalidSignature                 what should be a signed statement is not one
    ├── Untrusted                        not signed by a key that may; `fingerprints` says who did
    │   ├── Revoked                      signed by a key, or of a digest, that was withdrawn
    │   └── Expired                      signed, but its time is over or not yet come
    ├── Downgrade                        an older version than one that was installed before
    ├── InvalidTool                      a tool that can't be offered as it is written
    ├── InvalidTask                      a split or index without a task, or a malformed task
    ├── InvalidRubric                    a rubric that can't be built like this, or the state of another one
    ├── ToolFailed                       raised by a tool, in words for the model
    ├── EpisodeFailed                    an episode that can't go on; it has no reward
    │   └── GradingFailed                a rubric raised, took too long or gave no score
    ├── ModelCallFailed                  a model's endpoint refused a call, and would refuse it again
    │   ├── ModelOverloaded              it takes no more calls for now
    │   ├── ModelUnavailable             there is no connection, or the server failed
    │   │   └── ModelTimeout             it did not answer in time
    │   ├── ModelReplyInvalid            what came is not a reply
    │   └── ModelReplyCutOff             the reply reached its limit of tokens
    ├── BudgetExceeded                   a rollout or a run has used what it may
    ├── InvalidTrace                     a trace that can't be read, or a value that can't stand in one
    ├── InvalidSuite                     a suite of benchmarks that is malformed, or that pays for nothing
    ├── NotComparable                    two benchmark runs that did not measure the same thing, or hardly anything
    ├── InvalidBundle                    a benchmark's record that does not verify; `reason` says in which way
    └── AlreadyPendingCallError, NoAsyncCallError, ClosedEnvironmentError    vector environments

What a reply on the wire and a retry loop need to know of each are class attributes, and ``table()`` lists them:

* ``code``: the name on the wire, never reused for another meaning.
* ``retryable``: the same call may succeed later without a change.
* ``session_alive``: the environment is still usable after this error.

Where Gymnasium raises ``AssertionError`` or ``ValueError`` for the same mistake, ours inherits that too, and
``paddock.gym.error`` exports these very classes under Gymnasium's names.
"""

from __future__ import annotations

from typing import Any, ClassVar


class PaddockError(Exception):
    """Root of all errors raised on purpose. ``gym.error.Error`` is this class."""

    code: ClassVar[str] = "ERROR"
    retryable: ClassVar[bool] = False
    session_alive: ClassVar[bool] = True

    def __init_subclass__(cls, **facts: str | bool) -> None:
        for name in facts.keys() & {"code", "retryable", "session_alive"}:
            setattr(cls, name, facts.pop(name))
        super().__init_subclass__(**facts)


# Errors before anything is made: ids, registration, specs, plans, what is not installed.


class UnregisteredEnv(PaddockError, code="ENV_NOT_FOUND", session_alive=False):
    """No environment of that id."""


class NamespaceNotFound(UnregisteredEnv, code="NAMESPACE_NOT_FOUND"):
    """The part before ``/`` is unknown."""


class NameNotFound(UnregisteredEnv, code="NAME_NOT_FOUND"):
    """The name is unknown in its namespace."""


class VersionNotFound(UnregisteredEnv, code="VERSION_NOT_FOUND"):
    """The name exists, this version of it does not."""


class DeprecatedEnv(PaddockError, code="ENV_DEPRECATED", session_alive=False):
    """The version is older than every version that exists."""


class RegistrationError(PaddockError, ValueError, code="REGISTRATION_ERROR", session_alive=False):
    """An id can't be registered like this."""


class InvalidId(RegistrationError, code="INVALID_ID"):
    """The id is not of the form ``[namespace/]Name[-vN]``."""


class RegistryConflict(RegistrationError, code="REGISTRY_CONFLICT"):
    """The id is taken, by a protected environment or by another entry point."""


class PluginError(RegistrationError, code="PLUGIN_ERROR"):
    """The code behind a plugin's entry point failed when ``make`` loaded it."""


class InvalidSpec(PaddockError, ValueError, code="INVALID_SPEC", session_alive=False):
    """An EnvSpec or its JSON is malformed."""


class PlanError(PaddockError, ValueError, code="PLAN_ERROR", session_alive=False):
    """A combination of target and options that can't be built; the text names the clash and the ways out."""


class DependencyNotInstalled(PaddockError, code="DEPENDENCY_NOT_INSTALLED"):
    """An optional package is missing; the text ends with the exact pip command."""


class UnsupportedMode(PaddockError, ValueError, code="UNSUPPORTED_MODE"):
    """A render mode that the environment does not have."""


class InvalidMetadata(PaddockError, ValueError, code="INVALID_METADATA"):
    """``metadata`` is not what it should be."""


class VideoNotWritten(PaddockError, OSError, code="VIDEO_NOT_WRITTEN"):
    """A video can't be encoded, or its file not be written; the environment is not touched by that."""


class InvalidKeys(PaddockError, ValueError, TypeError, code="INVALID_KEYS"):
    """A mapping from keys to actions that can't be played with."""


class MissingKeysToAction(InvalidKeys, code="MISSING_KEYS"):
    """No mapping from keys to actions is given, and the environment has none of its own."""


# Errors of using environments and values: order of calls, actions, spaces, kernels, snapshots, checks.


class ResetNeeded(PaddockError, code="RESET_NEEDED"):
    """``reset`` must be called first: at the start, and after an episode has ended."""


class InvalidAction(PaddockError, AssertionError, ValueError, code="INVALID_ACTION"):
    """An action outside the action space. Raised before any environment code runs."""

    def __init__(self, message: str, *, action: Any = None, space: Any = None, lane: int | None = None) -> None:
        super().__init__(message)
        self.action, self.space, self.lane = action, space, lane


class InvalidState(PaddockError, code="INVALID_STATE"):
    """``public_state()`` returned something outside the declared ``state_space``."""


class InvalidKernel(PaddockError, ValueError, code="INVALID_KERNEL"):
    """A kernel's functions, parameters or state are not what they should be."""


class KernelNotCompiled(InvalidKernel, code="KERNEL_NOT_COMPILED"):
    """Numba can't compile a kernel's function; the text names the line and what to write instead."""


class InvalidSnapshot(PaddockError, ValueError, code="INVALID_SNAPSHOT"):
    """Bytes that are not a snapshot of this environment; nothing was changed."""


class SnapshotUnsupported(PaddockError, NotImplementedError, code="SNAPSHOT_UNSUPPORTED"):
    """The environment can't save or restore its state."""


class InvalidSeed(PaddockError, ValueError, code="INVALID_SEED"):
    """A seed that is not a non-negative integer."""


class InvalidSpace(PaddockError, AssertionError, ValueError, TypeError, code="INVALID_SPACE"):
    """A space, its JSON form or a value for it is malformed."""


class InvalidProbability(InvalidSpace, code="INVALID_PROBABILITY"):
    """Probabilities that do not fit the space or do not sum to one."""


class InvalidBound(InvalidSpace, code="INVALID_BOUND"):
    """Bounds of a Box that are not bounds."""


class InvalidValue(InvalidSpace, code="INVALID_VALUE"):
    """Data that is not a value of a Struct; ``path`` says where, ``moves[2].to``, and is empty for the whole."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class InvalidLanes(PaddockError, ValueError, AssertionError, TypeError, RuntimeError, code="INVALID_LANES"):
    """Values, a mask or a mode that do not fit the lanes of a vector environment."""


class MissingArgument(PaddockError, code="MISSING_ARGUMENT"):
    """A required argument was not given."""


class CustomSpaceError(PaddockError, NotImplementedError, code="CUSTOM_SPACE"):
    """A function over spaces has no rule for a user's own space class."""


class CheckFailed(PaddockError, AssertionError, code="CHECK_FAILED"):
    """``check_env`` found something wrong; ``findings`` lists all of it."""

    def __init__(self, message: str, *, findings: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.findings = findings


class WrongClass(CheckFailed, TypeError, code="WRONG_CLASS"):
    """What should be an environment or a space does not inherit from Env or Space."""


class MissingSpace(CheckFailed, AttributeError, code="MISSING_SPACE"):
    """The environment has no ``observation_space`` or no ``action_space``."""


class DeprecatedWrapper(PaddockError, ImportError, code="DEPRECATED_WRAPPER"):
    """A wrapper was imported by a former name."""


class NoCanonicalForm(PaddockError, TypeError, code="NO_CANONICAL_FORM"):
    """A value whose bytes would differ between machines, so that it has no digest."""


class NoArrayForm(PaddockError, TypeError, ValueError, code="NO_ARRAY_FORM"):
    """A value that has no form in an array library, or a module that is not an array library."""


class AlreadyPendingCallError(PaddockError, code="ALREADY_PENDING"):
    """A vector environment already waits for the answer to ``name``."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class NoAsyncCallError(PaddockError, code="NOT_PENDING"):
    """A vector environment was asked for the answer to ``name`` before that was called."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class ClosedEnvironmentError(PaddockError, code="CLOSED", session_alive=False):
    """The environment is closed."""


# Errors of environments that language models work in.
#
# A tool that can't do what the model wants is not one of them: the model reads about that in its observation.


class InvalidTool(PaddockError, TypeError, code="INVALID_TOOL"):
    """A tool, or a class of tools, that can't be offered as it is written. Raised where the class is defined."""


class InvalidTask(PaddockError, ValueError, code="INVALID_TASK"):
    """A split or an index that the environment has no task for, or a row that is not a task."""


class ToolFailed(PaddockError, code="TOOL_FAILED"):
    """Raised by a tool: its text is for the model, as the tool's error. The episode goes on."""


class EpisodeFailed(PaddockError, code="EPISODE_FAILED"):
    """The episode can't go on, and the agent is not to blame: there is no reward, not even zero. Call ``reset``."""


class GradingFailed(EpisodeFailed, code="GRADING_FAILED"):
    """A rubric raised, took too long or gave no finite score; ``rubric`` is its dotted name, empty for the root."""

    def __init__(self, message: str, *, rubric: str = "") -> None:
        super().__init__(message)
        self.rubric = rubric


class InvalidRubric(PaddockError, ValueError, TypeError, KeyError, code="INVALID_RUBRIC"):
    """A rubric that can't be built like this, a part of it that does not exist, or the state of another one."""

    __str__ = Exception.__str__  # KeyError's own would put the text in quotes


class ModelCallFailed(PaddockError, code="MODEL_CALL_FAILED"):
    """A model's endpoint refused a call, and would refuse it again. ``call`` is the record of it."""

    def __init__(
        self, message: str, *, status: int | None = None, retry_after_s: float | None = None, call: Any = None
    ) -> None:
        super().__init__(message)
        self.status, self.retry_after_s, self.call = status, retry_after_s, call


class ModelOverloaded(ModelCallFailed, code="MODEL_OVERLOADED", retryable=True):
    """The endpoint takes no more calls for now; ``retry_after_s`` if it said until when."""


class ModelUnavailable(ModelCallFailed, code="MODEL_UNAVAILABLE", retryable=True):
    """There is no connection to the endpoint, it broke, or the server failed."""


class ModelTimeout(ModelUnavailable, TimeoutError, code="MODEL_TIMEOUT"):
    """The endpoint did not answer in time."""


class ModelReplyInvalid(ModelCallFailed, code="MODEL_REPLY_INVALID", retryable=True):
    """What the endpoint sent is not a reply with an assistant's message."""


class ModelReplyCutOff(ModelCallFailed, code="MODEL_REPLY_CUT_OFF", retryable=True):
    """The reply ended at its limit of tokens. What is there must not be graded as if the model had finished."""


class BudgetExceeded(PaddockError, code="BUDGET_EXCEEDED"):
    """A rollout or a run has used the tokens, money, calls or seconds that it may."""


class InvalidTrace(PaddockError, ValueError, code="INVALID_TRACE"):
    """A trace that can't be read, or a value that can't stand in one; the text names the line or the value."""


# Errors of environments that are elsewhere: in another process, or behind a wall.


class NotTransferable(PaddockError, TypeError, code="NOT_TRANSFERABLE"):
    """A value without a form on the wire; ``path`` says where it was found, ``kind`` what it is."""

    def __init__(self, message: str, *, path: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.path, self.kind = path, kind


class BadFrame(PaddockError, ValueError, code="BAD_FRAME", session_alive=False):
    """Bytes that are not a frame of the protocol, or one past its bounds."""


class EnvFailed(PaddockError, code="ENV_FAILED"):
    """An environment elsewhere raised an error of its own: ``error_type`` is its name, ``trace`` where it arose."""

    def __init__(self, message: str, *, lane: int | None = None, error_type: str = "", trace: str = "") -> None:
        super().__init__(message)
        self.lane, self.error_type, self.trace = lane, error_type, trace


class WorkerLost(PaddockError, code="ENV_LOST", session_alive=False):
    """The process that held the environment is gone; the text says how it ended, ``cause`` in one word.

    "exit", "signal", "memory" (it took more than allowed), "cpu" (likewise), "timeout" (it did not answer and was
    killed), "protocol" (it sent something other than a reply), "closed" (its connection, while it ran), "ended" (by
    this side).
    """

    def __init__(self, message: str, *, lane: int | None = None, cause: str = "ended") -> None:
        super().__init__(message)
        self.lane, self.cause = lane, cause


class DeadlineExceeded(PaddockError, TimeoutError, code="DEADLINE", session_alive=False):
    """An environment elsewhere did not answer in time; its process is ended, so no late answer can follow."""

    cause = "timeout"

    def __init__(self, message: str, *, lane: int | None = None) -> None:
        super().__init__(message)
        self.lane = lane


class EnvironmentViolation(PaddockError, code="ENV_VIOLATION", session_alive=False):
    """What came from behind a wall is not what was declared: ``path`` says where. The environment has been stopped.

    ``rule``: the id of the rule of ``check_env`` that it breaks, if there is one.
    """

    cause = "violation"

    def __init__(self, message: str, *, path: str = "", lane: int | None = None, rule: str = "") -> None:
        super().__init__(message)
        self.path, self.lane, self.rule = path, lane, rule


class SandboxUnavailable(PaddockError, code="SANDBOX_UNAVAILABLE", session_alive=False):
    """The machine can't put up the wall that you want. Nothing was started; choose a weaker one."""


class InvalidPolicy(PaddockError, ValueError, code="INVALID_POLICY", session_alive=False):
    """Permissions that make no sense: an unknown name, a limit below zero, a path that is not absolute."""


class NotPermitted(PaddockError, PermissionError, code="NOT_PERMITTED"):
    """Something that the policy does not allow; the text names the permission that would."""


class InvalidManifest(PaddockError, ValueError, code="INVALID_MANIFEST", session_alive=False):
    """A ``paddock.toml`` or ``openenv.yaml`` that can't be used; the text names the entry."""


class InvalidCassette(PaddockError, ValueError, code="INVALID_CASSETTE", session_alive=False):
    """A recording of external calls that can't be read or written; the text names the line. Nothing was answered."""


# Errors of benchmarks.


class InvalidSuite(PaddockError, ValueError, code="INVALID_SUITE", session_alive=False):
    """A suite that is malformed, names code that it may not name, or pays a policy that does nothing."""


class NotComparable(PaddockError, ValueError, code="NOT_COMPARABLE", session_alive=False):
    """Two benchmark runs of which neither can be called better: other environments or rules, or a bare mean."""


class InvalidBundle(PaddockError, ValueError, code="INVALID_BUNDLE", session_alive=False):
    """A benchmark's record that does not verify.

    ``reason``: tampered, irreproducible, untrusted, incomplete or malformed. ``episode`` and ``step`` are the first
    that differ, where there is one.
    """

    def __init__(self, message: str, *, reason: str, episode: int | None = None, step: int | None = None) -> None:
        super().__init__(message)
        self.reason, self.episode, self.step = reason, episode, step


# Errors of the environment service: sessions, limits, access.


class Unreachable(PaddockError, ConnectionError, code="UNREACHABLE", retryable=True, session_alive=False):
    """No connection to a server could be made in the time allowed."""


class SessionGone(PaddockError, code="SESSION_GONE", session_alive=False):
    """The server does not have this session: it ended, its time to resume is over, or the token is not its own."""


class Superseded(PaddockError, code="SUPERSEDED", session_alive=False):
    """Another client took the session over with its token."""


class IdempotencyConflict(PaddockError, code="IDEMPOTENCY_CONFLICT"):
    """A request's number was used before, for other bytes. Nothing was carried out."""


class OutOfOrder(PaddockError, code="OUT_OF_ORDER"):
    """A request's number is not the next one, or so old that its reply is gone. Nothing was carried out."""


class CapacityReached(PaddockError, code="CAPACITY_REACHED", retryable=True, session_alive=False):
    """The server holds as many sessions as it may; ``retry_after_s`` if it is known when to try again."""

    def __init__(self, message: str = "", *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimited(PaddockError, code="RATE_LIMITED", retryable=True):
    """Too many requests in too little time."""


class Draining(PaddockError, code="DRAINING", retryable=True):
    """The server is going to stop and begins nothing new."""


class StorageFull(PaddockError, OSError, code="STORAGE_FULL", retryable=True, session_alive=False):
    """Data that must be stored can't be written; what was written before is intact."""


class InvalidJournal(PaddockError, ValueError, code="INVALID_JOURNAL", session_alive=False):
    """A file that is not a journal, or a journal that was changed after it was written. Nothing is rebuilt from it."""


class Unauthenticated(PaddockError, PermissionError, code="UNAUTHENTICATED", session_alive=False):
    """No token, or none that the server knows."""


class Forbidden(PaddockError, PermissionError, code="FORBIDDEN", session_alive=False):
    """The token's role, or the place the request comes from, does not allow this."""


# Errors of trust: keys, signatures, packages. What they speak of was not run, and nothing of it was kept.


class InvalidKey(PaddockError, ValueError, code="INVALID_KEY", session_alive=False):
    """A key file that can't be used: damaged, of another kind, or the password is wrong."""


class InvalidPackage(PaddockError, ValueError, code="INVALID_PACKAGE", session_alive=False):
    """A package file that is damaged, changed after it was signed, or malformed; the text names the entry."""


class InvalidSignature(PaddockError, ValueError, code="INVALID_SIGNATURE", session_alive=False):
    """What should be a signed statement is not one, or not of the kind that was expected."""


class Untrusted(PaddockError, PermissionError, code="UNTRUSTED", session_alive=False):
    """Not signed by keys that may sign it; ``fingerprints``: of the keys that did, or say that they did."""

    def __init__(self, message: str, *, fingerprints: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.fingerprints = fingerprints


class Revoked(Untrusted, code="REVOKED"):
    """The key, or this very package, was withdrawn by a signed list. It stays so without a network."""


class Expired(Untrusted, code="EXPIRED"):
    """A key, a package or an index whose time is over, or has not come yet."""


class Downgrade(PaddockError, PermissionError, code="DOWNGRADE", session_alive=False):
    """An older version than one that was installed, or an older list than one that was read, here before."""


def table(root: type[PaddockError] = PaddockError) -> list[tuple[type[PaddockError], str, bool, bool]]:
    """Every class from ``root`` down, with its wire code, retryable and session_alive. Codes are unique."""
    # A class without a code of its own is another error under a second name.
    own = [(root, root.code, root.retryable, root.session_alive)] if "code" in vars(root) else []
    return [*own, *(row for child in root.__subclasses__() for row in table(child))]
