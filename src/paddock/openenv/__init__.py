"""OpenEnv's names over paddock's: write ``from paddock.openenv import …`` instead of ``from openenv.core import …``.

Clients need nothing beyond the base install; types and environments are pydantic models and need pydantic. OpenEnv's
modules are here too: ``paddock.openenv.core.env_server.types`` for ``openenv.core.env_server.types``. After
``install()``, programs that import ``openenv`` get these without a change.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from paddock.aliases import Exports, add_aliases

ALIASES: dict[str, Exports] = {
    "auto": {"paddock.openenv.auto_env": "AutoAction AutoEnv"},
    "auto.auto_action": {"paddock.openenv.auto_env": "AutoAction"},
    "auto.auto_env": {"paddock.openenv.auto_env": "AutoEnv"},
    "core": "paddock.openenv",
    "core.client_types": {"paddock.openenv.client": "ObsT StateT StepResult"},
    "core.containers": "paddock.openenv.containers",
    "core.containers.runtime": "paddock.openenv.containers",
    "core.containers.runtime.providers": {
        "paddock.openenv.containers": "ContainerProvider DockerSwarmProvider KubernetesProvider LocalDockerProvider "
        "RuntimeProvider"
    },
    "core.containers.runtime.uv_provider": {"paddock.openenv.containers": "UVProvider"},
    "core.env_client": {"paddock.openenv.client": "EnvClient StepResult"},
    "core.env_server": "paddock.openenv",
    "core.env_server._utils": {"paddock.openenv.environment": "overrides_method"},
    "core.env_server.base_transforms": {"paddock.openenv.environment": "CompositeTransform NullTransform"},
    "core.env_server.exceptions": {
        "paddock.openenv.exceptions": "ConcurrencyConfigurationError EnvironmentFactoryError OpenEnvError "
        "SessionCapacityError SessionCreationError SessionNotFoundError"
    },
    "core.env_server.http_server": {"paddock.openenv.app": "HTTPEnvServer create_app create_fastapi_app"},
    "core.env_server.interfaces": {
        "paddock.openenv.environment": "Environment ModelTokenizer TaskProvider Transform",
        "paddock.openenv.types": "Action EnvironmentMetadata Message Observation State",
    },
    "core.env_server.mcp_environment": {
        "paddock.openenv.environment": "MCPEnvironment MCP_TOOL_CALL_TIMEOUT get_server_tools",
        "paddock.openenv.types": "CallToolAction CallToolObservation ListToolsAction ListToolsObservation Tool",
    },
    "core.env_server.mcp_types": {
        "paddock.openenv.types": "CallToolAction CallToolObservation JsonRpcError JsonRpcErrorCode JsonRpcRequest "
        "JsonRpcResponse ListToolsAction ListToolsObservation McpMethod RESERVED_TOOL_NAMES Tool ToolError "
        "ToolErrorType WSMCPMessage WSMCPResponse"
    },
    "core.env_server.route_config": {"paddock.openenv.web_interface": "GetEndpointConfig register_get_endpoints"},
    "core.env_server.serialization": {
        "paddock.openenv.types": "deserialize_action deserialize_action_with_preprocessing serialize_observation"
    },
    "core.env_server.types": {
        "paddock.openenv.types": "Action BaseMessage CodeExecResult ConcurrencyConfig EnvironmentMetadata "
        "GetTaskRangeRequest GetTaskRequest HealthResponse HealthStatus ListTasksRequest NumTasksRequest Observation "
        "ResetRequest ResetResponse Scalar SchemaResponse ServerCapacityStatus ServerMode SessionInfo State "
        "StepRequest StepResponse WSCloseMessage WSErrorCode WSErrorResponse WSIncomingMessage WSObservationResponse "
        "WSResetMessage WSStateMessage WSStateResponse WSStepMessage"
    },
    "core.env_server.web_interface": {
        "paddock.openenv.web_interface": "ActionLog EpisodeState WebInterfaceManager create_web_interface_app "
        "load_environment_metadata"
    },
    "core.evals": {"paddock.openenv.evals": "EvalConfig EvalHarness EvalResult InspectAIHarness"},
    "core.evals.base": {"paddock.openenv.evals": "EvalConfig EvalHarness EvalResult"},
    "core.evals.inspect_harness": {"paddock.openenv.evals": "EvalHarness InspectAIHarness"},
    "core.evals.types": {"paddock.openenv.evals": "EvalConfig EvalResult"},
    "core.generic_client": {"paddock.openenv.client": "GenericAction GenericEnvClient"},
    "core.harness": {
        "paddock.openenv.harness": "CLIHarnessAdapter HarnessAdapter HarnessRolloutResult HarnessRunLimits "
        "LoopOwningSession MCPHarnessAdapter Message ModelStep ModelStepResult RESERVED_TOOL_NAMES ResourceSession "
        "ResourceSessionFactory RolloutEvent SessionMCPBridge StepEnvSessionAdapter ToolResult ToolTraceEntry "
        "TraceEntry TrainableSession TrainingTrace TrainingTurn VerifyResult _resolve_env_reward "
        "build_harness_rollout_func",
        "paddock.openenv.harness_turns": "AgenticHarnessAdapter HarnessAction HarnessClientMessage HarnessConfig "
        "HarnessEnvironment HarnessError HarnessEvent HarnessEventType HarnessMCPBridge HarnessNotRunningError "
        "HarnessProcess HarnessResponse HarnessStartupError HarnessTransport HarnessTurnTimeoutError "
        "build_bridge_server events_to_metadata resolve_tool_conflicts",
    },
    "core.harness.adapter": {
        "paddock.openenv.harness_turns": "AgenticHarnessAdapter HarnessError HarnessNotRunningError "
        "HarnessStartupError HarnessTurnTimeoutError"
    },
    "core.harness.bridge": {"paddock.openenv.harness_turns": "HarnessMCPBridge build_bridge_server"},
    "core.harness.config": {"paddock.openenv.harness_turns": "HarnessConfig HarnessTransport"},
    "core.harness.environment": "paddock.openenv.harness_turns",
    "core.harness.events": {
        "paddock.openenv.harness_turns": "HarnessClientMessage HarnessEvent HarnessEventType HarnessProtocolError "
        "HarnessResponse events_to_metadata"
    },
    "core.harness.process": {"paddock.openenv.harness_turns": "HarnessProcess"},
    "core.harness.rollout": {
        "paddock.openenv.harness": "CLIHarnessAdapter HarnessAdapter HarnessRolloutResult HarnessRunLimits "
        "LoopOwningSession MCPHarnessAdapter Message ModelStep ModelStepResult RESERVED_TOOL_NAMES ResourceSession "
        "ResourceSessionFactory RolloutEvent SessionMCPBridge StepEnvSessionAdapter ToolResult ToolTraceEntry "
        "TraceEntry TrainableSession VerifyResult _resolve_env_reward build_harness_rollout_func"
    },
    "core.harness.tools": {"paddock.openenv.harness_turns": "resolve_tool_conflicts"},
    "core.harness.training": {"paddock.openenv.harness": "TrainingTrace TrainingTurn"},
    "core.http_env_client": {"paddock.openenv.client": "HTTPEnvClient StepResult"},
    "core.llm_client": "paddock.openenv.llm_client",
    "core.mcp_client": {"paddock.openenv.mcp_client": "GenericMCPObservation MCPClientBase MCPToolClient"},
    "core.rubrics": {
        "paddock.openenv.rubrics": "ExponentialDiscountingTrajectoryRubric Gate LLMJudge Rubric RubricDict RubricList "
        "Sequential TrajectoryRubric WeightedSum"
    },
    "core.rubrics.base": {"paddock.openenv.rubrics": "Rubric"},
    "core.rubrics.containers": {"paddock.openenv.rubrics": "Gate RubricDict RubricList Sequential WeightedSum"},
    "core.rubrics.llm_judge": {"paddock.openenv.rubrics": "LLMJudge"},
    "core.rubrics.trajectory": {"paddock.openenv.rubrics": "ExponentialDiscountingTrajectoryRubric TrajectoryRubric"},
    "core.sync_client": {"paddock.openenv.client": "SyncEnvClient"},
    "core.tools": {"paddock.openenv.tools": "GitServerClient PyExecutor RepoInfo"},
    "core.tools.git_server_client": {"paddock.openenv.tools": "GitServerClient RepoInfo"},
    "core.tools.local_python_executor": {"paddock.openenv.tools": "PyExecutor"},
    "core.types": {
        "paddock.openenv.client": "StepResult",
        "paddock.openenv.types": "Action Observation State",
    },
    "core.utils": {
        "paddock.openenv.client": "convert_to_ws_url",
        "paddock.openenv.containers": "hf_space_subdomain",
        "paddock.openenv.environment": "run_async_safely",
    },
}
add_aliases(__name__, ALIASES)

# Modules of OpenEnv 0.10 that paddock leaves out on purpose: why, and what to use instead. docs/openenv.md shows them.
_VENDOR = (
    "paddock has no vendor's sandboxes; start the server with the vendor's own tool and pass its URL to the client"
)
REFUSALS = {
    "cli": "its commands are `paddock openenv …`",
    "core.containers.runtime.aca_provider": _VENDOR,
    "core.containers.runtime.daytona_provider": _VENDOR,
    "core.containers.runtime.hf_sandbox_provider": _VENDOR,
    "core.containers.runtime.modal_provider": _VENDOR,
    "core.containers.runtime.novita_provider": _VENDOR,
    "core.env_server.gradio_theme": "there is no web page for OpenEnv environments",
    "core.env_server.gradio_ui": "there is no web page for OpenEnv environments",
    "core.harness.capture": "paddock.seat puts a recording proxy before a model (docs/agents.md)",
    "core.harness.collect": "paddock.agentic.rollout plays episodes and records them as traces (docs/traces.md)",
    "discovery": "paddock searches no hub; `paddock list` shows what is installed",
    "harbor": "paddock does not run Harbor's tasks; write them as paddock.agentic tasks (docs/agentic.md)",
    "validation": "`paddock check` and `paddock openenv validate` check environments",
}
__version__ = "0.10.0"
"""The version of OpenEnv that these names are those of; after ``install()`` it is ``openenv.__version__``."""


class _StandIn:
    """A finder for ``sys.meta_path``: ``openenv.core.x`` is the very module ``paddock.openenv.core.x``."""

    def __init__(self) -> None:
        self.roots = {"openenv": "paddock.openenv", "openenv_core": "paddock.openenv.core"}

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        root, dot, below = fullname.partition(".")
        if root not in self.roots:
            return None
        if root == "core" and _has_own_core():
            return None
        ours = find_spec(home := f"{self.roots[root]}{dot}{below}")
        if ours is None:
            raise ModuleNotFoundError(_explain(fullname, home), name=fullname)
        spec = ModuleSpec(fullname, self, origin=home)  # type: ignore[arg-type]  # typeshed wants load_module
        spec.submodule_search_locations = ours.submodule_search_locations
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave it to the import system: what it makes is replaced at once."""

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        assert module.__spec__.origin is not None
        sys.modules[module.__name__] = import_module(module.__spec__.origin)


