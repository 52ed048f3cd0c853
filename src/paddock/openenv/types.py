"""OpenEnv's types, field for field: pydantic models, as its users subclass them. Needs pydantic.

An observation has ``done`` and ``reward`` among its fields; on the wire they stand beside it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from enum import Enum
from importlib import import_module
from typing import Annotated, Any, Literal, TypeVar, Union, cast

from paddock.errors import DependencyNotInstalled
from paddock.hosting.openenv.wire import observation_data

try:
    from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator
    from typing_extensions import TypedDict  # which pydantic brings: it takes typing's own only on Python 3.12
except ImportError as error:
    raise DependencyNotInstalled(
        "OpenEnv's types are pydantic models, and pydantic is not installed: pip install pydantic"
    ) from error

Scalar = Union[int, float, bool]  # noqa: UP007 - a name that users put into annotations of their own


class Message(TypedDict):
    """One message of a conversation."""

    role: str
    content: str


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


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Action(BaseModel):
    """What an agent does; subclasses add fields, and nothing else is accepted."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, arbitrary_types_allowed=True)

    metadata: dict[str, Any] = Field(default_factory=dict)


class Observation(BaseModel):
    """What an agent sees, with what OpenEnv puts beside it; subclasses add fields."""

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


class ResetResponse(_Strict):
    """Its answer."""

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
    """What ``/schema`` says; ``reset_observation`` is left out if none is declared."""

    action: dict[str, Any]
    observation: dict[str, Any]
    state: dict[str, Any]
    reset_observation: dict[str, Any] | None = None

    @model_serializer(mode="wrap")
    def _serialize_declared(self, write: Any) -> dict[str, Any]:
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


class WSObservationResponse(_Strict):
    """A server's frame after reset and step."""

    type: Literal["observation"] = "observation"
    data: dict[str, Any]


class WSStateResponse(_Strict):
    """A server's frame with the state."""

    type: Literal["state"] = "state"
    data: dict[str, Any]


class WSErrorResponse(_Strict):
    """A server's frame about what could not be done."""

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
        return self.max_sessions - self.active_sessions

    @property
    def is_at_capacity(self) -> bool:
        return self.available_slots == 0

    @classmethod
    def from_counts(cls, active: int, max_sessions: int) -> ServerCapacityStatus:
        return cls(active_sessions=active, max_sessions=max_sessions)


class SessionInfo(BaseMessage):
    """One session; times since the epoch in seconds."""

    session_id: str
    created_at: float
    last_activity_at: float
    step_count: int = Field(default=0, ge=0)
    environment_type: str


# For tools and JSON-RPC. A tool's own failure is in ``result``; ``error`` is for a call that could not be made.

RESERVED_TOOL_NAMES = frozenset(("reset", "step", "state", "close"))


class JsonRpcErrorCode(int, Enum):
    """JSON-RPC's codes."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    SERVER_ERROR = -32000


_WORDS = {
    JsonRpcErrorCode.PARSE_ERROR: "Parse error",
    JsonRpcErrorCode.INVALID_REQUEST: "Invalid Request",
    JsonRpcErrorCode.METHOD_NOT_FOUND: "Method not found",
    JsonRpcErrorCode.INVALID_PARAMS: "Invalid params",
    JsonRpcErrorCode.INTERNAL_ERROR: "Internal error",
    JsonRpcErrorCode.SERVER_ERROR: "Server error",
}


class McpMethod(str, Enum):
    """The methods for tools."""

    TOOLS_LIST = "tools/list"
    TOOLS_CALL = "tools/call"


class JsonRpcError(_Strict):
    """Why a request has no result."""

    code: int
    message: str
    data: Any | None = None

    @classmethod
    def from_code(cls, code: JsonRpcErrorCode, message: str | None = None, data: Any = None) -> JsonRpcError:
        """Return an error, with the usual words if you pass none."""
        return cls(code=code.value, message=message or _WORDS[code], data=data)


class JsonRpcRequest(_Strict):
    """A request."""

    jsonrpc: Literal["2.0"]
    method: str
    params: dict[str, Any] = Field(default_factory=dict)
    id: str | int | None = None


class JsonRpcResponse(_Strict):
    """Its answer, dumped with a result or an error, never both."""

    jsonrpc: Literal["2.0"] = "2.0"
    result: Any | None = None
    error: JsonRpcError | None = None
    id: str | int | None = None

    def model_dump(self, **kwargs: Any) -> dict[str, Any]:
        outcome = {"result": self.result} if self.error is None else {"error": self.error.model_dump()}
        return {"jsonrpc": self.jsonrpc, "id": self.id, **outcome}

    def model_dump_json(self, **kwargs: Any) -> str:
        """As it is sent on the websocket ``/mcp``."""
        return json.dumps(self.model_dump())

    @classmethod
    def success(cls, result: Any, request_id: str | int | None = None) -> JsonRpcResponse:
        return cls(result=result, id=request_id)

    @classmethod
    def error_response(
        cls,
        code: JsonRpcErrorCode,
        message: str | None = None,
        data: Any = None,
        request_id: str | int | None = None,
    ) -> JsonRpcResponse:
        return cls(error=JsonRpcError.from_code(code, message, data), id=request_id)


class Tool(_Strict):
    """A tool as a client sees it."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ToolErrorType(str, Enum):
    """What kind of failure it was."""

    EXECUTION_ERROR = "execution_error"
    INVALID_ARGS = "invalid_args"
    TRANSPORT_ERROR = "transport_error"
    TOOL_NOT_FOUND = "tool_not_found"
    TIMEOUT = "timeout"


