"""OpenEnv's errors, with its fields. Those that paddock's own server and client raise are in ``paddock.errors``."""

from __future__ import annotations


class OpenEnvError(Exception):
    """Root of OpenEnv's errors."""


class ConcurrencyConfigurationError(OpenEnvError):
    """More than one session is asked for, and the environment does not say that it allows that."""

    def __init__(self, environment_name: str, max_concurrent_envs: int, message: str | None = None) -> None:
        self.environment_name, self.max_concurrent_envs = environment_name, max_concurrent_envs
        super().__init__(
            message
            or f"{environment_name} does not allow {max_concurrent_envs} sessions at once. "
            "Set SUPPORTS_CONCURRENT_SESSIONS = True in the class if they share nothing, or max_concurrent_envs=1."
        )


class SessionCapacityError(OpenEnvError):
    """The server has as many sessions as it may have."""

    def __init__(self, active_sessions: int, max_sessions: int, message: str | None = None) -> None:
        self.active_sessions, self.max_sessions = active_sessions, max_sessions
        super().__init__(
            message
            or f"Server at capacity: {active_sessions}/{max_sessions} sessions active. Cannot accept new connections."
        )


class SessionNotFoundError(OpenEnvError):
    """There is no such session."""

    def __init__(self, session_id: str, message: str | None = None) -> None:
        self.session_id = session_id
        super().__init__(message or f"Session '{session_id}' not found.")


class SessionCreationError(OpenEnvError):
    """A session could not be made."""

    def __init__(self, reason: str, message: str | None = None) -> None:
        self.reason = reason
        super().__init__(message or f"Failed to create session: {reason}")


class EnvironmentFactoryError(OpenEnvError):
    """The environment of a session could not be made."""

    def __init__(self, factory_name: str, message: str | None = None) -> None:
        self.factory_name = factory_name
        super().__init__(message or f"Environment factory '{factory_name}' failed to create instance.")
