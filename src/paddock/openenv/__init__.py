"""OpenEnv's names over paddock's: write ``from paddock.openenv import …`` instead of ``from openenv.core import …``.

Clients need nothing beyond the base install; types and environments are pydantic models and need pydantic. OpenEnv's
modules are here too: ``paddock.openenv.core.env_server.types`` for ``openenv.core.env_server.types``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from typing import Any

from paddock.aliases import Exports, add_aliases

ALIASES: dict[str, Exports] = {
    "core": "paddock.openenv",
    "core.client_types": {"paddock.openenv.client": "StepResult"},
    "core.env_client": {"paddock.openenv.client": "EnvClient"},
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
        "paddock.openenv.environment": "Environment Message ModelTokenizer TaskProvider Transform",
        "paddock.openenv.types": "Action EnvironmentMetadata Observation State",
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


class _AsOpenEnv:
    """Finds OpenEnv's modules, and imports ours for them."""

    def __init__(self, prefixes: dict[str, str]) -> None:
        self._prefixes = prefixes

    def _ours(self, name: str) -> str | None:
        top, dot, below = name.partition(".")
        return self._prefixes[top] + dot + below if top in self._prefixes else None

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        ours = self._ours(name)
        return None if ours is None or find_spec(ours) is None else ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system."""

    def exec_module(self, module: Any) -> None:
        sys.modules[module.__name__] = import_module(str(self._ours(module.__name__)))


def install(*, bare_core: bool = False) -> None:
    """Make ``import openenv`` and ``import openenv_core`` mean ours; with ``bare_core``, ``import core`` as well."""
    prefixes = {"openenv": "paddock.openenv", "openenv_core": "paddock.openenv.core"}
    sys.meta_path.append(_AsOpenEnv({**prefixes, **({"core": "paddock.openenv.core"} if bare_core else {})}))