_stand_in = _StandIn()


def install(*, bare_core: bool = False) -> None:
    """Make ``import openenv``, and the older ``openenv_core``, mean paddock.openenv in this process.

    Call it before anything imports ``openenv``. With ``bare_core``, ``core`` means it too, as in OpenEnv's first
    environments, unless the program has a ``core`` of its own. A second call changes nothing, or adds ``core``. Other
    processes are not affected, and ``importlib.metadata`` still speaks of what is installed.
    """
    for name in sorted(sys.modules):
        if name.partition(".")[0] not in ("openenv", "openenv_core") or _is_ours(name):
            continue
        place = getattr(sys.modules[name], "__file__", None) or "a place unknown"
        raise ImportError(
            f"{name} is already imported, from {place}: two of it in one process would not know each other's classes. "
            "Call paddock.openenv.install() before the first import of it, at the top of your program.",
            name=name,
        )
    if bare_core:
        _stand_in.roots["core"] = "paddock.openenv.core"
    if _stand_in not in sys.meta_path:
        sys.meta_path.insert(0, _stand_in)


def uninstall() -> None:
    """Undo ``install()``. Modules that have imported ours keep them."""
    if _stand_in in sys.meta_path:
        sys.meta_path.remove(_stand_in)
        for name in list(sys.modules):
            if name.partition(".")[0] in _stand_in.roots and _is_ours(name):
                del sys.modules[name]
    _stand_in.roots.pop("core", None)


