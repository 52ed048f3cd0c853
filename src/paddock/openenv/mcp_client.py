"""MCPToolClient: OpenEnv's client for tools. Its calls and its episodes share one connection and one session.

OpenEnv's own sends tool calls over HTTP beside it, and shows no tools if it can't list them; here that is an error.
Works with OpenEnv's servers and with paddock's. Needs pydantic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddock.hosting.openenv.client import ServerError
from paddock.openenv.client import EnvClient, Record, StepResult
from paddock.openenv.types import (
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Observation,
    State,
    Tool,
    ToolError,
)


class GenericMCPObservation(Observation):
    """An observation with whatever fields its environment has."""

    model_config = {"extra": "allow"}


class MCPClientBase(EnvClient[Any, Observation, State]):
    """Lists tools, and steps with OpenEnv's actions for them. As in OpenEnv, its mode is "production"."""

    use_production_mode = True  # programs read and set it; tools go over the one connection either way

    def __init__(
        self,
        base_url: str | None = None,
        connect_timeout_s: float = 10.0,
        message_timeout_s: float = 60.0,
        websocket_ping_interval_s: float | None = 20.0,
        websocket_ping_timeout_s: float | None = 20.0,
        provider: Any = None,
        mode: str | None = None,
        max_message_size_mb: float = 100.0,
        headers: dict[str, str] | None = None,
    ) -> None:
        mode = "production" if mode is None else mode
        if mode.lower() != "production":
            raise ValueError(
                f"{type(self).__name__} only supports 'production' mode, got '{mode[:60]}'. "
                "Use GenericEnvClient for simulation mode."
            )
        super().__init__(
            base_url,
            connect_timeout_s,
            message_timeout_s,
            max_message_size_mb,
            websocket_ping_interval_s,
            websocket_ping_timeout_s,
            provider,
            mode,
            headers,
        )
        self._tools: list[Tool] | None = None
        self._requests = 0

    def list_tools(self, use_cache: bool = True) -> Any:
        """Return the tools, a list of Tool; those of the last time unless ``use_cache`` is False."""
        return self._with_tools(lambda tools: tools, use_cache=use_cache)

    def _with_tools(self, read: Callable[[list[Tool]], Any], *, use_cache: bool = True) -> Any:
        if use_cache and self._tools is not None:
            self._decide()
            return self._result(read(self._tools))

        def take(result: Record) -> Any:
            self._tools = [_tool(one) for one in result.get("tools", [])]
            return read(self._tools)

        return self._rpc("tools/list", {}, "list_tools failed", take)

    def _rpc(self, method: str, params: Record, failed: str, read: Callable[[Record], Any]) -> Any:
        self._requests += 1
        request = {"jsonrpc": "2.0", "method": method, "params": params, "id": self._requests}

        def take(answer: Record) -> Any:
            error = answer.get("error")
            if error is not None:
                raise ServerError(f"{failed}: {error.get('message', 'unknown error')}", details=error)
            return read(answer.get("result") or {})

        return self._ask("mcp", request, take)

    def _step_payload(self, action: Any) -> Record:
        if isinstance(action, ListToolsAction):
            return {"type": "list_tools"}
        if isinstance(action, CallToolAction):
            return {"type": "call_tool", "tool_name": action.tool_name, "arguments": action.arguments}
        if isinstance(action, dict):
            return action
        return action.model_dump() if hasattr(action, "model_dump") else {"action": str(action)}

    def _parse_result(self, payload: Record) -> StepResult[Observation]:
        fields = dict(payload.get("observation", {}))
        reward, done, metadata = payload.get("reward"), payload.get("done", False), payload.get("metadata")
        beside = {"done": done, "reward": reward, "metadata": fields.pop("metadata", None) or metadata or {}}
        observation: Observation
        if "tools" in fields:
            observation = ListToolsObservation(tools=[_tool(one) for one in fields["tools"]], **beside)
        elif "tool_name" in fields:
            error = ToolError(**fields["error"]) if fields.get("error") else None
            observation = CallToolObservation(
                tool_name=fields["tool_name"], result=fields.get("result"), error=error, **beside
            )
        else:
            observation = GenericMCPObservation(**{**fields, **beside})
        return StepResult(observation, reward, done, metadata)

    def _parse_state(self, payload: Record) -> State:
        return State(**payload)


class MCPToolClient(MCPClientBase):
    """Calls tools by name: ``call_tool("add", a=5, b=3)``."""

    def call_tool(self, name: str, **arguments: Any) -> Any:
        """Return what the tool returned; ServerError, a RuntimeError, if it failed."""
        params = {"name": name, "arguments": arguments}
        return self._rpc("tools/call", params, f"Tool '{name}' failed", lambda result: result.get("data", result))

    def get_tool(self, name: str) -> Any:
        return self._with_tools(lambda tools: next((one for one in tools if one.name == name), None))

    def has_tool(self, name: str) -> Any:
        return self._with_tools(lambda tools: any(one.name == name for one in tools))


def _tool(fields: Record) -> Tool:
    schema = fields.get("input_schema", fields.get("inputSchema", {}))
    return Tool(name=fields.get("name", ""), description=fields.get("description") or "", input_schema=schema)
