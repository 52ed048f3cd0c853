"""OpenEnv's names over paddock's: write ``from paddock.openenv import …`` instead of ``from openenv.core import …``.

Clients need nothing beyond the base install; types and environments are pydantic models and need pydantic. OpenEnv's
modules are here too: ``paddock.openenv.core.env_server.types`` for ``openenv.core.env_server.types``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from paddock.aliases import Exports, add_aliases

ALIASES: dict[str, Exports] = {
    "auto": {"paddock.openenv.auto_env": "AutoAction AutoEnv"},
    "auto.auto_action": {"paddock.openenv.auto_env": "AutoAction"},
    "auto.auto_env": {"paddock.openenv.auto_env": "AutoEnv"},
    "core": "paddock.openenv",
    "core.client_types": {"paddock.openenv.client": "StepResult"},
    "core.containers": "paddock.openenv.containers",
    "core.containers.runtime": "paddock.openenv.containers",
    "core.containers.runtime.providers": {
        "paddock.openenv.containers": "ContainerProvider DockerSwarmProvider KubernetesProvider LocalDockerProvider "
        "RuntimeProvider"
    },
    "core.containers.runtime.uv_provider": {"paddock.openenv.containers": "UVProvider"},
    "core.env_client": {"paddock.openenv.client": "EnvClient StepResult"},
    "core.generic_client": {"paddock.openenv.client": "GenericAction GenericEnvClient"},
    "core.mcp_client": {"paddock.openenv.mcp_client": "GenericMCPObservation MCPClientBase MCPToolClient"},
    "core.sync_client": {"paddock.openenv.client": "SyncEnvClient"},
    "core.env_server": "paddock.openenv",
    "core.env_server.base_transforms": {"paddock.openenv.environment": "CompositeTransform NullTransform"},
    "core.env_server.exceptions": {
        "paddock.openenv.exceptions": "ConcurrencyConfigurationError EnvironmentFactoryError OpenEnvError "
        "SessionCapacityError SessionCreationError SessionNotFoundError"
    },
    "core.env_server.http_server": {"paddock.openenv.app": "create_app create_fastapi_app"},
    "core.env_server.interfaces": {
        "paddock.openenv.environment": "Environment Message ModelTokenizer TaskProvider Transform"
    },
    "core.env_server.mcp_environment": {"paddock.openenv.environment": "MCPEnvironment MCP_TOOL_CALL_TIMEOUT"},
    "core.env_server.mcp_types": {
        "paddock.openenv.types": "CallToolAction CallToolObservation JsonRpcError JsonRpcErrorCode JsonRpcRequest "
        "JsonRpcResponse ListToolsAction ListToolsObservation McpMethod RESERVED_TOOL_NAMES Tool ToolError "
        "ToolErrorType WSMCPMessage WSMCPResponse"
    },
    "core.env_server.serialization": {"paddock.openenv.types": "deserialize_action serialize_observation"},
    "core.env_server.types": {
        "paddock.openenv.types": "Action BaseMessage CodeExecResult ConcurrencyConfig EnvironmentMetadata "
        "GetTaskRangeRequest GetTaskRequest HealthResponse HealthStatus ListTasksRequest NumTasksRequest Observation "
        "ResetRequest ResetResponse Scalar SchemaResponse ServerCapacityStatus ServerMode SessionInfo State "
        "StepRequest StepResponse WSCloseMessage WSErrorCode WSErrorResponse WSIncomingMessage WSObservationResponse "
        "WSResetMessage WSStateMessage WSStateResponse WSStepMessage"
    },
}
add_aliases(__name__, ALIASES)

# Every name of those modules is here as well, and a few that OpenEnv doesn't have.
_HOMES = {
    "AsEnv": "paddock.sources.openenv",
    "ConnectionLost": "paddock.hosting.openenv.client",
    "OutcomeUnknown": "paddock.hosting.openenv.client",
    "ServerError": "paddock.hosting.openenv.client",
}
for _exports in ALIASES.values():
    if not isinstance(_exports, str):
        _HOMES.update({name: home for home, names in _exports.items() for name in names.split()})

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
