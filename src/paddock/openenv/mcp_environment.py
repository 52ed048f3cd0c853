"""MCPEnvironment: an environment whose tools are those of a FastMCP server, as OpenEnv's users write them.

Bring FastMCP along: nothing here depends on it until a server of it is given. New environments are better written as
``paddock.agentic.ToolEnv``, whose tools have rewards and ends. Code mode is not here: an agent's code belongs in a
workspace, not in the process that grades it.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from paddock.errors import DependencyNotInstalled
from paddock.hosting.private_loop import PrivateLoop
from paddock.openenv.environment import Environment
from paddock.openenv.mcp_types import (
    RESERVED_TOOL_NAMES,
    CallToolAction,
    CallToolObservation,
    ListToolsAction,
    ListToolsObservation,
    Tool,
    ToolError,
    ToolErrorType,
)
from paddock.openenv.types import Action, Observation

MCP_TOOL_CALL_TIMEOUT = 30.0  # seconds

_JSON_TYPES = {int: "integer", float: "number", bool: "boolean", "int": "integer", "float": "number", "bool": "boolean"}
# OpenEnv tells the kind of a failure by its words.
_BY_WORDS = {
    ToolErrorType.TOOL_NOT_FOUND: ("not found", "unknown tool"),
    ToolErrorType.INVALID_ARGS: ("invalid", "argument"),
}


class MCPEnvironment(Environment[Action, Observation, Any]):
    """Subclasses write reset, state, and ``_step_impl`` for actions other than the two for tools."""

    def __init__(self, mcp_server: Any, transform: Any = None) -> None:
        super().__init__(transform=transform)
        self._loop = PrivateLoop()
        self.mcp_server: Any = mcp_server
        self.mcp_client: Any = _client_of(mcp_server)
        self._own_tools: dict[str, dict[str | None, Callable[..., Any]]] = {}
        self._check_names()

    @property
    def supports_code_mode(self) -> bool:
        """Never: see above."""
        return False

    @asynccontextmanager
    async def mcp_session(self) -> AsyncIterator[Any]:
        """The client of the server, connected."""
        if self.mcp_client is None:
            raise RuntimeError("MCP client is not available; environment is closed")
        async with self.mcp_client:
            yield self.mcp_client

    def tool(self, mode: str | None = None) -> Callable[[Callable[..., Any]], Any]:
        """A decorator for tools; with a mode, "production" or "simulation", for those that only it has."""
        if mode not in (None, "production", "simulation"):
            raise ValueError(f"Invalid mode '{mode}'. Mode must be 'production', 'simulation', or None.")

        def registered(function: Callable[..., Any]) -> Any:
            _check([function.__name__])
            if mode is None:
                return self.mcp_server.tool()(function)
            self._own_tools.setdefault(function.__name__, {})[mode] = function
            return function

        return registered

    def get_callables(self) -> dict[str, Callable[..., Any]]:
        """The tools of the current mode as plain functions."""
        tools = self._loop.run(self._server_tools())
        found = {tool.name: tool.fn for tool in tools if callable(getattr(tool, "fn", None))}
        return {**found, **self._mode_tools()}

    def step(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        if isinstance(action, (ListToolsAction, CallToolAction)):
            return self._loop.run(self.step_async(action, timeout_s=timeout_s))
        return self._step_impl(action, timeout_s=timeout_s, **kwargs)

    async def step_async(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        if isinstance(action, ListToolsAction):
            return await self._listed()
        if isinstance(action, CallToolAction):
            return await self._called(action, MCP_TOOL_CALL_TIMEOUT if timeout_s is None else timeout_s)
        return self._step_impl(action, timeout_s=timeout_s, **kwargs)

    @abstractmethod
    def _step_impl(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        """Any other action."""

    def close(self) -> None:
        self.mcp_client = self.mcp_server = None
        self._loop.close()

    def _mode_tools(self) -> dict[str, Callable[..., Any]]:
        mode = getattr(self, "_mode", None)
        return {name: by_mode[mode] for name, by_mode in self._own_tools.items() if mode in by_mode}

    async def _server_tools(self) -> list[Any]:
        listed = getattr(self.mcp_server, "list_tools", None) or self.mcp_server.get_tools
        tools = await listed()
        return list(tools.values()) if isinstance(tools, dict) else list(tools)

    def _check_names(self) -> None:
        _check([tool.name for tool in self._loop.run(self._server_tools())])

    async def _listed(self) -> ListToolsObservation:
        try:
            async with self.mcp_session() as client:
                tools = await client.list_tools()
        except Exception as error:
            return ListToolsObservation(tools=[], metadata={"error": str(error), "error_type": "list_tools_failed"})
        found = [
            Tool(name=one.name, description=one.description or "", input_schema=_input_schema(one))
            for one in tools
            if one.name not in self._own_tools
        ]
        own = [
            Tool(name=name, description=function.__doc__ or "", input_schema=_schema_of(function))
            for name, function in self._mode_tools().items()
        ]
        return ListToolsObservation(tools=found + own)

    async def _called(self, action: CallToolAction, timeout_s: float) -> CallToolObservation:
        name = action.tool_name
        try:
            if name in self._own_tools:
                return CallToolObservation(tool_name=name, result=await self._own(name, action.arguments))
            async with self.mcp_session() as client:
                result = await asyncio.wait_for(client.call_tool(name, action.arguments), timeout_s)
            return CallToolObservation(tool_name=name, result=result)
        except asyncio.TimeoutError:
            kind, words = ToolErrorType.TIMEOUT, f"Tool '{name}' timed out after {timeout_s} seconds"
        except Exception as error:
            words = str(error)
            kind = next(
                (kind for kind, parts in _BY_WORDS.items() if any(part in words.lower() for part in parts)),
                ToolErrorType.EXECUTION_ERROR,
            )
        return CallToolObservation(tool_name=name, error=ToolError(error_type=kind, message=words))

    async def _own(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a tool of one mode gives, in the form that FastMCP's client has."""
        function = self._mode_tools().get(name)
        if function is None:
            raise LookupError(f"Unknown tool: '{name}' is not available in {getattr(self, '_mode', None)} mode")
        result = function(**arguments)
        result = await result if inspect.isawaitable(result) else result
        return {
            "content": [{"type": "text", "text": str(result), "annotations": None, "meta": None}],
            "structured_content": {"result": result},
            "meta": None,
            "data": result,
            "is_error": False,
        }


def _client_of(server: Any) -> Any:
    try:
        from fastmcp import Client
    except ImportError as error:
        raise DependencyNotInstalled(
            f"MCPEnvironment({type(server).__name__}) needs fastmcp: pip install fastmcp. Or write a "
            "paddock.agentic.ToolEnv, which needs nothing."
        ) from error
    return Client(server)


def _check(names: list[str]) -> None:
    conflicts = sorted(RESERVED_TOOL_NAMES.intersection(names))
    if conflicts:
        raise ValueError(
            f"MCP tools cannot use reserved names: {conflicts}. Reserved names are: {sorted(RESERVED_TOOL_NAMES)}"
        )


def _input_schema(tool: Any) -> dict[str, Any]:
    """By FastMCP's two spellings."""
    found = getattr(tool, "inputSchema", None) or getattr(tool, "input_schema", None)
    return found if isinstance(found, dict) else {}


def _schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """What OpenEnv makes of a tool of one mode: the simple types alone."""
    parameters = inspect.signature(function).parameters
    return {
        "type": "object",
        "properties": {name: {"type": _JSON_TYPES.get(one.annotation, "string")} for name, one in parameters.items()},
        "required": [name for name, one in parameters.items() if one.default is one.empty],
    }
