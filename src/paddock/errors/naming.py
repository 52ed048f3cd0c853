"""Errors before anything is made: ids, registration, specs, plans, what is not installed."""

from __future__ import annotations

from paddock.errors.root import PaddockError


class UnregisteredEnv(PaddockError):
    """No environment of that id."""

    code = "ENV_NOT_FOUND"
    session_alive = False


class NamespaceNotFound(UnregisteredEnv):
    """The part before ``/`` is unknown."""

    code = "NAMESPACE_NOT_FOUND"


class NameNotFound(UnregisteredEnv):
    """The name is unknown in its namespace."""

    code = "NAME_NOT_FOUND"


class VersionNotFound(UnregisteredEnv):
    """The name exists, this version of it does not."""

    code = "VERSION_NOT_FOUND"


class DeprecatedEnv(PaddockError):
    """The version asked for is older than every version that exists."""

    code = "ENV_DEPRECATED"
    session_alive = False


class RegistrationError(PaddockError, ValueError):
    """An id can't be registered as asked."""

    code = "REGISTRATION_ERROR"
    session_alive = False


class InvalidId(RegistrationError):
    """The id is not of the form ``[namespace/]Name[-vN]``."""

    code = "INVALID_ID"


class RegistryConflict(RegistrationError):
    """The id is taken, by a protected environment or by another entry point."""

    code = "REGISTRY_CONFLICT"


class PluginError(RegistrationError):
    """The code behind a plugin's entry point failed when ``make`` loaded it."""

    code = "PLUGIN_ERROR"


class InvalidSpec(PaddockError, ValueError):
    """An EnvSpec or its JSON is malformed."""

    code = "INVALID_SPEC"
    session_alive = False


class PlanError(PaddockError, ValueError):
    """A combination of target and options that can't be built; the text names the clash and the ways out."""

    code = "PLAN_ERROR"
    session_alive = False


class DependencyNotInstalled(PaddockError):
    """An optional package is missing; the text ends with the exact pip command."""

    code = "DEPENDENCY_NOT_INSTALLED"


class UnsupportedMode(PaddockError, ValueError):
    """A render mode that the environment does not have."""

    code = "UNSUPPORTED_MODE"


class InvalidMetadata(PaddockError, ValueError):
    """``metadata`` is not what it should be."""

    code = "INVALID_METADATA"


class VideoNotWritten(PaddockError, OSError):
    """A video can't be encoded, or its file not be written; the environment is not touched by that."""

    code = "VIDEO_NOT_WRITTEN"


class InvalidKeys(PaddockError, ValueError, TypeError):
    """A mapping from keys to actions that can't be played with."""

    code = "INVALID_KEYS"


class MissingKeysToAction(InvalidKeys):
    """No mapping from keys to actions is given, and the environment has none of its own."""

    code = "MISSING_KEYS"