class ToolError(_Strict):
    """Why a call has no result."""

    error_type: ToolErrorType
    message: str


class ListToolsAction(Action):
    """Ask which tools there are; needs no reset first."""

    type: Literal["list_tools"] = "list_tools"


class CallToolAction(Action):
    """Call a tool."""

    type: Literal["call_tool"] = "call_tool"
    tool_name: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class ListToolsObservation(Observation):
    """Which tools there are."""

    tools: list[Tool]


class CallToolObservation(Observation):
    """What a call gave."""

    tool_name: str
    result: Any = None
    error: ToolError | None = None


class WSMCPMessage(BaseMessage):
    """A client's frame with a JSON-RPC request."""

    type: Literal["mcp"] = "mcp"
    data: dict[str, Any]


class WSMCPResponse(_Strict):
    """A server's frame with its answer."""

    type: str = "mcp"
    data: dict[str, Any]


ActT = TypeVar("ActT", bound=Action)


def deserialize_action(action_data: dict[str, Any], action_cls: type[ActT]) -> ActT:
    """Return an instance of the class; pydantic's ValidationError if the data does not fit it.

    Calls of tools become OpenEnv's own actions for them, unless the environment has a class of its own.
    """
    kinds = {"list_tools": ListToolsAction, "call_tool": CallToolAction}
    found = kinds.get(action_data["type"]) if isinstance(action_data.get("type"), str) else None
    if found is not None and action_cls in (Action, *kinds.values()):
        return cast(ActT, found.model_validate(action_data))
    return cast(ActT, action_cls.model_validate(action_data))


def deserialize_action_with_preprocessing(action_data: dict[str, Any], action_cls: type[ActT]) -> ActT:
    """The same for the values of a form, where arguments of a tool, tokens and an action's number may be text.

    ``tokens`` become a tensor if torch is installed; text that holds none is an empty list.
    """
    data = dict(action_data)
    if data.get("type") == "call_tool" and action_cls in (Action, ListToolsAction, CallToolAction):
        if isinstance(data.get("arguments"), str):
            with suppress(ValueError):
                data["arguments"] = json.loads(data["arguments"])
        return deserialize_action(data, action_cls)
    if isinstance(data.get("tokens"), str):
        try:
            data["tokens"] = json.loads(data["tokens"])
        except ValueError:
            data["tokens"] = []
    if isinstance(data.get("tokens"), list):
        with suppress(ImportError):
            torch = import_module("torch")
            data["tokens"] = torch.tensor(data["tokens"], dtype=torch.long)
    if isinstance(data.get("action_id"), str):
        with suppress(ValueError):
            data["action_id"] = int(data["action_id"])
    return deserialize_action(data, action_cls)


def serialize_observation(observation: Observation) -> dict[str, Any]:
    """Return ``observation``, ``reward``, ``done``, and ``metadata`` if there is any."""
    return observation_data(observation.model_dump())