def _is_ours(name: str) -> bool:
    return getattr(sys.modules[name], "__name__", "").startswith("paddock.")


def _has_own_core() -> bool:
    """Whether the program has a ``core`` of its own; a folder without ``__init__.py`` is not one."""
    if "core" in sys.modules:
        return not _is_ours("core")
    found = PathFinder.find_spec("core")
    return found is not None and found.origin is not None


def _explain(name: str, home: str) -> str:
    below = home.removeprefix("paddock.openenv.")
    for refused, why in REFUSALS.items():
        if f"{below}.".startswith(f"{refused}."):
            return f"{name} is not in paddock's openenv on purpose: {why}."
    return f"No module named {name!r}: openenv is paddock's here, after paddock.openenv.install(), and has no {home!r}."


# Every name of those modules is here as well, and a few that OpenEnv doesn't have.
_HOMES = {
    "AsEnv": "paddock.sources.openenv",
    "ConnectionLost": "paddock.hosting.openenv.client",
    "OutcomeUnknown": "paddock.hosting.openenv.client",
    "ServerError": "paddock.hosting.openenv.client",
}
_HOMES |= dict.fromkeys(
    ("AnthropicClient", "LLMClient", "LLMResponse", "OpenAIClient", "ToolCall", "create_llm_client"),
    "paddock.openenv.llm_client",
)
for _exports in ALIASES.values():
    for _home, _names in () if isinstance(_exports, str) else _exports.items():
        for _name in _names.split():
            if not _name.startswith("_"):
                _HOMES.setdefault(_name, _home)  # of two the first: Message is the environments', not the harness's

__all__ = sorted([*_HOMES, "install", "uninstall"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
