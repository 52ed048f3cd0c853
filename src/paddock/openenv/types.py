"""OpenEnv's types, field for field: pydantic models, as its users subclass them. Needs the extra ``openenv``.

An observation has ``done`` and ``reward`` among its fields; on the wire they stand beside it.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal, Union

from paddock.errors import DependencyNotInstalled

try:
    from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator
except ImportError as error:
    raise DependencyNotInstalled(
        'OpenEnv\'s types are pydantic models, and pydantic is not installed: pip install "paddock[openenv]"'
    ) from error

Scalar = Union[int, float, bool]  # noqa: UP007 - a name that users put into annotations of their own


class ServerMode(str, Enum):
    """Whether clients may reset and step (simulation), or only use tools."""

    SIMULATION = "simulation"
    PRODUCTION = "production"


class HealthStatus(str, Enum):
    """What ``/health`` says."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    DEGRADED = "degraded"


class WSErrorCode(str, Enum):
    """The codes of error frames."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    FACTORY_ERROR = "FACTORY_ERROR"
    SESSION_ERROR = "SESSION_ERROR"


class Action(BaseModel):
    """What an agent does; subclasses add fields, and nothing else is accepted."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, arbitrary_types_allowed=True)

    metadata: dict[str, Any] = Field(default_factory=dict)


class Observation(BaseModel):
    """What an agent is shown, with what OpenEnv puts beside it; subclasses add fields."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, arbitrary_types_allowed=True)

    done: bool = False
    reward: bool | int | float | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class State(BaseModel):
    """Where an episode is; any further field is accepted."""

    model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)

    episode_id: str | None = None
    step_count: int = Field(default=0, ge=0)


class BaseMessage(BaseModel):
    """What the messages have in common: no unknown fields."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class CodeExecResult(BaseMessage):
    """What running some code gave."""

    stdout: str
    stderr: str
    exit_code: int


class EnvironmentMetadata(BaseMessage):
    """What ``/metadata`` says."""

    name: str
    description: str
    readme_content: str | None = None
    version: str | None = None
    author: str | None = None
    documentation_url: str | None = None


class ResetRequest(BaseModel):
    """The body of ``POST /reset``; further fields are arguments of the environment's reset."""

    model_config = ConfigDict(extra="allow")

    seed: int | None = Field(default=None, ge=0)
    episode_id: str | None = Field(default=None, max_length=255)


class ResetResponse(BaseModel):
    """Its answer."""

    model_config = ConfigDict(extra="forbid")

    observation: dict[str, Any]
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] | None = None


class StepRequest(BaseModel):
    """The body of ``POST /step``; further fields are arguments of the environment's step."""

    model_config = ConfigDict(extra="allow")

    action: dict[str, Any]
    timeout_s: float | None = Field(default=None, gt=0)
    request_id: str | None = Field(default=None, max_length=255)


class StepResponse(ResetResponse):
    """Its answer."""


class SchemaResponse(BaseMessage):
    """What ``/schema`` says; ``reset_observation`` is left out where nobody declared one."""

    action: dict[str, Any]
    observation: dict[str, Any]
    state: dict[str, Any]
    reset_observation: dict[str, Any] | None = None

    @model_serializer(mode="wrap")
    def _declared(self, write: Any) -> dict[str, Any]:
        written: dict[str, Any] = write(self)
        return {key: value for key, value in written.items() if key != "reset_observation" or value is not None}


class HealthResponse(BaseMessage):
    """The body of ``/health``."""

    status: HealthStatus = HealthStatus.HEALTHY


class ListTasksRequest(BaseMessage):
    """Which tasks there are in a split."""

    split: str


class NumTasksRequest(BaseMessage):
    """How many."""

    split: str


class GetTaskRequest(BaseMessage):
    """One of them."""

    split: str
    index: int


class GetTaskRangeRequest(BaseMessage):
    """Some of them, as a slice."""

    split: str
    start: int | None = None
    stop: int | None = None


class WSResetMessage(BaseMessage):
    """A client's frame that begins an episode."""

    type: Literal["reset"] = "reset"
    data: dict[str, Any] = Field(default_factory=dict)


class WSStepMessage(BaseMessage):
    """A client's frame with an action's fields."""

    type: Literal["step"] = "step"
    data: dict[str, Any]


class WSStateMessage(BaseMessage):
    """A client's frame that asks for the state."""

    type: Literal["state"] = "state"


class WSCloseMessage(BaseMessage):
    """A client's last frame."""

    type: Literal["close"] = "close"


WSIncomingMessage = Annotated[
    Union[WSResetMessage, WSStepMessage, WSStateMessage, WSCloseMessage],  # noqa: UP007
    Field(discriminator="type"),
]


class WSObservationResponse(BaseModel):
    """A server's frame after reset and step."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["observation"] = "observation"
    data: dict[str, Any]


class WSStateResponse(BaseModel):
    """A server's frame with the state."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["state"] = "state"
    data: dict[str, Any]


class WSErrorResponse(BaseModel):
    """A server's frame about what could not be done."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["error"] = "error"
    data: dict[str, Any]


class ConcurrencyConfig(BaseMessage):
    """How many sessions there may be, and how long an idle one lives (None: as the server is set)."""

    max_concurrent_envs: int = Field(default=1, ge=1)
    session_timeout: float | None = Field(default=None, gt=0)


class ServerCapacityStatus(BaseMessage):
    """How many sessions there are."""

    active_sessions: int = Field(ge=0)
    max_sessions: int = Field(ge=1)

    @model_validator(mode="after")
    def _within(self) -> ServerCapacityStatus:
        if self.active_sessions > self.max_sessions:
            raise ValueError(f"active_sessions {self.active_sessions} is more than max_sessions {self.max_sessions}")
        return self

    @property
    def available_slots(self) -> int:
        """How many more there may be."""
        return self.max_sessions - self.active_sessions

    @property
    def is_at_capacity(self) -> bool:
        """Whether there may be no more."""
        return self.available_slots == 0

    @classmethod
    def from_counts(cls, active: int, max_sessions: int) -> ServerCapacityStatus:
        """The status of these counts."""
        return cls(active_sessions=active, max_sessions=max_sessions)


class SessionInfo(BaseMessage):
    """One session; times since the epoch in seconds."""

    session_id: str
    created_at: float
    last_activity_at: float
    step_count: int = Field(default=0, ge=0)
    environment_type: str
