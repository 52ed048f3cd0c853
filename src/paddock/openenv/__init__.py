"""OpenEnv's names over paddock's: ``from paddock.openenv import …`` where it was ``from openenv.core import …``.

Clients need nothing beyond the base install; types and environments are pydantic models and need the extra ``openenv``.
Modules have OpenEnv's places too: ``paddock.openenv.core.env_server.types`` for ``openenv.core.env_server.types``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_CLIENT = ("EnvClient", "StepResult")
_TYPES = (
    "Action",
    "BaseMessage",
    "CodeExecResult",
    "ConcurrencyConfig",
    "EnvironmentMetadata",
    "GetTaskRangeRequest",
    "GetTaskRequest",
    "HealthResponse",
    "HealthStatus",
    "ListTasksRequest",
    "NumTasksRequest",
    "Observation",
    "ResetRequest",
    "ResetResponse",
    "Scalar",
    "SchemaResponse",
    "ServerCapacityStatus",
    "ServerMode",
    "SessionInfo",
    "State",
    "StepRequest",
    "StepResponse",
    "WSCloseMessage",
    "WSErrorCode",
    "WSErrorResponse",
    "WSIncomingMessage",
    "WSObservationResponse",
    "WSResetMessage",
    "WSStateMessage",
    "WSStateResponse",
    "WSStepMessage",
)
_ENVIRONMENT = (
    "CompositeTransform",
    "Environment",
    "Message",
    "ModelTokenizer",
    "NullTransform",
    "TaskProvider",
    "Transform",
)
_EXCEPTIONS = (
    "ConcurrencyConfigurationError",
    "EnvironmentFactoryError",
    "OpenEnvError",
    "SessionCapacityError",
    "SessionCreationError",
    "SessionNotFoundError",
)
_MCP_TYPES = (
    "CallToolAction",
    "CallToolObservation",
    "JsonRpcError",
    "JsonRpcErrorCode",
    "JsonRpcRequest",
    "JsonRpcResponse",
    "ListToolsAction",
    "ListToolsObservation",
    "McpMethod",
    "RESERVED_TOOL_NAMES",
    "Tool",
    "ToolError",
    "ToolErrorType",
    "WSMCPMessage",
    "WSMCPResponse",
)
_MODULES = {
    "adapter": ("AsEnv",),
    "app": ("create_app", "create_fastapi_app"),
    "client": _CLIENT,
    "conversation": ("ConnectionLost", "OutcomeUnknown", "ServerError"),
    "environment": _ENVIRONMENT,
    "exceptions": _EXCEPTIONS,
    "mcp_client": ("GenericMCPObservation", "MCPClientBase", "MCPToolClient"),
    "mcp_environment": ("MCPEnvironment",),
    "mcp_types": _MCP_TYPES,
    "generic_client": ("GenericAction", "GenericEnvClient"),
    "serialization": ("deserialize_action", "serialize_observation"),
    "sync_client": ("SyncEnvClient",),
    "types": _TYPES,
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
